"""How the file formats spell the parameters: each leaf of scratch's tree and the tensor that holds it."""

from typing import NamedTuple


class Names(NamedTuple):
    """How one format spells scratch's tree.

    leaves : path of a leaf (a block's without the block) → tensor; a leaf that is not here is zero
    prefix : may stand before all names, except the head's
    block : stands before a block's names, with its number
    out_in : True where projections are stored [out, in]
    ignored : pattern of tensors that hold no parameter
    """

    leaves: dict
    prefix: str
    block: str
    out_in: bool
    ignored: str = "(?!)"

    def of(self, path):
        """The tensor's name for a leaf's path, ("blocks", 0, "attn", "wq"), without the prefix; None if it is zero."""
        if path[0] != "blocks":
            return self.leaves.get(".".join(path))
        name = self.leaves.get(".".join(path[2:]))
        return name and self.block.format(path[1]) + name

    def part(self, path):
        """Which third of a fused tensor a leaf is, or None where the tensor is the leaf's own."""
        leaf = ".".join(path[2:])
        sharing = [other for other, name in self.leaves.items() if name == self.leaves.get(leaf)]
        return sharing.index(leaf) if len(sharing) > 1 else None

    def turned(self, path):
        """True where the tensor is the leaf's transpose. Tables are [V, D] everywhere, a head is [V, D] everywhere."""
        return path[-1].startswith("w") and (self.out_in or path[0] == "head")


def _leaves(text, biases=""):
    """{leaf: tensor} from lines "leaf tensor"; the leaves in `biases` are given as "bias weight"."""
    leaves = dict(line.split() for line in text.splitlines() if line)
    return leaves | {
        b: leaves[w].removesuffix("weight") + "bias" for b, w in (pair.split("=") for pair in biases.split())
    }


_QKV = "attn.bq=attn.wq attn.bk=attn.wk attn.bv=attn.wv"
_QKVO = _QKV + " attn.bo=attn.wo"
_GPT2 = _QKVO + " ffn.b1=ffn.w1 ffn.b2=ffn.w2 norm1.b=norm1.g norm2.b=norm2.g norm.b=norm.g"

_HF_LLAMA = """
embed.table embed_tokens.weight
norm.g      norm.weight
head.w      lm_head.weight
norm1.g     input_layernorm.weight
attn.wq     self_attn.q_proj.weight
attn.wk     self_attn.k_proj.weight
attn.wv     self_attn.v_proj.weight
attn.wo     self_attn.o_proj.weight
norm2.g     post_attention_layernorm.weight
ffn.wg      mlp.gate_proj.weight
ffn.wu      mlp.up_proj.weight
ffn.wd      mlp.down_proj.weight
"""
_HF_GPT2 = """
embed.table wte.weight
pos.table   wpe.weight
norm.g      ln_f.weight
head.w      lm_head.weight
norm1.g     ln_1.weight
attn.wq     attn.c_attn.weight
attn.wk     attn.c_attn.weight
attn.wv     attn.c_attn.weight
attn.wo     attn.c_proj.weight
norm2.g     ln_2.weight
ffn.w1      mlp.c_fc.weight
ffn.w2      mlp.c_proj.weight
"""
_GGUF_SHARED = """
embed.table token_embd.weight
norm.g      output_norm.weight
head.w      output.weight
norm1.g     attn_norm.weight
attn.wo     attn_output.weight
norm2.g     ffn_norm.weight
"""
_GGUF_LLAMA = """
attn.wq     attn_q.weight
attn.wk     attn_k.weight
attn.wv     attn_v.weight
ffn.wg      ffn_gate.weight
ffn.wu      ffn_up.weight
ffn.wd      ffn_down.weight
"""
_GGUF_GPT2 = """
pos.table   position_embd.weight
attn.wq     attn_qkv.weight
attn.wk     attn_qkv.weight
attn.wv     attn_qkv.weight
ffn.w1      ffn_up.weight
ffn.w2      ffn_down.weight
"""
HF = {
    "llama": Names(_leaves(_HF_LLAMA, _QKVO), "model.", "layers.{}.", True, r"rotary_emb\.inv_freq$"),
    "qwen2": Names(_leaves(_HF_LLAMA, _QKV), "model.", "layers.{}.", True, r"rotary_emb\.inv_freq$"),
    # GPT-2 multiplies as we do, y = x @ w. Its causal masks are stored as attn.bias.
    "gpt2": Names(_leaves(_HF_GPT2, _GPT2), "transformer.", "h.{}.", False, r"\.attn\.(masked_)?bias$"),
}
GGUF_NAMES = {
    "llama": Names(_leaves(_GGUF_SHARED + _GGUF_LLAMA, _QKVO), "", "blk.{}.", True),
    "gpt2": Names(_leaves(_GGUF_SHARED + _GGUF_GPT2, _GPT2), "", "blk.{}.", True),
}
