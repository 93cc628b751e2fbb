"""The residual stream by depth, and what one change does to its rows."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scratch.viz.style import ATTN, FFN, FIRST, INK, MUTED, OTHER, STREAM, axes_for, block_axis, legend_above, log_axis


def stream_norms(norms, pieces, *, marked=(0,), ax=None):
    """Length of the residual stream by depth, a line for each token, a few of them marked; log scale.

    norms : [L+1, T], as Trace.norms[:, b]; pieces : T strings, the tokens' texts; marked : up to two token indices
    """
    fig, ax = axes_for(ax)
    depth = np.arange(norms.shape[0])
    plain = np.delete(norms, marked, axis=1)
    ax.plot(depth, plain, color=OTHER, lw=1, alpha=0.55)
    ax.plot(depth, np.median(plain, axis=1), color=ATTN, lw=2.2, label="median of the others")
    for token, colour, marker in zip(marked, (FFN, FIRST), ("o", "s")):
        label = f"token {token + 1} “{pieces[token].strip()}”"
        ax.plot(depth, norms[:, token], color=colour, lw=2, marker=marker, ms=3.5, label=label)
    log_axis(ax)
    ax.set(xlabel="blocks passed", ylabel="length of the stream", xlim=(0, norms.shape[0] - 1))
    legend_above(ax, columns=3)
    return fig, ax


def branch_norms(stream, attn, ffn, *, ax=None):
    """Median length over tokens of the stream and of what each branch adds to it, by block; log scale.

    stream : [L+1, T, D]; attn, ffn : [L, T, D]
    """
    fig, ax = axes_for(ax)
    block = np.arange(1, attn.shape[0] + 1)
    for array, colour, marker, label in (
        (stream[:-1], STREAM, "", "stream, coming in"),
        (attn, ATTN, "o", "attention adds"),
        (ffn, FFN, "s", "feed-forward adds"),
    ):
        lengths = np.median(np.linalg.norm(array, axis=-1), axis=-1)
        ax.plot(block, lengths, color=colour, marker=marker, ms=4, lw=2, label=label)
    log_axis(ax)
    block_axis(ax, block, ylabel="median length")
    ax.legend()
    return fig, ax


def by_depth(depths, curves, *, xlabel, ylabel, ax=None):
    """Something measured at several depths, a line for each case; a few depths are spaced by their logarithm.

    depths : [N], in ascending order; curves : {label: [N] positive values}, drawn on a logarithmic scale
    """
    fig, ax = axes_for(ax)
    few = len(depths) < 10
    for (label, values), colour, style in zip(curves.items(), (ATTN, FFN, STREAM), ("o-", "s--", "^-."), strict=False):
        ax.plot(depths, values, style if few else style[1:], color=colour, lw=2, ms=5, label=label)
    if few:
        ax.set_xscale("log", base=2)
        ax.set_xticks(depths, depths)
    else:
        ax.set_xlim(depths[0], depths[-1])
    log_axis(ax)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    legend_above(ax, columns=3)
    return fig, ax


def changed_rows(cases, *, unit="largest change in the row"):
    """What a change at one token does to every row: a strip of bars for each case.

    cases : {title: [T] sizes of the change}
    """
    fig, axes = plt.subplots(1, len(cases), figsize=(5.4, 2.6), sharey=True, squeeze=False)
    for ax, (title, size) in zip(axes.flat, cases.items(), strict=True):
        row = np.arange(1, len(size) + 1)
        ax.bar(row, size, width=0.7, color=ATTN)
        for r, s in zip(row, size, strict=True):
            if s == 0:
                ax.annotate("0", (r, 0), xytext=(0, 3), textcoords="offset points", ha="center", color=MUTED)
        ax.set(title=title, xlabel="token")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(axis="x")
    axes.flat[0].set_ylabel(unit)
    return fig, axes


def ablations(changes, labels):
    """How each block's ablation changes two measurements, a row of bars for each.

    changes : [L, 2], the change from the whole model; labels : two strings, the measurements with their units
    """
    fig, axes = plt.subplots(2, 1, figsize=(5.4, 4.2), sharex=True)
    block = np.arange(1, len(changes) + 1)
    for ax, column, label in zip(axes, changes.T, labels):
        ax.bar(block, column, width=0.75, color=ATTN)
        ax.axhline(0, color=INK, lw=1)
        block_axis(ax, block, ylabel=f"change of\n{label}")
        ax.grid(axis="x")
    axes[0].set_xlabel("")
    axes[1].set_xlabel("block whose feed-forward adds nothing to token 1")
    axes[1].yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:+.0f}" if v else "0"))
    fig.align_ylabels()
    return fig, axes
