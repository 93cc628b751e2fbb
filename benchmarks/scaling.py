"""How the cost grows with layers and with the batch: a straight line, measured and drawn."""

import statistics
from pathlib import Path

import numpy as np

from benchmarks import timing
from scratch.model import Config, init_params, loss_backward, loss_forward

COUNTS = (1, 2, 3, 4, 6, 8)
SIZES = {"d_model": 256, "d_ff": 688, "max_seq": 256}
PICTURE = Path("_build/scaling.svg")


def run(rounds):
    """Print the time of a loss and its gradients over layers and over sequences, with a straight line through each."""
    found = {}
    for what in ("layers", "sequences"):
        functions = {count: _work(**{what: count}) for count in COUNTS}
        times = timing.measure(functions, rounds)
        found[what] = [1e3 * statistics.median(times[count]) for count in COUNTS]
        slope, start = np.polyfit(COUNTS, found[what], 1)
        line = start + slope * np.array(COUNTS)
        print(f"\nforward and backward over {what}: {slope:.2f} ms each and {start:.2f} ms besides")
        for count, ms, fitted in zip(COUNTS, found[what], line, strict=True):
            print(f"  {count:3} {ms:9.2f} ms   on the line {fitted:8.2f}   {ms / fitted - 1:+.1%}", flush=True)
    _draw(found)


def _work(layers=4, sequences=4):
    config = Config(vocab_size=65, n_layers=layers, n_heads=4, **SIZES)
    params = init_params(config)
    ids, targets = np.random.default_rng(0).integers(0, 65, (2, sequences, config.max_seq))
    return lambda: loss_backward(1.0, loss_forward(ids, targets, params, config)[1])


def _draw(found):
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not here; pip install '.[plot]' draws the lines.")
        return
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
    for axis, (what, ms) in zip(axes, found.items(), strict=True):
        slope, start = np.polyfit(COUNTS, ms, 1)
        axis.plot(COUNTS, ms, "o", label="measured")
        axis.plot([0, max(COUNTS)], [start, start + slope * max(COUNTS)], "--", label="straight line")
        axis.set(
            xlabel=f"{what} (with 4 {'sequences' if what == 'layers' else 'layers'})", xlim=(0, None), ylim=(0, None)
        )
    axes[0].set_ylabel("forward and backward [ms]")
    axes[0].legend(frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    fig.savefig(PICTURE)
    print(f"\ndrawn in {PICTURE}")
