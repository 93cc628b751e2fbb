"""The feed-forward half of a block: each position alone, through a wider hidden layer and back."""

from scratch.ops import gelu_backward, gelu_forward, linear_backward, linear_forward, silu_backward, silu_forward


def swiglu_forward(x, wg, wu, wd):
    """Gated feed-forward: ``out = (SiLU(x Wg) ⊙ (x Wu)) Wd``.

    Parameters
    ----------
    x : float array [..., D]
    wg, wu : float arrays [D, F], gate and up projections
    wd : float array [F, D], down projection

    Returns
    -------
    out : [..., D], in x's dtype
    cache : for `swiglu_backward`

    Raises
    ------
    ValueError
        If a shape does not fit.

    Source: Shazeer 2020, eq. 6. Book: eq-swiglu.
    """
    gate, cg = linear_forward(x, wg)  # [..., F]
    up, cu = linear_forward(x, wu)  # [..., F]
    if gate.shape != up.shape:
        raise ValueError(f"swiglu_forward: wu has shape {wu.shape}, expected {wg.shape} = wg's [D, F]")
    act, cs = silu_forward(gate)
    out, cd = linear_forward(act * up, wd)  # [..., D]
    return out, (cg, cu, cs, cd, act, up)


def swiglu_backward(dout, cache):
    """Gradients of `swiglu_forward`: (dx, dwg, dwu, dwd) from dout [..., D].

    The up path receives the gate's value; the gate path receives the up value times SiLU′.
    Book: eq-swiglu-backward.
    """
    cg, cu, cs, cd, act, up = cache
    dhidden, dwd = linear_backward(dout, cd)  # [..., F]
    dx, dwg = linear_backward(silu_backward(dhidden * up, cs), cg)
    dx_up, dwu = linear_backward(dhidden * act, cu)
    dx += dx_up
    return dx, dwg, dwu, dwd


def gelu_mlp_forward(x, w1, b1, w2, b2):
    """GPT-2's feed-forward: ``out = gelu(x W1 + b1) W2 + b2``.

    Parameters
    ----------
    x : float array [..., D]
    w1 : float array [D, F]
    b1 : float array [F], or None
    w2 : float array [F, D]
    b2 : float array [D], or None

    Returns
    -------
    out : [..., D], in x's dtype
    cache : for `gelu_mlp_backward`

    Source: Radford et al. 2019 (GPT-2). Book: eq-gelu-mlp.
    """
    hidden, c1 = linear_forward(x, w1, b1)  # [..., F]
    act, cg = gelu_forward(hidden)
    out, c2 = linear_forward(act, w2, b2)  # [..., D]
    return out, (c1, cg, c2)


def gelu_mlp_backward(dout, cache):
    """Gradients of `gelu_mlp_forward`: (dx, dw1, db1, dw2, db2) without those of a bias that was None."""
    c1, cg, c2 = cache
    dact, dw2, *db2 = linear_backward(dout, c2)
    dx, dw1, *db1 = linear_backward(gelu_backward(dact, cg), c1)
    return dx, dw1, *db1, dw2, *db2
