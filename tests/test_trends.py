"""GroupTrendFilter, its path and its pruning: known kinks, brute force, sentences."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import wolfpack
from wolfpack import GroupTrendFilter
from wolfpack.change_points import best_kinks, trend_filter_path
from wolfpack.update.pieces import draw_lines, fit_lines

TOGETHER = "the rows of a signal belong together, in their order"
EXPECTED = {
    "check_methods_sample_order_invariance": TOGETHER,
    "check_methods_subset_invariance": TOGETHER,
    "check_fit1d": "a signal may have one dimension",
    # A row that is repeated takes time: slopes are halved there.
    "check_sample_weight_equivalence_on_dense_data": TOGETHER,
    "check_sample_weight_equivalence_on_sparse_data": TOGETHER,
}
KINKS = [60, 130, 210]


def bent(noise=0.3, d=2):
    rng = np.random.default_rng(0)
    slopes = np.repeat(rng.normal(size=(4, d)), np.diff([0, *KINKS, 300]), axis=0)
    return slopes.cumsum(axis=0) + noise * rng.normal(size=(300, d))


def least_squares(Y, kinks, weights):
    """The nearest joined lines, by a dense basis of hinges."""
    time = np.arange(len(Y), dtype=float)
    hinges = [np.maximum(time - k, 0.0) for k in kinks]
    A = np.column_stack([np.ones_like(time), time, *hinges])
    roots = np.sqrt(weights)[:, None]
    return A @ np.linalg.lstsq(roots * A, roots * Y)[0]


def test_joined_lines_are_those_of_hinges():
    rng = np.random.default_rng(1)
    Y, weights = rng.normal(size=(40, 3)), rng.uniform(0.1, 2.0, 40)
    for kinks in ([], [1], [38], [1, 2, 3], [5, 20, 21, 37]):
        found = fit_lines(Y, np.array(kinks, int), weights)
        np.testing.assert_allclose(found, least_squares(Y, kinks, weights), atol=1e-9)
        again = draw_lines(found, np.array(kinks, int))
        np.testing.assert_allclose(again, found, atol=1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_dropping_kinks_finds_the_best_of_few(is_weighted):
    Y = bent()[::6]
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 2.0, len(Y)) if is_weighted else np.ones(len(Y))
    candidates = [5, 9, 10, 21, 22, 30, 35, 44]
    costs, points = best_kinks(Y, candidates, 3, weights=weights)
    for k in range(4):
        tried = [
            (weights @ np.square(Y - least_squares(Y, chosen, weights)).sum(1), chosen)
            for chosen in itertools.combinations(candidates, k)
        ]
        mine = least_squares(Y, points[k], weights)
        assert costs[k] == pytest.approx(weights @ np.square(Y - mine).sum(1))
        assert costs[k] >= min(tried)[0] * (1 - 1e-9)
    assert costs[3] == pytest.approx(min(tried)[0])  # the true kinks are clear
    assert points[3].tolist() == list(min(tried)[1])


@pytest.mark.parametrize("q", [1, 2, 3, np.inf])
def test_known_kinks_are_found(q):
    Y = bent()
    model = GroupTrendFilter(n_kinks=3, q=q).fit(Y)
    np.testing.assert_allclose(model.change_points_, KINKS, atol=2)
    assert model.n_kinks_ == 3
    assert (np.diff(model.costs_) < 0).all()
    assert set(model.change_points_) <= set(model.candidates_)
    expected = least_squares(Y, model.change_points_, np.ones(len(Y)))
    np.testing.assert_allclose(model.signal_, expected, atol=1e-8)
    assert (
        model.labels_.tolist()
        == np.searchsorted(model.change_points_, np.arange(300), side="right").tolist()
    )


def test_the_lasso_itself_is_straight_between_its_kinks_and_certified():
    Y = bent()
    for share in (0.5, 0.05, 1e-3, 1e-5):
        alpha = share * GroupTrendFilter.alpha_max(Y)
        model = GroupTrendFilter(alpha=alpha).fit(Y)
        assert model.result_.gap_over_primal <= 1e-6
        bends = np.linalg.norm(np.diff(model.signal_, 2, axis=0), axis=1)
        assert (np.delete(bends, model.change_points_ - 1) < 1e-9).all()
        loss = 0.5 * np.square(model.signal_ - Y).sum() + alpha * bends.sum()
        assert model.objective_ == pytest.approx(loss)
        assert model.dual_objective_ <= loss
    assert GroupTrendFilter(alpha=alpha / share).fit(Y).n_kinks_ == 0


@parametrize_with_checks(
    [GroupTrendFilter()], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_fits_and_transforms():
    Y = bent()
    model = GroupTrendFilter(n_kinks=3).fit(Y)
    np.testing.assert_allclose(model.transform(Y), model.signal_)
    np.testing.assert_array_equal(clone(model).fit_predict(Y), model.predict(Y))
    single = GroupTrendFilter(n_kinks=1).fit(np.abs(np.arange(-9.0, 10.0)))
    assert single.change_points_.tolist() == [9]


def test_weights_count():
    Y = bent(noise=0.1)
    Y[100] += 50.0
    weights = np.ones(300)
    weights[100] = 1e-9
    model = GroupTrendFilter(n_kinks=3).fit(Y, sample_weight=weights)
    np.testing.assert_allclose(model.change_points_, KINKS, atol=2)
    with pytest.raises(ValueError, match="in row 100"):
        GroupTrendFilter().fit(Y, sample_weight=np.where(weights < 1, 0.0, 1.0))


def test_a_path_is_certified_and_straight_at_its_top():
    Y, weights = bent(), np.random.default_rng(0).uniform(0.5, 2.0, 300)
    path = trend_filter_path(Y, n_alphas=6, weights=weights)
    assert path.n_change_points[0] == 0
    assert (path.gaps <= 1e-6 * path.objectives).all()
    for k, alpha in enumerate(path.alphas):
        X = path.signal(k)
        bends = np.linalg.norm(np.diff(X, 2, axis=0), axis=1)
        loss = 0.5 * (weights @ np.square(X - Y)).sum() + alpha * bends.sum()
        assert loss == pytest.approx(path.objectives[k], rel=1e-9)
        model = GroupTrendFilter(alpha=alpha).fit(Y, sample_weight=weights)
        assert model.dual_objective_ <= loss * (1 + 1e-9)


def test_bad_options_are_refused():
    Y = bent()
    for options, sentence in (
        ({"n_kinks": 299}, "n_kinks must be None or a whole number from 0 to"),
        ({"n_kinks": 2.5}, "given was 2.5"),
        ({"q": 0.5}, "q must be"),
        ({"alpha": -1.0}, "alpha must be"),
    ):
        with pytest.raises(ValueError, match=sentence):
            GroupTrendFilter(**options).fit(Y)
    with pytest.raises(ValueError, match="needs 3 rows"):
        GroupTrendFilter().fit(Y[:2])
    with pytest.raises(ValueError, match="candidates must be rows"):
        best_kinks(Y, [0], 1)
    with pytest.raises(ValueError, match="at least one number"):
        trend_filter_path(Y, [])
    assert wolfpack.GroupTrendFilter is GroupTrendFilter
