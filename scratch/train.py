"""The training loop: draw a batch, loss, gradients, clip, AdamW; checkpoints from which a run goes on exactly."""

import json
import math
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from scratch.gradcheck import leaves
from scratch.model import init_params
from scratch.optim import adamw_init, adamw_step, clip_gradients, learning_rate
from scratch.safetensors_file import read_safetensors, write_safetensors
from scratch.threads import spread_loss_backward, spread_loss_forward


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides how a model is trained, apart from the model and the data.

    steps : int; warmup : int, steps on the way up to the peak
    peak, floor : float, the highest and the last learning rate
    betas, weight_decay : AdamW's
    clip : float, the longest gradient
    seed : int, of the parameters and of every batch
    chunk : int or None, rows of logits at a time, as in `loss_forward`
    threads : int, parts that a batch is cut into, each in a Python thread where there are any, as in `threads`; the
        parts decide how sums are rounded, so they belong to the recipe
    """

    steps: int
    peak: float = 3e-3
    floor: float = 3e-4
    warmup: int = 20
    betas: tuple = (0.9, 0.95)
    weight_decay: float = 0.1
    clip: float = 1.0
    seed: int = 0
    chunk: int | None = None
    threads: int = 1


@dataclass
class History:
    """What a run looked like, a number for each step: loss in nats, length of the gradient before clipping, rate."""

    loss: list = field(default_factory=list)
    length: list = field(default_factory=list)
    rate: list = field(default_factory=list)


def train(config, draw, recipe, *, checkpoint=None, every=100, progress=True, watch=None, stop=None):
    """Train a new model, or go on with one that a checkpoint holds.

    A run is deterministic on one machine: batch t depends on the recipe's seed and on t alone. A run that was killed
    and started again ends with the same bits as one that was not.

    Parameters
    ----------
    config : Config
    draw : function(rng) -> (ids [B, T], targets [B, T]), a batch; rng is a `numpy.random.Generator`
    recipe : Recipe
    checkpoint : path, optional; written after every `every` steps and at the end, each time in one step, and read at
        the start if it is there
    progress : bool, show a bar; without tqdm, as in a browser, a line now and then
    watch : function, optional; called as watch(step, params, grads) after each step
    stop : int, optional; end after that many steps in all, as if killed right after a checkpoint

    Returns
    -------
    params : the model's tree
    history : History

    Raises
    ------
    ValueError
        If the checkpoint is of another model or recipe, or the loss is not a finite number any more.
    """
    params, state, history = _start(config, recipe, checkpoint)
    until = recipe.steps if stop is None else min(stop, recipe.steps)
    for step in _bar(range(state["step"], until), recipe.steps, progress, history):
        ids, targets = draw(np.random.default_rng([recipe.seed, step]))
        options = {"threads": recipe.threads, "chunk": recipe.chunk}
        loss, cache = spread_loss_forward(ids, targets, params, config, **options)
        if not math.isfinite(loss):
            raise ValueError(f"train: the loss of step {step} is {loss}; a lower peak learning rate may help")
        grads = spread_loss_backward(1.0, cache)
        length = clip_gradients(grads, recipe.clip)
        schedule = {"peak": recipe.peak, "floor": recipe.floor, "steps": recipe.steps, "warmup": recipe.warmup}
        rate = learning_rate(step, **schedule)
        adamw_step(params, grads, state, rate, betas=recipe.betas, weight_decay=recipe.weight_decay)
        for name, value in (("loss", loss), ("length", length), ("rate", rate)):
            getattr(history, name).append(float(value))
        if watch is not None:
            watch(step, params, grads)
        if checkpoint is not None and (state["step"] % every == 0 or state["step"] == until):
            save_run(checkpoint, params, state, history, config, recipe)
    return params, history


def windows(ids, batch, length):
    """A `draw` that cuts random windows out of one long text: targets are the ids, one further on.

    ids : integer array [N], N > length; batch, length : int, B and T
    """
    if ids.ndim != 1 or len(ids) <= length:
        raise ValueError(f"windows: ids has shape {ids.shape}, expected one axis longer than length={length}")

    def draw(rng):
        rows = rng.integers(0, len(ids) - length, batch)[:, None] + np.arange(length + 1)  # [B, T+1]
        return ids[rows[:, :-1]], ids[rows[:, 1:]]

    return draw


def save_run(path, params, state, history, config, recipe):
    """Write all that a run needs to go on: parameters, AdamW's means, history. The file is replaced in one step."""
    trees = {"params": params, "m": state["m"], "v": state["v"]}
    tensors = {f"{tree}.{name}": array for tree, value in trees.items() for name, array in leaves(value)}
    tensors |= {f"history.{name}": np.array(values) for name, values in asdict(history).items()}
    write_safetensors(path, tensors, {"step": str(state["step"]), "run": _describe(config, recipe)})


def load_run(path, config, recipe):
    """(params, state, history) of a file that `save_run` wrote.

    Raises ValueError where it belongs to another model or recipe; the message names what differs.
    """
    tensors, metadata = read_safetensors(path)
    theirs, ours = (json.loads(text) for text in (metadata.get("run", "{}"), _describe(config, recipe)))
    for name in sorted(ours.keys() | theirs.keys()):
        if theirs.get(name) != ours.get(name):
            raise ValueError(f"{path}: was made with {name}={theirs.get(name)!r}, now it is {ours.get(name)!r}")
    params = init_params(config, recipe.seed)
    state = adamw_init(params) | {"step": int(metadata["step"])}
    for tree, value in (("params", params), ("m", state["m"]), ("v", state["v"])):
        for name, array in leaves(value):
            array[...] = tensors[f"{tree}.{name}"].read(array.dtype)
    history = History(**{name: tensors[f"history.{name}"].read(np.float64).tolist() for name in asdict(History())})
    return params, state, history


def _start(config, recipe, checkpoint):
    if checkpoint is not None and Path(checkpoint).exists():
        return load_run(checkpoint, config, recipe)
    params = init_params(config, recipe.seed)
    return params, adamw_init(params), History()


def _describe(config, recipe):
    return json.dumps(asdict(config) | asdict(recipe), sort_keys=True)


def _bar(steps, total, progress, history):
    if not progress:
        yield from steps
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield from _lines(steps, total, history)
        return
    with tqdm(steps, total=total, initial=steps.start, unit="step") as bar:
        for step in bar:
            yield step
            if step % 10 == 0 or step + 1 == total:
                bar.set_postfix(loss=f"{history.loss[-1]:.3f}", refresh=False)


def _lines(steps, total, history):
    every = max(1, total // 20)
    for step in steps:
        yield step
        if (step + 1) % every == 0 or step + 1 == total:
            print(f"step {step + 1} of {total}, loss {history.loss[-1]:.3f}", file=sys.stderr, flush=True)
