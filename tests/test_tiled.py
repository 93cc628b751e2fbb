"""Tiled attention is `sdpa` to rounding, whatever the tile, and never holds a T×T array (F82)."""

import tracemalloc

import numpy as np
import pytest

from scratch.attention import sdpa_backward, sdpa_forward
from scratch.gradcheck import relative_error
from scratch.tiled import tiled_attention_backward, tiled_attention_forward
from tests.test_properties import ARRANGEMENTS, run_and_watch

LIMIT = {np.float32: 1e-5, np.float64: 1e-12}
every_dtype = pytest.mark.parametrize("dtype", LIMIT)
rng = np.random.default_rng(17)


def arrays(*shape, n_kv_heads, dtype=np.float64, scale=1.0):
    """q, k, v and an upstream; shape is B, H, T, Dh."""
    B, _, T, Dh = shape
    kv = (B, n_kv_heads, T, Dh)
    return [(scale * rng.standard_normal(s)).astype(dtype) for s in (shape, kv, kv, shape)]


def whole(q, k, v, dout, causal=True):
    out, cache = sdpa_forward(q, k, v, causal=causal)
    return [out, *sdpa_backward(dout, cache)]


def by_tiles(q, k, v, dout, causal=True, tile=64):
    out, cache = tiled_attention_forward(q, k, v, causal=causal, tile=tile)
    return [out, *tiled_attention_backward(dout, cache)]


def worst(got, expected):
    """Of the output and the gradients; one that is 0 in exact arithmetic is measured by the others' size."""
    floor = 0.1 * max(np.abs(array).max(initial=0) for array in expected)
    return max(relative_error(a, b, floor) for a, b in zip(got, expected, strict=True))


@every_dtype
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("n_kv_heads", [6, 2, 1])
@pytest.mark.parametrize("T", [0, 1, 2, 11, 16])
def test_the_same_output_and_gradients_with_any_tile(T, n_kv_heads, causal, dtype):
    args = arrays(3, 6, T, 4, n_kv_heads=n_kv_heads, dtype=dtype)
    expected = whole(*args, causal)
    for tile in (1, 2, 3, 8, 11, 16, np.int64(64)):
        got = by_tiles(*args, causal, tile)
        assert all(a.dtype == dtype for a in got)
        assert worst(got, expected) < LIMIT[dtype]


@every_dtype
@pytest.mark.parametrize("scale", [1e-3, 10.0, 30.0])
def test_any_scale(scale, dtype):
    """Scores up to about 5000, where a plain exp overflows; s − lse has the rounding of the largest score."""
    args = arrays(2, 4, 40, 8, n_kv_heads=2, dtype=dtype, scale=scale)
    got, expected = by_tiles(*args, tile=7), whole(*args)
    assert worst(got, expected) < LIMIT[dtype] * max(1.0, scale**2 / 20)


@every_dtype
def test_scores_of_the_largest_size_give_the_largest_ones_value(dtype):
    """Two scores may lie further apart than the dtype reaches: their difference is then −inf, and the weight 0."""
    big = np.sqrt(np.finfo(dtype).max) * 0.99
    q = np.full((1, 1, 3, 1), big, dtype)
    k = np.array([-big, big, -big], dtype).reshape(q.shape)
    v = np.array([2, 3, 5], dtype).reshape(q.shape)
    out, cache = tiled_attention_forward(q, k, v, tile=1)
    assert out.ravel().tolist() == [2, 3, 3]
    assert np.isfinite(tiled_attention_backward(v, cache)).all()


@pytest.mark.parametrize("arrange", ARRANGEMENTS)
@every_dtype
def test_the_promises_of_a_pair(arrange, dtype):
    """Inputs, upstream and cache are left alone, results are fresh, and the memory layout does not matter."""
    args = arrays(2, 4, 7, 6, n_kv_heads=2, dtype=dtype)[:3]

    def forward(*args):
        return tiled_attention_forward(*args, tile=3)

    plain = run_and_watch(forward, tiled_attention_backward, args, np.ascontiguousarray)
    out, grads = run_and_watch(forward, tiled_attention_backward, [arrange(a) for a in args], arrange)
    assert worst([out, *grads], [plain[0], *plain[1]]) < LIMIT[dtype]


