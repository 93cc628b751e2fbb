"""The grader's own parts: what crosses from a box, what is closed in it, what a run keeps, what it refuses."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import exercises
from exercises import load
from exercises.engine.checker import FINITE_DIFFERENCES, judge
from exercises.engine.fingerprints import digest
from exercises.engine.questions import quantities
from exercises.grade import boxes, closing, doctor, report, run, submission
from exercises.grade.__main__ import main
from exercises.grade.answer import Answer
from exercises.grade.inside import reader
from exercises.grade.inside.wire import HEADER, Foreign, Late, Line, WireError, decode, encode, frame
from exercises.spec import Code
from tests import classroom, sandbox

WAYS = ("bwrap", "uid")


@pytest.fixture(scope="module", params=WAYS)
def runner(request):
    """A box to run answers in, for each way of isolation."""
    sandbox.need(request.param)
    limits = boxes.Limits(seconds=3)
    with run.prepared(request.param, limits) as (way, room, filter_, uid):
        with boxes.Box("runner", way, room, limits, filter_, uid) as box:
            yield box


def found(source, expression, mentions=(), attributes=()):
    """What the reader says of an answer with this source."""
    program = [["cell 1", 1, source]]
    told = {"status": "run", "found": "id", "where": "cell 1", "line": "", "program": program, "prints": []}
    return told | {"expression": expression, "attributes": list(attributes), "mentions": list(mentions)}


def graded(runner, id, source, expression, mentions=(), attributes=(), learner=""):
    """(Verdict, notes) of an answer with this source, run in the box."""
    one = found(source, expression, mentions, attributes)
    verdict, notes, sound = submission._verdict(load(id), one, learner, 12345, runner)
    assert sound
    return verdict, notes


# ---- what crosses ----

numbers = hnp.arrays(
    st.sampled_from(["f4", "f8", "i4", "u1", "bool", "c16", ">f8", "f2"]),
    hnp.array_shapes(min_dims=0, max_side=4, min_side=0),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(...) | numbers | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=4).flatmap(lambda x: st.sampled_from([x, tuple(x)]))
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(one, two):
    if isinstance(one, np.ndarray):
        return (
            type(two) is np.ndarray
            and one.dtype == two.dtype
            and np.array_equal(one, two, equal_nan=one.dtype.kind in "fc")
        )
    if isinstance(one, tuple | list):
        return type(one) is type(two) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[k], two[k]) for k in one)
    return type(one) is type(two) and (repr(one) == repr(two))


@given(values)
def test_values_cross_unchanged(value):
    tree, blobs = encode(value)
    assert same(value, decode(json.loads(json.dumps(tree)), b"".join(blobs)))


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(
            st.sampled_from(
                ["array", "scalar", "int", "float", "tuple", "list", "dict", "str", "other", "single", "function"]
            ),
            inner,
            inner,
            inner,
        ).map(list)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=10,
)


@given(trees, st.binary(max_size=40))
def test_what_an_enemy_sends_is_a_value_or_an_error(tree, blob):
    try:
        decode(tree, blob)
    except WireError:
        pass


@pytest.mark.parametrize(
    "tree",
    [
        ["array", "<f8", [1 << 60], 0],  # more numbers than bytes
        ["array", "<f8", [1 << 32, 1 << 32], 0],  # whose product overflows 64 bits
        ["array", "<f8", [-1], 0],
        ["array", "<f8", [1], -8],
        ["array", "<f8", [1], 1 << 40],
        ["array", "<f8", [True], 0],
        ["array", "O", [1], 0],
        ["array", "S8", [1], 0],
        ["array", "f8,f8", [1], 0],
        ["array", "(2,)f8", [1], 0],
        ["array", "<M8[s]", [1], 0],
        ["array", "<f8", [1] * 40, 0],
    ],
)
def test_lying_arrays_are_refused(tree):
    with pytest.raises(WireError):
        decode(tree, bytes(16))


@pytest.mark.parametrize(
    "value, name",
    [
        (np.array([object()]), "array of object"),
        (np.broadcast_to(1.0, (1 << 30, 1 << 10)), "array of 1099511627776 numbers"),
        (10**6000, "int of many digits"),
        ("x" * 200_000, "str of too many characters"),
        (np.array(["a"]), "array of str32"),
        (object(), "object"),
        (lambda: None, "function"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 100 else "",
)
def test_what_does_not_cross_becomes_its_name(value, name):
    came = decode(*encode(value)[:1])
    assert isinstance(came, Foreign) and type(came).__name__ == name


def test_a_value_that_holds_itself_ends():
    endless = []
    endless.append(endless)
    came = decode(encode(endless)[0])
    assert isinstance(came, list)


def test_other_truth_values_than_two_do_not_cross():
    assert decode(["array", "|b1", [2], 0], b"\x02\xff").tolist() == [True, True]
    assert decode(["array", "|b1", [2], 0], b"\x02\xff").view(np.uint8).tolist() == [1, 1]


@pytest.fixture
def connection():
    here, there = socket.socketpair()
    with here, there:
        yield Line(here), there


def test_a_frame_that_is_late_goes_on_where_it_was(connection):
    line, there = connection
    data = frame({"a": 1}, (b"xyz",))
    there.sendall(data[:7])
    with pytest.raises(Late):
        line.receive(0.01)
    there.sendall(data[7:])
    header, blob = line.receive(1)
    assert header == {"a": 1} and bytes(blob) == b"xyz"


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff" + bytes(8),  # a frame of 4 GB
        b"\x02\0\0\0\0\0",  # shorter than its own head
        b"\x08\0\0\0\xff\0\0\0{}{}",  # a header longer than the frame
        frame({})[:8] + b"}{",
        frame({"a": "b" * HEADER}),
        b"\x04\x20\0\0\0\x20\0\0" + b"[" * 0x2000,  # nested too deeply
    ],
)
def test_frames_that_are_none(data, connection):
    line, there = connection
    there.sendall(data[: 1 << 17])
    with pytest.raises((WireError, Late)):
        line.receive(0.05)


# ---- what is closed ----


@pytest.mark.parametrize("id", [id for id in exercises.ids() if getattr(load(id), "library", ())])
def test_scratch_in_a_box_lacks_the_answer_and_what_calls_it(id):
    library = load(id).library
    index, blob = closing.modules(library)
    prints = {
        digest(code): code.co_name
        for start, length, _ in index.values()
        for code in _codes(blob[start : start + length])
    }
    for print_, dotted in closing.fingerprints(library).items():
        assert print_ not in prints, dotted
    assert len(prints) > 300  # the rest is there
    for dotted in closing._with_callers(library):
        module, _, name = dotted.rpartition(".")
        start, length, _ = index[module]
        refusing = ["Closed" in code.co_names for code in _codes(blob[start : start + length]) if code.co_name == name]
        # one inside of a closed function is gone with it
        assert all(refusing) and (refusing or dotted not in closing.defined(library)), dotted


def _codes(data):
    import marshal

    from exercises.engine.fingerprints import nested

    return nested(marshal.loads(data))


def test_a_box_is_the_first_to_go_when_memory_ends(runner):
    """And not the grader: on a small machine two of them can take all there is."""
    with runner.process():
        assert Path(f"/proc/{runner._process.pid}/oom_score_adj").read_text() == "1000\n"
    assert Path("/proc/self/oom_score_adj").read_text() != "1000\n"


def test_a_copy_is_recognized_without_its_docstring():
    path = Path(sys.modules["scratch.norm"].__file__)
    text = path.read_text()
    namespace = {}
    start = text.index("def rmsnorm_backward")
    body = text[start : text.index("\ndef ", start + 10) if "\ndef " in text[start + 10 :] else len(text)]
    opening = body.index('"""')
    bare = body[:opening] + body[body.index('"""', opening + 3) + 3 :]
    exec("import numpy as np\nfrom scratch import _check\n" + bare, namespace)
    assert digest(namespace["rmsnorm_backward"].__code__) in closing.fingerprints(load("rmsnorm-backward").library)


