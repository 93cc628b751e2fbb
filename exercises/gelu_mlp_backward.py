"""Exercise gelu-mlp-backward: the gradients of the classic feed-forward, its input's, matrices' and biases'."""

import math
from collections import namedtuple

import numpy as np

from exercises.spec import Code
from scratch import ffn

C, A = math.sqrt(2 / math.pi), 0.044715  # GELU = z σ(2 C (z + A z³))


def reference(dout, x, w1, b1, w2, b2):
    """dout, x [B, T, D]; w1 [D, F]; b1 [F]; w2 [F, D]; b2 [D]. Returns dx, dw1, db1, dw2 and db2."""
    _, cache = ffn.gelu_mlp_forward(x, w1, b1, w2, b2)
    return ffn.gelu_mlp_backward(dout, cache)


def cases(rng):
    """Ascending; the first square, where a transposed weight fits, and one whose hidden values overflow exp."""

    def case(B, T, D, F, scale=1.0):
        shapes = (B, T, D), (B, T, D), (D, F), F, (F, D), D
        dout, x, *rest = (rng.standard_normal(shape) for shape in shapes)
        return dout, x * scale, *rest

    # numbers of one decimal, none of them zero; no two alike in an array, or it might be its own transpose
    dout, x, w1, w2 = (rng.choice(range(1, 16), 4, False) * rng.choice([-1, 1], 4) / 10 for _ in range(4))
    b1, b2 = (rng.choice(range(2, 9), 2, False) / 10 for _ in range(2))
    yield dout.reshape(1, 2, 2), x.reshape(1, 2, 2), w1.reshape(2, 2), b1, w2.reshape(2, 2), b2
    yield case(2, 1, 3, 4)
    dout, x, w1, b1, w2, b2 = case(2, 2, 3, 5)
    sign = np.array([[1, -1], [-1, 1]])[..., None]  # w1 is positive: a token's hidden values are all large of one sign
    x, w1 = sign * np.abs(x), np.abs(w1)
    yield dout, x * 300 / np.abs(x @ w1).max(axis=-1, keepdims=True), w1, b1, w2, b2
    yield case(2, 3, 4, 3, 1e-3)
    dout, x, w1, b1, w2, b2 = case(2, 4, 3, 7, 10.0 ** rng.integers(-3, 2, (2, 4, 1)))  # each token its own scale
    x[0, 1] = 0  # a padded token
    w1[:, 1] = b1[1] = 0  # a hidden unit at exactly 0: gelu(0) = 0, but its slope is a half
    w2[3] = 0  # a unit that is not listened to
    yield dout, x, w1, b1, w2, b2
    yield case(3, 4, 6, 5)
    yield case(2, 5, 7, 9, 10.0 ** rng.uniform(-3, 1.5))


def large(rng):
    """57,941 entries in x, the matrices and the biases: one token and wide weights, so that loops have little to do."""
    D, F = 128, 225
    shapes = (1, 1, D), (1, 1, D), (D, F), F, (F, D), D
    dout, x, w1, b1, w2, b2 = (rng.standard_normal(shape) for shape in shapes)
    return dout, x, w1 / np.sqrt(D), b1, w2 / np.sqrt(D), b2


def loss(dout, x, w1, b1, w2, b2):
    """Σ dout ⊙ out."""
    z = x @ w1 + b1
    return (dout * ((z * _sigmoid(2 * C * (z + A * z**3))) @ w2 + b2)).sum()


