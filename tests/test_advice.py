import math

import numpy as np
import pytest

import wolfpack
from wolfpack import suggest_batch_size
from wolfpack.advice.pilot import Pilot

N = 256


@pytest.fixture(scope="module")
def orthogonal():
    """Examples without a feature in common: no block feels another."""
    return wolfpack.multiclass_svm(np.eye(N), np.arange(N) % 3, alpha=1.0 / N)


@pytest.fixture(scope="module")
def alike():
    """The same example again and again: one step of any block is enough."""
    X, y, weight = np.ones((N, 1)), np.arange(N) == N - 1, np.ones(N)
    weight[-1] = 1e-9
    return wolfpack.multiclass_svm(X, y, alpha=1e-6, sample_weight=weight)


@pytest.fixture
def timed(monkeypatch):
    """A machine whose oracle calls take 1 us, and whose merges take 16."""
    monkeypatch.setattr(Pilot, "time_oracle", lambda self: 1e-6)
    calls = lambda self, engine, taus, seconds: 1e-6 + 8e-6 / np.array(taus)  # noqa: E731
    monkeypatch.setattr(Pilot, "time_calls", calls)


def plain(gradient, x0=None, **options):
    """A problem in plain Python: nothing is compiled for it."""
    x0 = np.full((32, 2), 0.5) if x0 is None else x0
    return wolfpack.from_blocks(x0, gradient, wolfpack.simplex(), **options)


@pytest.fixture(scope="module")
def lasso():
    Y = wolfpack.make_piecewise(n=100, d=3)[0]
    return wolfpack.group_fused_lasso(Y, alpha=0.5)


def test_blocks_that_do_not_interfere_go_together(orthogonal, timed):
    advice = suggest_batch_size(orthogonal, 2, seconds=1.0, rng=0)
    np.testing.assert_array_equal(advice.batch_sizes, 2 ** np.arange(1, 8))
    np.testing.assert_allclose(advice.coupling, 1.0, atol=0.02)
    np.testing.assert_allclose(advice.joint_progress, advice.batch_sizes, rtol=0.02)
    assert advice.batch_size == 128
    times = 1.0 + 8.0 / advice.batch_sizes
    np.testing.assert_allclose(advice.relative_time, times / times[-1], rtol=0.02)
    assert advice.merge_seconds == pytest.approx(16e-6)
    assert advice.oracle_seconds == 1e-6
    assert advice.n_workers == 2
    assert advice.reason.startswith(f"tau = {advice.batch_size}, ")
    assert advice.reason.endswith(".")


def test_blocks_that_are_alike_go_alone(alike, timed):
    advice = suggest_batch_size(alike, 2, seconds=1.0, rng=0)
    assert advice.batch_size == 2
    assert (advice.coupling * advice.batch_sizes < 1.01).all()
    assert "% longer with the largest, 128" in advice.reason


def test_coupling_of_blocks_that_are_alike():
    """One block moves the sum to its target, and nothing is left for the others."""
    target = np.array([16.3, 15.7])
    problem = plain(lambda x, i: x.sum(axis=0) - target, quadratic=True)
    pilot = Pilot(problem, np.random.default_rng(0))
    points, sizes = pilot.walk(seconds=1), np.array([2, 4, 8])
    at_once = pilot.coupling(points, sizes, "joint", 0, seconds=1)
    np.testing.assert_allclose(at_once, [1 / 2, 1 / 4, 1 / 8], rtol=2e-3)
    # Three workers that start together stand for two that do not.
    merged = pilot.coupling(points, sizes, "merge", 2, seconds=1)
    np.testing.assert_allclose(merged, [1 / 3, 1 / 6, 1 / 12], rtol=2e-3)
    apart = pilot.coupling(points, sizes, "direct", 2, seconds=1)
    np.testing.assert_allclose(apart, [1 / 3, 1 / 7, 1 / 15], rtol=2e-3)


def test_times_are_measured(orthogonal):
    advice = suggest_batch_size(orthogonal, 2, seconds=0.2, rng=0)
    assert advice.oracle_seconds > 0
    assert advice.merge_seconds >= 0
    assert advice.relative_time.min() == 1.0
    assert advice.batch_size in advice.batch_sizes


def test_tau_goes_into_solve(orthogonal):
    advice = suggest_batch_size(orthogonal, 2, seconds=0.2, rng=0)
    tau = int(advice)
    assert tau == advice.batch_size
    result = wolfpack.solve(orthogonal, engine=wolfpack.Threads(2), batch_size=tau)
    assert result.converged


