"""How long one oracle call, one update and one copy of v take on this machine.

Cores that work together are slower than one alone: they share a clock and caches, and v
travels from one to the other. So the times are measured on as many cores as the workers
will have.
"""

import math
import statistics
import sys
import time
from typing import Any, NamedTuple

from wolfpack.engines.delayed import Delayed
from wolfpack.engines.shared_memory.ring import queue_size
from wolfpack.engines.threads import Threads, count_cores
from wolfpack.kernels.compile import entry
from wolfpack.kernels.memory import zeros
from wolfpack.run.crew import Crew
from wolfpack.run.interrupt import AllOrNothing
from wolfpack.update.plan import Plan
from wolfpack.update.sampling import UNIFORM
from wolfpack.update.steps import LINE
from wolfpack.update.visit import find

N_TRIES = 3  # short runs, of which the median counts
LINE_SECONDS = 1e-7  # the longest that a cache line travels to another core
MANY_REPEATS = 10  # more repeats no longer change the mean of a call


class Costs(NamedTuple):
    """Seconds: of an oracle call, of an update, and of reading a new v."""

    oracle: float
    update: float
    read: float


def measure(
    problem, n_workers: int, tau: int, repeats: tuple[int, int], seconds: float
) -> Costs:
    """Time oracle calls, an update, and what it costs to work beside a server.

    Calls are timed on as many threads at once as there are cores for the workers, and
    an update on one. Then come short runs of `Threads(mode="server")`, with one worker
    and with all of them. Where the server is the slower part, its pace there is the
    time of an update. Where the workers are slower, a call takes longer there than
    alone, and the difference is the time to read v while it is being written.
    """
    with AllOrNothing():
        return _measure(problem, n_workers, tau, repeats, seconds)


def _measure(problem, n_workers, tau, repeats, seconds) -> Costs:
    part, cores = seconds / 6, count_cores()
    mean = sum(repeats) / 2
    alone, state = _time_update(problem, tau, part)
    once = _time_oracle(problem, state, 1, 1, part)
    often = min(round(mean), MANY_REPEATS)
    oracle = _time_oracle(problem, state, min(n_workers, cores), often, part)
    update = max(alone - tau * once, 0.0)
    if cores < 2 or not problem.kernels().compiled:
        return Costs(oracle, update, 0.0)
    # A read that took longer shows that other programs were using the cores.
    most = LINE_SECONDS * problem.shared.nbytes / 64
    single = update if tau == 1 else _time_update(problem, 1, part)[0] - once
    pair = _time_server(problem, 1, 1, repeats, part)
    crowd = _time_server(problem, min(n_workers, cores - 1), tau, repeats, part)
    read = min(max(pair.call - max(oracle * mean, single), 0.0), most)
    if crowd.is_full:
        return Costs(oracle, crowd.update, read)
    read = min(max(crowd.call - oracle * mean, 0.0), most)
    return Costs(oracle, update + read, read)


class Pace(NamedTuple):
    """Seconds of an update, and of a worker's call; and whether messages queued up."""

    update: float
    call: float
    is_full: bool


def _time_server(problem, T: int, tau: int, repeats, seconds: float) -> Pace:
    """Return the pace of T workers and a server."""
    engine = Threads(T, "server", oracle_repeats=repeats)
    result = _run(problem, engine, tau, seconds)
    waiting = result.delay.mean * tau if result.delay else 0.0
    return Pace(
        result.seconds / max(result.n_updates, 1),
        result.seconds * T / max(result.n_oracle_calls, 1),
        waiting > 0.5 * (T + queue_size(T, tau)),
    )


def _time_update(problem, tau: int, seconds: float) -> tuple[float, Any]:
    """Return the seconds of an update on one thread, and the state after some."""
    result = _run(problem, Delayed(0), tau, seconds)
    return result.seconds / max(result.n_updates, 1), result.state


def _run(problem, engine, tau: int, seconds: float) -> Any:
    """Return the median of a few short runs."""
    from wolfpack.solve import solve

    settings = {"tol": 0.0, "max_epochs": math.inf, "check_every": 1e9, "rng": 0}
    settings |= {"batch_size": tau, "max_seconds": seconds / N_TRIES}
    settings |= {"accelerate": False}
    results = [solve(problem, engine=engine, **settings) for _ in range(N_TRIES)]
    results.sort(key=lambda result: result.seconds / max(result.n_updates, 1))
    return results[N_TRIES // 2]


def _time_oracle(problem, state, count: int, repeats: int, seconds: float) -> float:
    """Return the seconds of a call while `count` threads go through all blocks."""
    kernels = problem.kernels((sys.modules[__name__],))
    count = count if kernels.compiled else 1
    plan = Plan(problem.n_blocks, LINE, 0.0, UNIFORM, False)

    def call(_: int) -> float:
        work, atom = problem.work(), zeros(problem.atom_size, problem.start.dtype)
        spent = []
        end = time.perf_counter() + seconds
        while len(spent) < 2 or time.perf_counter() < end:  # the first may compile
            begin = time.perf_counter()
            kernels.call_oracles(
                problem.data, state.shared, state.blocks, problem.n_blocks, atom, work,
                plan, repeats,
            )  # fmt: skip
            spent.append(time.perf_counter() - begin)
        return statistics.median(spent[1:])

    with Crew(count) as crew:
        times = crew.run(call)
    return statistics.median(times) / (problem.n_blocks * repeats)


@entry
def call_oracles(data, shared, blocks, n_blocks, atom, work, plan, repeats):
    """Solve every block `repeats` times, to see how long that takes."""
    for i in range(n_blocks):
        find(data, shared, blocks, i, atom, work, plan, repeats)
