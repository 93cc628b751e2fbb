"""Into and out of the platforms: exports as importers read them, downloads as they are given out, hostile archives."""

import csv
import html
import io
import os
import stat
import subprocess
import time
import tracemalloc
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.grade import collect, export, gradebook, roster
from exercises.grade.gradebook import Row
from exercises.grade.platforms import downloads, files, table
from exercises.grade.roster import Learner
from exercises.grade.run import Refusal
from tests import importers

TITLE, ITEM = "Problem set 3", 4711
DUE = datetime(2027, 3, 5, 23, 59, tzinfo=timezone(timedelta(hours=1)))


def learner(number, name="", id="", **more):
    """A learner with all that platforms know of one."""
    id = id or f"{number:07}"
    given, family = ("Learner", f"{number:03}") if not name else name.rsplit(" ", 1)
    columns = {"Student": f"{family}, {given}", "ID": str(9000 + number), "SIS User ID": id}
    columns |= {
        "SIS Login ID": f"learner-{number:03}",
        "Section": "Tuesday",
        "Identifier": f"Participant {500 + number}",
    }
    email = more.pop("email", f"learner-{number:03}@example.edu")
    return Learner(id, name or f"Learner {number:03}", email, f"learner-{number:03}", "Tuesday", columns | more)


def row(who, points=6.3, earned=7.0, out_of=10.0, status="graded", comments=(), received=DUE):
    """A row of the gradebook."""
    if status == "nothing handed in":
        points = earned = 0.0
        received = None
    return Row(
        learner=who,
        submission="" if received is None else f"{who.id}/ps3.ipynb",
        attempts=int(received is not None),
        attempt=int(received is not None),
        received=received,
        late=timedelta(0),
        earned=earned,
        penalty=earned - points,
        points=points,
        out_of=out_of,
        parts={"rope": points},
        comments=tuple(comments),
        status=status,
        notes=(),
    )


NASTY = [
    "Zoë Müller",
    'Al "the pal" O\'Brien',
    "Comma, Inc. Van Dam",
    "=SUM(A1) Formula",
    "李 小龙",
    "Back\\slash End\\",
]
CLASS = [row(learner(n, name), points=n + 0.25, earned=n + 0.25) for n, name in enumerate(NASTY, 1)]
CLASS += [row(learner(7), status="nothing handed in"), row(learner(8), points=0.0, earned=3.0, status="too late")]
REMARKS = (("", 'So "nice"\nand <b>bold</b> &lt; a\\"b\\'), ("rope", "=1+1; très bien, \\"))
CLASS += [row(learner(9), comments=REMARKS)]


def asked(said=None, **more):
    """What an instructor asks for; `said` gets the lines on the screen."""
    return export.Asked(TITLE, DUE, say=(said if said is not None else []).append, **more)


# ---- tables ----


@given(
    st.lists(st.lists(st.text(alphabet="ab\",;\n\r '=é", max_size=6), min_size=3, max_size=3), min_size=1, max_size=5)
)
def test_a_table_is_kept_byte_for_byte_but_for_the_cell_that_changes(rows):
    """Whatever quotes, separators and line ends are in it; Python's own reader sees the same cells."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows([["x", "y", "z"], *rows])
    one = table.Table("\ufeff" + file.getvalue())
    assert one.text() == "\ufeff" + file.getvalue()
    assert [one.row(number) for number in range(1, len(one))] == rows
    one.set(len(rows), 1, 'new, "cell"')
    again = table.Table(one.text())
    assert again.row(len(rows)) == [rows[-1][0], 'new, "cell"', rows[-1][2]]
    assert [again.row(number) for number in range(1, len(rows))] == rows[:-1]


@pytest.mark.parametrize("text", ["a;b\n1,5;2\n", "a\tb\n", "sep=;\r\na;b,c\r\n1;2", "a,b", 'a,b\n"x"y,z\n'])
def test_a_table_says_its_separator(text):
    """A comma in a cell does not make it one, and what Excel adds is not given back."""
    assert len(table.Table(text).header) == 2
    assert table.Table(text).text() == text.removeprefix("sep=;\r\n")


@pytest.mark.parametrize("data", [b"", b"\n", "Größe".encode("latin-1"), "a,b".encode("utf-16"), b"PK\x03\x04\0\0"])
def test_what_is_no_table_is_refused(tmp_path, data):
    """With the remedy, not with a traceback."""
    (tmp_path / "x.csv").write_bytes(data)
    with pytest.raises(Refusal, match="UTF-8|headings"):
        table.read(tmp_path / "x.csv")
    with pytest.raises(Refusal, match="No such file"):
        table.read(tmp_path / "y.csv")


# ---- Canvas ----

COURSE = [
    {"id": 9000 + n, "name": r.learner.name, "sortable": r.learner.more["Student"], "sis": r.learner.id}
    | {"login": r.learner.login}
    for n, r in enumerate(CLASS, 1)
]


def canvas_file(separator=",", mark="", comma=False, cells=None, heading=f"{TITLE} ({ITEM})", posting=False, out_of=10):
    """A gradebook as lib/gradebook_exporter.rb, csv_data, writes it, of the class and a test student."""
    number = (lambda text: str(text).replace(".", ",")) if comma else str
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Quiz (12)", heading, "Final Score"]
    lines = [header]
    if posting:
        lines.append(["", "", "", "", "", "", "Manual Posting", ""])
    lines.append(["    Points Possible", "", "", "", "", number("5.00"), number(f"{out_of}.00"), "(read only)"])
    for n, person in enumerate(COURSE, 1):
        cell = (cells or {}).get(n, "")
        sis = f'"{person["sis"]}"' if n == 1 else person["sis"]  # quoted without need, and to be kept so
        lines.append([person["sortable"], person["id"], sis, person["login"], "Tuesday", number("4.50"), cell, ""])
    lines.append(["Student, Test", 9999, "", "d41d8cd98f", "Tuesday", "", "", ""])
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator="\n").writerows(lines)
    return mark + file.getvalue().replace('"""', '"', 2)


def expected_points(rows, missing=""):
    """{id: points as a number, or what stands for none}."""
    return {r.learner.id: missing if r.status == "nothing handed in" else r.points for r in rows}


def points_in(grades, key):
    """The same, of what Canvas would hold."""
    sis = {person["id"]: person["sis"] for person in COURSE}
    return {sis[number]: float(one[key]) if one[key] else "" for number, one in grades.items() if number in sis}


@pytest.mark.parametrize("known", [True, False])
def test_canvas_without_a_template(known):
    """Everybody is found, whether the roster is Canvas's own or has nothing but ids, names and logins."""
    rows = (
        CLASS
        if known
        else [replace(r, learner=Learner(r.learner.id, r.learner.name, login=r.learner.login)) for r in CLASS]
    )
    text = export.text("canvas", rows, asked(item=str(ITEM)))
    grades, possible = importers.canvas(text, COURSE, {ITEM: TITLE, 12: "Quiz"})
    assert points_in(grades, ITEM) == expected_points(CLASS)
    assert possible == {ITEM: "10"}
    assert text.splitlines()[0] == f"Student,ID,SIS User ID,SIS Login ID,Section,{TITLE} ({ITEM})"
    for line in importers.rows_of(text)[1:]:
        assert not line[0].lstrip().startswith(("=", "+", "-", "@"))


def test_canvas_finds_the_assignment_by_its_title_where_there_is_no_number():
    """As parse_assignments does; a title that Canvas would leave out is refused."""
    text = export.text("canvas", CLASS, asked(missing="zero"))
    grades, _ = importers.canvas(text, COURSE, {ITEM: TITLE})
    assert points_in(grades, ITEM) == expected_points(CLASS, 0.0)
    with pytest.raises(Refusal, match="takes a column of this name for a total"):
        export.text("canvas", CLASS, export.Asked("The Final Grade"))


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("comma", [False, True])
def test_canvas_with_its_own_template(separator, mark, comma):
    """Only our column is changed; the rest is what was downloaded, byte for byte."""
    cells = {n: f"@{n}@" for n in range(1, len(CLASS) + 1)}
    before = canvas_file(separator, mark, comma, cells, posting=True)
    said = []
    after = export.text("canvas", CLASS, asked(said, template=table.Table(before)))
    grades, possible = importers.canvas(after.replace("@7@", ""), COURSE + [{"id": 9999}], {ITEM: TITLE, 12: "Quiz"})
    assert points_in(grades, ITEM) == expected_points(CLASS)
    assert possible[ITEM] == "10.00" and said == []
    for n, r in enumerate(CLASS, 1):
        number = export._number(r.points).replace(".", "," if comma else ".")
        if r.status != "nothing handed in":
            before = before.replace(f"@{n}@", f'"{number}"' if separator in number else number)
    assert after == before


