"""Progress is kept in one small file, survives damage, and travels."""

import json

import pytest

from exercises import check, export_progress, hint, import_progress, learner, progress
from exercises.engine import record


@pytest.fixture
def file(monkeypatch, tmp_path):
    """A progress file of the test's own."""
    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path / "progress.json"


def formulas(D, F):
    attention, swiglu, classic = 4 * D**2, 3 * D * F, 8 * D**2
    more = "same" if swiglu == classic else "swiglu" if swiglu > classic else "classic"
    return attention, swiglu, classic, more


def test_attempts_hints_and_points_are_counted(file):
    check("count-block", None)
    assert not file.exists(), "an empty stub is no attempt"
    check("count-block", lambda D, F: (1, 2, 3, "same"))
    hint("count-block")
    hint("count-block")
    check("count-block", formulas)
    check("count-block", lambda D, F: (1, 2, 3, "same"))  # a later failure takes nothing away
    state = json.loads(file.read_text())
    assert state["exercises"] == {"count-block": {"attempts": 3, "hints": 2, "points": 2}}
    shown = repr(progress())
    assert shown.startswith("• Progress: 2 of ") and "✓ count-block ★★ 2/2, 3 attempts, 2 hints" in shown
    assert "Chapter 7, block: 2 of " in shown


def test_no_points_twice(file):
    check("count-block", formulas)
    check("count-block", formulas)
    assert "Progress: 2 of" in repr(progress())


def test_it_travels(file, monkeypatch, tmp_path):
    learner("Ada")
    check("count-block", formulas)
    text = export_progress()
    assert "Progress written to other.json" in repr(export_progress(tmp_path / "other.json"))
    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", str(tmp_path / "elsewhere.json"))
    hint("count-block")
    assert "Progress of Ada: 2 of" in repr(import_progress(text))
    assert record.read()["exercises"]["count-block"] == {"attempts": 1, "hints": 1, "points": 2}
    assert record.read()["learner"] == "Ada"
    before = (tmp_path / "elsewhere.json").read_text()
    import_progress(tmp_path / "other.json")
    assert (tmp_path / "elsewhere.json").read_text() == before, "importing twice changes nothing"


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", "not a progress file"),
        ('{"version": 2}', "version is 2, expected 1"),
        ('{"version": 1, "exercises": []}', "`exercises` is damaged"),
        ('{"version": 1, "exercises": {"a": {"points": "9"}}}', "`exercises` is damaged"),
    ],
)
def test_a_bad_import_changes_nothing(file, text, said):
    check("count-block", formulas)
    before = file.read_text()
    shown = repr(import_progress(text))
    assert "Nothing was imported" in shown and said in shown
    assert file.read_text() == before
    assert "Nothing was imported" in repr(import_progress("no-such-file.json"))


def test_a_damaged_file_is_set_aside(file):
    file.write_text("half a fi")
    assert check("count-block", formulas)
    assert (file.parent / "progress.damaged.json").read_text() == "half a fi"
    shown = repr(progress())
    assert "Progress: 2 of" in shown and "set aside as `progress.damaged.json`" in shown


def test_ordinary_mistakes_raise_nothing(file):
    assert "Nothing was changed" in repr(learner(None)) and "Nothing was changed" in repr(learner(3))
    assert "Nothing was imported" in repr(import_progress(None)) and "Nothing was imported" in repr(import_progress(3))
    assert "Nothing was written" in repr(export_progress(file.parent / "missing" / "x.json"))
    assert "Hint 1 of" in repr(hint("rope", "x"))


def test_a_folder_that_cannot_be_written_does_not_stop_a_check(monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", str(tmp_path / "missing" / "progress.json"))
    assert check("count-block", formulas)
    assert "Progress: 2 of" in repr(progress()), "it lasts as long as the session"
    record._unwritten.clear()


def test_where_it_is_kept(monkeypatch):
    monkeypatch.delenv("TRANSFORMER_BLOCK_PROGRESS")
    assert record.path().name == ".transformer-block-progress.json"
    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", "")
    assert record.path() is None
