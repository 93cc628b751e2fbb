"""Exercise gradcheck-block: tell the right gradients of a one-layer block from the wrong ones."""

import copy
import functools
import math
from dataclasses import dataclass

import numpy as np

from exercises.spec import Code
from scratch import block, gradcheck, model, rope

TOLERANCE = 1e-4  # of the largest entry of a gradient; the wrong ones are off by 20 times that, and more


@dataclass
class Forward:
    """The block that an answer is given: called with x and params it returns out.

    It computes in float64 whatever comes in: what float32 spoils then is the answer's own doing. It is called a
    thousand times in a check, so it is written without the library's checks of every shape. (A class, because the
    functions of this file are closed while an answer runs.)
    """

    config: model.Config
    table: tuple

    @functools.cached_property
    def turn(self):
        """The table as complex numbers, [T, Dh/2]."""
        return self.table[0] + 1j * self.table[1]

    @functools.cached_property
    def visible(self):
        """1 where query i sees key j, else 0; [T, T]."""
        return np.tri(self.config.max_seq)

    @staticmethod
    def wide(*arrays):
        """The arrays in float64; complex numbers are refused."""
        return [
            a if getattr(a, "dtype", None) == np.float64 else np.asarray(a).astype(np.float64, casting="same_kind")
            for a in arrays
        ]

    def __call__(self, x, params):
        def norm(a, g):
            return a / np.sqrt(np.vecdot(a, a)[..., None] / a.shape[-1] + self.config.eps) * g

        def turned(a, heads):
            pairs = a.reshape(B, T, heads, -1).swapaxes(1, 2).copy().view(complex)  # interleaved: (2i, 2i+1)
            return (pairs * self.turn[:T]).view(float)

        (B, T, _), c, attn, ffn = np.shape(x), self.config, params["attn"], params["ffn"]
        x, g1, g2 = self.wide(x, params["norm1"]["g"], params["norm2"]["g"])
        wq, wk, wv, wo = self.wide(attn["wq"], attn["wk"], attn["wv"], attn["wo"])
        wg, wu, wd = self.wide(ffn["wg"], ffn["wu"], ffn["wd"])
        n = norm(x, g1)
        q, k = turned(n @ wq, c.n_heads), turned(n @ wk, c.n_kv_heads)  # [B, H or K, T, Dh]
        v = (n @ wv).reshape(B, T, c.n_kv_heads, -1).swapaxes(1, 2)
        grouped = q.reshape(B, c.n_kv_heads, -1, T, q.shape[-1])  # [B, K, H/K, T, Dh]
        scores = grouped @ k[:, :, None].swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * self.visible[:T, :T]
        heads = (e @ v[:, :, None] / e.sum(axis=-1, keepdims=True)).reshape(q.shape)
        u = x + heads.swapaxes(1, 2).reshape(B, T, -1) @ wo
        n = norm(u, g2)
        gate = n @ wg
        return u + gate / (1 + np.exp(-gate)) * (n @ wu) @ wd


def _gradients(forward, x, params, upstream):
    """The right gradients by name, from the library's backward."""
    _, cache = block.block_forward(x, params, forward.config, rope=forward.table)
    return _by_name(*block.block_backward(upstream, cache))


def _by_name(dx, grads):
    """{"x": dx, "attn.wk": …}, the leaves in sorted order."""
    return {"x": dx, **dict(gradcheck.leaves(grads))}


def _report(wrong):
    return str.join(", ", sorted(wrong))


def reference(forward, dx, grads, x, params, upstream):
    """dx, x, upstream [B, T, D]; grads, params a block's trees. Returns the names of the wrong ones, sorted."""
    claimed = _by_name(dx, grads)
    right = _gradients(forward, x, params, upstream)
    return _report(n for n, g in right.items() if np.abs(claimed[n] - g).max() > TOLERANCE * np.abs(g).max())


# ---- cases ----


