"""Interior-point steps: optima known another way, certificates computed anew."""

import cvxpy as cp
import numpy as np
import pytest

import wolfpack
from wolfpack import (
    ActiveSet,
    InteriorPoint,
    Serial,
    Status,
    group_fused_lasso,
    group_trend_filter,
    solve,
)
from wolfpack.engines import active_set
from wolfpack.update.interior import Interior
from wolfpack.update.newton import Narrow, Wide, transposed

NORMS = [1.0, 2.0, np.inf]
DUAL = {1.0: np.inf, 1.25: 5.0, 2.0: 2.0, 3.0: 1.5, np.inf: 1.0}
PROBLEMS = {1: group_fused_lasso, 2: group_trend_filter}


def primal(X, Y, alpha, q, weights, order):
    bends = np.linalg.norm(np.diff(X, order, axis=0), ord=q, axis=1).sum()
    return 0.5 * (weights @ np.square(X - Y)).sum() + alpha * bends


def dual(U, Y, alpha, q, weights, order):
    """The dual objective of prices, which must be feasible."""
    assert np.linalg.norm(U, ord=DUAL[q], axis=1).max() <= alpha * (1 + 1e-9)
    D = np.diff(np.eye(len(Y)), order, axis=0)
    X = Y - D.T @ U / weights[:, None]
    return 0.5 * (weights @ (np.square(Y) - np.square(X))).sum()


def reference(Y, alpha, q, weights, order):
    X = cp.Variable(Y.shape)
    D = np.diff(np.eye(len(Y)), order, axis=0)
    bends = sum(cp.pnorm(row @ X, q) for row in D)
    squares = cp.sum(cp.multiply(weights[:, None], cp.square(X - Y)))
    problem = cp.Problem(cp.Minimize(0.5 * squares + alpha * bends))
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9)
    return problem.value


def made(seed, n, d):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, d)).cumsum(axis=0) + 10.0 * rng.normal(size=d)
    return Y, rng.uniform(0.2, 3.0, n), 10.0 ** rng.uniform(-1.0, 1.0)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("q", DUAL)
@pytest.mark.parametrize(("n", "d"), [(4, 1), (7, 3), (25, 2), (8, 20)])
def test_the_optimum_is_that_of_cvxpy(order, q, n, d):
    Y, weights, alpha = made(n + d, n, d)
    problem = PROBLEMS[order](Y, alpha, q=q, weights=weights)
    result = solve(problem, engine=InteriorPoint(), tol=1e-9)
    assert result.status is Status.CONVERGED
    above = primal(result.solution, Y, alpha, q, weights, order)
    below = dual(result.state.blocks.points, Y, alpha, q, weights, order)
    noise = 1e-12 * (weights @ np.square(Y)).sum()
    assert -result.lower_bound == pytest.approx(above, rel=1e-9, abs=noise)
    moved = primal(Y * 0 + Y, Y, alpha, q, weights, order)  # alpha times the bends of Y
    assert result.gap == pytest.approx(above - below, rel=1e-3, abs=1e-11 * moved)
    best = reference(Y, alpha, q, weights, order)
    assert above == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert result.gap <= 1e-6 * above + noise


def test_other_engines_solve_the_problem():
    Y, weights, _ = made(0, 8, 2)
    problem = group_trend_filter(Y, 0.8, weights=weights)
    problem.check()
    fine = solve(problem, engine=InteriorPoint(), tol=1e-10)
    how = {"tol": 1e-4, "max_epochs": 50_000, "rng": 0, "step": "exact"}
    for engine in (Serial(), wolfpack.Threads(2)):
        rough = solve(problem, engine=engine, **how)
        assert rough.status is Status.CONVERGED
        slack = 1e-9 * problem.scale
        assert -rough.objective <= -fine.lower_bound + slack
        assert -rough.lower_bound >= -fine.objective - slack


@pytest.mark.slow
def test_atoms_of_any_norm_touch_three_rows():
    Y, weights, _ = made(1, 7, 3)
    for q in (1.0, 3.0, np.inf):
        problem = group_trend_filter(Y, 0.5, q=q, weights=weights)
        assert problem.max_rows == 3
        problem.check()


