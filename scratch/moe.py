"""Mixture of experts: a router sends each token to a few of E feed-forwards, so that only those are computed.

Two letters more: E experts, N tokens in all (every leading axis of x together).
"""

import numpy as np

from scratch import _check
from scratch.ffn import swiglu_backward, swiglu_forward
from scratch.ops import linear_backward, linear_forward, softmax_backward, softmax_forward


def route(x, router, top_k, *, renormalize=True):
    """The `top_k` experts of each token: those with the largest logits ``x @ router``, ties to the lowest index.

    Parameters
    ----------
    x : float array [..., D]
    router : float array [D, E]
    top_k : int, 1 … E
    renormalize : bool; True takes the softmax over the chosen logits alone, so that a token's weights sum to 1
        (Mixtral); False takes it over all E, and the weights sum to less (Switch)

    Returns
    -------
    chosen : int array [..., top_k], each token's experts, the largest logit first
    weights : [..., top_k], theirs, in x's dtype
    counts : int array [E], tokens that each expert receives; they sum to N · top_k

    Source: Jiang et al. 2024 (Mixtral), section 2.1; Fedus et al. 2021 (Switch), section 2.1. Book: eq-route.
    """
    _check_router("route", x, router, top_k)
    rows = x.reshape(-1, x.shape[-1])  # [N, D]
    chosen, weights, _ = _choose(linear_forward(rows, router)[0], top_k, renormalize)
    shape = (*x.shape[:-1], top_k)
    return chosen.reshape(shape), weights.reshape(shape), np.bincount(chosen.reshape(-1), minlength=router.shape[1])


def moe_forward(x, router, wg, wu, wd, *, top_k, renormalize=True):
    """Sparse feed-forward: ``out = Σ weight_e · SwiGLU_e(x)`` over the token's `top_k` experts.

    An expert gathers its tokens, runs on them alone, and adds to their rows: a token costs ``2 D E + top_k · 6 D F``
    operations, and E counts for the router only. No expert has a capacity, so no token is dropped.

    Parameters
    ----------
    x : float array [..., D]
    router : float array [D, E]
    wg, wu : float arrays [E, D, F], gate and up projection of each expert
    wd : float array [E, F, D], down projection of each expert
    top_k, renormalize : see `route`

    Returns
    -------
    out : [..., D], in x's dtype
    cache : for `moe_backward`

    Raises ValueError if a shape does not fit, or top_k is not in 1 … E.
    Source: Shazeer et al. 2017, eq. 1; Jiang et al. 2024 (Mixtral), section 2.1. Book: eq-moe.
    """
    _check_router("moe_forward", x, router, top_k)
    _check_experts(x, router, wg, wu, wd)
    rows = x.reshape(-1, x.shape[-1])  # [N, D]
    logits, clogits = linear_forward(rows, router)  # [N, E]
    chosen, weights, cgate = _choose(logits, top_k, renormalize)  # [N, top_k]
    out, ran = np.zeros_like(rows), []
    for e in range(router.shape[1]):
        token, place = np.nonzero(chosen == e)  # a token is here at most once, so `+=` below loses nothing
        if token.size:
            y, cexpert = swiglu_forward(rows[token], wg[e], wu[e], wd[e])  # [n, D]
            out[token] += weights[token, place, None] * y
            ran.append((e, token, place, y, cexpert))
    return out.reshape(x.shape), (x.shape, (wg, wu, wd), clogits, weights, cgate, ran)


def moe_backward(dout, cache):
    """Gradients of `moe_forward`: (dx, drouter, dwg, dwu, dwd) from dout [..., D].

    A weight's gradient is ⟨dout, its expert's output⟩; through it the router learns. Which experts are chosen is a
    step function, so the choice itself has no gradient, and an expert without tokens gets 0. With top_k = 1 and
    renormalize=True every weight is 1, and so is drouter 0: that is why Switch does not renormalize.
    Book: eq-moe-backward.
    """
    shape, experts, clogits, weights, cgate, ran = cache
    _check.shape("moe_backward", "dout", dout, shape, "[..., D]")
    drows, dweights = dout.reshape(-1, shape[-1]), np.zeros_like(weights)  # [N, D], [N, top_k]
    dexperts = [np.zeros_like(w) for w in experts]  # of wg, wu, wd
    dx = np.zeros_like(drows)
    for e, token, place, y, cexpert in ran:
        here = drows[token]  # [n, D]
        dweights[token, place] = np.vecdot(here, y)
        drows_e, *dmatrices = swiglu_backward(weights[token, place, None] * here, cexpert)
        dx[token] += drows_e
        for whole, part in zip(dexperts, dmatrices, strict=True):
            whole[e] = part
    dx_router, drouter = linear_backward(_choose_backward(dweights, cgate), clogits)
    dx += dx_router
    return dx.reshape(shape), drouter, *dexperts


