"""Exercise residual-backward: the gradient of a stack of blocks with two linear branches each, walked back by hand."""

import numpy as np

from exercises.spec import Code
from scratch import ops


def reference(dy, x, a, f):
    """dy, x [B, T, D]; a, f [L, D, D]. Returns dx [B, T, D], da and df [L, D, D]."""
    caches = []
    for wa, wf in zip(a, f):
        branch, cache_a = ops.linear_forward(x, wa)
        u = x + branch
        branch, cache_f = ops.linear_forward(u, wf)
        x = u + branch
        caches.append((cache_a, cache_f))
    da, df, dx = np.zeros_like(a), np.zeros_like(f), dy
    for layer, (cache_a, cache_f) in reversed(list(enumerate(caches))):
        back, df[layer] = ops.linear_backward(dx, cache_f)
        du = dx + back
        back, da[layer] = ops.linear_backward(du, cache_a)
        dx = du + back
    return dx, da, df


def cases(rng):
    """Ascending. Branches about as strong as the stream, so that no road can be left out; some of them silent."""

    def case(B, T, D, L, scale=1.0):
        a, f = rng.standard_normal((2, L, D, D)) / np.sqrt(D)
        return rng.standard_normal((B, T, D)), rng.standard_normal((B, T, D)) * scale, a, f

    # numbers of one decimal, to work through by hand; whole tenths, none of them zero
    shapes = ((1, 1, 2), (1, 1, 2), (1, 2, 2), (1, 2, 2))
    yield tuple(rng.choice([-1, 1], shape) * rng.integers(1, 10, shape) / 10 for shape in shapes)
    dy, x, a, f = case(1, 3, 2, 2)
    f[0] = 0  # a branch that adds nothing: its weights have a gradient nevertheless
    dy[0, 1] = 0  # and a token that nobody asks about
    yield dy, x, a, f
    yield case(2, 1, 3, 1, 1e3)
    yield case(2, 3, 2, 4, 1e-3)
    yield case(1, 2, 4, 3)
    dy, x, a, f = case(3, 2, 3, 5, 10.0 ** rng.integers(-3, 4, (3, 2, 1)))  # each row its own scale
    a[2] = 0
    yield dy, x, a, f
    yield case(2, 5, 4, 3, 10.0 ** rng.uniform(-3, 3))


def large(rng):
    """32,000 entries in x: a forward takes a blink, one for each of them does not. One layer, for plain loops' sake."""
    a, f = rng.standard_normal((2, 1, 2, 2)) / 2
    return rng.standard_normal((4, 4000, 2)), rng.standard_normal((4, 4000, 2)), a, f


def loss(dy, x, a, f):
    """Σ dy ⊙ y."""
    for wa, wf in zip(a, f):
        u = x + x @ wa
        x = u + u @ wf
    return (dy * x).sum()


def rounding(dy, x, a, f):
    """In units of u. A step x + x @ w takes D + 2 roundings of its terms' absolute values, and passes x's error on;
    the way back likewise. A weight's gradient adds up B·T products of two arrays that have errors already."""
    D, rows = x.shape[-1], x[..., 0].size

    def step(value, error, w):
        through = np.abs(value) + np.abs(value) @ np.abs(w)
        return value + value @ w, error + error @ np.abs(w) + (D + 2) * through

    def product(one, one_error, two, two_error):
        one, one_error, two, two_error = (np.abs(v).reshape(-1, D) for v in (one, one_error, two, two_error))
        return one_error.T @ two + one.T @ two_error + (rows + 1) * one.T @ two

    error, seen = np.zeros_like(x), []
    for wa, wf in zip(a, f):
        u, u_error = step(x, error, wa)
        seen.append((x, error, u, u_error))
        x, error = step(u, u_error, wf)
    da, df, back = np.zeros_like(a), np.zeros_like(f), np.zeros_like(dy)
    for layer in reversed(range(len(a))):
        x, error, u, u_error = seen[layer]
        df[layer] = product(u, u_error, dy, back)
        du, du_error = step(dy, back, f[layer].T)
        da[layer] = product(x, error, du, du_error)
        dy, back = step(du, du_error, a[layer].T)
    return back, da, df


def _streams(x, a, f):
    """(x, u) of every layer, in the forward's order."""
    seen = []
    for wa, wf in zip(a, f):
        u = x + x @ wa
        seen.append((x, u))
        x = u + u @ wf
    return seen


def _outer(one, two):
    """Σ over all rows of the column `one` times the row `two`: [D, D]."""
    return one.reshape(-1, one.shape[-1]).T @ two.reshape(-1, two.shape[-1])


