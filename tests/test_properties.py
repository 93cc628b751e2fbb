"""What must hold whatever the sizes, dtypes, memory layouts and scales: hypothesis looks for an exception.

The searches are derandomized, so every run tries the same cases. Only sizes and seeds are searched for: out of a short
list hypothesis draws so unevenly that one of six forms came up once in 80 cases. Lists are parameters or loops.
"""

import copy
import functools
import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scratch import attention, block, ffn, loss, model, norm, ops, rope
from scratch.gradcheck import leaves, relative_error
from scratch.model import Config, init_params, map_leaves

search = settings(derandomize=True, max_examples=50, deadline=None, database=None)
few = settings(search, max_examples=15)
DTYPES = [np.float32, np.float64]
LIMIT = {np.float32: 2e-4, np.float64: 1e-12}
seeds = st.integers(0, 2**32 - 1)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_layout = pytest.mark.parametrize("layout", rope.LAYOUTS)


# ── cases: every pair at drawn sizes ──


@dataclass(frozen=True)
class Sizes:
    B: int
    T: int
    D: int
    K: int
    group: int
    pairs: int  # of features in a head
    F: int
    V: int

    @property
    def H(self):
        return self.K * self.group

    @property
    def Dh(self):
        return 2 * self.pairs


small = st.integers(1, 4)
some = functools.partial(
    st.builds, Sizes, D=small, K=st.integers(1, 3), group=st.integers(1, 3), pairs=st.integers(1, 3)
)
sizes = some(B=small, T=small, F=small, V=st.integers(2, 6))
sizes_or_empty = some(B=st.integers(0, 3), T=st.integers(0, 4), F=small, V=st.integers(2, 6))

FORMS = {
    "llama": {},
    "llama half": {"rope_layout": "half", "tied": False},
    "gpt2": {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True},
    "post-norm": {"form": "post-norm", "bias": True},
    "parallel": {"form": "parallel", "norm": "layernorm"},
    "encoder": {"causal": False},
}


def config_of(s, form, layers=2):
    return Config(
        vocab_size=s.V,
        d_model=s.D,
        n_layers=layers,
        n_heads=s.H,
        n_kv_heads=s.K,
        d_head=s.Dh,
        d_ff=s.F,
        max_seq=s.T + 1,
        **FORMS[form],
    )


class Maker:
    """Random arrays of one dtype."""

    def __init__(self, seed, dtype):
        self.rng, self.dtype = np.random.default_rng(seed), dtype

    def __call__(self, *shape):
        return self.rng.standard_normal(shape).astype(self.dtype)

    def weight(self, *shape):
        return (self.rng.standard_normal(shape) / np.sqrt(shape[0])).astype(self.dtype)

    def params(self, config, layer=None):
        tree = init_params(config, dtype=self.dtype)
        tree = tree if layer is None else tree["blocks"][layer]
        return map_leaves(lambda _, w: self(*w.shape) if w.ndim == 1 else self.weight(*w.shape), tree)

    def ids(self, s, ignore=False):
        ids = self.rng.integers(-1 if ignore else 0, s.V, (s.B, s.T))
        return np.where(ids < 0, -100, ids)

    def pad(self, s):
        return self.rng.random((s.B, s.T)) < 0.7


def attention_args(s, make, bias):
    q, kv = s.H * s.Dh, s.K * s.Dh
    weights = [make.weight(s.D, q), make.weight(s.D, kv), make.weight(s.D, kv), make.weight(q, s.D)]
    return [make(s.B, s.T, s.D), *weights, *([make(q), make(kv), make(kv), make(s.D)] if bias else [])]


def attention_pair(s, **options):
    forward = functools.partial(attention.attention_forward, n_heads=s.H, n_kv_heads=s.K, **options)
    return forward, attention.attention_backward


def pair(module, name, **options):
    return functools.partial(getattr(module, name + "_forward"), **options), getattr(module, name + "_backward")


