"""Spread a block or a training step over Python threads, one BLAS thread in each; serially where none can be started.

NumPy lets go of the interpreter's lock inside a product or a loop over an array, so two threads compute at the same
time. BLAS alone uses both processors for the products only; here the exponentials, norms and sums between them are
shared out as well.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from scratch import _check
from scratch.block import FORMS, block_backward, block_forward, named_backward, run_attention, run_ffn
from scratch.gradcheck import leaves
from scratch.model import loss_backward, loss_forward

ACROSS = ("batch", "heads")


def spread(functions):
    """Call functions without arguments, each in a thread of its own, with one BLAS thread each: the list of results.

    A single function is called as it is. Where no thread can be started, as in a browser, they are called one after
    another, with the same results. BLAS is held to one thread by threadpoolctl; without it, start Python with
    OPENBLAS_NUM_THREADS=1.
    """
    if len(functions) == 1:
        return [functions[0]()]
    with _one_blas_thread():
        pool = _pool(len(functions) - 1)
        if pool is None:
            return [function() for function in functions]
        # NumPy's errstate lives in the context, which a thread does not inherit.
        others = [pool.submit(copy_context().run, function) for function in functions[1:]]
        return [functions[0](), *(other.result() for other in others)]


def spread_block_forward(x, params, config, *, threads=2, across="batch", rope=None, pad_mask=None):
    """`block.block_forward` in several threads: each has some of the sequences, or some of the heads.

    Across the batch every thread has all weights and its own sequences, and the weights' gradients are summed at the
    end. Across the heads every thread has all rows and its own columns of wq, wk, wv and of the hidden layer, with the
    rows of wo and wd that belong to them; the outputs are summed. In training on many devices the two are called data
    and tensor parallelism.

    Parameters
    ----------
    x, params, config, rope, pad_mask : as in `block.block_forward`
    threads : int; "heads" needs a multiple of it as key/value heads
    across : "batch" or "heads"

    Returns
    -------
    y : [B, T, D]; the numbers of `block_forward`, to rounding, and the same bits with threads or without
    cache : for `spread_block_backward`

    Raises
    ------
    ValueError
        As `block_forward`; or if across is neither, or the work does not divide.

    Source: Shoeybi et al. 2019 (Megatron-LM), section 3.
    """
    where = "spread_block_forward"
    _check.choice(where, "across", across, ACROSS)
    _check.array(where, "x", x, ndim=3)
    if across == "batch":
        _check_parts(where, threads, len(x), "sequences", even=False)
        calls = []
        for some in slices(len(x), threads):
            mask = None if pad_mask is None else pad_mask[some]
            calls.append(partial(block_forward, x[some], params, config, rope=rope, pad_mask=mask))
        ys, caches = zip(*spread(calls), strict=True)
        return np.concatenate(ys), (_batch_backward, caches)
    _check_parts(where, threads, config.n_kv_heads, "key/value heads")
    attend = partial(_attend, config=config, threads=threads, rope=rope, pad_mask=pad_mask)
    feed = partial(_feed, config=config, threads=threads)
    forward, backward = FORMS[config.form]
    y, cache = forward(x, params, config, attend, feed)
    return y, (backward, cache)


def spread_block_backward(dout, cache):
    """Gradients of `spread_block_forward`: (dx [B, T, D], a tree like params) from dout [B, T, D]."""
    return block_backward(dout, cache)


def spread_loss_forward(ids, targets, params, config, *, threads=2, ignore_index=-100, **options):
    """`model.loss_forward` with the sequences shared out among threads: (loss in nats, cache).

    Each thread runs the whole model on its sequences. A part's loss counts by the number of its targets, so that the
    result is the mean over all of them. The other options are those of `loss_forward`, without pad_mask.
    """
    _check_parts("spread_loss_forward", threads, len(ids), "sequences", even=False)
    some = slices(len(ids), threads)
    calls = [
        partial(loss_forward, ids[s], targets[s], params, config, ignore_index=ignore_index, **options) for s in some
    ]
    losses, caches = zip(*spread(calls), strict=True)
    counts = np.array([(targets[s] != ignore_index).sum() for s in some])
    shares = counts / max(counts.sum(), 1)
    return sum(float(share) * loss for share, loss in zip(shares, losses, strict=True)), (caches, shares)


def spread_loss_backward(dloss, cache):
    """Gradients of `spread_loss_forward`: a tree like params."""
    caches, shares = cache
    calls = [partial(loss_backward, float(share) * dloss, part) for share, part in zip(shares, caches, strict=True)]
    return _sum_trees(spread(calls))


def _batch_backward(dout, caches):
    some = slices(len(dout), len(caches))
    calls = [partial(block_backward, dout[s], part) for s, part in zip(some, caches, strict=True)]
    dx, grads = zip(*spread(calls), strict=True)
    return np.concatenate(dx), _sum_trees(grads)


AXES = {"wq": 1, "wk": 1, "wv": 1, "bq": 0, "bk": 0, "bv": 0, "wo": 0, "bo": None}
AXES |= {"wg": 1, "wu": 1, "wd": 0, "w1": 1, "b1": 0, "w2": 0, "b2": None}
"""The axis along which a part's own share of each parameter lies; None: it is added once, by the first part."""


