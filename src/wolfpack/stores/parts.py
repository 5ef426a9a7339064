"""Blocks as weights of parts: x_(i) = sum_b w_b s_b is kept as what it is made of.

An atom is a list of parts (the edges of a path, the transitions of a labelling), and a
part of x_(i) has the sum of the weights of the atoms that have it. A_i and c_i are
linear over parts, up to what is the same for all atoms of a block, which no move
changes. So memory and the cost of a visit depend on the parts in use, never on how many
atoms have come by. Lists are sorted, and a move is the merge of two of them:

    x_(i) + gamma (s - x_(i)):   w_p + gamma (1 - w_p) for the parts of s,
                                 w_p - gamma w_p for the others

A weight within `WHOLE` of 1 becomes 1, so that what all atoms share is no part of a
move, and one within `WHOLE` of 0 leaves at once. (What that changes is forgotten as old
atoms are: the error of B x = b is multiplied by 1 - gamma at every move, too.) The
problem says which parts an atom has (`parts_of`), and what parts score and add.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.kernels.borrow import cut
from wolfpack.kernels.compile import glue, jit
from wolfpack.kernels.slots import (
    add,
    add_parts,
    contains_parts,
    parts_of,
    score_parts,
)
from wolfpack.stores import listing
from wolfpack.stores.lists import (
    ARRAYS,
    WHOLE,
    Draft,
    Parts,
    append,
    create,
    draw_back,
    for_worker,
    from_atoms,
    grow,
    make_draft,
    outline,
    pack,
    read,
    read_parts,
    refuse,
    unpack,
)
from wolfpack.stores.pool import double, lists_fit

__all__ = [
    "ARRAYS",
    "Draft",
    "Parts",
    "append",
    "create",
    "draw_back",
    "for_worker",
    "from_atoms",
    "grow",
    "make_draft",
    "outline",
    "pack",
    "read",
    "read_parts",
    "refuse",
    "unpack",
]

LAST = 2**31 - 1  # comes after every part
Blocks = Parts
LOOPS = (listing,)


class Move(NamedTuple):
    """A change of x_(i): parts, ascending, and what their weights change by."""

    parts: np.ndarray
    weights: np.ndarray


@glue
def has_room(blocks, batch_size):
    """Return whether `batch_size` lists can double, and fit pool and scratch."""
    fits = 4 * blocks.lists.top[0].longest_list <= blocks.found.size
    return fits and lists_fit(blocks.lists, batch_size)


@glue
def is_full(blocks, i):
    """Return whether the list of block i would have to grow for one more atom."""
    place = blocks.lists.place
    return place[i].count + blocks.most[i] > place[i].room


@glue
def trim(blocks, i, atom):
    """Return the part of a scratch atom that block i fills."""
    return atom[: blocks.offsets[i + 1] - blocks.offsets[i]]


@glue
def read_point(blocks, i, atom):
    """Never called: a minimiser over a block needs the vector store."""


@glue
def get_lists(blocks, i):
    """Return the parts of block i, and their weights, as views."""
    place, lists = blocks.lists.place, blocks.lists
    slot, count = place[i].slot, place[i].count
    end = slot + count
    return lists.atoms[slot:end], lists.weights[slot:end]


@jit
def towards(data, blocks, i, atom):
    """Return the move s - x_(i)."""
    place = blocks.lists.place
    n_own = parts_of(data, i, atom, blocks.own)
    slot, count = place[i].slot, place[i].count
    size = subtract(blocks, n_own, slot, count, -1.0)
    return Move(cut(blocks.found, 0, size), cut(blocks.weights, 0, size))


@glue
def last_move(blocks, i, atom):
    """Return what `towards` returned last."""
    return Move(cut(blocks.found, 0, 0), cut(blocks.weights, 0, 0))


@jit
def subtract(blocks, n_own, slot, count, sign):
    """Write sign (x - s) into `found` and `weights`; return how many are not 0."""
    parts, weights, own = blocks.lists.atoms, blocks.lists.weights, blocks.own
    found, out = blocks.found, blocks.weights
    b, j, size = 0, 0, 0
    while b < count or j < n_own:
        here = parts[slot + b] if b < count else LAST
        there = own[j] if j < n_own else LAST
        part, change = min(here, there), 0.0
        if here == part:
            change = weights[slot + b]
            b += 1
        if there == part:
            change -= 1.0
            j += 1
        found[size], out[size] = part, sign * change
        size += 1 if change != 0.0 else 0
    return size


@jit
def default_rate(data, shared, i, move, work, is_fresh):
    """Return <d, grad_i f> of a move."""
    return score_parts(data, shared, i, move.parts, move.weights)


@jit
def default_spread(data, i, move, scale, out, work):
    """Add scale A_i d to `out`; return scale <c_i, d>."""
    return add_parts(data, i, move.parts, move.weights, scale, out)


@jit
def expand(data, blocks, i, out, work):
    """Add A_i x_(i) to `out`; return <c_i, x_(i)>."""
    reference = blocks.start[blocks.offsets[i] : blocks.offsets[i + 1]]
    linear = add(data, i, reference, 1.0, out)
    n_own, place = parts_of(data, i, reference, blocks.own), blocks.lists.place
    size = subtract(blocks, n_own, place[i].slot, place[i].count, 1.0)
    found, weights = cut(blocks.found, 0, size), cut(blocks.weights, 0, size)
    return linear + add_parts(data, i, found, weights, 1.0, out)


@jit
def is_inside(data, blocks, i):
    """Return whether x_(i) is a point of M_i."""
    found, weights = get_lists(blocks, i)
    return contains_parts(data, i, found, weights)


@jit
def shift(data, blocks, i, atom, gamma):
    """x_(i) <- (1 - gamma) x_(i) + gamma s."""
    if gamma <= 0.0:
        return
    lists, place = blocks.lists, blocks.lists.place
    if is_full(blocks, i):
        double(lists, i, place[i].count)
    slot, count = place[i].slot, place[i].count
    n_own = parts_of(data, i, atom, blocks.own)
    size = mix(blocks, lists.atoms, lists.weights, slot, count, n_own, gamma, WHOLE)
    for b in range(size):
        lists.atoms[slot + b] = blocks.found[b]
        lists.weights[slot + b] = blocks.weights[b]
    place[i].count = size


@jit
def mix(blocks, parts, weights, slot, count, n_own, gamma, least):
    """Write (1 - gamma) x + gamma s to the scratch, without weights below `least`."""
    own, found, out = blocks.own, blocks.found, blocks.weights
    b, j, size = 0, 0, 0
    while b < count or j < n_own:
        here = parts[slot + b] if b < count else LAST
        there = own[j] if j < n_own else LAST
        part, weight, aim = min(here, there), 0.0, 0.0
        if here == part:
            weight = weights[slot + b]
            b += 1
        if there == part:
            aim = 1.0
            j += 1
        found[size], out[size] = part, whole(weight + gamma * (aim - weight))
        size += 1 if out[size] >= least else 0
    return size


@jit
def whole(weight):
    """Return the weight, or 1 where rounding is all that it misses."""
    return 1.0 if weight >= 1.0 - WHOLE else max(weight, 0.0)


@jit
def begin_draft(blocks, draft, k, i):
    """x'_(i) <- x_(i), as the k-th block of the draft."""
    lists, place = blocks.lists, blocks.lists.place
    slot, begin = place[i].slot, draft.slots[k]
    for b in range(place[i].count):
        draft.parts[begin + b] = lists.atoms[slot + b]
        draft.weights[begin + b] = lists.weights[slot + b]
    draft.slots[k + 1] = begin + place[i].count


