"""One exact certificate: rebuild v in double precision, pass once over all blocks."""

import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from wolfpack.kernels.memory import copy, norm_of
from wolfpack.problem import Problem
from wolfpack.run import faults
from wolfpack.run.crew import Crew
from wolfpack.run.passes import Passes
from wolfpack.state import State


class Certificate(NamedTuple):
    """What a check found; `best` is the v that gave the lower bound."""

    objective: float
    gap: float
    drift: float
    shared: np.ndarray
    best: np.ndarray
    averaged: bool
    gaps: np.ndarray


class Certifier(Passes):
    """Certifies the iterates of one run."""

    is_exact = True  # whether the last certificate was computed from x

    def __init__(
        self,
        problem: Problem,
        kernels: SimpleNamespace,
        work: tuple,
        crew: Crew | None = None,
        oracle_sum: Callable[..., float | None] = lambda *_: None,
        witness: Callable[[], np.ndarray | None] = lambda: None,
    ) -> None:
        super().__init__(problem, kernels, work, crew)
        self.moved = bool(problem.shared.any())
        # v0 in double precision; empty where it is 0
        self.origin = problem.shared[: None if self.moved else 0].astype(np.float64)
        self.seconds = 0.0  # of the last certificate
        self.oracle_sum = oracle_sum  # of a session; None: the pass is made here
        self.witness = witness  # of a session, too

    def certify(
        self, state: State, stop: Callable[[], bool], is_last: bool = True
    ) -> Certificate | None:
        """Bound f(x) - f* for the x of `state`; None if `stop()` ended the pass.

        `is_last`: an accelerated run then computes its gap from the stored atoms, and
        leaves v as it is.
        """
        begin = time.perf_counter()
        exact, linear = self.rebuild(state)
        shared = exact.astype(state.shared.dtype, copy=False)
        norm = norm_of(exact)
        drift = norm_of(exact - state.shared) / norm if norm > 0 else 0.0
        gaps, best, averaged = np.zeros_like(state.sampler.gaps), exact, False
        witness = self.witness()
        if witness is None:
            found = self._pass(state, shared, exact, stop, gaps)
            if found is None:
                return None
            value, inner, least, size = found
            objective, gap = value + linear, inner + linear - least
            faults.refuse_negative(self.problem, state, gap, size + abs(linear))
            if math.isfinite(norm):
                faults.refuse_endless(self, state, gap)
        else:
            objective, gap = self.evaluate(exact) + linear, math.inf
        mean = state.averaged() if witness is None else witness
        if mean is not None:
            working = mean.astype(shared.dtype, copy=False)
            found = self._pass(state, working, mean, stop, self.no_gaps)
            if found is None:
                return None
            other = objective - (found[0] - found[1] + found[2])
            if other < gap:
                gap, best, averaged = other, mean, witness is None
        gap = gap if math.isnan(gap) else max(gap, 0.0)  # < 0 by rounding
        self.seconds = time.perf_counter() - begin
        return Certificate(objective, gap, float(drift), shared, best, averaged, gaps)

    def _pass(self, state, shared, exact, stop, gaps) -> tuple[float, ...] | None:
        """Return g(v), <grad g(v), v - v0>, the oracle's sum, and their size."""
        least = self._least(state, shared, exact, stop, gaps)
        if least is None:
            return None
        inner, whole = self._inner_products(state, exact)
        size = abs(inner) + abs(least) + 1e-3 * abs(whole)
        return self.evaluate(exact), inner, least, size

    def _least(self, state, shared, exact, stop, gaps) -> float | None:
        """Return the oracle's sum over all blocks; None if `stop()` ended the pass."""
        before = math.nan if self.problem.is_ours else norm_of(shared)
        least = self.oracle_sum(state, exact, stop)
        if least is None or math.isnan(least):  # a pass here finds the block
            least = self.sum_oracle(state, shared, exact, stop, gaps)
        if least is None or not math.isfinite(before):
            return least
        if norm_of(shared) != before:
            sentence = "v has changed in a full pass: an oracle only reads v."
            faults.give_up(self.problem, state, sentence)
        return least

    def evaluate(self, exact: np.ndarray) -> float:
        """Return g(v); NaN where the problem has no `value`."""
        return float(self.kernels.evaluate(self.problem.data, exact))

    def _inner_products(self, state: State, exact: np.ndarray) -> tuple[float, float]:
        """Return <grad g(v), v - v0> and <grad g(v), v>.

        Where blocks touch few rows, g is a sum over rows, and each thread takes a part.
        """
        change = copy(exact - self.origin) if self.moved else exact
        size = self.size if self.problem.touched is not None else 1
        shares = np.array_split(np.arange(len(exact)), size)

        def work(t: int) -> tuple[float, float]:
            kernel = self.kernels.inner_products
            return self.guard(state, t, kernel, exact, change, shares[t])

        inner, whole = np.sum(self.divide(work, size), axis=0)
        return float(inner), float(whole)
