"""Grades a folder: who does what, what is kept, and how a run that was cut off goes on.

OUT/results/*.json   one for each submission, written whole or not at all: the run itself
OUT/feedback/        for the learners (`report`)
OUT/grades.csv       made of the results at the end, like OUT/report.md
OUT/run.json         what was asked for; OUT/secret, what the seeds are made of
"""

import atexit
import concurrent.futures
import contextlib
import ctypes
import difflib
import functools
import hashlib
import json
import multiprocessing
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm import tqdm

import exercises
from exercises.grade import boxes, report, room, submission
from exercises.grade.specs import SpecError, add_specs, digest

VERSION = 1
MOST_WORKERS = 64  # each has two users of the 128 that a run reserves
READER_MEMORY = 1536 * boxes.MIB
_MENTION = re.compile(rb"""check\(\s*(?:id\s*=\s*)?\\?["']([A-Za-z0-9_-]{1,60})\\?["']""")
_IGNORED = {"__pycache__", ".ipynb_checkpoints", "__MACOSX", ".git", ".DS_Store", "Thumbs.db", "desktop.ini"}


class Refusal(Exception):
    """What was asked for cannot be done; the message says why, and what would help."""


@dataclass(frozen=True)
class Settings:
    """What a worker needs to know.

    out : folder of the results; ids : the exercises; specs : folder of a teacher's own exercises, or ""
    way, room, filter : how boxes are held in (`boxes.Box`); limits : of the learner's code
    secret : bytes; first_uid : where the workers' users begin, or None without root
    """

    out: str
    ids: tuple[str, ...]
    specs: str
    way: str
    room: str
    filter: bytes = field(repr=False)
    limits: boxes.Limits
    secret: bytes = field(repr=False)
    first_uid: int | None


# ---- what there is to do ----


def submissions(folder):
    """The relative paths of all files below a folder, sorted, and of folders that cannot be read or are links.

    What systems and editors leave behind is left out.
    """
    folder, found, closed = Path(folder), [], []
    for place, folders, files in os.walk(folder, onerror=closed.append):
        folders[:] = [name for name in folders if name not in _IGNORED]
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [Path(place, name) for name in [*files, *links] if name not in _IGNORED and not name.startswith("._")]
    found += [Path(error.filename) for error in closed]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def named(folder, names):
    """(the exercises that at least half of the submissions name in a `check`, {others that are named: how often})."""
    counts, readable = {}, 0
    for name in names:
        path = Path(folder, name)
        if path.is_symlink() or not path.is_file():
            continue
        with contextlib.suppress(OSError), path.open("rb") as file:
            text = file.read(submission.LARGEST)
            here = {found.decode().lower().replace("_", "-") for found in _MENTION.findall(text.replace(b"\0", b""))}
            readable += bool(here)
            for id in here:
                counts[id] = counts.get(id, 0) + 1
    known = [id for id in in_order(exercises.ids()) if id in counts]
    asked = [id for id in known if 2 * counts[id] >= readable]
    return asked, {id: counts[id] for id in known if id not in asked}


def in_order(ids):
    """Ids in the order of the chapters, and in a chapter by name."""
    return sorted(ids, key=lambda id: (exercises.load(id).chapter, id))


# ---- results ----


def result_file(out, name):
    """Where the result of a submission is kept; a name cannot lead elsewhere."""
    return Path(out, "results", f"{_hash(name)}.json")


def _hash(name):
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:24]


def write(path, text, mode=0o644):
    """Write a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(text)
    os.chmod(temporary, mode)
    os.replace(temporary, path)


def keep(out, name, result):
    """Write what the learner reads, and then the result, which says that it is done."""
    stem = report.file_name(result["submission"], _hash(name))
    write(Path(out, "feedback", f"{stem}.md"), report.as_markdown(result))
    write(Path(out, "feedback", f"{stem}.html"), report.as_html(result))
    write(result_file(out, name), json.dumps(result, indent=1, sort_keys=True) + "\n")


def done(out, folder, name):
    """Is there a result of this very file?"""
    try:
        result = json.loads(result_file(out, name).read_text(encoding="utf-8"))
        return result["submission"] == printable(name) and result["stamp"] == stamp(Path(folder, name))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def stamp(path):
    """What changes when a file does, without reading it all where it is too large to be graded."""
    try:
        about = os.lstat(path)
        if not path.is_file() or path.is_symlink() or about.st_size > submission.LARGEST:
            return f"{about.st_mode} {about.st_size}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"{error.errno}"


def printable(name):
    """A file's name as text that can be shown; bytes that are no text, and what controls a screen, are escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# ---- the work ----

_worker = None  # of this process: (Settings, reader, runner)


