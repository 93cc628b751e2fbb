"""bfloat16 on float32 arrays: rounding as hardware rounds, and matrix products with a good and a bad accumulator."""

import numpy as np

from scratch import _check

ACCUMULATORS = ("float32", "bf16")


def round_bf16(x):
    """Round each entry to the nearest bfloat16, the upper half of a float32: 8 bits of exponent, 7 of fraction.

    A tie goes to the neighbour whose last bit is 0. Subnormal numbers are rounded like all others. What lies half a
    step or more beyond the largest bfloat16, 3.39e38, becomes infinite; NaN stays NaN, with its sign.

    Parameters
    ----------
    x : float32 array [...]

    Returns
    -------
    A new float32 array of x's shape; the lower 16 bits of each entry are 0.

    Raises
    ------
    ValueError
        If x is no float32 array.

    Source: IEEE 754-2019, section 4.3.1 (roundTiesToEven). Book: eq-bf16.
    """
    _check_float32("round_bf16", "x", x)
    bits = x.view(np.uint32)
    # Adding just under half a step, and the last bit that is kept, rounds ties to even. A carry out of the fraction
    # goes into the exponent, which is the next power of two, or infinity.
    rounded = ((bits + (np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1)))) >> 16) << 16
    quiet = (bits & np.uint32(0x80000000)) | np.uint32(0x7FC00000)  # a NaN's own payload could be carried to infinity
    return np.where(np.isnan(x), quiet, rounded).view(np.float32)


def matmul_bf16(a, b, accumulate="float32", block=1):
    """``a @ b`` of factors rounded to bfloat16, with the sums kept in float32 or in bfloat16.

    The product of two bfloat16 numbers has 16 bits and is exact in float32; only the sums differ. Matrix units keep
    them in float32. A bfloat16 accumulator has 8 bits: 256 + 1 is 256 again, so a long sum stops growing.

    Parameters
    ----------
    a : float32 array [..., M, N]
    b : float32 array [..., N, P]
    accumulate : "float32", or "bf16" to round the running sum
    block : int, for "bf16" alone: products that are added in float32 before the running sum is rounded; 1 rounds after
        every addition, 16 is what a matrix unit does that hands its sums on in bfloat16

    Returns
    -------
    float32 array [..., M, P]; with "float32" its entries are not rounded to bfloat16, with "bf16" they are

    Raises
    ------
    ValueError
        If an argument is no float32 array, the shapes do not fit, or an option is none of the above.

    Source: Micikevicius et al. 2018, section 3.3 (on float16). Book: eq-bf16-product.
    """
    _check_product(a, b, accumulate, block)
    a, b = round_bf16(a), round_bf16(b)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or NaN without a word, as hardware does it
        if accumulate == "float32":
            return a @ b
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        total = np.zeros((*batch, a.shape[-2], b.shape[-1]), np.float32)  # [..., M, P]
        for at in range(0, a.shape[-1], block):
            total = round_bf16(total + a[..., at : at + block] @ b[..., at : at + block, :])
    return total


def _check_float32(where, name, value):
    _check.array(where, name, value)
    if value.dtype != np.float32:
        raise ValueError(f"{where}: {name} has dtype {value.dtype}, expected float32")


def _check_product(a, b, accumulate, block):
    where = "matmul_bf16"
    for name, value in (("a", a), ("b", b)):
        _check_float32(where, name, value)
        if value.ndim < 2:
            raise ValueError(f"{where}: {name} has shape {value.shape}, expected at least two axes")
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"{where}: a has {a.shape[-1]} columns, but b has {b.shape[-2]} rows")
    _check.choice(where, "accumulate", accumulate, ACCUMULATORS)
    if not isinstance(block, int | np.integer) or isinstance(block, bool) or block < 1:
        raise ValueError(f"{where}: block={block!r}, expected a positive integer")
