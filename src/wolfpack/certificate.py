"""One exact certificate: rebuild v in double precision, pass once over all blocks.

The kernels are in `gap`; here they are called in slices, so that Ctrl-C is answered
within a moment even where the oracle is slow.
"""

import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from wolfpack.engines.serial import CURRENT
from wolfpack.problem import Problem
from wolfpack.result import OracleError
from wolfpack.state import State

SLICE_SECONDS = 0.05


class Certificate(NamedTuple):
    """What a check found; `best` is the v that gave the lower bound."""

    objective: float
    gap: float
    drift: float
    shared: np.ndarray
    best: np.ndarray
    averaged: bool
    gaps: np.ndarray


class Certifier:
    """Certifies the iterates of one run."""

    def __init__(self, problem: Problem, kernels: SimpleNamespace, work: tuple) -> None:
        self.problem, self.kernels, self.work = problem, kernels, work
        self.atom = np.zeros(problem.atom_size, problem.start.dtype)
        self.origin = problem.shared.astype(np.float64, copy=False)
        self.rows = np.arange(len(problem.shared))
        self.no_gaps = np.zeros(0)
        self.seconds = 0.0  # of the last certificate
        self._rate = 1.0

    def rebuild(self, state: State) -> tuple[np.ndarray, float]:
        """Return v0 + A x in double precision, and <c, x>."""
        exact = self.problem.shared.astype(np.float64)
        n = self.problem.n_blocks
        return exact, self.guard(state, self.kernels.rebuild, state.blocks, n, exact)

    def certify(self, state: State, stop: Callable[[], bool]) -> Certificate | None:
        """Bound f(x) - f* for the x of `state`; None if `stop()` said so on the way."""
        begin = time.perf_counter()
        exact, linear = self.rebuild(state)
        shared = exact.astype(state.shared.dtype, copy=False)
        size = np.linalg.norm(exact)
        drift = np.linalg.norm(exact - state.shared) / size if size > 0 else 0.0
        gaps = np.zeros_like(state.sampler.gaps)
        found = self._pass(state, shared, exact, stop, gaps)
        if found is None:
            return None
        value, inner, least, size = found
        objective, gap = value + linear, inner + linear - least
        self._refuse_negative(state, gap, size + abs(linear))
        best, averaged = exact, False
        mean = state.averaged()
        if mean is not None:
            working = mean.astype(shared.dtype, copy=False)
            found = self._pass(state, working, mean, stop, self.no_gaps)
            if found is None:
                return None
            other = objective - (found[0] - found[1] + found[2])
            if other < gap:
                gap, best, averaged = other, mean, True
        gap = gap if math.isnan(gap) else max(gap, 0.0)  # below is rounding
        self.seconds = time.perf_counter() - begin
        return Certificate(objective, gap, float(drift), shared, best, averaged, gaps)

    def oracle_values(self, state: State, shared, exact, first, last, gaps) -> float:
        """Return the sum over blocks [first, last) of min <s_(i), grad_i f>."""
        current, kernel = state.counts[CURRENT:], self.kernels.oracle_values
        args = (state.blocks, first, last, self.atom, current, self.work, gaps)
        return self.guard(state, kernel, shared, exact, *args)

    def _pass(self, state, shared, exact, stop, gaps) -> tuple[float, ...] | None:
        """Return g(v), <grad g(v), v - v0>, the oracle's sum, and their size."""
        least, first, n = 0.0, 0, self.problem.n_blocks
        while first < n:
            if stop():
                return None
            last = min(first + max(1, int(self._rate * SLICE_SECONDS)), n)
            begin = time.perf_counter()
            least += self.oracle_values(state, shared, exact, first, last, gaps)
            spent = time.perf_counter() - begin
            self._rate = max((last - first) / max(spent, 1e-6), 1.0)
            first = last
        kernel = self.kernels.evaluate
        value, inner, whole = self.guard(state, kernel, exact, self.origin, self.rows)
        size = abs(inner) + abs(least) + 1e-3 * abs(whole)
        return float(value), float(inner), float(least), size

    def _refuse_negative(self, state: State, gap: float, size: float) -> None:
        noise = 1e-5 if state.shared.dtype == np.float32 else 1e-9
        if gap < -noise * (size + self.problem.scale):
            raise OracleError(
                f"{self.problem.name}: the gap is {gap:.3g}, and no minimiser gives a "
                "negative one: the oracle misses its minimum on some block.",
                -1,
                state,
            )

    def guard(self, state: State, kernel: Callable, *args: Any) -> Any:
        """Call a kernel; name the block in what it raises."""
        try:
            result = kernel(self.problem.data, *args)
        except Exception as error:
            raise failure(self.problem, state, error) from error
        if isinstance(result, float) and math.isnan(result):
            raise OracleError(
                f"{self.problem.name}: the oracle returned NaN in a full pass.",
                -1,
                state,
            )
        return result


def failure(problem: Problem, state: State, error: Exception) -> OracleError:
    """Return the error that says which block was at work when `error` came."""
    block = int(state.counts[CURRENT])
    return OracleError(
        f"{problem.name}: a function of the problem raised {type(error).__name__} on "
        f"block {block}: {error}; the iterate is in this error's .state.",
        block,
        state,
    )
