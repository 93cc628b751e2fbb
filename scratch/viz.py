"""Every plot of the course; each function returns (fig, ax) and draws from arrays it is given."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

# Okabe & Ito's palette, told apart by colour-blind readers; the names say what each colour means in every chapter.
INK, MUTED, GRID = "#1b2733", "#6b7785", "#dde3e9"
ATTN, FFN, STREAM, FIRST, OTHER = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"


def use_style():
    """Set the course's look for Matplotlib, and crisp SVG figures where IPython is running."""
    plt.rcParams.update(
        {
            "figure.figsize": (5.4, 3.3),
            "figure.facecolor": "white",
            "figure.constrained_layout.use": True,
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "axes.edgecolor": MUTED,
            "axes.labelcolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": GRID,
            "grid.linewidth": 0.8,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.major.size": 0,
            "ytick.major.size": 0,
            "legend.frameon": False,
            "svg.hashsalt": "transformer-block",
        }
    )
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        get_ipython()
    except (ImportError, NameError):
        return
    set_matplotlib_formats("svg", metadata={"Date": None})  # the same figure is the same file


def stream_norms(norms, pieces, *, marked=(0,), ax=None):
    """Length of the residual stream by depth, a line for each token, a few of them marked; log scale.

    norms : [L+1, T], as Trace.norms[:, b]; pieces : T strings, the tokens' texts; marked : up to two token indices
    """
    fig, ax = _axes(ax)
    depth = np.arange(norms.shape[0])
    plain = np.delete(norms, marked, axis=1)
    ax.plot(depth, plain, color=OTHER, lw=1, alpha=0.55)
    ax.plot(depth, np.median(plain, axis=1), color=ATTN, lw=2.2, label="median other")
    for token, colour, marker in zip(marked, (FFN, FIRST), ("o", "s")):
        label = f"token {token + 1} “{pieces[token].strip()}”"
        ax.plot(depth, norms[:, token], color=colour, lw=2, marker=marker, ms=3.5, label=label)
    _log_axis(ax)
    ax.set(xlabel="blocks passed", ylabel="length of the stream", xlim=(0, norms.shape[0] - 1))
    _legend_above(ax, columns=3)
    return fig, ax


def branch_norms(stream, attn, ffn, *, ax=None):
    """Median length over tokens of the stream and of what each branch adds to it, by block; log scale.

    stream : [L+1, T, D]; attn, ffn : [L, T, D]
    """
    fig, ax = _axes(ax)
    block = np.arange(1, attn.shape[0] + 1)
    for array, colour, marker, label in (
        (stream[:-1], STREAM, "", "stream, coming in"),
        (attn, ATTN, "o", "attention adds"),
        (ffn, FFN, "s", "feed-forward adds"),
    ):
        lengths = np.median(np.linalg.norm(array, axis=-1), axis=-1)
        ax.plot(block, lengths, color=colour, marker=marker, ms=4, lw=2, label=label)
    _log_axis(ax)
    _block_axis(ax, block, ylabel="median length")
    ax.legend()
    return fig, ax


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
    fig.supxlabel("token looked at" + (" (position)" if many else ""), fontsize=10)
    fig.supylabel("token that looks" + (" (position)" if many else ""), fontsize=10)
    fig.colorbar(image, ax=axes, shrink=0.7, label="attention weight")
    return fig, axes


def sink_share(maps, even, *, ax=None):
    """Share of attention that goes to the first token, by block: a dot for each head, a line for their median.

    maps : [L, H, T, T]; even : float, the share that evenly spread attention would give. The first row of each map is
    left out: the first token can look only at itself.
    """
    fig, ax = _axes(ax)
    share = maps[:, :, 1:, 0].mean(axis=-1)  # [L, H]
    block = np.arange(1, share.shape[0] + 1)
    ax.plot(block, share, ls="", marker="o", ms=4, color=OTHER, alpha=0.8)
    ax.plot([], [], ls="", marker="o", ms=4, color=OTHER, label="one head")
    ax.plot(block, np.median(share, axis=1), color=ATTN, lw=2.2, label="median head")
    ax.axhline(even, color=INK, lw=1.2, ls="--", label="evenly spread")
    _block_axis(ax, block, ylabel="share on the first token", ylim=(0, 1.02))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
    _legend_above(ax, columns=3)
    return fig, ax


