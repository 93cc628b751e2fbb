"""Counting as a language model: the next token from the few before it, each order leaning on the one below."""

import numpy as np

from scratch import _check


def ngram_fit(ids, targets, order, vocab_size, *, prior=1.0):
    """Probabilities of the next token given the order − 1 before it, from counts.

    With c(h, t) the number of times that token t followed the history h, and p' the model whose history is one token
    shorter, ``p(t | h) = (c(h, t) + prior p'(t | h')) / (c(h) + prior)``. Below order 1 all tokens are equally
    probable. So every token keeps some probability, and a history that was never seen says what the shorter one says.

    Parameters
    ----------
    ids, targets : integer arrays [N, T], one text in a row, whose first id stands for all that came before it; a
        target of -100 is not counted
    order : int, 1 or more: 1 for a unigram, 2 for a bigram, 3 for a trigram
    vocab_size : int, V
    prior : float, how many observations the shorter history is worth

    Returns
    -------
    p : float64 array [V, …, V] with `order` axes; p[h1, h2, t] for a trigram; rows along the last axis sum to 1

    Raises
    ------
    ValueError
        If order or prior is not positive, or ids are outside the vocabulary.

    Source: MacKay & Peto 1995, one prior for all orders. Book: eq-ngram.
    """
    if order < 1 or not prior > 0:
        raise ValueError(f"ngram_fit: order={order}, prior={prior}, expected order >= 1 and prior > 0")
    _check.ids("ngram_fit", "ids", ids, vocab_size)
    _check.ids("ngram_fit", "targets", targets, vocab_size, ignore=-100)
    p = np.full(vocab_size, 1 / vocab_size)
    for n in range(1, order + 1):
        counts = np.zeros((vocab_size,) * n)
        np.add.at(counts, _events(ids, targets, n), 1)
        total = counts.sum(-1, keepdims=True)
        p = (counts + prior * p) / (total + prior)  # p spreads over the new first axis
    return p


def ngram_loss(p, ids, targets):
    """Mean cross-entropy in nats of `ngram_fit`'s p over the targets that are not -100; ids, targets as there."""
    return float(-np.log(p[_events(ids, targets, p.ndim)]).mean())


def _events(ids, targets, order):
    """Index arrays of each counted token with its history: `order` of them, the token last."""
    before = np.repeat(ids[:, :1], order, axis=1)
    past = np.concatenate([before, ids], axis=1)  # [N, order + T]; column order + t is ids[:, t]
    kept = targets != -100
    T = ids.shape[1]
    history = [past[:, order + 1 - k : order + 1 - k + T][kept] for k in range(order - 1, 0, -1)]
    return *history, targets[kept]