@glue
def is_draft_full(blocks, draft, k, i):
    """Return whether the list of block i would have to grow for one more atom."""
    count = draft.slots[k + 1] - draft.slots[k]
    return count + blocks.most[i] > blocks.lists.place[i].room


@jit
def shift_draft(data, blocks, draft, k, i, atom, gamma):
    """x'_(i) <- (1 - gamma) x'_(i) + gamma s; it keeps what x_(i) has, at weight 0."""
    if is_draft_full(blocks, draft, k, i):
        double(blocks.lists, i, blocks.lists.place[i].count)
    slot, n_own = draft.slots[k], parts_of(data, i, atom, blocks.own)
    count = draft.slots[k + 1] - slot
    size = mix(blocks, draft.parts, draft.weights, slot, count, n_own, gamma, 0.0)
    for b in range(size):
        draft.parts[slot + b] = blocks.found[b]
        draft.weights[slot + b] = blocks.weights[b]
    draft.slots[k + 1] = slot + size


@jit
def blend(blocks, draft, k, i, theta):
    """x_(i) <- x_(i) + theta (x'_(i) - x_(i)); all parts of x are in the draft."""
    if theta <= 0.0:
        return
    lists, place, scratch = blocks.lists, blocks.lists.place, blocks.weights
    slot, begin, count = place[i].slot, draft.slots[k], place[i].count
    n_new, b, size = draft.slots[k + 1] - begin, 0, 0
    for j in range(n_new):
        old = 0.0
        if b < count and lists.atoms[slot + b] == draft.parts[begin + j]:
            old = lists.weights[slot + b]
            b += 1
        scratch[j] = whole(old + theta * (draft.weights[begin + j] - old))
    for j in range(n_new):
        lists.atoms[slot + size] = draft.parts[begin + j]
        lists.weights[slot + size] = scratch[j]
        size += 1 if scratch[j] >= WHOLE else 0
    place[i].count = size
