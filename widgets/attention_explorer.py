"""The attention explorer: every head of a model on a few sentences; choose a token and see where it looks."""

import string

import numpy as np

from scratch.trace import trace
from widgets import base
from widgets.sentences import one_of, per_mille, percent, quoted, table, tokens

NAME = "attention_explorer"
SENTENCES = (
    "The keeper lit the lamp because it was dark.",
    "The keeper lit the lamp. Then the keeper lit the",
    "When Mary met John, John gave a book to",
)
HABITS = ("first", "before", "itself", "entropy")
BASE_32 = string.digits + string.ascii_lowercase[:22]


def attention_explorer(
    params,
    config,
    tokenizer,
    sentences=SENTENCES,
    *,
    sentence=0,
    layer=0,
    head=0,
    token=None,
    without_first=False,
    habit="first",
):
    """Show where each head of each block looks.

    Parameters
    ----------
    params, config : a model of scratch
    tokenizer : cuts text into tokens, as `scratch.pretrained.smollm2` returns one
    sentences : list of str, of 3 to 24 tokens each
    sentence, layer, head, token : int, counted from 0, what is shown first; token is the last one if left out
    without_first : bool, leave the first token out and divide the rest of each row by its sum
    habit : str, what the map of all heads shows first: one of HABITS, see `habits`

    Returns
    -------
    the widget; sentence, layer, head, token, without_first and habit can be read and set

    Raises
    ------
    ValueError
        If an argument is out of range, or a sentence has too few or too many tokens.
    """
    cut = tokens(NAME, config, tokenizer, sentences)
    sentence = one_of(NAME, "sentence", sentence, len(cut))
    layer = one_of(NAME, "layer", layer, config.n_layers)
    head = one_of(NAME, "head", head, config.n_heads)
    pieces = cut[sentence][1]
    token = len(pieces) - 1 if token is None else one_of(NAME, "token", token, len(pieces))
    if habit not in HABITS:
        raise ValueError(f"{NAME}: habit is {habit!r}, expected one of {', '.join(HABITS)}")
    maps = [trace(ids, params, config).maps[:, 0] for ids, _ in cut]  # each [L, H, T, T]
    data = {
        "layers": config.n_layers,
        "heads": config.n_heads,
        "causal": config.causal,
        "sentences": [{"pieces": names} | packed(seen, config.causal) for (_, names), seen in zip(cut, maps)],
    }
    return base.show(
        NAME,
        "Attention explorer",
        _words(pieces, maps[sentence], layer, head, token),
        data,
        sentence=sentence,
        layer=layer,
        head=head,
        token=token,
        without_first=bool(without_first),
        habit=habit,
    )


def habits(maps):
    """What heads do on average, over the rows from the third on: a dict of arrays [L, H].

    first, before, itself : the share of the attention on the first token, on the one before, on the token itself
    entropy : of the row, in bits; 0 for a head that looks at one token, log2(T) for one that looks at all alike

    maps is [L, H, T, T]. (The second token is left out because the one before it is the first one, too.)
    """
    rows = np.arange(2, maps.shape[-1])
    weights = maps[..., 2:, :].astype(np.float64)
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    return {
        "first": weights[..., 0].mean(axis=-1),
        "before": maps[..., rows, rows - 1].mean(axis=-1, dtype=np.float64),
        "itself": maps[..., rows, rows].mean(axis=-1, dtype=np.float64),
        "entropy": np.abs((weights * logs).sum(axis=-1).mean(axis=-1)),
    }


def packed(maps, causal):
    """Maps [L, H, T, T] for the script, in thousandths: each number is rounded once, to the digits that are shown.

    weights : all that each row sees, row after row, two digits of base 32 a number
    others : the same without the first token, divided by its sum
    """
    T = maps.shape[-1]
    visible = np.tri(T, dtype=bool) if causal else np.ones((T, T), bool)
    others = maps[..., 1:].astype(np.float64)
    total = others.sum(axis=-1, keepdims=True)
    others = np.divide(others, total, out=np.zeros_like(others), where=total > 0)
    known = habits(maps)
    return {
        "weights": _digits(maps[..., visible]),
        "others": _digits(others[..., visible[:, 1:]]),
        "habits": {key: per_mille(known[key]) for key in HABITS[:3]} | {"entropy": known["entropy"].round(2).tolist()},
    }


def _digits(shares):
    return "".join(BASE_32[n // 32] + BASE_32[n % 32] for n in np.ravel(per_mille(shares)))


def _words(pieces, maps, layer, head, token):
    row = per_mille(maps[layer, head, token])
    seen = [(quoted(piece), percent(share)) for piece, share in zip(pieces, row) if share]
    most = int(np.argmax(maps[layer, head, token]))
    mean = per_mille(habits(maps)["first"][layer, head])
    caption = f"Where {quoted(pieces[token])} looks (tokens with less than 0.05% left out)"
    return (
        f"<p>The sentence is {quoted(''.join(pieces))}. In block {layer + 1}, head {head + 1}, the token "
        f"{quoted(pieces[token])} looks most at {quoted(pieces[most])}: {percent(row[most])} of its attention. On "
        f"average over the tokens from the third on, this head gives {percent(mean)} to the first token.</p>"
        + table(caption, ("token", "weight"), seen)
    )