def begin(settings, number=None):
    """Make this process a worker, with a box to read in and a box to run in."""
    global _worker
    if number is not None:
        _die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
        with number.get_lock():
            index, number.value = number.value, number.value + 1
    else:
        index = 0
    if settings.specs:
        add_specs(settings.specs)
    uids = [None if settings.first_uid is None else settings.first_uid + 2 * index + box for box in (0, 1)]
    reading = boxes.Limits(submission.READING_SECONDS, READER_MEMORY)
    reader = boxes.Box("reader", settings.way, settings.room, reading, settings.filter, uids[0])
    runner = boxes.Box("runner", settings.way, settings.room, settings.limits, settings.filter, uids[1])
    _worker = settings, reader, runner


def finish():
    """End the boxes of this process."""
    if _worker is not None:
        for box in _worker[1:]:
            box.stop()


def work(folder, name):
    """Grade one submission, and keep the result."""
    settings, reader, runner = _worker
    path = Path(folder, name)
    before = stamp(path)
    result = submission.grade(path, printable(name), settings.ids, settings.secret, reader, runner)
    keep(settings.out, name, result | {"stamp": before})
    return result["points"]


def lost(folder, name, settings):
    """The result of a submission at which the grader's own process was lost twice."""
    parts = {
        id: {"points": 0, "out_of": exercises.load(id).points, "status": "missing", "found": "", "where": ""}
        | {"reason": "Not graded.", "lines": [], "diagnosis": "", "notes": [], "sound": False}
        for id in settings.ids
    }
    reason = "The grader's own process was lost twice at this file. Look at it by hand."
    out_of = sum(part["out_of"] for part in parts.values())
    told = {"submission": printable(name), "digest": "", "learner": "", "status": "unreadable", "reason": reason}
    told |= {"notes": [], "exercises": parts, "points": 0, "out_of": out_of, "stamp": stamp(Path(folder, name))}
    keep(settings.out, name, told)


def grade_all(folder, names, settings, workers):
    """Grade these submissions, `workers` at a time, with a progress bar."""
    with tqdm(total=len(names), unit=" submissions", desc="grading", disable=None) as bar:
        if workers == 1:
            begin(settings)
            try:
                for name in names:
                    work(folder, name)
                    bar.update()
            finally:
                finish()
            return
        waiting, suspects = list(reversed(names)), []
        while waiting or suspects:
            # after a worker was lost, one at a time, so that it is seen at which submission
            for name in suspects:
                if _with_pool(folder, [name], settings, 1, bar):
                    lost(folder, name, settings)
                    bar.update()
            suspects = _with_pool(folder, waiting, settings, workers, bar)


def _with_pool(folder, waiting, settings, workers, bar):
    """Take submissions from `waiting` until all are done; if a worker is lost, return those that were being graded."""
    context = multiprocessing.get_context("spawn")
    number = context.Value("i", 0)
    running = {}
    pool = concurrent.futures.ProcessPoolExecutor(workers, context, begin, (settings, number))
    try:
        try:
            pool.submit(_is_here).result()
        except BrokenProcessPool:
            raise boxes.BoxError("the grader's own processes do not start") from None
        while waiting or running:
            while waiting and len(running) < 2 * workers:  # memory does not grow with their number
                name = waiting.pop()
                running[name] = pool.submit(work, folder, name)
            concurrent.futures.wait(running.values(), return_when=concurrent.futures.FIRST_COMPLETED)
            for name in [name for name, future in running.items() if future.done()]:
                running[name].result()
                del running[name]
                bar.update()
        return []  # the boxes of a worker end with it
    except BrokenProcessPool:
        left = [name for name in {*running, name} if not done(settings.out, folder, name)]
        bar.update(len({*running, name}) - len(left))
        return sorted(left)
    except KeyboardInterrupt:
        # a second one would break off the end of the pool, which then waits for ever
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in list((pool._processes or {}).values()):
            process.kill()  # what one has not finished is graded again
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _is_here():
    pass


def _die_with_parent():
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


# ---- a run ----

_PREFIX = "transformer-block-grade-"


