"""Exercise contributions: what attention and the feed-forward bring into the stream, and why pre-norm is direct."""

import numpy as np

from exercises.live import ROWS, Block, rows
from exercises.spec import Choice, Part


def _both_off():
    block = Block(off=("attn", "ffn"))
    out = block.run()
    return {0: "nothing", 1: "input"}.get(np.allclose(out, block.x) + 2 * (not np.any(out)), "normalized")


def _direct(form):
    """What reaches x of an upstream gradient when both branches add nothing."""
    block = Block(off=("attn", "ffn"), form=form)
    dout = np.random.default_rng(2).standard_normal(block.x.shape)
    dx = block.gradient(dout)
    return "all" if np.allclose(dx, dout) else "changed" if np.any(dx) else "nothing"


def _times_ten():
    block = Block(off=("attn",), eps=1e-12)
    once, ten = block.seen()["ffn"], block.seen(10 * block.x)["ffn"]
    return "same" if np.allclose(once, ten) else "ten times" if np.allclose(10 * once, ten) else "a tenth"


exercise = Choice(
    id="contributions",
    title="Who brings what into the stream",
    chapter="07_block",
    answer="explanation",
    points=2,
    stars=1,
    minutes=15,
    parts=(
        Part(
            name="attention",
            ask="The feed-forward adds nothing. The third token is replaced. Which rows of the output change?",
            options=ROWS,
            wrong={
                "none": "The stream itself passes through the block, so at least the replaced row comes out changed.",
                "own": "Attention is what carries news from one token to another. Who may read the third token?",
                "earlier": "The mask works the other way round: a query looks at its own key and those before it.",
                "all": "The mask lets no token look ahead. What do the first two rows see of the third?",
            },
            right=lambda: rows(Block(off=("ffn",)).changed(2), 2),
        ),
        Part(
            name="feed-forward",
            ask="Attention adds nothing. The third token is replaced. Which rows of the output change?",
            options=ROWS,
            wrong={
                "none": "The stream itself passes through the block, so at least the replaced row comes out changed.",
                "earlier": "The feed-forward works on each token alone. Nothing in it carries news to another row.",
                "later": "That is what attention does. The feed-forward works on each token alone.",
                "all": "The feed-forward has the same weights for all tokens, but it works on each token alone.",
            },
            right=lambda: rows(Block(off=("attn",)).changed(2), 2),
        ),
        Part(
            name="both off",
            ask="Both branches add nothing. What comes out of the block?",
            options={"nothing": "zeros", "input": "the stream that went in", "normalized": "the normalized stream"},
            wrong={
                "nothing": "The branches add to the stream; they do not replace it. What is left if nothing is added?",
                "normalized": "Where do a pre-norm block's norms stand? Is there one on the stream's own way?",
            },
            right=_both_off,
        ),
        Part(
            name="pre-norm",
            ask="Both branches of a pre-norm block add nothing. How much of its output's gradient reaches its input?",
            options={"nothing": "none of it", "all": "all, unchanged", "changed": "some, changed by a norm"},
            wrong={
                "nothing": "The gradient has a second way besides the branches: the one the stream itself takes.",
                "changed": "A norm would have to stand on the stream's own way. Where do pre-norm's norms stand?",
            },
            right=lambda: _direct("pre-norm"),
        ),
        Part(
            name="post-norm",
            ask="In a post-norm block, out = norm(x + branch(x)), both branches add nothing. How much arrives at x?",
            options={"nothing": "none of it", "all": "all, unchanged", "changed": "some, changed by a norm"},
            wrong={
                "nothing": "There is a way besides the branches; something stands on it, but it is not shut.",
                "all": "Follow the formula from the outside in: what is the last thing that happens to x?",
            },
            right=lambda: _direct("post-norm"),
        ),
        Part(
            name="times ten",
            ask="Attention adds nothing; a pre-norm block's stream is made ten times as long. The feed-forward adds …",
            options={"a tenth": "a tenth of before", "same": "nearly the same", "ten times": "ten times as much"},
            wrong={
                "a tenth": "The branch never learns how long the stream is: what does it read?",
                "ten times": "The branch never learns how long the stream is: what does it read?",
            },
            right=_times_ten,
        ),
    ),
    words=40,
    rubric=(
        "Attention brings a weighted mean of what other tokens offer: it alone moves information between positions.",
        "The feed-forward works on each position alone, on what has been gathered; it adds, and does not replace.",
        "In pre-norm the norms stand on the branches: the stream and its gradient pass each block by additions alone.",
    ),
    hints=(
        "Draw the block as one line with two branches. Where do the norms stand? Where do other tokens' news enter?",
        "A branch that adds nothing leaves its add as it was. What is left of the picture, forward and backward?",
        "In pre-norm, y = x + branch(norm(x)). Differentiate: 1 + something. In post-norm the norm is the last factor.",
    ),
    takeaway="Attention moves, the feed-forward works on what has arrived, and both only add. So the way back is open.",
)
