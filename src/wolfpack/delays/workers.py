"""Workers and a server in simulated time, which `Delayed(workers=...)` simulates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfpack.delays.distributions import at_least


@dataclass(frozen=True)
class Workers:
    """Workers and a server in simulated time (Algorithm 1); seconds throughout.

    Each worker reads v, solves one subproblem, sends the answer and goes on without
    waiting; the server takes answers in the order in which they come. Where a parameter
    takes a sequence, it has one number a worker.

    Parameters
    ----------
    n_workers : int
        T in the paper.
    oracle_seconds : float or (float, float)
        The time of a subproblem; two numbers: uniform between them.
    message_seconds : float
        The time of a message from a worker to the server; the worker goes on meanwhile.
    read_seconds : float
        The time to read v, if it has changed since the worker last read it.
    take_seconds : float
        The time that the server needs to take a message.
    step_seconds : float
        The time that it needs for one update, once all blocks of the update are there.
    speed : float or sequence
        1: as `oracle_seconds` says; 0.1: ten times as long.
    return_probability : float or sequence
        The probability with which a worker reports what it has solved.
    joins, fails : float or sequence
        When a worker begins, and when it dies, with the subproblem that it was solving.
    queue : int, optional
        How many messages may be sent and not yet taken; a worker with one more waits.
        Default: 4 T, as in `Threads`.

    Examples
    --------
    >>> Workers(100, oracle_seconds=1e-3, return_probability=[0.1] + [1.0] * 99).size
    100
    """

    n_workers: int
    oracle_seconds: float | tuple[float, float] = 1e-3
    message_seconds: float = 0.0
    read_seconds: float = 0.0
    take_seconds: float = 0.0
    step_seconds: float = 0.0
    speed: float | Sequence[float] = 1.0
    return_probability: float | Sequence[float] = 1.0
    joins: float | Sequence[float] = 0.0
    fails: float | Sequence[float] = math.inf
    queue: int | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no cluster has."""
        for name in ("n_workers", "queue"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not (whole and value >= 1) and (name, value) != ("queue", None):
                raise ValueError(f"{name} must be a whole number >= 1, not {value!r}.")
        for name in ("message_seconds", "read_seconds", "take_seconds", "step_seconds"):
            at_least(name, getattr(self, name), 0)
        low, high = self.oracle_range
        if not 0 < low <= high < math.inf:
            raise ValueError(
                "oracle_seconds must be a positive number, or two, 0 < least <= most; "
                f"given was {self.oracle_seconds!r}."
            )
        speed, chance = self.each("speed"), self.each("return_probability")
        joins, fails = self.each("joins"), self.each("fails")
        if not ((speed > 0) & np.isfinite(speed)).all():
            raise ValueError(f"speed must be positive and finite, not {self.speed!r}.")
        if not ((chance > 0) & (chance <= 1)).all():
            raise ValueError(
                "return_probability must lie in (0, 1], not "
                f"{self.return_probability!r}."
            )
        if not ((joins >= 0) & np.isfinite(joins) & (fails > joins)).all():
            raise ValueError(
                "joins must be >= 0 and finite, and before fails; given were "
                f"{self.joins!r} and {self.fails!r}."
            )
        for name in ("speed", "return_probability", "joins", "fails"):
            if np.ndim(getattr(self, name)):  # a tuple can be compared, and hashed
                object.__setattr__(self, name, tuple(self.each(name).tolist()))

    @classmethod
    def measured(
        cls,
        problem: Any,
        n_workers: int,
        *,
        batch_size: int | None = None,
        oracle_repeats: tuple[int, int] = (1, 1),
        seconds: float = 1.0,
        **others: Any,
    ) -> "Workers":
        """Return workers like the cores of this machine.

        Short runs of `Threads`, with as many workers as there are cores for, measure
        the time of an oracle call, of an update of `batch_size` blocks (default: one a
        worker), and of reading v while it is written; they take about `seconds` in all.
        `oracle_repeats` is that of `Threads`; `others` are the rest of the parameters.
        """
        from wolfpack.advice.costs import measure

        T = cls(n_workers).size
        repeats = _numbers("oracle_repeats", oracle_repeats)
        if repeats.shape != (2,) or not 1 <= repeats[0] <= repeats[1] < math.inf:
            raise ValueError(
                "oracle_repeats must be two whole numbers, 1 <= least <= most, not "
                f"{oracle_repeats!r}."
            )
        at_least("seconds", seconds, 0, open_end=True)
        tau = batch_size
        if tau is None or tau == "auto":
            tau = min(T, problem.n_blocks)
        costs = measure(problem, T, tau, tuple(repeats.astype(int).tolist()), seconds)
        found = {
            "oracle_seconds": tuple((repeats * costs.oracle).tolist()),
            "read_seconds": costs.read,
            "step_seconds": costs.update,
        }
        return cls(T, **found | others)

    @property
    def size(self) -> int:
        """The number of workers."""
        return int(self.n_workers)

    @property
    def oracle_range(self) -> tuple[float, float]:
        """The least and the most that a subproblem takes."""
        pair = _numbers("oracle_seconds", self.oracle_seconds).ravel()
        if pair.size not in (1, 2):
            raise ValueError(
                "oracle_seconds must be one number or two, not "
                f"{self.oracle_seconds!r}."
            )
        return float(pair[0]), float(pair[-1])

    def each(self, name: str) -> np.ndarray:
        """Return one number a worker."""
        value = _numbers(name, getattr(self, name))
        if value.ndim > 1 or (value.ndim and len(value) != self.n_workers):
            raise ValueError(
                f"{name} must be one number, or {self.n_workers} of them, one a "
                f"worker; it has shape {value.shape}."
            )
        return np.broadcast_to(value, self.n_workers).copy()


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a number or a list of numbers, not {value!r}."
        ) from None
