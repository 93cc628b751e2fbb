"""Grades one submission in Gradescope's container, and says it in the form that Gradescope reads.

python -m exercises.grade.autograder.container prepare /autograder    once, when the image is built
python -m exercises.grade.autograder.container grade /autograder      for each submission

The folder and its files are those of https://gradescope-autograders.readthedocs.io/en/latest/specs/. What is printed
is for the instructor alone: Gradescope keeps it, and shows it to no learner where stdout_visibility is "hidden".
"""

import argparse
import contextlib
import json
import re
import shutil
import sys
import time
import traceback
import unicodedata
from pathlib import Path

from exercises import load
from exercises.grade import boxes, report, room, run, submission
from exercises.grade.specs import SpecError, add_specs
from exercises.spec import Number

NOTEBOOKS = (".ipynb", ".md", ".py")  # of files that name no exercise, the one to read; of twins, the one to take
_MOST_NAMES = 20
_FAILED = (
    "The grader could not do its work, and nothing in yours was judged. This is not your fault: please tell your "
    "instructor."
)


# ---- which file ----


def chosen(folder, ids):
    """(the file that counts, the others, why there is none): of all files below a folder, as relative paths.

    It is the one that names most of the exercises `ids` in a `check`; among equals the notebook, as some keep its text
    form beside it. "" if there is none, or if more than one could be meant.
    """
    names = run.submissions(folder)
    counts = {name: len(set(run.named(folder, [name])[0]) & set(ids)) for name in names}
    most = max(counts.values(), default=0)
    best = [name for name in names if counts[name] == most and (most or name.lower().endswith(NOTEBOOKS))]
    for ending in NOTEBOOKS:
        if len(best) > 1:
            best = [name for name in best if name.lower().endswith(ending)] or best
    if not most and len(names) == 1:
        best = names  # whatever it is, the grader says why it cannot be read
    name = best[0] if len({submission.contents(Path(folder, name)) for name in best}) == 1 else ""
    why = ""
    if not best:
        what = f"what you handed in: {_list(names)}" if names else "what you handed in, which is nothing"
        why = f"There is no notebook in {what}. Hand in the notebook of the problem set, the .ipynb file."
    elif not name:
        why = f"Several files could be your notebook: {_list(best)}. Hand in the one that is to be graded, alone."
    return name, [other for other in names if other != name], why


