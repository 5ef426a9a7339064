"""Accelerated runs that are refused, fail, are stopped, or have nothing left to do."""

import dataclasses
import math
import os
import signal
import threading

import numba
import numpy as np
import pytest
import spy
from accelerated import assert_fits, assert_true, by_hand, case_of
from helpers import random_chains
from limits import HANG_SECONDS
from test_engine_contract import ByHand

import wolfpack
from wolfpack import Delayed, OracleError, Serial, Status, Sync, Threads, delays, solve
from wolfpack.problem import ProblemError
from wolfpack.run import pair

ENGINES = {
    "serial": Serial(),
    "merge": Threads(3),
    "server": Threads(3, mode="server"),
    "lock-free": Threads(3, mode="lock-free"),
    "sync": Sync(3),
}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@pytest.fixture
def problem():
    before = set(threading.enumerate())
    problem = case_of("by hand").problem
    spy.set_fault(problem, spy.NEVER)
    yield problem
    spy.set_fault(problem, spy.NEVER)
    after = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in after if "pytest" not in thread.name]


def endless(problem, engine, **how):
    """A run that only something unusual ends."""
    how = {"tol": 0, "max_epochs": np.inf, "max_seconds": HANG_SECONDS, "rng": 0, **how}
    return solve(problem, engine=engine, accelerate=True, **how)


# What is refused, and where "auto" is off.


def without_value():
    return dataclasses.replace(by_hand().problem, value=None)


REFUSALS = {
    "ridge": (spy.make, {}, r"g\(v\) is c/2 \|v\|\^2, and spy does not say so"),
    "value": (without_value, {}, "needs a problem with a value function"),
    "exact": ("lasso", {"step": "exact", "sampling": "gap"}, "use sampling='permut"),
    "open-loop": ("chain", {"step": "open-loop"}, "step='open-loop' follows a sched"),
    "constant": ("chain", {"step": 0.5}, "step=0.5 follows a schedule"),
    "averaging": ("chain", {"averaging": True}, "average is of plain iterates"),
    "engine": ("by hand", {"engine": ByHand()}, "loops of ByHand do not know"),
}


@pytest.mark.parametrize(("make", "how", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_accelerated(make, how, sentence):
    at = case_of(make).problem if isinstance(make, str) else make()
    with pytest.raises(ValueError, match=sentence) as caught:
        solve(at, accelerate=True, **how)
    assert str(caught.value).startswith("accelerate=True is not possible here: ")
    for wish in ("auto", False):
        result = solve(at, accelerate=wish, tol=0, max_epochs=2, rng=0, **how)
        assert (result.n_outer, result.reach) == (0, 1.0)
        assert result.state.outer is None


@pytest.mark.parametrize("wish", ["yes", "Auto", 1, 0, None, 0.5, "", [True]])
def test_a_wish_that_is_none(wish):
    sentence = "accelerate must be True, False or 'auto', not"
    with pytest.raises(ValueError, match=sentence):
        solve(case_of("chain").problem, accelerate=wish)


def test_auto_means_wherever_it_helps():
    problem = case_of("chain").problem
    how = {"tol": 0, "max_epochs": 3, "rng": 0}
    simulated = Delayed(workers=delays.Workers(2, oracle_seconds=1e-3))
    for engine in (Delayed(delays.poisson(2)), simulated):
        assert solve(problem, engine=engine, **how).state.outer is None
        on = solve(problem, engine=engine, accelerate=True, **how)
        assert on.state.outer is not None
    for engine in ENGINES.values():
        assert solve(problem, engine=engine, **how).state.outer is not None
    sweeps = {"step": "exact", "sampling": "cyclic", **how}
    few = solve(case_of("lasso").problem, **sweeps)
    assert few.state.outer is None  # slopes of few blocks are a poor estimate


@numba.njit
def shifted_value(data, shared):
    return 0.5 * np.square(shared - data.b).sum() + 7.0


@numba.njit
def quartic_value(data, shared):
    return 0.5 * np.square(shared - data.b).sum() ** 2


def ridge_problem(**changes):
    return dataclasses.replace(by_hand().problem, **changes)


def test_check_accepts_a_true_ridge():
    ridge_problem().check()
    ridge_problem(value=shifted_value).check()  # another constant is fine
    ridge_problem(ridge=0.0).check()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ridge": 2.0}, r"ridge is 2, so g\(v\) is 2/2 \|v\|\^2, but slope does not"),
        ({"ridge": 0.5}, "but slope does not fit that: .* instead of .*Set ridge=0"),
        ({"value": quartic_value}, "value rises by .* but its slopes say"),
        ({"ridge": math.nan}, "ridge must be a number >= 0, but is nan"),
        ({"ridge": math.inf}, "ridge must be a number >= 0, but is inf"),
        ({"ridge": -1.0}, "ridge must be a number >= 0, but is -1.0"),
        ({"ridge": "1"}, "ridge must be a number >= 0, but is '1'"),
        ({"ridge": None}, "ridge must be a number >= 0, but is None"),
    ],
)
def test_check_refuses_a_wrong_ridge(changes, sentence):
    ridge_problem().check()  # that this one passed does not help the next
    with pytest.raises(ProblemError, match=sentence):
        ridge_problem(**changes).check()
    with pytest.raises(ProblemError, match=sentence):
        solve(ridge_problem(**changes))


