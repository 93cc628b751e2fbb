"""Judges answers that are values: a number of the learner's own question, a choice or prediction, an order of steps."""

import ast
import hashlib
import inspect
import itertools
import math
import numbers

import numpy as np

from exercises.engine import library
from exercises.engine.verdict import Note, kind_of, not_attempted, not_yet, passed
from exercises.spec import Choice, Number, Order, sentence


def judge_value(exercise, answer, learner=""):
    """Judge an answer to a Number, a Choice or an Order. `learner` decides which question a Number asks."""
    if isinstance(exercise, Number):
        return _number(exercise, answer, learner)
    return _choice(exercise, answer) if isinstance(exercise, Choice) else _order(exercise, answer)


# ---- numbers ----


def quantities(exercise, learner=""):
    """What this learner's question gives; the same whenever and wherever it is asked."""
    seed = hashlib.sha256(f"{exercise.id} {learner}".encode()).digest()
    given = exercise.quantities(np.random.default_rng(int.from_bytes(seed[:8], "big")))
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}


def _number(exercise, answer, learner):
    if answer is None or answer is Ellipsis:
        return not_attempted(exercise, f'Put your number where the `...` stand. `question("{exercise.id}")` asks it.')
    if isinstance(answer, np.ndarray) and answer.shape == ():
        answer = answer.item()
    if not isinstance(answer, numbers.Real) or isinstance(answer, bool):
        return not_yet(exercise, (f"This is {kind_of(answer)}; give one number, in {exercise.unit}.",))
    if not math.isfinite(answer):
        return not_yet(exercise, (f"This is {answer}; give a finite number, in {exercise.unit}.",))
    given = quantities(exercise, learner)
    right = exercise.reference(**given)
    if _near(answer, right, exercise.tolerance):
        return passed(exercise, (f"Right: {_grouped(right)} {exercise.unit}.",))
    known = (m for m in exercise.mutants if _near(answer, m(**given), exercise.tolerance or 1e-9))
    diagnosis = next(map(sentence, known), "")
    said = f"{_grouped(answer)} {exercise.unit}"
    if not diagnosis and 0.999 < answer / right < 1.001:
        return not_yet(exercise, (f"{said} is nearly right; give the exact number.",))
    if not diagnosis and any(_near(answer * factor, right, 0.01) for factor in _PREFIXES):
        return not_yet(exercise, (f"{said} is far too small. Is it in another unit?",))
    size = "too large" if answer > right else "too small"
    return not_yet(exercise, (f"{said} is {size}, for {_listed(given)}.",), diagnosis)


_PREFIXES = (1e3, 1e6, 1e9, 1e12, 2.0**10, 2.0**20, 2.0**30, 2.0**40)


def _near(one, two, tolerance):
    return bool(abs(one - two) <= tolerance * abs(two))


def _grouped(value):
    return f"{int(value):,}" if float(value).is_integer() else f"{float(value):,.6g}"


def _listed(given):
    return ", ".join(f"{name} = {_grouped(v) if isinstance(v, numbers.Real) else v}" for name, v in given.items())


# ---- choices, predictions, explanations ----


def _key(value):
    return str(value).strip().casefold()


def _choice(exercise, answer):
    parts = exercise.parts
    if len(parts) == 1 and not exercise.words and not isinstance(answer, dict):
        answer = {parts[0].name: answer}
    if answer is None or answer is Ellipsis:
        return not_attempted(exercise, "Put your answer where the `...` stand.")
    names = [part.name for part in parts] + (["why"] if exercise.words else [])
    if not isinstance(answer, dict):
        return not_yet(exercise, (f"This is {kind_of(answer)}; give a dict with {_quoted(names)}.",))
    if all(answer.get(name, ...) in (None, ..., "") for name in names):
        return not_attempted(exercise, "Put your answers where the `...` stand.")
    unknown = [name for name in answer if name not in names]
    if unknown:
        return not_yet(exercise, (f"There is no {_quoted(unknown[:1])} to answer; there is {_quoted(names)}.",))
    for part in parts:
        given = answer.get(part.name, ...)
        if given in (None, ..., ""):
            return not_yet(exercise, (f'"{part.name}" is still open: {part.ask}',))
        if _key(given) not in map(_key, part.options):
            said = f'"{part.name}" is {_short(given)}; choose one of {_quoted(part.options)}.'
            return not_yet(exercise, (said,))
    wrong = [part for part in parts if _key(answer[part.name]) != _key(part.right())]
    if wrong:
        first = wrong[0]
        chosen = next(key for key in first.options if _key(key) == _key(answer[first.name]))
        count = f"{len(parts) - len(wrong)} of {len(parts)} are right. " if len(parts) > 1 else ""
        return not_yet(exercise, (f'{count}Think again about "{first.name}".',), first.wrong[chosen])
    said = answer.get("why", "") if exercise.words else ""
    if exercise.words and not isinstance(said, str):
        return not_yet(exercise, (f'"why" is {kind_of(said)}; give your explanation as text.',))
    if exercise.words and len(said.split()) < exercise.words:
        count = len(said.split())
        line = f'The predictions are right. Now say why, in "why", in {exercise.words} words or more: it has {count}.'
        return not_yet(exercise, (line,))
    lines = [f"All {len(parts)} are right."] if len(parts) > 1 else []
    if exercise.words:
        lines.append("Your words are for a person to read: compare them with what follows.")
    return passed(exercise, lines)


def _quoted(names):
    return ", ".join(f'"{name}"' for name in names)


def _short(value):
    return f'"{value[:30]}"' if isinstance(value, str) else kind_of(value)


# ---- orders ----


