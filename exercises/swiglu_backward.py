"""Exercise swiglu-backward: the gradients of a gated feed-forward, its input's and its three matrices'."""

from collections import namedtuple

import numpy as np

from exercises.spec import Code
from scratch import ffn


def reference(dout, x, wg, wu, wd):
    """dout, x [B, T, D]; wg, wu [D, F]; wd [F, D]. Returns dx, dwg, dwu and dwd, of the shapes of x, wg, wu and wd."""
    _, cache = ffn.swiglu_forward(x, wg, wu, wd)
    return ffn.swiglu_backward(dout, cache)


def cases(rng):
    """Ascending; the first square, where a transposed weight fits, and one with gates so open and so shut that exp
    overflows."""

    def case(B, T, D, F, scale=1.0):
        shapes = (B, T, D), (B, T, D), (D, F), (D, F), (F, D)
        dout, x, wg, wu, wd = (rng.standard_normal(shape) for shape in shapes)
        return dout, x * scale, wg, wu, wd

    # numbers of one decimal, none of them zero; no two alike in an array, or it might be its own transpose
    tenths = [rng.choice(range(1, 16), 4, False) * rng.choice([-1, 1], 4) / 10 for _ in range(5)]
    yield tuple(a.reshape(1, 2, 2) if at < 2 else a.reshape(2, 2) for at, a in enumerate(tenths))
    yield case(2, 1, 3, 4)
    dout, x, wg, wu, wd = case(2, 2, 3, 5)
    sign = np.array([[1, -1], [-1, 1]])[..., None]  # wg is positive: a token's gates are all open, or all shut
    x, wg = sign * np.abs(x), np.abs(wg)
    yield dout, x * 1000 / np.abs(x @ wg).max(axis=-1, keepdims=True), wg, wu, wd
    yield case(2, 3, 4, 3, 1e-3)
    dout, x, wg, wu, wd = case(2, 4, 3, 7, 10.0 ** rng.integers(-3, 3, (2, 4, 1)))  # each token its own scale
    wg[:, 1] = 0  # a gate that was never trained: silu(0) = 0, but its slope is a half
    yield dout, x, wg, wu, wd
    yield case(3, 4, 6, 5, 300.0)
    yield case(2, 5, 7, 9, 10.0 ** rng.uniform(-3, 2.5))


def large(rng):
    """86,528 entries in x and the matrices: one token and wide weights, so that loops have little to do."""
    D, F = 128, 225
    shapes = (1, 1, D), (1, 1, D), (D, F), (D, F), (F, D)
    dout, x, *weights = (rng.standard_normal(shape) for shape in shapes)
    return dout, x, *(w / np.sqrt(D) for w in weights)


def loss(dout, x, wg, wu, wd):
    """Σ dout ⊙ out."""
    gate = x @ wg
    return (dout * ((gate * _sigmoid(gate) * (x @ wu)) @ wd)).sum()


def rounding(dout, x, wg, wu, wd):
    """In units of u; e_y is the error of y, passed on through the formulas with every term in absolute value.

    The gate carries the error of a sum of D products. The sigmoid hands it on with slope s(1 − s) and adds about 5
    roundings of its own, absolute, not relative: (1 + tanh)/2 is a right sigmoid too. But not much more than s or 1 − s
    itself, where these are too small for any dtype here: hence e^−|gate|, four times, in units of the smallest u,
    2^−53. In SiLU′, 3|act| is for those who write act + s (1 − act), which cancels where the gate is open.
    """
    D, F = wg.shape
    N = x.shape[0] * x.shape[1]
    gate, up, s, act, slope, _ = _parts(dout, x, wg, wu, wd)
    e_gate, e_up = D * (np.abs(x) @ np.abs(wg)), D * (np.abs(x) @ np.abs(wu))  # [B, T, F], as all up to e_dgate
    reach = np.abs(dout) @ np.abs(wd.T)  # |dhidden| with all terms positive: some multiply by the rest before summing
    e_reach = D * reach
    e_s = s * (1 - s) * e_gate + np.minimum(5, np.exp(-np.abs(gate)) * 2.0**55)
    e_act = s * e_gate + np.abs(gate) * e_s + 2 * np.abs(act)
    inner = 1 + np.abs(gate) * (1 - s)
    e_slope = inner * e_s + s * (np.abs(gate) * e_s + (1 - s) * e_gate) + 4 * s * inner + 3 * np.abs(act)
    dup, dgate = reach * np.abs(act), reach * np.abs(up * slope)
    e_dup = reach * e_act + np.abs(act) * e_reach + dup
    e_dgate = reach * np.abs(up) * e_slope + np.abs(slope) * (np.abs(up) * e_reach + reach * e_up) + 2 * dgate
    hidden = np.abs(act * up)
    e_hidden = np.abs(act) * e_up + np.abs(up) * e_act + hidden
    dx = (e_dgate + (F + 1) * dgate) @ np.abs(wg.T) + (e_dup + (F + 1) * dup) @ np.abs(wu.T)
    dwg, dwu = _weight(np.abs(x), e_dgate + N * dgate), _weight(np.abs(x), e_dup + N * dup)
    return dx, dwg, dwu, _weight(e_hidden + N * hidden, np.abs(dout))


