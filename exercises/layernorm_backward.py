"""Exercise layernorm-backward: derive and write LayerNorm's backward, with the two means that it takes away."""

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(dout, x, g, b, eps):
    """dout, x [B, T, D]; g and b [D]; eps a float. Returns dx [B, T, D], dg [D] and db [D]."""
    _, cache = ops.layernorm_forward(x, g, b, eps)
    return ops.layernorm_backward(dout, cache)


def cases(rng):
    """Ascending. eps is large enough to be seen in the first, and decides where rows are small. One case has rows far
    from 0, where mean(x²) − μ² loses its digits; another has a row of equal features and a gain of 0."""

    def case(B, T, D, scale, eps, mean=0.0):
        x = mean + rng.standard_normal((B, T, D)) * scale
        return rng.standard_normal((B, T, D)), x, *rng.standard_normal((2, D)), eps

    # numbers of one decimal, to work through by hand; whole tenths, none of them zero
    tenths = [
        rng.choice([-1, 1], shape) * rng.integers(1, 21, shape) / 10 for shape in ((1, 2, 3), (1, 2, 3), (3,), (3,))
    ]
    yield *tenths, 0.5
    yield case(2, 1, 4, 1e-3, 1e-5)
    yield case(2, 3, 5, 1e3, 1e-5)
    yield case(3, 2, 7, 1.0, 1e-6, mean=rng.choice([-1, 1], (3, 2, 1)) * 300.0)
    dout, x, g, b, eps = case(2, 4, 6, 10.0 ** rng.integers(-3, 4, (2, 4, 1)), 1e-5)  # each row its own scale
    x[1, 2] = 0  # a padded token, say: r = 1 / √eps
    x[0, 1] = rng.standard_normal()  # equal features: nothing is left but the mean, which goes
    g[3] = 0  # a feature that is switched off: its gain has a gradient nevertheless
    yield dout, x, g, b, eps
    yield case(3, 5, 8, 10.0 ** rng.uniform(-3, 3), 1e-5)


def large(rng):
    """32,768 entries in x, which loops pass in a blink."""
    x = rng.standard_normal((2, 128, 128))
    return rng.standard_normal(x.shape), x, *rng.standard_normal((2, 128)), 1e-5


def loss(dout, x, g, b, eps):
    """Σ dout ⊙ out."""
    z = x - x.mean(axis=-1, keepdims=True)
    return (dout * (g * z / np.sqrt((z * z).mean(axis=-1, keepdims=True) + eps) + b)).sum()


def rounding(dout, x, g, b, eps):
    """In units of u. The mean takes D roundings, relative to the mean of |x|; so far is the centred row off. Its square
    takes D + 2, and twice what the row is off; the root halves that, and r is 4 more. Each mean in the backward
    takes D + 2, the products around it 6, and r³ has three times r's. The three terms of dx may cancel, so each counts
    with its absolute value."""
    B, T, D = x.shape
    row = {"axis": -1, "keepdims": True}
    z = x - x.mean(**row)  # [B, T, D]
    centred = np.abs(z) + (D + 1) * np.abs(x).mean(**row)
    r = 1 / np.sqrt((z * z).mean(**row) + eps)  # [B, T, 1]
    in_r = (D + 2) / 2 + 4 + (np.abs(z) * centred).mean(**row) * r**2
    z, in_z = np.abs(z) * r, centred * r + np.abs(z) * r * (in_r + 1)
    dz = np.abs(dout * g)
    direct = dz + dz.mean(**row)
    through_r = z * (dz * z).mean(**row)
    dx = r * ((in_r + D + 6) * direct + (3 * in_r + D + 10) * through_r)
    dx += r * (z * (dz * in_z).mean(**row) + in_z * (dz * z).mean(**row))
    dg = (np.abs(dout) * (in_z + (2 + B * T) * z)).sum(axis=(0, 1))
    db = (1 + B * T) * np.abs(dout).sum(axis=(0, 1))
    return dx, dg, db


def _mean(array):
    return array.mean(axis=-1, keepdims=True)  # [B, T, 1]


def _normalized(x, eps):
    """z = (x − μ) r [B, T, D], and r [B, T, 1]."""
    z = x - _mean(x)
    r = 1 / np.sqrt(_mean(z * z) + eps)
    return z * r, r


def _backward(dout, z, g, r):
    """The right formulas, for whatever z and r they are given."""
    dz = dout * g
    dx = r * (dz - _mean(dz) - z * _mean(dz * z))
    return dx, (dout * z).sum(axis=(0, 1)), dout.sum(axis=(0, 1))


