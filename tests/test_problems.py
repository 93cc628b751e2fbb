"""Problem sets hold every exercise, run, and give no solution away; an instructor gets what a learner does not.

What is printed is read again: as HTML, and page by page as PDF.
"""

import contextlib
import csv
import html
import inspect
import io
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pypdf
import pytest

import exercises
from exercises.engine import library
from exercises.spec import Choice, Code, Number
from notebooks import generate, paper, problems

SETS = problems.sets()
PROBLEMS = {problem.id: problem for _, its in SETS.values() for problem in its}


def text_of(notebook):
    return "\n".join(cell.source for cell in notebook.cells)


def sources(id):
    """The lines of code that would be the answer, but for the shortest, which anybody may write."""
    exercise = exercises.load(id)
    functions = [*library.targets(exercise).values()] if isinstance(exercise, Code) else []
    functions += [getattr(exercise, "reference", None), *getattr(exercise, "variants", ())]
    lines = [line.strip() for f in functions if f for line in inspect.getsource(f).split("\n")]
    return {line for line in lines if len(line) > 24 and not line.startswith(("def ", '"""', "_check", "#"))}


@pytest.mark.parametrize("id", exercises.ids())
def test_the_grader_knows_what_the_stub_binds(id):
    """Where a `check` is gone, the answer is found by the mark of its cell, or by this name."""
    its = PROBLEMS[id]
    assert f'check("{id}", {exercises.load(id).answer})' in its.code[-1].split("\n")
    cells = problems.learner_edition("", [its]).cells
    assert [cell.metadata["exercise"] for cell in cells if "exercise" in cell.metadata] == [id] * len(its.code)


def test_every_exercise_is_in_one_set():
    ids = [problem.id for _, its in SETS.values() for problem in its]
    assert sorted(ids) == exercises.ids()
    for chapter, (_, its) in SETS.items():
        assert {exercises.load(p.id).chapter for p in its} == {chapter.stem}


@pytest.mark.parametrize("id", exercises.ids())
def test_a_problem_is_whole(id):
    problem = PROBLEMS[id]
    assert problem.prompt and f'check("{id}"' in problem.code[-1] and "..." in "\n".join(problem.code)
    assert problem.solution, "each has a solution in the chapter"
    assert "★" in problem.title


@pytest.mark.parametrize("chapter", SETS, ids=lambda chapter: chapter.stem)
def test_no_solution_is_reachable_from_a_learners_edition(chapter):
    title, its = SETS[chapter]
    edition = text_of(problems.learner_edition(title, its))
    assert "solution" not in edition.lower().replace("solutions=false", "")
    for problem in its:
        prompt_and_stub = problem.prompt + "\n".join(problem.code)
        for _, source in problem.solution:
            for line in source.split("\n"):
                assert len(line) < 25 or line not in edition or line in prompt_and_stub, line
        for line in sources(problem.id):
            assert line not in edition or line in prompt_and_stub, line


@pytest.mark.parametrize("chapter", SETS, ids=lambda chapter: chapter.stem)
def test_a_learners_edition_runs_and_nothing_is_attempted_yet(chapter):
    title, its = SETS[chapter]
    edition = problems.learner_edition(title, its)
    space, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        for cell in edition.cells:
            if cell.cell_type == "code":
                exec(cell.source, space)
        exercises.learner("", solutions=True)
    assert said.getvalue().count("Not attempted: ") == len(its), said.getvalue()


@pytest.mark.parametrize("chapter", SETS, ids=lambda chapter: chapter.stem)
def test_an_instructors_edition_has_solutions_rubric_and_timing(chapter):
    title, its = SETS[chapter]
    edition = text_of(problems.instructor_edition(title, its))
    assert edition.count("### Solution") == edition.count("### Rubric") == len(its)
    for problem in its:
        spec = exercises.load(problem.id)
        assert f"about {spec.minutes} minutes, {'★' * spec.stars}." in edition
        for _, source in problem.solution:
            assert source in edition
        if isinstance(spec, Choice) and spec.words:
            assert all(line in edition for line in spec.rubric)


