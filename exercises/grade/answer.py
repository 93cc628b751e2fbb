"""An answer in a box as the checker sees it: called there, judged here; and what may be said of how it ended."""

import contextlib
import inspect
import re
import resource
import signal
import time
from pathlib import Path

from exercises.engine.calls import Run, TooSlow
from exercises.engine.calls import size as size_of
from exercises.engine.elsewhere import Described, Elsewhere
from exercises.engine.library import WRITE_YOURS, Borrowed, is_the_library
from exercises.grade import closing
from exercises.grade.inside.wire import Late, WireError, decode, encode

UNREADABLE = "What your code returned could not be read."
_KINDS = tuple(inspect._ParameterKind)
_CASES, _BYTES = 12, 1 << 20  # that are run together: each frame back and forth takes longer than a small case


class Lost(Exception):
    """The process is gone, or was too slow; the message says it to the learner."""


class Answer(Elsewhere):
    """The answer of one exercise, in a process of a box.

    `line` leads to the process; `found` is what the reader found; `modules` and `blob` are the scratch it gets.
    Evaluating it happens here, so this may raise Lost. `value` is what the expression gave, if it is no function. With
    `several`, cases are run together; `unsure` says that the process was lost on one of them, and not on which.
    """

    def __init__(self, exercise, box, line, found, modules, blob, call, several=False):
        self.exercise, self.box, self.line = exercise, box, line
        self.attributes = found["attributes"]
        self.left = box.limits.seconds
        self.lost = ""
        self._outside = box.limits.seconds  # for functions that the answer calls here
        self.several, self.unsure = several, False
        self._expected, self._ran, self._ran_any = [], {}, False
        work = {"program": found["program"], "expression": found["expression"], "call": call, "modules": modules}
        work["closed"] = closing.fingerprints(getattr(exercise, "library", ()))
        self._timed(self.line.send, work, (blob,), self.left)
        said, data = self._timed(self._next, None, ())
        try:
            self.failed = [_failure(one) for one in _list(said.get("failed"))][:5]
            self.error = _error(said["error"], exercise) if "error" in said else None
            self.value = decode(said["value"], data) if "value" in said else self
            self.__signature__ = _signature(said.get("signature"))
        except (WireError, KeyError, TypeError, ValueError):
            raise Lost(UNREADABLE) from None

    def expect(self, cases):
        """After the first, which says most, these will be run several at a time."""
        functions = []
        encode(cases[0], functions)
        # a function among the arguments is called back meanwhile, which is simple for one case at a time
        self._expected = [] if functions or not self.several else list(cases)

    def run(self, args, seconds=None):
        """What one call did. Where the process is gone or late, the error says so."""
        if id(args) not in self._ran and not self.lost:
            cases = self._next_cases(args)
            try:
                self._run(cases, seconds)
            except Lost as lost:
                self.lost, self.unsure = str(lost), len(cases) > 1
            except (WireError, KeyError, TypeError, ValueError):
                self.lost, self.unsure = UNREADABLE, len(cases) > 1
        return self._ran.pop(id(args), None) or Run(error=Described(self.lost))

    def _next_cases(self, args):
        """This case, and those after it that go with it, if things go as expected."""
        if not self._expected or args is not self._expected[0]:
            self._expected = []
            return [args]
        count, size = 0, 0
        limit = _CASES if self._ran_any else 1
        while count < min(limit, len(self._expected)) and (count == 0 or size < _BYTES):
            size += size_of(self._expected[count])
            count += 1
        cases, self._expected = self._expected[:count], self._expected[count:]
        return cases

    def _run(self, cases, seconds):
        """Have these cases run, and keep what came of each."""
        functions, blobs = [], []
        trees = [encode(args, functions, blobs)[0] for args in cases]
        self._timed(self.line.send, {"cases": trees}, blobs, self.left)
        try:
            said, data = self._timed(self._next, seconds, functions)
        except TooSlow as slow:
            self._ran[id(cases[0])], self.lost = Run(error=slow), "Your function is too slow."
            return
        self._ran_any = True
        for args, run in zip(cases, said["runs"], strict=True):
            self._ran[id(args)] = self._told(run, data)

    def _told(self, said, data):
        """A Run from what the box says of it."""
        if "error" in said:
            return Run(error=_error(said["error"], self.exercise))
        names, results = self.exercise.args, self.exercise.returns
        changed = tuple(names[at] for at in _list(said["changed"]) if 0 <= _whole(at) < len(names))
        pairs = [(_whole(i), _whole(j)) for i, j in _list(said["shared"])]
        shared = {results[i]: names[j] for i, j in pairs if 0 <= i < len(results) and 0 <= j < len(names)}
        return Run(decode(said["value"], data), None, changed, shared, said["overwrote"] is True)

    def _timed(self, action, *arguments):
        """Do it, as long as the exercise has time; Lost says why it was not done."""
        start = time.monotonic()
        try:
            return action(*arguments)
        except Late:
            raise Lost(f"Your code was still running after {self.box.limits.seconds:g} seconds.") from None
        except EOFError:
            raise Lost(how_it_ended(self.box.end())) from None
        except WireError:
            raise Lost(UNREADABLE) from None
        finally:
            self.left -= time.monotonic() - start

    def _next(self, seconds, functions):
        """The next frame that is no call of one of these functions; TooSlow after `seconds` of a processor."""
        end = time.monotonic() + self.left
        before = 0 if seconds is None else self.box.processor_seconds()  # what other calls have used
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise Late
            try:
                said, data = self.line.receive(left if seconds is None else min(left, seconds))
            except Late:
                if seconds is not None and self.box.processor_seconds() - before >= seconds:
                    raise TooSlow from None
                continue
            if not isinstance(said, dict):
                raise WireError("not an answer")
            if "function" not in said:
                return said, data
            start = time.monotonic()
            self.line.send(*_called(functions, said, data), left)
            spent = time.monotonic() - start  # which was not the answer's
            end, self.left, self._outside = end + spent, self.left + spent, self._outside - spent
            if self._outside <= 0:
                raise Late


