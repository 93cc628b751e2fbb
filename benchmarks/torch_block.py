"""The same block in PyTorch, eager or compiled, for comparison; an optional extra: pip install ".[bench]"."""

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    """Pre-norm, RMSNorm, attention with interleaved RoPE, SwiGLU, in PyTorch's own layouts, from a tree of scratch.

    whole_turns : turn pairs as complex numbers, which is fastest eagerly; the compiler wants real ones
    """

    def __init__(self, params, n_heads, cos, sin, whole_turns):
        super().__init__()
        self.n_heads, self.whole_turns = n_heads, whole_turns
        for part, leaves in params.items():
            for name, w in leaves.items():
                weight = torch.from_numpy(w.T.copy())  # [out, in], as F.linear wants it
                self.register_parameter(f"{part}_{name}", torch.nn.Parameter(weight))
        cos, sin = (torch.from_numpy(t).float()[:, None] for t in (cos, sin))  # [T, 1, Dh/2]
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.turn = torch.complex(cos, sin)

    def forward(self, x):
        """x is [B, T, D]."""
        B, T, D = x.shape
        n = F.rms_norm(x, (D,), self.norm1_g, 1e-5)
        q, k, v = (F.linear(n, w).view(B, T, self.n_heads, -1) for w in (self.attn_wq, self.attn_wk, self.attn_wv))
        q, k, v = (t.transpose(1, 2) for t in (self.rotate(q), self.rotate(k), v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        u = x + F.linear(a.transpose(1, 2).reshape(B, T, D), self.attn_wo)
        n = F.rms_norm(u, (D,), self.norm2_g, 1e-5)
        return u + F.linear(F.silu(F.linear(n, self.ffn_wg)) * F.linear(n, self.ffn_wu), self.ffn_wd)

    def rotate(self, x):
        """RoPE of x [B, T, H, Dh]."""
        if self.whole_turns:
            pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * self.turn).flatten(-2)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * self.cos - b * self.sin, a * self.sin + b * self.cos), -1).flatten(-2)


def contenders(params, n_heads, cos, sin, x, dout, threads):
    """{name: (forward, forward and backward)}, two functions without arguments, for eager and compiled."""
    torch.set_num_threads(threads)
    x, dout = torch.from_numpy(x.copy()).requires_grad_(), torch.from_numpy(dout.copy())
    eager = Block(params, n_heads, cos, sin, whole_turns=True)
    compiled = torch.compile(Block(params, n_heads, cos, sin, whole_turns=False))
    found = {}
    for name, module in (("PyTorch eager", eager), ("torch.compile", compiled)):

        def forward(module=module):
            return module(x)

        def both(module=module):
            x.grad = None
            for w in module.parameters():
                w.grad = None
            module(x).backward(dout)

        found[name] = forward, both
    return found
