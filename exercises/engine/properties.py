"""The properties that a result must have, and the sentence for each that it has not."""

import numbers
from dataclasses import dataclass

import numpy as np

from exercises.engine.calls import Run, TooSlow, cast, describe, describe_error, float_dtype, size
from exercises.engine.library import Borrowed
from exercises.engine.verdict import kind_of

_EMPTY = (None, Ellipsis, NotImplemented)
SHOWN = 12  # numbers; a result with more is described, not printed
# what the reference is computed in. Where NumPy has nothing wider than float64, `expected` allows for its rounding too.
_LARGE = 10_000  # numbers; from there on float64 is wide enough, and longdouble products take too long
WIDE = np.longdouble if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps else np.float64


@dataclass
class Result:
    """One returned value beside the right one."""

    name: str
    got: object
    right: object
    bound: object  # how far a right answer may be from `right`
    dtype: np.dtype | None  # of the case
    run: Run

    @property
    def is_float(self):
        return isinstance(self.right, np.ndarray) and self.right.dtype.kind == "f"


@dataclass
class Failure:
    """The first property that does not hold."""

    kind: (
        str  # "library", "slow", "raised", "returned", "shape", "dtype", "changed", "shared", "nan", "values" or "open"
    )
    name: str = ""  # of the result
    lines: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    digits: int = 0  # to how many it is right nevertheless, where that is no accident


def first_failure(exercise, args, run):
    """The first property of this run that does not hold, or None. Shapes come before dtypes, these before values."""
    if isinstance(run.error, Borrowed):
        return Failure("library", lines=(str(run.error),))
    if isinstance(run.error, TooSlow):
        line = f"Your function is right on the small cases, and far too slow on {describe(exercise, args)}."
        return Failure("slow", lines=(line,))
    if run.error is not None:
        return Failure("raised", lines=(describe_error(run.error),))
    names, got = exercise.returns, run.value
    wanted = f"`{', '.join(names)}`"
    if len(names) == 1:
        got = (got,)
    if not isinstance(got, tuple):
        return Failure("returned", lines=(f"Your function returned {_kind(got)}; return a tuple: {wanted}.",))
    if len(got) != len(names):
        said = f"Your function returned {len(got)} values; expected are {len(names)}: {wanted}."
        return Failure("returned", lines=(said,))
    results = [Result(*fields, float_dtype(args), run) for fields in zip(names, got, *expected(exercise, args))]
    done = [result for result in results if not is_empty(result.got)]
    for kind, look in _PROPERTIES:
        for at, result in enumerate(done):
            found = look(result)
            if found:
                line, *table = found
                earlier = _agree(done[:at]) if kind == "values" else ""
                line = line[0].lower() + line[1:] if earlier and line.startswith("Every") else line
                digits = _digits(result) if kind == "values" else 0
                return Failure(kind, result.name, (earlier + line,), tuple(table), digits)
    if len(done) < len(results):
        empty = [result.name for result in results if is_empty(result.got)]
        line = f"{_agree(done)}{_and(empty)} {'is' if len(empty) == 1 else 'are'} still open."
        return Failure("open", empty[0], (line,))
    return None


def expected(exercise, args):
    """The right results, in the widest float, and for each the largest error that rounding alone can explain.

    A right answer in a dtype of unit roundoff u errs by at most γ · (the spec's `rounding`), γ = u / (1 − n u) ≈ u for
    the small n here; the reference errs by the same expression with its own u.
    """
    known = _expected.get(id(args))
    if known is None or known[0] is not exercise or known[1] is not args:
        if len(_expected) > 100:
            _expected.clear()
        _expected[id(args)] = (exercise, args, _work_out(exercise, args))
    return _expected[id(args)][2]


_expected = {}  # id(args) -> exercise, args, what was worked out: all known mistakes are held against the same cases


def _work_out(exercise, args):
    dtype = float_dtype(args)
    wide_dtype = WIDE if size(args) < _LARGE else np.float64
    wide = cast(args, wide_dtype)
    right = exercise.reference(*wide)
    right = right if isinstance(right, tuple) else (right,)
    if exercise.rounding is None or dtype is None:
        return right, (0,) * len(right)
    errors = exercise.rounding(*wide)
    errors = errors if isinstance(errors, tuple) else (errors,)
    info = np.finfo(dtype)
    u = float(info.eps) / 2 + float(np.finfo(wide_dtype).eps) / 2
    return right, tuple(u * error + info.tiny for error in errors)  # tiny: below it, rounding is absolute


def _shape(result):
    name, got, right = result.name, result.got, result.right
    if isinstance(right, np.ndarray):
        if not isinstance(got, np.ndarray | np.generic):
            return [f"{name} is {_kind(got)}; expected is an array of shape {right.shape}."]
        if got.dtype.kind == "c" and right.dtype.kind in "biu":
            return [f"{name} holds complex numbers; expected are whole ones."]
        if got.shape != right.shape:
            return [f"{name} has shape {got.shape}; expected is {right.shape}."]
    elif isinstance(right, str):
        if not isinstance(got, str):
            return [f"{name} is {_kind(got)}; expected is a string."]
    elif not isinstance(got, numbers.Real) and not (isinstance(got, np.ndarray) and got.shape == ()):
        return [f"{name} is {_kind(got)}; expected is a number."]
    return None