def test_canvas_keeps_who_is_excused_and_says_so():
    """EX and N/A stay, as a grade would undo them."""
    said = []
    template = table.Table(canvas_file(cells={1: "EX", 2: "N/A", 3: "1.00"}))
    grades, _ = importers.canvas(
        export.text("canvas", CLASS, asked(said, template=template)), COURSE + [{"id": 9999}], {ITEM: TITLE, 12: "Quiz"}
    )
    assert [grades[9000 + n][ITEM] for n in (1, 2, 3)] == ["EX", "N/A", "3.25"]
    assert len(said) == 1 and "0000001 (EX), 0000002 (N/A)" in said[0]


def test_canvas_says_who_is_only_on_one_side():
    """A person of the template who is not in the roster is left alone; one of the roster who is not there is told."""
    said = []
    template = table.Table(canvas_file(cells={1: "1.00"}))
    after = export.text("canvas", [*CLASS[1:], row(learner(40))], asked(said, template=template))
    assert importers.rows_of(after)[2][6] == "1.00"
    assert any("not in the roster" in line and "Müller, Zoë" in line for line in said)
    assert any("not in the template" in line and "0000040" in line for line in said)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace(TITLE, "Homework"), r"no column Problem set 3; it has Quiz \(12\), Homework \(4711\)"),
        (lambda t: t.replace("Quiz (12)", f"{TITLE} (12)"), r"several columns .*\(12\).*\(4711\); say which"),
        (lambda t: t.replace("10.00", "20.00"), "a full mark is 20 there and 10 here"),
        (lambda t: t.replace("10.00", "10.00 (read only)"), "read only"),
        (lambda t: t.replace("Student,ID,SIS User ID", "Name,Number,SIS"), "no gradebook of Canvas"),
        (lambda t: t.replace("9001,", "9002,").replace('"0000001"', "0000001"), "two people of the roster"),
        (lambda t: t + t.splitlines()[3] + "\n", "are both 0000002's"),
        (lambda t: "\n".join(t.splitlines()[:2]), "nobody of the roster"),
    ],
)
def test_a_canvas_template_that_does_not_fit_is_refused(change, message):
    """The message says what there is, and what would help."""
    with pytest.raises(Refusal, match=message):
        export.text("canvas", CLASS, asked(template=table.Table(change(canvas_file()))))


def test_points_are_scaled_only_if_asked_for():
    """To what Canvas has for full marks; or written as they are."""
    for points, factor in (("scaled", 2), ("same", 1)):
        template = table.Table(canvas_file(out_of=20))
        text = export.text("canvas", CLASS, asked(template=template, points=points))
        grades, _ = importers.canvas(text, COURSE + [{"id": 9999}], {ITEM: TITLE, 12: "Quiz"})
        assert grades[9002][ITEM] == export._number(2.25 * factor)


def test_a_number_of_canvas_is_not_somebodys_matriculation_number():
    """Where the roster is the instructor's own, Canvas's ID says nothing: people are found by their other ids."""
    own = [
        Learner("9002", "Zoë Müller", login="learner-001", more={"ID": "9002"}),
        Learner("0000002", "Somebody Else", login="learner-002", more={"ID": "0000002"}),
    ]
    rows = [row(own[0], points=1.0), row(own[1], points=2.0)]
    text = export.text("canvas", rows, asked(template=table.Table(canvas_file())))
    grades = {line[3]: line[6] for line in importers.rows_of(text)[2:]}
    assert (grades["learner-001"], grades["learner-002"]) == ("1", "2")


def test_a_name_counts_only_where_no_id_does():
    """In a roster without the platform's ids it does; in one with them, another id is another person."""
    said = []
    only_names = [row(Learner(f"m{n}", r.learner.name), points=r.points) for n, r in enumerate(CLASS, 1)]
    text = export.text("canvas", only_names, asked(said, template=table.Table(canvas_file())))
    assert [line[6] for line in importers.rows_of(text)[2:5]] == ["1.25", "2.25", "3.25"]
    assert "by the name alone" in said[0] and "m1, m2" in said[0]
    said.clear()
    namesake = row(Learner("7654321", CLASS[0].learner.name), points=9.0)
    text = export.text("canvas", [namesake, *CLASS[1:]], asked(said, template=table.Table(canvas_file())))
    assert importers.rows_of(text)[2][6] == ""
    assert "Müller, Zoë" in said[0] and "7654321" in said[1]


# ---- Moodle ----

ENGLISH = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed"
ENGLISH = (ENGLISH + ",Last modified (submission),Last modified (grade),Feedback comments").split(",")
GERMAN = (
    "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Beste Bewertung,Änderbar,Abgabe,Geändert,Feedback".split(",")
)
WHEN = "Saturday, 6 March 2027, 10:15 AM"


def worksheet(header=ENGLISH, separator=",", mark="", most="10.00", changed="Yes", blind=False):
    """A grading worksheet as mod/assign/gradingtable.php writes it."""
    lines = [header]
    for n, r in enumerate(CLASS, 1):
        grade, when, words = ("2.00" if "." in most else "", WHEN, "<p>before</p>") if n == 2 else ("", "-", "")
        lines.append([f"Participant {500 + n}", r.learner.name, r.learner.email, "Submitted for grading"])
        lines[-1] += [grade, most, changed, WHEN, when, words]
    if blind:
        lines = [[cell for at, cell in enumerate(line) if at not in (1, 2)] for line in lines]
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator="\n").writerows(lines)
    return mark + file.getvalue()


def moodle_has(locked=()):
    """What Moodle holds before the import."""
    before = datetime(2027, 3, 6, 10, 15, 42)
    return {
        500 + n: {"grade": 2.0 if n == 2 else None, "modified": before if n == 2 else None}
        | {"feedback": "<p>before</p>" if n == 2 else "", "locked": n in locked}
        for n in range(1, len(CLASS) + 1)
    }


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("language", ["English", "German"])
def test_moodles_worksheet(separator, language):
    """Grades and comments arrive; who handed in nothing keeps what Moodle has; nothing else is changed."""
    header, most, point = (ENGLISH, "10.00", ".") if language == "English" else (GERMAN, "10,00", ",")
    headings = {} if language == "English" else {"grade": "Bewertung", "feedback": "Feedback"}
    before = worksheet(header, separator, "\ufeff", most)
    after = export.text("moodle", CLASS, asked(template=table.Table(before), **headings))
    words = ("Identifier", "Grade") if language == "English" else ("ID", "Bewertung")
    held = importers.moodle_worksheet(after, moodle_has(), 10, point, separator, words, header[-1])
    for n, r in enumerate(CLASS, 1):
        grade, feedback = held[500 + n]
        if r.status == "nothing handed in":
            assert (grade, feedback) == (None, "")
            continue
        assert grade == r.points
        assert html.unescape(feedback.replace("<br>", "\n")) == export.remark(r)
        assert all(text in export.remark(r) for _, text in r.comments) and "<b>" not in feedback
    assert ("1,25" in after) == (point == ",")
    ours = (header.index(header[4]), len(header) - 1)
    for old, new in zip(importers.rows_of(before, separator), importers.rows_of(after, separator)):
        assert [c for at, c in enumerate(old) if at not in ours] == [c for at, c in enumerate(new) if at not in ours]


def test_moodles_numbers_of_participants_are_those_of_one_assignment():
    """A roster made of another worksheet has others; e-mails are believed."""
    moved = [
        replace(r, learner=learner(n, r.learner.name, Identifier=f"Participant {501 + n}"))
        for n, r in enumerate(CLASS, 1)
    ]
    held = importers.moodle_worksheet(
        export.text("moodle", moved, asked(template=table.Table(worksheet()))), moodle_has(), 10
    )
    assert held[501][0] == CLASS[0].points


