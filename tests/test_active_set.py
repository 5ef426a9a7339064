"""ActiveSet and the path: optima known another way, certificates computed anew."""

import os
import signal
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import wolfpack
from wolfpack import ActiveSet, Serial, State, Status, group_fused_lasso, solve
from wolfpack.change_points import fused_lasso_path
from wolfpack.update import segments

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("WOLFPACK_DATA") or BESIDE)
NORMS = [1.0, 2.0, np.inf]


def primal(X, Y, alpha, q, weights=None):
    weights = np.ones(len(Y)) if weights is None else weights
    jumps = np.linalg.norm(np.diff(X, axis=0), ord=q, axis=1).sum()
    return 0.5 * (weights @ np.square(X - Y)).sum() + alpha * jumps


def dual(U, Y, alpha, q, weights=None):
    """The dual objective of prices, which must be feasible."""
    weights = np.ones(len(Y)) if weights is None else weights
    p = {1.0: np.inf, 2.0: 2.0, np.inf: 1.0}[q]
    assert np.linalg.norm(U, ord=p, axis=1).max() <= alpha * (1 + 1e-9)
    Y = Y - np.average(Y, axis=0, weights=weights)
    X = Y + np.diff(U, axis=0, prepend=0, append=0) / weights[:, np.newaxis]
    return 0.5 * (weights @ (np.square(Y) - np.square(X))).sum()


def certified(result, problem, Y, alpha, q, weights=None):
    """Hold the certificate against both objectives, computed here."""
    above = primal(result.solution, Y, alpha, q, weights)
    below = dual(result.state.blocks.points, Y, alpha, q, weights)
    noise = 1e-12 * (problem.scale + np.square(Y).sum())
    assert -result.lower_bound == pytest.approx(above, rel=1e-9, abs=noise)
    assert -result.objective == pytest.approx(below, rel=1e-9, abs=noise)
    assert result.gap == pytest.approx(above - below, rel=1e-3, abs=noise)
    return above


def reference(Y, alpha, q, weights):
    X = cp.Variable(Y.shape)
    jumps = sum(cp.norm(X[t + 1] - X[t], q) for t in range(len(Y) - 1))
    squares = cp.sum(cp.multiply(weights[:, None], cp.square(X - Y)))
    problem = cp.Problem(cp.Minimize(0.5 * squares + alpha * jumps))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("q", NORMS)
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_an_interior_point_method(q, seed):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(rng.integers(5, 25), rng.integers(1, 5))).cumsum(axis=0)
    weights = rng.uniform(0.2, 3.0, len(Y)) if seed % 2 else np.ones(len(Y))
    alpha = [0.1, 0.5, 2.0, 5.0][seed]
    problem = group_fused_lasso(Y, alpha, q=q, weights=weights)
    result = solve(problem, engine=ActiveSet(), tol=1e-9)
    assert result.status is Status.CONVERGED
    found = certified(result, problem, Y, alpha, q, weights)
    best = reference(Y, alpha, q, weights)
    assert found == pytest.approx(best, rel=1e-6)
    assert -result.objective <= best * (1 + 1e-7)


def made(n, d, n_segments, sigma):
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.choice(np.arange(1, n), n_segments - 1, replace=False))
    levels = rng.standard_normal((n_segments, d))
    clean = levels[np.searchsorted(cuts, np.arange(n), side="right")]
    return clean + sigma * rng.standard_normal((n, d))


@pytest.mark.parametrize(
    ("shape", "alpha", "optimum"),
    [
        ((100, 10, 10, 0.1), 0.01, 0.7559886496),
        ((100, 10, 10, 0.1), 0.5, 22.827209),
        ((10_000, 10, 50, 0.5), 1.0, 10574.697),
    ],
)
def test_known_optima(shape, alpha, optimum):
    Y = made(*shape)
    problem = group_fused_lasso(Y, alpha)
    result = solve(problem, engine=ActiveSet(2), tol=1e-8)
    assert result.status is Status.CONVERGED
    found = certified(result, problem, Y, alpha, 2.0)
    assert found == pytest.approx(optimum, rel=1e-6)


@pytest.mark.skipif(not (DATA / "acgh").is_dir(), reason="the aCGH profiles are absent")
@pytest.mark.parametrize(("alpha", "optimum"), [(1.0, 708.980331), (3.0, 1049.186799)])
def test_known_optima_of_profiles(alpha, optimum):
    Y = wolfpack.datasets.load_acgh(data_home=DATA)
    problem = group_fused_lasso(Y, alpha)
    result = solve(problem, engine=ActiveSet(), tol=1e-9)
    found = certified(result, problem, Y, alpha, 2.0)
    assert found == pytest.approx(optimum, abs=2e-6)


