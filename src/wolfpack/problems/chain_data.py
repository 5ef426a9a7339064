"""The records of a chain problem: packed sequences, a worker's memory, the weights.

v is a table. It has a row a feature, then bias, first, last, and a row per label for
the transitions out of it; its columns are labels, padded to the width of a vector.
"""

from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.memory import copy, zeros
from wolfpack.problems._viterbi import LOWEST


class Chains(NamedTuple):
    """Packed sequences: positions one after the other, features in CSR form."""

    labels: np.ndarray  # per position
    begin: np.ndarray  # first position of each sequence, and the end
    feature_begin: np.ndarray  # first feature of each position, and the end
    features: np.ndarray  # row of v times width, sorted within a position
    values: np.ndarray  # empty if all are 1
    gram: np.ndarray
    gram_begin: np.ndarray
    share: np.ndarray  # q_i
    cost: np.ndarray  # loss of a wrong label in sequence i
    pad: np.ndarray  # 0 for labels, `_viterbi.LOWEST` for padding
    alpha: float
    n_labels: int
    width: int
    transitions: int  # where the transitions start in v as a flat array
    first_transition: int  # the row of v in which they start


class Work(NamedTuple):
    """Memory of one worker; see `_chain_step.prepare`."""

    theta: np.ndarray
    best: np.ndarray
    reached: np.ndarray
    steps: np.ndarray
    marginals: np.ndarray
    changed: np.ndarray
    pairs: np.ndarray
    pair_rows: np.ndarray
    is_pair_row: np.ndarray
    counts: np.ndarray


class ChainWeights(NamedTuple):
    """What a chain model has learnt: phi's parts, label by label."""

    features: np.ndarray  # (n_labels, n_features)
    bias: np.ndarray
    first: np.ndarray
    last: np.ndarray
    transitions: np.ndarray  # from, to


def make_work(data: Chains) -> Work:
    """Return scratch memory for the longest sequence."""
    size = int(np.diff(data.begin).max()) * data.width
    return Work(
        theta=zeros(size, np.float32),
        best=zeros(size, np.float32),
        reached=zeros(size, np.float32),
        steps=zeros((data.n_labels, data.width), np.float32),
        marginals=zeros(size, np.float32),
        changed=zeros(size // data.width, np.int64),
        pairs=zeros(data.n_labels * data.width, np.float32),
        pair_rows=zeros(data.n_labels + 1, np.int64),
        is_pair_row=zeros(data.n_labels, np.int64),
        counts=zeros(2, np.int64),
    )


def layout(begin: np.ndarray, matrix: Any, n_labels: int) -> Chains:
    """Append bias, first and last to the features; choose the width of a vector."""
    lanes = choose_lanes(n_labels)
    width = -(-n_labels // lanes) * lanes
    n_positions, n_features = matrix.shape
    if (n_features + 3 + n_labels) * width >= 2**31:
        raise ValueError(
            f"{n_features} features x {n_labels} labels make more than 2^31 weights."
        )
    feature_begin, features, values = _append_features(begin, matrix)
    pad = np.where(np.arange(width) < n_labels, 0, LOWEST)
    n = len(begin) - 1
    return Chains(
        labels=np.zeros(n_positions, np.uint8 if n_labels <= 256 else np.int32),
        begin=begin.astype(np.int64),
        feature_begin=feature_begin,
        features=features * np.int32(width),
        values=values,
        gram=np.zeros(0, np.float32),
        gram_begin=np.zeros(0, np.int64),
        share=np.zeros(n),
        cost=np.zeros(n, np.float32),
        pad=copy(pad, np.float32),
        alpha=1.0,
        n_labels=n_labels,
        width=width,
        transitions=(n_features + 3) * width,
        first_transition=n_features + 3,
    )


def _append_features(begin: np.ndarray, matrix: Any) -> tuple[np.ndarray, ...]:
    """Give each position a bias, the first and last of a sequence one more.

    Returns where each position's features begin, their columns and their values.
    """
    n_features = matrix.shape[1]
    per_position = np.diff(matrix.indptr).astype(np.int64) + 1
    per_position[begin[:-1]] += 1
    per_position[begin[1:] - 1] += 1
    feature_begin = np.concatenate([[0], np.cumsum(per_position)])
    features = np.empty(feature_begin[-1], np.int32)
    own = np.arange(matrix.nnz) + np.repeat(
        feature_begin[:-1] - matrix.indptr[:-1], np.diff(matrix.indptr)
    )
    matrix.sort_indices()
    features[own] = matrix.indices
    bias = feature_begin[:-1] + np.diff(matrix.indptr)
    features[bias] = n_features
    features[bias[begin[:-1]] + 1] = n_features + 1
    features[feature_begin[begin[1:]] - 1] = n_features + 2
    if (matrix.data == 1).all():
        return feature_begin, features, np.zeros(0, np.float32)
    values = np.ones(len(features), np.float32)
    values[own] = matrix.data
    return feature_begin, features, values


def choose_lanes(n_labels: int) -> int:
    """Return how many labels go into one vector."""
    return 8 if n_labels <= 8 else 16 if n_labels <= 16 else 32


def unpack_weights(shared: np.ndarray, n_features: int, n_labels: int) -> ChainWeights:
    """Cut the table v into its parts."""
    table = np.ascontiguousarray(shared[:, :n_labels].T)
    return ChainWeights(
        features=table[:, :n_features],
        bias=table[:, n_features],
        first=table[:, n_features + 1],
        last=table[:, n_features + 2],
        transitions=np.ascontiguousarray(table[:, n_features + 3 :].T),
    )


def pack_weights(weights: ChainWeights, width: int) -> np.ndarray:
    """Undo `unpack_weights`."""
    n_labels, n_features = weights.features.shape
    table = np.zeros((n_features + 3 + n_labels, width), np.float32)
    rows = [weights.features.T, weights.bias, weights.first, weights.last]
    table[:, :n_labels] = np.vstack([*rows, weights.transitions])
    return table