def ablations(changes, labels):
    """How each block's ablation changes two measurements, a row of bars for each.

    changes : [L, 2], the change from the whole model; labels : two strings, the measurements with their units
    """
    fig, axes = plt.subplots(2, 1, figsize=(5.4, 4.2), sharex=True)
    block = np.arange(1, len(changes) + 1)
    for ax, column, label in zip(axes, changes.T, labels):
        ax.bar(block, column, width=0.75, color=ATTN)
        ax.axhline(0, color=INK, lw=1)
        _block_axis(ax, block, ylabel=f"change of\n{label}")
        ax.grid(axis="x")
    axes[0].set_xlabel("")
    axes[1].set_xlabel("block whose feed-forward adds nothing to token 1")
    axes[1].yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:+.0f}%" if v else "0"))
    fig.align_ylabels()
    return fig, axes


def token_bars(rows, pieces, *, ax=None):
    """Probabilities of the next token: a group of bars for each of `rows`, largest of the first on top.

    rows : {label: [N] probabilities}; pieces : N strings
    """
    fig, ax = _axes(ax)
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
        _legend_above(ax)
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


def errors_by_name(errors, *, limit, ax=None):
    """Relative error of each gradient, as dots on a log scale, with the limit as a line.

    errors : {name: relative error}; limit : float
    """
    fig, ax = _axes(ax, figsize=(5.4, 0.3 * len(errors) + 1.2))
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


def gradient_norms(norms, *, ax=None):
    """Length of the loss's gradient at each block's input, a thin line for each token and their median; log scale.

    norms : [L, T], as `trace.gradient_norms` gives for one sequence
    """
    fig, ax = _axes(ax)
    block = np.arange(1, norms.shape[0] + 1)
    ax.plot(block, norms, color=OTHER, lw=0.8, alpha=0.5)
    ax.plot(block, np.median(norms, axis=1), color=ATTN, lw=2.2, label="median token")
    _log_axis(ax)
    _block_axis(ax, block, ylabel="length of the gradient")
    ax.legend()
    return fig, ax


def gradients_by_depth(depths, norms, *, ax=None):
    """Gradient of the first and of the last block's weights against the number of blocks; both axes logarithmic.

    depths : [N], in ascending order; norms : {form: [N, 2] lengths, of the first block and the last}
    """
    fig, ax = _axes(ax)
    for (form, pair), colour in zip(norms.items(), (ATTN, FFN), strict=False):
        for lengths, block, style in zip(np.transpose(pair), ("first", "last"), ("o--", "s-"), strict=True):
            ax.plot(depths, lengths, style, color=colour, lw=2, ms=4, label=f"{form}, {block}")
    guide = 0.7 * next(iter(norms.values()))[0][1] * np.sqrt(depths[0] / depths)
    ax.plot(depths, guide, color=INK, lw=1.2, ls=":", label="like 1/√L")
    ax.set_xscale("log", base=2)
    ax.set_xticks(depths, depths)
    _log_axis(ax)
    ax.set(xlabel="blocks in the stack, L", ylabel="length of the gradient")
    _legend_above(ax, columns=3)
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
    _legend_above(axes[0], columns=3)
    return fig, axes


def placeholder(text):
    """An empty figure that says in words why there is nothing to see."""
    fig, ax = _axes(None, figsize=(5.4, 1.2))
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", color=MUTED)
    return fig, ax


def _log_axis(ax):
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 2000 * low else (1,)))
    ax.yaxis.set_major_formatter(_plain)
    ax.yaxis.set_minor_locator(NullLocator())


def _legend_above(ax, columns=2):
    # Outside the axes the layout makes room for it above, and leaves their width alone.
    options = {"handlelength": 1.3, "columnspacing": 1.1, "handletextpad": 0.5, "fontsize": 10}
    ax.figure.legend(loc="outside upper left", ncols=columns, **options)


def _block_axis(ax, block, **settings):
    ax.set(xlabel="block", xlim=(0.5, block[-1] + 0.5), **settings)
    ax.set_xticks([1, *range(5, block[-1] + 1, 5)] if block[-1] > 8 else block)


def _plain(value, _=None):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _axes(ax, **options):
    if ax is not None:
        return ax.figure, ax
    return plt.subplots(**options)