def _draw(rng, B, T, D, H, K, Dh, F, simple=False):
    """A forward, x, params, upstream and the right gradients, drawn again until all of these are large enough to be
    measured, and no row that is normalized is short: there the loss would bend within a step that serves elsewhere.

    All are float32 numbers held in float64. So nothing moves when the checker makes float32 of them, and the right
    gradients stay right to its 7 digits. Simple ones are quarters, under an upstream of 1.
    """
    config = model.Config(vocab_size=2, d_model=D, n_layers=1, n_heads=H, n_kv_heads=K, d_head=Dh, d_ff=F, max_seq=T)
    forward = Forward(config, rope.rope_table(T, Dh))
    empty = model.init_params(config, dtype=np.float64)["blocks"][0]

    def numbers(shape):
        if shape == (D,):
            return _single(rng.uniform(0.5, 1.5, D))  # a gain
        a = rng.standard_normal(shape)
        return np.round(4 * a) / 4 if simple else _single(a)

    while True:
        x, seen = numbers((B, T, D)), {}
        if _shortest(x) < 0.5:
            continue
        params = {part: {name: numbers(w.shape) for name, w in tree.items()} for part, tree in empty.items()}
        out, cache = block.block_forward(x, params, config, rope=forward.table, watch=seen.update)
        if _shortest(x + seen["attn"]) < 0.5:
            continue
        upstream = np.ones((B, T, D)) if simple else numbers((B, T, D))
        right = _by_name(*block.block_backward(upstream, cache))
        if min(_largest(g) for g in right.values()) > 1e-2 * np.abs(out * upstream).sum():
            return forward, x, params, upstream, right


def _shortest(rows):
    """The smallest root-mean-square of a row."""
    return np.sqrt((rows * rows).mean(axis=-1).min())


def _largest(a):
    return np.abs(a).max()


def _single(a):
    """a, rounded to float32 and held in float64."""
    return np.asarray(a).astype(np.float32).astype(np.float64)


def _plant(drawn, **changes):
    """A case with some gradients changed, by functions of the right ones: x=np.negative. None if hardly changed."""
    forward, x, params, upstream, right = drawn
    claimed = {name: changes.get(name.replace(".", "_"), np.copy)(g) for name, g in right.items()}
    for name, g in right.items():
        if name.replace(".", "_") in changes and _largest(claimed[name] - g) < 20 * TOLERANCE * _largest(g):
            return None
    grads = {part: {leaf: claimed[f"{part}.{leaf}"] for leaf in tree} for part, tree in params.items()}
    return forward, claimed["x"], grads, x, params, upstream


def _one_entry(rng, by):
    """One entry, not the first, off by this much of the largest."""

    def change(g):
        g = g.copy()
        g.flat[rng.integers(1, g.size)] += by * _largest(g)
        return g

    return change


def _until(make):
    """The first case that is one."""
    while True:
        case = make()
        if case is not None:
            return case


def cases(rng):
    """One mistake that a check may overlook in each; all right in the first, where the upstream is 1 throughout."""
    yield _plant(_draw(rng, 1, 2, 2, 1, 1, 2, 1, simple=True))
    yield _plant(_draw(rng, 1, 2, 2, 1, 1, 2, 1), attn_wk=np.zeros_like)
    yield _until(lambda: _straight_road_forgotten(_draw(rng, 1, 3, 2, 1, 1, 2, 1)))
    yield _plant(_draw(rng, 1, 2, 3, 1, 1, 2, 1), ffn_wd=np.negative, norm1_g=lambda g: 1.01 * g)
    # a single entry off by 1%, a factor of 2, and a mean over the 6 outputs where a sum belongs
    drawn = _draw(rng, 1, 2, 3, 1, 1, 2, 1)
    yield _plant(drawn, attn_wv=_one_entry(rng, 0.01), attn_wo=lambda g: 2 * g, ffn_wg=lambda g: g / 6)
    yield _plant(_scaled(_draw(rng, 1, 2, 3, 1, 1, 2, 1), 2.0**-33), norm2_g=lambda g: 1.5 * g)
    yield _until(lambda: _small(_draw(rng, 1, 2, 3, 1, 1, 2, 1)))
    yield _until(lambda: _one_small_leaf(_draw(rng, 1, 2, 3, 1, 1, 2, 2)))
    last = _of_size(_draw(rng, 2, 2, 3, 2, 1, 2, 2), "x", 1.0)
    yield _plant(last, attn_wk=lambda g: 0.98 * g, norm1_g=np.zeros_like, x=_one_entry(rng, 0.2))
    # one entry of each matrix: whoever tries some of them misses one
    matrices = ("attn_wq", "attn_wk", "attn_wv", "attn_wo", "ffn_wg", "ffn_wu", "ffn_wd")
    yield _plant(_draw(rng, 2, 2, 4, 2, 2, 2, 4), **{name: _one_entry(rng, 0.05) for name in matrices})


