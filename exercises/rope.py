"""Exercise rope: rotate each pair of features by its position's angle, in both layouts."""

import numpy as np

from exercises.spec import Code
from scratch import rope


def reference(x, cos, sin, layout):
    """x [B, H, T, Dh]; cos, sin [at least T, Dh/2]; layout "interleaved" or "half". Returns out [B, H, T, Dh]."""
    return rope.rope_forward(x, cos, sin, layout)[0]


def cases(rng):
    """Ascending; most tables are longer than the sequence, and at least as long as there are heads."""

    def case(B, H, T, Dh, rows, base, layout, scale=1.0):
        x = rng.standard_normal((B, H, T, Dh)) * scale
        return x, *rope.rope_table(rows, Dh, base * rng.uniform(0.5, 2)), layout

    # numbers of one decimal, to work through by hand: sides of the triangles 0.6² + 0.8² = 1 and 0² + 1² = 1
    cos = np.array([[1.0, 1.0], [0.6, 0.8], [0.0, -0.6]])
    sin = np.array([[0.0, 0.0], [0.8, 0.6], [1.0, 0.8]])
    for layout in rope.LAYOUTS:
        yield rng.choice([-1, 1], (1, 1, 2, 4)) * rng.integers(1, 21, (1, 1, 2, 4)) / 10, cos, sin, layout
    yield case(3, 2, 1, 6, 1, 10000.0, "half")  # one token, position 0: nothing turns
    yield case(2, 3, 4, 2, 6, 10000.0, "interleaved")  # one pair: the layouts are the same
    yield case(3, 2, 5, 4, 9, 20.0, "half", 1e-3)
    yield case(2, 3, 4, 6, 7, 10000.0, "interleaved", 1e3)
    scale = 10.0 ** rng.integers(-3, 4, (2, 4, 3, 8))  # the two of a pair far apart
    yield case(2, 4, 3, 8, 6, 100.0, "half", scale)
    yield case(2, 3, 7, 10, 7, 10000.0, "interleaved", 10.0 ** rng.integers(-3, 4, (2, 3, 7, 1)))


def rounding(x, cos, sin, layout):
    """In units of u: each product takes one rounding, their sum another, and the two may cancel. Three more leave room
    for a rotation that is put together otherwise, by a matrix or complex numbers, or adds zeros for other features."""
    a, b = (np.abs(part) for part in _split(x, layout))
    cos, sin = np.abs(cos[: x.shape[-2]]), np.abs(sin[: x.shape[-2]])
    return (5 * _join(a * cos + b * sin, a * sin + b * cos, layout),)


def _split(x, layout):
    """The firsts and the seconds of all pairs, each [..., Dh/2]."""
    half = x.shape[-1] // 2
    return (x[..., 0::2], x[..., 1::2]) if layout == rope.LAYOUTS[0] else (x[..., :half], x[..., half:])


def _join(first, second, layout):
    if layout == rope.LAYOUTS[0]:
        return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)
    return np.concatenate([first, second], axis=-1)


def _rotate(x, cos, sin, layout, rows=None, out_layout=None):
    """The right formulas, with room to put one thing wrong; rows are those of the table."""
    rows = slice(0, x.shape[-2]) if rows is None else rows
    cos, sin = cos[rows], sin[rows]
    a, b = _split(x, layout)
    return _join(a * cos - b * sin, a * sin + b * cos, out_layout or layout)


def _other(layout):
    return "half" if layout == "interleaved" else "interleaved"


# ---- wrong answers; each docstring is what its author will read ----


def not_rotated(x, cos, sin, layout):
    """Your out is x: nothing was rotated."""
    return x.copy()


def layouts_exchanged(x, cos, sin, layout):
    """You exchanged the layouts: "interleaved" pairs the neighbours 2i and 2i+1, "half" pairs i with i + Dh/2."""
    return _rotate(x, cos, sin, _other(layout))


def always_interleaved(x, cos, sin, layout):
    """You pair neighbours in both layouts; "half" pairs feature i with i + Dh/2."""
    return _rotate(x, cos, sin, "interleaved")


