"""Examples in a table: a CSV file, an example a row, its label in one column.

Columns of numbers are brought to mean 0 and deviation 1. A column without any number
becomes one feature for each of its words.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.files.cells import POINT, floats, refuse_numberish
from wolfpack.files.head import find_head, is_head
from wolfpack.files.own import Examples, Reader, bad
from wolfpack.files.table import read_cells, wrong_cell

NAMES_OF_ROWS = ("", "index", "id", "unnamed: 0")  # first columns that describe nothing
MOST_WORDS = 200  # of a column, because each takes a number a row


class TableReader(Reader):
    """Read a CSV file.

    `columns` says what is made of each: its mean and scale, or its words.
    """

    kind, chains = "a table", False

    def __init__(
        self,
        label: str | None = None,
        standardize: bool = True,
        header: bool | None = None,
        decimal: str | None = None,
    ) -> None:
        self.label, self.standardize = label, standardize
        self.header, self.decimal = header, decimal
        self.columns: dict[str, dict[str, Any]] = {}
        self.skipped: str | None = None

    def learn(self, path: Path) -> Examples:
        """Read a file to train on, and learn its columns."""
        lines, head, rows = self._read(path, self._ask)
        self.has_head = head is not None
        cells = dict(zip(head or _numbered(rows), zip(*rows, strict=True), strict=True))
        self.label = self._find_label(path, [*cells])
        first = next(iter(cells))
        if head and first.lower() in NAMES_OF_ROWS and first != self.label:
            self.skipped = first
            del cells[first]
        for name, column in cells.items():
            if name != self.label:
                self.columns[name] = self._describe(path, lines, name, column)
        if not self.columns:
            raise ValueError(f"{path} has no column besides the label, {self.label!r}.")
        return self._examples(path, lines, head, rows, cells)

    def read(self, path: Path) -> Examples:
        """Read a file as that of the training, with or without the label."""
        lines, head, rows = self._read(path, self._ask_alike)
        names = head
        if not self.has_head:  # the label may be left out, whichever column it is
            names = _numbered(rows)
            if len(names) == len(self.columns):
                names = [*self.columns]
        if self.has_head and head is None:
            raise ValueError(
                f"{path}, line {lines[0]}: {bad(','.join(rows[0]))} is no line of "
                f"names, which the file of the training had: {_some(self.columns)}."
            )
        cells = dict(zip(names or (), zip(*rows, strict=True), strict=True))
        missing = [name for name in self.columns if name not in cells]
        if missing:
            raise ValueError(
                f"{path} has no column {missing[0]!r}; the model was trained on "
                f"{_some(self.columns)}."
            )
        return self._examples(path, lines, head, rows, cells)

    @property
    def names(self) -> list[str]:
        """Return what the features are called."""
        return [
            f"{name}={word}" if word is not None else name
            for name, about in self.columns.items()
            for word in about.get("words", [None])
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all that a saved model must know."""
        known = {"label": self.label, "has_head": self.has_head}
        known |= {"decimal": self.decimal, "columns": self.columns}
        return {"kind": self.kind, **known}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "TableReader":
        """Return the reader of a saved model."""
        reader = cls(str(saved.get("label")), decimal=saved.get("decimal"))
        reader.has_head, columns = bool(saved.get("has_head")), saved.get("columns")
        if not isinstance(columns, dict) or not columns:
            raise ValueError("it does not say what its columns are")
        for name, about in columns.items():
            if isinstance(about.get("words"), list):
                reader.columns[name] = {"words": [str(word) for word in about["words"]]}
            else:
                numbers = {key: float(about[key]) for key in ("mean", "scale")}
                reader.columns[name] = numbers
        return reader

    def write(self, examples: Examples, labels: Any) -> str:
        """Return the file with another column, the labels that were found."""
        head, rows = examples.given
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if head:
            writer.writerow([*head, f"predicted {self.label}"])
        writer.writerows([*row, k] for row, k in zip(rows, labels, strict=True))
        return text.getvalue()

    def _read(
        self, path: Path, ask: Callable[[list[int], list[list[str]]], bool]
    ) -> tuple[list[int], list[str] | None, list[list[str]]]:
        """Return lines, names if there are any, and cells; all rows have one length."""
        lines, rows, self.notes = read_cells(path, self.decimal)
        if not rows:
            raise ValueError(f"{path} is empty: it needs an example a line.")
        for line, row in zip(lines, rows, strict=True):
            if len(row) != len(rows[0]):
                raise ValueError(
                    f"{path}, line {line}: {len(row)} cells, but the first line has "
                    f"{len(rows[0])}; give every line as many."
                )
        if not ask(lines, rows):
            return lines, None, rows
        head = rows[0]
        twice = {name for name in head if head.count(name) > 1}
        if twice:
            raise ValueError(
                f"{path}, line {lines[0]}: two columns are called {min(twice)!r}; give "
                "each a name of its own."
            )
        if len(rows) == 1:
            raise ValueError(f"{path} has a line of names and no example.")
        return lines[1:], head, rows[1:]

    def _ask(self, lines: list[int], rows: list[list[str]]) -> bool:
        """Return whether a file to train on begins with names."""
        asked, n = self.header, len(rows[0])
        given = -1 if self.label is None else self.label
        is_place = str(given).lstrip("-").isdecimal() and -n <= int(given) < n
        if asked is None and given in rows[0] and not is_place:
            asked = True
        label = int(given) % n if is_place else n - 1
        found = find_head(lines, rows, asked, label)
        self.notes += [found.note] if found.note else []
        return found.is_there

    def _ask_alike(self, lines: list[int], rows: list[list[str]]) -> bool:
        """Return whether a file begins with names, as that of the training or not."""
        first = rows[0]
        if self.has_head:
            return {*self.columns} <= {*first} or is_head(first)
        about = [*self.columns.values()]
        if len(first) != len(about):  # with a label, which may be in any column
            return is_head(first) and find_head(lines, rows).is_there
        fits = (
            cell in one["words"] if "words" in one else floats([cell]) is not None
            for cell, one in zip(first, about, strict=True)
        )
        return is_head(first) and not all(fits)

    def _find_label(self, path: Path, names: list[str]) -> str:
        """Return the name of the label's column."""
        if self.label is None:
            return names[-1]
        if self.label in names:
            return self.label
        place = int(self.label) if self.label.lstrip("-").isdecimal() else None
        if place is None or not -len(names) <= place < len(names):
            raise ValueError(
                f"--label must be one of the columns of {path}, {_some(names)}, or a "
                f"number from 0 to {len(names) - 1}; not {self.label!r}."
            )
        return names[place]

    def _describe(self, path: Path, lines: list[int], name: str, column: Any) -> dict:
        values = floats(column)
        if values is not None:
            _refuse_endless(path, lines, name, column, values)
            scale = float(values.std()) if self.standardize else 1.0
            mean = float(values.mean()) if self.standardize else 0.0
            return {"mean": mean, "scale": scale if scale > 0 else 1.0}
        numbers = [floats([cell]) is not None for cell in column]
        if any(numbers) or not all(column):
            k = [not number for number in numbers].index(True)
            k = k if any(numbers) else column.index("")
            raise ValueError(f"{path}, {wrong_cell(lines[k], name, column[k])}")
        if self.decimal != POINT:
            refuse_numberish(path, lines, name, column)
        words = sorted(set(column))
        if len(words) > MOST_WORDS:
            raise ValueError(
                f"{path}: column {name!r} has {len(words)} different words, and no "
                f"more than {MOST_WORDS} become features; leave the column out."
            )
        return {"words": words}

    def _examples(
        self, path: Path, lines: list[int], head: Any, rows: Any, cells: dict
    ) -> Examples:
        parts = []
        for name, about in self.columns.items():
            column = cells[name]
            if "words" in about:
                parts.append(np.array(column)[:, None] == about["words"])
                continue
            values = floats(column)
            if values is None:
                k = [floats([cell]) is None for cell in column].index(True)
                raise ValueError(f"{path}, {wrong_cell(lines[k], name, column[k])}")
            _refuse_endless(path, lines, name, column, values)
            parts.append((values[:, None] - about["mean"]) / about["scale"])
        X = np.hstack(parts).astype(np.float64)
        labels = cells.get(self.label)
        if labels is not None and "" in labels:
            line = lines[labels.index("")]
            raise ValueError(
                f"{path}, line {line}: the label, {self.label!r}, is empty."
            )
        y = None if labels is None else np.array(labels)
        return Examples(X, y, np.array(lines), (head, rows))


def _numbered(rows: list[list[str]]) -> list[str]:
    return [f"column {j}" for j in range(len(rows[0]))]


def _some(names: Any) -> str:
    names = [*names]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _refuse_endless(
    path: Path, lines: list[int], name: str, column: Any, values: np.ndarray
) -> None:
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        k = wrong[0]
        raise ValueError(f"{path}, {wrong_cell(lines[k], name, column[k])}")
