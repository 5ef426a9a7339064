"""A problem whose functions misbehave when told to.

`arm` wraps the functions of any problem, compiled or not. The wrappers count the oracle
calls of each block, and fail from the call that `fault` names.
"""

import time
from typing import Any, NamedTuple

import numpy as np
import spy
from numba import types

from wolfpack.kernels.compile import is_compiled, jit

# `fault` holds a kind, the block at fault (-1: all), how many of its oracle calls go
# well, and the microseconds that a call sleeps.
NEVER, RAISES, IS_NAN, LEAVES, RAISES_IN_SLOPE, RAISES_IN_ADD, SLEEPS = range(7)

_sleep = types.ExternalFunction("usleep", types.int32(types.uint32))


class Armed(NamedTuple):
    inner: Any
    calls: np.ndarray
    fault: np.ndarray
    bad: np.ndarray  # an entry outside the set, and one that is NaN where atoms can be


@jit
def pause(microseconds):
    _sleep(np.uint32(microseconds))


def pause_python(microseconds):
    time.sleep(1e-6 * microseconds)


@jit
def is_due(data, i, kind):
    mine = data.fault[1] == i or data.fault[1] < 0
    return data.fault[0] == kind and mine and data.calls[i] > data.fault[2]


def arm(problem):
    """Return the problem with functions that can fail."""
    native = is_compiled(problem.oracle)
    due = is_due if native else is_due.py_func
    wait = pause if native else pause_python
    oracle, score, add, slope = (
        problem.oracle, problem.score, problem.add, problem.slope
    )  # fmt: skip
    rate, minimiser = problem.rate, problem.minimiser

    def begin(data, i):
        data.calls[i] += 1
        if due(data, i, SLEEPS):
            wait(data.fault[3])
        if due(data, i, RAISES):
            raise ValueError("there is no path")

    begin = jit(begin) if native else begin

    def armed_oracle(data, shared, i, atom, work):
        begin(data, i)
        least = oracle(data.inner, shared, i, atom, work)
        if due(data, i, LEAVES):
            atom[0] = data.bad[0]
        if due(data, i, IS_NAN):
            atom[0] = data.bad[1]
            least = np.nan
        return least

    def armed_minimiser(data, shared, i, atom, work, reach):
        begin(data, i)
        minimiser(data.inner, shared, i, atom, work, reach)
        if due(data, i, LEAVES):
            atom[0] = data.bad[0]
        if due(data, i, IS_NAN):
            atom[0] = data.bad[1]

    def armed_score(data, shared, i, atom):
        found = score(data.inner, shared, i, atom)
        return np.nan if due(data, i, IS_NAN) else found

    def armed_rate(data, shared, i, move, work, is_fresh):
        found = rate(data.inner, shared, i, move, work, is_fresh)
        return np.nan if due(data, i, IS_NAN) else found

    def armed_add(data, i, atom, scale, out):
        if due(data, i, RAISES_IN_ADD):
            raise ValueError("there is no room")
        return add(data.inner, i, atom, scale, out)

    def armed_slope(data, shared, direction, rows, gamma):
        if data.fault[0] == RAISES_IN_SLOPE and data.calls.sum() > data.fault[2]:
            raise ValueError("there is no slope")
        return slope(data.inner, shared, direction, rows, gamma)

    def passed_on(function):
        def call(data, *rest):
            return function(data.inner, *rest)

        return call

    functions = {
        name: passed_on(getattr(problem, name))
        for name in (
            "value", "contains", "touched", "prepare", "spread", "curvature",
            "parts_of", "add_parts", "score_parts", "contains_parts",
        )
        if getattr(problem, name) is not None
    }  # fmt: skip
    functions |= {
        "oracle": armed_oracle,
        "score": armed_score,
        "add": armed_add,
        "slope": armed_slope,
    }
    if minimiser is not None:
        functions["minimiser"] = armed_minimiser
    if rate is not None:
        functions["rate"] = armed_rate
    if native:
        functions = {name: jit(functions[name]) for name in functions}
    integers = problem.start.dtype.kind in "iu"
    bad = np.array([255, 0] if integers else [1e6, np.nan], problem.start.dtype)
    data = Armed(problem.data, np.zeros(problem.n_blocks, np.int64), np.zeros(4), bad)
    armed = spy.unchecked(problem, data=data, **functions)
    assert armed.fingerprint  # kept from now on: it must not depend on the fault
    return armed


def set_fault(problem, kind, block=-1, after=0, microseconds=0):
    """Say how the functions misbehave from now on; counts start anew."""
    problem.data.calls[:] = 0
    problem.data.fault[:] = kind, block, after, microseconds
