"""What an unfinished fit says: how far it came, why, and what to do."""

import contextlib
from typing import Any

import numpy as np
from scipy import sparse

from wolfpack.result import Result, Status, in_words

FAILED = (Status.DIVERGED, Status.ABANDONED)
UNFINISHED = (Status.EPOCH_LIMIT, Status.TIME_LIMIT, Status.STALLED, *FAILED)
MUCH = 100.0  # times the largest number of another column: a hard problem
MANY = 2**27  # numbers that are not looked through


def advise(result: Result, tol: float, X: Any, y: Any) -> str:
    """Return what to say about a fit to X that did not reach its goal."""
    passes = f"{result.epochs:g} pass{'' if result.epochs == 1 else 'es'}"
    reached = (
        f"the relative gap is {result.relative_gap:.3g} after {passes} (gap "
        f"{result.gap:.3g}, {in_words(result.gap_over_primal)})"
    )
    cause = "" if y is None else _uneven(X)
    if result.status is Status.STALLED:
        return (
            f"{result.status.value} Here {reached}; tol = {tol:g} is out of reach."
            + cause
        )
    if result.status in FAILED:
        return result.status.value + cause
    limit = "max_iter" if result.status is Status.EPOCH_LIMIT else "max_seconds"
    others = f"Raise {limit} or tol." if not cause else f"Or raise {limit} or tol."
    return (
        f"Stopped before convergence: {reached}, above tol = {tol:g}.{cause} {others}"
    )


def _uneven(X: Any) -> str:
    """Return a sentence if columns of X differ much in size; X may be sequences."""
    with contextlib.suppress(Exception):  # words, or what only `fit` understands
        sizes = _largest(X)
        sizes = sizes[sizes > 0.0]
        ratio = float(sizes.max() / sizes.min())
        if ratio >= MUCH:
            return (
                f" The columns of X differ in size {ratio:.2g} times, which makes the "
                "problem hard: scale them, for example with StandardScaler of "
                "scikit-learn."
            )
    return ""


def _largest(X: Any) -> np.ndarray:
    """Return the largest absolute value in each column."""
    if isinstance(X, list | tuple):
        return np.max([_largest(one) for one in X if len(one)], axis=0)
    if sparse.issparse(X):
        return abs(X).max(axis=0).toarray().ravel()
    table = np.asarray(X, dtype=float)
    if table.ndim != 2 or table.size > MANY:
        raise TypeError("no table")
    return np.abs(table).max(axis=0)
