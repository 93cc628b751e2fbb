"""What a learner gets back for an assignment: the page of what counts, with what people gave and how late it came."""

import math
import re

import exercises
from exercises.grade import marks, report, run


def page_name(learner):
    """The name of a learner's page, without its ending: the id, where that can be the name of a file everywhere."""
    if re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,60}[A-Za-z0-9])?", learner.id):
        return learner.id
    return report.file_name(learner.id, run.hashed(learner.id))


def write(folder, row, result, assignment, marked, due):
    """Write a learner's page; return the names of its files."""
    shown = _shown(row, result, assignment, marked, due)
    name = page_name(row.learner)
    run.write(folder / f"{name}.md", report.as_markdown(shown))
    run.write(folder / f"{name}.html", report.as_html(shown))
    return {f"{name}.md", f"{name}.html"}


def _shown(row, result, assignment, marked, due):
    """The result as the learner gets it back: with what people gave, and how late it came."""
    front = []
    if row.submission:
        which = f"Attempt {row.attempt} of {row.attempts} counts: " if row.attempts > 1 else ""
        when = f", received {row.received:%Y-%m-%d %H:%M %Z}" if row.received else ""
        until = f"; due {due:%Y-%m-%d %H:%M %Z}" if due else ""
        front.append(f"{which}{row.submission.rpartition('/')[2]}{when}{until}.")
    else:
        front.append("Nothing was handed in.")
    if row.status == "unreadable":
        front.append(result["reason"])
    if row.late:
        lost = (
            "nothing counts any more"
            if row.status == "too late"
            else f"{report.many(report.number(row.penalty), 'point')} off"
        )
        front.append(f"It came {_span(row.late)} late: {lost}.")
    more = round(row.earned - sum(row.parts.values()), 4)
    if more:
        gave = (
            f"a person gave {report.many(report.number(more), 'point')}"
            if more > 0
            else f"a person took {report.many(report.number(-more), 'point')} off"
        )
        front.append(f"For the whole, {gave}.")
    front += [text for id, text in row.comments if not id]
    parts = {}
    for id, points in row.parts.items():
        part = result["exercises"][id] if result else {}
        given, said, _ = marked.of(row.learner.id, id, marks.text_of(part.get("words", "")))
        if given is None and row.status == "unreadable":
            continue
        parts[id] = _marked_part(id, part, points, given is not None, said)
    shown = {"submission": f"{assignment.title}: {row.learner.name}", "status": "graded", "reason": ""}
    shown |= {"learner": result["learner"] if result else "", "exercises": parts}
    shown |= {"notes": [*front, *(result["notes"] if result else [])]}
    return shown | {"points": row.points, "out_of": row.out_of}


def _marked_part(id, part, points, by_person, comments):
    """What is shown of an exercise, with what a person gave and said."""
    out_of = exercises.load(id).points
    part = {"lines": [], "diagnosis": "", "notes": [], "found": "", "where": "", "status": ""} | part
    said = ["A person gave these points.", *comments] if by_person else list(comments)
    status = part["status"]
    if by_person and status in ("missing", "not attempted"):
        part |= {"lines": []}
    if by_person:
        status = "passed" if points == out_of else "marked"
    return part | {"points": points, "out_of": out_of, "status": status, "lines": [*said, *part["lines"]]}


def _span(late):
    """A length of time in words."""
    minutes = math.ceil(late.total_seconds() / 60)
    pairs = [(minutes // 1440, "day"), (minutes // 60 % 24, "hour"), (minutes % 60, "minute")]
    return " ".join([report.many(count, what) for count, what in pairs if count][:2])
