"""What estimators of signals share: the parts of a signal, and other signals."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from wolfpack.change_points.segmentation import StaircaseWarning, read_signal
from wolfpack.change_points.selection import ElbowWarning
from wolfpack.estimators._base import DualEstimator


class SignalEstimator(OneToOneFeatureMixin, TransformerMixin, DualEstimator):
    """An estimator whose `fit` cuts a signal into segments, or straight pieces."""

    fit: Any
    alpha_: float
    change_points_: np.ndarray
    signal_: np.ndarray
    n_features_in_: int
    _least = 2  # rows of a signal that can be cut

    @property
    def labels_(self) -> np.ndarray:
        """The segment, or piece, of each row, from 0 on."""
        rows = np.arange(len(self.signal_))
        return np.searchsorted(self.change_points_, rows, side="right")

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None):
        """Return the signal recovered from X."""
        return self.fit(X, sample_weight=sample_weight).signal_

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None):
        """Return the segment, or piece, of each row of X, from 0 on."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def transform(self, X: Any) -> np.ndarray:
        """Recover the signal behind X, with the alpha and number learnt.

        "auto" chooses the number anew.
        """
        return self._fit_another(X, "signal_")

    def _fit_another(self, X: Any, name: str) -> np.ndarray:
        check_is_fitted(self)
        X = read_signal(self, X)
        if len(X) < self._least:
            return {"signal_": X, "labels_": np.zeros(len(X), np.intp)}[name]
        other: Any = clone(self)
        other.set_params(callback=None, **self._learnt(len(X)))
        with warnings.catch_warnings():  # `fit` has said so
            warnings.simplefilter("ignore", StaircaseWarning)
            warnings.simplefilter("ignore", ElbowWarning)
            return getattr(other.fit(X), name)

    def _learnt(self, n: int) -> dict[str, Any]:
        """Return parameters with which to fit another signal, of n rows."""
        return {"alpha": self.alpha_}

    def plot(self, noisy: np.ndarray, original: np.ndarray | None = None, axes=None):
        """Draw original, noisy and recovered signal, as in the paper's Figure 5."""
        check_is_fitted(self)
        from wolfpack.plotting import plot_signals

        return plot_signals(noisy, self.signal_, original=original, axes=axes)
