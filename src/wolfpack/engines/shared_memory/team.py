"""One run of several threads: their memory, their slices, and what they counted."""

import math
import operator
from typing import Any

import numpy as np

from wolfpack.engines.base import Session
from wolfpack.engines.shared_memory.choice import APART, RANGES, TURNS, WHOLE
from wolfpack.engines.shared_memory.seats import Seats
from wolfpack.engines.shared_memory.worker import Task, Team
from wolfpack.kernels.memory import zeros
from wolfpack.result import Delay
from wolfpack.update.plan import Exit, make_tallies
from wolfpack.update.sampling import CYCLIC

MAX_LOCKS = 2**17  # they take 8 MB


class TeamSession(Session):
    """What `Threads` and `Sync` have in common; subclasses say what a worker does."""

    loop = (
        ""  # the name of the loop, where a worker needs no more than `run_worker` has
    )

    def __init__(
        self, problem, options, engine, n_workers: int, n_helpers: int = 0
    ) -> None:
        if not problem.kernels().compiled:
            raise ValueError(
                f"{problem.name} has plain Python functions, which threads run one at "
                "a time; compile them with numba.njit, or use Serial()."
            )
        self.engine, self.n_workers = engine, n_workers
        self.n_threads = n_workers + n_helpers
        self.plan, self.store, self.batch = options.plan, problem.store, 1
        self.is_searching = False
        self.parts = WHOLE
        n, count = problem.n_blocks, self.n_threads
        self.seats = Seats(count)
        self.team = Team.create(n, n_workers, _strides(n), self.seats.words)
        self._tasks: list[Task] = []
        self._memory: tuple = ()  # the arrays that the threads work on
        self.works = [problem.work() for _ in range(count)]
        self.tallies = make_tallies(count)
        self.rngs: list[np.random.Generator] = []
        self.memories: list[Any] = []  # one a worker
        chances = np.broadcast_to(engine.return_probability, engine.size)[:n_workers]
        self.chances = [*chances.tolist(), *[1.0] * n_helpers]

    def lock_parts(self, count: int) -> None:
        """Make locks for `count` rows or stripes of v, a cache line apart.

        Where there are more than MAX_LOCKS rows, several of them share a lock.
        """
        count = min(2 ** (count - 1).bit_length(), MAX_LOCKS)
        locks = zeros(count * APART, np.int64)
        self.team = self.team._replace(locks=locks)

    @property
    def in_flight(self) -> int:
        """The most blocks that workers hold at once."""
        return self.n_workers * self.batch

    @property
    def bytes_per_worker(self) -> int:
        """The memory that one worker takes for itself."""
        return _count_bytes((self.memories[0], self.works[0], self.tallies[:1]))

    def warm_up(self, run) -> None:
        """Run a slice without oracle calls, which compiles the loops."""
        self._slice(run, 0)

    def advance(self, run, calls: int) -> Exit:
        """Make about `calls` oracle calls; return why it ended."""
        return self._slice(run, calls)

    def _slice(self, run, calls: int) -> Exit:
        self.begin(run, calls)
        team = self.team
        team.orders[0] = (self.plan.reach, self.batch, calls, run.state.n_updates)
        self._tasks = self._tasks or self._make_tasks()
        self._forget_old_memory(run.state)

        def run_thread(t: int) -> None:
            try:
                self.run_worker(run, t, self._tasks[t])
            except BaseException:
                team.block[0] = self.tallies[t].at
                team.halt[0] = Exit.FAILED
                raise

        def stop() -> None:
            team.halt[0] = Exit.FAILED

        def pulse() -> None:
            run.live_calls = int(team.called[0])
            if run.pulse():
                self.ask_to_stop()

        try:
            self.seats.run(run_thread, stop, pulse)
        finally:
            run.live_calls = 0
            self._gather(run.state)
        ended = Exit(int(team.halt[0]))
        return Exit.DONE if ended == Exit.ENOUGH else ended

    def _make_tasks(self) -> list[Task]:
        is_sweeping = self.plan.sampling == CYCLIC  # along ranges, in every mode
        parts = RANGES if is_sweeping else self.parts
        least, most = map(int, self.engine.oracle_repeats)
        return [
            Task(
                t, self.n_workers, self.batch, 0, (least, most), chance,
                self.is_searching, parts,
            )
            for t, chance in enumerate(self.chances)
        ]  # fmt: skip

    def _forget_old_memory(self, state) -> None:
        """Send waiting threads back to Python where the run has made new arrays."""
        memory = (state.shared, state.blocks, state.average, state.sampler)
        if len(self._memory) != 4 or any(map(operator.is_not, memory, self._memory)):
            self.seats.clear()
            self._memory = memory

    def close(self) -> None:
        """End all threads."""
        self.seats.close()

    def begin(self, run, calls: int) -> None:
        """Reset what the workers share, before a slice of `calls` oracle calls."""
        state, team = run.state, self.team
        self.plan = run.plan
        if not self.rngs:
            self.rngs = state.rng.spawn(self.n_threads)
            team.version[0] = state.n_updates
            self.rngs[0].shuffle(team.order)
            # A sweep goes on near where it was when the run stopped.
            turns = TURNS * state.n_oracle_calls // len(team.owners)
            team.progress[::APART] = turns
        for word in (team.wish, team.called, team.lock, team.pool, team.block):
            word[0] = 0
        team.halt[0] = Exit.ENOUGH if calls == 0 else 0
        team.owners[:] = 0
        # The sums go on over all slices: their bits must not depend on where a slice
        # ends, which is early when the pool is full.
        self.tallies.gap_sum[0] = state.progress.gap_sum
        self.tallies.gaps_seen[0] = state.progress.gaps_seen
        gaps = state.sampler.gaps
        if gaps.size:
            self.team = self.team._replace(gaps=gaps)
            self.tallies.mean_gap = gaps.mean()

    def ask_to_stop(self) -> None:
        """End the slice soon, as if it had made its calls."""
        self.team.halt[0] = self.team.halt[0] or Exit.ENOUGH

    def run_worker(self, run, t: int, task: Task) -> None:
        """Run the loop of worker t."""
        state = run.state
        getattr(run.kernels, self.loop)(
            run.problem.data, state.shared, self.store.for_worker(state.blocks),
            self.team, self.memories[t], self.rngs[t], self.tallies[t], self.works[t],
            self.plan, task,
        )  # fmt: skip

    def _gather(self, state) -> None:
        tallies, progress = self.tallies, state.progress
        progress.calls += tallies.solved.sum()
        progress.updates += tallies.made.sum()
        progress.at = self.team.block[0]
        progress.gap_sum = tallies.gap_sum.sum()
        progress.gaps_seen = tallies.gaps_seen.sum()
        for name in ("solved", "made", "gap_sum", "gaps_seen"):
            tallies[name] = 0

    def report(self) -> dict[str, Any]:
        """Return what a `Result` says about the workers."""
        return {
            **add_up(self.tallies),
            "n_workers": self.n_workers,
            "bytes_per_worker": self.bytes_per_worker,
        }


