"""scratch's operations once more, as plain formulas for HIPS autograd: nothing is shared with scratch, nothing is fast.

Heads are looped over, rotations are matrices, masks are products with 0 and 1, and ids are one-hot rows.
"""

import autograd.numpy as np
import numpy


def linear(x, w, b=0.0):
    return np.dot(x, w) + b


def softmax(x):
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh((2 / numpy.pi) ** 0.5 * (x + 0.044715 * x**3)))


def rmsnorm(x, g, eps=1e-5):
    return g * x / (np.mean(x**2, axis=-1, keepdims=True) + eps) ** 0.5


def layernorm(x, g, b, eps=1e-5):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return g * centred / (np.mean(centred**2, axis=-1, keepdims=True) + eps) ** 0.5 + b


def embedding(ids, table):
    return np.dot(numpy.eye(table.shape[0])[ids], table)


def cross_entropy(logits, targets, ignore_index=-100):
    kept = targets != ignore_index
    if not kept.any():
        return 0.0
    onehot = numpy.eye(logits.shape[-1])[numpy.where(kept, targets, 0)] * kept[..., None]
    return -np.sum(onehot * np.log(softmax(logits))) / kept.sum()


def rotation(T, Dh, base, layout):
    """The matrices [T, Dh, Dh] that RoPE multiplies a vector by: one 2×2 rotation for each pair of features."""
    turn = numpy.zeros((T, Dh, Dh))
    for t in range(T):
        for i in range(Dh // 2):
            a, b = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + Dh // 2)
            angle = t / base ** (2 * i / Dh)
            turn[t, a, a] = turn[t, b, b] = numpy.cos(angle)
            turn[t, a, b], turn[t, b, a] = -numpy.sin(angle), numpy.sin(angle)
    return turn


def rope(x, base, layout):
    return np.einsum("tij,...tj->...ti", rotation(x.shape[-2], x.shape[-1], base, layout), x)


def sdpa(q, k, v, causal=True, pad_mask=None):
    B, H, T, Dh = q.shape
    see = numpy.tril(numpy.ones((T, T))) if causal else numpy.ones((T, T))
    see = see * (numpy.ones((B, T)) if pad_mask is None else pad_mask)[:, None, :]  # [B, T, T]
    blind = see.sum(axis=-1, keepdims=True) == 0
    heads = []
    for h in range(H):
        kv = h * k.shape[1] // H
        seen = see * np.exp(np.matmul(q[:, h], np.transpose(k[:, kv], (0, 2, 1))) / Dh**0.5)
        heads.append(np.matmul(seen / (np.sum(seen, axis=-1, keepdims=True) + blind), v[:, kv]))
    return np.stack(heads, axis=1)


def attention(x, wq, wk, wv, wo, biases=(0.0, 0.0, 0.0, 0.0), *, H, K, turn=None, causal=True, pad_mask=None):
    """turn is (base, layout) of RoPE, or None."""
    bq, bk, bv, bo = biases

    def heads(w, b, n):
        every = linear(x, w, b)
        width = every.shape[-1] // n
        return np.stack([every[..., h * width : (h + 1) * width] for h in range(n)], axis=1)

    q, k, v = heads(wq, bq, H), heads(wk, bk, K), heads(wv, bv, K)
    if turn is not None:
        q, k = rope(q, *turn), rope(k, *turn)
    seen = sdpa(q, k, v, causal, pad_mask)
    return linear(np.concatenate([seen[:, h] for h in range(H)], axis=-1), wo, bo)


def swiglu(x, wg, wu, wd):
    return np.dot(silu(np.dot(x, wg)) * np.dot(x, wu), wd)


def fused_qkv(x, w, b, *, H, K):
    """Queries, keys and values as one vector, each as [B, heads, T, Dh], head by head."""
    width, every = w.shape[1] // (H + 2 * K), linear(x, w, b)
    heads = [every[..., n * width : (n + 1) * width] for n in range(H + 2 * K)]
    parts = heads[:H], heads[H : H + K], heads[H + K :]
    return np.concatenate([np.reshape(np.stack(part, axis=1), -1) for part in parts])


def fused_swiglu(x, wgu, wd):
    F = wd.shape[0]
    return swiglu(x, wgu[:, :F], wgu[:, F:], wd)


def gelu_mlp(x, w1, b1, w2, b2):
    return np.dot(gelu(np.dot(x, w1) + b1), w2) + b2


def moe(x, router, wg, wu, wd, top_k, renormalize=True):
    """Every expert runs on every token; a token's own are those with fewer than top_k experts before them."""
    logits, E = np.dot(x, router), router.shape[1]
    chosen = []
    for e in range(E):
        here = logits[..., e]
        before = [logits[..., f] >= here for f in range(e)] + [logits[..., f] > here for f in range(e + 1, E)]
        chosen.append(numpy.sum(before, axis=0) < top_k)
    chosen = numpy.stack(numpy.broadcast_arrays(*chosen), axis=-1)
    weights = softmax(logits) * chosen
    if renormalize:
        weights = weights / np.sum(weights, axis=-1, keepdims=True)
    return sum(weights[..., e : e + 1] * swiglu(x, wg[e], wu[e], wd[e]) for e in range(E))


def load_balance(logits, chosen):
    E = logits.shape[-1]
    share = numpy.eye(E)[chosen].reshape(-1, E).mean(axis=0)
    return E * np.sum(share * np.mean(np.reshape(softmax(logits), (-1, E)), axis=0))


def latent_attention(x, wdkv, wuk, wuv, wq, wkr, wo, *, H, turn=None, causal=True):
    """Keys and values written out head by head; wkr None leaves the rotated part away."""
    c, Dh, Dv = np.dot(x, wdkv), wuk.shape[1] // H, wuv.shape[1] // H
    Dr = wq.shape[1] // H - Dh
    heads = []
    for h in range(H):
        q, k = np.dot(x, wq[:, h * (Dh + Dr) : (h + 1) * (Dh + Dr)]), np.dot(c, wuk[:, h * Dh : (h + 1) * Dh])
        if Dr:
            qr, kr = q[..., Dh:], np.dot(x, wkr)
            if turn is not None:
                qr, kr = rope(qr, *turn), rope(kr, *turn)
            q, k = np.concatenate([q[..., :Dh], qr], axis=-1), np.concatenate([k, kr], axis=-1)
        v = np.dot(c, wuv[:, h * Dv : (h + 1) * Dv])
        heads.append(sdpa(q[:, None], k[:, None], v[:, None], causal)[:, 0])
    return np.dot(np.concatenate(heads, axis=-1), wo)


def norm(x, p, config):
    return rmsnorm(x, p["g"], config.eps) if config.norm == "rmsnorm" else layernorm(x, p["g"], p["b"], config.eps)


def block(x, p, config, pad_mask=None):
    def attend(n):
        w = p["attn"]
        biases = (w["bq"], w["bk"], w["bv"], w["bo"]) if config.bias else (0.0, 0.0, 0.0, 0.0)
        turn = (config.rope_base, config.rope_layout) if config.pos == "rope" else None
        options = {"H": config.n_heads, "K": config.n_kv_heads, "causal": config.causal}
        return attention(n, w["wq"], w["wk"], w["wv"], w["wo"], biases, turn=turn, pad_mask=pad_mask, **options)

    def feed(n):
        w = p["ffn"]
        if config.ffn == "swiglu":
            return swiglu(n, w["wg"], w["wu"], w["wd"])
        b1, b2 = (w["b1"], w["b2"]) if config.bias else (0.0, 0.0)
        return gelu_mlp(n, w["w1"], b1, w["w2"], b2)

    if config.form == "parallel":
        n = norm(x, p["norm1"], config)
        return x + attend(n) + feed(n)
    if config.form == "post-norm":
        u = norm(x + attend(x), p["norm1"], config)
        return norm(u + feed(u), p["norm2"], config)
    u = x + attend(norm(x, p["norm1"], config))
    return u + feed(norm(u, p["norm2"], config))


def stack(ids, p, config, pad_mask=None):
    x = embedding(ids, p["embed"]["table"])
    if config.pos == "learned":
        x = x + p["pos"]["table"][: ids.shape[1]]
    for l in range(config.n_layers):
        x = block(x, p["blocks"][l], config, pad_mask)
    return x if config.form == "post-norm" else norm(x, p["norm"], config)


def model(ids, p, config, pad_mask=None):
    return np.dot(stack(ids, p, config, pad_mask), p["embed"]["table"].T if config.tied else p["head"]["w"])


def loss(ids, targets, p, config, pad_mask=None):
    return cross_entropy(model(ids, p, config, pad_mask), targets)
