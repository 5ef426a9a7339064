"""GroupFusedLasso: scikit-learn's own checks, and answers known another way."""

import pickle
from array import array
from signal import SIGINT, raise_signal

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from wolfpack import (
    ActiveSet,
    GroupFusedLasso,
    InteriorPoint,
    Serial,
    Status,
    Threads,
    make_piecewise,
)
from wolfpack.change_points import StaircaseWarning
from wolfpack.estimators import signals as estimator

NORMS = [1.0, 2.0, np.inf]
TOGETHER = "rows of a signal belong together: their order and neighbours count"
EXPECTED = {
    "check_methods_sample_order_invariance": TOGETHER,
    "check_methods_subset_invariance": TOGETHER,
    "check_sample_weight_equivalence_on_dense_data": f"{TOGETHER}; it shuffles rows",
    "check_fit1d": "a signal may have one dimension",
    "check_sample_weights_shape": "weights may be those of entries",
}


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


@parametrize_with_checks(
    [
        GroupFusedLasso(),
        GroupFusedLasso(n_jobs=2),
        GroupFusedLasso(n_change_points=2),
        GroupFusedLasso(engine=Serial(), tol=1e-4),
    ],
    expected_failed_checks=lambda model: {
        name: why
        for name, why in EXPECTED.items()
        if model.n_change_points is None or "weight_equivalence" not in name
    },
)
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
    exact = GroupFusedLasso(alpha=0.5).fit(Y)
    threads = Threads(2)
    many = GroupFusedLasso(alpha=0.5, tol=1e-7, engine=threads, random_state=0).fit(Y)
    assert many.status_ is Status.CONVERGED
    np.testing.assert_allclose(many.signal_, exact.signal_, atol=2e-3)


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
    with pytest.warns(
        ConvergenceWarning, match=r"after 1 pass .*, above tol = 0. Raise"
    ):
        GroupFusedLasso(tol=0, max_iter=1, engine=Serial()).fit(signal[0])


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"alpha": 0}, "alpha must be a finite number > 0, but is 0"),
        ({"q": 0.5}, "q must be at least 1"),
        ({"q": 3, "sampling": "gap"}, "use step='line'"),
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


def test_alpha_max_of_one_dimension():
    assert GroupFusedLasso.alpha_max([1.0, 2.0, 3.0]) == 1.0
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        GroupFusedLasso.alpha_max([1.0])


def test_plot(signal):
    Y, clean, _ = signal
    with pytest.raises(NotFittedError):
        GroupFusedLasso().plot(Y)
    axes = GroupFusedLasso(random_state=0).fit(Y).plot(Y, original=clean)
    titles = [ax.get_title() for ax in axes]
    assert titles == ["original signal", "noisy signal", "recovered signal"]
    assert [len(ax.lines) for ax in axes] == [3, 3, 3]
    plt.close("all")


# Change points.


def test_the_default_engine_is_an_active_set(signal):
    assert GroupFusedLasso()._choose_engine() == ActiveSet()
    assert GroupFusedLasso(n_jobs=2)._choose_engine() == ActiveSet(2)
    assert GroupFusedLasso(q=3)._choose_engine() == InteriorPoint()
    for params in (
        {"step": "line"}, {"sampling": "gap"}, {"averaging": True},
        {"accelerate": True}, {"batch_size": 2},
    ):  # fmt: skip
        assert GroupFusedLasso(**params)._choose_engine() == Serial()


@pytest.mark.parametrize("seed", range(5))
def test_the_number_of_change_points_is_kept(seed):
    Y, _, truth = make_piecewise(n=300, d=3, n_segments=6, noise=0.3, rng=seed)
    model = GroupFusedLasso(n_change_points=5).fit(Y)
    np.testing.assert_array_equal(model.change_points_, truth)
    assert model.n_change_points_ == 5
    starts = np.append(0, truth)
    for first, last in zip(starts, np.append(truth, 300), strict=True):
        np.testing.assert_allclose(
            model.signal_[first:last], np.tile(Y[first:last].mean(0), (last - first, 1))
        )
    np.testing.assert_array_equal(
        model.labels_, np.searchsorted(truth, range(300), "right")
    )
    assert len(model.costs_) == 6
    rest = np.square(Y - model.signal_).sum()
    assert model.costs_[5] == pytest.approx(rest)


