"""The exercises judge rightly: known mistakes are named, right answers pass, and no answer breaks the check."""

import dataclasses
import importlib
import re
import subprocess
import sys
import types
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import exercises
from exercises import check, hint
from exercises.certify import SHORT, certify
from exercises.engine import properties
from exercises.engine.calls import cast
from exercises.engine.checker import judge
from exercises.engine.questions import right_values, wrong_values
from exercises.spec import Code, sentence
from scratch import account, ops

ROOT = Path(__file__).resolve().parent.parent
IDS = exercises.ids()
CODE = [id for id in IDS if isinstance(exercises.load(id), Code)]
SEEDS = range(5)


def right(dout, x, g, eps):
    r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    dz = dout * g
    dx = r * dz - x * r**3 * np.sum(dz * x, axis=-1, keepdims=True) / x.shape[-1]
    return dx, np.sum(dout * x * r, axis=(0, 1))


# ---- certification: the matrix of mutants and variants ----


@pytest.mark.parametrize("id", IDS)
def test_every_known_answer_is_judged_rightly(id):
    """Mutants fail with their own sentence, variants pass, in both dtypes; gradients without a formula are seen."""
    for row in certify(id, SEEDS, SHORT):
        assert not row.misjudged, (row.name, row.misjudged[0])


def test_the_course_is_certified_on_enough_answers():
    specs = [exercises.load(id) for id in IDS]
    assert sum(len(s.mutants) if hasattr(s, "mutants") else len(wrong_values(s)) for s in specs) >= 60
    assert sum(len(s.variants) if hasattr(s, "variants") else len(right_values(s)) for s in specs) >= 24


@pytest.mark.parametrize("id", CODE)
def test_the_reference_passes_its_own_check(id):
    exercise = exercises.load(id)
    for seed in SEEDS:
        assert judge(dataclasses.replace(exercise, library=()), exercise.reference, seed), seed


def at_scale(id, scale):
    """The exercise with cases of one scale, and of sizes that its own cases do not have."""

    def cases(rng):
        for B, T, D in ((1, 1, 1), (1, 3, 2), (2, 5, 64), (1, 2, 513)):
            for eps in (1e-8, 1e-5, 1e-2):
                x = rng.standard_normal((B, T, D)) * scale
                yield rng.standard_normal((B, T, D)), x, rng.standard_normal(D), eps

    return dataclasses.replace(exercises.load(id), cases=cases)


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e2, 1e3])
def test_right_answers_are_within_the_bound_at_every_scale(scale):
    exercise = at_scale("rmsnorm-backward", scale)
    for answer in (*exercise.variants[1:], right):  # the loops are slow at D = 513
        assert judge(exercise, answer), answer.__name__


def test_the_bound_is_neither_loose_nor_tight():
    """What right answers use of it, and that an error of 1e-4 (float32) or 1e-12 (float64) is seen."""
    exercise = exercises.load("rmsnorm-backward")
    used = {}
    for dtype in (np.float32, np.float64):
        for seed in SEEDS:
            for args in exercise.cases(np.random.default_rng(seed)):
                args = cast(args, dtype)
                for variant in exercise.variants:
                    for got, exact, bound in zip(variant(*args), *properties.expected(exercise, args)):
                        ratio = np.max(np.abs(got - exact) / bound)
                        used[dtype] = max(used.get(dtype, 0), float(ratio))
    assert all(0.01 < ratio < 0.5 for ratio in used.values()), used

    def nudged(by, *args):
        return tuple(np.asarray(d * (1 + by), dtype=d.dtype) for d in right(*args))

    assert not judge(exercise, partial(nudged, 1e-4), dtypes=(np.float32,))
    assert not judge(exercise, partial(nudged, 1e-12), dtypes=(np.float64,))


def test_it_holds_where_numpy_has_no_longdouble(monkeypatch):
    monkeypatch.setattr(properties, "WIDE", np.float64)
    exercise = exercises.load("rmsnorm-backward")
    assert all(judge(exercise, v) for v in exercise.variants)
    assert all(judge(exercise, m).diagnosis == sentence(m) for m in exercise.mutants)