def test_check_refuses_a_ridge_where_g_has_a_linear_part():
    with pytest.raises(ProblemError, match=r"ridge is 1, so g\(v\)"):
        dataclasses.replace(spy.make(), ridge=1.0).check()


# Certificates.


@pytest.mark.parametrize("name", ["chain", "text", "classes", "lasso", "by hand"])
@pytest.mark.parametrize("sampling", ["uniform", "gap"])
def test_a_light_check_agrees_with_one_from_the_atoms(name, sampling, monkeypatch):
    case = case_of(name)
    how = {"tol": 1e-12, "max_epochs": 24, "check_every": 1.0, "rng": 0}
    how |= {"sampling": sampling, "accelerate": True}
    light = solve(case.problem, **how)
    monkeypatch.setattr(pair, "NEAR", math.inf)  # each gap from the atoms
    exact = solve(case.problem, **how)
    for one, two in zip(light.trace, exact.trace, strict=True):
        assert (one.epoch, one.n_outer) == (two.epoch, two.n_outer)
        assert abs(one.gap - two.gap) < 1e-5 * case.problem.scale
        assert one.lower_bound == pytest.approx(two.lower_bound, rel=1e-12)


@every_engine
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (spy.RAISES, "raised ValueError on block 7: there is no path"),
        (spy.IS_NAN, "is NaN or infinite on block 7|returned NaN on block 7"),
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
    how = {"engine": engine, "accelerate": True, "tol": 1e-4, "max_epochs": 10**4}
    more = solve(problem, start=error.state, rng=0, **how)
    assert more.converged
    assert_true("by hand", more)


@every_engine
def test_a_line_search_that_fails(problem, engine):
    spy.set_fault(problem, spy.RAISES_IN_SLOPE, after=500)
    with pytest.raises(OracleError, match="there is no slope") as caught:
        endless(problem, engine)
    spy.assert_sound(problem, caught.value.state)


