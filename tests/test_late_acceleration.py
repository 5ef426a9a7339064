"""Accelerated runs whose corners come late: the outer loop goes on."""

import pytest

import wolfpack
from wolfpack import Delayed, delays


@pytest.fixture(scope="module")
def problem():
    train, _ = wolfpack.load_dates(200, 1)
    return wolfpack.chain_ssvm(train.X, train.y, alpha=0.1)


ENGINES = {
    "a third of the blocks on their way": Delayed(
        workers=delays.Workers(60, oracle_seconds=(5e-4, 1.5e-3))
    ),
    "drawn delays": Delayed(delays.poisson(40)),
}


@pytest.mark.parametrize("name", ENGINES)
def test_late_corners_do_not_stop_the_outer_loop(problem, name):
    # A late corner may lead uphill; if its gap counted below 0, an outer step would
    # note an estimate below 0, and none would ever be made again.
    how = {"engine": ENGINES[name], "batch_size": 1, "tol": 0.003, "rng": 0}
    how |= {"max_epochs": 1000}
    plain = wolfpack.solve(problem, accelerate=False, **how)
    fast = wolfpack.solve(problem, accelerate=True, **how)
    assert plain.converged
    assert fast.converged
    assert fast.n_outer > 5
    assert fast.epochs < plain.epochs
    assert fast.lower_bound <= plain.objective
    assert plain.lower_bound <= fast.objective
    assert all(row.gap_estimate >= 0 for row in fast.trace[1:])
