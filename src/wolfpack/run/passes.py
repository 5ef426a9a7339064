"""Passes over all blocks, by all threads of the run: oracle calls, and v from x.

The kernels are in `gap`. Each thread takes its parts of the blocks, in slices, so that
Ctrl-C is answered within a moment even where the oracle is slow. An error names the
block that it comes from.
"""

import collections
import contextlib
import math
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from wolfpack.kernels.memory import widen, zeros
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
# Where cores differ in speed, a pass is made in parts of this length.
PART_SECONDS = 2e-3


class Passes:
    """What one run needs to pass over all blocks."""

    is_steady = True  # whether a sum must have the same bits however long calls take

    def __init__(
        self,
        problem: Problem,
        kernels: SimpleNamespace,
        work: tuple,
        crew: Crew | None = None,
    ) -> None:
        self.problem, self.kernels = problem, kernels
        self.crew = Crew(1) if crew is None else crew
        self.size = min(self.crew.size, problem.n_blocks) if kernels.compiled else 1
        self.works = [work, *(problem.work() for _ in range(self.size - 1))]
        room, kind = problem.atom_size, problem.start.dtype
        self.atoms = [zeros(room, kind) for _ in range(self.size)]
        self.currents = zeros((self.size, 8), np.int64)
        self.no_gaps = np.zeros(0)
        self.rate = UNKNOWN  # oracle calls of one thread per second

    def rebuild(self, state: State) -> tuple[np.ndarray, float]:
        """Return v0 + A x in double precision, and <c, x>."""
        exact = widen(self.problem.shared)
        more = min(self.size, MOST_BYTES // exact.nbytes) - 1
        parts = [exact, *(np.zeros_like(exact) for _ in range(more))]

        def work(t: int) -> float:
            first, last = self._share(t, len(parts))
            return self._rebuild(state, t, first, last, parts[t])

        linear = sum(self.divide(work, len(parts)))
        for part in parts[1:]:
            exact += part
        return exact, linear

    def _rebuild(self, state: State, t: int, first: int, last: int, out) -> float:
        """Add A_i x_(i) of some blocks to `out`; an error names its block."""
        kernel, blocks = self.kernels.rebuild, self._blocks_of(state)
        try:
            linear = kernel(self.problem.data, blocks, first, last, out, self.works[t])
        except Exception:
            linear = math.nan
        if math.isnan(linear):  # block by block, to find which one fails
            for i in range(first, last):
                self.currents[t, 0] = i
                self.guard(state, t, kernel, blocks, i, i + 1, out, self.works[t])
        return linear

    def divide(self, work: Callable[[int], Any], size: int, **how: Any) -> list[Any]:
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

    def sum_oracle(self, state, shared, exact, stop, gaps) -> float | None:
        """Return the oracle's sum over all blocks, by all threads."""
        over, n_parts = [False], self._count_parts()
        sums, left = [0.0] * n_parts, collections.deque(range(n_parts))

        def work(t: int) -> None:
            rate = self.rate
            for part in _take_all(left):
                first, end = self._share(part, n_parts)
                while first < end and not over[0]:
                    if self.size == 1 and stop():
                        over[0] = True
                        break
                    last = min(first + max(1, int(rate * SLICE_SECONDS)), end)
                    begin = time.perf_counter()
                    args = (state, shared, exact, first, last, gaps, t, sums[part])
                    sums[part] = self.oracle_values(*args)  # the bits of a whole part
                    spent = max(time.perf_counter() - begin, 1e-6)
                    rate, first = max((last - first) / spent, 1.0), last
            if t == 0:
                self.rate = rate

        def pulse() -> None:
            over[0] = over[0] or stop()

        def give_up() -> None:
            over[0] = True

        watch = pulse if self.size > 1 else None
        self.divide(work, self.size, stop=give_up, pulse=watch)
        return None if over[0] else float(sum(sums))

    def _count_parts(self) -> int:
        """Return in how many parts to make a pass: with more, none waits long."""
        if self.size == 1 or self.is_steady or self.rate == UNKNOWN:
            return self.size
        n = self.problem.n_blocks
        return max(self.size, min(int(n / self.rate / PART_SECONDS), n))

    def precise(self, shared: np.ndarray) -> np.ndarray:
        """Return v as `oracle_values` takes it for exact scores."""
        return shared.astype(np.float64)

    def oracle_values(
        self, state: State, shared, exact, first, last, gaps, t=0, total=0.0
    ) -> float:
        """Return `total` plus the sum over some blocks of min <s_(i), grad_i f>."""
        kernel, blocks = self.kernels.oracle_values, self._blocks_of(state)
        scratch = (self.atoms[t], self.currents[t], self.works[t], gaps)
        args = (shared, exact, blocks, first, last, *scratch, total)
        return self.guard(state, t, kernel, *args)

    def _blocks_of(self, state: State) -> Any:
        """Return x in a form that one of several threads may use."""
        blocks = state.blocks
        return self.problem.store.for_worker(blocks) if self.size > 1 else blocks

    def blame(self, state: State, block: int) -> int:
        """Return the block that gives NaN or raises; `block` itself if none does.

        `block` is tried first, then all of them: blocks that move together share a line
        search, which cannot tell them apart.
        """
        n, exact = self.problem.n_blocks, self.precise(state.shared)
        gaps = np.zeros(n)
        for first, last in ((max(block, 0), block + 1), (0, n)):
            try:
                self.oracle_values(state, state.shared, exact, first, last, gaps)
            except OracleError as error:
                return error.block
            if not np.isfinite(gaps).all():  # of an atom whose minimum may be finite
                return int(np.isfinite(gaps).argmin())
        return block

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


def _take_all(left: collections.deque) -> Iterator[Any]:
    """Yield what no other thread has taken, until nothing is left."""
    with contextlib.suppress(IndexError):
        while True:
            yield left.popleft()
