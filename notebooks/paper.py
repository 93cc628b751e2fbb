"""Problem sets on paper: one page of HTML that needs nothing else, and a PDF of it that Chromium prints.

Chromium by its own command line: it sets MathML, tags what it prints for screen readers, and makes an outline of the
headings. Playwright could only press the same button, and brings a browser of its own where Debian's is at hand.
"""

import html
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from latex2mathml.converter import convert
from nbconvert.filters import Highlight2HTML, markdown2html
from pypdf import PdfReader

import exercises
from exercises.engine.questions import asked
from exercises.grade.run import Refusal
from exercises.spec import Choice, Code, Number

PAPERS = ("A4", "Letter")
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
REMEDY = (
    "there is no Chromium; install it (Debian: apt install chromium fonts-sil-charis fonts-dejavu-extra), "
    "or print the HTML page from any browser"
)
SECONDS = 120  # a slow machine needs a few for the longest list

STYLE = Path(__file__).with_name("paper.css")
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
# What only a PDF has: a size, and in its contents the pages that the first printing found.
PRINTED = "<style>@page {{ size: {paper}; }} .contents .page {{ display: table-cell; }}</style>\n</head>"


def page(title, found, name="", due=None, rubric=None):
    """The problems as one page of HTML.

    title : str, of the whole; found : {anything: (title, Problems)}; with several sets each begins on a new sheet
    name : str, whose numbers are asked for; due : datetime or None
    rubric : function of a spec that returns Markdown; with it this is the instructor's edition, with solutions
    """
    many = len(found) > 1
    cover = [_cover(title, found, name, due), _contents(found, many)]
    body, sheets = [], [_margin("@page", "bottom-left", title)]
    for at, (its_title, its) in enumerate(found.values(), 1):
        inside = [_problem(n, problem, name, "h3" if many else "h2", rubric) for n, problem in enumerate(its, 1)]
        if many:
            sheets.append(f"#set-{at} {{ break-before: page; page: set-{at}; }}")
            sheets.append(_margin(f"@page set-{at}", "top-right", its_title))
            inside.insert(0, f"<h2>{_line(its_title)}</h2>\n<p>{total(its)}.</p>")
        body.append(f'<section id="set-{at}">\n' + "\n".join(inside) + "\n</section>")
    return PAGE.format(
        title=html.escape(title),
        style=STYLE.read_text(encoding="utf-8") + "\n".join(sheets),
        body="\n".join(cover + body),
    )


