"""Causal attention for MHA, GQA and MQA: the one place where tokens exchange information."""

import math

import numpy as np

from scratch import _check
from scratch.blocked import blocked_map, blocked_sdpa_backward, blocked_sdpa_forward
from scratch.ops import linear_backward, linear_forward, softmax_backward, softmax_forward
from scratch.rope import rope_backward, rope_forward


def sdpa_forward(q, k, v, *, causal=True, pad_mask=None):
    """Scaled dot-product attention: ``softmax(q kᵀ / √Dh + mask) v``, head by head.

    Query head h reads key/value head h // (H/K). A query that may see no key at all gives 0.

    Parameters
    ----------
    q : float array [B, H, T, Dh]
    k, v : float arrays [B, K, T, Dh], H divisible by K
    causal : bool; True lets query i see keys j ≤ i only
    pad_mask : bool array [B, T], optional, True where the token is real; a padded key is seen by nobody

    Returns
    -------
    out : [B, H, T, Dh], in q's dtype
    cache : for `sdpa_backward`; `attention_map` reads the weights from it

    Source: Vaswani et al. 2017, eq. 1. Book: eq-attention.
    """
    _check_heads(q, k, v, pad_mask)
    B, H, T, Dh = q.shape
    K = k.shape[1]
    # The H/K queries that share a key head stand above one another:
    # one product serves the whole group.
    group = (B, K, H // K * T, Dh)
    scores = q.reshape(group) @ k.swapaxes(-1, -2)  # [B, K, H/K·T, T]
    scores *= 1 / math.sqrt(Dh)
    _mask(scores, causal, pad_mask)
    p, _ = softmax_forward(scores)  # [B, K, H/K·T, T]
    out = (p @ v).reshape(q.shape)  # [B, H, T, Dh]
    return out, (q, k, v, p)


def sdpa_backward(dout, cache):
    """Gradients of `sdpa_forward`: (dq [B, H, T, Dh], dk [B, K, T, Dh], dv [B, K, T, Dh]).

    The products for dk and dv run over all rows of a group, which sums over the query heads that share the key head.
    Book: eq-attention-backward.
    """
    q, k, v, p = cache
    _check.shape("sdpa_backward", "dout", dout, q.shape, "[B, H, T, Dh]")
    group = (*p.shape[:-1], q.shape[-1])  # (B, K, H/K·T, Dh)
    dout = dout.reshape(group)
    dv = p.swapaxes(-1, -2) @ dout  # [B, K, T, Dh]
    dscores = softmax_backward(dout @ v.swapaxes(-1, -2), p)  # [B, K, H/K·T, T]
    dscores *= 1 / math.sqrt(q.shape[-1])
    dq = (dscores @ k).reshape(q.shape)
    dk = dscores.swapaxes(-1, -2) @ q.reshape(group)
    return dq, dk, dv


def _mask(scores, causal, pad_mask):
    """Set to −inf, in place, what a query must not see; scores is [B, K, H/K·T, T]."""
    rows, T = scores.shape[-2:]
    if causal and T:
        # Once for each query head of a group. No reshape of scores:
        # it may have to copy, and then nothing is masked.
        later = np.triu(np.full((T, T), -np.inf, dtype=scores.dtype), 1)
        scores += np.tile(later, (rows // T, 1))
    if pad_mask is not None:
        scores += np.where(pad_mask, 0, -np.inf).astype(scores.dtype)[:, None, None, :]


def attention_forward(
    x,
    wq,
    wk,
    wv,
    wo,
    bq=None,
    bk=None,
    bv=None,
    bo=None,
    *,
    n_heads,
    n_kv_heads,
    rope=None,
    layout="interleaved",
    causal=True,
    pad_mask=None,
):
    """Project to queries, keys and values, rotate, attend, concatenate the heads, project back.

    Parameters
    ----------
    x : float array [B, T, D]
    wq : float array [D, H·Dh]
    wk, wv : float arrays [D, K·Dh]
    wo : float array [H·Dh, D]
    bq, bk, bv, bo : float arrays [H·Dh], [K·Dh], [K·Dh], [D], each optional
    n_heads, n_kv_heads : int, H and K; H = K is MHA, K = 1 is MQA, between them GQA
    rope : (cos, sin) from `rope_table`, or None for no rotation
    layout : RoPE layout, see `rope_forward`
    causal, pad_mask : see `sdpa_forward`

    Returns
    -------
    out : [B, T, D], in x's dtype
    cache : for `attention_backward`

    Raises
    ------
    ValueError
        If a shape does not fit, or the heads do not divide.

    Book: eq-attention.
    """
    _check_projections(x, wq, wk, wv, wo, n_heads, n_kv_heads)
    _check_biases(wq, wk, wo, bq, bk, bv, bo)
    _check.mask("attention_forward", "pad_mask", pad_mask, x.shape[:2], "[B, T]")
    q, cq = linear_forward(x, wq, bq)  # [B, T, H·Dh]
    k, ck = linear_forward(x, wk, bk)  # [B, T, K·Dh]
    v, cv = linear_forward(x, wv, bv)
    q, k, v = _split(q, n_heads), _split(k, n_kv_heads), _split(v, n_kv_heads)  # [B, H or K, T, Dh]
    crope = None
    if rope is not None:
        q, crope = rope_forward(q, *rope, layout)
        k, crope = rope_forward(k, *rope, layout)
    heads, csdpa = blocked_sdpa_forward(q, k, v, causal=causal, pad_mask=pad_mask)  # [B, H, T, Dh]
    out, co = linear_forward(_merge(heads), wo, bo)  # [B, T, D]
    return out, (cq, ck, cv, crope, csdpa, co)


def attention_backward(dout, cache):
    """Gradients of `attention_forward`: (dx, dwq, dwk, dwv, dwo), then those of the biases given, in that order.

    dout is [B, T, D]. Book: eq-attention-backward.
    """
    cq, ck, cv, crope, csdpa, co = cache
    dheads, dwo, *dbo = linear_backward(dout, co)
    n_heads = csdpa[0].shape[1]
    dq, dk, dv = blocked_sdpa_backward(_split(dheads, n_heads), csdpa)
    if crope is not None:
        dq = rope_backward(dq, crope)
        dk = rope_backward(dk, crope)
    dx, dwq, *dbq = linear_backward(_merge(dq), cq)
    dx_k, dwk, *dbk = linear_backward(_merge(dk), ck)
    dx += dx_k
    dx_v, dwv, *dbv = linear_backward(_merge(dv), cv)
    dx += dx_v
    return dx, dwq, dwk, dwv, dwo, *dbq, *dbk, *dbv, *dbo


def attention_map(cache):
    """The weights [B, H, T, T] in the cache of `attention_forward`: entry i, j is how much query i reads of key j."""
    return blocked_map(cache[4])


def _split(x, n):
    B, T, width = x.shape
    return x.reshape(B, T, n, width // n).swapaxes(1, 2)  # [B, n, T, Dh], a view


def _merge(x):
    B, n, T, Dh = x.shape
    return x.swapaxes(1, 2).reshape(B, T, n * Dh)


def _check_heads(q, k, v, pad_mask):
    _check.array("sdpa_forward", "q", q, ndim=4)
    _check.array("sdpa_forward", "k", k, ndim=4)
    B, H, T, Dh = q.shape
    K = k.shape[1]
    if K == 0 or H % K:
        raise ValueError(f"sdpa_forward: q has {H} heads, not divisible by the {K} heads of k")
    _check.shape("sdpa_forward", "k", k, (B, K, T, Dh), "[B, K, T, Dh]")
    _check.shape("sdpa_forward", "v", v, k.shape, "[B, K, T, Dh]")
    _check.mask("sdpa_forward", "pad_mask", pad_mask, (B, T), "[B, T]")


def _check_projections(x, wq, wk, wv, wo, n_heads, n_kv_heads):
    where = "attention_forward"
    _check.array(where, "x", x, ndim=3)
    _check.array(where, "wq", wq, ndim=2)
    _check.array(where, "wo", wo, ndim=2)
    if n_heads < 1 or not wq.shape[1] or wq.shape[1] % n_heads:
        raise ValueError(f"{where}: wq has {wq.shape[1]} columns, not divisible by n_heads={n_heads}")
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{where}: n_heads={n_heads} is not divisible by n_kv_heads={n_kv_heads}")
    D, Dh = x.shape[-1], wq.shape[1] // n_heads
    _check.shape(where, "wq", wq, (D, n_heads * Dh), "[D, H·Dh]")
    _check.shape(where, "wk", wk, (D, n_kv_heads * Dh), "[D, K·Dh]")
    _check.shape(where, "wv", wv, (D, n_kv_heads * Dh), "[D, K·Dh]")
    _check.shape(where, "wo", wo, (n_heads * Dh, wo.shape[-1]), "[H·Dh, D]")


def _check_biases(wq, wk, wo, bq, bk, bv, bo):
    for name, value, w, letters in (
        ("bq", bq, wq, "[H·Dh]"),
        ("bk", bk, wk, "[K·Dh]"),
        ("bv", bv, wk, "[K·Dh]"),
        ("bo", bo, wo, "[D]"),
    ):
        if value is not None:
            _check.shape("attention_forward", name, value, w.shape[1:], letters)
