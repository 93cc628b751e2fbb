"""The pre-norm transformer block: two branches, each of which adds to the residual stream."""

from scratch.attention import attention_backward, attention_forward, attention_map
from scratch.ffn import gelu_mlp_backward, gelu_mlp_forward, swiglu_backward, swiglu_forward
from scratch.ops import layernorm_backward, layernorm_forward, rmsnorm_backward, rmsnorm_forward


def block_forward(x, params, config, *, rope=None, pad_mask=None, watch=None):
    """One block: ``u = x + Attn(Norm(x))``, then ``y = u + FFN(Norm(u))``.

    Parameters
    ----------
    x : float array [B, T, D], the residual stream
    params : dict of the trees "norm1", "attn", "norm2", "ffn"; leaf keys are the forwards' argument names
    config : model.Config; its norm, eps, ffn, n_heads, n_kv_heads and rope_layout are read
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

    Source: Xiong et al. 2020, table 1 (pre-norm). Book: eq-block.
    """
    n1, cache_norm1 = norm_forward(x, _tree(params, "norm1"), config)
    a, cache_attn = _attn_forward(n1, _tree(params, "attn"), config, rope, pad_mask)
    u = x + a
    n2, cache_norm2 = norm_forward(u, _tree(params, "norm2"), config)
    f, cache_ffn = _ffn_forward(n2, _tree(params, "ffn"), config)
    y = u + f
    if watch is not None:
        watch({"attn": a, "ffn": f, "map": attention_map(cache_attn[0])})
    return y, (cache_norm1, cache_attn, cache_norm2, cache_ffn)


def block_backward(dout, cache):
    """Gradients of `block_forward`: (dx [B, T, D], a tree like params) from dout [B, T, D].

    At each residual add the gradient goes two ways, straight on and through the branch, and the two are summed.
    Book: eq-block-backward.
    """
    cache_norm1, cache_attn, cache_norm2, cache_ffn = cache
    dn2, dffn = _ffn_backward(dout, cache_ffn)
    du_branch, dnorm2 = norm_backward(dn2, cache_norm2)
    du = dout + du_branch
    dn1, dattn = _attn_backward(du, cache_attn)
    dx_branch, dnorm1 = norm_backward(dn1, cache_norm1)
    dx = du + dx_branch
    return dx, {"norm1": dnorm1, "attn": dattn, "norm2": dnorm2, "ffn": dffn}


def norm_forward(x, params, config):
    """RMSNorm or LayerNorm of x [..., D], as config.norm says; params holds g [D] (and b [D])."""
    if config.norm == "rmsnorm":
        names = ("g",)
        out, cache = rmsnorm_forward(x, *_leaves(params, names), config.eps)
        return out, (rmsnorm_backward, names, cache)
    names = ("g", "b")
    out, cache = layernorm_forward(x, *_leaves(params, names), config.eps)
    return out, (layernorm_backward, names, cache)


def norm_backward(dout, cache):
    """Gradients of `norm_forward`: (dx [..., D], a tree like params) from dout [..., D]."""
    backward, names, inner = cache
    dx, *grads = backward(dout, inner)
    return dx, dict(zip(names, grads, strict=True))


def _attn_forward(x, params, config, rope, pad_mask):
    weights, biases = ("wq", "wk", "wv", "wo"), ("bq", "bk", "bv", "bo")
    out, cache = attention_forward(
        x,
        *_leaves(params, weights),
        *map(params.get, biases),
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        rope=rope,
        layout=config.rope_layout,
        pad_mask=pad_mask,
    )
    return out, (cache, weights + _given(params, biases))


def _attn_backward(dout, cache):
    inner, names = cache
    dx, *grads = attention_backward(dout, inner)
    return dx, dict(zip(names, grads, strict=True))


def _ffn_forward(x, params, config):
    if config.ffn == "swiglu":
        names = ("wg", "wu", "wd")
        out, cache = swiglu_forward(x, *_leaves(params, names))
        return out, (swiglu_backward, names, cache)
    w1, w2 = _leaves(params, ("w1", "w2"))
    out, cache = gelu_mlp_forward(x, w1, params.get("b1"), w2, params.get("b2"))
    return out, (gelu_mlp_backward, _given(params, ("w1", "b1", "w2", "b2")), cache)


_ffn_backward = norm_backward  # the same shape of work: call the kept backward, name what it returns


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
