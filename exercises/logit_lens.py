"""Exercise logit-lens: read one token's stream at several depths as if each were the last."""

import numpy as np

from exercises.spec import Code
from scratch import trace
from scratch.config import Config


def reference(stream, g, eps, table):
    """stream [N, D]; g [D]; eps a float; table [V, D]. Returns logits [N, V]."""
    V, D = table.shape
    config = Config(vocab_size=V, d_model=D, n_layers=1, n_heads=1, d_head=2, d_ff=1, eps=float(eps))
    return trace.logit_lens(stream, {"norm": {"g": g}, "embed": {"table": table}}, config)


def cases(rng):
    """Ascending; eps that is seen, a depth at which the stream is 0, lengths a thousandfold apart, a square table."""

    def case(N, D, V, scale=1.0, eps=1e-5):
        return rng.standard_normal((N, D)) * scale, rng.uniform(0.3, 3, D), eps, rng.standard_normal((V, D))

    # numbers of one decimal, to work through by hand; whole tenths, none of them zero
    tenths = [rng.choice([-1, 1], shape) * rng.integers(1, 21, shape) / 10 for shape in ((1, 2), (2,), (3, 2))]
    yield tenths[0], np.abs(tenths[1]), 0.5, tenths[2]
    yield case(2, 3, 4)
    yield case(3, 4, 5, 1e-3)  # so small that eps decides
    yield case(3, 5, 7, 1e3)
    stream, g, eps, table = case(4, 6, 5, 10.0 ** rng.integers(-1, 4, (4, 1)), 1e-6)  # each depth its own length
    stream[1] = 0
    g[2] = -0.7  # a gain may be negative
    yield stream, g, eps, table
    yield case(4, 6, 6)  # as many words as features: a table that was not transposed fits
    yield case(5, 8, 6, 10.0 ** rng.uniform(-2, 3))


def rounding(stream, g, eps, table):
    """In units of u. The mean square takes D + 2 roundings, its root halves them, and 1/√ is 4 more. Three products
    make a term, and D terms are added up."""
    D = stream.shape[-1]
    r = 1 / np.sqrt((stream * stream).mean(axis=-1, keepdims=True) + eps)  # [N, 1]
    return (((D + 2) / 2 + 4 + 3 + D) * (np.abs(stream * r * g) @ np.abs(table).T),)


def _rms(x, eps, axis=-1):
    return np.sqrt((x * x).mean(axis=axis, keepdims=True) + np.array(eps, dtype=x.dtype))


# ---- wrong answers; each docstring is what its author will read ----


def raw(stream, g, eps, table):
    """You read the stream as it is. The head was trained on what the final norm makes of it: scale it, and multiply by
    the gain."""
    return stream @ table.T


def gain_only(stream, g, eps, table):
    """You multiply by the gain, but do not scale: each depth has to be divided by its own root-mean-square."""
    return stream * g @ table.T


def no_gain(stream, g, eps, table):
    """Your stream is scaled, but the gain g is missing."""
    return stream / _rms(stream, eps) @ table.T


def gain_first(stream, g, eps, table):
    """You take the root-mean-square after the gain. It is that of the stream itself; the gain comes last."""
    x = stream * g
    return x / _rms(x, eps) @ table.T


def gain_plus_one(stream, g, eps, table):
    """You multiply by 1 + g, as some models store their gains. Here g is the gain itself."""
    return stream / _rms(stream, eps) * (1 + g) @ table.T


def mean_subtracted(stream, g, eps, table):
    """You subtract each depth's mean. That is LayerNorm; RMSNorm subtracts nothing."""
    x = stream - stream.mean(axis=-1, keepdims=True)
    return x / _rms(x, eps) * g @ table.T


def by_length(stream, g, eps, table):
    """You divide by the length, the root of the sum of squares. RMSNorm takes the root of their mean: √D less."""
    length = np.sqrt((stream * stream).sum(axis=-1, keepdims=True) + np.array(eps, dtype=stream.dtype))
    return stream / length * g @ table.T


def no_root(stream, g, eps, table):
    """You divide by the mean square itself; the root is missing."""
    return stream / _rms(stream, eps) ** 2 * g @ table.T


