"""An active set of change points outside, block steps inside: for signals.

Where most blocks are at rest, most visits are wasted. In the group fused lasso a block
at rest is a row without a jump. This engine keeps a set of change points, and one value
for all rows between two of them, so that the problem has one row a segment. A round

    1. splits segments at rows whose price exceeds alpha (`segments.refine`),
    2. moves the prices of the change points by block steps, and lets go of those whose
       price is below alpha: their jump is 0 (`segments.sweep`); where that takes longer
       than interior-point steps would (`update.interior`), it goes on with these,
    3. repeats this until no price exceeds alpha,
    4. computes the prices of all rows (`segments.unfold`).

The run certifies the whole problem after each round: x are the prices, shortened to
alpha, and the bound comes from v with one value a segment, which is the solution too. A
round moves all blocks at once, so it counts as one update, and as one pass. Mostly one
is enough.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from wolfpack.engines.interior_point import AllBlocks, PartsSession, cut_columns
from wolfpack.kernels.specialise import library
from wolfpack.problem import Problem
from wolfpack.problems.fused_lasso import is_signal
from wolfpack.update import segments
from wolfpack.update.interior import Interior, cost_of_step

# The problem of the segments is solved to a gap of SHARPER * FIRST times the scale,
# then to SHARPER times that, and so on, and at last to INNER times the goal.
FIRST, SHARPER, INNER = 0.03, 0.03, 0.5
LEAST = 1e-15  # of the scale: a smaller gap is rounding
EXCESS = 1e-7  # of alpha, by which a price may exceed it
MOST_TURNS = 30  # of splitting and solving in one round
AT_ALPHA = 1.0 - 1e-9  # a price of this part of alpha or more may have a jump
VISITS = 2_000_000  # numbers that block steps touch between two signs of life
STEPS = 10  # interior-point steps; before them block steps get as much work
MANY = 4  # a set of more than a MANYth of all rows is solved with all rows


@dataclass(frozen=True)
class ActiveSet(AllBlocks):
    """Group fused lasso by segments: far faster than visits to all rows.

    It takes q = 1, 2 or inf. `step` must be "line" or "exact", and has no effect, nor
    has `sampling`: it makes block steps of its own, in sweeps.

    Parameters
    ----------
    n_workers : int
        Threads for the certificates; the rounds use one.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=1000, d=3, rng=0)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=5.0)
    >>> result = wolfpack.solve(problem, engine=wolfpack.ActiveSet(), tol=1e-8)
    >>> result.status.name, result.epochs <= 5
    ('CONVERGED', True)
    """

    known = "the group fused lasso with q = 1, 2 or inf"

    def takes(self, problem) -> bool:
        """Return whether it is a signal with first differences and such a norm."""
        return is_signal(problem) and problem.minimiser is not None

    def session(self, problem, options) -> "ActiveSetSession":
        """Return the memory of one run."""
        return ActiveSetSession()


class ActiveSetSession(PartsSession):
    """The segments of the parts."""

    def warm_up(self, run) -> None:
        """Compile the loops, which are the same for all signals, once per process."""
        _warm_up()

    def open(self, run) -> None:
        """Sum up the signal; begin with the change points of the state, if any."""
        self.parts = make_parts(run.problem)
        for part in self.parts:
            part.begin(run.state.blocks.points[:, part.columns])
        if len(self.parts) == 1:  # write to the state itself
            self.parts[0].points = run.state.blocks.points
            self.parts[0].shared = run.state.shared


@functools.cache
def _warm_up() -> None:
    """Solve a signal of two rows and one jump."""
    heights = np.array([[-3.0], [3.0]])
    Segments(heights, np.ones(2), 1.0, True).round(math.inf)


def make_parts(problem: Problem) -> "list[Segments]":
    """Return the columns that jump together: all of them, or each alone (q = 1)."""

    def make(heights, roots, alpha, q, columns) -> Segments:
        return Segments(heights, roots, alpha, q == 2.0, columns)

    return cut_columns(problem, make)


class Segments:
    """A signal whose rows between two change points have one value.

    Attributes
    ----------
    bounds, prices : ndarray
        Where segments begin, and the end; the prices of the jumps between them.
    points, shared, smooth : ndarray
        x, the v that fits it, and the v with one value a segment: after a round.
    primal, dual : float
        Both objectives, after a round.
    """

    def __init__(
        self,
        heights: np.ndarray,
        roots: np.ndarray,
        alpha: float,
        is_round: bool,
        columns: slice = slice(None),
    ) -> None:
        self.kernels: Any = library(cast(Any, segments))
        self.alpha, self.is_round, self.columns = alpha, is_round, columns
        self.heights, self.roots = np.ascontiguousarray(heights[:, columns]), roots
        heights = self.heights
        n, width = heights.shape
        weights = 1.0 / np.square(roots)
        self.mass, self.sums = np.zeros(n + 1), np.zeros((n + 1, width))
        np.cumsum(weights, out=self.mass[1:])
        np.cumsum(heights * weights[:, np.newaxis], axis=0, out=self.sums[1:])
        self.scale = 0.5 * float(np.sum(weights @ np.square(heights)))
        self.bounds, self.prices = np.array([0, n]), np.zeros((0, width))
        self.points = np.zeros((n - 1, width))
        self.smooth, self.shared = np.zeros((n, width)), np.zeros((n, width))
        self.primal = self.dual = math.nan
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.is_solved, self.is_slow, self._inner = False, False, INNER
        self._reached = FIRST * self.scale  # the gap of the problem of the segments

    @property
    def gap(self) -> float:
        """The duality gap after the last round; infinite before the first."""
        return max(self.primal - self.dual, 0.0) if self.is_solved else math.inf

    def change_alpha(self, alpha: float) -> None:
        """Keep the change points, whose prices are as large as alpha."""
        self.prices *= alpha / self.alpha
        self.alpha = alpha
        self._begin_anew()

    def begin(self, points: np.ndarray) -> None:
        """Begin with the change points of a feasible x: rows whose price is alpha."""
        rows = np.flatnonzero(self._sizes(points) >= AT_ALPHA * self.alpha)
        self.bounds = np.concatenate([[0], rows + 1, [len(self.heights)]])
        self.prices = np.array(points[rows])

    def _sizes(self, prices: np.ndarray) -> np.ndarray:
        return np.linalg.norm(prices, ord=2 if self.is_round else 1, axis=1)

    def round(self, goal: float, pulse: Callable[[], bool] = lambda: False) -> None:
        """Split and solve in turns, ever more exactly, until no price exceeds alpha.

        The problem of the segments is then solved to a part of `goal`. `pulse()` ends
        the round early; what it has found so far is kept.
        """
        last = max(self._inner * goal, LEAST * self.scale)
        excess = min(max(last / (self.scale or 1.0), LEAST), EXCESS)
        for _ in range(MOST_TURNS):
            is_split = self._split(excess)
            if not is_split and self._reached <= last:
                break
            if not self._settle(max(SHARPER * self._reached, last), last, pulse):
                break
        self._inner *= INNER  # the next round, if there is one, must be more exact
        self.primal, self.dual = self.kernels.unfold(
            self.heights, self.roots, self.sums, self.mass, self.bounds, self.prices,
            self.alpha, self.is_round, self.points, self.smooth, self.shared,
        )  # fmt: skip
        self.is_solved = True

    def _split(self, excess: float) -> bool:
        """Add change points where prices exceed alpha; return whether there are any."""
        n, width = self.heights.shape
        rows, new = np.empty(n, np.int64), np.empty((n, width))
        count = self.kernels.refine(
            self.sums, self.mass, self.bounds, self.prices, self.alpha, excess,
            self.is_round, rows, new,
        )  # fmt: skip
        rows = np.concatenate([self.bounds[1:-1], rows[:count]])
        order = np.argsort(rows, kind="stable")
        self.bounds = np.concatenate([[0], rows[order], [n]])
        self.prices = np.concatenate([self.prices, new[:count]])[order]
        return count > 0

    def _settle(self, aim: float, last: float, pulse: Callable[[], bool]) -> bool:
        """Solve, and let go of change points without a jump; False: ended early."""
        while not self.is_slow and self._solve(aim, pulse):
            if self.is_slow:
                break
            at_alpha = self._sizes(self.prices) >= AT_ALPHA * self.alpha
            if at_alpha.all():
                self._reached = aim
                return True
            self._keep(at_alpha)
        return self.is_slow and self._solve_inside(last, pulse)

    def _keep(self, kept: np.ndarray) -> None:
        self.bounds = np.delete(self.bounds, np.flatnonzero(~kept) + 1)
        self.prices = np.ascontiguousarray(self.prices[kept])

    def _solve_inside(self, goal: float, pulse: Callable[[], bool]) -> bool:
        """Solve by interior-point steps; False: ended early."""
        n, width = self.heights.shape
        if MANY * len(self.prices) > n:  # then no row needs to be found by splitting
            self.bounds, self.prices = np.arange(n + 1), np.zeros((n - 1, width))
        if len(self.prices):
            variances = 1.0 / np.diff(self.mass[self.bounds])
            means = np.diff(self.sums[self.bounds], axis=0) * variances[:, np.newaxis]
            inner = Interior(
                means, variances, self.alpha, 2.0 if self.is_round else np.inf
            )
            is_whole = inner.solve(goal, pulse)
            self.prices = inner.prices
            self._keep(inner.contrast > 1.0)
            if not is_whole:
                return False
        self._reached = goal
        return True

    def _solve(self, goal: float, pulse: Callable[[], bool]) -> bool:
        """Make block steps until their gaps sum to `goal`; False: ended early.

        Where they take longer than interior-point steps would, `is_slow` becomes true.
        """
        n_prices, width = self.prices.shape
        inverse = 1.0 / np.diff(self.mass[self.bounds])
        values = np.diff(self.sums[self.bounds], axis=0)
        values[:-1] += self.prices
        values[1:] -= self.prices
        values *= inverse[:, np.newaxis]
        queue, following = np.arange(n_prices), np.empty(n_prices, np.int64)
        marks, share = np.zeros(n_prices, np.bool_), goal / max(n_prices, 1)
        most, count = max(1, VISITS // width), n_prices
        left = STEPS * cost_of_step(n_prices, width, self.is_round)
        while count:
            if left <= 0:
                self.is_slow = True
                break
            count = self.kernels.sweep(
                values, inverse, self.prices, self.alpha, self.is_round, queue,
                following, marks, count, share, min(most, int(left) + 1),
            )  # fmt: skip
            left -= most
            if pulse():
                return False
        return True
