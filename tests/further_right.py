"""Right answers to the exercises in styles their authors did not think of first; `RIGHT` lists them."""

import functools
import itertools
import math
import operator
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from scratch.ffn import swiglu_forward
from scratch.norm import rmsnorm_forward
from scratch.ops import linear_backward, linear_forward, softmax_forward
from scratch.rope import rope_forward

# Helpers under the names that everybody gives them.


def softmax(x):
    """Softmax over the last axis, the textbook's way."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def sigmoid(z):
    """Sigmoid as exp(−log(1 + exp(−z))), which neither overflows nor cancels."""
    return np.exp(-np.logaddexp(0, -z))


def rotate(x, c, s):
    """Turn neighbouring features of x [..., Dh] by one position's cosines and sines [Dh/2]."""
    even, odd = x[..., ::2], x[..., 1::2]
    return np.stack((even * c - odd * s, even * s + odd * c), axis=-1).reshape(x.shape)


# softmax-backward


def softmax_fortran(dout, x):
    """Fortran: counted loops, one subscript after the other, exact sums, a column-major result."""
    nb, nh, nt, nn = x.shape
    dx = np.zeros((nb, nh, nt, nn), dtype=x.dtype, order="F")
    e = [0.0] * nn
    d = [0.0] * nn
    for ib in range(nb):
        for ih in range(nh):
            for it in range(nt):
                top = float(x[ib, ih, it, 0])
                for i in range(1, nn):
                    if x[ib, ih, it, i] > top:
                        top = float(x[ib, ih, it, i])
                for i in range(nn):
                    e[i] = math.exp(float(x[ib, ih, it, i]) - top)
                    d[i] = float(dout[ib, ih, it, i])
                total = math.fsum(e)
                c = math.fsum(e[i] * d[i] for i in range(nn)) / total
                for i in range(nn):
                    dx[ib, ih, it, i] = e[i] / total * (d[i] - c)
    return dx


def softmax_jacobian(dout, x):
    """Linear algebra: the whole Jacobian diag(p) − p pᵀ of each row, under `np.apply_along_axis`."""

    def pull(both):
        p, d = np.split(both, 2)
        return (np.diagflat(p) - np.outer(p, p)).T @ d

    p, _ = softmax_forward(x)
    return np.apply_along_axis(pull, -1, np.concatenate((p, dout), axis=-1))


@dataclass(frozen=True)
class Dual:
    """A number and its slope along one direction: forward-mode differentiation."""

    value: np.ndarray
    slope: np.ndarray

    def __sub__(self, constant):
        return Dual(self.value - constant, self.slope)

    def __truediv__(self, other):
        quotient = self.value / other.value
        return Dual(quotient, (self.slope - quotient * other.slope) / other.value)

    def exp(self):
        """e to this."""
        e = np.exp(self.value)
        return Dual(e, e * self.slope)

    def total(self):
        """The sum of each row, the axis kept."""
        return Dual(self.value.sum(-1, keepdims=True), self.slope.sum(-1, keepdims=True))


def softmax_dual(dout, x):
    """Dual numbers: softmax's Jacobian is symmetric, so its slope along `dout` is the gradient."""
    e = (Dual(x, dout) - x.max(axis=-1, keepdims=True)).exp()
    return (e / e.total()).slope


def softmax_lambdas(dout, x):
    """Functional: nested lambdas, `map` and `reduce` over plain lists, an array only at the end."""
    return np.array(
        list(
            map(
                lambda row, upstream: (
                    lambda e: (
                        lambda p: (lambda c: list(map(lambda pi, di: pi * (di - c), p, upstream)))(
                            functools.reduce(operator.add, map(operator.mul, p, upstream), 0.0)
                        )
                    )((lambda z: [ei / z for ei in e])(math.fsum(e)))
                )((lambda top: [math.exp(xi - top) for xi in row])(max(row))),
                x.reshape(-1, x.shape[-1]).tolist(),
                dout.reshape(-1, x.shape[-1]).tolist(),
            )
        ),
        dtype=x.dtype,
    ).reshape(x.shape)


# attention-weights


def weights_c(scores, pad_mask):
    """C: flat buffers with the offsets worked out by hand, and only the visible keys are ever touched."""
    B, H, T = scores.shape[:3]
    s = scores.reshape(-1).tolist()
    real = pad_mask.reshape(-1).tolist()
    w = array("d", bytes(8 * B * H * T * T))
    for row in range(B * H * T):
        i = row % T
        tokens = row // (H * T) * T
        offset = row * T
        top = -math.inf
        for j in range(i + 1):
            if real[tokens + j] and s[offset + j] > top:
                top = s[offset + j]
        total = 0.0
        for j in range(i + 1):
            if real[tokens + j]:
                w[offset + j] = math.exp(s[offset + j] - top)
                total += w[offset + j]
        for j in range(i + 1):
            if real[tokens + j]:
                w[offset + j] /= total
    return np.frombuffer(w).reshape(scores.shape).astype(scores.dtype)


def weights_log_sum_exp(scores, pad_mask):
    """Statistics: log-weights minus their log-sum-exp by `np.logaddexp.reduce`, in long double."""
    hidden = ~(np.tri(scores.shape[-1], dtype=bool) & pad_mask[:, None, None, :])  # [B, 1, T, T]
    log_w = scores.astype(np.longdouble)
    np.putmask(log_w, np.broadcast_to(hidden, log_w.shape), -np.inf)
    evidence = np.logaddexp.reduce(log_w, axis=-1, keepdims=True)
    evidence[np.isneginf(evidence)] = 0
    return np.exp(log_w - evidence).astype(scores.dtype)


