"""A function of the problem that fails: the right block, in every engine and check.

Everything is plain Python here, so that nothing is compiled; compiled loops are the
same sources, and `tests/test_faults.py` has them.
"""

import numpy as np
import pytest
import spy

import wolfpack
from wolfpack import Delayed, OracleError, Serial, delays

N, M, BLOCK = 8, 3, 5
ENGINES = {
    "serial": Serial(),
    "late": Delayed(delays.poisson(3)),
    "later": Delayed(delays.poisson(20)),
    "cluster": Delayed(workers=delays.Workers(4, oracle_seconds=1e-3)),
}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


def make(fault, after):
    """min |x - T|^2 + coupling, whose gradient has a fault on one block in time."""
    targets = np.random.default_rng(0).normal(size=(N, M))
    calls = np.zeros(1, int)

    def gradient(x, i):
        calls[0] += 1
        found = x[i] - targets[i] + 0.1 * x.sum(axis=0)
        return fault(found, x, i) if calls[0] > after and i == BLOCK else found

    problem = wolfpack.from_blocks(
        np.full((N, M), 1 / M), gradient, wolfpack.simplex(), quadratic=True
    )
    return spy.unchecked(problem)


def boom(found, x, i):
    raise RuntimeError("boom")


def solve(problem, engine=None, **how):
    how = {"tol": 0, "max_epochs": 150, "rng": 0, "check_every": 1e9} | how
    return wolfpack.solve(problem, engine=engine, **how)


@every_engine
@pytest.mark.parametrize("after", [0, 40, 41, 42, 43, 500])
def test_the_block_that_raised_is_named(engine, after):
    with pytest.raises(OracleError, match=f"RuntimeError on block {BLOCK}: boom") as e:
        solve(make(boom, after), engine)
    assert e.value.block == BLOCK
    assert e.value.state is not None


@every_engine
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("after", [0, 41, 42, 501])
@pytest.mark.parametrize("checks", [1e9, 1])
def test_the_block_that_is_not_a_number_is_named(engine, value, after, checks):
    with pytest.raises(OracleError, match=f"on block {BLOCK}") as e:
        solve(make(lambda g, x, i: g * value, after), engine, check_every=checks)
    assert e.value.block == BLOCK
    state = e.value.state
    assert np.isfinite(state.blocks.points).all()
    np.testing.assert_allclose(state.shared, state.blocks.points, atol=1e-12)


@pytest.mark.parametrize("name", ["serial", "late", "cluster"])
@pytest.mark.parametrize("after", [97, 99, 101, 104, 131, 133])
def test_a_joint_line_search_names_the_block_at_fault(name, after):
    problem = make(lambda g, x, i: g * np.nan, after)
    with pytest.raises(OracleError, match=f"on block {BLOCK}") as e:
        solve(problem, ENGINES[name], batch_size=4)
    assert e.value.block == BLOCK


def certify_after(problem, fault):
    """Fail in the first certificate, whatever else works."""
    with pytest.raises(OracleError) as e:
        solve(spy.unchecked(problem, **fault), max_epochs=0)
    return e.value


@pytest.fixture(scope="module")
def problem():
    return make(lambda g, x, i: g, 0)


def test_add_is_named_with_its_block(problem):
    def returns_nan(data, i, atom, scale, out):
        problem.add(data, i, atom, scale, out)
        return np.nan if i == BLOCK else 0.0

    def raises(data, i, atom, scale, out):
        if i == BLOCK and armed[0]:
            raise ValueError("no room")
        return problem.add(data, i, atom, scale, out)

    error = certify_after(problem, {"add": returns_nan})
    assert error.block == BLOCK
    assert f"add returned NaN on block {BLOCK} in a full pass" in str(error)
    armed = [False]
    armed_problem = spy.unchecked(problem, add=raises)

    def arm(event):
        armed[0] = True

    with pytest.raises(OracleError, match=f"ValueError on block {BLOCK}: no room"):
        solve(armed_problem, callback=arm, check_every=1)


def test_an_oracle_that_writes_into_v_is_found(problem):
    def oracle(data, shared, i, atom, work):
        least = problem.oracle(data, shared, i, atom, work)
        shared[i, 0] += 0.5
        return least

    error = certify_after(problem, {"oracle": oracle})
    assert "v has changed in a full pass: an oracle only reads v" in str(error)


def test_numbers_too_large_to_add_are_no_answer():
    problem = make(lambda g, x, i: np.full(M, 1e308), 0)
    huge = spy.unchecked(
        problem, slope=lambda data, shared, direction, rows, gamma: np.inf
    )
    with pytest.raises(OracleError, match="too large to be added; scale the problem"):
        solve(huge, max_epochs=0)
