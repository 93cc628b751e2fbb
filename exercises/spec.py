"""What an exercise is: one dataclass for each kind, which the files of this folder that judge an answer fill in."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What every exercise has. Its prompt and stub stand in the chapter; its file holds all that judges an answer.

    The file is named after the id, with ``_`` for ``-``, and calls its Exercise ``exercise``.

    Parameters
    ----------
    id : str, what learners type: ``check("rmsnorm-backward", answer)``
    title : str
    chapter : str, the file of the chapter that holds the prompt, without folder and ending: "07_block"
    answer : str, the name that the stub binds, by which the grader finds an answer whose `check` was deleted
    points, stars, minutes : int; what it is worth, how hard it is (1 to 3), how long it takes
    hints : tuple of str, from a nudge to nearly the solution
    takeaway : str, what to remember; shown with "passed"
    """

    id: str
    title: str
    chapter: str
    answer: str
    points: int
    stars: int
    minutes: int
    hints: tuple[str, ...]
    takeaway: str = ""


@dataclass(frozen=True, kw_only=True)
class Code(Exercise):
    """The answer is a function. To write one, copy `rmsnorm_backward.py` (arrays) or `count_block.py` (whole numbers).

    Parameters
    ----------
    args, returns : tuples of str, the names of what the answer is called with and of what it returns. A gradient is
        called ``d`` and the name of its argument.
    cases : function of a NumPy random Generator; yields one tuple of arguments after another, **in ascending size**, so
        that the first one which fails is the smallest. Float arrays come in float64; the checker makes float32 of them
        by itself. Unequal dimensions, a random upstream, scales from 1e-3 to 1e3: mistakes hide where these are equal.
    reference : the right answer, from scratch, in the answer's signature. It keeps the dtype of its arguments.
    rounding : function of the arguments, needed where a float is returned. For each of `returns`, how far a right
        answer may be from the exact one, in units of the dtype's unit roundoff u, shape by shape. Count the roundings
        on the longest path, and multiply by the formula with every term replaced by its absolute value
        (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1).
    mutants : wrong answers that people really give. The docstring of each is the sentence its author will read. Where
        two of them agree on every case, the first one's is shown.
    variants : right answers written otherwise; the docstring says how.
    library : tuple of str, dotted names of the functions in scratch that are the answer, and so are closed to it
    loss : for a backward: function of the same arguments that gives Σ upstream ⊙ out in plain NumPy, whatever the
        dtype, complex too. The certification builds finite differences on it, which must not pass.
    large : for a backward: function of a Generator that returns one case of 20,000 entries or more, too many for one
        forward each. A right answer of plain Python loops has to take less than half a second on it.
    """

    args: tuple[str, ...]
    returns: tuple[str, ...]
    cases: Callable
    reference: Callable
    rounding: Callable | None = None
    mutants: tuple[Callable, ...]
    variants: tuple[Callable, ...]
    library: tuple[str, ...] = ()
    loss: Callable | None = None
    large: Callable | None = None


@dataclass(frozen=True, kw_only=True)
class Number(Exercise):
    """The answer is one number, and each learner has a question of their own. Copy `flops.py`.

    Parameters
    ----------
    quantities : function of a NumPy random Generator; returns what the question gives, by name: {"D": 512, "T": 1024}
    question : str, what is asked; it may name the quantities
    unit : str, of the answer
    reference : the right answer, from scratch, called with the quantities by name
    mutants : functions like it that make a known mistake; the docstring is the sentence
    variants : functions like it that are right
    tolerance : float, relative; 0 for whole numbers
    """

    quantities: Callable
    question: str
    unit: str
    reference: Callable
    mutants: tuple[Callable, ...]
    variants: tuple[Callable, ...]
    tolerance: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One question of a Choice, or one prediction.

    Parameters
    ----------
    name : str, the key of the answer
    ask : str, the question
    options : dict, key -> what it says
    wrong : dict, key -> the sentence for whoever chose it; all keys but the right one
    right : function that returns the right key, where that can be by running what the question is about
    """

    name: str
    ask: str
    options: dict[str, str]
    wrong: dict[str, str]
    right: Callable


@dataclass(frozen=True, kw_only=True)
class Choice(Exercise):
    """The answer is a key of each part's options, in a dict; of a single part, the key itself. Copy `contributions.py`.

    Choices, predictions (whose right answer is found by running a live block), and explanations: these commit to
    predictions, which are judged here, and hold the learner's own words, which an instructor reads.

    Parameters
    ----------
    parts : tuple of Part
    words : int, how many the explanation needs; 0 if none is asked for
    rubric : tuple of str, what an instructor looks for in the words
    """

    parts: tuple[Part, ...]
    words: int = 0
    rubric: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Order(Exercise):
    """The answer is the keys of the steps in an order that works. Copy `order_backward.py`.

    Parameters
    ----------
    steps : dict, key -> what the step does; shown in this order, which is not the right one
    before : tuple of (first, second, sentence): `first` comes before `second`, and what who has it otherwise will read
    works : function of the keys in an order; runs them, and says whether what comes out is right
    """

    steps: dict[str, str]
    before: tuple[tuple[str, str, str], ...]
    works: Callable


def sentence(function):
    """The docstring of a mutant or variant as one line: what the learner reads."""
    return " ".join((function.__doc__ or "").split())
