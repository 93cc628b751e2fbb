"""Write problem sets: a learner's edition, an instructor's, and lists to print, as HTML and as PDF.

    python -m notebooks.problems                             a set for each chapter, into _build/problems/
    python -m notebooks.problems --exercises rope,gate --title "Problem set 3" --out FOLDER       one set, of these
    python -m notebooks.problems --assignment term/ps3       one set, as assignment.toml says, into term/ps3/handout/
    python -m notebooks.problems … --roster roster.csv       with numbers of their own for each learner
    python -m notebooks.problems … --learner "Ada"           with one learner's numbers

Prompts, stubs and solutions come from the chapters, points, hints and known mistakes from `exercises`. The learner's
edition holds no solution. `make notebooks` keeps a copy of it in notebooks/problems/, for Colab and Binder.
"""

import argparse
import csv
import functools
import io
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import jupytext
import nbformat
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import exercises
from exercises.engine.questions import asked, solved, wrong_values
from exercises.grade import assignment, roster
from exercises.grade.command import status_of
from exercises.grade.pages import page_name
from exercises.grade.run import Refusal, must_be_known, write
from exercises.spec import Choice, Code, Number, sentence
from notebooks import paper
from notebooks.generate import BOOTSTRAP, METADATA, ROOT, number_cells
from notebooks.plain import DIRECTIVE, Plain, options, take

SETUP = """\
import numpy as np

from exercises import check, hint, learner, progress, question

learner({name!r}, solutions=False)  # your name; some exercises give each learner other numbers"""


@dataclass
class Problem:
    """One exercise as its chapter tells it."""

    id: str
    title: str
    prompt: str  # plain Markdown
    code: list = field(default_factory=list)  # the stub, the check
    solution: list = field(default_factory=list)  # (kind, source) of the solution's cells, in plain Markdown


def problems(chapter):
    """The Problems of a chapter that are judged, in its order; what is only to be thought about is left out."""
    plain, found, inside, current = Plain(chapter), [], False, None
    for cell in jupytext.read(chapter, fmt="md:myst").cells:
        if cell.cell_type == "code":
            if inside:
                current.solution.append(("code", cell.source))
            elif current is not None:
                current.code.append(cell.source)
            continue
        lines = cell.source.split("\n")
        while lines:
            line = lines.pop(0)
            directive = DIRECTIVE.match(line)
            if directive is None:
                if inside:
                    current.solution.append(("line", line))
                elif line.startswith("#"):
                    current = None  # a heading ends the exercise before it
                continue
            fence, name, argument = directive.groups()
            body = take(lines, re.compile(rf"^{fence[0]}{{{len(fence)},}}\s*$"))
            settings, text = options(list(body))
            if name == "exercise":
                current = Problem(settings["label"].removeprefix("ex-"), argument.strip(), plain.text(text))
                found.append(current)
            elif name == "solution-start":
                inside = True
            elif name == "solution-end":
                inside = False
            elif inside:
                current.solution += [("line", part) for part in [line, *body, fence]]
    known = exercises.ids()
    for problem in found:
        problem.solution = _joined(problem.solution, plain)
    return [problem for problem in found if problem.id in known]


def _joined(parts, plain):
    """Lines of Markdown put together, code between them."""
    cells, text = [], []
    for kind, source in [*parts, ("end", "")]:
        if kind == "line":
            text.append(source)
            continue
        if "".join(text).strip():
            cells.append(("markdown", plain.text("\n".join(text))))
        text = []
        if kind == "code":
            cells.append(("code", source))
    return cells


def sets(root=ROOT):
    """{chapter file: (title, its Problems)} of the chapters that have any."""
    found = {}
    for chapter in sorted(Path(root, "chapters").glob("[0-9]*.md")):
        title = re.search(r"^# (.*)$", chapter.read_text(), flags=re.MULTILINE)[1]
        if its := problems(chapter):
            found[chapter] = (f"Problems: {title}", its)
    return found


