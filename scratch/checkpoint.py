"""Checkpoints of Llama- and GPT-2-shaped models: safetensors and GGUF into scratch's tree, and back to safetensors."""

import functools
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from scratch import _check
from scratch._file import quote, read_json, write_whole
from scratch.checkpoint_config import ROPE_LAYOUT, family_of, settings_from_gguf, settings_from_json, settings_to_json
from scratch.checkpoint_names import GGUF_NAMES, HF
from scratch.gguf_file import read_gguf
from scratch.model import Config, param_shapes
from scratch.rope import LAYOUTS, convert_layout
from scratch.safetensors_file import read_safetensors, read_shards, write_safetensors


def load(path, *, config=None, dtype=np.float32, watch=None):
    """A model from a checkpoint: (params, config), ready for `model_forward`.

    Parameters
    ----------
    path : a safetensors file; the index of several (``model.safetensors.index.json``); a folder that holds either;
        or a GGUF file. Settings come from the config.json in the same folder, or from GGUF's fields.
    config : Config, in place of config.json; its rope_layout is set to what the format has
    dtype : float16, float32 or float64, of the parameters
    watch : function, optional; watch(n) is called after each tensor of n values, for a progress bar

    Returns
    -------
    params : the tree of `init_params`, new arrays; those stored [out, in] are transposed views of them
    config : Config. Hugging Face's RoPE layout is "half", GGUF's "interleaved". The head is tied where the settings
        say so, or where there is none, or in GGUF where it repeats the embedding.

    Tensors that belong to no parameter are not read; one UserWarning lists them by name. Buffers that are known to
    hold no parameter (GPT-2's causal masks, Llama's frequencies) are passed over in silence. Models with biases at q,
    k and v only (Qwen2) get bias=True and zeros for bo: the same function, with L·D more parameters.

    Raises
    ------
    ValueError
        If a file is broken, a tensor is missing or of the wrong shape, or scratch does not compute what the settings
        say. The message names the file, what came and what was expected. Nothing is ever unpickled.
    ImportError
        If the file is quantized GGUF and the gguf package is not installed.
    """
    path = _find(Path(path))
    with path.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF" or path.suffix == ".gguf"
    if is_gguf:
        if config is not None:
            raise ValueError(f"load: config was given, but {path} is a GGUF file and has its own")
        return from_gguf(read_gguf(path), dtype=dtype, watch=watch)
    tensors = read_shards(path) if path.suffix == ".json" else read_safetensors(path)[0]
    if config is not None:
        config = replace(config, rope_layout="half")
        return _params(path, tensors, HF[family_of(config)], config, dtype, watch), config
    beside = path.parent / "config.json"
    if not beside.is_file():
        raise ValueError(f"{path}: there is no config.json beside it; give load(…, config=Config(…))")
    values = read_json(beside)
    family, settings = settings_from_json(beside, values)
    params, config = _read(beside, path, tensors, HF[family], settings, dtype, watch)
    wanted = values.get(ROPE_LAYOUT, config.rope_layout)
    if wanted not in LAYOUTS:
        raise ValueError(f"{beside}: {ROPE_LAYOUT} is {quote(wanted)}, expected one of {', '.join(LAYOUTS)}")
    return to_layout(params, config, wanted)


def from_gguf(gguf, *, dtype=np.float32, watch=None):
    """`load` of a `gguf_file.GGUF` that is already open."""
    family, settings = settings_from_gguf(gguf)
    return _read(gguf.path, gguf.path, gguf.tensors, GGUF_NAMES[family], settings, dtype, watch)


def save(params, config, folder, *, kind=None):
    """Write ``model.safetensors`` and ``config.json`` with Hugging Face's names; transformers can load them.

    Parameters
    ----------
    params, config : of a Llama-shaped model (RMSNorm, SwiGLU, RoPE) or a GPT-2-shaped one (LayerNorm, GELU, learned
        positions, all biases)
    folder : made if it is not there; each of the two files is replaced in one step
    kind : "F64", "F32", "F16" or "BF16"; by default each array keeps its type, and `load` with that dtype gives back
        the same bits, and the same config unless its d_head says what D / H says anyway

    Queries and keys go into the "half" layout, which is the format's; a key in config.json brings `load` back to
    the layout they had.

    Raises
    ------
    ValueError
        If the config has no counterpart in these formats, params do not fit it, or a value is too large for `kind`.
    """
    names = HF[family_of(config)]
    _check_tree("save: params", params, param_shapes(config))
    tensors = {}

    def put(path, leaf):
        prefix = "" if path[0] == "head" else names.prefix
        tensors.setdefault(prefix + names.of(path), []).append(leaf.T if names.turned(path) else leaf)

    _map(put, to_layout(params, config, "half")[0])
    tensors = {name: np.concatenate(parts, -1) if len(parts) > 1 else parts[0] for name, parts in tensors.items()}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"}, kind)
    dtype = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(kind)
    settings = settings_to_json(config, dtype or params["embed"]["table"].dtype.name)
    text = json.dumps(settings, indent=2) + "\n"
    write_whole(folder / "config.json", lambda file: file.write(text.encode()))


