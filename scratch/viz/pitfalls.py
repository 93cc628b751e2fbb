"""What a fault looks like: loss curves, maps of wrong masks, and which check catches which fault."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm

from scratch.viz.style import ATTN, FFN, GRID, INK, MUTED, STREAM, axes_for, legend_above


def two_losses(curves, *, level, ax=None):
    """Loss by training step, a line for each run, with a dashed line at `level`, its label and its value.

    curves : {label: [N] losses in nats}; level : (label, value)
    """
    fig, ax = axes_for(ax)
    for (label, loss), colour, style in zip(curves.items(), (ATTN, FFN, STREAM), ("-", "--", "-."), strict=False):
        ax.plot(np.arange(1, len(loss) + 1), loss, color=colour, ls=style, lw=2.2, label=label)
    ax.axhline(level[1], color=MUTED, lw=1.2, ls=":")
    ax.annotate(level[0], (len(loss), level[1]), xytext=(0, 4), textcoords="offset points", ha="right", color=MUTED)
    ax.set(xlabel="step", ylabel="loss (nats)", xlim=(1, len(loss)), ylim=(0, None))
    legend_above(ax)
    return fig, ax


def wrong_maps(maps, *, columns=3):
    """Attention maps side by side, rows of NaN hatched; colour follows the square root of the weight.

    maps : {title: [T, T]}
    """
    fig, axes = plt.subplots(1, columns, figsize=(4.4, 1.9), layout="compressed", sharey=True)
    for ax, (title, weights) in zip(axes.flat, maps.items(), strict=True):
        T = len(weights)
        image = ax.imshow(weights, cmap="Blues", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
        for row in np.flatnonzero(np.isnan(weights).any(axis=-1)):
            ax.barh(row, T, 1, left=-0.5, color="white", edgecolor=FFN, hatch="////", lw=0)
        for t in range(T):  # the cells of the diagonal, where the mask's edge belongs
            ax.add_patch(plt.Rectangle((t - 0.5, t - 0.5), 1, 1, fill=False, edgecolor=INK, lw=1))
        ax.set_title(title, fontsize=11)
        ax.set(xticks=range(0, T, 2), xticklabels=range(1, T + 1, 2), yticks=range(T), yticklabels=range(1, T + 1))
        ax.set(xlim=(-0.5, T - 0.5), ylim=(T - 0.5, -0.5))
        ax.grid(False)
    fig.supxlabel("token looked at", fontsize=11)
    axes.flat[0].set_ylabel("token that looks", fontsize=11)
    fig.colorbar(image, ax=axes, shrink=0.6, label="weight", ticks=(0, 0.5, 1))
    return fig, axes


def caught(table, faults, checks, *, ax=None):
    """Which check rejects which fault: a filled square where it does, a small dot where it is content.

    table : bool [faults, checks]
    """
    fig, ax = axes_for(ax, figsize=(5.4, 0.36 * len(faults) + 1.3))
    for row, column in np.ndindex(*table.shape):
        found = table[row, column]
        ax.plot(column, row, marker="s" if found else ".", ms=11 if found else 4, color=FFN if found else MUTED)
    ax.set_yticks(range(len(faults)), faults)
    ax.set_xticks(range(len(checks)), checks, rotation=35, ha="right", rotation_mode="anchor")
    ax.set(xlim=(-0.6, len(checks) - 0.4), ylim=(len(faults) - 0.5, -0.5), xlabel="check", ylabel="fault")
    ax.grid(color=GRID)
    return fig, ax
