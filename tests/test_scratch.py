"""What scratch promises beside gradients: invariances, dtypes, inputs left alone, exact counts, clear errors."""

import subprocess
import sys

import numpy as np
import pytest

from scratch import attention, block, ffn, model, ops, rope, trace
from scratch.gradcheck import FactError, fact
from scratch.model import PRESETS, Config, init_params, model_forward

rng = np.random.default_rng(11)
GQA = Config(vocab_size=13, d_model=12, d_head=4, n_layers=3, n_heads=4, n_kv_heads=2, d_ff=20, max_seq=16)


def loud(config, seed=3, dtype=np.float64):
    """Parameters large enough that every part of the model matters."""
    params = init_params(config, seed, dtype)
    return model.map_leaves(lambda _, w: 10 * w if w.ndim == 2 else w, params)


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_causality_a_prefix_gives_the_same_rows(dtype, limit):
    params, ids = loud(GQA, dtype=dtype), rng.integers(0, 13, (2, 5))
    whole, _ = model_forward(ids, params, GQA)
    prefix, _ = model_forward(ids[:, :3], params, GQA)
    assert np.abs(prefix - whole[:, :3]).max() < limit


def test_without_attention_only_the_disturbed_row_changes():
    params = loud(GQA)["blocks"][0]
    params["attn"]["wo"] = 0 * params["attn"]["wo"]
    x = rng.standard_normal((1, 5, 12))
    other = x.copy()
    other[0, 2] += 1
    changed = block.block_forward(other, params, GQA)[0] != block.block_forward(x, params, GQA)[0]
    assert changed.any(axis=-1).tolist() == [[False, False, True, False, False]]


def test_rows_of_the_batch_do_not_mix():
    params, ids = loud(GQA), rng.integers(0, 13, (3, 6))
    together, _ = model_forward(ids, params, GQA)
    for b in range(3):
        assert np.allclose(model_forward(ids[b : b + 1], params, GQA)[0][0], together[b], rtol=0, atol=1e-12)


def test_left_padding_with_a_mask_changes_nothing_but_positions():
    config = Config(vocab_size=13, d_model=12, d_head=4, n_layers=2, n_heads=4, d_ff=20, max_seq=16, rope_base=1e30)
    params, ids = loud(config), rng.integers(0, 13, (1, 4))
    padded = np.concatenate([[[0, 0]], ids], axis=1)
    mask = np.array([[False, False, True, True, True, True]])
    got, _ = model_forward(padded, params, config, pad_mask=mask)
    assert np.isfinite(got).all()
    # Scores depend on relative position only, so two places further on nothing changes.
    assert np.allclose(got[:, 2:], model_forward(ids, params, config)[0], rtol=0, atol=1e-10)


def test_rope_scores_depend_on_relative_position_and_lengths_are_kept():
    cos, sin = rope.rope_table(40, 8)
    q, k = rng.standard_normal((2, 8))

    def score(i, j):
        turned = [rope.rope_forward(np.tile(v, (40, 1)), cos, sin)[0][at] for v, at in ((q, i), (k, j))]
        return turned[0] @ turned[1]

    assert score(9, 4) == pytest.approx(score(35, 30), abs=1e-12)
    out, cache = rope.rope_forward(np.tile(q, (40, 1)), cos, sin)
    assert np.allclose(np.linalg.norm(out, axis=-1), np.linalg.norm(q), rtol=1e-14)
    assert np.allclose(rope.rope_backward(out, cache), np.tile(q, (40, 1)), rtol=0, atol=1e-14)


def test_layouts_give_the_same_logits_after_conversion_and_back():
    half = Config(**{**GQA.__dict__, "rope_layout": "half"})
    params, ids = loud(GQA), rng.integers(0, 13, (2, 7))
    converted = {**params, "blocks": []}
    for b in params["blocks"]:
        wq = rope.convert_layout(b["attn"]["wq"], 4, "half")
        wk = rope.convert_layout(b["attn"]["wk"], 2, "half")
        assert np.array_equal(rope.convert_layout(wq, 4, "interleaved"), b["attn"]["wq"])
        converted["blocks"].append({**b, "attn": {**b["attn"], "wq": wq, "wk": wk}})
    a, _ = model_forward(ids, params, GQA)
    b, _ = model_forward(ids, converted, half)
    assert np.allclose(a, b, rtol=0, atol=1e-12)
    assert np.abs(model_forward(ids, params, half)[0] - a).max() > 1e-3


