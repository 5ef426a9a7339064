"""Signals with missing entries, and weights of entries."""

import cvxpy as cp
import numpy as np
import pytest

from wolfpack import GroupFusedLasso, Serial, Status, make_piecewise
from wolfpack.change_points import best_segments, thin
from wolfpack.change_points.entries import Entries
from wolfpack.change_points.missing import Completion

NORMS = [1.0, 2.0, np.inf]
pytestmark = pytest.mark.filterwarnings(
    "ignore::wolfpack.change_points.StaircaseWarning"
)


def objective(X, Y, W, alpha, q):
    rest = np.where(W > 0, X - np.where(W > 0, Y, 0.0), 0.0)
    jumps = np.linalg.norm(np.diff(X, axis=0), ord=q, axis=1).sum()
    return 0.5 * (W * rest**2).sum() + alpha * jumps


def optimum(Y, W, alpha, q):
    """The least objective, by an interior point method."""
    X, roots = cp.Variable(Y.shape), np.sqrt(W)
    rest = cp.multiply(roots, X - np.where(W > 0, Y, 0.0))
    jumps = sum(cp.norm(X[t + 1] - X[t], q) for t in range(len(Y) - 1))
    goal = cp.Minimize(0.5 * cp.sum_squares(rest) + alpha * jumps)
    exact = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10}
    return cp.Problem(goal).solve(solver=cp.CLARABEL, **exact)


def holes(seed, share, n=30, d=4, weighted=False):
    """A signal, its weights, and the signal with NaN."""
    rng = np.random.default_rng(seed)
    Y, _, _ = make_piecewise(n=n, d=d, n_segments=4, noise=0.4, rng=seed)
    W = (rng.random(Y.shape) >= share) * 1.0
    if weighted:
        W *= rng.choice([0.01, 0.5, 1.0, 3.0], size=Y.shape)
    return 100.0 + Y, W, np.where(W > 0, 100.0 + Y, np.nan)


@pytest.mark.parametrize("q", NORMS)
@pytest.mark.parametrize(("share", "weighted"), [(0.1, False), (0.5, True)])
def test_the_certificate_brackets_the_optimum(q, share, weighted):
    Y, W, X = holes(1, share, weighted=weighted)
    weight = W if weighted else None
    alpha = 0.1 * GroupFusedLasso.alpha_max(X, q, weight)
    model = GroupFusedLasso(alpha=alpha, q=q).fit(X, sample_weight=weight)
    best = optimum(Y, W, alpha, q)
    assert model.status_ is Status.CONVERGED
    assert model.relative_gap_ <= 1e-8
    assert model.objective_ == pytest.approx(best, rel=1e-7)
    assert model.dual_objective_ <= best * (1 + 1e-9)
    assert model.gap_ == model.objective_ - model.dual_objective_
    assert np.isfinite(model.signal_).all()
    own = objective(model.signal_, Y, W, alpha, q)
    assert own == pytest.approx(model.objective_, rel=1e-12)


@pytest.mark.parametrize("q", NORMS)
def test_every_bound_is_one(q):
    """Also those of the first steps, and of prices of no step at all."""
    Y, W, X = holes(2, 0.5)
    known = W.any(axis=1)
    Y, W, X = Y[known], W[known], X[known]
    entries = Entries.read(X, W)
    alpha = 0.1 * entries.largest_alpha(q)
    best = optimum(Y, W, alpha, q)
    completion, rng = Completion(entries, alpha, q), np.random.default_rng(0)
    for _ in range(5):
        completion.offer(Y - 100.0, alpha * rng.normal(size=(len(Y) - 1, 4)))
        assert completion.dual <= best
    for most in (1, 2, 4):
        completion.solve(0.0, most)
        assert completion.dual <= best <= completion.primal
        assert completion.primal == pytest.approx(
            objective(completion.signal + completion.centre, Y, W, alpha, q)
        )


def test_nothing_changes_where_nothing_is_missing():
    Y, _, _ = make_piecewise(n=60, d=3, n_segments=3, rng=0)
    plain = GroupFusedLasso(n_change_points=2).fit(Y)
    for weights in (np.ones(Y.shape), np.ones(60)):
        same = GroupFusedLasso(n_change_points=2).fit(Y, sample_weight=weights)
        np.testing.assert_allclose(same.signal_, plain.signal_, rtol=1e-12)
    lost = Y.copy()
    lost[[5, 20]] = np.nan  # whole rows have weight 0
    weights = np.ones(60)
    weights[[5, 20]] = 0.0
    one = GroupFusedLasso().fit(lost)
    other = GroupFusedLasso().fit(Y, sample_weight=weights)
    np.testing.assert_allclose(one.signal_, other.signal_, rtol=1e-9)
    assert (one.signal_[5] == one.signal_[4]).all()


