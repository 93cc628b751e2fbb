"""The grader on a Dask cluster of real processes: what it writes is what a local run writes, whatever is killed."""

import shutil
import subprocess
import sys
import threading

import pytest

pytest.importorskip("distributed")

import exercises
from exercises.grade import boxes, cluster, run
from tests import classroom, sandbox
from tests.machines import ROOT, Dask
from tests.test_grade import SPEC

SUBMISSIONS, FEW = 60, 12
LIMITS = boxes.Limits(seconds=3)  # somebody's code never ends, and somebody's takes all memory, which takes a second


@pytest.fixture
def dask(tmp_path):
    there = Dask(tmp_path)
    yield there
    there.close()


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """(the folder of submissions, what a run in this machine's processes makes of it)."""
    sandbox.need("bwrap")
    folder = tmp_path_factory.mktemp("calm")
    classroom.make(folder / "class", SUBMISSIONS, seed=1)
    grade(folder / "class", folder / "out", workers=2)
    return folder / "class", folder / "out"


def grade(folder, out, **options):
    return run.run(folder, out, classroom.LIGHT, seed="classroom", limits=LIMITS, **options)


def few(calm, folder, count=FEW):
    """A folder with some of the submissions."""
    for name in run.submissions(calm[0])[:count]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((calm[0] / name).read_bytes())
    return folder


def same(out, other, names):
    """Are the results and the learners' pages of these submissions the same, byte for byte?"""
    found = [{path.name: path.read_bytes() for path in (o / "feedback").iterdir()} for o in (out, other)]
    assert found[0].items() <= found[1].items() and len(found[0]) == 2 * len(names)
    for name in names:
        assert run.result_file(out, name).read_bytes() == run.result_file(other, name).read_bytes(), name
    return True


def at(monkeypatch, number, action):
    """Do something when so many results have been kept; returns the list of what is kept."""
    kept, keep = [], run.keep

    def keeping(*arguments):
        keep(*arguments)
        kept.append(arguments[1])
        if len(kept) == number:
            action()

    monkeypatch.setattr(run, "keep", keeping)
    return kept


