"""Checks of numbers, weights and labels that many places share, in the same words."""

import math
from collections.abc import Callable, Sequence
from numbers import Number, Real
from typing import Any

import numpy as np

LEAST_ALPHA = 1e-300
LARGEST_FEATURE = 1e15


def is_number(value: Any) -> bool:
    """Return whether this is a real number that a float can hold, and not NaN."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:
        return False


def positive(name: str, value: Any) -> float:
    """Return a number that is > 0 and finite, as a float."""
    if not (is_number(value) and 0 < float(value) < math.inf):
        raise ValueError(f"{name} must be a finite number > 0, but is {value!r}.")
    return float(value)


def regularisation(alpha: Any) -> float:
    """Return the alpha of an SVM; the dual divides by it, so it must not underflow."""
    if positive("alpha", alpha) < LEAST_ALPHA:
        raise ValueError(f"alpha must be at least {LEAST_ALPHA:g}, but is {alpha!r}.")
    return float(alpha)


def refuse_features(values: np.ndarray, name: Callable[[int], str]) -> None:
    """Raise where features, or sums of their squares, do not fit into float32.

    `name(k)` says whose feature the k-th of the values is.
    """
    # The extremes are NaN where one value is; they need no memory, unlike |values|.
    if not values.size or max(values.max(), -values.min()) <= LARGEST_FEATURE:
        return
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST_FEATURE))
    one = values[bad[0]]
    if not np.isfinite(one):
        raise ValueError(
            f"{name(bad[0])} holds NaN or infinity; features are kept as float32, up "
            "to 3e38."
        )
    raise ValueError(
        f"{name(bad[0])} holds {one:g}, and features must not exceed "
        f"{LARGEST_FEATURE:g}: their squares are added as float32. Scale X."
    )


def no_rows(X: Any, n_features: int) -> Any:
    """Return an empty list as a table without rows, and anything else as it is."""
    is_empty = isinstance(X, list | tuple) and not X
    if is_empty or (isinstance(X, np.ndarray) and X.shape == (0,)):
        return np.zeros((0, n_features))
    return X


def at_least_one(name: str, value: Any) -> float:
    """Return the order of a norm: a number >= 1, or infinity."""
    if not (is_number(value) and value >= 1):
        raise ValueError(f"{name} must be at least 1, but is {value!r}.")
    return float(value)


def shares(sample_weight: Any, n: int, one: str = "sequence") -> np.ndarray:
    """Return the shares of n examples, which sum to 1."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weight = np.asarray(sample_weight)
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one a {one}, not {weight.shape}."
        )
    if weight.dtype.kind not in "biuf":
        raise ValueError(
            f"sample_weight must be numbers, but has dtype {weight.dtype}."
        )
    weight = weight.astype(np.float64)
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError(
            "sample_weight must be finite, >= 0, and not all 0; it reaches from "
            f"{weight.min():g} to {weight.max():g}."
        )
    weight /= weight.max()  # so that the sum neither overflows nor underflows
    return weight / weight.sum()


def join_labels(y: Sequence[Any]) -> np.ndarray:
    """Return the labels of all sequences one after the other."""
    refuse_mixed(*y)
    return np.concatenate([np.asarray(labels) for labels in y])


def refuse_mixed(*y: Any) -> None:
    """Raise where numbers and strings meet.

    NumPy would turn 1 into "1" there, and two labels would be one.
    """
    kinds = sorted({kind for labels in y for kind in kinds_of(labels)})
    if len(kinds) > 1:
        raise ValueError(
            f"y holds {' and '.join(kinds)}, which cannot be sorted together; use "
            "numbers or strings, not both."
        )


def kinds_of(labels: Any) -> set[str]:
    """Return whether labels are numbers, strings or else, before NumPy mixes them."""
    array = np.asarray(labels)
    if array.dtype.kind in "biufc":
        return {"numbers"}
    if array.ndim != 1:
        return {"objects"}
    given = labels if isinstance(labels, list | tuple) else array
    return {_kind(label_type) for label_type in set(map(type, given))}


def _kind(label_type: type) -> str:
    names = {str: "strings", bytes: "bytes", Number: "numbers", np.bool_: "numbers"}
    return next((names[k] for k in names if issubclass(label_type, k)), "objects")


def encode(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes, and the labels as numbers 0 ... K - 1."""
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError("y holds NaN or infinity; every label must be a number.")
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "y holds labels that cannot be sorted; use numbers or strings, not both."
        ) from error
