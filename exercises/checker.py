"""Judges an answer by an exercise's spec: the first property that fails, on the smallest case that shows it."""

import numpy as np

from exercises.calls import call, copy, describe, make_cases, size, unfit
from exercises.properties import SHOWN, expected, first_failure, is_empty, wide
from exercises.spec import sentence
from exercises.verdict import NOT_ATTEMPTED, NOT_YET, PASSED, Verdict


def judge(exercise, answer, seed=0, dtypes=(np.float64, np.float32)):
    """Judge `answer` on the exercise's cases of this seed, each in all dtypes. Returns a Verdict.

    KeyboardInterrupt leaves this function, and so does an error that an answer raises on being looked at; `check`
    holds both.
    """
    about = {"id": exercise.id, "out_of": exercise.points}
    if is_empty(answer):
        return _not_attempted(exercise, "Write the function, then pass it here.")
    cases = list(make_cases(exercise, seed, dtypes))
    line = unfit(exercise, answer, cases[0])
    if line:
        return Verdict(status=NOT_YET, heading=f"Not yet: {exercise.title}", lines=(line,), **about)
    for at, args in enumerate(cases):
        run = call(exercise, answer, args)
        if isinstance(run.error, NotImplementedError):
            return _not_attempted(exercise)
        if run.error is None and is_empty(run.value):
            nothing = "Your function returned None. If you did write it, its `return` is missing."
            return _not_attempted(exercise, nothing if run.value is None else "")
        failure = first_failure(exercise, args, run)
        if failure:
            return _not_yet(exercise, answer, cases, at, run, failure)
    lines = (f"Right on all {len(cases)} cases.", *([exercise.takeaway] if exercise.takeaway else []))
    worth = f"{exercise.points} point{'s' * (exercise.points != 1)}"
    heading = f"Passed: {exercise.title} ({worth})"
    return Verdict(status=PASSED, heading=heading, lines=lines, points=exercise.points, **about)


def _not_attempted(exercise, line=""):
    line = line or "Put your code where the `...` stand and run the cell again."
    advice = f'`hint("{exercise.id}")` gives a hint.'
    heading = f"Not attempted: {exercise.title}"
    return Verdict(exercise.id, NOT_ATTEMPTED, heading, (line,), advice=advice, out_of=exercise.points)


def _not_yet(exercise, answer, cases, at, run, failure):
    args, diagnosis, advice = cases[at], "", ""
    if failure.kind not in ("raised", "open", "library"):
        diagnosis = _diagnosis(exercise, answer, cases, at, run, failure)
    lines = list(failure.lines)
    small = size(args) <= 2 * SHOWN
    if failure.kind not in ("returned", "library"):
        inputs = " Its inputs: `check(…).case`." if small and size(args) else ""
        lines.append(f"Smallest case that shows it: {describe(exercise, args)}.{inputs}")
    if not diagnosis and failure.kind != "library":
        advice = f'`hint("{exercise.id}")` gives a hint.'
    return Verdict(
        id=exercise.id,
        status=NOT_YET,
        heading=f"Not yet: {exercise.title}",
        lines=tuple(lines),
        table=failure.table,
        diagnosis=diagnosis,
        advice=advice,
        out_of=exercise.points,
        case=dict(zip(exercise.args, copy(args))) if small else {},
    )


def _diagnosis(exercise, answer, cases, at, run, failure):
    """The sentence of the first mutant that fails as the answer does and gives its numbers in every case; or ""."""
    alike = []
    for mutant in exercise.mutants:
        other = call(exercise, mutant, cases[at])
        its = first_failure(exercise, cases[at], other)
        fails_alike = its and (its.kind, its.name) == (failure.kind, failure.name)
        if fails_alike and _alike(exercise, cases[at], run, other, failure):
            alike.append(mutant)
    for args in cases[at + 1 :] if alike else ():  # small cases may not tell two mistakes apart
        run = call(exercise, answer, args)
        if run.error is None:
            alike = [m for m in alike if _alike(exercise, args, run, call(exercise, m, args), failure)]
    return sentence(alike[0]) if alike else ""


def _alike(exercise, args, run, other, failure):
    """Did two runs do the same: change the same inputs, and return the same for the result that failed?"""
    if run.error or other.error or run.changed != other.changed or run.shared != other.shared:
        return False
    one, two = (r.value if isinstance(r.value, tuple) else (r.value,) for r in (run, other))
    if not len(one) == len(two) == len(exercise.returns):
        return failure.kind == "returned" and len(one) == len(two)
    results = zip(exercise.returns, one, two, *expected(exercise, args))
    # an input changed in place is not the fault of one result: all of them must agree
    return all(_same(*rest) for name, *rest in results if name == failure.name or failure.kind == "changed")


def _same(one, two, right, bound):
    """Is result `one` that of a mutant, `two`, as far as rounding allows to say?"""
    if isinstance(one, str) and isinstance(two, str):
        return one.strip().casefold() == two.casefold()
    if not (isinstance(one, np.ndarray) and isinstance(two, np.ndarray)):
        return np.ndim(one) == np.ndim(two) == 0 and bool(one == two)
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    one, two = wide(one), wide(two)
    finite = np.isfinite(two)
    if not np.array_equal(np.isfinite(one), finite):
        return False
    # a thousand times nearer to the mutant than that is to the truth; where it hits the truth, within rounding
    if two.shape == right.shape:
        far = np.abs(two - right)
        near = 1e-3 * (far.max(axis=-1, keepdims=True) if far.ndim else far) + bound
    else:
        near = 1e-4 * np.abs(two).max(initial=0)
    return bool((np.abs(one - two) <= near)[finite].all())
