"""Kinks: trend filtering for many alphas, and the best of the kinks that it finds.

The penalty shrinks bends, and spreads a kink over neighbouring rows. So its kinks are
candidates. `best_kinks` drops one at a time, that which costs least: with the others
kept, a signal of joined straight pieces without the bend b_i has

    b_i' (e_i' C G^-1 C' e_i)^-1 b_i

more squares, where C takes the values at the knots to bends, and G is the matrix of
least squares, which is tridiagonal.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import solveh_banded

from wolfpack.change_points.path import FusedLassoPath, grid, read_columns
from wolfpack.change_points.pruning import Pruned
from wolfpack.checks.inputs import positive
from wolfpack.engines.interior_point import Rows, make_rows
from wolfpack.problems.trend_filter import group_trend_filter, largest_alpha
from wolfpack.update.pieces import fit_lines, gram_of_knots

MOST_ROUNDS = 20  # for one alpha; one or two are usual
FINER = 0.25  # the ratio of two alphas, where one with enough kinks is sought
SMALLEST = 1e-9  # of alpha_max, below which no alpha is tried
NEAR = 4  # rows at most between the kinks that one is spread over
MAX_CANDIDATES = 400  # from where on kinks are dropped one at a time


@dataclass(frozen=True, eq=False)
class TrendFilterPath(FusedLassoPath):
    """Signals of straight pieces for many alphas, each with its certificate.

    As `FusedLassoPath`, but `change_points` are kinks, the rows where a slope ends, and
    `values` has a row per knot: the first row, the kinks, and the last row.
    """

    change_points: list[np.ndarray] = field(repr=False)

    def signal(self, k: int) -> np.ndarray:
        """Return the signal of the k-th alpha, one row per time."""
        knots = np.concatenate([[0], self.change_points[k], [self.n_rows - 1]])
        time, columns = np.arange(self.n_rows), self.values[k].T
        return np.column_stack([np.interp(time, knots, one) for one in columns])


def trend_filter_path(
    Y: Any,
    alphas: Any = None,
    n_alphas: int = 30,
    *,
    eps: float = 1e-5,
    q: float = 2.0,
    weights: Any = None,
    tol: float = 1e-6,
) -> TrendFilterPath:
    """Solve group trend filtering for many alphas.

    Parameters
    ----------
    Y : array (n, d) or (n,)
        The noisy signal, one row per time.
    alphas, n_alphas, q, weights
        As in `fused_lasso_path`.
    eps : float
        The smallest alpha over the largest, where `alphas` is not given.
    tol : float
        Each gap is at most this, relative to the objective.

    Returns
    -------
    TrendFilterPath

    Examples
    --------
    >>> import numpy as np
    >>> from wolfpack.change_points import trend_filter_path
    >>> Y = np.abs(np.arange(-10.0, 11.0))
    >>> path = trend_filter_path(Y, n_alphas=3, eps=0.1)
    >>> [kinks.tolist() for kinks in path.change_points]
    [[], [10], [10]]
    """
    Y, weights = read_columns(Y, weights)
    goal = positive("tol", tol)
    if alphas is None:
        alphas = grid(largest_alpha(Y, q, weights), n_alphas, eps)
    alphas = np.sort([positive("alpha", alpha) for alpha in np.ravel(alphas)])[::-1]
    if not len(alphas):
        raise ValueError("alphas must hold at least one number.")
    found = [_solve(Y, float(alpha), q, weights, goal) for alpha in alphas]
    kinks, values, objectives, gaps = zip(*found, strict=True)
    return TrendFilterPath(
        alphas=alphas, change_points=list(kinks), values=list(values),
        objectives=np.array(objectives), gaps=np.array(gaps), n_rows=len(Y),
    )  # fmt: skip


def _solve(Y, alpha, q, weights, tol) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return kinks, values at the knots, the objective and the gap for one alpha."""
    problem = group_trend_filter(Y, alpha, q=q, weights=weights)
    parts: list[Rows] = make_rows(problem)
    for part in parts:
        goal = tol * problem.scale / len(parts)
        for _ in range(MOST_ROUNDS):
            part.round(goal)
            goal = min(goal, tol * part.objective)
            if part.gap <= goal:
                break
    kinks = np.unique(np.concatenate([part.places for part in parts])) + 1
    knots = np.concatenate([[0], kinks, [len(Y) - 1]])
    assert problem.finish is not None
    values = problem.finish(np.hstack([part.smooth for part in parts]))[knots]
    objective = sum(part.objective for part in parts)
    return kinks, values, objective, sum(part.gap for part in parts)


