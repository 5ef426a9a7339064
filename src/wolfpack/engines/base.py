"""The contract of an engine: who visits which block when, and how v travels.

An `Engine` is a value: what the user chose. It makes a `Session` for each run, which
holds memory, threads or a cluster, and moves `run.state`. A run speaks to both by the
members below and by nothing else, in this order:

    engine.blocks_per_update, engine.refuse     before anything is made
    session = engine.session(problem, options)
    session.warm_up(run)                        load or compile, outside all clocks
    session.open(run)                           start what the run needs, likewise
    session.advance(run, calls)                 again and again; between two of them
        session.fetch(run)                          before x and v are read, and
        session.witness()                           for a certificate, and
        session.oracle_sum(state, exact, stop)      in it
    session.report()
    session.close()                             always, whatever was raised before

What a session moves is `run.state`: x in `blocks`, as `problem.store` keeps it, and
v in `shared`, which always fits x: v = v0 + A x, or, where the run is accelerated,
v = s (v0 + A x) + (1 - s) z with s = `run.plan.reach` (`update.outer`). It draws blocks
with `sampler` and `rng`, counts every update and every oracle call, and notes the block
that it is at, so that an error can name it. It may also use

    run.problem, run.options
    run.plan             how to step; see `update.plan`. Read it anew in each `advance`:
                         outer steps, which the run makes between two, change its reach
    run.kernels          the loops, compiled for the problem, or in plain Python
    run.work             scratch memory for one thread of them
    run.crew             threads, `size` of them
    run.certifier.rate   oracle calls of one thread per second, as a check found, or
                         `run.certifier.time_oracle`
    run.live_calls       where it writes the calls that `state` does not count yet
    run.pulse()          to be called about every 50 ms where `advance` takes longer;
                         it calls the user's callback, and returns true when `advance`
                         must return
    run.is_interrupted   whether Ctrl-C was pressed
    run.fail(error)      lets the run raise `error` as it is when `advance` has ended;
                         an error that `advance` raises itself is blamed on the problem

The kernels of `update` take the plan and heed `plan.reach`, s: a step moves v by
s gamma A d, and its curvature is s times that of a plain step. An engine whose loops
pass the plan on to them, or do the same themselves, sets `acceleration = "always"`;
otherwise its runs are plain.

To add an engine, subclass both classes, and add a row to the matrix of `test_engines`.
`serial` is the simplest example, `test_engine_contract` has one in plain Python.
"""
# ruff: noqa: B027 - an empty method is a default, not one to be written

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfpack.update.plan import Exit

if TYPE_CHECKING:
    from wolfpack.problem import Problem
    from wolfpack.result import Live
    from wolfpack.run.loop import Run
    from wolfpack.run.options import Options
    from wolfpack.state import State


class Session(ABC):
    """One run of an engine.

    Only `advance` must be written. The numbers may be attributes or properties; a run
    reads them anew each time.
    """

    # The most blocks that may be in flight at once: after Exit.GROW the store makes
    # room for the atoms of that many.
    in_flight: int = 1
    # The numbers of this moment, for callbacks.
    live: "Live | None" = None
    # The simulated seconds so far, where time is simulated.
    clock: float | None = None
    # The passes that may gain nothing before a run has stalled, beyond the usual ones.
    patience: float = 0.0
    # The pass at which x last fell back to a checkpoint: gains before it do not count.
    restarted_at: float = -1.0
    # Whether `fetch` brings v from elsewhere, so that it may change after a check.
    fetches: bool = False
    # Whether it makes the outer steps of an accelerated run itself.
    accelerates_itself: bool = False
    # Whether the block of an error in `advance` is the one that failed. Otherwise the
    # run looks for it, because blocks that move together share a line search.
    names_the_block: bool = False

    def warm_up(self, run: "Run") -> None:
        """Load or compile what `advance` will call, and move nothing.

        The run does not call it where the problem's functions are plain Python.
        """

    def open(self, run: "Run") -> None:
        """Start what the run needs."""

    @abstractmethod
    def advance(self, run: "Run", calls: int) -> Exit:
        """Make about `calls` oracle calls; return why it ended.

        DONE: the calls are made, or `run.pulse()` was true. GROW: the store is full;
        the run makes room, and calls again. ABANDONED: no worker is left, and the run
        ends. NOT_A_NUMBER, INFEASIBLE: the run raises an OracleError, which names the
        block that `state` was at. A reproducible engine makes `calls` calls exactly,
        in whole updates, unless the store is full; `calls` is a multiple of their size.
        """

    def fetch(self, run: "Run") -> None:
        """Bring x and v to `run.state`, where they are kept elsewhere."""

    def oracle_sum(
        self, state: "State", exact: np.ndarray, stop: Callable[[], bool]
    ) -> float | None:
        """Return the sum over all blocks of min <s_(i), grad_i f> at v = `exact`.

        None: the run makes the pass itself, with all its threads.
        """
        return None

    def witness(self) -> np.ndarray | None:
        """Return another v than that of x, whose lower bound is better.

        It is certified, and becomes the solution. None: there is no such v.
        """
        return None

    def report(self) -> dict[str, Any]:
        """Return the fields of a `Result` that speak of workers, delays and traffic."""
        return {}

    def close(self) -> None:
        """Stop all that `open` started, also where it failed half-way."""


class Engine(ABC):
    """What the user chose; a frozen dataclass, so that it compares and prints well."""

    # Whether the same seed gives the same bits. Then the run checks at numbers of
    # updates, not by the clock.
    reproducible: bool = False
    # The threads that the run may use.
    size: int = 1
    # Whether `step` says how far it moves a block.
    heeds_step: bool = True
    # Whether `accelerate="auto"` may accelerate its runs: "always"; "asked": only with
    # `accelerate=True`; "never": its loops do not know `plan.reach`.
    acceleration: str = "never"

    def loops(self, problem: "Problem") -> tuple[ModuleType, ...]:
        """Return the modules with the compiled loops that a session calls."""
        return ()

    def blocks_per_update(self, asked: int | None, n_blocks: int) -> int:
        """Return the blocks of one update, where the user asked for `asked`."""
        return asked or 1

    def auto_batch_size(self, problem: "Problem", seed: int | None) -> int | None:
        """Return what `batch_size="auto"` stands for; None: what None stands for."""
        return None

    def refuse(self, problem: "Problem", options: "Options") -> None:
        """Raise a ValueError if this problem cannot be solved this way."""

    @abstractmethod
    def session(self, problem: "Problem", options: "Options") -> Session:
        """Return what one run of this engine needs."""
