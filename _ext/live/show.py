"""What a running cell shows: text as it comes, values, figures with a description, errors at the reader's own line."""

import base64
import contextlib
import io
import sys
import time
import traceback
import types

LIMIT = 200_000  # characters of one run: an endless loop must not fill the page
BURST = 50  # messages a second; further text is sent together
DOTS = 2  # of a figure for each pixel of the page's


class Output:
    """Sends what the asked cell shows; what the cells before it show is dropped."""

    def __init__(self, emit):
        self._emit, self._asked, self._alt, self._left = emit, False, "", 0
        self._streams = {name: Stream(self, name) for name in ("stdout", "stderr")}

    @contextlib.contextmanager
    def of(self, asked, alt=""):
        """Everything shown inside belongs to one cell; `alt` describes the book's figure of it."""
        self._asked, self._alt, self._left = asked, alt, LIMIT
        out, err = self._streams.values()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                yield
            finally:
                self.flush()
                self.close_figures()

    def flush(self):
        """Send the text that waits."""
        for stream in self._streams.values():
            stream.flush()

    def text(self, stream, text):
        """Send some text, up to the limit."""
        if not self._asked or not self._left:
            return
        cut, self._left = text[: self._left], max(0, self._left - len(text))
        self._emit({"kind": "text", "stream": stream, "text": cut})
        if not self._left:
            self._emit({"kind": "text", "stream": "stderr", "text": "\n… more than the page can show was left out.\n"})

    def display(self, *values, **options):
        """Show values before the cell ends."""
        for value in values:
            self.value(value)

    def value(self, value):
        """Show a value as a notebook does."""
        self.flush()
        if value is None or not self._asked:
            return
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot and isinstance(value, pyplot.Figure):
            if value.number in pyplot.get_fignums():  # else it is shown when the cell ends
                self._figure(value)
                pyplot.close(value)
            return
        html = getattr(value, "_repr_html_", None)
        if callable(html) and not isinstance(value, type) and (card := html()):
            self._emit({"kind": "html", "html": card})
        else:
            self.text("value", f"{value!r}\n")

    def clear(self, wait=False):
        """Take away what was shown."""
        self.flush()
        self._emit({"kind": "clear"})

    def figures(self):
        """Show the figures that are open."""
        self.flush()
        pyplot = sys.modules.get("matplotlib.pyplot")
        for number in pyplot.get_fignums() if pyplot and self._asked else ():
            self._figure(pyplot.figure(number))
        self.close_figures()

    def close_figures(self):
        """Forget the figures, so that the next cell shows its own alone."""
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close("all")

    def _figure(self, figure):
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=96 * DOTS, bbox_inches="tight")
        data = file.getvalue()
        width, height = (int.from_bytes(data[at : at + 4], "big") / DOTS for at in (16, 20))
        alt, self._alt = self._alt or describe(figure), ""
        source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        self._emit({"kind": "figure", "src": source, "alt": alt, "width": width, "height": height})


class Stream(io.TextIOBase):
    """A text stream whose text is sent at once, but for floods."""

    def __init__(self, output, name):
        self._output, self._name, self._waiting = output, name, []
        self._second, self._sent = 0.0, 0

    def writable(self):
        """It is for writing."""
        return True

    def write(self, text):
        """Send text, or keep it for the next message where there were many this second."""
        self._waiting.append(text)
        now = time.monotonic()
        if now - self._second > 1:
            self._second, self._sent = now, 0
        if self._sent < BURST or sum(map(len, self._waiting[-1:])) > 10_000 or len(self._waiting) > 1000:
            self.flush()
        return len(text)

    def flush(self):
        """Send what waits."""
        if self._waiting:
            text, self._waiting = "".join(self._waiting), []
            self._sent += 1
            self._output.text(self._name, text)


def describe(figure):
    """A figure in words: the titles, the axes' labels, and how much is drawn."""
    parts = []
    for axes in figure.axes:
        drawn = {"line": axes.lines, "image": axes.images, "bar": axes.patches, "group of points": axes.collections}
        counts = [f"{len(them)} {what}{'s' * (len(them) != 1)}" for what, them in drawn.items() if len(them)]
        labels = [f"{name}: {text}" for name, text in (("x", axes.get_xlabel()), ("y", axes.get_ylabel())) if text]
        title = axes.get_title() or axes.get_title("left")
        parts.append("; ".join([title] * bool(title) + labels + [", ".join(counts) or "nothing drawn"]))
    return f"Plot. {'. '.join(parts)}."


def error(error, prefix):
    """What went wrong, in the reader's own lines alone: the library's frames would hide them."""
    said = traceback.TracebackException.from_exception(error)
    place = _trim(said, prefix)
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(prefix):
        place = (error.filename, error.lineno)
    title, line = place or ("", None)
    return {"kind": "error", "text": "".join(said.format()), "cell": title[len(prefix) : -1], "line": line}


def _trim(said, prefix):
    """Leave the frames of cells, in what caused the error, too; return where the last one is."""
    for other in (said.__cause__, said.__context__):
        if other is not None:
            _trim(other, prefix)
    own = [frame for frame in said.stack if frame.filename.startswith(prefix)]
    said.stack = traceback.StackSummary.from_list(own) if own else None
    return (own[-1].filename, own[-1].lineno) if own else None


class _HTML:
    """IPython.display.HTML, as far as it is shown here."""

    def __init__(self, data):
        self.data = data

    def _repr_html_(self):
        return self.data


def stand_in_for_ipython(output):
    """What notebooks import from IPython, without IPython."""
    module = types.ModuleType("IPython.display")
    module.display, module.clear_output, module.HTML = output.display, output.clear, _HTML
    package = types.ModuleType("IPython")
    package.display, package.get_ipython = module, lambda: None
    sys.modules |= {"IPython": package, "IPython.display": module}