def _dtype(result):
    if not result.is_float or result.got.dtype == result.dtype:
        return None
    line = f"{result.name} is {result.got.dtype}, the inputs are {result.dtype}: keep the dtype you were given."
    right = result.got.dtype.kind == "f" and _within(result, result.bound)
    return [f"The numbers are right here, but {line}" if right else line]


def _changed(result):
    if result.run.changed:
        names = _and(result.run.changed)
        return [f"Your function changes its input {names} in place; the caller still needs it as it was."]
    return None


def _shared(result):
    if result.name in result.run.shared:
        argument = result.run.shared[result.name]
        return [f"{result.name} shares the memory of {argument}: return a new array, or changing one changes both."]
    return None


def _nan(result):
    if not result.is_float or np.isfinite(result.got).all():
        return None
    bad = ~np.isfinite(result.got)
    word = "NaN" if np.isnan(result.got).any() else "inf"
    return [f"{result.name} has {word} at {bad.sum()} of {bad.size} entries.", *_table(result, bad)]


def _values(result):
    name, got, right = result.name, result.got, result.right
    if isinstance(right, str):
        same = got.strip().casefold() == right.casefold()
        return None if same else [f'{name} is "{_cut(got)}".', f'expected   "{_cut(right)}"']
    if not isinstance(right, np.ndarray):
        return None if bool(got == right) else [f"{name} has the wrong value.", *_table(result, np.True_)]
    wrong = ~(np.abs(wide(got) - right) <= result.bound)
    if not wrong.any():
        return None
    line = f"{name} has wrong values at {wrong.sum()} of {wrong.size} entries."
    factor = _factor(got, right)
    digits = _digits(result)
    if not got.any():
        line = f"{name} is zero everywhere."
    elif digits:
        line = f"{name} is right to about {digits} of float64's 15 digits, and no further."
    elif factor is not None and abs(factor - 1) > 1e-3:
        line = f"Every entry of {name} is {factor:.4g} times the right one."
    return [line, *_table(result, wrong)]


# each takes a Result and returns None, or the sentence and after it the lines of a table
_PROPERTIES = (
    ("shape", _shape),
    ("dtype", _dtype),
    ("changed", _changed),
    ("shared", _shared),
    ("nan", _nan),
    ("values", _values),
)


def wide(array):
    """The array in the widest float there is."""
    return np.asarray(array).astype(WIDE)


def _within(result, bound):
    return bool((np.abs(wide(result.got) - result.right) <= bound).all())


def _digits(result):
    """To how many of float64's digits a wrong result is right, if three or more: then it is an approximation."""
    if not result.is_float or result.dtype != np.float64:
        return 0
    off, largest = np.abs(wide(result.got) - result.right).max(initial=0), np.abs(result.right).max(initial=0)
    return int(np.log10(largest / off)) if 0 < 1e3 * off < largest else 0


def _factor(got, right):
    """The constant in got = constant · right, if there is one to three digits; None for fewer than three entries."""
    if got.size < 3 or not right.any():
        return None
    got = wide(got)
    factor = np.vdot(right, got) / np.vdot(right, right)
    same = np.abs(got - factor * right) <= 1e-3 * np.abs(factor * right)
    return float(factor) if same.all() else None


# ---- words ----


def is_empty(value):
    """Is this what a stub returns: nothing, `...`, or a tuple of such?"""
    if isinstance(value, tuple) and value:
        return all(is_empty(item) for item in value)
    return any(value is empty for empty in _EMPTY)


def _cut(text):
    return text if len(text) <= 80 else f"{text[:79]}…"


def _kind(value):
    if isinstance(value, np.ndarray):
        return f"one array of shape {value.shape}"
    return "None" if value is None else kind_of(value)


def _and(names):
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _agree(results):
    """ "dx agrees here; " before the sentence on what comes after it."""
    return f"{_and([r.name for r in results])} agree{'s' * (len(results) == 1)} here; " if results else ""


def _table(result, wrong):
    """Lines that show expected and got side by side, one for each row of the last axis; none if it were too many."""
    got, right = np.asarray(result.got), np.asarray(result.right)
    if right.size > SHOWN:
        return []
    for digits in (4, 6, 9, 12, 16):  # as few as show the difference
        cells = [[f"{float(v):.{digits}g}" for v in a.ravel()] for a in (right, got)]
        if all(e != g for e, g, w in zip(*cells, wrong.ravel()) if w):
            break
    if right.dtype.kind in "iu":
        cells = [[f"{v}" for v in a.ravel()] for a in (right, got)]
    width, columns = max(map(len, cells[0] + cells[1])), right.shape[-1] if right.ndim else 1
    rows = [["", "expected", "got", ""]]
    for start in range(0, right.size, columns):
        stop = start + columns
        index = np.unravel_index(start, right.shape)[:-1] if right.ndim else ()
        label = result.name + (f"[{', '.join(map(str, map(int, index)))}]" if index else "")
        sides = [" ".join(v.rjust(width) for v in side[start:stop]) for side in cells]
        rows.append([label, *sides, "←" if wrong.ravel()[start:stop].any() else ""])
    left, middle, last = (max(len(row[i]) for row in rows) for i in range(3))
    return [f"{label:<{left}}   {e:<{middle}}   {g:<{last}}   {mark}".rstrip() for label, e, g, mark in rows]