def test_a_wholly_hidden_tile_is_never_read():
    """NaN in later keys does not reach earlier tiles: those products are skipped, not masked."""
    q, k, v, dout = arrays(1, 2, 8, 4, n_kv_heads=1)
    expected = tiled_attention_forward(q, k, v, tile=4)[0]
    k[:, :, 4:] = v[:, :, 4:] = np.nan
    out, cache = tiled_attention_forward(q, k, v, tile=4)
    assert np.array_equal(out[:, :, :4], expected[:, :, :4])
    assert np.isfinite(tiled_attention_backward(dout, cache)[0][:, :, :4]).all()


def test_memory_stays_far_below_the_matrix_of_scores():
    """F82: T = 8192 in float32, where the T×T matrix has 268 MB; the forward allocates under 5% of it."""
    T = 8192
    q, k, v, dout = arrays(1, 1, T, 64, n_kv_heads=1, dtype=np.float32)
    matrix = 4 * T * T
    tracemalloc.start()
    try:
        _, cache = tiled_attention_forward(q, k, v, tile=256)
        forward = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        tiled_attention_backward(dout, cache)
        backward = tracemalloc.get_traced_memory()[1]  # with what the forward keeps
    finally:
        tracemalloc.stop()
    assert 2_000_000 < forward < 0.05 * matrix  # out alone has 2 MB: NumPy's memory is counted
    assert backward < 0.05 * matrix
    # What is kept: the arguments, out and one number for each query.
    assert sum(a.nbytes for a in cache if isinstance(a, np.ndarray)) == 4 * (q.nbytes + T)


def test_the_plain_one_does_hold_the_matrix():
    T = 512
    q, k, v, _ = arrays(1, 1, T, 8, n_kv_heads=1, dtype=np.float32)
    tracemalloc.start()
    try:
        sdpa_forward(q, k, v)
        assert tracemalloc.get_traced_memory()[1] > 4 * T * T
    finally:
        tracemalloc.stop()


Q, KV = np.ones((2, 4, 3, 5)), np.ones((2, 2, 3, 5))


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((Q[0], KV, KV), {}, r"q must have 4 axes, got shape \(4, 3, 5\)"),
        ((Q, KV[0], KV), {}, r"k must have 4 axes, got shape \(2, 3, 5\)"),
        ((Q.tolist(), KV, KV), {}, "q must be a NumPy array of floats, got list"),
        ((Q, np.ones((2, 3, 3, 5)), KV), {}, "q has 4 heads, not divisible by the 3 heads of k"),
        ((Q, KV[:, :0], KV[:, :0]), {}, "q has 4 heads, not divisible by the 0 heads of k"),
        ((Q, KV[:, :, :2], KV), {}, r"k has shape \(2, 2, 2, 5\), expected \(2, 2, 3, 5\) = \[B, K, T, Dh\]"),
        ((Q, KV, KV[..., :4]), {}, r"v has shape \(2, 2, 3, 4\), expected \(2, 2, 3, 5\) = \[B, K, T, Dh\]"),
        ((Q, KV, KV), {"tile": 0}, "tile=0, expected a positive integer"),
        ((Q, KV, KV), {"tile": 2.0}, "tile=2.0, expected a positive integer"),
        ((Q, KV, KV), {"tile": True}, "tile=True, expected a positive integer"),
    ],
)
def test_wrong_calls(args, options, message):
    with pytest.raises(ValueError, match="tiled_attention_forward: " + message):
        tiled_attention_forward(*args, **options)


def test_a_wrong_upstream():
    _, cache = tiled_attention_forward(Q, KV, KV)
    with pytest.raises(ValueError, match="tiled_attention_backward: dout has shape"):
        tiled_attention_backward(KV, cache)
