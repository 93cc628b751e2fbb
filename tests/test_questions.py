"""Numbers, choices, predictions and orders are judged rightly, and every learner has numbers of their own."""

import itertools

import pytest

import exercises
from exercises import check, learner, question, solution
from exercises.engine import questions
from exercises.live import Block, T, rows

NUMBERS = ("flops", "kv-cache-bytes")


@pytest.fixture
def own_progress(monkeypatch, tmp_path):
    """Progress in a file of the test's own."""
    monkeypatch.setenv("TRANSFORMER_BLOCK_PROGRESS", str(tmp_path / "progress.json"))
    yield tmp_path / "progress.json"
    learner("", solutions=True)


@pytest.mark.parametrize("id", NUMBERS)
def test_each_learner_has_numbers_of_their_own(id, own_progress):
    exercise = exercises.load(id)
    drawn = {str(questions.quantities(exercise, name)) for name in ("", "Ada", "Emmy", "Sofja")}
    assert len(drawn) == 4
    learner("Ada")
    assert "The numbers are Ada's." in repr(question(id))
    given = questions.quantities(exercise, "Ada")
    assert check(id, exercise.reference(**given))
    learner("Emmy")
    assert not check(id, exercise.reference(**given)), "another learner's number"


@pytest.mark.parametrize("id", NUMBERS)
def test_no_two_mistakes_agree(id):
    """Else one learner in many would be told of a mistake that is not theirs."""
    exercise = exercises.load(id)
    for name in map(str, range(500)):
        given = questions.quantities(exercise, name)
        values = [exercise.reference(**given), *(m(**given) for m in exercise.mutants)]
        assert len(set(values)) == len(values), (name, given)


@pytest.mark.parametrize(
    "answer, said",
    [
        (None, "Not attempted"),
        (..., "Not attempted"),
        ("many", "This is a str; give one number"),
        (True, "This is a bool; give one number"),
        ([3], "This is a list; give one number"),
        (float("nan"), "give a finite number"),
        (float("inf"), "give a finite number"),
        (12, "12 operations is too small, for L = "),
        (3_424_000_000, "is nearly right; give the exact number"),
        (3.42, "is far too small. Is it in another unit?"),
        (10**40, "operations is too large"),
        (-1, "too small"),
        (1j, "This is a complex"),
    ],
)
def test_a_number_that_is_none(answer, said):
    verdict = check("flops", answer)
    assert not verdict and said in repr(verdict), verdict
    assert len(repr(verdict).splitlines()) <= 4


RIGHT = questions._right_choice(exercises.load("contributions"))


@pytest.mark.parametrize(
    "answer, said",
    [
        (None, "Not attempted"),
        ({}, "Not attempted"),
        (dict.fromkeys(RIGHT, ...), "Not attempted"),
        ("later", "This is a str; give a dict with"),
        ({"attention": "later"}, '"feed-forward" is still open'),
        (RIGHT | {"attention": "perhaps"}, '"attention" is "perhaps"; choose one of "none", "own"'),
        (RIGHT | {"attention": 3}, '"attention" is an int; choose one of'),
        (RIGHT | {"atention": "own"}, 'There is no "atention" to answer'),
        (RIGHT | {"attention": "own"}, '5 of 6 are right. Think again about "attention".'),
        (RIGHT | {"why": "because"}, "in 40 words or more: it has 1."),
        (RIGHT | {"why": 3}, '"why" is an int; give your explanation as text'),
    ],
)
def test_a_choice_that_is_not_right(answer, said):
    verdict = check("contributions", answer)
    assert not verdict and said in repr(verdict), verdict
    right = next(part for part in exercises.load("contributions").parts if part.name == "attention").right()
    assert f'"{right}"' not in verdict.diagnosis


def test_a_single_choice_takes_the_key_alone():
    assert check("swiglu-more", "b") and check("swiglu-more", {"why": "B "})
    assert "Neither has biases" in repr(check("swiglu-more", "e"))
    assert check("swiglu-more", ...).status == "not attempted"


@pytest.mark.parametrize("id", ("contributions", "ablations", "swiglu-more"))
def test_every_option_but_the_right_one_has_a_sentence(id):
    for part in exercises.load(id).parts:
        assert part.right() in part.options, part.name
        assert set(part.wrong) == set(part.options) - {part.right()}, part.name
        assert len(set(part.wrong.values())) >= min(2, len(part.wrong)) or id == "contributions"


def test_an_order_is_right_exactly_if_it_works():
    """Each of the 720 orders is run; the constraints accept those that give the gradient, and no other."""
    exercise = exercises.load("order-backward")
    for keys in itertools.permutations(exercise.steps):
        assert bool(questions.judge_value(exercise, keys)) == exercise.works(keys), keys


@pytest.mark.parametrize(
    "answer, said",
    [
        (None, "Not attempted"),
        ([], "Not attempted"),
        ([...] * 6, "Not attempted"),
        (3, "This is an int; give a list of"),
        (["a", "b"], 'Still missing: "c", "d", "e", "f"'),
        ("a a b c d e f", 'Step "a" stands 2 times'),
        ("x b c d e f", 'There is no step "x"'),
        ("b e f c d a", "Something is wrong from step 2 on"),
        ("befcda", "Something is wrong from step 2 on"),
        ("a b c d e f", "Something is wrong from step 1 on"),
    ],
)
def test_an_order_that_is_not_right(answer, said):
    verdict = check("order-backward", answer)
    assert not verdict and said in repr(verdict), verdict


def test_the_live_block_is_a_block():
    """What predictions are scored on behaves as blocks do."""
    assert rows(Block().changed(2), 2) == "later"
    assert rows(Block(causal=False).changed(2), 2) == "all"
    assert rows(Block(off=("attn",)).changed(2), 2) == "own"
    assert len(Block().changed(0)) == T


@pytest.mark.parametrize("id", exercises.ids())
def test_a_solution_opens_after_an_attempt(id, own_progress):
    shown = repr(solution(id))
    assert "Still closed" in shown and "Try first" in shown
    check(id, None)
    assert "Still closed" in repr(solution(id)), "an empty stub is no attempt"
    check(id, "z" if id != "order-backward" else "a b c d e f")
    assert "Solution: " in repr(solution(id))
    learner("Ada", solutions=False)
    assert "In a problem set there are hints, and no solutions." in repr(solution(id))


def test_a_question_is_asked():
    assert "L = " in repr(question("flops"))
    assert '`"attention"` The feed-forward adds nothing.' in repr(question("contributions"))
    assert "du = dy.copy()" in repr(question("order-backward"))
    assert "stands in the chapter" in repr(question("rmsnorm-backward"))
    assert "There is no exercise" in repr(question("nothing")) and "There is no" in repr(solution("nothing"))
