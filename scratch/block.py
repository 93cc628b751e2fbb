"""The transformer block: attention and feed-forward, each a branch that adds to the residual stream."""

from functools import partial

from scratch.attention import attention_backward, attention_forward, attention_map
from scratch.ffn import gelu_mlp_backward, gelu_mlp_forward, swiglu_backward, swiglu_forward
from scratch.norm import layernorm_backward, layernorm_forward, rmsnorm_backward, rmsnorm_forward


def block_forward(x, params, config, *, rope=None, pad_mask=None, watch=None):
    """One block, in the form that config.form names: pre-norm, post-norm or parallel.

    Parameters
    ----------
    x : float array [B, T, D], the residual stream
    params : dict of the trees "norm1", "attn", "norm2", "ffn"; leaf keys are the forwards' argument names
    config : Config; its form, norm, eps, ffn, n_heads, n_kv_heads, causal and rope_layout are read
    rope : (cos, sin) from `rope_table`, or None for no rotation
    pad_mask : bool array [B, T], optional, True where the token is real
    watch : function, optional; called with the dict attn, ffn (what each branch added, [B, T, D])
        and map (the attention weights, [B, H, T, T])

    Returns
    -------
    y : [B, T, D], in x's dtype: x's shape again, so that blocks stack
    cache : for `block_backward`

    Raises
    ------
    ValueError
        If a parameter is missing or a shape does not fit.
    """
    attend = partial(run_attention, config=config, rope=rope, pad_mask=pad_mask)
    feed = partial(run_ffn, config=config)
    forward, backward = FORMS[config.form]
    y, cache = forward(x, params, config, attend, feed, watch)
    return y, (backward, cache)


def block_backward(dout, cache):
    """Gradients of `block_forward`: (dx [B, T, D], a tree like params) from dout [B, T, D]."""
    backward, inner = cache
    return backward(dout, inner)


def pre_norm_forward(x, params, config, attend, feed, watch=None):
    """``u = x + Attn(Norm(x))``, ``y = u + FFN(Norm(u))``.

    attend and feed are attention and the feed-forward, each a function(x, its parameters) -> (out, cache); the other
    arguments are as in `block_forward`.

    Source: Xiong et al. 2020, table 1. Book: eq-block.
    """
    n1, cache_norm1 = norm_forward(x, _tree(params, "norm1"), config)
    a, cache_attn = attend(n1, _tree(params, "attn"))
    u = x + a
    n2, cache_norm2 = norm_forward(u, _tree(params, "norm2"), config)
    f, cache_ffn = feed(n2, _tree(params, "ffn"))
    y = u + f
    if watch is not None:
        watch({"attn": a, "ffn": f, "map": attention_map(cache_attn[-1])})
    return y, (cache_norm1, cache_attn, cache_norm2, cache_ffn)


def pre_norm_backward(dout, cache):
    """Gradients of `pre_norm_forward`: (dx, a tree like params).

    At each residual add the gradient goes two ways, straight on and through the branch, and the two are summed.
    Book: eq-block-backward.
    """
    cache_norm1, cache_attn, cache_norm2, cache_ffn = cache
    dn2, dffn = named_backward(dout, cache_ffn)
    du_branch, dnorm2 = named_backward(dn2, cache_norm2)
    du = dout + du_branch
    dn1, dattn = named_backward(du, cache_attn)
    dx_branch, dnorm1 = named_backward(dn1, cache_norm1)
    dx = du + dx_branch
    return dx, {"norm1": dnorm1, "attn": dattn, "norm2": dnorm2, "ffn": dffn}


def post_norm_forward(x, params, config, attend, feed, watch=None):
    """``u = Norm(x + Attn(x))``, ``y = Norm(u + FFN(u))``: the norm stands on the stream itself.

    Source: Vaswani et al. 2017, section 3.1. Book: eq-post-norm.
    """
    a, cache_attn = attend(x, _tree(params, "attn"))
    u, cache_norm1 = norm_forward(x + a, _tree(params, "norm1"), config)
    f, cache_ffn = feed(u, _tree(params, "ffn"))
    y, cache_norm2 = norm_forward(u + f, _tree(params, "norm2"), config)
    if watch is not None:
        watch({"attn": a, "ffn": f, "map": attention_map(cache_attn[-1])})
    return y, (cache_attn, cache_norm1, cache_ffn, cache_norm2)


