"""Exercise softmax-backward: carry a gradient from the weights of each row back to its scores."""

import math

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(dout, x):
    """dout, x [B, H, T, N]. Returns dx [B, H, T, N], for out = softmax(x) over the last axis."""
    _, cache = ops.softmax_forward(x)
    return ops.softmax_backward(dout, cache)


def cases(rng):
    """Ascending. The first is square, so that a forgotten keepdims or a wrong axis gives numbers and no error."""

    def case(B, H, T, N, scale):
        return rng.standard_normal((B, H, T, N)), rng.standard_normal((B, H, T, N)) * scale

    # numbers of one decimal, to work through by hand
    yield tuple(rng.choice([-1, 1], (1, 1, 3, 3)) * rng.integers(1, 21, (1, 1, 3, 3)) / 10 for _ in range(2))
    yield case(2, 1, 1, 5, 1e-3)
    yield case(1, 2, 3, 4, 1.0)
    yield case(2, 3, 4, 1, 1e3)  # one key: its weight is 1 whatever the score
    dout, x = case(2, 2, 3, 5, 1.0)
    # exp(900) is inf, exp(−900) is 0, and 1800 below the largest score of all it is 0 as well
    yield dout, x + rng.permutation([900.0, 0.0, -900.0])[:, None]
    dout, x = case(2, 3, 5, 4, 10.0 ** rng.integers(-3, 4, (2, 3, 5, 1)))  # each row its own scale
    yield dout * 10.0 ** rng.integers(-3, 4, (2, 3, 5, 1)), x
    yield case(3, 2, 4, 7, 3.0)


def large(rng):
    """32,768 scores, which loops pass in a blink."""
    x = rng.standard_normal((1, 2, 128, 128))
    return rng.standard_normal(x.shape), x


def loss(dout, x):
    """Σ dout ⊙ out."""
    e = np.exp(x - x.real.max(axis=-1, keepdims=True))
    return (dout * e / e.sum(axis=-1, keepdims=True)).sum()


def rounding(dout, x):
    """In units of u. A score's error δ becomes a relative error |δ| of its weight. After subtracting the maximum, δ is
    at most 2m for a score, m = max |x|, and as much again for the sum; with a log-sum-exp of N steps it is N (m + ln N)
    and one subtraction. exp takes 5 (2.5 ulp), twice, the sum N, the division 1. c = Σ p dout has the weights' error
    and N + 1 more; a sum over a whole Jacobian adds N to the direct term. Below float32's smallest normal number, exp
    may give 0: that is 2e-31 u of float32."""
    N = x.shape[-1]
    p = _softmax(x)
    m = np.abs(x).max(axis=-1, keepdims=True)
    in_p = (N + 4) * (m + math.log(N)) + N + 11
    c = (p * np.abs(dout)).sum(axis=-1, keepdims=True)
    flushed = 2e-31 * (np.abs(dout) + c)
    return (p * ((in_p + N + 3) * np.abs(dout) + (2 * in_p + N + 4) * c) + flushed,)


def _softmax(x, axis=-1):
    e = np.exp(np.subtract(x, x.max(axis=axis, keepdims=True)))
    return np.divide(e, e.sum(axis=axis, keepdims=True))


def _c(dout, p, axis=-1):
    return (dout * p).sum(axis=axis, keepdims=True)


# ---- wrong answers; each docstring is what its author will read ----


def zero(dout, x):
    """A gradient of zeros is right only for an upstream that is the same throughout a row."""
    return np.zeros_like(x)


def diagonal(dout, x):
    """Your dx is p (1 − p) dout, which follows each score to its own weight only. All weights of a row share one sum,
    so every score moves all of them."""
    p = _softmax(x)
    return p * (1 - p) * dout


def off_diagonal(dout, x):
    """Your dx holds only what a score takes from the row through the shared sum; its direct way to its own weight is
    missing."""
    p = _softmax(x)
    return -p * _c(dout, p)


def no_sum(dout, x):
    """Your dx is p ⊙ dout: it treats the row's sum as a constant, but every score of the row is in it."""
    return _softmax(x) * dout


def sum_without_p(dout, x):
    """You subtract Σ dout. Each term of that sum needs its weight p: a key that gets no weight has no say."""
    p = _softmax(x)
    return p * (dout - dout.sum(axis=-1, keepdims=True))


def plain_mean(dout, x):
    """You subtract the plain mean of dout. What is subtracted is its mean under the weights p."""
    p = _softmax(x)
    return p * (dout - dout.mean(axis=-1, keepdims=True))


def mean_for_sum(dout, x):
    """You take the mean of p ⊙ dout. The weights add up to 1 already, so dividing by N once more is too much."""
    p = _softmax(x)
    return p * (dout - (p * dout).mean(axis=-1, keepdims=True))


def plus_sign(dout, x):
    """The second term has the wrong sign: a score that grows takes weight from the others."""
    p = _softmax(x)
    return p * (dout + _c(dout, p))


def negative(dout, x):
    """Your dx has the wrong sign throughout: a score that grows takes weight from the others for its own key."""
    p = _softmax(x)
    return -p * (dout - _c(dout, p))


