"""Accelerated runs give the same bits again, go on as if unbroken, and fit in files."""

import dataclasses

import numpy as np
import pytest
import spy
from accelerated import assert_fits, assert_true, by_hand, case_of
from helpers import random_chains
from test_state import bits as plain_bits
from test_state import put, spoil

import wolfpack
from wolfpack import Serial, State, StateError, Sync, Threads, solve
from wolfpack.update.outer import OUTER

NAMES = ["chain", "by hand"]
ENGINES = {"serial": Serial(), "sync": Sync(2)}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
SAMPLINGS = ["uniform", "permutation", "gap"]


@pytest.fixture(autouse=True)
def healthy():
    spy.set_fault(case_of("by hand").problem, spy.NEVER)


def bits(state):
    """Everything that the next update depends on."""
    outer = state.outer
    own = [] if outer is None else [*outer[:2], np.array(outer.numbers)]
    return plain_bits(state) + [array.tobytes() for array in own]


def gaps(result):
    """What the checks of a trace say, by the calls before them."""
    return {row.n_oracle_calls: row.gap for row in result.trace}


@every_engine
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tau", [None, 6])
def test_the_same_seed_gives_the_same_bits(engine, name, sampling, tau):
    how = {"engine": engine, "sampling": sampling, "batch_size": tau, "tol": 0}
    how |= {"max_epochs": 12, "accelerate": True}
    problem = case_of(name).problem
    one, two, other = (solve(problem, rng=seed, **how) for seed in (1, 1, 2))
    assert bits(one.state) == bits(two.state) != bits(other.state)
    assert one.n_outer > 2
    assert gaps(one) == gaps(two)


@every_engine
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tau", [None, 6])
def test_resume_is_exact(engine, name, sampling, tau, tmp_path):
    """Stopped after any pass, in memory or through a file."""
    how = {"engine": engine, "sampling": sampling, "batch_size": tau, "rng": 5}
    how |= {"tol": 1e-12, "accelerate": True}
    problem = case_of(name).problem
    whole = solve(problem, max_epochs=33.3, **how)
    parts, state, checks = [], None, {}
    for k, epochs in enumerate([0, 1, 2, 3, 4.37, 4.38, 6, 7, 8, 9, 13, 26, 33.3]):
        part = solve(problem, max_epochs=epochs, start=state, **how)
        state = part.state
        if k % 2:
            state = State.load(state.save(tmp_path / "state.npz"))
            assert bits(state) == bits(part.state)
        parts.append(part)
        checks |= gaps(part)
    assert bits(state) == bits(whole.state)
    last = parts[-1]
    assert (last.objective, last.gap) == (whole.objective, whole.gap)
    assert (last.reach, last.n_outer) == (whole.reach, whole.n_outer)
    assert whole.n_outer > 3
    # A part ends with a gap from the atoms; the whole run may look at no atom there.
    scale = problem.scale
    for calls, gap in gaps(whole).items():
        assert calls not in checks or abs(checks[calls] - gap) < 1e-5 * scale


@every_engine
@pytest.mark.parametrize("tau", [None, 7])
def test_rounds_go_on_bit_for_bit(engine, tau, tmp_path):
    """Exact steps by gap, stopped within a round, through a file and in memory."""
    how = {"engine": engine, "batch_size": tau, "rng": 5, "tol": 1e-12}
    how |= {"accelerate": True, "step": "exact", "sampling": "gap"}
    problem = case_of("classes as vectors").problem
    whole = solve(problem, max_epochs=20.5, **how)
    state = None
    for k, epochs in enumerate([1, 2.2, 3, 4.37, 9.1, 12, 20.5]):
        state = solve(problem, max_epochs=epochs, start=state, **how).state
        if k % 2:
            state = State.load(state.save(tmp_path / "state.npz"))
    assert bits(state) == bits(whole.state)


def test_rounds_and_other_samplings_go_on_from_each_other():
    problem = case_of("classes as vectors").problem
    state, epochs = None, 0
    for sampling, accelerate in [
        ("gap", True), ("permutation", True), ("gap", True), ("gap", False),
        ("gap", True), ("cyclic", True), ("gap", True),
    ]:  # fmt: skip
        epochs += 3
        result = solve(
            problem, start=state, step="exact", sampling=sampling, tol=0, rng=0,
            accelerate=accelerate, max_epochs=epochs,
        )  # fmt: skip
        state = result.state
        assert_true("classes as vectors", result)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("check_every", [None, 0.4, 1.0, 3.0])
