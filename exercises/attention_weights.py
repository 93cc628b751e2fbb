"""Exercise attention-weights: hide the future and the padding, then turn each row of scores into weights."""

import math

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(scores, pad_mask):
    """scores [B, H, T, T]; pad_mask bool [B, T]. Returns weights [B, H, T, T]."""
    return ops.softmax_forward(np.where(_visible(scores, pad_mask), scores, -np.inf))[0]


def cases(rng):
    """Ascending. The first with several sequences have as many heads: there a pad_mask that NumPy lines up with the
    heads gives numbers and no error."""
    for mask in ([True, True, True], [False, True, True]):  # numbers of one decimal, to work through by hand
        yield rng.choice([-1, 1], (1, 1, 3, 3)) * rng.integers(1, 21, (1, 1, 3, 3)) / 10, np.array([mask])
    yield rng.standard_normal((3, 3, 1, 1)), np.array([[True], [False], [True]])
    yield rng.standard_normal((2, 2, 2, 2)), np.array([[True, True], [False, True]])
    yield 3 * rng.standard_normal((2, 3, 4, 4)), np.array([[True] * 4, [True, True, False, False]])  # padded at the end
    # padded at both ends, all padding, and with holes
    mask = np.array([[False, True, True, False], [False] * 4, [True, False, True, False]])
    # each row its own scale; all below 0, where nothing overflows
    yield -np.abs(rng.standard_normal((3, 2, 4, 4))) * 10.0 ** rng.integers(-3, 4, (3, 2, 4, 1)), mask
    yield _far_apart(rng)
    scores, mask = 3 * rng.standard_normal((2, 4, 6, 6)), np.ones((2, 6), dtype=bool)
    mask[1, :3] = False  # padded at the start: queries 0 to 2 see no key
    scores[1, :, :3] *= 100  # so far apart that adding −1e9 in float32 does not make them equal
    yield scores, mask


def _far_apart(rng):
    """Rows around 900, 0 and −900, whose exponentials overflow or vanish; and what must not be seen is 950 in some of
    them, so that the row's largest score is a masked one. The row that overflows is one in which nothing is hidden, so
    that a softmax without a maximum gives NaN throughout it."""
    offset = np.array([[-900.0, 0.0, -900.0, 0.0, 900.0], [0.0, 0.0, -900.0, 0.0, -900.0]])
    scores = rng.standard_normal((2, 2, 5, 5)) + offset[:, None, :, None]
    mask = np.array([[True] * 5, [False, True, True, True, False]])
    hidden = ~_visible(scores, mask)
    hidden[:, :, :2] = False  # the first two rows keep theirs
    scores[hidden] = 950
    return scores, mask


def rounding(scores, pad_mask):
    """In units of u. A score's error δ becomes a relative error |δ| of its weight. After subtracting the maximum, δ is
    at most 2m for a score, m = max |visible score|, and as much again for the sum; with a log-sum-exp of T steps it is
    T (m + ln T) and one subtraction. exp takes 5 (2.5 ulp), twice, the sum T, the division 1."""
    T = scores.shape[-1]
    visible = _visible(scores, pad_mask)
    m = np.where(visible, np.abs(scores), 0).max(axis=-1, keepdims=True)
    return (((T + 4) * (m + math.log(T)) + T + 11) * _weights(scores, visible),)


def _visible(scores, pad_mask):
    T = scores.shape[-1]
    return np.tri(T, dtype=bool) & pad_mask[:, None, None, :] & np.ones(scores.shape, dtype=bool)  # [B, H, T, T]


