"""Exercise column-row-parallel: a feed-forward on n devices, columns first, then rows, and the sum of the parts."""

import numpy as np

from exercises.spec import Code


def reference(x, w1, w2, n):
    """x [B, T, D]; w1 [D, F]; w2 [F, D]; n divides F. Returns out [B, T, D] and its parts [n, B, T, D]."""
    columns, rows = np.split(w1, n, axis=1), np.split(w2, n)
    parts = np.stack([np.maximum(x @ c, 0) @ r for c, r in zip(columns, rows, strict=True)])
    return parts.sum(axis=0), parts


def cases(rng):
    """Ascending; one device, as many as hidden units, tokens of very different size."""

    def case(B, T, D, F, n, scale=1.0):
        shapes = (B, T, D), (D, F), (F, D)
        x, w1, w2 = (rng.standard_normal(shape) for shape in shapes)
        return x * scale, w1, w2, n

    # By hand: whole tenths, no two alike. Row 0 of w1 opens hidden units 0 and 2, its negative ones shut the others.
    x = rng.choice(range(1, 10), (1, 1, 2), False) / 10
    w1 = rng.choice(range(1, 20), 8, False).reshape(2, 4) * np.array([1, -1, 1, -1]) / 10
    yield x, w1, rng.choice([-1, 1], (4, 2)) * rng.choice(range(1, 20), 8, False).reshape(4, 2) / 10, 2
    yield case(1, 2, 3, 4, 4)  # one hidden unit on each
    yield case(2, 3, 4, 5, 1)  # one device: nothing is cut
    yield case(2, 3, 4, 6, 3, 1e-3)
    yield case(3, 2, 5, 8, 2, 1e3)
    yield case(2, 4, 5, 12, 3, 10.0 ** rng.integers(-3, 4, (2, 4, 1)))
    yield case(3, 5, 6, 20, 4, 10.0 ** rng.uniform(-3, 3))


def rounding(x, w1, w2, n):
    """In units of u: a hidden value is a sum of D products, a part a sum of F / n products of these, out a sum of n
    parts (or of F products at once)."""
    D, F = w1.shape
    reach = np.maximum(x @ w1, 0)  # [B, T, F]
    error = D * (np.abs(x) @ np.abs(w1)) + (F / n + 1) * reach
    parts = np.stack(
        [e @ np.abs(r) for e, r in zip(np.split(error, n, axis=-1), np.split(w2, n), strict=True)]
    )  # [n, B, T, D]
    return parts.sum(axis=0) + F * (reach @ np.abs(w2)), parts


def _cut(x, w1, w2, n, units=None):
    """The right parts, or those of other hidden units on each device."""
    units = np.split(np.arange(w1.shape[1]), n) if units is None else units
    return np.stack([np.maximum(x @ w1[:, some], 0) @ w2[some] for some in units])


def _both(parts):
    return parts.sum(axis=0), parts


# ---- wrong answers; each docstring is what its author will read ----


def zero(x, w1, w2, n):
    """All of it is zero. Each device computes its hidden units and what they write."""
    return _both(np.zeros_like(_cut(x, w1, w2, n)))


def not_cut(x, w1, w2, n):
    """Every device of yours computes the whole feed-forward. It has F / n columns of w1 and the same rows of w2."""
    whole = np.maximum(x @ w1, 0) @ w2
    return whole, np.stack([whole] * n)


def summed_copies(x, w1, w2, n):
    """Every device of yours computes the whole feed-forward, and the sum is n times too large."""
    return _both(np.stack([np.maximum(x @ w1, 0) @ w2] * n))


def shared_evenly(x, w1, w2, n):
    """You divided the whole result by n. The sum is right, but a device cannot know the whole: it has F / n units."""
    whole = np.maximum(x @ w1, 0) @ w2
    return whole, np.stack([whole / n] * n)


