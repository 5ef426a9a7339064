"""The options of a run, once they are validated."""

from typing import Any, NamedTuple

from wolfpack.update.plan import Plan


class Options(NamedTuple):
    """The validated arguments of `solve`."""

    batch_size: int  # blocks of one update, as the engine makes them
    asked: int | None  # blocks of one update, as the user asked for
    averaging: bool
    sampling: str
    step: Any
    plan: Plan
    tol: float
    max_epochs: float
    max_seconds: float
    check_every: float | None
    accelerate: bool  # decided: what "auto" stands for