def test_resume_after_a_callback_or_a_time_limit_is_exact(sampling, check_every):
    problem = case_of("chain").problem
    how = {"tol": 1e-12, "max_epochs": 12, "check_every": check_every}
    how |= {"sampling": sampling, "accelerate": True}
    whole = solve(problem, **how, rng=1)
    stopped = solve(problem, **how, rng=1, callback=lambda e: e.row.epoch > 3)
    assert stopped.status is wolfpack.Status.STOPPED
    late = solve(problem, **how, start=stopped.state, max_seconds=1e-9)
    assert late.status is wolfpack.Status.TIME_LIMIT
    end = solve(problem, **how, start=late.state)
    assert bits(end.state) == bits(whole.state)


@pytest.mark.parametrize("sampling", ["uniform", "gap"])
def test_slices_of_time_leave_no_mark(sampling, monkeypatch):
    problem = case_of("chain").problem
    how = {"tol": 0, "max_epochs": 6, "rng": 0, "sampling": sampling}
    expected = bits(solve(problem, **how).state)
    monkeypatch.setattr("wolfpack.run.schedule.SLICE_SECONDS", 1e-9)
    monkeypatch.setattr("wolfpack.run.passes.SLICE_SECONDS", 1e-9)
    assert bits(solve(problem, **how).state) == expected


@pytest.mark.parametrize("name", ["chain", "lasso", "by hand"])
@pytest.mark.parametrize("engine", [Serial(), Sync(2), Threads(2)], ids=str)
def test_plain_and_accelerated_runs_go_on_from_each_other(name, engine, tmp_path):
    case = case_of(name)
    state, goal = None, 0.1
    for is_on in (True, False, False, True, True, False):
        goal = max(0.2 * goal, case.goal)
        how = {"engine": engine, "accelerate": is_on, "tol": goal, "rng": 0}
        result = solve(case.problem, start=state, max_epochs=10**4, **how)
        assert result.converged, result
        assert (result.state.outer is not None) == is_on
        assert_true(name, result)
        state = State.load(result.save(tmp_path / "state.npz"))


def test_the_count_goes_on_and_the_outer_loop_too():
    problem = case_of("chain").problem
    how = {"tol": 0, "accelerate": True, "rng": 0}
    first = solve(problem, max_epochs=10, **how)
    more = solve(problem, max_epochs=20, start=first.state, **how)
    assert more.n_outer > first.n_outer > 0
    assert more.n_oracle_calls == 20 * problem.n_blocks
    plain = solve(problem, max_epochs=25, start=more.state, tol=0, accelerate=False)
    assert (plain.n_outer, plain.reach) == (0, 1.0)
    anew = solve(problem, max_epochs=40, start=plain.state, **how)
    assert anew.n_oracle_calls == 40 * problem.n_blocks
    assert 0 < anew.n_outer <= 15


def test_another_alpha_is_a_warm_start(tmp_path):
    chains = random_chains(np.random.default_rng(1), 30, 3, [1, 2, 3, 4])
    old, new = (wolfpack.chain_ssvm(*chains, a, n_labels=3) for a in (0.02, 0.018))
    how = {"accelerate": True, "rng": 0}
    first = solve(old, tol=1e-4, max_epochs=1000, **how)
    start = State.load(first.save(tmp_path / "state.npz"))
    cold = solve(new, tol=0, max_epochs=0, **how)
    warm = solve(new, tol=0, max_epochs=0, start=start, **how)
    assert 0 <= warm.gap < 0.2 * cold.gap
    assert (warm.n_updates, warm.n_outer) == (0, 0)
    assert_fits(new, warm.state)
    more = solve(new, tol=1e-4, max_epochs=1000, start=start, **how)
    assert more.converged
    assert more.epochs < solve(new, tol=1e-4, max_epochs=1000, **how).epochs
    plain = solve(new, tol=1e-4, max_epochs=10**4, accelerate=False, rng=0)
    assert more.lower_bound <= plain.objective
    assert plain.lower_bound <= more.objective


# Files.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    problem = case_of("chain").problem
    result = solve(problem, max_epochs=6, tol=0, rng=0, accelerate=True)
    assert result.n_outer > 1
    return problem, result.save(tmp_path_factory.mktemp("state") / "good")


