"""The same block and model in PyTorch, eager or compiled, for comparison; an optional extra: pip install ".[bench]"."""

import os

import torch
import torch.nn.functional as F

from scratch.rope import rope_table


class Block(torch.nn.Module):
    """Pre-norm, RMSNorm, attention with interleaved RoPE, SwiGLU, in PyTorch's own layouts, from a tree of scratch.

    whole_turns : turn pairs as complex numbers, which is fastest eagerly; the compiler wants real ones
    """

    def __init__(self, params, n_heads, cos, sin, whole_turns):
        super().__init__()
        self.n_heads, self.whole_turns = n_heads, whole_turns
        attn, ffn = params["attn"], params["ffn"]
        joined = {
            "wqkv": torch.cat([_weight(attn[name]) for name in ("wq", "wk", "wv")]),
            "wo": _weight(attn["wo"]),
            "wgu": torch.cat([_weight(ffn[name]) for name in ("wg", "wu")]),
            "wd": _weight(ffn["wd"]),
            "norm1": torch.from_numpy(params["norm1"]["g"].copy()),
            "norm2": torch.from_numpy(params["norm2"]["g"].copy()),
        }
        for name, value in joined.items():
            self.register_parameter(name, torch.nn.Parameter(value))
        cos, sin = (torch.from_numpy(t).float()[:, None] for t in (cos, sin))  # [T, 1, Dh/2]
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.turn = torch.complex(cos, sin)

    def forward(self, x):
        """x is [B, T, D]."""
        q, k, v = self.project(x, slice(0, x.shape[1]))
        return self.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def decode(self, x, keys, values, t):
        """x [1, 1, D] is token t; keys and values [1, H, T, Dh] hold those before it, and get its own."""
        q, keys[:, :, t : t + 1], values[:, :, t : t + 1] = self.project(x, slice(t, t + 1))
        seen = keys[:, :, : t + 1], values[:, :, : t + 1]
        return self.finish(x, F.scaled_dot_product_attention(q, *seen))

    def project(self, x, places):
        """Queries, keys and values [B, H, T, Dh] of x [B, T, D] at these places."""
        B, T, D = x.shape
        every = F.linear(F.rms_norm(x, (D,), self.norm1, 1e-5), self.wqkv)
        q, k, v = (t.view(B, T, self.n_heads, -1) for t in every.chunk(3, dim=-1))
        return tuple(t.transpose(1, 2) for t in (self.rotate(q, places), self.rotate(k, places), v))

    def finish(self, x, a):
        """The rest of the block, from the attention's answer a [B, H, T, Dh]."""
        B, T, D = x.shape
        u = x + F.linear(a.transpose(1, 2).reshape(B, T, D), self.wo)
        gate, up = F.linear(F.rms_norm(u, (D,), self.norm2, 1e-5), self.wgu).chunk(2, dim=-1)
        return u + F.linear(F.silu(gate) * up, self.wd)

    def rotate(self, x, places):
        """RoPE of x [B, T, H, Dh]."""
        if self.whole_turns:
            pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * self.turn[places]).flatten(-2)
        a, b, cos, sin = x[..., 0::2], x[..., 1::2], self.cos[places], self.sin[places]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Model(torch.nn.Module):
    """Embedding, blocks, norm, and a head that reads the embedding table."""

    def __init__(self, params, config, whole_turns):
        super().__init__()
        rope = rope_table(config.max_seq, config.head_dim, config.rope_base)
        self.table = torch.nn.Parameter(torch.from_numpy(params["embed"]["table"].copy()))
        self.gain = torch.nn.Parameter(torch.from_numpy(params["norm"]["g"].copy()))
        blocks = [Block(block, config.n_heads, *rope, whole_turns) for block in params["blocks"]]
        self.blocks = torch.nn.ModuleList(blocks)

    def forward(self, ids):
        """Logits [B, T, V] of ids [B, T]."""
        x = F.embedding(ids, self.table)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def decode(self, token, caches, t):
        """Logits [V] after token t."""
        x = self.table[token].view(1, 1, -1)
        for block, (keys, values) in zip(self.blocks, caches, strict=True):
            x = block.decode(x, keys, values, t)
        return self.head(x)[0, 0]

    def head(self, x):
        return F.linear(F.rms_norm(x, x.shape[-1:], self.gain, 1e-5), self.table)


def blocks(params, n_heads, cos, sin, x, dout):
    """{name: (forward, forward and backward)}, two functions without arguments, for eager and compiled."""
    torch.set_num_threads(os.cpu_count())
    x, dout = torch.from_numpy(x.copy()).requires_grad_(), torch.from_numpy(dout.copy())
    found = {}
    for name, make, whole_turns in VARIANTS:
        module = make(Block(params, n_heads, cos, sin, whole_turns))

        def forward(module=module):
            return module(x)

        def both(module=module):
            x.grad = None
            for w in module.parameters():
                w.grad = None
            module(x).backward(dout)

        found[name] = forward, both
    return found


def decoding(params, config, tokens):
    """{name: function that writes tokens and returns them}."""
    torch.set_num_threads(os.cpu_count())
    room = (1, config.n_heads, config.max_seq, config.head_dim)

    def writer(model):
        @torch.inference_mode()
        def write():
            caches, ids = [(torch.empty(room), torch.empty(room)) for _ in range(config.n_layers)], [1]
            for t in range(tokens):
                ids.append(int(model.decode(ids[-1], caches, t).argmax()))
            return ids

        return write

    usual, turned = (Model(params, config, whole_turns=True) for _ in range(2))
    for w in turned.parameters():
        if w.ndim > 1:
            w.data = w.data.T.contiguous().T  # the same matrix, its columns in one piece: sooner for a single row
    return {"PyTorch eager": writer(turned), "PyTorch eager, weights as usual": writer(usual)}


def training(params, config, ids, targets, rate):
    """{name: function that takes one step and returns the loss}, for eager and compiled."""
    torch.set_num_threads(os.cpu_count())
    ids, targets = torch.from_numpy(ids), torch.from_numpy(targets)
    found = {}
    for name, make, whole_turns in VARIANTS:
        model = make(Model(params, config, whole_turns))
        groups = [[w for w in model.parameters() if (w.ndim > 1) == decayed] for decayed in (True, False)]
        groups = [{"params": group, "weight_decay": decay} for group, decay in zip(groups, (0.1, 0.0), strict=True)]
        optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)

        def step(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        found[name] = step
    return found


VARIANTS = (("PyTorch eager", lambda module: module, True), ("torch.compile", torch.compile, False))
"""A name, what is done to the module, and whether RoPE turns complex numbers."""


def _weight(w):
    return torch.from_numpy(w.T.copy())  # [out, in], as F.linear wants it