def _sigmoid(z):
    """Of floats of any size, complex ones too: the exponent's real part is never positive."""
    e = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, e, 1) / (1 + e)


Parts = namedtuple("Parts", "gate up s act slope dhidden")


def _parts(dout, x, wg, wu, wd):
    """What the backward needs of the forward, and what reaches hidden: all [B, T, F]."""
    gate, up = x @ wg, x @ wu
    s = _sigmoid(gate)
    return Parts(gate, up, s, gate * s, s * (1 + gate * (1 - s)), dout @ wd.T)


def _weight(x, dy):
    """The gradient of w in y = x w: summed over all tokens."""
    return x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])


def _backward(dout, x, wg, wu, wd, dgate=None, dup=None, hidden=None, **wrong):
    """The right gradients, with room to put one thing wrong: a part, or what the two paths and wd receive."""
    p = _parts(dout, x, wg, wu, wd)._replace(**wrong)
    dgate = p.dhidden * p.up * p.slope if dgate is None else dgate
    dup = p.dhidden * p.act if dup is None else dup
    hidden = p.act * p.up if hidden is None else hidden
    return dgate @ wg.T + dup @ wu.T, _weight(x, dgate), _weight(x, dup), _weight(hidden, dout)


# ---- wrong answers; each docstring is what its author will read ----


def zero(dout, x, wg, wu, wd):
    """Your dx is zero: it is right only where out does not depend on x."""
    return np.zeros_like(x), *_backward(dout, x, wg, wu, wd)[1:]


def gate_and_up_swapped(dout, x, wg, wu, wd):
    """You applied SiLU to the up projection. It belongs to the gate, x wg; the up value x wu stays as it is."""
    dx, dwu, dwg, dwd = _backward(dout, x, wu, wg, wd)
    return dx, dwg, dwu, dwd


def sigmoid_gate(dout, x, wg, wu, wd):
    """Your gate is the sigmoid σ alone. SiLU is gate · σ(gate), in its value and in its slope."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, act=p.s, slope=p.s * (1 - p.s))


def slope_forgotten(dout, x, wg, wu, wd):
    """Your gate path goes past SiLU as if it were not there: what reaches the gate is multiplied by SiLU′(gate)."""
    return _backward(dout, x, wg, wu, wd, slope=np.ones_like(x @ wg))


def slope_is_sigmoid(dout, x, wg, wu, wd):
    """Your SiLU′ is σ(gate) alone. SiLU is the product gate · σ(gate), and its second factor has a slope as well."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, slope=p.s)


def slope_of_sigmoid(dout, x, wg, wu, wd):
    """Your SiLU′ is s (1 − s), the slope of the sigmoid. SiLU is gate · s: use the rule for a product."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, slope=p.s * (1 - p.s))


def slope_second_term(dout, x, wg, wu, wd):
    """Your SiLU′ is gate · s (1 − s), the second half of the rule for a product. The first factor, gate, has slope 1
    and leaves s."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, slope=p.gate * p.s * (1 - p.s))


