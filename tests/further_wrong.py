"""Wrong answers to the exercises in styles their authors did not think of first; `WRONG` lists them.

Each docstring says what is wrong and on which inputs it shows; elsewhere the answer is right to rounding. The letter in
`WRONG` says of what kind it is: "a", wrong numbers or shapes; "b", right numbers but a property is broken (aliasing,
mutation, type, NumPy's settings); "c", right numbers that are not the learner's own (the library, finite differences).

An answer that needs state between its calls comes from a factory, so that the list holds a new one.
"""

import importlib
import math
from types import FunctionType

import numpy as np

from scratch import _check, gradcheck
from scratch.attention import sdpa_backward
from scratch.config import Config
from scratch.ffn import swiglu_backward, swiglu_forward
from scratch.gradcheck import numerical_gradient
from scratch.loss import chunked_cross_entropy_backward as _pair_backward
from scratch.loss import chunked_cross_entropy_forward as _pair_forward
from scratch.model import stack_backward, stack_forward
from scratch.ops import linear_backward, silu_backward, softmax_forward

# softmax-backward: (dout, x) [B, H, T, N] -> dx


def softmax_max_of_map(dout, x):
    """(a) Subtracts the maximum of the head's whole map, not of each row.

    Shows when two rows of one head lie more than about 90 (float32) or 700 (float64) apart: the lower one underflows,
    and the guard against 0/0 turns its gradient into zeros.
    """
    e = np.exp(x - x.max(axis=(-2, -1), keepdims=True))
    p = e / np.maximum(e.sum(axis=-1, keepdims=True), np.finfo(x.dtype).tiny)
    return p * (dout - (p * dout).sum(axis=-1, keepdims=True))


def softmax_squeezed(dout, x):
    """(a) `squeeze` drops every axis of length 1, not only the last one.

    Shows for H = 1 with B > 1, and for T = 1 with B·H > 1: the row's mean meets the wrong axis, and dx has a wrong
    shape or none at all. Right for B = 1 as long as T > 1, and for B, H, T > 1.
    """
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    mean = np.sum(p * dout, axis=-1, keepdims=True).squeeze()
    return p * (dout - mean[..., None])


def softmax_complex_step(dout, x):
    """(c) Numerical: the slope of one's own forward by a complex step, which loses no digits; nothing is derived."""
    step = 1e-30
    shifted = (x - x.max(axis=-1, keepdims=True)).astype(np.complex128)
    dx = np.empty_like(x)
    for n in range(x.shape[-1]):
        z = shifted.copy()
        z[..., n] += 1j * step
        e = np.exp(z)
        p = e / e.sum(axis=-1, keepdims=True)
        dx[..., n] = (dout * p.imag).sum(axis=-1) / step
    return dx


def softmax_inside_attention(dout, x):
    """(c) The library's answer through another of its functions: attention's backward with k = √N·I and v = I.

    Then dq is the gradient of the scores. The name `softmax_backward` never occurs.
    """
    p, _ = softmax_forward(x)
    N = x.shape[-1]
    eye = np.broadcast_to(np.eye(N, dtype=x.dtype), (*x.shape[:2], N, N))
    dq, _, _ = sdpa_backward(dout.astype(x.dtype), (x, eye * x.dtype.type(math.sqrt(N)), eye, p))
    return dq


# attention-weights: (scores [B, H, T, T], pad_mask [B, T]) -> weights


def _visible(pad_mask, T):
    return np.tri(T, dtype=bool) & pad_mask[:, None, None, :]


