"""A block on several ranks is the plain block, and every rank sends exactly the bytes that the formulas say."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from scratch import account, pipeline, plan, ranks, threads
from scratch.block import block_backward, block_forward
from scratch.config import PRESETS, Config
from scratch.gradcheck import check_pair, leaves
from scratch.model import init_params, map_leaves
from scratch.ranks import Traffic
from scratch.rope import rope_table

BASE = Config(vocab_size=11, d_model=24, n_layers=6, n_heads=6, n_kv_heads=3, d_ff=12, max_seq=9)
STYLES = {
    "llama": BASE,
    "mha": replace(BASE, n_kv_heads=6),
    "gpt2": replace(BASE, norm="layernorm", ffn="gelu", pos="learned", bias=True),
    "not causal": replace(BASE, causal=False, ffn="gelu"),
    "narrow heads": replace(BASE, d_model=27, d_head=2, bias=True),
}
B, T = 6, 9
RNG = np.random.default_rng(5)
every_style = pytest.mark.parametrize("style", STYLES)
every_cut = pytest.mark.parametrize("how", ranks.CUTS)
several = pytest.mark.parametrize("n", [1, 3])


def case(config, dtype=np.float64):
    """Arguments of ordinary size, so that no part of the block is nearly nothing; some tokens are padding."""
    rng = np.random.default_rng(1)
    params = map_leaves(lambda _, w: rng.standard_normal(w.shape) / 2, init_params(config, dtype=dtype))
    params = map_leaves(lambda _, w: w.astype(dtype), params)
    x, dout = RNG.standard_normal((2, B, T, config.d_model)).astype(dtype)
    mask = np.ones((B, T), dtype=bool)
    mask[1, 4:] = mask[4, 2:] = False
    rope = rope_table(T, config.head_dim) if config.pos == "rope" else None
    return x, dout, params["blocks"], {"rope": rope, "pad_mask": mask}


def run(forward, backward, dout, *args, **options):
    y, cache = forward(*args, **options)
    dx, grads = backward(dout, cache)
    return {"y": y, "dx": dx, **dict(leaves(grads))}


def assert_same(found, plain, rtol=1e-11):
    assert found.keys() == plain.keys()
    for name, value in plain.items():
        # absolute: the gradient of a key's bias without RoPE is 0 but for rounding
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=rtol, err_msg=name)
        assert found[name].dtype == value.dtype


def stack_forward(x, blocks, config, **options):
    caches = []
    for params in blocks:
        x, cache = block_forward(x, params, config, **options)
        caches.append(cache)
    return x, caches


def stack_backward(dout, caches):
    grads = []
    for cache in reversed(caches):
        dout, grad = block_backward(dout, cache)
        grads.append(grad)
    return dout, grads[::-1]


# ---- collectives ----


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("shape", [(20,), (10, 3), (7,), (2, 3), (0, 4)])
def test_collectives(n, shape):
    parts = [RNG.standard_normal(shape) for _ in range(n)]
    before = [part.copy() for part in parts]
    size = parts[0].nbytes
    summed, halves, handed = Traffic(n), Traffic(n), Traffic(n)
    for whole in ranks.all_reduce(parts, summed):
        np.testing.assert_allclose(whole, sum(parts), rtol=1e-14, atol=1e-14)
    own = ranks.reduce_scatter(parts, halves)
    np.testing.assert_allclose(np.concatenate(own), sum(parts), rtol=1e-14, atol=1e-14)
    assert halves.total == (n - 1) * size
    for whole in ranks.all_gather(own, halves):
        np.testing.assert_array_equal(whole, np.concatenate(own))
    for root in range(n):
        assert all(np.array_equal(got, parts[root]) for got in ranks.broadcast(parts[root], handed, root))
    assert summed.total == halves.total == 2 * (n - 1) * size and handed.total == n * (n - 1) * size
    if parts[0].size % n == 0:
        assert summed.sent == [plan.ring_bytes(size, n)] * n
    if shape[0] % n == 0:
        assert halves.sent == [plan.ring_bytes(size, n, 1) * 2] * n
    assert all(np.array_equal(old, new) for old, new in zip(before, parts, strict=True))


def test_the_ranks_have_the_same_bits_and_arrays_of_their_own():
    parts = [RNG.standard_normal((3, 5)).astype(np.float32) for _ in range(4)]
    sums = ranks.all_reduce(parts, Traffic(4))
    assert all(np.array_equal(sums[0], other) and other.dtype == np.float32 for other in sums)
    assert not any(np.shares_memory(a, b) for a in sums for b in sums + parts if a is not b)


def test_slices_along_an_axis():
    parts = [RNG.standard_normal((2, 6, 3)) for _ in range(3)]
    own = ranks.reduce_scatter(parts, traffic := Traffic(3), axis=1)
    assert [piece.shape for piece in own] == [(2, 2, 3)] * 3
    np.testing.assert_allclose(ranks.all_gather(own, traffic, axis=1)[2], sum(parts))


# ---- the block ----


@every_style
@several
def test_data_parallel_is_the_plain_block(style, n):
    config = STYLES[style]
    x, dout, (params, *_), options = case(config)
    plain = run(block_forward, block_backward, dout, x, params, config, **options)
    traffic = Traffic(n)
    forward, backward = ranks.data_parallel_forward, ranks.data_parallel_backward
    assert_same(run(forward, backward, dout, x, params, config, traffic, **options), plain)
    weights = sum(w.nbytes for _, w in leaves(params))
    assert traffic.total == n * plan.ring_bytes(weights, n)


@every_style
@every_cut
@several
def test_a_cut_block_is_the_plain_one(style, how, n):
    config = STYLES[style]
    x, dout, (params, *_), options = case(config)
    plain = run(block_forward, block_backward, dout, x, params, config, **options)
    traffic = Traffic(n)
    found = run(ranks.cut_block_forward, ranks.cut_block_backward, dout, x, params, config, traffic, how, **options)
    assert_same(found, plain)
    gains = sum(w.nbytes for name, w in leaves(params) if name.startswith("norm"))
    extra = plan.ring_bytes(gains, n) if how == "sequence" else 0
    assert sum(traffic.sent) == n * (4 * plan.ring_bytes(x.nbytes, n) + extra)
    assert len(set(traffic.sent)) == 1


@every_cut
def test_forward_and_backward_send_the_same(how):
    x, dout, (params, *_), options = case(BASE)
    _, cache = ranks.cut_block_forward(x, params, BASE, traffic := Traffic(3), how, **options)
    assert traffic.sent == [2 * plan.ring_bytes(x.nbytes, 3)] * 3
    first = ranks.cut_block_backward(dout, cache)
    again = ranks.cut_block_backward(dout, cache)
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(leaves(first), leaves(again), strict=True))


@every_cut
def test_float32_stays_float32(how):
    x, dout, (params, *_), options = case(BASE, np.float32)
    options["rope"] = tuple(table.astype(np.float32) for table in options["rope"])
    plain = run(block_forward, block_backward, dout, x, params, BASE, **options)
    cut = run(ranks.cut_block_forward, ranks.cut_block_backward, dout, x, params, BASE, Traffic(3), how, **options)
    assert_same(cut, plain, rtol=2e-4)


@every_cut
def test_gradients_of_a_cut_block(how):
    """Against finite differences."""
    config = replace(BASE, d_model=4, n_heads=2, n_kv_heads=2, d_ff=4, norm="layernorm", ffn="gelu", bias=True)
    x, _, (params, *_), _ = case(config)
    rope = rope_table(2, config.head_dim)

    def forward(x, params):
        return ranks.cut_block_forward(x, params, config, Traffic(2), how, rope=rope)

    check_pair(forward, ranks.cut_block_backward, x[:2, :2], params)


def test_parameters_may_come_in_any_order():
    config = STYLES["gpt2"]
    x, dout, (params, *_), options = case(config)
    turned = {name: dict(sorted(tree.items(), reverse=True)) for name, tree in params.items()}
    plain = run(block_forward, block_backward, dout, x, params, config, **options)
    cut = run(ranks.cut_block_forward, ranks.cut_block_backward, dout, x, turned, config, Traffic(3), **options)
    assert_same(cut, plain)
    options |= {"threads": 3, "across": "heads"}
    spread = threads.spread_block_forward, threads.spread_block_backward
    assert_same(run(*spread, dout, x, turned, config, **options), plain)


def test_a_share_holds_its_part_of_the_weights():
    x, _, (params, *_), _ = case(STYLES["gpt2"])
    for name in ("attn", "ffn"):
        shares = threads.cut(params[name], 3)
        whole = threads.join(shares)
        assert whole.keys() == params[name].keys()
        assert all(np.array_equal(whole[key], w) for key, w in params[name].items())
        size = sum(w.size for _, w in leaves(params[name]))
        assert sum(w.size for share in shares for _, w in leaves(share)) == size


# ---- the pipeline ----


@every_style
@pytest.mark.parametrize(("p", "m"), [(1, 1), (3, 1), (1, 3), (3, 2), (2, 6)])
def test_a_pipeline_is_the_plain_stack(style, p, m):
    config = STYLES[style]
    x, dout, blocks, options = case(config)
    del options["pad_mask"]
    plain = run(stack_forward, stack_backward, dout, x, blocks, config, **options)
    traffic = Traffic(p)
    pair = pipeline.pipeline_forward, pipeline.pipeline_backward
    assert_same(run(*pair, dout, x, blocks, config, traffic, m, **options), plain, rtol=1e-9)
    assert traffic.total == 2 * (p - 1) * x.nbytes
    assert max(traffic.sent) == min(p - 1, 2) * x.nbytes


@pytest.mark.parametrize(("forward", "backward"), [(1, 2), (1, 1), (3, 5)])
def test_bubble_is_the_formula(forward, backward):
    for p in (1, 2, 4, 7):
        for m in (1, 2, 5, 12):
            tasks = pipeline.gpipe_schedule(p, m, forward=forward, backward=backward)
            assert pipeline.bubble(tasks) == pytest.approx((p - 1) / (m + p - 1), abs=1e-12)
            assert max(task.end for task in tasks) == (m + p - 1) * (forward + backward)


def test_a_schedule_can_be_carried_out():
    tasks = pipeline.gpipe_schedule(4, 5)
    assert len({task[:3] for task in tasks}) == len(tasks) == 2 * 4 * 5
    end = {task[:3]: task.end for task in tasks}
    for stage, micro, back, start, _ in tasks:
        needs = (stage + 1, micro, True) if back else (stage - 1, micro, False)
        assert start >= end.get(needs, 0)
        if back:
            assert start >= end[stage, micro, False]
    for stage in range(4):
        times = sorted((task.start, task.end) for task in tasks if task.stage == stage)
        assert all(one[1] <= two[0] for one, two in zip(times, times[1:], strict=False))


# ---- the plan ----


def test_step_bytes_is_what_is_counted():
    """A whole stack cut each way sends what the formula says, in float64: 8 bytes a value."""
    n, config = 3, STYLES["gpt2"]
    x, dout, blocks, options = case(config)
    said = plan.step_bytes(config, n, B, T, bytes_per_value=8)
    counts = {name: Traffic(n) for name in said}
    for params in blocks:
        run(ranks.cut_block_forward, ranks.cut_block_backward, dout, x, params, config, counts["tensor"], **options)
    trees = [init_params(config, dtype=np.float64)] * n
    grads = [np.concatenate([w.reshape(-1) for _, w in leaves(tree)]) for tree in trees]
    ranks.all_reduce(grads, counts["data"])
    own = ranks.reduce_scatter(grads, counts["zero"])
    for _ in range(2):
        ranks.all_gather(own, counts["zero"])
    pair = pipeline.pipeline_forward, pipeline.pipeline_backward
    run(*pair, dout, x, blocks, config, counts["pipeline"], 2)
    for name in ("data", "zero", "tensor"):
        assert counts[name].total == pytest.approx(n * said[name], rel=1e-12)
    assert max(counts["pipeline"].sent) == said["pipeline"]


def test_memory():
    config = PRESETS["llama3-8b"]
    size = account.count_params(config)
    assert plan.zero_bytes(config, 8) == 2 * size == plan.zero_bytes(config, 1) / 8
    assert [plan.zero_bytes(config, 1, stage) for stage in range(4)] == [16 * size] * 4
    assert plan.zero_bytes(config, 4, 1) == size * (2 + 2 + 12 / 4)
    assert plan.zero_bytes(config, 4, 2) == size * (2 + (2 + 12) / 4)
    assert plan.zero_bytes(config, 64, 0) == account.training_state_bytes(config)


def test_activations_are_those_that_a_swiglu_block_keeps():
    """All but the T × T weights, and two numbers a token from the norms."""
    config = replace(BASE, d_model=36, n_layers=1)
    x, _, (params, *_), _ = case(config)
    _, cache = block_forward(x.copy(), params, config)  # x itself is a view of twice as much
    kept = account.cache_bytes(cache, params) / (B * T)
    assert kept == plan.activation_bytes_per_token(config, 8) + 8 * (config.n_heads * T + 2)


def test_a_branch_keeps_its_gathered_rows_whole():
    """With cut rows the ranks together keep one block's arrays, and each the inputs of two branches once more."""
    n, config = 3, replace(BASE, d_model=36, n_layers=1)
    x, _, (params, *_), _ = case(config)
    _, cache = ranks.cut_block_forward(x.copy(), params, config, Traffic(n), "sequence")
    kept = account.cache_bytes(cache, params) / (B * T)
    whole = plan.activation_bytes_per_token(config, 8) + 8 * (config.n_heads * T + 2)
    assert kept == whole + (n - 1) * 2 * config.d_model * 8


