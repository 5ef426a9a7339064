"""The options of a run, once they are validated."""

from typing import Any, NamedTuple

from wolfpack.update.plan import Plan

COARSE = 0.03  # a goal that accelerated steps reach in a few passes


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

    @property
    def is_coarse(self) -> bool:
        """Whether the goal is so near that the first passes decide."""
        return self.tol >= COARSE
