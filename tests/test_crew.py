"""A crew: threads that start together, and all end before the caller goes on."""

import threading
import time

import numpy as np
import pytest
from limits import HANG_SECONDS
from threadpoolctl import threadpool_info, threadpool_limits

from wolfpack.run.crew import Crew


def names():
    return {thread.name for thread in threading.enumerate()}


def blas():
    infos = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return [info["num_threads"] for info in infos]


def test_answers_come_in_order():
    with Crew(3) as crew:
        for count in (1, 2, 3, 4):  # one more than its size: a server
            slow_first = crew.run(
                lambda t, n=count: time.sleep(0.01 * (n - t)) or t, count
            )
            assert slow_first == [*range(count)]
        assert crew.run(lambda t: t) == [0, 1, 2]


def test_they_work_at_the_same_time():
    meeting = threading.Barrier(4)
    with Crew(3) as crew:
        crew.run(lambda t: meeting.wait(HANG_SECONDS), 4)  # no thread passes alone


def test_no_thread_is_left():
    before = names()
    with Crew(4) as crew:
        crew.run(lambda t: None)
        assert names() > before
    assert names() == before


def test_one_needs_no_thread():
    with Crew(1) as crew:
        (name,) = crew.run(lambda t: threading.current_thread().name)
        assert name == threading.current_thread().name
        places = crew.run(lambda t: threading.get_ident(), 2)  # a worker and a server
        assert threading.get_ident() not in places


def test_an_error_stops_the_others_and_is_raised():
    over = threading.Event()

    def work(t):
        if t == 1:
            raise ZeroDivisionError("of worker 1")
        assert over.wait(HANG_SECONDS)

    with Crew(3) as crew:
        with pytest.raises(ZeroDivisionError, match="of worker 1"):
            crew.run(work, stop=over.set)
        assert crew.run(lambda t: t) == [0, 1, 2]  # and they work on


def test_an_error_of_the_pulse_stops_them_too():
    over, left = threading.Event(), []

    def work(t):
        assert over.wait(HANG_SECONDS)
        time.sleep(0.05)
        left.append(t)

    def pulse():
        raise KeyboardInterrupt

    with Crew(2) as crew, pytest.raises(KeyboardInterrupt):
        crew.run(work, stop=over.set, pulse=pulse)
    assert sorted(left) == [0, 1]  # all were back before it was raised


def test_the_pulse_beats_while_they_work():
    beats, here, enough = [], threading.get_ident(), threading.Event()

    def pulse():
        beats.append(threading.get_ident())
        if len(beats) == 3:
            enough.set()

    with Crew(2) as crew:
        answers = crew.run(lambda t: enough.wait(HANG_SECONDS), pulse=pulse)
    assert answers == [True, True]
    assert set(beats) == {here}


@pytest.fixture
def two_blas_threads():
    if not blas():
        pytest.skip("NumPy has no BLAS that threadpoolctl knows")
    with threadpool_limits(2, "blas"):
        if blas()[0] != 2:
            pytest.skip("this BLAS has one thread")
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_meanwhile():
    before = blas()
    with Crew(2) as crew:
        assert set(blas()) == {1}
        assert crew.run(lambda t: np.dot(np.ones(9), np.ones(9))) == [9.0, 9.0]
    assert blas() == before
    with Crew(1):
        assert blas() == before  # a single thread may keep all of BLAS


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_held_until_the_last_of_two_is_done():
    before = blas()
    first, second = Crew(2), Crew(3)
    with first:
        second.__enter__()
        assert set(blas()) == {1}
    assert set(blas()) == {1}
    second.__exit__()
    assert blas() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_comes_back_after_an_error():
    before = blas()
    with pytest.raises(ZeroDivisionError), Crew(2) as crew:
        crew.run(lambda t: 1 // t)
    assert blas() == before
