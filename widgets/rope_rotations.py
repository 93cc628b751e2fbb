"""RoPE seen: the hands of a query and a key turn with their positions; the score knows their difference alone."""

import numbers

import numpy as np

from scratch.rope import LAYOUTS, rope_forward, rope_table
from widgets import base as widget

BASES = (10_000.0, 100_000.0, 500_000.0)
WIDTHS = (8, 16)
WIDEST, LONGEST = 32, 64  # what a page has room for


def rope_rotations(q=None, k=None, *, d_head=8, base=10_000.0, layout="interleaved", m=12, n=7, T=32):
    """Show RoPE's rotations.

    Parameters
    ----------
    q, k : sequences of Dh numbers, a query and a key before they are turned; random ones if left out
    d_head : int, Dh where no q and k are given
    base : float; 10,000, 100,000 and 500,000 can be chosen in the page, any other here
    layout : "interleaved" or "half"
    m, n : int, the positions of query and key
    T : int, positions there are

    Returns
    -------
    The widget. Its values: q, k, m, n, base, pairing (the layout: a widget's own `layout` is another thing), and pair,
    the one whose score the map shows, -1 for all.
    """
    d_head, T = _whole("d_head", d_head, 2, WIDEST), _whole("T", T, 2, LONGEST)
    m, n = _whole("m", m, 0, T - 1), _whole("n", n, 0, T - 1)
    if isinstance(base, bool) or not isinstance(base, numbers.Real) or not 0 < base < float("inf"):
        raise ValueError(f"rope_rotations: base={base!r}, expected a positive number")
    if layout not in LAYOUTS:
        raise ValueError(f"rope_rotations: layout={layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
    random = np.random.default_rng(153).standard_normal((2, WIDEST)).round(2)  # no hand of these is very short
    q = random[0, :d_head] if q is None else _vector("q", q)
    k = random[1, :d_head] if k is None else _vector("k", k)
    if len(q) != len(k) or len(q) % 2:
        raise ValueError(f"rope_rotations: q has {len(q)} numbers and k {len(k)}, expected one even number for both")
    data = {
        "T": T,
        "bases": sorted({*BASES, float(base)}),
        "widths": sorted({*WIDTHS, len(q)}),
        "random": random.tolist(),
    }
    values = {"q": q.tolist(), "k": k.tolist(), "m": m, "n": n, "base": float(base), "pairing": layout, "pair": -1}
    words = _words(q, k, m, n, float(base), layout)
    return widget.show("rope_rotations", "RoPE: hands that turn with the position", words, data, **values)


def _whole(name, value, least, most):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= value <= most:
        raise ValueError(f"rope_rotations: {name}={value!r}, expected a whole number from {least} to {most}")
    return int(value)


def _vector(name, value):
    try:
        x = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        x = np.empty(0)
    if x.ndim != 1 or not 2 <= len(x) <= WIDEST or not np.isfinite(x).all():
        raise ValueError(f"rope_rotations: {name}={value!r}, expected 2 to {WIDEST} finite numbers")
    return x


def _words(q, k, m, n, base, layout):
    """The pairs and their scores, before a script has run; the script renews them."""
    Dh = len(q)
    cos, sin = rope_table(max(m, n, 1) + 1, Dh, base)
    q, k = (rope_forward(x[None], cos[at:][:1], sin[at:][:1], layout)[0][0] for x, at in ((q, m), (k, n)))
    first, second = np.arange(Dh).reshape(-1, 2).T if layout == "interleaved" else np.arange(Dh).reshape(2, -1)
    speed, score = np.arctan2(sin[1], cos[1]), q * k
    rows = [
        (i, f"{a}, {b}", f"{speed[i]:.4g}", f"{m * speed[i]:.2f}", f"{n * speed[i]:.2f}", f"{score[a] + score[b]:.2f}")
        for i, (a, b) in enumerate(zip(first, second))
    ]
    head = ("pair", "entries", "speed, radians a token", "query's turn", "key's turn", "score")
    names = "".join(f'<th scope="col">{name}</th>' for name in head)
    cells = ("".join(f"<td>{cell}</td>" for cell in row[1:]) for row in rows)
    body = "".join(f'<tr><th scope="row">{row[0]}</th>{rest}</tr>' for row, rest in zip(rows, cells))
    said = (
        f"The query stands at position {m}, the key at {n}, so n − m = {n - m}. Their score, before it is divided by "
        f"√d<sub>h</sub>, is {score.sum():.2f}. It is the same wherever n − m = {n - m}. "
        f"Base {base:,.0f}, layout {layout}."
    )
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p>{said}</p>{table}".replace("-", "−")
