"""Structured prediction: the chain structural SVM as an estimator."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from wolfpack.checks.inputs import kinds_of, shares
from wolfpack.estimators._base import DualEstimator
from wolfpack.problems import chain
from wolfpack.problems._sequences import (
    encode_sequences,
    join_sequences,
    pack_features,
)
from wolfpack.result import Event

MOST_SCORE = 1e29  # padding labels score -1e30, and must never be the best


class ChainSSVM(DualEstimator):
    """Label sequences with a linear-chain structural SVM.

    Minimises alpha/2 |w|^2 + mean over sequences of the structured hinge loss, with
    the Hamming distance between labellings as the loss.

    Parameters
    ----------
    alpha : float
        Regularisation, lambda in the paper; C = 1 / (alpha n). Smaller fits closer
        and takes longer.
    normalize : bool
        Whether the loss of a sequence is divided by its length.
    batch_size : int, "auto" or None
        Sequences per update, tau in the paper. "auto" and None: 1 with one thread, and
        what is measured to be best with more.
    step : "line", "open-loop" or float
        The step, gamma in the paper; see `wolfpack.solve`.
    sampling : "gap", "permutation", "uniform" or "cyclic"
        How sequences are chosen. "gap" needs about half the passes.
    averaging : bool
        Certify, and predict, with the better of the last and the averaged weights.
    accelerate : bool or "auto"
        Make the steps inside an accelerated outer loop, in far fewer passes; see
        `wolfpack.solve`. "auto": where step="line" or "exact", without averaging, and
        not with `Delayed`.
    tol : float
        Stop at this duality gap, relative to the objective at w = 0 (which is 1 with
        normalize=True).
    max_iter : int
        The most passes over the data.
    max_seconds : float, optional
        The most time.
    warm_start : bool
        Go on from the last `fit` instead of starting anew.
    n_jobs : int, optional
        Threads: -1 is all cores, None is 1 unless a joblib context says more. Each
        holds a few copies of the weights. With more than one, averaging and
        step="open-loop" are refused.
    engine : Serial, Threads, Sync, Delayed, Ray or None
        Who runs the updates; see `wolfpack.solve`. None: `Serial()`, or `Threads` where
        `n_jobs` asks for more than one. An engine has its own number of workers, so
        `n_jobs` must be None beside it.
    random_state : int, RandomState or None
        The same number gives the same bits, with one thread.
    callback : function (Event) -> bool, optional
        Called during `fit` as by `wolfpack.solve`; returning True stops. Callbacks of
        scikit-learn, which `set_callbacks` takes, are told of whole passes only.
    verbose : int
        1 logs a line at each check, to the logger "wolfpack".

    Attributes
    ----------
    classes_ : ndarray of K labels
    coef_ : ndarray (K, n_features)
    intercept_, first_, last_ : ndarray of K
        Weights of any position, of the first and of the last one.
    transitions_ : ndarray (K, K)
        From one label (row) to the next (column).
    objective_, dual_objective_, gap_ : float
        The certificate: the optimum lies between the first two.
    n_iter_ : int
        Passes made.
    status_ : Status
        Why fit stopped.
    trace_ : list of TraceRow
        One row a check.
    result_ : Result
        What `wolfpack.solve` returned: also workers, delays and traffic. Its `state` is
        None unless warm_start=True, because it would multiply the size of a pickle.
    n_features_in_ : int

    Examples
    --------
    >>> import wolfpack
    >>> train, test = wolfpack.load_dates(n_train=200, n_test=50)
    >>> model = wolfpack.ChainSSVM(alpha=0.01, tol=0.01, random_state=0)
    >>> model.fit(train.X, train.y).score(test.X, test.y) > 0.8
    True
    """

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    first_: np.ndarray
    last_: np.ndarray
    transitions_: np.ndarray
    n_features_in_: int

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        normalize: bool = True,
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
        self.alpha = alpha
        self.normalize = normalize
        self.batch_size = batch_size
        self.step = step
        self.sampling = sampling
        self.averaging = averaging
        self.accelerate = accelerate
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @with_callbacks
    def fit(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None
    ) -> "ChainSSVM":
        """Learn from labelled sequences.

        Parameters
        ----------
        X : list of (T_i, p) arrays or sparse matrices
            The features of each position of each sequence.
        y : list of (T_i,) arrays
            The label of each position: numbers or strings.
        sample_weight : array of n, optional
            A weight of 2 counts as the sequence twice; only ratios matter.

        Returns
        -------
        ChainSSVM
            Itself.
        """
        classes, codes = encode_sequences(y)
        goes_on = self._last_state() is not None
        if goes_on and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start needs the labels of the first fit, {self.classes_}, "
                f"but y has {classes}; set warm_start=False to start anew."
            )
        problem = chain.chain_ssvm(
            X,
            codes,
            self._limit("alpha"),
            n_labels=len(classes),
            normalize=self._flag("normalize"),
            sample_weight=sample_weight,
        )
        self._solve(problem, lambda weights: _attributes(classes, weights))
        return self

    def predict(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Return the best labelling of each sequence."""
        data, shared, kernels, begin = self._ready(X)
        labels = np.zeros(begin[-1], data.labels.dtype)
        kernels.decode(data, shared, 0, len(begin) - 1, labels, chain.make_work(data))
        return np.split(self.classes_[labels], begin[1:-1])

    def decision_function(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Return, per position and label, the best score of a labelling with it.

        The largest in a row is the score of the best labelling (the max-marginal);
        differences say how much worse another label would be.
        """
        data, shared, kernels, begin = self._ready(X)
        scores = np.zeros((begin[-1], data.n_labels))
        work = chain.make_work(data)
        kernels.max_marginals(data, shared, 0, len(begin) - 1, scores, work)
        return np.split(scores, begin[1:-1])

    def score(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None
    ) -> float:
        """Return the share of positions that are labelled right.

        A label that `fit` never saw counts as an error, with a warning.
        """
        predicted = self.predict(X)
        if len(y) != len(predicted):
            raise ValueError(f"X has {len(predicted)} sequences and y has {len(y)}.")
        labels = join_sequences(y)
        given, known = kinds_of(labels), kinds_of(self.classes_)
        if given != known:
            raise ValueError(
                f"y holds {' and '.join(given)}, but fit saw {' and '.join(known)}."
            )
        unseen = np.setdiff1d(labels, self.classes_)
        if unseen.size:
            warnings.warn(
                f"y holds labels that fit never saw, {unseen.tolist()}; they count as "
                "errors.",
                UserWarning,
                stacklevel=2,
            )
        lengths = [len(labels) for labels in predicted]
        for i, labels in enumerate(y):
            if len(labels) != lengths[i]:
                raise ValueError(
                    f"X[{i}] has {lengths[i]} positions and y[{i}] has {len(labels)}."
                )
        right = [(a == np.asarray(b)).sum() for a, b in zip(predicted, y, strict=True)]
        weights = shares(sample_weight, len(lengths))
        return float(weights @ right / (weights @ lengths))

    def _ready(self, X: Sequence[Any]):
        check_is_fitted(self)
        packed = pack_features(X)
        if packed.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {packed.n_features} features, but ChainSSVM was fitted with "
                f"{self.n_features_in_}."
            )
        data = chain.layout(packed, len(self.classes_))
        kernels = chain.kernels_for(data)
        weights = chain.ChainWeights(
            self.coef_, self.intercept_, self.first_, self.last_, self.transitions_
        )
        _refuse_overflow(weights, data)
        return data, chain.pack_weights(weights, data.width), kernels, packed.begin

    def __sklearn_tags__(self):
        """Say that X is a list of sequences, dense or sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _refuse_overflow(weights: chain.ChainWeights, data: chain.Chains) -> None:
    """Refuse scores that are no numbers in float32: any labelling would seem best."""
    largest = float(max(np.abs(part).max() for part in weights))
    sums = np.diff(data.feature_begin)  # of the features of each position
    if data.values.size:
        sums = np.add.reduceat(np.abs(data.values), data.feature_begin[:-1])
    most = largest * (float(sums.max()) + 1.0) * float(np.diff(data.begin).max())
    if not most < MOST_SCORE:
        raise ValueError(
            f"scores may reach {most:.1g}, and must stay below {MOST_SCORE:g}; the "
            f"largest weight is {largest:.1g}: scale X, or fit again."
        )


def _attributes(classes: np.ndarray, weights: chain.ChainWeights) -> dict[str, Any]:
    return {
        "classes_": classes,
        "coef_": weights.features,
        "intercept_": weights.bias,
        "first_": weights.first,
        "last_": weights.last,
        "transitions_": weights.transitions,
        "n_features_in_": weights.features.shape[1],
    }
