"""Each pair of scratch before each of its four witnesses, and proof that every witness refuses what is wrong."""

import importlib
import inspect
from dataclasses import replace

import numpy as np
import pytest

from scratch.gradcheck import GradientError
from scratch.model import map_leaves
from tests.witnesses import LIMIT, ROWS, TORCH, WITNESSES, torch_arrays

MODULES = (
    "ops",
    "norm",
    "loss",
    "rope",
    "attention",
    "ffn",
    "block",
    "model",
    "tiled",
    "fused",
    "moe",
    "latent",
    "blocked",
)
names = pytest.mark.parametrize("name", ROWS)
witnesses = pytest.mark.parametrize("witness", WITNESSES)


def refused(witness, row):
    try:
        return not WITNESSES[witness](row) < LIMIT
    except GradientError:
        return True


def with_backward(row, change):
    """The row with every gradient g replaced by change(argument's number, g)."""

    def backward(dout, cache):
        got = row.backward(dout, cache)
        if not isinstance(got, tuple):
            return map_leaves(lambda _, g: change(0, g), got)
        return tuple(map_leaves(lambda _, g: change(i, g), tree) for i, tree in enumerate(got))  # noqa: B023

    return replace(row, backward=backward)


@witnesses
@names
def test_witness(name, witness):
    assert WITNESSES[witness](ROWS[name]) < LIMIT


@witnesses
@names
def test_a_backward_scaled_by_a_millionth_or_zeroed_is_refused(name, witness):
    for factor in (1 + 1e-6, 0.0):
        assert refused(witness, with_backward(ROWS[name], lambda _, g: factor * g))  # noqa: B023


@pytest.mark.parametrize("witness", ["differences", "autograd", "PyTorch"])
@names
def test_one_wrong_argument_among_right_ones_is_refused(name, witness):
    row = ROWS[name]
    for wrong in range(len(row.args())):
        # Added, not multiplied: a key bias without RoPE has gradient 0, and 0 scaled is still right.
        off = lambda i, g: g + (1e-6 * max(1, np.abs(g).max()) if i == wrong else 0)  # noqa: B023, E731
        assert refused(witness, with_backward(row, off))


@pytest.mark.parametrize("witness", ["autograd", "PyTorch"])
@names
def test_a_wrong_output_is_refused_though_its_backward_is_right(name, witness):
    row = ROWS[name]

    def forward(*args):
        out, cache = row.forward(*args)
        return (1 + 1e-6) * out, cache

    assert refused(witness, replace(row, forward=forward))


def test_every_pair_has_a_row():
    """A new pair of scratch needs a row in tests/witnesses.py."""
    pairs = {
        name.removesuffix("_forward")
        for module in MODULES
        for name, value in vars(importlib.import_module(f"scratch.{module}")).items()
        if inspect.isfunction(value) and name.endswith("_forward") and not name.startswith("_")
    }
    assert pairs == {name for row in ROWS.values() for name in row.covers}


def test_stored_arrays_are_plain_small_and_tell_their_version():
    assert TORCH.stat().st_size < 400_000
    arrays = torch_arrays()
    assert {array.dtype.kind for array in arrays.values()} <= set("fiU")
    assert str(arrays["version"]).split(".")[0] == "2"
    assert len(arrays) == 4 * len(ROWS) + 1


def test_arrays_made_for_other_arguments_are_refused():
    """Otherwise a changed row would be held against what PyTorch gave for the old one."""
    changed = replace(ROWS["silu"], args=lambda: [np.ones((3, 5, 9))])
    with pytest.raises(ValueError, match="torch.npz was made for other arguments"):
        WITNESSES["PyTorch"](changed)
