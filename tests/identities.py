"""What must hold of each pair's gradients by mathematics alone: homogeneity, balance, symmetry, equal routes.

Every identity takes a row of `witnesses.ROWS` and returns a relative error. Most are Euler's: when the output is linear
in an argument a, ⟨a, da⟩ = ⟨dout, out⟩; what feeds only linear maps has ⟨a, da⟩ = Σ ⟨w, dw⟩ over those maps' weights.
"""

import numpy as np

from scratch import ffn, loss, ops, rope
from scratch.gradcheck import leaves, relative_error


def run(row):
    """(args, out, upstream, gradients as a tuple) of a row, with a random upstream."""
    args = row.args()
    out, cache = row.forward(*args)
    upstream = np.random.default_rng(5).standard_normal(np.shape(out))
    got = row.backward(upstream, cache)
    return args, out, upstream, got if isinstance(got, tuple) else (got,)


def inner(*pairs):
    return sum(float(np.sum(a * b)) for a, b in pairs)


def equal(*numbers):
    """The largest relative difference of the numbers from the first."""
    return max(relative_error(number, numbers[0]) for number in numbers[1:])


def vanishes(terms, axis):
    """How far the sums over `axis` are from 0, relative to the largest term; inf if all terms are zero."""
    scale = np.abs(terms).max()
    return float(np.abs(terms.sum(axis=axis)).max() / scale) if scale else np.inf


def same_trees(a, b):
    a, b = dict(leaves(a)), dict(leaves(b))
    assert a.keys() == b.keys()
    floor = 1e-6 * max(np.abs(value).max() for value in b.values())
    return max(relative_error(a[name], b[name], floor) for name in b)


def linear(row):
    args, out, dout, grads = run(row)
    if len(args) == 2:
        return equal(inner((dout, out)), inner((args[0], grads[0])), inner((args[1], grads[1])))
    product = inner((dout, out - args[2]))
    of_bias = inner((dout, np.broadcast_to(args[2], out.shape)))
    errors = [equal(product, inner((args[i], grads[i]))) for i in (0, 1)]
    return max(*errors, equal(of_bias, inner((args[2], grads[2]))))


def softmax(row):
    """A shift of a row changes nothing, so its gradient sums to 0; the Jacobian's trace is 1 − Σ p²."""
    (x,), p, _, (dx,) = run(row)
    trace = np.zeros(p.shape[:-1])
    for i in range(p.shape[-1]):
        upstream = np.zeros_like(p)
        upstream[..., i] = 1
        trace += row.backward(upstream, row.forward(x)[1])[..., i]
    return max(vanishes(dx, -1), relative_error(trace, 1 - np.sum(p**2, axis=-1)))


def gate(row):
    """out(x) − out(−x) = x for SiLU and GELU, so the slopes at x and −x add up to 1."""
    (x,), out, dout, (dx,) = run(row)
    mirrored, cache = row.forward(-x)
    return max(relative_error(out - mirrored, x), relative_error(dx + row.backward(dout, cache), dout))


def norm(row, eps, bias):
    """Linear in (g, b); a row's own size matters by eps alone: ⟨x, dx⟩ = eps · r² · ⟨dout, out − b⟩."""
    args, out, dout, grads = run(row)
    x = args[0] - args[0].mean(axis=-1, keepdims=True) if bias else args[0]
    shift = args[2] if bias else np.zeros_like(args[1])
    r2 = 1 / (np.mean(x**2, axis=-1) + eps)
    pull = np.sum(x * grads[0], axis=-1)
    errors = [
        relative_error(pull, eps * r2 * np.sum(dout * (out - shift), axis=-1)),
        equal(inner((dout, out)), inner(*zip(args[1:], grads[1:], strict=True))),
    ]
    return max(errors + ([vanishes(grads[0], -1)] if bias else []))


def embedding(row):
    (table,), out, dout, (dtable,) = run(row)
    return equal(inner((dout, out)), inner((table, dtable)))


def cross_entropy(row, with_targets, targets, classes):
    """Rows sum to 0; added up over every class as the target, a kept row's gradient is (V · softmax − 1) / kept."""
    (logits,), _, dout, (dlogits,) = run(row)
    kept, total = targets >= 0, 0
    for shift in range(classes):
        forward = with_targets(np.where(kept, (targets + shift) % classes, targets))
        total = total + row.backward(dout, forward(logits)[1])
    expected = dout * (classes * ops.softmax_forward(logits)[0] - 1) * kept[..., None] / kept.sum()
    return max(vanishes(dlogits, -1), relative_error(total, expected))


