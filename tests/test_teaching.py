"""The teaching guide's tables: every exercise's minutes are those of its file, and every sum is the sum."""

import re
from pathlib import Path

import exercises

TEXT = (Path(__file__).resolve().parents[1] / "chapters" / "teaching.md").read_text()
MINUTES = {id: exercises.load(id).minutes for id in exercises.ids()}


def wrong_cells(text):
    """The table cells that name an unknown exercise, other minutes than its file, or a sum that is none."""
    found = []
    for cell in (cell for line in text.split("\n") for cell in line.split("|")[1:]):
        its = re.findall(r"`([a-z0-9-]+)` (\d+)", cell)
        said = re.search(r"\*\*(\d+)\*\*", cell)
        right = all(MINUTES.get(id) == int(minutes) for id, minutes in its)
        if its and not (right and said and int(said[1]) == sum(int(minutes) for _, minutes in its)):
            found.append(cell)
    return found


def between(start, end):
    return TEXT[TEXT.index(start) : TEXT.index(end)]


def test_minutes_and_sums_of_every_session():
    assert len(re.findall(r"`[a-z0-9-]+` \d+", TEXT)) > 60 and not wrong_cells(TEXT)
    line = next(line for line in TEXT.split("\n") if "`norm-scale` 12" in line)
    assert wrong_cells(line.replace("`norm-scale` 12", "`norm-scale` 13")) and wrong_cells(
        line.replace("**22**", "**23**")
    )


def test_the_day_adds_up():
    day = between("## A workshop", "## A course")
    rows = [re.findall(r"\*\*(\d+)\*\*", row) for row in day.split("\n")]
    *sessions, total = [(int(row[0]), int(row[1])) for row in rows if len(row) == 2]
    assert total == tuple(map(sum, zip(*sessions, strict=True)))
    assert sum(total) == int(re.search(r"That makes (\d+) minutes", day)[1])


def test_the_weeks_hold_every_exercise_once():
    weeks = between("## A syllabus", "An oral exam")
    assert sorted(re.findall(r"`([a-z0-9-]+)` \d+", weeks)) == sorted(MINUTES)
    *each, total = map(int, re.findall(r"\*\*(\d+)\*\*", weeks))
    text = " ".join(weeks.split())
    assert total == sum(each) == sum(MINUTES.values())
    assert f"That is {round(total / 12)} minutes" in text and f"and {max(each)} in" in text
