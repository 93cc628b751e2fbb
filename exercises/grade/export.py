"""Writes the gradebook as learning platforms read it: Canvas, Moodle, nbgrader, or a plain table.

python -m exercises.grade export term/ps3 canvas --template downloaded.csv
"""

import argparse
import csv
import html
import io
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from exercises.grade import CALL, assignment, gradebook, roster
from exercises.grade.command import status_of
from exercises.grade.platforms import table
from exercises.grade.platforms.people import People, same
from exercises.grade.run import Refusal, write

_TEST_STUDENT = "Student, Test"
# Canvas leaves out any column whose title holds one of these (gradebook_importer.rb, strip_non_assignment_columns).
_CANVAS_TOTALS = re.compile(
    "Current Score|Current Points|Current Grade|Final Score|Final Points|Final Grade"
    "|Override Score|Override Grade|Override Status"
)
# The most that Moodle's gradebook takes unless its administrator allows more (load_data.php, insert_grade_record).
_MOODLE_MOST = 100


@dataclass(frozen=True)
class Asked:
    """What the instructor wants of an export.

    title : str, of the assignment; due : datetime or None
    template : table.Table or None, what the platform gave out
    item : str, what the platform calls the assignment, or its number there; "" for the title
    missing : "blank" or "zero", for those who handed in nothing
    points : "same", "scaled" or "", how points become the platform's where it has another maximum
    grade, feedback : str, the headings of these in a Moodle worksheet in another language than English, or ""
    say : takes a line for the instructor
    """

    title: str
    due: datetime | None = None
    template: table.Table | None = None
    item: str = ""
    missing: str = "blank"
    points: str = ""
    grade: str = ""
    feedback: str = ""
    say: object = print


def text(format, rows, asked):
    """The file of this format (one of WRITERS), as a str. Refusal if it cannot be written so that it is read right.

    `rows` are the gradebook.Rows of one assignment.
    """
    rows = list(rows)
    if not rows:
        raise Refusal("the gradebook is empty: there is nobody to export; is the roster the right one?")
    if asked.template is None and format == "moodle":
        raise Refusal("moodle: give the grading worksheet that Moodle gave out: --template worksheet.csv")
    if asked.template is not None and format not in ("canvas", "moodle"):
        raise Refusal(f"{format}: a template is for canvas and moodle; leave --template out")
    unreadable = [row.learner.id for row in rows if row.status == gradebook.UNREADABLE]
    if unreadable:
        asked.say(f"LOOK: the grader could not read the files of {_few(unreadable)}")
    return WRITERS[format](rows, asked)


# ---- Canvas ----


def _canvas(rows, asked):
    """Canvas's gradebook file; without a template the columns that its importer asks for.

    Source: instructure/canvas-lms, lib/gradebook_importer.rb (process_student: a row is found by ID, else by SIS User
    ID, else by SIS Login ID, else by name; parse_assignments: the column by `Title (id)`, else by title, else it is
    a new assignment) and lib/gradebook_exporter.rb (csv_data, the columns and their order).
    """
    if asked.template is not None:
        return _canvas_filled(rows, asked)
    heading = f"{asked.title} ({asked.item})" if asked.item else asked.title
    if _CANVAS_TOTALS.search(heading):
        raise Refusal(
            f"canvas: {heading}: Canvas takes a column of this name for a total, and leaves it out; rename it"
        )
    out_of = rows[0].out_of
    lines = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", heading]]
    lines += [["    Points Possible", "", "", "", "", _number(out_of)]]
    for row in rows:
        who = row.learner
        more = who.more if "Student" in who.more else {}
        ids = [more.get("ID", ""), more.get("SIS User ID", who.id), more.get("SIS Login ID", who.login)]
        # Canvas reads digits with a point or a comma between them as a number (decimal_comma_to_period)
        if any(re.fullmatch(r"-?[0-9.,]*[.,][0-9.,]*%?", id) for id in ids):
            asked.say(f"LOOK: Canvas will read the id of {who.name}, {', '.join(filter(None, ids))}, as a number")
        name = more.get("Student", who.name)
        section = more.get("Section", who.section)
        lines.append([_one_line(name), *ids, _one_line(section), _grade(row, asked)])
    _formulas(asked, (id for line in lines[2:] for id in line[1:4]))
    return _csv(lines)


