"""Exercise cross-entropy-backward: from the gradient of the loss to that of the logits, ignored targets included."""

import math

import numpy as np

from exercises.spec import Code
from scratch import ops

IGNORE = -100


def reference(dloss, logits, targets):
    """dloss a float; logits [N, V] or [B, T, V]; targets int [N] or [B, T]. Returns dlogits, of logits' shape."""
    _, cache = ops.cross_entropy_forward(logits, targets, IGNORE)
    return ops.cross_entropy_backward(dloss, cache)


def cases(rng):
    """Ascending. The first is square, so that a forgotten keepdims or a wrong axis gives numbers and no error."""

    def case(shape, V, ignored=0, scale=1.0, dtype=np.intp):
        targets = rng.integers(0, V, shape).astype(dtype)
        if ignored:  # no unsigned dtype holds it
            targets.reshape(-1)[rng.permutation(targets.size)[:ignored]] = IGNORE
        dloss = float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-2, 2))
        return dloss, rng.standard_normal((*shape, V)) * scale, targets

    # numbers of one decimal, to work through by hand; the upstream is neither 0 nor ±1
    dloss = float(rng.choice([-1.5, -0.5, 0.5, 2.0]))
    yield dloss, rng.choice([-1, 1], (3, 3)) * rng.integers(1, 21, (3, 3)) / 10, rng.permutation(3)
    yield case((2, 2), 4, ignored=1)
    dloss, logits, targets = case((4,), 6)  # exp(10,000) is inf, exp(−10,000) is 0; and a target of probability 0
    logits += np.array([[1e4], [-1e4], [0], [0]])
    logits[2, (targets[2] + 1) % 6] += 1e4
    yield dloss, logits, targets
    yield case((2, 3), 5, ignored=6)  # nothing counts
    dloss, logits, targets = case((3, 2), 7, ignored=2, scale=10.0 ** rng.integers(-3, 3, (3, 2, 1)), dtype=np.int32)
    logits[1, 1] = 0  # every word as likely as another
    yield dloss, logits, targets
    yield case((2, 5), 6, ignored=3, scale=3.0)
    yield case((3, 4), 9, ignored=5, dtype=np.int16)
    yield case((10, 14), 3, dtype=np.int8)  # more targets than an int8 can count
    dloss, logits, targets = case((3,), 200, dtype=np.uint8)
    targets[rng.integers(3)] = 156  # what −100 wraps around to
    yield dloss, logits, targets


def large(rng):
    """22,400 logits, which loops pass in a blink."""
    targets = rng.integers(0, 700, (2, 16))
    targets[0, :3] = IGNORE
    return -0.7, rng.standard_normal((2, 16, 700)), targets


def loss(dloss, logits, targets):
    """dloss times the mean over the targets that count."""
    rows, flat = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    kept = np.flatnonzero(flat != IGNORE)
    rows = rows[kept] - rows[kept].real.max(axis=-1, keepdims=True)
    each = np.log(np.exp(rows).sum(axis=-1)) - rows[np.arange(kept.size), flat[kept]]
    return dloss * each.sum() / max(kept.size, 1)


def rounding(dloss, logits, targets):
    """In units of u. A logit's error δ becomes a relative error |δ| of its probability; with m = max |logit|, δ is 2m
    after subtracting the maximum and as much for the sum; a log-sum-exp of V steps has V (m + ln V) and one
    subtraction. exp takes 5, twice, the sum V, the division 1. At the target, 1 may be subtracted from p, or all other
    probabilities added up: the larger of the two counts. dloss and the count take 4. Below float32's smallest normal
    number, exp may give 0: that is 2e-31 u of float32."""
    V = logits.shape[-1]
    p, hot, keep, n = _parts(logits, targets)
    m = np.abs(logits).max(axis=-1, keepdims=True)
    in_p = (V + 4) * (m + math.log(V)) + V + 11
    off = np.where(hot > 0, np.maximum(p, 1 - p), p) * in_p + 4 * np.abs(p - hot) + 2e-31
    return (off * keep * (abs(dloss) / max(n, 1)),)


def _softmax(logits, axis=-1):
    e = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _parts(logits, targets):
    """Probabilities, one-hot targets (a row of zeros where ignored), what counts [..., 1], and how many do."""
    hot = (targets[..., None] == np.arange(logits.shape[-1])).astype(logits.dtype)
    keep = (targets != IGNORE)[..., None]
    return _softmax(logits), hot, keep, int(keep.sum())


