"""RoPE and the counter: their scripts in node against scratch, what Python hands them, and bad arguments."""

import contextlib
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scratch import account
from scratch.config import FORMS, PRESETS, Config
from scratch.rope import LAYOUTS, convert_layout, rope_forward, rope_table
from tests.node import Script
from widgets import counter, rope_rotations


@pytest.fixture(scope="module")
def ask_counter():
    """Ask the counter's script."""
    with contextlib.closing(Script("counter_bills")) as script:
        yield script


@pytest.fixture(scope="module")
def ask_rope():
    """Ask the script of RoPE's rotations."""
    with contextlib.closing(Script("rope_rotations_turns")) as script:
        yield script


# ---- the counter ----

size = st.integers(1, 300) | st.integers(1, 2**17)


@st.composite
def configs(draw):
    """Right configurations of every kind, small and very large."""
    K, group = draw(st.integers(1, 16)), draw(st.integers(1, 16))
    pos = draw(st.sampled_from(("rope", "learned")))
    Dh = 2 * draw(st.integers(1, 256)) if pos == "rope" else draw(st.integers(1, 512))
    apart = draw(st.booleans())
    return Config(
        vocab_size=draw(size),
        d_model=draw(size) if apart else K * group * Dh,
        n_layers=draw(st.integers(0, 24)),
        n_heads=K * group,
        n_kv_heads=draw(st.sampled_from((K, None))),
        d_ff=draw(size),
        max_seq=draw(size),
        d_head=Dh if apart else None,
        norm=draw(st.sampled_from(("rmsnorm", "layernorm"))),
        ffn=draw(st.sampled_from(("swiglu", "gelu"))),
        pos=pos,
        form=draw(st.sampled_from(FORMS)),
        tied=draw(st.booleans()),
        bias=draw(st.booleans()),
    )


works = st.tuples(size | st.integers(1, 10**9), st.integers(1, 4096), st.sampled_from((1, 2, 4)))
MODELS = settings(max_examples=2000, deadline=None)


def in_words(parts):
    return {bill: {part: str(value) for part, value in values.items()} for bill, values in parts.items()}


def totals(config, T, batch, value_bytes):
    """What each bill has to add up to."""
    logits = 4 * batch * T * config.vocab_size
    return {
        "parameters": account.count_params(config),
        "operations": account.flops_per_token(config, T),
        "visible": account.flops_per_token(config, T, causal=True),
        "cache": account.kv_cache_bytes(config, T, batch, value_bytes),
        "training": account.training_state_bytes(config) + account.activation_bytes(config, T, batch) + logits,
        "step": sum(account.decode_bytes(config, T, batch, value_bytes).values()),
    }


@MODELS
@given(configs(), works)
def test_the_counter_counts_what_scratch_counts_for_thousands_of_configurations(ask_counter, config, work):
    T, batch, size = work
    work = {"T": T, "batch": batch, "value_bytes": size, "terabytes": 3.35, "teraflops": 989}
    it = {"config": asdict(config), "work": work}
    count, time = ask_counter(
        "((count) => [count, script.stepSeconds(count, it.work)])(script.bills(it.config, it.work))", it
    )
    bills = counter.bills(config, T, batch, size)
    assert count == in_words(bills)
    assert {bill: sum(parts.values()) for bill, parts in bills.items()} == totals(config, T, batch, size)
    read = account.decode_bytes(config, T, batch, size)
    expected = {name: value / 3.35e12 for name, value in read.items()}
    expected["work"] = account.flops_per_token(config, T) * batch / 989e12
    expected["least"] = max(expected["weights"] + expected["cache"], expected["work"])
    assert time == pytest.approx(expected, rel=1e-12, abs=0)


anything = st.integers(-3, 40) | st.sampled_from((None, "", "many", 2.5))
typed = st.fixed_dictionaries(
    {name: anything for name in counter.SIZES}
    | {
        "norm": st.sampled_from(("rmsnorm", "layernorm", "none")),
        "ffn": st.sampled_from(("swiglu", "gelu", "relu")),
        "pos": st.sampled_from(("rope", "learned", "alibi")),
        "form": st.sampled_from((*FORMS, "sandwich")),
        "tied": st.booleans(),
        "bias": st.booleans(),
    }
)
# one thing at a time as well, or nearly every draw fails at its first field
nearly = st.builds(
    lambda config, name, fields: asdict(config) | {name: fields[name]},
    configs(),
    st.sampled_from((*counter.SIZES, "norm", "ffn", "pos", "form")),
    typed,
)


def complaint(fields):
    """What Config says, without its name."""
    try:
        Config(**fields)
    except ValueError as error:
        return str(error).removeprefix("Config: ")
    return ""


