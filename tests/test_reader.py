"""The grader's reader finds every answer in every form of a file, says what is wrong with others, and never raises."""

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import jupytext
import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import exercises
from exercises.grade.inside import reader
from exercises.spec import Choice

ROOT = Path(__file__).parents[1]
SETS = sorted(ROOT.glob("notebooks/problems/*.ipynb"))


def wanted(id, kind="code", answer="", args=(), parts=()):
    return {"id": id, "kind": kind, "answer": answer, "args": list(args), "parts": list(parts)}


DOUBLE = wanted("double-it", "code", "twice", ["x"])
ADD = wanted("add-up", "code", "add", ["a", "b"])
SIZE = wanted("how-large", "number", "size")
SMALL = wanted("how-small", "number", "size")
GUESS = wanted("first-guess", "choice", "predictions", [], ["up", "down", "same"])
AGAIN = wanted("next-guess", "choice", "predictions", [], ["left", "right", "same"])
LETTER = wanted("one-letter", "choice", "letter", [], ["why"])
ORDER = wanted("in-order", "order", "order")


def of(id):
    """What the grader asks the reader for, of a real exercise."""
    exercise = exercises.load(id)
    parts = [*(part.name for part in exercise.parts), "why"] if isinstance(exercise, Choice) else []
    name = next(re.search(rf'check\(\\"{id}\\", (\w+)\)', text) for text in TEXTS if f'check(\\"{id}\\"' in text)[1]
    return wanted(id, type(exercise).__name__.lower(), name, getattr(exercise, "args", ()), parts)


TEXTS = [path.read_text(encoding="utf-8") for path in SETS]
IDS = [id for text in TEXTS for id in re.findall(r'check\(\\"([\w-]+)\\", \w+\)', text)]
ALL = [of(id) for id in IDS]


