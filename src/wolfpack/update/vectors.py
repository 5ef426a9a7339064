"""Blocks as vectors: x_(i) itself, for balls and other sets without corners.

An atom is a vector of the same size, so s - x_(i) is one too, and `add` and `score`,
which are linear, take it as they take an atom.
"""

from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.compile import glue, jit
from wolfpack.kernels.slots import add, contains, score


class Vectors(NamedTuple):
    """x_(i) is `points[i]`; `difference` is scratch for s - x_(i)."""

    points: np.ndarray
    difference: np.ndarray


def create(start: np.ndarray, offsets: None, batch_size: int) -> Vectors:
    """Make the store that holds the points `start`, one row a block."""
    return Vectors(start.copy(), np.zeros(start.shape[1:], start.dtype))


def outline(start: np.ndarray, offsets: None) -> Vectors:
    """Return a store without points, for a worker that needs only their length."""
    return create(start[:0], None, 1)


def grow(blocks: Vectors, batch_size: int) -> Vectors:
    """Vectors never grow."""
    return blocks


def pack(blocks: Vectors) -> dict[str, Any]:
    """Return the arrays that a saved state needs."""
    return {"points": blocks.points}


def unpack(arrays: dict[str, np.ndarray], offsets: None, batch_size: int) -> Vectors:
    """Make the store from what `pack` gave."""
    return create(np.ascontiguousarray(arrays["points"]), None, batch_size)


def append(arrays: dict[str, Any], start: np.ndarray, offsets: None) -> dict[str, Any]:
    """Add the further blocks of `start`, each at its start."""
    points = arrays["points"]
    return {"points": np.concatenate([points, start[len(points) :]])}


def draw_back(
    arrays: dict[str, Any], start: np.ndarray, offsets: None, ratio: float
) -> dict[str, Any]:
    """Return start + ratio (x - start)."""
    return {"points": start + ratio * (arrays["points"] - start)}


def refuse(arrays: dict[str, np.ndarray], offsets: None) -> None:
    """Raise `ValueError` unless a file holds what `pack` gives."""
    points = arrays["points"]
    if points.dtype.kind != "f" or points.ndim != 2 or points.size == 0:
        raise ValueError("its points are no table of numbers, one row a block")


def for_worker(blocks: Vectors) -> Vectors:
    """Return the store with scratch of its own, for one of several threads."""
    return blocks._replace(difference=np.zeros_like(blocks.difference))


def make_draft(blocks: Vectors, size: int) -> Vectors:
    """Return memory for the new points of up to `size` blocks that a worker holds."""
    return create(blocks.points[:size], None, 1)


@glue
def is_full(blocks, i):
    """Return whether x_(i) needs more room: never."""
    return False


@glue
def has_room(blocks, batch_size):
    """Return whether an update of `batch_size` blocks fits: always."""
    return True


@glue
def trim(blocks, i, atom):
    """Return the part of a scratch atom that block i fills: all of it."""
    return atom


@glue
def read_point(blocks, i, atom):
    """Write x_(i) into `atom`."""
    for j in range(atom.size):
        atom[j] = blocks.points[i, j]


@jit
def default_prepare(data, shared, blocks, i, atom, work):
    """Keep s - x_(i); return the block gap <x_(i) - s, grad_i f>."""
    difference = blocks.difference
    for j in range(difference.size):
        difference[j] = atom[j] - blocks.points[i, j]
    return -score(data, shared, i, difference)


@jit
def default_spread(data, blocks, i, atom, scale, out, work):
    """Add scale A_i (s - x_(i)) to `out`; return scale <c_i, s - x_(i)>."""
    return add(data, i, blocks.difference, scale, out)


@jit
def move(blocks, i, atom, gamma):
    """x_(i) <- (1 - gamma) x_(i) + gamma s."""
    for j in range(atom.size):
        old = blocks.points[i, j]
        blocks.points[i, j] = (1.0 - gamma) * old + gamma * atom[j]


@jit
def begin_draft(blocks, draft, k, i):
    """x'_(i) <- x_(i), as the k-th block of the draft."""
    for j in range(blocks.points.shape[1]):
        draft.points[k, j] = blocks.points[i, j]


@glue
def is_draft_full(blocks, draft, k, i):
    """Return whether x'_(i) needs more room: never."""
    return False


@jit
def move_draft(blocks, draft, k, i, atom, gamma):
    """x'_(i) <- (1 - gamma) x'_(i) + gamma s."""
    move(draft, k, atom, gamma)


@jit
def blend(blocks, draft, k, i, theta):
    """x_(i) <- x_(i) + theta (x'_(i) - x_(i))."""
    for j in range(blocks.points.shape[1]):
        old = blocks.points[i, j]
        blocks.points[i, j] = (1.0 - theta) * old + theta * draft.points[k, j]


@jit
def expand(data, blocks, i, out):
    """Add A_i x_(i) to `out`; return <c_i, x_(i)>."""
    return add(data, i, blocks.points[i], 1.0, out)


@jit
def is_inside(data, blocks, i):
    """Return whether x_(i) is a point of M_i."""
    return contains(data, i, blocks.points[i])