def case(name, s, make):
    """(forward, backward, args) of a pair; args are arrays or trees of arrays, the first one the activations if any."""
    kind, _, form = name.partition(", ")
    x = make(s.B, s.T, s.D)
    if kind == "linear":
        return *pair(ops, kind), [x, make.weight(s.D, s.F), *([make(s.F)] if form else [])]
    if kind in ("softmax", "silu", "gelu"):
        return *pair(ops, kind), [x]
    if kind in ("rmsnorm", "layernorm"):
        return *pair(norm, kind), [x, *(make(s.D) for _ in range(1 + (kind == "layernorm")))]
    if kind == "embedding":
        return functools.partial(ops.embedding_forward, make.ids(s)), ops.embedding_backward, [make(s.V, s.D)]
    if kind == "cross_entropy":
        return *pair(loss, kind, targets=make.ids(s, ignore=True)), [make(s.B, s.T, s.V)]
    if kind == "chunked_cross_entropy":
        return *pair(loss, kind, targets=make.ids(s, ignore=True), chunk=3), [x, make.weight(s.D, s.V)]
    if kind == "rope":
        cos, sin = rope.rope_table(s.T + 1, s.Dh)
        return *pair(rope, kind, cos=cos, sin=sin, layout=form), [make(s.B, s.H, s.T, s.Dh)]
    if kind == "sdpa":
        kv = [make(s.B, s.K, s.T, s.Dh) for _ in range(2)]
        return *pair(attention, kind, pad_mask=make.pad(s)), [make(s.B, s.H, s.T, s.Dh), *kv]
    if kind == "attention":
        options = {"rope": rope.rope_table(s.T, s.Dh), "causal": form == "bias", "pad_mask": make.pad(s)}
        return *attention_pair(s, **options), attention_args(s, make, form == "bias")
    if kind == "swiglu":
        return *pair(ffn, kind), [x, make.weight(s.D, s.F), make.weight(s.D, s.F), make.weight(s.F, s.D)]
    if kind == "gelu_mlp":
        return *pair(ffn, kind), [x, make.weight(s.D, s.F), make(s.F), make.weight(s.F, s.D), make(s.D)]
    config = config_of(s, form)
    if kind == "block":
        table = rope.rope_table(s.T, s.Dh) if config.pos == "rope" else None
        forward = functools.partial(block.block_forward, config=config, rope=table, pad_mask=make.pad(s))
        return forward, block.block_backward, [x, make.params(config, 0)]
    if kind == "model":
        forward = functools.partial(model.model_forward, make.ids(s), config=config)
        return forward, model.model_backward, [make.params(config)]
    options = {"config": config, "chunk": 2 if form == "llama" else None}
    forward = functools.partial(model.loss_forward, make.ids(s), make.ids(s, ignore=True), **options)
    return forward, model.loss_backward, [make.params(config)]


CASES = ["linear", "linear, bias", "softmax", "silu", "gelu", "rmsnorm", "layernorm", "embedding", "cross_entropy"]
CASES += ["chunked_cross_entropy", "rope, interleaved", "rope, half", "sdpa", "attention, plain", "attention, bias"]
CASES += ["swiglu", "gelu_mlp", *(f"block, {form}" for form in FORMS), "model, llama", "model, gpt2"]
CASES += [f"loss, {form}" for form in FORMS]
every_form = pytest.mark.parametrize("form", FORMS)
every_case = pytest.mark.parametrize("name", CASES)


def call(backward, dout, cache):
    got = backward(dout, cache)
    return list(got) if isinstance(got, tuple) else [got]


def upstream(out, seed=1):
    return np.asarray(np.random.default_rng(seed).standard_normal(np.shape(out)), dtype=out.dtype)[()]


def same_structure(a, b):
    """The same keys everywhere and, in sum, the same arrays' shapes."""
    if isinstance(b, dict):
        return isinstance(a, dict) and a.keys() == b.keys() and all(same_structure(a[k], b[k]) for k in b)
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(map(same_structure, a, b))
    return isinstance(a, np.ndarray) and a.shape == b.shape


def worst(a, b):
    """Largest difference of two trees, relative to the largest entry of the second."""
    a, b = dict(leaves(a)), dict(leaves(b))
    assert a.keys() == b.keys()
    scale = max((np.abs(value).max(initial=0) for value in b.values()), default=0) or 1
    return max((np.abs(a[name] - b[name]).max(initial=0) / scale for name in b), default=0)


# ── promises of every pair ──


def fortran(a):
    return np.asfortranarray(a)


def strided(a):
    return np.repeat(a, 2, axis=-1)[..., ::2]


def reversed_(a):
    return a[..., ::-1].copy()[..., ::-1]


def read_only(a):
    a = a.copy()
    a.setflags(write=False)
    return a


