"""Exercise padded-mean-loss: the loss of a padded batch, shifted by one, over the targets that count."""

import math

import numpy as np

from exercises.spec import Code
from scratch.ops import cross_entropy_forward


def reference(logits, ids, pad_mask):
    """logits [B, T, V]; ids int [B, T]; pad_mask bool [B, T]. Returns parts [B, T − 1], whose sum is the mean loss."""
    each, counts = np.zeros(ids[:, 1:].shape, logits.dtype), pad_mask[:, :-1] & pad_mask[:, 1:]
    for b, t in zip(*np.nonzero(counts)):
        each[b, t] = cross_entropy_forward(logits[b, t : t + 1], ids[b, t + 1 : t + 2])[0]
    return each / logits.dtype.type(max(int(counts.sum()), 1))


def cases(rng):
    """Ascending; padding on either side, a text of one token, no target at all, logits of every size."""

    def case(V, rows, scale=1.0):
        mask = np.array([[c == "x" for c in row] for row in rows])
        logits = rng.standard_normal((*mask.shape, V)) * scale
        return logits, rng.integers(0, V, mask.shape), mask

    _, ids, mask = case(3, ["xx-"])
    yield rng.choice([-1, 1], (1, 3, 3)) * rng.integers(1, 21, (1, 3, 3)) / 10, ids, mask
    yield case(4, ["--x", "x--"])  # nothing to predict
    yield case(4, ["xxx--", "-xxxx"])
    yield case(7, ["xxxxxx", "----xx", "x-----"], 3.0)
    logits, ids, mask = case(5, ["xxxxx--", "xx-----", "---xxxx", "xxxxxxx"])
    yield logits + np.array([1e4, -1e4, 0, 500])[:, None, None], ids, mask  # exp(1e4) is inf, exp(−1e4) is 0
    yield case(6, ["xxxxxxxx", "------xx", "xxx-----", "-xxxxxxx", "xxxx----"], 10.0 ** rng.integers(-3, 2, (5, 8, 1)))
    yield case(9, ["xxxxxxxxxx", "xx--------", "-------xxx", "xxxxxxx---"])


def rounding(logits, ids, pad_mask):
    """In units of u. log Σ exp has terms that carry twice the largest logit m, a sum of V, a logarithm; the two adds of
    numbers as large as 2m; and the quotient."""
    each, counts = _parts(logits, ids, pad_mask)
    V, m = logits.shape[-1], np.abs(logits[:, :-1]).max(axis=-1)
    return ((6 * m + V + 3 * math.log(V) + 8 + 3 * np.abs(each)) * counts / max(int(counts.sum()), 1),)


def _each(logits, targets):
    """The loss of every row, none left out."""
    z = logits - logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, targets[..., None], -1)[..., 0]


def _shares(each, counts, n=None):
    n = int(counts.sum()) if n is None else n
    return np.where(counts, each, 0) / each.dtype.type(max(n, 1))


def _parts(logits, ids, pad_mask):
    """Every row's loss, and which rows count."""
    return _each(logits[:, :-1], ids[:, 1:]), pad_mask[:, :-1] & pad_mask[:, 1:]


# ---- wrong answers; each docstring is what its author will read ----


def zero(logits, ids, pad_mask):
    """All of it is zero, which is right only where no target counts."""
    return np.zeros_like(logits[:, 1:, 0])


def not_shifted(logits, ids, pad_mask):
    """Row t is judged by token t, which it has just read. It has to predict token t + 1."""
    return _shares(_each(logits[:, :-1], ids[:, :-1]), pad_mask[:, :-1] & pad_mask[:, 1:])


def other_way(logits, ids, pad_mask):
    """Your shift goes the wrong way: row t is judged by token t − 1. It has to predict token t + 1."""
    return _shares(_each(logits[:, 1:], ids[:, :-1]), pad_mask[:, :-1] & pad_mask[:, 1:])


def two_ahead(logits, ids, pad_mask):
    """Row t is judged by token t + 2: shifted twice. It has to predict token t + 1."""
    return _shares(_each(logits[:, :-2], ids[:, 2:]), pad_mask[:, :-2] & pad_mask[:, 2:])


def wrapped(logits, ids, pad_mask):
    """Your last row is judged by the first token: `np.roll` wraps around. The last row has no target."""
    return _shares(_each(logits, np.roll(ids, -1, axis=1)), pad_mask & np.roll(pad_mask, -1, axis=1))


def no_mask(logits, ids, pad_mask):
    """Padding is among your targets. A row counts where it and its target are real."""
    each, counts = _parts(logits, ids, pad_mask)
    return _shares(each, np.ones_like(counts))


def padding_in_the_mean(logits, ids, pad_mask):
    """The sum is right; you divide by all positions. Divide by the number of targets that count."""
    each, counts = _parts(logits, ids, pad_mask)
    return _shares(each, counts, counts.size)


def by_tokens(logits, ids, pad_mask):
    """The sum is right; you divide by the number of real tokens. The first of each text is nobody's target."""
    each, counts = _parts(logits, ids, pad_mask)
    return _shares(each, counts, int(pad_mask.sum()))


def by_texts(logits, ids, pad_mask):
    """The sum is right; you divide by the number of texts. Divide by the number of targets that count."""
    each, counts = _parts(logits, ids, pad_mask)
    return _shares(each, counts, len(ids))


def summed(logits, ids, pad_mask):
    """Your parts add up to the sum of all losses. The mean divides by the number of targets that count."""
    each, counts = _parts(logits, ids, pad_mask)
    return _shares(each, counts, 1)


