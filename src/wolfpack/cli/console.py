"""What the command line shows: a bar on stderr, JSON lines or sentences on stdout."""

import json
import logging
import math
import signal
import sys
import warnings
from typing import Any, NoReturn

try:
    import resource
except ImportError:  # Windows
    resource = None

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from wolfpack.cli.output import OutputError
from wolfpack.kernels.notice import compiling
from wolfpack.result import Event, Result, TraceRow
from wolfpack.run.interrupt import terminable

SIGNALLED = 128  # plus the signal is the exit code of a program that a signal ends
LIMIT_REACHED = 3


def to_dict(row: TraceRow) -> dict[str, Any]:
    """Return a check as a dict for JSON, with the primal and dual objectives."""
    numbers = {"primal": -row.lower_bound, "dual": -row.objective, **row._asdict()}
    return {k: None if _is_unknown(v) else v for k, v in numbers.items()}


def _is_unknown(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def peak_memory_mb() -> float | None:
    """Return the most memory that this process has had, in MB, where that is known."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def describe_team(engine: Any, result: Result) -> dict[str, Any]:
    """Return the engine and its workers, and how late their updates were."""
    team: dict[str, Any] = {"engine": type(engine).__name__.lower()}
    if hasattr(engine, "mode"):
        team["mode"] = engine.mode
    team["workers"] = result.n_workers
    if result.delay is not None:
        team["delay_mean"] = result.delay.mean
        team["delay_max"] = result.delay.maximum
        for name in ("n_collisions", "n_dropped", "bytes_per_worker"):
            team[name] = getattr(result, name)
    if result.traffic is not None:
        traffic = result.traffic
        team["chunk"], team["messages"] = traffic.chunk, traffic.n_messages
        team["bytes_per_atom"] = traffic.bytes_per_atom
        team["server_utilisation"] = traffic.server_utilisation
    return team


class Watcher:
    """A callback that shows a run: the bar moves with the logarithm of the gap.

    Between two checks it shows the running estimate, with a ~ before it.
    """

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.first_gap = math.nan
        console = Console(stderr=True)
        # Where the progress bar is shown, it says that loops are compiled.
        silent = quiet or console.is_terminal
        self._compiling = compiling("this problem", silent=silent)
        self.bar = Progress(  # 80 columns are enough
            BarColumn(16, complete_style="blue", finished_style="green"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
        )

    def __enter__(self) -> "Watcher":
        self._compiling.__enter__()
        if not self.bar.disable:
            self.bar.start()
        note = "loading or compiling its loops (once, about 15 s)"
        self.task = self.bar.add_task("training", total=1.0, note=note)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self.bar.disable:  # old versions of rich would print a line
            self.bar.stop()
        self._compiling.__exit__(None)

    def __call__(self, event: Event) -> None:
        """Show an event."""
        row = event.row
        if event.checked and self.as_json:
            live = {} if event.live is None else {"live": event.live._asdict()}
            print(json.dumps({**to_dict(row), **live}), flush=True)  # noqa: T201
        if math.isnan(self.first_gap):
            self.first_gap = max(event.relative_gap, 2 * event.tol, 1e-300)
        goal = math.log(self.first_gap / max(event.tol, 1e-12))
        estimate = row.gap_estimate / event.scale
        lower = not event.checked and 0.0 < estimate < event.relative_gap
        gap = estimate if lower else event.relative_gap
        fallen = math.log(self.first_gap / max(gap, 1e-300))
        share = fallen / goal if goal > 0 else 1.0
        rest = f"{_short(row.n_oracle_calls)} oracle calls"
        if event.live is not None:
            workers, delay, dropped = event.live
            rest = f"{workers} workers  delay {delay:.0f}  {_short(dropped)} dropped"
        note = (
            f"gap {'~' if lower else ''}{gap:.1e} -> {event.tol:.0e}  "
            f"{row.epoch:.0f} passes  {rest}"
        )
        done = min(max(share, 0.0), 1.0)
        self.bar.update(self.task, completed=done, note=note)


def _short(count: int) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= 10 * size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def fail(message: object, code: int = 1) -> NoReturn:
    """Say what is wrong on stderr and leave."""
    complain(message)
    raise typer.Exit(code)


def complain(message: object) -> None:
    """Say what is wrong on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"wolfpack: {message}", markup=False
    )


def leave(status: str, number: int | None) -> NoReturn:
    """Leave with the code of a status, or of the signal that came during the run."""
    if number is not None:
        raise typer.Exit(SIGNALLED + number)
    raise typer.Exit(0 if status == "CONVERGED" else LIMIT_REACHED)


class plain_errors:
    """Turn the library's errors into one line, and silence its warnings."""

    def __enter__(self) -> None:
        self._terminable = terminable()
        self._terminable.__enter__()
        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("ignore")
        self._logger = logging.getLogger("wolfpack")
        self._level = self._logger.level
        self._logger.setLevel(logging.ERROR)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._terminable.__exit__(None, None, None)
        self._caught.__exit__(None, None, None)
        self._logger.setLevel(self._level)
        # A reader such as `head` has closed the pipe, `fail` has printed the error, or
        # `answering` will: the program ends without another line.
        if isinstance(error, BrokenPipeError | typer.Exit | OutputError):
            return
        if isinstance(error, KeyboardInterrupt):
            code = getattr(error, "code", SIGNALLED + signal.SIGINT)
            fail(error if error.args else "interrupted.", code)
        if isinstance(error, MemoryError):
            fail(str(error) or "there is not enough memory; give less at a time.")
        if isinstance(error, ValueError | RuntimeError | OSError | ImportError):
            fail(error)
