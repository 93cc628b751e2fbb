"""Grades a folder: who does what, what is kept, and how a run that was cut off goes on.

Workers grade: this process, processes of this machine, or a cluster's (`cluster`). This process alone writes:

OUT/results/*.json   one for each submission, written whole or not at all: the run itself
OUT/feedback/        for the learners (`report`)
OUT/grades.csv       made of the results at the end, like OUT/report.md
OUT/run.json         what was asked for; OUT/secret, what the seeds are made of
"""

import atexit
import collections
import concurrent.futures
import contextlib
import ctypes
import difflib
import functools
import hashlib
import itertools
import json
import multiprocessing
import os
import queue
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm import tqdm

import exercises
import scratch
from exercises.grade import boxes, report, room, submission
from exercises.grade.specs import SpecError, add_specs, digest

VERSION = 1
MOST_WORKERS = 64  # each has two users of the 128 that a run reserves
JUDGING = {"answer.py", "boxes.py", "closing.py", "inside", "room.py", "submission.py"}  # of this folder
READER_MEMORY = 1536 * boxes.MIB
_MENTION = re.compile(rb"""check\(\s*(?:id\s*=\s*)?\\?["']([A-Za-z0-9_-]{1,60})\\?["']""")
IGNORED = {"__pycache__", ".ipynb_checkpoints", "__MACOSX", ".git", ".DS_Store", "Thumbs.db", "desktop.ini"}


class Refusal(Exception):
    """What was asked for cannot be done; the message says why, and what would help."""


class Stopped(Refusal):
    """A run that was going on cannot go on; what is graded is kept."""


@dataclass(frozen=True)
class Settings:
    """What a worker needs to know.

    ids : the exercises; specs : folder of a teacher's own exercises, or ""
    limits : of the learner's code; secret : bytes
    way, room, filter : how boxes are held in (`boxes.Box`)
    first_uid : where the workers' users begin, or None without root
    """

    ids: tuple[str, ...]
    specs: str
    limits: boxes.Limits
    secret: bytes = field(repr=False)
    way: str
    room: str
    filter: bytes = field(repr=False)
    first_uid: int | None


# ---- what there is to do ----


def submissions(folder):
    """The relative paths of all files below a folder, sorted, and of folders that cannot be read or are links.

    What systems and editors leave behind is left out.
    """
    folder, found, closed = Path(folder), [], []
    for place, folders, files in os.walk(folder, onerror=closed.append):
        folders[:] = [name for name in folders if name not in IGNORED]
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [Path(place, name) for name in [*files, *links] if name not in IGNORED and not name.startswith("._")]
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


def changed(key, before, now):
    """In words, how what is asked for differs from what was."""
    if isinstance(before, list) and set(before) != set(now):
        new, gone = [id for id in now if id not in before], [id for id in before if id not in now]
        told = [f"{', '.join(ids)} {what}" for ids, what in ((new, "came in addition"), (gone, "is left out")) if ids]
        return f"the {key} have changed: {'; '.join(told)}"
    return f"{key} was {before}, and is {now}"


def must_be_known(where, ids):
    """Refusal for the first of these ids that is none, with those that are like it."""
    for id in ids:
        if id not in exercises.ids():
            close = difflib.get_close_matches(id.replace("_", "-").lower(), exercises.ids(), n=3, cutoff=0.4)
            there = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(exercises.ids())}"
            raise Refusal(f"{where}: there is no exercise {id}; {there}")


def in_order(ids):
    """Ids in the order of the chapters, and in a chapter by name."""
    return sorted(ids, key=lambda id: (exercises.load(id).chapter, id))


# ---- results ----


def result_file(out, name):
    """Where the result of a submission is kept; a name cannot lead elsewhere."""
    return Path(out, "results", f"{hashed(name)}.json")


def hashed(name):
    """What stands for a submission's name in the names of files."""
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
    stem = report.file_name(result["submission"], hashed(name))
    write(Path(out, "feedback", f"{stem}.md"), report.as_markdown(result))
    write(Path(out, "feedback", f"{stem}.html"), report.as_html(result))
    write(result_file(out, name), json.dumps(result, sort_keys=True) + "\n")


