"""Fused projections give what the separate ones give, forward and backward (F83), and the trees go both ways."""

import numpy as np
import pytest

from scratch import fused
from scratch.attention import attention_backward, attention_forward, sdpa_backward, sdpa_forward
from scratch.ffn import swiglu_backward, swiglu_forward
from scratch.gradcheck import relative_error
from scratch.ops import linear_backward, linear_forward
from tests.test_properties import ARRANGEMENTS, run_and_watch

LIMIT = {np.float32: 1e-5, np.float64: 1e-13}
every_dtype = pytest.mark.parametrize("dtype", LIMIT)
B, T, D, H, K, DH, F = 3, 5, 7, 6, 2, 4, 10
WIDTH = (H + 2 * K) * DH
HEADS = {"n_heads": H, "n_kv_heads": K}
rng = np.random.default_rng(19)


def normal(*shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


def attn(bias, dtype=np.float64):
    tree = {"wq": normal(D, H * DH, dtype=dtype), "wo": normal(H * DH, D, dtype=dtype)}
    tree |= {name: normal(D, K * DH, dtype=dtype) for name in ("wk", "wv")}
    if bias:
        tree |= {"bq": normal(H * DH, dtype=dtype), "bo": normal(D, dtype=dtype)}
        tree |= {name: normal(K * DH, dtype=dtype) for name in ("bk", "bv")}
    return tree


def heads(x, n):
    return x.reshape(B, T, n, -1).swapaxes(1, 2)


def merged(x):
    return x.swapaxes(1, 2).reshape(B, T, -1)


def close(a, b, dtype):
    assert a.dtype == dtype
    return relative_error(a, b) < LIMIT[dtype]


@every_dtype
@pytest.mark.parametrize("bias", [False, True])
def test_one_product_for_queries_keys_and_values(bias, dtype):
    tree, x = attn(bias, dtype), normal(B, T, D, dtype=dtype)
    outs, cache = fused.fused_qkv_forward(x, **fused.fuse_qkv(tree), **HEADS)
    douts = tuple(normal(*out.shape, dtype=dtype) for out in outs)
    dx, *of_weights = fused.fused_qkv_backward(douts, cache)
    split = fused.split_qkv(dict(zip("wb", of_weights)), **HEADS)
    sum_dx = 0
    for letter, n, out, dout in zip("qkv", (H, K, K), outs, douts, strict=True):
        expected, apart = linear_forward(x, tree["w" + letter], tree.get("b" + letter))
        assert out.shape == (B, n, T, DH) and close(out, heads(expected, n), dtype)
        part, dw, *db = linear_backward(merged(dout), apart)
        sum_dx = sum_dx + part
        assert close(split["w" + letter], dw, dtype) and (not bias or close(split["b" + letter], db[0], dtype))
    assert close(dx, sum_dx, dtype)
    assert len(of_weights) == 1 + bias


@every_dtype
def test_a_whole_attention_from_fused_projections(dtype):
    """F83: projections, mixing, projection back; the same output and gradients as `attention`."""
    tree, x, dout = attn(False, dtype), normal(B, T, D, dtype=dtype), normal(B, T, D, dtype=dtype)
    expected, apart = attention_forward(x, **tree_in_order(tree), **HEADS)
    qkv, c_qkv = fused.fused_qkv_forward(x, **fused.fuse_qkv(tree), **HEADS)
    mixed, c_mix = sdpa_forward(*qkv)
    out, c_out = linear_forward(merged(mixed), tree["wo"])
    dmixed, dwo = linear_backward(dout, c_out)
    dx, dw = fused.fused_qkv_backward(sdpa_backward(heads(dmixed, H), c_mix), c_qkv)
    got = [dx, *fused.split_qkv({"w": dw}, **HEADS).values(), dwo]
    assert close(out, expected, dtype)
    assert all(close(a, b, dtype) for a, b in zip(got, attention_backward(dout, apart), strict=True))


def tree_in_order(tree):
    return {name: tree[name] for name in ("wq", "wk", "wv", "wo")}


@every_dtype
def test_gate_and_up_in_one_product(dtype):
    tree = {"wg": normal(D, F, dtype=dtype), "wu": normal(D, F, dtype=dtype), "wd": normal(F, D, dtype=dtype)}
    for x in (normal(B, T, D, dtype=dtype), normal(T, D, dtype=dtype), normal(D, dtype=dtype)):
        expected, apart = swiglu_forward(x, **tree)
        out, cache = fused.fused_swiglu_forward(x, **fused.fuse_gate_up(tree))
        dout = normal(*out.shape, dtype=dtype)
        dx, dwgu, dwd = fused.fused_swiglu_backward(dout, cache)
        got = dx, *fused.split_gate_up({"wgu": dwgu, "wd": dwd}).values()
        assert close(out, expected, dtype)
        assert all(close(a, b, dtype) for a, b in zip(got, swiglu_backward(dout, apart), strict=True))


@pytest.mark.parametrize("bias", [False, True])
def test_fuse_and_split_undo_each_other_and_copy(bias):
    tree = attn(bias)
    both = fused.fuse_qkv(tree)
    assert {name: a.shape for name, a in both.items()} == {"w": (D, WIDTH)} | ({"b": (WIDTH,)} if bias else {})
    back = fused.split_qkv(both, **HEADS)
    assert back.keys() == tree.keys() - {"wo", "bo"}
    ffn = {"wg": normal(D, F), "wu": normal(D, F), "wd": normal(F, D)}
    gates = fused.fuse_gate_up(ffn)
    back_ffn = fused.split_gate_up(gates)
    assert gates["wgu"].shape == (D, 2 * F) and list(back_ffn) == ["wg", "wu", "wd"]
    for old, new in ((tree, back), (ffn, back_ffn)):
        assert all(np.array_equal(new[name], old[name]) and new[name].flags.c_contiguous for name in new)
    fresh = [*both.values(), *back.values(), *gates.values(), *back_ffn.values()]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(fresh) for b in [*fresh[:i], *tree.values()])


