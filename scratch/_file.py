"""What the readers of model files share: bounded reads, JSON without surprises, floats of four widths, whole files."""

import contextlib
import json
import os
import reprlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scratch.bf16 import round_bf16

MAX_JSON = 100_000_000  # bytes; the longest header that the safetensors format allows

FLOATS = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
"""Names of the float formats with the type of what is stored; BF16 is the upper half of a float32."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 70


def quote(value):
    """What a file held, as a message shows it: a file may hold a name of a million characters."""
    return _short.repr(value)


class Stored(NamedTuple):
    """One tensor of a file, described but not yet read.

    shape : tuple of int; size in values is its product
    raw : uint8 view of the file's bytes
    read : function(dtype) -> a new array of `shape`
    """

    shape: tuple
    raw: np.ndarray
    read: Any


class Source(NamedTuple):
    """An open file that refuses to read beyond its end."""

    path: Path
    file: Any
    size: int

    def take(self, n, what):
        """The next n bytes; ValueError where fewer are left, before anything is allocated."""
        left = self.size - self.file.tell()
        if n > left:
            raise ValueError(
                f"{self.path}: {what} needs {n} bytes, but only {left} are left: truncated, or not its type"
            )
        return self.file.read(n)

    def bytes_from(self, start):
        """Everything from byte `start` on, memory-mapped: uint8, read-only."""
        if start >= self.size:
            return np.empty(0, np.uint8)
        return np.memmap(self.file, np.uint8, mode="r", offset=start, shape=(self.size - start,))


@contextlib.contextmanager
def open_source(path):
    """`Source` of a regular file; FileNotFoundError where there is none."""
    with Path(path).open("rb") as file:
        yield Source(Path(path), file, os.fstat(file.fileno()).st_size)


def parse_json(where, data):
    """The object in bytes of UTF-8 JSON. ValueError for anything else, doubled keys and NaN included."""

    def unique(pairs):
        found = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"the key {quote(name)} stands twice")
            found[name] = value
        return found

    def no_constant(name):
        raise ValueError(f"{name} is not a JSON number")

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: expected JSON in UTF-8, but byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError(f"{where}: expected JSON, but it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{where}: expected JSON, but {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a JSON object, got {quote(value)}")
    return value


def read_json(path):
    """`parse_json` of a whole file."""
    with open_source(path) as source:
        if source.size > MAX_JSON:
            raise ValueError(f"{path}: has {source.size} bytes, expected JSON of at most {MAX_JSON}")
        return parse_json(path, source.file.read())


def check_spans(where, spans, end, holes):
    """Require tensors' byte ranges {name: (begin, end)} not to overlap and to stay within `end` bytes.

    Where `holes` is False they must also follow each other without a gap and fill all of it.
    """
    at, before = 0, "the start"
    for name, (begin, stop) in sorted(spans.items(), key=lambda item: item[1]):
        if not begin <= stop <= end:
            raise ValueError(f"{where}: {quote(name)} is at bytes {begin} to {stop}, but the data has {end} bytes")
        if begin < at:
            raise ValueError(f"{where}: {quote(name)} at bytes {begin} to {stop} overlaps {before}, which ends at {at}")
        if begin > at and not holes:
            raise ValueError(f"{where}: bytes {at} to {begin}, before {quote(name)}, belong to no tensor")
        at, before = stop, quote(name)
    if at < end and not holes:
        raise ValueError(f"{where}: the last {end - at} bytes of the data belong to no tensor")


def decode(raw, kind, shape, dtype):
    """A new array of `dtype` from stored bytes `raw` (uint8) of a format of FLOATS.

    Raises ValueError where a finite value is too large for `dtype`.
    """
    stored = np.asarray(raw).view(FLOATS[kind]).reshape(shape)
    if kind == "BF16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return narrow(stored, dtype)


def encode(array, kind):
    """What to store for a float array in a format of FLOATS; rounded to nearest, ties to even.

    Raises ValueError where a finite value is too large for the format.
    """
    if kind != "BF16":
        return narrow(np.ascontiguousarray(array), FLOATS[kind])
    rounded = round_bf16(narrow(np.ascontiguousarray(array), np.float32))
    _no_overflow(array, rounded, kind)
    return (rounded.view(np.uint32) >> 16).astype(FLOATS[kind])


def narrow(array, dtype):
    """A new array of another float dtype; ValueError where a finite value becomes infinite."""
    with np.errstate(over="ignore"):  # said below, with the value
        out = array.astype(dtype)
    if out.dtype.itemsize < array.dtype.itemsize:
        _no_overflow(array, out, out.dtype)
    return out


def _no_overflow(array, rounded, kind):
    lost = np.isinf(rounded) & np.isfinite(array)
    if lost.any():
        raise ValueError(f"{array[lost].flat[0]:g} is too large for {kind}")


def write_whole(path, write):
    """Call write(file), then put the file in place in one step: a reader sees the old file or the new, never half."""
    path = Path(path)
    half = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with half.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)
