"""Takes in what learners handed in on a platform: copies their files, and notes whose each is and when it came.

python -m exercises.grade collect term/ps3 download.zip
"""

import argparse
import collections
import dataclasses
import fnmatch
import hashlib
import os
import re
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from exercises.grade import assignment, roster, run
from exercises.grade.command import status_of
from exercises.grade.platforms import downloads, files, table
from exercises.grade.platforms.files import Bad
from exercises.grade.platforms.people import People
from exercises.grade.run import Refusal, write

COLUMNS = ("submission", "learner", "received")
MOST_FILES = 1_000  # of one learner; a checkout with an environment in it has tens of thousands
MOST_BYTES = 500_000_000  # of one learner
_LONGEST_NAME = 120  # bytes; file systems take 255
_LONGEST_PATH = 500  # bytes, below a learner's folder; systems take 1,000 or 4,000 in all


def collect(folder, source, learners, wanted, kind="auto", time=None, due=None, times=None, only="*", gigabytes=20.0):
    """Copy what is new in `source` to folder/submissions, and add its rows to folder/submissions.csv.

    Parameters
    ----------
    folder : path of the assignment; source : path of a folder, a zip, a saved message or an mbox
    learners : the roster's, a list of Learner; wanted : downloads.Wanted; kind : one of downloads.KINDS, or "auto"
    time : when that came of which the source does not tell, a datetime with its zone, or None
    due : the assignment's, or None. If there is one, and nothing tells a time, it is refused
    times : path of a table that says when each learner's came (`read_times`), or None
    only : pattern that the path has to fit, as the shell has them; gigabytes : the most that is taken

    Returns
    -------
    collections.Counter: new, known, unknown (of nobody in the roster), refused (could not be taken), other (not `only`)
    """
    submissions = Path(folder, "submissions").resolve()
    if Path(source).resolve() in [submissions, *submissions.parents] or submissions in Path(source).resolve().parents:
        raise Refusal(f"{source}: this is where files are put, or holds it; give what the platform gave out")
    opened = _open(Path(source))
    try:
        if kind == "auto":
            kind = downloads.kind_of(opened)
        if not opened.entries and not isinstance(opened, downloads.Mailbox):
            raise Refusal(f"{source}: there is no file in it")
        wanted.say(f"{source}: read as {kind}; --from says otherwise")
        if kind in downloads.TIMELESS and due is not None and time is None and times is None:
            raise Refusal(
                f"{source}: a download of {kind} does not tell when files came, and the assignment has a due date; "
                "--time due says that they came in time, --time 2027-03-05T12:00 when, and --times FILE each one's time"
            )
        if kind == "github" and opened.archive:
            raise Refusal(f"{source}: checkouts of git are read from a folder; unpack it first")
        people = People(learners)
        told = read_times(times, people) if times is not None else {}
        wanted = dataclasses.replace(wanted, numbered="worksheet" in people.kinds)
        intake = _Intake(Path(folder), people, wanted.say, time, told, gigabytes * 1e9)
        intake.take(downloads.handed_in(opened, kind, wanted), only)
        return intake.counts
    finally:
        opened.close()


def _open(path):
    if path.is_dir():
        return files.Folder(path)
    if not path.exists():
        raise Refusal(f"{path}: there is no such file or folder")
    if zipfile.is_zipfile(path):
        return files.Zip(path)
    with path.open("rb") as file:
        if path.suffix.lower() in (".eml", ".mbox") or file.read(5) == b"From ":
            return downloads.Mailbox(path)
    raise Refusal(f"{path}: this is no folder, no zip and no mail; give what the platform gave out, or a folder of it")


# A worksheet of Moodle has times as `userdate` writes them, for the teacher's own zone: lang/en/langconfig.php,
# strftimedaydatetime.
_MOODLE_TIME = "%A, %d %B %Y, %I:%M %p"
_WHO = {"learner": "key", "email address": "key", "id number": "key", "identifier": "participant", "full name": "name"}
_WHEN = ("received", "last modified (submission)")


def read_times(path, people):
    """{learner's id: when it came} of a table: `learner,received`, or Moodle's grading worksheet in English.

    The worksheet also says whose Moodle's numbers are, which `people` then know.
    """
    header, rows = roster.table(path)
    titles = [title.casefold() for title in header]
    when = next((titles.index(title) for title in _WHEN if title in titles), None)
    who = numbers = [(titles.index(title), kind) for title, kind in _WHO.items() if title in titles]
    if any(kind == "key" for _, kind in who):  # a participant has another number in each assignment
        who = [(at, kind) for at, kind in who if kind != "participant"]
    number = next((at for at, kind in numbers if kind == "participant"), None)
    if when is None or not who:
        raise Refusal(
            f"--times {path}: expected are learner and received, or Moodle's grading worksheet in English; "
            f"there are {', '.join(header)}"
        )
    found = {}
    for line, row in rows:
        clues = [(kind, row[at]) for at, kind in who if row[at]]
        learner = people.owner(clues)[0]
        if learner is not None and number is not None:
            people.add("worksheet", row[number], learner)
        if learner is not None and row[when] not in ("", "-"):
            try:
                found[learner.id] = datetime.strptime(row[when], _MOODLE_TIME).astimezone()
            except ValueError:
                found[learner.id] = assignment.moment(row[when], f"{path}, line {line}: {header[when]}")
    return found


