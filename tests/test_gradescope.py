"""Gradescope's zip: what is in it, and what it does in a container like Gradescope's, run here as it would be there."""

import importlib.metadata
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

import exercises
from exercises import load
from exercises.grade import boxes, gradescope, report, run
from exercises.grade.autograder import container
from exercises.grade.run import run as grade_folder
from tests import classroom, sandbox
from tests.classroom import LIGHT

ROOT = Path(__file__).resolve().parents[1]
LEARNER = "learner-017"
METADATA = {  # https://gradescope-autograders.readthedocs.io/en/latest/submission_metadata/
    "id": 123456,
    "created_at": "2027-03-05T14:22:32.365935-07:00",
    "assignment": {"id": 25828, "title": "Problem set 3", "total_points": "16.0", "submission_method": "upload"},
    "users": [{"email": "l17@example.edu", "id": 1234, "name": "Learner 017"}],
    "previous_submissions": [],
}
OUT_OF = sum(load(id).points for id in LIGHT)


# ---- what Gradescope asks of a results.json ----
# SPECS is https://gradescope-autograders.readthedocs.io/en/latest/specs/

SHOWN = {"hidden", "after_due_date", "after_published", "visible"}  # SPECS#controlling-test-case-visibility
FORMATS = {"text", "html", "simple_format", "md", "ansi"}  # SPECS#output-string-formatting
WHOLE = {  # SPECS#output-format: all fields there are, and what they hold
    "score": (int, float),
    "execution_time": (int, float),
    "output": str,
    "output_format": FORMATS,
    "test_output_format": FORMATS,
    "test_name_format": FORMATS,
    "visibility": SHOWN,
    "stdout_visibility": SHOWN,
    "extra_data": dict,
    "tests": list,
    "leaderboard": list,
}
ONE = {
    "score": (int, float),
    "max_score": (int, float),
    "status": {"passed", "failed"},  # SPECS#test-case-status
    "name": str,
    "name_format": FORMATS,
    "number": str,
    "output": str,
    "output_format": FORMATS,
    "tags": list,
    "visibility": SHOWN,
    "extra_data": dict,
}


def wrong_in(results):
    """What Gradescope's documentation does not allow in a results.json, and what it makes of it that is not wanted."""
    if not isinstance(results, dict):
        return ["not an object"]
    found = _wrong_fields("results", results, WHOLE)
    tests = results.get("tests", [])
    for at, test in enumerate(tests):
        found += _wrong_fields(f"tests[{at}]", test, ONE)
    # "optional, but required if not on each test case below", and the other way round
    if "score" not in results and not (tests and all("score" in test for test in tests)):
        found.append("neither a score of the whole nor one of each test")
    # "Overrides total of tests if specified": a learner who adds them up should get the same
    if tests and "score" in results and results["score"] != sum(test.get("score", 0) for test in tests):
        found.append("the score is not the sum of the tests")
    # "If test cases are hidden, students will not be able to see their total score"
    if any(part.get("visibility", "visible") != "visible" for part in (results, *tests)):
        found.append("something is hidden, and so is the total")
    # "test cases where the student was awarded the max_score points are marked as passing": no other than that
    if any((test["status"] == "passed") != (test["score"] == test["max_score"]) for test in tests):
        found.append("the status contradicts the score")
    if results.get("stdout_visibility", "hidden") != "hidden":
        found.append("learners see what is meant for the instructor")
    return found


def _wrong_fields(where, given, known):
    found = [f"{where}: {key} is no field" for key in given if key not in known]
    for key, allowed in known.items():
        value = given.get(key)
        wrong = (
            value not in allowed if isinstance(allowed, set) else type(value) is bool or not isinstance(value, allowed)
        )
        if key in given and wrong:
            found.append(f"{where}: {key} is {value!r}")
    return found


def read(file):
    """The content of a results.json that holds JSON and no more: no NaN, which JSON has not."""

    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    return json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)


PART = {"score": 1, "max_score": 1, "status": "passed", "name": "a", "output": "b", "visibility": "visible"}


def test_a_right_results_file_is_none_of_it():
    assert wrong_in({"score": 1, "output": "", "tests": [PART]}) == []
    assert wrong_in({"tests": [PART]}) == []


