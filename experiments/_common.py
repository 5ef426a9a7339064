"""What every experiment shares: measure once, judge and draw from what was written.

An experiment is a record of three functions. `measure` returns rows (dicts of numbers
and words), which go into a CSV file; `judge` and `draw` see nothing but these rows, so
a picture can be mended, and a verdict read again, without measuring again.
"""

import argparse
import importlib.metadata
import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from _files import Row, digest, keep, load, read_rows, write_record, write_rows

from wolfpack.engines.threads import count_cores
from wolfpack.files.replace import save_picture

HOLDS, REMARK, FAILS = "holds", "holds with a remark", "does not hold"
NOT_JUDGED = "not judged here"
VERDICTS = (HOLDS, REMARK, FAILS, NOT_JUDGED)
INTERRUPTED = 130  # the exit code, as of any program that Ctrl-C ends
RESULTS = Path(__file__).parent / "results"
WITHOUT_WORDS = (
    "The OCR words were not found, so handwritten dates took their place: this shows "
    "that the experiment runs. `wolfpack.load_ocr` says where the words go."
)


class Verdict(NamedTuple):
    """What was found: one of `VERDICTS`, the figures, and why where it needs saying."""

    verdict: str
    measured: str
    why: str = ""


class Experiment(NamedTuple):
    """A figure of the paper, or a statement of its theory.

    `measure(fast, tell)` may call `tell` with what it is doing; `judge(rows, facts)`
    gets `fast` and what `machine()` returned where the rows were measured.
    """

    name: str
    title: str
    claim: str
    setting: str
    measure: Callable[[bool, Callable[[str], None]], list[Row]]
    judge: Callable[[list[Row], dict[str, Any]], Verdict]
    draw: Callable[[list[Row]], Any]


class Budget:
    """The seconds that an experiment may take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter() + seconds

    def is_spent(self) -> bool:
        """Return whether the time is over."""
        return time.perf_counter() >= self._end


def run(
    experiment: Experiment,
    fast: bool,
    out: Path,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure, unless `out` has it already; judge, draw, and return the record."""
    out.mkdir(parents=True, exist_ok=True)
    name, known = experiment.name, stored(experiment, fast, out)
    record: dict[str, Any] = {}

    def make(folder: Path) -> None:
        path = folder / f"{name}.csv"
        if known is not None:
            shutil.copyfile(out / path.name, path)
        how = known or _measure(experiment, fast, tell, path)
        # Rows are read from the file even when they are new, so that a later drawing
        # from the file gives the same picture.
        rows = read_rows(path)
        record.update(_judge(experiment, rows, how), **how, rows=digest(path))
        write_record(folder / f"{name}.json", record)
        save_pictures(experiment, rows, folder)

    keep(name, out, make)
    return record


def _measure(
    experiment: Experiment, fast: bool, tell: Callable[[str], None], path: Path
) -> dict[str, Any]:
    """Write the rows; return where and how they were measured."""
    begin = time.perf_counter()
    rows = experiment.measure(fast, tell)
    assert rows, f"{experiment.name} measured nothing"
    write_rows(path, rows)
    return {
        "machine": machine(),
        "fast": fast,
        "seconds": round(time.perf_counter() - begin, 1),
        "command": f"wolfpack reproduce {experiment.name}"
        + (" --fast" if fast else ""),
    }


def _judge(
    experiment: Experiment, rows: list[Row], how: dict[str, Any]
) -> dict[str, Any]:
    """Return what the experiment is about, and what its rows say."""
    found = experiment.judge(rows, how["machine"] | {"fast": how["fast"]})
    if any("dates" in str(row.get("data")) for row in rows):
        found = Verdict(NOT_JUDGED, found.measured, WITHOUT_WORDS)
    assert found.verdict in VERDICTS, f"{found.verdict!r} is no verdict"
    assert found.verdict in (HOLDS, NOT_JUDGED) or found.why, "a verdict needs a reason"
    about = ("name", "title", "claim", "setting")
    return {field: getattr(experiment, field) for field in about} | found._asdict()


def stored(experiment: Experiment, fast: bool, out: Path) -> dict[str, Any] | None:
    """Return what is known of rows that `out` has in this mode, or None."""
    record = load(experiment.name, out)
    if record is None or record["fast"] is not fast:
        return None
    return {name: record[name] for name in ("machine", "fast", "seconds", "command")}


def save_pictures(experiment: Experiment, rows: list[Row], out: Path) -> None:
    """Draw, and write an SVG and a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style = {
        "svg.hashsalt": experiment.name,  # the same rows give the same file
        "font.size": 9,
        "axes.titlesize": 9,
        "legend.fontsize": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "savefig.bbox": "tight",
    }
    with plt.rc_context(style):
        figure = experiment.draw(rows)
        path = out / f"{experiment.name}.svg"
        save_picture(figure, path, metadata={"Date": None})
        save_picture(figure, path.with_suffix(".png"))
        plt.close(figure)


def runs(rows: list[Row], *columns: str) -> str:
    """Return how many seeds each setting of these columns had, in words."""
    seeds: dict[tuple, set] = {}
    for row in rows:
        seeds.setdefault(tuple(row[c] for c in columns), set()).add(row["seed"])
    least, most = (f(len(found) for found in seeds.values()) for f in (min, max))
    if most == 1:
        return "One run each."
    return f"{least} runs each." if least == most else f"{least} to {most} runs each."


def listed(parts: list[str]) -> str:
    """Return "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def machine() -> dict[str, Any]:
    """Return what a reader must know about where the numbers come from."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":")[1].strip() for line in lines if "model name" in line]
        model = names[0] if names else model
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    packages = ("numba", "numpy", "scipy", "scikit-learn")
    return {
        "cores": count_cores(),
        "cpu": model or platform.machine(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_at_end": round(load, 1),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def command_line(experiment: Experiment) -> None:
    """Run a script: `python experiments/fig1a.py [--fast] [--out DIR]`."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--fast", action="store_true", help="a small setting, seconds")
    parser.add_argument("--out", type=Path, default=Path("reproduction"))
    options = parser.parse_args()
    try:
        record = run(experiment, options.fast, options.out, say)
    except KeyboardInterrupt:
        say(f"{experiment.name}: interrupted; nothing of it is kept.")
        sys.exit(INTERRUPTED)
    lines = [f"{record['name']}: {record['verdict']}", record["measured"]]
    lines += [record["why"]] if record["why"] else []
    sys.stdout.write("\n".join(lines) + "\n")


def say(text: str) -> None:
    """Tell on stderr what a script is doing."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
