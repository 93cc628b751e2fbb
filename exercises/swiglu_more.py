"""Exercise swiglu-more: why a SwiGLU at F = 4D has more weights than the classic MLP of the same width."""

from exercises.spec import Choice, Part
from scratch.config import Config, param_shapes


def _why():
    """Counted: what a SwiGLU has beside the two matrices of a GELU MLP as wide."""
    D, F = 6, 24
    shapes = {
        ffn: param_shapes(Config(d_model=D, d_ff=F, n_heads=1, ffn=ffn))["blocks"][0]["ffn"]
        for ffn in ("swiglu", "gelu")
    }
    sizes = {ffn: sorted(rows * columns for rows, columns in s.values()) for ffn, s in shapes.items()}
    return "b" if sizes["swiglu"] == [D * F] * 3 and sizes["gelu"] == [D * F] * 2 else "none"


exercise = Choice(
    id="swiglu-more",
    title="Why it has more",
    chapter="07_block",
    answer="letter",
    points=1,
    stars=1,
    minutes=3,
    parts=(
        Part(
            name="why",
            ask="At F = 4D a SwiGLU has more weights than the classic MLP of the same width. Why?",
            options={
                "a": "SiLU has weights of its own, GELU has none",
                "b": "the gate is a third matrix, as large as the other two",
                "c": "its hidden layer is wider",
                "d": "gate and up-projection multiply, and so do their weights",
                "e": "it carries biases that the classic MLP has not",
            },
            wrong={
                "a": "SiLU is a fixed function, z · sigmoid(z); there is nothing in it to learn.",
                "c": "At F = 4D both are 4D wide. What is there besides width?",
                "d": "Their outputs are multiplied, number by number. Weights are counted, and counts add up.",
                "e": "Neither has biases here, and biases would be 4D, not 4D².",
            },
            right=_why,
        ),
    ),
    hints=(
        "Write down the matrices of each with their shapes.",
        "Classic: [D, 4D] and [4D, D]. How many D × F matrices does out = (silu(x wg) ⊙ (x wu)) wd have?",
        "wg, wu and wd: three of D × F against two.",
    ),
    takeaway="Three matrices to two: at F = 8D/3 they weigh the same.",
)
