"""What moves the parameters: AdamW, gradient clipping, and the learning rate over time."""

import math

import numpy as np

from scratch import _check
from scratch.gradcheck import leaves
from scratch.model import map_leaves


def adamw_init(params):
    """A fresh optimizer state for `adamw_step`: no step taken, both running means 0.

    Returns {"step": 0, "m": tree, "v": tree}, the trees like params.
    """
    m, v = (map_leaves(lambda _, w: np.zeros_like(w), params) for _ in range(2))
    return {"step": 0, "m": m, "v": v}


def adamw_step(params, grads, state, lr, *, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1):
    """Move params one step of size about lr against the gradient; params and state are changed **in place**.

    ``m ← β₁ m + (1 − β₁) g``, ``v ← β₂ v + (1 − β₂) g²``, then
    ``θ ← θ − lr (m̂ / (√v̂ + eps) + weight_decay θ)`` with ``m̂ = m / (1 − β₁ᵗ)`` and ``v̂ = v / (1 − β₂ᵗ)``.

    Parameters
    ----------
    params : nested dict of float arrays
    grads : the same tree of gradients; read only
    state : from `adamw_init`
    lr : float
    betas : (β₁, β₂), each in [0, 1)
    eps : float, added to the root, outside of it
    weight_decay : float; for arrays with two or more axes only: gains and biases are not pulled towards 0

    Raises
    ------
    ValueError
        If grads is not the same tree as params, before anything is changed.

    Source: Loshchilov & Hutter 2019, algorithm 2. Book: eq-adamw.
    """
    theta, gradient = dict(leaves(params)), dict(leaves(grads))
    if theta.keys() != gradient.keys():
        name = min(theta.keys() ^ gradient.keys())
        raise ValueError(f"adamw_step: {name!r} is only in {'params' if name in theta else 'grads'}")
    for name, g in gradient.items():
        _check.shape("adamw_step", f"gradient {name}", g, theta[name].shape)
    state["step"] += 1
    beta1, beta2 = betas
    m, v = dict(leaves(state["m"])), dict(leaves(state["v"]))
    size = lr / (1 - beta1 ** state["step"])
    root = math.sqrt(1 - beta2 ** state["step"])
    for name, g in gradient.items():
        w, mean, square = theta[name], m[name], v[name]
        work = g * (1 - beta1)
        mean *= beta1
        mean += work
        np.multiply(g, g, out=work)
        work *= 1 - beta2
        square *= beta2
        square += work
        np.sqrt(square, out=work)  # √v̂ + eps
        work /= root
        work += eps
        np.divide(mean, work, out=work)
        work *= size
        if w.ndim > 1:
            w *= 1 - lr * weight_decay
        w -= work


def clip_gradients(grads, limit):
    """Scale all gradients **in place** so that together they are no longer than limit; returns their length before.

    The length is the root of the sum of all squares, over every array. Source: Pascanu et al. 2013, algorithm 1.
    """
    if not limit > 0:
        raise ValueError(f"clip_gradients: limit={limit}, expected a positive number")
    arrays = [g for _, g in leaves(grads)]
    length = math.sqrt(sum(float(np.vdot(g, g)) for g in arrays))
    if length > limit:
        for g in arrays:
            g *= limit / length
    return length


def learning_rate(step, *, peak, steps, warmup=0, floor=0.0):
    """The learning rate of a step, counted from 0: a straight way up to peak, then half a cosine down to floor.

    Parameters
    ----------
    step : int in [0, steps)
    peak : float; step `warmup` has it
    steps, warmup : int, of the whole run and of the way up
    floor : float, reached at the end

    Source: Loshchilov & Hutter 2017, eq. 5. Book: eq-schedule.
    """
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    done = min((step - warmup) / max(steps - warmup, 1), 1.0)
    return floor + (peak - floor) * (1 + math.cos(math.pi * done)) / 2