def _called(functions, said, data):
    """(header, blobs): what one of these functions returned or raised on what came from the box."""
    try:
        function = functions[said["function"]]
        args, kwargs = decode(said["given"], data)
        with _bounded_memory():
            value = function(*args, **kwargs)
    except (WireError, KeyError, IndexError):
        raise WireError("not a call") from None
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:300]}, ()
    tree, blobs = encode(value)
    return {"value": tree}, blobs


@contextlib.contextmanager
def _bounded_memory(more=256 << 20):
    """Let this process take no more than so many bytes more: what it computes on, a learner has chosen."""
    try:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        now = None
    before = resource.getrlimit(resource.RLIMIT_AS)
    if now is not None:
        resource.setrlimit(resource.RLIMIT_AS, (now + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def how_it_ended(ended):
    """A sentence for a process that was gone before it had answered."""
    code = ended["ended"]
    if code == 77:
        return "Your code took more memory than there is for it."
    if code is None:
        return "Your code took the whole sandbox with it."
    if code == -signal.SIGXCPU:
        return "Your code used more of the processor than there is for it."
    if code == -signal.SIGKILL:  # by us: it was still there
        return "Your code stopped answering."
    if code < 0:
        return f"Your code crashed Python: {signal.strsignal(-code) or f'signal {-code}'}."
    return "Your code ended the process that ran it."


def plain(text, length=160):
    """A text from a box as a sentence can hold it: one line, printable, without addresses of memory."""
    text = "".join(c if c.isprintable() else " " for c in str(text)[: 4 * length])
    return re.sub(r"\b0x[0-9a-fA-F]+", "0x…", " ".join(text.split()))[:length]


def _list(value):
    return value[:100] if isinstance(value, list) else []


def _whole(value):
    return value if type(value) is int and value < 1_000_000 else -1


def _error(said, exercise):
    """The exception that stands for one that was raised in a box."""
    kind, message = plain(said["type"], 60) or "an error", plain(said["message"])
    if kind == "Closed":
        library = getattr(exercise, "library", ())
        name = closing.defined(library).get(message, message)
        return Borrowed(is_the_library(name) if name in library else f"`{message}` calls the answer. {WRITE_YOURS}")
    if kind == "NotImplementedError":
        return NotImplementedError()
    if kind == "TypeError" and "ellipsis" in message:
        return Described(f"A `...` is still in your code{_where(said)}.")
    what = "called exit()" if kind == "SystemExit" else f"raised {kind}" + (f": {message}" if message else "")
    return Described(f"Your code {what}{_where(said)}.")


def _where(said):
    text, line, where = plain(said["text"], 80), _whole(said["line"]), plain(said["where"], 40)
    if line <= 0:
        return ""
    place = f"line {line}" + (f" of {where}" if where.startswith("cell ") else "")
    return f" at {place}" + (f", `{text}`" if text else "")


def _failure(said):
    """A sentence on a statement that failed before the answer was called."""
    kind, message = plain(said["type"], 60), plain(said["message"])
    where = _where(said | {"line": said["line"] or said["first"], "where": said["label"]})
    missing = re.fullmatch(r"No module named '(\w[\w.]*)'", message)
    if kind == "ModuleNotFoundError" and missing:
        return (
            f"Your cells import {missing[1]}{where}, which is not here: an answer may use the standard library, NumPy "
            "and what the notebook itself defines."
        )
    return f"Running your cells, {kind} was raised{where}{f': {message}' if message else ''}."


def _signature(said):
    """The signature that a box reported; that of any function where it has none."""
    try:
        parameters = []
        for name, kind, has_default in said[:100]:
            default = None if has_default is True else inspect.Parameter.empty
            parameters.append(inspect.Parameter(plain(name, 40), _KINDS[kind], default=default))
        return inspect.Signature(parameters)
    except (TypeError, ValueError, IndexError):
        return inspect.signature(lambda *args, **kwargs: None)
