"""What a cell of a table is: a number, a date or a word; and which comma is a mark.

A number may have a decimal comma where something else separates the cells. It is read
where no other meaning is possible, and said; what may be a number and is none is never
taken for a word, unless the user says so.
"""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wolfpack.files.own import bad

# 0,5 and 1.234,5; thousands that 1,234 may also mean; what a person takes for a number.
DECIMAL = re.compile(r"[+-]?(\d{1,3}([.' ]\d{3})+|\d*),\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
NUMBERISH = re.compile(r"[+-]?[$€£]? ?(?=\d)[\d.,' ]+([eE][+-]?\d+)? ?[%$€£]?")
COMMA, POINT = "comma", "point"


def find_mark(line: str, decimal: str | None = None, quoted: bool = False) -> str:
    """Return what separates the cells of a line.

    Decimal commas may stand between commas where cells are `quoted`.

    Examples
    --------
    >>> [find_mark(line) for line in ("1,b;3", "0,5;1,2;p", "0,5 1,2", "a 1,2")]
    [',', ';', ' ', ',']
    """
    for mark in "\t;":
        commas = [part.strip() for part in line.split(mark) if "," in part]
        if mark in line and commas and all(map(DECIMAL.fullmatch, commas)):
            return mark
    parts = line.split()  # by spaces, which words of a cell may have, too
    commas = [part for part in parts if "," in part]
    others = [part for part in parts if "," not in part]
    are_enough = len(commas) > 1 or (bool(commas) and floats(others) is not None)
    if len(parts) > 1 and are_enough and all(map(_begins_whole, commas)):
        return " "
    marks = ";\t" if decimal == COMMA and not quoted else ",;\t"
    mark = max(marks, key=line.count)
    return mark if mark in line else " "


def _begins_whole(cell: str) -> bool:
    """Return whether a number has a decimal comma after a digit: "1 ,2" has none."""
    return cell.lstrip("+-")[:1].isdecimal() and bool(DECIMAL.fullmatch(cell))


def read_commas(
    path: Path, lines: Sequence[int], rows: list[list[str]], decimal: str | None
) -> list[str]:
    """Write decimal points for commas, in place; return notes on it."""
    below, changed = rows[1:] or rows, []
    if decimal == POINT or len({len(row) for row in rows}) > 1:
        return []
    for j in range(len(below[0]) if below else 0):
        commas = [row[j] for row in below if "," in row[j]]
        others = [row[j] for row in below if row[j] and "," not in row[j]]
        if not commas or not all(map(DECIMAL.fullmatch, commas)):
            continue
        if floats(others) is None:
            continue
        if decimal is None and all(map(THOUSANDS.fullmatch, commas)):
            line = lines[next(i for i, row in enumerate(rows) if row[j] == commas[0])]
            raise ValueError(
                f"{path}, line {line}: {commas[0]!r} is a decimal comma, or separates "
                "thousands: say --decimal comma, write it without the comma, or say "
                "--decimal point if such cells are words."
            )
        for row in rows:
            if DECIMAL.fullmatch(row[j]):
                row[j] = re.sub("[.' ]", "", row[j]).replace(",", ".")
        changed.append(commas[0])
    if not changed or decimal == COMMA:
        return []
    return [
        f"{path} has decimal commas, as in {changed[0]}, and is read so; if these are "
        "words, say --decimal point."
    ]


def suspect_commas(path: Path, rows: list[list[str]]) -> list[str]:
    """Return a note where whole numbers begin with zeros, as fractions do."""
    cells = [cell for row in rows[1:] for cell in row]
    zeros = [cell for cell in cells if re.fullmatch(r"0\d+|-0", cell)]
    if not zeros or not all(re.fullmatch(r"[+-]?\d+", cell) for cell in cells):
        return []
    return [
        f"{path} has numbers such as {zeros[0]} between commas; if these are decimal "
        "commas, say --decimal comma."
    ]


def refuse_numberish(path: Path, lines: Sequence[int], name: str, column: Sequence):
    """Raise where cells of a column of words look like numbers."""
    k = next((k for k, cell in enumerate(column) if _is_numberish(cell)), None)
    if k is None:
        return
    others = [cell for cell in column if not NUMBERISH.fullmatch(cell)]
    beside = f", beside {bad(others[0])}" if others else ""
    advice = "fill or leave out what is missing, and " if others else ""
    raise ValueError(
        f"{path}, line {lines[k]}, column {name!r}: {column[k]!r} looks like a number, "
        f"but is none{beside}; {advice}write it as in 1234.5, or say --decimal point "
        "if such cells are words."
    )


def _is_numberish(cell: str) -> bool:
    """Return whether a person takes this for a number, which Python does not."""
    return bool(re.search("[,%$€£]", cell) and NUMBERISH.fullmatch(cell))


def floats(cells: Sequence) -> np.ndarray | None:
    """Return cells as numbers, or None where one of them is no number."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return None


def dates(cells: Sequence[str]) -> np.ndarray | None:
    """Return cells as dates, or None where one of them is no date."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy drops time zones, and says so
            found = np.array(cells, dtype="datetime64")
    except ValueError:
        return None
    return None if np.isnat(found).any() else found
