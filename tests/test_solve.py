"""How a run starts, reports, checks and stops."""

import itertools
import math
import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import random_chains
from limits import HANG_SECONDS

import wolfpack
from wolfpack import OracleError, Status, solve
from wolfpack.run import stopping

rng = np.random.default_rng(0)
Y = rng.normal(size=(21, 2)).cumsum(axis=0)  # 20 blocks
ALPHA = 0.4


@pytest.fixture(scope="module")
def lasso():
    return wolfpack.group_fused_lasso(Y, ALPHA)


@pytest.fixture(scope="module")
def chain():
    X, y = random_chains(rng, 25, 4, [1, 2, 3])
    return wolfpack.chain_ssvm(X, y, 0.05, n_labels=4)


def is_feasible(state):
    return np.linalg.norm(state.blocks.points, axis=1).max() <= ALPHA * (1 + 1e-9)


# Why it stops.


@pytest.mark.parametrize("step", ["line", "exact", "open-loop"])
def test_it_stops_at_the_gap(lasso, step):
    result = solve(lasso, step=step, tol=1e-3, max_epochs=5000, rng=0)
    assert result.status is Status.CONVERGED
    assert result.converged
    assert result.gap <= 1e-3 * lasso.scale
    assert result.relative_gap == result.gap / lasso.scale
    before = [row.gap for row in result.trace[:-1]]
    assert all(gap > 1e-3 * lasso.scale for gap in before)


@pytest.mark.parametrize(
    ("epochs", "tau", "updates"),
    [(0, 1, 0), (3, 1, 60), (2.37, 1, 48), (3, 7, 9), (1, 20, 1), (0.01, 1, 1)],
)
def test_it_stops_after_the_epochs(lasso, epochs, tau, updates):
    result = solve(lasso, tol=0, max_epochs=epochs, batch_size=tau, rng=0)
    assert result.status is Status.EPOCH_LIMIT
    assert result.n_updates == updates
    assert result.n_oracle_calls == updates * tau
    assert result.epochs == updates * tau / 20
    assert result.trace[-1].n_updates == updates  # the end is always certified
    assert math.isfinite(result.gap)


def test_it_stops_after_the_seconds(lasso, clock):
    clock.is_late = lambda: clock.looks > 50
    how = {"tol": 0, "max_epochs": np.inf, "rng": 0, "check_every": 1e9}
    result = solve(lasso, max_seconds=1e5, **how)
    assert result.status is Status.TIME_LIMIT
    assert clock.looks < 70
    assert result.n_updates > 0
    assert result.trace[-1].n_updates == result.n_updates
    at_once = solve(lasso, max_seconds=1e-9, **how)
    assert at_once.status is Status.TIME_LIMIT
    assert at_once.n_updates == 0


def test_the_callback_stops_it(lasso):
    result = solve(
        lasso,
        accelerate=False,
        tol=0,
        rng=0,
        callback=lambda event: event.row.epoch >= 3,
    )
    assert result.status is Status.STOPPED
    assert result.epochs == 3
    ignored = solve(
        lasso,
        accelerate=False,
        tol=0,
        rng=0,
        max_epochs=5,
        callback=lambda event: "yes",
    )
    assert ignored.status is Status.EPOCH_LIMIT


