"""Exercise top-p: the probabilities that a next token is drawn with, after temperature and top-p."""

import numpy as np

from exercises.spec import Code
from scratch import generate


def reference(logits, temperature, top_p):
    """logits [B, V]; temperature and top_p floats above 0. Returns p [B, V], whose rows sum to 1."""
    return generate.next_probabilities(logits, temperature=temperature, top_p=top_p)


def cases(rng):
    """Ascending. Whether a token stays must not hang on rounding, so rows are drawn until it does not."""

    def case(B, V, temperature, top_p, scale=1.0, shift=0.0):
        while True:
            logits = rng.standard_normal((B, V)) * scale + shift
            if _clear(logits, temperature, top_p):
                return logits, temperature, top_p

    while True:  # by hand: whole tenths, two of three stay
        logits = rng.permutation(np.arange(-20, 21))[None, :3] / 10
        if _clear(logits, 2.0, 0.7) and (_before(logits, 2.0) < 0.7).sum() == 2:
            break
    yield logits, 2.0, 0.7
    yield case(1, 4, 0.5, 0.05)  # the most probable alone has more: it stays
    yield case(2, 3, 1.5, 0.9)
    yield case(2, 5, 0.7, 0.6, shift=np.array([[1000.0], [-1000.0]]))  # exp gives inf and 0
    tail = rng.permuted(np.array([[40.0, 0, -1, -2, -3, -4]] * 2), axis=1)  # in sums, 1 + e^−40 is 1
    yield tail, 1.0, 1.0
    yield case(3, 7, 1.3, 0.8, scale=2.0)
    yield case(4, 8, 0.6, 0.95, scale=10.0 ** rng.uniform(-1, 1, (4, 1)))
    yield case(3, 20, 2.5, 0.5)


def _before(logits, temperature):
    """For each token, what the more probable ones have together."""
    p = _softmax(logits, temperature)
    return (p[..., None, :] * (p[..., None, :] > p[..., :, None])).sum(axis=-1)


def _clear(logits, temperature, top_p):
    apart = np.diff(np.sort(logits, axis=-1), axis=-1).min(axis=-1) / np.ptp(logits, axis=-1)
    return np.abs(_before(logits, temperature) - top_p).min() > 5e-3 and apart.min() > 1e-3


def rounding(logits, temperature, top_p):
    """In units of u. A score below the row's largest errs by the two quotients' roundings and the difference's, and
    that is the relative error of its exponential. All kept ones enter the sum that each is divided by. A softmax
    over all first, and a second division, add 2 V + 8."""
    p = reference(logits, temperature, top_p)
    scaled = logits / temperature
    top = scaled.max(axis=-1, keepdims=True)
    error = np.abs(scaled) + np.abs(top) + (top - scaled)
    error = error + (p * error).sum(axis=-1, keepdims=True) + 2 * logits.shape[-1] + 8
    return (p * error,)


def _softmax(logits, temperature=1.0, axis=-1):
    scaled = logits / temperature
    e = np.exp(scaled - scaled.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _divided(p):
    total = p.sum(axis=-1, keepdims=True)
    return p / np.where(total == 0, 1, total)


def _filter(p, top_p, keep=None):
    """Keep by the mass `before` each of the ranked tokens; `keep` puts another rule in its place."""
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=-1)
    mass = ranked.cumsum(axis=-1)
    kept = mass - ranked < top_p if keep is None else keep(ranked, mass)
    if keep is None and top_p == 1:
        kept[:] = True
    chosen = np.zeros_like(p)
    np.put_along_axis(chosen, order, np.where(kept, ranked, 0), axis=-1)
    return chosen


# ---- wrong answers; each docstring is what its author will read ----


def no_filter(logits, temperature, top_p):
    """Every token still has a probability: nothing was cut off."""
    return _softmax(logits, temperature)


def crossing_dropped(logits, temperature, top_p):
    """You dropped the token that reaches top_p. It belongs to those kept. Without it they have less than top_p
    together, and where the first token alone has enough, none is left."""
    return _divided(_filter(_softmax(logits, temperature), top_p, lambda ranked, mass: mass < top_p))


