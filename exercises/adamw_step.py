"""Exercise adamw-step: one step of AdamW on one matrix, its two running means included."""

import numpy as np

from exercises.spec import Code
from scratch import optim

BETA1, BETA2, EPS = 0.9, 0.95, 1e-8


def reference(w, g, m, v, t, rate, decay):
    """w, g, m, v [D, F]; t int, 1 or more; rate, decay floats. Returns the new w, m and v, each [D, F]."""
    params, state = {"w": w.copy()}, {"step": t - 1, "m": {"w": m.copy()}, "v": {"w": v.copy()}}
    optim.adamw_step(params, {"w": g}, state, rate, betas=(BETA1, BETA2), eps=EPS, weight_decay=decay)
    return params["w"], state["m"]["w"], state["v"]["w"]


def cases(rng):
    """Ascending; a first step, later ones, gradients as small as eps, an entry that never had one."""

    def case(D, F, t, size, rate, decay):
        w, g = rng.standard_normal((D, F)), rng.standard_normal((D, F)) * size
        if t == 1:
            return w, g, np.zeros((D, F)), np.zeros((D, F)), t, rate, decay
        m = rng.standard_normal((D, F)) * size * 0.3
        return w, g, m, (m * m + rng.uniform(0.1, 1, (D, F)) * size * size) * 0.5, t, rate, decay

    # whole tenths, none of them zero, to work through by hand
    w, g = (rng.choice([-1, 1], (1, 2)) * rng.integers(1, 21, (1, 2)) / 10 for _ in range(2))
    yield w, g, np.zeros((1, 2)), np.zeros((1, 2)), 1, 0.1, 0.5
    yield case(1, 3, 2, 1.0, 0.1, 0.2)
    yield case(2, 3, 3, 1e3, 0.05, 0.3)
    yield case(3, 4, 1, 1e-4, 0.2, 0.1)
    yield case(3, 5, 7, 1e-7, 0.1, 0.4)
    w, g, m, v, *rest = case(4, 6, 1, 10.0 ** rng.integers(-3, 4, (4, 1)), 0.1, 0.25)
    g[2] = 0  # a token that no text of the batch contains
    yield w, g, m, v, *rest
    yield case(5, 7, 400, 10.0 ** rng.integers(-3, 4, (5, 1)), 0.03, 0.1)


def rounding(w, g, m, v, t, rate, decay):
    """In units of u. Each mean takes two products and a sum, and its factor 1 − β is rounded: 4. The root halves v's
    share; correcting both, eps, quotient and product with the rate are 9 more. The decay takes 3, the last sum 1."""
    grown = BETA1 * np.abs(m) + (1 - BETA1) * np.abs(g)  # every term counts with its absolute value
    square = BETA2 * v + (1 - BETA2) * g * g
    root = np.sqrt(square / (1 - BETA2**t)) + EPS
    step = rate * grown / (1 - BETA1**t) / root
    return 5 * np.abs(w) * (1 + rate * decay) + 17 * step, 4 * grown, 4 * square


def _right(w, g, m, v, t, rate, decay, *, beta1=BETA1, beta2=BETA2):
    """The step in plain NumPy, with room to put one thing wrong."""
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    mean, square = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - rate * (mean / (np.sqrt(square) + EPS) + decay * w), m, v


# ---- wrong answers; each docstring is what its author will read ----


def not_corrected(w, g, m, v, t, rate, decay):
    """Your means are not corrected. Both began at 0 and are too small at first; divide each by 1 − βᵗ of its own β."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    return w - rate * (m / (np.sqrt(v) + EPS) + decay * w), m, v


def only_m_corrected(w, g, m, v, t, rate, decay):
    """You corrected m alone. v began at 0 as well, so it is too small in the first steps, and the step too large."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    return w - rate * (m / (1 - BETA1**t) / (np.sqrt(v) + EPS) + decay * w), m, v


def one_correction(w, g, m, v, t, rate, decay):
    """You divided both means by 1 − β₁ᵗ. Each has its own β: v is corrected by 1 − β₂ᵗ."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    c = 1 - BETA1**t
    return w - rate * (m / c / (np.sqrt(v / c) + EPS) + decay * w), m, v


def one_step_late(w, g, m, v, t, rate, decay):
    """Your correction counts a step too many. The first step is t = 1, and then m is (1 − β₁) g."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    mean, square = m / (1 - BETA1 ** (t + 1)), v / (1 - BETA2 ** (t + 1))
    return w - rate * (mean / (np.sqrt(square) + EPS) + decay * w), m, v


