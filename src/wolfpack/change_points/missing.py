"""The group fused lasso where entries are missing, or have weights of their own.

    min over X   1/2 sum_tj w_tj (X_tj - Y_tj)^2 + alpha sum_t |X_(t+1) - X_t|_q

With w_tj = 0 an entry is missing. Then the dual has U_tj = U_(t-1)j, its blocks are no
longer separate, and what is solved instead is a sequence of plain problems, with one
weight per row, w_t = max_j w_tj:

    Z = V - (w / w_t) (V - Y),     X = the lasso of Z,     V = X + momentum

so a missing entry has its last estimate as data. That is a proximal gradient method in
the norm of the w_t, accelerated (Beck and Teboulle 2009), with a restart where the
objective rises (O'Donoghue and Candès 2015).

The certificate is that of the problem with missing entries. Prices are feasible where
they are equal along ties and no longer than alpha, and their dual value is

    D(U) = - sum over w_tj > 0 of  d_tj^2 / (2 w_tj) + d_tj Y_tj,   d_t = U_t - U_(t-1)
"""

import math
from collections.abc import Callable

import numpy as np

from wolfpack.change_points.entries import Entries
from wolfpack.engines.active_set import make_parts
from wolfpack.problem import Problem
from wolfpack.problems.fused_lasso import dual_norm, group_fused_lasso

ROUGH, LEAST = 1e-2, 1e-15  # of the scale: see `_aim`
MOST_ROUNDS = 20  # of the active set for one plain problem
SPARE = 0.25  # of the goal; the plain problem that is solved last needs the rest
# Steps in which the gap must fall by a hundredth; otherwise rounding keeps it there.
PATIENCE = 300