def test_a_mixture_of_two_mistakes_names_the_first():
    """Each result is matched by itself, so that a mistake in dg does not hide the one in dx."""
    spec = importlib.import_module("exercises.rmsnorm_backward")

    def both(dout, x, g, eps):
        r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
        return r * dout * g, np.mean(dout * x * r, axis=(0, 1))

    assert check("rmsnorm-backward", both).diagnosis == sentence(spec.no_correction)


def test_a_mistake_nobody_foresaw_is_described():
    def tripled(*args):
        dx, dg = right(*args)
        return 3 * dx, dg

    verdict = check("rmsnorm-backward", tripled)
    assert not verdict.diagnosis and "3 times the right one" in repr(verdict)
    assert "expected" in verdict.table[0] and "got" in verdict.table[0]
    assert 'hint("rmsnorm-backward")' in repr(verdict)


# ---- the specs themselves ----


@pytest.mark.parametrize("id", IDS)
def test_a_spec_is_complete(id):
    exercise = exercises.load(id)
    assert exercise.id == id and len(exercise.hints) >= 3
    assert exercise.points > 0 and 1 <= exercise.stars <= 3 and exercise.minutes > 0
    chapter = (ROOT / "chapters" / f"{exercise.chapter}.md").read_text()
    assert f":label: ex-{id}\n" in chapter and f'check("{id}"' in chapter
    stars = re.search(rf"\{{exercise\}} .* (★+)\n:label: ex-{id}\n", chapter)[1]
    prompt = re.search(rf":label: ex-{id}\n(.*?)\n```", chapter, flags=re.DOTALL)[1]
    said = [int(n) for n in re.search(r"[Aa]bout (\d+)\s+minutes,\s+(\d+)\s+points?\b", prompt).groups()]
    assert (len(stars), *said) == (exercise.stars, exercise.minutes, exercise.points)


@pytest.mark.parametrize("id", CODE)
def test_a_spec_for_code_is_complete(id):
    exercise = exercises.load(id)
    assert len(exercise.mutants) >= 5 and len(exercise.variants) >= 2
    assert (exercise.loss is None) == (exercise.large is None)
    sentences = [sentence(m) for m in exercise.mutants]
    assert all(sentences) and len(set(sentences)) == len(sentences)
    assert all(sentence(v) for v in exercise.variants)
    sizes = [sum(np.size(a) for a in args) for args in exercise.cases(np.random.default_rng(0))]
    assert sizes == sorted(sizes), "cases must ascend"


def test_the_exercise_in_the_contributors_guide_is_certified(monkeypatch):
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    code = re.search(r"^```python\n(.*?)^```", guide, flags=re.DOTALL | re.MULTILINE)[1]
    module = types.ModuleType("exercises.relu_backward")
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    rows = certify("relu-backward", SEEDS)
    assert len(rows) == 7
    for row in rows:
        assert not row.misjudged, (row.name, row.misjudged[0])


# ---- answers that are no answer ----


def stub(dout, x, g, eps):
    dx = ...
    dg = ...
    return dx, dg


def raises_not_implemented(dout, x, g, eps):
    raise NotImplementedError


def no_return(dout, x, g, eps):
    right(dout, x, g, eps)


def test_an_answer_that_is_half_done_is_an_attempt():
    def one_layout(x, cos, sin, layout):
        if layout == "half":
            return None
        T, out = x.shape[2], np.empty_like(x)
        out[..., ::2] = x[..., ::2] * cos[:T] - x[..., 1::2] * sin[:T]
        out[..., 1::2] = x[..., ::2] * sin[:T] + x[..., 1::2] * cos[:T]
        return out

    verdict = check("rope", one_layout)
    assert verdict.status == "not yet" and "Right on the first 2 cases; x [1, 1, 2, 4]" in repr(verdict), verdict


@pytest.mark.parametrize("answer", [stub, raises_not_implemented, no_return, lambda *a: ..., None, ...])
def test_not_attempted(answer):
    verdict = check("rmsnorm-backward", answer)
    assert verdict.status == "not attempted" and not verdict and verdict.points == 0
    assert len(repr(verdict).splitlines()) <= 4