def slope_without_factor(dout, x, wg, wu, wd):
    """Your SiLU′ is s + gate (1 − s). The slope of the sigmoid is s (1 − s), with both factors."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, slope=p.s + p.gate * (1 - p.s))


def slope_minus(dout, x, wg, wu, wd):
    """The second term of your SiLU′ has the wrong sign: the sigmoid rises, so its slope is + s (1 − s)."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, slope=p.s * (1 - p.gate * (1 - p.s)))


def slope_is_silu(dout, x, wg, wu, wd):
    """Your gate path is multiplied by SiLU(gate), the value. On the way back it takes the slope, SiLU′(gate)."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, slope=p.act)


def slope_at_silu(dout, x, wg, wu, wd):
    """Your SiLU′ is taken at SiLU(gate). A slope is taken where the forward stood: at the gate, before SiLU."""
    p = _parts(dout, x, wg, wu, wd)
    s = _sigmoid(p.act)
    return _backward(dout, x, wg, wu, wd, slope=s * (1 + p.act * (1 - s)))


def slope_of_relu(dout, x, wg, wu, wd):
    """Your gate path has slope 1 or 0, as behind a ReLU. SiLU is smooth: a nearly closed gate still passes some."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, slope=(p.gate > 0).astype(x.dtype))


def up_value_missing(dout, x, wg, wu, wd):
    """Your gate path lacks the up value. A product passes to each factor the other: the gate receives the up value."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, dgate=p.dhidden * p.slope)


def gate_value_missing(dout, x, wg, wu, wd):
    """Your up path lacks SiLU(gate). A product passes to each factor the other: up receives SiLU(gate)."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, dup=p.dhidden)


def gate_before_silu(dout, x, wg, wu, wd):
    """Your up path receives the gate before SiLU. What multiplied it in the forward is SiLU(gate)."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, dup=p.dhidden * p.gate)


def up_receives_sigmoid(dout, x, wg, wu, wd):
    """Your up path receives σ(gate). What multiplied it in the forward is SiLU(gate) = gate · σ(gate)."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, dup=p.dhidden * p.s)


def up_receives_slope(dout, x, wg, wu, wd):
    """Your up path receives SiLU′(gate). The slope belongs to the gate path; up receives the value, SiLU(gate)."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, dup=p.dhidden * p.slope)


def each_its_own(dout, x, wg, wu, wd):
    """Each of your paths receives its own value. A product passes to each factor the value of the other one."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, dgate=p.dhidden * p.act * p.slope, dup=p.dhidden * p.up)


def gate_path_only(dout, x, wg, wu, wd):
    """Your dx comes through the gate alone. x is read twice: add what comes back through up."""
    p = _parts(dout, x, wg, wu, wd)
    return (p.dhidden * p.up * p.slope) @ wg.T, *_backward(dout, x, wg, wu, wd)[1:]


def up_path_only(dout, x, wg, wu, wd):
    """Your dx comes through up alone. x is read twice: add what comes back through the gate."""
    p = _parts(dout, x, wg, wu, wd)
    return (p.dhidden * p.act) @ wu.T, *_backward(dout, x, wg, wu, wd)[1:]


def residual_added(dout, x, wg, wu, wd):
    """Your dx has dout added to it. That is the block's residual path; this is the feed-forward alone."""
    dx, *rest = _backward(dout, x, wg, wu, wd)
    return dx + dout, *rest


def down_skipped(dout, x, wg, wu, wd):
    """You took dout for what reaches the hidden values. Between them stands wd: dout wdᵀ."""
    return _backward(dout, x, wg, wu, wd, dhidden=dout)


def down_not_transposed(dout, x, wg, wu, wd):
    """What reaches your hidden values is dout wd. Backward, a matrix acts transposed; only a square one hides it."""
    return _backward(dout, x, wg, wu, wd, dhidden=dout @ wd)