def mean_of_means(logits, ids, pad_mask):
    """You take each text's mean first, so that a short text weighs as much as a long one. Every target weighs the
    same."""
    each, counts = _parts(logits, ids, pad_mask)
    own = np.maximum(counts.sum(axis=1, keepdims=True), 1).astype(each.dtype)
    return _shares(each / own, counts, int(counts.any(axis=1).sum()))


def row_real(logits, ids, pad_mask):
    """You ask whether the row is real, not whether its target is: the last real row would predict padding."""
    each, _ = _parts(logits, ids, pad_mask)
    return _shares(each, pad_mask[:, :-1])


def target_real(logits, ids, pad_mask):
    """You ask whether the target is real, not whether the row is: the padding before a text has read nothing."""
    each, _ = _parts(logits, ids, pad_mask)
    return _shares(each, pad_mask[:, 1:])


def opposite_sign(logits, ids, pad_mask):
    """Your sign is turned: the loss is minus the logarithm of a probability, and never below 0."""
    return -_shares(*_parts(logits, ids, pad_mask))


def improbability(logits, ids, pad_mask):
    """You average 1 − p. The loss is −ln p."""
    each, counts = _parts(logits, ids, pad_mask)
    return _shares(1 - np.exp(-each), counts)


def bits(logits, ids, pad_mask):
    """Your logarithm has base 2. The loss is in nats: `np.log`."""
    return _shares(*_parts(logits, ids, pad_mask)) / logits.dtype.type(math.log(2))


def no_maximum(logits, ids, pad_mask):
    """exp overflows: subtract each row's maximum first."""
    rows = logits[:, :-1]
    with np.errstate(all="ignore"):
        p = np.exp(rows) / np.exp(rows).sum(axis=-1, keepdims=True)
        each = -np.log(np.take_along_axis(p, ids[:, 1:, None], -1)[..., 0])
    return _shares(each, pad_mask[:, :-1] & pad_mask[:, 1:])


def nan_if_none(logits, ids, pad_mask):
    """Where no target counts you divide 0 by 0. All parts are 0 there."""
    each, counts = _parts(logits, ids, pad_mask)
    with np.errstate(all="ignore"):
        return each * counts / each.dtype.type(counts.sum())


def the_mean(logits, ids, pad_mask):
    """You return the mean itself, one number. Asked for are its parts [B, T − 1], which add up to it."""
    return np.asarray(_shares(*_parts(logits, ids, pad_mask)).sum())


def in_place(logits, ids, pad_mask):
    """`logits -= …` writes into the caller's array. Make a new one."""
    logits -= logits.max(axis=-1, keepdims=True)
    return _shares(*_parts(logits, ids, pad_mask))


def float64_leak(logits, ids, pad_mask):
    """Your float32 becomes float64: perhaps divided by a count that NumPy holds as an int64."""
    return _shares(*_parts(logits.astype(np.float64), ids, pad_mask))


# ---- right answers, written otherwise ----


def loops(logits, ids, pad_mask):
    """One target after another."""
    parts, n = np.zeros(ids[:, 1:].shape, logits.dtype), 0
    for b in range(len(ids)):
        for t in range(ids.shape[1] - 1):
            if pad_mask[b, t] and pad_mask[b, t + 1]:
                row = logits[b, t] - logits[b, t].max()
                parts[b, t] = np.log(np.exp(row).sum()) - row[ids[b, t + 1]]
                n += 1
    return parts / max(n, 1)


def chosen_rows(logits, ids, pad_mask):
    """Only the rows that count, picked by a boolean mask, and a logaddexp."""
    counts = pad_mask[:, :-1] & pad_mask[:, 1:]
    rows, targets = logits[:, :-1][counts], ids[:, 1:][counts]
    parts = np.zeros(counts.shape, logits.dtype)
    if len(rows):
        losses = np.logaddexp.reduce(rows, axis=-1) - rows[np.arange(len(rows)), targets]
        parts[counts] = losses / len(rows)
    return parts


def one_hot(logits, ids, pad_mask):
    """A one-hot matrix of targets that is zero wherever nothing counts, and einsum."""
    counts = pad_mask[:, 1:] * pad_mask[:, :-1]
    hot = ((ids[:, 1:, None] == np.arange(logits.shape[-1])) & counts[..., None]).astype(logits.dtype)
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = z - np.log(np.einsum("btv->bt", np.exp(z)))[..., None]
    return -np.einsum("btv,btv->bt", hot, log_p) / logits.dtype.type(max(hot.sum(), 1))


exercise = Code(
    id="padded-mean-loss",
    title="The loss of a padded batch",
    chapter="15_pitfalls",
    answer="loss_parts",
    points=2,
    stars=2,
    minutes=15,
    args=("logits", "ids", "pad_mask"),
    returns=("parts",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        not_shifted,
        other_way,
        two_ahead,
        wrapped,
        no_mask,
        padding_in_the_mean,
        by_tokens,
        by_texts,
        summed,
        mean_of_means,
        row_real,
        target_real,
        opposite_sign,
        improbability,
        bits,
        no_maximum,
        nan_if_none,
        the_mean,
        in_place,
        float64_leak,
    ),
    variants=(loops, chosen_rows, one_hot),
    hints=(
        "Row t predicts token t + 1. Which rows have a target at all? `logits[:, :-1]` against `ids[:, 1:]`.",
        "A row counts where two tokens are real: the one it stands on, and the one it predicts.",
        "The loss of a row is log Σ exp(z) − z[target], with z the logits less their maximum.",
        "Set rows that do not count to 0, and divide all by how many do; by 1 where there is none.",
    ),
    takeaway="Shift once, ask both tokens whether they are real, and divide by what was added.",
)