def _with(dout, x, g, b, eps, dx=None, dg=None, db=None):
    """The right answer, but for what is given."""
    right = _backward(dout, *_at(x, g, eps))
    return tuple(r if given is None else given for r, given in zip(right, (dx, dg, db)))


def _at(x, g, eps):
    z, r = _normalized(x, eps)
    return z, g, r


# ---- wrong answers; each docstring is what its author will read ----


def zero(dout, x, g, b, eps):
    """A dx of zeros is right only where the upstream is the same for all features and the gain is 1."""
    return _with(dout, x, g, b, eps, dx=np.zeros_like(x))


def no_means(dout, x, g, b, eps):
    """Your dx is r z̄ alone. The mean and r depend on every x of the row, and each takes something away."""
    return _with(dout, x, g, b, eps, dx=_normalized(x, eps)[1] * dout * g)


def no_mean_term(dout, x, g, b, eps):
    """The road through the mean is missing: every x of a row moves μ, and μ is subtracted from all of them."""
    z, r = _normalized(x, eps)
    dz = dout * g
    return _with(dout, x, g, b, eps, dx=r * (dz - z * _mean(dz * z)))


def no_z_term(dout, x, g, b, eps):
    """The road through r is missing: every x of a row moves the standard deviation, which divides all of them."""
    z, r = _normalized(x, eps)
    dz = dout * g
    return _with(dout, x, g, b, eps, dx=r * (dz - _mean(dz)))


def plus_z_term(dout, x, g, b, eps):
    """The term along z has the wrong sign: where a larger x makes the deviation larger, it makes r smaller."""
    z, r = _normalized(x, eps)
    dz = dout * g
    return _with(dout, x, g, b, eps, dx=r * (dz - _mean(dz) + z * _mean(dz * z)))


def plus_mean_term(dout, x, g, b, eps):
    """The mean of z̄ has the wrong sign: μ was subtracted in the forward."""
    z, r = _normalized(x, eps)
    dz = dout * g
    return _with(dout, x, g, b, eps, dx=r * (dz + _mean(dz) - z * _mean(dz * z)))


def r_in_front_missing(dout, x, g, b, eps):
    """Your dx is the right bracket without the r in front of it: the larger a row, the less a nudge moves its copy."""
    z, r = _normalized(x, eps)
    return _with(dout, x, g, b, eps, dx=_backward(dout, z, g, np.ones_like(r))[0])


def not_normalized(dout, x, g, b, eps):
    """The term along z uses x − μ, which is not yet divided by the deviation: both of its factors need r."""
    z, r = _normalized(x, eps)
    dz, centred = dout * g, x - _mean(x)
    return _with(dout, x, g, b, eps, dx=r * (dz - _mean(dz) - centred * _mean(dz * centred)))


def normalized_once(dout, x, g, b, eps):
    """One of the two factors of the term along z is normalized, the other is x − μ: both need r."""
    z, r = _normalized(x, eps)
    dz, centred = dout * g, x - _mean(x)
    return _with(dout, x, g, b, eps, dx=r * (dz - _mean(dz) - centred * _mean(dz * z)))


def x_for_z(dout, x, g, b, eps):
    """The correction uses the raw x; it belongs along the normalized z = (x − μ) r."""
    _, r = _normalized(x, eps)
    dz = dout * g
    return _with(dout, x, g, b, eps, dx=r * (dz - _mean(dz) - x * r * r * _mean(dz * x)))


def sums_for_means(dout, x, g, b, eps):
    """Both corrections are D times too large: the forward takes means, and their derivatives divide by D too."""
    z, r = _normalized(x, eps)
    dz, D = dout * g, x.shape[-1]
    return _with(dout, x, g, b, eps, dx=r * (dz - D * _mean(dz) - z * D * _mean(dz * z)))


def half(dout, x, g, b, eps):
    """The term along z is half the right one: the ½ of the root cancels against the 2 of the square."""
    z, r = _normalized(x, eps)
    dz = dout * g
    return _with(dout, x, g, b, eps, dx=r * (dz - _mean(dz) - z * _mean(dz * z) / 2))


def gain_forgotten(dout, x, g, b, eps):
    """Your dx leaves out the gain: what reaches z is z̄ = g ⊙ dout."""
    z, r = _normalized(x, eps)
    return _with(dout, x, g, b, eps, dx=_backward(dout, z, np.ones_like(g), r)[0])


def gain_pulled_out(dout, x, g, b, eps):
    """You multiplied by g at the very end. It differs from feature to feature, so it cannot leave the two means: going
    backward, the gain comes first."""
    z, r = _normalized(x, eps)
    return _with(dout, x, g, b, eps, dx=g * _backward(dout, z, np.ones_like(g), r)[0])


