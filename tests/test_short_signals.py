"""The compiled loops of a choice, against their formulas in NumPy; alpha of a fit."""

import numpy as np
import pytest
from scipy.signal import lfilter

from wolfpack import GroupFusedLasso, make_piecewise
from wolfpack.change_points.evidence import (
    CYCLES,
    DEGREES,
    SMOOTHERS,
    Evidence,
    beside_steps,
    innovation_loss,
    straight_fit,
)
from wolfpack.change_points.exact import Rows
from wolfpack.change_points.noise import find_period, spread

KINDS = ["noise", "steps", "walk", "wave", "line"]


def make(kind, n, d, seed):
    rng = np.random.default_rng([seed, n, d])
    Y, t = rng.standard_normal((n, d)), np.arange(n)[:, np.newaxis]
    if kind == "steps":
        Y[n // 3 :] += 5
    elif kind == "walk":
        Y = Y.cumsum(axis=0)
    elif kind == "wave":
        Y += 4 * np.sin(2 * np.pi * t * 2.5 / n)
    elif kind == "line":
        Y += 0.1 * t
    return Y


def least_squares(Y, X):
    return Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]


def loss(rest, n_fitted, order):
    """Return the criterion of autoregressions on the rows from `order` on."""
    m, found = len(rest) - order, []
    for p in range(order + 1):
        X = np.column_stack([rest[order - i : len(rest) - i] for i in range(1, p + 1)]
                            or [np.zeros(m)])  # fmt: skip
        left = np.square(least_squares(rest[order:], X)).sum()
        found.append(np.log(left / m) + 2 * p / max(m - p - n_fitted, 1))
    return min(found)


def smooth_losses(y, order):
    """Return the loss of each model without a change, as `evidence` describes them."""
    n, t = len(y), np.linspace(-1, 1, len(y))
    found = []
    for g in DEGREES[max(n // 6, 2) > DEGREES]:
        rest = least_squares(y, np.polynomial.legendre.legvander(t, g))
        found.append(loss(rest, g + 1, order) + 2 * g / n)
    waves = []
    for cycles in CYCLES:
        angle = cycles * np.linspace(0, 2 * np.pi, n)
        X = np.column_stack([np.ones(n), np.cos(angle), np.sin(angle)])
        waves.append(least_squares(y, X))
    rest = min(waves, key=lambda one: np.square(one).sum())
    found.append(loss(rest, 4, order) + 6 / n)
    for share in SMOOTHERS[SMOOTHERS * n > 4]:
        first = y[: round(1 / share)].mean()
        level = lfilter([share], [1, share - 1], y, zi=[(1 - share) * first])[0]
        rest = y - np.append(first, level[:-1])
        found.append(loss(rest, 2, 1) + 2 / n)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(26, 1), (60, 3), (301, 1)])
