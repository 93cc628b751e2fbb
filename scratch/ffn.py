"""The feed-forward half of a block: each position alone, through a wider hidden layer and back."""

from scratch import _check
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
    _check_widths("swiglu_forward", x, {"wg": wg, "wu": wu}, {"wd": wd})
    gate, cg = linear_forward(x, wg)  # [..., F]
    up, cu = linear_forward(x, wu)  # [..., F]
    act, cs = silu_forward(gate)
    out, _ = linear_forward(act * up, wd)  # [..., D]
    return out, (cg, cu, cs, up, wd)


def swiglu_backward(dout, cache):
    """Gradients of `swiglu_forward`: (dx, dwg, dwu, dwd) from dout [..., D].

    The up path receives the gate's value; the gate path receives the up value times SiLU′.
    Book: eq-swiglu-backward.
    """
    cg, cu, cs, up, wd = cache
    gate, sigmoid = cs
    act = gate * sigmoid  # once more: it and act * up would have been two arrays [..., F] more to keep until now
    dhidden, dwd = linear_backward(dout, (act * up, wd, False))  # [..., F]
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
    _check_widths("gelu_mlp_forward", x, {"w1": w1, "b1": b1}, {"w2": w2, "b2": b2})
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


def _check_widths(where, x, into, out):
    """Every matrix of `into` is [D, F] and of `out` [F, D'], every bias as long as its matrix is wide."""
    _check.array(where, "x", x)
    first, last = next(iter(into)), next(iter(out))
    _check.array(where, first, into[first], ndim=2)
    _check.array(where, last, out[last], ndim=2)
    D, F, width = x.shape[-1], into[first].shape[1], out[last].shape[1]
    for names, shape, letters in ((into, (D, F), "[D, F]"), (out, (F, width), "[F, D]")):
        for name, value in names.items():
            if name.startswith("w"):
                _check.shape(where, name, value, shape, letters)
            elif value is not None:
                _check.shape(where, name, value, shape[1:], f"[{letters[-2]}]")
