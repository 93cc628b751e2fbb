"""Makes a widget from a script, its data and its values; where anywidget is missing, the same in words."""

import html
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=function|const|class)", re.MULTILINE)


def show(name, title, words, data, **values):
    """Return the widget NAME, drawn by NAME.js.

    Parameters
    ----------
    name : str, the script's name without ending, such as "counter"
    title : str, what a screen reader calls the figure
    words : str, HTML: what there is to see, for those who do not see it, and before any script has run
    data : dict, what the script draws from; written once
    values : what the reader can change (bool, int, float, str, list or dict); read and set as attributes of the widget

    Returns
    -------
    anywidget.AnyWidget, or where anywidget is missing an object that shows the words
    """
    try:
        widget = _widget_class(name, tuple((key, type(value)) for key, value in values.items()))
    except ImportError:
        return InWords(title, words)
    return widget(title=title, words=words, data=data, **values)


def script(name):
    """The whole script of a widget: one module, since that is what anywidget and a saved notebook can carry."""
    parts = {}
    _collect(name, parts)
    *imported, own = parts.values()
    return "\n".join([*(EXPORT.sub("", part) for part in imported), own])


def _collect(name, parts):
    """Put a script without its imports into `parts`, after all that it imports."""
    text = (HERE / f"{name}.js").read_text(encoding="utf-8")
    for imported in IMPORT.findall(text):
        if imported not in parts:
            _collect(imported, parts)
    parts[name] = IMPORT.sub("", text)


def style(name):
    """The whole style sheet of a widget."""
    files = (HERE / "shared.css", HERE / f"{name}.css")
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file.exists())


@cache
def _widget_class(name, values):
    import anywidget
    import traitlets

    kinds = {
        bool: traitlets.Bool,
        int: traitlets.Int,
        float: traitlets.Float,
        str: traitlets.Unicode,
        list: traitlets.List,
        dict: traitlets.Dict,
    }

    def bundle(self, **options):
        shown = anywidget.AnyWidget._repr_mimebundle_(self, **options)
        data, *metadata = shown if isinstance(shown, tuple) else (shown,)
        # what a viewer without widgets shows: a notebook on a website, an export
        data = data | {"text/html": self.words, "text/plain": f"{self.title} (an interactive figure)"}
        return (data, *metadata) if metadata else data

    taken = {key for key, _ in values} & {*anywidget.AnyWidget.class_trait_names(), "title", "words", "data"}
    if taken:  # the notebook would take a `layout` of ours for its own
        raise ValueError(
            f"the widget {name}: a value cannot be called {', '.join(sorted(taken))}, ipywidgets uses that name"
        )
    fields = {key: kinds[kind]().tag(sync=True) for key, kind in values}
    fields |= {key: traitlets.Unicode().tag(sync=True) for key in ("title", "words")}
    fields |= {"data": traitlets.Dict().tag(sync=True), "_repr_mimebundle_": bundle}
    fields |= {"_esm": script(name), "_css": style(name), "__doc__": f"The widget {name}.", "__module__": __name__}
    return type(name, (anywidget.AnyWidget,), fields)


class InWords:
    """What stands for a widget where anywidget is not installed."""

    def __init__(self, title, words):
        self.title, self.words = title, words

    def _repr_html_(self):
        missing = f"{html.escape(self.title)}: to see it move, install anywidget (`pip install anywidget`)."
        return f"<p>{missing}</p>{self.words}"

    def __repr__(self):
        return f"{self.title} (to see it move: pip install anywidget)"
