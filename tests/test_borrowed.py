"""Answers that exist already earn nothing: called, imported, reloaded, read or pasted, they are recognized."""

import copy
import functools
import importlib
import inspect
import textwrap
import types

import numpy as np
import pytest

import exercises
from exercises import check
from exercises.engine import library
from scratch import norm, ops

ID = "rmsnorm-backward"
SOURCE = textwrap.dedent(inspect.getsource(norm.rmsnorm_backward))
ADAPTER = """
def answer(dout, x, g, eps):
    _, cache = forward(x, g, eps)
    return backward(dout, cache)
"""


def made(code, **names):
    """A function called `answer`, as a cell of a notebook would define it."""
    space = {"__name__": "__main__", "np": np, "ops": ops, "norm": norm, **names}
    exec(code, space)
    return space["answer"]


def forward(x, g, eps):
    """The library's forward, which is not closed."""
    return ops.rmsnorm_forward(x, g, eps)


def through_a_caller(dout, x, g, eps):
    """pre_norm_backward and its like call the closed function."""
    from scratch.block import named_backward

    _, cache = ops.rmsnorm_forward(x, g, eps)
    return named_backward(dout, (norm.rmsnorm_backward, ("g",), cache))


def imported_inside(dout, x, g, eps):
    from scratch.ops import rmsnorm_backward as mine

    return mine(dout, ops.rmsnorm_forward(x, g, eps)[1])


def reloaded_inside(dout, x, g, eps):
    fresh = importlib.reload(norm)
    return fresh.rmsnorm_backward(dout, ops.rmsnorm_forward(x, g, eps)[1])


def read_inside(dout, x, g, eps):
    space = {"np": np, "_check": norm._check}
    with open(norm.__file__) as file:
        exec(file.read(), space)
    return space["rmsnorm_backward"](dout, ops.rmsnorm_forward(x, g, eps)[1])


def executed_inside(dout, x, g, eps):
    space = dict(vars(norm))
    exec(SOURCE, space)
    return space["rmsnorm_backward"](dout, ops.rmsnorm_forward(x, g, eps)[1])


def swallowed(dout, x, g, eps):
    try:
        return norm.rmsnorm_backward(dout, ops.rmsnorm_forward(x, g, eps)[1])
    except Exception:
        return dout, g


def the_checkers_own(dout, x, g, eps):
    return exercises.load(ID).variants[0](dout, x, g, eps)


def the_checkers_own_imported(dout, x, g, eps):
    from exercises import rmsnorm_backward as spec

    return spec.einsum(dout, x, g, eps)


def the_checkers_own_by_name(dout, x, g, eps):
    spec = importlib.import_module("exercises.rmsnorm_backward")
    return spec.einsum(dout, x, g, eps)


saved = types.FunctionType(norm.rmsnorm_backward.__code__, vars(norm))
pasted = dict(vars(norm))
exec(SOURCE.replace("rmsnorm_backward", "mine").replace("cache", "kept").replace("dout", "upstream"), pasted)

TAKEN = {
    "the function itself": norm.rmsnorm_backward,
    "imported and called": made(ADAPTER, forward=forward, backward=ops.rmsnorm_backward),
    "a partial": functools.partial(norm.rmsnorm_backward),
    "through a caller": through_a_caller,
    "imported inside": imported_inside,
    "reloaded inside": reloaded_inside,
    "its source read inside": read_inside,
    "its source executed inside": executed_inside,
    "the refusal swallowed": swallowed,
    "its code saved before": made(ADAPTER, forward=forward, backward=saved),
    "its text pasted, all names changed": made(ADAPTER, forward=forward, backward=pasted["mine"]),
    "a method that calls a copy": made(
        "class Answer:\n"
        "    def __call__(self, dout, x, g, eps):\n"
        "        return backward(dout, forward(x, g, eps)[1])\n"
        "answer = Answer()",
        forward=forward,
        backward=copy.copy(saved),
    ),
    "a variant of the exercise": exercises.load(ID).variants[0],
    "the exercise's reference": exercises.load(ID).reference,
    "the exercise, loaded inside": the_checkers_own,
    "the exercise, imported inside": the_checkers_own_imported,
    "the exercise, imported by its name": the_checkers_own_by_name,
}


@pytest.mark.parametrize("answer", TAKEN.values(), ids=TAKEN.keys())
def test_it_is_recognized(answer):
    verdict = check(ID, answer)
    assert not verdict and verdict.points == 0
    assert "Write yours: that is the exercise." in repr(verdict), verdict
    assert "hint(" not in repr(verdict)


def test_a_reload_before_the_check_opens_nothing():
    kept = {name: getattr(norm, name) for name in ("rmsnorm_backward", "rmsnorm_forward")}
    try:
        fresh = importlib.reload(norm)
        answer = made(ADAPTER, forward=fresh.rmsnorm_forward, backward=fresh.rmsnorm_backward)
        assert "Write yours" in repr(check(ID, answer))
        old = made(ADAPTER, forward=fresh.rmsnorm_forward, backward=kept["rmsnorm_backward"])
        assert "Write yours" in repr(check(ID, old))
    finally:
        vars(norm).update(kept)


def test_the_rest_of_the_library_stays_open():
    def answer(dout, x, g, eps):
        ones = np.ones_like(g)
        z, _ = ops.rmsnorm_forward(x, ones, eps)  # the forward is no secret
        r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
        dz = dout * g
        return r * (dz - z * np.mean(dz * z, axis=-1, keepdims=True)), np.sum(dout * z, axis=(0, 1))

    assert check(ID, answer)


def test_other_names_of_the_learners_do_no_harm():
    """A module or a function that only has the library's name is not the library's."""
    code = """
def rmsnorm_backward(dout, x, g, eps):
    r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    dz = dout * g
    return r * dz - x * r**3 * np.sum(dz * x, axis=-1, keepdims=True) / x.shape[-1], np.sum(dout * x * r, axis=(0, 1))
answer = rmsnorm_backward
"""
    assert check(ID, made(code))


def test_the_library_is_open_again_afterwards():
    before = norm.rmsnorm_backward.__code__
    check(ID, imported_inside)
    assert norm.rmsnorm_backward.__code__ is before
    assert not getattr(library._watched, "files", None)
    open(norm.__file__).close()


def test_every_target_exists_and_is_closed():
    for id in exercises.ids():
        exercise = exercises.load(id)
        for name, function in library.targets(exercise).items():
            with library.closed(exercise, None), pytest.raises(library.Borrowed, match=name.replace(".", r"\.")):
                function()


def test_a_right_answer_written_as_one_of_the_exercises_own_is_the_learners():
    source = textwrap.dedent(inspect.getsource(exercises.load(ID).variants[1])).replace("einsum(", "answer(", 1)
    assert check(ID, made(source))
