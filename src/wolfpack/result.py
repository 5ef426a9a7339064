"""What a run returns: the answer, its certificate, why it stopped, and the trace."""

import enum
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wolfpack.errors import EngineError, OracleError
from wolfpack.run.team import Delay, Live, Simulated, Traffic
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
    INTERRUPTED = "Interrupted by Ctrl-C or SIGTERM; the iterate so far is kept."
    STALLED = (
        "Steps have become too small to change the objective; the gap cannot fall."
    )
    ABANDONED = "All workers have failed; the iterate so far is kept."
    DIVERGED = "The objective grows; try step='line', searched by the server."


class TraceRow(NamedTuple):
    """One check: where the run was and what its certificate said.

    `relative_gap` is the gap over the `scale` of the problem, the number that `tol` is
    compared with. `gap_over_primal` is the gap over the absolute primal value: of minus
    the lower bound for problems with a ridge, which are duals, else of f(x).
    """

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
    relative_gap: float = math.nan
    gap_over_primal: float | None = None  # None where the primal value is 0


COUNTS = ("n_updates", "n_oracle_calls", "n_outer")  # the whole numbers of a row


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
    gap_over_primal : float or None
        The gap over the absolute primal value, None where that is 0.
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
    signal : int or None
        The signal that came during the run, such as `signal.SIGTERM`; a script that was
        told to end may leave with exit code 128 + signal.
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
    signal: int | None = None

    @property
    def gap_over_primal(self) -> float | None:
        """The gap over the absolute primal value; None where that is 0."""
        return self.trace[-1].gap_over_primal

    @property
    def converged(self) -> bool:
        """Whether the gap fell to tol."""
        return self.status is Status.CONVERGED

    @property
    def shared(self) -> np.ndarray:
        """The v at the end; in an accelerated run between v0 + A x and its anchor."""
        return self.state.shared

    def atoms(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of x_(i), and its atoms as rows; a vector is one atom."""
        return self.state.read("atoms", i)

    def parts(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the parts of x_(i), and their weights."""
        return self.state.read("parts", i)

    def __getstate__(self) -> dict[str, Any]:
        """Return the status as a word and the trace as one array.

        Formats that run no code when they are read, such as that of skops, know no
        Enum, and a row of the trace would be another class to trust.
        """
        trace = np.array(self.trace, np.float64).reshape(-1, len(TraceRow._fields))
        return {**self.__dict__, "status": self.status.name, "trace": trace}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what `__getstate__` returned."""
        trace = [_to_row(numbers) for numbers in state["trace"].tolist()]
        self.__dict__.update(state, status=Status[state["status"]], trace=trace)

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

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from wolfpack.run.result_html import to_html

        return to_html(self)

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Draw the gap against passes over the data."""
        from wolfpack.plotting import plot_trace

        return plot_trace(self.trace, ax=ax)


def _to_row(numbers: list[float]) -> TraceRow:
    """Return a row from floats, in which a count is a float and None is NaN."""
    named: dict[str, Any] = dict(zip(TraceRow._fields, numbers, strict=True))
    named |= {name: int(named[name]) for name in COUNTS}
    for name in ("simulated_seconds", "gap_over_primal"):
        named[name] = None if math.isnan(named[name]) else named[name]
    return TraceRow(**named)


def in_words(ratio: float | None) -> str:
    """Return `gap_over_primal` as it is printed."""
    return f"gap / |primal| {'-' if ratio is None else f'{ratio:.1e}'}"
