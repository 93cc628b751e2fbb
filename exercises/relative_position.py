"""Exercise relative-position: predict what rotations do to scores, outputs and gradients; they are then run."""

import numpy as np

from exercises.spec import Choice, Part
from scratch import attention, rope

DH = 8
COS, SIN = rope.rope_table(40, DH)
Q, K = np.random.default_rng(0).standard_normal((2, DH))
SAME = {"same": "the same", "different": "different"}


def _turn(vector, position, layout="interleaved"):
    """A single vector [Dh], turned as a token at this position is."""
    row = slice(position, position + 1)
    return rope.rope_forward(vector[None], COS[row], SIN[row], layout)[0][0]


def _word(one, two):
    return "same" if np.allclose(one, two) else "different"


def _score(at_query, at_key):
    return float(_turn(Q, at_query) @ _turn(K, at_key))


def _output(start, turn_values):
    """What a head returns for five tokens that stand from `start` on."""
    q, k, v = np.random.default_rng(1).standard_normal((3, 1, 1, 5, DH))
    table = COS[start : start + 5], SIN[start : start + 5]
    q, k = (rope.rope_forward(x, *table)[0] for x in (q, k))
    v = rope.rope_forward(v, *table)[0] if turn_values else v
    return attention.sdpa_forward(q, k, v)[0]


def _fastest():
    """The pair of the table that has turned farthest at position 1."""
    angles = np.arctan2(SIN[1], COS[1])
    return "all" if np.ptp(angles) < 1e-9 else {0: "first", len(angles) - 1: "last"}[int(angles.argmax())]


def _permuted(both):
    """The score under "half", after the query, or query and key, went into that layout's order."""
    q = rope.convert_layout(Q, 1, "half")
    k = rope.convert_layout(K, 1, "half") if both else K
    return _word(_turn(q, 9, "half") @ _turn(k, 4, "half"), _score(9, 4))


def _gradient():
    """The length of what reaches x, against the upstream's."""
    x, dout = np.random.default_rng(2).standard_normal((2, 5, DH))
    dx = rope.rope_backward(dout, rope.rope_forward(x, COS, SIN)[1])
    before, after = (np.linalg.norm(g, axis=-1) for g in (dout, dx))
    return "same" if np.allclose(before, after) else "longer" if np.all(after >= before) else "shorter"


exercise = Choice(
    id="relative-position",
    title="Only the difference counts",
    chapter="04_positions",
    answer="predictions",
    points=2,
    stars=1,
    minutes=12,
    parts=(
        Part(
            name="both moved",
            ask="A query stands at position 9, a key at 4. Both move on by 20 places. Their score is …",
            options=SAME,
            wrong={"different": "Both turn by the same further angles. What happens to the angle between them?"},
            right=lambda: _word(_score(29, 24), _score(9, 4)),
        ),
        Part(
            name="one moved",
            ask="A query stands at position 9, a key at 4. The query alone moves on by 20 places. Their score is …",
            options=SAME,
            wrong={"same": "The query's hands turn on and the key's stay. Is the angle between them what it was?"},
            right=lambda: _word(_score(29, 4), _score(9, 4)),
        ),
        Part(
            name="exchanged",
            ask="The query, at 9, and the key, at 4, exchange their positions. Their score is in general …",
            options=SAME,
            wrong={
                "same": "The difference has the same size and the other sign: a key 5 places back, or 5 ahead. "
                "Is turning by an angle the same as turning back by it?"
            },
            right=lambda: _word(_score(4, 9), _score(9, 4)),
        ),
        Part(
            name="fastest",
            ask="Which pair of a head turns farthest from one position to the next?",
            options={"first": "the first, i = 0", "last": "the last, i = Dh/2 − 1", "all": "all turn alike"},
            wrong={
                "last": "The speed is base^(−2i/Dh). Does it grow or fall with i?",
                "all": "The speed is base^(−2i/Dh), and i is the pair's number.",
            },
            right=_fastest,
        ),
        Part(
            name="values too",
            ask="Someone turns the values too. All five tokens of a text move on by 20 places. The output is …",
            options=SAME,
            wrong={"same": "Values are added up, never compared: nothing turns their sum back."},
            right=lambda: _word(_output(0, True), _output(20, True)),
        ),
        Part(
            name="queries permuted",
            ask="wq is converted to the other layout, wk is forgotten, and the code uses that layout. The scores are …",
            options=SAME,
            wrong={"same": "Feature by feature, what is now multiplied with what? The keys stand in the old order."},
            right=lambda: _permuted(both=False),
        ),
        Part(
            name="both permuted",
            ask="wq and wk are both converted to the other layout, and the code uses that layout. The scores are …",
            options=SAME,
            wrong={"different": "Each pair stands where it is looked for. Does a dot product depend on the order?"},
            right=lambda: _permuted(both=True),
        ),
        Part(
            name="gradient",
            ask="A gradient of length 1 arrives at a turned query. What leaves at the query before the turn is …",
            options={"shorter": "shorter", "same": "of length 1", "longer": "longer"},
            wrong={
                "shorter": "Backward is the inverse rotation. What does a rotation do to lengths?",
                "longer": "Backward is the inverse rotation. What does a rotation do to lengths?",
            },
            right=_gradient,
        ),
    ),
    hints=(
        "Think of one pair, the hand of a clock. Its score with another hand depends on the angle between the two.",
        "(R_m q) · (R_n k) = q · (R_(n−m) k). What do m and n have to do for n − m to stay as it is?",
        "A rotation keeps lengths, forward and backward. Reorder both vectors alike: the dot product stays.",
    ),
    takeaway="Scores see n − m and nothing else. Whatever is not compared, such as a value, must not be turned.",
)
