"""Distributions of delay and records of workers: what they draw, what they refuse."""

import math
import pickle

import numpy as np
import pytest

import wolfpack
from wolfpack import Delayed, Threads
from wolfpack.advice import costs
from wolfpack.delays import (
    Workers,
    as_delays,
    constant,
    empirical,
    geometric,
    pareto,
    poisson,
)

MANY = 200_000


def draw(delays, size=MANY, seed=0):
    return delays.draw(np.random.default_rng(seed), size)


@pytest.mark.parametrize(
    ("delays", "spread"),
    [
        (poisson(0), 0.0),
        (poisson(0.3), math.sqrt(0.3)),
        (poisson(20), math.sqrt(20)),
        (geometric(0), 0.0),
        (geometric(5), math.sqrt(5 * 6)),
        (constant(7), 0.0),
        (empirical([1, 0, 3]), math.sqrt(0.75)),
    ],
    ids=repr,
)
def test_draws_are_whole_numbers_of_the_mean_and_spread_they_name(delays, spread):
    drawn = draw(delays)
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert drawn.max() <= delays.maximum
    assert abs(drawn.mean() - delays.mean) <= 5 * spread / math.sqrt(MANY)
    assert drawn.std() == pytest.approx(spread, rel=0.02)


@pytest.mark.parametrize("delays", [poisson(20), pareto(20), geometric(20)], ids=repr)
def test_the_same_seed_draws_the_same_at_any_size(delays):
    one = np.random.default_rng(3)
    parts = np.concatenate([delays.draw(one, size) for size in (1, 99, 900)])
    assert np.array_equal(parts, draw(delays, 1000, seed=3))
    assert not np.array_equal(parts, draw(delays, 1000, seed=4))


