"""What ChainSSVM refuses, and the sentence it says."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from wolfpack import ChainSSVM


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 3)) for length in (1, 2, 3, 4, 3, 2)]
    return X, [np.arange(len(x)) % 3 for x in X]


@pytest.fixture(scope="module")
def model(data):
    return ChainSSVM(alpha=0.5, tol=0.1, random_state=0).fit(*data)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X, y: ([], []), "y is empty"),
        (lambda X, y: ([], y), "X is empty: at least one sequence"),
        (lambda X, y: (X, y[:-1]), "X has 6 sequences and y has 5"),
        (lambda X, y: (X[:-1], y), "X has 5 sequences and y has 6"),
        (lambda X, y: (X, [*y[:-1], y[-1][:1]]), r"X\[5\] has 2 positions, but y\[5\]"),
        (lambda X, y: ([*X[:-1], X[-1][:, :2]], y), r"X\[5\] has 2 features, X\[0\]"),
        (lambda X, y: ([[[1], [1, 2]], *X[1:]], y), r"X\[0\] is ragged"),
        (lambda X, y: ([X[0] * np.nan, *X[1:]], y), r"X\[0\] holds NaN or infinity"),
        (lambda X, y: ([*X[:5], X[5] / 0], y), r"X\[5\] holds NaN or infinity"),
        (lambda X, y: ([X[0][:0], *X[1:]], y), r"X\[0\] must have shape \(T >= 1, p\)"),
        (lambda X, y: ([x[0] for x in X], y), r"X\[0\] must have shape"),
        (
            lambda X, y: ([[["a"]], *X[1:]], y),
            r"X\[0\] holds dicts or strings; put",
        ),
        (lambda X, y: (sp.csr_matrix(X[1]), y), "X must be a list of"),
        (lambda X, y: (X, None), "y must be a list of label arrays.*not NoneType"),
        (lambda X, y: (X, np.concatenate(y)), r"y\[0\] must be one label a position"),
        (lambda X, y: (X, [labels * np.nan for labels in y]), "y holds NaN"),
        (lambda X, y: (X, [[None] * len(z) for z in y]), "cannot be sorted"),
    ],
)
def test_bad_data_is_refused_with_a_sentence(data, change, sentence):
    with np.errstate(divide="ignore"):
        X, y = change(*data)
    with pytest.raises(ValueError, match=sentence):
        ChainSSVM().fit(X, y)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"alpha": -1}, "alpha must be a finite number > 0, but is -1"),
        ({"alpha": "small"}, "alpha must be a finite number > 0, but is 'small'"),
        ({"alpha": np.nan}, "alpha must be a finite number > 0"),
        (
            {"batch_size": 0},
            "batch_size must be an integer from 1 .* 6, 'auto' or None; given was 0",
        ),
        (
            {"batch_size": 7},
            "batch_size must be an integer from 1 .* 6, 'auto' or None; given was 7",
        ),
        ({"step": "exact"}, "has none; use step='line'"),
        ({"step": 1.5}, r"a constant step must lie in \(0, 1\]"),
        ({"sampling": "all"}, "sampling must be one of"),
        ({"tol": -1}, "tol must be a number >= 0"),
        ({"max_iter": 0}, "max_iter must be a finite number > 0, but is 0"),
        ({"max_iter": np.inf}, "max_iter must be a finite number > 0"),
        ({"max_seconds": 0}, "max_seconds must be a number > 0 or None"),
        ({"n_jobs": 0}, "n_jobs must be the number of threads, .* given was 0"),
        ({"n_jobs": 1.5}, "-1 for all cores or None; given was 1.5"),
        ({"n_jobs": "all"}, "-1 for all cores or None; given was 'all'"),
        ({"n_jobs": 2, "averaging": True}, "set n_jobs=1 or averaging=False"),
        ({"n_jobs": 2, "step": "open-loop"}, "set n_jobs=1 or step='line'"),
        ({"n_jobs": 2, "batch_size": 7}, "batch_size must be an integer from 1 .* 6"),
        ({"random_state": "a"}, "random_state must be .* given was 'a'"),
    ],
)
def test_bad_parameters_are_refused_by_fit(data, params, sentence):
    model = ChainSSVM(**params)  # which only stores
    with pytest.raises(ValueError, match=sentence):
        model.fit(*data)


@pytest.mark.parametrize("weight", [[1, 2], [1, 1, 1, 1, 1, -1], [0] * 6, [np.inf] * 6])
def test_bad_weights_are_refused(data, model, weight):
    with pytest.raises(ValueError, match="sample_weight must"):
        ChainSSVM().fit(*data, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight must"):
        model.score(*data, sample_weight=weight)


def test_predict_refuses_what_fit_did_not_see(data, model):
    X, y = data
    with pytest.raises(NotFittedError):
        ChainSSVM().predict(X)
    with pytest.raises(ValueError, match=r"X has 2 features.* fitted with 3"):
        model.predict([x[:, :2] for x in X])
    with pytest.raises(ValueError, match="X has 6 sequences and y has 5"):
        model.score(X, y[:-1])
    with pytest.raises(ValueError, match=r"X\[1\] has 2 positions and y\[1\] has 1"):
        model.score(X, [y[0], y[1][:1], *y[2:]])
