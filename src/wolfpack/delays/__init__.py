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

from wolfpack.delays.distributions import (
    Delays,
    as_delays,
    constant,
    empirical,
    geometric,
    pareto,
    poisson,
)
from wolfpack.delays.workers import Workers

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
