"""Argument checks: one clear ValueError that says what was given and what was expected."""

import numpy as np


def array(where, name, value, ndim=None):
    """Require a floating NumPy array, with `ndim` axes if given."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        got = f"dtype {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{where}: {name} must be a NumPy array of floats, got {got}")
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"{where}: {name} must have {ndim} axes, got shape {value.shape}")
    if value.ndim == 0:
        raise ValueError(f"{where}: {name} must have at least one axis, got a scalar")


def shape(where, name, value, expected, meaning=""):
    """Require a floating array of exactly the shape `expected`; `meaning` names the axes."""
    array(where, name, value)
    if value.shape != tuple(expected):
        said = f" = {meaning}" if meaning else ""
        raise ValueError(f"{where}: {name} has shape {value.shape}, expected {tuple(expected)}{said}")


def ids(where, name, value, size, ignore=None):
    """Require integers in [0, size), or equal to `ignore`; one pass over the array."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        got = f"dtype {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{where}: {name} must be a NumPy array of integers, got {got}")
    wrong = (value < 0) | (value >= size)
    if ignore is not None:
        wrong &= value != ignore
    if wrong.any():
        bad = value[wrong].flat[0]
        also = "" if ignore is None else f" or {ignore}"
        raise ValueError(f"{where}: {name} contains {bad}, expected 0 … {size - 1}{also}")


def mask(where, name, value, expected, meaning):
    """Require a bool array of exactly the shape `expected`, or None."""
    if value is None:
        return
    if not isinstance(value, np.ndarray) or value.dtype.kind != "b" or value.shape != tuple(expected):
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{where}: {name} must be a bool array of shape {tuple(expected)} = {meaning}, got {got}")


def choice(where, name, value, allowed):
    """Require one of the strings in `allowed`."""
    if value not in allowed:
        raise ValueError(f"{where}: {name}={value!r}, expected one of {', '.join(map(repr, allowed))}")