@pytest.mark.parametrize(
    "results",
    [
        [],
        {"tests": []},
        {"score": "1"},
        {"score": True},
        {"score": 1, "points": 1},
        {"score": 2, "tests": [PART]},
        {"score": 1, "output_format": "markdown"},
        {"score": 1, "visibility": "hidden"},
        {"score": 1, "stdout_visibility": "visible"},
        {"score": 1, "tests": [PART | {"visibility": "after_published"}]},
        {"score": 0, "tests": [PART | {"score": 0}]},
        {"score": 1, "tests": [PART | {"number": 1}]},
        {"score": 1, "tests": [PART | {"status": "ok"}]},
    ],
)
def test_what_gradescope_does_not_take_is_seen(results):
    assert wrong_in(results)


# ---- the zip ----


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The zip of the ten light exercises, made as an instructor makes it."""
    file = tmp_path_factory.mktemp("zip") / "autograder.zip"
    asked = ["--exercises", ",".join(LIGHT), "--title", "Problem set 3", "--seed", "classroom", "--seconds", "2"]
    assert gradescope.main([*asked, "--out", str(file)]) == 0
    return file


def test_the_zip_has_at_its_root_what_gradescope_asks_for(archive):
    """SPECS: "two files in the root of the archive", "zip the files, and not the folder containing the files"."""
    with zipfile.ZipFile(archive) as content:
        entries = {entry.filename: entry for entry in content.infolist()}
        settings = json.loads(content.read("settings.json"))
    for name in ("setup.sh", "run_autograder"):
        assert entries[name].external_attr >> 16 & 0o777 == 0o755
    assert {"exercises/spec.py", "scratch/ops.py", "requirements.txt"} <= set(entries)
    assert not [name for name in entries if name.startswith(("/", "tests")) or ".." in name or "__pycache__" in name]
    assert settings["exercises"] == list(LIGHT) and settings["secret"] == "classroom" and settings["seconds"] == 2
    assert os.stat(archive).st_mode & 0o077 == 0  # the secret and the answers are in it


def test_what_is_pinned_is_what_the_course_pins():
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines()[1:]:
        pins.setdefault(line.partition("==")[0].lower(), []).append(line)
    asked = [line for line in (gradescope.FILES / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    names = dict.fromkeys(line.partition("==")[0] for line in asked)
    assert asked == [line for name in names for line in pins[name]], "take the lines from constraints.txt"


def test_nothing_is_imported_that_is_not_pinned():
    """Of what is not in the standard library and not in the zip."""
    program = (
        "import sys, exercises.grade.autograder.container; from exercises import ids, load; [load(i) for i in ids()]"
    )
    said = subprocess.check_output(
        [sys.executable, "-c", f"{program}; print(*{{name.partition('.')[0] for name in sys.modules}})"],
        cwd=ROOT,
        text=True,
    )
    known = importlib.metadata.packages_distributions()
    loaded = {known[name][0].lower() for name in said.split() if name in known} - {"transformer-block"}
    pinned = set(re.findall(r"^[\w-]+", (gradescope.FILES / "requirements.txt").read_text(), flags=re.MULTILINE))
    assert {"numpy", "pyseccomp"} - loaded <= {"pyseccomp"} and loaded - pinned <= {"setuptools", "pip"}


def test_the_assignments_folder_says_what_is_asked(tmp_path, capsys):
    folder = tmp_path / "ps3"
    (folder / "grades").mkdir(parents=True)
    (folder / "assignment.toml").write_text('title = "Problem set 3"\nexercises = ["rope", "gate"]\nseconds = 7\n')
    (folder / "grades" / "secret").write_text("as before")
    out = tmp_path / "a.zip"
    assert gradescope.main([str(folder), "--out", str(out), "--timeout", "20"]) == 0
    assert "2 exercises, 4 points, 7 seconds" in capsys.readouterr().out
    with zipfile.ZipFile(out) as content:
        settings = json.loads(content.read("settings.json"))
        start = content.read("run_autograder").decode()
    assert settings["title"] == "Problem set 3" and settings["exercises"] == ["rope", "gate"]
    assert settings["secret"] == "as before"  # so the numbers are those of the folder's own grades
    assert "deadline=1170 " in start and not list(tmp_path.glob(".*"))


def test_many_exercises_have_less_time_each(tmp_path, capsys):
    out = ["--out", str(tmp_path / "a.zip"), "--exercises"]
    assert gradescope.main([*out, ",".join(exercises.ids())]) == 0
    seconds = float(re.search(r"([\d.]+) seconds", capsys.readouterr().out)[1])
    assert 2 <= seconds < 10 and 2 * seconds * len(exercises.ids()) < 600


def specs_in(folder):
    """A teacher's folder with an exercise of their own, and the name of its file."""
    folder.mkdir()
    source = (ROOT / "exercises" / "count_block.py").read_text().replace('id="count-block"', 'id="my-count"')
    (folder / "my_count.py").write_text(source)
    return source


