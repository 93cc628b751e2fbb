"""A training run: the way down, the learning rate, losses, gradients, and the stream as it grows."""

import numpy as np
from matplotlib.ticker import MultipleLocator

from scratch.viz.style import ATTN, FFN, FIRST, GRID, INK, MUTED, OTHER, STREAM, axes_for, legend_above, log_axis

LINES = tuple(zip((ATTN, FFN, STREAM, FIRST), ("-", "--", "-.", ":")))


def valley(curvature, paths, *, ax=None):
    """Ways down a valley ½(a x² + b y²), seen from above: contours, and a dot for each step.

    curvature : (a, b); paths : {label: [N, 2]}
    """
    fig, ax = axes_for(ax, figsize=(5.4, 3.4))
    every = np.concatenate([np.zeros((1, 2)), *paths.values()])
    (left, low), (right, high) = every.min(0) - 0.4, every.max(0) + 0.4
    x, y = np.meshgrid(np.linspace(left, right, 200), np.linspace(low, high, 200))
    height = (curvature[0] * x * x + curvature[1] * y * y) / 2
    levels = height.max() * np.linspace(0.03, 1, 9) ** 2
    ax.contour(x, y, height, levels=levels, colors=MUTED, linewidths=0.7, alpha=0.7)
    for (label, path), (colour, style), marker in zip(paths.items(), LINES, ("o", "s", "^"), strict=False):
        ax.plot(*path.T, ls=style, color=colour, marker=marker, ms=4, lw=1.6, label=label)
    ax.plot(0, 0, marker="*", ms=13, color=INK, ls="")
    ax.set(xlabel="first weight", ylabel="second weight")
    ax.grid(False)
    legend_above(ax, columns=3)
    return fig, ax


def rates(rate, warmup, *, ax=None):
    """The learning rate of each step, and where the way up ends.

    rate : [N]; warmup : int, steps
    """
    fig, ax = axes_for(ax, figsize=(5.4, 2.6))
    ax.plot(np.arange(len(rate)), rate, color=ATTN, lw=2.2)
    ax.axvline(warmup, color=MUTED, lw=1.2, ls=":")
    ax.annotate("end of the warm-up", (warmup, 0), xytext=(6, 6), textcoords="offset points", color=MUTED)
    ax.set(xlabel="step", ylabel="learning rate", xlim=(0, len(rate)), ylim=(0, 1.08 * max(rate)))
    return fig, ax


def training_losses(loss, validation, levels, *, ax=None):
    """Loss of each batch, loss on the validation text, and what other models reach there, as level lines.

    loss : [N] nats; validation : {steps taken: nats}; levels : {label: nats}
    """
    fig, ax = axes_for(ax, figsize=(5.4, 3.6))
    ax.plot(np.arange(len(loss)), loss, color=OTHER, lw=0.8, alpha=0.8, label="each batch")
    steps, values = zip(*validation.items())
    ax.plot(steps, values, "o-", color=ATTN, lw=2, ms=5, label="validation")
    for label, value in levels.items():
        ax.axhline(value, color=FFN, lw=1.2, ls="--")
        below = value == min(levels.values())  # where the curves end, there is room below
        place = {"xytext": (-2, -4 if below else 3), "textcoords": "offset points", "ha": "right"}
        place |= {"va": "top" if below else "bottom", "color": FFN, "fontsize": 10}
        ax.annotate(label, (1, value), xycoords=("axes fraction", "data"), **place)
    ax.set_ylim(bottom=min(levels.values()) - 0.15)
    ax.set(xlabel="steps", ylabel="loss, nats a character", xlim=(0, len(loss)))
    legend_above(ax)
    return fig, ax


def gradient_lengths(lengths, limit, *, ax=None):
    """Length of the gradient before clipping, for each step, with the limit; log scale.

    lengths : [N]; limit : float
    """
    fig, ax = axes_for(ax)
    step, lengths = np.arange(len(lengths)), np.asarray(lengths)
    over = lengths > limit
    ax.plot(step, lengths, color=ATTN, lw=0.9, label="length before clipping")
    ax.plot(step[over], lengths[over], ls="", marker="o", ms=4, color=FFN, label="clipped")
    ax.axhline(limit, color=INK, lw=1.2, ls="--", label="limit")
    log_axis(ax)
    ax.set(xlabel="step", ylabel="length of the gradient", xlim=(0, len(lengths)))
    legend_above(ax, columns=3)
    return fig, ax


def stream_over_training(norms, *, ax=None):
    """Median length of the stream by depth, a line for each moment of a training run; log scale.

    norms : {label: [L+1]}
    """
    fig, ax = axes_for(ax)
    for (label, values), (colour, style), marker in zip(norms.items(), LINES, "os^D", strict=False):
        ax.plot(np.arange(len(values)), values, color=colour, ls=style, marker=marker, ms=5, lw=2, label=label)
    log_axis(ax)
    ax.set(xlabel="blocks passed", ylabel="median length of the stream")
    ax.xaxis.set_major_locator(MultipleLocator(1))
    legend_above(ax, columns=len(norms))
    return fig, ax


def short_runs(losses, *, top, ax=None):
    """Loss by step of several runs; what lies above `top` is cut off.

    losses : {label: [N] nats}; top : float, the upper end of the axis
    """
    fig, ax = axes_for(ax, figsize=(5.4, 3.4))
    for (label, values), (colour, style) in zip(losses.items(), LINES, strict=False):
        ax.plot(np.arange(len(values)), values, color=colour, ls=style, lw=1.8, label=label)
    ax.set(xlabel="step", ylabel="loss, nats a character", ylim=(None, top))
    ax.grid(color=GRID)
    legend_above(ax)
    return fig, ax
