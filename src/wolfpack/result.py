"""What a run returns: the answer, its certificate, why it stopped, and the trace."""

import enum
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wolfpack.errors import EngineError, OracleError
from wolfpack.state import State

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas as pd

__all__ = [
    "Delay",
    "EngineError",
    "Event",
    "Live",
    "OracleError",
    "Result",
    "Simulated",
    "Status",
    "TraceRow",
    "Traffic",
]


class Status(enum.Enum):
    """Why a run stopped, as a sentence.

    Examples
    --------
    >>> import wolfpack
    >>> wolfpack.Status.CONVERGED.value
    'The duality gap is at most tol.'
    """

    CONVERGED = "The duality gap is at most tol."
    EPOCH_LIMIT = "max_epochs passes are done and the gap is still above tol."
    TIME_LIMIT = "max_seconds have passed and the gap is still above tol."
    STOPPED = "The callback asked to stop."
    INTERRUPTED = "Interrupted from the keyboard; the iterate so far is kept."
    STALLED = (
        "Steps have become too small to change the objective; the gap cannot fall."
    )
    ABANDONED = "All workers have failed; the iterate so far is kept."
    DIVERGED = "The objective grows; try step='line', searched by the server."


class TraceRow(NamedTuple):
    """One check: where the run was and what its certificate said."""

    epoch: float
    n_updates: int
    n_oracle_calls: int
    objective: float
    gap: float
    gap_estimate: float
    lower_bound: float
    drift: float
    seconds: float
    wall_seconds: float
    simulated_seconds: float | None = None  # None unless workers are simulated
    reach: float = 1.0  # how far v follows a step; 1 unless accelerated
    n_outer: int = 0  # outer steps so far


@dataclass(frozen=True)
class Simulated:
    """How simulated workers spent their time; see `Delayed`.

    `server_utilisation` is the share of the time in which the server works,
    `worker_utilisation` that in which workers do not wait for room in the queue.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> workers = wolfpack.delays.Workers(8, step_seconds=1e-3)
    >>> engine = wolfpack.Delayed(workers=workers)
    >>> wolfpack.solve(problem, engine=engine, tol=0.1, rng=0).simulated.seconds > 0
    True
    """

    seconds: float
    server_utilisation: float
    worker_utilisation: float


@dataclass(frozen=True, eq=False)
class Delay:
    """How old v was when the updates of a run were computed, in updates.

    `histogram[d]` counts those of delay d; its last entry those of 255 and more.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> result = wolfpack.solve(problem, engine=wolfpack.Threads(2), tol=0.01)
    >>> result.delay.mean <= result.delay.maximum
    True
    """

    mean: float
    maximum: int
    histogram: np.ndarray = field(repr=False)


class Live(NamedTuple):
    """How a cluster is at this moment: its workers, and how late they are.

    `delay` is the mean over the run, in updates; `n_dropped` counts what came too late.
    """

    n_workers: int
    delay: float
    n_dropped: int


@dataclass(frozen=True)
class Traffic:
    """What went over the network of a cluster; see `Ray`.

    `chunk` blocks a message, `batch_size` blocks an update. `server_utilisation` is the
    share of its time that the server's thread computes: towards 1, more workers gain
    nothing.

    Examples
    --------
    >>> from wolfpack.result import Traffic
    >>> Traffic(20, 1, 100, 26_000, 0.1).bytes_per_atom
    13.0
    """

    chunk: int
    batch_size: int
    n_messages: int
    n_bytes: int
    server_utilisation: float

    @property
    def bytes_per_atom(self) -> float:
        """The size of a message {i, s_(i)}, heads included."""
        return self.n_bytes / max(self.chunk * self.n_messages, 1)


@dataclass(frozen=True)
class Event:
    """What a callback is given; returning True stops the run.

    `checked` says whether this is a certified check (`row` is new) or a sign of life
    between two checks (`row` repeats the last certificate with new counts).

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=50, d=2)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> def enough(event):
    ...     return event.row.epoch >= 3
    >>> wolfpack.solve(problem, callback=enough, tol=0).status.name
    'STOPPED'
    """

    row: TraceRow
    checked: bool
    tol: float
    scale: float
    max_epochs: float
    state: State = field(repr=False)
    live: Live | None = None  # None unless workers may come and go

    @property
    def relative_gap(self) -> float:
        """The gap in the units of `tol`."""
        return self.row.gap / self.scale


@dataclass(frozen=True)
class Result:
    """The answer of `solve`.

    Attributes
    ----------
    solution
        What the problem's `finish` makes of v: weights, a signal, x.
    objective : float
        f(x) at the last iterate.
    gap : float
        The certificate: f(x) is within it of the minimum. From a full pass.
    relative_gap : float
        The gap over the problem's `scale`: what `tol` is compared with.
    lower_bound : float
        objective - gap, a bound on the minimum.
    gap_estimate : float
        The running estimate at the end (not a certificate).
    status : Status
        Why the run stopped.
    epochs, n_updates, n_oracle_calls
        Passes k tau / n, updates k, and oracle calls of the updates.
    n_collisions, n_dropped, n_lost : int
        Updates that overwrote another of the same batch; that were dropped because they
        were older than half of all versions; and that a worker with
        `return_probability` did not report, or that were lost with a dead server.
    delay : Delay or None
        How old v was when updates were computed; None where nothing is delayed.
    n_workers, bytes_per_worker : int
        Workers, and the memory that each took for itself.
    simulated : Simulated or None
        How long it would have taken, where workers were simulated.
    traffic : Traffic or None
        What went over the network, where there was one.
    seconds, wall_seconds : float
        Time spent on updates alone, and in all.
    averaged : bool
        Whether `solution` comes from the averaged iterate (it had the better bound).
    reach, n_outer : float, int
        How far v followed a step at the end, 1 where the run was not accelerated, and
        the outer steps that it made.
    trace : list of TraceRow
        One row a check.
    state : State
        For `solve(start=...)` and `save`. An estimator's `result_` has it only with
        warm_start=True, else None.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=50, d=2)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> result = wolfpack.solve(problem, tol=0.01, rng=0)
    >>> result.converged, result.gap <= 0.01 * problem.scale
    (True, True)
    >>> result.solution.shape
    (50, 2)
    """

    solution: Any = field(repr=False)
    objective: float
    gap: float
    relative_gap: float
    lower_bound: float
    gap_estimate: float
    status: Status
    epochs: float
    n_updates: int
    n_oracle_calls: int
    seconds: float
    wall_seconds: float
    averaged: bool
    trace: list[TraceRow] = field(repr=False)
    state: State = field(repr=False)
    n_collisions: int = 0
    n_dropped: int = 0
    n_lost: int = 0
    delay: Delay | None = None
    n_workers: int = 1
    bytes_per_worker: int = 0
    simulated: Simulated | None = None
    traffic: Traffic | None = None
    reach: float = 1.0
    n_outer: int = 0

    @property
    def converged(self) -> bool:
        """Whether the gap fell to tol."""
        return self.status is Status.CONVERGED

    def save(self, path: str | os.PathLike) -> Path:
        """Save the state, to go on later: `solve(start=State.load(path))`."""
        if self.state is None:
            raise ValueError("this result has no state; fit with warm_start=True.")
        return self.state.save(path)

    def to_frame(self) -> "pd.DataFrame":
        """Return the trace as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas: pip install pandas. Without it, "
                "result.trace is a list of named tuples."
            ) from error
        return pd.DataFrame(self.trace, columns=list(TraceRow._fields))

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Draw the gap against passes over the data."""
        from wolfpack.plotting import plot_trace

        return plot_trace(self.trace, ax=ax)
