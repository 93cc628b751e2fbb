"""A stack of blocks cut into stages, one for each rank, that pass micro-batches along in GPipe's order."""

from collections import namedtuple

import numpy as np

from scratch import _check
from scratch.block import block_backward, block_forward
from scratch.threads import slices

Task = namedtuple("Task", "stage micro backward start end")
"""One stage's work on one micro-batch, and when: micro and stage from 0, start and end in time units."""


def gpipe_schedule(stages, micro_batches, *, forward=1, backward=2):
    """When each stage works on each micro-batch: a list of Task, in an order that works.

    Every stage takes all micro-batches forward, then all of them back, the last one first. A task starts as soon as
    its stage is free and the neighbour has sent what it needs.

    Parameters
    ----------
    stages, micro_batches : int
    forward, backward : time units that a stage needs for one micro-batch; a backward is about two forwards

    Source: Huang et al. 2019 (GPipe), section 2.3 and figure 2. Book: eq-bubble.
    """
    _check_counts("gpipe_schedule", stages, micro_batches)
    free, done, tasks = [0] * stages, {}, []

    def work(stage, micro, back, needs):
        start = max(free[stage], done.get(needs, 0))
        free[stage] = done[stage, micro, back] = start + (backward if back else forward)
        tasks.append(Task(stage, micro, back, start, free[stage]))

    for micro in range(micro_batches):
        for stage in range(stages):
            work(stage, micro, False, (stage - 1, micro, False))
    for micro in reversed(range(micro_batches)):
        for stage in reversed(range(stages)):
            work(stage, micro, True, (stage + 1, micro, True))
    return tasks


def bubble(tasks):
    """The share of the stages' time in which they wait: counted from a schedule. Book: eq-bubble."""
    stages = 1 + max(task.stage for task in tasks)
    busy = sum(task.end - task.start for task in tasks)
    return 1 - busy / (stages * max(task.end for task in tasks))


def pipeline_forward(x, blocks, config, traffic, micro_batches, *, rope=None):
    """A stack of blocks, an equal share of them on each rank, which send the stream of a micro-batch on.

    Parameters
    ----------
    x : float array [B, T, D]; micro_batches divides B
    blocks : list of parameter trees, as params["blocks"]; the ranks of `traffic` divide their number
    config, rope : as in `block.block_forward`
    traffic : Traffic
    micro_batches : int, m

    Returns
    -------
    y : [B, T, D], what `block_forward`, block after block, gives
    cache : for `pipeline_backward`

    Source: Huang et al. 2019 (GPipe), section 2. Book: eq-bubble.
    """
    where, p = "pipeline_forward", traffic.ranks
    _check.array(where, "x", x, ndim=3)
    _check_counts(where, p, micro_batches)
    for what, size, n in (("blocks", len(blocks), p), ("sequences", len(x), micro_batches)):
        if size % n:
            raise ValueError(f"{where}: {size} {what}, expected a multiple of {n}")
    own = [blocks[some] for some in slices(len(blocks), p)]
    tasks, caches = gpipe_schedule(p, micro_batches), {}
    streams = np.split(x, micro_batches)  # [B/m, T, D]
    for stage, micro, back, *_ in tasks:
        if back:
            break
        kept = []
        for params in own[stage]:
            streams[micro], cache = block_forward(streams[micro], params, config, rope=rope)
            kept.append(cache)
        caches[stage, micro] = kept
        if stage < p - 1:
            streams[micro] = traffic.send(streams[micro], stage)
    return np.concatenate(streams), (traffic, tasks, caches, len(blocks))


def pipeline_backward(dout, cache):
    """Gradients of `pipeline_forward`: (dx [B, T, D], a list of trees like blocks), summed over the micro-batches."""
    traffic, tasks, caches, n_blocks = cache
    own = slices(n_blocks, traffic.ranks)
    grads = [None] * n_blocks
    streams = np.split(dout, 1 + max(task.micro for task in tasks))
    for stage, micro, back, *_ in tasks:
        if not back:
            continue
        for layer in reversed(range(n_blocks)[own[stage]]):
            kept = caches[stage, micro][layer - own[stage].start]
            streams[micro], grad = block_backward(streams[micro], kept)
            grads[layer] = _added(grads[layer], grad)
        if stage > 0:
            streams[micro] = traffic.send(streams[micro], stage)
    return np.concatenate(streams), grads


def _added(tree, more):
    """The sum of two gradient trees; None counts as zero."""
    if tree is None:
        return more
    if isinstance(more, dict):
        return {name: _added(tree[name], part) for name, part in more.items()}
    return tree + more


def _check_counts(where, stages, micro_batches):
    for name, value in (("stages", stages), ("micro_batches", micro_batches)):
        if value < 1:
            raise ValueError(f"{where}: {name}={value}, expected at least 1")
