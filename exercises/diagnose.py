"""Exercise diagnose: from a symptom to the fault that has it. Each suspect is built and looked at."""

import math
from functools import partial

import numpy as np

from exercises.spec import Choice, Part
from scratch.attention import attention_forward, sdpa_forward
from scratch.config import Config
from scratch.model import init_params, map_leaves, model_forward
from scratch.ops import cross_entropy_forward, softmax_forward
from scratch.rope import rope_table


def _culprit(shows):
    """The one suspect of {key: does it show the symptom}."""
    (key,) = (key for key, holds in shows.items() if holds)
    return key


def _no_loss():
    """The suspects' losses of a model that repeats what it has read; and whether that model repeats."""
    ids = np.arange(7)[None]
    repeats, knows = 30 * np.eye(7)[None], 30 * np.eye(7, k=1)[None]

    def at(logits, ahead):
        return cross_entropy_forward(logits[:, : 7 - ahead], ids[:, ahead:])[0] < 0.1

    return _culprit(
        {
            "same": at(repeats, 0),
            "twice": at(repeats, 2),
            "peek": at(knows, 1) and bool((repeats.argmax(-1) == knows.argmax(-1)).all()),  # sees the answer: no copy
            "count": at(repeats, 1),
        }
    )


def _padded(pos, masked, filler):
    """The last logits of a short text behind padding, less those of the text alone."""
    config = Config(vocab_size=7, d_model=16, n_layers=2, n_heads=2, d_ff=20, pos=pos)
    rng = np.random.default_rng(0)
    params = map_leaves(
        lambda name, w: w if w.ndim == 1 else rng.standard_normal(w.shape) / w.shape[0] ** 0.5,
        init_params(config, dtype=np.float64),
    )
    ids = np.array([[3, 1, 4, 2]])
    moved, real = np.pad(ids, ((0, 0), (3, 0)), constant_values=filler), np.arange(7)[None] > 2
    out, _ = model_forward(moved, params, config, pad_mask=real if masked else None)
    return out[:, -1] - model_forward(ids, params, config)[0][:, -1]


def _in_a_batch(depends):
    """Which suspect changes a padded text, and does so according to the padding's own id, or not."""
    shows = {}
    for key, pos, masked in (("seen", "rope", False), ("places", "learned", True), ("rope", "rope", True)):
        zero, five = (_padded(pos, masked, filler) for filler in (0, 5))
        changed, by_id = np.abs(zero).max() > 1e-6, np.abs(zero - five).max() > 1e-6
        shows[key] = changed and by_id == depends
    return _culprit(shows)