def typo(dout, x, g, eps):
    r = 1.0
    return undefined * r, g  # noqa: F821


def half_done(dout, x, g, eps):
    return right(dout, x, g, eps)[0], ...


def dots_in_the_middle(dout, x, g, eps):
    dz = ...
    return 2 * dz, g


def view(dout, x, g, eps):
    dx, dg = right(dout, x, g, eps)
    dout[...] = dx
    return dout, dg


def shares(dout, x, g, eps):
    return dout.reshape(dout.shape), right(dout, x, g, eps)[1]


def mutates(dout, x, g, eps):
    answer = right(dout, x, g, eps)
    x += 1
    return answer


def of(change):
    """The right answer, changed."""
    return lambda dout, x, g, eps: change(*right(dout, x, g, eps))


@pytest.mark.parametrize(
    "answer, said",
    [
        (typo, "NameError: name 'undefined' is not defined at line"),
        (half_done, "dx agrees here; dg is still open"),
        (dots_in_the_middle, "A `...` is still in your code at line"),
        (of(lambda dx, dg: [dx, dg]), "returned a list; return a tuple: `dx, dg`"),
        (of(lambda dx, dg: dx), "returned one array of shape (1, 2, 3); return a tuple"),
        (of(lambda dx, dg: (dx, dg, dg)), "returned 3 values; expected are 2"),
        (of(lambda dx, dg: (dx.tolist(), dg)), "dx is a list; expected is an array of shape (1, 2, 3)"),
        (of(lambda dx, dg: (None, dg)), "dg agrees here; dx is still open"),
        (of(lambda dx, dg: (dx[0], dg)), "dx has shape (2, 3); expected is (1, 2, 3)"),
        (of(lambda dx, dg: (dx, dg[None])), "dg has shape (1, 3); expected is (3,)"),
        (of(lambda dx, dg: (dx * np.nan, dg)), "dx has NaN at 6 of 6 entries"),
        (of(lambda dx, dg: (dx, dg / 0)), "dg has inf at 3 of 3 entries"),
        (
            of(lambda dx, dg: (dx.astype(np.float64), dg)),
            "The numbers are right here, but dx is float64, the inputs",
        ),
        (of(lambda dx, dg: (dx.astype(np.float32), dg)), "dx is float32, the inputs are float64"),
        (of(lambda dx, dg: (dx.astype(object), dg)), "dx is object"),
        (of(lambda dx, dg: (dx.astype(complex), dg)), "dx is complex128"),
        (of(lambda dx, dg: (dx.astype(np.float32).astype(dx.dtype), dg)), "right to about 7 of float64's 15 digits"),
        (of(lambda dx, dg: (dx, dg * 0)), "dx agrees here; dg is zero everywhere"),
        (view, "changes its input dout in place"),
        (shares, "dx shares the memory of dout"),
        (mutates, "changes its input x in place"),
        (lambda dout, x: (dout, x), "it will be called with `(dout, x, g, eps)`"),
        (lambda x, g, dout, eps: right(dout, x, g, eps), "keep the order `(dout, x, g, eps)`"),
        (np.ones(3), "Pass the function itself, without calling it: this is a ndarray"),
        (lambda *a: exit(), "called exit()"),
        (lambda *a: (lambda f: f(f))(lambda f: f(f)), "RecursionError"),
        (lambda *a: (yield), "returned a generator"),
        (ops.rmsnorm_backward, "the library's own"),
        (lambda dout, x, g, eps: ops.rmsnorm_backward(dout, ops.rmsnorm_forward(x, g, eps)[1]), "the library's own"),
    ],
)
def test_a_bad_answer_gets_one_helpful_sentence(answer, said):
    verdict = check("rmsnorm-backward", answer)
    assert verdict.status == "not yet"
    assert said in repr(verdict), verdict
    assert len(repr(verdict).splitlines()) <= 9


