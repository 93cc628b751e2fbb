"""Exercise round-bf16: the 16 bits of the bfloat16 that is nearest to a float32, ties to even."""

import numpy as np

from exercises.spec import Code
from scratch import bf16


def reference(bits):
    """bits uint32 [N], those of float32 numbers, none of them NaN. Returns the 16 bits of each bfloat16, int64 [N]."""
    return _halves(bf16.round_bf16(bits.view(np.float32)).view(np.uint32))


def cases(rng):
    """Ascending: three to do by hand; ties of both kinds and signs; all bits random; a carry into the exponent, the
    step to infinity, zeros, subnormals."""

    def numbers(*values):
        return np.array(values, dtype=np.float32).view(np.uint32)

    whole = np.float32(2.0 ** rng.integers(-3, 4))
    step = whole * np.float32(2.0**-7)
    odd = 1 + 2 * rng.integers(0, 60)
    # below the middle, above it, and a tie whose upper neighbour is even
    yield (numbers(whole + 0.25 * step, whole + (odd + 0.75) * step, whole + (odd + 0.5) * step),)
    upper = 2 * rng.integers(0x1800, 0x2800, 4) + [0, 1, 0x8000, 0x8001]  # even and odd, of both signs
    yield ((upper << 16 | 0x8000).astype(np.uint32),)
    yield (rng.standard_normal(6).astype(np.float32).view(np.uint32),)
    edge = numbers(1.999, -1.9999, 3.3999e38, -3.3999e38, 0.0, -0.0, np.inf, -np.inf)
    yield (rng.permutation(edge),)
    tiny = rng.integers(1 << 16, 1 << 23, 9).astype(np.uint32)  # subnormal: exponent 0
    tiny[1::2] |= np.uint32(0x80000000)
    yield (tiny,)
    bits = rng.integers(0, 1 << 32, 40).astype(np.uint32)
    yield (bits[~np.isnan(bits.view(np.float32))][:30],)
    yield ((rng.standard_normal(100) * 10.0 ** rng.integers(-3, 4, 100)).astype(np.float32).view(np.uint32),)


SIGN = 0x8000


def _halves(bits):
    """The upper 16 bits, as numbers that have room for a carry."""
    return (bits >> np.uint32(16)).astype(np.int64)


def _left(bits):
    return (bits & np.uint32(0xFFFF)).astype(np.int64)


def _up(bits, tie):
    """Up by one where more than half is left, or half and `tie`."""
    left = _left(bits)
    return _halves(bits) + ((left > 0x8000) | ((left == 0x8000) & tie))


def _right(bits):
    return _up(bits, _halves(bits) % 2 == 1)


# ---- wrong answers; each docstring is what its author will read ----


def cut_off(bits):
    """You cut the lower half off. That always goes towards zero; the nearest number may lie on the other side."""
    return _halves(bits)


def ties_away(bits):
    """Your ties go away from zero. A number that lies in the middle goes to the neighbour whose last bit is 0."""
    return _up(bits, True)


def ties_towards_zero(bits):
    """Your ties go towards zero. A number that lies in the middle goes to the neighbour whose last bit is 0."""
    return _up(bits, False)


def ties_to_odd(bits):
    """Your ties go to the neighbour whose last bit is 1; it should be 0."""
    return _up(bits, _halves(bits) % 2 == 0)


def ties_upwards(bits):
    """Your ties go to the larger number: up for positive ones, towards zero for negative ones. The sign must not
    matter."""
    return _up(bits, _halves(bits) < SIGN)


def always_away(bits):
    """Whatever is left over sends you away from zero. Only more than half a step may."""
    return _halves(bits) + (_left(bits) > 0)


def lower_half(bits):
    """You returned the lower 16 bits. The sign, the exponent and the first of the fraction are the upper 16."""
    return _left(bits)


def not_moved(bits):
    """You rounded and left the result in the upper half of 32 bits. Move it down by 16."""
    return _right(bits) << 16


def one_bit_more(bits):
    """You kept one bit too many: bfloat16 has 7 bits of fraction, so 16 of the 32 go."""
    wide = bits.astype(np.int64)
    return (wide + 0x3FFF + (wide >> 15) % 2) >> 15


def one_bit_less(bits):
    """The last bit of your fraction is always 0: you kept 6 bits, and bfloat16 has 7."""
    wide = bits.astype(np.int64)
    return (wide + 0xFFFF + (wide >> 17) % 2) >> 17 << 1


