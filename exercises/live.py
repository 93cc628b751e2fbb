"""Small live blocks that predictions are scored on: built here, changed by an exercise, run, and looked at."""

from dataclasses import replace

import numpy as np

from scratch.block import block_backward, block_forward
from scratch.config import Config
from scratch.model import init_params
from scratch.rope import rope_table

T, D = 5, 8
CONFIG = Config(vocab_size=7, d_model=D, n_layers=1, n_heads=2, n_kv_heads=1, d_ff=12, max_seq=T)


class Block:
    """One block with random weights in float64, a stream x [1, T, D], and switches.

    Parameters
    ----------
    off : names of the branches that add nothing, "attn" and "ffn"
    rope : bool, whether queries and keys are rotated
    zero : names of attention's matrices that are set to 0
    options : fields of Config, such as form="post" or causal=False
    """

    def __init__(self, *, off=(), rope=True, zero=(), **options):
        rng = np.random.default_rng(0)
        self.config = replace(CONFIG, **options)
        self.params = init_params(self.config, dtype=np.float64)["blocks"][0]
        for part in ("attn", "ffn"):
            last = {"attn": "wo", "ffn": "wd"}[part]
            for name, w in self.params[part].items():
                silent = (part in off and name == last) or (part == "attn" and name in zero)
                self.params[part][name] = rng.standard_normal(w.shape) / np.sqrt(w.shape[0]) * (not silent)
        self.rope = rope_table(T, self.config.head_dim) if rope else None
        self.x = rng.standard_normal((1, T, self.config.d_model))

    def run(self, x=None):
        """The output [1, T, D] for the stream x."""
        return self.seen(x)["out"]

    def seen(self, x=None):
        """out, what each branch added (attn, ffn, [1, T, D]), and the attention map [1, H, T, T]."""
        found = {}
        x = self.x if x is None else x
        out, self._cache = block_forward(x, self.params, self.config, rope=self.rope, watch=found.update)
        return found | {"out": out}

    def gradient(self, dout):
        """dx for this upstream."""
        return self.gradients(dout)[0]

    def gradients(self, dout, x=None):
        """dx and the tree of the weights' gradients for this upstream."""
        self.run(x)
        return block_backward(dout, self._cache)

    def changed(self, row):
        """The rows of the output that change when row `row` of the stream is replaced."""
        other = self.x.copy()
        other[:, row] = np.random.default_rng(1).standard_normal(self.config.d_model)
        return [int(t) for t in np.flatnonzero(np.abs(self.run(other) - self.run()).max(axis=(0, 2)) > 1e-9)]


def rows(changed, row):
    """In a word, which rows those are, seen from `row`."""
    words = {(): "none", (row,): "own", tuple(range(row, T)): "later", tuple(range(row + 1)): "earlier"}
    return {**words, tuple(range(T)): "all"}[tuple(changed)]


ROWS = {
    "none": "no row",
    "own": "that token's row alone",
    "earlier": "that row and those before it",
    "later": "that row and those after it",
    "all": "all five rows",
}
