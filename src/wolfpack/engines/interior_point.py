"""Interior-point steps on all rows of a signal, by `update.interior`.

A round solves the whole problem to a part of the goal. Then x are the prices, which lie
inside their balls, and the bound comes from a v that is exactly constant, or straight,
where no difference is large: it is the solution, too. A round moves all blocks at once,
so it counts as one update, and as one pass. Mostly one is enough.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfpack.engines.base import Engine, Session
from wolfpack.problem import Problem
from wolfpack.problems.fused_lasso import dual_norm, is_signal, penalty
from wolfpack.problems.trend_filter import is_bent_signal
from wolfpack.update.interior import make_interior, warm_up
from wolfpack.update.newton import transposed
from wolfpack.update.pieces import draw_lines, fit_lines, fit_segments
from wolfpack.update.plan import Exit

INNER = 0.5  # the part of the goal to which the first round solves
# Differences of a smaller contrast are made 0; the first that reaches the goal counts.
CONTRASTS = np.inf, 100.0, 10.0, 1.0, 0.01


@dataclass(frozen=True)
class AllBlocks(Engine):
    """An engine for signals, each of whose updates moves all blocks."""

    n_workers: int = 1

    reproducible, heeds_step = True, False
    known = ""  # the problems, for a sentence

    def __post_init__(self) -> None:
        """Refuse a number of threads that makes no sense."""
        n = self.n_workers
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n_workers must be an integer of at least 1, not {n!r}.")

    @property
    def size(self) -> int:
        """The number of threads of a certificate."""
        return int(self.n_workers)

    def blocks_per_update(self, asked: int | None, n_blocks: int) -> int:
        """Return all blocks: a round moves each."""
        return n_blocks

    @abstractmethod
    def takes(self, problem) -> bool:
        """Return whether the engine knows the problem."""

    def refuse(self, problem, options) -> None:
        """Refuse other problems than signals, and other steps than exact ones."""
        name = type(self).__name__
        if not self.takes(problem):
            raise ValueError(
                f"{name} solves {self.known}; use Serial() or Threads() for this "
                f"{problem.name}."
            )
        if options.asked not in (None, problem.n_blocks):
            raise ValueError(
                f"{name} moves all blocks at once, so batch_size must be None, but is "
                f"{options.asked}."
            )
        if options.averaging or options.step not in ("line", "exact"):
            raise ValueError(
                f"{name} makes exact steps and averages nothing; leave out step and "
                "averaging, or use Serial()."
            )


@dataclass(frozen=True)
class InteriorPoint(AllBlocks):
    """Signals by interior-point steps: 10 to 30 of them, however many kinks there are.

    It takes `group_trend_filter` and `group_fused_lasso`, with any q; with others than
    1, 2 and inf it solves five times as many systems. `step` must be "line" or "exact",
    and has no effect, nor has `sampling`. A step takes O(n d^3). Where a fused lasso
    has few change points, `ActiveSet` is faster, and where it has many, that takes the
    same steps.

    Parameters
    ----------
    n_workers : int
        Threads for the certificates; the rounds use one.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=1000, d=3, rng=0)
    >>> problem = wolfpack.group_trend_filter(Y, alpha=50.0)
    >>> result = wolfpack.solve(problem, engine=wolfpack.InteriorPoint(), tol=1e-8)
    >>> result.status.name, result.epochs <= 5
    ('CONVERGED', True)
    """

    known = "the group fused lasso and group trend filtering"

    def takes(self, problem) -> bool:
        """Return whether it is a signal with first or second differences."""
        return is_signal(problem) or is_bent_signal(problem)

    def session(self, problem, options) -> "InteriorSession":
        """Return the memory of one run."""
        return InteriorSession()


class PartsSession(Session):
    """The parts of a signal: one of all columns or, with q = 1, one of each."""

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def advance(self, run, calls: int) -> Exit:
        """Make a round for every n calls."""
        state, problem = run.state, run.problem
        goal = run.goal / len(self.parts)
        for _ in range(max(1, calls // problem.n_blocks)):
            for part in self.parts:
                part.round(goal, run.pulse)
                if part.shared is not state.shared:
                    state.blocks.points[:, part.columns] = part.points
                    state.shared[:, part.columns] = part.shared
            state.progress.calls += problem.n_blocks
            state.progress.updates += 1
            if run.pulse():
                break
        return Exit.DONE

    def witness(self) -> np.ndarray | None:
        """Return the v that is made of pieces."""
        if not self.parts or not self.parts[0].is_solved:
            return None
        first, *others = self.parts
        return np.hstack([p.smooth for p in self.parts]) if others else first.smooth


class InteriorSession(PartsSession):
    """All rows of the parts, by interior-point steps."""

    def warm_up(self, run) -> None:
        """Compile the loops, or load them."""
        problem, q = run.problem, penalty(run.problem)[1]
        width = 1 if q == 1.0 else problem.shared.shape[1]
        warm_up(problem.n_blocks, width, q, is_bent_signal(problem))

    def open(self, run) -> None:
        """Begin with the signal as it is."""
        self.parts = make_rows(run.problem)


def cut_columns(problem: Problem, make: Callable[..., Any]) -> list[Any]:
    """Return a part of all columns or, with q = 1, of each alone.

    `make` gets the rows of the signal, the roots, alpha, q and the columns.
    """
    alpha, q = penalty(problem)
    roots, width = problem.data.roots, problem.shared.shape[1]
    heights, step = problem.shared * roots[:, np.newaxis], 1 if q == 1.0 else width
    return [
        make(heights, roots, alpha, q, slice(first, first + step))
        for first in range(0, width, step)
    ]


def make_rows(problem: Problem) -> "list[Rows]":
    """Return the columns that bend together: all of them, or each alone (q = 1)."""
    is_bent = is_bent_signal(problem)

    def make(heights, roots, alpha, q, columns) -> Rows:
        return Rows(heights, roots, alpha, q, is_bent, columns)

    return cut_columns(problem, make)


class Rows:
    """All rows of some columns of a signal.

    Attributes
    ----------
    points, shared, smooth : ndarray
        x, the v that fits it, and the v made of pieces: after a round.
    places : ndarray of int
        The differences that are not 0.
    gap : float
        Of `points` and `smooth`.
    """

    def __init__(
        self,
        heights: np.ndarray,
        roots: np.ndarray,
        alpha: float,
        q: float,
        is_bent: bool,
        columns: slice = slice(None),
    ) -> None:
        self.heights, self.roots = np.ascontiguousarray(heights[:, columns]), roots
        self.alpha, self.columns, self.is_bent = alpha, columns, is_bent
        self.norms = q, dual_norm(q)
        variances = np.square(roots)
        self.weights, self.is_solved, self._inner = 1.0 / variances, False, INNER
        self.inner = make_interior(self.heights, variances, alpha, q, is_bent)

    def round(self, goal: float, pulse: Callable[[], bool] = lambda: False) -> None:
        """Solve to a part of `goal`; a later round is more exact."""
        self.inner.solve(self._inner * goal, pulse)
        self._inner *= INNER
        prices, roots = self.inner.prices, self.roots[:, np.newaxis]
        size = np.linalg.norm(prices, ord=self.norms[1], axis=1, keepdims=True)
        self.points = prices * np.minimum(
            self.alpha / np.maximum(size, self.alpha), 1.0
        )
        apart = transposed(self.points, self.is_bent)
        self.shared = self.heights / roots - roots * apart
        half = 0.5 * float(np.square(self.heights / roots).sum())
        dual = half - 0.5 * float(np.square(self.shared).sum())
        found = []
        for least in CONTRASTS:
            found.append(self._pieces(least))
            if found[-1][0] - dual <= goal:
                break
        self.objective, self.places, values = min(found, key=lambda one: one[0])
        self.smooth, self.is_solved = values / roots, True
        self.gap = max(self.objective - dual, 0.0)

    def _pieces(self, least: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the primal, places and signal of the differences that stand out."""
        places = np.flatnonzero(self.inner.contrast > least)
        values = self.inner.values if len(places) else self.heights
        if not self.is_bent:
            values = fit_segments(values, places + 1, self.weights)
        elif len(places):
            values = draw_lines(values, places + 1)
        else:
            values = fit_lines(values, places + 1, self.weights)
        return self.primal(values), places, values

    def primal(self, values: np.ndarray) -> float:
        """Return the objective of a signal."""
        bends = np.diff(values, 2 if self.is_bent else 1, axis=0)
        sizes = np.linalg.norm(bends, ord=self.norms[0], axis=1)
        squares = np.square(values - self.heights).sum(axis=1)
        return 0.5 * float(self.weights @ squares) + self.alpha * float(sizes.sum())
