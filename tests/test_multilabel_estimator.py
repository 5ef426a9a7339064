"""MultilabelSVM: scikit-learn's own checks, and what other estimators find."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolfpack import MulticlassSVM, MultilabelSVM, Status

ALPHA = 0.05
ONLY_WITHIN_TOL = "equal within the gap, not to the last bit"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": ONLY_WITHIN_TOL,
    "check_sample_weight_equivalence_on_sparse_data": ONLY_WITHIN_TOL,
}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(80, 12, n_classes=5, random_state=0)
    return StandardScaler().fit_transform(X), Y


def make(**params):
    options = {"alpha": ALPHA, "tol": 1e-4, "max_iter": 10**5, "random_state": 0}
    return MultilabelSVM(**(options | params))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([MultilabelSVM()], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_independent_labels_are_one_versus_the_rest(data):
    X, Y = data
    model = make(pairs=None, tol=1e-5).fit(X, Y)
    svc = LinearSVC(loss="hinge", C=1 / (ALPHA * len(X)), tol=1e-8, max_iter=10**6)
    rest = OneVsRestClassifier(svc).fit(X, Y)
    assert model.edges_.shape == (0, 2)
    coef = np.vstack([one.coef_ for one in rest.estimators_])
    np.testing.assert_allclose(model.coef_, coef, atol=0.05)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_.T + model.intercept_)
    assert (model.predict(X) == rest.predict(X)).mean() > 0.99


@pytest.mark.parametrize("pairs", ["full", "tree", None])
@pytest.mark.parametrize("candidates", ["all", "observed"])
def test_what_is_learnt_fits_together(data, pairs, candidates):
    X, Y = data
    model = make(pairs=pairs, candidates=candidates).fit(X, Y)
    assert model.status_ is Status.CONVERGED
    assert model.gap_ == pytest.approx(model.objective_ - model.dual_objective_)
    sets = model.predict(X)
    assert sets.dtype == np.int64
    np.testing.assert_array_equal(sets, model.decision_function(X) > 0)
    most = np.unique(Y, axis=0, return_counts=True)[1].max() / len(Y)
    assert model.score(X, Y) == accuracy_score(Y, sets) > 2 * most
    n_edges = {"full": 10, "tree": 4, None: 0}[pairs]
    assert model.pair_coef_.shape == (len(model.edges_),)
    assert len(model.edges_) <= n_edges
    np.testing.assert_array_equal(model.classes_, np.arange(5))
    if candidates == "all":
        assert model.candidates_ is None
        assert len(model.edges_) == n_edges
    else:
        seen = {tuple(row) for row in Y}
        assert {tuple(row) for row in sets} <= seen
        assert {tuple(row) for row in model.candidates_} == seen


def test_interactions_help_where_labels_exclude_each_other():
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=400)
    X = np.eye(6)[y] + 0.6 * rng.normal(size=(400, 6))
    Y = np.eye(6, dtype=int)[y]
    half = slice(200), slice(200, 400)
    exact = {}
    for pairs in ("full", None):
        model = MultilabelSVM(alpha=0.01, pairs=pairs, random_state=0)
        exact[pairs] = model.fit(X[half[0]], Y[half[0]]).score(X[half[1]], Y[half[1]])
    assert exact["full"] > exact[None] + 0.03


@pytest.mark.slow
def test_more_labels_than_can_be_enumerated():
    X, Y = make_multilabel_classification(300, 30, n_classes=40, random_state=0)
    tree = make(pairs="tree", tol=1e-3).fit(X / 10, Y)
    assert tree.edges_.shape == (39, 2)
    listed = make(candidates="observed", tol=1e-3).fit(X / 10, Y)
    for model in (tree, listed):
        assert model.status_ is Status.CONVERGED
        margins, sets = model.decision_function(X / 10), model.predict(X / 10)
        np.testing.assert_array_equal(sets, margins > 0)
    # Fewer sets can violate the margin where only those observed are searched.
    rest = make(pairs=None, candidates="observed", tol=1e-3).fit(X / 10, Y)
    alone = make(pairs=None, tol=1e-3).fit(X / 10, Y)
    assert rest.dual_objective_ <= alone.objective_


def test_every_form_of_the_data_gives_the_same_model(data):
    X, Y = data
    plain = make().fit(X, Y)
    for other in (
        make().fit(sp.csr_matrix(X), Y),
        make().fit(X, sp.csr_matrix(Y)),
        make().fit(X, Y.astype(bool)),
        make().fit(X.tolist(), Y.tolist()),
    ):
        np.testing.assert_array_equal(other.coef_, plain.coef_)
        np.testing.assert_array_equal(other.pair_coef_, plain.pair_coef_)
        np.testing.assert_array_equal(other.predict(X), plain.predict(X))


def test_a_vector_of_two_classes_is_one_label(data):
    X, y = data[0], np.where(data[1][:, 0], "bee", "ant")
    model = make().fit(X, y)
    assert model.classes_.tolist() == ["ant", "bee"]
    assert model.coef_.shape == (1, 12)
    assert model.decision_function(X).shape == (80,)
    right = np.where(model.decision_function(X) > 0, "bee", "ant")
    np.testing.assert_array_equal(model.predict(X), right)
    # It is the same machine: the two rows of a multiclass SVM are w/2 and -w/2.
    other = MulticlassSVM(alpha=2 * ALPHA, tol=1e-4, random_state=0).fit(X, y)
    assert model.dual_objective_ <= other.objective_ + 1e-5
    assert other.dual_objective_ <= model.objective_ + 1e-5


def test_warm_start_goes_on(data):
    X, Y = data
    model = make(warm_start=True, max_iter=2, tol=0)
    with pytest.warns(ConvergenceWarning, match="above tol = 0. Raise max_iter or tol"):
        first = model.fit(X, Y).dual_objective_
    with pytest.warns(ConvergenceWarning):
        assert model.fit(X, Y).dual_objective_ > first
    assert model.n_iter_ == 4
    with pytest.raises(ValueError, match="warm_start needs the labels of the first"):
        model.fit(X, Y[:, :4])
    with pytest.raises(ValueError, match="Set warm_start=False to start anew"):
        model.fit(X[:-1], Y[:-1])


def test_in_a_search_over_pipelines_and_through_pickle(data):
    X, Y = data
    pipeline = make_pipeline(StandardScaler(), make(tol=1e-3))
    grid = {"multilabelsvm__alpha": [0.05, 1.0], "multilabelsvm__pairs": ["tree", None]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="f1_micro").fit(X, Y)
    assert search.best_score_ > 0.5
    again = pipeline.set_params(**search.best_params_).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    other = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(other.predict(X), search.predict(X))


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"alpha": 0}, "alpha must be a finite number > 0, but is 0"),
        ({"pairs": "all"}, 'pairs must be "auto", "full", "tree" or None'),
        ({"candidates": None}, 'candidates must be "all" or "observed"'),
        ({"step": "exact"}, "step='exact' needs a problem with a block minimiser"),
    ],
)
def test_bad_parameters_are_refused(data, params, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**params).fit(*data)


def test_the_default_takes_any_number_of_labels(data):
    X, Y = data
    wide = np.hstack([Y] * 4)  # 20 labels
    for table, n_edges in ((Y, 10), (wide, 19)):  # every two, and a tree
        model = make(tol=0.1).fit(X, table)
        assert len(model.edges_) == n_edges
        assert model.predict(X).shape == table.shape
    observed = make(tol=0.1, candidates="observed").fit(X, wide)
    assert len(observed.edges_) > 19  # all that were seen together


def test_bad_data_are_refused(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"2\^20; it takes at most 16. Use pairs="):
        make(pairs="full").fit(X, np.hstack([Y] * 4))
    with pytest.raises(ValueError, match="y has one class only"):
        make().fit(X, np.ones(80))
    with pytest.raises(ValueError, match="MulticlassSVM tells 3 classes apart"):
        make().fit(X, np.arange(80) % 3)
    with pytest.raises(ValueError, match="Y must hold 1 where an example has a label"):
        make().fit(X, 2 * Y)
    lists = [("sun", "sea")] * 40 + [("sea",)] * 40
    for wrong in (lists, [*map(set, lists)]):
        with pytest.raises(ValueError, match="MultiLabelBinarizer makes the table"):
            make().fit(X, wrong)
    table = MultiLabelBinarizer().fit_transform(lists)
    assert make(tol=0.1).fit(X, table).coef_.shape == (2, 12)
    with pytest.raises(NotFittedError):
        make().predict(X)


@pytest.mark.parametrize("estimator", [MulticlassSVM, MultilabelSVM])
def test_partial_fit_is_refused_with_the_reason(estimator):
    model = estimator()
    assert not hasattr(model, "partial_fit")  # as scikit-learn asks
    with pytest.raises(AttributeError, match=r"certificate .* set warm_start=True"):
        model.partial_fit  # noqa: B018