def to_layout(params, config, layout):
    """(params, config) of the same function with RoPE in another layout; what need not change is not copied."""
    if config.pos != "rope" or config.rope_layout == layout:
        return params, config
    heads = {"q": config.n_heads, "k": config.n_kv_heads}

    def turn(path, leaf):
        if path[-2:-1] == ("attn",) and path[-1][1] in heads:
            return convert_layout(leaf, heads[path[-1][1]], layout)
        return leaf

    return _map(turn, params), replace(config, rope_layout=layout)


def _find(path):
    """The file to read: path itself, or the one in the folder."""
    if not path.is_dir():
        return path
    choices = ("model.safetensors", "model.safetensors.index.json")
    for name in choices:
        if (path / name).is_file():
            return path / name
    raise ValueError(f"{path}: holds neither {' nor '.join(choices)}; pickled weights (.bin, .pt) are never read")


def _read(said_in, path, tensors, names, settings, dtype, watch):
    """(params, config) once the tensors have told whether the head is tied."""
    # Before anything is as large as the settings say.
    if settings["n_layers"] > len(tensors):
        raise ValueError(f"{said_in}: says {settings['n_layers']} layers, but {path.name} has {len(tensors)} tensors")
    head, table = (_lookup(tensors, names, names.leaves[leaf]) for leaf in ("head.w", "embed.table"))
    repeats = head is not None and table is not None and np.array_equal(head.raw, table.raw)
    if settings["tied"] and head is not None and not repeats:
        raise ValueError(f"{said_in}: says that the head is tied, but {names.leaves['head.w']} differs from the table")
    if settings["tied"] is None:
        settings = settings | {"tied": head is None or repeats}
    try:
        config = Config(**settings)
    except ValueError as error:
        raise ValueError(f"{said_in}: {error}") from None
    return _params(path, tensors, names, config, dtype, watch), config


def _params(path, tensors, names, config, dtype, watch):
    """The tree; all names and shapes are checked before the first tensor is read."""
    if np.dtype(dtype) not in (np.float16, np.float32, np.float64):
        raise ValueError(f"load: dtype={dtype!r}, expected float16, float32 or float64")
    if config.n_layers > len(tensors):
        raise ValueError(f"{path}: has {len(tensors)} tensors, but config.n_layers={config.n_layers}")
    shapes = param_shapes(config)
    _check_names(path, tensors, names, shapes, config.tied)

    @functools.lru_cache(maxsize=1)  # the three parts of a fused tensor are asked for one after the other
    def read(name):
        array = _lookup(tensors, names, name).read(dtype)
        if watch is not None:
            watch(array.size)
        return array

    def leaf(at, shape):
        if (name := names.of(at)) is None:
            return np.zeros(shape, dtype)
        array = read(name).T if names.turned(at) else read(name)
        if (part := names.part(at)) is None:
            return array
        n = shape[-1]
        return array[..., part * n : (part + 1) * n].copy(order="K")

    return _map(leaf, shapes)


def _check_names(path, tensors, names, shapes, tied):
    """Require every parameter's tensor with its shape; warn once about the tensors that are nobody's."""
    bare = {name: name.removeprefix(names.prefix) for name in tensors}
    if len(set(bare.values())) < len(bare):
        twice = next(name for name in bare if names.prefix + name in bare)
        raise ValueError(f"{path}: holds both {quote(twice)} and {quote(names.prefix + twice)}")
    expected = {}

    def note(at, shape):
        if (name := names.of(at)) is not None:
            whole = shape if names.part(at) is None else (*shape[:-1], 3 * shape[-1])
            expected[name] = whole[::-1] if names.turned(at) else whole

    _map(note, shapes)
    missing = [name for name in expected if _lookup(tensors, names, name) is None]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise ValueError(f"{path}: tensor {missing[0]} is missing{more}")
    for name, shape in expected.items():
        if (came := _lookup(tensors, names, name).shape) != shape:
            raise ValueError(f"{path}: tensor {name} has shape {quote(came)}, expected {shape}")
    known = expected.keys() | ({names.leaves["head.w"]} if tied else set())
    unknown = [name for name, short in bare.items() if short not in known and not re.search(names.ignored, short)]
    if unknown:
        listed = ", ".join(map(quote, unknown[:10])) + (", …" if len(unknown) > 10 else "")
        warnings.warn(
            f"{path}: {len(unknown)} tensors belong to no parameter and were not read: {listed}", stacklevel=5
        )


def _lookup(tensors, names, name):
    return tensors.get(name, tensors.get(names.prefix + name))


def _check_tree(where, tree, shapes):
    """Require params to be the tree of `shapes`, with float arrays of those shapes."""
    if isinstance(shapes, tuple):
        return _check.shape(*where.split(": "), tree, shapes)
    keys = list(shapes) if isinstance(shapes, dict) else list(range(len(shapes)))
    got = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else None
    if got is None or set(got) != set(keys):
        raise ValueError(f"{where} holds {quote(got or type(tree).__name__)}, expected {quote(keys)}")
    for key in keys:
        _check_tree(f"{where}.{key}", tree[key], shapes[key])


def _map(function, tree, path=()):
    """The tree with function(path, leaf) at each leaf."""
    if isinstance(tree, dict):
        return {key: _map(function, value, (*path, key)) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_map(function, value, (*path, i)) for i, value in enumerate(tree)]
    return function(path, tree)
