"""A path of models, one for each regularisation, each started from the last."""

import copy
import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

from sklearn.base import clone

from wolfpack.checks.inputs import positive
from wolfpack.estimators._base import DualEstimator

Model = TypeVar("Model", bound=DualEstimator)


def alpha_path(
    model: Model, X: Any, y: Any = None, alphas: Iterable[float] = (), **fit_params: Any
) -> list[Model]:
    """Fit a model for each alpha, each from where the one before it stopped.

    The largest alpha comes first, because it is the easiest. The point of the dual at
    which a fit stops is feasible for every alpha, so the next one starts there. The
    certificates are as good as those of single fits.

    Parameters
    ----------
    model : estimator of wolfpack
        What to fit; it stays as it is. All of them have the parameter `alpha`.
    X, y
        As in the `fit` of the model; y is None for `GroupFusedLasso`.
    alphas : numbers > 0
        The regularisations, in any order.
    **fit_params
        Given to each `fit`, `sample_weight` for example.

    Returns
    -------
    list of estimators
        A fitted model for each alpha, in the order given. `n_iter_` counts the passes
        of this alpha alone.

    Examples
    --------
    >>> import wolfpack
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = wolfpack.MulticlassSVM(random_state=0)
    >>> [m.alpha for m in wolfpack.alpha_path(model, X, y, [0.01, 0.1, 1.0])]
    [0.01, 0.1, 1.0]
    """
    if not isinstance(model, DualEstimator) or "alpha" not in model.get_params():
        given = type(model).__name__
        raise TypeError(f"model must be an estimator of wolfpack, but is a {given}.")
    wanted = [positive("alphas", alpha) for alpha in alphas]
    if not wanted:
        raise ValueError("alphas holds no number; give at least one, such as [0.01].")
    worker: Any = clone(model)
    worker.set_params(warm_start=True)
    args = (X,) if y is None else (X, y)
    found = {}
    for alpha in sorted(set(wanted), reverse=True):
        worker.set_params(alpha=alpha).fit(*args, **fit_params)
        found[alpha] = _photograph(worker, model)
    return [found[alpha] for alpha in wanted]


def _photograph(worker: Any, model: Model) -> Model:
    """Return the worker as it is, with the `warm_start` of the model.

    Each `fit` makes new arrays, so they need not be copied.
    """
    picture = copy.copy(worker)
    picture.warm_start = model.warm_start
    if not model.warm_start:
        picture.result_ = dataclasses.replace(worker.result_, state=None)
    return picture