def averaged(x, w1, w2, n):
    """Your out is the mean of the parts. Each part is a share of one long sum: add them."""
    parts = _cut(x, w1, w2, n)
    return parts.mean(axis=0), parts


def first_alone(x, w1, w2, n):
    """Your out is the first part alone: the sum over the devices, the all-reduce, is missing."""
    parts = _cut(x, w1, w2, n)
    return parts[0].copy(), parts


def last_alone(x, w1, w2, n):
    """Your out is the last part alone: each device overwrote the one before it, where it should add."""
    parts = _cut(x, w1, w2, n)
    return parts[-1].copy(), parts


def last_left_out(x, w1, w2, n):
    """Your sum leaves out the last device."""
    parts = _cut(x, w1, w2, n)
    return parts[:-1].sum(axis=0), parts


def no_relu(x, w1, w2, n):
    """The max(·, 0) between the matrices is missing. Without it the two would be one matrix."""
    return _both(np.stack([x @ a @ b for a, b in zip(np.split(w1, n, axis=1), np.split(w2, n), strict=True)]))


def relu_of_parts(x, w1, w2, n):
    """You took max(·, 0) of the parts, too. It stands between the two matrices, and nowhere else."""
    return _both(np.maximum(_cut(x, w1, w2, n), 0))


def relu_at_the_end(x, w1, w2, n):
    """Your max(·, 0) comes after w2. It stands between the two matrices."""
    parts = np.stack([x @ a @ b for a, b in zip(np.split(w1, n, axis=1), np.split(w2, n), strict=True)])
    return _both(np.maximum(parts, 0))


def relu_of_out(x, w1, w2, n):
    """Your parts are right, but out is cut off at 0. It is their plain sum; attention's stream may be negative, too."""
    parts = _cut(x, w1, w2, n)
    return np.maximum(parts.sum(axis=0), 0), parts


def relu_of_x(x, w1, w2, n):
    """You took max(·, 0) of x. It acts on the hidden layer, on x w1."""
    x = np.maximum(x, 0)
    return _both(np.stack([x @ a @ b for a, b in zip(np.split(w1, n, axis=1), np.split(w2, n), strict=True)]))


def rows_turned(x, w1, w2, n):
    """Device r has the columns of w1 for its units, but another device's rows of w2. A unit's column and its row belong
    to one device."""
    columns, rows = np.split(w1, n, axis=1), np.split(w2, n)[::-1]
    return _both(np.stack([np.maximum(x @ c, 0) @ r for c, r in zip(columns, rows, strict=True)]))


def rows_moved_on(x, w1, w2, n):
    """Device r has the rows of w2 that belong to device r + 1. A unit's column and its row belong to one device."""
    columns, rows = np.split(w1, n, axis=1), np.split(w2, n)
    return _both(np.stack([np.maximum(x @ c, 0) @ r for c, r in zip(columns, rows[1:] + rows[:1], strict=True)]))


def every_nth(x, w1, w2, n):
    """Your sum is right, but device r has every n-th hidden unit. Here it has F / n neighbours, from r · F / n on."""
    return _both(_cut(x, w1, w2, n, [np.arange(r, w1.shape[1], n) for r in range(n)]))


def every_nth_column(x, w1, w2, n):
    """Device r has every n-th column of w1, but neighbouring rows of w2. Cut both into neighbours."""
    rows = np.split(w2, n)
    return _both(np.stack([np.maximum(x @ w1[:, r::n], 0) @ rows[r] for r in range(n)]))


def in_reverse(x, w1, w2, n):
    """Your sum is right, but the parts come last device first."""
    parts = _cut(x, w1, w2, n)[::-1].copy()
    return _both(parts)


def running_sums(x, w1, w2, n):
    """Your parts are running sums: what a device has after it added its own. A part is one device's share alone."""
    parts = _cut(x, w1, w2, n)
    return parts.sum(axis=0), parts.cumsum(axis=0)