signals = arrays(
    np.float64,
    st.tuples(st.integers(2, 30), st.integers(1, 3)),
    elements=st.one_of(
        st.integers(-3, 3).map(float), st.floats(-1e3, 1e3).map(lambda y: round(y, 6))
    ),
)


@settings(max_examples=150, deadline=None)
@given(signals, st.sampled_from(NORMS), st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_every_signal_converges(Y, q, alpha):
    problem = group_fused_lasso(Y, alpha, q=q)
    result = solve(problem, engine=ActiveSet(), tol=1e-7, max_epochs=50)
    assert result.status is Status.CONVERGED
    certified(result, problem, Y, alpha, q)
    assert result.gap <= 1e-7 * problem.scale * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("q", NORMS)
def test_it_agrees_with_steps_on_all_rows(q):
    Y = made(80, 3, 5, 0.3)
    problem = group_fused_lasso(Y, 0.7, q=q)
    one = solve(problem, engine=ActiveSet(), tol=1e-10)
    options = {"step": "exact", "sampling": "cyclic", "max_epochs": 100_000}
    other = solve(problem, tol=1e-7, rng=0, **options)
    assert other.status is Status.CONVERGED
    np.testing.assert_allclose(one.solution, other.solution, atol=1e-3)


def test_weights_count_as_repeated_rows():
    rng = np.random.default_rng(3)
    Y, times = rng.normal(size=(20, 2)), rng.integers(1, 5, 20)
    weighted = group_fused_lasso(Y, 0.5, weights=times)
    repeated = group_fused_lasso(np.repeat(Y, times, axis=0), 0.5)
    one = solve(weighted, engine=ActiveSet(), tol=1e-10)
    other = solve(repeated, engine=ActiveSet(), tol=1e-10)
    assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-8)
    expected = np.repeat(one.solution, times, axis=0)
    np.testing.assert_allclose(other.solution, expected, atol=1e-4)
    plain = solve(weighted, step="exact", sampling="cyclic", tol=1e-8, max_epochs=9999)
    assert plain.status is Status.CONVERGED
    assert plain.lower_bound == pytest.approx(one.lower_bound, rel=1e-7)


@pytest.mark.timeout(60)
def test_a_price_as_long_as_rounding_allows_is_projected():
    """Rounding brings a small entry back, which must not begin the search anew."""
    digits = """1.41ade0f6c03d7p-16 1.d29d2f48488f7p-11 1.34bc04bcc0d30p-55
        1.3baf8761ceda2p-1 1.418663a9d1254p-27 1.3c26b259c472ap-1"""
    *sizes, alpha = (float.fromhex(f"0x{one}") for one in digits.split())
    price, before = np.array(sizes), np.array(sizes)
    segments.project.py_func(price, alpha, False)
    assert np.abs(price).sum() == pytest.approx(alpha, rel=1e-15)
    np.testing.assert_allclose(price, before, atol=1e-15)


def test_rows_between_change_points_have_one_value():
    Y = made(500, 3, 6, 0.2)
    result = solve(group_fused_lasso(Y, 5.0), engine=ActiveSet(), tol=1e-8)
    assert 3 <= len(np.unique(result.solution, axis=0)) <= 60


def test_the_same_bits_each_time():
    Y = made(300, 4, 6, 0.3)
    runs = [
        solve(group_fused_lasso(Y, 1.0), engine=ActiveSet(), tol=1e-9) for _ in "ab"
    ]
    np.testing.assert_array_equal(runs[0].solution, runs[1].solution)
    assert runs[0].gap == runs[1].gap


def test_a_callback_stops_it_and_a_saved_state_goes_on(tmp_path):
    Y = made(2000, 3, 20, 0.5)
    problem = group_fused_lasso(Y, 2.0)
    events = []
    first = solve(
        problem, engine=ActiveSet(), tol=1e-9, callback=lambda e: events.append(e) or 1
    )
    assert first.status is Status.CONVERGED  # 1 is not True
    stopped = solve(problem, engine=ActiveSet(), tol=1e-9, callback=lambda _: True)
    assert stopped.status is Status.STOPPED
    state = State.load(stopped.save(tmp_path / "state.npz"))
    again = solve(problem, engine=ActiveSet(), tol=1e-9, start=state)
    assert again.status is Status.CONVERGED
    assert again.lower_bound == pytest.approx(first.lower_bound, rel=1e-8)
    assert events[-1].row.gap == first.gap


