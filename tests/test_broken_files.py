"""Broken and hostile files: each gives one clear ValueError, at once and without a large allocation."""

import contextlib
import json
import re
import shutil
import signal
import struct
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from scratch.checkpoint import load
from scratch.gguf_file import read_gguf
from scratch.model import Config
from scratch.safetensors_file import read_safetensors

REFERENCE = Path(__file__).parent / "reference"


@contextlib.contextmanager
def limits(seconds=5, megabytes=8):
    """Fail where the code inside hangs, or allocates more than a broken file of a few kilobytes can be worth."""

    def stop(*_):
        raise AssertionError(f"still running after {seconds} s")

    alarm = getattr(signal, "SIGALRM", None)
    if alarm:
        before = signal.signal(alarm, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(alarm, before)


# ---------------------------------------------------------------- settings that scratch cannot do

OLD_ROPE = {"rope_parameters": None, "rope_theta": 500.0}
WRONG_SETTINGS = {
    "another model": ("llama", {"model_type": "mamba"}, "model_type is 'mamba', but scratch supports llama, mistral"),
    "no model_type": ("llama", {"model_type": None}, "model_type is missing"),
    "another activation": ("llama", {"hidden_act": "gelu"}, "hidden_act is 'gelu', but scratch supports 'silu' only"),
    "exact GELU": (
        "gpt2",
        {"activation_function": "gelu"},
        "activation_function is 'gelu', but scratch supports 'gelu_new' or",
    ),
    "RoPE scaling, 4": (
        "llama",
        OLD_ROPE | {"rope_scaling": {"type": "linear", "factor": 2.0}},
        "rope_scaling is {'factor': 2.0",
    ),
    "RoPE scaling, 5": ("llama", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5.0}}, "rope_parameters is"),
    "RoPE of a part": ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
    "RoPE is a list": ("llama", {"rope_parameters": [1]}, "rope_parameters is [1], but scratch supports"),
    "a window": ("llama", {"sliding_window": 4}, "sliding_window is 4, but scratch supports none only"),
    "Mistral's default window": ("llama", {"model_type": "mistral"}, "sliding_window is missing, which means 4096"),
    "Qwen's window": (
        "qwen2",
        {"use_sliding_window": True},
        "use_sliding_window is True, but scratch supports False only",
    ),
    "layers of two kinds": ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types is ["),
    "MLP biases": ("llama", {"mlp_bias": True}, "mlp_bias is True"),
    "quantized": (
        "llama",
        {"quantization_config": {"bits": 4}},
        "quantization_config is {'bits': 4}, but scratch supports none",
    ),
    "unscaled scores": ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights is False"),
    "a string": ("llama", {"hidden_size": "20"}, "hidden_size is '20', expected an integer"),
    "true for 1": ("llama", {"num_hidden_layers": True}, "num_hidden_layers is True, expected an integer"),
    "a fraction": ("gpt2", {"n_head": 4.0}, "n_head is 4.0, expected an integer"),
    "no width": ("llama", {"hidden_size": None}, "config.json: hidden_size is missing"),
    "negative": ("llama", {"intermediate_size": -1}, "config.json: Config: d_ff=-1"),
    "no heads": ("llama", {"num_attention_heads": 0}, "config.json: Config: n_heads=0"),
    "heads that do not divide": ("llama", {"num_key_value_heads": 3}, "n_heads=4 is not divisible by n_kv_heads=3"),
    "eps of zero": ("llama", {"rms_norm_eps": 0}, "rms_norm_eps is 0, expected a positive number"),
    "eps of 10^400": ("llama", {"rms_norm_eps": 10**400}, "expected a positive number"),
    "heads of no width": ("llama", {"head_dim": 0}, "head_dim is 0, expected a positive integer"),
    "a billion layers": (
        "llama",
        {"num_hidden_layers": 10**9},
        "says 1000000000 layers, but model.safetensors has 29 tensors",
    ),
    "a vocabulary of 10^15": ("llama", {"vocab_size": 10**15}, "shape (59, 20), expected (1000000000000000, 20)"),
    "another width": ("gpt2", {"n_inner": 41}, "h.0.mlp.c_fc.weight has shape (32, 40), expected (32, 41)"),
    "biases that are not there": ("llama", {"model_type": "llama", "attention_bias": "yes"}, "expected true or false"),
    "an unknown layout": ("llama", {"scratch_rope_layout": "odd"}, "scratch_rope_layout is 'odd', expected one of"),
}