def test_moodle_where_marking_is_blind():
    """The worksheet says numbers and no names; a roster made of a worksheet knows them."""
    template = table.Table(worksheet(blind=True))
    held = importers.moodle_worksheet(export.text("moodle", CLASS, asked(template=template)), moodle_has(), 10)
    assert held[501][0] == CLASS[0].points
    strangers = [row(Learner(f"x{n}", f"X {n}")) for n in range(3)]
    with pytest.raises(Refusal, match="nobody of the roster"):
        export.text("moodle", strangers, asked(template=table.Table(worksheet(blind=True))))


def test_moodle_would_pass_over_what_is_locked_or_too_much():
    """So the first is told, and the second refused."""
    said = []
    after = export.text("moodle", CLASS, asked(said, template=table.Table(worksheet(changed="No"))))
    assert after == worksheet(changed="No") and "locked in Moodle" in said[-1]
    with pytest.raises(Refusal, match="passes over more than 5.00"):
        export.text("moodle", CLASS, asked(template=table.Table(worksheet(most="5.00")), points="same"))
    for most, message in (("Good\nPoor", "set the grade to points"), ("100.00", "a full mark is 100 there")):
        with pytest.raises(Refusal, match=message):
            export.text("moodle", CLASS, asked(template=table.Table(worksheet(most=most))))
    with pytest.raises(Refusal, match="no column Grade; it has ID"):
        export.text("moodle", CLASS, asked(template=table.Table(worksheet(GERMAN))))


def test_moodles_gradebook_by_e_mail():
    """Who has no address is told, as Moodle would give the grade to the person before; two of one are refused."""
    said = []
    rows = [*CLASS, row(learner(20, email=""))]
    text = export.text("moodle-gradebook", rows, asked(said))
    held = importers.moodle_gradebook(text, [r.learner.email for r in CLASS])
    there = {r.learner.email: r for r in CLASS if r.status != "nothing handed in"}
    assert {email: grade for email, (grade, _) in held.items()} == {email: r.points for email, r in there.items()}
    for email, (_, feedback) in held.items():
        assert html.unescape(feedback.replace("<br>", "\n")) == export.remark(there[email])
    assert len(said) == 1 and "0000020" in said[0]
    assert len(
        importers.moodle_gradebook(
            export.text("moodle-gradebook", CLASS, asked(missing="zero")), [r.learner.email for r in CLASS]
        )
    ) == len(CLASS)
    with pytest.raises(Refusal, match="have one e-mail"):
        export.text("moodle-gradebook", [*CLASS, row(learner(21, email="Learner-001@example.edu"))], asked())


# ---- nbgrader, and any ----


def test_nbgraders_columns():
    """As its own exporter writes them; a comma in a name does not part it."""
    found = importers.nbgrader(export.text("nbgrader", CLASS, asked(item="ps3")))
    assert [one["student_id"] for one in found] == [r.learner.id for r in CLASS]
    for one, r in zip(found, CLASS):
        assert (one["raw_score"], one["score"], one["max_score"]) == (r.earned, r.points, 10.0)
        assert f"{roster.unguarded(one['first_name'])} {one['last_name']}".strip() == r.learner.name
        assert one["duedate"] == datetime(2027, 3, 5, 22, 59) and one["assignment"] == "ps3"
        assert (one["timestamp"] is None) == (r.status == "nothing handed in")


def test_the_plain_table():
    """It has the ids with their zeros, and the comments."""
    lines = importers.rows_of(export.text("csv", CLASS, asked()))
    assert [line[0] for line in lines[1:]] == [r.learner.id for r in CLASS]
    assert lines[-1][-1] == export.remark(CLASS[-1])
    assert lines[7][4] == ""


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), min_size=1, max_size=12),
            st.floats(0, 10).map(lambda value: round(value, 4)),
            st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=20),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(deadline=None)
def test_whatever_people_are_called_and_write_comes_through(people):
    """Names, points and comments of any kind, through each format that its importer reads."""
    rows = [
        row(learner(n, f"N{name} F", id=f"00{n}"), points=points, earned=points, comments=[("", text)] if text else ())
        for n, (name, points, text) in enumerate(people)
    ]
    course = [
        {"id": 9000 + n, "name": "", "sortable": "", "sis": r.learner.id, "login": ""} for n, r in enumerate(rows)
    ]
    grades, _ = importers.canvas(export.text("canvas", rows, asked()), course, {ITEM: TITLE})
    assert [float(grades[9000 + n][ITEM]) for n in range(len(rows))] == [r.points for r in rows]
    held = importers.moodle_gradebook(export.text("moodle-gradebook", rows, asked()), [r.learner.email for r in rows])
    assert [held[r.learner.email][0] for r in rows] == [r.points for r in rows]
    for r in rows:
        said = html.unescape(held[r.learner.email][1].replace("<br>", "\n"))
        assert said.strip() == export.remark(r).strip()
    assert [one["score"] for one in importers.nbgrader(export.text("nbgrader", rows, asked()))] == [
        r.points for r in rows
    ]


def test_ids_that_look_like_formulas_are_kept_and_told():
    """A guarded id would be another one."""
    for format in ("canvas", "nbgrader", "csv"):
        said = []
        who = Learner("-17", "Learner 17", "learner-17@example.edu")
        assert "-17" in [
            cell for line in importers.rows_of(export.text(format, [row(who)], asked(said))) for cell in line
        ]
        assert "formulas" in said[0] and "-17" in said[0]


def test_an_export_needs_people_and_the_right_template():
    """Each with what would help."""
    for format, rows, more, message in (
        ("canvas", [], {}, "nobody to export"),
        ("moodle", CLASS, {}, "--template worksheet.csv"),
        ("nbgrader", CLASS, {"template": table.Table("a,b\n")}, "leave --template out"),
    ):
        with pytest.raises(Refusal, match=message):
            export.text(format, rows, asked(**more))
    said = []
    export.text("csv", [row(learner(1), points=0.0, earned=0.0, status="unreadable")], asked(said))
    assert "could not read the files of 0000001" in said[0]


# ---- what comes in ----

NOTEBOOK = b'{"cells": []}'
ROSTER = [r.learner for r in CLASS]


def zipped(path, contents):
    """A zip of {name: bytes, or (ZipInfo's attributes, bytes)}."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, (2027, 3, 5, 12, 0, 0))
            info.external_attr, info.compress_type = (stat.S_IFREG | 0o644) << 16, zipfile.ZIP_DEFLATED
            if isinstance(data, tuple):
                for key, value in data[0].items():
                    setattr(info, key, value)
                data = data[1]
            file.writestr(info, data)
    return path


def folder_of(path, contents):
    """A folder of {relative path: bytes}."""
    for name, data in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


class Term:
    """An assignment's folder, and what collecting into it said."""

    def __init__(self, path):
        self.path, self.said = path / "term" / "ps3", []
        self.path.mkdir(parents=True)

    def collect(self, source, learners=ROSTER, item="", **more):
        """The counts of one collect."""
        self.said.clear()
        return collect.collect(self.path, source, learners, downloads.Wanted(TITLE, item, self.said.append), **more)

    def rows(self):
        """{path: (learner, received)} of submissions.csv; each of them is there, and nothing else."""
        lines = importers.rows_of((self.path / "submissions.csv").read_text("utf-8"))
        assert lines[0] == ["submission", "learner", "received"]
        root = self.path / "submissions"
        there = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        assert there == sorted(line[0] for line in lines[1:])
        return {line[0]: tuple(line[1:]) for line in lines[1:]}


@pytest.fixture
def term(tmp_path):
    """An empty one."""
    return Term(tmp_path)


CANVAS = {
    "müllerzoë_9001_70001_ps3.ipynb": NOTEBOOK,
    "müllerzoë_9001_70002_helper.py": b"x = 1",
    "obrienalthepal_LATE_9002_70003_ps3-2.ipynb": NOTEBOOK + b"2",
    "formulasuma1_9004_text.html": b"<p>words</p>",
    "somebodyelse_123456_70009_ps3.ipynb": NOTEBOOK + b"?",
    "anon_AbC12_70010_ps3.ipynb": NOTEBOOK + b"!",
}