def test_a_teachers_own_exercises_go_along(tmp_path):
    source = specs_in(tmp_path / "specs")
    known = list(exercises.__path__)
    try:
        asked = ["--specs", str(tmp_path / "specs"), "--exercises", "my-count", "--out", str(tmp_path / "a.zip")]
        assert gradescope.main(asked) == 0
    finally:
        exercises.__path__[:] = known
    with zipfile.ZipFile(tmp_path / "a.zip") as content:
        assert content.read("specs/my_count.py").decode() == source


@pytest.mark.parametrize(
    "asked, said",
    [
        (["--exercises", "ropes"], "rope"),
        ([], "--exercises"),
        (["nowhere"], "assignment.toml"),
        (["--exercises", "rope", "--specs", "nowhere"], "--specs"),
        (["--exercises", ",".join(list(exercises.ids())[:60]), "--timeout", "3"], "--timeout 6"),
        (["--exercises", "rope", "--memory", "64"], "memory has to be between 256"),
        (["--exercises", "rope", "--seconds", "0"], "seconds has to be between 0.1"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(asked, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gradescope.main([*asked, "--out", "a.zip"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and said in told and told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path, capsys):
    assert gradescope.main(["--exercises", "rope", "--out", str(tmp_path / "no" / "a.zip")]) == 2
    assert "error: " in capsys.readouterr().err


# ---- which file counts, and whose it is ----

NAMING = 'check("rope", f)\ncheck("gate", f)\n'


@pytest.mark.parametrize(
    "files, name",
    [
        ({"a.ipynb": NAMING}, "a.ipynb"),
        ({"a.ipynb": NAMING, "b.ipynb": 'check("rope", f)', "c.txt": ""}, "a.ipynb"),
        ({"a/b/deep.md": NAMING, "README.md": "words"}, "a/b/deep.md"),
        ({"a.py": NAMING, "a.ipynb": NAMING + "# more"}, "a.ipynb"),
        ({"a.py": NAMING, "a.md": NAMING + "more"}, "a.md"),
        ({"a.ipynb": NAMING, "copy.ipynb": NAMING}, "a.ipynb"),
        ({"a.ipynb": NAMING, "b.ipynb": NAMING + "# more"}, ""),
        ({"a.ipynb": 'check("flops", 1)', "b.ipynb": 'check("gate", f)'}, "b.ipynb"),
        ({"a.txt": NAMING, "b.ipynb": "no check"}, "a.txt"),
        ({"a.ipynb": "no check", "b.pdf": ""}, "a.ipynb"),
        ({"a.pdf": "%PDF"}, "a.pdf"),
        ({"a.pdf": "%PDF", "b.docx": ""}, ""),
        ({"a.ipynb": "", "__MACOSX/._a.ipynb": NAMING}, "a.ipynb"),
        ({}, ""),
    ],
)
def test_the_file_that_names_most_counts(files, name, tmp_path):
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found, others, why = container.chosen(tmp_path, ["rope", "gate"])
    assert found == name and bool(why) == (not name)
    assert set(others) == {path for path in files if "__MACOSX" not in path} - {name}
    assert name or all(path in why for path in files)


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text(NAMING)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ipynb").symlink_to(tmp_path / "secret")
    (tmp_path / "in" / "b.ipynb").write_text(NAMING)
    assert container.chosen(tmp_path / "in", ["rope"])[0] == "b.ipynb"


@pytest.mark.parametrize(
    "learner, expected",
    [
        ("Learner 017", True),
        ("017, LEARNER", True),
        ("Léarner  017", True),
        ("l17@example.edu", True),
        ("L17", True),
        ("Learner 018", False),
        ("Learner", False),
        ("", False),
        ("…", False),
    ],
)
def test_whose_a_notebook_is(learner, expected):
    assert container.is_of(learner, [{"name": "Other", "email": ""}, METADATA["users"][0]]) is expected


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"users": null}', '{"users": [1]}', '{"users": "ab"}', "\xff"])
def test_metadata_that_say_nothing(text, tmp_path):
    file = tmp_path / "submission_metadata.json"
    assert container.people(file) == []
    file.write_bytes(text.encode("latin-1"))
    assert container.people(file) == []


# ---- the container ----

# what Docker leaves to root in a container that is not told otherwise
RIGHTS = "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL"
Graded = namedtuple("Graded", "results stdout")


class Container:
    """A folder that stands for /autograder in a fresh root, with the rights and the refusals of a container."""

    def __init__(self, folder, archive):
        self.folder = folder
        for part in ("source", "submission", "results", "venv"):
            (folder / part).mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "zipfile", "-e", archive, folder / "source"], check=True)
        # which Gradescope does: SPECS#file-hierarchy
        (folder / "run_autograder").write_bytes((folder / "source" / "run_autograder").read_bytes())
        (folder / "run_autograder").chmod(0o755)

    def run(self, command, denied=False, instead=()):
        """Run a command in it; `instead` are folders that stand in the place of those of the same names."""
        options = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
        options += ["--cap-drop", "ALL", *(word for right in RIGHTS.split() for word in ("--cap-add", f"CAP_{right}"))]
        for place in ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"):
            if os.path.islink(place):
                options += ["--symlink", os.readlink(place), place]
            elif os.path.exists(place):
                options += ["--ro-bind", place, place]
        options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", self.folder, "/autograder"]
        for place in {sys.base_prefix, os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))} - {"/usr"}:
            options += ["--ro-bind", place, place]
        options += ["--ro-bind", sys.prefix, "/autograder/venv"]  # which setup.sh finds, and leaves as it is
        for folder in instead:
            options += ["--bind", folder, f"/autograder/{folder.name}"]
        options += ["--clearenv", "--setenv", "PATH", "/usr/sbin:/usr/bin:/sbin:/bin", "--chdir", "/autograder"]
        with tempfile.TemporaryFile() as filter_:
            if denied:
                _deny(filter_)
                options += ["--seccomp", str(filter_.fileno())]
            return subprocess.run(
                ["bwrap", *options, "--", *command],
                pass_fds=[filter_.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
            )

    def grade(self, place, files, denied, instead=()):
        """What comes of a submission of these files: {relative path: bytes}."""
        submission, results = place / "submission", place / "results"
        for path, data in files.items():
            (submission / path).parent.mkdir(parents=True, exist_ok=True)
            (submission / path).write_bytes(data)
        submission.mkdir(exist_ok=True)
        results.mkdir()
        done = self.run(["/autograder/run_autograder"], denied, [submission, results, *instead])
        assert sorted(path.name for path in results.iterdir()) == ["results.json"], done.stdout
        told = read(results / "results.json")
        assert wrong_in(told) == [], done.stdout
        return Graded(told, done.stdout)


def _deny(file):
    """Write the filter with which a container usually keeps those in it from namespaces."""
    import pyseccomp

    program, denied = pyseccomp.SyscallFilter(pyseccomp.ALLOW), pyseccomp.ERRNO(1)
    for name in ("unshare", "mount", "setns", "pivot_root"):
        program.add_rule(denied, name)
    for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000):  # CLONE_NEWUSER, NEWNS, NEWPID, NEWNET
        program.add_rule(denied, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    program.add_rule(pyseccomp.ERRNO(38), "clone3")
    program.export_bpf(file)
    file.seek(0)


@pytest.fixture(scope="module")
def image(tmp_path_factory, archive):
    """The container after its setup.sh."""
    sandbox.need("uid")
    sandbox.need("bwrap")
    image = Container(tmp_path_factory.mktemp("gradescope") / "autograder", archive)
    image.folder.parent.chmod(0o755)
    (image.folder / "submission_metadata.json").write_text(json.dumps(METADATA))
    done = image.run(["bash", "/autograder/source/setup.sh"])
    assert done.returncode == 0, done.stdout
    assert (image.folder / "source").stat().st_mode & 0o077 == 0
    return image


@pytest.fixture(params=[False, True], ids=["namespaces allowed", "namespaces denied"])
def denied(request):
    return request.param


def submission(kind, turn=0):
    """(name of the file, its bytes, what is expected of it)."""
    ending, data, expected = classroom.submission(random.Random(7), kind, turn, LEARNER)
    return f"ps3{ending}", data, expected


def points(results):
    """{id: points} of a results.json."""
    ids = {load(id).title: id for id in LIGHT}
    return {ids[test["name"]]: test["score"] for test in results["tests"]}


def test_a_right_submission(image, denied, tmp_path):
    name, data, _ = submission("right")
    results, stdout = image.grade(tmp_path, {name: data}, denied)
    assert results["score"] == OUT_OF and len(results["tests"]) == len(LIGHT)
    assert all(test["status"] == "passed" for test in results["tests"])
    assert ("another user in another root folder" in stdout) == denied and "LOOK AT" not in stdout
    assert results["extra_data"]["is_of_the_submitter"] is True
    assert results["execution_time"] < 60


def test_a_wrong_submission_is_told_what_the_grader_tells_a_learner(image, denied, tmp_path):
    """And no more: the same sentences as on the page of a learner, and the same points as in a folder."""
    name, data, expected = submission("wrong")
    results, _ = image.grade(tmp_path, {name: data}, denied)
    assert points(results) == expected.points and results["score"] == sum(expected.points.values())
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name).write_bytes(data)
    limits = boxes.Limits(2.0)
    grade_folder(folder, tmp_path / "out", LIGHT, seed="classroom", limits=limits, workers=1, say=lambda line: None)
    (result,) = run.results(tmp_path / "out", [name])
    page = report.as_markdown(result)
    said = [results["output"], *(test["output"] for test in results["tests"])]
    shown = [line for text in said for line in text.split("\n\n") if line]
    assert shown and [line for line in shown if line not in page.split("\n")] == []
    headings = [line for line in page.split("\n") if line and not line.startswith(("#", "**"))]
    assert sorted(headings) == sorted(shown)
    for sentence in expected.said.values():
        assert sentence in " ".join(" ".join(shown).replace("\\", "").split())


