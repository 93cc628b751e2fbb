"""Time scratch's block against its bare matrix products: `make bench`.

The matrix products are what the mathematics cannot do without: the same shapes, into arrays made beforehand, with
nothing between them. The ratio says what everything else costs: norms, softmax, rotation, fresh arrays, Python. The two
take turns within each round, so that a busy machine slows both; what is printed is the median over rounds.
"""

import os
import statistics
import time

import numpy as np

from scratch.block import block_backward, block_forward
from scratch.model import Config, init_params
from scratch.rope import rope_table

ROUNDS = 9
SAMPLE = 0.15  # seconds: a sample repeats the work at least this long
SHAPES = {
    "A": {"B": 4, "T": 256, "D": 512, "H": 8, "F": 1376},
    "B": {"B": 1, "T": 1024, "D": 768, "H": 12, "F": 2048},
    "C": {"B": 8, "T": 64, "D": 128, "H": 4, "F": 344},
}


def block(B, T, D, H, F):
    """Return two functions that run scratch's block in float32: forward, and forward with backward."""
    config = Config(vocab_size=2, d_model=D, n_layers=1, n_heads=H, d_ff=F, max_seq=T)
    params = init_params(config)["blocks"][0]
    rng = np.random.default_rng(0)
    x, dout = rng.standard_normal((2, B, T, D), dtype=np.float32)
    rope = rope_table(T, D // H)

    def forward():
        return block_forward(x, params, config, rope=rope)[1]

    return forward, lambda: block_backward(dout, forward())


def products(B, T, D, H, F):
    """Return two functions that do the block's matrix products alone, all T × T scores among them."""
    rng = np.random.default_rng(0)
    shapes = [((B * T, D), (D, D))] * 4 + [((B * T, D), (D, F))] * 2 + [((B * T, F), (F, D))]
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
    """Return the time of one call, from as many calls as fill a sample."""
    calls, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < SAMPLE:
        function()
        calls += 1
    return spent / calls


def main():
    """Print a line for each shape and direction."""
    print(f"NumPy {np.__version__}, {os.cpu_count()} processors, float32, medians of {ROUNDS} rounds\n")
    if os.getloadavg()[0] > 0.5:
        print("This machine is busy: the threads of a product wait for each other, and the numbers say little.\n")
    print("shape                             work               block  products   ratio  (least–most)")
    for name, shape in SHAPES.items():
        for work, ours, bare in zip(("forward", "forward+backward"), block(**shape), products(**shape), strict=True):
            ours(), bare()  # the first call pays for memory and threads
            rounds = [(seconds(ours), seconds(bare)) for _ in range(ROUNDS)]
            ratios = [mine / least for mine, least in rounds]
            mine, least = (1e3 * statistics.median(times) for times in zip(*rounds, strict=True))
            sizes = " ".join(f"{letter}{size}" for letter, size in shape.items())
            print(
                f"{name} {sizes:31} {work:16} {mine:7.1f} ms {least:6.1f} ms  {statistics.median(ratios):6.2f}"
                f"  ({min(ratios):.2f}–{max(ratios):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