def _canvas_filled(rows, asked):
    template, where = asked.template, "canvas: the template"
    header = template.header
    if header[:1] not in (["Student"], ["LastName"]) or "ID" not in header or "Section" not in header:
        raise Refusal(f"{where} is no gradebook of Canvas: its columns are {_few(header)}; export it there once more")
    first = header.index("Section") + 1
    column = _column(header, range(first, len(header)), asked.item or asked.title, where)
    learners = [number for number in range(1, len(template)) if template.row(number)[header.index("ID")].strip()]
    possible = [
        template.row(number)[column]
        for number in range(1, len(template))
        if "Points Possible" in template.row(number)[0]
    ]
    if any("read only" in text for text in possible):
        raise Refusal(f"{where}: {header[column]} cannot be changed in Canvas: it is marked as read only there")
    factor = _factor(_value(possible[0]) if possible else None, rows, asked, f"{where}, {header[column]}")
    keys = [("ID", "canvas"), ("SIS User ID", "id"), ("SIS Login ID", "login"), ("Student", "name")]
    comma = _has_comma(template, range(first, len(header)))
    kept = []

    def fill(number, row):
        old, new = template.row(number)[column].strip(), _grade(row, asked, factor, comma)
        if old.upper() in ("EX", "N/A") and row.status != gradebook.NOTHING:
            kept.append(f"{row.learner.id} ({old})")
        elif new and old.upper() not in ("EX", "N/A"):
            template.set(number, column, new)

    _fill(template, learners, keys, rows, asked, fill, ignored=_TEST_STUDENT)
    if kept:
        asked.say(f"LOOK: excused or not assigned in Canvas, and left so: {_few(kept)}")
    return template.text()


# ---- Moodle ----


def _moodle(rows, asked):
    """Moodle's grading worksheet, filled in.

    Source: moodle/moodle, mod/assign/feedback/offline/importgradeslib.php (the columns that are looked for) and
    locallib.php, process_import_grades: a grade above the maximum is passed over, and an empty one; so is a row whose
    `Last modified (grade)` is older than the grade; an empty feedback deletes the one that is there.
    """
    template, where = asked.template, "moodle: the worksheet"
    header = template.header
    grade = _heading(header, asked.grade or "Grade", where, "--grade")
    feedback = asked.feedback or "Feedback comments"
    feedback = _heading(header, feedback, where, "--feedback", needed=bool(asked.feedback))
    if feedback is None:
        asked.say("the worksheet has no column for feedback comments: only grades are written")
    # gradingtable.php: what the grade may be stands beside it, a maximum or the words of a scale
    most = {template.row(number)[min(grade + 1, len(header) - 1)].strip() for number in _filled(template)}
    if len(most) != 1 or _value(min(most)) is None:
        there = _few(sorted(most)) or "nothing"
        raise Refusal(
            f"{where} has {there} beside the grade, and expected is one maximum; set the grade to points there"
        )
    most = most.pop()
    factor = _factor(_value(most), rows, asked, where)
    comma = "," in most or _has_comma(template, [grade])
    changeable = [at for at, text in enumerate(header) if text.casefold() == "grade can be changed"]
    locked = []

    def fill(number, row):
        texts = template.row(number)
        if any(texts[at].strip().casefold() == "no" for at in changeable):
            locked.append(row.learner.id)
            return
        new = _grade(row, asked, factor, comma)
        if new and row.points * factor > _value(most) + 1e-9:
            raise Refusal(f"{where}: {row.learner.id} has {new} points, and Moodle passes over more than {most}")
        if new:
            template.set(number, grade, new)
            if feedback is not None:
                template.set(number, feedback, as_html(remark(row)))

    _fill(template, _filled(template), _moodle_keys(template, where), rows, asked, fill)
    if locked:
        asked.say(f"LOOK: locked in Moodle, and left as they are: {_few(locked)}")
    return template.text()


_MOODLE_KINDS = {"id number": "id", "username": "login", "email address": "email", "full name": "name"}
_MOODLE_KINDS |= {"identifier": "participant"}


def _moodle_keys(template, where):
    """[(heading, what it tells of a person)] of a worksheet, the name last."""
    header = template.header
    keys = [(text, _MOODLE_KINDS[text.casefold()]) for text in header if text.casefold() in _MOODLE_KINDS]
    if "email" not in [kind for _, kind in keys]:  # another language: an address is known by its sign
        keys += [(text, "email") for at, text in enumerate(header) if _addresses(template, at)]
    if {"id", "login", "email"} & {kind for _, kind in keys}:  # a participant has another number in each assignment
        keys = [key for key in keys if key[1] != "participant"]
    if not keys:
        raise Refusal(f"{where} does not say whose a row is: it has {_few(header)}; expected is an e-mail address")
    return sorted(keys, key=lambda key: key[1] == "name")