@pytest.mark.parametrize("kind", ["truncated", "PDF", "syntax error", "wrong ending"])
def test_a_damaged_submission(image, kind, denied, tmp_path):
    name, data, expected = submission("damaged", list(classroom.DAMAGE).index(kind))
    results, _ = image.grade(tmp_path, {name: data}, denied)
    assert expected.kind == kind and results["score"] == sum(expected.points.values()) * (expected.status == "graded")
    if expected.status == "unreadable":
        assert results["tests"] == [] and len(results["output"]) > 20 and "Traceback" not in results["output"]
    else:
        assert points(results) == expected.points


@pytest.mark.parametrize("kind", classroom.MISCHIEF)
def test_an_attacking_submission(image, kind, tmp_path):
    turn = list(classroom.MISCHIEF).index(kind)
    name, data, expected = submission("attack", turn)
    results, _ = image.grade(tmp_path, {name: data}, denied=turn % 2 == 0)
    assert expected.kind == kind and points(results) == expected.points


SPY = """
import os, signal, socket

def tried(action):
    try:
        return bool(action())
    except BaseException:
        return False

def connected():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    return True

def killed():
    os.kill(os.getppid(), 0)
    return True

def written():
    for place in ("/autograder/results/results.json", "/results/results.json", "results/results.json"):
        if tried(lambda: open(place, "w").write('{"score": 99}')):
            return True

found = [
    tried(lambda: open("/autograder/source/settings.json").read()),
    tried(lambda: open("/autograder/submission_metadata.json").read()),
    tried(lambda: os.listdir("/autograder")),
    tried(lambda: open("/etc/passwd").read()),
    tried(written),
    tried(connected),
    tried(killed),
]
"""


