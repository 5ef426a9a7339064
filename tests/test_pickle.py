"""Problems travel: a pickle of one makes the same problem in another process."""

import dataclasses
import pickle
import subprocess
import sys

import numba
import numpy as np
import pytest

import wolfpack


@numba.njit
def gradient(x, i, target):
    return x.sum(axis=0) - target


def chain():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((length, 4)) for length in (3, 5, 2, 6)]
    y = [rng.integers(3, size=len(x)) for x in X]
    return wolfpack.chain_ssvm(X, y, alpha=0.1, n_labels=3)


def classes(vectors):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 4)), rng.integers(3, size=30)
    return wolfpack.multiclass_svm(X, y, alpha=0.1, vectors=vectors)


def labels():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((30, 4)), rng.integers(2, size=(30, 3))
    return wolfpack.multilabel_svm(X, Y, alpha=0.1, candidates="observed")


def signal():
    return wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=30, d=2)[0], 0.5, q=1)


def simplices():
    target = (np.array([0.5, 0.5, 1.0]),)
    return wolfpack.from_blocks(
        np.eye(2, 3), gradient, wolfpack.simplex(), args=target, quadratic=True
    )


MAKERS = {
    "chain": chain,
    "classes": lambda: classes(False),
    "classes as vectors": lambda: classes(True),
    "labels": labels,
    "signal": signal,
    "simplices": simplices,
}
ELSEWHERE = """
import pickle, sys, wolfpack
problem = pickle.load(sys.stdin.buffer)
result = wolfpack.solve(problem, max_epochs=20, tol=0, rng=0)
print(repr((problem.fingerprint, result.objective, result.gap)))
"""


@pytest.mark.parametrize("name", MAKERS)
def test_a_pickle_makes_the_same_problem(name):
    problem = MAKERS[name]()
    other = pickle.loads(pickle.dumps(problem))
    assert other.fingerprint == problem.fingerprint
    assert other.name == problem.name
    assert other.scale == problem.scale
    one, two = (
        wolfpack.solve(at, max_epochs=20, tol=0, rng=0) for at in (problem, other)
    )
    assert one.gap == two.gap
    np.testing.assert_array_equal(one.state.shared, two.state.shared)
    if name not in ("chain", "labels"):  # whose solutions are records of arrays
        np.testing.assert_array_equal(one.solution, two.solution)


@pytest.mark.parametrize("name", ["chain", "signal"])
def test_another_process_gets_the_same_bits(name):
    problem = MAKERS[name]()
    here = wolfpack.solve(problem, max_epochs=20, tol=0, rng=0)
    found = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=pickle.dumps(problem),
        capture_output=True,
        check=True,
    )
    expected = (problem.fingerprint, here.objective, here.gap)
    assert found.stdout.decode().strip() == repr(expected)


def test_a_changed_copy_is_not_taken_for_the_original():
    other = dataclasses.replace(signal(), touched=None, max_rows=0, finish=None)
    with pytest.raises((AttributeError, pickle.PicklingError, TypeError)):
        pickle.dumps(other)  # its scratch memory is made by a function without a name
