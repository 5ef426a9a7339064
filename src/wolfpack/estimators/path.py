"""Fits for several values of alpha, each starting where the last one ended."""

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from sklearn.base import clone

from wolfpack.checks.inputs import positive


def alpha_path(
    estimator: Any, X: Any, y: Any, alphas: Iterable[float], **fit_params: Any
) -> Iterator[Any]:
    """Fit for every alpha, from the largest to the smallest, with warm starts.

    Parameters
    ----------
    estimator : ChainSSVM or MulticlassSVM
        What to fit; it is not changed.
    X, y
        The training data.
    alphas : iterable of float
        In any order.
    **fit_params
        Go to `fit`: `sample_weight`, say.

    Yields
    ------
    estimator
        Fitted with the next alpha, its attribute `alpha`. Only the last state is kept.

    Examples
    --------
    >>> import wolfpack
    >>> train, test = wolfpack.load_dates(n_train=200, n_test=50)
    >>> model = wolfpack.ChainSSVM(tol=0.01, random_state=0)
    >>> path = wolfpack.alpha_path(model, train.X, train.y, [0.1, 0.03, 0.01])
    >>> [(m.alpha, m.score(test.X, test.y) > 0.8) for m in path]
    [(0.1, True), (0.03, True), (0.01, True)]
    """
    values = sorted((positive("alpha", alpha) for alpha in alphas), reverse=True)
    model: Any = clone(estimator)
    model.set_params(warm_start=True)
    for alpha in values:
        model.set_params(alpha=alpha).fit(X, y, **fit_params)
        fitted = copy.copy(model)
        fitted.result_ = dataclasses.replace(model.result_, state=None)
        yield fitted.set_params(warm_start=estimator.warm_start)
