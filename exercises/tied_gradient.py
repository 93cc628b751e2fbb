"""Exercise tied-gradient: the two gradients of a table that is both the embedding and the output head."""

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(dx, ids, h, dlogits):
    """dx, h [B, T, D]; ids int [B, T]; dlogits [B, T, V]. Returns dtable [V, D]."""
    table = np.zeros((dlogits.shape[-1], h.shape[-1]), dtype=h.dtype)  # its entries do not matter: both uses are linear
    _, cache = ops.embedding_forward(ids, table)
    dtable = ops.embedding_backward(dx, cache)
    _, cache = ops.linear_forward(h, table.T)
    _, dhead = ops.linear_backward(dlogits, cache)  # [D, V]
    return dtable + dhead.T


def cases(rng):
    """Ascending; with ids that occur twice in a sequence, or in two sequences, and ids that do not occur."""

    def case(B, T, D, V, ids, scale=1.0):
        dx, h, dlogits = (rng.standard_normal((B, T, n)) * scale for n in (D, D, V))
        return dx, ids, h, dlogits

    def some(B, T, V, dtype=np.intp):
        """Random ids that leave a word out, with one that occurs twice in the first sequence and once in the last."""
        words = rng.permutation(V)[1:]
        ids = rng.choice(words, (B, T))
        ids[0, :2] = ids[-1, -1] = words[0]
        return ids.astype(dtype)

    # numbers of one decimal, to work through by hand: both tokens are word 2, and words 0, 1 and 3 do not occur
    tenths = [
        rng.choice([-1, 1], shape) * rng.integers(1, 21, shape) / 10 for shape in ((1, 2, 3), (1, 2, 3), (1, 2, 4))
    ]
    yield tenths[0], np.array([[2, 2]]), *tenths[1:]
    yield case(2, 1, 3, 5, np.array([[3], [3]]))  # one token each, the same one
    yield case(2, 3, 4, 11, some(2, 3, 11, np.int32))  # more words than tokens
    dx, ids, h, dlogits = case(3, 4, 5, 7, some(3, 4, 7))  # more tokens than words
    yield dx, ids, h, dlogits * 10.0 ** rng.integers(-3, 4, (3, 4, 1))  # each token its own scale
    yield case(3, 5, 4, 6, np.full((3, 5), rng.integers(6), dtype=np.int32), 1e3)  # nothing but one word
    narrow = np.array([[80, 3, 80]], dtype=np.uint8)  # ids that are too narrow to be multiplied with D
    yield case(1, 3, 5, 90, narrow)
    yield case(2, 7, 6, 9, some(2, 7, 9), 10.0 ** rng.uniform(-3, 3))


def rounding(dx, ids, h, dlogits):
    """In units of u. An entry adds up B·T products and as many rows of dx as the word has occurrences, in any order:
    a rounding for each term, one more for a product, and two to spare, which matter where there are few terms."""
    n = ids.size
    occurs = _occurs(ids, dlogits).astype(h.dtype)  # [V, B·T]
    products = np.abs(dlogits).reshape(n, -1).T @ np.abs(h).reshape(n, -1)
    rows = occurs @ np.abs(dx).reshape(n, -1)
    return (n + occurs.sum(axis=1, keepdims=True) + 3) * (products + rows)


def _occurs(ids, dlogits):
    """Bool [V, B·T]: is token n word v?"""
    return np.arange(dlogits.shape[-1])[:, None] == ids.reshape(1, -1)


def _two(dx, ids, h, dlogits):
    """The right gradients, of the lookup and of the head, without the library, which is closed to answers."""
    n = ids.size
    return _occurs(ids, dlogits).astype(dx.dtype) @ dx.reshape(n, -1), dlogits.reshape(n, -1).T @ h.reshape(n, -1)


# ---- wrong answers; each docstring is what its author will read ----


def zero(dx, ids, h, dlogits):
    """A gradient of zeros is right only where nothing depends on the table."""
    return 0 * _two(dx, ids, h, dlogits)[1]


def only_lookup(dx, ids, h, dlogits):
    """This is the lookup's gradient alone. The head reads the same table, so its gradient, dlogitsᵀ h, adds to it."""
    return _two(dx, ids, h, dlogits)[0]


