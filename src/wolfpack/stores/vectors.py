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


ARRAYS = ("points",)  # of a file
Blocks = Vectors
LOOPS = ()


def create(problem: Any, batch_size: int) -> Vectors:
    """Make the store that holds the start of a problem."""
    return _make(problem.start.copy())


def _make(points: np.ndarray) -> Vectors:
    return Vectors(points, np.zeros(points.shape[1:], points.dtype))


def outline(problem: Any) -> Vectors:
    """Return a store without points, for a worker that needs only their length."""
    return _make(problem.start[:0].copy())


def grow(blocks: Vectors, batch_size: int) -> Vectors:
    """Vectors never grow."""
    return blocks


def pack(blocks: Vectors) -> dict[str, Any]:
    """Return the arrays that a saved state needs."""
    return {"points": blocks.points}


def unpack(arrays: dict[str, np.ndarray], problem: Any, batch_size: int) -> Vectors:
    """Make the store of a problem from what `pack` gave."""
    return _make(arrays["points"].copy())


def read(arrays: dict[str, np.ndarray], offsets: None) -> Vectors:
    """Make a store from what `pack` gave, before its problem is known."""
    return _make(arrays["points"])


def append(arrays: dict[str, Any], problem: Any) -> dict[str, Any]:
    """Add the further blocks of a problem, each at its start."""
    points = arrays["points"]
    return {"points": np.concatenate([points, problem.start[len(points) :]])}


def draw_back(arrays: dict[str, Any], problem: Any, ratio: float) -> dict[str, Any]:
    """Return start + ratio (x - start)."""
    start = problem.start[: len(arrays["points"])]
    return {"points": start + ratio * (arrays["points"] - start)}


def refuse(arrays: dict[str, np.ndarray], offsets: None) -> None:
    """Raise `ValueError` unless a file holds what `pack` gives."""
    points = arrays["points"]
    if points.dtype.kind != "f" or points.ndim != 2 or points.size == 0:
        raise ValueError("its points are no table of numbers, one row a block")


def read_atoms(blocks: Vectors, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight of x_(i), 1, and x_(i) as a row."""
    return np.ones(1), blocks.points[i : i + 1].copy()


def for_worker(blocks: Vectors) -> Vectors:
    """Return the store with scratch of its own, for one of several threads."""
    return blocks._replace(difference=np.zeros_like(blocks.difference))


def make_draft(blocks: Vectors, size: int) -> Vectors:
    """Return memory for the new points of up to `size` blocks that a worker holds."""
    return _make(blocks.points[:size].copy())


@glue
def is_full(blocks, i):
    """Return whether x_(i) needs more room: never."""
    return False


@glue
def has_room(blocks, batch_size):
    """Return whether an update of `batch_size` blocks fits: always."""
    return True


@glue
def count_points(blocks, i):
    """Return how many points are kept for block i."""
    return 1


@glue
def get_point(blocks, i, b):
    """Return x_(i) as a view."""
    return blocks.points[i]


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
def towards(data, blocks, i, atom):
    """Return the move s - x_(i), a vector."""
    difference = blocks.difference
    for j in range(difference.size):
        difference[j] = atom[j] - blocks.points[i, j]
    return difference


@glue
def last_move(blocks, i, atom):
    """Return what `towards` returned last."""
    return blocks.difference


@jit
def default_rate(data, shared, i, move, work, is_fresh):
    """Return <s - x_(i), grad_i f>."""
    return score(data, shared, i, move)


@jit
def default_spread(data, i, move, scale, out, work):
    """Add scale A_i (s - x_(i)) to `out`; return scale <c_i, s - x_(i)>."""
    return add(data, i, move, scale, out)


@jit
def shift(data, blocks, i, atom, gamma):
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
def shift_draft(data, blocks, draft, k, i, atom, gamma):
    """x'_(i) <- (1 - gamma) x'_(i) + gamma s."""
    shift(data, draft, k, atom, gamma)


@jit
def blend(blocks, draft, k, i, theta):
    """x_(i) <- x_(i) + theta (x'_(i) - x_(i))."""
    for j in range(blocks.points.shape[1]):
        old = blocks.points[i, j]
        blocks.points[i, j] = (1.0 - theta) * old + theta * draft.points[k, j]


@jit
def expand(data, blocks, i, out, work):
    """Add A_i x_(i) to `out`; return <c_i, x_(i)>."""
    return add(data, i, blocks.points[i], 1.0, out)


@jit
def is_inside(data, blocks, i):
    """Return whether x_(i) is a point of M_i."""
    return contains(data, i, blocks.points[i])
