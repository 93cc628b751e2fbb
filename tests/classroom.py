"""A synthetic class: submissions to a problem set with scores that are known, right, wrong, damaged and hostile.

python -m tests.classroom FOLDER --count 3000            write one, and expected.csv beside the folder
python -m tests.classroom FOLDER --count 3000 --grade    grade it as well, compare, say how many a second
python -m tests.classroom FOLDER --count 3000 --dask     and once more by two Dask workers, one killed halfway
"""

import argparse
import ast
import csv
import functools
import importlib
import json
import random
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import jupytext
import nbformat

from exercises import load
from exercises.engine.questions import right_values, wrong_values
from exercises.spec import Code, Number, sentence
from notebooks import problems
from notebooks.generate import METADATA
from notebooks.plain import without_docstrings
from tests import further_right

# Ten exercises of all kinds whose right answers are judged in 5 ms or less, in the order of the problem set.
LIGHT = (
    "trace-the-stream",
    "convert-layout",
    "mha-to-gqa",
    "swiglu-more",
    "count-block",
    "order-backward",
    "kv-cache-bytes",
    "induction-score",
    "round-bf16",
    "left-pad-positions",
)

# Thirty exercises of all kinds. Where a name stands, it is that of the right answer, in `further_right` or among the
# variants; the others are values.
THIRTY = {
    "trace-the-stream": "recursive",
    "embedding-backward": "counted",
    "norm-scale": "",
    "norm-nudge": "",
    "layernorm-backward": "centred_rmsnorm",
    "softmax-backward": "softmax_dual",
    "attention-weights": "weights_masked_array",
    "rope": "rope_feature_major",
    "convert-layout": "matrix",
    "relative-position": "",
    "mha-to-gqa": "einsum",
    "gqa-backward": "gqa_membership",
    "gelu-mlp-backward": "jacobian",
    "swiglu-backward": "OneTokenAtATime",
    "contributions": "",
    "swiglu-more": "",
    "count-block": "count_sizes",
    "repair-block": "repair_streaming",
    "order-backward": "",
    "residual-backward": "residual_coroutines",
    "gradcheck-block": "copies",
    "cross-entropy-backward": "entropy_positions",
    "kv-cache-bytes": "",
    "decode-bound": "",
    "clip-gradients": "one_vector",
    "adamw-step": "roots_apart",
    "cached-attention": "cached_dataclass",
    "round-bf16": "by_arithmetic",
    "left-pad-positions": "by_text",
    "column-row-parallel": "loops",
}


# ---- what a learner writes ----


@dataclass(frozen=True)
class Answer:
    """What a learner writes for one exercise: source of imports and helpers, a definition, the value of the name."""

    helpers: str = ""
    definition: str = ""
    value: str = ""  # "" where the definition binds the stub's name
    said: str = ""  # what its author is told, where it is a known mistake


@functools.cache
def _problems():
    return {problem.id: problem for _, its in problems.sets().values() for problem in its}


def name_of(id):
    """The name that the stub of an exercise binds."""
    return load(id).answer


def _is_stub(id, source):
    """Is this the cell that a learner fills in?"""
    return re.search(rf"^(def {name_of(id)}\(|{name_of(id)} = )", source, re.MULTILINE) is not None


@functools.cache
def _module(name):
    """The source of a module's top level: its lines, and the statements that bind each name."""
    module = importlib.import_module(name)
    lines = without_docstrings(Path(module.__file__).read_text(encoding="utf-8")).split("\n")
    bound = {}
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound[node.name] = node
        elif isinstance(node, ast.Assign):
            targets = [name for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            bound |= {name.id: node for name in targets}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name: node for alias in node.names}
    return lines, bound


