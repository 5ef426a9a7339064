"""A small problem that counts its oracle calls, and fails or dawdles when told to.

    min 1/2 |v - b|^2,   v = sum_i A_i x_(i),   x_(i) in a simplex

Blocks are coupled through a dense v without rows, so that all engines share it.
"""

import dataclasses
from typing import NamedTuple

import numba
import numpy as np
from numba import types

import wolfpack

# What `Data.fault[0]` says; [1] is the block at fault (-1: all), [2] how many calls of
# it go well, [3] the microseconds that a call sleeps, or the calls of all blocks that
# the first call at fault waits for.
NEVER, RAISES, IS_NAN, LEAVES, RAISES_IN_SLOPE, SLEEPS, LAGS = range(7)

_sleep = types.ExternalFunction("usleep", types.int32(types.uint32))


class Data(NamedTuple):
    A: np.ndarray
    b: np.ndarray
    calls: np.ndarray
    fault: np.ndarray


@numba.njit
def _is_due(data, i):
    mine = data.fault[1] == i or data.fault[1] < 0
    return mine and data.calls[i] > data.fault[2]


@numba.njit
def oracle(data, shared, i, atom, work):
    data.calls[i] += 1
    kind = data.fault[0]
    if kind == SLEEPS and _is_due(data, i):
        _sleep(np.uint32(data.fault[3]))
    if kind == LAGS and i == data.fault[1] and data.calls[i] == data.fault[2] + 1:
        until = data.calls.sum() + data.fault[3]
        while data.calls.sum() < until:
            _sleep(np.uint32(100))
    if kind == RAISES and _is_due(data, i):
        raise ValueError("there is no path")
    best, least = 0, np.inf
    for j in range(atom.size):
        slope = 0.0
        for k in range(shared.size):
            slope += data.A[i, k, j] * (shared[k] - data.b[k])
        if slope < least:
            best, least = j, slope
    for j in range(atom.size):
        atom[j] = 0.0
    atom[best] = 1.0
    if kind == IS_NAN and _is_due(data, i):
        atom[best] = np.nan
    if kind == LEAVES and _is_due(data, i):
        atom[best] = 2.0
    return least


@numba.njit
def score(data, shared, i, atom):
    total = 0.0
    for j in range(atom.size):
        for k in range(shared.size):
            total += atom[j] * data.A[i, k, j] * (shared[k] - data.b[k])
    return total


@numba.njit
def add(data, i, atom, scale, out):
    for j in range(atom.size):
        for k in range(out.size):
            out[k] += scale * data.A[i, k, j] * atom[j]
    return 0.0


@numba.njit
def slope(data, shared, direction, rows, gamma):
    if data.fault[0] == RAISES_IN_SLOPE and data.calls.sum() > data.fault[2]:
        raise ValueError("there is no slope")
    total = 0.0
    for k in range(shared.size):
        total += (shared[k] + gamma * direction[k] - data.b[k]) * direction[k]
    return total


@numba.njit
def value(data, shared):
    return 0.5 * np.square(shared - data.b).sum()


@numba.njit
def contains(data, i, atom):
    """Let NaN pass: the loops find it by its gap."""
    return not (abs(atom.sum() - 1.0) > 1e-9 or atom.min() < -1e-9)


def make(n=40, d=5, m=3, seed=0, spread=0.3):
    """Make the problem, with `b` outside of what v can reach."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d, m)) / n
    data = Data(A, spread * rng.normal(size=d), np.zeros(n, np.int64), np.zeros(4))
    problem = wolfpack.Problem(
        data=data,
        shared=np.zeros(d),
        start=np.tile(np.eye(m)[0], (n, 1)),
        oracle=oracle,
        score=score,
        add=add,
        slope=slope,
        value=value,
        contains=contains,
        scale=0.5 * float(np.square(data.b).sum()),
        finish=lambda shared: shared.copy(),
        name="spy",
    )
    return problem.made_by(make, n, d, m, seed, spread, ours=True)


def make_ridge(n=40, d=5, m=3, seed=0, spread=0.3):
    """Make the same problem with v0 = -b, so that g(v) = 1/2 |v|^2."""
    plain = make(n, d, m, seed, spread)
    b = plain.data.b
    problem = dataclasses.replace(
        plain, data=plain.data._replace(b=np.zeros(d)), shared=-b, ridge=1.0
    )
    return problem.made_by(make_ridge, n, d, m, seed, spread, ours=True)


def unchecked(problem, **changes):
    """Return a changed copy that is not checked: its fault is met in the run."""
    copy = dataclasses.replace(problem, **changes)
    object.__setattr__(copy, "check", lambda: None)
    return copy


def set_fault(problem, kind, block=-1, after=0, microseconds=0, calls=0):
    """Tell the oracle what to do from now on; counts start anew."""
    problem.data.calls[:] = 0
    problem.data.fault[:] = kind, block, after, microseconds or calls


def points(state):
    """Return x, and check that it is feasible."""
    x = state.blocks.points
    assert x.min() >= 0
    assert np.abs(x.sum(axis=1) - 1).max() < 1e-9
    return x


def optimum(problem, tol=1e-6):
    """Return bounds on the optimal value, from one thread that no fault disturbs."""
    if problem.name == "spy":
        set_fault(problem, NEVER)
    result = wolfpack.solve(problem, tol=tol, max_epochs=10**5, rng=0)
    assert result.converged
    return result.lower_bound, result.objective


def assert_sound(problem, state):
    """x is feasible, and v fits it: v0 + A x, or what the outer loop makes of that."""
    v = problem.shared + np.einsum("ikj,ij->k", problem.data.A, points(state))
    if state.outer is not None:
        s, z = state.outer.reach, state.outer.anchor
        v = s * v + (1 - s) * z
    np.testing.assert_allclose(state.shared, v, rtol=0, atol=1e-9)
