"""`Sync`: rounds in which all workers wait for each other; the same bits each time."""

import numpy as np
import pytest
import spy
from accelerated import case_of
from helpers import random_chains

import wolfpack
from wolfpack import Serial, State, Sync, solve
from wolfpack.engines.shared_memory.choice import APART
from wolfpack.engines.shared_memory.seats import AWAY
from wolfpack.engines.sync import SyncSession
from wolfpack.stores import STORES
from wolfpack.update.plan import Exit

LASSO = wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=60, d=3, rng=0)[0], 0.5)


@pytest.fixture(scope="module")
def problem():
    return spy.make()


@pytest.fixture(autouse=True)
def healthy(problem):
    spy.set_fault(problem, spy.NEVER)


def bits(state):
    """Everything that the next update depends on."""
    store = STORES[state.keeps]
    arrays = [*store.pack(state.blocks).values(), state.shared, state.average]
    progress = state.progress
    numbers = [progress[name] for name in progress.dtype.names if name != "at"]
    arrays += [*state.sampler, np.array(numbers)]
    return [array.tobytes() for array in arrays] + [str(state.rng.bit_generator.state)]


def pick(problem, name):
    known = {"spy": problem, "lasso": LASSO}
    return known[name] if name in known else case_of(name).problem


@pytest.mark.parametrize("name", ["spy", "lasso"])
@pytest.mark.parametrize("T", [1, 2, 5])
@pytest.mark.parametrize("sampling", ["uniform", "permutation", "gap", "cyclic"])
@pytest.mark.parametrize("averaging", [False, True])
def test_the_same_seed_gives_the_same_bits(problem, name, T, sampling, averaging):
    def run(seed):
        return solve(
            pick(problem, name), engine=Sync(T), batch_size=7, sampling=sampling,
            averaging=averaging, tol=0, max_epochs=9, rng=seed,
        )  # fmt: skip

    one, two = run(1), run(1)
    assert bits(one.state) == bits(two.state)
    assert one.objective == two.objective
    assert [row.epoch for row in one.trace] == [row.epoch for row in two.trace]
    assert bits(run(2).state) != bits(one.state)


@pytest.mark.parametrize("name", ["spy", "lasso"])
@pytest.mark.parametrize("T", [2, 5])
@pytest.mark.parametrize(
    ("sampling", "averaging"),
    [("uniform", False), ("permutation", True), ("gap", True), ("cyclic", True)],
)
def test_resume_is_exact(problem, name, T, sampling, averaging, tmp_path):
    how = {
        "engine": Sync(T), "batch_size": 6, "sampling": sampling,
        "averaging": averaging, "tol": 0,
    }  # fmt: skip
    at = pick(problem, name)
    whole = solve(at, **how, max_epochs=10, rng=5)
    state = None
    for epochs in (2.37, 5, 10):
        part = solve(at, **how, max_epochs=epochs, rng=5, start=state)
        state = State.load(part.save(tmp_path / "state"))
    assert bits(state) == bits(whole.state)
    assert part.objective == whole.objective


def test_resume_after_a_time_limit_is_exact(problem, clock):
    how = {"engine": Sync(2), "tol": 0, "max_epochs": 400}
    whole = solve(problem, **how, rng=1)
    spy.set_fault(problem, spy.SLEEPS, microseconds=2000)
    clock.is_late = lambda: problem.data.calls.sum() > 300
    late = solve(problem, **how, rng=1, max_seconds=1e5)
    assert late.status is wolfpack.Status.TIME_LIMIT
    assert 0 < late.n_updates < whole.n_updates
    spy.set_fault(problem, spy.NEVER)
    end = solve(problem, **how, start=late.state)
    assert bits(end.state) == bits(whole.state)


