"""Group trend filtering: a signal of straight pieces that bends rarely, by its dual.

    min over X   1/2 sum_t w_t |X_t - Y_t|^2 + alpha sum_t |X_(t+2) - 2 X_(t+1) + X_t|_q

In the dual, block t is the price U_t of a kink at row t + 1,

    min over U   1/2 sum_t w_t (|X_t|^2 - |Y_t|^2),
                 X_t = Y_t - (U_t - 2 U_(t-1) + U_(t-2)) / w_t,     |U_t|_p <= alpha

with 1/p + 1/q = 1. It is the group fused lasso (`fused_lasso`) with second differences
in place of first ones: an atom touches three rows of v, whose row t is sqrt(w_t) X_t,
and the gradient of block t is minus the bend, -(X_(t+2) - 2 X_(t+1) + X_t).
"""

from typing import Any

import numpy as np

from wolfpack import sets
from wolfpack.kernels.compile import jit
from wolfpack.problem import Problem
from wolfpack.problems.fused_lasso import (
    LARGEST,
    TOLERANCE,
    Signal,
    dual_ball,
    dual_norm,
    read_signal,
    refuse_size,
    slope,
    value,
)
from wolfpack.update.pieces import fit_lines


@jit
def score(data, shared, t, atom):
    """<u, grad_t f> = -<u, X_(t+2) - 2 X_(t+1) + X_t>."""
    first, middle, last = data.roots[t], data.roots[t + 1], data.roots[t + 2]
    total = 0.0
    for j in range(atom.size):
        bend = 2.0 * middle * shared[t + 1, j] - first * shared[t, j]
        total += atom[j] * (bend - last * shared[t + 2, j])
    return total


@jit
def add(data, t, atom, scale, out):
    """v_t -= scale r_t u, v_(t+1) += 2 scale r_(t+1) u, v_(t+2) -= scale r_(t+2) u."""
    first, middle = scale * data.roots[t], 2.0 * scale * data.roots[t + 1]
    last = scale * data.roots[t + 2]
    for j in range(atom.size):
        out[t, j] -= first * atom[j]
        out[t + 1, j] += middle * atom[j]
        out[t + 2, j] -= last * atom[j]
    return 0.0


@jit
def bend_of(data, t):
    """Return |A_t e|^2 of a unit vector e."""
    first, middle, last = data.roots[t], data.roots[t + 1], data.roots[t + 2]
    return first * first + 4.0 * middle * middle + last * last


@jit
def curvature(data, t, move, work):
    """|A_t d|^2 = (r_t^2 + 4 r_(t+1)^2 + r_(t+2)^2) |d|^2."""
    total = 0.0
    for j in range(move.size):
        total += move[j] * move[j]
    return bend_of(data, t) * total


@jit
def touched(data, t, move, rows, work):
    """Rows t, t + 1 and t + 2."""
    for k in range(3):
        rows[k] = t + k
    return 3


@jit
def set_gradient(data, shared, t, gradient):
    """Write -(X_(t+2) - 2 X_(t+1) + X_t)."""
    first, middle, last = data.roots[t], data.roots[t + 1], data.roots[t + 2]
    for j in range(gradient.size):
        bend = 2.0 * middle * shared[t + 1, j] - first * shared[t, j]
        gradient[j] = bend - last * shared[t + 2, j]


def on_ball(ball: sets.Set) -> dict[str, Any]:
    """Return the functions that depend on the norm."""
    minimise, inside = ball.minimise, ball.contains
    project: Any = ball.project

    @jit
    def oracle(data, shared, t, atom, work):
        set_gradient(data, shared, t, work[0])
        minimise(data.ball, 0, work[0], atom)
        return score(data, shared, t, atom)

    @jit
    def minimiser(data, shared, t, atom, work, reach):
        set_gradient(data, shared, t, work[0])
        step = 1.0 / bend_of(data, t) / reach
        for j in range(atom.size):
            atom[j] -= step * work[0][j]
        project(data.ball, 0, atom)

    @jit
    def contains(data, t, atom):
        return inside(data.ball, 0, atom, TOLERANCE)

    exact = None if project is None else minimiser
    return {"oracle": oracle, "minimiser": exact, "contains": contains}


def is_bent_signal(problem: Problem) -> bool:
    """Return whether `group_trend_filter` made the problem."""
    return problem.add is add


