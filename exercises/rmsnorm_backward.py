"""Exercise rmsnorm-backward: derive and write RMSNorm's backward, gain last."""

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(dout, x, g, eps):
    """dout, x [B, T, D]; g [D]; eps a float. Returns dx [B, T, D] and dg [D]."""
    _, cache = ops.rmsnorm_forward(x, g, eps)
    return ops.rmsnorm_backward(dout, cache)


def cases(rng):
    """Ascending; eps large enough to be seen in the first, and rows so small that eps decides in others."""

    def case(B, T, D, scale, eps):
        x = rng.standard_normal((B, T, D)) * scale
        return rng.standard_normal((B, T, D)), x, rng.standard_normal(D), eps

    # numbers of one decimal, to work through by hand; whole tenths, none of them zero
    tenths = [rng.choice([-1, 1], shape) * rng.integers(1, 21, shape) / 10 for shape in ((1, 2, 3), (1, 2, 3), (3,))]
    yield *tenths, 0.5
    yield case(2, 1, 4, 1e-3, 1e-5)
    yield case(2, 3, 5, 1e3, 1e-5)
    yield case(3, 2, 7, 1.0, 1e-6)
    dout, x, g, eps = case(2, 4, 6, 10.0 ** rng.integers(-3, 4, (2, 4, 1)), 1e-5)  # each row its own scale
    x[1, 2] = 0  # a padded token, say: r = 1 / √eps
    g[3] = 0  # a feature that is switched off: its gain has a gradient nevertheless
    yield dout, x, g, eps
    yield case(3, 5, 8, 10.0 ** rng.uniform(-3, 3), 1e-5)


def large(rng):
    """32,768 entries in x, which loops pass in a blink."""
    x = rng.standard_normal((2, 64, 256))
    return rng.standard_normal(x.shape), x, rng.standard_normal(256), 1e-5


def loss(dout, x, g, eps):
    """Σ dout ⊙ out."""
    return (dout * g * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)).sum()


def rounding(dout, x, g, eps):
    """In units of u. The mean square takes D + 2 roundings, its root halves them, and r is 4 more; r³ has three times
    r's. The sum c takes D + 2, the products around it 6; dg adds up B·T rows. The two terms of dx may cancel, so each
    counts with its absolute value."""
    B, T, D = x.shape
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)  # [B, T, 1]
    direct = np.abs(dout * g) * r  # [B, T, D]
    through_r = np.abs(x) * r**3 * np.abs(dout * g * x).mean(axis=-1, keepdims=True)
    in_r = (D + 2) / 2 + 4
    dx = (in_r + 3) * direct + (3 * in_r + D + 8) * through_r
    dg = (in_r + 3 + B * T) * np.abs(dout * x * r).sum(axis=(0, 1))
    return dx, dg


def _inverse_root(x, eps):
    return 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)  # [B, T, 1]


def _backward(dout, x, g, r, c=None, power=3):
    """The right formulas, with room to put one thing wrong."""
    dz = dout * g
    c = (dz * x).sum(axis=-1, keepdims=True) if c is None else c
    return r * dz - x * r**power * c / x.shape[-1], (dout * x * r).sum(axis=(0, 1))


# ---- wrong answers; each docstring is what its author will read ----


def zero(dout, x, g, eps):
    """A gradient of zeros is right only where nothing depends on x."""
    return np.zeros_like(x), _backward(dout, x, g, _inverse_root(x, eps))[1]


def no_correction(dout, x, g, eps):
    """Your dx is the true one without the − x r³ c / D term: r depends on x too, and so every x of a row moves it."""
    r = _inverse_root(x, eps)
    return r * dout * g, (dout * x * r).sum(axis=(0, 1))


def plus_sign(dout, x, g, eps):
    """The correction has the wrong sign: a larger x makes r smaller."""
    dx, dg = _backward(dout, x, g, _inverse_root(x, eps), c=-(dout * g * x).sum(axis=-1, keepdims=True))
    return dx, dg