class _Intake:
    """Copies files to where they belong, and keeps the table of them."""

    def __init__(self, folder, people, say, time, times, most):
        self.folder, self.people, self.say, self.time, self.times = folder, people, say, time, times
        self.left = most
        self.counts = collections.Counter()
        self._known = {}  # of a learner's folder: {digest of a file: its path}
        self._attempts = {}  # of a learner's folder: the number of this attempt, where no time is known
        self._taken = collections.Counter()  # of a learner's folder: files, and bytes
        self._nobodys, self._late, self._undated = {}, [], []
        self._file = folder / "submissions.csv"
        self._table = table.read(self._file) if self._file.exists() else table.Table(",".join(COLUMNS) + "\n")
        missing = [name for name in COLUMNS if name not in self._table.header]
        if missing:
            there = ", ".join(self._table.header)
            raise Refusal(f"{self._file}: there is no column {missing[0]}; there are {there}")
        at = self._table.header.index("submission")
        self._rows = {roster.unguarded(self._table.row(number)[at]) for number in range(1, len(self._table))}

    def take(self, handed_in, only="*"):
        """Take what was handed in and fits a pattern. What was taken when it is broken off is in the table, too."""
        try:
            for handed in handed_in:
                if fnmatch.fnmatch(handed.where, only):
                    self._take(handed)
                else:
                    self.counts["other"] += 1
        finally:
            self._told()
            if self.counts["new"] or self.counts["noted"]:
                write(self._file, self._table.text())

    def _take(self, handed):
        learner, why = self.people.owner(handed.clues)
        received = handed.received or self.times.get(learner and learner.id)
        if received is None or received.year not in assignment.YEARS:
            received = None if handed.late else self.time
        owner = _folder_name(learner.id) if learner else f"unknown-{_folder_name(handed.label)}"
        self._taken[owner, "files"] += 1
        if self._taken[owner, "files"] > MOST_FILES + 1:  # told once
            self.counts["refused"] += 1
            return
        try:
            if self._taken[owner, "files"] > MOST_FILES:
                raise Bad(f"is one file too many, like all that follow: {MOST_FILES} of one learner are taken")
            if len(handed.name.encode()) > _LONGEST_PATH:
                raise Bad(f"is too deep in folders: its path has more than {_LONGEST_PATH} bytes")
            if not files.is_wanted(files.parts(handed.name)):
                raise Bad("has a name that systems give to files of their own")
            data = handed.read()
            if self._taken[owner, "bytes"] + len(data) > MOST_BYTES:
                raise Bad(f"is too much: {MOST_BYTES // 1_000_000} MB of one learner are taken")
        except Bad as bad:
            self.counts["refused"] += 1
            self.say(f"LOOK: left out: {handed.where[:200]} {bad}")
            return
        self._taken[owner, "bytes"] += len(data)
        self.left -= len(data)
        if self.left < 0:
            raise Refusal("there is more in it than --gigabytes allows; what was taken so far is kept")
        if learner is None:
            self.counts["unknown"] += 1
            self._nobodys.setdefault(owner, why)
        path = self._kept(owner, data, received, handed.name)
        if handed.late and received is None:
            self._late.append(path)
        elif received is None:
            self._undated.append(path)
        if path not in self._rows:
            cells = {"submission": path, "learner": learner.id if learner else ""}
            cells["received"] = received.isoformat(timespec="seconds") if received else ""
            self._table.append([roster.guarded(cells.get(name, "")) for name in self._table.header])
            self._rows.add(path)
            self.counts["noted"] += 1

    def _kept(self, owner, data, received, name):
        """The path of a file with these bytes in the learner's folder; it is written if there is none."""
        root = self.folder / "submissions"
        if owner not in self._known:
            self._known[owner] = {
                _digest((root / owner / name).read_bytes()): f"{owner}/{name}"
                for name in (run.submissions(root / owner) if (root / owner).is_dir() else ())
                if (root / owner / name).is_file() and not (root / owner / name).is_symlink()
            }
        known, digest = self._known[owner], _digest(data)
        if digest in known:
            self.counts["known"] += 1
            return known[digest]
        when = received.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%SZ") if received else self._attempt(root / owner)
        names = [_file_name(part) for part in files.parts(name)] or ["unnamed"]
        path = _free(root / owner / when, names)
        _put(path, data, received)
        self.counts["new"] += 1
        known[digest] = path.relative_to(root).as_posix()
        return known[digest]

    def _attempt(self, folder):
        """The name of this attempt, a number, where no time is known: all of one download are one."""
        if folder not in self._attempts:
            before = [int(path.name) for path in folder.glob("*") if re.fullmatch(r"\d{1,6}", path.name)]
            self._attempts[folder] = str(max(before, default=0) + 1)
        return self._attempts[folder]

    def _told(self):
        for owner, why in self._nobodys.items():
            self.say(f"LOOK: {owner} is nobody in the roster{f': {why}' if why else ''}")
        if self._nobodys:
            self.say(f"      write whose they are into the column learner of {self._file}")
        if self._late:
            self.say("LOOK: late, and the platform does not tell how late; write when they came into received:")
            self.say("\n".join(f"      {path}" for path in self._late))
        if self._undated:
            self.say("LOOK: no time is known, so these count as in time; write it into received:, or use --time")
            self.say("\n".join(f"      {path}" for path in self._undated))


