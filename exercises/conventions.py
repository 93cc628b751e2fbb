"""Exercise conventions: which count of operations says more, decided by counting."""

from functools import lru_cache

import numpy as np

from exercises.spec import Choice, Part
from scratch import account
from scratch.config import PRESETS, Config
from scratch.model import init_params, loss_backward, loss_forward, model_forward

GPT2, LLAMA2 = PRESETS["gpt2-small"], PRESETS["llama2-7b"]
AMOUNT = {"less": "less than the count", "same": "exactly the count", "more": "more than the count"}
TIMES = {"1": "as many", "2": "twice as many", "3": "three times as many"}


@lru_cache
def _counted(T, K=4):
    """Operations of a small model's forward, and of forward and backward."""
    config = Config(vocab_size=20, d_model=16, n_layers=2, n_heads=4, n_kv_heads=K, d_ff=24, max_seq=T)
    params, ids = init_params(config), np.arange(T)[None] % 20

    def both(params):
        return loss_backward(1.0, loss_forward(ids, ids, params, config)[1])

    _, forward = account.counted_flops(model_forward, ids, params, config)
    _, total = account.counted_flops(both, params)
    return config, forward, total


def _pairs(T):
    """Which pairs of tokens scratch really multiplied."""
    config, counts, _ = _counted(T)
    width = config.n_layers * config.n_heads * config.head_dim
    share = counts["attention"] / (4 * width)
    return {T * T: "all", T * (T + 1) // 2: "visible"}.get(int(share), "between")


def _against(told, counted):
    return "same" if told == counted else "less" if told < counted else "more"


def _backward():
    _, forward, total = _counted(16)
    return str(round(sum(total.values()) / sum(forward.values())) - 1)


def _sharing():
    """Attention's operations between tokens with one key head, against four."""
    few, many = (_counted(16, K)[1]["attention"] for K in (1, 4))
    return "same" if few == many else "half" if 2 * few == many else "quarter"


def _utilization():
    """The same run, described by two counts: the utilization is the count over what the machine could have done."""
    full, half = (account.flops_per_token(LLAMA2, 4096, backward=True, causal=causal) for causal in (False, True))
    return "full" if full > half else "half" if half > full else "same"


def _doubled():
    """6ND of twice the parameters, each still with its number of tokens."""
    return str((6 * 2 * (20 * 2)) // (6 * 1 * 20))


PAIRS = {
    "visible": "the visible pairs of tokens, T(T+1)/2",
    "between": "more than the visible pairs, fewer than all",
    "all": "all T × T pairs",
}

exercise = Choice(
    id="conventions",
    title="Which count is it?",
    chapter="10_cost",
    answer="prediction",
    points=2,
    stars=2,
    minutes=12,
    parts=(
        Part(
            name="short",
            ask="A causal model of scratch reads 16 tokens. In attention, its counter sees the products of …",
            options=PAIRS,
            wrong={
                "visible": "The mask is laid over the scores after they were multiplied. What did the product include?",
                "between": "A piece has up to 128 queries. How many pieces are 16 tokens?",
            },
            right=lambda: _pairs(16),
        ),
        Part(
            name="long",
            ask="The same model reads 512 tokens, in four pieces of 128 queries. Its counter sees the products of …",
            options=PAIRS,
            wrong={
                "visible": "Whole pieces of hidden keys are left out. What about the hidden pairs inside a piece?",
                "all": "The first piece of queries sees nothing behind token 128. Are those keys multiplied?",
            },
            right=lambda: _pairs(512),
        ),
        Part(
            name="backward",
            ask="Against the forward, the backward pass has … operations in its matrix products.",
            options=TIMES,
            wrong={
                "1": "Each product has two factors. Which gradients does it send back?",
                "3": "Three times is forward and backward together. What is left for the backward?",
            },
            right=_backward,
        ),
        Part(
            name="2N long",
            ask="GPT-2 small reads 1,024 tokens. N is all its parameters. 2N a token says …",
            options=AMOUNT,
            wrong={
                "same": "N also has positions and biases, and lacks something that grows with T. Do they cancel?",
                "more": "Positions and biases make N a little large. What does 2N leave out that grows with T?",
            },
            right=lambda: _against(2 * account.count_params(GPT2), account.flops_per_token(GPT2, 1024)),
        ),
        Part(
            name="2N short",
            ask="Llama 2 7B reads a single token. Its head is not tied to its table. 2N says …",
            options=AMOUNT,
            wrong={
                "less": "With one token there are hardly any scores. Which of the N parameters are not multiplied?",
                "same": "N holds two tables of V × D. Are both multiplied with the token?",
            },
            right=lambda: _against(2 * account.count_params(LLAMA2), account.flops_per_token(LLAMA2, 1)),
        ),
        Part(
            name="sharing",
            ask="Four query heads share one key head, where each had its own. Scores and mixing take …",
            options={
                "quarter": "a quarter of the operations",
                "half": "half of the operations",
                "same": "as many operations",
            },
            wrong={
                "quarter": "There is a quarter of the keys to keep. How many queries meet them?",
                "half": "Scores and mixing both run over all query heads. Did one of them become fewer?",
            },
            right=_sharing,
        ),
        Part(
            name="utilization",
            ask="One training run, measured in tokens a second. Which count reports the higher utilization?",
            options={
                "full": "the one with all T × T pairs",
                "half": "the one with the visible pairs",
                "same": "neither; the run is the same",
            },
            wrong={
                "half": "Utilization is operations counted over operations possible. Which count is larger?",
                "same": "The seconds are the same. Utilization also needs a count, and the two counts differ.",
            },
            right=_utilization,
        ),
        Part(
            name="doubled",
            ask="By 6ND, with 20 tokens a parameter: a model of twice the parameters takes … the training.",
            options={"2": "twice", "4": "four times", "8": "eight times"},
            wrong={
                "2": "So it would with the same tokens. Here each new parameter brings tokens of its own.",
                "8": "Operations grow with parameters times tokens. How often does each of these double?",
            },
            right=_doubled,
        ),
    ),
    hints=(
        "Ask of each count: all pairs or visible ones? Which tables? Forward alone, or both?",
        "A product y = x w sends back two gradients, and each is a product of the same size.",
        "2N counts every parameter once, lookup and positions too, and no pair of tokens.",
    ),
    takeaway="A number of operations means little without its convention: which pairs, which tables, which passes.",
)
