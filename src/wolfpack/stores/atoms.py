"""Blocks as weighted atoms: x_(i) = sum_b w_b s_b, for any polytope.

Each block has a short list of atoms and their convex weights, in the `pool`. The sum of
the weights stays 1: a weight that falls below `NEGLIGIBLE` goes to the atom that the
step moved towards. The draft of a worker has new weights for the atoms of the blocks
that it holds; blending puts both together.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.kernels.borrow import cut
from wolfpack.kernels.compile import glue, jit
from wolfpack.kernels.slots import add, contains, score
from wolfpack.stores.pool import (
    Atoms,
    Draft,
    append,
    create,
    double,
    draw_back,
    for_worker,
    grow,
    lists_fit,
    make_draft,
    outline,
    pack,
    read,
    read_atoms,
    refuse,
    unpack,
)

__all__ = [
    "Atoms",
    "Draft",
    "append",
    "create",
    "draw_back",
    "for_worker",
    "grow",
    "make_draft",
    "outline",
    "pack",
    "read",
    "read_atoms",
    "refuse",
    "unpack",
]

NEGLIGIBLE = 1e-10
ARRAYS = ("counts", "weights", "atoms")  # of a file
Blocks = Atoms
LOOPS = ()


class Move(NamedTuple):
    """s - x_(i): towards one atom, away from all that are stored, by their weights."""

    atom: np.ndarray  # s
    weights: np.ndarray
    atoms: np.ndarray  # one after the other, each as long as s


@glue
def towards(data, blocks, i, atom):
    """Return the move s - x_(i)."""
    return last_move(blocks, i, atom)


@glue
def last_move(blocks, i, atom):
    """Return what `towards` returned last, as long as x_(i) stays."""
    slot, count = blocks.place[i].slot, blocks.place[i].count
    begin = blocks.place[i].begin
    size = count * blocks.place[i].length
    return Move(atom, cut(blocks.weights, slot, count), cut(blocks.atoms, begin, size))


@glue
def has_room(blocks, batch_size):
    """Return whether `batch_size` lists can double and still fit the pool."""
    return lists_fit(blocks, batch_size)


@glue
def is_full(blocks, i):
    """Return whether the list of block i would have to grow for one more atom."""
    return blocks.place[i].count == blocks.place[i].room


@glue
def count_points(blocks, i):
    """Return how many atoms block i has."""
    return blocks.place[i].count


@glue
def get_point(blocks, i, b):
    """Return atom b of block i as a view."""
    size = blocks.place[i].length
    begin = blocks.place[i].begin + b * size
    return blocks.atoms[begin : begin + size]


@glue
def trim(blocks, i, atom):
    """Return the part of a scratch atom that block i fills."""
    return atom[: blocks.place[i].length]


@glue
def read_point(blocks, i, atom):
    """Never called: a minimiser over a block needs the vector store."""


@jit
def default_rate(data, shared, i, move, work, is_fresh):
    """Return <s - x_(i), grad_i f>."""
    rate, size = score(data, shared, i, move.atom), move.atom.size
    for b in range(move.weights.size):
        atom = move.atoms[b * size : (b + 1) * size]
        rate -= move.weights[b] * score(data, shared, i, atom)
    return rate


@jit
def default_spread(data, i, move, scale, out, work):
    """Add scale A_i (s - x_(i)) to `out`; return scale <c_i, s - x_(i)>."""
    linear, size = add(data, i, move.atom, scale, out), move.atom.size
    for b in range(move.weights.size):
        atom = move.atoms[b * size : (b + 1) * size]
        linear += add(data, i, atom, -scale * move.weights[b], out)
    return linear


@jit
def expand(data, blocks, i, out, work):
    """Add A_i x_(i) to `out`; return <c_i, x_(i)>."""
    linear = 0.0
    slot = blocks.place[i].slot
    for b in range(blocks.place[i].count):
        weight = blocks.weights[slot + b]
        linear += add(data, i, get_point(blocks, i, b), weight, out)
    return linear


@jit
def is_inside(data, blocks, i):
    """Return whether every atom of block i is a point of M_i."""
    for b in range(blocks.place[i].count):
        if not contains(data, i, get_point(blocks, i, b)):
            return False
    return True


@jit
def shift(data, blocks, i, atom, gamma):
    """x_(i) <- (1 - gamma) x_(i) + gamma s: scale the weights, add or raise s."""
    if gamma <= 0.0:
        return
    place, weights, atoms = blocks.place, blocks.weights, blocks.atoms
    size = place[i].length
    slot = place[i].slot
    begin = place[i].begin
    count = place[i].count if gamma < 1.0 else 0
    found = -1
    others = 0.0
    b = 0
    while b < count:
        at = begin + b * size
        j = 0
        if found < 0:
            while j < size and atoms[at + j] == atom[j]:
                j += 1
        if found < 0 and j == size:
            found = b
            b += 1
            continue
        weight = weights[slot + b] * (1.0 - gamma)
        if weight < NEGLIGIBLE:  # the last atom takes its place
            count -= 1
            weights[slot + b] = weights[slot + count]
            for j in range(size):
                atoms[at + j] = atoms[begin + count * size + j]
            continue
        weights[slot + b] = weight
        others += weight
        b += 1
    if found < 0:
        if count == place[i].room:
            double(blocks, i, count)
            slot = place[i].slot
            begin = place[i].begin
        found = count
        count += 1
        for j in range(size):
            atoms[begin + found * size + j] = atom[j]
    weights[slot + found] = 1.0 - others
    place[i].count = count


@jit
def begin_draft(blocks, draft, k, i):
    """x'_(i) <- x_(i), as the k-th block of the draft."""
    slot, count = blocks.place[i].slot, blocks.place[i].count
    begin = draft.slots[k]
    draft.slots[k + 1] = begin + count
    for b in range(count):
        draft.weights[begin + b] = blocks.weights[slot + b]


