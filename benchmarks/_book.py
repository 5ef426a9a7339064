"""The table that a benchmark fills: each row is printed, and written to a file."""

import csv
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path


def say(text: str) -> None:
    """Print a line, and flush it."""
    print(text, flush=True)


class Book:
    """STEM.csv in a folder, with the machine's facts in STEM_machine.json beside it.

    `formats` are the columns of the file, and how each is printed; columns that are not
    shown are kept too.
    """

    def __init__(
        self,
        folder: Path,
        stem: str,
        formats: Mapping[str, str],
        facts: Mapping[str, object],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dict(facts), indent=2)
        (folder / f"{stem}_machine.json").write_text(text + "\n")
        self._stream = (folder / f"{stem}.csv").open("w", newline="")
        self._writer = csv.DictWriter(self._stream, formats)
        self._writer.writeheader()
        self._formats, self._section, self._shown = formats, "", ()
        self.headlines: list[str] = []

    def begin(self, section: str, title: str, shown: Iterable[str]) -> None:
        """Print the head of a table with these columns."""
        self._section, self._shown = section, tuple(shown)
        heads = (f"{name:{self._width(name)}}" for name in self._shown)
        say(f"\n{section}: {title}\n{' '.join(heads)}")

    def add(self, **cells) -> None:
        """Print a row and write it down."""
        say(" ".join(self._cell(name, cells.get(name)) for name in self._shown))
        if "section" in self._formats:
            cells = {"section": self._section, **cells}
        self._writer.writerow(cells)
        self._stream.flush()

    def headline(self, text: str) -> None:
        """Keep a line for the summary."""
        self.headlines.append(f"{self._section:10s} {text}")

    def _width(self, name: str) -> str:
        return self._formats[name].split(".")[0].rstrip("d")

    def _cell(self, name: str, value) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return f"{'-':{self._width(name)}}"
        return f"{value:{self._formats[name]}}"
