"""A model's settings as files spell them: config.json of Hugging Face and GGUF's fields, to and from Config."""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scratch._file import quote

ROPE_LAYOUT = "scratch_rope_layout"
"""Our own key in config.json: the layout that the parameters had when they were saved; other readers pass over it."""

_REQUIRED = object()


class _Keys(NamedTuple):
    """Settings that came from `path`, asked for by key; each answer has the type that was asked for."""

    path: Path
    values: dict
    prefix: str = ""

    def get(self, key, kind, default=_REQUIRED):
        value = self.values.get(self.prefix + key)
        if value is None:  # JSON's null means "not set"
            if default is _REQUIRED:
                raise ValueError(f"{self.path}: {self.prefix}{key} is missing")
            return default
        # bool is a kind of int to Python, and JSON may write a whole float without a point.
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits or (kind is float and not 0 < value <= sys.float_info.max):
            expected = {int: "an integer", float: "a positive number", bool: "true or false", str: "a string"}[kind]
            raise ValueError(f"{self.path}: {self.prefix}{key} is {quote(value)}, expected {expected}")
        return kind(value)

    def only(self, key, *supported):
        """Refuse a setting that is there and not among those that scratch computes."""
        value = self.values.get(self.prefix + key)
        # An array compares element by element, so it is asked about first.
        if value is not None and (isinstance(value, np.ndarray) or value not in supported):
            choices = " or ".join(map(quote, supported)) or "none"
            raise ValueError(f"{self.path}: {self.prefix}{key} is {quote(value)}, but scratch supports {choices} only")


def settings_from_json(path, values):
    """(family, Config's keyword arguments) from the object of a config.json.

    family : "llama", "qwen2" (Llama with biases at q, k and v) or "gpt2"
    tied may be None in the arguments: the file does not say, so the tensors decide.

    Raises ValueError, which names the key, for what scratch does not compute: another activation, RoPE scaling, a
    sliding window, …
    """
    keys = _Keys(path, values)
    keys.only("quantization_config")
    model_type = keys.get("model_type", str)
    if model_type == "gpt2":
        return "gpt2", _gpt2_from_json(keys)
    if model_type in ("llama", "mistral", "qwen2"):
        return "qwen2" if model_type == "qwen2" else "llama", _llama_from_json(keys, model_type)
    raise ValueError(
        f"{path}: model_type is {quote(model_type)}, but scratch supports llama, mistral, qwen2, gpt2 only"
    )


def _llama_from_json(keys, model_type):
    keys.only("hidden_act", "silu")
    keys.only("mlp_bias", False)
    if model_type == "qwen2":
        keys.only("use_sliding_window", False)
    else:
        # Mistral's window is 4096 where its file does not say null.
        if model_type == "mistral" and "sliding_window" not in keys.values:
            raise ValueError(f"{keys.path}: sliding_window is missing, which means 4096; scratch supports null only")
        keys.only("sliding_window")
    layers = keys.values.get("layer_types")
    if layers is not None and (not isinstance(layers, list) or any(kind != "full_attention" for kind in layers)):
        raise ValueError(f"{keys.path}: layer_types is {quote(layers)}, but scratch supports 'full_attention' only")
    D, H = keys.get("hidden_size", int), keys.get("num_attention_heads", int)
    return {
        "vocab_size": keys.get("vocab_size", int),
        "d_model": D,
        "n_layers": keys.get("num_hidden_layers", int),
        "n_heads": H,
        "n_kv_heads": keys.get("num_key_value_heads", int, H),
        "d_ff": keys.get("intermediate_size", int),
        "max_seq": keys.get("max_position_embeddings", int),
        "d_head": _own_width(keys, "head_dim", D, H),
        "tied": keys.get("tie_word_embeddings", bool, None),
        "bias": model_type == "qwen2" or keys.get("attention_bias", bool, False),
        "eps": keys.get("rms_norm_eps", float, 1e-6),
        "rope_base": _rope_base(keys),
        "rope_layout": "half",
    }


def _own_width(keys, key, D, H):
    """A head's width where it is not D / H, which Config computes by itself, else None."""
    width = keys.get(key, int, None)
    if width is not None and width < 1:
        raise ValueError(f"{keys.path}: {keys.prefix}{key} is {width}, expected a positive integer")
    return None if width is None or width * H == D else width


def _rope_base(keys):
    """θ, from the top level (transformers 4) or from rope_parameters (5); any scaling is refused."""
    base = keys.get("rope_theta", float, 10000.0)
    keys.only("partial_rotary_factor", 1)
    for name in ("rope_scaling", "rope_parameters"):
        inner = keys.values.get(name)
        if inner is None:
            continue
        plain = isinstance(inner, dict) and inner.keys() <= {"rope_theta", "rope_type", "type", "partial_rotary_factor"}
        if not plain or any(inner.get(key, "default") != "default" for key in ("rope_type", "type")):
            raise ValueError(f"{keys.path}: {name} is {quote(inner)}, but scratch supports rope_type 'default' only")
        inner = _Keys(keys.path, inner)
        inner.only("partial_rotary_factor", 1)
        base = inner.get("rope_theta", float, base)
    return base