def _attend(x, params, *, config, threads, rope, pad_mask):
    """Attention of x [B, T, D], some of the heads in each thread; a cache for `block.named_backward`."""
    heads, kv_heads = config.n_heads // threads, config.n_kv_heads // threads
    own = replace(config, n_heads=heads, n_kv_heads=kv_heads, d_head=config.head_dim)
    return _summed_forward(partial(run_attention, config=own, rope=rope, pad_mask=pad_mask), x, params, threads)


def _feed(x, params, *, config, threads):
    """The feed-forward of x, some of the hidden layer in each thread; a cache for `block.named_backward`."""
    return _summed_forward(partial(run_ffn, config=config), x, params, threads)


def _summed_forward(forward, x, params, threads):
    """Sum of forward(x, part) over the parts of params, in a thread each."""
    calls = [partial(forward, x, part) for part in cut(params, threads)]
    outs, caches = zip(*spread(calls), strict=True)
    return _sum(outs), (_summed_backward, list(caches[0][1]), caches)


def _summed_backward(dout, caches):
    """Gradients of `_summed_forward`: x, then the parameters, in the order that the first part's cache names them."""
    dxs, grads = zip(*spread([partial(named_backward, dout, cache) for cache in caches]), strict=True)
    whole = join(grads).values()
    return _sum(dxs), *whole


def cut(params, n):
    """Cut the parameters of an attention or a feed-forward into n shares, along AXES: a list of n trees.

    A share has some of the heads, or some of the hidden units. Where a number of columns does not divide, the shares
    are as equal as can be. A bias that is added once is in the first share alone.
    """
    parts = [{} for _ in range(n)]
    for name, w in params.items():
        if AXES[name] is None:
            parts[0][name] = w
            continue
        for part, some in zip(parts, slices(w.shape[AXES[name]], n), strict=True):
            part[name] = w[:, some] if AXES[name] else w[some]
    return parts


def join(parts):
    """The tree that `cut` made the n trees from; also of gradients."""
    return {name: _join([part[name] for part in parts if name in part], AXES[name]) for name in parts[0]}


def _join(parts, axis):
    return parts[0] if axis is None else np.concatenate(parts, axis)


def _sum(arrays):
    """The sum, in the memory of the first."""
    for array in arrays[1:]:
        np.add(arrays[0], array, out=arrays[0])
    return arrays[0]


def _sum_trees(trees):
    """The sum of gradient trees, in the memory of the first."""
    others = [dict(leaves(tree)) for tree in trees[1:]]
    for name, g in leaves(trees[0]):
        _sum([g, *(other[name] for other in others)])
    return trees[0]


def slices(n, parts):
    """range(n) in parts as equal as can be."""
    ends = [n * i // parts for i in range(parts + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def _check_parts(where, threads, n, what, even=True):
    if threads < 1 or n < threads or (even and n % threads):
        expected = f"a number that divides the {n} {what}" if even else f"1 … {n}, the number of {what}"
        raise ValueError(f"{where}: threads={threads}, expected {expected}")


def _one_blas_thread():
    blas = _blas()
    return nullcontext() if blas is None else blas.limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _blas():
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


@lru_cache(maxsize=4)
def _pool(workers):
    """Threads that wait for work, kept from call to call; None where none can be started."""
    pool = ThreadPoolExecutor(workers)
    try:
        pool.submit(int).result()
    except RuntimeError:
        return None
    return pool


if hasattr(os, "register_at_fork"):  # a fork has the pool, but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
