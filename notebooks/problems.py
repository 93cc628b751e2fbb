"""Write problem sets, one notebook for each chapter: a learner's edition, an instructor's, and a list to print.

    python -m notebooks.problems                   both editions and the list, into _build/problems/
    python -m notebooks.problems --learner "Ada"   with this learner's own numbers, and the results for the instructor
    python -m notebooks.problems --out FOLDER      elsewhere

Prompts, stubs and solutions come from the chapters, points, hints and known mistakes from `exercises`. The learner's
edition holds no solution. `make notebooks` keeps a copy of it in notebooks/problems/, for Colab and Binder.
"""

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import jupytext
import nbformat
import yaml
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import exercises
from exercises.engine.questions import asked, solved, wrong_values
from exercises.spec import Choice, Code, Number, sentence
from notebooks.generate import BOOTSTRAP, METADATA, ROOT, number_cells
from notebooks.plain import DIRECTIVE, Plain, options, take

SETUP = """\
import numpy as np

from exercises import check, hint, learner, progress, question

learner({name!r}, solutions=False)  # your name; some exercises give each learner other numbers"""

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 44em; margin: 2em auto; padding: 0 1em; font: 11pt/1.5 serif; }}
h1, h2, h3 {{ line-height: 1.2; break-after: avoid; }}
a.anchor-link {{ display: none; }}
pre {{ font-size: 9pt; border: 1px solid #888; padding: .5em; white-space: pre-wrap; break-inside: avoid; }}
code {{ font-size: 90%; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


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
            found[chapter] = (title, its)
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


def printable(found, name=""):
    """The list of all problems as one page of HTML that needs nothing else; each chapter's begin on a new sheet."""
    cells = [new_markdown_cell(f"# Problems of {_title()}\n\nName: {name or '_' * 40}")]
    for title, its in found.values():
        front = _front(title, its).partition("`check`")[0].replace("# ", "## ", 1)
        cells.append(new_markdown_cell(f'<div style="break-before: page"></div>\n\n{front}'))
        for number, problem in enumerate(its, 1):
            spec = exercises.load(problem.id)
            prompt = _prompt(number, problem).replace("## ", "### ", 1)
            if not isinstance(spec, Code):  # what `question` shows
                note = asked(spec, name)
                shown = [line for line in (*note.lines, *note.table) if line != spec_question(spec)]
                items = [f"    - {line[2:]}" if line.startswith("– ") else f"- {line}" for line in shown]
                prompt += "\n\n" + "\n".join(items)
            cells.append(new_markdown_cell(as_mathml(prompt)))
            code = [source for source in problem.code if not source.startswith("question(")]
            cells.append(new_code_cell("\n\n".join(code)))
    # the bare template: the full one draws on scripts from elsewhere
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    body = exporter.from_notebook_node(new_notebook(cells=cells, metadata=METADATA))[0]
    return PAGE.format(title=f"Problems of {_title()}", body=body)


def spec_question(spec):
    """The line that repeats the prompt, where there is one."""
    return f"{spec.question} Answer in {spec.unit}." if isinstance(spec, Number) else ""


def as_mathml(text):
    """Markdown with its formulas as MathML, which a browser prints without a network; code is left alone."""

    def formula(match):
        if match["code"]:
            return match[0]
        display = "block" if match["display"] else "inline"
        return convert(re.sub(r"\\tag\{.*?\}", "", match["display"] or match["inline"]).strip(), display=display)

    pattern = r"(?P<code>```.*?```|`[^`]*`)|\$\$(?P<display>.*?)\$\$|\$(?P<inline>[^$]+)\$"
    return re.sub(pattern, formula, text, flags=re.DOTALL)


def _title(root=ROOT):
    return yaml.safe_load(Path(root, "_config.yml").read_text())["title"]


def _bootstrap(root):
    return BOOTSTRAP.format(url=yaml.safe_load(Path(root, "_config.yml").read_text())["repository"]["url"])


def _front(title, its, edition=""):
    specs = [exercises.load(problem.id) for problem in its]
    points, minutes = sum(s.points for s in specs), sum(s.minutes for s in specs)
    return (
        f"# Problems: {title}{edition}\n\n"
        f"{len(its)} problem{'s' * (len(its) != 1)}, {points} points, about {minutes} minutes. "
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
    points = f"{spec.points} point{'s' * (spec.points != 1)}"
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


def main(arguments=None, root=ROOT):
    """Do what the command line asks; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learner", default="", help="whose numbers the learner's edition has")
    parser.add_argument("--out", type=Path, default=Path(root, "_build", "problems"))
    asked_for = parser.parse_args(arguments)
    found = sets(root)
    for chapter, (title, its) in found.items():
        for edition, notebook in (
            ("learner", learner_edition(title, its, asked_for.learner, root)),
            ("instructor", instructor_edition(title, its, asked_for.learner, root)),
        ):
            path = asked_for.out / edition / f"{chapter.stem}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(nbformat.writes(notebook) + "\n")
    (asked_for.out / "problems.html").write_text(printable(found, asked_for.learner))
    count = sum(len(its) for _, its in found.values())
    print(f"{count} problems of {len(found)} chapters: learner/, instructor/ and problems.html in {asked_for.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
