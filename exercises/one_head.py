"""Exercise one-head: one number of a head's output by hand, with dot products and values of the learner's own."""

import itertools

import numpy as np

from exercises.spec import Number
from scratch import attention


def quantities(rng):
    """Whole scores after the division by √Dh; drawn again until no two of the known answers agree."""
    while True:
        Dh = int(rng.choice([16, 64]))
        scores = [int(s) for s in rng.choice([-1, 0, 1, 2, 3], 3, replace=False)]
        values = [int(v) for v in rng.choice([2, 3, 4, 5, 6, 7, 8, 9], 3, replace=False)]
        given = {f"dot{j + 1}": score * int(Dh**0.5) for j, score in enumerate(scores)}
        given |= {"Dh": Dh} | {f"v{j + 1}": value for j, value in enumerate(values)}
        answers = [reference(**given), *(mutant(**given) for mutant in MUTANTS)]
        if abs(scores[0] - scores[1]) < 3 and all(
            abs(a - b) > 0.01 * max(abs(a), abs(b)) for a, b in itertools.combinations(answers, 2)
        ):
            return given


def reference(dot1, dot2, dot3, Dh, v1, v2, v3):
    """The library's head, on three tokens whose second query has these dot products."""
    q, k, v = np.zeros((3, 1, 1, 3, Dh))  # each [B, H, T, Dh]
    q[..., 1, 0] = 1.0
    k[..., 0] = dot1, dot2, dot3
    v[..., 0] = v1, v2, v3
    return float(attention.sdpa_forward(q, k, v)[0][0, 0, 1, 0])


def _mixed(scores, values):
    e = np.exp(np.array(scores, dtype=float))
    return float(e @ np.array(values) / e.sum())


# ---- wrong answers; each docstring is what its author will read ----


def no_mask(dot1, dot2, dot3, Dh, v1, v2, v3):
    """Your token 2 reads token 3 as well. The mask is causal: it sees key 1 and its own."""
    return _mixed(np.array([dot1, dot2, dot3]) / Dh**0.5, (v1, v2, v3))


def no_scale(dot1, dot2, dot3, Dh, v1, v2, v3):
    """You exponentiated the dot products themselves. A score is the dot product divided by √Dh."""
    return _mixed(np.array([dot1, dot2]), (v1, v2))


def divided_by_width(dot1, dot2, dot3, Dh, v1, v2, v3):
    """You divided by Dh. The spread of a dot product grows like √Dh, and that is what it is divided by."""
    return _mixed(np.array([dot1, dot2]) / Dh, (v1, v2))


def mask_after_softmax(dot1, dot2, dot3, Dh, v1, v2, v3):
    """Your two weights do not add up to 1: key 3 took its share before it was hidden. Mask first, then the softmax."""
    return _mixed(np.array([dot1, dot2, dot3]) / Dh**0.5, (v1, v2, 0))


def zero_hides(dot1, dot2, dot3, Dh, v1, v2, v3):
    """You gave the hidden key the score 0, which still counts: e⁰ is 1. A hidden key has the score −∞."""
    return _mixed([dot1 / Dh**0.5, dot2 / Dh**0.5, 0.0], (v1, v2, v3))


def not_itself(dot1, dot2, dot3, Dh, v1, v2, v3):
    """Your token 2 does not see itself. Query i sees key j when j ≤ i, so its own key counts."""
    return float(v1)


def itself_alone(dot1, dot2, dot3, Dh, v1, v2, v3):
    """That is token 2's own value alone. It also reads token 1, which came before it."""
    return float(v2)


def plain_mean(dot1, dot2, dot3, Dh, v1, v2, v3):
    """That is the plain mean of two values. Their weights are equal only where the scores are."""
    return (v1 + v2) / 2


def weights_exchanged(dot1, dot2, dot3, Dh, v1, v2, v3):
    """You exchanged the two weights: each value is weighted by the score of its own key."""
    return _mixed(np.array([dot1, dot2]) / Dh**0.5, (v2, v1))


def not_normalized(dot1, dot2, dot3, Dh, v1, v2, v3):
    """You added up exponentials times values. The weights are the exponentials divided by their sum."""
    return float(np.exp(np.array([dot1, dot2]) / Dh**0.5) @ np.array([v1, v2]))


def scores_as_weights(dot1, dot2, dot3, Dh, v1, v2, v3):
    """You used the scores as weights. They may be negative, and do not add up to 1: the softmax comes between."""
    return (dot1 * v1 + dot2 * v2) / Dh**0.5


def weight(dot1, dot2, dot3, Dh, v1, v2, v3):
    """That is the weight of token 2's own key. The output is the mixture of the values with both weights."""
    return _mixed(np.array([dot1, dot2]) / Dh**0.5, (0, 1))


MUTANTS = (
    no_mask,
    no_scale,
    divided_by_width,
    mask_after_softmax,
    zero_hides,
    not_itself,
    itself_alone,
    plain_mean,
    weights_exchanged,
    not_normalized,
    scores_as_weights,
    weight,
)


# ---- right answers, found otherwise ----


def by_hand(dot1, dot2, dot3, Dh, v1, v2, v3):
    """Two exponentials, two weights, two products."""
    one, two = np.exp(dot1 / Dh**0.5), np.exp(dot2 / Dh**0.5)
    return float(one / (one + two) * v1 + two / (one + two) * v2)


def by_difference(dot1, dot2, dot3, Dh, v1, v2, v3):
    """From the difference of the scores alone: a softmax of two is a sigmoid."""
    return float(v1 + (v2 - v1) / (1 + np.exp((dot1 - dot2) / Dh**0.5)))


exercise = Number(
    id="one-head",
    title="One number of one head",
    chapter="03_attention",
    answer="number",
    points=1,
    stars=1,
    minutes=8,
    quantities=quantities,
    question=(
        "A causal head of width Dh reads three tokens. The query of token 2 has the dot products dot1, dot2 and dot3 "
        "with the keys of tokens 1, 2 and 3; they are not divided by anything yet. In their first feature the values "
        "hold v1, v2 and v3. What does token 2's output hold there? (To three digits or more.)"
    ),
    unit="units of the values",
    reference=reference,
    mutants=MUTANTS,
    variants=(by_hand, by_difference),
    tolerance=2e-3,
    hints=(
        "Which of the three keys may token 2 see?",
        "Two scores are left, dot1 / √Dh and dot2 / √Dh. They are whole numbers.",
        "The weights are exp(score 1) and exp(score 2), each divided by the sum of the two.",
        "The output is weight 1 · v1 + weight 2 · v2. It lies between v1 and v2.",
    ),
    takeaway="Scale, mask, softmax, mix: the output always lies between the smallest and the largest value it may see.",
)
