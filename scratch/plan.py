"""What training on many devices costs, from a Config alone: bytes sent, memory and time for each way of cutting."""

from collections import namedtuple

from scratch.account import count_params, flops_per_token

Plan = namedtuple("Plan", "name memory compute sending why_not")
"""Bytes on a device, seconds of compute and of sending in one step; why_not: "" or what does not divide."""


def ring_bytes(size, ranks, passes=2):
    """Bytes that each rank sends for `size` bytes: passes 2 for an all-reduce, 1 for either half. Book: eq-ring."""
    return passes * (ranks - 1) * size / ranks


def step_bytes(config, ranks, batch, T, bytes_per_value=2):
    """Bytes that a rank sends in one training step, by method: a dict of "data", "zero", "tensor", "pipeline".

    "data" all-reduces the gradients; "zero" (stage 3) gathers the weights forward and again backward, and scatters
    the gradients' sum, each once, as if a rank ran its sequences together; "tensor" all-reduces the stream four times
    a block ("sequence" sends as much); in "pipeline" a stage with two neighbours sends the stream on and its gradient
    back. What the head and the loss send is left out.

    Book: eq-ring, eq-tensor-parallel, eq-bubble, eq-zero.
    """
    weights = count_params(config) * bytes_per_value
    stream = batch * T * config.d_model * bytes_per_value
    return {
        "data": ring_bytes(weights, ranks),
        "zero": ring_bytes(weights, ranks, passes=3),
        "tensor": 4 * config.n_layers * ring_bytes(stream, ranks),
        "pipeline": min(ranks - 1, 2) * stream,
    }


def zero_bytes(config, ranks, stage=3):
    """Bytes of weights, gradients and Adam's state on each of n ranks: 16 a parameter, some of them cut by n.

    Stage 0 cuts nothing, 1 the optimizer's 12 bytes, 2 the gradients' 2 as well, 3 the weights' 2, too.
    Source: Rajbhandari et al. 2020 (ZeRO), figure 1. Book: eq-zero.
    """
    if stage not in range(4):
        raise ValueError(f"zero_bytes: stage={stage}, expected 0, 1, 2 or 3")
    cut = (0, 12, 14, 16)[stage]
    return count_params(config) * (16 - cut + cut / ranks)


def activation_bytes_per_token(config, bytes_per_value=2):
    """Bytes a token that all blocks keep for backward, without dropout and without T × T scores.

    Of each block: the stream twice and its normalized copies, queries, keys, values, the heads' outputs, and the
    hidden layer before and after its nonlinearity (with the product of gate and up, three arrays in a SwiGLU).
    """
    heads = (2 * config.n_heads + 2 * config.n_kv_heads) * config.head_dim
    hidden = (3 if config.ffn == "swiglu" else 2) * config.d_ff
    return config.n_layers * (4 * config.d_model + heads + hidden) * bytes_per_value


def plans(config, devices, batch, *, flops_per_s, bytes_per_s):
    """Ways to share out one training step of `batch` sequences of config.max_seq tokens: a list of Plan.

    One device has one plan, "alone"; several have "data", "zero" (stage 3), "tensor" (with cut rows) and "pipeline".
    Lower bounds, all of them: peak speed, and nothing counted but products, weights, their state and what is kept for
    backward. Numbers are sent in 16 bits, and sending is not hidden behind compute. A device takes its sequences one
    after another, so ZeRO gathers and scatters anew for each. Tensor parallel keeps the gathered input of each branch
    whole, as `ranks.cut_block_forward` does. The pipeline, a sequence as a micro-batch, keeps what comes into a stage
    for all of them, and computes the rest a second time.

    flops_per_s : of one device; bytes_per_s : from one device to the next
    """
    n, T = devices, config.max_seq
    sent = step_bytes(config, n, batch, T)
    sent["zero"] *= -(-batch // n)  # once for each sequence of a rank
    seconds = batch * T * flops_per_token(config, T, backward=True, causal=True) / (n * flops_per_s)
    one = T * activation_bytes_per_token(config)
    state = zero_bytes(config, 1)
    if n == 1:
        return [Plan("alone", state + one, seconds, 0.0, "")]
    inputs = batch * T * config.d_model * 2
    gathered = config.n_layers * 2 * T * config.d_model * 2  # two branches, two bytes a number
    piped = 4 / 3 * seconds * (batch + n - 1) / batch  # a second forward, and the bubble
    heads = {"key heads": config.n_kv_heads, "hidden units": config.d_ff}
    rows = (
        ("data", state + one, seconds, {"sequences": batch}),
        ("zero", state / n + one, seconds, {"sequences": batch}),
        ("tensor", (state + one - gathered) / n + gathered, seconds, heads),
        ("pipeline", (state + one) / n + inputs, piped, {"blocks": config.n_layers}),
    )
    made = []
    for name, memory, compute, work in rows:
        why_not = [f"{size} {what}" for what, size in work.items() if size % n]
        made.append(Plan(name, memory, compute, sent[name] / bytes_per_s, ", ".join(why_not)))
    return made
