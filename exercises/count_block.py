"""Exercise count-block: the weights of attention, of a SwiGLU and of the classic MLP, and which has more."""

from dataclasses import replace

import numpy as np

from exercises.spec import Code
from scratch.account import count_block
from scratch.model import Config


def reference(D, F):
    """D, F int. Returns the weights of attention, of a SwiGLU F wide, of a GELU MLP 4D wide, and which MLP has more."""
    config = Config(d_model=D, d_ff=F, n_heads=1, pos="learned")
    parts, classic = count_block(config), count_block(replace(config, ffn="gelu", d_ff=4 * D))
    return parts["attn"], parts["ffn"], classic["ffn"], _more(parts["ffn"], classic["ffn"])


def _more(swiglu, classic):
    return "same" if swiglu == classic else "swiglu" if swiglu > classic else "classic"


def _right(D, F):
    """The right counts again, without the library, which is closed to the answers below."""
    return 4 * D * D, 3 * D * F, 8 * D * D, _more(3 * D * F, 8 * D * D)


def cases(rng):
    """F = 4D and F = 8D/3, the two the prompt asks about; then widths between, below and above; then a real one."""
    for D in (3, int(3 * rng.integers(2, 9))):
        yield D, 4 * D
        yield D, 8 * D // 3
        yield D, int(rng.integers(D + 1, 2 * D))
        yield D, int(rng.integers(3 * D, 4 * D))
        yield D, int(rng.integers(5 * D, 7 * D))
    yield 4096, 11008  # Llama 2 7B
    yield 64, 170  # the widths beside 8D/3, where D is no multiple of 3
    yield 16384, 43691
    yield 65536, 180_000  # more than a 32-bit number can hold


# ---- wrong answers; each docstring is what its author will read ----


def no_output_projection(D, F):
    """You counted three projections in attention: queries, keys and values. The fourth, the output projection, brings
    the heads back into the stream."""
    return 3 * D * D, *_right(D, F)[1:]


def attention_biases(D, F):
    """You counted biases in attention; this block has none."""
    return 4 * D * D + 4 * D, *_right(D, F)[1:]


def one_projection(D, F):
    """You counted one D × D matrix in attention. Queries, keys, values and output have one each."""
    return D * D, *_right(D, F)[1:]


def doubled(D, F):
    """These are twice the weights: a weight costs two floating-point operations, but it is one number."""
    attention, swiglu, classic, more = _right(D, F)
    return 2 * attention, 2 * swiglu, 2 * classic, more


def in_units(D, F):
    """You count in units of D². Return the number of weights itself."""
    return 4, 3 * F / D, 8, _right(D, F)[3]


def with_norms(D, F):
    """You added the gains of the norms to attention. They are 2D of the block, and counted apart."""
    return 4 * D * D + 2 * D, *_right(D, F)[1:]


def swiglu_of_two(D, F):
    """You counted two matrices in the SwiGLU. It has three: gate and up, both D × F, and down, F × D."""
    return 4 * D * D, 2 * D * F, 8 * D * D, _more(2 * D * F, 8 * D * D)


def swiglu_always_4d(D, F):
    """Your SwiGLU is always 4D wide; its width is F."""
    return 4 * D * D, 12 * D * D, 8 * D * D, _more(12, 8)


def swiglu_always_8d(D, F):
    """Your SwiGLU is always 8D/3 wide; its width is F."""
    return 4 * D * D, 8 * D * D, 8 * D * D, "same"


def classic_of_width_f(D, F):
    """Your classic MLP is F wide. The classic one is 4D wide, whatever F the SwiGLU has."""
    return 4 * D * D, 3 * D * F, 2 * D * F, "swiglu"


def classic_of_three(D, F):
    """You counted three matrices in the classic MLP. It has two, up D × 4D and down 4D × D, and no gate."""
    return 4 * D * D, 3 * D * F, 12 * D * D, _more(3 * D * F, 12 * D * D)


def classic_of_one(D, F):
    """You counted one matrix in the classic MLP. It has two, up D × 4D and down 4D × D."""
    return 4 * D * D, 3 * D * F, 4 * D * D, _more(3 * D * F, 4 * D * D)


def classic_biases(D, F):
    """You counted biases in the classic MLP; this one has none."""
    classic = 8 * D * D + 5 * D
    return 4 * D * D, 3 * D * F, classic, _more(3 * D * F, classic)


def always_swiglu(D, F):
    """Three matrices are not always more than two: how wide they are counts as well. Compare 3DF with 8D²."""
    return *_right(D, F)[:3], "swiglu"


def by_width(D, F):
    """You compared the widths, F with 4D. The SwiGLU has three matrices to two, so the counts are equal long before."""
    return *_right(D, F)[:3], _more(F, 4 * D)


# ---- right answers, written otherwise ----


def formulas(D, F):
    """The three formulas, without a look at any shape."""
    attention, swiglu, classic = 4 * D**2, 3 * D * F, 8 * D**2
    return attention, swiglu, classic, _more(3 * F, 8 * D)


def loops(D, F):
    """Adds up the shapes of the matrices, one at a time."""
    totals = []
    for shapes in ([(D, D)] * 4, [(D, F), (D, F), (F, D)], [(D, 4 * D), (4 * D, D)]):
        total = 0
        for rows, columns in shapes:
            total += rows * columns
        totals.append(total)
    attention, swiglu, classic = totals
    return attention, swiglu, classic, _more(swiglu, classic)


def of_arrays(D, F):
    """NumPy's own counts: integers of its own type, from shapes."""
    attention = np.int64(4) * np.prod([D, D])
    swiglu = np.sum([np.prod(s) for s in ((D, F), (D, F), (F, D))])
    classic = np.asarray(2 * np.prod([D, 4 * D]))
    return attention, swiglu, classic, ("classic", "same", "swiglu")[int(np.sign(swiglu - classic)) + 1]


def floats(D, F):
    """Whole numbers that happen to be floats, and a capital letter."""
    return 4.0 * D * D, 3.0 * D * F, 2.0 * D * (4 * D), _more(3 * F, 8 * D).capitalize()


exercise = Code(
    id="count-block",
    title="Count a block's weights",
    chapter="07_block",
    answer="count_weights",
    points=2,
    stars=2,
    minutes=15,
    args=("D", "F"),
    returns=("attention", "swiglu", "classic", "more"),
    cases=cases,
    reference=reference,
    mutants=(
        no_output_projection,
        attention_biases,
        one_projection,
        doubled,
        in_units,
        with_norms,
        swiglu_of_two,
        swiglu_always_4d,
        swiglu_always_8d,
        classic_of_width_f,
        classic_of_three,
        classic_of_one,
        classic_biases,
        always_swiglu,
        by_width,
    ),
    variants=(formulas, loops, of_arrays, floats),
    hints=(
        "Write down the matrices of each part with their shapes. A matrix of shape [in, out] has in · out weights.",
        "Attention: queries, keys, values and output are [D, D] each. Heads only share out their columns.",
        "The classic MLP goes up, [D, 4D], and comes down, [4D, D]. A SwiGLU has a gate beside the up-projection.",
        "The SwiGLU has [D, F], [D, F] and [F, D]. Three matrices of width F stand against two of width 4D:\n"
        "compare 3DF with 8D². At which F are they equal?",
    ),
    library=("scratch.account.count_block", "scratch.account.count_params"),
    takeaway="The gate is a third matrix: 12D² against 8D² at F = 4D. At F = 8D/3 both have 8D², twice attention's.",
)