class Completion:
    """The best signal so far of a lasso with missing entries, and its certificate.

    Attributes
    ----------
    signal, prices : ndarray
        With the least primal objective so far.
    primal, dual : float
        That objective, and the best lower bound.
    scale : float
        What `tol` is relative to: the smaller primal objective of two signals, the
        given one, where missing entries repeat the nearest of their column, and its
        mean.
    data : ndarray
        The signal of the last plain problem.
    n_steps : int
        The plain problems that were solved.
    """

    prices: np.ndarray

    def __init__(self, entries: Entries, alpha: float, q: float) -> None:
        self.alpha, self.q, self.n_steps = alpha, q, 0
        self.centre = entries.means()  # a large offset costs no digits
        self.entries = entries._replace(values=entries.values - self.centre)
        weights = entries.weights
        edge = np.ones((1, weights.shape[1]), np.bool_)
        begins = np.concatenate([edge, entries.known]).ravel(order="F")
        self._ties = np.cumsum(begins) - 1  # of U_0 = 0, U_1, ..., U_n = 0, by columns
        self._counts = np.bincount(self._ties)
        self._ends = np.arange(len(edge[0])) * (len(weights) + 1)
        self.primal, self.dual = math.inf, -math.inf
        flat = self.objective(np.zeros_like(weights))
        self.scale = min(flat, self.objective(self.entries.values)) or 1.0
        self.signal = self.data = self.entries.values
        self._gaps: list[float] = []

    @property
    def gap(self) -> float:
        """How far the objective is from the optimum at most."""
        return max(self.primal - self.dual, 0.0)

    def objective(self, X: np.ndarray) -> float:
        """Return the primal objective of a signal around the means."""
        values, weights = self.entries
        jumps = np.linalg.norm(np.diff(X, axis=0), ord=self.q, axis=1).sum()
        return float(0.5 * (weights * np.square(X - values)).sum() + self.alpha * jumps)

    def solve(
        self, goal: float, most: float, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Take steps until the gap is at most SPARE * `goal`."""
        values, weights = self.entries
        share = weights / self.entries.rows[:, np.newaxis]
        near = last = values
        momentum, before, prices = 1.0, math.inf, None
        while self.n_steps < most and not stop() and not self._is_idle():
            self.data = near - share * (near - values)
            plain = self.plain(self.data)
            X, prices = _solve_plain(plain, prices, self._aim(), stop)
            objective = self.offer(X, prices)
            self.n_steps += 1
            self._gaps.append(self.gap)
            if self.gap <= SPARE * goal:
                break
            momentum = 1.0 if objective > before else momentum
            further = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            near = X + (momentum - 1.0) / further * (X - last)
            momentum, before, last = further, objective, X

    def _aim(self) -> float:
        """Return the gap to which the next plain problem is solved.

        The error of its prices is like the root of its gap, and the bound loses in
        proportion to that error.
        """
        left = min(self.gap / self.scale, ROUGH)
        return max(left * left, LEAST) * self.scale

    def _is_idle(self) -> bool:
        before = self._gaps[-PATIENCE - 1 : -PATIENCE]
        return bool(before) and self.gap > 0.99 * before[0]

    def plain(self, data: np.ndarray) -> Problem:
        """Return the problem of a signal with one weight per row."""
        rows = self.entries.rows
        weights = None if (rows == 1.0).all() else rows
        return group_fused_lasso(data, self.alpha, q=self.q, weights=weights)

    def offer(self, X: np.ndarray, prices: np.ndarray) -> float:
        """Note a signal if it is better, and the bound of prices; return its P."""
        objective = self.objective(X)
        if objective < self.primal:
            self.primal, self.signal, self.prices = objective, X, prices
        self.dual = max(self.dual, self._bound(self._tie(prices)))
        if self.gap > 0.0:
            self.dual = max(self.dual, self._bound(self._follow(X)))
        return objective

    def _bound(self, U: np.ndarray) -> float:
        """Return the dual value of prices that are equal along ties, made shorter.

        Either all by one factor, or those of each tie by what its longest row needs.
        """
        sizes = np.linalg.norm(U, ord=dual_norm(self.q), axis=1)
        shrink = self.alpha / np.maximum(sizes, self.alpha)
        least = np.ones(len(self._counts))
        each = np.repeat(shrink[np.newaxis], U.shape[1], axis=0).ravel()
        np.minimum.at(least, self._ties, each)
        local = U * least[self._ties].reshape(U.shape, order="F")
        return max(self._value(local), self._value(U * shrink.min()))

    def _value(self, U: np.ndarray) -> float:
        values, weights = self.entries
        d, known = np.diff(U, axis=0), weights > 0
        squares = np.divide(d * d, weights, out=np.zeros_like(d), where=known)
        return -float(0.5 * squares.sum() + (d * values)[known].sum())

    def _tie(self, prices: np.ndarray) -> np.ndarray:
        """Return U_0, ..., U_n, where tied prices are their mean."""
        U = np.pad(prices, ((1, 1), (0, 0)))
        sums = np.bincount(self._ties, U.ravel(order="F"))
        means = sums / self._counts
        n = len(prices) + 1
        means[self._ties[self._ends]] = means[self._ties[self._ends + n]] = 0.0
        return means[self._ties].reshape(U.shape, order="F")

    def _follow(self, X: np.ndarray) -> np.ndarray:
        """Return U_0, ..., U_n as X asks for them, after a shift of its columns."""
        values, weights = self.entries
        pull = weights * (X - values)
        pull -= weights * (pull.sum(axis=0) / weights.sum(axis=0))
        U = np.pad(np.cumsum(pull, axis=0), ((1, 0), (0, 0)))
        U[-1] = 0.0  # up to rounding it is
        return U


def _solve_plain(
    problem: Problem,
    prices: np.ndarray | None,
    goal: float,
    stop: Callable[[], bool],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lasso of a signal with one weight per row, and its prices."""
    signals, found = [], []
    parts = make_parts(problem)
    for part in parts:
        if prices is not None:
            part.begin(prices[:, part.columns])
        for _ in range(MOST_ROUNDS):
            part.round(goal / len(parts), stop)
            if part.gap <= goal / len(parts) or stop():
                break
        signals.append(part.smooth)
        found.append(part.points)
    assert problem.finish is not None
    return problem.finish(np.hstack(signals)), np.hstack(found)
