"""Every pair of scratch and its four witnesses: finite differences, autograd, PyTorch and an identity of its own.

`make proofs` prints the relative errors. A row holds arguments (small and unequal sizes; all values are multiples of
1/64, so that PyTorch's can be stored as small integers), the pair, and the same mathematics as a formula of `formulas`.
"""

import functools
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import autograd
import autograd.numpy as anp
import numpy as np

from scratch import attention, block, blocked, ffn, fused, latent, loss, model, moe, norm, ops, rope, tiled
from scratch.gradcheck import GradientError, check_pair, leaves, relative_error
from scratch.model import Config, param_shapes
from tests import formulas, identities

LIMIT = 1e-7
TORCH = Path(__file__).with_name("reference") / "torch.npz"

# No two of them equal, so that no axis can pass for another.
B, T, D, H, K, DH, F, V = 3, 5, 7, 6, 2, 4, 9, 11
IDS = np.array([[3, 1, 3, 0, 10], [7, 7, 7, 2, 1], [0, 9, 4, 4, 5]])
TARGETS = np.array([[1, 3, 0, 10, -100], [7, -100, 2, 1, 1], [-100, -100, 4, 5, 0]])
# Sequence 0 is padded on the left, so its first queries see no key at all; 1 has a gap; 2 is padded on the right.
PAD = np.array([[0, 0, 1, 1, 1], [1, 0, 1, 1, 1], [1, 1, 1, 1, 0]], dtype=bool)
BASE = 100.0  # of RoPE: with five positions and a base of 10000 the slow pairs would hardly turn


@dataclass(frozen=True)
class Row:
    """One pair with what is needed to prove it.

    covers: names of the pairs of scratch that run here; args: a function that makes the arguments, each an array or a
    tree of arrays; reference: the formula in autograd.numpy; identity: a function of the row.
    """

    name: str
    covers: tuple
    forward: Callable
    backward: Callable
    args: Callable
    reference: Callable
    identity: Callable


ROWS = {}


def row(name, covers, forward, backward, args, reference, *parts):
    """Register a row whose identity is the worst of `parts`; covers is a string of names."""
    seed = len(ROWS)

    def identity(row):
        return max(part(row) for part in parts)

    ROWS[name] = Row(name, tuple(covers.split()), forward, backward, lambda: args(Draw(seed)), reference, identity)


