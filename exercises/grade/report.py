"""What people read: a table of grades for the instructor, a page for each learner."""

import csv
import html
import io
import re
import statistics
import unicodedata

import exercises
from exercises.grade.specs import of_the_course
from exercises.spec import Number

WAYS = {
    "id": "found by its `check`",
    "metadata": "found by the cell's mark; its `check` is gone",
    "name": "found by its name; its `check` is gone",
    "position": "found by its place among the others; please look whether it is the right one",
}
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ max-width: 44em; margin: 2em auto; padding: 0 1em; font: 1rem/1.5 system-ui, sans-serif; }}
body {{ overflow-wrap: anywhere; }}
h1, h2 {{ line-height: 1.25; }}
h2 {{ font-size: 1.1rem; margin: 1.6em 0 .3em; }}
.points {{ font-size: 1.4rem; }}
.way {{ opacity: .75; font-size: .9rem; }}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def file_name(name, hashed):
    """A name for the files of a submission: what is harmless of its own, and what tells it from all others."""
    stem = unicodedata.normalize("NFKD", name.rpartition(".")[0] or name)
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', stem).strip('-')[:40] or 'submission'}-{hashed[:8]}"


# ---- the instructor's ----


def table(ids, results):
    """grades.csv: a row for each submission, then the points of each exercise."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["submission", "learner", "points", "out_of", "status", "reason", *ids])
    for result in results:
        parts = result["exercises"]
        points = [number(parts[id]["points"]) for id in ids]
        texts = [cell(result[key]) for key in ("submission", "learner")]
        totals = [number(result["points"]), number(result["out_of"])]
        rows.writerow([*texts, *totals, result["status"], cell(result["reason"]), *points])
    return file.getvalue()


def cell(text):
    """A text on one line that no spreadsheet takes for a formula."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return f"'{text}" if text.lstrip()[:1] in tuple("=+-@＝＋－＠") else text


def many(count, what):
    """ "1 file", "2 files"."""
    return f"{count} {what}{'s' * (count != 1)}"


def number(value):
    """Points without a needless `.0`."""
    return int(value) if float(value).is_integer() else value


class Counts:
    """What the results of a class come to, and the submissions that a person should look at."""

    def __init__(self, ids, left_out):
        self.graded, self.points, self.left_out = 0, [], left_out
        self.numbers = any(isinstance(exercises.load(id), Number) for id in ids)
        self.learners, self.files, self.nameless = {}, {}, []
        self.unreadable, self.unsound, self.guessed = [], [], []
        self.by_exercise = {id: {"passed": 0, "not yet": 0, "not attempted": 0} for id in ids}

    def add(self, result):
        """Count one result, and give it back."""
        name, parts = result["submission"], result["exercises"]
        if result["status"] == "unreadable":
            self.unreadable.append(name)
            return result
        self.graded += 1
        self.points.append(result["points"])
        self.files.setdefault(result["digest"], []).append(name)
        if result["learner"]:
            self.learners.setdefault(result["learner"], []).append(name)
        elif self.numbers:
            self.nameless.append(name)
        for id, part in parts.items():
            status = {"missing": "not attempted", "stopped": "not yet"}.get(part["status"], part["status"])
            self.by_exercise[id][status] += 1
        self.unsound += [f"{name}: {id}" for id, part in parts.items() if not part["sound"]]
        self.guessed += [f"{name}: {id}, {part['where']}" for id, part in parts.items() if part["found"] == "position"]
        return result


