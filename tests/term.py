"""Plays a whole term by the instructor's page, to the letter: writes its files, runs its commands, one after another.

python -m tests.term FOLDER    an empty folder, in which all of it is then to be looked at
"""

import functools
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from exercises import load
from exercises.engine.questions import right_values
from notebooks import problems
from tests import classroom

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "chapters" / "term.md"
IDS = ("trace-the-stream", "contributions", "swiglu-more", "count-block", "kv-cache-bytes")
WORDS = (
    "Attention mixes the values of earlier tokens by its weights, and the feed-forward works on each row alone. " * 3
)

STEP = re.compile(
    r"^```bash\n(?P<run>.*?)^```$|^```\{code-block\} \w+\n:caption: (?P<file>\S+)\n(?P<text>.*?)^```$", re.M | re.S
)


def steps():
    """The page's blocks in order: ("run", commands) or ("file", path, text)."""
    return [
        ("run", found["run"]) if found["run"] else ("file", found["file"], found["text"])
        for found in STEP.finditer(PAGE.read_text(encoding="utf-8"))
    ]


# ---- the class ----


def answer_of(id, learner, right):
    """The sources that a learner writes for one exercise."""
    if id == "contributions" and right:
        values = right_values(load(id), "")[0][1] | {"why": WORDS + learner}
        return classroom.filled(id, classroom.Answer(value=classroom._literal(values)))
    answers = classroom.right_answers(id, learner) if right else classroom.wrong_answers(id, learner)
    return classroom.filled(id, answers[0])


@functools.cache
def stubs():
    """{the source of a stub in the handout: the exercise's id}."""
    known = {problem.id: problem for _, its in problems.sets().values() for problem in its}
    return {source: id for id in IDS for source in known[id].code if classroom._is_stub(id, source)}


def fill(handout, learner, wrong=(), left=()):
    """The handout as this learner hands it in: the bytes of a notebook."""
    notebook = json.loads(handout.read_text(encoding="utf-8"))
    cells = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).replace("learner('', ", f'learner("{learner}", ')
        id = stubs().get(source)
        sources = answer_of(id, learner, id not in wrong) if id and id not in left else [source]
        cells += [cell | {"source": text} for text in sources]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return json.dumps(notebook | {"cells": cells}).encode()


# In Canvas's archive: {sortable name}_[LATE_]{user}_{submission}_{file}, and when it was stored.
HANDED_IN = {
    "001learner_4001_70001_problem-set-3.ipynb": ((2027, 3, 4, 18, 0, 0), "Learner 001", (), ()),
    "002learner_4002_70002_problem-set-3.ipynb": ((2027, 3, 5, 9, 30, 0), "Learner 002", ("count-block",), ()),
    "003learner_4003_70003_problem-set-3.ipynb": ((2027, 3, 5, 20, 0, 0), "Learner 003", ("trace-the-stream",), ()),
    "004learner_LATE_4004_70004_problem-set-3.ipynb": ((2027, 3, 9, 12, 0, 0), "Learner 004", (), ()),
    "005learner_LATE_4005_70005_problem-set-3.ipynb": ((2027, 3, 7, 10, 0, 0), "Learner 005", (), ("count-block",)),
}


def hand_in(folder):
    """Write downloads/submissions.zip, filled from the handout that the page made."""
    (handout,) = (folder / "term" / "ps3" / "handout" / "learner").glob("*.ipynb")
    (folder / "downloads").mkdir()
    with zipfile.ZipFile(folder / "downloads" / "submissions.zip", "w") as archive:
        for name, (when, learner, wrong, left) in HANDED_IN.items():
            archive.writestr(zipfile.ZipInfo(name, when), fill(handout, learner, wrong, left))


# ---- the term ----


def play(folder, say=lambda text: None):
    """Do what the page says in an empty folder; returns what its commands said, one text for each block."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    said, environment = [], os.environ | {"PYTHONPATH": str(ROOT), "TZ": "UTC", "PATH": path}
    for kind, *what in steps():
        if kind == "file":
            (folder / what[0]).parent.mkdir(parents=True, exist_ok=True)
            (folder / what[0]).write_text(what[1], encoding="utf-8")
            continue
        if what[0].startswith("git clone"):
            continue  # this is the environment that it makes
        if " collect " in what[0]:
            hand_in(folder)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", what[0]],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        say("".join(f"$ {line}\n" for line in what[0].splitlines()) + done.stdout)
        if done.returncode:
            raise RuntimeError(f"{what[0]}ended with {done.returncode}:\n{done.stdout}")
        said.append(done.stdout)
    return said


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True)
    play(Path(sys.argv[1]).resolve(), print)
