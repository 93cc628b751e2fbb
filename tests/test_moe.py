"""Mixture of experts: what it must equal, what a token costs, ties, experts without tokens, and wrong calls."""

import numpy as np
import pytest

from scratch import account, ffn, moe, ops
from scratch.gradcheck import fact, relative_error

LIMIT = 1e-12
B, T, D, E, F = 3, 5, 7, 4, 6


def draw(experts=E, seed=0, dtype=np.float64):
    """x, router, wg, wu, wd."""
    rng = np.random.default_rng(seed)
    shapes = ((B, T, D), (D, experts), (experts, D, F), (experts, D, F), (experts, F, D))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def run(args, seed=1, **options):
    """(out, gradients, upstream)."""
    out, cache = moe.moe_forward(*args, **options)
    dout = np.random.default_rng(seed).standard_normal(out.shape).astype(out.dtype)
    return out, moe.moe_backward(dout, cache), dout


def close(got, expected):
    assert relative_error(got, expected) < LIMIT


@pytest.mark.parametrize("renormalize", [True, False])
def test_one_expert_is_swiglu(renormalize):
    x, router, *experts = args = draw(experts=1)
    out, (dx, drouter, *dexperts), dout = run(args, top_k=1, renormalize=renormalize)
    expected, cache = ffn.swiglu_forward(x, *(w[0] for w in experts))
    close(out, expected)
    for got, gradient in zip((dx, *dexperts), ffn.swiglu_backward(dout, cache), strict=True):
        close(got.reshape(gradient.shape), gradient)
    assert np.abs(drouter).max() == 0  # its one weight is 1 whatever the logit


@pytest.mark.parametrize("top_k", [1, 2, 3, 4])
def test_equal_experts_are_one_swiglu(top_k):
    x, router, *experts = draw()
    experts = [np.repeat(w[:1], E, axis=0) for w in experts]
    out, (dx, drouter, *dexperts), dout = run([x, router, *experts], top_k=top_k)
    expected, cache = ffn.swiglu_forward(x, *(w[0] for w in experts))
    close(out, expected)
    close(dx, ffn.swiglu_backward(dout, cache)[0])
    for got, gradient in zip(dexperts, ffn.swiglu_backward(dout, cache)[1:], strict=True):
        close(got.sum(axis=0), gradient)  # the copies share the tokens among them
    assert np.abs(drouter).max() < 1e-12 * np.abs(dx).max()  # nothing to gain from another expert


def test_the_order_of_the_experts_is_nothing():
    x, router, *experts = draw()
    order = np.array([2, 0, 3, 1])
    out, (dx, drouter, *dexperts), _ = run([x, router, *experts], top_k=2)
    again, (dx2, drouter2, *dexperts2), _ = run([x, router[:, order], *(w[order] for w in experts)], top_k=2)
    close(again, out)
    close(dx2, dx)
    close(drouter2, drouter[:, order])
    for got, expected in zip(dexperts2, dexperts, strict=True):
        close(got, expected[order])


def test_all_experts_chosen_is_the_dense_mixture():
    x, router, wg, wu, wd = draw()
    hidden = ops.silu_forward(np.einsum("btd,edf->btef", x, wg))[0] * np.einsum("btd,edf->btef", x, wu)
    weights = ops.softmax_forward(x @ router)[0]
    dense = np.einsum("bte,btef,efd->btd", weights, hidden, wd)
    for renormalize in (True, False):
        close(moe.moe_forward(x, router, wg, wu, wd, top_k=E, renormalize=renormalize)[0], dense)


@pytest.mark.parametrize("shape", [(D,), (B * T, D), (B, T, D), (1, B, T, D)])
def test_leading_axes_are_tokens(shape):
    x, *weights = draw()
    expected, (dx, *grads), dout = run([x.reshape(-1, D)[: np.prod(shape[:-1], dtype=int)], *weights], top_k=2)
    out, cache = moe.moe_forward(x.reshape(-1)[: np.prod(shape)].reshape(shape), *weights, top_k=2)
    assert out.shape == shape
    close(out.reshape(-1, D), expected)
    got = moe.moe_backward(dout.reshape(shape), cache)
    close(got[0], dx.reshape(shape))
    for one, other in zip(got[1:], grads, strict=True):
        close(one, other)
    chosen, weights, counts = moe.route(x.reshape(-1)[: np.prod(shape)].reshape(shape), weights[0], 2)
    assert chosen.shape == weights.shape == (*shape[:-1], 2) and counts.sum() == chosen.size


