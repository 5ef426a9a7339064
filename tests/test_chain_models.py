"""Chain models: costs of labels, what they have learnt, and how they go on."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import chain_primal, chain_v, dense_chain, random_chains
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline

from wolfpack import (
    ChainSSVM,
    SequenceVectorizer,
    alpha_path,
    chain_ssvm,
    load_dates,
    solve,
)
from wolfpack.displays import TopFeaturesDisplay, TransitionDisplay
from wolfpack.kernels.notice import compiling
from wolfpack.problems import chain
from wolfpack.stores import pool

COSTS = np.array([[0, 1, 5], [2, 0, 0.5], [1, 3, 0]])


@pytest.fixture
def chains():
    return random_chains(np.random.default_rng(5), 8, 3, [1, 2, 3])


@pytest.fixture(scope="module")
def dates():
    return load_dates(n_train=60, n_test=20)


def make(**params):
    return ChainSSVM(**{"alpha": 0.05, "tol": 0.01, "random_state": 0, **params})


@pytest.mark.parametrize("normalize", [True, False])
def test_optimum_with_costs_is_that_of_the_dense_problem(chains, normalize):
    X, y = chains
    problem = chain_ssvm(X, y, 0.1, n_labels=3, normalize=normalize, loss=COSTS)
    result = solve(problem, tol=1e-4, max_epochs=10_000, rng=0)
    dense = dense_chain(X, y, 0.1, 3, normalize, costs=COSTS)
    v = np.vstack(
        [
            result.solution.features.T,
            *(result.solution[k][None] for k in (1, 2, 3)),
            result.solution.transitions,
        ]
    ).ravel()
    assert chain_primal(dense, v) == pytest.approx(-result.lower_bound, abs=1e-5)
    assert result.gap <= 1e-4 * problem.scale
    plain = dense_chain(X, y, 0.1, 3, normalize)
    assert abs(chain_primal(plain, v) - chain_primal(dense, v)) > 0.01  # costs matter


def test_functions_with_costs_are_those_of_the_dense_problem(chains):
    X, y = chains
    problem = chain_ssvm(X, y, 0.1, n_labels=3, loss=COSTS)
    problem.check()
    result = solve(problem, tol=0, max_epochs=3, rng=0, accelerate=False)
    dense = dense_chain(X, y, 0.1, 3, costs=COSTS)
    v = chain_v(result.state.shared, 3)
    assert chain_primal(dense, v) == pytest.approx(-result.lower_bound, abs=1e-5)
    worst = [-c.min() for c in dense.c]
    assert problem.scale == pytest.approx(sum(worst))  # the primal at w = 0


def test_a_matrix_of_ones_is_the_hamming_loss(chains):
    X, y = chains
    how = {"alpha": 0.5, "tol": 1e-4, "max_iter": 100_000}
    ones = make(**how, loss=1 - np.eye(3)).fit(X, y)
    plain = make(**how).fit(X, y)
    assert ones.objective_ == pytest.approx(plain.objective_, abs=2e-4)
    far = np.square(ones.coef_ - plain.coef_).sum()
    assert 0.5 * 0.5 * far <= 2 * (ones.gap_ + plain.gap_)


def test_class_weight_multiplies_rows(chains):
    X, y = chains
    how = {"alpha": 0.5, "tol": 1e-3, "max_iter": 100_000}
    weight = {0: 2.0, 2: 0.5}
    a = make(**how, class_weight=weight, loss=COSTS).fit(X, y)
    b = make(**how, loss=COSTS * [[2.0], [1.0], [0.5]]).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    counts = np.bincount(np.concatenate(y))
    rows = counts.sum() / (3 * counts)[:, None]
    a = make(**how, class_weight="balanced").fit(X, y)
    b = make(**how, loss=(1 - np.eye(3)) * rows).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_costs_change_what_is_missed():
    """A label that is dear to miss is found more often."""
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, 6) for _ in range(60)]
    levels = [np.clip(np.round(one + rng.normal(size=6)), -1, 3) for one in y]
    X = [(level[:, None] >= np.arange(4)).astype(float) for level in levels]
    truth = np.concatenate(y)
    missed = []
    for weight in (None, {2: 10.0}):
        model = make(alpha=1.0, class_weight=weight).fit(X, y)
        found = np.concatenate(model.predict(X))
        missed.append(np.mean(found[truth == 2] != 2))
    assert missed[1] < 0.5 * missed[0]


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (np.ones((2, 2)), r"loss must be numbers of shape \(3, 3\)"),
        ("hamming", "loss must be numbers of shape"),
        (np.ones((3, 3)), "loss must be 0 on its diagonal"),
        (np.zeros((3, 3)), "and more than 0 somewhere else"),
        (np.eye(3) - 1, "loss must lie from 0"),
        (np.full((3, 3), np.nan), "loss must lie from 0"),
    ],
    ids=["shape", "text", "diagonal", "zero", "negative", "nan"],
)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_losses_that_are_refused(chains, loss, class_weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(loss=loss, class_weight=class_weight).fit(*chains)


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ({1: 2.0, 7: 1.0}, r"has a weight for 7, which no position of y has; the labe"),
        ({1: float("nan")}, r"class_weight\[1\] must be a finite number >= 0, but is"),
        ({1: -1}, r"class_weight\[1\] must be a finite number >= 0, but is -1"),
        ({1: "2"}, r"class_weight\[1\] must be a finite number >= 0, but is '2'"),
        ("balancd", r"must be a dict from labels to numbers, 'balanced' or None; give"),
    ],
)
def test_class_weights_that_are_refused(chains, weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(class_weight=weight).fit(*chains)


def test_a_label_that_is_misspelt_is_named(chains):
    X, y = chains
    words = np.array(["B-NP", "I-NP", "O"])
    y = [words[labels].tolist() for labels in y]
    with pytest.raises(ValueError, match=r"'B-PN', .* \(is 'B-NP' meant\?\)"):
        make(class_weight={"B-PN": 2.0}).fit(X, y)
    every = {"B-NP": 1.0, "I-NP": 2.0, "O": 1.0, "B-VP": 2.0}  # as of a larger y
    make(class_weight=every).fit(X, y)


def test_hardest_says_that_it_compiles(chains, monkeypatch):
    X, y = chains
    model, spoke = make().fit(X, y), []
    losses = chain.hinge_losses

    def spy(problem, shared):
        spoke.append(compiling.speaker)
        return losses(problem, shared)

    monkeypatch.setattr(chain, "hinge_losses", spy)
    assert len(model.hardest(X, y, n=3)) == 3
    assert spoke[0] is not None


@pytest.mark.parametrize("costs", [None, COSTS])
def test_hinge_losses_are_those_of_the_objective(chains, costs):
    X, y = chains
    model = make(alpha=0.5, loss=costs).fit(X, y)
    parts = (model.coef_, model.intercept_, model.first_, model.last_)
    square = sum(np.square(part).sum() for part in (*parts, model.transitions_))
    losses = model.hinge_losses(X, y)
    assert 0.25 * square + losses.mean() == pytest.approx(model.objective_, abs=1e-5)
    assert (losses >= -1e-6).all()
    order = model.hardest(X, y, n=3)
    assert losses[order].tolist() == sorted(losses, reverse=True)[:3]
    with pytest.raises(ValueError, match=r"labels that fit never saw, \[9\]"):
        model.hinge_losses(X, [*y[:-1], np.full(len(y[-1]), 9)])
    with pytest.raises(NotFittedError):
        make().hardest(X, y)


def test_hardest_sequences_are_wrong_annotations(dates):
    train, _ = dates
    y = [labels.copy() for labels in train.y]
    rng = np.random.default_rng(0)
    wrong = rng.choice(len(y), 5, replace=False)
    for i in wrong:
        y[i][:4] = 9 - y[i][:4]
    model = make(alpha=0.1).fit(train.X, y)
    assert {*model.hardest(train.X, y, n=5)} == {*wrong}


def test_top_features_of_a_text():
    words = [["the", "dog"], ["a", "cat"], ["the", "cat"], ["a", "dog"]] * 3
    model = make_pipeline(SequenceVectorizer(), make()).fit(words, [["D", "N"]] * 12)
    names = model[0].get_feature_names_out()
    best = model[1].top_features("N", names, n=2)
    assert {name for name, _ in best} == {"dog", "cat"}
    assert best[0][1] >= best[1][1] > 0
    worst = model[1].top_features("N", names, n=2, lowest=True)
    assert {name for name, _ in worst} == {"the", "a"}
    assert model[1].top_features("N", n=1)[0][0] in ("x1", "x3")
    with pytest.raises(ValueError, match="'V' is no label of this model"):
        model[1].top_features("V")
    with pytest.raises(ValueError, match="3 names were given for 4 features"):
        model[1].top_features("N", names[:3])


def test_displays():
    words = [["the", "dog"], ["a", "cat"], ["the", "cat"], ["a", "dog"]] * 3
    model = make_pipeline(SequenceVectorizer(), make()).fit(words, [["D", "N"]] * 12)
    shown = TransitionDisplay.from_estimator(model).plot()
    image = shown.ax_.get_images()[0]
    np.testing.assert_array_equal(image.get_array(), model[-1].transitions_)
    ticks = [text.get_text() for text in shown.ax_.get_xticklabels()]
    assert ticks == ["D", "N"]
    shown.figure_.canvas.draw()
    _, ax = plt.subplots()
    assert TransitionDisplay.from_estimator(model[-1]).plot(ax=ax).ax_ is ax
    bars = TopFeaturesDisplay.from_estimator(model, labels=["N"], n=4).plot()
    names = [text.get_text() for text in bars.axes_[0].get_yticklabels()]
    assert {*names[:2]} == {"dog", "cat"}
    assert {*names[2:]} == {"the", "a"}
    assert [bar.get_width() > 0 for bar in bars.axes_[0].patches] == [1, 1, 0, 0]
    bars.figure_.canvas.draw()
    assert len(TopFeaturesDisplay.from_estimator(model).plot().axes_) == 2
    with pytest.raises(ValueError, match="2 axes are needed"):
        TopFeaturesDisplay.from_estimator(model).plot(ax=ax)
    plt.close("all")


def short_fit(model, X, y):
    with pytest.warns(ConvergenceWarning):
        return model.set_params(tol=0, max_iter=1).fit(X, y)


def test_appended_sequences_are_a_warm_start(dates):
    train, _ = dates
    X, y = train.X, train.y
    model = make(warm_start=True, accelerate=False).fit(X[:50], y[:50])
    old = model.result_.state
    warm = short_fit(model, X, y)
    cold = short_fit(make(accelerate=False), X, y)
    assert warm.gap_ < 0.5 * cold.gap_
    assert warm.dual_objective_ > cold.dual_objective_
    problem = chain_ssvm(X, y, 0.05)
    start = solve(problem, start=old, max_epochs=0, tol=0).state
    counts = pool.pack(start.blocks)["counts"]
    assert (counts[50:] == 1).all()  # new blocks are at their own labels
    np.testing.assert_array_equal(counts[:50], pool.pack(old.blocks)["counts"])
    ends = start.offsets[50]
    np.testing.assert_array_equal(
        pool.pack(start.blocks)["atoms"][-len(problem.start[ends:]) :],
        problem.start[ends:],
    )
    with pytest.raises(ValueError, match="Set warm_start=False to start anew"):
        model.fit([x[1:] for x in X], [labels[1:] for labels in y])


def test_drawing_back_is_a_convex_combination():
    arrays = {
        "counts": np.array([2, 1]),
        "weights": np.array([0.25, 0.75, 1.0]),
        "atoms": np.array([1, 2, 0, 0, 7, 7, 7]),
    }
    start, offsets = np.array([0, 0, 5, 6, 7]), np.array([0, 2, 5])
    problem = SimpleNamespace(start=start, offsets=offsets)
    found = pool.draw_back(arrays, problem, 0.5)
    assert found["counts"].tolist() == [2, 2]
    assert found["weights"].tolist() == [0.125, 0.875, 0.5, 0.5]
    assert found["atoms"].tolist() == [1, 2, 0, 0, 7, 7, 7, 5, 6, 7]
    assert arrays["weights"].tolist() == [0.25, 0.75, 1.0]


def test_a_smaller_alpha_starts_from_the_same_weights(dates):
    train, _ = dates
    plain = make(warm_start=True, alpha=0.1, accelerate=False)
    model = plain.fit(train.X, train.y)
    state, problem = model.result_.state, chain_ssvm(train.X, train.y, 0.02)
    back = state.drawn_back(problem, 0.2)
    start = solve(problem, start=back, max_epochs=0, tol=0, accelerate=False)
    np.testing.assert_allclose(
        start.solution.features, model.coef_, rtol=1e-3, atol=2e-3
    )
    kept = solve(problem, start=state, max_epochs=0, tol=0, accelerate=False)
    assert start.gap < 0.5 * kept.gap


@pytest.mark.parametrize("warm_start", [True, False])
def test_alpha_path(dates, warm_start):
    train, _ = dates
    model = make(warm_start=warm_start)
    path = alpha_path(model, train.X, train.y, [0.02, 0.1])
    assert [one.alpha for one in path] == [0.02, 0.1]
    assert not hasattr(model, "coef_")
    for one in path:
        cold = make(alpha=one.alpha).fit(train.X, train.y)
        assert one.dual_objective_ <= cold.objective_
        assert cold.dual_objective_ <= one.objective_
        assert (one.result_.state is not None) is warm_start
        assert one.warm_start is warm_start
    with pytest.raises(ValueError, match="alphas must be a finite number > 0"):
        alpha_path(model, train.X, train.y, [0.1, -1])


def test_partial_fit_is_refused_with_what_to_do():
    model = make()
    assert not hasattr(model, "partial_fit")  # as scikit-learn asks
    with pytest.raises(AttributeError, match="more sequences after the old ones, set"):
        model.partial_fit  # noqa: B018