def test_activations_of_a_gpt_block_are_the_published_ones():
    """34 s b h of Korthikanti et al., less the two dropout masks of s b h bytes each."""
    config = PRESETS["gpt2-small"]
    assert plan.activation_bytes_per_token(config) == config.n_layers * 32 * config.d_model


def test_plans():
    """One device has one plan; several are told what does not divide; all parts add up."""
    config, speeds = PRESETS["smollm2-135m"], {"flops_per_s": 1e12, "bytes_per_s": 1e10}
    (alone,) = plan.plans(config, 1, 6, **speeds)
    kept = config.max_seq * plan.activation_bytes_per_token(config)
    work = 6 * config.max_seq * account.flops_per_token(config, config.max_seq, backward=True, causal=True)
    assert alone == ("alone", 16 * account.count_params(config) + kept, work / 1e12, 0, "")
    made = {p.name: p for p in plan.plans(config, 3, 6, **speeds)}
    assert not any(p.why_not for p in made.values())
    assert made["data"].memory == alone.memory
    gathered = config.n_layers * 2 * config.max_seq * config.d_model * 2
    assert made["tensor"].memory == pytest.approx(alone.memory / 3 + gathered * 2 / 3)
    sent = plan.step_bytes(config, 3, 6, config.max_seq)  # each rank has two sequences
    said = {"data": sent["data"], "zero": 2 * sent["zero"], "tensor": sent["tensor"]}
    assert {name: made[name].sending * 1e10 for name in said} == pytest.approx(said)
    assert made["zero"].memory == pytest.approx((alone.memory - kept) / 3 + kept)
    assert made["zero"].compute == made["tensor"].compute == pytest.approx(alone.compute / 3)
    waiting = pipeline.bubble(pipeline.gpipe_schedule(3, 6))
    assert made["pipeline"].compute == pytest.approx(alone.compute / 3 * 4 / 3 / (1 - waiting))
    stream = 6 * config.max_seq * config.d_model * 2
    assert made["pipeline"].memory == pytest.approx(alone.memory / 3 + stream)
    assert made["pipeline"].sending == pytest.approx(2 * stream / 1e10)
    told = {p.name: p.why_not for p in plan.plans(config, 4, 6, **speeds)}
    assert told == {"data": "6 sequences", "zero": "6 sequences", "tensor": "3 key heads", "pipeline": "30 blocks"}


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, p: ranks.data_parallel_forward(x, p, BASE, Traffic(4)), "4 ranks, .* divides the 6 sequences"),
        (lambda x, p: ranks.cut_block_forward(x, p, BASE, Traffic(2)), "2 ranks, .* divides the 3 key/value heads"),
        (
            lambda x, p: ranks.cut_block_forward(x, p, replace(BASE, d_ff=13), Traffic(3)),
            "3 ranks, .* divides the 13 hidden units",
        ),
        (
            lambda x, p: ranks.cut_block_forward(x[:, :8], p, BASE, Traffic(3), "sequence"),
            "3 ranks, .* divides the 8 rows of a sequence",
        ),
        (lambda x, p: ranks.cut_block_forward(x, p, BASE, Traffic(3), "rows"), "how='rows', expected one of 'tensor'"),
        (
            lambda x, p: ranks.cut_block_forward(x, p, replace(BASE, form="parallel"), Traffic(3)),
            "config.form='parallel', expected one of 'pre-norm'",
        ),
        (lambda x, p: Traffic(0), "ranks=0, expected at least 1"),
        (lambda x, p: ranks.all_reduce([x, x], Traffic(3)), "all_reduce: 2 arrays, expected one for each of 3 ranks"),
        (lambda x, p: ranks.all_reduce([x, x[:2]], Traffic(2)), "all_reduce: the ranks' arrays have shapes"),
        (lambda x, p: pipeline.gpipe_schedule(3, 0), "gpipe_schedule: micro_batches=0, expected at least 1"),
        (
            lambda x, p: pipeline.pipeline_forward(x, [p] * 5, BASE, Traffic(3), 2),
            "pipeline_forward: 5 blocks, expected a multiple of 3",
        ),
        (
            lambda x, p: pipeline.pipeline_forward(x, [p] * 3, BASE, Traffic(3), 4),
            "pipeline_forward: 6 sequences, expected a multiple of 4",
        ),
        (lambda x, p: plan.zero_bytes(BASE, 2, 4), "zero_bytes: stage=4, expected 0, 1, 2 or 3"),
    ],
)
def test_wrong_calls(call, message):
    x, _, (params, *_), _ = case(BASE)
    with pytest.raises(ValueError, match=message):
        call(x, params)


