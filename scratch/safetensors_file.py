"""The safetensors format in NumPy: eight bytes of header length, a JSON header, then every tensor's bytes."""

import json
from pathlib import Path

from scratch._file import (
    FLOATS,
    MAX_JSON,
    Stored,
    check_spans,
    decode,
    encode,
    open_source,
    parse_json,
    quote,
    read_json,
    write_whole,
)

_SIZES = {kind: dtype.itemsize for kind, dtype in FLOATS.items()}
_SIZES |= {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4}
_SIZES |= {"U64": 8, "I64": 8, "C64": 8}


def read_safetensors(path):
    """What a safetensors file holds: ({name: Stored}, metadata), checked whole before any tensor is read.

    Tensors are views of the memory-mapped file until their `read` is called. F64, F32, F16 and BF16 can be read;
    other types (a causal mask of bytes, say) may be there, and cannot.

    Raises
    ------
    ValueError
        If the file is not exactly what the format demands; the message names the file, what came, what was expected.

    Source: the format's description in huggingface/safetensors.
    """
    with open_source(path) as source:
        header = _header(source)
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError(f"{path}: __metadata__ is {quote(metadata)}, expected an object of strings")
        data = source.bytes_from(source.file.tell())
    entries = {name: _entry(path, name, entry) for name, entry in header.items()}
    check_spans(path, {name: span for name, (_, _, span) in entries.items()}, data.size, holes=False)
    return {name: _stored(path, name, data, *entry) for name, entry in entries.items()}, metadata


def read_shards(path):
    """{name: Stored} of all the files that an index (``model.safetensors.index.json``) lists, beside it.

    Raises ValueError where the index is not one, names a file elsewhere or a file that is missing, a tensor is not in
    its file, or two files hold the same tensor.
    """
    path = Path(path)
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ValueError(f"{path}: weight_map is {quote(places)}, expected an object of file names")
    tensors, home = {}, {}
    for file in sorted(set(places.values())):
        # The index may come from anyone: it must not choose files outside its own folder.
        if any(sign in file for sign in "/\\:\0") or not file.endswith(".safetensors"):
            raise ValueError(f"{path}: weight_map names {quote(file)}, expected a .safetensors file in the same folder")
        if not (path.parent / file).is_file():
            raise ValueError(f"{path}: weight_map names {quote(file)}, but that file is missing")
        found, _ = read_safetensors(path.parent / file)
        if twice := found.keys() & tensors.keys():
            raise ValueError(f"{path}: {quote(min(twice))} is both in {home[min(twice)]} and in {file}")
        tensors |= found
        home |= dict.fromkeys(found, file)
    for name, file in places.items():
        if home.get(name) != file:
            raise ValueError(f"{path}: weight_map says that {quote(name)} is in {quote(file)}, but it is not there")
    return tensors


def write_safetensors(path, tensors, metadata=None, kind=None):
    """Write {name: float array} as a safetensors file, in one step (`_file.write_whole`).

    kind : "F64", "F32", "F16" or "BF16" for all; by default each array's own type, so that nothing is rounded.
    Raises ValueError if an array is of another type, or a value is too large for `kind`.
    """
    if kind is not None and kind not in FLOATS:
        raise ValueError(f"write_safetensors: kind={kind!r}, expected one of {', '.join(FLOATS)}")
    kinds = {name: kind or f"F{8 * array.dtype.itemsize}" for name, array in tensors.items()}
    for name, array in tensors.items():
        if array.dtype.kind != "f" or kinds[name] not in FLOATS:
            raise ValueError(f"write_safetensors: {name} has dtype {array.dtype}, expected float64, float32 or float16")
    # The widest first: then every tensor starts at a multiple of its own width.
    names = sorted(tensors, key=lambda name: -_SIZES[kinds[name]])
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name in names:
        stop = at + tensors[name].size * _SIZES[kinds[name]]
        header[name] = {"dtype": kinds[name], "shape": list(tensors[name].shape), "data_offsets": [at, stop]}
        at = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def write(file):
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            try:
                encode(tensors[name], kinds[name]).tofile(file)
            except ValueError as error:
                raise ValueError(f"write_safetensors: {name}: {error}") from None

    write_whole(path, write)


def _header(source):
    length = int.from_bytes(source.take(8, "the header's length"), "little")
    if length > min(MAX_JSON, source.size - 8):
        raise ValueError(
            f"{source.path}: the header's length is {length} bytes, expected at most {min(MAX_JSON, source.size - 8)}"
            + _mistaken(length.to_bytes(8, "little"))
        )
    return parse_json(f"{source.path}: header", source.take(length, "the header"))


def _mistaken(start):
    """What the first bytes of another kind of file give away."""
    if start[:4] == b"PK\x03\x04":
        return "; this is a zip archive (.npz, or PyTorch's pickle), not safetensors"
    if start[:1] == b"\x80" and start[1] in range(2, 6):
        return "; this is a pickle, which is never read: it can run code"
    if start[:6] == b"\x93NUMPY":
        return "; this is a .npy file, not safetensors"
    return ""


def _entry(path, name, entry):
    """(type, shape, (begin, end)) of one header entry, its types and its arithmetic checked."""
    where = f"{path}: {quote(name)}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{where} is {quote(entry)}, expected an object of dtype, shape and data_offsets")
    kind, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _SIZES:
        raise ValueError(f"{where} has dtype {quote(kind)}, expected one of {', '.join(_SIZES)}")
    for what, numbers in (("shape", shape), ("data_offsets", span)):
        # JSON's true is an int to Python, so the type is asked for exactly.
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
            raise ValueError(f"{where} has {what} {quote(numbers)}, expected a list of integers from 0 to 2^63 - 1")
    if len(span) != 2:
        raise ValueError(f"{where} has data_offsets {quote(span)}, expected [begin, end]")
    values = 1
    for n in shape:
        values = min(values * n, 2**64)  # else a long list makes a number that takes minutes to multiply
    if values * _SIZES[kind] != span[1] - span[0]:
        needed = values * _SIZES[kind] if values < 2**64 else "more than 2^64"
        raise ValueError(f"{where}: {kind} of shape {quote(shape)} needs {needed} bytes, got {span[1] - span[0]}")
    return kind, tuple(shape), tuple(span)


def _stored(path, name, data, kind, shape, span):
    raw = data[span[0] : span[1]]

    def read(dtype):
        if kind not in FLOATS:
            raise ValueError(f"{path}: {quote(name)} has dtype {kind}, expected one of {', '.join(FLOATS)}")
        return decode(raw, kind, shape, dtype)

    return Stored(shape, raw, read)
