"""Judges an answer by an exercise's spec: the first property that fails, on the smallest case that shows it."""

import time

import numpy as np

from exercises.engine.calls import Returned, call, cast, copy, describe, float_dtype, make_cases, patience, size, unfit
from exercises.engine.elsewhere import Elsewhere
from exercises.engine.library import complex_step
from exercises.engine.properties import SHOWN, expected, first_failure, is_empty, wide
from exercises.engine.questions import judge_value
from exercises.engine.verdict import STOPPED, not_attempted, not_yet, passed
from exercises.spec import Code, sentence

FINITE_DIFFERENCES = (
    "That is what finite differences give: a few digits, at two forwards for every entry. They can check a backward, "
    "but they are none. Derive the formula: it costs about two forwards in all."
)
_KEPT = (
    "It was right when it was called first. Does it keep something from one call to the next: a global, a default "
    "argument that is an array, a table looked up by shape?"
)
_OVERWRITTEN = "Your function changes what it returned before: each call has to return new arrays."
_LOW_PRECISION = "Does a step run in float32, has a constant few digits, or is a small number added where none belongs?"


def judge(exercise, answer, seed=0, dtypes=(np.float64, np.float32)):
    """Judge `answer`: a function on the exercise's cases of this seed, each in all dtypes; a value as it is.

    Returns a Verdict. An error that an answer raises on being looked at leaves this function; `check` holds it.
    """
    if not isinstance(exercise, Code):
        return judge_value(exercise, answer, seed)
    if is_empty(answer):
        return not_attempted(exercise, "Write the function, then pass it here.")
    cases = list(make_cases(exercise, seed, dtypes))
    line = unfit(exercise, answer, cases[0])
    if line:
        return not_yet(exercise, (line,))
    first = len(cases)
    # half of them again, the largest among them, in the same shapes with other numbers: an answer must not remember
    cases += list(make_cases(exercise, seed + 1_000_003, dtypes[:1]))[::-2][::-1]
    seconds = [None] * len(cases)
    if isinstance(answer, Elsewhere):
        answer.expect(cases)
    if exercise.large:
        cases.append(cast(exercise.large(np.random.default_rng(seed)), dtypes[0]))
        seconds.append(patience())
    returned = Returned()
    for at, args in enumerate(cases):
        start = time.perf_counter()
        try:
            run = call(exercise, answer, args, seconds[at])
        except KeyboardInterrupt:
            if isinstance(answer, Elsewhere):
                raise  # it was the instructor's
            return _stopped(exercise, args, time.perf_counter() - start)
        if returned.changed(run):
            return not_yet(exercise, (_OVERWRITTEN,))
        unwritten = isinstance(run.error, NotImplementedError)
        if unwritten or (run.error is None and is_empty(run.value)):
            if at:
                half = f"Right on the first {at} cases; {describe(exercise, args)} is still open."
                return not_yet(exercise, (half,))
            nothing = "Your function returned None. If you did write it, its `return` is missing."
            return not_attempted(exercise, nothing if run.value is None and not unwritten else "")
        failure = first_failure(exercise, args, run)
        if failure:
            return _not_yet(exercise, answer, cases, at, run, failure, again=at >= first)
    taken = complex_step(exercise, answer)
    if taken:
        return not_yet(exercise, (taken,), helps=False)
    return passed(exercise, (f"Right on all {len(cases)} cases.",))


def _stopped(exercise, args, seconds):
    line = f"You interrupted the check. Your function had been running for {seconds:.1f} s on "
    line += f"{describe(exercise, args)}: is there a loop that never ends?"
    return not_yet(exercise, (line,), status=STOPPED)