def rounding(dout, x, w1, b1, w2, b2):
    """In units of u; e_y is the error of y, passed on through the formulas with every term in absolute value.

    σ hands the error of its argument on with slope σ(1 − σ) and adds about 6 roundings of its own, absolute, not
    relative, for (1 + tanh)/2 is a right way too. But not much more than σ or 1 − σ itself, where these are too small
    for any dtype here: hence e^−|arg|, four times, in units of the smallest u, 2^−53. 1 − tanh² loses as much.
    """
    D, F = w1.shape
    N = x.shape[0] * x.shape[1]
    z, s, act, curve, slope, _ = _parts(dout, x, w1, b1, w2)
    e_z = (D + 1) * (np.abs(x) @ np.abs(w1) + np.abs(b1))  # [B, T, F], as all up to e_dz
    size, inner = np.abs(z), 2 * C * (1 + 3 * A * z * z)  # the slope of σ's argument
    e_arg = inner * e_z + 6 * 2 * C * (size + A * size**3)
    own = np.minimum(6, np.exp(-2 * C * (size + A * size**3)) * 2.0**55)
    bend = s * (1 - s)
    e_s, e_bend = bend * e_arg + own, bend * e_arg + 3 * own
    e_act = s * e_z + size * e_s + 2 * np.abs(act)
    e_inner = 2 * C * 6 * A * size * e_z + 5 * inner
    e_slope = e_s + bend * inner * e_z + size * (inner * e_bend + bend * e_inner) + 4 * size * bend * inner + s
    reach = np.abs(dout) @ np.abs(w2.T)  # |dact| with all terms positive: some multiply by the slope before summing
    dz = reach * np.abs(slope)
    e_dz = D * reach * np.abs(slope) + reach * e_slope + dz
    dx = (e_dz + (F + 1) * dz) @ np.abs(w1.T)
    dw1, db1 = _weight(np.abs(x), e_dz + N * dz), (e_dz + N * dz).sum(axis=(0, 1))
    return dx, dw1, db1, _weight(e_act + N * np.abs(act), np.abs(dout)), (N + 1) * np.abs(dout).sum(axis=(0, 1))


def _sigmoid(z):
    """Of floats of any size, complex ones too: the exponent's real part is never positive."""
    e = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, e, 1) / (1 + e)


Parts = namedtuple("Parts", "z s act curve slope dact")


def _parts(dout, x, w1, b1, w2):
    """What the backward needs of the forward, and what reaches the activation: all [B, T, F]."""
    z = x @ w1 + b1
    s = _sigmoid(2 * C * (z + A * z * z * z))
    curve = z * s * (1 - s) * (2 * C * (1 + 3 * A * z * z))  # the slope's second term
    return Parts(z, s, z * s, curve, s + curve, dout @ w2.T)


def _weight(x, dy):
    """The gradient of w in y = x w: summed over all tokens."""
    return x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])


def _backward(dout, x, w1, b1, w2, dz=None, **wrong):
    """The right gradients, with room to put one thing wrong: a part, or what reaches z."""
    p = _parts(dout, x, w1, b1, w2)._replace(**wrong)
    dz = p.dact * p.slope if dz is None else dz
    return dz @ w1.T, _weight(x, dz), dz.sum(axis=(0, 1)), _weight(p.act, dout), dout.sum(axis=(0, 1))


def _instead(at, make):
    """The right gradients, with the one at place `at` made otherwise."""

    def answer(dout, x, w1, b1, w2, b2):
        found = list(_backward(dout, x, w1, b1, w2))
        found[at] = make(_parts(dout, x, w1, b1, w2), dout, x)
        return tuple(found)

    return answer


# ---- wrong answers; each docstring is what its author will read ----


def zero(dout, x, w1, b1, w2, b2):
    """Your dx is zero: it is right only where out does not depend on x."""
    return np.zeros_like(x), *_backward(dout, x, w1, b1, w2)[1:]


def slope_forgotten(dout, x, w1, b1, w2, b2):
    """What came back through w2 went straight on to w1. Between them stands GELU: multiply by its slope."""
    return _backward(dout, x, w1, b1, w2, dz=dout @ w2.T)


def value_for_slope(dout, x, w1, b1, w2, b2):
    """You multiplied by GELU's value. What passes back through it is multiplied by its slope."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, dz=p.dact * p.act)


def slope_first_term(dout, x, w1, b1, w2, b2):
    """Your slope is ½ (1 + tanh s) alone. z stands in tanh s as well, and a product's rule has two terms."""
    return _backward(dout, x, w1, b1, w2, slope=_parts(dout, x, w1, b1, w2).s)


def slope_second_term(dout, x, w1, b1, w2, b2):
    """Your slope holds the term from tanh s alone; the factor z in front has one too, ½ (1 + tanh s)."""
    return _backward(dout, x, w1, b1, w2, slope=_parts(dout, x, w1, b1, w2).curve)


