"""The certificate: how far f(x) can be from its minimum.

The surrogate duality gap (section 2.1 of the paper, where it is called g(x)) is

    gap(x) = max over s of <x - s, grad f(x)>
           = <x, grad f(x)> - sum_i min over s_(i) of <s_(i), grad_i f(x)>

and f(y) - gap(y) is a lower bound on f* for every feasible y. With f = g(v) + <c, x>
the linear term cancels in it, so v alone gives the bound:

    f(y) - gap(y) = g(v) - <grad g(v), v - v0> + sum_i min <s_(i), grad_i f>

Each evaluation is one call of the oracle per block. The running estimate that the loop
keeps is biased low by stale atoms; it may trigger such a pass, but not replace it.
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.slots import (
    HAS_VALUE,
    RESCORE,
    expand,
    is_inside,
    oracle,
    rate,
    score,
    slope,
    trim,
    value,
)
from wolfpack.update.visit import admits, begin


@jit
def least_value(data, shared, exact, i, atom, work):
    """Return min <s_(i), grad_i f>; its atom is left in `atom`.

    NaN where the atom lies outside M_i: to score it could read outside an array.
    Where v is float32 the oracle finds the atom, and its score is taken again from
    `exact`, the same v in double precision.
    """
    least = oracle(data, shared, i, atom, work)
    if not admits(data, i, atom):
        return np.nan
    if RESCORE and abs(least) < np.inf:
        least = score(data, exact, i, atom)
    return least


@entry
def oracle_values(
    data, shared, exact, blocks, first, last, atom, current, work, gaps, total
):
    """Return `total` plus the sum over blocks [first, last) of min <s_(i), grad_i f>.

    Where `gaps` is not empty, it gets the gap of each block. The pass ends at the block
    that makes the sum NaN, which is in `current` then.
    """
    data, shared, exact, blocks = (
        borrow(data),
        borrow(shared),
        borrow(exact),
        borrow(blocks),
    )
    atom, current, work, gaps = (
        borrow(atom),
        borrow(current),
        borrow(work),
        borrow(gaps),
    )
    for i in range(first, last):
        current[0] = i
        own = trim(blocks, i, atom)
        total += least_value(data, shared, exact, i, own, work)
        if total != total:
            return total
        if gaps.size > 0:
            move = begin(data, blocks, i, own, work)
            gaps[i] = -rate(data, shared, i, move, work, True)
    return total


@entry
def rebuild(data, blocks, first, last, out, work):
    """Add A_i x_(i) of blocks [first, last) to `out`; return their <c_i, x_(i)>."""
    data, blocks = borrow(data), borrow(blocks)
    out, work = borrow(out), borrow(work)
    linear = 0.0
    for i in range(first, last):
        linear += expand(data, blocks, i, out, work)
    return linear


@entry
def evaluate(data, shared):
    """Return g(v)."""
    return value(data, shared) if HAS_VALUE else np.nan


@entry
def inner_products(data, shared, change, rows):
    """Return <grad g(v), v - v0> over `rows`, and <grad g(v), v>, to judge rounding."""
    inner = slope(data, shared, change, rows, 0.0)
    return inner, slope(data, shared, shared, rows, 0.0)


@entry
def first_outside(data, blocks, n_blocks):
    """Return the first block whose x_(i) is no point of M_i, or -1."""
    for i in range(n_blocks):
        if not is_inside(data, blocks, i):
            return i
    return -1
