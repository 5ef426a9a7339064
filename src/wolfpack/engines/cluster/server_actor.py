"""The server process of the Ray engine: a `Service` that listens.

Its constructor takes no arguments, so Ray can restart it; the driver then tells it
which checkpoint to continue from.
"""

import os
import time
from typing import Any, NamedTuple

import numpy as np

from wolfpack.engines.cluster.connect import fetch
from wolfpack.engines.cluster.messages import NOWHERE, Format, pack_words, read_head
from wolfpack.engines.cluster.service import Service
from wolfpack.state import State, StateError

SMALL_BYTES = 96_000  # a v up to this is sent in the answer; Ray allows 100 kB
PUBLISH_SECONDS = 0.005  # at least, between two v in the object store
SILENT_SECONDS = 5.0  # without a sign of life, after which a worker counts as gone
MOST_BIRTHS = 5  # starts of each worker, while no worker sends a chunk
# Publishing v and saving the state take at most these shares of the server's time.
PUBLISH_SHARE, SAVE_SHARE = 0.1, 0.05


class Orders(NamedTuple):
    """What the driver tells a server that begins, or begins again."""

    problem: list  # with a reference to it
    path: str
    options: Any
    batch_size: int
    seconds: float  # between two checkpoints
    until: float
    made: tuple[int, int]


class ServerActor:
    """A `Service` that listens.

    `service` is None after a restart, until the driver has called `begin`.
    """

    def __init__(self) -> None:
        self.service: Service | None = None
        self.over = False
        self.seen: dict[int, float] = {}  # when each worker was heard last
        self.n_restarts = 0  # of workers
        self.births = self.n_messages = self.n_bytes = 0
        self.unsaved = ""

    def begin(self, orders: Orders) -> str | None:
        """Continue from the checkpoint; return what is wrong with it, or None."""
        problem = fetch(orders.problem)
        rng = np.random.default_rng()
        try:
            start = State.load(orders.path)
            start.from_file = False  # this library wrote it, so it is not tried
            state = State.resume(problem, start, orders.options, rng)
        except StateError as error:
            return str(error)
        self.service = Service(
            problem, state, orders.options.plan, orders.batch_size, orders.made
        )
        self.service.warm_up()  # before the clock of the run starts
        self.service.until = orders.until
        self.orders, self.format = orders, Format(problem)
        self.began, self.used = time.monotonic(), time.thread_time()
        self.next_save, self.next_publish = self.began + orders.seconds, 0.0
        self.published, self.reference = NOWHERE, None
        return None

    def push(self, message: bytes) -> Any:
        """Take a message; answer with the newest v, unless the worker has it."""
        who, *known, count = read_head(message)
        self.beat(who)
        service = self.service
        if service is None:
            return pack_words(*NOWHERE, False, self.over)
        if count:
            service.take(self.format.unpack(message)[1])
            self.births = 0
            self.n_messages += 1
            self.n_bytes += len(message)
            if time.monotonic() >= self.next_save:
                self._save()
        return self._answer((known[0], known[1]))

    def _answer(self, known: tuple[int, int]) -> Any:
        service = self.service
        assert service is not None
        rest = (service.is_open, self.over)
        v, newest = service.state.shared, (service.life, service.version)
        if v.nbytes <= SMALL_BYTES:
            head = pack_words(*newest, *rest)
            return head if known == newest else head + v.tobytes()
        if time.monotonic() >= self.next_publish and self.published != newest:
            self._publish(v, newest)
        head = pack_words(*self.published, *rest)
        return head if known == self.published else (head, self.reference)

    def _publish(self, v: np.ndarray, newest: tuple[int, int]) -> None:
        import ray

        begin = time.monotonic()
        self.published, self.reference = newest, [ray.put(v)]
        now = time.monotonic()
        self.next_publish = now + max(PUBLISH_SECONDS, (now - begin) / PUBLISH_SHARE)

    def beat(self, worker: int) -> None:
        """Note a sign of life."""
        self.seen[worker] = time.monotonic()

    def greet(self, worker: int) -> None:
        """Count the workers that begin; stop where they only die and send nothing."""
        self.n_restarts += worker in self.seen
        self.beat(worker)
        self.births += 1
        if self.service is not None and self.births > MOST_BIRTHS * len(self.seen):
            self.fail(-1, RuntimeError(f"{self.births} workers died before they sent "
                                       "anything"))  # fmt: skip

    def fail(self, block: int, error: Exception) -> None:
        """Stop because a worker's oracle raised on a block."""
        if self.service is not None:
            self.service.fail(block, error)

    def status(self) -> dict[str, Any] | None:
        """Return how far the run is; None after a restart, before `begin`."""
        service = self.service
        if service is None:
            return None
        now = time.monotonic()
        return {
            "progress": service.state.progress,
            "tally": service.tally,
            "ended": service.ended,
            "error": service.error,
            "workers": sum(now - last < SILENT_SECONDS for last in self.seen.values()),
            "restarts": self.n_restarts,
            "traffic": (
                self.n_messages,
                self.n_bytes,
                time.thread_time() - self.used,
                now - self.began,
            ),
            "unsaved": self.unsaved,
            "pid": os.getpid(),
        }

    def snapshot(self) -> dict[str, Any] | None:
        """Return x, and the v that is rebuilt from it."""
        service, status = self.service, self.status()
        if service is None or status is None:
            return None
        service.rebuild()
        state = service.state
        return {
            **status,
            "blocks": service.problem.store.pack(state.blocks),
            "shared": state.shared,
            "average": state.average,
            "outer": state.outer,
        }

    def finish(self, save: bool) -> None:
        """Tell all workers to return."""
        self.over = True
        if save and self.service is not None:
            self._save()

    def _save(self) -> None:
        begin = time.monotonic()
        self.unsaved = ""
        try:
            assert self.service is not None
            self.service.save(self.orders.path)
        except (OSError, StateError) as error:  # the run goes on with a full disk
            self.unsaved = str(error)
        now = time.monotonic()
        self.next_save = now + max(self.orders.seconds, (now - begin) / SAVE_SHARE)