def _weights(scores, visible, axis=-1):
    """Softmax over what is visible; zeros where nothing is."""
    masked = np.where(visible, scores, -np.inf)
    top = masked.max(axis=axis, keepdims=True)
    e = np.exp(masked - np.where(top == -np.inf, 0, top))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def _plain_softmax(masked, axis=(-1,)):
    """Softmax that knows of no empty rows."""
    e = np.exp(masked - masked.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


# ---- wrong answers; each docstring is what its author will read ----


def strict(scores, pad_mask):
    """Your causal mask hides the diagonal too (j < i): a token may look at itself, j ≤ i."""
    T = scores.shape[-1]
    return _weights(scores, _visible(scores, pad_mask) & np.tri(T, k=-1, dtype=bool))


def strict_nan(scores, pad_mask):
    """Your causal mask hides the diagonal too (j < i), so that the first query sees no key at all, and 0/0 is NaN. A
    token may look at itself, j ≤ i."""
    T = scores.shape[-1]
    visible = _visible(scores, pad_mask) & np.tri(T, k=-1, dtype=bool)
    return _plain_softmax(np.where(visible, scores, -np.inf))


def one_too_many(scores, pad_mask):
    """Your causal mask lets each query see the next token too (j ≤ i + 1): the one it has to predict."""
    T = scores.shape[-1]
    return _weights(scores, np.tri(T, k=1, dtype=bool) & pad_mask[:, None, None, :])


def anticausal(scores, pad_mask):
    """Your mask is the wrong way round: it shows the future (j ≥ i) and hides the past. Query i is the row, key j the
    column."""
    T = scores.shape[-1]
    return _weights(scores, np.tri(T, dtype=bool).T & pad_mask[:, None, None, :])


def no_causal(scores, pad_mask):
    """Your queries see later keys: the causal mask is missing."""
    return _weights(scores, np.broadcast_to(pad_mask[:, None, None, :], scores.shape))


def no_pad(scores, pad_mask):
    """Your queries see padded keys: pad_mask is not used."""
    return _weights(scores, np.tri(scores.shape[-1], dtype=bool))


def pad_inverted(scores, pad_mask):
    """You hide the real keys and show the padded ones: pad_mask is True where the key is real."""
    return _weights(scores, _visible(scores, ~pad_mask))


def pad_on_queries(scores, pad_mask):
    """You applied pad_mask to the queries, the rows. It says which keys exist, and keys are the last axis."""
    return _weights(scores, np.tri(scores.shape[-1], dtype=bool) & pad_mask[:, None, :, None])


def pad_on_both(scores, pad_mask):
    """You also blank the rows of padded queries. Only keys are hidden here: a padded query still reads the real keys
    before it."""
    return _weights(scores, _visible(scores, pad_mask) & pad_mask[:, None, :, None])


def pad_of_the_first(scores, pad_mask):
    """You use the first sequence's padding for the whole batch; each has its own."""
    return _weights(scores, _visible(scores, pad_mask[:1]))


def pad_by_head(scores, pad_mask):
    """NumPy lines your pad_mask up with the heads instead of the sequences: it needs two new axes, for heads and for
    queries."""
    return _weights(scores, np.tri(scores.shape[-1], dtype=bool) & pad_mask[:, None, :])


def padding_at_the_end_only(scores, pad_mask):
    """You count the real tokens and show the first so many. Padding may stand anywhere, also at the start: use pad_mask
    entry by entry."""
    length = pad_mask.sum(axis=-1)
    return _weights(scores, _visible(scores, np.arange(scores.shape[-1]) < length[:, None]))


def diagonal_always(scores, pad_mask):
    """You let every query see itself, also where its own key is padding. A padded key is seen by nobody."""
    return _weights(scores, _visible(scores, pad_mask) | np.eye(scores.shape[-1], dtype=bool))


def softmax_over_queries(scores, pad_mask):
    """Your softmax runs down the queries, axis −2. The weights of one query, a row, add up to 1: axis=-1."""
    return _weights(scores, _visible(scores, pad_mask), axis=-2)


def softmax_over_the_map(scores, pad_mask):
    """Your weights add up to 1 over the whole map. Each query has a softmax of its own: sum over the last axis."""
    return _weights(scores, _visible(scores, pad_mask), axis=(-2, -1))


def not_normalized(scores, pad_mask):
    """Your rows do not add up to 1: divide each by its sum."""
    visible = _visible(scores, pad_mask)
    return np.where(visible, np.exp(scores - np.where(visible, scores, -np.inf).max(axis=-1, keepdims=True)), 0)


def mask_after_softmax(scores, pad_mask):
    """You mask after the softmax: what the hidden keys took is gone, and the rest does not add up to 1. Mask the
    scores."""
    return _plain_softmax(scores) * _visible(scores, pad_mask).astype(scores.dtype)


def mask_of_zeros(scores, pad_mask):
    """You set hidden scores to 0, but exp(0) = 1: they still get weight. The score of a hidden key is −inf."""
    return _plain_softmax(scores * _visible(scores, pad_mask).astype(scores.dtype))


def finite_mask(scores, pad_mask):
    """You set hidden scores to a large negative number. Where a query sees no key, all are equal, and the softmax
    spreads the weight evenly; that row has to be 0."""
    return _plain_softmax(np.where(_visible(scores, pad_mask), scores, np.array(-1e9, dtype=scores.dtype)))


def finite_mask_added(scores, pad_mask):
    """You add a large negative number to hidden scores. Where a query sees no key, the softmax still compares them, as
    if no mask were there; that row has to be 0."""
    return _plain_softmax(scores + np.where(_visible(scores, pad_mask), 0, -1e9).astype(scores.dtype))


def two_finite_masks(scores, pad_mask):
    """You add a large negative number for the future and another for padding. Where a query sees no key, the keys
    hidden only once share its weight; that row has to be 0."""
    future, padded = ~np.tri(scores.shape[-1], dtype=bool), ~pad_mask[:, None, None, :]
    return _plain_softmax(scores + (-1e9 * future - 1e9 * padded).astype(scores.dtype))


def no_key_nan(scores, pad_mask):
    """A query that sees no key has −inf throughout, and −inf − (−inf) is NaN. Its weights have to be 0."""
    return _plain_softmax(np.where(_visible(scores, pad_mask), scores, -np.inf))


def no_max(scores, pad_mask):
    """Your exp overflows, or is 0 throughout a row: subtract each row's largest visible score first."""
    e = np.where(_visible(scores, pad_mask), np.exp(scores), 0)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def no_max_nan(scores, pad_mask):
    """Your exp overflows: subtract each row's largest visible score first. And a query that sees no key is 0/0."""
    e = np.where(_visible(scores, pad_mask), np.exp(scores), 0)
    return e / e.sum(axis=-1, keepdims=True)


def max_of_hidden_too(scores, pad_mask):
    """You take the maximum over hidden keys too. Where one of them is far above, every visible exp is 0: mask first,
    then take the maximum."""
    e = np.where(_visible(scores, pad_mask), np.exp(scores - scores.max(axis=-1, keepdims=True)), 0)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def max_of_hidden_too_nan(scores, pad_mask):
    """You take the maximum over hidden keys too. Where one of them is far above, every visible exp is 0, and 0/0 is
    NaN. And a query that sees no key needs a 0."""
    e = np.where(_visible(scores, pad_mask), np.exp(scores - scores.max(axis=-1, keepdims=True)), 0)
    return e / e.sum(axis=-1, keepdims=True)


def one_max_for_all(scores, pad_mask):
    """You subtract one maximum from all rows. In a row far below it every exp is 0: each query needs its own
    maximum."""
    masked = np.where(_visible(scores, pad_mask), scores, -np.inf)
    top = masked.max()
    e = np.exp(masked - (top if np.isfinite(top) else 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def scaled_again(scores, pad_mask):
    """You divided the scores by a square root once more; they come scaled already."""
    return _weights(scores / np.array(math.sqrt(scores.shape[-1]), dtype=scores.dtype), _visible(scores, pad_mask))


def in_place(scores, pad_mask):
    """You write −inf into the caller's scores, by an index or by `+=`; make a new array, for example with
    `np.where`."""
    visible = _visible(scores, pad_mask)
    scores[~visible] = -np.inf
    return _weights(scores, visible)


def float64_leak(scores, pad_mask):
    """Somewhere your float32 becomes float64 (`astype(float)`, or `np.tri`, `np.triu`, `np.zeros` without a dtype); the
    maps are the largest arrays of attention, and this doubles them."""
    return _weights(scores.astype(np.float64), _visible(scores, pad_mask))


# ---- right answers, written otherwise ----


def masked_maximum(scores, pad_mask):
    """NumPy's `where=`: maximum and sum over the visible entries only."""
    visible = np.broadcast_to(np.tri(scores.shape[-1], dtype=bool) & pad_mask[:, None, None], scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=visible, initial=np.finfo(scores.dtype).min)
    e = np.zeros_like(scores)
    np.exp(scores - top, out=e, where=visible)
    return np.divide(e, e.sum(axis=-1, keepdims=True), out=np.zeros_like(e), where=visible)


def loops(scores, pad_mask):
    """Loops over every sequence, head and query; the visible keys of each in a list."""
    B, H, T, _ = scores.shape
    weights = np.zeros_like(scores)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                keys = [j for j in range(i + 1) if pad_mask[b, j]]
                if not keys:
                    continue
                row = [float(scores[b, h, i, j]) for j in keys]
                e = [math.exp(s - max(row)) for s in row]
                for j, value in zip(keys, e, strict=True):
                    weights[b, h, i, j] = value / sum(e)
    return weights


def added_mask(scores, pad_mask):
    """−inf added to the scores, and the NaN of empty rows cleared at the end."""
    T = scores.shape[-1]
    with np.errstate(divide="ignore"):
        masked = scores + np.log(np.tri(T, dtype=scores.dtype) * pad_mask[:, None, None, :])
    with np.errstate(invalid="ignore"):
        e = np.exp(masked - masked.max(axis=-1, keepdims=True))
        return np.nan_to_num(e / np.einsum("bhij->bhi", e)[..., None])


def prefixes(scores, pad_mask):
    """Query by query: a softmax over the first i + 1 keys, the padded ones compressed away."""
    weights = np.zeros_like(scores)
    for b, real in enumerate(pad_mask):
        for i in range(scores.shape[-1]):
            keys = np.flatnonzero(real[: i + 1])
            if keys.size:
                row = scores[b, :, i, keys]  # [keys, H]
                e = np.exp(row - row.max(axis=0))
                weights[b, :, i, keys] = e / e.sum(axis=0)
    return weights


def log_sum_exp(scores, pad_mask):
    """Weights as exp(s − log Σ exp s), summed up pair by pair; the sum of nothing is −inf."""
    hidden = np.triu(np.ones(scores.shape[-2:], dtype=bool), 1) | ~pad_mask[:, None, None, :]
    masked = np.where(hidden, -np.inf, scores)
    total = np.logaddexp.reduce(masked, axis=-1, keepdims=True)
    return np.exp(masked - np.where(np.isneginf(total), 0, total))


exercise = Code(
    id="attention-weights",
    title="Mask, then softmax",
    chapter="03_attention",
    answer="attention_weights",
    points=2,
    stars=2,
    minutes=20,
    args=("scores", "pad_mask"),
    returns=("weights",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        strict,
        strict_nan,
        one_too_many,
        anticausal,
        no_causal,
        no_pad,
        pad_inverted,
        pad_on_queries,
        pad_on_both,
        pad_of_the_first,
        pad_by_head,
        padding_at_the_end_only,
        diagonal_always,
        softmax_over_queries,
        softmax_over_the_map,
        not_normalized,
        mask_after_softmax,
        mask_of_zeros,
        finite_mask,
        finite_mask_added,
        two_finite_masks,
        no_key_nan,
        no_max,
        no_max_nan,
        max_of_hidden_too,
        max_of_hidden_too_nan,
        one_max_for_all,
        scaled_again,
        in_place,
        float64_leak,
    ),
    variants=(masked_maximum, loops, added_mask, prefixes, log_sum_exp),
    hints=(
        "First decide who sees whom, as an array of True and False [B, 1, T, T]; only then look at the scores.\n"
        "Query i is the row, key j the column.",
        "`np.tri(T, dtype=bool)` is True where j ≤ i. The padding says something about keys, for every head and every\n"
        "query of a sequence: `pad_mask[:, None, None, :]`. Both have to allow it: `&`.",
        "A hidden key must get weight 0, and exp(−inf) = 0: `np.where(visible, scores, -np.inf)`.\n"
        "Now the maximum over the last axis is that of the visible scores.",
        "A row without a visible key has maximum −inf, and −inf − (−inf) is NaN.\n"
        "Replace such a maximum by 0; then all exponentials of the row are 0.",
        "Its sum is 0 as well: divide by 1 there.\n"
        "`top = masked.max(axis=-1, keepdims=True)`, `top = np.where(np.isneginf(top), 0, top)`,\n"
        "`e = np.exp(masked - top)`, `total = e.sum(axis=-1, keepdims=True)`,\n"
        "`e / np.where(total == 0, 1, total)`.",
    ),
    library=(
        "scratch.ops.softmax_forward",
        "scratch.blocked._softmax",
        "scratch.tiled.tiled_attention_forward",
    ),
    takeaway="Mask first, then take the maximum, then exponentiate: what is hidden must not even decide what is "
    "subtracted.",
)