def spoiled(exercise, spoil):
    """The exercise's first variant with its results, as a tuple, put through `spoil(results, args)`."""

    def answer(*args):
        value = exercise.variants[0](*args)
        return spoil(value if isinstance(value, tuple) else (value,), args)

    answer.__module__ = "exercises.spoiled"  # else the exercise's own functions are closed to it
    return answer


def one(results):
    return results if len(results) > 1 else results[0]


def first_spoiled(change):
    """Change the first result and leave the others."""
    return lambda results, args: one((change(results[0]), *results[1:]))


def view_of_an_input(results, args):
    same = [a for a in args if isinstance(a, np.ndarray) and (a.shape, a.dtype) == (results[0].shape, results[0].dtype)]
    return one((same[0][...] if same else results[0], *results[1:]))


BOTH = (np.float64, np.float32)
SPOILED = {
    "raises": (lambda results, args: {}["missing"], BOTH, "raised KeyError"),
    "returns None": (lambda results, args: None, BOTH, "returned None"),
    "returns a list": (lambda results, args: [r.tolist() for r in results], BOTH, "a list"),
    "a wrong shape": (first_spoiled(lambda r: r[None]), BOTH, "has shape"),
    "NaN": (first_spoiled(lambda r: r * np.nan), BOTH, "has NaN at"),
    "the wrong dtype": (
        first_spoiled(lambda r: r.astype(np.float64)),
        (np.float32,),
        "The numbers are right here, but",
    ),
    "a view of an input": (view_of_an_input, BOTH, "shares the memory of"),
    "a string": (first_spoiled(str), BOTH, "is a str; expected is an array"),
}


@pytest.mark.parametrize("id", [id for id in CODE if exercises.load(id).rounding])
@pytest.mark.parametrize("how", SPOILED)
def test_every_exercise_on_arrays_says_what_is_wrong_with_a_result(id, how):
    exercise = exercises.load(id)
    spoil, dtypes, said = SPOILED[how]
    verdict = judge(exercise, spoiled(exercise, spoil), 0, dtypes)
    if how == "a view of an input" and verdict:  # no input has the shape of a result
        assert id in ("tied-gradient", "cached-attention", "trace-the-stream", "padded-mean-loss", "induction-score")
        return
    assert not verdict and said in repr(verdict), verdict
    assert len(verdict.lines) + bool(verdict.diagnosis) <= 3


def test_the_line_of_an_error_is_the_learners_own():
    def wrong_axis(dout, x, g, eps):
        return np.sum(dout, axis=7), g

    verdict = check("rmsnorm-backward", wrong_axis)
    assert f"at line {wrong_axis.__code__.co_firstlineno + 1}, `return np.sum(dout, axis=7), g`" in repr(verdict)


@pytest.mark.parametrize(
    "answer, said",
    [
        (lambda D, F: (..., ..., ..., ...), "Not attempted"),
        (lambda D, F: (4 * D * D, ..., ..., ...), "swiglu, classic and more are still open"),
        (lambda D, F: (5 * D * D, 3 * D * F, 8 * D * D, "same"), "attention has the wrong value"),
        (lambda D, F: (4 * D * D, "many", 8 * D * D, "same"), "swiglu is a str; expected is a number"),
        (lambda D, F: (4 * D * D, 3 * D * F, 8 * D * D, True), "more is a bool; expected is a string"),
        (lambda D, F: (4 * D * D, 3 * D * F, 8 * D * D, "gelu"), 'expected   "swiglu"'),
        (lambda D, F: (np.full(2, 4), 3 * D * F, 8 * D * D, "same"), "attention is one array of shape (2,)"),
        (account.count_block, "the library's own"),
        ((36, 108, 72, "swiglu"), "Pass the function itself"),
    ],
)
def test_counts(answer, said):
    assert said in repr(check("count-block", answer))


# ---- analytic means analytic; nothing is kept ----


def loss(dout, x, g, eps):
    return (dout * g * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)).sum()


