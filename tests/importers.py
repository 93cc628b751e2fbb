"""What learning platforms do with a file of grades: their importers' own rules, each with where it is written.

Each takes the text of a file and what the platform knows, and returns what it would then hold. An AssertionError names
the rule that the file breaks; what a platform would silently pass over is an error here, too.
"""

import csv
import io
import re
from datetime import datetime


def rows_of(text, separator=","):
    """The rows of a CSV, read as strictly as Ruby's CSV does: quotes have to close and to be doubled."""
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))


# ---- Canvas: instructure/canvas-lms, lib/gradebook_importer.rb ----

_TOTALS = re.compile("Current Score|Current Points|Current Grade|Final Score|Final Points|Final Grade|Override ")


def _canvas_number(field):
    """CSV::Converters[:decimal_comma_to_period]: any field of digits, commas and points is rewritten as a number."""
    if re.fullmatch(r"-?[0-9.,]+%?", field):
        *front, last = re.split("[,.]", field)
        return f"{''.join(front)}.{last}" if front else last
    return field


def _canvas_separator(text):
    """semicolon_delimited? and identify_delimiter: by the first three lines, if each has as many fields."""
    lines, counts = text.split("\n")[:3], {}
    for separator in ";,":
        try:
            sizes = {len(next(csv.reader([line], delimiter=separator, strict=True), [])) for line in lines if line}
        except csv.Error:
            sizes = set()
        counts[separator] = sizes.pop() if len(sizes) == 1 else 0
    return ";" if counts[";"] > counts[","] else ","


def _to_i(text):
    found = re.match(r"\s*[+-]?\d+", text)
    return int(found[0]) if found else 0


def canvas(text, people, assignments):
    """{person's number: {assignment's number or new title: grade}} and {the same: points possible}.

    people : list of dicts with id, name, sortable, sis, login; assignments : {number: title}
    """
    rows = [[_canvas_number(cell) for cell in row] for row in rows_of(text, _canvas_separator(text))]
    rows = [row for row in rows if not re.fullmatch("[;, ]+", ",".join(row))]  # skip_lines
    header = rows[0]
    # row_has_student_headers?
    assert len(header) > 3 and "Student" in header[0] and "ID" in header[1], header
    # update_column_count
    columns, sis, login = 3, None, None
    if re.search(r"SIS\s+Login\s+ID", header[2]):
        columns, login = 4, 2
    elif re.search(r"SIS\s+User\s+ID", header[2]) and re.search(r"SIS\s+Login\s+ID", header[3]):
        columns, sis, login = 5, 2, 3
        columns += bool(re.search(r"Integration\s+ID", header[4]))
    assert "Section" in header[columns - 1], "last_student_info_column: InvalidHeaderRow"
    # strip_non_assignment_columns, parse_assignments, Assignment.title_and_id
    indices = {}
    for heading in header[columns:]:
        if _TOTALS.search(heading):
            continue
        found = re.fullmatch(r"(.*)\s\((\d+)\)", heading)
        number = int(found[2]) if found and int(found[2]) in assignments else None
        if number is None:
            number = next((n for n, title in assignments.items() if title == heading), heading)
        indices[number] = header.index(heading)
    grades, possible = {}, {}
    for row in rows[1:]:
        if "Points Possible" in row[0]:  # process_pp
            possible = {number: row[at] for number, at in indices.items() if row[at]}
            continue
        if all(re.fullmatch(r"\s*(Muted|Manual Posting.*)?\s*", cell, re.IGNORECASE) for cell in row):
            continue
        # process_student
        person = next((p for p in people if row[1] and p["id"] == _to_i(row[1])), None)
        if person is None and sis is not None and row[sis]:
            person = next((p for p in people if p["sis"] == row[sis]), None)
        if person is None and login is not None and row[login]:
            person = next((p for p in people if p["login"] == row[login]), None)
        if person is None:
            person = next((p for p in people if row[0] in (p["name"], p["sortable"])), None)
        assert person is not None, f"missing_students: Canvas asks who {row[0]} is"
        assert person["id"] not in grades, f"two rows are {person['id']}'s, and the last would count"
        # process_submissions: `strip`; a grade is a number, EX, or nothing
        grades[person["id"]] = {number: row[at].strip() for number, at in indices.items()}
        for grade in grades[person["id"]].values():
            assert re.fullmatch(r"(-?\d+(\.\d+)?|EX|N/A)?", grade), f"{grade} is no grade"
    return grades, possible


# ---- Moodle ----