def no_eps(stream, g, eps, table):
    """eps is missing: it stands under the root, and a small stream, or one of zeros, needs it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return stream / _rms(stream, 0) * g @ table.T


def eps_outside(stream, g, eps, table):
    """You add eps to the root. It belongs under it, added to the mean square."""
    return stream / (_rms(stream, 0) + np.array(eps, dtype=stream.dtype)) * g @ table.T


def one_scale(stream, g, eps, table):
    """You divide all depths by one number, the root-mean-square of the whole array. Each depth has its own."""
    return stream / _rms(stream, eps, axis=None) * g @ table.T


def scale_of_the_last(stream, g, eps, table):
    """You divide all depths by the last one's root-mean-square. The lens treats each depth as if it were the last: it
    has its own."""
    return stream / _rms(stream, eps)[-1:] * g @ table.T


def over_the_depths(stream, g, eps, table):
    """Your mean runs over the depths, axis 0. It runs over the features of one depth: axis=-1."""
    return stream / _rms(stream, eps, axis=0) * g @ table.T


def not_transposed(stream, g, eps, table):
    """Where the table is square, you multiply by it as it is. A word is a row of it: its score needs `table.T`."""
    V, D = table.shape
    return stream / _rms(stream, eps) * g @ (table if V == D else table.T)


def cosines(stream, g, eps, table):
    """You scale the rows of the table, too. The head takes them as they are: a long row gives a large score."""
    rows = table / np.sqrt((table * table).sum(axis=-1, keepdims=True))
    return stream / _rms(stream, eps) * g @ rows.T


def probabilities(stream, g, eps, table):
    """You return probabilities. The logits are asked for, before any softmax."""
    z = stream / _rms(stream, eps) * g @ table.T
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_probabilities(stream, g, eps, table):
    """You return logarithms of probabilities. The logits are asked for, before any softmax."""
    z = stream / _rms(stream, eps) * g @ table.T
    top = z.max(axis=-1, keepdims=True)
    return z - top - np.log(np.exp(z - top).sum(axis=-1, keepdims=True))


def only_the_last(stream, g, eps, table):
    """You return the logits of the last depth alone. The lens reads them all: [N, V]."""
    return (stream / _rms(stream, eps) * g @ table.T)[-1]


def transposed(stream, g, eps, table):
    """Your result is [V, N]: the tokens stand in the rows. Each depth is a row: [N, V]."""
    return np.ascontiguousarray(table @ (stream / _rms(stream, eps) * g).T)


def in_place(stream, g, eps, table):
    """You scale the caller's stream in place (`/=` or `*=`), and the model would go on with it. Make a new array."""
    stream /= _rms(stream, eps)
    return stream * g @ table.T


def float64_leak(stream, g, eps, table):
    """Somewhere your float32 becomes float64 (`astype(float)`, or an array made without a dtype)."""
    x = stream.astype(np.float64)
    return x / _rms(x, eps) * g @ table.T


# ---- right answers, written otherwise ----


def gain_in_the_table(stream, g, eps, table):
    """The gain multiplied into the table's columns first, the scale into the logits last."""
    return np.einsum("nd,vd->nv", stream, table * g) / _rms(stream, eps)


def loops(stream, g, eps, table):
    """Depth by depth, token by token, in plain Python."""
    logits = np.zeros((len(stream), len(table)), dtype=stream.dtype)
    for n, x in enumerate(stream.tolist()):
        r = (sum(value * value for value in x) / len(x) + eps) ** -0.5
        for v, row in enumerate(table.tolist()):
            logits[n, v] = sum(a * r * b * c for a, b, c in zip(x, g.tolist(), row, strict=True))
    return logits


def through_the_length(stream, g, eps, table):
    """Unit vectors times √D, with eps scaled to fit."""
    D = stream.shape[-1]
    length = np.sqrt(np.einsum("nd,nd->n", stream, stream) + np.array(D * eps, dtype=stream.dtype))
    unit = stream / length[:, None]
    return np.stack([table @ (x * g) for x in unit * np.sqrt(np.array(D, dtype=stream.dtype))])


exercise = Code(
    id="logit-lens",
    title="Read the stream early",
    chapter="13_real_model",
    answer="lens_logits",
    points=2,
    stars=2,
    minutes=10,
    args=("stream", "g", "eps", "table"),
    returns=("logits",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        raw,
        gain_only,
        no_gain,
        gain_first,
        gain_plus_one,
        mean_subtracted,
        by_length,
        no_root,
        no_eps,
        eps_outside,
        one_scale,
        scale_of_the_last,
        over_the_depths,
        not_transposed,
        cosines,
        probabilities,
        log_probabilities,
        only_the_last,
        transposed,
        in_place,
        float64_leak,
    ),
    variants=(gain_in_the_table, loops, through_the_length),
    hints=(
        "Treat each depth as if it were the last: what happens to the stream between the last block and the logits?",
        "First the final norm, with each depth's own root-mean-square; then the head, which is the table.",
        "RMSNorm: divide by √(mean of squares + eps), the mean over the last axis with `keepdims=True`; then times g.",
        "`scaled = stream / np.sqrt((stream**2).mean(axis=-1, keepdims=True) + eps)`, and the logits are\n"
        "`(scaled * g) @ table.T`. Keep the dtype: a Python float as eps does.",
    ),
    library=("scratch.trace.logit_lens",),
    takeaway="The lens asks what the model would say if it stopped here. What later blocks would make of it, it hides.",
)
