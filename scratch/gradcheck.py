"""Checks that a reader can trust: numerical gradients, a random upstream, and `fact` for every stated number."""

import numpy as np


class GradientError(AssertionError):
    """A backward's gradient differs from the numerical one; the message says where and by how much."""


class FactError(AssertionError):
    """A number computed differs from the number stated."""


def numerical_gradient(f, x, h=1e-4):
    """Gradient of the scalar function f at x, by fourth-order central differences.

    ``(8 (f(x+s) − f(x−s)) − (f(x+2s) − f(x−2s))) / 12s``, entry by entry, with the step s = h · max|x|.
    The error is of order s⁴. x is a float64 array of any shape; it is changed while f runs, and put back.
    Returns an array of x's shape.
    """
    gradient = np.empty_like(x)
    step = _step(x, h)
    for index in np.ndindex(x.shape):
        centre, value = x[index], {}
        for k in _STENCIL:
            x[index] = centre + k * step
            value[k] = f(x)
        x[index] = centre
        gradient[index] = _slope(value, step)
    return gradient


_STENCIL = (-2, -1, 1, 2)


def _step(x, h=1e-4):
    return h * (np.abs(x).max(initial=0) or 1.0)


def _slope(value, step):
    return (8 * (value[1] - value[-1]) - (value[2] - value[-2])) / (12 * step)


def relative_error(got, expected, floor=0.0):
    """Largest difference of two arrays, relative to the largest entry of either, or to `floor` if that is larger.

    0 when both are all zeros, inf when `got` is not finite.
    """
    got, expected = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if got.shape != expected.shape:
        raise ValueError(f"relative_error: got has shape {got.shape}, expected {expected.shape}")
    if not np.isfinite(got).all():
        return np.inf
    scale = max(np.abs(got).max(initial=0), np.abs(expected).max(initial=0), floor)
    return float(np.abs(got - expected).max(initial=0) / scale) if scale else 0.0


def check_pair(forward, backward, *args, tol=1e-7, seed=0, **options):
    """Hold a backward against numerical gradients, entry by entry, with a random upstream gradient.

    The scalar that is differentiated is ``Σ out ⊙ upstream`` with upstream drawn from a normal distribution. An
    upstream of ones would let a wrong backward pass wherever the outputs of a row have a fixed sum, as in softmax.

    Parameters
    ----------
    forward, backward : a pair; forward(*args, **options) -> (out, cache), backward(dout, cache) -> gradients
    args : the forward's arguments; each float array or tree of float arrays (dict, list) is checked, in float64
    tol : float, the largest relative error allowed
    seed : int, of the upstream

    Returns
    -------
    dict: the relative error of each argument's gradient, by name ("0" for the first argument, "1.attn.wq" in a tree)

    Raises
    ------
    GradientError
        If an error exceeds tol, a gradient is missing, or its shape is wrong.
    """
    args, arrays, upstream, got, size = _run_pair(forward, backward, args, options, seed)
    errors = {}
    for name, array in arrays.items():
        numeric = numerical_gradient(lambda _: np.sum(forward(*args, **options)[0] * upstream), array)
        # A gradient that is truly zero, as a key bias's is without RoPE, comes out as the differences' rounding.
        rounding = 4 * np.finfo(np.float64).eps * size / _step(array)
        errors[name] = relative_error(got[name], numeric, floor=rounding / tol)
        if not errors[name] <= tol:
            at = np.unravel_index(np.argmax(np.abs(got[name] - numeric)), array.shape)
            raise GradientError(
                f"gradient of argument {name} differs from finite differences by {errors[name]:.1e} "
                f"(allowed {tol:.0e}); at {tuple(map(int, at))} the backward says {got[name][at]:.6g}, "
                f"the differences {numeric[at]:.6g}"
            )
    return errors


