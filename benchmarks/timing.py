"""How times are taken and shown: contenders in turns, each sample long enough, medians of the ratios of a round."""

import statistics
import time

SAMPLE = 0.15  # seconds: a sample repeats the work at least this long
PAUSE = 0.06  # seconds before a sample, for the threads of the contender before to stop waiting for work


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


def compare(title, functions, rounds, calls=1):
    """Measure functions and print a table of ratios to the first, and to PyTorch's eager one where it is there.

    calls : what a function does so many times; the milliseconds shown are of one
    """
    times = measure(functions, rounds)
    first, eager = next(iter(times)), times.get("PyTorch eager")
    print(f"\n{title:54}{'ms':>8}  × {first} (least–most){'  × eager' if eager else ''}")
    for name, own in times.items():
        ratios = _ratios(own, times[first])
        line = f"  {name:42}{1e3 * statistics.median(own) / calls:18.2f}"
        line += f"{statistics.median(ratios):8.2f}  ({min(ratios):.2f}–{max(ratios):.2f})"
        if eager:
            line += f"{statistics.median(_ratios(own, eager)):13.2f}"
        print(line, flush=True)


def _ratios(own, others):
    return [mine / theirs for mine, theirs in zip(own, others, strict=True)]
