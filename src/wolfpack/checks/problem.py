"""Try a problem on a few blocks before any compiled loop starts.

In compiled code a wrong index writes over foreign memory and a typing error is a page
of compiler output. So each function first runs alone, compiled with bounds checking,
and what it returns is compared with what the other functions say about the same atom.
"""

import functools
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from wolfpack.checks.block import BlockCheck, outside, sentence
from wolfpack.checks.fused import FusedCheck
from wolfpack.checks.inputs import is_number
from wolfpack.checks.minimum import MinimumCheck
from wolfpack.checks.parts import PartsCheck
from wolfpack.checks.ridge import check_ridge
from wolfpack.checks.trial import Fault, visit, with_bounds
from wolfpack.kernels import slots as _slots
from wolfpack.kernels.compile import is_compiled
from wolfpack.kernels.names import OPTIONAL, REQUIRED
from wolfpack.problem import Problem, ProblemError
from wolfpack.stores import atoms, vectors


def check(problem: Problem) -> None:
    """Raise `ProblemError` if a function of `problem` misbehaves on its data."""
    _check_arrays(problem)
    _check_rest(problem)
    given = {}
    for name in REQUIRED + OPTIONAL:
        function = getattr(problem, name)
        if function is None and name in REQUIRED:
            raise ProblemError(f"{name} is missing: a Problem needs {_list(REQUIRED)}.")
        if function is not None:
            _check_signature(name, function)
            given[name] = function
    if problem.prepare is not None and problem.spread is None:
        raise ProblemError("prepare is for spread, which is missing; give both.")
    functions = with_bounds(given)
    blocks = [BlockCheck(problem, functions, i) for i in _choose_blocks(problem)]
    for block in blocks:
        block.member(block.start, "start")
        block.image(block.start)
    v = _start(problem, functions).astype(problem.shared.dtype)
    for block in blocks:
        block.check(v)
        if problem.store_name == "parts":
            PartsCheck(block).check(v)
        if problem.curvature is not None or problem.prepare is not None:
            FusedCheck(block, v).check()
    check_ridge(problem, blocks, v)
    MinimumCheck(problem, blocks, v).check()


@functools.cache
def source_hash() -> str:
    """Hash the sources of the checks: what passed older ones is checked again."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    text = b"".join(file.read_bytes() for file in files)
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _choose_blocks(problem: Problem) -> list[int]:
    """Return the first, the middle and the last block, the shortest and the longest."""
    few = {0, problem.n_blocks // 2, problem.n_blocks - 1}
    if problem.offsets is not None:
        sizes = np.diff(problem.offsets)
        few |= {int(sizes.argmin()), int(sizes.argmax())}
    return sorted(few)


def _start(problem: Problem, functions: dict[str, Callable]) -> np.ndarray:
    """Return v0 + A x of the start, after a check of each of its blocks.

    A start outside its set would make every bound wrong. `score` is left out: it may
    be as slow as an oracle.
    """
    # The atoms of a start are tried before their parts are listed.
    store = vectors if problem.offsets is None else atoms
    blocks = store.create(problem, 1)
    names = [name for name in ("contains", "add") if name in functions]
    try:
        v = visit(problem, blocks, {name: functions[name] for name in names})
    except Fault as fault:
        if fault.error is None:
            start = BlockCheck(problem, functions, fault.block).start
            raise ProblemError(outside("start", fault.block, start)) from None
        what = " or ".join(names)
        raise sentence(what, fault.block, fault.error) from fault.error
    except NumbaError as error:
        raise sentence(" or ".join(names), 0, error) from error
    if not np.isfinite(v).all():
        raise ProblemError("add wrote NaN or infinity for the start of some block.")
    return v


def check_scale(problem: Problem) -> None:
    """Refuse a scale that no tolerance can be relative to."""
    if not (is_number(problem.scale) and 0 < problem.scale < np.inf):
        raise ProblemError(
            f"scale must be positive, a finite number, but is {problem.scale!r}."
        )


def _check_arrays(problem: Problem) -> None:
    shared, start, offsets = problem.shared, problem.start, problem.offsets
    for name, array in (("shared", shared), ("start", start)):
        if not isinstance(array, np.ndarray):
            given = type(array).__name__
            raise ProblemError(f"{name} must be a NumPy array, but is a {given}.")
        if not array.flags.c_contiguous:
            raise ProblemError(f"{name} must be C-contiguous: np.ascontiguousarray it.")
        if array.dtype.kind not in "iuf":
            raise ProblemError(f"{name} must hold numbers, but holds {array.dtype}.")
        if array.size == 0:
            raise ProblemError(f"{name} is empty: there is nothing to solve.")
        if not np.isfinite(array).all():
            raise ProblemError(f"{name} holds NaN or infinity; make it finite.")
    check_scale(problem)
    if shared.dtype not in (np.float32, np.float64):
        raise ProblemError(f"shared must be float32 or float64, but is {shared.dtype}.")
    if offsets is None:
        if start.ndim != 2 or start.dtype.kind != "f":
            raise ProblemError(
                "without offsets, start must be a float array (n blocks, m entries), "
                f"but is {start.dtype} of shape {start.shape}."
            )
        return
    if not isinstance(offsets, np.ndarray) or offsets.dtype != np.int64:
        given = getattr(offsets, "dtype", type(offsets).__name__)
        raise ProblemError(f"offsets must be an array of int64, but is {given}.")
    if offsets.ndim != 1 or len(offsets) < 2:
        raise ProblemError(
            "offsets must be a row of at least 2 numbers, but has shape "
            f"{offsets.shape}."
        )
    if start.ndim != 1 or len(offsets) < 2 or offsets[-1] != len(start):
        raise ProblemError(
            f"with offsets, start must be one-dimensional with offsets[-1] entries; "
            f"offsets end at {offsets[-1]}, start has shape {start.shape}."
        )
    if (np.diff(offsets) < 1).any() or offsets[0] != 0:
        raise ProblemError("offsets must start at 0 and increase: no atom is empty.")


def _check_rest(problem: Problem) -> None:
    if not (isinstance(problem.max_rows, int | np.integer) and problem.max_rows >= 0):
        raise ProblemError(f"max_rows must be 0 or more, but is {problem.max_rows!r}.")
    for name in ("work", "finish", "constants"):
        value = getattr(problem, name)
        if not callable(value) and not (name != "work" and value is None):
            raise ProblemError(f"{name} must be a function, but is {value!r}.")
    named = (getattr(problem, name) for name in REQUIRED + OPTIONAL)
    if any(map(is_compiled, named)) and _holds_function(problem.data):
        raise ProblemError(
            "data holds a compiled function, whose changes would go unnoticed; let the "
            "problem's functions call it as a global, or from a closure."
        )


def _holds_function(data: Any) -> bool:
    if isinstance(data, tuple):
        return any(map(_holds_function, data))
    return is_compiled(data)


def _check_signature(name: str, function: Callable) -> None:
    needed = list(inspect.signature(getattr(_slots, name)).parameters)
    python = getattr(function, "py_func", function)
    if not callable(python):
        raise ProblemError(f"{name} must be a function, but is {function!r}.")
    try:
        inspect.signature(python).bind(*needed)
    except ValueError:  # a builtin, which has no signature
        return
    except TypeError:
        given = inspect.signature(python)
        raise ProblemError(
            f"{name}{given} cannot be called as {name}({', '.join(needed)})."
        ) from None


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]
