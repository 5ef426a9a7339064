"""Change points by what the user asked for: a number, a price per point, or "auto".

All rows are candidates where that is affordable. Elsewhere the lasso's points are, and
the choice says so.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wolfpack.change_points.choice import NOISES, Choice, choose_change_points
from wolfpack.change_points.elbow import NumberPath, number_path
from wolfpack.change_points.exact import Rows, penalised
from wolfpack.change_points.given import Given, Incomplete
from wolfpack.change_points.pruning import MAX_CANDIDATES, best_segments, thin
from wolfpack.change_points.segmentation import warn
from wolfpack.checks.inputs import positive

AFFORDABLE = 1e8  # evaluations that a given number of points may take: half a second
TABLE = 2e9  # entries that a choice among candidates may fill


class ElbowWarning(UserWarning):
    """The number of change points is not clear from the signal.

    Examples
    --------
    >>> import warnings
    >>> from wolfpack.change_points import ElbowWarning
    >>> warnings.simplefilter("ignore", ElbowWarning)  # where this is known
    """


class Wish(NamedTuple):
    """What the user asked for: a number, "auto" or a penalty, and with what limits."""

    number: int | str | None
    penalty: float | None
    noise: str
    min_size: int

    @classmethod
    def read(cls, model: Any, n: int) -> "Wish":
        """Check the parameters of an estimator for a signal of n rows."""
        number = check_number(model.n_change_points, n)
        penalty = model.penalty
        if penalty is not None:
            penalty = positive("penalty", penalty)
            if number is not None:
                raise ValueError(
                    f"penalty={model.penalty!r} and n_change_points="
                    f"{model.n_change_points!r} both say how many change points there "
                    "are; give one of them."
                )
        if not isinstance(model.noise, str) or model.noise not in NOISES:
            raise ValueError(
                f"noise must be 'auto', 'iid' or 'ar'; given was {model.noise!r}."
            )
        size = model.min_size
        whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
        if not whole or not 1 <= int(size) <= n:
            raise ValueError(
                "min_size must be a whole number of rows from 1 to the number of rows, "
                f"{n}; given was {size!r}."
            )
        if isinstance(number, int) and (number + 1) * int(size) > n:
            raise ValueError(
                f"{number + 1} segments of min_size={size} rows need "
                f"{(number + 1) * int(size)} rows, but there are {n}; give a smaller "
                "n_change_points or min_size."
            )
        return cls(number, penalty, model.noise, int(size))

    @property
    def is_empty(self) -> bool:
        """Whether the points of the lasso are wanted as they are."""
        return self.number is None and self.penalty is None


def check_number(number: Any, n: int) -> int | str | None:
    """Return `n_change_points`, if a signal of n rows can have that many."""
    if number is None or (isinstance(number, str) and number == "auto"):
        return number
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not (whole and 0 <= int(number) < n):
        raise ValueError(
            "n_change_points must be None, 'auto' or a whole number from 0 to the "
            f"number of rows minus 1, {n - 1}; given was {number!r}."
        )
    return int(number)


def enough_candidates(n: int, number: int | None) -> int:
    """Return how many candidates to have before the best of them are chosen.

    With 8 times as many candidates as points the chosen ones are, up to a few rows, the
    best of all. Where the number is unknown (None), half of the rows are candidates.

    Examples
    --------
    >>> from wolfpack.change_points.selection import enough_candidates
    >>> enough_candidates(10_000, 20), enough_candidates(400, None)
    (160, 200)
    """
    wanted = MAX_CANDIDATES if number is None else max(8 * number, 64)
    return min(wanted, n // 2, MAX_CANDIDATES)


def select(given: Given, wish: Wish, alpha: float | None) -> Choice | None:
    """Choose among all rows; None where there is nothing to choose yet.

    That is where the user gave `alpha`, which limits the candidates, where entries are
    missing, and where all rows would be too much work.
    """
    if wish.number == "auto":
        choice = None
        for Y, weights in given.trials("auto"):
            choice = choose_change_points(
                Y, noise=wish.noise, min_size=wish.min_size, weights=weights
            )
            given.chosen = choice.points
        assert choice is not None
        _warn_of_elbow(choice)
        return choice
    if wish.is_empty or alpha is not None or isinstance(given, Incomplete):
        return None
    X, weights = np.asarray(given.values, dtype=np.float64), given.weights
    if wish.penalty is not None:
        points, exact = penalised(X, wish.penalty, wish.min_size, weights)
        return _given(X, points, wish, weights, None) if exact else None
    assert isinstance(wish.number, int)
    if Rows(X, weights).n_evaluations(wish.number) > AFFORDABLE:
        return None
    path = number_path(
        X, wish.number, weights=weights, least=wish.min_size, work=AFFORDABLE
    )
    return _given(X, path.points[path.chosen], wish, weights, path)


def settle(
    given: Given,
    candidates: np.ndarray,
    wish: Wish,
    alpha: float | None,
    choice: Choice | None,
) -> Choice | None:
    """Return the choice, now that the lasso is solved; None: all of its points."""
    if wish.is_empty:
        return None
    if choice is None:
        return select_among(given, candidates, wish, alpha)
    count = len(choice.points)
    if not isinstance(given, Incomplete) or choice.straight or not count:
        return choice
    # The number was chosen on a completed signal: the entries say better where.
    known = select_among(given, candidates, wish._replace(number=count), alpha)
    if len(known.points) < count:
        return choice
    return replace(choice, points=known.points, path=known.path, exact=False)


def select_among(
    given: Given, candidates: np.ndarray, wish: Wish, alpha: float | None
) -> Choice:
    """Choose among the lasso's points; `alpha` is what the user gave, for advice."""
    number = wish.number if isinstance(wish.number, int) else None
    ((X, weights),) = given.trials(number or 0)
    X = np.asarray(X, dtype=np.float64)
    limit = max(MAX_CANDIDATES, number or 0)
    kept, n_dropped = thin(X, candidates, limit, weights=weights)
    if n_dropped and alpha is not None:
        warn(
            f"{n_dropped} of {len(candidates)} candidates were dropped before the best "
            "were chosen; a larger alpha has fewer."
        )
    if number is not None and number > len(kept) and alpha is not None:
        warn(
            f"The lasso has {len(kept)} change points at alpha={alpha}, fewer than "
            f"n_change_points={number}; give a smaller alpha, or none."
        )
    if isinstance(given, Incomplete):
        return _among_entries(X, kept, wish, weights)
    if number is None:
        points, _ = penalised(
            X, wish.penalty or math.inf, wish.min_size, weights, candidates=kept
        )
        return _given(X, points, wish, weights, None, exact=False)
    if alpha is None and (number > len(kept) or number * limit**2 > TABLE):
        kept, _ = thin(X, np.arange(1, len(X)), number, weights=weights)
        return _given(X, kept, wish, weights, None, exact=False)
    path = number_path(X, number, weights=weights, least=wish.min_size, candidates=kept)
    return _given(X, path.points[path.chosen], wish, weights, path, exact=False)


