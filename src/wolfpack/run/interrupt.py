"""Ctrl-C, answered between two slices of work and never inside one."""

import signal
import threading


class Interrupt:
    """Ctrl-C as a flag, so that it never falls into the middle of an update.

    A `solve` inside another one passes Ctrl-C on to it, so that both stop.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "Interrupt":
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)
            if self.asked and isinstance(self._before, Interrupt):
                self._before()

    def __call__(self, *_: object) -> None:
        """Note Ctrl-C."""
        if self.asked:  # the second Ctrl-C is raised at once
            raise KeyboardInterrupt
        self.asked = True


class Held(Interrupt):
    """Ctrl-C waits until the code inside is done, and is raised then.

    Inside Numba's compiler it would leave the compiler half set up, and every later
    compilation of the process would fail. A second Ctrl-C is raised at once.
    """

    def __exit__(self, kind: type | None, *exc_info: object) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        super().__exit__(kind, *exc_info)
        if self.asked and kind is None:
            raise KeyboardInterrupt


class AllOrNothing(Held):
    """Ctrl-C ends the code inside at once, as a run cut short is no measurement.

    A `solve` inside stops early and returns, which is right for a person and wrong for
    a table. On its return it passes Ctrl-C on to this handler, which raises
    KeyboardInterrupt. If that error is lost, as in a destructor, it is raised again at
    the end.
    """

    def __call__(self, *_: object) -> None:
        """Note Ctrl-C, and raise it."""
        self.asked = True
        raise KeyboardInterrupt
