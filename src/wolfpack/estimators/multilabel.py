"""Sets of labels: the multilabel support vector machine as an estimator."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from wolfpack.checks.inputs import encode, refuse_mixed
from wolfpack.estimators._base import DualEstimator
from wolfpack.estimators._callbacks import with_callbacks
from wolfpack.estimators.multiclass import FLOATS, rows_of
from wolfpack.problems import label_sets
from wolfpack.problems.multilabel import LabelWeights, multilabel_svm
from wolfpack.result import Event


class MultilabelSVM(ClassifierMixin, DualEstimator):
    """Predict sets of labels with a linear SVM whose labels interact.

    Minimises alpha/2 |w|^2 + mean over examples of the structured hinge loss, with the
    number of wrong labels as the loss. A set scores the sum of the scores of its
    labels, and a weight for each pair of its labels that interact; the best set is
    found exactly. With pairs=None it is one-vs-rest `LinearSVC(loss="hinge")` with
    C = 1 / (alpha n).

    Parameters
    ----------
    alpha : float
        Regularisation; C = 1 / (alpha n). Smaller fits closer and takes longer.
    pairs : "auto", "full", "tree" or None
        Which pairs of labels have a weight: all of them, those of the tree with the
        largest mutual information, or none. "auto": all where they can be searched,
        with up to 16 labels or `candidates="observed"`, else the tree.
    candidates : "all" or "observed"
        Which sets can be predicted: all, or those that `fit` sees. "observed" is a
        label powerset whose sets share the weights of their labels. With "all",
        pairs="full" takes up to 16 labels, because it tries 2^K sets.
    fit_intercept : bool
        Whether a column of ones is added to X. Its weights, the intercepts, are
        regularised like all others, so features should be of about the size of 1.
    batch_size, step, sampling, averaging, accelerate, max_iter, max_seconds
        As in `ChainSSVM`, with examples in place of sequences.
    tol : float
        Stop at this duality gap, relative to the loss of the best constant answer,
        which is the sum over labels of 2 min(p, 1 - p) for shares p of the examples.
    warm_start, n_jobs, engine, random_state, callback, verbose
        As in `ChainSSVM`.

    Attributes
    ----------
    classes_ : ndarray
        The numbers of the labels, 0 ... K - 1. Where y is a vector of two classes,
        these two.
    coef_ : ndarray (K, n_features)
    intercept_ : ndarray of K
    edges_ : ndarray (E, 2)
        The pairs of labels that interact.
    pair_coef_ : ndarray of E
        Their weights: what a set gains that has both.
    candidates_ : ndarray (C, K) or None
        The sets that can be predicted, if these are not all.
    objective_, dual_objective_, gap_, relative_gap_ : float
        The certificate: the optimum lies between the first two. `tol` is compared
        with the last.
    n_iter_, status_, trace_, result_, n_features_in_
        As in `ChainSSVM`.

    Examples
    --------
    >>> import wolfpack
    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, Y = make_multilabel_classification(200, n_classes=4, random_state=0)
    >>> model = wolfpack.MultilabelSVM(alpha=0.01, random_state=0).fit(X / 10, Y)
    >>> model.predict(X[:2] / 10).shape, model.edges_.shape
    ((2, 4), (6, 2))
    >>> model.score(X / 10, Y) > 0.5
    True
    """

    alpha: float
    pairs: Any
    candidates: Any
    fit_intercept: bool
    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    edges_: np.ndarray
    pair_coef_: np.ndarray
    candidates_: np.ndarray | None
    n_features_in_: int

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        pairs: Literal["auto", "full", "tree"] | None = "auto",
        candidates: Literal["all", "observed"] = "all",
        fit_intercept: bool = True,
        batch_size: int | Literal["auto"] | None = None,
        step: Literal["line", "open-loop"] | float = "line",
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
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MultilabelSVM":
        """Learn from examples.

        Parameters
        ----------
        X : array or sparse matrix (n, p)
            One example a row.
        y : array or sparse matrix (n, K)
            1 where the example has the label, else 0. A vector of two classes is one
            label, which the second class has.
        sample_weight : array of n, optional
            A weight of 2 counts as the example twice; only ratios matter.

        Returns
        -------
        MultilabelSVM
            Itself.
        """
        given = X, y, sample_weight
        _refuse_lists(y)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=FLOATS, multi_output=True
        )
        classes, Y = _read(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        self._refuse_others(classes, "labels")
        problem = multilabel_svm(
            X,
            Y,
            self._limit("alpha"),
            pairs=self.pairs,
            candidates=self.candidates,
            sample_weight=sample_weight,
            intercept=self._flag("fit_intercept"),
        )
        describe = functools.partial(self._attributes, classes)
        self._solve(problem, describe, *given)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return a score per example and label, (n, K); above 0 it is predicted.

        It is the score of the best set with the label less that of the best set
        without. Where y was a vector the shape is (n,).
        """
        structure, scores = self._ready(X)
        _, found = label_sets.best_sets(structure, scores, self.pair_coef_, True)
        return found if self._has_sets() else found.ravel()

    def predict(self, X: Any) -> np.ndarray:
        """Return the best set of each example, (n, K) zeros and ones.

        Where y was a vector it is the class of each example.
        """
        structure, scores = self._ready(X)
        sets, _ = label_sets.best_sets(structure, scores, self.pair_coef_)
        if self._has_sets():
            return sets.astype(np.int64)
        return self.classes_[sets.ravel()]

    def _ready(self, X: Any) -> tuple[label_sets.Structure, np.ndarray]:
        """Return which sets there are, and the scores of the labels."""
        check_is_fitted(self)
        X = rows_of(self, X)
        scores = X @ self.coef_.T + self.intercept_
        n_labels = len(self.coef_)
        return (
            label_sets.make_structure(n_labels, self.edges_, self.candidates_),
            scores,
        )

    def _has_sets(self) -> bool:
        return len(self.coef_) == len(self.classes_)

    def _attributes(self, classes: np.ndarray, weights: LabelWeights) -> dict[str, Any]:
        coef, intercept = weights.labels, np.zeros(len(weights.labels))
        if self.fit_intercept:
            coef, intercept = np.ascontiguousarray(coef[:, :-1]), coef[:, -1].copy()
        return {
            "classes_": classes,
            "coef_": coef,
            "intercept_": intercept,
            "edges_": weights.edges,
            "pair_coef_": weights.pairs.copy(),
            "candidates_": weights.candidates,
            "n_features_in_": coef.shape[1],
        }

    def __sklearn_tags__(self):
        """Say that X may be sparse, and that y is a table of labels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        assert tags.classifier_tags is not None  # of ClassifierMixin
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


def _refuse_lists(y: Any) -> None:
    """Refuse lists of labels in place of a table, and numbers beside strings."""
    try:
        first = None if y is None or sp.issparse(y) else np.asarray(y).ravel()[:1]
    except ValueError:  # rows that differ in length
        first = [()]
    if first is not None and len(first) and isinstance(first[0], list | tuple | set):
        raise ValueError(
            "y must be a table of zeros and ones, (n, K), not lists of labels; "
            "sklearn.preprocessing.MultiLabelBinarizer makes the table."
        )
    refuse_mixed(y)


def _read(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels, and y as a table (n, K)."""
    if sp.issparse(y):
        y = y.toarray()
    if y.ndim == 2 and y.shape[1] > 1:
        return np.arange(y.shape[1]), y
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    classes, codes = encode(y)
    if kind != "binary":
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{kind}; MulticlassSVM tells {len(classes)} classes apart, and "
            "sklearn.preprocessing.MultiLabelBinarizer makes a table of sets."
        )
    if len(classes) < 2:
        raise ValueError(f"y has one class only, {y[0]!r}; it takes two or more.")
    return classes, codes[:, None]
