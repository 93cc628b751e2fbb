"""One instrumented run of the model: what the stream, the branches, the maps and the gradients look like inside."""

from typing import NamedTuple

import numpy as np

from scratch.block import block_forward, norm_forward, run_ffn
from scratch.gradcheck import leaves
from scratch.model import head_weight, loss_backward, loss_forward, map_leaves, model_forward
from scratch.ops import cross_entropy_forward, gelu_forward, linear_forward, silu_forward
from scratch.rope import rope_table


class Trace(NamedTuple):
    """What `trace` saw; norms are Euclidean lengths, in the stream's own unit.

    Attributes
    ----------
    logits : [B, T, V], the model's output
    stream : [L+1, B, T, D], the residual stream before each block, and after the last
    attn, ffn : [L, B, T, D], what each branch added to it
    maps : [L, B, H, T, T], attention weights; entry i, j is how much query i reads of key j
    """

    logits: np.ndarray
    stream: np.ndarray
    attn: np.ndarray
    ffn: np.ndarray
    maps: np.ndarray

    @property
    def norms(self):
        """[L+1, B, T], the length of each token's stream before each block, and after the last."""
        return np.linalg.norm(self.stream, axis=-1)


def trace(ids, params, config, *, pad_mask=None):
    """Run the model once and keep what `Trace` names.

    ids is an integer array [B, T]; the rest as in `model_forward`.
    """
    seen = {"stream": [], "attn": [], "ffn": [], "map": []}

    def watch(layer, x, y, inside):
        seen["stream"].append(x)
        for name, array in inside.items():
            seen[name].append(array)
        seen["last"] = y

    logits, _ = model_forward(ids, params, config, pad_mask=pad_mask, keep_cache=False, watch=watch)
    stream = np.stack([*seen["stream"], seen["last"]])
    return Trace(logits, stream, np.stack(seen["attn"]), np.stack(seen["ffn"]), np.stack(seen["map"]))


def logit_lens(stream, params, config):
    """Read the stream at any depth as if it were the last: final norm, then head.

    stream is [..., D]. Returns logits [..., V]. Source: nostalgebraist 2020. Book: eq-logit-lens.
    """
    if config.form != "post-norm":
        stream, _ = norm_forward(stream, params["norm"], config)
    return stream @ head_weight(params, config)


def resume(x, start, params, config, *, at="attn"):
    """Run the rest of the model on a stream that was read, and perhaps changed, half way: the stream after the last
    block, [B, T, D].

    x [B, T, D] enters block `start`, counted from 0: in front of its attention, or of its feed-forward where at="ffn"
    (pre-norm alone). start = L returns x.
    """
    if not 0 <= start <= config.n_layers:
        raise ValueError(f"resume: start is {start}, expected 0 to {config.n_layers}")
    if at not in ("attn", "ffn"):
        raise ValueError(f"resume: at is {at!r}, expected 'attn' or 'ffn'")
    rope = rope_table(x.shape[1], config.head_dim, config.rope_base) if config.pos == "rope" else None
    blocks = params["blocks"][start:]
    if at == "ffn":
        _check_pre_norm("resume", config)
        if not blocks:
            raise ValueError(f"resume: at='ffn' needs a block, and start is {start}, after the last")
        n, _ = norm_forward(x, blocks[0]["norm2"], config)
        x = x + run_ffn(n, blocks[0]["ffn"], config)[0]
        blocks = blocks[1:]
    for block in blocks:
        x, _ = block_forward(x, block, config, rope=rope)
    return x