def number(name, value):
    return {"outer_numbers": put(value, OUTER.names.index(name))}


SPOILS = {
    **{
        f"{name} {x}": number(name, x)
        for name in ("reach", "most")
        for x in (0, -0.5, 2, 1e-300, 9e-5, np.nan, np.inf)
    },
    **{
        f"{name} {x}": number(name, x)
        for name in ("inner", "largest", "least")
        for x in (-1, np.nan)
    },
    **{f"first {x}": number("first", x) for x in (-np.inf, np.nan)},
    **{f"bias {x}": number("bias", x) for x in (0, 0.9, np.nan, np.inf)},
    **{
        f"{name} {x}": number(name, x)
        for name in OUTER.names
        if OUTER[name].kind == "i"
        for x in (-1, 10**9, np.nan, np.inf)
    },
    "a number less": {"outer_numbers": lambda a: a[:-1]},
    "a number more": {"outer_numbers": lambda a: np.append(a, 1.0)},
    "numbers of another kind": {"outer_numbers": lambda a: a.astype(np.float32)},
    "numbers in a table": {"outer_numbers": lambda a: a[None]},
    "no numbers": {"outer_numbers": lambda a: np.array("six")},
    "z NaN": {"outer_anchor": put(np.nan)},
    "z infinite": {"outer_anchor": put(np.inf)},
    "w NaN": {"outer_last": put(np.nan)},
    "z of another shape": {"outer_anchor": lambda a: a[:-1]},
    "w of another shape": {"outer_last": lambda a: a.ravel()},
    "z in double precision": {"outer_anchor": lambda a: a.astype(float)},
    "w of objects": {"outer_last": lambda a: np.array([{}], dtype=object)},
}


@pytest.mark.parametrize("changes", SPOILS.values(), ids=SPOILS)
def test_a_spoilt_outer_loop_is_refused(saved, changes, tmp_path):
    with pytest.raises(StateError, match=r"bad\.npz is damaged") as caught:
        State.load(spoil(saved[1], tmp_path / "bad.npz", **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["outer_anchor", "outer_last"])
def test_a_file_that_lacks_a_part_is_refused(saved, name, tmp_path):
    with np.load(saved[1]) as file:
        arrays = {key: file[key] for key in file.files if key != name}
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(StateError, match=f"it lacks {name}"):
        State.load(tmp_path / "bad.npz")


def test_a_file_of_before_the_outer_loop_is_read(saved, tmp_path):
    problem = saved[0]
    plain = solve(problem, max_epochs=6, tol=0, rng=0, accelerate=False)
    with np.load(plain.save(tmp_path / "old")) as file:
        assert not [key for key in file.files if key.startswith("outer")]
    state = State.load(tmp_path / "old.npz")
    assert state.outer is None
    more = solve(problem, start=state, accelerate=True, tol=1e-3, max_epochs=1000)
    assert_true("chain", more)
    assert more.n_outer > 0


def test_a_v_that_does_not_fit_is_made_anew(saved, tmp_path):
    problem, path = saved
    bad = spoil(path, tmp_path / "bad.npz", shared=lambda a: 0 * a)
    how = {"accelerate": True, "tol": 1e-3, "max_epochs": 1000}
    result = solve(problem, start=State.load(bad), **how)
    assert result.converged
    assert_true("chain", result)
    for name in ("outer_anchor", "outer_last"):  # a foreign z is only a poor start
        bad = spoil(path, tmp_path / "bad.npz", **{name: lambda a: 1.5 * a})
        result = solve(problem, start=State.load(bad), **how)
        assert result.converged
        assert_true("chain", result)


def test_the_outer_loop_of_another_problem_is_not_taken(saved):
    chains = random_chains(np.random.default_rng(9), 30, 3, [2])
    other = wolfpack.chain_ssvm(*chains, 0.02, n_labels=3)
    with pytest.raises(StateError, match="blocks of another problem"):
        solve(other, start=State.load(saved[1]))


def test_a_state_may_go_to_a_problem_without_ridge():
    """The same problem, whose maker took the ridge back, goes on with plain steps."""
    problem = by_hand().problem
    first = solve(problem, tol=1e-2, accelerate=True, rng=0)
    without = dataclasses.replace(problem, ridge=0.0)
    result = solve(without, start=first.state, tol=1e-4, max_epochs=10**5)
    assert result.converged
    assert result.n_outer == 0
    spy.assert_sound(without, result.state)
