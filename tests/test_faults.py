"""Oracles that fail, people who interrupt, and runs side by side: no thread is left."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import spy
from limits import HANG_SECONDS
from threadpoolctl import threadpool_info, threadpool_limits

import wolfpack
from wolfpack import OracleError, Serial, Status, Sync, Threads, solve

ENGINES = {
    "serial": Serial(),
    "merge alone": Threads(1),
    "merge": Threads(3),
    "server": Threads(3, mode="server"),
    "lock-free": Threads(3, mode="lock-free"),
    "sync": Sync(3),
}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@pytest.fixture(scope="module")
def compiled():
    """The problem, with all loops compiled, so that time can be told."""
    problem = spy.make()
    for engine in ENGINES.values():
        solve(problem, engine=engine, max_epochs=1, rng=0)
    return problem


@pytest.fixture
def problem(compiled):
    before = set(threading.enumerate())
    spy.set_fault(compiled, spy.NEVER)
    yield compiled
    spy.set_fault(compiled, spy.NEVER)
    after = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in after if "pytest" not in thread.name]


def endless(problem, engine, **how):
    """A run that only something unusual ends."""
    how = {"tol": 0, "max_epochs": np.inf, "max_seconds": HANG_SECONDS, "rng": 0, **how}
    return solve(problem, engine=engine, **how)


# Oracles that fail.


@every_engine
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (spy.RAISES, "raised ValueError on block 7: there is no path"),
        (spy.IS_NAN, "is NaN or infinite on block 7"),
        (spy.LEAVES, "outside the feasible set on block 7"),
    ],
)
def test_a_block_that_fails_is_named(problem, engine, kind, sentence):
    spy.set_fault(problem, kind, block=7, after=5)
    with pytest.raises(OracleError, match=sentence) as caught:
        endless(problem, engine)
    error = caught.value
    assert error.block == 7
    assert error.state.n_updates > 0
    spy.assert_sound(problem, error.state)
    spy.set_fault(problem, spy.NEVER)
    more = solve(
        problem, engine=engine, start=error.state, tol=1e-4, max_epochs=10**5, rng=0
    )
    assert more.converged
    below, above = spy.optimum(problem)
    assert more.objective >= below - 1e-12
    assert more.lower_bound <= above + 1e-12


@every_engine
def test_all_blocks_may_fail_at_once(problem, engine):
    spy.set_fault(problem, spy.RAISES, block=-1, after=5)
    with pytest.raises(OracleError, match="raised ValueError on block") as caught:
        endless(problem, engine)
    assert 0 <= caught.value.block < problem.n_blocks
    spy.assert_sound(problem, caught.value.state)


def test_the_server_names_the_block_at_fault(problem):
    spy.set_fault(problem, spy.IS_NAN, block=7, after=2)
    with pytest.raises(OracleError, match="on block 7") as caught:
        endless(problem, ENGINES["server"], batch_size=problem.n_blocks)
    assert caught.value.block == 7


@every_engine
def test_an_oracle_that_fails_in_the_first_check(problem, engine):
    spy.set_fault(problem, spy.RAISES, block=7)
    with pytest.raises(OracleError, match="raised ValueError on block 7") as caught:
        endless(problem, engine)
    assert caught.value.block == 7
    assert caught.value.state.n_updates == 0


@every_engine
def test_a_line_search_that_fails(problem, engine):
    spy.set_fault(problem, spy.RAISES_IN_SLOPE, after=500)
    with pytest.raises(OracleError, match="there is no slope") as caught:
        endless(problem, engine)
    spy.assert_sound(problem, caught.value.state)


@every_engine
def test_the_others_do_not_wait_for_one_that_failed(problem, engine):
    """The block fails while the other workers sleep in theirs."""
    spy.set_fault(problem, spy.SLEEPS, after=1, microseconds=20_000)
    stop = threading.Timer(0.5, problem.data.fault.__setitem__, (0, spy.RAISES))
    stop.start()
    with pytest.raises(OracleError, match="there is no path"):
        endless(problem, engine)
    stop.join()


# People who interrupt.


@every_engine
def test_the_time_limit_holds_for_slow_oracles(engine, clock):
    """The limit passes in the middle of a slice that no decision ends."""
    slow = spy.make(30)
    spy.set_fault(slow, spy.SLEEPS, after=1, microseconds=10_000)
    clock.is_late = lambda: slow.data.calls.sum() > 30 + 5  # a check, and updates
    result = endless(slow, engine, max_seconds=1e5, check_every=1e9)
    assert result.status is Status.TIME_LIMIT
    assert result.n_oracle_calls > 0
    spy.assert_sound(slow, result.state)


@every_engine
def test_the_callback_stops_it(problem, engine):
    spy.set_fault(problem, spy.SLEEPS, after=1, microseconds=1000)
    seen = []

    def callback(event):
        seen.append(event.checked)
        return not event.checked  # at the first sign of life between checks

    result = endless(problem, engine, callback=callback, check_every=1e9)
    assert result.status is Status.STOPPED
    assert seen.count(False) == 1
    spy.assert_sound(problem, result.state)


@every_engine
@pytest.mark.parametrize("checked", [True, False])
def test_an_error_of_the_callback_is_raised(problem, engine, checked):
    spy.set_fault(problem, spy.SLEEPS, after=1, microseconds=1000)

    def callback(event):
        if event.checked == checked:
            raise ZeroDivisionError("mine")

    every = None if checked else 1e9
    with pytest.raises(ZeroDivisionError, match="mine"):
        endless(problem, engine, callback=callback, check_every=every)


@every_engine
def test_signs_of_life_show_progress(problem, engine):
    spy.set_fault(problem, spy.SLEEPS, after=1, microseconds=1000)
    calls = []

    def callback(event):
        if not event.checked:
            calls.append(event.row.n_oracle_calls)
        return len(calls) == 3

    endless(problem, engine, callback=callback, check_every=1e9)
    assert calls == sorted(set(calls))  # each time there are more
    assert calls[0] > 0


@every_engine
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_iterate(problem, engine, number):
    spy.set_fault(problem, spy.SLEEPS, after=1, microseconds=1000)
    before, begun = signal.getsignal(number), threading.Event()

    def press():
        begun.wait(HANG_SECONDS)
        os.kill(os.getpid(), number)

    def callback(event):
        if event.row.n_updates > 0:
            begun.set()

    thread = threading.Thread(target=press)
    thread.start()
    result = endless(problem, engine, callback=callback)
    thread.join()
    assert result.status is Status.INTERRUPTED
    assert result.n_updates > 0
    assert result.trace[-1].n_oracle_calls == result.n_oracle_calls
    assert result.signal == number
    spy.assert_sound(problem, result.state)
    assert signal.getsignal(number) is before


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np, spy, wolfpack
problem = spy.make()
spy.set_fault(problem, spy.SLEEPS, after=1, microseconds=1000)
result = wolfpack.solve(problem, engine=wolfpack.{engine}, tol=0, max_epochs=np.inf,
    callback=lambda event: print("alive", flush=True))
print(result.status.name, result.n_updates > 0)
"""


