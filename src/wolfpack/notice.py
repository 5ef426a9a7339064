"""Lines on stderr for the person who waits: what is compiled, and how a fit goes on.

They go to the logger "wolfpack" where logging is set up to show them. The environment
variable `WOLFPACK_QUIET=1` silences what is compiled, and worker processes say nothing.
"""

import logging
import multiprocessing
import os
import sys
import time
from types import TracebackType
from typing import Any

from numba.core import event

logger = logging.getLogger("wolfpack")


def say(line: str) -> None:
    """Log a line, or print it on stderr where no log would show it."""
    if logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
        logger.info(line)
    else:
        print(line, file=sys.stderr, flush=True)  # noqa: T201


class compiling(event.Listener):
    """Say what is compiled for `what`, when it begins and how long it took.

    Nothing is said where all that is called inside is loaded from disk. Blocks may be
    nested: the outermost one speaks.
    """

    _active = False

    def __init__(self, what: str) -> None:
        self.what, self.seconds = what, 0.0
        self._depth, self._is_first = 0, False

    def __enter__(self) -> "compiling":
        self._is_first = not compiling._active and not _is_quiet()
        if self._is_first:
            compiling._active = True
            event.register("numba:compile", self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_first:
            return
        compiling._active = False
        event.unregister("numba:compile", self)
        if self.seconds and error is None:
            say(f"wolfpack: compiled in {self.seconds:.1f} s, and kept for next time.")

    def on_start(self, event: Any) -> None:
        """Say the first line, when the first function is compiled."""
        if self._depth == 0:
            self._began = time.perf_counter()
            if not self.seconds:
                say(f"wolfpack: compiling the loops for {self.what}, once ...")
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Count the time of the outermost function."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


def _is_quiet() -> bool:
    is_worker = multiprocessing.current_process().name != "MainProcess"
    return is_worker or os.environ.get("WOLFPACK_QUIET", "0") not in ("", "0")