def eps_dropped(dout, x, g, eps):
    """Your r leaves out eps, which decides where x is small."""
    return _backward(dout, x, g, _inverse_root(x, 0.0))


def eps_outside(dout, x, g, eps):
    """Your r adds eps outside the root: it belongs to the mean square, r = (mean(x²) + eps)^(−1/2)."""
    return _backward(dout, x, g, 1 / (np.sqrt((x * x).mean(axis=-1, keepdims=True)) + eps))


def eps_fixed(dout, x, g, eps):
    """Your r uses a fixed eps of 1e-5; use the argument."""
    return _backward(dout, x, g, _inverse_root(x, 1e-5))


def gain_forgotten(dout, x, g, eps):
    """Your dx leaves out the gain: what reaches z = x r is g ⊙ dout."""
    r = _inverse_root(x, eps)
    return _backward(dout, x, np.ones_like(g), r)


def gain_pulled_out(dout, x, g, eps):
    """You multiplied by g at the very end. It differs from feature to feature, so it cannot leave the sum
    c = Σ g dout x: going backward, the gain comes first."""
    dx, dg = _backward(dout, x, np.ones_like(g), _inverse_root(x, eps))
    return g * dx, dg


def gain_not_in_c(dout, x, g, eps):
    """Your c sums dout ⊙ x; the gain is missing in it: c = Σ g dout x."""
    return _backward(dout, x, g, _inverse_root(x, eps), c=(dout * x).sum(axis=-1, keepdims=True))


def r_squared(dout, x, g, eps):
    """The correction has r² where r³ belongs: the derivative of s^(−1/2) is −½ s^(−3/2)."""
    return _backward(dout, x, g, _inverse_root(x, eps), power=2)


def r_once(dout, x, g, eps):
    """The correction has r where r³ belongs: the derivative of s^(−1/2) is −½ s^(−3/2)."""
    return _backward(dout, x, g, _inverse_root(x, eps), power=1)


def sum_for_mean(dout, x, g, eps):
    """The correction is D times too large: the mean square divides by D, and so does its derivative."""
    c = (dout * g * x).sum(axis=-1, keepdims=True)
    return _backward(dout, x, g, _inverse_root(x, eps), c=c * x.shape[-1])


def twice(dout, x, g, eps):
    """The correction is twice the right one: the derivative of s^(−1/2) brings a ½ against the 2 of the square."""
    r = _inverse_root(x, eps)
    return _backward(dout, x, g, r, c=2 * (dout * g * x).sum(axis=-1, keepdims=True))


def half(dout, x, g, eps):
    """The correction is half the right one: the ½ of the root cancels against the 2 of the square."""
    return _backward(dout, x, g, _inverse_root(x, eps), c=(dout * g * x).sum(axis=-1, keepdims=True) / 2)


def one_c_for_all(dout, x, g, eps):
    """You summed c over all tokens. Each token is normalized by itself: sum over the last axis and keep the others."""
    return _backward(dout, x, g, _inverse_root(x, eps), c=(dout * g * x).sum())


def one_r_for_all(dout, x, g, eps):
    """Your r is one number for all tokens. Each token has its own: take the mean over the last axis alone."""
    return _backward(dout, x, g, 1 / np.sqrt((x * x).mean() + eps))


def summed_over_tokens(dout, x, g, eps):
    """You took mean and sum over the tokens. RMSNorm works on the features of one token: axis=-1."""
    r = 1 / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps)
    dz = dout * g
    dx = r * dz - x * r**3 * (dz * x).sum(axis=1, keepdims=True) / x.shape[1]
    return dx, (dout * x * r).sum(axis=(0, 1))


def sample_variance(dout, x, g, eps):
    """You divide by D − 1, as for the variance of a sample; RMSNorm takes the plain mean, over D."""
    D = x.shape[-1]
    r = 1 / np.sqrt((x * x).sum(axis=-1, keepdims=True) / (D - 1) + eps)
    return _backward(dout, x, g, r, c=(dout * g * x).sum(axis=-1, keepdims=True) * D / (D - 1))