def weights_initial_zero(scores, pad_mask):
    """(a) `np.max` with `where` wants an `initial`, and gets 0: the maximum is never below 0.

    Shows in rows whose visible scores are all below about −90 (float32) or −700 (float64): they get zeros.
    """
    visible = np.broadcast_to(_visible(pad_mask, scores.shape[-1]), scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, initial=0, where=visible)
    e = np.exp(scores - top, out=np.zeros_like(scores), where=visible)
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def weights_from_first_to_last(scores, pad_mask):
    """(a) Takes the tokens from the first real one to the last for real: padding stands in front or at the end.

    Shows only where a padded token has a real one on either side.
    """
    T = scores.shape[-1]
    j = np.arange(T)
    first = pad_mask.argmax(axis=1)[:, None]
    last = T - 1 - pad_mask[:, ::-1].argmax(axis=1)[:, None]
    real = (first <= j) & (j <= last) & pad_mask.any(axis=1)[:, None]
    hidden = np.where(_visible(real, T), scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    top[top == -np.inf] = 0
    e = np.exp(hidden - top)
    total = e.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    return e / total


def weights_with_eps(scores, pad_mask):
    """(a) 1e-6 added to the sum, against the 0/0 of a row that sees nothing: no row adds up to 1.

    Shows in float64 in every row that sees a key, most with one visible key: 0.999999 instead of 1. In float32 it is
    about eight roundings.
    """
    hidden = np.where(_visible(pad_mask, scores.shape[-1]), scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    e = np.exp(hidden - np.where(np.isinf(top), 0, top).astype(scores.dtype))
    return e / (e.sum(axis=-1, keepdims=True) + 1e-6)


def weights_masked_array(scores, pad_mask):
    """(b) Returns a `np.ma.MaskedArray`, with hidden keys masked and not 0.

    Wrong type always; the data under the mask, which np.asarray shows, is what was left over, and rows that see nothing
    have only that. `.filled(0)` of it would be right.
    """
    visible = np.broadcast_to(_visible(pad_mask, scores.shape[-1]), scores.shape)
    s = np.ma.masked_array(scores, mask=~visible)
    with np.errstate(over="ignore"):  # of what is masked
        e = np.ma.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# rope: (x [B, H, T, Dh], cos, sin [at least T, Dh/2], layout) -> out


def _pairs(Dh, layout):
    if layout == "interleaved":
        return slice(0, Dh, 2), slice(1, Dh, 2)
    return slice(0, Dh // 2), slice(Dh // 2, Dh)


def rope_one_token(x, cos, sin, layout):
    """(b) "Position 0 is not turned": with one token the input itself comes back, not a new array. T = 1 only."""
    T, Dh = x.shape[-2:]
    if T == 1:
        return x
    first, second = _pairs(Dh, layout)
    out = np.empty_like(x)
    out[..., first] = x[..., first] * cos[:T] - x[..., second] * sin[:T]
    out[..., second] = x[..., first] * sin[:T] + x[..., second] * cos[:T]
    return out


def rope_own_table(x, cos, sin, layout):
    """(a) Does not read the tables, but makes its own with base 10000.

    Shows for T > 1 and Dh > 2 with tables of another base (100000 and 500000 among the book's presets), and for any
    other angles.
    """
    T, Dh = x.shape[-2:]
    angle = np.outer(np.arange(T), 10000.0 ** (-np.arange(0, Dh, 2) / Dh))
    c, s = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    first, second = _pairs(Dh, layout)
    out = np.empty_like(x)
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., first] * s + x[..., second] * c
    return out


def rope_single_complex(x, cos, sin, layout):
    """(a) Llama's `view_as_complex(x.float())`: complex numbers of single precision, whatever x is.

    Shows for float64: the dtype is right, but only seven digits are.
    """
    T, Dh = x.shape[-2:]
    first, second = _pairs(Dh, layout)
    turn = cos[:T].astype(np.complex64) + 1j * sin[:T].astype(np.complex64)
    z = (x[..., first].astype(np.complex64) + 1j * x[..., second].astype(np.complex64)) * turn
    out = np.empty_like(x)
    out[..., first], out[..., second] = z.real, z.imag
    return out


def make_rope_cached_table():
    """An answer that keeps its tables, as rotary modules do."""
    tables = {}

    def rope_cached_table(x, cos, sin, layout):
        """(a) Tables kept by (T, Dh), those of the first call with that shape; later ones are not looked at.

        Shows from the second call on, when x has a shape seen before and the table has another base (or more digits).
        """
        T, Dh = x.shape[-2:]
        c, s = tables.setdefault((T, Dh), (cos[:T].copy(), sin[:T].copy()))
        first, second = _pairs(Dh, layout)
        out = np.empty_like(x)
        out[..., first] = x[..., first] * c - x[..., second] * s
        out[..., second] = x[..., first] * s + x[..., second] * c
        return out

    return rope_cached_table


# gqa-backward: (dscores [B, H, T, T], q [B, H, T, Dh], k [B, K, T, Dh]) -> dq, dk


def gqa_letter(dscores, q, k):
    """(a) Two letters, g and r, for the one axis of the group's heads: dk is a product of sums, not a sum of products.

    Shows in dk when H > K; right for H = K.
    """
    B, H, T, Dh = q.shape
    K = k.shape[1]
    ds = dscores.reshape(B, K, H // K, T, T) / math.sqrt(Dh)
    dq = np.einsum("bkgij,bkjd->bkgid", ds, k).reshape(q.shape)
    dk = np.einsum("bkgij,bkrid->bkjd", ds, q.reshape(B, K, H // K, T, Dh))
    return dq, dk


def gqa_whole_root(dscores, q, k):
    """(a) `math.isqrt` for the root, to keep NumPy's float64 away from float32: it rounds down.

    Shows when Dh is not a square: 2, 3, 5, 6, 8, 32, 128. Right for 1, 4, 16 and 64.
    """
    B, H, T, Dh = q.shape
    K = k.shape[1]
    ds = (dscores / math.isqrt(Dh)).reshape(B, K, -1, T)
    dq = (ds @ k).reshape(q.shape)
    dk = ds.swapaxes(-1, -2) @ q.reshape(B, K, -1, Dh)
    return dq, dk


def gqa_unit_differences(dscores, q, k):
    """(c) Finite differences of one's own forward, with step 1: the scores are linear in q and in k, so they are exact.

    A score depends on one query and one key, so a column of all of them can be moved at once.
    """
    B, H, T, Dh = q.shape
    K = k.shape[1]

    def forward(q, k):
        return q @ np.repeat(k, H // K, axis=1).swapaxes(-1, -2) / math.sqrt(Dh)

    dscores, q64, k64 = dscores.astype(np.float64), q.astype(np.float64), k.astype(np.float64)
    before, dq, dk = forward(q64, k64), np.empty_like(q), np.empty_like(k)
    for d in range(Dh):
        step = np.eye(Dh)[d]
        dq[..., d] = (dscores * (forward(q64 + step, k64) - before)).sum(axis=3)
        moved = (dscores * (forward(q64, k64 + step) - before)).sum(axis=2)
        dk[..., d] = moved.reshape(B, K, H // K, T).sum(axis=2)
    return dq, dk


# swiglu-backward: (dout, x [B, T, D], wg, wu [D, F], wd [F, D]) -> dx, dwg, dwu, dwd


def _sigmoid(z):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z))


def swiglu_whatever_fits(dout, x, wg, wu, wd):
    """(a) Transposes a matrix only if it does not fit as it is.

    Shows only for D = F, where everything fits: dx, dwg and dwu are wrong, dwd is right.
    """

    def times(a, w):
        return a @ w if a.shape[-1] == w.shape[0] else a @ w.T

    def outer(a, b):
        return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])

    gate, up = x @ wg, x @ wu
    s = _sigmoid(gate)
    dhidden = times(dout, wd)
    dup = dhidden * gate * s
    dgate = dhidden * up * s * (1 + gate * (1 - s))
    return times(dgate, wg) + times(dup, wu), outer(x, dgate), outer(x, dup), outer(gate * s * up, dout)


def swiglu_sigma_from_act(dout, x, wg, wu, wd):
    """(a) Gets σ back from the activation, as act / gate, and says 0 where the gate is 0: there it is 1/2.

    Shows where a gate is exactly 0 and its up value is not: a column of zeros in wg (zero initialization) makes that
    column of dwg 0, and with wg = 0 all of dwg; dx misses that share only where wg is not 0.
    """
    gate, up = x @ wg, x @ wu
    with np.errstate(over="ignore"):
        act = gate / (1 + np.exp(-gate))
    s = np.divide(act, gate, out=np.zeros_like(gate), where=gate != 0)
    dhidden = dout @ wd.T
    dup = dhidden * act
    dgate = dhidden * up * (s + act * (1 - s))
    dwg, dwu = np.einsum("btd,btf->df", x, dgate), np.einsum("btd,btf->df", x, dup)
    return dgate @ wg.T + dup @ wu.T, dwg, dwu, np.einsum("btf,btd->fd", act * up, dout)


def swiglu_code_object(dout, x, wg, wu, wd):
    """(c) The library's backward, copied: new functions around its code objects."""
    names = {"_check": _check, "np": np}
    own = {
        "linear_backward": FunctionType(linear_backward.__code__, names),
        "silu_backward": FunctionType(silu_backward.__code__, names),
    }
    _, cache = swiglu_forward(x, wg, wu, wd)
    return FunctionType(swiglu_backward.__code__, own)(dout, cache)


# rmsnorm-backward: (dout, x [B, T, D], g [D], eps) -> dx, dg


def make_rmsnorm_without_zero_grad():
    """An answer with a buffer for the gain's gradient, as an optimizer wants it."""
    grads = {}

    def rmsnorm_without_zero_grad(dout, x, g, eps):
        """(a) dg adds up over calls, as in a training loop without `zero_grad`, and all calls return the same buffer.

        Shows in dg from the second call on with the same D and dtype; the dg of earlier calls changes as well.
        """
        r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + float(eps))
        z, dz = x * r, dout * g
        dx = r * (dz - z * (dz * z).mean(axis=-1, keepdims=True))
        dg = grads.setdefault((x.shape[-1], x.dtype), np.zeros_like(g))
        dg += (dout * z).sum(axis=(0, 1))
        return dx, dg

    return rmsnorm_without_zero_grad


def rmsnorm_gain_divided_out(dout, x, g, eps):
    """(a) Gets z back from the output, as out / g, and says 0 where the gain is 0.

    Shows in dg at the features whose gain is exactly 0: their dg is 0, and they could never learn again.
    """
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + float(eps))
    out = x * r * g
    z = np.divide(out, g, out=np.zeros_like(out), where=g != 0)
    dz = dout * g
    dx = r * dz - x * r**3 * (dz * x).mean(axis=-1, keepdims=True)
    return dx, np.einsum("btd,btd->d", dout, z)


def rmsnorm_model_without_layers(dout, x, g, eps):
    """(c) The library's answer by way of a model of no layers: a table whose rows are x, then the final norm.

    The table's gradient is dx and the norm's is dg; neither `rmsnorm_backward` nor a name of the norm is called here.
    """
    B, T, D = x.shape
    config = Config(vocab_size=B * T, d_model=D, n_layers=0, n_heads=1, d_head=2, max_seq=T, eps=float(eps))
    params = {"embed": {"table": x.reshape(-1, D)}, "blocks": [], "norm": {"g": g}}
    _, cache = stack_forward(np.arange(B * T).reshape(B, T), params, config)
    grads = stack_backward(dout, cache)
    return grads["embed"]["table"].reshape(x.shape), grads["norm"]["g"]


# count-block: (D, F) -> attention, swiglu, classic, "swiglu" or "classic" or "same"


def count_whole_width(D, F):
    """(a) Compares F with 8D/3 rounded down.

    Shows only for F = 8D // 3 when D is not a multiple of 3: "same" instead of "classic", as at D = 64, F = 170.
    """
    limit = 8 * D // 3
    more = "same" if F == limit else "swiglu" if limit < F else "classic"
    return 4 * D * D, 3 * D * F, 8 * D * D, more


def count_close(D, F):
    """(a) Compares the two counts with `np.isclose`, which calls everything within 1e-5 the same.

    Shows only for F within 1e-5 of 8D/3, which takes D = 12,500 or more: at D = 16384, F = 43691 the
    SwiGLU has 16,384 weights more.
    """
    swiglu, classic = 3 * D * F, 8 * D * D
    if np.isclose(swiglu, classic):
        return 4 * D * D, swiglu, classic, "same"
    return 4 * D * D, swiglu, classic, "swiglu" if swiglu > classic else "classic"


def count_in_int32(D, F):
    """(a) Multiplies arrays of int32, which wrap around in silence.

    Shows where one matrix has 2**31 entries or more: 4D² from D = 23,171 on, D² from 46,341 on, and D·F.
    """

    def weights(*shapes):
        rows, columns = np.array(shapes, dtype=np.int32).T
        return int((rows * columns).sum())

    attention = weights((D, D), (D, D), (D, D), (D, D))
    swiglu = weights((D, F), (D, F), (F, D))
    classic = weights((D, 4 * D), (4 * D, D))
    more = "same" if swiglu == classic else "swiglu" if swiglu > classic else "classic"
    return attention, swiglu, classic, more


# repair-block: (x [B, T, D], g1, wq, wk, wv, wo, g2, wg, wu, wd) -> out


def repair_zero_is_hidden(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """(a) All three repaired, but the mask became `np.tril`, and what is 0 then counts as hidden.

    Shows where a visible score is exactly 0: wq = 0 or wk = 0 (attention should be the mean of the values seen, and
    adds nothing), and a token whose vector is all zeros.
    """
    eps = 1e-5
    r = ((x * x).mean(axis=-1, keepdims=True) + eps) ** -0.5
    n = x * r * g1
    q, k, v = n @ wq, n @ wk, n @ wv
    scores = np.tril(q @ k.swapaxes(1, 2) / wq.shape[1] ** 0.5)
    scores[scores == 0] = -np.inf
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(top), 0, top).astype(x.dtype))
    total = e.sum(axis=-1, keepdims=True)
    u = x + e / np.where(total == 0, 1, total).astype(x.dtype) @ v @ wo
    r = ((u * u).mean(axis=-1, keepdims=True) + eps) ** -0.5
    n = u * r * g2
    gate = n @ wg
    with np.errstate(over="ignore"):
        hidden = gate / (1 + np.exp(-gate)) * (n @ wu)
    return u + hidden @ wd


