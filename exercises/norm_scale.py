"""Exercise norm-scale: what the two norms notice, and what they do not, predicted and then run."""

import numpy as np

from exercises.spec import Choice, Part
from scratch import ops

_rng = np.random.default_rng(0)
_X = _rng.standard_normal((3, 6))  # three tokens, none of whose features are near 0
_X += np.sign(_X)
_G, _B = np.ones(6), np.zeros(6)


def _rms(x, g=_G):
    return ops.rmsnorm_forward(x, g, 1e-5)[0]


def _layer(x, g=_G):
    return ops.layernorm_forward(x, g, _B, 1e-5)[0]


def _times(now, before):
    """In a word, how `now` compares with `before`."""
    ratio = now / before
    words = {"a tenth": 0.1, "same": 1.0, "ten times": 10.0}
    return next((word for word, factor in words.items() if np.allclose(ratio, factor, rtol=1e-3)), "other")


def _moved(now, before):
    return np.abs(now - before) > 1e-4 * np.abs(before).max()


def _plus_five():
    moved = {name: _moved(norm(_X + 5), norm(_X)).any() for name, norm in (("rms", _rms), ("layer", _layer))}
    return {(False, False): "neither", (True, True): "both", (True, False): "rms"}.get(tuple(moved.values()), "layer")


def _features(norm, x=_X, g=_G):
    """Which features of the first token change when something about its first feature was changed."""
    moved = _moved(norm(x, g), norm(_X))[0]
    return "none" if not moved.any() else "all" if moved.all() else "own" if not moved[1:].any() else "others"


def _flipped():
    x = _X.copy()
    x[0, 0] *= -1
    return x


def _rows():
    x = _X.copy()
    x[1] = np.random.default_rng(1).standard_normal(6)
    moved = _moved(_layer(x), _layer(_X)).any(axis=1)
    return {(0, 0, 0): "none", (0, 1, 0): "own", (1, 1, 1): "all"}.get(tuple(moved.astype(int)), "later")


def _gradient():
    dout = np.random.default_rng(2).standard_normal(_X.shape)
    once, ten = (ops.rmsnorm_backward(dout, ops.rmsnorm_forward(x, _G, 1e-5)[1])[0] for x in (_X, 10 * _X))
    return _times(ten, once)


def _tiny():
    out = _rms(1e-3 * _X / np.sqrt((_X * _X).mean(axis=-1, keepdims=True)))
    size = np.sqrt((out * out).mean())
    return min({"one": 1.0, "third": 0.3, "thousandth": 1e-3}.items(), key=lambda item: abs(np.log(item[1] / size)))[0]


_FEATURES = {"none": "no feature", "own": "the first alone", "others": "the others alone", "all": "all six features"}

exercise = Choice(
    id="norm-scale",
    title="What a norm notices",
    chapter="02_normalization",
    answer="predictions",
    points=2,
    stars=1,
    minutes=12,
    parts=(
        Part(
            name="times ten",
            ask="A token's row is multiplied by ten. What comes out of RMSNorm?",
            options={"a tenth": "a tenth of before", "same": "nearly the same", "ten times": "ten times as much"},
            wrong={
                "a tenth": "The row is ten times as large, and so is what it is divided by.",
                "ten times": "That is what would come out without a norm. What is the row divided by?",
            },
            right=lambda: _times(_rms(10 * _X), _rms(_X)),
        ),
        Part(
            name="plus five",
            ask="5 is added to every feature of a token. Which norm's output changes?",
            options={
                "neither": "neither's",
                "rms": "RMSNorm's alone",
                "layer": "LayerNorm's alone",
                "both": "both",
            },
            wrong={
                "neither": "One of the two subtracts nothing. What does a row that lies far from 0 look like to it?",
                "layer": "It is the other way round: which of the two begins by subtracting the mean?",
                "both": "One of the two subtracts the mean first. What is left of the 5 then?",
            },
            right=_plus_five,
        ),
        Part(
            name="flip rms",
            ask="The first of six features changes its sign. Which features come out of RMSNorm changed?",
            options=_FEATURES,
            wrong={
                "none": "The norm keeps the signs of a row. Which sign has just changed?",
                "others": "What the features share is the mean of their squares. Has it changed?",
                "all": "That would be so if r had changed. It depends on the squares alone.",
            },
            right=lambda: _features(_rms, _flipped()),
        ),
        Part(
            name="flip layer",
            ask="The same. Which features come out of LayerNorm changed?",
            options=_FEATURES,
            wrong={
                "none": "The flipped feature is on the other side of the mean, at least.",
                "own": "That is RMSNorm's answer. What happened to the mean, which every feature has subtracted?",
                "others": "The first one has itself changed, and is not left out of what follows.",
            },
            right=lambda: _features(_layer, _flipped()),
        ),
        Part(
            name="gain",
            ask="Feature 1's gain is doubled, the row stays. Which features come out of RMSNorm changed?",
            options=_FEATURES,
            wrong={
                "none": "The gain is applied after the row was brought to size. Nothing takes it back.",
                "others": "Each feature is multiplied by its own gain. Whose gain was doubled?",
                "all": "The gain comes last: the mean of the squares was taken before it.",
            },
            right=lambda: _features(_rms, g=np.array([2.0, 1, 1, 1, 1, 1])),
        ),
        Part(
            name="other token",
            ask="The second of three tokens is replaced. Which rows come out of LayerNorm changed?",
            options={"none": "no row", "own": "the second alone", "later": "the second and third", "all": "all three"},
            wrong={
                "none": "The norm forgets the size of a row, not its direction; another token has another one.",
                "later": "That is how attention works. A norm does not look at other tokens at all.",
                "all": "Batch normalization would do that. Here every row has a mean and a deviation of its own.",
            },
            right=_rows,
        ),
        Part(
            name="gradient",
            ask="A row is multiplied by ten; the upstream gradient stays. What is RMSNorm's dx now?",
            options={"a tenth": "a tenth of before", "same": "nearly the same", "ten times": "ten times as much"},
            wrong={
                "same": "The output is the same. But how much does it move when one entry of a large row grows by 0.1?",
                "ten times": "It is the other way round: a nudge of 0.1 is a smaller part of a larger row.",
            },
            right=_gradient,
        ),
        Part(
            name="tiny",
            ask="A row has root-mean-square 0.001, eps is 1e-5. What is the root-mean-square of RMSNorm's output?",
            options={"one": "nearly 1", "third": "about 0.3", "thousandth": "about 0.001"},
            wrong={
                "one": "Compare the mean square of this row, 0.000001, with eps. Which of the two decides?",
                "thousandth": "Nothing would be divided then. What is the root of 0.000001 + 0.00001?",
            },
            right=_tiny,
        ),
    ),
    hints=(
        "Write both formulas down. Which single numbers of a row do all its features share?",
        "RMSNorm shares the mean square alone, LayerNorm the mean and the deviation. Gains come last, one each.",
        "If out stays the same when x is multiplied by ten, how far must x move to move out by a given amount?",
    ),
    takeaway="RMSNorm forgets a row's size, LayerNorm also its mean. What the output does not show has no gradient.",
)
