"""Exercise blind-checks: does this gradient check notice this bug? Each answer is decided by running the check."""

import numpy as np

from exercises.live import Block
from exercises.spec import Choice, Part
from scratch.norm import rmsnorm_backward, rmsnorm_forward
from scratch.ops import embedding_backward, embedding_forward


def _slopes(loss, w, h=1e-5):
    """Central differences of loss() at every entry of w, in w's own dtype; w is put back."""
    found = np.empty(w.shape)
    for i in np.ndindex(w.shape):
        old, ends = w[i], []
        for nudge in (h, -h):
            w[i] = old + w.dtype.type(nudge)
            ends.append(loss())
        w[i] = old
        found[i] = (ends[0] - ends[1]) / (2 * h)
    return found


def _agree(got, slopes):
    """Within 1e-4 of the largest entry."""
    return bool(np.abs(got - slopes).max() <= 1e-4 * max(np.abs(got).max(), np.abs(slopes).max(), 1e-6))


def _said(right, wrong):
    """In a word, what a check did: whether the right gradient passed, and the wrong one."""
    return "alarm" if not right else "passes" if wrong else "notices"


def _summed_norm():
    """RMSNorm's sum of outputs as the loss; the bug returns zeros."""
    x, g = np.random.default_rng(0).standard_normal((3, 6)), np.ones(6)
    slopes = _slopes(lambda: rmsnorm_forward(x, g)[0].sum(), x)
    right, _ = rmsnorm_backward(np.ones((3, 6)), rmsnorm_forward(x, g)[1])
    return _said(_agree(right, slopes), _agree(np.zeros((3, 6)), slopes))


def _silent_attention():
    """A block whose wo is zero; the bug returns zeros for wq."""
    block = Block(zero=("wo",))
    upstream = np.random.default_rng(1).standard_normal(block.x.shape)
    wq = block.params["attn"]["wq"]
    slopes = _slopes(lambda: np.sum(block.run() * upstream), wq)
    right = block.gradients(upstream)[1]["attn"]["wq"]
    return _said(_agree(right, slopes), _agree(np.zeros_like(wq), slopes))


def _without_straight_road(depth):
    """A stack of blocks whose dx forgets the straight road; only the lowest block's wd is compared."""
    blocks = [Block() for _ in range(depth)]
    upstream = np.random.default_rng(1).standard_normal(blocks[0].x.shape)

    def loss():
        x = None
        for block in blocks:
            x = block.run(x)
        return np.sum(x * upstream)

    def lowest(straight):
        loss()
        inputs, dx = [None], upstream
        for block in blocks:
            inputs.append(block.run(inputs[-1]))
        for block, x in reversed(list(zip(blocks, inputs))):
            (back, tree), dout = block.gradients(dx, x), dx
            dx = back - (not straight) * dout
        return tree["ffn"]["wd"]

    slopes = _slopes(loss, blocks[0].params["ffn"]["wd"])
    return _said(_agree(lowest(True), slopes), _agree(lowest(False), slopes))


def _single_precision():
    """x in float32 and a step of 1e-6; the bug loses the norm's correction along x."""
    rng = np.random.default_rng(0)
    x, g, upstream = rng.standard_normal((3, 6)), rng.standard_normal(6), rng.standard_normal((3, 6))
    x, g, upstream = (v.astype(np.float32) for v in (x, g, upstream))
    slopes = _slopes(lambda: (rmsnorm_forward(x, g)[0] * upstream).sum(), x, 1e-6)
    _, cache = rmsnorm_forward(x, g)
    return _said(_agree(rmsnorm_backward(upstream, cache)[0], slopes), _agree(upstream * g * cache[2], slopes))


def _eps_outside_in_both():
    """Forward and backward both add eps outside the root; the differences run that forward."""
    rng = np.random.default_rng(0)
    x, g, upstream = rng.standard_normal((3, 6)) / 1000, rng.standard_normal(6), rng.standard_normal((3, 6))

    def root(x):
        return np.sqrt((x * x).mean(axis=-1, keepdims=True))

    def mistaken():
        return np.sum(g * x / (root(x) + 1e-5) * upstream)

    size, dz = root(x), g * upstream
    dx = dz / (size + 1e-5) - x * (dz * x).mean(axis=-1, keepdims=True) / (size * (size + 1e-5) ** 2)
    right, _ = rmsnorm_backward(upstream, rmsnorm_forward(x, g)[1])
    against_its_own = _agree(right, _slopes(lambda: np.sum(rmsnorm_forward(x, g)[0] * upstream), x, 1e-8))
    return _said(against_its_own, _agree(dx, _slopes(mistaken, x, 1e-8)))


def _one_direction():
    """The slope along one random direction; the bug turns the sign of a single entry of dx."""
    block, rng = Block(), np.random.default_rng(1)
    upstream, v = rng.standard_normal((2, *block.x.shape))
    ends = [np.sum(block.run(block.x + step * v) * upstream) for step in (1e-5, -1e-5)]
    slope, dx = (ends[0] - ends[1]) / 2e-5, block.gradient(upstream)
    wrong = dx.copy()
    wrong[0, 2, 3] *= -1
    return _said(*(_agree(np.sum(d * v), slope) for d in (dx, wrong)))


