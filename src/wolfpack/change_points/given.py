"""What `GroupFusedLasso.fit` was given: rows that count, and their weights.

Where an entry is missing, or has a weight of its own, the lasso is a sequence of plain
problems (`missing`). `Given` and `Incomplete` hide the difference from the estimator.
"""

import dataclasses
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from wolfpack.change_points.entries import Entries, entry_weights
from wolfpack.change_points.missing import Completion
from wolfpack.change_points.segmentation import (
    largest_alpha,
    segment_means,
    weighted_rows,
)
from wolfpack.checks.inputs import is_number, positive
from wolfpack.engines.active_set import ActiveSet
from wolfpack.problem import Problem
from wolfpack.problems.fused_lasso import group_fused_lasso
from wolfpack.result import Result, Status
from wolfpack.run.interrupt import Interrupt

MOST_TRIALS = 6  # of a rule for the number of points, on a signal with missing entries


def read_given(X: np.ndarray, sample_weight: Any) -> "Given":
    """Leave out rows without weight; X may have NaN, and weights rows or entries."""
    weights = entry_weights(X, sample_weight)
    if weights is None:
        rows, of_rows = weighted_rows(X, sample_weight)
        return Given(X[rows], rows, of_rows)
    count = int((weights > 0).any(axis=1).sum())
    if count < 2:
        raise ValueError(
            f"fit needs at least 2 rows with numbers; the signal has {count} whose "
            "weight is not 0."
        )
    rows, most = weighted_rows(X, weights.max(axis=1))
    weights = weights[rows]
    if (weights == weights[:, :1]).all():  # only whole rows are missing
        plain = sample_weight is None
        return Given(X[rows], rows, None if plain else most)
    return Incomplete(Entries.read(X[rows].astype(np.float64), weights), rows)


class Given:
    """A signal with one weight per row; None: all are 1.

    Attributes
    ----------
    values : ndarray (n, d)
        The rows whose weight is not 0.
    rows : ndarray of int (n,)
        Their numbers in the signal that was given.
    weights : ndarray (n,) or None
        Their weights.
    chosen : ndarray of int
        The change points of the last of `trials`.
    """

    chosen: np.ndarray

    def __init__(
        self, values: np.ndarray, rows: np.ndarray, weights: np.ndarray | None
    ) -> None:
        self.values, self.rows, self.weights = values, rows, weights

    def largest_alpha(self, q: float) -> float:
        """Return the smallest alpha for which the recovered signal is constant."""
        return largest_alpha(self.values, q, self.weights)

    def interruptible(self) -> AbstractContextManager[Any]:
        """Return the context in which `problem` and `solve` are called."""
        return nullcontext()  # `solve` has its own

    def problem(self, alpha: float, q: float, limits: "Limits") -> Problem:
        """Return the problem to solve last; `limits` are for what comes before."""
        return group_fused_lasso(self.values, alpha, q=q, weights=self.weights)

    def certify(self, result: Result) -> Result:
        """Return the result with the certificate of the problem that was given."""
        return result

    def prices(self, result: Result) -> np.ndarray:
        """Return the prices of the signal that was recovered."""
        return result.state.blocks.points

    def trials(self, number: int | str) -> Iterator[tuple]:
        """Yield signals and weights from which to choose change points.

        What was chosen goes to `chosen` before the next is asked for; the last counts.
        """
        yield self.values, self.weights

    def means(self, points: np.ndarray, signal: np.ndarray) -> np.ndarray:
        """Return the signal whose segments have their means."""
        return segment_means(self.values, points, self.weights)