@pytest.mark.parametrize("order", [1, 2])
def test_newtons_system_is_solved(order):
    rng = np.random.default_rng(order)
    for n, d in ((3, 1), (4, 2), (12, 3), (9, 6)):
        variances, count = rng.uniform(0.3, 3.0, n), n - order
        diagonal, lines = rng.uniform(0, 1, (count, d)), rng.normal(size=(count, d))
        lines *= 10.0 ** rng.uniform(-4, 4, (count, 1))
        diagonal *= 10.0 ** rng.uniform(-8, 0, (count, 1))
        D = np.diff(np.eye(n), order, axis=0)
        M = np.kron(D @ np.diag(variances) @ D.T, np.eye(d)) + np.diag(diagonal.ravel())
        for t in range(count):
            rows = slice(t * d, t * d + d)
            M[rows, rows] += np.outer(lines[t], lines[t])
        right = rng.normal(size=(count, d))
        expected = np.linalg.solve(M, right.ravel()).reshape(count, d)
        for kind in (Narrow, Wide)[: 3 - order]:
            system = kind(variances, count, d)
            system.factor(diagonal, lines)
            prices, values = system.solve(right)
            size = np.abs(expected).max()
            np.testing.assert_allclose(prices, expected, atol=1e-6 * size)
            image = -variances[:, None] * transposed(prices, order == 2)
            np.testing.assert_allclose(values, image, atol=1e-9 * np.abs(values).max())


@pytest.mark.parametrize("is_round", [True, False])
@pytest.mark.parametrize("is_bent", [True, False])
def test_steps_keep_prices_inside_and_reach_rounding(is_round, is_bent):
    Y, weights, _ = made(3, 30, 3)
    inner = Interior(Y, 1 / weights, 0.5, 2.0 if is_round else np.inf, is_bent)
    norm, flat = 2 if is_round else 1, (weights @ np.square(Y)).sum()
    for _ in range(12):
        inner.step()
        assert np.linalg.norm(inner.prices, ord=norm, axis=1).max() < 0.5
    assert inner.gap < 1e-10 * flat


def test_long_trends_are_certified():
    """The matrix of second differences has a condition of 10^14 here."""
    rng = np.random.default_rng(0)
    slopes = np.repeat(rng.normal(size=(8, 2)), 1000, axis=0)
    Y = 0.1 * slopes.cumsum(axis=0) + rng.normal(size=slopes.shape)
    for share in (0.1, 1e-3, 1e-6):
        alpha = share * wolfpack.GroupTrendFilter.alpha_max(Y)
        result = solve(group_trend_filter(Y, alpha), engine=InteriorPoint(), tol=1e-8)
        assert result.status is Status.CONVERGED
        assert result.gap <= 1e-6 * -result.lower_bound


def test_a_huge_alpha_gives_the_line_of_least_squares():
    Y, weights, _ = made(2, 40, 2)
    time = np.vander(np.arange(40.0), 2)
    roots = np.sqrt(weights)[:, None]
    line = time @ np.linalg.lstsq(roots * time, roots * Y)[0]
    top = wolfpack.GroupTrendFilter.alpha_max(Y, sample_weight=weights)
    for share, is_straight in ((1.001, True), (0.99, False)):
        problem = group_trend_filter(Y, share * top, weights=weights)
        found = solve(problem, engine=InteriorPoint(), tol=1e-12).solution
        assert (np.abs(found - line).max() < 1e-6) == is_straight


@pytest.mark.parametrize("q", NORMS)
def test_it_agrees_with_an_active_set_on_rare_changes(q):
    rng = np.random.default_rng(0)
    Y = np.repeat(rng.normal(size=(5, 3)), 40, axis=0) + 0.2 * rng.normal(size=(200, 3))
    problem = group_fused_lasso(Y, 2.0, q=q)
    one = solve(problem, engine=ActiveSet(), tol=1e-10)
    other = solve(problem, engine=InteriorPoint(), tol=1e-9)
    assert other.lower_bound == pytest.approx(one.lower_bound, rel=1e-8)
    np.testing.assert_allclose(one.solution, other.solution, atol=1e-4)
    jumps = [np.flatnonzero(np.diff(r.solution, axis=0).any(1)) for r in (one, other)]
    np.testing.assert_array_equal(*jumps)


