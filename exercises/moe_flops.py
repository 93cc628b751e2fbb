"""Exercise moe-flops: the floating-point operations of one token in a layer of experts of the learner's own."""

from exercises.spec import Number


def quantities(rng):
    """D and F are no multiples of one another, and E is far from k, so that no two mistakes agree."""
    return {
        "D": 128 * int(rng.choice([5, 7, 9, 11, 13])),
        "F": 64 * int(rng.choice([17, 19, 23, 29, 31])),
        "E": int(rng.choice([16, 32, 64])),
        "k": int(rng.choice([3, 5, 6])),
    }


def reference(D, F, E, k):
    """The router's product, and three matrices of each chosen expert."""
    return 2 * D * E + k * 6 * D * F


# ---- wrong answers; each docstring is what its author will read ----


def multiply_adds(D, F, E, k):
    """That is half: you counted multiply-adds. A multiplication and an addition are two operations."""
    return reference(D, F, E, k) // 2


def every_expert(D, F, E, k):
    """You counted all E experts. A token is computed by the k it was sent to, and by no other."""
    return 2 * D * E + E * 6 * D * F


def one_expert(D, F, E, k):
    """You counted one expert. Each token goes through k of them."""
    return 2 * D * E + 6 * D * F


def no_router(D, F, E, k):
    """You left out the router, which gives every token a logit for each of the E experts."""
    return k * 6 * D * F


def router_of_the_chosen(D, F, E, k):
    """You counted k logits. To find the k largest, the router has to compute all E."""
    return 2 * D * k + k * 6 * D * F


def router_for_each(D, F, E, k):
    """You ran the router once for each chosen expert. It runs once for a token."""
    return k * (2 * D * E + 6 * D * F)


def two_matrices(D, F, E, k):
    """Your expert has two matrices. A SwiGLU has three: gate, up and down."""
    return 2 * D * E + k * 4 * D * F


def width_shared(D, F, E, k):
    """You divided F among the experts. Here each expert is F wide."""
    return 2 * D * E + k * 6 * D * F / E


def with_backward(D, F, E, k):
    """That includes the backward pass, which costs two forwards; the question is the forward alone."""
    return 3 * reference(D, F, E, k)


def weights(D, F, E, k):
    """That is the layer's number of weights. Which of them does a token meet?"""
    return D * E + E * 3 * D * F


def active_weights(D, F, E, k):
    """You counted the router's operations, but of the experts the weights alone: each weight costs two operations."""
    return 2 * D * E + k * 3 * D * F


def router_is_one_add(D, F, E, k):
    """You counted the router's weights. Each costs a multiplication and an addition."""
    return D * E + k * 6 * D * F


# ---- right answers, found otherwise ----


def by_parts(D, F, E, k):
    """Adds up the products one at a time."""
    operations = 2 * D * E
    for _ in range(k):
        operations += 2 * D * F + 2 * D * F + 2 * F * D
    return operations


def in_floats(D, F, E, k):
    """As a float that happens to be whole."""
    return 2.0 * D * (E + 3 * k * F)


exercise = Number(
    id="moe-flops",
    title="What a token costs among experts",
    chapter="14_efficient",
    answer="flops",
    points=1,
    stars=1,
    minutes=10,
    quantities=quantities,
    question=(
        "A mixture-of-experts layer of width D has a router and E experts. Each expert is a SwiGLU of width F, and "
        "each token goes to k of them. How many floating-point operations does one token's forward pass through this "
        "layer take? Count matrix products alone, two operations for a multiply-add."
    ),
    unit="operations",
    reference=reference,
    mutants=(
        multiply_adds,
        every_expert,
        one_expert,
        no_router,
        router_of_the_chosen,
        router_for_each,
        two_matrices,
        width_shared,
        with_backward,
        weights,
        active_weights,
        router_is_one_add,
    ),
    variants=(by_parts, in_floats),
    hints=(
        "Count the weights that one token is multiplied with; each costs a multiplication and an addition.",
        "The router is [D, E], and every token meets all of it.",
        "An expert is three matrices of D × F. A token meets k experts.",
        "Operations = 2 · (D E + 3 k D F).",
    ),
    takeaway="E stands only in the router's small product: more experts are more weights, and hardly more work.",
)