def php_csv(text, separator=","):
    """csvlib.class.php, load_csv_content: `fgetcsv`, and every row as many cells as the first.

    A backslash keeps `fgetcsv` from seeing the quote behind it (PHP manual, fgetcsv, `escape`), so none may be there.
    """
    assert '\\"' not in text, 'csvweirdcolumns: PHP reads \\" as a quote in the cell'
    text = re.sub("\r\n?", "\n", text.removeprefix("\ufeff")).strip()
    rows = [row for row in rows_of(text, separator) if row]
    assert {len(row) for row in rows} == {len(rows[0])}, "csvweirdcolumns"
    return rows


def _unformat_float(text, point):
    """lib/moodlelib.php, unformat_float with `strict`: the language's own decimal point is taken, and a point."""
    text = text.replace(" ", "").replace(point, ".")
    assert re.fullmatch(r"-?\d+(\.\d+)?", text), f"badgrade: {text}"
    return float(text)


def moodle_worksheet(text, people, most, point=".", separator=",", words=("Identifier", "Grade"), feedback=""):
    """{participant's number: (grade or None, feedback or None)}: mod/assign/feedback/offline/importgradeslib.php, init
    and next, and locallib.php, process_import_grades.

    people : {participant's number: dict with grade, modified (datetime), feedback, locked}, as Moodle has them
    words : the headings of the number and the grade in the site's language; feedback : that of the comments
    """
    rows = php_csv(text, separator)
    header = rows[0]
    modified = next(at for at, heading in enumerate(header) if heading in ("Last modified (grade)", "Geändert"))
    number, grade = (header.index(word) for word in words)
    comments = header.index(feedback) if feedback in header else None
    held = {}
    for row in rows[1:]:
        unique = int(row[number].removeprefix("Participant "))  # the string `hiddenuser` is cut off
        assert unique in people, "get_user_id_for_uniqueid: passed over"
        person = people[unique]
        said = datetime.strptime(row[modified], "%A, %d %B %Y, %I:%M %p") if row[modified] not in ("", "-") else None
        stale = person["modified"] is not None and (
            said is None or person["modified"].timestamp() > said.timestamp() + 60
        )
        assert not stale, "stalemodificationdate: passed over"
        held[unique] = [person["grade"], person["feedback"]]
        if row[grade] != "":
            value = _unformat_float(row[grade], point)
            if value != person["grade"]:
                assert not person["locked"], "grading_disabled: passed over"
                assert 0 <= value <= most, "out of range: passed over"
                held[unique][0] = value
        if comments is not None:
            held[unique][1] = row[comments]  # set_editor_text; an empty one deletes
    return {unique: tuple(values) for unique, values in held.items()}


def moodle_gradebook(text, emails, most=100):
    """{e-mail: (grade, feedback)}: moodle/moodle, grade/import/csv/classes/load_data.php, prepare_import_grade_data.

    emails : those of the site's users
    """
    rows = php_csv(text)
    assert rows[0][0] == "Email address" and rows[0][2] == "Feedback" and len(rows[0]) == 3
    held = {}
    for row in rows[1:]:
        email, grade, feedback = (cell.strip() for cell in row)
        assert email, "map_user_data_with_value: an empty address is skipped, and the person before stays"
        users = [one for one in emails if one.casefold() == email.casefold()]
        assert len(users) == 1, f"usermappingerror: {email} stops the whole import"
        assert users[0] not in held, "the second would overwrite the first"
        value = _unformat_float(grade, ".")  # update_grade_item; "" or - would take the grade away
        assert value <= most, "insert_grade_record: gradevaluetoobig"
        held[users[0]] = (value, feedback)
    return held


# ---- nbgrader: jupyter/nbgrader, nbgrader/plugins/export.py, CsvExportPlugin ----


def nbgrader(text):
    """[{column: value}] of an export: its columns, and its rules for scores and times."""
    keys = "assignment duedate timestamp student_id last_name first_name email raw_score late_submission_penalty"
    keys = [*keys.split(), "score", "max_score"]
    rows = rows_of(text)
    assert rows[0] == keys
    found = []
    for row in rows[1:]:
        assert len(row) == len(keys)
        one = dict(zip(keys, row))
        for key in keys[7:]:
            assert re.fullmatch(r"\d+\.\d+(e-?\d+)?", one[key]), f"{key}: {one[key]} is not `str` of a float"
            one[key] = float(one[key])
        assert abs(one["score"] - max(0.0, one["raw_score"] - one["late_submission_penalty"])) < 1e-4
        for key in ("duedate", "timestamp"):
            one[key] = datetime.fromisoformat(one[key]) if one[key] else None
            assert one[key] is None or one[key].tzinfo is None, "nbgrader keeps UTC without a zone"
        found.append(one)
    return found