def _segment(lines, node, name):
    """The source of a statement; of an import only what binds this name."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        alias = next(a for a in node.names if name == (a.asname or a.name))
        said = alias.name + (f" as {alias.asname}" if alias.asname else "")
        return f"from {node.module} import {said}" if isinstance(node, ast.ImportFrom) else f"import {said}"
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return "\n".join(lines[first - 1 : node.end_lineno])


@functools.cache
def _closure(module, wanted):
    """(imports, helpers, definition): the source of a top-level name of a module, and of all that it uses."""
    lines, bound = _module(module)
    waiting, needed = [wanted], set()
    while waiting:
        name = waiting.pop()
        if name in bound and name not in needed:
            needed.add(name)
            if not isinstance(bound[name], ast.Import | ast.ImportFrom):
                waiting += [node.id for node in ast.walk(bound[name]) if isinstance(node, ast.Name)]
    imports, helpers = [], []
    for name in sorted(needed - {wanted}, key=lambda name: (bound[name].lineno, name)):
        is_import = isinstance(bound[name], ast.Import | ast.ImportFrom)
        segment = _segment(lines, bound[name], name)
        if segment not in (*imports, *helpers):
            (imports if is_import else helpers).append(segment)
    return imports, helpers, _segment(lines, bound[wanted], wanted)


def written(id, module, wanted, said=""):
    """The Answer to exercise `id` that a top-level function, class or object of a module is."""
    imports, helpers, definition = _closure(module, wanted)
    name, value = name_of(id), ""
    binds_function = any(source.startswith(f"def {name}(") for source in _problems()[id].code)
    if definition.startswith("class "):
        value = f"{wanted}()"
    elif not binds_function or not re.search(rf"^def {wanted}\(", definition, re.MULTILINE):
        value = wanted
    else:  # not np.einsum( for einsum(
        definition = re.sub(rf"(?<![.\w]){wanted}(?=\()", name, definition)
    before = "\n".join(imports) + "".join(f"\n\n\n{helper}" for helper in helpers)
    return Answer(before.strip("\n"), definition, value, said)


def _literal(value):
    """The source of a value, a dict as the stubs write theirs."""
    if isinstance(value, dict):
        return "{\n" + "".join(f"    {json.dumps(key)}: {_literal(item)},\n" for key, item in value.items()) + "}"
    value = value.item() if hasattr(value, "item") else value
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _one_part(value):
    """What is asked of a Choice of a single part is the key itself."""
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


def _can_be_written(module, function):
    """Does its source do without the library, which is closed to it?"""
    imports, _, _ = _closure(module, function.__name__)
    return not any(line.startswith("from scratch") for line in imports)


def right_answers(id, learner):
    """The Answers to an exercise that are right for this learner."""
    exercise = load(id)
    return _right(id, learner if isinstance(exercise, Number) else "")


def wrong_answers(id, learner):
    """The Answers to an exercise that are known mistakes of this learner's; each says what its author is told."""
    exercise = load(id)
    return _wrong(id, learner if isinstance(exercise, Number) else "")


@functools.cache
def _right(id, learner):
    exercise = load(id)
    if not isinstance(exercise, Code):
        values = [_one_part(value) for _, value in right_values(exercise, learner)]
        return tuple(Answer(value=_literal(value)) for value in values)
    module = module_of(id)
    return tuple(written(id, module, v.__name__) for v in exercise.variants if _can_be_written(module, v))


@functools.cache
def _wrong(id, learner):
    exercise = load(id)
    if not isinstance(exercise, Code):
        found = wrong_values(exercise, learner)
        return tuple(Answer(value=_literal(_one_part(value)), said=said) for _, value, said in found)
    module = module_of(id)
    mutants = [m for m in exercise.mutants if _can_be_written(module, m)]
    return tuple(written(id, module, m.__name__, sentence(m)) for m in mutants)


def module_of(id):
    """The module that holds an exercise."""
    return f"exercises.{id.replace('-', '_')}"


def first_lines(answer, lines):
    """The Answer whose function begins with these lines; of what is no function, the same Answer."""
    tree = ast.parse(answer.definition).body
    if not tree or not isinstance(tree[-1], ast.FunctionDef):
        return answer
    body, source = tree[-1].body[0], answer.definition.split("\n")
    source[body.lineno - 1 : body.lineno - 1] = [" " * body.col_offset + line for line in lines]
    return Answer(answer.helpers, "\n".join(source), answer.value, answer.said)


# ---- notebooks ----


@functools.cache
def _edition(ids):
    """The cells of the learner's edition of a problem set with these exercises: (kind, source)."""
    its = [_problems()[id] for id in ids]
    return [(cell.cell_type, cell.source) for cell in problems.learner_edition("All of it", its).cells]


