"""Checks to keep: each tries one promise of a right model on your own function, whatever its weights."""

import tracemalloc

import numpy as np

from scratch.gradcheck import relative_error


class CheckError(AssertionError):
    """A promise is broken; the message says in one sentence what is wrong."""


def _ok(kept, sentence):
    if not kept:
        raise CheckError(sentence)


def causal_check(forward, ids, tol=1e-5):
    """A later token changes no earlier row: forward(ids [B, T]) -> [B, T, ...]."""
    out = forward(ids)
    _ok(np.isfinite(out).all(), "inf or NaN: exp overflows, or a row sees nothing")
    for t in range(1, ids.shape[1]):
        other = ids.copy()
        other[:, t] = (ids[:, t] + 1) % max(ids.max() + 1, 2)
        error = relative_error(forward(other)[:, :t], out[:, :t])
        _ok(error <= tol, f"token {t + 1} changes earlier rows: a row sees the future")


def map_check(maps, tol=1e-5):
    """Rows of maps [..., T, T] sum to 1, show nothing later, and see themselves."""
    _ok(np.isfinite(maps).all(), "inf or NaN: exp overflows, or a row sees nothing")
    later = np.triu(maps, 1).max(initial=0)
    _ok(later <= tol, f"a later token has weight {later:.2f}: mask too wide")
    off = np.abs(maps.sum(axis=-1) - 1).max(initial=0)
    _ok(off <= tol, f"a sum is off by {off:.2f}: an empty row, or masked too late")
    itself = np.diagonal(maps, axis1=-2, axis2=-1)[..., 1:]
    _ok(itself.any() or not itself.size, "no token sees itself: diagonal hidden")


def softmax_check(softmax):
    """Adding a number to a row changes nothing: softmax(scores) -> weights."""
    for dtype, tol in ((np.float64, 1e-12), (np.float32, 1e-5), (np.float16, 1e-2)):
        scores = np.array([[0, 1, 2], [3, 0, 1]], dtype)  # exact with ±1000, too
        with np.errstate(all="ignore"):
            moved = [softmax(scores + dtype(c)) for c in (1000, -1000)]
        error = relative_error(moved, [softmax(scores)] * 2)
        _ok(error <= tol, f"±1000 breaks {dtype.__name__}: subtract the maximum")


def padding_check(forward, ids, side="right", n=3, tol=1e-5):
    """Padding changes no real row: forward(ids, real [B, T]) -> [B, T, ...]."""
    edges = ((0, 0), (n, 0) if side == "left" else (0, n))
    real = np.pad(np.ones(ids.shape, bool), edges)
    alone, moved = forward(ids, np.ones(ids.shape, bool)), []
    for filler in (0, max(ids.max(), 1)):
        out = forward(np.pad(ids, edges, constant_values=filler), real)
        moved.append(out[real].reshape(alone.shape))
    _ok(np.isfinite(moved).all(), "real rows are inf or NaN: an empty row is heard")
    error = relative_error(moved[1], moved[0], 1e-6)
    _ok(error <= tol, "real rows depend on padding: padded keys are seen")
    error = relative_error(moved[0], alone)
    _ok(error <= tol, "real rows depend on their place: wrong positions or RoPE")


def sharing_check(attend, H=6, K=2, Dh=4, tol=1e-5):
    """K heads do what H written-out ones do: attend(x, wq, wk, wv, wo, H, K)."""
    rng, D = np.random.default_rng(0), 8
    shapes = (2, 5, D), (D, H * Dh), (H * Dh, D), (D, K, Dh), (D, K, Dh)
    x, wq, wo, wk, wv = (rng.standard_normal(shape) for shape in shapes)
    few = attend(x, wq, wk.reshape(D, -1), wv.reshape(D, -1), wo, H, K)
    wk, wv = (w.repeat(H // K, axis=1).reshape(D, -1) for w in (wk, wv))
    error = relative_error(few, attend(x, wq, wk, wv, wo, H, H))
    _ok(error <= tol, "written-out heads differ: h must read h // (H/K)")


def head_check(h, g=1.0, b=0.0, tol=0.05):
    """What the head reads, h [..., D], has size 1, gain and bias taken off."""
    size = np.sqrt(np.mean(((h - b) / g) ** 2, axis=-1))
    low, high = size.min(), size.max()
    said = f"the head reads sizes {low:.2f} to {high:.2f}: no norm before it"
    _ok(1 - tol <= low <= high <= 1 + tol, said)


def dtype_check(out, dtype=np.float32):
    """What was computed from float32 is float32."""
    _ok(out.dtype == dtype, f"{out.dtype} came out: a NumPy scalar or default")


def shift_check(loss, V=7):
    """Row t is judged by token t + 1: loss(logits [1, T, V], ids) -> number."""
    ids, repeats, knows = np.arange(V)[None], np.eye(V)[None], np.eye(V, k=1)[None]
    _ok(loss(30 * repeats, ids) > 1, "repeating is free: targets are not shifted")
    found = loss(30 * knows, ids)
    _ok(found < 0.1, f"knowing costs {found:.1f}: wrong shift, or a row too many")


def parts_check(accumulate, pieces, tol=1e-5):
    """Pieces give what one batch gives: accumulate(list of tuples of arrays)."""
    whole = accumulate([tuple(map(np.concatenate, zip(*pieces, strict=True)))])
    parts = accumulate(pieces)
    sizes = [np.abs(a).max(initial=0) for a in (parts, whole)]
    said = "{:.3g}, not {:.3g}: weigh a piece by its number of targets".format(*sizes)
    _ok(relative_error(parts, whole) <= tol, said)


def memory_check(run, limit):
    """run() allocates at most `limit` bytes at a time; returns what it took."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    _ok(peak <= limit, f"the peak is {peak / 1e6:.0f} MB, not {limit / 1e6:.0f}")
    return peak


def proof_check(check, forward, backward, x):
    """A gradient check takes what is right, and can fail."""
    check(forward, backward, x)
    for name, c in (("zeros", 0), ("twice the gradient", 2)):
        try:
            check(forward, lambda dout, cache, c=c: c * backward(dout, cache), x)
        except AssertionError:
            continue
        raise CheckError(f"it lets {name} pass: draw a random upstream")
