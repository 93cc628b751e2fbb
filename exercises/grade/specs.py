"""A teacher's own exercises: files like those of the course, in a folder that learners do not see."""

import hashlib
import sys
from pathlib import Path

import numpy as np

import exercises
from exercises.spec import Code, Exercise


class SpecError(Exception):
    """A folder or a file that holds no exercise; the message says why."""


def add_specs(folder):
    """Make the exercises of a folder known to `exercises.load` and `ids`; doing it again changes nothing."""
    folder = Path(folder).resolve()
    if not folder.is_dir():
        raise SpecError(f"--specs: {folder} is no folder")
    if str(folder) in exercises.__path__:
        return
    course = set(exercises.ids())
    files = sorted(folder.glob("[!_]*.py"))
    for path in files:
        id = path.stem.replace("_", "-")
        if id in course:
            raise SpecError(f"--specs: {path.name}: the course has an exercise {id} already; give yours another name")
    exercises.__path__.append(str(folder))
    for path in files:
        try:
            _look(path.stem.replace("_", "-"))
        except Exception as error:
            exercises.__path__.remove(str(folder))
            sys.modules.pop(f"exercises.{path.stem}", None)
            raise SpecError(f"--specs: {path.name} is no exercise: {type(error).__name__}: {error}") from None


def _look(id):
    """Raise if what a file holds is no exercise that can be judged."""
    exercise = exercises.load(id)
    if not isinstance(exercise, Exercise):
        raise TypeError("`exercise` must be a Code, a Number, a Choice or an Order")
    if exercise.id != id:
        raise ValueError(f'its id is "{exercise.id}", and must be "{id}", after the name of the file')
    if isinstance(exercise, Code) and exercise.rounding is None:
        right = exercise.reference(*next(iter(exercise.cases(np.random.default_rng(0)))))
        if any(
            isinstance(r, np.ndarray) and r.dtype.kind == "f" for r in (right if isinstance(right, tuple) else (right,))
        ):
            raise ValueError("it returns floats, and has no `rounding` to say how exact they can be")


def of_the_course(id):
    """Is this an exercise of the course, which its learners can `check`?"""
    module = __import__(f"exercises.{id.replace('-', '_')}", fromlist=["exercise"])
    return Path(module.__file__).parent == Path(exercises.__file__).parent


def digest(folder):
    """What changes when one of the files does."""
    files = sorted(Path(folder).glob("*.py"))
    return hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in files)).hexdigest()[:16]