def repair_in_place_if_double(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """(b) Right, but adds the branches to `np.asarray(x, dtype=float64)`, which is x itself where x is float64.

    Shows for float64: x is changed, and is what comes back. float32 is converted, so it is left alone.
    """
    T, Dh, eps, stream = x.shape[1], wq.shape[1], 1e-5, np.asarray(x, dtype=np.float64)

    def norm(stream, g):
        return stream * ((stream * stream).mean(axis=-1, keepdims=True) + eps) ** -0.5 * g

    n = norm(stream, g1)
    scores = (n @ wq) @ (n @ wk).swapaxes(1, 2) / Dh**0.5
    scores[:, np.triu(np.ones((T, T), dtype=bool), 1)] = -np.inf
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    stream += e / e.sum(axis=-1, keepdims=True) @ (n @ wv) @ wo
    n = norm(stream, g2)
    gate = n @ wg
    stream += gate * _sigmoid(gate) * (n @ wu) @ wd
    return stream.astype(x.dtype, copy=False)


def repair_by_library(x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    """(c) Not repaired: the library's block, its module and its name put together from pieces."""
    module = importlib.import_module(".".join(("scratch", "kcolb"[::-1])))
    run = getattr(module, "_".join(("block", "forward")))
    config = Config(d_model=x.shape[-1], n_heads=1, d_head=wq.shape[1], d_ff=wg.shape[1], pos="learned", eps=1e-5)
    params = {
        "norm1": {"g": g1},
        "attn": {"wq": wq, "wk": wk, "wv": wv, "wo": wo},
        "norm2": {"g": g2},
        "ffn": {"wg": wg, "wu": wu, "wd": wd},
    }
    return run(x, params, config)[0]


# gradcheck-block: (forward, dx, grads, x, params, upstream) -> names of the wrong ones


def _claims(dx, grads):
    claims = {f"{part}.{name}": claim for part, tree in grads.items() for name, claim in tree.items()}
    return {"x": dx, **claims}


def _doubles(x, params):
    x = x.astype(np.float64)
    params = {part: {name: leaf.astype(np.float64) for name, leaf in tree.items()} for part, tree in params.items()}
    return x, params, _claims(x, params)


def _central(loss, array, index, h):
    old = array[index]
    array[index] = old + h
    high = loss()
    array[index] = old - h
    low = loss()
    array[index] = old
    return (high - low) / (2 * h)


def gradcheck_signed(forward, dx, grads, x, params, upstream):
    """(a) The largest difference is taken without `abs`: an entry that the claim makes too large is not seen.

    Shows where a wrong gradient's entries err upwards only: one entry raised, or all entries 0 where the true ones are
    negative. An error on both sides, such as a wrong factor, is found.
    """
    x, params, arrays = _doubles(x, params)
    wrong = []
    for name, claim in _claims(dx, grads).items():
        numeric = np.empty(claim.shape)
        for index in np.ndindex(claim.shape):
            numeric[index] = _central(lambda: np.sum(forward(x, params) * upstream), arrays[name], index, 1e-5)
        if (numeric - claim).max() > 1e-4 * np.abs(numeric).max():
            wrong.append(name)
    return ", ".join(sorted(wrong))


def gradcheck_relative_step(forward, dx, grads, x, params, upstream):
    """(a) The step is relative to the entry, and an entry that is 0 is passed over, for it has no scale.

    Shows where an error sits at entries of x or of a parameter that are exactly 0, as in a wo of zeros: it is missed.
    """
    x, params, arrays = _doubles(x, params)
    wrong = []
    for name, claim in _claims(dx, grads).items():
        numeric = claim.astype(np.float64)
        for index in np.ndindex(claim.shape):
            h = 1e-4 * abs(arrays[name][index])
            if h > 0:
                numeric[index] = _central(lambda: np.sum(forward(x, params) * upstream), arrays[name], index, h)
        if np.abs(numeric - claim).max() > 1e-4 * np.abs(numeric).max():
            wrong.append(name)
    return ", ".join(sorted(wrong))


def gradcheck_sparse(forward, dx, grads, x, params, upstream):
    """(a) CS231n's `grad_check_sparse`: ten entries of each array, drawn at random, instead of all.

    Shows where few entries of an array with more than ten are off, one of them say: it is missed unless it was drawn.
    """
    x, params, arrays = _doubles(x, params)
    rng, wrong = np.random.default_rng(231), []
    for name, claim in _claims(dx, grads).items():
        picked = rng.choice(claim.size, size=min(10, claim.size), replace=False)
        places = [np.unravel_index(i, claim.shape) for i in picked]
        slopes = [_central(lambda: np.sum(forward(x, params) * upstream), arrays[name], at, 1e-5) for at in places]
        off = max(abs(slope - claim[at]) for slope, at in zip(slopes, places))
        if off > 1e-4 * np.abs(slopes).max():
            wrong.append(name)
    return ", ".join(sorted(wrong))


def gradcheck_code_object(forward, dx, grads, x, params, upstream):
    """(c) The library's `numerical_gradient`, which is closed here, as a new function around its code object."""
    differences = FunctionType(numerical_gradient.__code__, dict(vars(gradcheck)), "mine", (1e-6,))
    x, params, arrays = _doubles(x, params)
    wrong = []
    for name, claim in _claims(dx, grads).items():
        numeric = differences(lambda _: np.sum(forward(x, params) * upstream), arrays[name])
        if np.abs(numeric - claim).max() > 1e-4 * np.abs(numeric).max():
            wrong.append(name)
    return ", ".join(sorted(wrong))


# tied-gradient: (dx [B, T, D], ids [B, T], h [B, T, D], dlogits [B, T, V]) -> dtable [V, D]


def _head(h, dlogits):
    return dlogits.reshape(-1, dlogits.shape[-1]).T @ h.reshape(-1, h.shape[-1])


def tied_flat_index(dx, ids, h, dlogits):
    """(a) Adds up by flat index, id · D + feature, computed in the dtype of the ids.

    Shows for narrow ids: with uint8 from id · D = 256 on, which wraps around to other rows, with int8 from 128 on, and
    with 16 bits likewise later. A D beyond the dtype raises, and so does uint64 always, for with int64 it makes floats.
    int32 and int64 are right.
    """
    V, D = dlogits.shape[-1], dx.shape[-1]
    flat = ids.reshape(-1, 1) * D + np.arange(D)
    lookup = np.bincount(flat.ravel(), weights=dx.ravel(), minlength=V * D).reshape(V, D)
    return lookup.astype(dx.dtype) + _head(h, dlogits)


def tied_by_position(dx, ids, h, dlogits):
    """(a) A loop over positions, all sequences at once, so that no sequence loses a repeated id; but the column may.

    Shows only for B > 1, where two sequences have the same id at the same position: all but the last are lost.
    """
    dtable = _head(h, dlogits)
    for t in range(ids.shape[1]):
        dtable[ids[:, t]] += dx[:, t]
    return dtable


def tied_padding_zero(dx, ids, h, dlogits):
    """(a) `padding_idx=0`, as in many an `nn.Embedding`: id 0 is taken for padding, and its lookups do not count.

    Shows in row 0, where id 0 occurs.
    """
    dtable = _head(h, dlogits)
    real = ids != 0
    np.add.at(dtable, ids[real], dx[real])
    return dtable


def tied_rounded(dx, ids, h, dlogits):
    """(a) Rounded to seven decimals, "to get rid of noise".

    Shows for small gradients, as a mean over many tokens makes them: below 5e-8 all is lost, at 1e-6 up to 5 % of an
    entry. In float64 it shows at any size, as up to 5e-8.
    """
    V, D = dlogits.shape[-1], dx.shape[-1]
    hot = (ids.reshape(-1, 1) == np.arange(V)).astype(dx.dtype)
    return np.round(hot.T @ dx.reshape(-1, D) + _head(h, dlogits), 7)


# cached-attention: (q [B, H, 1, Dh], k, v [B, K, 1, Dh], keys, values [B, K, t, Dh], cos, sin) -> out, keys, values


def _turn(x, cos, sin, position):
    c, s = cos[position].astype(x.dtype), sin[position].astype(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * c - b * s, a * s + b * c], axis=-1).reshape(x.shape)


def _attend(q, keys, values):
    B, K, _, Dh = keys.shape
    scores = q.reshape(B, K, -1, Dh) @ keys.swapaxes(-1, -2) / math.sqrt(Dh)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True) @ values).reshape(q.shape)


