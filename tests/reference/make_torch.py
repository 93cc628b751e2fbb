"""Make torch.npz: PyTorch's outputs and gradients, in float64, for every row of tests/witnesses.py.

PyTorch is no dependency of the course, so this is run by hand when a row's arguments change, in the repository's root::

    python3 -m venv torchenv
    torchenv/bin/pip install torch==2.13.0 numpy autograd
    torchenv/bin/python -m tests.reference.make_torch

PyTorch's own operations are used wherever it has one, down to a whole `TransformerEncoderLayer` for the GPT-2 blocks.
What it lacks, RoPE, is written as its users write it: complex numbers for Meta's layout, halves for Hugging Face's.
"""

import numpy as np
import torch
from torch.nn import functional as fn

from tests.witnesses import BASE, CHOSEN, CONFIGS, IDS, PAD, ROWS, TARGETS, TORCH, H, K, flat

torch.set_default_dtype(torch.float64)


def linear(x, w, b=None):
    return fn.linear(x, w.T, b)  # PyTorch's weights are [out, in]


def rope(x, base, layout):
    T, Dh = x.shape[-2:]
    angle = torch.outer(torch.arange(T), base ** (-torch.arange(0, Dh, 2) / Dh))
    if layout == "interleaved":
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], Dh // 2, 2)) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(z).flatten(-2)
    angle = torch.cat([angle, angle], dim=-1)
    rotated = torch.cat([-x[..., Dh // 2 :], x[..., : Dh // 2]], dim=-1)
    return x * angle.cos() + rotated * angle.sin()


def sdpa(q, k, v, causal=True, pad=None):
    T = q.shape[-2]
    see = torch.ones(T, T, dtype=torch.bool)
    see = see.tril() if causal else see
    if pad is not None:
        see = see & torch.tensor(pad)[:, None, None, :]
    return fn.scaled_dot_product_attention(q, k, v, attn_mask=see, enable_gqa=True)


def attention(x, wq, wk, wv, wo, bq=None, bk=None, bv=None, bo=None, *, heads, kv, turn=None, causal=True, pad=None):
    q, k, v = (linear(x, w, b).unflatten(-1, (n, -1)).transpose(1, 2) for w, b, n in
               ((wq, bq, heads), (wk, bk, kv), (wv, bv, kv)))  # fmt: skip
    if turn is not None:
        q, k = rope(q, *turn), rope(k, *turn)
    return linear(sdpa(q, k, v, causal, pad).transpose(1, 2).flatten(-2), wo, bo)


def fused_qkv(x, w, b):
    heads = linear(x, w, b).unflatten(-1, (H + 2 * K, -1)).transpose(1, 2)
    return torch.cat([part.flatten() for part in heads.split([H, K, K], dim=1)])


def swiglu(x, wg, wu, wd):
    return linear(fn.silu(linear(x, wg)) * linear(x, wu), wd)


def gelu(x):
    return fn.gelu(x, approximate="tanh")


def gelu_mlp(x, w1, b1, w2, b2):
    return linear(gelu(linear(x, w1, b1)), w2, b2)


def moe(x, router, wg, wu, wd, top_k, renormalize=True):
    rows = x.flatten(0, -2)
    logits = rows @ router
    best, chosen = logits.topk(top_k, dim=-1)
    weights = best.softmax(dim=-1) if renormalize else logits.softmax(dim=-1).gather(-1, chosen)
    out = torch.zeros_like(rows)
    for e in range(router.shape[1]):
        token, place = (chosen == e).nonzero(as_tuple=True)
        out = out.index_add(0, token, weights[token, place, None] * swiglu(rows[token], wg[e], wu[e], wd[e]))
    return out.view_as(x)


def load_balance(logits):
    E = logits.shape[-1]
    share = fn.one_hot(torch.tensor(CHOSEN), E).double().flatten(0, -2).mean(dim=0)
    return E * (share * logits.softmax(dim=-1).flatten(0, -2).mean(dim=0)).sum()


def latent_attention(x, wdkv, wuk, wuv, wq, wkr, wo, turn=None, causal=True):
    c = x @ wdkv
    q, k, v = (y.unflatten(-1, (K, -1)).transpose(1, 2) for y in (x @ wq, c @ wuk, c @ wuv))
    if wkr is not None:
        kr = (x @ wkr).unsqueeze(1).expand(-1, K, -1, -1)
        q, qr = q.split([k.shape[-1], kr.shape[-1]], dim=-1)
        if turn is not None:
            qr, kr = rope(qr, *turn), rope(kr, *turn)
        q, k = torch.cat([q, qr], dim=-1), torch.cat([k, kr], dim=-1)
    return fn.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(-2) @ wo


def norm(x, p, config):
    if config.norm == "rmsnorm":
        return fn.rms_norm(x, p["g"].shape, p["g"], config.eps)
    return fn.layer_norm(x, p["g"].shape, p["g"], p["b"], config.eps)


def block(x, p, config, pad):
    if config.norm == "layernorm" and config.bias and config.form != "parallel" and pad is None:
        return encoder_layer(x, p, config)

    def attend(n):
        turn = (config.rope_base, config.rope_layout) if config.pos == "rope" else None
        options = {"heads": config.n_heads, "kv": config.n_kv_heads, "causal": config.causal, "pad": pad}
        return attention(n, **p["attn"], turn=turn, **options)

    def feed(n):
        return swiglu(n, **p["ffn"]) if config.ffn == "swiglu" else gelu_mlp(n, **{"b1": None, "b2": None} | p["ffn"])

    if config.form == "parallel":
        n = norm(x, p["norm1"], config)
        return x + attend(n) + feed(n)
    if config.form == "post-norm":
        u = norm(x + attend(x), p["norm1"], config)
        return norm(u + feed(u), p["norm2"], config)
    u = x + attend(norm(x, p["norm1"], config))
    return u + feed(norm(u, p["norm2"], config))


def encoder_layer(x, p, config):
    """PyTorch's own block, with its parameters replaced by ours."""
    layer = torch.nn.TransformerEncoderLayer(
        config.d_model,
        config.n_heads,
        config.d_ff,
        dropout=0.0,
        activation=gelu,
        layer_norm_eps=config.eps,
        batch_first=True,
        norm_first=config.form == "pre-norm",
    )
    a, f = p["attn"], p["ffn"]
    parameters = {
        "self_attn.in_proj_weight": torch.cat([a["wq"].T, a["wk"].T, a["wv"].T]),
        "self_attn.in_proj_bias": torch.cat([a["bq"], a["bk"], a["bv"]]),
        "self_attn.out_proj.weight": a["wo"].T,
        "self_attn.out_proj.bias": a["bo"],
        "linear1.weight": f["w1"].T,
        "linear1.bias": f["b1"],
        "linear2.weight": f["w2"].T,
        "linear2.bias": f["b2"],
        "norm1.weight": p["norm1"]["g"],
        "norm1.bias": p["norm1"]["b"],
        "norm2.weight": p["norm2"]["g"],
        "norm2.bias": p["norm2"]["b"],
    }
    assert parameters.keys() == dict(layer.named_parameters()).keys()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
    return torch.func.functional_call(layer, parameters, (x,), {"src_mask": mask, "is_causal": True})


def stack(p, config, pad):
    ids = torch.tensor(IDS)
    x = fn.embedding(ids, p["embed"]["table"])
    if config.pos == "learned":
        x = x + fn.embedding(torch.arange(ids.shape[1]), p["pos"]["table"])
    for layer in p["blocks"]:
        x = block(x, layer, config, pad)
    return x if config.form == "post-norm" else norm(x, p["norm"], config)


def model(p, config, pad):
    return linear(stack(p, config, pad), p["embed"]["table"].T if config.tied else p["head"]["w"])


def cross_entropy(logits):
    return fn.cross_entropy(logits.flatten(0, 1), torch.tensor(TARGETS).flatten())


FORMULAS = {
    "linear": linear,
    "linear with bias": linear,
    "softmax": lambda x: fn.softmax(x, dim=-1),
    "silu": fn.silu,
    "gelu": gelu,
    "rmsnorm": lambda x, g: fn.rms_norm(x, g.shape, g, 0.25),
    "layernorm": lambda x, g, b: fn.layer_norm(x, g.shape, g, b, 0.25),
    "embedding": lambda table: fn.embedding(torch.tensor(IDS), table),
    "cross_entropy": cross_entropy,
    "chunked_cross_entropy, chunk 3": lambda h, w: cross_entropy(linear(h, w)),
    "chunked_cross_entropy, chunk 64": lambda h, w: cross_entropy(linear(h, w)),
    "rope, interleaved": lambda x: rope(x, BASE, "interleaved"),
    "rope, half": lambda x: rope(x, BASE, "half"),
    "sdpa, MHA": lambda q, k, v: fn.scaled_dot_product_attention(q, k, v, is_causal=True),
    "sdpa, GQA, padded": lambda q, k, v: sdpa(q, k, v, pad=PAD),
    "sdpa, MQA, not causal, padded": lambda q, k, v: sdpa(q, k, v, causal=False, pad=PAD),
    "attention, MHA": lambda *a: attention(*a, heads=H, kv=H),
    "attention, GQA, RoPE": lambda *a: attention(*a, heads=H, kv=K, turn=(BASE, "interleaved")),
    "attention, MQA, RoPE half": lambda *a: attention(*a, heads=H, kv=1, turn=(BASE, "half")),
    "attention, GQA, biases, RoPE, padded": lambda *a: attention(*a, heads=H, kv=K, turn=(BASE, "half"), pad=PAD),
    "attention, MHA, biases, not causal": lambda *a: attention(*a, heads=H, kv=H, causal=False),
    "attention, GQA, not causal, padded": lambda *a: attention(*a, heads=H, kv=K, causal=False, pad=PAD),
    "swiglu": swiglu,
    "gelu_mlp": gelu_mlp,
    "gelu_mlp without biases": lambda x, w1, w2: gelu_mlp(x, w1, None, w2, None),
    "tiled_attention, GQA": sdpa,
    "tiled_attention, MQA, not causal": lambda q, k, v: sdpa(q, k, v, causal=False),
    "fused_qkv, GQA, biases": fused_qkv,
    "fused_swiglu": lambda x, wgu, wd: swiglu(x, *wgu.chunk(2, dim=1), wd),
    "moe, top 2 of 4": lambda *a: moe(*a, top_k=2),
    "moe, top 1, not renormalized": lambda *a: moe(*a, top_k=1, renormalize=False),
    "load_balance": load_balance,
    "latent_attention, RoPE": lambda *a: latent_attention(*a, turn=(BASE, "interleaved")),
    "latent_attention, RoPE half, not causal": lambda *a: latent_attention(*a, turn=(BASE, "half"), causal=False),
    "latent_attention without RoPE": lambda *a: latent_attention(*a[:5], None, a[5]),
    "blocked_sdpa, GQA": sdpa,
    "blocked_sdpa, MHA, not causal": lambda q, k, v: sdpa(q, k, v, causal=False),
}


def of_config(name, config, pad):
    kind = name.partition(",")[0]
    if kind == "block":
        return lambda x, p: block(x, p, config, pad)
    if kind == "loss":
        return lambda p: cross_entropy(model(p, config, pad))
    return lambda p: (stack if kind == "stack" else model)(p, config, pad)


FORMULAS |= {name: of_config(name, *how) for name, how in CONFIGS.items()}


def tensors(tree):
    if isinstance(tree, dict):
        return {key: tensors(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [tensors(value) for value in tree]
    return torch.tensor(tree, requires_grad=True)


def gradients(tree):
    """The same tree with the tensors' gradients; a parameter that was not read has none in PyTorch, here it is 0."""
    if isinstance(tree, dict):
        return {key: gradients(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [gradients(value) for value in tree]
    return np.zeros(tuple(tree.shape)) if tree.grad is None else tree.grad.numpy()


def main():
    stored = {"version": np.array(torch.__version__)}
    for seed, (name, row) in enumerate(ROWS.items()):
        arrays = row.args()
        args = tensors(arrays)
        out = FORMULAS[name](*args)
        # Inputs and upstream are multiples of 1/64, stored as their numerators.
        upstream = np.round(64 * np.random.default_rng(seed).standard_normal(tuple(out.shape)))
        (out * torch.tensor(upstream / 64)).sum().backward()
        found = {"args": (64 * flat(arrays)).astype(np.int16), "upstream": np.asarray(upstream, dtype=np.int16)}
        found |= {"out": out.detach().numpy(), "grads": flat(gradients(args))}
        stored |= {f"{name}/{key}": value for key, value in found.items()}
    np.savez_compressed(TORCH, **stored)
    print(f"{TORCH.name}: {len(ROWS)} rows, {TORCH.stat().st_size} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    main()
