"""Whether a point that a run is to start from lies in the feasible set."""

from typing import Any

import numpy as np

from wolfpack.checks.trial import find_fault
from wolfpack.problem import Problem


def point_fault(
    problem: Problem, blocks: Any, from_file: bool, same_problem: bool
) -> str:
    """Say why a run may not start from x; empty: it may. Compiled loops would trust x.

    A file may hold anything, and an atom of another problem may not exist in this one.
    Without a trusted `contains`, the problem's functions try each atom with bounds
    checking on, which costs a second or two to compile. The entries of a vector are no
    indices, so any `contains` is enough for vectors.
    """
    name = problem.store_name
    is_vector, known = (
        name == "vectors",
        "contains_parts" if name == "parts" else "contains",
    )
    has_contains = getattr(problem, known) is not None
    if from_file:
        trusted = has_contains and (problem.is_ours or is_vector)
    else:
        trusted = has_contains or is_vector or same_problem
    wrong = "" if trusted else _try_atoms(problem, blocks)
    if wrong or not has_contains:
        return wrong
    bad = problem.kernels().first_outside(problem.data, blocks, problem.n_blocks)
    return f"block {bad} of start lies outside its feasible set." if bad >= 0 else ""


def _try_atoms(problem: Problem, blocks: Any) -> str:
    known = "contains_parts" if problem.store_name == "parts" else "contains"
    if problem.prepare is not None and getattr(problem, known) is None:
        return (
            f"the {problem.store_name} of start cannot be tried: {problem.name} has a "
            f"fused step and no `{known}`; give the problem one."
        )
    fault = find_fault(problem, blocks)
    return "" if fault is None else "block {} of start {}.".format(*fault)


def count_blocks(problem: Problem, state: Any) -> int | None:
    """Return how many of the problem's first blocks a state has; None: they differ."""
    kept = problem.store_name, state.keeps
    if kept[0] != kept[1] and kept != ("parts", "atoms"):  # which can be converted
        return None
    entries = {"vectors": "points", "atoms": "atoms"}.get(state.keeps)
    entries = problem.start if entries is None else getattr(state.blocks, entries)
    mine = problem.shared.shape, problem.start.dtype
    if mine != (state.shared.shape, entries.dtype):
        return None
    if problem.offsets is None:
        n, fits = len(entries), problem.start.shape[1:] == entries.shape[1:]
    else:
        n, known = len(state.offsets) - 1, np.asarray(state.offsets)
        fits = np.array_equal(problem.offsets[: n + 1], known)
    return n if fits and n <= problem.n_blocks else None


def describe_blocks(state: Any) -> str:
    """Say what blocks a state has."""
    if state.offsets is None:
        return f"{len(state.blocks.points)} vectors"
    return f"{len(state.offsets) - 1} blocks of atoms, {int(state.offsets[-1])} entries"