def gate_and_up_not_transposed(dout, x, wg, wu, wd):
    """Your dx multiplies by wg and wu as they stand. Backward, a matrix acts transposed; only a square one hides it."""
    p = _parts(dout, x, wg, wu, wd)
    dx = (p.dhidden * p.up * p.slope) @ wg + (p.dhidden * p.act) @ wu
    return dx, *_backward(dout, x, wg, wu, wd)[1:]


def weights_transposed(dout, x, wg, wu, wd):
    """Your dwg is transposed. A gradient has the shape of its weight, [in, out]: xᵀ times what reaches the output."""
    dx, dwg, dwu, dwd = _backward(dout, x, wg, wu, wd)
    return dx, dwg.T.copy(), dwu.T.copy(), dwd.T.copy()


def dwd_transposed(dout, x, wg, wu, wd):
    """Your dwd is transposed. wd is [F, D], and so is its gradient: hiddenᵀ dout."""
    dx, dwg, dwu, dwd = _backward(dout, x, wg, wu, wd)
    return dx, dwg, dwu, dwd.T.copy()


def weights_swapped(dout, x, wg, wu, wd):
    """You return dwu before dwg, or gave each what reaches the other. The order is that of the arguments."""
    dx, dwg, dwu, dwd = _backward(dout, x, wg, wu, wd)
    return dx, dwu, dwg, dwd


def averaged(dout, x, wg, wu, wd):
    """Your weights' gradients are means over the tokens. All tokens used the same weights: their gradients add up."""
    dx, *rest = _backward(dout, x, wg, wu, wd)
    return dx, *(dw / x[..., 0].size for dw in rest)


def summed_over_tokens_only(dout, x, wg, wu, wd):
    """Your weights' gradients are one for each sequence. All sequences share the weights: sum over B and T."""
    p = _parts(dout, x, wg, wu, wd)
    xt, hidden = x.swapaxes(1, 2), p.act * p.up
    dgate, dup = p.dhidden * p.up * p.slope, p.dhidden * p.act
    return dgate @ wg.T + dup @ wu.T, xt @ dgate, xt @ dup, hidden.swapaxes(1, 2) @ dout


def first_sequence(dout, x, wg, wu, wd):
    """Your weights' gradients come from the first sequence alone. All sequences share the weights: sum over B and T."""
    return _backward(dout, x, wg, wu, wd)[0], *_backward(dout[:1], x[:1], wg, wu, wd)[1:]


def dwd_from_gate(dout, x, wg, wu, wd):
    """Your dwd uses SiLU(gate) alone. What wd multiplied is hidden = SiLU(gate) ⊙ up."""
    return _backward(dout, x, wg, wu, wd, hidden=_parts(dout, x, wg, wu, wd).act)


def dwd_from_up(dout, x, wg, wu, wd):
    """Your dwd uses the up value alone. What wd multiplied is hidden = SiLU(gate) ⊙ up."""
    return _backward(dout, x, wg, wu, wd, hidden=x @ wu)


def dwd_without_silu(dout, x, wg, wu, wd):
    """Your dwd uses gate ⊙ up, without SiLU. What wd multiplied is hidden = SiLU(gate) ⊙ up."""
    return _backward(dout, x, wg, wu, wd, hidden=(x @ wg) * (x @ wu))


def dwd_from_sigmoid(dout, x, wg, wu, wd):
    """Your dwd uses σ(gate) ⊙ up. What wd multiplied is hidden = SiLU(gate) ⊙ up, and SiLU(gate) = gate · σ(gate)."""
    p = _parts(dout, x, wg, wu, wd)
    return _backward(dout, x, wg, wu, wd, hidden=p.s * p.up)


def in_place(dout, x, wg, wu, wd):
    """You wrote dx into x, whose memory is the caller's. Make a new array for it."""
    dx, *rest = _backward(dout, x, wg, wu, wd)
    x[...] = dx
    return x, *rest


def in_place_then_used(dout, x, wg, wu, wd):
    """You wrote dx into x, and the weights' gradients then read the changed one. Make a new array for dx."""
    p = _parts(dout, x, wg, wu, wd)
    dgate, dup = p.dhidden * p.up * p.slope, p.dhidden * p.act
    x[...] = dgate @ wg.T + dup @ wu.T
    return x, _weight(x, dgate), _weight(x, dup), _weight(p.act * p.up, dout)


