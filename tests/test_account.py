"""The cost formulas against what scratch really multiplies and keeps, and against published counts."""

import numpy as np
import pytest

from scratch import account
from scratch.config import PRESETS, Config, param_shapes
from scratch.gradcheck import leaves
from scratch.model import init_params, loss_backward, loss_forward, model_forward

rng = np.random.default_rng(5)
STYLES = {
    "mha swiglu tied": {},
    "gqa swiglu untied": {"n_kv_heads": 2, "tied": False},
    "mqa gelu tied": {"n_kv_heads": 1, "ffn": "gelu"},
    "gpt2": {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True},
    "wide heads": {"d_head": 10, "n_kv_heads": 3, "n_heads": 6},
    "parallel": {"form": "parallel", "n_kv_heads": 2},
    "post-norm": {"form": "post-norm"},
}
B, T = 3, 7


def config_of(style):
    return Config(**{"vocab_size": 13, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 11, "max_seq": 9, **style})


def test_published_counts_to_the_integer():
    expected = {
        "gpt2-small": 124_439_808,
        "llama2-7b": 6_738_415_616,
        "llama3-8b": 8_030_261_248,
        "smollm2-135m": 134_515_008,
    }
    assert {name: account.count_params(PRESETS[name]) for name in expected} == expected


@pytest.mark.parametrize("name", ["tiny", "gpt2-small", "smollm2-135m"])
def test_count_is_the_sum_of_the_arrays_sizes(name):
    params = init_params(PRESETS[name])
    assert account.count_params(PRESETS[name]) == sum(w.size for _, w in leaves(params))


@pytest.mark.parametrize("style", STYLES)
def test_an_operation_counter_agrees_exactly(style):
    config = config_of(STYLES[style])
    params = init_params(config)
    ids, targets = rng.integers(0, 13, (2, B, T))

    _, forward = account.counted_flops(model_forward, ids, params, config)
    assert sum(forward.values()) == B * T * account.flops_per_token(config, T)

    def both(params):
        loss, cache = loss_forward(ids, targets, params, config)
        return loss_backward(1.0, cache)

    grads, total = account.counted_flops(both, params)
    assert sum(total.values()) == B * T * account.flops_per_token(config, T, backward=True)
    visible = T * (T + 1) // 2  # of the T × T pairs that were multiplied
    assert total["attention"] % T**2 == 0
    causal = total["weights"] + total["attention"] // T**2 * visible
    assert causal == B * T * account.flops_per_token(config, T, backward=True, causal=True)
    plain = both(params)
    for (name, counted), (_, expected) in zip(leaves(grads), leaves(plain), strict=True):
        assert np.array_equal(counted, expected), name


@pytest.mark.parametrize("style", STYLES)
def test_the_parts_add_up_to_what_is_counted(style):
    config = config_of(STYLES[style])
    parts = account.flops_by_part(config, T)
    _, counts = account.counted_flops(model_forward, rng.integers(0, 13, (1, T)), init_params(config), config)
    assert parts.pop("scores") * T == counts["attention"]
    assert sum(parts.values()) * T == counts["weights"]
    block = account.count_block(config)
    if not config.bias:
        assert [parts["projections"], parts["ffn"]] == [2 * 2 * block["attn"], 2 * 2 * block["ffn"]]
    visible = account.flops_by_part(config, T, causal=True)
    assert sum(visible.values()) == account.flops_per_token(config, T, causal=True)


@pytest.mark.parametrize("T", [128, 129, 256, 300])
def test_a_long_causal_attention_leaves_hidden_pieces_out(T):
    config = config_of({"max_seq": T})
    params, ids = init_params(config), rng.integers(0, 13, (1, T))

    def both(params):
        return loss_backward(1.0, loss_forward(ids, ids, params, config)[1])

    _, forward = account.counted_flops(model_forward, ids, params, config)
    _, total = account.counted_flops(both, params)
    last = [min(i + 128, T) for i in range(0, T, 128)]  # the keys that a piece of at most 128 queries meets
    pairs = sum((j - i) * j for i, j in zip([0, *last], last, strict=False))
    assert forward["attention"] == 4 * config.n_layers * config.d_model * pairs
    assert total["attention"] == 3 * forward["attention"] and total["weights"] == 3 * forward["weights"]


