"""Exercise shared-gradients: who hears whom, forward and backward, when six query heads share two key heads."""

import numpy as np

from exercises.spec import Choice, Part
from scratch.attention import sdpa_backward, sdpa_forward

H, K, T, DH = 6, 2, 4, 3


class _Live:
    """Six query heads on two key heads, random, and the gradients for an upstream of one's choice."""

    def __init__(self):
        rng = np.random.default_rng(3)
        self.q, self.dout = rng.standard_normal((2, 1, H, T, DH))
        self.k, self.v = rng.standard_normal((2, 1, K, T, DH))

    def out(self):
        return sdpa_forward(self.q, self.k, self.v)[0]

    def gradients(self):
        return sdpa_backward(self.dout, sdpa_forward(self.q, self.k, self.v)[1])


def _silenced():
    """Gradients before and after the upstream of query head 3 is set to zero."""
    live = _Live()
    before = live.gradients()
    live.dout[:, 3] = 0
    return before, live.gradients()


def _heads(change):
    """The heads [1, n, T, Dh] in which something is not zero."""
    return tuple(int(h) for h in np.flatnonzero(np.abs(change).max(axis=(0, 2, 3)) > 1e-12))


def _noticed():
    live = _Live()
    before = live.out()
    live.k[:, 1] = 0
    return {(3, 4, 5): "345", (1, 3, 5): "135", (2, 3): "23", (1,): "1"}[_heads(live.out() - before)]


def _queries():
    (before, *_), (after, *_) = _silenced()
    silent = tuple(h for h in range(H) if h not in _heads(after))
    return {(3,): "3", (3, 4, 5): "345", tuple(range(H)): "all", (): "none"}[silent]


def _key(head):
    (_, before, _), (_, after, _) = _silenced()
    if head not in _heads(after):
        return "zero"
    return "other" if head in _heads(after - before) else "same"


def _three_alike():
    live = _Live()
    live.q[:, 4:] = live.q[:, 3:4]
    live.dout[:, 4:] = live.dout[:, 3:4]
    together = live.gradients()[1][:, 1]
    live.dout[:, 4:] = 0
    ratio = float(np.median(together / live.gradients()[1][:, 1]))
    return {1: "once", 3: "three", 9: "nine"}[round(ratio)]


_KEY = {"zero": "it becomes zero", "same": "it stays as it was", "other": "it changes, and is not zero"}

exercise = Choice(
    id="shared-gradients",
    title="Who hears whom",
    chapter="05_sharing",
    answer="prediction",
    points=2,
    stars=1,
    minutes=10,
    parts=(
        Part(
            name="forward",
            ask="Six query heads, two key heads. The keys of key head 1 are set to zero. Which query heads notice?",
            options={
                "345": "heads 3, 4 and 5",
                "135": "heads 1, 3 and 5",
                "23": "heads 2 and 3",
                "1": "head 1 alone",
            },
            wrong={
                "135": "That deals the key heads out in turn, h % K. Neighbours share: h // (H // K).",
                "23": "That is h // K: you took K for the size of a group. How many query heads share one key head?",
                "1": "With six query heads on two key heads, each key head has more than one reader.",
            },
            right=_noticed,
        ),
        Part(
            name="queries",
            ask="The keys are back. Now the upstream of query head 3's output is zero. For which heads is the queries' "
            "gradient zero?",
            options={"3": "head 3 alone", "345": "heads 3, 4 and 5", "all": "all six", "none": "none"},
            wrong={
                "345": "Heads 4 and 5 share keys with head 3, but not queries. Who else reads their queries?",
                "all": "A query acts on its own head's output alone, and five outputs still have an upstream.",
                "none": "By which way could the loss still feel the queries of head 3?",
            },
            right=_queries,
        ),
        Part(
            name="own key",
            ask="What does that do to the gradient of key head 1?",
            options=_KEY,
            wrong={
                "zero": "Heads 4 and 5 read key head 1 as well, and their upstream is not zero.",
                "same": "The gradient of a shared head is a sum over its readers. One of them was head 3.",
            },
            right=lambda: _key(1),
        ),
        Part(
            name="other key",
            ask="And to the gradient of key head 0?",
            options=_KEY,
            wrong={
                "zero": "Query heads 0, 1 and 2 read key head 0. Nothing was done to them.",
                "other": "Which query heads read key head 0? Is head 3 one of them?",
            },
            right=lambda: _key(0),
        ),
        Part(
            name="three alike",
            ask="The upstream is back, too. Heads 3, 4 and 5 now have equal queries and equal upstreams. Compared with "
            "what head 3 alone would send, the gradient of key head 1 is …",
            options={
                "third": "a third",
                "once": "the same",
                "three": "three times as large",
                "nine": "nine times as large",
            },
            wrong={
                "third": "Each of the three makes use of the whole key. Does the loss then feel the key less, or more?",
                "once": "That would be a mean. Each of the three makes use of the whole key.",
                "nine": "Three readers, and each adds its share once.",
            },
            right=_three_alike,
        ),
    ),
    hints=(
        "Write down for h = 0 … 5 which key head it reads: h // (H // K), with H // K = 3.",
        "Backward, arrows turn round: whoever read a key head sends it a gradient. A query was read by its own head.",
        "What has several readers adds up what they send, undivided. A reader with upstream zero sends zero.",
    ),
    takeaway="Forward, a key head is read by its group. Backward, the group's gradients add up in it.",
)
