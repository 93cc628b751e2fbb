"""The block by hand: one small pre-norm block stepped operation by operation, every number shown and free to change."""

import html

import numpy as np

from scratch import _check, example
from scratch.block import block_forward
from scratch.config import Config
from widgets import base

WHERE = "block_by_hand"
MOST_ROWS, MOST_COLUMNS = 6, 16  # what a page has room for
SHOWN = 0.0005  # a smaller change is not seen in three decimals

# Name, label, operation (see block_by_hand_steps.js), what it works on, axes, formula, title, a question before it.
STEPS = (
    ("x", "x", "given", "", "T D", "x", "the stream comes in", ""),
    ("n1", "n₁", "norm", "x norm1.g norm1.b", "T D", "n₁ = NORM(x)", "the first norm", "What will all rows share?"),
    ("q", "q", "product", "n1 attn.wq", "T Dh", "q = n₁ Wq", "queries", "Which row of q will hold the largest number?"),
    ("k", "k", "product", "n1 attn.wk", "T Dh", "k = n₁ Wk", "keys", "Which row of k will hold the largest number?"),
    ("v", "v", "product", "n1 attn.wv", "T Dh", "v = n₁ Wv", "values", "Which row of v will hold the largest number?"),
    ("s", "s", "scores", "q k", "T T", "s = q kᵀ / √DH", "scores", "Whose key fits the last token's query best?"),
    ("m", "m", "mask", "s", "T T", "m = s, and −∞ at later tokens", "the mask", "How many scores will be −∞?"),
    ("p", "p", "softmax", "m", "T T", "p = softmax(m)", "weights", "How much weight does the first row give itself?"),
    ("o", "o", "product", "p v", "T Dh", "o = p v", "the head's answer", "Which row of o is just a row of v?"),
    ("a", "a", "product", "o attn.wo", "T D", "a = o Wo", "what attention adds", "What does Wo change?"),
    ("u", "u", "add", "x a", "T D", "u = x + a", "the first add", "Which row does attention change most?"),
    ("n2", "n₂", "norm", "u norm2.g norm2.b", "T D", "n₂ = NORM(u)", "the second norm", "What will all rows share?"),
    ("h", "h", "product", "n2 ffn.w1", "T F", "h = n₂ W₁", "hidden numbers", "How many of them will be negative?"),
    ("c", "c", "gelu", "h", "T F", "c = gelu(h)", "what gelu lets pass", "What becomes of the negative ones?"),
    ("f", "f", "product", "c ffn.w2", "T D", "f = c W₂", "what the feed-forward adds", "Which row gets the most?"),
    ("y", "y", "add", "u f", "T D", "y = u + f", "the second add", "Which row does the feed-forward change most?"),
)
FIELDS = ("name", "label", "op", "from", "axes", "formula", "title", "ask")
WEIGHTS = {
    "norm1": {"g": "g", "b": "b"},
    "attn": {"wq": "Wq", "wk": "Wk", "wv": "Wv", "wo": "Wo"},
    "norm2": {"g": "g", "b": "b"},
    "ffn": {"w1": "W₁", "w2": "W₂"},
}


def block_by_hand(x=None, params=None, *, norm="layernorm", tokens=None):
    """Show a block with one head and a GELU feed-forward: step through it, change any number, compare three cases.

    Left out, x and params are those of `scratch.example`, as in the chapter on the block, for its first three words.
    What the reader does can be read and set: `step` ("x" … "y"), `x`, `weights` (by names such as "attn.wq"),
    `overrides` ({"q,0,2": 1.5}: row 0, column 2 of q is 1.5 from there on), `case` ("", "times ten", "last token",
    "no attention"), `row` (the one times ten), `norm`.

    Parameters
    ----------
    x : float array [T, D], T at most 6 and D at most 16
    params : dict, a block's tree as `block_forward` takes it, one head, no biases outside of the norms, F at most 16
    norm : "layernorm" or "rmsnorm"
    tokens : names of the T rows

    Raises
    ------
    ValueError
        If a shape does not fit, a number is not finite or a name is unknown.
    """
    words, other = None, None
    if x is None:
        table = example.params()["embed"]["table"]
        x, tokens = table[example.ids()[0, :3]], tokens or example.SENTENCE[:3]
        words, other = example.WORDS, {"word": "dog", "row": table[3].tolist()}
    _check.choice(WHERE, "norm", norm, ("layernorm", "rmsnorm"))
    _check_stream(x)
    params = _tree(example.params()["blocks"][0] if params is None else params, x.shape[1])
    names = [str(token) for token in tokens or (f"t{t + 1}" for t in range(len(x)))]
    if len(names) != len(x):
        raise ValueError(f"{WHERE}: tokens has {len(names)} names, expected {len(x)}, one for each row of x")
    other = other or {"word": "its row with the other sign", "row": (-x[-1]).tolist()}
    weights = {f"{part}.{name}": np.atleast_2d(w).tolist() for part in params for name, w in params[part].items()}
    features = list(words or range(1, x.shape[1] + 1))
    data = _structure(x, params) | {"tokens": names, "features": features, "other": other}
    row = min(1, len(x) - 1)
    return base.show(
        WHERE,
        "A block by hand",
        _words(x, params, norm, names, other, row),
        data | {"x": x.tolist(), "weights": weights},
        x=x.tolist(),
        weights=weights,
        overrides={},
        norm=norm,
        step="x",
        entry=["x", len(x) - 1, 0],
        case="",
        row=row,
        guess=[],
        shown=False,
    )


