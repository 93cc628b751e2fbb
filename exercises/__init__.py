"""Exercises that say which mistake was made: ``check(id, answer)`` judges, ``hint(id)`` helps one step at a time.

Needs NumPy alone, and runs in a notebook, a terminal and a browser. Each exercise is one file of this folder. Of the
others, `spec` says what such a file holds, `live` has blocks that predictions are scored on, and `certify` checks the
checks. `engine/` does the judging: its `checker` judges functions (`calls` calls them, `properties` looks at what they
return, `library` keeps existing answers out), `questions` judges values, `verdict` shows, `record` remembers.
"""

import builtins
import difflib
import importlib
import pkgutil
import sys
from pathlib import Path

from exercises.engine import record
from exercises.engine.verdict import NOT_YET, PASSED, STOPPED, UNKNOWN, Hint, Note, Verdict, kind_of

__all__ = ["Hint", "Note", "Verdict", "check", "export_progress", "hint", "ids", "import_progress", "learner", "load"]
__all__ += ["progress", "question", "solution"]

_NO_EXERCISE = {"certify", "live", "spec"}  # modules of this folder


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
    if verdict.status in (PASSED, NOT_YET):
        record.count(verdict.id, attempts=1, points=verdict.points)
    return _shown(verdict)


def hint(id, step=None):
    """The next hint for the exercise `id`, or the one numbered `step`; the last is nearly the solution."""
    if not _known(id):
        return _shown(_unknown(id))
    ladder = load(id).hints
    given = record.of(record.read(), id)["hints"]
    step = step if type(step) is int else given + 1
    step = min(max(step, 1), len(ladder))
    record.count(id, hints=max(step - given, 0))
    return _shown(Hint(ladder[step - 1], step, len(ladder)))


def question(id):
    """The question that an exercise asks of this learner, where each has numbers of their own; its choices or steps."""
    if not _known(id):
        return _shown(_unknown(id))
    from exercises.engine import questions

    return _shown(questions.asked(load(id), record.read()["learner"]))


def solution(id):
    """The solution of an exercise; it opens once you have tried."""
    if not _known(id):
        return _shown(_unknown(id))
    from exercises.engine import questions

    exercise = load(id)
    state = record.read()
    if _closed:
        return _shown(Note("Closed", ("In a problem set there are hints, and no solutions.",)))
    if not record.of(state, id)["attempts"]:
        lines = (f'Try first: one `check("{id}", …)` with an answer of yours opens it, right or wrong.',)
        return _shown(Note(f"Still closed: {exercise.title}", lines))
    return _shown(questions.solved(exercise, state["learner"]))


_closed = False  # whether solutions stay closed in this session


def learner(name, *, solutions=True):
    """Say who is learning: exercises with numbers then have this learner's. A problem set closes the solutions."""
    global _closed
    if not issubclass(type(name), str):
        line = f'This name is {kind_of(name)}; give it as text: `learner("Ada")`.'
        return _shown(Note("Nothing was changed", (line,)))
    _closed = not solutions
    record.write(record.read() | {"learner": name.strip()})
    return None


def progress():
    """Your points by chapter, with attempts and hints."""
    state, exercises = record.read(), [load(id) for id in ids()]
    points = sum(record.of(state, e.id)["points"] for e in exercises)
    whose = f" of {state['learner']}" if state["learner"] else ""
    heading = f"Progress{whose}: {points} of {sum(e.points for e in exercises)} points"
    damaged = record.set_aside()
    lines = (f"An earlier progress file was damaged; it was set aside as `{damaged}`.",) if damaged else ()
    return _shown(Note(heading, lines, tuple(record.table(state, exercises))))


def export_progress(file=None):
    """Write your progress to a file; without one, return it as text, to be kept anywhere."""
    text = record.to_text(record.read())
    if file is None:
        return text
    try:
        Path(file).write_text(text, encoding="utf-8")
    except (OSError, TypeError) as error:
        return _shown(Note("Nothing was written", (f"{error}",)))
    return _shown(Note(f"Progress written to {Path(file).name}"))


def import_progress(file):
    """Add progress from a file, or from the text that `export_progress` returned, to what is here; nothing is lost."""
    text = file if isinstance(file, str) and file.lstrip().startswith("{") else None
    try:
        other = record.parse(Path(file).read_text(encoding="utf-8") if text is None else text)
    except (OSError, TypeError, ValueError) as error:
        return _shown(Note("Nothing was imported", (f"{error}",)))
    record.write(record.merge(record.read(), other))
    return progress()


def ids():
    """The ids of all exercises, sorted."""
    modules = (m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg and m.name[0] != "_")
    return sorted(name.replace("_", "-") for name in modules if name not in _NO_EXERCISE)


def load(id):
    """The Exercise of this id."""
    return importlib.import_module(f"exercises.{id.replace('-', '_')}").exercise


def _judge(id, answer):
    if not _known(id):
        return _unknown(id)
    # here, so that an error in one of these is reported and not raised
    from exercises.engine import library
    from exercises.engine.checker import judge
    from exercises.engine.questions import judge_value
    from exercises.engine.verdict import not_yet
    from exercises.spec import Code

    exercise = load(id)
    if not isinstance(exercise, Code):
        return judge_value(exercise, answer, record.read()["learner"])
    taken = library.borrowed(exercise, answer)
    return not_yet(exercise, (taken,), helps=False) if taken else judge(exercise, answer)


def _known(id):
    return issubclass(type(id), str) and id in ids()


def _unknown(id):
    said = _text(id)
    if not issubclass(type(id), str):
        line = 'The id comes first, in quotes: `check("rmsnorm-backward", your_function)`.'
        return Verdict(said, UNKNOWN, "Which exercise?", (line,))
    close = [name for name in ids() if name == said.replace("_", "-").lower()]
    close = close or difflib.get_close_matches(said, ids(), n=3, cutoff=0.4)
    line = "Did you mean " if close else "There are "
    line += ", ".join(f'"{name}"' for name in close or ids())
    return Verdict(said, UNKNOWN, f'There is no exercise "{said}"', (f"{line}{'?' if close else '.'}",))


def _text(id):
    # not isinstance, which asks the object itself for its class: that may raise
    return id[:60] if issubclass(type(id), str) else type(id).__name__


def _shown(card):
    """The card, printed in a script, where no one shows the value of a line."""
    if hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1"):
        return card
    try:
        print(card)
    except UnicodeEncodeError:  # a terminal without ✓
        print(repr(card).encode("ascii", "replace").decode())
    return card