def test_canvass_zip(term, tmp_path):
    """People are known by Canvas's number; the late are told, as no time is known; strangers are kept."""
    source = zipped(tmp_path / "submissions.zip", CANVAS)
    with pytest.raises(Refusal, match="does not tell when files came.*--time due"):
        term.collect(source, due=DUE)
    assert not (term.path / "submissions.csv").exists()
    counts = term.collect(source, due=DUE, time=DUE)
    assert (counts["new"], counts["known"], counts["unknown"], counts["refused"]) == (6, 0, 2, 0)
    when = "2027-03-05T23:59:00+01:00"
    assert term.rows() == {
        "0000001/2027-03-05T22-59-00Z/ps3.ipynb": ("0000001", when),
        "0000001/2027-03-05T22-59-00Z/helper.py": ("0000001", when),
        "0000002/1/ps3-2.ipynb": ("0000002", ""),
        "0000004/2027-03-05T22-59-00Z/text.html": ("0000004", when),
        "unknown-somebodyelse-123456/2027-03-05T22-59-00Z/ps3.ipynb": ("", when),
        "unknown-anon_AbC12/2027-03-05T22-59-00Z/ps3.ipynb": ("", when),
    }
    assert (term.path / "submissions/0000001/2027-03-05T22-59-00Z/ps3.ipynb").stat().st_mtime == DUE.timestamp()
    said = "\n".join(term.said)
    assert "read as canvas" in said and "unknown-somebodyelse-123456 is nobody in the roster" in said
    assert "0000002/1/ps3-2.ipynb" in said and "0000001/" not in said


def test_the_names_in_canvass_zip_do_where_the_roster_has_no_numbers(term, tmp_path):
    """The family's name first, in one word; where the number says another one than the name, it is nobody's."""
    own = [Learner("17", "Zoë Müller"), Learner("18", "Al O'Brien")]
    term.collect(zipped(tmp_path / "a.zip", {"müllerzoë_9001_7_ps3.ipynb": b"1", "obrienal_9_8_x.ipynb": b"2"}), own)
    assert {who for who, _ in term.rows().values()} == {"17", "18"}
    counts = term.collect(zipped(tmp_path / "c.zip", {"müllerzoë_777_7_ps3.ipynb": b"4"}))
    assert counts["unknown"] == 1 and any("is a name of the roster's" in line for line in term.said)
    counts = term.collect(zipped(tmp_path / "b.zip", {"müllerzoë_9003_7_ps3.ipynb": b"3"}))
    assert counts["unknown"] == 1 and any("those of 0000003 and 0000001" in line for line in term.said)


def test_a_second_download_adds_what_is_new(term, tmp_path):
    """Known files stay as they are, also where a person corrected their row; nothing is overwritten."""
    source = zipped(tmp_path / "a.zip", CANVAS)
    term.collect(source)
    file = term.path / "submissions.csv"
    text = file.read_text("utf-8").replace("ps3.ipynb,,", "ps3.ipynb,0000006,", 1).rstrip("\n")
    file.write_text(text, "utf-8")  # an editor may leave out the last end of line
    before = term.rows()
    counts = term.collect(source)
    assert (counts["new"], counts["known"]) == (0, 6) and term.rows() == before
    newer = dict(CANVAS) | {"müllerzoë_9001_70001_ps3.ipynb": b"better"}
    counts = term.collect(zipped(tmp_path / "b.zip", newer))
    assert (counts["new"], counts["known"]) == (1, 5)
    assert term.rows() == before | {"0000001/2/ps3.ipynb": ("0000001", "")}
    assert (term.path / "submissions/0000001/1/ps3.ipynb").read_bytes() == NOTEBOOK
    assert file.read_text("utf-8").startswith(text)


def test_a_collect_that_was_broken_off_goes_on(term, tmp_path):
    """Files without a row get one, and are not copied again."""
    source = zipped(tmp_path / "a.zip", CANVAS)
    term.collect(source)
    rows = term.rows()
    (term.path / "submissions.csv").unlink()
    counts = term.collect(source)
    assert (counts["new"], counts["known"]) == (0, 6) and term.rows() == rows
    with pytest.raises(Refusal, match="--gigabytes"):
        term.collect(
            zipped(tmp_path / "b.zip", {f"a_9001_{n}_x.ipynb": bytes([n]) * 40 for n in range(9)}), gigabytes=1e-7
        )
    assert len(term.rows()) == 8


def test_a_table_in_other_hands(term, tmp_path):
    """Semicolons, another order and columns of one's own are kept; without a column that is needed it is refused."""
    (term.path / "submissions.csv").write_text("\ufefflearner;note;submission;received\r\n", "utf-8")
    term.collect(zipped(tmp_path / "a.zip", {"x_9001_7_a;b.ipynb": b"1"}))
    text = (term.path / "submissions.csv").read_bytes().decode()
    assert text == '\ufefflearner;note;submission;received\r\n0000001;;"0000001/1/a;b.ipynb";\r\n'
    (term.path / "submissions.csv").write_text("submission,who\n")
    with pytest.raises(Refusal, match="no column learner; there are submission, who"):
        term.collect(tmp_path / "a.zip")


def test_moodles_zip(term, tmp_path):
    """In folders or, by a setting, without; people by their names, as their numbers are others in each assignment."""
    contents = {
        "Zoë Müller_502_assignsubmission_file_/ps3.ipynb": NOTEBOOK,
        "Zoë Müller_502_assignsubmission_file_/data/x.csv": b"1",
        "Zoë Müller_502_assignsubmission_onlinetext_/onlinetext.html": b"<p>",
        "Comma, Inc. Van Dam_77_assignsubmission_file_ps3.ipynb": NOTEBOOK,
        "Someone Else_501_assignsubmission_file_/ps3.ipynb": NOTEBOOK,
    }
    term.collect(zipped(tmp_path / "a.zip", contents), time=DUE.astimezone(UTC))
    found = {(path.replace("/2027-03-05T22-59-00Z", ""), who) for path, (who, _) in term.rows().items()}
    assert found == {
        ("0000001/ps3.ipynb", "0000001"),
        ("0000001/data/x.csv", "0000001"),
        ("0000001/onlinetext.html", "0000001"),
        ("0000003/ps3.ipynb", "0000003"),
        (f"unknown-{collect._folder_name('Someone Else-501')}/ps3.ipynb", ""),
    }


def test_who_takes_anothers_name_in_moodle_hands_in_nothing_for_it(term, tmp_path):
    contents = {f"{n}_assignsubmission_file_/ps3.ipynb": n.encode() for n in ("Zoë Müller_502", "MULLER Zoe_503")}
    term.collect(zipped(tmp_path / "a.zip", contents | {"Learner 007_4_assignsubmission_file_/ps3.ipynb": b"7"}))
    assert sorted(who for who, _ in term.rows().values()) == ["", "", "0000007"]
    assert sum("several people in Moodle are called" in line for line in term.said) == 2


def test_moodles_zip_where_marking_is_blind(term, tmp_path):
    """There are only numbers, and a roster made of the worksheet knows them."""
    contents = {f"Participant_{n}_assignsubmission_file_/ps3.ipynb": str(n).encode() for n in (502, 506, 999)}
    counts = term.collect(zipped(tmp_path / "a.zip", contents))
    assert {who for who, _ in term.rows().values()} == {"0000002", "0000006", ""} and counts["unknown"] == 1


def test_the_worksheet_of_a_download_tells_people_of_one_name_apart(term, tmp_path):
    """By its numbers, which are Moodle's for this assignment; whoever only has the name gets nothing."""
    name = CLASS[0].learner.name
    contents = {f"{name}_{n}_assignsubmission_file_/ps3.ipynb": str(n).encode() for n in (501, 502, 999)}
    contents["Learner 007_507_assignsubmission_file_/ps3.ipynb"] = b"7"
    (tmp_path / "worksheet.csv").write_text(worksheet(), "utf-8")
    term.collect(zipped(tmp_path / "a.zip", contents), due=DUE, times=tmp_path / "worksheet.csv")
    ids = [CLASS[0].learner.id, CLASS[1].learner.id, CLASS[6].learner.id, ""]
    assert sorted(who for who, _ in term.rows().values()) == sorted(ids)
    assert not any("several people" in line for line in term.said)


