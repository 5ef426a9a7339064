"""Pictures. Axes in, axes out; nothing is shown, nothing is saved here.

Colours are those of Okabe and Ito, which colour-blind people can tell apart.

Examples
--------
>>> import wolfpack
>>> Y, _, _ = wolfpack.make_piecewise(n=50, d=2)
>>> result = wolfpack.solve(wolfpack.group_fused_lasso(Y, alpha=0.5), tol=0.01, rng=0)
>>> wolfpack.plotting.plot_trace(result.trace).get_ylabel()
'duality gap'
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wolfpack.advice import Advice
    from wolfpack.result import TraceRow

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#666666"
COLOURS = (BLUE, ORANGE, GREEN, RED, GREY)
# What `plot_traces` may draw against: the field of a row, and the name of the axis.
_AXES = {
    "passes": ("epoch", "passes over the data"),
    "seconds": ("wall_seconds", "seconds"),
    "calls": ("n_oracle_calls", "oracle calls"),
}


def plot_trace(trace: "Sequence[TraceRow]", ax: "Axes | None" = None) -> "Axes":
    """Draw the certified gap, and its running estimate, against passes."""
    ax = ax or new_axes()
    epochs = np.array([row.epoch for row in trace])
    gaps = np.array([row.gap for row in trace])
    estimates = np.array([row.gap_estimate for row in trace])
    ax.plot(epochs, gaps, "o-", color=BLUE, markersize=3, label="duality gap (exact)")
    known = np.isfinite(estimates) & (estimates > 0)
    if known.any():
        ax.plot(epochs[known], estimates[known], ":", color=ORANGE, label="estimate")
    if (gaps > 0).any():
        ax.set_yscale("log")
    return name_axes(ax, "passes over the data", "duality gap")


def plot_traces(
    runs: Mapping[str, Any],
    x: Literal["passes", "seconds", "calls"] = "passes",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the certified gaps of several runs, to compare them.

    Parameters
    ----------
    runs : dict of name to Result, fitted estimator or trace
        What to draw, in this order.
    x : "passes", "seconds" or "calls"
        Passes over the data, seconds on the clock, or calls of the oracle.
    ax : Axes, optional
        Where to draw.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=50, d=2)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> runs = {name: wolfpack.solve(problem, step=name, rng=0) for name in ("line",)}
    >>> wolfpack.plotting.plot_traces(runs, x="seconds").get_xlabel()
    'seconds'
    """
    if x not in _AXES:
        raise ValueError(f"x must be one of {[*_AXES]}, not {x!r}.")
    if not isinstance(runs, Mapping) or not runs:
        raise ValueError(f"runs must be a dict of names and results, not {runs!r}.")
    ax = ax or new_axes()
    field, label = _AXES[x]
    gaps = []
    for k, (name, run) in enumerate(runs.items()):
        trace = getattr(run, "trace", getattr(run, "trace_", run))
        gaps += [row.gap for row in trace]
        places = [getattr(row, field) for row in trace]
        colour, line = COLOURS[k % len(COLOURS)], "-" if k < len(COLOURS) else "--"
        style: dict[str, Any] = {"color": colour, "linestyle": line, "markersize": 3}
        ax.plot(places, [row.gap for row in trace], marker="o", **style, label=name)
    if any(gap > 0 for gap in gaps):
        ax.set_yscale("log")
    return name_axes(ax, label, "duality gap")


