"""Exercise embedding-backward: the gradient of a lookup, with repeated ids and padded places."""

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(dout, ids, table):
    """dout [B, T, D]; ids int [B, T], −1 where padded; table [V, D]. Returns dtable [V, D]."""
    real = ids >= 0  # [B, T]; a padded place read no row
    _, cache = ops.embedding_forward(ids[real], table)
    return ops.embedding_backward(dout[real], cache)


def cases(rng):
    """Ascending; ids that occur twice in a sequence, at one position, or not at all, and padding left, right and in
    the middle. The last word of the vocabulary occurs in some, and in some not."""

    def case(ids, V, D, scale=1.0):
        ids = np.asarray(ids)
        return rng.standard_normal((*ids.shape, D)) * scale, ids, rng.standard_normal((V, D))

    def some(B, T, V, dtype=np.intp):
        """Random ids that leave a word out, with one that occurs twice in the first sequence and once in the last."""
        words = rng.permutation(V)[1:]
        ids = rng.choice(words, (B, T))
        ids[0, :2] = ids[-1, -1] = words[0]
        return ids.astype(dtype)

    # numbers of one decimal, to work through by hand: word 0 twice, and a padded place before and after it
    dout, table = (rng.choice([-1, 1], s) * rng.integers(1, 21, s) / 10 for s in ((1, 4, 2), (3, 2)))
    yield dout, np.array([[-1, 0, 0, -1]]), table
    yield case([[3], [3]], 6, 3)  # one token each, the same one; more words than tokens
    ids = some(2, 3, 7, np.int32)
    ids[1, 0] = -1
    yield case(ids, 7, 4)
    yield case(np.full((2, 3), rng.integers(5)), 5, 6, 1e3)  # nothing but one word
    ids = some(3, 5, 6)
    ids[0, 4] = ids[1, 2] = ids[2, 0] = -1
    ids[1, 3] = ids[0, 3] = 0
    dout, ids, table = case(ids, 6, 4, 10.0 ** rng.integers(-3, 4, (3, 5, 1)))  # each token its own scale
    dout[0, 1] = 0  # nothing arrives here
    table[2] = 0
    yield dout, ids, table
    yield case(np.array([[80, 3, 80, -1, 2]], dtype=np.int8), 90, 3)  # ids that are too narrow to be multiplied with D
    ids = some(4, 9, 12)
    ids[1, :3] = ids[3, 6:] = -1
    yield case(ids, 12, 8, 10.0 ** rng.uniform(-3, 3))


def large(rng):
    """A table of 25,600 numbers, of which a thousand tokens read half the rows: a forward copies 262,144 numbers."""
    ids = rng.integers(0, 50, (4, 256))
    ids[2, 200:] = -1
    return rng.standard_normal((*ids.shape, 256)), ids, rng.standard_normal((100, 256))


def loss(dout, ids, table):
    """Σ dout ⊙ out; a padded place reads zeros."""
    real = ids >= 0
    return (dout[real] * table[ids[real]]).sum()


def rounding(dout, ids, table):
    """In units of u. A row adds up as many rows of dout as its word has occurrences, in any order: a rounding for each,
    and one to spare, which matters where there are few. A word that occurs once has a copy, which is exact."""
    occurs = _occurs(ids, table)  # [V, B·T]
    count = occurs.sum(axis=1, keepdims=True)
    return np.where(count > 1, count + 1, 0) * (occurs @ np.abs(dout).reshape(ids.size, -1))


def _occurs(ids, table):
    """[V, B·T] in table's dtype: 1 where token n is word v, which padding never is."""
    return (np.arange(len(table))[:, None] == ids.reshape(1, -1)).astype(table.dtype)


def _right(dout, ids, table):
    """The right gradient without the library, which is closed to answers."""
    return _occurs(ids, table) @ dout.reshape(ids.size, -1)


# ---- wrong answers; each docstring is what its author will read ----