def _put(path, data, received):
    """Write a file whole or not at all, as if it had been changed last when it was received."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix="._", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        if received:
            os.utime(temporary, (received.timestamp(), received.timestamp()))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _digest(data):
    return hashlib.sha256(data).digest()[:16]


def _folder_name(text):
    """A name for a learner's folder: the id itself where it can be one, else what tells it from all others."""
    name = re.sub(r"[^\w.@-]", "-", text)
    if name == text and len(name.encode()) <= _LONGEST_NAME and re.match(r"\w", name):
        return name
    name = name.strip(".-@")[:40]
    return f"{name or 'x'}-{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def _file_name(name):
    """One part of a learner's path, as short as file systems ask for."""
    name = "".join(c if c.isprintable() and c != "/" else "-" for c in name)
    stem, dot, ending = name.rpartition(".")
    if len(name.encode()) > _LONGEST_NAME:
        stem, dot, ending = (stem, dot, ending) if dot and len(ending) <= 10 else (name, "", "")
        stem = stem.encode()[: _LONGEST_NAME - len(ending.encode()) - 1].decode("utf-8", "ignore")
        name = stem + dot + ending
    return name


def _free(folder, names):
    """A path below the folder at which there is nothing yet."""
    place = folder
    for name in names[:-1]:
        while (place / name).exists() and not (place / name).is_dir():
            name += "-"
        place /= name
    stem, dot, ending = names[-1].rpartition(".")
    stem, ending = (stem, dot + ending) if stem else (names[-1], "")
    path, number = place / names[-1], 2
    while os.path.lexists(path):
        path, number = place / f"{stem} ({number}){ending}", number + 1
    return path


def main(arguments=None, say=print):
    """Take in a download; returns the exit status."""
    options = _parser().parse_args(arguments)
    return status_of(lambda: _collect(options, say), "what was taken is kept; the same command goes on")


def _collect(options, say):
    rules = assignment.read(options.assignment)
    time = None
    if options.time == "due":
        time = rules.due
        if time is None:
            raise Refusal(f"--time due: {options.assignment} has no due date; say a time: --time 2027-03-05T12:00")
    elif options.time:
        time = assignment.moment(options.time, "--time")
    learners = roster.of(options.assignment, options.roster, needed=True)
    wanted = downloads.Wanted(rules.title, options.item, say)
    asked = {"kind": options.kind, "time": time, "due": rules.due, "times": options.times}
    asked |= {"only": options.only, "gigabytes": options.gigabytes}
    counts = collect(options.assignment, options.source, learners, wanted, **asked)
    told = [f"{counts['new']} new files", f"{counts['known']} known", f"{counts['unknown']} of nobody"]
    told += [f"{counts['refused']} left out"] if counts["refused"] else []
    told += [f"{counts['other']} that do not fit --only"] if counts["other"] else []
    say(", ".join(told))
    say(f"files: {options.assignment / 'submissions'}; whose, and when: {options.assignment / 'submissions.csv'}")
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m exercises.grade collect", description="Take in a download.")
    parser.add_argument("assignment", type=Path, help="folder of the assignment")
    parser.add_argument("source", type=Path, help="a zip, a folder, a saved message or an mbox")
    parser.add_argument("--roster", type=Path, help="default: roster.csv in the assignment's folder, or beside it")
    kinds = ("auto", *downloads.KINDS)
    parser.add_argument("--from", dest="kind", choices=kinds, default="auto", help="where it is from; default: looks")
    parser.add_argument("--time", default="", help="when that came of which no time is told, or due: in time")
    times = "a table learner,received, or Moodle's grading worksheet: when each came, where the download does not tell"
    parser.add_argument("--times", type=Path, help=times)
    parser.add_argument("--item", default="", help="the assignment's name in nbgrader, where it is not the title")
    parser.add_argument("--only", default="*", help="pattern for the paths that are taken, like '*/ps3/*.ipynb'")
    parser.add_argument("--gigabytes", type=float, default=20.0, help="the most that is taken (20)")
    return parser
