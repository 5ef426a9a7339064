"""A picture of a path of the group fused lasso, as a scikit-learn Display."""

from typing import TYPE_CHECKING, Any

import numpy as np

from wolfpack.change_points.display import two_d
from wolfpack.plotting import BLUE, GREY

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PathDisplay:
    """How many change points there are, and how the signal grows, as alpha falls.

    Parameters
    ----------
    alphas : array (n_alphas,)
        Descending.
    signals : array (n_alphas, n, d)
        The signal at each alpha.
    change_points : list of int arrays
        The change points at each alpha.

    Attributes
    ----------
    axes_, figure_
        The picture, after `plot`: the number of points, and the size of each jump.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfpack.change_points import PathDisplay
    >>> signals = np.array([[[2.0]] * 4, [[1.0], [1.0], [3.0], [3.0]]])
    >>> display = PathDisplay([4.0, 1.0], signals, [[], [2]]).plot()
    >>> [ax.get_ylabel() for ax in display.axes_]
    ['change points', 'size of each jump']
    """

    axes_: np.ndarray
    figure_: "Figure"

    def __init__(self, alphas: Any, signals: Any, change_points: Any) -> None:
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.signals = [two_d(signal) for signal in signals]
        self.change_points = [np.asarray(t, dtype=np.intp) for t in change_points]

    @classmethod
    def from_path(cls, path: Any, axes: Any = None) -> "PathDisplay":
        """Draw what `fused_lasso_path` returned."""
        return cls(path.alphas, path.signals, path.change_points).plot(axes)

    def plot(self, axes: Any = None) -> "PathDisplay":
        """Draw onto two axes, or onto new ones."""
        if axes is None:
            import matplotlib.pyplot as plt

            shape = {"figsize": (6, 5.2), "layout": "constrained"}
            _, axes = plt.subplots(2, 1, sharex=True, **shape)
        self.axes_ = np.ravel(axes)
        if len(self.axes_) != 2:
            raise ValueError(f"2 axes are needed; got {len(self.axes_)}.")
        top, bottom = self.axes_
        self.figure_ = top.figure
        counts = [len(points) for points in self.change_points]
        top.step(self.alphas, counts, "o-", where="mid", color=BLUE, markersize=3)
        top.set_ylabel("change points")
        bottom.plot(self.alphas, self._jumps(), color=GREY, linewidth=0.8, alpha=0.7)
        bottom.set_ylabel("size of each jump")
        bottom.set_xlabel("alpha")
        top.set_xscale("log")
        bottom.set_xscale("log")
        top.invert_xaxis()
        if not top.get_shared_x_axes().joined(top, bottom):
            bottom.invert_xaxis()
        for ax in self.axes_:
            ax.grid(alpha=0.3)
        return self

    def _jumps(self) -> np.ndarray:
        """Return |x_t - x_(t-1)| at each alpha, of rows that jump at any of them."""
        found = np.unique(np.concatenate(self.change_points))
        sizes = [np.linalg.norm(x[found] - x[found - 1], axis=1) for x in self.signals]
        return np.array(sizes)