def _among_entries(X, kept, wish: Wish, weights) -> Choice:
    """Choose where every entry has a weight; these rows may be few in a segment."""
    if wish.min_size > 1:
        raise ValueError(
            f"min_size={wish.min_size} needs whole rows, but entries are missing or "
            "have weights of their own; leave min_size out."
        )
    most = wish.number if isinstance(wish.number, int) else len(kept)
    costs, points = best_segments(X, kept, most, weights=weights)
    numbers = np.arange(len(costs))
    total = costs + (wish.penalty or 0.0) * numbers
    k = len(costs) - 1 if wish.penalty is None else int(np.argmin(total))
    path = NumberPath(numbers, costs, points, False, False, k)
    return _given(X, points[k], wish, None, path, exact=False)


def _given(X, points, wish: Wish, weights, path: NumberPath | None, exact=True):
    """Return the choice of a user who gave a number or a penalty."""
    if path is None:
        numbers = np.array([len(points)])
        costs = np.array([Rows(X, weights).cost(points)])
        path = NumberPath(numbers, costs, [points], False, exact, 0)
    what = "number" if wish.penalty is None else "penalty"
    where = "all rows" if exact else "the candidates, as all rows would take too long"
    reason = f"The {what} was given, and the best points were chosen among {where}."
    none = np.zeros(len(points), bool)
    return Choice(points, none, "steps", reason, path=path, exact=exact)


def _warn_of_elbow(choice: Choice) -> None:
    if not choice.has_elbow:
        warn(
            f"{choice.reason} Look at change_points_path_, or give n_change_points or "
            "penalty.",
            ElbowWarning,
        )
    elif not choice.sees_end:
        warn(
            f"The search for the elbow ended at {choice.path.numbers[-1]} points "
            f"before it was passed: {len(choice.points)} may be too few. Look at "
            "change_points_path_, or give n_change_points or penalty.",
            ElbowWarning,
        )
