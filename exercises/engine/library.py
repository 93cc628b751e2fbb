"""Keeps answers that exist already out of a learner's: called, read, reloaded or pasted, they are recognized.

While an answer runs, the library's functions that would be the answer are closed, and with them all that call them.
So are the functions of the exercise's own file. Before it runs, its code is compared with theirs.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import threading
import types

from exercises.engine.elsewhere import Elsewhere
from exercises.engine.fingerprints import fingerprint, nested


class Borrowed(BaseException):
    """The answer uses what it was asked to write; the sentence says how. No ``except Exception`` swallows it."""


def targets(exercise):
    """The functions of scratch that are the answer, by their dotted names."""
    found = {}
    for dotted in getattr(exercise, "library", ()):
        module, _, name = dotted.rpartition(".")
        found[dotted] = getattr(importlib.import_module(module), name)
    return found


def file_of(exercise):
    """The module that judges this exercise."""
    return sys.modules.get(f"exercises.{exercise.id.replace('-', '_')}")


def _own(exercise):
    """The functions of the exercise's own file."""
    module = file_of(exercise)
    return [f for f in vars(module).values() if _is_function(f) and f.__module__ == module.__name__] if module else []


def borrowed(exercise, answer):
    """Why this answer is not the learner's own, seen by its code alone; "" if nothing says so."""
    known = {fingerprint(f.__code__): name for name, f in targets(exercise).items()}
    # by identity: a right answer may well be written as one of the exercise's own
    own = {id(f.__code__) for f in _own(exercise)}
    for code, names in _reachable(answer):
        for one in nested(code):
            if fingerprint(one) in known:
                return is_the_library(known[fingerprint(one)])
            if id(one) in own:
                return IS_THE_CHECKER
        if any(name == "exercises" or name.startswith("exercises.") for name in names):
            return IS_THE_CHECKER
    return ""


def complex_step(exercise, answer):
    """Why this backward is none: a complex step has no error that shows, but its code asks for an imaginary part."""
    if not getattr(exercise, "loss", None):
        return ""
    if isinstance(answer, Elsewhere):
        found = "imag" in answer.attributes
    else:
        found = any("imag" in one.co_names for code, _ in _reachable(answer) for one in nested(code))
    return _COMPLEX_STEP if found else ""


_COMPLEX_STEP = (
    "This takes a complex step: the numbers are right, but no gradient was derived. It can check a backward, at a "
    "forward for each entry. Derive the formula."
)

WRITE_YOURS = "Write yours: that is the exercise."
IS_THE_CHECKER = f"This uses what the exercise judges with. {WRITE_YOURS}"


def is_the_library(name):
    """The sentence on an answer that is this function of scratch."""
    return f"This is the library's own, `{name}`. {WRITE_YOURS}"


# ---- what an answer's code can reach ----


def _reachable(answer):
    """(code, the modules it names) of each function that an answer is made of, as far as is seen without running."""
    waiting, seen = [answer], set()
    while waiting and len(seen) < 500:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, functools.partial):
            waiting += [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, types.MethodType):
            waiting.append(thing.__func__)
        elif isinstance(thing, dict | list | tuple) and len(thing) < 100:
            waiting += thing.values() if isinstance(thing, dict) else thing
        elif isinstance(thing, type):
            waiting += [f for f in vars(thing).values() if _is_function(f)] if _is_learners(thing) else []
        elif _is_function(thing):
            used = [name for code in nested(thing.__code__) for name in code.co_names]
            values = [thing.__globals__[name] for name in used if name in thing.__globals__]
            modules = [v.__name__ for v in values if isinstance(v, types.ModuleType)]
            modules += [v.__module__ for v in values if _is_function(v) and isinstance(v.__module__, str)]
            imported = [name for name in used if name.partition(".")[0] == "exercises"]
            yield thing.__code__, modules + imported
            if _is_learners(thing):
                waiting += values
                waiting += [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
                waiting += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
                waiting.append(getattr(thing, "__wrapped__", None))
        elif _is_learners(type(thing)):
            waiting.append(type(thing))
            waiting += [v for v in getattr(thing, "__dict__", {}).values()][:100]


def _is_function(thing):
    return isinstance(thing, types.FunctionType)


def _is_learners(thing):
    """Not code of a package: what those call is their own business."""
    if getattr(thing, "__module__", None) == "__main__":
        return True
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    origin = getattr(getattr(module, "__spec__", None), "origin", None) or ""
    if {"site-packages", "dist-packages"} & set(origin.split(os.sep)):
        return False
    return getattr(module, "__name__", "").partition(".")[0] not in {*sys.stdlib_module_names, "scratch", "exercises"}


def _is_filled(cell):
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


# ---- while it runs ----

_watched = threading.local()  # .prints and .files of the exercise whose answer runs in this thread


def _audit(event, arguments):
    """Python's own report of what happens; raising here stops it."""
    if event not in ("open", "exec") or not getattr(_watched, "files", None):
        return
    if event == "open" and isinstance(arguments[0], str) and os.path.abspath(arguments[0]) in _watched.files:
        raise Borrowed(f"This reads the source of the answer. {WRITE_YOURS}")
    if event == "exec" and isinstance(arguments[0], types.CodeType):
        for code in nested(arguments[0]):
            if fingerprint(code) in _watched.prints:
                raise Borrowed(is_the_library(_watched.prints[fingerprint(code)]))


@functools.cache
def _install():
    sys.addaudithook(_audit)  # it cannot be taken away again, and does nothing while no answer runs


def _files(functions):
    sources = {os.path.abspath(f.__code__.co_filename) for f in functions}
    return sources | {os.path.abspath(importlib.util.cache_from_source(s)) for s in sources if s.endswith(".py")}


@contextlib.contextmanager
def closed(exercise, answer):
    """Close what an answer must not use: functions by their code, and so under whatever name they were imported."""
    _install()
    # the course's own wrong and right answers are judged as a learner's are, but they may use the file they stand in
    where = getattr(answer, "__module__", None) or type(answer).__module__
    names, functions = zip(*targets(exercise).items()) if exercise.library else ((), ())
    own = () if str(where).startswith("exercises.") else tuple(_own(exercise))
    refusals, prints, files = _prepared(names, functions, own)
    kept = [(function, function.__code__) for function in (*functions, *own)]
    try:
        for function, refusal in zip((*functions, *own), refusals):
            function.__code__ = refusal
        _watched.prints, _watched.files = prints, files
        yield
    finally:
        _watched.files = None
        for function, code in kept:
            function.__code__ = code


@functools.lru_cache(maxsize=256)
def _prepared(names, functions, own):
    """What closing these takes: the code that refuses, in place of each; what to recognize them by; their files."""
    sentences = [is_the_library(name) for name in names] + [IS_THE_CHECKER] * len(own)
    prints = {fingerprint(function.__code__): name for name, function in zip(names, functions)}
    return [_refusal(said) for said in sentences], prints, _files([*functions, *own])


def _refusal(sentence):
    """Code that raises. It runs with the globals of the function it replaces, so it names nothing but its own."""

    def refuse(*args, **kwargs):
        raise __import__("exercises.engine.library", fromlist=["Borrowed"]).Borrowed("sentence")

    code = refuse.__code__
    return code.replace(co_consts=tuple(sentence if c == "sentence" else c for c in code.co_consts))
