"""Exercise trace-the-stream: from the embedding and what each branch added, the stream after every block."""

import numpy as np

from exercises.spec import Code


def reference(x, added):
    """x [B, T, D]; added [L, 2, B, T, D], attention's answer and the feed-forward's. Returns stream [L+1, B, T, D]."""
    stream = [x.copy()]
    for a, f in added:
        stream.append(stream[-1] + a + f)
    return np.stack(stream)


def cases(rng):
    """Ascending; one block and many, branches that add nothing, that take each other back, and all scales."""

    def case(L, B, T, D, scale=1.0):
        return rng.standard_normal((B, T, D)), rng.standard_normal((L, 2, B, T, D)) * scale

    # numbers of one decimal, to work through by hand: two blocks, one token
    yield tuple(rng.choice([-1, 1], s) * rng.integers(1, 21, s) / 10 for s in ((1, 1, 2), (2, 2, 1, 1, 2)))
    yield case(1, 1, 2, 3)
    yield case(3, 1, 4, 2)
    x, added = case(3, 2, 2, 3)  # as many blocks as features: axes of one length can be exchanged unseen
    added[0, 0] = 0  # this attention adds nothing
    added[2, 1] = -added[2, 0]  # and this feed-forward takes back what attention wrote
    yield x, added
    x, added = case(4, 2, 3, 5, 10.0 ** rng.integers(-3, 4, (4, 2, 1, 1, 1)))  # each branch its own scale
    yield x * 10.0 ** rng.integers(-3, 4, x.shape[:2])[..., None], added
    yield case(6, 3, 2, 4, 1e3)


def rounding(x, added):
    """In units of u. After block l, 2 l additions have been made, in any order, and each rounds once; two more are to
    spare, which matter where there are few. Before the first block x is copied, which is exact."""
    sizes = np.abs(x) + np.cumsum(np.abs(added).sum(axis=1), axis=0)  # [L, B, T, D]
    blocks = np.arange(1, len(added) + 1)[:, None, None, None]
    return np.concatenate([np.zeros_like(x)[None], (2 * blocks + 2) * sizes])


def _stream(x, added):
    """The right stream, with room to put one thing wrong."""
    stream = np.empty((len(added) + 1, *x.shape), dtype=x.dtype)
    stream[0] = x
    for n, (a, f) in enumerate(added):
        stream[n + 1] = stream[n] + a + f
    return stream


# ---- wrong answers; each docstring is what its author will read ----


def x_forgotten(x, added):
    """Your stream starts from zeros, so the tokens themselves are missing: it starts as x, and every row keeps it."""
    return _stream(np.zeros_like(x), added)


def x_only_at_the_start(x, added):
    """x is in your first entry and in no other. Nobody erases: the stream after each block still holds x."""
    stream = _stream(np.zeros_like(x), added)
    stream[0] = x
    return stream


def x_added_again(x, added):
    """x is added again at every block. It is in the stream already: a block adds its two answers, and nothing more."""
    return _stream(x, added) + np.arange(len(added) + 1, dtype=x.dtype)[:, None, None, None] * x


def replaced(x, added):
    """You replace the stream by what the parts answered. They are added to it, so what was there before stays."""
    return np.concatenate([x[None], added.sum(axis=1)])


def last_answer(x, added):
    """The stream after a block is the feed-forward's answer in yours. That answer is added to the stream: u + f."""
    return np.concatenate([x[None], added[:, 1]])


def each_on_x(x, added):
    """Every block adds to x itself in yours, so what earlier blocks wrote is lost. Add to the stream as it came in."""
    return np.concatenate([x[None], x + added.sum(axis=1)])


def attention_lost(x, added):
    """Attention's answers are lost. The feed-forward's answer is added to u = x + a, not to the x that came in."""
    return _stream(x, added * np.array([0, 1], dtype=x.dtype)[:, None, None, None])


