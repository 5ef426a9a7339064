"""What `Threads` counts, how it draws and plays, and how its runs go on."""

import numpy as np
import pytest
import spy

import wolfpack
from wolfpack import Serial, State, Sync, Threads, solve

MODES = ["merge", "server", "lock-free"]
LASSO = wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=60, d=3, rng=0)[0], 0.5)


@pytest.fixture(scope="module")
def problem():
    return spy.make()


@pytest.fixture(scope="module")
def bounds(problem):
    return spy.optimum(problem)


@pytest.fixture(autouse=True)
def healthy(problem):
    spy.set_fault(problem, spy.NEVER)


def assert_solved(result, bounds):
    below, above = bounds
    assert result.converged
    assert result.lower_bound <= above + 1e-12
    assert result.objective >= below - 1e-12


# What it counts.


@pytest.mark.parametrize("T", [1, 2, 5])
@pytest.mark.parametrize("mode", MODES)
def test_the_histogram_counts_every_update(problem, mode, T):
    engine = Threads(T, mode=mode)
    tau = {"server": 4}.get(mode)
    result = solve(problem, engine=engine, batch_size=tau, tol=0, max_epochs=50, rng=0)
    delay, counts = result.delay, result.delay.histogram
    assert result.n_updates > 0
    assert counts.sum() == result.n_updates * (tau or 1)
    assert (counts >= 0).all()
    assert counts[-1] > 0
    if delay.maximum < 255:
        assert len(counts) == delay.maximum + 1
        assert delay.mean == pytest.approx(
            counts @ np.arange(len(counts)) / counts.sum()
        )
    else:
        assert len(counts) == 256
    assert 0 <= delay.mean <= delay.maximum
    if T == 1 and mode != "server":  # there is no other worker
        assert delay.maximum == result.n_dropped == result.n_collisions == 0


@pytest.mark.parametrize("engine", [*[Threads(2, mode=m) for m in MODES], Sync(2)])
def test_the_memory_of_a_worker_is_counted(problem, engine):
    """Its room for v, where it has one, is part of it."""
    few, many = (
        solve(at, engine=engine, max_epochs=1, rng=0).bytes_per_worker
        for at in (problem, spy.make(d=50, m=9))
    )
    assert 0 < few < many


def test_nothing_is_delayed_where_nobody_is_waited_for(problem):
    for engine in (Serial(), Sync(2)):
        assert solve(problem, engine=engine, tol=0, max_epochs=3, rng=0).delay is None