# ---- in a box ----

RIGHT = """
import numpy as np
def rmsnorm_backward(dout, x, g, eps):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    n = x * r
    dn = dout * g
    return r * (dn - n * (dn * n).mean(-1, keepdims=True)), (dout * n).sum((0, 1))
"""


def test_a_right_answer_passes(runner):
    assert graded(runner, "rmsnorm-backward", RIGHT, "rmsnorm_backward")[0]


@pytest.mark.parametrize(
    "change, said",
    [
        (("r = 1 /", "out, dout = dout, dout.copy(); out[...] = 0\n    r = 1 /"), "changes its input dout in place"),
        (("return r *", "return x, g; r *"), "dx shares the memory of x"),
        (("return r *", "return ...; r *"), "Not attempted"),
        (("return r *", "return None; r *"), "returned None"),
        (("return r *", "return [1], 2; r *"), "dx is a list"),
        (("return r *", "return x.astype(object), g; r *"), "array of object"),
        (("return r *", "return 1; r *"), "return a tuple"),
        (("return r *", "raise ValueError('no')\n    r *"), "raised ValueError: no at line 7 of cell 1"),
        (("return r *", "raise NotImplementedError\n    r *"), "Not attempted"),
        (("return r *", "while True: pass\n    r *"), "still running after 3 seconds"),
        (("return r *", "import os; os._exit(0)\n    r *"), "ended the process"),
        (("return r *", "import ctypes; ctypes.string_at(0)\n    r *"), "crashed Python"),
        (("return r *", "exit()\n    r *"), "called exit()"),
        (("eps):", "eps, more):"), "it will be called with"),
        (("(dout, x, g", "(x, dout, g"), "keep the order"),
        (("import numpy as np\n", "import numpy as np\nkeep = np.zeros((64, 64, 64))\n"), "Passed"),
        (
            ("import numpy as np\n", "import numpy as np, nothing_like_it\n"),
            "Your cells import nothing_like_it at line 2",
        ),
        (("def rms", "import nothing_like_it as rms\ndef other_rms"), "name 'rmsnorm_backward' is not defined"),
    ],
)
def test_what_a_learner_is_told(runner, change, said):
    assert change[0] in RIGHT
    verdict, notes = graded(runner, "rmsnorm-backward", RIGHT.replace(*change), "rmsnorm_backward")
    assert said in " ".join([repr(verdict), *notes])


