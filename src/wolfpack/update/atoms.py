"""Blocks as weighted atoms: x_(i) = sum_b w_b s_b, for any polytope.

A short list of atoms and their convex weights. Where the list of a block is full it
moves to a larger place at the end of the pool; where the pool is full the loop returns
and Python makes a larger one. No weight is ever lost: what falls below `NEGLIGIBLE`
goes to the atom that the step moved towards.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.slots import add, contains, score
from wolfpack.kernels.specialise import library

NEGLIGIBLE = 1e-10
ROUNDING = 1e-12
FIRST_ROOM = 4
SPARE_LISTS = 16  # doublings of the longest list that fit at least, a block in flight
SPARE = 8  # entries behind the last atom: it may be read eight at a time

# Columns of `place`.
BEGIN, SLOT, SIZE, COUNT, ROOM = 0, 1, 2, 3, 4


class Atoms(NamedTuple):
    """Where the atoms of each block stand.

    Block i has `place[i, COUNT]` atoms of `place[i, SIZE]` entries each, one after
    the other in `atoms` from `place[i, BEGIN]`, weighted by `weights` from
    `place[i, SLOT]`. `top`: next free atom entry, next free weight, largest atom,
    largest room.
    """

    place: np.ndarray
    weights: np.ndarray
    atoms: np.ndarray
    top: np.ndarray


def create(start: np.ndarray, offsets: np.ndarray, batch_size: int) -> Atoms:
    """Make the store in which block i is `start[offsets[i]:offsets[i + 1]]`."""
    n = len(offsets) - 1
    return unpack(
        {"counts": np.ones(n, np.int64), "weights": np.ones(n), "atoms": start},
        offsets,
        batch_size,
    )


def pack(blocks: Atoms) -> dict[str, Any]:
    """Return the arrays that a saved state needs: no holes, no spare room."""
    place = blocks.place.copy()
    place[:, ROOM] = place[:, COUNT]
    weights, atoms = _copy(blocks, place)
    return {"counts": place[:, COUNT].copy(), "weights": weights, "atoms": atoms}


def unpack(
    arrays: dict[str, np.ndarray], offsets: np.ndarray, batch_size: int
) -> Atoms:
    """Make the store from what `pack` gave."""
    counts = arrays["counts"]
    place = np.zeros((len(counts), 5), np.int64)
    place[:, SIZE] = np.diff(offsets)
    place[:, COUNT] = place[:, ROOM] = counts
    _lay_out(place)
    tight = Atoms(place, arrays["weights"], arrays["atoms"], _top(place))
    return grow(tight, batch_size)


def refuse(arrays: dict[str, np.ndarray], offsets: np.ndarray) -> None:
    """Raise `ValueError` unless a file holds what `pack` gives."""
    counts, weights, atoms = arrays["counts"], arrays["weights"], arrays["atoms"]
    sizes = np.diff(offsets)
    if counts.dtype != np.int64 or counts.shape != sizes.shape:
        raise ValueError("it does not count the atoms of each block")
    if weights.dtype != np.float64 or weights.ndim != 1 or atoms.ndim != 1:
        raise ValueError("its weights or atoms are no row of numbers")
    if counts.min() < 1 or counts.max() > len(weights) or sizes.max() > len(atoms):
        raise ValueError("it counts atoms that are not there")
    if counts.sum() != len(weights) or counts @ sizes != len(atoms):
        raise ValueError("its atoms and weights do not fit their counts")
    sums = np.add.reduceat(weights, np.cumsum(counts) - counts)
    # A step of 1e-17 leaves a weight of 0, or of a rounding error below it.
    if not (weights.min() >= -ROUNDING and np.abs(sums - 1).max() < 1e-6):
        raise ValueError("the weights of a block are no convex combination")


def outline(start: np.ndarray, offsets: np.ndarray) -> Atoms:
    """Return a store without atoms, which knows how long they are."""
    place = np.zeros((len(offsets) - 1, 5), np.int64)
    place[:, SIZE] = np.diff(offsets)
    return Atoms(place, np.zeros(0), start[:0].copy(), np.zeros(4, np.int64))


def grow(blocks: Atoms, batch_size: int) -> Atoms:
    """Copy into a pool without holes, with space for many more atoms.

    Only what is used costs memory: untouched pages of the pool are never mapped.
    """
    place = blocks.place.copy()
    place[:, ROOM] = np.maximum(place[:, COUNT] + 1, FIRST_ROOM)
    weights, atoms = _copy(blocks, place)
    top = _top(place)
    entries, slots, size, room = (int(x) for x in top)
    new_weights = np.empty(2 * slots + SPARE_LISTS * batch_size * room, weights.dtype)
    n_entries = 2 * entries + SPARE_LISTS * batch_size * room * size + SPARE
    new_atoms = np.empty(n_entries, atoms.dtype)
    new_weights[:slots] = weights
    new_atoms[:entries] = atoms
    return Atoms(place, new_weights, new_atoms, top)


def _copy(blocks: Atoms, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lay the blocks out by the rooms in `place`; return the new pools."""
    old = blocks.place.copy()
    _lay_out(place)
    entries, slots = _top(place)[:2]
    weights = np.zeros(slots, blocks.weights.dtype)
    atoms = np.zeros(entries, blocks.atoms.dtype)
    relocate = library(sys.modules[__name__])._relocate
    relocate(old, blocks.weights, blocks.atoms, place, weights, atoms)
    return weights, atoms


