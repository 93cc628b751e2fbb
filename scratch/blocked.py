"""Attention in pieces that a core's cache holds: what `sdpa_forward` computes, sooner.

The plain form walks over all T × T scores again and again, and each time they come from memory. Here a few heads and at
most 256 queries go all the way from the scores to the answer while their scores are in the cache. Keys that no query of
a piece may see are left out, which saves nearly half of a long causal attention.
"""

import math
from functools import lru_cache

import numpy as np

QUERIES = 128
"""Queries in a piece, at most."""
SCORES = 1 << 18
"""Scores in a piece: a megabyte of float32."""


def blocked_sdpa_forward(q, k, v, *, causal=True, pad_mask=None):
    """The numbers of `attention.sdpa_forward`, to rounding; its arguments, which are not checked again.

    Returns (out [B, H, T, Dh], in q's order of memory; cache).
    """
    groups = _groups(q, k)  # [B, K, G, T, Dh]
    out = np.empty_like(q)
    q_groups, out_groups, weights = q.reshape(groups), out.reshape(groups), []
    scale = 1 / math.sqrt(q.shape[-1])
    for some, queries, keys in _pieces(groups, causal):
        rows = q_groups[some][..., queries, :] * scale  # [b, h, G, Q, Dh]
        p = _stack(rows) @ k[some][..., keys, :].swapaxes(-1, -2)  # [b, h, G·Q, n]
        _hide(p.reshape(*rows.shape[:4], -1), some, queries, causal, pad_mask)
        _softmax(p)
        out_groups[some][..., queries, :] = (p @ v[some][..., keys, :]).reshape(rows.shape)
        weights.append(p)
    return out, (q, k, v, weights, causal)


def blocked_sdpa_backward(dout, cache):
    """Gradients of `blocked_sdpa_forward`: (dq [B, H, T, Dh], dk, dv [B, K, T, Dh])."""
    q, k, v, weights, causal = cache
    groups, scale = _groups(q, k), 1 / math.sqrt(q.shape[-1])
    dq, dk, dv = np.empty_like(q), np.zeros_like(k), np.zeros_like(v)
    q_groups, dout_groups, dq_groups = (x.reshape(groups) for x in (q, dout, dq))
    for (some, queries, keys), p in zip(_pieces(groups, causal), weights, strict=True):
        rows = q_groups[some][..., queries, :] * scale
        d = _stack(dout_groups[some][..., queries, :])  # [b, h, G·Q, Dh]
        dv[some][..., keys, :] += p.swapaxes(-1, -2) @ d
        ds = d @ v[some][..., keys, :].swapaxes(-1, -2)  # [b, h, G·Q, n]: of the weights
        ds -= np.vecdot(ds, p)[..., None]
        ds *= p  # of the scores
        dk[some][..., keys, :] += ds.swapaxes(-1, -2) @ _stack(rows)
        dq_groups[some][..., queries, :] = (ds @ k[some][..., keys, :]).reshape(rows.shape)
    dq *= scale
    return dq, dk, dv


def blocked_map(cache):
    """The weights as one array [B, H, T, T]."""
    q, k, _, weights, causal = cache
    B, K, G, T, _ = groups = _groups(q, k)
    whole = np.zeros((B, K, G, T, T), q.dtype)
    for (some, queries, keys), p in zip(_pieces(groups, causal), weights, strict=True):
        part = whole[some][..., queries, keys]
        part[...] = p.reshape(part.shape)
    return whole.reshape(B, K * G, T, T)


def _groups(q, k):
    B, H, T, Dh = q.shape
    return B, k.shape[1], H // k.shape[1], T, Dh


def _pieces(groups, causal):
    """Cut the scores into pieces: yield ((sequences, key heads), queries, keys), all slices."""
    B, K, G, T, _ = groups
    queries = max(1, min(T, QUERIES))
    heads = min(K, max(1, SCORES // max(1, G * queries * T)))
    sequences = max(1, SCORES // max(1, K * G * queries * T)) if heads == K else 1
    for b in range(0, B, sequences):
        for h in range(0, K, heads):
            for i in range(0, T, queries):
                j = min(i + queries, T)
                yield (slice(b, b + sequences), slice(h, h + heads)), slice(i, j), slice(0, j if causal else T)


def _stack(x):
    """[b, h, G, Q, Dh] as [b, h, G·Q, Dh]."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3], x.shape[4])


def _hide(scores, some, queries, causal, pad_mask):
    """Set to −inf, in place, what a query must not see; scores is [b, h, G, Q, n]."""
    if causal:
        scores[..., queries] += _later(queries.stop - queries.start, scores.dtype)
    if pad_mask is not None:
        seen = pad_mask[some[0], : scores.shape[-1]]
        scores += np.where(seen, 0, -np.inf).astype(scores.dtype)[:, None, None, None]


@lru_cache(maxsize=8)
def _later(n, dtype):
    """−inf above the diagonal, [n, n]."""
    return np.triu(np.full((n, n), -np.inf, dtype=dtype), 1)


def _softmax(x):
    """`ops.softmax_forward`, in place."""
    top = x.max(axis=-1, keepdims=True)
    top[top == -np.inf] = 0
    with np.errstate(over="ignore"):
        x -= top
    np.exp(x, out=x)
    total = x.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    x /= total
