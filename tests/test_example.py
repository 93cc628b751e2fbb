"""The running example gives the ledger's numbers, and is a model like any other."""

import numpy as np
import pytest

from scratch import example
from scratch.block import block_forward
from scratch.gradcheck import leaves
from scratch.model import init_params, model_forward
from scratch.ops import layernorm_forward

LEDGER = {  # F20 to F24, the last row
    "x": [-0.5, -0.5, -0.5, 1.5],
    "a": [-0.739, 1.411, -0.521, -0.520],
    "h": [-1.239, 0.911, -1.021, 0.980],
    "u": [-1.102, 0.964, -0.892, 1.030],
    "m": [0.803, 0.640, 0.560, 0.718],
    "y": [-0.436, 1.551, -0.461, 1.698],
}


@pytest.mark.parametrize("name", LEDGER)
def test_the_last_row_is_the_ledgers_to_three_decimals(name):
    params, seen = example.params(), {}
    block, x = params["blocks"][0], params["embed"]["table"][example.ids()]
    y, _ = block_forward(x, block, example.CONFIG, watch=seen.update)
    h = x + seen["attn"]
    u, _ = layernorm_forward(h, block["norm2"]["g"], block["norm2"]["b"])
    rows = {"x": x, "a": seen["attn"], "h": h, "u": u, "m": seen["ffn"], "y": y}
    assert np.round(rows[name][0, -1], 3).tolist() == LEDGER[name]


def test_it_is_a_model():
    params = example.params()
    drawn = init_params(example.CONFIG)
    assert {name: w.shape for name, w in leaves(params)} == {name: w.shape for name, w in leaves(drawn)}
    logits, _ = model_forward(example.ids(), params, example.CONFIG)
    assert logits.shape == (1, 5, 4)
    assert [example.WORDS[t] for t in example.ids()[0]] == list(example.SENTENCE)


def test_it_is_fresh_at_each_call():
    example.params()["blocks"][0]["attn"]["wk"][0, 0] = 7
    assert example.params()["blocks"][0]["attn"]["wk"][0, 0] == 1
    assert len({id(w) for _, w in leaves(example.params())}) == len(list(leaves(example.params())))