def directional_error(forward, backward, *args, seed=0, h=1e-5, **options):
    """Hold a backward against the slope along one random direction: ``⟨upstream, J v⟩ = ⟨Jᵀ upstream, v⟩``.

    It takes four forwards whatever the number of parameters, so that it also serves models too large for
    `check_pair`. Arguments as there; h is the step along v. Returns the relative error.
    """
    args, arrays, upstream, got, _ = _run_pair(forward, backward, args, options, seed)
    rng = np.random.default_rng(seed + 1)
    directions = {name: rng.standard_normal(array.shape) for name, array in arrays.items()}
    centres = {name: array.copy() for name, array in arrays.items()}
    value = {}
    for k in _STENCIL:
        for name, array in arrays.items():
            array[...] = centres[name] + k * h * directions[name]
        value[k] = np.sum(forward(*args, **options)[0] * upstream)
    numeric = _slope(value, h)
    analytic = sum(np.sum(got[name] * directions[name]) for name in arrays)
    return relative_error(analytic, numeric)


def _run_pair(forward, backward, args, options, seed):
    """Run a pair once in float64: (arguments, arrays by name, upstream, gradients by name, Σ |out ⊙ upstream|)."""
    args = [_as_float64(value) for value in args]
    arrays = dict(leaves(args))
    out, cache = forward(*args, **options)
    # Seeded apart: x is often the first draw of default_rng(0), and an upstream equal to x hides faults.
    upstream = np.random.default_rng([seed, 0x5EED]).standard_normal(np.shape(out))
    got = backward(upstream, cache)
    got = got if isinstance(got, tuple) else (got,)
    differentiable = [i for i, value in enumerate(args) if any(True for _ in leaves(value))]
    if len(got) != len(differentiable):
        raise GradientError(f"the backward returned {len(got)} gradients, expected {len(differentiable)}")
    got = dict(leaves({str(i): gradient for i, gradient in zip(differentiable, got, strict=True)}))
    for name, array in arrays.items():
        if name not in got:
            raise GradientError(f"the backward returned no gradient for argument {name}")
        if got[name].shape != array.shape:
            raise GradientError(f"gradient of argument {name} has shape {got[name].shape}, expected {array.shape}")
    return args, arrays, upstream, got, np.sum(np.abs(out * upstream))


def leaves(tree, name=""):
    """Yield (dotted name, array) for each float array in a tree of dicts and lists, in sorted order of the keys."""
    if isinstance(tree, dict):
        items = sorted(tree.items())
    elif isinstance(tree, list | tuple):
        items = enumerate(tree)
    else:
        if isinstance(tree, np.ndarray) and tree.dtype.kind == "f":
            yield name, tree
        return
    for key, value in items:
        yield from leaves(value, f"{name}.{key}" if name else str(key))


def fact(id, computed, expected, tol=0.0):
    """State a number and prove it: raise FactError when `computed` is further than `tol` from `expected`.

    Parameters
    ----------
    id : str, the fact's id in the course's ledger, "F11"
    computed : number, array, string or tuple, from the code above
    expected : what the text says; numbers and arrays are compared entry by entry, absolutely
    tol : float, or one for each entry, the largest difference allowed; 0 asks for equality

    Returns
    -------
    computed, unchanged, so that a cell can go on with it
    """
    if isinstance(expected, list | tuple | str) and not isinstance(computed, np.ndarray) and not tol:
        same = computed == expected  # may be ragged, or hold strings
    elif np.shape(computed) != np.shape(expected):
        raise FactError(f"{id}: computed has shape {np.shape(computed)}, the text says {np.shape(expected)}")
    elif tol:
        same = np.abs(np.subtract(computed, expected, dtype=np.float64)) <= tol
    else:
        same = np.asarray(computed) == np.asarray(expected)
    if not np.all(same):
        said = f"the text says {_short(expected)} (tolerance {_short(tol)})"
        raise FactError(f"{id}: computed {_short(computed)}, {said}")
    return computed


def _short(value):
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=6, threshold=20)
    said = repr(value)
    return said if len(said) < 200 else f"{said[:200]}…"


def _as_float64(value):
    if isinstance(value, dict):
        return {key: _as_float64(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_float64(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array(value, dtype=np.float64)
    return value