def _list(names):
    shown = [run.printable(name) for name in names[:_MOST_NAMES]]
    return ", ".join([*shown, f"and {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else shown)


# ---- whose it is ----


def people(file):
    """[{"name": …, "email": …}]: who handed it in, of Gradescope's submission_metadata.json; [] if it does not say.

    https://gradescope-autograders.readthedocs.io/en/latest/submission_metadata/
    """
    try:
        users = json.loads(Path(file).read_text(encoding="utf-8"))["users"]
        return [{key: str(user.get(key) or "") for key in ("name", "email")} for user in users]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def is_of(learner, users):
    """Does the name in a notebook stand for one of these people? By name, in any order, or by address."""
    claimed = _words(learner)
    return bool(learner) and any(
        claimed in (_words(user["name"]), _words(user["email"]), _words(user["email"].partition("@")[0]))
        for user in users
    )


def _words(text):
    """The words of a name, whatever their order, their case and their accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return frozenset(re.findall(r"\w+", plain.casefold())) or text


# ---- what Gradescope reads ----


def results(result, others=()):
    """The content of results.json for a result: what `report.as_markdown` shows, an exercise a test."""
    tests = []
    for number, (id, part) in enumerate(result["exercises"].items(), start=1):
        _, lines, way = report.told(id, part)
        text = [report.escaped(line) for line in lines] + ([f"*{way}*"] if way else [])
        tests.append(
            {
                "name": load(id).title,
                "number": str(number),
                "score": part["points"],
                "max_score": part["out_of"],
                "status": "passed" if part["status"] == "passed" else "failed",
                "output": "\n\n".join(text),
                "output_format": "md",
                "visibility": "visible",
            }
        )
    front = report.front(result)
    if others:
        front.append(f"Graded: {result['submission']}. Not graded: {_list(others)}.")
    told = _told(result["points"], "\n\n".join(report.escaped(line) for line in front))
    return told | {"tests": tests if result["status"] == "graded" else []}


def _told(score, output):
    """What every results.json has. No test is hidden: a learner would then see no total."""
    shown = {"output": output, "output_format": "md", "visibility": "visible", "stdout_visibility": "hidden"}
    return {"score": score, **shown, "extra_data": {}, "tests": []}


# ---- the work ----


@contextlib.contextmanager
def held_in(place, limits):
    """(reader, runner), boxes in the room at `place`; Refusal if nothing can hold them in."""
    reading = boxes.Limits(submission.READING_SECONDS, limits.memory)  # the container's own limit would end all of it
    with run.prepared("auto", limits, place) as (way, place, filter_, uid):
        print(boxes.guarantee(way, bool(filter_)))
        with boxes.Box("reader", way, place, reading, filter_, uid) as reader:
            with boxes.Box("runner", way, place, limits, filter_, uid and uid + 1) as runner:
                yield reader, runner


def _settings(base):
    settings = json.loads((base / "source" / "settings.json").read_text(encoding="utf-8"))
    return settings, boxes.Limits(settings["seconds"], settings["memory"] * boxes.MIB)


def prepare(base):
    """Build the room once, into the image, and say how it holds code in here."""
    _, limits = _settings(base)
    shutil.rmtree(base / "room", ignore_errors=True)
    room.build(base / "room")
    try:
        with held_in(base / "room", limits) as (reader, runner):
            reader.start()
            runner.start()
    except (run.Refusal, boxes.BoxError) as error:
        print(f"WARNING: while the image is built, {error}")  # where it runs, more may be allowed


def grade(base):
    """The content of results.json for what lies in `submission`; prints what an instructor should know."""
    settings, limits = _settings(base)
    if (base / "source" / "specs").is_dir():
        add_specs(base / "source" / "specs")
    users = people(base / "submission_metadata.json")
    name, others, why = chosen(base / "submission", settings["exercises"])
    if not name:
        print(why)
        return _told(0, report.escaped(why))
    with held_in(base / "room", limits) as (reader, runner):
        data = submission.contents(base / "submission" / name)
        secret = settings["secret"].encode()
        result = submission.grade(run.printable(name), data, settings["exercises"], secret, reader, runner)
    for line in _to_look_at(result, users):
        print(f"LOOK AT: {line}")
    print(f"{settings['title']}: {result['submission']}: {report.heading(result)}. {result['reason']}")
    about = {"submission": result["submission"], "digest": result["digest"], "learner": result["learner"]}
    about["is_of_the_submitter"] = is_of(result["learner"], users) if result["learner"] and users else None
    return results(result, others) | {"extra_data": about}


def _to_look_at(result, users):
    """What a person should look at, a line for each."""
    parts = result["exercises"]
    whose = ", ".join(f"{user['name']} <{user['email']}>" for user in users) or "somebody whom Gradescope does not name"
    if result["learner"] and not is_of(result["learner"], users):
        yield f"the name in the notebook is {result['learner']!r}; it was handed in by {whose}"
    elif not result["learner"] and any(isinstance(load(id), Number) for id in parts):
        yield f"no name in the notebook, so its numbers are nobody's own; it was handed in by {whose}"
    for id, part in parts.items():
        if part["found"] == "position":
            yield f"{id} was found by its place alone, {part['where']}: is it the right cell?"
        if not part["sound"]:
            yield f"{id} could not be judged: please do it by hand. {part['reason']}"


def main(arguments=None):
    """Do one of the two; for `grade` there is a results.json in the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "grade"))
    parser.add_argument("base", type=Path, help="/autograder")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    if options.what == "prepare":
        prepare(options.base)
        return
    try:
        told = grade(options.base)
    except (run.Refusal, boxes.BoxError, SpecError) as error:
        print(f"error: {error}")
        told = _told(0, _FAILED)
    except Exception:  # the instructor gets what is needed to mend it, and the learner a sentence
        traceback.print_exc(file=sys.stdout)
        told = _told(0, _FAILED)
    told["execution_time"] = round(time.monotonic() - start, 3)
    run.write(options.base / "results" / "results.json", json.dumps(told, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
