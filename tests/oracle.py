"""An oracle for scratch: the decoder in scalar Python loops on lists and `math`, one number at a time, forward only.

Nothing here is an array, so no broadcasting, transpose or reshape of scratch's can be repeated here. Arguments are
NumPy arrays or trees of them; results are nested lists.
"""

import math


def lists(tree):
    """The same tree with lists of Python floats for arrays."""
    if isinstance(tree, dict):
        return {key: lists(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [lists(value) for value in tree]
    return tree.tolist()


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def linear(row, w, b=None):
    """One row [In] through w [In, Out]."""
    out = []
    for o in range(len(w[0])):
        out.append(dot(row, [w[i][o] for i in range(len(w))]) + (b[o] if b else 0.0))
    return out


def add(a, b):
    return [x + y for x, y in zip(a, b, strict=True)]


def norm(row, p, config):
    n = len(row)
    mean = math.fsum(row) / n if config.norm == "layernorm" else 0.0
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in row) / n + config.eps)
    shift = p["b"] if config.norm == "layernorm" else [0.0] * n
    return [p["g"][i] * (row[i] - mean) / spread + shift[i] for i in range(n)]


def turn(head, position, config):
    """One head's query or key [Dh], rotated for its position."""
    out, Dh = list(head), len(head)
    for i in range(Dh // 2):
        a, b = (2 * i, 2 * i + 1) if config.rope_layout == "interleaved" else (i, Dh // 2 + i)
        angle = position * config.rope_base ** (-2 * i / Dh)
        out[a] = head[a] * math.cos(angle) - head[b] * math.sin(angle)
        out[b] = head[a] * math.sin(angle) + head[b] * math.cos(angle)
    return out


def attention(rows, p, config, real):
    """One sequence's rows [T, D]; real[j] says whether token j is no padding."""
    T, Dh = len(rows), config.head_dim
    shared = config.n_heads // config.n_kv_heads  # query heads for each key head
    queries = [linear(row, p["wq"], p.get("bq")) for row in rows]
    keys = [linear(row, p["wk"], p.get("bk")) for row in rows]
    values = [linear(row, p["wv"], p.get("bv")) for row in rows]

    def cut(row, head, position):
        part = row[head * Dh : (head + 1) * Dh]
        return turn(part, position, config) if config.pos == "rope" else part

    out = []
    for i in range(T):
        joined = []
        for h in range(config.n_heads):
            q = cut(queries[i], h, i)
            visible = [j for j in range(T) if real[j] and (j <= i or not config.causal)]
            scores = [dot(q, cut(keys[j], h // shared, j)) / math.sqrt(Dh) for j in visible]
            weights = [math.exp(s - max(scores)) for s in scores]
            for d in range(Dh):
                column = [values[j][h // shared * Dh + d] for j in visible]
                joined.append(dot(weights, column) / math.fsum(weights) if visible else 0.0)
        out.append(linear(joined, p["wo"], p.get("bo")))
    return out


def ffn(row, p, config):
    if config.ffn == "swiglu":
        gate, up = linear(row, p["wg"]), linear(row, p["wu"])
        return linear([g / (1 + math.exp(-g)) * u for g, u in zip(gate, up, strict=True)], p["wd"])
    hidden = linear(row, p["w1"], p.get("b1"))
    inner = [math.sqrt(2 / math.pi) * (x + 0.044715 * x**3) for x in hidden]
    return linear([x / 2 * (1 + math.tanh(u)) for x, u in zip(hidden, inner, strict=True)], p["w2"], p.get("b2"))


def block(rows, p, config, real):
    """One sequence [T, D] through one block."""
    if config.form == "post-norm":
        attended = attention(rows, p["attn"], config, real)
        middle = [norm(add(x, a), p["norm1"], config) for x, a in zip(rows, attended, strict=True)]
        return [norm(add(u, ffn(u, p["ffn"], config)), p["norm2"], config) for u in middle]
    normed = [norm(row, p["norm1"], config) for row in rows]
    attended = attention(normed, p["attn"], config, real)
    middle = [add(x, a) for x, a in zip(rows, attended, strict=True)]
    if config.form == "parallel":
        return [add(u, ffn(n, p["ffn"], config)) for u, n in zip(middle, normed, strict=True)]
    return [add(u, ffn(norm(u, p["norm2"], config), p["ffn"], config)) for u in middle]


def stack(ids, p, config, real):
    """One sequence's ids through embedding, blocks and the final norm."""
    rows = [list(p["embed"]["table"][token]) for token in ids]
    if config.pos == "learned":
        rows = [add(row, p["pos"]["table"][t]) for t, row in enumerate(rows)]
    for tree in p["blocks"]:
        rows = block(rows, tree, config, real)
    return rows if config.form == "post-norm" else [norm(row, p["norm"], config) for row in rows]


def streams(ids, params, config, pad_mask=None):
    """The normalized stream [B][T][D] for ids [B, T]."""
    p, out = lists(params), []
    for b, sequence in enumerate(ids.tolist()):
        out.append(stack(sequence, p, config, [True] * len(sequence) if pad_mask is None else pad_mask[b].tolist()))
    return out


def logits(ids, params, config, pad_mask=None):
    """Logits [B][T][V] for ids [B, T]."""
    p, out = lists(params), []
    for rows in streams(ids, params, config, pad_mask):
        if config.tied:
            out.append([[dot(row, word) for word in p["embed"]["table"]] for row in rows])
        else:
            out.append([linear(row, p["head"]["w"]) for row in rows])
    return out


def loss(ids, targets, params, config, pad_mask=None, ignore_index=-100):
    """Mean cross-entropy in nats over the targets that are not ignored."""
    terms = []
    for rows, wanted in zip(logits(ids, params, config, pad_mask), targets.tolist(), strict=True):
        for row, target in zip(rows, wanted, strict=True):
            if target != ignore_index:
                top = max(row)
                terms.append(top + math.log(math.fsum(math.exp(x - top) for x in row)) - row[target])
    return math.fsum(terms) / len(terms) if terms else 0.0


def whole_block(x, params, config, pad_mask=None):
    """`block` for a batch x [B, T, D]."""
    p, out = lists(params), []
    for b, rows in enumerate(x.tolist()):
        out.append(block(rows, p, config, [True] * len(rows) if pad_mask is None else pad_mask[b].tolist()))
    return out