def zero(dout, ids, table):
    """A gradient of zeros is right only for words that do not occur."""
    return np.zeros_like(table)


def repeats_lost(dout, ids, table):
    """Repeated ids are lost. `d[ids] += dout` and `d[ids] = dout` write each row once, so of all tokens with the same
    id only the last one counts."""
    out = np.zeros_like(table)
    real = ids >= 0
    out[ids[real]] += dout[real]
    return out


def repeats_and_padding(dout, ids, table):
    """Two things are wrong. `d[ids] += dout` writes each row once, so repeated ids are lost. And −1 counts from the
    end, so padded places write into the last row."""
    out = np.zeros_like(table)
    out[ids] += dout
    return out


def repeats_lost_in_a_sequence(dout, ids, table):
    """Repeated ids are lost within a sequence. `d[ids[b]] += dout[b]` writes each row once, however often its id occurs
    there."""
    out = np.zeros_like(table)
    for row, its in zip(ids, dout):
        out[row[row >= 0]] += its[row >= 0]
    return out


def repeats_lost_at_a_position(dout, ids, table):
    """Repeated ids are lost where two sequences have the same one at the same position: `d[ids[:, t]] += dout[:, t]`
    writes each row once."""
    out = np.zeros_like(table)
    for row, its in zip(ids.T, dout.swapaxes(0, 1)):
        out[row[row >= 0]] += its[row >= 0]
    return out


def first_wins(dout, ids, table):
    """Only the first token of each id counts in your answer. Every token with that id read the row, so all of them add
    up."""
    out = np.zeros_like(table)
    words, first = np.unique(ids, return_index=True)
    out[words[words >= 0]] = dout.reshape(ids.size, -1)[first[words >= 0]]
    return out


def padding_in_the_last_row(dout, ids, table):
    """Padded places write into the last row. In NumPy an index of −1 counts from the end, so it raises no error: leave
    these places out first."""
    out = np.zeros_like(table)
    np.add.at(out, ids, dout)
    return out


def padding_in_the_first_row(dout, ids, table):
    """Padded places write into row 0. Making 0 of −1 names a real word; a padded place read no row at all."""
    return _right(dout, np.maximum(ids, 0), table)


def padding_shared_out(dout, ids, table):
    """What arrives at padded places is added to every row of your answer. It belongs to no row: nothing was read
    there."""
    return _right(dout, ids, table) + dout[ids < 0].sum(axis=0)


def stopped_at_padding(dout, ids, table):
    """You stop at the first padded place of a sequence (`break`). Real tokens can follow it: skip that place alone."""
    after = np.logical_or.accumulate(ids < 0, axis=1)
    return _right(dout, np.where(after, -1, ids), table)


def padded_sequences_dropped(dout, ids, table):
    """A sequence with a padded place is left out as a whole. Its real tokens read rows: leave out the place alone."""
    return _right(dout, np.where((ids < 0).any(axis=1, keepdims=True), -1, ids), table)


def id_zero_is_padding(dout, ids, table):
    """Word 0 gets no gradient. `ids > 0` leaves it out with the padding; an id of 0 is a word like any other."""
    return _right(dout, np.where(ids > 0, ids, -1), table)


def mean_of_repeats(dout, ids, table):
    """You took the mean over the tokens with the same id. Each of them read the row, so their gradients add up."""
    count = _occurs(ids, table).sum(axis=1, keepdims=True)
    return _right(dout, ids, table) / np.maximum(count, 1)


def times_count(dout, ids, table):
    """Repeated ids count twice over: their rows of dout add up already, and you multiplied the sum by how often the id
    occurs."""
    return _right(dout, ids, table) * _occurs(ids, table).sum(axis=1, keepdims=True)


def mean_over_tokens(dout, ids, table):
    """You divided by the number of tokens. If the loss is a mean, dout has been divided already: sum."""
    return _right(dout, ids, table) / table.dtype.type(max((ids >= 0).sum(), 1))


