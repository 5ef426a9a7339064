"""The best change points for every number of them, and the elbow of their cost.

Lavielle's rule: the costs with 0, ..., K points are brought to the scale of K + 1 down
to 1, and the elbow is the last number at which the fall slows down by more than 0.75.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.change_points.exact import Rows
from wolfpack.change_points.pruning import thin

SLOWER = 0.75  # Lavielle 2005, section 4
SEARCHED = 20  # numbers that are searched first
LARGEST = 640  # the last search; longer ones are doubled up to here
INSIDE = 0.9  # of the numbers searched: an elbow up to here is seen from both sides
EXACT = 4e6  # evaluations up to which all rows are candidates: some 20 ms
COARSE = 400  # candidates of a longer signal


class NumberPath(NamedTuple):
    """The best change points for each number of them.

    Attributes
    ----------
    numbers : ndarray of int
        0, 1, ..., as far as was searched.
    costs : ndarray
        The least sum of squares around the segments with each number.
    points : list of int arrays
        The rows where new segments begin.
    straight : bool
        Whether segments are straight lines; else they are constant.
    exact : bool
        Whether all rows were candidates.
    chosen : int
        The place of the number that was given or chosen.
    """

    numbers: np.ndarray
    costs: np.ndarray
    points: list[np.ndarray]
    straight: bool
    exact: bool
    chosen: int

    def plot(self, ax=None):
        """Draw cost against number, with the choice in it; return the axes."""
        from wolfpack.change_points.number_display import NumberDisplay

        return NumberDisplay.from_path(self, ax=ax).ax_


def number_path(
    Y: np.ndarray,
    most: int,
    *,
    weights: np.ndarray | None = None,
    least: int = 1,
    straight: bool = False,
    candidates: np.ndarray | None = None,
    chosen: int = -1,
    work: float = EXACT,
    rows: Rows | None = None,
) -> NumberPath:
    """Find the best change points with 0, 1, ..., `most` of them.

    All rows are candidates where that is affordable. Else some hundred are, and then
    all rows near the points that these gave. `rows` are those of Y, if they are there.
    """
    n = len(Y)
    rows = Rows(Y, weights) if rows is None else rows
    exact = candidates is None and rows.n_evaluations(most) <= work
    if not exact:
        if candidates is None:
            candidates = _coarse(Y, weights, straight, max(COARSE, 2 * most))
        if len(candidates) > len(Y) - 1:
            candidates = np.arange(1, n)
        rows = Rows(Y, weights, np.unique([0, *candidates, n]))
    costs, points = rows.numbers(most, least, straight)
    chosen = len(costs) - 1 if chosen < 0 else min(chosen, len(costs) - 1)
    numbers = np.array([len(one) for one in points])
    return NumberPath(numbers, costs, points, straight, exact, chosen)


def refined(Y, path: NumberPath, weights, least: int) -> np.ndarray:
    """Return the chosen points, moved to the best rows near them where not exact."""
    points = path.points[path.chosen]
    if path.exact or not len(points):
        return points
    reach = max(len(Y) // COARSE, 1)
    while reach:
        step = max(reach // 8, 1)
        offsets = np.arange(-reach, reach + 1, step)
        near = np.unique(points[:, np.newaxis] + offsets)
        near = near[(near > 0) & (near < len(Y))]
        if len(near) > 3000:  # many points: what merging found has to do
            return points
        bounds = np.unique([0, *near, len(Y)])
        found = Rows(Y, weights, bounds).numbers(len(points), least, path.straight)[1]
        points = found[-1]
        reach = step if step < reach else 0
        if step == 1:
            break
    return points


def find_elbow(costs: np.ndarray) -> int:
    """Return the number of points at the elbow of the costs; 0 where there is none."""
    most = len(costs) - 1
    if most < 3 or not costs[most] < costs[0]:
        return 0
    scaled = (costs[most] - costs) / (costs[most] - costs[0]) * most + 1
    bend = scaled[:-2] - 2 * scaled[1:-1] + scaled[2:]
    seen = np.flatnonzero(bend > SLOWER) + 1
    return int(seen[-1]) if seen.size else 0


def elbow_path(
    Y: np.ndarray,
    weights: np.ndarray | None,
    least: int,
    straight: bool,
    patient: bool = False,
    rows: Rows | None = None,
) -> NumberPath:
    """Return the path up to beyond its elbow: the search doubles until it is inside.

    `chosen` is the last number where the search ended before the elbow was inside. With
    `patient` the search also goes on where no elbow is seen.
    """
    limit, most = len(Y) // 4, SEARCHED
    while True:
        path = number_path(
            Y, min(most, limit), weights=weights, least=least, straight=straight,
            rows=rows,
        )  # fmt: skip
        path = path._replace(chosen=find_elbow(path.costs))
        inside = patient < path.chosen + 1 <= INSIDE * path.numbers[-1] + 1
        if inside or most >= min(limit, LARGEST):
            return path
        most *= 2


def _coarse(Y, weights, straight: bool, limit: int) -> np.ndarray:
    """Return candidates: rows that merging keeps, and rows at equal distances."""
    n = len(Y)
    even = np.unique(np.linspace(0, n, limit + 1).astype(np.intp))[1:-1]
    if straight:
        return even
    return np.union1d(thin(Y, np.arange(1, n), limit, weights=weights)[0], even[::4])
