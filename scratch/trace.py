"""One instrumented run of the model: what the stream, the branches, the maps and the gradients look like inside."""

from typing import NamedTuple

import numpy as np

from scratch.block import norm_forward
from scratch.model import head_weight, loss_backward, loss_forward, model_forward


class Trace(NamedTuple):
    """What `trace` saw; norms are Euclidean lengths, in the stream's own unit.

    Attributes
    ----------
    logits : [B, T, V], the model's output
    stream : [L+1, B, T, D], the residual stream before each block, and after the last
    attn, ffn : [L, B, T, D], what each branch added to it
    maps : [L, B, H, T, T], attention weights; entry i, j is how much query i reads of key j
    """

    logits: np.ndarray
    stream: np.ndarray
    attn: np.ndarray
    ffn: np.ndarray
    maps: np.ndarray

    @property
    def norms(self):
        """[L+1, B, T], the length of each token's stream before each block, and after the last."""
        return np.linalg.norm(self.stream, axis=-1)


def trace(ids, params, config, *, pad_mask=None):
    """Run the model once and keep what `Trace` names.

    ids is an integer array [B, T]; the rest as in `model_forward`.
    """
    seen = {"stream": [], "attn": [], "ffn": [], "map": []}

    def watch(layer, x, y, inside):
        seen["stream"].append(x)
        for name, array in inside.items():
            seen[name].append(array)
        seen["last"] = y

    logits, _ = model_forward(ids, params, config, pad_mask=pad_mask, keep_cache=False, watch=watch)
    stream = np.stack([*seen["stream"], seen["last"]])
    return Trace(logits, stream, np.stack(seen["attn"]), np.stack(seen["ffn"]), np.stack(seen["map"]))


def logit_lens(stream, params, config):
    """Read the stream at any depth as if it were the last: final norm, then head.

    stream is [..., D]. Returns logits [..., V]. Source: nostalgebraist 2020.
    """
    if config.form != "post-norm":
        stream, _ = norm_forward(stream, params["norm"], config)
    return stream @ head_weight(params, config)


def gradient_norms(ids, targets, params, config):
    """Length of the loss's gradient with respect to each block's input: [L, B, T], from one forward and backward.

    ids, targets are integer arrays [B, T].
    """
    norms = [None] * config.n_layers
    _, cache = loss_forward(ids, targets, params, config)

    def watch(layer, dx):
        norms[layer] = np.linalg.norm(dx, axis=-1)

    loss_backward(1.0, cache, watch=watch)
    return np.stack(norms)