def test_overwritten_results_are_seen(runner):
    source = RIGHT.replace("return r", "value = r").replace("def rms", "kept = {}\ndef rms")
    source += """
    dx, dg = value
    buffer = kept.setdefault((dx.shape, dx.dtype), np.empty_like(dx))
    buffer[...] = dx
    return buffer, dg
"""
    assert "changes what it returned before" in repr(graded(runner, "rmsnorm-backward", source, "rmsnorm_backward")[0])


def test_the_libraries_own_are_closed(runner):
    source = (
        "from scratch.ops import rmsnorm_backward as own\ndef f(dout, x, g, eps):\n    return own(dout, (x, g, eps))"
    )
    assert "the library's own, `scratch.ops.rmsnorm_backward`" in repr(
        graded(runner, "rmsnorm-backward", source, "f", ["scratch"])[0]
    )
    source = RIGHT.replace("import numpy as np", "import numpy as np\nfrom scratch.ops import softmax_forward")
    assert graded(runner, "rmsnorm-backward", source, "rmsnorm_backward", ["scratch"])[0]


def test_what_an_answer_does_not_need_does_nothing(runner):
    source = """
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib import cm
from tqdm import tqdm, trange
from IPython.display import display, HTML
fig, ax = plt.subplots()
ax.plot([1, 2], label="x"); plt.show(); display(HTML("x"))
total = sum(i for i in tqdm(range(4))) + sum(trange(3))
@plt.rc_context
def count_weights(D, F):
    a, s, c = 4 * D * D, 3 * D * F, 8 * D * D
    assert total == 9
    return a, s, c, "swiglu" if s > c else "classic" if c > s else "same"
"""
    verdict, notes = graded(runner, "count-block", source, "count_weights")
    assert verdict and not notes


def test_statements_in_another_order_run(runner):
    one = found("", "f")
    one["program"] = [["cell 1", 1, "k = n + 1"], ["cell 2", 1, "n = 3"], ["cell 3", 1, "f = 4 * k"]]
    with runner.process() as line:
        answer = Answer(load("flops"), runner, line, one, {}, b"", False)
        assert answer.value == 16 and not answer.failed


def test_a_number_is_the_learners_own(runner):
    exercise = load("flops")
    for learner in ("Ada", "Grace"):
        right = exercise.reference(**quantities(exercise, learner))
        assert graded(runner, "flops", f"n = {right}", "n", learner=learner)[0]
    assert not graded(runner, "flops", f"n = {right}", "n", learner="Ada")[0]


def test_finite_differences_are_too_slow(bwrapped):
    source = """
import numpy as np
def f(dout, x, g, eps):
    def loss(x, g):
        return (dout * (x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g)).sum()
    def slopes(a, of):
        out = np.zeros_like(a)
        for i in np.ndindex(a.shape):
            kept = a[i]
            a[i] = kept + 1e-5
            up = of()
            a[i] = kept - 1e-5
            out[i] = (up - of()) / 2e-5
            a[i] = kept
        return out
    return slopes(x, lambda: loss(x, g)), slopes(g, lambda: loss(x, g))
"""
    assert graded(bwrapped, "rmsnorm-backward", source, "f")[0].diagnosis == FINITE_DIFFERENCES