def learner_edition(title, its, name="", root=ROOT):
    """The notebook that a learner fills in."""
    cells = [
        new_markdown_cell(_front(title, its)),
        new_code_cell(_bootstrap(root)),
        new_code_cell(SETUP.format(name=name)),
    ]
    for number, problem in enumerate(its, 1):
        cells.append(new_markdown_cell(_prompt(number, problem, name)))
        # by which the grader finds an answer that was renamed
        cells += [new_code_cell(source, metadata={"exercise": problem.id}) for source in problem.code]
    cells.append(new_markdown_cell("Done? The next cell shows your points.\n\nHand in this notebook as it is."))
    cells.append(new_code_cell("progress()"))
    return number_cells(new_notebook(cells=cells, metadata=METADATA))


def instructor_edition(title, its, name="", root=ROOT):
    """The same with solutions, rubric and timing, and this learner's results."""
    cells = [new_markdown_cell(_front(title, its, " (instructor's edition)")), new_code_cell(_bootstrap(root))]
    cells.append(new_code_cell(SETUP.format(name=name).replace(", solutions=False", "")))
    for number, problem in enumerate(its, 1):
        cells.append(new_markdown_cell(_prompt(number, problem, name)))
        cells += [new_code_cell(source) for source in problem.code]
        cells.append(new_markdown_cell("### Solution"))
        for kind, source in problem.solution:
            cells.append(new_markdown_cell(source) if kind == "markdown" else new_code_cell(source))
        cells.append(new_markdown_cell(_rubric(exercises.load(problem.id), name)))
    return number_cells(new_notebook(cells=cells, metadata=METADATA))


def selected(ids, title, where, root=ROOT):
    """One set of these exercises, in this order, in the form of `sets`; Refusal for one that is none, or named twice.

    ids : list of str; title : str, which also names the set's files; where : what names the ids, for the Refusal
    """
    must_be_known(where, ids)
    for at, id in enumerate(ids):
        if id in ids[:at]:
            raise Refusal(f"{where}: {id} stands there twice; once is enough")
    known = {problem.id: problem for _, its in sets(root).values() for problem in its}
    slug = re.sub(r"[\W_]+", "-", title.casefold()).strip("-")
    return {Path(slug or "problems"): (title, [known[id] for id in ids])}


def numbers_table(its, learners):
    """A table for the instructor: what each learner was given where numbers are asked for, and the answer to it."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["learner", "name", "exercise", "given", "answer"])
    asking = [spec for spec in (exercises.load(problem.id) for problem in its) if isinstance(spec, Number)]
    for learner in learners:
        for spec in asking:
            given = ", ".join(asked(spec, learner.name).table)
            answer = solved(spec, learner.name).lines[0]
            rows.writerow([*map(roster.guarded, (learner.id, learner.name)), spec.id, given, answer])
    return file.getvalue()


def printable(title, found, name="", due=None, solutions=False):
    """The list of all problems as one page of HTML; with solutions for the instructor. `found` is as from `sets`."""
    if solutions:
        title += " (instructor's edition)"
    found = {source: (its_title.removeprefix("Problems: "), its) for source, (its_title, its) in found.items()}
    return paper.page(title, found, name, due, functools.partial(_rubric, name=name) if solutions else None)


def book_title(root=ROOT):
    """What the list of all chapters' problems is called."""
    return "Problems of " + yaml.safe_load(Path(root, "_config.yml").read_text())["title"]


def _bootstrap(root):
    return BOOTSTRAP.format(url=yaml.safe_load(Path(root, "_config.yml").read_text())["repository"]["url"])


def _front(title, its, edition=""):
    return (
        f"# {title}{edition}\n\n{paper.total(its)}. "
        '`check` judges an answer as often as you like; `hint("…")` helps one step at a time.'
    )


def _prompt(number, problem, name=""):
    spec = exercises.load(problem.id)
    text = f"## {number}. {problem.title}\n\n{problem.prompt}"
    if isinstance(spec, Number) and name:
        text += "\n\nYour numbers: " + ", ".join(asked(spec, name).table) + "."
    return text