def test_a_counter_that_misses_a_product_is_seen():
    config = config_of({})
    params = init_params(config)
    params["blocks"][0]["ffn"]["wd"] = params["blocks"][0]["ffn"]["wd"][:-1]
    params["blocks"][0]["ffn"]["wg"] = params["blocks"][0]["ffn"]["wg"][:, :-1]
    params["blocks"][0]["ffn"]["wu"] = params["blocks"][0]["ffn"]["wu"][:, :-1]
    _, counts = account.counted_flops(model_forward, np.zeros((1, T), int), params, config)
    assert sum(counts.values()) == T * account.flops_per_token(config, T) - 2 * 3 * 16 * T


def test_parts_of_a_block():
    D, H, K, F = 24, 6, 2, 40
    part = account.count_block(Config(d_model=D, n_heads=H, n_kv_heads=K, d_ff=F))
    assert part == {"attn": D * D + 2 * D * K * (D // H) + D * D, "ffn": 3 * D * F, "norms": 2 * D}
    assert account.count_block(Config(d_model=D, n_heads=H, form="parallel"))["norms"] == D


def test_kv_cache():
    config = PRESETS["llama3-8b"]
    assert account.kv_cache_bytes(config, 1) == 2 * 32 * 8 * 128 * 2
    assert account.kv_cache_bytes(config, 8192, batch=4, bytes_per_value=1) == 2 * 32 * 8 * 128 * 8192 * 4


def test_a_decoding_step_reads_every_weight_that_is_multiplied_or_added():
    for name in ("llama2-7b", "smollm2-135m", "gpt2-small"):
        config = PRESETS[name]
        read = account.decode_bytes(config, 100, batch=3, bytes_per_value=4)
        assert read["cache"] == account.kv_cache_bytes(config, 100, batch=3, bytes_per_value=4)
        shapes = param_shapes(config)
        if not config.tied:
            del shapes["embed"]
        shapes.pop("pos", None)
        assert read["weights"] == 4 * sum(np.prod(shape) for shape in _shapes(shapes))


def _shapes(tree):
    if isinstance(tree, tuple):
        return [tree]
    return [shape for part in (tree.values() if isinstance(tree, dict) else tree) for shape in _shapes(part)]


def test_activations_follow_korthikanti():
    config = Config(d_model=6144, n_heads=64, n_layers=1)  # the paper's 22B model: h = 6144, a = 64, s = 2048
    s, b, h, a = 2048, 4, 6144, 64
    assert account.activation_bytes(config, s, b) == pytest.approx(s * b * h * (34 + 5 * a * s / h))


def test_training_state_is_sixteen_bytes_a_parameter():
    assert account.training_state_bytes(PRESETS["llama2-7b"]) == 16 * 6_738_415_616


def test_cache_bytes_counts_each_array_once_and_no_parameter():
    a, w = np.zeros((4, 5)), np.zeros((5, 6))
    assert account.cache_bytes((a, a.T, (a[1:], w)), {"w": w}) == a.nbytes
    config = config_of({})
    params = init_params(config)
    ids = rng.integers(0, 13, (B, T))
    _, cache = model_forward(ids, params, config)
    bytes_two = account.cache_bytes(cache, params)
    assert bytes_two > B * T * 16 * 4 * config.n_layers
    _, cache = model_forward(ids[:1], params, config)
    assert account.cache_bytes(cache, params) < bytes_two / 2


def test_a_sequence_of_no_tokens_has_no_cost_per_token():
    with pytest.raises(ValueError, match="flops_per_token: T=0, expected at least 1 token"):
        account.flops_per_token(PRESETS["tiny"], 0)
