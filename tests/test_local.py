"""Workers that hold the rows of their block, and workers that sweep."""

import dataclasses
from typing import NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import HANG_SECONDS
from spy import unchecked

import wolfpack
from wolfpack import OracleError, Serial, Threads, solve
from wolfpack.engines.shared_memory import choice, local
from wolfpack.engines.shared_memory.worker import Task, Team
from wolfpack.update.plan import make_tallies

SAMPLINGS = ("uniform", "permutation", "gap", "cyclic")


# Which block comes next.


class Crew:
    """Workers that choose blocks one after the other, in one thread."""

    def __init__(self, n, T):
        self.team = Team.create(n, T, np.ones(1, np.int64), np.zeros(8, np.int64))
        self.tallies = make_tallies(T)
        self.tasks = [
            Task(t, T, 1, 10**9, (1, 1), 1.0, False, choice.RANGES) for t in range(T)
        ]

    def choose(self, t):
        return int(choice.next_in_sweep(self.team, self.tasks[t], self.tallies[t]))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 60), data=st.data())
def test_workers_in_step_sweep_their_own_ranges(n, data):
    T = data.draw(st.integers(1, 5))
    crew = Crew(n * T, T)
    found = np.array([[crew.choose(t) for t in range(T)] for _ in range(3 * n)])
    for t in range(T):
        there = [*range(t * n, (t + 1) * n)]
        assert found[:, t].tolist() == there + there[::-1] + there


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 60), data=st.data())
def test_a_worker_that_stands_still_starves_no_block(n, data):
    """The others sweep its range, from the stretch behind it on."""
    T = data.draw(st.integers(2, n))
    still, crew = data.draw(st.integers(0, T - 1)), Crew(n, T)
    seen = {crew.choose(still)}
    others = [t for t in range(T) if t != still]
    for k in range(60 * n):
        seen.add(crew.choose(others[k % len(others)]))
    assert seen == {*range(n)}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12))
def test_locks_are_kept_once_and_in_order(locks):
    held, count = np.zeros(13, np.int64), 0
    for lock in locks:
        count = local.insert(held, count, lock)
    assert held[:count].tolist() == sorted({*locks})


# Steps on rows that are held.


class Watched(NamedTuple):
    """Which worker reads which row, how often two met, and how often blocks came."""

    radius: float
    inside: np.ndarray
    meetings: np.ndarray
    calls: np.ndarray
    fault: np.ndarray  # the block whose oracle raises, and after how many calls
    roots: np.ndarray  # of the weights, for the functions of the problem


@numba.njit
def oracle(data, shared, t, atom, work):
    """A corner of the box against the gradient, with an eye on its two rows."""
    data.calls[t] += 1
    if data.fault[0] == t and data.calls[t] > data.fault[1]:
        raise ValueError("there is no path")
    for row in (t, t + 1):
        data.inside[row] = t + 1
    least = 0.0
    for _ in range(50):  # stay for a while
        least = 0.0
        for j in range(atom.size):
            slope = shared[t, j] - shared[t + 1, j]
            atom[j] = -data.radius if slope > 0 else data.radius
            least += atom[j] * slope
        for row in (t, t + 1):
            if data.inside[row] != t + 1:
                data.meetings[0] += 1
    return least


def watched(n=30, d=2, alpha=0.4):
    """A total variation in each column, by corners of a box."""
    Y = np.random.default_rng(0).normal(size=(n, d)).cumsum(axis=0)
    made = wolfpack.group_fused_lasso(Y, alpha, q=1.0)
    zeros = [np.zeros(size, np.int64) for size in (n, 1, n - 1)]
    data = Watched(alpha, *zeros, np.full(2, -1), np.ones(n))
    functions = {"value": None, "minimiser": None, "contains": None}
    return unchecked(
        made, data=data, oracle=oracle, constants=None, name="watched", **functions
    )


@pytest.fixture(scope="module")
def problem():
    return watched()


@pytest.fixture(autouse=True)
def _forget(request):
    if "problem" in request.fixturenames:
        data = request.getfixturevalue("problem").data
        data.inside[:] = data.meetings[:] = data.calls[:] = 0
        data.fault[:] = -1


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_no_two_workers_hold_one_row(problem, sampling):
    result = solve(
        problem, engine=Threads(5), sampling=sampling, tol=0, max_epochs=2000, rng=0
    )
    assert problem.data.meetings[0] == 0
    visits = problem.data.calls - len(result.trace)
    assert visits.min() > 0
    assert result.n_updates == result.n_oracle_calls == visits.sum()
    assert result.delay.maximum == 0


def test_one_worker_sweeps_all_blocks(problem):
    result = solve(
        problem, engine=Threads(1), sampling="cyclic", tol=0, max_epochs=6, rng=0
    )
    visits = problem.data.calls - len(result.trace)
    passes = result.n_oracle_calls / problem.n_blocks
    assert visits.min() >= int(passes)
    assert visits.max() <= int(passes) + 1


@pytest.mark.parametrize("T", [2, 5])
def test_an_oracle_that_raises_leaves_no_worker_waiting(problem, T):
    for after in (0, 50):
        problem.data.calls[:] = 0
        problem.data.fault[:] = 7, after
        with pytest.raises(OracleError, match="there is no path") as caught:
            solve(
                problem, engine=Threads(T), sampling="cyclic", tol=0, rng=0,
                max_epochs=np.inf, max_seconds=HANG_SECONDS,
            )  # fmt: skip
        assert caught.value.block == 7