def inner_view(a):
    """Rows of a wider array, beginning in its middle: neither contiguous nor owning its memory."""
    wide = np.zeros((*a.shape[:-1], a.shape[-1] + 3), a.dtype)
    wide[..., 2:-1] = a
    return wide[..., 2:-1]


ARRANGEMENTS = [np.ascontiguousarray, fortran, strided, reversed_, read_only, inner_view]


@every_case
@every_dtype
@few
@given(sizes_or_empty, seeds)
def test_promises_of_a_pair(name, dtype, s, seed):
    """Shapes and dtypes, inputs and cache left alone, fresh results, the same whatever the memory layout."""
    forward, backward, plain = case(name, s, Maker(seed, dtype))
    expected, cache = forward(*plain)
    dout = upstream(expected)
    expected_grads = call(backward, dout, cache)
    for arrange in ARRANGEMENTS:
        out, grads = run_and_watch(forward, backward, map_leaves(lambda _, a: arrange(a), plain), arrange)  # noqa: B023
        assert np.abs(out - expected).max(initial=0) <= LIMIT[dtype] * max(np.abs(expected).max(initial=0), 1)
        assert worst(grads, expected_grads) < LIMIT[dtype]


def run_and_watch(forward, backward, args, arrange):
    """(out, gradients) of one run whose inputs, results and cache are held to the promises."""
    before = copy.deepcopy(args)
    out, cache = forward(*args)
    dout = arrange(upstream(out)) if np.ndim(out) else upstream(out)
    dout_before, cache_before = np.array(dout), _arrays(cache)
    grads = call(backward, dout, cache)
    inputs = [a for _, a in leaves(args)]
    dtype = inputs[0].dtype

    assert out.dtype == dtype
    assert same_structure(grads, args)
    assert all(g.dtype == dtype for _, g in leaves(grads))
    assert np.isfinite(out).all() and all(np.isfinite(g).all() for _, g in leaves(grads))
    assert all(a.tobytes() == b.tobytes() for (_, a), (_, b) in zip(leaves(args), leaves(before), strict=True))
    assert np.array_equal(dout, dout_before)
    # Bounds suffice: a fresh array lies nowhere near an input.
    results = [g for _, g in leaves([*grads, out])]
    assert not any(np.may_share_memory(r, a) for r in results for a in [*inputs, np.asarray(dout)])
    assert not any(np.may_share_memory(a, b) for i, a in enumerate(results) for b in results[:i])

    once = copy.deepcopy(grads)
    for _, gradient in leaves(grads):
        gradient.fill(np.nan)  # a caller may scale or clip a gradient in place
    assert all(np.array_equal(a, b) for a, b in zip(_arrays(cache), cache_before, strict=True))
    again = call(backward, dout, cache)
    assert all(a.tobytes() == b.tobytes() for (_, a), (_, b) in zip(leaves(again), leaves(once), strict=True))
    return out, once


def _arrays(cache):
    """Copies of all arrays in a cache, which may hold functions, names and numbers beside them."""
    if isinstance(cache, np.ndarray):
        return [cache.copy()]
    if isinstance(cache, dict):
        cache = list(cache.values())
    return [a for item in cache for a in _arrays(item)] if isinstance(cache, list | tuple) else []


@every_case
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@few
@given(sizes, seeds)
def test_any_scale_gives_finite_numbers_and_float32_follows_float64(name, scale, s, seed):
    forward, backward, args = case(name, s, Maker(seed, np.float32))
    if isinstance(args[0], np.ndarray):
        args[0] = args[0] * np.float32(scale)
    else:
        args[0]["embed"]["table"] = args[0]["embed"]["table"] * np.float32(scale)
    results = []
    for dtype in DTYPES:
        out, cache = forward(*map_leaves(lambda _, a: a.astype(dtype), args))  # noqa: B023
        grads = call(backward, upstream(out), cache)
        assert np.isfinite(out).all() and all(np.isfinite(g).all() for _, g in leaves(grads))
        results.append((out, grads))
    # A thousandfold score leaves float32 no digits for the weights, and then it may choose another token.
    if scale <= 1:
        (out, grads), (exact, exact_grads) = results
        assert np.abs(out - exact).max() <= 1e-3 * max(np.abs(exact).max(), 1e-3)
        assert worst(grads, exact_grads) < 2e-2


