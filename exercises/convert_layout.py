"""Exercise convert-layout: reorder a projection's columns, head by head, from one RoPE layout to the other."""

import numpy as np

from exercises.spec import Code
from scratch import rope


def reference(w, n_heads, to):
    """w [D, n_heads · Dh]; to "interleaved" or "half". Returns out of the same shape."""
    return rope.convert_layout(w, n_heads, to)


def cases(rng):
    """Ascending. In heads of width 2 nothing moves; in heads of width 4 both directions are the same."""

    def case(D, n_heads, Dh, to, scale=1.0):
        return rng.standard_normal((D, n_heads * Dh)) * scale, n_heads, to

    # whole numbers that name their columns: tens for the head, ones for the place in it
    names = np.array([[10.0 * head + place for head in (1, 2) for place in range(4)]])
    yield np.concatenate([names, -names]) * rng.choice([-1, 1]), 2, "half"
    yield case(4, 1, 6, "interleaved")
    yield case(4, 3, 2, "half")  # one pair in each head
    yield case(2, 2, 8, "half", 1e-3)
    w, n_heads, to = case(4, 3, 6, "interleaved", 10.0 ** rng.integers(-3, 4, (4, 1)))
    w[:, 5] = 0  # a column that was pruned away: a zero moves like any other number
    yield w, n_heads, to
    yield case(6, 2, 10, "half", 1e3)
    yield case(8, 5, 6, rng.choice(rope.LAYOUTS).item())


def rounding(w, n_heads, to):
    """In units of u: a permutation rounds nothing. One unit is left for those who multiply by a matrix of 0 and 1."""
    return (np.abs(reference(w, n_heads, to)),)


def _order(Dh, to):
    """The old place in its head of each new column."""
    places = np.arange(Dh)
    return np.concatenate([places[::2], places[1::2]]) if to == "half" else places.reshape(2, -1).T.reshape(-1)


def _convert(w, n_heads, order):
    """The columns of each head in this order, a new array."""
    heads = w.reshape(len(w), n_heads, -1)
    return heads[:, :, order].reshape(w.shape)


def _width(w, n_heads):
    return w.shape[1] // n_heads


def _other(to):
    return "half" if to == "interleaved" else "interleaved"


# ---- wrong answers; each docstring is what its author will read ----


def unchanged(w, n_heads, to):
    """Your out is w: no column was moved."""
    return w.copy()


def wrong_way(w, n_heads, to):
    """You went the other way. `to` names the layout that is wanted; w comes in the other one."""
    return _convert(w, n_heads, _order(_width(w, n_heads), _other(to)))


def always_half(w, n_heads, to):
    """You always convert to "half"; where "interleaved" is wanted, the same permutation has to be undone."""
    return _convert(w, n_heads, _order(_width(w, n_heads), "half"))


def always_interleaved(w, n_heads, to):
    """You always convert to "interleaved"; where "half" is wanted, the same permutation has to be undone."""
    return _convert(w, n_heads, _order(_width(w, n_heads), "interleaved"))


def half_alone(w, n_heads, to):
    """You leave w as it is where "interleaved" is wanted. There it comes in "half", and has to be converted too."""
    return _convert(w, n_heads, _order(_width(w, n_heads), to)) if to == "half" else w.copy()


def across_heads(w, n_heads, to):
    """You reordered all columns as if they were one head. Each head's Dh columns are reordered among themselves."""
    return _convert(w, 1, _order(w.shape[1], to))


def first_head_only(w, n_heads, to):
    """Only the first head's columns were moved; every head has pairs."""
    out, Dh = w.copy(), _width(w, n_heads)
    out[:, :Dh] = out[:, :Dh][:, _order(Dh, to)]
    return out


def heads_innermost(w, n_heads, to):
    """You took every n_heads-th column for one head. A head's Dh columns lie next to each other."""
    heads = w.reshape(len(w), -1, n_heads)
    return heads[:, _order(_width(w, n_heads), to)].reshape(w.shape)


def seconds_first(w, n_heads, to):
    """The two of each pair have changed places: the first of a pair stays the first in the other layout."""
    order = _order(_width(w, n_heads), to)
    half = len(order) // 2
    swapped = (
        np.concatenate([order[half:], order[:half]]) if to == "half" else order.reshape(-1, 2)[:, ::-1].reshape(-1)
    )
    return _convert(w, n_heads, swapped)


def sign_changed(w, n_heads, to):
    """You changed the sign of each pair's second. That belongs to the rotation; a conversion only moves columns."""
    order = _order(_width(w, n_heads), to)
    second = np.arange(len(order)) >= len(order) // 2 if to == "half" else np.arange(len(order)) % 2 == 1
    out = _convert(w, n_heads, order).reshape(len(w), n_heads, -1)
    return np.where(second, -out, out).reshape(w.shape)


def reversed_columns(w, n_heads, to):
    """You reversed each head's columns. They have to be sorted by pair: all firsts, then all seconds, or in turn."""
    return _convert(w, n_heads, np.arange(_width(w, n_heads))[::-1])


