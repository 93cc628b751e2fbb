"""Cached = uncached, paged = contiguous, and every way of drawing a token draws with the probabilities it promises."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scratch.config import Config
from scratch.generate import (
    KVCache,
    PagedKVCache,
    decode_step,
    extend,
    generate,
    next_probabilities,
    prefill,
    sample,
    speculate,
)
from scratch.model import init_params, map_leaves, model_forward

BASE = Config(vocab_size=13, d_model=12, n_layers=3, n_heads=4, n_kv_heads=2, d_head=6, d_ff=10, max_seq=24)
CONFIGS = {
    "llama": BASE,
    "mha": replace(BASE, n_kv_heads=4),
    "mqa": replace(BASE, n_kv_heads=1, tied=False),
    "half": replace(BASE, rope_layout="half", rope_base=100.0),
    "gpt2": replace(BASE, norm="layernorm", ffn="gelu", pos="learned", bias=True),
    "post-norm": replace(BASE, form="post-norm"),
    "parallel": replace(BASE, form="parallel"),
}
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 13, (3, 20))


def model(config, seed=1, dtype=np.float64):
    """Parameters that are not small: an initialization's would make every map even."""
    rng = np.random.default_rng(seed)
    return map_leaves(lambda _, w: rng.standard_normal(w.shape).astype(dtype) / 2, init_params(config, dtype=dtype))


def caches(config, batch, dtype=np.float64):
    """One of each kind, the pages scattered by sequences that grow together."""
    return KVCache(config, batch, dtype=dtype), PagedKVCache(config, batch, page=4, pages=6 * batch, dtype=dtype)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", [0, 1], ids=["contiguous", "paged"])
