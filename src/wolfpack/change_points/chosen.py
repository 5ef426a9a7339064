"""The record of a choice of change points: the points, which are sure, and why."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Choice:
    """The change points that were chosen, and why.

    Attributes
    ----------
    points : ndarray of int
        Rows where new segments begin.
    significant : ndarray of bool
        Which of them noise and drift do not explain.
    model : str
        "constant", "steps", "straight segments", "straight segments, joined", "slope",
        "curve", "wandering level" or "noise".
    reason : str
        A sentence that says what was compared and what came out.
    period : int
        Rows of the season that was taken off; 0: none.
    path : NumberPath
        Cost and points for each number.
    sees_end : bool
        Whether the elbow lies inside the numbers that were searched.
    has_elbow : bool
        Whether the cost has an elbow at all.
    exact : bool
        Whether all rows were candidates for the chosen points.
    """

    points: np.ndarray
    significant: np.ndarray
    model: str
    reason: str
    period: int = 0
    path: Any = field(default=None, repr=False)
    sees_end: bool = True
    has_elbow: bool = True
    exact: bool = True

    @property
    def straight(self) -> bool:
        """Whether segments are straight lines."""
        return self.model.startswith("straight")


def nothing(model: str, reason: str, period: int = 0, path=None) -> Choice:
    """Return the choice of no change point."""
    none = np.zeros(0, np.intp)
    return Choice(none, none.astype(bool), model, reason, period, path)
