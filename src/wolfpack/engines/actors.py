"""The actors of the Ray engine: a server that listens, workers that never wait.

A worker reads the newest v, solves a chunk of blocks, pushes the atoms, and goes on
with the next chunk while up to `WINDOW` pushes are on their way. Neither has arguments
that a restart would need: the driver tells a server that was born again where to go on
from, and Ray calls `work` again on a worker that was.
"""

import contextlib
import os
import pickle
import time
import traceback
from typing import Any, NamedTuple

import numpy as np

from wolfpack.engines.service import Chunk, Service
from wolfpack.engines.sizes import WINDOW
from wolfpack.state import State

TRIAL_SECONDS = 0.005  # of oracle calls, to tell how long one takes
PUBLISH_SECONDS = 0.005  # between two versions of v that workers get, at least
SMALL_BYTES = 2**16  # a v up to this travels in the answer, not by reference
IDLE_SECONDS = 0.005  # a worker looks again whether there is work
# A worker counts as gone after so long, or so many times its longest pause.
SILENT_SECONDS, PAUSES = 5.0, 4.0
GIVE_UP_SECONDS = 120.0  # without an answer, and a worker returns
MOST_BIRTHS = 5  # of each worker, while nobody delivers anything
# Publishing and saving take at most these shares of the server's time.
PUBLISH_SHARE, SAVE_SHARE = 0.1, 0.05


class Reply(NamedTuple):
    """What the server answers to a push."""

    version: tuple[int, int]  # the life and the version
    v: Any  # v or [reference], if the worker has an older one
    go: bool
    stop: bool


class Orders(NamedTuple):
    """What the driver tells a server that begins, or begins again."""

    problem: list  # [reference]
    path: str
    options: Any
    batch_size: int
    seconds: float  # between two checkpoints
    until: float
    made: tuple[int, int]


class ServerActor:
    """A `Service` that listens. Without one it answers None: it was born again."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.over = False
        self.seen: dict[int, tuple[float, float]] = {}  # last, and longest pause
        self.births, self.busy = 0, 0.0
        self.unsaved = ""

    def begin(self, orders: Orders) -> None:
        """Go on from the checkpoint."""
        problem = _get(orders.problem)
        rng = np.random.default_rng()
        state = State.resume(problem, State.load(orders.path), orders.options, rng)
        self.service = Service(
            problem, state, orders.options.plan, orders.batch_size, orders.made
        )
        self.service.until = orders.until
        self.orders = orders
        self.next_save = time.monotonic() + orders.seconds
        self._publish()

    def push(self, worker: int, known: tuple[int, int], chunk: Chunk | None) -> Reply:
        """Take a chunk; answer with the newest v, if that is not `known`."""
        begin, service = time.monotonic(), self.service
        self._see(worker)
        if service is None:
            return Reply((0, -1), None, False, self.over)
        if chunk is not None:
            service.take(chunk)
            self.births = 0
            if begin >= self.next_publish and service.version != self.version[1]:
                self._publish()
            if begin >= self.next_save:
                self._save()
        fresh = None if known == self.version else self.v
        self.busy += time.monotonic() - begin
        return Reply(self.version, fresh, service.is_open, self.over)

    def greet(self, worker: int) -> None:
        """Count the workers that begin, to notice when they do nothing but die."""
        self._see(worker)
        self.births += 1
        if self.service is not None and self.births > MOST_BIRTHS * len(self.seen):
            self.fail(-1, RuntimeError(f"{self.births} workers died before they sent "
                                       "anything"))  # fmt: skip

    def fail(self, block: int, error: Exception) -> None:
        """Stop because a worker's oracle raised on a block."""
        if self.service is not None:
            self.service.fail(block, error)

    def status(self) -> dict[str, Any] | None:
        """Return how far it is."""
        service = self.service
        if service is None:
            return None
        now = time.monotonic()
        return {
            "counts": service.state.counts,
            "sums": service.state.sums,
            "tally": service.tally,
            "ended": service.ended,
            "error": service.error,
            "workers": sum(
                now - last < max(SILENT_SECONDS, PAUSES * pause)
                for last, pause in self.seen.values()
            ),
            "busy": self.busy,
            "unsaved": self.unsaved,
            "pid": os.getpid(),
        }

    def snapshot(self) -> dict[str, Any] | None:
        """Return x, and v as it follows from it."""
        service, status = self.service, self.status()
        if service is None or status is None:
            return None
        drift, state = service.rebuild(), service.state
        return {
            **status,
            "blocks": service.problem.store.pack(state.blocks),
            "shared": state.shared,
            "average": state.average,
            "drift": drift,
        }

    def finish(self, save: bool) -> None:
        """Tell all workers to return."""
        self.over = True
        if save and self.service is not None:
            self._save()

    def _see(self, worker: int) -> None:
        now = time.monotonic()
        last, pause = self.seen.get(worker, (now, 0.0))
        self.seen[worker] = now, max(pause, now - last)

    def _save(self) -> None:
        begin = time.monotonic()
        self.unsaved = ""
        try:
            assert self.service is not None
            self.service.save(self.orders.path)
        except OSError as error:  # a full disk is no reason to stop
            self.unsaved = str(error)
        now = time.monotonic()
        self.next_save = now + max(self.orders.seconds, (now - begin) / SAVE_SHARE)

    def _publish(self) -> None:
        import ray

        assert self.service is not None
        begin, v = time.monotonic(), self.service.state.shared
        self.version = (self.service.life, self.service.version)
        self.v = v.copy() if v.nbytes <= SMALL_BYTES else [ray.put(v)]
        now = time.monotonic()
        self.next_publish = now + max(PUBLISH_SECONDS, (now - begin) / PUBLISH_SHARE)


