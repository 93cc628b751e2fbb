"""Exercise init-growth: how large the stream is after L untrained blocks, with numbers of the learner's own."""

import math

from exercises.spec import Number


def quantities(rng):
    """A stack and two sizes, drawn again until no two of the answers below agree."""
    while True:
        given = {
            "L": int(rng.integers(6, 61)),
            "s": int(rng.integers(15, 40)) / 10,
            "a": int(rng.integers(20, 90)) / 100,
        }
        found = sorted(f(**given) for f in (reference, *MUTANTS))
        if all(high > 1.03 * low for low, high in zip(found, found[1:])):
            return given


def reference(L, s, a):
    """Squares add up: the start's, and one for each of 2L additions."""
    return math.sqrt(s * s + 2 * L * a * a)


# ---- wrong answers; each docstring is what its author will read ----


def added(L, s, a):
    """You added the sizes. That is right for vectors of one direction; these stand at right angles, so squares add."""
    return s + 2 * L * a


def one_direction(L, s, a):
    """You let all additions point in one direction, at a right angle to the start. They stand at right angles to each
    other as well."""
    return math.sqrt(s * s + (2 * L * a) ** 2)


def one_a_block(L, s, a):
    """You counted one addition a block. Each block adds twice: attention, and the feed-forward."""
    return math.sqrt(s * s + L * a * a)


def without_the_start(L, s, a):
    """You left out the stream's start. The embedding is one of the vectors in the sum."""
    return math.sqrt(2 * L) * a


def root_of_the_additions(L, s, a):
    """You took the root of the additions' squares, and then added the start. Its square belongs under the root too."""
    return s + math.sqrt(2 * L) * a


def no_root(L, s, a):
    """That is the mean square. Its root is asked for."""
    return s * s + 2 * L * a * a


def start_multiplied(L, s, a):
    """You multiplied the start by √(2L). It is the sum of 2L additions that is √(2L) times as large as one."""
    return s * math.sqrt(2 * L)


def divided(L, s, a):
    """That is what is left when the additions are divided by √(2L). Here they are not: each has size a."""
    return math.sqrt(s * s + a * a)


MUTANTS = (
    added,
    one_direction,
    one_a_block,
    without_the_start,
    root_of_the_additions,
    no_root,
    start_multiplied,
    divided,
)


# ---- right answers, found otherwise ----


def block_by_block(L, s, a):
    """One addition after the other, each at a right angle to all before."""
    size = s
    for _ in range(2 * L):
        size = math.hypot(size, a)
    return size


def rounded(L, s, a):
    """To three digits."""
    return float(f"{math.sqrt(s**2 + 2 * L * a**2):.3g}")


def as_one_vector(L, s, a):
    """The length of a vector that has all sizes as entries."""
    return math.hypot(s, *[a] * (2 * L))


exercise = Number(
    id="init-growth",
    title="How large the stream gets",
    chapter="09_stack",
    answer="size",
    points=1,
    stars=1,
    minutes=5,
    quantities=quantities,
    question=(
        "An untrained stack has L blocks. The stream starts with root-mean-square s. Each addition to it has "
        "root-mean-square a, and stands at right angles to all that is there. What is the stream's root-mean-square "
        "after the last block? Three digits will do."
    ),
    unit="units of the stream",
    reference=reference,
    mutants=MUTANTS,
    variants=(block_by_block, rounded, as_one_vector),
    tolerance=5e-3,
    hints=(
        "How often does a block add to the stream?",
        "At right angles, squared lengths add up, as in Pythagoras' theorem. So do mean squares.",
        "√(s² + 2 L a²).",
    ),
    takeaway="Random additions grow like √(2L), not like 2L. Divided by √(2L), they add up to about one addition.",
)