def one_step_early(w, g, m, v, t, rate, decay):
    """Your correction counts a step too few: at t = 1 it divides by 1 − β⁰, which is 0."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    mean, square = (a / (1 - np.asarray(b ** (t - 1), dtype=w.dtype)) for a, b in ((m, BETA1), (v, BETA2)))
    return w - rate * (mean / (np.sqrt(square) + EPS) + decay * w), m, v


def corrected_in_state(w, g, m, v, t, rate, decay):
    """You returned the corrected means. The next step needs them uncorrected; the correction serves this step alone."""
    new, m, v = _right(w, g, m, v, t, rate, decay)
    return new, m / (1 - BETA1**t), v / (1 - BETA2**t)


def decay_in_gradient(w, g, m, v, t, rate, decay):
    """You added the decay to the gradient. Then it is divided by √v̂ too; AdamW pulls on w directly, beside the step."""
    return _right(w, g + decay * w, m, v, t, rate, 0.0)


def decay_without_rate(w, g, m, v, t, rate, decay):
    """Your decay is not multiplied by the rate: it takes `decay * w` away, each step."""
    new, m, v = _right(w, g, m, v, t, rate, 0.0)
    return new - decay * w, m, v


def no_decay(w, g, m, v, t, rate, decay):
    """That is Adam. The W is missing: w is also pulled towards 0, by `rate * decay * w`."""
    return _right(w, g, m, v, t, rate, 0.0)


def decay_outwards(w, g, m, v, t, rate, decay):
    """Your decay has the wrong sign: it makes w longer."""
    return _right(w, g, m, v, t, rate, -decay)


def decay_after(w, g, m, v, t, rate, decay):
    """You shrank the new w, the step included. The decay acts on w as it was before the step."""
    new, m, v = _right(w, g, m, v, t, rate, 0.0)
    return new * (1 - rate * decay), m, v


def uphill(w, g, m, v, t, rate, decay):
    """You went with the gradient, uphill. The step is subtracted."""
    new, m, v = _right(w, g, m, v, t, rate, 0.0)
    return 2 * w - new - rate * decay * w, m, v


def not_squared(w, g, m, v, t, rate, decay):
    """Your v is a mean of the gradient's size. It is the mean of its square, and the root comes later."""
    _, m, _ = _right(w, g, m, v, t, rate, decay)
    v = BETA2 * v + (1 - BETA2) * np.abs(g)
    step = m / (1 - BETA1**t) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
    return w - rate * (step + decay * w), m, v


def no_root(w, g, m, v, t, rate, decay):
    """You divided by v̂. Only its root has the unit of a gradient, so that the quotient has none."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    step = m / (1 - BETA1**t) / (v / (1 - BETA2**t) + EPS)
    return w - rate * (step + decay * w), m, v


def eps_inside(w, g, m, v, t, rate, decay):
    """Your eps is inside the root, where 1e-8 acts like 1e-4. It is added to the root."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    step = m / (1 - BETA1**t) / np.sqrt(v / (1 - BETA2**t) + EPS)
    return w - rate * (step + decay * w), m, v


def no_eps(w, g, m, v, t, rate, decay):
    """You left out eps. A weight that never had a gradient then gets 0 / 0, which is NaN."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    step = m / (1 - BETA1**t) / np.sqrt(v / (1 - BETA2**t))
    return w - rate * (step + decay * w), m, v


def betas_swapped(w, g, m, v, t, rate, decay):
    """You swapped the betas. m is the quick mean, with 0.9, and v the slow one, with 0.95."""
    return _right(w, g, m, v, t, rate, decay, beta1=BETA2, beta2=BETA1)


def no_complement(w, g, m, v, t, rate, decay):
    """You added the whole gradient. In a running mean the old value has weight β, and the new one 1 − β."""
    m, v = BETA1 * m + g, BETA2 * v + g * g
    step = m / (1 - BETA1**t) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
    return w - rate * (step + decay * w), m, v


def complement_swapped(w, g, m, v, t, rate, decay):
    """Your weights of old and new are swapped: β belongs to the old mean, 1 − β to the new gradient."""
    m, v = (1 - BETA1) * m + BETA1 * g, (1 - BETA2) * v + BETA2 * g * g
    step = m / (1 - BETA1**t) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
    return w - rate * (step + decay * w), m, v


def no_momentum(w, g, m, v, t, rate, decay):
    """You divided the gradient by √v̂. It is the mean m̂ that steps; the gradient enters through it."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    return w - rate * (g / (np.sqrt(v / (1 - BETA2**t)) + EPS) + decay * w), m, v


def no_division(w, g, m, v, t, rate, decay):
    """You stepped by m̂ alone. Each entry is divided by its own √v̂ + eps."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    return w - rate * (m / (1 - BETA1**t) + decay * w), m, v


def old_means(w, g, m, v, t, rate, decay):
    """You stepped with the means as they were. This step's gradient enters them first."""
    _, new_m, new_v = _right(w, g, m, v, t, rate, decay)
    step = m / (1 - BETA1**t) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
    return w - rate * (step + decay * w), new_m, new_v


