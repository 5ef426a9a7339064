"""What a result says of its workers: how late they were, and what they sent."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


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