# What stands in a module, what is put, and the test that must then fail.
MUTANTS = [
    (ranks, '"tensor": (keep, all_reduce, keep, all_reduce)', '"tensor": (keep, keep, keep, all_reduce)', "tensor"),
    (ranks, '"tensor": (keep, all_reduce, keep, all_reduce)', '"tensor": (keep, all_reduce, keep, keep)', "tensor"),
    (ranks, '"tensor": (keep, all_reduce, keep', '"tensor": (all_reduce, all_reduce, keep', "tensor"),
    (ranks, "            dnorms = sum_gradients(dnorms, traffic)\n", "            pass\n", "sequence"),
    (ranks, 'if how == "sequence":\n            dnorms', "if True:\n            dnorms", "tensor"),
    (ranks, "rank = (c + hop) % n\n            piece", "rank = (c + 1) % n\n            piece", "collectives"),
    (
        ranks,
        "        for hop in range(n - 1):\n            rank = (c",
        "        for hop in range(n):\n            rank = (c",
        "collectives",
    ),
    (ranks, "        for hop in range(1, n):", "        for hop in range(2, n):", "collectives"),
    (ranks, "self.sent[rank] += array.nbytes", "self.sent[rank] += array.size", "collectives"),
    (ranks, "sum_gradients(grads, traffic)[0]", "grads[0]", "data"),
    (ranks, "masks = [None] * n if pad_mask is None", "masks = [None] * n if True", "data"),
    (ranks, "d_head=config.head_dim", "d_head=None", "tensor"),
    (threads, "            parts[0][name] = w\n", "            for part in parts: part[name] = w\n", "tensor"),
    (threads, "            parts[0][name] = w\n", "            for part in parts: part[name] = w\n", "sequence"),
    (pipeline, "streams[micro], grad = block", "_, grad = block", "pipeline"),
    (pipeline, "return tree + more", "return more", "pipeline"),
    (pipeline, "if stage < p - 1:", "if stage < p:", "pipeline"),
    (pipeline, "(stage - 1, micro, False))", "(stage, micro, False))", "schedule"),
]