def mean_over_batch(dout, ids, table):
    """You divided by the number of sequences. All of them read the same table: sum over B."""
    return _right(dout, ids, table) / table.dtype.type(len(ids))


def position_rows(dout, ids, table):
    """You added dout to row t of the table, t being the position. The lookup read row ids[b, t]."""
    positions = np.where(ids < 0, -1, np.arange(ids.shape[1]) % len(table))
    return _right(dout, positions, table)


def times_table(dout, ids, table):
    """You multiplied by the row itself. The lookup copies the row, so the gradient arrives as it is, with a factor of
    1."""
    return _right(dout, ids, table) * table


def step_taken(dout, ids, table):
    """This is the table plus the gradient. Return the gradient alone, starting from zeros; the optimizer changes the
    table."""
    return table + _right(dout, ids, table)


def descended(dout, ids, table):
    """Your sign is wrong: a gradient points where the loss grows. The minus belongs to the optimizer's step."""
    return -_right(dout, ids, table)


def shifted(dout, ids, table):
    """You gave each gradient to the row of the token before it. The step to the next token is in the targets; the row
    of ids[b, t] gets dout[b, t]."""
    return _right(dout[:, 1:], ids[:, :-1], table)


def first_sequence_only(dout, ids, table):
    """Only the first sequence of the batch counts in your answer. All B sequences read the same table."""
    return _right(dout[:1], ids[:1], table)


def last_sequence_only(dout, ids, table):
    """You keep the last sequence alone: in a loop over the batch, `=` replaces what came before. Add them up."""
    return _right(dout[-1:], ids[-1:], table)


def reshaped(dout, ids, table):
    """`one_hot.reshape(V, -1)` has the right shape but not the right order: it cuts rows apart. Reshape to [B·T, V],
    then transpose."""
    hot = np.ascontiguousarray(_occurs(ids, table).T)  # [B·T, V]
    return hot.reshape(len(table), -1) @ dout.reshape(ids.size, -1)


def forward_again(dout, ids, table):
    """This is the forward, table[ids]. The gradient has the table's shape, [V, D]."""
    return np.where((ids >= 0)[..., None], table[ids], table.dtype.type(0))


def transposed(dout, ids, table):
    """Your result is [D, V]. The table's gradient has the table's shape, [V, D]."""
    return _right(dout, ids, table).T.copy()


def per_sequence(dout, ids, table):
    """You have one gradient for each sequence. They share one table [V, D]: sum over B as well as over T."""
    return np.stack([_right(d, i, table) for d, i in zip(dout, ids)])


def words_that_occur(dout, ids, table):
    """You have rows for the words that occur, and for no others. A word that does not occur has a row too: zeros."""
    return _right(dout, ids, table)[np.unique(ids[ids >= 0])]


def up_to_the_largest_id(dout, ids, table):
    """Your result ends with the largest id that occurs. Make it as long as the table: V rows."""
    return _right(dout, ids, table)[: ids.max() + 1].copy()


def in_place(dout, ids, table):
    """`dout[ids < 0] = 0` writes into the caller's array. Pick the real places instead, `dout[ids >= 0]`, or copy
    first."""
    dout[ids < 0] = 0
    dout *= 1  # also where nothing is padded
    return _right(dout, ids, table)


def into_the_table(dout, ids, table):
    """You added the gradient into the table itself. It changes the caller's array, and what comes out is not the
    gradient: start from zeros."""
    table += _right(dout, ids, table)
    return table


def float64_leak(dout, ids, table):
    """Somewhere your float32 becomes float64. `np.zeros(shape)` and `np.bincount` give float64 unless told otherwise:
    `np.zeros(shape, dtype=dout.dtype)`."""
    return np.zeros(table.shape) + _right(dout, ids, table)


# ---- right answers, written otherwise ----


def add_at(dout, ids, table):
    """np.add.at on the real places."""
    out, real = np.zeros_like(table), ids >= 0
    np.add.at(out, ids[real], dout[real])
    return out


