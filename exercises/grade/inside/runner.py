"""Inside a box: runs the learner's code of one exercise, in a process of its own.

It is told what to run, then called with one case after another, and sends back what the answer returned. Whatever the
learner's code does to this process, nobody outside believes more than these values; what is right is not known here.
"""

import builtins
import codeop
import functools
import importlib.abc
import importlib.machinery
import inspect
import json
import linecache
import marshal
import sys
import traceback
import types
import warnings

import numpy as np

from .fingerprints import digest, nested
from .wire import Line, decode, encode

# nothing of these is needed for an answer: plots, displays, progress bars, and the checks that ran at the learner's
_IDLE = ("exercises", "google", "ipywidgets", "IPython", "matplotlib", "mpl_toolkits", "plotly", "seaborn", "tqdm")


class Closed(BaseException):
    """The answer uses what it was asked to write. No ``except Exception`` swallows it."""


def serve(connection):
    """Talk with the grader until it hangs up."""
    line = Line(connection)
    work, blob = line.receive()
    sys.meta_path[:0] = [_Idle(), _Given(work["modules"], blob)]
    if work["closed"]:
        sys.addaudithook(functools.partial(_audit, work["closed"]))
    names = {"__name__": "__main__", "__builtins__": builtins, "display": _Nothing(), "get_ipython": lambda: None}
    builtins.exit = builtins.quit = sys.exit  # which the module `site` would have made
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    failed = _run(work["program"], names)
    try:
        code = compile(work["expression"], "answer", "eval")
        answer = eval(code, names)
    except BaseException as error:
        line.send({"error": _described(error), "failed": failed})
        return
    if not work["call"] or not callable(answer):
        tree, blobs = encode(answer)
        line.send({"value": tree, "failed": failed}, blobs)
        return
    line.send({"signature": _signature(answer), "failed": failed})
    kept = []
    while True:
        try:
            asked, blob = line.receive()
        except EOFError:
            return
        runs, blobs = [], []
        for tree in asked["cases"]:
            args = decode(tree, blob, lambda place: _Outside(line, place))
            runs.append(_call(answer, args, kept, blobs))
        line.send({"runs": runs}, blobs)


def warm_up():
    """Do once, on lines of our own, what each child will do: Python and NumPy put some off to the first time."""
    names = {"__builtins__": builtins}
    _run([["cell 1", 1, "import numpy as np\n\n\ndef f(x, n):\n    return np.exp(x).sum(axis=-1), x @ x.T, n"]], names)
    _signature(names["f"])
    for dtype in (np.float64, np.float32):
        tree, blobs = encode((np.ones((2, 2), dtype), 3))
        json.loads(json.dumps(_call(names["f"], decode(tree, b"".join(blobs)), [], [])))


def _audit(closed, event, arguments):
    """Refuse to run a copy of the answer that was made while the code ran; one that was written is seen before."""
    if event == "exec" and isinstance(arguments[0], types.CodeType):
        for code in nested(arguments[0]):
            if (print_ := digest(code)) in closed:
                raise Closed(closed[print_])


def _run(program, names):
    """Run the statements; those that fail again, as long as that helps, for cells that stand in another order."""
    waiting, compiled = [], codeop.Compile()  # which keeps in mind what is imported from __future__
    for label, first, source in program:
        try:
            code = compiled("\n" * (first - 1) + source, label, "exec")
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            waiting.append((None, error, label, first, source))
            continue
        waiting.append((code, None, label, first, source))
    _remember_lines(program)
    failed, before = waiting, len(waiting) + 1
    while len(failed) < before:
        before, again = len(failed), []
        for code, error, *where in failed:
            if code is not None:
                try:
                    exec(code, names)
                    continue
                except BaseException as raised:  # exit() and interrupts, too: the cells after it still count
                    error = raised
            again.append((code, error, *where))
        failed = again
    return [_described(error) | {"label": label, "first": first} for _, error, label, first, _ in failed[:5]]


def _remember_lines(program):
    """So that a traceback can show the learner's own line."""
    cells = {}
    for label, first, source in program:
        lines = cells.setdefault(label, {})
        lines.update(enumerate(source.split("\n"), first))
    for label, lines in cells.items():
        text = [lines.get(n, "") + "\n" for n in range(1, max(lines) + 1)]
        linecache.cache[label] = (sum(map(len, text)), None, text, label)


