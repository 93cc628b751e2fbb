"""The operations that a block is made of, each a forward with its backward right below it."""

import math

import numpy as np

from scratch import _check

# The norms and the losses have modules of their own; here all operations can be had from one place.
from scratch.loss import (
    chunked_cross_entropy_backward,
    chunked_cross_entropy_forward,
    cross_entropy_backward,
    cross_entropy_forward,
)
from scratch.norm import layernorm_backward, layernorm_forward, rmsnorm_backward, rmsnorm_forward

__all__ = [
    "chunked_cross_entropy_backward",
    "chunked_cross_entropy_forward",
    "cross_entropy_backward",
    "cross_entropy_forward",
    "embedding_backward",
    "embedding_forward",
    "gelu_backward",
    "gelu_forward",
    "layernorm_backward",
    "layernorm_forward",
    "linear_backward",
    "linear_forward",
    "rmsnorm_backward",
    "rmsnorm_forward",
    "silu_backward",
    "silu_forward",
    "softmax_backward",
    "softmax_forward",
]


def linear_forward(x, w, b=None):
    """Project each row: ``out = x @ w + b``.

    Parameters
    ----------
    x : float array [..., In]
    w : float array [In, Out], of x's dtype
    b : float array [Out], optional

    Returns
    -------
    out : [..., Out], in the dtype of x and w
    cache : for `linear_backward`

    Raises
    ------
    ValueError
        If x's last axis is not w's first, or b's length is not w's second.

    Book: eq-linear.
    """
    _check.array("linear_forward", "x", x)
    _check.array("linear_forward", "w", w, ndim=2)
    if x.shape[-1] != w.shape[0]:
        raise ValueError(f"linear_forward: x has {x.shape[-1]} columns, but w has {w.shape[0]} rows (w is [in, out])")
    # One product for all rows: matmul would take a stack of them matrix by matrix.
    out = (x.reshape(-1, w.shape[0]) @ w).reshape(*x.shape[:-1], w.shape[1])  # [..., Out]
    if b is not None:
        _check.shape("linear_forward", "b", b, w.shape[1:], "[Out]")
        out += b
    return out, (x, w, b is not None)


def linear_backward(dout, cache):
    """Gradients of `linear_forward`: ``dx = dout @ w.T``, ``dw = x.T @ dout``, ``db = Σ dout``.

    dout is [..., Out]. Returns (dx, dw), or (dx, dw, db) when a bias was given.
    """
    x, w, has_bias = cache
    _check.shape("linear_backward", "dout", dout, (*x.shape[:-1], w.shape[1]), "[..., Out]")
    rows, drows = x.reshape(-1, w.shape[0]), dout.reshape(-1, w.shape[1])
    dx = (drows @ w.T).reshape(x.shape)  # [..., In]
    dw = rows.T @ drows  # [In, Out]: every row that used w adds to it
    return (dx, dw, drows.sum(axis=0)) if has_bias else (dx, dw)


def softmax_forward(x):
    """Turn each row of scores into weights that sum to one: ``exp(x) / Σ exp(x)``.

    The row's maximum is subtracted first, which changes nothing but the size of the numbers.

    Parameters
    ----------
    x : float array [..., N]; −inf marks an entry that must get weight 0

    Returns
    -------
    p : [..., N], in x's dtype; a row that is −inf throughout gives zeros
    cache : for `softmax_backward`

    Book: eq-softmax.
    """
    _check.array("softmax_forward", "x", x)
    if x.shape[-1] == 0:
        return x.copy(), x
    top = x.max(axis=-1, keepdims=True)  # [..., 1]
    top[top == -np.inf] = 0  # −inf − (−inf) would be NaN
    with np.errstate(over="ignore"):  # −3e38 − 3e38 is −inf: weight 0, as it should be
        p = x - top
    np.exp(p, out=p)
    total = p.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    p /= total
    return p, p


def softmax_backward(dout, cache):
    """Gradient of `softmax_forward`: ``dx = p ⊙ (dout − Σ dout ⊙ p)``; dout is [..., N]."""
    p = cache
    _check.shape("softmax_backward", "dout", dout, p.shape, "[..., N]")
    dx = dout - np.vecdot(dout, p)[..., None]
    dx *= p
    return dx


def _sigmoid(x):
    s = -x
    with np.errstate(over="ignore"):  # exp(−x) may reach inf, and 1 / (1 + inf) = 0 is right
        np.exp(s, out=s)
    s += 1
    return np.reciprocal(s, out=s)


def silu_forward(x):
    """The gate of SwiGLU: ``out = x · σ(x)`` with ``σ(x) = 1 / (1 + exp(−x))``.

    x is a float array of any shape [..., N]; out has its shape and dtype. Book: eq-silu.
    """
    _check.array("silu_forward", "x", x)
    s = _sigmoid(x)
    return x * s, (x, s)


def silu_backward(dout, cache):
    """Gradient of `silu_forward`: ``dx = dout · σ(x) · (1 + x · (1 − σ(x)))``."""
    x, s = cache
    _check.shape("silu_backward", "dout", dout, x.shape)
    dx = 1 - s
    dx *= x
    dx += 1
    dx *= s
    dx *= dout
    return dx


_GELU_C = math.sqrt(2 / math.pi)
_GELU_A = 0.044715


def gelu_forward(x):
    """GPT-2's GELU, the tanh form: ``out = ½ x (1 + tanh u)``, ``u = √(2/π) (x + 0.044715 x³)``.

    Computed as ``x · σ(2u)``, which is the same number and stays accurate where tanh u is close to −1.
    x is a float array of any shape [..., N]; out has its shape and dtype.
    Source: Hendrycks & Gimpel 2016, section 2. Book: eq-gelu.
    """
    _check.array("gelu_forward", "x", x)
    with np.errstate(over="ignore"):  # a cube that overflows only drives σ to 0 or 1, as it should
        s = _sigmoid(2 * _GELU_C * (x + _GELU_A * (x * x * x)))
    return x * s, (x, s)


def gelu_backward(dout, cache):
    """Gradient of `gelu_forward`: ``dx = dout · (σ + x · σ(1 − σ) · 2u′)``, ``u′ = √(2/π) (1 + 3·0.044715 x²)``."""
    x, s = cache
    _check.shape("gelu_backward", "dout", dout, x.shape)
    slope = x * (s * (1 - s)) * (2 * _GELU_C * (1 + 3 * _GELU_A * (x * x)))
    return dout * (s + slope)


def embedding_forward(ids, table):
    """Look up one row of `table` for each id.

    Parameters
    ----------
    ids : integer array [...], each in [0, V)
    table : float array [V, D]

    Returns
    -------
    out : [..., D], in table's dtype
    cache : for `embedding_backward`

    Raises
    ------
    ValueError
        If an id is negative or not below V.

    Book: eq-embedding.
    """
    _check.array("embedding_forward", "table", table, ndim=2)
    _check.ids("embedding_forward", "ids", ids, table.shape[0])
    return table[ids], (ids, table.shape)


def embedding_backward(dout, cache):
    """Gradient of `embedding_forward` for the table [V, D]: rows that were read twice get both gradients."""
    ids, shape = cache
    _check.shape("embedding_backward", "dout", dout, (*ids.shape, shape[1]), "[..., D]")
    dtable = np.zeros(shape, dtype=dout.dtype)
    np.add.at(dtable, ids.reshape(-1), dout.reshape(-1, shape[1]))
    return dtable
