"""Newton's system of a wide signal, by a dense matrix of one number per pair of rows.

Without the c_t of its blocks, the matrix of `smoother` is a tridiagonal one for each
column, M_j. The c_t are a change of rank n, so that by Woodbury's identity

    K_st = [s = t] + sum_j c_sj (M_j^-1)_st c_tj

is all that is left to factor. It takes O(n^2 d + n^3), less than O(n d^3) where d is
large. It is for first differences.
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry


@entry
def couple(variances, diagonal, lines, pivots, joint):
    """Write the pivots of each M_j, from the first row on, and the lower half of K."""
    variances, diagonal, lines = borrow(variances), borrow(diagonal), borrow(lines)
    pivots, joint = borrow(pivots), borrow(joint)
    count, width = lines.shape
    ends, column = np.empty(count), np.empty(count)
    for t in range(count):
        for s in range(t + 1):
            joint[t, s] = 1.0 if s == t else 0.0
    for j in range(width):
        for t in range(count):
            whole = variances[t] + variances[t + 1] + diagonal[t, j]
            before = variances[t] * variances[t] / pivots[t - 1, j] if t > 0 else 0.0
            pivots[t, j] = whole - before
        for t in range(count - 1, -1, -1):
            ends[t] = variances[t] + variances[t + 1] + diagonal[t, j]
            if t + 1 < count:
                ends[t] -= variances[t + 1] * variances[t + 1] / ends[t + 1]
        for t in range(count):  # column[s] becomes c_sj (M_j^-1)_st
            share = variances[t] / ends[t]
            whole = variances[t] + variances[t + 1] + diagonal[t, j]
            part = lines[t, j]
            for s in range(t):
                column[s] *= share
                joint[t, s] += part * column[s]
            column[t] = part / (pivots[t, j] + ends[t] - whole)
            joint[t, t] += part * column[t]


@entry
def solve_columns(variances, pivots, right, out):
    """Write M_j^-1 right for all columns."""
    variances, pivots = borrow(variances), borrow(pivots)
    right, out = borrow(right), borrow(out)
    count, width = right.shape
    for t in range(count):
        for j in range(width):
            out[t, j] = right[t, j]
            if t > 0:
                out[t, j] += variances[t] / pivots[t - 1, j] * out[t - 1, j]
    for t in range(count - 1, -1, -1):
        for j in range(width):
            if t + 1 < count:
                out[t, j] += variances[t + 1] * out[t + 1, j]
            out[t, j] /= pivots[t, j]