def feed_forward_lost(x, added):
    """The feed-forward's answers are lost. A block adds twice: added[l, 0], then added[l, 1]."""
    return _stream(x, added * np.array([1, 0], dtype=x.dtype)[:, None, None, None])


def attention_twice(x, added):
    """Attention's answer is added twice in each block: once on its own, and once more together with the
    feed-forward's."""
    return _stream(x, added * np.array([2, 1], dtype=x.dtype)[:, None, None, None])


def subtracted(x, added):
    """The feed-forward's answer is subtracted. Both answers are added; a part that wants to take something away
    answers with the opposite sign."""
    return _stream(x, added * np.array([1, -1], dtype=x.dtype)[:, None, None, None])


def mean_of_branches(x, added):
    """You add the mean of the two answers. Both are added whole."""
    return _stream(x, added / 2)


def averaged_with_the_stream(x, added):
    """You halve the stream at every block, as in a mean of old and new. It is a sum: what was there stays as it is."""
    stream = _stream(x, added)
    for n, its in enumerate(added):
        stream[n + 1] = (stream[n] + its.sum(axis=0)) / 2
    return stream


def one_late(x, added):
    """Every block's answers come one block late: stream[l + 1] has those of block l in it. Is x in there twice?"""
    return np.concatenate([x[None], _stream(x, added)[:-1]])


def one_early(x, added):
    """Your stream[0] holds the first block's answers already. Entry 0 is the stream before any block: x."""
    stream = _stream(x, added)
    return np.concatenate([stream[1:], stream[-1:]])


def after_only(x, added):
    """The stream before the first block is missing: L blocks have L + 1 places around them, and the first holds x."""
    return _stream(x, added)[1:].copy()


def before_only(x, added):
    """The stream after the last block is missing: L blocks have L + 1 places around them."""
    return _stream(x, added)[:-1].copy()


def half_steps(x, added):
    """You kept the stream after every part, 2 L + 1 of them. Keep it after whole blocks: every second one."""
    steps = [x]
    for answer in added.reshape(-1, *x.shape):
        steps.append(steps[-1] + answer)
    return np.stack(steps)


def last_alone(x, added):
    """This is the stream after the last block alone. Keep it before each block, too: [L+1, B, T, D]."""
    return _stream(x, added)[-1].copy()


def aliased(x, added):
    """All entries are the last one. `h += …` changes the one array that your list holds many times: `h = h + …` makes
    a new one."""
    return np.broadcast_to(_stream(x, added)[-1], (len(added) + 1, *x.shape)).copy()


def halves(x, added):
    """You took the entries in the wrong order: with `reshape(2, L, …)` the first half counts as attention's. The order
    is block by block."""
    a, f = added.reshape(2, -1, *x.shape)
    stream = [x]
    for n in range(len(added)):
        stream.append(stream[-1] + a[n] + f[n])
    return np.stack(stream)


def from_the_end(x, added):
    """You went through the blocks from the last to the first. The forward starts with added[0]."""
    return _stream(x, added[::-1])


def read_backwards(x, added):
    """Your stream is in reverse: entry 0 is the end. Entry 0 is x, before any block."""
    return _stream(x, added)[::-1].copy()


def all_at_once(x, added):
    """Each entry holds what all blocks add. After block l only the first l of them have spoken."""
    stream = np.broadcast_to(x + added.sum(axis=(0, 1)), (len(added) + 1, *x.shape)).copy()
    stream[0] = x
    return stream


def over_the_tokens(x, added):
    """You summed along the tokens (axis T). Here tokens do not mix: each keeps its row, and blocks add to it."""
    answers = np.cumsum(added.sum(axis=1), axis=2)
    return np.concatenate([x[None], x + answers])


def over_the_tokens_too(x, added):
    """Your sum runs along the tokens as well as along the blocks. Each token keeps a row of its own."""
    return _stream(np.cumsum(x, axis=1), np.cumsum(added, axis=3))


