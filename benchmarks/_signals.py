"""Made signals with known change points: noise of many kinds, steps and kinks."""

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

Maker = Callable[[np.random.Generator, int, int], np.ndarray]


def _dependent(rho: float) -> Maker:
    def make(rng, n, d):
        drawn = rng.standard_normal((n + 200, d))
        return lfilter([1], [1, -rho], drawn, axis=0)[200:] * np.sqrt(1 - rho**2)

    return make


def _slope(rng, n, d):
    rise = 10 * np.linspace(0, 1, n)[:, np.newaxis] * rng.standard_normal(d)
    return rng.standard_normal((n, d)) + rise


def _curve(rng, n, d):
    t = np.linspace(0, 1, n)[:, np.newaxis]
    bend = np.sin(np.pi * t * rng.uniform(0.5, 1.5))
    return rng.standard_normal((n, d)) + 8 * bend * rng.standard_normal(d)


def _season(rng, n, d):
    period, phase = rng.integers(4, 25), rng.uniform(0, 2 * np.pi)
    wave = np.sin(2 * np.pi * np.arange(n) / period + phase)[:, np.newaxis]
    return rng.standard_normal((n, d)) + 3 * wave


def _level(rng, n, d):
    walk = 0.2 * rng.standard_normal((n, d)).cumsum(axis=0)
    return rng.standard_normal((n, d)) + walk


# Noise of deviation 1, with a drift where the name says so; no change in any of them.
NOISES: dict[str, Maker] = {
    "iid": lambda rng, n, d: rng.standard_normal((n, d)),
    "t3": lambda rng, n, d: rng.standard_t(3, (n, d)) / np.sqrt(3),
    "Laplace": lambda rng, n, d: rng.laplace(size=(n, d)) / np.sqrt(2),
    "AR(.5)": _dependent(0.5),
    "AR(.8)": _dependent(0.8),
    "slope": _slope,
    "curve": _curve,
    "walk": lambda rng, n, d: rng.standard_normal((n, d)).cumsum(axis=0),
    "noise + walk": _level,
    "season": _season,
}
STEPPED = [name for name in NOISES if name != "walk"]
KINKED = {"kinks": "iid", "kinks, AR(.5)": "AR(.5)"}


def places(rng: np.random.Generator, n: int, count: int, apart: int) -> np.ndarray:
    """Draw change points that are `apart` rows from each other and from the ends."""
    return np.sort(rng.choice(np.arange(apart, n - apart, apart), count, replace=False))


def stepped(rng, noise: str, n: int, points: np.ndarray, size: float) -> np.ndarray:
    """Return noise with steps of about `size` deviations, up or down."""
    y = NOISES[noise](rng, n, 1)[:, 0]
    for t in points:
        y[t:] += size * rng.choice([-1, 1]) * rng.uniform(0.7, 1.4)
    return y


def kinked(rng, noise: str, n: int, points: np.ndarray, size: float) -> np.ndarray:
    """Return noise beside a broken line that goes up and down by some deviations."""
    y, level, sign = NOISES[noise](rng, n, 1)[:, 0], 0.0, rng.choice([-1, 1])
    for first, last in zip([0, *points], [*points, n], strict=True):
        rise = sign * 2 * size / max(last - first, 15) * rng.uniform(0.5, 1.5)
        y[first:last] += level + rise * np.arange(last - first)
        level, sign = level + rise * (last - first), -sign
    return y


def signal(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
    """Return a signal of a kind and its change points: length and sizes are drawn."""
    n = int(rng.choice([50, 100, 200, 400, 800]))
    points = places(rng, n, int(rng.integers(1, min(8, n // 25) + 1)), 6)
    size = rng.uniform(1, 5)
    if kind in KINKED:
        return kinked(rng, KINKED[kind], n, points, size), points.tolist()
    return stepped(rng, kind, n, points, size), points.tolist()
