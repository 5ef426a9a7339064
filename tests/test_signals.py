"""GroupFusedLasso: scikit-learn's own checks, and answers known another way."""

import pickle

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolfpack import GroupFusedLasso, Status, make_piecewise

NORMS = [1.0, 2.0, np.inf]


def objective(X, Y, alpha, q):
    jumps = np.linalg.norm(np.diff(X, axis=0), ord=q, axis=1).sum()
    return 0.5 * np.square(X - Y).sum() + alpha * jumps


def reference(Y, alpha, q):
    """The minimiser, by an interior point method on the primal."""
    X = cp.Variable(Y.shape)
    jumps = sum(cp.norm(X[t + 1] - X[t], q) for t in range(len(Y) - 1))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X - Y) + alpha * jumps))
    problem.solve(solver=cp.CLARABEL)
    return X.value


@pytest.fixture(scope="module")
def signal():
    return make_piecewise(n=25, d=3, n_segments=4, noise=0.3, rng=1)


@parametrize_with_checks([GroupFusedLasso(), GroupFusedLasso(n_jobs=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("q", NORMS)
def test_signal_is_the_minimiser(signal, q):
    Y = signal[0]
    model = GroupFusedLasso(alpha=0.4, q=q, tol=1e-8, random_state=0).fit(Y)
    X = reference(Y, 0.4, q)
    np.testing.assert_allclose(model.signal_, X, atol=2e-3)
    assert model.objective_ == pytest.approx(objective(X, Y, 0.4, q), rel=1e-6)
    assert model.objective_ == pytest.approx(objective(model.signal_, Y, 0.4, q))
    assert model.dual_objective_ <= objective(X, Y, 0.4, q) * (1 + 1e-9)
    assert model.gap_ == pytest.approx(model.objective_ - model.dual_objective_)


@pytest.mark.parametrize("sampling", ["permutation", "uniform", "gap", "cyclic"])
def test_threads_find_the_minimiser(signal, sampling):
    Y = signal[0]
    model = GroupFusedLasso(alpha=0.4, sampling=sampling, tol=1e-8, n_jobs=2)
    model.set_params(max_iter=1_000_000).fit(Y)
    assert model.status_ is Status.CONVERGED
    X = reference(Y, 0.4, 2.0)
    np.testing.assert_allclose(model.signal_, X, atol=2e-3)
    assert model.objective_ == pytest.approx(objective(X, Y, 0.4, 2.0), rel=1e-6)


def test_threads_forget_no_block():
    Y = make_piecewise(n=1000, d=10, rng=0)[0]
    one = GroupFusedLasso(alpha=0.5, tol=1e-6, random_state=0).fit(Y)
    many = GroupFusedLasso(alpha=0.5, tol=1e-6, random_state=0, n_jobs=2).fit(Y)
    assert many.status_ is Status.CONVERGED
    np.testing.assert_array_equal(many.change_points_, one.change_points_)


@pytest.mark.parametrize("q", NORMS)
def test_change_points_are_where_the_minimiser_jumps(signal, q):
    Y = signal[0]
    jumps = np.linalg.norm(np.diff(reference(Y, 0.4, q), axis=0), axis=1)
    assert not ((jumps > 1e-7) & (jumps < 1e-5)).any()  # which is which is clear
    model = GroupFusedLasso(alpha=0.4, q=q, tol=1e-8, random_state=0).fit(Y)
    assert model.change_points_.tolist() == (np.flatnonzero(jumps > 1e-5) + 1).tolist()


@pytest.mark.parametrize("q", NORMS)
def test_alpha_max(q):
    Y = make_piecewise(n=12, d=2, n_segments=3, rng=2)[0]
    top = GroupFusedLasso.alpha_max(Y, q)
    for alpha in (top * (1 + 1e-9), 2 * top):
        model = GroupFusedLasso(alpha=alpha, q=q, random_state=0).fit(Y)
        assert model.alpha_max_ == top
        assert model.change_points_.size == 0
        np.testing.assert_allclose(model.signal_, np.tile(Y.mean(0), (12, 1)))
    below = GroupFusedLasso(alpha=0.98 * top, q=q, tol=1e-9, max_iter=100_000)
    below.set_params(random_state=0).fit(Y)
    assert below.status_ is Status.CONVERGED
    assert below.change_points_.size == 1


def test_change_points_of_a_clean_signal():
    clean, _, truth = make_piecewise(n=60, d=4, n_segments=5, noise=0, rng=3)
    model = GroupFusedLasso(alpha=0.05, tol=1e-6, random_state=0).fit(clean)
    np.testing.assert_array_equal(model.change_points_, truth)
    np.testing.assert_allclose(model.signal_, clean, atol=0.1)


def test_a_signal_of_two_rows():
    model = GroupFusedLasso(alpha=1, tol=1e-9).fit([[0.0], [6.0]])
    np.testing.assert_allclose(model.signal_, [[1.0], [5.0]], atol=1e-6)
    assert model.change_points_.tolist() == [1]


def test_a_constant_signal_has_no_change_point():
    model = GroupFusedLasso().fit(np.full((9, 2), 3.0))
    assert model.status_ is Status.CONVERGED
    assert model.change_points_.size == 0
    assert model.objective_ == 0
    np.testing.assert_array_equal(model.signal_, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kind_of_float_is_kept(signal, dtype):
    Y = signal[0].astype(dtype)
    copy = Y.copy()
    model = GroupFusedLasso(random_state=0)
    out = model.fit_transform(Y)
    assert out is model.signal_
    assert out.dtype == dtype
    np.testing.assert_array_equal(Y, copy)
    assert not np.shares_memory(out, Y)
    double = GroupFusedLasso(random_state=0).fit(signal[0]).signal_
    np.testing.assert_allclose(out, double, atol=1e-4)


def test_it_works_in_a_pipeline_and_through_pickle(signal):
    Y = signal[0]
    pipeline = make_pipeline(StandardScaler(), GroupFusedLasso(random_state=0))
    out = pipeline.fit_transform(Y)
    scaled = StandardScaler().fit_transform(Y)
    model = GroupFusedLasso(random_state=0).fit(scaled)
    np.testing.assert_array_equal(out, model.signal_)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.signal_, model.signal_)
    np.testing.assert_array_equal(other.change_points_, model.change_points_)


def test_warm_start_along_a_path(signal):
    Y = signal[0]
    model = GroupFusedLasso(alpha=0.5, tol=1e-6, warm_start=True, random_state=0)
    model.fit(Y)
    warm = model.set_params(alpha=0.45).fit(Y)
    cold = GroupFusedLasso(alpha=0.45, tol=1e-6, random_state=0).fit(Y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-5)
    with pytest.raises(ValueError, match="Set warm_start=False to start anew"):
        model.fit(Y[:-1])


def test_a_limit_warns(signal):
    with pytest.warns(ConvergenceWarning, match="after 1 pass, above tol = 0. Raise"):
        GroupFusedLasso(tol=0, max_iter=1).fit(signal[0])


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"alpha": 0}, "alpha must be a finite number > 0, but is 0"),
        ({"q": 0.5}, "q must be at least 1"),
        ({"q": 3}, "use step='line'"),
        ({"n_jobs": 0}, "n_jobs must be the number of threads, .* given was 0"),
        ({"n_jobs": 2, "averaging": True}, "set n_jobs=1 or averaging=False"),
        ({"batch_size": 25}, "batch_size must be an integer from 1 .* 24"),
    ],
)
def test_bad_parameters_are_refused(signal, params, sentence):
    with pytest.raises(ValueError, match=sentence):
        GroupFusedLasso(**params).fit(signal[0])


def test_other_norms_take_the_line_search(signal):
    Y = signal[0]
    model = GroupFusedLasso(alpha=0.4, q=3, step="line", tol=1e-5, random_state=0)
    model.fit(Y)
    X = reference(Y, 0.4, 3)
    assert model.objective_ == pytest.approx(objective(X, Y, 0.4, 3), rel=1e-4)


def test_alpha_max_wants_rows_and_columns():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        GroupFusedLasso.alpha_max([1.0, 2.0, 3.0])


def test_plot(signal):
    Y, clean, _ = signal
    with pytest.raises(NotFittedError):
        GroupFusedLasso().plot(Y)
    axes = GroupFusedLasso(random_state=0).fit(Y).plot(Y, original=clean)
    titles = [ax.get_title() for ax in axes]
    assert titles == ["original signal", "noisy signal", "recovered signal"]
    assert [len(ax.lines) for ax in axes] == [3, 3, 3]
    plt.close("all")
