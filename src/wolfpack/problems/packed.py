"""Sequences of sparse positions in a few flat arrays.

A list of thousands of small CSR matrices takes more memory for the matrices than for
what is in them (2.8 kB each). `PackedSequences` looks like such a list and makes each
matrix when it is asked for. Its arrays are those that the chain problems read, so that
fitting needs no second copy. `Packer` fills them a part at a time.
"""

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

# Columns of the bias, the first and the last position, until the others are counted:
# they come after all others.
BIAS = 2**31 - 4
FIRST, LAST = BIAS + 1, BIAS + 2
POSITIONS = 2**14  # that are numbered at a time


class Positions(NamedTuple):
    """The features of all positions, a bias, and one more for a first and last one.

    Features are numbered from 0, then come bias, first and last. Position t has the
    values from feature_begin[t] to feature_begin[t + 1]. Their features begin at
    index_begin[t], which is feature_begin[t] too unless positions share them.
    """

    begin: np.ndarray  # first position of each sequence, and the end
    n_features: int
    feature_begin: np.ndarray
    index_begin: np.ndarray
    features: np.ndarray
    values: np.ndarray  # empty if all are 1


class PackedSequences(Sequence):
    """A list of (T_i, p) CSR matrices, kept as flat arrays.

    Parameters
    ----------
    positions : Positions
        The rows of all sequences, with a bias and the ends; no list is shared.

    Examples
    --------
    >>> import wolfpack
    >>> X = wolfpack.SequenceVectorizer().fit_transform([["a", "b"], ["b"]])
    >>> X
    <PackedSequences: 2 sequences, 3 positions, 2 features, 3 entries>
    >>> X[0].toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, positions: Positions) -> None:
        self.positions = positions

    @property
    def n_features(self) -> int:
        """The number of columns, p."""
        return self.positions.n_features

    def __len__(self) -> int:
        return len(self.positions.begin) - 1

    def __getitem__(self, key: Any) -> Any:
        """Return the matrix of one sequence, or a list of them for a slice."""
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        i = range(len(self))[key]
        return self.rows(i, i + 1)

    def rows(self, first: int, last: int) -> sp.csr_matrix:
        """Return the positions of sequences [first, last) as one matrix of its own."""
        packed = self.positions
        bounds = packed.feature_begin[packed.begin[first] : packed.begin[last] + 1]
        part = slice(bounds[0], bounds[-1])
        columns = packed.features[part]
        is_own = columns < packed.n_features  # neither a bias nor an end
        indptr = np.concatenate([[0], np.cumsum(is_own)])[bounds - bounds[0]]
        values = np.ones(indptr[-1], np.float32)
        if packed.values.size:
            values = packed.values[part][is_own]
        shape = (len(indptr) - 1, packed.n_features)
        return sp.csr_matrix((values, columns[is_own], indptr), shape=shape)

    def __repr__(self) -> str:
        packed = self.positions
        n, n_positions = len(self), int(packed.begin[-1])
        n_ends = 2 * np.count_nonzero(np.diff(packed.begin))
        entries = len(packed.features) - n_positions - n_ends
        return (
            f"<PackedSequences: {n} sequences, {n_positions} positions, "
            f"{packed.n_features} features, {entries} entries>"
        )


class Packer:
    """Collects the rows of positions, then numbers the columns that are kept."""

    def __init__(self) -> None:
        self.often = np.zeros(0, np.int64)  # positions that have each column
        # Arrays of this kind grow where they are, without a second copy.
        self._features, self._values = array("i"), array("f")
        self._sizes, self._is_unit = array("i"), True

    def add(self, columns: np.ndarray, values: np.ndarray, indptr: np.ndarray) -> None:
        """Add rows in CSR form; entries of one column are added up, zeros left out."""
        shape = (len(indptr) - 1, LAST + 1)
        rows = sp.csr_matrix((values, columns, indptr), shape=shape)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        if self._is_unit and (rows.data != 1).any():
            self._is_unit = False
            _extend(self._values, np.ones(len(self._features), np.float32))
        if not self._is_unit:
            _extend(self._values, rows.data)
        _extend(self._features, rows.indices.astype(np.int32, copy=False))
        _extend(self._sizes, np.diff(rows.indptr).astype(np.int32, copy=False))
        seen = np.bincount(rows.indices[rows.indices < BIAS], minlength=self.often.size)
        seen[: self.often.size] += self.often
        self.often = seen

    def finish(self, begin: np.ndarray, kept: np.ndarray) -> PackedSequences:
        """Leave out the columns that are not kept, and number the others anew."""
        features = np.frombuffer(self._features, np.int32)
        values = np.frombuffer(self._values, np.float32)
        sizes, read, written = np.frombuffer(self._sizes, np.int32), 0, 0
        number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        n_features = int(number[-1]) + 1
        for a in range(0, len(sizes), POSITIONS):
            here = sizes[a : a + POSITIONS]
            part = slice(read, read + int(here.sum()))
            is_end = features[part] >= BIAS
            old = np.where(is_end, 0, features[part])
            stays = is_end | kept[old]
            new = np.where(is_end, features[part] - (BIAS - n_features), number[old])
            end = written + int(stays.sum())
            features[written:end] = new[stays]
            if values.size:
                values[written:end] = values[part][stays]
            # No row is empty: all have a bias.
            starts = np.cumsum(here) - here
            here[:] = np.add.reduceat(stays, starts, dtype=np.int32)
            read, written = part.stop, end
        bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        is_unit = not (values[:written] != 1).any()
        del features, values  # the arrays behind them get shorter
        del self._features[written:], self._values[0 if is_unit else written :]
        features = np.frombuffer(self._features, np.int32)
        values = np.frombuffer(self._values, np.float32)
        index_begin = bounds[:-1]
        return PackedSequences(
            Positions(begin, n_features, bounds, index_begin, features, values)
        )


def _extend(store: array, numbers: np.ndarray) -> None:
    store.frombytes(numbers.tobytes())