def test_ctrl_c_keeps_the_iterate(lasso):
    before = signal.getsignal(signal.SIGINT)
    begun = threading.Event()

    def press():
        begun.wait(HANG_SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    def callback(event):
        if event.row.n_updates > 0:
            begun.set()

    thread = threading.Thread(target=press)
    thread.start()
    result = solve(
        lasso, accelerate=False, tol=0, max_epochs=np.inf, rng=0,
        max_seconds=HANG_SECONDS, check_every=1e9, callback=callback,
    )  # fmt: skip
    thread.join()
    assert result.status is Status.INTERRUPTED
    assert result.n_updates > 0
    assert result.trace[-1].n_updates == result.n_updates
    assert is_feasible(result.state)
    assert signal.getsignal(signal.SIGINT) is before
    more = solve(
        lasso, accelerate=False, tol=0, start=result.state, max_epochs=result.epochs + 5
    )
    assert more.n_updates == result.n_updates + 100


def test_ctrl_c_in_the_middle_of_a_check():
    pressed = []

    def gradient(x, i):
        if i == 4 and not pressed:
            pressed.append(os.kill(os.getpid(), signal.SIGINT))
        return x[i] - 1.0

    problem = wolfpack.from_blocks(np.zeros((9, 2)), gradient, wolfpack.l2_ball())
    object.__setattr__(problem, "is_ours", True)
    result = solve(problem, rng=0)
    assert pressed
    assert result.status is Status.INTERRUPTED
    assert result.n_updates == 0
    assert len(result.trace) == 1


def test_it_runs_in_another_thread(lasso):
    found = []

    def work():
        found.append(solve(lasso, tol=1e-2, max_epochs=1000, rng=0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0].converged


def test_the_handler_comes_back_after_an_error(lasso):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError):
        solve(lasso, callback=lambda event: 1 / 0)
    assert signal.getsignal(signal.SIGINT) is before


def test_it_says_when_steps_no_longer_help(lasso):
    result = solve(lasso, step="exact", tol=0, max_epochs=10**6, rng=0)
    assert result.status is Status.STALLED
    assert result.relative_gap < 1e-9
    *rows, last = result.trace
    still = next(row for row in rows if row.objective <= last.objective)
    assert last.epoch >= still.epoch + 30  # nothing was gained in 30 passes,
    assert rows[-1].epoch < still.epoch + 30  # and it stopped as soon as that was seen


def test_who_falls_back_to_a_checkpoint_is_not_idle():
    trace = [
        SimpleNamespace(epoch=epoch, objective=objective, reach=1.0)
        for epoch, objective in ((0, 9), (50, 3), (60, 2), (95, 6), (105, 5))
    ]

    def is_idle(restarted_at):
        session: Any = SimpleNamespace(patience=0.0, restarted_at=restarted_at)
        return stopping.is_idle(trace, session)

    assert is_idle(-1)  # 5 is no gain over 2
    assert not is_idle(80)
    trace += [
        SimpleNamespace(epoch=epoch, objective=5, reach=1.0)
        for epoch in (115, 126, 136)
    ]
    assert is_idle(80)


def test_a_few_idle_updates_are_no_stall(lasso):
    how = {"tol": 1e-6, "max_epochs": 3000, "check_every": 0.05, "rng": 0}
    assert solve(lasso, **how).status is Status.CONVERGED


def test_it_says_when_numbers_overflow():
    huge = 1e307
    problem = wolfpack.from_blocks(
        np.zeros((40, 2)),
        lambda x, i: huge * (x[i] - 0.5),
        wolfpack.box(0.0, 1.0),
        value=lambda x: 0.0,
        quadratic=True,
    )
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(OracleError, match="too large to be added; scale the problem"),
    ):
        solve(problem, step=1.0, rng=0)


# What it reports.


@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("name", ["lasso", "chain"])
def test_the_trace_is_consistent(name, averaging, request):
    problem = request.getfixturevalue(name)
    result = solve(
        problem, accelerate=False, tol=0, max_epochs=40, rng=0, averaging=averaging
    )
    rows = result.trace
    assert rows[0].n_updates == 0
    for one, two in itertools.pairwise(rows):
        assert one.n_updates < two.n_updates
        assert one.epoch < two.epoch
        assert one.n_oracle_calls < two.n_oracle_calls
        assert one.seconds <= two.seconds
        assert one.wall_seconds < two.wall_seconds
        assert two.objective <= one.objective + 1e-6
    for row in rows:
        assert row.seconds <= row.wall_seconds
        assert row.lower_bound == row.objective - row.gap
        assert 0 <= row.drift < 1e-5
        assert row.epoch == pytest.approx(row.n_updates / problem.n_blocks)
    best = result.objective
    assert all(row.lower_bound <= best + 1e-6 for row in rows)
    last = rows[-1]
    assert (result.objective, result.gap) == (last.objective, last.gap)
    assert (result.lower_bound, result.epochs) == (last.lower_bound, last.epoch)
    assert result.seconds <= result.wall_seconds
    assert math.isnan(rows[0].gap_estimate)
    assert all(row.gap_estimate > 0 for row in rows[1:])


@pytest.mark.parametrize(
    ("sampling", "error"),
    [("uniform", 0.05), ("permutation", 1e-3), ("gap", 1e-3), ("cyclic", 1e-3)],
)
def test_the_estimate_is_near_the_gap(chain, sampling, error):
    how = {"tol": 0, "rng": 0, "sampling": sampling}
    low = 0.3 if sampling == "cyclic" else 0.4  # blocks come again soon after a turn
    for row in solve(chain, accelerate=False, max_epochs=400, **how).trace[1:]:
        assert low * row.gap < row.gap_estimate < 2.5 * row.gap
    # Where x hardly moves, only the draws of the blocks make a difference.
    some = solve(chain, accelerate=False, max_epochs=3, **how).state
    how |= {"step": 1e-9, "check_every": 100, "start": some}
    for row in solve(chain, accelerate=False, max_epochs=403, **how).trace[1:]:
        assert row.gap_estimate == pytest.approx(row.gap, rel=error)


@pytest.mark.parametrize(
    ("every", "tau"), [(1.0, 1), (2.5, 1), (0.3, 1), (1.0, 7), (1.0, 19), (0.5, 13)]
)
def test_checks_come_as_often_as_asked(lasso, every, tau):
    how = {"batch_size": tau, "check_every": every, "max_epochs": 15, "rng": 0}
    found = [
        row.n_updates for row in solve(lasso, accelerate=False, tol=0, **how).trace
    ]
    wanted = {math.ceil(m * every * 20 / tau) for m in range(int(15 / every) + 1)}
    last = math.ceil(15 * 20 / tau)
    assert found == sorted({k for k in wanted if k <= last} | {last})


