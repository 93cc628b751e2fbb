"""Builds the room: the file tree that is all a box can see. The interpreter, NumPy and what is in `inside`, read-only.

Both ways of isolation use the same tree: bubblewrap mounts it as the root, the other way changes its root to it. The
reader's packages are in it too, for the process that reads notebooks; nothing of the course is.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from packaging.requirements import Requirement

from exercises.engine import fingerprints

INSIDE = Path(__file__).parent / "inside"
PYTHON, SHARED = "/python/bin/python3", "/python/shared"  # in the room
# parts of the standard library that no answer imports and that are large
_LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data"}
_LEFT_OUT |= {"site-packages", "dist-packages"}  # where the course may be installed
DEVICES = ("null", "zero", "full", "random", "urandom")


class NoRoom(Exception):
    """The room cannot be built on this machine; the message says why."""


def build(folder):
    """Build the room in this folder, which must not exist."""
    folder = Path(folder)
    folder.mkdir(mode=0o755)
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard = Path(sysconfig.get_path("stdlib"))
    inside_standard = folder / "python" / sys.platlibdir / library
    _copy(standard, inside_standard)
    executable = folder / PYTHON.lstrip("/")
    executable.parent.mkdir(parents=True)
    _copy_file(os.path.realpath(sys.executable), executable)
    _copy_distribution("numpy", folder / "packages" / "runner")
    for name in sorted(_needed("jupytext") | _needed("ipython")):
        _copy_distribution(name, folder / "packages" / "reader")
    shutil.copytree(INSIDE, folder / "inside", ignore=shutil.ignore_patterns("__pycache__"), copy_function=_copy_file)
    shutil.copy2(fingerprints.__file__, folder / "inside" / "fingerprints.py")
    for name in ("dev", "tmp"):
        (folder / name).mkdir()
    for name in DEVICES:
        (folder / "dev" / name).touch()
    _copy_shared_libraries(folder)
    _compile(folder)
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir())):
        path.chmod(0o755)


def _copy(source, target):
    shutil.copytree(
        source,
        target,
        copy_function=_copy_file,
        ignore=lambda folder, names: [n for n in names if n in _LEFT_OUT or n.startswith("config-")],
    )


def _copy_file(source, target):
    """A second name for the file where that is possible, which takes no time; a copy elsewhere."""
    source = os.path.realpath(source)
    mode = os.stat(source).st_mode
    if mode & 0o444 == 0o444:
        try:
            os.link(source, target)
            return target
        except OSError:
            pass
    shutil.copy2(source, target)
    os.chmod(target, mode | (0o555 if mode & 0o100 else 0o444))  # it may have been private to whoever installed it
    return target


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


def _copy_distribution(name, target):
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
            _copy_file(source, target / file)


def _copy_shared_libraries(folder):
    """What the interpreter and the packages are linked with, at the places where the loader looks for it."""
    binaries = [str(folder / PYTHON.lstrip("/")), *map(str, folder.rglob("*.so")), *map(str, folder.rglob("*.so.*"))]
    if shutil.which("ldd") is None:
        raise NoRoom("ldd is not there, which comes with the C library")
    said = subprocess.run(["ldd", *binaries], capture_output=True, text=True).stdout
    for path in sorted(set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, flags=re.MULTILINE))):
        # what stands elsewhere, in somebody's home perhaps, is found by LD_LIBRARY_PATH
        standard = path.startswith(("/lib", "/usr/lib"))
        target = folder / path.lstrip("/") if standard else folder / SHARED.lstrip("/") / Path(path).name
        if not path.startswith(str(folder)) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_file(path, target)


def _compile(folder):
    """Compile what has no compiled file yet: the room is read-only, so nobody can do it later."""
    command = [sys.executable, "-m", "compileall", "-q", "-s", str(folder), "-p", "/", str(folder / "inside")]
    subprocess.run(command, check=True)
