"""What a regrade would change: who gains, who loses, in which exercise, and why.

AFTER/difference.csv   a row for each change
AFTER/difference.md    the sums, those who lose, those who gain
"""

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from exercises.grade import gradebook, report, run
from exercises.grade.gradebook import writing
from exercises.grade.roster import guarded, unguarded

COLUMNS = ("learner", "name", "submission", "exercise", "before", "after", "change", "why_before", "why_after")
LOSE, GAIN, LEVEL = "Who would lose points", "Who would gain points", "Same sum, of other exercises"
CAME = "Whose file came since: no work of the regrade"
_SHOWN = 50  # of each list on the page; the table has all


@dataclass(frozen=True, slots=True)
class _Line:
    """A learner, or a file, in one of the two folders. `numbers` are its points and those of the exercises, as text."""

    key: str
    name: str
    submission: str
    numbers: str

    def points(self, ids):
        """{exercise: points}, and those of the whole at ""."""
        return {id: float(text) for id, text in zip(("", *ids), self.numbers.split(",")) if text}

    def label(self):
        """It as text, another one for each."""
        return self.key if self.name in ("", self.key) else f"{self.name} ({self.key})"


def write(before, after):
    """Write what differs between two folders of grades into the second; return the sums on one line.

    Learners are compared where both have a gradebook.csv, else files. What is held is a short line for each of them.
    A file that came since the first were graded is no work of the regrade: whoever has one is listed apart.
    difference.md is written last: where it is, all is.
    """
    before, after = Path(before), Path(after)
    by_learner = all((folder / "gradebook.csv").exists() for folder in (before, after))
    lines = _learners if by_learner else _files
    (old_ids, earlier), (ids, later) = lines(before), lines(after)
    old = {line.key: line for line in earlier}
    same, changed, new = 0, [], []
    gains, losses = Counter(), Counter()
    for now in later:
        then = old.pop(now.key, None)
        if then is None:
            new.append(now)
            continue
        had, has = then.points(old_ids), now.points(ids)
        if had == has:
            same += 1
            continue
        change, came = _change(had, has, ""), _came(before, then, now)
        which = CAME if came else LOSE if change < 0 else GAIN if change > 0 else LEVEL
        changed.append((which, change, then, now))
        for id in {} if came else {**had, **has}:
            gains[id] += _change(had, has, id) > 0
            losses[id] += _change(had, has, id) < 0
    gone = list(old.values())
    changed.sort(key=lambda one: (one[1], one[3].key))  # losers first
    lists = {LOSE: [], GAIN: [], LEVEL: [], CAME: []}
    with writing(after / "difference.csv") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for which, _, then, now in changed:
            rows = [*_rows(before, after, then, now, then.points(old_ids), now.points(ids))]
            table.writerows(_cells(now, *row) for row in rows)
            if len(lists[which]) < _SHOWN:
                lists[which].append(_told(now, rows))
        table.writerows(_cells(line, "", "", line.points(ids)[""], "", "") for line in new)
        table.writerows(_cells(line, "", line.points(old_ids)[""], "", "", "") for line in gone)
    kinds = Counter(which for which, *_ in changed)
    counts = {"gain": kinds[GAIN], "lose": kinds[LOSE], "level": kinds[LEVEL], "came": kinds[CAME], "same": same}
    counts |= {"new": len(new), "gone": len(gone), "words": _other_words(before, after)}
    counts |= {"total": round(sum(change for which, change, *_ in changed if which != CAME), 4)}
    told = _sums(counts, "learner" if by_learner else "file")
    table = "gradebook.csv" if by_learner else "grades.csv"
    was, now = (_full_marks(folder / table) for folder in (before, after))
    if was != now:
        told = f"full marks were {was}, and are {now}; {told}"
    lists |= {"New": [line.label() for line in new[:_SHOWN]], "No longer there": [o.label() for o in gone[:_SHOWN]]}
    many = dict(zip(lists, (counts[key] for key in ("lose", "gain", "level", "came", "new", "gone"))))
    run.write(after / "difference.md", _page(told, gains, losses, lists, many))
    return told


# ---- the two folders ----


def _table(path):
    """(header, rows one at a time) of a table that the grader wrote."""
    rows = _read(path)
    return next(rows), rows


def _read(path):
    with open(path, encoding="utf-8", newline="") as file:
        yield from csv.reader(file)


def _learners(folder):
    """(ids of the exercises, _Lines one at a time) of a gradebook.csv."""
    header, rows = _table(folder / "gradebook.csv")
    id, name, points, file = (header.index(title) for title in ("id", "name", "points", "submission"))
    return _lines(header, rows, len(gradebook.COLUMNS), (id, name, file), points)


