"""How late updates are: distributions of delay, and workers in simulated time.

A delay is counted in updates: how many were made between reading v and using what was
found with it. `Delayed` takes a distribution of delays, or a `Workers`, from whose
speeds and losses the delays follow.

Examples
--------
>>> from wolfpack import delays
>>> delays.pareto(20)
pareto(mean=20.0, shape=2.0)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

__all__ = [
    "Delays",
    "Workers",
    "as_delays",
    "constant",
    "empirical",
    "geometric",
    "pareto",
    "poisson",
]


MOST = 2.0**53  # whole numbers beyond are not exact in floating point
# How each distribution is drawn, from its own numbers.
_SAMPLES = {
    "poisson": lambda rng, size, mean: rng.poisson(mean, size),
    "pareto": lambda rng, size, mean, shape: np.rint(
        mean * (shape - 1.0) / shape * (1.0 + rng.pareto(shape, size))
    ),
    "constant": lambda rng, size, delay: np.full(size, delay),
    "geometric": lambda rng, size, mean: rng.geometric(1.0 / (1.0 + mean), size) - 1,
    "empirical": lambda rng, size, histogram: np.searchsorted(
        np.cumsum(histogram) / np.sum(histogram), rng.random(size), side="right"
    ),
}


@dataclass(frozen=True)
class Delays:
    """A distribution of delays; see `poisson`, `pareto`, `constant`, `geometric`.

    Examples
    --------
    >>> poisson(5)
    poisson(mean=5.0)
    >>> poisson(5).draw(np.random.default_rng(0), 4)
    array([3, 7, 3, 4])
    """

    name: str
    numbers: tuple[tuple[str, Any], ...]
    mean: float
    maximum: float  # none is larger, or as good as none

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` delays, each on its own."""
        drawn = _SAMPLES[self.name](rng, size, **dict(self.numbers))
        return np.minimum(drawn, self.maximum).astype(np.int64)

    def __repr__(self) -> str:
        """Show how it was made."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.numbers)
        return f"{self.name}({given})"


def poisson(mean: float) -> Delays:
    """Return Poisson delays (Figure 4a).

    Examples
    --------
    >>> poisson(20).mean
    20.0
    """
    mean = _at_least("mean", mean, 0)
    most = math.ceil(mean + 12.0 * math.sqrt(mean) + 50.0)  # once in 10^30 draws
    return Delays("poisson", (("mean", mean),), mean, most)


def pareto(mean: float, shape: float = 2.0) -> Delays:
    """Return heavy-tailed delays, rounded to the nearest integer (Figure 4b).

    x_m (1 - u)^(-1 / shape), x_m = mean (shape - 1) / shape: with shape 2 its variance
    is infinite. `mean` is that before rounding, which adds 0.23 to a mean of 1, and
    moves one of 2 or more by at most 0.11.

    Examples
    --------
    >>> pareto(20)
    pareto(mean=20.0, shape=2.0)
    """
    mean = _at_least("mean", mean, 0, open_end=True)
    shape = _at_least("shape", shape, 1, open_end=True)
    # Beyond 2^62 there are no such integers, and no run is so long.
    return Delays("pareto", (("mean", mean), ("shape", shape)), mean, 2.0**62)


def constant(delay: float) -> Delays:
    """Return the same delay each time.

    Examples
    --------
    >>> constant(3).draw(np.random.default_rng(0), 2)
    array([3, 3])
    """
    if _at_least("delay", delay, 0) % 1:
        raise ValueError(f"a constant delay must be a whole number, not {delay!r}.")
    whole = int(delay)
    return Delays("constant", (("delay", whole),), whole, whole)


def geometric(mean: float) -> Delays:
    """Return delays 0, 1, 2, ... of which each is less probable by the same factor.

    Examples
    --------
    >>> geometric(3).mean
    3.0
    """
    mean = _at_least("mean", mean, 0)
    most = math.ceil(70.0 * (mean + 1.0))  # once in 10^30 draws
    return Delays("geometric", (("mean", mean),), mean, most)


def empirical(histogram: Any) -> Delays:
    """Return delays as often as they were counted: `histogram[d]` times d.

    A `Result.delay` that `Threads` measured will do, too.

    Examples
    --------
    >>> empirical([5, 0, 5]).mean
    1.0
    """
    given = getattr(histogram, "histogram", histogram)
    try:
        counts = np.asarray(given)
    except ValueError:  # rows of different lengths
        counts = np.zeros(0)
    number = counts.dtype.kind in "iuf" and counts.ndim == 1
    if not (number and (counts >= 0).all() and 0 < counts.sum() < np.inf):
        raise ValueError(
            "a histogram of delays must be a list of counts >= 0, not all 0; given was "
            f"{histogram!r}."
        )
    counts = counts[: np.flatnonzero(counts)[-1] + 1]
    mean = float(counts @ np.arange(counts.size) / counts.sum())
    shares = tuple(counts.tolist())
    return Delays("empirical", (("histogram", shares),), mean, counts.size - 1)


def as_delays(given: Any) -> Delays:
    """Return delays as they are, or made from a number or a histogram.

    Examples
    --------
    >>> as_delays(4)
    constant(delay=4)
    """
    if isinstance(given, Delays):
        return given
    if hasattr(given, "histogram") or isinstance(given, list | tuple | np.ndarray):
        return empirical(given)
    if isinstance(given, int | float | np.number) and not isinstance(given, bool):
        return constant(cast(float, given))
    raise ValueError(
        "delay must be one of poisson(mean), pareto(mean), constant(delay), "
        "geometric(mean), a whole number or a histogram (a list of counts, or "
        f"Result.delay); given was {given!r}."
    )


@dataclass(frozen=True)
class Workers:
    """Workers and a server in simulated time (Algorithm 1); seconds throughout.

    Each worker reads v, solves one subproblem, sends the answer and goes on, waiting
    for nobody; the server takes answers in the order in which they come. Of what
    differs between workers, give one number, or one each.

    Parameters
    ----------
    n_workers : int
        T in the paper.
    oracle_seconds : float or (float, float)
        What a subproblem takes; two numbers: uniform between them.
    message_seconds : float
        From a worker to the server; it does not keep the worker busy.
    read_seconds : float
        What a worker waits for v, where it is new since it last read it.
    take_seconds : float
        What the server needs to take a message.
    step_seconds : float
        What it needs for one update, once all its blocks are there.
    speed : float or sequence
        1: as `oracle_seconds` says; 0.1: ten times as long.
    return_probability : float or sequence
        A worker solves, and reports with this probability.
    joins, fails : float or sequence
        When a worker comes, and when it is gone, with what it was at.
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
        """Refuse what no cluster has."""
        for name in ("n_workers", "queue"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not (whole and value >= 1) and (name, value) != ("queue", None):
                raise ValueError(f"{name} must be a whole number >= 1, not {value!r}.")
        for name in ("message_seconds", "read_seconds", "take_seconds", "step_seconds"):
            _at_least(name, getattr(self, name), 0)
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

        What an oracle call and an update of `batch_size` blocks (default: one a worker)
        take, and to read v while it is written, is measured in short runs of `Threads`
        with as many workers as there are cores for, for about so many `seconds`.
        `oracle_repeats` is as there; `others` are the rest of the parameters.
        """
        from wolfpack.advice.costs import measure

        T = cls(n_workers).size
        repeats = _numbers("oracle_repeats", oracle_repeats)
        if repeats.shape != (2,) or not 1 <= repeats[0] <= repeats[1] < math.inf:
            raise ValueError(
                "oracle_repeats must be two whole numbers, 1 <= least <= most, not "
                f"{oracle_repeats!r}."
            )
        _at_least("seconds", seconds, 0, open_end=True)
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
        raise ValueError(f"{name} must be a number or some, not {value!r}.") from None


def _at_least(name: str, value: Any, least: float, *, open_end: bool = False) -> Any:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    fits = number and (value > least if open_end else value >= least)
    if not (fits and value <= MOST):
        bound = f"> {least}" if open_end else f">= {least}"
        raise ValueError(
            f"{name} must be a number {bound}, and at most 2^53; given was {value!r}."
        )
    return float(value)
