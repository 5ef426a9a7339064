"""Workers that wait in compiled code between two slices."""

import sys
import threading
import time
import types

import numba
import numpy as np
import pytest
from limits import HANG_SECONDS

import wolfpack
from wolfpack.engines.shared_memory import team
from wolfpack.engines.shared_memory.choice import APART
from wolfpack.engines.shared_memory.seats import AWAY, Seats, is_called

T = 3


@numba.njit(nogil=True)
def count_slices(words, me, counts):
    """Stand for the loop of a worker: count the slices."""
    while True:
        counts[me] += 1
        if not is_called(words, me):
            return


class Office:
    """Seats, and how often each worker was started and called."""

    def __init__(self):
        self.seats = Seats(T)
        self.counts, self.started = np.zeros(T, np.int64), np.zeros(T, np.int64)
        self.stopped = 0

    def work(self, t):
        self.started[t] += 1
        count_slices(self.seats.words, t, self.counts)

    def stop(self):
        self.stopped += 1

    def run(self, work=None, pulse=lambda: None):
        self.seats.run(work or self.work, self.stop, pulse)


@pytest.fixture
def office():
    count_slices(np.zeros(APART, np.int64) + AWAY, 0, np.zeros(1, np.int64))  # compile
    office = Office()
    yield office
    office.seats.close()


def wait_until_away(seats):
    end = time.monotonic() + HANG_SECONDS
    while seats.words[::APART].any():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_every_worker_runs_every_slice(office):
    for k in range(200):
        office.run()
        assert office.counts.tolist() == [k + 1] * T


def test_workers_that_wait_are_called_not_started(office, monkeypatch):
    source = is_called.py_func
    endless = source.__globals__ | {"MOST_SPINS": 2**62}
    wait = numba.njit(types.FunctionType(source.__code__, endless), nogil=True)

    @numba.njit(nogil=True)
    def never_go(words, me, counts):
        while True:
            counts[me] += 1
            if not wait(words, me):
                return

    monkeypatch.setitem(globals(), "count_slices", never_go)
    for k in range(300):
        office.run()
        assert office.counts.tolist() == [k + 1] * T
    assert office.started.tolist() == [1] * T


def test_workers_go_home_when_they_are_not_called(office):
    office.run()
    wait_until_away(office.seats)
    before = office.started.copy()
    office.run()
    assert (office.started == before + 1).all()
    assert office.counts.tolist() == [2] * T


def test_clear_sends_workers_home(office):
    office.run()
    office.seats.clear()
    assert not office.seats.words[::APART].any()
    office.run()
    assert office.started.tolist() == [2] * T


def test_an_error_of_a_worker_is_raised_after_the_others_ended(office):
    def work(t):
        if t == 1:
            raise ZeroDivisionError("of worker 1")
        office.work(t)

    office.run()
    wait_until_away(office.seats)
    with pytest.raises(ZeroDivisionError, match="of worker 1"):
        office.run(work)
    office.run()  # all of them are there again
    assert office.counts.tolist() == [3, 2, 3]


def test_an_error_of_the_pulse_ends_the_slice(office):
    over = threading.Event()

    def work(t):
        over.wait(HANG_SECONDS)
        office.seats.words[t * APART] = AWAY  # as a loop does that is not called

    def pulse():
        raise KeyError("pulse")

    def stop():
        office.stopped += 1
        over.set()

    with pytest.raises(KeyError, match="pulse"):
        office.seats.run(work, stop, pulse)
    assert office.stopped == 1
    assert not office.seats.words[::APART].any()


def test_a_thread_that_cannot_be_started_stops_the_others(office, monkeypatch):
    submit, calls = office.seats._pool.submit, []

    def fail(*args):
        calls.append(args)
        if len(calls) == 2:
            raise RuntimeError("can't start new thread")
        return submit(*args)

    monkeypatch.setattr(office.seats._pool, "submit", fail)
    with pytest.raises(RuntimeError, match="start new thread"):
        office.run()
    assert office.stopped == 1
    office.run()
    assert office.counts.tolist() == [2, 1, 1]


def test_a_run_starts_its_threads_seldom(monkeypatch):
    """A run has many slices; workers are started when it begins, and where they wait
    for long, as in a check, or the pool of atoms has grown."""
    slices, starts = [], []
    whole, sit = team.TeamSession._slice, Seats._sit
    monkeypatch.setattr(
        team.TeamSession, "_slice", lambda *a: slices.append(1) or whole(*a)
    )
    monkeypatch.setattr(Seats, "_sit", lambda *a: starts.append(1) or sit(*a))
    train, _ = wolfpack.load_dates(n_train=600)
    problem = wolfpack.chain_ssvm(train.X, train.y, alpha=0.001)
    result = wolfpack.solve(
        problem, engine=wolfpack.Threads(2), accelerate=True, tol=1e-4, rng=0,
        max_epochs=400, check_every=50,
    )  # fmt: skip
    assert result.epochs > 100
    assert len(starts) < 2 * len(slices)  # all of them without seats


def test_no_thread_stays_after_a_run():
    train, _ = wolfpack.load_dates(n_train=100)
    problem = wolfpack.chain_ssvm(train.X, train.y, alpha=0.1)
    before = threading.active_count()
    wolfpack.solve(problem, engine=wolfpack.Threads(2), tol=0.1, rng=0)
    assert threading.active_count() <= before


def test_a_signal_before_the_first_update_leaves_no_thread(monkeypatch):
    """It may come as soon as there are threads, before it is only noted."""
    before, begun = threading.active_count(), []

    class Press:
        def __enter__(self):
            begun.append(threading.active_count())
            raise KeyboardInterrupt

        def __exit__(self, *exc_info):
            """Do nothing: it is never entered."""

    train, _ = wolfpack.load_dates(n_train=100)
    problem = wolfpack.chain_ssvm(train.X, train.y, alpha=0.1)
    monkeypatch.setattr(sys.modules["wolfpack.solve"], "Interrupt", Press)
    with pytest.raises(KeyboardInterrupt):
        wolfpack.solve(problem, engine=wolfpack.Threads(2), rng=0)
    assert begun == [before + 2]
    assert threading.active_count() == before
