"""Points and comments of people: read from the files of those who mark, kept beside the grades, applied to them."""

import difflib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import exercises
from exercises.grade import report, roster
from exercises.grade.run import Refusal

COLUMNS = ("learner", "name", "exercise", "points", "out_of", "comment", "text", "explanation")


@dataclass(frozen=True)
class Mark:
    """A line of a person's: points or None, a comment or "", the text that it was given for or "", where it stands."""

    points: float | None
    comment: str
    text: str
    where: str


def text_of(words):
    """A short name for an explanation, "" for none; a mark that bears it was given for these very words.

    It begins with a letter, as a spreadsheet takes 12345e6 for a number.
    """
    return "t" + hashlib.sha256(words.encode()).hexdigest()[:9] if words else ""


class Marks:
    """What people gave, from all files of a folder.

    folder : path or None, of CSV files with the columns learner, exercise, points, comment and, if the mark is for an
        explanation, text; other columns do not matter
    finder : roster.Finder
    out_of : {exercise id: its points}

    A learner is an id or an e-mail. Points for an exercise stand in the place of the machine's; a line without an
    exercise is for the whole, and its points are added to the sum. A line without points and comment says nothing.
    Refusal if an exercise is unknown, points are no number or too many, or two lines give different points for the
    same. `astray` are the lines on learners who are not in the roster, or on exercises that are no longer asked.
    """

    def __init__(self, folder, finder, out_of):
        self.astray = []
        self._marks = {}  # (learner's id, exercise's id or ""): [Mark]
        for file in sorted(Path(folder).iterdir()) if folder else ():
            ending = file.suffix.lower()
            if ending in (".xlsx", ".xls", ".ods", ".numbers") and not file.name.startswith((".", "~$")):
                raise Refusal(f"{file}: this is no CSV, so nothing of it would count; {roster.UTF8}")
            if ending == ".csv" and not file.name.startswith("."):  # a Mac leaves ._x.csv beside x.csv
                self._add(file, finder, out_of)
        for (id, exercise), marks in self._marks.items():
            for text in {mark.text for mark in marks}:
                given = [mark for mark in marks if mark.points is not None and mark.text in ("", text)]
                for other in given[1:]:
                    if other.points != given[0].points:
                        what = f"{exercise or 'the whole'} of {id} has {report.number(given[0].points)} points"
                        told = f"{what} in {given[0].where}, and {report.number(other.points)} in {other.where}"
                        raise Refusal(f"{told}; delete one of the two")

    def _add(self, file, finder, out_of):
        header, rows = roster.table(file)
        at = roster.columns(header, ("learner", "exercise"), ("points", "comment", "text"), file)
        for line, row in rows:
            where = f"{file}, line {line}"
            cells = {key: " ".join(row[index].split()) for key, index in at.items()}
            points, comment = cells.get("points", ""), cells.get("comment", "")
            if not points and not comment:
                continue
            exercise = cells["exercise"]
            learner = finder.wanted(cells["learner"], where, self.astray)
            if exercise in set(exercises.ids()) - set(out_of):
                self.astray.append(f"{where}: {exercise} is not in this assignment")
                continue
            if exercise and exercise not in out_of:
                near = difflib.get_close_matches(exercise, out_of, n=3, cutoff=0.4) or out_of
                what = f"the assignment has no exercise {exercise}; did you mean {' or '.join(near)}?"
                raise Refusal(f"{where}: {what} For the whole assignment leave it empty")
            points = _points(points, exercise, out_of, where) if points else None
            text = cells.get("text", "") if exercise else ""
            if learner is None:
                continue
            self._marks.setdefault((learner.id, exercise), []).append(Mark(points, comment, text, where))

    def of(self, id, exercise, text=""):
        """(points or None, comments, whether all there are are for other texts) for a learner's exercise.

        text : what `text_of` says of the explanation. A mark for it counts, or one for no text in particular. One for
        another text does not: words that came late would be in time, and old ones would spoil better ones.
        """
        marks = self._marks.get((id, exercise), [])
        fitting = [mark for mark in marks if mark.text in ("", text)]
        points = [mark.points for mark in fitting if mark.points is not None]
        comments = dict.fromkeys(mark.comment for mark in fitting if mark.comment)
        return (points[-1] if points else None), tuple(comments), bool(marks) and not fitting

    def is_read(self, id, exercise, text):
        """Has a person marked this very text?"""
        return any(mark.text in ("", text) for mark in self._marks.get((id, exercise), ()))


def _points(text, exercise, out_of, where):
    """The number that was written; Refusal if it is none, or too much for the exercise."""
    if not re.fullmatch(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)", text):
        raise Refusal(f"{where}: points have to be a number, and are {text}")
    points = float(text.replace(",", "."))
    if exercise and not 0 <= points <= out_of[exercise]:
        what = f"points have to be between 0 and {report.number(out_of[exercise])}, and are {text}"
        raise Refusal(f"{where}: {what}; what is more or less than that goes in a line without an exercise")
    if not abs(points) < 1e6:
        raise Refusal(f"{where}: points have to be a number, and are {text}")
    return points
