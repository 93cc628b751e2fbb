"""A small model with sharp attention and a tokenizer of letters: what the widgets of a model are tested on."""

from types import SimpleNamespace

from scratch.config import Config
from scratch.model import init_params, map_leaves

LETTERS = " abcdefghijklmnopqrstuvwxyz<&"


class Letters:
    """Each letter is a token."""

    def encode(self, text):
        """The ids of a text, as a tokenizer of the tokenizers package gives them."""
        return SimpleNamespace(ids=[LETTERS.index(letter) for letter in text])

    def decode(self, ids, skip_special_tokens=True):
        """The text of ids."""
        return "".join(LETTERS[i] for i in ids)


def toy_model(scale=1.0, seed=0, **options):
    """(params, config): matrices of order 1 instead of 0.02, times scale; options as of Config."""
    sizes = {"d_model": 12, "n_layers": 3, "n_heads": 4, "d_head": 6, "n_kv_heads": 2, "d_ff": 20, "max_seq": 32}
    config = Config(**{"vocab_size": len(LETTERS)} | sizes | options)
    params = init_params(config, seed)
    return map_leaves(lambda name, leaf: leaf if leaf.ndim == 1 else (20 * scale * leaf).astype("f8"), params), config
