"""Work spread over Python threads gives what one thread gives, and the same bits where no thread can be started."""

import inspect
import os
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

from scratch import threads
from scratch.block import block_forward
from scratch.config import Config
from scratch.gradcheck import check_pair, leaves
from scratch.model import init_params, loss_backward, loss_forward, map_leaves
from scratch.rope import rope_table

BASE = Config(vocab_size=11, d_model=24, n_layers=2, n_heads=6, n_kv_heads=3, d_ff=13, max_seq=9)
STYLES = {
    "llama": BASE,
    "mha": replace(BASE, n_kv_heads=6),
    "gpt2": replace(BASE, norm="layernorm", ffn="gelu", pos="learned", bias=True),
    "post-norm": replace(BASE, form="post-norm", bias=True),
    "parallel": replace(BASE, form="parallel", ffn="gelu", tied=False),
    "narrow heads": replace(BASE, d_model=25, d_head=2),
}
RNG = np.random.default_rng(3)
every_style = pytest.mark.parametrize("style", STYLES)
every_way = pytest.mark.parametrize("across", threads.ACROSS)


def model(config, dtype=np.float64):
    """Parameters of ordinary size, so that no part of the block is nearly nothing."""
    rng = np.random.default_rng(1)
    return map_leaves(lambda _, w: rng.standard_normal(w.shape).astype(dtype) / 2, init_params(config, dtype=dtype))


def block_case(config, dtype=np.float64):
    params = model(config, dtype)["blocks"][0]
    x, dout = RNG.standard_normal((2, 5, 7, config.d_model)).astype(dtype)
    mask = np.ones((5, 7), dtype=bool)
    mask[1, 4:] = mask[4, 2:] = False
    rope = rope_table(7, config.head_dim) if config.pos == "rope" else None
    return x, dout, params, {"rope": rope, "pad_mask": mask}


def run_block(forward, x, dout, params, config, **options):
    y, cache = forward(x, params, config, **options)
    dx, grads = threads.spread_block_backward(dout, cache)
    return {"y": y, "dx": dx, **dict(leaves(grads))}


@every_style
@every_way
@pytest.mark.parametrize("n", [1, 3])
def test_a_block_is_the_plain_one(style, across, n):
    config = STYLES[style]
    x, dout, params, options = block_case(config)
    plain = run_block(block_forward, x, dout, params, config, **options)
    spread = run_block(threads.spread_block_forward, x, dout, params, config, threads=n, across=across, **options)
    assert plain.keys() == spread.keys()
    for name, value in plain.items():
        # absolute: the gradient of a key's bias without RoPE is 0 but for rounding
        np.testing.assert_allclose(spread[name], value, rtol=1e-11, atol=1e-11, err_msg=name)


@every_way
def test_gradients_of_a_block(across):
    """Against finite differences."""
    config = replace(BASE, d_model=4, d_head=2, d_ff=5)
    x, _, params, options = block_case(config)
    options |= {"pad_mask": options["pad_mask"][:3, 3:5], "threads": 3, "across": across}

    def forward(x, params):
        return threads.spread_block_forward(x, params, config, **options)

    check_pair(forward, threads.spread_block_backward, x[:3, :2], params)


@every_style
def test_a_loss_is_the_plain_one(style):
    """Also where the parts have different numbers of targets, and one of them none."""
    config = STYLES[style]
    params = model(config)
    ids, targets = RNG.integers(0, 11, (2, 5, 7))
    targets[0] = -100
    targets[3, 2:] = -100
    for chunk in (None, 4):
        loss, cache = loss_forward(ids, targets, params, config, chunk=chunk)
        plain = dict(leaves(loss_backward(0.7, cache)))
        spread, cache = threads.spread_loss_forward(ids, targets, params, config, threads=5, chunk=chunk)
        grads = dict(leaves(threads.spread_loss_backward(0.7, cache)))
        assert abs(loss - spread) < 1e-12 and plain.keys() == grads.keys()
        for name, value in plain.items():
            np.testing.assert_allclose(grads[name], value, rtol=1e-11, atol=1e-12, err_msg=name)


def test_no_target_at_all():
    ids = np.zeros((2, 3), dtype=int)
    loss, cache = threads.spread_loss_forward(ids, ids - 100, model(BASE), BASE)
    assert loss == 0 and all(not g.any() for _, g in leaves(threads.spread_loss_backward(1.0, cache)))


