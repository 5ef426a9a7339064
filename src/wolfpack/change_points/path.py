"""Solutions of the group fused lasso for many alphas, from the largest to the smallest.

Each starts from the change points of the one before it, with prices in proportion to
alpha, so that most of them cost a round or two of the active set.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wolfpack.change_points.segmentation import largest_alpha, smallest_jump
from wolfpack.checks.inputs import positive
from wolfpack.engines.active_set import Segments, make_parts
from wolfpack.problem import Problem
from wolfpack.problems.fused_lasso import group_fused_lasso, row_weights

MOST_ROUNDS = 100  # for one alpha; three or four are usual
FINER = 0.5  # the ratio of two alphas, where one with enough change points is sought
SMALLEST = 1e-6  # of alpha_max, below which no alpha is tried


@dataclass(frozen=True, eq=False)
class FusedLassoPath:
    """Signals for many alphas, each with its certificate.

    Attributes
    ----------
    alphas : ndarray (k,)
        In descending order.
    change_points : list of int arrays
        For each alpha, the rows where new segments begin.
    values : list of arrays
        For each alpha, one row a segment: its value.
    objectives, gaps : ndarray (k,)
        The primal objective, and how far above the optimum it may be.
    n_rows : int
        The length of the signal.
    """

    alphas: np.ndarray
    change_points: list[np.ndarray] = field(repr=False)
    values: list[np.ndarray] = field(repr=False)
    objectives: np.ndarray = field(repr=False)
    gaps: np.ndarray
    n_rows: int

    @property
    def n_change_points(self) -> np.ndarray:
        """The number of change points for each alpha."""
        return np.array([len(points) for points in self.change_points])

    def signal(self, k: int) -> np.ndarray:
        """Return the signal of the k-th alpha, one row a time."""
        ends = np.append(self.change_points[k], self.n_rows)
        return np.repeat(self.values[k], np.diff(ends, prepend=0), axis=0)

    @property
    def signals(self) -> np.ndarray:
        """All signals, (k, n, d)."""
        return np.stack([self.signal(k) for k in range(len(self.alphas))])


def fused_lasso_path(
    Y: Any,
    alphas: Any = None,
    n_alphas: int = 30,
    *,
    eps: float = 1e-2,
    q: float = 2.0,
    weights: Any = None,
    tol: float = 1e-4,
) -> FusedLassoPath:
    """Solve the group fused lasso for many alphas.

    Parameters
    ----------
    Y : array (n, d) or (n,)
        The noisy signal, one row a time.
    alphas : array, optional
        Where to solve it, in any order. Default: `n_alphas` from `alpha_max`, where the
        signal becomes constant, to `eps` times that, in equal ratios.
    n_alphas : int
        How many, where `alphas` is not given.
    eps : float
        The smallest alpha over the largest, where `alphas` is not given.
    q : 1, 2 or numpy.inf
        The norm of a jump.
    weights : array (n,), optional
        Positive weights of the rows.
    tol : float
        Each gap is at most this, relative to the smaller objective of two trivial
        answers: the noisy signal itself, and its mean. The default is that of
        scikit-learn's paths.

    Returns
    -------
    FusedLassoPath

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, truth = wolfpack.make_piecewise(n=200, d=3, n_segments=4, rng=0)
    >>> path = wolfpack.fused_lasso_path(Y, n_alphas=10)
    >>> path.n_change_points[0], bool((path.gaps < 1e-2).all())
    (np.int64(0), True)
    """
    walk = _Walk(Y, q, weights, positive("tol", tol))
    if alphas is None:
        alphas = grid(walk.alpha_max, n_alphas, eps)
    alphas = np.sort([positive("alpha", alpha) for alpha in np.ravel(alphas)])[::-1]
    if not len(alphas):
        raise ValueError("alphas must hold at least one number.")
    found = [walk.solve(float(alpha)) for alpha in alphas]
    points, values, objectives, gaps = zip(*found, strict=True)
    return FusedLassoPath(
        alphas, list(points), list(values), np.array(objectives), np.array(gaps),
        walk.problem.shared.shape[0],
    )  # fmt: skip


def find_alpha(
    Y: np.ndarray, n_points: int, q: float, weights: np.ndarray | None
) -> float:
    """Return an alpha with at least `n_points` change points, and not far more.

    It is alpha_max, halved until there are enough points, or until alpha is tiny.
    """
    walk = _Walk(Y, q, weights, 1e-4)
    alpha = walk.alpha_max
    for alpha in walk.halves():
        if len(walk.solve(alpha)[0]) >= n_points:
            break
    return alpha


class _Walk:
    """The segments of one signal, on the way to smaller alphas."""

    def __init__(self, Y: Any, q: float, weights: Any, tol: float) -> None:
        Y, self.weights = read_columns(Y, weights)
        self.q, self.tol, self.mean = q, tol, np.average(Y, axis=0, weights=weights)
        self.problem: Problem = group_fused_lasso(Y, 1.0, q=q, weights=self.weights)
        if self.problem.minimiser is None:
            raise ValueError(f"q must be 1, 2 or inf here, but is {q!r}.")
        self.jumps = np.linalg.norm(np.diff(Y, axis=0), ord=q, axis=1)
        self.alpha_max = largest_alpha(Y, q, self.weights)
        self.parts: list[Segments] = make_parts(self.problem)

    def halves(self) -> Iterator[float]:
        """Yield alpha_max / 2, alpha_max / 4, and so on, until they are tiny."""
        alpha = FINER * self.alpha_max
        while alpha > SMALLEST * self.alpha_max:
            yield alpha
            alpha *= FINER

    def solve(self, alpha: float) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return change points, values, the objective and the gap for one alpha."""
        flat = sum(part.scale for part in self.parts)
        goal = self.tol * (min(flat, alpha * float(self.jumps.sum())) or 1.0)
        for part in self.parts:
            part.change_alpha(alpha)
            for _ in range(MOST_ROUNDS):
                part.round(goal / len(self.parts))
                if part.gap <= goal / len(self.parts):
                    break
        starts = np.unique(np.concatenate([part.bounds[:-1] for part in self.parts]))
        smooth = np.hstack([part.smooth[starts] for part in self.parts])
        values = smooth * self.problem.data.roots[starts, np.newaxis] + self.mean
        jumps = np.linalg.norm(np.diff(values, axis=0), ord=self.q, axis=1)
        kept = np.append(True, jumps > smallest_jump(self.jumps))
        return (
            starts[kept][1:],
            values[kept],
            sum(part.primal for part in self.parts),
            sum(part.gap for part in self.parts),
        )


def read_columns(Y: Any, weights: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a signal as columns, and its weights as numbers."""
    Y = np.asarray(Y, dtype=np.float64)
    Y = Y[:, np.newaxis] if Y.ndim == 1 else Y
    return Y, None if weights is None else row_weights(weights, len(Y))


def grid(alpha_max: float, n_alphas: Any, eps: Any) -> np.ndarray:
    """Return `n_alphas` from `alpha_max` down to `eps` times that, in equal ratios."""
    if isinstance(n_alphas, bool) or not isinstance(n_alphas, int | np.integer):
        raise ValueError(f"n_alphas must be a whole number, but is {n_alphas!r}.")
    if n_alphas < 1:
        raise ValueError(f"n_alphas must be at least 1, but is {n_alphas}.")
    if not positive("eps", eps) < 1.0:
        raise ValueError(f"eps must lie between 0 and 1, but is {eps!r}.")
    top = alpha_max or 1.0  # a constant signal has alpha_max 0
    return np.geomspace(top, eps * top, n_alphas)
