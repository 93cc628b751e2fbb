"""Exercise gqa-backward: the gradients of the scores when several query heads share a key head."""

import math

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(dscores, q, k):
    """dscores [B, H, T, T]; q [B, H, T, Dh]; k [B, K, T, Dh]. Returns dq and dk, of the shapes of q and k.

    The queries that share a key head stand above one another, and the key head is then a plain linear map of them.
    """
    B, H, T, Dh = q.shape
    K = k.shape[1]
    rows = q.reshape(B, K, H // K * T, Dh)
    drows = dscores.reshape(B, K, H // K * T, T) / np.sqrt(q.dtype.type(Dh))
    dq, dk = np.empty_like(rows), np.empty_like(k)
    for at in np.ndindex(B, K):
        _, cache = ops.linear_forward(rows[at], k[at].T)
        dq[at], dkey = ops.linear_backward(drows[at], cache)
        dk[at] = dkey.T
    return dq.reshape(q.shape), dk


def cases(rng):
    """Ascending. The first tests the groups alone (T = Dh = 1), the second the scale, the third the axes of scores."""

    def by_hand(B, H, K, T, Dh):  # whole tenths, none of them zero
        shapes = (B, H, T, T), (B, H, T, Dh), (B, K, T, Dh)
        return tuple(rng.choice([-1, 1], shape) * rng.integers(1, 21, shape) / 10 for shape in shapes)

    def case(B, H, K, T, Dh, scale_q=1.0, scale_k=1.0):
        q, k = rng.standard_normal((B, H, T, Dh)) * scale_q, rng.standard_normal((B, K, T, Dh)) * scale_k
        return rng.standard_normal((B, H, T, T)), q, k

    # 6 = 3 · 2: here h // 2, h % 3 and h // 3 are three different maps, and none of them leaves k's three heads
    yield by_hand(1, 6, 3, 1, 1)
    yield by_hand(1, 2, 2, 1, 4)  # K = H
    yield by_hand(1, 2, 1, 2, 2)  # K = 1
    yield case(1, 6, 1, 3, 4, 1e-3, 1e-3)
    yield case(2, 3, 3, 2, 5, 1e3, 1e3)
    yield case(2, 6, 3, 3, 4)
    sizes = (2, 8, 2, 5, 3)  # each query and each key its own scale
    yield case(*sizes, 10.0 ** rng.integers(-3, 4, (2, 8, 5, 1)), 10.0 ** rng.integers(-3, 4, (2, 2, 5, 1)))
    yield case(3, 6, 2, 4, 7, *10.0 ** rng.uniform(-3, 3, 2))


def large(rng):
    """61,440 entries in q and k: wide heads and two tokens, so that loops have little to do."""
    shapes = (2, 12, 2, 2), (2, 12, 2, 1024), (2, 3, 2, 1024)
    return tuple(rng.standard_normal(shape) for shape in shapes)


def loss(dscores, q, k):
    """Σ dscores ⊙ scores."""
    keys = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    return (dscores * (q @ keys.swapaxes(-1, -2))).sum() / math.sqrt(q.shape[-1])


def rounding(dscores, q, k):
    """In units of u. A sum of n products takes n roundings; n is T for dq and T · H/K for dk. √Dh, its reciprocal and
    the product with it take 3 more, and 8 are granted, for those who scale twice by the fourth root."""
    _, H, T, Dh = q.shape
    dq, dk = _right(np.abs(dscores), np.abs(q), np.abs(k))
    return (T + 8) * dq, (H // k.shape[1] * T + 8) * dk


def _scaled(dscores, q):
    return dscores * (1 / math.sqrt(q.shape[-1]))


def _each(dscores, q, k):
    """Keys laid out for each query head, and dk before it is summed over the group: both [B, H, T, Dh]."""
    return np.repeat(k, q.shape[1] // k.shape[1], axis=1), dscores.swapaxes(-1, -2) @ q


def _grouped(x, K):
    B, H, *rest = x.shape
    return x.reshape(B, K, H // K, *rest)


def _right(dscores, q, k):
    ds = _scaled(dscores, q)
    keys, dkeys = _each(ds, q, k)
    return ds @ keys, _grouped(dkeys, k.shape[1]).sum(axis=2)


# ---- wrong answers; each docstring is what its author will read ----


def zero(dscores, q, k):
    """Your dq is zero: it is right only where the scores do not depend on q."""
    return np.zeros_like(q), _right(dscores, q, k)[1]


def zero_dk(dscores, q, k):
    """Your dk is zero: it is right only where the scores do not depend on k."""
    return _right(dscores, q, k)[0], np.zeros_like(k)


def first_of_group(dscores, q, k):
    """Your dk holds the first query head of each group. All H/K of them read that key head, so their gradients add
    up."""
    dq, _ = _right(dscores, q, k)
    return dq, _grouped(_each(_scaled(dscores, q), q, k)[1], k.shape[1])[:, :, 0].copy()


def last_of_group(dscores, q, k):
    """Your dk holds the last query head of each group alone: each head overwrote the one before it. They must add up.
    (`dk[:, index] += …` with repeated indices keeps only the last, too.)"""
    dq, _ = _right(dscores, q, k)
    return dq, _grouped(_each(_scaled(dscores, q), q, k)[1], k.shape[1])[:, :, -1].copy()


def first_k_heads(dscores, q, k):
    """Your dk comes from the first K query heads; the others read keys as well, and each key head has H/K readers."""
    dq, _ = _right(dscores, q, k)
    return dq, _each(_scaled(dscores, q), q, k)[1][:, : k.shape[1]].copy()


def not_summed(dscores, q, k):
    """Your dk has one gradient for each of the H query heads, but k has K heads: sum over the H/K that share one."""
    dq, _ = _right(dscores, q, k)
    return dq, _each(_scaled(dscores, q), q, k)[1]


def group_mean(dscores, q, k):
    """Your dk is the mean over a group. Each query head used the key head, so their gradients add up, undivided."""
    dq, _ = _right(dscores, q, k)
    return dq, _grouped(_each(_scaled(dscores, q), q, k)[1], k.shape[1]).mean(axis=2)


def product_of_sums(dscores, q, k):
    """Your dk sums the scores' gradients and the queries over the group first, and multiplies then. A sum of products
    is not the product of the sums: multiply head by head."""
    dq, _ = _right(dscores, q, k)
    ds, K = _scaled(dscores, q), k.shape[1]
    return dq, _grouped(ds, K).sum(axis=2).swapaxes(-1, -2) @ _grouped(q, K).sum(axis=2)


def all_heads(dscores, q, k):
    """Each head of your dk sums all H query heads. A key head hears only the H/K that read it."""
    dq, dk = _right(dscores, q, k)
    return dq, np.repeat(dk.sum(axis=1, keepdims=True), k.shape[1], axis=1)


def interleaved(dscores, q, k):
    """Your dq lets query head h read key head h % K (`np.tile`, or a group axis before K). Neighbours share a key head
    here: h // (H // K)."""
    ds, (B, H, T, Dh), K = _scaled(dscores, q), q.shape, k.shape[1]
    dk = (ds.swapaxes(-1, -2) @ q).reshape(B, H // K, K, T, Dh).sum(axis=1)
    return ds @ k[:, np.arange(H) % K], dk


def interleaved_dk(dscores, q, k):
    """Your dk adds up every K-th query head, as if head h read key head h % K. Neighbours share one, h // (H // K): in
    a reshape, K comes before the group."""
    (B, H, T, Dh), K = q.shape, k.shape[1]
    dkeys = _each(_scaled(dscores, q), q, k)[1]
    return _right(dscores, q, k)[0], dkeys.reshape(B, H // K, K, T, Dh).sum(axis=1)


def group_is_k(dscores, q, k):
    """Your dq reads key head h // K: you took K for the size of a group. K counts the groups; each has H/K heads."""
    ds, dk = _scaled(dscores, q), _right(dscores, q, k)[1]
    return ds @ k[:, np.arange(q.shape[1]) // k.shape[1]], dk


def one_key_head(dscores, q, k):
    """Your dq reads key head 0 for every query head. That is MQA, K = 1; in general head h reads h // (H // K)."""
    return _scaled(dscores, q) @ k[:, :1], _right(dscores, q, k)[1]


def no_scale(dscores, q, k):
    """Your dq leaves out 1/√Dh. The forward scales the scores, and so the backward scales both gradients."""
    return _right(dscores * math.sqrt(q.shape[-1]), q, k)


def no_scale_dk(dscores, q, k):
    """Your dk leaves out 1/√Dh, which your dq has. The scores contain it, whichever factor you differentiate."""
    return _right(dscores, q, k)[0], _right(dscores * math.sqrt(q.shape[-1]), q, k)[1]


def scale_twice(dscores, q, k):
    """Your dq carries 1/Dh: the scores are divided by √Dh, and once only."""
    return _right(_scaled(dscores, q), q, k)


def scale_twice_dk(dscores, q, k):
    """Your dk carries 1/Dh: one of its two factors was scaled by 1/√Dh already when you scaled again."""
    return _right(dscores, q, k)[0], _right(_scaled(dscores, q), q, k)[1]


def scale_inverted(dscores, q, k):
    """Your dq is multiplied by √Dh. Forward divides, and the derivative of s / √Dh divides as well."""
    return _right(dscores * q.shape[-1], q, k)


def scale_of_the_model(dscores, q, k):
    """Your scale is 1/√(H·Dh), from the width of all heads together. Each head scales by its own width, 1/√Dh."""
    return _right(dscores / math.sqrt(q.shape[1]), q, k)


def scale_of_the_sequence(dscores, q, k):
    """Your scale is 1/√T. The head width is the last axis of q, not the one before: 1/√Dh."""
    return _right(dscores * math.sqrt(q.shape[-1] / q.shape[-2]), q, k)


def dk_not_transposed(dscores, q, k):
    """Your dk multiplies by dscores as it stands, which sums over the keys. Key j collects from all queries i: dscores
    has to be transposed, [T, T] in each head."""
    ds = _scaled(dscores, q)
    return _right(dscores, q, k)[0], _grouped(ds @ q, k.shape[1]).sum(axis=2)


def dq_transposed(dscores, q, k):
    """Your dq multiplies by dscores transposed, which sums over the queries. Query i collects from all keys j: for dq
    leave dscores as it is."""
    ds = _scaled(dscores, q)
    return ds.swapaxes(-1, -2) @ _each(ds, q, k)[0], _right(dscores, q, k)[1]


def dq_from_q(dscores, q, k):
    """Your dq multiplies dscores by q itself. A product passes to each factor the other one: dq comes from k."""
    return _scaled(dscores, q) @ q, _right(dscores, q, k)[1]


def dk_from_k(dscores, q, k):
    """Your dk multiplies dscores by k itself. A product passes to each factor the other one: dk comes from q."""
    ds = _scaled(dscores, q)
    keys = _each(ds, q, k)[0]
    return ds @ keys, _grouped(ds.swapaxes(-1, -2) @ keys, k.shape[1]).sum(axis=2)


def dq_summed_over_group(dscores, q, k):
    """Your dq is the same for all query heads of a group. They share the key, not the query: each q has its own
    gradient, and only dk is summed."""
    dq, dk = _right(dscores, q, k)
    together = _grouped(dq, k.shape[1]).sum(axis=2)
    return np.repeat(together, q.shape[1] // k.shape[1], axis=1), dk


def summed_over_batch(dscores, q, k):
    """Your dk is summed over the batch as well. Each sequence has its own keys: sum over the group alone."""
    dq, dk = _right(dscores, q, k)
    return dq, dk.sum(axis=0)


def masked(dscores, q, k):
    """You set dscores to zero above the diagonal. These scores have no mask: use dscores as it comes."""
    return _right(np.tril(dscores), q, k)


def swapped(dscores, q, k):
    """You return dk first. The order is that of the arguments: dq, dk."""
    return _right(dscores, q, k)[::-1]


def in_place(dscores, q, k):
    """`dscores *= …` or `/=` writes into the caller's array; `ds = dscores * …` makes a new one."""
    dscores /= math.sqrt(q.shape[-1])
    keys, dkeys = _each(dscores, q, k)
    return dscores @ keys, _grouped(dkeys, k.shape[1]).sum(axis=2)


def float64_leak(dscores, q, k):
    """Your float32 becomes float64: perhaps by `np.sqrt(Dh)`, a NumPy float64 that widens what it meets (`Dh ** 0.5`
    does not), or by `np.zeros(shape)` without a dtype."""
    ds = dscores / np.sqrt(q.shape[-1])
    keys, dkeys = _each(ds, q, k)
    return ds @ keys, _grouped(dkeys, k.shape[1]).sum(axis=2)


# ---- right answers, written otherwise ----


def loops(dscores, q, k):
    """Loops over every head, query, key and feature."""
    (B, H, T, Dh), K = q.shape, k.shape[1]
    dq, dk = np.zeros_like(q), np.zeros_like(k)
    for b in range(B):
        for h in range(H):
            shared = h // (H // K)
            for i in range(T):
                for j in range(T):
                    slope = dscores[b, h, i, j] / Dh**0.5
                    for d in range(Dh):
                        dq[b, h, i, d] += slope * k[b, shared, j, d]
                        dk[b, shared, j, d] += slope * q[b, h, i, d]
    return dq, dk


def repeated(dscores, q, k):
    """np.repeat lays the keys out for each query head; its own backward is the sum over the group."""
    H, group, root = q.shape[1], q.shape[1] // k.shape[1], math.sqrt(q.shape[-1])
    dq = np.matmul(dscores, np.repeat(k, group, axis=1)) / root
    dkeys = np.matmul(np.transpose(dscores, (0, 1, 3, 2)), q) / root
    return dq, np.add.reduceat(dkeys, np.arange(0, H, group), axis=1)


def stacked(dscores, q, k):
    """The queries of a group above one another in one matrix, as the library does it: the product sums by itself."""
    (B, H, T, Dh), K = q.shape, k.shape[1]
    ds = dscores.reshape(B, K, -1, T) * Dh**-0.5
    dq = np.matmul(ds, k).reshape(B, H, T, Dh)
    return dq, np.matmul(ds.swapaxes(2, 3), q.reshape(B, K, -1, Dh))


def einsum(dscores, q, k):
    """einsum with an axis for the group; what stands in no output is summed."""
    (B, H, T, Dh), K = q.shape, k.shape[1]
    s, r = dscores.reshape(B, K, H // K, T, T), q.reshape(B, K, H // K, T, Dh)
    dq = np.einsum("bkgij,bkjd->bkgid", s, k).reshape(q.shape) / math.sqrt(Dh)
    return dq, np.einsum("bkgij,bkgid->bkjd", s, r) / math.sqrt(Dh)


def scattered(dscores, q, k):
    """np.add.at, which adds up what goes to the same key head; q and k scaled by the fourth root each."""
    root = q.shape[-1] ** -0.25
    reads = np.arange(q.shape[1]) // (q.shape[1] // k.shape[1])
    dk = np.zeros_like(k)
    np.add.at(dk, (slice(None), reads), root * np.einsum("bhij,bhid->bhjd", dscores, root * q))
    return root * (dscores @ (root * k[:, reads])), dk


def who_reads_whom(dscores, q, k):
    """The mapping as a matrix of zeros and ones, [H, K]: forward it hands out the keys, transposed it adds up."""
    H, K = q.shape[1], k.shape[1]
    reads = (np.arange(H)[:, None] // (H // K) == np.arange(K)).astype(q.dtype)
    ds = dscores / q.dtype.type(math.sqrt(q.shape[-1]))
    dq = ds @ np.einsum("hk,bkjd->bhjd", reads, k)
    return dq, np.tensordot(reads, ds.swapaxes(-1, -2) @ q, (0, 1)).swapaxes(0, 1).copy()


exercise = Code(
    id="gqa-backward",
    title="Gradients of shared heads",
    chapter="05_sharing",
    answer="scores_backward",
    points=3,
    stars=2,
    minutes=25,
    args=("dscores", "q", "k"),
    returns=("dq", "dk"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        zero_dk,
        first_of_group,
        last_of_group,
        first_k_heads,
        not_summed,
        group_mean,
        product_of_sums,
        all_heads,
        interleaved,
        interleaved_dk,
        group_is_k,
        one_key_head,
        no_scale,
        no_scale_dk,
        scale_twice,
        scale_twice_dk,
        scale_inverted,
        scale_of_the_model,
        scale_of_the_sequence,
        dk_not_transposed,
        dq_transposed,
        dq_from_q,
        dk_from_k,
        dq_summed_over_group,
        summed_over_batch,
        masked,
        swapped,
        in_place,
        float64_leak,
    ),
    variants=(loops, repeated, stacked, einsum, scattered, who_reads_whom),
    hints=(
        "Forget the sharing at first: one head, scores = q kᵀ / √Dh. A product passes to each factor the other one.",
        "For one head: dq = dscores k / √Dh and dk = dscoresᵀ q / √Dh. The transpose swaps the two T axes.",
        "Now share. Query head h reads key head h // (H // K). For dq, lay the keys out for every query head:\n"
        "`np.repeat(k, H // K, axis=1)` is [B, H, T, Dh].",
        "That repeat copied each key head H/K times. Backward, the copies' gradients add up:\n"
        "compute dk for every query head, [B, H, T, Dh], then sum over each group.",
        "To sum over a group, give it an axis. Neighbours share, so K comes first:\n"
        "`dkeys.reshape(B, K, H // K, T, Dh).sum(axis=2)`.\n"
        "For the scale use `Dh ** 0.5`: `np.sqrt(Dh)` would turn float32 into float64.",
    ),
    library=(
        "scratch.attention.sdpa_backward",
        "scratch.blocked.blocked_sdpa_backward",
        "scratch.tiled.tiled_attention_backward",
    ),
    loss=loss,
    large=large,
    takeaway="What is used n times collects n gradients: a key head from H/K query heads, a weight from all tokens.",
)
