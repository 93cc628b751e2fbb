"""Fused projections: queries, keys and values from one matrix product, gate and up from one; the numbers stay."""

from dataclasses import replace

import numpy as np

from scratch import _check
from scratch.model import head_weight
from scratch.ops import linear_backward, linear_forward, silu_backward, silu_forward


def fused_qkv_forward(x, w, b=None, *, n_heads, n_kv_heads):
    """Project to queries, keys and values at once: ``[q | k | v] = x @ w + b``, then cut into heads.

    Parameters
    ----------
    x : float array [B, T, D]
    w : float array [D, (H+2K)·Dh], the columns of wq, then those of wk, then those of wv; see `fuse_qkv`
    b : float array [(H+2K)·Dh], optional
    n_heads, n_kv_heads : int, H and K, H divisible by K

    Returns
    -------
    out : tuple (q [B, H, T, Dh], k [B, K, T, Dh], v [B, K, T, Dh]) in x's dtype, three parts of one new array
    cache : for `fused_qkv_backward`

    Raises
    ------
    ValueError
        If a shape does not fit, or w's columns are no multiple of H + 2K.

    Source: the column order is that of GPT-2's c_attn and of PyTorch's in_proj_weight; GPT-NeoX mixes the three head
    by head. Book: eq-fused-qkv.
    """
    where = "fused_qkv_forward"
    _check.array(where, "x", x, ndim=3)
    _check.array(where, "w", w, ndim=2)
    _check_heads(where, w, n_heads, n_kv_heads)
    _check.shape(where, "w", w, (x.shape[-1], w.shape[1]), "[D, (H+2K)·Dh]")
    if b is not None:
        _check.shape(where, "b", b, w.shape[1:], "[(H+2K)·Dh]")
    B, T, _ = x.shape
    heads = n_heads + 2 * n_kv_heads
    every, cache = linear_forward(x, w, b)  # [B, T, (H+2K)·Dh]
    every = every.reshape(B, T, heads, w.shape[1] // heads).swapaxes(1, 2)  # [B, H+2K, T, Dh]
    return tuple(np.split(every, [n_heads, n_heads + n_kv_heads], axis=1)), (cache, n_heads, n_kv_heads)


def fused_qkv_backward(dout, cache):
    """Gradients of `fused_qkv_forward`: (dx [B, T, D], dw), or (dx, dw, db) when a bias was given.

    dout is the tuple (dq, dk, dv), shaped as the forward's (q, k, v). Side by side they are the gradient of one
    product, so the three ways back into x are added up by that product. Book: eq-fused-qkv-backward.
    """
    where = "fused_qkv_backward"
    (x, w, has_bias), n_heads, n_kv_heads = cache
    if not isinstance(dout, tuple | list) or len(dout) != 3:
        raise ValueError(f"{where}: dout must be the three arrays (dq, dk, dv), got {type(dout).__name__}")
    (B, T, _), Dh = x.shape, w.shape[1] // (n_heads + 2 * n_kv_heads)
    for name, d, n, letters in zip(("dq", "dk", "dv"), dout, (n_heads, n_kv_heads, n_kv_heads), "HKK"):
        _check.shape(where, name, d, (B, n, T, Dh), f"[B, {letters}, T, Dh]")
    every = np.concatenate(dout, axis=1).swapaxes(1, 2)  # [B, T, H+2K, Dh]
    return linear_backward(every.reshape(B, T, w.shape[1]), (x, w, has_bias))


def fuse_qkv(attn):
    """{"w": [wq | wk | wv]}, and "b" where there are biases: what `fused_qkv_forward` takes, as new arrays.

    attn is a tree with wq [D, H·Dh], wk and wv [D, K·Dh], and bq, bk, bv or none of them, as in
    ``params["blocks"][l]["attn"]``; wo and bo are left out. ValueError where a part is missing.
    """
    fused = {"w": _side_by_side("fuse_qkv", attn, ("wq", "wk", "wv"))}
    biases = ("bq", "bk", "bv")
    if any(attn.get(name) is not None for name in biases):
        fused["b"] = _side_by_side("fuse_qkv", attn, biases)
    return fused


def split_qkv(fused, *, n_heads, n_kv_heads):
    """The reverse of `fuse_qkv`, for parameters or their gradients: {"wq", "wk", "wv"} and the biases, new arrays."""
    split = {}
    for kind, array in ((kind, fused[kind]) for kind in ("w", "b") if kind in fused):
        _check.array("split_qkv", kind, array)
        _check_heads("split_qkv", array, n_heads, n_kv_heads, kind)
        Dh = array.shape[-1] // (n_heads + 2 * n_kv_heads)
        parts = np.split(array, [n_heads * Dh, (n_heads + n_kv_heads) * Dh], axis=-1)
        split |= {kind + letter: part.copy() for letter, part in zip("qkv", parts)}
    return split


def fused_swiglu_forward(x, wgu, wd):
    """SwiGLU with gate and up in one product: ``[gate | up] = x @ wgu``, ``out = (SiLU(gate) ⊙ up) @ wd``.

    Parameters
    ----------
    x : float array [..., D]
    wgu : float array [D, 2F], the columns of wg, then those of wu; see `fuse_gate_up`
    wd : float array [F, D]

    Returns
    -------
    out : [..., D], in x's dtype
    cache : for `fused_swiglu_backward`

    Raises
    ------
    ValueError
        If a shape does not fit, or wgu has an odd number of columns.

    Source: Shazeer 2020, eq. 6. Book: eq-fused-swiglu.
    """
    where = "fused_swiglu_forward"
    _check.array(where, "x", x)
    _check.array(where, "wgu", wgu, ndim=2)
    _check.array(where, "wd", wd, ndim=2)
    F = _half(where, wgu)
    _check.shape(where, "wgu", wgu, (x.shape[-1], 2 * F), "[D, 2F]")
    _check.shape(where, "wd", wd, (F, wd.shape[1]), "[F, D]")
    both, cgu = linear_forward(x, wgu)  # [..., 2F]
    gate, up = both[..., :F], both[..., F:]
    act, cs = silu_forward(gate)
    out, _ = linear_forward(act * up, wd)  # [..., D]
    return out, (cgu, cs, up, wd)


def fused_swiglu_backward(dout, cache):
    """Gradients of `fused_swiglu_forward`: (dx, dwgu [D, 2F], dwd) from dout [..., D].

    The gate's gradient and the up value's, side by side, go back through one product. Book: eq-fused-swiglu-backward.
    """
    cgu, cs, up, wd = cache
    gate, sigmoid = cs
    act = gate * sigmoid  # once more, as in `swiglu_backward`
    dhidden, dwd = linear_backward(dout, (act * up, wd, False))  # [..., F]
    dboth = np.concatenate([silu_backward(dhidden * up, cs), dhidden * act], axis=-1)  # [..., 2F]
    dx, dwgu = linear_backward(dboth, cgu)
    return dx, dwgu, dwd


def fuse_gate_up(ffn):
    """{"wgu": [wg | wu], "wd"}: what `fused_swiglu_forward` takes, as new arrays, from a tree {"wg", "wu", "wd"}."""
    wd = _side_by_side("fuse_gate_up", ffn, ("wd",))
    return {"wgu": _side_by_side("fuse_gate_up", ffn, ("wg", "wu")), "wd": wd}


def split_gate_up(fused):
    """The reverse of `fuse_gate_up`, for parameters or their gradients: {"wg", "wu", "wd"}, new arrays."""
    wgu = fused["wgu"]
    _check.array("split_gate_up", "wgu", wgu, ndim=2)
    F = _half("split_gate_up", wgu)
    return {"wg": wgu[:, :F].copy(), "wu": wgu[:, F:].copy(), "wd": fused["wd"].copy()}


def fuse_model(params, config):
    """A model for decoding, (params, config): every projection fused, the head a matrix of its own.

    `generate` and what it is made of take the result in place of (params, config), and write the same text sooner:
    with one token at a time a product is short, and fewer of them lose less. The weights are new arrays, so this takes
    the model's memory once more. The table of a tied model is kept besides, for the lookup.
    """
    blocks = []
    for block in params["blocks"]:
        attn, ffn = dict(block["attn"]), dict(block["ffn"])
        joined = fuse_qkv(attn)
        attn = {name: attn[name] for name in ("wo", "bo") if name in attn} | {f"{k}qkv": v for k, v in joined.items()}
        if config.ffn == "swiglu":
            ffn = fuse_gate_up(ffn)
        blocks.append(block | {"attn": attn, "ffn": ffn})
    head = {"w": np.ascontiguousarray(head_weight(params, config))}
    return params | {"blocks": blocks, "head": head}, replace(config, tied=False)


def _side_by_side(where, tree, names):
    parts = [tree.get(name) for name in names]
    for name, part in zip(names, parts):
        if part is None:
            raise ValueError(f"{where}: {name} is missing, expected {', '.join(names)}")
        _check.array(where, name, part)
        _check.shape(where, name, part, (*parts[0].shape[:-1], part.shape[-1]), f"as many rows as {names[0]}")
    return np.concatenate(parts, axis=-1)


def _half(where, wgu):
    if wgu.shape[1] % 2:
        raise ValueError(
            f"{where}: wgu has {wgu.shape[1]} columns, expected an even number, F for the gate and F for up"
        )
    return wgu.shape[1] // 2


def _check_heads(where, w, n_heads, n_kv_heads, name="w"):
    if n_heads < 1 or n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{where}: n_heads={n_heads} is not divisible by n_kv_heads={n_kv_heads}")
    columns, heads = w.shape[-1], n_heads + 2 * n_kv_heads
    if not columns or columns % heads:
        raise ValueError(f"{where}: {name} has {columns} columns, not divisible by n_heads + 2·n_kv_heads = {heads}")
