"""What delay does to convergence, exactly and reproducibly: updates that come late.

There are two ways. With a distribution, the delay of each update is drawn, and the
update is computed from the iterate of that many updates ago (section 4.4 of the paper;
the loop is in `backlog`). With workers in simulated time, delays follow from how fast
the workers are (Algorithm 1; the loop is in `simulation`).
"""

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from wolfpack.delays import Delays, Workers, as_delays
from wolfpack.engines.base import Engine, Session
from wolfpack.engines.late import backlog, simulation
from wolfpack.engines.shared_memory.ring import queue_size
from wolfpack.engines.shared_memory.team import add_up
from wolfpack.kernels.memory import zeros
from wolfpack.result import Simulated
from wolfpack.update.inbox import Inbox
from wolfpack.update.plan import Exit, make_tallies


@dataclass(frozen=True)
class Delayed(Engine):
    """Updates that come late, by a distribution or from simulated workers.

    One thread, and the same bits each time. A run that goes on from a saved state
    begins without messages in flight.

    Parameters
    ----------
    delay : Delays, int, list or Result.delay
        How many updates ago the iterate was read: `poisson(mean)`, `pareto(mean)`,
        `geometric(mean)`, a number, or a histogram, for example one that `Threads`
        measured. Updates of a delay above k / 2 are dropped, but counted.
    workers : Workers
        Instead of `delay`: how fast workers are, in simulated seconds. The result then
        says how long the run would have taken (`Result.simulated`, and
        `simulated_seconds` in its trace).

    Notes
    -----
    `batch_size` of `solve` is tau; by default 1, with `workers` one block a worker.

    References
    ----------
    Wang et al., ICML 2016, Theorem 4, section 4.4 and Algorithm 1.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> engine = wolfpack.Delayed(wolfpack.delays.poisson(10))
    >>> result = wolfpack.solve(problem, engine=engine, tol=0.01, rng=0)
    >>> result.status.name, round(result.delay.mean)
    ('CONVERGED', 10)
    >>> workers = wolfpack.delays.Workers(50, oracle_seconds=1e-3)
    >>> engine = wolfpack.Delayed(workers=workers)
    >>> result = wolfpack.solve(problem, engine=engine, tol=0.01, rng=0)
    >>> result.simulated.seconds < 1
    True
    """

    delay: Any = None
    workers: Workers | None = None

    reproducible = True
    acceleration = "asked"  # it is for experiments with the paper's steps

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        if (self.delay is None) == (self.workers is None):
            raise ValueError(
                "Delayed needs either a delay, such as poisson(5), or workers=Workers("
                "...), and not both."
            )
        if self.workers is None:
            object.__setattr__(self, "delay", as_delays(self.delay))
        elif not isinstance(self.workers, Workers):
            raise ValueError(
                f"workers must be a wolfpack.delays.Workers(...), not {self.workers!r}."
            )

    def loops(self, problem) -> tuple[ModuleType, ...]:
        """Return the module of the loop."""
        return (backlog,) if self.workers is None else (simulation,)

    def blocks_per_update(self, asked: int | None, n_blocks: int) -> int:
        """Return the blocks of one update."""
        if self.workers is not None:
            return asked or min(self.workers.size, n_blocks)
        return asked or 1

    def refuse(self, problem, options) -> None:
        """Raise if this problem cannot be solved this way."""
        sweeps = options.sampling == "cyclic" and self.workers is None
        if options.sampling != "uniform" and not sweeps:
            raise ValueError(
                "Delayed draws uniformly, as the paper does; use sampling='uniform', "
                f"not {options.sampling!r}, or 'cyclic' with a delay."
            )

    def session(self, problem, options) -> "LateSession | SimulatedSession":
        """Return the memory of one run."""
        if self.workers is not None:
            return SimulatedSession(problem, options, self.workers)
        return LateSession(problem, options, self.delay)


class LateSession(Session):
    """Updates whose delays are drawn."""

    def __init__(self, problem, options, delays: Delays) -> None:
        self.delays = delays
        self.in_flight = options.batch_size
        self.patience = 4.0 * delays.mean * options.batch_size / problem.n_blocks
        self.inbox = Inbox.create(problem, options.batch_size)
        self.backlog = backlog.Backlog.create(problem)
        self.tallies = make_tallies(1)
        self.start: int | None = None

    def warm_up(self, run) -> None:
        """Choose no block and make no update, which compiles both loops."""
        self._choose(run, 0)
        self._run_late(run, run.state.n_updates)

    def advance(self, run, calls: int) -> Exit:
        """Make updates for `calls` oracle calls; return why it ended."""
        state, tau = run.state, self.in_flight
        if self.start is None:
            self.start = state.n_updates
            self.backlog.begin(self.start)
        until = state.n_updates + calls // tau
        while (ended := self._run_late(run, until)) == Exit.DRAW:
            try:
                self.backlog = backlog.draw_more(
                    self.backlog, self.delays, partial(self._choose, run), tau,
                    self.start, state.n_updates, state.rng,
                )  # fmt: skip
            except MemoryError as error:  # not an error of the problem
                run.fail(error)
                return Exit.DONE
        return Exit(ended)

    def _choose(self, run, size: int) -> np.ndarray:
        """Draw `size` blocks, those of one update all different."""
        state, chosen = run.state, zeros(size, np.int64)
        run.kernels.choose(run.plan, state.sampler, state.rng, self.in_flight, chosen)
        return chosen

    def _run_late(self, run, until: int) -> int:
        state = run.state
        try:
            return run.kernels.run_late(
                run.problem.data, state.shared, state.blocks, state.average,
                self.backlog, self.inbox, state.progress, self.tallies[0], run.work,
                run.plan, float(self.delays.maximum), until,
            )  # fmt: skip
        finally:
            state.progress.at = self.tallies[0].at

    def report(self) -> dict[str, Any]:
        """Return what a `Result` says about delays."""
        return add_up(self.tallies)


class SimulatedSession(Session):
    """Workers on a simulated clock."""

    def __init__(self, problem, options, workers: Workers) -> None:
        self.workers = workers
        self.in_flight = options.batch_size
        queue = workers.queue or queue_size(workers.size, options.batch_size)
        self.cluster = simulation.Cluster.create(problem, workers, queue)
        self.costs = simulation.Costs(
            *workers.oracle_range, workers.message_seconds, workers.read_seconds,
            workers.take_seconds, workers.step_seconds,
        )  # fmt: skip
        self.inbox = Inbox.create(problem, options.batch_size)
        self.tallies = make_tallies(1)

    @property
    def clock(self) -> float:
        """The simulated time."""
        return self._report().seconds

    def warm_up(self, run) -> None:
        """Let no time pass, which compiles the loop."""
        self.advance(run, 0)

    def advance(self, run, calls: int) -> Exit:
        """Let time pass for `calls` oracle calls; return why it ended."""
        state = run.state
        try:
            ended = run.kernels.simulate(
                run.problem.data, state.shared, state.blocks, state.average,
                self.cluster, self.costs, self.inbox, state.rng, state.progress,
                self.tallies[0], run.work, run.plan, state.n_oracle_calls + calls,
            )  # fmt: skip
        finally:
            state.progress.at = self.tallies[0].at
        return Exit(ended)

    def report(self) -> dict[str, Any]:
        """Return what a `Result` says about workers."""
        return {
            **add_up(self.tallies),
            "n_workers": self.workers.size,
            "simulated": self._report(),
        }

    def _report(self) -> Simulated:
        return self.cluster.report(self.workers.each("joins"))
