"""Read a signal out of a user's file: .csv, .tsv or .txt (also .gz), .npy or .npz.

A table may have a line of names, and an index before its columns: dates or words, or
numbers under a name such as "time". What is wrong with a cell is said with its line.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wolfpack.files.cells import (
    NUMBERISH,
    dates,
    find_mark,
    floats,
    read_commas,
    suspect_commas,
)
from wolfpack.files.head import INDEX_NAMES, MISSING, find_head
from wolfpack.files.npz import FileError, one_line, read_npz
from wolfpack.kernels import room

EMPTY = {"", *MISSING}  # cells that stand for a missing number
TEXTS, ARRAYS = (".csv", ".tsv", ".txt"), ("Y", "X", "signal")
# What a table takes while it is read, for each letter of its text; read by the PIECE.
BYTES_A_LETTER, PIECE = 16, 2**20


class Table(NamedTuple):
    """A signal and what its rows and columns are called.

    Attributes
    ----------
    values : ndarray (n, d)
        Numbers; NaN is a missing one.
    names : list of str
        Of the columns.
    index : list of str or None
        Of the rows, as in the file; None where the file has no index.
    index_name : str
        What the index is called; may be empty.
    notes : tuple of str
        What is not sure about how the file was read.
    """

    values: np.ndarray
    names: list[str]
    index: list[str] | None
    index_name: str
    notes: tuple[str, ...] = ()

    def axis(self) -> np.ndarray | None:
        """Return the index as dates or numbers, for a picture; None if it is neither.

        Examples
        --------
        >>> Table(np.ones((2, 1)), ["a"], ["2024-01-01", "2024-01-02"], "day").axis()
        array(['2024-01-01', '2024-01-02'], dtype='datetime64[D]')
        """
        if self.index is None:
            return None
        numbers = floats(self.index)
        return dates(self.index) if numbers is None else numbers


def read_table(
    path: Path, header: bool | None = None, decimal: str | None = None
) -> Table:
    """Read a signal, one row a time; raise ValueError where it is none.

    `header` says whether a table has a line of names, and `decimal` whether numbers
    have a "comma" or a "point"; None: find out.
    """
    kind = (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()
    check_file(path)
    if kind == ".npy":
        table = _unnamed(path, _read_npy(path))
    elif kind == ".npz":
        table = _unnamed(path, _read_npz(path))
    elif kind in TEXTS:
        table = _read_text(path, header, decimal)
    else:
        known = ", ".join((*TEXTS, ".npy", ".npz"))
        raise ValueError(f"{path}: a signal comes in one of {known}; not {kind!r}.")
    if len(table.values) < 2:
        raise ValueError(f"{path} has {len(table.values)} rows; 2 or more are needed.")
    return table


def _read_npy(path: Path) -> np.ndarray:
    try:
        # A map is as long as the file, whatever the header promises.
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no .npy file of numbers.") from error


def _read_npz(path: Path) -> np.ndarray:
    try:
        arrays = read_npz(path, ARRAYS)
    except FileError as error:
        raise ValueError(f"{path} {error}.") from error
    if len(arrays) != 1:
        has = f"has {' and '.join(arrays)}" if arrays else "has none of them"
        raise ValueError(f"{path} must hold one of {', '.join(ARRAYS)}; it {has}.")
    return next(iter(arrays.values()))


def _unnamed(path: Path, values: np.ndarray) -> Table:
    values = values[:, np.newaxis] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] == 0 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"{path}: a signal is numbers of shape (rows,) or (rows, columns), but "
            f"this is {values.dtype} of shape {values.shape}."
        )
    room.check(8 * values.size, f"{path} as float64", "Give it in parts.")
    values = values.astype(np.float64)
    wrong = np.argwhere(np.isinf(values))
    if len(wrong):
        row, column = wrong[0]
        what = values[row, column]
        raise ValueError(f"{path}: row {row}, column {column} is {what}, no number.")
    names = [f"column {j}" for j in range(values.shape[1])]
    return Table(values, names, None, "", _missing(path, values, names))


def _missing(path: Path, values: np.ndarray, names: list[str]) -> tuple[str, ...]:
    """Return a note that says how many numbers are missing, if any."""
    is_missing = np.isnan(values)
    for name, column in zip(names, is_missing.T, strict=True):
        if len(column) and column.all():
            raise ValueError(f"{path}, column {name!r} has no number; leave it out.")
    count, total = int(is_missing.sum()), values.size
    verb = "is" if count == 1 else "are"
    return (f"{count} of {total} numbers {verb} missing.",) if count else ()


def _read_text(path: Path, header: bool | None, decimal: str | None) -> Table:
    lines, rows, notes = read_cells(path, decimal, keep_empty=True)
    if not rows:
        raise ValueError(f"{path} is empty.")
    head, (is_there, note) = None, find_head(lines, rows, header)
    if is_there:
        head, lines, rows = rows[0], lines[1:], rows[1:]
    names = head or [f"column {j}" for j in range(len(rows[0]))]
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {line}: {len(row)} cells, but {len(names)} columns."
            )
    has_index = bool(rows) and len(names) > 1 and _is_index(head, rows)
    index = [row[0] for row in rows] if has_index else None
    first = int(has_index)
    cells = [
        ["nan" if cell.lower() in EMPTY else cell for cell in row[first:]]
        for row in rows
    ]
    values = floats(cells)
    if values is None or np.isinf(values).any():
        raise ValueError(f"{path}, {_wrong_cell(lines, names[first:], cells)}")
    values = values.reshape(len(rows), len(names) - first)
    name = names[0] if head and has_index else ""
    notes += [f"{path}, {note}"] if note else []
    notes += _missing(path, values, names[first:])
    return Table(values, names[first:], index, name, tuple(notes))


def check_file(path: Path) -> None:
    """Raise ValueError where there is no such file."""
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {what}.")


def open_text(path: Path) -> str:
    """Return the text of a file, which may be packed by gzip."""
    check_file(path)
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            text = "".join(_pieces(path, file))
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is no text in UTF-8: {error}.") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(
            f"{path}, line {line}: a NUL, which no text has; is it a file of another "
            "kind, or in UTF-16? Save it as UTF-8."
        )
    return text


def _pieces(path: Path, file: Any) -> Iterator[str]:
    """Yield a text piece by piece; raise where it is more than can be read here."""
    there, length = room.available(), 0
    while piece := file.read(PIECE):
        length += len(piece)
        if there is not None and length * BYTES_A_LETTER > there:
            raise MemoryError(
                f"{path} holds more than {room.in_words(length)} of text, which takes "
                f"{BYTES_A_LETTER} times as much memory to read, and "
                f"{room.in_words(there)} are free. Cut it into parts, or give arrays "
                "in an .npz file."
            )
        yield piece


def read_cells(
    path: Path, decimal: str | None = None, keep_empty: bool = False
) -> tuple[list[int], list[list[str]], list[str]]:
    """Return the lines of the rows that are not empty, the rows, and notes.

    `keep_empty`: rows of several empty cells are rows, if others follow.
    """
    text = open_text(path)
    first = next(filter(str.strip, text.splitlines()), "")
    mark = find_mark(first, decimal, quoted='"' in text)
    begins = io.StringIO(text, newline="")
    reader = csv.reader(begins, delimiter=mark, skipinitialspace=True)
    lines, rows = [], []
    try:
        for row in reader:
            row = [cell.strip() for cell in row]
            if mark == " ":
                row = [cell for cell in row if cell]
            if any(row) or (keep_empty and rows and len(row) > 1):
                lines.append(reader.line_num)
                rows.append(row)
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: {one_line(error)}. A cell has at most "
            f"{csv.field_size_limit()} letters; is a quotation mark missing?"
        ) from error
    while rows and not any(rows[-1]):
        lines.pop()
        rows.pop()
    notes = read_commas(path, lines, rows, decimal)
    if mark == "," and decimal is None:
        notes += suspect_commas(path, rows)
    return lines, rows, notes


def _is_index(head: list[str] | None, rows: list[list[str]]) -> bool:
    """Whether the first column names the rows: no numbers, or by its own name."""
    if head is not None and head[0].lower() in INDEX_NAMES:
        return True
    known = [row[0] for row in rows if row[0].lower() not in EMPTY] or [""]
    return floats([known[0]]) is None and floats([known[-1]]) is None


def _wrong_cell(lines: list[int], names: list[str], cells: list[list[str]]) -> str:
    for line, row in zip(lines, cells, strict=True):
        for name, cell in zip(names, row, strict=True):
            value = floats([cell])
            if value is None or np.isinf(value[0]):
                return wrong_cell(line, name, cell)
    raise AssertionError("every cell is a number")


def wrong_cell(line: int, name: str, cell: str) -> str:
    """Say what is wrong with a cell that should be a number."""
    what = f"{cell!r} is no number" if cell else "the cell is empty"
    advice = "Fill it or leave out its row."
    if NUMBERISH.fullmatch(cell):
        advice = "Write it as in 1234.5; of decimal commas, say --decimal comma."
    return f"line {line}, column {name!r}: {what}. {advice}"
