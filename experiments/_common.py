"""What every experiment shares: measure once, judge and draw from what was written.

An experiment is a record of three functions. `measure` returns rows (dicts of numbers
and words), which go into a CSV file; `judge` and `draw` see nothing but these rows, so
a picture can be mended, and a verdict read again, without measuring again.
"""

import argparse
import csv
import importlib.metadata
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from wolfpack.engines.threads import count_cores

HOLDS, REMARK, FAILS = "holds", "holds with a remark", "does not hold"
NOT_JUDGED = "not judged here"
VERDICTS = (HOLDS, REMARK, FAILS, NOT_JUDGED)
RESULTS = Path(__file__).parent / "results"
WITHOUT_WORDS = (
    "The OCR words were not found, so handwritten dates took their place: this shows "
    "that the experiment runs. `wolfpack.load_ocr` says where the words go."
)

Row = dict[str, Any]


class Verdict(NamedTuple):
    """What was found: one of `VERDICTS`, the figures, and why where it needs saying."""

    verdict: str
    measured: str
    why: str = ""


class Experiment(NamedTuple):
    """A figure of the paper, or a statement of its theory.

    `measure(fast, tell)` may tell what it is at; `judge(rows, facts)` is given what
    `machine()` said where the rows were measured, with `fast` among them.
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
    record = stored(experiment, fast, out)
    if record is None:
        begin = time.perf_counter()
        rows = experiment.measure(fast, tell)
        assert rows, f"{experiment.name} measured nothing"
        record = {
            "machine": machine(),
            "fast": fast,
            "seconds": round(time.perf_counter() - begin, 1),
            "command": f"wolfpack reproduce {experiment.name}"
            + (" --fast" if fast else ""),
        }
        write_rows(out / f"{experiment.name}.csv", rows)
    # Always from the file: what is drawn first is what is drawn again later.
    rows = read_rows(out / f"{experiment.name}.csv")
    found = experiment.judge(rows, record["machine"] | {"fast": fast})
    if any("dates" in str(row.get("data")) for row in rows):
        found = Verdict(NOT_JUDGED, found.measured, WITHOUT_WORDS)
    assert found.verdict in VERDICTS, f"{found.verdict!r} is no verdict"
    assert found.verdict in (HOLDS, NOT_JUDGED) or found.why, "a verdict needs a reason"
    about = ("name", "title", "claim", "setting")
    words = {field: getattr(experiment, field) for field in about}
    record = words | found._asdict() | record
    text = json.dumps(record, indent=2, ensure_ascii=False)
    (out / f"{experiment.name}.json").write_text(text + "\n", encoding="utf-8")
    save_pictures(experiment, rows, out)
    return record


def load(name: str, out: Path) -> dict[str, Any] | None:
    """Return the record of an experiment that `out` has whole, or None."""
    path = out / f"{name}.json"
    if not (path.is_file() and path.with_suffix(".csv").is_file()):
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # half written: measure again
        return None


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
        figure.savefig(path, metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=150)
        plt.close(figure)


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows with all columns that any of them has."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _short(v) for k, v in row.items()} for row in rows)


def read_rows(path: Path) -> list[Row]:
    """Read rows; what looks like a number is one."""
    with path.open(newline="", encoding="utf-8") as stream:
        return [
            {name: _number(text) for name, text in row.items()}
            for row in csv.DictReader(stream)
        ]


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


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
    record = run(experiment, options.fast, options.out, say)
    lines = [f"{record['name']}: {record['verdict']}", record["measured"]]
    lines += [record["why"]] if record["why"] else []
    sys.stdout.write("\n".join(lines) + "\n")


def say(text: str) -> None:
    """Tell on stderr what a script is at."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