def head_outputs(seen, layer, params, config):
    """What each head of one block added to the stream: [B, H, T, D]. With bo, their sum is what attention added.

    seen is the `Trace` of a pre-norm run; layer counts from 0.
    """
    _check_layer("head_outputs", layer, config)
    _check_pre_norm("head_outputs", config)
    block = params["blocks"][layer]
    attn, maps = block["attn"], seen.maps[layer]  # [B, H, T, T]
    n, _ = norm_forward(seen.stream[layer], block["norm1"], config)
    v, _ = linear_forward(n, attn["wv"], attn.get("bv"))
    v = v.reshape(*v.shape[:2], config.n_kv_heads, config.head_dim).swapaxes(1, 2)  # [B, K, T, Dh]
    v = np.repeat(v, config.n_heads // config.n_kv_heads, axis=1)  # query head h reads h // (H/K)
    return maps @ v @ attn["wo"].reshape(config.n_heads, config.head_dim, -1)


def hidden_values(seen, layer, params, config):
    """The feed-forward's hidden values in one block: [B, T, F]. Times wd (or w2, plus b2), they are what it added.

    seen is the `Trace` of a pre-norm run; layer counts from 0.
    """
    _check_layer("hidden_values", layer, config)
    _check_pre_norm("hidden_values", config)
    block = params["blocks"][layer]
    ffn = block["ffn"]
    n, _ = norm_forward(seen.stream[layer] + seen.attn[layer], block["norm2"], config)
    if config.ffn == "swiglu":
        return silu_forward(n @ ffn["wg"])[0] * (n @ ffn["wu"])
    return gelu_forward(linear_forward(n, ffn["w1"], ffn.get("b1"))[0])[0]


def induction_scores(maps, period):
    """How much heads attend to what came after the previous copy of the token, in a text that repeats itself.

    Parameters
    ----------
    maps : [..., T, T], attention weights; query i is the row
    period : int, 1 to T - 1: token i is the same as token i - period

    Returns
    -------
    [...], the mean of the weights at row i, column i - period + 1, over all rows i >= period

    Source: Olsson et al. 2022. Book: eq-induction-score.
    """
    T = maps.shape[-1]
    if not 1 <= period < T:
        raise ValueError(f"induction_scores: period is {period}, expected 1 to T - 1 = {T - 1}")
    rows = np.arange(period, T)
    return maps[..., rows, rows - period + 1].mean(axis=-1)


def gradient_norms(ids, targets, params, config):
    """Length of the loss's gradient with respect to each block's input: [L, B, T], from one forward and backward.

    ids, targets are integer arrays [B, T].
    """
    norms = [None] * config.n_layers
    _, cache = loss_forward(ids, targets, params, config)

    def watch(layer, dx):
        norms[layer] = np.linalg.norm(dx, axis=-1)

    loss_backward(1.0, cache, watch=watch)
    return np.stack(norms)


def draw_entries(grads, names, seed=0, least=0.1):
    """One entry of the gradient for each name: a list of (name, index), for `slopes`.

    grads is a tree like params; names are paths in it such as "blocks.3.attn.wq", and may repeat. An entry is drawn
    among those that have at least `least` times the largest size of their array: tiny ones are mostly rounding.
    """
    rng, arrays = np.random.default_rng(seed), dict(leaves(grads))
    _check_names("draw_entries", "grads", arrays, names)
    sizes = [(name, np.abs(arrays[name])) for name in names]
    return [(name, tuple(rng.choice(np.argwhere(size >= least * size.max())).tolist())) for name, size in sizes]


def slopes(ids, targets, params, config, entries, step=1e-4):
    """Slope of the loss at single entries of params, by central differences in float64: an array [len(entries)].

    A changed entry of one block leaves the stream before that block as it is. So one pass serves all: each block is
    copied to float64 when its turn comes, its own entries add two streams each to a batch, and the batch goes on. No
    float64 copy of the whole model ever exists.

    Parameters
    ----------
    ids, targets : integer arrays [1, T]
    params : the model's tree, float32 or float64; it is left as it is
    entries : list of (name, index), as from `draw_entries`
    step : float, in units of the largest size in the entry's array

    Raises
    ------
    ValueError
        If params has no array of an entry's name.
    """
    arrays = dict(leaves(params))
    _check_names("slopes", "params", arrays, [name for name, _ in entries])
    ends = _double({key: tree for key, tree in params.items() if key != "blocks"})
    streams = {None: _embed(ids, ends, config)}
    streams |= {key: _embed(ids, ends, config) for key in _nudged(ends, "", entries, step)}
    for layer, block in enumerate(params["blocks"]):
        one = {"blocks": [_double(block)]}
        x = resume(np.concatenate(list(streams.values())), 0, one, config)
        start = streams[None]
        streams = {key: x[i : i + 1] for i, key in enumerate(streams)}
        for key in _nudged(one["blocks"][0], f"blocks.{layer}.", entries, step):
            streams[key] = resume(start, 0, one, config)

    def loss(key):
        return cross_entropy_forward(logit_lens(streams[key], ends, config), targets)[0]

    value = {key: loss(key) for key in streams if key and entries[key[0]][0].startswith("blocks.")}
    value |= {key: loss(key) for key in _nudged(ends, "", entries, step)}  # a tied table acts a second time
    size = np.array([step * np.abs(arrays[name]).max() for name, _ in entries], dtype=np.float64)
    return np.array([value[i, 1] - value[i, -1] for i in range(len(entries))]) / (2 * size)


def _nudged(tree, prefix, entries, step):
    """Move each entry of `tree` a step up, then down, and put it back; yields (its number, 1 or -1) when it is moved.

    Only entries whose name is prefix and then a path in tree are moved.
    """
    arrays = {prefix + path: array for path, array in leaves(tree)}
    for number, (name, index) in enumerate(entries):
        if name not in arrays:
            continue
        array = arrays[name]
        centre, size = array[index], step * np.abs(array).max()
        for sign in (1, -1):
            array[index] = centre + sign * size
            yield number, sign
        array[index] = centre


def _double(tree):
    return map_leaves(lambda _, array: array.astype(np.float64), tree)


def _embed(ids, ends, config):
    x = ends["embed"]["table"][ids]
    return x + ends["pos"]["table"][: ids.shape[1]] if config.pos == "learned" else x


def _check_layer(function, layer, config):
    if not 0 <= layer < config.n_layers:
        raise ValueError(f"{function}: layer is {layer}, expected 0 to {config.n_layers - 1}")


def _check_pre_norm(function, config):
    if config.form != "pre-norm":
        raise ValueError(f"{function}: config.form is {config.form!r}, expected 'pre-norm'")


def _check_names(function, tree, arrays, names):
    if missing := [name for name in names if name not in arrays]:
        raise ValueError(f"{function}: {tree} has no {missing[0]!r}, only {', '.join(map(repr, arrays))}")