@every_case
@search
@given(sizes, seeds)
def test_backward_is_linear_in_the_upstream(name, s, seed):
    forward, backward, args = case(name, s, Maker(seed, np.float64))
    out, cache = forward(*args)
    a, b = upstream(out, 1), upstream(out, 2)
    sum_first = call(backward, 2 * a - b, cache)
    apart = dict(leaves(call(backward, a, cache))), dict(leaves(call(backward, b, cache)))
    expected = {name: 2 * apart[0][name] - apart[1][name] for name in apart[0]}
    assert worst(dict(leaves(sum_first)), expected) < 1e-12


@pytest.mark.parametrize("name", ["linear", "silu", "gelu", "softmax", "rmsnorm", "layernorm", "swiglu", "embedding"])
def test_an_upstream_without_strides(name):
    """np.broadcast_to gives a read-only array of ones, all of them in one place."""
    forward, backward, args = case(name, Sizes(2, 3, 4, 2, 2, 2, 5, 6), Maker(3, np.float64))
    out, cache = forward(*args)
    flat = call(backward, np.broadcast_to(np.float64(1.5), out.shape), cache)
    for a, b in zip(flat, call(backward, np.full(out.shape, 1.5), cache), strict=True):
        assert np.allclose(a, b, rtol=1e-14, atol=1e-14)  # softmax's and LayerNorm's are 0 here


# ── extreme values ──

logits = st.floats(-1e4, 1e4, width=32)


@every_dtype
@search
@given(st.lists(logits, min_size=2, max_size=6), st.integers(0, 5))
def test_logits_up_to_ten_thousand(dtype, row, target):
    x = np.array([row, row[::-1]], dtype=dtype)
    target = np.array([target % len(row), 0])
    p, cache = ops.softmax_forward(x)
    assert np.allclose(p.sum(axis=-1), 1, rtol=0, atol=1e-6)
    assert (p >= 0).all()
    results = [p, ops.softmax_backward(upstream(p), cache)]
    for forward, backward in (pair(ops, "silu"), pair(ops, "gelu")):
        out, cache = forward(x)
        results += [out, backward(upstream(out), cache)]
    value, cache = loss.cross_entropy_forward(x, target)
    assert value >= 0
    results += [value, loss.cross_entropy_backward(1.0, cache)]
    assert all(np.isfinite(r).all() for r in results)
    exact = x.astype(np.float64)
    top = exact.max(axis=-1)
    log_sum = top + np.log(np.exp(exact - top[:, None]).sum(axis=-1))
    assert value == pytest.approx(np.mean(log_sum - exact[[0, 1], target]), rel=1e-5, abs=1e-6)


@every_dtype
@search
@given(sizes, seeds)
def test_attention_scores_up_to_ten_thousand(dtype, s, seed):
    make = Maker(seed, dtype)
    q, k, v = make(s.B, s.H, s.T, s.Dh), make(s.B, s.K, s.T, s.Dh), make(s.B, s.K, s.T, s.Dh)
    out, cache = attention.sdpa_forward(100 * q, 100 * k, v, pad_mask=make.pad(s))
    grads = attention.sdpa_backward(upstream(out), cache)
    assert np.isfinite(out).all() and all(np.isfinite(g).all() for g in grads)
    assert np.abs(out).max() <= np.abs(v).max() * (1 + 1e-5)  # a mean of values


@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("group", [1, 2])
def test_masks_hold_whatever_order_the_axes_have_in_memory(T, group):
    """Their product may come in another order, too, and a reshape of it is then a copy, which no mask would reach."""
    make, s = Maker(8, np.float64), Sizes(B=2, T=T, D=1, K=2, group=group, pairs=1, F=1, V=2)
    q, k, v = make(s.B, s.H, T, s.Dh), make(s.B, s.K, T, s.Dh), make(s.B, s.K, T, s.Dh)
    pad = np.arange(s.B * T).reshape(s.B, T) % 2 == 1
    expected, cache = attention.sdpa_forward(q, k, v, pad_mask=pad)
    expected_grads = attention.sdpa_backward(upstream(expected), cache)
    orders = list(itertools.permutations(range(4)))
    for of_q, of_k in itertools.product(orders, orders):
        out, cache = attention.sdpa_forward(in_order(q, of_q), in_order(k, of_k), in_order(v, of_k), pad_mask=pad)
        assert worst([out], [expected]) < 1e-12, (of_q, of_k)
        grads = attention.sdpa_backward(in_order(upstream(expected), of_k), cache)
        assert worst(list(grads), list(expected_grads)) < 1e-12, (of_q, of_k)


