"""AdamW does what its paper says, and a run that was killed at any moment goes on as if it had not been."""

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scratch import train as train_module
from scratch.config import Config
from scratch.gradcheck import leaves
from scratch.model import init_params, loss_forward
from scratch.optim import adamw_init, adamw_step, clip_gradients, learning_rate
from scratch.train import Recipe, load_run, train, windows

CONFIG = Config(vocab_size=11, d_model=8, n_layers=2, n_heads=2, d_ff=12, max_seq=16)
RECIPE = Recipe(steps=12, warmup=3, peak=1e-2)
TEXT = np.random.default_rng(7).integers(0, 11, 500)
DRAW = windows(TEXT, batch=3, length=8)


def same(one, other):
    """Whether two trees hold the same bits."""
    one, other = dict(leaves(one)), dict(leaves(other))
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_adamw_is_its_definition():
    """Five steps against algorithm 2 written out in extended precision, one array with decay and one without."""
    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((3, 4)), "g": rng.standard_normal(4)}
    theta = {name: w.astype(np.longdouble) for name, w in params.items()}
    m, v = {name: 0 * w for name, w in theta.items()}, {name: 0 * w for name, w in theta.items()}
    state = adamw_init(params)
    for t in range(1, 6):
        grads = {name: rng.standard_normal(w.shape) * 10.0 ** rng.integers(-3, 3) for name, w in params.items()}
        adamw_step(params, grads, state, 0.01 * t, betas=(0.8, 0.97), eps=1e-6, weight_decay=0.3)
        for name, g in grads.items():
            decay = 0.3 if name == "w" else 0.0
            m[name] = 0.8 * m[name] + (1 - np.longdouble(0.8)) * g
            v[name] = 0.97 * v[name] + (1 - np.longdouble(0.97)) * g * g
            mean, square = m[name] / (1 - np.longdouble(0.8) ** t), v[name] / (1 - np.longdouble(0.97) ** t)
            theta[name] = theta[name] - 0.01 * t * (mean / (np.sqrt(square) + 1e-6) + decay * theta[name])
    for name in params:
        np.testing.assert_allclose(params[name], theta[name].astype(float), rtol=1e-12)
    assert state["step"] == 5


@given(st.floats(1e-6, 1e6), st.integers(0, 2**32 - 1))
def test_the_first_step_has_the_size_of_the_rate(scale, seed):
    """m̂/√v̂ is the sign of the gradient then, whatever its size."""
    g = np.random.default_rng(seed).standard_normal(5) * scale
    params = {"g": np.zeros(5)}
    adamw_step(params, {"g": g}, adamw_init(params), 0.1, eps=0.0)
    np.testing.assert_allclose(params["g"], -0.1 * np.sign(g), rtol=1e-9)


def test_adamw_changes_nothing_when_the_trees_differ():
    params = {"w": np.ones((2, 2)), "g": np.ones(2)}
    state = adamw_init(params)
    with pytest.raises(ValueError, match="'g' is only in params"):
        adamw_step(params, {"w": np.ones((2, 2))}, state, 0.1)
    with pytest.raises(ValueError, match=r"gradient w has shape \(2,\)"):
        adamw_step(params, {"w": np.ones(2), "g": np.ones(2)}, state, 0.1)
    assert state["step"] == 0 and (params["w"] == 1).all()


def test_dtypes_are_kept():
    params = init_params(CONFIG)
    state = adamw_init(params)
    adamw_step(params, {**init_params(CONFIG, seed=1)}, state, 1e-3)
    assert {w.dtype for tree in (params, state["m"], state["v"]) for _, w in leaves(tree)} == {np.dtype("float32")}


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_clipping(size, limit):
    grads = {"a": np.array([3.0, 0.0]) * size, "b": [np.array([[-4.0]]) * size]}
    before = [g.copy() for _, g in leaves(grads)]
    assert math.isclose(clip_gradients(grads, limit), 5 * size)
    after = [g for _, g in leaves(grads)]
    length = math.sqrt(sum(float((g * g).sum()) for g in after))
    assert math.isclose(length, min(5 * size, limit), rel_tol=1e-12)
    for b, a in zip(before, after, strict=True):
        np.testing.assert_allclose(a * (5 * size), b * length, rtol=1e-12)


def test_learning_rate():
    rates = [learning_rate(t, peak=1.0, floor=0.1, steps=110, warmup=10) for t in range(110)]
    assert np.argmax(rates) == 10 and math.isclose(rates[10], 1.0)
    np.testing.assert_allclose(np.diff(rates[:11]), 1 / 11)
    assert (np.diff(rates[10:]) < 0).all() and math.isclose(rates[60], 0.55) and 0.1 < rates[-1] < 0.101
    with pytest.raises(ValueError, match="limit=0"):
        clip_gradients({"a": np.ones(2)}, 0)


def test_windows():
    ids, targets = windows(np.arange(40), 5, 7)(np.random.default_rng(0))
    assert ids.shape == targets.shape == (5, 7) and (targets == ids + 1).all() and (np.diff(ids) == 1).all()
    seen = np.concatenate([windows(np.arange(9), 50, 7)(np.random.default_rng(s))[1].ravel() for s in range(5)])
    assert seen.max() == 8  # the last token of the text is a target, too
    with pytest.raises(ValueError, match="longer than length=7"):
        windows(np.arange(7), 5, 7)


def test_training_learns_and_repeats():
    text = np.tile(np.arange(11), 40)  # what follows what is certain
    draw, recipe = windows(text, 4, 8), Recipe(steps=80, peak=2e-2)
    params, history = train(CONFIG, draw, recipe, progress=False)
    assert abs(history.loss[0] - math.log(11)) < 0.1 and history.loss[-1] < 0.2
    again, _ = train(CONFIG, draw, recipe, progress=False)
    assert same(params, again)
    other, _ = train(CONFIG, draw, replace(recipe, seed=1), progress=False)
    assert not same(params, other)


