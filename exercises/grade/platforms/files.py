"""Opens what a platform gave out, a folder or an archive that nobody trusts, one file at a time."""

import os
import re
import stat
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from exercises.grade import run
from exercises.grade.run import Refusal

LARGEST = 100_000_000  # bytes of one file, as nbgrader's coursedir.max_file_size; a grader reads a third of it
MOST_ENTRIES = 500_000  # of one archive
LATEST = 4_000_000_000  # seconds, in 2096: whoever owns a file can give it a time that is in no calendar


class Bad(Exception):
    """A file that cannot be taken; the message says why."""


@dataclass(frozen=True)
class Entry:
    """A file in a source.

    path : str, its parts with / between them, none of which leads elsewhere
    time : datetime, of its last change, or None
    why : str, why it cannot be taken, "" if it may be tried
    """

    path: str
    time: datetime | None
    why: str = ""
    place: object = field(default=None, repr=False)

    @property
    def parts(self):
        return self.path.split("/")


def parts(name):
    """The parts of a path that are names: nothing absolute, no `..`, no drive."""
    found = name.replace("\\", "/").split("/")
    return [part for part in found if part not in ("", ".", "..") and not re.fullmatch(r"[A-Za-z]:", part)]


def is_wanted(names):
    """Is it a file of somebody's, or what systems and editors leave behind?"""
    return not any(name in run.IGNORED or name.startswith("._") for name in names)


class Folder:
    """The files below a folder; links are not followed.

    repositories : the relative paths of the folders below it that are checkouts of git, a set
    """

    archive = False

    def __init__(self, path):
        self.path, self.entries, self.repositories = Path(path), [], set()
        closed = []
        for place, folders, files in os.walk(path, onerror=closed.append):
            here = Path(place).relative_to(path)
            if ".git" in [*folders, *files] and here.parts:
                self.repositories.add(here.as_posix())
            folders[:] = sorted(name for name in folders if is_wanted([name]))
            links = [name for name in folders if Path(place, name).is_symlink()]
            self.entries += [self._entry(here / name) for name in sorted([*files, *links]) if is_wanted([name])]
        for error in closed:
            where = Path(error.filename).relative_to(path).as_posix()
            self.entries.append(Entry(run.printable(where), None, f"cannot be opened: {error.strerror}"))

    def _entry(self, relative):
        name = run.printable(relative.as_posix())
        try:
            about = os.lstat(self.path / relative)
        except OSError as error:  # it is gone
            return Entry(name, None, f"cannot be opened: {error.strerror}")
        why = "" if stat.S_ISREG(about.st_mode) else _no_file(about.st_mode)
        time = datetime.fromtimestamp(min(max(about.st_mtime, 0), LATEST), UTC)
        return Entry(name, time, why, place=relative)

    def read(self, entry):
        """The bytes of a file; Bad says why not."""
        _may_be_tried(entry)
        try:
            with os.fdopen(_opened(self.path, entry.place.parts), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise Bad("is no ordinary file")
                return _bounded(file)
        except OSError as error:
            raise Bad(f"cannot be opened: {error.strerror}") from None

    def close(self):
        """Nothing is open."""


class Zip:
    """The files in a zip, unpacked in memory one by one; never by the names and sizes that it claims."""

    archive = True
    repositories = frozenset()

    def __init__(self, path):
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except Exception as error:  # what is damaged raises this and that in it
            raise Refusal(f"{path}: the archive is damaged ({error}); download it again") from None
        infos = [info for info in self._zip.infolist() if not info.filename.endswith("/")]
        if len(infos) > MOST_ENTRIES:
            raise Refusal(f"{path}: {len(infos)} files are in it, and at most {MOST_ENTRIES} are taken")
        self.entries = [entry for info in infos if (entry := self._entry(info)) is not None]

    def _entry(self, info):
        names = parts(_name(info))
        if not is_wanted(names):
            return None
        mode = info.external_attr >> 16
        why = _no_file(mode) if stat.S_IFMT(mode) not in (0, stat.S_IFREG) else ""
        if info.flag_bits & 1:
            why = "is protected by a password"
        try:
            time = datetime(*info.date_time).astimezone()  # an archive's times are those of a clock on a wall
        except (ValueError, OverflowError):
            time = None
        return Entry(run.printable("/".join(names)) or "unnamed", time, why, info)

    def read(self, entry):
        """The bytes of a file; Bad says why not."""
        _may_be_tried(entry)
        try:
            with self._zip.open(entry.place) as file:
                return _bounded(file)
        except Bad:
            raise
        except Exception as error:  # of four ways to pack, each has errors of its own
            raise Bad(f"cannot be unpacked: {run.printable(str(error)) or type(error).__name__}") from None

    def close(self):
        """Close the archive."""
        self._zip.close()


def _opened(root, names):
    """A handle of a file below a folder. Its owner may put a link in the place of any part at any time: none counts."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, name in enumerate(names, 1):
        above = handle
        try:
            handle = os.open(name, flags | (os.O_DIRECTORY if number < len(names) else 0), dir_fd=above)
        finally:
            os.close(above)
    return handle


def _name(info):
    """What a file in a zip is called. Without the mark for UTF-8, Python takes it for code page 437; most are UTF-8."""
    if not info.flag_bits & 0x800:
        try:
            return info.filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return info.filename


def _may_be_tried(entry):
    if entry.why:
        raise Bad(entry.why)


def _no_file(mode):
    return "is a link, and links are not followed" if stat.S_ISLNK(mode) else "is no ordinary file"


def _bounded(file):
    data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Bad(f"has more than {LARGEST // 1_000_000} MB")
    return data
