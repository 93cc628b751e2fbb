"""The rules of an assignment, which its assignment.toml holds."""

import contextlib
import json
import tomllib
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path

from exercises.grade import CALL
from exercises.grade.run import Refusal

FILE = "assignment.toml"
ATTEMPTS = ("best", "last")
YEARS = range(1970, 2100)  # what is outside is a slip of the pen, or a clock that was set to deceive
_TEXT = """\
# The rules of this assignment. `due`, `attempts` and [late] can be changed at any time: the next run uses them. Other
# exercises or limits are other grades: --regrade shows the difference.

title = {title}
exercises = {exercises}  # [] grades those that half of the submissions name
{specs}  # a folder with exercises of your own, as seen from here
{due}  # without a time zone it is this machine's
attempts = "{attempts}"  # which of several counts: "best" or "last"
# seconds = 10  # for the code of one exercise
# memory = 2048  # MiB for it

[late]
grace_minutes = {grace_minutes:g}  # not late yet
percent_per_day = {percent_per_day:g}  # of the points earned, for each day begun
{days}  # and nothing after so many days
"""


@dataclass(frozen=True)
class Assignment:
    """What an instructor decides on one assignment.

    Parameters
    ----------
    title : str; exercises : tuple of ids, () for those that half of the submissions name
    due : datetime with its time zone, or None; attempts : "best" or "last", which of several counts
    specs : folder with a teacher's own exercises, or ""; seconds, memory : limits, of learners' code, MiB
    grace_minutes : float, how much later is not late
    percent_per_day : float, what is taken off the points that were earned, for each day begun after `due`
    days : float or None, how many days after `due` nothing counts any more; None for never
    """

    title: str
    exercises: tuple[str, ...] = ()
    due: datetime | None = None
    attempts: str = "best"
    specs: str = ""
    seconds: float = 10.0
    memory: int = 2048
    grace_minutes: float = 0.0
    percent_per_day: float = 0.0
    days: float | None = None


def is_one(folder):
    """Is this the folder of an assignment?"""
    return Path(folder, FILE).is_file()


def read(folder):
    """The Assignment of a folder; Refusal says what is wrong in its assignment.toml, and where."""
    file = Path(folder, FILE)
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise Refusal(f"{folder}: there is no {FILE} in it; to write one: {CALL} new {folder}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f'{file}: {error}; texts and times stand in quotes: due = "2027-03-05T23:59"') from None
    late = found.pop("late", {})
    if not isinstance(late, dict):
        raise Refusal(f"{file}: late has to be a table, [late], and is {late!r}")
    for key in late.keys() & found.keys():
        raise Refusal(f"{file}: {key} stands there twice, above and in [late]")
    return checked(found | late, file)


def checked(values, where):
    """The Assignment with these values, by name; None says nothing. Refusal names the first that cannot be."""
    known = Assignment.__dataclass_fields__
    values = {key: value for key, value in values.items() if value is not None}
    for key in values:
        if key not in known:
            raise Refusal(f"{where}: there is no setting {key}; there are {', '.join(known)}")
    for key in ("title", "specs"):
        if not isinstance(values.get(key, ""), str):
            raise Refusal(f"{where}: {key} has to be a text, and is {values[key]!r}")
    if not values.get("title", "").strip():
        raise Refusal(f"{where}: the assignment needs a title")
    ids = values.get("exercises", ())
    if not isinstance(ids, list | tuple) or not all(isinstance(id, str) for id in ids):
        raise Refusal(f'{where}: exercises has to be a list of ids, ["rope", "gate"], and is {ids!r}')
    values["exercises"] = tuple(dict.fromkeys(ids))
    if "due" in values:
        values["due"] = moment(values["due"], f"{where}: due")
    if values.get("attempts", "best") not in ATTEMPTS:
        raise Refusal(f"{where}: attempts has to be best or last, and is {values['attempts']!r}")
    for key, (least, most) in _BETWEEN.items():
        value = values.get(key, least)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refusal(f"{where}: {key} has to be a number, and is {value!r}")
        if not least <= value <= most:
            raise Refusal(f"{where}: {key} has to be between {least:g} and {most:g}, and is {value:g}")
    if not isinstance(values.get("memory", 0), int):
        raise Refusal(f"{where}: memory has to be a whole number, and is {values['memory']!r}")
    return Assignment(**values)


_BETWEEN = {
    "seconds": (0.1, 3600),
    "memory": (256, 1 << 20),  # Python and NumPy alone take 256 MiB of addresses
    "grace_minutes": (0, 1e6),
    "percent_per_day": (0, 100),
    "days": (0, 1e4),
}


def moment(value, where):
    """A datetime with its time zone, of a text or what TOML makes of one; of a date its last second.

    Without a zone it is this machine's.
    """
    if isinstance(value, str):
        for kind in (date, datetime):  # which takes a date for its first second
            with contextlib.suppress(ValueError):
                value = kind.fromisoformat(value.strip())
                break
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(23, 59, 59))
    if not isinstance(value, datetime) or value.year not in YEARS:
        said = value.isoformat() if isinstance(value, datetime) else repr(value)
        raise Refusal(f"{where} has to be like 2027-03-05T23:59 or 2027-03-05, and is {said}")
    return value if value.tzinfo else value.astimezone()


def as_text(about):
    """The assignment.toml of an Assignment."""
    return _TEXT.format(
        title=json.dumps(about.title, ensure_ascii=False),
        exercises=json.dumps(list(about.exercises)),
        due=f'due = "{about.due.isoformat()}"' if about.due else '# due = "2027-03-05T23:59"',
        specs=f"specs = {json.dumps(about.specs)}" if about.specs else '# specs = "../my_exercises"',
        days=f"days = {about.days:g}" if about.days is not None else "# days = 3",
        **{key: getattr(about, key) for key in ("attempts", "grace_minutes", "percent_per_day")},
    )


def ids_in(text):
    """The ids in a text with commas."""
    return [id.strip() for id in text.split(",") if id.strip()]
