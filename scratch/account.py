"""Exact counts from a Config alone: nothing is allocated."""

import math

from scratch.model import param_shapes


def count_params(config):
    """Number of trainable values, to the integer; a tied head counts once. Book: eq-count."""
    return _total(param_shapes(config))


def count_block(config):
    """Parameters of one block by part: {"attn": …, "ffn": …, "norms": …}. Book: eq-count-block."""
    block = param_shapes(config)["blocks"][0]
    return {
        "attn": _total(block["attn"]),
        "ffn": _total(block["ffn"]),
        "norms": _total(block["norm1"]) + _total(block["norm2"]),
    }


def _total(tree):
    if isinstance(tree, dict):
        return sum(map(_total, tree.values()))
    if isinstance(tree, list):
        return sum(map(_total, tree))
    return math.prod(tree)
