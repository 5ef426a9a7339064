"""What a newcomer tries first: every fit converges, or its warning names the cause."""

import re
import warnings

import numpy as np
import pytest
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import wolfpack
from wolfpack import (
    ChainSSVM,
    GroupFusedLasso,
    MulticlassSVM,
    MultilabelSVM,
    Status,
)

CLASSES = ("iris", "wine", "breast_cancer", "digits")
TABLES = ("iris", "wine", "breast_cancer", "diabetes", "linnerud")
UNEVEN = "The columns of X differ in size .* times.*scale them.*StandardScaler"
SLOW = "the relative gap is .* after 1000 passes.*[Rr]aise max_iter"
# The best objective known, by a cone solver, of MulticlassSVM() on raw columns.
OPTIMA = {"wine": 0.06236, "breast_cancer": 0.09884}


def load(name, is_scaled):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (StandardScaler().fit_transform(X) if is_scaled else X), y


def fit(model, X, y=None):
    """Fit, and return the model and what it warned of not converging."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_params(random_state=0).fit(X, y)
    said = [str(one.message) for one in caught]
    return model, [one for one in said if "staircase" not in one]


def assert_answered(model, said, is_uneven=False):
    """Check that the fit converged, or that one sentence names the cause."""
    assert model.dual_objective_ >= -1e-6  # that of the start is 0
    assert model.dual_objective_ <= model.objective_ + 1e-9
    assert model.objective_ <= 1.3  # that of the start is 1
    if model.status_ is Status.CONVERGED:
        assert not said
        assert model.result_.relative_gap <= model.tol
        return
    assert model.status_ is Status.EPOCH_LIMIT, model.result_
    (sentence,) = said
    assert re.search(UNEVEN if is_uneven else SLOW, sentence)


@pytest.mark.parametrize("is_scaled", [False, True], ids=["raw", "scaled"])
@pytest.mark.parametrize("name", CLASSES)
def test_classes(name, is_scaled):
    X, y = load(name, is_scaled)
    model, said = fit(MulticlassSVM(), X, y)
    assert_answered(model, said, is_uneven=name in OPTIMA)
    if is_scaled or name not in OPTIMA:
        assert model.status_ is Status.CONVERGED
    else:  # LIBLINEAR stops at 6 and 1.4 times the optimum
        assert OPTIMA[name] * (1 - 1e-3) <= model.objective_ <= 1.5 * OPTIMA[name]


@pytest.mark.parametrize("is_scaled", [False, True], ids=["raw", "scaled"])
@pytest.mark.parametrize("name", CLASSES)
def test_classes_as_labels_and_as_sequences(name, is_scaled):
    X, y = load(name, is_scaled)
    Y = np.eye(int(y.max()) + 1, dtype=int)[y]
    assert_answered(*fit(MultilabelSVM(), X, Y), is_uneven=not is_scaled)
    parts = np.array_split(X, 20), np.array_split(y, 20)
    assert_answered(*fit(ChainSSVM(), *parts), is_uneven=not is_scaled)


@pytest.mark.parametrize("n", [50, 150, 500])
def test_sets_of_labels(n):
    X, Y = datasets.make_multilabel_classification(n, random_state=0)
    model, said = fit(MultilabelSVM(), X, Y)
    assert model.status_ is Status.CONVERGED, said


@pytest.mark.parametrize("n", [20, 60, 240])
def test_random_labels(n):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(8, 20)) for _ in range(n)]
    y = [rng.integers(5, size=8) for _ in range(n)]
    model, said = fit(ChainSSVM(), X, y)
    assert_answered(model, said)
    assert model.result_.relative_gap < 0.02


@pytest.mark.parametrize("n", [100, 300])
def test_dates(n):
    train, _ = wolfpack.load_dates(n_train=n)
    model, said = fit(ChainSSVM(), train.X, train.y)
    assert model.status_ is Status.CONVERGED, said


@pytest.mark.parametrize("is_scaled", [False, True], ids=["raw", "scaled"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_as_signals(name, is_scaled):
    Y = getattr(datasets, f"load_{name}")().data
    Y = StandardScaler().fit_transform(Y) if is_scaled else Y
    model, said = fit(GroupFusedLasso(), Y)
    assert model.status_ is Status.CONVERGED, said


def test_words_in_columns_of_uneven_counts_are_no_cause():
    """A rare word is no small column."""
    rng = np.random.default_rng(0)
    X = (rng.random((200, 30)) < np.logspace(-2, 0, 30)).astype(float)
    model = MulticlassSVM(max_iter=1, tol=1e-9)
    _, said = fit(model, X, rng.integers(3, size=200))
    assert not re.search("differ in size", said[0])
