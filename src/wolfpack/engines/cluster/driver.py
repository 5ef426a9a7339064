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
from wolfpack.engines.cluster import chunk_size, connect, lease
from wolfpack.engines.cluster.fleet import Fleet
from wolfpack.engines.cluster.server_actor import Orders, ServerActor
from wolfpack.engines.shared_memory.team import add_up
from wolfpack.result import EngineError, Live, Traffic
from wolfpack.run.faults import failure
from wolfpack.update.plan import Exit, make_progress, make_tallies

WATCH_SECONDS = 0.03  # between two questions of the driver to the server
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
        limit = options.max_epochs * problem.n_blocks
        self.limit = limit if math.isinf(limit) else math.ceil(limit - 1e-9)
        self.server: Any = None
        self.fleet: Fleet | None = None
        self.lease: lease.Lease | None = None
        self.stale = False  # whether the server is ahead of run.state
        self.alone = True  # whether the driver makes the pass of a check by itself
        self.made = np.zeros(2, np.int64)  # the most updates and calls reported
        self.known: Any = make_progress()  # of the server since its last start
        self.tallies = make_tallies(0)  # one for each start of the server
        self.traffic: list[tuple] = []
        self.n_live, self.unsaved = 0, ""
        self.folder: tempfile.TemporaryDirectory | None = None

    def open(self, run) -> None:
        """Start server and workers; no clock of the run counts this time."""
        with connect.carrying(run.state):
            self._start(run)

    def advance(self, run, calls: int) -> Exit:
        """Wait until the cluster has made `calls` calls; return why it ended.

        The cluster goes on while the driver checks; it stops only at the last epoch.
        """
        with connect.carrying(run.state):
            return self._advance(run, calls)

    def _advance(self, run, calls: int) -> Exit:
        assert self.fleet is not None
        before = run.state.n_oracle_calls
        until = min(before + calls, self.limit)
        while True:
            status = self._ask("status", run)
            self._note(run, status)
            made = int(self.made[1])
            run.live_calls = made - before
            over = status["ended"] != Exit.DONE or status["error"] is not None
            if made >= until or over or run.pulse():
                break
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
        state = run.state
        with connect.carrying(state):
            found = self._ask("snapshot", run)
        state.blocks = self.problem.store.unpack(
            found["blocks"], self.problem.offsets, self.options.batch_size
        )
        state.shared = np.array(found["shared"])
        state.average = np.array(found["average"])
        state.outer = found["outer"] and found["outer"].copy()
        _count(state, found["progress"])
        self._note(run, found)
        self.stale = False

    def oracle_sum(self, state, exact: np.ndarray, stop: Callable) -> float | None:
        """Spread a full pass over the workers; None: the driver makes it itself."""
        if self.alone or self.fleet is None:
            return None
        with connect.carrying(state):
            found = self.fleet.bound(exact.astype(np.float64, copy=False), stop)
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
        tallies = self.tallies
        count = max(int(tallies.histogram.sum()), 1)
        delay = float(tallies.delays.sum() / count)
        return Live(self.n_live, delay, int(tallies.dropped.sum()))

    def report(self) -> dict[str, Any]:
        """Return what a `Result` says about workers."""
        assert self.fleet is not None
        messages, size, busy, lived = np.sum(self.traffic, axis=0).tolist()
        return {
            **add_up(self.tallies),
            "n_workers": len(self.fleet.workers),
            "traffic": Traffic(
                chunk=self.chunk,
                batch_size=self.tau,
                n_messages=int(messages),
                n_bytes=int(size),
                server_utilisation=busy / max(lived, 1e-300),
            ),
        }

    def close(self) -> None:
        """Stop everything that this run started."""
        ray = self.ray
        try:
            if self.server is not None and ray.is_initialized():
                self._say_goodbye()
        finally:
            self.server, self.fleet = None, None
            if self.lease is not None:
                self.lease = None
                lease.leave(ray)
            if self.folder is not None:
                self.folder.cleanup()

    def _say_goodbye(self) -> None:
        """Let the workers return: Ray reports a task that is killed as failed."""
        save = self.engine.checkpoint is not None
        with contextlib.suppress(Exception):
            self.ray.get(self.server.finish.remote(save), timeout=GOODBYE_SECONDS)
        if self.fleet is not None:
            self.fleet.dismiss(GOODBYE_SECONDS)
        with contextlib.suppress(Exception):
            self.ray.kill(self.server)

    # The start of a run.

    def _start(self, run) -> None:
        ray, engine = self.ray, self.engine
        count = None if engine.n_workers == "auto" else int(engine.n_workers)
        self.lease = lease.enter(ray, engine.address, count)
        path = engine.checkpoint
        if path is None:
            self.folder = tempfile.TemporaryDirectory(
                prefix="wolfpack-", ignore_cleanup_errors=True
            )
            path = Path(self.folder.name) / "server.npz"
        self.path = str(run.state.save(Path(path).absolute()))
        self.made[:] = run.state.n_updates, run.state.n_oracle_calls
        stay = connect.stay_here(ray, engine.checkpoint)
        how = {"num_cpus": 0, "max_restarts": -1, "scheduling_strategy": stay}
        self.server = ray.remote(**how)(ServerActor).remote()
        self.fleet = Fleet(ray, self.problem, engine.n_workers, self.lease.alone)
        self.fleet.hire()
        seconds, T = self.fleet.seconds, len(self.fleet.workers)
        self.chunk, window, self.tau = chunk_size.choose(
            self.problem, engine.chunk, self.options.asked, seconds, T
        )
        self.alone = self.problem.n_blocks * seconds / engine.size < ALONE_SECONDS
        self._begin(run)
        self.fleet.set_to_work(self.server, self.chunk, window)

    # A run under way.

    def _note(self, run, status: dict[str, Any]) -> None:
        """Copy the counts of the server, which may die; give the run what is new."""
        now, known, progress = status["progress"], self.known, run.state.progress
        self.made = np.maximum(self.made, (now.updates, now.calls))
        progress.gap_sum += now.gap_sum - known.gap_sum
        progress.gaps_seen += now.gaps_seen - known.gaps_seen
        self.known = now
        self.tallies[-1], self.traffic[-1] = status["tally"], status["traffic"]
        self.n_live, before = status["workers"], self.unsaved
        self.unsaved = status["unsaved"]
        if self.unsaved and self.unsaved != before:
            logger.warning("Ray: the checkpoint fails: %s.", self.unsaved)

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
        made = (int(self.made[0]), int(self.made[1]))
        orders = Orders(
            self.fleet.problem, self.path, self.options, self.tau,
            self.engine.checkpoint_seconds, self.limit, made,
        )  # fmt: skip
        wrong = self._ask("begin", run, orders)
        if wrong is not None:
            self._save_anew(run, wrong)
            wrong = self._ask("begin", run, orders)
        if wrong is not None:
            raise EngineError(
                f"the server cannot read its checkpoint: {wrong} Is the file in a "
                "folder that all machines share?"
            )
        status = self._ask("status", run)
        self.known = make_progress()
        tallies = make_tallies(len(self.tallies) + 1)
        tallies[:-1] = self.tallies
        self.tallies = tallies
        self.traffic.append(status["traffic"])

    def _save_anew(self, run, wrong: str) -> None:
        """Save the state of the driver for a server whose checkpoint is lost."""
        logger.warning("Ray: %s The server goes on from the last check.", wrong)
        try:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            run.state.save(self.path)
        except OSError as error:
            raise EngineError(
                "the server died, and its checkpoint can neither be read nor written "
                f"anew: {wrong} {error}."
            ) from error

    def _ask(self, method: str, run, *args: Any) -> Any:
        """Call the server; if it died, await its restart, and let it continue."""
        from ray.exceptions import RayActorError

        silent = time.monotonic()
        while True:
            if not lease.holds(self.ray, self.lease):  # a call would start a new Ray
                raise EngineError("the program called ray.shutdown() during the run.")
            try:
                call = getattr(self.server, method).remote(*args)
                answer = connect.await_answer(
                    self.ray, call, lambda: run.is_interrupted
                )
            except RayActorError as error:
                if time.monotonic() > silent + REVIVE_SECONDS:
                    why = connect.last_line(error)
                    raise EngineError(
                        "the server died, and could not be started again within "
                        f"{REVIVE_SECONDS:.0f} s ({why})."
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
                self.restarted_at = float(self.made[1] / self.problem.n_blocks)
                continue
            return answer


def _count(state, progress) -> None:
    """Copy the server's counts, and the block it is at, into the state."""
    for name in ("updates", "calls", "at"):
        state.progress[name] = progress[name]
