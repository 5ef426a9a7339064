"""Distributions of delay: Poisson, Pareto, constant, geometric, or as measured."""

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

MOST = 2.0**53  # larger whole numbers are not exact in floating point
# How each distribution is drawn; the keywords are its `numbers`.
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
    maximum: float  # draws are cut off here; above it their probability is negligible

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` independent delays."""
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
    mean = at_least("mean", mean, 0)
    most = math.ceil(mean + 12.0 * math.sqrt(mean) + 50.0)  # 1 of 10^30 draws is more
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
    mean = at_least("mean", mean, 0, open_end=True)
    shape = at_least("shape", shape, 1, open_end=True)
    # A heavy tail can exceed 64-bit integers; no run has 2^62 updates.
    return Delays("pareto", (("mean", mean), ("shape", shape)), mean, 2.0**62)


def constant(delay: float) -> Delays:
    """Return the same delay each time.

    Examples
    --------
    >>> constant(3).draw(np.random.default_rng(0), 2)
    array([3, 3])
    """
    if at_least("delay", delay, 0) % 1:
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
    mean = at_least("mean", mean, 0)
    most = math.ceil(70.0 * (mean + 1.0))  # 1 of 10^30 draws is more
    return Delays("geometric", (("mean", mean),), mean, most)


def empirical(histogram: Any) -> Delays:
    """Return delays with the frequencies of a histogram: delay d `histogram[d]` times.

    A `Result.delay` that `Threads` measured is a histogram, too.

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


def at_least(name: str, value: Any, least: float, *, open_end: bool = False) -> Any:
    """Return a number that is at least (or above) `least`, as a float."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    fits = number and (value > least if open_end else value >= least)
    if not (fits and value <= MOST):
        bound = f"> {least}" if open_end else f">= {least}"
        raise ValueError(
            f"{name} must be a number {bound}, and at most 2^53; given was {value!r}."
        )
    return float(value)