def browser():
    """The path of Chromium or of a relative of it; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def write_pdf(text, path, chromium, paper="A4"):
    """Print a page of `page` twice, the second time with its contents' page numbers; return how many pages it has.

    text : str; path : of the PDF. Its folder holds what is needed meanwhile: a Chromium of Ubuntu's snap reads no /tmp.
    chromium : str, from `browser`; paper : of PAPERS. Raises Refusal, which says what Chromium said.
    """
    text = text.replace("</head>", PRINTED.format(paper=paper), 1)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="printing-", ignore_cleanup_errors=True) as folder:
        folder = Path(folder).resolve()
        reader = PdfReader(_print(text, folder, chromium))
        pages = {
            name.removeprefix("/"): reader.get_destination_page_number(target) + 1
            for name, target in reader.named_destinations.items()
        }
        text = re.sub(r'data-page="([^"]*)">', lambda match: f"{match[0]}{pages[match[1]]}", text)
        os.replace(_print(text, folder, chromium), path)
    return len(reader.pages)


def _print(text, folder, chromium):
    """The path of the PDF."""
    source, target = folder / "page.html", folder / "page.pdf"
    source.write_text(text, encoding="utf-8")
    target.unlink(missing_ok=True)
    command = [chromium, "--headless", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile"]
    if getattr(os, "geteuid", lambda: 1)() == 0:
        command.append("--no-sandbox")  # as root Chromium starts in no other way; the page is ours and runs nothing
    command += ["--no-pdf-header-footer", "--generate-pdf-document-outline", f"--print-to-pdf={target}"]
    try:
        done = subprocess.run([*command, source.as_uri()], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Refusal(f"{chromium} printed nothing in {SECONDS} seconds") from None
    if done.returncode or not target.exists():
        raise Refusal(f"{chromium} printed nothing (status {done.returncode}): {done.stderr.strip()[-500:]}")
    return target


# ---- the cover ----


def _cover(title, found, name, due):
    its = [problem for _, some in found.values() for problem in some]
    points = sum(exercises.load(problem.id).points for problem in its)
    lines = [f"<h1>{html.escape(title)}</h1>", f'<p class="subtitle">{total(its)}.</p>']
    if due:
        lines.append(f'<p class="subtitle">Due {due.day} {due:%B %Y, %H:%M} ({due:%Z}).</p>')
    fields = [f'Name <span class="name">{html.escape(name)}</span>', "Date <span></span>"]
    fields.append(f'Points <span class="points"></span> of {points}')
    lines.append(f'<p class="fields">{" ".join(fields)}</p>')
    lines.append(
        "<p>★ is easy, ★★★ hard. Answers are judged in the notebook: there "
        '<code>check("…", …)</code> takes the word at the right of a problem\'s title. Your notebook may give you '
        "other numbers than this list. Then those count.</p>"
    )
    return '<header class="cover">\n' + "\n".join(lines) + "\n</header>"


def total(its):
    """ "3 problems, 5 points, about 40 minutes"."""
    specs = [exercises.load(problem.id) for problem in its]
    minutes = sum(spec.minutes for spec in specs)
    time = f"{minutes} minutes" if minutes < 180 else f"{round(minutes / 60)} hours"
    return f"{count(len(its), 'problem')}, {count(sum(spec.points for spec in specs), 'point')}, about {time}"


def count(number, noun):
    """ "1 page", "2 pages"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _contents(found, many):
    """A table of all problems, with their points, minutes and pages."""
    head = '<th scope="col" class="figure{}">{}</th>'
    rows = ['<thead><tr><th scope="col" colspan="2">Problem</th>']
    rows += [head.format("", "Points"), head.format("", "Minutes"), head.format(" page", "Page"), "</tr></thead>"]
    for at, (title, its) in enumerate(found.values(), 1):
        rows.append("<tbody>")
        if many:
            specs = [exercises.load(problem.id) for problem in its]
            link = f'<th scope="rowgroup" colspan="2"><a href="#set-{at}">{_line(title)}</a></th>'
            totals = sum(spec.points for spec in specs), sum(spec.minutes for spec in specs)
            rows.append(_row(link, *totals, f"set-{at}", "th"))
        for number, problem in enumerate(its, 1):
            spec = exercises.load(problem.id)
            link = (
                f'<td>{number}.</td><td><a href="#{spec.id}">{_line(_starless(problem))}</a>&nbsp;{_stars(spec)}</td>'
            )
            rows.append(_row(link, spec.points, spec.minutes, spec.id, "td"))
        rows.append("</tbody>")
    return (
        f'<nav class="contents{" many" * many}" aria-label="Contents"><table>\n' + "\n".join(rows) + "\n</table></nav>"
    )


def _row(first, points, minutes, target, tag):
    figures = "".join(f'<{tag} class="figure">{number}</{tag}>' for number in (points, minutes))
    return f'<tr>{first}{figures}<{tag} class="figure page" data-page="{target}"></{tag}></tr>'


def _starless(problem):
    return problem.title.rstrip("★ ")


def _stars(spec):
    return f'<span class="stars" role="img" aria-label="{spec.stars} of 3 stars">{"★" * spec.stars}</span>'


