"""What the widgets of a whole model have in common: sentences cut into tokens, arguments checked, numbers as shown."""

import html

import numpy as np

from scratch.tokenizer import pieces

FEWEST, MOST = 3, 24
"""Tokens a sentence may have: only from the third on a token has a choice, and the map of more would fit no page."""


def tokens(name, config, tokenizer, sentences):
    """Cut each sentence into tokens: a list of (ids [1, T], the text of each token).

    name is the widget's, for the errors; tokenizer has `encode(text).ids` and `decode(ids)`.

    Raises
    ------
    ValueError
        If the model has no block, sentences is no list of texts, or a text has too few or too many tokens.
    """
    if config.n_layers < 1:
        raise ValueError(f"{name}: config.n_layers is {config.n_layers}, expected 1 or more")
    fits = isinstance(sentences, list | tuple) and all(isinstance(text, str) for text in sentences)
    if not sentences or not fits:
        raise ValueError(f"{name}: sentences is {sentences!r}, expected a list of one text or more")
    cut = []
    for text in sentences:
        ids = np.array([tokenizer.encode(text).ids])
        if not FEWEST <= ids.size <= MOST:
            raise ValueError(f"{name}: {text!r} has {ids.size} tokens, expected {FEWEST} to {MOST}")
        cut.append((ids, pieces(tokenizer, ids[0])))
    return cut


def one_of(name, what, value, count):
    """value as an int, checked to be from 0 to count - 1; what is the argument's name."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < count:
        raise ValueError(f"{name}: {what} is {value!r}, expected a whole number from 0 to {count - 1}")
    return int(value)


def quoted(piece):
    """A token's text for a sentence in HTML."""
    return f"“{html.escape(piece)}”"


def table(caption, head, rows):
    """An HTML table; the first entry of each row names it."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    return f"<table><caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def per_mille(shares):
    """Shares from 0 to 1 as whole thousandths, nested lists: what is shown as percent with one decimal, no more."""
    return np.rint(1000 * np.asarray(shares, np.float64)).astype(int).tolist()


def percent(thousandths):
    """`per_mille`'s numbers in words: 12.3%, and <0.1% for what is not quite nothing."""
    return f"{thousandths / 10:.1f}%" if thousandths else "&lt;0.1%"
