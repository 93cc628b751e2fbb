"""The block: scratch, with and without Python threads, against its bare products, a textbook block and PyTorch."""

import os

import numpy as np

from benchmarks import textbook, timing
from scratch.block import block_backward, block_forward
from scratch.model import Config, init_params
from scratch.rope import rope_table
from scratch.threads import spread_block_forward

SHAPES = {
    "A": {"B": 4, "T": 256, "D": 512, "H": 8, "F": 1376},
    "B": {"B": 1, "T": 1024, "D": 768, "H": 12, "F": 2048},
    "C": {"B": 8, "T": 64, "D": 128, "H": 4, "F": 344},
}


def run(shape, rounds):
    """Print two tables, forward and forward and backward, of the shape named."""
    found = contenders(**SHAPES[shape])
    sizes = " ".join(f"{letter}{size}" for letter, size in SHAPES[shape].items())
    for at, work in enumerate(("forward", "forward and backward")):
        timing.compare(f"{shape} ({sizes}), {work}", {name: both[at] for name, both in found.items()}, rounds)


def contenders(B, T, D, H, F):
    """{name: (forward, forward and backward)}: functions without arguments, in float32."""
    config = Config(vocab_size=2, d_model=D, n_layers=1, n_heads=H, d_ff=F, max_seq=T)
    params = init_params(config)["blocks"][0]
    rng = np.random.default_rng(0)
    x, dout = rng.standard_normal((2, B, T, D), dtype=np.float32)
    rope = rope_table(T, D // H)
    cos, sin = (table.astype(np.float32) for table in rope)
    across = "batch" if B > 1 else "heads"

    def forward():
        return block_forward(x, params, config, rope=rope)[1]

    def spread():
        return spread_block_forward(x, params, config, threads=os.cpu_count(), across=across, rope=rope)[1]

    def plain():
        return textbook.forward(x, params, H, cos, sin)[1]

    found = {
        "bare products": products(B, T, D, H, F),
        "scratch": (forward, lambda: block_backward(dout, forward())),
        f"scratch, Python threads across the {across}": (spread, lambda: block_backward(dout, spread())),
        "textbook NumPy": (plain, lambda: textbook.backward(dout, plain())),
    }
    try:
        from benchmarks import torch_model
    except ImportError:
        return found
    return found | torch_model.blocks(params, H, *rope, x, dout)


def products(B, T, D, H, F):
    """Two functions that do the block's matrix products alone: forward, and forward and backward."""
    return product_runs(block_products(B, T, D, H, F))


def block_products(B, T, D, H, F):
    """The shapes of a block's products, fused where they can be: [(left, right)]."""
    shapes = [((B * T, D), (D, 3 * D)), ((B * T, D), (D, D)), ((B * T, D), (D, 2 * F)), ((B * T, F), (F, D))]
    return shapes + [((B * H, T, D // H), (B * H, D // H, T)), ((B * H, T, T), (B * H, T, D // H))]


def product_runs(shapes):
    """Two functions that do products of these shapes into arrays made beforehand: forward, forward and backward."""
    rng = np.random.default_rng(0)
    once, thrice = [], []
    for left, right in shapes:
        a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in (left, right))
        c = a @ b
        once.append((a, b, c))
        # Backward: a product with each factor's transpose. Their values do not matter here, only their layouts.
        thrice += [once[-1], (c, b.swapaxes(-1, -2), np.empty_like(a)), (a.swapaxes(-1, -2), c, np.empty_like(b))]

    def run(work):
        for a, b, out in work:
            np.matmul(a, b, out=out)

    return lambda: run(once), lambda: run(thrice)
