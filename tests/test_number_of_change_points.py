"""Exact segmentation, the choice of the number, how sure it is, and what is said."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from wolfpack import GroupFusedLasso
from wolfpack.change_points import (
    ElbowWarning,
    NumberDisplay,
    choose_change_points,
    explain_points,
)
from wolfpack.change_points.elbow import elbow_path, find_elbow, number_path
from wolfpack.change_points.evidence import joined_fit, price, straight_fit
from wolfpack.change_points.exact import Rows, penalised
from wolfpack.change_points.noise import correlation, estimate_noise, find_period


def fitted(Y, points, weights, straight):
    """Return the fit of each segment, by NumPy's least squares."""
    parts = []
    for rows in np.split(np.arange(len(Y)), points):
        X = np.ones((len(rows), 1)) if not straight else np.vander(rows, 2)
        root = np.sqrt(weights[rows])[:, np.newaxis]
        parts.append(X @ np.linalg.lstsq(root * X, root * Y[rows], rcond=None)[0])
    return np.concatenate(parts)


def squares(Y, points, weights, straight):
    return weights @ np.square(Y - fitted(Y, points, weights, straight)).sum(axis=1)


def segmentations(n, least):
    for k in range(n):
        for points in itertools.combinations(range(1, n), k):
            if min(np.diff([0, *points, n])) >= least:
                yield list(points)


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_segmentation_is_better(d, straight, weighted):
    for seed in range(6):
        rng = np.random.default_rng([seed, d])
        n, least = int(rng.integers(6, 11)), int(rng.integers(1 + straight, 4))
        Y = rng.standard_normal((n, d)) + 1e5  # an offset costs no digits
        weights = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
        cost = {
            tuple(p): squares(Y, p, weights, straight) for p in segmentations(n, least)
        }
        rows = Rows(Y, weights if weighted else None)
        for fee in (0.05, 0.5, 2.0):
            points = rows.penalised(fee, least, straight)
            best = min(total + fee * len(p) for p, total in cost.items())
            found = cost[tuple(points.tolist())] + fee * len(points)
            assert found == pytest.approx(best, abs=1e-5)
        costs, chosen = rows.numbers(4, least, straight)
        for total, points in zip(costs, chosen, strict=True):
            best = min(c for p, c in cost.items() if len(p) == len(points))
            assert total == pytest.approx(best, abs=1e-5)
            assert cost[tuple(points.tolist())] == pytest.approx(best, abs=1e-5)
            assert rows.cost(points, straight) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("least", [1, 2, 7])
def test_both_ways_of_pruning_agree(least):
    """Functional pruning of one column, and PELT with a column of zeros beside it."""
    rng = np.random.default_rng(least)
    for scale in (0.3, 1.0, 3.0):
        y = np.repeat(rng.standard_normal(30), 10) * scale + rng.standard_normal(300)
        one = Rows(y).penalised(5.0, least)
        two = Rows(np.column_stack([y, np.zeros(300)])).penalised(5.0, least)
        assert one.tolist() == two.tolist()
        assert min(np.diff([0, *one, 300])) >= least


def test_work_is_bounded_and_the_candidates_are_told():
    y = np.random.default_rng(0).standard_normal((2000, 2))
    y[700:] += 3
    assert Rows(y).penalised(30.0, work=1000) is None
    points, exact = penalised(y, 30.0, 1, candidates=np.arange(100, 2000, 100))
    assert points.tolist() == [700]
    assert not exact
    assert penalised(y, 30.0, 1)[1]


def test_costs_of_own_gains():
    rng = np.random.default_rng(0)
    Y, ones = rng.standard_normal((40, 2)), np.ones(40)
    for straight in (False, True):
        gains = Rows(Y).own_gains(np.array([12, 25]), straight)
        both = squares(Y, [12, 25], ones, straight)
        without = [squares(Y, [25], ones, straight), squares(Y, [12], ones, straight)]
        assert gains.sum(axis=1) == pytest.approx(np.array(without) - both)
    np.testing.assert_allclose(straight_fit(Y, [12]), fitted(Y, [12], ones, True))


def test_a_joined_line_is_continuous():
    t = np.arange(30.0)
    bent = np.where(t < 12, t, 12 - 2 * (t - 12))[:, np.newaxis]
    np.testing.assert_allclose(joined_fit(bent, [12.5]), bent, atol=1e-9)


