"""The keys and values that a decoder keeps of every token: one long buffer, or pages from a common pool."""

import numpy as np

from scratch.rope import rope_table


class KVCache:
    """The keys and values of every token so far, one long buffer for each layer.

    Parameters
    ----------
    config : Config
    batch : int, B
    capacity : int, T_max; config.max_seq if left out
    dtype : of keys and values

    `lengths` [B] counts each sequence's tokens. What a buffer holds beyond them is not read. Keys are stored after
    RoPE, each turned by its own position, and never turned again.
    """

    def __init__(self, config, batch=1, capacity=None, dtype=np.float32):
        self.capacity = config.max_seq if capacity is None else capacity
        if config.pos == "learned" and self.capacity > config.max_seq:
            raise ValueError(f"KVCache: capacity={self.capacity}, but there are only {config.max_seq} positions")
        self.lengths = np.zeros(batch, dtype=np.int64)  # [B]
        self.rope = None
        if config.pos == "rope":
            self.rope = tuple(t.astype(dtype) for t in rope_table(self.capacity, config.head_dim, config.rope_base))
        self._make(config, batch, dtype)

    def _make(self, config, batch, dtype):
        shape = (config.n_layers, batch, config.n_kv_heads, self.capacity, config.head_dim)
        self._k, self._v = np.zeros(shape, dtype), np.zeros(shape, dtype)

    @property
    def nbytes(self):
        """Bytes of the buffers."""
        return self._k.nbytes + self._v.nbytes

    def write(self, layer, k, v):
        """Put k and v [B, K, S, Dh] after each sequence's tokens; `advance` then counts them."""
        S = k.shape[2]
        if (self.lengths == self.lengths[0]).all():
            at = slice(self.lengths[0], self.lengths[0] + S)
            self._k[layer, :, :, at], self._v[layer, :, :, at] = k, v
            return
        for b, start in enumerate(self.lengths):
            self._k[layer, b, :, start : start + S], self._v[layer, b, :, start : start + S] = k[b], v[b]

    def read(self, layer, n):
        """The first n keys and values of a layer: two arrays [B, K, n, Dh]."""
        return self._k[layer, :, :, :n], self._v[layer, :, :, :n]

    def slot(self, layer, t):
        """The first t + 1 keys and values of the first sequence, to read and to write: two views [K, t+1, Dh]."""
        return self._k[layer, 0, :, : t + 1], self._v[layer, 0, :, : t + 1]

    def reserve(self, S):
        """Make room for S more tokens in every sequence, or raise ValueError."""
        longest = int(self.lengths.max(initial=0))
        if longest + S > self.capacity:
            raise ValueError(f"KVCache: {longest} tokens and {S} more do not fit into capacity={self.capacity}")

    def advance(self, counts):
        """Count `counts` [B] more tokens."""
        self.lengths = self.lengths + counts

    def truncate(self, lengths):
        """Forget all but the first `lengths` [B] tokens; speculative decoding takes rejected ones back so."""
        lengths = np.asarray(lengths)
        if (lengths > self.lengths).any() or (lengths < 0).any():
            raise ValueError(f"KVCache: cannot cut {self.lengths.tolist()} tokens to {lengths.tolist()}")
        self.lengths = lengths.astype(np.int64) + np.zeros_like(self.lengths)


class PagedKVCache(KVCache):
    """The same, in pages of a fixed number of tokens that a sequence takes from a common pool as it grows.

    A sequence then holds memory for its own tokens, to the next whole page, and not for the longest one possible.
    The arguments are KVCache's, and page : int, tokens in a page; pages : int, in the pool, for all sequences together.

    Source: Kwon et al. 2023 (PagedAttention), section 4.
    """

    def __init__(self, config, batch=1, *, page=16, pages, capacity=None, dtype=np.float32):
        self.page, self.free = page, list(range(pages))[::-1]
        self.tables = [[] for _ in range(batch)]  # each sequence's pages, in the order of its tokens
        super().__init__(config, batch, capacity, dtype)

    def _make(self, config, batch, dtype):
        shape = (config.n_layers, len(self.free), config.n_kv_heads, self.page, config.head_dim)
        self._k, self._v = np.zeros(shape, dtype), np.zeros(shape, dtype)

    def reserve(self, S):
        """Take pages from the pool until S more tokens fit, or raise ValueError and take none."""
        super().reserve(S)
        wanted = [self._pages(n + S) - len(table) for n, table in zip(self.lengths, self.tables, strict=True)]
        if sum(wanted) > len(self.free):
            raise ValueError(f"PagedKVCache: {sum(wanted)} more pages are needed, {len(self.free)} are free")
        for table, n in zip(self.tables, wanted, strict=True):
            table += [self.free.pop() for _ in range(n)]

    def write(self, layer, k, v):
        """As KVCache.write."""
        for b, start in enumerate(self.lengths):
            place = start + np.arange(k.shape[2])
            page, at = np.array(self.tables[b])[place // self.page], place % self.page
            self._k[layer, page, :, at], self._v[layer, page, :, at] = k[b].swapaxes(0, 1), v[b].swapaxes(0, 1)

    def read(self, layer, n):
        """As KVCache.read: the pages are gathered into one array."""
        count = self._pages(n)  # of the longest; page 0 stands in where a sequence has no more, and is not read
        table = np.array([(pages + [0] * count)[:count] for pages in self.tables], dtype=np.intp)  # [B, pages]
        rows = (pool[layer][table].swapaxes(1, 2) for pool in (self._k, self._v))  # [B, K, pages, page, Dh]
        return tuple(r.reshape(*r.shape[:2], count * self.page, r.shape[-1])[:, :, :n] for r in rows)

    def advance(self, counts):
        """As KVCache.advance; pages that only padding had been written to go back."""
        super().advance(counts)
        self.truncate(self.lengths)

    def truncate(self, lengths):
        """As KVCache.truncate; pages that hold no token any more go back to the pool."""
        super().truncate(lengths)
        for b, n in enumerate(self.lengths):
            kept = self._pages(n)
            self.free += self.tables[b][kept:][::-1]
            del self.tables[b][kept:]

    def _pages(self, n):
        return -(-int(n) // self.page)
