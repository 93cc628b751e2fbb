"""Time scratch's block against its bare matrix products and against what one would take instead: `make bench`.

The matrix products are what the mathematics cannot do without: the same shapes, into arrays made beforehand, nothing
between them, and all T × T scores. The contenders take turns within each round, so that a busy machine slows them
alike; what is printed is the median over rounds of the ratio to the products of the same round.
"""

import argparse
import os
import statistics
import sys
import time

import numpy as np

from benchmarks import textbook
from scratch import memory
from scratch.block import block_backward, block_forward
from scratch.model import Config, init_params
from scratch.rope import rope_table

SAMPLE = 0.15  # seconds: a sample repeats the work at least this long
PAUSE = 0.06  # seconds before a sample, for the threads of the contender before to stop waiting for work
SHAPES = {
    "A": {"B": 4, "T": 256, "D": 512, "H": 8, "F": 1376},
    "B": {"B": 1, "T": 1024, "D": 768, "H": 12, "F": 2048},
    "C": {"B": 8, "T": 64, "D": 128, "H": 4, "F": 344},
}


def contenders(B, T, D, H, F):
    """{name: (forward, forward and backward)}: functions without arguments, in float32."""
    config = Config(vocab_size=2, d_model=D, n_layers=1, n_heads=H, d_ff=F, max_seq=T)
    params = init_params(config)["blocks"][0]
    rng = np.random.default_rng(0)
    x, dout = rng.standard_normal((2, B, T, D), dtype=np.float32)
    rope = rope_table(T, D // H)
    cos, sin = (table.astype(np.float32) for table in rope)

    def forward():
        return block_forward(x, params, config, rope=rope)[1]

    def plain():
        return textbook.forward(x, params, H, cos, sin)[1]

    found = {
        "bare products": products(B, T, D, H, F),
        "scratch": (forward, lambda: block_backward(dout, forward())),
        "textbook NumPy": (plain, lambda: textbook.backward(dout, plain())),
    }
    try:
        from benchmarks import torch_block
    except ImportError:
        return found
    return found | torch_block.contenders(params, H, *rope, x, dout, os.cpu_count())


def products(B, T, D, H, F):
    """Two functions that do the block's matrix products alone: forward, and forward and backward."""
    rng = np.random.default_rng(0)
    shapes = [((B * T, D), (D, 3 * D)), ((B * T, D), (D, D)), ((B * T, D), (D, 2 * F)), ((B * T, F), (F, D))]
    shapes += [((B * H, T, D // H), (B * H, D // H, T)), ((B * H, T, T), (B * H, T, D // H))]
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


def seconds(function):
    """The time of one call, from as many calls as fill a sample."""
    calls, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < SAMPLE:
        function()
        calls += 1
    return spent / calls


def measure(functions, rounds):
    """{name: [seconds of each round]}, the contenders taking turns."""
    for function in functions.values():
        function(), function()  # the first call pays for memory, threads and compilation
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            time.sleep(PAUSE)
            function()
            times[name].append(seconds(function))
    return times


def main(arguments=None):
    """Print a table for each shape and direction."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), help="A, B, C; all by default")
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args(arguments)
    kept = memory.keep_freed()
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    print(f"NumPy {np.__version__}, {blas['name']} {blas['version']}, {os.cpu_count()} processors, float32")
    print(f"freed memory kept: {'yes' if kept else 'no'}; medians of {asked.rounds} rounds")
    if os.getloadavg()[0] > 1:
        print("This machine is busy: the threads of a product wait for each other, and the numbers say little.")
    for shape in asked.shapes:
        found = contenders(**SHAPES[shape])
        if "PyTorch eager" not in found and shape == asked.shapes[0]:
            print("PyTorch is not here; pip install '.[bench]' adds it to the table.")
        for at, work in enumerate(("forward", "forward and backward")):
            times = measure({name: both[at] for name, both in found.items()}, asked.rounds)
            sizes = " ".join(f"{letter}{size}" for letter, size in SHAPES[shape].items())
            print(f"\n{shape} ({sizes}), {work:24}{'ms':>8}  × bare products (least–most)")
            for name, own in times.items():
                ratios = [mine / least for mine, least in zip(own, times["bare products"], strict=True)]
                spread = f"{statistics.median(ratios):8.2f}  ({min(ratios):.2f}–{max(ratios):.2f})"
                print(f"  {name:42}{1e3 * statistics.median(own):10.2f}{spread}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
