"""The counter: what a model of any configuration costs, exactly and by part: parameters, operations, bytes, time."""

import math
import numbers
from dataclasses import asdict, replace

from scratch import account
from scratch.config import PRESETS, Config, param_shapes
from widgets import base

NAMES = {
    "tiny": "a tiny model",
    "gpt2-small": "GPT-2 small",
    "smollm2-135m": "SmolLM2-135M",
    "llama2-7b": "Llama 2 7B",
    "llama3-8b": "Llama 3 8B",
}
SIZES = ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff", "max_seq")
FREE = ("causal", "eps", "rope_base", "rope_layout")  # what costs nothing
LARGEST = 2**53 - 1  # whole numbers up to here reach the script unharmed


def counter(config="gpt2-small", *, T=None, batch=1, value_bytes=2, terabytes=3.35, teraflops=989.0):
    """Show the counter.

    Parameters
    ----------
    config : the name of one of `scratch.model.PRESETS`, or a Config
    T : int, tokens in each sequence; the model's longest text if left out
    batch : int, sequences
    value_bytes : 1, 2 or 4, for each number of the weights and of the cache when decoding
    terabytes, teraflops : what the machine reads (10^12 bytes) and computes (10^12 operations) in a second, at best

    Returns
    -------
    The widget. Its values: config (a dict), T, batch, value_bytes, terabytes, teraflops, and what its operations are:
    visible (pairs only), backward (too).
    """
    config = _config(config)
    T, batch = _whole("T", config.max_seq if T is None else T), _whole("batch", batch)
    for name, value in _sizes(config).items():
        _whole(name, value, 0)  # Config asks for 1 where it has to be
    if value_bytes not in (1, 2, 4):
        raise ValueError(f"counter: value_bytes={value_bytes!r}, expected 1, 2 or 4")
    for name, value in (("terabytes", terabytes), ("teraflops", teraflops)):
        if not isinstance(value, numbers.Real) or not 0 < value < math.inf:
            raise ValueError(f"counter: {name}={value!r}, expected a positive number")
    words = _words(config, T, batch, value_bytes, terabytes, teraflops)
    data = {"presets": [{"name": NAMES[name], "config": _fields(preset)} for name, preset in PRESETS.items()]}
    work = {"T": T, "batch": batch, "value_bytes": value_bytes, "visible": False, "backward": False}
    machine = {"terabytes": float(terabytes), "teraflops": float(teraflops)}
    return base.show("counter", "What a model costs", words, data, config=_fields(config), **work, **machine)


def bills(config, T, batch=1, value_bytes=2):
    """What scratch counts, {bill: {part: whole number}}: the numbers that the script must show."""
    block, L = account.count_block(replace(config, n_layers=1)), config.n_layers
    ends = {name: shape for name, shape in param_shapes(config).items() if name != "blocks"}
    end = {name: sum(map(math.prod, leaves.values())) for name, leaves in ends.items()}
    N, linear = account.count_params(config), 34 * L * T * batch * config.d_model
    return {
        "parameters": {
            "token table": end["embed"],
            "positions": end.get("pos", 0),
            "attention": L * block["attn"],
            "feed-forward": L * block["ffn"],
            "norms": L * block["norms"] + end.get("norm", 0),
            "head": end.get("head", 0),
        },
        "operations": _operations(config, T, causal=False),
        "visible": _operations(config, T, causal=True),
        "cache": dict.fromkeys(("keys", "values"), account.kv_cache_bytes(config, T, batch, value_bytes) // 2),
        "training": {
            "weights": 2 * N,
            "gradients": 2 * N,
            "copy of the weights": 4 * N,
            "Adam's averages": account.training_state_bytes(config) - 8 * N,
            "activations, scores": account.activation_bytes(config, T, batch) - linear,
            "activations, all else": linear,
            "logits": 4 * batch * T * config.vocab_size,
        },
        "step": account.decode_bytes(config, T, batch, value_bytes),
    }


def _operations(config, T, causal):
    names = {"projections": "projections", "scores": "scores and mixing", "ffn": "feed-forward", "head": "head"}
    return {names[part]: count for part, count in account.flops_by_part(config, T, causal).items()}


def _whole(name, value, least=1):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= value <= LARGEST:
        raise ValueError(f"counter: {name}={value!r}, expected a whole number from {least} to {LARGEST:,}")
    return int(value)


def _config(config):
    if isinstance(config, str) and config in PRESETS:
        return PRESETS[config]
    if not isinstance(config, Config):
        raise ValueError(f"counter: config={config!r}, expected a Config or one of {', '.join(map(repr, PRESETS))}")
    return config


def _fields(config):
    """The fields that decide a cost, in plain numbers."""
    plain = {name: value for name, value in asdict(config).items() if name not in FREE}
    return plain | _sizes(config)


def _sizes(config):
    """Its whole numbers, without a head width that is left out."""
    return {name: int(getattr(config, name)) for name in SIZES if getattr(config, name) is not None}


def _words(config, T, batch, value_bytes, terabytes, teraflops):
    """The totals, before a script has run; the script renews them."""
    count = bills(config, T, batch, value_bytes)
    read = sum(count["step"].values()) / (terabytes * 1e12)
    work = batch * sum(count["operations"].values()) / (teraflops * 1e12)
    rows = {
        "parameters": sum(count["parameters"].values()),
        "operations of a token, all pairs": sum(count["operations"].values()),
        "operations of a token, visible pairs": sum(count["visible"].values()),
        "bytes of the key/value cache": sum(count["cache"].values()),
        "bytes in training": sum(count["training"].values()),
        "bytes read for each step of decoding": sum(count["step"].values()),
    }
    table = "".join(f'<tr><th scope="row">{name}</th><td>{value:,}</td></tr>' for name, value in rows.items())
    H, K = config.n_heads, config.n_kv_heads
    letters = {"D": config.d_model, "L": config.n_layers, "H": H, "K": K, "d<sub>h</sub>": config.head_dim}
    letters |= {"F": config.d_ff, "V": config.vocab_size, "T": T, "B": batch}
    return (
        f"<p>{', '.join(f'{letter} = {size:,}' for letter, size in letters.items())}; {value_bytes} bytes a value. "
        f"Each of the {K:,} key/value heads serves {H // K:,} of the {H:,} query heads. "
        f"A step of decoding takes at least {1e3 * max(read, work):.4g} ms.</p>"
        f"<table><tbody>{table}</tbody></table>"
    )
