"""A block as one writes it from the formulas: a line for each, fresh arrays, one np.where for the mask. float32."""

import numpy as np


def rmsnorm(x, g):
    r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-5))
    return x * r * g, (x, g, r)


def rmsnorm_back(dout, cache):
    x, g, r = cache
    z, dz = x * r, dout * g
    dg = np.sum(dout * z, axis=(0, 1))
    return r * (dz - z * np.mean(dz * z, axis=-1, keepdims=True)), dg


def rotate(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
    return out


def heads(x, n):
    B, T, width = x.shape
    return x.reshape(B, T, n, width // n).transpose(0, 2, 1, 3)


def merge(x):
    B, n, T, Dh = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, n * Dh)


def forward(x, p, n_heads, cos, sin):
    """p is a block's tree of parameters, with as many key heads as query heads."""
    scale = np.float32(1 / np.sqrt(x.shape[-1] // n_heads))
    n1, c1 = rmsnorm(x, p["norm1"]["g"])
    q, k, v = (heads(n1 @ p["attn"][name], n_heads) for name in ("wq", "wk", "wv"))
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    scores = q @ k.transpose(0, 1, 3, 2) * scale
    scores = np.where(np.tri(x.shape[1], dtype=bool), scores, np.float32(-np.inf))
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    w = e / e.sum(axis=-1, keepdims=True)
    o = merge(w @ v)
    u = x + o @ p["attn"]["wo"]
    n2, c2 = rmsnorm(u, p["norm2"]["g"])
    gate, up = n2 @ p["ffn"]["wg"], n2 @ p["ffn"]["wu"]
    s = 1 / (1 + np.exp(-gate))
    act = gate * s * up
    return u + act @ p["ffn"]["wd"], (p, n_heads, cos, sin, scale, c1, n1, q, k, v, w, o, c2, n2, gate, up, s, act)


def backward(dout, cache):
    p, n_heads, cos, sin, scale, c1, n1, q, k, v, w, o, c2, n2, gate, up, s, act = cache
    rows = lambda a: a.reshape(-1, a.shape[-1])  # noqa: E731
    attn, ffn = p["attn"], p["ffn"]
    grads = {"wd": rows(act).T @ rows(dout)}
    dact = dout @ ffn["wd"].T
    dgate, dup = dact * up * (s * (1 + gate * (1 - s))), dact * gate * s
    grads |= {"wg": rows(n2).T @ rows(dgate), "wu": rows(n2).T @ rows(dup)}
    du, grads["g2"] = rmsnorm_back(dgate @ ffn["wg"].T + dup @ ffn["wu"].T, c2)
    du = du + dout
    grads["wo"] = rows(o).T @ rows(du)
    do = heads(du @ attn["wo"].T, n_heads)
    dv = w.transpose(0, 1, 3, 2) @ do
    dw = do @ v.transpose(0, 1, 3, 2)
    ds = w * (dw - np.sum(dw * w, axis=-1, keepdims=True)) * scale
    dq, dk = rotate(ds @ k, cos, -sin), rotate(ds.transpose(0, 1, 3, 2) @ q, cos, -sin)
    dq, dk, dv = merge(dq), merge(dk), merge(dv)
    grads |= {name: rows(n1).T @ rows(d) for name, d in (("wq", dq), ("wk", dk), ("wv", dv))}
    dx, grads["g1"] = rmsnorm_back(dq @ attn["wq"].T + dk @ attn["wk"].T + dv @ attn["wv"].T, c1)
    return dx + du, grads
