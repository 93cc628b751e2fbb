"""What a cell needs of the cells above it, read from the code alone: when the book is built, and in the page."""

from itertools import chain

from .uses import MODEL, Uses, uses

SETTINGS = ("set_", "seed", "use_")  # how a module's function is called that changes the module
RANDOM = "random"  # the module, and NumPy's, whose functions draw from one hidden generator
OWN_GENERATOR = {"default_rng", "Generator", "RandomState", "Random", "SeedSequence", "PCG64"}


class Page:
    """The cells of a page, in order: for each what it reads, sets for certain, and writes in any way."""

    def __init__(self, sources):
        found = [uses(source) for source in sources]
        self._modules = set().union(*(one.modules for one in found))
        self._stateful = set()
        self._shared = {}  # name -> the names that may hold the same thing, or a part of it
        self._known = {}  # name -> the Uses of the functions that may be called through it
        self.reads, self.sets, self.may_set, self.changes = [], [], [], []
        self._plain = []  # of each cell what it reads, and writes, under those very names
        self.anything = [one.anything for one in found]
        for one in found:
            self._add(one)

    def _add(self, one):
        known = self._known
        for name in (one.sets | one.turns) - one.functions.keys() - one.reads:
            known.pop(name, None)
        for name, function in one.functions.items():
            known[name] = [function]
        self._connect(one)
        reads, through, changes = set(one.reads), set(), self._changes(one)
        waiting, seen = [one.mentions], set()
        while waiting:  # what a function of the page reads and changes, its caller does
            for name in waiting.pop() & known.keys() - seen:
                seen.add(name)
                for function in known[name]:
                    through |= function.reads
                    changes |= self._changes(function)
                    waiting.append(function.reads)
        plain = changes - (one.sets - reads - (through - one.sets))
        self._plain.append((reads | through - one.sets | plain, one.sets | one.may_set | plain))
        reads |= through - one.functions.keys() - one.modules  # though set here: perhaps after the call
        changes = set().union(changes, *(self._shared.get(name, ()) for name in changes))
        if one.anything:
            reads |= set().union(*self.sets, *self.may_set, *self.changes)
            changes |= reads
        changes -= one.sets - reads  # set here first: what was there before is left alone
        self.reads.append(reads | changes | (one.may_set - one.sets - one.turns))
        self.sets.append(one.sets)
        self.may_set.append(one.may_set - one.sets)
        self.changes.append(changes)

    def _connect(self, one):
        """Note which names share something, which are random generators and the like, and which carry functions."""
        known, before = self._known, self._shared
        new = one.sets | one.turns
        self._shared = {name: group - new for name, group in before.items() if name not in new}
        was_stateful, self._stateful = self._stateful, self._stateful - new | one.stateful
        for names, mentioned, called, in_lambdas in one.carries:
            called = {name for name in called & known.keys() if any(function.makes for function in known[name])}
            through = list(chain.from_iterable(known[name] for name in (mentioned | called) & known.keys()))
            through += [Uses(reads=in_lambdas, lends=in_lambdas)] if in_lambdas else []
            for name in names if through else ():
                known[name] = [*known.get(name, ()), *through]
        for names, others, function in one.links:
            through = known.get(function, ())
            lent = set().union(*(it.lends for it in through))
            gives = function is None or any(it.gives for it in through)
            if gives or lent:
                others = ((others if gives else set()) | lent) - self._modules
                if others & (was_stateful | self._stateful):
                    self._stateful |= names
                older = set().union(*(before.get(name, ()) for name in others & one.reads)) - new
                group = set().union(names, others, older, *(self._shared.get(name, ()) for name in names | others))
                self._shared |= dict.fromkeys(group, group)
            if any(it.stateful for it in through):
                self._stateful |= names

    def _changes(self, one):
        called = {name for name, how in one.calls if name not in self._modules or _changes_module(name, how)}
        found = one.changes | called | (one.reads | one.mentions) & self._stateful
        for name, place, shared in one.given:
            for function in self._known.get(name, ()):
                if any(place in (at, parameter, None) for at, parameter in function.changed):
                    found = found | shared
        return found

    def writes(self, cell):
        """Every name that holds something else after this cell."""
        return self.sets[cell] | self.may_set[cell] | self.changes[cell]

    def plan(self, cell):
        """The cells above that this one needs, in order."""
        needed, cells = set(self.reads[cell]), []
        for above in range(cell - 1, -1, -1):
            if self.anything[above] or self.writes(above) & needed:
                cells.append(above)
                needed = (needed - (self.sets[above] - self.reads[above])) | self.reads[above]
        return cells[::-1]

    def with_model(self):
        """The cells that need the real model, or what one of them sets."""
        missing, cells = {MODEL}, set()
        for cell, (reads, writes) in enumerate(self._plain):
            if reads & missing:
                cells.add(cell)
                missing |= writes
            else:
                missing -= self.sets[cell]
        return cells


def _changes_module(name, how):
    """Whether calling `name.how` changes a module."""
    path = [name, *how.split(".")]
    return path[-1].startswith(SETTINGS) or RANDOM in path[:-1] and path[-1] not in OWN_GENERATOR
