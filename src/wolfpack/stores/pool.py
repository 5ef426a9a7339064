"""The memory of weighted atoms: a list for each block, with room to grow.

The lists of all blocks stand one after the other, with some room behind each. Where a
list is full, the loop moves it to the end of the pool (`atoms`); where the pool is
full, the loop returns, and `grow` makes a larger one without holes.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.compile import entry, glue, jit
from wolfpack.kernels.specialise import library

ROUNDING = 1e-12  # of a weight
FIRST_ROOM = 4  # atoms in the list of a new block
SPACE = 3  # a new pool takes this many times all lists: each of them may double once
SPARE_LISTS = 16  # free room behind the lists, in longest lists per block in flight
SPARE = 8  # entries behind the last atom, which may be read eight at a time

# Where the list of a block is.
PLACE = np.dtype(
    [
        ("begin", np.int64),  # of its first atom, in `Atoms.atoms`
        ("slot", np.int64),  # of its first weight, in `Atoms.weights`
        ("length", np.int64),  # entries of an atom
        ("count", np.int64),  # atoms that it has
        ("room", np.int64),  # atoms that fit
    ]
)
# How far the pool is filled.
TOP = np.dtype(
    [
        ("entries", np.int64),  # of atoms: the next one is free
        ("slots", np.int64),  # of weights: the next one is free
        ("longest_atom", np.int64),
        ("longest_list", np.int64),  # the largest room
    ]
)


class Atoms(NamedTuple):
    """The atoms of all blocks, their convex weights, and the place of each list."""

    place: Any  # a record a block, see `PLACE`
    weights: np.ndarray
    atoms: np.ndarray
    top: Any  # one record, see `TOP`


class Draft(NamedTuple):
    """New weights of the atoms of a few blocks, one block after the other."""

    slots: np.ndarray  # where the weights of the k-th block begin; behind it, the next
    weights: np.ndarray


def create(problem: Any, batch_size: int) -> Atoms:
    """Make the store that holds the start of a problem."""
    n, start = problem.n_blocks, problem.start
    one_each = {"counts": np.ones(n, np.int64), "weights": np.ones(n), "atoms": start}
    return unpack(one_each, problem, batch_size)


def pack(blocks: Atoms) -> dict[str, Any]:
    """Return the arrays that a saved state needs: no holes, no spare room."""
    place = blocks.place.copy()
    place.room = place.count
    _lay_out(place)
    top = _top(place)[0]
    weights = np.empty(top.slots, blocks.weights.dtype)
    atoms = np.empty(top.entries, blocks.atoms.dtype)
    _copy(blocks, place, weights, atoms)
    return {"counts": place.count.copy(), "weights": weights, "atoms": atoms}


def unpack(arrays: dict[str, np.ndarray], problem: Any, batch_size: int) -> Atoms:
    """Make the store of a problem from what `pack` gave."""
    offsets = problem.offsets[: len(arrays["counts"]) + 1]
    return grow(read(arrays, offsets), batch_size)


def read(arrays: dict[str, np.ndarray], offsets: np.ndarray) -> Atoms:
    """Make a store from what `pack` gave, before its problem is known."""
    counts = arrays["counts"]
    place = _make_places(len(counts))
    place.length = np.diff(offsets)
    place.count = place.room = counts
    _lay_out(place)
    return Atoms(place, arrays["weights"], arrays["atoms"], _top(place))


def append(arrays: dict[str, Any], problem: Any) -> dict[str, Any]:
    """Add to what `pack` gave the further blocks of a problem, each at its start."""
    start, offsets = problem.start, problem.offsets
    n = len(offsets) - 1 - len(arrays["counts"])
    new = {"counts": np.ones(n, np.int64), "weights": np.ones(n)}
    new["atoms"] = start[offsets[-1 - n] :]
    return {name: np.concatenate([arrays[name], new[name]]) for name in arrays}


def draw_back(arrays: dict[str, Any], problem: Any, ratio: float) -> dict[str, Any]:
    """Return start + ratio (x - start) of what `pack` gave."""
    offsets = problem.offsets[: len(arrays["counts"]) + 1]
    start = problem.start[: offsets[-1]]
    counts, weights = arrays["counts"].copy(), arrays["weights"] * ratio
    sizes = np.diff(offsets)
    block = np.repeat(np.arange(len(counts)), counts)
    length, atoms = sizes[block], arrays["atoms"]
    first = np.cumsum(length) - length
    place = np.repeat(offsets[block] - first, length) + np.arange(len(atoms))
    is_start = np.logical_and.reduceat(atoms == start[place], first)
    weights[is_start] += 1.0 - ratio
    missing = np.setdiff1d(np.arange(len(counts)), block[is_start])
    ends = np.cumsum(counts)[missing], np.cumsum(counts * sizes)[missing]
    own = np.isin(np.repeat(np.arange(len(counts)), sizes), missing)
    counts[missing] += 1
    return {
        "counts": counts,
        "weights": np.insert(weights, ends[0], 1.0 - ratio),
        "atoms": np.insert(atoms, np.repeat(ends[1], sizes[missing]), start[own]),
    }


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
    # After a step of 1e-17 a weight is 0, or a rounding error below 0.
    if not (weights.min() >= -ROUNDING and np.abs(sums - 1).max() < 1e-6):
        raise ValueError("the weights of a block are no convex combination")


def outline(problem: Any) -> Atoms:
    """Return a store without atoms, for a worker that needs only their lengths."""
    place = _make_places(problem.n_blocks)
    place.length = np.diff(problem.offsets)
    top = np.zeros(1, TOP).view(np.recarray)
    return Atoms(place, np.zeros(0), problem.start[:0].copy(), top)


def grow(blocks: Atoms, batch_size: int, more: Any = 1) -> Atoms:
    """Copy into a pool without holes, with space for many more atoms.

    A list has room for `more`. Unused space costs no memory: the system maps a page at
    its first write.
    """
    place = blocks.place.copy()
    place.room = np.maximum(place.count + more, FIRST_ROOM)
    _lay_out(place)
    top = _top(place)
    entries, slots, length, room = (int(number) for number in top[0])
    n_slots = SPACE * slots + SPARE_LISTS * batch_size * room
    n_entries = SPACE * entries + SPARE_LISTS * batch_size * room * length + SPARE
    weights = np.empty(n_slots, blocks.weights.dtype)
    atoms = np.empty(n_entries, blocks.atoms.dtype)
    _copy(blocks, place, weights, atoms)
    return Atoms(place, weights, atoms, top)


def _copy(blocks: Atoms, place: Any, weights: np.ndarray, atoms: np.ndarray) -> None:
    """Copy all lists to where `place` has them in larger, or tighter, pools."""
    relocate = library(sys.modules[__name__])._relocate
    relocate(blocks.place, blocks.weights, blocks.atoms, place, weights, atoms)


def _lay_out(place: Any) -> None:
    room = place.room
    place.slot = np.cumsum(room) - room
    entries = room * place.length
    place.begin = np.cumsum(entries) - entries


def _top(place: Any) -> Any:
    room, length = place.room, place.length
    numbers = room @ length, room.sum(), length.max(), room.max()
    return np.array([numbers], TOP).view(np.recarray)


def _make_places(count: int) -> Any:
    return np.zeros(count, PLACE).view(np.recarray)


@entry
def _relocate(old, weights, atoms, place, new_weights, new_atoms):
    for i in range(len(place)):
        for b in range(old[i].count):
            new_weights[place[i].slot + b] = weights[old[i].slot + b]
        for j in range(old[i].count * old[i].length):
            new_atoms[place[i].begin + j] = atoms[old[i].begin + j]


@glue
def lists_fit(blocks, batch_size):
    """Return whether `batch_size` lists can double and still fit the pool."""
    top = blocks.top[0]
    slots = 2 * batch_size * top.longest_list
    return (
        top.slots + slots <= blocks.weights.size
        and top.entries + slots * top.longest_atom + SPARE <= blocks.atoms.size
    )


@jit
def double(blocks, i, count):
    """Move the list of block i to twice the room at the end of the pool."""
    place, weights, atoms, top = (
        blocks.place,
        blocks.weights,
        blocks.atoms,
        blocks.top[0],
    )
    size, slot, begin = place[i].length, place[i].slot, place[i].begin
    for b in range(count):
        weights[top.slots + b] = weights[slot + b]
    for j in range(count * size):
        atoms[top.entries + j] = atoms[begin + j]
    room = 2 * place[i].room
    place[i].begin, place[i].slot, place[i].room = top.entries, top.slots, room
    top.entries += room * size
    top.slots += room
    top.longest_list = max(top.longest_list, room)


def read_atoms(blocks: Atoms, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of x_(i), and its atoms, one a row."""
    slot, begin, length, count = blocks.place[i][["slot", "begin", "length", "count"]]
    atoms = blocks.atoms[begin : begin + count * length].reshape(count, length)
    return blocks.weights[slot : slot + count].copy(), atoms.copy()


def for_worker(blocks: Atoms) -> Atoms:
    """Return the store in a form that one of several threads may use."""
    return blocks


def make_draft(blocks: Atoms, size: int) -> Draft:
    """Return memory for the new weights of up to `size` blocks that a worker holds.

    No list is longer than its room, so the weights of all blocks fit. Memory that is
    not used costs nothing.
    """
    return Draft(np.zeros(size + 1, np.int64), np.empty_like(blocks.weights))
