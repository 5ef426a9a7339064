"""Whether the first line of a table is the names of its columns.

Words above numbers are names, and so are all words, unless each of them occurs again in
its column. Names may be numbers, too, such as years; then it is said how the line was
read, and how to have it read otherwise.
"""

from collections.abc import Sequence
from typing import NamedTuple

from wolfpack.files.cells import dates, floats
from wolfpack.files.own import bad

INDEX_NAMES = {"", "index", "row", "t", "time", "timestamp", "date", "datetime"}
MISSING = {"na", "n/a", "nan", "nil", "none", "null", "missing"}
YEARS = range(1800, 2200)


class Head(NamedTuple):
    """Whether the first line is names, and a note where that is not sure."""

    is_there: bool
    note: str | None = None


def find_head(
    lines: Sequence[int],
    rows: Sequence[Sequence[str]],
    asked: bool | None = None,
    label: int | None = None,
) -> Head:
    """Look at the first line; of examples, `label` is the column of the label."""
    if asked is not None:
        return Head(asked)
    first, below = rows[0], [*zip(*rows[1:], strict=False)]
    words = [j for j, cell in enumerate(first) if is_word(cell)]
    again = [j for j in words if j < len(below) and first[j] in below[j]]
    where = f"line {lines[0]}, {bad(','.join(first))}, is read as"
    names = f"{where} the names of the columns; if it is none, say --no-header."
    data = f"{where} one of the rows; if it is the names of the columns, say --header."
    if is_head(first):
        return Head(False, data) if below and len(again) == len(words) else Head(True)
    if again or not below:
        return Head(False)
    if any(_is_name(j, first[j], below[j]) for j in words) or _are_numbers_of_columns(
        first, below, words
    ):
        return Head(True, names)
    if label in words and len({*below[label]}) < len(below[label]):
        return Head(True, names)
    if label is None:
        return Head(False, data if _count_up(first, below) else None)
    features = [*range(label), *range(label + 1, len(first))]
    are_years = len(features) > 1 and _count_up(
        [first[j] for j in features], [below[j] for j in features]
    )
    return Head(False, data if words or are_years or _count_up(first, below) else None)


def is_head(cells: Sequence[str]) -> bool:
    """Return whether these are names: neither numbers nor dates."""
    return all(map(is_word, cells))


def is_word(cell: str) -> bool:
    """Return whether a cell is neither a number nor a date."""
    return floats([cell]) is None and dates([cell]) is None


def _is_name(j: int, cell: str, below: Sequence[str]) -> bool:
    """Return whether a word is a name for sure: above numbers, or that of an index."""
    if j == 0 and cell and cell.lower() in INDEX_NAMES:
        return True
    is_plain = cell[:1].isalpha() and cell.lower() not in MISSING
    return is_plain and floats(below) is not None


def _are_numbers_of_columns(
    first: Sequence[str], below: Sequence[Sequence[str]], words: list[int]
) -> bool:
    """Return whether the first cell alone is a word, and the others count columns."""
    if words != [0] or first[0].lower() in MISSING:
        return False
    if not first[0]:
        return all(below[0]) and all(map(str.isdecimal, first[1:]))
    return _count_up(first[1:], below[1:])


def _count_up(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether these are years, or count by one, above fractions."""
    if not all(map(str.isdecimal, cells)):
        return False
    numbers = [int(cell) for cell in cells]
    rising = len(numbers) > 1 and numbers == [*range(numbers[0], numbers[-1] + 1)]
    years = all(number in YEARS for number in numbers)
    return (rising or years) and any("." in cell for column in below for cell in column)