def always_half(x, cos, sin, layout):
    """You pair i with i + Dh/2 in both layouts; "interleaved" pairs the neighbours 2i and 2i+1."""
    return _rotate(x, cos, sin, "half")


def swapped(x, cos, sin, layout):
    """The two of each pair have changed places in your out: (a, b) becomes (a cos − b sin, a sin + b cos)."""
    b, a = _split(_rotate(x, cos, sin, layout), layout)
    return _join(a, b, layout)


def pairs_swapped(x, cos, sin, layout):
    """You took the second of each pair for the first: the minus sign then stands on the wrong side, and the results
    have changed places."""
    b, a = _split(x, layout)
    T = x.shape[-2]
    return _join(a * cos[:T] - b * sin[:T], a * sin[:T] + b * cos[:T], layout)


def backwards(x, cos, sin, layout):
    """You rotate the other way. The minus stands in the first of the pair: a cos − b sin, then a sin + b cos."""
    return _rotate(x, cos, -sin, layout)


def both_plus(x, cos, sin, layout):
    """Both of your sums have a plus. That is no rotation: the first of a pair is a cos − b sin."""
    a, b = _split(x, layout)
    cos, sin = cos[: x.shape[-2]], sin[: x.shape[-2]]
    return _join(a * cos + b * sin, a * sin + b * cos, layout)


def both_minus(x, cos, sin, layout):
    """Both of your sums have a minus. That is a reflection: the second of a pair is a sin + b cos."""
    a, b = _split(x, layout)
    cos, sin = cos[: x.shape[-2]], sin[: x.shape[-2]]
    return _join(a * cos - b * sin, a * sin - b * cos, layout)


def tables_exchanged(x, cos, sin, layout):
    """You exchanged cos and sin: at position 0 the angle is 0, and nothing turns."""
    return _rotate(x, sin, cos, layout)


def no_sin(x, cos, sin, layout):
    """You only multiplied by cos. A rotation mixes the two of a pair, by sin."""
    return _rotate(x, cos, 0 * sin, layout)


def from_one(x, cos, sin, layout):
    """You count positions from 1: the first token has position 0 and row 0 of the table, and is not turned."""
    T = x.shape[-2]
    return _rotate(x, cos, sin, layout, slice(1, T + 1))


def from_the_end(x, cos, sin, layout):
    """You read the last T rows of the table. It may be longer than the sequence: position t is row t."""
    T = x.shape[-2]
    return _rotate(x, cos, sin, layout, slice(len(cos) - T, None))


def in_reverse(x, cos, sin, layout):
    """Your first token got the last angle and your last token the first: position t is row t of the table."""
    T = x.shape[-2]
    return _rotate(x, cos[:T][::-1], sin[:T][::-1], layout)


def by_head(x, cos, sin, layout):
    """You rotate by the number of the head, axis 1. Positions are axis −2: all heads turn alike."""
    H = x.shape[1]
    return _rotate(x, cos[:H, None], sin[:H, None], layout, slice(None))


def one_angle(x, cos, sin, layout):
    """You use the first pair's angle for all pairs. Pair i has column i of the table."""
    return _rotate(x, cos[:, :1], sin[:, :1], layout)


def first_pair_only(x, cos, sin, layout):
    """Only the first pair is rotated; every pair has to be."""
    keep = np.arange(cos.shape[1]) > 0
    return _rotate(x, np.where(keep, 1, cos).astype(cos.dtype), np.where(keep, 0, sin).astype(sin.dtype), layout)


def twice(x, cos, sin, layout):
    """You rotated twice, by double the angle."""
    return _rotate(_rotate(x, cos, sin, layout), cos, sin, layout)


def first_overwritten(x, cos, sin, layout):
    """Your second of each pair was computed from the first *after* it had been rotated. Keep the old value, or compute
    both before you store one."""
    a, b = _split(x, layout)
    cos, sin = cos[: x.shape[-2]], sin[: x.shape[-2]]
    a = a * cos - b * sin
    return _join(a, a * sin + b * cos, layout)