def _straight_road_forgotten(drawn):
    """The residual's own term is missing in dx; and a square matrix is transposed, which keeps its sum and length."""
    upstream = drawn[3]
    return _plant(drawn, x=lambda dx: dx - upstream, attn_wq=lambda g: g.T.copy())


def _scaled(drawn, factor):
    """With an upstream, and so with gradients, `factor` times as large; a power of 2 changes no digit."""
    *others, upstream, right = drawn
    return *others, factor * upstream, {name: factor * g for name, g in right.items()}


def _of_size(drawn, name, size):
    """Scaled so that the largest entry of this gradient is about `size`."""
    return _scaled(drawn, 2.0 ** round(np.log2(size / _largest(drawn[-1][name]))))


def _small(drawn):
    """Gradients of about 1e-5: one is off by about 2e-5, another by 2e-7, which is 1% of it."""
    drawn = _of_size(drawn, "attn.wv", 2e-5)
    part = 2e-7 / _largest(drawn[-1]["ffn.wu"])
    if not 0.004 < part < 0.05:
        return None
    return _plant(drawn, attn_wv=np.zeros_like, ffn_wu=lambda g: g * (1 + part))


def _one_small_leaf(drawn):
    """wq's gradient is about 4e-4 of the others, and 12% off; a row of wd's is 1e-9 of the rest, and right. wk is so
    small that even float32 takes a step of 1e-5 there."""
    forward, x, params, upstream, right = drawn
    by = 4e-4 * max(map(_largest, right.values())) / _largest(right["attn.wq"])
    if by > 1 / 300:
        return None
    params["attn"]["wk"] = _single(params["attn"]["wk"] * by)
    params["ffn"]["wu"][:, 0] = _single(params["ffn"]["wu"][:, 0] * 1e-9)
    right = _gradients(forward, x, params, upstream)
    sizes = {name: _largest(g) for name, g in right.items()}
    share = sizes.pop("attn.wq") / max(sizes.values())
    if not 2.5e-4 < share < 6e-4 or min(sizes.values()) < 1e-2 * max(sizes.values()):
        return None
    return _plant(_of_size((forward, x, params, upstream, right), "attn.wq", 3e-4), attn_wq=lambda g: 0.88 * g)


# ---- wrong answers; each docstring is what its author will read ----


def _differences(forward, x, params, upstream, h=1e-5, one_sided=False, dtype=np.float64):
    """Numerical gradients by name, of arrays held in this dtype. Remembered: nearly all answers below ask the same."""
    arrays = _by_name(x, params)
    key = (forward.config, h, one_sided, dtype, upstream.tobytes(), *(a.tobytes() for a in arrays.values()))
    if key not in _remembered:
        if len(_remembered) > 2000:
            _remembered.clear()
        x, tree = x.astype(dtype), {part: {n: w.astype(dtype) for n, w in ws.items()} for part, ws in params.items()}
        numeric = {
            n: _slopes(forward, x, tree, array, upstream, h, one_sided) for n, array in _by_name(x, tree).items()
        }
        _remembered[key] = numeric
    return _remembered[key]


_remembered = {}


def _slopes(forward, x, params, array, upstream, h, one_sided):
    """The slope at each entry of one array, x or a leaf of params."""
    slopes = np.empty(array.shape)
    for index in np.ndindex(array.shape):
        kept, values = array[index], []
        for nudged in (kept + h, kept if one_sided else kept - h):
            array[index] = nudged
            values.append(np.sum(forward(x, params) * upstream))
        array[index] = kept
        slopes[index] = (values[0] - values[1]) / (h if one_sided else 2 * h)
    return slopes


def _off(claimed, numeric, tolerance=TOLERANCE):
    """The names of the gradients that are off, by the prompt's rule."""
    return [n for n, g in numeric.items() if np.abs(claimed[n] - g).max() > tolerance * np.abs(g).max()]


def always_fine(forward, dx, grads, x, params, upstream):
    """You call every gradient right. Plant a mistake in one of them, and see whether your check can fail."""
    return _report([])