def half_the_units(x, w1, w2, n):
    """Your devices leave out some hidden units: together they must have all F. Device r has units r · F / n up to
    (r + 1) · F / n."""
    units = [some[: max(1, len(some) // 2)] for some in np.split(np.arange(w1.shape[1]), n)]
    return _both(_cut(x, w1, w2, n, units))


def in_place(x, w1, w2, n):
    """You changed an array that belongs to the caller, by `out=` or `*=` or `[...] =`. Work on a copy."""
    parts = _cut(x, w1, w2, n)
    np.maximum(w1, 0, out=w1)
    return _both(parts)


def float64_leak(x, w1, w2, n):
    """Your float32 becomes float64: perhaps by `np.zeros(shape)`, which needs `x.dtype` as a second argument."""
    return _both(_cut(x.astype(np.float64), w1, w2, n))


# ---- right answers, written otherwise ----


def one_device_at_a_time(x, w1, w2, n):
    """A loop with slices, the sum kept as it goes."""
    size, out, parts = w1.shape[1] // n, np.zeros_like(x), []
    for r in range(n):
        mine = slice(r * size, (r + 1) * size)
        hidden = x @ w1[:, mine]
        parts.append(np.where(hidden > 0, hidden, 0) @ w2[mine])
        out += parts[-1]
    return out, np.array(parts)


def einsum(x, w1, w2, n):
    """A device's axis in the weights, and einsum."""
    D, F = w1.shape
    hidden = np.einsum("btd,dnf->nbtf", x, w1.reshape(D, n, F // n))
    parts = np.einsum("nbtf,nfd->nbtd", hidden * (hidden > 0), w2.reshape(n, F // n, D))
    return np.einsum("nbtd->btd", parts), parts


def whole_then_masked(x, w1, w2, n):
    """Computes the whole hidden layer, and lets each device see its units alone; out as on one device."""
    hidden, F = np.maximum(x @ w1, 0), w1.shape[1]
    mine = (np.arange(F) // (F // n) == np.arange(n)[:, None]).astype(x.dtype)  # [n, F]
    return hidden @ w2, (hidden * mine[:, None, None]) @ w2


def loops(x, w1, w2, n):
    """One hidden unit of one token at a time."""
    (B, T, D), F = x.shape, w1.shape[1]
    parts = np.zeros((n, B, T, D), dtype=x.dtype)
    for b in range(B):
        for t in range(T):
            for f in range(F):
                hidden = sum(x[b, t, i] * w1[i, f] for i in range(D))
                if hidden > 0:
                    parts[f // (F // n), b, t] += hidden * w2[f]
    return np.sum(parts, axis=0), parts


exercise = Code(
    id="column-row-parallel",
    title="Columns first, then rows",
    chapter="16_devices",
    answer="on_devices",
    points=2,
    stars=2,
    minutes=15,
    args=("x", "w1", "w2", "n"),
    returns=("out", "parts"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        not_cut,
        summed_copies,
        shared_evenly,
        averaged,
        first_alone,
        last_alone,
        last_left_out,
        no_relu,
        relu_of_parts,
        relu_at_the_end,
        relu_of_out,
        relu_of_x,
        rows_turned,
        rows_moved_on,
        every_nth,
        every_nth_column,
        in_reverse,
        running_sums,
        half_the_units,
        in_place,
        float64_leak,
    ),
    variants=(one_device_at_a_time, einsum, whole_then_masked, loops),
    hints=(
        "Give each device some hidden units. What of w1, and what of w2, belongs to one hidden unit?",
        "Its column of w1 and its row of w2. Device r has units r · F / n up to (r + 1) · F / n.",
        "`np.split(w1, n, axis=1)` and `np.split(w2, n)` cut them. max(·, 0) acts on each unit alone, so a device can "
        "take it without asking anybody.",
        "parts[r] = max(x @ columns[r], 0) @ rows[r], stacked with `np.stack`; out is `parts.sum(axis=0)`.",
    ),
    takeaway="A unit's column and row stay together, so one sum at the end is all that must be sent.",
)