def results(out, names):
    """The results of these submissions, one after another, each as `submission.grade` made it."""
    for name in names:
        yield json.loads(result_file(out, name).read_text(encoding="utf-8"))


def done(out, folder, name):
    """Is there a result of this very file?"""
    try:
        (result,) = results(out, [name])
        path = Path(folder, name)
        return result["submission"] == printable(name) and result["stamp"] == stamp(path, submission.contents(path))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def stamp(path, data):
    """What changes when a file does; `data` are its `submission.contents`."""
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    try:
        about = os.lstat(path)
        return f"{about.st_mode} {about.st_size}"
    except OSError as error:
        return f"{error.errno}"


def printable(name):
    """A file's name as text that can be shown; bytes that are no text, and what controls a screen, are escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# ---- a worker ----

_worker = None  # of this process: (Settings, reader, runner)


def begin(settings, number=None):
    """Make this process a worker, with a box to read in and a box to run in; a process of its own has a number."""
    global _worker
    if number is not None:
        _die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    if settings.specs:
        add_specs(settings.specs)
    first = None if settings.first_uid is None else settings.first_uid + 2 * (number or 0)
    uids = [None if first is None else first + box for box in (0, 1)]
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
    """The result of a submission that lies on this machine."""
    path = Path(folder, name)
    data = submission.contents(path)
    return grade(name, data, stamp(path, data))


def grade(name, data, stamp):
    """The result of a submission with these `submission.contents`."""
    settings, reader, runner = _worker
    result = submission.grade(printable(name), data, settings.ids, settings.secret, reader, runner)
    return result | {"stamp": stamp}


def lost(folder, name, ids):
    """The result of a submission at which the grader's own process was lost twice."""
    reason = submission.Unreadable("The grader's own process was lost twice at this file. Look at it by hand.")
    path = Path(folder, name)
    found = submission.grade(printable(name), reason, ids, b"", None, None)
    return found | {"stamp": stamp(path, submission.contents(path))}


class Processes:
    """A process that grades for each thread that asks; one that is lost costs only what it was doing."""

    def __init__(self, settings):
        self._settings, self._numbers, self._pools = settings, itertools.count(), []
        self._mine = threading.local()

    def do(self, function, *job):
        """What a function returns in the process of this thread; BrokenProcessPool if the process was lost at it."""
        pool = getattr(self._mine, "pool", None) or self._start()
        try:
            return pool.submit(function, *job).result()
        except BrokenProcessPool:
            self._mine.pool = None
            raise

    def _start(self):
        if not hasattr(self._mine, "number"):
            self._mine.number = next(self._numbers)
        start = self._settings, self._mine.number
        pool = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), begin, start)
        self._pools.append(pool)
        try:
            pool.submit(_is_here).result()
        except BrokenProcessPool:
            raise boxes.BoxError("the grader's own processes do not start") from None
        self._mine.pool = pool
        return pool

    def stop(self, kill=False):
        """End the processes; their boxes end with them."""
        for pool in self._pools:
            for process in list((pool._processes or {}).values()) if kill else ():
                process.kill()
            pool.shutdown(cancel_futures=True)


def _is_here():
    pass


def _die_with_parent():
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


# ---- workers of this machine ----


class Here:
    """Grades in this process, one submission at a time."""

    def __init__(self, settings):
        begin(settings)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        finish()

    def most(self):
        """How many submissions may be under way."""
        return 1

    def submit(self, folder, name):
        """A concurrent Future with the result of a submission; BrokenProcessPool if a process was lost at it."""
        future = concurrent.futures.Future()
        try:
            future.set_result(work(folder, name))
        except Exception as error:
            future.set_exception(error)
        return future


class Local:
    """Grades in so many processes of this machine."""

    def __init__(self, settings, workers):
        self._workers, self._processes = workers, Processes(settings)
        self._threads = concurrent.futures.ThreadPoolExecutor(workers)

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        before = None
        if kind is KeyboardInterrupt:  # a second one would break off what ends the processes
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._processes.stop(kill=kind is not None)  # what one has not finished is graded again
        self._threads.shutdown()
        if before is not None:
            signal.signal(signal.SIGINT, before)

    def most(self):
        """How many submissions may be under way."""
        return 2 * self._workers

    def submit(self, folder, name):
        """A concurrent Future with the result of a submission; BrokenProcessPool if a process was lost at it."""
        return self._threads.submit(self._processes.do, work, folder, name)


