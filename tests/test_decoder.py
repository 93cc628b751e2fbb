"""The decode step in one function, and the fused model, write what the plain model writes."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from scratch import decoder
from scratch.decoder import NEEDED, Decoder
from scratch.fused import fuse_model
from scratch.generate import KVCache, PagedKVCache, decode_step, generate, prefill
from scratch.model import model_forward
from tests.test_generate import BASE, CONFIGS, IDS, model

LLAMAS = {name: CONFIGS[name] for name in ("llama", "mha", "mqa")}


@pytest.mark.parametrize("name", LLAMAS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("first", [0, 6])
def test_each_logit_is_the_whole_runs(name, dtype, first):
    """From an empty cache, and after a prefill by the plain model."""
    config = LLAMAS[name]
    params = model(config, dtype=dtype)
    whole = model_forward(IDS[:1], params, config)[0][0]
    kv, ready = KVCache(config, 1, dtype=dtype), Decoder(params, config)
    if first:
        prefill(IDS[:1, :first], params, config, kv)
    for t in range(first, IDS.shape[1]):
        logits = ready.step(int(IDS[0, t]), kv)
        assert logits.shape == (config.vocab_size,) and logits.dtype == dtype
        np.testing.assert_allclose(logits, whole[t], atol=1e-11 if dtype == np.float64 else 2e-4)
    after = KVCache(config, 1, dtype=dtype)
    prefill(IDS[:1], params, config, after)
    for mine, theirs in zip(kv.read(1, IDS.shape[1]), after.read(1, IDS.shape[1]), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-11 if dtype == np.float64 else 2e-4)


def test_gates_far_below_zero_give_nothing():
    """exp(−gate) overflows there; the answer is the plain model's, without a warning."""
    params = model(BASE, dtype=np.float32)
    for block in params["blocks"]:
        block["ffn"]["wg"] *= 1000
    kv = KVCache(BASE, 1), KVCache(BASE, 1)
    got, expected = Decoder(params, BASE).step(3, kv[0]), decode_step(np.array([3]), params, BASE, kv[1])[0]
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_fused_model_writes_the_same(name):
    config = CONFIGS[name]
    params = model(config)
    before = {key: value.copy() for key, value in params["blocks"][0]["attn"].items()}
    fused = fuse_model(params, config)
    prompts = [list(IDS[0, :3]), list(IDS[1, :7])]
    assert generate(prompts, *fused, n=9, temperature=0) == generate(prompts, params, config, n=9, temperature=0)
    kv = KVCache(config, 3, dtype=np.float64), KVCache(config, 3, dtype=np.float64)
    got, expected = prefill(IDS, *fused, kv[0]), prefill(IDS, params, config, kv[1])
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert all(np.array_equal(before[key], value) for key, value in params["blocks"][0]["attn"].items())
    assert ("head" in params) == (not config.tied)
    assert not fused[1].tied and fused[0]["head"]["w"].flags.c_contiguous  # the layout is what makes it quick


@pytest.mark.parametrize("name", NEEDED)
def test_other_styles_are_refused(name):
    other = {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "form": "parallel", "bias": True}[name]
    config = replace(BASE, **{name: other})
    with pytest.raises(ValueError, match=f"Decoder: config.{name}={other!r}, expected {NEEDED[name]!r}"):
        Decoder(model(config), config)


def test_wrong_calls():
    params = model(BASE)
    with pytest.raises(ValueError, match="RoPE layout is 'half'; checkpoint.to_layout"):
        Decoder(params, CONFIGS["half"])
    ready, kv = Decoder(params, BASE), KVCache(BASE, 1, capacity=1, dtype=np.float64)
    for token in (-1, 13, 1.0):
        with pytest.raises(ValueError, match="Decoder: token"):
            ready.step(token, kv)
    assert kv.lengths[0] == 0
    ready.step(5, kv)
    with pytest.raises(ValueError, match="1 tokens and 1 more do not fit into capacity=1"):
        ready.step(5, kv)
    for other in (KVCache(BASE, 2), PagedKVCache(BASE, 1, pages=3)):
        with pytest.raises(ValueError, match="Decoder: expected a KVCache of one sequence"):
            ready.step(5, other)


@pytest.mark.parametrize(
    ("term", "put"),
    [
        ("] *= 1 / math.sqrt(config.head_dim)", "] *= 1"),
        ("every[: H + K].view", "every[:H].view"),
        ("hidden *= both[:, F:]", "hidden *= gate"),
        ("x += hidden @ wd", "x = hidden @ wd"),
        ("cos + 1j * sin", "cos - 1j * sin"),
        ('params["norm"]["g"][:, None] * ', ""),
        ('block["norm2"]["g"][:, None] * ', ""),
        (" / x.size + eps", " + eps"),
        ("kv.advance(1)", "kv.advance(0)"),
    ],
)
def test_a_slip_is_caught(term, put, monkeypatch):
    source = inspect.getsource(decoder)
    assert source.count(term) == 1
    broken = {"__name__": decoder.__name__}
    exec(compile(source.replace(term, put), decoder.__file__, "exec"), broken)
    monkeypatch.setitem(globals(), "Decoder", broken["Decoder"])
    with pytest.raises(AssertionError):
        test_each_logit_is_the_whole_runs("llama", np.float64, 0)