@pytest.mark.parametrize(
    ("mode", "tau"), [("merge", 4), ("server", 4), ("lock-free", 1)]
)
@pytest.mark.parametrize("epochs", [0, 1, 20])
def test_it_stops_soon_after_the_epochs(problem, mode, tau, epochs):
    """What is on its way may come on top, and what workers have not reported yet."""
    n, T = problem.n_blocks, 2
    how = {"engine": Threads(T, mode=mode), "batch_size": tau, "tol": 0}
    spy.set_fault(problem, spy.SLEEPS, microseconds=200)  # both work all along
    result = solve(problem, **how, max_epochs=epochs, rng=0)
    assert result.status is wolfpack.Status.EPOCH_LIMIT
    assert result.epochs == result.n_oracle_calls / n
    if mode == "server":  # it counts each message, and ends with a whole batch
        more = tau + result.n_collisions + result.n_dropped
    else:  # a worker reports every eighth of its calls, after 32 at the latest
        more = tau + T * min(32, 1 + epochs * n // (8 * T))
    assert epochs * n <= result.n_oracle_calls <= epochs * n + (more if epochs else 0)


@pytest.mark.parametrize("mode", MODES)
def test_checks_come_no_more_often_than_asked(mode):
    how = {"engine": Threads(2, mode=mode), "tol": 0, "max_epochs": 10**4, "rng": 0}
    result = solve(LASSO, accelerate=False, **how, check_every=1e9)
    assert len(result.trace) == 2  # the start and the end


def test_calls_of_the_server_are_accounted_for(problem):
    for T, tau in ((1, 1), (2, 7), (5, 20), (3, 40)):
        result = solve(
            problem, engine=Threads(T, mode="server"), batch_size=tau, tol=0,
            max_epochs=100, rng=T,
        )  # fmt: skip
        waste = result.n_collisions + result.n_dropped
        assert result.n_oracle_calls == tau * result.n_updates + waste
        if tau == 1:
            assert result.n_collisions == 0


@pytest.mark.parametrize("tau", [10, 20, 36])
def test_collisions_follow_proposition_1(problem, tau):
    n = problem.n_blocks
    result = solve(
        problem, engine=Threads(2, mode="server"), batch_size=tau, tol=0, rng=0,
        max_epochs=3000,
    )  # fmt: skip
    i = np.arange(tau)
    calls = tau + (i / (n - i)).sum()  # a draw hits a new block with chance (n - i) / n
    spread = np.sqrt(((i / n) / (1 - i / n) ** 2).sum() / result.n_updates)
    found = (result.n_oracle_calls - result.n_dropped) / result.n_updates
    assert abs(found - calls) < 5 * spread
    assert result.n_collisions / result.n_updates == pytest.approx(found - tau)


def test_updates_older_than_half_of_all_are_dropped(problem, monkeypatch):
    """One call lasts for as long as `calls` of them take the other worker."""
    monkeypatch.setattr("wolfpack.run.schedule.LEAST_CALLS", 10**7)  # a single slice
    how = {"engine": Threads(2, mode="server"), "batch_size": 1, "tol": 0}
    how |= {"check_every": 1e9, "rng": 0}
    spy.set_fault(problem, spy.LAGS, block=7, after=1, calls=20_000)
    first = solve(problem, **how, max_epochs=750)
    assert first.n_updates > 20_000
    assert first.n_dropped > 0
    assert 2 * first.delay.maximum <= first.n_updates
    spy.set_fault(problem, spy.LAGS, block=7, after=1, calls=5_000)
    more = solve(problem, **how, max_epochs=1500, start=first.state)
    assert more.delay.maximum > 4_000  # late, but not by half: it is taken
    assert 2 * more.delay.maximum <= more.n_updates


# How it draws.


@pytest.mark.parametrize("mode", ["merge", "lock-free"])
@pytest.mark.parametrize(
    ("sampling", "T"),
    # Threads that shuffle one order have tests in `test_hangs`.
    [
        *[(kind, T) for kind in ("uniform", "gap", "cyclic") for T in (1, 2, 5)],
        ("permutation", 1),
    ],
)
def test_every_block_is_visited(problem, bounds, mode, sampling, T):
    engine = Threads(T, mode=mode)
    result = solve(
        problem, engine=engine, sampling=sampling, tol=0, max_epochs=400, rng=0
    )
    visits = problem.data.calls - len(result.trace)
    assert visits.min() > 0
    spy.assert_sound(problem, result.state)
    more = solve(
        problem, engine=engine, sampling=sampling, tol=1e-4, max_epochs=10**5, rng=0,
    )  # fmt: skip
    assert_solved(more, bounds)


def test_a_permutation_visits_each_block_once_a_pass(problem):
    result = solve(
        problem, engine=Threads(1, mode="lock-free"), sampling="permutation", tol=0,
        max_epochs=6, rng=0,
    )  # fmt: skip
    visits = problem.data.calls - len(result.trace)
    assert visits.min() == 6
    assert visits.sum() == result.n_oracle_calls < 7 * problem.n_blocks
    assert visits.max() <= 7  # the few of the next pass


# Odd sizes.


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n", "T"), [(1, 1), (1, 5), (3, 5), (40, 16)])
def test_more_workers_than_blocks_or_cores(mode, n, T):
    small = spy.make(n, seed=n)
    result = solve(
        small, engine=Threads(T, mode=mode), tol=1e-2, max_epochs=10**5, rng=0
    )
    assert_solved(result, spy.optimum(small, tol=1e-3))
    spy.assert_sound(small, result.state)
    assert 1 <= result.n_workers <= T


@pytest.mark.parametrize("mode", ["merge", "server"])
@pytest.mark.parametrize(("tau", "T"), [(7, 2), (3, 5), (40, 3), (1, 2), (39, 16)])
def test_batches_that_do_not_divide(problem, bounds, mode, tau, T):
    result = solve(
        problem, engine=Threads(T, mode=mode), batch_size=tau, tol=1e-4, rng=0,
        max_epochs=10**5,
    )  # fmt: skip
    assert_solved(result, bounds)


# How it plays.


def test_hard_oracles_are_called_again(problem):
    for repeats in ((3, 3), (1, 3)):
        spy.set_fault(problem, spy.NEVER)
        engine = Threads(1, mode="lock-free", oracle_repeats=repeats)
        result = solve(problem, engine=engine, tol=0, max_epochs=100, rng=0)
        total = problem.data.calls.sum() - problem.n_blocks * len(result.trace)
        if repeats == (3, 3):
            assert total == 3 * result.n_oracle_calls
        else:  # 2 on average, of variance 2/3
            error = 5 * np.sqrt(2 / 3 * result.n_oracle_calls)
            assert abs(total - 2 * result.n_oracle_calls) < error


@pytest.mark.parametrize("mode", MODES)
def test_a_hard_oracle_leads_to_the_same_optimum(problem, bounds, mode):
    engine = Threads(2, mode=mode, oracle_repeats=(5, 15))
    assert_solved(solve(problem, engine=engine, tol=1e-4, max_epochs=10**5), bounds)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chance", [0.25, (0.5, 0.1)])  # of all, or of each worker
def test_lost_answers_are_counted(problem, bounds, mode, chance):
    engine = Threads(2, mode=mode, return_probability=chance)
    result = solve(problem, engine=engine, tol=0, max_epochs=300, rng=0)
    assert result.n_lost > 0
    if chance == 0.25 and mode == "lock-free":
        found = result.n_lost / result.n_oracle_calls
        assert found == pytest.approx(3, rel=0.1)  # (1 - p) / p
    more = solve(problem, engine=engine, tol=1e-4, max_epochs=10**5, rng=0)
    assert_solved(more, bounds)
    assert solve(problem, engine=Threads(2, mode=mode), max_epochs=9).n_lost == 0


# Going on.


@pytest.mark.parametrize("sampling", ["uniform", "gap", "cyclic"])
@pytest.mark.parametrize("name", ["spy", "lasso"])
@pytest.mark.parametrize("mode", MODES)
def test_runs_go_on_from_each_other(problem, mode, name, sampling, tmp_path):
    if mode == "server" and sampling != "uniform":
        pytest.skip("refused: see test_refusals_of_engines")
    at = {"spy": problem, "lasso": LASSO}[name]
    state, objective, epochs = None, np.inf, 0
    for engine in (Threads(2, mode=mode), Serial(), Threads(3, mode=mode), Sync(2)):
        epochs += 200
        result = solve(
            at, engine=engine, sampling=sampling, tol=0, max_epochs=epochs, rng=0,
            start=state, accelerate=False,
        )  # fmt: skip
        assert result.objective <= objective + 1e-6 * at.scale
        if result.status is wolfpack.Status.EPOCH_LIMIT:
            assert result.n_oracle_calls >= epochs * at.n_blocks
        state, objective = State.load(result.save(tmp_path / "s")), result.objective
        assert state.n_oracle_calls == result.n_oracle_calls
        np.testing.assert_array_equal(state.shared, result.state.shared)
    assert result.relative_gap < 1e-2
