"""MulticlassSVM: scikit-learn's own checks, and what LinearSVC finds."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolfpack import MulticlassSVM, Status

ALPHA = 0.05
ONLY_WITHIN_TOL = "equal within the gap, not to the last bit"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": ONLY_WITHIN_TOL,
    "check_sample_weight_equivalence_on_sparse_data": ONLY_WITHIN_TOL,
}


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def make(**params):
    options = {"alpha": ALPHA, "tol": 1e-4, "max_iter": 10**5, "random_state": 0}
    return MulticlassSVM(**(options | params))


def primal(coef, intercept, X, codes, weight=None):
    scores = X @ coef.T + intercept + 1.0
    right = np.arange(len(X)), codes
    scores[right] -= 1.0
    size = np.square(coef).sum() + np.square(intercept).sum()
    hinge = scores.max(axis=1) - scores[right]
    return 0.5 * ALPHA * size + np.average(hinge, weights=weight)


def liblinear(X, y, **params):
    svc = LinearSVC(multi_class="crammer_singer", C=1 / (ALPHA * len(X)), **params)
    with warnings.catch_warnings():
        # scikit-learn 1.6 counts the passes of this solver wrongly, and may warn.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return svc.set_params(tol=1e-8, max_iter=10**6).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([MulticlassSVM()], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "how",
    [
        {"accelerate": True},
        {"accelerate": False},
        {"step": "exact"},
        {"n_jobs": 2, "accelerate": True},
        {"step": "exact", "n_jobs": 2},
    ],
)
def test_it_finds_what_liblinear_finds(data, fit_intercept, how):
    X, y = data
    model = make(fit_intercept=fit_intercept, **how).fit(X, y)
    assert model.status_ is Status.CONVERGED
    value = primal(model.coef_, model.intercept_, X, y)
    assert model.objective_ == pytest.approx(value, abs=1e-6)
    assert model.gap_ == pytest.approx(model.objective_ - model.dual_objective_)
    assert 0 <= model.gap_ <= 1e-4
    assert (model.result_.n_outer > 0) == how.get(
        "accelerate", how.get("step") == "exact"
    )
    svc = liblinear(X, y, fit_intercept=fit_intercept)
    best = primal(svc.coef_, svc.intercept_, X, y)
    assert model.dual_objective_ <= best + 1e-6
    assert best <= model.objective_ + 1e-6
    # alpha/2 |w - w*|^2 <= gap
    np.testing.assert_allclose(model.coef_, svc.coef_, atol=0.07)
    np.testing.assert_allclose(model.intercept_, svc.intercept_, atol=0.07)
    if not fit_intercept:
        assert not model.intercept_.any()
    assert model.coef_.shape == (3, 4)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_.T + model.intercept_)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    assert model.score(X, y) == (model.predict(X) == y).mean() > 0.8


def test_two_classes_have_one_score(data):
    X, y = data[0][50:], np.where(data[1][50:] == 1, "bee", "ant")
    model, svc = make().fit(X, y), liblinear(X, y)
    assert model.coef_.shape == svc.coef_.shape == (1, 4)
    assert model.intercept_.shape == (1,)
    np.testing.assert_allclose(model.coef_, svc.coef_, atol=0.1)
    assert model.decision_function(X).shape == (100,)
    right = np.where(model.decision_function(X) > 0, "bee", "ant")
    np.testing.assert_array_equal(model.predict(X), right)
    # The two rows of w are opposite: |w|^2 is half the square of their difference.
    half = np.vstack([-model.coef_, model.coef_]) / 2
    shift = np.array([-1, 1]) * model.intercept_ / 2
    value = primal(half, shift, X, (y == "bee").astype(int))
    assert model.objective_ == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csc_array, np.asfortranarray])
def test_every_form_of_x_gives_the_same_model(data, convert):
    X, y = data
    one, two = make().fit(X, y), make().fit(convert(X), y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    np.testing.assert_array_equal(one.predict(X), two.predict(convert(X)))


@pytest.mark.parametrize(
    "names",
    [np.array([-7, 3, 1000]), np.array(["ant", "bee", "cat"], dtype=object)],
    ids=["numbers", "objects"],
)
def test_labels_of_any_kind(data, names):
    X, y = data
    plain, named = make().fit(X, y), make().fit(X, names[y])
    np.testing.assert_array_equal(named.classes_, names)
    np.testing.assert_array_equal(named.coef_, plain.coef_)
    np.testing.assert_array_equal(named.predict(X), names[plain.predict(X)])
    assert named.score(X, names[y]) == plain.score(X, y)


def test_a_weight_of_two_is_the_example_twice(data):
    X, y = data
    weight = np.tile([1, 2, 0], 50)
    weighted = make().fit(X, y, sample_weight=weight)
    repeated = make().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.dual_objective_ <= repeated.objective_ + 1e-6
    assert repeated.dual_objective_ <= weighted.objective_ + 1e-6
    value = primal(weighted.coef_, weighted.intercept_, X, y, weight)
    assert weighted.objective_ == pytest.approx(value, abs=1e-6)
    assert abs(make().fit(X, y).objective_ - value) > 1e-3  # it does matter


def test_warm_start_goes_on(data):
    X, y = data
    model = make(warm_start=True, max_iter=2, tol=0)
    with pytest.warns(ConvergenceWarning, match="above tol = 0. Raise max_iter or tol"):
        first = model.fit(X, y).dual_objective_
    with pytest.warns(ConvergenceWarning):
        assert model.fit(X, y).dual_objective_ > first
    assert model.n_iter_ == 4
    with pytest.raises(ValueError, match="Set warm_start=False to start anew"):
        model.set_params(step="line").fit(X, y)
    with pytest.raises(ValueError, match="warm_start needs the classes of the first"):
        model.fit(X, y + 1)
    with pytest.raises(ValueError, match="Set warm_start=False to start anew"):
        model.set_params(step="exact").fit(X[:-1], y[:-1])


def test_steps_lead_to_minimisers_where_that_pays(data, monkeypatch):
    X, y = data
    how = {"warm_start": True, "tol": 1e-4, "max_iter": 10**4}
    steps = {
        (True, 2**28): True,  # accelerated: whole distributions are kept
        (True, 100): False,  # they would take more memory
        (False, 2**28): False,
        ("auto", 2**28): True,
        ("auto", 100): False,
    }
    for (accelerate, most), expected in steps.items():
        monkeypatch.setattr("wolfpack.estimators.multiclass.MOST_BYTES", most)
        model = make(accelerate=accelerate, **how).fit(X, y)
        assert (model.result_.state.offsets is None) == expected
        assert (model.result_.n_outer > 0) == (accelerate is not False)
        monkeypatch.undo()
        model.fit(X, y)  # goes on with the blocks that it has
        assert (model.result_.state.offsets is None) == expected
        value = primal(model.coef_, model.intercept_, X, y)
        assert model.objective_ == pytest.approx(value, abs=1e-6)


def test_in_a_search_over_pipelines_and_through_pickle(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), make(tol=1e-3))
    search = GridSearchCV(pipeline, {"multiclasssvm__alpha": [0.05, 100.0]}, cv=2)
    search.fit(X, y)
    assert search.best_params_ == {"multiclasssvm__alpha": 0.05}
    other = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(other.predict(X), search.predict(X))


def test_digits():
    X, y = load_digits(return_X_y=True)
    model = MulticlassSVM(alpha=0.01, random_state=0).fit(X[:1200] / 16, y[:1200])
    assert model.status_ is Status.CONVERGED
    assert model.score(X[1200:] / 16, y[1200:]) > 0.9


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"alpha": 0}, "alpha must be a finite number > 0, but is 0"),
        ({"step": "newton"}, "step must be"),
        ({"n_jobs": 2, "averaging": True}, "set n_jobs=1 or averaging=False"),
        ({"batch_size": 151}, "batch_size must be an integer from 1 .* 150"),
    ],
)
def test_bad_parameters_are_refused(data, params, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**params).fit(*data)


def test_bad_data_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="y has one class only"):
        make().fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        make().fit(X, y + 0.5 * X[:, 0])
    with pytest.raises(ValueError, match="Negative values"):
        make().fit(X, y, sample_weight=-np.ones(150))
    with pytest.raises(NotFittedError):
        make().predict(X)
    model = make(tol=0.1).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but MulticlassSVM"):
        model.predict(X[:, :3])
