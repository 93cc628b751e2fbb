"""Peak memory of a forward and backward pass of the block at shape A, each contender in a process of its own."""

import ctypes
import gc
import re
import subprocess
import sys
from pathlib import Path

from benchmarks import blocks

NAMES = ("scratch", "scratch, Python threads", "textbook NumPy", "PyTorch eager")


def run(rounds, shape="A"):
    """Print a table: mebibytes that the process grew by, over what it held with parameters and input made."""
    del rounds  # a peak is the same each time
    if not Path("/proc/self/status").exists():
        print("\nPeak memory is read from /proc, which this system has not.")
        return
    print(f"\npeak memory of {shape}, forward and backward" + f"{'MiB':>16}  × eager")
    grown = {name: _child(shape, name) for name in NAMES}
    eager = grown["PyTorch eager"]
    for name, size in grown.items():
        if size is not None:
            print(f"  {name:42}{size:14.0f}" + (f"{size / eager:9.2f}" if eager else ""), flush=True)


def _child(shape, name):
    found = subprocess.run([sys.executable, "-m", "benchmarks.peak", shape, name], capture_output=True, text=True)
    if found.returncode:
        raise RuntimeError(f"benchmarks.peak {shape} {name!r} failed:\n{found.stderr}")
    return float(found.stdout) if found.stdout.strip() else None


def _status(field):
    return int(re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


def measure(shape, name):
    """Run one contender: the growth in MiB, or None where it is not installed."""
    small = blocks.contenders(B=2, T=8, D=16, H=2, F=8)
    known = [full for full in small if full == name or (full.startswith(name) and name.endswith("threads"))]
    if not known:
        return None
    small[known[0]][1]()  # what is made once: threads, and buffers of the BLAS
    _, both = blocks.contenders(**blocks.SHAPES[shape])[known[0]]
    del small
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed is not to be taken again unseen
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew here
    both()
    return _status("VmHWM") - before


if __name__ == "__main__":
    grown = measure(*sys.argv[1:])
    print("" if grown is None else grown)
