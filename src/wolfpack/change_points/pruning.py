"""Keep the best of the candidate change points, by a dynamic program.

The group fused lasso finds too many points around each change, but it seldom misses
one. So its points are candidates, and among them are chosen, after Bleakley and Vert
(2011), the k that leave the least sum of squares around the segment means:

    C_0(j) = c(0, j),     C_k(j) = min over i < j of  C_(k-1)(i) + c(i, j)

with c(i, j) the sum of squares between the candidates i and j. One run gives the answer
for every number of points up to k, in O(k m^2) time for m candidates.
"""

from typing import NamedTuple

import numpy as np

MAX_CANDIDATES = 1000  # c has 8 m^2 bytes; each number of points takes a millisecond


class Pruned(NamedTuple):
    """The best segmentations with 0, 1, ..., k change points.

    Attributes
    ----------
    costs : ndarray (k + 1,)
        The least weighted sum of squares around the segment means.
    points : list of int arrays
        The rows where new segments begin, ascending; `points[k]` has k of them.
    """

    costs: np.ndarray
    points: list[np.ndarray]


def best_segments(
    Y: np.ndarray,
    candidates: np.ndarray,
    k_max: int,
    *,
    weights: np.ndarray | None = None,
) -> Pruned:
    """Find the best 0, 1, ..., k_max change points among the candidates.

    Parameters
    ----------
    Y : array (n, d)
        The signal.
    candidates : array of int
        Rows out of 1, ..., n - 1 where a new segment may begin. The time is quadratic
        in their number: `thin` them to `MAX_CANDIDATES` first.
    k_max : int
        The most points; where there are fewer candidates, all of them is the most.
    weights : array (n,) or (n, d), optional
        Weights of the rows: a row of weight 2 counts as two rows. Or of all entries: 0
        where one is missing.

    Returns
    -------
    Pruned
        `costs` and `points` for every number from 0 to the smaller of `k_max` and the
        number of candidates.

    References
    ----------
    K. Bleakley and J.-P. Vert, "The group fused Lasso for multiple change-point
    detection", 2011, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfpack.change_points import best_segments
    >>> Y = np.array([[0.0], [0.0], [5.0], [5.0], [5.0], [9.0]])
    >>> costs, points = best_segments(Y, [1, 2, 4, 5], 2)
    >>> points[1], points[2], float(costs[2])
    (array([2]), array([2, 5]), 0.0)
    """
    parts = _Parts.cut(Y, candidates, weights)
    cost = parts.costs()
    m = len(parts.starts)
    best, total = cost[:, 0].copy(), np.empty_like(cost)
    costs, back = [best[m]], []
    for _ in range(min(k_max, m - 1)):
        np.add(cost, best, out=total)
        chosen = total.argmin(axis=1)
        best = total[np.arange(m + 1), chosen]
        costs.append(best[m])
        back.append(chosen)
    points = [parts.starts[_trace(back[:k], m)] for k in range(len(costs))]
    least = np.maximum(np.minimum.accumulate(costs), 0.0)
    return Pruned(least + parts.within, points)


