"""Runs a page's cells as the book did: what a cell needs of those above runs first. What it shows is sent to the page.

It runs in the worker's Pyodide, and in the tests under plain Python.
"""

import ast
import itertools
import json
import linecache
import logging
import sys
import types
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import exercises
from exercises.engine import record

from . import show
from .needs import Page

PREFIX = "<cell "
FOR_GOOD = (int, float, complex, str, bytes, type(None), np.generic, np.random.Generator, types.ModuleType)
MANY = 10_000  # a list as long as this holds numbers


@dataclass
class Run:
    """What is remembered of a cell that ran: its source, its number, the versions that it read and made."""

    source: str
    number: int
    given: dict
    made: dict


class Session:
    """The cells of one page and what their names hold.

    A version of a name is the list of runs that made it: of the cell that set it, and of those that changed it. A cell
    gets the versions that it had in the book, where the page ran from its top. If one is gone, its makers run again.

    Parameters
    ----------
    emit : function of a dict; called with everything that a run has to say, at once
    """

    def __init__(self, emit):
        self.shown = show.Output(emit)
        self._emit = emit
        main = types.ModuleType("__main__")
        self.names = vars(main)
        self.names |= {"display": self.shown.display, "input": no_input}
        self._own = dict(self.names)
        self.main = main
        self._numbers = itertools.count()
        self._runs = {}  # cell -> Run
        self._values = {}  # (name, version) -> the value, and a random generator's state
        self._spoiled = set()  # (name, version) whose value was changed since

    def stale(self, page, sources, cell):
        """The cells that have to run, in order, the asked one last."""
        order, stale = [*page.plan(cell), cell], {cell}
        while True:
            before, versions = len(stale), {}
            for one in order:
                run, given = self._runs.get(one), _given(page, one, versions)
                if run is None or run.source != sources[one] or run.given != given:
                    stale.add(one)
                if one in stale:
                    lost = (version for item in given.items() if self._is_lost(*item) for version in item[1])
                    stale |= {maker for maker, _ in lost}
                versions |= _made(page, one, versions, None if one in stale else run.number)
            if len(stale) == before:
                return [one for one in order if one in stale]

    def _is_lost(self, name, version):
        known = (name, version) in self._values and (name, version) not in self._spoiled
        return not known and all(number is not None for _, number in version)

    def run(self, sources, titles, cell, alt=""):
        """Run a cell, after those that it needs: True, or False where an error was sent."""
        page = Page(sources)
        stale, versions = self.stale(page, sources, cell), {}
        for one in [*page.plan(cell), cell]:
            if one in stale:
                self._emit({"kind": "step", "cell": one, "asked": one == cell})
                self._restore(page, one, versions)
                self._forget(page, one, versions)
                given, number = _given(page, one, versions), next(self._numbers)
                with self.shown.of(asked=one == cell, alt=alt):
                    error = self._execute(sources[one], titles[one])
                self._spoil(page, one, versions)
                if error:
                    self._emit(error | {"asked": one == cell})
                    return False
                self._keep(one, Run(sources[one], number, given, _made(page, one, versions, number)))
            versions |= _made(page, one, versions, self._runs[one].number)
        return True

    def hint(self, id):
        """Show the next hint for an exercise, whatever became of the page's names."""
        with self.shown.of(asked=True):
            self.shown.value(exercises.hint(id))
        return True

    def _restore(self, page, cell, versions):
        """Give each name that a cell may touch the version that the cell had in the book."""
        for name in page.reads[cell] | page.writes(cell):
            if (key := (name, versions.get(name))) in self._values:
                self.names[name], state = self._values[key]
                if state is not None:
                    self.names[name].bit_generator.state = state

    def _forget(self, page, cell, versions):
        """Take away what the cell must not find: from code that is no longer there, or from below."""
        if not any(page.anything[: cell + 1]):
            for name in (page.reads[cell] - versions.keys()) & self.names.keys():
                del self.names[name]
            self.names |= {name: self._own[name] for name in (page.reads[cell] - versions.keys()) & self._own.keys()}

    def _spoil(self, page, cell, versions):
        """Remember that these values are no longer what they were; older ones may be the same things, or hold them."""
        touched = {}
        for name in page.changes[cell] & versions.keys():
            value, state = self._values.get((name, versions[name]), (None, None))
            if state is None:
                self._spoiled.add((name, versions[name]))
                _parts(value, touched)
        if touched:
            self._spoiled |= {key for key, (value, _) in self._values.items() if _parts(value, {}).keys() & touched}

    def _keep(self, cell, run):
        for key in self._runs[cell].made.items() if cell in self._runs else ():
            self._values.pop(key, None)
            self._spoiled.discard(key)
        self._runs[cell] = run
        for name in run.made.keys() & self.names.keys():
            value = self.names[name]
            state = value.bit_generator.state if isinstance(value, np.random.Generator) else None
            self._values[name, run.made[name]] = value, state

    def _execute(self, source, title):
        """Run one cell and show the value of its last line; return what went wrong, to be sent, or None."""
        file = f"{PREFIX}{title}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        try:
            tree = ast.parse(source, file)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, file, "exec"), self.names)
            if last is not None:
                self.shown.value(eval(compile(ast.Expression(last.value), file, "eval"), self.names))
            self.shown.figures()
        except BaseException as error:  # exit() and the like are the cell's, not ours
            return show.error(error, PREFIX)
        return None