@pytest.mark.parametrize("arrange", ARRANGEMENTS)
@every_dtype
def test_the_promises_of_a_pair(arrange, dtype):
    """Inputs, upstream and cache are left alone, gradients are fresh, and the memory layout does not matter."""
    args = [
        arrange(a) for a in (normal(B, T, D, dtype=dtype), normal(D, WIDTH, dtype=dtype), normal(WIDTH, dtype=dtype))
    ]

    def joined(*args):
        out, cache = fused.fused_qkv_forward(*args, **HEADS)
        assert not any(np.shares_memory(a, b) for i, a in enumerate(out) for b in [*out[:i], *args])
        return np.concatenate(out, axis=1), cache

    def cut(dout, cache):
        return fused.fused_qkv_backward(tuple(np.split(dout, [H, H + K], axis=1)), cache)

    run_and_watch(joined, cut, args, arrange)
    args = [
        arrange(a) for a in (normal(B, T, D, dtype=dtype), normal(D, 2 * F, dtype=dtype), normal(F, D, dtype=dtype))
    ]
    run_and_watch(fused.fused_swiglu_forward, fused.fused_swiglu_backward, args, arrange)


def test_one_head_is_one_product():
    x, w = normal(B, T, D), normal(D, 3 * DH)
    outs, _ = fused.fused_qkv_forward(x, w, n_heads=1, n_kv_heads=1)
    assert relative_error(np.concatenate(outs, axis=-1)[:, 0], x @ w) < 1e-14


@pytest.mark.parametrize("shape", [(0, T), (B, 0), (1, 1)])
def test_empty_and_single(shape):
    outs, cache = fused.fused_qkv_forward(normal(*shape, D), normal(D, WIDTH), **HEADS)
    assert [out.shape for out in outs] == [(shape[0], n, shape[1], DH) for n in (H, K, K)]
    dx, dw = fused.fused_qkv_backward(outs, cache)
    assert dx.shape == (*shape, D) and dw.shape == (D, WIDTH)
    out, cache = fused.fused_swiglu_forward(normal(*shape, D), normal(D, 2 * F), normal(F, D))
    assert fused.fused_swiglu_backward(out, cache)[0].shape == (*shape, D)


