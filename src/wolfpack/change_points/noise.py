"""What a signal has besides change points: a season, outliers, dependent noise.

All estimates are blind to a few jumps. The season is the median over periods of what is
left beside a moving mean; an outlier is a row far from a running median of 7, and is
drawn to 2.5 deviations; the correlation rho of a row with the next follows from first
and second differences, because in AR(1) noise

    var(y_t - y_(t-2)) / var(y_t - y_(t-1)) = 1 + rho
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import uniform_filter1d

from wolfpack.change_points import _noise
from wolfpack.change_points.evidence import beside_steps
from wolfpack.kernels.specialise import library

LONGEST = 400  # rows of a period
SEEN = 20_000  # rows in which a period is sought
CLIP = 2.5  # deviations from the running median that a row keeps
WINDOW = 7  # rows of the running median: more than half must be outliers to move it


def _loops() -> Any:
    module: Any = _noise
    return library(module)


class Noise(NamedTuple):
    """A signal without season and outliers, and what its noise is like.

    Attributes
    ----------
    signal : ndarray (n, d)
        The rest, in units of the deviation of its innovations.
    rho : ndarray (d,)
        The correlation of a row with the next; 0 where noise is taken as independent.
    period : int
        Rows of a season; 0 where there is none.
    """

    signal: np.ndarray
    rho: np.ndarray
    period: int

    @property
    def whitened(self) -> np.ndarray:
        """y_t - rho y_(t-1) for t = 1, ..., n - 1, whose noise is independent."""
        return self.signal[1:] - self.rho * self.signal[:-1]

    def beside(self, points: np.ndarray) -> "Noise":
        """Estimate the noise anew, from what is left beside segment means."""
        rest = beside_steps(self.signal, points)
        product = (rest[1:] * rest[:-1]).sum(axis=0)
        before = np.square(rest[:-1]).sum(axis=0)
        rho = np.clip(product / np.where(before > 0, before, 1.0), 0.0, 0.98)
        rho = np.where(self.rho.any(), rho, 0.0)
        scale = (rest[1:] - rho * rest[:-1]).std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        return Noise(self.signal / scale, rho, self.period)


def estimate_noise(Y: np.ndarray, dependent: bool = True) -> Noise:
    """Take season and outliers off, and estimate the noise of each column."""
    period = find_period(Y)
    if period:
        Y = Y - seasonal_means(Y, period)
    Y = clip_outliers(Y)
    rho = correlation(Y) if dependent else np.zeros(Y.shape[1])
    z = Y[1:] - rho * Y[:-1]
    scale = spread(np.diff(z, axis=0)) / np.sqrt(2.0)
    return Noise(Y / np.where(scale > 0, scale, 1.0), rho, period)


def median(x: np.ndarray) -> np.ndarray:
    """Return the median of each column; NumPy's own takes five times as long."""
    half, odd = divmod(len(x), 2)
    places = [half] if odd else [half - 1, half]
    parted = np.partition(x, places, axis=0)
    return parted[half] if odd else (parted[half - 1] + parted[half]) / 2


def spread(x: np.ndarray) -> np.ndarray:
    """Return a deviation per column: of the median, or the usual where that is 0."""
    robust = median(np.abs(x - median(x))) / 0.6745
    return robust if robust.all() else np.where(robust > 0, robust, x.std(axis=0))


def clip_outliers(Y: np.ndarray) -> np.ndarray:
    """Draw rows to CLIP deviations from the running median; a jump stays."""
    if len(Y) < 12:
        return Y
    Y, middle = np.ascontiguousarray(Y), np.empty(Y.shape)
    _loops().running_median(Y, WINDOW, middle)
    rest = Y - middle
    limit = CLIP * spread(rest)
    return middle + np.clip(rest, -limit, limit)


def correlation(Y: np.ndarray) -> np.ndarray:
    """Return rho per column, drawn to the mean of the columns where they agree."""
    n, d = Y.shape
    if n < 6:
        return np.zeros(d)
    first, second = spread(Y[1:] - Y[:-1]), spread(Y[2:] - Y[:-2])
    usable = first > 0
    rho = np.where(usable, (second / np.where(usable, first, 1.0)) ** 2 - 1.0, 0.0)
    rho = np.clip(rho, 0.0, 0.98)
    if d > 1:
        error = 4.0 / n  # the variance of one estimate
        share = max(0.0, 1.0 - error / max(float(rho.var()), 1e-12))
        rho = rho.mean() + share * (rho - rho.mean())
    return rho


def find_period(Y: np.ndarray) -> int:
    """Return the period whose means explain much of the differences, or 0."""
    n = len(Y)
    if n < 24:
        return 0
    begin = max((n - SEEN) // 2, 0)
    step = np.diff(Y[begin : begin + SEEN], axis=0)
    middle, limit = median(step), 4 * spread(step)
    step = np.clip(step, middle - limit, middle + limit)
    step -= step.mean(axis=0)
    total = np.square(step).sum(axis=0)
    step /= np.sqrt(np.where(total > 0, total, 1.0))
    return _loops().best_period(step, min(LONGEST, n // 4))


def seasonal_means(Y: np.ndarray, period: int) -> np.ndarray:
    """Return the season of each row: medians over periods, beside a moving mean."""
    n = len(Y)
    middle = uniform_filter1d(Y, period, axis=0)
    if period % 2 == 0:  # centred: two windows, half a row to either side
        middle = (middle + uniform_filter1d(Y, period, axis=0, origin=-1)) / 2
    inside = np.arange(period // 2 + 1, n - period // 2 - 1)
    rest = Y - middle
    phases = inside % period
    season = np.array(
        [np.median(rest[inside[phases == k]], axis=0) for k in range(period)]
    )
    season -= season.mean(axis=0)
    return season[np.arange(n) % period]