def test_a_named_learner_gets_numbers_of_their_own():
    title, its = next((t, p) for t, p in SETS.values() if any(x.id == "flops" for x in p))
    one, two = (text_of(problems.learner_edition(title, its, name)) for name in ("Ada", "Emmy"))
    numbers = [re.findall(r"Your numbers: (.*)\.", text) for text in (one, two)]
    own = [problem for problem in its if isinstance(exercises.load(problem.id), Number)]
    assert len(numbers[0]) == len(numbers[1]) == len(own) and all(a != b for a, b in zip(*numbers, strict=True))
    assert "learner('Ada', solutions=False)" in one


# ---- what the command writes ----


ROSTER = 'id,name\nu-001,Learner 001\n2021/2,"=Learner, ""two"""\n'


@pytest.fixture
def quick(monkeypatch):
    """Without what takes seconds: as where there is no Chromium, and with the chapters read already."""
    monkeypatch.setattr(paper, "browser", lambda: None)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(problems, "sets", lambda root: SETS)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of all sets, with the numbers of one learner and without PDFs, and what was said."""
    out, said = tmp_path_factory.mktemp("problems"), []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(paper, "browser", lambda: None)
        monkeypatch.delenv("CI", raising=False)
        assert problems.main(["--out", str(out), "--learner", "Ada"], say=said.append) == 0
    return out, said


def test_one_command_writes_them_all(written):
    out, said = written
    for edition in ("learner", "instructor"):
        files = sorted(path.stem for path in (out / edition).glob("*.ipynb"))
        assert files == sorted(chapter.stem for chapter in SETS)
        for path in (out / edition).glob("*.ipynb"):
            nbformat.validate(nbformat.read(path, as_version=4))
    results = "".join(path.read_text() for path in (out / "instructor").glob("*.ipynb"))
    assert results.count("The answer for Ada: ") == sum(isinstance(exercises.load(id), Number) for id in PROBLEMS)
    assert f"{len(PROBLEMS)} problems in {len(SETS)} sets" in said[0]


def test_one_set_of_chosen_exercises(tmp_path, quick):
    ids = ["rope", "flops", "gate"]
    assert problems.main(["--exercises", "rope, flops,gate", "--title", "Übung 3: a/b", "--out", str(tmp_path)]) == 0
    for edition in ("learner", "instructor"):
        (file,) = (tmp_path / edition).iterdir() if edition == "learner" else (tmp_path / edition).glob("*.ipynb")
        assert file.name == "übung-3-a-b.ipynb"
        notebook = nbformat.read(file, as_version=4)
        assert notebook.cells[0].source.startswith("# Übung 3: a/b")
        assert re.findall(r'^check\("([\w-]+)"', text_of(notebook), flags=re.MULTILINE) == ids
    page = (tmp_path / "problems.html").read_text()
    assert re.findall(r'<section class="problem" id="([\w-]+)"', page) == ids
    assert "<title>Übung 3: a/b</title>" in page


def test_an_assignment_and_its_roster(tmp_path, quick):
    folder = tmp_path / "ps3"
    folder.mkdir()
    (folder / "assignment.toml").write_text(
        'title = "Problem set 3"\nexercises = ["flops", "rope"]\ndue = 2027-03-05T23:59:00+01:00\n'
    )
    (tmp_path / "roster.csv").write_text(ROSTER)
    assert problems.main(["--assignment", str(folder), "--roster", str(tmp_path / "roster.csv")]) == 0
    handout = folder / "handout"
    assert "Due 5 March 2027, 23:59 (UTC+01:00)." in (handout / "problems.html").read_text()
    own = sorted((handout / "learner" / "problem-set-3").iterdir())
    assert len(own) == 2 and own[1].name == "u-001.ipynb" and own[0].name.startswith("2021-2-"), own
    texts = [text_of(nbformat.read(path, as_version=4)) for path in own]
    assert "learner('=Learner, \"two\"', solutions=False)" in texts[0]
    rows = list(csv.DictReader((handout / "instructor" / "problem-set-3.csv").read_text().splitlines()))
    assert [row["learner"] for row in rows] == ["u-001", "2021/2"] and rows[1]["name"].startswith("'=")
    for row, text in zip(rows, reversed(texts), strict=True):
        assert row["exercise"] == "flops" and f"Your numbers: {row['given']}." in text
    assert rows[0]["given"] != rows[1]["given"] and rows[0]["answer"] != rows[1]["answer"]
    assert sorted(path.name for path in handout.iterdir()) == ["instructor", "learner", "problems.html"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--exercises", "rope,flop"], "--exercises: there is no exercise flop; did you mean flops"),
        (["--exercises", "rope,zzzzzz"], "--exercises: there is no exercise zzzzzz; there are ablations, "),
        (["--exercises", "rope,gate,rope"], "--exercises: rope stands there twice"),
        (["--title", "Problem set 3"], "--title names one set"),
        (["--assignment", "."], "there is no assignment.toml"),
        (["--exercises", "rope", "--roster", "none.csv"], "none.csv"),
        (["--exercises", "rope", "--out", "file/below"], "file/below"),
    ],
)
def test_what_cannot_be_is_one_clear_line(arguments, message, tmp_path, quick, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert problems.main(["--out", "out", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and message in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_assignment_without_exercises_says_what_to_add(tmp_path, capsys):
    (tmp_path / "assignment.toml").write_text('title = "Problem set 3"\n')
    assert problems.main(["--assignment", str(tmp_path)]) == 2
    assert "names no exercises; add exercises = " in capsys.readouterr().err
    (tmp_path / "assignment.toml").write_text('title = "Problem set 3"\nexercises = ["ropes"]\n')
    assert problems.main(["--assignment", str(tmp_path)]) == 2
    assert "assignment.toml: there is no exercise ropes; did you mean rope" in capsys.readouterr().err


# ---- the page ----


def test_the_page_holds_all_that_is_asked(written):
    page = (written[0] / "problems.html").read_text()
    assert re.findall(r'<section class="problem" id="([\w-]+)"', page) == list(PROBLEMS)
    assert "<title>Problems of The Transformer Block</title>" in page and '<html lang="en">' in page
    assert '<span class="name">Ada</span>' in page
    assert "<math" in page and "\\mathrm" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert "dn2 = ffn_backward(dy)" in page and "the gate is a third matrix" in page, "what `question` would show"
    for id in PROBLEMS:
        spec = exercises.load(id)
        if isinstance(spec, Choice):
            assert all(f"<code>{html.escape(key)}</code>" in page for part in spec.parts for key in part.options)
        if isinstance(spec, Number):
            assert problems.asked(spec, "Ada").table[0] in page


def test_the_contents_have_points_minutes_and_a_link_for_each(written):
    page = (written[0] / "problems.html").read_text()
    contents = page[page.index("<nav") : page.index("</nav>")]
    for id in PROBLEMS:
        spec = exercises.load(id)
        row = next(row for row in contents.split("<tr>") if f'href="#{id}"' in row)
        assert re.findall(r'<td class="figure">(\d+)</td>', row) == [str(spec.points), str(spec.minutes)]


def test_no_solution_is_on_the_learners_page(written):
    page = html.unescape(re.sub(r"<[^>]*>", "", (written[0] / "problems.html").read_text()))
    instructors = (written[0] / "instructor" / "instructor.html").read_text()
    known = html.unescape(re.sub(r"<[^>]*>", "", instructors))
    assert (
        "Rubric" not in page
        and "Solution" not in page
        and 'class="right"' not in instructors[: instructors.find("<nav")]
    )
    assert 'class="right"' not in (written[0] / "problems.html").read_text()
    for id, problem in PROBLEMS.items():
        prompt_and_stub = problem.prompt + "\n".join(problem.code)
        for line in sources(id):
            assert line not in page or line in prompt_and_stub, line
        for kind, source in problem.solution:
            code = source if kind == "code" else "\n".join(re.findall(r"```python\n(.*?)```", source, flags=re.DOTALL))
            for line in filter(None, map(str.strip, code.split("\n"))):
                assert line in known, line
                assert len(line) < 25 or line not in page or line in prompt_and_stub, line


def test_the_instructors_page_ticks_what_is_right(written):
    page = (written[0] / "instructor" / "instructor.html").read_text()
    choices = [spec for spec in map(exercises.load, PROBLEMS) if isinstance(spec, Choice)]
    assert page.count('class="right"') == sum(len(spec.parts) for spec in choices)
    section = page[page.index('<section class="problem" id="swiglu-more"') :]
    (part,) = exercises.load("swiglu-more").parts
    assert f'<li class="right"><code>{part.right()}</code>' in section[: section.index("</section>")]
    assert page.count("<h4>Solution</h4>") == page.count("<h4>Rubric</h4>") == len(PROBLEMS)


def test_formulas_become_mathml_and_code_stays():
    text = paper.as_mathml("`$x$` and $a \\cos b$\n\n```python\ny = '$x$'\n```\n\n$$ \\sqrt{x} \\tag{3} $$")
    assert "`$x$`" in text and "'$x$'" in text and "<msqrt>" in text and "tag" not in text
    assert re.search(r'<mi>a</mi><mo [^>]*space="0.17em"[^>]*>cos</mo><mi>b</mi>', text)


# ---- the PDF ----


@pytest.fixture(scope="module")
def chromium():
    """The path of Chromium; skipped where there is none, which in CI is a failure."""
    return paper.browser() or pytest.skip(f"NO PDF: {paper.REMEDY}")


@pytest.fixture(scope="module")
def pdf(written, chromium):
    """The learners' PDF, and the words of each of its pages."""
    paper.write_pdf((written[0] / "problems.html").read_text(), written[0] / "problems.pdf", chromium)
    reader = pypdf.PdfReader(written[0] / "problems.pdf")
    return reader, [" ".join(page.extract_text().split()) for page in reader.pages]