def _order(exercise, answer):
    steps = exercise.steps
    if answer is None or answer is Ellipsis:
        return not_attempted(exercise, "Put your order where the `...` stand.")
    given = answer.replace(",", " ").split() if isinstance(answer, str) else answer
    if isinstance(answer, str) and len(given) == 1 and set(_key(given[0])) <= set(steps):
        given = list(given[0])  # "abc" for "a b c"
    if not isinstance(given, list | tuple):
        return not_yet(exercise, (f"This is {kind_of(answer)}; give a list of {_quoted(steps)}.",))
    if not given or all(item in (None, ...) for item in given):
        return not_attempted(exercise, "Put your order where the `...` stand.")
    keys = [_key(item) for item in given]
    for key in keys:
        if key not in steps:
            return not_yet(exercise, (f'There is no step "{key[:30]}"; the steps are {_quoted(steps)}.',))
        if keys.count(key) > 1:
            return not_yet(exercise, (f'Step "{key}" stands {keys.count(key)} times; use each once.',))
    missing = [key for key in steps if key not in keys]
    if missing:
        return not_yet(exercise, (f"Still missing: {_quoted(missing)}.",))
    broken = _first_broken(exercise, keys)
    if broken:
        _, second, reason = broken
        at = keys.index(second) + 1
        return not_yet(exercise, (f"Something is wrong from step {at} on, `{steps[second]}`.",), reason)
    return passed(exercise, ("This order works.",))


def _first_broken(exercise, keys):
    """The constraint that is broken first, reading from the beginning; None if all hold."""
    broken = [c for c in exercise.before if keys.index(c[0]) > keys.index(c[1])]
    return min(broken, key=lambda c: keys.index(c[1]), default=None)


# ---- what is shown ----


def asked(exercise, learner=""):
    """The question as a Note."""
    heading = f"{exercise.title} {'★' * exercise.stars}"
    if isinstance(exercise, Number):
        lines = (f"{exercise.question} Answer in {exercise.unit}.",)
        given = quantities(exercise, learner).items()
        whose = f"The numbers are {learner}'s." if learner else '`learner("your name")` gives you numbers of your own.'
        return Note(heading, lines, tuple(f"{name} = {_grouped(value)}" for name, value in given), (whose,))
    if isinstance(exercise, Choice):
        lines = []
        for part in exercise.parts:
            lines += [f'`"{part.name}"` {part.ask}', *(f'– `"{key}"` {said}' for key, said in part.options.items())]
        return Note(heading, tuple(lines))
    if isinstance(exercise, Order):
        return Note(heading, (), tuple(f"{key}   {step}" for key, step in exercise.steps.items()))
    return Note(heading, ("The prompt stands in the chapter.",))


def solved(exercise, learner=""):
    """The solution as a Note."""
    heading, closing = f"Solution: {exercise.title}", (exercise.takeaway,) if exercise.takeaway else ()
    if isinstance(exercise, Number):
        given = quantities(exercise, learner)
        lines = (f"{_grouped(exercise.reference(**given))} {exercise.unit}.",)
        return Note(heading, lines, tuple(_source(exercise.reference)), closing)
    if isinstance(exercise, Choice):
        table = tuple(f'"{part.name}": "{part.right()}"' for part in exercise.parts)
        return Note(heading, (), table, exercise.rubric + closing)
    if isinstance(exercise, Order):
        keys = right_values(exercise)[0][1]
        return Note(heading, (), tuple(f"{key}   {exercise.steps[key]}" for key in keys), closing)
    table = _source(exercise.reference)
    for function in library.targets(exercise).values():
        table += ["", *_source(function)]
    return Note(heading, ("The library's own:",), tuple(table), closing)


def _source(function):
    """The lines of a function, without its docstring."""
    lines = inspect.getsource(function).rstrip().split("\n")
    text = ast.parse("\n".join(lines)).body[0].body[0]
    if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
        del lines[text.lineno - 1 : text.end_lineno]
    return lines


# ---- what the certification tries ----


def wrong_values(exercise, learner=""):
    """(name, answer, sentence) of every wrong answer that this exercise knows."""
    if isinstance(exercise, Number):
        given = quantities(exercise, learner)
        return [(m.__name__, m(**given), sentence(m)) for m in exercise.mutants]
    if isinstance(exercise, Choice):
        right = _right_choice(exercise)
        return [
            (f"{part.name}: {key}", right | {part.name: key}, said)
            for part in exercise.parts
            for key, said in part.wrong.items()
        ]
    found = []
    for constraint in exercise.before:
        first, second, said = constraint
        keys = next(keys for keys in _orders(exercise) if _first_broken(exercise, keys) == constraint)
        found.append((f"{second} before {first}", list(keys), said))
    return found


def right_values(exercise, learner=""):
    """(name, answer) of right answers, written in different ways."""
    if isinstance(exercise, Number):
        given = quantities(exercise, learner)
        return [(v.__name__, v(**given)) for v in (exercise.reference, *exercise.variants)]
    if isinstance(exercise, Choice):
        right = _right_choice(exercise)
        spaced = {key: f" {value.upper()} " if key != "why" else value for key, value in right.items()}
        return [("as asked", right), ("capitals and spaces", spaced)]
    orders = [keys for keys in _orders(exercise) if all(keys.index(a) < keys.index(b) for a, b, _ in exercise.before)]
    return [("list", list(orders[0])), ("text", " ".join(orders[-1])), *((" ".join(o), o) for o in orders[1:-1])]


def _right_choice(exercise):
    right = {part.name: part.right() for part in exercise.parts}
    return right | ({"why": "word " * exercise.words} if exercise.words else {})


def _orders(exercise):
    return itertools.permutations(exercise.steps)
