"""Pictures of writing: what a cache saves, what a step computes, what sampling leaves, where pages of a cache lie."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from scratch.viz.maps import attention_maps
from scratch.viz.style import ATTN, FFN, GRID, INK, MUTED, STREAM, axes_for, legend_above


def work_growth(rows, *, ax=None):
    """Operations in all against the length of the text.

    rows : {label: [T] operations of each step}
    """
    fig, ax = axes_for(ax)
    for (label, steps), colour, line in zip(rows.items(), (FFN, ATTN), ("-", "--"), strict=False):
        total = np.cumsum(steps) / 1e6
        ax.plot(np.arange(1, len(total) + 1), total, color=colour, ls=line, lw=2.2, label=label)
    ax.set(xlabel="length of the text (tokens)", ylabel="operations so far (millions)", xlim=(0, None), ylim=(0, None))
    legend_above(ax)
    return fig, ax


def decoding_row(weights, pieces):
    """An attention map [T, T], and beside it what a decoding step computes of it: the last row; T strings."""
    T = len(pieces)
    maps = weights, np.where(np.arange(T)[:, None] == T - 1, weights, np.nan)
    fig, axes = attention_maps(maps, pieces, ("the whole run", "one step"), columns=2)
    axes.flat[1].axhspan(-0.5, T - 1.5, facecolor="white", edgecolor=MUTED, hatch="////", lw=0, zorder=3)
    return fig, axes


def sampling_panels(before, rows, pieces, *, columns=2):
    """What each way of sampling makes of one distribution: outlines before, bars after.

    before : [N] probabilities; rows : {title: [N] probabilities}; pieces : N strings
    """
    lines = -(-len(rows) // columns)
    fig, axes = plt.subplots(lines, columns, figsize=(5.4, 2.15 * lines), sharex=True, sharey=True, squeeze=False)
    place = np.arange(len(pieces))
    for ax, (title, p) in zip(axes.flat, rows.items(), strict=False):
        ax.barh(place, p, 0.78, color=ATTN, label="after")
        ax.barh(place, before, 0.78, facecolor="none", edgecolor=INK, lw=0.9, label="before")
        ax.set_title(title, fontsize=10)
        ax.grid(axis="y")
    ax.set_yticks(place, [f"“{p}”" for p in pieces], fontsize=8)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.02), xticks=(0, 0.5, 1))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
    fig.get_layout_engine().set(wspace=0.08)  # else one panel's 100% meets the next one's 0%
    fig.supxlabel("probability of the next token", fontsize=10)
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper left", ncols=2, fontsize=10)
    return fig, axes


def page_tables(lengths, capacity, tables, page, pages):
    """One cell a token: above, a buffer of `capacity` for each sequence; below, the pool with each sequence's pages.

    lengths : tokens of each sequence, three at most; tables : lists of page numbers; page : tokens in a page; pages :
    how many the pool has
    """
    floor, width = len(lengths) + 0.7, max(capacity, page * pages)
    heights = len(lengths), floor + 1.6
    fig, (top, low) = plt.subplots(2, 1, figsize=(5.4, 3.8), height_ratios=heights)
    for b, (n, colour) in enumerate(zip(lengths, (ATTN, FFN, STREAM), strict=False)):
        _cells(top, 0, b, capacity, n, colour)
        top.text(-0.5, b + 0.5, "ABC"[b], ha="right", va="center")
        low.text(-0.5, b + 0.5, f"{'ABC'[b]}:  {'  '.join(map(str, tables[b]))}", ha="left", va="center")
        for i, number in enumerate(tables[b]):
            _cells(low, number * page, floor, page, min(page, n - i * page), colour)
            low.text((number + 0.5) * page, floor - 0.1, "ABC"[b], ha="center", va="bottom", fontsize=9)
    _frames(low, floor, page, pages)
    for ax, title, height in zip((top, low), ("contiguous", "page tables, and the pool"), heights, strict=True):
        ax.set(xlim=(-1.2, width + 0.2), ylim=(height, -0.2), title=title)
        ax.set_axis_off()
    return fig, (top, low)


def _cells(ax, left, top, wide, filled, colour):
    """A row of `wide` unit cells of which the first are filled."""
    for i in range(wide):
        face = colour if i < filled else "white"
        ax.add_patch(Rectangle((left + i, top + 0.1), 1, 0.8, fc=face, ec=MUTED if i < filled else GRID, lw=0.8))


def _frames(ax, top, page, pages):
    """A frame around each page, its number below."""
    for number in range(pages):
        ax.add_patch(Rectangle((number * page, top), page, 1, fill=False, ec=INK, lw=1.4))
        ax.text((number + 0.5) * page, top + 1.12, number, ha="center", va="top", fontsize=9)
