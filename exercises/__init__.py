"""Exercises that say which mistake was made: ``check(id, answer)`` judges, ``hint(id)`` helps one step at a time.

Needs NumPy alone, and runs in a notebook, a terminal and a browser. Each exercise is one file of this folder. Of the
others, `spec` says what an exercise's file holds, `calls` calls an answer, `properties` looks at what it returned,
`checker` makes the verdict, and `verdict` shows it.
"""

import builtins
import difflib
import importlib
import pkgutil
import sys

from exercises.verdict import NOT_YET, STOPPED, UNKNOWN, Hint, Verdict

__all__ = ["Hint", "Verdict", "check", "hint", "ids", "load"]

_ENGINE = {"calls", "checker", "properties", "spec", "verdict"}  # the modules here that are no exercise


def check(id, answer=None):
    """Judge an answer to the exercise `id`; never raises, and changes nothing that it is given.

    Parameters
    ----------
    id : str, from the exercise's prompt
    answer : what the prompt asks for, mostly a function; the function itself, not what it returns

    Returns
    -------
    Verdict, which a notebook and an interactive Python show by themselves; a script's is printed here
    """
    try:
        verdict = _judge(id, answer)
    except KeyboardInterrupt:
        verdict = Verdict(_text(id), STOPPED, "Stopped", ("You interrupted the check, so nothing was judged.",))
    except BaseException as error:  # an answer may do anything: raise on being looked at, called, compared or printed
        line = f"The check met {type(error).__name__} on looking at this answer, and cannot judge it."
        verdict = Verdict(_text(id), NOT_YET, "Not yet", (line,), advice="Pass the function that the prompt asks for.")
    _print_in_a_script(verdict)
    return verdict


def hint(id, step=None):
    """The next hint for the exercise `id`, or the one numbered `step`; the last is nearly the solution."""
    if not _known(id):
        shown = _unknown(id)
    else:
        ladder = load(id).hints
        step = _given.get(id, 0) + 1 if step is None else step
        step = min(max(int(step), 1), len(ladder))
        _given[id] = max(step, _given.get(id, 0))
        shown = Hint(ladder[step - 1], step, len(ladder))
    _print_in_a_script(shown)
    return shown


_given = {}  # id -> how many hints this session has seen


def ids():
    """The ids of all exercises, sorted."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if m.name not in _ENGINE)


def load(id):
    """The Exercise of this id."""
    return importlib.import_module(f"exercises.{id.replace('-', '_')}").exercise


def _judge(id, answer):
    if not _known(id):
        return _unknown(id)
    from exercises.checker import judge  # here, so that an error in it is reported and not raised

    return judge(load(id), answer)


def _known(id):
    return issubclass(type(id), str) and id in ids()


def _unknown(id):
    said = _text(id)
    close = difflib.get_close_matches(said, ids(), n=3, cutoff=0.4)
    line = "Did you mean " if close else "There are "
    line += ", ".join(f'"{name}"' for name in close or ids())
    return Verdict(said, UNKNOWN, f'There is no exercise "{said}"', (f"{line}{'?' if close else '.'}",))


def _text(id):
    # not isinstance, which asks the object itself for its class: that may raise
    return id[:60] if issubclass(type(id), str) else type(id).__name__


def _print_in_a_script(card):
    if hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1"):
        return  # shown as the value of the last line
    try:
        print(card)
    except UnicodeEncodeError:  # a terminal without ✓
        print(repr(card).encode("ascii", "replace").decode())