def normalized(x, added):
    """You normalize the stream after each block. In a pre-norm block the stream itself passes as it is; only the
    parts read a normalized copy."""
    stream = [x]
    for a, f in added:
        h = stream[-1] + a + f
        stream.append(h / np.sqrt((h * h).mean(axis=-1, keepdims=True) + x.dtype.type(1e-5)))
    return np.stack(stream)


def in_place(x, added):
    """`x += …` writes into the caller's array. Start from a copy, or write `x = x + …`."""
    stream = _stream(x, added)
    for a, f in added:
        x += a
        x += f
    return stream


def float64_leak(x, added):
    """Somewhere your float32 becomes float64. `np.zeros(shape)` and `np.empty(shape)` give float64 unless told
    otherwise: `np.empty(shape, dtype=x.dtype)`."""
    return _stream(x.astype(np.float64), added)


# ---- right answers, written otherwise ----


def cumulative(x, added):
    """One cumulative sum, over x and every branch, of which each second entry is kept."""
    steps = np.concatenate([x[None], added.reshape(-1, *x.shape)])
    return np.cumsum(steps, axis=0)[::2].copy()


def blocks_first(x, added):
    """Each block's two answers summed, then a cumulative sum, and x added last."""
    sums = np.cumsum(added.sum(axis=1), axis=0)
    return np.concatenate([x[None], x + sums])


def triangle(x, added):
    """A product with a triangle of ones: entry l takes the first l blocks."""
    L = len(added)
    ones = np.tri(L + 1, L, -1, dtype=x.dtype)
    return x + np.einsum("ml,lsbtd->mbtd", ones, added)


def from_scratch_each(x, added):
    """For each l, a sum over the first l blocks from the start."""
    return np.stack([x + added[:n].sum(axis=(0, 1)) for n in range(len(added) + 1)])


def loops(x, added):
    """Loops over every number."""
    out = np.zeros((len(added) + 1, *x.shape), dtype=x.dtype)
    for b, t, i in np.ndindex(*x.shape):
        h = x[b, t, i]
        out[0, b, t, i] = h
        for n in range(len(added)):
            for branch in range(2):
                h = h + added[n, branch, b, t, i]
            out[n + 1, b, t, i] = h
    return out


def recursive(x, added):
    """The first block, then the same function for the rest."""
    if len(added) == 0:
        return x[None].copy()
    return np.concatenate([x[None], recursive(x + added[0, 0] + added[0, 1], added[1:])])


exercise = Code(
    id="trace-the-stream",
    title="Trace the stream",
    chapter="01_tokens",
    answer="trace_the_stream",
    points=2,
    stars=2,
    minutes=10,
    args=("x", "added"),
    returns=("stream",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        x_forgotten,
        x_only_at_the_start,
        x_added_again,
        replaced,
        last_answer,
        each_on_x,
        attention_lost,
        feed_forward_lost,
        attention_twice,
        subtracted,
        mean_of_branches,
        averaged_with_the_stream,
        one_late,
        one_early,
        after_only,
        before_only,
        half_steps,
        last_alone,
        aliased,
        halves,
        from_the_end,
        read_backwards,
        all_at_once,
        over_the_tokens,
        over_the_tokens_too,
        normalized,
        in_place,
        float64_leak,
    ),
    variants=(cumulative, blocks_first, triangle, from_scratch_each, loops, recursive),
    hints=(
        "Entry 0 is the stream before any block. What has block 1 added when it is done, and to what?",
        "After a block, the stream is what it was before, plus attention's answer, plus the feed-forward's.",
        "Keep a list that starts with `x`. For each block append the last entry plus `added[l, 0]` plus `added[l, 1]`.",
        "`h += …` would change the array that is in the list already; `h = h + …` makes a new one.\n"
        "`np.stack` turns the list into [L+1, B, T, D], in the dtype of its entries.",
    ),
    takeaway="The stream at any depth is the embedding plus all that has been added so far. Nothing is ever erased.",
)
