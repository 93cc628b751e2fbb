"""Exercise online-softmax: take one more tile of scores into the running maximum, sum and mix of values."""

import numpy as np

from exercises.spec import Code
from scratch import tiled


def reference(m, l, o, scores, values):
    """m, l [N]; o [N, Dv]; scores [N, n]; values [n, Dv]. Returns m [N], l [N], o [N, Dv]."""
    top, total, mixed = tiled._add_tile((m[:, None], l[:, None], o), scores, values)
    return top[:, 0], total[:, 0], mixed


def cases(rng):
    """Ascending. In the first the tile brings larger scores; later it does not, or it is the first tile of all, or some
    of it is masked, or exp overflows without a maximum. N is never n, nor Dv."""

    def case(N, n, Dv, scale=1.0, shift=0.0, start=False):
        m = rng.standard_normal(N) * scale
        l, o = 1 + 3 * rng.random(N), rng.standard_normal((N, Dv))  # the largest score so far added exp(0) = 1
        if start:
            m, l, o = np.full(N, -np.inf), np.zeros(N), np.zeros((N, Dv))
        return m, l, o, rng.standard_normal((N, n)) * scale + shift, rng.standard_normal((n, Dv))

    def tenths(*shape):
        return rng.choice([-1, 1], shape) * rng.integers(1, 10, shape) / 10

    # By hand: two queries and one key. The first query's new score is the larger one, the second's is the smaller.
    m = tenths(2)
    higher = rng.integers(4, 9, (2, 1)) / 10 * np.array([[1], [-1]])
    yield m, 1 + rng.integers(1, 9, 2) / 10, tenths(2, 1), m[:, None] + higher, tenths(1, 1)
    yield case(2, 3, 1, shift=2.0)
    yield case(3, 2, 4, start=True)
    masked = case(3, 4, 2)
    masked[3][np.triu(np.ones((3, 4), dtype=bool), 1)] = -np.inf  # a diagonal tile: later keys are not seen
    yield masked
    yield case(4, 3, 5, scale=1e3)
    yield case(5, 6, 3, scale=3.0, shift=-4.0)  # nothing new is large
    m, l, o, scores, values = case(6, 5, 7)
    scale = 10.0 ** rng.integers(-3, 4, (6, 1))  # each row its own
    yield m * scale[:, 0], l, o * scale[::-1], scores * scale, values * 10.0 ** rng.integers(-3, 4, (5, 1))


def rounding(m, l, o, scores, values):
    """In units of u. A maximum is exact. exp(s − m) has |s − m| from the subtraction and 5 (2.5 ulp) from exp; whoever
    takes the keys one by one shrinks n times, which adds up to the same distance, and to 8 for each step."""
    n = scores.shape[1]
    top, old, new = _weights(m, scores)
    far_old = np.where(old > 0, top - np.where(np.isfinite(m), m, top), 0)
    far_new = np.where(np.isfinite(scores), top[:, None] - scores, 0)
    steps = 8 * n + 10
    old, new = (far_old + steps) * old, (far_new + steps) * new
    return np.zeros_like(m), old * l + new.sum(axis=1), old[:, None] * np.abs(o) + new @ np.abs(values)


def _weights(m, scores, top=None):
    """The new maximum [N], what the old sums are multiplied with [N], the new weights [N, n]."""
    top = np.maximum(m, scores.max(axis=1)) if top is None else top
    return top, np.exp(m - top), np.exp(scores - top[:, None])


def _add(l, o, values, old, new):
    return l * old + new.sum(axis=1), o * old[:, None] + new @ values


# ---- wrong answers; each docstring is what its author will read ----


def nothing_shrinks(m, l, o, scores, values):
    """Your old sums stay as they are. They were taken against the old maximum: measured against the new one, they have
    to shrink."""
    top, old, new = _weights(m, scores)
    return top, *_add(l, o, values, np.ones_like(old), new)


def o_does_not_shrink(m, l, o, scores, values):
    """Your l shrinks, but o does not. Both are sums of the same weights, so both shrink by the same factor."""
    top, old, new = _weights(m, scores)
    return top, l * old + new.sum(axis=1), o + new @ values


def l_does_not_shrink(m, l, o, scores, values):
    """Your o shrinks, but l does not. Both are sums of the same weights, so both shrink by the same factor."""
    top, old, new = _weights(m, scores)
    return top, l + new.sum(axis=1), o * old[:, None] + new @ values