def test_states_go_to_other_engines_and_back():
    Y = made(200, 2, 5, 0.3)
    problem = group_fused_lasso(Y, 1.0)
    rough = solve(problem, step="exact", tol=0, max_epochs=20, rng=0)
    fine = solve(problem, engine=ActiveSet(), start=rough.state, tol=1e-9)
    assert fine.status is Status.CONVERGED
    checked = solve(problem, engine=Serial(), step="exact", start=fine.state, tol=1e-4)
    assert checked.status is Status.CONVERGED
    assert checked.epochs == fine.epochs  # it was there already


def test_ctrl_c_keeps_what_was_found():
    Y = made(3000, 3, 20, 0.5)
    problem = group_fused_lasso(Y, 2.0)

    def press(event):
        signal.raise_signal(signal.SIGINT)

    result = solve(problem, engine=ActiveSet(), tol=1e-9, callback=press)
    assert result.status is Status.INTERRUPTED
    assert np.isfinite(result.gap)
    certified(result, problem, Y, 2.0, 2.0)


def test_what_it_cannot_do_is_refused():
    signal = group_fused_lasso(made(30, 2, 3, 0.1), 1.0)
    blocks = wolfpack.from_blocks(np.eye(3), lambda x, i: x.sum(0), wolfpack.simplex())
    other = group_fused_lasso(made(30, 2, 3, 0.1), 1.0, q=3)
    for problem in (blocks, other):
        with pytest.raises(ValueError, match="q = 1, 2 or inf; use Serial"):
            solve(problem, engine=ActiveSet())
    for options, sentence in (
        ({"batch_size": 4}, "batch_size must be None, but is 4"),
        ({"step": "open-loop"}, "makes exact steps"),
        ({"averaging": True}, "averages nothing"),
        ({"accelerate": True}, "accelerate"),
    ):
        with pytest.raises(ValueError, match=sentence):
            solve(signal, engine=ActiveSet(), **options)
    with pytest.raises(ValueError, match="n_workers must be an integer"):
        ActiveSet(0)


def test_bad_weights_are_refused():
    for weights, sentence in (
        ([1.0], r"weights must have shape \(3,\)"),
        ([1.0, 0.0, 1.0], "finite and > 0; leave out rows"),
        ([1.0, np.nan, 1.0], "finite and > 0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            group_fused_lasso(np.zeros((3, 1)), 1.0, weights=weights)


@pytest.mark.parametrize("q", NORMS)
def test_a_path_is_certified_and_right(q):
    Y = made(150, 3, 6, 0.3)
    path = fused_lasso_path(Y, n_alphas=8, q=q, tol=1e-8)
    assert path.n_change_points[0] == 0
    np.testing.assert_allclose(path.signal(0), np.tile(Y.mean(axis=0), (150, 1)))
    assert path.signals.shape == (8, 150, 3)
    assert (np.diff(path.alphas) < 0).all()
    for k, alpha in enumerate(path.alphas):
        problem = group_fused_lasso(Y, alpha, q=q)
        cold = solve(problem, engine=ActiveSet(), tol=1e-8)
        assert path.gaps[k] <= 1e-8 * problem.scale
        assert path.objectives[k] == pytest.approx(-cold.lower_bound, rel=1e-6)
        found = primal(path.signal(k), Y, alpha, q)
        assert found == pytest.approx(path.objectives[k], rel=1e-6)
        ends = np.flatnonzero(np.abs(np.diff(path.signal(k), axis=0)).max(1)) + 1
        np.testing.assert_array_equal(ends, path.change_points[k])


def test_a_path_takes_weights_one_column_and_any_order():
    rng = np.random.default_rng(0)
    y, weights = rng.normal(size=40).cumsum(), rng.uniform(0.5, 2.0, 40)
    path = fused_lasso_path(y, [0.1, 3.0, 1.0], weights=weights, tol=1e-9)
    assert path.alphas.tolist() == [3.0, 1.0, 0.1]
    for k, alpha in enumerate(path.alphas):
        best = reference(y[:, None], alpha, 2.0, weights)
        assert path.objectives[k] == pytest.approx(best, rel=1e-6)


def test_a_path_of_a_constant_signal():
    path = fused_lasso_path(np.full((9, 2), 3.0), n_alphas=3)
    assert path.n_change_points.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(path.signals, 3.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alphas": []}, "at least one number"),
        ({"alphas": [1.0, -1.0]}, "alpha must be a finite number > 0"),
        ({"n_alphas": 0}, "n_alphas must be at least 1"),
        ({"n_alphas": 2.5}, "n_alphas must be a whole number"),
        ({"eps": 2.0}, "eps must lie between 0 and 1"),
        ({"q": 3}, "q must be 1, 2 or inf"),
        ({"weights": [1.0]}, "weights must have shape"),
    ],
)
def test_bad_paths_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fused_lasso_path(np.arange(8.0), **options)
