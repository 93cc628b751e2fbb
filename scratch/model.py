"""The whole decoder: its configuration, its parameters, the stack of blocks, the head and the loss."""

import math
from dataclasses import dataclass

import numpy as np

from scratch import _check
from scratch.block import block_backward, block_forward, norm_backward, norm_forward
from scratch.ops import (
    cross_entropy_backward,
    cross_entropy_forward,
    embedding_backward,
    embedding_forward,
    linear_backward,
    linear_forward,
)
from scratch.rope import LAYOUTS, rope_table


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
    tied: bool = True
    bias: bool = False
    eps: float = 1e-5
    rope_base: float = 10000.0
    rope_layout: str = "interleaved"

    def __post_init__(self):
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        for name in ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_seq"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < (0 if name == "n_layers" else 1):
                raise ValueError(f"Config: {name}={value!r}, expected a positive integer")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"Config: n_heads={self.n_heads} is not divisible by n_kv_heads={self.n_kv_heads}")
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(f"Config: d_model={self.d_model} is not divisible by n_heads={self.n_heads}; set d_head")
        _check.choice("Config", "norm", self.norm, ("rmsnorm", "layernorm"))
        _check.choice("Config", "ffn", self.ffn, ("swiglu", "gelu"))
        _check.choice("Config", "pos", self.pos, ("rope", "learned"))
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
    """The tree of `init_params` with a shape tuple at each leaf. Book: eq-params."""
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
    shapes = {"embed": {"table": (V, D)}}
    if config.pos == "learned":
        shapes["pos"] = {"table": (config.max_seq, D)}
    shapes |= {"blocks": [block] * config.n_layers, "norm": norm}
    if not config.tied:
        shapes["head"] = {"w": (D, V)}
    return shapes


def init_params(config, seed=0, dtype=np.float32):
    """Random parameters: normal(0, 0.02); wo, wd and w2 divided by √(2L); gains 1, biases 0.

    Returns the nested dict of `param_shapes` with arrays of `dtype`. Source: Radford et al. 2019, section 2.3.
    """
    rng = np.random.default_rng(seed)
    into_stream = 0.02 / math.sqrt(2 * max(config.n_layers, 1))

    def leaf(name, shape):
        if name == "g":
            return np.ones(shape, dtype)
        if len(shape) == 1:
            return np.zeros(shape, dtype)
        scale = into_stream if name in ("wo", "wd", "w2") else 0.02
        return (scale * rng.standard_normal(shape)).astype(dtype)

    return _map_leaves(leaf, param_shapes(config))


def _map_leaves(function, tree, name=None):
    if isinstance(tree, dict):
        return {key: _map_leaves(function, value, key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_map_leaves(function, value, name) for value in tree]
    return function(name, tree)


def model_forward(ids, params, config, *, pad_mask=None, keep_cache=True, watch=None):
    """Token ids in, logits for the next token out: embedding, L blocks, final norm, head.

    Parameters
    ----------
    ids : integer array [B, T], each in [0, V)
    params : nested dict, see `init_params`
    config : Config
    pad_mask : bool array [B, T], optional, True where the token is real
    keep_cache : bool; False drops each layer's cache at once, for inference (the cache returned is None)
    watch : function, optional; called as watch(layer, x, y, inside) after each block, with its input and output
        [B, T, D] and the dict of `block_forward`'s watch

    Returns
    -------
    logits : [B, T, V], in the parameters' dtype
    cache : for `model_backward`

    Raises
    ------
    ValueError
        If an id is outside the vocabulary, the sequence is too long, or a shape does not fit.

    Book: eq-stack.
    """
    _check_call(ids, params, config)
    x, cache_embed = embedding_forward(ids, params["embed"]["table"])  # [B, T, D]
    T, rope, cache_pos = ids.shape[1], None, None
    if config.pos == "learned":
        position, cache_pos = embedding_forward(np.arange(T), params["pos"]["table"])  # [T, D]
        x = x + position
    else:
        rope = rope_table(T, config.head_dim, config.rope_base)
    caches = []
    for layer, block in enumerate(params["blocks"]):
        inside = {}
        y, cache = block_forward(
            x, block, config, rope=rope, pad_mask=pad_mask, watch=None if watch is None else inside.update
        )
        if watch is not None:
            watch(layer, x, y, inside)
        x = y
        caches.append(cache if keep_cache else None)
    h, cache_norm = norm_forward(x, params["norm"], config)  # [B, T, D]
    logits, cache_head = linear_forward(h, head_weight(params, config))  # [B, T, V]
    return logits, (cache_embed, cache_pos, caches, cache_norm, cache_head, config.tied) if keep_cache else None


def model_backward(dout, cache, *, watch=None):
    """Gradients of `model_forward`: a tree like params, from dout [B, T, V].

    A tied table gets two gradients, from the head and from the lookup. watch(layer, dx), if given, is called with
    the gradient [B, T, D] of each block's input. Book: eq-tied-gradient.
    """
    cache_embed, cache_pos, caches, cache_norm, cache_head, tied = cache
    dh, dhead = linear_backward(dout, cache_head)
    dx, dnorm = norm_backward(dh, cache_norm)
    dblocks = [None] * len(caches)
    for layer in reversed(range(len(caches))):
        dx, dblocks[layer] = block_backward(dx, caches[layer])
        if watch is not None:
            watch(layer, dx)
    dtable = embedding_backward(dx, cache_embed)
    grads = {"embed": {"table": dtable}, "blocks": dblocks, "norm": dnorm}
    if cache_pos is not None:
        grads["pos"] = {"table": embedding_backward(dx.sum(axis=0), cache_pos)}
    if tied:
        dtable += dhead.T
    else:
        grads["head"] = {"w": dhead}
    return grads


def loss_forward(ids, targets, params, config, *, pad_mask=None, ignore_index=-100):
    """Mean cross-entropy of the model's logits at each position against `targets` [B, T].

    ids, params, config, pad_mask as in `model_forward`; ignore_index as in `cross_entropy_forward`.
    Returns (loss in nats, cache for `loss_backward`). Book: eq-loss.
    """
    logits, cache_model = model_forward(ids, params, config, pad_mask=pad_mask)
    loss, cache_loss = cross_entropy_forward(logits, targets, ignore_index)
    return loss, (cache_model, cache_loss)


def loss_backward(dloss, cache, *, watch=None):
    """Gradients of `loss_forward`: a tree like params; dloss is 1.0 to begin with. watch as in `model_backward`."""
    cache_model, cache_loss = cache
    return model_backward(cross_entropy_backward(dloss, cache_loss), cache_model, watch=watch)


def head_weight(params, config):
    """The output projection [D, V]: the embedding table transposed where tied, else head.w."""
    return params["embed"]["table"].T if config.tied else params["head"]["w"]


def _check_call(ids, params, config):
    needed = ["embed", "blocks", "norm"] + ["pos"] * (config.pos == "learned") + ["head"] * (not config.tied)
    for name in needed:
        if name not in params:
            raise ValueError(f"model_forward: params has no {name!r}, only {', '.join(map(repr, params))}")
    if len(params["blocks"]) != config.n_layers:
        raise ValueError(f"model_forward: params has {len(params['blocks'])} blocks, config.n_layers={config.n_layers}")
    _check.ids("model_forward", "ids", ids, config.vocab_size)
    if ids.ndim != 2:
        raise ValueError(f"model_forward: ids has shape {ids.shape}, expected [B, T]")
    if ids.shape[1] > config.max_seq:
        raise ValueError(f"model_forward: ids has {ids.shape[1]} positions, config.max_seq={config.max_seq}")