def test_a_complex_step_is_no_derivation(runner):
    verdict, _ = graded(runner, "rmsnorm-backward", RIGHT, "rmsnorm_backward", attributes=["imag"])
    assert "complex step" in repr(verdict)


def agreeing():
    """(id, name of an answer) of some known answers of each exercise that is code."""
    for id in exercises.ids():
        exercise = load(id)
        if isinstance(exercise, Code):
            module = classroom.module_of(id)
            for answers in (exercise.variants, exercise.mutants):
                can = [a for a in answers if classroom._can_be_written(module, a)]
                yield from ((id, a.__name__) for a in can[:: max(1, len(can) // 2)][:2])


@pytest.fixture(scope="module")
def bwrapped():
    sandbox.need("bwrap")
    limits = boxes.Limits(seconds=20)
    with run.prepared("auto", limits) as (way, room, filter_, uid):
        with boxes.Box("runner", way, room, limits, filter_, uid) as box:
            yield box


@pytest.mark.parametrize("id, name", list(agreeing()))
def test_grader_and_check_agree(bwrapped, id, name):
    exercise, module = load(id), classroom.module_of(id)
    imports, helpers, definition = classroom._closure(module, name)
    expression = f"{name}()" if definition.startswith("class ") else name
    verdict, _ = graded(bwrapped, id, "\n".join([*imports, *helpers, definition]), expression)
    answer = getattr(sys.modules[module], name)
    here = judge(exercise, answer, 12345)
    assert (verdict.status, verdict.diagnosis) == (here.status, here.diagnosis)


# ---- a run ----

NOTEBOOK = RIGHT + '\ncheck("rmsnorm-backward", rmsnorm_backward)\n'
ASKED = ["--exercises", "rmsnorm-backward", "--seed", "x", "--workers", "1"]


def rows(out):
    with (out / "grades.csv").open(newline="") as file:
        return {row["submission"]: row for row in csv.DictReader(file)}


@pytest.fixture
def folder(tmp_path):
    sandbox.need("bwrap")
    folder = tmp_path / "submissions"
    folder.mkdir()
    (folder / "right.py").write_text(NOTEBOOK)
    return folder


def test_a_folder(folder, tmp_path, capsys):
    (folder / "wrong.py").write_text(NOTEBOOK.replace(" + eps", ""))
    (folder / "=cmd|' calc'!A0.py").write_text(NOTEBOOK)
    (folder / "._hidden.py").write_text("")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "right.py").write_text(NOTEBOOK)
    (folder / "link.py").symlink_to("/etc/passwd")
    (folder / "folder-link").symlink_to("/etc")
    (folder / "answer.docx").write_bytes(b"PK\x03\x04" + bytes(100))
    os.mkfifo(folder / "fifo.py")
    assert main([str(folder), "--out", str(tmp_path / "out"), *ASKED]) == 0
    found = rows(tmp_path / "out")
    assert {name: row["points"] for name, row in found.items()} == {
        "right.py": "3",
        "wrong.py": "0",
        "'=cmd|' calc'!A0.py": "3",
        "deep/er/right.py": "3",
        "link.py": "0",
        "folder-link": "0",
        "answer.docx": "0",
        "fifo.py": "0",
    }
    assert all(row["reason"] for row in found.values())
    assert "links are not followed" in found["link.py"]["reason"]
    assert "eps" in found["wrong.py"]["reason"] and found["right.py"]["reason"] == "full marks"
    assert len(list((tmp_path / "out" / "feedback").iterdir())) == 16
    text = next((tmp_path / "out" / "feedback").glob("wrong-*.md")).read_text()
    assert "Your r leaves out eps" in text and "expected" not in text and "Smallest case" not in text


def test_resume_grades_nothing_again_and_what_changed(folder, tmp_path):
    (folder / "other.py").write_text(NOTEBOOK)
    out = tmp_path / "out"
    arguments = [str(folder), "--out", str(out), *ASKED]
    assert main(arguments) == 0
    before = {path: (path.stat().st_ino, path.read_text()) for path in (out / "results").iterdir()}
    table = (out / "grades.csv").read_text()
    assert main([*arguments, "--resume"]) == 0
    assert {path: (path.stat().st_ino, path.read_text()) for path in (out / "results").iterdir()} == before
    assert (out / "grades.csv").read_text() == table
    (folder / "other.py").write_text(NOTEBOOK.replace(" + eps", ""))
    assert main([*arguments, "--resume"]) == 0
    assert rows(out)["other.py"]["points"] == "0" and rows(out)["right.py"]["points"] == "3"
    changed = [path for path in before if path.stat().st_ino != before[path][0]]
    assert len(changed) == 1


def test_a_result_cut_off_is_graded_again(folder, tmp_path):
    out = tmp_path / "out"
    arguments = [str(folder), "--out", str(out), *ASKED]
    assert main(arguments) == 0
    table, result = (out / "grades.csv").read_text(), next((out / "results").iterdir())
    result.write_text(result.read_text()[:100])
    (out / "results" / ".left.part").write_text("half")
    assert main([*arguments, "--resume"]) == 0
    assert (out / "grades.csv").read_text() == table and not list(out.glob("*/.*"))


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["{folder}/nothing", "--out", "{out}"], "there is no folder"),
        (["{folder}", "--out", "{folder}/grades"], "the results would lie among the submissions"),
        (["{empty}", "--out", "{out}"], "there is no submission in it"),
        (["{folder}", "--out", "{full}"], "the folder is not empty, and holds no results"),
        (["{folder}", "--out", "{out}", "--exercises", "rope,ropes"], "there is no exercise ropes; did you mean rope"),
        (["{nameless}", "--out", "{out}"], "no exercise is named by half of the submissions"),
        (["{folder}", "--out", "{out}", "--specs", "{folder}/nothing"], "is no folder"),
        (["{folder}", "--out", "{out}", "--specs", "{specs}"], "rope.py: the course has an exercise rope already"),
        (["{folder}", "--out", "{out}", "--specs", "{broken}"], "mine.py is no exercise: SyntaxError"),
        (["{folder}", "--out", "{out}", "--specs", "{misnamed}"], 'its id is "rope", and must be "own-one"'),
        (["{folder}", "--out", "{out}", "--specs", "{loose}"], "it returns floats, and has no `rounding`"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(arguments, said, folder, tmp_path, capsys):
    places = {"folder": folder, "out": tmp_path / "out"}
    for name in ("empty", "full", "nameless", "specs", "broken", "misnamed", "loose"):
        places[name] = tmp_path / name
        places[name].mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "nameless" / "a.py").write_text("x = 1")
    (tmp_path / "specs" / "rope.py").write_text("")
    (tmp_path / "broken" / "mine.py").write_text("def")
    (tmp_path / "loose" / "twice_it.py").write_text(
        SPEC.format(id="twice-it").replace("rounding=lambda x: 2 * abs(x), ", "")
    )
    (tmp_path / "misnamed" / "own_one.py").write_text("from exercises.rope import exercise")
    known = list(exercises.__path__)
    assert main([a.format(**places) for a in arguments]) == 2
    exercises.__path__[:] = known
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_results_are_not_mixed(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([str(folder), "--out", str(out), *ASKED]) == 0
    assert main([str(folder), "--out", str(out), *ASKED]) == 2
    assert "--resume goes on with them" in capsys.readouterr().err
    assert main([str(folder), "--out", str(out), "--exercises", "rope", "--resume"]) == 2
    assert "rope came in addition; rmsnorm-backward is left out" in capsys.readouterr().err
    assert main([str(folder), "--out", str(out), *ASKED[:2], "--seed", "y", "--resume"]) == 2
    assert "the seed was another one" in capsys.readouterr().err
    assert main([str(folder), "--out", str(out), *ASKED, "--seconds", "3", "--resume"]) == 2
    assert "limits was" in capsys.readouterr().err


SPEC = '''
"""Exercise {id}: twice the array."""
import numpy as np
from exercises.spec import Code
def reference(x):
    return 2 * x
def cases(rng):
    for n in (2, 5):
        yield (rng.standard_normal(n),)
def half(x):
    """You halved it."""
    return x / 2
exercise = Code(id="{id}", title="Twice", chapter="my_course", answer="twice", points=4, stars=1, minutes=2,
    args=("x",), returns=("y",), cases=cases, reference=reference, rounding=lambda x: 2 * abs(x), mutants=(half,),
    variants=(reference,), hints=("Add it to itself.",))
'''


def test_a_teachers_own_exercises(folder, tmp_path, capsys):
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "twice_it.py").write_text(SPEC.format(id="twice-it"))
    (specs / "_helper.py").write_text("raise ValueError")
    for name, answer in (("right", "x + x"), ("wrong", "x / 2")):
        text = f"def twice(x):\n    return {answer}\ncheck('twice-it', twice)\n"
        (folder / f"{name}.py").write_text(text)
    known = list(exercises.__path__)
    arguments = [str(folder), "--seed", "x", "--specs"]
    try:
        for workers in ("1", "2"):
            assert main([*arguments, str(specs), "--out", str(tmp_path / workers), "--workers", workers]) == 0
        (specs / "twice_it.py").write_text(SPEC.format(id="twice-it").replace("points=4", "points=5"))
        assert main([*arguments, f"{specs}/", "--out", str(tmp_path / "1"), "--resume"]) == 2
    finally:
        exercises.__path__[:] = known
    assert "have changed" in capsys.readouterr().err
    found = rows(tmp_path / "1")
    assert found == rows(tmp_path / "2")
    assert found["right.py"]["points"] == found["right.py"]["out_of"] == "4"
    assert found["wrong.py"]["points"] == "0" and "You halved it." in found["wrong.py"]["reason"]
    assert "hint" not in next((tmp_path / "1" / "feedback").glob("wrong-*.md")).read_text()  # learners have it not


def test_the_set_is_what_most_submissions_name(tmp_path):
    for at in range(4):
        (tmp_path / f"{at}.py").write_text(
            'check("rope", f)\n' + 'check("gate", f)\n' * (at < 2) + 'check("flops", 1)\n' * (at < 1)
        )
    (tmp_path / "5.ipynb").write_text(json.dumps({"cells": [{"source": ['check("rope", f)']}]}))
    assert run.named(tmp_path, run.submissions(tmp_path)) == (["rope"], {"gate": 2, "flops": 1})
    (tmp_path / "3.py").unlink()
    assert run.named(tmp_path, run.submissions(tmp_path)) == (["rope", "gate"], {"flops": 1})


def test_rooms_of_killed_graders_are_cleared_away(tmp_path, monkeypatch):
    monkeypatch.setattr(run.tempfile, "gettempdir", lambda: str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead, mine, other = (tmp_path / f"{run._PREFIX}{owner}-x" for owner in (gone.pid, os.getpid(), "someone"))
    for place in (dead, mine, other):
        place.mkdir()
    run._clear_away()
    assert not dead.exists() and mine.exists() and other.exists()


def test_a_box_that_is_killed_costs_nobody_points(folder, tmp_path, monkeypatch):
    """The grader's own box is lost in the middle: the answer is run again in a new one."""
    began, calls = submission._run, []

    def lossy(exercise, one, learner, seed, runner, several):
        calls.append(exercise.id)
        if len(calls) == 1:
            runner.start()
            runner._process.kill()
            time.sleep(0.2)
        return began(exercise, one, learner, seed, runner, several)

    monkeypatch.setattr(submission, "_run", lossy)
    assert main([str(folder), "--out", str(tmp_path / "out"), *ASKED]) == 0
    assert rows(tmp_path / "out")["right.py"]["points"] == "3" and len(calls) == 2


def killing(folder, name):
    """Stands for `work`: the worker is lost at one submission."""
    if name == "poison.py":
        os.kill(os.getpid(), 9)
    return began(folder, name)


began = run.work


def test_a_lost_worker_costs_the_submission_at_which_it_is_lost_alone(folder, tmp_path, monkeypatch):
    for name in ("a", "b", "c", "d", "poison", "z"):
        (folder / f"{name}.py").write_text(NOTEBOOK)
    monkeypatch.setattr(run, "work", killing)
    assert main([str(folder), "--out", str(tmp_path / "out"), *ASKED[:4], "--workers", "2"]) == 0
    found = rows(tmp_path / "out")
    assert {name: row["points"] for name, row in found.items() if row["points"] != "3"} == {"poison.py": "0"}
    assert "lost twice" in found["poison.py"]["reason"] and len(found) == 7


def test_workers_that_do_not_start_mark_nobody(folder, tmp_path, monkeypatch, capsys):
    (folder / "other.py").write_text(NOTEBOOK)
    monkeypatch.setattr(run, "begin", os._exit)
    assert main([str(folder), "--out", str(tmp_path / "out"), *ASKED[:4], "--workers", "2"]) == 2
    assert "do not start" in capsys.readouterr().err and not list((tmp_path / "out" / "results").iterdir())


def test_no_sandbox_only_on_demand(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(boxes.Box, "_hold", lambda self: (_ for _ in ()).throw(boxes.BoxError("denied")))
    assert main([str(folder), "--out", str(tmp_path / "out"), *ASKED]) == 2
    said = capsys.readouterr().err
    assert "bwrap: denied" in said and "--unsafe-no-sandbox" in said and "bubblewrap" in said


def test_without_a_sandbox_on_demand(folder, tmp_path, capsys):
    assert main([str(folder), "--out", str(tmp_path / "out"), *ASKED, "--unsafe-no-sandbox"]) == 0
    assert "NO SANDBOX" in capsys.readouterr().out
    assert rows(tmp_path / "out")["right.py"]["points"] == "3"


def test_the_doctor_tries(capsys):
    sandbox.need("bwrap")
    sandbox.need("uid")
    assert doctor.main([]) == 0
    said = capsys.readouterr().out
    assert "The grader uses bwrap here." in said and "CAN" not in said and said.count("cannot reach the network") == 2


def test_the_probe_sees_what_is_possible():
    with run.prepared("none", boxes.Limits()) as (_, room, _, _):
        found = doctor.probe("none", room, b"", None)
    assert found["reach the network"] and found["read /etc/passwd"] and found["start a process"]


def test_a_cell_is_no_formula():
    assert [report.cell(text) for text in ("=1", "+1", "-1", "@a", "a=1", "a\nb\t", "\x1b[1m=")] == [
        "'=1",
        "'+1",
        "'-1",
        "'@a",
        "a=1",
        "a b ",
        " [1m=",
    ]


def test_a_page_shows_text_as_text():
    part = {
        "points": 0,
        "out_of": 2,
        "status": "not yet",
        "found": "id",
        "where": "cell 1",
        "lines": ["<b>`a*b`</b> *x*"],
    }
    part |= {"diagnosis": "", "notes": ["[a](javascript:x) <script>"], "reason": ""}
    result = {"submission": "<i>.py", "learner": "<u>", "status": "graded", "reason": "", "notes": []}
    result |= {"points": 0, "out_of": 2, "exercises": {"count-block": part}}
    page, text = report.as_html(result), report.as_markdown(result)
    assert not any(tag in page for tag in ("<b>", "<i>", "<u>", "<script>")) and "<code>a*b</code>" in page
    assert r"\<b\>`a*b`\</b\> \*x\*" in text and r"\[a\](javascript:x)" in text and r"\<script\>" in text


CONTAINER = """
import sys
import pyseccomp
program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
denied = pyseccomp.ERRNO(1)
for name in ("unshare", "mount", "setns", "pivot_root"):
    program.add_rule(denied, name)
program.add_rule(denied, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0x10000000, 0x10000000))  # CLONE_NEWUSER
program.add_rule(pyseccomp.ERRNO(38), "clone3")
program.load()
from exercises.grade.__main__ import main
from exercises.grade.answer import Answer
from exercises.grade.inside import reader
sys.exit(main(sys.argv[1:]))
"""


def test_where_namespaces_are_denied_the_second_way_is_taken(folder, tmp_path):
    """As a container's usual filter denies them; the report says what is weaker."""
    sandbox.need("uid")
    command = [sys.executable, "-c", CONTAINER, str(folder), "--out", str(tmp_path / "out"), *ASKED]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "another user in another root folder (weaker than bubblewrap" in done.stdout
    assert "weaker than bubblewrap" in (tmp_path / "out" / "report.md").read_text()
    assert rows(tmp_path / "out")["right.py"]["points"] == "3"


def test_an_interrupt_is_the_instructors_and_nobodys_mistake(folder, tmp_path, monkeypatch, capsys):
    """Ctrl-C while an answer runs: no grade is made of it, and --resume goes on."""

    def interrupted(*arguments):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Answer, "run", interrupted)
        assert main([str(folder), "--out", str(out), *ASKED]) == 130
    assert "--resume goes on" in capsys.readouterr().err and not list((out / "results").iterdir())
    assert main([str(folder), "--out", str(out), *ASKED, "--resume"]) == 0
    assert rows(out)["right.py"]["reason"] == "full marks"


def test_what_a_person_should_look_at(tmp_path):
    """Two problem sets in one folder, a helper's file, names that are shared or missing, the same file twice."""
    sandbox.need("bwrap")
    folder = tmp_path / "submissions"
    folder.mkdir()
    flops = "from exercises import check, learner\nlearner('{}')\nn = 3\ncheck('flops', n)\n"
    texts = {f"{at}.py": flops.format("" if at == 1 else "Ada") for at in range(4)}
    texts |= {"other.py": "n = 3\ncheck('norm-nudge', n)\n", "helper.py": "def inverse(x, eps):\n    return x\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    assert main([str(folder), "--out", str(tmp_path / "out"), "--seed", "x"]) == 0
    found, said = rows(tmp_path / "out"), (tmp_path / "out" / "report.md").read_text()
    assert "It names norm-nudge." in found["other.py"]["reason"]
    assert found["helper.py"]["status"] == found["other.py"]["status"] == "unreadable"
    assert "norm-nudge: 1" in said and "Ada: 0.py, 2.py, 3.py" in said and "own\n\n- 1.py" in said
    assert "byte for byte\n\n- 0.py, 2.py, 3.py" in said


def test_a_cell_that_another_exercises_check_claims_is_not_guessed():
    text = "from exercises import check\npredictions = {'a': 'b'}\ncheck('norm-scale', predictions)\n"
    wanted = [{"id": "ablations", "kind": "choice", "answer": "predictions", "args": [], "parts": ["no mask", "why"]}]
    said = reader.read("a.py", text.encode(), wanted, str)
    assert said["exercises"]["ablations"]["status"] == "missing" and said["others"] == ["norm-scale"]


TWINS = {
    "softmax-backward": "from scratch.blocked import blocked_sdpa_backward as f",
    "attention-weights": "from scratch.blocked import _softmax as f",
    "cached-attention": "from scratch.generate import _attend as f",
    "repair-block": "from scratch.latent import _attend as f",
}


@pytest.mark.parametrize("id", TWINS)
def test_twins_of_the_answer_are_closed_too(runner, id):
    verdict, _ = graded(runner, id, TWINS[id], "f", ["scratch"])
    assert "the library's own" in repr(verdict)


def test_a_counter_in_a_global_is_found():
    text = "calls = 0\ndef twice(x):\n    global calls\n    calls += 1\n    return 2 * x\ncheck('twice-it', twice)\n"
    wanted = [{"id": "twice-it", "kind": "code", "answer": "twice", "args": ["x"], "parts": []}]
    program = reader.read("a.py", text.encode(), wanted, str)["exercises"]["twice-it"]["program"]
    assert [source for _, _, source in program][0] == "calls = 0"


def test_complex_numbers_are_no_whole_ones(runner):
    args = ", ".join(load("left-pad-positions").args)
    source = f"def f({args}):\n    import numpy as np\n    return np.zeros((1, 1)) + 5j\n"
    assert "holds complex numbers; expected are whole ones" in repr(
        graded(runner, "left-pad-positions", source, "f")[0]
    )


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_stops_at_once_and_resume_goes_on(folder, tmp_path, presses):
    for at in range(12):
        (folder / f"slow{at}.py").write_text(NOTEBOOK.replace("r = 1 /", "import time; time.sleep(0.03); r = 1 /"))
    command = [sys.executable, "-m", "exercises.grade", str(folder), "--out", str(tmp_path / "out"), *ASKED[:4]]
    grader = subprocess.Popen([*command, "--workers", "2"], start_new_session=True, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "out").glob("results/*.json")):
        time.sleep(0.1)
    for _ in range(presses):
        os.killpg(grader.pid, signal.SIGINT)
        time.sleep(0.1)
    assert "--resume goes on" in grader.communicate(timeout=8)[1] and grader.returncode == 130
    assert main([*command[3:], "--workers", "2", "--resume"]) == 0
    assert {row["points"] for row in rows(tmp_path / "out").values()} == {"3"}


@pytest.mark.parametrize("at", range(8))
def test_a_run_killed_at_any_write_goes_on(folder, tmp_path, monkeypatch, at):
    """Cut off at the first write, at the second and so on: before it takes effect, and the half-written file stays."""
    out, done, keeping = tmp_path / "out", [], os.replace
    arguments = [str(folder), "--out", str(out), *ASKED]

    def cut(source, target):
        done.append(target)
        if len(done) == at + 1:
            raise KeyboardInterrupt
        keeping(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", cut)
        status = main(arguments)
    assert status == (130 if len(done) > at else 0)
    assert status == 0 or main([*arguments, "--resume"]) == 0
    assert rows(out)["right.py"]["reason"] == "full marks" and (out / "secret").stat().st_mode & 0o777 == 0o600
    assert not [path for path in out.rglob("*") if path.suffix == ".part"]


def test_a_reason_is_exact_though_cases_ran_together(runner):
    """Wrong on the third call, and gone on the fifth: the third is what the learner is told of."""
    counted = "    calls.append(1)\n    if len(calls) == 5: os._exit(0)\n    r = 1 /"
    source = "import os\ncalls = []\n" + RIGHT.replace("    r = 1 /", counted)
    source = source.replace("return r *", "return (len(calls) != 3) * r *")
    verdict, _ = graded(runner, "rmsnorm-backward", source, "rmsnorm_backward")
    assert "dx is zero everywhere" in repr(verdict)