def halves_exchanged(w, n_heads, to):
    """You exchanged the halves of each head. In "interleaved" the pairs are neighbours, so more than halves moves."""
    return _convert(w, n_heads, np.roll(np.arange(_width(w, n_heads)), _width(w, n_heads) // 2))


def neighbours_exchanged(w, n_heads, to):
    """You exchanged neighbouring columns. Each pair has to go to where the other layout looks for it."""
    return _convert(w, n_heads, np.arange(_width(w, n_heads)).reshape(-1, 2)[:, ::-1].reshape(-1))


def rows_instead(w, n_heads, to):
    """You reordered the rows of w. They belong to the stream's features; queries are made by the columns."""
    return w[_order(len(w), to)]


def rows_too(w, n_heads, to):
    """You reordered the rows as well as the columns. The rows belong to the stream, which keeps its order."""
    return _convert(w, n_heads, _order(_width(w, n_heads), to))[_order(len(w), to)]


def transposed(w, n_heads, to):
    """Your out is transposed. The weights are [in, out], and stay so: only the order of the columns changes."""
    return _convert(w, n_heads, _order(_width(w, n_heads), to)).T.copy()


def heads_reversed(w, n_heads, to):
    """You changed the order of the heads. Each stays where it is; only the columns inside it move."""
    out = _convert(w, n_heads, _order(_width(w, n_heads), to)).reshape(len(w), n_heads, -1)
    return out[:, ::-1].reshape(w.shape).copy()


def in_place(w, n_heads, to):
    """The numbers are right, but you wrote them into the caller's w, which still belongs to the other layout."""
    w[...] = _convert(w, n_heads, _order(_width(w, n_heads), to))
    return w


def in_place_then_read(w, n_heads, to):
    """You moved columns inside the caller's w and read some after they were overwritten: make a new array."""
    for column, place in enumerate(_columns(w, n_heads, to)):
        w[:, column] = w[:, place]
    return w


def float64_leak(w, n_heads, to):
    """Somewhere your float32 becomes float64 (`np.zeros` or `np.empty` without a dtype, or a matrix of 0 and 1);
    the model's weights then take twice the memory."""
    return _convert(w.astype(np.float64), n_heads, _order(_width(w, n_heads), to))


def _columns(w, n_heads, to):
    Dh = _width(w, n_heads)
    return np.concatenate([head * Dh + _order(Dh, to) for head in range(n_heads)])


# ---- right answers, written otherwise ----


def swapped_axes(w, n_heads, to):
    """Pairs as an axis of their own: […, Dh/2, 2] and [2, Dh/2] are each other's transposes."""
    Dh = w.shape[1] // n_heads
    shape = (Dh // 2, 2) if to == "half" else (2, Dh // 2)
    return w.reshape(len(w), n_heads, *shape).swapaxes(-1, -2).reshape(w.shape).copy()


def loops(w, n_heads, to):
    """Loops over every head, pair and row."""
    out = np.empty_like(w)
    D, Dh = len(w), w.shape[1] // n_heads
    for head in range(n_heads):
        for i in range(Dh // 2):
            one, two = head * Dh + 2 * i, head * Dh + 2 * i + 1
            low, high = head * Dh + i, head * Dh + i + Dh // 2
            for row in range(D):
                if to == "half":
                    out[row, low], out[row, high] = w[row, one], w[row, two]
                else:
                    out[row, one], out[row, two] = w[row, low], w[row, high]
    return out


def slices(w, n_heads, to):
    """Slices of a new array, as the library does it."""
    Dh = w.shape[1] // n_heads
    old, out = w.reshape(-1, Dh), np.empty_like(w)
    new = out.reshape(-1, Dh)  # a view of out
    if to == "half":
        new[:, : Dh // 2], new[:, Dh // 2 :] = old[:, ::2], old[:, 1::2]
    else:
        new[:, ::2], new[:, 1::2] = old[:, : Dh // 2], old[:, Dh // 2 :]
    return out


def matrix(w, n_heads, to):
    """A product with a permutation matrix, one head's block repeated."""
    Dh = w.shape[1] // n_heads
    places = sorted(range(Dh), key=lambda p: (p % 2, p))  # all even places, then all odd ones
    P = np.eye(Dh, dtype=w.dtype)[:, places]
    P = P if to == "half" else P.T
    return w @ np.kron(np.eye(n_heads, dtype=w.dtype), P)


def one_index(w, n_heads, to):
    """One index over all columns."""
    return w[:, _columns(w, n_heads, to)]


exercise = Code(
    id="convert-layout",
    title="From one layout to the other",
    chapter="04_positions",
    answer="convert",
    points=2,
    stars=2,
    minutes=15,
    args=("w", "n_heads", "to"),
    returns=("out",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        unchanged,
        wrong_way,
        always_half,
        always_interleaved,
        half_alone,
        across_heads,
        first_head_only,
        heads_innermost,
        seconds_first,
        sign_changed,
        reversed_columns,
        halves_exchanged,
        neighbours_exchanged,
        rows_instead,
        rows_too,
        transposed,
        heads_reversed,
        in_place,
        in_place_then_read,
        float64_leak,
    ),
    variants=(swapped_axes, loops, slices, matrix, one_index),
    hints=(
        "Write down the columns of one head of width 6, 0 1 2 3 4 5, in the interleaved layout: the pairs are (0, 1),\n"
        "(2, 3), (4, 5). In the half layout, pair i has to stand at i and i + 3.",
        'To "half": first all firsts, 0 2 4, then all seconds, 1 3 5. To "interleaved": back, 0 3 1 4 2 5.',
        "Head by head: `heads = w.reshape(D, n_heads, Dh)` sets the heads apart, without moving a number.",
        'To "half", new places `[..., :Dh // 2]` take old `[..., 0::2]`, and `[..., Dh // 2:]` take `[..., 1::2]`.\n'
        'To "interleaved", exchange new and old. Start from `np.empty_like(heads)` and reshape back at the end.',
    ),
    library=("scratch.rope.convert_layout",),
    takeaway="Queries and keys reordered alike have the same dot products: a layout is an order, not a meaning.",
)