def _one_token():
    """Which suspect changes attention already for a text of a single token."""
    rng, D, H, K, Dh = np.random.default_rng(0), 8, 6, 2, 4
    x, wq, wo = rng.standard_normal((1, 1, D)), rng.standard_normal((D, H * Dh)), rng.standard_normal((H * Dh, D))
    wk, wv = rng.standard_normal((2, D, K, Dh))
    rope = rope_table(1, Dh)

    def run(wk, wv, n_kv_heads, **options):
        wk, wv = wk.reshape(D, -1), wv.reshape(D, -1)
        return attention_forward(x, wq, wk, wv, wo, n_heads=H, n_kv_heads=n_kv_heads, rope=rope, **options)[0]

    right = run(wk, wv, K)
    wrong = {
        "tiled": run(np.tile(wk, (1, H // K, 1)), np.tile(wv, (1, H // K, 1)), H),
        "layout": run(wk, wv, K, layout="half"),
        "mask": run(wk, wv, K, causal=False),
    }
    return _culprit({key: np.abs(out - right).max() > 1e-9 for key, out in wrong.items()})


def _plain(scores, top=True):
    with np.errstate(all="ignore"):
        e = np.exp(scores - (scores.max(axis=-1, keepdims=True) if top else 0))
        return e / e.sum(axis=-1, keepdims=True)


def _first_row():
    """Which suspect makes the first row NaN, and no other, whatever the number format."""
    shows = {}
    for key, k, softmax in (("diagonal", -1, _plain), ("maximum", 0, partial(_plain, top=False)), ("peek", 1, _plain)):
        lost = []
        for dtype in (np.float32, np.float64):
            scores = np.random.default_rng(0).standard_normal((4, 4)).astype(dtype)
            w = softmax(np.where(np.tri(4, k=k, dtype=bool), scores, -np.inf))
            lost.append(np.isnan(w).any(axis=-1).tolist())
        shows[key] = lost == [[True, False, False, False]] * 2
    return _culprit(shows)


def _late_nan():
    """Which suspect is right for a score of 10 and NaN for one of 20, in float16."""
    with np.errstate(all="ignore"):
        shows = {}
        for key in ("diagonal", "maximum", "scale"):
            lost = []
            for top in (10, 20):
                scores = np.array([[0, top], [0, top]], np.float16) * (2 if key == "scale" else 1)
                seen = np.tri(2, k=-1 if key == "diagonal" else 0, dtype=bool)
                lost.append(bool(np.isnan(_plain(np.where(seen, scores, -np.inf), key != "maximum")).any()))
            shows[key] = lost == [False, True]
    return _culprit(shows)


def _twice_the_bytes():
    """Which suspect doubles the bytes of a float32 result, and changes no number by more than rounding."""
    x = np.random.default_rng(0).standard_normal((1, 1, 4, 4)).astype(np.float32)
    right = sdpa_forward(x, x, x)[0]
    scores = np.where(np.tri(4, dtype=bool), x @ x.swapaxes(-1, -2), -np.inf)
    wrong = {
        "root": softmax_forward(scores / np.sqrt(4))[0] @ x,
        "scale": softmax_forward(scores / 4)[0] @ x,
        "copy": softmax_forward(scores / math.sqrt(4))[0] @ x.copy(),
    }
    return _culprit({k: w.nbytes == 2 * right.nbytes and np.abs(w - right).max() < 1e-5 for k, w in wrong.items()})


def _in_pieces():
    """Which suspect gives another loss in pieces, but only if their texts are not equally long."""
    logits = np.random.default_rng(0).standard_normal((2, 6, 5))
    shows = {}
    for key in ("means", "rows", "shift"):
        differs = []
        for left in (6, 2):
            targets = np.random.default_rng(1).integers(0, 5, (2, 6))
            targets[0, left:] = -100

            def loss(at, key=key, targets=targets):
                z, t = logits[at], targets[at]
                if key == "shift":
                    z, t = z[:, 1:], t[:, :-1]
                each = cross_entropy_forward(z, t)[0] * (t != -100).sum()
                return each / (t.size if key == "rows" else (t != -100).sum()), (t != -100).sum()

            parts = [loss(slice(b, b + 1)) for b in (0, 1)]
            counts = [n for _, n in parts] if key == "shift" else [1, 1]
            mean = np.dot([value for value, _ in parts], counts) / sum(counts)
            differs.append(bool(abs(mean - loss(slice(None))[0]) > 1e-9))
        shows[key] = differs == [False, True]
    return _culprit(shows)


_WHY_SAME = "A model that has this fault learns something. Would it learn to repeat what it has just read?"

exercise = Choice(
    id="diagnose",
    title="From symptom to suspect",
    chapter="15_pitfalls",
    answer="suspects",
    points=2,
    stars=1,
    minutes=12,
    parts=(
        Part(
            name="no loss",
            ask="After 50 steps the loss is 0.01. Whatever the prompt, the model goes on with its last token for ever.",
            options={
                "same": "row t is judged by token t",
                "twice": "row t is judged by token t + 2",
                "peek": "the mask shows one token too many",
                "count": "padding counts in the mean",
            },
            wrong={
                "twice": _WHY_SAME,
                "peek": "The loss falls to 0 here too: the answer can be seen. But what is copied is the next token.",
                "count": "That makes a loss smaller, perhaps. Does it teach a model to repeat?",
            },
            right=_no_loss,
        ),
        Part(
            name="batch",
            ask="Short prompts behind padding go wrong, alone they do not. Another padding id: other answers.",
            options={
                "seen": "padded keys are not masked",
                "places": "padding is masked; learned positions count it",
                "rope": "padding is masked; RoPE's positions count it",
            },
            wrong={
                "places": "Masked keys are seen by nobody. Can their id then matter?",
                "rope": "Masked keys are seen by nobody. Can their id then matter? And what does RoPE do if all move?",
            },
            right=lambda: _in_a_batch(True),
        ),
        Part(
            name="moved",
            ask="The same, but another padding id changes nothing.",
            options={
                "seen": "padded keys are not masked",
                "places": "padding is masked; learned positions count it",
                "rope": "padding is masked; RoPE's positions count it",
            },
            wrong={
                "seen": "What is seen is the padding's own vector. Would another id not be another vector?",
                "rope": "RoPE sees only distances. If all real tokens move by three places, which distance changes?",
            },
            right=lambda: _in_a_batch(False),
        ),
        Part(
            name="loaded",
            ask="A published GQA model talks nonsense in your code, already after a single token. Yours train well.",
            options={
                "tiled": "query head h reads key head h mod K",
                "layout": "RoPE pairs features in the other layout",
                "mask": "the causal mask is missing",
            },
            wrong={
                "layout": "A single token stands at position 0. By which angle is it turned?",
                "mask": "A single token sees only itself, mask or not.",
            },
            right=_one_token,
        ),
        Part(
            name="first row",
            ask="Attention's first row is NaN, the others are not, in float32 and in float64 alike.",
            options={
                "diagonal": "the mask hides the diagonal",
                "maximum": "exp without subtracting the maximum",
                "peek": "the mask shows one token too many",
            },
            wrong={
                "maximum": "That takes large scores, and float64 stands more than float32. Why always the first row?",
                "peek": "A row that sees more has more to add up. NaN in one row takes a row that sees nothing.",
            },
            right=_first_row,
        ),
        Part(
            name="late",
            ask="Float16 training is fine for 3,000 steps. Then, with scores near 12, one is NaN; float32 is not.",
            options={
                "diagonal": "the mask hides the diagonal",
                "maximum": "exp without subtracting the maximum",
                "scale": "scores are not divided by √Dh",
            },
            wrong={
                "diagonal": "An empty row is NaN from the first step on.",
                "scale": "Scores are larger then. But with the maximum taken off, which of them can overflow exp?",
            },
            right=_late_nan,
        ),
        Part(
            name="bytes",
            ask="All numbers agree with a reference to 1e-6, but arrays take twice the memory they should.",
            options={
                "root": "scores / np.sqrt(Dh)",
                "scale": "scores / Dh",
                "copy": "an array is copied once too often",
            },
            wrong={
                "scale": "That changes the weights. Would the numbers still agree?",
                "copy": "A copy is one more array. Does each array become larger?",
            },
            right=_twice_the_bytes,
        ),
        Part(
            name="pieces",
            ask="One batch or two pieces: the same gradient for texts of one length, another for padded ones.",
            options={
                "means": "each piece takes its mean; then the mean of those",
                "rows": "all positions count in the mean, padding too",
                "shift": "the targets are shifted the wrong way",
            },
            wrong={
                "rows": "That count is the same for every piece. Wrong it is, but do pieces and batch differ?",
                "shift": "Each row is judged wrongly, in pieces and in one batch alike.",
            },
            right=_in_pieces,
        ),
    ),
    hints=(
        "Ask of each suspect what it needs to be seen: large scores, a second token, padding, unequal counts.",
        "Two suspects may share one symptom. The second half of the sentence tells them apart.",
        "Each fault of this chapter has a cell under *Seen*: which of them shows what is described?",
    ),
    takeaway="A good symptom names what changes, and what does not.",
)