class Draw:
    """Random normal arrays, rounded to multiples of 1/64."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape, scale=1.0):
        return np.round(64 * scale * self.rng.standard_normal(shape)) / 64

    def weight(self, *shape):
        return self(*shape, scale=1.5 / np.sqrt(shape[0]))

    def params(self, config, block=False):
        """A whole model's tree, or its first block's; gains and biases are random, too."""
        shapes = param_shapes(config)
        return model.map_leaves(
            lambda name, shape: self(*shape) if len(shape) == 1 or name == "table" else self.weight(*shape),
            shapes["blocks"][0] if block else shapes,
        )


# ── operations ──

row(
    "linear",
    "linear",
    ops.linear_forward,
    ops.linear_backward,
    lambda draw: [draw(B, T, D), draw.weight(D, F)],
    formulas.linear,
    identities.linear,
)
row(
    "linear with bias",
    "linear",
    ops.linear_forward,
    ops.linear_backward,
    lambda draw: [draw(B, T, D), draw.weight(D, F), draw(F)],
    formulas.linear,
    identities.linear,
)
row(
    "softmax",
    "softmax",
    ops.softmax_forward,
    ops.softmax_backward,
    lambda draw: [draw(B, T, V, scale=2)],
    formulas.softmax,
    identities.softmax,
)
for gate in ("silu", "gelu"):
    row(
        gate,
        gate,
        getattr(ops, gate + "_forward"),
        getattr(ops, gate + "_backward"),
        lambda draw: [draw(B, T, F, scale=2)],
        getattr(formulas, gate),
        identities.gate,
    )
# The large eps makes its place visible; the blocks below use an ordinary one.
row(
    "rmsnorm",
    "rmsnorm",
    functools.partial(norm.rmsnorm_forward, eps=0.25),
    norm.rmsnorm_backward,
    lambda draw: [draw(B, T, D), draw(D)],
    functools.partial(formulas.rmsnorm, eps=0.25),
    functools.partial(identities.norm, eps=0.25, bias=False),
)
row(
    "layernorm",
    "layernorm",
    functools.partial(norm.layernorm_forward, eps=0.25),
    norm.layernorm_backward,
    lambda draw: [draw(B, T, D), draw(D), draw(D)],
    functools.partial(formulas.layernorm, eps=0.25),
    functools.partial(identities.norm, eps=0.25, bias=True),
)
row(
    "embedding",
    "embedding",
    functools.partial(ops.embedding_forward, IDS),
    ops.embedding_backward,
    lambda draw: [draw(V, D)],
    functools.partial(formulas.embedding, IDS),
    identities.embedding,
)


def with_targets(targets):
    return lambda logits: loss.cross_entropy_forward(logits, targets)


row(
    "cross_entropy",
    "cross_entropy",
    with_targets(TARGETS),
    loss.cross_entropy_backward,
    lambda draw: [draw(B, T, V, scale=2)],
    lambda logits: formulas.cross_entropy(logits, TARGETS),
    lambda row: identities.cross_entropy(row, with_targets, TARGETS, V),
)
for chunk in (3, 64):
    row(
        f"chunked_cross_entropy, chunk {chunk}",
        "chunked_cross_entropy",
        functools.partial(
            lambda h, w, chunk: loss.chunked_cross_entropy_forward(h, w, TARGETS, chunk=chunk), chunk=chunk
        ),
        loss.chunked_cross_entropy_backward,
        lambda draw: [draw(B, T, D), draw.weight(D, V)],
        lambda h, w: formulas.cross_entropy(formulas.linear(h, w), TARGETS),
        lambda row: identities.chunked(row, TARGETS),
    )
for layout in rope.LAYOUTS:
    row(
        f"rope, {layout}",
        "rope",
        # A table longer than the sequence: only its first T rows are read.
        functools.partial(
            lambda x, layout: rope.rope_forward(x, *rope.rope_table(T + 2, DH, BASE), layout), layout=layout
        ),
        rope.rope_backward,
        lambda draw: [draw(B, H, T, DH)],
        functools.partial(formulas.rope, base=BASE, layout=layout),
        identities.rotation,
    )


# ── attention and feed-forward ──

for name, heads, options in (
    ("sdpa, MHA", H, {}),
    ("sdpa, GQA, padded", K, {"pad_mask": PAD}),
    ("sdpa, MQA, not causal, padded", 1, {"causal": False, "pad_mask": PAD}),
):
    row(
        name,
        "sdpa",
        functools.partial(attention.sdpa_forward, **options),
        attention.sdpa_backward,
        lambda draw, heads=heads: [draw(B, H, T, DH), draw(B, heads, T, DH), draw(B, heads, T, DH)],
        functools.partial(formulas.sdpa, **options),
        lambda row, options=options: identities.sdpa(row, options.get("causal", True), options.get("pad_mask")),
    )


def attention_pair(heads, pad=None, **options):
    forward = functools.partial(attention.attention_forward, n_heads=H, n_kv_heads=heads, pad_mask=pad, **options)
    return forward, attention.attention_backward


def attention_args(draw, heads, bias):
    weights = [draw.weight(D, H * DH), draw.weight(D, heads * DH), draw.weight(D, heads * DH), draw.weight(H * DH, D)]
    biases = [draw(H * DH), draw(heads * DH), draw(heads * DH), draw(D)] if bias else []
    return [draw(B, T, D), *weights, *biases]


def attention_formula(x, wq, wk, wv, wo, *biases, **options):
    return formulas.attention(x, wq, wk, wv, wo, biases or (0.0,) * 4, **options)


for name, heads, bias, layout, causal, pad in (
    ("attention, MHA", H, False, None, True, None),
    ("attention, GQA, RoPE", K, False, "interleaved", True, None),
    ("attention, MQA, RoPE half", 1, False, "half", True, None),
    ("attention, GQA, biases, RoPE, padded", K, True, "half", True, PAD),
    ("attention, MHA, biases, not causal", H, True, None, False, None),
    ("attention, GQA, not causal, padded", K, False, None, False, PAD),
):
    options = {"causal": causal}
    if layout:
        options |= {"rope": rope.rope_table(T, DH, BASE), "layout": layout}
    pair = attention_pair(heads, pad, **options)
    turn = (BASE, layout) if layout else None
    parts = [
        identities.attention,
        lambda row, heads=heads, pad=pad, options=options: identities.one_by_one(
            row, lambda b: attention_pair(heads, None if pad is None else pad[b : b + 1], **options), B
        ),
    ]
    if heads < H:
        full = attention_pair(H, pad, **options)
        parts.append(
            lambda row, full=full, heads=heads: identities.copied_heads(row, full, H, heads),
        )
    if not (causal or layout) and pad is None:
        parts.append(identities.shuffled_tokens)
    row(
        name,
        "attention sdpa rope linear" if layout else "attention sdpa linear",
        *pair,
        functools.partial(attention_args, heads=heads, bias=bias),
        functools.partial(attention_formula, H=H, K=heads, turn=turn, causal=causal, pad_mask=pad),
        *parts,
    )

row(
    "swiglu",
    "swiglu",
    ffn.swiglu_forward,
    ffn.swiglu_backward,
    lambda draw: [draw(B, T, D), draw.weight(D, F), draw.weight(D, F), draw.weight(F, D)],
    formulas.swiglu,
    functools.partial(identities.feed_forward, last=(3,), inward=(1, 2), linear_too=(2,)),
)
row(
    "gelu_mlp",
    "gelu_mlp",
    ffn.gelu_mlp_forward,
    ffn.gelu_mlp_backward,
    lambda draw: [draw(B, T, D), draw.weight(D, F), draw(F), draw.weight(F, D), draw(D)],
    formulas.gelu_mlp,
    functools.partial(identities.feed_forward, last=(3, 4), inward=(1,)),
)
row(
    "gelu_mlp without biases",
    "gelu_mlp",
    lambda x, w1, w2: ffn.gelu_mlp_forward(x, w1, None, w2, None),
    ffn.gelu_mlp_backward,
    lambda draw: [draw(B, T, D), draw.weight(D, F), draw.weight(F, D)],
    lambda x, w1, w2: formulas.gelu_mlp(x, w1, 0.0, w2, 0.0),
    functools.partial(identities.feed_forward, last=(2,), inward=(1,)),
)


# ── block ──

LLAMA = {"vocab_size": V, "d_model": D, "n_heads": H, "n_kv_heads": K, "d_head": DH, "d_ff": F, "max_seq": T + 1}
LLAMA |= {"rope_base": BASE, "eps": 0.01}  # neither is the one used where none is given
# Six features in three heads: torch.nn.TransformerEncoderLayer, the reference of these, knows no other head width.
GPT2 = {"vocab_size": V, "d_model": 6, "n_heads": 3, "d_ff": F, "max_seq": T + 1}
GPT2 |= {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True, "eps": 0.02}


def block_pair(config, pad=None):
    table = rope.rope_table(T, config.head_dim, config.rope_base) if config.pos == "rope" else None

    def forward(x, params):
        return block.block_forward(x, params, config, rope=table, pad_mask=pad)

    return forward, block.block_backward


@dataclass(frozen=True)
class Other:
    """A block's pair in the other RoPE layout."""

    pair: tuple
    rope_layout: str


