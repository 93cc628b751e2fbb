"""Exercise cached-attention: one decoding step of one attention layer, with a cache of keys and values."""

import math

import numpy as np

from exercises.spec import Code
from scratch import attention, rope


def reference(q, k, v, keys, values, cos, sin):
    """q [B, H, 1, Dh], k, v [B, K, 1, Dh]; keys, values [B, K, t, Dh]; cos, sin [T_max, Dh/2].

    Returns out [B, H, 1, Dh] and the longer cache, keys and values [B, K, t+1, Dh]: the last row of attention without a
    cache, whose earlier queries do not matter and are zero here.
    """
    t = keys.shape[2]

    def last_row(x):
        row = np.zeros((*x.shape[:2], t + 1, x.shape[3]), dtype=x.dtype)
        row[:, :, t:] = x
        return row

    q, k = (rope.rope_forward(last_row(x), cos, sin)[0] for x in (q, k))  # the token stands at position t
    keys = np.concatenate([keys, k[:, :, t:]], axis=2)
    values = np.concatenate([values, v], axis=2)
    out, _ = attention.sdpa_forward(q, keys, values, causal=True)
    return out[:, :, t:], keys, values


def cases(rng):
    """Ascending; an empty cache, K = H, K = 1, scores so large that exp overflows, rows of very different size."""

    def case(B, H, K, t, Dh, T_max, qk=1.0, v=1.0):
        shapes = (B, H, 1, Dh), (B, K, 1, Dh), (B, K, 1, Dh), (B, K, t, Dh), (B, K, t, Dh)
        arrays = [rng.standard_normal(shape) * scale for shape, scale in zip(shapes, (qk, qk, v, qk, v))]
        return *arrays, *rope.rope_table(T_max, Dh)

    # By hand: whole tenths, and a turn whose cosine is 0.6 and whose sine is 0.8. The new token stands at position 1.
    shapes = (1, 2, 1, 2), (1, 1, 1, 2), (1, 1, 1, 2), (1, 1, 1, 2), (1, 1, 1, 2)
    tenths = [rng.choice([-1, 1], shape) * rng.integers(1, 21, shape) / 10 for shape in shapes]
    yield *tenths, np.array([[1.0], [0.6], [-0.28]]), np.array([[0.0], [0.8], [0.96]])
    yield case(1, 4, 2, 0, 2, 3)  # nothing cached yet
    yield case(2, 3, 3, 2, 4, 5)
    yield case(2, 3, 1, 7, 4, 11)
    q, k, v, keys, values, cos, sin = case(1, 6, 2, 4, 8, 9)
    yield q, k, v, keys, values * 10.0 ** rng.integers(-3, 4, (1, 2, 4, 1)), cos, sin
    yield case(3, 4, 2, 5, 6, 8, qk=60.0)  # scores in the thousands
    yield case(2, 6, 3, 9, 10, 12, qk=10.0 ** rng.uniform(-2, 0), v=10.0 ** rng.uniform(-3, 3))