def dropped_but_the_first(logits, temperature, top_p):
    """You rescued the most probable token, but otherwise the one that reaches top_p is still dropped: those kept have
    less than top_p together."""

    def keep(ranked, mass):
        return (mass < top_p) | (np.arange(mass.shape[-1]) == 0)

    return _divided(_filter(_softmax(logits, temperature), top_p, keep))


def one_too_many(logits, temperature, top_p):
    """You kept one token too many: the one before it had already reached top_p. As few as possible stay."""

    def keep(ranked, mass):
        before = mass - ranked
        return np.concatenate([np.ones_like(before[..., :1]) > 0, before[..., :-1] < top_p], axis=-1)

    return _divided(_filter(_softmax(logits, temperature), top_p, keep))


def not_divided(logits, temperature, top_p):
    """Your rows do not sum to 1. What was cut off has to be made up: divide those kept by their sum."""
    return _filter(_softmax(logits, temperature), top_p)


def temperature_forgotten(logits, temperature, top_p):
    """The temperature changes nothing in your answer: divide the logits by it before the softmax."""
    return _divided(_filter(_softmax(logits), top_p))


def temperature_multiplied(logits, temperature, top_p):
    """You multiplied by the temperature. A high one must even the probabilities out, so divide the
    logits by it."""
    return _divided(_filter(_softmax(logits, 1 / temperature), top_p))


def temperature_last(logits, temperature, top_p):
    """You chose who stays before the temperature, and applied it to them. Here the temperature comes first, and decides
    with top_p who stays."""
    kept = _filter(_softmax(logits), top_p) > 0
    return _divided(np.where(kept, _softmax(logits, temperature), 0))


def temperature_on_probabilities(logits, temperature, top_p):
    """You divided probabilities by the temperature. That changes all by the same factor; divide the logits."""
    return _divided(_filter(_softmax(logits) / temperature, top_p))


def left_in_rank_order(logits, temperature, top_p):
    """Your probabilities are in the order of the sort. Put each back where its token stands."""
    p = _divided(_filter(_softmax(logits, temperature), top_p))
    return -np.sort(-p, axis=-1)


def from_the_bottom(logits, temperature, top_p):
    """You sorted upwards, so that the least probable tokens were kept first."""
    p = _softmax(logits, temperature)
    order = np.argsort(p, axis=-1)
    ranked = np.take_along_axis(p, order, axis=-1)
    chosen = np.zeros_like(p)
    kept = ranked.cumsum(axis=-1) - ranked < top_p
    np.put_along_axis(chosen, order, np.where(kept, ranked, 0), axis=-1)
    return _divided(chosen)


def in_the_given_order(logits, temperature, top_p):
    """You added up the probabilities in the order of the vocabulary. Sort them first, the largest first."""
    p = _softmax(logits, temperature)
    return _divided(np.where(p.cumsum(axis=-1) - p < top_p, p, 0))


def each_against_top_p(logits, temperature, top_p):
    """You compared each probability by itself with 1 − top_p. Top-p is about what the most probable have together."""
    p = _softmax(logits, temperature)
    return _divided(np.where(p >= 1 - top_p, p, 0))


def min_p(logits, temperature, top_p):
    """You kept what is at least top_p times as probable as the most probable token. That is min-p, with another
    number."""
    p = _softmax(logits, temperature)
    return _divided(np.where(p >= top_p * p.max(axis=-1, keepdims=True), p, 0))


def top_k(logits, temperature, top_p):
    """You kept a share of the vocabulary, as many tokens in each row. Top-p counts probability, not tokens."""
    k = int(np.ceil(top_p * logits.shape[-1]))
    p = _softmax(logits, temperature)
    return _divided(_filter(p, top_p, lambda ranked, mass: (np.arange(mass.shape[-1]) < k) & (mass > 0)))


def first_row_for_all(logits, temperature, top_p):
    """You took the order of the first row for all. Each row has a ranking of its own."""
    p = _softmax(logits, temperature)
    order = np.argsort(-p[0])
    ranked = p[:, order]
    chosen = np.zeros_like(p)
    chosen[:, order] = np.where(ranked.cumsum(axis=-1) - ranked < top_p, ranked, 0)
    return _divided(chosen)