@MODELS
@given(typed | nearly)
def test_the_counter_says_of_a_typed_configuration_what_config_says(ask_counter, fields):
    assert ask_counter("script.mistake(it)", fields) == complaint(fields)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_heads": 7, "n_kv_heads": 7}, "d_model=768 is not divisible by n_heads=7; set d_head"),
        ({"n_heads": 16}, "n_heads=16 is not divisible by n_kv_heads=12"),
        ({"d_head": 63, "pos": "rope"}, "RoPE needs an even head width, got 63"),
        ({"d_model": 10**18}, "d_model=1000000000000000000 is too large for this page"),
        ({"d_ff": "wide"}, "d_ff='wide', expected a positive integer"),
        ({"n_heads": 1000, "n_kv_heads": 1000}, "d_head=0, expected a positive integer"),
        ({"n_layers": 0}, ""),
    ],
)
def test_mistakes_in_words(ask_counter, wrong, said):
    assert ask_counter("script.mistake(it)", asdict(PRESETS["gpt2-small"]) | wrong) == said


def test_sizes_in_words(ask_counter):
    expected = ["0", "999", "1.0 thousand", "124.4 million", "1.0 billion", "8.0 billion", "12,345.0 quadrillion"]
    values = [0, 999, 1000, 124_439_808, 999_999_999, 8_030_261_248, 12_345 * 10**15]
    assert ask_counter("it.map((value) => script.about(value))", values) == expected


def test_python_hands_the_counter_published_models_and_their_counts():
    shown = counter.counter("llama3-8b", batch=16, value_bytes=1)
    fields = asdict(PRESETS["llama3-8b"])
    assert shown.config == {name: value for name, value in fields.items() if name not in counter.FREE}
    assert (shown.T, shown.batch, shown.value_bytes, shown.visible, shown.backward) == (8192, 16, 1, False, False)
    assert [preset["config"] for preset in shown.data["presets"]] == [counter._fields(it) for it in PRESETS.values()]
    for number in ("8,030,261,248", "8 key/value heads serves 4 of the 32 query heads"):
        assert number in shown.words
    assert "124,439,808" in counter.counter().words  # with biases and positions
    assert len(json.dumps({name: value for name, value in shown.get_state().items()})) < 120_000


def test_the_counter_takes_a_configuration_of_ones_own():
    own = replace(PRESETS["tiny"], d_head=np.int64(10), n_kv_heads=2)
    shown = counter.counter(own, T=np.int64(5))
    assert Config(**shown.config) == own and shown.T == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"config": "gpt5"}, "config='gpt5', expected a Config or one of 'tiny', 'gpt2-small'"),
        ({"config": 3}, "config=3, expected a Config"),
        ({"T": 0}, "T=0, expected a whole number from 1"),
        ({"T": 2.5}, "T=2.5, expected a whole number"),
        ({"batch": True}, "batch=True, expected a whole number"),
        ({"value_bytes": 3}, "value_bytes=3, expected 1, 2 or 4"),
        ({"terabytes": 0}, "terabytes=0, expected a positive number"),
        ({"teraflops": "fast"}, "teraflops='fast', expected a positive number"),
        ({"teraflops": float("nan")}, "teraflops=nan, expected a positive number"),
        ({"config": Config(vocab_size=2**60)}, f"vocab_size={2**60}, expected a whole number from 0 to 9,007"),
    ],
)
def test_the_counter_names_a_bad_argument(arguments, said):
    with pytest.raises(ValueError, match="^counter: ") as error:
        counter.counter(**arguments)
    assert said in str(error.value)


# ---- RoPE ----


