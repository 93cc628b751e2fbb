"""The real grader on a class of 300, on thirty right answers in ten forms each, and killed and resumed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from exercises import load
from exercises.engine import library
from exercises.engine.checker import judge
from exercises.spec import Code
from tests import classroom
from tests.classroom import DAMAGE, LIGHT, MISCHIEF, THIRTY, differences, name_of, read_grades

ROOT = Path(__file__).resolve().parents[1]
LEARNER = "learner-017"


# ---- what is expected, without the grader ----


def value_of(id, answer):
    """What the learner's name is bound to."""
    names = {"__name__": "submission", "np": np, "check": lambda id, answer: None}
    for source in classroom.filled(id, answer):
        exec(source, names)
    return names[name_of(id)]


def verdict_on(id, answer):
    exercise, value = load(id), value_of(id, answer)
    if isinstance(exercise, Code):
        assert not library.borrowed(exercise, value)
        return judge(exercise, value, seed=5)
    return judge(exercise, value, LEARNER)


@pytest.mark.parametrize("id", LIGHT)
def test_answers_of_the_class_are_as_right_or_wrong_as_they_are_said_to_be(id):
    right, wrong = classroom.right_answers(id, LEARNER), classroom.wrong_answers(id, LEARNER)
    assert len(right) >= 2 and len(wrong) >= 4
    for answer in right:
        assert verdict_on(id, answer)
    for answer in wrong:
        verdict = verdict_on(id, answer)
        assert verdict.status == "not yet" and verdict.diagnosis == answer.said


@pytest.mark.parametrize("id", THIRTY)
def test_the_thirty_are_right(id):
    assert verdict_on(id, classroom.thirty(id, LEARNER))


def test_the_sets_are_of_all_kinds():
    for ids, count in ((LIGHT, 10), (THIRTY, 30)):
        assert len(ids) == len(set(ids)) == count
        assert {type(load(id)).__name__ for id in ids} == {"Code", "Number", "Choice", "Order"}


def test_a_class_is_the_same_again_and_has_its_shares(tmp_path):
    one, two = (classroom.make(tmp_path / name, count, seed=3) for name, count in (("a", 300), ("b", 40)))
    assert one.items() >= two.items() and len(one) == 300
    assert one != classroom.make(tmp_path / "c", 300, seed=4)
    for path in two:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()
    kinds = [its.kind for its in one.values()]
    assert {"right", "wrong", *DAMAGE, *MISCHIEF} == set(kinds)
    assert [kinds.count("right"), kinds.count("wrong")] == [120, 120]
    assert [sum(map(kinds.count, names)) for names in (DAMAGE, MISCHIEF)] == [45, 15]
    assert {path.rpartition(".")[2] for path in one} >= {"ipynb", "md", "py"}


def test_a_difference_is_found(tmp_path):
    expected = classroom.make(tmp_path / "class", 60)
    classroom.write_expected(tmp_path / "expected.csv", expected)
    rows = read_grades(tmp_path / "expected.csv")
    for row in rows.values():
        lost = [id for id in LIGHT if row[id] == "0"]
        row["reason"] += "".join(f"; {id}: lost" for id in lost) if lost else "full marks"
    assert differences(expected, rows) == []
    at = next(path for path, its in expected.items() if its.kind == "wrong")
    changes = [{"status": "unreadable"}, {"learner": ""}, {"points": "99"}, {"out_of": "1"}, {"reason": "wrong"}]
    for change in [*changes, *({id: "7"} for id in LIGHT)]:
        assert differences(expected, rows | {at: rows[at] | change}), change
    assert len(differences(expected, {path: rows[path] for path in rows if path != at})) == 1
    assert len(differences(expected, rows | {"one more.ipynb": rows[at]})) == 1


# ---- the grader ----


QUICK = ("--seconds", "2")  # for classes in which somebody's code never ends


def command(folder, out, ids, *options):
    grader = [sys.executable, "-m", "exercises.grade", str(folder), "--out", str(out), "--exercises", ",".join(ids)]
    return [*grader, "--seed", "classroom", "--workers", "2", *options]


