"""Checkpoints: another library's models give its logits, round trips are exact, tensors that do not fit are named."""

import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scratch.checkpoint import load, save, to_layout
from scratch.model import Config, init_params, model_forward
from scratch.safetensors_file import read_safetensors, write_safetensors

REFERENCE = Path(__file__).parent / "reference"
EXPECTED = dict(np.load(REFERENCE / "expected.npz"))  # plain arrays, read as such
CHECKPOINTS = sorted({key.rsplit("/", 1)[0] for key in EXPECTED})

# ---------------------------------------------------------------- another library's checkpoints


def logits(name, params, config):
    return model_forward(EXPECTED[f"{name}/ids"], params, config)[0]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_logits_are_those_of_the_library_that_wrote_the_checkpoint(name):
    """Reference: transformers 5.24 on PyTorch 2.13 in float32; see tests/reference/make_checkpoints.py."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing in the file is left over
        params, config = load(REFERENCE / name)
    out = logits(name, params, config)
    assert out.dtype == np.float32
    assert np.abs(out - EXPECTED[f"{name}/logits"]).max() < 1e-5


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2"])
def test_every_tensor_of_the_reference_checkpoints_matters(name):
    """Otherwise a wrong name or order could hide: each one altered alone moves the logits."""
    params, config = load(REFERENCE / name)
    right = logits(name, params, config)
    for path, leaf in leaves(params):
        if path[-1] == "bk" and config.pos == "learned":
            continue  # it adds the same to all of a query's scores, and softmax does not see that
        kept = leaf.copy()
        leaf[...] = np.roll(leaf, 1, axis=-1) + 0.1 if path[-1] == "g" else -leaf if leaf.any() else 0.3
        assert np.abs(logits(name, params, config) - right).max() > 1e-3, path
        leaf[...] = kept


def test_what_the_configs_say():
    gpt2, llama, gguf, qwen2 = (load(REFERENCE / n)[1] for n in ("gpt2", "llama", "llama-tied-F32.gguf", "qwen2"))
    style = {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True}
    assert gpt2 == Config(vocab_size=61, d_model=32, n_heads=4, d_ff=40, max_seq=16, **style)
    shared = {"n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "max_seq": 16}
    assert llama == Config(
        vocab_size=59, d_model=20, d_head=6, d_ff=28, tied=False, bias=True, eps=0.003, rope_base=500.0,
        rope_layout="half", **shared
    )  # fmt: skip
    assert gguf == Config(vocab_size=64, d_model=32, d_ff=64, eps=1e-6, rope_layout="interleaved", **shared)
    assert qwen2 == Config(vocab_size=53, d_model=16, d_ff=24, bias=True, eps=1e-6, rope_layout="half", **shared)


def test_one_model_from_both_formats_differs_by_the_layout_alone():
    half, config = load(REFERENCE / "llama-tied")
    turned, turned_config = to_layout(half, config, "interleaved")
    same_tree(turned, load(REFERENCE / "llama-tied-F32.gguf")[0])
    assert turned_config == load(REFERENCE / "llama-tied-F32.gguf")[1]
    same_tree(load(REFERENCE / "gpt2")[0], load(REFERENCE / "gpt2-F32.gguf")[0])


def test_one_shard_alone_and_a_config_of_ones_own(tmp_path):
    shutil.copy(REFERENCE / "llama" / "model.safetensors", tmp_path)
    params, config = load(REFERENCE / "llama")
    given = replace(config, rope_layout="interleaved")  # the format knows better
    again, again_config = load(tmp_path / "model.safetensors", config=given)
    same_tree(params, again)
    assert again_config == config
    with pytest.raises(ValueError, match="no config.json beside it"):
        load(tmp_path)
    with pytest.raises(ValueError, match="is a GGUF file and has its own"):
        load(REFERENCE / "gpt2-F32.gguf", config=config)
    with pytest.raises(ValueError, match="config.n_layers=1000000000"):
        load(tmp_path / "model.safetensors", config=replace(config, n_layers=10**9))
    with pytest.raises(ValueError, match="expected float16, float32 or float64"):
        load(REFERENCE / "llama", dtype=np.int32)


# ---------------------------------------------------------------- round trips

LLAMA = Config(vocab_size=7, d_model=6, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=5, max_seq=8, d_head=2, tied=False)
GPT2 = Config(
    vocab_size=7, d_model=6, n_layers=2, n_heads=3, d_ff=5, max_seq=8, norm="layernorm", ffn="gelu", pos="learned",
    bias=True
)  # fmt: skip
TRIPS = {
    "Llama, untied, GQA, own head width": LLAMA,
    "Llama, tied, MQA, half": replace(LLAMA, n_kv_heads=1, tied=True, d_head=4, rope_layout="half", rope_base=123.4),
    "Llama with biases": replace(LLAMA, bias=True, d_model=8, d_head=None, eps=3e-7),
    "GPT-2": GPT2,
    "GPT-2, untied": replace(GPT2, tied=False),
    "no layers": replace(LLAMA, n_layers=0),
}


def leaves(tree, path=()):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    return [(path, tree)] if items is None else [leaf for k, v in items for leaf in leaves(v, (*path, k))]


def same_tree(a, b):
    a, b = dict(leaves(a)), dict(leaves(b))
    assert a.keys() == b.keys()
    for path, x in a.items():
        assert x.dtype == b[path].dtype and x.shape == b[path].shape, path
        assert x.tobytes() == b[path].tobytes(), path


def random_params(config, dtype):
    rng = np.random.default_rng(0)
    params = init_params(config, dtype=dtype)
    for _, leaf in leaves(params):
        leaf[...] = rng.standard_normal(leaf.shape)
    return params


@pytest.mark.parametrize("config", TRIPS.values(), ids=TRIPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_saved_and_loaded_bit_for_bit(tmp_path, config, dtype):
    params = random_params(config, dtype)
    before = [leaf.tobytes() for _, leaf in leaves(params)]
    save(params, config, tmp_path / "new" / "folder")
    again, again_config = load(tmp_path / "new" / "folder", dtype=dtype)
    assert again_config == config
    same_tree(params, again)
    assert [leaf.tobytes() for _, leaf in leaves(params)] == before
    assert all(leaf.flags.writeable for _, leaf in leaves(again))
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("kind", ["F64", "F32", "F16", "BF16"])
def test_kinds_round_once(tmp_path, kind):
    params = random_params(GPT2, np.float64)
    save(params, GPT2, tmp_path, kind=kind)
    once, _ = load(tmp_path, dtype=np.float64)
    bits = {"F64": 53, "F32": 24, "F16": 11, "BF16": 8}[kind]
    for (_, x), (_, y) in zip(leaves(params), leaves(once)):
        assert np.allclose(x, y, rtol=2.0**-bits, atol=1e-7 * (bits == 11))
    save(once, GPT2, tmp_path, kind=kind)
    same_tree(once, load(tmp_path, dtype=np.float64)[0])


def test_bf16_rounds_to_nearest_and_ties_to_even(tmp_path):
    path, step = tmp_path / "x.safetensors", 2.0**-7
    x = np.array(
        [1, 1 + step / 2, 1 + 3 * step / 2, 1 + 0.51 * step, -(1 + step / 2), 0, -0.0, np.inf, -np.inf, np.nan]
    )
    right = np.array([1, 1, 1 + 2 * step, 1 + step, -1, 0, -0.0, np.inf, -np.inf, np.nan])
    write_safetensors(path, {"x": x}, kind="BF16")
    back = read_safetensors(path)[0]["x"].read(np.float64)
    assert np.array_equal(back, right, equal_nan=True) and np.signbit(back[6])
    for kind, big in (("BF16", 3.4e38), ("F16", 65520.0), ("F32", 1e39)):
        with pytest.raises(
            ValueError, match=f"x: {big:g} is too large for {kind if kind == 'BF16' else 'float'}".replace("+", r"\+")
        ):
            write_safetensors(path, {"x": np.array([big])}, kind=kind)
    assert np.array_equal(read_safetensors(path)[0]["x"].read(np.float64), back, equal_nan=True)  # the old file stays
    assert list(tmp_path.iterdir()) == [path]
    write_safetensors(path, {"x": np.array([1e39])})
    with pytest.raises(ValueError, match="too large for float32"):
        read_safetensors(path)[0]["x"].read(np.float32)


def test_every_tensor_starts_at_a_multiple_of_its_width(tmp_path):
    arrays = {
        "a": np.zeros(3, np.float16),
        "b": np.ones((2, 3)).T,
        "c": np.full((), 2, np.float32),
        "d": np.ones((0, 4)),
    }
    write_safetensors(tmp_path / "x", arrays, {"format": "pt"})
    found, metadata = read_safetensors(tmp_path / "x")
    assert metadata == {"format": "pt"}
    for name, array in arrays.items():
        assert np.array_equal(found[name].read(array.dtype), array) and found[name].shape == array.shape
        assert found[name].raw.__array_interface__["data"][0] % array.itemsize == 0


WRONG_SAVES = {
    "an encoder": (replace(LLAMA, causal=False), {}, "causal=False, but llama's format has causal=True only"),
    "post-norm": (replace(GPT2, form="post-norm"), {}, "form='post-norm', but gpt2's format has form='pre-norm' only"),
    "a mixture": (replace(LLAMA, norm="layernorm"), {}, "ffn='swiglu', but gpt2's format has ffn='gelu' only"),
    "GPT-2 without biases": (replace(GPT2, bias=False), {}, "bias=False, but gpt2's format has bias=True only"),
    "GPT-2 with a wide head": (replace(GPT2, d_head=4), {}, "d_head=4, but gpt2's format has d_model / n_heads only"),
    "a leaf too few": (LLAMA, {"norm": {}}, "save: params.norm holds 'dict', expected ['g']"),
    "a wrong shape": (LLAMA, {"norm": {"g": np.ones(5)}}, "save: params.norm.g has shape (5,), expected (6,)"),
    "integers": (
        LLAMA,
        {"norm": {"g": np.ones(6, int)}},
        "params.norm.g must be a NumPy array of floats, got dtype int64",
    ),
}


@pytest.mark.parametrize("config, change, message", WRONG_SAVES.values(), ids=WRONG_SAVES)
def test_what_cannot_be_saved(tmp_path, config, change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        save(init_params(config) | change, config, tmp_path)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- names that are in the file, and that are not


def altered(tmp_path, name, change):
    """A folder with a reference checkpoint whose tensors {name: array} went through change(tensors)."""
    arrays = {key: t.read(np.float32) for key, t in read_safetensors(REFERENCE / name / "model.safetensors")[0].items()}
    change(arrays)
    write_safetensors(tmp_path / "model.safetensors", arrays)
    shutil.copy(REFERENCE / name / "config.json", tmp_path)
    return tmp_path


def test_unknown_tensors_are_listed_by_name_in_one_warning(tmp_path):
    extra = {"model.layers.0.self_attn.q_norm.weight": np.ones(3), "model.layers.7.mlp.up_proj.weight": np.ones((2, 2))}
    folder = altered(tmp_path, "llama", lambda arrays: arrays.update(extra))
    with pytest.warns(UserWarning) as caught:
        params, _ = load(folder)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert "2 tensors belong to no parameter and were not read: " in str(caught[0].message)
    assert all(repr(name) in str(caught[0].message) for name in extra)
    same_tree(params, load(REFERENCE / "llama")[0])


def test_known_buffers_a_missing_prefix_and_a_repeated_head_are_silent(tmp_path):
    def change(arrays):
        bare = {name.removeprefix("transformer."): array for name, array in arrays.items()}
        arrays.clear()
        arrays.update(bare | {"h.0.attn.bias": np.ones((1, 1, 16, 16)), "h.1.attn.masked_bias": np.array(-1e4)})
        arrays["lm_head.weight"] = bare["wte.weight"]

    params, config = load(altered(tmp_path, "gpt2", change))
    assert config.tied
    same_tree(params, load(REFERENCE / "gpt2")[0])


WRONG_TENSORS = {
    "missing": ("llama", lambda a: a.pop("model.layers.1.self_attn.o_proj.bias"),
                "model.safetensors: tensor layers.1.self_attn.o_proj.bias is missing"),
    "many missing": ("llama", lambda a: [a.pop(n) for n in list(a) if "layers.1" in n], "is missing (and 12 more)"),
    "no head": ("llama", lambda a: a.pop("lm_head.weight"), "tensor lm_head.weight is missing"),
    "transposed": ("llama", lambda a: a.update({"lm_head.weight": a["lm_head.weight"].T}),
                   "tensor lm_head.weight has shape (20, 59), expected (59, 20)"),
    "fused and transposed": ("gpt2", lambda a: a.update({(n := "transformer.h.0.attn.c_attn.weight"): a[n].T}),
                             "h.0.attn.c_attn.weight has shape (96, 32), expected (32, 96)"),
    "doubled": ("gpt2", lambda a: a.update({"wpe.weight": np.ones(2)}), "'wpe.weight' and 'transformer.wpe.weight'"),
    "a tied head that differs": ("gpt2", lambda a: a.update({"lm_head.weight": np.ones((61, 32))}),
                                 "says that the head is tied, but lm_head.weight differs from the table"),
}  # fmt: skip


@pytest.mark.parametrize("name, change, message", WRONG_TENSORS.values(), ids=WRONG_TENSORS)
def test_tensors_that_do_not_fit(tmp_path, name, change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load(altered(tmp_path, name, change))