def test_the_elbow_by_hand():
    assert find_elbow(np.array([10.0, 1, 0.9, 0.8, 0.7])) == 1
    assert find_elbow(np.array([9.0, 5, 1, 0.9, 0.8, 0.7, 0.6])) == 2
    assert find_elbow(np.array([4.0, 3, 2, 1, 0])) == 0  # it falls steadily
    assert find_elbow(np.zeros(6)) == 0


def dependent(rng, n, d, rho):
    return lfilter([1], [1, -rho], rng.standard_normal((n + 100, d)), axis=0)[100:]


def season(rng, n, d):
    wave = 3 * np.sin(2 * np.pi * np.arange(n) / rng.integers(4, 25))
    return rng.standard_normal((n, d)) + wave[:, np.newaxis]


KINDS = {
    "iid": lambda rng, n, d: rng.standard_normal((n, d)),
    "t3": lambda rng, n, d: rng.standard_t(3, (n, d)),
    "ar": lambda rng, n, d: dependent(rng, n, d, 0.8),
    "slope": lambda rng, n, d: dependent(rng, n, d, 0) + np.linspace(0, 9, n)[:, None],
    "walk": lambda rng, n, d: rng.standard_normal((n, d)).cumsum(axis=0),
    "season": season,
}


@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_rare(kind):
    """At most what 5 % give in all but one of 1000 tests."""
    hits, count = 0, 0
    for n, d, times in ((8, 1, 40), (40, 1, 40), (150, 1, 20), (60, 8, 10)):
        for seed in range(times):
            Y = KINDS[kind](np.random.default_rng([seed, n, 1234]), n, d)
            hits += choose_change_points(Y).significant.any()
            count += 1
    assert hits <= binom.ppf(0.999, count, 0.05)


@pytest.mark.parametrize("kind", ["iid", "t3", "slope", "season"])
def test_large_steps_are_found(kind):
    found = []
    for seed in range(10):
        rng = np.random.default_rng([seed, 5])
        Y = KINDS[kind](rng, 200, 1)
        Y[70:] += 6
        Y[130:] -= 6
        choice = choose_change_points(Y)
        near = [np.abs(choice.points - t).min(initial=99) <= 2 for t in (70, 130)]
        found.append(all(near))
    assert sum(found) >= 7


