"""How sure change points are: what each gains, in which columns, and a p-value.

A point gains what the sum of squares grows by when its two segments become one, in
units of the long-run variance of its column. The p-value compares the gain with the
largest one in signals without a change: these have the noise that is left beside the
points, go through the same search for as many points, and are measured alike.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.stats import chi2
from sklearn.utils import check_random_state

from wolfpack.change_points.elbow import number_path
from wolfpack.change_points.evidence import beside_steps, straight_fit
from wolfpack.change_points.exact import Rows
from wolfpack.change_points.noise import clip_outliers, find_period, seasonal_means
from wolfpack.change_points.stationarity import long_variance

LEVEL = 0.05
WARM_UP = 200  # rows before a simulated signal, after which its noise is stationary


@dataclass(frozen=True)
class Support:
    """How sure each change point is.

    Attributes
    ----------
    points : ndarray of int (k,)
        The change points.
    gains : ndarray (k, d)
        What the sum of squares of a column grows by without the point, in units of its
        long-run variance.
    columns : ndarray of bool (k, d)
        Which columns change: gains that noise has in 5 of 100 points, with as many
        columns as there are.
    p_values : ndarray (k,)
        The share of signals without a change in which some point gains as much.
    """

    points: np.ndarray
    gains: np.ndarray
    columns: np.ndarray
    p_values: np.ndarray

    def __str__(self) -> str:
        """Return a line per point."""
        rows = zip(self.points, self.gains.sum(axis=1), self.p_values, strict=True)
        lines = [f"{t:10d} {gain:12.4g} {p:8.3f}" for t, gain, p in rows]
        return "\n".join([f"{'begins':>10s} {'gain':>12s} {'p':>8s}", *lines])


def explain_points(
    Y: Any,
    points: Any,
    *,
    straight: bool = False,
    n_draws: int = 199,
    random_state: Any = 0,
) -> Support:
    """Return gains, columns and p-values of change points.

    Parameters
    ----------
    Y : array (n, d) or (n,)
        The signal.
    points : array of int
        Rows where new segments begin.
    straight : bool
        Whether segments are straight lines.
    n_draws : int
        How many signals without a change are simulated: a p-value is at least
        1 / (n_draws + 1). The cost is that many searches.
    random_state : int, RandomState or None
        Seeds them.

    Returns
    -------
    Support

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import explain_points
    >>> Y, _, jumps = wolfpack.make_piecewise(n=120, d=2, n_segments=2, rng=1)
    >>> support = explain_points(Y, jumps, n_draws=99)
    >>> support.p_values.tolist()
    [0.01]
    """
    Y = np.asarray(Y, dtype=np.float64)
    Y = Y[:, np.newaxis] if Y.ndim == 1 else Y
    points = np.unique(np.asarray(points, dtype=np.intp))
    if points.size and not 0 < points[0] <= points[-1] < len(Y):
        raise ValueError(
            f"change points must be rows out of 1, ..., {len(Y) - 1}; got {points[0]} "
            f"to {points[-1]}."
        )
    if not isinstance(n_draws, int | np.integer) or n_draws < 19:
        raise ValueError(f"n_draws must be a whole number from 19 on; got {n_draws!r}.")
    Y = _standardised(Y)
    gains = _gains(Y, points, straight)
    shape = gains.shape
    if not len(points):
        return Support(points, gains, np.zeros(shape, bool), np.zeros(0))
    rng = check_random_state(random_state)
    noise = _Noise(Y, points, straight)
    largest = [_largest_gain(noise.draw(rng), len(points), straight)
               for _ in range(n_draws)]  # fmt: skip
    beaten = np.sum(np.array(largest)[:, np.newaxis] >= gains.sum(axis=1), axis=0)
    changed = chi2.sf(gains, 2 if straight else 1) * shape[1] < LEVEL
    return Support(points, gains, changed, (beaten + 1) / (n_draws + 1))


def _standardised(Y: np.ndarray) -> np.ndarray:
    """Take season and outliers off."""
    scale = Y.std(axis=0)
    Y = (Y - Y.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    period = find_period(Y)
    return clip_outliers(Y - seasonal_means(Y, period) if period else Y)


def _beside(Y: np.ndarray, points: np.ndarray, straight: bool) -> np.ndarray:
    return Y - straight_fit(Y, points) if straight else beside_steps(Y, points)


def _gains(Y: np.ndarray, points: np.ndarray, straight: bool) -> np.ndarray:
    scale = np.sqrt(long_variance(_beside(Y, points, straight)))
    Y = Y / np.where(scale > 0, scale, 1.0)
    return Rows(Y).own_gains(points, straight)


def _largest_gain(Y: np.ndarray, count: int, straight: bool) -> float:
    """Return the largest gain among the best `count` points of a signal."""
    path = number_path(Y, count, least=2 + straight, straight=straight)
    points = path.points[-1]
    return float(_gains(Y, points, straight).sum(axis=1).max()) if len(points) else 0.0


class _Noise:
    """AR(1) noise per column, whose innovations are drawn from those of a signal."""

    def __init__(self, Y: np.ndarray, points: np.ndarray, straight: bool) -> None:
        rest = _beside(Y, points, straight)
        n, count = len(rest), len(points) + 1
        product = (rest[1:] * rest[:-1]).sum(axis=0)
        before = np.square(rest[:-1]).sum(axis=0)
        rho = product / np.where(before > 0, before, 1.0)
        # Fitted segments take a part of the correlation off (Kendall 1954).
        lost = (1 + 3 * np.maximum(rho, 0)) * count * (1 + straight) / n
        self.rho = np.clip(rho + lost, 0.0, 0.98)
        self.inner = rest[1:] - self.rho * rest[:-1]
        self.inner = self.inner - self.inner.mean(axis=0)
        self.n = n

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        """Return a signal without a change."""
        rows = rng.randint(len(self.inner), size=self.n + WARM_UP)
        drawn = self.inner[rows]
        columns = [
            lfilter([1.0], [1.0, -rho], drawn[:, j]) for j, rho in enumerate(self.rho)
        ]
        return np.stack(columns, axis=1)[WARM_UP:]
