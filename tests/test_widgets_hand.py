"""The block by hand: its arithmetic in node against scratch, what it says, what Python hands it, bad arguments."""

import json
import math
import re

import numpy as np
import pytest

from scratch import example
from scratch.ops import gelu_forward, layernorm_forward, linear_forward, rmsnorm_forward, softmax_forward
from tests import node
from widgets.block_by_hand import STEPS, block_by_hand, cases, run

NAMES = [step[0] for step in STEPS]
NORMS = ("layernorm", "rmsnorm")
NUMBER = r"−?\d+(?:\.\d+)?"


def ask(code, questions):
    """What a piece of JavaScript with `script` returns for each question, `it`."""
    return node.ask("block_by_hand_steps", f"it.map((it) => {{ {code} }})", questions)


def by_scratch(x, tree, norm="layernorm", replaced=None):
    """Every array of the block, operation by operation; `replaced(name, array)` may put in other numbers."""
    put = replaced or (lambda name, array: array)
    attn, ffn = tree["attn"], tree["ffn"]

    def normed(array, part):
        if norm == "rmsnorm":
            return rmsnorm_forward(array, tree[part]["g"])[0]
        return layernorm_forward(array, tree[part]["g"], tree[part]["b"])[0]

    it = {"x": x}
    it["n1"] = put("n1", normed(x, "norm1"))
    for name in "qkv":
        it[name] = put(name, linear_forward(it["n1"], attn[f"w{name}"])[0])
    it["s"] = put("s", it["q"] @ it["k"].T / math.sqrt(it["q"].shape[1]))
    it["m"] = put("m", np.where(np.tri(len(x), dtype=bool), it["s"], -np.inf))
    it["p"] = put("p", softmax_forward(it["m"])[0])
    it["o"] = put("o", it["p"] @ it["v"])
    it["a"] = put("a", linear_forward(it["o"], attn["wo"])[0])
    it["u"] = put("u", x + it["a"])
    it["n2"] = put("n2", normed(it["u"], "norm2"))
    it["h"] = put("h", linear_forward(it["n2"], ffn["w1"])[0])
    it["c"] = put("c", gelu_forward(it["h"])[0])
    it["f"] = put("f", linear_forward(it["c"], ffn["w2"])[0])
    it["y"] = put("y", it["u"] + it["f"])
    return it


def blocks(count=24):
    """Random blocks of unequal sizes, streams of all scales, and one as wide as the course's own."""
    rng = np.random.default_rng(10)
    for at in range(count):
        D, Dh, F = (4, 4, 8) if at % 4 == 0 else rng.choice(range(2, 12), 3, replace=False)
        T = 3 if at % 4 == 0 else rng.integers(1, 7)
        tree = {
            "norm1": {"g": rng.standard_normal(D), "b": rng.standard_normal(D)},
            "attn": {name: rng.standard_normal((D, Dh)) for name in ("wq", "wk", "wv")},
            "norm2": {"g": rng.standard_normal(D), "b": rng.standard_normal(D)},
            "ffn": {"w1": rng.standard_normal((D, F)), "w2": rng.standard_normal((F, D))},
        }
        tree["attn"]["wo"] = rng.standard_normal((Dh, D))
        yield rng.standard_normal((T, D)) * 10.0 ** rng.integers(-3, 4), tree, NORMS[at % 2]


def question(x, tree, norm, **more):
    """A block as the script gets it."""
    widget = block_by_hand(x, tree, norm=norm)
    state = {name: getattr(widget, name) for name in ("data", "x", "weights", "norm", "row")}
    return state | {"options": {"norm": norm, "eps": widget.data["eps"], **more}, **more}


def same(got, want):
    """Equal to 1e-12 of the largest number."""
    got, want = np.array(got, dtype=float), np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * np.abs(want[np.isfinite(want)]).max(initial=0))


RUN = "return script.run(it.data.steps, it.x, it.weights, it.options).values;"


def test_every_step_is_scratchs():
    given = list(blocks())
    for (x, tree, norm), values in zip(given, ask(RUN, [question(*block) for block in given]), strict=True):
        assert [name for name in values if name in NAMES and name != "x"] == NAMES[1:]
        for name, want in (by_scratch(x, tree, norm) | run(x, tree, norm)).items():  # and block_forward's
            same(values[name], want)