# What comes out.

SIGNAL = wolfpack.make_piecewise(n=120, d=3, n_segments=6, rng=1)[0]


@pytest.fixture(scope="module")
def lasso():
    return wolfpack.group_fused_lasso(SIGNAL, 0.6)


@pytest.fixture(scope="module")
def best(lasso):
    """The optimal value, from an interior point method on the primal."""
    import cvxpy as cp

    X = cp.Variable(SIGNAL.shape)
    jumps = sum(cp.norm(X[t + 1] - X[t], 2) for t in range(len(SIGNAL) - 1))
    goal = 0.5 * cp.sum_squares(X - SIGNAL) + 0.6 * jumps
    cp.Problem(cp.Minimize(goal)).solve(solver=cp.CLARABEL)
    return float(goal.value)


@pytest.mark.parametrize("step", ["exact", "line"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("T", [1, 2, 5])
def test_f_never_rises_and_the_optimum_is_right(lasso, best, T, sampling, step):
    result = solve(
        lasso, engine=Threads(T), sampling=sampling, step=step, max_epochs=10**5,
        tol=1e-4, rng=0, accelerate=False,
    )  # fmt: skip
    assert result.converged
    slack = 1e-6 * lasso.scale
    assert result.lower_bound - slack <= -best <= result.objective + slack
    values = [row.objective for row in result.trace]
    assert (np.diff(values) <= 1e-9 * lasso.scale).all()
    exact = lasso.shared.copy()
    args = lasso.data, result.state.blocks, 0, lasso.n_blocks, exact, lasso.work()
    lasso.kernels().rebuild(*args)
    np.testing.assert_allclose(result.state.shared, exact, atol=1e-9)


@pytest.mark.parametrize("tau", [1, 4, 119])
def test_one_thread_sweeps_to_the_optimum(lasso, best, tau):
    how = {"sampling": "cyclic", "step": "exact", "batch_size": tau}
    result = solve(lasso, engine=Serial(), tol=1e-4, max_epochs=10**5, **how)
    assert result.converged
    slack = 1e-6 * lasso.scale
    assert result.lower_bound - slack <= -best <= result.objective + slack


def test_a_sweep_goes_on_after_many_short_runs(lasso):
    """A run that is resumed goes on near where the last one stopped."""
    state = None
    for k in range(1, 9):
        result = solve(
            lasso, engine=Threads(1), sampling="cyclic", step="exact", tol=0,
            max_epochs=k / 4, start=state, rng=0,
        )  # fmt: skip
        state = result.state
    assert (np.abs(state.blocks.points).max(axis=1) > 0).all()


class Pairs(NamedTuple):
    weight: np.ndarray


@numba.njit
def pair_score(data, shared, i, atom):
    return data.weight[i] * atom[0] * (shared[i, 0] - 1.0)


@numba.njit
def pair_oracle(data, shared, i, atom, work):
    atom[0] = 1.0 if data.weight[i] * (shared[i, 0] - 1.0) < 0 else -1.0
    return pair_score(data, shared, i, atom)


@numba.njit
def pair_add(data, i, atom, scale, out):
    if data.weight[i] != 0:
        out[i, 0] += scale * data.weight[i] * atom[0]
    return 0.0


@numba.njit
def pair_slope(data, shared, direction, rows, gamma):
    total = 0.0
    for r in rows:
        total += (shared[r, 0] + gamma * direction[r, 0] - 1.0) * direction[r, 0]
    return total


@numba.njit
def pair_touched(data, i, move, rows, work):
    rows[0] = i
    return 1 if data.weight[i] != 0 else 0


@numba.njit
def pair_curvature(data, i, move, work):
    return (data.weight[i] * move[0]) ** 2


@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("sampling", ["uniform", "cyclic"])
def test_blocks_that_touch_no_row(T, sampling):
    """min sum_i 1/2 (w_i x_i - 1)^2 over [-1, 1]: x_i = min(1, 1 / w_i)."""
    weight = np.array([0.0, 2.0, 0.5, 0.0, 4.0, 1.0, 0.0])
    problem = wolfpack.Problem(
        data=Pairs(weight), shared=np.zeros((7, 1)), start=np.zeros((7, 1)),
        oracle=pair_oracle, score=pair_score, add=pair_add, slope=pair_slope,
        touched=pair_touched, max_rows=1, curvature=pair_curvature, local=True,
        name="pairs",
    )  # fmt: skip
    result = solve(
        problem, engine=Threads(T), sampling=sampling, tol=1e-9, max_epochs=1000, rng=0
    )
    assert result.converged
    moved = weight > 0
    found = result.state.blocks.points[moved, 0]
    np.testing.assert_allclose(found, np.minimum(1.0, 1 / weight[moved]), atol=1e-6)


@numba.njit
def own_gradient(x, i, target):
    return x[i] - target[i]


@numba.njit
def common_gradient(x, i, target):
    return x.sum(axis=0) - target[i]


def test_a_block_that_reads_other_rows_is_found():
    x0, target = np.full((6, 2), 0.5), np.arange(12.0).reshape(6, 2)
    for gradient, is_local in ((own_gradient, True), (common_gradient, False)):
        problem = wolfpack.from_blocks(x0, gradient, wolfpack.simplex(), args=(target,))
        problem.check()
        problem = dataclasses.replace(problem, local=True)
        if is_local:
            problem.check()
            continue
        with pytest.raises(
            wolfpack.ProblemError, match=r"reads rows .* use local=False"
        ):
            problem.check()
