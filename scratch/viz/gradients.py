"""Gradients by depth, checks of them, and the slopes of activations."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator

from scratch.viz.style import ATTN, FFN, GRID, INK, MUTED, OTHER, STREAM, axes_for, block_axis, legend_above, log_axis


def gradient_norms(norms, *, ax=None):
    """Length of the loss's gradient at each block's input, a thin line for each token and their median; log scale.

    norms : [L, T], as `trace.gradient_norms` gives for one sequence
    """
    fig, ax = axes_for(ax)
    block = np.arange(1, norms.shape[0] + 1)
    ax.plot(block, norms, color=OTHER, lw=0.8, alpha=0.5)
    ax.plot(block, np.median(norms, axis=1), color=ATTN, lw=2.2, label="median token")
    log_axis(ax)
    block_axis(ax, block, ylabel="length of the gradient")
    ax.legend()
    return fig, ax


def gradients_by_depth(depths, norms, *, ax=None):
    """Gradient of the first and of the last block's weights against the number of blocks; both axes logarithmic.

    depths : [N], in ascending order; norms : {form: [N, 2] lengths, of the first block and the last}
    """
    fig, ax = axes_for(ax)
    for (form, pair), colour in zip(norms.items(), (ATTN, FFN), strict=False):
        for lengths, block, style in zip(np.transpose(pair), ("first", "last"), ("o--", "s-"), strict=True):
            ax.plot(depths, lengths, style, color=colour, lw=2, ms=4, label=f"{form}, {block}")
    guide = 0.7 * next(iter(norms.values()))[0][1] * np.sqrt(depths[0] / depths)
    ax.plot(depths, guide, color=INK, lw=1.2, ls=":", label="like 1/√L")
    ax.set_xscale("log", base=2)
    ax.set_xticks(depths, depths)
    log_axis(ax)
    ax.set(xlabel="blocks in the stack, L", ylabel="length of the gradient")
    legend_above(ax, columns=3)
    return fig, ax


def depth_panels(panels, *, ylabel):
    """Lines by block, a panel for each case, side by side on one scale; log scale.

    panels : {title: {label: [L]}}, the same labels in each, in the same order
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(5.4, 3.1), sharey=True, squeeze=False)
    for ax, (title, lines) in zip(axes.flat, panels.items(), strict=True):
        for (label, values), colour, style in zip(lines.items(), (ATTN, FFN, STREAM), ("-", "--", "-."), strict=False):
            ax.plot(np.arange(1, len(values) + 1), values, color=colour, ls=style, lw=2.2, label=label)
        ax.set(title=title, xlabel="block", xlim=(0.5, len(values) + 0.5), yscale="log")
        ax.set_xticks([1, *range(10, len(values) + 1, 10)])
    axes.flat[0].yaxis.set_minor_locator(NullLocator())
    axes.flat[0].set_ylabel(ylabel)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    options = {"handlelength": 1.8, "columnspacing": 1.1, "handletextpad": 0.5, "fontsize": 10}
    fig.legend(handles, labels, loc="outside upper left", ncols=3, **options)
    return fig, axes


def errors_by_name(errors, *, limit, ax=None):
    """Relative error of each gradient, as dots on a log scale, with the limit as a line.

    errors : {name: relative error}; limit : float
    """
    fig, ax = axes_for(ax, figsize=(5.4, 0.3 * len(errors) + 1.2))
    names = list(errors)
    values = np.maximum(list(errors.values()), 1e-17)
    ax.hlines(range(len(names)), 1e-17, values, color=GRID, lw=2)
    ax.plot(values, range(len(names)), ls="", marker="o", color=ATTN)
    ax.axvline(limit, color=FFN, lw=2, ls="--")
    ax.annotate("limit", (limit, len(names) - 1), xytext=(5, 0), textcoords="offset points", color=FFN, va="center")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set(xlabel="relative error against finite differences", xlim=(1e-16, 1e-4))
    ax.grid(axis="y")
    return fig, ax


def gates(z, curves, *, marked):
    """Activations, and beside them their slopes, a dot on each curve at one input.

    z : [N], inputs in ascending order; curves : {name: (values [N], slopes [N])}; marked : float, the input of the dots
    """
    fig, axes = plt.subplots(1, 2, figsize=(5.4, 2.9))
    for (name, pair), colour, style in zip(curves.items(), (ATTN, FFN, STREAM), ("-", "--", "-."), strict=False):
        for ax, y in zip(axes, pair):
            ax.plot(z, y, color=colour, ls=style, lw=2)
            ax.plot(marked, np.interp(marked, z, y), color=colour, marker="o")
        axes[0].plot([], [], color=colour, ls=style, lw=2, label=name)
    for ax, title in zip(axes, ("value", "slope")):
        ax.axvline(marked, color=MUTED, lw=1, ls=":")
        ax.set(title=title, xlabel="gate", xlim=(z[0], z[-1]))
    legend_above(axes[0], columns=3)
    return fig, axes