def _moodle_gradebook(rows, asked):
    """A table for *Grades, Import, CSV file*, which finds its people by e-mail.

    Source: moodle/moodle, grade/import/csv/classes/load_data.php. check_user_exists: an address that nobody has stops
    the whole import. map_user_data_with_value: a row without one counts for the person before it. update_grade_item:
    an empty grade or `-` takes the grade away. So who has no address, or handed in nothing, has no row here.
    """
    if rows[0].out_of > _MOODLE_MOST:
        asked.say(f"LOOK: Moodle's gradebook takes at most {_MOODLE_MOST} points unless its administrator allows more")
    seen, without = {}, []
    lines = [["Email address", asked.item or asked.title, "Feedback"]]
    for row in rows:
        email, grade = row.learner.email.strip(), _grade(row, asked)
        if not email:
            without.append(row.learner.id)
            continue
        if email.casefold() in seen:
            raise Refusal(f"moodle-gradebook: {row.learner.id} and {seen[email.casefold()]} have one e-mail, {email}")
        seen[email.casefold()] = row.learner.id
        if grade:
            lines.append([email, grade, as_html(remark(row))])
    if without:
        asked.say(f"LOOK: without an e-mail, and so not in the file: {_few(without)}")
    _formulas(asked, (line[0] for line in lines[1:]))
    return _csv(lines)


# ---- others ----


def _nbgrader(rows, asked):
    """What `nbgrader export` writes; as there, who handed in nothing has 0.0 points and no time.

    Source: jupyter/nbgrader, nbgrader/plugins/export.py, CsvExportPlugin: the columns, times in UTC without a zone,
    and `score` = max(0, raw_score - late_submission_penalty).
    """
    lines = ["assignment,duedate,timestamp,student_id,last_name,first_name,email,raw_score".split(",")]
    lines[0] += ["late_submission_penalty", "score", "max_score"]
    for row in rows:
        who = row.learner
        given, family = _names(who)
        numbers = [str(float(round(value, 5))) for value in (row.earned, row.penalty, row.points, row.out_of)]
        times = [_utc(asked.due), _utc(row.received)]
        texts = [_one_line(family), _one_line(given)]
        lines.append([asked.item or asked.title, *times, who.id, *texts, who.email, *numbers])
    _formulas(asked, (line[3] for line in lines[1:]))
    return _csv(lines)


def _plain(rows, asked):
    """A table for whatever else: who, and how many points."""
    lines = [["id", "name", "email", "section", "points", "out_of", "comment"]]
    for row in rows:
        who = row.learner
        texts = [_one_line(who.name), who.email, _one_line(who.section)]
        lines.append([who.id, *texts, _grade(row, asked), _number(row.out_of), remark(row)])
    _formulas(asked, (line[0] for line in lines[1:]))
    return _csv(lines)


WRITERS = {
    "canvas": _canvas,
    "moodle": _moodle,
    "moodle-gradebook": _moodle_gradebook,
    "nbgrader": _nbgrader,
    "csv": _plain,
}


# ---- what is written ----


def remark(row):
    """What a learner reads beside the grade: the points, what lateness took off, and what people wrote."""
    said = f"{_number(row.points)} of {_number(row.out_of)} points."
    if row.status == gradebook.TOO_LATE:
        said += " It came too late to count."
    elif row.penalty:
        said += f" {_number(row.penalty)} taken off, as it came late."
    said += {gradebook.UNREADABLE: " The file could not be read.", gradebook.NOTHING: " Nothing was handed in."}.get(
        row.status, ""
    )
    return "\n".join([said, *(f"{id}: {text}" if id else text for id, text in row.comments)])


def as_html(text):
    """A text as Moodle keeps comments: HTML.

    Quotes and backslashes are written as entities: Moodle reads with PHP's `fgetcsv`, to which a backslash before a
    quote says that the cell goes on (PHP manual, fgetcsv, parameter `escape`).
    """
    return html.escape(text).replace("\\", "&#92;").replace("\n", "<br>")


def _grade(row, asked, factor=1.0, comma=False):
    """The points of a row as a text; "" for nobody's work, if that is to be blank."""
    if asked.missing == "blank" and row.status == gradebook.NOTHING and not row.points:
        return ""
    return _number(row.points * factor).replace(".", "," if comma else ".")