def _gpt2_from_json(keys):
    keys.only("activation_function", "gelu_new", "gelu_pytorch_tanh")
    keys.only("scale_attn_weights", True)
    keys.only("scale_attn_by_inverse_layer_idx", False)
    keys.only("add_cross_attention", False)
    D = keys.get("n_embd", int)
    return _gpt2(
        vocab_size=keys.get("vocab_size", int),
        d_model=D,
        n_layers=keys.get("n_layer", int),
        n_heads=keys.get("n_head", int),
        d_ff=keys.get("n_inner", int, 4 * D),
        max_seq=keys.get("n_positions", int),
        tied=keys.get("tie_word_embeddings", bool, True),
        eps=keys.get("layer_norm_epsilon", float, 1e-5),
    )


def _gpt2(**settings):
    return settings | {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True}


def settings_from_gguf(gguf):
    """(family, Config's keyword arguments) from the fields of a `gguf_file.GGUF`; tied is left to the tensors."""
    values = {key: field.value for key, field in gguf.fields.items()}
    arch = _Keys(gguf.path, values).get("general.architecture", str)
    if arch not in ("llama", "gpt2"):
        raise ValueError(f"{gguf.path}: general.architecture is {quote(arch)}, but scratch supports llama, gpt2 only")
    keys = _Keys(gguf.path, values, arch + ".")
    table = gguf.tensors.get("token_embd.weight")
    rows = table.shape[0] if table is not None and table.shape else _REQUIRED
    shared = {
        "vocab_size": keys.get("vocab_size", int, rows),
        "d_model": keys.get("embedding_length", int),
        "n_layers": keys.get("block_count", int),
        "n_heads": keys.get("attention.head_count", int),
        "d_ff": keys.get("feed_forward_length", int),
        "max_seq": keys.get("context_length", int),
        "tied": None,
    }
    if arch == "gpt2":
        return arch, _gpt2(**shared, eps=_shortest(keys.get("attention.layer_norm_epsilon", float)))
    return arch, shared | _llama_from_gguf(keys, gguf.tensors, shared)


def _llama_from_gguf(keys, tensors, shared):
    keys.only("expert_count", 0)
    keys.only("rope.scaling.type", "none")
    keys.only("rope.scale_linear", 1)
    keys.only("attention.sliding_window", 0)
    if "rope_freqs.weight" in tensors:
        raise ValueError(f"{keys.path}: tensor 'rope_freqs.weight' scales RoPE, which scratch does not support")
    D, H = shared["d_model"], shared["n_heads"]
    d_head = _own_width(keys, "attention.key_length", D, H)
    Dh = d_head or D // max(H, 1)
    keys.only("attention.value_length", Dh)
    keys.only("rope.dimension_count", Dh)
    return {
        "n_kv_heads": keys.get("attention.head_count_kv", int, H),
        "d_head": d_head,
        "bias": "blk.0.attn_q.bias" in tensors,
        "eps": _shortest(keys.get("attention.layer_norm_rms_epsilon", float)),
        "rope_base": _shortest(keys.get("rope.freq_base", float, 10000.0)),
        "rope_layout": "interleaved",
    }


def _shortest(value):
    """The number that was meant: the file keeps a float32, and its shortest decimal is what was written down."""
    return float(str(np.float32(value)))


def family_of(config):
    """ "llama" or "gpt2", whichever computes what config says; ValueError where neither does."""
    styles = {
        "llama": {"norm": "rmsnorm", "ffn": "swiglu", "pos": "rope"},
        "gpt2": {"norm": "layernorm", "ffn": "gelu", "pos": "learned", "bias": True, "n_kv_heads": config.n_heads},
    }
    family = "llama" if config.norm == "rmsnorm" else "gpt2"
    for name, expected in (styles[family] | {"form": "pre-norm", "causal": True}).items():
        if (value := getattr(config, name, expected)) != expected:
            raise ValueError(f"Config: {name}={value!r}, but {family}'s format has {name}={expected!r} only")
    if family == "gpt2" and config.head_dim * config.n_heads != config.d_model:
        raise ValueError(f"Config: d_head={config.d_head}, but gpt2's format has d_model / n_heads only")
    return family


def settings_to_json(config, dtype):
    """The object of a config.json that says what config says; dtype names the weights' type. See `family_of`."""
    family = family_of(config)
    # Which ids begin and end a text is the tokenizer's business; the formats' defaults may lie outside the vocabulary.
    shared = {
        "model_type": family,
        "vocab_size": int(config.vocab_size),
        "tie_word_embeddings": bool(config.tied),
        "torch_dtype": dtype,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if family == "gpt2":
        return shared | {
            "architectures": ["GPT2LMHeadModel"],
            "n_embd": int(config.d_model),
            "n_layer": int(config.n_layers),
            "n_head": int(config.n_heads),
            "n_inner": int(config.d_ff),
            "n_positions": int(config.max_seq),
            "activation_function": "gelu_new",
            "layer_norm_epsilon": float(config.eps),
        }
    return shared | {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": int(config.d_model),
        "num_hidden_layers": int(config.n_layers),
        "num_attention_heads": int(config.n_heads),
        "num_key_value_heads": int(config.n_kv_heads),
        "head_dim": int(config.head_dim),
        "intermediate_size": int(config.d_ff),
        "max_position_embeddings": int(config.max_seq),
        "hidden_act": "silu",
        "rms_norm_eps": float(config.eps),
        "rope_theta": float(config.rope_base),
        "attention_bias": bool(config.bias),
        "mlp_bias": False,
        ROPE_LAYOUT: config.rope_layout,
    }
