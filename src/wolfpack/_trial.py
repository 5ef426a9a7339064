"""Try the atoms of a state before compiled loops trust them.

A label, a path or a corner is a number that the functions of a problem use as an index.
Where it does not exist a compiled loop reads foreign memory. So each atom goes once
through copies of these functions that are compiled with bounds checking.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from wolfpack._compile import is_compiled
from wolfpack._files import one_line
from wolfpack.check import with_bounds
from wolfpack.problem import Problem
from wolfpack.stores import atoms


def find_fault(problem: Problem, blocks: Any) -> tuple[int, str] | None:
    """Return the first block with an atom that does not exist, and what it does.

    Compiling the copies takes a second or two.
    """
    copies: dict[int, Any] = {}
    contains, add, score = (
        function and with_bounds(function, copies)
        for function in (problem.contains, problem.add, problem.score)
    )
    given = [function for function in (contains, add, score) if function is not None]
    compiled = all(map(is_compiled, given))
    visit = _make_visit(problem.offsets is None, compiled, contains, add, score)
    out, current = problem.shared.astype(np.float64), np.array([-1])
    try:
        inside = visit(
            problem.data, problem.shared, blocks, problem.n_blocks, out, current
        )
    except Exception as error:
        if current[0] < 0:  # it does not compile, for no fault of the atoms
            raise
        kind = type(error).__name__
        return int(current[0]), f"is no point of its set ({kind}: {one_line(error)})"
    return None if inside else (int(current[0]), "lies outside its feasible set")


def _make_visit(
    is_vectors: bool, compiled: bool, contains: Any, add: Any, score: Any
) -> Callable:
    """Return a loop over the atoms of all blocks that calls these functions."""
    make = numba.njit(boundscheck=True) if compiled else _plain
    count = make(_count_points if is_vectors else _count_atoms)
    get = make(_get_point if is_vectors else atoms.get_atom.py_func)
    contains = make(_accept) if contains is None else contains

    def visit(data, shared, blocks, n_blocks, out, current):
        for i in range(n_blocks):
            current[0] = i
            for b in range(count(blocks, i)):
                atom = get(blocks, i, b)
                if not contains(data, i, atom):
                    return False
                add(data, i, atom, 1.0, out)
                score(data, shared, i, atom)
        return True

    return make(visit)


def _plain(function: Callable) -> Callable:
    return function


def _count_atoms(blocks, i):
    return blocks.place[i, atoms.COUNT]


def _count_points(blocks, i):
    return 1


def _get_point(blocks, i, b):
    return blocks.points[i]


def _accept(data, i, atom):
    return True