def test_smooth_models_are_those_of_least_squares(kind, n, d):
    Y, order = make(kind, n, d, 0), 3 if n >= 30 else 1
    expected = [smooth_losses(y, order) for y in Y.T]
    found = Evidence(Y)
    assert found.smooth == pytest.approx(np.min(expected, axis=1), abs=1e-6)
    assert found.n_drifting == np.count_nonzero(np.argmin(expected, axis=1))
    rest = Y - Y.mean(axis=0)
    only = [loss(y, 1, order) for y in rest.T]
    assert innovation_loss(rest, 1, order) == pytest.approx(only, abs=1e-6)
    assert Evidence(Y, "ar").smooth == pytest.approx(only, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_and_their_costs(weighted):
    Y = make("steps", 50, 2, 1) + 1e3
    weights = np.random.default_rng(0).uniform(0.5, 2, 50) if weighted else np.ones(50)
    points, root = np.array([1, 20, 48]), np.sqrt(weights)[:, np.newaxis]
    lines = straight_fit(Y, points, weights if weighted else None)
    means = Y - beside_steps(Y, points)
    for first, last in zip([0, *points], [*points, 50], strict=True):
        part = slice(first, last)
        X = np.vander(np.arange(last - first), min(2, last - first))
        rest = least_squares(root[part] * Y[part], root[part] * X)
        assert (Y - lines)[part] * root[part] == pytest.approx(rest, abs=1e-8)
        assert means[part] == pytest.approx(np.tile(Y[part].mean(0), (len(X), 1)))
    rows = Rows(Y, weights if weighted else None)
    rest = weights @ np.square(Y - lines).sum(axis=1)
    assert rows.cost(points, True) == pytest.approx(rest)


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize(("n", "d", "least"), [(9, 1, 2), (70, 1, 3), (110, 2, 7)])
def test_the_least_costs_are_those_of_the_recursion(n, d, least, straight):
    """Also beyond one vector of starts, and where few numbers are possible."""
    least += straight
    Y = make("steps", n, d, 2)
    rows = Rows(Y)
    cost = np.full((n + 1, n + 1), np.inf)
    for j in range(least, n + 1):
        for i in range(j - least + 1):
            part = Rows(Y[i:j])
            cost[i, j] = part.cost(np.zeros(0, int), straight)
    best, costs = cost[0], [cost[0, n]]
    for _ in range(min(20, n // least - 1)):
        best = (best[:, np.newaxis] + cost).min(axis=0)
        costs.append(best[n])
    found, points = rows.numbers(20, least, straight)
    assert found == pytest.approx(np.array(costs), abs=1e-8)
    for total, one in zip(found, points, strict=True):
        assert rows.cost(one, straight) == pytest.approx(total, abs=1e-8)
        assert min(np.diff([0, *one, n])) >= least


def slow_period(Y):
    """Return the period that explains most, of those at which rows are alike."""
    n, d = Y.shape
    step = np.diff(Y, axis=0)
    middle, limit = np.median(step, axis=0), 4 * spread(step)
    step = np.clip(step, middle - limit, middle + limit)
    step = step - step.mean(axis=0)
    step /= np.sqrt(np.square(step).sum(axis=0))
    m, best, found = len(step), 0.0, 0
    for period in range(3, n // 4 + 1):
        alike = (step[period:] * step[:-period]).sum(axis=0).mean()
        if alike * m / (m - period) <= 0.1 / d**0.25:
            continue
        phases = [step[k::period] for k in range(period)]
        explained = sum(len(one) * one.mean(axis=0) ** 2 for one in phases)
        share = (1 - (1 - explained) * m / (m - period)).mean()
        least = 6 * np.sqrt(2 * period / d) / m + 0.15 / d**0.25
        if share > max(best + 0.05, least):
            best, found = share, period
    return found


@pytest.mark.parametrize("d", [1, 3])
def test_the_period_is_that_of_the_differences(d):
    seen = set()
    for seed in range(20):
        n = 60 + 11 * seed
        Y = make("noise", n, d, seed)
        season = np.sin(2 * np.pi * np.arange(n) / (5 + seed % 6))[:, np.newaxis]
        Y += seed % 4 * season
        seen.add(find_period(Y))
        assert find_period(Y) == slow_period(Y)
    assert len(seen) > 4


def test_deviations_by_medians():
    for n in (2, 3, 10, 11):
        x = make("noise", n, 3, 0)
        x[:, 1] = 4.0
        middle = np.abs(x - np.median(x, axis=0))
        assert spread(x)[[0, 2]] == pytest.approx(
            np.median(middle, axis=0)[[0, 2]] / 0.6745
        )
        assert spread(x)[1] == 0
    assert spread(np.array([[0.0], [0], [0], [0], [5]]))[0] == 2.0


@pytest.mark.parametrize("number", [3, "auto"])
def test_a_choice_among_all_rows_needs_no_search_for_alpha(number):
    Y, _, jumps = make_piecewise(n=200, d=1, n_segments=4, noise=0.1, rng=0)
    model = GroupFusedLasso(n_change_points=number).fit(Y)
    assert model.change_points_.tolist() == jumps.tolist()
    assert model.alpha_ == pytest.approx(0.1 * model.alpha_max_)
    lasso = GroupFusedLasso(alpha=model.alpha_).fit(Y)
    assert model.candidates_.tolist() == lasso.change_points_.tolist()
    assert model.gap_ == lasso.gap_