@pytest.mark.parametrize("name, change, message", WRONG_SETTINGS.values(), ids=WRONG_SETTINGS)
def test_settings_that_are_refused(tmp_path, name, change, message):
    folder = tmp_path / "model"
    shutil.copytree(REFERENCE / name, folder)
    values = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").write_text(json.dumps(values))
    with limits(), pytest.raises(ValueError, match=re.escape(message)) as error:
        load(folder)
    assert "config.json" in str(error.value) or "model.safetensors" in str(error.value)


def test_transformers_4_spells_rope_otherwise(tmp_path):
    shutil.copytree(REFERENCE / "llama", tmp_path / "model")
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(values | OLD_ROPE | {"rope_scaling": None}))
    assert load(tmp_path / "model")[1] == load(REFERENCE / "llama")[1]


# ---------------------------------------------------------------- safetensors and its index


def st(header, data=b"", length=None):
    """The bytes of a safetensors file with this header (object or bytes)."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


D8 = bytes(8)
PICKLE = b"\x80\x04\x95" + bytes(20)
BROKEN_SAFETENSORS = {
    "empty": (b"", "the header's length needs 8 bytes, but only 0 are left"),
    "seven bytes": (bytes(7), "needs 8 bytes, but only 7 are left"),
    "length beyond the file": (st({}, length=3), "header's length is 3 bytes, expected at most 2"),
    "huge length": (st({}, length=2**40), "header's length is 1099511627776 bytes, expected at most"),
    "negative length": (st({}, length=2**64 - 1), "header's length is 18446744073709551615 bytes"),
    "length too short": (st({"a": entry()}, D8, length=9), "expected JSON, but Unterminated string"),
    "length zero": (bytes(16), "expected JSON, but Expecting value"),
    "no JSON": (st(b"not json"), "header: expected JSON, but Expecting value"),
    "no UTF-8": (st(b'{"\xff\xfe": 1}'), "byte 2 is not UTF-8"),
    "a list": (st([1]), "expected a JSON object, got [1]"),
    "a number of 5000 digits": (st(b'{"a": ' + b"9" * 5000 + b"}"), "expected JSON, but Exceeds the limit"),
    "NaN": (st(b'{"a": NaN}'), "NaN is not a JSON number"),
    "doubled tensor": (st(b'{"a": 1, "a": 2}'), "the key 'a' stands twice"),
    "doubled key": (st(b'{"a": {"dtype": "F32", "dtype": "F16"}}'), "the key 'dtype' stands twice"),
    "nested 100,000 deep": (st(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "nested too deeply"),
    "lists 100,000 deep": (st(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply"),
    "a name of a megabyte": (st({"a" * 2**20: 1}), "aaa...aaa"),
    "metadata is a list": (st({"__metadata__": [1]}), "__metadata__ is [1], expected an object of strings"),
    "metadata of numbers": (st({"__metadata__": {"a": 1}}), "__metadata__ is {'a': 1}"),
    "entry is a number": (st({"a": 1}), "'a' is 1, expected an object of dtype, shape and data_offsets"),
    "entry without dtype": (st({"a": {"shape": [], "data_offsets": [0, 0]}}), "expected an object of dtype"),
    "unknown dtype": (st({"a": entry("F31")}, D8), "'a' has dtype 'F31', expected one of F64, F32, F16, BF16"),
    "dtype is a list": (st({"a": entry(["F32"])}, D8), "has dtype ['F32']"),
    "shape is a string": (st({"a": entry(shape="2")}, D8), "has shape '2', expected a list of integers"),
    "shape of strings": (st({"a": entry(shape=["2"])}, D8), "has shape ['2']"),
    "shape of fractions": (st({"a": entry(shape=[2.0])}, D8), "has shape [2.0]"),
    "shape of true": (st({"a": entry(shape=[True, 2])}, D8), "has shape [True, 2]"),
    "negative shape": (st({"a": entry(shape=[-1, -2])}, D8), "has shape [-1, -2]"),
    "gigantic axis": (st({"a": entry(shape=[2**63])}, D8), "has shape [9223372036854775808]"),
    "gigantic product": (st({"a": entry(shape=[2**62, 2**62])}, D8), "needs more than 2^64 bytes, got 8"),
    "product that overflows to 8": (
        st({"a": entry(shape=[2**62 + 2**31, 2**33 + 2])}, D8),
        "needs more than 2^64 bytes",
    ),
    "200,000 axes": (st({"a": entry(shape=[2**62] * 200_000)}, D8), "needs more than 2^64 bytes"),
    "shape too large": (st({"a": entry(shape=[3])}, D8), "F32 of shape [3] needs 12 bytes, got 8"),
    "shape too small": (st({"a": entry(shape=[])}, D8), "F32 of shape [] needs 4 bytes, got 8"),
    "one offset": (st({"a": entry(offsets=[0])}, D8), "data_offsets [0], expected [begin, end]"),
    "offsets of strings": (st({"a": entry(offsets=["0", "8"])}, D8), "data_offsets ['0', '8']"),
    "negative offset": (st({"a": entry(offsets=[-8, 0])}, D8), "data_offsets [-8, 0]"),
    "offsets backwards": (st({"a": entry(offsets=[8, 0])}, D8), "needs 8 bytes, got -8"),
    "offset beyond the file": (
        st({"a": entry(offsets=[8, 16])}, D8),
        "'a' is at bytes 8 to 16, but the data has 8 bytes",
    ),
    "data missing": (st({"a": entry()}), "'a' is at bytes 0 to 8, but the data has 0 bytes"),
    "overlap": (st({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12)), "'b' at bytes 4 to 12 overlaps 'a'"),
    "the same bytes twice": (st({"a": entry(), "b": entry()}, D8), "overlaps 'a'"),
    "a hole": (
        st({"a": entry(), "b": entry(offsets=[12, 20])}, bytes(20)),
        "bytes 8 to 12, before 'b', belong to no tensor",
    ),
    "bytes at the end": (st({"a": entry()}, bytes(9)), "the last 1 bytes of the data belong to no tensor"),
    "an .npz": (b"PK\x03\x04" + bytes(40), "this is a zip archive (.npz, or PyTorch's pickle), not safetensors"),
    "a pickle": (PICKLE, "this is a pickle, which is never read"),
    "an .npy": (b"\x93NUMPY\x01\x00" + bytes(40), "this is a .npy file, not safetensors"),
}


@pytest.mark.parametrize("data, message", BROKEN_SAFETENSORS.values(), ids=BROKEN_SAFETENSORS)
def test_broken_safetensors(tmp_path, data, message):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    shutil.copy(REFERENCE / "llama" / "config.json", tmp_path)
    with limits(megabytes=32), pytest.raises(ValueError, match=re.escape(message)) as error:
        load(path)
    assert str(error.value).startswith(str(path)) and len(str(error.value)) < 400 + len(str(path))


def test_a_type_that_is_not_read(tmp_path):
    shutil.copy(REFERENCE / "llama" / "config.json", tmp_path)
    found = read_safetensors(REFERENCE / "llama" / "model.safetensors")[0]
    header, at = {}, 0
    for name, tensor in found.items():
        header[name] = entry("I32", tensor.shape, (at, at + tensor.raw.size))
        at += tensor.raw.size
    (tmp_path / "model.safetensors").write_bytes(st(header, bytes(at)))
    with pytest.raises(ValueError, match="has dtype I32, expected one of F64, F32, F16, BF16"):
        load(tmp_path)


SHARD = "model-00001-of-00003.safetensors"
BROKEN_INDEX = {
    "no JSON": (b"{", "expected JSON, but Expecting property name"),
    "no weight_map": (b"{}", "weight_map is None, expected an object of file names"),
    "weight_map is a list": (b'{"weight_map": []}', "weight_map is [], expected an object"),
    "file is a number": (b'{"weight_map": {"a": 1}}', "weight_map is {'a': 1}"),
    "outside the folder": (
        b'{"weight_map": {"a": "../x.safetensors"}}',
        "names '../x.safetensors', expected a .safetensors file in the same",
    ),
    "an absolute path": (b'{"weight_map": {"a": "/x.safetensors"}}', "names '/x.safetensors', expected"),
    "a drive": (b'{"weight_map": {"a": "c:x.safetensors"}}', "names 'c:x.safetensors', expected"),
    "backslashes": (rb'{"weight_map": {"a": "..\\x.safetensors"}}', "expected a .safetensors file in the same folder"),
    "a zero byte": (rb'{"weight_map": {"a": "\u0000.safetensors"}}', "expected a .safetensors file in the same folder"),
    "a pickle": (
        b'{"weight_map": {"a": "pytorch_model.bin"}}',
        "names 'pytorch_model.bin', expected a .safetensors file",
    ),
    "a shard that is missing": (
        b'{"weight_map": {"a": "b.safetensors"}}',
        "names 'b.safetensors', but that file is missing",
    ),
    "a folder": (b'{"weight_map": {"a": "dir.safetensors"}}', "names 'dir.safetensors', but that file is missing"),
    "a tensor that is not there": (f'{{"weight_map": {{"a": "{SHARD}"}}}}'.encode(), "says that 'a' is in"),
    "a tensor in two shards": (f'{{"weight_map": {{"a": "{SHARD}", "b": "twin.safetensors"}}}}'.encode(), "is both in"),
}


@pytest.mark.parametrize("data, message", BROKEN_INDEX.values(), ids=BROKEN_INDEX)
def test_broken_index(tmp_path, data, message):
    folder = tmp_path / "model"
    shutil.copytree(REFERENCE / "llama-tied", folder)
    (folder / "dir.safetensors").mkdir()
    shutil.copy(folder / SHARD, folder / "twin.safetensors")
    (folder / "model.safetensors.index.json").write_bytes(data)
    with limits(), pytest.raises(ValueError, match=re.escape(message)) as error:
        load(folder)
    assert str(error.value).startswith(str(folder / "model.safetensors.index.json"))


def test_a_folder_without_weights_and_a_path_without_a_file(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(PICKLE)
    with pytest.raises(ValueError, match="pickled weights .* are never read"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "model.gguf")


# ---------------------------------------------------------------- GGUF


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def field(key, kind, value):
    """One field of a GGUF header; kind 4 is uint32, 6 float32, 8 a string; bytes go in as they are."""
    pack = {4: lambda v: struct.pack("<I", v), 6: lambda v: struct.pack("<f", v), 8: string}
    return string(key) + struct.pack("<I", kind) + (value if isinstance(value, bytes) else pack[kind](value))


def info(name="t", dims=(2,), kind=0, offset=0):
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gg(fields=(), infos=(), data=b"", n_tensors=None, n_fields=None, magic=b"GGUF", version=3):
    """The bytes of a GGUF file."""
    n = (len(infos) if n_tensors is None else n_tensors, len(fields) if n_fields is None else n_fields)
    head = magic + struct.pack("<IQQ", version, *n) + b"".join(fields) + b"".join(infos)
    return head + bytes(-len(head) % 32) + data


def array(of, n, data=b""):
    return struct.pack("<IQ", of, n) + data


ARCH = field("general.architecture", 8, "llama")
NUMBERS = {
    "vocab_size": 2,
    "embedding_length": 2,
    "block_count": 0,
    "attention.head_count": 1,
    "feed_forward_length": 1,
    "context_length": 1,
}
TINY = [ARCH] + [field(f"llama.{key}", 4, value) for key, value in NUMBERS.items()]
TINY += [field("llama.attention.layer_norm_rms_epsilon", 6, 1e-5)]
TENSORS = [info("token_embd.weight", (2, 2)), info("output_norm.weight", (2,), offset=32)]
DATA = bytes(40)


def without(key):
    return [f for f in TINY if key.encode() not in f]


def tiny(*more, but="no such key", infos=TENSORS, data=DATA):
    return gg([*without(but), *more], infos, data)


BROKEN_GGUF = {
    "empty": (b"", "the magic needs 4 bytes, but only 0 are left"),
    "wrong magic": (gg(magic=b"GGML"), "begins with b'GGML', expected b'GGUF'"),
    "version 1": (gg(version=1), "version is 1, expected 2 or 3, little-endian"),
    "big-endian": (gg(version=3 << 24), "version is 50331648, expected 2 or 3"),
    "no counts": (b"GGUF" + struct.pack("<I", 3), "the number of tensors needs 8 bytes, but only 0 are left"),
    "2^60 tensors": (gg(n_tensors=2**60), "1152921504606846976 tensors and 0 fields do not fit into 32 bytes"),
    "2^64 - 1 fields": (gg(n_fields=2**64 - 1), "18446744073709551615 fields do not fit into 32 bytes"),
    "a field too many": (gg([ARCH], n_fields=2), "a field's key is empty"),
    "a tensor too many": (gg([ARCH], [info()], n_tensors=2), "a tensor's name is empty"),
    "a key of 2^62 bytes": (
        gg([struct.pack("<Q", 2**62) + bytes(20)]),
        "a field's key needs 4611686018427387904 bytes, but only",
    ),
    "a key that is not UTF-8": (gg([field(b"\xff", 4, 1)]), "a field's key is b'\\xff', expected UTF-8"),
    "a doubled key": (gg([ARCH, ARCH]), "field 'general.architecture' stands twice"),
    "a field of type 99": (gg([field("a", 99, bytes(8))]), "field 'a' has type 99, expected 0 to 12"),
    "a string of 2^63 bytes": (
        gg([field("a", 8, struct.pack("<Q", 2**63))]),
        "field 'a' needs 9223372036854775808 bytes",
    ),
    "an array of 2^63 bytes": (gg([field("a", 9, array(0, 2**63))]), "field 'a' needs 9223372036854775808 bytes"),
    "an array of 2^61 doubles": (gg([field("a", 9, array(12, 2**61))]), "field 'a' needs 18446744073709551616 bytes"),
    "2^60 strings": (
        gg([field("a", 9, array(8, 2**60))]),
        "field 'a' claims 1152921504606846976 strings, more than fit",
    ),
    "one string too many": (
        gg([field("a", 9, array(8, 2, string("x" * 39)))]),
        "the length of field 'a' needs 8 bytes, but only 0",
    ),
    "an array of arrays": (
        gg([field("a", 9, array(9, 1, array(9, 1)))]),
        "'a' is an array of type 9, expected numbers or strings",
    ),
    "an array of type 99": (gg([field("a", 9, array(99, 1))]), "'a' is an array of type 99"),
    "a tensor's name that is not UTF-8": (gg(infos=[info(b"\xff")]), "a tensor's name is b'\\xff', expected UTF-8"),
    "a doubled tensor": (gg(infos=[info(), info(offset=32)], data=DATA), "tensor 't' stands twice"),
    "2^32 - 1 axes": (
        gg(infos=[string("t") + b"\xff" * 4 + bytes(24)]),
        "tensor 't' has 4294967295 axes, expected at most 4",
    ),
    "axes of 2^63": (gg(infos=[info(dims=(2**63,) * 4)], data=DATA), "'t' is at bytes 0 to"),
    "axes whose product is 2^64": (
        gg(infos=[info(dims=(2**32, 2**32))], data=DATA),
        "'t' is at bytes 0 to 73786976294838206464, but the data has 40",
    ),
    "an unknown quantization": (
        gg(infos=[info(kind=77)], data=DATA),
        "tensor 't' has type 77, expected one that the gguf package knows",
    ),
    "rows that are no blocks": (
        gg(infos=[info(dims=(33,), kind=8)], data=DATA),
        "has rows of 33, expected a multiple of 32",
    ),
    "no axes, quantized": (
        gg(infos=[info(dims=(), kind=8)], data=DATA),
        "'t' has rows of 1, expected a multiple of 32",
    ),
    "an offset between": (gg(infos=[info(offset=4)], data=DATA), "tensor 't' has offset 4, expected a multiple of 32"),
    "an offset beyond the file": (gg(infos=[info(offset=2**63)], data=DATA), "'t' is at bytes 9223372036854775808 to"),
    "overlap": (
        gg(infos=[info("a", (9,)), info("b", (2,), offset=32)], data=DATA),
        "'b' at bytes 32 to 40 overlaps 'a'",
    ),
    "data missing": (gg(infos=[info()]), "'t' is at bytes 0 to 8, but the data has 0 bytes"),
    "an alignment of 0": (gg([field("general.alignment", 4, 0)]), "general.alignment is 0, expected a power of two"),
    "an alignment of 3": (gg([field("general.alignment", 4, 3)]), "general.alignment is 3"),
    "an alignment of 2^31": (
        gg([field("general.alignment", 4, 2**31)], [info()], DATA),
        "'t' is at bytes 0 to 8, but the data has 0 bytes",
    ),
    "an alignment that is text": (gg([field("general.alignment", 8, "32")]), "general.alignment is '32'"),
    "another architecture": (
        gg([field("general.architecture", 8, "mamba")]),
        "general.architecture is 'mamba', but scratch supports llama, gpt2",
    ),
    "no architecture": (gg(), "general.architecture is missing"),
    "an architecture of 7": (gg([field("general.architecture", 4, 7)]), "general.architecture is 7, expected a string"),
    "no width": (tiny(but="embedding_length"), "llama.embedding_length is missing"),
    "no vocabulary": (tiny(but="vocab_size", infos=[]), "llama.vocab_size is missing"),
    "a width that is text": (
        tiny(field("llama.embedding_length", 8, "2"), but="embedding_length"),
        "llama.embedding_length is '2', expected an integer",
    ),
    "a width that is a float": (
        tiny(field("llama.embedding_length", 6, 2.0), but="embedding_length"),
        "llama.embedding_length is 2.0, expected an integer",
    ),
    "heads for each layer": (
        tiny(field("llama.attention.head_count", 9, array(4, 1, bytes(4))), but="head_count"),
        "llama.attention.head_count is array([0]",
    ),
    "eps is NaN": (
        tiny(field("llama.attention.layer_norm_rms_epsilon", 6, float("nan")), but="epsilon"),
        "epsilon is nan, expected a positive number",
    ),
    "no heads": (tiny(field("llama.attention.head_count", 4, 0), but="head_count"), "Config: n_heads=0"),
    "2^32 - 1 layers": (
        tiny(field("llama.block_count", 4, 2**32 - 1), but="block_count"),
        "says 4294967295 layers, but",
    ),
    "layers that are not there": (
        tiny(field("llama.block_count", 4, 1), but="block_count"),
        "tensor blk.0.attn_norm.weight is missing (and 8 more)",
    ),
    "a vocabulary of 2^32 - 1": (
        tiny(field("llama.vocab_size", 4, 2**32 - 1), but="vocab_size"),
        "tensor token_embd.weight has shape (2, 2), expected (4294967295, 2)",
    ),
    "no embedding": (tiny(infos=TENSORS[1:]), "tensor token_embd.weight is missing"),
    "an embedding without axes": (
        tiny(infos=[info("token_embd.weight", ()), TENSORS[1]]),
        "token_embd.weight has shape (), expected (2, 2)",
    ),
    "a wrong shape": (
        tiny(infos=[TENSORS[0], info("output_norm.weight", (1, 2), offset=32)]),
        "output_norm.weight has shape (2, 1), expected (2,)",
    ),
    "integers": (
        tiny(infos=[TENSORS[0], info("output_norm.weight", (2,), 26, 32)]),
        "tensor 'output_norm.weight': Dequantization for I32 is not",
    ),
    "RoPE scaling": (
        tiny(field("llama.rope.scaling.type", 8, "yarn")),
        "llama.rope.scaling.type is 'yarn', but scratch supports 'none' only",
    ),
    "RoPE factors": (
        tiny(infos=[*TENSORS, info("rope_freqs.weight", (1,), offset=64)], data=bytes(68)),
        "'rope_freqs.weight' scales RoPE",
    ),
    "RoPE of a part": (
        tiny(field("llama.rope.dimension_count", 4, 1)),
        "llama.rope.dimension_count is 1, but scratch supports 2 only",
    ),
    "experts": (tiny(field("llama.expert_count", 4, 8)), "llama.expert_count is 8, but scratch supports 0 only"),
    "experts for each layer": (
        tiny(field("llama.expert_count", 9, array(4, 2, bytes(8)))),
        "expert_count is array([0, 0]",
    ),
    "heads of no width": (
        tiny(field("llama.attention.key_length", 4, 0)),
        "key_length is 0, expected a positive integer",
    ),
    "values of another width": (
        tiny(field("llama.attention.value_length", 4, 4)),
        "llama.attention.value_length is 4, but scratch supports 2",
    ),
}


@pytest.mark.parametrize("data, message", BROKEN_GGUF.values(), ids=BROKEN_GGUF)
def test_broken_gguf(tmp_path, data, message):
    import gguf  # noqa: F401 (its import is not what is measured)

    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with limits(), pytest.raises(ValueError, match=re.escape(message)) as error:
        load(path)
    assert str(error.value).startswith(str(path)) and len(str(error.value)) < 400 + len(str(path))


def test_the_file_that_the_broken_ones_are_made_from_is_right(tmp_path):
    (tmp_path / "model").write_bytes(tiny())  # known by its first bytes
    params, config = load(tmp_path / "model")
    assert config == Config(vocab_size=2, d_model=2, n_layers=0, n_heads=1, d_ff=1, max_seq=1)
    assert params["embed"]["table"].shape == (2, 2)


# ---------------------------------------------------------------- any byte


@pytest.mark.parametrize("source", ["llama-tied/" + SHARD, "llama-tied-Q8_0.gguf"])
def test_a_file_cut_anywhere_says_so(tmp_path, source):
    data, path = (REFERENCE / source).read_bytes(), tmp_path / Path(source).name
    read = read_gguf if source.endswith("gguf") else read_safetensors
    with limits(seconds=60):
        for n in [*range(0, 3000, 7), *range(3000, len(data), 997), len(data) - 1]:
            path.write_bytes(data[:n])
            with pytest.raises(ValueError, match=re.escape(str(path))):
                read(path)


@pytest.mark.parametrize("source", ["qwen2/model.safetensors", "llama-tied-Q8_0.gguf"])
def test_flipped_bytes_give_a_model_or_one_clear_error(tmp_path, source):
    data, path = (REFERENCE / source).read_bytes(), tmp_path / Path(source).name
    shutil.copy(REFERENCE / "qwen2" / "config.json", tmp_path)
    rng, errors = np.random.default_rng(0), 0
    with limits(seconds=120), np.errstate(all="ignore"):
        for _ in range(400):
            broken = bytearray(data)
            for at in rng.integers(0, 2200, rng.integers(1, 4)):
                broken[at] = rng.integers(256)
            path.write_bytes(broken)
            try:
                load(path)
            except (ValueError, UserWarning) as error:  # any other exception fails the test
                assert str(error).startswith((str(path), str(tmp_path / "config.json"))), error
                errors += 1
    assert errors > 200


def test_without_the_gguf_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setitem(sys.modules, "gguf.quants", None)
    load(REFERENCE / "llama-tied-F32.gguf")  # plain floats need NumPy alone
    with pytest.raises(ImportError, match=r"llama-tied-Q8_0.gguf: reading a quantized .*: pip install gguf"):
        load(REFERENCE / "llama-tied-Q8_0.gguf")