def _number(value):
    """Five places, as many as Moodle keeps, without needless zeros."""
    return f"{value:.5f}".rstrip("0").rstrip(".")


def _value(text):
    """The number in a cell, with a decimal point or comma; None if there is none."""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def _factor(most, rows, asked, where):
    """By how much points are multiplied; Refusal if another maximum is the platform's and nobody said what to do."""
    out_of = rows[0].out_of
    if asked.points == "same" or most is None or abs(most - out_of) < 1e-9:
        return 1.0
    if asked.points == "scaled":
        if not out_of:
            raise Refusal(f"{where}: nothing can be scaled, as the assignment has 0 points")
        asked.say(f"points are scaled from {_number(out_of)} to {_number(most)}")
        return most / out_of
    raise Refusal(
        f"{where}: a full mark is {_number(most)} there and {_number(out_of)} here; set it to {_number(out_of)} there, "
        "or say --points scaled, or --points same"
    )


def _csv(lines):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


def _formulas(asked, ids):
    """Say which ids a spreadsheet would take for formulas: they cannot be guarded, as they would be other ids."""
    found = [id for id in ids if roster.guarded(id) != id]
    if found:
        asked.say(f"LOOK: a spreadsheet takes these ids for formulas; do not open the file in one: {_few(found)}")


def _one_line(text):
    """A text of the roster's that no spreadsheet takes for a formula."""
    return roster.guarded("".join(c if c.isprintable() else " " for c in text))


def _utc(when):
    return str(when.astimezone(UTC).replace(tzinfo=None)) if when else ""


def _names(learner):
    """(given, family), as the roster has them, else by its name: the last word is the family's."""
    more = {heading.casefold().replace("_", " "): text for heading, text in learner.more.items()}
    if more.get("first name") or more.get("last name"):
        return more.get("first name", ""), more.get("last name", "")
    family, comma, given = more.get("student", "").partition(", ")
    if comma:
        return given, family
    given, _, family = learner.name.rpartition(" ")
    return given, family


def _few(texts):
    texts = [repr(text) if text != text.strip() or not text else text for text in texts]
    return ", ".join(texts[:12]) + (f" and {len(texts) - 12} more" if len(texts) > 12 else "")


# ---- the platform's own table ----


def _filled(template):
    return [number for number in range(1, len(template)) if not template.blank(number)]


def _column(header, among, wanted, where):
    """The column with this title or number, `Title (number)`; Refusal if there is none, or several."""
    parts = {at: re.fullmatch(r"(.*)\s\((\d+)\)", header[at], re.DOTALL) for at in among}
    tests = [
        lambda at: header[at] == wanted,
        lambda at: parts[at] and wanted == parts[at][2],
        lambda at: parts[at] and parts[at][1] == wanted,
        lambda at: same(parts[at][1] if parts[at] else header[at]) == same(wanted),
    ]
    for test in tests:
        found = [at for at in among if test(at)]
        if len(found) == 1:
            return found[0]
        if found:
            there = _few([header[at] for at in found])
            raise Refusal(f"{where} has several columns {wanted}: {there}; say which by its number: --item")
    there = _few([header[at] for at in among if not _CANVAS_TOTALS.search(header[at])])
    raise Refusal(f"{where} has no column {wanted}; it has {there}; say which: --item")


def _heading(header, wanted, where, option, needed=True):
    """The index of the column with this heading; None if it is not there and not needed."""
    found = [at for at, text in enumerate(header) if text.casefold() == wanted.casefold()]
    if not found and not needed:
        return None
    if len(found) != 1:
        several = f"{len(found)} columns" if found else "no column"
        raise Refusal(f"{where} has {several} {wanted}; it has {_few(header)}; say which: {option}")
    return found[0]


def _addresses(template, column):
    texts = [template.row(number)[column] for number in _filled(template)]
    return sum("@" in text for text in texts) > len(texts) / 2


def _has_comma(template, columns):
    """Does this table write numbers with a decimal comma?"""
    rows = (template.row(number) for number in range(1, len(template)))
    return any(re.fullmatch(r"\d+,\d+", row[at].strip()) for row in rows for at in columns)


