"""What `trace` sees of a run is what the run did: parts add up, a resumed run ends alike, slopes fit the backward."""

import dataclasses

import numpy as np
import pytest

from scratch import trace
from scratch.gradcheck import leaves
from scratch.model import Config, init_params, loss_backward, loss_forward, map_leaves, model_forward

rng = np.random.default_rng(13)
LLAMA = Config(vocab_size=13, d_model=12, d_head=4, n_layers=3, n_heads=4, n_kv_heads=2, d_ff=20, max_seq=16)
GPT = dataclasses.replace(LLAMA, norm="layernorm", ffn="gelu", pos="learned", tied=False, bias=True, n_kv_heads=4)
STYLES = pytest.mark.parametrize("config", [LLAMA, GPT], ids=["llama", "gpt"])


def loud(config, dtype=np.float64):
    """Parameters large enough that every part of the model matters, biases and gains too."""
    params = init_params(config, 3, dtype)
    draw = np.random.default_rng(4)
    return map_leaves(lambda _, w: 10 * w if w.ndim == 2 else w + 0.3 * draw.standard_normal(w.shape), params)


def small_run(config):
    params, ids = loud(config), rng.integers(0, config.vocab_size, (2, 6))
    return params, ids, trace.trace(ids, params, config)


@STYLES
def test_the_heads_add_up_to_attention(config):
    params, _, seen = small_run(config)
    for layer, block in enumerate(params["blocks"]):
        heads = trace.head_outputs(seen, layer, params, config)
        assert heads.shape == (2, config.n_heads, 6, 12)
        assert np.allclose(heads.sum(axis=1) + block["attn"].get("bo", 0), seen.attn[layer], rtol=0, atol=1e-12)


@STYLES
def test_hidden_values_give_what_the_feed_forward_added(config):
    params, _, seen = small_run(config)
    for layer, block in enumerate(params["blocks"]):
        hidden, ffn = trace.hidden_values(seen, layer, params, config), block["ffn"]
        out = hidden @ ffn["wd"] if config.ffn == "swiglu" else hidden @ ffn["w2"] + ffn["b2"]
        assert hidden.shape == (2, 6, 20)
        assert np.allclose(out, seen.ffn[layer], rtol=0, atol=1e-12)


@STYLES
def test_a_run_resumed_anywhere_ends_alike(config):
    params, _, seen = small_run(config)
    for start in range(4):
        assert np.allclose(trace.resume(seen.stream[start], start, params, config), seen.stream[-1], rtol=0, atol=1e-12)
    for start in range(3):
        middle = seen.stream[start] + seen.attn[start]
        end = trace.resume(middle, start, params, config, at="ffn")
        assert np.allclose(end, seen.stream[-1], rtol=0, atol=1e-12)


def test_a_head_taken_out_of_the_stream_is_a_head_whose_rows_of_wo_are_zero():
    params, ids, seen = small_run(LLAMA)
    without = seen.stream[1] + seen.attn[1] - trace.head_outputs(seen, 1, params, LLAMA)[:, 3]
    resumed = trace.logit_lens(trace.resume(without, 1, params, LLAMA, at="ffn"), params, LLAMA)
    params["blocks"][1]["attn"]["wo"][12:16] = 0
    assert np.allclose(resumed, model_forward(ids, params, LLAMA)[0], rtol=0, atol=1e-12)
    assert not np.allclose(resumed, seen.logits, rtol=0, atol=1e-3)


def test_induction_scores_of_maps_written_by_hand():
    period, T = 3, 7
    perfect, copies, evenly = np.zeros((T, T)), np.zeros((T, T)), np.tri(T) / np.arange(1, T + 1)[:, None]
    for i in range(period, T):
        perfect[i, i - period + 1] = 1  # what came after the copy
        copies[i, i - period] = 1  # the copy itself
    scores = trace.induction_scores(np.stack([perfect, copies, evenly]), period)
    assert np.allclose(scores, [1, 0, np.mean([1 / 4, 1 / 5, 1 / 6, 1 / 7])])
    assert trace.induction_scores(perfect[None, None], period).shape == (1, 1)


