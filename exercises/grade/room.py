"""Builds the room: the file tree that is all a box can see. The interpreter, NumPy and what is in `inside`, read-only.

Both ways of isolation use the same tree: bubblewrap mounts it as the root, the other way changes its root to it. There
are two, for the process that runs learners' code and for the one that reads notebooks, with its packages. Of the course
there is nothing in them.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from packaging.requirements import Requirement

from exercises.engine import fingerprints

INSIDE = Path(__file__).parent / "inside"
PYTHON, SHARED = "/python/bin/python3", "/python/shared"  # in the room
# parts of the standard library that no answer imports and that are large
_LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data"}
_LEFT_OUT |= {"site-packages", "dist-packages"}  # where the course may be installed
# and what draws in libraries of the system
_LEFT_OUT_TOO = ("config-", "_tkinter", "_curses", "readline", "_dbm", "_gdbm", "_sqlite3", "_ssl", "_test", "xx")
DEVICES = ("null", "zero", "full", "random", "urandom")


class NoRoom(Exception):
    """The room cannot be built on this machine; the message says why."""


def build(folder):
    """Build both rooms in this folder, which must not exist: `runner` and `reader`, for the two kinds of box.

    The runner's consists of copies: nothing that a learner's code does to a file there reaches the machine's own.
    """
    folder = Path(folder)
    folder.mkdir(mode=0o755)
    for kind, packages, put in (
        ("runner", {"numpy"}, _copy_file),
        ("reader", {"numpy"} | _needed("ipython"), _link_file),
    ):
        _build(folder / kind, sorted(packages), put)
    for path in _shared_libraries(folder):
        # what stands elsewhere, in somebody's home perhaps, is found by LD_LIBRARY_PATH
        standard = path.startswith(("/lib", "/usr/lib"))
        for kind, put in (("runner", _copy_file), ("reader", _link_file)):
            target = folder / kind / (path.lstrip("/") if standard else f"{SHARED.lstrip('/')}/{Path(path).name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            put(path, target)
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir())):
        path.chmod(0o755)
    _keep_times(folder / "runner")


def _build(folder, packages, put):
    folder.mkdir()
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    _put_tree(Path(sysconfig.get_path("stdlib")), folder / "python" / sys.platlibdir / library, put)
    executable = folder / PYTHON.lstrip("/")
    executable.parent.mkdir(parents=True)
    put(os.path.realpath(sys.executable), executable)
    for name in packages:
        _put_distribution(name, folder / "packages", put)
    _put_tree(INSIDE, folder / "inside", put)
    put(fingerprints.__file__, folder / "inside" / "fingerprints.py")
    for name in ("dev", "tmp"):
        (folder / name).mkdir()
    for name in DEVICES:
        (folder / "dev" / name).touch()


def _put_tree(source, target, put):
    def left_out(folder, names):
        return [name for name in names if name in _LEFT_OUT or name.startswith(_LEFT_OUT_TOO)]

    shutil.copytree(source, target, copy_function=put, ignore=left_out)


def _copy_file(source, target):
    shutil.copy2(os.path.realpath(source), target)
    # it may have been private to whoever installed it, or open to everybody
    os.chmod(target, 0o755 if os.access(source, os.X_OK) else 0o644)


def _link_file(source, target):
    """A second name for the file where that is possible, which takes no time; a copy elsewhere."""
    source = os.path.realpath(source)
    mode = os.stat(source).st_mode
    if mode & 0o444 == 0o444 and not mode & 0o022:
        try:
            os.link(source, target)
            return
        except OSError:
            pass
    _copy_file(source, target)


def _keep_times(folder):
    """Give all a time of access that reading does not change, as it lies ahead: it would be a message to the next."""
    ahead = time.time() + 10 * 365 * 24 * 3600
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (ahead, path.stat().st_mtime))


def _needed(distribution, known=None):
    """The names of a distribution and of all that it requires here."""
    known = set() if known is None else known
    name = re.sub(r"[-_.]+", "-", distribution).lower()
    if name in known:
        return known
    known.add(name)
    for line in importlib.metadata.requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            _needed(requirement.name, known)
    return known


def _put_distribution(name, target, put):
    """The files of an installed distribution that are imported."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        remedy = 'pip install "transformer-block[grade]"'
        raise NoRoom(f"the package {name} is not installed, which reading notebooks needs: {remedy}") from None
    for file in set(distribution.files or ()):  # which may name one twice
        parts = file.parts
        if ".." in parts or _LEFT_OUT & set(parts[1:]) or parts[0] == "bin":
            continue
        source = Path(distribution.locate_file(file))
        if source.is_file():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            put(source, target / file)


def _shared_libraries(folder):
    """What the interpreter and the packages are linked with, and do not bring along."""
    if shutil.which("ldd") is None:
        raise NoRoom("ldd is not there, which comes with the C library")
    # the reader's has all that is in the runner's
    reader = folder / "reader"
    binaries = [reader / PYTHON.lstrip("/"), *reader.rglob("*.so"), *reader.rglob("*.so.*")]
    said = subprocess.run(["ldd", *binaries], capture_output=True, text=True).stdout
    found = set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, flags=re.MULTILINE))
    return sorted(path for path in found if not path.startswith(str(folder)))
