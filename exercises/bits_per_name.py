"""Exercise bits-per-name: from a loss in nats a character to bits for a whole name, with numbers of one's own."""

import math

from exercises.spec import Number


def quantities(rng):
    """A loss, and a mean length, drawn again until no two of the answers below agree."""
    while True:
        given = {"loss": int(rng.integers(180, 260)) / 100, "letters": int(rng.integers(55, 95)) / 10}
        found = sorted(f(**given) for f in (reference, *MUTANTS))
        if all(high > 1.02 * low for low, high in zip(found, found[1:])):
            return given


def reference(loss, letters):
    """A name costs the loss for each letter and for its end; a bit is ln 2 nats."""
    return loss * (letters + 1) / math.log(2)


# ---- wrong answers; each docstring is what its author will read ----


def in_nats(loss, letters):
    """That is in nats. A bit is ln 2 nats, about 0.69, so there are more bits."""
    return loss * (letters + 1)


def times_ln2(loss, letters):
    """You multiplied by ln 2. A bit is smaller than a nat, so the number of bits is larger: divide."""
    return loss * (letters + 1) * math.log(2)


def no_end(loss, letters):
    """You left out the end. The model also has to say where the name stops."""
    return loss * letters / math.log(2)


def no_end_in_nats(loss, letters):
    """You left out the end, which the model has to say too, and this is in nats."""
    return loss * letters


def one_character(loss, letters):
    """That is one character. A name has many, and their costs add up."""
    return loss / math.log(2)


def two_ends(loss, letters):
    """You counted two ends. The one before the name is given; only the one after it is said."""
    return loss * (letters + 2) / math.log(2)


def in_bytes(loss, letters):
    """That is in bytes. A byte is 8 bits."""
    return loss * (letters + 1) / math.log(2) / 8


def perplexity(loss, letters):
    """That is the perplexity of one character, a number of equally probable choices. Bits are its logarithm."""
    return math.exp(loss)


def perplexity_of_the_name(loss, letters):
    """That is the perplexity of a whole name. Bits are its logarithm to base 2."""
    return math.exp(loss * (letters + 1))


def digits(loss, letters):
    """You divided by ln 10, which gives decimal digits. A bit is ln 2 nats."""
    return loss * (letters + 1) / math.log(10)


def log_of_the_loss(loss, letters):
    """You took the logarithm of the loss. The loss is a logarithm already, to base e; change its base."""
    return math.log2(loss) * (letters + 1)


def equal_letters(loss, letters):
    """That is what a blind guess costs, with all 27 characters equally probable. The model's loss is smaller."""
    return math.log2(27) * (letters + 1)


# ---- right answers, found otherwise ----


def by_probability(loss, letters):
    """The name's probability, and how often it must be doubled to reach 1."""
    return -math.log2(math.exp(-loss) ** (letters + 1))


def each_character(loss, letters):
    """Bits of a character first."""
    return math.log2(math.exp(loss)) * letters + math.log2(math.exp(loss))


MUTANTS = (
    in_nats,
    times_ln2,
    no_end,
    no_end_in_nats,
    one_character,
    two_ends,
    in_bytes,
    perplexity,
    perplexity_of_the_name,
    digits,
    log_of_the_loss,
    equal_letters,
)

exercise = Number(
    id="bits-per-name",
    title="What a name costs",
    chapter="11_training",
    answer="bits",
    points=1,
    stars=1,
    minutes=5,
    quantities=quantities,
    question=(
        "A model's mean loss is `loss` nats for a character, the end token included. A name has `letters` letters on "
        "average, and then its end. How many bits does the model need for a name, on average?"
    ),
    unit="bits",
    reference=reference,
    mutants=MUTANTS,
    variants=(by_probability, each_character),
    hints=(
        "The loss of one character is −ln p. What is the −ln p of a whole name, if its probability is a product?",
        "Logarithms of a product add up: one loss for each letter, and one for the end.",
        "A nat is the unit of ln, a bit that of log₂. log₂ x = ln x / ln 2.",
        "bits = loss · (letters + 1) / ln 2.",
    ),
    tolerance=0.005,
    takeaway="Losses of one text add up over its tokens; dividing by ln 2 turns nats into bits.",
)