def test_a_batch_depends_on_seed_and_step_alone():
    drawn = []
    train(CONFIG, lambda rng: drawn.append(DRAW(rng)) or drawn[-1], RECIPE, progress=False)
    np.testing.assert_array_equal(drawn[5][0], DRAW(np.random.default_rng([0, 5]))[0])


@pytest.mark.parametrize("stop", [1, 4, 5, 11])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, stop, threads):
    recipe = replace(RECIPE, threads=threads)
    whole, history = train(CONFIG, DRAW, recipe, progress=False)
    path = tmp_path / "run.safetensors"
    train(CONFIG, DRAW, recipe, checkpoint=path, every=2, progress=False, stop=stop)
    params, state, _ = load_run(path, CONFIG, recipe)
    assert state["step"] == stop and not same(params, whole)
    resumed, later = train(CONFIG, DRAW, recipe, checkpoint=path, every=5, progress=False)
    assert same(resumed, whole) and later == history
    done, _ = train(CONFIG, DRAW, recipe, checkpoint=path, progress=False)  # nothing is left to do
    assert same(done, whole)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_is_cut_into_the_recipes_parts(threads, monkeypatch):
    seen = []
    cut = train_module.spread_loss_forward
    monkeypatch.setattr(train_module, "spread_loss_forward", lambda *a, **o: seen.append(o["threads"]) or cut(*a, **o))
    train(CONFIG, DRAW, replace(RECIPE, threads=threads), progress=False, stop=2)
    assert seen == [threads] * 2


def test_threads_change_no_more_than_the_rounding():
    one, history = train(CONFIG, DRAW, RECIPE, progress=False)
    three, parts = train(CONFIG, DRAW, replace(RECIPE, threads=3), progress=False)
    np.testing.assert_allclose(parts.loss, history.loss, rtol=1e-4)
    for (name, a), (_, b) in zip(leaves(one), leaves(three), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3, err_msg=name)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    train(CONFIG, DRAW, RECIPE, checkpoint=path, progress=False, stop=2)
    with pytest.raises(ValueError, match="made with peak=0.01, now it is 0.02"):
        train(CONFIG, DRAW, replace(RECIPE, peak=0.02), checkpoint=path, progress=False)
    with pytest.raises(ValueError, match="made with threads=1, now it is 2"):
        train(CONFIG, DRAW, replace(RECIPE, threads=2), checkpoint=path, progress=False)
    with pytest.raises(ValueError, match="made with d_ff=12, now it is 16"):
        train(replace(CONFIG, d_ff=16), DRAW, RECIPE, checkpoint=path, progress=False)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"run\.safetensors"):
        train(CONFIG, DRAW, RECIPE, checkpoint=path, progress=False)


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path):
    def broken(step, params, grads):
        if step == 4:
            params["norm"]["g"][0] = np.nan

    path = tmp_path / "run.safetensors"
    with pytest.raises(ValueError, match="the loss of step 5 is nan"):
        train(CONFIG, DRAW, RECIPE, checkpoint=path, every=2, progress=False, watch=broken)
    assert load_run(path, CONFIG, RECIPE)[1]["step"] == 4


def test_the_bar_shows_the_loss(capsys):
    train(CONFIG, DRAW, RECIPE)
    assert "12/12" in (shown := capsys.readouterr().err) and "loss=" in shown


KILLED = """
import sys
from tests.test_train import *
watch = lambda step, params, grads: print(step, flush=True)
train(CONFIG, DRAW, replace(RECIPE, steps=400), checkpoint=sys.argv[1], every=1, progress=False, watch=watch)
"""


def test_a_kill_loses_no_more_than_an_interval(tmp_path):
    """A process that writes after every step is killed, again and again, at moments that are not chosen."""
    recipe = replace(RECIPE, steps=400)
    whole, _ = train(CONFIG, DRAW, recipe, progress=False)
    path, rng, reached = tmp_path / "run.safetensors", np.random.default_rng(0), 0
    for _ in range(5):
        command = [sys.executable, "-c", KILLED, str(path)]
        root = Path(__file__).resolve().parents[1]
        run = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "80"})
        printed = [run.stdout.readline() for _ in range(3)]
        time.sleep(rng.uniform(0, 0.05))
        run.send_signal(signal.SIGKILL)
        printed += run.stdout.readlines()
        run.wait()
        run.stdout.close()
        last = int([line for line in printed if line.endswith("\n")][-1])  # watched, and then perhaps written
        step = load_run(path, CONFIG, recipe)[1]["step"]
        assert last <= step <= last + 2 and step > reached
        reached = step
    resumed, _ = train(CONFIG, DRAW, recipe, checkpoint=path, progress=False)
    assert same(resumed, whole)
    assert not [file for file in tmp_path.iterdir() if file.suffix == ".safetensors" and file != path]


def test_a_write_that_is_cut_off_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    """However much of the new file was written: what has its name is the old one, whole."""
    path = tmp_path / "run.safetensors"
    train(CONFIG, DRAW, RECIPE, checkpoint=path, progress=False, stop=2)
    before = path.read_bytes()

    def cut(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, DRAW, RECIPE, checkpoint=path, every=1, progress=False)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_loss_of_a_batch_does_not_depend_on_chunks():
    ids, targets = DRAW(np.random.default_rng(0))
    params = init_params(CONFIG, dtype=np.float64)
    whole, pieces = (loss_forward(ids, targets, params, CONFIG, chunk=chunk)[0] for chunk in (None, 5))
    assert math.isclose(whole, pieces, rel_tol=1e-13)