def test_auto_finds_the_number():
    Y, _, truth = make_piecewise(n=400, d=2, n_segments=5, noise=0.3, rng=0)
    model = GroupFusedLasso(n_change_points="auto").fit(Y)
    np.testing.assert_array_equal(model.change_points_, truth)
    noise = np.random.default_rng(0).normal(size=(300, 2))
    assert GroupFusedLasso(n_change_points="auto").fit(noise).n_change_points_ == 0


def test_refit_is_the_mean_and_the_lasso_is_kept_on_request(signal):
    Y = signal[0]
    lasso = GroupFusedLasso(alpha=0.4).fit(Y)
    means = GroupFusedLasso(alpha=0.4, refit=True).fit(Y)
    np.testing.assert_array_equal(lasso.change_points_, means.change_points_)
    assert np.square(Y - means.signal_).sum() < np.square(Y - lasso.signal_).sum()
    pruned = GroupFusedLasso(alpha=0.4, n_change_points=3, refit=False).fit(Y)
    np.testing.assert_array_equal(pruned.signal_, lasso.signal_)
    assert pruned.change_points_.size == 3


def test_predict_and_transform_are_those_of_the_fitted_signal(signal):
    Y = signal[0]
    for number in (None, 3, "auto"):
        model = GroupFusedLasso(n_change_points=number).fit(Y)
        np.testing.assert_array_equal(model.predict(Y), model.labels_)
        np.testing.assert_array_equal(model.transform(Y), model.signal_)
        again = GroupFusedLasso(n_change_points=number)
        np.testing.assert_array_equal(again.fit_predict(Y), model.labels_)
    assert model.predict(Y[:1]).tolist() == [0]


def test_the_same_points_from_cold_and_warm_starts():
    for seed in range(3):
        Y = make_piecewise(n=400, d=3, n_segments=8, noise=0.5, rng=seed)[0]
        top = GroupFusedLasso.alpha_max(Y)
        warm = GroupFusedLasso(warm_start=True)
        for share in (0.5, 0.1, 0.02, 0.1, 0.6, 0.02):
            warm.set_params(alpha=share * top).fit(Y)
            cold = GroupFusedLasso(alpha=share * top).fit(Y)
            np.testing.assert_array_equal(warm.change_points_, cold.change_points_)


def test_rows_without_weight_follow_the_row_before():
    Y, _, truth = make_piecewise(n=60, d=2, n_segments=3, noise=0.1, rng=0)
    weights = np.ones(60)
    weights[[0, 5, 59, truth[0]]] = 0
    rows = np.flatnonzero(weights)
    model = GroupFusedLasso(alpha=1.0).fit(Y, sample_weight=weights)
    short = GroupFusedLasso(alpha=1.0).fit(Y[rows])
    np.testing.assert_allclose(model.signal_[rows], short.signal_, atol=1e-12)
    np.testing.assert_array_equal(model.signal_[5], model.signal_[4])
    np.testing.assert_array_equal(model.signal_[0], model.signal_[1])
    np.testing.assert_array_equal(model.change_points_, rows[short.change_points_])
    with pytest.raises(ValueError, match="above 0 in at least 2 rows, but is in 1"):
        model.fit(Y, sample_weight=np.eye(60)[0])


def test_pandas_in_and_out():
    pd = pytest.importorskip("pandas")
    Y = make_piecewise(n=50, d=2, n_segments=3, rng=0)[0]
    index = pd.date_range("2026-01-01", periods=50)
    frame = pd.DataFrame(Y, index=index, columns=["a", "b"])
    model = GroupFusedLasso(n_change_points=2).set_output(transform="pandas")
    out = model.fit_transform(frame)
    pd.testing.assert_index_equal(out.index, index)
    assert list(out.columns) == ["a", "b"]
    pd.testing.assert_frame_equal(model.transform(frame), out)
    series = pd.Series(Y[:, 0], index=index, name="load")
    out = model.fit_transform(series)
    if parse_version(sklearn.__version__) >= parse_version("1.9"):
        # Older ones take the index of a frame only.
        pd.testing.assert_index_equal(out.index, index)
    assert list(out.columns) == ["load"]
    assert list(model.feature_names_in_) == ["load"]
    array = GroupFusedLasso(n_change_points=2).fit(Y[:, 0])
    np.testing.assert_array_equal(array.change_points_, model.change_points_)
    assert array.signal_.shape == (50, 1)


