"""Max-marginals of chains: the best score of a labelling with a label at a position.

    m_t(k) = max over labellings y with y_t = k of <w, phi(x, y)>

A forward and a backward pass over all sequences at once, position by position, in
NumPy: compiling it would take longer than most calls do.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from wolfpack.problems.packed import Positions

NUMBERS = 2**16  # in the table of steps at one position of some sequences


def to_matrix(packed: Any) -> sp.csr_matrix:
    """Return the features of all positions, a row each, of `Positions` or `Chains`."""
    counts = np.diff(packed.feature_begin)
    at = np.arange(packed.feature_begin[-1])
    at += np.repeat(packed.index_begin - packed.feature_begin[:-1], counts)
    values = packed.values if packed.values.size else np.ones(at.size, np.float32)
    return sp.csr_matrix((values, packed.features[at], packed.feature_begin))


def max_marginals(packed: Positions, table: np.ndarray, steps: np.ndarray) -> Any:
    """Return m, of shape (positions, K).

    `table` has the weights of a feature a row, then of bias, first and last; `steps`
    those from one label (row) to the next (column).
    """
    matrix, size = to_matrix(packed), len(steps)
    matrix.resize(len(packed.index_begin), len(table))
    theta = matrix @ table
    ahead, after = theta.copy(), np.zeros_like(theta)
    lengths = np.diff(packed.begin)
    order, many = np.argsort(-lengths, kind="stable"), max(1, NUMBERS // size**2)
    for chosen in np.split(order, range(many, len(order), many)):
        first, length = packed.begin[chosen], lengths[chosen]
        for t in range(1, length[0]):
            now = first[length > t] + t
            ahead[now] += (ahead[now - 1][:, :, None] + steps).max(axis=1)
        for t in range(length[0] - 2, -1, -1):
            now = first[length > t + 1] + t
            best = after[now + 1] + theta[now + 1]
            after[now] = (best[:, None, :] + steps).max(axis=2)
    return ahead + after
