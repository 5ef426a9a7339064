"""Sequences of sparse positions in a few flat arrays.

A list of thousands of small CSR matrices takes more memory for the matrices than for
what is in them (2.8 kB each). `PackedSequences` looks like such a list and makes each
matrix when it is asked for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


class PackedSequences(Sequence):
    """A list of (T_i, p) CSR matrices, kept as flat arrays.

    Parameters
    ----------
    begin : ndarray of n + 1
        First position of each sequence, and the end.
    indptr : ndarray
        First entry of each position, and the end.
    indices : ndarray
        The columns of the entries, sorted within a position.
    values : ndarray
        Their values as float32; empty if all are 1.
    n_features : int
        The number of columns, p.

    Examples
    --------
    >>> import wolfpack
    >>> X = wolfpack.SequenceVectorizer().fit_transform([["a", "b"], ["b"]])
    >>> X
    <PackedSequences: 2 sequences, 3 positions, 2 features, 3 entries>
    >>> X[0].toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        begin: np.ndarray,
        indptr: np.ndarray,
        indices: np.ndarray,
        values: np.ndarray,
        n_features: int,
    ) -> None:
        self.begin, self.indptr, self.indices = begin, indptr, indices
        self.values, self.n_features = values, n_features

    def __len__(self) -> int:
        return len(self.begin) - 1

    def __getitem__(self, key: Any) -> Any:
        """Return the matrix of one sequence, or a list of them for a slice."""
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        i = range(len(self))[key]
        return self.rows(i, i + 1)

    def rows(self, first: int, last: int) -> sp.csr_matrix:
        """Return the positions of sequences [first, last) as one matrix of its own."""
        indptr = self.indptr[self.begin[first] : self.begin[last] + 1]
        part = slice(indptr[0], indptr[-1])
        indices = self.indices[part].copy()
        values = self.values[part].copy()
        if not self.values.size:
            values = np.ones(len(indices), np.float32)
        shape = (len(indptr) - 1, self.n_features)
        return sp.csr_matrix((values, indices, indptr - indptr[0]), shape=shape)

    def __repr__(self) -> str:
        return (
            f"<PackedSequences: {len(self)} sequences, {len(self.indptr) - 1} "
            f"positions, {self.n_features} features, {len(self.indices)} entries>"
        )
