"""Certify the exercises: every known mistake rejected with its own sentence, every right answer accepted.

    python -m exercises.certify --seeds 200      all exercises, on all cores; exits with 1 if one answer was misjudged

The tests run this for a few seeds, and a page of the book shows the result.
"""

import argparse
import html
import os
import sys
import time
from dataclasses import dataclass, field

import numpy as np

from exercises import ids, load
from exercises.engine.checker import FINITE_DIFFERENCES, judge
from exercises.engine.questions import right_values, wrong_values
from exercises.engine.verdict import NOT_YET
from exercises.spec import Code, sentence

# each case in float64 and then in float32, as for a learner; and in float32 alone, where float64 cannot speak first
DTYPES = ((np.float32,), (np.float64, np.float32))
# gradients that no formula gave: name -> (weight, step in units of h, ...; None for a complex step), h
STENCILS = {
    "central differences, h = 1e-5": ((0.5, 1, -0.5, -1), 1e-5),
    "complex step, h = 1e-30": (None, 1e-30),
    "one-sided differences, h = 1e-7": ((1, 1), 1e-7),
    "central differences, h = 1e-6": ((0.5, 1, -0.5, -1), 1e-6),
    "differences of fourth order, h = 1e-3": ((2 / 3, 1, -2 / 3, -1, -1 / 12, 2, 1 / 12, -2), 1e-3),
}
SHORT = tuple(STENCILS)[:2]  # enough for a quick look


@dataclass
class Row:
    """One answer to one exercise, judged many times."""

    id: str
    kind: str  # "wrong" or "right"
    name: str
    said: str  # what it does, and of a wrong one what its author must be told
    trials: int = 0
    misjudged: list = field(default_factory=list)  # (seed, dtypes, the verdict as text)
    seconds: float = 0.0  # of the slowest check of it as a learner runs it

    def judge(self, exercise, answer, seed, dtypes=DTYPES[-1]):
        """Judge it once, and note whether that was rightly done."""
        start = time.perf_counter()
        verdict = judge(exercise, answer, seed, dtypes)
        if dtypes == DTYPES[-1]:
            self.seconds = max(self.seconds, time.perf_counter() - start)
        self.trials += 1
        if self.kind == "right":
            done = bool(verdict)
        else:
            done = verdict.status == NOT_YET and verdict.diagnosis == self.said
        if not done:
            self.misjudged.append((seed, [np.dtype(d).name for d in dtypes], repr(verdict)))


def certify(id, seeds=range(5), numerical=STENCILS):
    """The Rows of one exercise; `numerical` names the gradients without a formula to try, which takes seconds each."""
    exercise = load(id)
    return _code(exercise, seeds, numerical) if isinstance(exercise, Code) else _values(exercise, seeds)


def _code(exercise, seeds, numerical):
    rows = []
    for kind, answers in (("wrong", exercise.mutants), ("right", exercise.variants)):
        for answer in answers:
            row = Row(exercise.id, kind, answer.__name__, sentence(answer))
            rows.append(row)
            for seed in seeds:
                for dtypes in DTYPES:
                    row.judge(exercise, answer, seed, dtypes)
    for name in numerical if exercise.loss else ():
        answer = _Numerical(exercise, *STENCILS[name])
        row = Row(exercise.id, "wrong", name, FINITE_DIFFERENCES)
        rows.append(row)
        row.judge(exercise, answer, seeds[0])  # once: each waits until the large case is given up
    return rows


def _values(exercise, seeds):
    rows = {}
    for seed in map(str, seeds):  # here a learner's name, on which a number's question depends
        for name, answer, said in wrong_values(exercise, seed):
            rows.setdefault(("wrong", name), Row(exercise.id, "wrong", name, said)).judge(exercise, answer, seed)
        for name, answer in right_values(exercise, seed):
            rows.setdefault(("right", name), Row(exercise.id, "right", name, "")).judge(exercise, answer, seed)
    return list(rows.values())


class _Numerical:
    """Gradients of an exercise's loss without a formula, entry by entry."""

    def __init__(self, exercise, stencil, h):
        self.loss, self.stencil, self.h = exercise.loss, stencil, h
        self.places = [exercise.args.index(name.removeprefix("d")) for name in exercise.returns]

    def __call__(self, *args):
        found = tuple(self._gradient(args, place).astype(args[place].dtype) for place in self.places)
        return found if len(found) > 1 else found[0]

    def _gradient(self, args, place):
        work = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in args]
        if self.stencil is None:
            work[place] = work[place].astype(complex)
        x, h = work[place], self.h
        base = 0.0 if self.stencil is None or sum(self.stencil[::2]) == 0 else self.loss(*work)
        gradient = np.empty(x.shape)
        for index in np.ndindex(*x.shape):
            kept = x[index]
            if self.stencil is None:
                x[index] = kept + 1j * h
                gradient[index] = self.loss(*work).imag / h
            else:
                total = -base
                for weight, steps in zip(self.stencil[::2], self.stencil[1::2]):
                    x[index] = kept + steps * h
                    total += weight * self.loss(*work)
                gradient[index] = total / h
            x[index] = kept
        return gradient


