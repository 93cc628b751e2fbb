"""What a learner sees: a Verdict or a Hint, as plain text in a terminal and as a small card in a notebook."""

import html
import re
from dataclasses import dataclass, field

PASSED, NOT_YET, NOT_ATTEMPTED, STOPPED, UNKNOWN = "passed", "not yet", "not attempted", "stopped", "unknown"

_MARK = {PASSED: "✓", NOT_YET: "✗", NOT_ATTEMPTED: "○", STOPPED: "■", UNKNOWN: "?", "hint": "→", "note": "•"}
# one mid-tone each, readable as a border on a light and on a dark page; the words say the same as the colour
_COLOUR = {PASSED: "#2e9e5b", NOT_YET: "#d9822b", "hint": "#3b82c4", "note": "#3b82c4"}


class _Card:
    """A heading, some lines and perhaps a table, shown as text or as HTML."""

    def _parts(self):
        """(kind, heading, lines, table, closing lines)"""
        raise NotImplementedError

    def __repr__(self):
        kind, heading, lines, table, closing = self._parts()
        rows = [f"{_MARK[kind]} {heading}", *(f"  {line}" for line in lines)]
        rows += [f"    {row}" for row in table]
        return "\n".join([*rows, *(f"  {line}" for line in closing)])

    def _repr_html_(self):
        kind, heading, lines, table, closing = self._parts()
        body = "".join(_line(line) for line in lines)
        if table:
            # colours of the page's own, so that the table is readable on a dark one too
            style = "margin:.4em 0;padding:0;border:0;background:none;color:inherit;overflow-x:auto"
            rows = html.escape("\n".join(table))
            body += f'<pre style="{style}">{rows}</pre>'
        body += "".join(f"<div>{_inline(line)}</div>" for line in closing)
        border = _COLOUR.get(kind, "#8a8f98")
        return (
            f'<div role="status" style="border-left:4px solid {border};padding:.3em .8em;margin:.3em 0">'
            f"<strong>{_MARK[kind]} {_inline(heading)}</strong>{body}</div>"
        )


def _line(text):
    """A line of the card; an item of a list is set in, and what it belongs to set apart."""
    style = "padding-left:1.2em" if text.startswith("– ") else "margin-top:.5em" if text.startswith("`") else ""
    return f'<div style="{style}">{_inline(text)}</div>' if style else f"<div>{_inline(text)}</div>"


def kind_of(value):
    """What a value is, in words: "an int", "a list"."""
    name = type(value).__name__
    return f"a{'n' if name[0].lower() in 'aeio' else ''} {name}"


def _inline(text):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


@dataclass(frozen=True, repr=False)
class Verdict(_Card):
    """The judgement of one answer; true when it passed.

    Attributes
    ----------
    id : str; status : "passed", "not yet", "not attempted", "stopped" or "unknown"
    heading : str; lines : tuple of str, what was found; table : tuple of str, expected and got
    diagnosis : str, the sentence of the known mistake that gives the same numbers; "" if none does
    advice : str, what to do next
    points, out_of : int
    case : dict, the inputs of the smallest failing case by name, if it is small enough to show
    """

    id: str
    status: str
    heading: str
    lines: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    diagnosis: str = ""
    advice: str = ""
    points: int = 0
    out_of: int = 0
    case: dict = field(default_factory=dict)

    def __bool__(self):
        return self.status == PASSED

    def _parts(self):
        closing = [line for line in (self.diagnosis, self.advice) if line]
        return self.status, self.heading, self.lines, self.table, closing


def not_attempted(exercise, line=""):
    """The verdict on an empty stub."""
    line = line or "Put your code where the `...` stand, run that cell, and check again."
    heading, advice = f"Not attempted: {exercise.title}", _help(exercise)
    return Verdict(exercise.id, NOT_ATTEMPTED, heading, (line,), advice=advice, out_of=exercise.points)


def not_yet(exercise, lines, diagnosis="", helps=True, status=NOT_YET, **rest):
    """The verdict on an answer that is not right; where nothing says what went wrong, it offers a hint."""
    heading = f"{'Stopped' if status == STOPPED else 'Not yet'}: {exercise.title}"
    advice = _help(exercise) if helps and not diagnosis and status == NOT_YET else ""
    about = {"diagnosis": diagnosis, "advice": advice, "out_of": exercise.points}
    return Verdict(exercise.id, status, heading, tuple(lines), **about, **rest)


def passed(exercise, lines):
    """The verdict on a right answer."""
    worth = f"{exercise.points} point{'s' * (exercise.points != 1)}"
    lines = (*lines, *([exercise.takeaway] if exercise.takeaway else []))
    heading = f"Passed: {exercise.title} ({worth})"
    return Verdict(exercise.id, PASSED, heading, lines, points=exercise.points, out_of=exercise.points)


def _help(exercise):
    return f'`hint("{exercise.id}")` gives a hint.'


@dataclass(frozen=True, repr=False)
class Hint(_Card):
    """One step of an exercise's hint ladder: `step` of `steps`."""

    text: str
    step: int
    steps: int

    def _parts(self):
        return "hint", f"Hint {self.step} of {self.steps}", self.text.splitlines(), (), ()


@dataclass(frozen=True, repr=False)
class Note(_Card):
    """Anything else that is said: a question, a solution, one's progress."""

    heading: str
    lines: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()

    def _parts(self):
        return "note", self.heading, self.lines, self.table, self.closing