def _right(dloss, logits, targets, p=None, hot=None, keep=None, n=None):
    """The right gradient, with room to put one thing wrong."""
    own_p, own_hot, own_keep, own_n = _parts(logits, targets)
    p, hot = (own if given is None else given for own, given in ((own_p, p), (own_hot, hot)))
    keep, n = (own if given is None else given for own, given in ((own_keep, keep), (own_n, n)))
    return (p - hot) * keep * logits.dtype.type(dloss / max(n, 1))


# ---- wrong answers; each docstring is what its author will read ----


def zero(dloss, logits, targets):
    """A gradient of zeros is right only where no target counts."""
    return np.zeros_like(logits)


def no_target(dloss, logits, targets):
    """Your gradient is the probabilities alone. The target's own logit also stands in the loss with a minus: subtract 1
    there."""
    return _right(dloss, logits, targets, hot=0)


def target_only(dloss, logits, targets):
    """Your gradient reaches the target's logit alone. Every logit of the row is in log Σ exp, which adds its
    probability."""
    return _right(dloss, logits, targets, p=0)


def one_everywhere(dloss, logits, targets):
    """You subtract 1 from every probability. It belongs to the target's place alone."""
    return _right(dloss, logits, targets, hot=1)


def negative(dloss, logits, targets):
    """Your gradient has the wrong sign: a larger logit at the target lowers the loss."""
    return -_right(dloss, logits, targets)


def plus_one(dloss, logits, targets):
    """You add 1 at the target. Its logit stands in the loss with a minus, so subtract it."""
    p, hot, _, _ = _parts(logits, targets)
    return _right(dloss, logits, targets, p=p + 2 * hot)


def mean_over_all(dloss, logits, targets):
    """You divide by all targets. The mean runs over those that count: leave the ignored ones out of the count."""
    return _right(dloss, logits, targets, n=targets.size)


def not_divided(dloss, logits, targets):
    """Your gradient is that of the sum. The loss is a mean: divide by the number of targets that count."""
    return _right(dloss, logits, targets, n=1)


def mean_over_batch(dloss, logits, targets):
    """You divide by the length of the first axis. The mean runs over all targets that count, B and T together."""
    return _right(dloss, logits, targets, n=len(logits))


def mean_over_entries(dloss, logits, targets):
    """You divide by the vocabulary as well. There is one loss for each target, not for each logit."""
    return _right(dloss, logits, targets, n=_parts(logits, targets)[3] * logits.shape[-1])


def mean_per_row(dloss, logits, targets):
    """You took a mean for each sequence. The mean runs over all targets of the batch that count."""
    n = np.maximum((targets != IGNORE).sum(axis=-1, keepdims=True), 1)[..., None]
    return (_right(dloss, logits, targets, n=1) / n).astype(logits.dtype)


def dloss_forgotten(dloss, logits, targets):
    """You left out dloss. What arrives from above multiplies every entry, and it is not always 1."""
    return _right(1.0, logits, targets)


def softmax_over_tokens(dloss, logits, targets):
    """Your softmax runs down axis −2, over the tokens. The logits of one token share a softmax: axis=-1."""
    return _right(dloss, logits, targets, p=_softmax(logits, axis=-2))


def softmax_over_all(dloss, logits, targets):
    """Your probabilities add up to 1 over the whole array. Each token has a softmax of its own: axis=-1."""
    return _right(dloss, logits, targets, p=_softmax(logits, axis=None))


def not_normalized(dloss, logits, targets):
    """Your p is exp(z − max) and was never divided by its sum: its rows do not add up to 1."""
    return _right(dloss, logits, targets, p=np.exp(logits - logits.max(axis=-1, keepdims=True)))


def logits_for_p(dloss, logits, targets):
    """You subtracted the one-hot row from the logits. It is their softmax that belongs there."""
    return _right(dloss, logits, targets, p=logits)


def softmax_twice(dloss, logits, targets):
    """You applied the softmax twice; the logits become probabilities in one."""
    return _right(dloss, logits, targets, p=_softmax(_softmax(logits)))


def log_forgotten(dloss, logits, targets):
    """This is the gradient of −p, the target's probability. The loss is −log p: its slope has 1/p as a factor more."""
    p, hot, _, _ = _parts(logits, targets)
    return _right(dloss, logits, targets) * (p * hot).sum(axis=-1, keepdims=True)


def softmax_backward_too(dloss, logits, targets):
    """p − onehot is the gradient of the logits already. You sent it through the softmax's backward once more."""
    p, hot, _, _ = _parts(logits, targets)
    back = p * ((p - hot) - (p * (p - hot)).sum(axis=-1, keepdims=True))
    return _right(dloss, logits, targets, p=back, hot=0)


