"""The surnames are read as they stand, counting is counting, and a missing package is one clear error."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from scratch import data
from scratch.data import surnames
from scratch.ngram import ngram_fit, ngram_loss

# Two names over the letters 1 and 2, with 0 for the end: "12" and "2".
IDS = np.array([[0, 1, 2], [0, 2, 0]])
TARGETS = np.array([[1, 2, 0], [2, 0, -100]])


def test_the_surnames():
    names = surnames()
    assert len(names) == len(set(names)) == 88_799 and names == sorted(names)
    assert {"smith", "nguyen"} <= set(names)
    assert set("".join(names)) == set("abcdefghijklmnopqrstuvwxyz") and max(map(len, names)) == 13


def test_importing_runs_no_code_of_the_package_and_needs_numpy_alone():
    code = "import sys, scratch.data, scratch.ngram; scratch.data.surnames(); print('names' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("found", [None, "elsewhere"])
def test_a_missing_package_is_one_clear_error(found, monkeypatch, tmp_path):
    spec = None if found is None else importlib.util.spec_from_file_location("names", tmp_path / "__init__.py")
    monkeypatch.setattr(data, "find_spec", lambda name: spec)
    with pytest.raises(ModuleNotFoundError, match="pip install names==0.3.0"):
        surnames()


def test_counts_by_hand():
    """Five characters: 1, 2, 0, 2, 0. With a prior of 3 each of three tokens gets one more, by the blind guess."""
    p1 = ngram_fit(IDS, TARGETS, 1, 3, prior=3)
    np.testing.assert_allclose(p1, np.array([2 + 1, 1 + 1, 2 + 1]) / 8)
    p2 = ngram_fit(IDS, TARGETS, 2, 3, prior=3)
    counts = np.array(
        [[0, 1, 1], [0, 0, 1], [2, 0, 0]]
    )  # after the start: 1 and 2; after 1: 2; after 2: the end, twice
    np.testing.assert_allclose(p2, (counts + 3 * p1) / (counts.sum(1, keepdims=True) + 3))
    p3 = ngram_fit(IDS, TARGETS, 3, 3, prior=3)
    np.testing.assert_allclose(p3[1, 2], (np.array([1, 0, 0]) + 3 * p2[2]) / 4)  # 1, 2 → the end
    np.testing.assert_allclose(p3[0, 0], (np.array([0, 1, 1]) + 3 * p2[0]) / 5)  # both begin after nothing
    np.testing.assert_allclose(p3[2, 1], p2[1])  # never seen: the shorter history speaks


def slow_loss(p, ids, targets):
    """The mean of −ln p, one character at a time."""
    found = []
    for row, wanted in zip(ids, targets):
        history = [int(row[0])] * p.ndim
        for token, target in zip(row, wanted):
            history.append(int(token))
            if target != -100:
                found.append(-np.log(p[(*history[len(history) - p.ndim + 1 :], target)]))
    return np.mean(found)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_and_losses(order):
    rng = np.random.default_rng(order)
    ids, targets = rng.integers(0, 5, (7, 9)), rng.integers(0, 5, (7, 9))
    targets[3, 4:] = -100
    p = ngram_fit(ids, targets, order, 5, prior=0.7)
    assert p.shape == (5,) * order and (p > 0).all()
    np.testing.assert_allclose(p.sum(-1), 1)
    assert ngram_loss(p, ids, targets) == pytest.approx(slow_loss(p, ids, targets), rel=1e-12)


def test_nothing_counted_is_a_blind_guess():
    nothing = np.full_like(TARGETS, -100)
    np.testing.assert_allclose(ngram_fit(IDS, nothing, 2, 3), 1 / 3)
    assert ngram_loss(ngram_fit(IDS, nothing, 2, 3), IDS, TARGETS) == pytest.approx(np.log(3))


def test_a_small_prior_believes_the_counts():
    """So it forgets how rare they are: better on what was counted, worse on other text."""
    rng = np.random.default_rng(0)
    one, two = (rng.integers(0, 4, (30, 6)) for _ in range(2))
    little, much = (ngram_fit(one, np.roll(one, -1, 1), 3, 4, prior=prior) for prior in (0.01, 10.0))
    assert ngram_loss(little, one, np.roll(one, -1, 1)) < ngram_loss(much, one, np.roll(one, -1, 1))
    assert ngram_loss(little, two, np.roll(two, -1, 1)) > ngram_loss(much, two, np.roll(two, -1, 1))


def mean_of_orders(ids, targets, order, vocab_size, prior):
    """A mutant: each order counts alone, and unseen histories guess blindly."""
    p = ngram_fit(ids, targets, order, vocab_size, prior=1e-9)
    return (p + 1 / vocab_size) / 2


def future(ids, targets, order, vocab_size, prior):
    """A mutant: the history is one token late, and holds the answer."""
    return ngram_fit(targets.clip(0), targets, order, vocab_size, prior=prior)


@pytest.mark.parametrize("mutant", [mean_of_orders, future])
def test_the_hand_counts_see_mutants(mutant):
    assert not np.allclose(mutant(IDS, TARGETS, 3, 3, 3), ngram_fit(IDS, TARGETS, 3, 3, prior=3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 0}, "order=0, prior=1.0, expected order >= 1"),
        ({"prior": 0.0}, "prior=0.0, expected order >= 1 and prior > 0"),
        ({"vocab_size": 2}, "ids contains 2, expected 0 … 1"),
        ({"targets": TARGETS + 5}, "targets contains 6"),
    ],
)
def test_bad_input_is_one_clear_error(change, message):
    given = {"ids": IDS, "targets": TARGETS, "order": 2, "vocab_size": 3, "prior": 1.0} | change
    with pytest.raises(ValueError, match=message):
        ngram_fit(**given)
