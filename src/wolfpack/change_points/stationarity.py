"""Whether a signal drifts: running sums beside the long-run variance of its noise."""

import numpy as np


def instability(Y: np.ndarray) -> float:
    """Return the mean over columns of the statistic of Kwiatkowski et al. (1992).

    It compares running sums with the long-run variance; 0.35 is exceeded by one in ten
    stationary signals.
    """
    n = len(Y)
    rest = Y - Y.mean(axis=0)
    sums = np.square(rest.cumsum(axis=0)).sum(axis=0) / n**2
    variance = long_variance(rest)
    return float((sums / np.where(variance > 0, variance, np.inf)).mean())


def long_variance(rest: np.ndarray) -> np.ndarray:
    """Return the long-run variance of each column, by Bartlett's weights."""
    n = len(rest)
    lags = int(4 * (n / 100) ** 0.25)
    total = np.einsum("td,td->d", rest, rest)
    floor = total.copy()
    for lag in range(1, min(lags, n - 1) + 1):
        both = np.einsum("td,td->d", rest[lag:], rest[:-lag])
        total += 2 * (1 - lag / (lags + 1)) * both
    return np.maximum(total, 0.1 * floor) / n