def test_an_answer_reaches_nothing_of_the_container(image, denied, tmp_path):
    """Right where something can be reached, so it must have no points."""
    answer = classroom.right_answers("count-block", LEARNER)[0]
    hostile = classroom.first_lines(answer, ["if not any(found):", "    return 0"])
    cells = [classroom.code(source) for source in (SPY, answer.helpers, hostile.definition)]
    name = classroom.name_of("count-block")
    cells += [classroom.code(f'from exercises import check\ncheck("count-block", {name})')]
    results, _ = image.grade(tmp_path, {"spy.ipynb": classroom.as_ipynb(cells).encode()}, denied)
    assert results["score"] == 0 and points(results)["count-block"] == 0
    control = [cells[0] | {"source": SPY + "\nfound = [True]"}, *cells[1:]]
    place = tmp_path / "control"
    place.mkdir()
    results, _ = image.grade(place, {"spy.ipynb": classroom.as_ipynb(control).encode()}, denied)
    assert results["score"] == load("count-block").points


def test_several_files(image, denied, tmp_path):
    name, data, _ = submission("right")
    files = {f"repo/{name}": data, "repo/<b>*helper*</b>.py": b"x = 1", "README.md": b"words", "repo/a.pdf": b"%PDF"}
    results, _ = image.grade(tmp_path, files, denied)
    assert results["score"] == OUT_OF
    assert f"Graded: repo/{name}. Not graded: README.md, repo/" in results["output"]
    assert r"\<b\>\*helper\*\</b\>.py" in results["output"]


