"""The gradebook: what each learner of the roster gets for one assignment, and why.

OUT/gradebook.csv   a row for each learner
OUT/learners/       what each of them gets back
OUT/to_read.csv     explanations that no person has marked yet
OUT/gradebook.md    what a person should look at
"""

import contextlib
import csv
import json
import math
import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import exercises
from exercises.grade import marks, pages, report, roster, run
from exercises.grade.assignment import moment
from exercises.grade.roster import Learner, guarded, unguarded
from exercises.grade.run import Refusal

COLUMNS = (
    *("id", "name", "email", "section", "points", "out_of", "earned", "penalty"),
    *("received", "late", "attempt", "attempts", "submission", "status", "comment", "notes"),
)
GRADED, UNREADABLE, NOTHING, TOO_LATE = "graded", "unreadable", "nothing handed in", "too late"
_BY_NAME = "found by the name in the notebook alone"
_FILE_TIME = "the time is that of the file"
_DAY = timedelta(days=1)
_LATEST = 4_000_000_000  # seconds, in 2096: whoever owns a file can give it a time that is in no calendar
_NOTES = 20  # on one learner


@dataclass(frozen=True)
class Row:
    """What one learner gets for one assignment.

    submission : str, the file that counts, "" if none
    attempts : int, how many files came; attempt : int, which of them counts, from 1 in order of time, 0 if none
    received : datetime or None; late : timedelta after the due date, 0 if in time or within the grace
    earned : float, points of the attempt, manual points included; penalty : float, what lateness takes off
    points : float, earned - penalty; out_of : float
    parts : dict, exercise id -> points, manual ones included
    comments : tuple of (exercise id or "", text), of people
    status : "graded", "unreadable", "nothing handed in" or "too late"
    notes : tuple of str, what a person should know
    """

    learner: Learner
    submission: str
    attempts: int
    attempt: int
    received: datetime | None
    late: timedelta
    earned: float
    penalty: float
    points: float
    out_of: float
    parts: dict
    comments: tuple
    status: str
    notes: tuple