def grade_all(folder, names, ids, workers, keep):
    """Grade these submissions, and `keep(name, result)` each, with a progress bar.

    `workers` is a Here, a Local or a Cluster. Submissions at which a process was lost are graded again at the end, one
    at a time, so that it is seen at which it is lost.
    """
    with tqdm(total=len(names), unit=" submissions", desc="grading", disable=None) as bar:

        def kept(name, result):
            keep(name, result)
            bar.update()

        for name in _grade_all(folder, names, workers, kept):
            for _ in _grade_all(folder, [name], workers, kept):
                kept(name, lost(folder, name, ids))


def _grade_all(folder, names, workers, keep):
    """Grade these submissions; returns those at which a process was lost."""
    waiting, running, finished, suspects = collections.deque(names), 0, queue.SimpleQueue(), []
    while waiting or running:
        for _ in range(min(len(waiting), workers.most() - running)):  # memory does not grow with their number
            name = waiting.popleft()
            workers.submit(folder, name).add_done_callback(lambda future, name=name: finished.put((name, future)))
            running += 1
        try:
            name, future = finished.get(timeout=0.5)
        except queue.Empty:  # there may be more workers now
            continue
        running -= 1
        try:
            keep(name, future.result())
        except BrokenProcessPool:
            suspects.append(name)
    return sorted(suspects)


# ---- a run ----

_PREFIX = "transformer-block-grade-"


def _clear_away():
    """Remove the rooms of graders that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def prepared(way, limits, place=None):
    """(way, room, filter, first uid) for boxes on this machine; Refusal if nothing can hold them in.

    `place` is a room that `room.build` built before, with this Python and this course; by default one is built.
    """
    try:
        place = place or _room()
    except (room.NoRoom, OSError, subprocess.SubprocessError) as error:
        raise Refusal(f"the room for learners' code cannot be built: {error}") from None
    filter_ = boxes.seccomp_program()
    with boxes.free_uids() as uid:
        found, why = boxes.choose(way, place, limits, filter_, uid)
        if not found:
            raise Refusal("\n".join(["no way to hold learners' code in was found:", *why, boxes.REMEDY]))
        yield found, place, filter_, uid if found != "none" else None


@contextlib.contextmanager
def new_room():
    """The folder of a new room, which is removed at the end."""
    _clear_away()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        folder.chmod(0o755)  # the boxes' users have to get to the room
        room.build(folder / "room")
        yield folder / "room"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _room():
    """The room of this process, removed when it ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(new_room())


