"""The scratch that a learner's code gets in a box: without the functions that are the answer, and what calls them.

In their place stand functions that refuse. Nothing of the answer is in the process at all, so there is nothing to find
by reading, reloading or searching memory.
"""

import ast
import functools
import importlib
import marshal
from pathlib import Path

import scratch
from exercises.engine.fingerprints import digest

ROOT = Path(scratch.__file__).parent


@functools.lru_cache(maxsize=128)
def modules(library):
    """({module: [start, length, is a package]}, bytes): scratch as marshalled code, without these dotted names."""
    closed = _with_callers(library)
    index, blob = {}, bytearray()
    for name, path in _sources().items():
        code = _compiled(name, frozenset(dotted for dotted in closed if dotted.rpartition(".")[0] == name))
        index[name] = [len(blob), len(code), path.name == "__init__.py"]
        blob += code
    return index, bytes(blob)


_ANYTHING = ast.parse("def refuse(*args, **kwargs): ...").body[0].args


@functools.cache
def _compiled(name, closed):
    tree = ast.parse(_sources()[name].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and f"{name}.{node.name}" in closed:
            node.args = _ANYTHING
            node.body = ast.parse(f"from inside.runner import Closed\nraise Closed('{name}.{node.name}')").body
    return marshal.dumps(compile(ast.fix_missing_locations(tree), f"scratch/{_sources()[name].name}", "exec"))


@functools.lru_cache(maxsize=128)
def fingerprints(library):
    """{fingerprint: dotted name} of the functions that are the answer: a copy of one is none."""
    return {digest(_function(dotted).__code__): dotted for dotted in library}


def defined(library):
    """{where it is defined: dotted name} of the functions that are the answer; the two may differ."""
    return {f"{f.__module__}.{f.__qualname__}": dotted for dotted in library for f in (_function(dotted),)}


def _function(dotted):
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@functools.cache
def _sources():
    """{dotted name: file} of every module of scratch."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["scratch", *path.relative_to(ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _with_callers(library):
    """The dotted names, and those of the functions that call one of them, and so on."""
    closed = set(defined(library))
    while True:
        plain = {dotted.rpartition(".")[2] for dotted in closed}
        more = {function for function, names in _calls().items() if names & plain} - closed
        if not more:
            return closed
        closed |= more


@functools.cache
def _calls():
    """{dotted name of a function of scratch: the plain names of what it calls}."""
    found = {}
    for module, path in _sources().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                called = [c.func for c in ast.walk(node) if isinstance(c, ast.Call)]
                names = {getattr(f, "id", getattr(f, "attr", "")) for f in called}
                found.setdefault(f"{module}.{node.name}", set()).update(names)
    return found
