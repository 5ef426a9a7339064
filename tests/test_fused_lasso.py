"""The group fused lasso against cvxpy, and against optima found by another solver."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

import wolfpack
from wolfpack.datasets import load_acgh, make_piecewise

NORMS = [1.0, 2.0, 3.0, np.inf]


def primal(X, Y, alpha, q=2.0):
    jumps = np.linalg.norm(np.diff(X, axis=0), ord=q, axis=1).sum()
    return 0.5 * np.square(X - Y).sum() + alpha * jumps


def check_solution(result, Y, alpha, q=2.0):
    """Hold X and both bounds against the prices U, by hand."""
    U = result.state.blocks.points
    p = {1.0: np.inf, np.inf: 1.0}.get(q, q / (q - 1) if 1 < q < np.inf else 0)
    assert np.linalg.norm(U, ord=p, axis=1).max() <= alpha * (1 + 1e-9)
    X = Y.copy()
    X[:-1] += U
    X[1:] -= U
    size = np.abs(Y).max()
    np.testing.assert_allclose(result.solution, X, atol=1e-11 * size)
    dual = 0.5 * np.square(Y).sum() - 0.5 * np.square(X).sum()
    scale = 0.5 * np.square(Y).sum()
    assert -result.objective == pytest.approx(dual, abs=1e-11 * scale)
    assert -result.lower_bound == pytest.approx(
        primal(X, Y, alpha, q), rel=1e-9, abs=1e-11 * scale
    )


@pytest.mark.parametrize("q", NORMS)
def test_it_agrees_with_cvxpy(q):
    rng = np.random.default_rng(0)
    for n, d, alpha in ((2, 1, 0.3), (7, 3, 0.5), (12, 2, 1.0)):
        Y = rng.normal(size=(n, d)).cumsum(axis=0)
        X = cp.Variable((n, d))
        jumps = sum(cp.pnorm(X[t + 1] - X[t], q) for t in range(n - 1))
        goal = cp.Minimize(0.5 * cp.sum_squares(X - Y) + alpha * jumps)
        best = cp.Problem(goal).solve(solver=cp.CLARABEL)
        problem = wolfpack.group_fused_lasso(Y, alpha, q=q)
        step = "line" if problem.minimiser is None else "exact"
        how = {"tol": 1e-5, "max_epochs": 4000, "rng": 0, "accelerate": False}
        result = wolfpack.solve(problem, step=step, **how)
        assert result.relative_gap < 1e-3
        slack = 1e-6 * best
        assert -result.objective <= best + slack
        assert -result.lower_bound >= best - slack
        distance = (
            np.sqrt(2 * max(result.gap, 0.0)) + 1e-4
        )  # the objective is strongly convex
        assert np.linalg.norm(result.solution - X.value) <= distance
        check_solution(result, Y, alpha, q)


def test_a_minimiser_that_says_so_must_return_the_gap():
    problem = wolfpack.group_fused_lasso(np.eye(3), 0.1)
    for wrong, sentence in (
        (lambda *args: None, "minimiser on block 0 returned None"),
        (lambda *args: 1.0, "minimiser returns the gap .*, but it is"),
    ):
        other = dataclasses.replace(problem, minimiser=wrong)
        other.check()
        with pytest.raises(wolfpack.ProblemError, match=sentence):
            dataclasses.replace(other, finds_gap=True).check()


def test_which_norms_have_a_block_minimiser():
    Y = np.arange(6.0).reshape(3, 2)
    found = [wolfpack.group_fused_lasso(Y, 1.0, q=q).minimiser is None for q in NORMS]
    assert found == [False, False, True, False]


@pytest.mark.parametrize(
    ("given", "alpha", "best"),
    [
        ({"n": 100, "n_segments": 10, "noise": 0.1}, 0.01, 0.7559886496),
        ({"n": 100, "n_segments": 10, "noise": 0.1}, 0.5, 22.827209),
        ({"n": 10_000, "n_segments": 50, "noise": 0.5}, 1.0, 10574.697),
        ("acgh", 1.0, 708.980331),
        ("acgh", 3.0, 1049.186799),
    ],
)
def test_optima_of_another_solver_are_bracketed(given, alpha, best, request):
    if given == "acgh":
        Y = load_acgh(request.getfixturevalue("data_home"))
    else:
        Y = make_piecewise(d=10, rng=0, **given)[0]
    problem = wolfpack.group_fused_lasso(Y, alpha)
    tol = 1e-6 * best / problem.scale
    how = {"step": "exact", "sampling": "permutation", "max_epochs": 50_000, "rng": 0}
    how["accelerate"] = False  # so that the solution is that of the prices
    result = wolfpack.solve(problem, tol=tol, **how)
    assert result.converged
    assert result.gap <= 1e-6 * best
    slack = 1e-7 * best  # the optimum is known to seven digits
    assert -result.objective <= best + slack
    assert -result.lower_bound >= best - slack
    check_solution(result, Y, alpha)


def test_exact_steps_need_fewer_passes():
    Y = make_piecewise(n=2000, d=10, n_segments=20, noise=0.5)[0]
    problem = wolfpack.group_fused_lasso(Y, 1.0)
    how = {"tol": 1e-4, "max_epochs": 10_000, "rng": 0, "check_every": 1.0}
    how["sampling"] = "permutation"
    exact = wolfpack.solve(problem, step="exact", **how)
    line = wolfpack.solve(problem, step="line", accelerate=False, **how)
    assert exact.converged
    assert line.converged
    assert 1 <= exact.epochs <= 0.6 * line.epochs


@pytest.mark.parametrize("alpha", [1e-6, 1e6])
def test_extreme_prices(alpha):
    Y = make_piecewise(n=30, d=2)[0]
    result = wolfpack.solve(
        wolfpack.group_fused_lasso(Y, alpha), step="exact", tol=1e-6, max_epochs=20_000,
        rng=0,
    )  # fmt: skip
    limit = Y if alpha < 1 else np.tile(Y.mean(axis=0), (30, 1))
    np.testing.assert_allclose(result.solution, limit, atol=1e-2)
    check_solution(result, Y, alpha)


def test_a_constant_signal_is_its_own_solution():
    Y = np.full((5, 2), 3.0)
    result = wolfpack.solve(wolfpack.group_fused_lasso(Y, 1.0))
    assert result.converged
    np.testing.assert_array_equal(result.solution, Y)


def test_the_signal_is_neither_changed_nor_kept():
    Y = make_piecewise(n=10, d=2)[0]
    before = Y.copy()
    problem = wolfpack.group_fused_lasso(Y, 0.5)
    first = wolfpack.solve(problem, rng=0)
    np.testing.assert_array_equal(Y, before)
    Y[:] = 0.0
    assert wolfpack.solve(problem, rng=0).objective == first.objective


BAD = {
    "one-dimensional": (np.ones(5), 1.0, 2.0, r"Y must have shape \(n >= 2, d >= 1\)"),
    "one row": (np.ones((1, 3)), 1.0, 2.0, r"but has \(1, 3\)"),
    "no column": (np.ones((3, 0)), 1.0, 2.0, r"but has \(3, 0\)"),
    "NaN": (np.array([[1.0], [np.nan]]), 1.0, 2.0, "Y holds NaN or infinity"),
    "infinity": (np.array([[1.0], [np.inf]]), 1.0, 2.0, "Y holds NaN or infinity"),
    "alpha 0": (np.ones((3, 1)), 0.0, 2.0, "alpha must be a finite number > 0"),
    "alpha negative": (np.ones((3, 1)), -1.0, 2.0, "alpha must be a finite number > 0"),
    "alpha NaN": (np.ones((3, 1)), np.nan, 2.0, "alpha must be a finite number > 0"),
    "alpha infinite": (
        np.ones((3, 1)),
        np.inf,
        2.0,
        "alpha must be a finite number > 0",
    ),
    "q": (np.ones((3, 1)), 1.0, 0.5, "q must be at least 1, but is 0.5"),
    "q NaN": (np.ones((3, 1)), 1.0, np.nan, "q must be at least 1, but is nan"),
}


@pytest.mark.parametrize(("Y", "alpha", "q", "message"), BAD.values(), ids=BAD)
def test_bad_input(Y, alpha, q, message):
    with pytest.raises(ValueError, match=message):
        wolfpack.group_fused_lasso(Y, alpha, q=q)


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_an_offset_changes_nothing(offset):
    Y, _, _ = wolfpack.make_piecewise(n=40, d=3)
    here = wolfpack.GroupFusedLasso(alpha=0.5, tol=1e-6, random_state=0).fit(Y)
    there = wolfpack.GroupFusedLasso(alpha=0.5, tol=1e-6, random_state=0)
    there.fit(Y + offset)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-4)
    np.testing.assert_allclose(there.signal_ - offset, here.signal_, atol=1e-4)


@pytest.mark.parametrize("alpha", [1e-12, 1e12])
def test_an_extreme_alpha_is_no_error_of_the_oracle(alpha):
    Y, _, _ = wolfpack.make_piecewise(n=40, d=3)
    problem = wolfpack.group_fused_lasso(Y, alpha)
    result = wolfpack.solve(problem, step="exact", max_epochs=20, rng=0)
    expected = Y if alpha < 1 else np.tile(Y.mean(axis=0), (40, 1))
    np.testing.assert_allclose(result.solution, expected, atol=1e-9)
