"""What the benchmarks compare computes the same; the times themselves are not tested."""

import ctypes

import numpy as np
import pytest

from benchmarks import __main__ as bench
from benchmarks import textbook
from scratch import memory
from scratch.block import block_backward, block_forward
from scratch.model import Config, init_params
from scratch.rope import rope_table

SMALL = {"B": 2, "T": 5, "D": 8, "H": 2, "F": 12}


def test_the_textbook_block_is_the_librarys():
    config = Config(vocab_size=2, d_model=8, n_layers=1, n_heads=2, d_ff=12, max_seq=5)
    params = init_params(config)["blocks"][0]
    rng = np.random.default_rng(0)
    x, dout = rng.standard_normal((2, 2, 5, 8), dtype=np.float32)
    rope = rope_table(5, 4)
    ours, cache = block_forward(x, params, config, rope=rope)
    theirs, kept = textbook.forward(x, params, 2, *(table.astype(np.float32) for table in rope))
    np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5)
    dx, grads = block_backward(dout, cache)
    their_dx, their_grads = textbook.backward(dout, kept)
    np.testing.assert_allclose(their_dx, dx, rtol=1e-4, atol=1e-5)
    flat = {**grads["attn"], **grads["ffn"], "g1": grads["norm1"]["g"], "g2": grads["norm2"]["g"]}
    assert flat.keys() == their_grads.keys()
    for name, g in flat.items():
        np.testing.assert_allclose(their_grads[name], g, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_table_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SAMPLE", 1e-4)
    monkeypatch.setattr(bench, "SHAPES", {"A": SMALL})
    monkeypatch.setattr(memory, "keep_freed", lambda: False)  # not for the process that tests
    bench.main(["--rounds", "2"])
    said = capsys.readouterr().out
    assert said.count("scratch") == said.count("textbook NumPy") == 2 and "forward and backward" in said


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_where_there_is_no_glibc_nothing_is_kept(monkeypatch, error):
    def missing(name):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert memory.keep_freed() is False


def test_an_older_glibc_is_asked_for_less(monkeypatch):
    asked = []

    class Libc:
        @staticmethod
        def mallopt(option, value):
            asked.append((option, value.value))
            return int(option != memory.M_MMAP_THRESHOLD or value.value <= 32 << 20)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Libc)
    assert memory.keep_freed() is True
    assert asked == [(-3, 1 << 30), (-3, 32 << 20), (-1, 1 << 30)]