def in_order(a, order):
    """The same array with its axes laid out in memory in the given order, the last one innermost."""
    return np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))


# ── invariances ──


def block_case(s, make, form="llama"):
    config = config_of(s, form, layers=1)
    table = rope.rope_table(s.T, s.Dh) if config.pos == "rope" else None
    return make(s.B, s.T, s.D), make.params(config, 0), config, table


@pytest.mark.parametrize("form", [form for form in FORMS if form != "encoder"])
@search
@given(sizes, seeds, st.data())
def test_causality_by_prefix_forward_and_backward(form, s, seed, data):
    """Later tokens change no earlier output; an upstream on earlier tokens alone reaches no later input."""
    x, params, config, table = block_case(s, Maker(seed, np.float64), form)
    t = data.draw(st.integers(0, s.T))
    out, cache = block.block_forward(x, params, config, rope=table)
    prefix, prefix_cache = block.block_forward(x[:, :t], params, config, rope=table)
    assert worst([prefix], [out[:, :t]]) < 1e-12
    dout = upstream(out)
    dout[:, t:] = 0
    dx, grads = block.block_backward(dout, cache)
    assert not dx[:, t:].any()
    dx_prefix, grads_prefix = block.block_backward(dout[:, :t], prefix_cache)
    assert worst([dx[:, :t], grads], [dx_prefix, grads_prefix]) < 1e-12


@every_form
@search
@given(sizes, seeds)
def test_permuting_the_batch(form, s, seed):
    make = Maker(seed, np.float64)
    config = config_of(s, form)
    params, ids, targets, pad = make.params(config), make.ids(s), make.ids(s, ignore=True), make.pad(s)
    order = make.rng.permutation(s.B)
    one, _ = model.model_forward(ids, params, config, pad_mask=pad)
    other, _ = model.model_forward(ids[order], params, config, pad_mask=pad[order])
    assert worst([other], [one[order]]) < 1e-12
    value, cache = model.loss_forward(ids, targets, params, config, pad_mask=pad)
    shuffled, other_cache = model.loss_forward(ids[order], targets[order], params, config, pad_mask=pad[order])
    assert value == pytest.approx(shuffled, rel=1e-12)
    assert worst(model.loss_backward(1.0, cache), model.loss_backward(1.0, other_cache)) < 1e-11


@every_form
@search
@given(sizes, seeds)
def test_what_stands_at_a_padded_place_does_not_matter(form, s, seed):
    make = Maker(seed, np.float64)
    x, params, config, table = block_case(s, make, form)
    pad = make.pad(s)
    options = {"config": config, "rope": table, "pad_mask": pad}
    other = np.where(pad[..., None], x, make(s.B, s.T, s.D))
    one, cache = block.block_forward(x, params, **options)
    two, _ = block.block_forward(other, params, **options)
    assert worst([one[pad]], [two[pad]]) < 1e-12
    dx, _ = block.block_backward(upstream(one) * pad[..., None], cache)
    assert not dx[~pad].any()


@every_layout
@search
@given(st.integers(1, 5), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), seeds)
def test_rope_scores_depend_on_the_distance_alone(layout, pairs, i, j, shift, seed):
    make = Maker(seed, np.float64)
    table = rope.rope_table(41, 2 * pairs)

    def turned(vector, position):
        return rope.rope_forward(np.tile(vector, (41, 1)), *table, layout)[0][position]

    q, k = make(2 * pairs), make(2 * pairs)
    assert turned(q, i) @ turned(k, j) == pytest.approx(turned(q, i + shift) @ turned(k, j + shift), abs=1e-11)


@every_dtype
@every_layout
@search
@given(sizes_or_empty, seeds)
def test_rope_is_undone_by_its_backward_and_position_zero_stays(dtype, layout, s, seed):
    x = Maker(seed, dtype)(s.B, s.H, s.T, s.Dh)
    out, cache = rope.rope_forward(x, *rope.rope_table(s.T, s.Dh), layout)
    assert worst([rope.rope_backward(out, cache)], [x]) < LIMIT[dtype]
    assert np.array_equal(out[:, :, :1], x[:, :, :1])
    assert worst([np.linalg.norm(out, axis=-1)], [np.linalg.norm(x, axis=-1)]) < LIMIT[dtype]


