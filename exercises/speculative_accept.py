"""Exercise speculative-accept: how many guesses of a draft stand, and what the next token is drawn from."""

import numpy as np

from exercises.spec import Code


def reference(p, q, guessed, u):
    """p [n+1, V], q [n, V]; guessed int [n]; u [n], uniform in [0, 1). Returns next_p [V] and kept, an int."""
    kept = 0
    while kept < len(guessed) and u[kept] * q[kept, guessed[kept]] < p[kept, guessed[kept]]:
        kept += 1
    rest = p[kept] if kept == len(guessed) else np.maximum(p[kept] - q[kept], 0)
    return rest / rest.sum(), kept


def cases(rng):
    """Ascending; all guesses stand, none does, one in the middle falls and later ones would stand; greedy models."""

    def case(n, V, stand, sharp=1.0, spread=0.5):
        """`stand`: for each guess, whether it is to stand; the draws are clear of the border."""
        z = rng.standard_normal((n + 1, V)) * sharp
        p = _softmax(z)
        q = _softmax(z[:n] + rng.standard_normal((n, V)) * spread)
        guessed, u = np.zeros(n, dtype=np.intp), np.zeros(n)
        for i, stands in enumerate(stand):
            surplus = q[i] / p[i]
            guessed[i] = surplus.argmax() if not stands else rng.choice(V, p=q[i])
            ratio = min(1.0, p[i, guessed[i]] / q[i, guessed[i]])
            u[i] = ratio * rng.uniform(0.1, 0.9) if stands else ratio + (1 - ratio) * rng.uniform(0.2, 0.9)
        return p, q, guessed, u

    # By hand: tenths; the guess has 0.3 of the target's and 0.6 of the draft's, so it stands with one half.
    place = rng.permutation(3)
    p, q = np.array([[0.3, 0.5, 0.2], [0.1, 0.2, 0.7]])[:, place], np.array([[0.6, 0.3, 0.1]])[:, place]
    yield p, q, np.flatnonzero(q[0] == 0.6), np.array([0.7])
    yield case(1, 4, [True])  # one more token for free
    yield case(2, 3, [True, False])
    yield case(2, 4, [True, True])
    yield case(3, 4, [False, True, True], spread=1.5)
    yield case(4, 4, [True, True, False, True], spread=1.5)  # u has next_p's shape
    yield case(4, 5, [True, True, False, True], spread=1.5)
    p, q, guessed, u = case(4, 6, [True] * 4)  # greedy models: probabilities of 0 and 1, the third guess is wrong
    p, q = np.eye(6)[rng.integers(0, 3, 5)], np.eye(6)[rng.integers(3, 6, 4)]
    q[:2] = p[:2]
    yield p, q, q.argmax(axis=-1), u
    yield case(5, 7, [True, True, True, False, False], sharp=3.0, spread=2.0)
    yield case(6, 9, [True] * 6, sharp=2.0)


def rounding(p, q, guessed, u):
    """In units of u. The arguments are exact, so a difference costs 1, the sum of V of them V, the division 1."""
    rest, _ = reference(p, q, guessed, u)
    return (p.shape[1] + 4) * rest, 0


def _softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _at(p, q, guessed):
    """p and q of the guesses, [n] each."""
    i = np.arange(len(guessed))
    return p[i, guessed], q[i, guessed]


def _stand(p, q, guessed, u):
    mine, its = _at(p, q, guessed)
    return u * its < mine


def _prefix(stand):
    return int(np.logical_and.accumulate(stand).sum())


def _rest(p, q, kept):
    """What the next token is drawn from, before it is made to sum to 1."""
    return p[kept].copy() if kept == len(q) else np.maximum(p[kept] - q[kept], 0)


def _divided(rest):
    total = rest.sum()
    return rest / (total if total else 1)


def _answer(p, q, guessed, u, stand=None, kept=None, rest=None):
    """The right answer, with room to put one thing wrong."""
    if kept is None:
        kept = _prefix(_stand(p, q, guessed, u) if stand is None else stand)
    return _divided(_rest(p, q, kept) if rest is None else rest(p, q, kept)), kept