@functools.cache
def course():
    """What changes when something does that decides on a result: an exercise, a check, the library, how code is run."""
    found = hashlib.sha256()
    for root in (Path(package.__file__).parent for package in (exercises, scratch)):
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root).parts
            if root.name == "exercises" and name[0] == "grade" and name[1] not in JUDGING:
                continue
            found.update("/".join([root.name, *name, ""]).encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def run(
    folder,
    out,
    ids=(),
    specs="",
    seed="",
    limits=None,
    workers=0,
    resume=False,
    way="auto",
    say=print,
    dask="",
    anew="choose another --out folder",
):
    """Grade a folder into another; returns the report.Counts. Refusal says what cannot be done.

    Parameters
    ----------
    folder, out : paths; ids : the exercises, by default those that at least half of the submissions name
    specs : folder of a teacher's own exercises; seed : text that seeds are made of, by default a new secret
    limits : boxes.Limits; workers : processes, by default one for each processor
    resume : go on with what is in `out`, if there is something; way : "auto", "bwrap", "uid" or "none"
    say : takes a line for the instructor; dask : address of a Dask scheduler, whose workers then grade
    anew : what helps where `out` holds results that are not to be mixed with these
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
    asked, secret = _asked(folder, out, names, ids, specs, seed, limits, resume, anew)
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
        given = {"ids": tuple(asked["exercises"]), "specs": str(specs), "limits": limits, "secret": secret}
        count = min(workers or len(os.sched_getaffinity(0)), len(left), MOST_WORKERS)
        with _workers(given, way, count, dask, _Held(out, asked, say), say) as grading:
            grade_all(folder, left, asked["exercises"], grading, functools.partial(keep, out))
    counts = report.Counts(asked["exercises"], asked["left_out"])
    write(out / "grades.csv", report.table(asked["exercises"], map(counts.add, results(out, names))))
    write(out / "report.md", report.summary(counts, boxes.guarantee(asked["isolation"], asked["filter"])))
    return counts


@contextlib.contextmanager
def _workers(given, way, count, dask, held, say):
    """What grades: a Here, a Local or a Cluster."""
    if dask:
        try:
            from exercises.grade import cluster
        except ModuleNotFoundError as error:
            remedy = 'pip install "transformer-block[cluster]"'
            raise Refusal(f"--dask: the package {error.name} is not installed: {remedy}") from None
        with cluster.Cluster(dask, given, way, held, say) as grading:
            yield grading
        return
    with prepared(way, given["limits"]) as (found, place, filter_, uid):
        held(found, bool(filter_))
        settings = Settings(**given, way=found, room=str(place), filter=filter_, first_uid=uid)
        with Here(settings) if count == 1 else Local(settings, count) as grading:
            yield grading


class _Held:
    """Says and keeps how code is held in. Of several machines, and of a run and what goes on with it, the weakest."""

    def __init__(self, out, asked, say):
        self._out, self._asked, self._say, self._said = out, asked, say, set()

    def __call__(self, way, filtered):
        if (way, filtered) in self._said:
            return
        self._said.add((way, filtered))
        self._say(boxes.guarantee(way, filtered))
        before = self._asked["isolation"], self._asked["filter"]
        ways = ("", "bwrap", "uid", "none")
        weakest = max([before, (way, filtered)], key=lambda one: (ways.index(one[0]), not one[1]))
        self._asked["isolation"], self._asked["filter"] = weakest
        write(self._out / "run.json", json.dumps(self._asked, indent=1) + "\n")


def _asked(folder, out, names, ids, specs, seed, limits, resume, anew):
    """(what is asked for, the secret); compared with what is in `out` already."""
    file, before = out / "run.json", None
    if file.exists():
        if not resume:
            raise Refusal(f"--out {out}: there are results in it; --resume goes on with them, or {anew}")
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise Refusal(f"{file} is damaged; {anew}") from None
    elif out.exists() and any(path.suffix != ".part" for path in out.iterdir()):  # a run killed at its first breath
        raise Refusal(f"--out {out}: the folder is not empty, and holds no results; choose another")
    must_be_known("--exercises", ids)
    left_out = before["left_out"] if before else {}
    if before and not ids:
        ids = before["exercises"]
    elif not ids:
        ids, left_out = named(folder, names)
    if not ids:
        raise Refusal("no exercise is named by half of the submissions; say which to grade: --exercises rope,gate")
    asked = {"version": VERSION, "exercises": list(ids), "specs": str(specs), "limits": asdict(limits)}
    asked |= {"specs_digest": digest(specs) if specs else "", "course": course(), "left_out": left_out}
    asked |= {key: (before or {}).get(key, "") for key in ("isolation", "filter")}
    if before:
        if before.get("specs_digest") != asked["specs_digest"]:
            raise Refusal(f"{out}: the exercises in {specs} have changed since; {anew}")
        if before.get("course") != asked["course"]:
            raise Refusal(f"{out}: the course's own code was another one, and might judge otherwise; {anew}")
        for key in ("version", "exercises", "specs", "limits"):
            if before.get(key) != asked[key]:
                raise Refusal(f"{out}: {changed(key, before.get(key), asked[key])}; {anew}")
    out.mkdir(parents=True, exist_ok=True)
    if not before:
        write(file, json.dumps(asked, indent=1) + "\n")
    secret = out / "secret"
    if not secret.exists():
        write(secret, seed or secrets.token_hex(16), 0o600)
    elif seed and secret.read_text() != seed:
        raise Refusal(f"{out}: the seed was another one; leave --seed out, or {anew}")
    return asked, secret.read_text().encode()
