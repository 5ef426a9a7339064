"""The work behind `wolfpack reproduce`: find the experiments, run them, report."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

from wolfpack.cli import report


def folder() -> Path:
    """Return the folder of the scripts: within the package, or beside its sources."""
    here = Path(__file__).resolve().parents[1]
    places = here / "experiments", here.parents[1] / "experiments"
    for place in places:
        if (place / "_common.py").is_file():
            return place
    raise OSError(
        "the experiments are not part of this installation: they are the folder "
        "experiments of wolfpack's sources, whose `pip install .` brings them along."
    )


def names() -> list[str]:
    """Return the experiments: the paper's figures first, then its theory."""
    found = [path.stem for path in folder().glob("[!_]*.py")]
    return sorted(found, key=lambda name: (not name.startswith("fig"), name))


def choose(asked: str) -> list[str]:
    """Return what `asked` stands for: all, fig1a, or 1a for short."""
    known = names()
    if asked == "all":
        return known
    for name in (asked, f"fig{asked}"):
        if name in known:
            return [name]
    raise ValueError(
        f"there is no figure {asked!r}; there are all, {', '.join(known)}."
    )


def run(
    chosen: Sequence[str], fast: bool, out: Path, say: Callable[[str], None]
) -> Path:
    """Measure what `out` does not have yet, draw all of it, and report."""
    scripts = str(folder())
    if scripts not in sys.path:
        sys.path.insert(0, scripts)
    common: Any = importlib.import_module("_common")
    console = Console(stderr=True)
    bar = Progress(
        BarColumn(16, complete_style="blue", finished_style="green"),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        Elapsed(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=len(chosen))
        for name in chosen:
            experiment = importlib.import_module(name).EXPERIMENT
            again = common.stored(experiment, fast, out) is not None
            bar.update(task, description=f"{name}: {'drawing' if again else 'begins'}")

            def tell(text: str, name: str = name) -> None:
                bar.update(task, description=f"{name}: {text}")

            try:
                record = common.run(experiment, fast, out, tell)
            except KeyboardInterrupt as stop:
                raise type(stop)(
                    f"interrupted at {name}, of which nothing is kept; what was "
                    f"finished before is in {out}, and the same command goes on there."
                ) from None
            when = "measured before" if again else f"{record['seconds']:.0f} s"
            say(f"{name:<10}  {record['verdict']:<19}  {when}")
            bar.advance(task)
    drawn = [name for name in names() if (out / f"{name}.svg").is_file()]
    records = [common.load(name, out) for name in drawn]
    return report.write([r for r in records if r and r["fast"] is fast], out)