def only_x(forward, dx, grads, x, params, upstream):
    """You check dx alone. Every array in params has a gradient of its own."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    return _report(n for n in wrong if n == "x")


def only_params(forward, dx, grads, x, params, upstream):
    """You check the parameters and leave dx out. It is what the block below would receive."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    return _report(n for n in wrong if n != "x")


def gains_skipped(forward, dx, grads, x, params, upstream):
    """You never name a gain: "norm1.g" and "norm2.g" have gradients too, of one axis."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    return _report(n for n in wrong if not n.endswith(".g"))


def first_entry_only(forward, dx, grads, x, params, upstream):
    """You compare the first entry of each array. A gradient can be right there and wrong in any other place."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    return _report(n for n, g in numeric.items() if abs(claimed[n].flat[0] - g.flat[0]) > TOLERANCE * np.abs(g).max())


def only_lengths(forward, dx, grads, x, params, upstream):
    """You compare the lengths (norms) of two gradients. A wrong sign or a transposed matrix has the same length:
    compare entry by entry."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    lengths = {n: (np.linalg.norm(claimed[n]), np.linalg.norm(g)) for n, g in numeric.items()}
    return _report(n for n, (one, two) in lengths.items() if abs(one - two) > TOLERANCE * two)


def only_sums(forward, dx, grads, x, params, upstream):
    """You compare one number for each array: its sum, which is what nudging all its entries at once measures. A
    transposed gradient has the same sum."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    return _report(
        n for n, g in numeric.items() if abs(claimed[n].sum(dtype=float) - g.sum()) > TOLERANCE * np.abs(g).max()
    )


def upstream_ignored(forward, dx, grads, x, params, upstream):
    """Your loss is the plain sum of out. The gradients belong to Σ out ⊙ upstream; the two agree only where upstream
    is 1."""
    return _report(_off(_by_name(dx, grads), _differences(forward, x, params, np.ones_like(upstream))))


def mean_for_sum(forward, dx, grads, x, params, upstream):
    """Every array is called wrong, the right ones too. Is your loss the sum of out ⊙ upstream, not the mean? Is each
    entry put back after its step? Compare your slope of one entry with the claim by hand."""
    numeric = _differences(forward, x, params, upstream)
    return _report(_off(_by_name(dx, grads), {n: g / x.size for n, g in numeric.items()}))


def divided_by_h(forward, dx, grads, x, params, upstream):
    """Your slopes are twice too large: from w − h to w + h it is 2h."""
    numeric = _differences(forward, x, params, upstream)
    return _report(_off(_by_name(dx, grads), {n: 2 * g for n, g in numeric.items()}))


def wrong_way_round(forward, dx, grads, x, params, upstream):
    """Your slopes have the wrong sign: it is the loss at w + h minus the loss at w − h."""
    numeric = _differences(forward, x, params, upstream)
    return _report(_off(_by_name(dx, grads), {n: -g for n, g in numeric.items()}))


def absolute_loose(forward, dx, grads, x, params, upstream):
    """Your tolerance is absolute, about 1e-4. Where all gradients are that small, even zeros pass: measure the error
    in units of the array's largest entry."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    return _report(n for n, g in numeric.items() if np.abs(claimed[n] - g).max() > 1e-4)


def absolute_tight(forward, dx, grads, x, params, upstream):
    """Your tolerance is absolute, about 1e-6. Errors of 1% hide below it where gradients are near 1e-5: measure the
    error in units of the array's largest entry."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    return _report(n for n, g in numeric.items() if np.abs(claimed[n] - g).max() > 1e-6)


def allclose(forward, dx, grads, x, params, upstream):
    """You use np.allclose as it comes. Its `atol` of 1e-8 is absolute: it lets any gradient pass that is smaller than
    that."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    return _report(n for n, g in numeric.items() if not np.allclose(claimed[n], g))


def entry_by_entry(forward, dx, grads, x, params, upstream):
    """You divide each difference by its own entry. Where an entry is nearly zero that is the differences' rounding, and
    a right gradient looks wrong. Divide by the largest entry of the array."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    return _report(n for n, g in numeric.items() if (np.abs(claimed[n] - g) > TOLERANCE * np.abs(g)).any())


