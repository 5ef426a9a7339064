"""Try the atoms of a start, or of a state, before compiled loops trust them.

A label, a path or a corner is a number that the functions of a problem use as an index.
With an index that does not exist, a compiled loop reads foreign memory. So each atom
goes once through copies of these functions that are compiled with bounds checking.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numba
import numpy as np

from wolfpack.files.npz import one_line
from wolfpack.kernels.compile import is_compiled
from wolfpack.kernels.snapshot import Snapshot
from wolfpack.problem import Problem
from wolfpack.stores import STORES, name_of

# The functions that are tried on each point of a store.
OF_ATOMS = ("contains", "add", "score")
CALLED = {
    "atoms": OF_ATOMS,
    "vectors": OF_ATOMS,
    "parts": ("contains_parts", "add_parts", "score_parts"),
}


class Fault(Exception):
    """What a block's atoms do: leave their set, or make a function raise."""

    def __init__(self, block: int, error: Exception | None) -> None:
        super().__init__(block, error)
        self.block, self.error = block, error


def with_bounds(functions: dict[str, Callable]) -> dict[str, Callable]:
    """Return copies of compiled functions that check the bounds of arrays."""
    snapshot = Snapshot(checked=True)
    return {
        name: snapshot.take(one, name) if is_compiled(one) else one
        for name, one in functions.items()
    }


def find_fault(problem: Problem, blocks: Any) -> tuple[int, str] | None:
    """Return the first block with a wrong atom, and what is wrong; None: all are right.

    Compiling the copies takes a second or two.
    """
    names = [name for name in CALLED[problem.store_name] if getattr(problem, name)]
    try:
        visit(problem, blocks, with_bounds({n: getattr(problem, n) for n in names}))
    except Fault as fault:
        if fault.error is None:
            return fault.block, "lies outside its feasible set"
        kind, why = type(fault.error).__name__, one_line(fault.error)
        return fault.block, f"is no point of its set ({kind}: {why})"
    return None


def visit(problem: Problem, blocks: Any, functions: dict[str, Callable]) -> np.ndarray:
    """Call those of `contains`, `add` and `score` that are given with every atom.

    Returns v0 + the sum of all A_i s; raises `Fault` at the first block that fails.
    With parts, their functions are called with x_(i).
    """
    name = name_of(blocks)
    given = [functions.get(one) for one in CALLED[name]]
    compiled = all(one is None or is_compiled(one) for one in given)
    make = _make_visit_of_parts if name == "parts" else _make_visit
    loop = make(STORES[name], compiled, *given)
    v, current = problem.shared.astype(np.float64), np.array([-1])
    try:
        inside = loop(
            problem.data, problem.shared, blocks, problem.n_blocks, v, current
        )
    except Exception as error:
        if current[0] < 0:  # the loop never started: it does not compile
            raise
        raise Fault(int(current[0]), error) from error
    if not inside:
        raise Fault(int(current[0]), None)
    return v


def _make_visit(
    store: ModuleType, compiled: bool, contains: Any, add: Any, score: Any
) -> Callable:
    """Return a loop over the atoms of all blocks that calls these functions."""
    make = numba.njit(boundscheck=True) if compiled else _plain
    count, get = make(store.count_points.py_func), make(store.get_point.py_func)
    contains = make(_accept) if contains is None else contains
    score = make(_say_nothing) if score is None else score

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


def _make_visit_of_parts(
    store: ModuleType, compiled: bool, contains: Any, add: Any, score: Any
) -> Callable:
    """Return a loop over x_(i) of all blocks that calls these functions."""
    make = numba.njit(boundscheck=True) if compiled else _plain
    get = make(store.get_lists.py_func)
    contains = make(_accept_parts) if contains is None else contains

    def visit(data, shared, blocks, n_blocks, out, current):
        for i in range(n_blocks):
            current[0] = i
            found, weights = get(blocks, i)
            if not contains(data, i, found, weights):
                return False
            add(data, i, found, weights, 1.0, out)
            score(data, shared, i, found, weights)
        return True

    return make(visit)


def _plain(function: Callable) -> Callable:
    return function


def _accept_parts(data, i, found, weights):
    return True


def _accept(data, i, atom):
    return True


def _say_nothing(data, shared, i, atom):
    return 0.0