def _walk(dy, x, a, f, *, order=-1, second=1, first=1, turned=True, early=False, of_f=_outer, of_a=_outer):
    """The right way back, with room to put one thing wrong."""
    seen = _streams(x, a, f)
    da, df = np.zeros_like(a), np.zeros_like(f)
    for layer in range(len(a))[::order]:
        x, u = seen[layer]
        wa, wf = (a[layer].T, f[layer].T) if turned else (a[layer], f[layer])
        df[layer] = of_f(u, dy)
        du = second * dy + dy @ wf
        reads = dy if early else du
        da[layer] = of_a(x, reads)
        dy = first * du + reads @ wa
    return dy, da, df


# ---- wrong answers; each docstring is what its author will read ----


def zero(dy, x, a, f):
    """A gradient of zeros is right only where nothing depends on x."""
    _, da, df = _walk(dy, x, a, f)
    return np.zeros_like(x), da, df


def no_straight_road(dy, x, a, f):
    """Your gradient takes the branches alone. At each add it also goes straight on: du = dy + …, dx = du + …"""
    return _walk(dy, x, a, f, first=0, second=0)


def no_straight_second(dy, x, a, f):
    """Your du is what came through f. y = u + u @ f holds u twice: the straight road is missing there."""
    return _walk(dy, x, a, f, second=0)


def no_straight_first(dy, x, a, f):
    """Your dx is what came through a. u = x + x @ a holds x twice: the straight road is missing there."""
    return _walk(dy, x, a, f, first=0)


def straight_twice(dy, x, a, f):
    """Your dx counts the straight road twice at the first add: u = x + x @ a holds x once by itself."""
    return _walk(dy, x, a, f, first=2)


def straight_alone(dy, x, a, f):
    """Your dx took the straight road alone. Each branch read the stream too, and sends its share back."""
    seen = _streams(x, a, f)
    da, df = (np.stack([_outer(pair[at], dy) for pair in seen]) for at in (0, 1))
    return dy.copy(), da, df


def before_f_arrived(dy, x, a, f):
    """Branch a got dy instead of du: it feeds u, which also goes through f, and that share was not collected yet."""
    return _walk(dy, x, a, f, early=True)


def first_layer_first(dy, x, a, f):
    """You walked from the first layer to the last. dy arrives at the last one: backward starts there."""
    return _walk(dy, x, a, f, order=1)


def weights_not_transposed(dy, x, a, f):
    """You multiplied by the weights as the forward does. Backward, out = x @ w gives dx = dout @ w.T."""
    return _walk(dy, x, a, f, turned=False)


def df_reads_x(dy, x, a, f):
    """Your df uses x; what f multiplied was u, the stream between the two branches."""
    seen = _streams(x, a, f)
    out = _walk(dy, x, a, f)
    grads, dy = [], dy
    for layer in reversed(range(len(a))):
        grads.append(_outer(seen[layer][0], dy))
        du = dy + dy @ f[layer].T
        dy = du + du @ a[layer].T
    return out[0], out[1], np.stack(grads[::-1])


def da_reads_u(dy, x, a, f):
    """Your da uses u; what a multiplied was x, the stream as it came into the layer."""
    seen = _streams(x, a, f)
    out = _walk(dy, x, a, f)
    grads, dy = [], dy
    for layer in reversed(range(len(a))):
        du = dy + dy @ f[layer].T
        grads.append(_outer(seen[layer][1], du))
        dy = du + du @ a[layer].T
    return out[0], np.stack(grads[::-1]), out[2]


def one_input_for_all(dy, x, a, f):
    """You used the stack's input in every layer. Layer by layer the stream grows: keep each layer's x and u."""
    dx, _, _ = _walk(dy, x, a, f)
    da, df = np.zeros_like(a), np.zeros_like(f)
    for layer in reversed(range(len(a))):
        u = x + x @ a[layer]
        df[layer] = _outer(u, dy)
        du = dy + dy @ f[layer].T
        da[layer] = _outer(x, du)
        dy = du + du @ a[layer].T
    return dx, da, df


def df_gets_du(dy, x, a, f):
    """Your df uses du. What reaches the output of branch f is dy; du is what reaches its input."""
    dx, da, _ = _walk(dy, x, a, f)
    df = np.zeros_like(f)
    for layer, (_, u) in reversed(list(enumerate(_streams(x, a, f)))):
        du = dy + dy @ f[layer].T
        df[layer] = _outer(u, du)
        dy = du + du @ a[layer].T
    return dx, da, df


def da_gets_dx(dy, x, a, f):
    """Your da uses dx. What reaches the output of branch a is du; dx is what reaches its input."""
    dx, _, df = _walk(dy, x, a, f)
    da = np.zeros_like(a)
    for layer, (x_in, _) in reversed(list(enumerate(_streams(x, a, f)))):
        du = dy + dy @ f[layer].T
        dy = du + du @ a[layer].T
        da[layer] = _outer(x_in, dy)
    return dx, da, df


