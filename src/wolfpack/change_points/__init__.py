"""Change points: choose among candidates, choose their number, measure, draw."""

from wolfpack.change_points.display import (
    ChangePointsDisplay,
    PathDisplay,
    plot_change_points,
)
from wolfpack.change_points.metrics import change_point_f1, covering
from wolfpack.change_points.number import choose
from wolfpack.change_points.pruning import best_segments, thin

__all__ = [
    "ChangePointsDisplay",
    "PathDisplay",
    "best_segments",
    "change_point_f1",
    "choose",
    "covering",
    "plot_change_points",
    "thin",
]
