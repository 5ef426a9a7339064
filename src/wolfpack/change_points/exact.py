"""Exact least-squares segmentation of all rows: a price per point, or every number.

    min over change points of   sum over segments of c(segment)  +  price * (points)

c is the sum of squares around the mean of the segment, or around its straight line.
One column of constant segments takes functional pruning (Maidstone et al. 2017), which
is close to linear in n; all else PELT's inequality (Killick et al. 2012), which is
quadratic where there are few changes. So the work is bounded. Where the bound is
reached the answer is None, and the caller has to choose among candidates.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from wolfpack.change_points import _exact
from wolfpack.change_points.pruning import thin
from wolfpack.kernels.specialise import library

WORK = 3e8  # evaluations of a cost, after which an exact search gives up: a second
SHORT = 10_000  # rows up to which what depends on their number alone is kept
MERGED = 1000  # candidates where an exact search would take too long


def _loops():
    module: Any = _exact
    return library(module)


class Sums(NamedTuple):
    """Running sums up to each bound; see `_exact`."""

    W: np.ndarray
    X: np.ndarray
    XX: np.ndarray
    S: np.ndarray
    T: np.ndarray
    Q: np.ndarray


class Rows:
    """A signal, ready for searches: running sums at all rows, or at some of them.

    Parameters
    ----------
    Y : array (n, d)
        The signal.
    weights : array (n,), optional
        Positive weights of the rows.
    bounds : array of int, optional
        Rows where segments may begin, from 0, and n at the end. All rows by default.
    """

    def __init__(
        self,
        Y: np.ndarray,
        weights: np.ndarray | None = None,
        bounds: np.ndarray | None = None,
    ) -> None:
        Y = np.asarray(Y, dtype=np.float64)
        Y = Y[:, np.newaxis] if Y.ndim == 1 else Y
        self.shape = n, d = Y.shape
        w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        # Sums of squares do not lose digits to an offset.
        self.rows = Y = Y - np.einsum("t,td->d", w, Y) / w.sum()
        self.bounds = np.arange(n + 1) if bounds is None else np.asarray(bounds)
        wy = Y if weights is None else w[:, np.newaxis] * Y
        t = np.arange(n) - (n - 1) / 2
        if weights is None and n <= SHORT:
            running = _ones_up_to(n)
        else:
            running = _add_up(w, w * t, w * t * t)
        running = [*running, *_add_up(wy, t[:, np.newaxis] * wy, wy * Y)]
        if bounds is not None:
            running = [np.ascontiguousarray(one[bounds]) for one in running]
        *first, self.squares = running  # of every column
        squares = self.squares[:, 0] if d == 1 else self.squares.sum(axis=1)
        self.sums = Sums._make([*first, np.ascontiguousarray(squares)])

    def penalised(
        self, price: float, least: int = 1, straight: bool = False, work: float = WORK
    ) -> np.ndarray | None:
        """Return the best points for a price per point; None: too much work."""
        points = np.empty(len(self.bounds), np.int64)
        loops, limit = _loops(), int(min(work / self.shape[1], 1e18))
        args = tuple(self.sums), self.bounds, float(price), least
        if self.shape[1] == 1 and not straight:
            ends = np.array([self.rows.min(), self.rows.max()])
            found = loops.prune_means(*args, ends, limit, points)
        else:
            found = loops.prune_pairs(*args, straight, limit, points)
        return None if found < 0 else self.bounds[points[:found]]

    def numbers(
        self, most: int, least: int = 1, straight: bool = False
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the least cost, and the points, with 0, 1, ..., `most` points."""
        n = self.shape[0]
        most = max(min(most, n // least - 1, len(self.bounds) - 2), 0)
        costs, points = np.empty(most + 1), np.zeros((most + 1, most), np.int64)
        args = tuple(self.sums), self.bounds, most, least, straight
        _loops().best_numbers(*args, costs, points)
        known = costs < _exact.INFINITE
        found = [self.bounds[points[k, :k]] for k in np.flatnonzero(known)]
        return costs[known], found

    def cost(self, points: np.ndarray, straight: bool = False) -> float:
        """Return the sum of squares around the segments that begin at `points`."""
        bounds = np.concatenate([[0], points, self.bounds[-1:]]).astype(np.intp)
        return float(self._squares(bounds[:-1], bounds[1:], straight).sum())

    def own_gains(self, points: np.ndarray, straight: bool = False) -> np.ndarray:
        """Return how much each column's sum of squares would grow without a point.

        One row per point: the two segments beside it become one.
        """
        bounds = np.concatenate([[0], points, self.bounds[-1:]]).astype(np.intp)
        left, here, right = bounds[:-2], bounds[1:-1], bounds[2:]
        apart = self._squares(left, here, straight) + self._squares(
            here, right, straight
        )
        return np.maximum(self._squares(left, right, straight) - apart, 0.0)

    def _squares(self, i: np.ndarray, j: np.ndarray, straight: bool) -> np.ndarray:
        """Return the sum of squares per column between rows i and j; needs all rows."""
        W, X, XX, S, T, _ = (running[j] - running[i] for running in self.sums)
        W, X, XX = W[:, np.newaxis], X[:, np.newaxis], XX[:, np.newaxis]
        rest = self.squares[j] - self.squares[i] - S * S / W
        if straight:
            width, tilt = XX - X * X / W, T - X / W * S
            rest = rest - tilt * tilt / np.where(width > 1e-9, width, np.inf)
        return np.maximum(rest, 0.0)

    def n_evaluations(self, most: int) -> float:
        """Return how much work `numbers` is, in evaluations of a cost."""
        m = len(self.bounds)
        return m * m / 2 * (self.shape[1] + most / 4)


def _add_up(*columns: np.ndarray) -> list[np.ndarray]:
    """Return the running sums of arrays, from 0 on."""
    found = [np.zeros((len(one) + 1, *one.shape[1:])) for one in columns]
    for one, total in zip(columns, found, strict=True):
        np.cumsum(one, axis=0, out=total[1:])
    return found


@functools.lru_cache(maxsize=8)
def _ones_up_to(n: int) -> list[np.ndarray]:
    t = np.arange(n) - (n - 1) / 2
    return _add_up(np.ones(n), t, t * t)


def best_splits(many: np.ndarray, most: int, least: int = 2) -> np.ndarray:
    """Return the least sum of squares of each short signal with 1 to `most` points."""
    costs = np.empty((len(many), most))
    many = np.ascontiguousarray(many, dtype=np.float64)
    _loops().best_few(many, most, least, costs)
    return np.where(costs < _exact.INFINITE, costs, np.inf)


def penalised(
    Y: np.ndarray,
    price: float,
    least: int,
    weights: np.ndarray | None = None,
    straight: bool = False,
    candidates: np.ndarray | None = None,
    rows: Rows | None = None,
) -> tuple[np.ndarray, bool]:
    """Return the best points for a price per point, and whether all rows were tried.

    `rows` are those of Y, where they are there already.
    """
    n = len(Y)
    points = None
    if candidates is None:
        rows = Rows(Y, weights) if rows is None else rows
        points = rows.penalised(price, least, straight)
    if points is not None:
        return points, True
    if candidates is None:
        candidates, _ = thin(Y, np.arange(1, n), min(MERGED, n - 1), weights=weights)
    bounds = np.unique([0, *candidates, n])
    found = Rows(Y, weights, bounds).penalised(price, least, straight, math.inf)
    return (np.zeros(0, np.intp) if found is None else found), False