def slopes(at, h, dout, x, g, eps):
    """Central differences of the loss, or a complex step where h is 0."""
    work = [dout, x, g]
    work[at] = a = work[at].astype(complex if h == 0 else np.float64)
    found = np.empty(a.shape)
    for index in np.ndindex(*a.shape):
        kept = a[index]
        if h == 0:
            a[index] = kept + 1e-30j
            found[index] = loss(*work, eps).imag / 1e-30
        else:
            a[index] = kept + h
            up = loss(*work, eps)
            a[index] = kept - h
            found[index] = (up - loss(*work, eps)) / (2 * h)
        a[index] = kept
    return found.astype(x.dtype)


def test_finite_differences_are_no_derivation():
    verdict = check("rmsnorm-backward", lambda *args: (slopes(1, 1e-5, *args), slopes(2, 1e-5, *args)))
    assert verdict.diagnosis.startswith("That is what finite differences give")
    assert "of float64's 15 digits" in repr(verdict)


def test_a_complex_step_is_none_either():
    verdict = check("rmsnorm-backward", lambda *args: (slopes(1, 0, *args), slopes(2, 0, *args)))
    assert "far too slow on dout [2, 64, 256]" in repr(verdict), verdict

    def along_rows(dout, x, g, eps):  # all rows at once: exact, and quick enough
        dx = np.empty(x.shape)
        for i in range(x.shape[-1]):
            z = x.astype(complex)
            z[..., i] += 1e-30j
            out = g * z / np.sqrt((z * z).mean(axis=-1, keepdims=True) + eps)
            dx[..., i] = (dout * out).sum(axis=-1).imag / 1e-30
        return dx.astype(x.dtype), right(dout, x, g, eps)[1]

    assert "This takes a complex step" in repr(check("rmsnorm-backward", along_rows))


def test_a_constant_of_few_digits_is_noticed():
    verdict = check("rmsnorm-backward", of(lambda dx, dg: (dx * dx.dtype.type(1 + 1e-9), dg)))
    assert "Does a step run in float32, has a constant few digits," in repr(verdict)


def test_what_is_kept_between_calls_is_noticed():
    total = []

    def adds_up(dout, x, g, eps):
        dx, dg = right(dout, x, g, eps)
        total.append(dg)
        return dx, sum(d for d in total if d.shape == dg.shape and d.dtype == dg.dtype)

    assert "Does it keep something from one call to the next" in repr(check("rmsnorm-backward", adds_up))
    buffers = {}

    def overwrites(dout, x, g, eps):
        dx, dg = right(dout, x, g, eps)
        buffer = buffers.setdefault((dx.shape, dx.dtype), np.empty_like(dx))
        buffer[...] = dx
        return buffer, dg

    assert "changes what it returned before" in repr(check("rmsnorm-backward", overwrites))


def test_two_mistakes_are_named_one_after_the_other():
    """A second mistake that shows in other cases does not hide the first."""

    def interleaved_always_and_put_in_halves(x, cos, sin, layout):
        T, a, b = x.shape[2], x[..., ::2], x[..., 1::2]
        return np.concatenate([a * cos[:T] - b * sin[:T], a * sin[:T] + b * cos[:T]], axis=-1)

    assert "They have to go back to their places" in repr(check("rope", interleaved_always_and_put_in_halves))


# ---- check never raises, and leaves everything as it was ----


class Hostile:
    """Raises on nearly everything that can be done to it."""

    def __getattribute__(self, name):
        raise RuntimeError("no")

    def __call__(self, *args):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    __repr__ = __str__ = __bool__ = __len__ = __iter__ = __array__ = __hash__ = __call__


class HostileError(Exception):
    def __str__(self):
        raise RuntimeError("no")


def raise_hostile(*args):
    raise HostileError


ODD = [0, 1.5, "text", [], {}, (), object(), Hostile(), Hostile, int, print, np, float("nan"), np.zeros(0), type]
ODD += [lambda *a: Hostile(), lambda *a: (Hostile(), Hostile()), lambda *a: ("a",) * len(a), raise_hostile]
ODD += [lambda *a: (np.array(Hostile, dtype=object),) * 2, lambda *a: (np.ma.masked, np.zeros(3))]
ODD += [lambda *a: (b"", b""), lambda *a: (1j,) * 4, lambda *a: (10**400,) * 4, lambda *a: (np.array("x"),) * 4]