class Table:
    """The rows of several exercises as a page shows them."""

    def __init__(self, rows):
        self.rows = rows
        self.by_id = {}
        for row in rows:
            self.by_id.setdefault(row.id, []).append(row)

    def count(self, kind=None, misjudged=False):
        """How many answers there are, or how many of them were misjudged."""
        return sum(1 for r in self.rows if kind in (None, r.kind) and (r.misjudged or not misjudged))

    def __repr__(self):
        lines = [f"{'exercise':<20}{'wrong':>6}{'passed':>8}{'right':>7}{'failed':>8}{'slowest':>10}"]
        for id, rows in self.by_id.items():
            counts = [len(_of(rows, kind, bad)) for kind in ("wrong", "right") for bad in (False, True)]
            slowest = max((r.seconds for r in rows if r.kind == "right"), default=0.0)
            lines.append(f"{id:<20}{counts[0]:>6}{counts[1]:>8}{counts[2]:>7}{counts[3]:>8}{slowest * 1e3:>7.0f} ms")
        return "\n".join(lines)

    def _repr_html_(self):
        head = ["exercise", "wrong answers", "of them misjudged", "right answers", "of them misjudged"]
        cells = [
            [load(id).title] + [str(len(_of(rows, kind, bad))) for kind in ("wrong", "right") for bad in (False, True)]
            for id, rows in self.by_id.items()
        ]
        cells.append(["all"] + [str(self.count(kind, bad)) for kind in ("wrong", "right") for bad in (False, True)])
        return _html_table(head, cells)


class Matrix(Table):
    """Every answer to every exercise, with what its author is told; folded by exercise."""

    def __repr__(self):
        return "\n".join(f"{'✗' if r.kind == 'wrong' else '✓'} {r.id}, {r.name}: {r.said}" for r in self.rows)

    def _repr_html_(self):
        parts = []
        for id, rows in self.by_id.items():
            cells = []
            for row in rows:
                said = row.said if row.kind == "wrong" else f"passes. {row.said}"
                cells.append([row.name.replace("_", " "), said, f"{row.trials - len(row.misjudged)} of {row.trials}"])
            inside = _html_table(["answer", "what its author is told", "rightly judged"], cells)
            title = f"{html.escape(load(id).title)}: {len(_of(rows, 'wrong', False))} wrong, "
            title += f"{len(_of(rows, 'right', False))} right"
            parts.append(f"<details><summary>{title}</summary>{inside}</details>")
        return "".join(parts)


def _of(rows, kind, misjudged):
    return [r for r in rows if r.kind == kind and (r.misjudged or not misjudged)]


def _html_table(head, cells):
    top = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in head)
    body = ""
    for first, *rest in cells:
        row = "".join(f"<td>{html.escape(text)}</td>" for text in rest)
        body += f'<tr><th scope="row">{html.escape(first)}</th>{row}</tr>'
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _work(task):
    return certify(*task)


def main(arguments=None):
    """Certify from the command line; return the exit status."""
    from concurrent.futures import ProcessPoolExecutor  # a browser has no processes, and certifies nothing

    from tqdm import tqdm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", help="by default all")
    parser.add_argument("--specs", help="folder with exercises of your own")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    asked = parser.parse_args(arguments)
    if asked.specs:
        from exercises.grade.specs import SpecError, add_specs

        try:
            add_specs(asked.specs)
        except SpecError as error:
            parser.error(str(error))
    asked.ids = asked.ids or ids()
    if unknown := set(asked.ids) - set(ids()):
        parser.error(f"there is no exercise {', '.join(sorted(unknown))}")
    start, chunk = time.perf_counter(), 10
    tasks = [
        (id, range(first, min(first + chunk, asked.seeds)), () if first else STENCILS)
        for id in asked.ids
        for first in range(0, asked.seeds, chunk)
    ]
    merged = {}
    with ProcessPoolExecutor(asked.workers) as pool:
        for rows in tqdm(pool.map(_work, tasks), total=len(tasks), unit="task", disable=None):
            for row in rows:
                known = merged.setdefault((row.id, row.kind, row.name), row)
                if known is not row:
                    known.trials += row.trials
                    known.misjudged += row.misjudged
                    known.seconds = max(known.seconds, row.seconds)
    table = Table(list(merged.values()))
    print(table)
    for row in table.rows:
        for seed, dtypes, verdict in row.misjudged[:1]:
            print(f"\nMISJUDGED {row.id}, {row.name}, seed {seed}, {dtypes}:\n{verdict}")
    counts = [
        f"{table.count(kind)} {kind} answers, {table.count(kind, misjudged=True)} misjudged"
        for kind in ("wrong", "right")
    ]
    print(f"\n{len(asked.ids)} exercises, {asked.seeds} seeds: {'; '.join(counts)}")
    print(f"{time.perf_counter() - start:.0f} s")
    return int(table.count(misjudged=True) > 0)


if __name__ == "__main__":
    from exercises import certify  # under its own name: as __main__ it would pass for a learner's

    sys.exit(certify.main())
