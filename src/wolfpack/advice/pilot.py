"""A short run that measures what `suggest_batch_size` needs, and disturbs nothing.

From the same iterate, and over the same blocks in the same order, the pilot makes
updates of one block, one after the other, and notes how far f has fallen after k of
them. Then it makes the joint update of tau blocks. What that is worth in single ones,
the coupling, follows from the two falls (`worth`). Falls are taken from the blocks that
moved, in double precision, and averaged over rounds.
"""

import contextlib
import dataclasses
import time
from typing import Literal, NamedTuple

import numpy as np

from wolfpack.advice.along import Along
from wolfpack.advice.worth import Falls, worth
from wolfpack.engines.base import Engine
from wolfpack.engines.serial import Serial, SerialSession
from wolfpack.kernels.memory import copy
from wolfpack.problem import Problem
from wolfpack.run.loop import Run
from wolfpack.run.options import Options
from wolfpack.solve import _validate
from wolfpack.state import State
from wolfpack.update import sampling

ROUNDS = 12  # the most draws of blocks at each point
PASSES = (0, 1, 8)  # the coupling is measured after these, while f still falls
STEPS_A_PASS = 8  # parts of a pass, after each of which the clock is read
TIMED_SECONDS, REPEATS = 0.03, 5
# A run is over when a pass gains less than this part of the whole fall so far.
OVER = 1e-4

# How blocks move together: all by one gamma; or a share a worker, one after the other,
# merged by a search; or each by its own gamma, found at the same v.
Way = Literal["joint", "merge", "direct"]


class Point(NamedTuple):
    """An iterate, its v in double precision, and how far f fell on the way to it."""

    state: State
    exact: np.ndarray
    fallen: float


