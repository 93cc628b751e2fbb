"""Multi-head latent attention (DeepSeek-V2): keys and values of all heads come from one short vector a token.

Widths: R of the latent; in a head, Dh of query and key without rotation, Dr of their rotated parts, Dv of values.

====  ================  ========================================================
wdkv  [D, R]            down to the latent ``c = x wdkv``
wuk   [R, H·Dh]         up to the keys without rotation
wuv   [R, H·Dv]         up to the values
wq    [D, H·(Dh + Dr)]  queries; of each head's columns the last Dr are rotated
wkr   [D, Dr]           the rotated key, one for all heads; None stands for Dr = 0
wo    [H·Dv, D]         back into the stream
====  ================  ========================================================

RoPE has a part of its own because a rotation between query and wuk could not be folded away (`latent_absorb`).
DeepSeek-V2 also has a latent for the queries and an RMSNorm on each latent; both are left out here.
"""

import math

import numpy as np

from scratch import _check
from scratch.attention import _merge, _split
from scratch.ops import linear_backward, linear_forward, softmax_backward, softmax_forward
from scratch.rope import rope_backward, rope_forward


def latent_attention_forward(x, wdkv, wuk, wuv, wq, wkr, wo, *, n_heads, rope=None, layout="interleaved", causal=True):
    """Attention over keys ``[c wuk, RoPE(x wkr)]`` and values ``c wuv``, where ``c = x wdkv``.

    Scores are ``(q·k + q_r·k_r) / √(Dh + Dr)``, with one k_r for all heads.

    Parameters
    ----------
    x : float array [B, T, D]
    wdkv, wuk, wuv, wq, wkr, wo : float arrays, see the module's table
    n_heads : int, H
    rope : (cos, sin) from ``rope_table(T, Dr)``, or None for no rotation
    layout : RoPE layout, see `rope_forward`
    causal : bool; True lets query i see keys j ≤ i only

    Returns
    -------
    out : [B, T, D], in x's dtype
    cache : for `latent_attention_backward`

    Raises ValueError if a shape does not fit, the heads do not divide, or rope has nothing to turn.
    Source: DeepSeek-AI 2024 (DeepSeek-V2), eq. 9–11 and 14–19. Book: eq-latent.
    """
    _check.array("latent_attention_forward", "x", x, ndim=3)
    _check_weights("latent_attention_forward", x.shape[-1], wdkv, wuk, wuv, wq, wkr, wo, n_heads, rope)
    Dh = wuk.shape[1] // n_heads
    c, cc = linear_forward(x, wdkv)  # [B, T, R]: with kr, all that a decoder keeps
    k, ck = linear_forward(c, wuk)  # [B, T, H·Dh]
    v, cv = linear_forward(c, wuv)  # [B, T, H·Dv]
    q, cq = linear_forward(x, wq)  # [B, T, H·(Dh+Dr)]
    kr, ckr = (x[..., :0], None) if wkr is None else linear_forward(x, wkr)  # [B, T, Dr]
    q, k, v, kr = _split(q, n_heads), _split(k, n_heads), _split(v, n_heads), kr[:, None]  # [B, H or 1, T, …]
    q, qr, crope = q[..., :Dh], q[..., Dh:], None
    if rope is not None:
        qr, crope = rope_forward(qr, *rope, layout)
        kr, crope = rope_forward(kr, *rope, layout)
    heads, cattend = _attend(q, qr, k, kr, v, causal)  # [B, H, T, Dv]
    out, co = linear_forward(_merge(heads), wo)  # [B, T, D]
    return out, (cc, ck, cv, cq, ckr, crope, cattend, co)


def latent_attention_backward(dout, cache):
    """Gradients of `latent_attention_forward`: (dx, dwdkv, dwuk, dwuv, dwq, dwkr, dwo), without dwkr if it was None.

    The latent's gradient is the sum of what keys and values send back; the stream's of what the latent, the queries
    and the rotated key do. dout is [B, T, D]. Book: eq-latent-backward.
    """
    cc, ck, cv, cq, ckr, crope, cattend, co = cache
    dheads, dwo = linear_backward(dout, co)
    n_heads = cattend[0].shape[1]
    dq, dqr, dk, dkr, dv = _attend_backward(_split(dheads, n_heads), cattend)
    if crope is not None:
        dqr, dkr = rope_backward(dqr, crope), rope_backward(dkr, crope)
    dc, dwuk = linear_backward(_merge(dk), ck)
    dc_v, dwuv = linear_backward(_merge(dv), cv)
    dc += dc_v
    dx, dwdkv = linear_backward(dc, cc)
    dx_q, dwq = linear_backward(_merge(np.concatenate([dq, dqr], axis=-1)), cq)
    dx += dx_q
    if ckr is None:
        return dx, dwdkv, dwuk, dwuv, dwq, dwo
    dx_kr, dwkr = linear_backward(dkr[:, 0], ckr)
    dx += dx_kr
    return dx, dwdkv, dwuk, dwuv, dwq, dwkr, dwo


