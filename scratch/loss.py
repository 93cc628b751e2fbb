"""Cross-entropy, whole and in chunks, each with its backward right below it."""

import numpy as np

from scratch import _check


def cross_entropy_forward(logits, targets, ignore_index=-100):
    """Mean negative log-probability of the targets: ``mean(log Σ exp(logits) − logits[target])``.

    Parameters
    ----------
    logits : float array [..., V]
    targets : integer array [...], each in [0, V), or `ignore_index` for a position that does not count
    ignore_index : int

    Returns
    -------
    loss : scalar in logits' dtype, in nats; 0 when no target counts
    cache : for `cross_entropy_backward`

    Raises
    ------
    ValueError
        If targets do not have logits' leading shape, or one is outside the vocabulary.

    Book: eq-cross-entropy.
    """
    _check.array("cross_entropy_forward", "logits", logits)
    V = logits.shape[-1]
    _check.ids("cross_entropy_forward", "targets", targets, V, ignore_index)
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"cross_entropy_forward: targets has shape {targets.shape}, expected {logits.shape[:-1]}")
    rows, flat = logits.reshape(-1, V), targets.reshape(-1)  # [N, V], [N]
    keep = np.flatnonzero(flat != ignore_index)
    if keep.size < flat.size:
        rows = rows[keep]
    with np.errstate(over="ignore"):  # as in softmax_forward
        z = rows - rows.max(axis=-1, keepdims=True)  # [kept, V]
    of_target = z[np.arange(keep.size), flat[keep]]
    p = np.exp(z, out=z)
    total = p.sum(axis=-1, keepdims=True)
    p /= total
    loss = (np.log(total[:, 0]) - of_target).mean() if keep.size else logits.dtype.type(0)
    return loss, (p, flat, keep, logits.shape)


def cross_entropy_backward(dout, cache):
    """Gradient of `cross_entropy_forward`: ``dlogits = dout · (softmax − onehot) / kept``, 0 where ignored.

    dout is the scalar gradient of the loss, 1.0 to begin a backward pass. Returns dlogits [..., V].
    """
    p, flat, keep, shape = cache
    if np.ndim(dout):
        raise ValueError(f"cross_entropy_backward: dout has shape {np.shape(dout)}, expected a scalar")
    drows = p.copy()  # [kept, V]
    drows[np.arange(keep.size), flat[keep]] -= 1
    drows *= p.dtype.type(dout) / max(keep.size, 1)
    if keep.size == flat.size:
        return drows.reshape(shape)
    dlogits = np.zeros((flat.size, shape[-1]), dtype=p.dtype)
    dlogits[keep] = drows
    return dlogits.reshape(shape)


def chunked_cross_entropy_forward(h, w, targets, ignore_index=-100, chunk=1024):
    """Cross-entropy of the logits ``h @ w``, without ever holding them all.

    Same loss and gradients as `linear_forward` and `cross_entropy_forward` one after the other. Only `chunk` rows of
    logits exist at a time; backward computes them once more.

    Parameters
    ----------
    h : float array [..., D], the normalized stream
    w : float array [D, V], the head
    targets : integer array [...], each in [0, V), or `ignore_index`
    ignore_index : int
    chunk : int, rows of logits held at a time

    Returns
    -------
    loss : scalar in h's dtype, in nats; 0 when no target counts
    cache : for `chunked_cross_entropy_backward`

    Book: eq-chunked-loss.
    """
    where = "chunked_cross_entropy_forward"
    _check.array(where, "h", h)
    _check.array(where, "w", w, ndim=2)
    _check.shape(where, "w", w, (h.shape[-1], w.shape[1]), "[D, V]")
    _check.ids(where, "targets", targets, w.shape[1], ignore_index)
    if targets.shape != h.shape[:-1]:
        raise ValueError(f"{where}: targets has shape {targets.shape}, expected {h.shape[:-1]}")
    if chunk < 1:
        raise ValueError(f"{where}: chunk={chunk}, expected at least 1")
    rows, flat = h.reshape(-1, h.shape[-1]), targets.reshape(-1)  # [N, D], [N]
    kept = int((flat != ignore_index).sum())
    total = 0.0
    for at in range(0, len(rows), chunk):
        piece = flat[at : at + chunk]
        loss, _ = cross_entropy_forward(rows[at : at + chunk] @ w, piece, ignore_index)
        total += float(loss) * int((piece != ignore_index).sum())
    return h.dtype.type(total / max(kept, 1)), (h, w, targets, ignore_index, chunk, kept)


def chunked_cross_entropy_backward(dout, cache):
    """Gradients of `chunked_cross_entropy_forward`: (dh [..., D], dw [D, V]); dout is the scalar 1.0 to begin with."""
    h, w, targets, ignore_index, chunk, kept = cache
    rows, flat = h.reshape(-1, h.shape[-1]), targets.reshape(-1)
    dh, dw = np.zeros(rows.shape, h.dtype), np.zeros(w.shape, w.dtype)
    for at in range(0, len(rows), chunk):
        here, piece = rows[at : at + chunk], flat[at : at + chunk]
        _, inner = cross_entropy_forward(here @ w, piece, ignore_index)
        share = int((piece != ignore_index).sum()) / max(kept, 1)
        dlogits = cross_entropy_backward(dout * share, inner)  # [chunk, V]
        dh[at : at + chunk] = dlogits @ w.T
        dw += here.T @ dlogits
    return dh.reshape(h.shape), dw
