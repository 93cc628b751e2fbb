"""Exercise induction-score: how much each head looks at what came after the previous copy of the token."""

import numpy as np

from exercises.spec import Code
from scratch import trace


def reference(maps, period):
    """maps [H, T, T]; period an int, 1 < period < T. Returns scores [H]."""
    return trace.induction_scores(maps, period)


def cases(rng):
    """Ascending; a last copy of one token alone, two copies, three and more; heads of every kind."""

    def case(H, T, period):
        scores = 2 * rng.standard_normal((H, T, T))
        rows = np.arange(period, T)
        scores[0, rows, rows - period + 1] += 3  # one head that does it
        weights = np.exp(scores) * np.tri(T)
        return weights / weights.sum(axis=-1, keepdims=True), period

    # by hand: tenths that add up to 1 in each row, two copies of two tokens
    hand = np.zeros((1, 4, 4))
    for i in range(4):
        hand[0, i, : i + 1] = (1 + rng.multinomial(9 - i, np.ones(i + 1) / (i + 1))) / 10
    yield hand, 2
    yield case(2, 4, 3)  # the second copy has only begun
    yield case(3, 6, 3)
    yield case(2, 9, 2)  # four copies and a half
    yield case(4, 8, 4)
    yield case(3, 11, 3)
    yield case(5, 13, 6)


def rounding(maps, period):
    """In units of u. The n = T − period weights of a head are added up and divided by n: n + 1 roundings, and where
    the product with 1/n is written out, one more."""
    rows = np.arange(period, maps.shape[-1])
    return ((len(rows) + 2) * maps[:, rows, rows - period + 1].mean(axis=-1),)


def _score(maps, shift, first, last=None, columns=None):
    """Mean weight at row i, column i − shift, for rows first to last − 1, with room to put one thing wrong."""
    rows = np.arange(first, maps.shape[-1] if last is None else last)
    columns = rows - shift if columns is None else columns(rows)
    return maps[:, rows, columns].mean(axis=-1)


# ---- wrong answers; each docstring is what its author will read ----


def copy_itself(maps, period):
    """You read the weight on the earlier copy itself, i − period. What helps is what came after it: one place on."""
    return _score(maps, period, period)


def before_the_copy(maps, period):
    """You read the weight on the token before the earlier copy. It is the one after it that can be said next."""
    return _score(maps, period + 1, period)


def one_too_far(maps, period):
    """You went two places on from the earlier copy. What came right after it stands at i − period + 1."""
    return _score(maps, period - 2, period)


def token_before(maps, period):
    """You read the weight on the token before each row, i − 1. Where was this row's token last time?"""
    return _score(maps, 1, period)


def whole_diagonal(maps, period):
    """Your diagonal begins one row too early: row period − 1 has no earlier copy, and still column 0 lies on it."""
    return _score(maps, period - 1, period - 1)


def one_row_late(maps, period):
    """You leave out row `period`, the first that repeats. Rows count from 0, so it belongs to the second copy."""
    rows = np.arange(period + 1, maps.shape[-1])
    return maps[:, rows, rows - period + 1].sum(axis=-1) / np.array(max(len(rows), 1), dtype=maps.dtype)


def last_row_forgotten(maps, period):
    """You leave out the last row. It looks back like the others, whatever may follow it."""
    rows = np.arange(period, maps.shape[-1] - 1)
    return maps[:, rows, rows - period + 1].sum(axis=-1) / np.array(max(len(rows), 1), dtype=maps.dtype)


def second_copy_only(maps, period):
    """You stop after the second copy. All rows from `period` on repeat something, also in a third copy."""
    return _score(maps, period - 1, period, min(2 * period, maps.shape[-1]))


def first_copy_always(maps, period):
    """You always look into the first copy. In a third copy the last earlier one is the second: column
    i − period + 1."""
    return _score(maps, None, period, columns=lambda rows: rows % period + 1)


def all_copies(maps, period):
    """You add up the weights after all earlier copies. The score counts the last one alone."""
    T = maps.shape[-1]
    total = np.zeros(len(maps), dtype=maps.dtype)
    for i in range(period, T):
        total += maps[:, i, np.arange(i - period + 1, 0, -period)].sum(axis=-1)
    return total / np.array(T - period, dtype=maps.dtype)


def divided_by_all_rows(maps, period):
    """You divide by T. Only T − period rows have an earlier copy; the others are not in the mean."""
    T = maps.shape[-1]
    return _score(maps, period - 1, period) * np.array((T - period) / T, dtype=maps.dtype)


