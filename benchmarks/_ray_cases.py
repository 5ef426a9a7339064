"""What `ray.py` is made of: a sleeping oracle, a clock, and a server that waits."""

import dataclasses
import time
from pathlib import Path

import numba
import numpy as np
from numba import types

import wolfpack
from wolfpack.engines.cluster.messages import NOWHERE
from wolfpack.engines.cluster.service import Service
from wolfpack.engines.cluster.worker_actor import WorkerActor
from wolfpack.solve import _validate
from wolfpack.state import State

SLOWER = 10
DIMENSIONS = 10

_sleep = types.ExternalFunction("usleep", types.int32(types.uint32))


def asleep(n: int, microseconds: int, folder: str = ""):
    """Return a group fused lasso of n blocks whose oracle sleeps before it answers.

    With a `folder`, in which a file tells the others, the first process that makes the
    problem is SLOWER times slower. Sleeping workers leave the cores to what is
    measured: messages.
    """
    if folder:
        try:
            (Path(folder) / "slow").touch(exist_ok=False)
            microseconds *= SLOWER
        except FileExistsError:
            pass
    Y, _, _ = wolfpack.make_piecewise(n + 1, DIMENSIONS)
    lasso = wolfpack.group_fused_lasso(Y, alpha=0.5)
    oracle_awake = lasso.oracle

    @numba.njit
    def oracle(data, shared, i, atom, work):
        _sleep(np.uint32(work[1][0]))
        return oracle_awake(data, shared, i, atom, work)

    problem = dataclasses.replace(
        lasso,
        oracle=oracle,
        work=lambda: (np.zeros(DIMENSIONS), np.array([float(microseconds)])),
    )
    return problem.made_by(asleep, n, microseconds, folder, ours=True)


def with_straggler(n: int, microseconds: int, folder: str):
    """Return a problem that is slow in one of the processes that unpickle it."""
    problem = asleep(n, microseconds)
    return problem.made_by(asleep, n, microseconds, folder, ours=True)


class Clock:
    """A callback that notes time and number of oracle calls between the checks."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def __call__(self, event) -> None:
        if not event.checked:
            self.seen.append((time.monotonic(), event.row.n_oracle_calls))

    def calls_per_second(self) -> float:
        """Return the oracle calls a second from the first note to the last."""
        (begin, few), (end, many) = self.seen[0], self.seen[-1]
        return (many - few) / (end - begin)


def run_for(problem, engine, seconds: float, **how):
    """Run for some seconds; return the result and the oracle calls a second."""
    clock = Clock()
    result = wolfpack.solve(
        problem, accelerate=False,
        engine=engine, tol=0, max_epochs=np.inf, max_seconds=seconds,
        check_every=1e9, callback=clock, rng=0, **how,
    )  # fmt: skip
    return result, clock.calls_per_second()


def seconds_per_pass_in_step(ray, problem, n_workers: int, chunk: int, rounds: int):
    """Return the seconds a pass takes where the server waits for all workers."""
    actor = ray.remote(num_cpus=0)(WorkerActor)
    workers = [actor.remote() for _ in range(n_workers)]
    reference = [ray.put(problem)]
    ray.get([worker.warm.remote(reference) for worker in workers])
    options = _validate(
        problem, 1, "line", "uniform", averaging=False, accelerate=False, tol=0.0,
        max_epochs=np.inf, max_seconds=None, check_every=None, engine=wolfpack.Serial(),
    )  # fmt: skip
    state = State.begin(problem, options, np.random.default_rng(0))
    service = Service(problem, state, options.plan, 1)
    service.until = np.inf
    rngs = np.random.default_rng(0).spawn((rounds + 1) * n_workers)
    begin = 0.0
    for round in range(rounds + 1):  # the first one compiles
        if round == 1:
            begin = time.monotonic()
        v = ray.put(state.shared)
        calls = [w.solve.remote(v, rngs.pop(), chunk, NOWHERE) for w in workers]
        for found in ray.get(calls):
            answer = found._replace(life=service.life, version=service.version)
            service.take(answer)
    spent = time.monotonic() - begin
    for worker in workers:
        ray.kill(worker)
    return spent * problem.n_blocks / (rounds * n_workers * chunk)
