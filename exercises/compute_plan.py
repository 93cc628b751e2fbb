"""Exercise compute-plan: from a model's size to the days of its training, for a machine of the learner's own."""

from exercises.spec import Number
from scratch import account
from scratch.config import Config


def quantities(rng):
    """A 6ND plan of some days; so chosen that no two mistakes agree."""
    return {
        "billions": round(float(rng.uniform(1.1, 14)), 1),
        "ratio": int(rng.choice([17, 23, 35, 70, 90])),
        "gpus": 8 * int(rng.integers(5, 60)),
        "teraflops": int(rng.choice([312, 989])),
        "utilization": float(rng.choice([0.34, 0.38, 0.42, 0.46])),
    }


def _plan(billions, ratio, gpus, teraflops, utilization, per_weight=6):
    """Days, by 6ND."""
    weights = billions * 1e9
    return per_weight * weights * ratio * weights / (gpus * teraflops * 1e12 * utilization) / 86400


def reference(billions, ratio, gpus, teraflops, utilization):
    """Three forwards of two operations a weight, as the library counts them where attention and lookups are nothing."""
    bare = Config(vocab_size=1, d_model=512, n_layers=1, n_heads=1, d_ff=1536, tied=True)
    scores = account.flops_by_part(bare, 1)["scores"]
    training = account.flops_per_token(bare, 1, backward=True) - 3 * scores
    per_weight = training // account.count_matmul_weights(bare)
    return _plan(billions, ratio, gpus, teraflops, utilization, per_weight)


# ---- wrong answers; each docstring is what its author will read ----


def forward_alone(billions, ratio, gpus, teraflops, utilization):
    """You counted two operations a weight: that is the forward. The backward costs twice as much again."""
    return _plan(billions, ratio, gpus, teraflops, utilization, 2)


def backward_alone(billions, ratio, gpus, teraflops, utilization):
    """You counted four operations a weight: that is the backward alone. The forward adds two."""
    return _plan(billions, ratio, gpus, teraflops, utilization, 4)


def multiply_adds(billions, ratio, gpus, teraflops, utilization):
    """That is half: you counted multiply-adds. A multiplication and an addition are two operations."""
    return _plan(billions, ratio, gpus, teraflops, utilization, 3)


def tokens_as_parameters(billions, ratio, gpus, teraflops, utilization):
    """You trained on as many tokens as there are parameters. The plan wants several tokens for each."""
    return _plan(billions, 1, gpus, teraflops, utilization)


def parameters_forgotten(billions, ratio, gpus, teraflops, utilization):
    """That is the time of `ratio` tokens. The plan wants so many for each parameter."""
    return _plan(billions, ratio, gpus, teraflops, utilization) / (billions * 1e9)


def twenty_always(billions, ratio, gpus, teraflops, utilization):
    """You took 20 tokens for each parameter. This plan has a ratio of its own."""
    return _plan(billions, 20, gpus, teraflops, utilization)


def full_speed(billions, ratio, gpus, teraflops, utilization):
    """You took the machine's peak. It reaches the given share of it, so training takes longer."""
    return _plan(billions, ratio, gpus, teraflops, 1)


def utilization_upside_down(billions, ratio, gpus, teraflops, utilization):
    """You multiplied by the utilization. A machine that is half idle takes longer: divide by it."""
    return _plan(billions, ratio, gpus, teraflops, 1 / utilization)


def one_gpu(billions, ratio, gpus, teraflops, utilization):
    """That is the time of a single GPU. All of them work at once."""
    return _plan(billions, ratio, 1, teraflops, utilization)


def in_hours(billions, ratio, gpus, teraflops, utilization):
    """Those are hours; the question asks for days."""
    return _plan(billions, ratio, gpus, teraflops, utilization) * 24


def in_seconds(billions, ratio, gpus, teraflops, utilization):
    """Those are seconds; the question asks for days."""
    return _plan(billions, ratio, gpus, teraflops, utilization) * 86400


def gpu_days(billions, ratio, gpus, teraflops, utilization):
    """You multiplied by the number of GPUs instead of dividing by it. More of them finish sooner."""
    return _plan(billions, ratio, 1 / gpus, teraflops, utilization)


# ---- right answers, found otherwise ----


def by_tokens_a_second(billions, ratio, gpus, teraflops, utilization):
    """How many tokens a second all of them manage, then how long for all tokens."""
    tokens_a_second = gpus * teraflops * utilization * 1e12 / (6 * billions * 1e9)
    return ratio * billions * 1e9 / tokens_a_second / 3600 / 24


def by_gpu_hours(billions, ratio, gpus, teraflops, utilization):
    """GPU hours first."""
    hours = 6 * ratio * (billions * 1e9) ** 2 / (teraflops * 1e12 * utilization * 3600)
    return hours / gpus / 24


def rounded(billions, ratio, gpus, teraflops, utilization):
    """To four digits."""
    return float(f"{_plan(billions, ratio, gpus, teraflops, utilization):.4g}")


exercise = Number(
    id="compute-plan",
    title="How long will it take?",
    chapter="10_cost",
    answer="plan_days",
    points=2,
    stars=1,
    minutes=10,
    quantities=quantities,
    question=(
        "A model of so many billions of parameters is to be trained on `ratio` tokens for each parameter, on so many "
        "GPUs. Each computes at most so many teraFLOP (10^12 operations) a second, and reaches the given share of that "
        "(utilization). Plan with 6ND. How many days does it take?"
    ),
    unit="days",
    reference=reference,
    mutants=(
        forward_alone,
        backward_alone,
        multiply_adds,
        tokens_as_parameters,
        parameters_forgotten,
        twenty_always,
        full_speed,
        utilization_upside_down,
        one_gpu,
        in_hours,
        in_seconds,
        gpu_days,
    ),
    variants=(by_tokens_a_second, by_gpu_hours, rounded),
    tolerance=2e-3,
    hints=(
        "First the tokens: so many for each parameter. Then the operations: six for each parameter and token.",
        "What do all GPUs together compute in a second? Number, times peak, times utilization.",
        "Days = 6 · N · (ratio · N) / (gpus · teraflops · 10^12 · utilization) / 86400.",
    ),
    takeaway="With a fixed number of tokens for each parameter, twice the model is four times the training.",
)
