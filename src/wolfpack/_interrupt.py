"""Ctrl-C, answered between two slices of work and never inside one."""

import signal
import threading


class Interrupt:
    """Ctrl-C as a flag, so that it never falls into the middle of an update."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "Interrupt":
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: object) -> None:
        if self.asked:  # the second time, at once
            raise KeyboardInterrupt
        self.asked = True
