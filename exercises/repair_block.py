"""Exercise repair-block: find the three bugs in a pre-norm block that runs without an error."""

import math

import numpy as np

from exercises.spec import Code
from scratch import block
from scratch.config import Config

EPS = 1e-5


def reference(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """x [B, T, D]; g1, g2 [D]; wq, wk, wv [D, Dh]; wo [Dh, D]; wg, wu [D, F]; wd [F, D]. Returns out [B, T, D]."""
    (D, Dh), F = wq.shape, wg.shape[1]
    config = Config(vocab_size=2, d_model=D, n_layers=1, n_heads=1, d_head=Dh, d_ff=F, pos="learned", eps=EPS)
    params = {
        "norm1": {"g": g1},
        "attn": {"wq": wq, "wk": wk, "wv": wv, "wo": wo},
        "norm2": {"g": g2},
        "ffn": {"wg": wg, "wu": wu, "wd": wd},
    }
    return block.block_forward(x, params, config)[0]


def cases(rng):
    """Ascending; the first in tenths. A single token, which hides the mask; rows of every size; and large weights, with
    which attention chooses."""

    def case(B, T, D, Dh, F, scale=1.0, weights=1.0):
        x = rng.standard_normal((B, T, D)) * scale
        shapes = (D, Dh), (D, Dh), (D, Dh), (Dh, D), (D, F), (D, F), (F, D)
        wq, wk, wv, wo, wg, wu, wd = (rng.standard_normal(s) * weights / math.sqrt(s[0]) for s in shapes)
        g1, g2 = rng.uniform(0.5, 1.5, (2, D))
        return x, g1, wq, wk, wv, wo, g2, wg, wu, wd

    shapes = (1, 2, 2), (2,), (2, 1), (2, 1), (2, 1), (1, 2), (2,), (2, 1), (2, 1), (1, 2)
    yield tuple(rng.choice([-1, 1], s) * rng.integers(2, 16, s) / 10 for s in shapes)
    yield case(2, 1, 3, 2, 4)
    yield case(1, 4, 3, 2, 5)
    x, g1, wq, *rest = case(1, 5, 4, 2, 3, weights=1.5)
    yield x, g1, wq, *rest
    yield x, g1, np.zeros_like(wq), *rest  # all scores 0: the mean of what is visible
    yield case(2, 3, 4, 3, 5, scale=1e-3)
    yield case(2, 4, 5, 3, 6, scale=10.0 ** rng.integers(-2, 3, (2, 4, 1)))  # each row its own scale
    yield case(3, 5, 6, 4, 8)


# ---- how far rounding may carry a right answer ----


class _Tracked:
    """A value; `terms`, the sum of the absolute values of its terms, in whatever order they are added; and `error`, how
    far the computed one may be from it, in units of u and to first order."""

    def __init__(self, value, error=0.0, terms=None):
        self.value, self.error = value, error
        self.terms = np.abs(value) if terms is None else terms

    def __add__(self, other):
        terms = self.terms + other.terms
        return _Tracked(self.value + other.value, self.error + other.error + terms, terms)

    def __mul__(self, other):
        terms = self.terms * other.terms
        error = self.terms * other.error + self.error * other.terms + terms
        return _Tracked(self.value * other.value, error, terms)

    def __matmul__(self, other):
        """n products, added up: n roundings on the longest path."""
        terms = self.terms @ other.terms
        error = self.terms @ (other.error + 0 * other.terms) + (self.error + 0 * self.terms) @ other.terms
        return _Tracked(self.value @ other.value, error + self.terms.shape[-1] * terms, terms)

    def transposed(self):
        return _Tracked(*(np.swapaxes(part + 0 * self.value, 1, 2) for part in (self.value, self.error, self.terms)))


def _norm_bound(x, g):
    """x g (mean(x²) + eps)^(−1/2). The mean takes D + 1 roundings, eps and its addition two, the inverse root four."""
    mean = (x.value * x.value).mean(axis=-1, keepdims=True) + EPS
    error = 2 * (np.abs(x.value) * x.error).mean(axis=-1, keepdims=True) + (x.value.shape[-1] + 3) * mean
    r = mean**-0.5
    return x * _Tracked(r, error * r**3 / 2 + 4 * r) * _Tracked(g)


def _softmax_bound(scores, seen):
    """exp turns an absolute error of a score into a relative one. The maximum, whatever it came to, cancels; taking it
    off rounds, exp is good to 4 u, and the sum has T terms. A right answer may as well take nothing off."""
    value = np.where(seen, scores.value, -np.inf)
    top = value.max(axis=-1, keepdims=True)
    p = np.exp(value - top)
    p /= p.sum(axis=-1, keepdims=True)
    off = np.where(seen, scores.error + np.abs(scores.value - top) + 4, 0)
    return _Tracked(p, p * (off + (p * off).sum(axis=-1, keepdims=True) + value.shape[-1] + 1))


def _silu_bound(z):
    """z σ(z), with slope σ(1 + z(1 − σ)): exp, a sum, a quotient and a product, 8 roundings in all."""
    s = 1 / (1 + np.exp(-z.value))
    slope = np.abs(s * (1 + z.value * (1 - s)))
    return _Tracked(z.value * s, slope * z.error + 8 * np.abs(z.value * s))


def rounding(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """In units of u: a bound carried through the block, step by step, with absolute values at each (running error
    analysis: Higham 2002, section 3.3)."""
    wq, wk, wv, wo, wg, wu, wd = map(_Tracked, (wq, wk, wv, wo, wg, wu, wd))
    stream, T = _Tracked(x), x.shape[1]
    n = _norm_bound(stream, g1)
    # two roundings: √Dh, also the reference's own, and the product with its inverse
    scale = _Tracked(np.asarray(wq.value.shape[1], dtype=x.dtype) ** -0.5)
    scale.error = 3 * scale.value
    scores = (n @ wq) @ (n @ wk).transposed() * scale
    p = _softmax_bound(scores, np.tri(T, dtype=bool))
    u = stream + p @ (n @ wv) @ wo
    u.terms = np.abs(u.value)  # from here on nobody takes its terms apart
    n = _norm_bound(u, g2)
    out = u + (_silu_bound(n @ wg) * (n @ wu)) @ wd
    return (out.error + out.terms,)  # one more: the two adds of the stream may be made in another order


# ---- wrong answers; each docstring is what its author will read ----


def _norm(x, g, of=None, axis=-1, eps=EPS):
    """RMSNorm of x, its size taken from `of`."""
    of = x if of is None else of
    return x * g * (np.square(of).mean(axis=axis, keepdims=True) + eps) ** -0.5


def _attend(n, wq, wk, wv, wo, past=0, scale=None, axis=-1):
    """What attention adds: query i sees keys up to i + past."""
    q, k, v = n @ wq, n @ wk, n @ wv
    scores = q @ k.swapaxes(1, 2) / (wq.shape[1] ** 0.5 if scale is None else scale)
    scores += np.triu(np.full(scores.shape[1:], -np.inf, dtype=n.dtype), past + 1)
    return _softmax(scores, axis) @ v @ wo


def _softmax(scores, axis=-1):
    e = np.exp(np.subtract(scores, scores.max(axis, keepdims=True)))
    return np.divide(e, e.sum(axis, keepdims=True))


def _feed(n, *weights):
    """What the feed-forward adds."""
    wg, wu, wd = weights
    gate = n @ wg
    return gate / (1 + np.exp(-gate)) * (n @ wu) @ wd


def _with_bugs(*bugs):
    """The block of the prompt with some of its three bugs left: "mask", "norm", "residual"."""

    def run(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
        u = x + _attend(_norm(x, g1), wq, wk, wv, wo, past=1 if "mask" in bugs else 0)
        n = _norm(u, g2, of=x if "norm" in bugs else u)
        return (x if "residual" in bugs else u) + _feed(n, wg, wu, wd)

    return run


def nothing_changed(*args):
    """All three bugs are still there. What does the chapter promise of every block? Change one token of x at a time,
    and look which rows of out move."""
    return _with_bugs("mask", "norm", "residual")(*args)


def mask_repaired(*args):
    """That was one: a token no longer hears a later one. Two promises are still broken. What should out be when the
    feed-forward adds nothing?"""
    return _with_bugs("norm", "residual")(*args)


def norm_repaired(*args):
    """That was one: both branches read a normalized copy. Two promises are still broken. Which rows of out may move
    when the last token changes?"""
    return _with_bugs("mask", "residual")(*args)


def residual_repaired(*args):
    """That was one: nothing is lost from the stream. Two promises are still broken. Which rows of out may move when the
    last token changes?"""
    return _with_bugs("mask", "norm")(*args)


def mask_left(*args):
    """One is left: a token still hears one that comes after it."""
    return _with_bugs("mask")(*args)


def norm_left(*args):
    """One is left: what the feed-forward reads is not normalized. Print the root-mean-square of its rows."""
    return _with_bugs("norm")(*args)


def residual_left(*args):
    """One is left: what attention brought is lost on its way out. Set wd to zero, and look at what comes out."""
    return _with_bugs("residual")(*args)


def norm_without_gain(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your second norm has lost its gain, g2."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo)
    return u + _feed(_norm(u, np.ones_like(g2)), wg, wu, wd)


def gains_swapped(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """The gains are swapped: g1 belongs to the norm before attention, g2 to the one before the feed-forward."""
    return _with_bugs()(x, g2, wq, wk, wv, wo, g1, wg, wu, wd)


def one_gain(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your second norm uses g1; its own gain is g2."""
    return _with_bugs()(x, g1, wq, wk, wv, wo, g1, wg, wu, wd)


def post_norm(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """This is a post-norm block: the norm stands on the stream, after the add. Here it belongs at the start of each
    branch."""
    u = _norm(x + _attend(x, wq, wk, wv, wo), g1)
    return _norm(u + _feed(u, wg, wu, wd), g2)


def norm_of_the_branch(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """You normalize what each branch gives. The norm belongs at its start: it is what attention and the feed-forward
    read."""
    u = x + _norm(_attend(x, wq, wk, wv, wo), g1)
    return u + _norm(_feed(u, wg, wu, wd), g2)


def parallel(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your feed-forward reads the norm of x, so it never hears what attention found. It reads the norm of u."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo)
    return u + _feed(_norm(x, g2), wg, wu, wd)


def norm_of_attention(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your feed-forward reads the norm of what attention added. It reads the norm of the whole stream, u."""
    a = _attend(_norm(x, g1), wq, wk, wv, wo)
    return x + a + _feed(_norm(a, g2), wg, wu, wd)


def raw_u(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your feed-forward reads u as it is. It reads a normalized copy."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo)
    return u + _feed(u, wg, wu, wd)


def no_first_residual(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your u is attention's answer alone. It is the stream plus that answer: x is missing."""
    u = _attend(_norm(x, g1), wq, wk, wv, wo)
    return u + _feed(_norm(u, g2), wg, wu, wd)


def no_second_residual(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """You return what the feed-forward adds, without the stream it is added to."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo)
    return _feed(_norm(u, g2), wg, wu, wd)


def both_added(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """You add x and u in the last line. u holds x already, so x counts twice."""
    return x + _with_bugs()(x, g1, wq, wk, wv, wo, g2, wg, wu, wd)


def u_normalized(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """You add the feed-forward to the normalized copy of u. The stream itself is never normalized."""
    n = _norm(x + _attend(_norm(x, g1), wq, wk, wv, wo), g2)
    return n + _feed(n, wg, wu, wd)


def _masked(change, *args):
    """The right block, but for the scores: change(scores [B, T, T]) gives the weights."""
    x, g1, wq, wk, wv, wo, g2, wg, wu, wd = args
    n = _norm(x, g1)
    p = change((n @ wq) @ (n @ wk).swapaxes(1, 2) / wq.shape[1] ** 0.5)
    u = x + p @ (n @ wv) @ wo
    return u + _feed(_norm(u, g2), wg, wu, wd)


def no_mask(*args):
    """Nothing is masked now: every token sees all the others, also the later ones."""
    return _masked(_softmax, *args)


def mask_too_wide(*args):
    """Your mask hides the token itself as well, so the first one sees nothing and becomes NaN. Key i is visible to
    query i."""
    return _masked(lambda s: _softmax(s + np.triu(np.full(s.shape[1:], -np.inf, dtype=s.dtype))), *args)


def mask_the_other_way(*args):
    """Your mask hides the earlier tokens and shows the later ones. Rows are queries, columns are keys: what has to go
    is above the diagonal."""
    return _masked(lambda s: _softmax(s + np.tril(np.full(s.shape[1:], -np.inf, dtype=s.dtype), -1)), *args)


def masked_with_zero(*args):
    """You set hidden scores to 0, and exp(0) is 1: they still get weight. Set them to −inf before the softmax."""
    return _masked(lambda s: _softmax(np.tril(s)), *args)


def masked_after(*args):
    """You mask after the softmax, so the weights that are left no longer add up to 1. Mask the scores."""
    return _masked(lambda s: np.tril(_softmax(s)), *args)


def diagonal_only(*args):
    """Your mask lets each token see itself alone. It sees the earlier ones too: hide what is above the diagonal, and no
    more."""
    return _masked(lambda s: np.broadcast_to(np.eye(s.shape[1], dtype=s.dtype), s.shape), *args)


def queries_normalized(*args):
    """Your softmax runs over the queries. Each query's weights add up to 1: it runs over the keys, axis=-1."""
    return _masked(
        lambda s: _softmax(s + np.triu(np.full(s.shape[1:], -np.inf, dtype=s.dtype), 1), axis=1),
        *args,
    )


def roles_swapped(*args):
    """You have keys for rows and queries for columns. scores[i, j] is query i times key j: q @ kᵀ."""
    causal = np.triu(np.full((args[0].shape[1],) * 2, -np.inf, dtype=args[0].dtype), 1)
    return _masked(lambda s: _softmax(s.swapaxes(1, 2) + causal), *args)


def scale_forgotten(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your scores are no longer divided by √Dh. That line was right."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo, scale=1)
    return u + _feed(_norm(u, g2), wg, wu, wd)


def scale_without_root(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """You divide the scores by Dh; it is its square root. That line was right."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo, scale=wq.shape[1])
    return u + _feed(_norm(u, g2), wg, wu, wd)


def scale_of_the_stream(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """You divide the scores by √D. A dot product of q and k has Dh terms, so it is √Dh. That line was right."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo, scale=x.shape[-1] ** 0.5)
    return u + _feed(_norm(u, g2), wg, wu, wd)


def values_of_x(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your values are made from x itself. Queries, keys and values all read the normalized copy."""
    n = _norm(x, g1)
    scores = (n @ wq) @ (n @ wk).swapaxes(1, 2) / wq.shape[1] ** 0.5
    scores += np.triu(np.full(scores.shape[1:], -np.inf, dtype=x.dtype), 1)
    u = x + _softmax(scores) @ (x @ wv) @ wo
    return u + _feed(_norm(u, g2), wg, wu, wd)


def wrong_gate(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """The gate and the up projection are swapped: SiLU goes on `n @ wg`. That line was right."""
    return _with_bugs()(x, g1, wq, wk, wv, wo, g2, wu, wg, wd)


def sigmoid_gate(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your gate is a sigmoid. SiLU is z times the sigmoid of z. That line was right."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo)
    n = _norm(u, g2)
    return u + (n @ wu) / (1 + np.exp(-(n @ wg))) @ wd


def eps_outside(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your eps stands outside the root. It belongs to the mean square, and decides where x is small."""

    def norm(x, g):
        return x * g / (np.sqrt(np.square(x).mean(axis=-1, keepdims=True)) + EPS)

    u = x + _attend(norm(x, g1), wq, wk, wv, wo)
    return u + _feed(norm(u, g2), wg, wu, wd)


def eps_dropped(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your norms have lost their eps, which decides where x is small."""
    u = x + _attend(_norm(x, g1, eps=0.0), wq, wk, wv, wo)
    return u + _feed(_norm(u, g2, eps=0.0), wg, wu, wd)


def norm_over_tokens(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your norms take the mean over the tokens. Each token is normalized by itself: axis=-1."""
    u = x + _attend(_norm(x, g1, axis=1), wq, wk, wv, wo)
    return u + _feed(_norm(u, g2, axis=1), wg, wu, wd)


def mean_subtracted(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Your norms subtract the mean, as LayerNorm does. RMSNorm has none."""
    centred = x - x.mean(axis=-1, keepdims=True)
    u = x + _attend(_norm(centred, g1), wq, wk, wv, wo)
    return u + _feed(_norm(u - u.mean(axis=-1, keepdims=True), g2), wg, wu, wd)


def in_place(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """`x += …` writes into the caller's stream. `u = x + …` makes a new array."""
    x += _attend(_norm(x, g1), wq, wk, wv, wo)
    return x + _feed(_norm(x, g2), wg, wu, wd)


def float64_leak(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """Somewhere your float32 becomes float64: `np.sqrt(Dh)` of an int is a float64, and so is an array that NumPy made
    by itself. `Dh**0.5` is a plain number and changes no dtype."""
    u = x + _attend(_norm(x, g1), wq, wk, wv, wo, scale=np.sqrt(wq.shape[1]))
    return u + _feed(_norm(u, g2), wg, wu, wd)


# ---- right answers, written otherwise ----


def loops(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """One token after another; each looks back over those before it, so that no mask is needed."""
    out = np.empty_like(x)

    def rms_norm(row, g):
        size = math.sqrt(sum(float(v) ** 2 for v in row) / len(row) + 1e-5)
        return row / np.asarray(size, dtype=x.dtype) * g

    for b in range(x.shape[0]):
        keys, values = [], []
        for t in range(x.shape[1]):
            n = rms_norm(x[b, t], g1)
            keys.append(n @ wk)
            values.append(n @ wv)
            scores = [float((n @ wq) @ key) / math.sqrt(len(key)) for key in keys]
            weights = [math.exp(s - max(scores)) for s in scores]
            mixed = sum(w * v for w, v in zip(weights, values)) / sum(weights)
            u = x[b, t] + mixed @ wo
            n = rms_norm(u, g2)
            hidden = np.array([float(z) / (1 + math.exp(-float(z))) for z in n @ wg], dtype=x.dtype) * (n @ wu)
            out[b, t] = u + hidden @ wd
    return out


def einsum(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """einsum throughout; the projections folded, so that the scores come from one D × D matrix and the values go
    through another."""
    D, Dh = wq.shape
    later = np.arange(x.shape[1])[:, None] < np.arange(x.shape[1])

    def normalized(y, g):
        return np.einsum("btd,d,bt->btd", y, g, (np.einsum("btd,btd->bt", y, y) / D + 1e-5) ** -0.5)

    n = normalized(x, g1)
    s = np.einsum("btd,de,bse->bts", n, np.einsum("dh,eh->de", wq, wk), n) * Dh**-0.5
    p = np.where(later, 0, np.exp(s - s.max(axis=-1, keepdims=True)))
    p = p / np.einsum("bts->bt", p)[..., None]
    u = x + np.einsum("bts,bsd,de->bte", p, n, wv @ wo)
    n = normalized(u, g2)
    gate = np.einsum("btd,df->btf", n, wg)
    return u + np.einsum("btf,btf,fd->btd", gate / (1 + np.exp(-gate)), np.einsum("btd,df->btf", n, wu), wd)


def rows(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """All rows in one matrix [B·T, D] wherever tokens do not meet; attention from prefixes of growing length."""
    B, T, D = x.shape
    flat = x.reshape(-1, D)

    def rms_norm(a, g):
        return g * (a / np.sqrt((a**2).sum(axis=1, keepdims=True) / D + 1e-5))

    n = rms_norm(flat, g1)
    q, k, v = (np.reshape(n @ w, (B, T, -1)) for w in (wq, wk, wv))
    a = []
    for t in range(T):
        e = np.exp((k[:, : t + 1] @ q[:, t, :, None])[..., 0] / math.sqrt(q.shape[2]))  # [B, t + 1]
        a.append((e[:, None] @ v[:, : t + 1])[:, 0] / e.sum(axis=1, keepdims=True))
    u = flat + np.stack(a, axis=1).reshape(B * T, -1) @ wo
    n = rms_norm(u, g2)
    gate, up = np.split(n @ np.hstack([wg, wu]), 2, axis=1)
    return (u + (up * gate * np.reciprocal(1 + np.exp(-gate))) @ wd).reshape(B, T, D)


def log_weights(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """A boolean mask and logarithms: p = exp(s − log Σ exp s)."""
    seen = np.tril(np.ones((x.shape[1],) * 2, dtype=bool))
    scale = x.dtype.type(1 / np.sqrt(wk.shape[-1]))
    root = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    n = g1 * x / root
    scores = np.matmul(scale * (n @ wq), np.transpose(n @ wk, (0, 2, 1)))
    scores = np.where(seen, scores, -np.inf)
    p = np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))
    y = x.copy()
    y += p @ (n @ wv @ wo)
    n = g2 * y / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + 1e-5)
    z = n @ wg
    hidden = np.exp(-np.logaddexp(0, -z)) * z * (n @ wu)
    y += hidden @ wd
    return y


exercise = Code(
    id="repair-block",
    title="Find the bugs",
    chapter="07_block",
    answer="repaired",
    points=3,
    stars=2,
    minutes=25,
    args=("x", "g1", "wq", "wk", "wv", "wo", "g2", "wg", "wu", "wd"),
    returns=("out",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        nothing_changed,
        mask_repaired,
        norm_repaired,
        residual_repaired,
        mask_left,
        norm_left,
        residual_left,
        norm_without_gain,
        gains_swapped,
        one_gain,
        post_norm,
        norm_of_the_branch,
        parallel,
        norm_of_attention,
        raw_u,
        no_first_residual,
        no_second_residual,
        both_added,
        u_normalized,
        no_mask,
        mask_too_wide,
        mask_the_other_way,
        masked_with_zero,
        masked_after,
        diagonal_only,
        queries_normalized,
        roles_swapped,
        scale_forgotten,
        scale_without_root,
        scale_of_the_stream,
        values_of_x,
        wrong_gate,
        sigmoid_gate,
        eps_outside,
        eps_dropped,
        norm_over_tokens,
        mean_subtracted,
        in_place,
        float64_leak,
    ),
    variants=(loops, einsum, rows, log_weights),
    hints=(
        "Do not read first: test. Each promise of this chapter is a test. A token never hears a later one. A silent\n"
        "branch adds nothing. A normalized row has root-mean-square 1. Which of them does this block keep?",
        "Disturb the last token: `x2 = x.copy(); x2[:, -1] += 1`. Only the last row of out may change.\n"
        "Then look at the mask, with T = 4: `print(np.triu(np.ones((4, 4)), 2))`. Which pairs does it hide?",
        "Silence the feed-forward: `wd = np.zeros_like(wd)`.\n"
        "Now out should be u, the stream with attention's answer in it. Is it?",
        "Silence attention instead, `wo = np.zeros_like(wo)`. Then u is x, and the block is right; with attention it\n"
        "is not. So a line below attention reads x where it should read u: print the root-mean-square of `u * r`.",
        "The three lines: the mask starts two above the diagonal, and should start one above it.\n"
        "The second `r` is made from x, and should be made from u. The last line adds to x, and should add to u.",
    ),
    library=(
        "scratch.block.block_forward",
        "scratch.block.pre_norm_forward",
        "scratch.attention.attention_forward",
        "scratch.attention.sdpa_forward",
        "scratch.blocked.blocked_sdpa_forward",
        "scratch.tiled.tiled_attention_forward",
        "scratch.generate._attend",
        "scratch.latent._attend",
    ),
    takeaway="No bug here raised an error or changed a shape. Promises found them: causality, a silent branch, a row "
    "of size 1.",
)
