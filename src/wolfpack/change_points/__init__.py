"""Change points: choose among candidates, measure, draw."""

from wolfpack.change_points.pruning import best_segments, thin

__all__ = ["best_segments", "thin"]
