"""Latent attention: what it must equal, relative positions, decoding without expanded keys, and what a cache holds."""

import math

import numpy as np
import pytest

from scratch import account, attention, latent, rope
from scratch.config import Config
from scratch.gradcheck import relative_error

LIMIT = 1e-12
B, T, D, H, R, DH, DR, DV = 3, 6, 7, 3, 8, 4, 2, 5
BASE = 100.0  # so that the slowest pair turns visibly within T positions


def draw(rotated=DR, seed=0, dtype=np.float64):
    """x and the weights, in the forward's order; wkr is None when nothing is rotated."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return (rng.standard_normal(shape) / math.sqrt(shape[-2])).astype(dtype)

    x = rng.standard_normal((B, T, D)).astype(dtype)
    wkr = normal(D, rotated) if rotated else None
    return [
        x,
        normal(D, R),
        normal(R, H * DH),
        normal(R, H * DV),
        normal(D, H * (DH + rotated)),
        wkr,
        normal(H * DV, D),
    ]


def forward(args, **options):
    return latent.latent_attention_forward(*args, n_heads=H, **options)


def close(got, expected):
    assert relative_error(got, expected) < LIMIT


@pytest.mark.parametrize("causal", [True, False])
def test_an_identity_latent_is_multi_head_attention(causal):
    """R = D, wdkv = 1, no rotated part: wuk and wuv are then wk and wv, gradients too."""
    rng = np.random.default_rng(1)
    x, wk, wv, wq = rng.standard_normal((B, T, D)), *rng.standard_normal((3, D, H * DH))
    wo = rng.standard_normal((H * DH, D))
    out, cache = forward([x, np.eye(D), wk, wv, wq, None, wo], causal=causal)
    expected, cache_mha = attention.attention_forward(x, wq, wk, wv, wo, n_heads=H, n_kv_heads=H, causal=causal)
    close(out, expected)
    dx, _, dwuk, dwuv, dwq, dwo = latent.latent_attention_backward(out, cache)
    for got, gradient in zip((dx, dwq, dwuk, dwuv, dwo), attention.attention_backward(out, cache_mha), strict=True):
        close(got, gradient)


def test_a_latent_is_attention_with_keys_and_values_of_low_rank():
    x, wdkv, wuk, _, wq, _, wo = draw(rotated=0)
    wuv, wo = np.random.default_rng(2).standard_normal((R, H * DH)), wo[: H * DH]
    out, cache = forward([x, wdkv, wuk, wuv, wq, None, wo])
    expected, cache_mha = attention.attention_forward(x, wq, wdkv @ wuk, wdkv @ wuv, wo, n_heads=H, n_kv_heads=H)
    close(out, expected)
    dx, dwdkv, dwuk, dwuv, dwq, dwo = latent.latent_attention_backward(out, cache)
    dx_mha, dwq_mha, dwk, dwv, dwo_mha = attention.attention_backward(out, cache_mha)
    for got, gradient in ((dx, dx_mha), (dwq, dwq_mha), (dwo, dwo_mha)):
        close(got, gradient)
    close(dwuk, wdkv.T @ dwk)
    close(dwuv, wdkv.T @ dwv)
    close(dwdkv, dwk @ wuk.T + dwv @ wuv.T)


def test_the_scale_is_that_of_the_whole_query():
    """With a rotated key of zeros only 1/√(Dh + Dr) is left of the rotated part."""
    x, wdkv, wuk, wuv, wq, wkr, wo = draw()
    out, _ = forward([x, wdkv, wuk, wuv, wq, 0 * wkr, wo], rope=rope.rope_table(T, DR, BASE))
    content = wq.reshape(D, H, DH + DR)[..., :DH].reshape(D, H * DH) * math.sqrt(DH / (DH + DR))
    close(out, forward([x, wdkv, wuk, wuv, content, None, wo])[0])


def test_without_a_latent_the_rotated_part_is_multi_query_attention():
    """wuk = 0 leaves one key of width Dr for all heads, rotated as in `attention_forward`."""
    x, wdkv, wuk, _, wq, wkr, wo = draw()
    table, rng = rope.rope_table(T, DR, BASE), np.random.default_rng(3)
    wv, wo = rng.standard_normal((R, DR)), wo[: H * DR]  # one value head, copied
    out, _ = forward([x, wdkv, 0 * wuk, np.tile(wv, H), wq, wkr, wo], rope=table)
    turned = wq.reshape(D, H, DH + DR)[..., DH:].reshape(D, H * DR) * math.sqrt(DR / (DH + DR))
    mqa, _ = attention.attention_forward(x, turned, wkr, wdkv @ wv, wo, n_heads=H, n_kv_heads=1, rope=table)
    close(out, mqa)


@pytest.mark.parametrize("layout", rope.LAYOUTS)
def test_scores_depend_on_relative_position_only(layout):
    args, table = draw(), rope.rope_table(T + 9, DR, BASE)
    out, _ = forward(args, rope=table, layout=layout)
    close(forward(args, rope=[t[9:] for t in table], layout=layout)[0], out)
    assert relative_error(forward(args, rope=[t[::2] for t in rope.rope_table(2 * T, DR, BASE)])[0], out) > 1e-3
    assert relative_error(forward(args)[0], out) > 1e-3


def test_a_token_sees_no_later_one():
    args, table = draw(), rope.rope_table(T, DR, BASE)
    whole, _ = forward(args, rope=table)
    close(forward([args[0][:, :4], *args[1:]], rope=table)[0], whole[:, :4])
    assert relative_error(forward(args, rope=table, causal=False)[0][:, :4], whole[:, :4]) > 1e-3


# ── decoding ──


def decode(args, steps, **options):
    """Tokens `steps` at a time through `latent_decode_step`: (all outputs, what is kept)."""
    x, *weights = args
    absorbed = latent.latent_absorb(*weights, n_heads=H)
    kept, outs, at = np.zeros((B, 0, absorbed[1].shape[1]), x.dtype), [], 0
    for S in steps:
        before = kept.copy()
        out, grown = latent.latent_decode_step(x[:, at : at + S], kept, *absorbed, n_heads=H, **options)
        assert np.array_equal(kept, before) and np.array_equal(grown[:, :at], before)
        kept, at = grown, at + S
        outs.append(out)
    return np.concatenate(outs, axis=1), kept


@pytest.mark.parametrize("steps", [(1,) * T, (T,), (3, 1, 2), (0, 4, 2)])
@pytest.mark.parametrize("layout", [*rope.LAYOUTS, None])
def test_absorbed_decoding_gives_the_same_output(steps, layout):
    args = draw(DR if layout else 0)
    options = {"rope": rope.rope_table(T, DR, BASE), "layout": layout} if layout else {}
    out, kept = decode(args, steps, **options)
    close(out, forward(args, **options)[0])
    close(kept[..., :R], args[0] @ args[1])
    assert kept.size == latent.latent_cache_floats(R, DR if layout else 0, T, batch=B)


def test_one_head_and_a_latent_of_one_number():
    x, wdkv, wuk, wuv, wq, _, wo = draw(rotated=0)
    weights = wdkv[:, :1], wuk[:1, :DH], wuv[:1, :DV], wq[:, :DH], None, wo[:DV]
    absorbed = latent.latent_absorb(*weights, n_heads=1)
    out, _ = latent.latent_decode_step(x, np.zeros((B, 0, 1)), *absorbed, n_heads=1)
    close(out, latent.latent_attention_forward(x, *weights, n_heads=1)[0])


def test_absorbed_weights_are_the_products():
    _, wdkv, wuk, wuv, wq, wkr, wo = draw()
    folded, wkv, out = latent.latent_absorb(wdkv, wuk, wuv, wq, wkr, wo, n_heads=H)
    assert np.array_equal(wkv, np.hstack([wdkv, wkr]))
    for h in range(H):
        query, head = wq[:, h * (DH + DR) :][:, : DH + DR] / math.sqrt(DH + DR), folded[:, h * (R + DR) :]
        close(head[:, :R], query[:, :DH] @ wuk[:, h * DH : (h + 1) * DH].T)
        close(head[:, R : R + DR], query[:, DH:])
        close(out[h * R : (h + 1) * R], wuv[:, h * DV : (h + 1) * DV] @ wo[h * DV : (h + 1) * DV])


def test_a_step_never_expands_the_keys():
    """A kept token costs 2·H·(2R + Dr) operations, and no product with a weight."""
    x, *weights = draw()
    absorbed = latent.latent_absorb(*weights, n_heads=H)
    costs = []
    for n in (10, 11):
        kept = np.random.default_rng(4).standard_normal((B, n, R + DR))
        step = x[:, :1], kept, *absorbed
        costs.append(account.counted_flops(latent.latent_decode_step, *step, n_heads=H)[1])
    assert costs[0]["weights"] == costs[1]["weights"] == B * 2 * sum(w.size for w in absorbed)
    assert costs[1]["attention"] - costs[0]["attention"] == B * 2 * H * (2 * R + DR)


def test_what_deepseek_v2_keeps():
    """512 + 64 numbers a token and layer: as little as GQA with 2.25 key heads, where 128 heads would keep 32768."""
    model = {"vocab_size": 102400, "d_model": 5120, "n_layers": 60, "n_heads": 128, "d_head": 128, "d_ff": 12288}
    full = account.kv_cache_bytes(Config(max_seq=4096, **model), 4096)
    assert latent.latent_cache_floats(512, 64) == 576
    assert 2 * latent.latent_cache_floats(512, 64, T=4096, n_layers=60) * 32768 == full * 576
    assert latent.latent_cache_floats(512, 64) / (2 * 128) == 2.25


# ── promises of every pair ──


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("rotated", [0, DR])
def test_the_dtype_stays_and_nothing_given_is_changed(dtype, scale, rotated):
    args, table = draw(rotated, dtype=dtype), rope.rope_table(T, DR, BASE) if rotated else None
    args[0] *= dtype(scale)
    copies = [None if a is None else a.copy() for a in args]
    out, cache = forward(args, rope=table)
    dout = np.ones_like(out)
    first, second = latent.latent_attention_backward(dout, cache), latent.latent_attention_backward(dout, cache)
    decoded, kept = decode(args, (2, 4), rope=table)
    assert {a.dtype for a in (out, decoded, kept, *first)} == {np.dtype(dtype)}
    assert all(np.isfinite(a).all() for a in (out, decoded, *first))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(a is b or np.array_equal(a, b) for a, b in zip(args, copies, strict=True)) and (dout == 1).all()
    assert [g.shape for g in first] == [a.shape for a in args if a is not None]


def wrong(**changes):
    """The call with one argument changed; a function is applied to the right one."""
    given = dict(zip(("x", "wdkv", "wuk", "wuv", "wq", "wkr", "wo"), draw(), strict=True)) | {"n_heads": H}
    given |= {name: value(given[name]) if callable(value) else value for name, value in changes.items()}
    return latent.latent_attention_forward(**given)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x": lambda x: x[0]}, "x must have 3 axes"),
        ({"x": lambda x: x[..., 1:]}, r"wdkv has shape \(7, 8\), expected \(6, 8\) = \[D, R\]"),
        ({"wdkv": [1.0]}, "wdkv must be a NumPy array of floats, got list"),
        ({"n_heads": 5}, "wuk has 12 columns, not divisible by n_heads=5"),
        ({"n_heads": 4}, "wuv has 15 columns, not divisible by n_heads=4"),
        ({"n_heads": 0}, "wuk has 12 columns, not divisible by n_heads=0"),
        ({"wuk": lambda w: w[1:]}, r"wuk has shape \(7, 12\), expected \(8, 12\) = \[R, H·Dh\]"),
        ({"wuv": lambda w: w[1:]}, r"wuv has shape \(7, 15\), expected \(8, 15\) = \[R, H·Dv\]"),
        ({"wq": lambda w: w[:, 1:]}, r"wq has shape \(7, 17\), expected \(7, 18\) = \[D, H·\(Dh \+ Dr\)\]"),
        ({"wkr": None}, r"wq has shape \(7, 18\), expected \(7, 12\)"),
        ({"wkr": lambda w: w[1:]}, r"wkr has shape \(6, 2\), expected \(7, 2\) = \[D, Dr\]"),
        ({"wkr": lambda w: w[:, :0], "wq": lambda w: w[:, :12]}, r"wkr has shape \(7, 0\), expected \(7, 1\)"),
        ({"wo": lambda w: w[1:]}, r"wo has shape \(14, 7\), expected \(15, 7\) = \[H·Dv, D\]"),
        (
            {"wkr": None, "wq": lambda w: w[:, :12], "rope": rope.rope_table(T, DR)},
            "rope is given, but wkr is None, so nothing is there to rotate",
        ),
        ({"rope": rope.rope_table(T - 1, DR)}, r"cos has shape \(5, 1\), expected at least \(6, 1\)"),
        ({"rope": rope.rope_table(T, DR), "layout": "other"}, "layout='other', expected one of"),
    ],
)
def test_a_wrong_call_is_told_what_was_expected(changes, said):
    with pytest.raises(ValueError, match=said):
        wrong(**changes)


def step(**changes):
    x, *weights = draw()
    wq, wkv, wo = latent.latent_absorb(*weights, n_heads=H)
    given = {"x": x[:, :1], "kept": np.zeros((B, 4, R + DR)), "wq": wq, "wkv": wkv, "wo": wo, "n_heads": H}
    given |= {name: value(given[name]) if callable(value) else value for name, value in changes.items()}
    return latent.latent_decode_step(**given)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x": lambda x: x[:, 0]}, "x must have 3 axes"),
        ({"kept": lambda k: k[..., 1:]}, r"kept has shape \(3, 4, 9\), expected \(3, 4, 10\) = \[B, n, R \+ Dr\]"),
        ({"kept": lambda k: k[1:]}, r"kept has shape \(2, 4, 10\), expected \(3, 4, 10\)"),
        ({"wq": lambda w: w[:, 1:]}, r"wq has shape \(7, 29\), expected \(7, 30\) = \[D, H·\(R \+ Dr\)\]"),
        ({"wkv": lambda w: w[1:]}, r"wkv has shape \(6, 10\), expected \(7, 10\) = \[D, R \+ Dr\]"),
        ({"n_heads": 2}, r"wo has 24 rows, expected n_heads=2 times R, R ≤ 10"),
        ({"n_heads": 5}, r"wo has 24 rows, expected n_heads=5 times R"),
        ({"rope": rope.rope_table(4, DR)}, r"rope has 4 rows, expected at least 5 = n \+ S"),
        ({"rope": rope.rope_table(5, 4)}, r"cos has shape \(1, 2\), expected at least \(1, 1\)"),
    ],
)
def test_a_wrong_step_is_told_what_was_expected(changes, said):
    with pytest.raises(ValueError, match=said):
        step(**changes)


def test_absorbing_wrong_weights_is_refused():
    _, *weights = draw()
    with pytest.raises(ValueError, match=r"latent_absorb: wo has shape \(14, 7\), expected \(15, 7\)"):
        latent.latent_absorb(*weights[:-1], weights[-1][1:], n_heads=H)


def test_a_wrong_upstream_is_refused():
    out, cache = forward(draw())
    with pytest.raises(ValueError, match=r"dout has shape \(3, 5, 7\), expected \(3, 6, 7\)"):
        latent.latent_attention_backward(out[:, 1:], cache)