def grows(m, l, o, scores, values):
    """Your factor is the wrong way round: when the maximum rises, the old sums become smaller."""
    top, old, new = _weights(m, scores)
    with np.errstate(divide="ignore", invalid="ignore"):
        return top, *_add(l, o, values, 1 / old, new)


def old_maximum(m, l, o, scores, values):
    """Your new weights subtract the old maximum, while the old sums have been moved to the new one."""
    top, old, _ = _weights(m, scores)
    with np.errstate(over="ignore", invalid="ignore"):
        return top, *_add(l, o, values, old, np.exp(scores - m[:, None]))


def old_maximum_kept(m, l, o, scores, values):
    """Your m stays what it was. A larger score in the new tile has to raise it, or exp overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return m.copy(), *_add(l, o, values, np.ones_like(m), np.exp(scores - m[:, None]))


def maximum_of_the_tile(m, l, o, scores, values):
    """Your m is the maximum of the new tile alone. If the old one was larger, it has to stay, or the old sums
    overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        top, old, new = _weights(m, scores, scores.max(axis=1))
        return top, *_add(l, o, values, old, new)


def new_weights_from_the_tile(m, l, o, scores, values):
    """Your new weights subtract the maximum of their own tile. Old and new must be measured against the same one."""
    top, old, _ = _weights(m, scores)
    return top, *_add(l, o, values, old, np.exp(scores - scores.max(axis=1, keepdims=True)))


def one_maximum(m, l, o, scores, values):
    """You took one maximum for all queries. Each row has its own: use axis=1."""
    top, old, new = _weights(m, scores, np.maximum(m, scores.max()))
    return top, *_add(l, o, values, old, new)


def no_maximum(m, l, o, scores, values):
    """Your new weights are exp(scores), with nothing subtracted."""
    top, old, _ = _weights(m, scores)
    with np.errstate(over="ignore", invalid="ignore"):
        return top, *_add(l, o, values, old, np.exp(scores))


def all_shrinks(m, l, o, scores, values):
    """You shrink the new weights along with the old sums. They already subtract the new maximum."""
    top, old, new = _weights(m, scores)
    return top, *_add(l, o, values, old, new * old[:, None])


def new_shrinks(m, l, o, scores, values):
    """You shrink the new tile and leave the old sums. It is the old ones that were measured against another maximum."""
    top, old, new = _weights(m, scores)
    return top, *_add(l, o, values, np.ones_like(old), new * old[:, None])


def divided(m, l, o, scores, values):
    """You divided o by l. That comes once, after the last tile; here o stays a sum."""
    top, old, new = _weights(m, scores)
    l, o = _add(l, o, values, old, new)
    return top, l, o / l[:, None]


def tile_divided(m, l, o, scores, values):
    """You made the new tile's weights sum to 1. Only the whole row does, after the last tile."""
    top, old, new = _weights(m, scores)
    total, _ = _add(l, o, values, old, new)
    return top, total, o * old[:, None] + new / new.sum(axis=1, keepdims=True) @ values


def old_forgotten(m, l, o, scores, values):
    """You started afresh with this tile: what earlier tiles summed is lost."""
    top, _, new = _weights(m, scores)
    return top, new.sum(axis=1), new @ values


def old_weighed_twice(m, l, o, scores, values):
    """You multiply o by l. It is a sum already, with its weights in it."""
    top, old, new = _weights(m, scores)
    total, _ = _add(l, o, values, old, new)
    return top, total, o * (old * l)[:, None] + new @ values


def mean_of_weights(m, l, o, scores, values):
    """You added the mean of the new weights to l; it is their sum that the row is divided by."""
    top, old, new = _weights(m, scores)
    return top, l * old + new.mean(axis=1), o * old[:, None] + new @ values


def first_not_met(m, l, o, scores, values):
    """A first tile, where m is −inf, gives you NaN: −inf times 0, or −inf minus −inf."""
    top, old, new = _weights(m, scores)
    with np.errstate(invalid="ignore"):
        return top + 0 * m, *_add(l, o, values, old, new)


def in_place(m, l, o, scores, values):
    """`o *= …` writes into the caller's array; `o * …` makes a new one."""
    top, old, new = _weights(m, scores)
    o *= old[:, None]
    return top, l * old + new.sum(axis=1), o + new @ values


