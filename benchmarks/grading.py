"""How many submissions a second the grader does, and on what it spends its time: `python -m benchmarks.grading`.

Right answers to ten light exercises, by the command line with one and two workers, in turns; then in one process, where
reading, forks, calls and checks are told apart.
"""

import argparse
import contextlib
import os
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
    parser.add_argument("--rounds", type=int, default=7, help="how often each number of workers takes its turn (7)")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "submissions")
        folder.mkdir()
        for at in range(asked.count):
            _write(folder, at)
        print(f"{asked.count} submissions of {len(classroom.LIGHT)} exercises, all right")
        rates = {workers: [] for workers in sorted({1, len(os.sched_getaffinity(0))})}
        for _ in range(asked.rounds):
            for workers, found in rates.items():
                found.append(_rate(folder, Path(place, "out"), workers))
        for workers, found in rates.items():
            shown = f"{statistics.median(found):.1f} a second ({min(found):.1f}–{max(found):.1f})"
            print(f"  {workers} worker{'s' * (workers > 1)}: {shown}", flush=True)
        _shares(folder)
    return 0


def _write(folder, at):
    learner = f"learner-{at:03}"
    right = {id: classroom.right_answers(id, learner) for id in classroom.LIGHT}
    answers = {id: classroom.filled(id, found[at % len(found)]) for id, found in right.items()}
    cells = classroom.notebook(classroom.LIGHT, learner, answers)
    (folder / f"{learner}.ipynb").write_text(classroom.as_ipynb(cells), encoding="utf-8")


def _rate(folder, out, workers):
    """Submissions a second of a whole run, without the second or two in which the room is built."""
    shutil.rmtree(out, ignore_errors=True)
    started, began, count = [], run.grade_all, len(list(folder.iterdir()))

    def timed(*arguments):
        start = time.perf_counter()
        began(*arguments)
        started.append(time.perf_counter() - start)

    run.grade_all = timed
    try:
        run.run(folder, out, classroom.LIGHT, seed="benchmark", workers=workers, say=lambda line: None)
    finally:
        run.grade_all = began
    wrong = [row for row in (out / "grades.csv").read_text().splitlines()[1:] if ",full marks," not in row]
    if wrong:
        raise SystemExit(f"not all right: {wrong[0]}")
    return count / started[0]


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
            out = stack.enter_context(tempfile.TemporaryDirectory())
            run.begin(run.Settings(out, classroom.LIGHT, "", way, str(room), filter_, boxes.Limits(), b"x", uid))
            _, reader, runner = run._worker
            runner.end = timed("forks", runner.end)
            submission.grade(names[0], "x", classroom.LIGHT, b"x", reader, runner)
            spent.update(dict.fromkeys(spent, 0.0))
            before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            for path in names:
                submission.grade(path, "x", classroom.LIGHT, b"x", reader, runner)
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
