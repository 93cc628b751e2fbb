"""Writing with a model: prefill and decode over a cache of keys and values, sampling, speculative decoding."""

from functools import partial

import numpy as np

from scratch import _check
from scratch.attention import _merge, _split
from scratch.block import FORMS, norm_forward, run_ffn
from scratch.fused import fused_swiglu_forward
from scratch.kv_cache import KVCache, PagedKVCache
from scratch.model import head_weight
from scratch.ops import embedding_forward, linear_forward, softmax_forward
from scratch.rope import _turn

__all__ = [
    "KVCache",
    "PagedKVCache",
    "decode_step",
    "extend",
    "generate",
    "next_probabilities",
    "prefill",
    "sample",
    "speculate",
]


def extend(ids, params, config, kv, *, counts=None):
    """Run the stack over new tokens only, reading all earlier ones from the cache, and add the new ones to it.

    With an empty cache this is prefill, with one new token a decode step; a long prompt may also come in pieces.

    Parameters
    ----------
    ids : integer array [B, S], the new tokens of each sequence
    params, config : as in `model_forward`; config.causal must be True
    kv : KVCache or PagedKVCache; changed
    counts : integer array [B], optional; how many of a row's S ids are real, where prompts differ in length (the rest
        is padding on the right, which is not added)

    Returns
    -------
    h : [B, S, D], the normalized stream at the new positions; rows beyond counts mean nothing

    Raises
    ------
    ValueError
        If an id is outside the vocabulary, or the tokens do not fit into the cache, before it is changed.

    Book: eq-decode-step.
    """
    _check.ids("extend", "ids", ids, config.vocab_size)
    B, S = ids.shape
    if B != len(kv.lengths):
        raise ValueError(f"extend: ids has {B} rows, but the cache was made for batch={len(kv.lengths)}")
    if not config.causal:
        raise ValueError("extend: config.causal is False; without a mask earlier rows change, and no cache can help")
    kv.reserve(S)
    place = kv.lengths[:, None] + np.arange(S)  # [B, S], the new tokens' positions
    x, _ = embedding_forward(ids, params["embed"]["table"])  # [B, S, D]
    turn, hidden, n = None, None, int(kv.lengths.max(initial=0)) + S
    if kv.rope is None:
        x = x + params["pos"]["table"][place]
    else:
        cos, sin = (table[place][:, None] for table in kv.rope)  # [B, 1, S, Dh/2]
        turn = partial(_turn, cos=cos, sin=sin, layout=config.rope_layout)
    if S > 1 or (kv.lengths + 1 != n).any():  # else all that is read is the past or the token itself
        hidden = np.where(np.arange(n) <= place[:, :, None], 0, -np.inf).astype(x.dtype)  # [B, S, n]
    forward, _ = FORMS[config.form]
    feed = partial(_feed, config=config)
    for layer, block in enumerate(params["blocks"]):
        attend = partial(_attend, config=config, kv=kv, layer=layer, n=n, turn=turn, hidden=hidden)
        x, _ = forward(x, block, config, attend, feed)
    kv.advance(S if counts is None else np.asarray(counts))
    return x if config.form == "post-norm" else norm_forward(x, params["norm"], config)[0]


def _attend(x, params, *, config, kv, layer, n, turn, hidden):
    """Attention of new tokens x [B, S, D] over all of a layer's keys and values; returns (out [B, S, D], None)."""
    B, S, _ = x.shape
    q, k, v = _project(x, params, config, turn)
    kv.write(layer, k, v)
    keys, values = kv.read(layer, n)  # [B, K, n, Dh]
    K, Dh = config.n_kv_heads, config.head_dim
    scores = q.reshape(B, K, -1, Dh) @ keys.swapaxes(-1, -2)  # [B, K, H/K·S, n]
    scores *= Dh**-0.5
    if hidden is not None:
        scores = (scores.reshape(B, K, -1, S, n) + hidden[:, None, None]).reshape(scores.shape)
    p, _ = softmax_forward(scores)
    heads = (p @ values).reshape(B, config.n_heads, S, Dh)
    return linear_forward(_merge(heads), params["wo"], params.get("bo"))[0], None