def _margin(sheets, where, text):
    """The CSS that puts a text into the margin of these sheets."""
    quoted = re.sub(r'[\\"<\n]', lambda match: f"\\{ord(match[0]):x} ", text)
    return f'{sheets} {{ @{where} {{ content: "{quoted}"; font: 8pt "Charis SIL", Charter, Cambria, serif; }} }}'


# ---- a problem ----


def _problem(number, problem, name, heading, rubric):
    spec = exercises.load(problem.id)
    title = f"<{heading}>{number}. {_line(_starless(problem))}&nbsp;{_stars(spec)}</{heading}>"
    points = f"<span>…… / {spec.points}</span>"
    parts = [f'<header>{title}<code class="id">{spec.id}</code>{points}</header>', _markdown(problem.prompt)]
    if isinstance(spec, Code):
        parts.append(_python("\n\n".join(problem.code)))
    elif isinstance(spec, Number):
        parts.append(_list("given", [f"<code>{html.escape(line)}</code>" for line in asked(spec, name).table]))
        parts.append(f'<p class="answer">Answer <span></span> {html.escape(spec.unit)}</p>')
    elif isinstance(spec, Choice):
        parts += [_part(part, rubric is not None) for part in spec.parts]
        if spec.words:
            parts.append(f"<p>Why? In {spec.words} words or more.</p>" + '<p class="ruled"></p>' * 5)
    else:
        steps = [f"<code>{key}</code> <code>{html.escape(step)}</code>" for key, step in spec.steps.items()]
        parts += [_list("steps", steps), '<p class="answer">Order <span></span></p>']
    text = '<div class="statement">\n' + "\n".join(parts) + "\n</div>"
    if rubric:
        solution = [_markdown(source) if kind == "markdown" else _python(source) for kind, source in problem.solution]
        parts = ["<h4>Solution</h4>", *solution, _markdown(rubric(spec))]
        text += '\n<div class="solution">\n' + "\n".join(parts) + "\n</div>"
    return f'<section class="problem" id="{spec.id}">\n{text}\n</section>'


def _part(part, solved):
    """One question of a Choice, with boxes to tick; `solved` ticks the right one."""
    mark = {part.right(): ' class="right"'} if solved else {}
    options = []
    for key, said in part.options.items():
        said = "" if said == key else f" {_line(said)}"
        options.append(f"<li{mark.get(key, '')}><code>{html.escape(key)}</code>{said}</li>")
    question = f"<p><code>{html.escape(part.name)}</code> {_line(part.ask)}</p>"
    return f'<div class="part">{question}<ul class="options">{"".join(options)}</ul></div>'


def _list(kind, items):
    return f'<ul class="{kind}">' + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _python(source):
    return Highlight2HTML(pygments_lexer="python")(source)


def _markdown(text):
    # headings of Markdown are below that of their problem
    text = re.sub(r"<(/?)h3\b[^>]*>", r"<\1h4>", markdown2html(as_mathml(text)))
    return re.sub(r'<a class="anchor-link".*?</a>', "", text)


def _line(text):
    """One line of Markdown, without a paragraph around it."""
    return _markdown(text).strip().removeprefix("<p>").removesuffix("</p>")


def as_mathml(text):
    """Markdown with its formulas as MathML, which a browser prints without a network; code is left alone."""

    def formula(match):
        if match["code"]:
            return match[0]
        display = "block" if match["display"] else "inline"
        latex = re.sub(r"\\tag\{.*?\}", "", match["display"] or match["inline"]).strip()
        # an identifier to latex2mathml, and so without the space that sets a function's name off
        return re.sub(
            r"<mi>(cos|log|sin|tanh)</mi>",
            r'<mo form="prefix" lspace="0.17em" rspace="0.17em">\1</mo>',
            convert(latex, display=display),
        )

    pattern = r"(?P<code>```.*?```|`[^`]*`)|\$\$(?P<display>.*?)\$\$|\$(?P<inline>[^$]+)\$"
    return re.sub(pattern, formula, text, flags=re.DOTALL)
