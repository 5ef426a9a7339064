"""Group fused lasso, the paper's Example 2, through its dual.

    min over X   1/2 sum_t w_t |X_t - Y_t|^2 + alpha sum_t |X_(t+1) - X_t|_q

for a signal Y of n rows in d dimensions, with weights w_t, mostly 1. In the dual, block
t is the price U_t of the jump between rows t and t + 1,

    min over U   1/2 sum_t w_t (|X_t|^2 - |Y_t|^2),   X_t = Y_t + (U_t - U_(t-1)) / w_t,
                 |U_t|_p <= alpha

with 1/p + 1/q = 1. Row t of v is sqrt(w_t) X_t, so that g(v) = 1/2 |v|^2 - constant;
A_t u adds r_t u to row t and takes r_(t+1) u from the next, where r_t = 1 / sqrt(w_t),
and the gradient of block t is the jump, X_t - X_(t+1). The gap is primal - dual.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from wolfpack import sets
from wolfpack.checks.inputs import at_least_one, positive
from wolfpack.kernels.compile import jit
from wolfpack.problem import Problem
from wolfpack.theory.constants import Constants, fused_lasso_constants

TOLERANCE = 1e-9  # by which a point may exceed the ball, relative to alpha
LARGEST = 1e140  # the largest entry of a signal; its inverse is the smallest


class Signal(NamedTuple):
    """Half the squared norm of v0, the parameters of the dual ball, and r_t."""

    half_norm: float
    ball: Any
    roots: np.ndarray


@jit
def score(data, shared, t, atom):
    """<u, grad_t f> = <u, X_t - X_(t+1)>."""
    here, there, total = data.roots[t], data.roots[t + 1], 0.0
    for j in range(atom.size):
        total += atom[j] * (here * shared[t, j] - there * shared[t + 1, j])
    return total


@jit
def add(data, t, atom, scale, out):
    """v_t += scale r_t u, v_(t+1) -= scale r_(t+1) u."""
    here, there = scale * data.roots[t], scale * data.roots[t + 1]
    for j in range(atom.size):
        out[t, j] += here * atom[j]
        out[t + 1, j] -= there * atom[j]
    return 0.0


@jit
def slope(data, shared, direction, rows, gamma):
    """<v + gamma direction, direction>."""
    total = 0.0
    for t in rows:
        for j in range(shared.shape[1]):
            total += (shared[t, j] + gamma * direction[t, j]) * direction[t, j]
    return total


@jit
def value(data, shared):
    """1/2 |v|^2 - 1/2 |v0|^2."""
    total = 0.0
    for t in range(len(shared)):
        for j in range(shared.shape[1]):
            total += shared[t, j] * shared[t, j]
    return 0.5 * total - data.half_norm


@jit
def curvature(data, t, move, work):
    """|A_t d|^2 = (r_t^2 + r_(t+1)^2) |d|^2."""
    total = 0.0
    for j in range(move.size):
        total += move[j] * move[j]
    return (data.roots[t] ** 2 + data.roots[t + 1] ** 2) * total


@jit
def touched(data, t, move, rows, work):
    """Rows t and t + 1."""
    rows[0] = t
    rows[1] = t + 1
    return 2


def on_ball(ball: sets.Set) -> dict[str, Any]:
    """Return the functions that depend on the norm: the same ones for each ball."""
    return _on_ball(ball.minimise, ball.contains, ball.project)


@functools.cache
def _on_ball(minimise: Any, inside: Any, project: Any) -> dict[str, Any]:

    @jit
    def oracle(data, shared, t, atom, work):
        gradient = work[0]
        here, there = data.roots[t], data.roots[t + 1]
        for j in range(atom.size):
            gradient[j] = here * shared[t, j] - there * shared[t + 1, j]
        minimise(data.ball, 0, gradient, atom)
        return score(data, shared, t, atom)

    @jit
    def minimiser(data, shared, t, atom, work, reach):
        here, there = data.roots[t], data.roots[t + 1]
        step = 1.0 / (here * here + there * there) / reach
        for j in range(atom.size):
            atom[j] += step * (there * shared[t + 1, j] - here * shared[t, j])
        project(data.ball, 0, atom)

    @jit
    def contains(data, t, atom):
        return inside(data.ball, 0, atom, TOLERANCE)

    exact = None if project is None else minimiser
    return {"oracle": oracle, "minimiser": exact, "contains": contains}


def dual_norm(q: float) -> float:
    """Return p with 1/p + 1/q = 1."""
    return np.inf if q == 1 else 1.0 if q == np.inf else q / (q - 1)


def dual_ball(q: float, radius: float) -> sets.Set:
    """Return the ball of the norm dual to q."""
    named = {1.0: sets.l1_ball, 2.0: sets.l2_ball, np.inf: sets.linf_ball}
    p = dual_norm(q)
    return named[p](radius) if p in named else sets.lp_ball(p, radius)


def is_signal(problem: Problem) -> bool:
    """Return whether `group_fused_lasso` made the problem."""
    return problem.add is add


def penalty(problem: Problem) -> tuple[float, float]:
    """Return alpha and q, which the dual ball knows."""
    ball = problem.data.ball
    is_box = hasattr(ball, "high")  # the dual of q = 1
    alpha = ball.high[0, 0] if is_box else ball.radius[0]
    return float(alpha), dual_norm(np.inf if is_box else ball.detail[0])


def constants(problem: Problem) -> Constants | None:
    """Return the exact B and mu where all weights are 1."""
    if (problem.data.roots != 1.0).any():
        return None
    alpha, q = penalty(problem)
    n_rows, n_columns = problem.shared.shape
    return fused_lasso_constants(n_rows, n_columns, alpha, q=q)


def constant_prices(Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the U that makes X constant; it is feasible if alpha is large enough."""
    apart = Y - np.average(Y, axis=0, weights=weights)
    if weights is not None:
        apart *= weights[:, np.newaxis]
    return -np.cumsum(apart, axis=0)[:-1]