def one_scale_for_all(forward, dx, grads, x, params, upstream):
    """You measure all errors in units of the largest entry of all gradients. One small array can then be quite wrong:
    each has its own largest entry."""
    claimed, numeric = _by_name(dx, grads), _differences(forward, x, params, upstream)
    largest = max(np.abs(g).max() for g in numeric.values())
    return _report(n for n, g in numeric.items() if np.abs(claimed[n] - g).max() > TOLERANCE * largest)


def too_tolerant(forward, dx, grads, x, params, upstream):
    """Your tolerance is about 10%. An error of 1% trains worse and shows nowhere else."""
    return _report(_off(_by_name(dx, grads), _differences(forward, x, params, upstream), 0.1))


def too_strict(forward, dx, grads, x, params, upstream):
    """Your tolerance is finer than what central differences can tell: right gradients fail. The prompt's is 1e-4 of the
    largest entry."""
    return _report(_off(_by_name(dx, grads), _differences(forward, x, params, upstream), 1e-11))


def step_too_small(forward, dx, grads, x, params, upstream):
    """Your step is about 1e-12. The two losses then agree in nearly all of their 16 digits, and what is left is
    rounding."""
    return _report(_off(_by_name(dx, grads), _differences(forward, x, params, upstream, h=1e-12)))


def step_too_large(forward, dx, grads, x, params, upstream):
    """Your step is about 0.1. The loss bends over such a distance: the error of central differences grows with h²."""
    return _report(_off(_by_name(dx, grads), _differences(forward, x, params, upstream, h=0.1)))


def one_sided(forward, dx, grads, x, params, upstream):
    """You nudge to one side, with a step of about 1e-3. The error of that grows with h; with both sides, h², it would
    be far below the tolerance."""
    return _report(_off(_by_name(dx, grads), _differences(forward, x, params, upstream, h=1e-3, one_sided=True)))


def in_place(forward, dx, grads, x, params, upstream):
    """You nudge the caller's x and params, and `+= h`, `-= 2 * h`, `+= h` does not bring every entry back: rounding.
    Keep the old value, or work on a copy."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    for array in _by_name(x, params).values():
        for nudge in (1e-5, -2e-5, 1e-5):  # what the nudges leave behind, entry by entry or all at once
            array += nudge
    return _report(wrong)


def shallow_copy(forward, dx, grads, x, params, upstream):
    """Your copy of params shares its arrays with the caller's: `dict(params)` and `params.copy()` copy no array, and
    the nudges stay in it. Copy each leaf."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    for _, array in gradcheck.leaves(dict(params)):
        for nudge in (1e-5, -2e-5):
            array += nudge
    return _report(wrong)


def float64_forgotten(forward, dx, grads, x, params, upstream):
    """You nudge float32 numbers. A step of 1e-5 is rounded there to a multiple of about 1e-7, so the slope is 1% off.
    Convert x and params to float64 first."""
    return _report(_off(_by_name(dx, grads), _differences(forward, x, params, upstream, dtype=x.dtype)))


def without_path(forward, dx, grads, x, params, upstream):
    """You name a leaf without its path. There are two called "g": write "norm1.g"."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    return _report(n.rpartition(".")[2] for n in wrong)


def stops_at_the_first(forward, dx, grads, x, params, upstream):
    """You stop at the first wrong gradient. Several can be wrong at once: go through all of them, then return."""
    return sorted([*_off(_by_name(dx, grads), _differences(forward, x, params, upstream)), "~"])[0].strip("~")


def returns_in_the_loop(forward, dx, grads, x, params, upstream):
    """You return as soon as one gradient is wrong, here in the order x, then the tree's. Collect the names, and return
    after the loop."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    return next((n for n in _as_they_come(params) if n in wrong), "")


def x_first(forward, dx, grads, x, params, upstream):
    """The names are right, but not sorted: x stands before the others. `", ".join(sorted(names))` puts it last."""
    return ", ".join(_off(_by_name(dx, grads), _differences(forward, x, params, upstream)))


def as_they_come(forward, dx, grads, x, params, upstream):
    """The names are right, but in the order of the tree. Sort them, so that the answer does not depend on a dict's
    order."""
    wrong = _off(_by_name(dx, grads), _differences(forward, x, params, upstream))
    return ", ".join(n for n in _as_they_come(params) if n in wrong)


def _as_they_come(params):
    return ["x", *(f"{part}.{leaf}" for part, leaves in params.items() for leaf in leaves)]


