"""How much better change points explain a signal than noise and drift can.

Every model is a signal plus autoregressive noise of its own: the residuals of its least
squares fit are predicted from up to three rows before, and the loss of a column is the
logarithm of the variance of its innovations. The smooth models, which have no change
points, are polynomials up to degree 6, waves of 1 to 6 cycles, and exponential
smoothing, which follows a level that wanders. The gain of change points is twice the
logarithm of the likelihood ratio: (rows - parameters) times the difference in loss to
the best smooth model. In signals without a change the gain per point, divided by
`price`, has nearly the same upper quantiles for every kind of noise;
`benchmarks/false_alarms.py` shows it.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.signal import lfilter

from wolfpack.change_points import _innovations
from wolfpack.kernels.specialise import library

ORDER = 3  # of autoregressive noise, at most
DEGREES = (1, 2, 3, 4, 6)  # of polynomials
CYCLES = np.arange(1, 6.5, 0.5)  # of a wave: more of them are a season
SMOOTHERS = 0.5 / 1.5 ** np.arange(9)  # the share of the newest row in the level
FEW = 30  # rows, below which noise has one order at most
LEVEL = 0.05  # how often noise may have a change point


def price(n: int, d: int) -> float:
    """Return what the best of n places gains at most in independent noise.

    A quantile of the chi-squared distribution with d degrees of freedom (Laurent and
    Massart 2000), at the level 0.05 / n.
    """
    rare = math.log(n / LEVEL)
    return d + 2 * math.sqrt(d * rare) + 2 * rare


def innovation_loss(rest: np.ndarray, n_fitted: int, order: int = ORDER) -> np.ndarray:
    """Return each column's loss per row, for the best order of noise up to `order`."""
    module: Any = _innovations
    losses = np.empty((order + 1, rest.shape[1]))
    library(module).innovations(np.ascontiguousarray(rest), n_fitted, losses)
    return losses[0]


class Evidence:
    """The loss of models of one signal.

    Parameters
    ----------
    Y : ndarray (n, d)
        A signal without season and outliers.
    noise : "auto", "iid" or "ar"
        What the models without change points are: all, a constant in independent
        noise, or a constant in autoregressive noise.
    """

    def __init__(self, Y: np.ndarray, noise: str = "auto") -> None:
        self.Y, self.noise = Y, noise
        self.n, self.d = Y.shape
        self.order = 0 if noise == "iid" else ORDER if self.n >= FEW else 1
        self.smooth, self.drift, self.n_drifting = self._smooth()

    def _smooth(self) -> tuple[np.ndarray, str, int]:
        """Return the least losses of columns without change points, and by what model.

        That is the model of most columns; the last is how many are not constant.
        """
        rest = self.Y - self.Y.mean(axis=0)
        names, found = ["constant"], [innovation_loss(rest, 1, self.order)]
        for name, rest, n_fitted in self._drifts() if self.noise == "auto" else ():
            order = 1 if name == "wandering level" else self.order
            names.append(name)
            fitted = 2 * (n_fitted - 1) / self.n
            found.append(innovation_loss(rest, n_fitted, order) + fitted)
        best = np.argmin(found, axis=0)  # every column has a drift of its own
        usual = int(np.bincount(best).argmax())
        return np.min(found, axis=0), names[usual], int(np.count_nonzero(best))

    def _drifts(self) -> Iterator[tuple[str, np.ndarray, int]]:
        """Yield a name, residuals and the number of fitted parameters."""
        t = np.linspace(-1, 1, self.n)
        X = np.polynomial.legendre.legvander(t, max(DEGREES))
        for degree in DEGREES:
            if degree < max(self.n // 6, 2):
                rest = _beside(self.Y, X[:, : degree + 1])
                yield "slope" if degree == 1 else "curve", rest, degree + 1
        yield "wave", _beside_wave(self.Y), 4
        for share in SMOOTHERS:
            if share * self.n > 4:
                yield "wandering level", _beside_level(self.Y, share), 2

    def gain(self, rest: np.ndarray, n_fitted: int) -> float:
        """Return how much less the loss is with these residuals."""
        free = max(self.n - self.order - n_fitted, 1)
        return free * float(
            (self.smooth - innovation_loss(rest, n_fitted, self.order)).sum()
        )


def beside_steps(Y: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return what is left beside the means of segments."""
    starts = np.append(0, points).astype(np.intp)
    lengths = np.diff(starts, append=len(Y))
    means = np.add.reduceat(Y, starts, axis=0) / lengths[:, np.newaxis]
    return Y - np.repeat(means, lengths, axis=0)


def straight_fit(
    Y: np.ndarray, points: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the signal that is a straight line in every segment."""
    w = np.ones(len(Y)) if weights is None else weights
    starts = np.append(0, points).astype(np.intp)
    lengths = np.diff(starts, append=len(Y))

    def spread_out(sums: np.ndarray) -> np.ndarray:
        return np.repeat(sums, lengths, axis=0)

    total = np.add.reduceat(w, starts)
    t = np.arange(len(Y), dtype=np.float64)
    t -= spread_out(np.add.reduceat(w * t, starts) / total)
    column = w[:, np.newaxis]
    middle = np.add.reduceat(column * Y, starts) / total[:, np.newaxis]
    squares = np.add.reduceat(w * t * t, starts)
    tilt = np.add.reduceat(column * t[:, np.newaxis] * Y, starts)
    tilt /= np.where(squares > 0, squares, 1.0)[:, np.newaxis]
    return spread_out(middle) + t[:, np.newaxis] * spread_out(tilt)


def joined_fit(
    Y: np.ndarray, points: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the broken line whose bends are at `points`."""
    t = np.arange(len(Y), dtype=np.float64)
    knots = np.maximum(t[:, np.newaxis] - (np.asarray(points) - 0.5), 0.0)
    X = np.column_stack([np.ones(len(Y)), t, knots]) / len(Y)
    root = np.ones(len(Y)) if weights is None else np.sqrt(weights)
    root = root[:, np.newaxis]
    return X @ np.linalg.lstsq(root * X, root * Y, rcond=None)[0]


def _beside(Y: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return what is left beside columns that are nearly orthogonal."""
    return Y - X @ np.linalg.solve(X.T @ X, X.T @ Y)


def _beside_wave(Y: np.ndarray) -> np.ndarray:
    """Return what is left beside the best wave of each column."""
    t = np.linspace(0, 2 * np.pi, len(Y))
    best, least = Y, np.full(Y.shape[1], np.inf)
    for cycles in CYCLES:
        X = np.column_stack([np.ones(len(Y)), np.cos(cycles * t), np.sin(cycles * t)])
        rest = _beside(Y, X)
        squares = np.square(rest).sum(axis=0)
        best = np.where(squares < least, rest, best)
        least = np.minimum(squares, least)
    return best


def _beside_level(Y: np.ndarray, share: float) -> np.ndarray:
    """Return the errors of exponential smoothing, which predicts each row."""
    first = Y[: max(round(1 / share), 1)].mean(axis=0)
    start = ((1 - share) * first)[np.newaxis]
    level = lfilter([share], [1, share - 1], Y, axis=0, zi=start)[0]
    return Y - np.concatenate([first[np.newaxis], level[:-1]])
