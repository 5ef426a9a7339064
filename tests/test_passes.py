"""A pass over all blocks is the same in however many parts the threads make it."""

import numpy as np
import pytest
import spy
from helpers import begin_run

from wolfpack import OracleError, Serial, Sync, Threads
from wolfpack.run import passes

N = 50


def begin(engine):
    run = begin_run(spy.make(n=N), None, engine=engine)
    run.session.close()  # a pass needs no workers
    run.certifier.rate = 1000.0  # a pass takes 50 ms, so it has 25 parts
    return run


def make_pass(run):
    state, gaps = run.state, np.full(N, np.nan)
    calls = run.problem.data.calls
    before = calls.copy()
    with run.crew:
        exact = run.certifier.precise(state.shared)
        least = run.certifier.sum_oracle(
            state, state.shared, exact, lambda: False, gaps
        )
    return least, gaps, calls - before


@pytest.mark.parametrize("engine", [Threads(3), Threads(3, "server"), Sync(3)])
def test_every_block_is_visited_once(engine):
    least, gaps, calls = make_pass(begin(engine))
    expected, expected_gaps, _ = make_pass(begin(Serial()))
    np.testing.assert_array_equal(calls, 1)
    np.testing.assert_array_equal(gaps, expected_gaps)
    assert least == pytest.approx(expected, rel=1e-12)


def test_the_bits_of_a_reproducible_engine_do_not_depend_on_the_clock():
    found = []
    for rate in (passes.UNKNOWN, 10.0, 1e9):
        run = begin(Sync(3))
        run.certifier.rate = rate
        found.append(make_pass(run)[0])
    assert len(set(found)) == 1


def test_threads_take_parts_of_two_milliseconds():
    def count(engine, rate):
        run = begin(engine)
        run.certifier.rate = rate
        return run.certifier._count_parts()

    assert count(Threads(3), 1000.0) == 25
    assert count(Threads(3), 1e9) == 3  # one each
    assert count(Threads(3), 1e-3) == N  # never less than a block
    assert count(Sync(3), 1000.0) == 3
    assert count(Serial(), 1000.0) == 1


def test_a_part_that_fails_names_its_block():
    run = begin(Threads(3))
    spy.set_fault(run.problem, spy.RAISES, block=31)
    with pytest.raises(OracleError, match="31") as caught:
        make_pass(run)
    assert caught.value.block == 31


def test_a_pass_that_is_stopped_has_no_sum():
    run = begin(Threads(3))
    spy.set_fault(run.problem, spy.SLEEPS, microseconds=5_000)
    state, exact = run.state, run.certifier.precise(run.state.shared)
    with run.crew:
        ended = run.certifier.sum_oracle(
            state, state.shared, exact, lambda: True, np.full(N, np.nan)
        )
    assert ended is None
