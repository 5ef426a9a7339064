"""A problem of your own: copy this file, and replace what is inside the functions.

    min f(x) = g(v) + <c, x>,   v = v0 + sum_i A_i x_(i),   x_(i) in M_i

Here: choose a point in each of n polytopes so that their sum comes near a target.
M_i is the polytope with corners `corners[i]`, an atom is the number of a corner, v is
the sum of the points, g(v) = 1/2 |v - target|^2, and c = 0.

Run it: python my_problem.py
"""

from typing import NamedTuple

import numpy as np
from numba import njit

import wolfpack


class Data(NamedTuple):
    """Whatever the functions read: arrays and numbers, never changed by them."""

    corners: np.ndarray  # (n, corners a polytope, m)
    target: np.ndarray  # (m,)


# Plain functions without @njit work too, for an oracle that calls a library.
# None of them may write to `data` or `shared`.


@njit
def score(data, shared, i, atom):
    """<s, grad_i f(x)> of any atom s of block i, at v = shared."""
    return np.dot(data.corners[i, atom[0]], shared - data.target)


@njit
def oracle(data, shared, i, atom, work):
    """Write the atom with the least score into `atom`; return that score.

    It must be exact: all lower bounds are made of it.
    """
    products = data.corners[i] @ (shared - data.target)
    atom[0] = products.argmin()
    return products[atom[0]]


@njit
def add(data, i, atom, scale, out):
    """out += scale A_i s; return scale <c_i, s>, 0 where f has no linear part."""
    out += scale * data.corners[i, atom[0]]
    return 0.0


@njit
def slope(data, shared, direction, rows, gamma):
    """d/dgamma g(v + gamma direction); `direction` is zero outside `rows`."""
    return np.dot(shared + gamma * direction - data.target, direction)


@njit
def value(data, shared):
    """g(v). Optional: without it the objective is NaN, and the gap is not."""
    return 0.5 * np.square(shared - data.target).sum()


@njit
def contains(data, i, atom):
    """Whether the atom is in M_i. Optional, and a great help in finding mistakes."""
    return 0 <= atom[0] < data.corners.shape[1]


def make_problem(corners: np.ndarray, target: np.ndarray) -> wolfpack.Problem:
    """Check what users give, and put the record together."""
    n, _, m = corners.shape
    return wolfpack.Problem(
        name="my_problem",
        data=Data(corners, target),
        shared=np.zeros(m),  # v0
        start=np.zeros(n, dtype=np.int64),  # one atom a block, one after the other
        offsets=np.arange(n + 1),  # where each begins; leave out to keep x as vectors
        oracle=oracle,
        score=score,
        add=add,
        slope=slope,
        value=value,
        contains=contains,
        quadratic=True,  # is g quadratic? Then the line search is in closed form
        # Where g(v) is c/2 |v|^2 plus a constant, say ridge=c: runs are accelerated. It
        # is not so here, but would be with v0 = -target and g(v) = 1/2 |v|^2.
        scale=0.5 * float(target @ target) or 1.0,  # what `tol` is relative to
    )


if __name__ == "__main__":
    random = np.random.default_rng(0)
    problem = make_problem(random.normal(size=(20, 5, 3)), random.normal(size=3))
    problem.check()  # says in a sentence what is wrong, if anything is
    result = wolfpack.solve(problem, tol=1e-6, max_epochs=1000, rng=0)
    print(result.status.value, f"Gap {result.gap:.1e}; v = {result.solution}")  # noqa: T201
