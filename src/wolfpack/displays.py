"""Pictures of what a chain model has learnt, in the shape of scikit-learn's Displays.

`from_estimator` takes a fitted `ChainSSVM`, or a pipeline that ends with one; `plot`
draws into axes and returns the display.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from wolfpack.plotting import BLUE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wolfpack.estimators.structured import ChainSSVM


class TransitionDisplay:
    """The weights of the transitions from one label (row) to the next (column).

    Attributes
    ----------
    ax_, figure_
        Where `plot` drew last.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.displays import TransitionDisplay
    >>> train, _ = wolfpack.load_dates(n_train=20, n_test=1)
    >>> model = wolfpack.ChainSSVM(alpha=0.1, tol=0.05, random_state=0)
    >>> model = model.fit(train.X, train.y)
    >>> TransitionDisplay.from_estimator(model).plot().ax_.get_ylabel()
    'label'
    """

    ax_: "Axes"
    figure_: "Figure"

    def __init__(self, transitions: np.ndarray, labels: Sequence[Any]) -> None:
        self.transitions, self.labels = transitions, labels

    @classmethod
    def from_estimator(cls, estimator: Any) -> "TransitionDisplay":
        """Return the display of a fitted model."""
        model, _ = _unwrap(estimator)
        return cls(model.transitions_, model.classes_.tolist())

    def plot(self, ax: "Axes | None" = None) -> "TransitionDisplay":
        """Draw a square for each pair of labels: red where likely, blue where not."""
        size = max(4.0, 0.28 * len(self.labels) + 2.0)
        self.ax_ = ax = _new_axes(size, size) if ax is None else ax
        self.figure_ = ax.figure  # pyright: ignore[reportAttributeAccessIssue]
        most = max(float(np.abs(self.transitions).max()), 1e-12)
        image = ax.imshow(self.transitions, cmap="RdBu_r", vmin=-most, vmax=most)
        ax.figure.colorbar(image, ax=ax, shrink=0.7, label="weight")
        places = range(len(self.labels))
        ax.set_xticks(places, [str(one) for one in self.labels], rotation=90)
        ax.set_yticks(places, [str(one) for one in self.labels])
        ax.set_xlabel("next label")
        ax.set_ylabel("label")
        return self


class TopFeaturesDisplay:
    """The features that speak most for and against each label.

    Attributes
    ----------
    axes_, figure_
        Where `plot` drew last; one axes a label.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.displays import TopFeaturesDisplay
    >>> train, _ = wolfpack.load_dates(n_train=20, n_test=1)
    >>> model = wolfpack.ChainSSVM(alpha=0.1, tol=0.05, random_state=0)
    >>> model = model.fit(train.X, train.y)
    >>> display = TopFeaturesDisplay.from_estimator(model, labels=[0, 1], n=5)
    >>> len(display.plot().axes_)
    2
    """

    axes_: "list[Axes]"
    figure_: "Figure"

    def __init__(self, features: dict[Any, list[tuple[str, float]]]) -> None:
        self.features = features

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        names: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        n: int = 10,
    ) -> "TopFeaturesDisplay":
        """Return the display of a fitted model.

        `names` are the names of the columns, which a pipeline knows. `labels` are those
        to show, by default all. `n` features are shown for each label: half of them
        speak for it, half against it.
        """
        model, known = _unwrap(estimator)
        names = known if names is None else names
        chosen = model.classes_.tolist() if labels is None else labels
        features = {}
        for label in chosen:
            best = model.top_features(label, names, n - n // 2)
            worst = model.top_features(label, names, n // 2, lowest=True)
            features[label] = best + worst[::-1]
        return cls(features)

    def plot(self, ax: "Axes | Sequence[Axes] | None" = None) -> "TopFeaturesDisplay":
        """Draw a bar for each feature; `ax` holds as many axes as there are labels."""
        if ax is None:
            rows = max(len(one) for one in self.features.values())
            height = 0.22 * rows + 0.8
            count = len(self.features)
            ax = [_new_axes(5.0, height * count, count, k) for k in range(count)]
        self.axes_ = list(np.ravel(np.asarray(ax, object)))
        if len(self.axes_) != len(self.features):
            raise ValueError(f"{len(self.features)} axes are needed, one a label.")
        self.figure_ = self.axes_[0].figure  # pyright: ignore[reportAttributeAccessIssue]
        for axes, (label, pairs) in zip(self.axes_, self.features.items(), strict=True):
            weights = [weight for _, weight in pairs]
            colours = [RED if weight > 0 else BLUE for weight in weights]
            axes.barh(range(len(pairs)), weights, color=colours)
            axes.set_yticks(range(len(pairs)), [name for name, _ in pairs])
            axes.invert_yaxis()
            axes.set_title(str(label))
        self.axes_[-1].set_xlabel("weight")
        return self


def _unwrap(estimator: Any) -> "tuple[ChainSSVM, Any]":
    """Return a fitted model, and the names of its features if they are known."""
    if not isinstance(estimator, Pipeline):
        return estimator, None
    model: Any = estimator[-1]
    return model, estimator[:-1].get_feature_names_out()


def _new_axes(width: float, height: float, rows: int = 1, row: int = 0) -> "Axes":
    import matplotlib.pyplot as plt

    if row == 0:
        figure = plt.figure(figsize=(width, height), layout="constrained")
        return figure.add_subplot(rows, 1, 1)
    return plt.gcf().add_subplot(rows, 1, row + 1)