def layernorm(dout, x, g, eps):
    """This is LayerNorm's dx, which subtracts means; RMSNorm has none."""
    z = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((z * z).mean(axis=-1, keepdims=True) + eps)
    z, dz = z * r, dout * g
    dx = r * (dz - dz.mean(axis=-1, keepdims=True) - z * (dz * z).mean(axis=-1, keepdims=True))
    return dx, (dout * z).sum(axis=(0, 1))


def dg_mean(dout, x, g, eps):
    """Your dg is the mean over the tokens. Every token used the same g, so their gradients add up."""
    dx, _ = _backward(dout, x, g, _inverse_root(x, eps))
    return dx, (dout * x * _inverse_root(x, eps)).mean(axis=(0, 1))


def dg_without_r(dout, x, g, eps):
    """Your dg sums dout ⊙ x; what g multiplied was the normalized z = x r."""
    dx, _ = _backward(dout, x, g, _inverse_root(x, eps))
    return dx, (dout * x).sum(axis=(0, 1))


def dg_with_g(dout, x, g, eps):
    """Your dg contains g itself; out = g ⊙ z is linear in g, so its derivative is z alone."""
    dx, dg = _backward(dout, x, g, _inverse_root(x, eps))
    return dx, dg * g


def dg_not_summed(dout, x, g, eps):
    """Your dg is one gradient for each token. They share one g [D]: sum over B and T."""
    r = _inverse_root(x, eps)
    return _backward(dout, x, g, r)[0], dout * x * r


def dg_per_position(dout, x, g, eps):
    """Your dg is summed over the batch, not over the tokens. All share one g [D]: sum over B and T."""
    r = _inverse_root(x, eps)
    return _backward(dout, x, g, r)[0], (dout * x * r).sum(axis=0)


def dg_per_sequence(dout, x, g, eps):
    """Your dg is summed over the tokens of a sequence, not over the batch. All share one g [D]: sum over B and T."""
    r = _inverse_root(x, eps)
    return _backward(dout, x, g, r)[0], (dout * x * r).sum(axis=1)


def in_place(dout, x, g, eps):
    """`dout *= g` writes into the caller's array; `dz = dout * g` makes a new one."""
    r = _inverse_root(x, eps)
    dg = (dout * x * r).sum(axis=(0, 1))
    dout *= g
    return r * dout - x * r**3 * (dout * x).sum(axis=-1, keepdims=True) / x.shape[-1], dg


def in_place_then_used(dout, x, g, eps):
    """`dout *= g` writes into the caller's array, and your dg then reads the changed one."""
    dout *= g
    r = _inverse_root(x, eps)
    dx = r * dout - x * r**3 * (dout * x).sum(axis=-1, keepdims=True) / x.shape[-1]
    return dx, (dout * x * r).sum(axis=(0, 1))


def float64_leak(dout, x, g, eps):
    """Somewhere your float32 becomes float64 (`astype(float)`, `np.float64(…)`, an array that NumPy made by itself); it
    then doubles the memory of all that follows."""
    return _backward(dout.astype(np.float64), x, g, _inverse_root(x.astype(np.float64), eps))


# ---- right answers, written otherwise ----


def loops(dout, x, g, eps):
    """Loops over every token and feature."""
    B, T, D = x.shape
    dx, dg = np.zeros_like(x), np.zeros_like(g)
    for b in range(B):
        for t in range(T):
            square = c = 0.0
            for i in range(D):
                square += x[b, t, i] * x[b, t, i]
                c += dout[b, t, i] * g[i] * x[b, t, i]
            r = 1 / (square / D + eps) ** 0.5
            for i in range(D):
                dx[b, t, i] = r * dout[b, t, i] * g[i] - x[b, t, i] * r**3 * c / D
                dg[i] += dout[b, t, i] * x[b, t, i] * r
    return dx, dg