def overflow(dout, x, wg, wu, wd):
    """exp(gate) overflows in exp(gate) / (1 + exp(gate)) where the gate is wide open: inf / inf is NaN. Divide through:
    1 / (1 + exp(−gate))."""
    e = np.exp(x @ wg)
    s = e / (1 + e)
    return _backward(dout, x, wg, wu, wd, s=s, act=(x @ wg) * s, slope=s * (1 + (x @ wg) * (1 - s)))


def overflow_in_slope(dout, x, wg, wu, wd):
    """Your SiLU′ multiplies by exp(−gate), which is inf where the gate is shut: inf · 0 is NaN. Write the slope of the
    sigmoid as s (1 − s)."""
    e = np.exp(-(x @ wg))
    s = 1 / (1 + e)
    return _backward(dout, x, wg, wu, wd, slope=s + e * s * s * (x @ wg))


def float64_leak(dout, x, wg, wu, wd):
    """Somewhere your float32 becomes float64 (`astype(float)`, `np.zeros(shape)`, `np.float64(…)`); it then doubles the
    memory of all that follows."""
    return _backward(dout.astype(np.float64), x.astype(np.float64), wg, wu, wd)


# ---- right answers, written otherwise ----


def loops(dout, x, wg, wu, wd):
    """Loops over every token, hidden unit and feature."""
    (B, T, D), F = x.shape, wg.shape[1]
    dx, dwg, dwu, dwd = (np.zeros_like(a) for a in (x, wg, wu, wd))
    for b in range(B):
        for t in range(T):
            row, drow, into = x[b, t], dout[b, t], dx[b, t]
            for f in range(F):
                gate = up = dhidden = x.dtype.type(0)
                for d in range(D):
                    gate += row[d] * wg[d, f]
                    up += row[d] * wu[d, f]
                    dhidden += drow[d] * wd[f, d]
                s = 1 / (1 + np.exp(-gate))
                dgate, dup = dhidden * up * s * (1 + gate * (1 - s)), dhidden * gate * s
                for d in range(D):
                    into[d] += dgate * wg[d, f] + dup * wu[d, f]
                    dwg[d, f] += row[d] * dgate
                    dwu[d, f] += row[d] * dup
                    dwd[f, d] += gate * s * up * drow[d]
    return dx, dwg, dwu, dwd


def einsum(dout, x, wg, wu, wd):
    """einsum, every sum named; SiLU′ as s + gate s (1 − s)."""
    gate, up = np.einsum("btd,df->btf", x, wg), np.einsum("btd,df->btf", x, wu)
    s = np.reciprocal(1 + np.exp(-gate))
    reach = np.einsum("bto,fo->btf", dout, wd)
    dgate, dup = reach * up * (s + gate * s * (1 - s)), reach * gate * s
    dx = np.einsum("btf,df->btd", dgate, wg) + np.einsum("btf,df->btd", dup, wu)
    dwg, dwu = np.einsum("btd,btf->df", x, dgate), np.einsum("btd,btf->df", x, dup)
    return dx, dwg, dwu, np.einsum("btf,btf,bto->fo", gate * s, up, dout)


def tanh_and_value(dout, x, wg, wu, wd):
    """σ by tanh, and SiLU′ from SiLU's own value, act + s (1 − act)."""
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, x.shape[-1])
    gate, up = rows @ wg, rows @ wu
    s = 0.5 * (1 + np.tanh(0.5 * gate))
    act = gate * s
    dhidden = drows @ wd.T
    dgate, dup = dhidden * up * (act + s * (1 - act)), dhidden * act
    dx = (dgate @ wg.T + dup @ wu.T).reshape(x.shape)
    return dx, rows.T @ dgate, rows.T @ dup, (act * up).T @ drows