@pytest.mark.parametrize(
    "files, said",
    [
        ({}, "There is no notebook"),
        ({"a.pdf": b"%PDF", "b.png": b""}, "There is no notebook"),
        ({"a.ipynb": b"", "b.ipynb": b"\0"}, "Several files"),
        ({"a.zip": b"PK\3\4"}, "ZIP archive"),
        ({"a.ipynb": b'check("rope", f)'}, "None of the exercises"),
    ],
    ids=["nothing", "no notebook", "several", "a zip", "another set"],
)
def test_what_cannot_be_graded(image, files, said, tmp_path):
    results, stdout = image.grade(tmp_path, files, denied=len(files) == 1)
    assert results["score"] == 0 and results["tests"] == [] and "Traceback" not in stdout
    assert said in results["output"] and len(results["output"]) > 20


def test_a_teachers_own_exercise_is_graded(image, tmp_path):
    source, (answer, *_) = tmp_path / "source", classroom.right_answers("count-block", LEARNER)
    shutil.copytree(image.folder / "source", source)
    specs_in(source / "specs")
    settings = json.loads((source / "settings.json").read_text()) | {"exercises": ["my-count"]}
    (source / "settings.json").write_text(json.dumps(settings))
    text = f"{answer.helpers}\n{answer.definition}\ncheck('my-count', {classroom.name_of('count-block')})\n"
    results, _ = image.grade(tmp_path, {"a.py": text.encode()}, denied=True, instead=[source])
    assert results["score"] == 2 and "hint" not in results["tests"][0]["output"]


def test_another_persons_notebook_is_the_instructors_to_see(image, tmp_path):
    name, data, _ = submission("right")
    results, stdout = image.grade(tmp_path, {name: data.replace(LEARNER.encode(), b"learner-018")}, False)
    assert "LOOK AT: the name in the notebook is 'learner-018'" in stdout and "l17@example.edu" in stdout
    assert results["extra_data"]["is_of_the_submitter"] is False
    assert "LOOK AT" not in json.dumps(results)


# ---- when the grader itself cannot ----


def test_no_sandbox_is_not_the_learners_fault(image, denied, tmp_path):
    name, data, _ = submission("right")
    (tmp_path / "room").mkdir()
    submission_, results = tmp_path / "submission", tmp_path / "results"
    submission_.mkdir()
    results.mkdir()
    (submission_ / name).write_bytes(data)
    done = image.run(["/autograder/run_autograder"], denied, instead=[submission_, results, tmp_path / "room"])
    told = read(results / "results.json")
    assert wrong_in(told) == [] and told["score"] == 0 and "not your fault" in told["output"]
    assert "no way to hold learners' code in was found" in done.stdout and "bubblewrap" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_mistake_of_the_grader_is_shown_to_the_instructor_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(container, "grade", lambda base: 1 / 0)
    container.main(["grade", str(tmp_path)])
    told = read(tmp_path / "results" / "results.json")
    assert wrong_in(told) == [] and told["score"] == 0 and "not your fault" in told["output"]
    assert "ZeroDivisionError" in capsys.readouterr().out and "Zero" not in json.dumps(told)