def joined_as_halves(x, cos, sin, layout):
    """The rotated pairs are right, but in "interleaved" you put all firsts before all seconds. They have to go back to
    their places, 2i and 2i+1."""
    return _rotate(x, cos, sin, layout, out_layout="half")


def joined_as_pairs(x, cos, sin, layout):
    """The rotated pairs are right, but in "half" you put the two of a pair side by side. They have to go back to their
    places, i and i + Dh/2."""
    return _rotate(x, cos, sin, layout, out_layout="interleaved")


def joined_as_the_other(x, cos, sin, layout):
    """The rotated pairs are right, but put back in the places of the other layout: each pair returns to where it was
    taken from."""
    return _rotate(x, cos, sin, layout, out_layout=_other(layout))


def table_repeated_in_half(x, cos, sin, layout):
    """In "half" you doubled the table as c0 c0 c1 c1 …; features i and i + Dh/2 share an angle, so it is the whole row
    twice, c0 c1 … c0 c1 …."""
    T = x.shape[-2]
    cos, sin = cos[:T].repeat(2, axis=-1), sin[:T].repeat(2, axis=-1)
    return x * cos + _turned(x, layout) * sin


def table_tiled_in_interleaved(x, cos, sin, layout):
    """In "interleaved" you doubled the table as c0 c1 … c0 c1 …; neighbours share an angle, so each entry stands twice
    in a row, c0 c0 c1 c1 …."""
    T = x.shape[-2]
    cos, sin = np.concatenate([cos[:T]] * 2, axis=-1), np.concatenate([sin[:T]] * 2, axis=-1)
    return x * cos + _turned(x, layout) * sin


def in_place(x, cos, sin, layout):
    """The numbers are right, but you wrote them into the caller's x: make a new array, for example
    `out = np.empty_like(x)`."""
    x[...] = _rotate(x, cos, sin, layout)
    return x


def in_place_then_used(x, cos, sin, layout):
    """You write the first of each pair into x, which is the caller's array; and the second is then computed from the
    new value. A slice such as `x[..., 0::2]` is a view of x."""
    a, b = _split(x, layout)  # views
    cos, sin = cos[: x.shape[-2]], sin[: x.shape[-2]]
    a[...] = a * cos - b * sin
    b[...] = a * sin + b * cos
    return x


def float64_leak(x, cos, sin, layout):
    """Somewhere your float32 becomes float64 (`astype(float)`, or `np.zeros` and `np.empty` without a dtype); queries
    and keys then take twice the memory."""
    return _rotate(x.astype(np.float64), cos, sin, layout)


def _turned(x, layout):
    """(−b, a) for each pair (a, b): x turned by a right angle."""
    a, b = _split(x, layout)
    return _join(-b, a, layout)


# ---- right answers, written otherwise ----


