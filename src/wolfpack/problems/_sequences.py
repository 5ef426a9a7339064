"""Lists of sequences as flat arrays, and a sentence for each that does not fit."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from wolfpack.checks.inputs import encode, join_labels, refuse_features


def pack_features(X: Sequence[Any]) -> tuple[np.ndarray, Any]:
    """Stack the sequences; return where each begins, and all positions' features."""
    if sp.issparse(X) or not hasattr(X, "__len__"):
        raise ValueError(
            "X must be a list of (T_i, p) arrays, one a sequence, not a "
            f"{type(X).__name__}."
        )
    if len(X) == 0:
        raise ValueError("X is empty: at least one sequence is needed.")
    rows = []
    for i, x in enumerate(X):
        rows.append(_positions(x, i))
        if rows[i].shape[1] != rows[0].shape[1]:
            raise ValueError(
                f"X[{i}] has {rows[i].shape[1]} features, X[0] has {rows[0].shape[1]}; "
                "every sequence must have the same number of columns."
            )
    begin = np.concatenate([[0], np.cumsum([x.shape[0] for x in rows])])
    if any(sp.issparse(x) for x in rows):
        with np.errstate(over="ignore"):
            matrix = sp.csr_matrix(sp.vstack(rows, format="csr", dtype=np.float32))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    else:
        matrix = _sparse(rows)

    def name(k: int) -> str:
        position = np.searchsorted(matrix.indptr, k, "right") - 1
        return f"X[{np.searchsorted(begin, position, 'right') - 1}]"

    refuse_features(matrix.data, name)
    return begin, matrix


def _positions(x: Any, i: int) -> Any:
    if sp.issparse(x):
        matrix = x
    else:
        try:
            matrix = np.asarray(x)
        except ValueError as error:
            raise ValueError(f"X[{i}] is ragged: its rows differ in length.") from error
        if matrix.dtype == object or matrix.dtype.kind not in "biuf":
            raise ValueError(
                f"X[{i}] must be a numeric (T, p) array, but has dtype {matrix.dtype}; "
                "rows of different lengths give such an array."
            )
    if matrix.ndim != 2 or matrix.shape[0] == 0:
        raise ValueError(
            f"X[{i}] must have shape (T >= 1, p), but has shape {matrix.shape}."
        )
    return matrix


def _sparse(rows: list[np.ndarray]) -> Any:
    """Make one CSR matrix without ever holding all positions as dense floats."""
    with np.errstate(over="ignore"):  # `pack_features` names the sequence
        kept = (x.astype(np.float32, copy=False) for x in _batches(rows))
        parts = [sp.csr_matrix(x) for x in kept]
    return sp.csr_matrix(sp.vstack(parts, format="csr"))


def _batches(rows: list[np.ndarray], size: int = 512) -> Iterator[np.ndarray]:
    for k in range(0, len(rows), size):
        yield np.concatenate(rows[k : k + size])


def pack_labels(y: Sequence[Any], begin: np.ndarray) -> np.ndarray:
    """Stack the labels, and compare their lengths with those of the features."""
    n = len(begin) - 1
    if len(y) != n:
        raise ValueError(f"X has {n} sequences and y has {len(y)}; they must be equal.")
    arrays = [np.asarray(labels) for labels in y]
    for i, labels in enumerate(arrays):
        length = begin[i + 1] - begin[i]
        if labels.shape != (length,):
            raise ValueError(
                f"X[{i}] has {length} positions, but y[{i}] has shape {labels.shape}; "
                "each position needs one label."
            )
    labels = np.concatenate(arrays)
    if labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers, but are {labels.dtype}.")
    return labels


def join_sequences(y: Sequence[Any]) -> np.ndarray:
    """Return the labels of all sequences one after the other."""
    if not hasattr(y, "__len__"):
        raise ValueError(
            f"y must be a list of label arrays, one a sequence, not {type(y).__name__}."
        )
    if len(y) == 0:
        raise ValueError("y is empty: at least one sequence is needed.")
    arrays = [np.asarray(labels) for labels in y]
    for i, labels in enumerate(arrays):
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(
                f"y[{i}] must be one label a position, but has shape {labels.shape}."
            )
    return join_labels(y)


def encode_sequences(y: Sequence[Any]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the sorted labels, and y as numbers 0 ... K - 1."""
    classes, codes = encode(join_sequences(y))
    ends = np.cumsum([len(labels) for labels in y])[:-1]
    return classes, np.split(codes, ends)
