"""Runs whose outer steps do not help: what they do, and what they say."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import wolfpack
from wolfpack import Serial, Threads, solve
from wolfpack.run import rest
from wolfpack.update.outer import Outer


def random_labels(n, alpha):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(8, 20)) for _ in range(n)]
    y = [rng.integers(5, size=8) for _ in range(n)]
    return wolfpack.chain_ssvm(X, y, alpha)


class Played:
    """A run of 10 blocks whose checks find what a test says."""

    def __init__(self, reach=0.2, first=0.0, scale=0.0):
        v = np.linspace(-1.0, 1.0, 5)
        outer = Outer.begin(v, first=first)
        outer.anchor[...] = 0.0
        outer.numbers.reach = reach
        self.state = SimpleNamespace(outer=outer, shared=v, n_oracle_calls=0)
        self.problem = SimpleNamespace(n_blocks=10, scale=scale)
        self.session = SimpleNamespace(accelerates_itself=False)
        self.crew = None

    @property
    def numbers(self):
        return self.state.outer.numbers

    def see(self, *rows):
        for epoch, gap in rows:
            self.state.n_oracle_calls = 10 * epoch
            rest.note(self, gap)
        return rest.is_at_rest(self)

    def image(self):
        outer = self.state.outer
        return outer.anchor + (self.state.shared - outer.anchor) / outer.reach


RISEN = [(1, 1.0), (50, 0.1), (60, 0.2), (70, 0.3), (80, 0.2)]


@pytest.mark.parametrize(
    ("rows", "rests"),
    [
        ([(1, 1.0), (50, 0.1), (100, 0.2), (150, 0.05)], False),
        (RISEN, False),  # 30 passes, but 50 led there
        ([*RISEN, (101, 0.095)], True),
        ([*RISEN, (101, 0.08)], False),
        ([(1, 1.0), (50, 0.1), (200, 0.1)], False),  # one look
        ([(0, 1.0), (5, 1.84), (15, 1.6), (45, 1.01)], False),  # falls from the peak
        ([(0, 1.0), (5, 1.8), (15, 1.9), (45, 2.01)], True),  # only rises
        ([(10, 1.0), (20, 0.95), (30, 0.93), (45, 0.89)], False),  # falls add up
    ],
)
def test_a_run_at_rest_is_told_from_one_that_rises_for_a_while(rows, rests):
    assert Played().see(*rows) is rests


def test_gaps_below_the_rounding_differ_by_chance():
    eps = np.finfo(float).eps
    run = Played(scale=1.0)
    assert run.see((1, 1.0), (50, 2 * eps), (60, eps), (101, 0.5 * eps), (200, 0.0))


def test_a_run_at_rest_restarts_and_then_makes_plain_steps():
    run = Played()
    for k in range(rest.RESTARTS + 1):
        x = run.image()
        begin = run.state.n_oracle_calls // 10
        assert run.see(*((begin + passes, 1.0) for passes in (1, 2, 20, 40)))
        assert rest.correct(run, objective=-1.0)
        np.testing.assert_allclose(run.image(), x)
        assert run.numbers.restarts == min(k + 1, rest.RESTARTS)
        assert not rest.is_at_rest(run) or k == rest.RESTARTS
    assert run.state.outer.reach == 1.0
    assert not rest.correct(run, objective=-1.0)


def test_a_run_away_is_held_back():
    run = Played()
    v, x = run.state.shared.copy(), run.image()
    run.numbers.since = 10
    assert not rest.correct(run, objective=1.0)  # x may run ahead at first
    run.state.n_oracle_calls = 50
    assert rest.correct(run, objective=1.0)
    np.testing.assert_allclose(run.state.outer.anchor, v)  # z stops at v
    np.testing.assert_allclose(run.image(), x)
    assert run.numbers.inner == math.inf
    assert run.numbers.most == run.state.outer.reach == pytest.approx(0.2)
    assert not rest.correct(run, objective=-1.0)
    assert run.numbers.most == pytest.approx(0.2 * rest.RELAX)


def test_random_labels_do_not_stall():
    """Their gap rises above that of the start, and takes 40 passes to fall below."""
    how = {"tol": 1e-3, "max_epochs": 1000, "rng": 0, "sampling": "gap"}
    result = solve(random_labels(100, 1e-2), **how)
    gaps = [row.gap for row in result.trace]
    assert result.converged, result
    assert max(gaps) > 1.0


@pytest.mark.parametrize("seed", range(3))
def test_dates_do_not_stall(seed):
    """Blocks that gap sampling visits seldom: their gaps were seen long ago."""
    train, _ = wolfpack.load_dates(n_train=300)
    problem = wolfpack.chain_ssvm(train.X, train.y, 1e-4)
    result = solve(problem, tol=1e-4, max_epochs=1000, rng=seed, sampling="gap")
    assert result.converged, result


@pytest.mark.parametrize("engine", [Serial(), Threads(4)], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 1e-3])
def test_few_blocks_are_faster_with_outer_steps(engine, alpha):
    """Twenty sequences of random labels, which 1000 plain passes do not solve."""
    problem = random_labels(20, alpha)
    how = {"engine": engine, "tol": 1e-6, "max_epochs": 1000, "rng": 0}
    plain = solve(problem, sampling="gap", accelerate=False, **how)
    fast = solve(problem, sampling="gap", **how)
    assert fast.state.outer is not None
    assert fast.gap < 0.5 * plain.gap
    assert fast.lower_bound <= plain.objective
    assert plain.lower_bound <= fast.objective


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("passes", [20, 200, 400])
def test_a_run_never_ends_above_its_start(seed, passes):
    """Columns of very different size let x run away from v."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 10)) * 10.0 ** rng.uniform(-2, 3, size=10)
    problem = wolfpack.multiclass_svm(X, rng.integers(3, size=150), 1e-2)
    result = solve(problem, tol=1e-6, max_epochs=passes, rng=seed, sampling="gap")
    assert result.objective <= 1e-6  # 0 at the start
    assert result.gap == pytest.approx(result.objective - result.lower_bound)


@pytest.mark.parametrize(
    "engine", [Serial(), pytest.param(Threads(2), marks=pytest.mark.slow)], ids=str
)
def test_the_estimate_follows_gaps_that_outer_steps_change(engine):
    """With gap sampling, most blocks of dates are at rest, and seldom seen."""
    train, _ = wolfpack.load_dates(n_train=300)
    problem = wolfpack.chain_ssvm(train.X, train.y, 1e-3)
    how = {"tol": 0, "max_epochs": 60, "check_every": 5, "accelerate": True}
    result = solve(problem, engine=engine, sampling="gap", rng=0, **how)
    ratios = [row.gap_estimate / row.gap for row in result.trace[2:]]
    assert 0.5 < np.median(ratios) < 2.0
    assert min(ratios) > 0.1


@pytest.mark.parametrize(("n", "d", "alpha"), [(2000, 4, 3.0), (5000, 1, 2.0)])
def test_slopes_do_not_change_the_reach_between_outer_steps(n, d, alpha):
    """They do not tell how the parts of the gap compare; plain steps were faster."""
    problem = wolfpack.group_fused_lasso(
        wolfpack.make_piecewise(n=n, d=d, rng=0)[0], alpha
    )
    how = {"sampling": "cyclic", "step": "exact", "tol": 1e-3, "max_epochs": 10**4}
    plain = solve(problem, accelerate=False, rng=0, **how)
    fast = solve(problem, accelerate=True, rng=0, **how)
    assert plain.converged
    assert fast.converged
    assert fast.epochs < 0.5 * plain.epochs
