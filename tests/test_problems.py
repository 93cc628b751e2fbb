"""Problem sets hold every exercise, run, and give no solution away; an instructor gets what a learner does not."""

import contextlib
import inspect
import io
import re

import nbformat
import pytest

import exercises
from exercises.engine import library
from exercises.spec import Choice, Code, Number
from notebooks import generate, problems

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


def test_one_command_writes_them_all(tmp_path, capsys):
    assert problems.main(["--out", str(tmp_path), "--learner", "Ada"]) == 0
    for edition in ("learner", "instructor"):
        written = sorted(path.stem for path in (tmp_path / edition).glob("*.ipynb"))
        assert written == sorted(chapter.stem for chapter in SETS)
        for path in (tmp_path / edition).glob("*.ipynb"):
            nbformat.validate(nbformat.read(path, as_version=4))
    page = (tmp_path / "problems.html").read_text()
    assert all(exercises.load(id).title.split("'")[0] in page for id in PROBLEMS)
    assert "<title>Problems of" in page and "Name: Ada" in page
    assert "<math" in page and "\\mathrm" not in page and "cdnjs" not in page
    assert "dn2 = ffn_backward(dy)" in page and "the gate is a third matrix" in page, "what `question` would show"
    results = "".join(path.read_text() for path in (tmp_path / "instructor").glob("*.ipynb"))
    assert results.count("The answer for Ada: ") == sum(isinstance(exercises.load(id), Number) for id in PROBLEMS)
    assert f"{len(PROBLEMS)} problems of {len(SETS)} chapters" in capsys.readouterr().out


def test_the_stored_sets_are_in_step():
    for path, text in generate.problem_sets().items():
        assert path.exists() and path.read_text() == text, "run `make notebooks` and commit what it writes"