@search
@given(sizes, seeds, st.floats(1e-3, 1e3))
def test_norms_forget_scale_and_layernorm_forgets_a_shift(s, seed, scale):
    """Without eps the output stays; the gradient of x falls as the scale grows."""
    make = Maker(seed, np.float64)
    x, g, b = make(s.B, s.T, s.D + 1), make(s.D + 1), make(s.D + 1)
    for forward, backward, args, other in (
        (*pair(norm, "rmsnorm"), (g, 0.0), scale * x),
        (*pair(norm, "layernorm"), (g, b, 0.0), scale * x + 7),
    ):
        one, cache = forward(x, *args)
        two, other_cache = forward(other, *args)
        assert worst([two], [one]) < 1e-6  # 1 ± 1e-3 + 7 has lost digits
        dx, *rest = backward(upstream(one), cache)
        dx_other, *rest_other = backward(upstream(one), other_cache)
        bound = 1e-4 * np.abs(dx).max() + 1e-9
        assert np.abs(scale * dx_other - dx).max() < bound
        assert worst(rest_other, rest) < 1e-6
        assert np.abs(np.sum(dx * x, axis=-1)).max() < 1e-9 * max(1, np.abs(dx).max() * np.abs(x).max())


@search
@given(sizes, seeds, st.floats(-1e3, 1e3))
def test_a_shift_of_the_logits_changes_neither_weights_nor_loss(s, seed, shift):
    make = Maker(seed, np.float64)
    x, targets = make(s.B, s.T, s.V), make.ids(s, ignore=True)
    for forward, backward in (pair(ops, "softmax"), pair(loss, "cross_entropy", targets=targets)):
        one, cache = forward(x)
        two, other = forward(x + shift)
        assert worst([np.asarray(two)], [np.asarray(one)]) < 1e-11
        dx = backward(upstream(one), cache)
        assert worst([backward(upstream(one), other)], [dx]) < 1e-11
        assert np.abs(dx.sum(axis=-1)).max() < 1e-14 * s.V


@pytest.mark.parametrize("bias", [False, True])
@search
@given(sizes, seeds)
def test_gqa_with_copied_heads_is_mha_whose_gradients_add_up(bias, s, seed):
    make = Maker(seed, np.float64)
    args, pad = attention_args(s, make, bias), make.pad(s)
    options = {"rope": rope.rope_table(s.T, s.Dh), "pad_mask": pad}

    def copy_heads(w):
        return np.repeat(w.reshape(*w.shape[:-1], s.K, s.Dh), s.group, axis=-2).reshape(*w.shape[:-1], -1)

    def add_heads(dw):
        return dw.reshape(*dw.shape[:-1], s.K, s.group, s.Dh).sum(axis=-2).reshape(*dw.shape[:-1], -1)

    of_keys = (2, 3, 6, 7)
    out, cache = attention_pair(s, **options)[0](*args)
    wide = replace(s, K=s.H, group=1)
    full, full_cache = attention_pair(wide, **options)[0](
        *(copy_heads(a) if i in of_keys else a for i, a in enumerate(args))
    )
    assert worst([out], [full]) < 1e-12
    got = attention.attention_backward(upstream(out), cache)
    expected = attention.attention_backward(upstream(out), full_cache)
    assert worst(list(got), [add_heads(d) if i in of_keys else d for i, d in enumerate(expected)]) < 1e-12


@every_dtype
@search
@given(sizes_or_empty, seeds, st.integers(1, 20))
def test_chunked_loss_is_the_whole_loss(dtype, s, seed, chunk):
    make = Maker(seed, dtype)
    h, w, targets = make(s.B, s.T, s.D), make.weight(s.D, s.V), make.ids(s, ignore=True)
    value, cache = loss.chunked_cross_entropy_forward(h, w, targets, chunk=chunk)
    logits, cache_head = ops.linear_forward(h, w)
    whole, cache_whole = loss.cross_entropy_forward(logits, targets)
    assert value == pytest.approx(whole, rel=10 * LIMIT[dtype], abs=1e-7)
    expected = ops.linear_backward(loss.cross_entropy_backward(0.7, cache_whole), cache_head)
    assert worst(list(loss.chunked_cross_entropy_backward(0.7, cache)), list(expected)) < 10 * LIMIT[dtype]


