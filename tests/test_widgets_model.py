"""The attention explorer and the residual stream: their numbers, in Python and in their scripts, against scratch."""

import json
import re

import numpy as np
import pytest

from scratch.model import loss_forward, model_forward
from scratch.ops import softmax_forward
from scratch.trace import gradient_norms, logit_lens, trace
from tests.node import ask
from tests.toy_model import Letters, toy_model
from widgets.attention_explorer import attention_explorer, habits
from widgets.residual_stream import number, residual_stream, shown

SENTENCES = ["abcab", "a cow is", "ooo", "abcdefghijklmno abcde"]
MODELS = {
    "plain": {},
    "sharp": {"scale": 3.0},
    "encoder": {"causal": False, "n_heads": 3, "n_kv_heads": 3, "n_layers": 2},
    "post-norm": {"form": "post-norm", "seed": 1},
    "parallel": {"form": "parallel", "pos": "learned", "norm": "layernorm", "ffn": "gelu", "tied": False},
}


def maps_of(text, params, config):
    """[L, H, T, T], attention's weights."""
    return trace(np.array([Letters().encode(text).ids]), params, config).maps[:, 0]


def share(p):
    """A share as the widgets show it."""
    return f"{100 * p:.1f}%" if p > 0.0005 else "<0.1%"


# ---- the attention explorer ----

ALL_WEIGHTS = """it.sentences.map((sentence) => [false, true].map((without) =>
  [...Array(it.layers).keys()].map((layer) => [...Array(it.heads).keys()].map((head) =>
    sentence.pieces.map((_, token) => script.weights(sentence, it, { layer, head, token }, without))))))"""


@pytest.mark.parametrize("name", MODELS)
def test_the_scripts_weights_are_scratchs_with_the_first_token_and_without(name):
    params, config = toy_model(**MODELS[name])
    widget = attention_explorer(params, config, Letters(), SENTENCES)
    found = ask("attention_explorer", ALL_WEIGHTS, widget.data)
    for text, sides in zip(SENTENCES, found, strict=True):
        kept, renormalized = np.array(sides, dtype=float)  # null becomes NaN
        maps = maps_of(text, params, config)
        hidden = np.triu(np.ones(maps.shape[-2:], bool), 1) & config.causal
        assert (np.isnan(kept) == hidden).all()
        assert np.array_equal(kept[~np.isnan(kept)], np.rint(1000 * maps)[..., ~hidden].ravel())
        assert np.isnan(renormalized[..., 0]).all() and (np.isnan(renormalized[..., 1:]) == hidden[:, 1:]).all()
        rows = maps[..., 1 if config.causal else 0 :, 1:]  # a causal model's first row has nothing else
        rows = rows / rows.sum(axis=-1, keepdims=True)
        assert np.array_equal(np.nan_to_num(renormalized[..., -rows.shape[-2] :, 1:]), np.rint(1000 * rows))


def test_the_sharp_model_has_rows_that_leave_next_to_nothing():
    """Without these the test above would not see that the rest is divided before it is rounded."""
    params, config = toy_model(**MODELS["sharp"])
    assert min(maps_of(text, params, config)[..., 1:, 1:].sum(axis=-1).min() for text in SENTENCES) < 1e-6


def test_what_heads_do_is_the_mean_over_the_rows_from_the_third_on():
    params, config = toy_model()
    maps = maps_of("a cow is", params, config)
    known = habits(maps)
    for layer, head in np.ndindex(maps.shape[:2]):
        map = maps[layer, head]
        rows = range(2, len(map))
        wanted = {
            "first": [map[i, 0] for i in rows],
            "before": [map[i, i - 1] for i in rows],
            "itself": [map[i, i] for i in rows],
            "entropy": [-sum(p * np.log2(p) for p in map[i] if p > 0) for i in rows],
        }
        for key, values in wanted.items():
            assert known[key][layer, head] == pytest.approx(np.mean(values), rel=1e-12)


def test_habits_at_their_limits():
    T = 8
    first, even = np.zeros((1, 1, T, T)), np.tri(T)[None, None] / np.arange(1, T + 1)[:, None]
    first[..., 0] = 1
    assert [habits(first)[key].item() for key in ("first", "before", "itself", "entropy")] == [1, 0, 0, 0]
    assert habits(even)["entropy"].item() == pytest.approx(np.log2(np.arange(3, T + 1)).mean())