@pytest.mark.parametrize("mean", [1, 5, 20])
def test_pareto_has_the_tail_of_the_paper(mean):
    """P(delay > x) = (x_m / x)^2 with x_m = mean / 2, up to rounding."""
    drawn = draw(pareto(mean))
    least = mean / 2
    assert drawn.min() == np.rint(np.nextafter(least, np.inf))
    for x in (mean, 4 * mean, 20 * mean):
        share = (least / (x + 0.5)) ** 2
        sigma = math.sqrt(share / MANY)
        assert abs((drawn > x).mean() - share) < 5 * sigma
    # Half of the sum of squares is in a handful of draws: no variance.
    squares = np.sort(np.square(drawn - drawn.mean()))
    assert squares[-MANY // 1000 :].sum() > 0.4 * squares.sum()


@pytest.mark.parametrize("mean", [1, 2, 3, 5, 20])
def test_rounding_moves_the_mean_of_pareto_as_documented(mean):
    """E = sum over j >= 1 of P(x >= j - 1/2), for shape 3 whose mean settles."""
    delays, j = pareto(mean, shape=3.0), np.arange(1, 10**6)
    least = mean * 2 / 3
    expected = np.minimum(1.0, (least / (j - 0.5)) ** 3).sum()
    assert draw(delays).mean() == pytest.approx(expected, rel=0.01)
    moved = np.minimum(1.0, (mean / 2 / (j - 0.5)) ** 2).sum() - mean
    assert moved == pytest.approx(0.234, abs=1e-3) if mean == 1 else abs(moved) < 0.11


def test_shape_is_what_scipy_calls_it():
    drawn = draw(pareto(300, shape=1.5))
    share = (100 / 400.5) ** 1.5
    assert (drawn > 400).mean() == pytest.approx(share, rel=0.05)


def test_extreme_tails_are_still_integers():
    drawn = draw(pareto(1e9, shape=1.01))
    assert drawn.min() >= 0
    assert drawn.max() <= 2**62


def test_the_histogram_of_a_real_run_is_drawn_again():
    Y, _, _ = wolfpack.make_piecewise(200, 3)
    problem = wolfpack.group_fused_lasso(Y, 0.5)
    engine = Threads(2, mode="server")
    seen = wolfpack.solve(problem, engine=engine, tol=0, max_epochs=200, rng=0).delay
    assert seen is not None
    delays = empirical(seen)
    assert delays == as_delays(seen) == as_delays(seen.histogram)
    assert delays.maximum == len(seen.histogram) - 1
    if seen.maximum < 255:
        assert delays.mean == pytest.approx(seen.mean)
    shares = seen.histogram / seen.histogram.sum()
    drawn = np.bincount(draw(delays), minlength=len(shares)) / MANY
    assert np.abs(drawn - shares).max() < 5 * math.sqrt(0.25 / MANY)
    again = wolfpack.solve(problem, engine=Delayed(seen), tol=1e-3, max_epochs=500)
    assert again.converged


def test_a_histogram_may_be_of_shares_and_may_end_in_zeros():
    assert np.bincount(draw(empirical([0.25, 0.0, 0.75, 0, 0]))).size == 3
    assert empirical([1, 3, 0]) == empirical((1, 3))


def test_numbers_and_lists_are_delays():
    assert as_delays(4) == as_delays(4.0) == as_delays(np.int64(4)) == constant(4)
    assert as_delays([0, 1]).mean == 1.0
    assert as_delays(poisson(2)) == poisson(2)


def test_delays_and_workers_are_values():
    one, two = pareto(20), pareto(20)
    assert one == two != pareto(21)
    assert hash(one) == hash(two)
    assert Delayed(one) == Delayed(two) != Delayed(poisson(20))
    fast, slow = Workers(2, speed=[1, 0.5]), Workers(2, speed=np.array([1, 0.5]))
    assert fast == slow
    assert hash(Delayed(workers=fast)) == hash(Delayed(workers=slow))
    for engine in (Delayed(one), Delayed([1, 2]), Delayed(workers=fast)):
        assert pickle.loads(pickle.dumps(engine)) == engine
    assert repr(Delayed(3)) == "Delayed(delay=constant(delay=3), workers=None)"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: poisson(-1), "mean must be a number >= 0, and.*given was -1"),
        (lambda: poisson(np.nan), "mean must be a number >= 0.*given was nan"),
        (lambda: poisson(1e19), r"mean must be .* at most 2\^53; given was 1e\+19"),
        (lambda: poisson("5"), "mean must be a number >= 0.*given was '5'"),
        (lambda: poisson(True), "mean must be a number >= 0.*given was True"),
        (lambda: pareto(0), "mean must be a number > 0.*given was 0"),
        (lambda: pareto(-3), "mean must be a number > 0.*given was -3"),
        (lambda: pareto(3, shape=1), "shape must be a number > 1.*given was 1"),
        (lambda: pareto(3, shape=np.inf), "shape must be a number > 1.*given was inf"),
        (lambda: geometric(-0.1), "mean must be a number >= 0.*given was -0.1"),
        (lambda: constant(-2), "delay must be a number >= 0.*given was -2"),
        (lambda: constant(1.5), "constant delay must be a whole number, not 1.5"),
        (lambda: constant(10**30), r"delay must be .* at most 2\^53"),
        (lambda: empirical([]), "histogram of delays must be a list of counts"),
        (lambda: empirical([0, 0]), r"counts >= 0, not all 0; given was \[0, 0\]"),
        (lambda: empirical([1, -1]), "histogram of delays must be a list of counts"),
        (lambda: empirical([1, np.nan]), "histogram of delays must be a list of"),
        (lambda: empirical([1, np.inf]), "histogram of delays must be a list of"),
        (lambda: empirical([[1, 2]]), "histogram of delays must be a list of counts"),
        (lambda: empirical([[1], [1, 2]]), "histogram of delays must be a list of"),
        (lambda: empirical("abc"), "histogram of delays must be .*'abc'"),
        (lambda: empirical(3), "histogram of delays must be .* given was 3"),
        (lambda: Delayed(-1), "delay must be a number >= 0.*given was -1"),
        (lambda: Delayed("gaussian"), "delay must be one of poisson.*'gaussian'"),
        (lambda: Delayed({1: 2}), "delay must be one of poisson.*{1: 2}"),
        (lambda: Delayed(True), "delay must be one of poisson.*True"),
        (lambda: Delayed([[1], [2, 3]]), "histogram of delays must be a list"),
        (lambda: Delayed(), "needs either a delay.*or workers.*not both"),
        (lambda: Delayed(1, Workers(1)), "needs either a delay.*and not both"),
        (lambda: Delayed(workers=4), r"workers must be a .*Workers\(\.\.\.\), not 4"),
    ],
)
def test_delays_that_make_no_sense(make, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        make()
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"n_workers": 0}, "n_workers must be a whole number >= 1, not 0"),
        ({"n_workers": 2.0}, "n_workers must be a whole number >= 1, not 2.0"),
        ({"n_workers": None}, "n_workers must be a whole number >= 1, not None"),
        ({"queue": 0}, "queue must be a whole number >= 1, not 0"),
        ({"queue": True}, "queue must be a whole number >= 1, not True"),
        ({"message_seconds": -1}, "message_seconds must be a number >= 0.*-1"),
        ({"read_seconds": np.nan}, "read_seconds must be a number >= 0.*nan"),
        ({"take_seconds": "1"}, "take_seconds must be a number >= 0.*'1'"),
        ({"step_seconds": np.inf}, "step_seconds must be .* at most 2.53.*inf"),
        ({"oracle_seconds": 0}, "oracle_seconds must be a positive number.*given was"),
        ({"oracle_seconds": (2, 1)}, r"0 < least <= most; given was \(2, 1\)"),
        ({"oracle_seconds": (1, 2, 3)}, r"one number or two, not \(1, 2, 3\)"),
        ({"oracle_seconds": "fast"}, "oracle_seconds must be a number.*'fast'"),
        ({"speed": 0.0}, "speed must be positive and finite, not 0.0"),
        ({"speed": "fast"}, "speed must be a number or a list of numbers, not 'fast'"),
        ({"speed": [1, 1, 1]}, r"speed must be one number, or 2 of them.*\(3,\)"),
        ({"speed": [[1, 1]]}, r"speed must be one number, or 2 of them.*\(1, 2\)"),
        ({"return_probability": 0}, r"return_probability must lie in \(0, 1\], not 0"),
        ({"return_probability": [1, 2]}, r"return_probability must lie in .*\[1, 2\]"),
        ({"joins": -1}, "joins must be >= 0 and finite, and before fails.*-1"),
        ({"joins": np.inf}, "joins must be >= 0 and finite"),
        ({"joins": 2, "fails": [3, 2]}, r"before fails; given were 2 and \[3, 2\]"),
        ({"fails": np.nan}, "before fails; given were 0.0 and nan"),
    ],
)
def test_workers_that_make_no_sense(given, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        Workers(**{"n_workers": 2, **given})
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"n_workers": 0}, "n_workers must be a whole number >= 1, not 0"),
        ({"oracle_repeats": 3}, "oracle_repeats must be two whole numbers.*not 3"),
        ({"oracle_repeats": (3, 1)}, r"oracle_repeats must be two .*not \(3, 1\)"),
        ({"oracle_repeats": (0, 1)}, r"oracle_repeats must be two .*not \(0, 1\)"),
        ({"batch_size": 0}, "batch_size must be an integer from 1 to .* 29"),
        ({"seconds": 0}, "seconds must be a number > 0.*given was 0"),
    ],
)
def test_machines_that_cannot_be_measured(given, sentence):
    Y, _, _ = wolfpack.make_piecewise(30, 2)
    problem = wolfpack.group_fused_lasso(Y, 0.5)
    with pytest.raises(ValueError, match=sentence):
        Workers.measured(problem, **{"n_workers": 2, "seconds": 0.02, **given})


def test_a_measured_machine_has_costs_of_its_own():
    Y, _, _ = wolfpack.make_piecewise(300, 40)
    problem = wolfpack.group_fused_lasso(Y, 0.5)
    workers = Workers.measured(problem, 1, seconds=0.1, speed=0.5)
    assert workers.speed == 0.5
    low, high = workers.oracle_range
    assert low == high > 0
    assert workers.step_seconds > 0
    twice = Workers.measured(problem, 4, oracle_repeats=(2, 6), seconds=0.1)
    assert twice.oracle_range[1] == pytest.approx(3 * twice.oracle_range[0])


def test_workers_take_the_costs_that_were_measured(monkeypatch):
    asked = []

    def measure(*args):
        asked.append(args)
        return costs.Costs(oracle=0.5, update=0.25, read=0.125)

    monkeypatch.setattr(costs, "measure", measure)
    problem = wolfpack.group_fused_lasso(np.eye(5), 0.5)
    workers = Workers.measured(problem, 3, oracle_repeats=(2, 6), seconds=7.0)
    assert asked == [(problem, 3, 3, (2, 6), 7.0)]
    assert workers.oracle_range == (1.0, 3.0)
    assert (workers.step_seconds, workers.read_seconds) == (0.25, 0.125)