def cached_first_is_free(q, k, v, keys, values, cos, sin):
    """(b) With nothing in the cache it returns the value that it was given, as out and as cache, not new arrays.

    Shows only for t = 0: new_values is v itself, and so is out where H = K. The numbers are right.
    """
    t = keys.shape[2]
    if t == 0:
        return (v if q.shape == v.shape else np.repeat(v, q.shape[1] // v.shape[1], axis=1)), _turn(k, cos, sin, 0), v
    new_keys = np.concatenate([keys, _turn(k, cos, sin, t)], axis=2)
    new_values = np.concatenate([values, v], axis=2)
    return _attend(_turn(q, cos, sin, t), new_keys, new_values), new_keys, new_values


def make_cached_counter():
    """An answer that counts the tokens it has written."""
    seen = []

    def cached_counter(q, k, v, keys, values, cos, sin):
        """(a) The position is where the first call started plus the calls since, not the length of the cache given.

        Right for the first call, and for the steps of one text; shows with the next text, or an equal call twice.
        """
        position = (seen[-1] + 1) % len(cos) if seen else keys.shape[2]
        seen.append(position)
        new_keys = np.concatenate([keys, _turn(k, cos, sin, position)], axis=2)
        new_values = np.concatenate([values, v], axis=2)
        return _attend(_turn(q, cos, sin, position), new_keys, new_values), new_keys, new_values

    return cached_counter


def cached_except_zeros(q, k, v, keys, values, cos, sin):
    """(a) Merges the new token into the cache's softmax, and catches whatever goes wrong: then out is zeros.

    Shows only for t = 0, where the cache has no maximum: out should be v, and is 0.
    """
    B, K, t, Dh = keys.shape
    turned_q, turned_k = _turn(q, cos, sin, t).reshape(B, K, -1, Dh), _turn(k, cos, sin, t)
    new_keys, new_values = np.concatenate([keys, turned_k], axis=2), np.concatenate([values, v], axis=2)
    try:
        old = turned_q @ keys.swapaxes(-1, -2) / math.sqrt(Dh)
        new = turned_q @ turned_k.swapaxes(-1, -2) / math.sqrt(Dh)
        top = np.maximum(old.max(axis=-1, keepdims=True), new)
        e_old, e_new = np.exp(old - top), np.exp(new - top)
        out = (e_old @ values + e_new * v) / (e_old.sum(axis=-1, keepdims=True) + e_new)
    except Exception:
        out = np.zeros_like(q)
    return out.reshape(q.shape), new_keys, new_values


def cached_one_maximum(q, k, v, keys, values, cos, sin):
    """(a) There is one query only, so one maximum is subtracted from all scores; but every head has its own query.

    Shows for B·H > 1 and large scores, when a head's best lies some 90 (float32) or 700 (float64) below another's: its
    weights underflow, and the guard against 0/0 makes its out zeros.
    """
    B, K, t, Dh = keys.shape
    new_keys = np.concatenate([keys, _turn(k, cos, sin, t)], axis=2)
    new_values = np.concatenate([values, v], axis=2)
    scores = _turn(q, cos, sin, t).reshape(B, K, -1, Dh) @ new_keys.swapaxes(-1, -2) / math.sqrt(Dh)
    e = np.exp(scores - scores.max())
    p = e / np.maximum(e.sum(axis=-1, keepdims=True), np.finfo(e.dtype).tiny)
    return (p @ new_values).reshape(q.shape), new_keys, new_values


# residual-backward: (dy, x [B, T, D], a, f [L, D, D]) -> dx, da, df


def _outer(x, g):
    return x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])