def test_times_from_another_table(term, tmp_path):
    """Moodle's worksheet has them, in the clock of this place; a table of one's own may; the rest get `time`."""
    name = "{}_{}_assignsubmission_file_/ps3.ipynb"
    numbers = {n: name.format(CLASS[n - 1].learner.name, 500 + n) for n in (1, 2)}
    source = zipped(tmp_path / "a.zip", {path: bytes([n]) for n, path in numbers.items()})
    (tmp_path / "worksheet.csv").write_text(worksheet(), "utf-8")
    term.collect(source, due=DUE, times=tmp_path / "worksheet.csv")
    local = datetime(2027, 3, 6, 10, 15).astimezone()
    assert [datetime.fromisoformat(when) for _, when in term.rows().values()] == [local, local]
    late = zipped(tmp_path / "b.zip", {"x_LATE_9003_7_ps3.ipynb": b"3", "x_9004_8_ps3.ipynb": b"4"})
    (tmp_path / "times.csv").write_text("learner;received\nlearner-003@example.edu;2027-03-07T01:00+01:00\n")
    term.collect(late, due=DUE, time=DUE, times=tmp_path / "times.csv")
    rows = {who: when for who, when in term.rows().values()}
    assert (rows["0000003"], rows["0000004"]) == ("2027-03-07T01:00:00+01:00", "2027-03-05T23:59:00+01:00")
    (tmp_path / "times.csv").write_text("learner,received\n0000001,yesterday\n")
    with pytest.raises(Refusal, match="line 2: received has to be like"):
        term.collect(late, times=tmp_path / "times.csv")
    (tmp_path / "times.csv").write_text(worksheet(GERMAN), "utf-8")
    with pytest.raises(Refusal, match="there are ID, Vollständiger Name"):
        term.collect(late, times=tmp_path / "times.csv")


GRADESCOPE = """\
submission_409194023:
  :submitters:
  - :name: Zoë Müller
    :sid: '0000001'
    :email: learner-001@example.edu
  :created_at: 2027-03-05 17:34:00.861687000 Z
  :score: 2.0
  :results:
    output: |-
      :submitters: none
    :submitters:
    - :sid: '0000003'
submission_500000001:
  :submitters:
  - :name: Nobody Knows
    :email: learner-002@example.edu
  - :name: Learner 009
  :created_at: !ruby/object:ActiveSupport::TimeWithZone
    utc: 2027-03-06 08:00:00.000000000 Z
    zone: &1 !ruby/object:ActiveSupport::TimeZone
      name: America/Los_Angeles
  :history:
  - :created_at: 2020-01-01 00:00:00 Z
    :results: {a: [1, {b: [2]}], c: *1}
submission_700000003:
  :submitters: []
"""


def test_gradescopes_export(term, tmp_path):
    """Whose, and when, is in a file of it; what a group handed in is each member's."""
    root = "assignment_9100_export/"
    contents = {f"{root}submission_metadata.yml": GRADESCOPE.encode(), f"{root}.DS_Store": b"x"}
    contents |= {f"{root}submission_409194023/ps3.ipynb": NOTEBOOK, f"{root}submission_409194023/a/b.py": b"1"}
    contents |= {f"{root}submission_500000001/ps3.ipynb": b"2", f"{root}submission_700000003/ps3.ipynb": b"3"}
    term.collect(zipped(tmp_path / "a.zip", contents), due=DUE)
    early, late = "2027-03-05T17:34:00+00:00", "2027-03-06T08:00:00+00:00"
    assert term.rows() == {
        "0000001/2027-03-05T17-34-00Z/ps3.ipynb": ("0000001", early),
        "0000001/2027-03-05T17-34-00Z/a/b.py": ("0000001", early),
        "0000002/2027-03-06T08-00-00Z/ps3.ipynb": ("0000002", late),
        "0000009/2027-03-06T08-00-00Z/ps3.ipynb": ("0000009", late),
        "unknown-submission_700000003/1/ps3.ipynb": ("", ""),
    }
    assert any("no time is known" in line for line in term.said)
    for broken in (b"{", b"[1]", b"", b"a:\n  :submitters:\n  - {x: [1"):
        with pytest.raises(Refusal, match="export once more"):
            term.collect(zipped(tmp_path / "b.zip", {f"{root}submission_metadata.yml": broken}))


@pytest.mark.parametrize("kind", downloads.KINDS)
@pytest.mark.parametrize("item", ["", "ps3"])
def test_a_download_that_is_read_as_another_kind(term, tmp_path, kind, item):
    """Its files are found by their paths, or a sentence says what is missing."""
    source = folder_of(tmp_path / "in", {"learner-001_ps3.ipynb": NOTEBOOK})
    if kind == "gradescope" or kind == "nbgrader" and item:
        with pytest.raises(Refusal, match="no submission_metadata.yml in it|no folder of nbgrader in it"):
            term.collect(source, kind=kind, item=item)
    else:
        term.collect(source, kind=kind, item=item)
        assert [who for who, _ in term.rows().values()] == ["0000001"]


@pytest.mark.parametrize("shape", ["submitted", "below", "inbound"])
def test_nbgraders_folders(term, tmp_path, shape):
    """What `nbgrader collect` made, from above or from inside; and the exchange's own folder."""
    stamp = "2027-03-05 15:58:23.948203 Europe/Berlin"
    if shape == "inbound":
        files_ = {"learner-001+ps3+2027-03-05 14:58:23.948203 UTC+ab_9-z/ps3.ipynb": NOTEBOOK}
        files_ |= {"learner-001+ps2+2027-03-01 14:58:23.948203 UTC+ab_9-z/ps2.ipynb": b"old"}
    else:
        top = "submitted/" if shape == "submitted" else ""
        files_ = {f"{top}0000001/ps3/ps3.ipynb": NOTEBOOK, f"{top}0000001/ps3/timestamp.txt": stamp.encode()}
        files_ |= {f"{top}0000001/ps3/submission_secret.txt": b"s", f"{top}0000001/ps2/ps2.ipynb": b"old"}
        files_ |= {f"{top}0000001/ps2/timestamp.txt": stamp.encode()}
        files_ |= {"source/ps3/ps3.ipynb": b"with solutions"} if top else {}
    source = folder_of(tmp_path / "course", files_)
    with pytest.raises(Refusal, match="no assignment of these is Problem set 3: ps2, ps3; say which: --item"):
        term.collect(source)
    term.collect(source, item="ps3")
    ((path, (who, received)),) = term.rows().items()
    assert (path, who) == ("0000001/2027-03-05T14-58-23Z/ps3.ipynb", "0000001")
    assert datetime.fromisoformat(received) == datetime(2027, 3, 5, 14, 58, 23, tzinfo=UTC)


def test_the_times_that_nbgrader_writes():
    """A zone that nobody knows is no time; none at all is UTC."""
    for text, hour in (
        ("2027-03-05 10:00:00.5 UTC", 10),
        ("2027-03-05 10:00:00", 10),
        ("2027-03-05 10:00:00 +0200", 8),
    ):
        assert downloads._time(text).astimezone(UTC).hour == hour
    for text in (
        "",
        "yesterday",
        "2027-03-05 10:00:00 MIDDLE_EARTH",
        "2027-03-05 10:00:00 ../../etc/passwd",
        "2027-99-05 10:00:00",
    ):
        assert downloads._time(text) is None


