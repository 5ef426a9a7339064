"""Trends: kinks by group trend filtering, as an estimator."""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_array

from wolfpack.change_points.kinks import best_kinks, find_alpha
from wolfpack.change_points.segmentation import as_columns, read_signal
from wolfpack.checks.inputs import positive
from wolfpack.engines.interior_point import InteriorPoint
from wolfpack.estimators._callbacks import with_callbacks
from wolfpack.estimators._signal import SignalEstimator
from wolfpack.problems.trend_filter import group_trend_filter, largest_alpha
from wolfpack.result import Event
from wolfpack.update.pieces import fit_lines

SHARE = 0.01  # of alpha_max is alpha where neither it nor a number of kinks is given
SMALLEST = 1e-6  # a bend of this part of the signal's largest one, or less, is rounding


class GroupTrendFilter(SignalEstimator):
    """Find kinks, and the signal of joined straight pieces between them.

    Minimises 1/2 sum_t w_t |X_t - Y_t|^2 + alpha sum_t |X_(t+2) - 2 X_(t+1) + X_t|_q:
    the slopes of all columns change together, and rarely. The penalty shrinks bends, so
    that a kink is often spread over some rows. With `n_kinks` the kinks found are
    candidates only: those that cost least are dropped one after the other, and the
    straight pieces are fitted by least squares.

    Parameters
    ----------
    alpha : float, optional
        The price of a bend. From `alpha_max(X)` on the answer is a straight line.
        Default: a hundredth of that; with `n_kinks` alpha_max, divided by 4 until there
        are enough candidates.
    n_kinks : int, optional
        How many kinks to keep. Default: all that are found.
    refit : bool or "auto"
        Whether `signal_` is fitted to the kinks by least squares, instead of the
        values of the penalised problem, whose bends are too small. "auto": where
        `n_kinks` is given.
    q : float
        The norm of a bend, 1 or more, or `numpy.inf`; 1, 2 and inf are the fastest.
    tol : float
        Stop at this duality gap, relative to the least objective of X itself, of a
        straight line and of straight pieces of equal lengths.
    max_iter : int
        Rounds of interior-point steps at most; one is usual.
    max_seconds, n_jobs, callback, verbose
        As in `ChainSSVM`; the threads make certificates only.

    Attributes
    ----------
    change_points_ : ndarray of int
        The kinks: the slope from row t on differs from that up to row t.
    labels_ : ndarray of int (n,)
        The piece of each row, from 0 on; a kink belongs to the piece that it begins.
    signal_ : ndarray (n, d)
        The recovered signal.
    candidates_ : ndarray of int
        The kinks of the penalised problem.
    costs_ : ndarray
        With `n_kinks`: the sum of squares with 0, 1, ... kinks.
    alpha_, alpha_max_ : float
        The alpha used, and the smallest that gives a straight line.
    objective_, dual_objective_, gap_, relative_gap_ : float
        The certificate: the optimum lies between the first two.
    n_iter_, status_, trace_, result_, n_features_in_
        As in `ChainSSVM`.

    Examples
    --------
    >>> import numpy as np, wolfpack
    >>> noise = np.random.default_rng(0).normal(size=(60, 1))
    >>> Y = np.abs(np.arange(-30.0, 30.0))[:, np.newaxis] + 0.1 * noise
    >>> wolfpack.GroupTrendFilter(n_kinks=1).fit(Y).change_points_
    array([30])
    """

    alpha: float | None
    n_kinks: int | None
    refit: bool | Literal["auto"]
    q: float
    _caution = " The kinks so far mean nothing."
    _least = 3
    # What engines that visit blocks need; interior-point steps heed none of it.
    batch_size = engine = random_state = None
    step, sampling, accelerate = "exact", "cyclic", "auto"
    averaging = warm_start = False

    def __init__(
        self,
        *,
        alpha: float | None = None,
        n_kinks: int | None = None,
        refit: bool | Literal["auto"] = "auto",
        q: float = 2.0,
        tol: float = 1e-8,
        max_iter: int = 100,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        callback: Callable[[Event], bool | None] | None = None,
        verbose: int = 0,
    ) -> None:
        self._set(locals())

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None):
        """Find the kinks of a signal.

        Parameters
        ----------
        X : array (n, d) or (n,), or a pandas Series or DataFrame
            The noisy signal, one row per time, at least 3.
        y : None
            Not used.
        sample_weight : array (n,), optional
            Positive weights of the rows.

        Returns
        -------
        GroupTrendFilter
            Itself.
        """
        X = read_signal(self, X, reset=True)
        if len(X) < self._least:
            raise ValueError(
                f"A kink needs 3 rows or more, but X has n_samples={len(X)}."
            )
        weights = positive_weights(X, sample_weight)
        number = self._check_number(len(X))
        refit = number is not None if self.refit == "auto" else self._flag("refit")
        self.alpha_max_ = largest_alpha(X, self.q, weights)
        self.alpha_ = alpha = self._choose_alpha(X, number, weights)
        problem = group_trend_filter(X, alpha, q=self.q, weights=weights)
        vars(self).pop("costs_", None)  # of an earlier fit with `n_kinks`
        try:
            self._solve(problem, lambda signal: {"signal_": signal}, X)
        finally:  # after Ctrl-C there may be a signal, too
            if hasattr(self, "signal_") and len(self.signal_) == len(X):
                kinks = find_kinks(X, self.signal_, self.q)
                self.candidates_ = self.change_points_ = kinks
        if number is not None:
            found = best_kinks(X.astype(np.float64), kinks, number, weights=weights)
            self.costs_, kinks = found.costs, found.points[-1]
            if len(kinks) < number:
                warnings.warn(
                    f"There are {len(kinks)} kinks at alpha={alpha:g}, fewer than "
                    f"n_kinks={number}; give a smaller alpha.",
                    stacklevel=3,
                )
        self.change_points_ = kinks
        if refit:
            w = np.ones(len(X)) if weights is None else weights
            self.signal_ = fit_lines(X.astype(np.float64), kinks, w)
        self.signal_ = self.signal_.astype(X.dtype, copy=False)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the piece of each row of X, with the alpha and number learnt."""
        return self._fit_another(X, "labels_")

    def _learnt(self, n: int) -> dict[str, Any]:
        learnt = super()._learnt(n)
        if self.n_kinks is not None:
            learnt["n_kinks"] = min(self.n_kinks_, n - 2)
        return learnt

    def _check_number(self, n: int) -> int | None:
        number = self.n_kinks
        if number is None:
            return None
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not (whole and 0 <= int(number) <= n - 2):
            raise ValueError(
                "n_kinks must be None or a whole number from 0 to the number of rows "
                f"minus 2, {n - 2}; given was {number!r}."
            )
        return int(number)

    def _choose_alpha(self, X, number: int | None, weights) -> float:
        if self.alpha is not None:
            return positive("alpha", self.alpha)
        if number is None or self.alpha_max_ == 0.0:
            return SHARE * self.alpha_max_ or 1.0
        enough = min(2 * number + 2, (len(X) - 2) // 4)
        return find_alpha(X, max(number, enough), self.q, weights)

    def _choose_engine(self) -> Any:
        return InteriorPoint(self._count_workers())

    @property
    def n_kinks_(self) -> int:
        """How many kinks there are."""
        return len(self.change_points_)

    @staticmethod
    def alpha_max(X: Any, q: float = 2.0, sample_weight: Any = None) -> float:
        """Return the smallest alpha for which the recovered signal is straight."""
        X = check_array(as_columns(X), dtype="float64", ensure_min_samples=3)
        return largest_alpha(X, q, positive_weights(X, sample_weight))


def positive_weights(X: np.ndarray, sample_weight: Any) -> np.ndarray | None:
    """Return the weights of all rows; None: all are 1."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if not (weights > 0).all():
        raise ValueError(
            "sample_weight must be above 0 in every row here, because rows are equally "
            f"far apart in time; it is {weights.min():g} in row {weights.argmin()}. "
            "Give a small weight, such as 1e-6."
        )
    return weights


def find_kinks(Y: np.ndarray, signal: np.ndarray, q: float) -> np.ndarray:
    """Return the rows where the signal bends, by more than rounding."""
    noisy = np.linalg.norm(np.diff(Y.astype(np.float64), 2, axis=0), ord=q, axis=1)
    bends = np.linalg.norm(np.diff(signal, 2, axis=0), ord=q, axis=1)
    size = 1e-14 * float(np.abs(signal).max())
    return np.flatnonzero(bends > max(SMALLEST * float(noisy.max()), size)) + 1
