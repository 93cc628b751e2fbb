"""Grades one submission: it is read in one box, each exercise is run in another, and judged here. Always a result."""

import hashlib
import hmac
import os
import stat
from pathlib import Path

from exercises import load
from exercises.engine.calls import describe_error
from exercises.engine.checker import judge
from exercises.engine.library import is_the_library
from exercises.engine.questions import judge_value
from exercises.engine.verdict import NOT_ATTEMPTED, PASSED, not_attempted, not_yet
from exercises.grade import closing
from exercises.grade.answer import Answer, Lost, how_it_ended, plain
from exercises.grade.boxes import BoxError
from exercises.grade.inside.sketch import BITS, MOST
from exercises.grade.inside.wire import Late, WireError, decode
from exercises.spec import Choice, Code, Number

LARGEST = 32_000_000  # bytes of a submission; a notebook full of pictures has a fifth of it
READING_SECONDS = 20.0
_READ_LIMIT = 1 << 23  # bytes of what the reader may say
MOST_WORDS = 5_000  # characters of an explanation
_FOUND = {"id", "metadata", "name", "position", ""}
_NO_EXERCISE = {"status": "missing", "found": "", "where": "", "line": "It was not found in this file."}


class Unreadable(Exception):
    """A file that holds no submission; the message says why."""


def grade(name, data, ids, secret, reader, runner):
    """The result of a submission, as a dict that JSON can hold. Never raises for what is in it.

    Parameters
    ----------
    name : what the submission is called; data : its bytes, or the Unreadable that says why there are none
    ids : the exercises; secret : the bytes that seeds are made of
    reader, runner : boxes; they are not used where there is no data
    """
    exercises = [load(id) for id in ids]
    result = {"submission": name, "digest": "", "learner": "", "status": "graded", "reason": "", "notes": []}
    try:
        if isinstance(data, Unreadable):
            raise data
        result["digest"] = hashlib.sha256(data).hexdigest()
        found = _read(name, data, exercises, reader)
        if found["error"]:
            raise Unreadable(found["error"])
        if all(one["status"] == "missing" for one in found["exercises"].values()):
            named = f" It names {', '.join(found['others'])}." if found["others"] else ""
            raise Unreadable(f"None of the exercises that are graded is in this file.{named}")
    except Unreadable as error:
        result |= {"status": "unreadable", "reason": str(error)}
        found = {"learner": "", "notes": [], "exercises": {}}
    result |= {"learner": found["learner"], "notes": found["notes"], "exercises": {}}
    for exercise in exercises:
        one = found["exercises"].get(exercise.id, _NO_EXERCISE)
        seed = _seed(secret, result["digest"], exercise.id)
        verdict, notes, sound = _verdict(exercise, one, found["learner"], seed, runner)
        result["exercises"][exercise.id] = _told(exercise, one, verdict, notes, sound)
    parts = result["exercises"].values()
    result |= {"points": sum(p["points"] for p in parts), "out_of": sum(p["out_of"] for p in parts)}
    if result["status"] == "graded":
        lost = [f"{id}: {p['reason']}" for id, p in result["exercises"].items() if p["points"] < p["out_of"]]
        result["reason"] = " ".join(lost) or "full marks"
    return result


