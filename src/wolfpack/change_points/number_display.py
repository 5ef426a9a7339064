"""A picture of the cost against the number of change points, with the choice in it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from wolfpack.plotting import BLUE, ORANGE, name_axes, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wolfpack.change_points.elbow import NumberPath


class NumberDisplay:
    """The cost for each number of change points, and the number that was chosen.

    Parameters
    ----------
    numbers : array of int
        The numbers of change points.
    costs : array
        The sum of squares with each number.
    chosen : int
        The place of the number that was chosen.

    Attributes
    ----------
    ax_, figure_
        The picture, after `plot`.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import NumberDisplay
    >>> Y, _, _ = wolfpack.make_piecewise(n=90, d=2, n_segments=3, rng=1)
    >>> model = wolfpack.GroupFusedLasso(n_change_points="auto").fit(Y)
    >>> NumberDisplay.from_estimator(model).ax_.get_title()
    '2 change points'
    """

    ax_: "Axes"
    figure_: "Figure"

    def __init__(self, numbers: Any, costs: Any, chosen: int) -> None:
        self.numbers, self.costs = np.asarray(numbers), np.asarray(costs)
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator: Any, ax: "Axes | None" = None):
        """Draw `change_points_path_` of a fitted `GroupFusedLasso`."""
        return cls.from_path(estimator.change_points_path_, ax=ax)

    @classmethod
    def from_path(cls, path: "NumberPath", ax: "Axes | None" = None):
        """Draw a path of numbers."""
        return cls(path.numbers, path.costs, path.chosen).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> "NumberDisplay":
        """Draw onto `ax`, or onto new axes."""
        self.ax_ = ax = new_axes() if ax is None else ax
        self.figure_ = ax.figure  # pyright: ignore[reportAttributeAccessIssue]
        ax.plot(self.numbers, self.costs, "o-", color=BLUE, markersize=3, linewidth=1)
        number, cost = self.numbers[self.chosen], self.costs[self.chosen]
        ax.plot([number], [cost], "o", color=ORANGE, markersize=9, label="chosen")
        ax.set_title(f"{number} change point{'' if number == 1 else 's'}")
        if (self.costs > 1e-3 * self.costs[0]).all():
            ax.set_ylim(bottom=0)
        name_axes(ax, "number of change points", "sum of squares around the segments")
        return self