@st.composite
def turns(draw):
    """A query and a key of any even width up to 32, positions, a base and a layout."""
    Dh = 2 * draw(st.integers(1, 16))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    q, k = rng.standard_normal((2, Dh)) * 10.0 ** rng.integers(-2, 3, (2, 1))
    positions = {"m": draw(st.integers(0, 63)), "n": draw(st.integers(0, 63))}
    base = draw(st.sampled_from((10_000.0, 100_000.0, 500_000.0)) | st.floats(0.5, 1e6))
    options = {"base": base, "layout": draw(st.sampled_from(LAYOUTS)), "pair": draw(st.integers(-1, Dh // 2 - 1))}
    return {"q": q.tolist(), "k": k.tolist(), **positions, **options}


def everywhere(x, now, T=64):
    """x turned by scratch as at each position, [T, Dh]."""
    return rope_forward(np.tile(x, (T, 1)), *rope_table(T, len(x), now["base"]), now["layout"])[0]


TURNS = settings(max_examples=300, deadline=None)


@TURNS
@given(turns())
def test_the_hands_are_turned_as_scratch_turns_them(ask_rope, now):
    every = "Array.from({ length: 64 }, (_, t) => script.turned(it.q, t, it.base, it.layout))"
    scale = np.abs(now["q"]).max()
    np.testing.assert_allclose(ask_rope(every, now), everywhere(now["q"], now), rtol=0, atol=1e-12 * scale)
    cos, sin = rope_table(2, len(now["q"]), now["base"])
    speeds = ask_rope("script.speeds(it.q.length, it.base)", now)
    np.testing.assert_allclose(speeds, np.arctan2(sin[1], cos[1]), rtol=1e-12)


@TURNS
@given(turns())
def test_the_map_holds_scratchs_scores_of_one_pair_and_of_all(ask_rope, now):
    q, k = (everywhere(now[x], now) for x in "qk")
    size = 1e-12 * np.linalg.norm(now["q"]) * np.linalg.norm(now["k"])
    numbers = np.arange(len(now["q"]))
    first, second = numbers.reshape(-1, 2).T if now["layout"] == "interleaved" else numbers.reshape(2, -1)
    parts = np.einsum("mi,ni->imn", q[:, first], k[:, first]) + np.einsum("mi,ni->imn", q[:, second], k[:, second])
    expected = q @ k.T if now["pair"] < 0 else parts[now["pair"]]
    np.testing.assert_allclose(ask_rope("script.scoreMap(it, 64)", now), expected, rtol=0, atol=size)
    np.testing.assert_allclose(ask_rope("script.pairScores(it)", now), parts[:, now["m"], now["n"]], rtol=0, atol=size)


@TURNS
@given(turns())
def test_entries_are_reordered_as_scratch_converts_weights(ask_rope, now):
    for to in LAYOUTS:
        assert ask_rope(f"script.reordered(it.q, '{to}')", now) == convert_layout(np.array(now["q"]), 1, to).tolist()


@TURNS
@given(turns(), st.floats(-7, 7))
def test_one_hand_is_turned_and_no_other(ask_rope, now, angle):
    pair = max(now["pair"], 0)
    table = np.zeros((1, len(now["q"]) // 2))
    table[0, pair] = angle
    expected = rope_forward(np.array([now["q"]]), np.cos(table), np.sin(table), now["layout"])[0][0]
    said = ask_rope("script.withHand(it.q, it.pair, it.angle, it.layout)", now | {"pair": pair, "angle": angle})
    np.testing.assert_allclose(said, expected, rtol=0, atol=1e-12 * np.abs(now["q"]).max())


def test_python_hands_rope_its_vectors_and_says_the_score():
    q, k = [1.0, 0.0, 1.0, 0.0], [0.5, 0.5, -1.0, 2.0]
    shown = rope_rotations.rope_rotations(q, k, m=3, n=1, base=100, layout="half", T=4)
    assert (shown.q, shown.k, shown.m, shown.n, shown.base, shown.pairing, shown.pair) == (
        q,
        k,
        3,
        1,
        100.0,
        "half",
        -1,
    )
    assert shown.data["bases"] == [100.0, *rope_rotations.BASES] and shown.data["widths"] == [4, 8, 16]
    turned = [everywhere(x, {"base": 100, "layout": "half"}) for x in (q, k)]
    assert f"is {turned[0][3] @ turned[1][1]:.2f}.".replace("-", "−") in shown.words
    assert "n − m = −2" in shown.words and "<td>0, 2</td>" in shown.words and "<td>1, 3</td>" in shown.words
    assert len(json.dumps(rope_rotations.rope_rotations(d_head=16, T=64).get_state())) < 120_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"q": [1.0, 2.0, 3.0]}, "q has 3 numbers and k 8, expected one even number"),
        ({"q": [1, 2, 3], "k": [1, 2, 3]}, "q has 3 numbers and k 3"),
        ({"q": "words"}, "q='words', expected 2 to 32 finite numbers"),
        ({"k": [1.0, float("nan")]}, "k=[1.0, nan], expected 2 to 32 finite numbers"),
        ({"q": [[1.0, 2.0]]}, "expected 2 to 32 finite numbers"),
        ({"d_head": 7}, "q has 7 numbers and k 7"),
        ({"d_head": 64}, "d_head=64, expected a whole number from 2 to 32"),
        ({"base": 0}, "base=0, expected a positive number"),
        ({"base": "big"}, "base='big', expected a positive number"),
        ({"layout": "quarter"}, "layout='quarter', expected one of 'interleaved', 'half'"),
        ({"m": 32}, "m=32, expected a whole number from 0 to 31"),
        ({"n": -1}, "n=-1, expected a whole number"),
        ({"T": 1}, "T=1, expected a whole number from 2 to 64"),
    ],
)
def test_rope_names_a_bad_argument(arguments, said):
    with pytest.raises(ValueError, match="^rope_rotations: ") as error:
        rope_rotations.rope_rotations(**arguments)
    assert said in str(error.value)