def plot_speedup(
    batch_sizes: np.ndarray,
    predicted: np.ndarray,
    advice: "Advice",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how many updates of one block an update of tau blocks is worth.

    `predicted` comes from `theory.predicted_speedup`, what was measured from `advice`.
    """
    ax = ax or new_axes()
    sizes = np.asarray(batch_sizes)
    ax.plot(sizes, sizes, "--", color=GREY, linewidth=1, label="linear, the ideal")
    ax.plot(sizes, predicted, color=BLUE, label="predicted from mu / B")
    workers = "1 worker" if advice.n_workers == 1 else f"{advice.n_workers} workers"
    seen = advice.batch_sizes, advice.joint_progress
    ax.plot(*seen, "o-", color=RED, markersize=4, label=f"measured, {workers}")
    tau = advice.batch_size
    ring: dict[str, Any] = {"markersize": 11, "markerfacecolor": "none"}
    worth = np.interp(tau, *seen)
    label = f"suggested, tau = {tau}"
    ax.plot([tau], [worth], "o", color=ORANGE, markeredgewidth=2, **ring, label=label)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda number, _: f"{number:g}")
    # In the upper left no curve is above the ideal.
    where = "blocks an update, tau", "worth in single updates"
    return name_axes(ax, *where, loc="upper left")


def plot_signals(
    noisy: np.ndarray,
    recovered: np.ndarray,
    original: np.ndarray | None = None,
    axes: "np.ndarray | None" = None,
) -> "np.ndarray":
    """Draw the original, the noisy and the recovered signal side by side.

    The paper's Figure 5. `axes` is an array of as many axes as there are signals.
    """
    parts = [("noisy", noisy, GREY), ("recovered", recovered, BLUE)]
    if original is not None:
        parts.insert(0, ("original", original, GREEN))
    if axes is None:
        import matplotlib.pyplot as plt

        shape = {"figsize": (3.4 * len(parts), 3.2), "layout": "constrained"}
        _, axes = plt.subplots(1, len(parts), sharex=True, sharey=True, **shape)
    if np.size(axes) != len(parts):
        raise ValueError(f"{len(parts)} axes are needed, one a signal.")
    for ax, (name, signal, colour) in zip(np.ravel(axes), parts, strict=True):
        ax.plot(signal, color=colour, linewidth=0.9, alpha=0.8)
        ax.set_title(f"{name} signal")
        ax.set_xlabel("time")
    np.ravel(axes)[0].set_ylabel("value of each coordinate")
    return np.asarray(axes)


def plot_sequences(
    images: Sequence[np.ndarray],
    truth: Sequence[Sequence[Any]],
    predicted: Sequence[Sequence[Any]],
    image_shape: tuple[int, int],
    trace: "Sequence[TraceRow] | None" = None,
) -> "Figure":
    """Draw sequences of letter images with true and predicted labels below them.

    Wrong predictions are red and underlined. With `trace`, the convergence curve is
    drawn beneath.
    """
    import matplotlib.pyplot as plt

    n = -(-len(images) // 2)  # rows of two
    figure = plt.figure(figsize=(8, 0.85 * n + (3.2 if trace else 0.6)))
    figure.set_layout_engine("constrained")
    heights = [0.85 * n, 3.0] if trace else [1]
    top, *rest = np.atleast_1d(
        np.asarray(figure.subfigures(len(heights), 1, height_ratios=heights))
    )
    top.suptitle("test sequences: image, true label, predicted label")
    rows = top.subplots(n, 2, squeeze=False).ravel()
    for ax in rows[len(images) :]:
        ax.axis("off")
    for ax, pixels, right, guess in zip(rows, images, truth, predicted, strict=False):
        _draw_word(ax, np.asarray(pixels), right, guess, image_shape)
    if trace:
        ax = plot_trace(trace, rest[0].subplots())
        ax.set_title("convergence of the training")
    return figure


def _draw_word(ax: "Axes", pixels, truth, predicted, shape: tuple[int, int]) -> None:
    height, width = shape
    letters = pixels.reshape(-1, height, width)
    strip = np.hstack([np.pad(letter, ((0, 0), (1, 1))) for letter in letters])
    ax.imshow(strip, cmap="gray_r", aspect="equal")
    below: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
    for k, (right, guess) in enumerate(zip(truth, predicted, strict=True)):
        x, wrong = (k + 0.5) * (width + 2) - 0.5, right != guess
        ax.text(x, 1.25 * height, f"{right}", **below)
        style: dict[str, Any] = {"color": BLUE}
        if wrong:
            style = {"color": RED, "fontweight": "bold"}
        text = f"{guess}\u0332" if wrong else f"{guess}"
        ax.text(x, 1.55 * height, text, **below, **style)
    ax.set_ylim(1.8 * height, -0.5)
    ax.set_xlim(-0.5, max(strip.shape[1], 1) - 0.5)
    ax.axis("off")


def name_axes(ax: "Axes", x: str, y: str, **legend: Any) -> "Axes":
    """Name both axes, and draw a legend and a grid."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.legend(frameon=False, **legend)
    ax.grid(alpha=0.3)
    return ax


def new_axes() -> "Axes":
    """Return the axes of a new figure."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    return ax