def test_a_worker_killed_halfway_changes_nothing(calm, dask, tmp_path, monkeypatch):
    folder, local = calm
    workers, said = [dask.worker(), dask.worker()], []
    at(monkeypatch, SUBMISSIONS // 2, lambda: dask.kill(workers[0]))
    grade(folder, tmp_path / "out", dask=dask.address, say=said.append)
    assert same(tmp_path / "out", local, run.submissions(folder))
    assert (tmp_path / "out" / "grades.csv").read_bytes() == (local / "grades.csv").read_bytes()
    said = "\n".join(said)
    assert said.count("grades, 1 at a time") == 2 and said.count("is gone") == 1
    assert (tmp_path / "out" / "report.md").read_bytes() == (local / "report.md").read_bytes()


def test_all_workers_killed_and_a_new_one_started(calm, dask, tmp_path, monkeypatch):
    folder, said = few(calm, tmp_path / "class"), []
    workers = [dask.worker(), dask.worker()]

    def kill():
        for worker in workers:
            dask.kill(worker)
        threading.Timer(2, dask.worker).start()

    kept = at(monkeypatch, FEW // 3, kill)
    grade(folder, tmp_path / "out", dask=dask.address, say=said.append)
    assert same(tmp_path / "out", calm[1], run.submissions(folder)) and len(kept) == FEW
    assert any("waiting for one" in line for line in said)


def test_a_scheduler_that_is_lost_loses_nothing_and_the_run_goes_on(calm, dask, tmp_path, monkeypatch):
    folder, out = few(calm, tmp_path / "class"), tmp_path / "out"
    dask.worker()
    with monkeypatch.context() as patch:
        at(patch, FEW // 2, lambda: dask.kill(dask.scheduler))
        with pytest.raises(run.Stopped, match="the scheduler does not answer any more"):
            grade(folder, out, dask=dask.address)
    before = {path: path.stat().st_ino for path in (out / "results").iterdir()}
    assert len(before) >= FEW // 2 and not (out / "grades.csv").exists()
    dask.start()
    dask.worker()
    kept = at(monkeypatch, 0, None)
    grade(folder, out, dask=dask.address, resume=True)
    assert before.items() <= {path: path.stat().st_ino for path in (out / "results").iterdir()}.items()
    assert same(out, calm[1], run.submissions(folder)) and len(kept) + len(before) == FEW


def test_an_interrupt_stops_and_the_run_goes_on(calm, dask, tmp_path, monkeypatch):
    folder, out = few(calm, tmp_path / "class", 6), tmp_path / "out"
    dask.worker()

    def interrupt():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        at(patch, 3, interrupt)
        with pytest.raises(KeyboardInterrupt):
            grade(folder, out, dask=dask.address)
    kept = at(monkeypatch, 0, None)
    grade(folder, out, dask=dask.address, resume=True)
    assert same(out, calm[1], run.submissions(folder)) and len(kept) == 3


def test_a_teachers_exercises_and_one_that_takes_the_graders_process_along(dask, tmp_path):
    """Nothing but their text goes to the workers. What is lost twice, the second time alone, is not graded."""
    sandbox.need("bwrap")
    folder, specs, known = tmp_path / "class", tmp_path / "specs", list(exercises.__path__)
    specs.mkdir()
    folder.mkdir()
    fatal = "import multiprocessing, os\n    if multiprocessing.parent_process(): os.abort()\n    for n in (2, 5):"
    (specs / "twice_it.py").write_text(SPEC.format(id="twice-it"))
    (specs / "fatal_it.py").write_text(SPEC.format(id="fatal-it").replace("for n in (2, 5):", fatal))
    for name, value, id in (("right", "x + x", "twice-it"), ("wrong", "x / 2", "twice-it"), ("lost", "x", "fatal-it")):
        (folder / f"{name}.py").write_text(f"def twice(x):\n    return {value}\ncheck('{id}', twice)\n")
    dask.worker()
    try:
        ids = ["twice-it", "fatal-it"]
        run.run(folder, tmp_path / "out", ids, specs, "x", dask=dask.address)
    finally:
        exercises.__path__[:] = known
        for name in ("twice_it", "fatal_it"):
            sys.modules.pop(f"exercises.{name}", None)
    rows = classroom.read_grades(tmp_path / "out" / "grades.csv")
    assert rows["right.py"]["points"] == "4" and "You halved it." in rows["wrong.py"]["reason"]
    assert rows["lost.py"]["status"] == "unreadable" and "lost twice" in rows["lost.py"]["reason"]


@pytest.mark.parametrize("other", ["another version", "none"])
def test_a_worker_with_another_course_is_refused(calm, dask, tmp_path, other):
    folder, root, said = few(calm, tmp_path / "class"), tmp_path / "root", []
    for package in ("exercises", "scratch") if other == "another version" else ():
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "scratch").mkdir(parents=True, exist_ok=True)
    (root / "exercises").mkdir(parents=True, exist_ok=True)
    (root / "exercises" / "__init__.py").touch()
    (root / "scratch" / "more.py").write_text("x = 1\n")
    dask.worker(root)
    with pytest.raises(run.Refusal) as refused:
        grade(folder, tmp_path / "out", dask=dask.address, say=said.append)
    told = str(refused.value)
    assert told.startswith("no worker can grade:\ntcp://127.0.0.1:") and f"REFUSED {told.splitlines()[1]}" in said
    if other == "another version":
        assert f"there, and {run.course()} here; both have to be the same" in told
    else:
        assert "Is the same course installed there?" in told
    assert not list((tmp_path / "out" / "results").iterdir())


def test_no_scheduler_is_one_sentence(calm, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECTING_SECONDS", 0.5)
    for address in ("tcp://127.0.0.1:9", "nonsense", "tcp://"):
        with pytest.raises(run.Refusal, match=f"--dask {address}: no scheduler answers there"):
            grade(calm[0], tmp_path / "out", dask=address, resume=True)


# ---- what decides on a result ----


def test_results_of_another_course_are_not_gone_on_with(calm, tmp_path, monkeypatch):
    folder = few(calm, tmp_path / "class", 2)
    grade(folder, tmp_path / "out", workers=1)
    monkeypatch.setattr(run, "course", lambda: "another one")
    for anew in ("choose another --out folder", "--regrade shows the difference"):
        with pytest.raises(run.Refusal, match=f"the course's own code was another one, .*; {anew}"):
            grade(folder, tmp_path / "out", workers=1, resume=True, anew=anew)


def test_all_that_judges_is_in_the_digest():
    """What grading one submission imports, and what is in the boxes."""
    source = (
        "import sys, exercises.grade.submission as s; print(*[m for m in sys.modules if m.startswith(s.__package__)])"
    )
    said = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    modules = {module.split(".")[2] for module in said.split() if module.count(".") > 1}
    assert modules == {name.removesuffix(".py") for name in run.JUDGING} and "answer" in modules