def _project(x, params, config, turn):
    """Queries [B, H, S, Dh], keys and values [B, K, S, Dh] of x, the first two turned; fused where params are."""
    H, K = config.n_heads, config.n_kv_heads
    if "wqkv" in params:
        every = _split(linear_forward(x, params["wqkv"], params.get("bqkv"))[0], H + 2 * K)
        qk, v = every[:, : H + K], every[:, H + K :]
        if turn is not None:
            qk = turn(qk)
        return qk[:, :H], qk[:, H:], v
    q, _ = linear_forward(x, params["wq"], params.get("bq"))
    k, _ = linear_forward(x, params["wk"], params.get("bk"))
    v, _ = linear_forward(x, params["wv"], params.get("bv"))
    q, k, v = _split(q, H), _split(k, K), _split(v, K)
    return (q, k, v) if turn is None else (turn(q), turn(k), v)


def _feed(x, params, *, config):
    """The feed-forward of x, fused where params are; returns (out, cache)."""
    if "wgu" in params:
        return fused_swiglu_forward(x, params["wgu"], params["wd"])
    return run_ffn(x, params, config)


def prefill(ids, params, config, kv, *, counts=None):
    """Put prompts into the cache: logits [B, V] for the token after each; arguments and errors as in `extend`."""
    h = extend(ids, params, config, kv, counts=counts)  # [B, S, D]
    last = (np.full(len(ids), ids.shape[1]) if counts is None else np.asarray(counts)) - 1
    return linear_forward(h[np.arange(len(ids)), last], head_weight(params, config))[0]


def decode_step(ids, params, config, kv):
    """Run one new token of each sequence, ids [B]: logits [B, V] for the one after it. Errors as in `extend`."""
    return prefill(np.asarray(ids)[:, None], params, config, kv)


def next_probabilities(logits, *, temperature=1.0, top_k=None, top_p=None, min_p=None):
    """The probabilities that a next token is drawn with; filters are applied in the order of the arguments.

    Parameters
    ----------
    logits : float array [..., V]
    temperature : float; logits are divided by it. 0 gives all the weight to the largest
    top_k : int, optional; only the k most probable stay
    top_p : float in (0, 1], optional; of the most probable as few stay as together have at least p
    min_p : float in [0, 1], optional; those stay that are at least min_p times as probable as the most probable one

    Returns
    -------
    p : [..., V], in the logits' dtype; rows sum to 1

    Source: Holtzman et al. 2019 (top-p). Book: eq-sampling.
    """
    if temperature < 0 or (top_k is not None and top_k < 1):
        raise ValueError(f"next_probabilities: temperature={temperature}, top_k={top_k}, expected >= 0 and >= 1")
    for name, value, low in (("top_p", top_p, "> 0"), ("min_p", min_p, ">= 0")):
        if value is not None and not (0 <= value <= 1 and (value > 0 or name == "min_p")):
            raise ValueError(f"next_probabilities: {name}={value}, expected {low} and <= 1")
    if temperature == 0:
        return (np.arange(logits.shape[-1]) == logits.argmax(-1)[..., None]).astype(logits.dtype)
    p, _ = softmax_forward(logits / temperature)
    order = np.argsort(-p, axis=-1, kind="stable")  # [..., V]
    ranked = np.take_along_axis(p, order, -1)
    kept = np.ones(p.shape, dtype=bool)
    if top_k is not None:
        kept[..., top_k:] = False
    if top_p is not None and top_p < 1:  # a sum of all may be rounded to 1 before its last terms
        ranked = ranked * kept / (ranked * kept).sum(-1, keepdims=True)
        kept &= ranked.cumsum(-1) - ranked < top_p
    if min_p is not None:
        kept &= ranked >= min_p * ranked[..., :1]
    chosen = np.zeros_like(p)
    np.put_along_axis(chosen, order, np.where(kept, np.take_along_axis(p, order, -1), 0), -1)
    return chosen / chosen.sum(-1, keepdims=True)


def sample(logits, rng, **options):
    """Draw a token for each row of logits [B, V]: ids [B]. Options as in `next_probabilities`."""
    return _draw(next_probabilities(logits, **options), rng)