class Pilot:
    """Measures one problem from its start on."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.along = Along(problem)
        options = self._options(Serial(), 1, "permutation")
        state = State.begin(problem, options, rng)
        self.serial = Run(problem, Serial(), state, options, None).open()
        exact, _ = self.along.image(state, range(problem.n_blocks))
        self.point = Point(state, exact, 0.0)
        self.step_seconds = np.nan
        self._runs: dict[int, Run] = {}  # by blocks an update

    def _options(
        self, engine: Engine, batch_size: int, sampling: str = "uniform"
    ) -> Options:
        return _validate(
            self.problem, batch_size, "line", sampling, False, False, 0.0, np.inf, None,
            None, engine,
        )  # fmt: skip

    def walk(self, seconds: float) -> list[Point]:
        """Return the start and points further on, as far as the time allows."""
        begin = time.perf_counter()
        n, points = self.problem.n_blocks, [self.point]
        part, state, calls = -(-n // STEPS_A_PASS), self._clone(self.point.state), 0
        for passes in PASSES[1:]:
            while calls < passes * n and time.perf_counter() - begin < seconds:
                self._advance(self.serial, state, part)
                calls += part
            points.append(self._stand(state))
        self.step_seconds = (time.perf_counter() - begin) / max(calls, 1)
        return points

    def _stand(self, state: State) -> Point:
        start, state = self.point, self._clone(state)
        exact, linear = self.along.image(state, range(self.problem.n_blocks))
        linear -= self.along.image(start.state, range(self.problem.n_blocks))[1]
        state.shared[...] = exact
        return Point(
            state, exact, self.along.fall(start.exact, exact - start.exact, linear)
        )

    def coupling(
        self,
        points: list[Point],
        sizes: np.ndarray,
        way: Way,
        n_workers: int,
        seconds: float,
    ) -> np.ndarray:
        """Return the coupling of joint updates of `sizes` blocks, 1 to 1 / tau.

        Of the points, the last two count at which f still falls.
        """
        found = []
        groups = [self._groups(tau, way, n_workers) for tau in sizes.tolist()]
        for point in reversed(points):
            falls = self._measure(point, groups, way, seconds / len(points))
            a_pass = falls.single[-1] * self.problem.n_blocks / falls.counts[-1]
            if a_pass > OVER * (point.fallen + a_pass):
                found.append(worth(falls))
            if len(found) == 2:
                break
        if not found:
            return np.ones(len(sizes))
        # The mean is over passes, to which the coupling is inversely proportional.
        return 1.0 / np.mean(1.0 / np.array(found), axis=0)

    def _measure(
        self, point: Point, groups: list[tuple[int, int]], way: Way, seconds: float
    ) -> Falls:
        begin, n = time.perf_counter(), self.problem.n_blocks
        ways = {"joint": self._joint, "merge": self._merges, "direct": self._apart}
        blocks = [count * batch for count, batch in groups]
        powers = 2 ** np.arange(max(blocks).bit_length())
        counts = np.unique([*powers[powers <= max(blocks)], *blocks])
        single, joint = np.zeros(len(counts)), np.zeros(len(groups))
        rounds = 0
        while rounds < ROUNDS and (not rounds or time.perf_counter() - begin < seconds):
            rounds += 1
            order = self.rng.permutation(n)
            single += self._one_by_one(point, order, counts)
            joint += [ways[way](point, order, *group) for group in groups]
        return Falls(counts, single / rounds, np.array(blocks), joint / rounds)

    def _groups(self, tau: int, way: Way, n_workers: int) -> tuple[int, int]:
        """Return how many groups, of how many blocks each, stand for tau in flight.

        Between reading v and writing to it, a worker that never stops sees the work of
        T - 1 others arrive. Here all groups start together, and a group sees half of
        the others on average. So 2 T - 1 groups stand for T workers.
        """
        n = self.problem.n_blocks
        if way == "joint":
            return 1, tau
        if way == "direct":
            return min(2 * tau - 1, n), 1
        batch = max(1, tau // n_workers)
        return min(2 * min(n_workers, tau) - 1, max(1, n // batch)), batch

    def _one_by_one(
        self, point: Point, order: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Return how far f falls by `counts` updates of one block each."""
        state, falls, done = self._clone(point.state), [], 0
        change, linear = np.zeros_like(point.exact), 0.0
        for count in counts:
            self._place(self.serial, state, order, done)
            self._advance(self.serial, state, count - done)
            more, rise = self.along.change(point.state, state, order[done:count])
            change, linear, done = change + more, linear + rise, count
            falls.append(self.along.fall(point.exact, change, linear))
        return np.array(falls)

    def _merges(self, point: Point, order: np.ndarray, count: int, batch: int) -> float:
        """Return how far f falls by the merges of workers that pulled the same v."""
        state, exact, total = self._clone(point.state), point.exact, 0.0
        for t in range(count):
            state.shared[...] = point.exact
            first, last = t * batch, (t + 1) * batch
            self._place(self.serial, state, order, first)
            self._advance(self.serial, state, batch)
            change, linear = self.along.change(point.state, state, order[first:last])
            theta = self.along.search(exact, change, linear)
            total += self.along.fall(exact, theta * change, theta * linear)
            exact = exact + theta * change
        return total

    def _apart(self, point: Point, order: np.ndarray, count: int, batch: int) -> float:
        """Return how far f falls by a search along the sum of steps from one v."""
        state = self._clone(point.state)
        for t in range(count * batch):
            state.shared[...] = point.exact
            self._place(self.serial, state, order, t)
            self._advance(self.serial, state, 1)
        blocks = order[: count * batch]
        change, linear = self.along.change(point.state, state, blocks)
        theta = self.along.search(point.exact, change, linear)
        return self.along.fall(point.exact, theta * change, theta * linear)

    def _joint(self, point: Point, order: np.ndarray, count: int, tau: int) -> float:
        """Return how far f falls by one update of tau blocks with one gamma."""
        state = self._clone(point.state, tau)
        if tau not in self._runs:
            options = self._options(Serial(), tau, "permutation")
            run = Run(self.problem, Serial(), state, options, None)
            self._runs[tau] = run.open()
        self._place(self._runs[tau], state, order, 0)
        self._advance(self._runs[tau], state, tau)
        return self.along.fall(
            point.exact, *self.along.change(point.state, state, order[:tau])
        )

    def time_calls(
        self, engine: Engine, sizes: list[int], seconds: float
    ) -> np.ndarray:
        """Return the seconds an oracle call takes an engine with each batch size.

        All of an update is counted. The sizes take turns, and the least time of each
        counts, because other programs may be running.
        """
        start = self.point.state
        states = [self._clone(start, engine.size * tau) for tau in sizes]
        runs = [
            Run(self.problem, engine, state, self._options(engine, tau), None)
            for state, tau in zip(states, sizes, strict=True)
        ]
        limit = min(TIMED_SECONDS, seconds / (len(sizes) * (REPEATS + 1)))
        best = np.full(len(sizes), np.inf)
        with contextlib.ExitStack() as stack:
            for run in runs:
                stack.callback(run.close)
                run.open()
            for _ in range(REPEATS + 1):  # the first shows how many calls fit
                for k, (run, state) in enumerate(zip(runs, states, strict=True)):
                    calls = max(4 * sizes[k], int(limit / best[k]))  # 0 at first
                    best[k] = min(best[k], self._time(run, state, calls))
        return best

    def _time(self, run: Run, state: State, calls: int) -> float:
        with run.crew:
            before, begin = state.n_oracle_calls, time.perf_counter()
            self._advance(run, state, calls)
            spent = time.perf_counter() - begin
        return spent / (state.n_oracle_calls - before)

    def time_oracle(self) -> float:
        """Return the seconds of an oracle call alone."""
        certifier, (state, exact, _) = self.serial.certifier, self.point
        count = min(self.problem.n_blocks, max(16, int(0.05 / self.step_seconds)))
        best = np.inf
        for _ in range(REPEATS):
            begin = time.perf_counter()
            certifier.oracle_values(
                state, state.shared, exact, 0, count, certifier.no_gaps
            )
            best = min(best, time.perf_counter() - begin)
        return best / count

    def _clone(self, state: State, room: int = 1) -> State:
        store = self.problem.store
        return dataclasses.replace(
            state,
            blocks=store.unpack(store.pack(state.blocks), self.problem, room),
            shared=copy(state.shared),
            sampler=sampling.create(self.problem.n_blocks, "uniform"),
            progress=state.progress.copy(),
        )

    def _place(self, run: Run, state: State, order: np.ndarray, first: int) -> None:
        """Make the next draws of a Serial run those of `order` from `first` on."""
        assert isinstance(run.session, SerialSession)
        run.session.forget_rows()  # every clone counts updates from the same one on
        state.sampler.order[:] = order
        state.sampler.cursor[0] = first

    def _advance(self, run: Run, state: State, calls: int) -> None:
        """Make `calls` oracle calls, or a few more to end an update."""
        run.state = state
        until = state.n_oracle_calls + calls
        while state.n_oracle_calls < until:
            left = int(until - state.n_oracle_calls)
            run.settle(run.session.advance(run, left))
