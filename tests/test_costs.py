"""What an oracle call, an update and a copy of v take on this machine."""

import itertools
import sys
import time
from types import SimpleNamespace

import pytest
import spy

import wolfpack
from wolfpack import Threads
from wolfpack.advice import costs as measured


@pytest.fixture
def problem():
    Y, _, _ = wolfpack.make_piecewise(300, 40)
    return wolfpack.group_fused_lasso(Y, 0.5)


@pytest.fixture
def clocks(monkeypatch):
    """Clocks that say 1 for a call, 7 for an update of 4 blocks, 3 for one of 1."""
    monkeypatch.setattr(measured, "count_cores", lambda: 8)
    monkeypatch.setattr(measured, "LINE_SECONDS", 1e9)
    monkeypatch.setattr(measured, "_time_oracle", lambda *_: 1.0)
    monkeypatch.setattr(
        measured, "_time_update", lambda _, tau, __: ({1: 4.0, 4: 11.0}[tau], None)
    )

    def set_paces(**paces):
        def time_server(_, T, tau, repeats, __):
            asked.append((T, tau, repeats))
            return paces["pair"] if T == 1 else paces["crowd"]

        asked = []
        monkeypatch.setattr(measured, "_time_server", time_server)
        return asked

    return set_paces


def test_a_busy_server_says_what_an_update_takes(problem, clocks):
    pair = measured.Pace(update=5.0, call=5.0, is_full=False)
    clocks(pair=pair, crowd=measured.Pace(update=20.0, call=40.0, is_full=True))
    costs = measured.measure(problem, 4, 4, (1, 3), 0.1)
    # Two calls of 1 and a step of 3 side by side take 3: the other 2 moved v.
    assert costs == measured.Costs(oracle=1.0, update=20.0, read=2.0)


def test_busy_workers_say_what_reading_takes(problem, clocks):
    pair = measured.Pace(update=5.0, call=5.0, is_full=False)
    clocks(pair=pair, crowd=measured.Pace(update=9.0, call=8.0, is_full=False))
    costs = measured.measure(problem, 4, 4, (1, 3), 0.1)
    assert costs == measured.Costs(oracle=1.0, update=7.0 + 6.0, read=6.0)


def test_there_are_never_more_workers_than_cores(problem, clocks):
    pace = measured.Pace(update=5.0, call=5.0, is_full=False)
    asked = clocks(pair=pace, crowd=pace)
    measured.measure(problem, 1000, 4, (1, 1), 0.1)
    assert asked == [(1, 1, (1, 1)), (7, 4, (1, 1))]


def test_reading_takes_no_longer_than_cache_lines_do(problem, clocks, monkeypatch):
    pace = measured.Pace(update=5.0, call=1e6, is_full=False)
    clocks(pair=pace, crowd=pace)
    monkeypatch.setattr(measured, "LINE_SECONDS", 0.01)
    costs = measured.measure(problem, 4, 4, (1, 1), 0.1)
    assert costs.read == pytest.approx(0.01 * problem.shared.nbytes / 64)


def test_one_core_moves_nothing(problem, clocks, monkeypatch):
    monkeypatch.setattr(measured, "count_cores", lambda: 1)
    costs = measured.measure(problem, 4, 4, (1, 1), 0.1)
    assert costs == measured.Costs(oracle=1.0, update=7.0, read=0.0)


@pytest.fixture
def counted(monkeypatch):
    """A problem whose oracle calls take a second each, and nothing else takes time."""
    problem = spy.make()
    monkeypatch.setattr(time, "perf_counter", lambda: float(problem.data.calls.sum()))
    return problem


def test_calls_and_updates_are_timed_apart(counted, monkeypatch):
    sizes = []
    crew = measured.Crew
    monkeypatch.setattr(measured, "Crew", lambda n: sizes.append(n) or crew(n))
    update, state = measured._time_update(counted, 4, 300.0)
    assert update == 4.0
    assert state.n_updates > 0
    assert measured._time_oracle(counted, state, 1, 1, 100.0) == 1.0
    assert measured._time_oracle(counted, state, 1, 5, 100.0) == 1.0
    assert measured._time_oracle(counted, state, 2, 5, 100.0) > 0.0
    assert sizes == [1, 1, 2]


@pytest.mark.parametrize(("waiting", "is_full"), [(5.0, False), (5.1, True)])
def test_the_pace_of_a_server_is_that_of_the_middle_run(monkeypatch, waiting, is_full):
    """2 workers and batches of 4: the queue takes 8 messages, the workers hold 2."""
    asked, seconds = [], itertools.cycle([10.0, 90.0, 20.0])

    def solve(problem, engine, **how):
        asked.append((engine, how["batch_size"], how["max_seconds"]))
        delay = SimpleNamespace(mean=waiting / 4)
        return SimpleNamespace(
            seconds=next(seconds), n_updates=5, n_oracle_calls=40, delay=delay
        )

    monkeypatch.setattr(sys.modules["wolfpack.solve"], "solve", solve)
    pace = measured._time_server(None, 2, 4, (1, 3), 0.75)
    assert pace == measured.Pace(update=4.0, call=1.0, is_full=is_full)
    assert asked == [(Threads(2, "server", oracle_repeats=(1, 3)), 4, 0.25)] * 3


def test_a_call_beside_a_server_takes_no_less_than_alone(counted):
    pace = measured._time_server(counted, 1, 1, (1, 1), 300.0)
    assert 1.0 <= pace.call <= pace.update < 300.0
