"""Exercise left-pad-positions: count positions among the real tokens, wherever the padding stands."""

import numpy as np

from exercises.spec import Code


def reference(pad_mask):
    """pad_mask bool [B, T], True where real. Returns positions, integers [B, T]: 0 at padded places."""
    return np.where(pad_mask, np.cumsum(pad_mask, axis=1) - 1, 0)


def cases(rng):
    """Ascending: padding on the left, on the right, on both sides, in the middle; none at all, and nothing else."""

    def row(left, real, right):
        return [False] * left + [True] * real + [False] * right

    yield (np.array([row(2, 3, 0), row(0, 5, 0)]),)
    yield (np.array([row(0, 3, 2), row(1, 2, 2), row(5, 0, 0)]),)
    yield (np.ones((16, 1), bool),)
    yield (np.array([row(1, 2, 1) + row(1, 2, 1), row(0, 4, 0) + row(3, 1, 0), row(4, 0, 0) + row(0, 3, 1)]),)
    yield (np.ones((4, 7), bool),)
    yield (rng.random((5, 8)) < 0.6,)
    count = int(rng.integers(140, 160))  # more tokens than an int8 can count
    yield (np.array([row(160 - count, count, 0), row(3, 157, 0)]),)


# ---- wrong answers; each docstring is what its author will read ----


def _zeroed(positions, pad_mask):
    return np.where(pad_mask, positions, 0)


def columns(pad_mask):
    """These are the columns, 0 to T − 1, for all rows: they count the padding. Count the real tokens alone."""
    return np.tile(np.arange(pad_mask.shape[1]), (len(pad_mask), 1))


def columns_zeroed(pad_mask):
    """Real tokens still get their column, padding before them included. The first real token of each row has position
    0."""
    return _zeroed(np.arange(pad_mask.shape[1]), pad_mask)


def from_one(pad_mask):
    """Your first real token has position 1. The table's first row is row 0."""
    return _zeroed(np.cumsum(pad_mask, axis=1), pad_mask)


def minus_one(pad_mask):
    """Padding before the first real token gets −1, which reads the table's last row. Padded places get 0."""
    return np.cumsum(pad_mask, axis=1) - 1


def runs_on(pad_mask):
    """Padding after a real token repeats that token's position. Padded places get 0, wherever they stand."""
    return np.maximum(np.cumsum(pad_mask, axis=1) - 1, 0)


def ones_at_padding(pad_mask):
    """Your padded places get 1. Nobody will look at them, but 0 was asked for: the one row that every table has."""
    return np.where(pad_mask, np.cumsum(pad_mask, axis=1) - 1, 1)


def over_the_batch(pad_mask):
    """You count down the batch. Each text has its own positions: count along its tokens, axis=1."""
    return _zeroed(np.cumsum(pad_mask, axis=0) - 1, pad_mask)


def one_count_for_all(pad_mask):
    """You go on counting from one text to the next. Each text starts again at 0."""
    return _zeroed(np.cumsum(pad_mask).reshape(pad_mask.shape) - 1, pad_mask)


def left_only(pad_mask):
    """You take off the number of padded places, which is right only where all of them stand on the left."""
    missing = (~pad_mask).sum(axis=1, keepdims=True)
    return _zeroed(np.maximum(np.arange(pad_mask.shape[1]) - missing, 0), pad_mask)


def from_the_first(pad_mask):
    """You count the columns from the first real token on. Padding between real tokens must not be counted either."""
    first = pad_mask.argmax(axis=1)[:, None]
    return _zeroed(np.arange(pad_mask.shape[1]) - first, pad_mask)


def of_the_padding(pad_mask):
    """You count the padding. True means that a token is real."""
    return np.where(pad_mask, 0, np.cumsum(~pad_mask, axis=1) - 1)


def first_row(pad_mask):
    """All your texts have the positions of the first. Each has padding of its own."""
    return np.tile(reference(pad_mask[:1]), (len(pad_mask), 1))


def backward(pad_mask):
    """You count from the last token. The first real one has position 0."""
    return _zeroed(np.cumsum(pad_mask[:, ::-1], axis=1)[:, ::-1] - 1, pad_mask)


def one_less(pad_mask):
    """From the second real token on, your positions are one too small: the first two share position 0."""
    return np.maximum(reference(pad_mask) - 1, 0)


def eight_bits(pad_mask):
    """Your count overflows: an int8 ends at 127. Let NumPy choose, or ask for an int64."""
    return _zeroed(np.cumsum(pad_mask, axis=1, dtype=np.int8) - np.int8(1), pad_mask)


def in_place(pad_mask):
    """You wrote into the caller's mask, which later layers need as it was."""
    positions = reference(pad_mask)
    pad_mask[:, 0] = ~pad_mask[:, 0]
    return positions


# ---- right answers, written otherwise ----


def loops(pad_mask):
    """A counter for each text."""
    positions = np.zeros(pad_mask.shape, dtype=int)
    for b, row in enumerate(pad_mask):
        count = 0
        for t, real in enumerate(row):
            if real:
                positions[b, t] = count
                count += 1
    return positions


def product(pad_mask):
    """How many real tokens stand before: a product with a triangle of ones."""
    T = pad_mask.shape[1]
    return (pad_mask.astype(np.int64) @ np.triu(np.ones((T, T), np.int64), 1)) * pad_mask


def by_text(pad_mask):
    """An arange into the real places of each text."""
    positions = np.zeros(pad_mask.shape, np.int32)
    for row, real in zip(positions, pad_mask):
        row[real] = np.arange(real.sum())
    return positions


exercise = Code(
    id="left-pad-positions",
    title="Positions among real tokens",
    chapter="15_pitfalls",
    answer="positions",
    points=1,
    stars=1,
    minutes=8,
    args=("pad_mask",),
    returns=("positions",),
    cases=cases,
    reference=reference,
    mutants=(
        columns,
        columns_zeroed,
        from_one,
        minus_one,
        runs_on,
        ones_at_padding,
        over_the_batch,
        one_count_for_all,
        left_only,
        from_the_first,
        of_the_padding,
        first_row,
        backward,
        one_less,
        eight_bits,
        in_place,
    ),
    variants=(loops, product, by_text),
    hints=(
        "A token's position is the number of real tokens before it in its own text.",
        "True counts as 1. `np.cumsum` along the tokens counts the real ones so far, the token itself included.",
        "Take 1 off, so that the first real token gets 0. What do padded places hold now?",
        "`np.where(pad_mask, …, 0)` gives them 0, on the left, on the right and between.",
    ),
    takeaway="Positions belong to the text, not to the array that carries it.",
)
