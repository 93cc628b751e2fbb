"""How many submissions a second the grader does, and on what it spends its time: `python -m benchmarks.grading`.

Right answers to ten light exercises, with 1, 2 and 4 processes of this machine, and of a Dask cluster on it, in turns;
then in one process, where reading, forks, calls and checks are told apart. The rows are those of `chapters/scale.md`.
"""

import argparse
import contextlib
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from exercises import load
from exercises.grade import answer, boxes, run, submission
from tests import classroom


def main(arguments=None):
    """Print the rates and the shares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grading", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="submissions (300)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each takes its turn (7)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="numbers of processes (1 2 4)")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place, "submissions")
        folder.mkdir()
        for at in range(asked.count):
            _write(folder, at)
        print(f"{asked.count} submissions of {len(classroom.LIGHT)} exercises, all right")
        print(f"each has {_size(folder, asked.count)}")
        ways = {("local", workers): {"workers": workers} for workers in asked.workers}
        for workers in asked.workers:
            ways["dask", workers] = {"dask": stack.enter_context(_cluster(workers)).scheduler_address}
        found = {way: [] for way in ways}
        for _ in range(asked.rounds):
            for way, options in ways.items():
                found[way].append(_run(folder, Path(place, "out"), options))
        print(f"what is kept of each: {_size(Path(place, 'out'), asked.count)}")
        print("where,processes,a second,lowest,highest,ms of the writer")
        for (where, workers), runs in found.items():
            rates, own = zip(*runs, strict=True)
            shown = (f"{number:.1f}" for number in (statistics.median(rates), min(rates), max(rates), min(own)))
            print(",".join([where, str(workers), *shown]), flush=True)
        _shares(folder)
    return 0


def _cluster(workers):
    """A scheduler, and one Dask worker with so many threads."""
    from distributed import LocalCluster

    return LocalCluster(n_workers=1, threads_per_worker=workers, dashboard_address=":0")


def _size(folder, count):
    """What is below a folder, for each of so many."""
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1000 / count:.1f} kB"


def _write(folder, at):
    learner = f"learner-{at:03}"
    right = {id: classroom.right_answers(id, learner) for id in classroom.LIGHT}
    answers = {id: classroom.filled(id, found[at % len(found)]) for id, found in right.items()}
    cells = classroom.notebook(classroom.LIGHT, learner, answers)
    (folder / f"{learner}.ipynb").write_text(classroom.as_ipynb(cells), encoding="utf-8")


def _run(folder, out, options):
    """(submissions a second, ms of this process for each) from the first result to the last: rooms are built before."""
    shutil.rmtree(out, ignore_errors=True)
    clocks, keep = [], run.keep

    def keeping(*arguments):
        keep(*arguments)
        clocks.append((time.perf_counter(), time.process_time()))

    run.keep = keeping
    try:
        run.run(folder, out, classroom.LIGHT, seed="benchmark", say=lambda line: None, **options)
    finally:
        run.keep = keep
    wrong = [row for row in (out / "grades.csv").read_text().splitlines()[1:] if ",full marks," not in row]
    if wrong:
        raise SystemExit(f"not all right: {wrong[0]}")
    passed, own = (last - first for first, last in zip(clocks[0], clocks[-1]))
    return (len(clocks) - 1) / passed, 1e3 * own / (len(clocks) - 1)


def _shares(folder):
    """Where the time of a submission goes, in one process."""
    spent, names = {"reading": 0.0, "forks": 0.0, "calls": 0.0}, sorted(folder.iterdir())

    def timed(share, function):
        def timing(*arguments, **options):
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                spent[share] += time.perf_counter() - start

        return timing

    kept = submission._read, answer.Answer.__init__, answer.Answer.run, boxes.Box.end
    submission._read = timed("reading", submission._read)
    answer.Answer.__init__ = timed("forks", answer.Answer.__init__)  # the fork, the learner's cells, the first answer
    answer.Answer.run = timed("calls", answer.Answer.run)
    try:
        with contextlib.ExitStack() as stack:
            way, room, filter_, uid = stack.enter_context(run.prepared("auto", boxes.Limits()))
            run.begin(run.Settings(classroom.LIGHT, "", boxes.Limits(), b"x", way, str(room), filter_, uid))
            _, reader, runner = run._worker
            runner.end = timed("forks", runner.end)
            submission.grade("x", submission.contents(names[0]), classroom.LIGHT, b"x", reader, runner)
            spent.update(dict.fromkeys(spent, 0.0))
            before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            for path in names:
                submission.grade("x", submission.contents(path), classroom.LIGHT, b"x", reader, runner)
            whole = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_SELF)
            run.finish()
    finally:
        submission._read, answer.Answer.__init__, answer.Answer.run, boxes.Box.end = kept
    spent["checks"] = whole - sum(spent.values())
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    codes = sum(hasattr(load(id), "args") for id in classroom.LIGHT)
    print(
        f"one process: {1e3 * whole / len(names):.1f} ms a submission, {1e3 * own / len(names):.1f} ms of its processor"
    )
    for share, seconds in spent.items():
        each = 1e3 * seconds / len(names)
        of = {"reading": 1, "forks": codes, "calls": codes, "checks": len(classroom.LIGHT)}[share]
        print(f"  {share:8} {each:6.1f} ms, {each / of:5.2f} ms each of {of}")


if __name__ == "__main__":
    sys.exit(main())
