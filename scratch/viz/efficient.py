"""Efficient forms: tiles of scores, peak memory, sums in low precision, the load of experts, patches of a picture."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from scratch.viz.style import ATTN, FFN, FIRST, INK, MUTED, OTHER, STREAM, axes_for, legend_above, log_axis


def tile_map(T, tile, now, *, ax=None):
    """The T × T scores of causal attention cut into tiles: skipped, still to come or done, and the one held now.

    now : (row, column) of the tile that is held, counted in tiles
    """
    fig, ax = axes_for(ax, figsize=(5.4, 4.0))
    order = [(i, j) for i in range(T // tile) for j in range(i + 1)]
    for i in range(T // tile):
        for j in range(T // tile):
            skipped = j > i
            done = not skipped and order.index((i, j)) < order.index(now)
            colour = FFN if (i, j) == now else "white" if skipped else OTHER if done else "#dbeaf6"
            box = {"facecolor": colour, "edgecolor": MUTED, "hatch": "///" if skipped else None, "lw": 0.8}
            ax.add_patch(Rectangle((j * tile, i * tile), tile, tile, **box))
    for colour, label in ((FFN, "held now"), (OTHER, "done, forgotten"), ("#dbeaf6", "to come")):
        ax.add_patch(Rectangle((0, 0), 0, 0, facecolor=colour, edgecolor=MUTED, label=label))
    ax.add_patch(Rectangle((0, 0), 0, 0, facecolor="white", edgecolor=MUTED, hatch="///", label="skipped"))
    ticks = range(0, T + 1, tile)
    ax.set(xlim=(0, T), ylim=(T, 0), aspect="equal", xlabel="key (position)", ylabel="query (position)")
    ax.set_xticks(ticks, ticks)
    ax.set_yticks(ticks, ticks)
    ax.grid(False)
    legend_above(ax, columns=4)
    return fig, ax


def memory_by_length(peaks, matrix, *, ax=None):
    """Peak memory against the number of tokens, both axes logarithmic.

    peaks : {name: {T: bytes}}; matrix : {T: bytes} of the T × T scores alone, drawn as a dotted line
    """
    fig, ax = axes_for(ax)
    for (name, line), colour, style in zip(peaks.items(), (FFN, ATTN), ("s-", "o-"), strict=True):
        ax.plot(list(line), np.array(list(line.values())) / 1e6, style, color=colour, lw=2, ms=5, label=name)
    ax.plot(list(matrix), np.array(list(matrix.values())) / 1e6, ":", color=INK, lw=1.5, label="T × T matrix")
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(matrix), [f"{T:,}" for T in matrix])
    ax.tick_params(axis="x", labelsize=9)
    log_axis(ax)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="tokens, T", ylabel="peak memory (MB)")
    legend_above(ax, columns=3)
    return fig, ax


def rounding_errors(lengths, errors, *, ax=None):
    """Relative error against the length of a sum: solid with sums in bfloat16, dashed with sums in float32; log scales.

    errors : {name: (errors [N] with bfloat16 sums, errors [N] with float32 sums)}
    """
    fig, ax = axes_for(ax, figsize=(5.4, 3.6))
    look = zip((ATTN, FFN, STREAM, FIRST), "osv^", strict=True)
    for (name, (low, high)), (colour, marker) in zip(errors.items(), look, strict=True):
        ax.plot(lengths, low, "-" + marker, color=colour, lw=2, ms=5, label=name)
        ax.plot(lengths, high, "--" + marker, color=colour, lw=1.2, ms=4, markerfacecolor="white")
    ax.plot([], [], "--", color=MUTED, label="sums in float32")
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
    ax.set(yscale="log", xlabel="numbers that are added up", ylabel="relative error")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{np.format_float_positional(100 * v, 6, trim='-')}%"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_locator(NullLocator())
    legend_above(ax, columns=3)
    return fig, ax


def expert_loads(panels):
    """Share of the tokens that each expert receives, stacked, step by step; a panel for each training.

    panels : {title: [steps, E] shares, each row summing to 1}
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(5.4, 3.1), sharey=True, squeeze=False)
    for ax, (title, shares) in zip(axes.flat, panels.items(), strict=True):
        steps, E = shares.shape
        colours = [((ATTN, OTHER, STREAM, FFN)[e % 4], (1, 0.45)[e // 4 % 2]) for e in range(E)]  # (colour, opacity)
        ax.stackplot(np.arange(steps), shares.T, colors=colours, edgecolor="white", lw=1.2)
        for e in range(1, E):
            ax.axhline(e / E, color=INK, lw=0.8, ls=":")
        ax.set(title=title, xlabel="step", xlim=(0, steps - 1), ylim=(0, 1))
        ax.grid(False)
    axes.flat[0].set_ylabel("share of the tokens")
    axes.flat[0].yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
    return fig, axes


def patch_attention(picture, size, at, maps):
    """A picture cut into patches, one of them marked, and what that one looks at.

    picture : [N, N]; size : int, side of a patch; at : int, the marked patch; maps : {title: weights [patches]}
    """
    n = picture.shape[0] // size
    row, column = divmod(at, n)
    top = max(map(np.max, maps.values()))
    fig, axes = plt.subplots(1, 1 + len(maps), figsize=(5.4, 2.9), layout="compressed")
    axes[0].imshow(picture, cmap="gray", interpolation="nearest")
    axes[0].set_title(f"{n * n} patches", fontsize=10)
    for edge in range(size, picture.shape[0], size):
        axes[0].axhline(edge - 0.5, color=OTHER, lw=0.7)
        axes[0].axvline(edge - 0.5, color=OTHER, lw=0.7)
    for ax, (title, weights) in zip(axes[1:], maps.items(), strict=True):
        image = ax.imshow(weights.reshape(n, n), cmap="Blues", norm=PowerNorm(0.5, 0, top))
        ax.set_title(title, fontsize=10)
    for ax, side in zip(axes, (size, *[1] * len(maps)), strict=True):
        corner = column * side - 0.5, row * side - 0.5
        ax.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=FFN, lw=2.5))
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
    label = "attention weight, square-root scale"
    bar = fig.colorbar(image, ax=axes, orientation="horizontal", shrink=0.6, aspect=30, label=label)
    bar.set_ticks([0, top / 4, top], labels=["0", f"{top / 4:.2f}", f"{top:.2f}"])
    return fig, axes