@pytest.mark.parametrize(("module", "term", "put", "which"), MUTANTS)
def test_a_slip_is_caught(module, term, put, which, monkeypatch):
    source = inspect.getsource(module)
    assert source.count(term) == 1
    broken = {"__name__": module.__name__}
    exec(compile(source.replace(term, put), module.__file__, "exec"), broken)
    if module is threads:
        monkeypatch.setattr(ranks, "cut", broken["cut"])
    else:
        for name in vars(module).keys() & broken.keys() - {"__builtins__", "__name__"}:
            monkeypatch.setattr(module, name, broken[name])
        monkeypatch.setitem(globals(), "Traffic", ranks.Traffic)
    checks = {
        "collectives": lambda: test_collectives(5, (20,)),
        "data": lambda: test_data_parallel_is_the_plain_block("gpt2", 3),
        "tensor": lambda: [test_a_cut_block_is_the_plain_one(style, "tensor", 3) for style in ("gpt2", "narrow heads")],
        "sequence": lambda: test_a_cut_block_is_the_plain_one("gpt2", "sequence", 3),
        "pipeline": lambda: test_a_pipeline_is_the_plain_stack("llama", 3, 2),
        "schedule": test_a_schedule_can_be_carried_out,
    }
    with pytest.raises((AssertionError, ValueError, TypeError)):
        checks[which]()