@every_engine
def test_ctrl_c_keeps_the_iterate(problem, engine):
    begun = threading.Event()

    def press():
        begun.wait(HANG_SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    def callback(event):
        if event.row.n_updates > 0:
            begun.set()

    spy.set_fault(problem, spy.SLEEPS, microseconds=50)
    thread = threading.Thread(target=press)
    thread.start()
    result = endless(problem, engine, callback=callback, check_every=50.0)
    thread.join()
    assert result.status is Status.INTERRUPTED
    assert result.trace[-1].n_updates == result.n_updates > 0
    spy.set_fault(problem, spy.NEVER)
    assert_true("by hand", result)


@every_engine
def test_a_callback_and_a_time_limit_end_with_a_certificate(problem, engine, clock):
    spy.set_fault(problem, spy.SLEEPS, microseconds=50)
    stopped = endless(problem, engine, callback=lambda event: event.row.epoch >= 3)
    assert stopped.status is Status.STOPPED
    looks = clock.looks
    clock.is_late = lambda: clock.looks > looks + 60
    late = endless(problem, engine)
    assert late.status is Status.TIME_LIMIT
    clock.is_late = lambda: False
    spy.set_fault(problem, spy.NEVER)
    for result in (stopped, late):
        assert result.trace[-1].n_updates == result.n_updates > 0
        assert_true("by hand", result)


# Nothing left to do.


@pytest.mark.parametrize("engine", [Serial(), Threads(1)], ids=["serial", "merge"])
@pytest.mark.parametrize(
    ("name", "tol"), [("chain", 0), ("chain", 1e-18), ("lasso", 0), ("lasso", 1e-18)]
)
def test_a_tol_below_rounding_ends(engine, name, tol):
    """In single and in double precision."""
    case = case_of(name)
    how = {"tol": tol, "max_epochs": 10**5, "rng": 0, "accelerate": True}
    result = solve(case.problem, engine=engine, **how)
    assert result.status in (Status.STALLED, Status.CONVERGED), result
    assert result.relative_gap < (1e-5 if name == "chain" else 1e-10)
    assert_true(name, result)


@pytest.mark.parametrize("engine", [Serial(), Sync(2)], ids=str)
@pytest.mark.parametrize("n", [1, 2])
def test_few_blocks(engine, n):
    case = by_hand(n=n)
    how = {"tol": 1e-6, "max_epochs": 10**4, "rng": 0}
    for sampling in ("uniform", "permutation", "gap"):
        fast = solve(
            case.problem, engine=engine, sampling=sampling, accelerate=True, **how
        )
        plain = solve(case.problem, accelerate=False, **how)
        assert fast.converged, fast
        assert fast.lower_bound <= plain.objective
        assert plain.lower_bound <= fast.objective
        assert_fits(case.problem, fast.state)


@pytest.mark.parametrize("alpha", [1e-7, 1e-4, 10.0, 1e6])
@pytest.mark.parametrize("engine", [Serial(), Threads(2)], ids=str)
def test_alpha_huge_or_tiny(engine, alpha):
    X, y = random_chains(np.random.default_rng(1), 30, 3, [1, 2, 3, 4])
    problem = wolfpack.chain_ssvm(X, y, alpha, n_labels=3)
    how = {"engine": engine, "max_epochs": 300, "rng": 0, "tol": 1e-3}
    fast = solve(problem, accelerate=True, **how)
    plain = solve(problem, accelerate=False, **how)
    noise = 1e-5 * problem.scale
    assert fast.lower_bound <= plain.objective + noise
    assert plain.lower_bound <= fast.objective + noise
    if engine.reproducible:  # threads make few outer steps where a pass is so short
        assert fast.gap <= max(how["tol"] * problem.scale, 1.1 * plain.gap)
    # Threads make 300 passes in a moment, and may have no time for a check meanwhile.
    assert_fits(problem, fast.state, times=10 if engine.reproducible else 300)


@every_engine
def test_a_start_that_is_the_optimum(engine):
    """A signal that does not change: U = 0 is the answer."""
    problem = wolfpack.group_fused_lasso(np.full((9, 2), 3.0), 0.4)
    result = solve(problem, engine=engine, accelerate=True, tol=1e-9, rng=0)
    assert result.converged
    assert result.gap == 0
    np.testing.assert_array_equal(result.solution, 3.0)
    small = case_of("by hand").problem
    first = solve(small, tol=1e-4, max_epochs=1000, accelerate=True, rng=0)
    again = solve(small, engine=engine, tol=1e-3, accelerate=True, start=first.state)
    assert again.converged
    assert again.n_updates == first.n_updates
