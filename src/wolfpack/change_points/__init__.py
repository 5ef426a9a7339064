"""Change points: choose among candidates, choose their number, measure, draw."""

from wolfpack.change_points.choice import Choice, choose_change_points
from wolfpack.change_points.display import ChangePointsDisplay, plot_change_points
from wolfpack.change_points.elbow import NumberPath
from wolfpack.change_points.kinks import (
    TrendFilterPath,
    best_kinks,
    trend_filter_path,
)
from wolfpack.change_points.many import ManyChangePoints, find_many
from wolfpack.change_points.metrics import change_point_f1, covering
from wolfpack.change_points.number_display import NumberDisplay
from wolfpack.change_points.path import FusedLassoPath, fused_lasso_path
from wolfpack.change_points.path_display import PathDisplay
from wolfpack.change_points.pruning import best_segments, thin
from wolfpack.change_points.segmentation import StaircaseWarning
from wolfpack.change_points.selection import ElbowWarning
from wolfpack.change_points.support import Support, explain_points

__all__ = [
    "ChangePointsDisplay",
    "Choice",
    "ElbowWarning",
    "FusedLassoPath",
    "ManyChangePoints",
    "NumberDisplay",
    "NumberPath",
    "PathDisplay",
    "StaircaseWarning",
    "Support",
    "TrendFilterPath",
    "best_kinks",
    "best_segments",
    "change_point_f1",
    "choose_change_points",
    "covering",
    "explain_points",
    "find_many",
    "fused_lasso_path",
    "plot_change_points",
    "thin",
    "trend_filter_path",
]