# ---- wrong answers; each docstring is what its author will read ----


def ratio_turned(p, q, guessed, u):
    """Your ratio is upside down. A guess that the target finds more probable than the draft did stands for certain:
    min(1, p / q)."""
    mine, its = _at(p, q, guessed)
    return _answer(p, q, guessed, u, stand=u * mine < its)


def by_p_alone(p, q, guessed, u):
    """You accepted with the target's probability p alone. The draft has already drawn with q: divide by it."""
    mine, _ = _at(p, q, guessed)
    return _answer(p, q, guessed, u, stand=u < mine)


def no_chance(p, q, guessed, u):
    """You accept only where p ≥ q. Where it is less, a guess still stands with probability p / q: that is what u is
    for."""
    mine, its = _at(p, q, guessed)
    return _answer(p, q, guessed, u, stand=mine >= its)


def most_probable(p, q, guessed, u):
    """You accept what is the target's most probable token. That is greedy writing; here the draws u decide."""
    return _answer(p, q, guessed, u, stand=guessed == p[:-1].argmax(axis=-1))


def u_turned(p, q, guessed, u):
    """You accept where u is above the ratio. It is below min(1, p / q) with just that probability."""
    mine, its = _at(p, q, guessed)
    return _answer(p, q, guessed, u, stand=u * its >= mine)


def one_draw_for_all(p, q, guessed, u):
    """You compared every guess with the first draw. Each has a draw of its own."""
    return _answer(p, q, guessed, u, stand=_stand(p, q, guessed, np.full_like(u, u[0])))


def all_that_stand(p, q, guessed, u):
    """You counted guesses beyond the first rejected one. They were written after a token that is no longer there."""
    return _answer(p, q, guessed, u, kept=int(_stand(p, q, guessed, u).sum()))


def rejected_counted(p, q, guessed, u):
    """You counted the first rejected guess as kept: only those before it are."""
    kept = _prefix(_stand(p, q, guessed, u))
    return _divided(_rest(p, q, kept)), min(kept + 1, len(guessed))


def all_or_nothing(p, q, guessed, u):
    """You threw all guesses away where one is rejected. Those before it stand."""
    return _answer(p, q, guessed, u, kept=len(guessed) if _stand(p, q, guessed, u).all() else 0)


def from_p(p, q, guessed, u):
    """After a rejection you draw from p. What p and q have in common had its chance with the guess: draw from what q
    lacks, max(p − q, 0)."""
    return _answer(p, q, guessed, u, rest=lambda p, q, kept: p[kept])


def from_q(p, q, guessed, u):
    """After a rejection you draw from the draft's distribution again. It is the target's turn."""
    return _answer(p, q, guessed, u, rest=lambda p, q, kept: p[kept] if kept == len(q) else q[kept])


def guess_forbidden(p, q, guessed, u):
    """After a rejection you draw from p without the guess. Other tokens may have had more from the draft than from the
    target, too: max(p − q, 0)."""

    def rest(p, q, kept):
        if kept == len(q):
            return p[kept]
        return np.where(np.arange(p.shape[1]) == guessed[kept], 0, p[kept])

    return _answer(p, q, guessed, u, rest=rest)


def difference_turned(p, q, guessed, u):
    """Your difference is q − p. The draft has drawn those too often already; max(p − q, 0) is what it lacks."""

    def rest(p, q, kept):
        return p[kept] if kept == len(q) else np.maximum(q[kept] - p[kept], 0)

    return _answer(p, q, guessed, u, rest=rest)


def absolute_difference(p, q, guessed, u):
    """You took |p − q|. Where q is larger nothing is lacking, so the rest is 0 there."""
    return _answer(p, q, guessed, u, rest=lambda p, q, kept: p[kept] if kept == len(q) else np.abs(p[kept] - q[kept]))


def not_divided(p, q, guessed, u):
    """After a rejection your next_p does not sum to 1: divide the rest by its sum."""
    kept = _prefix(_stand(p, q, guessed, u))
    return _rest(p, q, kept), kept


