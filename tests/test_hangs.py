"""Runs that could wait for themselves forever, each in a process of its own.

A thread that spins in compiled code ends with its process only, and would take the test
session with it.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from limits import HANG_SECONDS

CODE = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np, spy, wolfpack
from wolfpack import Threads, solve
for seed in range(4):
    {body}
"""


def run(body):
    """Run four times in a process; fail if it raises, or does not come back."""
    code = CODE.format(tests=str(Path(__file__).parent), body=body)
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=HANG_SECONDS
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"it hangs: {body}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("engine", ["Threads(4)", "Threads(4, mode='lock-free')"])
def test_a_permutation_stays_one_when_threads_shuffle_it(engine):
    """Blocks that two threads swap at once must not vanish from the order."""
    run(
        "p = spy.make(8);"
        f"r = solve(p, engine={engine}, sampling='permutation', tol=0, rng=seed,"
        " max_epochs=10**4);"
        "visits = p.data.calls - len(r.trace);"
        "assert visits.min() > 0.2 * visits.mean(), np.sort(visits)"
    )


@pytest.mark.parametrize("n", [2, 11])
def test_workers_that_hold_every_block_come_back(n):
    """With the paper's line search, blocks stay claimed while they are on their way."""
    run(
        f"Y = np.random.default_rng(0).normal(size=({n} + 1, 3)).cumsum(axis=0);"
        "p = wolfpack.group_fused_lasso(Y, 0.4);"
        "e = Threads(5, mode='server', line_search='workers');"
        "r = solve(p, engine=e, batch_size=1, tol=0, max_epochs=300, rng=seed);"
        "assert r.relative_gap < 0.1"
    )


@pytest.mark.parametrize(
    ("T", "tau", "sampling"),
    [
        (2, None, "uniform"),
        (5, 40, "uniform"),
        (3, 38, "uniform"),
        (3, 38, "cyclic"),
        (5, 40, "cyclic"),
        pytest.param(3, 38, "gap", marks=pytest.mark.slow),
        pytest.param(5, None, "gap", marks=pytest.mark.slow),
    ],
)
def test_workers_that_want_most_blocks_come_back(T, tau, sampling):
    """Each holds what it has while it waits for more: all that they want must exist."""
    run(
        f"r = solve(spy.make(40), engine=Threads({T}), batch_size={tau}, tol=0,"
        f" sampling={sampling!r}, max_epochs=1000, rng=seed);"
        "assert r.relative_gap < 0.1"
    )
