"""A path over alpha: the models that single fits would give, and their order."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import wolfpack
from wolfpack import alpha_path
from wolfpack.checks.image import image

ALPHAS = [0.01, 1.0, 0.1]


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def sets():
    X, y = iris()
    return X, np.column_stack([y == 0, y > 0, X[:, 1] > 0]).astype(int)


def words():
    dates, _ = wolfpack.load_dates(n_train=30)
    return dates.X, dates.y


def signal():
    return wolfpack.make_piecewise(n=40, d=3)[0], None


MODELS = {
    "multiclass": (wolfpack.MulticlassSVM, iris),
    "multilabel": (wolfpack.MultilabelSVM, sets),
    "chain": (wolfpack.ChainSSVM, words),
    "lasso": (wolfpack.GroupFusedLasso, signal),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_path_has_the_optimum_of_each_alpha(name):
    kind, load = MODELS[name]
    X, y = load()
    model = kind(tol=1e-3, random_state=0, max_iter=10**4)
    path = alpha_path(model, X, y, ALPHAS)
    assert [one.alpha for one in path] == ALPHAS
    assert not hasattr(model, "result_")  # what is given stays as it is
    for alpha, one in zip(ALPHAS, path, strict=True):
        assert type(one) is kind
        assert not one.warm_start
        assert one.result_.converged
        assert one.result_.state is None
        single = kind(alpha=alpha, tol=1e-3, random_state=0, max_iter=10**4).fit(X, y)
        noise = 1e-5 * max(abs(single.objective_), 1.0)
        assert one.dual_objective_ <= single.objective_ + noise
        assert single.dual_objective_ <= one.objective_ + noise
    assert path[1].result_.epochs == single_epochs(kind, X, y)
    assert len({one.objective_ for one in path}) == 3


def single_epochs(kind, X, y):
    """Passes of the largest alpha, which starts anew."""
    model = kind(alpha=1.0, tol=1e-3, random_state=0, max_iter=10**4)
    return model.fit(X, y).result_.epochs


@pytest.mark.parametrize("engine", [None, wolfpack.Serial()])
def test_each_state_of_a_path_has_the_v_of_its_own_x(engine):
    Y = signal()[0]
    model = wolfpack.GroupFusedLasso(warm_start=True, engine=engine, accelerate=False)
    for alpha, one in zip(ALPHAS, alpha_path(model, Y, None, ALPHAS), strict=True):
        state, problem = one.result_.state, wolfpack.group_fused_lasso(Y, alpha)
        assert state.fingerprint == problem.fingerprint
        exact, _ = image(problem, state.blocks)
        np.testing.assert_allclose(state.shared, exact, rtol=0, atol=1e-12)
        largest = np.linalg.norm(state.blocks.points, axis=1).max()
        assert 0.99 * alpha <= largest <= (1 + 1e-12) * alpha


@pytest.mark.parametrize("accelerate", ["auto", False])
def test_it_starts_where_the_last_alpha_stopped(accelerate):
    X, y = iris()
    how = {"tol": 1e-3, "random_state": 0, "accelerate": accelerate}
    first = wolfpack.MulticlassSVM(alpha=0.1, **how).fit(X, y)
    model = wolfpack.MulticlassSVM(max_iter=10**4, **how)
    # An alpha that hardly differs needs no pass, but an accelerated run looks later.
    near = alpha_path(model, X, y, [0.1, 0.1 * (1 - 1e-9)])[1]
    most = first.result_.epochs - 1 if accelerate else 0
    assert near.result_.epochs <= most
    assert near.result_.converged


def test_sample_weights_and_the_same_alpha_twice():
    X, y = iris()
    model = wolfpack.MulticlassSVM(tol=1e-3, random_state=0, max_iter=10**4)
    weight = np.where(y == 2, 3.0, 1.0)
    one, two = alpha_path(model, X, y, [0.1, 0.1], sample_weight=weight)
    assert one is two
    svc = LinearSVC(multi_class="crammer_singer", C=1 / (0.1 * len(X)), tol=1e-8)
    svc.fit(X, y, sample_weight=weight / weight.mean())
    np.testing.assert_allclose(one.coef_, svc.coef_, atol=0.15)


def test_bad_arguments_are_refused():
    X, y = iris()
    with pytest.raises(TypeError, match="must be an estimator of wolfpack, but is a"):
        alpha_path(LinearSVC(), X, y, ALPHAS)
    with pytest.raises(ValueError, match="alphas holds no number"):
        alpha_path(wolfpack.MulticlassSVM(), X, y, [])
    with pytest.raises(ValueError, match="alphas must be a finite number > 0, but is"):
        alpha_path(wolfpack.MulticlassSVM(), X, y, [0.1, 0.0])
