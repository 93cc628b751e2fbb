"""How a command ends that cannot do what it was asked to: one line on the screen, and an exit status."""

import sys

from exercises.grade.boxes import BoxError
from exercises.grade.run import Refusal, Stopped
from exercises.grade.specs import SpecError


def status_of(do, then=""):
    """The exit status of `do()`; 2 if something hinders it, and 130 if a person stops it, told in one line.

    then : what is kept, and what to do next; an instructor reads it where nothing is wrong with what was asked for
    """
    status, after = 2, f"; {then}" if then else ""
    try:
        return do()
    except Stopped as stopped:
        told = f"error: {stopped}{after}"
    except (Refusal, SpecError) as refusal:
        told = f"error: {refusal}"
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        told = f"error: {where}{error.strerror or error}{after}"
    except BoxError as error:
        told = f"error: a sandbox does not start any more: {error}{after}"
    except KeyboardInterrupt:
        status, told = 130, f"stopped{after}"
    print(told, file=sys.stderr)
    return status
