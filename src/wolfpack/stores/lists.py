"""The memory of parts: a sorted list for each block, with room to grow.

The lists stand in a `pool`, where a part is an entry of its own. Scratch for moves, and
for a list while it is made, belongs to one worker each.
"""

from typing import Any, NamedTuple

import numpy as np

from wolfpack.stores import pool
from wolfpack.stores.pool import Atoms as Lists

WHOLE = 1e-12  # by which a weight may miss 1, or 0
ARRAYS = ("counts", "weights", "parts")  # of a file


class Parts(NamedTuple):
    """The parts of all blocks and their weights, and scratch for moves."""

    lists: Lists  # a part is an entry of its own
    offsets: np.ndarray  # of the atoms in `start`
    most: np.ndarray  # parts of an atom, at most
    start: np.ndarray  # an atom of each block, to which others are compared
    own: np.ndarray  # scratch: the parts of an atom
    found: np.ndarray  # scratch: the parts of a move, or of a list that is made
    weights: np.ndarray  # scratch: theirs


class Draft(NamedTuple):
    """New lists of a few blocks, one block after the other."""

    slots: np.ndarray  # where the list of the k-th block begins; behind it, the next
    parts: np.ndarray
    weights: np.ndarray


def create(problem: Any, batch_size: int) -> Parts:
    """Make the store that holds the start of a problem."""
    counts, parts = listed(problem, problem.start, np.arange(problem.n_blocks))
    arrays = {"counts": counts, "weights": np.ones(len(parts)), "parts": parts}
    return unpack(arrays, problem, batch_size)


