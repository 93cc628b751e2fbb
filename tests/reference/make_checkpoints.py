"""Make the tiny checkpoints beside this script, and their logits, with Hugging Face transformers on PyTorch.

Only needed to make them anew; the tests read what is committed. In an environment of its own::

    pip install torch==2.13.0 transformers==5.24.0 safetensors==0.8.0 gguf==0.19.0 accelerate==1.15.0 numpy
    python tests/reference/make_checkpoints.py

The weights are random but loud, norms' gains and biases too: no part of a model can be wrong unnoticed. What the GGUF
files hold is read back by transformers' own GGUF reader, so that the expected logits are that library's throughout.
"""

import shutil
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config

HERE = Path(__file__).resolve().parent
VERSIONS = {
    "torch": "2.13.0+cpu",
    "transformers": "5.24.0",
    "safetensors": "0.8.0",
    "gguf": "0.19.0",
    "accelerate": "1.15.0",
}
TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16}
CONFIGS = {
    "gpt2": GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_inner=40, n_positions=16, **TOKENS),
    # A head that is wider than D / H, biases, a head of its own, and another rope_theta and eps than usual.
    "llama": LlamaConfig(
        vocab_size=59,
        hidden_size=20,
        head_dim=6,
        intermediate_size=28,
        attention_bias=True,
        rope_parameters={"rope_theta": 500.0, "rope_type": "default"},
        rms_norm_eps=0.003,
        tie_word_embeddings=False,
        **LLAMA,
        **TOKENS,
    ),
    # Rows of 32 and 64, which Q8_0 needs; written in several files.
    "llama-tied": LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, tie_word_embeddings=True, **LLAMA, **TOKENS
    ),
    "qwen2": Qwen2Config(
        vocab_size=53, hidden_size=16, intermediate_size=24, tie_word_embeddings=True, **LLAMA, **TOKENS
    ),
}


def loud_model(config, seed):
    """A model whose every parameter is random and matters."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 2:
                table = any(part in name for part in ("wte", "wpe", "embed_tokens"))
                p.normal_(0, 0.15 if table else 1 / p.shape[-1] ** 0.5)
            elif name.endswith("bias"):
                p.normal_(0, 0.4)
            else:
                p.uniform_(0.5, 1.5)
    return model


def logits(model, ids):
    with torch.no_grad():
        return model(torch.from_numpy(ids)).logits.numpy()


def permuted(w, n_heads):
    """Rows of a query or key projection as llama.cpp's converter orders them: RoPE's pairs side by side."""
    per_head = w.reshape(n_heads, 2, -1, w.shape[-1])  # Hugging Face's halves: [n_heads, half, Dh/2, in]
    return np.ascontiguousarray(per_head.swapaxes(1, 2)).reshape(w.shape)


def write_llama_gguf(path, model, kind):
    """model's tensors under GGUF's names; those with two axes quantized to `kind`."""
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, p in model.named_parameters():
        array = p.detach().numpy()
        if "q_proj" in name or "k_proj" in name:
            array = permuted(array, config.num_attention_heads if "q_proj" in name else config.num_key_value_heads)
        _add(writer, names, name, array, kind)
    _close(writer)


def write_gpt2_gguf(path, model):
    """GPT-2 as llama.cpp's converter writes it: projections transposed to [out, in]."""
    config, writer = model.config, gguf.GGUFWriter(path, "gpt2")
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.n_inner)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config.n_layer)
    for name, p in model.named_parameters():
        array = p.detach().numpy()
        if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            array = np.ascontiguousarray(array.T)
        _add(writer, names, name, array, gguf.GGMLQuantizationType.F32)
    _close(writer)


def _add(writer, names, name, array, kind):
    kind = kind if array.ndim == 2 else gguf.GGMLQuantizationType.F32
    data = gguf.quants.quantize(array, kind)
    writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), data, raw_dtype=kind)


def _close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    found = {name: version(name) for name in VERSIONS}
    if found != VERSIONS:
        raise SystemExit(f"these versions are installed: {found}; the committed files were made with {VERSIONS}")
    expected = {}
    for seed, (name, config) in enumerate(CONFIGS.items()):
        model = loud_model(config, seed)
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder, max_shard_size="40KB" if name == "llama-tied" else "1GB")
        (folder / "generation_config.json").unlink(missing_ok=True)
        ids = np.random.default_rng(seed).integers(0, config.vocab_size, (2, 13))
        expected |= {f"{name}/ids": ids, f"{name}/logits": logits(model, ids)}
        if name == "llama-tied":
            for kind in ("F32", "Q8_0"):
                write_llama_gguf(HERE / f"llama-tied-{kind}.gguf", model, gguf.GGMLQuantizationType[kind])
        if name == "gpt2":
            write_gpt2_gguf(HERE / "gpt2-F32.gguf", model)
    for path in sorted(HERE.glob("*.gguf")):
        name = path.stem.rsplit("-", 1)[0]
        ids = expected[f"{name}/ids"]
        model = AutoModelForCausalLM.from_pretrained(
            HERE, gguf_file=path.name, config=CONFIGS[name], attn_implementation="eager"
        ).eval()
        expected |= {f"{path.name}/ids": ids, f"{path.name}/logits": logits(model, ids)}
    np.savez(HERE / "expected.npz", **expected)


if __name__ == "__main__":
    main()