CONFIGS = {}  # of the rows that have one, for make_torch and for the oracle
for name, options, pad in (
    ("block, Llama", {}, None),
    ("block, Llama MHA", {"n_kv_heads": H}, None),
    ("block, Llama MQA, RoPE half, padded", {"n_kv_heads": 1, "rope_layout": "half"}, PAD),
    ("block, Llama with biases", {"bias": True}, None),
    ("block, GPT-2", None, None),
    ("block, GPT-2 without biases", {"bias": False}, None),
    ("block, post-norm, padded", {"form": "post-norm"}, PAD),
    ("block, post-norm GPT", {"form": "post-norm"}, None),
    ("block, parallel, padded", {"form": "parallel"}, PAD),
    ("block, parallel GPT", {"form": "parallel"}, None),
    ("block, encoder, padded", {"causal": False}, PAD),
):
    config = Config(n_layers=1, **(GPT2 if "GPT" in name else LLAMA) | (options or {}))
    CONFIGS[name] = (config, pad)
    parts = [
        lambda row, config=config: identities.block(row, config),
        lambda row, config=config, pad=pad: identities.one_by_one(
            row, lambda b: block_pair(config, None if pad is None else pad[b : b + 1]), B
        ),
    ]
    if config.pos == "rope" and not config.bias:
        layout = next(layout for layout in rope.LAYOUTS if layout != config.rope_layout)
        other = Other(block_pair(replace(config, rope_layout=layout), pad), layout)
        parts.append(lambda row, other=other, config=config: identities.converted(row, other, config))
    row(
        name,
        "block norm" + (" pre_norm" if config.form == "pre-norm" else f" {config.form.replace('-', '_')}"),
        *block_pair(config, pad),
        lambda draw, config=config: [draw(B, T, config.d_model), draw.params(config, block=True)],
        functools.partial(formulas.block, config=config, pad_mask=pad),
        *parts,
    )


