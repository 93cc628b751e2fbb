"""An assignment's folder: made, graded, graded again.

python -m exercises.grade new term/ps3 --title "Problem set 3" --exercises rope,gate --due 2027-03-05T23:59
python -m exercises.grade term/ps3                  grade what is new in it
python -m exercises.grade term/ps3 --regrade        grade all of it anew beside, and show the difference
python -m exercises.grade accept term/ps3           put the regrade in the place of the grades
"""

import argparse
import json
import os
from pathlib import Path

import exercises
from exercises.grade import CALL, assignment, boxes, class_report, difference, gradebook, roster, run
from exercises.grade.command import status_of
from exercises.grade.run import Refusal
from exercises.grade.specs import add_specs

# ---- new ----


def new(arguments=None, say=print):
    """Write the folder of a new assignment; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m exercises.grade new", description=new.__doc__.partition(";")[0])
    parser.add_argument("folder", type=Path, help="its folder, term/ps3; must not be there yet, or be empty")
    parser.add_argument("--title", required=True, help='what it is called, "Problem set 3"')
    parser.add_argument("--exercises", default="", help="ids, with commas; default: those that half of them name")
    parser.add_argument("--specs", type=Path, help="folder with exercises of your own, which --exercises may name")
    parser.add_argument("--due", help="2027-03-05T23:59, this machine's time, or with +01:00")
    parser.add_argument(
        "--attempts", choices=assignment.ATTEMPTS, default="best", help="which of several counts (best)"
    )
    parser.add_argument("--grace-minutes", type=float, default=0, help="how much later is not late (0)")
    parser.add_argument("--percent-per-day", type=float, default=0, help="taken off for each day begun late (0)")
    parser.add_argument("--days", type=float, help="nothing counts that is later than this many days")
    options = vars(parser.parse_args(arguments))
    folder = options.pop("folder")
    return status_of(lambda: _new(folder, options | {"exercises": assignment.ids_in(options["exercises"])}, say))


def _new(folder, rules, say):
    specs = rules["specs"]
    rules["specs"] = os.path.relpath(specs, folder) if specs else ""
    about = assignment.checked(rules, "new")
    if specs:
        add_specs(specs)
    run.must_be_known("--exercises", about.exercises)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refusal(f"{folder}: there is something already; choose another folder")
    for part in ("submissions", "manual"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    run.write(folder / assignment.FILE, assignment.as_text(about))
    points = sum(exercises.load(id).points for id in about.exercises)
    what = f"{len(about.exercises)} exercises, {points} points" if about.exercises else "exercises as they are named"
    say(f"{folder}: {about.title}, {what}; its rules are in {folder / assignment.FILE}")
    say(f"put what is handed in into {folder / 'submissions'}, or give a download to: {CALL} collect {folder} FILE")
    return 0


# ---- grading its folder ----


def grade(folder, regrade=False, roster_file=None, say=print, **options):
    """Grade what is new in an assignment's folder, or, as a proposal, all of it anew. Refusal says what cannot be.

    `options` go to `run.run`: workers, way, dask. Returns (report.Counts, the folder of the results).
    """
    folder = Path(folder)
    about = assignment.read(folder)
    out, seed = folder / "grades", ""
    anew = f"to grade all anew beside, and see the difference: {CALL} {folder} --regrade"
    if regrade:
        if not (out / "grades.csv").exists():
            raise Refusal(f"{folder}: nothing is graded yet, so there is nothing to grade again; leave --regrade out")
        # with the numbers of then, so that what differs is due to what was changed
        out, seed = folder / "regrade", (out / "secret").read_text(encoding="utf-8")
        anew = f"delete {out}, and grade anew"
    specs = folder / about.specs if about.specs else ""
    learners = roster.of(folder, roster_file)
    limits = boxes.Limits(about.seconds, about.memory * boxes.MIB)
    submissions = folder / "submissions"
    if learners is not None:  # what cannot be in people's files is said before the work
        gradebook.people(learners, exercises.ids(), **_written(folder))
    counts = run.run(submissions, out, about.exercises, specs, seed, limits, resume=True, say=say, anew=anew, **options)
    conclude(submissions, out, list(counts.by_exercise), about, learners, folder, say)
    if regrade:
        say(difference.write(folder / "grades", out))
        say(f"nothing is changed yet: look at {out / 'difference.md'}")
        say(f"then delete {out}, or accept it: {CALL} accept {folder}")
    return counts, out


def conclude(submissions, out, ids, about, learners, folder=None, say=print):
    """Write what is made of the results: the gradebook, where there is a roster, and the class's page."""
    # what came while it was graded is for the next time
    names = [name for name in run.submissions(submissions) if run.result_file(out, name).exists()]
    if learners is None:
        if (out / "gradebook.csv").exists():
            raise Refusal(
                f"{out} has a gradebook, and there is no roster any more; put roster.csv back, or say --roster"
            )
        if folder:
            say("there is no roster.csv: grades.csv has a row for each file, and no gradebook is written")
        counted, absent = ((result, result["submission"]) for result in run.results(out, names)), 0
    else:
        book = gradebook.write(out, names, submissions, learners, about, **(_written(folder) if folder else {}))
        counted, absent = book.counted(), len(book.empty_handed)
        for line in book.told():
            say(line)
    class_report.write(out, ids, counted, about.title, absent)
    say(f"the class: {out / 'class.html'}")


def _written(folder):
    """Where people write, in the folder of an assignment."""
    return {
        "received": folder / "submissions.csv",
        "extensions": folder / "extensions.csv",
        "manual": folder / "manual",
    }


def accept(arguments=None, say=print):
    """Put an assignment's regrade in the place of its grades, which are kept; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m exercises.grade accept", description=accept.__doc__.partition(";")[0]
    )
    parser.add_argument("folder", type=Path, help="the folder of the assignment")
    folder = parser.parse_args(arguments).folder
    return status_of(lambda: _accept(folder, say), "nothing is lost; try again")


def _accept(folder, say):
    about, grades, proposed = assignment.read(folder), folder / "grades", folder / "regrade"
    if not (proposed / "difference.md").exists():  # it is written last
        raise Refusal(f"{folder}: there is no finished regrade; to make one: {CALL} {folder} --regrade")
    graded = json.loads((proposed / "run.json").read_text(encoding="utf-8"))["exercises"]
    if about.exercises and graded != list(about.exercises):
        which = run.changed("exercises", graded, list(about.exercises))
        raise Refusal(
            f"{folder / assignment.FILE} has changed since the regrade: {which}; delete {proposed}, and regrade"
        )
    if grades.exists():  # not, if it was cut off between the two
        numbers = [path.name.rpartition("-")[2] for path in folder.glob("grades-before-*")]
        before = folder / f"grades-before-{1 + max(map(int, filter(str.isdecimal, numbers)), default=0)}"
        os.rename(grades, before)
        say(f"the grades of before are in {before}")
    os.rename(proposed, grades)
    say(f"{grades} holds the regrade")
    return 0
