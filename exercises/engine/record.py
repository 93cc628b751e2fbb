"""Keeps what a learner has achieved in one small file, and shows it chapter by chapter.

The file is `.transformer-block-progress.json` in the home folder. The environment variable
TRANSFORMER_BLOCK_PROGRESS names another one; set but empty, nothing is kept.
"""

import copy
import json
import os
import tempfile
from pathlib import Path

VERSION = 1
_COUNTS = ("attempts", "hints", "points")
_unwritten = {}  # path -> the state that could not be written there; of this session


class ProgressError(ValueError):
    """A progress file that is none."""


def path():
    """Where progress is kept; None if nowhere."""
    named = os.environ.get("TRANSFORMER_BLOCK_PROGRESS")
    if named is None:
        return Path.home() / ".transformer-block-progress.json"
    return Path(named) if named else None


def read():
    """The state: {"version", "learner", "exercises": {id: {"attempts", "hints", "points"}}}."""
    place = path()
    if place in _unwritten:
        return copy.deepcopy(_unwritten[place])
    if place is None or not place.exists():
        return _fresh()
    try:
        return parse(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # a damaged file is set aside, not lost and not in the way
        try:
            place.replace(place.with_suffix(".damaged.json"))
        except OSError:
            pass
        return _fresh()


def set_aside():
    """The name of a damaged file that was set aside, or ""."""
    place = path()
    damaged = place.with_suffix(".damaged.json") if place else None
    return damaged.name if damaged and damaged.exists() else ""


def parse(text):
    """The state that a text holds; ProgressError says what is wrong with it."""
    try:
        state = json.loads(text)
    except ValueError as error:
        raise ProgressError(f"progress: not a progress file: {error}") from None
    if not isinstance(state, dict) or state.get("version") != VERSION:
        found = state.get("version") if isinstance(state, dict) else type(state).__name__
        raise ProgressError(f"progress: version is {found!r}, expected {VERSION}")
    done = state.get("exercises")
    if not isinstance(done, dict) or not all(_is_record(record) for record in done.values()):
        raise ProgressError("progress: `exercises` is damaged, expected whole numbers for each id")
    learner = state.get("learner", "")
    return {"version": VERSION, "learner": learner if isinstance(learner, str) else "", "exercises": done}


def _is_record(record):
    return isinstance(record, dict) and all(type(record.get(name, 0)) is int for name in _COUNTS)


def _fresh():
    return {"version": VERSION, "learner": "", "exercises": {}}


def write(state):
    """Keep the state, whole or not at all; where it cannot be written it lasts as long as this session."""
    place = path()
    try:
        if place is None:
            raise OSError
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=place.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(to_text(state))
        os.replace(name, place)
        _unwritten.pop(place, None)
    except OSError:
        _unwritten[place] = copy.deepcopy(state)


def to_text(state):
    """The state as it stands in the file."""
    return json.dumps(state, indent=1, sort_keys=True) + "\n"


def of(state, id):
    """What is known of one exercise."""
    return {name: state["exercises"].get(id, {}).get(name, 0) for name in _COUNTS}


def count(id, **added):
    """Add to the counts of one exercise; of points the most is kept."""
    state = read()
    record = of(state, id)
    for name, value in added.items():
        record[name] = max(record[name], value) if name == "points" else record[name] + value
    state["exercises"][id] = record
    write(state)


def merge(state, other):
    """Two states in one: of every count the larger."""
    ids = {*state["exercises"], *other["exercises"]}
    done = {id: {n: max(of(state, id)[n], of(other, id)[n]) for n in _COUNTS} for id in sorted(ids)}
    return {"version": VERSION, "learner": state["learner"] or other["learner"], "exercises": done}


def table(state, exercises):
    """Lines that show points by chapter, then each exercise."""
    chapters = {}
    for exercise in exercises:
        chapters.setdefault(exercise.chapter, []).append(exercise)
    lines = []
    for chapter, members in sorted(chapters.items()):
        points = sum(of(state, e.id)["points"] for e in members)
        number, _, name = chapter.partition("_")
        total = sum(e.points for e in members)
        lines.append(f"Chapter {int(number)}, {name.replace('_', ' ')}: {points} of {total} points")
        for exercise in members:
            record = of(state, exercise.id)
            mark = "✓" if record["points"] else "·" if record["attempts"] else "○"
            tried = f", {_times(record['attempts'], 'attempt')}" if record["attempts"] else ""
            helped = f", {_times(record['hints'], 'hint')}" if record["hints"] else ""
            stars = "★" * exercise.stars
            lines.append(f"  {mark} {exercise.id} {stars} {record['points']}/{exercise.points}{tried}{helped}")
    return lines


def _times(count, what):
    return f"{count} {what}{'s' * (count != 1)}"
