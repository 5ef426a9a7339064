"""Pictures of change points, as scikit-learn Displays: `from_...`, then `plot`.

Nothing is shown and nothing is saved: `ax_` and `figure_` are the picture.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from wolfpack.plotting import BLUE, GREEN, GREY, ORANGE, RED, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES = 6  # a signal of more columns is drawn as a heat map
COLOURS = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9")


class ChangePointsDisplay:
    """A signal, the means of its segments and its change points.

    Up to 6 columns are drawn as lines; more of them as a heat map with a row for each.

    Parameters
    ----------
    Y : array (n, d) or (n,)
        The signal.
    signal : array (n, d) or (n,)
        The fitted one.
    change_points : array of int
        Where new segments begin.
    index : array (n,), optional
        What is on the x axis: rising numbers or dates. The numbers of the rows by
        default, and where the index is anything else.
    names : list of str, optional
        Names of the columns.

    Attributes
    ----------
    ax_, figure_
        The picture, after `plot`.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import ChangePointsDisplay
    >>> Y, clean, change_points = wolfpack.make_piecewise(n=60, d=2, n_segments=3)
    >>> display = ChangePointsDisplay(Y, clean, change_points).plot()
    >>> display.ax_.get_xlabel()
    'row'
    """

    ax_: "Axes"
    figure_: "Figure"

    def __init__(
        self,
        Y: Any,
        signal: Any,
        change_points: Any,
        *,
        index: Any = None,
        names: list[str] | None = None,
    ) -> None:
        self.Y = _two_d(Y)
        self.signal = _two_d(signal)
        if self.Y.shape != self.signal.shape:
            raise ValueError(
                f"the signal has shape {self.Y.shape} and the fitted one "
                f"{self.signal.shape}: draw a model with the signal of its fit."
            )
        self.change_points = np.asarray(change_points, dtype=np.intp)
        self.index = _axis(index, len(self.Y))
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator: Any, Y: Any, ax: "Axes | None" = None
    ) -> "ChangePointsDisplay":
        """Draw a fitted `GroupFusedLasso` with the signal that it was fitted to.

        Parameters
        ----------
        estimator : GroupFusedLasso
            A fitted model.
        Y : array, Series or DataFrame
            The signal; an index, and names of columns, go onto the axes.
        ax : Axes, optional
            Where to draw; new axes by default.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        names = getattr(Y, "columns", None)
        return cls(
            Y,
            estimator.signal_,
            estimator.change_points_,
            index=getattr(Y, "index", None),
            names=None if names is None else [str(name) for name in names],
        ).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> "ChangePointsDisplay":
        """Draw onto `ax`, or onto new axes."""
        self.ax_ = ax = new_axes() if ax is None else ax
        self.figure_ = ax.figure  # pyright: ignore[reportAttributeAccessIssue]
        if self.Y.shape[1] > MAX_LINES:
            self._draw_map(ax)
        else:
            self._draw_lines(ax)
        for t in self.change_points:
            ax.axvline(self._between(t), color=GREY, linestyle="--", linewidth=0.8)
        if self.index.dtype.kind == "M":
            _write_dates(ax)
        else:
            ax.set_xlabel("row")
        count = len(self.change_points)
        ax.set_title(f"{count} change point{'' if count == 1 else 's'}")
        return self

    def _draw_lines(self, ax: "Axes") -> None:
        names = self.names or [f"column {j}" for j in range(self.Y.shape[1])]
        parts = np.split(np.arange(len(self.Y)), self.change_points)
        for j, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
            ax.plot(self.index, self.Y[:, j], color=colour, linewidth=0.8, alpha=0.45)
            for k, rows in enumerate(parts):
                label = name if k == 0 else None
                mean = self.signal[rows, j]
                ax.plot(self.index[rows], mean, color=colour, linewidth=2, label=label)
        if len(names) > 1:
            ax.legend(frameon=False)
        ax.set_ylabel("value" if len(names) > 1 or not self.names else names[0])
        ax.margins(x=0)

    def _draw_map(self, ax: "Axes") -> None:
        limit = np.quantile(np.abs(self.signal), 0.99) or 1.0
        picture = ax.pcolormesh(
            self.index,
            np.arange(self.Y.shape[1]),
            self.signal.T,
            shading="nearest",
            cmap="RdBu_r",
            vmin=-limit,
            vmax=limit,
            rasterized=True,
        )
        ax.figure.colorbar(picture, ax=ax, label="fitted signal")
        ax.set_ylabel("column")

    def _between(self, t: int) -> Any:
        """Return the place between rows t - 1 and t, numbers or dates alike."""
        first, second = self.index[t - 1], self.index[t]
        return first + (second - first) / 2


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
        self.signals = [_two_d(signal) for signal in signals]
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


def plot_change_points(Y: Any, model: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw a signal, the segment means and the change points of a fitted model.

    It is short for `ChangePointsDisplay.from_estimator(model, Y, ax=ax).ax_`.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import plot_change_points
    >>> Y, _, _ = wolfpack.make_piecewise(n=60, d=2, n_segments=3)
    >>> model = wolfpack.GroupFusedLasso(n_change_points=2).fit(Y)
    >>> ax = plot_change_points(Y, model)
    """
    return ChangePointsDisplay.from_estimator(model, Y, ax=ax).ax_


def _write_dates(ax: "Axes") -> None:
    """Write short dates below the axis: long ones overlap."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _axis(index: Any, n: int) -> np.ndarray:
    """Return the index where it can be an axis, else the numbers of the rows."""
    rows = np.arange(n) if index is None else np.asarray(index)
    if rows.shape != (n,):
        raise ValueError(f"index must have {n} entries, one a row; got {rows.shape}.")
    rises = rows.dtype.kind in "iufM" and bool((rows[1:] > rows[:-1]).all())
    return rows if rises else np.arange(n)


def _two_d(values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return values[:, np.newaxis] if values.ndim == 1 else values
