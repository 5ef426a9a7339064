"""What a fitted model of change points says, and does with another signal."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from wolfpack.change_points.choice import Choice
from wolfpack.change_points.elbow import NumberPath
from wolfpack.change_points.evidence import joined_fit, straight_fit
from wolfpack.change_points.given import Given, Incomplete
from wolfpack.change_points.segmentation import read_signal
from wolfpack.change_points.support import Support, explain_points
from wolfpack.estimators._signal import SignalEstimator

# What ruptures calls the parameters of `predict`, and what to write instead.
HABITS = {
    "pen": "GroupFusedLasso(penalty=...).fit(Y).change_points_",
    "n_bkps": "GroupFusedLasso(n_change_points=...).fit(Y).change_points_",
    "epsilon": "GroupFusedLasso(n_change_points='auto').fit(Y).change_points_",
}


class Choosing(SignalEstimator):
    """The attributes and methods that follow from a choice of change points."""

    n_change_points: Any
    min_size: Any
    _choice: Choice | None = None
    _rows: np.ndarray | None = None

    @property
    def n_change_points_(self) -> int:
        """How many change points there are."""
        return len(self.change_points_)

    @property
    def model_(self) -> str:
        """What the signal is between its change points."""
        return self._chosen("model_").model

    @property
    def reason_(self) -> str:
        """A sentence that says why there are so many change points."""
        return self._chosen("reason_").reason

    @property
    def significant_(self) -> np.ndarray:
        """Which change points noise and drift do not explain."""
        return self._chosen("significant_").significant

    @property
    def change_points_path_(self) -> NumberPath:
        """Cost and change points for each number of them."""
        path = self._chosen("change_points_path_").path
        assert path is not None
        if self._rows is not None:  # rows of weight 0 were left out
            path = path._replace(points=[self._rows[one] for one in path.points])
        return path

    @property
    def costs_(self) -> np.ndarray:
        """The costs of `change_points_path_`."""
        self._chosen("costs_")
        return self.change_points_path_.costs

    def predict(self, X: Any = None, **habits: Any) -> np.ndarray:
        """Return the segment of each row of X; see `transform`."""
        refuse_habits(habits)
        return self._fit_another(X, "labels_")

    def _learnt(self, n: int) -> dict[str, Any]:
        learnt: dict[str, Any] = {"warm_start": False}
        if self._choice is None:
            learnt["alpha"] = self.alpha_
        elif isinstance(self.n_change_points, int | np.integer):
            most = n // max(self.min_size, 1) - 1
            learnt["n_change_points"] = min(self.n_change_points, max(most, 0))
        return learnt

    def explain(self, X: Any, *, n_draws: int = 199, random_state: Any = 0) -> Support:
        """Say how sure each change point is; it simulates noise, and takes seconds.

        Parameters
        ----------
        X : array (n, d) or (n,)
            The signal of `fit`.
        n_draws : int
            How many signals without a change are simulated.
        random_state : int, RandomState or None
            Seeds them.

        Returns
        -------
        Support
            Gain, columns and p-value of each change point.
        """
        check_is_fitted(self)
        X = np.asarray(read_signal(self, X), dtype=np.float64)
        if np.isnan(X).any():
            raise ValueError(
                "explain simulates whole signals, but X has missing entries: leave out "
                "rows with NaN, or fill them."
            )
        straight = self._choice is not None and self._choice.straight
        return explain_points(
            X, self.change_points_, straight=straight, n_draws=n_draws,
            random_state=random_state,
        )  # fmt: skip

    def _chosen(self, name: str) -> Choice:
        if self._choice is None:
            raise AttributeError(
                f"{type(self).__name__} has {name} after `fit` with n_change_points or "
                "penalty; without them all points of the lasso are kept."
            )
        return self._choice

    def _fit_segments(self, given: Given, points: np.ndarray) -> np.ndarray:
        """Return means of segments, or straight lines where these were chosen."""
        choice = self._choice
        if choice is None or not choice.straight or isinstance(given, Incomplete):
            return given.means(points, self.signal_)
        fit = joined_fit if choice.model.endswith("joined") else straight_fit
        return fit(given.values, points, given.weights)


def refuse_habits(habits: dict[str, Any]) -> None:
    """Say what to call in place of ruptures' `predict(pen=)` and `predict(n_bkps=)`."""
    for name in habits:
        instead = HABITS.get(name)
        if instead is None:
            raise TypeError(f"predict takes X only, and no {name}.")
        raise TypeError(
            f"predict takes a signal, and no {name}: write {instead}. The end of the "
            "signal is no change point there."
        )