def notebook(*sources):
    """The bytes of a notebook with these code cells; a cell that is a dict stays as it is."""
    cells = [s if isinstance(s, dict) else {"cell_type": "code", "metadata": {}, "source": s} for s in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def read(data, *exercises, name="homework.ipynb"):
    return reader.read(name, data, list(exercises), lambda code: code.co_name)


def one(exercise, *sources, others=()):
    """What is found of one exercise in a notebook with these cells."""
    return read(notebook(*sources), exercise, *others)["exercises"][exercise["id"]]


def run(result):
    """Run the program as a box does, those that fail once more; the answer."""
    names, failed = {"__name__": "__main__"}, result["program"]
    for _ in range(2):
        waiting, failed = failed, []
        for statement in waiting:
            label, first, source = statement
            try:
                exec(compile("\n" * (first - 1) + source, label, "exec"), names)
            except Exception:
                failed.append(statement)
    return eval(result["expression"], names)


# ---- every stub, in every form ----


def _filled():
    """All problem sets in one notebook; the `...` in its cell number n are "n". And {id: n}."""
    sources, where = [], {}
    for path in SETS:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                sources.append(("markdown", cell.source))
            elif not cell.source.startswith("# Makes the course"):
                dots = re.compile(r"(?<=[ =])\.\.\.")
                source = cell.source.replace("repaired = ...", "repaired = lambda *block: ...")
                sources.append(("code", dots.sub(f'"{len(sources)}"', source)))
    sources.append(("markdown", 'This is no code:\n\n```python\ncheck("rope", 5)\n```'))
    for id, exercise in zip(IDS, ALL):
        # the stub stands in the cell of the check or in the one before
        at = next(n for n, (_, source) in enumerate(sources) if f'check("{id}"' in source)
        where[id] = at if re.search(rf"^{exercise['answer']} =", sources[at][1], re.MULTILINE) else at - 1
    return sources, where


FILLED, WHERE = _filled()
STUBS = [re.sub(r'"\d+"', "...", source) for kind, source in FILLED if kind == "code" and re.search(r'"\d+"', source)]


def book(cells=FILLED):
    kinds = {"markdown": new_markdown_cell, "code": new_code_cell}
    kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    return new_notebook(cells=[kinds[kind](source) for kind, source in cells], metadata=kernel)


def saved(cells=FILLED):
    return nbformat.writes(book(cells)).encode()


def code(*sources):
    return [("code", source) for source in sources]


def without_checks():
    return [(kind, re.sub(r"^check\(.*\)$", "", source, flags=re.MULTILINE)) for kind, source in FILLED]


def with_outputs():
    notebook = book()
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.execution_count = number
            cell.outputs = [new_output("stream", name="stderr", text="UserWarning: check(\n" * 3)]
            cell.metadata = {"colab": {"base_uri": "x"}, "executionInfo": {"status": "ok"}, "scrolled": True}
    notebook.metadata["widgets"] = {"state": {"deep": [{"model": None}] * 5}}
    return nbformat.writes(notebook).encode()


def bare_cells():
    return json.dumps({"cells": [{"cell_type": k, "source": s} for k, s in FILLED]}).encode()


def version_3():
    cells = [{"cell_type": k, "input" if k == "code" else "source": s.splitlines(True)} for k, s in FILLED]
    return json.dumps({"worksheets": [{"cells": cells[:50]}, {"cells": cells[50:]}], "nbformat": 3}).encode()


def spaced(between):
    return [pair for cell in FILLED for pair in (cell, ("code", between))]


CHECKS_FIRST = sorted(FILLED, key=lambda cell: not cell[1].startswith("check("))
FORMS = {
    "as it is": ("07.ipynb", saved),
    "wrong ending": ("homework.txt", saved),
    "no ending": ("Copy of Untitled (3)", saved),
    "two endings": ("Übung 1.ipynb.txt", saved),
    "called a script": ("homework.py", saved),
    "called Markdown": ("homework.md", saved),
    "no metadata": ("a.ipynb", bare_cells),
    "version 3": ("a.ipynb", version_3),
    "outputs, Colab's metadata": ("a.ipynb", with_outputs),
    "CRLF and a mark": ("a.ipynb", lambda: b"\xef\xbb\xbf" + saved().replace(b"\n", b"\r\n")),
    "CRLF in the cells": ("a.ipynb", lambda: saved().replace(b"\\n", b"\\r\\n")),
    "UTF-16": ("a.ipynb", lambda: saved().decode().encode("utf-16")),
    "invalid UTF-8 in a comment": ("a.ipynb", lambda: saved(code("# gr\x00n") + FILLED).replace(b"\\u0000", b"\xfc")),
    "NUL in a comment": ("a.ipynb", lambda: saved(code("# \0") + FILLED)),
    "each cell twice": ("a.ipynb", lambda: saved([cell for cell in FILLED for _ in range(2)])),
    "stubs again before": ("a.ipynb", lambda: saved(code(*STUBS) + FILLED)),
    "stubs again after": ("a.ipynb", lambda: saved(FILLED + code(*STUBS))),
    "reversed": ("a.ipynb", lambda: saved(FILLED[::-1])),
    "checks first": ("a.ipynb", lambda: saved(CHECKS_FIRST)),
    "checks deleted": ("a.ipynb", lambda: saved(without_checks())),
    "broken cells between": ("a.ipynb", lambda: saved(spaced("x = (1,\nprint 'a'"))),
    "magics between": ("a.ipynb", lambda: saved(spaced("%matplotlib inline\n!pip install numpy\n?print"))),
    "shell cells between": ("a.ipynb", lambda: saved(spaced("%%bash\ncheck('rope', 1)"))),
    "one cell": ("a.ipynb", lambda: saved(code("\n\n".join(s for kind, s in FILLED if kind == "code")))),
    "a plain script": ("a.py", lambda: "\n\n".join(s for kind, s in FILLED if kind == "code").encode()),
    "a script with an error": ("a.py", lambda: ("a = (\n\n" + "\n\n".join(s for _, s in code_cells())).encode()),
    "a script called text": ("a.txt", lambda: "\n\n".join(s for kind, s in FILLED if kind == "code").encode()),
    "a script called a notebook": ("a.ipynb", lambda: "\n\n".join(s for _, s in code_cells()).encode()),
    "fences": ("a.md", lambda: "\n".join(f"Text.\n```py\n{s}\n```" for _, s in code_cells()).encode()),
    "fences in a list": ("a.md", lambda: "\n".join(f"- a\n  ~~~Python\n{indented(s)}\n  ~~~" for _, s in code_cells())),
}
NOTED = {"invalid UTF-8 in a comment", "broken cells between", "a script with an error", "a script called a notebook"}
FORMATS = ["md:myst", "md:markdown", "Rmd:rmarkdown", "py:light", "py:percent", "py:hydrogen", "py:sphinx"]


def code_cells():
    return [cell for cell in FILLED if cell[0] == "code"]


def indented(source):
    return "\n".join(f"  {line}" for line in source.split("\n"))


def strings(value):
    """All texts in a value."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return {text for item in value for text in strings(item)} if isinstance(value, tuple) else {value}


def answers(found):
    """What each answer is, or returns, if it is a function: of a filled stub the number of its cell."""
    given = {}
    for exercise in ALL:
        result = found["exercises"][exercise["id"]]
        if result["status"] == "literal":
            value = result["value"]
        else:
            value = run(result) if result["status"] == "run" else result["status"]
        given[exercise["id"]] = strings(value(*exercise["args"]) if callable(value) else value)
    return given


EXPECTED = {id: {str(at)} for id, at in WHERE.items()}


def test_the_whole_course_is_there():
    assert IDS and sorted(IDS) == exercises.ids()
    assert len(set(WHERE.values())) == len(IDS)


@pytest.mark.parametrize("form", FORMS)
def test_every_answer_is_found_in_every_form(form):
    name, make = FORMS[form]
    data = make()
    found = read(data.encode() if isinstance(data, str) else data, *ALL, name=name)
    assert answers(found) == EXPECTED
    assert not found["error"] and (found["notes"] == []) == (form not in NOTED)


@pytest.mark.parametrize("form", FORMATS)
def test_every_answer_is_found_in_what_jupytext_writes(form):
    text = jupytext.writes(book(), form)
    found = read(text.encode(), *ALL, name=f"a.{form.partition(':')[0]}")
    assert answers(found) == EXPECTED
    assert found["notes"] == []


def test_an_empty_problem_set_has_only_stubs():
    for text in TEXTS:
        its = [exercise for exercise in ALL if f'check(\\"{exercise["id"]}\\"' in text]
        for exercise, result in zip(its, read(text.encode(), *its)["exercises"].values()):
            assert result["found"] == "id"
            if result["status"] == "literal":
                assert strings(result["value"]) == {...}
            else:
                assert (result["status"], exercise["kind"]) == ("stub", "code")
                assert strings(run(result)(*exercise["args"])) == {...}


@pytest.mark.parametrize("path", sorted(ROOT.glob("chapters/*.md")), ids=lambda path: path.stem)
def test_a_chapter_has_the_cells_that_jupytext_finds(path):
    text = path.read_text(encoding="utf-8")
    theirs = [cell.source for cell in jupytext.reads(text, "md:myst").cells if cell.cell_type == "code"]
    assert [cell.source.strip() for cell in reader._markdown(text)] == [
        source.strip() for source in theirs
    ] or not theirs


# ---- the program: one function, called with 3, that gives 6 ----

CHECK = 'check("double-it", twice)'
GOOD = "def twice(x):\n    return 2 * x"
BAD = "def twice(x):\n    return 'wrong'"
TODO = "def twice(x):\n    y = ...\n    return y"
RIGHT = {
    "plain": [GOOD, CHECK],
    "in one cell": [f"{GOOD}\n\n{CHECK}"],
    "keywords": [GOOD, 'check(answer=twice, id="double-it")'],
    "by module": [GOOD, 'import exercises\nexercises.check("double-it", twice)'],
    "under another name": [GOOD, 'from exercises import check as judge\njudge("double-it", twice)'],
    "in print": [GOOD, 'print(check("double-it", twice))'],
    "in assert": [GOOD, 'assert check("double-it", twice), "no"'],
    "assigned": [GOOD, 'verdict = check("double-it", twice)'],
    "in an if": [GOOD, f'if __name__ == "__main__":\n    {CHECK}'],
    "underscores and capitals": [GOOD, 'check(" Double_It ", twice)'],
    "check first": [CHECK, GOOD],
    "another name": ["def mine(x):\n    return 2 * x", 'check("double-it", mine)'],
    "another name beside the stub": [TODO, "def mine(x):\n    return 2 * x", 'check("double-it", mine)'],
    "twice, the last is right": [BAD, CHECK, GOOD, CHECK],
    "the latest wins": [BAD, CHECK, GOOD],
    "stub before": [TODO, GOOD, CHECK],
    "stub after": [GOOD, CHECK, TODO, CHECK],
    "stub with pass": [GOOD, CHECK, "def twice(x):\n    '''Twice x.'''\n    pass"],
    "stub with dots": [GOOD, CHECK, "def twice(x): ..."],
    "stub that raises": [GOOD, CHECK, "def twice(x):\n    raise NotImplementedError('later')"],
    "stub that returns dots": [GOOD, CHECK, "def twice(x):\n    return ..."],
    "half a stub": [GOOD, CHECK, "def twice(x):\n    z = x + 1\n    y = ...\n    return y"],
    "half a stub that raises": [GOOD, CHECK, "def twice(x):\n    z = x + 1\n    raise NotImplementedError"],
    "the last is no stub": [BAD, "def twice(x):\n    y = ...\n    y = 2 * x\n    return y", CHECK],
    "check of a stub, and no check": ["def mine(x):\n    ...", 'check("double-it", mine)', GOOD],
    "the last check has no answer": [GOOD, CHECK, 'check("double-it", ...)', 'check("double-it")'],
    "the last check has an unknown name": [GOOD, CHECK, 'check("double-it", solution)'],
    "the dots are filled in below": ["def twice(x):\n    y = ...\n    y = 2 * x\n    return y", CHECK],
    "lambda": ["twice = lambda x: 2 * x", CHECK],
    "lambda in the check": ['check("double-it", lambda x: 2 * x)'],
    "lambda over two lines": ['check("double-it",\n      lambda x:\n      2 * x)'],
    "walrus": ['check("double-it", twice := lambda x: 2 * x)'],
    "walrus before": ["print(twice := lambda x: 2 * x)", CHECK],
    "walrus in a comprehension": ["[two := n for n in range(3)]", "twice = lambda x: two * x", CHECK],
    "partial": ["import functools, operator", 'check("double-it", functools.partial(operator.mul, 2))'],
    "partial by name": ["from functools import partial\nfrom operator import mul\ntwice = partial(mul, 2)", CHECK],
    "object": ["class T:\n    by = 2\n    def __call__(self, x):\n        return self.by * x", "twice = T()", CHECK],
    "method": ["class T:\n    def go(self, x):\n        return 2 * x", 'check("double-it", T().go)'],
    "alias": ["def mine(x):\n    return 2 * x", "twice = mine", CHECK],
    "decorated": ["import functools", f"@functools.cache\n{GOOD}", CHECK],
    "wrapped afterwards": ["import functools", GOOD, "twice = functools.cache(twice)", CHECK],
    "own decorator": ["def d(f):\n    return lambda x: 2 * f(x)", "@d\ndef twice(x):\n    return x", CHECK],
    "default argument": ["two = 2\ndef twice(x, by=two):\n    return by * x", CHECK],
    "global": ["two = 2", "def twice(x):\n    return two * x", CHECK],
    "helper after": ["def twice(x):\n    return helper(x) + x", CHECK, "def helper(x):\n    return x"],
    "helper redefined after the check": [
        "def h(x):\n    return 2 * x",
        "def twice(x):\n    return h(x)",
        CHECK,
        "h = 5",
    ],
    "helper of a helper": [
        "def a(x):\n    return x",
        "def b(x):\n    return a(x) + a(x)",
        "twice = lambda x: b(x)",
        CHECK,
    ],
    "helper's stub again": [
        "def h(x):\n    return x",
        "def h(x):\n    ...",
        "def twice(x):\n    return 2 * h(x)",
        CHECK,
    ],
    "if": [
        "import sys\nif sys.version_info > (3,):\n    def twice(x):\n        return 2 * x\nelse:\n    twice = None",
        CHECK,
    ],
    "try": ["try:\n    import numby\nexcept ImportError:\n    def twice(x):\n        return 2 * x", CHECK],
    "with": [
        "import contextlib\nwith contextlib.suppress(Exception):\n    two = 2",
        "twice = lambda x: two * x",
        CHECK,
    ],
    "for": ["two = 0\nfor _ in range(2):\n    two += 1", "twice = lambda x: two * x", CHECK],
    "for that adds": [
        "total = 0",
        "for n in range(3):\n    total += n\n    two = n",
        "twice = lambda x: two * x",
        CHECK,
    ],
    "class that reads what it binds": ["two = 2", "class T:\n    two = two", "twice = lambda x: T.two * x", CHECK],
    "tuple": ["one, two = 1, 2", "twice = lambda x: two * x", CHECK],
    "star import": ["from operator import *", "twice = lambda x: mul(2, x)", CHECK],
    "answer from a star import": ["from math import *", 'check("double-it", factorial)'],
    "item set": ["t = [0]", "t[0] = 2", "twice = lambda x: t[0] * x", CHECK],
    "item deleted": ["t = [0, 2]", "del t[0]", "twice = lambda x: t[0] * x", CHECK],
    "attribute set": ["class T:\n    by = 0", "T.by = 2", "twice = lambda x: T.by * x", CHECK],
    "added to": ["two = 1", "two += 1", "twice = lambda x: two * x", CHECK],
    "method called": ["t = []", "t.append(2)", "twice = lambda x: t[0] * x", CHECK],
    "given to a function": ["t = []\ndef fill(a):\n    a.append(2)", "fill(t)", "twice = lambda x: t[0] * x", CHECK],
    "given to NumPy": [
        "import numpy as np\nt = np.ones(2)",
        "np.add(t, t, out=t)",
        "twice = lambda x: t[0] * x",
        CHECK,
    ],
    "copied into": ["import numpy as np\nt = np.ones(2)", "np.copyto(t, 2)", "twice = lambda x: t[0] * x", CHECK],
    "global by a function": [
        "two = 1\ndef go():\n    global two\n    two = 2",
        "go()",
        "twice = lambda x: two * x",
        CHECK,
    ],
    "annotated": ["two: int = 2", "def twice(x: int) -> int:\n    return two * x", CHECK],
    "comprehension": ["t = [n for n in range(3)]", "twice = lambda x: t[2] * x", CHECK],
    "two statements in a line": ["two = 2; three = 3; twice = lambda x: two * x; " + CHECK],
    "umlauts in a line": ["s = 'äöü'; two = len('üü'); twice = lambda x: two * x; " + CHECK],
    "text with unindented lines": ['s = """\ndef twice(x):\n    return 0\n"""', GOOD, CHECK],
    "loop variable of the name later": [GOOD, CHECK, "for twice in range(3):\n    pass"],
    "number of the name later": [GOOD, CHECK, "twice = 7"],
    "number of the name later, no check": [GOOD, "twice = 7"],
    "value of the name later": [GOOD, CHECK, "twice = max(1, 7)"],
    "broken before": ["def twice(x)\n    return 0", GOOD, CHECK],
    "broken after": [GOOD, CHECK, "def twice(x)\n    return 0", CHECK],
    "broken in the cell": [f"a = (1,\n\n{GOOD}\n\nprint 'a'\n\n{CHECK}"],
    "broken, and lines that are not indented": [
        f'print \'a\'\nt = [\n2,\n]\ns = """\nif\n"""\ntwice = lambda x: t[0] * x * len(s) // 4\n{CHECK}'
    ],
    "broken, and decorated": [
        f"def d(f):\n    return lambda x: 2 * f(x)\n\nprint 'a'\n\n@d\ndef twice(x):\n    return x\n\n{CHECK}"
    ],
    "broken text in the cell": [f"{GOOD}\n\ns = 'no end\n\n{CHECK}"],
    "broken check": [GOOD, 'check("double-it", twice'],
    "return outside": [f"return 5\n{GOOD}\n{CHECK}"],
    "future": ["from __future__ import annotations", GOOD, CHECK],
    "%%time": [f"%%time\n{GOOD}", CHECK],
    "%%capture after a comment": [f"# quiet\n\n%%capture out\n%%time\n{GOOD}", CHECK],
    "%%python3": [f"%%python3\n{GOOD}", CHECK],
    "lines with magics": [f"%matplotlib inline\n!ls\n?print\nprint?\n%load_ext x\n{GOOD}\n{CHECK}"],
    "magic inside": [
        "two = 1\nif two:\n    %time two = 2\n    !ls\n    %run x\nelse:\n    !ls",
        "twice = lambda x: two * x",
        CHECK,
    ],
    "assigned from a magic": [f"files = !ls\nhere = %pwd\n{GOOD}\n{CHECK}"],
    "%time": ["%time two = 2", "twice = lambda x: two * x", CHECK],
    "a magic of two lines": [f"!pip install \\\n   numpy\n{GOOD}\n{CHECK}"],
    "prompts": [">>> def twice(x):\n...     return 2 * x", CHECK],
    "an indented cell": ["    def twice(x):\n        return 2 * x", CHECK],
    "no check": [GOOD],
    "check in a function": [GOOD, 'def test():\n    check("double-it", other)'],
    "check for another": [GOOD, 'check("no-such", twice)', "def other(x):\n    return 0"],
    "metadata": [{"cell_type": "code", "metadata": {"exercise": "double-it"}, "source": "def f(x):\n    return 2 * x"}],
    "tag": [
        {"cell_type": "code", "metadata": {"tags": [1, "exercise:double-it"]}, "source": GOOD},
        "twice = max(1, 7)",
    ],
    "by its parameter": ["def doubled(x):\n    return 2 * x", "def other(a, b):\n    return 0"],
}
WAYS = {"no check": "name", "check for another": "name", "check in a function": "name", "broken check": "name"}
WAYS |= {"check of a stub, and no check": "name", "number of the name later, no check": "name"}
WAYS |= {"metadata": "metadata", "tag": "metadata", "by its parameter": "position"}


@pytest.mark.parametrize("title", RIGHT)
def test_the_program_makes_the_answer(title):
    result = one(DOUBLE, *RIGHT[title])
    assert (result["status"], result["found"]) == ("run", WAYS.get(title, "id"))
    assert run(result)(3) == 6


@pytest.mark.parametrize("title", RIGHT)
def test_the_same_as_a_script(title):
    """Without cells, but for magics that are a whole cell's, and metadata."""
    if not all(isinstance(cell, str) for cell in RIGHT[title]) or "%%" in RIGHT[title][0] or title == "prompts":
        return
    if title == "an indented cell":
        return
    text = "\n\n\n".join(RIGHT[title])
    result = read(text.encode(), DOUBLE, name="a.py")["exercises"]["double-it"]
    assert run(result)(3) == 6
    for label, first, source in result["program"]:
        assert label == "file"
        assert source.split("\n")[0] in text.split("\n")[first - 1]


# what must not run, because the answer does not need it
IDLE = {
    "prints": "print('a')",
    "asserts": "assert twice(1) == 2",
    "plots": "plt.plot(twice(3))",
    "checks": 'check("double-it", twice)',
    "loops": "for n in range(10 ** 9):\n    total = twice(n)",
    "its own tests": "test(twice)\ndef test(f):\n    f(1)",
    "another's definition": "def other(x):\n    return twice(x)",
    "a parameter's name": "x = 1 / 0",
    "a variable's name in it": "y = 1 / 0",
    "a module's settings": "np.seterr(all='raise')",
    "a patched module": "np.allclose = lambda *a: True",
    "a module's list": "np.things[0] = 5",
}


@pytest.mark.parametrize("title", IDLE)
def test_what_the_answer_does_not_need_is_left_out(title):
    good = "import numpy as np\nimport matplotlib.pyplot as plt\ndef twice(x):\n    y = np.add(x, x)\n    return y"
    for cells in ([good, IDLE[title], CHECK], [IDLE[title], good, CHECK]):
        program = one(DOUBLE, *cells)["program"]
        assert [source.split(" ")[0] for _, _, source in program] == ["import", "def"]


def test_an_attempt_that_was_replaced_is_not_run():
    result = one(DOUBLE, BAD, GOOD, BAD.replace("wrong", "worse"), GOOD, CHECK)
    assert [(label, first) for label, first, _ in result["program"]] == [("cell 4", 1)]


def test_lines_are_those_of_the_cell():
    cell = f"# a comment\n\n%time a = 1\n{GOOD}\nimport os"
    result = one(DOUBLE, "", cell, CHECK)
    assert result["program"] == [["cell 2", 4, GOOD]]
    assert result["where"] == "cell 3"
    assert one(DOUBLE, f"\n\n!ls\n{GOOD}")["program"] == [["cell 1", 4, GOOD]]


def test_a_script_has_cells():
    text = "# %% one\nsize = 4\n# %%\ncheck('how-large', size)\nsize = 5\n# %% exercise=\"double-it\"\n"
    text += "def f(x):\n    return 0\n"
    found = read(text.encode(), DOUBLE, SIZE, name="a.py")["exercises"]
    assert found["how-large"]["value"] == 5
    assert (found["double-it"]["found"], found["double-it"]["where"]) == ("metadata", "line 7")


def test_lines_of_text_are_those_of_the_file():
    text = f"Title\n\n```{{code-cell}} python\n:tags: [a]\n\nimport os\n\n{GOOD}\n```\n\n```{{code-cell}}\n{CHECK}\n"
    result = read(text.encode(), DOUBLE, name="a.md")["exercises"]["double-it"]
    assert result["program"] == [["file", 8, GOOD]]
    assert result["where"] == "line 13"


# ---- values ----

DICT = 'predictions = {"up": "a", "down": "b", "same": "c"}'
OTHER = 'predictions = {"left": "a", "right": "b", "same": "c"}'
OPEN = 'predictions = {"up": ..., "down": ..., "same": ...}'
ASK, ASK_AGAIN = 'check("first-guess", predictions)', 'check("next-guess", predictions)'
ITS = {"up": "a", "down": "b", "same": "c"}
VALUES = {  # title: (exercise, cells, others, status, value)
    "number": (SIZE, ['size = 5\ncheck("how-large", size)'], [], "literal", 5),
    "number in the check": (SIZE, ['check("how-large", 5.5)'], [], "literal", 5.5),
    "negative": (SIZE, ['size = -5  # less\ncheck("how-large", size)'], [], "literal", -5),
    "underscores": (SIZE, ['size = 1_000\ncheck("how-large", size)'], [], "literal", 1000),
    "arithmetic": (SIZE, ['size = 2 * 3 * 4096\ncheck("how-large", size)'], [], "run", 24576),
    "arithmetic in the check": (SIZE, ['check("how-large",\n  2 *\n  3)'], [], "run", 6),
    "with names": (SIZE, ["a = 2", "b = 3", 'size = a * b\ncheck("how-large", size)'], [], "run", 6),
    "in steps": (SIZE, ['size = 2\nsize *= 3\ncheck("how-large", size)'], [], "run", 6),
    "two names": (SIZE, ['size = n = 5\ncheck("how-large", size)'], [], "literal", 5),
    "annotated": (SIZE, ['size: int = 5\ncheck("how-large", size)'], [], "literal", 5),
    "unpacked": (SIZE, ['size, b = 5, 6\ncheck("how-large", size)'], [], "run", 5),
    "dots": (SIZE, ['size = ...\ncheck("how-large", size)'], [], "literal", ...),
    "dots in the check": (SIZE, ['check("how-large", ...)'], [], "literal", ...),
    "dots again": (
        SIZE,
        ['size = 5\ncheck("how-large", size)', 'size = ...\ncheck("how-large", size)'],
        [],
        "literal",
        5,
    ),
    "dots left in its cell": (SIZE, ["size = 5", 'size = ...\ncheck("how-large", size)'], [], "literal", 5),
    "its cell's": (SIZE, ["size = 4", 'size = 5\ncheck("how-large", size)', "size = 6"], [], "literal", 5),
    "its cell's, after the check": (SIZE, ["size = 4", 'check("how-large", size)\nsize = 5'], [], "literal", 5),
    "the nearest before": (SIZE, ["size = 4", "size = 5", 'check("how-large", size)', "size = 6"], [], "literal", 5),
    "the nearest after": (SIZE, ['check("how-large", size)', "size = 5", "size = 6"], [], "literal", 5),
    "no check, the latest": (SIZE, ["size = 4", "size = 5", "for size in range(3):\n    pass"], [], "literal", 5),
    "a shared name": (
        SIZE,
        ['size = 5\ncheck("how-large", size)', 'size = 6\ncheck("how-small", size)'],
        [SMALL],
        "literal",
        5,
    ),
    "a shared name, second": (
        SMALL,
        ['size = 5\ncheck("how-large", size)\nsize = 6\ncheck("how-small", size)'],
        [SIZE],
        "literal",
        6,
    ),
    "a shared name, open": (
        SMALL,
        ['size = 5\ncheck("how-large", size)', 'size = ...\ncheck("how-small", size)'],
        [SIZE],
        "literal",
        ...,
    ),
    "a shared name, not wanted": (
        SIZE,
        ['size = ...\ncheck("how-large", size)', 'size = 6\ncheck("how-small", size)'],
        [],
        "literal",
        ...,
    ),
    "a shared name, in other cells": (
        SMALL,
        ["size = 5", 'check("how-large", size)', "size = ...", 'check("how-small", size)'],
        [SIZE],
        "literal",
        ...,
    ),
    "a shared name, one value": (
        SMALL,
        ['size = 5\ncheck("how-large", size)\ncheck("how-small", size)'],
        [SIZE],
        "literal",
        5,
    ),
    "choice": (GUESS, [f"{DICT}\n{ASK}"], [], "literal", ITS),
    "choice, shared": (GUESS, [f"{DICT}\n{ASK}", f"{OTHER}\n{ASK_AGAIN}"], [AGAIN], "literal", ITS),
    "choice, checks first": (GUESS, [ASK_AGAIN, ASK, DICT, OTHER], [AGAIN], "literal", ITS),
    "choice, checks last": (GUESS, [DICT, OTHER, ASK, ASK_AGAIN], [AGAIN], "literal", ITS),
    "choice, no checks": (GUESS, [DICT, OTHER], [AGAIN], "literal", ITS),
    "choice, open": (GUESS, [f"{OPEN}\n{ASK}", f"{OTHER}\n{ASK_AGAIN}"], [AGAIN], "literal", dict.fromkeys(ITS, ...)),
    "choice, stub again": (GUESS, [f"{DICT}\n{ASK}", f"{OPEN}\n{ASK}"], [AGAIN], "literal", ITS),
    "choice, filled in below": (
        GUESS,
        [f'{OPEN}\npredictions["up"] = "a"', 'predictions["down"] = "b"\npredictions |= {"same": "c"}', ASK],
        [],
        "run",
        ITS,
    ),
    "choice, filled in after the check": (GUESS, [f"{OPEN}\n{ASK}", f"predictions.update({ITS})"], [], "run", ITS),
    "choice, filled in, then the next": (
        GUESS,
        [f"{OPEN}\n{ASK}", f"predictions.update({ITS})", f"{OTHER}\n{ASK_AGAIN}", 'predictions["left"] = 0'],
        [AGAIN],
        "run",
        ITS,
    ),
    "choice, called otherwise": (
        GUESS,
        [DICT.replace("predictions", "p"), 'check("first-guess", p)'],
        [],
        "literal",
        ITS,
    ),
    "choice, in the check": (GUESS, [f'check("first-guess", {ITS})'], [], "literal", ITS),
    "choice, metadata": (
        AGAIN,
        [{"cell_type": "code", "metadata": {"exercise": "next-guess"}, "source": "predictions = 5"}, DICT],
        [GUESS],
        "literal",
        5,
    ),
    "letter": (LETTER, ['letter = "b"\ncheck("one-letter", letter)'], [], "literal", "b"),
    "order": (ORDER, ['order = ["a", "b"]\ncheck("in-order", order)'], [], "literal", ["a", "b"]),
    "order, added": (ORDER, ['order = ["a"]\norder.append("b")\ncheck("in-order", order)'], [], "run", ["a", "b"]),
    "position": (SMALL, ['size = 5\ncheck("how-large", size)', "size = 6"], [SIZE], "literal", 6),
    "a function for a number": (SIZE, ["def f():\n    return 6", 'check("how-large", f())'], [], "run", 6),
    "many digits": (SIZE, [f'size = 0x1{"0" * 5000}\ncheck("how-large", size)'], [], "run", 16**5000),
    "a long text": (SIZE, [f'size = "{"a" * 30_000}"\ncheck("how-large", size)'], [], "run", "a" * 30_000),
}


@pytest.mark.parametrize("title", VALUES)
def test_values(title):
    exercise, cells, others, status, value = VALUES[title]
    # in the order of the set, in which the one that is asked for comes last
    result = read(notebook(*cells), *others, exercise)["exercises"][exercise["id"]]
    assert result["status"] == status
    assert (result["value"] if status == "literal" else run(result)) == value
    assert title != "position" or result["found"] == "position"


# ---- what is not found, or only guessed ----


def test_the_position_is_between_neighbours():
    first = "def twice(x):\n    return 2 * x\ncheck('double-it', twice)"
    last = "size = 5\ncheck('how-large', size)"
    other = "def f(a, b):\n    return 0"
    mine = "def f(a, b):\n    return a + b"
    result = read(notebook(first, mine, last, other), DOUBLE, ADD, SIZE)["exercises"]["add-up"]
    assert (result["found"], result["where"], run(result)(1, 2)) == ("position", "cell 2", 3)
    assert read(notebook(first, last, mine), DOUBLE, ADD, SIZE)["exercises"]["add-up"]["status"] == "missing"
    renamed = read(
        notebook(first, "def f(c, d):\n    return c + d", "def g(c):\n    return 0", last), DOUBLE, ADD, SIZE
    )
    assert run(renamed["exercises"]["add-up"])(1, 2) == 3
    exact = read(notebook(mine, "def g(c, d):\n    return 0", last), ADD, SIZE)["exercises"]["add-up"]
    assert run(exact)(1, 2) == 3


def test_a_helper_of_another_answer_is_no_guess():
    cells = ["def h(x):\n    return x", "def add(a, b):\n    return h(a) + h(b)\ncheck('add-up', add)"]
    assert read(notebook(*cells), DOUBLE, ADD)["exercises"]["double-it"]["status"] == "missing"


MISSING = {
    "nothing": (["import os"], 'There is no `check("double-it", …)` here, and no `twice`.'),
    "no definition": ([CHECK], 'In `check("double-it", twice)`, nothing defines `twice`.'),
    "only a comment": ([f"# {CHECK}\n# {GOOD}"], 'There is no `check("double-it", …)` here, and no `twice`.'),
    "a Markdown cell": (
        [{"cell_type": "markdown", "metadata": {}, "source": GOOD}],
        'There is no `check("double-it", …)` here, and no `twice`.',
    ),
}


@pytest.mark.parametrize("title", MISSING)
def test_missing(title):
    cells, line = MISSING[title]
    result = one(DOUBLE, *cells)
    assert (result["status"], result["line"], result["program"]) == ("missing", line, [])


SYNTAX = {
    "colon": (["", "import os\ndef twice(x)\n    return 2 * x", CHECK], "line 2 of cell 2: expected ':'."),
    "bracket": ([f"def twice(x):\n    y = (x + 1\n    return y\n\n{CHECK}"], "line 2 of cell 1: '(' was never closed."),
    "indent": (["def twice(x):\n    y = 1\nz = 2\n    return y", CHECK], "line 4 of cell 1: unexpected indent."),
    "compiled": (["def twice(x, x):\n    return 2 * x", CHECK], "line 1 of cell 1: duplicate argument 'x' in function"),
    "beside the stub": ([TODO, "def twice(x):\n    return 2x", CHECK], "line 2 of cell 2: invalid decimal literal."),
    "without a check": (["def twice(x)\n    return 2 * x"], "line 1 of cell 1: expected ':'."),
    "value": (['twice = "a\ncheck("double-it", twice)'], "line 1 of cell 1: unterminated string literal."),
    "in a script": (None, "line 5: expected ':'."),
}


@pytest.mark.parametrize("title", SYNTAX)
def test_an_answer_with_a_syntax_error(title):
    cells, where = SYNTAX[title]
    data = notebook(*cells) if cells else b"import os\n\n# %%\n# text\ndef twice(x)\n    return x\n"
    found = read(data, DOUBLE, name="a.ipynb" if cells else "a.py")
    result = found["exercises"]["double-it"]
    assert result["status"] == "syntax" and result["expression"] == ""
    assert result["line"].startswith("`twice` has a syntax error, in ") and where in result["line"]
    place = where.partition(":")[0]
    assert found["notes"] == [f"There is a syntax error in {place}; that part was left out."]


def test_a_broken_cell_loses_only_what_is_broken():
    cell = f"import os\n\nsize = 5\n\ndef broken(:\n    pass\n\n{GOOD}\n\n@broken\ndef add(a, b)\n    return a + b\n"
    found = read(notebook(cell), DOUBLE, ADD, SIZE)
    assert found["notes"] == ["There is a syntax error in line 5 of cell 1; that part was left out."]
    assert [result["status"] for result in found["exercises"].values()] == ["run", "syntax", "literal"]


def test_a_broken_value_is_not_taken_from_another_exercise():
    cells = [f"{DICT}\n{ASK}", f'predictions = {{"left": "a, "right": ...}}\n{ASK_AGAIN}']
    result = read(notebook(*cells), GUESS, AGAIN)["exercises"]["next-guess"]
    assert result["status"] == "syntax"


@pytest.mark.parametrize(
    "source", [TODO, "def twice(x):\n    pass", "def twice(x): return ...", "twice = lambda x: ..."]
)
def test_a_stub(source):
    result = one(DOUBLE, source, CHECK)
    assert result["status"] == "stub" and run(result)(3) in (..., None)


@pytest.mark.parametrize(
    "source",
    [
        "def twice(x):\n    return x",
        "def twice(x):\n    for _ in x:\n        pass\n    return x",
        "def twice(x):\n    return x[..., 0]",
        "def twice(x):\n    if x < 0:\n        raise NotImplementedError\n    return x",
        "def twice(x):\n    mask = np.zeros(3)\n    mask[...] = 1\n    return mask",
    ],
)
def test_no_stub(source):
    assert one(DOUBLE, source, CHECK, TODO)["program"][-1][2] == source


# ---- learner, notes, lists ----


def test_the_learner():
    def who(*cells):
        return read(notebook(*cells))["learner"]

    assert who('learner("")', 'learner(" learner-017 ", solutions=False)', 'learner("")') == "learner-017"
    assert who('import exercises\nexercises.learner(name="learner-018")') == "learner-018"
    assert who('learner("learner-1")', 'learner("learner-2")') == "learner-2"
    assert (
        who('# learner("a")', "learner(name)", 'def f():\n    learner("b")', 'learner("x" + "y")', "learner(5)") == ""
    )
    assert who(f'learner("{"a" * 200}")') == "a" * 80


def test_notes_are_few():
    cells = ["a b"] * 50 + [{"cell_type": "code", "source": 5}, {"cell_type": "code", "source": [5, "x"]}, 7, None, {}]
    data = json.dumps({"cells": [c if not isinstance(c, str) else {"cell_type": "code", "source": c} for c in cells]})
    found = read(data.encode(), DOUBLE)
    assert len(found["notes"]) == 20 and found["notes"][-1] == "There is more of this kind: 36 notes are not shown."
    data = json.dumps({"cells": [{"cell_type": "code", "source": 5}, {"cell_type": "code", "source": GOOD}]})
    found = read(data.encode(), DOUBLE)
    assert found["notes"] == ["Cell 1 holds no text, and was left out."]
    assert found["exercises"]["double-it"]["where"] == "cell 2"


def test_what_the_program_uses_is_listed():
    cell = "import numpy.linalg as la, os.path\nfrom scratch.ops import silu\ndef helper(x):\n    return la.norm(x)"
    body = "def twice(x):\n    f = lambda: getattr(x, 'imag')\n    __import__('sys.a')\n    lib.import_module('re')"
    unused = "import socket\ndef unused():\n    return socket.socket()"
    result = one(
        DOUBLE,
        cell,
        unused,
        f"{body}\n    return helper(silu(x.real))",
        'check("double-it", (lambda g: g.wrap)(twice))',
    )
    assert result["attributes"] == ["imag", "import_module", "norm", "real", "silu", "wrap"]
    assert result["mentions"] == ["numpy", "os", "re", "scratch", "sys"]
    assert result["prints"] == ["<lambda>", "<module>", "helper", "twice"]


def test_attributes_are_few(monkeypatch):
    monkeypatch.setattr(reader, "MAX_ATTRIBUTES", 500)
    body = "".join(f"    x.a{n}\n" for n in range(2000))
    assert len(one(DOUBLE, f"def twice(x):\n{body}", CHECK)["attributes"]) == reader.MAX_ATTRIBUTES


def test_the_same_file_gives_the_same():
    """Whatever Python's sets are ordered by."""
    program = "import tests.test_reader as t, json; print(json.dumps(t.read(t.GOOD_ONE, *t.FEW), default=str))"
    seeds = [{**os.environ, "PYTHONHASHSEED": seed} for seed in "12"]
    texts = [subprocess.run([sys.executable, "-c", program], env=e, cwd=ROOT, capture_output=True) for e in seeds]
    assert texts[0].stdout == texts[1].stdout and b"prints" in texts[0].stdout


# ---- files that are none ----

BROKEN = {
    "empty": (b"", "empty"),
    "blank": (b" \r\n\t\n", "empty"),
    "mark only": (b"\xef\xbb\xbf\n", "empty"),
    "zeros": (bytes(1000), "empty"),
    "ZIP": (b"PK\x03\x04" + bytes(100), "ZIP"),
    "PDF": (b"%PDF-1.7\n", "PDF"),
    "Word": (b"\xd0\xcf\x11\xe0" + bytes(100), "office document"),
    "page": (b"<!DOCTYPE html><html></html>", "web page"),
    "noise": (random.Random(0).randbytes(3000), "no text"),
    "breaks off": (saved()[:5000], "breaks off at line"),
    "breaks off in a text": (b'{\n "cells": [\n {"source": "abc', "breaks off at line 3"),
    "damaged": (b'{\n "cells": [}\n}', "is damaged in line 2"),
    "a list": (b"[1, 2]", "no list of cells"),
    "no cells": (b'{"a": 1}', "no list of cells"),
    "cells are null": (b'{"cells": null}', "no list of cells"),
    "cells are a text": (b'{"cells": "abc", "worksheets": 5}', "no list of cells"),
    "prose": (b"This is my homework.\n", "not a whole notebook"),
    "many digits": (b'{"cells": [], "a": ' + b"1" * 5000 + b"}", "holds what no notebook does"),
    "deep": (b"[" * 10_000_000, "holds what no notebook does"),
    "deep objects": (b'{"a":' * 1_000_000, "holds what no notebook does"),
    "too large": (b"{" + b" " * reader.MAX_BYTES, "at most 32 are read"),
}


@pytest.mark.parametrize("title", BROKEN)
def test_a_file_that_is_none(title):
    data, said = BROKEN[title]
    found = read(data, DOUBLE)
    assert said in found["error"]
    assert found["error"].endswith(".") and found["exercises"] == {}


def test_unusual_metadata_does_no_harm():
    for metadata in (
        None,
        5,
        [],
        "a",
        {"tags": 5},
        {"tags": [None]},
        {"exercise": []},
        {"exercise": {"a": float("nan")}},
    ):
        cell = {"cell_type": "code", "metadata": metadata, "source": GOOD, "outputs": float("nan"), "id": []}
        assert one(DOUBLE, cell)["status"] == "run"


def test_line_ends_in_a_text_of_json_do_no_harm():
    data = notebook(GOOD).replace(b"\\n", b"\n")
    assert read(data, DOUBLE)["exercises"]["double-it"]["status"] == "run"


def test_half_of_a_character_does_no_harm():
    cell = {"cell_type": "code", "source": f"s = '\ud800'\n{GOOD}"}
    found = read(notebook(cell, 'learner("a\\ud800b")'), DOUBLE)
    assert run(found["exercises"]["double-it"])(3) == 6
    assert found["learner"] == "a?b"


# ---- what is made to take long ----

LONG = {
    "statements": "a = 1\n" * 200_000,
    "statements in a line": "a=1;" * 4_000,
    "brackets": "(" * 100_000 + ")" * 100_000,
    "minuses": "-" * 100_000 + "1",
    "dots": "a" + ".b" * 50_000,
    "sums": "1" + "+1" * 50_000,
    "calls": 'check("a",' * 90 + "1" + ")" * 90,
    "checks": ";".join(['check("double-it", twice)'] * 2_000),
    "lambdas": "lambda:" * 40_000 + "1",
    "ifs": "\n".join(" " * n + "if a:" for n in range(99)) + "\n" + " " * 99 + "a",
    "broken lines": "a b\n" * 8_000,
    "brackets that stay open": "(a\n" * 9_000,
    "texts that stay open": 'a = """\n' * 20_001,
    "magics": "%time a\n" * 4_000,
    "magics that are broken": "!a\n" * 90 + "a b c\n" * 8_000,
    "questions": "?a " * 10_000,
    "a long line": "x = '" + "a" * 250_000 + "'",
    "a very long line": "x = '" + "a" * 20_000_000 + "'",
    "digits": "x = " + "9" * 200_000,
    "powers": "x = 9**9**9**9",
    "repeated": "x = 'a' * 10 ** 12",
    "parameters": "def f(" + ",".join(f"a{n}" for n in range(9_000)) + "): pass",
    "names": "\n".join(f"a{n} = a{n + 1}" for n in range(2_000)),
    "elifs": "if a: pass\n" + "elif a: pass\n" * 8_000,
    "comprehensions": "[" * 150 + "a" + " for a in a]" * 150,
    "itself": "twice = twice\n" * 1_500,
    "raises": "def f():\n    raise " + "-" * 2_000 + "1",
}


@pytest.mark.parametrize("title", LONG)
def test_what_is_made_to_take_long_is_cut(title):
    start = time.process_time()
    found = read(notebook(GOOD, LONG[title], CHECK), DOUBLE)
    assert run(found["exercises"]["double-it"])(3) == 6
    assert found["error"] == ""
    assert time.process_time() - start < 5


FILES = {
    "regions": ("a.md", "<!-- #region\n" * 200_000),
    "marks": ("a.py", "# %%\n" * 200_000),
    "open fences": ("a.md", "```python\n" * 200_000),
    "fences": ("a.md", "~~~python\na\n~~~\n" * 30_000),
    "a long fence": ("a.md", "~" * 300_000 + "`\n"),
    "a long space in a fence": ("a.md", "~~~" + " " * 300_000 + "`\n"),
    "cells": ("a.ipynb", '{"cells": [' + "{}," * 200_000 + "{}]}"),
    "prose": ("a.md", "some words\n" * 100_000),
    "a long name": ("a" * 250 + ".py" * 3, "a = 1"),
    "checks": ("a.py", 'flops = ...\ncheck("flops", flops)\n' * 1_000),
}


@pytest.mark.parametrize("title", FILES)
def test_a_file_that_is_made_to_take_long(title):
    name, text = FILES[title]
    start = time.process_time()
    sound(read(text.encode(), *FEW, name=name), FEW)
    assert time.process_time() - start < 5


CUT = {
    "long cell": (["a = 1\n" * 60_000, GOOD], "What begins at line 1 of cell 1 is too long, and was left out."),
    "much code": (
        [f"'{'a' * 299_000}'"] * 4 + [GOOD],
        "There is more code than is read; it was cut at line 1 of cell 4.",
    ),
    "many cells": (["a"] * 5_001, "There are more cells than are read; only the first 5,000 were."),
    "many cells that are none": ([7] * 100_000, "There is more of this kind: 4982 notes are not shown."),
    "many statements": (["a\n" * 8_001], "There are more statements than are read; only the first 8,000 were."),
    "nested": (
        ["[" * 11 + "a" + " for a in a]" * 11],
        "There is a syntax error in line 1 of cell 1; that part was left out.",
    ),
    "magics and a long line": (
        [f"a = '{'a' * 2_001}'\n!ls"],
        "There is a syntax error in line 2 of cell 1; that part was left out.",
    ),
    "magics and no long line": ([f"a = '{'a' * 1_001}'\n!ls"], None),
    "not nested": (["[" * 9 + "a" + " for a in a]" * 9], None),
}


@pytest.mark.parametrize("title", CUT)
def test_what_is_cut_is_said(title):
    cells, note = CUT[title]
    found = read(notebook(*cells), DOUBLE)
    assert found["notes"][-1:] == ([note] if note else [])


# ---- never raises ----

GOOD_ONE = saved(FILLED[:40])
FEW = [exercise for exercise in ALL if WHERE[exercise["id"]] < 40]
NAMES = st.sampled_from(["a.ipynb", "a.md", "a.py", "a.txt", "a"])
FRAGMENTS = [
    "{",
    "}",
    "[",
    '"',
    "\\",
    "\\n",
    "\\ud800",
    "\0",
    "...",
    "(",
    ")",
    "'",
    '"""',
    "%%",
    "!",
    "\t",
    "@",
    "...",
    ":",
]
FRAGMENTS += [
    "def twice(x):\\n return x",
    "check(",
    "lambda",
    "```",
    "\\r",
    "ü",
    "null",
    "[[[",
    "#",
    ";",
    "\\\\\\n",
    "{x}",
]


def sound(found, exercises):
    assert set(found) == {"error", "notes", "learner", "exercises", "others"}
    assert found["error"] or list(found["exercises"]) == [exercise["id"] for exercise in exercises]
    assert "could not be read (" not in found["error"]
    for result in found["exercises"].values():
        assert result["status"] in ("missing", "syntax", "stub", "literal", "run")
        assert (result["status"] in ("missing", "syntax")) == bool(result["line"])
        for label, first, source in result["program"]:
            compile(source, label, "exec")
            assert first >= 1
    json.dumps(found, default=str).encode()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), NAMES)
