"""Exercise head-predictions: what the two ends of a model do, decided by running a small one."""

import dataclasses

import numpy as np

from exercises.spec import Choice, Part
from scratch.config import Config
from scratch.model import head_weight, init_params, loss_backward, loss_forward, model_forward, stack_forward
from scratch.ops import cross_entropy_forward

CONFIG = Config(vocab_size=9, d_model=16, n_layers=2, n_heads=2, d_ff=21, max_seq=6)
IDS = np.array([[2, 0, 5, 2, 7, 3]])  # words 1, 4, 6 and 8 do not occur


def _params(config=CONFIG, loud=True):
    """Random parameters in float64; the table's entries are of size 1 where `loud`."""
    params = init_params(config, dtype=np.float64)
    if loud:
        params["embed"]["table"] /= 0.02
    return params


def _silenced(params):
    """The same with both branches of every block adding nothing."""
    blocks = [
        b | {"attn": b["attn"] | {"wo": 0 * b["attn"]["wo"]}, "ffn": b["ffn"] | {"wd": 0 * b["ffn"]["wd"]}}
        for b in params["blocks"]
    ]
    return params | {"blocks": blocks}


def _times(after, before):
    """By which factor the logits grew, as an option's key."""
    ratio = float(np.median(after / before))
    return (
        {1: "same", 2: "two", 4: "four"}.get(round(ratio), "other")
        if np.isclose(ratio, round(ratio), 0.01)
        else "other"
    )


def _silent():
    """What a tied model says with all branches silent: the word itself, the next one, or whatever."""
    logits, _ = model_forward(IDS, _silenced(_params()), CONFIG)
    best = logits[0].argmax(axis=-1)
    if np.array_equal(best, IDS[0]):
        return "itself"
    return "next" if np.array_equal(best[:-1], IDS[0, 1:]) else "any"


def _stream_doubled():
    """By how much the logits grow when the stream that enters the final norm is doubled, and the head stays."""
    params = _silenced(_params())
    twice = params | {"embed": {"table": 2 * params["embed"]["table"]}}
    h, h2 = (stack_forward(IDS, tree, CONFIG)[0] for tree in (params, twice))
    head = head_weight(params, CONFIG)  # the same for both
    return _times(h2 @ head, h @ head)


def _table_doubled():
    """The same, and the head doubled with the table."""
    params = _silenced(_params())
    twice = params | {"embed": {"table": 2 * params["embed"]["table"]}}
    return _times(model_forward(IDS, twice, CONFIG)[0], model_forward(IDS, params, CONFIG)[0])


def _constant():
    logits, _ = model_forward(IDS[:, :-1], _params(), CONFIG)
    before, after = (cross_entropy_forward(logits + c, IDS[:, 1:])[0] for c in (0, 5))
    return "same" if np.isclose(before, after) else "up" if after > before else "down"


def _twice_the_words():
    """How an untrained model's loss moves when its vocabulary is doubled."""
    found = []
    for V in (500, 1000):
        config = dataclasses.replace(CONFIG, vocab_size=V, max_seq=64)
        text = np.random.default_rng(0).integers(0, V, (8, 65))
        found.append(float(loss_forward(text[:, :-1], text[:, 1:], _params(config, loud=False), config)[0]))
    moved = found[1] - found[0]
    return "ln2" if abs(moved - np.log(2)) < 0.1 else "stays" if abs(moved) < 0.1 else "doubles"


def _absent():
    """Does the table's row of a word that does not occur have a gradient, tied and untied?"""
    moves = []
    for tied in (True, False):
        config = dataclasses.replace(CONFIG, tied=tied)
        _, cache = loss_forward(IDS[:, :-1], IDS[:, 1:], _params(config), config)
        moves.append(bool(np.any(loss_backward(1.0, cache)["embed"]["table"][8])))
    return {(True, True): "both", (True, False): "tied", (False, True): "untied", (False, False): "neither"}[
        tuple(moves)
    ]


_FACTORS = {"same": "as before", "two": "twice as large", "four": "four times as large"}

exercise = Choice(
    id="head-predictions",
    title="What the two ends do",
    chapter="09_stack",
    answer="predictions",
    points=2,
    stars=1,
    minutes=10,
    parts=(
        Part(
            name="silent",
            ask="A tied model's table is random, and none of its blocks adds anything. Which word gets the largest "
            "logit at each position?",
            options={"itself": "the word that stands there", "next": "the word that comes next", "any": "any word"},
            wrong={
                "next": "Nothing was learned, and no branch added anything. What does the final norm receive?",
                "any": "The row of the word that was read is compared with every row. Which one does it resemble most?",
            },
            right=_silent,
        ),
        Part(
            name="stream",
            ask="The stream that enters the final norm is doubled. The logits are …",
            options=_FACTORS,
            wrong={
                "two": "Between the stream and the head stands a norm. What does it do with a row twice as long?",
                "four": "Between the stream and the head stands a norm. What does it do with a row twice as long?",
            },
            right=_stream_doubled,
        ),
        Part(
            name="table",
            ask="In the tied model whose blocks add nothing, the table is doubled. The logits are …",
            options=_FACTORS,
            wrong={
                "same": "The final norm undoes one of the two doublings. The head reads the table as well.",
                "four": "The table is used twice, but between the two uses stands the final norm.",
            },
            right=_table_doubled,
        ),
        Part(
            name="constant",
            ask="The number 5 is added to every logit. The loss …",
            options={"up": "rises", "same": "stays", "down": "falls"},
            wrong={
                "up": "log Σ exp(z) rises by 5. What is subtracted from it?",
                "down": "The target's logit rises by 5. So does what it is subtracted from.",
            },
            right=_constant,
        ),
        Part(
            name="vocabulary",
            ask="An untrained model gets a vocabulary twice as large. Its first loss …",
            options={"stays": "stays", "ln2": "rises by about 0.7", "doubles": "doubles"},
            wrong={
                "stays": "It has more words to choose from, and knows as little. What is ln V?",
                "doubles": "Each word's probability is halved. What does that do to its logarithm?",
            },
            right=_twice_the_words,
        ),
        Part(
            name="absent",
            ask="A word never occurs in the text. When does its row of the embedding table get a gradient?",
            options={
                "neither": "never",
                "untied": "only if the head is a matrix of its own",
                "tied": "only if the head is tied",
                "both": "always",
            },
            wrong={
                "neither": "The lookup leaves the row alone. But what does a tied head compute at every position?",
                "untied": "Then the table serves the lookup alone, and this row is never looked up.",
                "both": "With a head of its own, only the lookup uses the table. Is this row looked up?",
            },
            right=_absent,
        ),
    ),
    hints=(
        "Write down the way out: h = Norm(x), then z = h Eᵀ, then log Σ exp(z) − z[target].",
        "A norm forgets a row's length. A number added to all logits of a row leaves softmax as it is.",
        "An untrained model's loss is about ln V. The lookup reaches rows that occur, a tied head reaches all.",
    ),
    takeaway="The final norm stands between the table's two uses: it forgets the length of what came in.",
)