def summed(maps, period):
    """You add the weights up, and do not divide by the number of rows."""
    return _score(maps, period - 1, period) * np.array(maps.shape[-1] - period, dtype=maps.dtype)


def the_best_row(maps, period):
    """You took the largest weight of all rows. One lucky row is no habit: take the mean."""
    rows = np.arange(period, maps.shape[-1])
    return maps[:, rows, rows - period + 1].max(axis=-1)


def the_median(maps, period):
    """You took the median of the rows; the score is their mean."""
    rows = np.arange(period, maps.shape[-1])
    return np.median(maps[:, rows, rows - period + 1], axis=-1).astype(maps.dtype)


def share_of_hits(maps, period):
    """You count the rows whose largest weight is there. The score is the mean of the weights themselves."""
    rows = np.arange(period, maps.shape[-1])
    return (maps[:, rows].argmax(axis=-1) == rows - period + 1).mean(axis=-1).astype(maps.dtype)


def exchanged(maps, period):
    """You exchanged rows and columns, and read what the mask hides: 0. Row i is the token that looks."""
    return _score(np.swapaxes(maps, -1, -2), period - 1, period)


def heads_averaged(maps, period):
    """Your scores are the same for all heads: the mean ran over them, too. Each head has its own."""
    return np.full_like(maps[:, 0, 0], _score(maps, period - 1, period).mean())


def one_number(maps, period):
    """You return one number for all heads. Each head has its own score: [H]."""
    return np.array(_score(maps, period - 1, period).mean(), dtype=maps.dtype)


def for_each_row(maps, period):
    """You return the weights of all rows; their mean over the rows is asked for, one number for each head."""
    rows = np.arange(period, maps.shape[-1])
    return maps[:, rows, rows - period + 1]


def in_place(maps, period):
    """You write into the caller's maps, by an index or by `*=`. They may be needed again: work on a copy."""
    maps *= np.eye(maps.shape[-1], k=1 - period, dtype=maps.dtype)
    return maps[:, period:].sum(axis=(-2, -1)) / np.array(maps.shape[-1] - period, dtype=maps.dtype)


def float64_leak(maps, period):
    """Somewhere your float32 becomes float64 (`np.zeros` or `np.eye` without a dtype, `astype(float)`)."""
    return _score(maps.astype(np.float64), period - 1, period)


# ---- right answers, written otherwise ----


def diagonal(maps, period):
    """NumPy's diagonal, its first entry left out."""
    return np.diagonal(maps, 1 - period, axis1=-2, axis2=-1)[:, 1:].mean(axis=-1)


def loops(maps, period):
    """Head by head, row by row, in plain Python."""
    H, T, _ = maps.shape
    scores = np.zeros(H, dtype=maps.dtype)
    for h in range(H):
        total = 0.0
        for i in range(period, T):
            total += float(maps[h, i, i - period + 1])
        scores[h] = total / (T - period)
    return scores


def picked_by_a_mask(maps, period):
    """A product with a map of zeros and ones, divided by the number of ones."""
    wanted = np.eye(maps.shape[-1], k=1 - period, dtype=maps.dtype)
    wanted[:period] = 0
    return np.einsum("hij,ij->h", maps, wanted / wanted.sum())


exercise = Code(
    id="induction-score",
    title="Find the heads that continue a pattern",
    chapter="13_real_model",
    answer="induction",
    points=2,
    stars=2,
    minutes=15,
    args=("maps", "period"),
    returns=("scores",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        copy_itself,
        before_the_copy,
        one_too_far,
        token_before,
        whole_diagonal,
        one_row_late,
        last_row_forgotten,
        second_copy_only,
        first_copy_always,
        all_copies,
        divided_by_all_rows,
        summed,
        the_best_row,
        the_median,
        share_of_hits,
        exchanged,
        heads_averaged,
        one_number,
        for_each_row,
        in_place,
        float64_leak,
    ),
    variants=(diagonal, loops, picked_by_a_mask),
    hints=(
        "Write down A B C A B C. You stand at the second B and want to say C. At which place would you look?",
        "Token i was last seen at i − period. What followed it stands one place on. Which rows have an earlier copy?",
        "Rows period to T − 1, and for each of them one column: two arrays of whole numbers, of the same length.",
        "`rows = np.arange(period, T)`, then `maps[:, rows, rows - period + 1]` is [H, T − period].\n"
        "Take its mean over the last axis.",
    ),
    library=("scratch.trace.induction_scores",),
    takeaway="A score that names heads is a claim. Silence them, and others as a control, to see whether it holds.",
)