def gain_not_in_means(dout, x, g, b, eps):
    """Your two means are of dout; the gain is missing in them: both are means of z̄ = g ⊙ dout."""
    z, r = _normalized(x, eps)
    return _with(dout, x, g, b, eps, dx=r * (dout * g - _mean(dout) - z * _mean(dout * z)))


def eps_dropped(dout, x, g, b, eps):
    """Your r leaves out eps, which decides where a row hardly varies."""
    z = x - _mean(x)
    tiny = np.finfo(x.dtype).tiny  # a row of equal features would give 0 / 0
    r = 1 / np.sqrt(_mean(z * z) + tiny)
    return _backward(dout, z * r, g, r)


def eps_outside(dout, x, g, b, eps):
    """Your r adds eps outside the root: it belongs to the variance, r = (σ² + eps)^(−1/2)."""
    z = x - _mean(x)
    r = 1 / (np.sqrt(_mean(z * z)) + eps)
    return _backward(dout, z * r, g, r)


def eps_fixed(dout, x, g, b, eps):
    """Your r uses a fixed eps of 1e-5; use the argument."""
    z, r = _normalized(x, 1e-5)
    return _backward(dout, z, g, r)


def sample_variance(dout, x, g, b, eps):
    """Your variance divides by D − 1, as for a sample (`ddof=1`); LayerNorm's divides by D."""
    z = x - _mean(x)
    r = 1 / np.sqrt((z * z).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1) + eps)
    return _backward(dout, z * r, g, r)


def no_root(dout, x, g, b, eps):
    """You divided by the variance. LayerNorm divides by its root, the standard deviation."""
    z = x - _mean(x)
    r = 1 / (_mean(z * z) + eps)
    return _backward(dout, z * r, g, r)


def two_moments(dout, x, g, b, eps):
    """Your variance is mean(x²) − μ². Where a row lies far from 0 these nearly cancel and few digits are left: subtract
    the mean first, then square."""
    mean = _mean(x)
    r = 1 / np.sqrt(np.maximum(_mean(x * x) - mean * mean, 0) + eps)
    return _backward(dout, (x - mean) * r, g, r)


def rmsnorm(dout, x, g, b, eps):
    """This is RMSNorm's gradient: LayerNorm subtracts the mean of the row first."""
    r = 1 / np.sqrt(_mean(x * x) + eps)
    z, dz = x * r, dout * g
    return r * (dz - z * _mean(dz * z)), (dout * z).sum(axis=(0, 1)), dout.sum(axis=(0, 1))


def one_row_for_all(dout, x, g, b, eps):
    """Your mean and deviation are one number each for all tokens. Each token has its own: the last axis alone."""
    z = x - x.mean()
    r = 1 / np.sqrt((z * z).mean() + eps)
    return _backward(dout, z * r, g, r)


def over_tokens(dout, x, g, b, eps):
    """You took the means over the tokens. LayerNorm works on the features of one token: axis=-1."""
    z = x - x.mean(axis=1, keepdims=True)
    r = 1 / np.sqrt((z * z).mean(axis=1, keepdims=True) + eps)
    z, dz = z * r, dout * g
    dx = r * (dz - dz.mean(axis=1, keepdims=True) - z * (dz * z).mean(axis=1, keepdims=True))
    return dx, (dout * z).sum(axis=(0, 1)), dout.sum(axis=(0, 1))


def means_over_all(dout, x, g, b, eps):
    """In your backward the two means run over all tokens. Each token was normalized by itself: the last axis alone."""
    z, r = _normalized(x, eps)
    dz = dout * g
    return _with(dout, x, g, b, eps, dx=r * (dz - dz.mean() - z * (dz * z).mean()))


def dg_mean(dout, x, g, b, eps):
    """Your dg is the mean over the tokens. Every token used the same g, so their gradients add up."""
    return _with(dout, x, g, b, eps, dg=(dout * _normalized(x, eps)[0]).mean(axis=(0, 1)))


def dg_of_x(dout, x, g, b, eps):
    """Your dg sums dout ⊙ x; what g multiplied was the normalized z = (x − μ) r."""
    return _with(dout, x, g, b, eps, dg=(dout * x).sum(axis=(0, 1)))


def dg_without_r(dout, x, g, b, eps):
    """Your dg sums dout ⊙ (x − μ); what g multiplied was divided by the deviation, too."""
    return _with(dout, x, g, b, eps, dg=(dout * (x - _mean(x))).sum(axis=(0, 1)))