def _no_word_twice():
    """A lookup of four different words; the bug assigns each token's gradient where it should add."""
    rng, ids = np.random.default_rng(0), np.array([[4, 0, 2, 1]])
    table, upstream = rng.standard_normal((6, 3)), rng.standard_normal((1, 4, 3))
    slopes = _slopes(lambda: np.sum(embedding_forward(ids, table)[0] * upstream), table)
    assigned = np.zeros_like(table)
    assigned[ids] = upstream
    right = embedding_backward(upstream, embedding_forward(ids, table)[1])
    return _said(_agree(right, slopes), _agree(assigned, slopes))


SAYS = {
    "notices": "accepts the right gradient and rejects the wrong one",
    "passes": "accepts both",
    "alarm": "rejects even the right one",
}

exercise = Choice(
    id="blind-checks",
    title="What a check can see",
    chapter="08_backward",
    answer="predictions",
    points=2,
    stars=1,
    minutes=12,
    parts=(
        Part(
            name="sum",
            ask="RMSNorm with gains of 1, and the sum of all outputs as the loss. The bug: dx is zeros. The check …",
            options=SAYS,
            wrong={
                "passes": "So it would be for LayerNorm. RMSNorm subtracts no mean: is its sum of outputs fixed?",
                "alarm": "Right gradients and slopes agree for every loss, this one too. Is the true gradient zero?",
            },
            right=_summed_norm,
        ),
        Part(
            name="wo",
            ask="A block whose wo is 0, a random upstream. The bug: the gradient of wq is zeros. The check …",
            options=SAYS,
            wrong={
                "notices": "With wo = 0, can a nudge of wq reach the output at all? What is its true gradient there?",
                "alarm": "A weight without effect has the gradient 0, and the slopes say so too. Who is rejected then?",
            },
            right=_silent_attention,
        ),
        Part(
            name="one block",
            ask="One block. The bug: dx lacks the straight road. The check compares wd's gradient, not dx. The check …",
            options=SAYS,
            wrong={
                "notices": "dx is what leaves the block at the bottom. Does wd's gradient need it?",
                "alarm": "Nothing is wrong with the slopes of wd. Which gradient does this check look at?",
            },
            right=lambda: _without_straight_road(1),
        ),
        Part(
            name="two blocks",
            ask="The same bug and the same check of wd, in the lower of two blocks. The check …",
            options=SAYS,
            wrong={
                "passes": "Now the upper block's dx is the lower one's dy. What is wd's gradient made of?",
                "alarm": "The slopes are right, and so is the right gradient. Does the wrong one still agree?",
            },
            right=lambda: _without_straight_road(2),
        ),
        Part(
            name="float32",
            ask="All float32, nudges of 1e-6, error 1e-4 allowed. The bug: dx lacks a norm's second term. The check …",
            options=SAYS,
            wrong={
                "notices": "Near 1, float32 numbers lie 1e-7 apart. How well can it measure what a nudge of 1e-6 does?",
                "passes": "It would have to find slopes that agree with both. How exact are its slopes, to 1e-4?",
            },
            right=_single_precision,
        ),
        Part(
            name="both",
            ask="An RMSNorm, rows of size 0.001. The bug: eps outside the root, forward and backward. The check …",
            options=SAYS,
            wrong={
                "notices": "The slopes come from the forward. If that has the same mistake, what do they say?",
                "alarm": "A right pair agrees with itself, on small rows too. Does this wrong pair?",
            },
            right=_eps_outside_in_both,
        ),
        Part(
            name="direction",
            ask="One random direction v: the slope along v against Σ dx ⊙ v. The bug: one sign in dx. The check …",
            options=SAYS,
            wrong={
                "passes": "Every entry of dx is in that sum, with a random factor. Does it stay as it was?",
                "alarm": "Σ dx ⊙ v is exactly what the loss does along v. Why should the right dx miss it?",
            },
            right=_one_direction,
        ),
        Part(
            name="ids",
            ask="A lookup of four different words. The bug: `dtable[ids] = dout`, where it should add. The check …",
            options=SAYS,
            wrong={
                "notices": "Adding and assigning differ where a row is written twice. Is one, here?",
                "alarm": "Nothing is amiss with the slopes of a lookup. Does the wrong gradient differ from them?",
            },
            right=_no_word_twice,
        ),
    ),
    hints=(
        "Ask two questions of each check: does a right gradient pass it? And does the wrong one differ from that here?",
        "A check is blind where the true gradient is zero, and where the bug is not on the way to what is compared.\n"
        "It is blind, too, where the case does not contain what the bug spoils.",
        "Slopes come from the forward, in its precision. A mistake that the forward shares, they share.",
    ),
    takeaway="A check sees what moves its loss, lies on its road and differs from its forward. Choose cases so.",
)