def test_the_seed_decides_what_is_drawn(lasso):
    one, same, other = (
        suggest_batch_size(lasso, 1, seconds=60, rng=seed).coupling
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert ((one > 0) & (one <= 1)).all()
    assert (np.diff(one) <= 0).all()


def test_where_there_is_nothing_to_choose(lasso):
    for options, tau, why in (
        ({"n_workers": 1}, 1, "one worker"),
        ({"engine": wolfpack.Serial()}, 1, "one worker"),
        ({"engine": wolfpack.Threads(2, "lock-free")}, 1, "lock-free"),
        ({"engine": wolfpack.Threads(3)}, 3, "write into v directly"),
        ({"n_workers": 1000}, 99, "write into v directly"),
    ):
        advice = suggest_batch_size(lasso, **options, seconds=0.1, rng=0)
        assert advice.batch_size == tau
        assert why in advice.reason
        assert math.isnan(advice.merge_seconds)


def test_n_workers_is_that_of_the_engine(lasso):
    engine = wolfpack.Threads(2)
    assert suggest_batch_size(lasso, engine=engine, seconds=0.1).n_workers == 2
    assert suggest_batch_size(lasso, 3, engine=engine, seconds=0.1).n_workers == 3


def test_falls_are_those_of_the_objective(lasso):
    pilot = Pilot(lasso, np.random.default_rng(0))
    start, *points = pilot.walk(seconds=60)
    assert [p.state.n_oracle_calls // lasso.n_blocks for p in points] == [1, 8]
    before = start.state.shared.copy()
    for point in points:
        fall = lasso.value(lasso.data, start.exact) - lasso.value(
            lasso.data, point.exact
        )
        assert point.fallen == pytest.approx(fall, rel=1e-9)
        falls = pilot._measure(point, [(1, 1), (1, 4), (1, 16)], "joint", 60)
        assert (np.diff(falls.single) >= 0).all()
        assert falls.joint[0] == pytest.approx(falls.single[0], rel=1e-9)
        assert (falls.joint <= falls.single[-1] * (1 + 1e-9)).all()
    np.testing.assert_array_equal(start.state.shared, before)


def test_any_convex_function_will_do():
    """f = sum of (x - 1)^4: its falls are integrals of slopes along the way."""
    problem = plain(lambda x, i: 4 * (x[i] - 1.0) ** 3)
    pilot = Pilot(problem, np.random.default_rng(0))
    state = pilot._clone(pilot.point.state)
    state.blocks.points[3] = [1.0, 0.0]
    change, linear = pilot.along.change(pilot.point.state, state, np.array([3]))
    fall = pilot.along.fall(pilot.point.exact, change, linear)
    assert fall == pytest.approx(2 * 0.5**4 - 1.0)
    theta = pilot.along.search(pilot.point.exact, -change, linear)
    assert theta == pytest.approx(0.0, abs=1e-5)


def test_plain_python_runs_alone():
    linear = plain(lambda x, i: np.array([0.0, 1.0 + i]), quadratic=True)
    advice = suggest_batch_size(linear, 1, seconds=0.5, rng=0)
    np.testing.assert_allclose(advice.coupling, 1.0, rtol=2e-3)
    with pytest.raises(ValueError, match="use Serial"):
        suggest_batch_size(linear, 2, seconds=0.1)


def test_a_start_at_the_optimum_says_nothing():
    flat = plain(lambda x, i: np.zeros(2), quadratic=True)
    advice = suggest_batch_size(flat, 1, seconds=0.1)
    np.testing.assert_array_equal(advice.coupling, 1.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_workers": 0}, "n_workers must be a positive integer"),
        ({"n_workers": 2.5}, "n_workers must be a positive integer"),
        ({"seconds": 0}, "seconds must be a finite number > 0, but is 0"),
        ({"seconds": math.inf}, "seconds must be a finite number > 0"),
        ({"seconds": "1"}, "seconds must be a finite number > 0, but is '1'"),
        ({"engine": wolfpack.Serial(), "n_workers": 2}, "Serial.. has one worker"),
    ],
)
def test_mistakes_get_one_sentence(lasso, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        suggest_batch_size(lasso, **options)


def test_what_is_no_problem_or_engine(lasso):
    with pytest.raises(TypeError, match="problem must be a Problem, but is a list"):
        suggest_batch_size([])
    with pytest.raises(TypeError, match=r"engine must be Threads\(\), Sync\(\),"):
        suggest_batch_size(lasso, engine="threads")
