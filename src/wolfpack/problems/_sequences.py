"""Lists of sequences as flat arrays, and a sentence for each that does not fit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from wolfpack.checks.inputs import encode, join_labels, refuse_features
from wolfpack.problems.packed import PackedSequences

# Positions without a zero share one list of columns where that saves this many numbers.
SHARED_FROM = 2**22
CHUNK = 512  # sequences that are unpacked at a time


class Positions(NamedTuple):
    """The features of all positions, a bias, and one more for a first and last one.

    Features are numbered from 0, then come bias, first and last. Position t has the
    values from feature_begin[t] to feature_begin[t + 1]. Their features begin at
    index_begin[t], or at feature_begin[t] too where `index_begin` is empty.
    """

    begin: np.ndarray  # first position of each sequence, and the end
    n_features: int
    feature_begin: np.ndarray
    index_begin: np.ndarray
    features: np.ndarray
    values: np.ndarray  # empty if all are 1


def pack_features(X: Sequence[Any]) -> Positions:
    """Lay the features of all positions of all sequences one after the other."""
    if isinstance(X, PackedSequences):
        begin, n_features, room = X.begin, X.n_features, len(X.indices)
        rows, parts = None, (X.rows(a, b) for a, b in _ranges(len(X)))
    else:
        rows = _check_rows(X)
        begin = np.concatenate([[0], np.cumsum([x.shape[0] for x in rows])])
        n_features = rows[0].shape[1]
        room = sum(x.nnz if sp.issparse(x) else x.size for x in rows)
        parts = (_stack(rows[a:b]) for a, b in _ranges(len(rows)))
    share = rows is not None and _mostly_full(rows)
    room += int(begin[-1]) + 2 * (len(begin) - 1)
    packed = _fill(begin, n_features, room, parts, share)

    def name(k: int) -> str:
        position = np.searchsorted(packed.feature_begin, k, "right") - 1
        return f"X[{np.searchsorted(begin, position, 'right') - 1}]"

    refuse_features(packed.values, name)
    return packed


def is_sparse(X: Sequence[Any]) -> bool:
    """Return whether sequences were given as sparse matrices, as text is."""
    if isinstance(X, PackedSequences):
        return True
    return isinstance(X, Iterable) and any(sp.issparse(x) for x in X)


def _check_rows(X: Sequence[Any]) -> list[Any]:
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
    return rows


def _positions(x: Any, i: int) -> Any:
    if sp.issparse(x):
        matrix = x
    elif not isinstance(x, np.ndarray) and is_named(x):
        raise ValueError(
            f"X[{i}] holds dicts or strings; put a SequenceVectorizer before: "
            "make_pipeline(SequenceVectorizer(), ChainSSVM())."
        )
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


def is_named(x: Any) -> bool:
    """Return whether positions are dicts, strings or lists of strings."""
    first = next(iter(x), None) if isinstance(x, Iterable) else None
    if isinstance(first, list | tuple | set | frozenset):
        first = next(iter(first), None)
    return isinstance(first, Mapping | str)


def _ranges(n: int) -> Iterator[tuple[int, int]]:
    return ((a, min(a + CHUNK, n)) for a in range(0, n, CHUNK))


def _stack(rows: list[Any]) -> Any:
    """Make one CSR matrix, without zeros, of some sequences."""
    with np.errstate(over="ignore"):  # `pack_features` names the sequence
        if any(sp.issparse(x) for x in rows):
            matrix = sp.csr_matrix(sp.vstack(rows, format="csr", dtype=np.float32))
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
            return matrix
        return sp.csr_matrix(np.concatenate(rows).astype(np.float32, copy=False))


def _mostly_full(rows: list[Any]) -> bool:
    """Return whether most positions are dense and have no zero, and they are many."""
    if any(sp.issparse(x) for x in rows) or sum(x.size for x in rows) < SHARED_FROM:
        return False
    full = sum(int((x != 0).all(axis=1).sum()) for x in rows)
    return 2 * full > sum(len(x) for x in rows)


def _fill(
    begin: np.ndarray, n_features: int, room: int, parts: Iterator[Any], share: bool
) -> Positions:
    """Write the matrices of `parts` one after the other, with bias, first and last.

    `room` is more than they need; memory that is never written to costs nothing.
    """
    every = np.arange(n_features + 3, dtype=np.int32)
    shared = np.concatenate([every, np.delete(every, -2)]) if share else every[:0]
    features, values = np.empty(room, np.int32), np.empty(room, np.float32)
    features[: len(shared)] = shared
    feature_begin = np.zeros(begin[-1] + 1, np.int64)
    index_begin = np.zeros(begin[-1] if share else 0, np.int64)
    at, index_at, value_at, unit = 0, len(shared), 0, True
    is_first, is_last = np.zeros((2, begin[-1]), bool)
    is_first[begin[:-1]] = is_last[begin[1:] - 1] = True
    for part in parts:
        here = slice(at, at + part.shape[0])
        ends = np.column_stack([np.ones(part.shape[0]), is_first[here], is_last[here]])
        part = sp.csr_matrix(sp.hstack([part, sp.csr_matrix(ends, dtype=np.float32)]))
        part.sort_indices()
        counts, columns, at = np.diff(part.indptr), part.indices, here.stop
        if share:
            full = counts == n_features + ends.sum(axis=1)
            columns = columns[np.repeat(~full, counts)]
            index_begin[here] = _find_columns(counts, full, ends, n_features, index_at)
        features[index_at : index_at + len(columns)] = columns
        if unit and not (part.data == 1).all():
            unit, values[:value_at] = False, 1
        if not unit:
            values[value_at : value_at + len(part.data)] = part.data
        feature_begin[here.start + 1 : at + 1] = value_at + np.cumsum(counts)
        index_at, value_at = index_at + len(columns), value_at + len(part.data)
    features.resize(index_at, refcheck=False)
    values.resize(0 if unit else value_at, refcheck=False)
    return Positions(begin, n_features, feature_begin, index_begin, features, values)


def _find_columns(
    counts: np.ndarray, full: np.ndarray, ends: np.ndarray, n_features: int, at: int
) -> np.ndarray:
    """Return where the columns of positions are: at their own place, or shared ones.

    Two lists are shared: all columns, and all but "first". A full position has the
    beginning of the one or, where it is last and not first, the other.
    """
    own = np.where(full, 0, counts)
    shared = np.where(ends[:, 2] > ends[:, 1], n_features + 3, 0)
    return np.where(full, shared, at + np.cumsum(own) - own)


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
    for i, labels in enumerate(y):
        shape = np.shape(labels)
        if len(shape) != 1 or shape[0] == 0:
            raise ValueError(
                f"y[{i}] must be one label a position, but has shape {shape}."
            )
    return join_labels(y)


def _are_lists_of_strings(y: Any) -> bool:
    if not isinstance(y, list | tuple):
        return False
    if not all(type(labels) is list and labels for labels in y):
        return False
    return set(map(type, chain.from_iterable(y))) == {str}


def encode_sequences(y: Sequence[Any]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the sorted labels, and y as numbers 0 ... K - 1."""
    if _are_lists_of_strings(y):  # as below, in less time and memory
        classes = np.array(sorted({*chain.from_iterable(y)}))
        number = {name: k for k, name in enumerate(classes.tolist())}
        flat = map(number.__getitem__, chain.from_iterable(y))
        codes = np.fromiter(flat, np.int64)
    else:
        classes, codes = encode(join_sequences(y))
    ends = np.cumsum([len(labels) for labels in y])[:-1]
    return classes, np.split(codes, ends)
