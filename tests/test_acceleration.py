"""Every engine, accelerated, on every problem with a ridge: the same optimum."""

import sys
from typing import Any

import accelerated
import numpy as np
import pytest
import spy
from accelerated import CASES, assert_fits, assert_true, bracket, case_of
from test_engines import RAY_MARKS

import wolfpack
from wolfpack import Delayed, Ray, Serial, Sync, Threads, delays, solve
from wolfpack.engines.cluster import connect
from wolfpack.engines.threads import STRIPED_BYTES

MODES = ["merge", "server", "lock-free"]
# An engine, and the blocks of an update.
ENGINES: dict[str, tuple[Any, int | None]] = {
    "serial": (Serial(), None),
    "serial batches": (Serial(), 4),
    "sync": (Sync(2), None),
    "sync batches": (Sync(2), 6),
    **{f"{mode} {T}": (Threads(T, mode), None) for mode in MODES for T in (1, 2, 5)},
    "merge batches": (Threads(2), 8),
    "server batches": (Threads(2, "server"), 8),
    "delayed": (Delayed(delays.poisson(3)), None),
    "simulated": (Delayed(workers=delays.Workers(4, oracle_seconds=1e-3)), 2),
}
every_engine = pytest.mark.parametrize("kind", ENGINES)
every_problem = pytest.mark.parametrize("name", CASES)


@pytest.fixture(autouse=True)
def healthy():
    spy.set_fault(case_of("by hand").problem, spy.NEVER)


def run(name, kind, **how):
    case, (engine, tau) = case_of(name), ENGINES[kind]
    how = {"tol": case.goal, "max_epochs": 3000, "rng": 0, **how}
    how = {"engine": engine, "batch_size": tau, "accelerate": True, **how}
    return solve(case.problem, **how)


@every_problem
@every_engine
def test_the_optimum_is_that_of_plain_steps(name, kind):
    result = run(name, kind)
    assert result.converged, result
    assert result.n_outer > 0
    assert 0 < result.reach < 1
    assert_true(name, result)


@pytest.fixture(scope="module")
def cluster():
    import ray

    connect.connect(ray, None, 2)
    for name in ("accelerated", "spy"):
        ray.cloudpickle.register_pickle_by_value(sys.modules[name])
    yield
    ray.shutdown()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=f"{name}-ray-", marks=RAY_MARKS)
        if name == "by hand"
        else pytest.param(name, id=f"{name}-ray-", marks=[*RAY_MARKS, pytest.mark.slow])
        for name in CASES
    ],
)
def test_the_server_of_ray_keeps_the_outer_loop(cluster, name, tmp_path):
    case = case_of(name)
    # 40 blocks of text are late by more than a pass: no steps, plain or accelerated,
    # come to 1e-3 in thousands of passes.
    goal = 0.03 if name == "text" else case.goal
    how = {"engine": Ray(n_workers=2), "rng": 0, "accelerate": True}
    result = solve(case.problem, tol=goal, max_epochs=10**4, **how)
    assert result.converged, result
    assert result.n_outer > 0
    assert_true(name, result)
    start = wolfpack.State.load(result.save(tmp_path / "state"))
    how |= {"start": start, "max_epochs": 10**4}
    more = solve(case.problem, tol=0.3 * goal, **how)
    assert more.converged, more
    assert_true(name, more)
    assert more.n_outer > 0


@pytest.mark.parametrize("batch", [None, 1, 10])
@pytest.mark.parametrize("T", [1, 2, 5])
def test_a_large_v_is_merged_by_stripes(T, batch):
    case = accelerated.by_hand(d=5000, n=20)
    problem = case.problem
    assert problem.shared.nbytes > STRIPED_BYTES
    assert problem.touched is None
    how = {"tol": 1e-3, "max_epochs": 3000, "rng": 0}
    plain = solve(problem, accelerate=False, **how)
    result = solve(problem, accelerate=True, engine=Threads(T), batch_size=batch, **how)
    assert plain.converged
    assert result.converged, result
    assert result.lower_bound <= plain.objective
    assert result.objective >= plain.lower_bound
    assert -result.lower_bound == pytest.approx(case.primal(result.solution))
    assert_fits(problem, result.state)


@every_problem
@pytest.mark.parametrize("sampling", ["uniform", "permutation", "gap"])
def test_every_sampling_converges(name, sampling):
    for engine in (Serial(), Sync(2), Threads(2)):
        how = {"engine": engine, "sampling": sampling, "batch_size": None}
        result = run(name, "serial", **how)
        assert result.converged, result
        assert_true(name, result)


