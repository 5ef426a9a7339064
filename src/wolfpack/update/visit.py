"""Visit a block: find the atom to move towards, and the gap that it promises.

The atom is the oracle's corner, or the block's minimiser. Every engine finds its atoms
here, and `admits` refuses those outside M_i.
"""

import numpy as np

from wolfpack.kernels.compile import glue
from wolfpack.kernels.slots import (
    FINDS_GAP,
    HAS_CONTAINS,
    HAS_MINIMISER,
    HAS_PREPARE,
    contains,
    last_move,
    minimiser,
    oracle,
    prepare,
    rate,
    read_point,
    towards,
    trim,
)
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import AWAKE


@glue
def aim(data, shared, blocks, i, atom, work, plan):
    """Write the atom to move block i towards: a corner, or its minimiser.

    Returns the gap of the block where a minimiser finds it, else NaN.
    """
    found = np.nan
    if HAS_MINIMISER and plan.exact:
        read_point(blocks, i, atom)
        if FINDS_GAP:
            found = minimiser(data, shared, i, atom, work, plan.reach)
        else:
            minimiser(data, shared, i, atom, work, plan.reach)
    else:
        oracle(data, shared, i, atom, work)
    return found


@glue
def admits(data, i, atom):
    """Return whether block i may move towards `atom`."""
    return not HAS_CONTAINS or contains(data, i, atom)


@glue
def find(data, shared, blocks, i, scratch, work, plan, repeats):
    """Find an atom; return it, what `aim` returned, and DONE.

    It aims `repeats` times, to play a hard oracle. INFEASIBLE instead of DONE: the atom
    lies outside M_i, and used as an index it may lead outside an array.
    """
    atom = trim(blocks, i, scratch)
    found = np.nan
    for _ in range(repeats):
        found = aim(data, shared, blocks, i, atom, work, plan)
    return atom, found, Exit.DONE if admits(data, i, atom) else Exit.INFEASIBLE


@glue
def visit(data, shared, blocks, i, scratch, work, plan, repeats):
    """Find an atom, and the move to it; return both, two gaps, and DONE.

    The first gap is the slope towards the atom, which the step needs. The second is for
    the estimate and the sampler: in rounds of the blocks awake it is the gap of the
    block, which its minimiser found, otherwise the same as the first.
    """
    atom, found, ended = find(data, shared, blocks, i, scratch, work, plan, repeats)
    if ended != Exit.DONE:
        return atom, last_move(blocks, i, atom), 0.0, 0.0, ended
    move = begin(data, blocks, i, atom, work)
    gap = seen = -rate(data, shared, i, move, work, True)
    if FINDS_GAP and plan.sampling == AWAKE:
        seen = found
    return atom, move, gap, seen, Exit.DONE if is_finite(gap) else Exit.NOT_A_NUMBER


@glue
def begin(data, blocks, i, atom, work):
    """Return the move of block i towards an atom, ready to be spread."""
    move = towards(data, blocks, i, atom)
    if HAS_PREPARE:
        prepare(data, i, move, work)
    return move


@glue
def is_finite(number):
    """Return whether a number is neither NaN nor infinite."""
    return abs(number) < np.inf