def run(x, params, norm="layernorm"):
    """The block on x [T, D]: a dict of x, p [T, T], a, u, f and y [T, D]."""
    T, D = x.shape
    width, hidden = params["attn"]["wq"].shape[1], params["ffn"]["w1"].shape[1]
    config = Config(d_model=D, n_heads=1, d_head=width, d_ff=hidden, norm=norm, ffn="gelu", pos="learned")
    seen = {}
    y, _ = block_forward(x[None], params, config, watch=seen.update)
    a, f = seen["attn"][0], seen["ffn"][0]
    return {"x": x, "p": seen["map"][0, 0], "a": a, "u": x + a, "f": f, "y": y[0]}


def cases(x, params, other, row):
    """The three cases of the book, each the x and the params that it runs with."""
    tenfold, replaced = x.copy(), x.copy()
    tenfold[row] *= 10
    replaced[-1] = other["row"]
    silent = params | {"attn": params["attn"] | {"wo": np.zeros_like(params["attn"]["wo"])}}
    return {"times ten": (tenfold, params), "last token": (replaced, params), "no attention": (x, silent)}


def _check_stream(x):
    _check.array(WHERE, "x", x, ndim=2)
    T, D = x.shape
    if not (1 <= T <= MOST_ROWS and 1 <= D <= MOST_COLUMNS):
        raise ValueError(f"{WHERE}: x has shape {x.shape}, expected at most {MOST_ROWS} rows, {MOST_COLUMNS} columns")
    if not np.isfinite(x).all():
        raise ValueError(f"{WHERE}: x holds a number that is not finite")


def _tree(params, D):
    """The parameters, with a bias for each norm (RMSNorm does not read it); checked for size."""
    tree = {}
    for part, names in WEIGHTS.items():
        given = params.get(part, {})
        if unknown := [name for name in given if name not in names and given[name] is not None]:
            raise ValueError(f"{WHERE}: {part} has {unknown[0]!r}, expected {', '.join(names)} alone")
        tree[part] = {}
        for name in names:
            if name not in given and name != "b":
                raise ValueError(f"{WHERE}: params has no {part}.{name}")
            w = given.get(name, np.zeros(D))
            _check.array(WHERE, f"{part}.{name}", w)
            if w.shape[-1] > MOST_COLUMNS or not np.isfinite(w).all():
                raise ValueError(f"{WHERE}: {part}.{name} must be finite, with at most {MOST_COLUMNS} columns")
            tree[part][name] = w
    return tree


def _structure(x, params):
    """The steps, the sizes that their axes have, and what arrays are called."""
    T, D = x.shape
    Dh, F = params["attn"]["wq"].shape[-1], params["ffn"]["w1"].shape[-1]
    steps = [dict(zip(FIELDS, fields, strict=True)) for fields in STEPS]
    for step in steps:
        formula = step["formula"].replace("DH", str(Dh))
        step |= {"from": step["from"].split(), "axes": step["axes"].split(), "formula": formula}
    labels = {f"{part}.{name}": label for part, names in WEIGHTS.items() for name, label in names.items()}
    labels |= {step["name"]: step["label"] for step in steps}
    return {"steps": steps, "sizes": {"T": T, "D": D, "Dh": Dh, "F": F}, "labels": labels, "eps": Config.eps}


def _words(x, params, norm, tokens, other, row):
    """What there is to see at first, and in the three cases, as HTML."""
    plain = run(x, params, norm)
    asked = {
        "times ten": f"{tokens[row]} ten times as long",
        "last token": f"Only the last token changed ({other['word']})",
        "no attention": "Attention removed",
    }
    lines = [
        f"The stream has {x.shape[0]} rows of {x.shape[1]} numbers, for {_listed(tokens)}. {len(STEPS) - 1} operations "
        "lead from x, which comes in, to y, which goes out. Here are some; p is how much each token looks at each."
    ]
    for name, case in cases(x, params, other, row).items():
        change = np.abs(run(*case, norm)["y"] - plain["y"]).max(axis=-1)
        moved = [token for token, size in zip(tokens, change, strict=True) if size >= SHOWN]
        seen = f"y changes in row{'s' * (len(moved) > 1)} {_listed(moved)}" if moved else "y stays the same"
        lines.append(f"{asked[name]}: {seen}.")
    head = "".join(f"<th scope='col'>{html.escape(token)}</th>" for token in ["step", *tokens])
    body = "".join(
        f"<tr><th scope='row'>{name}</th>{''.join(f'<td>{_numbers(numbers)}</td>' for numbers in rows)}</tr>"
        for name, rows in plain.items()
    )
    text = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f"{text}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _numbers(row):
    return " ".join(f"{v + 0:.3f}".replace("-", "−") for v in row.round(3))


def _listed(names):
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
