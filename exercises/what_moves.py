"""Exercise what-moves: predict what queries, keys and values each move in a head; a live head decides."""

import numpy as np

from exercises.live import ROWS, T, rows
from exercises.spec import Choice, Part
from scratch import attention

MAP = {
    "none": "no row of the map",
    "own": "that token's row of the map alone",
    "later": "that row of the map and those after it",
    "all": "all five rows of the map",
}


def _head():
    return dict(zip("qkv", np.random.default_rng(0).standard_normal((3, 1, 1, T, 6)), strict=True))


def _run(q, k, v):
    """The output and the map, without the axes of batch and head."""
    out, (*_, weights) = attention.sdpa_forward(q, k, v)
    return out[0, 0], weights[0, 0]


def _replaced(name, what):
    """The rows of the output (0) or of the map (1) that change when the third token's q, k or v is replaced."""
    head = _head()
    before = _run(**head)[what]
    head[name][..., 2, :] = np.random.default_rng(1).standard_normal(6)
    change = np.abs(_run(**head)[what] - before).max(axis=-1)
    return rows([int(t) for t in np.flatnonzero(change > 1e-9)], 2)


def _shifted(name):
    """What the output does when the same vector is added to all rows of q, k or v."""
    head, shift = _head(), np.arange(1.0, 7.0)
    before = _run(**head)[0]
    head[name] = head[name] + shift
    after = _run(**head)[0]
    known = {"same": before, "shifted": before + shift}
    return next((word for word, out in known.items() if np.allclose(after, out)), "different")


def _doubled():
    """The largest weight of the last query, when all queries are twice as long."""
    head = _head()
    before = _run(**head)[1][-1].max()
    head["q"] = 2 * head["q"]
    after = _run(**head)[1][-1].max()
    return "grows" if after > before + 1e-9 else "shrinks" if after < before - 1e-9 else "same"


SHIFTED = {"same": "does not change", "shifted": "is moved by that same vector", "different": "changes otherwise"}

exercise = Choice(
    id="what-moves",
    title="What moves what",
    chapter="03_attention",
    answer="predictions",
    points=2,
    stars=1,
    minutes=12,
    parts=(
        Part(
            name="query",
            ask="The third token's query is replaced, nothing else. Which rows of the output change?",
            options=ROWS,
            wrong={
                "none": "The query decides where that token looks. Does its own output not depend on it?",
                "earlier": "A query is used in one row of the map alone: whose?",
                "later": "Later tokens read the third one's key and value. Do they ever meet its query?",
                "all": "A query is used in one row of the map alone: whose?",
            },
            right=lambda: _replaced("q", 0),
        ),
        Part(
            name="key",
            ask="The third token's key is replaced, nothing else. Which rows of the output change?",
            options=ROWS,
            wrong={
                "none": "A key takes part in scores, and scores decide the weights. Who meets the third key?",
                "own": "The key is what others look at, too. Who may see the third token?",
                "earlier": "The mask works the other way round: a query looks at its own key and those before it.",
                "all": "The mask hides the third key from two of the tokens. From which?",
            },
            right=lambda: _replaced("k", 0),
        ),
        Part(
            name="value",
            ask="The third token's value is replaced, nothing else. Which rows of the map change?",
            options=MAP,
            wrong={
                "own": "The map is made of queries and keys. Where would a value come in?",
                "later": "Those rows of the output change. The map is made before any value is read.",
                "all": "The map is made of queries and keys. Where would a value come in?",
            },
            right=lambda: _replaced("v", 1),
        ),
        Part(
            name="all values",
            ask="The same vector is added to all values. The output …",
            options=SHIFTED,
            wrong={
                "same": "The output is a mean of the values. If all of them move, can their mean stay?",
                "different": "Write Σ p (v + c) and take the sum apart. What do the weights of a row add up to?",
            },
            right=lambda: _shifted("v"),
        ),
        Part(
            name="all keys",
            ask="The same vector c is added to all keys. The output …",
            options=SHIFTED,
            wrong={
                "shifted": "Keys are compared, never added up: c itself cannot arrive in the output.",
                "different": "Each score of a query q grows by q · c. Is that number different from key to key?",
            },
            right=lambda: _shifted("k"),
        ),
        Part(
            name="twice",
            ask="All queries are made twice as long. The largest weight of the last row …",
            options={"shrinks": "becomes smaller", "same": "stays as it is", "grows": "becomes larger"},
            wrong={
                "shrinks": "The scores lie twice as far apart. What does the softmax do with larger differences?",
                "same": "The softmax ignores what is added to all scores of a row, not what multiplies them.",
            },
            right=_doubled,
        ),
    ),
    hints=(
        "Row i of the map needs query i and the keys up to i. Row i of the output also needs the values.",
        "Σ p (v + c) = Σ p v + c Σ p. And q · (k + c) = q · k + q · c.",
        "The weights of a row add up to 1, and a number added to all its scores cancels.",
    ),
    takeaway="A query acts on its own row, a key and a value on every row that sees them; only the value is carried.",
)