def _not_yet(exercise, answer, cases, at, run, failure, again):
    args, diagnosis = cases[at], ""
    if failure.kind == "slow":
        diagnosis = FINITE_DIFFERENCES
    elif failure.kind not in ("raised", "open", "library"):
        diagnosis = _known_mistake(exercise, answer, cases, at, run, failure)
        if not diagnosis and failure.digits:
            diagnosis = FINITE_DIFFERENCES if _is_slow(exercise, answer, cases) else _LOW_PRECISION
        if not diagnosis and again:
            diagnosis = _KEPT
    lines = list(failure.lines)
    small = size(args) <= 16 * SHOWN
    if failure.kind not in ("returned", "library", "slow"):
        inputs = " Its inputs: `check(…).case`." if small and size(args) else ""
        lines.append(f"Smallest case that shows it: {describe(exercise, args)}.{inputs}")
    return not_yet(
        exercise,
        lines,
        diagnosis,
        helps=failure.kind != "library",
        table=failure.table,
        case=dict(zip(exercise.args, copy(args))) if small else {},
    )


def _is_slow(exercise, answer, cases):
    """Does the answer fail to finish the large case?"""
    if not exercise.large:
        return False
    run = call(exercise, answer, cases[-1], patience())
    failure = first_failure(exercise, cases[-1], run)
    return failure is not None and failure.kind == "slow"


def _known_mistake(exercise, answer, cases, at, run, failure):
    """The sentence of the mutant that fails as the answer does and gives its numbers in most cases; or ""."""
    alike = []
    for mutant in exercise.mutants:
        other = call(exercise, mutant, cases[at])
        its = first_failure(exercise, cases[at], other)
        fails_alike = its and (its.kind, its.name) == (failure.kind, failure.name)
        if fails_alike and _alike(exercise, cases[at], run, other, failure):
            alike.append(mutant)
    for args in cases[:at]:  # which the answer got right
        alike = [m for m in alike if not first_failure(exercise, args, call(exercise, m, args))]
    # Small cases may not tell two mistakes apart; those in another dtype may have another mistake beside this one.
    last = len(cases) - bool(exercise.large)  # the large case would take too long
    later = [args for args in cases[at + 1 : last] if float_dtype(args) == float_dtype(cases[at])]
    agreed, runs = {mutant: 0 for mutant in alike}, 0
    for args in later if alike else ():
        run = call(exercise, answer, args)
        if run.error is None:
            runs += 1
            for mutant in alike:
                agreed[mutant] += _alike(exercise, args, run, call(exercise, mutant, args), failure)
    # a second mistake may spoil some of them, but not most
    most = max(agreed.values(), default=0)
    alike = [mutant for mutant in alike if agreed[mutant] == most and 2 * most >= runs]
    if len(alike) > 1:  # the same in what failed: perhaps not in the rest
        run = call(exercise, answer, cases[at])
        whole = [m for m in alike if _alike(exercise, cases[at], run, call(exercise, m, cases[at]))]
        alike = whole or alike
    return sentence(alike[0]) if alike else ""


def _alike(exercise, args, run, other, failure=None):
    """Did two runs do the same: change the same inputs, and return the same for the result that failed, or for all?"""
    if run.error or other.error or run.changed != other.changed or run.shared != other.shared:
        return False
    one, two = (r.value if isinstance(r.value, tuple) else (r.value,) for r in (run, other))
    if not len(one) == len(two) == len(exercise.returns):
        return failure is not None and failure.kind == "returned" and len(one) == len(two)
    results = zip(exercise.returns, one, two, *expected(exercise, args))
    return all(_same(*rest) for name, *rest in results if failure is None or name == failure.name)


def _same(one, two, right, bound):
    """Is result `one` that of a mutant, `two`, as far as rounding allows to say?"""
    if isinstance(one, str) and isinstance(two, str):
        return one.strip().casefold() == two.casefold()
    if not (isinstance(one, np.ndarray) and isinstance(two, np.ndarray)):
        return np.ndim(one) == np.ndim(two) == 0 and bool(one == two)
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    finite = np.isfinite(two)
    if not np.array_equal(np.isfinite(one), finite):
        return False
    one, two = (np.where(finite, wide(a), 0) for a in (one, two))
    # a thousand times nearer to the mutant than that is to the truth; where it hits the truth, within rounding
    if two.shape == right.shape:
        far = np.where(finite, np.abs(two - right), 0)
        near = 1e-3 * (far.max(axis=-1, keepdims=True) if far.ndim else far) + bound
    else:
        near = 1e-4 * np.abs(two).max(initial=0)
    return bool((np.abs(one - two) <= near).all())