@pytest.mark.parametrize("n", [4, 5, 6, 8, 10, 11, 16])
def test_few_rows_have_a_test_of_their_own(n):
    Y = np.append(np.zeros(n // 2), np.full(n - n // 2, 100.0))
    Y += np.random.default_rng(n).standard_normal(n)
    choice = choose_change_points(Y)
    assert choice.points.tolist() == [n // 2]
    assert choice.significant.all()
    assert choice.model == "steps"


def test_what_cannot_be_known():
    assert choose_change_points(np.zeros((9, 2))).model == "constant"
    assert not choose_change_points([1.0, 2.0]).points.size
    assert not choose_change_points([1.0, 2.0, 90.0]).points.size


def test_a_search_goes_on_until_the_elbow_is_inside():
    """301 segments have 300 points, and nearly all are large enough to be seen."""
    rng = np.random.default_rng(0)
    levels = rng.standard_normal(301) * 5
    Y = np.repeat(levels, 10) + 0.1 * rng.standard_normal(3010)
    choice = choose_change_points(Y)
    clear = 10 * (np.flatnonzero(np.abs(np.diff(levels)) > 0.6) + 1)
    assert set(clear) <= set(choice.points)
    assert len(choice.points) <= 300
    assert choice.significant.mean() > 0.95
    steady = np.repeat(np.arange(30) % 2.0, 9)[:, np.newaxis]
    assert elbow_path(steady, None, 2, False).chosen == 0
    assert elbow_path(steady, None, 2, False, patient=True).chosen == 29


def test_models_are_told_apart():
    rng = np.random.default_rng(3)
    t = np.arange(240.0)
    bent = np.interp(t, [0, 80, 150, 239], [0, 40, -10, 60])
    choice = choose_change_points(bent + rng.standard_normal(240))
    assert choice.model.startswith("straight segments")
    assert len(choice.points) == 2
    assert np.abs(choice.points - [80, 150]).max() <= 3
    flat = choose_change_points(0.1 * t + rng.standard_normal(240))
    assert (flat.model, flat.points.size) == ("slope", 0)
    assert "keeps to one slope" in flat.reason
    wave = 4 * np.sin(2 * np.pi * t / 12) + rng.standard_normal(240)
    choice = choose_change_points(wave + 5 * (t >= 100))
    assert (choice.period, choice.points.tolist()) == (12, [100])
    assert "season of 12 rows" in choice.reason


def test_independent_noise_is_an_assumption_that_finds_more():
    """Small steps in independent noise, and what the same assumption costs in AR(1)."""
    hits = {"auto": 0, "iid": 0, "ar": 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Y = rng.standard_normal(100)
        Y[50:] += 1.5
        for noise in hits:
            hits[noise] += choose_change_points(Y, noise=noise).significant.any()
    assert hits["iid"] >= 18
    assert hits["auto"] <= hits["iid"]
    rng = np.random.default_rng(0)
    walks = [dependent(rng, 100, 1, 0.9) for _ in range(10)]
    assert sum(choose_change_points(Y, noise="iid").points.size > 0 for Y in walks) >= 8
    assert sum(choose_change_points(Y, noise="ar").points.size > 0 for Y in walks) <= 3


def test_noise_is_estimated_beside_jumps():
    rng = np.random.default_rng(0)
    Y = dependent(rng, 4000, 2, 0.6)
    Y[1000:] += 8
    Y[2500:, 0] -= 20
    assert correlation(Y) == pytest.approx([0.6, 0.6], abs=0.1)
    assert find_period(Y) == 0
    assert estimate_noise(Y, dependent=False).rho.tolist() == [0, 0]
    z = estimate_noise(Y).whitened
    assert np.diff(z, axis=0).std() == pytest.approx(np.sqrt(2), rel=0.15)


def test_a_column_that_drifts_does_not_hide_the_steps_of_another():
    rng = np.random.default_rng(1)
    t = np.arange(200.0)
    steps = np.repeat([0.0, 6, 1, 7], 50) + rng.standard_normal(200)
    drift = t + 0.01 * rng.standard_normal(200).cumsum()
    choice = choose_change_points(np.column_stack([steps, drift]))
    assert choice.points.tolist() == [50, 100, 150]
    assert "1 column that drifts was left out" in choice.reason


def test_weights_and_repeated_calls():
    rng = np.random.default_rng(2)
    Y = np.repeat([0.0, 4, 0], 60)[:, None] + rng.standard_normal((180, 1))
    plain = choose_change_points(Y)
    weighted = choose_change_points(Y, weights=np.full(180, 3.0))
    assert plain.points.tolist() == weighted.points.tolist() == [60, 120]
    assert choose_change_points(Y * 1e6 - 3).points.tolist() == [60, 120]


# How sure.


def test_p_values_are_calibrated():
    """The smallest of two points in noise is below 0.1 in about a tenth of signals."""
    for rho in (0.0, 0.6):
        small = 0
        for seed in range(30):
            Y = dependent(np.random.default_rng([seed, 9]), 50, 1, rho)
            points = number_path(Y, 2, least=2).points[2]
            support = explain_points(Y, points, n_draws=19, random_state=seed)
            small += support.p_values.min() <= 0.1
        assert small <= binom.ppf(0.999, 30, 0.1)


def test_support_says_which_columns_change():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((150, 4))
    Y[50:, 1] += 5
    Y[100:, [0, 3]] -= 5
    model = GroupFusedLasso(n_change_points="auto").fit(Y)
    support = model.explain(Y, n_draws=49)
    assert support.points.tolist() == [50, 100]
    assert support.columns.tolist() == [[False, True, False, False],
                                        [True, False, False, True]]  # fmt: skip
    assert (support.p_values == 1 / 50).all()
    assert len(str(support).splitlines()) == 3
    with pytest.raises(ValueError, match="n_draws must be a whole number from 19"):
        explain_points(Y, [50], n_draws=3)
    with pytest.raises(ValueError, match=r"out of 1, ..., 149"):
        explain_points(Y, [150])
    assert explain_points(Y, []).p_values.size == 0


# The estimator.


@pytest.fixture(scope="module")
def stepped():
    rng = np.random.default_rng(4)
    return np.repeat([0.0, 5, -2, 4], 40) + 0.5 * rng.standard_normal(160)


def test_a_penalty_is_the_price_of_a_point(stepped):
    for fee in (0.5, 5.0, 500.0):
        model = GroupFusedLasso(penalty=fee).fit(stepped)
        cost = np.square(stepped[:, np.newaxis] - model.signal_).sum()
        costs, _ = Rows(stepped).numbers(80)
        best = (costs + fee * np.arange(81)).min()
        assert cost + fee * model.n_change_points_ == pytest.approx(best)
        assert model.costs_[model.change_points_path_.chosen] == pytest.approx(cost)
    assert "penalty was given" in model.reason_
    assert "all rows" in model.reason_


def test_a_number_is_exact_whatever_the_lasso_finds(stepped):
    model = GroupFusedLasso(n_change_points=6, min_size=9).fit(stepped)
    costs, points = Rows(stepped).numbers(6, 9)
    assert model.change_points_.tolist() == points[6].tolist()
    assert model.change_points_path_.costs == pytest.approx(costs)
    assert min(np.diff([0, *model.change_points_, 160])) >= 9
    assert not model.significant_.any()


def test_more_than_a_thousand_points():
    Y = np.random.default_rng(0).standard_normal(6000)
    model = GroupFusedLasso(n_change_points=1500).fit(Y)
    assert model.n_change_points_ == 1500
    assert "the candidates" in model.reason_


def test_auto_says_what_it_took(stepped):
    model = GroupFusedLasso(n_change_points="auto").fit(stepped)
    assert model.change_points_.tolist() == [40, 80, 120]
    assert model.significant_.all()
    assert model.model_ == "steps"
    assert model.reason_.startswith("Constant segments explain the signal better")
    path = model.change_points_path_
    assert path.numbers[path.chosen] == 3
    assert path.points[path.chosen].tolist() == [40, 80, 120]
    assert (np.diff(path.costs) <= 1e-9).all()
    with pytest.raises(AttributeError, match="model_ after `fit` with n_change_points"):
        _ = GroupFusedLasso().fit(stepped).model_


def test_straight_segments_are_the_fitted_signal():
    t = np.arange(200.0)
    rng = np.random.default_rng(0)
    bent = np.interp(t, [0, 100, 199], [0, 50, 0]) + rng.standard_normal(200)
    model = GroupFusedLasso(n_change_points="auto").fit(bent)
    assert model.model_.startswith("straight segments")
    assert np.square(model.signal_[:, 0] - bent).mean() < 1.5
    np.testing.assert_array_equal(model.transform(bent), model.signal_)


def test_rows_without_weight_are_left_out(stepped):
    weights = np.ones(160)
    weights[::7] = 0
    model = GroupFusedLasso(n_change_points="auto")
    model.fit(stepped, sample_weight=weights)
    assert np.abs(model.change_points_ - [40, 80, 120]).max() <= 1
    path = model.change_points_path_
    assert path.points[path.chosen].tolist() == model.change_points_.tolist()


def test_no_elbow_is_told():
    """A cost that falls steadily: what people mark there cannot be seen."""
    t = np.arange(300.0)
    Y = 1e3 * np.sqrt(t)[:, np.newaxis] + np.random.default_rng(0).normal(size=(300, 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GroupFusedLasso(n_change_points="auto").fit(Y)
    told = [one for one in caught if issubclass(one.category, ElbowWarning)]
    assert bool(told) == (model.n_change_points_ == 0)
    assert not model.significant_.any()


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"penalty": 0}, "penalty must be a finite number > 0"),
        ({"penalty": 1.0, "n_change_points": 2}, "give one of them"),
        ({"noise": "white"}, "noise must be 'auto', 'iid' or 'ar'"),
        ({"min_size": 0}, "min_size must be a whole number of rows from 1"),
        ({"min_size": 60, "n_change_points": 3}, "4 segments of min_size=60 rows need"),
    ],
)
def test_wishes_that_cannot_be(stepped, params, sentence):
    with pytest.raises(ValueError, match=sentence):
        GroupFusedLasso(**params).fit(stepped)


def test_habits_of_ruptures_end_in_a_sentence(stepped):
    model = GroupFusedLasso(n_change_points=3).fit(stepped)
    with pytest.raises(TypeError, match=r"no pen: write GroupFusedLasso\(penalty="):
        model.predict(pen=3)
    with pytest.raises(TypeError, match=r"no n_bkps: write .*n_change_points="):
        model.predict(n_bkps=3)
    with pytest.raises(TypeError, match="predict takes X only, and no other"):
        model.predict(stepped, other=3)


def test_a_picture_of_the_numbers(stepped):
    import matplotlib.pyplot as plt

    model = GroupFusedLasso(n_change_points="auto").fit(stepped)
    display = NumberDisplay.from_estimator(model)
    line, chosen = display.ax_.lines
    assert line.get_ydata() == pytest.approx(model.costs_)
    assert (chosen.get_xdata()[0], display.ax_.get_title()) == (3, "3 change points")
    own = plt.figure().add_subplot()
    assert model.change_points_path_.plot(ax=own) is own
    plt.close("all")


def test_the_price_grows_with_rows_and_columns():
    assert price(100, 1) < price(1000, 1) < price(1000, 10)
