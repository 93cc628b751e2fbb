"""Exercise decode-bound: the least time of a decoding step, for a model and a machine of the learner's own."""

from itertools import pairwise

from exercises.spec import Number
from scratch import account
from scratch.config import Config


def quantities(rng):
    """As `_drawn`, and drawn again where two mistakes would give one number: each has a sentence of its own."""
    while True:
        drawn = _drawn(rng)
        answers = sorted(answer(**drawn) for answer in (reference, *exercise.mutants))
        if all(b > 1.006 * a for a, b in pairwise(answers)):
            return drawn


def _drawn(rng):
    """A model whose heads share keys, an untied head, and a machine; so chosen that reading takes longest."""
    Dh, K = 128, int(rng.choice([4, 8]))
    H = K * int(rng.choice([3, 4, 5]))
    D = H * Dh
    return {
        "L": int(rng.integers(20, 49)),
        "D": D,
        "H": H,
        "K": K,
        "F": 256 * int(rng.integers(D // 100, D // 64)),
        "V": 1000 * int(rng.integers(61, 140)),
        "T": 1024 * int(rng.integers(12, 30)),
        "B": int(rng.choice([5, 6, 7, 9, 11])),
        "terabytes": float(rng.choice([1.55, 2.04, 3.35, 4.8])),
        "teraflops": int(rng.choice([312, 989])),
    }


def reference(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """From the library's own account; in milliseconds."""
    config = Config(n_layers=L, d_model=D, n_heads=H, n_kv_heads=K, d_ff=F, vocab_size=V, max_seq=T, tied=False)
    read = sum(account.decode_bytes(config, T, batch=B).values())
    work = account.flops_per_token(config, T) * B
    return max(read / (terabytes * 1e12), work / (teraflops * 1e12)) * 1e3


def _weights(L, D, H, K, F, V):
    """The weights that are read: matrices of the blocks, and the head. Norms are too few to matter."""
    return L * (2 * D * D + 2 * D * K * D // H + 3 * D * F) + V * D


def _milliseconds(weights, cache, terabytes):
    """Time to read so many 16-bit numbers."""
    return 2 * (weights + cache) / terabytes / 1e9


def _cache(L, D, heads, H, T, B):
    return 2 * L * heads * (D // H) * T * B


# ---- wrong answers; each docstring is what its author will read ----


def no_cache(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You read the weights alone. Each sequence's keys and values are read as well, for every token."""
    return _milliseconds(_weights(L, D, H, K, F, V), 0, terabytes)


def no_weights(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You read the caches alone. The weights come from memory too, once for the whole batch."""
    return _milliseconds(0, _cache(L, D, K, H, T, B), terabytes)


def one_cache(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You read one sequence's cache. The weights serve the whole batch; the cache is each sequence's own."""
    return _milliseconds(_weights(L, D, H, K, F, V), _cache(L, D, K, H, T, 1), terabytes)


def weights_for_each(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You read the weights B times. One reading serves all sequences of the batch: that is what a batch is for."""
    return _milliseconds(B * _weights(L, D, H, K, F, V), _cache(L, D, K, H, T, B), terabytes)


def for_each_token(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You divided by B: that is a token's share. The question is how long the step takes."""
    return reference(L, D, H, K, F, V, T, B, terabytes, teraflops) / B


def query_heads(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """Your cache has H heads. Only K of them have keys and values."""
    return _milliseconds(_weights(L, D, H, K, F, V), _cache(L, D, H, H, T, B), terabytes)


def keys_alone(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You read keys or values, not both. A step reads both."""
    return _milliseconds(_weights(L, D, H, K, F, V), _cache(L, D, K, H, T, B) / 2, terabytes)


def one_layer(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """Your cache is one block's. Each of the L blocks has keys and values of its own."""
    return _milliseconds(_weights(L, D, H, K, F, V), _cache(1, D, K, H, T, B), terabytes)


def one_byte(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You took one byte for a number. These have 16 bits: two bytes."""
    return reference(L, D, H, K, F, V, T, B, terabytes, teraflops) / 2


def four_bytes(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You took four bytes for a number. These have 16 bits: two bytes."""
    return reference(L, D, H, K, F, V, T, B, terabytes, teraflops) * 2


def lookup_read(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You read the lookup table as well. It is not tied to the head, and a step reads only B of its rows."""
    return _milliseconds(_weights(L, D, H, K, F, V) + V * D, _cache(L, D, K, H, T, B), terabytes)


def no_head(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """You left out the head. Its V × D weights are read for every step."""
    return _milliseconds(_weights(L, D, H, K, F, V) - V * D, _cache(L, D, K, H, T, B), terabytes)


def by_operations(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """That is the time of the operations at full speed. Reading takes longer, so it sets the bound."""
    operations = B * (2 * _weights(L, D, H, K, F, V) + 4 * L * T * D)
    return operations / teraflops / 1e9


def in_seconds(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """Those are seconds; the question asks for milliseconds."""
    return reference(L, D, H, K, F, V, T, B, terabytes, teraflops) / 1e3


def in_microseconds(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """Those are microseconds; the question asks for milliseconds."""
    return reference(L, D, H, K, F, V, T, B, terabytes, teraflops) * 1e3


# ---- right answers, found otherwise ----


def without_norms(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """Norms left out: they are a thousandth of the rest, or less."""
    return _milliseconds(_weights(L, D, H, K, F, V), _cache(L, D, K, H, T, B), terabytes)


def by_parts(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """One block after another, norms and all, then the head."""
    Dh = D // H
    total = 0.0
    for _ in range(L):
        total += 2 * D * H * Dh + 2 * D * K * Dh + 3 * D * F + 2 * D
        total += 2 * B * T * K * Dh
    total += V * D + D
    return total * 2 / (terabytes * 1e12) * 1000


def rounded(L, D, H, K, F, V, T, B, terabytes, teraflops):
    """To four digits."""
    return float(f"{reference(L, D, H, K, F, V, T, B, terabytes, teraflops):.4g}")


exercise = Number(
    id="decode-bound",
    title="The least time of a step",
    chapter="10_cost",
    answer="step_ms",
    points=2,
    stars=2,
    minutes=15,
    quantities=quantities,
    question=(
        "A model has L blocks of width D, with H query heads and K key/value heads, each D / H wide, a SwiGLU of width "
        "F, no biases, and a head of V × D that is not tied to the lookup table. It decodes B sequences at once, each "
        "with a cache of T tokens. Weights and cache are 16-bit numbers. The machine reads so many terabytes (10^12 "
        "bytes) a second, and computes so many teraFLOP (10^12) a second. What is the least time of one step, which "
        "writes one token of each sequence?"
    ),
    unit="milliseconds",
    reference=reference,
    mutants=(
        no_cache,
        no_weights,
        one_cache,
        weights_for_each,
        for_each_token,
        query_heads,
        keys_alone,
        one_layer,
        one_byte,
        four_bytes,
        lookup_read,
        no_head,
        by_operations,
        in_seconds,
        in_microseconds,
    ),
    variants=(without_norms, by_parts, rounded),
    tolerance=2e-3,
    hints=(
        "Two things happen in a step: numbers are read, and numbers are multiplied. Which one takes longer here?",
        "What must be read? All weights that are multiplied, once. And the cache of each sequence, whole.",
        "Weights: L · (2 D² + 2 D · K · D / H + 3 D F) + V D. Cache: 2 · L · K · (D / H) · T · B.",
        "Add them, times 2 bytes, divided by the bytes a second. Times 1000 for milliseconds.",
    ),
    takeaway="A step reads the weights once for the batch, and each sequence's cache. That sets its least time.",
)
