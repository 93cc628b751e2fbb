"""The look of every plot: colours and what they mean, Matplotlib's settings, axes and legends."""

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator

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


def placeholder(text):
    """An empty figure that says in words why there is nothing to see."""
    fig, ax = axes_for(None, figsize=(5.4, 1.2))
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", color=MUTED)
    return fig, ax


def axes_for(ax, **options):
    """(fig, ax): the given axes and their figure, or new ones."""
    if ax is not None:
        return ax.figure, ax
    return plt.subplots(**options)


def log_axis(ax):
    """Make y logarithmic, with plain numbers at 1, 2 and 5 where the range is small."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 2000 * low else (1,)))
    ax.yaxis.set_major_formatter(plain)
    ax.yaxis.set_minor_locator(NullLocator())


def legend_above(ax, columns=2):
    """The legend above the axes: the layout makes room for it, and leaves their width alone."""
    options = {"handlelength": 2.2, "columnspacing": 1.1, "handletextpad": 0.5, "fontsize": 10}
    ax.figure.legend(loc="outside upper left", ncols=columns, **options)


def block_axis(ax, block, **settings):
    """Label x with block numbers from 1; settings are passed on to ax.set."""
    ax.set(xlabel="block", xlim=(0.5, block[-1] + 0.5), **settings)
    ax.set_xticks([1, *range(5, block[-1] + 1, 5)] if block[-1] > 8 else block)


def plain(value, _=None):
    """A tick's number without powers of ten."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