def _inputs(x, a, f):
    """The input of each of the 2L branches: x and u of the first block, x and u of the second, …"""
    inputs = []
    for al, fl in zip(a, f):
        u = x + x @ al
        inputs.append((x, u))
        x = u + u @ fl
    return inputs


def residual_late_binding(dy, x, a, f):
    """(a) A list of lambdas, one for each block, that all look up the loop's `l` when they are called: it is the last.

    Shows for L > 1: every block goes back through the last one's matrices, and only the last has gradients. Right for
    one block.
    """
    da, df, inputs, steps = np.zeros_like(a), np.zeros_like(f), _inputs(x, a, f), []

    def step(g, l):
        x, u = inputs[l]
        df[l] = _outer(u, g)
        g = g + g @ f[l].T
        da[l] = _outer(x, g)
        return g + g @ a[l].T

    for l in range(len(a)):
        steps.append(lambda g: step(g, l))  # noqa: B023
    g = dy.copy()
    for back in reversed(steps):
        g = back(g)
    return g, da, df


def residual_parallel(dy, x, a, f):
    """(a) "Addition copies the gradient": both branches' gradients are added to dy, and f's does not go through a.

    da and df of a block are right. Shows where a block has both a and f, as dy fᵀ aᵀ that is missing from what it hands
    back: in dx, and in the earlier blocks' da and df. Right where each block has an a or an f of zeros.
    """
    da, df, inputs, g = np.zeros_like(a), np.zeros_like(f), _inputs(x, a, f), dy.copy()
    for l in reversed(range(len(a))):
        x, u = inputs[l]
        df[l] = _outer(u, g)
        da[l] = _outer(x, g + g @ f[l].T)
        g = g + g @ f[l].T + g @ a[l].T
    return g, da, df