@search
@given(sizes, seeds)
def test_one_fused_projection_is_three_separate_ones(s, seed):
    """x @ [wq | wk | wv] cut into heads, attended and projected by hand, is attention; so are its gradients."""
    make = Maker(seed, np.float64)
    x, wq, wk, wv, wo = attention_args(s, make, False)
    out, cache = attention_pair(s)[0](x, wq, wk, wv, wo)
    fused, cache_fused = ops.linear_forward(x, np.concatenate([wq, wk, wv], axis=1))
    heads = fused.reshape(s.B, s.T, -1, s.Dh).transpose(0, 2, 1, 3)
    q, k, v = np.split(heads, [s.H, s.H + s.K], axis=1)
    seen, cache_seen = attention.sdpa_forward(q, k, v)
    joined, cache_out = ops.linear_forward(seen.transpose(0, 2, 1, 3).reshape(s.B, s.T, -1), wo)
    assert worst([joined], [out]) < 1e-12

    dx, dwq, dwk, dwv, dwo = attention.attention_backward(upstream(out), cache)
    djoined, dwo_fused = ops.linear_backward(upstream(out), cache_out)
    dheads = djoined.reshape(s.B, s.T, s.H, s.Dh).transpose(0, 2, 1, 3)
    dqkv = np.concatenate(attention.sdpa_backward(dheads, cache_seen), axis=1)
    dx_fused, dw = ops.linear_backward(dqkv.transpose(0, 2, 1, 3).reshape(s.B, s.T, -1), cache_fused)
    assert worst([dx_fused, dw, dwo_fused], [dx, np.concatenate([dwq, dwk, dwv], axis=1), dwo]) < 1e-12


@every_dtype
@search
@given(sizes, seeds)
def test_the_layouts_agree_after_conversion(dtype, s, seed):
    make = Maker(seed, dtype)
    args = attention_args(s, make, True)
    heads = {1: s.H, 2: s.K, 5: s.H, 6: s.K}

    def convert(values, to):
        return [rope.convert_layout(a, heads[i], to) if i in heads else a for i, a in enumerate(values)]

    assert worst(convert(convert(args, "half"), "interleaved"), args) == 0
    table = rope.rope_table(s.T, s.Dh)
    one, cache = attention_pair(s, rope=table, layout="interleaved")[0](*args)
    two, other = attention_pair(s, rope=table, layout="half")[0](*convert(args, "half"))
    assert worst([two], [one]) < 10 * LIMIT[dtype]
    got = convert(attention.attention_backward(upstream(one), cache), "half")
    assert worst(got, list(attention.attention_backward(upstream(one), other))) < 10 * LIMIT[dtype]


@search
@given(sizes, seeds)
def test_one_token_attends_to_itself_alone(s, seed):
    s = replace(s, T=1)
    x, wq, wk, wv, wo = attention_args(s, Maker(seed, np.float64), False)
    out, cache = attention_pair(s, rope=rope.rope_table(1, s.Dh))[0](x, wq, wk, wv, wo)
    values = np.repeat((x @ wv).reshape(s.B, 1, s.K, s.Dh), s.group, axis=2).reshape(s.B, 1, -1)
    assert worst([out], [values @ wo]) < 1e-12
    _, dwq, dwk, *_ = attention.attention_backward(upstream(out), cache)
    assert np.abs(dwq).max() < 1e-12 and np.abs(dwk).max() < 1e-12


@pytest.mark.parametrize("code", "bhilBHIL")
@few
@given(sizes, seeds)
def test_any_integer_dtype_of_ids_gives_the_same_bits(code, s, seed):
    make = Maker(seed, np.float32)
    config = config_of(s, "llama")
    params, ids, targets = make.params(config), make.ids(s), make.ids(s)
    one, cache = model.loss_forward(ids, targets, params, config)
    two, other = model.loss_forward(ids.astype(code), targets.astype(code), params, config)
    assert one == two
    assert worst(model.loss_backward(1.0, cache), model.loss_backward(1.0, other)) == 0


@every_form
@search
@given(sizes, seeds)
def test_a_tied_head_is_a_separate_one_with_the_same_numbers(form, s, seed):
    make = Maker(seed, np.float64)
    config = replace(config_of(s, form), tied=True)
    params, ids = make.params(config), make.ids(s)
    separate = params | {"head": {"w": params["embed"]["table"].T.copy()}}
    one, _ = model.model_forward(ids, params, config)
    two, _ = model.model_forward(ids, separate, replace(config, tied=False))
    assert relative_error(one, two) < 1e-12


