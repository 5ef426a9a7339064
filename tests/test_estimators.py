"""ChainSSVM: what it says is true, held against enumeration of all labellings."""

import itertools
import logging
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from wolfpack import ChainSSVM, Status

LENGTHS = (1, 2, 3, 4, 3, 2)


def make_data(n_labels=3, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, n_features)) for length in LENGTHS]
    y = [rng.integers(n_labels, size=length) for length in LENGTHS]
    y[3][:n_labels] = np.arange(n_labels)
    return X, y


def fitted(X, y, **params):
    options = {"alpha": 0.5, "tol": 1e-3, "max_iter": 100_000, "random_state": 0}
    options["normalize"] = True  # "auto" would take sparse X for text
    return ChainSSVM(**{**options, **params}).fit(X, y)


def total(model, x, codes):
    """The score of a labelling, from the published attributes alone."""
    codes = np.asarray(codes)
    score = (model.coef_[codes] * x).sum() + model.intercept_[codes].sum()
    score += model.first_[codes[0]] + model.last_[codes[-1]]
    return score + model.transitions_[codes[:-1], codes[1:]].sum()


def all_labellings(model, length):
    return itertools.product(range(len(model.classes_)), repeat=length)


def weights_squared(model):
    parts = (model.coef_, model.intercept_, model.first_, model.last_)
    return sum(np.square(part).sum() for part in (*parts, model.transitions_))


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def model(data):
    return fitted(*data)


def test_predict_is_the_best_of_all_labellings(data, model):
    for x, labels in zip(data[0], model.predict(data[0]), strict=True):
        best = max(total(model, x, z) for z in all_labellings(model, len(x)))
        assert total(model, x, labels) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("numbers", [1, 2**18])  # sequences one by one, or together
def test_decision_function_gives_max_marginals(data, model, numbers, monkeypatch):
    monkeypatch.setattr("wolfpack.problems.max_marginals.NUMBERS", numbers)
    for x, scores in zip(data[0], model.decision_function(data[0]), strict=True):
        expected = np.full((len(x), len(model.classes_)), -np.inf)
        for z in all_labellings(model, len(x)):
            value = total(model, x, z)
            for t, k in enumerate(z):
                expected[t, k] = max(expected[t, k], value)
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("how", [{"averaging": True}, {}, {"n_jobs": 2}])
def test_objective_is_the_primal_at_the_weights(data, normalize, how):
    X, y = data
    model = fitted(X, y, normalize=normalize, tol=1e-2, **how)
    hinges = []
    for x, right in zip(X, y, strict=True):
        cost = 1 / len(x) if normalize else 1
        hinges.append(
            max(
                cost * np.sum(np.array(z) != right) + total(model, x, z)
                for z in all_labellings(model, len(x))
            )
            - total(model, x, right)
        )
    primal = 0.25 * weights_squared(model) + np.mean(hinges)
    assert model.objective_ == pytest.approx(primal, abs=1e-5)
    assert model.gap_ == pytest.approx(model.objective_ - model.dual_objective_)
    assert 0 <= model.gap_ <= 1e-2 * (1 if normalize else np.mean(LENGTHS))
    assert model.status_ is Status.CONVERGED


def test_score_counts_right_positions(data, model):
    X, y = data
    guess = model.predict(X)
    right = [(a == b).sum() for a, b in zip(guess, y, strict=True)]
    assert 0 < sum(right) < sum(LENGTHS)  # else this would show little
    assert model.score(X, y) == pytest.approx(sum(right) / sum(LENGTHS))
    weight = np.array([0, 0, 3.0, 1, 0, 0])
    expected = (3 * right[2] + right[3]) / (3 * 3 + 4)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(expected)
    assert model.score(X, guess) == 1


def test_score_of_an_unseen_label_is_an_error_and_a_warning(data, model):
    X = data[0]
    guess = [labels.copy() for labels in model.predict(X)]
    guess[3][1] = 77
    with pytest.warns(UserWarning, match=r"never saw, \[77\]; they count as errors"):
        score = model.score(X, guess)
    assert score == pytest.approx(1 - 1 / sum(LENGTHS))


@pytest.mark.parametrize(
    "names",
    [
        np.array([-7, 3, 1000]),
        np.array(["noun", "of", "verb"]),
        np.array(["noun", "of", "verb"], dtype=object),
        np.array([False, True]),
    ],
    ids=["numbers", "strings", "objects", "booleans"],
)
def test_labels_of_any_kind(names):
    X, y = make_data(n_labels=len(names))
    plain = fitted(X, y)
    named = fitted(X, [names[labels] for labels in y])
    np.testing.assert_array_equal(named.classes_, names)
    np.testing.assert_array_equal(named.coef_, plain.coef_)
    for a, b in zip(named.predict(X), plain.predict(X), strict=True):
        np.testing.assert_array_equal(a, names[b])


