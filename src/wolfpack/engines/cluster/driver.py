"""The driver of a cluster: it starts server and workers, watches, and fetches x and v.

Ray restarts processes that died. A worker has no state to lose; the driver tells a
restarted server to continue from its last checkpoint.
"""

import contextlib
import logging
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.engines.base import Session
from wolfpack.engines.cluster import chunk_size, connect, folder, lease
from wolfpack.engines.cluster.fleet import Fleet
from wolfpack.engines.cluster.head import Head
from wolfpack.engines.cluster.ledger import Ledger
from wolfpack.engines.cluster.rescue import rescue, save_anew
from wolfpack.engines.cluster.server_actor import Orders, ServerActor
from wolfpack.kernels.notice import waiting
from wolfpack.result import EngineError, Live
from wolfpack.run.faults import failure
from wolfpack.update.plan import Exit

WATCH_SECONDS = 0.03  # between two questions to the server
REVIVE_SECONDS = 60.0  # for Ray to restart a server that died
GOODBYE_SECONDS = 2.0  # for workers to return by themselves
ALONE_SECONDS = 0.1  # the driver makes a full pass itself if that takes it less

logger = logging.getLogger("wolfpack")


class RaySession(Session):
    """One run, as the driver sees it."""

    names_the_block = True  # workers solve one block at a time, and report it
    fetches = accelerates_itself = True  # the server has v, and makes outer steps

    def __init__(self, problem, options, engine) -> None:
        self.problem, self.options, self.engine = problem, options, engine
        self.ray = connect.import_ray()
        self.in_flight = options.batch_size
        n = options.max_epochs * problem.n_blocks
        self.limit = n if math.isinf(n) else math.ceil(n - 1e-9)
        self.server: Any = None
        self.fleet: Fleet | None = None
        self.lease: lease.Lease | None = None
        self.stale = False  # whether the server is ahead of run.state
        self.alone = True  # whether the driver makes the pass of a check by itself
        self.head: Head | None = None
        self.lost: EngineError | None = None  # why it was given up
        self.ledger = Ledger()
        self.folder: tempfile.TemporaryDirectory | None = None

    def open(self, run) -> None:
        """Start server and workers; no clock of the run counts this time."""
        with connect.carrying(run.state):
            self._start(run)

    def advance(self, run, calls: int) -> Exit:
        """Wait for `calls` calls; the cluster goes on while the driver checks."""
        try:
            with connect.carrying(run.state):
                return self._advance(run, calls)
        except EngineError as error:
            self._give_up(run, error)
            return Exit.DONE

    def _advance(self, run, calls: int) -> Exit:
        before = run.state.n_oracle_calls
        until = min(before + calls, self.limit)
        while True:
            status = self._ask("status", run)
            self.ledger.note(run.state.progress, status)
            run.live_calls = int(self.ledger.made[1]) - before
            over = status["ended"] != Exit.DONE or status["error"] is not None
            if before + run.live_calls >= until or over or run.pulse():
                break
            assert self.fleet is not None
            self.fleet.tend()
            time.sleep(WATCH_SECONDS)
        run.live_calls = 0
        _count(run.state, status["progress"])
        self.stale = True
        if over:
            self._fetch_what_failed(run)
        return Exit(status["ended"])

    def fetch(self, run) -> None:
        """Bring x and v from the server to this process, and their counts."""
        if not self.stale:
            return
        try:
            with connect.carrying(run.state):
                found = self._ask("snapshot", run)
        except EngineError as error:
            self._give_up(run, error)
        else:
            self.receive(run, found)

    def receive(self, run, found: dict[str, Any]) -> None:
        """Take a snapshot of the server."""
        state = run.state
        state.blocks = self.problem.store.unpack(
            found["blocks"], self.problem, self.options.batch_size
        )
        state.shared = np.array(found["shared"])
        state.average = np.array(found["average"])
        state.outer = found["outer"] and found["outer"].copy()
        _count(state, found["progress"])
        self.ledger.note(state.progress, found)
        self.stale = False

    def oracle_sum(self, state, exact: np.ndarray, stop: Callable) -> float | None:
        """Spread a full pass over the workers; None: the driver makes it itself."""
        fleet, head = self.fleet, self.head
        if self.alone or self.server is None or fleet is None or head is None:
            return None
        v = exact.astype(np.float64, copy=False)
        with connect.carrying(state):
            found = fleet.bound(v, lambda: stop() or head.is_lost)
        if head.is_lost:  # before Ray ends this process during a long pass
            self.lost = EngineError(head.sentence, state)
            self.close()
        if found is None:
            return None
        least, fault = found
        if fault is not None:
            state.progress.at, error = fault
            raise failure(self.problem, state, error) from error
        return least

    @property
    def live(self) -> Live:
        """The numbers of this moment, for callbacks."""
        return self.ledger.live

    def report(self) -> dict[str, Any]:
        """Return what a `Result` says about workers."""
        assert self.fleet is not None
        n_workers = {"n_workers": len(self.fleet.workers)}
        return self.ledger.report(self.chunk, self.tau) | n_workers

    def close(self) -> None:
        """Stop everything that this run started."""
        ray = self.ray
        is_lost = bool(self.lost or (self.head and self.head.is_lost))
        try:
            if self.server is not None and ray.is_initialized():
                self._say_goodbye(0.0 if is_lost else GOODBYE_SECONDS)
        finally:
            self.server = None
            if self.head is not None:
                self.head.close()
            if self.lease is not None:
                self.lease = None
                lease.leave(ray, in_time=is_lost)
            if self.folder is not None:
                self.folder.cleanup()

    def _say_goodbye(self, seconds: float) -> None:
        """Let the workers return: Ray reports a task that is killed as failed."""
        save = self.engine.checkpoint is not None and self.lost is None
        with contextlib.suppress(Exception):
            self.ray.get(self.server.finish.remote(save), timeout=seconds)
        if self.fleet is not None:
            self.fleet.dismiss(seconds)
        with contextlib.suppress(Exception):
            self.ray.kill(self.server)

    # The end of a cluster that cannot go on.

    def _give_up(self, run, error: EngineError) -> None:
        """Leave the cluster with the newest x that can be had; raise why.

        After a signal nothing is raised: it may have ended the cluster too, and the run
        ends as interrupted.
        """
        if self.lost is None:
            self.lost = error
            rescue(self, run)
            self.stale = False
            self.close()
        if not run.is_interrupted:
            raise self.lost

    # The start of a run.

    def _start(self, run) -> None:
        ray, engine, wanted = self.ray, self.engine, self.engine.n_workers
        count = None if wanted == "auto" else int(wanted)
        with waiting("starting Ray, or joining its cluster"):
            self.lease = lease.enter(ray, engine.address, count)
        self.head = Head(ray)
        path = engine.checkpoint
        if path is None:
            self.folder = folder.make()
            path = Path(self.folder.name) / "server.npz"
        self.path = str(run.state.save(Path(path).absolute()))
        self.ledger.made[:] = run.state.n_updates, run.state.n_oracle_calls
        stay = connect.stay_here(ray)
        how = {"num_cpus": 0, "max_restarts": -1, "scheduling_strategy": stay}
        self.server = ray.remote(**how)(ServerActor).remote()
        self.fleet = Fleet(ray, self.problem, wanted, self.lease.alone, self.head)
        with waiting(f"starting {self.fleet.wanted} workers, which load their loops"):
            self.fleet.hire()
        seconds, T = self.fleet.seconds, len(self.fleet.workers)
        self.chunk, window, self.tau = chunk_size.choose(
            self.problem, engine.chunk, self.options, seconds, T
        )
        self.alone = self.problem.n_blocks * seconds / engine.size < ALONE_SECONDS
        with waiting("starting the server, which loads its loops"):
            self._begin(run)
        self.fleet.set_to_work(self.server, self.chunk, window)

    # A run under way.

    def _fetch_what_failed(self, run) -> None:
        """Fetch the iterate, then raise what a worker or the server raised."""
        self.fetch(run)
        found = self._ask("status", run)["error"]
        if found is None:
            return
        block, error = found
        if block < 0:
            raise EngineError(f"the run cannot go on: {error}.")
        run.state.progress.at = block
        raise error

    def _begin(self, run) -> None:
        """Tell the server which checkpoint to continue from."""
        assert self.fleet is not None
        made = (int(self.ledger.made[0]), int(self.ledger.made[1]))
        orders = Orders(
            self.fleet.problem, self.path, self.options, self.tau,
            self.engine.checkpoint_seconds, self.limit, made,
        )  # fmt: skip
        wrong = self._ask("begin", run, orders)
        if wrong is not None:
            save_anew(self.path, run.state, wrong)
            if wrong := self._ask("begin", run, orders):
                raise EngineError(
                    f"the server cannot read its checkpoint: {wrong} Is the file in a "
                    "folder that all machines share?"
                )
        self.ledger.begin(self._ask("status", run))

    def _ask(self, method: str, run, *args: Any) -> Any:
        """Call the server; if it died, await its restart, and let it continue."""
        from ray.exceptions import RayActorError

        silent = time.monotonic()
        while True:
            self._refuse_lost()
            try:
                call = getattr(self.server, method).remote(*args)
                answer = connect.await_answer(
                    self.ray, call, lambda: run.is_interrupted, self._refuse_lost
                )
            except RayActorError as error:
                late = time.monotonic() > silent + REVIVE_SECONDS
                if late or run.is_interrupted:
                    why = connect.last_line(error)
                    raise EngineError(
                        "the server died, and was not started again within "
                        f"{time.monotonic() - silent:.0f} s ({why})."
                    ) from error
                time.sleep(0.1)
                continue
            except EngineError:
                raise
            except Exception as error:
                why = connect.last_line(error)
                raise EngineError(f"the server cannot be called: {why}") from error
            if answer is None and method != "begin":
                logger.warning("Ray: the server died; it goes on from its checkpoint.")
                self._begin(run)
                self.restarted_at = self.ledger.made[1] / self.problem.n_blocks
                continue
            return answer

    def _refuse_lost(self) -> None:
        """Raise if there is no cluster any more; a call would start a new Ray."""
        if self.lost is not None:
            raise self.lost
        if not lease.holds(self.ray, self.lease):
            raise EngineError("the program called ray.shutdown() during the run.")
        if self.head is not None and self.head.is_lost:
            raise EngineError(self.head.sentence)


def _count(state, progress) -> None:
    """Copy the server's counts, and the block it is at, into the state."""
    for name in ("updates", "calls", "at"):
        state.progress[name] = progress[name]
