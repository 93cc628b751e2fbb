"""Each check rejects the models that break its promise, with its own sentence, and accepts right ones of any style."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from scratch import checks
from scratch.attention import attention_forward
from scratch.block import block_forward, norm_forward
from scratch.config import Config
from scratch.gradcheck import check_pair
from scratch.loss import cross_entropy_forward
from scratch.model import init_params, map_leaves, model_forward, stack_forward
from scratch.ops import silu_backward, silu_forward, softmax_backward, softmax_forward
from scratch.trace import trace

CHAPTER = Path(__file__).resolve().parents[1] / "chapters" / "15_pitfalls.md"
IDS = np.random.default_rng(5).integers(0, 11, (2, 6))


def chapter_model():
    """The chapter's model with a switch for each fault: its imports, and the cells that define it."""
    cells = re.findall(r"(?ms)^```\{code-cell\}[^\n]*\n(?::tags:[^\n]*\n)?(.*?)^```", CHAPTER.read_text())
    scope = {}
    for cell in cells:
        if "import textwrap" in cell or "def attend(" in cell or "def to_head(" in cell:
            exec(cell, scope)
    return scope


MODEL = chapter_model()
run, to_head, attend = MODEL["run"], MODEL["to_head"], MODEL["attend"]


def textbook(scores):
    with np.errstate(all="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)


def bare(scores):
    with np.errstate(all="ignore"):
        e = np.exp(scores)
        return e / e.sum(axis=-1, keepdims=True)


def map_of(**options):
    kept = []
    run(IDS, maps=kept, **options)
    return kept[0]


def rejected(said, check, *args, **options):
    with pytest.raises(checks.CheckError, match=said) as caught:
        check(*args, **options)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 80


STYLES = {
    "llama": {"n_kv_heads": 2},
    "gpt2": {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True, "eps": 1e-5},
    "post-norm": {"form": "post-norm", "norm": "layernorm", "tied": False},
    "parallel": {"form": "parallel", "n_kv_heads": 1, "rope_layout": "half"},
}


def right(style, dtype=np.float64):
    """A config of this style and wide random weights; gains and biases are random, too."""
    config = Config(vocab_size=11, d_model=24, n_layers=2, n_heads=4, d_ff=20, max_seq=32, **STYLES[style])
    rng = np.random.default_rng(1)

    def leaf(name, w):
        if name == "g":
            return rng.uniform(0.5, 1.5, w.shape).astype(dtype)
        return (rng.standard_normal(w.shape) / w.shape[0] ** 0.5).astype(dtype)

    return config, map_leaves(leaf, init_params(config))


def shifted_positions(ids, pad_mask, config, params):
    """The model with learned positions that count the real tokens alone."""
    place = np.where(pad_mask, np.cumsum(pad_mask, axis=1) - 1, 0)
    x = params["embed"]["table"][ids] + params["pos"]["table"][place]
    for block in params["blocks"]:
        x, _ = block_forward(x, block, config, pad_mask=pad_mask)
    return norm_forward(x, params["norm"], config)[0] @ params["embed"]["table"].T


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("style", STYLES)
def test_right_models_of_every_style_are_accepted(style, dtype):
    config, params = right(style, dtype)

    def forward(ids, pad_mask=None):
        return model_forward(ids, params, config, pad_mask=pad_mask)[0]

    checks.causal_check(forward, IDS, tol=1e-4)
    checks.map_check(trace(IDS, params, config).maps)
    checks.padding_check(forward, IDS, tol=1e-4)
    checks.dtype_check(forward(IDS), dtype)
    h, _ = stack_forward(IDS, params, config)
    last = params["blocks"][-1]["norm2"] if style == "post-norm" else params["norm"]
    checks.head_check(h, **last)
    if style == "gpt2":
        rejected("depend on their place", checks.padding_check, forward, IDS, side="left", tol=1e-4)
        own = partial(shifted_positions, config=config, params=params)
        checks.padding_check(own, IDS, side="left", tol=1e-4)
        checks.padding_check(own, IDS, side="right", tol=1e-4)
    else:
        checks.padding_check(forward, IDS, side="left", tol=1e-4)


def test_a_text_of_one_token():
    config, params = right("llama")
    checks.causal_check(lambda ids: model_forward(ids, params, config)[0], IDS[:, :1])
    checks.map_check(trace(IDS[:, :1], params, config).maps)


def test_causal_check():
    checks.causal_check(run, IDS)
    rejected("sees the future", checks.causal_check, partial(run, fault="ahead"), IDS)
    rejected("inf or NaN", checks.causal_check, partial(run, fault="diagonal", softmax=textbook), IDS)
    rejected("sees the future", checks.causal_check, lambda ids: np.cumsum(ids[:, ::-1], axis=1)[:, ::-1, None], IDS)
    no_map = lambda ids: run(ids) - run(ids).mean(axis=1, keepdims=True)  # noqa: E731, a norm over the tokens
    rejected("sees the future", checks.causal_check, no_map, IDS)
    only_late = lambda ids: np.stack([ids[:, 0] * 0 + ids[:, 2], *ids.T[1:]], axis=1)[..., None]  # noqa: E731
    rejected("token 3", checks.causal_check, only_late, IDS)


def test_a_text_of_zeros_is_replaced_too():
    zeros = np.zeros((1, 5), int)
    rejected("sees the future", checks.causal_check, partial(run, fault="ahead"), zeros)
    rejected("depend on padding", checks.padding_check, partial(run, fault="padding"), zeros, "left")


def test_map_check():
    good = map_of()
    checks.map_check(good)
    rejected("mask too wide", checks.map_check, map_of(fault="ahead"))
    rejected("inf or NaN", checks.map_check, map_of(fault="diagonal", softmax=textbook))
    rejected("a sum is off", checks.map_check, map_of(fault="diagonal"))
    rejected("a sum is off", checks.map_check, np.tril(np.full((6, 6), 1 / 6)))  # masked after the softmax
    past = np.tri(6, k=-1) / np.maximum(np.arange(6), 1)[:, None]
    past[0, 0] = 1  # the first row was mended, the others still do not see themselves
    rejected("no token sees itself", checks.map_check, past)


@pytest.mark.parametrize("softmax", [lambda s: softmax_forward(s)[0], textbook])
def test_softmax_check_accepts(softmax):
    checks.softmax_check(softmax)


def test_softmax_check():
    rejected("float64", checks.softmax_check, bare)
    rejected("float64", checks.softmax_check, lambda s: textbook(np.minimum(s, 700)))
    rejected("float32", checks.softmax_check, lambda s: textbook(s) if s.dtype == np.float64 else bare(s))


def test_padding_check():
    for side in ("left", "right"):
        checks.padding_check(run, IDS, side=side)
    rejected("are seen", checks.padding_check, partial(run, fault="padding"), IDS, side="left")
    for fault in ("values turned", "keys twice"):
        rejected("depend on their place", checks.padding_check, partial(run, fault=fault), IDS, side="left")
    rejected("an empty row is heard", checks.padding_check, partial(run, softmax=textbook), IDS, side="left")
    every = lambda ids, mask: np.broadcast_to(ids.sum(1, keepdims=True), ids.shape)[..., None] * 1.0  # noqa: E731
    rejected("are seen", checks.padding_check, every, IDS)  # on the right, without a causal mask


def test_sharing_check():
    def library(x, wq, wk, wv, wo, n_heads, n_kv_heads):
        return attention_forward(x, wq, wk, wv, wo, n_heads=n_heads, n_kv_heads=n_kv_heads)[0]

    def own(x, wq, wk, wv, wo, n_heads, n_kv_heads, fault=""):
        return attend(x, {"wq": wq, "wk": wk, "wv": wv, "wo": wo}, fault=fault, heads=(n_heads, n_kv_heads))

    checks.sharing_check(library)
    checks.sharing_check(own)
    rejected("must read h", checks.sharing_check, partial(own, fault="tiled"))
    for blind in ({"K": 1}, {"K": 6}):
        checks.sharing_check(partial(own, fault="tiled"), **blind)


def test_head_check():
    checks.head_check(to_head(IDS))
    rejected("no norm before", checks.head_check, to_head(IDS, None, "no norm"))
    rejected("no norm before", checks.head_check, 1.1 * to_head(IDS))


def test_dtype_check():
    single = map_leaves(lambda name, w: w.astype(np.float32), MODEL["params"])
    checks.dtype_check(run(IDS, params=single))
    rejected("float64 came out", checks.dtype_check, run(IDS, None, "float64", params=single))


def test_shift_check():
    def loss(logits, ids, ahead=1):
        return cross_entropy_forward(logits[:, : ids.shape[1] - ahead], ids[:, ahead:])[0]

    checks.shift_check(loss)
    rejected("not shifted", checks.shift_check, partial(loss, ahead=0))
    rejected("wrong shift", checks.shift_check, partial(loss, ahead=2))
    rejected("a row too many", checks.shift_check, lambda z, ids: cross_entropy_forward(z, np.roll(ids, -1, axis=1))[0])
    rejected("wrong shift", checks.shift_check, lambda z, ids: cross_entropy_forward(z[:, 1:], ids[:, :-1])[0])


def test_parts_check():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 5, (2, 3, 4))
    targets[0, :, 1:] = -100
    pieces = list(zip(rng.standard_normal((2, 3, 4, 5)), targets, strict=True))

    def mean(pieces, weigh):
        counts = [(t != -100).sum() if weigh else 1 for _, t in pieces]
        return np.dot([cross_entropy_forward(*piece)[0] for piece in pieces], counts) / sum(counts)

    checks.parts_check(partial(mean, weigh=True), pieces)
    rejected(r"\d, not \d.*weigh a piece", checks.parts_check, partial(mean, weigh=False), pieces)
    rejected("weigh a piece", checks.parts_check, lambda pieces: sum(mean([p], True) for p in pieces), pieces)