def filled(id, answer):
    """The sources of the cells that stand where the stub of an exercise stood."""
    name, cells = name_of(id), [answer.helpers, answer.definition]
    stub = next(source for source in _problems()[id].code if _is_stub(id, source))
    if answer.value:
        value = f"{name} = {answer.value}"
        if stub.startswith("def "):
            cells.append(value)
        else:
            node = next(n for n in ast.parse(stub).body if isinstance(n, ast.Assign) and n.targets[0].id == name)
            lines = stub.split("\n")
            lines[node.lineno - 1 : node.end_lineno] = value.split("\n")
            cells.append("\n".join(lines))
    return [source for source in cells if source]


def notebook(ids, learner, answers):
    """The cells of a learner's notebook.

    Parameters
    ----------
    ids : tuple of str, the exercises in it
    learner : str, the name in its second cell
    answers : {id: sources of the cells in place of the stub}; the others are left as they are

    Returns
    -------
    list of dict, as a notebook of format 4.5 has them; their source is a str
    """
    instead = {s: answers[id] for id in answers for s in _problems()[id].code if _is_stub(id, s)}
    cells = []
    for kind, source in _edition(ids):
        for text in instead.get(source, [source]):
            cells.append(code(text) if kind == "code" else {"cell_type": kind, "metadata": {}, "source": text})
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
        cell["source"] = cell["source"].replace("learner('', ", f'learner("{learner}", ')
    return cells


def code(source):
    """A code cell that was never run."""
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def as_ipynb(cells, metadata=METADATA, minor=5):
    """The text of a notebook file, laid out as Jupyter does it."""

    def lines(source):
        return source.splitlines(keepends=True) if isinstance(source, str) else source

    cells = [cell | {"source": lines(cell["source"])} for cell in cells]
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def as_text(cells, form):
    """The text of a file that jupytext writes: "md:myst", "py:percent", "py:light"."""
    whole = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return jupytext.writes(nbformat.from_dict(whole), form)


# ---- a class ----


@dataclass
class Expected:
    """What the grader has to say of one submission.

    Attributes
    ----------
    kind : str, what was done to it
    learner : str, the name in it; "" if it cannot be read
    status : "graded" or "unreadable"
    points : {id: points}
    said : {id: sentence}, of known mistakes
    """

    kind: str
    learner: str
    status: str
    points: dict
    said: dict = field(default_factory=dict)


# Cut off at 60 s and at 3 GB, should the box not hold; and what is attacked would then be right, and earn its points.
MISCHIEF = {
    "endless loop": "import time\n\n\ndef mischief():\n    end = time.time() + 60\n    while time.time() < end:\n"
    "        pass",
    "exit": "import os\n\n\ndef mischief():\n    os._exit(0)",
    "segfault": "import ctypes\n\n\ndef mischief():\n    ctypes.string_at(0)",
    "memory bomb": "import numpy as np\n\n\ndef mischief():\n    kept = [np.ones(2**25) for _ in range(12)]\n"
    "    return len(kept)",
    "forged results": "import json\nimport os\n\n\ndef mischief():\n"
    '    forged = json.dumps({"status": "passed", "points": 99, "out_of": 99}) + "\\n"\n'
    "    for fd in range(1, 256):\n        try:\n            os.write(fd, forged.encode())\n"
    "        except OSError:\n            pass\n    os._exit(0)",
    "fork": "import os\n\n\ndef mischief():\n    if os.fork() == 0:\n        os._exit(0)",
    "patched NumPy": "import numpy as np\nimport numpy.testing\n\n\ndef mischief():\n"
    "    for module in (np, np.testing):\n        for name in dir(module):\n"
    '            if "close" in name or "equal" in name:\n'
    "                setattr(module, name, lambda *args, **kwargs: True)",
}


def attacked(id, kind, answer):
    """The Answer to a Code exercise that is right, but for what its function does first."""
    lines = ["mischief()", "return np.zeros(3)"] if kind == "patched NumPy" else ["mischief()"]
    hostile = first_lines(answer, lines)
    return Answer("\n\n\n".join(filter(None, [answer.helpers, MISCHIEF[kind]])), hostile.definition)