def _lay_out(place: np.ndarray) -> None:
    room = place[:, ROOM]
    place[:, SLOT] = np.cumsum(room) - room
    entries = room * place[:, SIZE]
    place[:, BEGIN] = np.cumsum(entries) - entries


def _top(place: np.ndarray) -> np.ndarray:
    room, size = place[:, ROOM], place[:, SIZE]
    return np.array([room @ size, room.sum(), size.max(), room.max()], np.int64)


@entry
def _relocate(old, weights, atoms, place, new_weights, new_atoms):
    for i in range(len(place)):
        for b in range(old[i, COUNT]):
            new_weights[place[i, SLOT] + b] = weights[old[i, SLOT] + b]
        for j in range(old[i, COUNT] * old[i, SIZE]):
            new_atoms[place[i, BEGIN] + j] = atoms[old[i, BEGIN] + j]


@jit
def has_room(blocks, batch_size):
    """Return whether `batch_size` lists can double and still fit the pool."""
    slots = 2 * batch_size * blocks.top[3]
    return (
        blocks.top[1] + slots <= blocks.weights.size
        and blocks.top[0] + slots * blocks.top[2] + SPARE <= blocks.atoms.size
    )


def for_worker(blocks: Atoms) -> Atoms:
    """Return the store as one of several threads may use it."""
    return blocks


def make_draft(blocks: Atoms) -> Atoms:
    """Return a second store, for what workers do to the blocks that they hold.

    It has the same atoms in the same places, and weights of its own.
    """
    weights = np.empty_like(blocks.weights)
    return blocks._replace(place=blocks.place.copy(), weights=weights)


@jit
def is_full(blocks, i):
    """Return whether the list of block i would have to grow for one more atom."""
    return blocks.place[i, COUNT] == blocks.place[i, ROOM]


@jit
def get_atom(blocks, i, b):
    """Return atom b of block i as a view."""
    size = blocks.place[i, SIZE]
    begin = blocks.place[i, BEGIN] + b * size
    return blocks.atoms[begin : begin + size]


@jit
def trim(blocks, i, atom):
    """Return the part of a scratch atom that block i fills; it may be read beyond."""
    return atom[: blocks.place[i, SIZE]]


@jit
def read_point(blocks, i, atom):
    """Never called: a minimiser over a block needs the vector store."""


@jit
def default_prepare(data, shared, blocks, i, atom, work):
    """Return the block gap <x_(i) - s, grad_i f>."""
    gap = -score(data, shared, i, atom)
    slot = blocks.place[i, SLOT]
    for b in range(blocks.place[i, COUNT]):
        gap += blocks.weights[slot + b] * score(data, shared, i, get_atom(blocks, i, b))
    return gap


@jit
def default_spread(data, blocks, i, atom, scale, out, work):
    """Add scale A_i (s - x_(i)) to `out`; return scale <c_i, s - x_(i)>."""
    linear = add(data, i, atom, scale, out)
    slot = blocks.place[i, SLOT]
    for b in range(blocks.place[i, COUNT]):
        weight = blocks.weights[slot + b]
        linear += add(data, i, get_atom(blocks, i, b), -scale * weight, out)
    return linear


