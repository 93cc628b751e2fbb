"""Attention maps, and what can be read from them."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scratch.viz.style import ATTN, FFN, GRID, INK, OTHER, STREAM, axes_for, block_axis, legend_above


def attention_maps(maps, pieces, titles, *, columns=3, top=1.0):
    """A grid of attention maps: row = the token that looks, column = the token looked at, dark = much.

    maps : [N, T, T]; pieces : T strings; titles : N strings; top : the weight drawn darkest. Colour follows the
    square root of the weight, so that small weights can be seen.
    """
    rows = -(-len(maps) // columns)
    size = (5.4, 5.4 * rows / columns * 0.86 + 0.9)
    fig, axes = plt.subplots(rows, columns, figsize=size, layout="compressed", squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat[len(maps) :]:
        ax.set_visible(False)
    for ax, weights, title in zip(axes.flat, maps, titles, strict=False):
        image = ax.imshow(weights, cmap="Blues", norm=PowerNorm(0.5, 0, top), interpolation="nearest")
        ax.set_title(title, fontsize=10)
        ax.grid(False)
    many = len(pieces) > 14
    for ax in axes.flat:
        if many:
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        else:
            ax.set_xticks(range(len(pieces)), [p.strip() for p in pieces], rotation=90, fontsize=9)
            ax.set_yticks(range(len(pieces)), [p.strip() for p in pieces], fontsize=9)
            for axis in (ax.xaxis, ax.yaxis):  # thin lines, so that equal neighbours stay two cells
                axis.set_ticks(np.arange(0.5, len(pieces) - 1), minor=True)
            ax.grid(which="minor", color=GRID, lw=0.8)
            ax.tick_params(which="minor", length=0)
    fig.supxlabel("token looked at" + (" (position)" if many else ""), fontsize=10)
    fig.supylabel("token that looks" + (" (position)" if many else ""), fontsize=10)
    fig.colorbar(image, ax=axes, shrink=0.7, label="attention weight")
    return fig, axes


def sink_share(maps, even, *, ax=None):
    """Share of attention that goes to the first token, by block: a dot for each head, a line for their median.

    maps : [L, H, T, T]; even : float, the share that evenly spread attention would give. The first row of each map is
    left out: the first token can look only at itself.
    """
    fig, ax = axes_for(ax)
    share = maps[:, :, 1:, 0].mean(axis=-1)  # [L, H]
    block = np.arange(1, share.shape[0] + 1)
    ax.plot(block, share, ls="", marker="o", ms=4, color=OTHER, alpha=0.8)
    ax.plot([], [], ls="", marker="o", ms=4, color=OTHER, label="one head")
    ax.plot(block, np.median(share, axis=1), color=ATTN, lw=2.2, label="median head")
    ax.axhline(even, color=INK, lw=1.2, ls="--", label="evenly spread")
    block_axis(ax, block, ylabel="share on the first token", ylim=(0, 1.02))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
    legend_above(ax, columns=3)
    return fig, ax


def token_bars(rows, pieces, *, ax=None):
    """Probabilities of the next token: a group of bars for each of `rows`, largest of the first on top.

    rows : {label: [N] probabilities}; pieces : N strings
    """
    fig, ax = axes_for(ax)
    place, height = np.arange(len(pieces)), 0.8 / len(rows)
    for i, ((label, p), colour) in enumerate(zip(rows.items(), (ATTN, FFN, STREAM), strict=False)):
        bars = ax.barh(place + (i - (len(rows) - 1) / 2) * height, p, height * 0.92, color=colour, label=label)
        ax.bar_label(bars, [f"{v:.1%}" for v in p], padding=4, fontsize=10)
    ax.set_yticks(place, [f"“{p}”" for p in pieces])
    ax.invert_yaxis()
    ax.grid(axis="y")
    ax.set(xlabel="probability of the next token", xlim=(0, 1.18 * max(max(p) for p in rows.values())))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
    if len(rows) > 1:
        legend_above(ax)
    return fig, ax