def test_an_override_holds_from_there_on():
    rng = np.random.default_rng(11)
    given, questions, expected = list(blocks(40)), [], []
    for at, (x, tree, norm) in enumerate(given):
        name = NAMES[1 + at % 15]
        shape = by_scratch(x, tree, norm)[name].shape
        i, j, value = *(int(rng.integers(size)) for size in shape), rng.standard_normal() * (at % 3)

        def replaced(step, array, name=name, i=i, j=j, value=value):
            if step == name:
                array[i, j] = value
            return array

        questions.append(question(x, tree, norm, overrides={f"{name},{i},{j}": value}))
        expected.append((name, by_scratch(x, tree, norm, replaced), by_scratch(x, tree, norm)))
    code = RUN.replace(".values", "")
    for answer, (name, want, before) in zip(ask(code, questions), expected, strict=True):
        for step in NAMES:
            same(answer["values"][step], want[step])
        same(answer["computed"][name], before[name])  # what stood there is still known
    assert {name for name, *_ in expected} == set(NAMES[1:])


CASES = """return ["times ten", "last token", "no attention"].map((name) => {
  const { x, weights } = script.inCase(name, it, it.data.other);
  const base = script.run(it.data.steps, it.x, it.weights, it.options).values;
  const { values } = script.run(it.data.steps, x, weights, it.options);
  const marks = it.data.steps.map(({ name }) => script.differences(base[name], values[name]).map(script.compared));
  const said = it.data.steps.map((step) => script.change(step, base, values, it.data.tokens));
  return { values, marks, said, verdict: script.verdict(name, it.data.steps, base, values, it.data.tokens) };
});"""


def mark(size):
    """How a change of this size is marked."""
    return "=" if size == 0 else "≈" if size < 0.0005 else "≠"


def test_the_three_cases_are_scratchs_and_their_rows_are_named():
    given = [(x, tree, norm) for x, tree, norm in blocks() if len(x) > 1]
    for (x, tree, norm), answers in zip(given, ask(CASES, [question(*block) for block in given]), strict=True):
        plain = by_scratch(x, tree, norm)
        tokens = [f"t{t + 1}" for t in range(len(x))]
        for answer, (x_case, tree_case) in zip(answers, cases(x, tree, {"row": -x[-1]}, 1).values(), strict=True):
            want = by_scratch(x_case, tree_case, norm)
            for at, name in enumerate(NAMES):
                same(answer["values"][name], want[name])
                with np.errstate(invalid="ignore"):
                    change = np.nan_to_num(np.abs(want[name] - plain[name])).max(axis=-1)
                if np.abs(change - 0.0005).min() > 1e-9 and not ((0 < change) & (change < 1e-11)).any():
                    assert answer["marks"][at] == [mark(size) for size in change]
                    moved = [token for token, size in zip(tokens, change, strict=True) if size >= 0.0005]
                    assert re.findall(r"t\d", answer["said"][at]) == moved
            assert answer["verdict"].startswith(answer["said"][-1])


def test_the_cases_of_the_example_are_explained():
    times, last, silent = ask(CASES, [question(None, None, "layernorm")])[0]
    assert "y differs in row cat, by" in times["verdict"]
    assert "three decimals: n₁, q, k, v, s, m, p, o and a. The norm takes the factor away" in times["verdict"]
    assert "y differs in row sees, by" in last["verdict"]
    assert "from m on they do not change at all" in last["verdict"]
    assert [row for row in last["marks"] if row[:2] != ["=", "="]] == [last["marks"][NAMES.index("s")]]
    assert "y differs in rows the, cat and sees, by" in silent["verdict"]
    assert "to the last bit: x, n₁, q, k, v, s, m, p and o. Each row of y now comes" in silent["verdict"]


def test_an_explanation_that_does_not_hold_is_not_given():
    x = np.array([[1e-6, -2e-6, 3e-6, 0], [2e-6, 1e-6, 1e-6, 4e-6]])  # eps is larger than these squares
    tree = example.params()["blocks"][0]
    ahead = question(None, None, "layernorm", overrides={"m,0,2": 3.0})  # the first token looks at the last
    loud = question(None, None, "layernorm", overrides={"a,0,0": 2.0})
    flat = example.params()["blocks"][0]
    flat["attn"]["wv"] *= 0
    unheard = question(x, flat, "layernorm")
    tiny, seeing, speaking, silent = ask(CASES, [question(x, tree, "rmsnorm"), ahead, loud, unheard])
    assert "norm takes" not in tiny[0]["verdict"]
    assert "mask hides" not in seeing[1]["verdict"]
    assert "y differs in rows the and sees" in seeing[1]["verdict"]
    assert "alone" not in speaking[2]["verdict"]
    assert silent[2]["verdict"].endswith("y now comes from its own row of x alone.")