def test_a_single_label_needs_no_learning(data):
    X, y = data
    model = fitted(X, [np.full(len(labels), 5) for labels in y])
    assert model.status_ is Status.CONVERGED
    assert all((labels == 5).all() for labels in model.predict(X))


def as_objects(arrays):
    box = np.empty(len(arrays), dtype=object)
    box[:] = arrays
    return box


@pytest.mark.parametrize(
    "convert",
    [
        tuple,
        as_objects,
        lambda X: [sp.csr_matrix(x) for x in X],
        lambda X: [sp.csc_array(x) for x in X],
        lambda X: [x.tolist() for x in X],
        lambda X: [np.asfortranarray(x) for x in X],
        lambda X: [x.astype(np.float32) for x in X],
        lambda X: [sp.csr_matrix(X[0]), *X[1:]],
    ],
    ids=["tuple", "objects", "csr", "csc", "lists", "fortran", "float32", "mixed"],
)
def test_every_form_of_input_gives_the_same_model(data, model, convert):
    X, y = data
    other = fitted(convert(X), as_objects(y) if convert is as_objects else y)
    np.testing.assert_array_equal(other.coef_, model.coef_)
    for a, b in zip(other.predict(convert(X)), model.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_fit_leaves_its_input_alone():
    X, y = make_data()
    X[2] = sp.csr_matrix(X[2])
    weight = np.ones(len(X))
    copies = [x.copy() for x in X], [labels.copy() for labels in y]
    fitted(X, y).fit(X, y, sample_weight=weight)
    for before, after in zip(copies[0], X, strict=True):
        difference = before - after
        assert abs(difference).max() == 0
    for before, after in zip(copies[1], y, strict=True):
        np.testing.assert_array_equal(before, after)
    assert (weight == 1).all()


def test_a_weight_of_two_is_the_sequence_twice(data):
    X, y = data
    options = {"alpha": 0.5, "tol": 1e-4, "max_iter": 100_000, "random_state": 0}
    weighted = ChainSSVM(**options).fit(X, y, sample_weight=[1, 1, 2, 1, 1, 1])
    doubled = ChainSSVM(**options).fit([*X, X[2]], [*y, y[2]])
    assert weighted.objective_ == pytest.approx(doubled.objective_, abs=1e-4)
    assert abs(fitted(X, y).objective_ - doubled.objective_) > 3e-3  # it does matter
    scaled = ChainSSVM(**options).fit(X, y, sample_weight=[8, 8, 16, 8, 8, 8])
    np.testing.assert_array_equal(scaled.coef_, weighted.coef_)


def test_a_weight_of_zero_is_no_sequence(data):
    X, y = data
    weighted = ChainSSVM(alpha=0.5, max_iter=100_000, random_state=0)
    weighted.fit(X, y, sample_weight=[1, 1, 1, 1, 1, 0])
    without = fitted(X[:-1], y[:-1])
    assert weighted.objective_ == pytest.approx(without.objective_, abs=1e-3)
    assert abs(fitted(X, y).objective_ - without.objective_) > 3e-3


@pytest.mark.parametrize(
    ("params", "limit"), [({"max_iter": 3}, "max_iter"), ({}, "max_seconds")]
)
def test_limits_warn_with_gap_tol_and_advice(data, params, limit):
    params = params or {"max_seconds": 1e-9}
    with pytest.warns(ConvergenceWarning) as caught:
        model = fitted(*data, tol=1e-9, **params)
    (warning,) = caught
    text = str(warning.message)
    assert f"the relative gap is {model.relative_gap_:.3g} after" in text
    assert "above tol = 1e-09" in text
    assert f"Raise {limit} or tol" in text
    assert warning.filename == __file__
    assert model.status_.name == {"max_iter": "EPOCH_LIMIT"}.get(limit, "TIME_LIMIT")
    model.predict(data[0])


def test_threads_find_the_best_weights(data, model):
    other = fitted(*data, n_jobs=2)
    assert other.status_ is Status.CONVERGED
    np.testing.assert_allclose(other.coef_, model.coef_, atol=0.1)
    assert model.dual_objective_ <= other.objective_ <= model.objective_ + 1e-3


def test_verbose_logs_a_line_a_check(data, caplog):
    with caplog.at_level(logging.INFO, logger="wolfpack"):
        quiet = fitted(*data, tol=0.1)
        assert not [r for r in caplog.messages if r.startswith("pass")]
        model = fitted(*data, tol=0.1, verbose=1)
    lines = [line for line in caplog.messages if line.startswith("pass")]
    assert len(lines) == len(model.trace_) == len(quiet.trace_)
    assert f"gap {model.gap_:.3e} (tol 1.0e-01)" in lines[-1]


def test_the_converged_fit_is_silent(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(*data)
