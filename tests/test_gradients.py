"""Every backward against finite differences (float64, random upstream, unequal sizes), and proof that this can fail."""

import importlib
import inspect

import numpy as np
import pytest

from scratch import attention, block, blocked, ffn, fused, latent, loss, model, moe, norm, ops, rope, tiled
from scratch.gradcheck import GradientError, check_pair, directional_error, numerical_gradient, relative_error
from scratch.model import Config, init_params

LIMIT = 1e-7
rng = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def same_numbers():
    """Each test draws from the start, so that none depends on those before it."""
    rng.bit_generator.state = np.random.default_rng(7).bit_generator.state


def normal(*shape, scale=1.0):
    return scale * rng.standard_normal(shape)


def randomized(tree):
    """The same tree with unit-normal leaves: zeros and ones of an initialization hide errors."""
    if isinstance(tree, dict):
        return {key: randomized(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [randomized(value) for value in tree]
    return normal(*tree.shape)


def pair(module, name):
    return getattr(module, name + "_forward"), getattr(module, name + "_backward")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("name", ["softmax", "silu", "gelu"])
def test_elementwise_and_softmax(name, scale):
    # Larger scores saturate softmax, SiLU and GELU to exact constants, where differences say nothing.
    check_pair(*pair(ops, name), normal(2, 3, 5, scale=min(scale, 3.0)), tol=LIMIT)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_linear_and_norms(scale):
    x = normal(2, 3, 5, scale=scale)
    check_pair(*pair(ops, "linear"), x, normal(5, 4), tol=LIMIT)
    check_pair(*pair(ops, "linear"), x, normal(5, 4), normal(4), tol=LIMIT)
    check_pair(*pair(ops, "rmsnorm"), x, normal(5), tol=LIMIT)
    check_pair(*pair(ops, "layernorm"), x, normal(5), normal(5), tol=LIMIT)


def test_embedding_adds_up_repeated_ids():
    ids = np.array([[1, 3, 1], [0, 3, 3]], dtype=np.uint8)
    check_pair(*pair(ops, "embedding"), ids, normal(6, 4), tol=LIMIT)


@pytest.mark.parametrize("ignored", [0, 2, 6])
def test_cross_entropy(ignored):
    targets = rng.integers(0, 7, (2, 3))
    targets.flat[:ignored] = -100
    check_pair(*pair(ops, "cross_entropy"), normal(2, 3, 7), targets, tol=LIMIT)


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_chunked_cross_entropy(chunk):
    targets = rng.integers(0, 7, (2, 5))
    targets[0, 1] = -100
    forward = lambda h, w: ops.chunked_cross_entropy_forward(h, w, targets, chunk=chunk)  # noqa: E731
    check_pair(forward, ops.chunked_cross_entropy_backward, normal(2, 5, 3), normal(3, 7), tol=LIMIT)


@pytest.mark.parametrize("layout", rope.LAYOUTS)
def test_rope(layout):
    cos, sin = rope.rope_table(9, 6)
    forward = lambda x: rope.rope_forward(x, cos, sin, layout)  # noqa: E731
    errors = check_pair(forward, rope.rope_backward, normal(2, 3, 5, 6), tol=LIMIT)
    assert list(errors) == ["0"]


@pytest.mark.parametrize(("H", "K"), [(6, 6), (6, 2), (6, 1), (1, 1)])
@pytest.mark.parametrize("causal", [True, False])
def test_attention(H, K, causal):
    B, T, D, Dh = 4, 5, 7, 8
    weights = [normal(D, H * Dh), normal(D, K * Dh), normal(D, K * Dh), normal(H * Dh, D)]
    biases = [normal(H * Dh), normal(K * Dh), normal(K * Dh), normal(D)]
    pad = np.ones((B, T), dtype=bool)
    pad[0, :2] = False
    options = {"n_heads": H, "n_kv_heads": K, "causal": causal, "pad_mask": pad}
    x = normal(B, T, D)
    check_pair(*pair(attention, "attention"), x, *weights, tol=LIMIT, rope=rope.rope_table(T, Dh), **options)
    check_pair(*pair(attention, "attention"), x, *weights, *biases, tol=LIMIT, **options)


def test_some_biases_only():
    weights = [normal(6, 8), normal(6, 8), normal(6, 8), normal(8, 6)]
    args = (normal(2, 3, 6), *weights, None, normal(8), None, normal(6))
    errors = check_pair(*pair(attention, "attention"), *args, tol=LIMIT, n_heads=2, n_kv_heads=2)
    assert list(errors) == ["0", "1", "2", "3", "4", "6", "8"]


@pytest.mark.parametrize("biases", ["both", "b1", "b2", "none"])
def test_feed_forwards(biases):
    check_pair(*pair(ffn, "swiglu"), normal(2, 3, 4), normal(4, 7), normal(4, 7), normal(7, 4), tol=LIMIT)
    b1 = normal(7) if biases in ("both", "b1") else None
    b2 = normal(4) if biases in ("both", "b2") else None
    check_pair(*pair(ffn, "gelu_mlp"), normal(2, 3, 4), normal(4, 7), b1, normal(7, 4), b2, tol=LIMIT)


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_mixture_of_experts(top_k, renormalize):
    fixed = np.random.default_rng(3)  # near a tie of two logits the output jumps, and differences say nothing
    shapes = ((2, 3, 5), (5, 4), (4, 5, 6), (4, 5, 6), (4, 6, 5))
    args = [fixed.standard_normal(shape) for shape in shapes]
    check_pair(*pair(moe, "moe"), *args, tol=LIMIT, top_k=top_k, renormalize=renormalize)
    logits, chosen = args[0] @ args[1], moe.route(args[0], args[1], top_k)[0]
    check_pair(*pair(moe, "load_balance"), logits, chosen, tol=LIMIT)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rotated", [0, 6])
def test_latent_attention(rotated, causal):
    B, T, D, H, R, Dh, Dv = 2, 5, 7, 3, 8, 4, 9
    fixed = np.random.default_rng(4).standard_normal
    weights = [fixed((D, R)), fixed((R, H * Dh)), fixed((R, H * Dv)), fixed((D, H * (Dh + rotated)))]
    weights += [fixed((D, rotated)) if rotated else None, fixed((H * Dv, D))]
    options = {"n_heads": H, "causal": causal, "rope": rope.rope_table(T, rotated, 100.0) if rotated else None}
    errors = check_pair(*pair(latent, "latent_attention"), fixed((B, T, D)), *weights, tol=LIMIT, **options)
    assert len(errors) == (7 if rotated else 6)


@pytest.mark.parametrize(("H", "K"), [(6, 6), (6, 2), (6, 1)])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("tile", [1, 2, 9])
def test_tiled_attention(H, K, causal, tile):
    own = np.random.default_rng(23)  # so that the other tests draw what they drew without these
    args = [own.standard_normal((2, heads, 5, 4)) for heads in (H, K, K)]
    check_pair(*pair(tiled, "tiled_attention"), *args, tol=LIMIT, causal=causal, tile=tile)


@pytest.mark.parametrize(("H", "K"), [(6, 6), (6, 2)])
@pytest.mark.parametrize("causal", [True, False])
def test_plain_and_blocked_attention(H, K, causal):
    own = np.random.default_rng(24)
    args = [own.standard_normal((2, heads, 5, 4)) for heads in (H, K, K)]
    check_pair(*pair(attention, "sdpa"), *args, tol=LIMIT, causal=causal)
    check_pair(*pair(blocked, "blocked_sdpa"), *args, tol=LIMIT, causal=causal)


@pytest.mark.parametrize("bias", [True, False])
def test_fused_projections(bias):
    B, T, D, H, K, Dh = 2, 3, 5, 6, 2, 4
    forward, backward = pair(fused, "fused_qkv")

    def joined(*args):
        out, cache = forward(*args, n_heads=H, n_kv_heads=K)
        return np.concatenate(out, axis=1), cache

    def cut(dout, cache):
        return backward(tuple(np.split(dout, [H, H + K], axis=1)), cache)

    own, width = np.random.default_rng(29), (H + 2 * K) * Dh
    args = [own.standard_normal(shape) for shape in [(B, T, D), (D, width), (width,)][: 2 + bias]]
    assert len(check_pair(joined, cut, *args, tol=LIMIT)) == len(args)
    args = [own.standard_normal(shape) for shape in [(B, T, D), (D, 14), (7, D)]]
    check_pair(*pair(fused, "fused_swiglu"), *args, tol=LIMIT)


GPT2 = {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True}
STYLES = {
    "llama-mha": {},
    "llama-gqa": {"n_kv_heads": 2},
    "llama-mqa": {"n_kv_heads": 1, "rope_layout": "half"},
    "llama-untied": {"n_kv_heads": 2, "tied": False},
    "gpt2": GPT2,
    "gpt2-no-bias": GPT2 | {"bias": False},
    "post-norm": {"form": "post-norm", "n_kv_heads": 2},
    "post-norm-gpt": GPT2 | {"form": "post-norm"},
    "parallel": {"form": "parallel", "n_kv_heads": 2, "tied": False},
    "encoder": {"causal": False},
}


@pytest.mark.parametrize("style", STYLES)
def test_block_input_and_all_parameters(style):
    config = Config(vocab_size=11, d_model=10, n_layers=1, n_heads=6, d_head=8, d_ff=7, max_seq=9, **STYLES[style])
    params = randomized(init_params(config, dtype=np.float64)["blocks"][0])
    table = rope.rope_table(5, 8) if config.pos == "rope" else None
    errors = check_pair(*pair(block, "block"), normal(4, 5, 10), params, config, tol=LIMIT, rope=table)
    assert len(errors) == 1 + sum(len(leaf) for leaf in params.values())


@pytest.mark.parametrize("style", STYLES)
def test_whole_model(style):
    config = Config(vocab_size=11, d_model=6, n_layers=2, n_heads=6, d_head=4, d_ff=7, max_seq=9, **STYLES[style])
    params = randomized(init_params(config, dtype=np.float64))
    ids, targets = rng.integers(0, 11, (2, 5)), rng.integers(0, 11, (2, 5))
    targets[1, 0] = -100
    check_pair(*pair(model, "loss"), ids, targets, params, config, tol=LIMIT)
    assert directional_error(*pair(model, "model"), ids, params, config) < LIMIT


# One term deleted from a backward, or one slip made in it: module, what stands there, what is put, the test to fail.
MUTANTS = [
    ("norm", "dx = dz * r - x * (r * r * r * c / x.shape[-1])", "dx = dz * r", "test_linear_and_norms"),
    ("norm", "dx -= z * (np.vecdot(dz, z)[..., None] / D)", "pass", "test_linear_and_norms"),
    ("norm", "dx = dz - dz.mean(axis=-1, keepdims=True)", "dx = dz.copy()", "test_linear_and_norms"),
    ("ops", "dx = dout - np.vecdot(dout, p)[..., None]", "dx = dout.copy()", "test_elementwise_and_softmax"),
    ("ops", "    dx *= x\n", "    dx *= 0\n", "test_elementwise_and_softmax"),
    ("ops", "return dout * (s + slope)", "return dout * s", "test_elementwise_and_softmax"),
    ("ops", "np.add.at(dtable, ids.reshape(-1), dout", "dtable.__setitem__(ids.reshape(-1), dout", "test_embedding"),
    ("loss", "drows[np.arange(keep.size), flat[keep]] -= 1", "pass", "test_cross_entropy"),
    ("rope", "return _turn(dout, cos, -sin, layout)", "return _turn(dout, cos, sin, layout)", "test_rope"),
    ("attention", "    dx += dx_k\n", "", "test_attention"),
    ("attention", "    dx += dx_v\n", "", "test_attention"),
    ("attention", "    dscores *= 1 / math.sqrt(q.shape[-1])\n", "", "test_plain"),
    ("ffn", "    dx += dx_up\n", "", "test_feed_forwards"),
    ("ffn", "silu_backward(dhidden * up, cs)", "silu_backward(dhidden, cs)", "test_feed_forwards"),
    ("block", "du = dout + du_branch", "du = du_branch", "test_block"),
    ("block", "dx = du + dx_branch", "dx = du", "test_block"),
    ("block", "named_backward(dsum2 + du_branch, cache_norm1)", "named_backward(dsum2, cache_norm1)", "test_block"),
    ("block", "return dsum1 + dx_branch", "return dsum1", "test_block"),
    ("block", "named_backward(dn + dn_ffn, cache_norm)", "named_backward(dn, cache_norm)", "test_block"),
    ("loss", "dw += here.T @ dlogits", "dw[...] = here.T @ dlogits", "test_chunked"),
    ("loss", "cross_entropy_backward(dout * share, inner)", "cross_entropy_backward(dout, inner)", "test_chunked"),
    ("model", '        grads["embed"]["table"] += dhead.T\n', "        pass\n", "test_whole_model"),
    ("model", "dx.sum(axis=0), cache_pos", "dx[0], cache_pos", "test_whole_model"),
    ("blocked", "        ds -= np.vecdot(ds, p)[..., None]\n", "", "test_plain"),
    ("blocked", "        ds *= p  # of the scores\n", "", "test_plain"),
    ("blocked", "    dq *= scale\n", "", "test_plain"),
    ("blocked", "keys, :] += p.swapaxes", "keys, :] -= p.swapaxes", "test_plain"),
    ("blocked", "@ _stack(rows)\n        dq", "@ _stack(rows) / 2\n        dq", "test_plain"),
    ("tiled", "            dscores -= delta_tile\n", "", "test_tiled"),
    ("tiled", "            dscores *= p\n", "", "test_tiled"),
    ("tiled", "dq_tile += dscores", "dq_tile = dscores", "test_tiled"),
    ("tiled", "dk[:, :, columns] += dscores", "dk[:, :, columns] = dscores", "test_tiled"),
    ("tiled", "dv[:, :, columns] += p", "dv[:, :, columns] = p", "test_tiled"),
    ("tiled", "_put(dq, rows, dq_tile * _scale(q))", "_put(dq, rows, dq_tile)", "test_tiled"),
    ("tiled", "mixed * shrink + weights", "mixed + weights", "test_tiled"),
    ("tiled", "total = total * shrink", "total = total", "test_tiled"),
    ("tiled", "_put(lse, rows, top + np.log(total))", "_put(lse, rows, top)", "test_tiled"),
    ("fused", "silu_backward(dhidden * up, cs)", "silu_backward(dhidden, cs)", "test_fused"),
    ("fused", "dhidden * act]", "dhidden]", "test_fused"),
    ("fused", "np.concatenate(dout, axis=1)", "np.concatenate((dout[0], dout[2], dout[1]), axis=1)", "test_fused"),
    ("fused", "np.concatenate(dout, axis=1)", "np.concatenate((*dout[:2], 0 * dout[2]), axis=1)", "test_fused"),
    ("moe", "    dx += dx_router\n", "", "test_mixture"),
    ("moe", "dx[token] += drows_e", "dx[token] = drows_e", "test_mixture"),
    ("moe", "        dweights[token, place] = np.vecdot(here, y)\n", "", "test_mixture"),
    ("moe", "weights[token, place, None] * here, cexpert", "here, cexpert", "test_mixture"),
    ("moe", "return softmax_backward(dp, p)", "return dp * p", "test_mixture"),
    ("moe", "np.broadcast_to(dmean / tokens, p.shape)", "np.broadcast_to(dmean, p.shape)", "test_mixture"),
    ("latent", "    dscores *= 1 / math.sqrt(q.shape[-1] + qr.shape[-1])\n", "", "test_latent"),
    ("latent", "    dc += dc_v\n", "", "test_latent"),
    ("latent", "    dx += dx_q\n", "", "test_latent"),
    ("latent", "    dx += dx_kr\n", "", "test_latent"),
    ("latent", "(back @ qr).sum(axis=1, keepdims=True)", "(back @ qr)[:, :1]", "test_latent"),
    ("latent", "dqr, dkr = rope_backward(dqr, crope), rope_backward(dkr, crope)", "pass", "test_latent"),
]


@pytest.mark.parametrize(("name", "term", "put", "test"), MUTANTS, ids=lambda v: v if str(v).startswith("test") else "")
def test_a_deleted_term_is_caught(name, term, put, test, monkeypatch):
    module = importlib.import_module(f"scratch.{name}")
    source = inspect.getsource(module)
    assert source.count(term) == 1
    broken = {"__name__": module.__name__}
    exec(compile(source.replace(term, put), module.__file__, "exec"), broken)
    for importer in (loss, norm, ops, rope, attention, ffn, block, model, moe, latent, tiled, fused, blocked):
        for attribute, value in vars(importer).copy().items():
            if inspect.isfunction(value) and value.__module__ == module.__name__ and attribute in broken:
                monkeypatch.setattr(importer, attribute, broken[attribute])
    with pytest.raises((GradientError, AssertionError)):
        _run(test)


def _run(prefix):
    """Every test of this file whose name starts with `prefix`, with the parameters that show most."""
    if prefix == "test_elementwise_and_softmax":
        for name in ("softmax", "silu", "gelu"):
            test_elementwise_and_softmax(name, 1.0)
    elif prefix == "test_linear_and_norms":
        test_linear_and_norms(1.0)
    elif prefix == "test_embedding":
        test_embedding_adds_up_repeated_ids()
    elif prefix == "test_cross_entropy":
        test_cross_entropy(2)
    elif prefix == "test_rope":
        test_rope("half")
    elif prefix == "test_attention":
        test_attention(6, 2, True)
    elif prefix == "test_feed_forwards":
        test_feed_forwards("both")
    elif prefix == "test_tiled":
        test_tiled_attention(6, 2, True, 2)
    elif prefix == "test_plain":
        test_plain_and_blocked_attention(6, 2, True)
    elif prefix == "test_fused":
        test_fused_projections(True)
    elif prefix == "test_mixture":
        test_mixture_of_experts(2, True)
    elif prefix == "test_latent":
        test_latent_attention(6, True)
    elif prefix == "test_chunked":
        test_chunked_cross_entropy(4)
    elif prefix == "test_block":
        for style in ("llama-gqa", "post-norm", "parallel"):
            test_block_input_and_all_parameters(style)
    else:
        for style in ("llama-gqa", "gpt2"):
            test_whole_model(style)


def test_an_upstream_of_ones_would_miss_it():
    """F96: with ones upstream softmax's true input gradient is 0, so zeros would pass; the random upstream sees it."""
    x = normal(3, 5)
    p, cache = ops.softmax_forward(x)
    assert relative_error(ops.softmax_backward(np.ones_like(p), cache) + 1, np.ones_like(p)) < 1e-15
    with pytest.raises(GradientError, match="argument 0"):
        check_pair(ops.softmax_forward, lambda dout, cache: np.zeros_like(cache), x)


@pytest.mark.parametrize(
    "backward",
    [
        lambda dout, cache: ops.linear_backward(dout, cache)[:1],
        lambda dout, cache: tuple(g.T for g in ops.linear_backward(dout, cache)),
        lambda dout, cache: tuple(g * np.nan for g in ops.linear_backward(dout, cache)),
    ],
    ids=["one missing", "transposed", "NaN"],
)
def test_check_pair_refuses(backward):
    with pytest.raises(GradientError):
        check_pair(ops.linear_forward, backward, normal(3, 4), normal(4, 2))


def test_numerical_gradient_of_a_known_function():
    x = normal(4, 3)
    before = x.copy()
    gradient = numerical_gradient(lambda x: np.sum(x**3), x)
    assert relative_error(gradient, 3 * x**2) < 1e-10
    assert np.array_equal(x, before)


def test_the_upstream_is_not_the_callers_first_draw():
    """Often x is the first draw of default_rng(0); a norm's gradient along its own output says almost nothing."""
    x, seen = np.random.default_rng(0).standard_normal((4, 6)), []

    def spy(dout, cache):
        seen.append(dout)
        return ops.rmsnorm_backward(dout, cache)

    check_pair(ops.rmsnorm_forward, spy, x, np.ones(6))
    assert abs(np.corrcoef(seen[0].ravel(), x.ravel())[0, 1]) < 0.6