def latent_cache_floats(R, Dr, T=1, n_layers=1, batch=1):
    """Numbers that decoding keeps for T tokens: ``L (R + Dr) T B``, whatever the number of heads.

    Full heads keep ``2 L K Dh T B`` (`account.kv_cache_bytes` with one byte a value). Book: eq-latent-cache.
    """
    return n_layers * (R + Dr) * T * batch


def latent_absorb(wdkv, wuk, wuv, wq, wkr, wo, *, n_heads):
    """The same attention as MQA over the latent, with three weights; keys and values are never expanded.

    Of each head, ``(x wq)(c wuk)ᵀ = (x wq wukᵀ) cᵀ``, so wuk moves into the query; ``(p c wuv) wo = (p c)(wuv wo)``,
    so wuv moves into the output. The factor 1/√(Dh + Dr) goes into the query, too.

    Returns (wq [D, H·(R + Dr)], wkv [D, R + Dr] with latent and rotated key side by side, wo [H·R, D]).
    A large model folds at each step instead, ``(q wukᵀ)`` and ``(p c) wuv``: there R > Dh, and these are the larger.
    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.2. Book: eq-latent-absorb.
    """
    _check.array("latent_absorb", "wdkv", wdkv, ndim=2)
    D, R = wdkv.shape
    _check_weights("latent_absorb", D, wdkv, wuk, wuv, wq, wkr, wo, n_heads, None)
    up_k = wuk.reshape(R, n_heads, -1).transpose(1, 2, 0)  # [H, Dh, R]
    up_v = wuv.reshape(R, n_heads, -1).swapaxes(0, 1)  # [H, R, Dv]
    query = wq.reshape(D, n_heads, -1).swapaxes(0, 1)  # [H, D, Dh+Dr]
    Dh = up_k.shape[1]
    folded = np.concatenate([query[..., :Dh] @ up_k, query[..., Dh:]], axis=-1)  # [H, D, R+Dr]
    folded *= 1 / math.sqrt(query.shape[-1])
    wkv = np.concatenate([wdkv] if wkr is None else [wdkv, wkr], axis=-1)
    return folded.swapaxes(0, 1).reshape(D, -1), wkv, (up_v @ wo.reshape(n_heads, -1, D)).reshape(-1, D)


def latent_decode_step(x, kept, wq, wkv, wo, *, n_heads, rope=None, layout="interleaved"):
    """Attend from S new tokens to the n kept ones and to themselves, on the weights of `latent_absorb`.

    Parameters
    ----------
    x : float array [B, S, D], the new tokens, at positions n … n + S − 1
    kept : float array [B, n, R + Dr], what earlier steps returned; n = 0 at the start
    wq, wkv, wo : from `latent_absorb`
    n_heads, rope, layout : as in `latent_attention_forward`; rope's table has n + S rows or more

    Returns (out [B, S, D], the rows that `latent_attention_forward` has there; kept [B, n + S, R + Dr], a new array).
    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.2. Book: eq-latent-absorb.
    """
    _check_step(x, kept, wq, wkv, wo, n_heads, rope)
    S, n, R = x.shape[1], kept.shape[1], wo.shape[0] // n_heads
    q, new = _split(linear_forward(x, wq)[0], n_heads), linear_forward(x, wkv)[0]  # [B, H, S, R+Dr], [B, S, R+Dr]
    if rope is not None:
        here = [table[n : n + S] for table in rope]
        q = np.concatenate([q[..., :R], rope_forward(q[..., R:], *here, layout)[0]], axis=-1)
        new = np.concatenate([new[..., :R], rope_forward(new[..., R:], *here, layout)[0]], axis=-1)
    kept = np.concatenate([kept, new], axis=1)
    scores = q @ kept[:, None].swapaxes(-1, -2)  # [B, H, S, n+S]; the scale is in wq
    scores += np.triu(np.full((S, n + S), -np.inf, dtype=x.dtype), n + 1)
    p, _ = softmax_forward(scores)
    return linear_forward(_merge(p @ kept[:, None, :, :R]), wo)[0], kept