def group_fused_lasso(
    Y: np.ndarray,
    alpha: float,
    *,
    q: float = 2.0,
    weights: np.ndarray | None = None,
) -> Problem:
    """Return the dual of the group fused lasso of a signal.

    Parameters
    ----------
    Y : array of shape (n, d)
        The noisy signal, one row a time.
    alpha : float
        The price of a jump, lambda in the paper.
    q : float
        The norm of a jump, q >= 1 or `numpy.inf`. 1, 2 and inf have a block minimiser
        (`step="exact"`), which needs 2 to 3 times fewer passes.
    weights : array of n, optional
        A positive weight a row. Where a row stands for a whole segment, its length.

    Returns
    -------
    Problem
        Of n - 1 blocks, each a neighbour of the next: `sampling="cyclic"` is the
        fastest order on one thread and on many. `Result.solution` is X; the primal
        objective is minus `Result.lower_bound`, the dual one minus `Result.objective`.
        `engine=ActiveSet()` solves it far faster than any engine that visits all rows.

    Examples
    --------
    >>> import numpy as np, wolfpack
    >>> problem = wolfpack.group_fused_lasso(np.array([[0.0], [0.0], [6.0]]), alpha=1.0)
    >>> wolfpack.solve(problem, step="exact", rng=0).solution.round(6).tolist()
    [[0.5], [0.5], [5.0]]
    """
    Y, alpha, q, weights = read_signal(Y, alpha, q, weights)
    mean = np.average(Y, axis=0, weights=weights)
    Y -= mean  # the answer moves by the same, and a large offset costs no digits
    refuse_size("differs from its mean by", Y, LARGEST**-1)
    return make_problem(Y, mean, alpha, q, weights)


def read_signal(
    Y: Any, alpha: Any, q: Any, weights: Any, least: int = 2
) -> tuple[np.ndarray, float, float, np.ndarray | None]:
    """Return a copy of a signal of `least` rows or more, alpha, q and the weights."""
    Y = np.array(Y, dtype=np.float64, order="C")  # a copy: v0 must not change
    if Y.ndim != 2 or len(Y) < least or Y.shape[1] < 1:
        raise ValueError(
            f"Y must have shape (n >= {least}, d >= 1), but has {Y.shape}."
        )
    if not np.isfinite(Y).all():
        raise ValueError("Y holds NaN or infinity; remove or fill these entries.")
    alpha, q = positive("alpha", alpha), at_least_one("q", q)
    weights = None if weights is None else row_weights(weights, len(Y))
    refuse_size("holds", Y)
    return Y, alpha, q, weights


def row_weights(weights: Any, n_rows: int) -> np.ndarray:
    """Return one weight a row, in double precision."""
    weights = np.array(weights, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"weights must have shape ({n_rows},), one a row of Y, but has "
            f"{weights.shape}."
        )
    if not ((weights > 0) & np.isfinite(weights)).all():
        raise ValueError(
            "weights must be finite and > 0; leave out rows that must not count."
        )
    return weights


def refuse_size(how: str, Y: np.ndarray, least: float = 0.0) -> None:
    """Raise where squares of Y would be infinite, or all of them 0."""
    size = float(np.abs(Y).max())
    if not least <= size <= LARGEST and size > 0:
        raise ValueError(
            f"Y {how} up to {size:g}, whose square is out of the range of floats; "
            "divide Y and alpha by a number of that size."
        )


def make_problem(
    Y: np.ndarray,
    mean: np.ndarray,
    alpha: float,
    q: float,
    weights: np.ndarray | None = None,
) -> Problem:
    """Return the problem of a signal of mean 0, to which `mean` is added again."""
    ball = dual_ball(q, alpha)
    start = constant_prices(Y, weights)
    if np.linalg.norm(start, ord=dual_norm(q), axis=1).max() > alpha:
        start = np.zeros_like(start)
    jumps = np.linalg.norm(np.diff(Y, axis=0), ord=q, axis=1).sum()
    recipe = make_problem, Y, mean, alpha, q, weights
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
        max_rows=2,
        local=True,
        work=lambda: (np.zeros(Y.shape[1]),),
        scale=float(min(alpha * jumps, flat)) or 1.0,  # P at X = Y, and at X constant
        constants=constants,
        finish=lambda shared: shared * roots[:, np.newaxis] + mean,
        name="group_fused_lasso",
    ).made_by(*recipe, ours=True)
