"""Exercise clip-gradients: shorten a gradient that spans several arrays, and keep its direction."""

import numpy as np

from exercises.spec import Code
from scratch import optim


def reference(dw, db, limit):
    """dw [D, F]; db [F]; limit a positive float. Returns both, scaled to a common length of at most limit."""
    grads = {"w": dw.copy(), "b": db.copy()}
    optim.clip_gradients(grads, limit)
    return grads["w"], grads["b"]


def cases(rng):
    """Ascending; too long, short enough, both arrays short alone but not together, and no gradient at all."""

    def case(D, F, ratio, size=1.0, of_bias=1.0):
        """A gradient `ratio` times as long as its limit."""
        dw, db = rng.standard_normal((D, F)) * size, rng.standard_normal(F) * size * of_bias
        return dw, db, _length(dw, db) / ratio

    yield np.array([[3.0]]), np.array([4.0]), 1.0  # length 5, by hand
    yield np.array([[0.3]]), np.array([-0.4]), 1.0  # short enough
    yield case(2, 3, 1.15)  # alone, each would pass
    yield case(3, 4, 20.0, 1e3)
    yield case(3, 5, 0.6, 1e-3)
    yield np.zeros((4, 5)), np.zeros(5), 1.0
    yield case(4, 6, 3.0, 10.0 ** rng.integers(-3, 4, 6))
    yield case(5, 7, 2.0, 1.0, 4.0)
    yield case(6, 8, 0.3, 5.0)


def _length(dw, db):
    return float(np.sqrt((dw * dw).sum() + (db * db).sum()))


def rounding(dw, db, limit):
    """In units of u. The sum of squares takes as many roundings as there are entries, and the root halves them; square,
    root, quotient and product are 6 more. A gradient that is short enough is not touched."""
    n = (dw.size + db.size) / 2 + 6 if _length(dw, db) > limit else 0
    return n * np.abs(dw), n * np.abs(db)


def _scaled(dw, db, factor):
    return dw * dw.dtype.type(factor), db * db.dtype.type(factor)


def _clipped(dw, db, length, limit):
    """Both arrays, scaled if this length is over the limit."""
    return _scaled(dw, db, limit / length if length > limit else 1)


# ---- wrong answers; each docstring is what its author will read ----


def each_alone(dw, db, limit):
    """You gave each array its own factor, which turns the gradient. One length and one factor for all of it."""
    return tuple(_clipped(a, a, float(np.linalg.norm(a)), limit)[0] for a in (dw, db))


def each_entry(dw, db, limit):
    """You cut off single entries at ± limit. That turns the gradient; all entries get the same factor."""
    return np.clip(dw, -limit, limit), np.clip(db, -limit, limit)


def each_row(dw, db, limit):
    """Your matrix has a factor for each row. The whole gradient has one length and one factor."""
    rows = np.sqrt((dw * dw).sum(axis=1, keepdims=True))
    factor = np.where(rows > limit, limit / np.maximum(rows, 1e-30), 1).astype(dw.dtype)
    return dw * factor, _clipped(db, db, float(np.linalg.norm(db)), limit)[0]


def always(dw, db, limit):
    """You scaled a short gradient too, up to the limit. Where it is short enough it stays as it is."""
    return _scaled(dw, db, limit / max(_length(dw, db), 1e-30))


def never(dw, db, limit):
    """You returned the gradient as it came. This one is longer than the limit."""
    return dw.copy(), db.copy()


def wrong_way_round(dw, db, limit):
    """Your condition is the wrong way round: you lengthen the short gradients and leave the long ones."""
    length = _length(dw, db)
    return _scaled(dw, db, limit / length if 0 < length < limit else 1)


def to_length_one(dw, db, limit):
    """You scaled to length 1. The new length is the limit."""
    length = _length(dw, db)
    return _scaled(dw, db, 1 / length if length > limit else 1)


def by_the_limit(dw, db, limit):
    """You divided by the length in units of something else: the factor is limit / length, not 1 / limit."""
    return _scaled(dw, db, 1 / limit if _length(dw, db) > limit else 1)


def inverse(dw, db, limit):
    """Your factor is upside down: length / limit makes a long gradient longer."""
    length = _length(dw, db)
    return _scaled(dw, db, length / limit if length > limit else 1)