def weights_masked_array(scores: np.ndarray, pad_mask: np.ndarray) -> np.ndarray:
    """Masked arrays, with type hints and asserts; zeros are filled in when all is done."""
    assert scores.ndim == 4 and pad_mask.dtype == bool
    seen = np.logical_and.outer(pad_mask, np.ones(scores.shape[1:3], dtype=bool)).transpose(0, 2, 3, 1)  # [B, H, T, T]
    future = np.arange(scores.shape[-1]) > np.arange(scores.shape[-1])[:, None]
    visible = np.ma.masked_where(~seen | future, scores)
    with np.errstate(over="ignore"):  # np.ma computes what lies below the mask as well
        e = np.ma.exp(visible - visible.max(axis=-1, keepdims=True))
    weights = (e / e.sum(axis=-1, keepdims=True)).filled(0)
    assert isinstance(weights, np.ndarray) and not isinstance(weights, np.ma.MaskedArray)
    return weights.astype(scores.dtype)


# rope


def rope_complex(x, cos, sin, layout):
    """Complex numbers: a pair is a + ib and turns by cos + i sin, as complex64 when x is float32."""
    T, half = x.shape[-2], x.shape[-1] // 2
    turn = np.empty((T, half), dtype=np.result_type(x.dtype, np.complex64))
    turn.real, turn.imag = cos[:T], sin[:T]
    if layout == "interleaved":
        return (np.ascontiguousarray(x).view(turn.dtype) * turn).view(x.dtype)
    z = np.empty((*x.shape[:-1], half), dtype=turn.dtype)
    z.real, z.imag = x[..., :half], x[..., half:]
    z *= turn
    return np.concatenate((z.real, z.imag), axis=-1)


def rope_kronecker(x, cos, sin, layout):
    """Kronecker products: one Dh × Dh matrix for each position; the layout is the order of the factors."""
    one, turn = np.eye(2, dtype=x.dtype), np.array([[0, -1], [1, 0]], dtype=x.dtype)
    kron = {"interleaved": np.kron, "half": lambda pairs, pair: np.kron(pair, pairs)}[layout]
    R = [kron(np.diag(c), one) + kron(np.diag(s), turn) for c, s in zip(cos[: x.shape[2]], sin)]  # T times [Dh, Dh]
    return np.einsum("tij,bhtj->bhti", np.asarray(R), x)