@pytest.mark.parametrize("q", NORMS)
def test_an_active_set_goes_on_by_interior_point_steps(q, monkeypatch):
    """A random walk, and a smooth signal: changes everywhere, long chains of blocks."""
    used = []
    true = Interior.solve
    monkeypatch.setattr(Interior, "solve", lambda *args: used.append(1) or true(*args))
    rng = np.random.default_rng(0)
    walk = rng.normal(size=(3000, 2)).cumsum(axis=0)
    turns = np.linspace(0.0, 6.0, 2000)
    smooth = np.column_stack([np.sin(turns), np.cos(turns)])
    for Y in (walk, smooth):
        alpha = 0.1 * wolfpack.GroupFusedLasso.alpha_max(Y, q)
        problem = group_fused_lasso(Y, alpha, q=q)
        result = solve(problem, engine=ActiveSet(), tol=1e-8)
        assert result.status is Status.CONVERGED
        other = solve(problem, engine=InteriorPoint(), tol=1e-8)
        slack = 1e-7 * problem.scale
        assert result.lower_bound == pytest.approx(other.lower_bound, abs=slack)
    if q != 1.0:  # a single column is a taut string: splitting finds the answer
        assert used
    assert active_set.STEPS > 0


def test_rare_changes_need_no_interior_point_steps(monkeypatch):
    def fail(*args):
        raise AssertionError

    monkeypatch.setattr(Interior, "solve", fail)
    Y, _, _ = wolfpack.make_piecewise(n=2000, d=4, n_segments=20, rng=0)
    assert solve(group_fused_lasso(Y, 2.0), engine=ActiveSet(), tol=1e-8).gap < 1e-3


def test_sizes_of_signals_do_not_matter():
    Y, weights, _ = made(5, 30, 2)
    for size in (1e-100, 1e100):
        problem = group_trend_filter(size * Y, size, weights=weights)
        result = solve(problem, engine=InteriorPoint(), tol=1e-8)
        assert result.status is Status.CONVERGED
    straight = np.arange(10.0)[:, None] * [1.0, -2.0] + 5.0
    result = solve(group_trend_filter(straight, 1.0), engine=InteriorPoint())
    np.testing.assert_allclose(result.solution, straight, atol=1e-12)


def test_the_same_bits_each_time_and_ctrl_c():
    Y, _, _ = made(6, 200, 2)
    problem = group_trend_filter(Y, 3.0)
    runs = [solve(problem, engine=InteriorPoint(), tol=1e-9) for _ in "ab"]
    np.testing.assert_array_equal(runs[0].solution, runs[1].solution)
    stopped = solve(problem, engine=InteriorPoint(), callback=lambda _: True)
    assert stopped.status is Status.STOPPED
    assert np.isfinite(stopped.gap)


@pytest.mark.parametrize("options", [{}, {"n_change_points": 2}])
def test_the_estimator_takes_any_norm_by_default(options):
    Y, _, change_points = wolfpack.make_piecewise(n=90, d=3, n_segments=3, rng=0)
    model = wolfpack.GroupFusedLasso(q=3, **options).fit(Y)
    assert model.status_ is Status.CONVERGED
    assert model.relative_gap_ <= 1e-8
    if options:
        np.testing.assert_array_equal(model.change_points_, change_points)
    X = model.result_.solution
    ones = np.ones(90)
    assert model.objective_ == pytest.approx(primal(X, Y, model.alpha_, 3.0, ones, 1))


def test_what_it_cannot_do_is_refused():
    blocks = wolfpack.from_blocks(np.eye(3), lambda x, i: x.sum(0), wolfpack.simplex())
    with pytest.raises(ValueError, match="use Serial"):
        solve(blocks, engine=InteriorPoint())
    problem = group_trend_filter(np.eye(5), 1.0)
    for options, sentence in (
        ({"batch_size": 2}, "batch_size must be None, but is 2"),
        ({"step": "open-loop"}, "InteriorPoint makes exact steps"),
    ):
        with pytest.raises(ValueError, match=sentence):
            solve(problem, engine=InteriorPoint(), **options)
    with pytest.raises(ValueError, match="n_workers must be an integer"):
        InteriorPoint(0)
    with pytest.raises(ValueError, match="solves the group fused lasso"):
        solve(problem, engine=ActiveSet())
    with pytest.raises(ValueError, match=r"shape \(n >= 3"):
        group_trend_filter(np.eye(2), 1.0)