def _rubric(spec, name=""):
    """What an instructor needs beside the prompt: time, points, what people get wrong, the ladder of hints."""
    points = paper.count(spec.points, "point")
    lines = ["### Rubric", "", f"{points}, about {spec.minutes} minutes, {'★' * spec.stars}."]
    lines += ["", "All points for an answer that passes `check`; none is given in part."]
    if isinstance(spec, Number):
        lines += ["", f"The answer{f' for {name}' if name else ''}: {solved(spec, name).lines[0]}"]
    if isinstance(spec, Choice) and spec.words:
        lines += [
            "",
            "`check` judges the predictions, and counts the words. Read these, and take points off as you see fit:",
            "",
        ]
        lines += [f"- {line}" for line in spec.rubric]
    said = [sentence(m) for m in spec.mutants] if isinstance(spec, Code) else [s for _, _, s in wrong_values(spec)]
    lines += ["", "Known mistakes, as their authors are told:", "", *[f"- {line}" for line in said]]
    lines += ["", "Hints:", "", *[f"{n}. {' '.join(h.split())}" for n, h in enumerate(spec.hints, 1)]]
    if spec.takeaway:
        lines += ["", f"To remember: {spec.takeaway}"]
    return "\n".join(lines)


def main(arguments=None, root=ROOT, say=print):
    """Do what the command line asks; return the exit status."""
    wanted = _parser().parse_args(arguments)
    return status_of(lambda: _write(wanted, root, say))


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m notebooks.problems", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--exercises", default="", help="ids, with commas: one set of these, in this order")
    what.add_argument("--assignment", type=Path, help="folder with an assignment.toml, which names title and exercises")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--roster", type=Path, help="a learner's edition for each learner in it, with their own numbers")
    whose.add_argument("--learner", default="", help="whose numbers all editions have")
    parser.add_argument("--title", default="", help="of the one set")
    parser.add_argument("--paper", choices=paper.PAPERS, default="A4", help="of the PDFs (A4)")
    parser.add_argument("--out", type=Path, help="folder; default: _build/problems, or handout/ in the assignment")
    return parser


def _write(wanted, root, say):
    """Write all that is asked for; return the exit status."""
    title, due, out = wanted.title, None, wanted.out or Path(root, "_build", "problems")
    ids, where = assignment.ids_in(wanted.exercises), "--exercises"
    if wanted.assignment:
        task = assignment.read(wanted.assignment)
        title, due, ids = title or task.title, task.due, task.exercises
        out, where = wanted.out or wanted.assignment / "handout", wanted.assignment / assignment.FILE
        own = [id for id in ids if Path(wanted.assignment, task.specs, f"{id.replace('-', '_')}.py").exists()]
        if task.specs and own:
            ids = [id for id in ids if id not in own]
            say(f"NOT in the handout: {', '.join(own)}. Put its prompt, stub and `check` into the notebook yourself.")
        if not ids:
            raise Refusal(f'{where} names no exercises; add exercises = ["rope", "gate"]')
    if title and not ids:
        raise Refusal("--title names one set, of the exercises that --exercises or --assignment gives")
    title = title or ("Problem set" if ids else book_title(root))
    found = selected(ids, title, where, root) if ids else sets(root)
    learners = roster.read(wanted.roster) if wanted.roster else []
    for folder in ("learner", "instructor"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for source, (its_title, its) in found.items():
        stem = source.stem
        _save(out / "learner" / f"{stem}.ipynb", learner_edition(its_title, its, wanted.learner, root))
        _save(out / "instructor" / f"{stem}.ipynb", instructor_edition(its_title, its, wanted.learner, root))
        for learner in learners:
            own = learner_edition(its_title, its, learner.name, root)
            _save(out / "learner" / stem / f"{page_name(learner)}.ipynb", own)
        if learners:
            write(out / "instructor" / f"{stem}.csv", numbers_table(its, learners))
    pages = {
        out / "problems": printable(title, found, wanted.learner, due),
        out / "instructor" / "instructor": printable(title, found, wanted.learner, due, solutions=True),
    }
    for path, text in pages.items():
        write(path.with_suffix(".html"), text)
    what = paper.count(sum(len(its) for _, its in found.values()), "problem")
    say(f"{what} in {paper.count(len(found), 'set')}: learner/, instructor/ and problems.html in {out}")
    return _print(pages, wanted.paper, say)


def _save(path, notebook):
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, nbformat.writes(notebook) + "\n")


def _print(pages, size, say):
    """Write the PDFs; return the exit status. That there is no Chromium is a failure in CI alone."""
    chromium = paper.browser()
    if chromium is None:
        say(f"NO PDF: {paper.REMEDY}")
        return int(os.environ.get("CI") == "true")
    for path, text in pages.items():
        length = paper.count(paper.write_pdf(text, path.with_suffix(".pdf"), chromium, size), "page")
        say(f"{path.name}.pdf: {length}, {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
