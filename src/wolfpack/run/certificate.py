"""One exact certificate: rebuild v in double precision, pass once over all blocks.

The kernels are in `gap`. All threads of the run call them here, each for its share of
the blocks and in slices, so that Ctrl-C is answered within a moment even where the
oracle is slow.
"""

import contextlib
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.memory import copy, norm_of, widen, zeros
from wolfpack.problem import Problem
from wolfpack.result import OracleError
from wolfpack.run import faults
from wolfpack.run.crew import Crew
from wolfpack.state import State

SLICE_SECONDS = 0.05  # between two tests for Ctrl-C
# Each thread that rebuilds v has its own copy in double precision; all copies together
# take at most this memory.
MOST_BYTES = 2**25
UNKNOWN = 1.0  # the rate of oracle calls before any was timed
START_SECONDS = 2e-4  # to start one more thread
TRIAL_SECONDS = 5e-4  # of oracle calls, to know what one takes


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
        self.problem, self.kernels = problem, kernels
        self.crew = Crew(1) if crew is None else crew
        self.size = min(self.crew.size, problem.n_blocks) if kernels.compiled else 1
        self.works = [work, *(problem.work() for _ in range(self.size - 1))]
        room, kind = problem.atom_size, problem.start.dtype
        self.atoms = [zeros(room, kind) for _ in range(self.size)]
        self.currents = zeros((self.size, 8), np.int64)
        self.moved = bool(problem.shared.any())
        # v0 in double precision; empty where it is 0
        self.origin = problem.shared[: None if self.moved else 0].astype(np.float64)
        self.no_gaps = np.zeros(0)
        self.seconds = 0.0  # of the last certificate
        self.rate = UNKNOWN  # oracle calls of one thread per second
        self.oracle_sum = oracle_sum  # of a session; None: the pass is made here
        self.witness = witness  # of a session, too

    def rebuild(self, state: State) -> tuple[np.ndarray, float]:
        """Return v0 + A x in double precision, and <c, x>."""
        exact = widen(self.problem.shared)
        more = min(self.size, MOST_BYTES // exact.nbytes) - 1
        parts = [exact, *(np.zeros_like(exact) for _ in range(more))]

        def work(t: int) -> float:
            first, last = self._share(t, len(parts))
            return self._rebuild(state, t, first, last, parts[t])

        linear = sum(self._divide(work, len(parts)))
        for part in parts[1:]:
            exact += part
        return exact, linear

    def _rebuild(self, state: State, t: int, first: int, last: int, out) -> float:
        """Add A_i x_(i) of some blocks to `out`; an error names its block."""
        kernel, blocks = self.kernels.rebuild, state.blocks
        try:
            linear = kernel(self.problem.data, blocks, first, last, out)
        except Exception:
            linear = math.nan
        if math.isnan(linear):  # block by block, to find which one fails
            for i in range(first, last):
                self.currents[t, 0] = i
                self.guard(state, t, kernel, blocks, i, i + 1, out)
        return linear

    def _divide(self, work: Callable[[int], Any], size: int, **how: Any) -> list[Any]:
        """Return [work(0), ..., work(size - 1)], by as many threads as are worth it.

        What is summed in which order does not depend on their number.
        """
        seconds = self.problem.n_blocks / self.rate  # of a pass by one thread
        count = max(1, min(size, round(math.sqrt(seconds / START_SECONDS))))

        def several(j: int) -> list[Any]:
            return [work(t) for t in range(j, size, count)]

        found = self.crew.run(several, count, **how)
        return [found[t % count][t // count] for t in range(size)]

    def time_oracle(self, state: State) -> None:
        """Call the oracle on some blocks, to know `rate` before the first check.

        Where it raises, the loop will find that out, and name the block.
        """
        exact, count, seconds = self.precise(state.shared), 0, 0.0
        begin, n = time.perf_counter(), self.problem.n_blocks
        with contextlib.suppress(Exception):
            while seconds < TRIAL_SECONDS and count < n:
                last = min(2 * count + 1, n)
                args = (state, state.shared, exact, count, last, self.no_gaps)
                self.oracle_values(*args)
                count, seconds = last, time.perf_counter() - begin
            self.rate = count / seconds

    def _share(self, t: int, size: int) -> tuple[int, int]:
        n = self.problem.n_blocks
        return t * n // size, (t + 1) * n // size

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
                faults.refuse_endless(self.problem, state, gap)
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

    def precise(self, shared: np.ndarray) -> np.ndarray:
        """Return v as `oracle_values` takes it for exact scores."""
        return shared.astype(np.float64)

    def oracle_values(
        self, state: State, shared, exact, first, last, gaps, t=0, total=0.0
    ) -> float:
        """Return `total` plus the sum over some blocks of min <s_(i), grad_i f>."""
        kernel, blocks = self.kernels.oracle_values, state.blocks
        if self.size > 1:
            blocks = self.problem.store.for_worker(blocks)
        scratch = (self.atoms[t], self.currents[t], self.works[t], gaps)
        args = (shared, exact, blocks, first, last, *scratch, total)
        return self.guard(state, t, kernel, *args)

    def blame(self, state: State, block: int) -> int:
        """Return the block that gives NaN or raises; `block` itself if none does.

        `block` is tried first, then all of them: blocks that move together share a line
        search, which cannot tell them apart.
        """
        exact = self.precise(state.shared)
        for first, last in ((block, block + 1), (0, self.problem.n_blocks)):
            try:
                args = (state, state.shared, exact, first, last, self.no_gaps)
                self.oracle_values(*args)
            except OracleError as error:
                return error.block
        return block

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
            least = self._sum_here(state, shared, exact, stop, gaps)
        if least is None or not math.isfinite(before):
            return least
        if norm_of(shared) != before:
            sentence = "v has changed in a full pass: an oracle only reads v."
            faults.give_up(self.problem, state, sentence)
        return least

    def _sum_here(self, state, shared, exact, stop, gaps) -> float | None:
        """Return the oracle's sum over all blocks, by all threads."""
        over = [False]

        def work(t: int) -> float:
            least, rate = 0.0, self.rate
            first, end = self._share(t, self.size)
            while first < end and not over[0]:
                if self.size == 1 and stop():
                    over[0] = True
                    break
                last = min(first + max(1, int(rate * SLICE_SECONDS)), end)
                begin = time.perf_counter()
                args = (state, shared, exact, first, last, gaps, t, least)
                least = self.oracle_values(*args)  # the same bits as without slices
                rate = max((last - first) / max(time.perf_counter() - begin, 1e-6), 1.0)
                first = last
            if t == 0:
                self.rate = rate
            return least

        def pulse() -> None:
            over[0] = over[0] or stop()

        def give_up() -> None:
            over[0] = True

        watch = pulse if self.size > 1 else None
        least = sum(self._divide(work, self.size, stop=give_up, pulse=watch))
        return None if over[0] else float(least)

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

        inner, whole = np.sum(self._divide(work, size), axis=0)
        return float(inner), float(whole)

    def guard(self, state: State, t: int, kernel: Callable, *args: Any) -> Any:
        """Call a kernel as thread t; name the block in what it raises."""
        try:
            result = kernel(self.problem.data, *args)
        except Exception as error:
            state.progress.at = self.currents[t, 0]
            raise faults.failure(self.problem, state, error) from error
        if isinstance(result, float) and math.isnan(result):
            block = int(self.currents[t, 0])
            what = "add returned NaN"
            if kernel is not self.kernels.rebuild:
                what = faults.what_is_nan(
                    self.problem, self.kernels, self.atoms[t], block
                )
            faults.give_up(
                self.problem,
                state,
                f"{what} on block {block} in a full pass, after {state.n_updates} "
                "updates; the iterate is in this error's .state.",
                block,
            )
        return result