def summary(counts, guarantee):
    """report.md: what the class got, what to look at, and how the code was held in."""
    rows = ["# Report", "", f"{counts.graded + len(counts.unreadable)} submissions, {counts.graded} graded."]
    if counts.points:
        rows[-1] += f" The median has {number(statistics.median(counts.points))} points."
    rows += ["", "| exercise | passed | not yet | not attempted |", "|---|---|---|---|"]
    for id, found in counts.by_exercise.items():
        rows.append(f"| {exercises.load(id).title} | {' | '.join(map(str, found.values()))} |")
    lists = {
        "Not graded, as fewer than half of the submissions name them": [
            f"{i}: {n}" for i, n in counts.left_out.items()
        ],
        "Could not be read": counts.unreadable,
        "Found by its place alone: is it the right cell?": counts.guessed,
        "Could not be judged: please do it by hand": counts.unsound,
        "One learner's name in several files": [
            f"{who}: {', '.join(o)}" for who, o in counts.learners.items() if len(o) > 1
        ],
        "Without a learner's name: their numbers are nobody's own": counts.nameless,
        "The same file, byte for byte": [", ".join(names) for names in counts.files.values() if len(names) > 1],
    }
    for heading, names in lists.items():
        if names:
            rows += ["", f"## {heading}", "", *(f"- {escaped(name)}" for name in names)]
    return "\n".join([*rows, "", "## How the code was held in", "", guarantee, ""])


# ---- the learner's ----


def heading(result):
    """The points of a result, in words."""
    return f"{number(result['points'])} of {number(result['out_of'])} points"


def told(id, part):
    """(title, lines, how it was found) of one exercise."""
    exercise = exercises.load(id)
    mark = "✓" if part["status"] == "passed" else "○" if part["status"] in ("missing", "not attempted") else "✗"
    title = f"{mark} {exercise.title}: {number(part['points'])} of {number(part['out_of'])} points"
    lines = [*part["lines"], part["diagnosis"], *part["notes"]]
    if part["status"] in ("not yet", "stopped"):
        lines += [f'`hint("{id}")` helps one step at a time.'] if of_the_course(id) else []
    return title, [line for line in lines if line], _way(part)


def _way(part):
    return f"{WAYS[part['found']]}, {part['where']}" if part["found"] and part["where"] else WAYS.get(part["found"], "")


def front(result):
    """The lines that stand before the exercises."""
    lines = [f"Numbers of {result['learner']}."] if result["learner"] else []
    return [*([result["reason"]] if result["status"] == "unreadable" else []), *lines, *result["notes"]]


def as_markdown(result):
    """What a learner reads, as Markdown. What came from the learner cannot become markup."""
    rows = [f"# {escaped(result['submission'])}", "", f"**{heading(result)}**", ""]
    for line in front(result):
        rows += [escaped(line), ""]
    for id, part in result["exercises"].items() if result["status"] == "graded" else ():
        title, lines, way = told(id, part)
        rows += [f"## {title}", ""]
        for line in lines:
            rows += [escaped(line), ""]
        if way:
            rows += [f"*{way}*", ""]
    return "\n".join(rows)


def escaped(text):
    """Markdown that shows this text: outside of `code` nothing of it is markup, and nowhere a tag."""
    if "``" in text:  # Markdown pairs runs of them
        text = text.replace("`", "'")
    parts = text.split("`")
    for at in range(0, len(parts), 2) if len(parts) % 2 else range(len(parts)):
        parts[at] = re.sub(r"([\\*_\[\]<>#|~!$&])", r"\\\1", parts[at])
    return ("`" if len(parts) % 2 else "\\`").join(parts)


def as_html(result):
    """The same as a page that needs nothing else."""
    body = [f"<h1>{html.escape(result['submission'])}</h1>", f'<p class="points">{heading(result)}</p>']
    body += [f"<p>{_inline(line)}</p>" for line in front(result)]
    for id, part in result["exercises"].items() if result["status"] == "graded" else ():
        title, lines, way = told(id, part)
        body.append(f"<h2>{html.escape(title)}</h2>")
        body += [f"<p>{_inline(line)}</p>" for line in lines]
        body += [f'<p class="way">{_inline(way)}</p>'] if way else []
    return _PAGE.format(title=html.escape(result["submission"]), body="\n".join(body))


def _inline(text):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
