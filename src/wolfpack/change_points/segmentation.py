"""Signals and their segments: what an estimator is given, and what it says of them."""

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    validate_data,
)

from wolfpack.change_points.evidence import fit_pieces
from wolfpack.checks.inputs import at_least_one, no_rows
from wolfpack.problems.fused_lasso import constant_prices, dual_norm

NEAR = 2  # rows at most between two steps of a staircase
CALLER = 5  # stack level of the caller of `fit`; the decorator of `fit` is one of them


class StaircaseWarning(UserWarning):
    """The lasso spreads a jump over neighbouring rows, and nothing was pruned.

    Examples
    --------
    >>> import warnings
    >>> from wolfpack.change_points import StaircaseWarning
    >>> warnings.simplefilter("ignore", StaircaseWarning)  # to want the signal only
    """


def as_columns(X: Any) -> Any:
    """Return a signal of one dimension as one column; others as they are."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) != 1:
        return X
    if hasattr(X, "to_frame") and hasattr(X, "iloc"):  # a pandas Series has a name
        return X.to_frame(name=X.name if isinstance(X.name, str) else "signal")
    return np.reshape(np.asarray(X), (-1, 1))  # a polars Series reshapes otherwise


def read_signal(model: Any, X: Any, reset: bool = False) -> Any:
    """Return a signal as rows of floats: one to learn from, or one as it was learnt."""
    if not reset:
        X = no_rows(X, model.n_features_in_)
    if reset or model.n_features_in_ == 1:
        X = as_columns(X)
    if reset and _is_plain(model, X):
        model.n_features_in_ = X.shape[1]
        return X
    least, types = 2 if reset else 0, [np.float64, np.float32]
    how = {"dtype": types, "ensure_min_samples": least}
    return validate_data(model, X, reset=reset, ensure_all_finite="allow-nan", **how)


def _is_plain(model: Any, X: Any) -> bool:
    """Whether scikit-learn would take a signal as it is, after 60 us of questions."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype == np.float64
        and len(X) >= 2
        and X.shape[1] > 0
        and not np.isinf(X).any()
        and not hasattr(model, "feature_names_in_")
    )


def check_signal(X: Any) -> np.ndarray:
    """Return a signal as rows of floats, where NaN is a missing entry."""
    how: dict[str, Any] = {"dtype": "float64", "ensure_all_finite": "allow-nan"}
    return check_array(as_columns(X), ensure_min_samples=2, **how)


def segment_means(
    X: np.ndarray, points: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the signal whose segments, which begin at `points`, have their means."""
    return fit_pieces(X, points, weights, False)


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


def weighted_rows(
    X: np.ndarray, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows whose weight is not 0, and their weights; None: all are 1."""
    if sample_weight is None:
        return np.arange(len(X)), None
    weights = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    rows = np.flatnonzero(weights)
    if len(rows) < 2:
        raise ValueError(
            f"sample_weight must be above 0 in at least 2 rows, but is in {len(rows)}."
        )
    return rows, weights[rows]


def warn_of_stairs(signal: np.ndarray, points: np.ndarray) -> None:
    """Warn where change points are steps of a staircase."""
    n_stairs = count_stairs(signal, points)
    if n_stairs:
        warn(
            f"{n_stairs} of {len(points)} change points are steps of a staircase: the "
            "lasso spreads a jump over neighbouring rows. Set n_change_points to keep "
            "the best of them.",
            StaircaseWarning,
        )


def warn(sentence: str, kind: type[Warning] = UserWarning) -> None:
    """Warn whoever called `fit`."""
    warnings.warn(sentence, kind, stacklevel=CALLER)


def find_jumps(
    Y: np.ndarray, signal: np.ndarray, prices: np.ndarray, alpha: float, q: float
) -> np.ndarray:
    """Return the rows that differ from the one before, and whose price is alpha.

    At the optimum other jumps are 0; here they are not, because the gap is not 0.
    """
    noisy = np.linalg.norm(np.diff(Y.astype(np.float64), axis=0), ord=q, axis=1)
    jumps = np.linalg.norm(np.diff(signal, axis=0), ord=q, axis=1)
    sizes = np.linalg.norm(prices, ord=dual_norm(q), axis=1)
    is_jump = (sizes >= (1 - 1e-3) * alpha) & (jumps > smallest_jump(noisy))
    return np.flatnonzero(is_jump) + 1


def smallest_jump(jumps: np.ndarray) -> float:
    """Return the size below which a jump is rounding, given those of the signal."""
    return 1e-6 * float(jumps.max())


def largest_alpha(Y: np.ndarray, q: float, weights: np.ndarray | None) -> float:
    """Return the smallest alpha for which the recovered signal is constant."""
    norm = dual_norm(at_least_one("q", q))
    prices = constant_prices(Y.astype(np.float64), weights)
    return float(np.linalg.norm(prices, ord=norm, axis=1).max())


def price_ratio(prices: np.ndarray, alpha: float, q: float) -> float:
    """Return what brings prices to another alpha: those at the limit stay there."""
    size = float(np.linalg.norm(prices, ord=dual_norm(q), axis=1).max())
    return alpha / size if size > 0 else 1.0