def spare_row(dout, ids, table):
    """One row too many, into which −1 falls, cut off at the end."""
    out = np.zeros((len(table) + 1, table.shape[1]), dtype=table.dtype)
    np.add.at(out, ids, dout)
    return out[:-1].copy()


def one_hot(dout, ids, table):
    """A product with a one-hot array that has no 1 where padded."""
    hot = np.eye(len(table), dtype=table.dtype)[ids] * (ids >= 0)[..., None]  # [B, T, V]
    return np.einsum("btv,btd->vd", hot, dout)


def loops(dout, ids, table):
    """Loops over every token and feature."""
    out = np.zeros_like(table)
    rows = out.tolist()
    for its, words in zip(dout.tolist(), ids.tolist()):
        for d, word in zip(its, words):
            if word >= 0:
                row = rows[word]
                for i, value in enumerate(d):
                    row[i] += value
    out[...] = rows
    return out


def token_by_token(dout, ids, table):
    """A loop over tokens, each adding one row."""
    out = np.zeros(table.shape, dtype=dout.dtype)
    for b, t in np.ndindex(*ids.shape):
        if ids[b, t] != -1:
            out[ids[b, t]] += dout[b, t]
    return out


def word_by_word(dout, ids, table):
    """A loop over words, each summing its tokens."""
    return np.stack([dout[ids == v].sum(axis=0) for v in range(len(table))])


def sorted_runs(dout, ids, table):
    """Tokens sorted by id, and each run of equal ids summed by reduceat."""
    out, real = np.zeros_like(table), ids >= 0
    order = np.argsort(ids[real], kind="stable")
    ordered = ids[real][order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    out[ordered[starts]] = np.add.reduceat(dout[real][order], starts, axis=0)
    return out


def counted(dout, ids, table):
    """np.bincount, column by column, brought back from float64."""
    real = ids >= 0
    columns = [np.bincount(ids[real], weights=column, minlength=len(table)) for column in dout[real].T]
    return np.stack(columns, axis=1).astype(table.dtype)


exercise = Code(
    id="embedding-backward",
    title="The way back to the table",
    chapter="01_tokens",
    answer="embedding_backward_padded",
    points=2,
    stars=2,
    minutes=15,
    args=("dout", "ids", "table"),
    returns=("dtable",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        repeats_lost,
        repeats_and_padding,
        repeats_lost_in_a_sequence,
        repeats_lost_at_a_position,
        first_wins,
        padding_in_the_last_row,
        padding_in_the_first_row,
        padding_shared_out,
        stopped_at_padding,
        padded_sequences_dropped,
        id_zero_is_padding,
        mean_of_repeats,
        times_count,
        mean_over_tokens,
        mean_over_batch,
        position_rows,
        times_table,
        step_taken,
        descended,
        shifted,
        first_sequence_only,
        last_sequence_only,
        reshaped,
        forward_again,
        transposed,
        per_sequence,
        words_that_occur,
        up_to_the_largest_id,
        in_place,
        into_the_table,
        float64_leak,
    ),
    variants=(add_at, spare_row, one_hot, loops, token_by_token, word_by_word, sorted_runs, counted),
    hints=(
        "The forward copied row ids[b, t] into out[b, t]. If that row grew a little, which numbers of out would grow?",
        "So dout[b, t] goes to row ids[b, t]. A row that was read twice receives two gradients, and they add up.",
        "`d[ids] += dout` keeps only one of several equal ids. `np.add.at(d, ids, dout)` adds all of them.",
        "And what does NumPy do with an index of −1? `real = ids >= 0` says which places were real.\n"
        "`ids[real]` and `dout[real]` are those alone.",
        "Start from `np.zeros_like(table)`, and add at `ids[real]` the rows `dout[real]` with np.add.at.",
    ),
    library=("scratch.ops.embedding_backward",),
    loss=loss,
    large=large,
    takeaway="A lookup copies, so its backward adds: every token's gradient to the row that it read, and to no other.",
)
