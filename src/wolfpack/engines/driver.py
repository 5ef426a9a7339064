"""The driver of a cluster: it starts everything, watches, and fetches what is there.

Whoever dies is started again: a worker has nothing to lose, the server goes on from its
last checkpoint, and the driver tells it so.
"""

import contextlib
import logging
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.engines import actors, cluster, sizes
from wolfpack.engines.serial import CALLS, CURRENT, DONE, UPDATES
from wolfpack.engines.team import add_up
from wolfpack.result import EngineError
from wolfpack.state import CHECKED

WATCH_SECONDS = 0.03  # between two looks of the driver
TEND_SECONDS = 1.0  # between two looks at workers and machines
START_SECONDS = 60.0  # for all workers; then with those that are there
LAST_CALL_SECONDS = 300.0  # for the first one
ANSWER_SECONDS = 300.0  # a server that is alive answers within, or is taken for lost
REVIVE_SECONDS = 60.0  # for one that is not
HURRY_SECONDS = 10.0  # after Ctrl-C
GOODBYE_SECONDS = 2.0  # for workers to return

logger = logging.getLogger("wolfpack")


class RaySession:
    """One run, as the driver sees it."""

    def __init__(self, problem, options, engine) -> None:
        self.problem, self.options, self.engine = problem, options, engine
        self.ray = cluster.import_ray()
        self.in_flight = options.batch_size
        limit = options.max_epochs * problem.n_blocks
        self.limit = limit if math.isinf(limit) else math.ceil(limit - 1e-9)
        self.server: Any = None
        self.workers: list[Any] = []
        self.tasks: dict[Any, int] = {}  # the `work` of each worker
        self.owned = False  # whether Ray was started, or joined, for this run
        self.stale = False  # whether the server is ahead of run.state
        self.made = np.zeros(2, np.int64)  # updates and calls that are known of
        self.sums = np.zeros(2)  # of the server's life
        self.tallies: list[np.ndarray] = []  # of each of its lives
        self.n_live, self.busy = 0, 0.0
        self.next_tend = 0.0
        self.unsaved = ""
        self.folder: tempfile.TemporaryDirectory | None = None

    # The hooks of a run.

    def open(self, run) -> None:
        """Start server and workers, outside all clocks."""
        try:
            self._start(run)
        except BaseException:
            self.close()
            raise

    def advance(self, run, calls: int) -> int:
        """Wait until the cluster has made so many calls; return why it ended.

        It never stops for the driver, only at the last epoch.
        """
        if calls == 0:
            return DONE
        before = run.state.n_oracle_calls
        until = min(before + calls, self.limit)
        while True:
            status = self._ask("status", run)
            self._note(run, status)
            made = int(self.made[1])
            run.live_calls = made - before
            over = status["ended"] != DONE or status["error"] is not None
            if made >= until or over or run.pulse():
                break
            self._tend()
            time.sleep(WATCH_SECONDS)
        run.live_calls = 0
        run.state.counts[:CHECKED] = status["counts"][:CHECKED]
        self.stale = True
        if over:
            self._fetch_what_failed(run)
        return int(status["ended"])

    def fetch(self, run) -> None:
        """Bring x and v here, and how many updates they are made of."""
        if not self.stale:
            return
        found, state = self._ask("snapshot", run), run.state
        state.blocks = self.problem.store.unpack(
            found["blocks"], self.problem.offsets, self.options.batch_size
        )
        state.shared = np.array(found["shared"])
        state.average = np.array(found["average"])
        state.counts[:CHECKED] = found["counts"][:CHECKED]
        self._note(run, found)
        self.stale = False

    def report(self) -> dict[str, Any]:
        """Return what a `Result` says about workers."""
        if not self.tallies:
            return {"n_workers": len(self.workers)}
        return {**add_up(np.stack(self.tallies)), "n_workers": len(self.workers)}

    def close(self) -> None:
        """Stop everything that this run started."""
        ray = self.ray
        try:
            if self.server is not None and ray.is_initialized():
                self._say_goodbye()
        finally:
            self.workers, self.tasks, self.server = [], {}, None
            self.reference = None
            if self.owned:
                self.owned = False
                ray.shutdown()
            if self.folder is not None:
                self.folder.cleanup()

    def _say_goodbye(self) -> None:
        """Let the workers return by themselves, or Ray says that their task failed."""
        ray, T, save = self.ray, len(self.tasks), self.engine.checkpoint is not None
        with contextlib.suppress(Exception):
            ray.get(self.server.finish.remote(save), timeout=GOODBYE_SECONDS)
            ray.wait([*self.tasks], num_returns=T, timeout=GOODBYE_SECONDS)
        for actor in [*self.workers, self.server]:
            with contextlib.suppress(Exception):
                ray.kill(actor)

    # How it starts.

    def _start(self, run) -> None:
        ray, engine = self.ray, self.engine
        if not ray.is_initialized():
            self.owned = True
            count = None if engine.n_workers == "auto" else int(engine.n_workers)
            cluster.connect(ray, engine.address, count)
        else:
            cluster.refuse_another(ray, engine.address)
        path, n = engine.checkpoint, self.problem.n_blocks
        if path is None:
            self.folder = tempfile.TemporaryDirectory(
                prefix="wolfpack-", ignore_cleanup_errors=True
            )
            path = Path(self.folder.name) / "server.npz"
        self.path = str(run.state.save(path))
        self.made[:] = run.state.n_updates, run.state.n_oracle_calls
        self.reference = ray.put(self.problem)
        serve = ray.remote(num_cpus=0, max_restarts=-1)(actors.ServerActor)
        stay = cluster.stay_here(ray, engine.checkpoint)
        self.server = serve.options(scheduling_strategy=stay).remote()
        wanted = self._count_cores() if engine.n_workers == "auto" else engine.n_workers
        seconds = float(np.median(self._hire(int(wanted))))
        T = len(self.workers)
        self.chunk = sizes.choose_chunk(seconds, T, n)
        if engine.chunk != "auto":
            self.chunk = min(int(engine.chunk), n)
        best = sizes.choose_tau(self.problem, T, self.chunk)
        self.tau = self.options.asked or best
        self._begin(run)
        for t in range(T):
            self._set_to_work(t)

    def _hire(self, count: int) -> list[float]:
        """Start workers; return the seconds that each takes for an oracle call."""
        ray = self.ray
        # One a core, so that Ray puts them where cores are; more than that anywhere.
        cores = 1 if count <= self._count_cores() else 0
        self.workers = [self._hire_one(cores) for _ in range(count)]
        first = self.workers[0].warm.remote([self.reference])
        ray.wait([first], timeout=START_SECONDS)  # the others find its compiled code
        warm = [first]
        warm += [worker.warm.remote([self.reference]) for worker in self.workers[1:]]
        ready, _ = ray.wait(warm, num_returns=count, timeout=START_SECONDS)
        if not ready:
            ready, _ = ray.wait(warm, timeout=LAST_CALL_SECONDS)
        if not ready:
            raise EngineError(
                f"none of {count} workers could be started within "
                f"{START_SECONDS + LAST_CALL_SECONDS:.0f} s; are all cores of the "
                "cluster taken? `ray status` says so."
            )
        return [cluster.result_of(self.ray, ref) for ref in ready]

    def _hire_one(self, cores: int) -> Any:
        how = {"num_cpus": cores, "max_restarts": -1, "max_task_retries": -1}
        solve = self.ray.remote(scheduling_strategy="SPREAD", **how)
        return solve(actors.WorkerActor).remote()

    def _count_cores(self) -> int:
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def _set_to_work(self, t: int) -> None:
        work = self.workers[t].work
        task = work.remote(t, self.server, [self.reference], self.chunk)
        self.tasks[task] = t

    # How it goes on.

    def _tend(self) -> None:
        """Look after workers: those that came back by themselves, and new machines."""
        if time.monotonic() < self.next_tend:
            return
        self.next_tend = time.monotonic() + TEND_SECONDS
        done, _ = self.ray.wait([*self.tasks], num_returns=len(self.tasks), timeout=0)
        for task in done:
            self._replace(task)
        if self.engine.n_workers == "auto":
            for t in range(len(self.workers), self._count_cores()):
                self.workers.append(self._hire_one(1))
                self._set_to_work(t)

    def _replace(self, task: Any) -> None:
        """Give a worker that returned its work again; do without one that is gone."""
        from ray.exceptions import RayActorError

        t = self.tasks.pop(task)
        try:
            cluster.result_of(self.ray, task)  # raises what it raised
        except RayActorError as error:
            logger.warning(
                "Ray: a worker is gone for good: %s", cluster.last_line(error)
            )
            if not self.tasks:
                raise EngineError(
                    f"all workers are gone; the last one: {cluster.last_line(error)}"
                ) from error
        else:
            self._set_to_work(t)

    def _note(self, run, status: dict[str, Any]) -> None:
        """Keep what is to survive the server; give the run what is new."""
        self.made = np.maximum(self.made, status["counts"][[UPDATES, CALLS]])
        run.state.sums += status["sums"] - self.sums
        self.sums = np.array(status["sums"])
        self.tallies[-1] = status["tally"]
        self.n_live, self.busy = status["workers"], status["busy"]
        if status["unsaved"] != self.unsaved:
            self.unsaved = status["unsaved"]
            if self.unsaved:
                logger.warning("Ray: the checkpoint fails: %s.", self.unsaved)

    def _fetch_what_failed(self, run) -> None:
        """Bring the iterate here, and raise what a worker or the server raised."""
        self.fetch(run)
        found = self._ask("status", run)["error"]
        if found is None:
            return
        block, error = found
        if block < 0:
            raise EngineError(f"the run cannot go on: {error}.", run.state)
        run.state.counts[CURRENT] = block
        raise error

    def _begin(self, run) -> None:
        """Tell the server where to go on from."""
        made = (int(self.made[0]), int(self.made[1]))
        orders = actors.Orders(
            [self.reference], self.path, self.options, self.tau,
            self.engine.checkpoint_seconds, self.limit, made,
        )  # fmt: skip
        self._ask("begin", run, orders)
        self.sums = np.zeros(2)
        self.tallies.append(self._ask("status", run)["tally"])

    def _ask(self, method: str, run, *args: Any) -> Any:
        """Call the server; if it died, wait until it is back, and tell it to go on."""
        from ray.exceptions import RayActorError

        silent = time.monotonic()
        while True:
            call = getattr(self.server, method).remote(*args)
            try:
                answer = self._await(call, run)
            except RayActorError as error:
                if time.monotonic() > silent + REVIVE_SECONDS:
                    why = cluster.last_line(error)
                    raise EngineError(
                        "the server died, and could not be started again within "
                        f"{REVIVE_SECONDS:.0f} s ({why}).",
                        run.state,
                    ) from error
                time.sleep(0.1)
                continue
            if answer is None and method != "begin":
                logger.warning("Ray: the server died; it goes on from its checkpoint.")
                self._begin(run)
                continue
            return answer

    def _await(self, call: Any, run) -> Any:
        """Wait for an answer; not much longer if somebody wants to stop."""
        begin = time.monotonic()
        limit = begin + ANSWER_SECONDS
        while True:
            done, _ = self.ray.wait([call], timeout=0.5)
            if done:
                return cluster.result_of(self.ray, call)
            now = time.monotonic()
            if now > begin + HURRY_SECONDS and run._interrupt.asked:
                limit = now
            if now >= limit:
                raise EngineError(
                    f"the server has not answered for {now - begin:.0f} s.", run.state
                )
