"""Signals in pieces: constant ones, or straight ones that are joined at kinks.

A signal with given change points has a value per segment; one with given kinks has a
value per knot, which is an end of it or a kink, and is straight between knots.
"""

import numpy as np
from scipy.linalg import solveh_banded


def fit_segments(Y: np.ndarray, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the signal of the means of segments, which begin at `points`."""
    starts = np.append(0, points).astype(np.intp)
    sums = np.add.reduceat(Y * weights[:, np.newaxis], starts)
    values = sums / np.add.reduceat(weights, starts)[:, np.newaxis]
    return np.repeat(values, np.diff(starts, append=len(Y)), axis=0)


def draw_lines(Y: np.ndarray, kinks: np.ndarray) -> np.ndarray:
    """Return the signal that goes straight from knot to knot of Y, all rows of it."""
    knots, piece, share = _cut(len(Y), kinks)
    values = Y[knots]
    return values[piece] + share[:, np.newaxis] * (values[piece + 1] - values[piece])


def fit_lines(Y: np.ndarray, kinks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the nearest signal that is straight but at `kinks`, all rows of it."""
    knots, piece, share = _cut(len(Y), kinks)
    high, low = weights * share, weights * (1.0 - share)
    right = np.zeros((len(knots), Y.shape[1]))
    right[:-1] += np.add.reduceat(low[:, np.newaxis] * Y, knots[:-1])
    right[1:] += np.add.reduceat(high[:, np.newaxis] * Y, knots[:-1])
    gram = gram_of_knots(len(Y), kinks, weights)
    values = solveh_banded(gram, right, check_finite=False)
    return values[piece] + share[:, np.newaxis] * (values[piece + 1] - values[piece])


def gram_of_knots(n: int, kinks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the matrix of least squares of the values at knots, as two bands."""
    knots, piece, share = _cut(n, kinks)
    high, low, count = weights * share, weights * (1.0 - share), len(knots)
    bands = np.zeros((2, count))
    bands[1] = np.bincount(piece, low * (1.0 - share), count)
    bands[1] += np.bincount(piece + 1, high * share, count)
    bands[0, 1:] = np.bincount(piece, low * share, count - 1)
    return bands


def _cut(n: int, kinks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the knots, and for each row its piece and how far into it the row is."""
    knots = np.concatenate([[0], kinks, [n - 1]]).astype(np.intp)
    lengths = np.diff(knots)
    piece = np.append(np.repeat(np.arange(len(lengths)), lengths), len(lengths) - 1)
    return knots, piece, (np.arange(n) - knots[piece]) / lengths[piece]