@pytest.mark.parametrize("name", ["spy", "lasso"])
@pytest.mark.parametrize(
    ("tau", "T"), [(1, 1), (1, 5), (6, 2), (7, 3), (40, 5), (4, 5)]
)
def test_it_makes_the_updates_of_one_thread(problem, name, tau, T):
    """As long as sums in another order do not matter, workers do not either."""
    at = pick(problem, name)
    how = {"batch_size": tau, "tol": 0, "max_epochs": 3, "rng": 3}
    one, many = solve(at, **how, engine=Serial()), solve(at, **how, engine=Sync(T))
    assert many.n_updates == one.n_updates
    assert many.n_oracle_calls == one.n_oracle_calls == tau * one.n_updates
    np.testing.assert_allclose(many.state.shared, one.state.shared, atol=1e-9)
    assert many.objective == pytest.approx(one.objective, abs=1e-9 * at.scale)
    assert many.n_workers == min(T, tau)
    assert many.n_collisions == many.n_dropped == many.n_lost == 0


def test_stragglers_and_hard_oracles_change_no_bit(problem):
    how = {"batch_size": 6, "tol": 0, "max_epochs": 60, "rng": 0}
    plain = solve(problem, engine=Sync(3), **how)
    lossy = solve(problem, engine=Sync(3, return_probability=0.25), **how)
    hard = solve(problem, engine=Sync(3, oracle_repeats=(2, 5)), **how)
    assert bits(lossy.state) == bits(hard.state) == bits(plain.state)
    assert plain.n_lost == hard.n_lost == 0
    found = lossy.n_lost / lossy.n_oracle_calls  # (1 - p) / p
    assert found == pytest.approx(3, rel=0.2)
    slow = solve(problem, engine=Sync(3, return_probability=(1, 1, 0.1)), **how)
    assert bits(slow.state) == bits(plain.state)
    assert slow.n_lost / (slow.n_oracle_calls / 3) == pytest.approx(9, rel=0.3)


def test_every_block_is_solved_once_a_batch_of_all(problem):
    n = problem.n_blocks
    result = solve(problem, engine=Sync(3), batch_size=n, tol=0, max_epochs=5, rng=0)
    assert (problem.data.calls == 5 + len(result.trace)).all()
    assert result.n_updates == 5


@pytest.mark.parametrize(("n", "T"), [(1, 1), (1, 5), (3, 5), (40, 16)])
def test_more_workers_than_blocks_or_cores(n, T):
    small = spy.make(n, seed=n)
    below, above = spy.optimum(small, tol=1e-3)
    result = solve(small, engine=Sync(T), tol=1e-2, max_epochs=10**5, rng=0)
    assert result.converged
    assert below - 1e-12 <= result.objective
    assert result.lower_bound <= above + 1e-12
    assert result.n_workers == min(n, T)
    spy.assert_sound(small, result.state)


def test_the_estimate_is_the_same_wherever_a_slice_ends(monkeypatch):
    """It ends early when the pool is full, at an update that depends on timing."""
    X, y = random_chains(np.random.default_rng(0), 60, 5, [3, 6, 9], unit=False)
    problem = wolfpack.chain_ssvm(X, y, alpha=0.1, n_labels=5)
    how = {"step": 0.05, "batch_size": 2, "max_epochs": 12, "tol": 0}

    def estimates():
        results = [
            solve(problem, engine=Sync(2), accelerate=False, rng=seed, **how)
            for seed in range(5)
        ]
        return [[row.gap_estimate for row in result.trace] for result in results]

    expected, whole = estimates(), SyncSession.advance

    def split(session, run, calls):
        first = calls // 4 * 2  # whole updates
        ended = whole(session, run, first) if first else Exit.DONE
        return whole(session, run, calls - first) if ended == Exit.DONE else ended

    monkeypatch.setattr(SyncSession, "advance", split)
    assert estimates() == expected


@pytest.mark.parametrize("name", ["spy", "lasso", "chain", "text"])
@pytest.mark.parametrize("present", [0, 2])
def test_one_thread_does_the_shares_of_those_without_a_core(
    problem, name, present, monkeypatch
):
    """On a busy machine most threads wait for a core; here they never get one."""
    how = {"engine": Sync(3), "batch_size": 7, "tol": 0, "max_epochs": 9, "rng": 1}
    expected, work = solve(pick(problem, name), **how), SyncSession.run_worker

    def run_worker(session, run, t, task):
        if t == present:
            work(session, run, t, task)
        else:
            session.seats.words[t * APART] = AWAY

    monkeypatch.setattr(SyncSession, "run_worker", run_worker)
    assert bits(solve(pick(problem, name), **how).state) == bits(expected.state)