class WorkerActor:
    """Solves, and pushes what it finds."""

    def __init__(self) -> None:
        self.problem: Any = None
        self.current = np.zeros(1, np.int64)

    def warm(self, problem: list) -> float:
        """Compile; return the seconds of an oracle call."""
        self._load(problem)
        v, rng = _read_only(self.problem.shared), np.random.default_rng()
        size, spent, n = 1, 0.0, self.problem.n_blocks
        with contextlib.suppress(Exception):  # the run will say so, and which block
            self.solve(v, rng, 1, (0, 0))
            while True:
                begin = time.perf_counter()
                self.solve(v, rng, size, (0, 0))
                spent = time.perf_counter() - begin
                if spent >= TRIAL_SECONDS or size >= n:
                    break
                size = min(2 * size, n)
        return max(spent, 1e-7) / size

    def work(self, me: int, server, problem: list, chunk: int) -> None:
        """Work until the server says stop, or is gone for good."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        self._load(problem)
        rng = np.random.default_rng()
        reply, v, known, heard = None, None, (0, -1), time.monotonic()
        server.greet.remote(me)
        pending = [server.push.remote(me, known, None)]
        while time.monotonic() < heard + GIVE_UP_SECONDS:
            full = v is None or len(pending) >= WINDOW
            done, pending = ray.wait(pending, timeout=1.0 if full else 0)
            for answer in done:
                try:
                    reply = ray.get(answer)
                    if reply.v is not None:
                        v, known = _get(reply.v), reply.version
                    heard = time.monotonic()
                except RayTaskError:  # the server refuses what it was sent
                    raise
                except RayError:  # it is coming back, or v went with it
                    known = (0, -1)
                    time.sleep(0.1)
            if reply is not None and reply.stop:
                return
            if len(pending) >= WINDOW:
                continue
            if v is None or reply is None or not reply.go:
                if not pending:
                    time.sleep(IDLE_SECONDS)
                    pending.append(server.push.remote(me, known, None))
                continue
            try:
                found = self.solve(v, rng, chunk, known)
            except Exception as error:
                with contextlib.suppress(RayError):
                    ray.get(server.fail.remote(int(self.current[0]), _portable(error)))
                return
            pending.append(server.push.remote(me, known, found))

    def solve(self, v, rng, size: int, known: tuple[int, int]) -> Chunk:
        """Solve `size` blocks drawn at random."""
        problem = self.problem
        blocks = rng.integers(problem.n_blocks, size=size)
        atoms = np.zeros((size, problem.atom_size), problem.start.dtype)
        self.kernels.solve_chunk(
            problem.data, v, blocks, atoms, self.current, self.memory
        )
        life, version = known
        return Chunk(blocks, atoms, version, life)

    def _load(self, problem: list) -> None:
        if self.problem is None:
            self.problem = _get(problem)
            self.kernels, self.memory = self.problem.kernels(), self.problem.work()


def _get(thing: Any) -> Any:
    """Return what a list with a reference, or with the thing itself, holds."""
    from ray import ObjectRef, get

    if isinstance(thing, list):
        return get(thing[0]) if isinstance(thing[0], ObjectRef) else thing[0]
    return _read_only(thing)


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return an array as the object store gives it: one kind, one compilation."""
    view = array.view()
    view.flags.writeable = False
    return view


def _portable(error: Exception) -> Exception:
    """Return an error that other processes can read, with its traceback as a note."""
    trace = "".join(traceback.format_exception(error))
    try:
        error = pickle.loads(pickle.dumps(error.with_traceback(None)))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"In a worker:\n{trace}")
    return error