X, W, WGU, WD = np.ones((B, T, D)), np.ones((D, WIDTH)), np.ones((D, 2 * F)), np.ones((F, D))
TREE = attn(True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fused.fused_qkv_forward(X[0], W, **HEADS),
            r"fused_qkv_forward: x must have 3 axes, got shape \(5, 7\)",
        ),
        (lambda: fused.fused_qkv_forward(X, W[:-1], **HEADS), r"w has shape \(6, 40\), expected \(7, 40\)"),
        (lambda: fused.fused_qkv_forward(X, W[:, :-1], **HEADS), r"w has 39 columns, not divisible by .* = 10"),
        (lambda: fused.fused_qkv_forward(X, W[:, :0], **HEADS), "w has 0 columns"),
        (lambda: fused.fused_qkv_forward(X, W, n_heads=6, n_kv_heads=4), "n_heads=6 is not divisible by n_kv_heads=4"),
        (lambda: fused.fused_qkv_forward(X, W, n_heads=6, n_kv_heads=0), "n_heads=6 is not divisible by n_kv_heads=0"),
        (lambda: fused.fused_qkv_forward(X, W, np.ones(39), **HEADS), r"b has shape \(39,\), expected \(40,\)"),
        (
            lambda: fused.fused_swiglu_forward(X, WGU[:, 1:], WD),
            "fused_swiglu_forward: wgu has 19 columns, expected an even",
        ),
        (
            lambda: fused.fused_swiglu_forward(X, WGU[1:], WD),
            r"wgu has shape \(6, 20\), expected \(7, 20\) = \[D, 2F\]",
        ),
        (lambda: fused.fused_swiglu_forward(X, WGU, WD[1:]), r"wd has shape \(9, 7\), expected \(10, 7\) = \[F, D\]"),
        (lambda: fused.fuse_qkv({"wq": W, "wk": W}), "fuse_qkv: wv is missing, expected wq, wk, wv"),
        (lambda: fused.fuse_qkv(TREE | {"bk": None}), "fuse_qkv: bk is missing, expected bq, bk, bv"),
        (lambda: fused.fuse_qkv(TREE | {"wk": W[1:]}), r"fuse_qkv: wk has shape \(6, 40\), expected \(7, 40\)"),
        (lambda: fused.split_qkv({"w": W[:, 1:]}, **HEADS), "split_qkv: w has 39 columns"),
        (lambda: fused.fuse_gate_up({"wg": WGU, "wd": WD}), "fuse_gate_up: wu is missing, expected wg, wu"),
        (lambda: fused.fuse_gate_up({"wg": WGU, "wu": WGU}), "fuse_gate_up: wd is missing, expected wd"),
        (lambda: fused.split_gate_up({"wgu": WGU[:, 1:], "wd": WD}), "split_gate_up: wgu has 19 columns"),
    ],
)
def test_wrong_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_wrong_upstream():
    (q, k, v), cache = fused.fused_qkv_forward(X, W, **HEADS)
    for dout, message in (
        (q, r"dout must be the three arrays \(dq, dk, dv\), got ndarray"),
        ((q, k), r"dout must be the three arrays"),
        ((k, q, v), r"dq has shape \(3, 2, 5, 4\), expected \(3, 6, 5, 4\) = \[B, H, T, Dh\]"),
        ((q, q, v), r"dk has shape \(3, 6, 5, 4\), expected \(3, 2, 5, 4\)"),
        ((q, k, q), r"dv has shape \(3, 6, 5, 4\), expected \(3, 2, 5, 4\) = \[B, K, T, Dh\]"),
    ):
        with pytest.raises(ValueError, match="fused_qkv_backward: " + message):
            fused.fused_qkv_backward(dout, cache)