def one_size_for_all(w, g, m, v, t, rate, decay):
    """Your √v̂ is one number for the whole matrix. Each entry has its own."""
    _, m, v = _right(w, g, m, v, t, rate, decay)
    step = m / (1 - BETA1**t) / (np.sqrt(v.mean() / (1 - BETA2**t)) + EPS)
    return w - rate * (step + decay * w), m, v


def in_place(w, g, m, v, t, rate, decay):
    """`m *= 0.9` writes into the caller's array. Here new arrays are asked for: `m = 0.9 * m + …`."""
    new, new_m, new_v = _right(w, g, m, v, t, rate, decay)
    m *= BETA1
    m += (1 - BETA1) * g
    return new, new_m, new_v


def float64_leak(w, g, m, v, t, rate, decay):
    """Somewhere your float32 becomes float64 (`astype(float)`, `np.float64(…)`, an array that NumPy made by itself); a
    state that does so takes twice the memory."""
    return _right(w.astype(np.float64), g, m.astype(np.float64), v.astype(np.float64), t, rate, decay)


# ---- right answers, written otherwise ----


def loops(w, g, m, v, t, rate, decay):
    """One weight at a time."""
    new_w, new_m, new_v = np.empty_like(w), np.empty_like(m), np.empty_like(v)
    for i in np.ndindex(*w.shape):
        new_m[i] = 0.9 * m[i] + (1 - 0.9) * g[i]
        new_v[i] = 0.95 * v[i] + (1 - 0.95) * g[i] ** 2
        step = (new_m[i] / (1 - 0.9**t)) / ((new_v[i] / (1 - 0.95**t)) ** 0.5 + 1e-8)
        new_w[i] = w[i] - rate * step - rate * decay * w[i]
    return new_w, new_m, new_v


def shrink_first(w, g, m, v, t, rate, decay):
    """The decay as a factor, and then Adam's step."""
    m, v = m + (g - m) * (1 - BETA1), v + (g * g - v) * (1 - BETA2)
    step = (m / (1 - BETA1**t)) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
    return (1 - rate * decay) * w - rate * step, m, v


def roots_apart(w, g, m, v, t, rate, decay):
    """The corrections in the rate, as the library has them."""
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * np.square(g)
    size, root = rate / (1 - BETA1**t), (1 - BETA2**t) ** 0.5
    return w - w * (rate * decay) - size * m / (np.sqrt(v) / root + EPS), m, v


def einsum(w, g, m, v, t, rate, decay):
    """The square by einsum."""
    m = np.multiply(m, BETA1) + np.multiply(g, 1 - BETA1)
    v = np.multiply(v, BETA2) + np.einsum("df,df->df", g, g) * (1 - BETA2)
    step = np.divide(m / (1 - BETA1**t), np.sqrt(v / (1 - BETA2**t)) + EPS)
    return w - rate * (step + decay * w), m, v


exercise = Code(
    id="adamw-step",
    title="One step of AdamW",
    chapter="11_training",
    answer="step",
    points=3,
    stars=2,
    minutes=20,
    args=("w", "g", "m", "v", "t", "rate", "decay"),
    returns=("new_w", "new_m", "new_v"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        not_corrected,
        only_m_corrected,
        one_correction,
        one_step_late,
        one_step_early,
        corrected_in_state,
        decay_in_gradient,
        decay_without_rate,
        no_decay,
        decay_outwards,
        decay_after,
        uphill,
        not_squared,
        no_root,
        eps_inside,
        no_eps,
        betas_swapped,
        no_complement,
        complement_swapped,
        no_momentum,
        no_division,
        old_means,
        one_size_for_all,
        in_place,
        float64_leak,
    ),
    variants=(loops, shrink_first, roots_apart, einsum),
    hints=(
        "First bring both means up to date with this step's gradient. Everything else reads the new ones.",
        "m is a running mean of g, v of its square: old times β, new times 1 − β, with 0.9 for m and 0.95 for v.",
        "Both began at 0. For this step alone, divide m by 1 − 0.9ᵗ and v by 1 − 0.95ᵗ; return them undivided.",
        "The step is rate · m̂ / (√v̂ + eps), entry by entry, with eps outside the root.",
        "The decay stands beside the step, divided by nothing:\nnew_w = w − rate · (m̂ / (√v̂ + 1e-8) + decay · w).",
    ),
    library=("scratch.optim.adamw_step",),
    takeaway="A step's size is the rate's, whatever the gradient's unit; the decay is not divided by √v̂.",
)
