"""The whole decoder: parameters, the stack of blocks, the head and the loss."""

import math

import numpy as np

from scratch import _check
from scratch.block import block_backward, block_forward, named_backward, norm_forward
from scratch.config import PRESETS, Config, param_shapes
from scratch.loss import (
    chunked_cross_entropy_backward,
    chunked_cross_entropy_forward,
    cross_entropy_backward,
    cross_entropy_forward,
)
from scratch.ops import embedding_backward, embedding_forward, linear_backward, linear_forward
from scratch.rope import rope_table

__all__ = [
    "PRESETS",
    "Config",
    "head_weight",
    "init_params",
    "loss_backward",
    "loss_forward",
    "model_backward",
    "model_forward",
    "param_shapes",
    "stack_backward",
    "stack_forward",
]


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

    return map_leaves(leaf, param_shapes(config))


def map_leaves(function, tree, name=None):
    """The same tree with function(key, leaf) at each leaf, a leaf being what is neither dict nor list."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, value, key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [map_leaves(function, value, name) for value in tree]
    return function(name, tree)


def stack_forward(ids, params, config, *, pad_mask=None, keep_cache=True, watch=None):
    """Token ids in, normalized stream out: embedding, L blocks, final norm.

    Arguments as in `model_forward`. Returns (h [B, T, D], cache for `stack_backward`). Book: eq-stack.
    """
    _check_call(ids, params, config)
    x, cache_embed = embedding_forward(ids, params["embed"]["table"])  # [B, T, D]
    T, rope, cache_pos, cache_norm = ids.shape[1], None, None, None
    if config.pos == "learned":
        position, cache_pos = embedding_forward(np.arange(T), params["pos"]["table"])  # [T, D]
        x = x + position
    else:
        rope = rope_table(T, config.head_dim, config.rope_base)
    caches = []
    for layer, block in enumerate(params["blocks"]):
        inside = {}
        options = {"rope": rope, "pad_mask": pad_mask, "watch": inside.update if watch else None}
        y, cache = block_forward(x, block, config, **options)
        if watch is not None:
            watch(layer, x, y, inside)
        x = y
        caches.append(cache if keep_cache else None)
    if config.form != "post-norm":
        x, cache_norm = norm_forward(x, params["norm"], config)
    return x, (cache_embed, cache_pos, caches, cache_norm) if keep_cache else None


def stack_backward(dh, cache, *, watch=None):
    """Gradients of `stack_forward`: a tree like params without the head, from dh [B, T, D].

    watch as in `model_backward`.
    """
    cache_embed, cache_pos, caches, cache_norm = cache
    grads = {"embed": {}, "blocks": [None] * len(caches)}
    dx = dh
    if cache_norm is not None:
        dx, grads["norm"] = named_backward(dx, cache_norm)
    for layer in reversed(range(len(caches))):
        dx, grads["blocks"][layer] = block_backward(dx, caches[layer])
        if watch is not None:
            watch(layer, dx)
    grads["embed"]["table"] = embedding_backward(dx, cache_embed)
    if cache_pos is not None:
        grads["pos"] = {"table": embedding_backward(dx.sum(axis=0), cache_pos)}
    return grads


def model_forward(ids, params, config, *, pad_mask=None, keep_cache=True, watch=None):
    """Token ids in, logits for the next token out: the stack, then the head.

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

    Book: eq-head.
    """
    h, cache_stack = stack_forward(ids, params, config, pad_mask=pad_mask, keep_cache=keep_cache, watch=watch)
    logits, cache_head = linear_forward(h, head_weight(params, config))  # [B, T, V]
    return logits, (cache_stack, cache_head, config.tied) if keep_cache else None


def model_backward(dout, cache, *, watch=None):
    """Gradients of `model_forward`: a tree like params, from dout [B, T, V].

    A tied table gets two gradients, from the head and from the lookup. watch(layer, dx), if given, is called with
    the gradient [B, T, D] of each block's input. Book: eq-tied-gradient.
    """
    cache_stack, cache_head, tied = cache
    dh, dhead = linear_backward(dout, cache_head)
    return _with_head(stack_backward(dh, cache_stack, watch=watch), dhead, tied)


def _with_head(grads, dhead, tied):
    if tied:
        grads["embed"]["table"] += dhead.T
    else:
        grads["head"] = {"w": dhead}
    return grads


def loss_forward(ids, targets, params, config, *, pad_mask=None, ignore_index=-100, chunk=None):
    """Mean cross-entropy of the model's logits at each position against `targets` [B, T].

    ids, params, config, pad_mask as in `model_forward`; ignore_index as in `cross_entropy_forward`. With a `chunk`,
    no more than that many rows of logits exist at a time: the same numbers in less memory.
    Returns (loss in nats, cache for `loss_backward`). Book: eq-loss.
    """
    h, cache_stack = stack_forward(ids, params, config, pad_mask=pad_mask)
    w = head_weight(params, config)
    if chunk is not None:
        loss, cache_loss = chunked_cross_entropy_forward(h, w, targets, ignore_index, chunk)
        return loss, (cache_stack, None, cache_loss, config.tied)
    logits, cache_head = linear_forward(h, w)
    loss, cache_loss = cross_entropy_forward(logits, targets, ignore_index)
    return loss, (cache_stack, cache_head, cache_loss, config.tied)


def loss_backward(dloss, cache, *, watch=None):
    """Gradients of `loss_forward`: a tree like params; dloss is 1.0 to begin with. watch as in `model_backward`."""
    cache_stack, cache_head, cache_loss, tied = cache
    if cache_head is None:
        dh, dhead = chunked_cross_entropy_backward(dloss, cache_loss)
    else:
        dh, dhead = linear_backward(cross_entropy_backward(dloss, cache_loss), cache_head)
    return _with_head(stack_backward(dh, cache_stack, watch=watch), dhead, tied)


def head_weight(params, config):
    """The output projection [D, V]: the embedding table transposed where tied, else head.w."""
    return params["embed"]["table"].T if config.tied else params["head"]["w"]


def _check_call(ids, params, config):
    for name in param_shapes(config):
        if name not in params:
            raise ValueError(f"model_forward: params has no {name!r}, only {', '.join(map(repr, params))}")
    if len(params["blocks"]) != config.n_layers:
        raise ValueError(f"model_forward: params has {len(params['blocks'])} blocks, config.n_layers={config.n_layers}")
    _check.ids("model_forward", "ids", ids, config.vocab_size)
    if ids.ndim != 2:
        raise ValueError(f"model_forward: ids has shape {ids.shape}, expected [B, T]")
    if ids.shape[1] > config.max_seq:
        raise ValueError(f"model_forward: ids has {ids.shape[1]} positions, config.max_seq={config.max_seq}")
