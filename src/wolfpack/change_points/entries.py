"""A signal with a weight for each entry, 0 where it is missing."""

from typing import Any, NamedTuple

import numpy as np

from wolfpack.checks.inputs import at_least_one
from wolfpack.problems.fused_lasso import dual_norm


class Entries(NamedTuple):
    """A signal with a weight for each entry.

    Attributes
    ----------
    values : ndarray (n, d)
        Finite numbers; those of weight 0 are estimates.
    weights : ndarray (n, d)
        In each row and each column one is above 0.
    """

    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def read(cls, X: np.ndarray, weights: np.ndarray) -> "Entries":
        """Fill what is missing with the nearest value of its column."""
        known = weights > 0
        if not known.any(axis=0).all():
            column = int(np.argmin(known.any(axis=0)))
            raise ValueError(
                f"column {column} of the signal has no value of weight above 0; leave "
                "the column out."
            )
        return cls(np.take_along_axis(X, _nearest(known), axis=0), weights)

    @property
    def known(self) -> np.ndarray:
        """Which entries are not missing."""
        return self.weights > 0

    @property
    def rows(self) -> np.ndarray:
        """The largest weight of each row."""
        return self.weights.max(axis=1)

    def means(self) -> np.ndarray:
        """Return the mean of each column."""
        return np.average(self.values, axis=0, weights=self.weights)

    def largest_alpha(self, q: float) -> float:
        """Return the smallest alpha for which the best signal is constant."""
        norm = dual_norm(at_least_one("q", q))
        pull = self.weights * (self.values - self.means())
        prices = np.cumsum(pull, axis=0)[:-1]
        return float(np.linalg.norm(prices, ord=norm, axis=1).max())

    def segment_means(self, points: np.ndarray, signal: np.ndarray) -> np.ndarray:
        """Return the signal whose segments have the means of their entries.

        A column without an entry in a segment has the mean of `signal` there.
        """
        starts = np.append(0, points).astype(np.intp)
        lengths = np.diff(starts, append=len(signal))
        centre = self.means()  # so that an offset costs no digits
        apart = self.weights * (self.values - centre)
        mass = np.add.reduceat(self.weights, starts)
        sums = np.add.reduceat(apart, starts)
        other = np.add.reduceat(signal, starts) / lengths[:, np.newaxis]
        means = centre + sums / np.where(mass > 0, mass, 1.0)
        return np.repeat(np.where(mass > 0, means, other), lengths, axis=0)

    def with_noise(self, points: np.ndarray) -> np.ndarray:
        """Return the signal with segment means and noise in place of missing entries.

        The noise of an entry is that of a known one of its column, drawn with a fixed
        seed. Noise from nearby would repeat what happens there, and look like a change.
        """
        level, known = self.segment_means(points, self.values), self.known
        rng, rest = np.random.default_rng(0), self.values - level
        for j, column in enumerate(known.T):
            count = len(column) - int(column.sum())
            rest[~column, j] = rng.choice(rest[column, j], count)
        return level + rest


def entry_weights(X: np.ndarray, sample_weight: Any) -> np.ndarray | None:
    """Return a weight per entry, 0 where X is NaN; None: weights of rows say all.

    `sample_weight` is None, or weights of rows (n,) or of entries (n, d).
    """
    missing = np.isnan(X)
    given = None if sample_weight is None else np.asarray(sample_weight)
    if (given is None or given.ndim != 2) and not missing.any():
        return None
    weights = np.ones(len(X)) if given is None else given.astype(np.float64)
    if weights.shape not in (X.shape, X.shape[:1]):
        raise ValueError(
            f"sample_weight must have shape {X.shape[:1]}, one per row, or {X.shape}, "
            f"one per entry; but has {weights.shape}."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("sample_weight must be finite, and not negative.")
    weights = weights[:, np.newaxis] if weights.ndim == 1 else weights
    return np.where(missing, 0.0, weights)


def _nearest(known: np.ndarray) -> np.ndarray:
    """Return the row of the nearest known entry of the column, for each entry."""
    rows, n = np.arange(len(known))[:, np.newaxis], len(known)
    before = np.maximum.accumulate(np.where(known, rows, -n), axis=0)
    after = np.minimum.accumulate(np.where(known, rows, 2 * n)[::-1], axis=0)[::-1]
    return np.where(rows - before <= after - rows, before, after)
