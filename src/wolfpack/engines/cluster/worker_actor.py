"""The worker processes of the Ray engine, which do not wait for each other.

A worker reads the newest v, solves a chunk of blocks, pushes the atoms, and goes on
with the next chunk while the push is in flight. It has no state that could be lost: if
it dies, Ray restarts it and calls `work` again.
"""

import contextlib
import threading
import time
from typing import Any

import numpy as np

from wolfpack.engines.cluster import service
from wolfpack.engines.cluster.connect import fetch
from wolfpack.engines.cluster.messages import (
    NOWHERE,
    Chunk,
    Format,
    as_v,
    pack_words,
    portable,
    read_only,
    read_reply,
    read_v,
)
from wolfpack.kernels.memory import zeros

TRIAL_SECONDS = 0.005  # of oracle calls, to measure how long one takes
BEAT_SECONDS = 1.0  # between two signs of life of a worker that has sent nothing
IDLE_SECONDS = 0.005  # between two questions for work, where there is none
GIVE_UP_SECONDS = 120.0  # a worker returns after this time without an answer
WHERE = "In a worker"


class Post:
    """A worker's connection to the server: messages in flight, and the last answer."""

    def __init__(self, me: int, server: Any, problem: Any, window: int) -> None:
        self.me, self.server, self.window = me, server, window
        self.format, self.like = Format(problem), problem.shared
        self.pending: list[Any] = []
        self.v: np.ndarray | None = None
        self.known = NOWHERE
        self.go = self.stop = False
        self.heard = self.sent = time.monotonic()
        server.greet.remote(me)

    def beat(self, over: threading.Event) -> None:
        """Give signs of life while the oracle takes long."""
        while not over.wait(BEAT_SECONDS):
            if time.monotonic() > self.sent + BEAT_SECONDS:
                self.server.beat.remote(self.me)

    @property
    def is_full(self) -> bool:
        """Whether `window` messages are in flight, the most that may be."""
        return len(self.pending) >= self.window

    @property
    def is_dead(self) -> bool:
        """Whether the server has not answered for GIVE_UP_SECONDS."""
        return time.monotonic() > self.heard + GIVE_UP_SECONDS

    def listen(self) -> None:
        """Read the answers that arrived; wait for one if nothing can be sent before."""
        import ray

        if not self.pending:
            return
        wait = self.is_full or self.v is None or not self.go
        done, self.pending = ray.wait(self.pending, timeout=1.0 if wait else 0)
        for answer in done:
            self._hear(answer)

    def _hear(self, answer: Any) -> None:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            reply: Any = ray.get(answer)
            head, large = reply if isinstance(reply, tuple) else (reply, None)
            v = None if large is None else as_v(fetch(large), self.like)
        except RayTaskError:  # the server refused a message
            raise
        except RayError:  # the server is being restarted, or its v is lost
            self.known = NOWHERE
            time.sleep(0.1)
            return
        known, self.go, self.stop = read_reply(head)
        v = read_v(head, self.like) if v is None else v
        if v is not None:
            self.v, self.known = v, known
        self.heard = time.monotonic()

    def send(self, chunk: Chunk) -> None:
        """Send a chunk that was solved."""
        self.sent = time.monotonic()
        self.pending.append(self.server.push.remote(self.format.pack(self.me, chunk)))

    def ask(self) -> None:
        """Ask for work."""
        message = pack_words(self.me, *self.known, 0)
        self.pending.append(self.server.push.remote(message))

    def complain(self, block: int, error: Exception) -> None:
        """Tell the server what was raised on a block."""
        import ray
        from ray.exceptions import RayError

        with contextlib.suppress(RayError):
            ray.get(self.server.fail.remote(block, portable(error, WHERE)))


class WorkerActor:
    """A process that solves chunks and pushes them to the server."""

    def __init__(self) -> None:
        self.problem: Any = None
        self.current = np.zeros(1, np.int64)

    def warm(self, problem: list) -> float:
        """Compile the loops; return the seconds of an oracle call."""
        self._load(problem)
        v, rng = read_only(self.problem.shared), np.random.default_rng()
        size, spent, n = 1, 0.0, self.problem.n_blocks
        with contextlib.suppress(Exception):  # the run will raise it again
            self.bound(
                problem, [read_only(self.problem.shared.astype(np.float64))], 0, 0
            )
            self.solve(v, rng, 1, NOWHERE)
            while True:
                begin = time.perf_counter()
                self.solve(v, rng, size, NOWHERE)
                spent = time.perf_counter() - begin
                if spent >= TRIAL_SECONDS or size >= n:
                    break
                size = min(2 * size, n)
        return max(spent, 1e-7) / size

    def work(
        self, me: int, server: Any, problem: list, chunk: int, window: int
    ) -> None:
        """Work until the server says stop, or has been silent for too long."""
        self._load(problem)
        post, over = Post(me, server, self.problem, window), threading.Event()
        threading.Thread(target=post.beat, args=(over,), daemon=True).start()
        try:
            self._work(post, chunk)
        finally:
            over.set()

    def _work(self, post: Post, chunk: int) -> None:
        rng = np.random.default_rng()
        while not post.is_dead:
            post.listen()
            if post.stop:
                return
            if post.is_full:
                continue
            if post.v is None or not post.go:
                if not post.pending:
                    time.sleep(IDLE_SECONDS)
                    post.ask()
                continue
            try:
                found = self.solve(post.v, rng, chunk, post.known)
            except Exception as error:
                post.complain(int(self.current[0]), error)
                return
            post.send(found)

    def solve(self, v, rng, size: int, known: tuple[int, int]) -> Chunk:
        """Solve `size` blocks drawn at random."""
        problem = self.problem
        blocks = rng.integers(problem.n_blocks, size=size)
        atoms = np.zeros((size, problem.atom_size), problem.start.dtype)
        self.kernels.solve_chunk(
            problem.data, v, self.outline, blocks, atoms, self.current, self.memory
        )
        life, version = known
        return Chunk(blocks, atoms, version, life)

    def bound(
        self, problem: Any, v: list, first: int, last: int
    ) -> tuple[float, tuple[int, Exception] | None]:
        """Return the oracle's sum over blocks [first, last), or a block and its error.

        Ray calls it in a second thread, while `work` goes on in the first.
        """
        self._load(problem)
        problem, exact = self.problem, fetch(v)
        shared = read_only(exact.astype(problem.shared.dtype))
        atom = zeros(problem.atom_size, problem.start.dtype)
        current = zeros(1, np.int64)
        args = exact, shared, self.outline, first, last, atom, current, problem.work()
        try:
            least = self.kernels.bound_blocks(problem.data, *args)
        except Exception as error:
            return np.nan, (int(current[0]), portable(error, WHERE))
        return float(least), None

    def _load(self, problem: list) -> None:
        if self.problem is None:
            found = fetch(problem)
            self.kernels, self.memory = found.kernels((service,)), found.work()
            self.outline = found.store.outline(found)
            self.problem = found