def git(folder, *command, when="2027-03-05T22:10:00+0100"):
    """Run git in a folder, as a learner's machine would."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "x"), ("EMAIL", "x@example.edu"), ("DATE", when))
    }
    subprocess.run(["git", "-C", folder, *command], env=env, check=True, capture_output=True)


def test_github_classrooms_checkouts(term, tmp_path):
    """The user is at the end of the folder's name, hyphens or not; the time is the last commit's."""
    ran = tmp_path / "ran"
    for user in ("learner-001", "hub-ber-t", "stranger"):
        place = folder_of(tmp_path / "ps3-submissions", {f"ps-3-{user}/ps3.ipynb": user.encode()}) / f"ps-3-{user}"
        git(place, "init", "-q")
        if user != "stranger":
            git(place, "add", ".")
            git(place, "commit", "-qm", "x")
        with (place / ".git/config").open("a") as config:
            config.write(f"[core]\nfsmonitor = touch {ran}\npager = touch {ran}\nsshCommand = touch {ran}\n")
            config.write(f"[log]\nshowSignature = true\n[gpg]\nprogram = touch {ran}\n")
    learners = [*ROSTER, Learner("30", "Hub Bert", more={"github_username": "Hub-Ber-t"}), Learner("t", "T T")]
    term.collect(tmp_path / "ps3-submissions", learners)
    when = "2027-03-05T22:10:00+01:00"
    assert term.rows() == {
        "0000001/2027-03-05T21-10-00Z/ps3.ipynb": ("0000001", when),
        "30/2027-03-05T21-10-00Z/ps3.ipynb": ("30", when),
        "unknown-ps-3-stranger/1/ps3.ipynb": ("", ""),
    }
    assert not ran.exists(), "a checkout's own settings ran a program"


def test_a_user_whose_name_ends_like_anothers_is_nobody(term, tmp_path):
    users = ("learner-001", "learner-002", "x-learner-003")
    source = folder_of(tmp_path / "in", {f"ps3-{user}/ps3.ipynb": user.encode() for user in users})
    for user in users:
        git(source / f"ps3-{user}", "init", "-q")
    term.collect(source)
    assert sorted(who for who, _ in term.rows().values()) == ["", "0000001", "0000002"]


def message(sender, received="", date="Fri, 05 Mar 2027 10:00:00 +0100", attachments=()):
    """A message, as it is saved."""
    one = EmailMessage()
    if received:
        one["Received"] = f"from a by mx.example.edu; {received}"
    one["From"], one["Subject"], one["Date"] = sender, "ps3", date
    one.set_content("Here it is.")
    for name, data in attachments:
        one.add_attachment(data, "application", "x-ipynb+json", filename=name)
    return bytes(one)


@pytest.mark.parametrize("kind", ["eml", "mbox"])
def test_saved_mail(term, tmp_path, kind):
    """Attachments are the sender's; the time is the own server's, and else the message's."""
    messages = [
        message(
            "Learner One <Learner-001@example.edu>",
            "Fri, 05 Mar 2027 22:00:00 +0100",
            attachments=[("ä ps3.ipynb", b"1")],
        ),
        message("learner-002@example.edu", attachments=[("ps3.ipynb", b"2"), ("../../helper.py", b"3")]),
        message("stranger@example.com", date="no date", attachments=[("ps3.ipynb", b"4")]),
        message("learner-003@example.edu"),
        b"From: \xff\xfe <\r\nContent-Type: multipart/mixed; boundary=\r\n\r\n--",
    ]
    if kind == "eml":
        source = folder_of(tmp_path / "mail", {f"{n}.eml": data for n, data in enumerate(messages)})
    else:
        source = tmp_path / "inbox"
        source.write_bytes(
            b"".join(b"From x@example.edu Fri Mar  5 10:00:00 2027\n" + data + b"\n\n" for data in messages)
        )
    term.collect(source)
    assert term.rows() == {
        "0000001/2027-03-05T21-00-00Z/ä ps3.ipynb": ("0000001", "2027-03-05T22:00:00+01:00"),
        "0000002/2027-03-05T09-00-00Z/ps3.ipynb": ("0000002", "2027-03-05T10:00:00+01:00"),
        "0000002/2027-03-05T09-00-00Z/helper.py": ("0000002", "2027-03-05T10:00:00+01:00"),
        "unknown-stranger@example.com/1/ps3.ipynb": ("", ""),
    }
    assert any("learner-003@example.edu, has no attachment" in line for line in term.said)


def test_any_folder(term, tmp_path):
    """By the path; the time is the file's own; what systems leave behind is left; `only` leaves more."""
    source = folder_of(
        tmp_path / "home",
        {
            "learner-001/work/ps3.ipynb": b"1",
            "learner-001/work/.ipynb_checkpoints/ps3.ipynb": b"0",
            "learner-002_ps3.ipynb": b"2",
            "notes.ipynb": b"3",
            "learner-001/work/thesis.tex": b"4",
        },
    )
    for path in source.rglob("*"):
        os.utime(path, (DUE.timestamp(), DUE.timestamp()))
    counts = term.collect(source, only="*.ipynb", due=DUE)
    assert counts["other"] == 1
    assert {path: who for path, (who, _) in term.rows().items()} == {
        "0000001/2027-03-05T22-59-00Z/ps3.ipynb": "0000001",
        "0000002/2027-03-05T22-59-00Z/learner-002_ps3.ipynb": "0000002",
        "unknown-notes/2027-03-05T22-59-00Z/notes.ipynb": "",
    }
    assert all(datetime.fromisoformat(received) == DUE for _, received in term.rows().values())


# ---- hostile ----


def test_a_hostile_zip_puts_nothing_elsewhere(term, tmp_path, monkeypatch):
    """No path leads out, no link is made, what cannot be taken is told, and the rest comes in."""
    monkeypatch.setattr(files, "LARGEST", 1_000_000)
    link, fifo = (stat.S_IFLNK | 0o777) << 16, (stat.S_IFIFO | 0o644) << 16
    contents = {
        "x_9001_1_a.ipynb": b"honest",
        "../../../../x_9002_2_slip.ipynb": b"up",
        "/x_9003_3_root.ipynb": b"root",
        "C:\\y\\..\\x_9004_4_drive.ipynb": b"drive",
        "x_9005_5_link.ipynb": ({"external_attr": link}, b"/etc/passwd"),
        "x_9005_6_fifo.ipynb": ({"external_attr": fifo}, b""),
        "x_9006_7_bomb.ipynb": bytes(30_000_000),
        "x_9006_8_" + "n" * 240 + ".ipynb": b"long",
        "x_9006_9_a\x1b[31m\n.ipynb": b"screen",
        "x_9006_10_..": b"dots",
    }
    source = zipped(tmp_path / "a.zip", contents)
    tracemalloc.start()
    counts = term.collect(source)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000, "the bomb was unpacked"
    tracemalloc.stop()
    assert (counts["new"], counts["refused"]) == (7, 3)
    told = [line for line in term.said if "left out" in line]
    assert ["a link" in told[0], "no ordinary file" in told[1], "more than 1 MB" in told[2]] == [True] * 3
    rows = term.rows()
    assert {path.partition("/")[0] for path in rows} == {"0000001", "0000002", "0000003", "0000004", "0000006"}
    assert all(path.isprintable() and len(os.fsencode(Path(path).name)) <= 130 for path in rows)
    assert not any(path.is_symlink() for path in term.path.rglob("*"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "term"]
    assert sorted(path.name for path in term.path.iterdir()) == ["submissions", "submissions.csv"]


def test_names_that_stand_twice_and_names_in_old_code_pages(term, tmp_path):
    """Both are kept, under two names; bytes without a mark are read as UTF-8 where they are."""
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("x_9001_1_a.ipynb", b"1")
        file.writestr("x_9001_1_a.ipynb", b"2")
    term.collect(tmp_path / "a.zip")
    assert set(term.rows()) == {"0000001/1/a.ipynb", "0000001/1/a (2).ipynb"}
    data = zipped(tmp_path / "b.zip", {"x_9001_2_XXé.ipynb": b"3"}).read_bytes()
    flagged = data.replace(b"\x00\x08\x08\x00", b"\x00\x00\x08\x00")  # the bit that says UTF-8, twice
    assert flagged != data
    (tmp_path / "b.zip").write_bytes(flagged)
    term.collect(tmp_path / "b.zip")
    assert "0000001/2/XXé.ipynb" in term.rows()


def test_damaged_and_locked_files_of_a_zip(term, tmp_path):
    """They are told, and stop nobody else's."""
    source = zipped(
        tmp_path / "a.zip", {"x_9001_1_a.ipynb": b"a" * 50, "x_9002_2_b.ipynb": b"fine" * 50, "x_9003_3_c.ipynb": b"c"}
    )
    data = bytearray(source.read_bytes())
    start = data.index(b"x_9001_1_a.ipynb") + len(b"x_9001_1_a.ipynb")
    data[start] ^= 0xFF
    central = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4) + 4)
    data[central + 8] |= 1  # encrypted
    source.write_bytes(data)
    counts = term.collect(source)
    assert (counts["new"], counts["refused"]) == (1, 2)
    assert "cannot be unpacked" in term.said[1] and "password" in term.said[2]
    for data in (b"PK\x03\x04" + b"x" * 90, source.read_bytes()[:-40], b"text"):
        (tmp_path / "b.zip").write_bytes(data)
        with pytest.raises(Refusal, match="no folder, no zip|damaged"):
            term.collect(tmp_path / "b.zip")


