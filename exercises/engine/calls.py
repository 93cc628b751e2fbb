"""Calls an answer: the cases it is called with, and what it did, without trusting it to leave anything as it was."""

import contextlib
import importlib
import inspect
import os
import sys
import sysconfig
import time
import traceback
import warnings
from dataclasses import dataclass, field

import numpy as np

from exercises.engine.elsewhere import Described, Elsewhere
from exercises.engine.library import closed
from exercises.engine.verdict import kind_of


@dataclass
class Run:
    """What one call of an answer did."""

    value: object = None
    error: BaseException | None = None
    changed: tuple[str, ...] = ()  # names of the arguments that were changed in place
    shared: dict = field(default_factory=dict)  # name of a result -> the argument whose memory it uses
    overwrote: bool | None = None  # did it change what an earlier call returned? None: `Returned` finds out


def make_cases(exercise, seed, dtypes):
    """The exercise's cases in ascending size, each in every dtype before the next larger one."""
    for args in exercise.cases(np.random.default_rng(seed)):
        for dtype in dtypes if float_dtype(args) else dtypes[:1]:
            yield cast(args, dtype)


def _map(f, value):
    """Apply f to each array in a tree of tuples, lists and dicts; everything else stays."""
    if isinstance(value, np.ndarray):
        return f(value)
    if isinstance(value, dict):
        return {key: _map(f, item) for key, item in value.items()}
    if isinstance(value, tuple | list):  # a named tuple becomes a plain one
        items = [_map(f, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _arrays(value):
    found = []
    _map(found.append, value)
    return found


def copy(args):
    """Fresh arrays, so that nothing an answer does reaches the case itself."""
    return _map(np.copy, args)


def cast(args, dtype):
    """Fresh arrays, the floats among them in this dtype."""
    return _map(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a.copy(), args)


def float_dtype(args):
    """The dtype of the float arrays in args; None if there are none."""
    return next((a.dtype for a in _arrays(args) if a.dtype.kind == "f"), None)


def size(args):
    """How many numbers the arrays in args hold."""
    return sum(a.size for a in _arrays(args))


def describe(exercise, args):
    """A case in a few words: "x [1, 2, 3], eps=0.5, in float64"."""
    said = [
        f"{name} {list(value.shape)}" if isinstance(value, np.ndarray) else f"{name}={value}"
        for name, value in zip(exercise.args, args)
        if isinstance(value, np.ndarray | int | float | str)
    ]
    dtype = float_dtype(args)
    return ", ".join(said) + (f", in {dtype}" if dtype else "")


def unfit(exercise, answer, args):
    """Why this answer cannot be called with the exercise's arguments, or ""."""
    signature = f"`({', '.join(exercise.args)})`"
    if not callable(answer):
        return f"Pass the function itself, without calling it: this is {kind_of(answer)}."
    try:
        parameters = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return ""
    try:
        parameters.bind(*args)
    except TypeError:
        return f"Your function takes `{parameters}`; it will be called with {signature}."
    names = [name for name in parameters.parameters if name in exercise.args]
    if names != sorted(names, key=exercise.args.index):
        return f"Your function takes `{parameters}`; keep the order {signature}."
    return ""


def call(exercise, answer, args, seconds=None):
    """Call the answer with copies of args. Whatever it raises is kept, except KeyboardInterrupt."""
    if isinstance(answer, Elsewhere):
        return answer.run(args, seconds)
    given = copy(args)
    limit = limited(seconds) if seconds else contextlib.nullcontext()
    # silent: a warning is no mistake, and inf and NaN are reported as what they are
    with np.errstate(all="ignore"), warnings.catch_warnings(), closed(exercise, answer):
        warnings.simplefilter("ignore")
        try:
            with limit:
                value = answer(*given)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also exit(), which would end the learner's session
            return Run(error=error)
    changed = tuple(name for name, now, before in zip(exercise.args, given, args) if not _identical(now, before))
    results = value if isinstance(value, tuple) else (value,)
    shared = {
        result: argument
        for result, array in zip(exercise.returns, results)
        for argument, its in zip(exercise.args, given)
        if isinstance(array, np.ndarray) and any(np.may_share_memory(array, a) for a in _arrays(its))
    }
    return Run(value, None, changed, shared)


# in a browser nothing else runs beside, and processor time stands still
_clock = time.perf_counter if sys.platform == "emscripten" else time.process_time


class Returned:
    """The arrays of the calls before, which the calls after must leave alone."""

    def __init__(self):
        self.kept = []  # (array, copy)

    def changed(self, run):
        """Is one of them different now? Those of this run are looked at from the next on."""
        if run.overwrote is not None:
            return run.overwrote
        found = any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in self.kept)
        self.kept += [(a, a.copy()) for a in _arrays(run.value) if a.size < 1000 and a.dtype.kind in "fiub"]
        return found


class TooSlow(BaseException):
    """The answer was still running when its time was over."""


@contextlib.contextmanager
def limited(seconds):
    """Raise TooSlow in code that calls functions for longer than this; in any thread, on any system, in a browser.

    Seconds of the processor: a busy machine must not make a right answer wrong.
    """

    def look(frame, event, argument):
        if _clock() > end:
            raise TooSlow

    before, end = sys.getprofile(), _clock() + seconds
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def patience():
    """Seconds that a large case may take on this machine: far more than loops need, far fewer than forwards do."""
    x, rounds = np.zeros(2), []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(2000):
            x[0]
        rounds.append(time.perf_counter() - start)
    return 2 * max(1, min(rounds) / 2e-4)


def _identical(now, before):
    now, before = _arrays(now), _arrays(before)
    return len(now) == len(before) and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(now, before)
    )


def describe_error(error):
    """One sentence on an error, with the last line of the learner's own that it passed through."""
    if isinstance(error, Described):
        return str(error)
    if isinstance(error, SystemExit):
        what = "called exit()"
    else:
        message = (str(error).strip().splitlines() or [""])[0][:160]
        what = f"raised {type(error).__name__}" + (f": {message}" if message else "")
    where = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_NOT_THE_LEARNERS):
            where = f" at line {frame.lineno}" + (f", `{frame.line[:80]}`" if frame.line else "")
            break
    if isinstance(error, TypeError) and "ellipsis" in str(error):
        return f"A `...` is still in your code{where}."
    return f"Your function {what}{where}."


def _folder(module):
    return os.path.dirname(os.path.abspath(module.__file__)) + os.sep


_NOT_THE_LEARNERS = (
    _folder(np),
    _folder(importlib.import_module("exercises")),
    _folder(importlib.import_module("scratch")),
    sysconfig.get_paths()["stdlib"] + os.sep,
    "<frozen",
)