def contents(path):
    """The bytes of a regular file of bearable size, or Unreadable. A link is not followed: it may lead anywhere."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return Unreadable("This is no ordinary file. Hand in the notebook itself.")
            if about.st_size > LARGEST:
                size, most = f"{about.st_size / 1e6:.0f} MB", f"{LARGEST / 1e6:.0f} MB"
                return Unreadable(f"The file has {size}, and at most {most} are read. Clear the outputs.")
            return file.read(LARGEST + 1)
    except OSError as error:
        if Path(path).is_symlink():
            return Unreadable("This is a link to another file, and links are not followed.")
        return Unreadable(f"The file could not be opened: {error.strerror}.")


def _read(name, data, exercises, reader):
    """What the reader found, its shape checked."""
    wanted = [
        {
            "id": e.id,
            "kind": type(e).__name__.lower(),
            "answer": e.answer,
            "args": list(getattr(e, "args", ())),
            "parts": [*(part.name for part in e.parts), "why"] if isinstance(e, Choice) else [],
        }
        for e in exercises
    ]
    try:
        with reader.process() as line:
            line.send({"name": name, "wanted": wanted}, (data,), READING_SECONDS)
            found, _ = line.receive(READING_SECONDS, _READ_LIMIT, _READ_LIMIT)
        return _checked(found, exercises)
    except Late:
        raise Unreadable(f"Reading the file took longer than {READING_SECONDS:g} seconds.") from None
    except EOFError:
        ended = "It needs more memory than there is for it." if reader.ended["ended"] == 77 else ""
        raise Unreadable(f"The file could not be read. {ended or 'It broke the reader.'}") from None
    except (WireError, KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable("The file could not be read: too much was found in it.") from None


def _checked(found, exercises):
    checked = {
        "error": plain(found["error"], 300),
        "notes": [plain(note, 300) for note in found.get("notes", [])[:20]],
        "learner": plain(found.get("learner", ""), 80),
        "others": [plain(id, 40) for id in found.get("others", [])[:10]],
        "exercises": {},
    }
    for exercise in exercises:
        one = found.get("exercises", {}).get(exercise.id)
        if one is None:
            continue
        if one["found"] not in _FOUND or one["status"] not in ("missing", "syntax", "stub", "literal", "run"):
            raise ValueError(one["status"])
        kept = {key: plain(one[key], 300) for key in ("found", "where", "status", "line")}
        if kept["status"] == "literal":
            kept["value"] = decode(one["value"])
        elif kept["status"] in ("stub", "run"):
            kept["program"] = [[str(label), int(first), str(source)] for label, first, source in one["program"]]
            kept["expression"] = str(one["expression"])
            for key in ("prints", "attributes", "mentions"):
                kept[key] = [str(item) for item in one[key]]
            kept["sketch"] = _numbers(one["sketch"])
        checked["exercises"][exercise.id] = kept
    return checked


def _numbers(sketch):
    if len(sketch) > MOST or not all(type(one) is int and 0 <= one < 1 << BITS for one in sketch):
        raise ValueError("no sketch")
    return sketch


def _seed(secret, digest, id):
    """Another one for each submission and exercise, which nobody can know who has not the secret."""
    return int.from_bytes(hmac.digest(secret, f"{digest} {id}".encode(), "sha256")[:8], "big") >> 1


def _verdict(exercise, one, learner, seed, runner):
    """(Verdict, notes, whether it is sound): False where the grader itself met an error."""
    if one["status"] == "missing":
        return not_attempted(exercise, one["line"]), [], True
    if one["status"] == "syntax":
        return not_yet(exercise, (one["line"],), helps=False), [], True
    notes = []
    try:
        if one["status"] == "literal":
            return _judged(exercise, one["value"], learner, seed), notes, True
        known = closing.fingerprints(exercise.library) if isinstance(exercise, Code) else {}
        copied = [known[one_print] for one_print in one["prints"] if one_print in known]
        if copied:
            return not_yet(exercise, (is_the_library(copied[0]),), helps=False), notes, True
        for last in (False, True):
            try:
                verdict, notes = _run(exercise, one, learner, seed, runner, several=not last)
                if verdict is not None:
                    return verdict, notes, True
            except Lost as lost:
                # a box that is lost may have been lost for other reasons than this code
                if last or runner.ended["clean"]:
                    return not_yet(exercise, (str(lost),), helps=False), notes, True
    except BoxError:
        raise
    except Exception as error:
        line = f"The check met {type(error).__name__} on looking at this answer, and cannot judge it."
        return not_yet(exercise, (line,), helps=False), notes, False


def _judged(exercise, value, learner, seed):
    if isinstance(exercise, Code):
        return judge(exercise, value, seed)
    return judge_value(exercise, value, learner)


def _run(exercise, one, learner, seed, runner, several):
    """(Verdict, notes) on what runs in a box; Lost if it ended before it said anything, or took its box with it.

    With `several` cases are run together, which is faster; no verdict if it was lost on one that cannot be told.
    """
    library = getattr(exercise, "library", ())
    modules, blob = closing.modules(library) if "scratch" in one["mentions"] else ({}, b"")
    with runner.process() as line:
        answer = Answer(exercise, runner, line, one, modules, blob, isinstance(exercise, Code), several)
        if answer.error is not None:
            if isinstance(answer.error, NotImplementedError):
                return not_attempted(exercise), answer.failed
            return not_yet(exercise, (describe_error(answer.error),), helps=False), answer.failed
        one["value"] = None if isinstance(exercise, Code) else answer.value
        verdict = _judged(exercise, answer.value, learner, seed)
    if answer.unsure:
        return None, []
    if answer.lost and not runner.ended["clean"]:
        raise Lost(how_it_ended(runner.ended))
    return verdict, answer.failed


def _told(exercise, one, verdict, notes, sound):
    """What is kept and shown of a verdict: no case, no expected value."""
    lines = [line for line in verdict.lines if line and not line.startswith("Smallest case")]
    passed = verdict.status == PASSED
    if passed and isinstance(exercise, Number):
        lines = []  # it repeats the answer
    if verdict.status == NOT_ATTEMPTED and one["status"] != "missing":
        lines = ["Not attempted."]
    # where cells failed, that is why, and the reason should say it
    reason = " ".join([*lines, verdict.diagnosis, *(notes[:1] if "raised" in " ".join(lines) else [])]).strip()
    return {
        "points": verdict.points,
        "out_of": exercise.points,
        "status": "missing" if one["status"] == "missing" else verdict.status,
        "found": one["found"],
        "where": one["where"],
        "reason": "" if passed else reason or "Not right.",
        "lines": lines,
        "diagnosis": verdict.diagnosis,
        "notes": [] if passed else notes,
        "sound": sound,
        "words": _words(exercise, one.get("value")),
        "sketch": one.get("sketch", []),
    }


def _words(exercise, value):
    """The explanation in an answer that asks for one, for a person to read."""
    why = value.get("why") if isinstance(exercise, Choice) and exercise.words and isinstance(value, dict) else None
    return plain(why, MOST_WORDS) if isinstance(why, str) else ""
