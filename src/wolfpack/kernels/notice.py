"""Lines on stderr for the person who waits: what is compiled, and how a fit goes on.

They go to the logger "wolfpack" where logging is set up to show them. The environment
variable `WOLFPACK_QUIET=1` silences those about the compiler. Worker processes never
say that they compile.
"""

import contextlib
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from numba.core import event

WAIT_SECONDS = 2.0  # after which a person wants to know what goes on

logger = logging.getLogger("wolfpack")


def say(line: str) -> None:
    """Log a line, or print it on stderr where no log would show it."""
    if logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
        logger.info(line)
    else:
        print(line, file=sys.stderr, flush=True)  # noqa: T201


class compiling(event.Listener):
    """Say that the code inside compiles the loops for `what`, and how long it took.

    Nothing is said where all loops are loaded from disk. Such blocks may be nested, and
    may meet in several threads: the outermost, or first, speaks for all.
    """

    speaker: "compiling | None" = None  # the outermost one

    def __init__(self, what: str, silent: bool = False) -> None:
        self.what, self.silent = what, silent or _is_quiet()
        self.seconds, self._depth, self._speaks = 0.0, 0, False

    def __enter__(self) -> "compiling":
        self._speaks = compiling.speaker is None
        if self._speaks:
            compiling.speaker = self
            event.register("numba:compile", self)
        return self

    def __exit__(self, kind: type | None, *exc_info: object) -> None:
        if not self._speaks:
            return
        compiling.speaker = None
        event.unregister("numba:compile", self)
        if self.seconds and kind is None and not self.silent:
            say(f"wolfpack: compiled in {self.seconds:.1f} s, and kept on disk.")

    def on_start(self, event: Any) -> None:
        """Say the first line, when the compiler begins."""
        if self._depth == 0:
            self._began = time.perf_counter()
            if not self.seconds and not self.silent:
                say(f"wolfpack: compiling the loops for {self.what}, once, 3 to 20 s")
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Count the time of the outermost function, which includes the others."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what the code inside does, where it takes WAIT_SECONDS or longer."""
    outer = compiling.speaker
    silent = _is_quiet() or (outer is not None and outer.silent)
    timer = threading.Timer(WAIT_SECONDS, say, [f"wolfpack: {what}"])
    timer.daemon = True
    if not silent:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_quiet() -> bool:
    is_worker = multiprocessing.current_process().name != "MainProcess"
    return is_worker or os.environ.get("WOLFPACK_QUIET", "0") not in ("", "0")
