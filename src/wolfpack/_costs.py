"""What one oracle call, one update and one copy of v take on this machine.

Cores that work together are slower than one alone: they share its clock and its caches,
and v goes from one to the other. So these are measured on as many as there will be.
"""

import math
import statistics
import time
from typing import Any, NamedTuple

from wolfpack._crew import Crew
from wolfpack._memory import zeros
from wolfpack.engines.delayed import Delayed
from wolfpack.engines.serial import Plan
from wolfpack.engines.threads import Threads, count_cores
from wolfpack.sampling import UNIFORM
from wolfpack.steps import LINE

N_TRIES = 3  # of which the fastest counts: others may have shared the cores
LINE_SECONDS = 5e-8  # no cache line takes longer to another core
MANY_REPEATS = 10  # more do not make the mean of them any other
BUSY = 1.2  # updates take so much longer than their calls: the server is at its limit


class Costs(NamedTuple):
    """Seconds: of an oracle call, of an update, and of reading a new v."""

    oracle: float
    update: float
    read: float


def measure(problem, n_workers: int, tau: int, repeats: float, seconds: float) -> Costs:
    """Time oracle calls, an update without them, and a server at its limit.

    `n_workers` call oracles at once, each `repeats` times for the same block; then they
    send what they found to a server that does nothing but update. Where oracles are too
    slow for that, an update is timed on one thread, and v on its way between two: a
    worker that fetches it after each step, and a server that gets it back.
    """
    part = seconds / 5
    alone, state = _time_update(problem, Delayed(0), tau, part)
    once = _time_oracle(problem, state, 1, 1, part)
    often, cores = min(round(repeats), MANY_REPEATS), count_cores()
    oracle = _time_oracle(problem, state, min(n_workers, cores), often, part)
    update = max(alone - tau * once, 0.0)
    if cores < 2 or not problem.kernels().compiled:
        return Costs(oracle, update, 0.0)
    single = _time_update(problem, Delayed(0), 1, part)[0] - once
    pair = _time_update(problem, Threads(1, "server"), 1, part)[0]
    most = LINE_SECONDS * problem.shared.nbytes / 64  # more: somebody had their cores
    read = min(max(pair - max(once, single), 0.0), most)
    helpers = min(n_workers, cores - 1)
    crowded, _ = _time_update(problem, Threads(helpers, "server"), tau, part)
    if crowded > BUSY * tau * (once + read) / helpers:
        return Costs(oracle, crowded, read)
    return Costs(oracle, update + read, read)


def _time_update(problem, engine, tau: int, seconds: float) -> tuple[float, Any]:
    """Return the least mean of some short runs, and where the last one led."""
    from wolfpack.solve import solve

    settings = {"tol": 0.0, "max_epochs": math.inf, "check_every": 1e9, "rng": 0}
    settings |= {"batch_size": tau, "max_seconds": seconds / N_TRIES}
    results = [solve(problem, engine=engine, **settings) for _ in range(N_TRIES)]
    times = [result.seconds / max(result.n_updates, 1) for result in results]
    return min(times), results[-1].state


def _time_oracle(problem, state, count: int, repeats: int, seconds: float) -> float:
    """Return what a call takes while `count` threads go through all blocks."""
    kernels, plan = problem.kernels(), Plan(problem.n_blocks, LINE, 0.0, UNIFORM, False)
    count = count if kernels.compiled else 1

    def call(_: int) -> float:
        work, atom = problem.work(), zeros(problem.atom_size, problem.start.dtype)
        spent = []
        end = time.perf_counter() + seconds
        while len(spent) < 2 or time.perf_counter() < end:  # the first may compile
            begin = time.perf_counter()
            kernels.call_oracles(
                problem.data, state.shared, state.blocks, atom, work, plan, repeats
            )
            spent.append(time.perf_counter() - begin)
        return min(spent[1:])

    with Crew(count) as crew:
        times = crew.run(call)
    return statistics.median(times) / (problem.n_blocks * repeats)
