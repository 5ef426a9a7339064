"""The direction of an update: the sum over S of A_i (s_(i) - x_(i)), in the shape of v.

Where blocks touch few rows of v, the direction lists the rows that are not zero, so the
cost of each operation does not depend on the size of v.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.kernels.compile import glue, jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import HAS_ROWS, spread, touched


class Direction(NamedTuple):
    """Numbers in the shape of v, all zero between two updates, and their rows.

    Every record that lays out a direction holds one; the kernels take no other form.
    """

    values: np.ndarray
    rows: np.ndarray  # that the blocks touch, or all rows
    own_rows: np.ndarray  # the rows of one block
    stamps: np.ndarray  # the stamp of the update that last touched a row

    @classmethod
    def create(cls, problem, values=None, rows=None) -> "Direction":
        """Make a direction; `values` and `rows` may be memory of the caller."""
        shape, is_sparse = problem.shared.shape, problem.touched is not None
        values = zeros(shape, problem.shared.dtype) if values is None else values
        return cls(
            values=values,
            rows=np.arange(len(values)) if rows is None else rows,
            own_rows=zeros(problem.max_rows if is_sparse else 0, np.int64),
            stamps=np.full(len(values) if is_sparse else 0, -1),
        )


@glue
def lay_out(data, i, move, scale, direction, linear, n_rows, stamp, work):
    """Add scale A_i times a prepared move; return <c, d> and the rows so far.

    `stamp` is that of the update.
    """
    more = spread(data, i, move, scale, direction.values, work)
    linear = fused_sum(linear, more)
    return linear, meet_rows(data, i, move, direction, n_rows, stamp, work)


@jit
def fused_sum(one, two):
    """Return one + two; where `two` is a product, both are fused into one rounding.

    Written in the caller, product and sum would be fused or not, depending on the code
    that the compiler puts between them. The bits of the result must not depend on that.
    """
    return one + two


@glue
def meet_rows(data, i, move, direction, n_rows, stamp, work):
    """Add the rows of v that block i touches, each once; return how many there are."""
    rows, stamps = direction.rows, direction.stamps
    if not HAS_ROWS:
        return rows.size
    own = touched(data, i, move, direction.own_rows, work)
    for j in range(own):
        row = direction.own_rows[j]
        if stamps[row] != stamp:
            stamps[row] = stamp
            rows[n_rows] = row
            n_rows += 1
    return n_rows


@jit
def write(values, rows, gamma, weight, shared, average):
    """Move v by gamma along the direction, the average by `weight`; clear its rows."""
    n_rows, width = len(values), values.size // len(values)
    change = values.reshape((n_rows, width))
    target = shared.reshape((n_rows, width))
    for r in rows:
        for j in range(width):
            target[r, j] += gamma * change[r, j]
    if average.size > 0:
        mean = average.reshape((n_rows, width))
        for r in rows:
            for j in range(width):
                mean[r, j] += weight * change[r, j]
    for r in rows:
        for j in range(width):
            change[r, j] = 0.0