def quarter_turn(x, cos, sin, layout):
    """x cos + (x turned by a right angle) sin, as Hugging Face writes it."""
    T, Dh = x.shape[-2:]
    if layout == "half":
        cos2, sin2 = np.tile(cos[:T], 2), np.tile(sin[:T], 2)
        turned = np.concatenate([-x[..., Dh // 2 :], x[..., : Dh // 2]], axis=-1)
    else:
        cos2, sin2 = np.repeat(cos[:T], 2, axis=-1), np.repeat(sin[:T], 2, axis=-1)
        turned = np.empty_like(x)
        turned[..., 0::2], turned[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    return x * cos2 + turned * sin2


def loops(x, cos, sin, layout):
    """Loops over every token and pair."""
    B, H, T, Dh = x.shape
    out = np.empty_like(x)
    for b, h, t in np.ndindex(B, H, T):
        for i in range(Dh // 2):
            one, two = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + Dh // 2)
            c, s = cos[t, i], sin[t, i]
            out[b, h, t, one] = x[b, h, t, one] * c - x[b, h, t, two] * s
            out[b, h, t, two] = x[b, h, t, one] * s + x[b, h, t, two] * c
    return out


def complex_numbers(x, cos, sin, layout):
    """Each pair is a complex number, and a rotation is a product, as Meta writes it."""
    T, Dh = x.shape[-2:]
    one, two = (x[..., ::2], x[..., 1::2]) if layout == "interleaved" else np.split(x, 2, axis=-1)
    z = (one + 1j * two) * (cos[:T] + 1j * sin[:T])
    parts = np.stack([z.real, z.imag], axis=-1 if layout == "interleaved" else -2)  # [..., Dh/2, 2] or [..., 2, Dh/2]
    return parts.reshape(x.shape)


def matrices(x, cos, sin, layout):
    """One Dh × Dh rotation matrix for each position, and einsum."""
    T, Dh = x.shape[-2:]
    i = np.arange(Dh // 2)
    one, two = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + Dh // 2)
    R = np.zeros((T, Dh, Dh), dtype=x.dtype)
    R[:, one, one] = R[:, two, two] = cos[:T]
    R[:, one, two], R[:, two, one] = -sin[:T], sin[:T]
    return np.einsum("tij,bhtj->bhti", R, x)


def small_matrices(x, cos, sin, layout):
    """A 2 × 2 matrix for each position and pair, after a reshape that sets the pairs apart."""
    T, Dh = x.shape[-2:]
    R = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)[:T]  # [T, Dh/2, 2, 2]
    if layout == "interleaved":
        return (R @ x.reshape(*x.shape[:-1], Dh // 2, 2, 1)).reshape(x.shape)
    pairs = x.reshape(*x.shape[:-1], 2, Dh // 2).swapaxes(-1, -2)[..., None]
    return (R @ pairs)[..., 0].swapaxes(-1, -2).reshape(x.shape)


exercise = Code(
    id="rope",
    title="Rotate by position",
    chapter="04_positions",
    answer="rotate",
    points=2,
    stars=2,
    minutes=20,
    args=("x", "cos", "sin", "layout"),
    returns=("out",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        not_rotated,
        layouts_exchanged,
        always_interleaved,
        always_half,
        swapped,
        pairs_swapped,
        backwards,
        both_plus,
        both_minus,
        tables_exchanged,
        no_sin,
        from_one,
        from_the_end,
        in_reverse,
        by_head,
        one_angle,
        first_pair_only,
        twice,
        first_overwritten,
        joined_as_halves,
        joined_as_pairs,
        joined_as_the_other,
        table_repeated_in_half,
        table_tiled_in_interleaved,
        in_place,
        in_place_then_used,
        float64_leak,
    ),
    variants=(quarter_turn, loops, complex_numbers, matrices, small_matrices),
    hints=(
        "Position t uses row t of the tables, so the first T rows are enough: `cos[:T]`, of shape [T, Dh/2].\n"
        "NumPy lines that up with the last two axes of [B, H, T, Dh/2].",
        "Take the pairs apart. Interleaved: `a = x[..., 0::2]`, `b = x[..., 1::2]`.\n"
        "Half: the first and the second half of the last axis.",
        "Turn a point (a, b) by an angle: (1, 0) has to become (cos, sin), and (0, 1) has to become (−sin, cos).",
        "So the new first is a cos − b sin, the new second is a sin + b cos. Both use the old a and b, and the slices\n"
        "are views: write the results into `out = np.empty_like(x)`.",
        "Put them back where they came from: `out[..., 0::2] = a * cos - b * sin` and\n"
        "`out[..., 1::2] = a * sin + b * cos`; in the other layout `out[..., :Dh // 2]` and `out[..., Dh // 2:]`.",
    ),
    library=("scratch.rope.rope_forward", "scratch.rope.rope_backward", "scratch.rope._turn", "scratch.rope._rotate"),
    takeaway="A rotation keeps the length of every query and key; only the angle between two of them changes, by how "
    "far apart they stand.",
)