def rope_feature_major(x, cos, sin, layout):
    """A `match` on the layout, a generator of pairs, features first in memory, handed out as a transposed view."""
    B, H, T, Dh = x.shape
    match layout:
        case "interleaved":
            pairs = ((2 * i, 2 * i + 1) for i in range(Dh // 2))
        case "half":
            pairs = zip(range(Dh // 2), range(Dh // 2, Dh))
        case other:
            raise ValueError(f"no such layout: {other}")
    features = np.empty((Dh, T, H, B), dtype=x.dtype)
    for (a, b), c, s in zip(pairs, cos.T, sin.T):
        first, second = x[..., a], x[..., b]  # [B, H, T]
        features[a] = (first * c[:T] - second * s[:T]).T
        features[b] = (first * s[:T] + second * c[:T]).T
    return features.T


# gqa-backward


def gqa_linear_pair(dscores, q, k):
    """The library: a head's scores are a projection of its queries by kᵀ, so `linear_backward` knows the way back."""
    (B, H, _, Dh), K = q.shape, k.shape[1]
    dq, dk = np.zeros_like(q), np.zeros_like(k)
    for b, h in itertools.product(range(B), range(H)):
        _, cache = linear_forward(q[b, h], k[b, h * K // H].T)
        dq[b, h], dkt = linear_backward(dscores[b, h] / math.sqrt(Dh), cache)
        dk[b, h * K // H] += dkt.T
    return dq, dk


def gqa_reduceat(dscores, q, k):
    """Stride 0 repeats the key heads without a copy; `np.add.reduceat` sums each group's run of query heads."""
    (B, H, T, Dh), K = q.shape, k.shape[1]
    size = H // K
    sb, sk, st, sd = k.strides
    shape, strides = (B, K, size, T, Dh), (sb, sk, 0, st, sd)
    repeated = np.lib.stride_tricks.as_strided(k, shape, strides, writeable=False).reshape(q.shape)
    scale = q.dtype.type(1.0 / math.sqrt(Dh))
    dq = scale * (dscores @ repeated)
    each = scale * (dscores.transpose(0, 1, 3, 2) @ q)
    return dq, np.add.reduceat(each, np.arange(0, H, size), axis=1)


gqa_contract = functools.partial(np.einsum, optimize=True)


def gqa_membership(dscores, q, k):
    """A matrix of zeros and ones says who belongs to whom, and an optimized `np.einsum` contracts it all."""
    H, K = q.shape[1], k.shape[1]
    member = np.kron(np.eye(K, dtype=q.dtype), np.full(H // K, q.shape[-1] ** -0.5, dtype=q.dtype))  # [K, H], scaled
    dq = gqa_contract("bhij,bgjd,gh->bhid", dscores, k, member)
    dk = gqa_contract("bhij,bhid,gh->bgjd", dscores, q, member)
    return dq, dk


# swiglu-backward


class Node:
    """A value on a tape: who made it, and how its gradient goes back to them."""

    def __init__(self, value, *parents):
        self.value, self.parents, self.grad = value, parents, np.zeros_like(value)

    def __mul__(self, other):
        return Node(self.value * other.value, (self, lambda g: g * other.value), (other, lambda g: g * self.value))

    def __matmul__(self, w):
        return Node(
            self.value @ w.value,
            (self, lambda g: g @ w.value.T),
            (w, lambda g: np.tensordot(self.value, g, axes=((0, 1), (0, 1)))),
        )

    def sigmoid(self):
        """σ, with its slope written σ(z) σ(−z)."""
        return Node(sigmoid(self.value), (self, lambda g: g * sigmoid(self.value) * sigmoid(-self.value)))

    def backward(self, upstream):
        """Walk the tape back, every node after all that read it."""
        order, met = [], set()

        def visit(node):
            if id(node) not in met:
                met.add(id(node))
                for parent, _ in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.grad = upstream
        for node in reversed(order):
            for parent, pull in node.parents:
                parent.grad = parent.grad + pull(node.grad)


def swiglu_tape(dout, *inputs):
    """Reverse-mode autograd on a small tape: only the forward is written down."""
    x, wg, wu, wd = leaves = [Node(value) for value in inputs]
    gate = x @ wg
    out = (gate * gate.sigmoid() * (x @ wu)) @ wd
    out.backward(dout)
    return tuple(leaf.grad for leaf in leaves)


def swiglu_fused(dout, x, wg, wu, wd):
    """Block matrices: gate and up are one matrix [wg | wu], and its gradient is cut in two, as views."""
    w = np.block([wg, wu])  # [D, 2F]
    gate, up = np.split(np.dot(x, w), 2, axis=-1)
    s = sigmoid(gate)
    dhidden = np.inner(dout, wd)  # dout @ wd.T
    dboth = np.concatenate((dhidden * up * (s + gate * s * sigmoid(-gate)), dhidden * gate * s), axis=-1)
    dwg, dwu = np.hsplit(np.tensordot(x, dboth, axes=2 * [(0, 1)]), 2)
    dwd = np.tensordot(gate * s * up, dout, axes=2 * [(0, 1)])
    return np.inner(dboth, w), dwg, dwu, dwd


class OneTokenAtATime:
    """An object that is called: token by token, outer products added up, a scalar sigmoid under `np.vectorize`."""

    @staticmethod
    def sigma(z):
        """σ(z) of one number, without overflow on either side."""
        if z >= 0:
            return 1.0 / (1.0 + math.exp(-z))
        e = math.exp(z)
        return e / (1.0 + e)

    def __init__(self):
        self.sigmas = np.vectorize(self.sigma, otypes=[np.float64])

    def token(self, d, n, wg, wu, wd):
        """The four shares of one token."""
        gate, up = wg.T @ n, wu.T @ n
        s = self.sigmas(gate).astype(n.dtype)
        dhidden = wd @ d
        dgate, dup = dhidden * up * s * (1 + gate * (1 - s)), dhidden * gate * s
        return wg @ dgate + wu @ dup, np.outer(n, dgate), np.outer(n, dup), np.outer(gate * s * up, d)

    def __call__(self, dout, x, wg, wu, wd):
        dx, dwg, dwu, dwd = (np.zeros_like(value) for value in (x, wg, wu, wd))
        for at in np.ndindex(*x.shape[:2]):
            dx[at], *shares = self.token(dout[at], x[at], wg, wu, wd)
            for total, share in zip((dwg, dwu, dwd), shares):
                np.add(total, share, out=total)
        return dx, dwg, dwu, dwd


def swiglu_silences_numpy(dout, x, wg, wu, wd):
    """Right, though it leaves `np.seterr` changed: whoever calls it has to restore that."""
    np.seterr(over="ignore", invalid="ignore")
    gate, up = x @ wg, x @ wu
    s = 1 / (1 + np.exp(-gate))
    dhidden = dout @ wd.T
    dup = dhidden * gate * s
    dgate = dhidden * up * s * (1 + gate * (1 - s))
    dwg, dwu = np.einsum("btd,btf->df", x, dgate), np.einsum("btd,btf->df", x, dup)
    return dgate @ wg.T + dup @ wu.T, dwg, dwu, np.einsum("btf,btd->fd", gate * s * up, dout)


# rmsnorm-backward


def in_long_double(function: Callable) -> Callable:
    """Run a function in long double, and bring what it returns back to its first argument's dtype."""

    @functools.wraps(function)
    def wrapper(first, *rest):
        wide = [value.astype(np.longdouble) if isinstance(value, np.ndarray) else value for value in (first, *rest)]
        return tuple(np.asarray(result, dtype=first.dtype) for result in function(*wide))

    return wrapper


@in_long_double
def rmsnorm_long_double(dout, x, g, eps):
    """A decorator does the casting; inside, dx is what is left of z̄ when its part along z is taken out."""
    z = x * (r := np.reciprocal(np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps)))
    along = np.mean((dz := dout * g) * z, axis=-1, keepdims=True)
    return r * (dz - along * z), np.add.reduce(dout * z, axis=(0, 1))


def rmsnorm_lists(dout, x, g, eps):
    """No array at all until the end: lists, a generator over tokens, and `math.fsum` for every sum."""
    D, gains = x.shape[-1], g.tolist()

    def tokens() -> Iterator[tuple[list[float], list[float]]]:
        for d, n in zip(dout.reshape(-1, D).tolist(), x.reshape(-1, D).tolist()):
            r = 1.0 / math.sqrt(math.fsum(v * v for v in n) / D + eps)
            dz = [gi * di for gi, di in zip(gains, d)]
            pull = r**3 * math.fsum(map(operator.mul, dz, n)) / D
            yield [r * dzi - pull * ni for dzi, ni in zip(dz, n)], [di * ni * r for di, ni in zip(d, n)]

    dx, shares = zip(*tokens())
    dg = [math.fsum(column) for column in zip(*shares)]
    return np.array(dx, dtype=x.dtype).reshape(x.shape), np.array(dg, dtype=x.dtype)


def rmsnorm_matrix(dout, x, g, eps):
    """`np.matrix`, tokens as columns: every scaling a product with a diagonal matrix, dx a transposed view."""
    D = x.shape[-1]
    X, dY = (np.array(value.reshape(-1, D).T).view(np.matrix) for value in (x, dout))  # [D, B·T]
    row = np.ones((1, D), dtype=x.dtype).view(np.matrix)
    r = 1 / np.sqrt(row @ np.multiply(X, X) / D + eps)  # [1, B·T]
    Z = X @ np.diagflat(r)
    dZ = np.diagflat(g) @ dY
    c = row @ np.multiply(dZ, Z) / D
    dX = (dZ - Z @ np.diagflat(c)) @ np.diagflat(r)
    dG = np.multiply(dY, Z) @ np.ones((X.shape[1], 1), dtype=x.dtype)
    return dX.A.T.reshape(x.shape), dG.A1.astype(x.dtype)


# count-block


@dataclass(frozen=True)
class Matrix:
    """One weight matrix of a block."""

    rows: int
    columns: int

    def __len__(self):
        return self.rows * self.columns


def count_dataclass(D, F):
    """Dataclasses that know their length, and a `match` for the verdict."""
    attention = {name: Matrix(D, D) for name in ("query", "key", "value", "output")}
    swiglu = {"gate": Matrix(D, F), "up": Matrix(D, F), "down": Matrix(F, D)}
    classic = {"in": Matrix(D, 4 * D), "out": Matrix(4 * D, D)}
    a, s, c = (sum(map(len, part.values())) for part in (attention, swiglu, classic))
    match s - c:
        case 0:
            more = "same"
        case difference if difference > 0:
            more = "swiglu"
        case _:
            more = "classic"
    return a, s, c, more


class Weights(NamedTuple):
    """What a block weighs."""

    attention: int
    swiglu: int
    classic: int
    more: str


def count_sizes(D, F):
    """NumPy counts: arrays of the right shapes that need no memory, and a named tuple to return."""
    size = {name: np.broadcast_to(0, shape).size for name, shape in {"dd": (D, D), "df": (D, F)}.items()}
    swiglu, classic = size["df"] * 3, size["dd"] * 8
    return Weights(
        classic=classic,
        attention=size["dd"] * 4,
        more="same" if swiglu == classic else ["classic", "swiglu"][swiglu > classic],
        swiglu=swiglu,
    )


def count_walrus(*widths):
    """Walruses: `*widths`, products by `math.prod`, and the verdict by an index that may be −1."""
    return (
        4 * (square := (D := widths[0]) ** 2),
        swiglu := sum(itertools.repeat(math.prod(widths), 3)),
        classic := sum((square * 4, math.prod((4 * D, D)))),
        ("same", "swiglu", "classic")[(swiglu > classic) - (swiglu < classic)],
    )


# repair-block


def repair_prefixes(x, g1, wq, wk, wv, wo, g2, wg, wu, wd, eps=float(Decimal("0.00001"))):
    """Closures and no mask: query t is given the keys [: t + 1], and there is nothing to hide."""

    def norm(gain):
        return lambda stream: gain * stream / np.sqrt(np.square(stream).mean(axis=-1, keepdims=True) + eps)

    def attention(tokens):  # [T, D]
        q, k, v = tokens @ wq, tokens @ wk, tokens @ wv
        seen = (softmax(q[t] @ k[: t + 1].T / math.sqrt(k.shape[1])) @ v[: t + 1] for t in range(len(tokens)))
        return np.stack(list(seen)) @ wo

    def feed_forward(tokens):
        gate = tokens @ wg
        return (gate * sigmoid(gate) * (tokens @ wu)) @ wd

    def residual(branch, read):
        return lambda stream: stream + branch(read(stream))

    layers = residual(attention, norm(g1)), residual(feed_forward, norm(g2))
    return np.array([functools.reduce(lambda stream, layer: layer(stream), layers, sequence) for sequence in x])


class PreNormBlock:
    """A block in the style of a framework's module: weights at construction, `forward` when called."""

    def __init__(self, g1, wq, wk, wv, wo, g2, wg, wu, wd):
        self.norms, self.qkv, self.wo, self.ffn = (g1, g2), np.hstack((wq, wk, wv)), wo, (wg, wu, wd)

    def attend(self, n):
        """One head, the three projections in one product."""
        q, k, v = np.array_split(linear_forward(n, self.qkv)[0], 3, axis=-1)
        scores = np.einsum("bid,bjd->bij", q, k) * np.reciprocal(np.sqrt(n.dtype.type(q.shape[-1])))
        causal = np.where(np.tri(n.shape[1], dtype=bool), scores, n.dtype.type(-np.inf))
        return softmax_forward(causal)[0] @ v @ self.wo

    def __call__(self, x):
        branches = self.attend, lambda n: swiglu_forward(n, *self.ffn)[0]
        for gain, branch in zip(self.norms, branches):
            x = x + branch(rmsnorm_forward(x, gain, 1e-5)[0])
        return x


def repair_module(x, *weights):
    """A module object out of the library's parts, behind `*weights`."""
    return PreNormBlock(*weights)(x)


def _streaming_block(eps, x, g1, wq, wk, wv, wo, g2, wg, wu, wd):
    dtype, (x, g1, wq, wk, wv, wo, g2, wg, wu, wd) = (
        x.dtype,
        (value.astype(np.float64) for value in (x, g1, wq, wk, wv, wo, g2, wg, wu, wd)),
    )
    n = x * np.power(np.vecdot(x, x)[..., None] / x.shape[-1] + eps, -0.5) * g1
    q, k, v = n @ wq / np.sqrt(wq.shape[1]), n @ wk, n @ wv
    top = np.vecdot(q, k[:, :1])  # [B, T]: the first key, which every query sees
    total, mix = np.ones_like(top), np.repeat(v[:, :1], x.shape[1], axis=1)
    for j in range(1, x.shape[1]):  # key j arrives, for the queries from j on
        score = np.vecdot(q[:, j:], k[:, j : j + 1])
        higher = np.maximum(top[:, j:], score)
        shrink, weight = np.exp(top[:, j:] - higher), np.exp(score - higher)
        top[:, j:] = higher
        total[:, j:] = total[:, j:] * shrink + weight
        mix[:, j:] = mix[:, j:] * shrink[..., None] + weight[..., None] * v[:, j : j + 1]
    u = x + (mix / total[..., None]) @ wo
    n = u * np.power(np.vecdot(u, u)[..., None] / u.shape[-1] + eps, -0.5) * g2
    gate = n @ wg
    return (u + (gate * sigmoid(gate) * (n @ wu)) @ wd).astype(dtype)


# A `functools.partial`: a streaming softmax, one key after the other with a running maximum, in float64 throughout.
repair_streaming = functools.partial(_streaming_block, 1e-5)


# gradcheck-block


def gradcheck_recursive(forward, dx, grads, x, params, upstream):
    """Recursion over the trees, and `np.nditer` that nudges own float64 copies where they lie."""

    def own(tree):
        if isinstance(tree, dict):
            return {key: own(value) for key, value in tree.items()}
        return np.array(tree, dtype=np.float64)

    def leaves(tree, prefix=""):
        for key, value in tree.items():
            if isinstance(value, dict):
                yield from leaves(value, f"{prefix}{key}.")
            else:
                yield prefix + key, value

    def run():
        return forward(mine["x"], {key: value for key, value in mine.items() if key != "x"})

    mine, claims, weights = own({"x": x} | params), dict(leaves(own({"x": dx} | grads))), own(upstream)
    wrong, h = set(), 1e-5
    for name, leaf in leaves(mine):
        slopes = np.zeros_like(leaf)
        for entry, slope in np.nditer([leaf, slopes], op_flags=[["readwrite"], ["readwrite"]]):
            kept = float(entry)
            entry[...] = kept + h
            up = run()
            entry[...] = kept - h
            down = run()
            entry[...] = kept
            slope[...] = np.sum((up - down) * weights) / (2 * h)
        if not (abs(claims[name] - slopes) <= 1e-4 * abs(slopes).max()).all():
            wrong.add(name)
    return ", ".join(sorted(wrong))


def gradcheck_one_vector(forward, dx, grads, x, params, upstream, h=3e-6):
    """One long vector: everything is ravelled, differentiated along each unit vector, and nothing is ever changed."""
    paths = [("x",)] + [(part, leaf) for part in params for leaf in params[part]]

    def pick(first, tree):
        arrays = (first if path == ("x",) else functools.reduce(operator.getitem, path, tree) for path in paths)
        return [np.asarray(value, dtype=np.float64) for value in arrays]

    start = pick(x, params)
    cuts = np.cumsum([value.size for value in start])[:-1]

    def out(theta):
        first, *rest = (piece.reshape(value.shape) for piece, value in zip(np.split(theta, cuts), start))
        tree = {part: {} for part in params}
        for (part, leaf), value in zip(paths[1:], rest):
            tree[part][leaf] = value
        return forward(first, tree).ravel()

    theta, weights = np.concatenate([value.ravel() for value in start]), upstream.ravel().astype(np.float64)
    slopes = np.fromiter(
        (weights @ (out(theta + step) - out(theta - step)) / (2 * h) for step in h * np.eye(theta.size)), dtype=float
    )
    verdicts = {
        ".".join(path): np.allclose(claim.ravel(), true, rtol=0, atol=1e-4 * np.linalg.norm(true, ord=np.inf))
        for path, claim, true in zip(paths, pick(dx, grads), np.split(slopes, cuts))
    }
    return ", ".join(sorted(name for name, fine in verdicts.items() if not fine))


@dataclass
class Inspector:
    """A gradient check as an object: four runs for each slope, and all sequences of a batch nudged at once."""

    forward: Callable
    x: np.ndarray
    params: dict
    upstream: np.ndarray
    step: float = 1e-4

    def slope(self, run):
        """Σ over T and D of (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h, one number for each sequence."""
        near, far = (run(n * self.step) - run(-n * self.step) for n in (1, 2))
        return np.einsum("btd,btd->b", 8 * near - far, self.upstream) / (12 * self.step)

    def of_x(self):
        """Sequences do not hear each other, so entry [:, t, d] takes one slope for all of them."""
        true = np.empty_like(self.x)
        for t, d in np.ndindex(*self.x.shape[1:]):
            unit = np.zeros_like(self.x)
            unit[:, t, d] = 1
            true[:, t, d] = self.slope(lambda h, unit=unit: self.forward(self.x + h * unit, self.params))
        return true

    def of_leaf(self, part, leaf):
        """A weight is shared by all sequences, so their slopes add up."""
        value = self.params[part][leaf]
        true = np.empty(value.shape)
        for at in np.ndindex(*value.shape):

            def run(h, at=at):
                nudged = value.copy()
                nudged[at] += h
                return self.forward(self.x, self.params | {part: self.params[part] | {leaf: nudged}})

            true[at] = self.slope(run).sum()
        return true


def gradcheck_inspector(forward, dx, grads, x, params, upstream):
    """A dataclass with methods, five-point differences, and a tree that is replaced and not changed."""
    wide = {part: {leaf: np.float64(value) for leaf, value in leaves.items()} for part, leaves in params.items()}
    inspector = Inspector(forward, np.float64(x), wide, np.float64(upstream))
    found = {"x": (np.float64(dx), inspector.of_x())}
    for part, leaf in ((part, leaf) for part, leaves in wide.items() for leaf in leaves):
        found[f"{part}.{leaf}"] = np.float64(grads[part][leaf]), inspector.of_leaf(part, leaf)
    bad = filter(
        lambda name: not np.abs(np.subtract(*found[name])).max() <= np.abs(found[name][1]).max() / 10_000, found
    )
    return str.join(", ", sorted(bad))


# tied-gradient


def tied_sorted_runs(dx, ids, h, dlogits):
    """Databases: sort by id, and `np.add.reduceat` sums each run of equal ids."""
    order = np.argsort(ids, axis=None, kind="stable")
    words, starts = np.unique(ids.ravel()[order], return_index=True)
    dtable = np.einsum("btv,btd->vd", dlogits, h, optimize=True)
    dtable[words] += np.add.reduceat(dx.reshape(-1, dx.shape[-1])[order], starts, axis=0)
    return dtable


def tied_histograms(dx, ids, h, dlogits):
    """Histograms: a `np.bincount` with weights for each feature, summed in float64, and `np.tensordot` for the head."""
    words, V = ids.ravel().astype(np.intp), dlogits.shape[-1]
    columns = [np.bincount(words, weights=feature, minlength=V) for feature in dx.reshape(words.size, -1).T]
    return (np.stack(columns, axis=1) + np.tensordot(dlogits, h, axes=([0, 1], [0, 1]))).astype(dx.dtype)


def tied_groups(dx, ids, h, dlogits):
    """`itertools.groupby` gathers each word's tokens; the library's `linear_backward` gives the head, transposed."""
    V, D = dlogits.shape[-1], h.shape[-1]
    _, dhead = linear_backward(dlogits, (h, np.zeros((D, V), dtype=h.dtype), False))
    dtable = dhead.T  # a view, [V, D]
    read = sorted(zip(ids.ravel().tolist(), itertools.product(*map(range, ids.shape))))
    for word, tokens in itertools.groupby(read, key=operator.itemgetter(0)):
        dtable[word] += sum(dx[at] for _, at in tokens)
    return dtable


# cached-attention


@dataclass
class Cache:
    """Keys and values of the past."""

    keys: np.ndarray
    values: np.ndarray

    def __len__(self):
        return self.keys.shape[2]

    def grown(self, key, value):
        """A longer cache, in memory of its own."""
        longer = []
        for old, new in ((self.keys, key), (self.values, value)):
            B, K, t, Dh = old.shape
            room = np.empty((B, K, t + 1, Dh), dtype=new.dtype)
            room[:, :, :t], room[:, :, t:] = old, new
            longer.append(room)
        return Cache(*longer)


def cached_dataclass(q, k, v, keys, values, cos, sin):
    """A cache object that grows, helpers at module level, and index loops over the query heads."""
    cache = Cache(keys, values)
    now = cos[len(cache)].astype(q.dtype), sin[len(cache)].astype(q.dtype)
    cache = cache.grown(rotate(k, *now), v)
    turned, out = rotate(q, *now), np.empty_like(q)
    B, H, _, Dh = q.shape
    for b in range(B):
        for h in range(H):
            g = h // (H // k.shape[1])
            np.matmul(softmax(cache.keys[b, g] @ turned[b, h, 0] / math.sqrt(Dh)), cache.values[b, g], out=out[b, h, 0])
    return out, cache.keys, cache.values


def cached_library(q, k, v, keys, values, cos, sin):
    """The library's `rope_forward` with one row of the table, its `softmax_forward`, and `np.append`."""
    t = keys.shape[2]
    here = cos[t : t + 1], sin[t : t + 1]
    (q, _), (k, _) = rope_forward(q, *here), rope_forward(k, *here)
    new_keys, new_values = np.append(keys, k, axis=2), np.append(values, v, axis=2)
    size = q.shape[1] // k.shape[1]
    p, _ = softmax_forward(q @ np.repeat(new_keys, size, axis=1).swapaxes(2, 3) / q.shape[-1] ** 0.5)
    return p @ np.repeat(new_values, size, axis=1), new_keys, new_values


def cached_divide_and_conquer(q, k, v, keys, values, cos, sin):
    """Recursion: the answers of two halves of the cache merge, each with its own maximum and its own total."""
    (B, H, _, Dh), K, t = q.shape, k.shape[1], keys.shape[2]
    angle = cos[t].astype(np.float64) + 1j * sin[t]

    def turn(z):
        turned = np.ascontiguousarray((z[..., 0::2] + 1j * z[..., 1::2]) * angle)
        return turned.view(np.float64)

    asked = turn(q).reshape(B, K, H // K, Dh) / math.sqrt(Dh)
    new_keys = np.concatenate((keys, turn(k).astype(q.dtype)), axis=2)
    new_values = np.concatenate((values, v), axis=2)

    def answer(first, last):
        if first == last:
            score = np.einsum("bkgd,bkd->bkg", asked, new_keys[:, :, first])[..., None]
            return score, np.ones_like(score), new_values[:, :, None, first]
        middle = (first + last) // 2
        halves = answer(first, middle), answer(middle + 1, last)
        top = np.maximum(halves[0][0], halves[1][0])
        (a, na, va), (b, nb, vb) = ((np.exp(m - top), total, mix) for m, total, mix in halves)
        return top, a * na + b * nb, a * va + b * vb

    _, total, mix = answer(0, t)
    return (mix / total).reshape(q.shape).astype(q.dtype), new_keys, new_values


# residual-backward


def residual_tape(dy, x, a, f):
    """A tape of lambdas: the forward pushes one for each branch, and the backward pops them."""
    da, df, tape, h = np.zeros(a.shape, x.dtype), np.zeros(f.shape, x.dtype), [], x
    for branches in zip(zip(a, da), zip(f, df)):
        for w, dw in branches:
            tape.append(
                lambda g, h=h, w=w, dw=dw: (
                    np.copyto(dw, h.reshape(-1, h.shape[-1]).T @ g.reshape(-1, g.shape[-1])) or g + g @ w.T
                )
            )
            h = h + h @ w
    g = dy.astype(x.dtype)
    while tape:
        g = tape.pop()(g)
    return g, da, df


def residual_matrices(dy, x, a, f):
    """Linear algebra: the stack is one matrix, so the tokens come in once, as xᵀ dy, between the products beside it."""
    D = x.shape[-1]
    steps = np.stack((a, f), axis=1).reshape(-1, D, D) + np.eye(D)
    before = itertools.accumulate(steps, np.matmul, initial=np.eye(D))
    after = [*itertools.accumulate(steps[::-1], lambda tail, step: step @ tail, initial=np.eye(D))][::-1]
    both = np.tensordot(x.astype(np.float64), dy, axes=((0, 1), (0, 1)))
    grads = np.reshape([head.T @ both @ tail.T for head, tail in zip(before, after[1:])], steps.shape).astype(x.dtype)
    return (dy @ after[0].T).astype(x.dtype), grads[0::2].copy(), grads[1::2].copy()


class StackGradients(NamedTuple):
    """What the exercise wants, by name."""

    dx: np.ndarray
    da: np.ndarray
    df: np.ndarray


def branch(x, w):
    """A coroutine: it yields its output, is sent that output's gradient, and yields those of x and w."""
    g = yield x + np.einsum("btd,de->bte", x, w, optimize=True)
    yield g + np.einsum("bte,de->btd", g, w, optimize=True), np.einsum("btd,bte->de", x, g, optimize=True)


def residual_coroutines(dy, x, a, f):
    """Coroutines: each branch sleeps, with its input, until its gradient is sent; the recursion is the stack."""

    def through(h, weights):
        if not weights:
            return np.array(dy, dtype=x.dtype), []
        sleeper = branch(h, weights[0])
        g, later = through(next(sleeper), weights[1:])
        g, dw = sleeper.send(g)
        return g, [dw, *later]

    dx, grads = through(x, [w for pair in zip(a, f) for w in pair])
    return StackGradients(dx, *(np.array(grads[k::2], dtype=x.dtype).reshape(a.shape) for k in range(2)))


def residual_one_product(dy, x, a, f):
    """High performance: 2L branches in one buffer, one batched product at the end; da and df are every other matrix.

    dx is column-major, and da and df are views into one array, which nobody else has.
    """
    L, D, _ = a.shape
    weights, N = np.empty((2 * L, D, D), dtype=x.dtype), math.prod(x.shape[:-1])
    weights[0::2], weights[1::2] = a, f
    heard, told = np.empty((2, 2 * L, N, D), dtype=x.dtype)
    h, g = x.reshape(N, D).copy(), dy.reshape(N, D).astype(x.dtype)
    for k in range(2 * L):
        heard[k] = h
        h += heard[k] @ weights[k]
    for k in range(2 * L)[::-1]:
        told[k] = g
        g += told[k] @ weights[k].T
    grads = heard.transpose(0, 2, 1) @ told
    return np.asfortranarray(g.reshape(x.shape)), grads[::2], grads[1::2]


# cross-entropy-backward


def entropy_log_softmax(dloss, logits, targets):
    """Log-softmax by `np.logaddexp.reduce` in float64, and `np.subtract.at` for the targets."""
    wide = logits.astype(np.float64)
    dlogits = np.exp(wide - np.logaddexp.reduce(wide, axis=-1, keepdims=True))
    counted = np.nonzero(targets != -100)
    np.subtract.at(dlogits, (*counted, targets[counted].astype(np.intp)), 1)
    dlogits[targets == -100] = 0
    return (dlogits * (dloss / max(len(counted[0]), 1))).astype(logits.dtype)


def entropy_masked_array(dloss, logits, targets):
    """Masked arrays: rows that do not count are masked, and filled with zeros at the very end."""
    ignored = np.repeat((targets == -100)[..., np.newaxis], logits.shape[-1], axis=-1)
    z = np.ma.masked_array(logits, mask=ignored)
    e = np.ma.exp(z - z.max(axis=-1, keepdims=True))
    hot = np.arange(logits.shape[-1]) == targets[..., np.newaxis]
    slope = (e / e.sum(axis=-1, keepdims=True) - hot) * dloss / max(int(z[..., 0].count()), 1)
    return np.ma.filled(slope, 0).astype(logits.dtype)


def tournament(z):
    """log Σ exp over the last axis [..., 1], by pairs as in a tournament, and its gradient, back through the pairs."""
    half = z.shape[-1] // 2
    if half == 0:
        return z, np.ones_like(z)
    first, second, spare = np.split(z, (half, 2 * half), axis=-1)
    pairs = np.logaddexp(first, second)
    total, g = tournament(np.concatenate((pairs, spare), axis=-1))
    g, kept = np.split(g, (half,), axis=-1)
    return total, np.concatenate((g * np.exp(first - pairs), g * np.exp(second - pairs), kept), axis=-1)


def entropy_tournament(dloss, logits, targets):
    """Divide and conquer: the softmax is not written down; it comes out as the gradient of a tree of log-additions."""
    counts = targets != -100
    _, slope = tournament(logits.astype(np.float64))
    at = np.where(counts, targets, 0).astype(np.int64)[..., None]
    np.put_along_axis(slope, at, np.take_along_axis(slope, at, axis=-1) - 1, axis=-1)
    weights = counts / np.float64(counts.sum() or 1)
    return np.multiply(slope, dloss * weights[..., None]).astype(logits.dtype)


@dataclass(frozen=True)
class Position:
    """A position that counts: where it is, what the model says there, what comes next."""

    at: tuple
    logits: np.ndarray
    target: int

    def jacobian_row(self):
        """One-hot times the Jacobian of −log p, at the target."""
        p, _ = softmax_forward(self.logits)
        p[self.target] = -(np.sum(p[: self.target]) + np.sum(p[self.target + 1 :]))  # p − 1, without cancellation
        return p


def positions(logits, targets) -> Iterator[Position]:
    """Those that count, one after the other."""
    for at in np.ndindex(targets.shape):
        if (target := int(targets[at])) != -100:
            yield Position(at, logits[at], target)


def entropy_positions(dloss, logits, targets):
    """A generator of frozen dataclasses, one row at a time with the library's softmax, into a column-major array."""
    dlogits = np.zeros(logits.shape, dtype=logits.dtype, order="F")
    counted = tuple(positions(logits, targets))
    for position in counted:
        dlogits[position.at] = position.jacobian_row() * (dloss / len(counted))
    return dlogits


RIGHT = [
    ("softmax-backward", softmax_fortran),
    ("softmax-backward", softmax_jacobian),
    ("softmax-backward", softmax_dual),
    ("softmax-backward", softmax_lambdas),
    ("attention-weights", weights_c),
    ("attention-weights", weights_log_sum_exp),
    ("attention-weights", weights_masked_array),
    ("rope", rope_complex),
    ("rope", rope_kronecker),
    ("rope", rope_feature_major),
    ("gqa-backward", gqa_linear_pair),
    ("gqa-backward", gqa_reduceat),
    ("gqa-backward", gqa_membership),
    ("swiglu-backward", swiglu_tape),
    ("swiglu-backward", swiglu_fused),
    ("swiglu-backward", OneTokenAtATime()),
    ("swiglu-backward", swiglu_silences_numpy),
    ("rmsnorm-backward", rmsnorm_long_double),
    ("rmsnorm-backward", rmsnorm_lists),
    ("rmsnorm-backward", rmsnorm_matrix),
    ("count-block", count_dataclass),
    ("count-block", count_sizes),
    ("count-block", count_walrus),
    ("repair-block", repair_prefixes),
    ("repair-block", repair_module),
    ("repair-block", repair_streaming),
    ("gradcheck-block", gradcheck_recursive),
    ("gradcheck-block", gradcheck_one_vector),
    ("gradcheck-block", gradcheck_inspector),
    ("tied-gradient", tied_sorted_runs),
    ("tied-gradient", tied_histograms),
    ("tied-gradient", tied_groups),
    ("cached-attention", cached_dataclass),
    ("cached-attention", cached_library),
    ("cached-attention", cached_divide_and_conquer),
    ("residual-backward", residual_tape),
    ("residual-backward", residual_matrices),
    ("residual-backward", residual_coroutines),
    ("residual-backward", residual_one_product),
    ("cross-entropy-backward", entropy_log_softmax),
    ("cross-entropy-backward", entropy_masked_array),
    ("cross-entropy-backward", entropy_tournament),
    ("cross-entropy-backward", entropy_positions),
]