def evaluated(line):
    """The number that a line of arithmetic gives."""
    line = line.split(": ")[-1].split(", after")[0].replace("−", "-").replace("·", "*").replace("½", "0.5")
    line = re.sub(r"√(\d+)", r"sqrt(\1)", line.replace("√(", "sqrt(").replace("³", "**3"))
    line = re.sub(r"e\^(\(-[\d.]+\)|[\d.]+)", r"exp(\1)", line)
    return eval(line, {"sqrt": math.sqrt, "exp": math.exp, "tanh": math.tanh})


def test_the_arithmetic_of_an_entry_gives_the_entry():
    code = """const { values } = script.run(it.data.steps, it.x, it.weights, it.options);
      return it.data.steps.map((step) => values[step.name].map((row, i) => row.map((_, j) =>
        script.spelled(step, i, j, values, it.options))));"""
    given = [(x / np.abs(x).max(), tree, norm) for x, tree, norm in blocks(8)]
    given.append((np.array(question(None, None, "layernorm")["x"]), example.params()["blocks"][0], "layernorm"))
    for (x, tree, norm), lines in zip(given, ask(code, [question(*block) for block in given]), strict=True):
        want = by_scratch(x, tree, norm)
        for name, step in zip(NAMES, lines, strict=True):
            for (i, j), value in np.ndenumerate(want[name]):
                line = step[i][j]
                if name == "x":
                    assert line == "It comes in, nothing is computed yet: x"
                elif name == "m" and j > i:
                    assert line == "A later token is hidden: m"
                elif name == "m":
                    assert float(re.findall(NUMBER, line)[0].replace("−", "-")) == pytest.approx(value, abs=5.1e-4)
                else:
                    assert evaluated(line) == pytest.approx(value, rel=0.02, abs=0.02), (name, line)


def test_what_is_seen_is_computed():
    code = """const { values } = script.run(it.data.steps, it.x, it.weights, it.options);
      return it.data.steps.map((step) => script.seen(step, values, it.data.tokens));"""
    given = [block for block in blocks() if len(block[0]) > 1]
    for (x, tree, norm), said in zip(given, ask(code, [question(*block) for block in given]), strict=True):
        it, said = by_scratch(x, tree, norm), dict(zip(NAMES, said, strict=True))

        def numbers(name, said=said):
            return [float(text.replace("−", "-")) for text in re.findall(rf"(?<![t\d]){NUMBER}", said[name])]

        close = {"abs": 6e-4, "rel": 1e-3}
        lengths = np.linalg.norm(x, axis=1)
        if lengths.max() < 1e5:
            assert numbers("x") == pytest.approx([lengths.max()], **close)
        for name in ("q", "k", "v", "o", "a", "h", "f"):
            assert numbers(name) == pytest.approx([it[name].max()], **close)
            assert f"t{it[name].max(axis=1).argmax() + 1}" in said[name]
        for name in ("n1", "n2"):
            means, sizes = it[name].mean(axis=1), np.sqrt((it[name] ** 2).mean(axis=1))
            assert {*numbers(name)} == {*np.round([means.min(), means.max(), sizes.min(), sizes.max()], 3)}
        assert numbers("s") == pytest.approx([it["s"][-1].max()], **close)
        T = len(x)
        assert numbers("m") == [T * (T - 1) / 2, T * T]
        assert numbers("p") == pytest.approx([1, it["p"][-1].max(), 1], **close)
        negative = it["c"][it["h"] < 0]
        ends = [negative.min(), negative.max()] if len({*negative.round(3)}) > 1 else [*negative[:1]]
        assert numbers("c") == pytest.approx([len(negative), it["h"].size, *ends], **close)
        for name, added in (("u", "a"), ("y", "f")):
            moved = np.linalg.norm(it[added], axis=1)
            assert numbers(name)[0] == pytest.approx(moved.max(), **close)
            assert f"t{moved.argmax() + 1}" in said[name]


def test_what_python_sets_wrongly_is_said_in_one_sentence():
    good = question(None, None, "layernorm", overrides={"q,0,2": 1.5})
    bad = {
        "x must be 3 × 4 finite numbers": {"x": [[1, 2], [3, 4]]},
        "x must be 3 × 4": {"x": [[1, 2, 3, None]] * 3},
        'weights["attn.wq"] must be 4 × 4': {"weights": good["weights"] | {"attn.wq": [[1]]}},
        'weights["ffn.w2"] must be 8 × 4': {"weights": {k: v for k, v in good["weights"].items() if k != "ffn.w2"}},
        'overrides has "z,0,0"': {"overrides": {"z,0,0": 1}},
        'overrides has "q,3,0"': {"overrides": {"q,3,0": 1}},
        'overrides has "q,0"': {"overrides": {"q,0": 1}},
        'overrides has "q,-1,0"': {"overrides": {"q,-1,0": 1}},
        'overrides has "p,0,0"': {"overrides": {"p,0,0": "much"}},
        "x must be 3 × 4 finite": {"x": [None] * 3},
        'norm is "batchnorm"': {"norm": "batchnorm"},
    }
    said = ask("return script.unfit(it, it.data);", [good, *(good | change for change in bad.values())])
    assert said[0] == ""
    for start, sentence in zip(bad, said[1:], strict=True):
        assert sentence.startswith(start) and sentence.endswith(".")