def test_bytes(data, name):
    sound(read(data, *FEW, name=name), FEW)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abx=.(){}[]:'\"\n \t#%!?;@,*0\\`~-+é\ud800", max_size=200), NAMES)
def test_texts(text, name):
    sound(read(text.encode("utf-8", "surrogatepass"), *FEW, name=name), FEW)
    sound(read(notebook(text, text), *FEW, name=name), FEW)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([GOOD, CHECK, "code"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["cells", "source", "cell_type", "metadata", "worksheets", "input", "tags"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(JSON, st.booleans())
def test_json(value, wrapped):
    sound(read(json.dumps({"cells": [value, value]} if wrapped else value).encode(), *FEW), FEW)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(FRAGMENTS)), min_size=1, max_size=4), NAMES
)
def test_a_good_notebook_that_was_damaged(changes, name):
    data = GOOD_ONE
    for where, length, fragment in changes:
        at = int(where * len(data))
        data = data[:at] + fragment.encode() + data[at + length :]
    sound(read(data, *FEW, name=name), FEW)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 39), st.floats(0, 1), st.integers(0, 10), st.sampled_from(FRAGMENTS))
def test_a_cell_that_was_damaged(number, where, length, fragment):
    cells = [source for _, source in FILLED[:40]]
    at = int(where * len(cells[number]))
    cells[number] = cells[number][:at] + fragment.replace("\\n", "\n") + cells[number][at + length :]
    sound(read(notebook(*cells), *FEW), FEW)


def test_nothing_of_a_file_is_run():
    cell = "import sys\nsys.marked = True\n(lambda: setattr(sys, 'marked', True))()\nsize = [setattr(sys, 'marked', 1)]"
    found = read(notebook(cell, 'check("how-large", size)'), SIZE)
    assert found["exercises"]["how-large"]["status"] == "run" and not hasattr(sys, "marked")


def test_a_helper_after_the_check_does_not_take_the_place_of_the_answer():
    """Another exercise's helper has the answer's name, and other parameters."""
    text = """# %%
def rotate(x, cos, sin, layout):
    return x * cos + x * sin
check("rope", rotate)
# %%
def rotate(x, c):
    return x * c
def cached(x):
    return rotate(x, 1)
check("cached-attention", cached)
"""
    asked = [wanted("rope", answer="rotate", args=("x", "cos", "sin", "layout")), wanted("cached-attention", args="x")]
    found = reader.read("a.py", text.encode(), asked, lambda code: "")["exercises"]
    assert ["layout" in source for _, _, source in found["rope"]["program"]] == [True]
    assert any("def rotate(x, c):" in source for _, _, source in found["cached-attention"]["program"])
