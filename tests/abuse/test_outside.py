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

SEEN = 3  # where `prepare` notes that it was given such an atom


@numba.njit
def prepare(data, shared, blocks, i, atom, work):
    if atom.max() > 1.5:
        data.fault[SEEN] = 1.0
    for j in range(atom.size):
        blocks.difference[j] = atom[j] - blocks.points[i, j]
    return -spy.score(data, shared, i, blocks.difference)


@numba.njit
def spread(data, blocks, i, atom, scale, out, work):
    return spy.add(data, i, blocks.difference, scale, out)


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
    assert problem.data.fault[SEEN] == 0.0
