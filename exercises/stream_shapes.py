"""Exercise stream-shapes: which shapes and rows the stream has, from ids to logits."""

import dataclasses

import numpy as np

from exercises.spec import Choice, Part
from scratch import example
from scratch.config import Config
from scratch.model import init_params, loss_backward, loss_forward
from scratch.trace import trace

CONFIG = Config(vocab_size=11, d_model=8, n_layers=2, n_heads=2, d_ff=21, max_seq=9)
IDS = np.random.default_rng(0).integers(0, 11, (3, 5))


def _seen(ids=IDS, config=CONFIG):
    """What a small model works on, by name."""
    params = init_params(config)
    run = trace(ids, params, config)
    table = params["embed"]["table"]
    return {"ids": ids, "table": table, "stream": run.stream[1], "logits": run.logits, "start": run.stream[0]}


def _as_text(array):
    return "[" + ", ".join(map(str, array.shape)) + "]"


def _shape(name, options):
    """The key of the option that is the shape of this array."""
    return next((key for key, said in options.items() if said == _as_text(_seen()[name])), "none")


def _kept(**change):
    """Which of the arrays keeps its shape when the model or the text is another."""
    before, after = _seen(), _seen(**change)
    same = [name for name in ("ids", "table", "stream", "logits") if before[name].shape == after[name].shape]
    return ", ".join(same)


def _the():
    """Rows 1 and 4 of the running example, both "the": before the block, and after it."""
    stream = trace(example.ids(), example.params(), example.CONFIG).stream[:, 0]  # [L+1, T, D]
    return tuple("equal" if np.array_equal(rows[0], rows[3]) else "different" for rows in stream)


def _rows_reached():
    """How many rows of the table get a gradient from the lookup; the head is kept apart."""
    ids, config = np.array([[0, 1, 2, 0, 3]]), dataclasses.replace(CONFIG, tied=False)
    params = init_params(config)
    _, cache = loss_forward(ids, np.roll(ids, -1), params, config)
    grad = loss_backward(1.0, cache)["embed"]["table"]
    return str(int(np.count_nonzero(np.abs(grad).sum(axis=1))))


def _without_branches():
    """What two blocks whose branches add nothing make of the embedding."""
    params = init_params(CONFIG)
    for block in params["blocks"]:
        block["attn"]["wo"] *= 0
        block["ffn"]["wd"] *= 0
    stream = trace(IDS, params, CONFIG).stream
    return "rows" if np.array_equal(stream[-1], params["embed"]["table"][IDS]) else "zeros"


_LOOKUP = {"a": "[3, 5]", "b": "[3, 5, 8]", "c": "[3, 5, 11]", "d": "[11, 8]"}
_BLOCK = {"a": "[3, 5, 21]", "b": "[3, 5, 16]", "c": "[3, 5, 8]", "d": "[3, 8]"}
_LOGITS = {"a": "[3, 11]", "b": "[3, 5, 11]", "c": "[3, 5, 8]", "d": "[3, 5]"}
_ARRAYS = {"ids": "the ids", "table": "the table", "stream": "the stream", "logits": "the logits"}

exercise = Choice(
    id="stream-shapes",
    title="Shapes along the stream",
    chapter="01_tokens",
    answer="answers",
    points=2,
    stars=1,
    minutes=10,
    parts=(
        Part(
            name="lookup",
            ask="ids is [3, 5], the table is [11, 8]. What shape does table[ids] have?",
            options=_LOOKUP,
            wrong={
                "a": "That is one number for each token. Each id is replaced by a whole row.",
                "c": "11 is how many rows there are to choose from. How long is the row that is chosen?",
                "d": "The table itself has this shape. One of its rows comes out for each of the ids.",
            },
            right=lambda: _shape("start", _LOOKUP),
        ),
        Part(
            name="block",
            ask="That goes into a block whose feed-forward is 21 wide. What shape has the stream after it?",
            options=_BLOCK,
            wrong={
                "a": "21 is the width inside the feed-forward. What has to fit, to be added to the stream?",
                "b": "What attention and the feed-forward answer is added, not laid beside what was there.",
                "d": "Every token keeps a row of its own; a block does not sum them up.",
            },
            right=lambda: _shape("stream", _BLOCK),
        ),
        Part(
            name="logits",
            ask="At the end, each row of the stream is compared with every row of the table. What shape results?",
            options=_LOGITS,
            wrong={
                "a": "That would be one comparison for each sequence. Every token's row is compared.",
                "c": "A comparison with one row of the table gives one number. With how many is it compared?",
                "d": "That is one number for each token. It is compared with every word of the vocabulary.",
            },
            right=lambda: _shape("logits", _LOGITS),
        ),
        Part(
            name="longer",
            ask="Every sequence gets one token more. Which array keeps its shape?",
            options=_ARRAYS,
            wrong={
                "ids": "The ids are one number for each token, so they grow with the text.",
                "stream": "The stream has one row for each token, so it grows with the text.",
                "logits": "There are logits at each position, so they grow with the text.",
            },
            right=lambda: _kept(ids=np.hstack([IDS, IDS[:, :1]])),
        ),
        Part(
            name="start",
            ask='The running example reads "the" at positions 1 and 4. Before the first block, its two rows are …',
            options={"equal": "equal", "different": "different"},
            wrong={
                "different": "A lookup knows the id and nothing else. What could make the rows differ?",
            },
            right=lambda: _the()[0],
        ),
        Part(
            name="later",
            ask="And after the block?",
            options={"equal": "equal", "different": "different"},
            wrong={
                "equal": "The second one has more words before it, and attention reads them. What is added to its row?",
            },
            right=lambda: _the()[1],
        ),
        Part(
            name="silent",
            ask="Two blocks, and no part of them adds anything. What is the stream at the end?",
            options={"zeros": "zeros", "rows": "the rows that the lookup gave", "twice": "those rows, doubled"},
            wrong={
                "zeros": "Blocks add to the stream. Nothing was added; what was there before?",
                "twice": "A block that adds nothing adds nothing, however many there are.",
            },
            right=_without_branches,
        ),
        Part(
            name="backward",
            ask='"the cat sees the dog" is looked up in a table of 11 rows. How many of these can get '
            "a gradient other than zero from this lookup?",
            options={key: key for key in ("1", "4", "5", "11")},
            wrong={
                "1": "Each token has a gradient, which goes to the row that was read for it. How many rows were read?",
                "5": 'Five tokens, but "the" occurs twice: both of its gradients go to the same row.',
                "11": "A row that nobody read did not act on the stream, so its gradient is zero.",
            },
            right=_rows_reached,
        ),
    ),
    hints=(
        "A lookup replaces each number of ids by a row. Everything after it keeps one row for each token.",
        "What a part adds must have the stream's shape, whatever widths it uses inside.",
        "The comparison with the table gives, for each token, one number for each row of the table.",
        "Words that do not occur are not read. A word that occurs twice has one row, which is read twice.",
    ),
    takeaway="From the lookup to the last block, each token has one row of D numbers; at the end, V logits.",
)
