"""Exercise gate: predictions on one hidden unit of a live SwiGLU, forward and backward."""

import numpy as np

from exercises.spec import Choice, Part
from scratch.ffn import swiglu_backward, swiglu_forward

_WEIGHTS = {"wg": "its column of wg alone", "wu": "its column of wu alone", "wd": "its row of wd alone"}
_WEIGHTS |= {"all": "all three", "none": "none"}


def _unit(gate, up, down=1.0):
    """One token of width 1, at 1, and one hidden unit with these gate and up values: (x, wg, wu, wd)."""
    return tuple(np.array([[float(value)]]) for value in (1, gate, up, down))


def _learns(gate, up):
    """Which of the unit's weights have a gradient where gate and up have these values."""
    _, cache = swiglu_forward(*_unit(gate, up))
    gradients = dict(zip(("wg", "wu", "wd"), swiglu_backward(np.ones((1, 1)), cache)[1:]))
    found = tuple(name for name, dw in gradients.items() if np.any(dw))
    return {(): "none", ("wg", "wu", "wd"): "all"}.get(found) or "".join(found)


def _out(gate, up, down=1.0):
    return float(swiglu_forward(*_unit(gate, up, down))[0][0, 0])


def _closed():
    low, high = _out(-3, 2), _out(-3, 2.1)
    return "falls" if high < low else "rises" if high > low else "stays"


def _twice():
    ratio = _out(2 * 20, 2 * 5) / _out(20, 5)
    return {2: "two", 4: "four", 1: "same"}[round(ratio)]


def _flipped(*which):
    """Whether the output stays when the signs of some of (gate, up, down) are turned."""
    values = dict(gate=0.7, up=-1.3, down=0.4)
    return np.isclose(_out(**values), _out(**{n: -v if n in which else v for n, v in values.items()}))


def _signs():
    pairs = {"up and down": ("up", "down"), "gate and down": ("gate", "down"), "gate and up": ("gate", "up")}
    return next(name for name, which in pairs.items() if _flipped(*which))


def _swapped():
    return "same" if np.isclose(_out(2, -1), _out(-1, 2)) else "other"


exercise = Choice(
    id="gate",
    title="One gated unit",
    chapter="06_feed_forward",
    answer="prediction",
    points=2,
    stars=1,
    minutes=10,
    parts=(
        Part(
            name="up is zero",
            ask="For a token, a hidden unit's up value is 0 and its gate is at 2. Which of its weights get a gradient?",
            options=_WEIGHTS,
            wrong={
                "wg": "The gate's path receives the up value. What is that here?",
                "wd": "The row of wd receives the hidden value, SiLU(gate) times up. What is that here?",
                "all": "Each factor of a product receives the other one, and one of the two is 0.",
                "none": "The hidden value is 0, but the gate is open. What does up receive?",
            },
            right=lambda: _learns(2, 0),
        ),
        Part(
            name="gate is zero",
            ask="Now the gate is at exactly 0 and the up value is 3. Which of its weights get a gradient?",
            options=_WEIGHTS,
            wrong={
                "wu": "The up path receives SiLU(gate), here SiLU(0). What is that?",
                "wd": "The row of wd receives the hidden value, SiLU(0) times up. What is that?",
                "all": "SiLU(0) = 0. Which of the three receive that factor?",
                "none": "SiLU is 0 there, but its slope is not: how steep is SiLU at 0?",
            },
            right=lambda: _learns(0, 3),
        ),
        Part(
            name="closed",
            ask="The gate is at −3, the up value is 2 and rises a little. The unit's weight in wd is 1. The output …",
            options={"rises": "rises", "stays": "stays as it is", "falls": "falls"},
            wrong={
                "rises": "The up value is multiplied by SiLU(−3). Which sign has that?",
                "stays": "Nearly closed is not closed. What is SiLU(−3), to two digits?",
            },
            right=_closed,
        ),
        Part(
            name="twice",
            ask="A unit's gate is wide open, at 20. The token's vector is doubled. The unit's hidden value is …",
            options={"same": "the same", "two": "twice as large", "four": "about four times as large"},
            wrong={
                "same": "No norm stands between the vector and the two projections here. Both of them double.",
                "two": "That is what a ReLU unit does. Here two numbers double, and they are multiplied.",
            },
            right=_twice,
        ),
        Part(
            name="signs",
            ask="Of which two weight vectors of a unit may you turn the signs, and the output is always as before?",
            options={name: name for name in ("gate and up", "gate and down", "up and down")},
            wrong={
                "gate and up": "SiLU(−z) is not −SiLU(z), so the gate's sign matters.",
                "gate and down": "SiLU(−z) is not −SiLU(z), so the gate's sign matters.",
            },
            right=_signs,
        ),
        Part(
            name="swapped",
            ask="Somebody loads a checkpoint with the gate's and the up projection's matrices swapped. The output is …",
            options={"same": "the same: a product commutes", "other": "another, without any error"},
            wrong={"same": "Only one of the two passes through SiLU. Try a gate of 2 and an up value of −1."},
            right=_swapped,
        ),
    ),
    hints=(
        "One unit: hidden = SiLU(gate) · up. Write down SiLU(0), and the signs of SiLU(−3) and SiLU(2).",
        "Backward: up receives SiLU(gate), the gate receives up · SiLU′(gate), and wd receives the hidden value.",
        "SiLU′(0) = 1/2. For a wide-open gate SiLU(z) is nearly z, so hidden is nearly gate · up.",
    ),
    takeaway="A gated unit is a product. That is why it has two ways to be silent, and why it is not linear when open.",
)