def chunked(row, targets):
    """The head and the whole cross-entropy, one after the other, give the same."""
    (h, w), out, dout, grads = run(row)
    logits, cache_head = ops.linear_forward(h, w)
    whole, cache = loss.cross_entropy_forward(logits, targets)
    expected = ops.linear_backward(loss.cross_entropy_backward(dout, cache), cache_head)
    return max(equal(whole, out), same_trees(list(grads), list(expected)))


def rotation(row):
    """The backward undoes the forward, because a rotation's transpose is its inverse; lengths stay."""
    (x,), out, dout, (dx,) = run(row)
    lengths = relative_error(np.linalg.norm(out, axis=-1), np.linalg.norm(x, axis=-1))
    return max(lengths, relative_error(row.backward(*row.forward(x)), x), equal(inner((dout, out)), inner((dx, x))))


def sdpa(row, causal, pad_mask):
    """Linear in v; one vector added to all keys changes nothing; the pull on q and on k is Cov_p(score, value)."""
    (q, k, v), out, dout, (dq, dk, dv) = run(row)
    H, K, T = q.shape[1], k.shape[1], q.shape[2]
    keys, values = np.repeat(k, H // K, axis=1), np.repeat(v, H // K, axis=1)
    score = np.einsum("bhid,bhjd->bhij", q, keys) / np.sqrt(q.shape[-1])
    worth = np.einsum("bhid,bhjd->bhij", dout, values)
    see = np.broadcast_to(np.tri(T, dtype=bool) if causal else np.ones((T, T), bool), score.shape)
    if pad_mask is not None:
        see = see & pad_mask[:, None, None, :]
    p = np.where(see, np.exp(score), 0)
    p = p / np.where(see.any(axis=-1, keepdims=True), p.sum(axis=-1, keepdims=True), 1)
    covariance = np.sum(p * score * worth) - np.sum(np.sum(p * score, axis=-1) * np.sum(p * worth, axis=-1))
    errors = (
        equal(inner((dout, out)), inner((v, dv))),
        vanishes(dk, 2),
        equal(covariance, inner((q, dq)), inner((k, dk))),
    )
    return max(errors)


def attention(row):
    """Linear in (wo, bo), and less bo in (wv, bv); queries and keys are pulled alike; x feeds the three projections."""
    args, out, dout, grads = run(row)
    pull = [inner((a, d)) for a, d in zip(args, grads, strict=True)]
    bias = len(args) == 9
    bq, bk, bv, bo = pull[5:] if bias else (0, 0, 0, 0)
    return max(
        equal(inner((dout, out)), pull[4] + bo),
        equal(inner((dout, out)) - bo, pull[3] + bv),
        equal(pull[1] + bq, pull[2] + bk),
        equal(pull[0], pull[1] + pull[2] + pull[3]),
    )


def copied_heads(row, full, H, K):
    """GQA is MHA with copied key heads, whose gradients add up: `full` is the MHA pair."""
    args, out, dout, grads = run(row)

    def copy(w):
        heads = w.reshape(*w.shape[:-1], K, -1)
        return np.repeat(heads, H // K, axis=-2).reshape(*w.shape[:-1], -1)

    def gather(dw):
        per_head = dw.reshape(*dw.shape[:-1], K, H // K, -1)
        return per_head.sum(axis=-2).reshape(*dw.shape[:-1], -1)

    of_keys = (2, 3, 6, 7)
    wide, cache = full[0](*(copy(a) if i in of_keys else a for i, a in enumerate(args)))
    expected = [gather(d) if i in of_keys else d for i, d in enumerate(full[1](dout, cache))]
    return max(relative_error(wide, out), same_trees(list(grads), expected))


def shuffled_tokens(row):
    """Without mask and rotation attention has no order: shuffled tokens give shuffled outputs and gradients."""
    args, out, dout, grads = run(row)
    order = np.random.default_rng(6).permutation(out.shape[1])
    shuffled, cache = row.forward(args[0][:, order], *args[1:])
    again = row.backward(dout[:, order], cache)
    return max(relative_error(shuffled, out[:, order]), same_trees(list(again), [grads[0][:, order], *grads[1:]]))


def one_by_one(row, alone, sequences):
    """Sequences do not mix: each alone gives its own output, and the gradients of the parameters add up.

    alone(b) is the pair for sequence b; where the first argument is x [B, T, D], it is cut too.
    """
    args, out, dout, grads = run(row)
    whole, parts, dxs = dict(leaves(list(grads))), [], []
    cut = isinstance(args[0], np.ndarray)
    for b in range(sequences):
        here = [args[0][b : b + 1], *args[1:]] if cut else args
        forward, backward = alone(b)
        part, cache = forward(*here)
        got = backward(dout[b : b + 1], cache)
        got = list(got) if isinstance(got, tuple) else [got]
        dxs += [got.pop(0)] if cut else []
        parts.append(dict(leaves([None, *got] if cut else got)))
        if relative_error(part, out[b : b + 1]) > 1e-12:
            return np.inf
    added = {name: sum(part[name] for part in parts) for name in parts[0]}
    if cut:
        added["0"] = np.concatenate(dxs)
    return same_trees(whole, added)


def feed_forward(row, last, inward, linear_too=()):
    """Linear in the last projection (and SwiGLU in wu); x feeds only the inward projections."""
    args, out, dout, grads = run(row)
    pull = [inner((a, d)) for a, d in zip(args, grads, strict=True)]
    errors = [equal(inner((dout, out)), sum(pull[i] for i in last)), equal(pull[0], sum(pull[i] for i in inward))]
    return max(errors + [equal(inner((dout, out)), pull[i]) for i in linear_too])


def block(row, config):
    """Each norm's (g, b) feeds only linear maps; a branch adds its last map's ⟨w, dw⟩; post-norm gives ⟨g, dg⟩."""
    (x, params), y, dout, (dx, grads) = run(row)

    def pull(tree, *names):
        found = params[tree].keys() if not names else [name for name in names if name in params[tree]]
        return sum(inner((params[tree][name], grads[tree][name])) for name in found)

    def added(tree, *names):
        """⟨dout, what the branch `tree` adds to y⟩, by setting its last projection to 0."""
        off = {name: np.zeros_like(w) if name in names else w for name, w in params[tree].items()}
        return inner((dout, y - row.forward(x, params | {tree: off})[0]))

    into_attn, into_ffn = ("wq", "wk", "wv"), ("wg", "wu", "w1")
    out_attn, out_ffn = ("wo", "bo"), ("wd", "w2", "b2")
    if config.form == "post-norm":
        return equal(inner((dout, y)), pull("norm2"))
    errors = [equal(added("ffn", *out_ffn), pull("ffn", *out_ffn))]
    if config.form == "parallel":
        errors.append(equal(added("attn", *out_attn), pull("attn", *out_attn)))
        errors.append(equal(pull("norm1"), pull("attn", *into_attn) + pull("ffn", *into_ffn)))
    else:
        errors.append(equal(pull("norm1"), pull("attn", *into_attn)))
        errors.append(equal(pull("norm2"), pull("ffn", *into_ffn)))
    return max(errors)


def converted(row, other, config):
    """In the other RoPE layout, with the columns of wq and wk permuted, outputs and gradients are the same."""
    (x, params), y, dout, (dx, grads) = run(row)

    def swap(attn):
        return attn | {
            "wq": rope.convert_layout(attn["wq"], config.n_heads, other.rope_layout),
            "wk": rope.convert_layout(attn["wk"], config.n_kv_heads, other.rope_layout),
        }

    forward, backward = other.pair
    again, cache = forward(x, params | {"attn": swap(params["attn"])})
    dx_other, expected = backward(dout, cache)
    grads = grads | {"attn": swap(grads["attn"])}
    return max(relative_error(again, y), same_trees([dx, grads], [dx_other, expected]))


def last_gain(row):
    """The output is linear in the last norm's (g, b); in the last block's second norm where the form is post-norm."""
    (params,), out, dout, (grads,) = run(row)
    if "norm" in params:
        p, d = params["norm"], grads["norm"]
    else:
        p, d = params["blocks"][-1]["norm2"], grads["blocks"][-1]["norm2"]
    return equal(inner((dout, out)), inner(*((p[name], d[name]) for name in p)))


def untied(row, separate):
    """A tied table's gradient is what a separate table and a separate head with the same values get, added."""
    (params,), out, dout, (grads,) = run(row)
    table = params["embed"]["table"]
    value, cache = separate[0](params | {"head": {"w": table.T.copy()}})
    expected = separate[1](dout, cache)
    head = expected.pop("head")["w"]
    expected["embed"]["table"] = expected["embed"]["table"] + head.T
    return max(relative_error(value, out), same_trees(grads, expected))


def head(row):
    """Logits are linear in the separate head."""
    (params,), out, dout, (grads,) = run(row)
    return equal(inner((dout, out)), inner((params["head"]["w"], grads["head"]["w"])))


def head_shift(row):
    """One vector added to every token's column of the head shifts all logits alike: the gradients sum to 0."""
    return vanishes(run(row)[3][0]["head"]["w"], 1)


def same_route(row, other):
    """Another way to the same number: `other` is a pair."""
    args, out, dout, grads = run(row)
    value, cache = other[0](*args)
    expected = other[1](dout, cache)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    return max(relative_error(value, out), same_trees(list(grads), expected))


def three_projections(row, H, K):
    """Fused queries, keys and values are three linear maps of one x, whose gradients for x add up."""
    (x, w, b), out, dout, (dx, dw, db) = run(row)
    (B, T, _), Dh = x.shape, w.shape[1] // (H + 2 * K)
    at, start, outs, dxs, dws, dbs = 0, 0, [], [], [], []
    for heads in (H, K, K):
        columns, size = slice(at, at + heads * Dh), B * T * heads * Dh
        part, cache = ops.linear_forward(x, w[:, columns], b[columns])
        outs.append(part.reshape(B, T, heads, Dh).swapaxes(1, 2).reshape(-1))
        upstream = dout[start : start + size].reshape(B, heads, T, Dh).swapaxes(1, 2).reshape(B, T, heads * Dh)
        for found, gradient in zip((dxs, dws, dbs), ops.linear_backward(upstream, cache), strict=True):
            found.append(gradient)
        at, start = columns.stop, start + size
    expected = [sum(dxs), np.concatenate(dws, axis=1), np.concatenate(dbs)]
    return max(relative_error(np.concatenate(outs), out), same_trees([dx, dw, db], expected))


def gate_and_up(row):
    """Fused SwiGLU is SwiGLU with the two matrices cut apart, and so are their gradients."""
    (x, wgu, wd), out, dout, (dx, dwgu, dwd) = run(row)
    F = wd.shape[0]
    apart, cache = ffn.swiglu_forward(x, wgu[:, :F], wgu[:, F:], wd)
    grads = [dx, dwgu[:, :F], dwgu[:, F:], dwd]
    return max(relative_error(apart, out), same_trees(grads, list(ffn.swiglu_backward(dout, cache))))


def mixture(row):
    """Linear in wu and in wd; x feeds router, gates and ups; a shift of all logits, or experts permuted, is nothing."""
    (x, router, *experts), out, dout, (dx, drouter, *dexperts) = run(row)
    pull = [inner((w, dw)) for w, dw in zip(experts, dexperts, strict=True)]  # of wg, wu, wd
    order = np.random.default_rng(6).permutation(router.shape[1])
    again, cache = row.forward(x, router[:, order], *(w[order] for w in experts))
    permuted = [dx, drouter[:, order], *(dw[order] for dw in dexperts)]
    return max(
        equal(inner((dout, out)), pull[1], pull[2]),
        equal(inner((x, dx)), inner((router, drouter)) + pull[0] + pull[1]),
        vanishes(drouter, 1),
        relative_error(again, out),
        same_trees(list(row.backward(dout, cache)), permuted),
    )


def load_balance(row, chosen):
    """Rows sum to 0; the pull on a token's logits is E/N times the covariance of logit and load under its softmax."""
    (logits,), _, dout, (dlogits,) = run(row)
    E, p = logits.shape[-1], ops.softmax_forward(logits)[0]
    share = np.array([np.mean(chosen == e) for e in range(E)])
    covariance = np.sum(p * logits * share, axis=-1) - np.sum(p * logits, axis=-1) * np.sum(p * share, axis=-1)
    pull = np.sum(logits * dlogits, axis=-1)
    return max(vanishes(dlogits, -1), relative_error(pull, dout * E * covariance / covariance.size))


def latent_attention(row):
    """Linear in wo and in wuv; queries and keys are pulled alike; x and the latent feed linear maps."""
    args, out, dout, grads = run(row)
    pull = [inner((a, d)) for a, d in zip(args, grads, strict=True)]
    x, wdkv, wuk, wuv, wq, *wkr, wo = pull  # without a rotated part there is no wkr
    return max(
        equal(inner((dout, out)), wo, wuv),
        equal(wq, wuk + sum(wkr)),
        equal(wdkv, wuk + wuv),
        equal(x, wdkv + wq + sum(wkr)),
    )