def test_the_data_holds_what_heads_do_in_the_digits_that_are_shown():
    params, config = toy_model()
    data = attention_explorer(params, config, Letters(), SENTENCES).data
    for text, sentence in zip(SENTENCES, data["sentences"], strict=True):
        known = habits(maps_of(text, params, config))
        for key in ("first", "before", "itself"):
            assert sentence["habits"][key] == [[round(1000 * v) for v in row] for row in known[key].tolist()]
        assert sentence["habits"]["entropy"] == [[round(v, 2) for v in row] for row in known["entropy"].tolist()]
        assert "".join(sentence["pieces"]) == text


def test_the_explorer_in_words():
    params, config = toy_model()
    words = attention_explorer(params, config, Letters(), ["a<&bc"], layer=1, head=2, token=3).words
    row = maps_of("a<&bc", params, config)[1, 2, 3]
    most = "a<&bc"[int(row.argmax())].replace("&", "&amp;").replace("<", "&lt;")
    assert f"In block 2, head 3, the token “b” looks most at “{most}”: {100 * row.max():.1f}%" in words
    assert f"<td>{100 * row[1]:.1f}%</td>" in words and "“a&lt;&amp;bc”" in words and "<&" not in words


@pytest.mark.parametrize("text", ["abcdefgh", "abc"])  # no letter twice
def test_what_the_explorer_says_is_what_the_map_holds(text):
    params, config = toy_model(scale=2.0)
    data = attention_explorer(params, config, Letters(), [text]).data
    maps = maps_of(text, params, config)
    states = [(*state, without) for state in np.ndindex(maps.shape[:3]) for without in (False, True)]
    question = """it.states.map(([layer, head, token, without]) =>
      script.explained(it.data.sentences[0], it.data, { layer, head, token }, without))"""
    said = ask("attention_explorer", question, {"data": data, "states": states})
    known = habits(maps)
    for (layer, head, token, without), sentence in zip(states, said, strict=True):
        row = maps[layer, head, token].copy()
        lost = row[0]
        if without:
            row[0] = 0
            row /= row.sum() or 1
            assert (f"The first token got {share(lost)}" if token else "sees only itself. Without") in sentence
        most = text[int(row.argmax())]
        choices = token + 1 - without
        if choices > 1:
            assert f"“{text[token]}” looks most at “{most}” ({share(row.max())}), then at “" in sentence
        elif choices == 1:
            assert f"“{text[token]}” sees only “{most}” (100.0%)." in sentence
        if choices:
            first, before, itself = (known[key][layer, head] for key in ("first", "before", "itself"))
            assert f"{share(first)} to the first token, {share(before)} to the one before" in sentence
            assert ("it looks mostly at the token itself" in sentence) == (itself > 0.5)
            assert ("it looks mostly at the first token" in sentence) == (first > 0.5)
            assert ("none of these mostly" in sentence) == (max(first, before, itself) <= 0.5)
    kinds = {words.split(": it ")[-1] for words in said}
    assert len(kinds) == 4  # with "abc" heads that look mostly at the first token, with the other heads without a habit


# ---- the residual stream ----


@pytest.mark.parametrize("name", MODELS)
def test_the_streams_data_is_scratchs(name):
    params, config = toy_model(**MODELS[name])
    widget = residual_stream(params, config, Letters(), SENTENCES)
    for text, sentence in zip(SENTENCES, widget.data["sentences"], strict=True):
        ids = np.array([Letters().encode(text).ids])
        run = trace(ids, params, config)
        length = {key: np.linalg.norm(getattr(run, key)[:, 0], axis=-1) for key in ("stream", "attn", "ffn")}
        length["gradient"] = gradient_norms(ids[:, :-1], ids[:, 1:], params, config)[:, 0]
        length["median"] = np.median(length["stream"], axis=1)
        for key, array in length.items():
            found = np.array(sentence[key])
            assert found.shape == array.shape
            assert np.abs(found / array - 1).max() <= 5.001e-3  # three digits
        p, _ = softmax_forward(logit_lens(run.stream[:, 0], params, config))  # [L+1, T, V]
        lens = np.array(sentence["lens"])  # [L+1, T, 5, 2]
        best = np.sort(p, axis=-1)[..., ::-1][..., :5]
        assert (lens[..., 1] == np.rint(1000 * best)).all()
        named = np.array([Letters().encode(guess).ids[0] for guess in sentence["guesses"]])[lens[..., 0]]
        assert np.array_equal(np.take_along_axis(p, named, axis=-1), best)