def first_row(p, q, guessed, u):
    """You took the rest from row 0. It belongs to the place of the rejected guess, row `kept`."""
    return _answer(p, q, guessed, u, rest=lambda p, q, kept: p[kept] if kept == len(q) else _rest(p, q, 0))


def row_after(p, q, guessed, u):
    """You drew the new token from the place after the rejected guess. It replaces that guess, so it comes from row
    `kept`."""
    return _answer(p, q, guessed, u, rest=lambda p, q, kept: p[min(kept + 1, len(q))])


def last_guess_again(p, q, guessed, u):
    """Where all guesses stand you drew from row n − 1, which has been decided. The target's row n is one more for
    free."""
    return _answer(p, q, guessed, u, rest=lambda p, q, kept: _rest(p, q, kept) if kept < len(q) else p[kept - 1])


def last_row_less_q(p, q, guessed, u):
    """Where all guesses stand you subtracted a q. Nothing was guessed at that place: draw from p as it is."""

    def rest(p, q, kept):
        return _rest(p, q, kept) if kept < len(q) else np.maximum(p[kept] - q[-1], 0)

    return _answer(p, q, guessed, u, rest=rest)


def zeroed_in_place(p, q, guessed, u):
    """`p -= q`, or `np.maximum(..., out=p)`, changes the caller's array: subtract into a new one."""
    kept = _prefix(_stand(p, q, guessed, u))
    if kept < len(q):
        p[kept] = np.maximum(p[kept] - q[kept], 0)
    return _divided(p[kept].copy()), kept


def float64_leak(p, q, guessed, u):
    """Computed in float64, whatever came in: keep the dtype of p."""
    return _answer(p.astype(np.float64), q, guessed, u)


# ---- right answers, written otherwise ----


def accumulated(p, q, guessed, u):
    """All comparisons at once; the prefix by a running and."""
    return _answer(p, q, guessed, u)


def padded(p, q, guessed, u):
    """A row of zeros below q makes the last row a rest like the others."""
    falls = np.append(~_stand(p, q, guessed, u), True)
    kept = int(falls.argmax())
    rest = np.clip(p - np.concatenate([q, np.zeros_like(p[:1])]), 0, None)[kept]
    return rest / rest.sum(), kept


def loops(p, q, guessed, u):
    """One guess, and one token, after another, with p / q as a ratio."""
    kept = 0
    for i, x in enumerate(guessed):
        if u[i] >= min(1, p[i, x] / q[i, x]):
            break
        kept = i + 1
    next_p = np.empty_like(p[0])
    for v in range(len(next_p)):
        low = q[kept, v] if kept < len(q) else 0
        next_p[v] = p[kept, v] - low if p[kept, v] > low else 0
    total = sum(next_p)
    for v in range(len(next_p)):
        next_p[v] /= total
    return next_p, kept


exercise = Code(
    id="speculative-accept",
    title="Which guesses stand",
    chapter="12_generating",
    answer="accept",
    points=2,
    stars=2,
    minutes=20,
    args=("p", "q", "guessed", "u"),
    returns=("next_p", "kept"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        ratio_turned,
        by_p_alone,
        no_chance,
        most_probable,
        u_turned,
        one_draw_for_all,
        all_that_stand,
        rejected_counted,
        all_or_nothing,
        from_p,
        from_q,
        guess_forbidden,
        difference_turned,
        absolute_difference,
        not_divided,
        first_row,
        row_after,
        last_guess_again,
        last_row_less_q,
        zeroed_in_place,
        float64_leak,
    ),
    variants=(accumulated, padded, loops),
    hints=(
        "Two questions: how many guesses stand before the first that falls, and where does the next token come from?",
        "Guess i stands if `u[i] < p[i, x] / q[i, x]`, with x = guessed[i]. Stop at the first that does not.",
        "If all stand, kept is n, and next_p is p's last row. Otherwise look at row `kept` of both p and q.",
        "`rest = np.maximum(p[kept] - q[kept], 0)` is what the draft lacks there; divide it by its sum.",
    ),
    library=("scratch.generate.speculate",),
    takeaway="min(p, q) + max(p − q, 0) = p: what the guess gives too little of, the second draw makes up.",
)
