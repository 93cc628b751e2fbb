"""Time scratch against its bare matrix products and against what one would take instead: `make bench`.

The matrix products are what the mathematics cannot do without: the same shapes, into arrays made beforehand, nothing
between them, and all T × T scores. The contenders take turns within each round, so that a busy machine slows them
alike; what is printed is the median over rounds of the ratio to the products of the same round.
"""

import argparse
import importlib.util
import os
import sys
from functools import partial

import numpy as np

from benchmarks import blocks, decoding, peak, scaling, training
from scratch import memory

PARTS = {shape: partial(blocks.run, shape) for shape in blocks.SHAPES}
PARTS |= {"decoding": decoding.run, "training": training.run, "memory": peak.run, "scaling": scaling.run}


def main(arguments=None):
    """Print a table for each part asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--rounds", type=int, default=9, help="how often each contender takes its turn (9)")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    kept = memory.keep_freed()
    print(f"NumPy {np.__version__}, {_kernel()}, {os.cpu_count()} processors, float32")
    print(f"freed memory kept: {'yes' if kept else 'no'}; medians of {asked.rounds} rounds")
    if os.getloadavg()[0] > 1:
        print("This machine is busy: the threads of a product wait for each other, and the numbers say little.")
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not here; pip install '.[bench]' adds it to the tables.")
    for part in asked.parts or PARTS:
        PARTS[part](asked.rounds)
    return 0


def _kernel():
    """The BLAS that NumPy calls, and the kernel that it chose for this processor."""
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    said = f"{blas['name']} {blas['version']}"
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return f"{said} (kernel unknown: threadpoolctl is not here, and Python threads will share BLAS's)"
    found = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return f"{said}, kernel " + ", ".join(
        f"{pool.get('architecture')}, {pool['num_threads']} threads" for pool in found
    )


if __name__ == "__main__":
    sys.exit(main())