class Limits:
    """When the steps before the last problem end, whatever the gap."""

    def __init__(self, model: Any, stop: Any) -> None:
        self.model, self.stop, self.begin = model, stop, time.perf_counter()

    def check(self) -> None:
        """Refuse limits that `solve`, which comes after the steps, would refuse."""
        seconds, tol = self.model.max_seconds, self.model.tol
        self.most = positive("max_iter", self.model.max_iter)
        if not (is_number(tol) and tol >= 0):
            raise ValueError(f"tol must be a number >= 0; given was {tol!r}.")
        wait = math.inf if seconds is None else positive("max_seconds", seconds)
        self.tol, self.end = tol, self.begin + wait

    def is_over(self) -> bool:
        """Whether the time is over, or a signal came."""
        return self.stop.asked or time.perf_counter() >= self.end


class Incomplete(Given):
    """A signal with missing entries, or with weights of entries."""

    def __init__(self, entries: Entries, rows: np.ndarray) -> None:
        of_rows = entries.rows
        plain = None if (of_rows == 1.0).all() else of_rows
        super().__init__(entries.values, rows, plain)
        self.entries = entries

    def largest_alpha(self, q: float) -> float:
        """Return the smallest alpha for which the recovered signal is constant."""
        return self.entries.largest_alpha(q)

    def interruptible(self) -> AbstractContextManager[Any]:
        """Return a context that passes a signal from one to the other."""
        return Interrupt()

    def problem(self, alpha: float, q: float, limits: Limits) -> Problem:
        """Solve; return the plain problem that has the same solution."""
        limits.check()
        engine = limits.model._choose_engine()
        if not isinstance(engine, ActiveSet) or q not in (1, 2, np.inf):
            raise ValueError(
                "missing values, and weights of entries, need q = 1, 2 or inf and the "
                "default engine: leave out engine, batch_size, step, sampling, "
                "averaging and accelerate, or fill the signal."
            )
        self.limits, self.completion = limits, Completion(self.entries, alpha, q)
        goal = limits.tol * self.completion.scale
        self.completion.solve(goal, limits.most, limits.is_over)
        data = self.completion.data + self.completion.centre
        return group_fused_lasso(data, alpha, q=q, weights=self.weights)

    def certify(self, result: Result) -> Result:
        """Return the result with the certificate of the problem with its gaps."""
        best, limits = self.completion, self.limits
        best.offer(result.solution - best.centre, result.state.blocks.points)
        relative, status = best.gap / best.scale, result.status
        if relative <= limits.tol:
            status = Status.CONVERGED
        elif status is Status.CONVERGED:
            late = time.perf_counter() >= limits.end
            out = Status.EPOCH_LIMIT if best.n_steps >= limits.most else Status.STALLED
            status = Status.TIME_LIMIT if late else out
        about = {
            "objective": -best.dual,
            "gap": best.gap,
            "lower_bound": -best.primal,
            "relative_gap": relative,
        }
        share = best.gap / best.primal if best.primal > 0 else None
        epochs = result.epochs + best.n_steps
        row = result.trace[-1]._replace(epoch=epochs, gap_over_primal=share, **about)
        return dataclasses.replace(
            result, solution=best.signal + best.centre, status=status, epochs=epochs,
            trace=[*result.trace[:-1], row], **about,
        )  # fmt: skip

    def prices(self, result: Result) -> np.ndarray:
        """Return the prices of the signal that was recovered."""
        return self.completion.prices

    def trials(self, number: int | str) -> Iterator[tuple]:
        """Yield the signal with weights of entries where least squares alone choose.

        A rule that looks for the number wants a whole signal. It gets one whose missing
        entries have the means of the segments chosen before, at first of a single one,
        and noise like that of the rest, until it chooses the same again.
        """
        if not isinstance(number, str):
            yield self.values, self.entries.weights
            return
        self.chosen, before = np.arange(0), []
        while self.chosen.tolist() not in before and len(before) < MOST_TRIALS:
            before.append(self.chosen.tolist())
            yield self.entries.with_noise(self.chosen), self.weights

    def means(self, points: np.ndarray, signal: np.ndarray) -> np.ndarray:
        """Return the signal whose segments have the means of their entries."""
        return self.entries.segment_means(points, signal)
