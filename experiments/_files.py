"""The files of an experiment: all of them whole, or none.

An experiment has a CSV file of its rows, two pictures, and a JSON file with everything
else, a digest of the rows among it. They are made in a folder of their own and moved
together, the JSON file last: where it is there and the digest fits, all of it is there.
"""

import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wolfpack.cli.report import BADGES
from wolfpack.files.replace import put, replacing
from wolfpack.run.interrupt import AllOrNothing, Interrupt

Row = dict[str, Any]

SUFFIXES = ".csv", ".svg", ".png", ".json"
WORDS = "name", "title", "claim", "setting", "verdict", "measured", "why", "command"
ABOUT_MACHINE = "cores", "cpu", "system", "python", "numba", "numpy"


def keep(name: str, out: Path, make: Callable[[Path], None]) -> None:
    """Let `make` write the files of an experiment, and bring them to `out`.

    Ctrl-C ends it with KeyboardInterrupt, and nothing is kept: a solve that was cut
    short measures nothing. While files are being moved, Ctrl-C waits for the last one.
    """
    temporary = tempfile.TemporaryDirectory(prefix=f".{name}-", dir=out)
    with AllOrNothing(), temporary as folder:
        with AllOrNothing():
            make(Path(folder))
        with Interrupt():
            (out / f"{name}.json").unlink(missing_ok=True)
            for suffix in SUFFIXES:
                put(Path(folder, name + suffix), out / (name + suffix))


def load(name: str, out: Path) -> dict[str, Any] | None:
    """Return the record of an experiment that `out` has whole, or None."""
    path = out / f"{name}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        whole = _is_record(record) and record["rows"] == digest(path)
    except (OSError, ValueError):  # the file is missing, or is no JSON
        return None
    return record if whole else None


def _is_record(record: Any) -> bool:
    """Return whether this is what `_common.run` writes, for it and the report."""
    return (
        isinstance(record, dict)
        and all(isinstance(record.get(word), str) for word in (*WORDS, "rows"))
        and record["verdict"] in BADGES
        and isinstance(record.get("fast"), bool)
        and isinstance(record.get("seconds"), int | float)
        and isinstance(record.get("machine"), dict)
        and all(fact in record["machine"] for fact in ABOUT_MACHINE)
    )


def digest(path: Path) -> str:
    """Return what tells the rows beside this path from any others."""
    text = path.with_suffix(".csv").read_text(encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record as JSON."""
    text = json.dumps(record, indent=2, ensure_ascii=False)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows with all columns that any of them has."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _short(v) for k, v in row.items()} for row in rows)
    with replacing(path) as file:
        file.write(text.getvalue().encode())


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
