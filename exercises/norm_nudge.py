"""Exercise norm-nudge: one slope of RMSNorm by hand, from one feature to another, for a row of the learner's own."""

import numpy as np

from exercises.spec import Number
from scratch import ops

# rows whose root-mean-square is a whole number; none with a 4, which would let two mistakes agree
_ROWS = ((1, 1, 3, 5), (1, 3, 3, 9), (1, 5, 5, 7), (2, 2, 6, 10), (1, 5, 7, 11), (1, 9, 11, 11))


def quantities(rng):
    """One of the rows, in any order and with any signs; the two features in question differ in size, and x2 is no 1."""
    row = rng.permutation(_ROWS[rng.integers(len(_ROWS))])
    while row[0] == row[1] or row[1] == 1:
        row = rng.permutation(row)
    row *= rng.choice([-1, 1], 4)
    return {f"x{i + 1}": int(x) for i, x in enumerate(row)} | {"g2": int(rng.choice([3, 5, 7]))}


def reference(x1, x2, x3, x4, g2):
    """What reaches x1 of an upstream that is 1 at feature 2 and 0 elsewhere."""
    gain, upstream = np.array([1.0, g2, 1, 1]), np.array([0.0, 1, 0, 0])
    _, cache = ops.rmsnorm_forward(np.array([x1, x2, x3, x4], dtype=np.float64), gain, 0.0)
    return float(ops.rmsnorm_backward(upstream, cache)[0][0])


def _r(*row):
    return 1 / float(np.sqrt(np.mean(np.square(row))))


# ---- wrong answers; each docstring is what its author will read ----


def nothing(x1, x2, x3, x4, g2):
    """You said that feature 1 does not act on feature 2. It does: it changes the row's size, and all four features are
    divided by that size."""
    return 0.0


def wrong_sign(x1, x2, x3, x4, g2):
    """The size is right, the sign is not: where x1 grows in size, r becomes smaller."""
    return -reference(x1, x2, x3, x4, g2)


def sum_for_mean(x1, x2, x3, x4, g2):
    """That is four times too much: r holds the mean of the squares, so each of them counts a fourth."""
    return 4 * reference(x1, x2, x3, x4, g2)


def half_left(x1, x2, x3, x4, g2):
    """That is half: the ½ of the root cancels against the 2 of the square."""
    return reference(x1, x2, x3, x4, g2) / 2


def two_left(x1, x2, x3, x4, g2):
    """That is twice too much: the 2 of the square cancels against the ½ of the root."""
    return 2 * reference(x1, x2, x3, x4, g2)


def r_once(x1, x2, x3, x4, g2):
    """Your slope of r holds r; the derivative of s^(−1/2) is −½ s^(−3/2), and so r³."""
    return -g2 * x1 * x2 * _r(x1, x2, x3, x4) / 4


def r_squared(x1, x2, x3, x4, g2):
    """Your slope of r holds r²; the derivative of s^(−1/2) is −½ s^(−3/2), and so r³."""
    return -g2 * x1 * x2 * _r(x1, x2, x3, x4) ** 2 / 4


def gain_forgotten(x1, x2, x3, x4, g2):
    """You left out the gain: out2 is g2 times the normalized feature, and so is its slope."""
    return reference(x1, x2, x3, x4, g2) / g2


def direct_road(x1, x2, x3, x4, g2):
    """You counted the direct road, g2 r, too. It leads from each feature to itself alone: x1 does not stand in out2,
    except in r."""
    return g2 * _r(x1, x2, x3, x4) + reference(x1, x2, x3, x4, g2)


def direct_road_alone(x1, x2, x3, x4, g2):
    """That is the direct road, g2 r, from feature 2 to itself. From feature 1 the only road leads through r."""
    return g2 * _r(x1, x2, x3, x4)


def output(x1, x2, x3, x4, g2):
    """That is out2 itself; the question is how fast it changes when x1 does."""
    return g2 * x2 * _r(x1, x2, x3, x4)


# ---- right answers, found otherwise ----


def by_hand(x1, x2, x3, x4, g2):
    """The formula, −g2 x1 x2 r³ / 4."""
    return -g2 * x1 * x2 * _r(x1, x2, x3, x4) ** 3 / 4


def by_nudge(x1, x2, x3, x4, g2):
    """A nudge of a thousandth, up and down."""
    h = 1e-3
    return g2 * x2 * (_r(x1 + h, x2, x3, x4) - _r(x1 - h, x2, x3, x4)) / (2 * h)


exercise = Number(
    id="norm-nudge",
    title="One nudge, by hand",
    chapter="02_normalization",
    answer="slope",
    points=1,
    stars=1,
    minutes=8,
    quantities=quantities,
    question=(
        "A row (x1, x2, x3, x4) goes through RMSNorm with eps = 0. The gain of feature 2 is g2. How fast does out2 "
        "change when x1 grows, ∂out2/∂x1? (To three digits or more; the root-mean-square is a whole number.)"
    ),
    unit="units of out2 per unit of x1",
    reference=reference,
    mutants=(
        nothing,
        wrong_sign,
        sum_for_mean,
        half_left,
        two_left,
        r_once,
        r_squared,
        gain_forgotten,
        direct_road,
        direct_road_alone,
        output,
    ),
    variants=(by_hand, by_nudge),
    tolerance=2e-3,
    hints=(
        "out2 = g2 x2 r. Which of these three does x1 move?",
        "Only r. With s the mean of the squares, r = s^(−1/2), and ∂s/∂x1 = 2 x1 / 4.",
        "∂r/∂x1 = −½ s^(−3/2) · 2 x1 / 4 = −x1 r³ / 4. Multiply by g2 x2.",
    ),
    takeaway="Features act on each other through r alone: weakly, and in proportion to the product of the two.",
)