# ---- the rules ----


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the rules need to know of one file of a learner: so little that a university's fit into memory.

    name : str; received : datetime; earned : float, points for exercises, manual ones included; readable : bool
    timed : bool, whether `received` is when it came; else it only says in which order files came, and none is late
    """

    name: str
    received: datetime
    earned: float
    readable: bool
    timed: bool = True

    def late(self, due, assignment):
        """How long after `due` it came, as far as is known."""
        return lateness(self.received, due, assignment) if self.timed else timedelta(0)


def lateness(received, due, assignment):
    """How long after `due` something came; 0 if in time, or within the grace. Both times are aware.

    In UTC: Python subtracts two times of one zone as the clocks on the wall show them, so that the night in which they
    are put back would last an hour less.
    """
    if due is None:
        return timedelta(0)
    late = received.astimezone(UTC) - due.astimezone(UTC)
    return late if late > timedelta(minutes=assignment.grace_minutes) else timedelta(0)


def is_too_late(late, assignment):
    """Does something so late count nothing?"""
    return bool(late) and assignment.days is not None and late > timedelta(days=assignment.days)


def penalty(earned, late, assignment):
    """What lateness takes off the points: a share for each 24 hours begun after the due date, never more than all."""
    if is_too_late(late, assignment):
        return earned
    share = min(1.0, assignment.percent_per_day / 100 * math.ceil(late / _DAY))
    return min(earned, _rounded(earned * share))


def choose(attempts, due, assignment):
    """The index of the Attempt that counts, among one or more in order of time.

    The best is the one with the most points after the penalty, of equal ones the earlier. The last is the last that
    can be read and is not too late to count, so that a broken file does not undo a whole one.
    """

    def rank(at):
        late = attempts[at].late(due, assignment)
        counts = attempts[at].readable, not is_too_late(late, assignment)
        if assignment.attempts == "last":
            return *counts, at
        earned = attempts[at].earned
        return _rounded(earned - penalty(earned, late, assignment)), *counts, -at

    return max(range(len(attempts)), key=rank)


def _rounded(points):
    return round(points, 4)  # sums of tenths are none


# ---- what was handed in ----


@dataclass(frozen=True, slots=True)
class _File:
    """An Attempt, and how its owner was found."""

    attempt: Attempt
    sure: bool  # its owner is not only who the notebook says
    dated: bool  # its time was written down
    names: int  # the index of another learner, whom the notebook names; or -1


class _Inbox:
    """submissions.csv: whose is which file, and when it came. What was unpacked where `collect` put it came with it."""

    def __init__(self, file, finder, astray):
        self.finder, self.told = finder, {}  # {file or folder: (learner, why it is nobody's, received, timed)}
        folders = {}
        header, rows = roster.table(file) if file and Path(file).exists() else (["submission"], [])
        at = roster.columns(header, ("submission",), ("learner", "received"), file)
        lines = {}
        for line, row in rows:
            where = f"{file}, line {line}"
            cells = {key: row[index] for key, index in at.items()}
            name, who, when = cells["submission"], cells.get("learner", "").strip(), cells.get("received", "").strip()
            learner = finder.wanted(who, where, astray) if who else None
            received = moment(when, f"{where}: received").replace(microsecond=0) if when else None
            # a file that is nobody's is not his whose name its author gave it
            why = "" if learner or "learner" not in cells else "submissions.csv says " + (who or "nobody's")
            told = learner, why, received, bool(when) or "received" not in cells
            if self.told.get(name, told) != told:
                raise Refusal(f"{file}: {name} stands in line {lines[name]} and otherwise in line {line}")
            self.told[name], lines[name] = told, line
            owner, _, below = name.partition("/")
            if below and (owner.startswith("unknown-") or learner and owner == learner.id):
                folders.setdefault(name.rpartition("/")[0], set()).add(told)
        self.files = list(self.told)
        self._folders = {folder: told.pop() for folder, told in folders.items() if len(told) == 1}

    def _told(self, name):
        """What is written of a file, or of the folder in which it lies."""
        if name in self.told:
            return self.told[name]
        above = (parent.as_posix() for parent in PurePosixPath(name).parents)
        return next((self._folders[parent] for parent in above if parent in self._folders), (None, "", None, True))

    def look(self, folder, name, claimed):
        """(Learner or None, why it is nobody's, is it sure, received, was that written down, is it when it came)."""
        learner, why, received, timed = self._told(run.printable(name))
        dated, sure = received is not None, True
        if not dated:
            seconds = int(os.lstat(Path(folder, name)).st_mtime)
            received = datetime.fromtimestamp(min(max(seconds, 0), _LATEST)).astimezone()
        if learner is None and not why:
            learner, why = self.finder.look(run.printable(name))
        if learner is None and not why:
            learner, sure = claimed, False
        return learner, why, sure, received, dated, timed


def _extensions(file, finder, astray):
    """{learner's id: due} of extensions.csv."""
    if not file or not Path(file).exists():
        return {}
    header, rows = roster.table(file)
    at = roster.columns(header, ("learner", "due"), (), file)
    found, lines = {}, {}
    for line, row in rows:
        where = f"{file}, line {line}"
        learner, due = finder.wanted(row[at["learner"]], where, astray), moment(row[at["due"]], f"{where}: due")
        if learner is None:
            continue
        id = learner.id
        if found.get(id, due) != due:
            raise Refusal(f"{file}: {id} has a date in line {lines[id]} and another one in line {line}")
        found[id], lines[id] = due, line
    return found


# ---- the gradebook ----


@dataclass
class Book:
    """What a gradebook came to.

    out : Path; ids : the exercises; remedy : str, what helps where an owner is not known
    statuses : Counter of Row.status; to_read : int, explanations to be marked
    unclaimed : [(file, why it is nobody's)]; absent : files of submissions.csv that are not there
    empty_handed : learners who handed in nothing; broken : [(learner, why it could not be read)]
    astray : lines of people's files that apply to nobody; same : {name of an explanation: [learner]}
    notes : [(learner, note)]; undated : int, files whose time was not written down
    """

    out: Path
    ids: tuple
    remedy: str
    statuses: Counter = field(default_factory=Counter)
    to_read: int = 0
    unclaimed: list = field(default_factory=list)
    absent: list = field(default_factory=list)
    empty_handed: list = field(default_factory=list)
    broken: list = field(default_factory=list)
    astray: list = field(default_factory=list)
    same: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    undated: int = 0
    _counted: list = field(default_factory=list, repr=False)

    def counted(self):
        """(result, learner) of each file that counts, one at a time; the learner as text, another one for each."""
        names = (name for name, _ in self._counted)
        for result, (_, learner) in zip(run.results(self.out, names), self._counted):
            yield result, label(learner)

    def told(self):
        """Lines for the screen."""
        counts = ", ".join(
            f"{self.statuses[s]} {s}" for s in (GRADED, UNREADABLE, TOO_LATE, NOTHING) if self.statuses[s]
        )
        yield f"{self.statuses.total()} learners: {counts}; gradebook: {self.out / 'gradebook.csv'}"
        if self.unclaimed:
            yield f"{report.many(len(self.unclaimed), 'file')} of NOBODY in the roster: {self.remedy}"
        yield from (f"LOOK: {line}" for line in self.astray)
        if self.to_read:
            yield f"{report.many(self.to_read, 'explanation')} to be marked by a person: {self.out / 'to_read.csv'}"
        if self.unclaimed or self.absent or self.notes or self.empty_handed:
            yield f"what to look at: {self.out / 'gradebook.md'}"


def label(learner):
    """A learner as text, another one for each."""
    return learner.id if learner.name == learner.id else f"{learner.name} ({learner.id})"


def people(learners, ids, received=None, manual=None, extensions=None):
    """(_Inbox, extensions, Marks, lines that apply to nobody) of what people wrote; Refusal says what cannot be."""
    finder, astray = roster.Finder(learners), []
    inbox, due = _Inbox(received, finder, astray), _extensions(extensions, finder, astray)
    out_of = {id: exercises.load(id).points for id in ids}
    marked = marks.Marks(manual if manual and Path(manual).is_dir() else None, finder, out_of)
    return inbox, due, marked, [*astray, *marked.astray]


def write(out, names, folder, learners, assignment, received=None, manual=None, extensions=None):
    """Write the gradebook of a run, and all that goes with it; return the Book.

    Parameters
    ----------
    out : folder of the run; names : of the submissions in it, as `run.submissions` gives them; folder : where these lie
    learners : [Learner], in the order of the rows; assignment : Assignment
    received, extensions : paths of submissions.csv and extensions.csv; manual : folder of the marks of people. What is
        None or is not there says nothing.

    A file is whose submissions.csv says; else whose its path says (`roster.Finder`); else his whom the notebook names,
    which anybody can write. So that name decides only for learners who have no other file, and is noted. Refusal says
    what in these files cannot be.
    """
    out = Path(out)
    ids = tuple(json.loads((out / "run.json").read_text(encoding="utf-8"))["exercises"])
    out_of = {id: exercises.load(id).points for id in ids}
    inbox, due, marked, astray = people(learners, ids, received, manual, extensions)
    remedy = (
        "write whose in submissions.csv" if received else "`new` makes a folder in which owners can be written down"
    )
    book = Book(out, ids, remedy, astray=astray)
    files = _files(out, names, folder, learners, inbox, marked, book)
    (out / "learners").mkdir(exist_ok=True)
    kept = set()
    with writing(out / "gradebook.csv") as table, _Readings(out / "to_read.csv") as readings:
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow([*COLUMNS, *ids])
        for at, learner in enumerate(learners):
            mine = files.pop(at, [])
            its_due = due.get(learner.id, assignment.due)
            row, result = _row(out, learner, mine, its_due, assignment, marked, out_of, learners)
            rows.writerow(_cells(row, ids))
            kept |= pages.write(out / "learners", row, result, assignment, marked, its_due)
            if result:
                book._counted.append((mine[row.attempt - 1].attempt.name, learner))
            if result and row.status != TOO_LATE:
                readings.add(learner, result, marked)
            book.statuses[row.status] += 1
            book.empty_handed += [label(learner)] if row.status == NOTHING else []
            book.broken += [(label(learner), result["reason"])] if row.status == UNREADABLE else []
            for text in _texts(result):
                book.same.setdefault(text, []).append(label(learner))
            book.notes += [(label(learner), note) for note in row.notes]
    for stale in (out / "learners").iterdir():
        if stale.suffix in (".md", ".html") and stale.name not in kept:
            stale.unlink()
    book.to_read = readings.count
    run.write(out / "gradebook.md", _summary(book, assignment))
    return book


def _files(out, names, folder, learners, inbox, marked, book):
    """{index of a learner: his files in order of time}; what is nobody's goes into the book."""
    index = {learner.id: at for at, learner in enumerate(learners)}
    files = {}
    for name, result in zip(names, run.results(out, names)):
        claimed = inbox.finder.by_name(result["learner"]) if result["learner"] else None
        learner, why, sure, received, dated, timed = inbox.look(folder, name, claimed)
        book.undated += not dated
        if learner is None:
            who = label(claimed) if claimed else f"{result['learner']}, who is not in the roster"
            named = f"its notebook names {who}" if result["learner"] else ""
            book.unclaimed.append((run.printable(name), "; ".join(filter(None, (why, named)))))
            continue
        earned = _rounded(sum(_parts(result, learner, marked, book.ids)[0].values()))
        attempt = Attempt(name, received, earned, result["status"] == GRADED, timed)
        names_other = index[claimed.id] if claimed is not None and claimed.id != learner.id else -1
        files.setdefault(index[learner.id], []).append(_File(attempt, sure, dated, names_other))
    for at, mine in files.items():
        surer = [file for file in mine if file.sure]
        if surer and len(surer) < len(mine):
            why = f"its notebook names {label(learners[at])}, who has another file"
            book.unclaimed += [(run.printable(file.attempt.name), why) for file in mine if not file.sure]
            mine[:] = surer
        # files of one moment are one attempt: a notebook and its helper, or the handout beside what was made of it
        best = {}
        for file in sorted(mine, key=lambda file: file.attempt.name, reverse=True):
            other = best.setdefault(file.attempt.received, file).attempt
            if (file.attempt.readable, file.attempt.earned) >= (other.readable, other.earned):
                best[file.attempt.received] = file
        mine[:] = sorted(best.values(), key=lambda file: file.attempt.received)
    there = {run.printable(name) for name in names}
    book.absent = [name for name in inbox.files if name not in there]
    book.unclaimed.sort()
    return files


def _texts(result):
    """What `marks.text_of` says of the explanations in a result, or in none."""
    return [
        marks.text_of(part["words"])
        for part in (result or {"exercises": {}})["exercises"].values()
        if part.get("words")
    ]


def _parts(result, learner, marked, ids):
    """({exercise: points}, comments, exercises with marks for another text alone) of an attempt, or of none."""
    parts, comments, earlier = {}, [], []
    for id in ids:
        part = result["exercises"][id] if result else {}
        points, said, old = marked.of(learner.id, id, marks.text_of(part.get("words", "")))
        if points is not None or part:
            parts[id] = part["points"] if points is None else points
        comments += [(id, comment) for comment in said]
        earlier += [id] if old and part.get("words") else []
    return parts, comments, earlier


def _row(out, learner, files, due, assignment, marked, out_of, learners):
    """(Row, the result that counts or None) of one learner."""
    result, chosen, at, late = None, None, -1, timedelta(0)
    if files:
        at = choose([file.attempt for file in files], due, assignment)
        chosen = files[at]
        result = next(iter(run.results(out, [chosen.attempt.name])))
        late = chosen.attempt.late(due, assignment)
    parts, comments, earlier = _parts(result, learner, marked, tuple(out_of))
    more, said, _ = marked.of(learner.id, "")
    # for the whole, a person has given what it is worth as it came
    from_parts = _rounded(sum(parts.values()))
    earned = _rounded(max(0.0, from_parts + (more or 0.0)))
    less = min(earned, penalty(from_parts, late, assignment))
    if not files:
        status = NOTHING
    elif not chosen.attempt.readable:
        status = UNREADABLE
    else:
        status = TOO_LATE if is_too_late(late, assignment) else GRADED
    notes = [f"{id}: marked for another text; this one waits for a reader" for id in earlier]
    notes += _notes(files, at, due, assignment, learners)
    notes[_NOTES:] = [f"and {report.many(len(notes) - _NOTES, 'note')} more"] if len(notes) > _NOTES else []
    row = Row(
        learner=learner,
        submission=run.printable(chosen.attempt.name) if files else "",
        attempts=len(files),
        attempt=at + 1,
        received=chosen.attempt.received if files and chosen.attempt.timed else None,
        late=late,
        earned=earned,
        penalty=less,
        points=_rounded(earned - less),
        out_of=sum(out_of.values()),
        parts=parts,
        comments=(*(("", comment) for comment in said), *comments),
        status=status,
        notes=tuple(notes),
    )
    return row, result


def _notes(files, at, due, assignment, learners):
    """What a person should know of a learner's files, first of the one at `at`, which counts."""
    notes = []
    for number, file in sorted(enumerate(files), key=lambda one: one[0] != at):
        its = "" if number == at else f"attempt {number + 1}, {run.printable(file.attempt.name)}: "
        late = file.attempt.late(due, assignment)
        if not file.attempt.timed and number == at and due:
            notes.append("submissions.csv does not say when it came, so it counts as in time")
        if not file.sure and number == at:
            notes.append(_BY_NAME)
        if file.names >= 0:
            notes.append(f"{its}the notebook names {label(learners[file.names])}")
        if not file.attempt.readable and number != at:
            notes.append(f"{its}it could not be read")
        if is_too_late(late, assignment) and number != at:
            notes.append(f"{its}it came too late to count")
        if late and number == at and not file.dated:
            notes.append(_FILE_TIME)
    return notes


# ---- its files ----


@contextlib.contextmanager
def writing(path):
    """A file to write, which is there whole in the end, or not at all; the lines need not fit into memory."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _cells(row, ids):
    """The cells of a Row."""
    learner, number = row.learner, report.number
    texts = [guarded(text) for text in (learner.id, learner.name, learner.email, learner.section)]
    numbers = [number(points) for points in (row.points, row.out_of, row.earned, row.penalty)]
    seconds = round(row.late.total_seconds())
    late = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}" if seconds else ""
    times = [row.received.isoformat() if row.received else "", late]
    comment = "\n".join(_comment(id, text, ids) for id, text in row.comments)
    told = [guarded(row.submission), row.status, guarded(comment), guarded("\n".join(row.notes))]
    points = [number(row.parts[id]) if id in row.parts else "" for id in ids]
    return [*texts, *numbers, *times, row.attempt, row.attempts, *told, *points]


def _comment(id, text, ids):
    """A comment on one line; a sign tells it for the whole where it looks like one for an exercise."""
    return f"{id}: {text}" if id or text.partition(": ")[0] in ("", *ids) else text


def read(path, learners):
    """The Rows of a gradebook.csv; Refusal if it is none, or of learners who are not in the roster."""
    return list(rows(path, learners))


def rows(path, learners):
    """The same, one at a time."""
    known = {learner.id: learner for learner in learners}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = next(lines, [])
            if tuple(header[: len(COLUMNS)]) != COLUMNS:
                raise Refusal(f"{path}: this is no gradebook; expected are the columns {', '.join(COLUMNS)}")
            for row in lines:
                yield _row_of(row, header[len(COLUMNS) :], known, f"{path}, line {lines.line_num}")
    except FileNotFoundError:
        raise Refusal(f"{path}: there is no such file; grade first, with a roster") from None


def _row_of(row, ids, known, where):
    cells = dict(zip(COLUMNS, row))
    id = unguarded(cells["id"])
    if id not in known:
        raise Refusal(f"{where}: {id} is not in the roster; grade again with the roster of now")
    try:
        hours, minutes, seconds = map(int, (cells["late"] or "0:0:0").split(":"))
        comment, notes = unguarded(cells["comment"]), unguarded(cells["notes"])
        comments = []
        for line in comment.split("\n") if comment else ():
            before, _, after = line.partition(": ")
            comments.append((before, after) if before in ("", *ids) else ("", line))
        return Row(
            learner=known[id],
            submission=unguarded(cells["submission"]),
            attempts=int(cells["attempts"]),
            attempt=int(cells["attempt"]),
            received=datetime.fromisoformat(cells["received"]) if cells["received"] else None,
            late=timedelta(hours=hours, minutes=minutes, seconds=seconds),
            earned=float(cells["earned"]),
            penalty=float(cells["penalty"]),
            points=float(cells["points"]),
            out_of=float(cells["out_of"]),
            parts={id: float(points) for id, points in zip(ids, row[len(COLUMNS) :]) if points},
            comments=tuple(comments),
            status=cells["status"],
            notes=tuple(notes.split("\n")) if notes else (),
        )
    except (ValueError, KeyError):
        raise Refusal(f"{where}: the line is damaged; grade again, which writes the file anew") from None


class _Readings:
    """to_read.csv: explanations that no person has marked, all of one exercise together."""

    def __init__(self, path):
        self.path, self.count, self._parts = path, 0, {}

    def __enter__(self):
        return self

    def add(self, learner, result, marked):
        """Write down what is to be read of one result."""
        for id, part in result["exercises"].items():
            words = part.get("words", "")
            text = marks.text_of(words)
            if words and not marked.is_read(learner.id, id, text):
                if id not in self._parts:
                    self._parts[id] = tempfile.TemporaryFile("w+", encoding="utf-8", newline="")
                rows = csv.writer(self._parts[id], lineterminator="\n")
                cells = [guarded(learner.id), guarded(learner.name), id, "", report.number(part["out_of"]), "", text]
                rows.writerow([*cells, guarded(words)])
                self.count += 1

    def __exit__(self, kind, *error):
        try:
            if kind is None:
                with writing(self.path) as file:
                    csv.writer(file, lineterminator="\n").writerow(marks.COLUMNS)
                    for part in self._parts.values():
                        part.seek(0)
                        shutil.copyfileobj(part, file)
        finally:
            for part in self._parts.values():
                part.close()


def _summary(book, assignment):
    """gradebook.md: what the class has, and what a person should look at."""
    due = f"Due {assignment.due:%Y-%m-%d %H:%M %Z}. " if assignment.due else ""
    rows = [f"# {report.escaped(assignment.title)}: gradebook", ""]
    rows += [f"{due}Of several attempts the {assignment.attempts} counts.", "", "| status | learners |", "|---|---|"]
    rows += [f"| {status} | {count} |" for status, count in sorted(book.statuses.items())]
    rows.append("")
    if book.undated:
        undated = report.many(book.undated, "file")
        rows += [f"{undated} without a time in submissions.csv: the time is that of the file.", ""]
    if book.to_read:
        rows += [f"{report.many(book.to_read, 'explanation')} to be marked by a person: to_read.csv.", ""]
    lists = {
        f"Files of nobody: {book.remedy}": [f"{name}: {why}" if why else name for name, why in book.unclaimed],
        "Lines that apply to nobody": book.astray,
        "In submissions.csv, and not there": book.absent,
        "Could not be read": [f"{who}: {why}" for who, why in book.broken],
        "The same explanation, word for word": [", ".join(who) for who in book.same.values() if len(who) > 1],
        "What to look at": _by_note(book.notes),
        "Nothing was handed in": book.empty_handed,
    }
    for heading, lines in lists.items():
        if lines:
            rows += [f"## {heading}", "", *(f"- {report.escaped(line)}" for line in lines), ""]
    return "\n".join(rows)


def _by_note(notes):
    """Lines of notes, each with all whom it is on."""
    found = {}
    for who, note in notes:
        found.setdefault(note, []).append(who)
    return [f"{', '.join(who)}: {note}" for note, who in found.items()]
