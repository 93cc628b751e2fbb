"""The grader's command line.

python -m exercises.grade submissions/ --out grades/    grade a folder
python -m exercises.grade new term/ps3 --title ...      an assignment's folder: rules, submissions, grades
python -m exercises.grade collect term/ps3 FILE.zip     sort what a platform gives out into it
python -m exercises.grade term/ps3                      grade what is new in it
python -m exercises.grade term/ps3 --regrade            grade all of it anew beside, and show the difference
python -m exercises.grade accept term/ps3               put the regrade in the place of the grades
python -m exercises.grade export term/ps3 canvas        a file for a platform's gradebook
python -m exercises.grade gradescope term/ps3           an autograder for Gradescope
python -m exercises.grade doctor                        what isolation this machine allows
"""

import argparse
import importlib
import sys
from pathlib import Path

from exercises.grade import assignment, boxes, roster, term
from exercises.grade.command import status_of
from exercises.grade.run import MOST_WORKERS, Refusal, run

VERBS = {verb: (verb, "main") for verb in ("collect", "doctor", "export", "gradescope")}
VERBS |= {verb: ("term", verb) for verb in ("new", "accept")}


def main(arguments=None):
    """Do what the command line asks; return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] and arguments[0] in VERBS:
        module, function = VERBS[arguments[0]]
        return getattr(importlib.import_module(f"exercises.grade.{module}"), function)(arguments[1:])
    options = _parser().parse_args(arguments)
    again = "the same command" if assignment.is_one(options.submissions) else "--resume"
    return status_of(lambda: _grade(options), f"what is graded is kept; {again} goes on")


def _grade(options):
    """Grade, and say where to look; return the exit status."""
    if not options.submissions.is_dir():
        raise Refusal(f"there is no folder {options.submissions} here; give that of an assignment, or of submissions")
    counts, out = _assignment(options) if assignment.is_one(options.submissions) else _folder(options)
    told = f"{counts.graded} files graded, {len(counts.unreadable)} unreadable"
    print(f"{told}; what to look at: {out / 'report.md'}")
    pages = out / "learners" if (out / "learners").exists() else out / "feedback"
    print(f"grades: {out / 'grades.csv'}; pages for the learners: {pages}")
    return 0


def _assignment(options):
    """Grade the folder of an assignment; its own file says what the other options would."""
    for name in ("out", "exercises", "specs", "seed", "seconds", "memory"):
        if getattr(options, name) is not None:
            where = (
                "its results lie in grades/" if name == "out" else f"{options.submissions / assignment.FILE} says it"
            )
            raise Refusal(f"--{name} is not for the folder of an assignment: {where}")
    return term.grade(options.submissions, options.regrade, options.roster, **_how(options))


def _folder(options):
    """Grade any folder."""
    if options.out is None:
        raise Refusal("--out FOLDER says where the results go; or let `new` make the folder of an assignment")
    if options.regrade:
        raise Refusal("--regrade is for the folder of an assignment, which `new` makes; choose another --out folder")
    ids = assignment.ids_in(options.exercises or "")
    rules = {"title": options.submissions.resolve().name, "exercises": ids}
    rules |= {"seconds": options.seconds, "memory": options.memory}
    about = assignment.checked(rules, "command line")
    learners = roster.read(options.roster) if options.roster else None
    limits = boxes.Limits(about.seconds, about.memory * boxes.MIB)
    how = {"limits": limits, "resume": options.resume} | _how(options)
    counts = run(options.submissions, options.out, ids, options.specs or "", options.seed or "", **how)
    term.conclude(options.submissions, options.out, list(counts.by_exercise), about, learners)
    return counts, options.out


def _how(options):
    """What changes how fast and how safely is graded, and nothing of the grades."""
    way = "none" if options.unsafe_no_sandbox else options.isolation
    return {"workers": options.workers, "dask": options.dask, "way": way}


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m exercises.grade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("submissions", type=Path, help="folder of an assignment; or any, each file in it a submission")
    parser.add_argument("--roster", type=Path, help="CSV file of who is in the course; gives a gradebook")
    parser.add_argument("--regrade", action="store_true", help="grade an assignment anew beside, and compare")
    one = parser.add_argument_group("of any folder (that of an assignment has them in its assignment.toml)")
    one.add_argument("--out", type=Path, help="folder for grades.csv, feedback/ and results/")
    one.add_argument("--exercises", help="ids, with commas; default: those that half of them name")
    one.add_argument("--specs", help="folder with exercises of your own")
    one.add_argument("--seed", help="text that the secret numbers are made of; default: a new one")
    one.add_argument("--seconds", type=float, help="for the code of one exercise (10)")
    one.add_argument("--memory", type=int, help="MiB for the code of one exercise (2048)")
    one.add_argument("--resume", action="store_true", help="go on with a run that was cut off; grades nothing twice")
    how = parser.add_argument_group("how")
    how.add_argument("--workers", type=_workers, default=0, help="processes that grade; default: one a processor")
    how.add_argument(
        "--dask", default="", metavar="ADDRESS", help="a Dask scheduler, tcp://…:8786, whose workers grade"
    )
    how.add_argument("--isolation", choices=("auto", "bwrap", "uid"), default="auto", help="how code is held in")
    how.add_argument("--unsafe-no-sandbox", action="store_true", help="run the code without a sandbox")
    return parser


def _workers(text):
    value = int(text)
    if not 0 <= value <= MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text}: expected are 0 to {MOST_WORKERS}")
    return value


if __name__ == "__main__":
    sys.exit(main())