def same_dy_for_all(dy, x, a, f):
    """Every layer got the same dy. Hand each layer's dx to the layer before it, as its dy."""
    da, df = np.zeros_like(a), np.zeros_like(f)
    for layer, (x_in, u) in reversed(list(enumerate(_streams(x, a, f)))):
        df[layer] = _outer(u, dy)
        du = dy + dy @ f[layer].T
        da[layer] = _outer(x_in, du)
        dx = du + du @ a[layer].T
    return dx, da, df


def dx_of_the_last_layer(dy, x, a, f):
    """Your dx belongs to the last layer's input. Asked for is the gradient at the input of the whole stack."""
    _, da, df = _walk(dy, x, a, f)
    du = dy + dy @ f[-1].T
    return du + du @ a[-1].T, da, df


def order_of_finding(dy, x, a, f):
    """Your da and df are in the order in which you found them, last layer first. da[0] belongs to a[0]: turn them."""
    dx, da, df = _walk(dy, x, a, f)
    return dx, da[::-1].copy(), df[::-1].copy()


def gradients_transposed(dy, x, a, f):
    """Your da and df are transposed: out = x @ w has dw = x.T @ dout, input first."""
    dx, da, df = _walk(dy, x, a, f)
    return dx, da.swapaxes(1, 2).copy(), df.swapaxes(1, 2).copy()


def mean_for_sum(dy, x, a, f):
    """Your da and df are means over the rows. Every token used the whole matrix, so their shares add up."""
    dx, da, df = _walk(dy, x, a, f)
    return dx, da / x[..., 0].size, df / x[..., 0].size


def not_summed(dy, x, a, f):
    """Your da and df have one gradient for each sequence. All share one matrix: sum over B too."""

    def each(one, two):
        return one.swapaxes(1, 2) @ two

    seen, da, df, dx = _streams(x, a, f), [], [], dy
    for layer in reversed(range(len(a))):
        df.append(each(seen[layer][1], dx))
        du = dx + dx @ f[layer].T
        da.append(each(seen[layer][0], du))
        dx = du + du @ a[layer].T
    return dx, np.stack(da[::-1]), np.stack(df[::-1])


def last_sequence(dy, x, a, f):
    """Your da and df hold the last sequence alone. In a loop over B, add to them; do not assign."""
    dx, _, _ = _walk(dy, x, a, f)
    _, da, df = _walk(dy[-1:], x[-1:], a, f)
    return dx, da, df


def in_place(dy, x, a, f):
    """`dy += …` writes into the caller's array; `du = dy + …` makes a new one."""
    _, da, df = _walk(dy.copy(), x, a, f)
    for layer in reversed(range(len(a))):
        dy += dy @ f[layer].T
        dy += dy @ a[layer].T
    return dy.copy(), da, df


def same_array(dy, x, a, f):
    """`du = dy` gives the same array a second name, so `du += …` changes dy before df has read it: make a new one."""
    seen, da, df = _streams(x, a, f), np.zeros_like(a), np.zeros_like(f)
    for layer in reversed(range(len(a))):
        du = dy
        du += dy @ f[layer].T
        df[layer] = _outer(seen[layer][1], dy)
        da[layer] = _outer(seen[layer][0], du)
        dy = du + du @ a[layer].T
    return dy, da, df


def float64_leak(dy, x, a, f):
    """Somewhere your float32 becomes float64 (`astype(float)`, an array that NumPy made by itself, such as
    `np.zeros(shape)`); it then doubles the memory of all that follows."""
    return _walk(*(v.astype(np.float64) for v in (dy, x, a, f)))


# ---- right answers, written otherwise ----


def loops(dy, x, a, f):
    """Plain Python loops over every token and feature."""
    (L, D, _), features = a.shape, range(a.shape[1])
    dx, A, F = np.zeros_like(x), a.tolist(), f.tolist()
    da, df = ([[[0.0] * D for _ in features] for _ in range(L)] for _ in range(2))
    for index in np.ndindex(x.shape[:-1]):
        row, seen, grad = x[index].tolist(), [], dy[index].tolist()
        for wa, wf in zip(A, F):
            u = [row[j] + sum([row[i] * wa[i][j] for i in features]) for j in features]
            seen.append((row, u))
            row = [u[j] + sum([u[i] * wf[i][j] for i in features]) for j in features]
        for layer in reversed(range(L)):
            row, u = seen[layer]
            middle = [grad[i] + sum([w * g for w, g in zip(F[layer][i], grad)]) for i in features]
            for i in features:
                for j in features:
                    df[layer][i][j] += u[i] * grad[j]
                    da[layer][i][j] += row[i] * middle[j]
            grad = [middle[i] + sum([w * g for w, g in zip(A[layer][i], middle)]) for i in features]
        dx[index] = grad
    return dx, np.array(da, a.dtype), np.array(df, f.dtype)


