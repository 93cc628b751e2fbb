"""Exercise pipeline-bubble: the share of time in which a pipeline's stages wait."""

from exercises.spec import Number
from scratch import pipeline


def quantities(rng):
    """More micro-batches than stages, and numbers that set the mistakes apart."""
    p = int(rng.choice([4, 6, 8, 10, 12]))
    return {"p": p, "m": p + int(rng.choice([12, 13, 14, 16, 18]))}


def reference(p, m):
    """Counted from the schedule: waiting time over all time."""
    return 100 * pipeline.bubble(pipeline.gpipe_schedule(p, m))


# ---- wrong answers; each docstring is what its author will read ----


def busy(p, m):
    """That is the share of the time in which the stages work. The question is the rest."""
    return 100 * m / (m + p - 1)


def over_the_work(p, m):
    """You divided the waiting by the work, m. Divide by the whole time, m + p − 1."""
    return 100 * (p - 1) / m


def all_stages(p, m):
    """You counted p where p − 1 belongs: a stage waits for its p − 1 neighbours, not for itself."""
    return 100 * p / (m + p - 1)


def long_run(p, m):
    """Your whole time is m + p. The last micro-batch leaves the last stage at m + p − 1."""
    return 100 * (p - 1) / (m + p)


def stages_over_all(p, m):
    """That is p / (m + p). A stage waits p − 1 of m + p − 1 turns."""
    return 100 * p / (m + p)


def one_batch(p, m):
    """That is a pipeline without micro-batches: all stages but one wait. With m of them they overlap."""
    return 100 * (p - 1) / p


def product(p, m):
    """You divided by p m. The time is a sum: m turns of work and p − 1 of waiting."""
    return 100 * (p - 1) / (p * m)


def twice(p, m):
    """You counted the waiting twice, forward and backward, but the work once. Both double, so the share stays."""
    return 100 * 2 * (p - 1) / (m + 2 * (p - 1))


def double(p, m):
    """That is twice the right share. The backward waits as well, but it works twice as long, too."""
    return 200 * (p - 1) / (m + p - 1)


def half(p, m):
    """That is half the right share: you counted either the filling or the emptying. A stage waits for both."""
    return 50 * (p - 1) / (m + p - 1)


def swapped(p, m):
    """You took stages for micro-batches: m − 1 stands where p − 1 belongs."""
    return 100 * (m - 1) / (m + p - 1)


def as_a_fraction(p, m):
    """That is the fraction; the question asks for percent."""
    return (p - 1) / (m + p - 1)


def turns(p, m):
    """That is how many turns a stage waits. Divide by all turns, m + p − 1, and take percent."""
    return float(p - 1)


# ---- right answers, found otherwise ----


def formula(p, m):
    """The formula."""
    return 100 * (p - 1) / (m + p - 1)


def drawn(p, m):
    """Draws the forward as a table of turns, and counts the empty places."""
    table = [[0 <= turn - stage < m for turn in range(m + p - 1)] for stage in range(p)]
    empty = sum(not cell for row in table for cell in row)
    return 100 * empty / (p * (m + p - 1))


exercise = Number(
    id="pipeline-bubble",
    title="How long do the stages wait?",
    chapter="16_devices",
    answer="waiting_percent",
    points=1,
    stars=1,
    minutes=8,
    quantities=quantities,
    question=(
        "A pipeline has p equal stages and takes m micro-batches through them in GPipe's order, all forward, then all "
        "backward. Sending takes no time. What share of their time do the stages wait? Four right digits are enough."
    ),
    unit="percent",
    reference=reference,
    tolerance=1e-3,
    mutants=(
        busy,
        over_the_work,
        all_stages,
        long_run,
        stages_over_all,
        one_batch,
        product,
        twice,
        double,
        half,
        swapped,
        as_a_fraction,
        turns,
    ),
    variants=(formula, drawn),
    hints=(
        "Draw four stages and three micro-batches. When does the last stage begin, when does the first one end?",
        "Forward: a stage works for m turns. The first micro-batch reaches the last stage after p − 1 turns.",
        "So the forward takes m + p − 1 turns, and each stage waits p − 1 of them. The backward has the same shape.",
        "100 · (p − 1) / (m + p − 1) percent.",
    ),
    takeaway="The bubble is (p − 1) / (m + p − 1): it shrinks with micro-batches and grows with stages.",
)