def slope_minus(dout, x, w1, b1, w2, b2):
    """The second term of your slope has the wrong sign: tanh rises, and so does s."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, slope=p.s - p.curve)


def slope_without_z(dout, x, w1, b1, w2, b2):
    """The second term of your slope lacks its factor z: GELU is a product, and z multiplies the slope of tanh s."""
    p = _parts(dout, x, w1, b1, w2)
    rest = p.s * (1 - p.s) * (2 * C * (1 + 3 * A * p.z * p.z))
    return _backward(dout, x, w1, b1, w2, slope=p.s + rest)


def inner_forgotten(dout, x, w1, b1, w2, b2):
    """Your chain rule stops at tanh: its argument s has a slope in z too, √(2/π) (1 + 3 · 0.044715 z²)."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, slope=p.s + 2 * p.z * p.s * (1 - p.s))


def inner_without_cube(dout, x, w1, b1, w2, b2):
    """Your slope of s is √(2/π) alone; its cubic term has a slope as well."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, slope=p.s + p.z * p.s * (1 - p.s) * 2 * C)


def inner_without_three(dout, x, w1, b1, w2, b2):
    """In your slope of s the cube left no factor 3 behind: z³ has slope 3 z²."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, slope=p.s + p.z * p.s * (1 - p.s) * 2 * C * (1 + A * p.z * p.z))


def curve_half(dout, x, w1, b1, w2, b2):
    """The second term of your slope is half the right one. With tanh it is ½ z (1 − tanh² s) s′; with σ(2s), the 2
    counts too."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, slope=p.s + p.curve / 2)


def curve_twice(dout, x, w1, b1, w2, b2):
    """The second term of your slope is twice the right one: the ½ in front of GELU belongs to it as well."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, slope=p.s + 2 * p.curve)


def slope_of_relu(dout, x, w1, b1, w2, b2):
    """Your slope is 0 or 1: ReLU's. GELU's is smooth."""
    p = _parts(dout, x, w1, b1, w2)
    return _backward(dout, x, w1, b1, w2, slope=np.where(p.z > 0, p.z.dtype.type(1), p.z.dtype.type(0)))


def slope_at_value(dout, x, w1, b1, w2, b2):
    """You took the slope at gelu(z), the value. It is taken at what went in, z = x w1 + b1."""
    p = _parts(dout, x, w1, b1, w2)
    s = _sigmoid(2 * C * (p.act + A * p.act**3))
    return _backward(dout, x, w1, b1, w2, slope=s + p.act * s * (1 - s) * (2 * C * (1 + 3 * A * p.act * p.act)))


def slope_at_dact(dout, x, w1, b1, w2, b2):
    """You took the slope at the gradient. It is taken at what went in forward, z = x w1 + b1."""
    p = _parts(dout, x, w1, b1, w2)
    s = _sigmoid(2 * C * (p.dact + A * p.dact**3))
    slope = s + p.dact * s * (1 - s) * (2 * C * (1 + 3 * A * p.dact * p.dact))
    return _backward(dout, x, w1, b1, w2, slope=slope)


def bias_forgotten(dout, x, w1, b1, w2, b2):
    """You left b1 out when you computed z again. GELU bends at x w1 + b1."""
    return _backward(dout, x, w1, np.zeros_like(b1), w2)


def exact_gelu(dout, x, w1, b1, w2, b2):
    """Your GELU is the one with erf. GPT-2's, asked for here, is the tanh form; they differ in the fourth digit."""
    z = x @ w1 + b1
    below = (0.5 * (1 + np.vectorize(math.erf, otypes=[float])(z / math.sqrt(2)))).astype(z.dtype)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return _backward(dout, x, w1, b1, w2, act=z * below, slope=below + z * density)


def quick_gelu(dout, x, w1, b1, w2, b2):
    """Your GELU is z σ(1.702 z), a rougher form than the tanh one asked for here."""
    z = x @ w1 + b1
    s = _sigmoid(1.702 * z)
    return _backward(dout, x, w1, b1, w2, act=z * s, slope=s + 1.702 * z * s * (1 - s))