def dg_with_g(dout, x, g, b, eps):
    """Your dg contains g itself; out = g ⊙ z + b is linear in g, so its derivative is z alone."""
    return _with(dout, x, g, b, eps, dg=(dout * g * _normalized(x, eps)[0]).sum(axis=(0, 1)))


def dg_not_summed(dout, x, g, b, eps):
    """Your dg is one gradient for each token. They share one g [D]: sum over B and T."""
    return _with(dout, x, g, b, eps, dg=dout * _normalized(x, eps)[0])


def dg_per_sequence(dout, x, g, b, eps):
    """Your dg is summed over the tokens of a sequence, not over the batch. All share one g [D]: sum over B and T."""
    return _with(dout, x, g, b, eps, dg=(dout * _normalized(x, eps)[0]).sum(axis=1))


def db_mean(dout, x, g, b, eps):
    """Your db is the mean over the tokens. Every token used the same b, so their gradients add up."""
    return _with(dout, x, g, b, eps, db=dout.mean(axis=(0, 1)))


def db_with_g(dout, x, g, b, eps):
    """Your db contains g. The bias is added after the gain, so dout reaches it as it is."""
    return _with(dout, x, g, b, eps, db=(dout * g).sum(axis=(0, 1)))


def db_not_summed(dout, x, g, b, eps):
    """Your db is one gradient for each token. They share one b [D]: sum over B and T."""
    return _with(dout, x, g, b, eps, db=dout.copy())


def db_of_features(dout, x, g, b, eps):
    """Your db is summed over the features. b has one entry for each feature [D]: sum over B and T."""
    return _with(dout, x, g, b, eps, db=dout.sum(axis=-1))


def swapped(dout, x, g, b, eps):
    """Your dg and db have changed places: return dx, dg, db."""
    dx, dg, db = _with(dout, x, g, b, eps)
    return dx, db, dg


def in_place(dout, x, g, b, eps):
    """`dout *= g` writes into the caller's array; `dz = dout * g` makes a new one."""
    z, r = _normalized(x, eps)
    dg, db = (dout * z).sum(axis=(0, 1)), dout.sum(axis=(0, 1))
    dout *= g
    return _backward(dout, z, np.ones_like(g), r)[0], dg, db


def in_place_then_used(dout, x, g, b, eps):
    """`dout *= g` writes into the caller's array, and your dg and db then read the changed one."""
    dout *= g
    z, r = _normalized(x, eps)
    return _backward(dout, z, np.ones_like(g), r)


def centred_in_place(dout, x, g, b, eps):
    """`x -= mean` writes into the caller's array; `z = x - mean` makes a new one."""
    x -= _mean(x)
    r = 1 / np.sqrt(_mean(x * x) + eps)
    return _backward(dout, x * r, g, r)


def float64_leak(dout, x, g, b, eps):
    """Somewhere your float32 becomes float64 (`astype(float)`, `np.float64(…)`, an array that NumPy made by itself); it
    then doubles the memory of all that follows."""
    z, r = _normalized(x.astype(np.float64), eps)
    return _backward(dout.astype(np.float64), z, g, r)


# ---- right answers, written otherwise ----


def loops(dout, x, g, b, eps):
    """Loops over every token and feature."""
    B, T, D = x.shape
    dx, dg, db = np.zeros_like(x), np.zeros_like(g), np.zeros_like(g)
    for b in range(B):
        for t in range(T):
            mean = square = along_one = along_z = 0.0
            for i in range(D):
                mean += x[b, t, i]
            mean /= D
            for i in range(D):
                square += (x[b, t, i] - mean) ** 2
            r = 1 / (square / D + eps) ** 0.5
            for i in range(D):
                z, dz = (x[b, t, i] - mean) * r, dout[b, t, i] * g[i]
                along_one += dz
                along_z += dz * z
                dg[i] += dout[b, t, i] * z
                db[i] += dout[b, t, i]
            for i in range(D):
                z = (x[b, t, i] - mean) * r
                dx[b, t, i] = r * (dout[b, t, i] * g[i] - along_one / D - z * along_z / D)
    return dx, dg, db


def einsum(dout, x, g, b, eps):
    """einsum, with one factor r / D in front."""
    D = x.shape[-1]
    z = x - (np.einsum("btd->bt", x) / D)[..., None]
    r = 1 / np.sqrt(np.einsum("btd,btd->bt", z, z) / D + eps)
    z = np.einsum("btd,bt->btd", z, r)
    one, along = np.einsum("btd,d->bt", dout, g), np.einsum("btd,d,btd->bt", dout, g, z)
    bracket = D * dout * g - one[..., None] - np.einsum("btd,bt->btd", z, along)
    return (r / D)[..., None] * bracket, np.einsum("btd,btd->d", dout, z), np.einsum("btd->d", dout)


