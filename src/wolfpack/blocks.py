"""A problem from a start, a gradient and a set: v is x itself, and A the identity."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.compile import is_compiled, jit
from wolfpack.kernels.specialise import fresh
from wolfpack.problem import Problem, ProblemError
from wolfpack.sets import Set


class Blocks(NamedTuple):
    """The set's parameters, and the extra arguments of the gradient."""

    params: Any
    args: tuple


@jit
def add(data, i, atom, scale, out):
    """x_(i) += scale s."""
    for j in range(atom.size):
        out[i, j] += scale * atom[j]
    return 0.0


@jit
def touched(data, i, move, rows, work):
    """Block i touches row i."""
    rows[0] = i
    return 1


def from_blocks(
    x0: np.ndarray,
    gradient: Callable,
    set: Set,
    *,
    value: Callable | None = None,
    args: tuple = (),
    quadratic: bool = False,
    scale: float = 1.0,
) -> Problem:
    """Return the problem min f(x), x_(i) in `set`, for f known by its gradient.

    Parameters
    ----------
    x0 : array of shape (n, m)
        A feasible start: n blocks of m entries. A matrix block is given flattened.
    gradient : function (x, i, *args) -> array of m
        The partial gradient of f with respect to block i, at the whole x. With
        `numba.njit` the loops are compiled; plain Python works too, slower.
    set : Set
        `simplex()`, `l1_ball()`, `l2_ball()`, `linf_ball()`, `lp_ball()`, `box()` or
        `nuclear_ball()`: the same for all blocks, or with one radius a block.
    value : function (x, *args) -> float, optional
        f(x). Without it the objective is reported as NaN; the gap never needs it.
    args : tuple
        Arrays and numbers that `gradient` and `value` need.
    quadratic : bool
        Say so if f is quadratic: a line search then takes two gradients.
    scale : float
        What `tol` is relative to.

    Returns
    -------
    Problem
        `Result.solution` is x.

    Examples
    --------
    The point of two simplices nearest to a target sum:

    >>> import numba, numpy as np, wolfpack
    >>> @numba.njit
    ... def gradient(x, i, target):
    ...     return x.sum(axis=0) - target
    >>> problem = wolfpack.from_blocks(
    ...     np.eye(2, 3), gradient, wolfpack.simplex(), quadratic=True,
    ...     args=(np.array([0.5, 0.5, 1.0]),))
    >>> x = wolfpack.solve(problem, tol=1e-6, max_epochs=1000, rng=0).solution
    >>> x.sum(axis=0).round(2).tolist()
    [0.5, 0.5, 1.0]
    """
    x0 = _as_start(x0)
    if not isinstance(args, tuple | list):
        raise ProblemError(f"args must be a tuple, but is {args!r}.")
    if not callable(gradient):
        raise ProblemError("gradient must be a function (x, i, *args) -> array.")
    if not isinstance(set, Set):
        given = type(set).__name__
        raise ProblemError(f"set must be a wolfpack set like simplex(), not {given}.")
    given = [gradient] if value is None else [gradient, value]
    native = all(is_compiled(function) for function in given)
    if not native:
        # A compiled function keeps the globals that it saw when it was compiled, and
        # they may have changed since. So plain Python loops call a fresh copy.
        gradient, value = fresh(gradient), fresh(value)
    return Problem(
        data=Blocks(set.params, tuple(args)),
        shared=np.zeros_like(x0),
        start=x0,
        **_functions(gradient, value, set, native),
        max_rows=1,
        quadratic=quadratic,
        scale=scale,
        finish=lambda shared: shared,  # v is x, or its average
        name=f"from_blocks over {set.name}",
    ).made_by(
        functools.partial(
            from_blocks, value=value, args=args, quadratic=quadratic, scale=scale
        ),
        x0,
        gradient,
        set,
    )


def _as_start(x0: Any) -> np.ndarray:
    """Return x0 as a table of floats, a copy."""
    try:
        given = np.asarray(x0)
        if given.dtype.kind not in "biuf":
            raise ProblemError(f"x0 must hold real numbers, but holds {given.dtype}.")
        start = np.array(given, dtype=np.float64, order="C")
    except (ValueError, OverflowError) as error:
        raise ProblemError(f"x0 must be an array of real numbers: {error}") from None
    if start.ndim != 2 or start.size == 0:
        raise ProblemError(
            f"x0 must have shape (n blocks, m entries), not {start.shape}."
        )
    return start


def _functions(
    gradient: Callable, value: Callable | None, set: Set, native: bool
) -> dict[str, Any]:
    """Return a problem's functions made of a gradient and a set, compiled if native."""
    minimise, inside = set.minimise, set.contains

    def oracle(data, shared, i, atom, work):
        slope = gradient(shared, i, *data.args)
        if slope.size != atom.size:
            raise ValueError("gradient must return one number an entry of the block")
        minimise(data.params, i, slope, atom)
        return np.dot(slope, atom)

    def score(data, shared, i, atom):
        return np.dot(gradient(shared, i, *data.args), atom)

    def contains(data, i, atom):
        return inside(data.params, i, atom, 1e-9)

    def slope(data, shared, direction, rows, gamma):
        # A gradient may read all of x, so the step is made on a copy of it.
        moved = shared
        if gamma != 0.0:
            moved = shared.copy()
            for r in rows:
                moved[r] += gamma * direction[r]
        total = 0.0
        for r in rows:
            total += np.dot(gradient(moved, r, *data.args), direction[r])
        return total

    def objective(data, shared):
        return value(shared, *data.args)  # pyright: ignore[reportOptionalCall]

    made = {"oracle": oracle, "score": score, "contains": contains, "slope": slope}
    if value is not None:
        made["value"] = objective
    if native:
        made = {name: jit(function) for name, function in made.items()}
        return {**made, "add": add, "touched": touched}
    # `data.args` may hold objects, which a compiled `add` could not take.
    return {**made, "add": add.py_func, "touched": touched.py_func}
