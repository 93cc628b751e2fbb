"""The running example: five tokens, four features, one head, with weights made for paper and pencil."""

import numpy as np

from scratch.config import Config

WORDS = ("the", "cat", "sees", "dog")
"""The vocabulary; a word's id is its place."""

SENTENCE = ("the", "cat", "sees", "the", "dog")

CONFIG = Config(
    vocab_size=4,
    d_model=4,
    n_layers=1,
    n_heads=1,
    d_ff=8,
    max_seq=5,
    norm="layernorm",
    ffn="gelu",
    pos="learned",
)
"""GPT-2's kind of block: LayerNorm, a GELU feed-forward twice as wide as the stream, a tied head."""


def ids():
    """The sentence as ids: int [1, 5]."""
    return np.array([[WORDS.index(word) for word in SENTENCE]])


def params():
    """The parameters, a tree as `init_params` returns it, in float64; fresh at each call.

    Each word has a feature of its own: its row of the table is 3/2 there and −1/2 elsewhere. Two numbers of Wq are not
    round. They are chosen so that the last row comes out as in the course's ledger, to three decimals.
    """
    I, ones, zeros = np.eye(4), np.ones(4), np.zeros(4)
    block = {
        "norm1": {"g": ones, "b": zeros},
        "attn": {
            # what each word looks for: cat for the, sees for cat, dog for cat, and for the a little
            "wq": np.array([[0, 0, 0, 0], [3, 0, 0, 0], [0, 3, 0, 0], [1.306, 2.782, 0, 0.01]]),
            "wk": I,
            "wv": I.copy(),
            "wo": np.diag([2.0, 1, 1, 1]),
        },
        "norm2": {"g": ones.copy(), "b": zeros.copy()},
        "ffn": {"w1": np.hstack([I, -I]), "w2": np.vstack([I, I])},
    }
    return {
        "embed": {"table": 2 * I - 0.5},
        "pos": {"table": np.zeros((5, 4))},  # no positions yet: chapter 4 is about them
        "blocks": [block],
        "norm": {"g": ones.copy(), "b": zeros.copy()},
    }