def test_memory_check():
    assert 8000 <= checks.memory_check(lambda: np.ones(1000), 9000) <= 9000
    rejected("the peak is 0 MB", checks.memory_check, lambda: np.ones(3000), 9000)


def test_proof_check():
    x = np.random.default_rng(0).standard_normal((3, 5))

    def ones(forward, backward, x):
        out, cache = forward(x)
        assert np.abs(backward(np.ones_like(out), cache).sum(axis=-1)).max() < 1e-8  # 0, as it should be for softmax

    checks.proof_check(check_pair, softmax_forward, softmax_backward, x)
    checks.proof_check(check_pair, silu_forward, silu_backward, x)
    rejected("lets zeros pass", checks.proof_check, ones, softmax_forward, softmax_backward, x)
    norms = lambda forward, backward, x: ones(forward, backward, x) or _not_zero(forward, backward, x)  # noqa: E731
    rejected("lets twice the gradient pass", checks.proof_check, norms, softmax_forward, softmax_backward, x)
    with pytest.raises(AssertionError):
        checks.proof_check(check_pair, softmax_forward, lambda dout, cache: 2 * softmax_backward(dout, cache), x)


def _not_zero(forward, backward, x):
    out, cache = forward(x)
    assert backward(np.arange(out.size).reshape(out.shape) * 1.0, cache).any()
