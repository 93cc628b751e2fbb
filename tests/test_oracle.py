"""scratch's forward against the oracle of scalar loops: blocks of every form, stacks, models and losses."""

from dataclasses import replace

import numpy as np
import pytest

from scratch.gradcheck import relative_error
from tests import oracle
from tests.witnesses import CONFIGS, IDS, ROWS, TARGETS

LIMIT = 1e-12


def expected(name, args, config, pad):
    kind = name.partition(",")[0]
    if kind == "block":
        return oracle.whole_block(*args, config, pad)
    if kind == "loss":
        return oracle.loss(IDS, TARGETS, *args, config, pad)
    return (oracle.streams if kind == "stack" else oracle.logits)(IDS, *args, config, pad)


@pytest.mark.parametrize("name", CONFIGS)
def test_scratch_agrees_with_scalar_loops(name):
    args = ROWS[name].args()
    assert relative_error(ROWS[name].forward(*args)[0], expected(name, args, *CONFIGS[name])) < LIMIT


@pytest.mark.parametrize(
    "change",
    [{"rope_layout": "half"}, {"causal": False}, {"eps": 1e-4}, {"form": "parallel"}, {"rope_base": 101.0}],
    ids=lambda change: next(iter(change)),
)
def test_the_oracle_sees_another_wiring(change):
    config, pad = CONFIGS["block, Llama"]
    row, other = ROWS["block, Llama"], replace(config, **change)
    assert relative_error(row.forward(*row.args())[0], expected("block, Llama", row.args(), other, pad)) > 1e-6


def test_no_kept_target_is_loss_zero_for_the_oracle_too():
    name = "loss, Llama, untied"
    assert oracle.loss(IDS, np.full_like(IDS, -100), *ROWS[name].args(), CONFIGS[name][0]) == 0