def fit_line(Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the straight signal nearest to Y."""
    w = np.ones(len(Y)) if weights is None else weights
    time = np.arange(len(Y)) - np.average(np.arange(len(Y)), weights=w)
    mean = np.average(Y, axis=0, weights=w)
    slope = (w * time) @ (Y - mean) / (w @ np.square(time))
    return mean + time[:, np.newaxis] * slope


def straight_prices(Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the U that makes X straight; it is feasible if alpha is large enough."""
    apart = Y - fit_line(Y, weights)
    if weights is not None:
        apart *= weights[:, np.newaxis]
    return np.cumsum(np.cumsum(apart, axis=0), axis=0)[:-2]


def largest_alpha(Y: np.ndarray, q: float, weights: np.ndarray | None) -> float:
    """Return the smallest alpha for which the recovered signal is straight."""
    prices = straight_prices(np.asarray(Y, np.float64), weights)
    return float(np.linalg.norm(prices, ord=dual_norm(q), axis=1).max())


def rough_optimum(
    Y: np.ndarray, alpha: float, q: float, weights: np.ndarray | None
) -> float:
    """Return the least objective of Y itself, a line, and equally long straight pieces.

    Where a signal goes far up and down, that of a line is far above the optimum.
    """
    w = np.ones(len(Y)) if weights is None else weights

    def primal(X: np.ndarray) -> float:
        bends = np.linalg.norm(np.diff(X, 2, axis=0), ord=q, axis=1).sum()
        return float(0.5 * (w @ np.square(X - Y)).sum() + alpha * bends)

    best, count = min(primal(Y), primal(np.zeros_like(Y))), 1
    while 2 * count < len(Y):
        count *= 2
        knots = np.linspace(0, len(Y) - 1, count + 1).astype(np.intp)
        best = min(best, primal(fit_lines(Y, knots[1:-1], w)))
    return best


def group_trend_filter(
    Y: np.ndarray,
    alpha: float,
    *,
    q: float = 2.0,
    weights: np.ndarray | None = None,
) -> Problem:
    """Return the dual of group trend filtering: straight pieces, and kinks.

    Parameters
    ----------
    Y : array of shape (n, d)
        The noisy signal, one row per time; n is at least 3.
    alpha : float
        The price of a bend.
    q : float
        The norm of a bend, q >= 1 or `numpy.inf`.
    weights : array of n, optional
        A positive weight per row.

    Returns
    -------
    Problem
        Of n - 2 blocks. `Result.solution` is X; the primal objective is minus
        `Result.lower_bound`, the dual one minus `Result.objective`. Block steps need
        of the order of n^4 passes: use `engine=InteriorPoint()`.

    References
    ----------
    S.-J. Kim, K. Koh, S. Boyd and D. Gorinevsky, "l1 trend filtering", SIAM Review
    51(2), 2009, for one column.

    Examples
    --------
    >>> import numpy as np, wolfpack
    >>> Y = np.abs(np.arange(-4.0, 5.0))[:, np.newaxis]
    >>> problem = wolfpack.group_trend_filter(Y, alpha=0.5)
    >>> result = wolfpack.solve(problem, engine=wolfpack.InteriorPoint(), tol=1e-8)
    >>> bends = np.diff(result.solution, 2, axis=0)
    >>> (np.flatnonzero(np.abs(bends) > 1e-6) + 1).tolist()
    [4]
    """
    Y, alpha, q, weights = read_signal(Y, alpha, q, weights, 3)
    line = fit_line(Y, weights)
    Y -= line  # the answer moves by the same, and a large slope costs no digits
    refuse_size("differs from a straight line by", Y, LARGEST**-1)
    return make_problem(Y, line, alpha, q, weights)


def make_problem(
    Y: np.ndarray,
    line: np.ndarray,
    alpha: float,
    q: float,
    weights: np.ndarray | None = None,
) -> Problem:
    """Return the problem of a signal without its line, which is added again."""
    ball = dual_ball(q, alpha)
    start = straight_prices(Y, weights)
    if np.linalg.norm(start, ord=dual_norm(q), axis=1).max() > alpha:
        start = np.zeros_like(start)
    scale = rough_optimum(Y, alpha, q, weights)
    recipe = make_problem, Y, line, alpha, q, weights
    roots = np.ones(len(Y))
    if weights is not None:
        roots = 1.0 / np.sqrt(weights)
        Y = Y / roots[:, np.newaxis]
    flat = 0.5 * float(np.square(Y).sum())
    return Problem(
        data=Signal(flat, ball.params, roots),
        shared=Y,
        start=start,
        **on_ball(ball),
        score=score,
        add=add,
        slope=slope,
        value=value,
        ridge=1.0,
        curvature=curvature,
        touched=touched,
        max_rows=3,
        local=True,
        work=lambda: (np.zeros(Y.shape[1]),),
        scale=scale or 1.0,
        finish=lambda shared: shared * roots[:, np.newaxis] + line,
        name="group_trend_filter",
    ).made_by(*recipe, ours=True)