def silu_for_gelu(dout, x, w1, b1, w2, b2):
    """Your activation is SiLU, z σ(z). This feed-forward has GELU."""
    z = x @ w1 + b1
    s = _sigmoid(z)
    return _backward(dout, x, w1, b1, w2, act=z * s, slope=s + z * s * (1 - s))


def second_not_transposed(dout, x, w1, b1, w2, b2):
    """You multiplied dout by w2 as it stands. Going back through a product takes the transpose, w2ᵀ."""
    if w2.shape[0] != w2.shape[1]:
        return dout @ w2
    return _backward(dout, x, w1, b1, w2, dact=dout @ w2)


def first_not_transposed(dout, x, w1, b1, w2, b2):
    """Your dx multiplies by w1 as it stands. Going back through a product takes the transpose, w1ᵀ."""
    p = _parts(dout, x, w1, b1, w2)
    return p.dact * p.slope @ w1, *_backward(dout, x, w1, b1, w2)[1:]


def residual_added(dout, x, w1, b1, w2, b2):
    """You added dout to dx. That is the block's residual road; the feed-forward alone does not have it."""
    dx, *rest = _backward(dout, x, w1, b1, w2)
    return dx + dout, *rest


def dw1_from_dact(dout, x, w1, b1, w2, b2):
    """Your dw1 uses what reaches GELU's output. w1 stands before GELU: the slope comes in between."""
    p = _parts(dout, x, w1, b1, w2)
    dx, _, *rest = _backward(dout, x, w1, b1, w2)
    return dx, _weight(x, p.dact), *rest


def db1_from_dact(dout, x, w1, b1, w2, b2):
    """Your db1 sums what reaches GELU's output. b1 is added before GELU: the slope comes in between."""
    return _instead(2, lambda p, dout, x: p.dact.sum(axis=(0, 1)))(dout, x, w1, b1, w2, b2)


def db1_mean(dout, x, w1, b1, w2, b2):
    """Your db1 is the mean over the tokens. Every token used the same b1, so their gradients add up."""
    return _instead(2, lambda p, dout, x: (p.dact * p.slope).mean(axis=(0, 1)))(dout, x, w1, b1, w2, b2)


def db1_not_summed(dout, x, w1, b1, w2, b2):
    """Your db1 is one gradient for each token. They share one b1 [F]: sum over B and T."""
    return _instead(2, lambda p, dout, x: p.dact * p.slope)(dout, x, w1, b1, w2, b2)


def dw2_from_hidden(dout, x, w1, b1, w2, b2):
    """Your dw2 uses z. What w2 multiplied is gelu(z)."""
    return _instead(3, lambda p, dout, x: _weight(p.z, dout))(dout, x, w1, b1, w2, b2)


def dw2_from_slope(dout, x, w1, b1, w2, b2):
    """Your dw2 uses GELU's slope. w2 stands after GELU, and multiplied its value."""
    return _instead(3, lambda p, dout, x: _weight(p.slope, dout))(dout, x, w1, b1, w2, b2)


def dw2_transposed(dout, x, w1, b1, w2, b2):
    """Your dw2 is transposed: it has w2's shape, [F, D]."""
    return _instead(3, lambda p, dout, x: _weight(p.act, dout).T.copy())(dout, x, w1, b1, w2, b2)


def db2_zero(dout, x, w1, b1, w2, b2):
    """Your db2 is zero. b2 is added to every token's output, so it receives the sum of dout."""
    return _instead(4, lambda p, dout, x: np.zeros_like(dout[0, 0]))(dout, x, w1, b1, w2, b2)


def db2_mean(dout, x, w1, b1, w2, b2):
    """Your db2 is the mean over the tokens. Every token used the same b2, so their gradients add up."""
    return _instead(4, lambda p, dout, x: dout.mean(axis=(0, 1)))(dout, x, w1, b1, w2, b2)


def db2_not_summed(dout, x, w1, b1, w2, b2):
    """Your db2 is one gradient for each token. They share one b2 [D]: sum over B and T."""
    return _instead(4, lambda p, dout, x: dout.copy())(dout, x, w1, b1, w2, b2)