def _fill(template, numbers, keys, rows, asked, fill, ignored=""):
    """Call `fill(number, row)` for each row of the template that is somebody's; say who is only on one side.

    A name counts only where no id is given of a kind that finds others: there may be two people of one name.
    """
    people, its = People(row.learner for row in rows), {row.learner.id: row for row in rows}
    header, done, strangers, by_name = template.header, {}, [], []
    keys = [(header.index(heading), heading, kind) for heading, kind in keys if heading in header]
    hits = {}
    for number in numbers:
        found = {heading: people.find(kind, template.row(number)[at]) for at, heading, kind in keys}
        hits[number] = {heading: its[who.id] for heading, who in found.items() if who is not None}
    names = {heading for _, heading, kind in keys if kind == "name"}
    ids = [at for at, heading, _ in keys if heading not in names and any(heading in found for found in hits.values())]
    for number, found in hits.items():
        texts = template.row(number)
        sure = {heading: row for heading, row in found.items() if heading not in names}
        if len({row.learner.id for row in sure.values()}) > 1:
            said = ", ".join(f"{heading} is that of {row.learner.id}" for heading, row in sure.items())
            raise Refusal(f"row {number + 1} of the template is two people of the roster: {said}")
        if not found or not sure and any(texts[at].strip() for at in ids):
            strangers += [texts[keys[-1][0]]] if texts[0] != ignored else []
            continue
        row = next(iter((sure or found).values()))
        if row.learner.id in done:
            raise Refusal(
                f"rows {done[row.learner.id] + 1} and {number + 1} of the template are both {row.learner.id}'s: "
                "are there two people of one name, or a wrong id in the roster?"
            )
        done[row.learner.id] = number
        by_name += [] if sure else [row.learner.id]
        fill(number, row)
    if not done:
        raise Refusal(f"nobody of the roster is in the template; it has {_few(strangers)}: is it that of this course?")
    left = [row.learner.id for row in rows if row.learner.id not in done]
    if by_name:
        asked.say(f"found by the name alone, as the roster has no id of the platform's: {_few(by_name)}")
    if strangers:
        asked.say(f"LOOK: in the template and not in the roster, so left as they are: {_few(strangers)}")
    if left:
        asked.say(f"LOOK: in the roster and not in the template, so without a grade there: {_few(left)}")


# ---- the command ----


def main(arguments=None, say=print):
    """Write term/ps3/export/…; returns the exit status."""
    options = _parser().parse_args(arguments)
    return status_of(lambda: _export(options, say))


def _export(options, say):
    folder = options.assignment
    rules = assignment.read(folder)
    learners = roster.of(folder, options.roster, needed=True)
    grades = folder / "grades" / "gradebook.csv"
    if not grades.is_file():
        raise Refusal(f"{grades}: there is no gradebook; grade first: {CALL} {folder}")
    if (folder / "regrade").is_dir():
        say(f"LOOK: {folder / 'regrade'} waits to be accepted; what is exported are the grades before it")
    rows = gradebook.read(grades, learners)
    template = table.read(options.template) if options.template else None
    wanted = {key: getattr(options, key) for key in ("item", "missing", "points", "grade", "feedback")}
    asked = Asked(rules.title, rules.due, template, say=say, **wanted)
    result = text(options.format, rows, asked)
    out = options.out or folder / "export" / f"{options.format}.csv"
    if options.template and out.exists() and out.samefile(options.template):
        raise Refusal(f"--out {out}: the template would be lost; choose another file")
    out.parent.mkdir(parents=True, exist_ok=True)
    write(out, result)
    say(f"{len(rows)} learners; to import: {out}")
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m exercises.grade export", description="Write grades for a platform."
    )
    parser.add_argument("assignment", type=Path, help="folder of the assignment, graded")
    parser.add_argument("format", choices=WRITERS, help="who is to read it")
    parser.add_argument(
        "--template", type=Path, help="what the platform gave out: Canvas's gradebook, Moodle's worksheet"
    )
    parser.add_argument("--out", type=Path, help="the file; default: export/FORMAT.csv in the assignment's folder")
    parser.add_argument("--roster", type=Path, help="default: roster.csv in the assignment's folder, or beside it")
    parser.add_argument("--item", default="", help="what the platform calls the assignment, or its number there")
    missing = "what those get who handed in nothing; blank leaves what is there (nbgrader: always 0.0)"
    parser.add_argument("--missing", choices=("blank", "zero"), default="blank", help=missing)
    points = "if full marks are another number there: write points as they are, or scaled"
    parser.add_argument("--points", choices=("same", "scaled"), default="", help=points)
    parser.add_argument("--grade", default="", help="heading of the grade in a Moodle worksheet that is not English")
    parser.add_argument("--feedback", default="", help="heading of the feedback comments there")
    return parser
