"""Change points: choose among candidates, choose their number, measure, draw."""

from wolfpack.change_points.display import (
    ChangePointsDisplay,
    PathDisplay,
    plot_change_points,
)
from wolfpack.change_points.metrics import change_point_f1, covering
from wolfpack.change_points.number import choose
from wolfpack.change_points.path import FusedLassoPath, fused_lasso_path
from wolfpack.change_points.pruning import best_segments, thin
from wolfpack.change_points.segmentation import StaircaseWarning

__all__ = [
    "ChangePointsDisplay",
    "FusedLassoPath",
    "PathDisplay",
    "StaircaseWarning",
    "best_segments",
    "change_point_f1",
    "choose",
    "covering",
    "fused_lasso_path",
    "plot_change_points",
    "thin",
]
