"""A test for signals of few rows, whose noise cannot be estimated.

The points with the least sum of squares compete with models without a change: a
constant, a slope, a random walk and AR(1) noise. The statistic is the logarithm of the
least sum of squares of these over that of the steps. Its critical value is the largest
over kinds of noise, each simulated with the same number of rows and columns.
"""

import functools

import numpy as np
from scipy.signal import lfilter

from wolfpack.change_points.exact import Rows, best_splits

LIMIT = 24  # rows from which the noise is estimated instead
FEWEST = 4
MOST = 2  # change points
DRAWS, SEED = 1000, 27
LEVEL = 0.04  # less than 0.05, because the quantiles are simulated


def few_points(Y: np.ndarray, noise: str = "auto") -> tuple[np.ndarray, np.ndarray]:
    """Return the significant points of a short signal, and what each number exceeds.

    The second has the statistic minus its critical value for 1, ..., MOST points.
    """
    n, d = Y.shape
    if n < FEWEST:
        return np.zeros(0, np.intp), np.zeros(0)
    scale = Y.std(axis=0)
    Y = (Y - Y.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    if not Y.any():
        return np.zeros(0, np.intp), np.zeros(0)
    found = statistics(Y[np.newaxis], noise)[0]
    critical, more = critical_values(n, d, noise)
    passed = np.flatnonzero(found > critical)
    if not passed.size:
        return np.zeros(0, np.intp), found - critical
    count = int(passed[0]) + 1
    while count < len(found) and found[count] - found[count - 1] > more[count - 1]:
        count += 1
    return Rows(Y).numbers(count, 2)[1][count], found - critical


def statistics(many: np.ndarray, noise: str) -> np.ndarray:
    """Return the statistic of each signal for 1, ..., MOST points."""
    steps = best_splits(many, min(MOST, many.shape[1] // 2 - 1))
    with np.errstate(divide="ignore"):
        smooth = np.log(_smooth_squares(many, noise))[:, np.newaxis]
        return smooth - np.log(np.maximum(steps, 1e-14 * many.shape[1]))


def _smooth_squares(many: np.ndarray, noise: str) -> np.ndarray:
    """Return the least sum of squares of the models without a change."""
    n = many.shape[1]
    rest = many - many.mean(axis=1, keepdims=True)
    found = [np.square(rest).sum(axis=(1, 2))]
    if noise != "iid":
        product = (rest[:, 1:] * rest[:, :-1]).sum(axis=(1, 2))
        before = np.square(rest[:, :-1]).sum(axis=(1, 2))
        rho = product / np.where(before > 0, before, 1.0)
        inner = rest[:, 1:] - rho[:, np.newaxis, np.newaxis] * rest[:, :-1]
        found.append(np.square(inner).sum(axis=(1, 2)) * n / (n - 1))
    if noise == "auto":
        t = np.linspace(-1, 1, n)
        tilt = np.einsum("t,std->sd", t, rest) ** 2 / (t @ t)
        found.append(found[0] - tilt.sum(axis=1))
        jumps = np.diff(many, axis=1)
        found.append(np.square(jumps).sum(axis=(1, 2)) * n / (n - 1))
    return np.maximum(np.min(found, axis=0), 1e-14 * n)


@functools.lru_cache(maxsize=256)
def critical_values(n: int, d: int, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest quantiles over kinds of noise, for 1, ..., MOST points.

    The second is of what a further point adds to the statistic.
    """
    rng = np.random.default_rng([SEED, n, d])
    draws = max(DRAWS // max(d // 10, 1), 400)
    values, more = [], []
    for many in _noises(rng, (draws, n, d), noise):
        scale = many.std(axis=1, keepdims=True)
        many = (many - many.mean(axis=1, keepdims=True)) / scale
        found = statistics(many, noise)
        values.append(np.quantile(found, 1 - LEVEL / MOST, axis=0))
        more.append(np.quantile(np.diff(found, axis=1), 1 - LEVEL, axis=0))
    return np.max(values, axis=0), np.max(more, axis=0)


def _noises(rng: np.random.Generator, shape: tuple[int, int, int], noise: str):
    """Yield signals without a change, of the kinds that `noise` allows."""
    draws, n, d = shape
    yield rng.standard_normal(shape)
    yield rng.standard_t(3, shape)
    yield rng.laplace(size=shape)
    if noise == "iid":
        return
    for rho in (0.5, 0.8):
        drawn = rng.standard_normal((draws, n + 50, d))
        yield np.asarray(lfilter([1], [1, -rho], drawn, axis=1))[:, 50:]
    if noise == "ar":
        return
    yield rng.standard_normal(shape).cumsum(axis=1)
    t = np.linspace(0, 1, n)[np.newaxis, :, np.newaxis]
    size = rng.standard_normal((draws, 1, d))
    yield rng.standard_normal(shape) + 10 * t * size
    bend = np.sin(np.pi * t * rng.uniform(0.5, 1.5, (draws, 1, 1)))
    yield rng.standard_normal(shape) + 8 * bend * size
    period, phase = rng.integers(4, 25, (draws, 1, 1)), rng.uniform(0, 6, (draws, 1, 1))
    wave = np.sin(2 * np.pi * np.arange(n)[np.newaxis, :, np.newaxis] / period + phase)
    yield rng.standard_normal(shape) + 3 * wave
