"""Small problems with a ridge, and what is known of them without wolfpack's loops.

A case knows f at an x and P at a w, written out in NumPy: f(x) >= f* >= -P(w).
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import spy
from helpers import random_chains

import wolfpack
from wolfpack.stores import atoms as atom_store

LABELS = 3


class Case(NamedTuple):
    """A problem, g(0), P as a function of `Result.solution`, and how far to solve."""

    problem: wolfpack.Problem
    at_zero: float
    primal: Callable[[Any], float]
    goal: float = 1e-3


def chain():
    """Sequences with a dense v."""
    X, y = random_chains(np.random.default_rng(1), 30, LABELS, [1, 2, 3, 4])
    problem = wolfpack.chain_ssvm(X, y, 0.02, n_labels=LABELS)
    assert problem.touched is None
    return Case(problem, 0.0, lambda w: chain_primal(w, X, y, 0.02))


def text():
    """Sequences with sparse features, and a v whose rows are touched one by one."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for length in rng.integers(1, 5, 40):
        words = rng.zipf(1.3, (length, 6)) % 5000
        rows = np.repeat(np.arange(length), 6)
        ones = np.ones(words.size)
        table = scipy.sparse.csr_matrix((ones, (rows, words.ravel())), (length, 5000))
        table.data[:] = 1.0
        X.append(table)
        y.append((words[:, 0] + rng.integers(0, 2, length)) % LABELS)
    problem = wolfpack.chain_ssvm(X, y, 0.02, n_labels=LABELS)
    assert problem.touched is not None
    dense = [np.asarray(table.todense()) for table in X]
    return Case(problem, 0.0, lambda w: chain_primal(w, dense, y, 0.02))


def classes(vectors=False):
    """Examples of 5 classes, as weighted classes or as vectors."""
    rng = np.random.default_rng(0)
    y, patterns = rng.integers(5, size=80), rng.random((5, 12)) < 0.4
    X = (patterns[y] ^ (rng.random((80, 12)) < 0.2)).astype(float)
    problem = wolfpack.multiclass_svm(X, y, 0.01, vectors=vectors)
    wrong = np.arange(5) != y[:, None]

    def primal(w):
        scores = X @ w.T
        right = scores[np.arange(80), y]
        hinge = (wrong + scores).max(axis=1) - right
        return 0.005 * np.square(w).sum() + hinge.mean()

    return Case(problem, 0.0, primal)


def lasso():
    """A noisy signal of steps; v is large beside what a block touches."""
    Y = wolfpack.make_piecewise(n=40, d=3, n_segments=5, noise=0.3, rng=0)[0]
    problem = wolfpack.group_fused_lasso(Y, 0.4)
    assert problem.touched is not None
    centred = Y - Y.mean(axis=0)

    def primal(X):
        jumps = np.linalg.norm(np.diff(X, axis=0), axis=1).sum()
        return 0.5 * np.square(X - Y).sum() + 0.4 * jumps

    return Case(problem, -0.5 * np.square(centred).sum(), primal)


def by_hand(d=5, n=40):
    """A problem that a user wrote: min 1/2 |v0 + A x|^2 over simplices."""
    problem = spy.make_ridge(n, d)
    A, v0 = problem.data.A, problem.shared

    def primal(w):
        least = np.einsum("ikj,k->ij", A, w).min(axis=1).sum()
        return 0.5 * w @ w - w @ v0 - least

    return Case(problem, 0.0, primal, 1e-4)


CASES = {
    "chain": chain,
    "text": text,
    "classes": classes,
    "classes as vectors": lambda: classes(True),
    "lasso": lasso,
    "by hand": by_hand,
}


@functools.cache
def case_of(name):
    return CASES[name]()


@functools.cache
def bracket(name):
    """Return bounds on f*, from plain steps."""
    case = case_of(name)
    how = {"tol": 0.1 * case.goal, "max_epochs": 10**5, "rng": 0}
    result = wolfpack.solve(case.problem, accelerate=False, **how)
    assert result.converged
    return result.lower_bound, result.objective


def chain_primal(w, X, y, alpha):
    """alpha/2 |w|^2 + mean of max over all labellings of loss - <w, psi>."""
    hinge = 0.0
    for x, truth in zip(X, y, strict=True):
        emit = x @ w.features.T + w.bias
        emit[0] += w.first
        emit[-1] += w.last

        def score(labels, emit=emit):
            pairs = sum(w.transitions[a, b] for a, b in itertools.pairwise(labels))
            return sum(emit[t, label] for t, label in enumerate(labels)) + pairs

        worst = max(
            (np.array(labels) != truth).mean() + score(labels)
            for labels in itertools.product(range(LABELS), repeat=len(truth))
        )
        hinge += (worst - score(truth)) / len(X)
    return 0.5 * alpha * sum(np.square(part).sum() for part in w) + hinge


def pieces(problem, state, i):
    """Return pairs of a weight and an atom that make up x_(i)."""
    if problem.offsets is None:
        return [(1.0, state.blocks.points[i])]
    slot, count = state.blocks.place[i][["slot", "count"]]
    weights = state.blocks.weights[slot : slot + count]
    assert (weights > 0).all()
    assert abs(weights.sum() - 1) < 1e-12
    atoms = (atom_store.get_point(state.blocks, i, b) for b in range(count))
    return list(zip(weights, atoms, strict=True))


def image(problem, state):
    """Return u = v0 + A x and <c, x>, atom by atom."""
    u, linear = problem.shared.astype(np.float64), 0.0
    for i in range(problem.n_blocks):
        for weight, atom in pieces(problem, state, i):
            linear += problem.add(problem.data, i, atom, weight, u)
    return u, linear


def noise_of(problem):
    """Return what rounding may change, relative to the scale."""
    return 1e-6 if problem.shared.dtype == np.float32 else 1e-9


def assert_fits(problem, state, times=10):
    """Check v = s u + (1 - s) z, or v = u, and that x is feasible.

    `times`: how many roundings may have gathered in v since it was computed anew.
    """
    u, _ = image(problem, state)
    v = u
    if state.outer is not None:
        s, z = state.outer.reach, state.outer.anchor
        assert 0 < s <= 1  # 1 where plain steps go on
        v = s * u + (1 - s) * z
    size = np.linalg.norm(u) + np.linalg.norm(v)
    assert np.linalg.norm(v - state.shared) <= times * noise_of(problem) * size
    kernels, n = problem.kernels(), problem.n_blocks
    assert kernels.first_outside(problem.data, state.blocks, n) == -1


def assert_true(name, result):
    """Check all that a result says against what is known without it."""
    case, (below, above) = case_of(name), bracket(name)
    problem = case.problem
    noise = noise_of(problem) * problem.scale
    assert result.lower_bound == result.objective - result.gap
    assert result.relative_gap == result.gap / problem.scale
    assert result.lower_bound <= above + noise
    assert result.objective >= below - noise
    for row in result.trace:
        assert row.lower_bound <= above + noise
        assert row.objective >= below - noise
    u, linear = image(problem, result.state)
    objective = 0.5 * problem.ridge * np.square(u).sum() + case.at_zero + linear
    assert abs(result.objective - objective) <= noise
    assert abs(-result.lower_bound - case.primal(result.solution)) <= noise
    assert_fits(problem, result.state)