ENTRIES = {
    LLAMA: ["embed.table"] * 2 + ["norm.g", "blocks.0.attn.wk", "blocks.1.ffn.wd", "blocks.2.norm2.g"],
    GPT: ["embed.table", "head.w", "norm.b", "blocks.0.attn.bq", "blocks.1.ffn.b1", "blocks.2.norm1.g"],
}


def check_slopes(config, spoil=lambda grads: None):
    """The largest relative error of the backward at entries that `slopes` looked at."""
    params, text = loud(config), np.random.default_rng(5).integers(0, 13, (1, 8))
    ids, targets = text[:, :-1], text[:, 1:]
    before = [w.copy() for _, w in leaves(params)]
    grads = loss_backward(1.0, loss_forward(ids, targets, params, config)[1])
    spoil(grads)
    entries = trace.draw_entries(grads, ENTRIES[config])
    got = np.array([dict(leaves(grads))[name][index] for name, index in entries])
    found = trace.slopes(ids, targets, params, config, entries)
    assert all(np.array_equal(a, b) for a, (_, b) in zip(before, leaves(params), strict=True))  # put back
    return np.max(np.abs(got / found - 1))


@STYLES
def test_slopes_agree_with_the_backward(config):
    assert check_slopes(config) < 1e-5


def test_slopes_see_a_wrong_backward():
    def scaled_table(grads):
        grads["embed"]["table"] *= 0.99

    def scaled_block(grads):
        grads["blocks"][1]["ffn"]["wd"] *= 1.01

    for spoil in (scaled_table, scaled_block):
        assert check_slopes(LLAMA, spoil) > 5e-3


def test_drawn_entries_are_large_and_the_same_each_time():
    grads = {"w": np.array([[1e-9, 2.0], [-0.5, 0.1]]), "g": np.array([0.0, -3.0])}
    drawn = trace.draw_entries(grads, ["w", "g", "w"])
    assert drawn == trace.draw_entries(grads, ["w", "g", "w"])
    assert drawn[1] == ("g", (1,))
    assert all(index in {(0, 1), (1, 0)} for name, index in drawn if name == "w")


def test_a_wrong_call_says_what_came():
    params, _, seen = small_run(LLAMA)
    post = dataclasses.replace(LLAMA, form="post-norm")
    with pytest.raises(ValueError, match="head_outputs: layer is 3, expected 0 to 2"):
        trace.head_outputs(seen, 3, params, LLAMA)
    with pytest.raises(ValueError, match="hidden_values: config.form is 'post-norm', expected 'pre-norm'"):
        trace.hidden_values(seen, 0, params, post)
    with pytest.raises(ValueError, match="resume: start is -1, expected 0 to 3"):
        trace.resume(seen.stream[0], -1, params, LLAMA)
    with pytest.raises(ValueError, match="resume: at is 'mlp', expected 'attn' or 'ffn'"):
        trace.resume(seen.stream[0], 0, params, LLAMA, at="mlp")
    with pytest.raises(ValueError, match="resume: at='ffn' needs a block, and start is 3, after the last"):
        trace.resume(seen.stream[3], 3, params, LLAMA, at="ffn")
    with pytest.raises(ValueError, match="induction_scores: period is 6, expected 1 to T - 1 = 5"):
        trace.induction_scores(seen.maps, 6)
    with pytest.raises(ValueError, match="draw_entries: grads has no 'norm.b'"):
        trace.draw_entries(params, ["norm.b"])
    with pytest.raises(ValueError, match="slopes: params has no 'head.w'"):
        ids = np.zeros((1, 3), dtype=int)
        trace.slopes(ids, ids, params, LLAMA, [("head.w", (0, 0))])