def add_up(tallies: Any) -> dict[str, Any]:
    """Return what the tallies of all workers say about delays and losses."""
    histogram, delay = tallies.histogram.sum(axis=0), None
    if histogram.any():
        delay = Delay(
            mean=float(tallies.delays.sum() / histogram.sum()),
            maximum=int(tallies.max_delay.max()),
            histogram=np.trim_zeros(histogram, "b"),
        )
    return {
        "n_collisions": int(tallies.collisions.sum()),
        "n_dropped": int(tallies.dropped.sum()),
        "n_lost": int(tallies.lost.sum()),
        "delay": delay,
    }


def validate_play(engine) -> None:
    """Refuse numbers of workers, repeats and probabilities that make no sense."""
    n = engine.n_workers
    whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
    if n is not None and not (whole and n >= 1):
        raise ValueError(
            f"n_workers must be a positive integer, or None for all cores; given {n!r}."
        )
    repeats = np.asarray(engine.oracle_repeats)
    whole = repeats.shape == (2,) and repeats.dtype.kind in "iu"
    if not (whole and 1 <= repeats[0] <= repeats[1]):
        raise ValueError(
            "oracle_repeats must be two integers, 1 <= least <= most, not "
            f"{engine.oracle_repeats!r}."
        )
    chances = np.asarray(engine.return_probability, dtype=float)
    if not ((chances > 0) & (chances <= 1)).all():
        raise ValueError(
            "return_probability must lie in (0, 1], for all workers or one each; given "
            f"was {engine.return_probability!r}."
        )
    if chances.ndim > 1 or (chances.ndim and len(chances) != engine.size):
        raise ValueError(
            f"return_probability must be a number or {engine.size} of them, one a "
            f"worker; it has shape {chances.shape}."
        )


def _strides(n: int) -> np.ndarray:
    """Return up to 16 numbers, in no order, that have no divisor in common with n."""
    near = np.arange(1, 64 * n, max(1, n // 7)) % n if n > 1 else np.ones(1, np.int64)
    good = [int(k) for k in dict.fromkeys(near.tolist()) if math.gcd(int(k), n) == 1]
    return np.array(good[:16] or [1], np.int64)


def _count_bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple):
        return sum(_count_bytes(item) for item in value)
    return 0
