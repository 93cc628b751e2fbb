"""A training step of a character model: loss, gradients, clipping, AdamW; scratch against products and PyTorch."""

import os

import numpy as np

from benchmarks import timing
from benchmarks.blocks import block_products, product_runs
from scratch.model import Config, init_params, loss_backward, loss_forward
from scratch.optim import adamw_init, adamw_step, clip_gradients
from scratch.threads import spread_loss_backward, spread_loss_forward

CONFIG = Config(vocab_size=65, d_model=128, n_layers=4, n_heads=4, d_ff=344, max_seq=64)
BATCH, RATE = 32, 1e-3


def run(rounds, config=CONFIG, batch=BATCH):
    """Print a table of whole steps; each contender goes on training a model of its own on one batch."""
    c = config
    title = f"training step (D{c.d_model} L{c.n_layers} T{c.max_seq} B{batch} V{c.vocab_size})"
    timing.compare(title, contenders(config, batch), rounds)


def contenders(config, batch):
    """{name: function that takes one step and returns the loss}; the first does products alone."""
    V, T, D = config.vocab_size, config.max_seq, config.d_model
    ids, targets = np.random.default_rng(0).integers(0, V, (2, batch, T))
    layer = block_products(batch, T, D, config.n_heads, config.d_ff)
    _, products = product_runs(layer * config.n_layers + [((batch * T, D), (D, V))])

    def trainer(forward, backward, **options):
        params = init_params(config)
        state = adamw_init(params)

        def step():
            loss, cache = forward(ids, targets, params, config, **options)
            grads = backward(1.0, cache)
            clip_gradients(grads, 1.0)
            adamw_step(params, grads, state, RATE)
            return float(loss)

        return step

    threads = os.cpu_count()
    found = {
        "bare products": products,
        "scratch": trainer(loss_forward, loss_backward),
        "scratch, Python threads": trainer(spread_loss_forward, spread_loss_backward, threads=threads),
    }
    try:
        from benchmarks import torch_model
    except ImportError:
        return found
    return found | torch_model.training(init_params(config), config, ids, targets, RATE)
