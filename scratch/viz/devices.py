"""A block on several devices: what each holds, when each works, and how much each sends."""

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, NullLocator

from scratch.viz.style import ATTN, FFN, FIRST, GRID, INK, MUTED, OTHER, STREAM, axes_for, legend_above, log_axis

RANKS = ((ATTN, ""), (FFN, "///"))  # colour and hatching, so that two ranks are told apart without colour too
BOTH = (GRID, "")


def block_cuts():
    """What each of two ranks holds of a block, in four panels: data, tensor, sequence and pipeline parallel."""
    fig, axes = plt.subplots(2, 2, figsize=(5.4, 4.2))
    one, two = RANKS
    whole, columns, rows = [BOTH], [one, two], [one, two]
    panels = {
        "data": ([one, one, two, two], whole, whole),
        "tensor": ([BOTH] * 4, columns, rows),
        "sequence": ([one, two, one, two], columns, rows),
    }
    for ax, (title, (stream, into, out)) in zip(axes.flat, panels.items(), strict=False):
        for at, look in enumerate(stream):  # two sequences, each in two halves
            _box(ax, 0, 3.1 - at - 0.3 * (at > 1), 1.5, 0.9, look)
        for at, look in enumerate(into):
            _box(ax, 2.3 + at * 2 / len(into), 1.6, 2 / len(into), 1.5, look)
        for at, look in enumerate(out):
            _box(ax, 5, 1.35 + (len(out) - 1 - at) * 2 / len(out), 1.5, 2 / len(out), look)
        for x, label in ((0.75, "stream"), (3.3, "in"), (5.75, "out")):
            ax.text(x, -0.9, label, ha="center", color=MUTED, fontsize=12)
        _bare(ax, title)
    for at in range(4):
        left = at * 1.5 + 0.7 * (at // 2)  # room for the arrow between the ranks
        _box(axes[1, 1], left, 1.2, 1.3, 2, RANKS[at // 2])
        axes[1, 1].text(left + 0.65, 0.3, at + 1, ha="center", color=MUTED, fontsize=12)
    axes[1, 1].text(3.25, -0.9, "blocks", ha="center", color=MUTED, fontsize=12)
    axes[1, 1].annotate("", (3.7, 2.2), (2.8, 2.2), arrowprops={"arrowstyle": "->", "color": INK, "lw": 2})
    _bare(axes[1, 1], "pipeline")
    handles = [Rectangle((0, 0), 1, 1, fc=c, hatch=h, ec="white") for c, h in (*RANKS, BOTH)]
    fig.legend(handles, ["rank 0", "rank 1", "on both"], loc="outside upper left", ncols=3, fontsize=12)
    return fig, axes


def _box(ax, x, y, width, height, look):
    colour, hatch = look
    ax.add_patch(Rectangle((x, y), width, height, fc=colour, hatch=hatch, ec="white", lw=1.5))


def _bare(ax, title):
    ax.set(title=title, xlim=(-0.2, 6.8), ylim=(-1.3, 4.3))
    ax.set_axis_off()


def pipeline_schedule(tasks, *, ax=None):
    """When each stage of a pipeline works on which micro-batch: bars in a row for each stage, gaps where it waits.

    tasks : list of `pipeline.Task`
    """
    fig, ax = axes_for(ax, figsize=(5.4, 3))
    stages, end = 1 + max(t.stage for t in tasks), max(t.end for t in tasks)
    ax.barh(range(stages), [end] * stages, height=0.8, color="white", ec=MUTED, hatch="....", lw=0, label="waiting")
    for back, colour, label in ((False, OTHER, "forward"), (True, FFN, "backward")):
        some = [t for t in tasks if t.backward == back]
        spans = [t.end - t.start for t in some]
        options = {"left": [t.start for t in some], "height": 0.8, "color": colour, "ec": "white", "label": label}
        ax.barh([t.stage for t in some], spans, **options)
        for t in some:
            middle = (t.start + t.end) / 2
            ax.text(middle, t.stage, t.micro + 1, ha="center", va="center", fontsize=12, color=INK)
    ax.set_yticks(range(stages), range(1, stages + 1))
    ax.invert_yaxis()
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="time, in forwards of one micro-batch", ylabel="stage", xlim=(0, end))
    ax.grid(False)
    legend_above(ax, columns=3)
    return fig, ax


def sent_by_ranks(curves, *, ax=None):
    """Gigabytes that a rank sends in one step against the number of ranks, a line for each method; log scales.

    curves : {method: (ranks [N], bytes [N])}
    """
    fig, ax = axes_for(ax)
    looks = zip((ATTN, STREAM, FFN, FIRST), ("o-", "^-.", "s--", "D:"), strict=True)
    for (method, (ranks, sent)), (colour, style) in zip(curves.items(), looks, strict=False):
        ax.plot(ranks, [size / 1e9 for size in sent], style, color=colour, lw=2, ms=5, label=method)
    ax.set_xscale("log", base=2)
    most = max((ranks for ranks, _ in curves.values()), key=len)
    ax.set_xticks(most, most)
    ax.xaxis.set_minor_locator(NullLocator())
    log_axis(ax)
    ax.set(xlabel="ranks", ylabel="GB sent by a rank in a step")
    legend_above(ax, columns=2)
    return fig, ax
