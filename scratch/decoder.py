"""The whole decode step of a Llama-style model in one function, for one sequence: as few calls as NumPy allows.

With one token at a time the arrays are so small that calling NumPy costs more than computing; `generate.decode_step`,
which serves every kind of model and batch, makes some three times as many calls.
"""

import math

import numpy as np

from scratch import _check
from scratch.fused import fuse_model
from scratch.kv_cache import KVCache

NEEDED = {"norm": "rmsnorm", "ffn": "swiglu", "pos": "rope", "form": "pre-norm", "bias": False}


class Decoder:
    """A model ready to decode one sequence over a `KVCache`; its projections are fused into new arrays.

    Parameters
    ----------
    params, config : as in `model_forward`, in Llama's style: RMSNorm, SwiGLU, RoPE (interleaved), pre-norm, no biases

    Raises
    ------
    ValueError
        If config is of another style.
    """

    def __init__(self, params, config):
        for name, value in NEEDED.items():
            if getattr(config, name) != value:
                raise ValueError(f"Decoder: config.{name}={getattr(config, name)!r}, expected {value!r}")
        if config.rope_layout != "interleaved":
            raise ValueError("Decoder: the RoPE layout is 'half'; checkpoint.to_layout(…, 'interleaved') converts")
        params, self.config = fuse_model(params, config)
        self.table = params["embed"]["table"]
        # What only scales a matrix's rows or columns is multiplied into it, once: norms' gains, and the queries' 1/√Dh.
        self.layers = []
        for block in params["blocks"]:
            wqkv = block["norm1"]["g"][:, None] * block["attn"]["wqkv"]
            wqkv[:, : config.n_heads * config.head_dim] *= 1 / math.sqrt(config.head_dim)
            wgu = block["norm2"]["g"][:, None] * block["ffn"]["wgu"]
            self.layers.append((wqkv, block["attn"]["wo"], wgu, block["ffn"]["wd"]))
        self.head = params["norm"]["g"][:, None] * params["head"]["w"]

    def step(self, token, kv):
        """Run one token, an int: logits [V] for the one after it, and its keys and values added to kv.

        kv is a `KVCache` of one sequence, empty or filled by `generate.prefill`. Raises ValueError if the token is not
        in the vocabulary or the cache is full, before anything is changed. Book: eq-decode-step.
        """
        self._check(token, kv)
        config, eps = self.config, self.config.eps
        H, K, Dh, F = config.n_heads, config.n_kv_heads, config.head_dim, config.d_ff
        t = int(kv.lengths[0])
        x = self.table[token : token + 1].copy()  # [1, D]
        cos, sin = (table[t] for table in kv.rope)  # [Dh/2]
        turn = cos + 1j * sin
        with np.errstate(over="ignore"):  # exp(−gate) may reach inf, and gate / inf = 0 is right
            for layer, (wqkv, wo, wgu, wd) in enumerate(self.layers):
                every = (_normal(x, eps) @ wqkv).reshape(H + 2 * K, Dh)
                pairs = every[: H + K].view(turn.dtype)  # neighbours as one complex number
                pairs *= turn
                keys, values = kv.slot(layer, t)  # [K, t+1, Dh], the last row to be written
                keys[:, t], values[:, t] = every[H : H + K], every[H + K :]
                scores = every[:H].reshape(K, H // K, Dh) @ keys.swapaxes(1, 2)  # [K, H/K, t+1]
                scores -= scores.max(axis=-1, keepdims=True)
                p = np.exp(scores, out=scores)
                p /= p.sum(axis=-1, keepdims=True)
                x += (p @ values).reshape(1, H * Dh) @ wo
                both = _normal(x, eps) @ wgu  # [1, 2F]
                gate = both[:, :F]
                hidden = gate / (1 + np.exp(-gate))
                hidden *= both[:, F:]
                x += hidden @ wd
        kv.advance(1)
        return (_normal(x, eps) @ self.head)[0]

    def _check(self, token, kv):
        if type(kv) is not KVCache or len(kv.lengths) != 1:
            raise ValueError(f"Decoder: expected a KVCache of one sequence, got {type(kv).__name__}")
        _check.ids("Decoder", "token", np.array([token]), self.config.vocab_size)
        kv.reserve(1)


def _normal(x, eps):
    """x [1, D] with root-mean-square 1."""
    return x * (1 / math.sqrt(float(np.vdot(x, x)) / x.size + eps))