def jacobian(dout, x, wg, wu, wd):
    """Token by token, with the whole D × D Jacobian of out with respect to x, and outer products for the weights."""
    dx, dwg, dwu, dwd = (np.zeros_like(a) for a in (x, wg, wu, wd))
    for at in np.ndindex(x.shape[:2]):
        gate, up = x[at] @ wg, x[at] @ wu
        s = 1 / (1 + np.exp(-gate))
        act, slope = gate * s, s * (1 + gate * (1 - s))
        into = wg * (slope * up) + wu * act  # [D, F]: how each hidden value moves with each x
        dx[at] = (into @ wd) @ dout[at]
        dwg += np.outer(x[at], slope * up * (wd @ dout[at]))
        dwu += np.outer(x[at], act * (wd @ dout[at]))
        dwd += np.outer(act * up, dout[at])
    return dx, dwg, dwu, dwd


def fused(dout, x, wg, wu, wd):
    """Gate and up as one matrix [D, 2F], as fast code has it, taken apart again at the end."""
    F, both = wg.shape[1], np.concatenate([wg, wu], axis=1)
    gate, up = np.split(x @ both, 2, axis=-1)
    open_ = np.exp(-np.logaddexp(x.dtype.type(0), -gate))  # σ(gate)
    reach = np.tensordot(dout, wd, (2, 1))
    dboth = np.concatenate([reach * up * open_ * (1 + gate - gate * open_), reach * gate * open_], axis=-1)
    dw = np.tensordot(x, dboth, ((0, 1), (0, 1)))
    dwd = np.tensordot(open_ * gate * up, dout, ((0, 1), (0, 1)))
    return dboth @ both.T, dw[:, :F].copy(), dw[:, F:].copy(), dwd


exercise = Code(
    id="swiglu-backward",
    title="Backward through the gate",
    chapter="06_feed_forward",
    answer="swiglu_gradients",
    points=3,
    stars=2,
    minutes=30,
    args=("dout", "x", "wg", "wu", "wd"),
    returns=("dx", "dwg", "dwu", "dwd"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        gate_and_up_swapped,
        sigmoid_gate,
        slope_forgotten,
        slope_is_sigmoid,
        slope_of_sigmoid,
        slope_second_term,
        slope_without_factor,
        slope_minus,
        slope_is_silu,
        slope_at_silu,
        slope_of_relu,
        up_value_missing,
        gate_value_missing,
        gate_before_silu,
        up_receives_sigmoid,
        up_receives_slope,
        each_its_own,
        gate_path_only,
        up_path_only,
        residual_added,
        down_skipped,
        down_not_transposed,
        gate_and_up_not_transposed,
        weights_transposed,
        dwd_transposed,
        weights_swapped,
        averaged,
        summed_over_tokens_only,
        first_sequence,
        dwd_from_gate,
        dwd_from_up,
        dwd_without_silu,
        dwd_from_sigmoid,
        in_place,
        in_place_then_used,
        overflow,
        overflow_in_slope,
        float64_leak,
    ),
    variants=(loops, einsum, tanh_and_value, jacobian, fused),
    hints=(
        "Write the forward in four lines: gate = x wg, up = x wu, hidden = SiLU(gate) ⊙ up, out = hidden wd.\n"
        "Then go backward, last line first.",
        "From out = hidden wd: dhidden = dout wdᵀ, and dwd = hiddenᵀ dout, summed over all tokens\n"
        "(`reshape(-1, …)` puts the tokens of all sequences in one matrix).",
        "From hidden = SiLU(gate) ⊙ up: a product passes to each factor the value of the other one.\n"
        "What then reaches the gate goes through SiLU, and so takes its slope.",
        "SiLU(z) = z s with s = 1 / (1 + exp(−z)), and s has slope s (1 − s).\n"
        "By the rule for a product SiLU′(z) = s + z s (1 − s).",
        "dup = dhidden ⊙ SiLU(gate) and dgate = dhidden ⊙ up ⊙ SiLU′(gate).\n"
        "x is read twice, so dx = dgate wgᵀ + dup wuᵀ. Then dwg = xᵀ dgate and dwu = xᵀ dup, over all tokens.",
    ),
    library=("scratch.ffn.swiglu_backward", "scratch.ops.silu_backward"),
    loss=loss,
    large=large,
    takeaway="A gate and what it lets through train each other: each one's gradient carries the other's value.",
)