def test_the_last_lens_is_what_the_model_says():
    params, config = toy_model()
    sentence = residual_stream(params, config, Letters(), ["a cow is"]).data["sentences"][0]
    logits, _ = model_forward(np.array([Letters().encode("a cow is").ids]), params, config)
    p, _ = softmax_forward(logits[0, -1])
    index, share = sentence["lens"][-1][-1][0]
    assert (sentence["guesses"][index], share) == (Letters().decode([int(p.argmax())]), round(1000 * p.max()))


def test_a_vocabulary_of_four_has_four_guesses():
    sentence = residual_stream(*toy_model(vocab_size=4), Letters(), ["abc"]).data["sentences"][0]
    assert np.array(sentence["lens"]).shape == (4, 3, 4, 2) and sorted(sentence["guesses"]) == [" ", "a", "b", "c"]


def test_the_gradient_is_what_a_small_push_does():
    """The sentence under the charts says so: along the gradient the loss moves by length × push."""
    params, config = toy_model(pos="learned")
    ids = np.array([Letters().encode("abcd").ids])
    length = residual_stream(params, config, Letters(), ["abcd"]).data["sentences"][0]["gradient"][0][1]
    # Token 2's stream before block 1 is its row of the table plus position 2's, and only that position reads it.
    slope = []
    for d in range(config.d_model):
        moved = []
        for push in (1e-5, -1e-5):
            table = params["pos"]["table"].copy()
            table[1, d] += push
            moved.append(loss_forward(ids[:, :-1], ids[:, 1:], params | {"pos": {"table": table}}, config)[0])
        slope.append((moved[0] - moved[1]) / 2e-5)
    assert length == pytest.approx(np.linalg.norm(slope), rel=5.1e-3)


def test_what_the_stream_says_is_what_was_measured():
    params, config = toy_model(scale=2.0)
    params["embed"]["table"][[3, 4]] *= 30  # “c” and “d” are long
    text = "abcdefgh"
    sentence = residual_stream(params, config, Letters(), [text]).data["sentences"][0]
    states = list(np.ndindex(config.n_layers + 1, len(text)))
    question = "it.states.map(([depth, token]) => script.explained(it.sentence, depth, token))"
    said = ask("residual_stream", question, {"sentence": sentence, "states": states})
    run = trace(np.array([Letters().encode(text).ids]), params, config)
    norms = run.norms[:, 0]
    for (depth, token), words in zip(states, said, strict=True):
        assert f"“{text[token]}”" in words and f"length {number(shown(norms[depth, token]))}" in words
        times = norms[depth, token] / np.median(norms[depth])
        long = [float(n.replace(",", "")) for n in re.findall(r"about ([\d,.]+) times the median token's", words)]
        assert long == ([pytest.approx(times, rel=0.06)] if times >= 3 else [])
        if depth:
            attn, ffn = (np.linalg.norm(part[depth - 1, 0, token]) for part in (run.attn, run.ffn))
            added = f"attention added {number(shown(attn))}, its feed-forward {number(shown(ffn))}"
            assert f"{added}: {'attention' if attn > ffn else 'the feed-forward'} wrote more." in words
        assert ("times the push's length" in words) == (depth < config.n_layers and token < len(text) - 1)
    assert 0 < sum("the median token's" in words for words in said) < len(said)
    assert sum("attention wrote more" in words for words in said) not in (0, len(said) - len(text))


