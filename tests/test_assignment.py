"""An assignment's rules, its folder, and how a regrade takes the place of the grades; nothing is graded here."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest

import exercises
from exercises.grade import assignment, term
from exercises.grade.__main__ import main
from exercises.grade.boxes import BoxError
from exercises.grade.command import status_of
from exercises.grade.run import Refusal, Stopped
from exercises.grade.specs import SpecError

TITLE = 'title = "Problem set 3"\n'


def rules(tmp_path, text):
    (tmp_path / assignment.FILE).write_text(text, encoding="utf-8")
    return assignment.read(tmp_path)


def test_rules_are_read(tmp_path):
    about = rules(
        tmp_path,
        TITLE
        + 'exercises = ["rope", "gate", "rope"]\ndue = 2027-03-05T23:59:00+01:00\nattempts = "last"\nseconds = 3\n'
        'specs = "own"\nmemory = 512\n[late]\ngrace_minutes = 5\npercent_per_day = 12.5\ndays = 2\n',
    )
    due = datetime(2027, 3, 5, 22, 59, tzinfo=UTC)
    assert about == assignment.Assignment("Problem set 3", ("rope", "gate"), due, "last", "own", 3, 512, 5, 12.5, 2)


def test_a_title_is_enough_and_a_bom_does_no_harm(tmp_path):
    (tmp_path / assignment.FILE).write_bytes(b"\xef\xbb\xbf" + TITLE.encode())
    assert assignment.read(tmp_path) == assignment.Assignment("Problem set 3")


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "title"),
        ('title = " "', "title"),
        ("title = 3", "title has to be a text, and is 3"),
        (TITLE + "late = 10", "late has to be a table"),
        (TITLE + 'exercises = "rope"', "exercises has to be a list of ids"),
        (TITLE + "exercises = [1]", "exercises has to be a list of ids"),
        (TITLE + 'attempts = "first"', "attempts has to be best or last, and is 'first'"),
        (TITLE + 'due = "tomorrow"', "due has to be like 2027-03-05T23:59"),
        (TITLE + "due = 7", "due has to be like 2027-03-05T23:59"),
        (TITLE + "due = 0001-01-01", "and is 0001-01-01T23:59:59"),
        (TITLE + 'due = "0207-03-05"', "and is 0207-03-05T23:59:59"),
        (TITLE + "percent = 3", "there is no setting percent; there are title, exercises"),
        (TITLE + "[late]\npercent_per_day = 101", "percent_per_day has to be between 0 and 100, and is 101"),
        (TITLE + '[late]\ndays = "three"', "days has to be a number, and is 'three'"),
        (TITLE + "[late]\ngrace_minutes = true", "grace_minutes has to be a number, and is True"),
        (TITLE + "[late]\ngrace_minutes = nan", "grace_minutes has to be between 0"),
        (TITLE + "seconds = 0", "seconds has to be between 0.1 and 3600"),
        (TITLE + "memory = 64", "memory has to be between 256"),
        (TITLE + "memory = 512.5", "memory has to be a whole number, and is 512.5"),
        (TITLE + "due = ", "assignment.toml"),
        (TITLE + "due = 2027-03-05T23:59", "times stand in quotes"),
        (TITLE + "days = 2\n[late]\ndays = 3", "days stands there twice"),
    ],
)
def test_a_rule_that_cannot_be_is_named(tmp_path, text, said):
    with pytest.raises(Refusal) as refused:
        rules(tmp_path, text)
    assert said in str(refused.value) and assignment.FILE in str(refused.value)


def test_a_folder_without_rules_is_told_how_to_get_them(tmp_path):
    with pytest.raises(Refusal, match="to write one: python -m exercises.grade new "):
        assignment.read(tmp_path)


def test_a_date_is_its_last_second_and_a_time_without_a_zone_is_of_this_machine():
    day = assignment.moment(" 2027-03-05 ", "due")
    assert day.tzinfo is not None and (day.hour, day.minute, day.second) == (23, 59, 59)
    assert day == datetime(2027, 3, 5, 23, 59, 59).astimezone() == assignment.moment("20270305", "due")
    assert assignment.moment("2027-03-05T10:00-05:00", "due").utcoffset() == timedelta(hours=-5)


OPTIONS = ["--title", 'A "quoted" \\ title — ü', "--exercises", "rope, gate", "--due", "2027-03-05T23:59+01:00"]


def test_what_new_writes_is_what_was_asked_for(tmp_path, capsys):
    late = ["--percent-per-day", "10", "--grace-minutes", "2.5", "--days", "3", "--attempts", "last"]
    assert term.new([str(tmp_path / "ps3"), *OPTIONS, *late]) == 0
    due = datetime(2027, 3, 5, 22, 59, tzinfo=UTC)
    about = assignment.read(tmp_path / "ps3")
    assert about == assignment.Assignment(
        OPTIONS[1], ("rope", "gate"), due, "last", grace_minutes=2.5, percent_per_day=10, days=3
    )
    assert sorted(path.name for path in (tmp_path / "ps3").iterdir()) == ["assignment.toml", "manual", "submissions"]
    assert "2 exercises, " in capsys.readouterr().out


def test_new_needs_a_title_only(tmp_path):
    assert term.new([str(tmp_path / "ps3"), "--title", "x"]) == 0
    assert assignment.read(tmp_path / "ps3") == assignment.Assignment("x")


@pytest.mark.parametrize(
    "options, said",
    [
        (["--exercises", "rope,gates"], "gate"),
        (["--due", "soon"], "due has to be like"),
        (["--percent-per-day", "-1"], "between 0 and 100"),
    ],
)
def test_new_says_what_cannot_be_and_makes_nothing(tmp_path, capsys, options, said):
    assert term.new([str(tmp_path / "ps3"), "--title", "x", *options]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and said in told
    assert not (tmp_path / "ps3").exists()


OWN = """\
from exercises.spec import Choice, Part