# ── stack, model, loss ──

SMALL = {"d_model": 5, "n_heads": 4, "n_kv_heads": 2, "d_head": 6, "d_ff": 7}


def stack_pair(config, pad=None, ids=IDS):
    return functools.partial(model.stack_forward, ids, config=config, pad_mask=pad), model.stack_backward


def model_pair(config, pad=None, ids=IDS):
    return functools.partial(model.model_forward, ids, config=config, pad_mask=pad), model.model_backward


def loss_pair(config, pad=None, chunk=None):
    forward = functools.partial(model.loss_forward, IDS, TARGETS, config=config, pad_mask=pad, chunk=chunk)
    return forward, model.loss_backward


for name, options, pad in (
    ("stack, Llama", {"n_layers": 2}, None),
    ("stack, GPT-2", {}, PAD),
    ("stack, post-norm", {"form": "post-norm"}, None),
    ("model, Llama, untied", {"tied": False}, None),
    ("model, Llama, tied, padded", {}, PAD),
    ("model, GPT-2, tied", {"n_layers": 2}, None),
    ("loss, Llama, untied", {"tied": False, "n_layers": 2}, None),
    ("loss, Llama, tied, chunked", {}, None),
    ("loss, GPT-2, tied", {"n_layers": 2}, None),
    ("loss, parallel, untied, padded", {"form": "parallel", "tied": False}, PAD),
):
    config = Config(**{"n_layers": 1} | (GPT2 if "GPT" in name else LLAMA | SMALL) | options)
    CONFIGS[name] = (config, pad)
    kind = name.partition(",")[0]
    if kind == "loss":
        chunk = 3 if "chunked" in name else None
        pair = loss_pair(config, pad, chunk)
        other = loss_pair(config, pad, None if chunk else 3)
        parts = [lambda row, other=other: identities.same_route(row, other)]
        reference = functools.partial(formulas.loss, IDS, TARGETS, config=config, pad_mask=pad)
        if not config.tied:
            parts.append(identities.head_shift)
    else:
        make = stack_pair if kind == "stack" else model_pair
        pair = make(config, pad)
        parts = [
            identities.last_gain,
            lambda row, make=make, config=config, pad=pad: identities.one_by_one(
                row,
                lambda b: make(config, None if pad is None else pad[b : b + 1], IDS[b : b + 1]),
                B,
            ),
        ]
        reference = functools.partial(getattr(formulas, kind), IDS, config=config, pad_mask=pad)
        if kind == "model" and not config.tied:
            parts.append(identities.head)
    if kind != "stack" and config.tied:
        separate = (loss_pair if kind == "loss" else model_pair)(replace(config, tied=False), pad)
        parts.append(lambda row, separate=separate: identities.untied(row, separate))
    row(name, kind, *pair, lambda draw, config=config: [draw.params(config)], reference, *parts)


# ── the same once more, faster or in less memory; new rows stand last, so that the arguments of the others stay ──

for name, heads, options in (
    ("tiled_attention, GQA", K, {"tile": 2}),
    ("tiled_attention, MQA, not causal", 1, {"tile": 3, "causal": False}),
):
    seen = {"causal": options.get("causal", True)}
    other = (functools.partial(attention.sdpa_forward, **seen), attention.sdpa_backward)
    row(
        name,
        "tiled_attention",
        functools.partial(tiled.tiled_attention_forward, **options),
        tiled.tiled_attention_backward,
        lambda draw, heads=heads: [draw(B, H, T, DH), draw(B, heads, T, DH), draw(B, heads, T, DH)],
        functools.partial(formulas.sdpa, **seen),
        lambda row, seen=seen: identities.sdpa(row, seen["causal"], None),
        lambda row, other=other: identities.same_route(row, other),
    )


def as_one_vector(forward, backward):
    """The pair whose out is a tuple of arrays as one whose out is a vector, for the witnesses' one upstream."""

    def joined(*args):
        outs, cache = forward(*args)
        return np.concatenate([out.reshape(-1) for out in outs]), (cache, [out.shape for out in outs])

    def cut(dout, cache):
        inner, shapes = cache
        parts = np.split(dout, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
        return backward(tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)), inner)

    return joined, cut