def test_checks_thin_out_by_default(lasso):
    result = solve(lasso, accelerate=False, tol=0, max_epochs=300, rng=0)
    epochs = [row.epoch for row in result.trace]
    assert epochs[:5] == [0, 1, 2, 3, 4]
    assert len(epochs) < 50
    gaps = np.diff(epochs[:-1])
    assert (gaps <= np.maximum(0.15 * np.array(epochs[:-2]) + 1, 1)).all()


def test_the_callback_sees_checks_and_signs_of_life(lasso):
    events = []

    def callback(event):
        events.append(event)
        return not event.checked

    result = solve(
        lasso,
        accelerate=False,
        tol=0,
        max_epochs=np.inf,
        rng=0,
        check_every=1e9,
        callback=callback,
    )
    assert result.status is Status.STOPPED
    assert [event.checked for event in events] == [True, False, True]
    assert [event.row for event in events if event.checked] == result.trace
    between = events[1].row
    assert between.gap == result.trace[0].gap
    assert between.n_updates == result.n_updates > 0
    assert between.gap_estimate > 0
    event = events[-1]
    assert event.relative_gap == result.relative_gap
    assert (event.tol, event.scale) == (0, lasso.scale)
    assert event.state is result.state


def test_the_trace_as_a_frame(lasso):
    result = solve(lasso, tol=0, max_epochs=4, rng=0)
    frame = result.to_frame()
    assert list(frame.columns) == list(result.trace[0]._fields)
    assert len(frame) == len(result.trace)
    assert frame["gap"].tolist() == [row.gap for row in result.trace]


# Randomness.


@pytest.mark.parametrize("sampling", ["uniform", "permutation", "gap"])
def test_the_same_seed_gives_the_same_bits(chain, sampling):
    def run(seed):
        how = {"tol": 0, "max_epochs": 5, "sampling": sampling}
        return solve(chain, rng=seed, **how).state.shared.tobytes()

    assert run(1) == run(1)
    assert run(np.random.default_rng(1)) == run(np.random.default_rng(1))
    rng = np.random.default_rng(1)
    assert run(rng) != run(rng)
    assert run(1) != run(2)
    assert run(None) != run(None)


def test_slices_of_time_leave_no_mark(chain, monkeypatch):
    how = {"tol": 0, "max_epochs": 5, "rng": 0}
    expected = solve(chain, **how).state.shared.tobytes()
    monkeypatch.setattr("wolfpack.run.schedule.SLICE_SECONDS", 1e-9)
    monkeypatch.setattr("wolfpack.run.passes.SLICE_SECONDS", 1e-9)
    assert solve(chain, **how).state.shared.tobytes() == expected


def test_the_problem_is_left_alone(chain):
    before = chain.shared.tobytes(), chain.start.tobytes()
    first = solve(chain, tol=0, max_epochs=3, rng=0)
    assert (chain.shared.tobytes(), chain.start.tobytes()) == before
    assert solve(chain, tol=0, max_epochs=3, rng=0).objective == first.objective


# Arguments.

BAD = [
    (
        "batch_size",
        0,
        "from 1 to the number of blocks, 20, 'auto' or None; given was 0",
    ),
    ("batch_size", 21, "given was 21"),
    ("batch_size", 1.5, "given was 1.5"),
    ("batch_size", True, "given was True"),
    ("batch_size", "all", "given was 'all'"),
    ("step", "x", "step must be one of"),
    ("step", 0, r"constant step must lie in \(0, 1\]"),
    ("step", 2, r"constant step must lie in \(0, 1\]"),
    ("step", -0.5, "constant step"),
    ("step", math.nan, "constant step"),
    ("step", True, "constant step"),
    ("step", None, "constant step"),
    ("sampling", "random", "sampling must be one of"),
    ("tol", math.nan, "tol must be a number >= 0; given was nan"),
    ("tol", -1, "tol must be a number >= 0; given was -1"),
    ("tol", None, "tol must be a number"),
    ("max_epochs", -1, "max_epochs must be a number"),
    ("max_epochs", math.nan, "max_epochs must be a number"),
    ("max_epochs", "ten", "max_epochs must be a number"),
    ("max_seconds", 0, "max_seconds must be a number > 0 or None"),
    ("max_seconds", -1, "max_seconds must be a number > 0 or None"),
    ("check_every", 0, "check_every must be a number > 0 or None"),
    ("check_every", math.nan, "check_every must be a number > 0 or None"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_arguments(lasso, name, value, message):
    with pytest.raises(ValueError, match=message):
        solve(lasso, **{name: value})


def test_arguments_that_do_not_fit_the_problem(lasso, chain):
    with pytest.raises(TypeError, match="problem must be a Problem, but is a ndarray"):
        solve(Y)
    with pytest.raises(ValueError, match=r"step='exact' needs .* chain_ssvm has none"):
        solve(chain, step="exact")
    x0, ball = np.zeros((2, 2)), wolfpack.l2_ball()
    no_value = wolfpack.from_blocks(x0, lambda x, i: x[i], ball)
    with pytest.raises(ValueError, match="averaging needs a problem with a value"):
        solve(no_value, averaging=True)
    assert math.isnan(solve(no_value, tol=1).objective)