def grade(folder, out, ids, *options):
    """Run the grader, and return the rows of grades.csv."""
    done = subprocess.run(command(folder, out, ids, *options), cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return read_grades(out / "grades.csv")


def test_a_class_of_300_has_the_scores_it_should_have(tmp_path):
    expected = classroom.make(tmp_path / "class", 300)
    rows = grade(tmp_path / "class", tmp_path / "out", LIGHT, *QUICK)
    found = differences(expected, rows)
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def graded_forms(tmp_path_factory):
    """({path: id}, the rows) of thirty right answers in all forms."""
    folder = tmp_path_factory.mktemp("forms")
    paths = classroom.write_forms(folder / "forms", LEARNER)
    return paths, grade(folder / "forms", folder / "out", THIRTY)


def test_there_are_300_forms_and_more(graded_forms):
    paths, rows = graded_forms
    assert set(paths) == set(rows)
    assert len(paths) > 300 == len(THIRTY) * len(classroom.FORMS)


@pytest.mark.parametrize("id", THIRTY)
def test_a_right_answer_has_full_marks_in_all_forms(graded_forms, id):
    paths, rows = graded_forms
    points = str(load(id).points)
    for path in [path for path in paths if paths[path] == id]:
        row = rows[path]
        assert row["status"] == "graded" and row[id] == row["points"] == points, f"{path}: {row['reason']}"
        assert row["learner"] == LEARNER, path


# ---- a grader that is killed ----


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """(folder of 60 submissions, what the grader makes of them with two workers)."""
    folder = tmp_path_factory.mktemp("sixty")
    classroom.make(folder / "class", 60, seed=1)
    grade(folder / "class", folder / "out", LIGHT, *QUICK)
    return folder / "class", folder / "out"


def written(out):
    """{path: bytes} of what the grader writes."""
    files = [out / "grades.csv", *(out / "results").rglob("*"), *(out / "feedback").rglob("*")]
    return {file.relative_to(out).as_posix(): file.read_bytes() for file in files if file.is_file()}


def results(out):
    """The result files, whole ones: {path: (inode, time of the last change)}."""
    found = {}
    for path in (out / "results").rglob("*.json"):
        if not path.name.startswith("."):
            about = path.stat()
            found[path] = about.st_ino, about.st_mtime_ns
    return found


def running():
    """{(pid, when it started): pid of its parent} of all processes but zombies."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, *rest = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if state != "Z":
            found[int(stat.parent.name), rest[17]] = int(parent)
    return found


def below(pids):
    """The processes that were started by these, or by those that were: a set of (pid, when it started)."""
    processes, found, parents = running(), set(), set(pids)
    while parents:
        children = {process for process, parent in processes.items() if parent in parents} - found
        found, parents = found | children, {pid for pid, _ in children}
    return found


def kill_in_the_middle(process, out, enough, pause):
    """SIGKILL the grader when there are enough results and a moment has passed; how many processes went with it."""
    end = time.monotonic() + 120
    while len(results(out)) < enough and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(pause)
    assert process.poll() is None, "it had ended before it could be killed"
    process.send_signal(signal.SIGSTOP)  # it starts nothing more while its boxes are listed
    boxes = below({process.pid})
    process.kill()
    process.wait()
    end = time.monotonic() + 10
    while left := boxes & set(running()):
        if time.monotonic() > end:
            lines = [line_of(pid) for pid, _ in left]
            for pid, _ in left:
                os.kill(pid, signal.SIGKILL)
            pytest.fail(f"these outlive the grader: {lines}")
        boxes |= below({pid for pid, _ in left})
        time.sleep(0.05)
    return len(boxes)


def line_of(pid):
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return str(pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see which processes are left")
def test_a_grader_killed_five_times_and_resumed_writes_what_an_undisturbed_one_does(undisturbed, tmp_path, monkeypatch):
    folder, calm = undisturbed
    out, temporary, kept, boxes = tmp_path / "out", tmp_path / "temporary", {}, 0
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    rng = random.Random(seed := random.randrange(10**6))
    print(f"moments from seed {seed}")
    for number, enough in enumerate([0, *sorted(rng.sample(range(1, 50), 4))]):
        grader = command(folder, out, LIGHT, *QUICK, *(["--resume"] if number else []))
        process = subprocess.Popen(grader, cwd=ROOT)
        boxes += kill_in_the_middle(process, out, enough, rng.uniform(0, 0.05 if number else 1.5))
        now = results(out)
        assert len(now) >= enough
        assert kept.items() <= now.items(), "what was graded was graded again"
        kept = now
    assert boxes, "no box was ever seen"
    grade(folder, out, LIGHT, *QUICK, "--resume")
    assert kept.items() <= results(out).items(), "what was graded was graded again"
    one, other = written(calm), written(out)
    assert sorted(one) == sorted(other)
    assert [path for path in one if one[path] != other[path]] == []
    assert not any(temporary.iterdir()), "the graders that were killed left something behind"


def test_the_number_of_workers_changes_nothing(undisturbed, tmp_path):
    folder, calm = undisturbed
    grade(folder, tmp_path / "out", LIGHT, *QUICK, "--workers", "1")
    assert (tmp_path / "out" / "grades.csv").read_bytes() == (calm / "grades.csv").read_bytes()