def test_a_staircase_is_told():
    Y = np.repeat([0.0, 5.0, 9.0, 9.5, 0.0], [20, 1, 1, 20, 20])[:, np.newaxis]
    with pytest.warns(StaircaseWarning, match="3 of 4 change points are steps of a"):
        GroupFusedLasso(alpha=0.5).fit(Y)


def test_too_few_candidates_are_told(signal):
    top = GroupFusedLasso.alpha_max(signal[0])
    model = GroupFusedLasso(alpha=0.9 * top, n_change_points=20)
    with pytest.warns(UserWarning, match="give a smaller alpha, or none"):
        model.fit(signal[0])
    assert model.n_change_points_ == model.candidates_.size


@pytest.mark.parametrize("number", [-1, 25, 2.0, True, "many"])
def test_bad_numbers_are_refused(signal, number):
    with pytest.raises(
        ValueError, match=r"n_change_points must be None, 'auto' or .* 24"
    ):
        GroupFusedLasso(n_change_points=number).fit(signal[0])


def test_alpha_is_a_tenth_of_its_largest_by_default(signal):
    model = GroupFusedLasso().fit(signal[0])
    assert model.alpha_ == pytest.approx(0.1 * model.alpha_max_)


def test_what_an_interrupted_fit_found_is_kept(signal):
    def press(event):
        raise_signal(SIGINT)

    model = GroupFusedLasso(alpha=0.4, callback=press)
    with pytest.raises(KeyboardInterrupt, match="what it had learnt is kept"):
        model.fit(signal[0])
    assert model.status_ is Status.INTERRUPTED
    assert model.labels_[-1] == model.n_change_points_ == model.change_points_.size
    assert np.isfinite(model.gap_)


def test_a_fit_that_is_interrupted_while_it_prunes_keeps_all_points(
    signal, monkeypatch
):
    monkeypatch.setattr(estimator, "settle", lambda *_: raise_signal(SIGINT))
    model = GroupFusedLasso(n_change_points=3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(signal[0])
    np.testing.assert_array_equal(model.change_points_, model.candidates_)
    assert model.labels_[-1] == model.n_change_points_ > 3


def test_points_of_an_unfinished_fit_mean_nothing(signal):
    model = GroupFusedLasso(engine=Serial(), tol=0, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="change points so far mean nothing"):
        model.fit(signal[0])


def test_a_second_fit_forgets_the_first(signal):
    model = GroupFusedLasso(alpha=0.4, n_change_points=3).fit(signal[0])
    assert len(model.costs_) == 4
    model.set_params(n_change_points=None).fit(signal[0])
    assert not hasattr(model, "costs_")


class Polars:
    """A Series as polars has it: a frame of its own, another reshape, and no ndim."""

    def __init__(self, values):
        self.values, self.shape, self.name = values, values.shape, "load"

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def to_frame(self, name=None):
        raise AssertionError("a frame that scikit-learn may not know")

    def reshape(self, *shape):
        raise AssertionError("polars reshapes to a Series of lists")


@pytest.mark.parametrize("make", [list, tuple, Polars, lambda y: array("d", y)])
def test_a_signal_of_one_dimension_in_any_container(make):
    y = make_piecewise(n=50, d=1, n_segments=3, rng=0)[0].ravel()
    model, plain = (GroupFusedLasso(n_change_points=2) for _ in range(2))
    np.testing.assert_array_equal(
        model.fit_predict(make(y)), plain.fit_predict(y[:, np.newaxis])
    )
    np.testing.assert_array_equal(model.predict(make(y)), plain.labels_)
    assert GroupFusedLasso.alpha_max(make(y)) == plain.alpha_max_