@pytest.mark.parametrize("engine", ["Threads(3)", "Sync(2)"])
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_ends_after_a_signal(compiled, engine, number):
    code = SCRIPT.format(tests=str(Path(__file__).parent), engine=engine)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    for _ in range(3):
        assert process.stdout.readline() == "alive\n"
    process.send_signal(number)
    rest, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, errors
    assert rest.splitlines()[-1] == "INTERRUPTED True"


# Runs side by side.


@pytest.mark.parametrize("kind", ["merge", "server", "lock-free", "sync"])
def test_two_runs_do_not_disturb_each_other(problem, kind):
    problems = [problem, spy.make(seed=1), spy.make(25, seed=2)]
    bounds = [spy.optimum(one) for one in problems]
    found = [None] * len(problems)

    def work(k):
        how = {"tol": 1e-4, "max_epochs": 10**5, "check_every": 50.0, "rng": k}
        found[k] = solve(problems[k], engine=ENGINES[kind], **how)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, result, (below, above) in zip(problems, found, bounds, strict=True):
        assert result.converged
        assert result.objective >= below - 1e-12
        assert result.lower_bound <= above + 1e-12
        spy.assert_sound(one, result.state)
    if kind == "sync":
        alone = solve(problem, engine=ENGINES[kind], tol=1e-4, max_epochs=10**5,
                      check_every=50.0, rng=0)  # fmt: skip
        assert alone.state.shared.tobytes() == found[0].state.shared.tobytes()


def blas():
    infos = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return [info["num_threads"] for info in infos]


@pytest.mark.parametrize("engine", [Threads(2), Sync(2)])
def test_blas_has_one_thread_during_a_run(problem, engine):
    spy.set_fault(problem, spy.SLEEPS, after=1, microseconds=1000)
    seen = {True: set(), False: set()}  # at checks, and while the workers work

    def callback(event):
        seen[event.checked].update(blas())
        return not event.checked

    with threadpool_limits(2, "blas"):
        before = blas()
        if 2 not in before:
            pytest.skip("NumPy has no BLAS that threadpoolctl can give two threads")
        endless(problem, engine, callback=callback, check_every=1e9)
        assert blas() == before
        with pytest.raises(ZeroDivisionError):
            solve(problem, engine=engine, callback=lambda event: 1 / 0)
        assert blas() == before
    assert seen == {True: {1}, False: {1}}


def test_a_thread_that_is_not_the_main_one_may_solve(problem):
    found = []
    how = {"tol": 1e-4, "max_epochs": 10**5, "rng": 0}
    thread = threading.Thread(
        target=lambda: found.append(solve(problem, engine=Threads(2), **how))
    )
    thread.start()
    thread.join()
    assert found[0].status is wolfpack.Status.CONVERGED