def test_gqa_with_copied_heads_is_mha():
    B, T, D, H, K, Dh = 2, 5, 6, 4, 2, 4
    x, wq, wo = rng.standard_normal((B, T, D)), rng.standard_normal((D, H * Dh)), rng.standard_normal((H * Dh, D))
    wk, wv = rng.standard_normal((2, D, K * Dh))
    copy = [np.repeat(w.reshape(D, K, Dh), H // K, axis=1).reshape(D, H * Dh) for w in (wk, wv)]
    a, _ = attention.attention_forward(x, wq, wk, wv, wo, n_heads=H, n_kv_heads=K)
    b, _ = attention.attention_forward(x, wq, *copy, wo, n_heads=H, n_kv_heads=H)
    assert np.allclose(a, b, rtol=0, atol=1e-12)


def test_a_query_that_sees_no_key_gives_zero():
    q, k, v = rng.standard_normal((3, 1, 2, 3, 4))
    out, cache = attention.sdpa_forward(q, k, v, pad_mask=np.array([[False, True, True]]))
    assert np.all(out[:, :, 0] == 0)
    assert all(np.isfinite(g).all() for g in attention.sdpa_backward(np.ones_like(out), cache))


def test_large_scores_and_shifts():
    x = rng.standard_normal((3, 6)).astype(np.float32)
    p, _ = ops.softmax_forward(x)
    assert np.allclose(ops.softmax_forward(x + 1e4)[0], p, atol=2e-3)
    big = np.array([[1e4, -1e4, 3e38, -3e38]], dtype=np.float32)
    assert ops.softmax_forward(big)[0].tolist() == [[0, 0, 1, 0]]
    assert ops.cross_entropy_forward(big, np.array([2]))[0] == 0
    assert np.isfinite(ops.silu_forward(big[:, :2])[0]).all()
    for name in ("silu", "gelu"):
        out, cache = getattr(ops, name + "_forward")(np.array([1e4, -1e4, 1e12, -1e12], dtype=np.float32))
        assert out.tolist() == [1e4, 0, np.float32(1e12), 0]
        assert getattr(ops, name + "_backward")(np.ones(4, np.float32), cache).tolist() == [1, 0, 1, 0]


def test_norms_forget_the_scale_and_keep_eps_inside_the_root():
    x, g = rng.standard_normal((4, 6)), rng.standard_normal(6)
    assert np.allclose(ops.rmsnorm_forward(10 * x, g)[0], ops.rmsnorm_forward(x, g)[0], atol=1e-4)
    small = np.full((1, 4), 1e-3)
    assert ops.rmsnorm_forward(small, np.ones(4))[0][0, 0] == pytest.approx(1e-3 / np.sqrt(1e-6 + 1e-5))
    z, _ = ops.layernorm_forward(x, np.ones(6), np.zeros(6), 0.0)
    assert np.allclose([z.mean(axis=-1), z.var(axis=-1)], [[0] * 4, [1] * 4], atol=1e-14)


def test_a_numpy_eps_does_not_turn_float32_into_float64():
    x, one = np.ones((2, 4), np.float32), np.ones(4, np.float32)
    assert ops.rmsnorm_forward(x, one, np.float64(1e-5))[0].dtype == np.float32
    assert ops.layernorm_forward(x, one, one, np.float64(1e-5))[0].dtype == np.float32


def test_no_kept_target_is_loss_zero_and_gradient_zero():
    loss, cache = ops.cross_entropy_forward(rng.standard_normal((2, 3, 5)), np.full((2, 3), -100))
    assert loss == 0
    assert not ops.cross_entropy_backward(1.0, cache).any()


def test_loss_at_initialization_is_that_of_guessing():
    config = PRESETS["tiny"]
    ids, targets = rng.integers(0, config.vocab_size, (2, 4, 32))
    loss, _ = model.loss_forward(ids, targets, init_params(config), config)
    assert loss == pytest.approx(np.log(config.vocab_size), abs=0.05)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "style", [{}, {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True, "tied": False}]
)
def test_dtype_is_kept_inputs_are_left_alone_and_backward_repeats(dtype, style):
    config = Config(vocab_size=13, d_model=12, d_head=4, n_layers=2, n_heads=4, d_ff=20, max_seq=16, **style)
    params = loud(config, dtype=dtype)
    frozen = [w for _, w in _leaves(params)]
    before = [w.copy() for w in frozen]
    for w in frozen:
        w.setflags(write=False)
    ids = rng.integers(0, 13, (2, 6))
    loss, cache = model.loss_forward(ids, ids, params, config)
    assert loss.dtype == dtype
    once, twice = (dict(_leaves(model.loss_backward(1.0, cache))) for _ in range(2))
    assert once.keys() == dict(_leaves(params)).keys()
    for name, gradient in once.items():
        assert gradient.dtype == dtype, name
        assert np.array_equal(gradient, twice[name]), name
        assert not any(np.shares_memory(gradient, w) for w in frozen), name
    assert all(np.array_equal(a, b) for a, b in zip(frozen, before, strict=True))


@pytest.mark.parametrize("shape", [(1, 1, 6), (0, 3, 6), (2, 0, 6)])
def test_small_and_empty_shapes(shape):
    w = rng.standard_normal((4, 6, 6))
    out, cache = attention.attention_forward(rng.standard_normal(shape), *w, n_heads=3, n_kv_heads=1 + 2)
    assert out.shape == shape
    assert attention.attention_backward(out, cache)[0].shape == shape


def test_memory_order_does_not_matter():
    x, wg, wu, wd = rng.standard_normal((2, 3, 6)), *rng.standard_normal((2, 6, 8)), rng.standard_normal((8, 6))
    plain, _ = ffn.swiglu_forward(x, wg, wu, wd)
    odd = [np.asfortranarray(a) for a in (x, wg, wu, wd)]
    strided = np.repeat(x, 2, axis=-1)[..., ::2]
    assert np.allclose(ffn.swiglu_forward(*odd)[0], plain, rtol=1e-13)
    assert np.allclose(ffn.swiglu_forward(strided, wg, wu, wd)[0], plain, rtol=1e-13)


def test_trace_is_the_same_run_and_its_parts_add_up():
    params, ids = loud(GQA), rng.integers(0, 13, (2, 6))
    seen = trace.trace(ids, params, GQA)
    assert np.array_equal(seen.logits, model_forward(ids, params, GQA)[0])
    assert seen.maps.shape == (3, 2, 4, 6, 6)
    assert np.allclose(seen.maps.sum(axis=-1), 1)
    assert np.allclose(seen.stream[:-1] + seen.attn + seen.ffn, seen.stream[1:], rtol=0, atol=1e-12)
    assert np.allclose(trace.logit_lens(seen.stream[-1], params, GQA), seen.logits, rtol=0, atol=1e-12)
    norms = trace.gradient_norms(ids, ids, params, GQA)
    assert norms.shape == (3, 2, 6)
    assert (norms > 0).all()


def test_inference_keeps_no_cache():
    ids = rng.integers(0, 13, (1, 4))
    logits, cache = model_forward(ids, loud(GQA), GQA, keep_cache=False)
    assert cache is None
    assert np.array_equal(logits, model_forward(ids, loud(GQA), GQA)[0])


def test_fact_returns_what_was_computed_and_raises_when_it_differs():
    value = np.array([1.0, 2.0])
    assert fact("F0", value, [1.0, 2.001], 0.01) is value
    assert fact("F0", "Paris", "Paris") == "Paris"
    assert fact("F0", [(5, 8), (2, 5, 4)], [(5, 8), (2, 5, 4)])
    for computed, expected, tolerance in (
        (value, [1.0, 2.1], 0.01),
        (value, [1.0], 0.01),
        (np.nan, 1.0, 0.5),
        (3, 4, 0),
        ("Paris", "Rome", 0),
        ([(5, 8)], [(5, 9)], 0),
    ):
        with pytest.raises(FactError, match="^F0: "):
            fact("F0", computed, expected, tolerance)


x3 = rng.standard_normal((2, 5, 6))
sq = rng.standard_normal((6, 6))
WRONG = {
    "linear w": (lambda: ops.linear_forward(x3, sq[:4]), "x has 6 columns, but w has 4 rows"),
    "linear b": (lambda: ops.linear_forward(x3, sq, sq), r"b has shape \(6, 6\), expected \(6,\)"),
    "integers": (lambda: ops.linear_forward(np.arange(6), sq), "x must be a NumPy array of floats, got dtype int64"),
    "a list": (lambda: ops.softmax_forward([1.0, 2.0]), "x must be a NumPy array of floats, got list"),
    "gain": (lambda: ops.rmsnorm_forward(x3, np.ones(5)), r"rmsnorm_forward: g has shape \(5,\), expected \(6,\)"),
    "id": (lambda: ops.embedding_forward(np.array([1, 9]), sq), "ids contains 9, expected 0 … 5"),
    "negative id": (lambda: ops.embedding_forward(np.array([-1]), sq), "ids contains -1"),
    "float ids": (lambda: ops.embedding_forward(np.ones(2), sq), "ids must be a NumPy array of integers"),
    "target": (lambda: ops.cross_entropy_forward(sq, np.array([0, 1, 2, 3, 4, 6])), "targets contains 6"),
    "targets' shape": (lambda: ops.cross_entropy_forward(sq, np.array([0])), r"targets has shape \(1,\)"),
    "dout": (lambda: ops.silu_backward(sq, ops.silu_forward(x3)[1]), r"dout has shape \(6, 6\), expected \(2, 5, 6\)"),
    "odd head": (lambda: rope.rope_table(4, 5), "Dh=5, expected an even"),
    "short table": (lambda: rope.rope_forward(x3, *rope.rope_table(4, 6)), r"cos has shape \(4, 3\)"),
    "layout": (
        lambda: rope.rope_forward(x3, *rope.rope_table(5, 6), layout="split"),
        "layout='split', expected one of",
    ),
    "heads": (
        lambda: attention.attention_forward(x3, sq, sq, sq, sq, n_heads=4, n_kv_heads=4),
        "wq has 6 columns, not divisible by n_heads=4",
    ),
    "group": (
        lambda: attention.attention_forward(x3, sq, sq, sq, sq, n_heads=3, n_kv_heads=2),
        "n_heads=3 is not divisible by n_kv_heads=2",
    ),
    "wk": (
        lambda: attention.attention_forward(x3, sq, sq, sq, sq, n_heads=3, n_kv_heads=1),
        r"wk has shape \(6, 6\), expected \(6, 2\)",
    ),
    "pad mask": (
        lambda: attention.attention_forward(x3, sq, sq, sq, sq, n_heads=3, n_kv_heads=3, pad_mask=np.ones((2, 5))),
        r"pad_mask must be a bool array of shape \(2, 5\)",
    ),
    "layernorm b": (
        lambda: ops.layernorm_forward(x3, np.ones(6), np.ones(7)),
        r"layernorm_forward: b has shape \(7,\)",
    ),
    "scalar": (lambda: ops.gelu_forward(np.array(1.0)), "x must have at least one axis"),
    "complex": (lambda: ops.silu_forward(x3 + 1j), "x must be a NumPy array of floats, got dtype complex128"),
    "table's axes": (
        lambda: ops.embedding_forward(np.array([1]), x3),
        r"table must have 2 axes, got shape \(2, 5, 6\)",
    ),
    "list of ids": (lambda: ops.embedding_forward([1, 2], sq), "ids must be a NumPy array of integers, got list"),
    "bool ids": (lambda: ops.embedding_forward(np.array([True]), sq), "integers, got dtype bool"),
    "integer logits": (lambda: ops.cross_entropy_forward(np.eye(3, dtype=int), np.arange(3)), "logits must be"),
    "chunked w": (
        lambda: ops.chunked_cross_entropy_forward(x3, sq[:4], np.zeros((2, 5), int)),
        r"w has shape \(4, 6\), expected \(6, 6\)",
    ),
    "chunk": (lambda: ops.chunked_cross_entropy_forward(x3, sq, np.zeros((2, 5), int), chunk=0), "chunk=0, expected"),
    "dout of linear": (
        lambda: ops.linear_backward(x3[..., :3], ops.linear_forward(x3, sq)[1]),
        r"dout has shape \(2, 5, 3\), expected \(2, 5, 6\)",
    ),
    "one axis": (
        lambda: rope.rope_forward(np.ones(6), *rope.rope_table(5, 6)),
        r"x has shape \(6,\), expected \[..., T, Dh\]",
    ),
    "negative T": (lambda: rope.rope_table(-1, 6), "T=-1, expected 0 or more"),
    "base": (lambda: rope.rope_table(4, 6, base=0.0), "base=0.0, expected a positive number"),
    "conversion": (lambda: rope.convert_layout(sq, 4, "half"), "w has 6 columns, expected an even head width"),
    "conversion to": (lambda: rope.convert_layout(sq, 3, "rotate"), "to='rotate', expected one of"),
    "sdpa's k": (
        lambda: attention.sdpa_forward(np.ones((1, 2, 3, 4)), np.ones((1, 2, 5, 4)), np.ones((1, 2, 5, 4))),
        r"sdpa_forward: k has shape \(1, 2, 5, 4\), expected \(1, 2, 3, 4\)",
    ),
    "sdpa's heads": (
        lambda: attention.sdpa_forward(np.ones((1, 3, 2, 4)), *np.ones((2, 1, 2, 2, 4))),
        "q has 3 heads, not divisible by the 2 heads of k",
    ),
    "wo": (
        lambda: attention.attention_forward(x3, sq, sq, sq, sq[:4], n_heads=3, n_kv_heads=3),
        r"wo has shape \(4, 6\), expected \(6, 6\)",
    ),
    "bq": (
        lambda: attention.attention_forward(x3, sq, sq, sq, sq, np.ones(5), n_heads=3, n_kv_heads=3),
        r"attention_forward: bq has shape \(5,\), expected \(6,\) = \[H·Dh\]",
    ),
    "x's axes": (
        lambda: attention.attention_forward(x3[0], sq, sq, sq, sq, n_heads=3, n_kv_heads=3),
        r"x must have 3 axes, got shape \(5, 6\)",
    ),
    "wu": (lambda: ffn.swiglu_forward(x3, sq, sq[:, :4], sq), r"wu has shape \(6, 4\), expected \(6, 6\)"),
    "wd": (lambda: ffn.swiglu_forward(x3, sq, sq, sq[:4]), r"swiglu_forward: wd has shape \(4, 6\), expected \(6, 6\)"),
    "w2": (lambda: ffn.gelu_mlp_forward(x3, sq, None, sq[:4], None), r"gelu_mlp_forward: w2 has shape \(4, 6\)"),
    "b1": (lambda: ffn.gelu_mlp_forward(x3, sq, np.ones(2), sq, None), r"gelu_mlp_forward: b1 has shape \(2,\)"),
    "wg": (lambda: ffn.swiglu_forward(x3, sq[:4], sq, sq), r"swiglu_forward: wg has shape \(4, 6\), expected \(6, 6\)"),
    "config form": (lambda: Config(form="sandwich"), "form='sandwich', expected one of 'pre-norm'"),
    "config float": (lambda: Config(d_model=64.0), "d_model=64.0, expected a positive integer"),
    "config odd head": (lambda: Config(d_head=5), "RoPE needs an even head width, got 5"),
    "head": (
        lambda: model_forward(np.zeros((1, 2), int), loud(GQA), Config(**{**GQA.__dict__, "tied": False})),
        "params has no 'head'",
    ),
    "wo missing": (
        lambda: attention.attention_forward(x3, sq, sq, sq, None, n_heads=3, n_kv_heads=3),
        "attention_forward: wo must be a NumPy array of floats, got NoneType",
    ),
    "wq of no columns": (
        lambda: attention.attention_forward(x3, sq[:, :0], sq, sq, sq, n_heads=3, n_kv_heads=3),
        "wq has 0 columns, not divisible by n_heads=3",
    ),
    "chunked w's axes": (
        lambda: ops.chunked_cross_entropy_forward(x3, sq[0], np.zeros((2, 5), int)),
        r"w must have 2 axes, got shape \(6,\)",
    ),
    "dout of the loss": (
        lambda: ops.cross_entropy_backward(np.ones(3), ops.cross_entropy_forward(sq, np.arange(6))[1]),
        r"cross_entropy_backward: dout has shape \(3,\), expected a scalar",
    ),
    "config heads": (lambda: Config(d_model=64, n_heads=5), "d_model=64 is not divisible by n_heads=5"),
    "config group": (lambda: Config(n_heads=4, n_kv_heads=3), "n_heads=4 is not divisible by n_kv_heads=3"),
    "config norm": (lambda: Config(norm="batch"), "norm='batch', expected one of 'rmsnorm', 'layernorm'"),
    "config number": (lambda: Config(d_ff=0), "d_ff=0, expected a positive integer"),
    "too long": (lambda: model_forward(np.zeros((1, 17), int), loud(GQA), GQA), "17 positions, config.max_seq=16"),
    "ids' axes": (lambda: model_forward(np.zeros(4, int), loud(GQA), GQA), r"ids has shape \(4,\), expected \[B, T\]"),
    "blocks": (lambda: model_forward(np.zeros((1, 2), int), loud(GQA) | {"blocks": []}, GQA), "params has 0 blocks"),
    "tree": (lambda: block.block_forward(x3, {"norm1": {"g": np.ones(6)}}, GQA), "params has no 'attn'"),
    "leaf": (lambda: block.block_forward(x3, {"norm1": {}}, GQA), "parameter 'g' is missing"),
}


def test_import_needs_numpy_alone():
    code = (
        "import sys, scratch.model, scratch.account, scratch.gradcheck, scratch.trace, scratch.pretrained\n"
        "print(*{name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert {name for name in run.stdout.split() if not name.startswith("_")} == {"numpy", "scratch"}, run.stderr


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_says_what_came_and_what_was_expected(case):
    call, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        call()


def _leaves(tree):
    from scratch.gradcheck import leaves

    return list(leaves(tree))


def test_a_fact_that_fails_says_what_was_allowed():
    with pytest.raises(FactError, match=r"\[1.0, 2.0\], the text says \[1.0, 2.5\] \(tolerance \[0.1, 0.2\]\)"):
        fact("F1", [1.0, 2.0], [1.0, 2.5], [0.1, 0.2])
    fact("F1", [1.0, 2.0], [1.0, 2.5], [0.1, 0.6])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.longdouble])
def test_pairs_turned_as_complex_numbers_are_turned_the_same(dtype):
    """Wherever the pairs lie: contiguous, a view of the projections' rows, every second feature, from an odd one on."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape).astype(dtype)  # noqa: E731
    cos, sin = (table.astype(dtype) for table in rope.rope_table(5, 8))
    views = [draw(2, 3, 5, 8), draw(2, 5, 3, 8).swapaxes(1, 2), draw(2, 3, 5, 16)[..., ::2], draw(2, 3, 5, 9)[..., 1:]]
    for x in [*views, np.asfortranarray(views[0]), views[0][..., ::-1], views[0][:0]]:
        before = x.copy()
        out = rope._turn(x, cos, sin, "interleaved")
        expected = rope._rotate(x, cos, sin, "interleaved")
        assert out.dtype == dtype and not np.shares_memory(out, x) and np.array_equal(x, before)
        np.testing.assert_allclose(out, expected, rtol=0, atol=8 * float(np.finfo(dtype).eps))