def post_norm_backward(dout, cache):
    """Gradients of `post_norm_forward`: (dx, a tree like params)."""
    cache_attn, cache_norm1, cache_ffn, cache_norm2 = cache
    dsum2, dnorm2 = named_backward(dout, cache_norm2)
    du_branch, dffn = named_backward(dsum2, cache_ffn)
    dsum1, dnorm1 = named_backward(dsum2 + du_branch, cache_norm1)
    dx_branch, dattn = named_backward(dsum1, cache_attn)
    return dsum1 + dx_branch, {"norm1": dnorm1, "attn": dattn, "norm2": dnorm2, "ffn": dffn}


def parallel_forward(x, params, config, attend, feed, watch=None):
    """``y = x + Attn(Norm(x)) + FFN(Norm(x))``: both branches read the same normalized copy.

    Source: Chowdhery et al. 2022 (PaLM), section 2. Book: eq-parallel.
    """
    n, cache_norm = norm_forward(x, _tree(params, "norm1"), config)
    a, cache_attn = attend(n, _tree(params, "attn"))
    f, cache_ffn = feed(n, _tree(params, "ffn"))
    if watch is not None:
        watch({"attn": a, "ffn": f, "map": attention_map(cache_attn[-1])})
    return x + a + f, (cache_norm, cache_attn, cache_ffn)


def parallel_backward(dout, cache):
    """Gradients of `parallel_forward`: (dx, a tree like params)."""
    cache_norm, cache_attn, cache_ffn = cache
    dn, dattn = named_backward(dout, cache_attn)
    dn_ffn, dffn = named_backward(dout, cache_ffn)
    dx_branch, dnorm = named_backward(dn + dn_ffn, cache_norm)
    return dout + dx_branch, {"norm1": dnorm, "attn": dattn, "ffn": dffn}


FORMS = {
    "pre-norm": (pre_norm_forward, pre_norm_backward),
    "post-norm": (post_norm_forward, post_norm_backward),
    "parallel": (parallel_forward, parallel_backward),
}
"""The forward and the backward of each form that Config.form may name."""


def norm_forward(x, params, config):
    """RMSNorm or LayerNorm of x [..., D], as config.norm says; params holds g [D] (and b [D])."""
    if config.norm == "rmsnorm":
        names = ("g",)
        out, cache = rmsnorm_forward(x, *_leaves(params, names), config.eps)
        return out, (rmsnorm_backward, names, cache)
    names = ("g", "b")
    out, cache = layernorm_forward(x, *_leaves(params, names), config.eps)
    return out, (layernorm_backward, names, cache)


def run_attention(x, params, config, rope, pad_mask):
    """Attention of x [B, T, D] with the tree params: (out, cache for `named_backward`)."""
    weights, biases = ("wq", "wk", "wv", "wo"), ("bq", "bk", "bv", "bo")
    out, cache = attention_forward(
        x,
        *_leaves(params, weights),
        *map(params.get, biases),
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        rope=rope,
        layout=config.rope_layout,
        causal=config.causal,
        pad_mask=pad_mask,
    )
    return out, (attention_backward, weights + _given(params, biases), cache)


def run_ffn(x, params, config):
    """The feed-forward of x [..., D] that config.ffn names, with the tree params: (out, cache for `named_backward`)."""
    if config.ffn == "swiglu":
        names = ("wg", "wu", "wd")
        out, cache = swiglu_forward(x, *_leaves(params, names))
        return out, (swiglu_backward, names, cache)
    w1, w2 = _leaves(params, ("w1", "w2"))
    out, cache = gelu_mlp_forward(x, w1, params.get("b1"), w2, params.get("b2"))
    return out, (gelu_mlp_backward, _given(params, ("w1", "b1", "w2", "b2")), cache)


def named_backward(dout, cache):
    """Backward of a norm, an attention or a feed-forward: (dx [..., D], its gradients by name)."""
    backward, names, inner = cache
    dx, *grads = backward(dout, inner)
    return dx, dict(zip(names, grads, strict=True))


def _given(params, names):
    return tuple(name for name in names if params.get(name) is not None)


def _tree(params, name):
    if name not in params:
        raise ValueError(f"block_forward: params has no {name!r}, only {', '.join(map(repr, params))}")
    return params[name]


def _leaves(params, names):
    missing = [name for name in names if name not in params]
    if missing:
        raise ValueError(f"block_forward: parameter {missing[0]!r} is missing, got {', '.join(map(repr, params))}")
    return [params[name] for name in names]