def test_route_takes_the_largest_logits_and_counts_them():
    x, router, *_ = draw()
    logits = x @ router
    chosen, weights, counts = moe.route(x, router, 2)
    of_chosen = np.take_along_axis(logits, chosen, axis=-1)
    assert np.array_equal(of_chosen, np.sort(logits, axis=-1)[..., :-3:-1])
    close(weights, ops.softmax_forward(of_chosen)[0])
    close(weights.sum(axis=-1), np.ones((B, T)))
    assert counts.tolist() == [int((chosen == e).sum()) for e in range(E)] and counts.sum() == 2 * B * T
    over_all = moe.route(x, router, 2, renormalize=False)
    assert np.array_equal(over_all[0], chosen)
    close(over_all[1], np.take_along_axis(ops.softmax_forward(logits)[0], chosen, axis=-1))
    assert (over_all[1].sum(axis=-1) < 1).all()


@pytest.mark.parametrize("top_k", [1, 2, 3, 4])
def test_of_equal_logits_the_lowest_index_wins(top_k):
    x, router, *_ = draw()
    assert (moe.route(x, 0 * router, top_k)[0] == np.arange(top_k)).all()
    x, router = np.round(8 * x) / 8, np.round(8 * router) / 8  # products without rounding, whatever the kernel
    router[:, 1] = router[:, 3]
    chosen = moe.route(x, router, top_k)[0]
    one = (chosen == 1).any(axis=-1)
    assert one[(chosen == 3).any(axis=-1)].all()  # 3 is never there without 1


def test_an_expert_without_tokens_has_gradient_zero():
    x, router, *experts = draw()
    x, router[:, 2] = np.abs(x), -9
    assert moe.route(x, router, 2)[2][2] == 0
    out, (_, drouter, *dexperts), _ = run([x, router, *experts], top_k=2)
    assert all(np.abs(dw[2]).max() == 0 < np.abs(dw[0]).max() for dw in dexperts)
    assert np.abs(drouter[:, 2]).max() == 0
    assert np.abs(run([x, router, *experts], top_k=2, renormalize=False)[1][1][:, 2]).max() > 0  # its p is in the sum


def test_with_one_expert_a_token_only_the_softmax_over_all_teaches_the_router():
    args = draw()
    assert np.abs(run(args, top_k=1)[1][1]).max() == 0
    assert np.abs(run(args, top_k=1, renormalize=False)[1][1]).max() > 0.1


def test_no_token_at_all():
    x, *weights = draw()
    out, grads, _ = run([x[:0], *weights], top_k=2)
    assert out.shape == (0, T, D) and grads[0].shape == (0, T, D)
    assert all(np.abs(g).max() == 0 and g.shape == w.shape for g, w in zip(grads[1:], weights, strict=True))
    loss, cache = moe.load_balance_forward(np.zeros((0, E)), np.zeros((0, 2), dtype=int))
    assert loss == 0 and moe.load_balance_backward(1.0, cache).shape == (0, E)


@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_operations_of_a_token_do_not_grow_with_the_experts(top_k):
    """F86: besides the router's 2·D·E. Backward costs twice the forward."""
    for experts in (4, 16, 64):

        def both(*args):
            out, cache = moe.moe_forward(*args, top_k=top_k)
            return moe.moe_backward(out, cache)

        args = draw(experts)
        _, forward = account.counted_flops(moe.moe_forward, *args, top_k=top_k)
        fact("F86", forward["weights"] - B * T * 2 * D * experts, B * T * top_k * 6 * D * F)
        _, total = account.counted_flops(both, *args)
        assert total == {"weights": 3 * forward["weights"], "attention": 0}


# ── the loss that balances ──


def test_the_loss_is_one_when_balanced_and_e_when_one_expert_takes_all():
    logits = np.random.default_rng(2).standard_normal((2, 6, E))
    turns = (np.arange(12).reshape(2, 6, 1) + np.arange(2)) % E  # each expert equally often
    assert moe.load_balance_forward(logits, turns)[0] == pytest.approx(1, abs=1e-14)
    assert moe.load_balance_forward(0 * logits, 0 * turns)[0] == pytest.approx(1, abs=1e-14)  # P is even
    assert moe.load_balance_forward(np.array([0.0, 2.0]), np.array([1]))[0] == pytest.approx(2 / (1 + np.exp(-2)))
    logits[..., 1] = 1e3
    assert moe.load_balance_forward(logits, np.ones((2, 6, 1), dtype=int))[0] == E
    grads = [moe.load_balance_backward(1.0, moe.load_balance_forward(logits, turns)[1])]
    assert np.abs(grads).max() < 1e-15  # balanced, so nothing to do