part = Part(name="a", ask="?", options={"x": "x", "y": "y"}, wrong={"y": "No."}, right=lambda: "x")
exercise = Choice(
    id="of-my-own", title="Mine", chapter="", answer="mine", points=5, stars=1, minutes=1, hints=(), parts=(part,)
)
"""


def test_new_knows_exercises_of_ones_own(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(exercises, "__path__", list(exercises.__path__))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "of_my_own.py").write_text(OWN)
    options = ["--title", "x", "--exercises", "of-my-own,gate", "--specs", str(tmp_path / "own")]
    assert term.new([str(tmp_path / "term" / "ps3"), *options]) == 0
    about = assignment.read(tmp_path / "term" / "ps3")
    assert about.specs == "../../own" and about.exercises == ("of-my-own", "gate")
    assert f"2 exercises, {5 + exercises.load('gate').points} points" in capsys.readouterr().out


def test_new_leaves_what_is_there(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert term.new([str(tmp_path), "--title", "x"]) == 2
    assert "something already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "error, status, said",
    [
        (Refusal("no such thing"), 2, "error: no such thing\n"),
        (SpecError("--specs: x is no folder"), 2, "error: --specs: x is no folder\n"),
        (Stopped("the scheduler is gone"), 2, "error: the scheduler is gone; go on\n"),
        (OSError(28, "No space left on device", "a/b"), 2, "error: a/b: No space left on device; go on\n"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device; go on\n"),
        (BoxError("it ended"), 2, "error: a sandbox does not start any more: it ended; go on\n"),
        (KeyboardInterrupt(), 130, "stopped; go on\n"),
    ],
)
def test_what_hinders_a_command_is_one_line(error, status, said, capsys):
    def do():
        raise error

    assert status_of(do, "go on") == status and capsys.readouterr().err == said
    assert status_of(lambda: 0) == 0 and capsys.readouterr().err == ""


# ---- accept ----


def graded(folder, text, ids=("rope", "gate")):
    """The grades, or, in a folder `regrade`, a finished regrade."""
    (folder.parent / assignment.FILE).write_text(TITLE + 'exercises = ["rope", "gate"]')
    folder.mkdir(parents=True)
    (folder / "grades.csv").write_text(text)
    (folder / "run.json").write_text(json.dumps({"exercises": ids}))
    if folder.name == "regrade":
        (folder / "difference.md").write_text("")


def test_accept_puts_the_regrade_in_place_and_keeps_what_was_there(tmp_path, capsys):
    graded(tmp_path / "grades", "0")
    for number in (1, 2, 3):
        if number == 3:  # a person has thrown away the first; the second is not to be lost for it
            shutil.rmtree(tmp_path / "grades-before-1")
        graded(tmp_path / "regrade", str(number))
        assert term.accept([str(tmp_path)]) == 0
        assert (tmp_path / "grades" / "grades.csv").read_text() == str(number)
        assert (tmp_path / f"grades-before-{number}" / "grades.csv").read_text() == str(number - 1)
        assert not (tmp_path / "regrade").exists()


def test_accept_goes_on_where_it_was_cut_off(tmp_path):
    graded(tmp_path / "grades-before-1", "0")
    graded(tmp_path / "regrade", "1")
    assert term.accept([str(tmp_path)]) == 0
    assert (tmp_path / "grades" / "grades.csv").read_text() == "1"


def test_an_unfinished_regrade_is_not_accepted(tmp_path, capsys):
    graded(tmp_path / "grades", "0")
    graded(tmp_path / "regrade", "1")
    (tmp_path / "regrade" / "difference.md").unlink()
    assert term.accept([str(tmp_path)]) == 2
    assert "no finished regrade" in capsys.readouterr().err
    assert (tmp_path / "grades" / "grades.csv").read_text() == "0"


def test_a_regrade_of_other_exercises_than_the_rules_name_now_is_not_accepted(tmp_path, capsys):
    graded(tmp_path / "grades", "0")
    graded(tmp_path / "regrade", "1", ("rope", "flops"))
    assert term.accept([str(tmp_path)]) == 2
    assert "gate came in addition; flops is left out" in capsys.readouterr().err
    assert (tmp_path / "grades" / "grades.csv").read_text() == "0"


def test_a_folder_that_is_none_is_named(tmp_path, capsys):
    assert main([str(tmp_path / "ps33")]) == 2 and "there is no folder" in capsys.readouterr().err
    assert main(["accept", str(tmp_path / "ps33")]) == 2 and "there is no assignment.toml" in capsys.readouterr().err


def test_a_gradebook_whose_roster_is_gone_is_not_left_to_grow_old(tmp_path):
    (tmp_path / "gradebook.csv").write_text("")
    with pytest.raises(Refusal, match="there is no roster any more"):
        term.conclude(tmp_path, tmp_path, ["rope"], assignment.Assignment("x"), None)