def test_nobody_can_hand_in_without_end(term, tmp_path, monkeypatch):
    """One learner's files are bounded in number and size, and others come in all the same."""
    monkeypatch.setattr(collect, "MOST_FILES", 3)
    monkeypatch.setattr(collect, "MOST_BYTES", 1000)
    contents = {f"x_9001_{n}_a.ipynb": bytes([n]) for n in range(10, 20)}
    contents |= {"x_9002_1_a.ipynb": bytes(990), "x_9002_2_b.ipynb": bytes(20), "x_9003_1_a.ipynb": b"1"}
    counts = term.collect(zipped(tmp_path / "a.zip", contents))
    assert (counts["new"], counts["refused"]) == (5, 8)
    monkeypatch.setattr(files, "MOST_ENTRIES", 12)
    with pytest.raises(Refusal, match="13 files are in it"):
        term.collect(tmp_path / "a.zip")


def test_a_hostile_folder(term, tmp_path):
    """Links are not followed, and what is no file is not waited for."""
    source = folder_of(tmp_path / "in", {"learner-001/ps3.ipynb": b"1", "learner-002/ps3.ipynb": b"2"})
    (source / "learner-002/secret.ipynb").symlink_to("/etc/passwd")
    (source / "learner-003").symlink_to("/etc")
    os.mkfifo(source / "learner-001/pipe.ipynb")
    (source / os.fsdecode(b"learner-004\xff.ipynb")).write_bytes(b"4")
    counts = term.collect(source)
    assert (counts["new"], counts["refused"]) == (3, 3)
    assert sum("is a link" in line for line in term.said) == 2
    opened = files.Folder(source)
    (entry,) = (entry for entry in opened.entries if entry.path == "learner-001/ps3.ipynb")
    (source / "learner-001").rename(tmp_path / "elsewhere")
    (source / "learner-001").symlink_to(tmp_path / "elsewhere")  # after it was looked at, and before it is read
    with pytest.raises(files.Bad, match="cannot be opened"):
        opened.read(entry)
    for inside in (term.path, term.path / "submissions", term.path / "submissions" / "0000001"):
        with pytest.raises(Refusal, match="where files are put"):
            term.collect(inside)


MINE = {f"learner-00{n}/ps3.ipynb": bytes([n]) for n in (1, 3, 4)}
VICTIM = b'learner-001:\n  :submitters:\n  - :sid: "0000002"\nsubmission_1:\n  :submitters:\n  - :sid: "0000009"\n'
DISGUISES = {
    "moodle": {"learner-002/Learner 009_1_assignsubmission_file_/x.ipynb": b"!"},
    "gradescope": {"learner-002/submission_metadata.yml": VICTIM, "learner-002/submission_1/x.ipynb": b"!"},
    "gradescope at the top": {"submission_metadata.yml": VICTIM, "submission_1/x.ipynb": b"!"},
    "github": {"learner-002/ps3-learner-009/.git/HEAD": b"", "learner-002/ps3-learner-009/x.ipynb": b"!"},
    "nbgrader's folder": {"learner-002/submitted/0000009/ps3/x.ipynb": b"!"},
    "nbgrader's time": {"learner-002/ps3/timestamp.txt": b"2027-03-01 00:00:00 UTC"},
    "nbgrader's exchange": {"learner-002/0000009+ps3+2020-01-01 00:00:00 UTC+r/x.ipynb": b"!"},
    "mail": {"learner-002/x.eml": b"From: learner-009@example.edu\n\n"},
}


@pytest.mark.parametrize("kind", DISGUISES)
def test_what_one_learner_hands_in_does_not_make_a_folder_a_platforms(term, tmp_path, kind):
    """Its paths and files could say that it is another's, and that another's is its own."""
    term.collect(folder_of(tmp_path / "in", MINE | DISGUISES[kind]))
    whose = {who for who, _ in term.rows().values()}
    assert {"0000001", "0000003", "0000004"} <= whose <= {"", "0000001", "0000002", "0000003", "0000004"}


@pytest.mark.parametrize("top", ["", "submitted/", "inbound/"])
def test_folders_below_a_learners_own_are_not_those_of_nbgrader(term, tmp_path, top):
    name = "{}+ps3+2027-03-01 00:00:00 UTC+r" if top == "inbound/" else "{}/ps3"
    contents = {f"{top}{name.format(f'000000{n}')}/ps3.ipynb": bytes([n]) for n in (1, 2, 3)}
    contents |= {f"{top}{name.format(f'000000{n}')}/timestamp.txt": b"2027-03-01 00:00:00 UTC" for n in (1, 2, 3)}
    mine = f"{top}{name.format('0000002')}"
    contents |= {f"{mine}/0000009+ps3+2020-01-01 00:00:00 UTC+r/x.ipynb": b"!"}
    contents |= {f"{mine}/submitted/0000009/ps3/y.ipynb": b"!!"}
    term.collect(folder_of(tmp_path / "in", contents), item="ps3")
    assert sorted(who for who, _ in term.rows().values()) == ["0000001", "0000002", "0000002", "0000002", "0000003"]


def test_a_checkout_in_a_checkout_is_the_learners(term, tmp_path):
    """It cannot be another's, and is not even looked at: a thousand of them would take hours."""
    contents = {f"ps3-learner-00{n}/ps3.ipynb": bytes([n]) for n in (1, 2)}
    source = folder_of(tmp_path / "in", contents | {"ps3-learner-001/x/ps3-learner-009/y.ipynb": b"!"})
    for place in ("ps3-learner-001", "ps3-learner-002", "ps3-learner-001/x/ps3-learner-009"):
        git(source / place, "init", "-q")
    term.collect(source)
    assert sorted(who for who, _ in term.rows().values()) == ["0000001", "0000001", "0000002"]


@pytest.mark.parametrize("how", ["a large commit", "HEAD without end", "settings that wait", "settings without end"])
def test_a_hostile_checkout_has_no_time(term, tmp_path, monkeypatch, how):
    """And takes neither memory nor long; others come in."""
    source = folder_of(tmp_path / "in", {"ps3-learner-001/ps3.ipynb": b"1", "ps3-learner-002/ps3.ipynb": b"2"})
    for user in ("learner-001", "learner-002"):
        place = source / f"ps3-{user}"
        git(place, "init", "-q")
        git(place, "add", ".")
        git(place, "commit", "-qm", "x")
    mine = source / "ps3-learner-001/.git"
    if how == "a large commit":
        (tmp_path / "message").write_bytes(b"x\n" * 3_000_000)
        git(mine.parent, "commit", "-q", "--amend", "--cleanup=verbatim", "-F", str(tmp_path / "message"))
    elif how == "HEAD without end":
        (mine / "HEAD").unlink()
        (mine / "HEAD").symlink_to("/dev/zero")
    else:
        os.mkfifo(mine / "pipe")
        path = mine / "pipe" if how == "settings that wait" else "/dev/zero"
        (mine / "config").write_text(f"[include]\npath = {path}\n")
    monkeypatch.setattr(downloads, "GIT_SECONDS", 0.5)
    term.collect(source)
    when = {who: received for who, received in term.rows().values()}
    assert when == {"0000001": "", "0000002": "2027-03-05T22:10:00+01:00"}


def test_times_that_are_in_no_calendar_are_unknown(term, tmp_path):
    """A sender's own clock may show any, and others' work comes in."""
    source = folder_of(tmp_path / "in", MINE)
    os.utime(source / "learner-001/ps3.ipynb", (9e12, 9e12))
    os.utime(source / "learner-003/ps3.ipynb", (-9e12, -9e12))
    term.collect(source)
    years = {who: when[:4] for who, when in term.rows().values()}
    assert (years["0000001"], years["0000003"]) == ("2096", "1970")
    dates = {1: "Fri, 31 Dec 9999 23:59:59 -0100", 2: "Fri, 05 Mar 2027 10:00:00 +0100"}
    mail = {f"{n}.eml": message(f"learner-00{n}@example.edu", "", dates[n], [("a.ipynb", b"m")]) for n in dates}
    term.collect(folder_of(tmp_path / "mail", mail))
    assert ("0000001", "") in term.rows().values() and ("0000002", "2027-03-05T10:00:00+01:00") in term.rows().values()