def no_max(dloss, logits, targets):
    """Your exp overflows, or is 0 throughout a row: subtract each row's maximum from the logits first."""
    e = np.exp(logits)
    return _right(dloss, logits, targets, p=e / e.sum(axis=-1, keepdims=True))


def one_max_for_all(dloss, logits, targets):
    """You subtract one maximum from all rows. In a row far below it every exp is 0, and 0/0 is NaN: each row needs its
    own maximum."""
    e = np.exp(logits - logits.max())
    return _right(dloss, logits, targets, p=e / e.sum(axis=-1, keepdims=True))


def clipped(dloss, logits, targets):
    """You clip the logits against overflow. That changes the probabilities; subtracting each row's maximum does not."""
    return _right(dloss, logits, targets, p=_softmax(np.clip(logits, -80, 80)))


def through_p(dloss, logits, targets):
    """You went through −1/p, and where p is 0 that is inf. Take log and softmax in one step, and p cancels."""
    p, hot, keep, n = _parts(logits, targets)
    dp = -hot / (p * hot).sum(axis=-1, keepdims=True)
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    return np.where(keep, dz, 0) * logits.dtype.type(dloss / max(n, 1))


def small_number_in_log(dloss, logits, targets):
    """You differentiated −log(p + 1e-9). Where p is small, that is flat: the worst mistakes get no gradient."""
    p, hot, _, _ = _parts(logits, targets)
    of_target = (p * hot).sum(axis=-1, keepdims=True)
    return _right(dloss, logits, targets) * (of_target / (of_target + logits.dtype.type(1e-9)))


def ignored_keep_p(dloss, logits, targets):
    """Ignored positions still have a gradient. They are not in the loss: their rows are 0."""
    return _right(dloss, logits, targets, keep=1)


def ignored_as_word_0(dloss, logits, targets):
    """You put a word in the place of −100 so that it can be an index, and then let it count. Rows of ignored targets
    are 0."""
    _, hot, keep, _ = _parts(logits, targets)
    first = np.arange(logits.shape[-1]) == 0
    return _right(dloss, logits, targets, hot=hot + (~keep & first), keep=1)


def nothing_counts(dloss, logits, targets):
    """Where no target counts you divide 0 by 0. Divide by the larger of the count and 1: the gradient is 0 then."""
    found = _right(dloss, logits, targets)
    return found if _parts(logits, targets)[3] else found * np.nan


def shifted(dloss, logits, targets):
    """You shifted the targets. They are shifted already: targets[b, t] is what logits[b, t] should say."""
    return _right(dloss, logits, targets, hot=_parts(logits, np.roll(targets, -1, axis=-1))[1])


def sum_for_row(dloss, logits, targets):
    """Your result is one number for each token. Every logit has a gradient: it has the shape of logits."""
    p, hot, _, _ = _parts(logits, targets)
    return (_right(dloss, logits, targets) * hot).sum(axis=-1)


def keepdims_forgotten(dloss, logits, targets):
    """The sum that your softmax divides by has lost its last axis, so that NumPy lines it up with the words:
    `keepdims=True`."""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return _right(dloss, logits, targets, p=e / e.sum(axis=-1))


def in_place(dloss, logits, targets):
    """`logits -= …` writes into the caller's logits; `logits - …` makes a new array."""
    logits -= logits.max(axis=-1, keepdims=True)
    return _right(dloss, logits, targets)


def targets_in_place(dloss, logits, targets):
    """You wrote another number over the −100 of the caller's targets. Make a new array: `np.where(…)`."""
    found = _right(dloss, logits, targets)
    targets[targets == IGNORE] = 0
    return found


def float64_leak(dloss, logits, targets):
    """Somewhere your float32 becomes float64: perhaps by `np.eye`, or by dividing by a count that is a NumPy integer.
    `int(count)` does not widen."""
    return _right(dloss, logits.astype(np.float64), targets)


# ---- right answers, written otherwise ----


def rows_that_count(dloss, logits, targets):
    """The rows that count, taken out, worked on, and put back."""
    V = logits.shape[-1]
    out, flat = np.zeros((targets.size, V), dtype=logits.dtype), targets.ravel()
    at = np.flatnonzero(flat != IGNORE)
    if at.size:
        p = _softmax(logits.reshape(-1, V)[at])
        p[np.arange(at.size), flat[at]] -= 1
        out[at] = p * (dloss / int(at.size))
    return out.reshape(logits.shape)


