"""SP-BCFW, section 4.3 of the paper: the synchronous parallel engine.

Each of T workers solves tau / T subproblems, and all wait for the slowest before the
one step of the round. It is the yardstick for the asynchronous engines: one straggler
slows down all workers. The loop is in `rounds`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from wolfpack.engines.base import Engine
from wolfpack.engines.shared_memory import rounds
from wolfpack.engines.shared_memory.team import TeamSession, validate_play
from wolfpack.engines.threads import count_cores


@dataclass(frozen=True)
class Sync(Engine):
    """Threads that wait for each other at every update; the same bits each time.

    Parameters
    ----------
    n_workers : int, optional
        T in the paper. Default: all cores that this process may use.
    oracle_repeats : (int, int)
        Play a hard oracle: solve each subproblem m times, m uniform in this range.
    return_probability : float or one a worker
        Play stragglers: a worker reports an answer with this probability, and solves
        again until it does.

    Notes
    -----
    `batch_size` of `solve` is tau, by default T. "auto" is refused: it would depend on
    the clock. The same seed and the same number of workers give the same bits. A worker
    that waits does the work that another one has not begun, unless stragglers are
    played.

    References
    ----------
    Wang et al., ICML 2016, section 4.3.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> result = wolfpack.solve(problem, engine=wolfpack.Sync(2), tol=0.01, rng=0)
    >>> result.status.name
    'CONVERGED'
    """

    n_workers: int | None = None
    oracle_repeats: tuple[int, int] = (1, 1)
    return_probability: float | Sequence[float] = 1.0

    reproducible = True
    acceleration = "always"

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        validate_play(self)

    @property
    def size(self) -> int:
        """The number of workers."""
        return self.n_workers or count_cores()

    def loops(self, problem) -> tuple[ModuleType, ...]:
        """Return the module of the loop."""
        return (rounds,)

    def blocks_per_update(self, asked: int | None, n_blocks: int) -> int:
        """Return the blocks of one update."""
        return asked or min(self.size, n_blocks)

    def auto_batch_size(self, problem, seed) -> int | None:
        """Refuse: a measured batch size depends on the clock, and so would the bits."""
        raise ValueError(
            "Sync gives the same bits each time, and batch_size='auto' decides by the "
            "clock; give a number (suggest_batch_size finds one), or use Threads()."
        )

    def session(self, problem, options) -> "SyncSession":
        """Return the memory of all workers."""
        return SyncSession(problem, options, self)


class SyncSession(TeamSession):
    """Workers that wait for each other four times an update."""

    def __init__(self, problem, options, engine) -> None:
        super().__init__(problem, options, engine, min(engine.size, options.batch_size))
        repeats, chances = engine.oracle_repeats, engine.return_probability
        plays = np.max(repeats) > 1 or np.min(chances) < 1.0
        self.now = rounds.Round.create(
            problem, options.batch_size, self.n_workers, count_cores(), not plays
        )
        self.memories = [(self.now.directions[0], self.now.rows[0])]
        self.batch = -(-options.batch_size // self.n_workers)

    def begin(self, run, calls: int) -> None:
        """Reset what the workers share, and the phases, before a slice."""
        super().begin(run, calls)
        self.now.begun[:] = self.now.ended[:] = 0

    def ask_to_stop(self) -> None:
        """Ask the leader to end the slice, which it does for all in the same round."""
        self.team.wish[0] = 1

    def run_worker(self, run, t: int, task) -> None:
        """Run the loop of worker t."""
        state = run.state
        run.kernels.round_worker(
            run.problem.data, state.shared, self.store.for_worker(state.blocks),
            state.average, state.sampler, state.rng, self.team, self.now, self.rngs[t],
            self.tallies, self.works[t], self.plan, task,
        )  # fmt: skip
