"""Answers whose authors did not know the checks: right ones pass, wrong ones do not, whatever their style."""

import pytest

from exercises import check, load
from exercises.engine.checker import judge
from tests.further_right import RIGHT
from tests.further_wrong import WRONG


@pytest.mark.parametrize("at", range(len(RIGHT)))
def test_a_right_answer_passes(at):
    id, answer = RIGHT[at]
    assert check(id, answer)
    for seed in (1, 2):
        assert judge(load(id), answer, seed), seed


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_a_wrong_answer_does_not(at):
    id, answer, *_ = WRONG[at]
    verdict = check(id, answer)
    assert verdict.status == "not yet" and verdict.points == 0, answer.__doc__
