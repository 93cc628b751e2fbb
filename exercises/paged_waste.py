"""Exercise paged-waste: the bytes of a paged cache that hold no token, for texts of the learner's own."""

import numpy as np

from exercises.spec import Number
from scratch.config import Config
from scratch.kv_cache import PagedKVCache


def quantities(rng):
    """Three texts; the last one fills its pages to the end. So chosen that no two mistakes agree."""
    page = int(rng.choice([8, 16, 32]))
    over = [0, 0]  # tokens in the last pages of two texts; together less than a page, and not half of one
    while not (2 <= sum(over) < page and 2 * sum(over) != page):
        over = [int(n) for n in rng.integers(1, page - 1, 2)]
    n1, n2 = (page * int(rng.integers(*span)) + n for span, n in zip(((20, 40), (2, 6)), over))
    K = int(rng.choice([4, 8]))
    return {
        "L": 2 * int(rng.integers(6, 21)),
        "H": K * int(rng.choice([3, 5])),
        "K": K,
        "Dh": int(rng.choice([64, 80, 128])),
        "page": page,
        "n1": n1,
        "n2": n2,
        "n3": page * int(rng.integers(6, 20)),
        "T_max": 1024 * int(rng.integers(2, 9)),
    }


def reference(L, H, K, Dh, page, n1, n2, n3, T_max):
    """The library's cache takes the pages; the bytes of one token are measured on a page of its own."""
    config = Config(n_layers=L, n_heads=H, n_kv_heads=K, d_model=H * Dh, max_seq=T_max)
    one = PagedKVCache(config, page=1, pages=1, dtype=np.float16)
    small = Config(n_layers=1, n_heads=1, d_model=2, max_seq=T_max)
    empty = 0
    for n in (n1, n2, n3):
        kv = PagedKVCache(small, page=page, pages=T_max // page, dtype=np.float16)
        kv.reserve(n)
        empty += len(kv.tables[0]) * page - n
    return empty * one.nbytes


def _token(L, heads, Dh):
    return 2 * L * heads * Dh * 2


def _pages(n, page):
    return -(-n // page)


def _empty(page, *lengths):
    return sum(_pages(n, page) * page - n for n in lengths)


# ---- wrong answers; each docstring is what its author will read ----


def tokens_only(L, H, K, Dh, page, n1, n2, n3, T_max):
    """That is the number of empty places. The question is bytes: each place has room for a key and a value, in every
    layer and key head."""
    return _empty(page, n1, n2, n3)


def values_only(L, H, K, Dh, page, n1, n2, n3, T_max):
    """That is half. Either you counted keys and left out values, or you took one byte a number, not two."""
    return _empty(page, n1, n2, n3) * _token(L, K, Dh) // 2


def a_whole_page_more(L, H, K, Dh, page, n1, n2, n3, T_max):
    """You gave the third text an empty page. Its tokens fill their pages to the end, so it wastes nothing yet."""
    return (_empty(page, n1, n2, n3) + page) * _token(L, K, Dh)


def overhang(L, H, K, Dh, page, n1, n2, n3, T_max):
    """You counted the tokens in each text's last page. What is empty is the rest of that page."""
    return (n1 % page + n2 % page + n3 % page) * _token(L, K, Dh)


def one_long_text(L, H, K, Dh, page, n1, n2, n3, T_max):
    """You put the three texts one after another and rounded up once. No page holds tokens of two texts."""
    return _empty(page, n1 + n2 + n3) * _token(L, K, Dh)


def contiguous(L, H, K, Dh, page, n1, n2, n3, T_max):
    """That is what three contiguous buffers of T_max tokens would leave empty. A paged cache takes pages as texts
    grow."""
    return (3 * T_max - n1 - n2 - n3) * _token(L, K, Dh)


def half_a_page(L, H, K, Dh, page, n1, n2, n3, T_max):
    """Half a page for each text is what is empty on average. These texts have lengths: count."""
    return 3 * page * _token(L, K, Dh) // 2


def a_page_each(L, H, K, Dh, page, n1, n2, n3, T_max):
    """A page for each text is more than can be empty. Round each length up to whole pages, and subtract the length."""
    return 3 * page * _token(L, K, Dh)


def used(L, H, K, Dh, page, n1, n2, n3, T_max):
    """Those are the bytes that hold tokens. The question is the others."""
    return (n1 + n2 + n3) * _token(L, K, Dh)


def held(L, H, K, Dh, page, n1, n2, n3, T_max):
    """Those are all bytes of the pages taken. Subtract the bytes that hold tokens."""
    return sum(_pages(n, page) * page for n in (n1, n2, n3)) * _token(L, K, Dh)


def query_heads(L, H, K, Dh, page, n1, n2, n3, T_max):
    """You counted H heads. Only the K key/value heads have keys and values."""
    return _empty(page, n1, n2, n3) * _token(L, H, Dh)


def one_layer(L, H, K, Dh, page, n1, n2, n3, T_max):
    """That is one layer. A page has room for its tokens' keys and values in each of the L layers."""
    return _empty(page, n1, n2, n3) * _token(1, K, Dh)


def one_head(L, H, K, Dh, page, n1, n2, n3, T_max):
    """That is one head's share. There are K key/value heads."""
    return _empty(page, n1, n2, n3) * _token(L, 1, Dh)


def four_bytes(L, H, K, Dh, page, n1, n2, n3, T_max):
    """That is twice as much: you counted a factor of two once too often. Here a number takes two bytes, not four."""
    return _empty(page, n1, n2, n3) * _token(L, K, Dh) * 2


# ---- right answers, found otherwise ----


def by_remainders(L, H, K, Dh, page, n1, n2, n3, T_max):
    """−n mod page, for each text."""
    return (-n1 % page + -n2 % page + -n3 % page) * 4 * L * K * Dh


def by_difference(L, H, K, Dh, page, n1, n2, n3, T_max):
    """Bytes held minus bytes used, as a float that happens to be whole."""
    return float(held(L, H, K, Dh, page, n1, n2, n3, T_max) - used(L, H, K, Dh, page, n1, n2, n3, T_max))


exercise = Number(
    id="paged-waste",
    title="What pages leave empty",
    chapter="12_generating",
    answer="empty",
    points=1,
    stars=1,
    minutes=10,
    quantities=quantities,
    question=(
        "A model has L layers, H query heads and K key/value heads of width Dh. Its cache is paged, `page` tokens to a "
        "page, two bytes a number. A page has room for its tokens in all layers. Three texts of n1, n2 and n3 tokens "
        "are in the cache; none may have more than T_max. How many bytes of the pages that they hold are empty?"
    ),
    unit="bytes",
    reference=reference,
    mutants=(
        tokens_only,
        values_only,
        a_whole_page_more,
        overhang,
        one_long_text,
        contiguous,
        half_a_page,
        a_page_each,
        used,
        held,
        query_heads,
        one_layer,
        one_head,
        four_bytes,
    ),
    variants=(by_remainders, by_difference),
    hints=(
        "First places, then bytes. How many pages does each text hold, and how many of their places are empty?",
        "A text of n tokens holds n / page pages, rounded up. A text that fills its last page leaves nothing empty.",
        "One place: a key and a value for each of K heads in L layers, Dh numbers each, two bytes a number: 4 L K Dh.",
    ),
    takeaway="Less than one page a text, however long the text may become.",
)