def load_balance_forward(logits, chosen):
    """The auxiliary loss that keeps experts equally busy: ``loss = E · Σ_e f_e · P_e``.

    f_e is the share of all N · top_k assignments that went to expert e, P_e the mean over tokens of the softmax over
    all E logits. The loss is 1 when all f are 1/E (or all P), and E when one expert gets every token, all probability
    too. Switch has top_k = 1; where others count f per token, their value is top_k times this one. A model adds it to
    its loss with a small factor, 0.01 in Switch.

    Parameters
    ----------
    logits : float array [..., E], ``x @ router``
    chosen : int array [..., top_k], from `route`

    Returns
    -------
    loss : scalar in logits' dtype; 0 when there is no token
    cache : for `load_balance_backward`

    Source: Fedus et al. 2021 (Switch), eq. 4–6. Book: eq-load-balance.
    """
    _check.array("load_balance_forward", "logits", logits)
    E = logits.shape[-1]
    _check.ids("load_balance_forward", "chosen", chosen, E)
    if chosen.shape[:-1] != logits.shape[:-1]:
        expected = f"{(*logits.shape[:-1], 'top_k')}".replace("'", "")
        raise ValueError(f"load_balance_forward: chosen has shape {chosen.shape}, expected {expected}")
    p, _ = softmax_forward(logits)  # [..., E]
    share = np.bincount(chosen.reshape(-1), minlength=E) / max(chosen.size, 1)  # f, [E]
    share = share.astype(logits.dtype)
    tokens = max(p.size // E, 1)
    mean = p.reshape(-1, E).sum(axis=0) / tokens  # P, [E]
    return E * np.vecdot(share, mean), (p, share, tokens)


def load_balance_backward(dout, cache):
    """Gradient of `load_balance_forward` for the logits [..., E]; f counts tokens and has none, P alone has.

    dout is the scalar gradient of the loss. Book: eq-load-balance-backward.
    """
    p, share, tokens = cache
    if np.ndim(dout):
        raise ValueError(f"load_balance_backward: dout has shape {np.shape(dout)}, expected a scalar")
    dmean = p.dtype.type(dout) * share.size * share  # [E]
    return softmax_backward(np.broadcast_to(dmean / tokens, p.shape), p)  # each token is 1/N of the mean


def _choose(logits, top_k, renormalize):
    """chosen [N, top_k], their weights [N, top_k] and the cache of both, from logits [N, E]."""
    chosen = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]  # stable: of equal logits the first one wins
    if renormalize:  # −inf is weight 0, so the softmax is one over the chosen
        kept = np.full_like(logits, -np.inf)
        np.put_along_axis(kept, chosen, np.take_along_axis(logits, chosen, axis=-1), axis=-1)
        logits = kept
    p, _ = softmax_forward(logits)  # [N, E]
    return chosen, np.take_along_axis(p, chosen, axis=-1), (chosen, p)


def _choose_backward(dweights, cache):
    """dlogits [N, E] from dweights [N, top_k]."""
    chosen, p = cache
    dp = np.zeros_like(p)
    np.put_along_axis(dp, chosen, dweights, axis=-1)
    return softmax_backward(dp, p)


def _check_router(where, x, router, top_k):
    _check.array(where, "x", x)
    _check.array(where, "router", router, ndim=2)
    D, E = x.shape[-1], router.shape[1]
    _check.shape(where, "router", router, (D, E), "[D, E]")
    if not isinstance(top_k, int | np.integer) or not 1 <= top_k <= E:
        raise ValueError(f"{where}: top_k={top_k!r}, expected 1 … {E}, the number of experts")


def _check_experts(x, router, wg, wu, wd):
    _check.array("moe_forward", "wg", wg, ndim=3)
    D, E, F = x.shape[-1], router.shape[1], wg.shape[2]
    for name, w, shape, letters in (
        ("wg", wg, (E, D, F), "[E, D, F]"),
        ("wu", wu, (E, D, F), "[E, D, F]"),
        ("wd", wd, (E, F, D), "[E, F, D]"),
    ):
        _check.shape("moe_forward", name, w, shape, letters)