def lengths_added(dw, db, limit):
    """You added the two arrays' lengths. They are at right angles: add the squares, then take the root."""
    return _clipped(dw, db, float(np.linalg.norm(dw) + np.linalg.norm(db)), limit)


def no_root(dw, db, limit):
    """You compared the sum of squares with the limit. The length is its root."""
    return _clipped(dw, db, _length(dw, db) ** 2, limit)


def absolute_values(dw, db, limit):
    """You added absolute values. The length is the root of the sum of squares."""
    return _clipped(dw, db, float(np.abs(dw).sum() + np.abs(db).sum()), limit)


def largest(dw, db, limit):
    """You took the largest entry for the length. The length is the root of the sum of all squares."""
    return _clipped(dw, db, float(max(np.abs(dw).max(), np.abs(db).max())), limit)


def root_mean_square(dw, db, limit):
    """You took the mean of the squares. A length has their sum under the root."""
    return _clipped(dw, db, _length(dw, db) / (dw.size + db.size) ** 0.5, limit)


def matrix_alone(dw, db, limit):
    """You measured the matrix alone. The bias belongs to the same gradient."""
    return _clipped(dw, db, float(np.linalg.norm(dw)), limit)


def bias_untouched(dw, db, limit):
    """You left the bias as it was. All of the gradient gets the same factor."""
    return _clipped(dw, db, _length(dw, db), limit)[0], db.copy()


def matrix_untouched(dw, db, limit):
    """You left the matrix as it was. All of the gradient gets the same factor."""
    return dw.copy(), _clipped(dw, db, _length(dw, db), limit)[1]


def no_gradient(dw, db, limit):
    """You dropped a gradient that is too long. It is shortened; its direction is still the best one known."""
    return _scaled(dw, db, 0 if _length(dw, db) > limit else 1)


def in_place(dw, db, limit):
    """`dw *= factor` writes into the caller's array. Here new arrays are asked for: `dw * factor`."""
    length = _length(dw, db)
    if length > limit:
        dw *= limit / length
        db *= limit / length
    return dw.copy(), db.copy()


def float64_leak(dw, db, limit):
    """Somewhere your float32 becomes float64: often the factor, as a NumPy number. `float(…)` makes it a plain one."""
    return _clipped(dw.astype(np.float64), db.astype(np.float64), _length(dw, db), limit)


# ---- right answers, written otherwise ----


def loops(dw, db, limit):
    """Adds up one square at a time."""
    total = 0.0
    for value in [*dw.ravel(), *db]:
        total += float(value) ** 2
    factor = limit / total**0.5 if total > limit**2 else 1.0
    return dw * factor, db * factor


def one_vector(dw, db, limit):
    """All gradients in one long vector, and its norm."""
    vector = np.concatenate([dw.ravel(), db])
    length = float(np.linalg.norm(vector))
    if length > limit:
        vector = vector * (limit / length)
    return vector[: dw.size].reshape(dw.shape).copy(), vector[dw.size :].copy()


def dots(dw, db, limit):
    """np.vdot, and a minimum instead of a condition."""
    length = float(np.vdot(dw, dw) + np.vdot(db, db)) ** 0.5
    factor = min(1.0, limit / length) if length else 1.0
    return dw * factor, db * factor


exercise = Code(
    id="clip-gradients",
    title="One gradient, two arrays",
    chapter="11_training",
    answer="clipped",
    points=2,
    stars=1,
    minutes=10,
    args=("dw", "db", "limit"),
    returns=("new_dw", "new_db"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        each_alone,
        each_entry,
        each_row,
        always,
        never,
        wrong_way_round,
        to_length_one,
        by_the_limit,
        inverse,
        lengths_added,
        no_root,
        absolute_values,
        largest,
        root_mean_square,
        matrix_alone,
        bias_untouched,
        matrix_untouched,
        no_gradient,
        in_place,
        float64_leak,
    ),
    variants=(loops, one_vector, dots),
    hints=(
        "The gradient is one long vector that happens to lie in two arrays. How long is that vector?",
        "Its length is the root of the sum of all squares, over both arrays.",
        "If the length is at most the limit, return the gradient unchanged, as new arrays.",
        "Else multiply both arrays by the same plain number, limit / length. A plain number keeps float32 as it is.",
    ),
    library=("scratch.optim.clip_gradients",),
    takeaway="Clipping shortens the whole gradient by one factor, so its direction stays.",
)
