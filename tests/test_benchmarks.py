"""What the benchmarks compare computes the same; the times themselves are not tested."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as bench
from benchmarks import blocks, decoding, peak, scaling, textbook, timing, training
from scratch import memory
from scratch.block import block_backward, block_forward
from scratch.model import Config, init_params
from scratch.rope import rope_table
from tests.test_generate import model

SMALL = {"B": 2, "T": 5, "D": 8, "H": 2, "F": 12}
TINY = Config(vocab_size=11, d_model=8, n_layers=2, n_heads=2, d_ff=12, max_seq=70)


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


def test_every_contender_of_decoding_writes_the_same(monkeypatch):
    """With weights of ordinary size: a fresh model would repeat one token, whatever went wrong."""
    monkeypatch.setattr(decoding, "init_params", lambda config: model(config, dtype=np.float32))
    functions = decoding.contenders(TINY)
    texts = [write() for name, write in functions.items() if name != "bare products"]
    assert len(texts) >= 3 and len(texts[0]) == decoding.TOKENS + 1 and all(text == texts[0] for text in texts)
    assert len(set(texts[0])) > 2


def test_every_contender_of_training_learns_the_same(monkeypatch):
    monkeypatch.setattr(training, "init_params", lambda config: model(config, dtype=np.float32))
    steps = {name: step for name, step in training.contenders(TINY, 4).items() if name != "bare products"}
    losses = np.array([[step() for _ in range(3)] for step in steps.values()])
    np.testing.assert_allclose(losses, losses[:1].repeat(len(steps), 0), rtol=1e-4)
    assert (np.diff(losses) < 0).all()


def test_tables_are_printed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(timing, "SAMPLE", 1e-4)
    monkeypatch.setattr(timing, "PAUSE", 0)
    monkeypatch.setattr(blocks, "SHAPES", {"A": SMALL})
    monkeypatch.setattr(decoding.run, "__defaults__", (TINY,))
    monkeypatch.setattr(training.run, "__defaults__", (TINY, 4))
    monkeypatch.setattr(scaling, "SIZES", {"d_model": 8, "d_ff": 12, "max_seq": 5})
    monkeypatch.setattr(scaling, "PICTURE", tmp_path / "scaling.svg")
    monkeypatch.setattr(memory, "keep_freed", lambda: False)  # not for the process that tests
    bench.main(["A", "decoding", "training", "scaling", "--rounds", "2"])
    said = capsys.readouterr().out
    assert said.count("× bare products") == 4 and said.count("textbook NumPy") == 2
    assert "ms each" in said and "kernel" in said and "straight line" in scaling.PICTURE.read_text()


def test_an_unknown_part_is_named(capsys):
    with pytest.raises(SystemExit):
        bench.main(["D"])
    assert "there is no part D; choose from A, B, C, decoding" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from Linux's /proc")
def test_a_peak_is_that_of_the_arrays(capsys):
    """At shape A the block keeps 33 MiB for backward, makes 12 MiB of gradients, and some arrays besides."""
    peak.run(1)
    lines = {name.strip(): line for line in capsys.readouterr().out.splitlines() if (name := line[:44]).strip()}
    assert 45 < float(lines["scratch"][44:58]) < 90 < float(lines["textbook NumPy"][44:58])


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