def jacobian(dout, x, g, b, eps):
    """The whole D × D Jacobian of every token, r (I − 1/D − z zᵀ/D)."""
    D = x.shape[-1]
    z = x - np.mean(x, axis=-1, keepdims=True)
    r = 1 / np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + eps)  # [B, T, 1]
    z *= r
    J = np.eye(D, dtype=x.dtype) - (1 + z[..., :, None] * z[..., None, :]) / D
    dx = r * ((dout * g)[..., None, :] @ J)[..., 0, :]
    return dx, (dout * z).reshape(-1, D).sum(axis=0), dout.reshape(-1, D).sum(axis=0)


def centred_rmsnorm(dout, x, g, b, eps):
    """RMSNorm's backward on the centred row, and then the centring's own, which subtracts the mean of the gradient."""
    z = x - x.mean(-1, keepdims=True)
    r = (np.square(z).mean(-1, keepdims=True) + eps) ** -0.5
    dz = dout * g
    c = np.sum(dz * z, axis=-1, keepdims=True)
    dcentred = r * dz - z * r**3 * c / x.shape[-1]
    return dcentred - dcentred.mean(-1, keepdims=True), np.sum(dout * z * r, axis=(0, 1)), dout.sum((0, 1))


def step_by_step(dout, x, g, b, eps):
    """Through variance and mean one operation at a time, as batch normalization is often written."""
    D = x.shape[-1]
    z = x - np.sum(x, axis=-1, keepdims=True) / D
    root = np.sqrt(np.sum(z * z, axis=-1, keepdims=True) / D + eps)
    dz = dout * g
    dvar = (dz * z).sum(axis=-1, keepdims=True) * -0.5 / root**3
    dmean = -(dz / root).sum(axis=-1, keepdims=True) + dvar * (-2 / D) * z.sum(axis=-1, keepdims=True)
    dx = dz / root + dvar * 2 * z / D + dmean / D
    return dx, (dout * (z / root)).sum(axis=1).sum(axis=0), dout.sum(axis=1).sum(axis=0)


exercise = Code(
    id="layernorm-backward",
    title="LayerNorm backward",
    chapter="02_normalization",
    answer="layernorm_gradients",
    points=2,
    stars=2,
    minutes=25,
    args=("dout", "x", "g", "b", "eps"),
    returns=("dx", "dg", "db"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        no_means,
        no_mean_term,
        no_z_term,
        plus_z_term,
        plus_mean_term,
        r_in_front_missing,
        not_normalized,
        normalized_once,
        x_for_z,
        sums_for_means,
        half,
        gain_forgotten,
        gain_pulled_out,
        gain_not_in_means,
        eps_dropped,
        eps_outside,
        eps_fixed,
        sample_variance,
        no_root,
        two_moments,
        rmsnorm,
        one_row_for_all,
        over_tokens,
        means_over_all,
        dg_mean,
        dg_of_x,
        dg_without_r,
        dg_with_g,
        dg_not_summed,
        dg_per_sequence,
        db_mean,
        db_with_g,
        db_not_summed,
        db_of_features,
        swapped,
        in_place,
        in_place_then_used,
        centred_in_place,
        float64_leak,
    ),
    variants=(loops, einsum, jacobian, centred_rmsnorm, step_by_step),
    hints=(
        "Write the forward in three steps: centre the row, divide by its deviation to get z, then out = g ⊙ z + b.\n"
        "The backward undoes the last one first.",
        "The last step: z̄ = g ⊙ dout reaches z. All tokens used the same g and b: dg = Σ dout ⊙ z and db = Σ dout,\n"
        "both over B and T.",
        "The middle step is RMSNorm without a gain, on the centred row. In terms of z its backward is\n"
        "r (z̄ − z mean(z̄ ⊙ z)), with the mean over the last axis.",
        "The first step subtracts μ from every feature. Going back, it subtracts the mean of what arrives.\n"
        "What is the mean of r (z̄ − z mean(z̄ ⊙ z))? The mean of z is 0.",
        "dx = r (z̄ − mean(z̄) − z mean(z̄ ⊙ z)), with `.mean(axis=-1, keepdims=True)`.\n"
        "`r = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)` and `z = centred * r`.",
    ),
    library=("scratch.ops.layernorm_backward",),
    loss=loss,
    large=large,
    takeaway="Taken away is what would move the whole row, and, up to eps, what would stretch it: out shows neither.",
)
