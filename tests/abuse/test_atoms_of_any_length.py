"""Atoms of different lengths, and functions that only look right on points.

    min 1/2 |v - b|^2,   v = sum_i A_i s_(i),   s_(i) a corner of a cube of m_i sides

An atom is a list of m_i bits; the oracle fills whatever it is given.
"""

import dataclasses
from typing import NamedTuple

import numba
import numpy as np
import pytest

import wolfpack
from wolfpack import Delayed, ProblemError, Serial, Sync, Threads, delays

ENGINES = {
    "serial": (Serial(), {}),
    "batch": (Serial(), {"batch_size": 3}),
    "merge": (Threads(2), {}),
    "server": (Threads(2, mode="server"), {}),
    "lock-free": (Threads(2, mode="lock-free"), {}),
    "sync": (Sync(2), {}),
    "delayed": (Delayed(delays.poisson(2)), {}),
    "workers": (Delayed(workers=delays.Workers(3, oracle_seconds=1e-3)), {}),
}
SIZES = np.array([3, 1, 9, 2, 17, 4])


class Bits(NamedTuple):
    A: np.ndarray  # (blocks, longest, rows)
    b: np.ndarray
    sizes: np.ndarray


@numba.njit
def oracle(data, shared, i, atom, work):
    for j in range(atom.size):
        atom[j] = 1 if np.dot(data.A[i, j], shared - data.b) < 0 else 0
    return score(data, shared, i, atom)


@numba.njit
def score(data, shared, i, atom):
    total = 0.0
    for j in range(atom.size):
        total += atom[j] * np.dot(data.A[i, j], shared - data.b)
    return total


@numba.njit
def add(data, i, atom, scale, out):
    for j in range(atom.size):
        for k in range(out.size):
            out[k] += scale * atom[j] * data.A[i, j, k]
    return 0.0


@numba.njit
def slope(data, shared, direction, rows, gamma):
    return np.dot(shared + gamma * direction - data.b, direction)


@numba.njit
def value(data, shared):
    return 0.5 * np.sum(np.square(shared - data.b))


@numba.njit
def contains(data, i, atom):
    if atom.size != data.sizes[i]:
        return False
    return np.all((atom == 0) | (atom == 1))


@pytest.fixture(scope="module")
def bits():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(len(SIZES), SIZES.max(), 5))
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    return wolfpack.Problem(
        data=Bits(A, 3 * rng.normal(size=5), SIZES),
        shared=np.zeros(5),
        start=np.zeros(offsets[-1], np.int64),
        offsets=offsets,
        oracle=oracle,
        score=score,
        add=add,
        slope=slope,
        value=value,
        contains=contains,
        name="bits",
    )


def dense_gap(problem, v):
    """<grad, v> - the minimum over all corners, by matrices."""
    A, b, _ = problem.data
    slopes = [A[i, :m] @ (v - b) for i, m in enumerate(SIZES)]
    return (v - b) @ v - sum(np.minimum(s, 0).sum() for s in slopes)


# The others have loops of their own to compile.
QUICK = ("serial", "batch", "merge")
CASES = [
    pytest.param(*case, id=name, marks=[] if name in QUICK else pytest.mark.slow)
    for name, case in ENGINES.items()
]


@pytest.mark.parametrize(("engine", "how"), CASES)
def test_functions_see_atoms_as_long_as_the_block_s(bits, engine, how):
    """`contains` refuses any other length: what is certified is what is kept."""
    how = {"max_epochs": 60, "tol": 0.0, "rng": 0} | how
    result = wolfpack.solve(bits, engine=engine, **how)
    gap = dense_gap(bits, result.solution)
    assert result.gap == pytest.approx(gap, rel=1e-6, abs=1e-9)
    assert result.gap < 0.5 * result.trace[0].gap


def test_an_oracle_that_writes_beyond_its_block_is_found(bits):
    @numba.njit
    def greedy(data, shared, i, atom, work):
        for j in range(3):  # as many as the first block has
            atom[j] = 0
        return oracle(data, shared, i, atom, work)

    with pytest.raises(ProblemError, match=r"oracle on block 1 .* outside an array"):
        dataclasses.replace(bits, oracle=greedy).check()


# Vectors: differences of points.


def vectors(**changes):
    def score(data, shared, i, atom):
        return float(atom @ (shared - data[0]))

    def add(data, i, atom, scale, out):
        out += scale * atom
        return 0.0

    def oracle(data, shared, i, atom, work):
        atom[:] = np.where(shared < data[0], 1.0, 0.0)
        return score(data, shared, i, atom)

    def slope(data, shared, direction, rows, gamma):
        return float((shared + gamma * direction - data[0]) @ direction)

    names = {"oracle": oracle, "score": score, "add": add, "slope": slope} | changes
    return wolfpack.Problem(
        data=(np.array([1.0, 0.2, -1.0]),),
        shared=np.zeros(3),
        start=np.full((2, 3), 0.5),
        **names,
    )


def test_functions_that_skip_what_is_not_positive_are_found():
    vectors().check()

    def add(data, i, atom, scale, out):
        out += scale * np.maximum(atom, 0.0)
        return 0.0

    with pytest.raises(ProblemError, match="add on block 0 is not linear"):
        vectors(add=add).check()

    def score(data, shared, i, atom):
        return float(np.maximum(atom, 0.0) @ (shared - data[0]))

    with pytest.raises(ProblemError, match="score of s"):
        vectors(score=score).check()
