"""A figure with controls: drawn anew in a live notebook, drawn beforehand for the built book."""

import html
import io
import itertools
import numbers
import os
import re
import zlib
from urllib.parse import quote

from widgets import base

BUDGET = 100_000  # bytes of all frames as a server sends them: a page has a budget, too


def play(title, draw, alt, **choices):
    """A figure that is drawn again for each choice.

    In a live notebook a change calls `draw` (ipywidgets): between two floats the slider takes any value. While the book
    is built (the environment variable TRANSFORMER_BLOCK_BOOK is 1) it is `frames`.

    Parameters
    ----------
    title : str, what a screen reader calls the figure
    draw : function of the choices that returns a Matplotlib figure, or as those of scratch.viz (figure, axes)
    alt : function of the choices that returns a sentence: what is to be seen in that figure
    choices : a list of values for each argument, the first of which it begins with; numbers get a slider, in ascending
        order, anything else a list to choose from

    Returns
    -------
    A widget; where ipywidgets is missing an object that shows the first figure and says so
    """
    choices = _checked(draw, alt, choices)
    if os.environ.get("TRANSFORMER_BLOCK_BOOK") == "1":
        return frames(title, draw, alt, **choices)
    try:
        import ipywidgets
        from IPython.display import HTML, display
    except ImportError:
        first = {name: values[0] for name, values in choices.items()}
        return base.InWords(title, _figure(_frame(draw, alt, first)))

    def show(**chosen):
        display(HTML(_figure(_frame(draw, alt, chosen))))

    controls = {name: _control(ipywidgets, name, values) for name, values in choices.items()}
    return ipywidgets.interactive(show, **controls)


def frames(title, draw, alt, **choices):
    """The same figure for every combination of choices, drawn now: alive in a page, or an export, without a kernel.

    Arguments as of `play`. Raises ValueError where the frames are too large for a page.
    """
    begin = _checked(draw, alt, choices)
    choices = {name: _in_order(values) for name, values in begin.items()}
    combinations = [dict(zip(choices, values)) for values in itertools.product(*choices.values())]
    drawn = [_frame(draw, alt, chosen) for chosen in combinations]
    size = len(zlib.compress("".join(frame["source"] for frame in drawn).encode()))
    if size > BUDGET:
        raise ValueError(
            f"play: {len(drawn)} frames of {title!r} take {size:,} bytes compressed, more than {BUDGET:,}; "
            "give fewer values, or draw fewer points"
        )
    items = (f"{_said(chosen)}: {frame['alt']}" for chosen, frame in zip(combinations, drawn))
    listed = f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>"
    controls = [
        {"name": _words(name), "kind": _kind(values), "options": [_words(value) for value in values]}
        for name, values in choices.items()
    ]
    data = {"controls": controls, "frames": drawn, "listed": listed}
    chosen = [values.index(begin[name][0]) for name, values in choices.items()]
    first = drawn[combinations.index({name: values[0] for name, values in begin.items()})]
    return base.show("play", title, _figure(first) + listed, data, chosen=chosen)


def _checked(draw, alt, choices):
    """The choices as lists; a ValueError says what is wrong."""
    for name, value in (("draw", draw), ("alt", alt)):
        if not callable(value):
            raise ValueError(f"play: {name} must be a function of the choices, got {value!r}")
    if not choices:
        raise ValueError("play: no choices; give a list of values for each argument of draw")
    for name, values in choices.items():
        if isinstance(values, str) or not hasattr(values, "__iter__") or not (values := list(values)):
            raise ValueError(f"play: {name} must be a list of values, not empty, got {choices[name]!r}")
        choices = choices | {name: values}
    return choices


def _frame(draw, alt, chosen):
    """One figure, as the source of an image, and its sentence."""
    import matplotlib.pyplot as plt

    sentence = alt(**chosen)
    if not isinstance(sentence, str) or not sentence.strip():
        raise ValueError(f"play: alt must return a sentence, got {sentence!r} for {_said(chosen)}")
    before, file = set(plt.get_fignums()), io.StringIO()
    try:
        drawn = draw(**chosen)
        figure = drawn[0] if isinstance(drawn, tuple) else drawn
        if not hasattr(figure, "savefig"):
            raise ValueError(f"play: draw must return a figure, or (figure, axes), got {drawn!r}")
        figure.savefig(file, format="svg", metadata={"Date": None})
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)  # else the notebook shows it a second time
    svg = re.sub(r"<\?xml.*?(?=<svg)|<metadata>.*?</metadata>|<!--.*?-->", "", file.getvalue(), flags=re.DOTALL)
    # not in base64: what frames have in common is found by a server that compresses the page
    source = "data:image/svg+xml," + quote(re.sub(r"\s+", " ", svg), safe="~!*()/:;,=+ ")
    return {"source": source, "alt": sentence}


def _figure(frame):
    """A frame in HTML."""
    return f'<img alt="{html.escape(frame["alt"])}" src="{frame["source"]}">'


def _kind(values):
    """What kind of control these values ask for."""
    return "slider" if all(_is_number(value) for value in values) else "list"


def _in_order(values):
    return sorted(values) if _kind(values) == "slider" else values


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _control(ipywidgets, name, values):
    """The ipywidgets control: floats can be chosen between, too."""
    label, first = _words(name), values[0]
    if _kind(values) == "list" or len(values) == 1:
        return ipywidgets.Dropdown(options=[(_words(value), value) for value in values], description=label)
    if all(isinstance(value, numbers.Integral) for value in values):
        options = [(_words(value), value) for value in sorted(values)]
        return ipywidgets.SelectionSlider(options=options, value=first, description=label)
    low, high = float(min(values)), float(max(values))
    options = {"min": low, "max": high, "step": (high - low) / 100, "readout_format": ".3g"}
    return ipywidgets.FloatSlider(value=first, description=label, **options)


def _words(value):
    """A name or a value as a reader reads it."""
    return f"{value:g}" if isinstance(value, float) else str(value).replace("_", " ")


def _said(chosen):
    return ", ".join(f"{_words(name)} {_words(value)}" for name, value in chosen.items())
