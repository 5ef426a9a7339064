"""Small problems with optima that are known from an independent solver.

Each is written out as `helpers.Dense`, f(x) = 1/2 <v, H v> + <b, v> + <c, x>, so that
v, f and the optimum are known without any function of wolfpack.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import matching
import numba
import numpy as np
import soak_arms
import spy
from helpers import Dense, chain_v, chain_x, dense_chain, dense_lasso, random_chains

import wolfpack
from wolfpack.stores import atoms as atom_store


class Set(NamedTuple):
    """What a block may be."""

    miss: Callable  # a point -> by how much it lies outside
    rules: Callable  # a variable of cvxpy -> its constraints


def ball(radius):
    def rules(z):
        import cvxpy as cp

        return [cp.norm(z) <= radius]

    return Set(lambda z: np.linalg.norm(z) - radius, rules)


SIMPLEX = Set(
    lambda z: max(abs(z.sum() - 1.0), -z.min()), lambda z: [z >= 0, sum(z) == 1]
)
# Both sides of a square sum to 1.
EYE, ONES = np.eye(matching.SIZE), np.ones((1, matching.SIZE))
SIDES = np.vstack([np.kron(EYE, ONES), np.kron(ONES, EYE)])
MATCHED = Set(
    lambda z: max(np.abs(SIDES @ z - 1.0).max(), -z.min()),
    lambda z: [z >= 0, SIDES @ z == 1],
)


class Known(NamedTuple):
    """A problem, its dense twin, and what its state means."""

    problem: Any
    dense: Dense
    set: Set
    point: Any  # state -> one vector a block; feasibility is checked elsewhere
    v: Any  # state.shared -> v of the dense twin


def _lasso():
    Y, _, _ = wolfpack.make_piecewise(n=40, d=3, n_segments=5, rng=0)
    problem, dense = wolfpack.group_fused_lasso(Y, 0.5), dense_lasso(Y, 0.5)
    return Known(problem, dense, ball(0.5), _vectors, np.ravel)


def _chain():
    X, y = random_chains(np.random.default_rng(1), 30, 3, [1, 2, 3])
    problem = wolfpack.chain_ssvm(X, y, 0.1, n_labels=3)
    dense = dense_chain(X, y, 0.1, 3)
    read = functools.partial(chain_v, n_labels=3)
    return Known(
        problem,
        dense,
        SIMPLEX,
        functools.partial(chain_x, n_labels=3, is_edited=True),
        read,
    )


def _classes():
    rng = np.random.default_rng(2)
    n, K, p, alpha = 50, 5, 8, 0.05
    y = np.arange(n) % K
    X = rng.integers(0, 2, (K, p))[y] + 0.5 * rng.normal(size=(n, p))
    X = X.astype(np.float32).astype(float)
    A, c = [], []
    for i in range(n):  # v is (p, K), row by row
        psi = np.zeros((p, K, K))
        psi[:, y[i], :] += X[i][:, None]
        psi[:, np.arange(K), np.arange(K)] -= X[i][:, None]
        A.append(psi.reshape(p * K, K) / (alpha * n))
        c.append(-1.0 / n * (np.arange(K) != y[i]))
    size = p * K
    dense = Dense(A, c, np.zeros(size), alpha * np.eye(size), np.zeros(size), 0.0)
    read = functools.partial(chain_v, n_labels=K)
    problem = wolfpack.multiclass_svm(X, y, alpha)
    return Known(problem, dense, SIMPLEX, functools.partial(_atoms, K=K), read)


def _gradient(x, i, target):
    return x.sum(axis=0) - target + 0.5 * x[i]


def _value(x, target):
    return 0.5 * np.square(x.sum(axis=0) - target).sum() + 0.25 * np.square(x).sum()


def _simplices(wrap, n=30):
    target = np.array([4.0, 9.0, 2.0, 15.0]) * n / 30
    m = len(target)
    problem = wolfpack.from_blocks(
        np.tile(np.eye(m)[0], (n, 1)), wrap(_gradient), wolfpack.simplex(),
        value=wrap(_value), args=(target,), quadratic=True, scale=50.0 * n / 30,
    )  # fmt: skip
    A = [np.vstack([np.eye(m) * (i == k) for k in range(n)]) for i in range(n)]
    H = np.kron(np.ones((n, n)), np.eye(m)) + 0.5 * np.eye(n * m)
    half = 0.5 * float(target @ target)
    zero = [np.zeros(m)] * n
    dense = Dense(A, zero, np.zeros(n * m), H, -np.tile(target, n), half)
    return Known(problem, dense, SIMPLEX, _vectors, np.ravel)


def _spy():
    problem = spy.make()
    A, b = problem.data.A, problem.data.b
    zero = [np.zeros(A.shape[2])] * len(A)
    dense = Dense([*A], zero, np.zeros(len(b)), np.eye(len(b)), -b, 0.5 * float(b @ b))
    return Known(problem, dense, SIMPLEX, _vectors, np.ravel)


def _matching():
    problem = matching.make()
    features, b = problem.data.features, problem.data.target
    zero = [np.zeros(features.shape[1])] * len(features)
    A, half = [one.T for one in features], 0.5 * float(b @ b)
    dense = Dense(A, zero, np.zeros(len(b)), np.eye(len(b)), -b, half)
    return Known(
        problem,
        dense,
        MATCHED,
        lambda s: matching.points(s).reshape(len(A), -1),
        np.ravel,
    )


MAKERS = {
    "lasso": _lasso,
    "chain": _chain,
    "classes": _classes,
    "simplices": lambda: _simplices(numba.njit),
    "python": lambda: _simplices(lambda function: function, n=6),
    "spy": _spy,
    "matching": _matching,
}


def _vectors(state):
    return [*state.blocks.points]


def _atoms(state, K):
    x = []
    for i in range(len(state.offsets) - 1):
        slot, count = state.blocks.place[i][["slot", "count"]]
        z = np.zeros(K)
        for b in range(count):
            z[atom_store.get_point(state.blocks, i, b)[0]] += state.blocks.weights[
                slot + b
            ]
        x.append(z)
    return x


@functools.cache
def make(name):
    """Return the problem and its twin, made once a process."""
    known = MAKERS[name]()
    return known._replace(problem=soak_arms.arm(known.problem))


def with_fault(name, *fault):
    """Return the problem with a fault; Ray's processes make it for themselves."""
    problem = make(name).problem
    soak_arms.set_fault(problem, *fault)
    return problem.made_by(with_fault, name, *fault)


def optimum(name):
    """Return min f by an interior point method on the problem written out."""
    import cvxpy as cp

    _, dense, kind, _, _ = make(name)
    x = [cp.Variable(len(c)) for c in dense.c]
    v = dense.v0 + sum(A @ z for A, z in zip(dense.A, x, strict=True))
    root = np.linalg.cholesky(dense.H).T
    linear = sum(c @ z for c, z in zip(dense.c, x, strict=True))
    f = 0.5 * cp.sum_squares(root @ v) + dense.b @ v + linear + dense.constant
    rules = [rule for z in x for rule in kind.rules(z)]
    return float(cp.Problem(cp.Minimize(f), rules).solve(solver=cp.CLARABEL))