def _clear_away():
    """Remove the rooms of graders that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def prepared(way, limits):
    """(way, room, filter, first uid) for boxes on this machine; Refusal if nothing can hold them in."""
    try:
        place = _room()
    except (room.NoRoom, OSError, subprocess.SubprocessError) as error:
        raise Refusal(f"the room for learners' code cannot be built: {error}") from None
    filter_ = boxes.seccomp_program()
    with boxes.free_uids() as uid:
        found, why = boxes.choose(way, place, limits, filter_, uid)
        if not found:
            raise Refusal("\n".join(["no way to hold learners' code in was found:", *why, boxes.REMEDY]))
        yield found, place, filter_, uid if found != "none" else None


@functools.cache
def _room():
    """The room of this process, removed when it ends."""
    _clear_away()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)  # the boxes' users have to get to the room
    room.build(folder / "room")
    return folder / "room"


def run(folder, out, ids=(), specs="", seed="", limits=None, workers=0, resume=False, way="auto", say=print):
    """Grade a folder into another; returns the report.Counts. Refusal says what cannot be done.

    Parameters
    ----------
    folder, out : paths; ids : the exercises, by default those that at least half of the submissions name
    specs : folder of a teacher's own exercises; seed : text that seeds are made of, by default a new secret
    limits : boxes.Limits; workers : processes, by default one for each processor
    resume : go on with what is in `out`; way : "auto", "bwrap", "uid" or "none"; say : takes a line for the instructor
    """
    folder, out, limits = Path(folder), Path(out), limits or boxes.Limits()
    if not folder.is_dir():
        raise Refusal(f"{folder} is no folder; give the folder with the submissions")
    if folder.resolve() in [out.resolve(), *out.resolve().parents]:
        raise Refusal(f"--out {out}: the results would lie among the submissions; choose a folder outside")
    if specs:
        specs = Path(specs).resolve()
        try:
            add_specs(specs)
        except SpecError as error:
            raise Refusal(str(error)) from None
    names = submissions(folder)
    if not names:
        raise Refusal(f"{folder}: there is no submission in it")
    asked, secret = _asked(folder, out, names, ids, specs, seed, limits, resume)
    for part in ("results", "feedback"):
        (out / part).mkdir(parents=True, exist_ok=True)
    for leftover in [*out.glob(".*.part"), *out.glob("*/.*.part")]:
        leftover.unlink()
    left = [name for name in names if not (resume and done(out, folder, name))]
    say(f"{len(names)} submissions, {len(asked['exercises'])} exercises: {', '.join(asked['exercises'])}")
    if asked["left_out"]:
        left_out = ", ".join(f"{id} ({count})" for id, count in asked["left_out"].items())
        say(f"NOT graded, as fewer than half name them: {left_out}. --exercises says which to grade.")
    if resume:
        say(f"{len(names) - len(left)} were graded already")
    if left:
        with prepared(way, limits) as (found, place, filter_, uid):
            asked |= {"isolation": found, "filter": bool(filter_)}
            say(boxes.guarantee(found, bool(filter_)))
            settings = Settings(
                str(out), tuple(asked["exercises"]), str(specs), found, str(place), filter_, limits, secret, uid
            )
            workers = min(workers or len(os.sched_getaffinity(0)), len(left), MOST_WORKERS)
            write(out / "run.json", json.dumps(asked, indent=1) + "\n")
            grade_all(folder, left, settings, workers)
    counts = report.Counts(asked["exercises"], asked["left_out"])
    results = (counts.add(_result(out, name)) for name in names)
    write(out / "grades.csv", report.table(asked["exercises"], results))
    write(out / "report.md", report.summary(counts, boxes.guarantee(asked["isolation"], asked["filter"])))
    return counts


def _result(out, name):
    return json.loads(result_file(out, name).read_text(encoding="utf-8"))


def _asked(folder, out, names, ids, specs, seed, limits, resume):
    """(what is asked for, the secret); compared with what is in `out` already."""
    file, before = out / "run.json", None
    if file.exists():
        if not resume:
            raise Refusal(f"--out {out}: there are results in it; --resume goes on with them, or choose another folder")
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise Refusal(f"{file} is damaged; choose another --out folder") from None
    elif out.exists() and any(path.suffix != ".part" for path in out.iterdir()):  # a run killed at its first breath
        raise Refusal(f"--out {out}: the folder is not empty, and holds no results; choose another")
    for id in ids:
        if id not in exercises.ids():
            close = difflib.get_close_matches(id.replace("_", "-").lower(), exercises.ids(), n=3, cutoff=0.4)
            there = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(exercises.ids())}"
            raise Refusal(f"--exercises: there is no exercise {id}; {there}")
    left_out = before["left_out"] if before else {}
    if before and not ids:
        ids = before["exercises"]
    elif not ids:
        ids, left_out = named(folder, names)
    if not ids:
        raise Refusal("no exercise is named by half of the submissions; say which to grade: --exercises rope,gate")
    asked = {"version": VERSION, "exercises": list(ids), "specs": str(specs), "limits": asdict(limits)}
    asked |= {"specs_digest": digest(specs) if specs else "", "left_out": left_out}
    asked |= {key: (before or {}).get(key, "") for key in ("isolation", "filter")}
    if before:
        if before.get("specs_digest") != asked["specs_digest"]:
            raise Refusal(f"--resume: the exercises in {specs} have changed; choose another --out folder")
        for key in ("version", "exercises", "specs", "limits"):
            if before.get(key) != asked[key]:
                raise Refusal(
                    f"--resume: {key} was {before.get(key)}, and is {asked[key]}; choose another --out folder"
                )
    out.mkdir(parents=True, exist_ok=True)
    if not before:
        write(file, json.dumps(asked, indent=1) + "\n")
    secret = out / "secret"
    if not secret.exists():
        write(secret, seed or secrets.token_hex(16), 0o600)
    elif seed and secret.read_text() != seed:
        raise Refusal("--resume: the seed was another one; leave --seed out, or choose another --out folder")
    return asked, secret.read_text().encode()