def _files(folder):
    """The same of a grades.csv, for files."""
    header, rows = _table(folder / "grades.csv")
    return _lines(header, rows, header.index("reason") + 1, (0, 0, 0), header.index("points"))


def _full_marks(path):
    """What there is to win, as text; "none" in an empty table."""
    header, rows = _table(path)
    return next((row[header.index("out_of")] for row in rows), "none")


def _came(before, then, now):
    """Does a file count that was not there when the first were graded?"""
    return now.submission not in ("", then.submission) and not run.result_file(before, now.submission).exists()


def _lines(header, rows, first, texts, points):
    lines = (_Line(*(unguarded(row[at]) for at in texts), ",".join([row[points], *row[first:]])) for row in rows)
    return header[first:], lines


def _other_words(before, after):
    """How many files have the same points as before in all exercises, told with other words."""

    def told(row, header):
        reason = header.index("reason")
        return row[0], hash(tuple(row[reason + 1 :])), hash(row[reason])

    header, rows = _table(before / "grades.csv")
    old = {name: (points, words) for name, points, words in (told(row, header) for row in rows)}
    header, rows = _table(after / "grades.csv")
    count = 0
    for name, points, words in (told(row, header) for row in rows):
        count += name in old and old[name][0] == points and old[name][1] != words
    return count


# ---- what changed ----


def _change(had, has, id):
    return round(has.get(id, 0) - had.get(id, 0), 4)


def _rows(before, after, then, now, had, has):
    """(exercise or "", points before, points after, why before, why after) of what changed, the whole first."""
    reasons, reasons_now = _reasons(before, then.submission), _reasons(after, now.submission)
    if then.submission != now.submission:
        reasons_now[""] = f"{now.submission or 'no file'} counts, and not {then.submission or 'a file'}"
    for id in sorted({**had, **has}, key=bool):
        if had.get(id) != has.get(id):
            yield id, had.get(id, ""), has.get(id, ""), reasons.get(id, ""), reasons_now.get(id, "")


def _reasons(folder, name):
    """{exercise: why it has not all points}; at "" why a file could not be read."""
    try:
        (result,) = run.results(folder, [name])
    except OSError:  # nothing was handed in, or a name that cannot be shown as it is
        return {}
    why = {id: part["reason"] for id, part in result["exercises"].items()}
    return why | {"": result["reason"] if result["status"] == "unreadable" else ""}


def _cells(line, id, had, has, why, why_now):
    """A row of difference.csv."""
    change = report.number(round(has - had, 4)) if "" not in (had, has) else ""
    numbers = [report.number(points) if points != "" else "" for points in (had, has)]
    texts = [guarded(text) for text in (line.key, line.name, line.submission)]
    return [*texts, id, *numbers, change, guarded(why), guarded(why_now)]


def _told(line, rows):
    """What changed for one learner or file, on one line."""
    parts = []
    for id, had, has, why, why_now in rows:
        had, has = (report.number(points) if points != "" else "none" for points in (had, has))
        said = why_now or (f"it was: {why}" if why else "")
        parts.append(f"{id} {had} → {has}{f' ({said})' if said else ''}".strip())
    return f"{line.label()}: {'; '.join(parts)}"


def _sums(counts, whose):
    parts = [f"{report.many(counts['gain'], whose)} would gain points, {counts['lose']} would lose some"]
    parts += [f"{counts['same']} would have them as before"]
    parts += [f"{counts['level']} would have the same sum, of other exercises"] if counts["level"] else []
    parts += [f"{counts['came']} with a file that came since"] if counts["came"] else []
    parts += [f"{counts['new']} new"] if counts["new"] else []
    parts += [f"{counts['gone']} no longer there"] if counts["gone"] else []
    words = f"; {report.many(counts['words'], 'file')} with the same points and other words" if counts["words"] else ""
    total = f"; {report.number(counts['total']):+} points in all" if counts["gain"] or counts["lose"] else ""
    return ", ".join(parts) + total + words


def _page(told, gains, losses, lists, many):
    """difference.md."""
    rows = ["# What the regrade would change", "", f"{told}.", ""]
    moved = [id for id in {**gains, **losses} if id and (gains[id] or losses[id])]
    if moved:
        rows += ["| exercise | gain | lose |", "|---|---|---|"]
        rows += [f"| {id} | {gains[id]} | {losses[id]} |" for id in moved] + [""]
    for heading, lines in lists.items():
        if lines:
            rows += [f"## {heading}", "", *(f"- {report.escaped(line)}" for line in lines)]
            rows += [f"- and {many[heading] - len(lines)} more: difference.csv"] if many[heading] > len(lines) else []
            rows.append("")
    return "\n".join(rows)