def find_alpha(Y: np.ndarray, n_kinks: int, q: float, weights: Any) -> float:
    """Return an alpha with at least `n_kinks` kinks that lie apart, not far more."""
    top = alpha = largest_alpha(Y, q, weights)
    while alpha > SMALLEST * top:
        alpha *= FINER
        kinks = _solve(Y, alpha, q, weights, 1e-5)[0]
        if np.count_nonzero(np.diff(kinks, prepend=-NEAR) >= NEAR) >= n_kinks:
            break
    return alpha


def best_kinks(
    Y: np.ndarray,
    candidates: np.ndarray,
    k_max: int,
    *,
    weights: np.ndarray | None = None,
) -> Pruned:
    """Drop kinks until none is left, always one whose loss costs least.

    Parameters
    ----------
    Y : array (n, d)
        The signal.
    candidates : array of int
        Rows out of 1, ..., n - 2 where a slope may end. From more than `MAX_CANDIDATES`
        several are dropped at a time.
    k_max : int
        The most kinks that are kept in the answer.
    weights : array (n,), optional
        Positive weights of the rows.

    Returns
    -------
    Pruned
        `costs` and `points` for every number from 0 to the smaller of `k_max` and the
        number of candidates: the weighted sum of squares around the nearest joined
        straight pieces, and their kinks. They are the best that dropping finds, one
        after the other; others may be better.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfpack.change_points.kinks import best_kinks
    >>> Y = np.abs(np.arange(-4.0, 5.0))[:, np.newaxis]
    >>> best_kinks(Y, [2, 4, 5], 1).points[1]
    array([4])
    """
    w = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)
    kinks = np.unique(np.asarray(candidates, dtype=np.intp))
    if kinks.size and not 0 < kinks[0] <= kinks[-1] < len(Y) - 1:
        wrong = kinks[0] if kinks[0] < 1 else kinks[-1]
        raise ValueError(
            f"candidates must be rows out of 1, ..., {len(Y) - 2}, where a slope can "
            f"end; got {wrong}."
        )
    most = min(k_max, len(kinks))
    costs, points = np.zeros(most + 1), [kinks] * (most + 1)
    while True:
        if len(kinks) <= most:
            rest = np.square(Y - fit_lines(Y, kinks, w)).sum(axis=1)
            costs[len(kinks)], points[len(kinks)] = w @ rest, kinks
        if not len(kinks):
            return Pruned(costs, points)
        losses = _losses(Y, kinks, w)
        excess = len(kinks) - max(MAX_CANDIDATES, most)
        kinks = np.delete(kinks, _smallest(losses, max(excess // 4, 1)))


def _losses(Y: np.ndarray, kinks: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return how much the squares grow without each of the kinks."""
    knots = np.concatenate([[0], kinks, [len(Y) - 1]])
    lengths = np.diff(knots)
    before, after = 1.0 / lengths[:-1], 1.0 / lengths[1:]
    values = fit_lines(Y, kinks, w)[knots]
    bends = np.diff(np.diff(values, axis=0) / lengths[:, np.newaxis], axis=0)
    count = np.arange(len(kinks))
    C = np.zeros((len(knots), len(kinks)))
    C[count, count], C[count + 1, count], C[count + 2, count] = (
        before, -before - after, after,
    )  # fmt: skip
    spread = solveh_banded(gram_of_knots(len(Y), kinks, w), C, check_finite=False)
    spread = np.einsum("ij,ij->j", C, spread)
    return np.square(bends).sum(axis=1) / spread


def _smallest(losses: np.ndarray, count: int) -> np.ndarray:
    """Return the places of the smallest losses, no two of them neighbours."""
    chosen: list[int] = []
    for k in np.argsort(losses, kind="stable")[: 3 * count].tolist():
        if len(chosen) < count and not {k - 1, k + 1} & set(chosen):
            chosen.append(k)
    return np.array(chosen, dtype=np.intp)