def softmax_over_rows(logits, temperature, top_p):
    """Your softmax runs over the first axis, so it mixes the texts of the batch. Each row is a distribution."""
    return _divided(_filter(_softmax(logits, temperature, axis=0), top_p))


def overflow(logits, temperature, top_p):
    """Large logits give inf or NaN: subtract each row's maximum before np.exp."""
    e = np.exp(logits / temperature)
    return _divided(_filter(e / e.sum(axis=-1, keepdims=True), top_p))


def rounded_away(logits, temperature, top_p):
    """With top_p = 1 every token stays. A sum of probabilities may be rounded to 1 before its last terms, and you
    dropped those."""
    return _divided(_filter(_softmax(logits, temperature), top_p, lambda ranked, mass: mass - ranked < top_p))


def drawn(logits, temperature, top_p):
    """You returned a choice: all the probability on one token. Return the distribution that it would be drawn from."""
    return (logits == logits.max(axis=-1, keepdims=True)).astype(logits.dtype)


def scaled_in_place(logits, temperature, top_p):
    """`logits /= temperature` changes the caller's array; divide into a new one."""
    logits /= temperature
    return _divided(_filter(_softmax(logits), top_p))


def float64_leak(logits, temperature, top_p):
    """Computed in float64, whatever came in: keep the dtype of logits."""
    return _divided(_filter(_softmax(logits.astype(np.float64), temperature), top_p))


# ---- right answers, written otherwise ----


def ranked(logits, temperature, top_p):
    """Sort, add up, put back."""
    return _divided(_filter(_softmax(logits, temperature), top_p))


def pairs(logits, temperature, top_p):
    """No sort: each token asks what all more probable ones have together."""
    p = _softmax(logits, temperature)
    kept = (_before(logits, temperature) < top_p) | (top_p == 1)
    return _divided(np.where(kept, p, 0))


def masked_logits(logits, temperature, top_p):
    """The logits of the others become −inf, and a second softmax does the rest."""
    kept = _filter(_softmax(logits, temperature), top_p) > 0
    return _softmax(np.where(kept, logits, -np.inf), temperature)


def loops(logits, temperature, top_p):
    """One row, and one token, after another."""
    out = np.zeros_like(logits)
    for row, chosen in zip(logits, out, strict=True):
        e = np.exp(row / temperature - (row / temperature).max())
        p, mass, kept = e / e.sum(), 0.0, []
        for i in sorted(range(len(p)), key=lambda i: -row[i]):
            if mass >= top_p and top_p < 1:
                break
            kept.append(i)
            mass += p[i]
        for i in kept:
            chosen[i] = e[i] / sum(e[j] for j in kept)
    return out


exercise = Code(
    id="top-p",
    title="Temperature and top-p",
    chapter="12_generating",
    answer="top_p_probabilities",
    points=2,
    stars=2,
    minutes=20,
    args=("logits", "temperature", "top_p"),
    returns=("p",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        no_filter,
        crossing_dropped,
        dropped_but_the_first,
        one_too_many,
        not_divided,
        temperature_forgotten,
        temperature_multiplied,
        temperature_last,
        temperature_on_probabilities,
        left_in_rank_order,
        from_the_bottom,
        in_the_given_order,
        each_against_top_p,
        min_p,
        top_k,
        first_row_for_all,
        softmax_over_rows,
        overflow,
        rounded_away,
        drawn,
        scaled_in_place,
        float64_leak,
    ),
    variants=(ranked, pairs, masked_logits, loops),
    hints=(
        "Three steps: softmax of the logits divided by the temperature, decide who stays, divide by what they have.",
        "Rank each row: `order = np.argsort(-p, axis=-1)`, and `np.take_along_axis(p, order, axis=-1)`.",
        "A token stays if those ranked before it have less than top_p together. `cumsum` includes the token itself.",
        "`kept = ranked.cumsum(axis=-1) - ranked < top_p` is in the order of ranks. Nothing is cut if top_p is 1.\n"
        "`np.put_along_axis(out, order, values, axis=-1)` puts values back where their tokens stand.",
    ),
    library=("scratch.generate.next_probabilities", "scratch.generate.sample"),
    takeaway="The token that reaches top_p belongs to those that stay. So at least one always does.",
)