def _draw(p, rng):
    total = p.astype(np.float64).cumsum(-1)
    return (total <= rng.random((len(p), 1)) * total[:, -1:]).sum(-1)


def generate(prompts, params, config, *, n, rng=None, stop=None, kv=None, **options):
    """Continue each prompt by up to n tokens.

    Parameters
    ----------
    prompts : list of lists of ids, none of them empty; they may differ in length
    params, config : as in `model_forward`
    n : int
    rng : numpy.random.Generator, optional; one with seed 0 if left out, so that the same is written each time
    stop : int, optional; an id after which a sequence ends
    kv : an empty cache for len(prompts) sequences, optional
    options : of `next_probabilities`

    Returns
    -------
    list of lists of ids: the prompts with what was written, `stop` included

    Raises
    ------
    ValueError
        If a prompt is empty, an id is outside the vocabulary, or the tokens do not fit into the cache.
    """
    counts = np.array([len(prompt) for prompt in prompts])
    if not len(counts) or not counts.all():
        raise ValueError("generate: expected prompts of at least one token each")
    ids = np.zeros((len(prompts), counts.max()), dtype=np.int64)  # [B, S], padded on the right
    for row, prompt in zip(ids, prompts, strict=True):
        row[: len(prompt)] = prompt
    dtype = params["embed"]["table"].dtype
    kv = KVCache(config, len(prompts), int(counts.max()) + n, dtype) if kv is None else kv
    texts, going = [list(prompt) for prompt in prompts], np.ones(len(prompts), dtype=bool)
    rng = np.random.default_rng(0) if rng is None else rng
    logits = prefill(ids, params, config, kv, counts=counts)
    for step in range(n):
        drawn = sample(logits, rng, **options)
        for b in np.flatnonzero(going):
            texts[b].append(int(drawn[b]))
        going &= drawn != stop
        if step + 1 == n or not going.any():
            break
        logits = decode_step(drawn, params, config, kv)
    return texts


def speculate(prompt, target, draft, *, n, guesses=4, rng=None, **options):
    """Continue a prompt with the target's probabilities, while a smaller draft model guesses ahead.

    The draft writes a few tokens. The target reads all of them in one step, and accepts each with probability
    min(1, p / q), p its own probability of the token and q the draft's. At the first that it rejects it draws from
    max(p − q, 0) instead; if all are accepted, it adds one of its own. What comes out is distributed as if the target
    had written alone.

    Parameters
    ----------
    prompt : list of ids, not empty
    target, draft : (params, config) of two models with one vocabulary
    n : int, tokens to write
    guesses : int, tokens that the draft writes at a time
    rng, options : as in `generate`

    Returns
    -------
    ids : list, the prompt with n more tokens
    steps : int, how often the target ran

    Source: Leviathan et al. 2023, algorithm 1. Book: eq-speculative.
    """
    rng = rng or np.random.default_rng(0)
    text, steps, room = list(prompt), 0, len(prompt) + n + guesses + 1
    caches = [KVCache(config, 1, room, params["embed"]["table"].dtype) for params, config in (target, draft)]
    while len(text) < len(prompt) + n:
        guessed, q = [], []
        for _ in range(guesses):
            new = np.array([(text + guessed)[int(caches[1].lengths[0]) :]])
            q.append(next_probabilities(prefill(new, *draft, caches[1])[0], **options))
            guessed.append(int(_draw(q[-1][None], rng)[0]))
        new = np.array([(text + guessed)[int(caches[0].lengths[0]) :]])
        h = extend(new, *target, caches[0])[0, -guesses - 1 :]  # [guesses + 1, D]
        p = next_probabilities(linear_forward(h, head_weight(*target))[0], **options)  # [guesses + 1, V]
        steps += 1
        kept = 0
        while kept < guesses and rng.random() * q[kept][guessed[kept]] < p[kept, guessed[kept]]:
            kept += 1
        rest = p[kept] if kept == guesses else np.maximum(p[kept] - q[kept], 0)
        text += [*guessed[:kept], int(_draw(rest[None], rng)[0])]
        for kv in caches:
            kv.truncate(np.minimum(kv.lengths, len(text) - 1))
    return text[: len(prompt) + n], steps
