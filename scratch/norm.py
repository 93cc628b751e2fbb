"""RMSNorm and LayerNorm: every token's vector brought to one size, each with its backward right below it."""

import numpy as np

from scratch import _check


def rmsnorm_forward(x, g, eps=1e-5):
    """Give every row root-mean-square 1, then scale each feature by its gain.

    ``out = g ⊙ x · r`` with ``r = (mean(x²) + eps)^(−1/2)``, one r for each row.

    Parameters
    ----------
    x : float array [..., D]; in float32 its entries may reach 1e18, beyond that their squares overflow
    g : float array [D], the gain
    eps : float, added to the mean square, inside the root

    Returns
    -------
    out : [..., D], in x's dtype
    cache : for `rmsnorm_backward`

    Source: Zhang & Sennrich 2019, eq. 4. Book: eq-rmsnorm.
    """
    _check.array("rmsnorm_forward", "x", x)
    _check.shape("rmsnorm_forward", "g", g, x.shape[-1:], "[D]")
    r = _inverse_root(np.vecdot(x, x), x.shape[-1], eps)  # [..., 1]
    out = x * r
    out *= g
    return out, (x, g, r)


def rmsnorm_backward(dout, cache):
    """Gradients of `rmsnorm_forward`: (dx [..., D], dg [D]) from dout [..., D].

    With ``z̄ = g ⊙ dout`` and ``c = Σᵢ z̄ᵢ xᵢ``: ``dx = r z̄ − x r³ c / D`` and ``dg = Σ dout ⊙ x r``.
    Book: eq-rmsnorm-backward.
    """
    x, g, r = cache
    _check.shape("rmsnorm_backward", "dout", dout, x.shape, "[..., D]")
    dz = dout * g  # [..., D], gradient of z = x r
    c = np.vecdot(dz, x)[..., None]  # [..., 1]
    dx = dz * r - x * (r * r * r * c / x.shape[-1])
    dg = (dout * (x * r)).reshape(-1, x.shape[-1]).sum(axis=0)
    return dx, dg


def layernorm_forward(x, g, b, eps=1e-5):
    """Give every row mean 0 and standard deviation 1, then scale and shift each feature.

    ``out = g ⊙ (x − μ) / √(σ² + eps) + b``, with the row's own mean μ and (population) variance σ².

    Parameters
    ----------
    x : float array [..., D]
    g, b : float arrays [D], gain and bias
    eps : float, added to the variance, inside the root

    Returns
    -------
    out : [..., D], in x's dtype
    cache : for `layernorm_backward`

    Source: Ba, Kiros & Hinton 2016, eq. 4. Book: eq-layernorm.
    """
    _check.array("layernorm_forward", "x", x)
    _check.shape("layernorm_forward", "g", g, x.shape[-1:], "[D]")
    _check.shape("layernorm_forward", "b", b, x.shape[-1:], "[D]")
    z = x - x.mean(axis=-1, keepdims=True)  # [..., D]
    r = _inverse_root(np.vecdot(z, z), x.shape[-1], eps)  # [..., 1]
    z *= r
    out = z * g
    out += b
    return out, (z, g, r)


def layernorm_backward(dout, cache):
    """Gradients of `layernorm_forward`: (dx [..., D], dg [D], db [D]) from dout [..., D].

    With ``z = (x − μ) r`` and ``z̄ = g ⊙ dout``: ``dx = r (z̄ − mean(z̄) − z mean(z̄ ⊙ z))``.
    Book: eq-layernorm-backward.
    """
    z, g, r = cache
    _check.shape("layernorm_backward", "dout", dout, z.shape, "[..., D]")
    D = z.shape[-1]
    dz = dout * g  # [..., D]
    dx = dz - dz.mean(axis=-1, keepdims=True)
    dx -= z * (np.vecdot(dz, z)[..., None] / D)
    dx *= r
    dg = (dout * z).reshape(-1, D).sum(axis=0)
    db = dout.reshape(-1, D).sum(axis=0)
    return dx, dg, db


def _inverse_root(sum_of_squares, width, eps):
    mean_square = sum_of_squares[..., None] / width
    return 1 / np.sqrt(mean_square + float(eps))  # a NumPy float64 would carry float32 along