row(
    "fused_qkv, GQA, biases",
    "fused_qkv",
    *as_one_vector(
        functools.partial(fused.fused_qkv_forward, n_heads=H, n_kv_heads=K),
        fused.fused_qkv_backward,
    ),
    lambda draw: [draw(B, T, D), draw.weight(D, (H + 2 * K) * DH), draw((H + 2 * K) * DH)],
    functools.partial(formulas.fused_qkv, H=H, K=K),
    lambda row: identities.three_projections(row, H, K),
)
row(
    "fused_swiglu",
    "fused_swiglu",
    fused.fused_swiglu_forward,
    fused.fused_swiglu_backward,
    lambda draw: [draw(B, T, D), draw.weight(D, 2 * F), draw.weight(F, D)],
    formulas.fused_swiglu,
    functools.partial(identities.feed_forward, last=(2,), inward=(1,)),
    identities.gate_and_up,
)


# ── mixture of experts, latent attention ──

EXPERTS, WIDE = 4, 6  # experts, and the width of each


def moe_args(draw):
    experts = [np.stack([draw.weight(*shape) for _ in range(EXPERTS)]) for shape in ((D, WIDE), (D, WIDE), (WIDE, D))]
    return [draw(B, T, D), draw.weight(D, EXPERTS), *experts]


for name, options in (
    ("moe, top 2 of 4", {"top_k": 2}),
    ("moe, top 1, not renormalized", {"top_k": 1, "renormalize": False}),
):
    row(
        name,
        "moe",
        functools.partial(moe.moe_forward, **options),
        moe.moe_backward,
        moe_args,
        functools.partial(formulas.moe, **options),
        identities.mixture,
    )

# Two experts a token; the first is the favourite, and the last is never chosen.
CHOSEN = np.array([[[0, 1], [0, 2], [1, 0], [0, 1], [2, 0]]] * B)
row(
    "load_balance",
    "load_balance",
    lambda logits: moe.load_balance_forward(logits, CHOSEN),
    moe.load_balance_backward,
    lambda draw: [draw(B, T, EXPERTS, scale=2)],
    lambda logits: formulas.load_balance(logits, CHOSEN),
    lambda row: identities.load_balance(row, CHOSEN),
)

# Widths of the latent, and of a head's rotated part and values: none is DH, and K heads make the stored arrays small.
RANK, ROTATED, VALUES = 8, 6, 3


def latent_args(draw, rotated):
    wdkv, wuk, wuv = draw.weight(D, RANK), draw.weight(RANK, K * DH), draw.weight(RANK, K * VALUES)
    wq, wo = draw.weight(D, K * (DH + rotated)), draw.weight(K * VALUES, D)
    return [draw(B, T, D), wdkv, wuk, wuv, wq, *([draw.weight(D, rotated)] if rotated else []), wo]


def latent_pair(**options):
    def forward(x, wdkv, wuk, wuv, wq, *wkr_wo):
        wkr, wo = (None, *wkr_wo)[-2:]
        return latent.latent_attention_forward(x, wdkv, wuk, wuv, wq, wkr, wo, n_heads=K, **options)

    return forward, latent.latent_attention_backward


def latent_formula(x, wdkv, wuk, wuv, wq, *wkr_wo, **options):
    wkr, wo = (None, *wkr_wo)[-2:]
    return formulas.latent_attention(x, wdkv, wuk, wuv, wq, wkr, wo, H=K, **options)


for name, rotated, layout, causal in (
    ("latent_attention, RoPE", ROTATED, "interleaved", True),
    ("latent_attention, RoPE half, not causal", ROTATED, "half", False),
    ("latent_attention without RoPE", 0, None, True),
):
    turn = {"rope": rope.rope_table(T, ROTATED, BASE), "layout": layout} if rotated else {}
    pair = latent_pair(causal=causal, **turn)
    row(
        name,
        "latent_attention",
        *pair,
        functools.partial(latent_args, rotated=rotated),
        functools.partial(latent_formula, turn=(BASE, layout) if rotated else None, causal=causal),
        identities.latent_attention,
        lambda row, pair=pair: identities.one_by_one(row, lambda b: pair, B),
    )