def _call(answer, args, kept, blobs):
    """What one call returned or raised, and what it did to what is not its own; its arrays go on `blobs`."""
    args = args if isinstance(args, tuple) else (args,)
    before = [[np.copy(a) for a in _arrays(arg)] for arg in args]
    try:
        value = answer(*args)
    except BaseException as error:
        return {"error": _described(error)}
    changed = [at for at, arg in enumerate(args) if not _same(_arrays(arg), before[at])]
    results = value if isinstance(value, tuple) else (value,)
    shared = [
        [i, j]
        for i, array in enumerate(results[:20])
        for j, arg in enumerate(args)
        if isinstance(array, np.ndarray) and any(np.may_share_memory(array, a) for a in _arrays(arg))
    ]
    overwrote = any(a.tobytes() != before for a, before in kept)
    kept += [(a, a.tobytes()) for a in results if type(a) is np.ndarray and a.size < 1000 and a.dtype.kind in "fiub"]
    # at once, before a later call can change what this one returned
    return {"value": encode(value, None, blobs)[0], "changed": changed, "shared": shared, "overwrote": overwrote}


class _Outside:
    """A function among the arguments; it stays with the grader, and is called there."""

    def __init__(self, line, place):
        self._line, self._place = line, place

    def __call__(self, *args, **kwargs):
        tree, blobs = encode((args, kwargs))
        self._line.send({"function": self._place, "given": tree}, blobs)
        said, blob = self._line.receive()
        if "error" in said:
            kind = getattr(builtins, said["error"], None)
            raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(said["message"])
        return decode(said["value"], blob)


def _arrays(value):
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [a for item in value for a in _arrays(item)] if isinstance(value, tuple | list) else []


def _same(now, before):
    return len(now) == len(before) and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(now, before)
    )


def _signature(answer):
    """[[name, kind, whether it has a default]] of each parameter; None where there is none to see."""
    try:
        parameters = inspect.signature(answer).parameters.values()
        return [[p.name, int(p.kind), p.default is not p.empty] for p in parameters][:100]
    except Exception:
        return None


def _described(error):
    """What was raised, and the last line of the learner's own that it passed through."""
    try:
        message = (str(error).strip().splitlines() or [""])[0]
    except BaseException:
        message = ""
    found = {"type": type(error).__name__[:80], "message": message[:300], "line": 0, "text": "", "where": ""}
    if isinstance(error, SyntaxError):
        return found
    try:
        for frame in reversed(traceback.extract_tb(error.__traceback__, limit=200)):
            if frame.filename.startswith(("cell ", "line ", "file")):
                return found | {"line": frame.lineno, "text": (frame.line or "")[:160], "where": frame.filename}
    except BaseException:
        pass
    return found


class _Given(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from code that the grader sent: name -> [start, length, whether it is a package]."""

    def __init__(self, modules, blob):
        self.modules, self.blob = modules, blob

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        is_package = self.modules[name][2]
        return importlib.machinery.ModuleSpec(name, self, origin="grader", is_package=is_package)

    def exec_module(self, module):
        start, length, _ = self.modules[module.__name__]
        exec(marshal.loads(self.blob[start : start + length]), vars(module))


class _Idle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports packages that an answer does not need, as modules in which everything does nothing."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in _IDLE:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin="idle", is_package=True)

    def exec_module(self, module):
        module.__getattr__ = _idle_attribute
        module.__all__ = []


def _idle_attribute(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _PASSING.get(name) or _Nothing()


# a progress bar hands on what it counts
_PASSING = {"tqdm": lambda items=(), *args, **kwargs: items, "trange": lambda *args, **kwargs: range(*args)}


class _Nothing:
    """Can be called, looked into, iterated over and entered; is false, and does nothing."""

    def __call__(self, *args, **kwargs):
        # as a decorator it gives back what it is put on
        return args[0] if len(args) == 1 and not kwargs and inspect.isfunction(args[0]) else self

    def __getattr__(self, name):
        return _idle_attribute(name)

    def __getitem__(self, key):
        return self

    def __setitem__(self, key, value):
        pass

    def __iter__(self):
        return iter((self, self))  # fig, ax = plt.subplots()

    def __bool__(self):
        return False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False
