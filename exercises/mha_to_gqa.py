"""Exercise mha-to-gqa: average the key heads of a trained model, so that groups of query heads can share them."""

import numpy as np

from exercises.spec import Code


def reference(wk, n_heads, n_kv_heads):
    """wk [D, H·Dh]. Returns the shared projection, [D, K·Dh]: head g is the mean of the heads that group g reads."""
    D, width = wk.shape
    heads = wk.reshape(D, n_kv_heads, n_heads // n_kv_heads, width // n_heads)
    return heads.mean(axis=2).reshape(D, -1)


def cases(rng):
    """Ascending. The first tests the groups alone (Dh = 1); two keep all heads or share a single one."""

    def case(D, H, K, Dh, scale=1.0):
        return rng.standard_normal((D, H * Dh)) * scale, H, K

    yield rng.choice([-1, 1], (1, 4)) * rng.permutation(range(2, 26))[:4] / 10, 4, 2  # whole tenths, no two alike
    yield case(2, 2, 2, 2)  # K = H: nothing to share
    yield case(2, 6, 2, 1)
    yield case(3, 6, 3, 2, 1e-3)
    wk, H, K = case(4, 6, 2, 3, 10.0 ** rng.integers(-3, 4, (4, 1)))
    wk[:, 3:6] = 0  # head 1 was pruned: it still counts in the mean
    wk[2] = 0
    yield wk, H, K
    yield case(5, 8, 2, 3, 1e3)
    yield case(3, 8, 1, 7)  # MQA
    yield case(6, 12, 4, 5, 10.0 ** rng.uniform(-3, 3))


def rounding(wk, n_heads, n_kv_heads):
    """In units of u: a sum of H/K terms, each perhaps divided before it is added, or multiplied by a
    rounded reciprocal."""
    return ((n_heads // n_kv_heads + 4) * _pooled(np.abs(wk), n_heads, n_kv_heads).mean(axis=2).reshape(len(wk), -1),)


def _pooled(wk, H, K):
    """The heads by group, [D, K, H/K, Dh]."""
    return wk.reshape(len(wk), K, H // K, wk.shape[1] // H)


# ---- wrong answers; each docstring is what its author will read ----


def zero(wk, n_heads, n_kv_heads):
    """All of it is zero. Each shared head should be the mean of its group's heads."""
    return np.zeros_like(wk[:, : wk.shape[1] // n_heads * n_kv_heads])


def summed(wk, n_heads, n_kv_heads):
    """You added the heads of a group up. A gradient is summed; a head that stands for H/K others is their mean, or
    every score grows."""
    return _pooled(wk, n_heads, n_kv_heads).sum(axis=2).reshape(len(wk), -1)


def first_of_group(wk, n_heads, n_kv_heads):
    """You kept the first head of each group and dropped the others. The mean keeps something of all of them."""
    return _pooled(wk, n_heads, n_kv_heads)[:, :, 0].reshape(len(wk), -1).copy()


def last_of_group(wk, n_heads, n_kv_heads):
    """You kept the last head of each group: each head overwrote the one before it. Take the mean of all H/K."""
    return _pooled(wk, n_heads, n_kv_heads)[:, :, -1].reshape(len(wk), -1).copy()


def first_k(wk, n_heads, n_kv_heads):
    """You kept the first K heads. Head g of the result is the mean of the H/K neighbours that group g reads."""
    return wk[:, : wk.shape[1] // n_heads * n_kv_heads].copy()


def interleaved(wk, n_heads, n_kv_heads):
    """You averaged every K-th head (a reshape to H/K, K). Neighbours form a group here: K comes before H/K."""
    D, Dh = len(wk), wk.shape[1] // n_heads
    return wk.reshape(D, n_heads // n_kv_heads, n_kv_heads, Dh).mean(axis=1).reshape(D, -1)


def group_is_k(wk, n_heads, n_kv_heads):
    """You made groups of K heads. K counts the groups; each of them has H/K heads."""
    D, Dh = len(wk), wk.shape[1] // n_heads
    return wk.reshape(D, n_heads // n_kv_heads, n_kv_heads, Dh).mean(axis=2).reshape(D, -1)


def neighbouring_columns(wk, n_heads, n_kv_heads):
    """You averaged neighbouring columns, which mixes the features within a head. Average column d of one head with
    column d of the next, Dh further on."""
    return wk.reshape(len(wk), -1, n_heads // n_kv_heads).mean(axis=2)


def features_outside(wk, n_heads, n_kv_heads):
    """The means are right, but their columns are not in order: all heads' first features come first. Head after head,
    [K, Dh], is how the columns lie."""
    return _pooled(wk, n_heads, n_kv_heads).mean(axis=2).swapaxes(1, 2).reshape(len(wk), -1)


def all_heads(wk, n_heads, n_kv_heads):
    """Each shared head is the mean of all H heads. Average within a group, the H/K heads that will share."""
    D, Dh = len(wk), wk.shape[1] // n_heads
    return np.tile(wk.reshape(D, n_heads, Dh).mean(axis=1), (1, n_kv_heads))


def repeated(wk, n_heads, n_kv_heads):
    """You averaged, and then repeated each head for its whole group. The result has K heads, or nothing is saved."""
    means = _pooled(wk, n_heads, n_kv_heads).mean(axis=2)
    return means.repeat(n_heads // n_kv_heads, axis=1).reshape(len(wk), -1)


def unchanged(wk, n_heads, n_kv_heads):
    """Those are all H heads as they came. The result has K heads, [D, K·Dh]."""
    return wk.copy()


def divided_by_k(wk, n_heads, n_kv_heads):
    """You divided by K. A group has H/K heads, and a mean divides by how many it adds."""
    return _pooled(wk, n_heads, n_kv_heads).sum(axis=2).reshape(len(wk), -1) / n_kv_heads


def divided_by_h(wk, n_heads, n_kv_heads):
    """You divided by H. A group has H/K heads, and a mean divides by how many it adds."""
    return _pooled(wk, n_heads, n_kv_heads).sum(axis=2).reshape(len(wk), -1) / n_heads


def divided_by_root(wk, n_heads, n_kv_heads):
    """You divided the sum by √(H/K), which would keep the size of random heads. The mean divides by H/K."""
    summed = _pooled(wk, n_heads, n_kv_heads).sum(axis=2).reshape(len(wk), -1)
    return summed / (n_heads // n_kv_heads) ** 0.5


def median(wk, n_heads, n_kv_heads):
    """That is the median of each group. The mean of linear maps is the map that gives the mean key; a median is not."""
    return np.median(_pooled(wk, n_heads, n_kv_heads), axis=2).astype(wk.dtype).reshape(len(wk), -1)


def in_place(wk, n_heads, n_kv_heads):
    """You wrote the means into wk, which belongs to the caller. Put them into a new array."""
    groups = _pooled(wk, n_heads, n_kv_heads)
    groups[:, :, 0] = groups.mean(axis=2)  # a view of wk
    return groups[:, :, 0].reshape(len(wk), -1).copy()


def float64_leak(wk, n_heads, n_kv_heads):
    """Your float32 becomes float64: perhaps by `np.zeros(shape)`, which needs `wk.dtype` as a second argument."""
    return _pooled(wk.astype(np.float64), n_heads, n_kv_heads).mean(axis=2).reshape(len(wk), -1)


# ---- right answers, written otherwise ----


def loops(wk, n_heads, n_kv_heads):
    """Loops over every row, head and feature."""
    (D, width), group = wk.shape, n_heads // n_kv_heads
    Dh = width // n_heads
    out = np.zeros((D, n_kv_heads * Dh), dtype=wk.dtype)
    for i in range(D):
        for h in range(n_heads):
            for d in range(Dh):
                out[i, h // group * Dh + d] += wk[i, h * Dh + d] / group
    return out


def split_and_joined(wk, n_heads, n_kv_heads):
    """np.split takes the heads apart; the means of each group are joined again."""
    heads, group = np.split(wk, n_heads, axis=1), n_heads // n_kv_heads
    return np.concatenate([sum(heads[g : g + group]) / group for g in range(0, n_heads, group)], axis=1)


def by_matrix(wk, n_heads, n_kv_heads):
    """One product with a matrix that averages, [H·Dh, K·Dh]: the pooling is linear."""
    group, Dh = n_heads // n_kv_heads, wk.shape[1] // n_heads
    reads = np.arange(n_heads)[:, None] // group == np.arange(n_kv_heads)
    return wk @ (np.kron(reads, np.eye(Dh)) / group).astype(wk.dtype)


def einsum(wk, n_heads, n_kv_heads):
    """einsum, which sums over the axis that is not named in the result."""
    group = n_heads // n_kv_heads
    heads = wk.reshape(wk.shape[0], n_kv_heads, group, -1)
    return (np.einsum("dkgh->dkh", heads) / group).reshape(wk.shape[0], -1)


exercise = Code(
    id="mha-to-gqa",
    title="From many key heads to a few",
    chapter="05_sharing",
    answer="share_key_heads",
    points=2,
    stars=2,
    minutes=15,
    args=("wk", "n_heads", "n_kv_heads"),
    returns=("shared",),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        summed,
        first_of_group,
        last_of_group,
        first_k,
        interleaved,
        group_is_k,
        neighbouring_columns,
        features_outside,
        all_heads,
        repeated,
        unchanged,
        divided_by_k,
        divided_by_h,
        divided_by_root,
        median,
        in_place,
        float64_leak,
    ),
    variants=(loops, split_and_joined, by_matrix, einsum),
    hints=(
        "How do the H·Dh columns lie? Head after head: the first Dh columns are head 0.",
        "Give the columns three axes: which group, which head in it, which feature. Which comes first?",
        "`wk.reshape(D, K, H // K, Dh)`, because neighbours share. Over which axis is the mean?",
        "Over axis 2, the heads of a group. Then `reshape(D, K * Dh)` puts the K heads side by side again.",
    ),
    takeaway="Pooling a projection pools the keys themselves: a key is linear in the projection's columns.",
)