@jit
def expand(data, blocks, i, out):
    """Add A_i x_(i) to `out`; return <c_i, x_(i)>."""
    linear = 0.0
    slot = blocks.place[i, SLOT]
    for b in range(blocks.place[i, COUNT]):
        weight = blocks.weights[slot + b]
        linear += add(data, i, get_atom(blocks, i, b), weight, out)
    return linear


@jit
def is_inside(data, blocks, i):
    """Return whether every atom of block i is a point of M_i."""
    for b in range(blocks.place[i, COUNT]):
        if not contains(data, i, get_atom(blocks, i, b)):
            return False
    return True


@jit
def move(blocks, i, atom, gamma):
    """x_(i) <- (1 - gamma) x_(i) + gamma s: scale the weights, add or raise s."""
    if gamma <= 0.0:
        return
    place, weights, atoms = blocks.place, blocks.weights, blocks.atoms
    size = place[i, SIZE]
    slot = place[i, SLOT]
    begin = place[i, BEGIN]
    count = place[i, COUNT] if gamma < 1.0 else 0
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
        if count == place[i, ROOM]:
            _double(blocks, i, count)
            slot = place[i, SLOT]
            begin = place[i, BEGIN]
        found = count
        count += 1
        for j in range(size):
            atoms[begin + found * size + j] = atom[j]
    weights[slot + found] = 1.0 - others
    place[i, COUNT] = count


@jit
def begin_draft(blocks, draft, i):
    """x'_(i) <- x_(i), where `draft` is a second store, of x'."""
    for column in range(blocks.place.shape[1]):
        draft.place[i, column] = blocks.place[i, column]
    slot = blocks.place[i, SLOT]
    for b in range(slot, slot + blocks.place[i, COUNT]):
        draft.weights[b] = blocks.weights[b]


@jit
def move_draft(blocks, draft, i, atom, gamma):
    """x'_(i) <- (1 - gamma) x'_(i) + gamma s; no atom of x_(i) changes its place."""
    place, weights, atoms = draft.place, draft.weights, draft.atoms
    size, slot, begin = place[i, SIZE], place[i, SLOT], place[i, BEGIN]
    count = place[i, COUNT]
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
        if count == place[i, ROOM]:
            _double(blocks, i, count)
            for b in range(count):
                weights[blocks.place[i, SLOT] + b] = weights[slot + b]
            for column in (BEGIN, SLOT, ROOM):
                place[i, column] = blocks.place[i, column]
            slot, begin = place[i, SLOT], place[i, BEGIN]
        found = count
        place[i, COUNT] = count + 1
        weights[slot + found] = 0.0
        for j in range(size):
            atoms[begin + found * size + j] = atom[j]
    weights[slot + found] += gamma


@jit
def blend(blocks, draft, i, theta):
    """x_(i) <- x_(i) + theta (x'_(i) - x_(i)), then drop negligible weights."""
    if theta <= 0.0:
        return
    place, weights = blocks.place, blocks.weights
    slot, known, count = place[i, SLOT], place[i, COUNT], draft.place[i, COUNT]
    heaviest = 0
    for b in range(count):
        old = weights[slot + b] if b < known else 0.0
        weights[slot + b] = old + theta * (draft.weights[slot + b] - old)
        if weights[slot + b] > weights[slot + heaviest]:
            heaviest = b
    _drop_negligible(blocks, i, count, heaviest)


@jit
def _drop_negligible(blocks, i, count, heaviest):
    """Give the weights below `NEGLIGIBLE` to the heaviest of `count` atoms."""
    place, weights, atoms = blocks.place, blocks.weights, blocks.atoms
    size, slot, begin = place[i, SIZE], place[i, SLOT], place[i, BEGIN]
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
    place[i, COUNT] = count


@jit
def _double(blocks, i, count):
    """Move the list of block i to twice the room at the end of the pool."""
    place, weights, atoms, top = blocks.place, blocks.weights, blocks.atoms, blocks.top
    size, slot, begin = place[i, SIZE], place[i, SLOT], place[i, BEGIN]
    for b in range(count):
        weights[top[1] + b] = weights[slot + b]
    for j in range(count * size):
        atoms[top[0] + j] = atoms[begin + j]
    room = 2 * place[i, ROOM]
    place[i, BEGIN], place[i, SLOT], place[i, ROOM] = top[0], top[1], room
    top[0] += room * size
    top[1] += room
    top[3] = max(top[3], room)