def _truncated(rng, cells, ids):
    text = as_ipynb(cells)
    return ".ipynb", text[: rng.randrange(len(text) // 4, len(text) - 2)].encode(), ids


def _empty(rng, cells, ids):
    return rng.choice([".ipynb", ".md", ".py"]), b"", ids


def _random_bytes(rng, cells, ids):
    return ".ipynb", rng.randbytes(rng.randrange(1, 5000)), ids


def _pdf(rng, cells, ids):
    return (
        rng.choice([".ipynb", ".py"]),
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n" + rng.randbytes(900),
        ids,
    )


def _no_notebook(rng, cells, ids):
    return ".ipynb", rng.choice([b'{"name": "homework", "done": true}', b"[1, 2, 3]", b'"homework"', b"17"]), ids


def _null_cells(rng, cells, ids):
    return ".ipynb", b'{"cells": null, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', ids


def _definition(rng, cells):
    """(id, place) of a cell that defines the answer to an exercise."""
    found = []
    for id in LIGHT:
        starts = f"def {name_of(id)}("
        found += [(id, at) for at, cell in enumerate(cells) if cell["source"].startswith(starts)]
    return rng.choice(found)


def _syntax_error(rng, cells, ids):
    id, at = _definition(rng, cells)
    cells[at]["source"] = cells[at]["source"].replace("):\n", ")\n", 1)
    return *_any_form(rng, cells), [id]


def _source_is_a_number(rng, cells, ids):
    id, at = _definition(rng, cells)
    cells[at]["source"] = 5
    return ".ipynb", as_ipynb(cells).encode(), [id]


def _deleted(rng, cells, ids):
    lost = rng.sample(ids, rng.randint(1, 3))
    names = "|".join(name_of(id) for id in lost)
    gone = re.compile(rf"^(def ({names})\(|({names}) = |check\(.*, ({names})\))", re.MULTILINE)
    return *_any_form(rng, [cell for cell in cells if not gone.search(cell["source"])]), lost


def _invalid_utf8(rng, cells, ids):
    rng.choice([cell for cell in cells if cell["cell_type"] == "code"])["source"] += "\n# GRUSS"
    ending, data = _any_form(rng, cells)
    return ending, data.replace(b"GRUSS", b"Gr\xfc\xdfe"), []


def _nan_metadata(rng, cells, ids):
    for cell in cells:
        cell["metadata"] = {"seconds": float("nan"), "rate": float("-inf")}
    return ".ipynb", as_ipynb(cells, METADATA | {"version": float("nan")}).encode(), []


def _wrong_ending(rng, cells, ids):
    return rng.choice([".txt", ".json", "", ".ipynb.txt", ".py"]), as_ipynb(cells).encode(), []


# Each takes a random generator, the cells of a right submission and the ids in it; it returns the file's ending, its
# bytes, and the ids that are lost.
DAMAGE = {
    "truncated": _truncated,
    "empty": _empty,
    "random bytes": _random_bytes,
    "PDF": _pdf,
    "no notebook": _no_notebook,
    "cells: null": _null_cells,
    "syntax error": _syntax_error,
    "source: 5": _source_is_a_number,
    "cells deleted": _deleted,
    "invalid UTF-8": _invalid_utf8,
    "NaN": _nan_metadata,
    "wrong ending": _wrong_ending,
}
UNREADABLE = tuple(DAMAGE)[:6]


def _any_form(rng, cells):
    """(ending, bytes) of these cells in one of the forms; half of them are notebooks."""
    form = rng.choice([None, None, None, "md:myst", "py:percent", "py:light"])
    if form is None:
        return ".ipynb", as_ipynb(cells).encode()
    return f".{form[:2]}", as_text(cells, form).encode()


# in each twenty submissions: 40 % right, 40 % with known mistakes, 15 % damaged, 5 % attacks
TWENTY = ["right"] * 8 + ["wrong"] * 8 + ["damaged"] * 3 + ["attack"]


def make(folder, count, seed=0):
    """Write a class's submissions.

    Parameters
    ----------
    folder : Path, made if it is missing; the files lie in subfolders, one for each group of learners
    count : int, how many
    seed : int, decides everything; of two classes with one seed the smaller is the beginning of the larger

    Returns
    -------
    {path relative to the folder, with "/": Expected}
    """
    found, rng, kinds = {}, random.Random(seed), []
    turn = {kind: rng.randrange(100) for kind in TWENTY}
    for number in range(count):
        kinds = kinds or rng.sample(TWENTY, len(TWENTY))
        kind, learner = kinds.pop(), f"learner-{number:03}"
        turn[kind] += 1
        ending, data, expected = submission(rng, kind, turn[kind], learner)
        path = Path(folder, f"group {number % 7}", learner + ending)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        found[path.relative_to(folder).as_posix()] = expected
    return found


def submission(rng, kind, turn, learner):
    """(ending, bytes, Expected) of one submission; of damages and attacks the one whose turn it is."""
    answers = {id: rng.choice(right_answers(id, learner)) for id in LIGHT}
    points, said = {id: load(id).points for id in LIGHT}, {}
    if kind == "wrong":
        wrong = rng.sample(LIGHT, rng.randint(1, 5))
        answers |= {id: rng.choice(wrong_answers(id, learner)) for id in wrong}
        said = {id: answers[id].said for id in wrong}
        left = [id for id in LIGHT if id not in wrong]
        open_ones = rng.sample(left, rng.randint(0, 3))
        for id in open_ones:
            del answers[id]
        points |= dict.fromkeys([*wrong, *open_ones], 0)
    if kind == "attack":
        kind = list(MISCHIEF)[turn % len(MISCHIEF)]
        id = rng.choice([id for id in LIGHT if isinstance(load(id), Code)])
        answers[id] = attacked(id, kind, answers[id])
        points[id] = 0
    cells = notebook(LIGHT, learner, {id: filled(id, answer) for id, answer in answers.items()})
    if kind == "damaged":
        kind = list(DAMAGE)[turn % len(DAMAGE)]
        ending, data, lost = DAMAGE[kind](rng, cells, list(LIGHT))
        points |= dict.fromkeys(lost, 0)
    else:
        ending, data = _any_form(rng, cells)
    if kind in UNREADABLE:
        return ending, data, Expected(kind, "", "unreadable", points)
    return ending, data, Expected(kind, learner, "graded", points, said)


# ---- one right answer in many forms ----

NOISE = """\
import sys
import warnings


def noise(value=None):
    warnings.warn("this will change in a future version")
    print("something on stderr", file=sys.stderr)
    np.log(np.zeros(1))
    return value"""

STREAM = {"name": "stderr", "output_type": "stream", "text": ["a.py:1: RuntimeWarning: divide by zero\n"]}
PICTURE = {
    "data": {"image/png": "iVBORw0KGgo=", "text/html": ["<script>alert(1)</script>"], "text/plain": ["✓ Passed"]},
    "execution_count": 3,
    "metadata": {},
    "output_type": "execute_result",
}
ERROR = {
    "ename": "NameError",
    "evalue": "name 'x' is not defined",
    "output_type": "error",
    "traceback": ["\u001b[0;31mNameError\u001b[0m"],
}
COLAB = METADATA | {
    "accelerator": "GPU",
    "colab": {"gpuType": "T4", "name": "Problems.ipynb", "provenance": [], "toc_visible": True},
    "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {"0a1b": {"model_name": "HTMLModel"}}}},
}
PLOT = code("%matplotlib inline\nimport matplotlib.pyplot as plt")
SHOWN = code("plt.plot(np.arange(3))\nplt.title('loss')\nplt.show()")
NAMES = ("Copy of Untitled (3).ipynb", "Übung für morgen – Kopie.ipynb", "  final FINAL v2 .ipynb")


def thirty(id, learner):
    """The right Answer to one of the THIRTY."""
    name = THIRTY[id]
    if not name:
        return right_answers(id, learner)[0]
    return written(id, further_right.__name__ if hasattr(further_right, name) else module_of(id), name)


def _stripped(at, cells, id, answer, learner):
    bare = [{key: cell[key] for key in ("cell_type", "source")} | {"metadata": {}} for cell in cells]
    return "stripped.ipynb", as_ipynb(bare, {}, 4)


def _duplicated(at, cells, id, answer, learner):
    stub = next(source for source in _problems()[id].code if _is_stub(id, source))
    new = filled(id, answer)
    return "duplicated.ipynb", as_ipynb(notebook((id,), learner, {id: [stub, *new, *new]}))


def _renamed(at, cells, id, answer, learner):
    return NAMES[at % 3], as_ipynb(cells)


def _myst(at, cells, id, answer, learner):
    return "text.md", as_text(cells, "md:myst")


def _script(at, cells, id, answer, learner):
    return "script.py", as_text(cells, "py:light" if at % 2 else "py:percent")


def _noisy(at, cells, id, answer, learner):
    value = f"noise({answer.value})" if answer.value else ""
    loud = first_lines(Answer(answer.helpers, answer.definition, value), ["noise()"])
    cells = notebook((id,), learner, {id: [NOISE, "noise()", *filled(id, loud)]})
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            cell |= {"execution_count": number, "outputs": [STREAM, PICTURE, ERROR][: number % 4]}
    return "noisy.ipynb", as_ipynb(cells)


def _colab(at, cells, id, answer, learner):
    for number, cell in enumerate(cells):
        ran = {"status": "ok", "timestamp": 1700000000000 + number, "user_tz": -60, "elapsed": 12}
        ran["user"] = {"displayName": learner, "userId": "00000000000000000000"}
        cell["metadata"] = {"id": f"aB3dE{number:07}", "editable": True, "scrolled": True, "tags": []}
        cell["metadata"] |= {"jupyter": {"source_hidden": True}, "slideshow": {"slide_type": "slide"}}
        if cell["cell_type"] == "code":
            cell["metadata"] |= {"executionInfo": ran, "outputId": f"0f-{number}", "cellView": "form"}
            cell["metadata"] |= {"colab": {"base_uri": "https://localhost:8080/", "height": 35}}
        del cell["id"]
    return "colab.ipynb", as_ipynb(cells, COLAB, 0)


def _reordered(at, cells, id, answer, learner):
    """The check before all that it needs, and what a definition needs after it."""
    check = f'check("{id}", {name_of(id)})'
    first = [cell for cell in cells if cell["source"].startswith(("#", "import numpy", "question"))]
    last = [code(s) for s in reversed(filled(id, answer)) if s != check]
    for cell in last:
        cell["source"] = cell["source"].removesuffix(check)
    return "reordered.ipynb", as_ipynb([code(check), *last, *first])


def _magics(at, cells, id, answer, learner):
    extra = [PLOT, code("!pip install numpy"), SHOWN, code("%timeit np.sum(np.ones(3))"), code("?np.sum")]
    new = [f"%%time\n{source}" for source in filled(id, answer)]
    whole = notebook((id,), learner, {id: new})
    return "magics.ipynb", as_ipynb([*extra[: 2 + at % 3], *whole, *extra])


def _crlf(at, cells, id, answer, learner):
    form = (None, "md:myst", "py:percent")[at % 3]
    for cell in cells:
        cell["source"] = cell["source"].replace("\n", "\r\n") if form is None else cell["source"]
    text = as_text(cells, form) if form else as_ipynb(cells)
    return "windows" + (f".{form[:2]}" if form else ".ipynb"), "\ufeff" + text.replace("\n", "\r\n")


def _no_check(at, cells, id, answer, learner):
    for cell in cells:
        lines = cell["source"].split("\n")
        cell["source"] = "\n".join(line for line in lines if not line.startswith("check("))
    return "no check.ipynb", as_ipynb(cells)


FORMS = (_stripped, _duplicated, _renamed, _myst, _script, _noisy, _colab, _reordered, _magics, _crlf)


def write_forms(folder, learner="learner-017"):
    """Write a right answer to each of the THIRTY in ten forms, and without its check where its name is unique.

    Returns {path relative to the folder, with "/": id}.
    """
    found, names = {}, [name_of(id) for id in THIRTY]
    for at, id in enumerate(THIRTY):
        answer = thirty(id, learner)
        for form in (*FORMS, *([_no_check] if names.count(name_of(id)) == 1 else [])):
            cells = notebook((id,), learner, {id: filled(id, answer)})
            name, text = form(at, cells, id, answer, learner)
            path = Path(folder, id, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
            found[path.relative_to(folder).as_posix()] = id
    return found


# ---- comparing ----


def read_grades(file):
    """{submission: row} of a grades.csv; ValueError where a submission stands twice."""
    with open(file, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    found = {row["submission"]: row for row in rows}
    if len(found) != len(rows):
        raise ValueError(f"{file}: {len(rows) - len(found)} submissions stand twice")
    return found


def differences(expected, rows):
    """What is otherwise than expected, one line for each; empty if all is right."""
    found = [f"{path}: no such row" for path in expected if path not in rows]
    found += [f"{path}: not expected" for path in rows if path not in expected]
    out_of = sum(load(id).points for id in LIGHT)
    for path in [path for path in expected if path in rows]:
        its, row = expected[path], rows[path]
        pairs = [("status", its.status), ("learner", its.learner), ("points", sum(its.points.values()))]
        for column, wanted in [*pairs, ("out_of", out_of), *its.points.items()]:
            if row[column] != str(wanted):
                found.append(f"{path} ({its.kind}): {column} is {row[column]!r}, not {str(wanted)!r}: {row['reason']}")
        reason = " ".join(row["reason"].split())
        lost = [id for id, points in its.points.items() if not points] if its.status == "graded" else []
        wanted = [*its.said.values(), *([f"{id}: " for id in lost] or (["full marks"] * (its.status == "graded")))]
        found += [f"{path} ({its.kind}): no {said!r} in {reason!r}" for said in wanted if said not in reason]
        if not reason:
            found.append(f"{path} ({its.kind}): no reason")
    return found


def write_expected(file, expected):
    """Write what is expected in the columns of grades.csv, with the sentences of known mistakes for a reason."""
    out_of = sum(load(id).points for id in LIGHT)
    with open(file, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["submission", "learner", "points", "out_of", "status", "reason", *LIGHT])
        for path, its in sorted(expected.items()):
            said = "; ".join(f"{id}: {said}" for id, said in its.said.items()) or its.kind
            row = [path, its.learner, sum(its.points.values()), out_of, its.status, said]
            writer.writerow([*row, *(its.points[id] for id in LIGHT)])


def main(arguments=None):
    """Write a class from the command line, and grade it if asked to; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the submissions go; it must not hold others")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--grade", action="store_true", help="grade them into `grades` beside the folder, and compare")
    parser.add_argument("--dask", action="store_true", help="grade them once more on a cluster, and compare the two")
    parser.add_argument("--workers", default="2")
    parser.add_argument("--seconds", default="2", help="for the code of one exercise")
    asked = parser.parse_args(arguments)
    if asked.folder.exists() and any(asked.folder.iterdir()):
        parser.error(f"{asked.folder} is not empty")
    expected = make(asked.folder, asked.count, asked.seed)
    write_expected(asked.folder.parent / "expected.csv", expected)
    print(f"{len(expected)} submissions in {asked.folder}")
    wrong, tables = 0, []
    if asked.grade or asked.dask:
        wrong += _graded(asked, expected, "grades", "--workers", asked.workers)
        tables.append((asked.folder.parent / "grades" / "grades.csv").read_bytes())
    if asked.dask:
        wrong += _by_dask(asked, expected)
        tables.append((asked.folder.parent / "dask" / "grades.csv").read_bytes())
        print(f"the two grades.csv are {'the same' if tables[0] == tables[1] else 'NOT THE SAME'}, byte for byte")
        wrong += tables[0] != tables[1]
    return int(bool(wrong))


def _graded(asked, expected, name, *options):
    """Grade a class into a folder beside it, say how that went, and how many rows are otherwise than expected."""
    from exercises.grade.__main__ import main as grade

    start, out = time.perf_counter(), asked.folder.parent / name
    options = ["--exercises", ",".join(LIGHT), "--seed", "classroom", "--seconds", asked.seconds, *options]
    status = grade([str(asked.folder), "--out", str(out), *options])
    seconds = time.perf_counter() - start
    found = differences(expected, read_grades(out / "grades.csv"))
    print("\n".join(found[:50]))
    rate = len(expected) / seconds
    print(f"{len(found)} differences; {seconds:.0f} s, {rate:.1f} submissions a second; exit status {status}")
    return len(found)


def _by_dask(asked, expected):
    """The same by two Dask workers, of which one is killed when half is done, and another one then started."""
    from exercises.grade import run
    from tests.machines import Dask

    place = asked.folder.parent / "machines"
    place.mkdir()
    machines, keep, kept, memory = Dask(place), run.keep, [], []
    workers = [machines.worker() for _ in range(2)]

    def keeping(*arguments):
        keep(*arguments)
        kept.append(None)
        if len(kept) % (asked.count // 10) == 0:
            memory.append(round(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6))
        if len(kept) == asked.count // 2:
            machines.kill(workers[0])
            machines.worker()
            print(f"one of two workers was killed at {len(kept)}", flush=True)

    run.keep = keeping
    try:
        return _graded(asked, expected, "dask", "--dask", machines.address)
    finally:
        run.keep = keep
        machines.close()
        print(f"this process's memory at each tenth, MB: {memory}")


if __name__ == "__main__":
    sys.exit(main())