def listed(
    problem: Any, atoms: np.ndarray, block: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many parts each atom has, and all of them; `block`: whose it is."""
    most, counts = _most(problem)[block], np.zeros(len(block), np.int64)
    sizes, parts = np.diff(problem.offsets)[block], np.empty(most.sum(), np.int32)
    begin = np.cumsum(sizes) - sizes
    args = problem.data, atoms, begin, sizes, block, counts, parts
    return counts, parts[: problem.kernels().list_parts(*args)]


def _most(problem: Any) -> np.ndarray:
    sizes = np.diff(problem.offsets)
    return np.full_like(sizes, problem.max_parts) if problem.max_parts else sizes


def pack(blocks: Parts) -> dict[str, Any]:
    """Return the arrays that a saved state needs: no holes, no spare room."""
    arrays = pool.pack(blocks.lists)
    arrays["parts"] = arrays.pop("atoms")
    return {name: arrays[name] for name in ARRAYS}


def unpack(arrays: dict[str, Any], problem: Any, batch_size: int) -> Parts:
    """Make the store of a problem from what `pack` gave."""
    blocks = read(arrays, problem.offsets[: len(arrays["counts"]) + 1])
    most = _most(problem)[: len(arrays["counts"])]
    return grow(blocks._replace(most=most, start=problem.start), batch_size)


def read(arrays: dict[str, Any], offsets: np.ndarray) -> Parts:
    """Make a store from what `pack` gave, before its problem is known."""
    lists = {**arrays, "atoms": arrays["parts"]}
    lists, none = pool.read(lists, np.arange(len(offsets))), np.zeros(0, np.int32)
    return Parts(lists, offsets, np.diff(offsets), none, none, none, np.zeros(0))


def grow(blocks: Parts, batch_size: int) -> Parts:
    """Copy into a pool without holes, with space for many more parts."""
    lists = pool.grow(blocks.lists, batch_size, blocks.most)
    size = 8 * int(lists.top[0].longest_list)
    return for_worker(blocks._replace(lists=lists, found=np.empty(size, np.int32)))


def for_worker(blocks: Parts) -> Parts:
    """Return the store with scratch of its own, for one of several threads."""
    size = blocks.found.size
    own = np.empty(int(blocks.most.max()), np.int32)
    return blocks._replace(
        own=own, found=np.empty(size, np.int32), weights=np.empty(size)
    )


def outline(problem: Any) -> Parts:
    """Return a store without parts, for a worker that needs only lengths of atoms."""
    none, most = np.zeros(0, np.int32), _most(problem)
    lists = Lists(np.zeros(0, pool.PLACE).view(np.recarray), np.zeros(0), none, none)
    return Parts(lists, problem.offsets, most, problem.start, none, none, np.zeros(0))


def append(arrays: dict[str, Any], problem: Any) -> dict[str, Any]:
    """Add to what `pack` gave the further blocks of a problem, each at its start."""
    known = len(arrays["counts"])
    block = np.arange(known, problem.n_blocks)
    counts, parts = listed(problem, problem.start[problem.offsets[known] :], block)
    new = {"counts": counts, "weights": np.ones(len(parts)), "parts": parts}
    return {name: np.concatenate([arrays[name], new[name]]) for name in ARRAYS}


def draw_back(arrays: dict[str, Any], problem: Any, ratio: float) -> dict[str, Any]:
    """Return start + ratio (x - start) of what `pack` gave."""
    block = np.arange(len(arrays["counts"]))
    start = problem.start[: problem.offsets[len(block)]]
    counts, parts = listed(problem, start, block)
    return summed(
        len(block),
        np.concatenate([np.repeat(block, arrays["counts"]), np.repeat(block, counts)]),
        np.concatenate([arrays["parts"], parts]),
        np.concatenate([ratio * arrays["weights"], np.full(len(parts), 1.0 - ratio)]),
    )


def from_atoms(arrays: dict[str, Any], problem: Any) -> dict[str, Any]:
    """Return weights of parts for what the store of atoms has packed."""
    n = len(arrays["counts"])
    block = np.repeat(np.arange(n), arrays["counts"])
    counts, parts = listed(problem, arrays["atoms"], block)
    weights = np.repeat(arrays["weights"], counts)
    return summed(n, np.repeat(block, counts), parts, weights)


def summed(n: int, block: np.ndarray, parts: np.ndarray, weights: np.ndarray):
    """Return what `pack` gives, where a block may have a part several times."""
    key = (block.astype(np.int64) << 32) | parts
    known, place = np.unique(key, return_inverse=True)
    total = np.bincount(place, weights)
    total[np.abs(total - 1.0) <= WHOLE] = 1.0
    kept = total > WHOLE
    known, total = known[kept], total[kept]
    counts = np.bincount(known >> 32, minlength=n)
    return {
        "counts": counts,
        "weights": total,
        "parts": (known & (2**32 - 1)).astype(np.int32),
    }


def refuse(arrays: dict[str, np.ndarray], offsets: np.ndarray) -> None:
    """Raise `ValueError` unless a file holds what `pack` gives."""
    counts, weights, parts = (arrays[name] for name in ARRAYS)
    if counts.dtype != np.int64 or counts.shape != (len(offsets) - 1,):
        raise ValueError("it does not count the parts of each block")
    if weights.dtype != np.float64 or weights.ndim != 1 or parts.dtype != np.int32:
        raise ValueError("its weights or parts are no row of numbers")
    if counts.min() < 1 or counts.max() > len(weights) or counts.sum() != len(weights):
        raise ValueError("it counts parts that are not there")
    if parts.shape != weights.shape or parts.min() < 0:
        raise ValueError("its parts do not fit their weights")
    key = (np.repeat(np.arange(len(counts)), counts) << 32) | parts
    if (np.diff(key) <= 0).any():
        raise ValueError("the parts of a block do not ascend")
    if not (weights.min() >= 0.0 and weights.max() <= 1.0 + pool.ROUNDING):
        raise ValueError("the weight of a part lies outside [0, 1]")


def read_parts(blocks: Parts, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of x_(i), and their weights."""
    slot, count = blocks.lists.place[i][["slot", "count"]]
    here = slice(slot, slot + count)
    return blocks.lists.atoms[here].copy(), blocks.lists.weights[here].copy()


def make_draft(blocks: Parts, size: int) -> Draft:
    """Return memory for new lists of up to `size` blocks that a worker holds."""
    lists = blocks.lists
    slots = np.zeros(size + 1, np.int64)
    return Draft(slots, np.empty_like(lists.atoms), np.empty_like(lists.weights))