def weights_averaged(dout, x, w1, b1, w2, b2):
    """Your dw1 and dw2 are means over the tokens. All tokens used the same weights, so their gradients add up."""
    dx, dw1, db1, dw2, db2 = _backward(dout, x, w1, b1, w2)
    n = x.shape[0] * x.shape[1]
    return dx, dw1 / n, db1, dw2 / n, db2


def in_place(dout, x, w1, b1, w2, b2):
    """You wrote dx into x, whose memory is the caller's. Make a new array for it."""
    dx, *rest = _backward(dout, x, w1, b1, w2)
    x[...] = dx
    return x, *rest


def overflow(dout, x, w1, b1, w2, b2):
    """exp(2s) overflows in exp(2s) / (1 + exp(2s)) where z is large: inf / inf is NaN. tanh does not overflow, and
    neither does 1 / (1 + exp(−2s))."""
    z = x @ w1 + b1
    e = np.exp(2 * C * (z + A * z * z * z))
    s = e / (1 + e)
    return _backward(dout, x, w1, b1, w2, act=z * s, slope=s + z * s * (1 - s) * (2 * C * (1 + 3 * A * z * z)))


def float64_leak(dout, x, w1, b1, w2, b2):
    """Somewhere your float32 becomes float64: perhaps by `np.sqrt(2 / np.pi)`, a NumPy float64 that widens what it
    meets. `math.sqrt(2 / math.pi)` does not."""
    return _backward(dout.astype(np.float64), x.astype(np.float64), w1, b1, w2)


# ---- right answers, written otherwise ----


def loops(dout, x, w1, b1, w2, b2):
    """Loops over every token, hidden unit and feature."""
    (B, T, D), F = x.shape, w1.shape[1]
    dx, dw1, db1, dw2, db2 = (np.zeros_like(a) for a in (x, w1, b1, w2, b2))
    for b in range(B):
        for t in range(T):
            row, drow = x[b, t], dout[b, t]
            for f in range(F):
                z, dact = b1[f], x.dtype.type(0)
                for d in range(D):
                    z = z + row[d] * w1[d, f]
                    dact += drow[d] * w2[f, d]
                tanh = np.tanh(C * (z + A * z * z * z))
                dz = dact * (0.5 * (1 + tanh) + 0.5 * z * (1 - tanh * tanh) * C * (1 + 3 * A * z * z))
                db1[f] += dz
                for d in range(D):
                    dx[b, t, d] += dz * w1[d, f]
                    dw1[d, f] += row[d] * dz
                    dw2[f, d] += 0.5 * z * (1 + tanh) * drow[d]
            for d in range(D):
                db2[d] += drow[d]
    return dx, dw1, db1, dw2, db2


def with_tanh(dout, x, w1, b1, w2, b2):
    """The formula as GPT-2's papers have it, with tanh, all tokens in one matrix."""
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, x.shape[-1])
    z = rows @ w1 + b1
    tanh = np.tanh(C * (z + A * z**3))
    act = 0.5 * z * (1 + tanh)
    slope = 0.5 * (1 + tanh) + 0.5 * z * (1 - tanh**2) * C * (1 + 3 * A * z**2)
    dz = (drows @ w2.T) * slope
    return (dz @ w1.T).reshape(x.shape), rows.T @ dz, dz.sum(axis=0), act.T @ drows, drows.sum(axis=0)


def with_sigmoid(dout, x, w1, b1, w2, b2):
    """einsum, every sum named; GELU as z σ(2s)."""
    z = np.einsum("btd,df->btf", x, w1) + b1
    s = np.reciprocal(1 + np.exp(-2 * C * z * (1 + A * z * z)))
    dz = np.einsum("bto,fo->btf", dout, w2) * (s + 2 * C * z * s * (1 - s) * (1 + 3 * A * z * z))
    dx, dw1 = np.einsum("btf,df->btd", dz, w1), np.einsum("btd,btf->df", x, dz)
    return dx, dw1, np.einsum("btf->f", dz), np.einsum("btf,bto->fo", z * s, dout), np.einsum("bto->o", dout)


