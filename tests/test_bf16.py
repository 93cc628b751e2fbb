"""Rounding to bfloat16 over every value and every midpoint, and what a bfloat16 accumulator does to a sum (F84)."""

import numpy as np
import pytest

from scratch import _file, bf16

HALVES = np.arange(2**16, dtype=np.uint32)  # every bfloat16, as the upper half of a float32
# The lower half: nothing, the smallest step, just below the midpoint, the midpoint, just above it, all ones.
BELOW = [0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
rng = np.random.default_rng(13)


def bits(x):
    return x.view(np.uint32)


def floats(upper, lower):
    return ((upper << 16) | np.uint32(lower)).view(np.float32)


@pytest.mark.parametrize("lower", BELOW, ids=hex)
def test_every_value_and_what_stands_around_every_midpoint(lower):
    """By whole numbers alone: up where the rest is more than half, and at half where the half kept is odd."""
    x = floats(HALVES, lower)
    up = (lower > 0x8000) | ((lower == 0x8000) & (HALVES % 2 == 1))
    expected = np.where(np.isnan(x), HALVES & 0x8000 | 0x7FC0, HALVES + up).astype(np.uint32) << 16
    assert np.array_equal(bits(bf16.round_bf16(x)), expected)
    assert not np.isnan(floats(HALVES + up, 0))[np.isfinite(x)].any()  # one step beyond the largest is infinity


def test_the_same_by_arithmetic():
    """A multiple of a step that is 2⁻⁸ of the next power of two, and never less than 2⁻¹³³; beyond 2¹²⁸ infinite."""
    x = np.concatenate([floats(HALVES, lower) for lower in BELOW] + [rng.integers(0, 2**32, 10**5).astype(np.uint32)
                       .view(np.float32)])  # fmt: skip
    x = x[np.isfinite(x)]
    exact = x.astype(np.float64)
    step = np.exp2(np.maximum(np.frexp(exact)[1] - 8, -133))
    expected = np.rint(exact / step) * step
    expected[np.abs(expected) >= 2.0**128] *= np.inf
    assert np.array_equal(bf16.round_bf16(x), expected)
    assert np.array_equal(np.signbit(bf16.round_bf16(x)), np.signbit(x))  # of zero, too


def test_known_values():
    given = np.array(
        [1 + 2**-8, 1 + 3 * 2**-8, 257, np.pi, 3.39e38, 3.4e38, -3.4e38, np.inf, 2.0**-149, -0.0, 2.0**-133]
    )
    right = np.array([1, 1 + 2**-6, 256, 3.140625, 255 * 2.0**120, np.inf, -np.inf, np.inf, 0, -0.0, 2.0**-133])
    x = given.astype(np.float32)
    assert np.array_equal(bf16.round_bf16(x), right.astype(np.float32))
    assert np.isnan(bf16.round_bf16(np.array([np.nan, -np.nan], np.float32))).all()
    assert np.array_equal(x, given.astype(np.float32))


def test_rounding_is_idempotent_and_keeps_the_order():
    x = np.sort(rng.standard_normal((3, 400)).astype(np.float32), axis=-1)
    once = bf16.round_bf16(x)
    assert np.array_equal(bf16.round_bf16(once), once) and (np.diff(once) >= 0).all()
    assert once.dtype == np.float32 and once.shape == x.shape and not np.may_share_memory(once, x)
    assert np.array_equal(bf16.round_bf16(x[:, ::-3]), once[:, ::-3])
    assert bf16.round_bf16(np.empty((0, 3), np.float32)).shape == (0, 3)


def test_files_are_written_with_the_same_rounding():
    x = np.concatenate([floats(HALVES, lower) for lower in BELOW])
    x = x[np.isfinite(x) & (np.abs(x) < 3.38e38)]
    assert np.array_equal(_file.encode(x, "BF16").astype(np.uint32) << 16, bits(bf16.round_bf16(x)))


# ── products ──


SHAPES = [
    ((3, 7), (7, 5)),
    ((2, 3, 7), (7, 5)),
    ((2, 1, 3, 7), (4, 7, 5)),
    ((7,) * 3, (7, 2)),
    ((2, 1, 3, 0), (4, 0, 5)),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_float32_sums_of_rounded_factors(shapes):
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    before = a.copy(), b.copy()
    exact = bf16.round_bf16(a).astype(np.float64) @ bf16.round_bf16(b).astype(np.float64)
    for out in (bf16.matmul_bf16(a, b), bf16.matmul_bf16(a, b, "bf16"), bf16.matmul_bf16(a, b, "bf16", 100)):
        assert out.dtype == np.float32 and out.shape == exact.shape
        assert np.allclose(out, exact, rtol=0, atol=2**-3)
    assert np.allclose(bf16.matmul_bf16(a, b), exact, rtol=1e-5, atol=1e-5)
    # One block holds the whole sum, which is then rounded once.
    assert np.array_equal(bf16.matmul_bf16(a, b, "bf16", 100), bf16.round_bf16(bf16.matmul_bf16(a, b)))
    assert np.array_equal(a, before[0]) and np.array_equal(b, before[1])


@pytest.mark.parametrize("block", [1, 3, 4])
def test_bf16_sums_are_those_of_a_loop(block):
    a, b = rng.standard_normal((3, 10)).astype(np.float32), rng.standard_normal((10, 2)).astype(np.float32)
    out = bf16.matmul_bf16(a, b, "bf16", block)
    ra, rb = bf16.round_bf16(a), bf16.round_bf16(b)
    for i, j in np.ndindex(out.shape):
        total = np.zeros(1, np.float32)
        for at in range(0, 10, block):
            total = bf16.round_bf16(total + ra[i, at : at + block] @ rb[at : at + block, j])
        assert out[i, j] == pytest.approx(total[0], rel=0 if block == 1 else 2**-7)


@pytest.mark.parametrize(
    ("n", "block", "expected"), [(4096, 1, 256), (256, 1, 256), (16384, 16, 4096), (4096, 16, 4096)]
)
def test_a_bf16_sum_of_ones_stops(n, block, expected):
    """F84: 256 + 1 lies midway between 256 and 258, and goes to the even one. In float32 the sum is right."""
    ones = np.ones((1, n), np.float32)
    assert bf16.matmul_bf16(ones, ones.T, "bf16", block) == expected
    assert bf16.matmul_bf16(ones, ones.T, "bf16") == 256  # after every addition, where nothing is said
    assert bf16.matmul_bf16(ones, ones.T) == n


def test_the_error_of_the_accumulator_grows_with_the_length_and_that_of_float32_does_not():
    """F84, with random signs: the factors' rounding is in neither, so what is left is the accumulator's."""
    worst = {"float32": [], "bf16": []}
    for n in (64, 1024, 16384):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, n), (n, 16)))
        exact = bf16.round_bf16(a).astype(np.float64) @ bf16.round_bf16(b).astype(np.float64)
        for accumulate, errors in worst.items():
            out = bf16.matmul_bf16(a, b, accumulate)
            errors.append(np.sqrt(np.mean((out - exact) ** 2) / np.mean(exact**2)))
    assert max(worst["float32"]) < 2e-6
    assert worst["bf16"][0] > 2**-9 and worst["bf16"][0] < worst["bf16"][1] < worst["bf16"][2]
    assert worst["bf16"][2] > 1e4 * worst["float32"][2]


