"""Frames and values between the grader and its boxes: JSON and raw arrays, never pickle; every size is checked.

A frame is its length (4 bytes), then the length of a JSON header (4 bytes), the header, and the arrays' bytes. What a
box sends is read as if an enemy had written it: `Line.receive` takes no frame above its limit, `decode` builds arrays
only of plain numbers, and only where the bytes are there.
"""

import json
import math
import struct
import time

import numpy as np

LIMIT = 1 << 26  # bytes of a frame: fifty times what the largest right answer takes
HEADER = 1 << 21  # bytes of its JSON, which takes twenty times as much memory when it is read
_DEPTH = 20  # levels of tuples, lists and dicts
_ITEMS = 10_000  # values in a frame
_TEXT = 100_000  # characters of a string
_DIGITS = 1 << 14  # bits of a whole number
_NUMBERS = "biufc"  # kinds of dtype that cross


class WireError(Exception):
    """What came is no frame, or holds what does not cross."""


class Late(Exception):
    """Nothing came before the deadline."""


class Foreign:
    """Stands for a value that does not cross; its class has the name of the value's."""


def foreign(name):
    """A value of a class of this name."""
    clean = "".join(c for c in name[:60] if c.isalnum() or c in "_ .") or "object"
    return type(clean, (Foreign,), {})()


# ---- values ----


def encode(value, functions=None, blobs=None):
    """(tree, blobs): a value as JSON, and the bytes of the arrays in it. What does not cross becomes its type's name.

    With a list of `functions`, one that is met is put into it, and crosses as its place there. With a list of `blobs`,
    which others have begun, this value's go on it.
    """
    blobs = [] if blobs is None else blobs
    state = {"items": 0, "bytes": sum(map(len, blobs)), "blobs": blobs, "functions": functions}
    return _encode(value, 0, state), blobs


def _encode(value, depth, state):
    state["items"] += 1
    if depth > _DEPTH or state["items"] > _ITEMS:
        return ["other", "value of too many parts"]
    kind = type(value)
    if value is None or kind is bool:
        return value
    if value is Ellipsis or value is NotImplemented:
        return ["single", "..." if value is Ellipsis else "NotImplemented"]
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(value, state)
    if issubclass(kind, int):  # a subclass crosses as what it is a subclass of, by the base's own methods
        return (
            ["int", hex(int.__index__(value))] if int.bit_length(value) <= _DIGITS else ["other", "int of many digits"]
        )
    if issubclass(kind, float):
        return ["float", float.hex(value)]
    if issubclass(kind, complex):
        return ["complex", float.hex(value.real), float.hex(value.imag)]
    if issubclass(kind, str):
        plain = str.__str__(value)
        return ["str", plain] if len(plain) <= _TEXT else ["other", "str of too many characters"]
    if issubclass(kind, tuple):
        return ["tuple", [_encode(item, depth + 1, state) for item in tuple.__iter__(value)]]
    if issubclass(kind, list):
        return ["list", [_encode(item, depth + 1, state) for item in list.__iter__(value)]]
    if issubclass(kind, dict):
        pairs = dict.items(value)
        return ["dict", [[_encode(k, depth + 1, state), _encode(v, depth + 1, state)] for k, v in pairs]]
    if state["functions"] is not None and callable(value):
        state["functions"].append(value)
        return ["function", len(state["functions"]) - 1]
    return ["other", kind.__name__]


def _encode_array(value, state):
    dtype = value.dtype
    if dtype.kind not in _NUMBERS:
        return ["other", f"array of {dtype.name[:20]}"]
    if state["bytes"] + value.nbytes > LIMIT // 2:
        return ["other", f"array of {value.size} numbers"]
    blob = np.asarray(value).tobytes()
    tree = ["scalar" if isinstance(value, np.generic) else "array", dtype.str, list(value.shape), state["bytes"]]
    state["bytes"] += len(blob)
    state["blobs"].append(blob)
    return tree


def decode(tree, blob=b"", function=None):
    """The value that `encode` made this of; WireError if it made it of none. `function` makes one of its place."""
    try:
        return _decode(tree, blob, 0, [0], function)
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"not a value: {type(error).__name__}") from None


