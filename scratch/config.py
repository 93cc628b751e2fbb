"""What decides a model's shapes and wiring: `Config`, published models' presets, and the shapes that follow."""

from dataclasses import dataclass

import numpy as np

from scratch import _check
from scratch.rope import LAYOUTS

FORMS = ("pre-norm", "post-norm", "parallel")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that decides a model's shapes and wiring; the defaults are a tiny model in Llama's style.

    Parameters
    ----------
    vocab_size, d_model, n_layers, n_heads, d_ff, max_seq : int; V, D, L, H, F and the longest sequence
    n_kv_heads : int, K; the query heads' number if left out (MHA)
    d_head : int, width of a head; `head_dim` gives D / H where it is left out
    norm : "rmsnorm" or "layernorm"
    ffn : "swiglu" or "gelu"
    pos : "rope" (inside attention) or "learned" (a table added to the embedding)
    form : "pre-norm", "post-norm" or "parallel"; see block
    causal : bool; False lets every token see every other, as an encoder does
    tied : bool, the head reads the embedding table
    bias : bool, biases in attention's projections and in the GELU MLP
    eps : float, inside the norms
    rope_base : float; rope_layout : "interleaved" or "half"

    Raises
    ------
    ValueError
        If a number is not positive, heads do not divide, or a choice is unknown.
    """

    vocab_size: int = 256
    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int | None = None
    d_ff: int = 172
    max_seq: int = 128
    d_head: int | None = None
    norm: str = "rmsnorm"
    ffn: str = "swiglu"
    pos: str = "rope"
    form: str = "pre-norm"
    causal: bool = True
    tied: bool = True
    bias: bool = False
    eps: float = 1e-5
    rope_base: float = 10000.0
    rope_layout: str = "interleaved"

    def __post_init__(self):
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        for name in ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_seq", "d_head"):
            value = self.head_dim if name == "d_head" else getattr(self, name)
            if not isinstance(value, int | np.integer) or value < (0 if name == "n_layers" else 1):
                raise ValueError(f"Config: {name}={value!r}, expected a positive integer")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"Config: n_heads={self.n_heads} is not divisible by n_kv_heads={self.n_kv_heads}")
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(f"Config: d_model={self.d_model} is not divisible by n_heads={self.n_heads}; set d_head")
        _check.choice("Config", "norm", self.norm, ("rmsnorm", "layernorm"))
        _check.choice("Config", "ffn", self.ffn, ("swiglu", "gelu"))
        _check.choice("Config", "pos", self.pos, ("rope", "learned"))
        _check.choice("Config", "form", self.form, FORMS)
        _check.choice("Config", "rope_layout", self.rope_layout, LAYOUTS)
        if self.pos == "rope" and self.head_dim % 2:
            raise ValueError(f"Config: RoPE needs an even head width, got {self.head_dim}")

    @property
    def head_dim(self):
        """Dh, the width of one head."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head


PRESETS = {
    "tiny": Config(),
    "gpt2-small": Config(
        vocab_size=50257,
        d_model=768,
        n_layers=12,
        n_heads=12,
        d_ff=3072,
        max_seq=1024,
        norm="layernorm",
        ffn="gelu",
        pos="learned",
        bias=True,
    ),
    "smollm2-135m": Config(
        vocab_size=49152,
        d_model=576,
        n_layers=30,
        n_heads=9,
        n_kv_heads=3,
        d_ff=1536,
        max_seq=8192,
        rope_base=100000.0,
    ),
    "llama2-7b": Config(vocab_size=32000, d_model=4096, n_layers=32, n_heads=32, d_ff=11008, max_seq=4096, tied=False),
    "llama3-8b": Config(
        vocab_size=128256,
        d_model=4096,
        n_layers=32,
        n_heads=32,
        n_kv_heads=8,
        d_ff=14336,
        max_seq=8192,
        tied=False,
        rope_base=500000.0,
    ),
}
"""Configurations of published models, by name."""


def param_shapes(config):
    """The tree of `init_params` with a shape tuple at each leaf.

    A parallel block has one norm for both branches; a post-norm model has no norm after its last block, whose output
    is normalized already. Book: eq-params.
    """
    D, F, V = config.d_model, config.d_ff, config.vocab_size
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    norm = {"g": (D,)} if config.norm == "rmsnorm" else {"g": (D,), "b": (D,)}
    attn = {"wq": (D, q), "wk": (D, kv), "wv": (D, kv), "wo": (q, D)}
    if config.bias:
        attn |= {"bq": (q,), "bk": (kv,), "bv": (kv,), "bo": (D,)}
    if config.ffn == "swiglu":
        ffn = {"wg": (D, F), "wu": (D, F), "wd": (F, D)}
    elif config.bias:
        ffn = {"w1": (D, F), "b1": (F,), "w2": (F, D), "b2": (D,)}
    else:
        ffn = {"w1": (D, F), "w2": (F, D)}
    block = {"norm1": norm, "attn": attn, "norm2": norm, "ffn": ffn}
    if config.form == "parallel":
        del block["norm2"]
    shapes = {"embed": {"table": (V, D)}}
    if config.pos == "learned":
        shapes["pos"] = {"table": (config.max_seq, D)}
    shapes["blocks"] = [block] * config.n_layers
    if config.form != "post-norm":
        shapes["norm"] = norm
    if not config.tied:
        shapes["head"] = {"w": (D, V)}
    return shapes
