"""The roster, whose a file is, what each learner gets for an assignment, and what a regrade would change."""

import csv
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises import ids, load
from exercises.grade import difference, gradebook, marks, pages, report, roster, run
from exercises.grade.assignment import Assignment
from exercises.grade.gradebook import Attempt, Row, choose, lateness, penalty
from exercises.grade.roster import Finder, Learner, guarded, unguarded
from exercises.grade.run import Refusal

IDS = ("kv-cache-bytes", "round-bf16", "count-block")
FULL = {id: load(id).points for id in IDS}
DUE = datetime(2027, 3, 5, 23, 59, tzinfo=UTC)
PLAIN = Assignment("Problem set 3", IDS)


def people(count=4):
    """Learners of a synthetic class."""
    return [
        Learner(f"10000{n}", f"Learner 0{n}0", f"learner-0{n}0@example.edu", f"user{n}x0", f"group {n % 2}")
        for n in range(1, count + 1)
    ]


# ---- the roster ----


def written(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Problem set 3 (77),Current Score
,,,,,Manual Posting,
    Points Possible,,,,,10.00,(read only)
"One, Learner",501,000017,one@example.edu,Lecture and Lab 1,,
"von Two, Learner Ü.",502,000018,two@example.edu,Lecture,,
"Student, Test",503,,a8f5f167f44f4964,Lecture,,
"""
ROSTERS = {
    "our own": ("id,name,email,login,section\n0017,Learner One,one@example.edu,one,A\n", "0017", "one@example.edu"),
    "Canvas": (CANVAS, "000017", ""),
    "Canvas without SIS ids": (
        'Student,ID,SIS Login ID,Section\n    Points Possible,,,\n"One, Learner",501,one,A\n',
        "501",
        "",
    ),
    "Canvas, names apart": (
        "LastName,FirstName,ID,SIS User ID,SIS Login ID,Section\nOne,Learner,501,0017,one,A\nStudent,Test,9,,x,A\n",
        "0017",
        "",
    ),
    "Moodle participants": (
        '"First name","Last name","ID number","Email address",Groups\nLearner,One,0017,one@example.edu,"A, B"\n',
        "0017",
        "one@example.edu",
    ),
    "Moodle, German, no numbers": (
        "Vorname;Nachname;ID-Nummer;E-Mail-Adresse\nLearner;One;;one@example.edu\n",
        "one@example.edu",
        "one@example.edu",
    ),
    "Moodle grading worksheet": (
        'Identifier,"Full name","Email address",Status\n"Participant 12",Learner One,one@example.edu,Submitted\n',
        "one@example.edu",
        "one@example.edu",
    ),
    "nbgrader": (
        "id,first_name,last_name,email,lms_user_id\nbitdiddle,Learner,One,one@example.edu,77\n",
        "bitdiddle",
        "one@example.edu",
    ),
    "Gradescope": (
        "First Name,Last Name,SID,Email,Role,Section\nLearner,One,0017,one@example.edu,Student,A\n"
        "The,Teacher,,t@example.edu,Instructor,\nAn,Assistant,,a@example.edu,TA,\n",
        "0017",
        "one@example.edu",
    ),
    "GitHub Classroom": (
        "identifier,github_username,github_id,name\none@example.edu,octo-one,583231,Learner One\n",
        "one@example.edu",
        "one@example.edu",
    ),
}


@pytest.mark.parametrize("kind", ROSTERS)
@pytest.mark.parametrize("form", ["plain", "BOM", "tabs", "sep"])
def test_a_roster_is_read_as_it_was_given_out(tmp_path, kind, form):
    text, id, email = ROSTERS[kind]
    if form == "tabs" and '"' not in text:
        text = text.replace(";", "\t").replace(",", "\t")
    if form == "sep":
        text = f"sep={';' if ';' in text else ','}\r\n" + text.replace("\n", "\r\n")
    first = roster.read(written(tmp_path / "roster.csv", text, "utf-8-sig" if form == "BOM" else "utf-8"))[0]
    assert (first.id, first.name, first.email) == (id, "Learner One", email)
    assert not [title for title in first.more if title.startswith("\ufeff")]


def test_canvas_rows_that_are_no_learners_are_left_out_and_all_columns_are_kept(tmp_path):
    one, two = roster.read(written(tmp_path / "r.csv", CANVAS))
    assert (two.name, two.login, two.section) == ("Learner Ü. von Two", "two@example.edu", "Lecture")
    assert one.more["ID"] == "501" and one.more["Student"] == "One, Learner" and "Problem set 3 (77)" in one.more


def test_teachers_are_left_out_where_a_column_tells_them(tmp_path):
    assert len(roster.read(written(tmp_path / "r.csv", ROSTERS["Gradescope"][0]))) == 1


REFUSED = {
    "no id": ("name,section\nLearner One,A\n", "no column is an id or an e-mail; there are name, section"),
    "double": ("id,name\na1,One\nb,Two\nA1,Three\n", "id A1 stands in line 2 and in line 4"),
    "empty": ("", "it is empty"),
    "only a header": ("id,name\n", "there is no learner in it"),
    "a gap": ("id,name\n1,One\n\n,Two\n", "line 4: there is no id, and it is the id of the others"),
    "too many cells": ("id,name\n1,One, Learner\n", "line 2: there are 3 cells"),
    "a binary": ("PK\0\0\0", "this is no text"),
    "a quote": ('id,name\n1,"One\n', "no CSV"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_roster_that_cannot_be_is_refused_and_the_message_says_why(tmp_path, kind):
    text, message = REFUSED[kind]
    with pytest.raises(Refusal, match="r.csv") as refusal:
        roster.read(written(tmp_path / "r.csv", text))
    assert message in str(refusal.value)


def test_a_roster_in_another_encoding_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(Refusal, match="not UTF-8; save it as CSV UTF-8"):
        roster.read(written(tmp_path / "r.csv", "id,name\n1,Übung\n", "latin-1"))
    with pytest.raises(Refusal, match="no such file"):
        roster.read(tmp_path / "nowhere.csv")


@given(st.text() | st.text("=+-@＝' \t\n\r\xa0a", max_size=4))
def test_what_is_guarded_is_no_formula_and_comes_back(text):
    assert unguarded(guarded(text)) == text
    assert guarded(text).lstrip()[:1] not in ("=", "+", "-", "@", "＝")


# ---- whose is it ----

CLASS = [
    Learner("4711001", "Anna Müller", "a.mueller@example.edu", "ab12cd"),
    Learner("4711002", "Ben de la Cruz", "cruz@example.edu", "benson"),
    Learner("17", "Cleo Müller", "muller@example.edu", "max"),
    Learner("A-5", "王伟", "wang@example.edu", "wei.wang"),
    Learner("4711005", "Dora Lee", "dora@example.edu", ""),
    Learner("4711006", "Dora Lee Smith", "smith@example.edu", ""),
    Learner("4711007", "Finn Wood", "same@example.edu", ""),
    Learner("4711008", "Finn Wood", "same@example.edu", ""),
    Learner("2027", "Gil Hale"),
]
FITS = {
    "4711001_ps3.ipynb": 0,
    "group 2/4711001.ipynb": 0,
    "ps3-4711001.ipynb": 0,
    "ps3 (1)/AB12CD_final.ipynb": 0,
    "Anna Müller_48213_assignsubmission_file_/hw.ipynb": 0,
    "MU\u0308LLER, anna/hw.ipynb": 0,  # as a Mac writes it
    "a.mueller@example.edu/hw.ipynb": 0,
    "a_mueller-hw.ipynb": 0,
    "mülleranna_10_20_ps3-1.ipynb": 0,
    "mulleranna_LATE_10_20_ps3-1.ipynb": 0,
    "Mueller, Anna.ipynb": 0,
    "de-la-Cruz_Ben.ipynb": 1,
    "ps3-benson/main.ipynb": 1,
    "max/17.ipynb": 2,
    "王伟_ps3.ipynb": 3,
    "wei.wang_hw.ipynb": 3,
    "Dora Lee/hw.ipynb": 4,
    "dora_lee_hw.ipynb": 4,
    "Dora_Lee_Smith_hw.ipynb": 5,
    "Finn Wood_12345_assignsubmission_file_/4711008.ipynb": 7,
    # nobody's
    "17/hw.ipynb": None,
    "a-5/hw.ipynb": None,
    "17_homework.ipynb": None,
    "1/a.ipynb": None,
    "max_pooling.ipynb": None,
    "cruz_hw.ipynb": None,  # four letters, and not the whole
    "muller_hw.ipynb": None,
    "müller.ipynb": None,
    "homework.ipynb": None,
    "4711001/4711002.ipynb": None,
    "4711001-4711002.ipynb": None,
    "Finn Wood/hw.ipynb": None,
    "same/hw.ipynb": None,
    "47110011.ipynb": None,
    "2027/hw.ipynb": None,
    "x4711001.ipynb": None,
    "": None,
}


@pytest.mark.parametrize("path", FITS)
def test_a_path_finds_its_owner_or_nobody(path):
    found = Finder(CLASS).by_path(path)
    assert found == (None if FITS[path] is None else CLASS[FITS[path]])


def test_a_single_word_that_is_in_another_learners_name_fits_nobody():
    family = Learner("1", "Anna Mueller", "am@example.edu"), Learner("2", "Otto Klein", "mueller@example.edu")
    assert Finder(family).by_path("mueller_ps3.ipynb") is None
    assert Finder(family[1:]).by_path("mueller_ps3.ipynb") == family[1]


def test_why_a_path_is_nobodys_is_told():
    finder = Finder(CLASS)
    assert finder.look("4711001/4711002.ipynb") == (
        None,
        "its path fits Anna Müller (4711001) and Ben de la Cruz (4711002)",
    )
    assert finder.look("homework.ipynb") == (None, "")


def test_a_text_is_a_learner_only_as_a_whole():
    finder = Finder(CLASS)
    for text in ("17", "Cleo Müller", "müller, cleo", "MAX", "muller@example.edu"):
        assert finder.by_name(text) == CLASS[2]
    for text in ("", "Müller", "Cleo Müller 2", "Finn Wood", "nobody", "-"):
        assert finder.by_name(text) is None
    assert finder.by_key("A.MUELLER@example.edu ") == CLASS[0] and finder.by_key("Anna Müller") is None


def test_an_unknown_learner_is_told_with_the_ids_of_near_ones():
    astray, finder = [], Finder(CLASS)
    assert finder.wanted("4711001", "x", astray) == finder.by_key("4711001") is not None and not astray
    assert finder.wanted("471101", "x.csv, line 2", astray) is None
    assert finder.wanted("same@example.edu", "x", astray) is None
    assert finder.wanted("Anna Mueler", "x", astray) is None
    assert astray[0].startswith("x.csv, line 2: the roster has no learner with the id or e-mail 471101; did you mean 4")
    assert "of several learners" in astray[1] and CLASS[0].id in astray[2] and "Müller" not in astray[2]


# ---- the rules ----

times = st.datetimes(datetime(2027, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))
policies = st.builds(
    Assignment,
    title=st.just("x"),
    attempts=st.sampled_from(["best", "last"]),
    due=st.one_of(st.none(), st.just(DUE)),
    grace_minutes=st.sampled_from([0.0, 15.0, 3000.0]),
    percent_per_day=st.floats(0, 100),
    days=st.one_of(st.none(), st.floats(0, 20)),
)
tries = st.builds(
    Attempt,
    name=st.text("abc", min_size=1, max_size=3),
    received=st.builds(lambda hours: DUE + timedelta(hours=hours), st.floats(-200, 400)),
    earned=st.integers(0, 30).map(float),
    readable=st.booleans(),
)
several = st.lists(tries, min_size=1, max_size=6, unique_by=lambda a: a.name).map(
    lambda found: sorted(found, key=lambda a: (a.received, a.name))
)


def net(attempt, policy):
    return attempt.earned - penalty(attempt.earned, lateness(attempt.received, policy.due, policy), policy)


@given(policies, st.floats(0, 100), times, times)
def test_a_penalty_is_never_negative_never_more_than_all_and_grows_with_time(policy, earned, one, other):
    soon, later = (penalty(earned, lateness(t, policy.due, policy), policy) for t in sorted([one, other]))
    assert 0 <= soon <= later <= earned or soon == later == pytest.approx(earned, abs=1e-4)


@given(several, policies)
def test_the_best_attempt_is_at_least_as_good_as_the_last(attempts, policy):
    best, last = (replace(policy, attempts=kind) for kind in ("best", "last"))
    assert net(attempts[choose(attempts, policy.due, best)], best) >= net(
        attempts[choose(attempts, policy.due, last)], last
    )


def test_of_attempts_with_equal_points_the_earlier_counts():
    """Even where the machine has the later ones as 0.9900000000000001."""
    early, late = Attempt("a", DUE, 0.99, True), Attempt("b", DUE + timedelta(hours=1), 1.1, True)
    assert choose([early, late], DUE, Assignment("x", due=DUE, percent_per_day=10)) == 0


@given(several, policies)
def test_what_counts_nothing_never_undoes_what_counts(attempts, policy):
    chosen = attempts[choose(attempts, policy.due, replace(policy, attempts="last"))]
    good = [a for a in attempts if a.readable and not too_late(a, policy)]
    assert not good or chosen == good[-1]


def too_late(attempt, policy):
    return gradebook.is_too_late(lateness(attempt.received, policy.due, policy), policy)


@pytest.mark.parametrize(
    "minutes, off", [(-1, 0), (0, 0), (15, 0), (16, 2), (24 * 60, 2), (24 * 60 + 1, 4), (72 * 60, 6), (72 * 60 + 1, 20)]
)
def test_a_share_is_taken_off_for_each_day_begun_after_the_date_and_not_after_the_grace(minutes, off):
    policy = Assignment("x", due=DUE, grace_minutes=15, percent_per_day=10, days=3)
    assert penalty(20.0, lateness(DUE + timedelta(minutes=minutes), DUE, policy), policy) == off


def test_the_night_in_which_clocks_are_put_back_has_an_hour_more():
    zone = ZoneInfo("Europe/Berlin")
    due, policy = datetime(2027, 10, 30, 23, 0, tzinfo=zone), Assignment("x")
    assert lateness(datetime(2027, 10, 31, 23, 0, tzinfo=zone), due, policy) == timedelta(hours=25)
    due = datetime(2027, 3, 27, 23, 0, tzinfo=zone)
    assert lateness(datetime(2027, 3, 28, 23, 0, tzinfo=zone), due, policy) == timedelta(hours=23)
    assert lateness(datetime(2027, 3, 27, 22, 30, tzinfo=UTC), due, policy) == timedelta(minutes=30)


# ---- a whole gradebook ----


class Class:
    """A folder of an assignment with invented results."""

    def __init__(self, folder, learners=None):
        self.folder, self.learners = folder, learners or people()
        self.out, self.names = folder / "grades", []
        (self.out / "results").mkdir(parents=True)
        (folder / "submissions").mkdir()
        (self.out / "run.json").write_text(json.dumps({"exercises": list(IDS)}))

    def hand_in(self, name, points=None, received=DUE, learner="", status="graded", words="", reason=""):
        """Put a file there, and its result: the points of the exercises that are named, full ones for the others."""
        file = written(self.folder / "submissions" / name, "{}")
        os.utime(file, (received.timestamp(), received.timestamp()))
        parts = {}
        for id in IDS:
            got = 0 if status == "unreadable" else (points or {}).get(id, FULL[id])
            part = {"points": got, "out_of": FULL[id], "status": "passed" if got else "not yet", "sound": True}
            part |= {"found": "id", "where": "cell 1", "reason": "" if got else reason or "Not right."}
            parts[id] = part | {"lines": [], "diagnosis": "", "notes": [], "words": words if id == IDS[0] else ""}
        result = {"submission": run.printable(name), "digest": name, "learner": learner, "status": status, "notes": []}
        total = sum(part["points"] for part in parts.values())
        result |= {"exercises": parts, "points": total, "out_of": sum(FULL.values()), "reason": reason or "full marks"}
        run.result_file(self.out, name).write_text(json.dumps(result))
        self.names = sorted({*self.names, name})

    def tables(self):
        """Write grades.csv."""
        written(self.out / "grades.csv", report.table(list(IDS), run.results(self.out, self.names)))

    def grade(self, assignment=PLAIN):
        """{id: Row}, after the gradebook was written."""
        folder = self.folder
        places = {"received": folder / "submissions.csv", "extensions": folder / "extensions.csv"}
        places["manual"] = folder / "manual"
        self.book = gradebook.write(self.out, self.names, folder / "submissions", self.learners, assignment, **places)
        rows = gradebook.read(self.out / "gradebook.csv", self.learners)
        assert [row.learner for row in rows] == self.learners
        return {row.learner.id: row for row in rows}

    def page(self, id):
        return (self.out / "learners" / f"{id}.md").read_text(encoding="utf-8")


@pytest.fixture
def room(tmp_path):
    return Class(tmp_path)


ALL = sum(FULL.values())
OTHER = next(id for id in ids() if id not in IDS)
NOT = {IDS[1]: 0}  # points of an attempt with a mistake


def test_each_learner_has_a_row_in_the_order_of_the_roster(room):
    room.hand_in("100001.ipynb")
    room.hand_in("b/100003.ipynb", NOT)
    found = room.grade()
    assert [found[f"10000{n}"].points for n in range(1, 5)] == [ALL, 0, ALL - FULL[IDS[1]], 0]
    assert found["100002"].status == "nothing handed in" and found["100002"].parts == {}
    assert found["100003"].parts == FULL | NOT and found["100003"].submission == "b/100003.ipynb"
    assert sorted(os.listdir(room.out / "learners"))[:2] == ["100001.html", "100001.md"]
    assert len(os.listdir(room.out / "learners")) == 8
    assert "Nothing was handed in." in room.page("100002") and f"{ALL} of {ALL} points" in room.page("100001")
    assert list(room.book.told())[0].startswith("4 learners: 2 graded, 2 nothing handed in")
    assert "- Learner 020 (100002)\n- Learner 040 (100004)" in (room.out / "gradebook.md").read_text()
    assert [who for _, who in room.book.counted()] == ["Learner 010 (100001)", "Learner 030 (100003)"]


def test_a_file_that_the_table_gives_to_nobody_is_nobodys_whatever_its_name(room):
    room.hand_in("unknown-4999/100001.ipynb", learner="Learner 020")
    written(room.folder / "submissions.csv", "submission,learner,received\nunknown-4999/100001.ipynb,,\n")
    found = room.grade()
    assert {row.status for row in found.values()} == {"nothing handed in"}
    assert room.book.unclaimed == [
        ("unknown-4999/100001.ipynb", "submissions.csv says nobody's; its notebook names Learner 020 (100002)")
    ]


def test_what_came_with_a_notebook_and_is_none_is_no_attempt_of_its_own(room):
    room.hand_in("100001/1/a.ipynb")
    room.hand_in("100001/1/helper.py", status="unreadable")
    room.hand_in("100001/2/helper.py", status="unreadable")
    times = {"1/a.ipynb": "01", "1/helper.py": "01", "2/helper.py": "02"}
    table = "".join(f"100001/{name},100001,2027-03-{day}T10:00+00:00\n" for name, day in times.items())
    written(room.folder / "submissions.csv", "submission,learner,received\n" + table)
    row = room.grade()["100001"]
    assert (row.submission, row.attempt, row.attempts) == ("100001/1/a.ipynb", 1, 2)
    assert row.notes == ("attempt 2, 100001/2/helper.py: it could not be read",)


def test_the_table_of_submissions_goes_before_the_path_and_the_path_before_the_notebook(room):
    room.hand_in("100001.ipynb", learner="Learner 020")
    room.hand_in("x.ipynb", learner="Learner 030")
    room.hand_in("y.ipynb")
    table = "submission,learner,received\ny.ipynb,learner-040@example.edu,2027-03-06T01:59+02:00\n"
    written(room.folder / "submissions.csv", table)
    found = room.grade()
    assert found["100001"].notes == ("the notebook names Learner 020 (100002)",)
    assert found["100003"].notes == ("found by the name in the notebook alone",)
    assert found["100004"].submission == "y.ipynb" and found["100004"].received == DUE
    assert found["100002"].attempts == 0 and room.book.undated == 2
    written(room.folder / "submissions.csv", "submission,learner\n100001.ipynb,100002\ngone.ipynb,100003\n")
    found = room.grade()
    assert found["100002"].submission == "100001.ipynb" and found["100001"].status == "nothing handed in"
    assert room.book.absent == ["gone.ipynb"]
    assert "gone.ipynb" in (room.out / "gradebook.md").read_text()


def test_a_name_in_a_notebook_cannot_push_another_learners_file_aside(room):
    room.hand_in("100001.ipynb", received=DUE - timedelta(days=2))
    room.hand_in("trick.ipynb", NOT, learner="Learner 010")
    found = room.grade(replace(PLAIN, attempts="last"))
    assert found["100001"].points == ALL and found["100001"].attempts == 1
    assert room.book.unclaimed == [("trick.ipynb", "its notebook names Learner 010 (100001), who has another file")]


def test_a_file_of_nobody_is_told_and_not_dropped(room):
    room.hand_in("homework.ipynb", learner="Somebody")
    room.hand_in("100001/100002.ipynb")
    room.grade()
    assert [name for name, _ in room.book.unclaimed] == ["100001/100002.ipynb", "homework.ipynb"]
    assert room.book.unclaimed[1][1] == "its notebook names Somebody, who is not in the roster"
    assert any("2 files of NOBODY" in line for line in room.book.told())
    page = (room.out / "gradebook.md").read_text()
    assert "homework.ipynb" in page and "its path fits Learner 010 (100001) and Learner 020 (100002)" in page


def test_the_best_or_the_last_counts_whatever_order_the_files_have(room):
    for number, points in enumerate([NOT, {}, {IDS[0]: 0, IDS[1]: 0}]):
        room.hand_in(f"100001/{'cab'[number]}.ipynb", points, DUE + timedelta(hours=number - 9))
    best = room.grade(replace(PLAIN, due=DUE))["100001"]
    assert (best.attempt, best.attempts, best.submission, best.points) == (2, 3, "100001/a.ipynb", ALL)
    room.names.reverse()
    last = room.grade(replace(PLAIN, attempts="last"))["100001"]
    assert (last.attempt, last.submission, last.points) == (3, "100001/b.ipynb", ALL - FULL[IDS[0]] - FULL[IDS[1]])
    assert "Attempt 3 of 3 counts: b.ipynb" in room.page("100001")


def test_a_later_file_that_is_broken_or_too_late_does_not_undo_an_earlier_one(room):
    room.hand_in("100001/a.ipynb", received=DUE)
    room.hand_in("100001/b.ipynb", received=DUE + timedelta(hours=1), status="unreadable", reason="It is empty.")
    room.hand_in("100001/c.ipynb", received=DUE + timedelta(days=9))
    row = room.grade(Assignment("x", IDS, DUE, "last", days=2))["100001"]
    assert (row.submission, row.points, row.status) == ("100001/a.ipynb", ALL, "graded")
    assert row.notes == (
        "attempt 2, 100001/b.ipynb: it could not be read",
        "attempt 3, 100001/c.ipynb: it came too late to count",
    )


@pytest.mark.parametrize("attempts", ["best", "last"])
def test_files_of_one_moment_are_one_attempt_of_which_the_best_counts(room, attempts):
    room.hand_in("100001/a.ipynb", dict.fromkeys(IDS, 0))
    room.hand_in("100001/answer.ipynb")
    room.hand_in("100001/problem-set-3.ipynb", dict.fromkeys(IDS, 0))
    room.hand_in("100001/too.ipynb", NOT)
    row = room.grade(replace(PLAIN, attempts=attempts))["100001"]
    assert (row.submission, row.attempts, row.points, row.notes) == ("100001/answer.ipynb", 1, ALL, ())


def test_a_time_that_is_not_known_makes_nothing_late(room):
    late = DUE + timedelta(hours=30)
    for number in (1, 2):
        room.hand_in(f"10000{number}/a.ipynb", received=late)
    table = "submission,learner,received\n100001/a.ipynb,100001,\n100002/a.ipynb,100002,2027-03-07T03:59+00:00\n"
    written(room.folder / "submissions.csv", table)
    found = room.grade(Assignment("x", IDS, DUE, percent_per_day=10))
    assert (found["100001"].points, found["100001"].received) == (ALL, None)
    assert found["100001"].notes == ("submissions.csv does not say when it came, so it counts as in time",)
    assert "received" not in room.page("100001").partition("##")[0]
    assert found["100002"].penalty == pytest.approx(ALL * 0.2) and found["100002"].late == timedelta(hours=28)


def test_what_is_unpacked_beside_a_file_came_with_it(room):
    room.hand_in("100001/2027/all.zip", status="unreadable")
    room.hand_in("100001/2027/inside/100002.ipynb", received=DUE + timedelta(days=3))
    room.hand_in("unknown-7/1/all.zip", status="unreadable")
    room.hand_in("unknown-7/1/100003.ipynb")
    table = "submission,learner,received\n100001/2027/all.zip,100001,2027-03-05T10:00+00:00\nunknown-7/1/all.zip,,\n"
    written(room.folder / "submissions.csv", table)
    found = room.grade(Assignment("x", IDS, DUE, percent_per_day=10))
    assert (found["100001"].submission, found["100001"].points) == ("100001/2027/inside/100002.ipynb", ALL)
    assert found["100002"].attempts == found["100003"].attempts == 0
    assert [name for name, _ in room.book.unclaimed] == ["unknown-7/1/100003.ipynb", "unknown-7/1/all.zip"]


def test_a_line_on_one_file_says_nothing_of_others_in_a_folder_of_many(room):
    for name in ("100001.ipynb", "odd.ipynb", "more.ipynb"):
        room.hand_in(f"week-3/late/{name}")
    written(room.folder / "submissions.csv", "submission,learner\nweek-3/late/odd.ipynb,100002\n")
    found = room.grade()
    assert [found[id].submission for id in ("100001", "100002")] == [
        f"week-3/late/{x}.ipynb" for x in ("100001", "odd")
    ]
    assert [name for name, _ in room.book.unclaimed] == ["week-3/late/more.ipynb"]


def test_who_has_left_the_roster_stops_nobody_and_is_told(room):
    room.hand_in("100001.ipynb")
    room.hand_in("gone/a.ipynb")
    for name, text in {
        "submissions.csv": "submission,learner\ngone/a.ipynb,999999\n",
        "extensions.csv": "learner,due\n999998,2027-03-08\n",
        "manual/a.csv": f"learner,exercise,points\n999997,,1\n100001,{OTHER},1\n",
    }.items():
        written(room.folder / name, text)
    assert room.grade()["100001"].points == ALL
    assert room.book.unclaimed == [("gone/a.ipynb", "submissions.csv says 999999")]
    look = [line for line in room.book.told() if line.startswith("LOOK")]
    assert len(look) == 4 and all(f"99999{n}" in line for n, line in zip((9, 8, 7), look))
    assert f"a.csv, line 3: {OTHER} is not in this assignment" in look[3]
    assert "999997" in (room.out / "gradebook.md").read_text()


def test_who_could_not_be_read_and_who_explains_in_the_same_words_is_listed(room):
    room.hand_in("100001.ipynb", words="Because of the mask.")
    room.hand_in("100002.ipynb", words="Because of the mask.")
    room.hand_in("100003.ipynb", words="For other reasons.")
    room.hand_in("100004.ipynb", status="unreadable", reason="This is a PDF.")
    room.grade()
    page = (room.out / "gradebook.md").read_text()
    assert "word for word\n\n- Learner 010 (100001), Learner 020 (100002)\n" in page
    assert "- Learner 040 (100004): This is a PDF." in page


def test_lateness_costs_and_an_extension_moves_the_date(room):
    for number in (1, 2, 3):
        room.hand_in(f"10000{number}.ipynb", received=DUE + timedelta(hours=26))
    room.hand_in("100004.ipynb", received=DUE + timedelta(days=8))
    written(
        room.folder / "extensions.csv", "learner,due\n100002,2027-03-07\nlearner-030@example.edu,2027-03-06T23:59Z\n"
    )
    found = room.grade(Assignment("x", IDS, DUE, percent_per_day=10, days=7))
    rows = [found[f"10000{n}"] for n in (1, 2, 3, 4)]
    assert [row.penalty for row in rows] == [ALL * 0.2, 0, ALL * 0.1, ALL]
    assert [row.late for row in rows] == [timedelta(hours=n) for n in (26, 0, 2, 192)]
    assert [row.status for row in rows] == ["graded"] * 3 + ["too late"]
    assert rows[0].points == rows[0].earned - rows[0].penalty and rows[3].points == 0
    assert rows[0].notes == ("the time is that of the file",) and rows[1].notes == ()
    assert "It came 1 day 2 hours late: 1 point off." in room.page("100001")
    assert "nothing counts any more" in room.page("100004")


def test_unreadable_files_are_told_on_the_page(room):
    room.hand_in("100001.ipynb", status="unreadable", reason="The file is empty.")
    row = room.grade()["100001"]
    assert (row.status, row.points) == ("unreadable", 0) and "The file is empty." in room.page("100001")


# ---- points of people ----


def test_points_of_people_stand_in_the_place_of_the_machines_and_survive_a_regrade(room):
    room.hand_in("100001.ipynb", NOT)
    text = f'learner,exercise,points,comment,more\n100001,{IDS[1]},"0,5",Right idea.\\,x\n100001,,2,"Well\nasked, =",\n'
    written(room.folder / "manual" / "a.csv", text)
    written(room.folder / "manual" / "b.csv", f"learner,exercise,points,comment\n100002,{IDS[0]},1,In person.\n")
    written(room.folder / "manual" / "._a.csv", "\0")
    for _ in range(2):
        found = room.grade()
        row, other = found["100001"], found["100002"]
        assert row.parts == FULL | {IDS[1]: 0.5} and row.points == ALL - FULL[IDS[1]] + 2.5
        assert row.comments == (("", "Well asked, ="), (IDS[1], "Right idea.\\"))
        assert (other.parts, other.points, other.status) == ({IDS[0]: 1.0}, 1, "nothing handed in")
        room.hand_in("100001.ipynb", NOT | {IDS[0]: FULL[IDS[0]]})
    page = room.page("100001")
    assert "Well asked, =" in page and "For the whole, a person gave 2 points." in page
    assert f"0.5 of {FULL[IDS[1]]} points" in page and "A person gave these points." in page
    assert "In person." in room.page("100002")


def test_points_for_the_whole_are_not_reduced_by_lateness_and_the_sum_is_never_below_zero(room):
    room.hand_in("100001.ipynb", received=DUE + timedelta(hours=1))
    room.hand_in("100002.ipynb", {id: 0 for id in IDS})
    written(room.folder / "manual" / "a.csv", "learner,exercise,points\n100001,,4\n100002,,-3\n")
    found = room.grade(Assignment("x", IDS, DUE, percent_per_day=50))
    assert found["100001"].points == ALL / 2 + 4 and found["100001"].earned == ALL + 4
    assert found["100002"].points == 0


MARKS = {
    "unknown exercise": (
        "100001,round-bf6,1",
        "line 2: the assignment has no exercise round-bf6; did you mean round",
    ),
    "no number": (f"100001,{IDS[0]},two", "points have to be a number, and are two"),
    "not a number": ("100001,,nan", "points have to be a number, and are nan"),
    "infinite": ("100001,,1e400", "points have to be a number, and are 1e400"),
    "no number of people": ("100001,,1_0", "points have to be a number, and are 1_0"),
    "too many": (
        f"100001,{IDS[0]},99",
        f"between 0 and {FULL[IDS[0]]}, and are 99; what is more or",
    ),
    "negative": (f"100001,{IDS[0]},-1", f"between 0 and {FULL[IDS[0]]}, and are -1"),
    "twice": (f"100001,{IDS[0]},1\nlearner-010@example.edu,{IDS[0]},0", "has 1 points in"),
    "for a text and for any": (f"100001,{IDS[0]},1,,t1\n100001,{IDS[0]},0,,", "delete one of the two"),
}


@pytest.mark.parametrize("kind", MARKS)
def test_marks_that_cannot_be_are_refused_with_the_file_and_the_line(room, kind):
    text, message = MARKS[kind]
    written(room.folder / "manual" / "a.csv", f"learner,exercise,points,comment,text\n{text}\n")
    with pytest.raises(Refusal) as refusal:
        room.grade()
    assert message in str(refusal.value) and "a.csv, line" in str(refusal.value)


def test_two_files_that_give_different_points_are_both_named_and_equal_ones_count_once(room):
    for name, points in (("a", 2), ("b", 2)):
        written(room.folder / "manual" / f"{name}.csv", f"learner,exercise,points,comment\n100001,,{points},Good.\n")
    row = room.grade()["100001"]
    assert row.points == 2 and row.comments == (("", "Good."),)
    written(room.folder / "manual" / "b.csv", "learner,exercise,points\n100001,,3\n")
    with pytest.raises(Refusal, match=r"a.csv, line 2, and 3 in .*b.csv, line 2"):
        room.grade()


OTHER_TABLES = {
    "submissions.csv": {
        "name,who\nx,y": "there is no column submission; there are name, who",
        "submission,received\n100001.ipynb,yesterday": "line 2: received has to be like",
        "submission,received\n100001.ipynb,9999-12-31T23:59-12:00": "and is 9999-12-31T23:59:00-12:00",
        "submission,learner\nx,100001\nx,100002": "x stands in line 2 and otherwise in line 3",
    },
    "extensions.csv": {
        "learner,due\n100001,soon": "line 2: due has to be like",
        "learner,due\n100001,2027-01-01\n100001,2027-01-02": "100001 has a date in line 2 and another one in line 3",
    },
}


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in OTHER_TABLES.items() for text in texts])
def test_tables_that_cannot_be_are_refused(room, name, text):
    written(room.folder / name, text)
    with pytest.raises(Refusal) as refusal:
        room.grade()
    assert OTHER_TABLES[name][text] in str(refusal.value) and name in str(refusal.value)


def listed(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_explanations_are_to_be_read_until_a_person_has_marked_this_very_text(room):
    words = '=HYPERLINK("http://example.edu"), because the keys are cached'
    room.hand_in("100001.ipynb", words=words)
    room.hand_in("100002.ipynb", words="Another one.")
    room.grade()
    first, second = listed(room.out / "to_read.csv")
    assert first["explanation"] == f"'{words}" and first["text"] == marks.text_of(words) and not first["points"]
    assert (first["learner"], first["exercise"]) == ("100001", IDS[0]) and room.book.to_read == 2
    # as it is, it says nothing yet; a comment alone marks it as read
    manual = written(room.folder / "manual" / "x.csv", (room.out / "to_read.csv").read_text())
    assert room.grade()["100001"].points == ALL and room.book.to_read == 2
    manual.write_text(manual.read_text().replace(f"{IDS[0]},,1,,", f"{IDS[0]},0,1,Which keys?,", 1))
    row = room.grade()["100001"]
    assert row.points == ALL - FULL[IDS[0]] and row.comments == ((IDS[0], "Which keys?"),) and row.notes == ()
    assert [one["learner"] for one in listed(room.out / "to_read.csv")] == ["100002"]
    # another text: what was given is not for it, and it waits for a reader
    room.hand_in("100001.ipynb", words="The keys of all earlier tokens.")
    row = room.grade()["100001"]
    assert row.points == ALL and row.comments == ()
    assert row.notes == (f"{IDS[0]}: marked for another text; this one waits for a reader",)
    again = listed(room.out / "to_read.csv")[0]
    assert again["learner"] == "100001" and room.book.to_read == 2
    written(room.folder / "manual" / "y.csv", f"learner,exercise,points,text\n100001,{IDS[0]},1,{again['text']}\n")
    row = room.grade()["100001"]
    assert row.parts[IDS[0]] == 1 and row.notes == () and room.book.to_read == 1


def test_points_for_words_that_came_late_are_not_those_of_an_attempt_in_time(room):
    """A person marks the late explanation; the attempt in time, which has none, gets nothing of it."""
    none, policy = {IDS[0]: 0}, Assignment("x", IDS, DUE, percent_per_day=10)
    room.hand_in("100001/a.ipynb", none)
    room.hand_in("100001/b.ipynb", none, DUE + timedelta(minutes=1), words="Late words.")
    text = (
        f"learner,exercise,points,comment,text\n100001,{IDS[0]},{FULL[IDS[0]]},Good.,{marks.text_of('Late words.')}\n"
    )
    written(room.folder / "manual" / "x.csv", text)
    for days in (10, 100):  # off: the late one is better, or the one in time
        row = room.grade(replace(policy, percent_per_day=days))["100001"]
        assert (row.attempt, row.points) == ((2, ALL * 0.9) if days == 10 else (1, ALL - FULL[IDS[0]]))
        assert "another text" not in "".join(row.notes) and ("Good." in room.page("100001")) == (days == 10)
    # handed in once more, the same words are those of an earlier attempt
    room.hand_in("100001/0.ipynb", none, DUE - timedelta(days=1), words="Late words.")
    assert room.grade(policy)["100001"].points == ALL


def test_marks_in_a_spreadsheets_own_file_are_not_passed_over(room):
    room.hand_in("100001.ipynb")
    written(room.folder / "manual" / "A.CSV", "learner,exercise,points\n100001,,1\n")
    written(room.folder / "manual" / "~$b.xlsx", "what a spreadsheet keeps while it is open")
    assert room.grade()["100001"].points == ALL + 1
    written(room.folder / "manual" / "b.xlsx", "PK")
    with pytest.raises(Refusal, match="b.xlsx: this is no CSV.*CSV UTF-8"):
        room.grade()


def test_however_many_files_and_comments_a_learner_has_the_gradebook_can_be_read(room):
    for number in range(100):
        room.hand_in(
            f"100001/{number:03}{'n' * 110}.ipynb", received=DUE + timedelta(minutes=number), status="unreadable"
        )
    room.hand_in("100001/a.ipynb", received=DUE + timedelta(days=1), learner="Learner 020")
    lines = "".join(f"100001,,,{number} {'x' * 1000}\n" for number in range(200))
    written(room.folder / "manual" / "x.csv", f"learner,exercise,points,comment\n{lines}")
    row = room.grade()["100001"]
    assert len(row.notes) == 21 and row.notes[-1] == "and 81 notes more" and len(row.comments) == 200
    assert row.notes[0].startswith("the notebook names Learner 020")  # what is on the file that counts comes first


def test_a_time_that_is_in_no_calendar_stops_nothing(room):
    """Whoever owns a file can set it."""
    room.hand_in("100001.ipynb")
    room.hand_in("100002.ipynb")
    for name, seconds in (("100001.ipynb", 9e12), ("100002.ipynb", -9e12)):
        os.utime(room.folder / "submissions" / name, (seconds, seconds))
    found = room.grade(replace(PLAIN, due=DUE))
    assert found["100001"].received.year == 2096 and found["100001"].late
    assert found["100002"].received.astimezone(UTC).year == 1970


# ---- what is written ----

one_line = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20).map(lambda t: " ".join(t.split()))
hard = st.sampled_from(["=1+1", "'=1", "-", "a: b", f"{IDS[0]}: x", ": x", 'Ü,";\t']).map(lambda t: " ".join(t.split()))
texts = one_line | hard


@st.composite
def any_rows(draw):
    ids = draw(st.lists(texts.filter(bool), min_size=1, max_size=4, unique_by=str.casefold))
    found = []
    for id in ids:
        came = draw(st.booleans())
        zone = draw(st.sampled_from([UTC, ZoneInfo("Asia/Kathmandu")]))
        when = draw(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1))).replace(microsecond=0, tzinfo=zone)
        points = st.floats(0, 1000).map(lambda p: round(p, 4))
        found.append(
            Row(
                Learner(id, draw(texts), draw(texts), "", draw(texts)),
                draw(texts) if came else "",
                draw(st.integers(0, 9)),
                draw(st.integers(0, 9)),
                when.replace(fold=0) if came else None,
                timedelta(seconds=draw(st.integers(0, 10**7))),
                *(draw(points) for _ in range(4)),
                draw(st.dictionaries(st.sampled_from(IDS), points)),
                tuple(draw(st.lists(st.tuples(st.sampled_from(["", *IDS]), texts.filter(bool)), max_size=4))),
                draw(st.sampled_from(["graded", "unreadable", "nothing handed in", "too late"])),
                tuple(draw(st.lists(texts.filter(bool), max_size=3))),
            )
        )
    return found


@settings(deadline=None)
@given(rows=any_rows())
def test_a_gradebook_that_is_read_is_the_one_that_was_written(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("book") / "gradebook.csv"
    with gradebook.writing(path) as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*gradebook.COLUMNS, *IDS])
        out.writerows(gradebook._cells(row, IDS) for row in rows)
    assert gradebook.read(path, [row.learner for row in rows]) == rows
    cells = [cell for line in csv.reader(path.read_text(encoding="utf-8").splitlines(keepends=True)) for cell in line]
    assert not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@")]


def test_a_gradebook_of_another_roster_or_a_damaged_one_is_refused(room):
    room.hand_in("100001.ipynb")
    room.grade()
    path = room.out / "gradebook.csv"
    with pytest.raises(Refusal, match="line 2: 100001 is not in the roster"):
        gradebook.read(path, people()[1:])
    text = path.read_text()
    path.write_text(text.replace(f",{ALL},{ALL},", ",x,y,"))
    with pytest.raises(Refusal, match="line 2: the line is damaged"):
        gradebook.read(path, people())
    path.write_text("a,b\n")
    with pytest.raises(Refusal, match="this is no gradebook"):
        gradebook.read(path, people())
    with pytest.raises(Refusal, match="grade first, with a roster"):
        gradebook.read(room.out / "other.csv", people())


def test_a_page_has_a_name_that_is_safe_and_another_one_for_each_learner(tmp_path):
    odd = [Learner(id, "x") for id in ("../../etc", "a/b", "a b", "ü", ".x", "a@example.edu", "007", "CON?", "x" * 300)]
    names = [pages.page_name(learner) for learner in odd]
    assert len({name.casefold() for name in names}) == len(odd)
    assert not [name for name in names if "/" in name or name.startswith(".") or len(name) > 80]
    assert names[5:7] == ["a@example.edu", "007"]
    room = Class(tmp_path, odd)
    room.hand_in("007.ipynb")
    room.grade()
    (room.out / "learners" / "gone.md").write_text("a learner who left")
    (room.out / "learners" / "kept").mkdir()
    room.grade()
    assert len(os.listdir(room.out / "learners")) == 2 * len(odd) + 1


def test_what_learners_and_people_write_is_no_markup(tmp_path):
    room = Class(tmp_path, [Learner("1", "<b>One</b>")])
    name = "<i>1<b>.ipynb"
    room.hand_in(name, NOT)
    written(room.folder / "submissions.csv", f"submission,learner\n{name},1\n")
    written(room.folder / "manual" / "a.csv", "learner,exercise,points,comment\n1,,,<script>alert(1)</script>\n")
    room.grade()
    page = (room.out / "learners" / "1.html").read_text()
    assert "<script>" not in page and "<i>" not in page and "<b>" not in page and "&lt;script&gt;" in page


def test_a_file_that_breaks_off_leaves_the_old_one(tmp_path):
    path = written(tmp_path / "x.csv", "old")
    with pytest.raises(ValueError), gradebook.writing(path) as file:
        file.write("new")
        raise ValueError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["x.csv"]


# ---- a regrade ----


@pytest.fixture
def two(tmp_path):
    """The grades of a class, and a regrade of it."""
    before, after = Class(tmp_path / "one"), Class(tmp_path / "two")
    for room, wrong in ((before, {IDS[0]: 0}), (after, NOT)):
        room.hand_in("100001.ipynb", wrong, reason=f"wrong in {next(iter(wrong))}")
        room.hand_in("100002.ipynb", wrong if room is before else {})
        room.hand_in("100003.ipynb", wrong if room is after else {}, reason="<b> raised ZeroDivisionError")
        room.hand_in("homework.ipynb", {IDS[2]: 0}, reason="other words" if room is after else "words")
    before.hand_in("gone.ipynb")
    after.hand_in("100004.ipynb")
    for room in (before, after):
        room.tables()
    return before, after


def test_a_difference_of_files_names_who_gains_and_loses_and_why(two):
    before, after = two
    line = difference.write(before.out, after.out)
    gain = FULL[IDS[0]] + (FULL[IDS[0]] - FULL[IDS[1]]) - FULL[IDS[1]]
    rows = {(row["learner"], row["exercise"]): row for row in listed(after.out / "difference.csv")}
    assert rows["100002.ipynb", IDS[0]]["change"] == str(FULL[IDS[0]])
    assert rows["100002.ipynb", IDS[0]]["why_before"] == "Not right." and not rows["100002.ipynb", IDS[0]]["why_after"]
    assert rows["100003.ipynb", IDS[1]]["why_after"] == "<b> raised ZeroDivisionError"
    assert rows["100003.ipynb", ""]["before"] == str(ALL)
    assert rows["100004.ipynb", ""]["before"] == "" and rows["gone.ipynb", ""]["after"] == ""
    assert ("homework.ipynb", "") not in rows
    assert "1 new" in line and "1 no longer there" in line and "1 file with the same points and other words" in line
    assert f"{gain:+} points in all" in line and "1 would have them as before" in line
    page = (after.out / "difference.md").read_text()
    assert page.index("Who would lose") < page.index("Who would gain")
    assert "\\<b\\> raised ZeroDivisionError" in page and f"{line}." in page


def test_a_difference_of_learners_is_by_what_they_get(two):
    before, after = two
    for room in two:
        room.grade()
    line = difference.write(before.out, after.out)
    assert "learner" in line and "no longer there" not in line
    page = (after.out / "difference.md").read_text()
    assert "Learner 030 (100003)" in page and "Learner 040 (100004)" in page and "homework" not in page


def test_a_difference_says_that_another_attempt_counts(two):
    for room, first in zip(two, (NOT, {})):
        room.hand_in("100001/a.ipynb", first)
        room.hand_in("100001/b.ipynb", {IDS[0]: 0})
        room.tables()
        room.names.remove("100001.ipynb")
        room.grade()
    difference.write(*(room.out for room in two))
    (row,) = [r for r in listed(two[1].out / "difference.csv") if r["learner"] == "100001" and not r["exercise"]]
    assert row["why_after"] == "100001/a.ipynb counts, and not 100001/b.ipynb"


def test_a_file_that_came_since_is_no_work_of_the_regrade(tmp_path):
    before, after = Class(tmp_path / "one"), Class(tmp_path / "two")
    before.hand_in("100001/a.ipynb", NOT)
    after.hand_in("100001/a.ipynb", NOT)
    after.hand_in("100001/b.ipynb", received=DUE + timedelta(hours=1))
    for room in (before, after):
        room.tables()
        room.grade()
    line = difference.write(before.out, after.out)
    assert (
        line.startswith("0 learners would gain points, 0 would lose some") and "1 with a file that came since" in line
    )
    assert "points in all" not in line
    page = (after.out / "difference.md").read_text()
    assert "## Whose file came since" in page and "100001/b.ipynb counts" in page and "| exercise |" not in page


def test_other_full_marks_are_said_first(tmp_path):
    before, after = Class(tmp_path / "one"), Class(tmp_path / "two")
    for room in (before, after):
        room.hand_in("100001.ipynb")
        room.tables()
        room.grade()
    table = after.out / "gradebook.csv"
    table.write_text(table.read_text().replace(f",{ALL},{ALL},{ALL},0,", f",{ALL},{ALL + 1},{ALL},0,"))
    assert difference.write(before.out, after.out).startswith(f"full marks were {ALL}, and are {ALL + 1}; 0 learners")


def test_nothing_differs_from_itself(two):
    room = two[0]
    assert difference.write(room.out, room.out).startswith("0 files would gain points, 0 would lose some, 5 would have")
    assert len(listed(room.out / "difference.csv")) == 0


def test_long_lists_are_cut_on_the_page_and_whole_in_the_table(tmp_path):
    before, after = Class(tmp_path / "one"), Class(tmp_path / "two")
    for number in range(60):
        before.hand_in(f"{number:02}.ipynb")
        after.hand_in(f"{number:02}.ipynb", NOT)
    before.tables(), after.tables()
    assert "0 files would gain points, 60 would lose some" in difference.write(before.out, after.out)
    assert "and 10 more: difference.csv" in (after.out / "difference.md").read_text()
    assert len(listed(after.out / "difference.csv")) == 120