@glue
def is_draft_full(blocks, draft, k, i):
    """Return whether the list of block i would have to grow for one more atom."""
    return draft.slots[k + 1] - draft.slots[k] == blocks.place[i].room


@jit
def shift_draft(data, blocks, draft, k, i, atom, gamma):
    """x'_(i) <- (1 - gamma) x'_(i) + gamma s; a new atom stands behind those of x."""
    place, weights, atoms = blocks.place, draft.weights, blocks.atoms
    size, slot, begin = place[i].length, draft.slots[k], place[i].begin
    count = draft.slots[k + 1] - slot
    found = -1
    for b in range(count):
        if found < 0:
            j = 0
            while j < size and atoms[begin + b * size + j] == atom[j]:
                j += 1
            if j == size:
                found = b
        weights[slot + b] *= 1.0 - gamma
    if found < 0:
        if count == place[i].room:
            double(blocks, i, count)
            begin = place[i].begin
        found = count
        draft.slots[k + 1] += 1
        weights[slot + found] = 0.0
        for j in range(size):
            atoms[begin + found * size + j] = atom[j]
    weights[slot + found] += gamma


@jit
def blend(blocks, draft, k, i, theta):
    """x_(i) <- x_(i) + theta (x'_(i) - x_(i)), then drop negligible weights."""
    if theta <= 0.0:
        return
    place, weights = blocks.place, blocks.weights
    slot, known, begin = place[i].slot, place[i].count, draft.slots[k]
    count = draft.slots[k + 1] - begin
    heaviest, total, least = 0, 0.0, np.inf
    for b in range(count):
        old = weights[slot + b] if b < known else 0.0
        weight = old + theta * (draft.weights[begin + b] - old)
        weights[slot + b] = weight
        total += weight
        least = min(least, weight)
        if weight > weights[slot + heaviest]:
            heaviest = b
    if least < NEGLIGIBLE:
        _drop_negligible(blocks, i, count, heaviest)
    else:
        weights[slot + heaviest] += 1.0 - total
        place[i].count = count


@jit
def _drop_negligible(blocks, i, count, heaviest):
    """Give the weights below `NEGLIGIBLE` to the heaviest of `count` atoms."""
    place, weights, atoms = blocks.place, blocks.weights, blocks.atoms
    size, slot, begin = place[i].length, place[i].slot, place[i].begin
    others = 0.0
    b = 0
    while b < count:
        if b == heaviest:
            b += 1
        elif weights[slot + b] < NEGLIGIBLE:  # the last atom takes its place
            count -= 1
            weights[slot + b] = weights[slot + count]
            for j in range(size):
                atoms[begin + b * size + j] = atoms[begin + count * size + j]
            if heaviest == count:
                heaviest = b
        else:
            others += weights[slot + b]
            b += 1
    weights[slot + heaviest] = 1.0 - others
    place[i].count = count