def _attend(q, qr, k, kr, v, causal):
    """Heads [B, H, T, Dv] from q, k [B, H, T, Dh], qr [B, H, T, Dr], kr [B, 1, T, Dr], v [B, H, T, Dv]."""
    scores = q @ k.swapaxes(-1, -2)  # [B, H, T, T]
    scores += qr @ kr.swapaxes(-1, -2)  # kr serves every head
    scores *= 1 / math.sqrt(q.shape[-1] + qr.shape[-1])
    if causal:
        scores += np.triu(np.full(scores.shape[-2:], -np.inf, dtype=scores.dtype), 1)
    p, _ = softmax_forward(scores)
    return p @ v, (q, qr, k, kr, v, p)


def _attend_backward(dheads, cache):
    q, qr, k, kr, v, p = cache
    dv = p.swapaxes(-1, -2) @ dheads  # [B, H, T, Dv]
    dscores = softmax_backward(dheads @ v.swapaxes(-1, -2), p)  # [B, H, T, T]
    dscores *= 1 / math.sqrt(q.shape[-1] + qr.shape[-1])
    back = dscores.swapaxes(-1, -2)
    dkr = (back @ qr).sum(axis=1, keepdims=True)  # [B, 1, T, Dr]: every head that read it adds to it
    return dscores @ k, dscores @ kr, back @ q, dkr, dv


def _check_weights(where, D, wdkv, wuk, wuv, wq, wkr, wo, n_heads, rope):
    for name, w in (("wdkv", wdkv), ("wuk", wuk), ("wuv", wuv)) + (() if wkr is None else (("wkr", wkr),)):
        _check.array(where, name, w, ndim=2)
        if name in ("wuk", "wuv") and (n_heads < 1 or not w.shape[1] or w.shape[1] % n_heads):
            raise ValueError(f"{where}: {name} has {w.shape[1]} columns, not divisible by n_heads={n_heads}")
    if wkr is None and rope is not None:
        raise ValueError(f"{where}: rope is given, but wkr is None, so nothing is there to rotate")
    R, Dr = wdkv.shape[1], 0 if wkr is None else wkr.shape[1]
    _check.shape(where, "wdkv", wdkv, (D, R), "[D, R]")
    _check.shape(where, "wuk", wuk, (R, wuk.shape[1]), "[R, H·Dh]")
    _check.shape(where, "wuv", wuv, (R, wuv.shape[1]), "[R, H·Dv]")
    _check.shape(where, "wq", wq, (D, wuk.shape[1] + n_heads * Dr), "[D, H·(Dh + Dr)]")
    if wkr is not None:
        _check.shape(where, "wkr", wkr, (D, max(Dr, 1)), "[D, Dr]")
    _check.shape(where, "wo", wo, (wuv.shape[1], D), "[H·Dv, D]")


def _check_step(x, kept, wq, wkv, wo, n_heads, rope):
    where = "latent_decode_step"
    for name, array, ndim in (("x", x, 3), ("kept", kept, 3), ("wkv", wkv, 2), ("wo", wo, 2)):
        _check.array(where, name, array, ndim=ndim)
    (B, S, D), n, width = x.shape, kept.shape[1], wkv.shape[1]
    if n_heads < 1 or wo.shape[0] % n_heads or not 0 < wo.shape[0] // n_heads <= width:
        raise ValueError(f"{where}: wo has {wo.shape[0]} rows, expected n_heads={n_heads} times R, R ≤ {width}")
    _check.shape(where, "wkv", wkv, (D, width), "[D, R + Dr]")
    _check.shape(where, "wq", wq, (D, n_heads * width), "[D, H·(R + Dr)]")
    _check.shape(where, "kept", kept, (B, n, width), "[B, n, R + Dr]")
    if rope is not None and len(rope[0]) < n + S:
        raise ValueError(f"{where}: rope has {len(rope[0])} rows, expected at least {n + S} = n + S")