@search
@given(sizes, seeds, st.sampled_from([-1, 0, 1, 255, -100]))
def test_any_number_may_mark_what_is_ignored(s, seed, mark):
    make = Maker(seed, np.float64)
    logits, h, w, usual = make(s.B, s.T, s.V), make(s.B, s.T, s.D), make.weight(s.D, s.V), make.ids(s, ignore=True)
    usual[usual == mark] = -100  # a class may be the mark, and then it is no target any more
    marked = np.where(usual == -100, mark, usual)
    for (forward, backward), args in (
        (pair(loss, "cross_entropy"), (logits,)),
        (pair(loss, "chunked_cross_entropy", chunk=2), (h, w)),
    ):
        one, cache = forward(*args, targets=usual)
        two, other = forward(*args, targets=marked, ignore_index=mark)
        assert one == two
        assert worst(call(backward, 1.0, other), call(backward, 1.0, cache)) == 0


@every_form
@search
@given(sizes, seeds)
def test_what_a_watcher_is_shown_adds_up_to_the_output(form, s, seed):
    x, params, config, table = block_case(s, Maker(seed, np.float64), form)
    seen = {}
    y, _ = block.block_forward(x, params, config, rope=table, watch=seen.update)
    if config.form == "post-norm":
        u, _ = block.norm_forward(x + seen["attn"], params["norm1"], config)
        again, _ = block.norm_forward(u + seen["ffn"], params["norm2"], config)
    else:
        again = x + seen["attn"] + seen["ffn"]
    assert relative_error(again, y) < 1e-12
    assert seen["map"].shape == (s.B, s.H, s.T, s.T)
    assert relative_error(seen["map"].sum(axis=-1), np.ones((s.B, s.H, s.T))) < 1e-14


# ── numbers that a change could slip past all of the above ──


def test_values_left_out_are_the_usual_ones():
    x, g, b = np.full((1, 4), 1e-3), np.ones(4), np.zeros(4)
    x[0, 0] = -1e-3
    assert np.array_equal(norm.rmsnorm_forward(x, g)[0], norm.rmsnorm_forward(x, g, 1e-5)[0])
    assert np.array_equal(norm.layernorm_forward(x, g, b)[0], norm.layernorm_forward(x, g, b, 1e-5)[0])
    for got, expected in zip(rope.rope_table(5, 6), rope.rope_table(5, 6, 10000.0), strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", ["silu", "gelu"])
def test_gates_at_the_ends_of_float32(name):
    ends = np.array([3e38, -3e38], dtype=np.float32)
    assert np.array_equal(getattr(ops, name + "_forward")(ends)[0], [ends[0], 0])


@pytest.mark.parametrize("layout", rope.LAYOUTS)
def test_rope_computes_in_the_dtype_of_its_input_whatever_the_table_is(layout):
    x = Maker(9, np.float32)(2, 3, 5, 6)
    cos, sin = rope.rope_table(5, 6)
    expected, _ = rope.rope_forward(x, cos.astype(np.float32), sin.astype(np.float32), layout)
    for table in ((cos, sin), (cos.astype(np.float32), sin), (cos, sin.astype(np.float32))):
        assert np.array_equal(rope.rope_forward(x, *table, layout)[0], expected)


def test_a_table_of_base_one_turns_all_pairs_alike_and_each_half_of_it_is_checked():
    cos, sin = rope.rope_table(5, 6, 1.0)
    assert np.array_equal(cos, np.repeat(np.cos(np.arange(5.0))[:, None], 3, axis=1))
    with pytest.raises(ValueError, match="^rope_forward: sin has shape"):
        rope.rope_forward(np.ones((1, 5, 6)), cos, sin[:4])


@pytest.mark.parametrize(("columns", "heads"), [(9, 2), (10, 2), (6, 4), (6, 0), (8, -2), (8, 3)])
def test_convert_layout_refuses_columns_that_are_no_even_heads(columns, heads):
    with pytest.raises(ValueError, match=f"w has {columns} columns, expected an even head width for n_heads={heads}"):
        rope.convert_layout(np.ones((2, columns)), heads, "half")