def only_head(dx, ids, h, dlogits):
    """This is the head's gradient alone. The lookup reads the same table: each row of dx adds to the row of its id."""
    return _two(dx, ids, h, dlogits)[1]


def repeats_lost(dx, ids, h, dlogits):
    """Repeated ids are lost. A statement such as `d[ids] += dx` or `d[ids] = dx` writes each row once, so of all tokens
    with the same id only the last one counts."""
    _, head = _two(dx, ids, h, dlogits)
    lookup = np.zeros_like(head)
    lookup[ids] += dx
    return lookup + head


def repeats_lost_in_a_sequence(dx, ids, h, dlogits):
    """Repeated ids are lost within a sequence. `d[ids[b]] += dx[b]` writes each row once, however often its id occurs
    there."""
    _, head = _two(dx, ids, h, dlogits)
    for row, its in zip(ids, dx):
        head[row] += its
    return head


def repeats_lost_at_a_position(dx, ids, h, dlogits):
    """Repeated ids are lost where two sequences have the same one at the same position: `d[ids[:, t]] += dx[:, t]`
    writes each row once."""
    _, head = _two(dx, ids, h, dlogits)
    for t in range(ids.shape[1]):
        head[ids[:, t]] += dx[:, t]
    return head


def first_wins(dx, ids, h, dlogits):
    """Only the first token of each id counts in your lookup. Every token with that id read the row, so all of them add
    up."""
    lookup, head = _two(dx, ids, h, dlogits)
    words, first = np.unique(ids, return_index=True)
    lookup[words] = dx.reshape(ids.size, -1)[first]
    return lookup + head


def assigned(dx, ids, h, dlogits):
    """`d[ids] = dx` overwrites: the head's gradient is lost in every row that was looked up, and so are repeated ids.
    Both gradients add up."""
    _, head = _two(dx, ids, h, dlogits)
    head[ids] = dx
    return head


def overwritten(dx, ids, h, dlogits):
    """In the rows that were looked up you keep the lookup's gradient alone. There the head's gradient adds to it."""
    lookup, head = _two(dx, ids, h, dlogits)
    head[ids] = lookup[ids]
    return head


def mean_of_repeats(dx, ids, h, dlogits):
    """You took the mean over the tokens with the same id. Each of them read the row, so their gradients add up."""
    lookup, head = _two(dx, ids, h, dlogits)
    count = _occurs(ids, dlogits).sum(axis=1, keepdims=True).astype(dx.dtype)
    return lookup / np.maximum(count, 1) + head


def times_count(dx, ids, h, dlogits):
    """Your lookup counts repeated ids twice over: the rows of dx add up already, and you multiplied the sum by how
    often the id occurs."""
    lookup, head = _two(dx, ids, h, dlogits)
    return lookup * _occurs(ids, dlogits).sum(axis=1, keepdims=True).astype(dx.dtype) + head


def averaged(dx, ids, h, dlogits):
    """You took the average of the two gradients. The table is used twice and each use moves the loss: add them."""
    lookup, head = _two(dx, ids, h, dlogits)
    return (lookup + head) / 2


def minus(dx, ids, h, dlogits):
    """The head's gradient has the wrong sign. Both gradients say how the loss moves: add them."""
    lookup, head = _two(dx, ids, h, dlogits)
    return lookup - head


def head_mean(dx, ids, h, dlogits):
    """You divided the head's gradient by the number of tokens. The loss has done that already, in dlogits: sum."""
    lookup, head = _two(dx, ids, h, dlogits)
    return lookup + head / ids.size


def head_mean_over_batch(dx, ids, h, dlogits):
    """You divided the head's gradient by the number of sequences. All of them used the same table: sum over B."""
    lookup, head = _two(dx, ids, h, dlogits)
    return lookup + head / len(ids)


def head_only_where_read(dx, ids, h, dlogits):
    """Words that do not occur have a gradient of zero in your answer. The lookup leaves them alone, but the head gave
    every word a logit at every position."""
    lookup, head = _two(dx, ids, h, dlogits)
    return lookup + head * _occurs(ids, dlogits).any(axis=1, keepdims=True)