def no_carry(bits):
    """A fraction of all ones rounds up to the next power of two: the carry has to reach the exponent."""
    return (_halves(bits) & 0xFF80) | (_right(bits) & 0x7F)


def stuck_at_one(bits):
    """A fraction of all ones does not rise in your answer. It rounds up to the next power of two."""
    upper = _halves(bits)
    return np.where(upper & 0x7F == 0x7F, upper, _right(bits))


def saturated(bits):
    """Beyond the largest bfloat16 you stay at the largest. Half a step beyond it, rounding gives infinity."""
    upper, rounded = _halves(bits), _right(bits)
    return np.where((rounded & 0x7FFF == 0x7F80) & (upper & 0x7FFF != 0x7F80), upper, rounded)


def flushed(bits):
    """Your smallest numbers, those with exponent 0, become zero. They are rounded like all others."""
    upper = _halves(bits)
    return np.where(upper & 0x7F80 == 0, upper & SIGN, _right(bits))


def sign_lost(bits):
    """The topmost bit is the sign; you cleared it."""
    return _right(bits) & 0x7FFF


def float16(bits):
    """That is float16: 5 bits of exponent and 10 of fraction. bfloat16 keeps all 8 of the exponent."""
    with np.errstate(over="ignore"):
        return bits.view(np.float32).astype(np.float16).view(np.uint16).astype(np.int64)


def values(bits):
    """You returned the rounded numbers. Asked for are their bits."""
    return (_right(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def in_place(bits):
    """`bits += …` writes into the caller's array; `bits + …` makes a new one."""
    rounded = _right(bits)
    bits += np.uint32(0x7FFF)
    return rounded


# ---- right answers, written otherwise ----


def loops(bits):
    """Plain Python integers, one by one."""
    rounded = []
    for value in bits.tolist():
        upper, lower = divmod(value, 1 << 16)
        rounded.append(upper + (lower > 0x8000 or (lower == 0x8000 and upper % 2 == 1)))
    return np.array(rounded)


def one_addition(bits):
    """Just under half a step and the last bit that stays are added, then the lower half is cut off; in uint32."""
    last = (bits >> np.uint32(16)) & np.uint32(1)
    return (bits + np.uint32(0x7FFF) + last) >> np.uint32(16)


def by_arithmetic(bits):
    """A whole number of steps, where a step is 2⁻⁸ of the next power of two; np.rint takes ties to even."""
    x = bits.view(np.float32).astype(np.float64)
    finite = np.where(np.isfinite(x), x, 0)
    step = np.exp2(np.maximum(np.frexp(finite)[1] - 8, -133))
    y = np.copysign(np.rint(finite / step) * step, x)
    y = np.where(np.abs(y) >= 2.0**128, np.copysign(np.inf, x), y)
    return _halves(np.where(np.isfinite(x), y, x).astype(np.float32).view(np.uint32)).astype(np.uint16)


def away_and_back(bits):
    """Ties go away from zero, and where that was a tie, the last bit is cleared."""
    rounded = (bits.astype(np.int64) + 0x8000) >> 16
    return np.where(_left(bits) == 0x8000, rounded & ~1, rounded)


exercise = Code(
    id="round-bf16",
    title="Sixteen bits less",
    chapter="14_efficient",
    answer="upper_half",
    points=2,
    stars=2,
    minutes=20,
    args=("bits",),
    returns=("rounded",),
    cases=cases,
    reference=reference,
    mutants=(
        cut_off,
        ties_away,
        ties_towards_zero,
        ties_to_odd,
        ties_upwards,
        always_away,
        lower_half,
        not_moved,
        one_bit_more,
        one_bit_less,
        no_carry,
        stuck_at_one,
        saturated,
        flushed,
        sign_lost,
        float16,
        values,
        in_place,
    ),
    variants=(loops, one_addition, by_arithmetic, away_and_back),
    hints=(
        "A bfloat16 is the upper half of a float32. The lower half decides: is it less than half of what it can be?",
        "The middle is 0x8000. Below it the upper half stays, above it goes one up.\n"
        "A carry may run into the exponent; that is right.",
        "At the middle exactly, look at the last bit that stays, `(bits >> 16) & 1`. Where it is 1, go one up.",
        "`left = bits & 0xFFFF` and `upper = bits >> 16`. Go up where left is more than 0x8000,\n"
        "or is 0x8000 and upper is odd.",
    ),
    library=("scratch.bf16.round_bf16", "scratch.bf16.matmul_bf16"),
    takeaway="Rounding is an addition on the bits: just under half a step plus the last bit that stays, then cut off.",
)
