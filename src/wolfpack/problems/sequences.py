"""Lists of sequences as flat arrays; each that does not fit is refused."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from wolfpack.checks.inputs import encode, join_labels, refuse_features
from wolfpack.problems.packed import PackedSequences, Positions

# Positions without a zero share one list of columns where that saves this many numbers.
SHARED_FROM = 2**22
CHUNK = 2**18  # numbers that are packed at a time, or those of one sequence
N_ENDS = 3  # columns after those of X: the bias, the first and the last position
_NONE = np.zeros(0, np.int32)
_NOTHING = Positions(_NONE, 0, np.zeros(1, np.int64), _NONE, _NONE, _NONE)


def pack_features(X: Sequence[Any]) -> Positions:
    """Lay the features of all positions of all sequences one after the other."""
    packed = pack_some(X)
    empty = np.flatnonzero(np.diff(packed.begin) == 0)
    if empty.size:
        shape = np.shape(X[empty[0]])
        raise ValueError(
            f"X[{empty[0]}] must have shape (T >= 1, p), but has shape {shape}."
        )
    if len(packed.begin) == 1:
        raise ValueError("X is empty: at least one sequence is needed.")
    return packed


def pack_some(X: Sequence[Any]) -> Positions:
    """Lay features one after the other; there may be empty sequences, or none.

    `n_features` is 0 where there is no position.
    """
    if isinstance(X, PackedSequences):
        packed = X.positions
    else:
        rows = _check_rows(X)
        begin = np.concatenate([[0], np.cumsum([x.shape[0] for x in rows], dtype=int)])
        rows = [x for x in rows if x.shape[0]]
        sizes = [x.nnz if sp.issparse(x) else x.size for x in rows]
        parts = (_stack(rows[a:b]) for a, b in _ranges(sizes))
        packed = fill(np.unique(begin), rows, parts, N_ENDS) if rows else _NOTHING
        packed = packed._replace(begin=begin)

    def name(k: int) -> str:
        position = np.searchsorted(packed.feature_begin, k, "right") - 1
        return f"X[{np.searchsorted(packed.begin, position, 'right') - 1}]"

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
    rows = [_positions(x, i) for i, x in enumerate(X)]
    full = [i for i, x in enumerate(rows) if x.shape[0]]
    for i in full:
        if rows[i].shape[1] != rows[full[0]].shape[1]:
            raise ValueError(
                f"X[{i}] has {rows[i].shape[1]} features, X[{full[0]}] has "
                f"{rows[full[0]].shape[1]}; every sequence must have the same number "
                "of columns."
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
        if matrix.shape[:1] == (0,):  # an empty sequence has no dtype, and no width
            return matrix
        if matrix.dtype == object or matrix.dtype.kind not in "biuf":
            raise ValueError(
                f"X[{i}] must be a numeric (T, p) array, but has dtype {matrix.dtype}; "
                "rows of different lengths give such an array."
            )
    if matrix.ndim != 2:
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


def _ranges(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Cut sequences of these sizes into ranges of about CHUNK numbers."""
    first, held = 0, 0
    for i, size in enumerate(sizes):
        if held and held + size > CHUNK:
            yield first, i
            first, held = i, 0
        held += size
    yield first, len(sizes)


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


def fill(
    begin: np.ndarray, rows: list[Any], parts: Iterator[Any], n_ends: int
) -> Positions:
    """Write CSR matrices, `parts` of `rows`, one after the other, with their ends.

    The first `n_ends` of bias, first and last are added.
    """
    n_features, share = rows[0].shape[1], _mostly_full(rows)
    # This is more than they need; memory that is never written to costs nothing.
    room = sum(x.nnz if sp.issparse(x) else x.size for x in rows) + int(begin[-1])
    room += 2 * (len(begin) - 1)
    every = np.arange(n_features + n_ends, dtype=np.int32)
    shared = every if share else every[:0]
    if share and n_ends == N_ENDS:
        shared = np.concatenate([every, np.delete(every, -2)])
    features = np.empty(room + len(shared), np.int32)
    values = np.empty(room, np.float32)
    features[: len(shared)] = shared
    feature_begin = np.zeros(begin[-1] + 1, np.int64)
    index_begin = np.zeros(begin[-1], np.int64) if share else feature_begin[:-1]
    at, index_at, value_at, unit = 0, len(shared), 0, True
    flags = np.ones((begin[-1], 3), np.float32)
    flags[:, 1:] = 0
    flags[begin[:-1], 1] = flags[begin[1:] - 1, 2] = 1
    for part in parts:
        here = slice(at, at + part.shape[0])
        ends = flags[here, :n_ends]
        if n_ends:
            part = sp.csr_matrix(sp.hstack([part, sp.csr_matrix(ends)]))
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

    Two lists are shared: all columns, and all but "first". A full position uses the
    beginning of the first list or, where it is last and not first, the second list.
    """
    own = np.where(full, 0, counts)
    shared = np.zeros(len(counts), np.int64)
    if ends.shape[1] == N_ENDS:
        shared[ends[:, 2] > ends[:, 1]] = n_features + N_ENDS
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