def jacobian(dout, x, w1, b1, w2, b2):
    """Token by token, with the whole D × D Jacobian of out with respect to x, and outer products for the weights."""
    dx, dw1, db1, dw2, db2 = (np.zeros_like(a) for a in (x, w1, b1, w2, b2))
    for at in np.ndindex(x.shape[:2]):
        z = x[at] @ w1 + b1
        tanh = np.tanh(C * z * (1 + A * z * z))
        slope = (1 + tanh + z * (1 - tanh) * (1 + tanh) * C * (1 + 3 * A * z * z)) / 2
        dx[at] = ((w1 * slope) @ w2) @ dout[at]
        dz = slope * (w2 @ dout[at])
        dw1 += np.outer(x[at], dz)
        dw2 += np.outer(z * (1 + tanh) / 2, dout[at])
        db1 += dz
        db2 += dout[at]
    return dx, dw1, db1, dw2, db2


def bias_as_a_feature(dout, x, w1, b1, w2, b2):
    """Each bias as one more row of its matrix, read by a feature that is always 1."""
    one = np.ones((x.shape[0] * x.shape[1], 1), dtype=x.dtype)
    rows, drows = np.hstack([x.reshape(len(one), -1), one]), dout.reshape(len(one), -1)
    w = np.vstack([w1, b1])
    z = rows @ w
    s = 0.5 + 0.5 * np.tanh(C * (z + A * z * z * z))
    dz = (drows @ w2.T) * (s + z * s * (1 - s) * (2 * C * (1 + 3 * A * z * z)))
    dw, dw2 = rows.T @ dz, np.hstack([z * s, one]).T @ drows
    dx = (dz @ w.T)[:, :-1].reshape(x.shape)
    return dx.copy(), dw[:-1].copy(), dw[-1].copy(), dw2[:-1].copy(), dw2[-1].copy()


exercise = Code(
    id="gelu-mlp-backward",
    title="Backward through the classic feed-forward",
    chapter="06_feed_forward",
    answer="mlp_gradients",
    points=3,
    stars=2,
    minutes=25,
    args=("dout", "x", "w1", "b1", "w2", "b2"),
    returns=("dx", "dw1", "db1", "dw2", "db2"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        slope_forgotten,
        value_for_slope,
        slope_first_term,
        slope_second_term,
        slope_minus,
        slope_without_z,
        inner_forgotten,
        inner_without_cube,
        inner_without_three,
        curve_half,
        curve_twice,
        slope_of_relu,
        slope_at_value,
        slope_at_dact,
        bias_forgotten,
        exact_gelu,
        quick_gelu,
        silu_for_gelu,
        second_not_transposed,
        first_not_transposed,
        residual_added,
        dw1_from_dact,
        db1_from_dact,
        db1_mean,
        db1_not_summed,
        dw2_from_hidden,
        dw2_from_slope,
        dw2_transposed,
        db2_zero,
        db2_mean,
        db2_not_summed,
        weights_averaged,
        in_place,
        overflow,
        float64_leak,
    ),
    variants=(loops, with_tanh, with_sigmoid, jacobian, bias_as_a_feature),
    hints=(
        "Write the forward in three lines: z = x w1 + b1, act = gelu(z), out = act w2 + b2.\n"
        "Then go backward, last line first.",
        "From out = act w2 + b2: dact = dout w2ᵀ, dw2 = actᵀ dout over all tokens, and db2 is the sum of dout.",
        "GELU works entry by entry: dz = dact ⊙ gelu′(z). It is a product, ½ z times (1 + tanh s), and s depends on z.",
        "gelu′(z) = ½ (1 + t) + ½ z (1 − t²) s′ with t = tanh s and s′ = √(2/π) (1 + 3 · 0.044715 z²).",
        "dx = dz w1ᵀ, dw1 = xᵀ dz over all tokens (`reshape(-1, …)`), and db1 = dz summed over B and T.",
    ),
    library=("scratch.ffn.gelu_mlp_backward", "scratch.ops.gelu_backward"),
    loss=loss,
    large=large,
    takeaway="Two projections and a slope between them: entry by entry, nothing is mixed but by the matrices.",
)
