"""Exercise flops: the floating-point operations of one token's forward pass, for a model of the learner's own."""

from exercises.spec import Number
from scratch import account
from scratch.config import Config


def quantities(rng):
    """A model of today's shape. V is odd and T an odd number of hundreds, so that no two mistakes agree."""
    Dh, K = int(rng.choice([64, 96, 128])), int(rng.choice([2, 4, 8]))
    H = K * int(rng.choice([3, 4, 5]))
    D = H * Dh
    return {
        "L": int(rng.integers(12, 41)),
        "D": D,
        "H": H,
        "K": K,
        "F": 256 * int(rng.integers(D // 128, D // 64)),
        "V": 1 + 2 * int(rng.integers(16_000, 64_000)),
        "T": 100 * (1 + 2 * int(rng.integers(7, 45))),
    }


def reference(L, D, H, K, F, V, T):
    """From the library's own account."""
    config = Config(n_layers=L, d_model=D, n_heads=H, n_kv_heads=K, d_ff=F, vocab_size=V, max_seq=T, ffn="swiglu")
    return account.flops_per_token(config, T)


def _weights(L, D, H, K, F, V, head=True):
    """The weights that a token is multiplied with."""
    return L * (2 * D * D + 2 * D * K * D // H + 3 * D * F) + head * V * D


# ---- wrong answers; each docstring is what its author will read ----


def multiply_adds(L, D, H, K, F, V, T):
    """That is half: you counted multiply-adds. A multiplication and an addition are two operations."""
    return reference(L, D, H, K, F, V, T) // 2


def no_scores(L, D, H, K, F, V, T):
    """You counted the products with weights alone. Attention also multiplies without weights: each query with T keys,
    and each of T attention weights with its value."""
    return 2 * _weights(L, D, H, K, F, V)


def no_mixing(L, D, H, K, F, V, T):
    """You counted the scores, q · k for T keys. The mixing of T values costs as much again."""
    return 2 * _weights(L, D, H, K, F, V) + 2 * L * T * D


def no_head(L, D, H, K, F, V, T):
    """You left out the output head: it multiplies each token with V rows of D numbers."""
    return 2 * _weights(L, D, H, K, F, V, head=False) + 4 * L * T * D


def lookup_counted(L, D, H, K, F, V, T):
    """You counted the table twice. Looking a row up costs no multiplication; the head alone does."""
    return reference(L, D, H, K, F, V, T) + 2 * V * D


def heads_not_shared(L, D, H, K, F, V, T):
    """Your keys and values have as many heads as the queries. Here K heads are shared, so their matrices are
    narrower."""
    return 2 * _weights(L, D, H, H, F, V) + 4 * L * T * D


def shared_scores(L, D, H, K, F, V, T):
    """You counted scores for K heads. Sharing saves memory: all H query heads still make scores of their own."""
    return 2 * _weights(L, D, H, K, F, V) + 4 * L * T * K * D // H


def no_output_projection(L, D, H, K, F, V, T):
    """A block's attention has four matrices. You left out one of D × D: queries and output both have one."""
    return reference(L, D, H, K, F, V, T) - 2 * L * D * D


def keys_without_values(L, D, H, K, F, V, T):
    """You counted one matrix for K heads; keys and values have one each."""
    return reference(L, D, H, K, F, V, T) - 2 * L * D * K * D // H


def scores_once(L, D, H, K, F, V, T):
    """You counted the scores of one layer. Each of the L layers has its own."""
    return 2 * _weights(L, D, H, K, F, V) + 4 * T * D


def scores_squared(L, D, H, K, F, V, T):
    """You counted T × T scores; those are the whole sequence's. One token has T of them."""
    return 2 * _weights(L, D, H, K, F, V) + 4 * L * T * T * D


def two_matrices(L, D, H, K, F, V, T):
    """Your feed-forward has two matrices; a SwiGLU has three."""
    return 2 * (_weights(L, D, H, K, F, V) - L * D * F) + 4 * L * T * D


def one_layer(L, D, H, K, F, V, T):
    """That is one block and the head; there are L blocks."""
    return 2 * _weights(1, D, H, K, F, V) + 4 * T * D


def causal_half(L, D, H, K, F, V, T):
    """You counted the visible pairs of tokens alone, about half. The question counts the full T × T."""
    return 2 * _weights(L, D, H, K, F, V) + 2 * L * D * (T + 1)


def all_tokens(L, D, H, K, F, V, T):
    """That is all T tokens; the question is one token's share."""
    return reference(L, D, H, K, F, V, T) * T


def with_backward(L, D, H, K, F, V, T):
    """That includes the backward pass, which costs two forwards; the question is the forward alone."""
    return reference(L, D, H, K, F, V, T) * 3


# ---- right answers, found otherwise ----


def by_parts(L, D, H, K, F, V, T):
    """Adds up the parts one at a time."""
    Dh = D // H
    projections = 2 * D * (H * Dh) + 2 * D * (K * Dh) * 2 + 2 * (H * Dh) * D
    attention = projections + H * (2 * Dh * T) * 2
    return L * (attention + 2 * 3 * D * F) + 2 * D * V


def in_floats(L, D, H, K, F, V, T):
    """As a float that happens to be whole."""
    return 2.0 * _weights(L, D, H, K, F, V) + 4.0 * L * T * D


exercise = Number(
    id="flops",
    title="What one token costs",
    chapter="10_cost",
    answer="flops",
    points=2,
    stars=2,
    minutes=15,
    quantities=quantities,
    question=(
        "A model has L blocks of width D, with H query heads and K key/value heads, each D / H wide, and a SwiGLU of "
        "width F. There are no biases. Its head is V × D. How many floating-point operations does one token's forward "
        "pass take, in a sequence of T tokens? Count matrix products alone, two operations for a multiply-add, and "
        "the full T × T scores."
    ),
    unit="operations",
    reference=reference,
    mutants=(
        multiply_adds,
        no_scores,
        no_mixing,
        no_head,
        lookup_counted,
        heads_not_shared,
        shared_scores,
        no_output_projection,
        keys_without_values,
        scores_once,
        scores_squared,
        two_matrices,
        one_layer,
        causal_half,
        all_tokens,
        with_backward,
    ),
    variants=(by_parts, in_floats),
    hints=(
        "First count the weights that a token is multiplied with; each costs a multiplication and an addition.",
        "One block: wq and wo are [D, D]; wk and wv are [D, K · D / H]; the SwiGLU has three of D × F.\n"
        "The head has V × D, once. The lookup multiplies nothing.",
        "Attention multiplies without weights, too. One query meets T keys, D numbers over all heads: 2 T D.\n"
        "Mixing T values costs the same. Both happen in each of L blocks.",
        "Operations = 2 · (L · (2 D² + 2 D · K · D / H + 3 D F) + V D) + 4 L T D.",
    ),
    takeaway="2 operations for each weight, and 4 L T D for attention, which alone grows with the length.",
)