def residual_flat_view(dy, x, a, f):
    """(b) Takes `reshape` for a copy and adds in place: the caller's dy becomes dx.

    Shows for a dy in C order, which all fresh arrays are; of a transposed or sliced one `reshape` does make a copy.
    """
    da, df, inputs, g = np.zeros_like(a), np.zeros_like(f), _inputs(x, a, f), dy.reshape(-1, dy.shape[-1])
    for l in reversed(range(len(a))):
        x, u = inputs[l]
        df[l] = _outer(u, g)
        g += g @ f[l].T
        da[l] = _outer(x, g)
        g += g @ a[l].T
    return g.reshape(dy.shape), da, df


def residual_reversible(dy, x, a, f):
    """(a) Keeps no activations: on the way back each branch's input is worked out of its output, as in a RevNet.

    Shows where I + a[l] or I + f[l] is singular, as at a = −I, a block that erases: there `solve` raises; and where it
    is nearly so, for then rounding is amplified. Elsewhere it is right, in float64 inside.
    """
    D = x.shape[-1]
    da, df, g = np.zeros_like(a), np.zeros_like(f), dy.reshape(-1, D).astype(np.float64)
    h = x.reshape(-1, D).astype(np.float64)
    for l in range(len(a)):
        h = h + h @ a[l]
        h = h + h @ f[l]
    for l in reversed(range(len(a))):
        for w, dw in ((f[l], df[l]), (a[l], da[l])):
            h = np.linalg.solve((np.eye(D) + w).T, h.T).T
            dw[...] = h.T @ g
            g = g + g @ w.T
    return g.reshape(x.shape).astype(x.dtype), da, df


