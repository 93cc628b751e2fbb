"""Blocked attention is `sdpa` to rounding, however the scores are cut into pieces."""

import numpy as np
import pytest

from scratch import blocked
from scratch.attention import attention_forward, attention_map, sdpa_backward, sdpa_forward
from tests.test_properties import ARRANGEMENTS, run_and_watch
from tests.test_tiled import LIMIT, arrays, every_dtype, rng, worst


def both(q, k, v, dout, **options):
    """[out, dq, dk, dv] by pieces and whole."""
    found = []
    for forward, backward in (
        (blocked.blocked_sdpa_forward, blocked.blocked_sdpa_backward),
        (sdpa_forward, sdpa_backward),
    ):
        out, cache = forward(q, k, v, **options)
        found.append([out, *backward(dout, cache)])
    return found


@every_dtype
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("n_kv_heads", [6, 2, 1])
@pytest.mark.parametrize("T", [0, 1, 2, 11, 16])
@pytest.mark.parametrize("padded", [False, True])
def test_the_same_with_any_pieces(T, n_kv_heads, causal, padded, dtype, monkeypatch):
    args = arrays(3, 6, T, 4, n_kv_heads=n_kv_heads, dtype=dtype)
    pad_mask = rng.random((3, T)) > 0.4 if padded else None
    for queries, scores in ((1, 1), (2, 50), (3, 200), (5, 1000), (128, 1 << 18)):
        monkeypatch.setattr(blocked, "QUERIES", queries)
        monkeypatch.setattr(blocked, "SCORES", scores)
        got, expected = both(*args, causal=causal, pad_mask=pad_mask)
        assert all(a.dtype == dtype and a.shape == b.shape for a, b in zip(got, expected, strict=True))
        assert worst(got, expected) < LIMIT[dtype]


def test_no_sequence_at_all():
    got, expected = both(*arrays(0, 4, 5, 6, n_kv_heads=2))
    assert [a.shape for a in got] == [a.shape for a in expected]


@every_dtype
@pytest.mark.parametrize("scale", [1e-3, 10.0, 30.0])
def test_any_scale(scale, dtype):
    got, expected = both(*arrays(2, 4, 300, 8, n_kv_heads=2, dtype=dtype, scale=scale))
    assert worst(got, expected) < LIMIT[dtype] * max(1.0, scale**2 / 20)


@every_dtype
@pytest.mark.parametrize("arrange", ARRANGEMENTS)
def test_promises(arrange, dtype):
    """Inputs and cache left alone, fresh results, the same in any order of memory: queries come as views."""
    plain = arrays(2, 4, 9, 6, n_kv_heads=2, dtype=dtype)[:3]
    pair = blocked.blocked_sdpa_forward, blocked.blocked_sdpa_backward
    out, grads = run_and_watch(*pair, [arrange(a) for a in plain], arrange)
    expected, _ = sdpa_forward(*plain)
    assert worst([out], [expected]) < LIMIT[dtype] and len(grads) == 3


def test_the_map_is_put_together(monkeypatch):
    monkeypatch.setattr(blocked, "QUERIES", 4)
    monkeypatch.setattr(blocked, "SCORES", 60)
    x, heads = rng.standard_normal((2, 11, 8)), {"n_heads": 4, "n_kv_heads": 2}
    weights = [rng.standard_normal(shape) for shape in ((8, 8), (8, 4), (8, 4), (8, 8))]
    _, cache = attention_forward(x, *weights, **heads)
    found = attention_map(cache)
    q = (x @ weights[0]).reshape(2, 11, 4, 2).swapaxes(1, 2)
    k = (x @ weights[1]).reshape(2, 11, 2, 2).swapaxes(1, 2)
    _, (*_, p) = sdpa_forward(q, k, k)
    np.testing.assert_allclose(found, p.reshape(found.shape), atol=1e-12)


def test_only_visible_keys_are_kept():
    """A long causal attention keeps little more than half of its weights for backward."""
    _, (*_, weights, _) = blocked.blocked_sdpa_forward(*arrays(1, 2, 1024, 8, n_kv_heads=2)[:3])
    assert sum(p.size for p in weights) < 0.57 * 2 * 1024 * 1024
