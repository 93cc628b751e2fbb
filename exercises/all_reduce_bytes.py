"""Exercise all-reduce-bytes: what one device sends in a step of tensor-parallel training."""

from exercises.spec import Number
from scratch import plan
from scratch.config import Config


def quantities(rng):
    """16-bit training of a wide model; so chosen that no two mistakes agree, and every share is whole."""
    n = int(rng.choice([6, 12]))
    return {
        "L": int(rng.integers(17, 81)),
        "B": int(rng.choice([3, 7, 9])),
        "T": 1000 * int(rng.choice([3, 5, 7, 9, 11])),
        "D": 384 * int(rng.integers(7, 22)),
        "n": n,
        "bits": 16,
    }


def reference(L, B, T, D, n, bits):
    """From the library's own formula."""
    config = Config(n_layers=L, d_model=D, n_heads=n)
    return round(plan.step_bytes(config, n, B, T, bytes_per_value=bits // 8)["tensor"])


def _bytes(L, B, T, D, n, bits, sums=4):
    """`sums` all-reduces of the stream in each block."""
    return sums * L * 2 * (n - 1) * (B * T * D * bits // 8) // n


# ---- wrong answers; each docstring is what its author will read ----


def half(L, B, T, D, n, bits):
    """That is half. A block has two branches, each is summed both on the way forward and on the way back, and a number
    of 16 bits has two bytes."""
    return _bytes(L, B, T, D, n, bits, 2)


def one_sum(L, B, T, D, n, bits):
    """That is one all-reduce a block. There are four: two branches, forward and backward."""
    return _bytes(L, B, T, D, n, bits, 1)


def three_passes(L, B, T, D, n, bits):
    """That is six all-reduces a block, as if the backward had two for each branch. It has one: only the gradient of the
    branch's input is a sum over devices."""
    return _bytes(L, B, T, D, n, bits, 6)


def whole_once(L, B, T, D, n, bits):
    """You let a device send the whole stream once for each sum. The ring sends 2 (n − 1) / n of it."""
    return 4 * L * B * T * D * bits // 8


def whole_twice(L, B, T, D, n, bits):
    """You took 2 for 2 (n − 1) / n. It comes near for many devices, but the count here is exact."""
    return 8 * L * B * T * D * bits // 8


def to_everybody(L, B, T, D, n, bits):
    """You let a device send its whole part to each of the n − 1 others. In the ring it sends slices of 1 / n."""
    return 4 * L * (n - 1) * B * T * D * bits // 8


def wrong_share(L, B, T, D, n, bits):
    """You took 2 / n for 2 (n − 1) / n. A device sends a slice of 1 / n in each of n − 1 steps, twice."""
    return 8 * L * (B * T * D * bits // 8) // n


def all_devices(L, B, T, D, n, bits):
    """That is what all n devices send together; the question is one device's share."""
    return _bytes(L, B, T, D, n, bits) * n


def one_block(L, B, T, D, n, bits):
    """That is one block. Each of the L blocks sums anew."""
    return _bytes(1, B, T, D, n, bits)


def one_sequence(L, B, T, D, n, bits):
    """That is one sequence; B of them are in the step."""
    return _bytes(L, 1, T, D, n, bits)


def one_token(L, B, T, D, n, bits):
    """That is one token of each sequence. All T rows of the stream are summed."""
    return _bytes(L, B, 1, D, n, bits)


def in_bits(L, B, T, D, n, bits):
    """That is in bits; a byte has eight."""
    return _bytes(L, B, T, D, n, bits) * 8


def in_float32(L, B, T, D, n, bits):
    """You took four bytes for a number; here it has 16 bits."""
    return _bytes(L, B, T, D, n, 32)


def weights(L, B, T, D, n, bits):
    """You all-reduced weights, 12 D² a block. Tensor parallel devices have weights of their own; the stream is
    summed."""
    return 2 * (n - 1) * (12 * L * D * D * bits // 8) // n


# ---- right answers, found otherwise ----


def step_by_step(L, B, T, D, n, bits):
    """Adds up the slices that a device sends, one message after another."""
    piece = B * T * D // n * (bits // 8)
    return sum(piece for _block in range(L) for _sum in range(4) for _message in range(2 * (n - 1)))


def in_floats(L, B, T, D, n, bits):
    """The formula, in floats."""
    return 4.0 * L * 2 * (n - 1) / n * (B * T * D * bits / 8)


exercise = Number(
    id="all-reduce-bytes",
    title="What a device sends",
    chapter="16_devices",
    answer="sent_bytes",
    points=2,
    stars=2,
    minutes=10,
    quantities=quantities,
    question=(
        "A model of L blocks of width D is trained tensor parallel on n devices, with B sequences of T tokens in a "
        "step and all-reduces by the ring. A number takes the given bits. How many bytes does each device send in one "
        "step, forward and backward, for the blocks alone?"
    ),
    unit="bytes",
    tolerance=1e-9,  # (n − 1) / n in floats is right, too
    reference=reference,
    mutants=(
        half,
        one_sum,
        three_passes,
        whole_once,
        whole_twice,
        to_everybody,
        wrong_share,
        all_devices,
        one_block,
        one_sequence,
        one_token,
        in_bits,
        in_float32,
        weights,
    ),
    variants=(step_by_step, in_floats),
    hints=(
        "What is summed over the devices? The stream's rows, B · T · D numbers. How many bytes are they?",
        "How often in a block? Each of two branches is summed once forward, and its input's gradient once backward.",
        "One all-reduce by the ring: each device sends 2 (n − 1) / n of the bytes.",
        "4 · L · 2 (n − 1) / n · B · T · D · bits / 8.",
    ),
    takeaway="Four all-reduces of the stream a block: what tensor parallel sends grows with the tokens.",
)