def upstream_forgotten(dout, x):
    """Your dx does not depend on dout. p (1 − p) is a slope; a gradient is what arrives, carried back by the slopes."""
    p = _softmax(x)
    return p * (1 - p)


def p_in_first_term_only(dout, x):
    """Only your first term has a p in front. What is taken away through the row's sum is in proportion to p as well."""
    p = _softmax(x)
    return p * dout - _c(dout, p)


def p_not_in_front(dout, x):
    """Your dx is the bracket alone. Both terms carry the weight of the score's own key in front."""
    p = _softmax(x)
    return dout - _c(dout, p)


def slope_twice(dout, x):
    """Your dx has a factor 1 − p too many: the row's sum is counted by the bracket already."""
    p = _softmax(x)
    return p * (1 - p) * (dout - _c(dout, p))


def p_in_second_term_only(dout, x):
    """Your direct term is dout without its p. The slope of a weight with respect to its own score contains p."""
    p = _softmax(x)
    return dout - p * _c(dout, p)


def log_softmax(dout, x):
    """dout − p Σ dout is the gradient of log softmax; here out is the softmax itself."""
    return dout - _softmax(x) * dout.sum(axis=-1, keepdims=True)


def cross_entropy(dout, x):
    """p − dout is the gradient of softmax and cross-entropy together, for a one-hot target; here dout is a gradient."""
    return _softmax(x) - dout


def sum_over_all(dout, x):
    """Your sum of p ⊙ dout runs over all rows. Each row has its own softmax: sum over the last axis and keep the
    others."""
    p = _softmax(x)
    return p * (dout - (dout * p).sum())


def sum_over_queries(dout, x):
    """Your sum of p ⊙ dout runs down the queries, axis −2. The scores of one row share a softmax: axis=-1."""
    p = _softmax(x)
    return p * (dout - _c(dout, p, axis=-2))


def softmax_over_queries(dout, x):
    """Your softmax runs down the queries, axis −2. A row, the last axis, holds the scores of one query."""
    p = _softmax(x, axis=-2)
    return p * (dout - _c(dout, p, axis=-2))


def softmax_over_queries_only(dout, x):
    """Your softmax runs down axis −2 and your sum over axis −1. Both belong to one row: axis=-1."""
    p = _softmax(x, axis=-2)
    return p * (dout - _c(dout, p))


def softmax_over_all(dout, x):
    """Your weights add up to 1 over the whole array. Each row is a softmax by itself: sum over the last axis."""
    p = _softmax(x, axis=None)
    return p * (dout - _c(dout, p))


def x_for_p(dout, x):
    """You used x where the weights belong: x holds scores, and p is their softmax."""
    return x * (dout - _c(dout, x))


def softmax_twice(dout, x):
    """You applied the softmax twice; the scores x become weights in one."""
    p = _softmax(_softmax(x))
    return p * (dout - _c(dout, p))


def not_normalized(dout, x):
    """Your p is exp(x − max) and was never divided by its sum: its rows do not add up to 1."""
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p * (dout - _c(dout, p))


def no_max(dout, x):
    """Your exp overflows, or is 0 throughout a row: subtract each row's maximum from the scores first."""
    e = np.exp(x)
    p = e / e.sum(axis=-1, keepdims=True)
    return p * (dout - _c(dout, p))


def one_max_for_all(dout, x):
    """You subtract one maximum from all rows. In a row far below it every exp is 0, and 0/0 is NaN: each row needs its
    own maximum."""
    e = np.exp(x - x.max())
    p = e / e.sum(axis=-1, keepdims=True)
    return p * (dout - _c(dout, p))


def keepdims_forgotten(dout, x):
    """Your sum of p ⊙ dout has lost its last axis, so that NumPy lines it up with the keys: `keepdims=True`."""
    p = _softmax(x)
    return p * (dout - (dout * p).sum(axis=-1))


def keepdims_forgotten_in_softmax(dout, x):
    """The sum that your softmax divides by has lost its last axis, so that NumPy lines it up with the keys:
    `keepdims=True`."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1)
    return p * (dout - _c(dout, p))


def in_place_x(dout, x):
    """`x -= …` writes into the caller's scores; `x - …` makes a new array."""
    x -= x.max(axis=-1, keepdims=True)
    p = _softmax(x)
    return p * (dout - _c(dout, p))


def in_place_dout(dout, x):
    """`dout *= p` or `dout -= …` writes into the caller's gradient; make a new array."""
    p = _softmax(x)
    dout *= p
    return dout - p * dout.sum(axis=-1, keepdims=True)


def dx_is_dout(dout, x):
    """`dx = dout` gives the same array a second name, so `dx -= …` changes the caller's gradient: start from a new
    one."""
    p = _softmax(x)
    dx = dout
    dx -= _c(dout, p)
    dx *= p
    return dx


def float64_leak(dout, x):
    """Somewhere your float32 becomes float64 (`astype(float)`, `np.eye` or `np.zeros` without a dtype); for scores that
    is twice the memory of the largest arrays there are."""
    p = _softmax(x.astype(np.float64))
    return p * (dout - _c(dout, p))