def rounding(q, k, v, keys, values, cos, sin):
    """In units of u. A turned entry is a difference of two products: 2 roundings, counted as 4. A score sums Dh
    products of two such and is scaled: Dh + 7 in all, on the sum of absolute values. Subtracting the largest costs
    one more. An error of e in a score is a relative error of e in its exponential, and all of them enter the sum that
    it is divided by. The rest is relative: T terms in that sum and in the mix of values, and a few for exp, division
    and product."""
    _, H, _, Dh = q.shape
    t, group = keys.shape[2], H // k.shape[1]

    def absolute_turn(x):
        a, b, c, s = np.abs(x[..., 0::2]), np.abs(x[..., 1::2]), np.abs(cos[t]), np.abs(sin[t])
        return np.stack([a * c + b * s, a * s + b * c], axis=-1).reshape(x.shape)

    def per_query_head(x):
        return np.repeat(x, group, axis=1)  # [B, H, t+1, Dh]

    turned = _turn(q, cos[t], sin[t])
    all_keys = np.concatenate([keys, _turn(k, cos[t], sin[t])], axis=2)
    all_values = np.concatenate([values, v], axis=2)
    key_sizes = per_query_head(np.concatenate([np.abs(keys), absolute_turn(k)], axis=2))

    scores = (turned * per_query_head(all_keys)).sum(axis=-1) / math.sqrt(Dh)  # [B, H, t+1]
    sizes = (absolute_turn(q) * key_sizes).sum(axis=-1) / math.sqrt(Dh)
    below = scores.max(axis=-1, keepdims=True) - scores
    p = np.exp(-below)
    p /= p.sum(axis=-1, keepdims=True)
    error = (Dh + 7) * sizes + below
    error += (p * error).sum(axis=-1, keepdims=True) + 2 * (t + 1) + 8
    out = ((p * error)[..., None] * per_query_head(np.abs(all_values))).sum(axis=2, keepdims=True)

    new_keys = np.concatenate([np.zeros_like(keys), 4 * absolute_turn(k)], axis=2)
    return out, new_keys, np.zeros_like(all_values)  # what was cached, and v, are copied


def _turn(x, c, s, half=False):
    """Rotate the pairs of x by angles of cosine c and sine s, both [Dh/2]."""
    out = np.empty_like(x)
    middle = x.shape[-1] // 2
    one, two = (np.s_[..., :middle], np.s_[..., middle:]) if half else (np.s_[..., 0::2], np.s_[..., 1::2])
    out[one] = x[one] * c - x[two] * s
    out[two] = x[one] * s + x[two] * c
    return out


