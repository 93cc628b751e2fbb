"""One block on several devices, played through on one: collectives that count bytes, and the block cut three ways.

What the devices (the *ranks*) hold is a list of arrays, one for each. They talk in a ring: rank r sends to rank r + 1
alone, and the last one to rank 0. `pipeline` cuts a stack of blocks the fourth way.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from scratch import _check
from scratch.block import block_backward, block_forward, named_backward, norm_forward, run_attention, run_ffn
from scratch.threads import cut, join, slices


class Traffic:
    """The bytes that each rank has sent: `sent`, a list of int; `total`, their sum."""

    def __init__(self, ranks):
        if ranks < 1:
            raise ValueError(f"Traffic: ranks={ranks}, expected at least 1")
        self.sent = [0] * ranks

    @property
    def ranks(self):
        """How many ranks there are."""
        return len(self.sent)

    @property
    def total(self):
        """Bytes that all ranks together have sent."""
        return sum(self.sent)

    def send(self, array, rank):
        """What arrives when `rank` sends array: a copy, the bytes counted."""
        self.sent[rank] += array.nbytes
        return array.copy()


def reduce_scatter(parts, traffic, axis=0):
    """Sum arrays that all ranks have, and leave each rank one slice of the sum.

    The slice for rank c starts at rank c + 1 and goes round the ring. Every rank adds its own numbers and sends it on,
    until it is at rank c: n − 1 messages of about size / n.

    Parameters
    ----------
    parts : list of float arrays, one for each rank, all of one shape
    traffic : Traffic, which counts the bytes
    axis : int, along which the sum is sliced; where it does not divide, as equally as can be

    Returns
    -------
    list of arrays: rank r's slice of the sum

    Source: Patarasuk & Yuan 2009, section 3. Book: eq-ring.
    """
    n = _check_ranks("reduce_scatter", parts, traffic, alike=True)
    index = [slice(None)] * parts[0].ndim
    own = []
    for c, some in enumerate(slices(parts[0].shape[axis], n)):
        index[axis] = some
        here = tuple(index)
        piece = parts[(c + 1) % n][here].copy()
        for hop in range(1, n):
            rank = (c + hop) % n
            piece = parts[(rank + 1) % n][here] + traffic.send(piece, rank)
        own.append(piece)
    return own


def all_gather(pieces, traffic, axis=0):
    """Give every rank the slices of all ranks, joined along axis.

    Each slice goes round the ring until everybody has it: n − 1 messages of about size / n from each rank.

    pieces : list of float arrays, one for each rank; traffic : Traffic. Returns a list of n equal arrays.
    Source: Patarasuk & Yuan 2009, section 3. Book: eq-ring.
    """
    n = _check_ranks("all_gather", pieces, traffic)
    held = [[None] * n for _ in range(n)]
    for c, piece in enumerate(pieces):
        held[c][c] = piece
        for hop in range(n - 1):
            rank = (c + hop) % n
            held[(rank + 1) % n][c] = traffic.send(held[rank][c], rank)
    return [np.concatenate(slices_of_one, axis) for slices_of_one in held]


def all_reduce(parts, traffic):
    """Give every rank the sum of all parts: a reduce-scatter of the numbers in a row, then an all-gather.

    parts : list of float arrays, one for each rank, all of one shape; traffic : Traffic. Returns a list of n equal
    arrays of that shape. Each rank sends ``2 (n − 1) / n`` of an array's bytes where n divides its size, and the ranks
    on average do so always. Source: Patarasuk & Yuan 2009. Book: eq-ring.
    """
    _check_ranks("all_reduce", parts, traffic, alike=True)
    own = reduce_scatter([part.reshape(-1) for part in parts], traffic)
    return [whole.reshape(parts[0].shape) for whole in all_gather(own, traffic)]


def broadcast(array, traffic, root=0):
    """Give every rank the array of rank `root`, handed on round the ring: a list of n arrays, n − 1 messages."""
    held = [array] * traffic.ranks
    for hop in range(traffic.ranks - 1):
        rank = (root + hop) % traffic.ranks
        held[(rank + 1) % traffic.ranks] = traffic.send(held[rank], rank)
    return held


def data_parallel_forward(x, params, config, traffic, *, rope=None, pad_mask=None):
    """`block.block_forward` with all weights on every rank, and an equal share of the sequences. Nothing is sent.

    Parameters
    ----------
    x, params, config, rope, pad_mask : as in `block.block_forward`
    traffic : Traffic, whose ranks divide the number of sequences

    Returns
    -------
    y : [B, T, D], the ranks' sequences joined
    cache : for `data_parallel_backward`
    """
    n, where = traffic.ranks, "data_parallel_forward"
    _check.array(where, "x", x, ndim=3)
    _check_divides(where, n, {"sequences": len(x)})
    masks = [None] * n if pad_mask is None else np.split(pad_mask, n)
    own = [
        block_forward(some, params, config, rope=rope, pad_mask=mask)
        for some, mask in zip(np.split(x, n), masks, strict=True)
    ]
    ys, caches = zip(*own, strict=True)
    return np.concatenate(ys), (traffic, caches)


def data_parallel_backward(dout, cache):
    """Gradients of `data_parallel_forward`: (dx [B, T, D], a tree like params), those of the weights all-reduced."""
    traffic, caches = cache
    shares = np.split(dout, traffic.ranks)
    dxs, grads = zip(*map(block_backward, shares, caches), strict=True)
    return np.concatenate(dxs), sum_gradients(grads, traffic)[0]


def sum_gradients(trees, traffic):
    """All-reduce gradient trees (nested dicts), leaf by leaf: a list of n trees, every leaf the sum over the ranks."""
    if not isinstance(trees[0], dict):
        return all_reduce(trees, traffic)
    sums = {name: sum_gradients([tree[name] for tree in trees], traffic) for name in trees[0]}
    return [{name: held[rank] for name, held in sums.items()} for rank in range(traffic.ranks)]


def keep(held, traffic):
    """Send nothing: every rank goes on with what it has."""
    return held


CUTS = {
    "tensor": (keep, all_reduce, keep, all_reduce),
    "sequence": (partial(all_gather, axis=1), partial(reduce_scatter, axis=1)) * 2,
}
"""What is sent before and after a branch on the way forward, then on the way back. Book: eq-tensor-parallel."""


def cut_block_forward(
    x,
    params,
    config,
    traffic,
    how="tensor",
    *,
    rope=None,
    pad_mask=None,
):
    """`block.block_forward` with some of the heads and of the hidden units on each rank.

    "tensor": the norms and the stream are on every rank, whole. "sequence": each rank has T / n rows of them.

    Parameters
    ----------
    x, params, config, rope, pad_mask : as in `block.block_forward`; config.form is "pre-norm"
    traffic : Traffic; its ranks divide the key/value heads, the hidden units, and for "sequence" T
    how : "tensor" or "sequence"

    Returns
    -------
    y : [B, T, D]
    cache : for `cut_block_backward`

    Source: Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4. Book: eq-tensor-parallel.
    """
    n = traffic.ranks
    _check_cut(x, config, n, how)
    before, after, *_ = CUTS[how]
    H, K = config.n_heads // n, config.n_kv_heads // n
    own = replace(config, n_heads=H, n_kv_heads=K, d_head=config.head_dim)
    norm = partial(norm_forward, config=config)
    attend = partial(run_attention, config=own, rope=rope, pad_mask=pad_mask)
    feed = partial(run_ffn, config=config)
    xs = _rows(x, n, how)  # [B, T, D], or [B, T/n, D] each
    branches, caches = (("attn", "norm1", attend), ("ffn", "norm2", feed)), []
    for name, norm_name, branch in branches:
        normed, cache_norm = _each(norm, xs, [params[norm_name]] * n)
        shares = cut(params[name], n)
        parts, cache_branch = _each(branch, before(normed, traffic), shares)
        xs = _plus(xs, after(parts, traffic))
        caches.append((name, norm_name, cache_branch, cache_norm))
    return _whole(xs, how), (traffic, how, caches)


def cut_block_backward(dout, cache):
    """Gradients of `cut_block_forward`: (dx [B, T, D], a tree like params).

    A norm's gradient is a sum over rows. Where the ranks have different rows, it is summed over the ranks, too.
    """
    traffic, how, caches = cache
    *_, before, after = CUTS[how]
    dxs = _rows(dout, traffic.ranks, how)
    grads = {}
    for name, norm_name, cache_branch, cache_norm in reversed(caches):
        parts, shares = _each(named_backward, before(dxs, traffic), cache_branch)
        dbranch, dnorms = _each(named_backward, after(parts, traffic), cache_norm)
        dxs = _plus(dxs, dbranch)
        if how == "sequence":
            dnorms = sum_gradients(dnorms, traffic)
        grads |= {name: join(shares), norm_name: dnorms[0]}
    return _whole(dxs, how), grads


def _each(function, *held):
    """Call function on every rank with what it holds: the list of first results, the list of second ones."""
    return zip(*map(function, *held), strict=True)


def _plus(xs, more):
    return [x + y for x, y in zip(xs, more, strict=True)]


def _rows(x, n, how):
    """What each rank has of the stream: all of it, or its rows of every sequence."""
    return [x] * n if how == "tensor" else np.split(x, n, axis=1)


def _whole(xs, how):
    return xs[0] if how == "tensor" else np.concatenate(xs, axis=1)


def _check_cut(x, config, n, how):
    where = "cut_block_forward"
    _check.array(where, "x", x, ndim=3)
    _check.choice(where, "how", how, tuple(CUTS))
    _check.choice(where, "config.form", config.form, ("pre-norm",))
    rows = {"rows of a sequence": x.shape[1]} if how == "sequence" else {}
    _check_divides(where, n, {"key/value heads": config.n_kv_heads, "hidden units": config.d_ff} | rows)


def _check_divides(where, n, work):
    for what, size in work.items():
        if size % n:
            raise ValueError(f"{where}: {n} ranks, expected a number that divides the {size} {what}")


def _check_ranks(where, held, traffic, alike=False):
    if len(held) != traffic.ranks:
        raise ValueError(f"{where}: {len(held)} arrays, expected one for each of {traffic.ranks} ranks")
    shapes = {array.shape for array in held}
    if alike and len(shapes) > 1:
        raise ValueError(f"{where}: the ranks' arrays have shapes {sorted(shapes)}, expected a single one")
    return len(held)
