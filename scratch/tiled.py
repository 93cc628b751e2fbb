"""Tiled attention: what `sdpa` computes, one tile of scores after another, so that no T×T array is ever made."""

import math

import numpy as np

from scratch import _check


def tiled_attention_forward(q, k, v, *, causal=True, tile=64):
    """Scaled dot-product attention by the online softmax: `sdpa_forward` to rounding, in memory that grows with T.

    A query keeps three things while the keys go by: the largest score so far m, the sum l of exp(s − m), and the sum
    of exp(s − m) · v. When a tile brings a larger score, both sums shrink by exp(m − m′). Tiles of keys that come after
    every query of the tile are skipped.

    Parameters
    ----------
    q : float array [B, H, T, Dh]
    k, v : float arrays [B, K, T, Dh] of q's dtype, H divisible by K; query head h reads key head h // (H/K)
    causal : bool; True lets query i see keys j ≤ i only
    tile : int, queries and keys in a tile; any positive number, which need not divide T

    Returns
    -------
    out : [B, H, T, Dh], in q's dtype
    cache : for `tiled_attention_backward`; beside the arguments it holds out and the log-sum-exp m + log l [B, H, T]

    Raises
    ------
    ValueError
        If a shape does not fit, the heads do not divide, or tile is no positive integer.

    Source: Milakov & Gimelshein 2018, algorithm 3; Dao et al. 2022, algorithm 1. Book: eq-online-softmax.
    """
    _check_arguments(q, k, v, tile)
    n_kv_heads, T = k.shape[1:3]
    out, lse = np.empty(q.shape, q.dtype), np.empty((*q.shape[:-1], 1), q.dtype)
    for rows in _tiles(T, tile):
        q_tile = _take(q, rows, n_kv_heads) * _scale(q)  # [B, K, H/K·n, Dh]
        top = np.full((*q_tile.shape[:-1], 1), -np.inf, q.dtype)  # the m of above
        sums = top, np.zeros_like(top), np.zeros_like(q_tile)
        for columns in _tiles(rows.stop if causal else T, tile):
            sums = _add_tile(sums, _scores(q_tile, k[:, :, columns], causal and columns == rows), v[:, :, columns])
        top, total, mixed = sums
        _put(out, rows, mixed / total)
        _put(lse, rows, top + np.log(total))  # total ≥ 1: the largest score adds exp(0)
    return out, (q, k, v, out, lse, causal, tile)


def tiled_attention_backward(dout, cache):
    """Gradients of `tiled_attention_forward`: (dq [B, H, T, Dh], dk [B, K, T, Dh], dv [B, K, T, Dh]).

    Each tile's weights are computed once more, ``p = exp(s − lse)``. Softmax's row sum Σⱼ p dp runs over all keys, but
    is ``δ = Σ dout ⊙ out`` over the features of one row, known before the first tile: ``ds = p ⊙ (dp − δ)``.

    In float32 p is as exact as s − lse, so scores in the thousands leave it three digits.

    Source: Dao et al. 2022, appendix B.2. Book: eq-tiled-backward.
    """
    q, k, v, out, lse, causal, tile = cache
    _check.shape("tiled_attention_backward", "dout", dout, q.shape, "[B, H, T, Dh]")
    n_kv_heads, T = k.shape[1:3]
    dq, dk, dv = np.empty(q.shape, q.dtype), np.zeros(k.shape, k.dtype), np.zeros(v.shape, v.dtype)
    delta = np.vecdot(dout, out)[..., None]  # [B, H, T, 1]
    for rows in _tiles(T, tile):
        q_tile = _take(q, rows, n_kv_heads) * _scale(q)
        dout_tile, lse_tile, delta_tile = (_take(a, rows, n_kv_heads) for a in (dout, lse, delta))
        dq_tile = np.zeros_like(q_tile)
        for columns in _tiles(rows.stop if causal else T, tile):
            p = _exp_less(_scores(q_tile, k[:, :, columns], causal and columns == rows), lse_tile)
            dscores = dout_tile @ v[:, :, columns].swapaxes(-1, -2)  # [B, K, H/K·n, m]
            dscores -= delta_tile
            dscores *= p
            dq_tile += dscores @ k[:, :, columns]
            dk[:, :, columns] += dscores.swapaxes(-1, -2) @ q_tile  # q_tile carries the scale
            dv[:, :, columns] += p.swapaxes(-1, -2) @ dout_tile
        _put(dq, rows, dq_tile * _scale(q))
    return dq, dk, dv


def _add_tile(sums, scores, values):
    """One step of the online softmax: m, l and Σ exp(s − m) v with the scores [B, K, H/K·n, m] of another tile."""
    top, total, mixed = sums
    higher = np.maximum(top, scores.max(axis=-1, keepdims=True))
    shrink = _exp_less(top, higher)  # 0 in the first tile, where nothing has been summed
    weights = _exp_less(scores, higher)
    total = total * shrink + weights.sum(axis=-1, keepdims=True)
    return higher, total, mixed * shrink + weights @ values


def _tiles(stop, tile):
    """Slices of `tile` positions up to `stop`; the last may be shorter."""
    return [slice(at, min(at + tile, stop)) for at in range(0, stop, tile)]


def _take(x, rows, n_kv_heads):
    """The rows of x [B, H, T, N], with the query heads that share a key head above one another: [B, K, H/K·n, N]."""
    B, _, _, N = x.shape
    part = x[:, :, rows]
    return part.reshape(B, n_kv_heads, part.shape[1] // n_kv_heads * part.shape[2], N)


def _put(x, rows, part):
    """Write what has the shape of `_take`'s result to the rows of x [B, H, T, N]."""
    place = x[:, :, rows]
    place[...] = part.reshape(place.shape)


def _scale(q):
    return 1 / math.sqrt(q.shape[-1])


def _scores(q_tile, k_tile, diagonal):
    """Scores [B, K, H/K·n, m]; on the diagonal tile, where n = m, those of later keys are −inf."""
    scores = q_tile @ k_tile.swapaxes(-1, -2)
    if diagonal:
        n = scores.shape[-1]
        hidden = np.triu(np.ones((n, n), dtype=bool), 1)
        np.copyto(scores, -np.inf, where=np.tile(hidden, (scores.shape[-2] // n, 1)))
    return scores


def _exp_less(x, top):
    """exp(x − top), a new array."""
    with np.errstate(over="ignore"):  # −3e38 − 3e38 is −inf, and exp(−inf) = 0 is the right weight
        x = x - top
    return np.exp(x, out=x)


def _check_arguments(q, k, v, tile):
    where = "tiled_attention_forward"
    _check.array(where, "q", q, ndim=4)
    _check.array(where, "k", k, ndim=4)
    B, H, T, Dh = q.shape
    K = k.shape[1]
    if K == 0 or H % K:
        raise ValueError(f"{where}: q has {H} heads, not divisible by the {K} heads of k")
    _check.shape(where, "k", k, (B, K, T, Dh), "[B, K, T, Dh]")
    _check.shape(where, "v", v, k.shape, "[B, K, T, Dh]")
    if not isinstance(tile, int | np.integer) or isinstance(tile, bool) or tile < 1:
        raise ValueError(f"{where}: tile={tile!r}, expected a positive integer")
