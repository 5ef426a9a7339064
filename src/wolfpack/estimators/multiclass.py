"""Classification: the multiclass support vector machine as an estimator."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from wolfpack.checks.inputs import encode, no_rows, refuse_mixed
from wolfpack.estimators._base import DualEstimator
from wolfpack.estimators._callbacks import with_callbacks
from wolfpack.problem import Problem
from wolfpack.problems.multiclass import multiclass_svm
from wolfpack.result import Event

FLOATS = [np.float64, np.float32]
MOST_BYTES = 2**28  # of the blocks as vectors, which step="auto" does not exceed


class MulticlassSVM(ClassifierMixin, DualEstimator):
    """Classify with the linear SVM of Crammer and Singer.

    Minimises alpha/2 |w|^2 + mean over examples of the hinge loss: how far the score
    of the best wrong class, plus 1, exceeds that of the right one. It is
    `LinearSVC(multi_class="crammer_singer")` with C = 1 / (alpha n).

    Parameters
    ----------
    alpha : float
        Regularisation, lambda in the paper; C = 1 / (alpha n). Smaller fits closer
        and takes longer.
    fit_intercept : bool
        Whether a column of ones is added to X. Its weights, the intercepts, are
        regularised like all others, so features should be of about the size of 1.
    batch_size, sampling, averaging, max_iter, max_seconds, warm_start, n_jobs, engine
        As in `ChainSSVM`, with examples in place of sequences.
    accelerate : bool or "auto"
        As in `ChainSSVM`.
    step : "auto", "exact", "line", "open-loop" or float
        "exact" moves each block to its minimiser and keeps 8 n K bytes; the others keep
        a few classes an example. "auto" is "exact" where the run may be accelerated and
        these bytes are at most 256 MB, else "line". With sampling="gap", on letter,
        digits and made-up sparse data, "exact" took as long as "line" to a gap of 1e-2,
        and up to 13 times less to 1e-5.
    tol : float
        Stop at this duality gap, relative to the objective at w = 0, which is 1.
    random_state, callback, verbose
        As in `ChainSSVM`.

    Attributes
    ----------
    classes_ : ndarray of K classes
    coef_ : ndarray (K, n_features)
        Of two classes the difference of their weights: (1, n_features).
    intercept_ : ndarray of K, or of 1 for two classes
    objective_, dual_objective_, gap_, relative_gap_ : float
        The certificate: the optimum lies between the first two. `tol` is compared
        with the last.
    n_iter_, status_, trace_, result_, n_features_in_
        As in `ChainSSVM`.

    Examples
    --------
    >>> import wolfpack
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = wolfpack.MulticlassSVM(alpha=0.01, random_state=0).fit(X / 16, y)
    >>> model.score(X / 16, y) > 0.95
    True
    """

    alpha: float
    fit_intercept: bool
    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    n_features_in_: int

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        fit_intercept: bool = True,
        batch_size: int | Literal["auto"] | None = None,
        step: Literal["auto", "exact", "line", "open-loop"] | float = "auto",
        sampling: Literal["gap", "permutation", "uniform", "cyclic"] = "gap",
        averaging: bool = False,
        accelerate: bool | Literal["auto"] = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        engine: Any = None,
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[Event], bool | None] | None = None,
        verbose: int = 0,
    ) -> None:
        self._set(locals())

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MulticlassSVM":
        """Learn from examples.

        Parameters
        ----------
        X : array or sparse matrix (n, p)
            One example a row.
        y : array of n
            The class of each example: numbers or strings.
        sample_weight : array of n, optional
            A weight of 2 counts as the example twice; only ratios matter.

        Returns
        -------
        MulticlassSVM
            Itself.
        """
        given = X, y, sample_weight
        refuse_mixed(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        classes, codes = encode(y)
        self._refuse_others(classes, "classes")
        problem = multiclass_svm(
            X,
            codes,
            self._limit("alpha"),
            sample_weight=sample_weight,
            intercept=self._flag("fit_intercept"),
            vectors=self._wants_vectors(len(codes), len(classes)),
        )
        describe = functools.partial(self._attributes, classes)
        self._solve(problem, describe, *given)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return a score per example and class, (n, K); the largest wins.

        Of two classes it is the score of the second less that of the first, (n,).
        """
        check_is_fitted(self)
        X = rows_of(self, X)
        scores = X @ self.coef_.T + self.intercept_
        return scores.ravel() if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each example."""
        scores = self.decision_function(X)
        best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[np.asarray(best, np.int64)]

    def _wants_vectors(self, n: int, n_classes: int) -> bool:
        """Return whether to keep a block as K numbers, which exact steps need."""
        if self.step != "auto":
            return self.step == "exact"
        last = self._last_state()
        if last is not None:  # it goes on with the blocks of the last fit
            return last.offsets is None
        wish = self.accelerate
        if isinstance(wish, str):  # "auto"
            wish = self._choose_engine().acceleration == "always"
        is_small = 8 * n * n_classes <= MOST_BYTES
        return bool(wish) and not self._flag("averaging") and is_small

    def _step_for(self, problem: Problem) -> Any:
        if self.step != "auto":
            return self.step
        return "exact" if problem.minimiser is not None else "line"

    def _attributes(self, classes: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
        if len(classes) == 2:
            weights = weights[1:] - weights[:1]
        coef, intercept = weights, np.zeros(len(weights))
        if self.fit_intercept:
            coef, intercept = np.ascontiguousarray(weights[:, :-1]), weights[:, -1]
        return {
            "classes_": classes,
            "coef_": coef,
            "intercept_": intercept.copy(),
            "n_features_in_": coef.shape[1],
        }

    def __sklearn_tags__(self):
        """Say that X may be sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def rows_of(model: Any, X: Any) -> Any:
    """Return the rows that a fitted model is to predict; there may be none."""
    X = no_rows(X, model.n_features_in_)
    how: dict[str, Any] = {"accept_sparse": "csr", "dtype": FLOATS}
    return validate_data(model, X, reset=False, ensure_min_samples=0, **how)