def test_cached_is_uncached(name, kind):
    """A prompt at once, another piece, then token by token: each logit is the whole run's."""
    config = CONFIGS[name]
    params = model(config)
    whole, _ = model_forward(IDS, params, config)  # [B, T, V]
    kv = caches(config, 3)[kind]
    steps = [prefill(IDS[:, :5], params, config, kv), prefill(IDS[:, 5:12], params, config, kv)]
    steps += [decode_step(IDS[:, t], params, config, kv) for t in range(12, 20)]
    ends = [4, 11, *range(12, 20)]
    np.testing.assert_allclose(np.stack(steps, 1), whole[:, ends], atol=1e-12)
    assert kv.lengths.tolist() == [20, 20, 20]


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_stays_float32(name):
    config = CONFIGS[name]
    params = model(config, dtype=np.float32)
    kv = KVCache(config, 3)
    logits = prefill(IDS[:, :7], params, config, kv)
    assert logits.dtype == decode_step(IDS[:, 7], params, config, kv).dtype == np.float32
    whole, _ = model_forward(IDS[:, :7], params, config)
    np.testing.assert_allclose(logits, whole[:, -1], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("kind", [0, 1], ids=["contiguous", "paged"])
def test_prompts_of_unequal_lengths(name, kind):
    """In a batch each gets what it gets alone, whatever stands in the padding."""
    config, counts = CONFIGS[name], np.array([7, 2, 5])
    params, kv = model(config), caches(CONFIGS[name], 3)[kind]
    padded = np.where(np.arange(7) < counts[:, None], IDS[:, :7], 12 - IDS[:, :7])
    logits = [prefill(padded, params, config, kv, counts=counts)]
    logits += [decode_step(IDS[:, 10 + t], params, config, kv) for t in range(4)]
    for b, n in enumerate(counts):
        alone = np.concatenate([IDS[b, :n], IDS[b, 10:14]])[None]
        expected, _ = model_forward(alone, params, config)
        np.testing.assert_allclose(np.stack(logits, 1)[b], expected[0, n - 1 :], atol=1e-12)


def test_paged_is_contiguous_to_the_bit_and_takes_what_it_needs():
    params, (flat, paged) = model(BASE), caches(BASE, 3)
    counts = np.array([9, 1, 4])
    for new, n in ((IDS[:, :9], counts), (IDS[:, 9:10], None), (IDS[:, 10:11], None)):
        np.testing.assert_array_equal(*(prefill(new, params, BASE, kv, counts=n) for kv in (flat, paged)))
    assert [len(table) for table in paged.tables] == [3, 1, 2] and len(paged.free) == 18 - 6
    assert len({page for table in paged.tables for page in table}) == 6
    paged.truncate([4, 0, 5])
    assert [len(table) for table in paged.tables] == [1, 0, 2] and len(paged.free) == 15


@pytest.mark.parametrize("kind", [0, 1], ids=["contiguous", "paged"])
def test_truncate_takes_tokens_back(kind):
    params, kv = model(BASE), caches(BASE, 3)[kind]
    extend(IDS[:, :6], params, BASE, kv)
    extend(12 - IDS[:, 6:10], params, BASE, kv)
    kv.truncate([6, 6, 6])
    again = extend(IDS[:, 6:10], params, BASE, kv)
    fresh = KVCache(BASE, 3, dtype=np.float64)
    np.testing.assert_allclose(again, extend(IDS[:, :10], params, BASE, fresh)[:, 6:], atol=1e-12)
    with pytest.raises(ValueError, match=r"cannot cut \[10, 10, 10\] tokens to \[11, 0, 0\]"):
        kv.truncate([11, 0, 0])


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: KVCache(BASE, 3, capacity=8, dtype=np.float64), "5 tokens and 4 more do not fit into capacity=8"),
        (lambda: PagedKVCache(BASE, 3, page=4, pages=6, dtype=np.float64), "3 more pages are needed, 0 are free"),
    ],
)
def test_what_does_not_fit_changes_nothing(make, said):
    params, kv = model(BASE), make()
    extend(IDS[:, :5], params, BASE, kv)
    with pytest.raises(ValueError, match=said):
        extend(IDS[:, 5:9], params, BASE, kv)
    assert kv.lengths.tolist() == [5, 5, 5]
    extend(IDS[:, 5:8], params, BASE, kv)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda p, kv: extend(IDS[:2, :3], p, BASE, kv), "ids has 2 rows, but the cache was made for batch=3"),
        (lambda p, kv: extend(IDS[:, :3] + 13, p, BASE, kv), "ids contains"),
        (lambda p, kv: extend(IDS[:, :3], p, replace(BASE, causal=False), kv), "config.causal is False"),
        (lambda p, kv: KVCache(CONFIGS["gpt2"], capacity=25), "only 24 positions"),
        (lambda p, kv: generate([[1], []], p, BASE, n=2), "at least one token each"),
        (lambda p, kv: next_probabilities(np.ones((1, 3)), top_p=0.0), "top_p=0.0, expected > 0"),
        (lambda p, kv: next_probabilities(np.ones((1, 3)), top_k=0), "top_k=0"),
        (lambda p, kv: next_probabilities(np.ones((1, 3)), min_p=1.5), "min_p=1.5"),
        (lambda p, kv: next_probabilities(np.ones((1, 3)), temperature=-1), "temperature=-1"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call(model(BASE), KVCache(BASE, 3, dtype=np.float64))


def test_what_each_filter_keeps():
    logits = np.log(np.array([[0.4, 0.05, 0.3, 0.25], [0.1, 0.2, 0.3, 0.4]]))
    p = next_probabilities
    np.testing.assert_allclose(p(logits), np.exp(logits))
    np.testing.assert_allclose(p(logits, temperature=0), [[1, 0, 0, 0], [0, 0, 0, 1]])
    squared = np.exp(2 * logits)
    np.testing.assert_allclose(p(logits, temperature=0.5), squared / squared.sum(1, keepdims=True))
    np.testing.assert_allclose(p(logits, top_k=2), [[4 / 7, 0, 3 / 7, 0], [0, 0, 3 / 7, 4 / 7]])
    np.testing.assert_allclose(p(logits, top_p=0.65), [[4 / 7, 0, 3 / 7, 0], [0, 0, 3 / 7, 4 / 7]])
    np.testing.assert_allclose(p(logits, top_p=0.75)[0], [0.4 / 0.95, 0, 0.3 / 0.95, 0.25 / 0.95])
    np.testing.assert_allclose(p(logits, min_p=0.7), [[4 / 7, 0, 3 / 7, 0], [0, 0, 3 / 7, 4 / 7]])
    # After top_k the shares are 4/7 and 3/7: the first alone has half.
    np.testing.assert_allclose(p(logits, top_k=2, top_p=0.5), [[1, 0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(p(np.zeros((1, 4)), top_k=3)[0], [1 / 3, 1 / 3, 1 / 3, 0])  # equals: the first ones


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    st.sampled_from([None, 1, 4, 99]),
    st.sampled_from([None, 1e-9, 0.5, 1.0]),
    st.sampled_from([None, 0.0, 0.4, 1.0]),
)
def test_probabilities_are_probabilities(seed, temperature, top_k, top_p, min_p):
    logits = np.random.default_rng(seed).standard_normal((3, 7)) * 5
    p = next_probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    np.testing.assert_allclose(p.sum(-1), 1)
    assert (p >= 0).all() and (p.argmax(-1) == logits.argmax(-1)).all()
    if top_p == 1.0 and top_k is None and not min_p and temperature:
        assert (p > 0).all()
    ids = sample(logits, np.random.default_rng(seed), temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    assert (p[np.arange(3), ids] > 0).all()


def test_sampling_follows_the_probabilities():
    logits = np.log(np.tile([0.5, 0.125, 0.0625, 0.3125], (40_000, 1)))
    counts = np.bincount(sample(logits, np.random.default_rng(3)), minlength=4)
    expected = 40_000 * np.array([0.5, 0.125, 0.0625, 0.3125])
    assert ((counts - expected) ** 2 / expected).sum() < 16.3  # chi-square, 3 degrees of freedom, 1 in 1,000


@pytest.mark.parametrize("paged", [False, True])
def test_generate_is_the_plain_loop(paged):
    params, prompts = model(BASE), [[1, 2, 3, 4, 5], [7], [6, 5]]
    kv = PagedKVCache(BASE, 3, page=4, pages=12, dtype=np.float64) if paged else None
    texts = generate(prompts, params, BASE, n=6, temperature=0, kv=kv)
    for prompt, text in zip(prompts, texts, strict=True):
        for _ in range(6):
            logits, _ = model_forward(np.array([prompt]), params, BASE)
            prompt = [*prompt, int(logits[0, -1].argmax())]
        assert text == prompt


def test_generate_stops_at_the_stop():
    params = model(BASE)
    free = generate([[1, 2], [3]], params, BASE, n=8, temperature=0)
    stop = free[0][4]
    first, second = generate([[1, 2], [3]], params, BASE, n=8, temperature=0, stop=stop)
    assert first == free[0][: free[0].index(stop, 2) + 1]
    assert second == (free[1][: free[1].index(stop, 1) + 1] if stop in free[1][1:] else free[1])
    drawn = [generate([[1, 2]], params, BASE, n=5, rng=np.random.default_rng(4)) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("guesses", [1, 3, 5])
def test_greedy_speculation_writes_what_the_target_writes(guesses):
    target = model(BASE), BASE
    for draft in (target, (model(BASE, seed=2), BASE)):
        text, steps = speculate([1, 2, 3], target, draft, n=12, guesses=guesses, temperature=0)
        assert text == generate([[1, 2, 3]], *target, n=12, temperature=0)[0]
        if draft is target:  # every guess is accepted
            assert steps == -(-12 // (guesses + 1))


def test_speculation_keeps_the_targets_distribution():
    """Two tokens of three words, drawn 6,000 times: as often as the target's own probabilities say."""
    config = Config(vocab_size=3, d_model=4, n_layers=1, n_heads=1, d_ff=6, max_seq=8)
    target, draft = (model(config, seed=1), config), (model(config, seed=3), config)
    draft[0]["embed"]["table"] *= 3  # sure of itself, and wrong
    expected = np.zeros((3, 3))
    first = next_probabilities(model_forward(np.array([[0, 1]]), *target)[0][0, -1])
    for a in range(3):
        second = next_probabilities(model_forward(np.array([[0, 1, a]]), *target)[0][0, -1])
        expected[a] = first[a] * second
    rng, counts = np.random.default_rng(0), np.zeros((3, 3))
    for _ in range(6000):
        text, _ = speculate([0, 1], target, draft, n=2, guesses=2, rng=rng)
        counts[text[2], text[3]] += 1
    assert ((counts - 6000 * expected) ** 2 / (6000 * expected)).sum() < 26.1  # 8 degrees of freedom, 1 in 1,000
    wrong = next_probabilities(model_forward(np.array([[0, 1]]), *draft)[0][0, -1])
    assert np.abs(wrong - first).max() > 0.15  # the draft alone would be seen


def test_without_a_generator_the_draws_differ_and_repeat():
    """One generator serves all steps: the same number at each would draw the same place of every distribution."""
    params = model(BASE)
    given = generate([[1, 2]] * 3, params, BASE, n=8, rng=np.random.default_rng(0))
    assert generate([[1, 2]] * 3, params, BASE, n=8) == given
