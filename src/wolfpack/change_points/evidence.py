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
from typing import Any

import numpy as np

from wolfpack.change_points import _evidence
from wolfpack.kernels.specialise import library

ORDER = 3  # of autoregressive noise, at most
DEGREES = np.array([0, 1, 2, 3, 4, 6])  # of polynomials
CYCLES = np.arange(1, 6.5, 0.5)  # of a wave: more of them are a season
SMOOTHERS = 0.5 / 1.5 ** np.arange(9)  # the share of the newest row in the level
NAMES = ["constant", "slope", *["curve"] * 4, "wave", *["wandering level"] * 9]
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
    return _losses(rest, n_fitted, order, 1)[0]


def _losses(Y: np.ndarray, n_fitted: int, order: int, count: int) -> np.ndarray:
    module: Any = _evidence
    found, Y = np.full((count, Y.shape[1]), np.inf), np.ascontiguousarray(Y)
    models, work = (DEGREES, CYCLES, SMOOTHERS), tuple(np.empty((6, len(Y))))
    products = np.empty((order + 1, order + 1))
    library(module).losses(Y, n_fitted, order, *models, products, work, found)
    return found


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
        if self.noise != "auto":
            rest = self.Y - self.Y.mean(axis=0)
            return innovation_loss(rest, 1, self.order), NAMES[0], 0
        found = _losses(self.Y, 1, self.order, len(NAMES))
        best = found.argmin(axis=0)  # every column has a drift of its own
        usual = int(np.bincount(best).argmax())
        return found.min(axis=0), NAMES[usual], int(np.count_nonzero(best))

    def gain(self, rest: np.ndarray, n_fitted: int) -> float:
        """Return how much less the loss is with these residuals."""
        free = max(self.n - self.order - n_fitted, 1)
        return free * float(
            (self.smooth - innovation_loss(rest, n_fitted, self.order)).sum()
        )


def beside_steps(Y: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return what is left beside the means of segments."""
    return Y - fit_pieces(Y, points, None, False)


def straight_fit(
    Y: np.ndarray, points: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the signal that is a straight line in every segment."""
    return fit_pieces(Y, points, weights, True)


def fit_pieces(Y, points, weights, straight: bool) -> np.ndarray:
    """Return the mean, or the straight line, of each segment."""
    Y = np.ascontiguousarray(Y, dtype=np.float64)
    starts = np.append(0, points).astype(np.intp)
    w, fit = np.ones(len(Y)) if weights is None else weights, np.empty_like(Y)
    module: Any = _evidence
    library(module).fit_pieces(Y, w, starts, straight, fit)
    return fit


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
