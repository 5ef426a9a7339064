"""What a chain model has learnt, by its parts, and as the table v.

v has a row a feature, then bias, first, last, and a row per label for the transitions
out of it; its columns are labels, padded to the width of a vector.
"""

from typing import NamedTuple

import numpy as np


class ChainWeights(NamedTuple):
    """What a chain model has learnt: phi's parts, label by label."""

    features: np.ndarray  # (n_labels, n_features)
    bias: np.ndarray
    first: np.ndarray
    last: np.ndarray
    transitions: np.ndarray  # from, to


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