def _parts(value, found):
    """{id: thing} of what can be changed in a value: itself, and what it holds."""
    from_elsewhere = isinstance(value, type) and value.__module__ != "__main__"
    if id(value) in found or isinstance(value, FOR_GOOD) or from_elsewhere:
        return found
    while getattr(value, "base", None) is not None and isinstance(value, np.ndarray):
        value = value.base
    found[id(value)] = value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
    if len(inside) > MANY:
        return found
    for part in (*inside, *getattr(value, "__dict__", {}).values(), *(getattr(value, "__defaults__", None) or ())):
        _parts(part, found)
    return found


def no_input(prompt=""):
    """Stands in for `input`."""
    raise EOFError("a page has nowhere to type an answer: write it into the code, in the place of input()")


def _given(page, cell, versions):
    return {name: versions[name] for name in page.reads[cell] & versions.keys()}


def _made(page, cell, versions, number):
    """The versions after a cell; number None is a run yet to come."""
    made = {name: ((cell, number),) for name in page.sets[cell]}
    later = (page.changes[cell] | page.may_set[cell]) - page.sets[cell]
    return made | {name: (*versions.get(name, ()), (cell, number)) for name in later}


def packages(sources, cells):
    """What these cells need that the page loads later: "matplotlib", and the "names" of chapter 11."""
    found = set()
    for node in (node for cell in cells for node in _nodes(sources[cell])):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        draws = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "viz" and node.attr != "use_style"
        if draws or any(module.startswith(("matplotlib", "scratch.viz")) for module in modules):
            found.add("matplotlib")
        if getattr(node, "id", getattr(node, "attr", "")) == "surnames":
            found.add("names")
    return sorted(found)


def prepare_matplotlib():
    """Make ready what was just loaded: it would spend seconds on reading fonts, of which the plots need a few."""
    fonts = Path(find_spec("matplotlib").origin).parent / "mpl-data" / "fonts"
    for font in fonts.rglob("*.*"):
        if not font.name.startswith(("DejaVuSans", "STIX")):
            font.unlink()
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    if viz := sys.modules.get("scratch.viz"):
        viz.catch_up()


def _nodes(source):
    try:
        return list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return []


class Worker:
    """What worker.js calls: requests and answers are JSON."""

    def __init__(self, post):
        self._session = Session(lambda message: post(json.dumps(message)))
        sys.modules["__main__"] = self._session.main
        sys.ps1 = ">>> "  # somebody sits before it: `check` returns its card, to be shown
        show.stand_in_for_ipython(self._session.shown)

    def needs(self, request):
        """What a run has to have loaded: packages by name, and the source whose imports say the rest."""
        asked = json.loads(request)
        sources, cell = asked["sources"], asked["cell"]
        if asked["hint"]:
            return json.dumps({"packages": [], "source": ""})
        stale = self._session.stale(Page(sources), sources, cell)
        return json.dumps({"packages": packages(sources, stale), "source": sources[cell]})

    def run(self, request):
        """Run a cell, or show the next hint for the exercise `hint`, with the page's record of points.

        The answer holds the record afterwards.
        """
        asked = json.loads(request)
        record.write(record.parse(asked["record"]))
        if asked["hint"]:
            done = self._session.hint(asked["hint"])
        else:
            done = self._session.run(asked["sources"], asked["titles"], asked["cell"], asked["alt"])
        return json.dumps({"done": done, "record": record.read()})
