"""What a model costs: where its operations go, the least time of a decoding step, and measured times."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, NullLocator

from scratch.viz.style import ATTN, FFN, FIRST, INK, MUTED, OTHER, STREAM, axes_for, legend_above, log_axis, plain

PARTS = (ATTN, FIRST, FFN, OTHER)


def shares(panels):
    """Stacked bars of shares that add up to 1: a panel for each table, one below the other, a bar for each row.

    panels : {title: {row: {part: share}}}, the same rows and parts in each, up to four parts
    """
    narrow = (4.8, 0.4 + 1.9 * len(panels))  # so that a phone shows the words large enough
    fig, axes = plt.subplots(len(panels), 1, figsize=narrow, sharex=True, squeeze=False)
    for ax, (title, rows) in zip(axes.flat, panels.items(), strict=True):
        left = np.zeros(len(rows))
        for part, colour in zip(next(iter(rows.values())), PARTS, strict=False):
            size = np.array([row[part] for row in rows.values()])
            bars = ax.barh(range(len(rows)), size, 0.7, left=left, color=colour, edgecolor="white", label=part)
            words = [f"{s:.0%}" if s > 0.07 else "" for s in size]
            ax.bar_label(bars, words, label_type="center", color="white" if colour in (ATTN, FFN) else INK, fontsize=9)
            left += size
        ax.set_yticks(range(len(rows)), rows)
        ax.set(title=title, xlim=(0, 1), xticks=(0, 0.5, 1))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
        ax.invert_yaxis()
        ax.grid(False)
    _one_legend(fig, axes.flat[0], columns=4)
    return fig, axes


def decode_time(batch, times, *, fits=None, ax=None):
    """Least time a token takes in decoding, against the batch: a line for each cause, and the bound; both axes log.

    batch : [N]; times : {label: [N] milliseconds}, the last one the bound; fits : largest batch that memory holds
    """
    fig, ax = axes_for(ax)
    styles = zip(times.items(), (ATTN, FFN, STREAM, INK), ("--", "-.", ":", "-"), strict=False)
    for (label, values), colour, style in styles:
        ax.plot(batch, values, style, color=colour, lw=2.8 if style == "-" else 2, label=label)
    if fits is not None:
        ax.axvline(fits, color=MUTED, lw=1.2)
        here = (fits, max(max(v) for v in times.values()))
        ax.annotate("memory full", here, xytext=(4, -8), textcoords="offset points", color=MUTED, fontsize=10)
    ax.set_xscale("log", base=2)
    ax.set_xticks(batch[::2], batch[::2])
    log_axis(ax)
    ax.set(xlabel="sequences in the batch", ylabel="milliseconds a token", xlim=(batch[0], batch[-1]))
    legend_above(ax, columns=2)
    return fig, ax


def straight_lines(panels):
    """Measured times as dots, and the straight line that fits them: a panel for each quantity, one scale.

    panels : {xlabel: (counts [N], milliseconds [N])}
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(5.4, 2.8), sharey=True, squeeze=False)
    for ax, (label, (count, times)) in zip(axes.flat, panels.items(), strict=True):
        ends = np.array([0, max(count)])
        ax.plot(ends, np.polyval(np.polyfit(count, times, 1), ends), color=FFN, lw=1.8, ls="--", label="straight line")
        ax.plot(count, times, ls="", marker="o", color=ATTN, label="measured")
        ax.set(xlabel=label, xlim=(0, 1.05 * max(count)), xticks=range(0, max(count) + 1, 2))
        ax.xaxis.set_minor_locator(NullLocator())
    top = max(max(times) for _, times in panels.values())
    axes.flat[0].set(ylabel="milliseconds", ylim=(0, 1.1 * top))
    axes.flat[0].yaxis.set_major_formatter(plain)
    _one_legend(fig, axes.flat[0], columns=2)
    return fig, axes


def _one_legend(fig, ax, columns):
    """The legend of one of several panels, above them all."""
    handles, labels = ax.get_legend_handles_labels()
    options = {"handlelength": 1.4, "columnspacing": 1.0, "handletextpad": 0.4, "fontsize": 10}
    fig.legend(handles, labels, loc="outside upper left", ncols=columns, **options)
