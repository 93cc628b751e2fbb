"""What stands for an answer that runs in another process: the grader's, which trusts no answer."""


class Elsewhere:
    """An answer that is called in another process, by the grader. Its `__signature__` is the answer's own."""

    attributes = ()  # the names of attributes that its code looks up

    def expect(self, cases):
        """These will be run in this order, as long as they go well: it may begin before it is asked."""

    def run(self, args, seconds=None):
        """Call it with args; returns a Run. Of more than `seconds`, if given, its error is TooSlow."""
        raise NotImplementedError

    def __call__(self, *args):
        raise TypeError("an answer elsewhere is only run")


class Described(Exception):
    """An error whose message is already the sentence for the learner."""
