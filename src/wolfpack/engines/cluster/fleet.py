"""The workers of a cluster, as the driver sees them: hired, set to work, looked after.

There is one process a core. Ray restarts those that die; machines that join later get
workers within a second.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from wolfpack.engines.cluster import connect
from wolfpack.engines.cluster.head import Head
from wolfpack.engines.cluster.sending import send
from wolfpack.engines.cluster.worker_actor import WorkerActor
from wolfpack.result import EngineError

TEND_SECONDS = 1.0  # between two inspections of workers and machines
START_SECONDS = 60.0  # for all workers; the run begins with those that are ready
LAST_CALL_SECONDS = 300.0  # more for the first worker, where none is ready
LOOK_SECONDS = 0.05  # between two tests for Ctrl-C during a check
# A check is cut into SHARES parts for each worker, or more, so that a part takes about
# SHARE_SECONDS at most. A worker gets the next part when it has finished one, so slow
# workers get fewer.
SHARES, SHARE_SECONDS = 4, 1.0
# Where no answer comes for DOUBT times the time of one part, idle workers also get
# parts that other workers have; after PATIENCE times that time the driver makes the
# pass itself.
DOUBT, PATIENCE = 2.0, 30.0

logger = logging.getLogger("wolfpack")


class Fleet:
    """The workers of one run; worker t is `workers[t]`."""

    def __init__(
        self, ray: Any, problem: Any, n_workers: Any, alone: bool, head: Head
    ) -> None:
        self.ray, self.n_blocks, self.head = ray, problem.n_blocks, head
        self.alone = alone  # whether no other run of this process holds cores
        self.problem = [send(ray, problem)]  # Ray sends it to each machine once
        self.auto = n_workers == "auto"
        self.wanted = self.head.n_cores if self.auto else int(n_workers)
        self.workers: list[Any] = []
        self.tasks: dict[Any, int] = {}  # the `work` of each worker
        self.orders: tuple = ()
        self.seconds = 0.0  # of an oracle call
        self.next_tend = 0.0

    def hire(self) -> None:
        """Start all workers, and measure how long an oracle call takes."""
        ray, count = self.ray, self.wanted
        # Each worker reserves a core, so that Ray places it on a machine with a free
        # one. Where there are more workers than cores, or a second run holds the cores,
        # a worker would wait for ever, so no worker reserves one.
        cores = 1 if self.alone and count <= self.head.n_cores else 0
        self.workers = [self._hire_one(cores) for _ in range(count)]
        first = self.workers[0].warm.remote(self.problem)
        self._wait([first], 1, START_SECONDS)  # the others load its compiled code
        warm = [first, *(w.warm.remote(self.problem) for w in self.workers[1:])]
        ready = self._wait(warm, count, START_SECONDS)
        if not ready:
            ready = self._wait(warm, 1, LAST_CALL_SECONDS)
        if not ready:
            raise EngineError(
                f"none of {count} workers could be started within "
                f"{START_SECONDS + LAST_CALL_SECONDS:.0f} s; are all cores of the "
                "cluster taken? `ray status` says so."
            )
        times = [connect.result_of(ray, ref) for ref in ready]
        self.seconds = float(np.median(times))

    def _wait(self, calls: list[Any], count: int, seconds: float) -> list[Any]:
        """Return the calls that are answered; raise if the head is lost meanwhile."""
        end = time.monotonic() + seconds
        while True:
            ready, _ = self.ray.wait(calls, num_returns=count, timeout=TEND_SECONDS)
            if len(ready) >= count or time.monotonic() >= end:
                return ready
            if self.head.is_lost:
                raise EngineError(self.head.sentence)

    def _hire_one(self, cores: int) -> Any:
        how = {"num_cpus": cores, "max_restarts": -1, "max_task_retries": -1}
        how |= {"max_concurrency": 2, "scheduling_strategy": "SPREAD"}
        return self.ray.remote(**how)(WorkerActor).remote()

    def set_to_work(self, server: Any, chunk: int, window: int) -> None:
        """Start the `work` of every worker."""
        self.orders = (server, self.problem, chunk, window)
        for t in range(len(self.workers)):
            self._set_to_work(t)

    def _set_to_work(self, t: int) -> None:
        self.tasks[self.workers[t].work.remote(t, *self.orders)] = t

    def tend(self) -> None:
        """Replace workers whose `work` has ended, and hire on machines that joined."""
        if time.monotonic() < self.next_tend:
            return
        self.next_tend = time.monotonic() + TEND_SECONDS
        done, _ = self.ray.wait([*self.tasks], num_returns=len(self.tasks), timeout=0)
        for task in done:
            self._replace(task)
        if self.auto and self.head.n_cores > len(self.workers):
            try:
                connect.refuse_open(self.ray)
            except OSError as error:  # a cluster without a token: strangers may join
                self.auto = False
                logger.warning("Ray: machines that joined are not used: %s", error)
                return
            for t in range(len(self.workers), self.head.n_cores):
                self.workers.append(self._hire_one(1))
                self._set_to_work(t)

    def _replace(self, task: Any) -> None:
        """Restart the `work` of a worker that returned; drop a worker that is gone."""
        from ray.exceptions import RayActorError

        t = self.tasks.pop(task)
        try:
            connect.result_of(self.ray, task)  # raises what the worker raised
        except RayActorError as error:
            why = connect.last_line(error)
            logger.warning("Ray: a worker is gone for good: %s", why)
            if not self.tasks:
                raise EngineError(
                    f"all workers are gone; the last one: {why}"
                ) from error
        else:
            self._set_to_work(t)

    def dismiss(self, seconds: float) -> None:
        """Wait `seconds` for the workers to return by themselves, then kill them."""
        with contextlib.suppress(Exception):
            count = len(self.tasks)
            self.ray.wait([*self.tasks], num_returns=count, timeout=seconds)
        for worker in self.workers:
            with contextlib.suppress(Exception):
                self.ray.kill(worker)

    # A check.

    def bound(
        self, exact: np.ndarray, stop: Callable[[], bool]
    ) -> tuple[float, Any] | None:
        """Return the oracle's sum over all blocks, or the block and what it raised.

        None if `stop()` is true, or the workers are too slow. A worker gets the next
        share when it has finished one. Where no answer comes for a while, idle workers
        also get the shares that others have not finished; the first answer counts.
        """
        whole, T = self.n_blocks * self.seconds, len(self.workers)
        shares = _cut(self.n_blocks, max(SHARES * T, int(whole / SHARE_SECONDS)))
        one = SHARE_SECONDS + whole / len(shares)
        v, found, busy = [self.ray.put(exact)], {}, {}
        last = time.monotonic()
        while len(found) < len(shares):
            silent = time.monotonic() - last
            if stop() or silent > PATIENCE * one:
                return None
            self._hand_out(shares, v, found, busy, late=silent > DOUBT * one)
            done, _ = self.ray.wait([*busy], timeout=LOOK_SECONDS)
            for call in done:
                _, share = busy.pop(call)
                answer = self._answer(call)
                if answer is None:
                    continue
                if answer[1] is not None:
                    return answer
                found[share], last = answer[0], time.monotonic()
        return sum(found.values()), None

    def _hand_out(
        self, shares: list, v: list, found: dict, busy: dict, late: bool
    ) -> None:
        """Give idle workers a free share each; if `late`, also one that another has."""
        working = {t for t, _ in busy.values()}
        taken = {share for _, share in busy.values()}
        left = [share for share in shares if share not in found]
        left = sorted(left, key=taken.__contains__)
        for t in range(len(self.workers)):
            if t not in working and left and (late or left[0] not in taken):
                share = left.pop(0)
                bound = self.workers[t].bound.options(max_task_retries=0)
                call = bound.remote(self.problem, v, *share)
                busy[call] = t, share

    def _answer(self, call: Any) -> tuple[float, Any] | None:
        from ray.exceptions import RayError

        try:
            return connect.result_of(self.ray, call)
        except RayError:  # the worker died; its share is given out again
            return None


def _cut(n: int, count: int) -> list[tuple[int, int]]:
    ends = [t * n // count for t in range(count + 1)]
    return [(a, b) for a, b in pairwise(ends) if a < b]