def test_weights_of_entries_count_as_rows_do():
    Y, _, _ = make_piecewise(n=40, d=2, n_segments=3, rng=0)
    rows = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    one = GroupFusedLasso(alpha=1.0).fit(Y, sample_weight=rows)
    entries = np.repeat(rows[:, np.newaxis], 2, axis=1)
    other = GroupFusedLasso(alpha=1.0).fit(Y, sample_weight=entries)
    assert (one.signal_ == other.signal_).all()


def test_alpha_max_is_where_the_signal_becomes_constant():
    _, W, X = holes(3, 0.4, weighted=True)
    largest = GroupFusedLasso.alpha_max(X, sample_weight=W)
    flat = GroupFusedLasso(alpha=1.001 * largest).fit(X, sample_weight=W)
    assert flat.change_points_.size == 0
    means = np.average(np.where(W > 0, X, 0.0), axis=0, weights=W)
    np.testing.assert_allclose(flat.signal_, np.tile(means, (30, 1)), rtol=1e-6)
    bent = GroupFusedLasso(alpha=0.99 * largest).fit(X, sample_weight=W)
    assert np.ptp(bent.signal_, axis=0).max() > 1e-3


def slow_cost(Y, W, points):
    total = 0.0
    for rows in np.split(np.arange(len(Y)), points):
        for y, w in zip(Y[rows].T, W[rows].T, strict=True):
            if w.sum() > 0:
                total += w @ (y - np.average(y, weights=w)) ** 2
    return total


def test_the_best_segments_are_those_of_the_entries_that_are_there():
    Y, W, X = holes(4, 0.5, weighted=True)
    rows = [3, 8, 14, 15, 22, 28]
    costs, points = best_segments(X, rows, 3, weights=W)
    for k, best in enumerate(points):
        assert costs[k] == pytest.approx(slow_cost(Y, W, best), rel=1e-9)
    every = [[a, b] for a in rows for b in rows if a < b]
    assert costs[2] == pytest.approx(min(slow_cost(Y, W, two) for two in every))
    kept, n_dropped = thin(X, rows, 5, weights=W)
    assert n_dropped == 1
    least = min(slow_cost(Y, W, [a for a in rows if a != b]) for b in rows)
    assert slow_cost(Y, W, kept) == pytest.approx(least)


@pytest.mark.parametrize("number", [4, "auto"])
def test_points_are_found_through_holes(number):
    Y, _, truth = make_piecewise(n=200, d=3, n_segments=5, noise=0.2, rng=5)
    Y[np.random.default_rng(0).random(Y.shape) < 0.3] = np.nan
    model = GroupFusedLasso(n_change_points=number).fit(Y)
    assert len(model.change_points_) == len(truth)
    assert np.abs(model.change_points_ - truth).max() <= 1
    for rows in np.split(np.arange(200), model.change_points_):
        means = np.nanmean(Y[rows], axis=0)
        np.testing.assert_allclose(model.signal_[rows], np.tile(means, (len(rows), 1)))
    again = model.transform(Y)
    np.testing.assert_allclose(again, model.signal_, atol=1e-9)


def test_noise_with_holes_has_no_change_point():
    rng = np.random.default_rng(1)
    counts = []
    for _ in range(5):
        Y = rng.normal(size=(100, 3))
        Y[rng.random(Y.shape) < 0.5] = np.nan
        model = GroupFusedLasso(n_change_points="auto").fit(Y)
        counts.append(model.n_change_points_)
    assert sum(counts) <= 1


def test_a_limit_is_told():
    _, _, X = holes(0, 0.5)
    model = GroupFusedLasso(max_iter=2)
    with pytest.warns(UserWarning, match="Stopped before convergence.*max_iter"):
        model.fit(X)
    assert model.status_ is Status.EPOCH_LIMIT
    assert model.relative_gap_ > 1e-8
    assert model.objective_ > model.dual_objective_


@pytest.mark.parametrize(
    ("change", "params", "weights", "sentence"),
    [
        (lambda X: X, {"engine": Serial()}, None, "missing values, and weights of"),
        (lambda X: X, {"q": 3.0, "step": "line"}, None, "need q = 1, 2 or inf"),
        (
            lambda X: np.full_like(X, np.nan),
            {},
            None,
            "2 rows with numbers; the signal has 0",
        ),
        (lambda X: X * [np.nan, 1, 1, 1], {}, None, "column 0 of the signal has no"),
        (lambda X: X, {}, np.ones((30, 3)), r"\(30,\), one per row, or \(30, 4\)"),
        (lambda X: X, {}, -np.ones((30, 4)), "not negative"),
        (lambda X: X, {"tol": "1"}, None, "tol must be a number >= 0"),
        (lambda X: X, {"max_seconds": 0}, None, "max_seconds must be a finite number"),
        (lambda X: X, {"max_iter": -1}, None, "max_iter must be a finite number > 0"),
        (lambda X: X, {"q": 0.5}, None, "q must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(change, params, weights, sentence):
    _, _, X = holes(0, 0.2)
    with pytest.raises(ValueError, match=sentence):
        GroupFusedLasso(**params).fit(change(X), sample_weight=weights)