def test_overflow_is_infinite_without_a_warning():
    big = np.full((2, 2), 3.4e38, np.float32)
    assert np.isinf(bf16.matmul_bf16(big, big)).all() and np.isinf(bf16.matmul_bf16(big, big, "bf16")).all()
    large = np.full((2, 2), 3e38, np.float32)  # finite when rounded; their sum is not
    assert np.isinf(bf16.matmul_bf16(large, np.ones_like(large), "bf16")).all()
    assert np.isnan(bf16.matmul_bf16(big, np.array([[1], [-1]], np.float32), "bf16")).all()


ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bf16.round_bf16(np.ones(3)), "round_bf16: x has dtype float64, expected float32"),
        (lambda: bf16.round_bf16([1.0]), "round_bf16: x must be a NumPy array of floats, got list"),
        (lambda: bf16.round_bf16(np.arange(3)), "round_bf16: x must be a NumPy array of floats, got dtype int64"),
        (lambda: bf16.matmul_bf16(ONES, np.ones((3, 2))), "matmul_bf16: b has dtype float64, expected float32"),
        (lambda: bf16.matmul_bf16(ONES[0], ONES), r"matmul_bf16: a has shape \(3,\), expected at least two axes"),
        (lambda: bf16.matmul_bf16(ONES, ONES), "matmul_bf16: a has 3 columns, but b has 2 rows"),
        (lambda: bf16.matmul_bf16(ONES, ONES.T, "float16"), "matmul_bf16: accumulate='float16', expected one of"),
        (lambda: bf16.matmul_bf16(ONES, ONES.T, "bf16", 0), "matmul_bf16: block=0, expected a positive integer"),
        (lambda: bf16.matmul_bf16(ONES, ONES.T, "bf16", 1.0), "matmul_bf16: block=1.0, expected a positive integer"),
    ],
)
def test_wrong_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()