def einsum(dout, x, g, eps):
    """einsum, which stays in float32."""
    r = 1 / np.sqrt(np.einsum("btd,btd->bt", x, x) / x.shape[-1] + eps)
    c = np.einsum("btd,d,btd->bt", dout, g, x)
    dx = np.einsum("bt,btd,d->btd", r, dout, g) - np.einsum("btd,bt->btd", x, r**3 * c / x.shape[-1])
    return dx, np.einsum("btd,btd,bt->d", dout, x, r)


def normalized(dout, x, g, eps):
    """In terms of z: dx = r (z̄ − z mean(z̄ z)), as LayerNorm's is often written."""
    r = (np.mean(x**2, axis=-1, keepdims=True) + eps) ** -0.5
    z, dz = x * r, dout * g
    return r * (dz - z * np.mean(dz * z, axis=-1, keepdims=True)), np.sum(dout * z, axis=(0, 1))


def jacobian(dout, x, g, eps):
    """The whole D × D Jacobian of every token, r I − r³ x xᵀ / D."""
    D = x.shape[-1]
    r = 1 / np.sqrt((x * x).sum(axis=-1) / D + eps)[..., None, None]  # [B, T, 1, 1]
    J = r * np.eye(D, dtype=x.dtype) - r**3 * x[..., :, None] * x[..., None, :] / D
    return ((dout * g)[..., None, :] @ J)[..., 0, :], (dout * x * r[..., 0]).reshape(-1, D).sum(axis=0)


def step_by_step(dout, x, g, eps):
    """The chain rule one operation at a time, through the mean square s, without ever naming c."""
    D = x.shape[-1]
    s = np.mean(np.square(x), axis=-1, keepdims=True) + eps
    root = np.sqrt(s)
    dz = dout * g
    dx = dz / root
    droot = -(dz * x / (root * root)).sum(axis=-1, keepdims=True)
    ds = droot / (2 * root)
    dx += ds * 2 * x / D
    return dx, np.tensordot(dout * x / root, np.ones(1, dtype=x.dtype), 0)[..., 0].sum(axis=1).sum(axis=0)


exercise = Code(
    id="rmsnorm-backward",
    title="RMSNorm backward, gain last",
    chapter="07_block",
    answer="rmsnorm_backward",
    points=3,
    stars=2,
    minutes=25,
    args=("dout", "x", "g", "eps"),
    returns=("dx", "dg"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        no_correction,
        plus_sign,
        eps_dropped,
        eps_outside,
        eps_fixed,
        gain_forgotten,
        gain_pulled_out,
        gain_not_in_c,
        r_squared,
        r_once,
        sum_for_mean,
        twice,
        half,
        one_c_for_all,
        one_r_for_all,
        summed_over_tokens,
        sample_variance,
        layernorm,
        dg_mean,
        dg_without_r,
        dg_with_g,
        dg_not_summed,
        dg_per_position,
        dg_per_sequence,
        in_place,
        in_place_then_used,
        float64_leak,
    ),
    variants=(loops, einsum, normalized, jacobian, step_by_step),
    hints=(
        "Write the forward in two steps, gain last: z = x r, then out = g ⊙ z. The backward undoes the last one first.",
        "From out = g ⊙ z: what reaches z is z̄ = g ⊙ dout.\n"
        "Every token used the same g, so dg = Σ dout ⊙ z over B and T.",
        "From z = x r: each x acts twice, as a factor and through r. The factor alone gives r z̄.\n"
        "Through r it acts on every z of its token.",
        "With s = mean(x²) + eps: r = s^(−1/2) and ∂s/∂xⱼ = 2xⱼ/D.\nSo ∂r/∂xⱼ = −½ s^(−3/2) · 2xⱼ/D = −r³ xⱼ/D.",
        "r multiplies every x of its token, so its gradient is c = Σ z̄ᵢ xᵢ over the last axis (`keepdims=True`).\n"
        "Both ways together: dx = r z̄ − x r³ c / D.\n"
        "`r = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)`; `dg` sums over `axis=(0, 1)`.",
    ),
    library=("scratch.ops.rmsnorm_backward",),
    loss=loss,
    large=large,
    takeaway="Up to eps, dx is orthogonal to x: a longer x gives the same out, so its length has no gradient.",
)
