"""What a model costs: exact counts from a Config alone, and two meters for what a run really did."""

import math

import numpy as np

from scratch.config import param_shapes


def count_params(config):
    """Number of trainable values, to the integer; a tied head counts once. Book: eq-count."""
    return _total(param_shapes(config))


def count_block(config):
    """Parameters of one block by part: {"attn": …, "ffn": …, "norms": …}. Book: eq-count-block."""
    block = param_shapes(config)["blocks"][0]
    norms = [tree for name, tree in block.items() if name.startswith("norm")]
    parts = {"attn": block["attn"], "ffn": block["ffn"], "norms": norms}
    return {name: _total(part) for name, part in parts.items()}


def count_matmul_weights(config):
    """N_mat: the weights that matrix products use. The head counts once, tied or not; lookups, norms, biases do not."""
    shapes = param_shapes(config)
    matrices = _total(shapes["blocks"], matrices_only=True)
    return matrices + config.d_model * config.vocab_size


def flops_per_token(config, T, backward=False, causal=False):
    """Floating-point operations of the matrix products, per token of a sequence of T tokens.

    ``2 N_mat + 4 L H Dh T``: a multiply-add is two operations, and every query meets all T keys, as it does in a
    kernel that masks after multiplying. causal=True counts visible pairs only, T(T+1)/2 of them in a sequence:
    ``2 L H Dh (T + 1)`` per token. backward=True counts forward and backward, three times the forward.

    Source: Chowdhery et al. 2022 (PaLM), appendix B. Book: eq-flops.
    """
    if T < 1:
        raise ValueError(f"flops_per_token: T={T}, expected at least 1 token")
    width = config.n_layers * config.n_heads * config.head_dim
    attention = 2 * width * (T + 1) if causal else 4 * width * T
    forward = 2 * count_matmul_weights(config) + attention
    return 3 * forward if backward else forward


def flops_by_part(config, T, causal=False):
    """The forward's operations of `flops_per_token`, by part: {"projections": …, "scores": …, "ffn": …, "head": …}.

    projections are attention's four matrices, scores its products without weights: scores and mixing.
    """
    blocks = param_shapes(config)["blocks"]
    attn, ffn = (2 * sum(_total(block[name], matrices_only=True) for block in blocks) for name in ("attn", "ffn"))
    head = 2 * config.d_model * config.vocab_size
    scores = flops_per_token(config, T, causal=causal) - 2 * count_matmul_weights(config)
    return {"projections": attn, "scores": scores, "ffn": ffn, "head": head}


def kv_cache_bytes(config, T, batch=1, bytes_per_value=2):
    """Bytes that hold the keys and values of T tokens: ``2 L K Dh`` values a token. Book: eq-kv-cache."""
    return 2 * config.n_layers * config.n_kv_heads * config.head_dim * T * batch * bytes_per_value


def decode_bytes(config, T, batch=1, bytes_per_value=2):
    """Bytes that one step of decoding must read: {"weights": once for the batch, "cache": of T tokens a sequence}.

    Of a table that is only looked up, untied or of positions, a few rows are read; they are left out.
    Book: eq-decode-bound.
    """
    looked_up = 0 if config.tied else config.vocab_size * config.d_model
    if config.pos == "learned":
        looked_up += config.max_seq * config.d_model
    weights = (count_params(config) - looked_up) * bytes_per_value
    cache = kv_cache_bytes(config, T, batch, bytes_per_value)
    return {"weights": weights, "cache": cache}


def activation_bytes(config, T, batch=1):
    """Bytes kept for backward by a 16-bit GPT block with dropout, summed over layers: ``s b h (34 + 5 a s / h)`` each.

    It holds for a 4D GELU feed-forward and counts dropout masks; the second term is the T × T scores. What scratch
    itself keeps is another number: measure it with `cache_bytes`.
    Source: Korthikanti et al. 2022, eq. 1. Book: eq-activations.
    """
    D, H = config.d_model, config.n_heads
    return config.n_layers * batch * (34 * T * D + 5 * H * T * T)


def training_state_bytes(config, weight=2, gradient=2, master=4, moments=8):
    """Bytes of weights, gradients and Adam's state: 16 a parameter in mixed precision, as the defaults count.

    master is the float32 copy of the weights, moments the two float32 averages. Book: eq-optimizer-bytes.
    """
    return count_params(config) * (weight + gradient + master + moments)


def cache_bytes(cache, params=()):
    """Bytes of the distinct arrays that a cache holds alive for backward, the parameters not counted.

    cache is what a forward returned; params a tree of arrays to leave out. Views count as the array they look at, once.
    """
    known = {_owner(array)[0] for array in _arrays(params)}
    held = {}
    for array in _arrays(cache):
        owner, size = _owner(array)
        if owner not in known:
            held[owner] = size
    return sum(held.values())


def counted_flops(function, *args, **options):
    """Run function(*args, **options) and count the operations of every matrix product in it.

    Arrays among the arguments, in trees too, are passed as views that count where they are multiplied.
    Returns (what function returned, {"weights": operations of products with a weight, "attention": of those between
    heads, which have four axes}).
    """
    counts = {"weights": 0, "attention": 0}

    class Counting(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
            plain = [x.view(np.ndarray) if isinstance(x, Counting) else x for x in inputs]
            if out is not None:
                kwargs["out"] = tuple(x.view(np.ndarray) if isinstance(x, Counting) else x for x in out)
            result = getattr(ufunc, method)(*plain, **kwargs)
            if ufunc is np.matmul:
                kind = "attention" if result.ndim == 4 else "weights"
                counts[kind] += 2 * result.size * plain[0].shape[-1]
            return result.view(Counting) if isinstance(result, np.ndarray) else result

    def counting(value):
        if isinstance(value, dict):
            return {key: counting(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(counting(item) for item in value)
        return value.view(Counting) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value

    return function(*map(counting, args), **{key: counting(value) for key, value in options.items()}), counts


def _total(tree, matrices_only=False):
    if isinstance(tree, dict):
        return sum(_total(value, matrices_only) for value in tree.values())
    if isinstance(tree, list):
        return sum(_total(value, matrices_only) for value in tree)
    return math.prod(tree) if len(tree) > 1 or not matrices_only else 0


def _arrays(tree):
    if isinstance(tree, dict):
        tree = tree.values()
    if isinstance(tree, np.ndarray):
        yield tree
    elif not isinstance(tree, str) and hasattr(tree, "__iter__"):
        for value in tree:
            yield from _arrays(value)


def _owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array), array.nbytes
