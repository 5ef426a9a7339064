"""Every estimator on data of any size: a sentence, or a certificate that holds.

`objective_` is the value of what was learnt and `dual_objective_` a bound below it.
The first is computed again from the attributes, the second must not exceed the value
of any other point: of zero, of what cvxpy finds, and of points near the answer.
"""

import warnings

import cvxpy as cp
import helpers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from wolfpack import ChainSSVM, GroupFusedLasso, MulticlassSVM
from wolfpack.change_points import StaircaseWarning

few = settings(max_examples=12, deadline=None, derandomize=True)
some = settings(max_examples=25, deadline=None, derandomize=True)
EXTREME = st.sampled_from(
    [1e-320, 1e-200, 1e-45, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e20, 1e38, 1e45, 1e200, 1e307]
)
USUAL = st.sampled_from([1e-8, 1e-3, 1.0, 1e3, 1e8])
ALPHAS = st.sampled_from([5e-324, 1e-30, 1e-6, 0.01, 1.0, 1e6, 1e30, 1e300])


def numbers(*shape):
    simple = st.sampled_from([0.0, 1.0, -1.0, 0.5])
    return hnp.arrays(np.float64, shape, elements=simple | st.floats(-3, 3, width=32))


def fit(model, *data, **more):
    """Fit, or return the sentence; nothing else may be said but that it is not done."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", StaircaseWarning)
        return model.fit(*data, **more)


def fit_or_sentence(model, *data, **more):
    try:
        return fit(model, *data, **more)
    except ValueError as error:
        sentence = str(error)
    assert "\n" not in sentence
    return None


def assert_claims(model, value, others, slack):
    """The value of the model is what it says, and no other point is below the bound."""
    assert np.isfinite(model.gap_)
    assert model.gap_ >= 0
    assert model.objective_ - model.dual_objective_ == pytest.approx(
        model.gap_, abs=slack
    )
    assert model.objective_ == pytest.approx(value, abs=slack)
    for other in others:
        assert model.dual_objective_ <= other + slack
    if model.status_.name == "CONVERGED":
        assert model.objective_ <= min(others) + model.gap_ + slack


# Group fused lasso.


def slow(value):
    """A case that compiles loops of its own."""
    return pytest.param(value, marks=pytest.mark.slow)


def lasso(X, Y, alpha, q):
    jumps = np.linalg.norm(np.diff(X, axis=0), ord=q, axis=1).sum()
    return 0.5 * np.square(X - Y).sum() + alpha * jumps


@pytest.mark.parametrize("q", [slow(1), 2, slow(np.inf)])
@some
@given(
    Y=st.integers(2, 5).flatmap(lambda n: numbers(n, 2)), scale=EXTREME, alpha=EXTREME
)
def test_any_signal_gives_a_sentence_or_a_certificate(q, Y, scale, alpha):
    Y = scale * Y
    model = GroupFusedLasso(alpha=alpha, q=q, max_iter=50, random_state=0)
    model = fit_or_sentence(model, Y)
    if model is None:
        assert np.abs(Y).max() > 1e139 or np.abs(Y - Y.mean(axis=0)).max() < 1e-139
        return
    signal, mean = model.signal_, np.broadcast_to(Y.mean(axis=0), Y.shape)
    others = [lasso(X, Y, alpha, q) for X in (Y, mean, 0.5 * (Y + mean))]
    # A jump of rounding size costs alpha, and squares of Y cancel.
    size = float(np.abs(Y).max())
    slack = 1e-9 * min(others) + 1e-12 * size**2 + 1e-12 * alpha * size + 1e-300
    assert_claims(model, lasso(signal, Y, alpha, q), others, slack)


@few
@given(Y=numbers(4, 2), q=st.sampled_from([1, 2, np.inf]), scale=USUAL)
def test_a_signal_against_cvxpy(Y, q, scale):
    X = cp.Variable(Y.shape)
    cost = 0.5 * cp.sum_squares(X - Y)
    cost += 0.3 * sum(cp.norm(X[t + 1] - X[t], q) for t in range(3))
    best = cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    model = fit(GroupFusedLasso(alpha=0.3 * scale, q=q, random_state=0), scale * Y)
    slack = 1e-6 * (1 + np.square(Y).sum())
    assert model.dual_objective_ / scale**2 <= best + slack
    assert model.objective_ / scale**2 >= best - slack


# Classes.


def hinge(scores, y):
    rows = np.arange(len(y))
    wrong = scores + 1.0
    wrong[rows, y] -= 1.0
    return wrong.max(axis=1) - scores[rows, y]


def classes_value(w, X, y, alpha, weight):
    """P of the multiclass SVM for weights (K, p)."""
    loss = hinge(X @ w.T, y)
    return 0.5 * alpha * np.square(w).sum() + np.average(loss, weights=weight)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["exact", "line"])
@some
@given(
    X=st.integers(3, 6).flatmap(lambda n: numbers(n, 2)),
    scale=EXTREME,
    alpha=ALPHAS,
    size=st.sampled_from([1e-300, 1.0, 1e308]),
    seed=st.integers(0, 9),
)
def test_any_classes_give_a_sentence_or_a_certificate(
    step, X, scale, alpha, size, seed
):
    X[0, 0] = 0.5  # not all of them are 1, which has loops of its own
    X = scale * X
    y = np.random.default_rng(seed).integers(0, 3, len(X))
    y[:3] = 0, 1, 2
    weight = size * np.linspace(0.5, 1.0, len(X))
    model = MulticlassSVM(
        alpha=alpha, step=step, max_iter=50, random_state=0, fit_intercept=False
    )
    model = fit_or_sentence(model, X, y, sample_weight=weight)
    if model is None:
        assert scale > 1e14 or alpha < 1e-299
        return
    X, w = X.astype(np.float32).astype(float), model.coef_.astype(float)
    near = [w * t for t in (0.0, 0.5, 0.9, 1.1)]
    weight = weight / weight.max()
    others = [classes_value(z, X, y, alpha, weight) for z in near]
    slack = 1e-5 * (1 + alpha * np.square(w).sum() + np.abs(X @ w.T).max())
    assert_claims(model, classes_value(w, X, y, alpha, weight), others, slack)


# Chains.


def chain_value(model, X, y, alpha, t=1.0):
    """P of a chain model whose weights are t times what it has learnt."""
    parts = [model.coef_.T, model.intercept_, model.first_, model.last_]
    w = t * np.vstack([*parts, model.transitions_]).astype(float).ravel()
    K, total = len(model.classes_), 0.5 * alpha * w @ w
    for x, truth in zip(X, y, strict=True):
        right = helpers.phi(x, truth, K)
        every = np.array(helpers.labelings(K, len(truth)))
        scores = [(helpers.phi(x, labels, K) - right) @ w for labels in every]
        total += ((every != truth).mean(axis=1) + scores).max() / len(X)
    return total, w


@pytest.mark.slow
@some
@given(
    lengths=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    seed=st.integers(0, 9),
    n_labels=st.integers(1, 3),
    scale=EXTREME,
    alpha=ALPHAS,
    averaging=st.booleans(),
)
def test_any_chains_give_a_sentence_or_a_certificate(
    lengths, seed, n_labels, scale, alpha, averaging
):
    rng = np.random.default_rng(seed)
    X = [scale * rng.integers(-2, 3, (length, 2)) for length in lengths]
    X[0][0, 0] = 0.5 * scale
    y = [rng.integers(0, n_labels, length) for length in lengths]
    y = [np.unique(np.concatenate(y)).searchsorted(labels) for labels in y]
    model = ChainSSVM(alpha=alpha, averaging=averaging, max_iter=50, random_state=0)
    model = fit_or_sentence(model, X, y)
    if model is None:
        assert scale > 1e14 or alpha < 1e-299
        return
    X = [x.astype(np.float32).astype(float) for x in X]
    value, w = chain_value(model, X, y, alpha)
    others = [chain_value(model, X, y, alpha, t)[0] for t in (0.0, 0.5, 0.9, 1.1)]
    largest = max(np.abs(x).max() for x in X) * np.abs(w).max()
    slack = 1e-5 * (1 + alpha * w @ w + 3 * largest)
    assert_claims(model, value, others, slack)