def squeezed(text):
    """Without spaces, which are where a PDF's reader guesses them."""
    return re.sub(r"\s", "", text)


def test_the_pdf_has_every_problem_whole_on_the_page_that_the_contents_say(pdf):
    reader, pages = pdf
    for id, problem in PROBLEMS.items():
        spec, title = exercises.load(id), problem.title.rstrip("★ ")
        at = reader.get_destination_page_number(reader.named_destinations[f"/{id}"])
        row = r"\s*".join(map(re.escape, squeezed(title))) + rf"\s*★+\s*{spec.points}\s+{spec.minutes}\s+{at + 1}\b"
        assert re.search(row, pages[0]), title
        whole = squeezed(pages[at])
        assert squeezed(title) in whole
        if isinstance(spec, Code):
            assert squeezed(problem.code[-1].split("\n")[-1]) in whole
        if isinstance(spec, Number):
            assert squeezed(f"Answer {spec.unit}") in whole
        if isinstance(spec, Choice):
            assert squeezed(list(spec.parts[-1].options)[-1]) in whole


def test_the_pdf_is_for_screen_readers_too(pdf):
    reader, pages = pdf
    root = reader.trailer["/Root"]
    assert root["/Lang"] == "en" and root["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in root
    assert reader.metadata.title == "Problems of The Transformer Block"
    outline = squeezed("".join(item.title for item in flat(reader.outline)))
    assert all(
        squeezed(problem.title.rstrip("★ ")).replace("'", "") in outline.replace("'", "")
        for problem in PROBLEMS.values()
    )
    for at, page in enumerate(pages, 1):
        assert f"{at} / {len(pages)}" in page


def flat(outline):
    """An outline's items, those below others too."""
    for item in outline:
        yield from flat(item) if isinstance(item, list) else [item]


def test_both_lists_are_printed_on_the_paper_that_is_asked_for(chromium, tmp_path, pdf):
    wanted = ["--exercises", "gate", "--paper", "Letter", "--out", str(tmp_path)]
    said = []
    assert problems.main(wanted, say=said.append) == 0
    assert said[1:] == ["problems.pdf: 1 page, Letter", "instructor.pdf: 2 pages, Letter"]
    assert {path.name for path in tmp_path.iterdir()} == {"instructor", "learner", "problems.html", "problems.pdf"}
    for path, words in ((tmp_path / "problems.pdf", False), (tmp_path / "instructor" / "instructor.pdf", True)):
        reader = pypdf.PdfReader(path)
        assert ("Rubric" in "".join(page.extract_text() for page in reader.pages)) == words
        assert [round(side) for side in reader.pages[0].mediabox[2:]] == [612, 792]
    assert [round(side) for side in pdf[0].pages[0].mediabox[2:]] == [595, 842]


def test_without_chromium_one_loud_line_and_in_ci_a_failure(tmp_path, quick, monkeypatch):
    for ci, status in (("false", 0), ("true", 1)):
        monkeypatch.setenv("CI", ci)
        said = []
        assert problems.main(["--exercises", "rope", "--out", str(tmp_path)], say=said.append) == status
        assert sum(line.startswith("NO PDF: ") and "apt install chromium" in line for line in said) == 1
        assert (tmp_path / "problems.html").exists() and not (tmp_path / "problems.pdf").exists()


def test_a_chromium_that_fails_is_quoted(tmp_path, monkeypatch, capsys):
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho 'no usable sandbox' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert problems.main(["--exercises", "rope", "--out", str(tmp_path / "out")]) == 2
    assert "chromium printed nothing (status 3): no usable sandbox" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("printing-*"))


