"""Matchings as a problem of parts that a user writes: pairs of a square have features.

min 1/2 |v - b|^2,   v = sum_i sum of the features of the pairs that x_(i) matches
"""

import itertools
from typing import NamedTuple

import numba
import numpy as np

import wolfpack

SIZE = 4  # of each side; an atom has the partner of each on the left


class Data(NamedTuple):
    features: np.ndarray  # (n, SIZE * SIZE, d)
    target: np.ndarray
    every: np.ndarray  # all matchings


@numba.njit
def oracle(data, shared, i, atom, work):
    best, least = 0, np.inf
    gains = data.features[i] @ (shared - data.target)
    for m in range(len(data.every)):
        total = 0.0
        for a in range(SIZE):
            total += gains[a * SIZE + data.every[m, a]]
        if total < least:
            best, least = m, total
    for a in range(SIZE):
        atom[a] = data.every[best, a]
    return least


@numba.njit
def score(data, shared, i, atom):
    total = 0.0
    for a in range(SIZE):
        total += data.features[i, a * SIZE + atom[a]] @ (shared - data.target)
    return total


@numba.njit
def add(data, i, atom, scale, out):
    for a in range(SIZE):
        for k in range(out.size):
            out[k] += scale * data.features[i, a * SIZE + atom[a], k]
    return 0.0


@numba.njit
def slope(data, shared, direction, rows, gamma):
    return (shared + gamma * direction - data.target) @ direction


@numba.njit
def value(data, shared):
    return 0.5 * np.square(shared - data.target).sum()


@numba.njit
def contains(data, i, atom):
    taken = np.zeros(SIZE)
    for a in range(SIZE):
        if atom[a] < 0 or atom[a] >= SIZE:
            return False
        taken[atom[a]] += 1
    return taken.max() == 1.0


@numba.njit
def parts_of(data, i, atom, parts):
    for a in range(SIZE):
        parts[a] = a * SIZE + atom[a]
    return SIZE


@numba.njit
def add_parts(data, i, parts, weights, scale, out):
    for j in range(parts.size):
        for k in range(out.size):
            out[k] += scale * weights[j] * data.features[i, parts[j], k]
    return 0.0


@numba.njit
def score_parts(data, shared, i, parts, weights):
    total = 0.0
    for j in range(parts.size):
        total += weights[j] * (data.features[i, parts[j]] @ (shared - data.target))
    return total


@numba.njit
def contains_parts(data, i, parts, weights):
    sides = np.zeros((2, SIZE))
    for j in range(parts.size):
        if parts[j] < 0 or parts[j] >= SIZE * SIZE:
            return False
        sides[0, parts[j] // SIZE] += weights[j]
        sides[1, parts[j] % SIZE] += weights[j]
    return np.abs(sides - 1.0).max() < 1e-9


def make(keeps="parts", n=30, d=6, seed=0, **changes):
    """Make the problem; its optimum is that of `dense(problem)`."""
    rng = np.random.default_rng(seed)
    every = np.array(list(itertools.permutations(range(SIZE))), np.uint8)
    features = rng.normal(size=(n, SIZE * SIZE, d)) / n
    data = Data(features, 0.5 * rng.normal(size=d), every)
    given = {"parts_of": parts_of, "add_parts": add_parts, "score_parts": score_parts}
    given |= {"contains_parts": contains_parts}
    return wolfpack.Problem(
        data=data,
        shared=np.zeros(d),
        start=np.tile(np.arange(SIZE, dtype=np.uint8), n),
        offsets=np.arange(n + 1) * SIZE,
        oracle=oracle,
        score=score,
        add=add,
        slope=slope,
        value=value,
        contains=contains,
        keeps=keeps,
        **(given if keeps == "parts" else {}) | changes,
        scale=0.5 * float(np.square(data.target).sum()),
        name="matching",
    )


def optimum(problem):
    """Return min f over doubly stochastic matrices, by an interior-point method."""
    import cvxpy as cp

    data, n = problem.data, problem.n_blocks
    X = [cp.Variable((SIZE, SIZE), nonneg=True) for _ in range(n)]
    v = sum(data.features[i].T @ cp.vec(X[i], order="C") for i in range(n))
    rules = [rule for x in X for rule in (cp.sum(x, 0) == 1, cp.sum(x, 1) == 1)]
    f = 0.5 * cp.sum_squares(v - data.target)
    return float(cp.Problem(cp.Minimize(f), rules).solve(solver=cp.CLARABEL))


def points(state):
    """Return x, a matrix a block, and check that no weight is negative."""
    lists, x = state.blocks.lists, []
    for place in lists.place:
        here = slice(place.slot, place.slot + place.count)
        z = np.zeros(SIZE * SIZE)
        z[lists.atoms[here]] = lists.weights[here]
        assert (lists.weights[here] > 0).all()
        x.append(z.reshape(SIZE, SIZE))
    return np.array(x)