for name, heads, causal in (("blocked_sdpa, GQA", K, True), ("blocked_sdpa, MHA, not causal", H, False)):
    other = (functools.partial(attention.sdpa_forward, causal=causal), attention.sdpa_backward)
    row(
        name,
        "blocked_sdpa",
        functools.partial(blocked.blocked_sdpa_forward, causal=causal),
        blocked.blocked_sdpa_backward,
        lambda draw, heads=heads: [draw(B, H, T, DH), draw(B, heads, T, DH), draw(B, heads, T, DH)],
        functools.partial(formulas.sdpa, causal=causal),
        lambda row, causal=causal: identities.sdpa(row, causal, None),
        lambda row, other=other: identities.same_route(row, other),
    )


# ── the witnesses: each takes a row and returns the largest relative error ──


def finite_differences(row):
    """Against fourth-order differences of a random upstream, over every entry of every argument."""
    return max(check_pair(row.forward, row.backward, *row.args(), tol=LIMIT, seed=1).values())


def by_autograd(row):
    """Output and gradients against HIPS autograd on the plain formula, with one random upstream."""
    args = row.args()

    def scalar(boxed):
        return anp.sum(row.reference(*[boxed[i] for i in range(len(args))]) * upstream)

    upstream = np.random.default_rng(2).standard_normal(np.shape(row.forward(*args)[0]))
    expected = dict(leaves(list(autograd.grad(scalar)(tuple(args)))))
    return _compare(row, args, upstream, row.reference(*args), expected)


def by_pytorch(row):
    """Output and gradients against those that PyTorch gave for the same arguments, once, in float64."""
    stored = {key: torch_arrays().get(f"{row.name}/{key}") for key in ("args", "upstream", "out", "grads")}
    args = row.args()
    if stored["args"] is None or not np.array_equal(64 * flat(args), stored["args"]):
        raise ValueError(f"{row.name}: {TORCH.name} was made for other arguments, run tests/reference/make_torch.py")
    expected, at = {}, 0
    for name, array in leaves(args):
        expected[name] = stored["grads"][at : at + array.size].reshape(array.shape)
        at += array.size
    return _compare(row, args, stored["upstream"] / 64, stored["out"], expected)


def flat(tree):
    """All float arrays of a tree as one vector, in the order of `leaves`; many small arrays need a larger file."""
    return np.concatenate([array.reshape(-1) for _, array in leaves(tree)])


def identity(row):
    """The row's own identity."""
    return row.identity(row)


WITNESSES = {
    "differences": finite_differences,
    "autograd": by_autograd,
    "PyTorch": by_pytorch,
    "identity": identity,
}


@functools.cache
def torch_arrays():
    with np.load(TORCH) as stored:
        return dict(stored)


def _compare(row, args, upstream, expected_out, expected):
    out, cache = row.forward(*args)
    got = row.backward(upstream, cache)
    got = dict(leaves(list(got) if isinstance(got, tuple) else [got]))
    if got.keys() != expected.keys():
        raise GradientError(f"{row.name}: gradients of {sorted(got)}, expected those of {sorted(expected)}")
    # A gradient that is zero in exact arithmetic is rounding in both, so it is measured by the others' size.
    floor = 1e-6 * max(np.abs(value).max() for value in expected.values())
    errors = [relative_error(got[name], expected[name], floor) for name in expected]
    return max(relative_error(out, expected_out), *errors)


def table():
    """The lines that `make proofs` prints, and whether every error is below LIMIT."""
    errors = {name: [witness(row) for witness in WITNESSES.values()] for name, row in ROWS.items()}
    width = max(map(len, ROWS)) + 2
    lines = [
        "Largest relative error of any output or gradient, in float64, by witness; the limit is 1e-07.",
        f"Python {platform.python_version()}, NumPy {np.__version__}, autograd {_version('autograd')}, "
        f"PyTorch {torch_arrays()['version']} (stored arrays)",
        "",
        f"{'pair':{width}}" + "".join(f"{witness:>13}" for witness in WITNESSES),
    ]
    lines += [f"{name:{width}}" + "".join(f"{error:13.1e}" for error in found) for name, found in errors.items()]
    worst = [max(column) for column in zip(*errors.values(), strict=True)]
    lines += ["", f"{f'the largest of {len(ROWS)} rows':{width}}" + "".join(f"{error:13.1e}" for error in worst)]
    return lines, max(worst) < LIMIT


def _version(package):
    from importlib.metadata import version

    return version(package)


if __name__ == "__main__":
    lines, fine = table()
    print("\n".join(lines))
    sys.exit(not fine)
