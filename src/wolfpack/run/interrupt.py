"""Ctrl-C, answered between two slices of work and never inside one."""

import signal
import threading


class Interrupt:
    """Ctrl-C as a flag, so that it never falls into the middle of an update.

    A `solve` within another one passes on what it heard, so that both stop.
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
        """Hear Ctrl-C."""
        if self.asked:  # the second time, at once
            raise KeyboardInterrupt
        self.asked = True


class Held(Interrupt):
    """Ctrl-C waits until what is inside is done, and is raised then.

    Within Numba's compiler it would leave a compiler that is half set up, and every
    later compilation of the process would fail. The second time it is raised at once.
    """

    def __exit__(self, kind: type | None, *exc_info: object) -> None:
        """Raise what was heard."""
        super().__exit__(kind, *exc_info)
        if self.asked and kind is None:
            raise KeyboardInterrupt


class AllOrNothing(Held):
    """Ctrl-C ends what is inside at once, as a run cut short is no measurement.

    A `solve` stops early and returns, which is right for a person and wrong for a
    table: here it raises KeyboardInterrupt when it is left. So does the whole, if the
    first one was lost on the way, as in a destructor.
    """

    def __call__(self, *_: object) -> None:
        """Hear Ctrl-C."""
        self.asked = True
        raise KeyboardInterrupt