@every_problem
@pytest.mark.parametrize("kind", ["serial", "sync", "merge 2"])
def test_the_solution_is_better_the_further_it_is_solved(name, kind):
    """Bounds of runs that are solved to different gaps bracket the same optimum."""
    lows, highs = zip(
        *[
            (result.lower_bound, result.objective)
            for goal in (0.1, 1e-2, 1e-3)
            for result in [run(name, kind, tol=goal)]
        ],
        strict=True,
    )
    assert max(lows) <= min(highs) + accelerated.noise_of(case_of(name).problem)
    below, above = bracket(name)
    assert max(lows) <= above
    assert min(highs) >= below


@pytest.mark.parametrize("name", ["chain", "text", "classes", "classes as vectors"])
def test_far_fewer_passes(name):
    """What acceleration is for."""
    case = case_of(name)
    how = {"tol": 1e-4, "max_epochs": 10**5, "rng": 0, "sampling": "gap"}
    plain = solve(case.problem, accelerate=False, **how)
    fast = solve(case.problem, accelerate=True, **how)
    assert plain.n_outer == 0
    assert plain.reach == 1
    assert fast.n_outer > 0
    assert fast.converged
    assert fast.epochs < 0.5 * plain.epochs


@pytest.mark.parametrize("kind", ["serial", "sync batches", "merge 2"])
def test_exact_steps_by_gap(kind):
    """Rounds of the blocks awake: the certificate is true, and the estimate honest."""
    name = "classes as vectors"
    result = run(name, kind, step="exact", sampling="gap", tol=1e-5)
    assert result.converged
    assert result.n_outer > 0
    below, above = bracket(name)
    assert result.lower_bound <= above
    assert result.objective >= below
    assert result.gap_estimate <= 100 * 1e-5 * case_of(name).problem.scale


def test_far_fewer_passes_towards_minimisers():
    how = {"tol": 1e-5, "max_epochs": 10**4, "rng": 0, "accelerate": True}
    problem = case_of("classes as vectors").problem
    line = solve(problem, step="line", sampling="gap", **how)
    exact = solve(problem, step="exact", sampling="gap", **how)
    assert exact.converged
    assert exact.epochs < 0.7 * line.epochs


def test_the_trace_follows_the_outer_loop():
    result = run("chain", "serial", check_every=1.0, tol=1e-4)
    steps = [row.n_outer for row in result.trace]
    assert steps == sorted(steps)
    assert steps[-1] == result.n_outer == result.state.outer.numbers.steps
    assert result.trace[-1].reach == result.reach == result.state.outer.reach
    assert all(1e-4 <= row.reach <= 0.9 for row in result.trace)
    frame = result.to_frame()
    assert frame["n_outer"].tolist() == steps
    plain = run("chain", "serial", accelerate=False)
    assert {row.n_outer for row in plain.trace} == {0}
    assert {row.reach for row in plain.trace} == {1.0}


def test_no_check_comes_early_unless_the_goal_seems_reached():
    result = run("chain", "serial", tol=1e-4)
    assert result.epochs > 20
    first, second = result.trace[:2]
    assert (first.epoch, second.epoch) == (5.0, 15.0)


def test_memory_is_two_more_v():
    fast, plain = (run("text", "serial", accelerate=on).state for on in (True, False))
    assert fast.outer.anchor.nbytes == fast.outer.last.nbytes == fast.shared.nbytes
    atoms = [
        sum(a.nbytes for a in case_of("text").problem.store.pack(one.blocks).values())
        for one in (fast, plain)
    ]
    assert fast.nbytes - atoms[0] == plain.nbytes - atoms[1] + 2 * fast.shared.nbytes


def test_the_problem_and_the_start_are_left_alone():
    problem = case_of("chain").problem
    before = problem.shared.tobytes(), problem.start.tobytes()
    first = run("chain", "serial", max_epochs=5, tol=0)
    kept = [first.state.shared.tobytes(), first.state.outer.anchor.tobytes()]
    run("chain", "serial", start=first.state)
    assert [first.state.shared.tobytes(), first.state.outer.anchor.tobytes()] == kept
    assert (problem.shared.tobytes(), problem.start.tobytes()) == before
    assert np.isfinite(first.state.outer.last).all()
