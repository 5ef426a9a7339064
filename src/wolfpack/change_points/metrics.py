"""How well change points agree with those that people marked.

Both measures follow van den Burg and Williams, "An evaluation of change point
detection algorithms" (2020), the Turing Change Point Dataset: several people annotate
a series, and none of them is right alone. Row t is a change point where a new segment
begins at t. The end of a signal is no change point: where n is known, the last index
of ruptures' answers, which is n, is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

Points = Iterable[int]
Annotations = Points | Sequence[Points] | Mapping[Any, Points]


def covering(true: Annotations, predicted: Points, n: int) -> float:
    """Return how well the predicted segments cover the true ones, from 0 to 1.

    Each true segment counts with its length, and with its overlap (intersection over
    union) with the predicted segment that fits it best. Against several annotators it
    is the mean over them.

    Parameters
    ----------
    true : sequence of int, sequence of such, or dict of such
        The change points of one annotator, or of each.
    predicted : sequence of int
        The predicted change points. The end of the signal, n, is none, here and above.
    n : int
        The number of rows of the signal.

    Returns
    -------
    float

    Examples
    --------
    >>> from wolfpack.change_points import covering
    >>> covering([50], [50], n=100), covering([50], [], n=100)
    (1.0, 0.5)
    >>> covering([[50], []], [50], n=100)
    0.75
    """
    guess = _bounds(predicted, n)
    scores = [_cover(_bounds(points, n), guess) for points in annotators(true)]
    return float(np.mean(scores))


def change_point_f1(
    true: Annotations, predicted: Points, margin: int = 5, n: int | None = None
) -> float:
    """Return the F1 score of change points, each right within a margin.

    Precision is taken against the points of all annotators together, recall is the mean
    over the annotators. A predicted point answers for one true point at most. As in the
    Turing Change Point Dataset row 0 counts as a change point of everyone, so that an
    annotator who marked none has a recall. ruptures' `precision_recall` does not count
    it, and wants distances below the margin.

    Where true points are so near to each other that they compete for a prediction, the
    order in which they choose matters. Each takes the nearest prediction that is left,
    the earlier of two, and they choose in the order in which Python iterates over the
    set of them: that is what the published scores of the data set do.

    Parameters
    ----------
    true, predicted
        As in `covering`.
    margin : int
        The largest distance of a predicted point from the true one.
    n : int, optional
        The number of rows of the signal. Give it where points may end with n, as those
        of ruptures do: it is left out. Without `n` it would count as a point.

    Returns
    -------
    float

    Examples
    --------
    >>> from wolfpack.change_points import change_point_f1
    >>> change_point_f1([50, 80], [52, 80])
    1.0
    >>> change_point_f1([50], [60])  # row 0 is right, 60 is not
    0.5
    >>> change_point_f1([50], [50, 100], n=100)  # 100 is the end of the signal
    1.0
    """
    if margin < 0:
        raise ValueError(f"margin must be 0 or more rows; got {margin}.")
    guess = _with_row_0(_inside(predicted, n))
    marked = [_with_row_0(_inside(points, n)) for points in annotators(true)]
    everyone: set[int] = set()
    for points in marked:
        for point in points:  # one at a time: the order of a set depends on it
            everyone.add(point)
    precision = _n_found(everyone, guess, margin) / len(guess)
    found = [_n_found(points, guess, margin) / len(points) for points in marked]
    recall = sum(found) / len(found)
    return 2 * precision * recall / (precision + recall)


def _n_found(true: set[int], guess: set[int], margin: int) -> int:
    """Count the true points that have a predicted one of their own nearby."""
    left, count = set(guess), 0
    for point in true:  # in the order of the set, as the published scores do
        nearest = min(left, key=lambda row: (abs(row - point), row), default=None)
        if nearest is not None and abs(nearest - point) <= margin:
            left.remove(nearest)
            count += 1
    return count


def _with_row_0(rows: list[int]) -> set[int]:
    points = set(rows)
    points.add(0)  # last: the order of a set depends on it
    return points


def _cover(true: np.ndarray, guess: np.ndarray) -> float:
    first, last = true[:-1, np.newaxis], true[1:, np.newaxis]
    shared = np.minimum(last, guess[1:]) - np.maximum(first, guess[:-1])
    union = np.maximum(last, guess[1:]) - np.minimum(first, guess[:-1])
    overlap = np.maximum(shared, 0) / union  # segments that do not overlap count 0
    return float(np.diff(true) @ overlap.max(axis=1) / true[-1])


def _bounds(points: Points, n: int) -> np.ndarray:
    return np.unique([0, *_inside(points, n), n])


def _inside(points: Points, n: int | None) -> list[int]:
    """Return the points without the end of the signal, which is none of them."""
    rows = _rows(points)
    if rows and not 0 <= min(rows) <= max(rows) <= (max(rows) if n is None else n):
        last = "..." if n is None else f"..., {n - 1}"
        raise ValueError(
            f"change points must be rows out of 0, {last}; got {min(rows)} to "
            f"{max(rows)}."
        )
    return [row for row in rows if row != n]


def annotators(true: Annotations) -> list[list[int]]:
    """Return a list of points for each annotator; a flat list is one annotator."""
    if isinstance(true, Mapping):
        return [_rows(points) for points in true.values()]
    many: list[Any] = [*true]
    if all(isinstance(point, Number) for point in many):
        return [_rows(many)]
    return [_rows(points) for points in many]


def _rows(points: Points) -> list[int]:
    rows = np.asarray([*points])
    if rows.size and (rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer)):
        raise ValueError(f"change points must be whole numbers; got {rows.tolist()!r}.")
    return rows.astype(int).tolist()