def thin(
    Y: np.ndarray,
    candidates: np.ndarray,
    limit: int = MAX_CANDIDATES,
    *,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    """Drop the candidates whose removal costs least, until `limit` are left.

    Neighbouring segments are merged, the cheapest pairs first, in passes. A pass drops
    an eighth to a quarter of the excess, and never both ends of a segment.

    Parameters
    ----------
    Y, candidates, weights
        As in `best_segments`.
    limit : int
        The most candidates to keep.

    Returns
    -------
    kept : ndarray of int
        The candidates that are left, ascending.
    n_dropped : int
        How many were dropped: tell the user when it is not 0.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfpack.change_points import thin
    >>> thin(np.array([[0.0], [0.1], [5.0], [5.1]]), [1, 2, 3], 1)
    (array([2]), 2)
    """
    parts = _Parts.cut(Y, candidates, weights)
    n_given = len(parts.starts) - 1
    while (excess := len(parts.starts) - 1 - limit) > 0:
        n = max(excess // 4, 1)
        low = np.sort(np.argpartition(parts.merging_costs(), n - 1)[:n])
        parts = parts.merged(_alternate(low))
    kept = parts.starts[1:]
    return kept, n_given - len(kept)


class _Parts(NamedTuple):
    """The signal between neighbouring candidates: first rows, weights and means."""

    starts: np.ndarray  # the first is 0
    weights: np.ndarray
    means: np.ndarray
    within: float  # the sum of squares around these means

    @classmethod
    def cut(cls, Y, candidates, weights) -> "_Parts":
        Y = np.asarray(Y, dtype=np.float64)
        Y = Y[:, np.newaxis] if Y.ndim == 1 else Y
        if np.ndim(weights) == 2:
            return _EntryParts.cut(Y, candidates, weights)
        Y = Y - Y.mean(axis=0)  # sums of squares do not lose digits to an offset
        w = np.ones(len(Y)) if weights is None else np.asarray(weights, np.float64)
        starts = _starts(candidates, len(Y))
        size = np.add.reduceat(w, starts)
        sums = np.add.reduceat(w[:, np.newaxis] * Y, starts)
        means = sums / np.where(size > 0, size, 1.0)[:, np.newaxis]
        lengths = np.diff(starts, append=len(Y))
        rest = Y - np.repeat(means, lengths, axis=0)
        return cls(starts, size, means, float(w @ np.square(rest).sum(axis=1)))

    def costs(self) -> np.ndarray:
        """Return c(i, j), the sum of squares of parts i, ..., j - 1 around their mean.

        It leaves out what is within the parts, which every segmentation has. Row j has
        all i, one beside the other in memory, because the minimum is over them.
        """
        from scipy.spatial.distance import cdist

        zero = np.zeros((1, self.means.shape[1]))
        sums = self.weights[:, np.newaxis] * self.means
        sums = np.concatenate([zero, sums.cumsum(axis=0)])
        size = np.append(0.0, self.weights.cumsum())
        squares = self.weights * np.square(self.means).sum(axis=1)
        squares = np.append(0.0, squares.cumsum())
        total = size[:, np.newaxis] - size
        cost = cdist(sums, sums, "sqeuclidean")
        np.divide(cost, total, out=cost, where=total > 0)
        np.subtract(squares[:, np.newaxis] - squares, cost, out=cost)
        np.maximum(cost, 0.0, out=cost)
        cost[np.triu_indices_from(cost)] = np.inf
        return cost

    def merging_costs(self) -> np.ndarray:
        """Return what the sum of squares grows by when two neighbours are merged."""
        left, right = self.weights[:-1], self.weights[1:]
        sums = left + right
        harmonic = left * right / np.where(sums > 0, sums, 1.0)
        return harmonic * np.square(np.diff(self.means, axis=0)).sum(axis=1)

    def merged(self, dropped: np.ndarray) -> "_Parts":
        """Merge part t with part t + 1, for each t of `dropped`."""
        first = np.delete(np.arange(len(self.starts)), dropped + 1)
        weights = np.add.reduceat(self.weights, first)
        sums = np.add.reduceat(self.weights[:, np.newaxis] * self.means, first)
        means = sums / np.where(weights > 0, weights, 1.0)[:, np.newaxis]
        return _Parts(self.starts[first], weights, means, self.within)


class _EntryParts(_Parts):
    """The same, where each entry has a weight: `weights` has one column for each."""

    @classmethod
    def cut(cls, Y, candidates, weights) -> "_EntryParts":
        known, starts = weights > 0, _starts(candidates, len(Y))
        Y = np.where(known, Y, 0.0)
        Y = np.where(known, Y - np.average(Y, axis=0, weights=weights), 0.0)
        size = np.add.reduceat(weights, starts)
        means = np.add.reduceat(weights * Y, starts) / np.where(size > 0, size, 1.0)
        rest = Y - np.repeat(means, np.diff(starts, append=len(Y)), axis=0)
        return cls(starts, size, means, float((weights * np.square(rest)).sum()))

    def costs(self) -> np.ndarray:
        """Return the sum of the costs of all columns."""
        total = np.zeros(())
        for weights, means in zip(self.weights.T, self.means.T, strict=True):
            own = _Parts(self.starts, weights, means[:, np.newaxis], 0.0)
            total = total + own.costs()
        return total

    def merging_costs(self) -> np.ndarray:
        """Return what the sum of squares grows by when two neighbours are merged."""
        left, right = self.weights[:-1], self.weights[1:]
        sums = left + right
        harmonic = left * right / np.where(sums > 0, sums, 1.0)
        return (harmonic * np.square(np.diff(self.means, axis=0))).sum(axis=1)

    def merged(self, dropped: np.ndarray) -> "_EntryParts":
        """Merge part t with part t + 1, for each t of `dropped`."""
        first = np.delete(np.arange(len(self.starts)), dropped + 1)
        weights = np.add.reduceat(self.weights, first)
        sums = np.add.reduceat(self.weights * self.means, first)
        means = sums / np.where(weights > 0, weights, 1.0)
        return _EntryParts(self.starts[first], weights, means, self.within)


def _starts(candidates: np.ndarray, n: int) -> np.ndarray:
    rows = np.asarray(candidates, dtype=np.intp)
    if (np.diff(rows) <= 0).any():
        rows = np.unique(rows)
    if rows.size and not 0 < rows[0] <= rows[-1] < n:
        wrong = rows[0] if rows[0] < 1 else rows[-1]
        raise ValueError(
            f"candidates must be rows out of 1, ..., {n - 1}, where a second segment "
            f"can begin; got {wrong}."
        )
    return np.append(0, rows)


def _alternate(rows: np.ndarray) -> np.ndarray:
    """Leave out every second one of consecutive numbers."""
    begins = np.flatnonzero(np.diff(rows, prepend=-2) > 1)
    lengths = np.diff(begins, append=len(rows))
    place = np.arange(len(rows)) - np.repeat(begins, lengths)
    return rows[place % 2 == 0]


def _trace(back: list[np.ndarray], end: int) -> list[int]:
    """Follow the choices back from the end of the signal."""
    found = []
    for chosen in reversed(back):
        end = chosen[end]
        found.append(end)
    return found[::-1]
