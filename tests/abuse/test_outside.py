"""An atom outside its set is refused before any other function is given it.

A label that does not exist would be looked up, or counted, outside an array.
"""

import dataclasses

import numba
import numpy as np
import pytest
import spy
from limits import HANG_SECONDS

from wolfpack import OracleError, Serial, Sync, Threads, solve

SEEN = 3  # where `prepare` notes the largest entry of a move


@numba.njit
def prepare(data, i, move, work):
    if move.max() > 0.5:
        data.fault[SEEN] = max(data.fault[SEEN], move.max())


@numba.njit
def spread(data, i, move, scale, out, work):
    return spy.add(data, i, move, scale, out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine", [Serial(), Threads(2), Threads(2, "lock-free"), Sync(2)], ids=str
)
def test_only_contains_sees_it(engine):
    problem = dataclasses.replace(spy.make(), prepare=prepare, spread=spread)
    spy.set_fault(problem, spy.LEAVES, block=7, after=5)
    with pytest.raises(OracleError, match="outside the feasible set on block 7"):
        solve(problem, engine=engine, tol=0, max_epochs=np.inf, rng=0,
              max_seconds=HANG_SECONDS, check_every=1e9)  # fmt: skip
    assert problem.data.fault[SEEN] <= 1.0