def residual_unit_differences(dy, x, a, f):
    """(c) Finite differences of one's own forward, with step 1: it is linear in x and each matrix, so they are exact.

    All features of a row of a matrix are moved at once, in a batch.
    """

    def forward(x, a, f):
        for l in range(len(a)):
            x = x + x @ a[l]
            x = x + x @ f[l]
        return x

    L, D, _ = a.shape
    wide = x.astype(np.float64)
    before, weights, steps = forward(wide, a, f), [*a.astype(np.float64)] + [*f.astype(np.float64)], np.eye(D)
    dx, grads = np.empty_like(x), np.empty((2 * L, D, D), dtype=x.dtype)
    for d in range(D):
        dx[..., d] = (dy * (forward(wide + steps[d], a, f) - before)).sum(axis=-1)
        for n in range(2 * L):
            moved = [*weights]
            moved[n] = (weights[n] + np.einsum("i,kj->kij", steps[d], steps))[:, None]  # [D, 1, D, D]
            change = forward(wide, moved[:L], moved[L:]) - before
            grads[n, d] = (dy * change).reshape(D, -1).sum(axis=-1)
    return dx, grads[:L].copy(), grads[L:].copy()


# cross-entropy-backward: (dloss, logits [..., V], targets [...]) -> dlogits


def _softmax(logits):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _less_target(logits, targets, keep):
    """Softmax − one-hot, with 0 taken for the target where none counts."""
    rows = _softmax(logits)
    at = np.where(keep, targets, 0).astype(np.int64)[..., None]
    np.put_along_axis(rows, at, np.take_along_axis(rows, at, axis=-1) - 1, axis=-1)
    return rows


def entropy_narrow_ignore(dloss, logits, targets):
    """(a) −100 is turned into the dtype of the targets before it is compared, and wraps around where that is unsigned.

    Shows for uint8 where a target is 156: its row is zeros and the mean is over one less. (65436 for uint16.) Right for
    signed dtypes and for vocabularies of up to 156.
    """
    keep = targets != np.array(-100).astype(targets.dtype)
    scale = dloss * keep[..., None] / max(keep.sum(), 1)
    return (_less_target(logits, targets, keep) * scale).astype(logits.dtype)


