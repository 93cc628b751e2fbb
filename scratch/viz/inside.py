"""What is read inside a trained model: the logit lens, and what happens when a part is taken away."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter

from scratch.viz.style import ATTN, FFN, INK, MUTED, OTHER, axes_for, block_axis, legend_above


def lens_grid(best, probabilities, depths, pieces, *, ax=None):
    """The most probable token at each position (columns) and depth (rows, the last on top), dark where it is certain.

    best : [N][T] strings; probabilities : [N, T]; depths : [N], blocks passed; pieces : T strings, the text itself
    """
    fig, ax = axes_for(ax, figsize=(4.4, 0.34 * len(depths) + 1.1))
    image = ax.imshow(probabilities, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    for row, column in np.ndindex(probabilities.shape):
        colour = "white" if probabilities[row, column] > 0.6 else INK
        ax.text(column, row, best[row][column], ha="center", va="center", fontsize=9, color=colour)
    ax.set_xticks(range(len(pieces)), [piece.strip() for piece in pieces])
    ax.set_yticks(range(len(depths)), depths)
    ax.set(xlabel="text", ylabel="blocks passed")
    ax.grid(False)
    fig.colorbar(image, ax=ax, label="probability", format=FuncFormatter(lambda v, _: f"{v:.0%}"))
    return fig, ax


def knockouts(panels, whole):
    """Probability of the answer when a part of a block is taken away, by block; a dashed line for the whole model.

    panels : {title: {label: [L], or [L, N] for N parts of each block, drawn as dots}}; whole : float
    """
    fig, axes = plt.subplots(len(panels), 1, figsize=(4.4, 1 + 1.9 * len(panels)), sharex=True, squeeze=False)
    told = set()  # a label that two panels share stands in the legend once
    for ax, (title, lines) in zip(axes.flat, panels.items(), strict=True):
        looks = iter(((ATTN, "o"), (FFN, "s")))
        for label, values in lines.items():
            dots = np.ndim(values) == 2
            colour, marker = (OTHER, "o") if dots else next(looks)
            block = np.arange(1, len(values) + 1)
            drawn = ax.plot(block, values, color=colour, marker=marker, ms=4, lw=0 if dots else 1)
            if label not in told:
                drawn[0].set_label(label)
            told.add(label)
        ax.axhline(whole, color=MUTED, lw=1.2, ls="--")
        block_axis(ax, block, ylabel="probability", ylim=(0, 1.02), title=title)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
    for ax in axes.flat[:-1]:
        ax.set_xlabel("")
    legend_above(axes.flat[0], columns=3)
    return fig, axes