def test_what_cannot_lie_in_a_folder_is_told_and_stops_nobody(term, tmp_path):
    """Paths longer than systems take, and names that are passed over when it is graded."""
    contents = {"submission_metadata.yml": GRADESCOPE.encode(), f"submission_409194023/{'d/' * 3000}a.ipynb": b"1"}
    contents |= {"submission_500000001/a.ipynb": b"2"}
    counts = term.collect(zipped(tmp_path / "a.zip", contents))
    assert (counts["new"], counts["refused"]) == (2, 1) and any("too deep" in line for line in term.said)
    assert max(map(len, term.said)) < 400
    counts = term.collect(zipped(tmp_path / "b.zip", {"x_9001_1_._a.ipynb": b"3", "x_9002_2_.git": b"4"}))
    assert counts["refused"] == 2 and any("give to files of their own" in line for line in term.said)


def test_a_zip_that_is_damaged_anywhere_is_refused_or_read(tmp_path):
    """Whatever way its files are packed, and whatever their names."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for way in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_STORED):
            file.writestr(zipfile.ZipInfo(f"é{way}.ipynb"), bytes(range(99)) * 3, way)
    good, found = (tmp_path / "a.zip").read_bytes(), set()
    for at in range(len(good)):
        for value in (0, 255):
            (tmp_path / "b.zip").write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
            try:
                source = collect._open(tmp_path / "b.zip")
            except Refusal:
                found.add("refused")
                continue
            for entry in source.entries:
                try:
                    source.read(entry)
                except files.Bad:
                    found.add("bad")
            source.close()
    assert found == {"refused", "bad"}


@pytest.mark.parametrize("name", ["From", "Content-Type", "Content-Disposition"])
def test_a_header_that_takes_the_parser_minutes_is_told(term, tmp_path, name):
    hostile = f"{name}: {'=?utf-8?q?a?= ' * 20_000}\r\n\r\nx".encode()
    mail = {"a.eml": hostile, "b.eml": message("learner-002@example.edu", attachments=[("a.ipynb", b"2")])}
    start = time.monotonic()
    counts = term.collect(folder_of(tmp_path / "mail", mail))
    assert counts["new"] == 1 and time.monotonic() - start < 3
    assert any("a.eml has a header of more than 5000 characters" in line for line in term.said)


def test_files_that_come_and_go_meanwhile_stop_nobody(term, tmp_path, monkeypatch):
    """People go on working in their homes."""
    source = folder_of(tmp_path / "in", MINE)
    walk = os.walk

    def walks(*arguments, **more):
        for place, folders, names in walk(*arguments, **more):
            yield place, folders, [*names, "gone.ipynb"] if place.endswith("learner-001") else names

    monkeypatch.setattr(files.os, "walk", walks)
    counts = term.collect(source)
    monkeypatch.undo()
    assert (counts["new"], counts["refused"]) == (3, 1) and len(term.rows()) == 3


@given(st.text(max_size=40))
def test_folders_and_files_have_names_that_lead_nowhere_else(text):
    """Whatever an id or a file is called; two ids never share a folder."""
    for name in (collect._folder_name(text), *(collect._file_name(part) for part in files.parts(text))):
        assert "/" not in name and "\0" not in name and name not in ("", ".", "..") and len(os.fsencode(name)) < 200
        assert name.isprintable()
    assert collect._folder_name(text) != collect._folder_name(text + "/") != collect._folder_name(text + "-")


# ---- the commands ----


@pytest.fixture
def course(tmp_path):
    """term/ps3 with a roster, graded."""
    folder = tmp_path / "term" / "ps3"
    (folder / "grades").mkdir(parents=True)
    (folder / "assignment.toml").write_text(f'title = "{TITLE}"\ndue = 2027-03-05T23:59:00+01:00\n', "utf-8")
    with (tmp_path / "term" / "roster.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "name", "email", "login", "section"])
        lines.writerows([w.id, w.name, w.email, w.login, w.section] for w in (r.learner for r in CLASS))
    with (folder / "grades" / "gradebook.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([*gradebook.COLUMNS, "rope"])
        for r in CLASS:
            received = r.received.isoformat() if r.received else ""
            told = [r.points, r.out_of, r.earned, r.penalty, received, "", r.attempt, r.attempts, r.submission]
            lines.writerow([r.learner.id, r.learner.name, r.learner.email, "", *told, r.status, "", "", r.points])
    return folder


def test_the_command_that_exports(course, capsys, tmp_path):
    """The file is where one is told, and what one is told of is what to import."""
    said = []
    assert export.main([str(course), "canvas", "--item", str(ITEM)], said.append) == 0
    text = (course / "export" / "canvas.csv").read_text("utf-8")
    assert points_in(importers.canvas(text, COURSE, {ITEM: TITLE})[0], ITEM) == expected_points(CLASS)
    assert said[-1] == f"9 learners; to import: {course / 'export' / 'canvas.csv'}"
    template = tmp_path / "downloaded.csv"
    template.write_bytes(canvas_file(mark="\ufeff").encode())
    (course / "regrade").mkdir()
    options = [
        "--template",
        str(template),
        "--missing",
        "zero",
        "--points",
        "scaled",
        "--out",
        str(tmp_path / "new.csv"),
    ]
    assert export.main([str(course), "canvas", *options], said.append) == 0
    assert "waits to be accepted" in said[1] and (tmp_path / "new.csv").read_bytes().startswith(b"\xef\xbb\xbfStudent,")
    assert export.main([str(course), "canvas", "--template", str(template), "--out", str(template)], said.append) == 2
    assert export.main([str(course), "moodle", "--template", str(tmp_path / "none.csv")], said.append) == 2
    assert export.main([str(course), "csv", "--out", str(template / "new.csv")], said.append) == 2
    (course / "grades" / "gradebook.csv").unlink()
    assert export.main([str(course), "csv"], said.append) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in errors] == ["error"] * 4
    assert "the template would be lost" in errors[0] and "No such file" in errors[1] and "grade first" in errors[3]
    assert errors[2] == f"error: {template}: File exists"


def test_the_command_that_collects(course, capsys, tmp_path):
    """With the roster beside the assignment; `--time due` says that files came in time."""
    source, said = zipped(tmp_path / "submissions.zip", CANVAS), []
    assert collect.main([str(course), str(source)], said.append) == 2
    assert "--time due" in capsys.readouterr().err
    assert collect.main([str(course), str(source), "--time", "due"], said.append) == 0
    assert "6 new files, 0 known, 2 of nobody" in said[-2]  # this roster has no numbers of Canvas's, but the names
    rows = importers.rows_of((course / "submissions.csv").read_text("utf-8"))
    assert ["0000001/2027-03-05T22-59-00Z/ps3.ipynb", "0000001", "2027-03-05T23:59:00+01:00"] in rows
    assert collect.main([str(course), str(source), "--time", "soon"], said.append) == 2
    assert collect.main([str(course), str(tmp_path / "none.zip"), "--time", "2027-03-01"], said.append) == 2
    (course / "assignment.toml").write_text('title = "x"\n')
    assert collect.main([str(course), str(source), "--time", "due"], said.append) == 2
    errors = capsys.readouterr().err
    assert "--time has to be like" in errors and "no such file or folder" in errors and "has no due date" in errors


def test_a_person_who_stops_collecting_can_go_on(course, capsys, tmp_path, monkeypatch):
    """What was taken until then is noted, and there is one line and no traceback."""
    source, read, said = zipped(tmp_path / "submissions.zip", CANVAS), files.Zip.read, []

    def stopped(self, entry):
        if "helper" in entry.path:
            raise KeyboardInterrupt
        return read(self, entry)

    with monkeypatch.context() as patch:
        patch.setattr(files.Zip, "read", stopped)
        assert collect.main([str(course), str(source), "--time", "due"], said.append) == 130
    assert capsys.readouterr().err == "stopped; what was taken is kept; the same command goes on\n"
    assert len(importers.rows_of((course / "submissions.csv").read_text("utf-8"))) == 2
    assert collect.main([str(course), str(source), "--time", "due"], said.append) == 0
    assert said[-2] == "5 new files, 1 known, 2 of nobody"
