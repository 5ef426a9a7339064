"""Standard output: an answer that cannot be printed is no success.

Python ends with code 0 where standard output is closed, and where its last lines meet a
full disk it prints a traceback, or nothing, depending on who notices.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator


class OutputError(OSError):
    """Standard output cannot be written; its text is the reason."""


class Output(io.TextIOWrapper):
    """Standard output, whose errors can be told from those of other files.

    A reader such as `head` that has closed the pipe is no error.
    """

    def write(self, text: str) -> int:
        """Write, or raise OutputError."""
        with _named():
            return super().write(text)

    def flush(self) -> None:
        """Hand over what is written, or raise OutputError."""
        with _named():
            super().flush()


@contextlib.contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(str(error.strerror or error)) from error


@contextlib.contextmanager
def answering(complain: Callable[[str], None]) -> Iterator[None]:
    """Run a command whose answer goes to standard output; leave where it is lost."""
    given = sys.stdout
    if given is None:
        complain(
            "standard output is closed, and the answer goes there; send it to a file, "
            "or to /dev/null."
        )
        raise SystemExit(1)
    if isinstance(given, io.TextIOWrapper):
        about = {"encoding": given.encoding, "errors": given.errors}
        about |= {"line_buffering": given.line_buffering}
        through = given.write_through
        sys.stdout = Output(given.detach(), **about, write_through=through)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:
        _forget()
        raise SystemExit(1) from error
    except OutputError as error:
        _forget()
        complain(f"standard output cannot be written: {error}.")
        raise SystemExit(1) from error


def _forget() -> None:
    """Drop what is not written yet: Python would try again when it ends."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