def _decode(tree, blob, depth, count, function):
    count[0] += 1
    if depth > _DEPTH + 1 or count[0] > _ITEMS + 1:
        raise WireError("a value of too many parts")
    if tree is None or isinstance(tree, bool):
        return tree
    kind, *rest = tree
    if kind in ("tuple", "list"):
        items = [_decode(item, blob, depth + 1, count, function) for item in rest[0]]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        pairs = [[_decode(item, blob, depth + 1, count, function) for item in pair] for pair in rest[0]]
        return {k: v for k, v in pairs if isinstance(k, str | int | float | bool | None)}
    if kind in ("array", "scalar"):
        return _decode_array(kind, *rest, blob)
    make = {
        "single": lambda name: {"...": Ellipsis, "NotImplemented": NotImplemented}[name],
        "int": lambda text: int(_text(text), 16),
        "float": lambda text: float.fromhex(_text(text)),
        "complex": lambda a, b: complex(float.fromhex(_text(a)), float.fromhex(_text(b))),
        "str": _text,
        "other": lambda name: foreign(_text(name)),
        "function": lambda place: function(place),
    }
    return make[kind](*rest)


def _text(value):
    if not isinstance(value, str) or len(value) > _TEXT:
        raise WireError("not a text of bearable length")
    return value


def _decode_array(kind, dtype, shape, start, blob):
    dtype = np.dtype(_text(dtype)[:20])
    if dtype.kind not in _NUMBERS or dtype.fields or dtype.subdtype:
        raise WireError("not an array of numbers")
    if not all(type(n) is int and n >= 0 for n in [*shape, start]) or len(shape) > 32:
        raise WireError("not a shape")
    size = math.prod(shape)  # of Python's integers, which do not overflow
    if start + size * dtype.itemsize > len(blob):
        raise WireError("an array without its bytes")
    if not size:
        return np.empty(shape, dtype)
    if dtype.kind == "b":  # any other byte than 0 and 1 would be a truth value of its own kind
        array = (np.frombuffer(blob, np.uint8, size, start) != 0).reshape(shape)
    else:
        array = np.frombuffer(blob, dtype, size, start).reshape(shape).copy()
    return array[()] if kind == "scalar" else array


# ---- frames ----


def frame(header, blobs=()):
    """The bytes of a frame."""
    text = json.dumps(header).encode()
    body = b"".join([struct.pack("<I", len(text)), text, *blobs])
    return struct.pack("<I", len(body)) + body


class Line:
    """One end of a connection; what came of a frame before a deadline is kept for the next try."""

    def __init__(self, connection):
        self.connection = connection
        self._buffer = bytearray()

    def send(self, header, blobs=(), seconds=None):
        """Send one frame; Late if it was not taken in time, EOFError if there is nobody."""
        self.connection.settimeout(seconds)
        try:
            self.connection.sendall(frame(header, blobs))
        except TimeoutError:
            raise Late from None
        except OSError:
            raise EOFError from None

    def receive(self, seconds=None, limit=LIMIT, header=HEADER):
        """(header, blob) of the next frame; Late, EOFError, or WireError if it is too long or no JSON."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self._fill(4, deadline)
        size = struct.unpack_from("<I", self._buffer)[0]
        if not 4 <= size <= limit:
            raise WireError(f"a frame of {size} bytes")
        self._fill(4 + size, deadline)
        body, self._buffer = bytes(self._buffer[4 : 4 + size]), self._buffer[4 + size :]
        length = struct.unpack_from("<I", body)[0]
        if length > min(size - 4, header):
            raise WireError(f"a header of {length} bytes")
        try:
            return json.loads(body[4 : 4 + length]), memoryview(body)[4 + length :]
        except (ValueError, RecursionError):
            raise WireError("a header that is no JSON") from None

    def close(self):
        self.connection.close()

    def _fill(self, size, deadline):
        """Memory is taken as bytes come, not as they are promised."""
        while len(self._buffer) < size:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Late
            self.connection.settimeout(left)
            try:
                piece = self.connection.recv(1 << 20)
            except TimeoutError:
                raise Late from None
            except OSError:
                raise EOFError from None
            if not piece:
                raise EOFError
            self._buffer += piece