# ---- in the book ----


def page_with_the_role(folder, path):
    """Build a page that has the role {printed} strictly, with what this PATH finds; return (log, HTML)."""
    for name in ("exercises", "scratch"):
        (folder / name).symlink_to(generate.ROOT / name)
    (folder / "chapters").mkdir()
    for name in ("_config.yml", "references.bib", "chapters/06_feed_forward.md"):
        shutil.copy(generate.ROOT / name, folder / name)
    (folder / "conf.py").write_text('extensions = ["myst_parser", "_ext.printed"]\nexclude_patterns = ["chapters"]\n')
    (folder / "index.md").write_text("# A book\n\nGet {printed}`all problems on paper`.\n")
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(generate.ROOT), "CI": "false"}
    command = [sys.executable, "-m", "sphinx", "-W", str(folder), str(folder / "built")]
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr, (folder / "built" / "index.html").read_text()


def test_the_book_links_the_pdf(tmp_path, chromium):
    _, page = page_with_the_role(tmp_path, os.environ["PATH"])
    link = re.search(
        r'<a class="reference download[^>]*href="([^"]*problems.pdf)"[^>]*>all problems on paper</a>', page
    )
    assert len(pypdf.PdfReader(tmp_path / "built" / link[1]).pages) > 1


def test_without_chromium_the_book_builds_and_says_so(tmp_path):
    (tmp_path / "empty").mkdir()
    log, page = page_with_the_role(tmp_path, str(tmp_path / "empty"))
    assert "Get all problems on paper." in page and "problems.pdf" not in page
    assert "NO PDF" in log


def test_the_stored_sets_are_in_step():
    for path, text in generate.problem_sets().items():
        assert path.exists() and path.read_text() == text, "run `make notebooks` and commit what it writes"