def test_numbers_are_rounded_once_and_shown_alike_in_both_languages():
    rng = np.random.default_rng(0)
    values = np.concatenate([10 ** rng.uniform(-9, 6, 2000), [0.0, 99.94, 99.96, 999.49, 999.5, 1e-3, 9.996e-4]])
    texts = [number(value) for value in shown(values)]
    assert ask("residual_stream", "it.map(script.number)", shown(values)) == texts
    for value, text in zip(values, texts, strict=True):
        plain = text.replace(",", "").replace(" × 10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        assert float(plain) == (float(f"{value:.3g}") if value < 999.5 else round(value))
    assert [number(v) for v in (22712.0, 0.12, 3.4e-5, 2.0)] == ["22,712", "0.120", "3.40 × 10⁻⁵", "2.00"]


def test_an_axis_encloses_its_values():
    question = "it.map(script.decades)"
    assert ask("residual_stream", question, [[2, 22621], [0.0012, 0], [10], [0], [1, 1000]]) == [
        [0, 5], [-3, -2], [1, 2], [0, 1], [0, 3]
    ]  # fmt: skip


def test_the_stream_in_words():
    params, config = toy_model()
    widget = residual_stream(params, config, Letters(), ["a<&bc"], depth=2, token=1)
    run = trace(np.array([Letters().encode("a<&bc").ids]), params, config)
    norms = run.norms[:, 0, 1]
    assert f"begins with length {norms[0]:#.3g} and ends, 3 blocks later, with {norms[3]:#.3g}" in widget.words
    assert f"longest after {norms.argmax()} blocks" in widget.words and "“a&lt;&amp;bc”" in widget.words
    p, _ = softmax_forward(logit_lens(run.stream[2, 0, 1], params, config))
    assert f"{100 * p.max():.1f}%" in widget.words and "Read after 2 blocks" in widget.words


# ---- both ----

BAD = {
    "a text, not a list": ({"sentences": "abc"}, "sentences is 'abc', expected a list"),
    "a number": ({"sentences": 5}, "sentences is 5"),
    "numbers": ({"sentences": [5]}, "sentences is [5]"),
    "none": ({"sentences": []}, "expected a list of one text or more"),
    "too short": ({"sentences": ["abc", "ab"]}, "'ab' has 2 tokens, expected 3 to 24"),
    "too long": ({"sentences": ["a" * 25]}, "25 tokens"),
    "sentence": ({"sentence": 4}, "sentence is 4, expected a whole number from 0 to 3"),
    "negative": ({"sentence": -1}, "sentence is -1"),
    "token": ({"token": 5}, "token is 5, expected a whole number from 0 to 4"),
    "kind": ({"token": 1.0}, "token is 1.0"),
    "truth": ({"token": True}, "token is True"),
}
OWN = {
    attention_explorer: {
        "layer": ({"layer": 3}, "layer is 3, expected a whole number from 0 to 2"),
        "head": ({"head": "1"}, "head is '1', expected a whole number from 0 to 3"),
        "habit": ({"habit": "second"}, "habit is 'second', expected one of first, before, itself, entropy"),
    },
    residual_stream: {"depth": ({"depth": 4}, "depth is 4, expected a whole number from 0 to 3")},
}


@pytest.mark.parametrize("widget", OWN, ids=lambda widget: widget.__name__)
def test_a_wrong_argument_is_told(widget):
    params, config = toy_model()
    for wrong, told in (BAD | OWN[widget]).values():
        with pytest.raises(ValueError) as error:
            widget(params, config, Letters(), **{"sentences": SENTENCES} | wrong)
        assert str(error.value).startswith(f"{widget.__name__}: ") and told in str(error.value)


@pytest.mark.parametrize("widget", OWN)
def test_a_model_without_blocks_is_told(widget):
    params, config = toy_model(n_layers=0)
    with pytest.raises(ValueError, match="config.n_layers is 0"):
        widget(params, config, Letters(), SENTENCES)


def test_values_are_plain_and_the_last_token_is_the_first_shown():
    params, config = toy_model()
    widget = attention_explorer(params, config, Letters(), SENTENCES, sentence=np.int64(1), layer=np.int64(2))
    assert (widget.sentence, widget.layer, widget.head, widget.token) == (1, 2, 0, 7)
    assert (widget.without_first, widget.habit) == (False, "first")
    stream = residual_stream(params, config, Letters(), SENTENCES, depth=3, token=0)
    assert (stream.sentence, stream.depth, stream.token) == (0, 3, 0)


@pytest.mark.model
def test_on_the_real_model():
    from scratch.pretrained import smollm2

    params, config, tokenizer = smollm2()
    explorer, stream = (widget(params, config, tokenizer) for widget in OWN)
    for widget, limit in ((explorer, 250_000), (stream, 150_000)):
        state = {key: value for key, value in widget.get_state().items() if not key.startswith(("_model", "_view"))}
        assert len(json.dumps(state)) < limit
    weights = ask("attention_explorer", ALL_WEIGHTS, explorer.data)
    names = explorer.data["sentences"][0]["pieces"]
    assert weights[0][0][27][0][names.index(" it")][names.index(" lamp")] == 572
    france = stream.data["sentences"][0]
    assert france["stream"][12][0] == 22712
    index, share = france["lens"][30][-1][0]
    assert france["guesses"][index] == " Paris" and share == pytest.approx(770, abs=5)
