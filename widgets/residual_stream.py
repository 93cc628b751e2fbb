"""The residual stream: its length by block and token, what each branch added, the gradient, and what it would say."""

import numpy as np

from scratch.ops import softmax_forward
from scratch.tokenizer import pieces as texts_of
from scratch.trace import gradient_norms, logit_lens, trace
from widgets import base
from widgets.sentences import one_of, per_mille, percent, quoted, table, tokens

NAME = "residual_stream"
SENTENCES = (
    "The capital of France is",
    "The keeper lit the lamp because it was dark.",
    "The keeper lit the lamp. Then the keeper lit the",
)
GUESSES = 5
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def residual_stream(params, config, tokenizer, sentences=SENTENCES, *, sentence=0, depth=0, token=None):
    """Follow the stream of each token through a model.

    Parameters
    ----------
    params, config : a model of scratch
    tokenizer : cuts text into tokens, as `scratch.pretrained.smollm2` returns one
    sentences : list of str, of 3 to 24 tokens each
    sentence, token : int, counted from 0, what is shown first; token is the last one if left out
    depth : int, how many blocks the stream has passed, 0 to L

    Returns
    -------
    the widget; sentence, depth and token can be read and set

    Raises
    ------
    ValueError
        If an argument is out of range, or a sentence has too few or too many tokens.
    """
    cut = tokens(NAME, config, tokenizer, sentences)
    sentence = one_of(NAME, "sentence", sentence, len(cut))
    depth = one_of(NAME, "depth", depth, config.n_layers + 1)
    names = cut[sentence][1]
    token = len(names) - 1 if token is None else one_of(NAME, "token", token, len(names))
    data = {
        "layers": config.n_layers,
        "sentences": [{"pieces": of} | seen(ids, params, config, tokenizer) for ids, of in cut],
    }
    words = _words(data["sentences"][sentence], config.n_layers, depth, token)
    return base.show(NAME, "Residual stream", words, data, sentence=sentence, depth=depth, token=token)


def seen(ids, params, config, tokenizer):
    """What one run of the model on ids [1, T] shows, for the script; numbers have the digits that are shown.

    stream : [L+1][T], length of the stream before each block and after the last
    median : [L+1], of the stream's lengths over all tokens
    attn, ffn : [L][T], length of what each branch added
    gradient : [L][T-1], length of the loss's gradient at each block's input (the last token has no next one to predict)
    guesses : the texts of all tokens that are named below
    lens : [L+1][T][5], pairs (number of a guess, its probability in thousandths), the most probable first
    """
    run = trace(ids, params, config)
    gradient = gradient_norms(ids[:, :-1], ids[:, 1:], params, config)[:, 0]
    streams = run.stream[:, 0].swapaxes(0, 1)  # one token at a time: [L+1, T, V] would be 100 MB and more
    best = [_most_probable(logit_lens(x, params, config)) for x in streams]
    best, chances = (np.stack(part, axis=1) for part in zip(*best))  # [L+1, T, 5]
    named, index = np.unique(best, return_inverse=True)
    return {
        "stream": shown(run.norms[:, 0]),
        "median": shown(np.median(run.norms[:, 0], axis=-1)),
        "attn": shown(np.linalg.norm(run.attn[:, 0], axis=-1)),
        "ffn": shown(np.linalg.norm(run.ffn[:, 0], axis=-1)),
        "gradient": shown(gradient),
        "guesses": texts_of(tokenizer, named),
        "lens": np.stack([index.reshape(best.shape), per_mille(chances)], axis=-1).tolist(),
    }


def shown(array):
    """Round to three significant digits, and to whole numbers from 1000 on: nested lists of float."""
    if array.ndim:
        return [shown(part) for part in array]
    return float(f"{array:.3g}") if array < 999.5 else float(round(float(array)))


def _most_probable(logits):
    """(ids, probabilities) of the most probable tokens of each row of logits, the best first."""
    p, _ = softmax_forward(logits)
    count = min(GUESSES, p.shape[-1])
    best = np.argpartition(p, -count, axis=-1)[:, -count:]  # a sort of the whole vocabulary takes ten times as long
    chances = np.take_along_axis(p, best, axis=-1)
    order = np.argsort(-chances, axis=-1)
    return np.take_along_axis(best, order, axis=-1), np.take_along_axis(chances, order, axis=-1)


def number(value):
    """A number that `shown` has rounded, as text: 22,712, 0.120, 3.40 × 10⁻⁵."""
    if 0 < value < 0.001:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits} × 10{str(int(power)).translate(RAISED)}"
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def _words(found, layers, depth, token):
    pieces = found["pieces"]
    piece, lengths = quoted(pieces[token]), [row[token] for row in found["stream"]]
    guesses = [(quoted(found["guesses"][of]), percent(p)) for of, p in found["lens"][depth][token]]
    shown_at = sorted({0, layers // 2, int(np.argmax(lengths)), depth, layers})
    rows = [(f"{at}", number(lengths[at]), number(found["median"][at])) for at in shown_at]
    return (
        f"<p>The sentence is {quoted(''.join(pieces))}, the token {piece}. Its stream begins with length "
        f"{number(lengths[0])} and ends, {layers} blocks later, with {number(lengths[-1])}. It is longest after "
        f"{int(np.argmax(lengths))} blocks: {number(max(lengths))}.</p>"
        + table("Length of the stream", ("blocks passed", f"of {piece}", "median token"), rows)
        + table(f"Read after {depth} blocks, {piece} would be followed by", ("token", "probability"), guesses)
    )
