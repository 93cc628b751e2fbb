"""Exercise kv-cache-bytes: the memory of a key/value cache, for a model of the learner's own."""

from exercises.spec import Number
from scratch import account
from scratch.config import Config


def quantities(rng):
    """16-bit caches of models whose heads share keys; so chosen that no two mistakes agree."""
    K = int(rng.choice([4, 8]))
    return {
        "L": int(rng.integers(17, 81)),
        "H": K * int(rng.choice([3, 5, 6])),
        "K": K,
        "Dh": int(rng.choice([64, 80, 128])),
        "T": 1024 * int(rng.integers(3, 33)),
        "B": int(rng.choice([3, 5, 6, 7, 9, 11])),
        "bits": 16,
    }


def reference(L, H, K, Dh, T, B, bits):
    """From the library's own account."""
    config = Config(n_layers=L, n_heads=H, n_kv_heads=K, d_model=H * Dh, max_seq=T)
    return account.kv_cache_bytes(config, T, batch=B, bytes_per_value=bits // 8)


def _bytes(L, heads, Dh, T, B, bits):
    return 2 * L * heads * Dh * T * B * bits // 8


# ---- wrong answers; each docstring is what its author will read ----


def half(L, H, K, Dh, T, B, bits):
    """That is half: keys and values are both kept, and each number takes bits / 8 bytes, two here."""
    return _bytes(L, K, Dh, T, B, bits) // 2


def query_heads(L, H, K, Dh, T, B, bits):
    """That is one entry for each of H query heads. Only K heads have keys and values: that is what sharing is for."""
    return _bytes(L, H, Dh, T, B, bits)


def one_head(L, H, K, Dh, T, B, bits):
    """That is one head's share; K of them are kept."""
    return _bytes(L, 1, Dh, T, B, bits)


def group_size(L, H, K, Dh, T, B, bits):
    """You multiplied by H / K, the number of queries that share a head. What is kept is K heads."""
    return _bytes(L, H // K, Dh, T, B, bits)


def one_layer(L, H, K, Dh, T, B, bits):
    """That is one block's cache. Each of the L blocks has keys and values of its own."""
    return _bytes(1, K, Dh, T, B, bits)


def one_sequence(L, H, K, Dh, T, B, bits):
    """That is one sequence. The B sequences share weights, but no keys."""
    return _bytes(L, K, Dh, T, 1, bits)


def one_token(L, H, K, Dh, T, B, bits):
    """That is one token of each sequence; the cache keeps all T."""
    return _bytes(L, K, Dh, 1, B, bits)


def in_bits(L, H, K, Dh, T, B, bits):
    """Those are bits; eight make a byte."""
    return _bytes(L, K, Dh, T, B, bits) * 8


def in_float32(L, H, K, Dh, T, B, bits):
    """You took four bytes for a number; this cache has 16 bits each."""
    return _bytes(L, K, Dh, T, B, 32)


def squared(L, H, K, Dh, T, B, bits):
    """You multiplied by T twice. The scores are T × T, but nobody keeps them; the cache grows by one entry a token."""
    return _bytes(L, K, Dh, T, B, bits) * T


# ---- right answers, found otherwise ----


def by_shape(L, H, K, Dh, T, B, bits):
    """The shape of each array, [B, K, T, Dh], times two a block."""
    return sum(2 * (B * K * T * Dh) * (bits // 8) for _ in range(L))


def a_token_at_a_time(L, H, K, Dh, T, B, bits):
    """Bytes a token first, as a float."""
    return 2.0 * L * K * Dh * bits / 8 * T * B


exercise = Number(
    id="kv-cache-bytes",
    title="What the cache weighs",
    chapter="10_cost",
    answer="cache",
    points=1,
    stars=1,
    minutes=8,
    quantities=quantities,
    question=(
        "A model has L blocks, H query heads and K key/value heads of width Dh. How many bytes does its key/value "
        "cache take for B sequences of T tokens each, when a number takes the given bits?"
    ),
    unit="bytes",
    reference=reference,
    mutants=(
        half,
        query_heads,
        one_head,
        group_size,
        one_layer,
        one_sequence,
        one_token,
        in_bits,
        in_float32,
        squared,
    ),
    variants=(by_shape, a_token_at_a_time),
    hints=(
        "What is kept of a token, in one block? A key and a value, for each head that has them.",
        "One token, one block: 2 · K · Dh numbers. H does not enter.",
        "Multiply by L blocks, T tokens, B sequences, and bits / 8 bytes a number.",
    ),
    takeaway="2 · L · K · Dh numbers a token. Sharing heads divides it by H / K; H itself does not enter.",
)
