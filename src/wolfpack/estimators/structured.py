"""Structured prediction: the chain structural SVM as an estimator."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from wolfpack.estimators._base import DualEstimator
from wolfpack.estimators._callbacks import with_callbacks
from wolfpack.estimators._class_weight import weigh_classes
from wolfpack.estimators._labelling import ChainLabelling
from wolfpack.problems import chain
from wolfpack.problems.sequences import encode_sequences, is_sparse
from wolfpack.result import Event


def auto_alpha(X: Sequence[Any]) -> float:
    """Return what alpha="auto" stands for.

    Losses of sparse sequences are not divided by the length (`normalize`), so they
    weigh more against |w|^2; on text 0.001 did best (docs/sequences.md).
    """
    return 0.001 if is_sparse(X) else 0.01


class ChainSSVM(ChainLabelling, DualEstimator):
    """Label sequences with a linear-chain structural SVM.

    Minimises alpha/2 |w|^2 + mean over sequences of the structured hinge loss, with
    the Hamming distance between labellings as the loss, unless `loss` says otherwise.

    Parameters
    ----------
    alpha : float or "auto"
        Regularisation, lambda in the paper; C = 1 / (alpha n). Smaller fits closer
        and takes longer. "auto": 0.01, or 0.001 where X is sparse, as text is. Begin a
        search for the best alpha there.
    normalize : bool or "auto"
        Whether the loss of a sequence is divided by its length. If it is, all sequences
        count alike; if not, all positions do, which is what chunk F1 and accuracy
        count, and what text needs. "auto": not where X is sparse, as text is.
        Without it losses are larger, by the length of a sequence.
    loss : array (K, K), optional
        What a position costs, by its right label (row) and the given one (column), both
        in the order of `classes_`. Default: 1 for every wrong label.
    class_weight : dict, "balanced" or None
        Multiplies what a position costs by the weight of its right label: the margin
        that it asks for. "balanced" weighs labels by one over how often they occur.
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
        Stop at this duality gap, relative to the objective at w = 0, the mean of the
        largest losses: 1 with normalize=True, without it the mean length of sequences,
        of which the optimum may be a tenth.
    max_iter : int
        The most passes over the data.
    max_seconds : float, optional
        The most time.
    warm_start : bool
        Go on from the last `fit` instead of starting anew. Other parameters, and new
        sequences after those of the last `fit`, may be given then.
    n_jobs : int, optional
        Threads: -1 is all cores, None is 1 unless a joblib context says more. Each
        holds a few copies of the weights. With more than one, averaging and
        step="open-loop" are refused.
    engine : Serial, Threads, Sync, Delayed, Ray or None
        The engine of `wolfpack.solve`. None: `Serial()`, or `Threads` where `n_jobs`
        asks for more than one thread. An engine has its own number of workers, so
        `n_jobs` must be None beside it.
    random_state : int, RandomState or None
        The same number gives the same bits, with one thread.
    callback : function (Event) -> bool, optional
        Called during `fit` as by `wolfpack.solve`; returning True stops. Callbacks of
        scikit-learn, which `set_callbacks` takes, are told of whole passes only.
    verbose : int
        1 prints the gap at each check, and about every two seconds its estimate, on
        stderr, or logs it to the logger "wolfpack" where logging shows its level INFO.

    Attributes
    ----------
    classes_ : ndarray of K labels
    coef_ : ndarray (K, n_features)
    intercept_, first_, last_ : ndarray of K
        Weights of any position, of the first and of the last one.
    transitions_ : ndarray (K, K)
        From one label (row) to the next (column).
    objective_, dual_objective_, gap_, relative_gap_ : float
        The certificate: the optimum lies between the first two. `tol` is compared
        with the last.
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
    alpha_, normalize_, losses_, takes_lists_
        What `alpha`, `normalize`, `loss` and `class_weight` came to, and whether `y`
        held lists.

    Examples
    --------
    >>> import wolfpack
    >>> train, test = wolfpack.load_dates(n_train=200, n_test=50)
    >>> model = wolfpack.ChainSSVM(alpha=0.01, random_state=0)
    >>> model.fit(train.X, train.y).score(test.X, test.y) > 0.8
    True
    """

    alpha: float | Literal["auto"]
    normalize: bool | Literal["auto"]
    loss: Any
    class_weight: Any
    _more = ", or with more sequences after the old ones"

    def __init__(
        self,
        *,
        alpha: float | Literal["auto"] = "auto",
        normalize: bool | Literal["auto"] = "auto",
        loss: Any = None,
        class_weight: Any = None,
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
    def fit(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None
    ) -> "ChainSSVM":
        """Learn from labelled sequences.

        Parameters
        ----------
        X : list of (T_i, p) arrays or sparse matrices
            The features of each position of each sequence. Dicts and strings go
            through a `SequenceVectorizer` first.
        y : list of (T_i,) arrays or lists
            The label of each position: numbers or strings.
        sample_weight : array of n, optional
            A weight of 2 counts as the sequence twice; only ratios matter.

        Returns
        -------
        ChainSSVM
            Itself.
        """
        classes, codes = encode_sequences(y)
        self._refuse_others(classes, "labels")
        learnt = {
            "alpha_": self._choose_alpha(X),
            "classes_": classes,
            "takes_lists_": isinstance(y[0], list),
            "normalize_": self._normalizes(X),
            "losses_": self._weigh_losses(classes, codes),
        }
        problem = chain.chain_ssvm(
            X,
            codes,
            learnt["alpha_"],
            n_labels=len(classes),
            normalize=learnt["normalize_"],
            loss=learnt["losses_"],
            sample_weight=sample_weight,
        )
        del codes  # the problem has them in fewer bytes
        describe = functools.partial(_attributes, learnt)
        self._solve(problem, describe, X, y, sample_weight)
        return self

    def _choose_alpha(self, X: Sequence[Any]) -> float:
        if isinstance(self.alpha, str) and self.alpha == "auto":
            return auto_alpha(X)
        return self._limit("alpha")

    def _normalizes(self, X: Sequence[Any]) -> bool:
        if isinstance(self.normalize, str) and self.normalize == "auto":
            return not is_sparse(X)
        if not isinstance(self.normalize, bool | np.bool_):
            raise ValueError(
                f"normalize must be True, False or 'auto', but is {self.normalize!r}."
            )
        return bool(self.normalize)

    def _weigh_losses(
        self, classes: np.ndarray, codes: list[np.ndarray]
    ) -> np.ndarray | None:
        """Return the matrix of losses, its rows multiplied by the class weights."""
        size = len(classes)
        if self.class_weight is None:
            return None if self.loss is None else np.asarray(self.loss)
        loss = 1.0 - np.eye(size) if self.loss is None else np.asarray(self.loss)
        weight = weigh_classes(self.class_weight, classes, np.concatenate(codes))
        # `chain_ssvm` refuses a matrix of another shape.
        return loss * weight[:, None] if loss.shape == (size, size) else loss

    def __sklearn_tags__(self):
        """Say that X is a list of sequences, dense or sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _attributes(learnt: dict[str, Any], weights: chain.ChainWeights) -> dict[str, Any]:
    return {
        **learnt,
        "coef_": weights.features,
        "intercept_": weights.bias,
        "first_": weights.first,
        "last_": weights.last,
        "transitions_": weights.transitions,
        "n_features_in_": weights.features.shape[1],
    }
