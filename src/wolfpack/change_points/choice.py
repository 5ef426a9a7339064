"""How many change points, which of them are significant, and under which model.

1. Season and outliers are taken off, and the noise is estimated (`noise`).
2. Candidates: exact segmentations of the whitened signal at several prices, and the
   elbows of constant and of straight segments (`elbow`).
3. Each is compared with signals that have noise and drift but no change (`evidence`).
   Its points are significant where it gains more than a price per point, which was
   calibrated on noise of many kinds: at most 5 % of signals without a change have some.
4. Where none passes but the signal is not stationary, the elbow describes it: people
   mark where a trend bends. These points are reported, but not as significant.

Signals of few rows have a test of their own (`few_rows`).
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from wolfpack.change_points.chosen import Choice, nothing
from wolfpack.change_points.elbow import number_path
from wolfpack.change_points.few_rows import LIMIT, few_points
from wolfpack.change_points.search import Search

NOISES = ("auto", "iid", "ar")
APART = 10  # columns up to which each is also looked at alone
DESCRIBED = 12  # rows, from which an elbow can be seen
LEAST = 2  # rows of a segment: an outlier is no segment

__all__ = ["Choice", "choose_change_points"]


def choose_change_points(
    Y: Any,
    *,
    noise: str = "auto",
    min_size: int = 1,
    weights: np.ndarray | None = None,
) -> Choice:
    """Choose change points, and say which of them are significant.

    Parameters
    ----------
    Y : array (n, d) or (n,)
        The signal.
    noise : "auto", "iid" or "ar"
        What is assumed. "auto": noise may depend on earlier rows, and the signal may
        drift; a change is significant only if neither explains it. "ar": noise depends,
        nothing drifts. "iid": rows are independent and nothing drifts; small changes
        are found, and drifts and dependence are taken for changes.
    min_size : int
        The fewest rows of a segment; 2 or more are always asked for.
    weights : array (n,), optional
        Positive weights of the rows.

    Returns
    -------
    Choice

    References
    ----------
    M. Lavielle, "Using penalized contrasts for the change-point problem", Signal
    Processing 85, 2005; L. Birgé and P. Massart, "Minimal penalties for Gaussian model
    selection", Probability Theory and Related Fields 138, 2007.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import choose_change_points
    >>> Y, _, jumps = wolfpack.make_piecewise(n=200, d=2, n_segments=4, rng=1)
    >>> choice = choose_change_points(Y)
    >>> bool((choice.points == jumps).all()), bool(choice.significant.all())
    (True, True)
    >>> choice.model
    'steps'
    """
    Y = np.asarray(Y, dtype=np.float64)
    Y = Y[:, np.newaxis] if Y.ndim == 1 else Y
    scale = Y.std(axis=0)
    Y = (Y - Y.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64) / np.mean(weights)
    if not Y.any():
        return nothing("constant", "The signal is constant.")
    least = max(min_size, LEAST)
    if len(Y) < LIMIT:
        choice = _choose_among_few(Y, noise)
        if len(choice.points) or len(Y) < DESCRIBED:
            return choice
    choice = Search(Y, noise, least, weights).choose()
    if noise == "auto" and not choice.significant.any() and 1 < Y.shape[1] <= APART:
        return _without_drifting_columns(Y, least, weights, choice)
    return choice


def _without_drifting_columns(Y: np.ndarray, least: int, weights, choice: Choice):
    """Choose anew without the columns that smooth models explain better than steps.

    Their noise seems tiny beside their drift, so they would outweigh all others.
    """
    columns = [Search(column[:, np.newaxis], "auto", least, weights) for column in Y.T]
    stepped = [j for j, column in enumerate(columns) if column.has_steps()]
    if not 0 < len(stepped) < len(columns):
        return choice
    # A union bound over all choices of columns.
    handicap = 2 * math.log(2) * len(columns)
    other = Search(Y[:, stepped], "auto", least, weights, handicap).choose()
    if not len(other.points):
        return choice
    count = len(columns) - len(stepped)
    left = f"{count} column{' that drifts was' if count == 1 else 's that drift were'}"
    return replace(other, reason=f"{other.reason} {left} left out of the choice.")


def _choose_among_few(Y: np.ndarray, noise: str) -> Choice:
    points, _ = few_points(Y, noise)
    n = len(Y)
    path = number_path(Y, max(len(points) + 2, n // 4), chosen=len(points))
    if not len(points):
        reason = (
            f"{n} rows are too few for an estimate of the noise, and no step is larger "
            "than noise or drift of any kind could make."
        )
        return nothing("noise", reason, path=path._replace(chosen=0))
    reason = (
        f"The steps are larger than noise or drift of any kind makes in {n} rows, "
        "too few for an estimate of the noise."
    )
    return Choice(points, np.ones(len(points), bool), "steps", reason, path=path)