def _mix(q, keys, values, scale=None, seen=None, head=None, stable=True, axis=-1):
    """Attention of one query over all keys, with room to put one thing wrong: the scale, which keys are `seen`, which
    key `head` each query head reads, the softmax."""
    (_, H, _, Dh), K = q.shape, keys.shape[1]
    head = np.arange(H) // (H // K) if head is None else head
    scores = q @ keys[:, head].swapaxes(-1, -2) * (1 / math.sqrt(Dh) if scale is None else scale)  # [B, H, 1, t+1]
    if seen is not None:
        scores[..., ~seen] = -np.inf
    if stable:
        scores = scores - np.max(scores, axis=axis, keepdims=True, initial=np.finfo(q.dtype).min)
    weights = np.exp(scores)
    total = weights.sum(axis=axis, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ values[:, head]  # no key seen: 0


def _longer(keys, values, k, v):
    return np.append(keys, k, axis=2), np.append(values, v, axis=2)


def _step(q, k, v, keys, values, cos, sin, at=None, half=False, **wrong):
    """The right step, with room to put one thing wrong: the row of the table, the layout, and what `_mix` takes."""
    at = keys.shape[2] if at is None else at
    q, k = _turn(q, cos[at], sin[at], half), _turn(k, cos[at], sin[at], half)
    keys, values = _longer(keys, values, k, v)
    return _mix(q, keys, values, **wrong), keys, values


# ---- wrong answers; each docstring is what its author will read ----


def zero(q, k, v, keys, values, cos, sin):
    """Your out is zero everywhere, as if no key were seen: the weights of a query add up to one."""
    return 0 * q, *_step(q, k, v, keys, values, cos, sin)[1:]


def keys_rotated_again(q, k, v, keys, values, cos, sin):
    """You rotated the cached keys once more. They were stored after their rotation, and their positions do not change
    any more: rotate the new key alone."""
    t = keys.shape[2]
    again = _turn(keys, cos[:t], sin[:t])
    return _step(q, k, v, again, values, cos, sin)


def value_rotated(q, k, v, keys, values, cos, sin):
    """You rotated v. RoPE turns queries and keys, so that scores know positions; values are carried off as they are."""
    t = keys.shape[2]
    return _step(q, k, _turn(v, cos[t], sin[t]), keys, values, cos, sin)


def stored_unrotated(q, k, v, keys, values, cos, sin):
    """Your new_keys holds the new key without its rotation. The next step will read it as a rotated one, like all other
    keys of the cache."""
    out, _, values = _step(q, k, v, keys, values, cos, sin)
    return out, np.append(keys, k, axis=2), values


def key_not_rotated(q, k, v, keys, values, cos, sin):
    """The new key is not rotated. The query and the cached keys are, and scores make sense only between two rotated
    vectors."""
    t = keys.shape[2]
    keys, values = _longer(keys, values, k, v)
    return _mix(_turn(q, cos[t], sin[t]), keys, values), keys, values


def query_not_rotated(q, k, v, keys, values, cos, sin):
    """The query is not rotated. The keys are, and scores make sense only between two rotated vectors."""
    _, keys, values = _step(q, k, v, keys, values, cos, sin)
    return _mix(q, keys, values), keys, values


def position_zero(q, k, v, keys, values, cos, sin):
    """The cached keys look t positions off. Either you turned the new q and k by row 0 of the table, and not by row t,
    or you turned the cached keys by row t, and they are turned already."""
    # One mistake or the other: the scores are the same, because turning both sides back by t changes no score.
    return _step(q, k, v, keys, values, cos, sin, at=0)


def one_too_far(q, k, v, keys, values, cos, sin):
    """You took position t + 1. Positions count from 0, so with t tokens in the cache the new one stands at t: read the
    length before you append."""
    return _step(q, k, v, keys, values, cos, sin, at=keys.shape[2] + 1)


def one_too_near(q, k, v, keys, values, cos, sin):
    """You took position t − 1, where the last cached token stands. The new one comes after it, at t."""
    return _step(q, k, v, keys, values, cos, sin, at=keys.shape[2] - 1)


def end_of_table(q, k, v, keys, values, cos, sin):
    """You rotated by the last row of the table. It is longer than this sequence: the new token's row is t."""
    return _step(q, k, v, keys, values, cos, sin, at=-1)


def backwards(q, k, v, keys, values, cos, sin):
    """You turned the pairs the wrong way round: (a, b) becomes (a cos − b sin, a sin + b cos). The cached keys were
    turned that way."""
    return _step(q, k, v, keys, values, cos, -sin)


def half_layout(q, k, v, keys, values, cos, sin):
    """You paired feature i with i + Dh/2. This cache has the other layout: neighbours, (2i, 2i + 1), make a pair."""
    return _step(q, k, v, keys, values, cos, sin, half=True)


def new_not_seen(q, k, v, keys, values, cos, sin):
    """The query does not see its own token: append the new key and value first, then attend over all t + 1."""
    seen = np.arange(keys.shape[2] + 1) < keys.shape[2]
    return _step(q, k, v, keys, values, cos, sin, seen=seen)


def tril(q, k, v, keys, values, cos, sin):
    """Only the first key is seen. A triangle of shape 1 × (t+1) keeps one entry, but this one row is the last row of
    the full mask: the new token sees everything."""
    return _step(q, k, v, keys, values, cos, sin, seen=np.arange(keys.shape[2] + 1) == 0)


def no_scale(q, k, v, keys, values, cos, sin):
    """You forgot to divide the scores by √Dh."""
    return _step(q, k, v, keys, values, cos, sin, scale=1)


def no_root(q, k, v, keys, values, cos, sin):
    """You divided the scores by Dh; the scale is its root, √Dh."""
    return _step(q, k, v, keys, values, cos, sin, scale=1 / q.shape[-1])


def scale_of_the_model(q, k, v, keys, values, cos, sin):
    """You divided the scores by √(H·Dh), the root of the model's width. Each head takes the root of its own width,
    √Dh."""
    return _step(q, k, v, keys, values, cos, sin, scale=1 / math.sqrt(q.shape[1] * q.shape[-1]))


def interleaved_heads(q, k, v, keys, values, cos, sin):
    """Query head h reads key head h % K in your answer. Neighbours share one: head h reads h // (H/K), so repeat each
    key head H/K times instead of tiling them."""
    return _step(q, k, v, keys, values, cos, sin, head=np.arange(q.shape[1]) % k.shape[1])


def first_head_for_all(q, k, v, keys, values, cos, sin):
    """All query heads read the first key head in your answer. There are K of them: query head h reads h // (H/K)."""
    return _step(q, k, v, keys, values, cos, sin, head=np.zeros(q.shape[1], dtype=int))


def softmax_over_queries(q, k, v, keys, values, cos, sin):
    """Your softmax runs over the axis of the queries, which has one entry, and so every weight is 1. It must run over
    the keys, the last axis."""
    return _step(q, k, v, keys, values, cos, sin, axis=2)


def softmax_over_heads(q, k, v, keys, values, cos, sin):
    """Your softmax runs over the heads. The weights of each head add up to one: over the keys, the last axis."""
    return _step(q, k, v, keys, values, cos, sin, axis=1)


def overflow(q, k, v, keys, values, cos, sin):
    """Large scores overflow in exp, and inf / inf is NaN. Subtract each row's largest score first; the weights stay
    the same."""
    return _step(q, k, v, keys, values, cos, sin, stable=False)


def new_entry_first(q, k, v, keys, values, cos, sin):
    """You put the new key before the cached ones. The cache is in the order of positions: the new one goes last."""
    out, keys_right, values_right = _step(q, k, v, keys, values, cos, sin)
    return out, np.roll(keys_right, 1, axis=2), np.roll(values_right, 1, axis=2)


def only_the_new(q, k, v, keys, values, cos, sin):
    """You return the new key and value alone. Return the whole cache, t + 1 long, for the next step."""
    out, keys, values = _step(q, k, v, keys, values, cos, sin)
    return out, keys[:, :, -1:].copy(), values[:, :, -1:].copy()


def cache_not_grown(q, k, v, keys, values, cos, sin):
    """You return the cache as it came. Return it with the new entries at its end, t + 1 long: the next token needs
    them."""
    return _step(q, k, v, keys, values, cos, sin)[0], keys.copy(), values.copy()


def oldest_dropped(q, k, v, keys, values, cos, sin):
    """Your cache drops its oldest entry and stays at t. Nothing is forgotten here: the new one has t + 1."""
    out, keys, values = _step(q, k, v, keys, values, cos, sin)
    return out, keys[:, :, 1:].copy(), values[:, :, 1:].copy()


def overwritten(q, k, v, keys, values, cos, sin):
    """You wrote the new entries over the last cached ones, in the caller's own arrays. The cache has no free place:
    make new arrays of t + 1."""
    t = keys.shape[2]
    keys[:, :, t - 1] = _turn(k, cos[t], sin[t])[:, :, 0]
    values[:, :, t - 1] = v[:, :, 0]
    return _mix(_turn(q, cos[t], sin[t]), keys, values), keys.copy(), values.copy()


def stored_repeated(q, k, v, keys, values, cos, sin):
    """Your cache holds a copy of each key head for every query head. Store K heads; sharing them is what keeps the
    cache small."""
    out, keys, values = _step(q, k, v, keys, values, cos, sin)
    return out, *(np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (keys, values))


def heads_joined(q, k, v, keys, values, cos, sin):
    """You laid the heads of out side by side. That comes later; here out is [B, H, 1, Dh]."""
    out, keys, values = _step(q, k, v, keys, values, cos, sin)
    return out.swapaxes(1, 2).reshape(len(q), 1, -1), keys, values


def turned_in_place(q, k, v, keys, values, cos, sin):
    """You rotate q or k inside the caller's array. Write the rotated pairs into a new one."""
    t = keys.shape[2]
    q[...], k[...] = _turn(q, cos[t], sin[t]), _turn(k, cos[t], sin[t])
    keys, values = _longer(keys, values, k, v)
    return _mix(q, keys, values), keys, values


def turned_while_read(q, k, v, keys, values, cos, sin):
    """You write the first half of a pair into the array and then read it for the second half: it is rotated already.
    Write into a new array."""
    t = keys.shape[2]
    for x in (q, k):
        x[..., 0::2] = x[..., 0::2] * cos[t] - x[..., 1::2] * sin[t]
        x[..., 1::2] = x[..., 0::2] * sin[t] + x[..., 1::2] * cos[t]
    keys, values = _longer(keys, values, k, v)
    return _mix(q, keys, values), keys, values


def empty_is_special(q, k, v, keys, values, cos, sin):
    """Where the cache is empty you return v itself as the new cache. Return a new array, or changing one changes
    both."""
    out, new_keys, new_values = _step(q, k, v, keys, values, cos, sin)
    return out, new_keys, new_values if keys.shape[2] else v


def float64_leak(q, k, v, keys, values, cos, sin):
    """Somewhere your float32 becomes float64. `np.sqrt(Dh)` is such a place: it is a float64, and turns a float32 array
    into one. `Dh**0.5` is a plain number and does not."""
    return _step(q, k, v, keys, values, cos, sin, scale=1 / np.sqrt(q.shape[-1]))


# ---- right answers, written otherwise ----


def grouped(q, k, v, keys, values, cos, sin):
    """The query heads of a group as the rows of one matrix, and a rotation in complex numbers."""
    (B, H, _, Dh), (K, t) = q.shape, keys.shape[1:3]
    turn = cos[t] + 1j * sin[t]  # [Dh/2]

    def rotated(x):
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)

    keys = np.concatenate([keys, rotated(k)], axis=2)  # [B, K, t+1, Dh]
    values = np.concatenate([values, v], axis=2)
    scores = rotated(q).reshape(B, K, H // K, Dh) @ keys.swapaxes(-1, -2) / math.sqrt(Dh)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))  # [B, K, H/K, t+1]
    p /= p.sum(axis=-1, keepdims=True)
    return (p @ values).reshape(q.shape), keys, values


def repeated(q, k, v, keys, values, cos, sin):
    """einsum over keys repeated for every query head, with room in the new cache made first."""
    B, K, t, Dh = keys.shape
    new_keys, new_values = (np.empty((B, K, t + 1, Dh), dtype=q.dtype) for _ in range(2))
    new_keys[:, :, :t], new_values[:, :, :t], new_values[:, :, t] = keys, values, v[:, :, 0]
    turned = np.empty_like(q)
    for x, out in ((q, turned), (k, new_keys[:, :, t:])):
        even, odd = x[..., ::2], x[..., 1::2]
        out[..., ::2], out[..., 1::2] = even * cos[t] - odd * sin[t], even * sin[t] + odd * cos[t]
    every_key, every_value = (np.repeat(x, q.shape[1] // K, axis=1) for x in (new_keys, new_values))
    scores = np.einsum("bhqd,bhtd->bhqt", turned, every_key) * Dh**-0.5
    weights = np.exp(scores - np.amax(scores, axis=-1, keepdims=True))
    mixed = np.einsum("bhqt,bhtd->bhqd", weights, every_value)
    return mixed / weights.sum(axis=-1, keepdims=True), new_keys, new_values


def matrices(q, k, v, keys, values, cos, sin):
    """The rotation as a Dh × Dh matrix, and the weights through the logarithm of their sum."""
    B, H, _, Dh = q.shape
    t, pairs = keys.shape[2], np.arange(0, Dh, 2)
    R = np.zeros((Dh, Dh), dtype=q.dtype)
    R[pairs, pairs] = R[pairs + 1, pairs + 1] = cos[t]
    R[pairs, pairs + 1], R[pairs + 1, pairs] = sin[t], -sin[t]
    keys, values = np.append(keys, k @ R, axis=2), np.append(values, v, axis=2)
    shared = np.arange(H) * k.shape[1] // H
    scores = np.sum(q @ R * keys[:, shared], axis=-1, keepdims=True) / math.sqrt(Dh)  # [B, H, t+1, 1]
    p = np.exp(scores - np.logaddexp.reduce(scores, axis=2, keepdims=True))
    return np.sum(p * values[:, shared], axis=2, keepdims=True), keys, values


def loops(q, k, v, keys, values, cos, sin):
    """Loops over every head, key and feature, with a softmax that sees one key after another."""
    (B, H, _, Dh), (K, t) = q.shape, keys.shape[1:3]
    new_keys, new_values = (np.zeros((B, K, t + 1, Dh), dtype=q.dtype) for _ in range(2))
    out, turned = np.zeros_like(q), np.zeros_like(q)
    for b in range(B):
        for n in range(K):
            new_keys[b, n, :t], new_values[b, n, :t], new_values[b, n, t] = keys[b, n], values[b, n], v[b, n, 0]
        for x, heads, into, at in ((q, H, turned, 0), (k, K, new_keys, t)):
            for n in range(heads):
                for i in range(Dh // 2):
                    one, two = x[b, n, 0, 2 * i], x[b, n, 0, 2 * i + 1]
                    into[b, n, at, 2 * i] = one * cos[t, i] - two * sin[t, i]
                    into[b, n, at, 2 * i + 1] = one * sin[t, i] + two * cos[t, i]
        for n in range(H):
            top, total = -math.inf, 0.0
            for j in range(t + 1):
                score = q.dtype.type(0)
                for i in range(Dh):
                    score += turned[b, n, 0, i] * new_keys[b, n // (H // K), j, i]
                score /= math.sqrt(Dh)
                before, top = top, max(top, score)
                shrink, weight = np.exp(before - top), np.exp(score - top)
                total = total * shrink + weight
                for i in range(Dh):
                    out[b, n, 0, i] = out[b, n, 0, i] * shrink + weight * new_values[b, n // (H // K), j, i]
            out[b, n] /= total
    return out, new_keys, new_values


exercise = Code(
    id="cached-attention",
    title="One step with a cache",
    chapter="12_generating",
    answer="cached_attention",
    points=3,
    stars=2,
    minutes=30,
    args=("q", "k", "v", "keys", "values", "cos", "sin"),
    returns=("out", "new_keys", "new_values"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        keys_rotated_again,
        value_rotated,
        stored_unrotated,
        key_not_rotated,
        query_not_rotated,
        position_zero,
        one_too_far,
        one_too_near,
        end_of_table,
        backwards,
        half_layout,
        new_not_seen,
        tril,
        no_scale,
        no_root,
        scale_of_the_model,
        interleaved_heads,
        first_head_for_all,
        softmax_over_queries,
        softmax_over_heads,
        overflow,
        new_entry_first,
        only_the_new,
        cache_not_grown,
        oldest_dropped,
        overwritten,
        stored_repeated,
        heads_joined,
        turned_in_place,
        turned_while_read,
        empty_is_special,
        float64_leak,
    ),
    variants=(grouped, repeated, matrices, loops),
    hints=(
        "Four steps: rotate the new query and the new key, make the cache longer, attend with the one query, return.",
        "t tokens came before, at positions 0 to t − 1. So the new one stands at t = keys.shape[2]: row t of cos and\n"
        "sin. The cached keys have been rotated already, and values never are.",
        "A pair (a, b) = (x[..., 0::2], x[..., 1::2]) becomes (a cos − b sin, a sin + b cos), in a new array.",
        "`np.concatenate([keys, k_rotated], axis=2)` puts the new key last. The query sees all t + 1 keys: no mask.\n"
        "`np.repeat(new_keys, H // K, axis=1)` gives each query head its key head.",
        "`scores = q_rotated @ repeated_keys.swapaxes(-1, -2) / Dh**0.5` is [B, H, 1, t+1].\n"
        "Subtract each row's maximum, exponentiate, divide by the sum over the last axis, multiply with the values.",
    ),
    library=(
        "scratch.attention.sdpa_forward",
        "scratch.blocked.blocked_sdpa_forward",
        "scratch.tiled.tiled_attention_forward",
        "scratch.generate._attend",
        "scratch.latent._attend",
    ),
    takeaway="The step is the last row of attention without a cache: all that is earlier was computed once and kept.",
)