def no_space(forward, dx, grads, x, params, upstream):
    """The names are right, but joined by a comma alone; the prompt asks for a comma and a space."""
    return ",".join(sorted(_off(_by_name(dx, grads), _differences(forward, x, params, upstream))))


# ---- right answers, written otherwise ----


def copies(forward, dx, grads, x, params, upstream):
    """Central differences, each from a whole copy of the arguments with one entry moved."""

    def loss(name, index, by):
        y, tree = x.astype(np.float64), {}
        for part in params:
            tree[part] = {leaf: params[part][leaf].astype(np.float64) for leaf in params[part]}
        part, _, leaf = name.rpartition(".")
        array = tree[part][leaf] if part else y
        array[index] += by
        return float((forward(y, tree) * upstream).sum())

    claims = {"x": dx}
    for part in grads:
        for leaf in grads[part]:
            claims[f"{part}.{leaf}"] = grads[part][leaf]
    wrong = []
    for name, claim in claims.items():
        slope = np.array([(loss(name, i, 1e-5) - loss(name, i, -1e-5)) / 2e-5 for i in np.ndindex(claim.shape)])
        if np.max(np.abs(slope - claim.ravel())) / np.max(np.abs(slope)) > 1e-4:
            wrong.append(name)
    return ", ".join(sorted(wrong))


def put_back(forward, dx, grads, x, params, upstream):
    """In place on a copy of its own, and every entry put back; the step follows the size of the array."""
    mine = {part: {leaf: np.array(w, dtype=np.float64) for leaf, w in tree.items()} for part, tree in params.items()}
    stream = np.array(x, dtype=np.float64)
    pairs = [("x", stream, dx)]
    pairs += [(f"{part}.{leaf}", w, grads[part][leaf]) for part, tree in mine.items() for leaf, w in tree.items()]
    wrong = set()
    for name, w, claim in pairs:
        h = 1e-6 * max(np.abs(w).max(), 1e-3)
        worst, largest = 0.0, 0.0
        flat, claim = w.reshape(-1), claim.reshape(-1)
        for i in range(w.size):
            old = flat[i]
            flat[i] = old + h
            high = np.vdot(forward(stream, mine), upstream)
            flat[i] = old - h
            low = np.vdot(forward(stream, mine), upstream)
            flat[i] = old
            slope = (high - low) / (2 * h)
            worst, largest = max(worst, abs(slope - claim[i])), max(largest, abs(slope))
        if worst > 1e-4 * largest:
            wrong.add(name)
    return ", ".join(sorted(wrong))


def fourth_order(forward, dx, grads, x, params, upstream):
    """Four points for each slope, so that the error shrinks with h⁴."""
    tree = {"x": x.astype(np.float64), "params": copy.deepcopy(params)}
    for part, leaves in tree["params"].items():
        tree["params"][part] = {leaf: w.astype(np.float64) for leaf, w in leaves.items()}
    wrong = []
    for name, w in _by_name(tree["x"], tree["params"]).items():
        slopes = np.zeros(w.shape)
        for index in np.ndindex(w.shape):
            kept = w[index]
            for k, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
                w[index] = kept + k * 1e-4
                slopes[index] += weight * np.sum(forward(tree["x"], tree["params"]) * upstream) / 12e-4
            w[index] = kept
        if np.abs(slopes - _by_name(dx, grads)[name]).max() > TOLERANCE * np.abs(slopes).max():
            wrong.append(name)
    return _report(wrong)


def one_side(forward, dx, grads, x, params, upstream):
    """To one side only, with a step so small that its error does not matter; one long vector holds all numbers."""
    names = ["x", *(f"{part}.{leaf}" for part in sorted(params) for leaf in sorted(params[part]))]
    arrays = [x, *(params[part][leaf] for part in sorted(params) for leaf in sorted(params[part]))]
    claims = [dx, *(grads[part][leaf] for part in sorted(params) for leaf in sorted(params[part]))]
    ends = np.cumsum([a.size for a in arrays])
    vector = np.concatenate([a.ravel() for a in arrays]).astype(np.float64)

    def loss(v):
        parts = [piece.reshape(a.shape) for piece, a in zip(np.split(v, ends[:-1]), arrays)]
        tree = {part: {} for part in params}
        for name, piece in zip(names[1:], parts[1:]):
            part, leaf = name.split(".")
            tree[part][leaf] = piece
        return np.sum(forward(parts[0], tree) * upstream)

    base, h = loss(vector), 1e-7
    slopes = np.array([(loss(vector + h * np.eye(1, vector.size, i)[0]) - base) / h for i in range(vector.size)])
    pieces = np.split(slopes, ends[:-1])
    return _report(
        n for n, s, c in zip(names, pieces, claims) if np.abs(s - c.ravel()).max() > TOLERANCE * np.abs(s).max()
    )


