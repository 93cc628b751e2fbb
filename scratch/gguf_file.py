"""The GGUF format: fields, then tensors' names and places, then their bytes; the gguf package dequantizes them.

The header is read here, because gguf's own reader believes every count and length that a file claims.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

from scratch._file import Stored, check_spans, decode, narrow, open_source, quote

INSTALL = "reading a quantized GGUF file needs the gguf package: pip install gguf"
_PLAIN = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}  # types that NumPy alone can read, by their number in the file
_SCALARS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9
_MAX_DIMS = 4  # of a tensor, in the format


class Field(NamedTuple):
    """One value of the header, called like gguf.ReaderField's."""

    value: Any

    def contents(self):
        """int, float, bool, str, a list of str, or a NumPy array."""
        return self.value


class GGUF(NamedTuple):
    """A GGUF file's header: path, fields {key: Field}, tensors {name: Stored}."""

    path: Any
    fields: dict
    tensors: dict

    def get_field(self, key):
        """The Field of a key, or None; as gguf.GGUFReader has it."""
        return self.fields.get(key)


def read_gguf(path):
    """`GGUF` of a little-endian file of version 2 or 3, its header checked whole before any tensor is read.

    Shapes are in NumPy's order, the reverse of the file's: a projection is [out, in].

    Raises
    ------
    ValueError
        If the file is not what the format demands; the message names the file, what came, what was expected.
    ImportError
        If a tensor is quantized and the gguf package, which knows how, is not installed.

    Source: the format's description in ggml-org/ggml.
    """
    with open_source(path) as source:
        if (magic := source.take(4, "the magic")) != b"GGUF":
            raise ValueError(f"{path}: begins with {magic!r}, expected b'GGUF'")
        if (version := _number(source, "<u4", "the version")) not in (2, 3):
            raise ValueError(f"{path}: version is {version}, expected 2 or 3, little-endian")
        n_tensors, n_fields = (_number(source, "<u8", f"the number of {what}") for what in ("tensors", "fields"))
        # A field takes 13 bytes at least, and a tensor's description 24.
        if 24 * n_tensors + 13 * n_fields > source.size:
            raise ValueError(f"{path}: {n_tensors} tensors and {n_fields} fields do not fit into {source.size} bytes")
        fields = dict(_unique(path, "field", (_field(source) for _ in range(n_fields))))
        infos = dict(_unique(path, "tensor", (_info(source) for _ in range(n_tensors))))
        step = _alignment(path, fields)
        data = source.bytes_from(-(-source.file.tell() // step) * step)
    spans = {name: _span(path, name, info, step) for name, info in infos.items()}
    check_spans(path, spans, data.size, holes=True)
    tensors = {
        name: _stored(path, name, data[slice(*spans[name])], shape, kind) for name, (shape, kind, _) in infos.items()
    }
    return GGUF(path, fields, tensors)


def _number(source, dtype, what):
    dtype = np.dtype(dtype)
    return np.frombuffer(source.take(dtype.itemsize, what), dtype)[0].item()


def _bytes(source, what):
    return source.take(_number(source, "<u8", f"the length of {what}"), what)


def _name(source, what):
    data = _bytes(source, what)
    try:
        name = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{source.path}: {what} is {quote(data)}, expected UTF-8") from None
    if not name:  # what zeros at the end of a header look like
        raise ValueError(f"{source.path}: {what} is empty")
    return name


def _text(source, what):
    return _bytes(source, what).decode("utf-8", "surrogateescape")  # a token may be any bytes


def _field(source):
    key = _name(source, "a field's key")
    return key, Field(_value(source, key, _number(source, "<u4", f"the type of {quote(key)}")))


def _value(source, key, kind):
    what = f"field {quote(key)}"
    if kind == _STRING:
        return _text(source, what)
    if kind in _SCALARS:
        return _number(source, _SCALARS[kind], what)
    if kind != _ARRAY:
        raise ValueError(f"{source.path}: {what} has type {kind}, expected 0 to 12")
    of, n = _number(source, "<u4", what), _number(source, "<u8", what)
    if of in _SCALARS:
        dtype = np.dtype(_SCALARS[of])
        return np.frombuffer(source.take(n * dtype.itemsize, what), dtype)
    if of != _STRING:
        raise ValueError(f"{source.path}: {what} is an array of type {of}, expected numbers or strings")
    if 8 * n > source.size - source.file.tell():
        raise ValueError(f"{source.path}: {what} claims {n} strings, more than fit into the file")
    return [_text(source, what) for _ in range(n)]


def _info(source):
    """(name, (shape, type, offset)) of one tensor's description."""
    name = _name(source, "a tensor's name")
    what = f"the description of tensor {quote(name)}"
    if (n_dims := _number(source, "<u4", what)) > _MAX_DIMS:
        raise ValueError(f"{source.path}: tensor {quote(name)} has {n_dims} axes, expected at most {_MAX_DIMS}")
    shape = struct.unpack(f"<{n_dims}Q", source.take(8 * n_dims, what))
    return name, (shape[::-1], _number(source, "<u4", what), _number(source, "<u8", what))


def _unique(path, what, pairs):
    seen = set()
    for name, value in pairs:
        if name in seen:
            raise ValueError(f"{path}: {what} {quote(name)} stands twice")
        seen.add(name)
        yield name, value


def _alignment(path, fields):
    step = fields.get("general.alignment", Field(32)).value
    if type(step) is not int or step < 1 or step & (step - 1):
        raise ValueError(f"{path}: general.alignment is {quote(step)}, expected a power of two")
    return step


def _span(path, name, info, step):
    """(begin, end) of a tensor's bytes, counted from the start of the data."""
    shape, kind, begin = info
    block, width = _block(path, name, kind)
    values = 1
    for n in shape:
        values *= n  # at most four factors below 2^64
    row = shape[-1] if shape else 1
    if row % block:
        raise ValueError(f"{path}: tensor {quote(name)} has rows of {row}, expected a multiple of {block}")
    if begin % step:
        raise ValueError(f"{path}: tensor {quote(name)} has offset {begin}, expected a multiple of {step}")
    return begin, begin + values // block * width


def _block(path, name, kind):
    """(values, bytes) of one block of a type; a plain number is a block of one."""
    if kind in _PLAIN:
        return 1, {"F64": 8, "F32": 4}.get(_PLAIN[kind], 2)
    try:
        from gguf import GGML_QUANT_SIZES  # imported here so that scratch needs NumPy alone
    except ImportError as error:
        raise ImportError(f"{path}: {INSTALL}") from error
    sizes = {int(known): size for known, size in GGML_QUANT_SIZES.items()}
    if kind not in sizes:
        raise ValueError(f"{path}: tensor {quote(name)} has type {kind}, expected one that the gguf package knows")
    return sizes[kind]


def _stored(path, name, raw, shape, kind):
    def read(dtype):
        if kind in _PLAIN:
            return decode(raw, _PLAIN[kind], shape, dtype)
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        block, width = _block(path, name, kind)
        rows = np.asarray(raw).reshape(*shape[:-1], shape[-1] // block * width)
        try:
            values = dequantize(rows, GGMLQuantizationType(kind))
        except NotImplementedError as error:
            raise ValueError(f"{path}: tensor {quote(name)}: {error}") from None
        return values if values.dtype == dtype else narrow(values, dtype)

    return Stored(shape, raw, read)