def whole_matrices(dy, x, a, f):
    """Each step as one matrix, I + a or I + f."""
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    steps = [m for wa, wf in zip(a, f) for m in (eye + wa, eye + wf)]
    inputs = [x]
    for m in steps:
        inputs.append(inputs[-1] @ m)
    grads = []
    for m, before in zip(steps[::-1], inputs[-2::-1]):
        grads.insert(0, np.tensordot(before, dy, axes=([0, 1], [0, 1])))
        dy = dy @ m.T
    return dy, np.stack(grads[::2]), np.stack(grads[1::2])


def einsum(dy, x, a, f):
    """einsum, with all that the forward passed kept in two arrays."""
    L = len(a)
    xs, us = np.empty((L, *x.shape), x.dtype), np.empty((L, *x.shape), x.dtype)
    for i in range(L):
        xs[i], us[i] = x, x + np.einsum("btd,de->bte", x, a[i])
        x = us[i] + np.einsum("btd,de->bte", us[i], f[i])
    dys, dus = np.empty_like(xs), np.empty_like(xs)
    for i in range(L)[::-1]:
        dys[i] = dy
        dus[i] = dy + np.einsum("bte,de->btd", dy, f[i])
        dy = dus[i] + np.einsum("bte,de->btd", dus[i], a[i])
    return dy, np.einsum("lbtd,lbte->lde", xs, dus), np.einsum("lbtd,lbte->lde", us, dys)


def tape(dy, x, a, f):
    """A list of functions, one for each step forward, called from the last to the first."""
    grads, back = {}, []

    def branch(value, w, name):
        def undo(d):
            grads[name] = value.reshape(-1, w.shape[0]).T @ d.reshape(-1, w.shape[1])
            return d + d @ w.T

        back.append(undo)
        return value + value @ w

    for layer in range(len(a)):
        x = branch(branch(x, a[layer], ("a", layer)), f[layer], ("f", layer))
    for undo in reversed(back):
        dy = undo(dy)
    return dy, *(np.stack([grads[name, layer] for layer in range(len(a))]) for name in "af")


def recursive(dy, x, a, f):
    """The first layer asks the rest of the stack what reaches it."""
    if not len(a):
        return dy.copy(), a.copy(), f.copy()
    u = x + x @ a[0]
    dy, da, df = recursive(dy, u + u @ f[0], a[1:], f[1:])
    du = dy + dy @ f[0].T
    here = np.einsum("btd,bte->de", x, du), np.einsum("btd,bte->de", u, dy)
    return du + du @ a[0].T, np.concatenate([here[0][None], da]), np.concatenate([here[1][None], df])


exercise = Code(
    id="residual-backward",
    title="Back through a stack",
    chapter="08_backward",
    answer="stack_gradients",
    points=3,
    stars=2,
    minutes=25,
    args=("dy", "x", "a", "f"),
    returns=("dx", "da", "df"),
    cases=cases,
    reference=reference,
    rounding=rounding,
    mutants=(
        zero,
        no_straight_road,
        no_straight_second,
        no_straight_first,
        straight_twice,
        straight_alone,
        before_f_arrived,
        first_layer_first,
        weights_not_transposed,
        df_reads_x,
        da_reads_u,
        one_input_for_all,
        df_gets_du,
        da_gets_dx,
        same_dy_for_all,
        dx_of_the_last_layer,
        order_of_finding,
        gradients_transposed,
        mean_for_sum,
        not_summed,
        last_sequence,
        in_place,
        same_array,
        float64_leak,
    ),
    variants=(loops, whole_matrices, einsum, tape, recursive),
    hints=(
        "Start with one layer. Undo y = u + u @ f first, then u = x + x @ a.\n"
        "Each gives a gradient of the stream and one of a matrix.",
        "At y = u + u @ f the gradient goes straight on and through the branch: du = dy + dy @ f.T.\n"
        "The matrix collects from all rows: df = Σ u.T @ dy, over B and T.",
        "The first add in the same way, with du in the place of dy: dx = du + du @ a.T, da = Σ x.T @ du.",
        "You need every layer's own x and u. Run the forward once and keep them in a list.",
        "Then `for layer in reversed(range(len(a)))`: what one layer calls dx, the layer before it calls dy.\n"
        "`u.reshape(-1, D).T @ dy.reshape(-1, D)` sums over all rows; `np.zeros_like(a)` keeps the dtype.",
    ),
    library=(),
    loss=loss,
    large=large,
    takeaway="Two lines a layer, and each add sends the gradient straight on and through its branch: "
    "dx = dy (I + f)ᵀ (I + a)ᵀ.",
)
