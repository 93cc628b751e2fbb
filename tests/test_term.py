"""The instructor's page, played to the letter (`tests.term`): what comes out is what it promises."""

import csv
import io
import os
import re

import pytest

from tests.sandbox import need
from tests.term import PAGE, play, steps


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(the assignment's folder after all of the page, what its commands said)."""
    need("uid" if os.getuid() == 0 else "bwrap")
    folder = tmp_path_factory.mktemp("played")
    said = play(folder)
    return folder / "term" / "ps3", said


def rows(file, key):
    """{value of a column: row} of a CSV file."""
    return {row[key]: row for row in csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig")))}


def test_the_page_has_its_steps():
    """So that a page whose blocks are no longer found is not played as an empty one."""
    kinds = [kind for kind, *_ in steps()]
    assert kinds.count("run") >= 9 and kinds.count("file") >= 3
    assert len(re.findall(r"^```bash", PAGE.read_text(encoding="utf-8"), re.M)) == kinds.count("run")


def test_grades_are_as_they_should_be(played):
    grades = rows(played[0] / "grades" / "gradebook.csv", "id")
    assert list(grades) == [f"s-00{n}" for n in range(1, 7)]
    points = {id: float(row["points"]) for id, row in grades.items()}
    # 002's and 003's mistakes; 002's explanation, marked by hand; 005's exercise, by hand, and two days late
    assert points == {"s-001": 7, "s-002": 4, "s-003": 5, "s-004": 7, "s-005": 5.6, "s-006": 0}
    assert grades["s-005"]["count-block"] == "2" and float(grades["s-005"]["penalty"]) == 1.4
    assert grades["s-004"]["penalty"] == "0", "with an extension it is not late"
    assert grades["s-006"]["status"] == "nothing handed in"


def test_before_the_regrade_all_five_exercises_counted(played):
    before = rows(played[0] / "grades-before-1" / "gradebook.csv", "id")
    assert {id: float(row["points"]) for id, row in before.items()} == {
        "s-001": 8, "s-002": 5, "s-003": 6, "s-004": 8, "s-005": 6.4, "s-006": 0,
    }  # fmt: skip
    told = (played[0] / "grades" / "difference.md").read_text()
    assert "0 learners would gain points, 5 would lose some" in told
    assert not (played[0] / "regrade").exists()


def test_each_learner_gets_a_page_with_what_people_said(played):
    pages = {path.name: path.read_text() for path in (played[0] / "grades" / "learners").iterdir()}
    assert len(pages) == 12
    assert "A mechanism is named." in pages["s-001.md"] and "A mechanism is named." in pages["s-001.html"]
    assert "This repeats the question." in pages["s-002.html"] and "1 of 2 points" in pages["s-002.html"]
    assert "come and see me about exercise 2" in pages["s-003.html"]
    assert "would change" not in pages["s-002.html"]


def test_the_explanations_that_nobody_has_read_are_listed(played):
    waiting = rows(played[0] / "grades" / "to_read.csv", "learner")
    assert list(waiting) == ["s-003", "s-004", "s-005"]
    assert waiting["s-004"]["explanation"].endswith("Learner 004")


def test_the_platforms_get_the_grades(played):
    canvas = rows(played[0] / "export" / "canvas.csv", "SIS User ID")
    found = {id: row["Problem set 3 (9031)"] for id, row in canvas.items() if id}
    # 8 points are full marks in Canvas, and 7 here
    assert found.pop("s-006") == ""
    assert {id: float(points) for id, points in found.items()} == pytest.approx(
        {"s-001": 8, "s-002": 32 / 7, "s-003": 40 / 7, "s-004": 8, "s-005": 6.4}, abs=0.01
    )
    nbgrader = rows(played[0] / "export" / "nbgrader.csv", "student_id")
    assert nbgrader["s-005"]["raw_score"] == "7.0" and nbgrader["s-005"]["late_submission_penalty"] == "1.4"


def test_what_the_page_promises_is_there(played):
    text, (folder, said) = PAGE.read_text(encoding="utf-8"), played
    for name in re.findall(r"^- `([a-z_]+\.\w+|\w+/)`", text, re.M):
        assert (folder / "grades" / name).exists(), name
    assert len(re.findall(r"^- `", text, re.M)) >= 6
    assert (folder / "handout" / "learner" / "problem-set-3.ipynb").exists()
    class_page = (folder / "grades" / "class.html").read_text()
    assert "Problem set 3" in class_page and "You counted three projections" in class_page
    again = next(text for text in said if "were graded already" in text and "0 were" not in text)
    assert "grading:" not in again, "nothing is graded twice"
