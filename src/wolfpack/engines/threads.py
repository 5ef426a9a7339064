"""AP-BCFW in shared memory: many threads, one v, and none waits for a slower one.

Appendix B of the paper, with three ways to put the work of the threads together; the
loops are in `shared_memory`: `merge`, `rows`, `local` and `ring`, and `worker` for what
they share.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import numpy as np

from wolfpack.engines.base import Engine
from wolfpack.engines.shared_memory import copies, local, merge, ring, rows
from wolfpack.engines.shared_memory.choice import COMBS, RANGES
from wolfpack.engines.shared_memory.team import TeamSession, validate_play
from wolfpack.engines.shared_memory.tuning import SIZES, Tuner
from wolfpack.kernels.memory import CACHE_LINE
from wolfpack.run.passes import UNKNOWN
from wolfpack.update.plan import Exit
from wolfpack.update.steps import CONSTANT, LINE

MODES = ("merge", "server", "lock-free")
# An automatic batch starts with FIRST_IN_FLIGHT blocks in all, which suits most
# problems, but at least FIRST_BATCH a worker, because with less work between two merges
# many workers wait for the lock of v. Or with FIRST_SECONDS of oracle calls a worker,
# if these are fewer blocks: then a merge is already cheap against its oracle calls.
FIRST_IN_FLIGHT, FIRST_BATCH, FIRST_SECONDS = 48, 6, 5e-5
# A merge moves v from core to core, LINE_SECONDS a cache line. Where all workers
# together need less than MOST_BUSY oracle calls for that, a merge has one block.
LINE_SECONDS, MOST_BUSY = 1.1e-8, 1.5
# A v of more bytes is merged by stripes: one lock would be held for too long.
STRIPED_BYTES = 32_768


@dataclass(frozen=True)
class Threads(Engine):
    """Threads that share v and never wait for each other. Not reproducible.

    Parameters
    ----------
    n_workers : int, optional
        T in the paper. Default: all cores that this process may use. More workers
        than cores work, and gain nothing.
    mode : "merge", "server" or "lock-free"
        "merge": each worker steps on blocks of its own, and merges with one exact line
        search, so f never rises. Where blocks touch few rows of v, it writes into v
        directly, and two steps at the same moment may raise f a little, unless they
        read these rows alone; so may two merges into a v of more than 32 kB. "server":
        Algorithm 2, one more thread gathers minibatches. "lock-free": Algorithm 3,
        every step adds to v atomically; where v is dense it is slow (OCR: 16 threads
        make fewer steps a second than `Serial`).
    oracle_repeats : (int, int)
        Play a hard oracle: solve each subproblem m times, m uniform in this range.
    return_probability : float or one a worker
        Play stragglers: a worker reports an answer with this probability.
    line_search : "server" or "workers"
        In mode "server": what searches. "workers" is the paper's way and unsafe: tau
        steps that are right one by one overshoot together (on OCR, fold 0, alpha =
        0.01, it diverged with 3 workers in every run). For experiments.

    Notes
    -----
    `batch_size` of `solve` is tau: in "merge" the blocks in flight, tau / T a worker
    (default: as measured), in "server" the minibatch (T; "auto": `suggest_batch_size`).

    References
    ----------
    Wang et al., ICML 2016, Algorithms 2 and 3.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> result = wolfpack.solve(problem, engine=wolfpack.Threads(2), tol=0.01, rng=0)
    >>> result.status.name
    'CONVERGED'
    """

    n_workers: int | None = None
    mode: Literal["merge", "server", "lock-free"] = "merge"
    oracle_repeats: tuple[int, int] = (1, 1)
    return_probability: float | Sequence[float] = 1.0
    line_search: Literal["server", "workers"] = "server"

    reproducible = False
    acceleration = "always"

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        validate_play(self)
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {[*MODES]}, not {self.mode!r}.")
        if self.line_search not in ("server", "workers"):
            raise ValueError(
                "line_search must be 'server' or 'workers' (unsafe), not "
                f"{self.line_search!r}."
            )
        if self.line_search == "workers" and self.mode != "server":
            raise ValueError(
                f"line_search='workers' is for mode='server'; {self.mode!r} has no "
                "server."
            )

    @property
    def size(self) -> int:
        """The number of workers."""
        return self.n_workers or count_cores()

    def loops(self, problem) -> tuple[ModuleType, ...]:
        """Return the module of the loop that this mode runs."""
        return (self._loop(problem),)

    def _loop(self, problem) -> ModuleType:
        if self.mode == "server":
            return ring
        if self.mode == "merge" and local.serves(problem, self.size):
            return local
        is_merging = self.mode == "merge" and problem.touched is None
        return merge if is_merging else rows

    def blocks_per_update(self, asked: int | None, n_blocks: int) -> int:
        """Return the blocks of one update."""
        if self.mode == "server":
            return asked or min(self.size, n_blocks)
        if self.mode == "lock-free" and asked not in (None, 1):
            raise ValueError(
                "mode='lock-free' moves one block at a time (Algorithm 3); batch_size "
                f"must be 1 or None, not {asked}."
            )
        return 1

    def auto_batch_size(self, problem, seed: int | None) -> int | None:
        """Make a short pilot run where a server gathers; merging adapts by itself."""
        if self.mode != "server":
            return None
        from wolfpack.advice import suggest_batch_size

        return int(suggest_batch_size(problem, engine=self, seconds=1.0, rng=seed))

    def refuse(self, problem, options) -> None:
        """Raise if this problem cannot be solved this way."""
        kind = options.sampling
        if self.mode == "server" and kind != "uniform":
            raise ValueError(
                "mode='server' draws uniformly, as Algorithm 2 does; use "
                f"sampling='uniform', not {kind!r}, or mode='merge'."
            )
        if self.mode != "server" and options.averaging:
            raise ValueError(
                f"averaging needs a server that sees every update, and mode="
                f"{self.mode!r} has none; use mode='server', Sync() or Serial()."
            )
        if self.mode == "merge" and options.plan.rule not in (LINE, CONSTANT):
            raise ValueError(
                "mode='merge' searches along each merge; use step='line', or "
                f"mode='server' or 'lock-free' for step={options.step!r}."
            )
        if self.line_search == "workers" and problem.curvature is None:
            raise ValueError(
                "line_search='workers' needs a problem with a curvature function, and "
                f"{problem.name} has none here."
            )

    def session(self, problem, options) -> TeamSession:
        """Return the memory of all workers."""
        makes = {ring: ring.RingSession, merge: MergeSession, rows: RowsSession}
        makes[local] = local.LocalSession
        return makes[self._loop(problem)](problem, options, self)


def count_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class MergeSession(TeamSession):
    """Workers with a private v each."""

    def __init__(self, problem, options, engine) -> None:
        asked, n = options.asked, problem.n_blocks
        n_workers = min(engine.size, n if asked is None else asked)
        super().__init__(problem, options, engine, n_workers)
        most = n // self.n_workers
        self.tuner, self.parts = None, COMBS
        self._made = self._spent = 0.0  # calls and seconds since the tuner last learned
        if asked is not None:
            self.batch = asked // self.n_workers
        elif self.n_workers == 1:
            self.batch = min(SIZES[-1], n)  # merge rarely: there is no other worker
        else:
            self.tuner = Tuner(1, most)
            self.batch, most = self.tuner.batch, self.tuner.most
        large = problem.shared.nbytes > STRIPED_BYTES
        if large and problem.quadratic and self.n_workers > 1:
            self.lock_parts(-(-problem.shared.size // copies.STRIPE))
        room = max(self.batch, most if self.tuner else 1)
        self.memories = [
            merge.MergeMemory.create(problem, room) for _ in range(self.n_workers)
        ]
        self._blocks, self._drafts = None, []  # a store, and drafts of its blocks

    def begin(self, run, calls: int) -> None:
        """Make the drafts, and choose the first batch, before a slice."""
        super().begin(run, calls)
        if self._blocks is not run.state.blocks:
            self._blocks = run.state.blocks
            self._drafts = [
                self.store.make_draft(self._blocks, len(memory.chosen))
                for memory in self.memories
            ]
        if self.tuner is not None and self.tuner.is_new and calls > 0:
            if run.certifier.rate == UNKNOWN:
                run.certifier.time_oracle(run.state)
            first = max(FIRST_IN_FLIGHT // self.n_workers, FIRST_BATCH)
            rate = run.certifier.rate / np.mean(self.engine.oracle_repeats)
            lines = run.state.shared.nbytes / CACHE_LINE
            busy = self.n_workers * LINE_SECONDS * lines * rate
            most = 1 if busy < MOST_BUSY else SIZES[-1]
            self.tuner.start(min(FIRST_SECONDS * rate, first), most)
            self.batch = self.tuner.batch

    def advance(self, run, calls: int) -> Exit:
        """Make about `calls` oracle calls, and learn from them."""
        begin, before = time.perf_counter(), run.state.n_oracle_calls
        ended = super().advance(run, calls)
        self._made += run.state.n_oracle_calls - before
        self._spent += time.perf_counter() - begin
        promised, kept = self.tallies.promised.sum(), self.tallies.kept.sum()
        # A short slice says little: workers wait for each other at its end.
        if self.tuner is not None and self._made > 4 * self.in_flight and promised > 0:
            self.tuner.learn(self._made / self._spent, kept / promised)
            self.batch = self.tuner.batch
            self.tallies.promised = self.tallies.kept = 0.0
            self._made = self._spent = 0.0
        return ended

    def run_worker(self, run, t: int, task) -> None:
        """Run the loop of worker t."""
        state = run.state
        run.kernels.merge_worker(
            run.problem.data, state.shared, self.store.for_worker(state.blocks),
            self._drafts[t], self.team, self.memories[t], self.rngs[t], self.tallies[t],
            self.works[t], self.plan, task,
        )  # fmt: skip


class RowsSession(TeamSession):
    """Workers that write into the common v."""

    loop = "rows_worker"

    def __init__(self, problem, options, engine) -> None:
        super().__init__(problem, options, engine, min(engine.size, problem.n_blocks))
        self.memories = [rows.RowsMemory.create(problem) for _ in range(self.n_workers)]
        if engine.mode == "merge":  # Algorithm 3 draws from all blocks, without locks
            self.parts = RANGES
            self.lock_parts(len(problem.shared))