def directions(forward, dx, grads, x, params, upstream):
    """For each array the slope along a few directions of random signs: Σ gradient ⊙ direction."""
    signs = np.random.default_rng(7)
    start = {n: a.astype(np.float64) for n, a in _by_name(x, params).items()}

    def loss(moved):
        tree = {part: {leaf: moved[f"{part}.{leaf}"] for leaf in leaves} for part, leaves in params.items()}
        return np.sum(forward(moved["x"], tree) * upstream)

    wrong = []
    for name, claim in _by_name(dx, grads).items():
        errors = []
        for _ in range(4):
            v = signs.choice([-1.0, 1.0], claim.shape)
            ahead = loss(start | {name: start[name] + 1e-5 * v})
            slope = (ahead - loss(start | {name: start[name] - 1e-5 * v})) / 2e-5
            errors.append(abs(slope - np.sum(claim * v)))
        if max(errors) > TOLERANCE * np.abs(claim).max():
            wrong.append(name)
    return _report(wrong)


exercise = Code(
    id="gradcheck-block",
    title="Gradient-check a one-layer block",
    chapter="08_backward",
    answer="check_block",
    points=4,
    stars=3,
    minutes=45,
    args=("forward", "dx", "grads", "x", "params", "upstream"),
    returns=("wrong",),
    cases=cases,
    reference=reference,
    mutants=(
        always_fine,
        only_x,
        only_params,
        gains_skipped,
        first_entry_only,
        only_lengths,
        only_sums,
        upstream_ignored,
        mean_for_sum,
        divided_by_h,
        wrong_way_round,
        one_scale_for_all,
        absolute_loose,
        absolute_tight,
        allclose,
        entry_by_entry,
        too_tolerant,
        too_strict,
        step_too_small,
        step_too_large,
        one_sided,
        in_place,
        shallow_copy,
        float64_forgotten,
        without_path,
        stops_at_the_first,
        returns_in_the_loop,
        x_first,
        as_they_come,
        no_space,
    ),
    variants=(copies, put_back, fourth_order, one_side, directions),
    hints=(
        "Begin with one array, x. The loss is a function of it: `np.sum(forward(x, params) * upstream)`.\n"
        "Its slope at one entry needs two calls of forward, with that entry moved by +h and by −h.",
        "Copy first, and in float64: `x.astype(np.float64)`, and each leaf of params in the same way, in new dicts.\n"
        "The float32 numbers near 1 lie 1e-7 apart: a step of 1e-5 cannot be taken there.",
        "Keep the old value of an entry, set it to old + h, then to old − h, then to old again.\n"
        "h = 1e-5 leaves the bend (about h²) and the rounding (about 1e-16 / h) both far below 1e-4.",
        "A gradient is wrong when `np.abs(claim - slopes).max() > 1e-4 * np.abs(slopes).max()`.\n"
        "No fixed number may stand alone on the right: some gradients here are as small as 1e-10.",
        'One loop over (name, array, claim): first ("x", x, dx), then for each part and leaf\n'
        '(f"{part}.{leaf}", params[part][leaf], grads[part][leaf]), all arrays being your copies.\n'
        "For each, fill `slopes` over `np.ndindex(array.shape)`, compare, and collect the name.\n"
        'At the end `", ".join(sorted(names))`.',
    ),
    library=(
        "scratch.gradcheck.check_pair",
        "scratch.gradcheck.numerical_gradient",
        "scratch.gradcheck.directional_error",
        "scratch.gradcheck.relative_error",
        "scratch.block.block_backward",
        "scratch.block.pre_norm_backward",
        "scratch.block.named_backward",
    ),
    takeaway="A check is worth what it can catch: a random upstream, every entry, and an error measured in units of "
    "the array's own size.",
)