def test_a_step_down_the_loss_evens_the_load():
    x, router, *_ = draw(seed=4)
    x += 1
    router[:, 0] += 1  # expert 0 is the favourite
    before, losses = moe.route(x, router, 2)[2], []
    for _ in range(200):
        logits, cache_logits = ops.linear_forward(x, router)
        loss, cache = moe.load_balance_forward(logits, moe.route(x, router, 2)[0])
        router = router - 0.1 * ops.linear_backward(moe.load_balance_backward(1.0, cache), cache_logits)[1]
        losses.append(loss)
    assert losses[-1] < losses[0] and np.ptp(moe.route(x, router, 2)[2]) < np.ptp(before)


# ── promises of every pair ──


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_dtype_stays_and_nothing_given_is_changed(dtype, scale):
    args = draw(dtype=dtype)
    args[0] *= dtype(scale)
    copies = [a.copy() for a in args]
    out, cache = moe.moe_forward(*args, top_k=2)
    dout = np.ones_like(out)
    first, second = moe.moe_backward(dout, cache), moe.moe_backward(dout, cache)
    chosen, weights, _ = moe.route(*args[:2], 2)
    logits = args[0] @ args[1]
    loss, cache_loss = moe.load_balance_forward(logits, chosen)
    dlogits = moe.load_balance_backward(1.0, cache_loss)
    assert {a.dtype for a in (out, weights, loss, dlogits, *first)} == {np.dtype(dtype)}
    assert np.isfinite(loss) and all(np.isfinite(a).all() for a in (out, dlogits, *first))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(args, copies, strict=True)) and (dout == 1).all()
    exact = moe.moe_forward(*(a.astype(np.float64) for a in args), top_k=2)[0]
    assert relative_error(out, exact) < (1e-5 if dtype == np.float32 else 1e-15)


X, ROUTER, WG, WU, WD = draw()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: moe.moe_forward([1.0], ROUTER, WG, WU, WD, top_k=2), "moe_forward: x must be a NumPy array of floats"),
        (
            lambda: moe.moe_forward(X, ROUTER[1:], WG, WU, WD, top_k=2),
            r"moe_forward: router has shape \(6, 4\), expected \(7, 4\) = \[D, E\]",
        ),
        (lambda: moe.moe_forward(X, ROUTER[0], WG, WU, WD, top_k=2), "moe_forward: router must have 2 axes"),
        (lambda: moe.moe_forward(X, ROUTER, WG, WU, WD, top_k=0), "moe_forward: top_k=0, expected 1 … 4"),
        (lambda: moe.moe_forward(X, ROUTER, WG, WU, WD, top_k=5), "moe_forward: top_k=5, expected 1 … 4"),
        (lambda: moe.route(X, ROUTER, 2.0), "route: top_k=2.0, expected 1 … 4, the number of experts"),
        (lambda: moe.moe_forward(X, ROUTER, WG[0], WU, WD, top_k=2), "moe_forward: wg must have 3 axes"),
        (
            lambda: moe.moe_forward(X, ROUTER, WG[:3], WU, WD, top_k=2),
            r"wg has shape \(3, 7, 6\), expected \(4, 7, 6\)",
        ),
        (lambda: moe.moe_forward(X, ROUTER, WG, WD, WD, top_k=2), r"wu has shape \(4, 6, 7\), expected \(4, 7, 6\)"),
        (lambda: moe.moe_forward(X, ROUTER, WG, WU, WU, top_k=2), r"wd .* expected \(4, 6, 7\) = \[E, F, D\]"),
        (
            lambda: moe.moe_backward(X[0], moe.moe_forward(X, ROUTER, WG, WU, WD, top_k=2)[1]),
            r"moe_backward: dout has shape \(5, 7\), expected \(3, 5, 7\)",
        ),
        (
            lambda: moe.load_balance_forward(X, np.full((3, 5, 1), 7)),
            "load_balance_forward: chosen contains 7, expected 0 … 6",
        ),
        (
            lambda: moe.load_balance_forward(X, np.zeros((3, 5), dtype=int)),
            r"load_balance_forward: chosen has shape \(3, 5\), expected \(3, 5, top_k\)",
        ),
        (
            lambda: moe.load_balance_backward(X, moe.load_balance_forward(X, np.zeros((3, 5, 1), dtype=int))[1]),
            r"load_balance_backward: dout has shape \(3, 5, 7\), expected a scalar",
        ),
    ],
)
def test_a_wrong_call_is_told_what_was_expected(call, said):
    with pytest.raises(ValueError, match=said):
        call()