def loops(dloss, logits, targets):
    """Loops over every token and word, in Python's own numbers."""
    out = np.zeros_like(logits)
    count = sum(1 for t in targets.ravel().tolist() if t != IGNORE)
    for index in np.ndindex(*targets.shape):
        if targets[index] == IGNORE:
            continue
        row = logits[index].tolist()
        top = max(row)
        e = [math.exp(z - top) for z in row]
        total = sum(e)
        for v in range(len(row)):
            out[(*index, v)] = dloss * (e[v] / total - (1 if v == targets[index] else 0)) / count
    return out


def one_hot(dloss, logits, targets):
    """Rows of an identity matrix, and a mask."""
    V, keep = logits.shape[-1], targets != IGNORE
    hot = np.eye(V, dtype=logits.dtype)[np.where(keep, targets, 0)]
    e = np.exp(logits - np.amax(logits, axis=-1, keepdims=True))
    share = np.where(keep, dloss / max(int(keep.sum()), 1), 0.0).astype(logits.dtype)[..., None]
    return share * (e / np.sum(e, axis=-1, keepdims=True)) - share * hot


def along_the_axis(dloss, logits, targets):
    """put_along_axis, and a division at the end."""
    keep = (targets != IGNORE)[..., None]
    at = np.where(keep, targets[..., None], 0)
    dz = _softmax(logits)
    np.put_along_axis(dz, at, np.take_along_axis(dz, at, axis=-1) - 1, axis=-1)
    return np.where(keep, dz, 0) * dloss / max(int(np.count_nonzero(keep)), 1)


def log_sum_exp(dloss, logits, targets):
    """Probabilities as exp(z − log Σ exp z), summed up pair by pair."""
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    return _right(dloss, logits, targets, p=p)


def others_added(dloss, logits, targets):
    """At the target, minus the sum of the other probabilities: nothing cancels."""
    p, hot, keep, n = _parts(logits, targets)
    others = np.where(hot > 0, 0, p)
    dz = np.where(hot > 0, -others.sum(axis=-1, keepdims=True), others)
    return np.where(keep, dz, 0) / max(n, 1) * dloss


exercise = Code(
    id="cross-entropy-backward",
    title="From the loss to the logits",
    chapter="09_stack",
    answer="logit_gradient",
    points=2,
    stars=2,
    minutes=20,
    args=("dloss", "logits", "targets"),
    returns=("dlogits",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        no_target,
        target_only,
        one_everywhere,
        negative,
        plus_one,
        mean_over_all,
        not_divided,
        mean_over_batch,
        mean_over_entries,
        mean_per_row,
        dloss_forgotten,
        softmax_over_tokens,
        softmax_over_all,
        not_normalized,
        logits_for_p,
        softmax_twice,
        log_forgotten,
        softmax_backward_too,
        no_max,
        one_max_for_all,
        clipped,
        through_p,
        small_number_in_log,
        ignored_keep_p,
        ignored_as_word_0,
        nothing_counts,
        shifted,
        sum_for_row,
        keepdims_forgotten,
        in_place,
        targets_in_place,
        float64_leak,
    ),
    variants=(rows_that_count, loops, one_hot, along_the_axis, log_sum_exp, others_added),
    hints=(
        "Take one position. Its loss is log Σ exp(z) − z[target]. Differentiate each of the two terms.",
        "The slope of log Σ exp(z) with respect to z[v] is exp(z[v]) / Σ exp(z): the probability p[v].\n"
        "The second term concerns the target's logit alone.",
        "The loss is a mean over the n targets that are not −100, and dloss arrives from above:\n"
        "dz = dloss · (p − onehot) / n at those, and a row of zeros at the others.",
        "Probabilities, safely: subtract each row's maximum, `logits.max(axis=-1, keepdims=True)`, exponentiate,\n"
        "divide by the row's sum. If n is 0, divide by 1 instead.",
        "`keep = targets != -100` and `at = np.where(keep, targets, 0)`, so that −100 is never an index.\n"
        "`onehot = at[..., None] == np.arange(V)` and `n = max(int(keep.sum()), 1)`.\n"
        "Then `(p - onehot) * keep[..., None] * (dloss / n)`.",
    ),
    library=("scratch.ops.cross_entropy_backward", "scratch.ops.chunked_cross_entropy_backward"),
    loss=loss,
    large=large,
    takeaway="Each row of dlogits adds up to zero: what the target gains, the other words pay, each by its share.",
)