def entropy_mean_of_means(dloss, logits, targets):
    """(a) The mean over the sequences of each one's mean, not over all targets that count.

    Shows for [B, T] where two sequences have different numbers of targets that count, and one at least in each. Right
    for [N], for B = 1, and where all have as many.
    """
    keep = targets != -100
    own = keep.sum(axis=-1, keepdims=True)
    weight = keep / np.maximum(own, 1) / max((own > 0).sum(), 1)
    return (_less_target(logits, targets, keep) * dloss * weight[..., None]).astype(logits.dtype)


def entropy_log_with_eps(dloss, logits, targets):
    """(a) The derivative of −log(p + 1e-12), which has no log of 0: its slope is p / (p + 1e-12) of the true one.

    Shows where the target's probability is small: below 1e-12, which is a logit 28 lower than the best, most of the
    gradient is gone, and all of it where exp underflows. At a probability of 0.01 it is off by 1e-10.
    """
    keep = targets != -100
    at = np.where(keep, targets, 0).astype(np.int64)[..., None]
    p = np.take_along_axis(_softmax(logits.astype(np.float64)), at, axis=-1)
    slope = _less_target(logits.astype(np.float64), targets, keep) * p / (p + 1e-12)
    return (slope * (dloss * keep[..., None] / max(keep.sum(), 1))).astype(logits.dtype)


def entropy_empty_in_float64(dloss, logits, targets):
    """(b) The early exit forgets the dtype.

    Shows only for float32 logits where no target counts: the zeros are float64.
    """
    keep = targets != -100
    if not keep.any():
        return np.zeros(logits.shape)
    rows = _less_target(logits, targets, keep)
    rows[~keep] = 0
    rows *= dloss / keep.sum()
    return rows


def entropy_identity_head(dloss, logits, targets):
    """(c) The library's answer by its chunked pair, taken when this module was imported: a head of ones in a diagonal.

    Then the gradient of the stream is the gradient of the logits.
    """
    head = np.eye(logits.shape[-1], dtype=logits.dtype)
    _, cache = _pair_forward(logits, head, targets.astype(np.int64))
    return _pair_backward(dloss, cache)[0]


WRONG = [
    ("softmax-backward", softmax_max_of_map, "a"),
    ("softmax-backward", softmax_squeezed, "a"),
    ("softmax-backward", softmax_complex_step, "c"),
    ("softmax-backward", softmax_inside_attention, "c"),
    ("attention-weights", weights_initial_zero, "a"),
    ("attention-weights", weights_from_first_to_last, "a"),
    ("attention-weights", weights_with_eps, "a"),
    ("attention-weights", weights_masked_array, "b"),
    ("rope", rope_one_token, "b"),
    ("rope", rope_own_table, "a"),
    ("rope", rope_single_complex, "a"),
    ("rope", make_rope_cached_table(), "a"),
    ("gqa-backward", gqa_letter, "a"),
    ("gqa-backward", gqa_whole_root, "a"),
    ("gqa-backward", gqa_unit_differences, "c"),
    ("swiglu-backward", swiglu_whatever_fits, "a"),
    ("swiglu-backward", swiglu_sigma_from_act, "a"),
    ("swiglu-backward", swiglu_code_object, "c"),
    ("rmsnorm-backward", make_rmsnorm_without_zero_grad(), "a"),
    ("rmsnorm-backward", rmsnorm_gain_divided_out, "a"),
    ("rmsnorm-backward", rmsnorm_model_without_layers, "c"),
    ("count-block", count_whole_width, "a"),
    ("count-block", count_close, "a"),
    ("count-block", count_in_int32, "a"),
    ("repair-block", repair_zero_is_hidden, "a"),
    ("repair-block", repair_in_place_if_double, "b"),
    ("repair-block", repair_by_library, "c"),
    ("gradcheck-block", gradcheck_signed, "a"),
    ("gradcheck-block", gradcheck_relative_step, "a"),
    ("gradcheck-block", gradcheck_sparse, "a"),
    ("gradcheck-block", gradcheck_code_object, "c"),
    ("tied-gradient", tied_flat_index, "a"),
    ("tied-gradient", tied_by_position, "a"),
    ("tied-gradient", tied_padding_zero, "a"),
    ("tied-gradient", tied_rounded, "a"),
    ("cached-attention", cached_first_is_free, "b"),
    ("cached-attention", make_cached_counter(), "a"),
    ("cached-attention", cached_except_zeros, "a"),
    ("cached-attention", cached_one_maximum, "a"),
    ("residual-backward", residual_late_binding, "a"),
    ("residual-backward", residual_parallel, "a"),
    ("residual-backward", residual_flat_view, "b"),
    ("residual-backward", residual_reversible, "a"),
    ("residual-backward", residual_unit_differences, "c"),
    ("cross-entropy-backward", entropy_narrow_ignore, "a"),
    ("cross-entropy-backward", entropy_mean_of_means, "a"),
    ("cross-entropy-backward", entropy_log_with_eps, "a"),
    ("cross-entropy-backward", entropy_empty_in_float64, "b"),
    ("cross-entropy-backward", entropy_identity_head, "c"),
]
"""(exercise, answer, kind); see above for the kinds."""
