"""Exercise ablations: predict what a block does when one part of its attention is taken away; a live block decides."""

import numpy as np

from exercises.live import ROWS, Block, T, rows
from exercises.spec import Choice, Part


def _shuffled():
    """Does the last row notice that the tokens before it changed places, without RoPE?"""
    block = Block(rope=False)
    other = block.x[:, [2, 0, 3, 1, 4]]
    return "same" if np.allclose(block.run(other)[:, -1], block.run()[:, -1]) else "different"


def _no_queries():
    last = Block(zero=("wq",)).seen()["map"][0, :, -1]  # [H, T]
    if np.allclose(last, 1 / T):
        return "equal"
    return "itself" if np.allclose(last[:, -1], 1) else "nothing"


def _no_values():
    block = Block(zero=("wv",))
    seen = block.seen()
    if np.any(seen["attn"]):
        return "mean"
    return "nothing" if np.allclose(seen["out"], block.x + seen["ffn"]) else "zero"


def _sharper():
    """The largest weight of each query, with scores that are not divided by √Dh, beside the same with."""
    plain, loud = Block(), Block()
    loud.params["attn"]["wq"] = loud.params["attn"]["wq"] * np.sqrt(loud.config.head_dim)
    tops = [b.seen()["map"][0, :, 1:].max(axis=-1).mean() for b in (plain, loud)]
    return "sharper" if tops[1] > tops[0] else "flatter" if tops[1] < tops[0] else "same"


exercise = Choice(
    id="ablations",
    title="Take a part away",
    chapter="07_block",
    answer="predictions",
    points=2,
    stars=2,
    minutes=15,
    parts=(
        Part(
            name="no mask",
            ask="The causal mask is removed. The third of five tokens is replaced. Which rows of the output change?",
            options=ROWS,
            wrong={
                "none": "The stream passes through, so at least the replaced row comes out changed.",
                "own": "Attention carries news from one token to others. Who can see the third token?",
                "later": "That would be so with the mask. Without it a query also sees the keys that come after it.",
                "earlier": "Without a mask nothing says before or after. Do the tokens behind the third not see it?",
            },
            right=lambda: rows(Block(causal=False).changed(2), 2),
        ),
        Part(
            name="no positions",
            ask="RoPE is removed, the mask stays. The first four of five tokens are reordered. The last row is …",
            options={"same": "the same", "different": "different"},
            wrong={"different": "The last token sees all others. Without positions, can its mean know their order?"},
            right=_shuffled,
        ),
        Part(
            name="no queries",
            ask="wq is set to 0. Where does the last of five tokens look?",
            options={
                "nothing": "nowhere: its weights are 0",
                "itself": "at itself alone",
                "equal": "at all five alike",
            },
            wrong={
                "nothing": "The scores are 0, the weights are not: what does softmax make of five equal scores?",
                "itself": "Its own key scores 0 like the others. What does softmax make of five equal scores?",
            },
            right=_no_queries,
        ),
        Part(
            name="no values",
            ask="wv is set to 0. What does the attention branch add?",
            options={
                "mean": "the mean of the visible rows",
                "nothing": "nothing; the rest of the block works on",
                "zero": "nothing, and so the block's output is 0",
            },
            wrong={
                "mean": "A weighted mean of what? The weights say where to look; the values are what is fetched.",
                "zero": "The branch adds 0 to the stream. Is the stream 0 then?",
            },
            right=_no_values,
        ),
        Part(
            name="no scale",
            ask="The scores are not divided by √Dh. The attention weights become …",
            options={"flatter": "flatter", "same": "the same", "sharper": "sharper: more on the largest"},
            wrong={
                "flatter": "Larger scores lie further apart. What does softmax do with larger differences?",
                "same": "Softmax ignores a number that is added to all scores, not one that multiplies them.",
            },
            right=_sharper,
        ),
    ),
    hints=(
        "The scores say where a query looks, the values what it fetches. Which of the two did each part take away?",
        "Write the last row's output as Σ weight · value, then take the part away in this formula.",
        "Equal scores give equal weights. A sum does not know the order of its terms. Weights times 0 is 0.",
    ),
    takeaway="The mask says who may be seen, queries and keys who is looked at, values what is fetched.",
)