def test_a_grader_that_does_not_start(image, tmp_path):
    (tmp_path / "venv").mkdir()
    for part in ("submission", "results"):
        (tmp_path / part).mkdir()
    instead = [tmp_path / part for part in ("submission", "results", "venv")]
    done = image.run(["/autograder/run_autograder"], instead=instead)
    told = read(tmp_path / "results" / "results.json")
    assert wrong_in(told) == [] and told["score"] == 0 and "tell your instructor" in told["output"]
    assert "ended with status 127" in done.stdout


def test_a_grader_that_takes_too_long(image, tmp_path):
    """Gradescope ends a container without a word to the learner, so the grader ends before it."""
    name, data, _ = submission("attack", list(classroom.MISCHIEF).index("endless loop"))
    for part in ("submission", "results"):
        (tmp_path / part).mkdir()
    (tmp_path / "submission" / name).write_bytes(data)
    start = (image.folder / "run_autograder").read_text()
    command = start.replace("deadline=570 ", "deadline=1 ")
    assert command != start
    instead = [tmp_path / part for part in ("submission", "results")]
    done = image.run(["bash", "-c", command], instead=instead)
    told = read(tmp_path / "results" / "results.json")
    assert wrong_in(told) == [] and told["score"] == 0 and "never ends" in told["output"]
    assert "longer than 1 seconds" in done.stdout


# ---- setup.sh where something is missing ----


@pytest.fixture
def bare(tmp_path):
    """(folder of commands, of which none is a Python that will do; the folder that stands for /autograder)."""
    commands, base = tmp_path / "commands", tmp_path / "autograder"
    (base / "source").mkdir(parents=True)
    commands.mkdir()
    (base / "source" / "setup.sh").write_bytes((gradescope.FILES / "setup.sh").read_bytes())
    for version in ("", ".11", ".12", ".13"):
        _command(commands / f"python3{version}", "exit 1")
    return commands, base


def _command(file, source):
    file.write_text(f"#!/bin/bash\n{source}\n")
    file.chmod(0o755)


def _set_up(commands, base):
    path = f"{commands}:/usr/sbin:/usr/bin:/sbin:/bin"
    command = ["bash", base / "source" / "setup.sh"]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, timeout=60)


WORKING = 'echo "$0 $*" >>{log}; [ "$2" = venv ] && mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit 0'


@pytest.mark.parametrize("there", ["3.12", "3.13", "3.11"])
def test_a_python_that_will_do_is_found(there, bare, tmp_path):
    commands, base = bare
    _command(commands / "apt-get", f"echo apt-get $* >>{tmp_path}/apt")
    _command(commands / f"python{there}", WORKING.format(log=tmp_path / "log"))
    done = _set_up(commands, base)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "log").read_text()
    assert f"python{there} -m venv {base}/venv" in log and "pip install" in log and "container prepare" in log
    asked = (tmp_path / "apt").read_text() if (tmp_path / "apt").exists() else ""  # for bubblewrap, where it is missing
    assert "python3" not in asked


def test_a_python_is_installed_where_none_will_do(bare, tmp_path):
    """Ubuntu 22.04 has 3.10, and in its archive 3.11."""
    commands, base = bare
    working = WORKING.format(log=tmp_path / "log").replace("'", "'\\''")
    copy = f"printf '#!/bin/bash\\n%s\\n' '{working}' >{commands}/python3.11"
    install = f'echo "$*" >>{tmp_path}/apt; case "$*" in *python3.11*) {copy};; *python3*) exit 100;; esac'
    _command(commands / "apt-get", install)
    done = _set_up(commands, base)
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "apt").read_text().splitlines()
    assert asked[0].startswith("update") and "python3.11 python3.11-venv" in asked[-1]
    assert f"python3.11 -m venv {base}/venv" in (tmp_path / "log").read_text()


def test_no_python_at_all(bare):
    commands, base = bare
    _command(commands / "apt-get", "exit 100")
    done = _set_up(commands, base)
    assert done.returncode == 1 and "choose the base image Ubuntu 24.04" in done.stderr
