"""Ctrl-C and SIGTERM, answered between two slices of work and never inside one.

SIGTERM is how `timeout`, Slurm and Kubernetes end a program. It is handled in the main
thread only, and only where the user has no handler for it. The children of
`multiprocessing` are left alone, because a pool ends its workers with this signal.
"""

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt, SystemExit):
    """SIGTERM as an error: caught as Ctrl-C is; else the process exits with 143."""

    code = 128 + signal.SIGTERM


def error_of(number: int) -> type[KeyboardInterrupt]:
    """Return what a signal raises."""
    return Terminated if number == signal.SIGTERM else KeyboardInterrupt


class Interrupt:
    """Ctrl-C and SIGTERM as a flag, so that they never fall into an update.

    A `solve` inside another one passes them on to it, so that both stop; one that
    begins after the signal stops at its beginning.
    """

    def __init__(self) -> None:
        self.signal: int | None = None  # the first one that came

    @property
    def asked(self) -> bool:
        """Whether a signal came."""
        return self.signal is not None

    def __enter__(self) -> "Interrupt":
        self._before: dict[int, Any] = {
            number: signal.signal(number, self) for number in STOPS if _may(number)
        }
        for outer in self._before.values():
            if isinstance(outer, Interrupt):
                self.signal = self.signal or outer.signal
        self._inherited = self.signal
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        outer = self._before.get(self.signal or 0)
        if isinstance(outer, Interrupt) and not self._inherited:
            outer.pass_on(self.signal)

    def __call__(self, number: Any, *_: object) -> None:
        """Note a signal."""
        if self.asked:  # the second one is raised at once
            raise error_of(number)
        self.signal = number

    def pass_on(self, number: Any) -> None:
        """Note a signal that the code inside has answered."""
        self.signal = number


class Raised(Interrupt):
    """Signals are raised at once, except those that a `solve` inside has answered.

    Around a fit, whose own work may take minutes before there is anything to keep.
    """

    def __call__(self, number: Any, *_: object) -> None:
        """Note a signal, and raise it."""
        self.signal = number
        raise error_of(number)


class Held(Interrupt):
    """Signals wait until the code inside is done, and are raised then.

    Inside Numba's compiler they would leave the compiler half set up, and every later
    compilation of the process would fail. A second signal is raised at once.
    """

    def __exit__(self, kind: type | None, *exc_info: object) -> None:
        """Raise what the signal stands for, if one came."""
        super().__exit__(kind, *exc_info)
        if self.signal is not None and kind is None:
            raise error_of(self.signal)


class AllOrNothing(Raised, Held):
    """A signal ends the code inside at once, as a run cut short is no measurement.

    A `solve` inside stops early and returns, which is right for a person and wrong for
    a table. On its return it passes the signal on to this handler, which raises
    KeyboardInterrupt. If that error is lost, as in a destructor, it is raised again at
    the end.
    """

    def pass_on(self, number: Any) -> None:
        """Raise a signal that the code inside has answered."""
        self(number)


@contextlib.contextmanager
def late_signals() -> Iterator[None]:
    """Let signals wait until the code inside is done; then they come as they would."""
    came: list[int] = []

    def note(number: int, _: Any) -> None:
        came.append(number)

    before = {one: signal.signal(one, note) for one in STOPS if _may(one)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise `Terminated` inside, so that what was begun is cleaned up."""
    number = signal.SIGTERM
    is_ours = _may(number) and not isinstance(signal.getsignal(number), Interrupt)
    before = signal.signal(number, raise_terminated) if is_ours else None
    try:
        yield
    finally:
        if is_ours:
            signal.signal(number, before)


@contextlib.contextmanager
def same_handler() -> Iterator[None]:
    """Restore the handler of SIGTERM at the end; `ray.init` sets one of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and _is_main():
            signal.signal(signal.SIGTERM, before)


def raise_terminated(*_: object) -> None:
    """Raise `Terminated`, as a handler."""
    raise Terminated


def _may(number: int) -> bool:
    """Return whether a signal may be handled here: SIGTERM may be the user's own."""
    if number == signal.SIGINT or not _is_main():
        return _is_main()
    handler = signal.getsignal(number)
    is_ours = isinstance(handler, Interrupt) or handler is raise_terminated
    by_ray = str(getattr(handler, "__module__", "")).startswith("ray.")
    is_free = handler is signal.SIG_DFL or is_ours or by_ray
    return is_free and multiprocessing.parent_process() is None


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
