"""Rotary position embedding: queries and keys are turned by an angle that grows with their position."""

import numpy as np

from scratch import _check

LAYOUTS = ("interleaved", "half")


def rope_table(T, Dh, base=10000.0):
    """Cosine and sine of every angle ``position · base^(−2i/Dh)``.

    Parameters
    ----------
    T : int, number of positions
    Dh : int, head width, even
    base : float

    Returns
    -------
    cos, sin : float64 [T, Dh/2]; column i belongs to pair i

    Source: Su et al. 2021, section 3.2.2. Book: eq-rope-angle.
    """
    if Dh < 2 or Dh % 2:
        raise ValueError(f"rope_table: Dh={Dh}, expected an even head width of at least 2")
    if T < 0:
        raise ValueError(f"rope_table: T={T}, expected 0 or more positions")
    if not base > 0:
        raise ValueError(f"rope_table: base={base}, expected a positive number")
    frequency = base ** (-np.arange(0, Dh, 2) / Dh)  # [Dh/2]
    angle = np.outer(np.arange(T), frequency)  # [T, Dh/2]
    return np.cos(angle), np.sin(angle)


def rope_forward(x, cos, sin, layout="interleaved"):
    """Rotate each pair of features by its position's angle.

    A pair (a, b) becomes (a cos − b sin, a sin + b cos). Pair i is features (2i, 2i+1) in the
    interleaved layout and (i, i + Dh/2) in the half layout.

    Parameters
    ----------
    x : float array [B, H, T, Dh] (any leading axes), queries or keys, never values
    cos, sin : arrays [at least T, Dh/2], from `rope_table`; cast to x's dtype
    layout : "interleaved" (Meta's Llama code, GGUF files) or "half" (Hugging Face)

    Returns
    -------
    out : x's shape and dtype
    cache : for `rope_backward`

    Raises
    ------
    ValueError
        If Dh does not fit the table, the table is shorter than T, or the layout is unknown.

    Book: eq-rope.
    """
    _check.array("rope_forward", "x", x)
    _check.choice("rope_forward", "layout", layout, LAYOUTS)
    if x.ndim < 2:
        raise ValueError(f"rope_forward: x has shape {x.shape}, expected [..., T, Dh]")
    T, Dh = x.shape[-2:]
    for name, table in (("cos", cos), ("sin", sin)):
        _check.array("rope_forward", name, table, ndim=2)
        if table.shape[0] < T or 2 * table.shape[1] != Dh:
            raise ValueError(
                f"rope_forward: {name} has shape {table.shape}, expected at least ({T}, {Dh / 2:g}) = [T, Dh/2]"
            )
    cos, sin = cos[:T].astype(x.dtype), sin[:T].astype(x.dtype)
    return _turn(x, cos, sin, layout), (cos, sin, layout)


def rope_backward(dout, cache):
    """Gradient of `rope_forward`: the inverse rotation of dout, by the same angles; its shape is dout's."""
    cos, sin, layout = cache
    _check.array("rope_backward", "dout", dout)
    if dout.shape[-2:] != (cos.shape[0], 2 * cos.shape[1]):
        raise ValueError(
            f"rope_backward: dout has shape {dout.shape}, expected [..., {cos.shape[0]}, {2 * cos.shape[1]}]"
        )
    return _turn(dout, cos, -sin, layout)


def _turn(x, cos, sin, layout):
    """`_rotate`, with neighbours taken as one complex number where they lie side by side: six times as fast."""
    pair = {np.dtype(np.float32): np.complex64, np.dtype(np.float64): np.complex128}.get(x.dtype)
    if layout != "interleaved" or pair is None or x.strides[-1] != x.itemsize or not x.size:
        return _rotate(x, cos, sin, layout)
    turn = np.empty(cos.shape, pair)
    turn.real, turn.imag = cos, sin
    return (x.view(pair) * turn).view(x.dtype)


def _rotate(x, cos, sin, layout):
    first, second = _pairs(x.shape[-1], layout)
    a, b = x[..., first], x[..., second]  # [..., T, Dh/2], views
    out = np.empty_like(x)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def _pairs(Dh, layout):
    if layout == "interleaved":
        return slice(0, None, 2), slice(1, None, 2)
    return slice(0, Dh // 2), slice(Dh // 2, None)


def convert_layout(w, n_heads, to):
    """Permute the columns of a query or key projection from the other RoPE layout to `to`.

    Scores and logits stay the same, because queries and keys are permuted alike.

    Parameters
    ----------
    w : array [D, n_heads · Dh], or a bias [n_heads · Dh]
    n_heads : int, heads in w (the number of key heads for wk)
    to : "interleaved" or "half", the layout wanted

    Returns
    -------
    A new array of w's shape.

    Book: eq-rope-layouts.
    """
    _check.array("convert_layout", "w", w)
    _check.choice("convert_layout", "to", to, LAYOUTS)
    columns = w.shape[-1]
    if n_heads < 1 or columns % n_heads or (columns // n_heads) % 2:
        raise ValueError(f"convert_layout: w has {columns} columns, expected an even head width for n_heads={n_heads}")
    per_head = w.reshape(*w.shape[:-1], n_heads, columns // n_heads)  # [..., n_heads, Dh]
    out = np.empty_like(per_head)
    new_first, new_second = _pairs(per_head.shape[-1], to)
    first, second = _pairs(per_head.shape[-1], "half" if to == "interleaved" else "interleaved")
    out[..., new_first], out[..., new_second] = per_head[..., first], per_head[..., second]
    return out.reshape(w.shape)