@every_way
def test_the_same_bits_without_threads(across, monkeypatch):
    x, dout, params, options = block_case(BASE, np.float32)
    options |= {"threads": 3, "across": across}
    once = run_block(threads.spread_block_forward, x, dout, params, BASE, **options)
    again = run_block(threads.spread_block_forward, x, dout, params, BASE, **options)

    def no_threads(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_threads)
    threads._pool.cache_clear()
    names = []
    assert threads.spread([lambda: names.append(threading.current_thread().name)] * 3) == [None] * 3
    assert set(names) == {threading.current_thread().name}
    alone = run_block(threads.spread_block_forward, x, dout, params, BASE, **options)
    threads._pool.cache_clear()
    assert all(np.array_equal(once[name], again[name]) for name in once)
    assert all(np.array_equal(once[name], alone[name]) for name in once)
    assert all(value.dtype == np.float32 for value in once.values())


def test_threads_are_threads_in_order():
    barrier = threading.Barrier(3, timeout=10)
    found = threads.spread([lambda i=i: (barrier.wait(), i)[1] for i in range(3)])
    assert found == [0, 1, 2]


def test_errstate_holds_in_every_thread():
    def overflow():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.exp(np.full(3, 1e3))

    with np.errstate(over="ignore"):
        assert all(np.isinf(found).all() for found in threads.spread([overflow] * 2))


def test_an_error_comes_out():
    def fail():
        raise ValueError("from a thread")

    with pytest.raises(ValueError, match="from a thread"):
        threads.spread([int, fail])


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    threads.spread([int, int])
    child = os.fork()
    if not child:
        os._exit(threads.spread([lambda: 3, lambda: 4]) != [3, 4])
    assert os.waitpid(child, 0)[1] == 0


def test_blas_keeps_to_one_thread():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    before = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        inside = threads.spread([lambda: {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}] * 2)
        assert inside == [{1}, {1}]
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {2}
    assert [pool["num_threads"] for pool in threadpoolctl.threadpool_info()] == before


def test_without_threadpoolctl_it_still_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    threads._blas.cache_clear()
    assert threads.spread([lambda: 1, lambda: 2]) == [1, 2]
    monkeypatch.undo()
    threads._blas.cache_clear()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"across": "rows"}, "spread_block_forward: across='rows', expected one of 'batch', 'heads'"),
        ({"threads": 2, "across": "heads"}, "threads=2, expected a number that divides the 3 key/value heads"),
        ({"threads": 6}, "threads=6, expected 1 … 5, the number of sequences"),
        ({"threads": 0}, "threads=0, expected 1 … 5"),
    ],
)
def test_wrong_calls(options, message):
    x, _, params, _ = block_case(BASE)
    with pytest.raises(ValueError, match=message):
        threads.spread_block_forward(x, params, BASE, **options)


def test_too_many_threads_for_a_loss():
    ids = np.zeros((2, 3), dtype=int)
    with pytest.raises(ValueError, match="spread_loss_forward: threads=3, expected 1 … 2, the number of sequences"):
        threads.spread_loss_forward(ids, ids, model(BASE), BASE, threads=3)


# What stands in the module, what is put, and the test that must then fail.
MUTANTS = [
    ("return np.concatenate(dx), _sum_trees(grads)", "return np.concatenate(dx), grads[0]", "block, batch"),
    ("return np.concatenate(dx), ", "return np.concatenate(dx[::-1]), ", "block, batch"),
    ("return _sum(outs), (", "return outs[0], (", "block, heads"),
    ("return _sum(dxs), *whole", "return dxs[0], *whole", "block, heads"),
    ("            parts[0][name] = w\n", "            for part in parts: part[name] = w\n", "block, heads"),
    ("d_head=config.head_dim", "d_head=None", "block, heads"),
    ("pad_mask[some]", "pad_mask[: len(x[some])]", "block, batch"),
    ("shares = counts / max(counts.sum(), 1)", "shares = np.full(len(counts), 1 / len(counts))", "loss"),
    ("float(share) * dloss", "dloss", "loss"),
]


@pytest.mark.parametrize(("term", "put", "which"), MUTANTS)
def test_a_slip_is_caught(term, put, which, monkeypatch):
    source = inspect.getsource(threads)
    assert source.count(term) == 1
    broken = {"__name__": threads.__name__}
    exec(compile(source.replace(term, put), threads.__file__, "exec"), broken)
    for name in ("spread_block_forward", "spread_block_backward", "spread_loss_forward", "spread_loss_backward"):
        monkeypatch.setattr(threads, name, broken[name])
    with pytest.raises((AssertionError, ValueError)):
        if which == "loss":
            test_a_loss_is_the_plain_one("llama")
        else:
            for style in ("gpt2", "narrow heads"):
                test_a_block_is_the_plain_one(style, which.removeprefix("block, "), 3)
