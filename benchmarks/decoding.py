"""Decoding, a token at a time: scratch against the bare matrix–vector products and PyTorch, with a cache of keys."""

import numpy as np

from benchmarks import timing
from benchmarks.blocks import product_runs
from scratch.decoder import Decoder
from scratch.fused import fuse_model
from scratch.generate import KVCache, decode_step
from scratch.model import Config, init_params

TOKENS = 64
CONFIG = Config(vocab_size=32000, d_model=288, n_layers=6, n_heads=6, d_ff=768, max_seq=256)


def run(rounds, config=CONFIG):
    """Print a table: each contender writes TOKENS tokens, always the most probable, from an empty cache."""
    c = config
    title = f"decoding a token (D{c.d_model} L{c.n_layers} H{c.n_heads} F{c.d_ff} V{c.vocab_size})"
    timing.compare(title, contenders(config), rounds, calls=TOKENS)


def contenders(config):
    """{name: function that writes TOKENS tokens and returns them}; the first does products alone."""
    params = init_params(config)
    D, F = config.d_model, config.d_ff
    layer = [((1, D), (D, 3 * D)), ((1, D), (D, D)), ((1, D), (D, 2 * F)), ((1, F), (F, D))]
    once, _ = product_runs(layer * config.n_layers + [((1, D), (D, config.vocab_size))])
    decoder, fused = Decoder(params, config), fuse_model(params, config)

    def products():
        for _ in range(TOKENS):
            once()

    def whole_step():
        kv, ids = KVCache(config, 1), [1]
        for _ in range(TOKENS):
            ids.append(int(decoder.step(ids[-1], kv).argmax()))
        return ids

    def by_steps(params, config):
        kv, ids = KVCache(config, 1), [1]
        for _ in range(TOKENS):
            ids.append(int(decode_step(np.array(ids[-1:]), params, config, kv)[0].argmax()))
        return ids

    found = {
        "bare products": products,
        "scratch, Decoder": whole_step,
        "scratch, decode_step, fused": lambda: by_steps(*fused),
        "scratch, decode_step": lambda: by_steps(params, config),
    }
    try:
        from benchmarks import torch_model
    except ImportError:
        return found
    return found | torch_model.decoding(params, config, TOKENS)