# ---- right answers, written otherwise ----


def multiplied_out(dout, x):
    """The terms multiplied out."""
    e = np.exp(x - np.amax(x, axis=-1, keepdims=True))
    weighted = (p := e / np.sum(e, axis=-1, keepdims=True)) * dout
    return weighted - p * np.sum(weighted, axis=-1, keepdims=True)


def loops(dout, x):
    """Loops over every row and score, in Python's own numbers."""
    N = x.shape[-1]
    dx = np.empty_like(x)
    for index in np.ndindex(x.shape[:-1]):
        row, up = x[index].tolist(), dout[index].tolist()
        top = max(row)
        e = [math.exp(s - top) for s in row]
        total = sum(e)
        c = 0.0
        for i in range(N):
            c += e[i] / total * up[i]
        for j in range(N):
            dx[(*index, j)] = e[j] / total * (up[j] - c)
    return dx


def einsum(dout, x):
    """einsum for the sum, and no keepdims at all."""
    e = np.exp(x - np.max(x, axis=-1)[..., None])
    p = np.einsum("bhtn,bht->bhtn", e, 1 / np.einsum("bhtn->bht", e))
    return p * dout - np.einsum("bhtn,bht->bhtn", p, np.einsum("bhtn,bhtn->bht", p, dout))


def jacobian(dout, x):
    """The whole N × N Jacobian of every row, diag(p) − p pᵀ."""
    p = _softmax(x)
    J = p[..., :, None] * (np.eye(x.shape[-1], dtype=x.dtype) - p[..., None, :])  # [B, H, T, N, N]
    return (dout[..., None, :] @ J)[..., 0, :]


def step_by_step(dout, x):
    """The chain rule one operation at a time: the division, the sum, the exponential."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    total = e.sum(axis=-1, keepdims=True)
    de = dout / total  # e as the numerator
    dtotal = -(dout * e).sum(axis=-1, keepdims=True) / (total * total)
    de = de + dtotal  # and e in the sum
    return de * e


def log_sum_exp(dout, x):
    """Weights as exp(x − log Σ exp x), summed up pair by pair."""
    p = np.exp(x - np.logaddexp.reduce(x, axis=-1, keepdims=True))
    return p * (dout - np.vecdot(p, dout)[..., None])


def pairs(dout, x):
    """dx_j = Σᵢ p_j p_i (dout_j − dout_i): score j gains from each key that it beats. Nothing cancels."""
    p = _softmax(x)
    return (p[..., :, None] * p[..., None, :] * (dout[..., :, None] - dout[..., None, :])).sum(axis=-1)


exercise = Code(
    id="softmax-backward",
    title="Softmax backward",
    chapter="03_attention",
    answer="softmax_gradient",
    points=2,
    stars=2,
    minutes=15,
    args=("dout", "x"),
    returns=("dx",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        diagonal,
        off_diagonal,
        no_sum,
        sum_without_p,
        plain_mean,
        mean_for_sum,
        plus_sign,
        negative,
        upstream_forgotten,
        p_in_first_term_only,
        p_not_in_front,
        slope_twice,
        p_in_second_term_only,
        log_softmax,
        cross_entropy,
        sum_over_all,
        sum_over_queries,
        softmax_over_queries,
        softmax_over_queries_only,
        softmax_over_all,
        x_for_p,
        softmax_twice,
        not_normalized,
        no_max,
        one_max_for_all,
        keepdims_forgotten,
        keepdims_forgotten_in_softmax,
        in_place_x,
        in_place_dout,
        dx_is_dout,
        float64_leak,
    ),
    variants=(multiplied_out, loops, einsum, jacobian, step_by_step, log_sum_exp, pairs),
    hints=(
        "Take one row. Write pᵢ = eᵢ / Z with eᵢ = exp(xᵢ) and Z = Σ eⱼ.\n"
        "A score xⱼ acts on the row in two ways: through its own eⱼ, and through Z, which every weight is divided by.",
        "Differentiate pᵢ with respect to xⱼ. For i = j the quotient rule gives pᵢ − pᵢ². For i ≠ j only Z depends on\n"
        "xⱼ, and it gives −pᵢ pⱼ.",
        "The gradient of xⱼ collects from all weights of the row: dxⱼ = Σᵢ doutᵢ ∂pᵢ/∂xⱼ.\n"
        "Only i = j has the first term. All i have the second one, and pⱼ can leave that sum.",
        "First the weights, safely: subtract each row's maximum, `x.max(axis=-1, keepdims=True)`, exponentiate,\n"
        "divide by the row's sum. Then c = Σᵢ doutᵢ pᵢ, one number for each row (`keepdims=True`).",
        "dxⱼ = pⱼ doutⱼ − pⱼ c. In NumPy: `p * (dout - c)`.",
    ),
    library=(
        "scratch.ops.softmax_backward",
        "scratch.blocked.blocked_sdpa_backward",
        "scratch.tiled.tiled_attention_backward",
    ),
    loss=loss,
    large=large,
    takeaway="dx adds up to zero in each row: the weights cannot change their sum, so adding one number to all scores "
    "of a row does nothing.",
)