def own_logit_only(dx, ids, h, dlogits):
    """Your head uses one logit of each token, that of its own id. Each token has V logits, and all of them read the
    table."""
    lookup, _ = _two(dx, ids, h, dlogits)
    own = np.take_along_axis(dlogits, ids[..., None].astype(np.int64), axis=-1) * h
    return lookup + _two(own, ids, h, dlogits)[0]


def first_sequence_only(dx, ids, h, dlogits):
    """Only the first sequence of the batch counts in your answer. All B sequences read the same table."""
    return sum(_two(dx[:1], ids[:1], h[:1], dlogits[:1]))


def last_sequence_in_head(dx, ids, h, dlogits):
    """Your head has the last sequence alone: in a loop over the batch, `=` replaces what came before. Add them up."""
    lookup, _ = _two(dx, ids, h, dlogits)
    return lookup + _two(dx[-1:], ids[-1:], h[-1:], dlogits[-1:])[1]


def last_position_only(dx, ids, h, dlogits):
    """Your head uses the last position alone, as in generating. In training every position has logits and a loss."""
    lookup, _ = _two(dx, ids, h, dlogits)
    return lookup + _two(dx[:, -1:], ids[:, -1:], h[:, -1:], dlogits[:, -1:])[1]


def shifted(dx, ids, h, dlogits):
    """You shifted dlogits against h by one position. The logits at t come from h at t; the step to the next token is
    in the targets."""
    lookup, _ = _two(dx, ids, h, dlogits)
    return lookup + _two(dx[:, 1:], ids[:, 1:], h[:, :-1], dlogits[:, 1:])[1]


def position_rows(dx, ids, h, dlogits):
    """You added dx to row t of the table, t being the position. The lookup read row ids[b, t]."""
    positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    return _two(dx, positions, h, dlogits)[0] + _two(dx, ids, h, dlogits)[1]


def exchanged(dx, ids, h, dlogits):
    """You exchanged dx and h: dx is a gradient and goes to the rows that were looked up; h is what met the table in the
    head."""
    return sum(_two(h, ids, dx, dlogits))


def reshaped(dx, ids, h, dlogits):
    """`dlogits.reshape(V, -1)` has the right shape but not the right order: it cuts rows apart. Reshape to [B·T, V],
    then transpose."""
    lookup, _ = _two(dx, ids, h, dlogits)
    return lookup + dlogits.reshape(dlogits.shape[-1], -1) @ h.reshape(ids.size, -1)


def transposed(dx, ids, h, dlogits):
    """Your result is [D, V], the head's weight. The table is its transpose, [V, D]: dlogitsᵀ h, not hᵀ dlogits."""
    return sum(_two(dx, ids, h, dlogits)).T.copy()


def per_sequence(dx, ids, h, dlogits):
    """You have one gradient for each sequence. They share one table [V, D]: sum over B as well as over T."""
    return np.stack([sum(_two(*(a[b : b + 1] for a in (dx, ids, h, dlogits)))) for b in range(len(ids))])


def in_place(dx, ids, h, dlogits):
    """You add up rows inside dx. `dx.reshape(…)` is a view, so this writes into the caller's array; add into a new
    one."""
    rows, flat, (lookup, head) = dx.reshape(ids.size, -1), ids.reshape(-1), _two(dx, ids, h, dlogits)
    _, first, back = np.unique(flat, return_index=True, return_inverse=True)
    for n, at in enumerate(first[back.reshape(-1)]):
        if at < n:
            rows[at] += rows[n]
    lookup[flat[first]] = rows[first]
    return lookup + head


def float64_leak(dx, ids, h, dlogits):
    """Somewhere your float32 becomes float64. `np.zeros(shape)` and `np.bincount` give float64 unless told otherwise:
    `np.zeros(shape, dtype=dx.dtype)`."""
    return np.zeros((dlogits.shape[-1], h.shape[-1])) + sum(_two(dx, ids, h, dlogits))


# ---- right answers, written otherwise ----