def test_at_first_it_is_the_block_of_the_chapter():
    widget, tree = block_by_hand(), example.params()["blocks"][0]
    x = example.params()["embed"]["table"][example.ids()[0]]
    assert widget.x == x[:3].tolist() and widget.data["tokens"] == ["the", "cat", "sees"]
    leaves = {f"{part}.{name}": np.atleast_2d(w).tolist() for part in tree for name, w in tree[part].items()}
    assert widget.weights == leaves
    whole = run(x, tree)
    for name, rows in run(x[:3], tree).items():  # what the chapter shows for its first three words
        np.testing.assert_allclose(rows, whole[name][:3, : rows.shape[1]], atol=1e-12)


def test_it_is_small_enough_for_a_page():
    state = block_by_hand().get_state()
    assert len(json.dumps({name: value for name, value in state.items() if name != "layout"})) < 120_000


def test_the_words_hold_the_numbers_and_the_cases():
    rng = np.random.default_rng(12)
    tree = example.params()["blocks"][0]
    x = rng.standard_normal((3, 4))
    words = block_by_hand(x, tree, tokens=("<b>", "cat", "sat")).words
    rows = re.findall(r"<tr><th scope='row'>(\w)</th>(.*?)</tr>", words)
    assert [name for name, _ in rows] == ["x", "p", "a", "u", "f", "y"]
    for (name, cells), want in zip(rows, run(x, tree).values(), strict=True):
        got = [cell.replace("−", "-").split() for cell in re.findall(r"<td>(.*?)</td>", cells)]
        np.testing.assert_allclose(np.array(got, dtype=float), want, atol=5.1e-4, err_msg=name)
    assert "<b>" not in words and "&lt;b&gt;" in words
    assert "cat ten times as long: y changes in row cat." in words
    assert "Only the last token changed (its row with the other sign): y changes in row sat." in words
    assert "Attention removed: y changes in rows &lt;b&gt;, cat and sat." in words


def changed(part, name, value):
    """The example's tree with one leaf changed, or taken away."""
    tree = example.params()["blocks"][0]
    tree[part] = {k: v for k, v in (tree[part] | {name: value}).items() if v is not None}
    return tree


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"norm": "batchnorm"}, "norm='batchnorm', expected one of 'layernorm', 'rmsnorm'"),
        ({"x": [[1.0]]}, "x must be a NumPy array of floats, got list"),
        ({"x": np.ones(4)}, r"x must have 2 axes, got shape \(4,\)"),
        ({"x": np.ones((7, 4))}, r"x has shape \(7, 4\), expected at most 6 rows, 16 columns"),
        ({"x": np.full((3, 4), np.nan)}, "x holds a number that is not finite"),
        ({"x": np.ones((3, 5))}, r"norm1.g|g has shape \(4,\)"),
        ({"x": np.ones((3, 4)), "tokens": ("a",)}, "tokens has 1 names, expected 3"),
        ({"params": changed("attn", "wk", None)}, "params has no attn.wk"),
        ({"params": changed("attn", "bq", np.ones(4))}, "attn has 'bq', expected wq, wk, wv, wo alone"),
        ({"params": changed("attn", "wq", np.ones((4, 17)))}, "attn.wq must be finite, with at most 16 columns"),
        ({"params": changed("ffn", "w1", np.full((4, 8), np.inf))}, "ffn.w1 must be finite"),
        ({"params": changed("attn", "wv", np.ones((4, 3)))}, r"wv has shape \(4, 3\), expected \(4, 4\)"),
        ({"params": changed("ffn", "w2", np.ones(4))}, "w2 must have 2 axes"),
    ],
)
def test_bad_arguments_give_one_clear_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        block_by_hand(**arguments)


def test_a_block_without_biases_or_in_float32_is_shown_too():
    tree = changed("norm1", "b", None)
    assert block_by_hand(params=tree, norm="rmsnorm").weights["norm1.b"] == [[0, 0, 0, 0]]
    assert block_by_hand(np.ones((2, 4), dtype=np.float32)).data["sizes"] == {"T": 2, "D": 4, "Dh": 4, "F": 8}
