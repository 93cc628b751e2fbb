"""Exercise order-backward: put the lines of a pre-norm block's backward into an order that runs and is right."""

import numpy as np

from exercises.spec import Order

STEPS = {
    "a": "dx += norm1_backward(dn1)",
    "b": "dn2 = ffn_backward(dy)",
    "c": "dx = du.copy()",
    "d": "dn1 = attention_backward(du)",
    "e": "du += norm2_backward(dn2)",
    "f": "du = dy.copy()",
}


def works(keys):
    """Run the lines with linear branches, whose gradient is known: dx = dy (I + F)(I + A)."""
    rng = np.random.default_rng(0)
    dy, norm1, norm2, attention, ffn = rng.standard_normal((5, 3, 3))
    names = {"dy": dy.copy()}
    for name, matrix in {"norm1": norm1, "norm2": norm2, "attention": attention, "ffn": ffn}.items():
        names[f"{name}_backward"] = lambda d, matrix=matrix: d @ matrix
    try:
        for key in keys:
            exec(STEPS[key], names)  # the lines above, and no others
    except NameError:
        return False
    du = dy + dy @ ffn @ norm2
    return bool(np.allclose(names["dx"], du + du @ attention @ norm1))


exercise = Order(
    id="order-backward",
    title="The way back, line by line",
    chapter="08_backward",
    answer="order",
    points=1,
    stars=1,
    minutes=8,
    steps=STEPS,
    before=(
        ("f", "e", "`du += …` needs a du to add to: the straight road comes first."),
        (
            "b",
            "e",
            "norm2's backward takes what the feed-forward's backward gives: branches are walked from their end.",
        ),
        ("e", "c", "Here dx starts from a du that is not complete: the feed-forward's share has not reached it yet."),
        ("e", "d", "Attention's backward reads du before both roads have met in it; the feed-forward's share is lost."),
        ("c", "a", "`dx += …` needs a dx to add to: the straight road comes first."),
        ("d", "a", "norm1's backward takes what attention's backward gives: branches are walked from their end."),
    ),
    works=works,
    hints=(
        "The forward was u = x + attention(norm1(x)), then y = u + ffn(norm2(u)). Which add is undone first?",
        "At each add the gradient goes two ways: straight on (a copy), and through the branch, from its end.",
        "du is complete when both ways have been added. Only then can anything that reads u be undone.",
    ),
    takeaway="At each add the gradient is copied to both roads; where they meet again, they are summed.",
)
