"""Exercise inside-readings: what lenses, maps and ablations prove, and what not; small live parts decide."""

import numpy as np

from exercises.spec import Choice, Part
from scratch.attention import sdpa_forward
from scratch.ffn import swiglu_forward
from scratch.ops import rmsnorm_forward

_rng = np.random.default_rng(0)
_TABLE = _rng.standard_normal((7, 8))  # seven words
_TABLE[:, 6:] = 0  # no word has anything in the last two features


def _lens(x):
    return rmsnorm_forward(x, np.ones(x.shape[-1]), 1e-5)[0] @ _TABLE.T


def _dark_column():
    """What a head adds whose keys all say "the first token", when that token's value is 0."""
    q, k, v = (_rng.standard_normal((1, 1, 5, 4)) for _ in range(3))
    q[..., 0], k[..., 0] = 50, 0
    k[:, :, 0, 0] = 50
    v[:, :, 0] = 0
    out = sdpa_forward(q, k, v)[0][0, 0, 1:]
    return "nothing" if np.abs(out).max() < 1e-9 else "mean" if np.allclose(out[-1], v.mean(axis=2)) else "first"


def _backup():
    """Two heads add the same large vector; what is left of the logits without one of them."""
    x, a = 0.01 * _rng.standard_normal((1, 8)), 20 * _rng.standard_normal((1, 8))
    ratio = np.median(_lens(x + a) / _lens(x + a + a))
    return min({"zero": 0.0, "half": 0.5, "same": 1.0}.items(), key=lambda item: abs(item[1] - ratio))[0]


def _silent_lens():
    """A feature that no word has, and a feed-forward that turns it into word 1."""
    x, told = np.ones((1, 8)), np.ones((1, 8))
    x[0, 7], told[0, 7] = -1.0, 1.0  # the same length, so that only the hidden feature tells the two apart
    seen = np.abs(_lens(told) - _lens(x)).max() > 1e-9
    wg, wu = np.zeros((8, 1)), np.zeros((8, 1))
    wg[7], wu[0] = 4.0, 1.0  # the gate opens for the finding; the up value is 1
    wd = 5 * _TABLE[1:2]
    later = [_lens(y + swiglu_forward(y, wg, wu, wd)[0]).argmax() for y in (x, told)]
    if seen:
        return "seen"
    return "later" if later[1] == 1 != later[0] else "lost"


def _louder():
    x = _rng.standard_normal((1, 8))
    ratio = np.median(_lens(10 * x) / _lens(x))
    return min({"tenth": 0.1, "same": 1.0, "ten": 10.0}.items(), key=lambda item: abs(item[1] - ratio))[0]


def _no_control():
    """Four heads push the same word alike; is the first one's effect larger than that of the others?"""
    x = _rng.standard_normal((1, 8))
    push = np.repeat(0.5 * _TABLE[2:3], 4, axis=0)
    whole = _lens(x + push.sum(axis=0))[0, 2]
    falls = [whole - _lens(x + np.delete(push, i, axis=0).sum(axis=0))[0, 2] for i in range(4)]
    if falls[0] > 1.5 * np.median(falls[1:]):
        return "special"
    return "nothing" if falls[0] > 0 else "useless"


def _two_steps():
    """A B C A B, read by a head that looks for the token whose predecessor was its own: with that mark, and without."""
    words = np.eye(5)[[0, 1, 2, 0, 1]]
    before = np.zeros_like(words)
    before[1:] = words[:-1]  # what the earlier head wrote into each token
    q, k, v = 40 * words[None, None], before[None, None], np.eye(5)[None, None]  # with these values, out is the map
    found, lost = (sdpa_forward(q, keys, v)[0][0, 0, -1] for keys in (k, 0 * k))
    assert found.argmax() == 2  # with the mark it looks at C, which came after the first B
    return "same" if np.allclose(found, lost) else "even" if np.allclose(lost, 1 / 5) else "first"


exercise = Choice(
    id="inside-readings",
    title="What a look inside proves",
    chapter="13_real_model",
    answer="prediction",
    points=2,
    stars=2,
    minutes=15,
    parts=(
        Part(
            name="dark column",
            ask="A head gives all its weight to the first token, whose value vector is 0. What does it add elsewhere?",
            options={"first": "the first token's stream", "mean": "the mean of what it sees", "nothing": "nothing"},
            wrong={
                "first": "The map says where it looks. What is carried off is the value: what is 1 times 0?",
                "mean": "The weights are not even: all of it lies on one token. What is that token's value?",
            },
            right=_dark_column,
        ),
        Part(
            name="backup",
            ask="Two heads add the same long vector, most of the stream. Without one, the logits after the norm are …",
            options={"zero": "near 0", "half": "half as large", "same": "nearly the same"},
            wrong={
                "zero": "The other head still adds its vector. Which direction does the stream keep?",
                "half": "The stream has half the length. What stands between the stream and the head?",
            },
            right=_backup,
        ),
        Part(
            name="silent lens",
            ask="A block writes its finding into a feature that no row of the table has. The lens sees …",
            options={
                "seen": "the finding",
                "lost": "nothing, and the finding is lost",
                "later": "nothing, and yet a later block can make a word of it",
            },
            wrong={
                "seen": "A score is a dot product with a row of the table. What does a feature give that is 0 there?",
                "lost": "The head cannot read that feature. But who says that a later feed-forward cannot?",
            },
            right=_silent_lens,
        ),
        Part(
            name="louder",
            ask="At one depth the stream is ten times as long, in the same direction. The lens's logits are …",
            options={"tenth": "a tenth", "same": "nearly the same", "ten": "ten times as large"},
            wrong={
                "tenth": "The stream and what it is divided by both grow tenfold.",
                "ten": "That would be so without the final norm. The lens has one.",
            },
            right=_louder,
        ),
        Part(
            name="no control",
            ask="Four heads push a word alike. You silence the first, and its logit falls. What does that show of it?",
            options={
                "special": "that this head is the one that knows the word",
                "nothing": "nothing special: the others' silence does the same",
                "useless": "that it is useless",
            },
            wrong={
                "special": "Silence each of the other three, too. Does the logit fall any less?",
                "useless": "The logit fell: this head did push. The question is whether it pushed more than others.",
            },
            right=_no_control,
        ),
        Part(
            name="two steps",
            ask="A head's keys hold only an earlier head's mark. That one is silenced. The later head's map is …",
            options={
                "same": "the same: nobody touched this head",
                "even": "even: all keys look alike",
                "first": "on the first token alone",
            },
            wrong={
                "same": "Its weights are untouched. But its keys are made from the stream: what is missing there?",
                "first": "A sink has to be learned. Here all scores are equal: what does softmax make of that?",
            },
            right=_two_steps,
        ),
    ),
    hints=(
        "Between the stream and a claim stand the value vectors, the norm and the table. Which of them matters here?",
        "Ask of each claim: what would I have seen if it were wrong? Only a difference between the two is evidence.",
        "Weights choose, values are carried. The norm forgets length. The lens sees the table's directions alone.",
    ),
    takeaway="Look, then change one thing, then change something else as a control. The claim is the difference.",
)
