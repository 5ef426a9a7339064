"""Compile before the time counts: what `fit` and `predict` of a model will call."""

from typing import Any

from sklearn.base import clone


def warmup(model: Any, X: Any, y: Any = None, **fit_params: Any) -> None:
    """Compile, or load, all that `model.fit(X, y)` and `predict` will call.

    Which loops these are depends on the data too (on the number of labels, on sparse
    or dense features, on their size) and on the engine or `n_jobs`, so all of these are
    needed. A copy of the model is made and stopped before its first update; `model`
    stays as it is. It takes the memory of `fit`, and the time of one check.

    Parameters
    ----------
    model : estimator
        One of wolfpack's, or a pipeline or a search that holds one.
    X, y, **fit_params
        As `model.fit` takes them.

    Examples
    --------
    >>> import wolfpack
    >>> train, test = wolfpack.load_dates(n_train=20, n_test=1)
    >>> wolfpack.warmup(wolfpack.ChainSSVM(), train.X, train.y)
    """
    names = [name for name in _params(model) if name.split("__")[-1] == "callback"]
    if not names:
        raise ValueError(
            "warmup takes an estimator of wolfpack, or one that holds such; given was "
            f"{model!r}."
        )
    copy: Any = clone(model)
    copy.set_params(**dict.fromkeys(names, _stop))
    copy.fit(X, y, **fit_params)
    if hasattr(copy, "predict"):
        copy.predict(X[:1])


def _params(model: Any) -> list[str]:
    is_estimator = hasattr(model, "get_params") and not isinstance(model, type)
    return list(model.get_params()) if is_estimator else []


def _stop(event: Any) -> bool:
    return True
