"""Signals and their segments: what an estimator needs to describe them."""

from typing import Any

import numpy as np

NEAR = 2  # rows at most between two steps of a staircase


def as_columns(X: Any) -> Any:
    """Return a signal of one dimension as one column; others as they are."""
    if hasattr(X, "to_frame") and getattr(X, "ndim", 2) == 1:  # a pandas Series
        return X.to_frame(name=X.name if isinstance(X.name, str) else "signal")
    if isinstance(X, np.ndarray | list | tuple) and np.ndim(X) == 1:
        return np.reshape(X, (-1, 1))
    return X


def segment_means(
    X: np.ndarray, points: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the signal whose segments, which begin at `points`, have their means."""
    starts = np.append(0, points).astype(np.intp)
    w = np.ones(len(X)) if weights is None else weights
    centre = np.average(X, axis=0, weights=w)  # so that an offset costs no digits
    sums = np.add.reduceat((X - centre) * w[:, np.newaxis], starts)
    means = centre + sums / np.add.reduceat(w, starts)[:, np.newaxis]
    return np.repeat(means, np.diff(starts, append=len(X)), axis=0)


def fill_rows(signal: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    """Return a signal of n rows, known at `rows`; others repeat the one before."""
    if len(rows) == n:
        return signal
    return signal[np.maximum(np.searchsorted(rows, np.arange(n), side="right") - 1, 0)]


def count_stairs(signal: np.ndarray, points: np.ndarray) -> int:
    """Return how many points are near another that jumps in the same direction."""
    jumps = signal[points] - signal[points - 1]
    same = (jumps[1:] * jumps[:-1]).sum(axis=1) > 0
    steps = same & (np.diff(points) <= NEAR)
    return int((np.append(steps, False) | np.append(False, steps)).sum())