def add_at(dx, ids, h, dlogits):
    """np.add.at, onto the head's gradient."""
    out = np.tensordot(dlogits, h, axes=((0, 1), (0, 1)))
    np.add.at(out, ids.ravel(), dx.reshape(ids.size, h.shape[-1]))
    return out


def one_hot(dx, ids, h, dlogits):
    """The lookup as a product with a one-hot matrix, so that both gradients are one einsum each."""
    hot = np.eye(dlogits.shape[-1], dtype=dx.dtype)[ids]  # [B, T, V]
    return np.einsum("btv,btd->vd", hot, dx) + np.einsum("btv,btd->vd", dlogits, h)


def one_product(dx, ids, h, dlogits):
    """Both gradients as one matrix product, of [one-hot; dlogits] and [dx; h]."""
    left = np.concatenate([_occurs(ids, dlogits).T.astype(dx.dtype), dlogits.reshape(ids.size, -1)])  # [2·B·T, V]
    right = np.concatenate([dx, h]).reshape(2 * ids.size, -1)  # [2·B·T, D]
    return left.T @ right


def loops(dx, ids, h, dlogits):
    """Loops over every token, word and feature."""
    out = np.zeros((dlogits.shape[-1], h.shape[-1]), dtype=h.dtype)
    for b in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            for i in range(h.shape[-1]):
                out[ids[b, t], i] += dx[b, t, i]
                for v in range(dlogits.shape[-1]):
                    out[v, i] += dlogits[b, t, v] * h[b, t, i]
    return out


def sorted_runs(dx, ids, h, dlogits):
    """Tokens sorted by id, and each run of equal ids summed by reduceat."""
    flat = ids.ravel()
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    out = np.matmul(dlogits.swapaxes(1, 2), h).sum(axis=0)
    out[ordered[starts]] += np.add.reduceat(dx.reshape(flat.size, -1)[order], starts, axis=0)
    return out


def counted(dx, ids, h, dlogits):
    """np.bincount, column by column, brought back from float64."""
    V, D = dlogits.shape[-1], h.shape[-1]
    columns = [np.bincount(ids.ravel(), weights=dx[..., i].ravel(), minlength=V) for i in range(D)]
    return np.stack(columns, axis=1).astype(dx.dtype) + dlogits.reshape(-1, V).T @ h.reshape(-1, D)


exercise = Code(
    id="tied-gradient",
    title="One matrix, two gradients",
    chapter="09_stack",
    answer="tied_gradient",
    points=2,
    stars=2,
    minutes=15,
    args=("dx", "ids", "h", "dlogits"),
    returns=("dtable",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        only_lookup,
        only_head,
        repeats_lost,
        repeats_lost_in_a_sequence,
        repeats_lost_at_a_position,
        first_wins,
        assigned,
        overwritten,
        mean_of_repeats,
        times_count,
        averaged,
        minus,
        head_mean,
        head_mean_over_batch,
        head_only_where_read,
        own_logit_only,
        first_sequence_only,
        last_sequence_in_head,
        last_position_only,
        shifted,
        position_rows,
        exchanged,
        reshaped,
        transposed,
        per_sequence,
        in_place,
        float64_leak,
    ),
    variants=(add_at, one_hot, one_product, loops, sorted_runs, counted),
    hints=(
        "The table is used in two places. Find the gradient of each use as if the other did not exist, then add.",
        "The lookup copied row ids[b, t] into x[b, t]. So dx[b, t] goes back to that row.\n"
        "A row that was read twice receives two gradients, and they add up.",
        "The head computed logits = h tableᵀ: logits[b, t, v] = Σᵢ h[b, t, i] table[v, i].\n"
        "So row v receives Σ dlogits[b, t, v] h[b, t] over all b and t.",
        "`d[ids] += dx` keeps only one of several equal ids. `np.add.at(d, ids, dx)` adds all of them.",
        "`dtable = dlogits.reshape(-1, V).T @ h.reshape(-1, D)` is the head's part, [V, D], in the right dtype.\n"
        "Then add the lookup's: `np.add.at(dtable, ids, dx)`.",
    ),
    library=("scratch.ops.embedding_backward",),
    takeaway="The lookup's gradient has rows for the words that occurred; the head's has one for every word.",
)
