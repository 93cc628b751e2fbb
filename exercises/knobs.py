"""Exercise knobs: what AdamW, clipping and decay do to a step; each answer is decided by running the optimizer."""

import numpy as np

from exercises.spec import Choice, Part
from scratch.optim import adamw_init, adamw_step, clip_gradients

RATE = 0.01


def _steps(gradients, *, limit=None, shape=(1, 1), start=0.0, begun=0, **options):
    """The step that each gradient in turn moves one number by."""
    params = {"w": np.full(shape, start)}
    state, moved = adamw_init(params) | {"step": begun}, []
    for value in gradients:
        before, grads = params["w"].copy(), {"w": np.full(shape, float(value))}
        if limit is not None:
            clip_gradients(grads, limit)
        adamw_step(params, grads, state, RATE, **({"weight_decay": 0.0} | options))
        moved.append(float((params["w"] - before).flat[0]))
    return np.array(moved)


def _size(steps, usual):
    """How large steps are beside the usual ones, as a key of SIZES."""
    ratio = np.abs(steps).mean() / np.abs(usual).mean()
    return "same" if abs(ratio - 1) < 1e-3 else "larger" if ratio > 1 else "smaller"


def _gradients():
    return np.random.default_rng(0).standard_normal(20)


def _hundredfold():
    return _size(_steps(100 * _gradients()), _steps(_gradients()))


def _all_clipped():
    return _size(_steps([10.0] * 20, limit=1.0), _steps([10.0] * 20))


def _after_an_outlier():
    usual = [1.0] * 30
    return _size(_steps([*usual, 100.0, *usual])[31:], _steps([1.0] * 61)[31:])


def _flipping():
    return _size(_steps([1.0, -1.0] * 20)[1:], _steps([1.0] * 40)[1:])


def _uncorrected():
    """A step counter far advanced makes both corrections 1."""
    return _size(_steps([1.0], betas=(0.9, 0.999), begun=10**6), _steps([1.0], betas=(0.9, 0.999)))


def _without_gradient(shape):
    end = 1.0 + _steps([0.0] * 5, shape=shape, start=1.0, weight_decay=0.1).sum()
    return "stays" if end == 1.0 else "shrinks" if end < 1.0 else "grows"


SIZES = {"smaller": "clearly smaller", "same": "the same", "larger": "clearly larger"}
ENDS = {"shrinks": "shrinks", "stays": "stays as it is", "grows": "grows"}

exercise = Choice(
    id="knobs",
    title="What the knobs do",
    chapter="11_training",
    answer="prediction",
    points=2,
    stars=1,
    minutes=10,
    parts=(
        Part(
            name="hundredfold",
            ask="Every gradient of a run is multiplied by 100. Nothing is clipped. AdamW's steps are …",
            options=SIZES,
            wrong={
                "smaller": "√v̂ grows by 100, but so does m̂. What is left of it in the quotient?",
                "larger": "That is plain gradient descent. What is m̂ divided by here, and how has that changed?",
            },
            right=_hundredfold,
        ),
        Part(
            name="all clipped",
            ask="Every gradient is 10. Each is clipped to 1. Compared with no clipping, AdamW's steps are …",
            options=SIZES,
            wrong={
                "smaller": "All gradients become a tenth. What does AdamW do with a factor that all of them share?",
                "larger": "All gradients become a tenth. What does AdamW do with a factor that all of them share?",
            },
            right=_all_clipped,
        ),
        Part(
            name="outlier",
            ask="Gradients of 1, one of 100, not clipped, then 1 again. The 30 steps after it are, on average, …",
            options=SIZES,
            wrong={
                "same": "The means remember. m holds 0.1 · 100 of it, v holds 0.05 · 100². Which memory is longer?",
                "larger": "m holds 0.1 · 100 of it, but √v holds √0.05 · 100, and forgets more slowly. Who wins?",
            },
            right=_after_an_outlier,
        ),
        Part(
            name="flipping",
            ask="A gradient changes its sign at every step, at the same size. Beside those of a steady one, AdamW's "
            "steps after the first are …",
            options=SIZES,
            wrong={
                "same": "So they would be without m. What is a running mean of 1, −1, 1, −1?",
                "larger": "v̂ does not see the sign. m̂ does: what is a running mean of 1, −1, 1, −1?",
            },
            right=_flipping,
        ),
        Part(
            name="uncorrected",
            ask="With β₂ = 0.999 and no bias correction: beside the corrected one, the first step is …",
            options=SIZES,
            wrong={
                "smaller": "m is a tenth of g, so you look at the upper part alone. √v is √0.001 of it: far less.",
                "same": "m is 0.1 g and √v is √0.001 g. Divide.",
            },
            right=_uncorrected,
        ),
        Part(
            name="matrix",
            ask="A matrix entry of 1 has no gradient for five steps, and weight_decay is 0.1. It …",
            options=ENDS,
            wrong={
                "stays": "The decay asks for no gradient. It pulls on the weight itself.",
                "grows": "Decay is a pull towards 0.",
            },
            right=lambda: _without_gradient((1, 1)),
        ),
        Part(
            name="gain",
            ask="The same for a norm's gain, in the library's AdamW. It …",
            options=ENDS,
            wrong={
                "shrinks": "Look at the last lines of `adamw_step`: for which arrays is there a decay?",
                "grows": "Decay would be a pull towards 0. Is there any, for a gain?",
            },
            right=lambda: _without_gradient((1,)),
        ),
    ),
    hints=(
        "AdamW's step is rate · m̂ / √v̂. A factor that all gradients share is in both.",
        "m̂ knows signs, v̂ does not. m forgets with 0.9 a step, √v with about 0.975.",
        "The decay stands beside the step. The library applies it to arrays of two axes or more.",
    ),
    takeaway="AdamW takes no notice of a gradient's unit. Clipping is for the one that is not like the others.",
)
