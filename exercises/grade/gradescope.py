"""Makes the zip with which Gradescope grades: the course, this assignment's settings, a setup and a start.

python -m exercises.grade gradescope term/ps3 --out autograder.zip
python -m exercises.grade gradescope --exercises rope,gate --title "Problem set 3" --out autograder.zip
"""

import argparse
import json
import math
import os
import secrets
import tempfile
import zipfile
from pathlib import Path

import exercises
import scratch
from exercises.grade import assignment, run
from exercises.grade.command import status_of
from exercises.grade.specs import add_specs

FILES = Path(__file__).parent / "autograder"
TOP = ("setup.sh", "run_autograder", "requirements.txt")  # at the zip's root, as Gradescope asks for
USUAL, LONGEST = 10, 40  # minutes: https://gradescope-autograders.readthedocs.io/en/latest/troubleshooting/
_DEADLINE = "deadline=570 "
_SPARE = 120  # seconds of a run in which no learner's code runs
_LEAST = 2.0


def make(file, about, secret, timeout=USUAL, specs=""):
    """Write the zip; returns the seconds that the code of one exercise has. Refusal says what cannot be.

    Parameters
    ----------
    file : Path; about : Assignment; its seconds are fewer in the zip if so many exercises do not fit into `timeout`
    secret : text that the secret numbers are made of; timeout : minutes, as it is set in Gradescope
    specs : folder of a teacher's own exercises, or ""
    """
    ids = about.exercises
    if specs:
        add_specs(specs)
    if not ids:
        raise run.Refusal("Gradescope grades one file at a time, so say which exercises: --exercises rope,gate")
    run.must_be_known("--exercises", ids)
    room = (60 * timeout - _SPARE) / (2 * len(ids))  # an answer that never ends may be run a second time
    if room < _LEAST:
        need = math.ceil((2 * _LEAST * len(ids) + _SPARE) / 60)
        raise run.Refusal(f"{len(ids)} exercises do not fit into {timeout} minutes; give --timeout {need}, or fewer")
    settings = {"title": about.title, "exercises": list(ids), "secret": secret, "memory": about.memory}
    settings["seconds"] = min(about.seconds, round(room, 1))
    content = {name: (FILES / name).read_bytes() for name in TOP}
    start = content["run_autograder"].decode()
    content["run_autograder"] = start.replace(_DEADLINE, f"deadline={60 * timeout - 30} ").encode()
    content["settings.json"] = (json.dumps(settings, indent=1) + "\n").encode()
    for package in (scratch, exercises):
        folder = Path(package.__file__).parent
        content |= {f"{package.__name__}/{name}": (folder / name).read_bytes() for name in run.submissions(folder)}
    if specs:
        content |= {f"specs/{path.name}": path.read_bytes() for path in sorted(Path(specs).glob("*.py"))}
    _write(Path(file), content)
    return settings["seconds"]


def _write(file, content):
    """Write a zip whole or not at all; scripts in it can be run."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in content.items():
                entry = zipfile.ZipInfo(name)
                entry.external_attr = (0o100755 if name in TOP[:2] else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise


def main(arguments=None, say=print):
    """Do what the command line asks; return the exit status."""
    options = _parser().parse_args(arguments)
    return status_of(lambda: _gradescope(options, say))


def _gradescope(options, say):
    out, secret, specs = options.out, options.seed, options.specs
    about = assignment.Assignment("Problem set")
    if options.folder:
        about = assignment.read(options.folder)
        kept = options.folder / "grades" / "secret"
        secret = secret or (kept.read_text() if kept.exists() else "")
        specs = specs or (options.folder / about.specs if about.specs else "")
        out = out or options.folder / "export" / "gradescope.zip"
        out.parent.mkdir(exist_ok=True)
    elif out is None:
        raise run.Refusal("--out FILE says where the zip goes; or give the assignment's folder")
    said = {"title": options.title, "exercises": options.exercises and assignment.ids_in(options.exercises)}
    said |= {"seconds": options.seconds, "memory": options.memory}
    said = {key: value for key, value in said.items() if value is not None}
    about = assignment.checked(vars(about) | said, "gradescope")
    seconds = make(out, about, secret or secrets.token_hex(16), options.timeout, specs)
    points = sum(exercises.load(id).points for id in about.exercises)
    say(f"{out}: {len(about.exercises)} exercises, {points} points, {seconds:g} seconds for the code of each")
    say("The secret and the answers are in it: it is for Gradescope, and for no learner.")
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m exercises.grade gradescope",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="?", help="the assignment's folder, which says title and exercises")
    parser.add_argument("--out", type=Path, help="the zip; default: export/gradescope.zip in the assignment's folder")
    parser.add_argument("--exercises", help="ids, with commas")
    parser.add_argument("--title", help="what it is called in the instructor's output")
    parser.add_argument("--specs", default="", help="folder with exercises of your own")
    parser.add_argument("--seed", default="", help="text that the secret numbers are made of; default: grades/secret")
    parser.add_argument("--seconds", type=float, help="for the code of one exercise, or fewer if they do not fit (10)")
    parser.add_argument("--memory", type=int, default=512, help="MiB for the code of one exercise (512)")
    parser.add_argument("--timeout", type=_minutes, default=USUAL, help="minutes, as it is set in Gradescope (10)")
    return parser


def _minutes(text):
    value = int(text)
    if not 3 <= value <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text}: expected are 3 to {LONGEST} minutes")
    return value
