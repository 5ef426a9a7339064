"""Threads that do one task together; the caller goes on when all have ended."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from threadpoolctl import ThreadpoolController

PULSE_SECONDS = 0.05  # between two calls of `pulse`


class Crew:
    """`size` threads; as a context manager it also limits BLAS to one thread."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Crew":
        if self.size > 1:
            _blas.hold()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        if self.size > 1:
            _blas.let_go()

    def run(
        self,
        task: Callable[[int], Any],
        count: int | None = None,
        stop: Callable[[], None] = lambda: None,
        pulse: Callable[[], Any] | None = None,
    ) -> list[Any]:
        """Return [task(0), ..., task(count - 1)], computed at the same time.

        This thread waits, and calls `pulse` meanwhile. If a task raises, `stop` is
        called to make the others return, and then the error is raised here.
        """
        count = self.size if count is None else count
        if count == 1 and pulse is None:
            return [task(0)]
        if self._pool is None:
            # One thread more than workers, for a server.
            self._pool = ThreadPoolExecutor(self.size + 1, "wolfpack")
        futures = [self._pool.submit(task, t) for t in range(count)]
        try:
            left = set(futures)
            while left:
                done, left = wait(left, PULSE_SECONDS, FIRST_EXCEPTION)
                if any(future.exception() for future in done):
                    stop()
                if pulse is not None:
                    pulse()
        except BaseException:  # raised by `pulse`
            stop()
            wait(futures)
            raise
        return [future.result() for future in futures]


class _Blas:
    """Limits BLAS to one thread while any crew is at work."""

    def __init__(self) -> None:
        self._lock, self._count, self._limits = threading.Lock(), 0, None
        self._modules, self._controller = -1, None

    def hold(self) -> None:
        with self._lock:
            if self._count == 0:
                self._limits = self._find().limit(limits=1, user_api="blas")
            self._count += 1

    def let_go(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._limits is not None:
                self._limits.restore_original_limits()
                self._limits = None

    def _find(self) -> Any:
        """Look for libraries, which takes 4 ms, where modules came since last time."""
        if self._modules != len(sys.modules):
            self._modules, self._controller = len(sys.modules), ThreadpoolController()
        return self._controller


_blas = _Blas()