def float64_leak(m, l, o, scores, values):
    """Somewhere your float32 becomes float64 (`astype(float)`, `np.float64(…)`, an array that NumPy made by itself)."""
    top, old, new = _weights(m, scores.astype(np.float64))
    return top, *_add(l, o, values, old, new)


# ---- right answers, written otherwise ----


def key_by_key(m, l, o, scores, values):
    """Every key is a tile of its own."""
    m, l, o = m.copy(), l.copy(), o.copy()
    for j in range(scores.shape[1]):
        top = np.maximum(m, scores[:, j])
        top = np.where(np.isfinite(top), top, m)
        safe = np.where(np.isfinite(top), top, top.dtype.type(0))  # no key was seen so far
        old, new = np.exp(m - safe), np.exp(scores[:, j] - safe)
        m, l, o = top, l * old + new, o * old[:, None] + new[:, None] * values[j]
    return m, l, o


def one_more_key(m, l, o, scores, values):
    """The old sums are one more key, with score m, weight l and value o."""
    all_scores = np.concatenate([m[:, None], scores], axis=1)
    top = all_scores.max(axis=1)
    weights = np.exp(all_scores - top[:, None])
    total = weights[:, 0] * l + weights[:, 1:].sum(axis=1)
    return top, total, weights[:, :1] * o + np.einsum("ij,jd->id", weights[:, 1:], values)


def two_cases(m, l, o, scores, values):
    """Row by row: either the old maximum stays and the tile is small, or the old sums shrink."""
    top, total, mixed = np.empty_like(m), np.empty_like(l), np.empty_like(o)
    for i in range(len(m)):
        highest = scores[i].max()
        if highest > m[i]:
            shrink, top[i] = np.exp(m[i] - highest), highest
        else:
            shrink, top[i] = m.dtype.type(1), m[i]
        weights = np.exp(scores[i] - top[i])
        total[i] = l[i] * shrink + weights.sum()
        mixed[i] = o[i] * shrink + weights @ values
    return top, total, mixed


def loops(m, l, o, scores, values):
    """Plain loops over queries, keys and features."""
    top, total, mixed = m.copy(), l.copy(), o.copy()
    for i in range(len(m)):
        for s in scores[i]:
            top[i] = max(top[i], s)
        shrink = np.exp(m[i] - top[i])
        total[i] *= shrink
        for d in range(o.shape[1]):
            mixed[i, d] *= shrink
        for j in range(scores.shape[1]):
            weight = np.exp(scores[i, j] - top[i])
            total[i] += weight
            for d in range(o.shape[1]):
                mixed[i, d] += weight * values[j, d]
    return top, total, mixed


exercise = Code(
    id="online-softmax",
    title="One more tile",
    chapter="14_efficient",
    answer="add_tile",
    points=3,
    stars=2,
    minutes=20,
    args=("m", "l", "o", "scores", "values"),
    returns=("m", "l", "o"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        nothing_shrinks,
        o_does_not_shrink,
        l_does_not_shrink,
        grows,
        old_maximum,
        old_maximum_kept,
        maximum_of_the_tile,
        new_weights_from_the_tile,
        one_maximum,
        no_maximum,
        all_shrinks,
        new_shrinks,
        divided,
        tile_divided,
        old_forgotten,
        old_weighed_twice,
        mean_of_weights,
        first_not_met,
        in_place,
        float64_leak,
    ),
    variants=(key_by_key, one_more_key, two_cases, loops),
    hints=(
        "First find the new maximum of each row: what is the largest score so far, with this tile?",
        "Old sums hold exp(s − m) with the old m. You want exp(s − m′). By what factor do the two differ?",
        "exp(s − m′) = exp(s − m) · exp(m − m′). The factor is the same for every old key, so it can be taken out.",
        "`top = np.maximum(m, scores.max(axis=1))`, `shrink = np.exp(m - top)`,\n"
        "`weights = np.exp(scores - top[:, None])`. Then l = l · shrink + the row sums of weights; o likewise.",
    ),
    library=("scratch.tiled._add_tile", "scratch.tiled.tiled_attention_forward"),
    takeaway="exp(s − m′) = exp(s − m) · exp(m − m′): a sum need not know its final maximum when it starts.",
)