@pytest.mark.parametrize("id", [*IDS, "no-such"])
@pytest.mark.parametrize("at", range(len(ODD)))  # by number: pytest would look at the objects themselves
def test_check_never_raises(id, at):
    verdict = check(id, ODD[at])
    assert verdict.status in ("not yet", "not attempted", "unknown")
    assert repr(verdict) and verdict._repr_html_()


def test_check_never_raises_on_an_id():
    for id in ("", "_", "spec", "../spec", None, 3, [], {}, Hostile()):
        assert check(id, right).status == "unknown" and hint(id).status == "unknown"


def test_an_interrupted_check_is_stopped():
    def interrupted(*args):
        raise KeyboardInterrupt

    verdict = check("rmsnorm-backward", interrupted)
    assert verdict.status == "stopped" and "interrupted" in repr(verdict)
    x = np.ones((1, 2, 3))
    _, cache = ops.rmsnorm_forward(x, np.ones(3))
    assert ops.rmsnorm_backward(x, cache)[0].shape == x.shape, "the library is open again"


def test_an_unknown_id_lists_close_ones():
    assert 'Did you mean "rmsnorm-backward"?' in repr(check("rmsnorm_backward", right))
    assert "The id comes first, in quotes" in repr(check(right, "rmsnorm-backward"))
    assert '"count-block"' in repr(check("xyzzy", right)) and '"rmsnorm-backward"' in repr(hint("xyzzy"))


def test_nothing_of_the_learners_is_changed():
    mine = np.arange(6.0)
    errors, filters, state = np.geterr(), list(warnings.filters), np.random.get_state()[1].copy()

    def answer(dout, x, g, eps):
        np.seterr(all="raise")
        dout += 1  # spoils its copy, not the case
        return mine, mine

    check("rmsnorm-backward", answer)
    assert check("rmsnorm-backward", right)
    assert np.array_equal(mine, np.arange(6.0))
    assert np.geterr() == errors and list(warnings.filters) == filters
    assert np.array_equal(np.random.get_state()[1], state)


def test_the_failing_case_can_be_run_again():
    verdict = check("rmsnorm-backward", of(lambda dx, dg: (dx + 1, dg)))
    assert list(verdict.case) == ["dout", "x", "g", "eps"]
    assert right(**verdict.case)[0].shape == (1, 2, 3)


# ---- what is shown ----


def test_hints_come_one_at_a_time(monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", str(tmp_path / "progress.json"))
    ladder = exercises.load("rmsnorm-backward").hints
    assert [hint("rmsnorm-backward").text for _ in range(len(ladder) + 1)] == [*ladder, ladder[-1]]
    assert hint("rmsnorm-backward", 1).text == ladder[0] and "Hint 1 of" in repr(hint("rmsnorm-backward", 1))


def test_a_pass_says_points_and_is_true():
    verdict = check("rmsnorm-backward", right)
    assert verdict and verdict.points == verdict.out_of == 3 and "3 points" in repr(verdict)


def test_html_is_escaped():
    def script(*args):
        raise ValueError("<script>alert(1)</script>")

    card = check("rmsnorm-backward", script)._repr_html_()
    assert "<script>" not in card and "&lt;script&gt;" in card and "Not yet" in card


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, timeout=60, check=True
    )
    return done.stdout.decode("utf-8", "replace")


def test_a_script_prints_the_verdict_on_any_terminal():
    code = "from exercises import check, hint; check('count-block'); hint('count-block')"
    assert "○ Not attempted" in run(code, PYTHONIOENCODING="utf-8")
    assert "? Not attempted" in run(code, PYTHONIOENCODING="cp1252")


def test_it_needs_numpy_alone():
    code = "import exercises, sys; exercises.check('rmsnorm-backward', lambda *a: 1); print(*sys.modules)"
    loaded = run(code, PYTHONIOENCODING="utf-8").split()
    assert "numpy" in loaded and not {"IPython", "matplotlib", "scipy", "ipywidgets"} & set(loaded)
