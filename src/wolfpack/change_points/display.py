"""Pictures of change points, as scikit-learn Displays: `from_...`, then `plot`.

Nothing is shown and nothing is saved: `ax_` and `figure_` are the picture.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfpack.change_points.metrics import annotators
from wolfpack.plotting import BLUE, GREEN, GREY, ORANGE, RED, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES = 6  # a signal of more columns is drawn as a heat map
COLOURS = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9")


class ChangePointsDisplay:
    """A signal, the means of its segments and its change points.

    Each of up to 6 columns has a panel of its own, in its own units; more columns are
    rows of a heat map. Every other segment is shaded.

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
    truth : sequence of int, or dict or sequence of such, optional
        Change points that are known, of one annotator or of several: triangles at the
        top.

    Attributes
    ----------
    axes_ : array of Axes
        The panels, after `plot`, from the top.
    ax_, figure_
        The first of them, and their figure.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import ChangePointsDisplay
    >>> Y, clean, change_points = wolfpack.make_piecewise(n=60, d=2, n_segments=3)
    >>> display = ChangePointsDisplay(Y, clean, change_points).plot()
    >>> [ax.get_ylabel() for ax in display.axes_]
    ['column 0', 'column 1']
    """

    axes_: np.ndarray
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
        truth: Any = None,
    ) -> None:
        self.Y = two_d(Y)
        self.signal = two_d(signal)
        if self.Y.shape != self.signal.shape:
            raise ValueError(
                f"the signal has shape {self.Y.shape} and the fitted one "
                f"{self.signal.shape}: draw a model with the signal of its fit."
            )
        self.change_points = np.asarray(change_points, dtype=np.intp)
        self.index = _axis(index, len(self.Y))
        self.names = names
        marked = [] if truth is None else annotators(truth)
        self.truth = sorted({t for points in marked for t in points if t < len(self.Y)})

    @classmethod
    def from_estimator(
        cls, estimator: Any, Y: Any, ax: Any = None, truth: Any = None
    ) -> "ChangePointsDisplay":
        """Draw a fitted `GroupFusedLasso` with the signal that it was fitted to.

        Parameters
        ----------
        estimator : GroupFusedLasso
            A fitted model.
        Y : array, Series or DataFrame
            The signal; an index, and names of columns, go onto the axes.
        ax : Axes or array of Axes, optional
            Where to draw: one for all columns, or one for each. Default: new ones.
        truth : optional
            Change points that are known.
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
            truth=truth,
        ).plot(ax)

    def plot(self, ax: Any = None) -> "ChangePointsDisplay":
        """Draw onto one Axes, or an array with one per column; new ones by default."""
        d = self.Y.shape[1]
        if ax is None:
            ax = new_axes() if d == 1 or d > MAX_LINES else _panels(d)
        self.axes_ = axes = np.ravel(ax)
        if len(axes) not in (1, d):
            raise ValueError(f"1 or {d} axes are needed; got {len(axes)}.")
        self.ax_, self.figure_ = axes[0], axes[0].figure
        columns = [range(d)] if len(axes) == 1 else [[j] for j in range(d)]
        for one, own in zip(axes, columns, strict=True):
            if len(own) > MAX_LINES:
                self._draw_map(one)
            else:
                self._draw_lines(one, own)
            self._draw_points(one, shaded=len(own) <= MAX_LINES)
        if self.index.dtype.kind == "M":
            for one in axes:
                _write_dates(one)
        else:
            axes[-1].set_xlabel("row")
        count = len(self.change_points)
        known = "; triangles are the true ones" if self.truth else ""
        axes[0].set_title(f"{count} change point{'' if count == 1 else 's'}{known}")
        return self

    def _draw_points(self, ax: "Axes", shaded: bool) -> None:
        places = [self._between(t) for t in self.change_points]
        for place in places:
            ax.axvline(place, color=GREY, linestyle="--", linewidth=0.8)
        ends = [*places, self.index[-1]]
        for first, last in zip(ends[::2], ends[1::2], strict=False) if shaded else ():
            ax.axvspan(first, last, color=GREY, alpha=0.1, linewidth=0)
        if self.truth:
            marks = [self._between(t) if t else self.index[0] for t in self.truth]
            heights, where = np.ones(len(marks)), ax.get_xaxis_transform()
            style: dict[str, Any] = {"color": RED, "linestyle": "none", "marker": "v"}
            style |= {"clip_on": False, "label": "true", "zorder": 3}
            ax.plot(marks, heights, transform=where, **style)

    def _draw_lines(self, ax: "Axes", columns: Sequence[int]) -> None:
        names = self.names or [f"column {j}" for j in range(self.Y.shape[1])]
        parts = np.split(np.arange(len(self.Y)), self.change_points)
        for j, colour in zip(columns, COLOURS, strict=False):
            ax.plot(self.index, self.Y[:, j], color=colour, linewidth=0.8, alpha=0.45)
            for k, rows in enumerate(parts):
                label = names[j] if k == 0 else None
                mean = self.signal[rows, j]
                ax.plot(self.index[rows], mean, color=colour, linewidth=2, label=label)
        if len(columns) > 1:
            ax.legend(frameon=False)
        is_named = len(columns) == 1 and (self.names or self.Y.shape[1] > 1)
        ax.set_ylabel(names[columns[0]] if is_named else "value")
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


def plot_change_points(
    Y: Any, model: Any, ax: Any = None, *, truth: Any = None
) -> "Axes":
    """Draw a signal, the segment means and the change points of a fitted model.

    It is short for `ChangePointsDisplay.from_estimator(model, Y, ax, truth).ax_`.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import plot_change_points
    >>> Y, _, _ = wolfpack.make_piecewise(n=60, d=2, n_segments=3)
    >>> model = wolfpack.GroupFusedLasso(n_change_points=2).fit(Y)
    >>> ax = plot_change_points(Y, model)
    """
    return ChangePointsDisplay.from_estimator(model, Y, ax, truth).ax_


def _panels(count: int) -> Any:
    """Return the axes of a new figure, one below the other."""
    import matplotlib.pyplot as plt

    how: dict[str, Any] = {"sharex": True, "layout": "constrained"}
    return plt.subplots(count, 1, figsize=(6, 1.2 + 1.4 * count), **how)[1]


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


def two_d(values: Any) -> np.ndarray:
    """Return a signal of one dimension as one column."""
    values = np.asarray(values, dtype=np.float64)
    return values[:, np.newaxis] if values.ndim == 1 else values
