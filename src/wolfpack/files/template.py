"""Feature templates: how a line of columns, and its neighbours, become features.

A template is text in the manner of CRF++, a feature a line: in `U05:%x[-1,0]/%x[0,1]`
each `%x[row,column]` is replaced by the cell that many rows away, so that a position
has a feature such as "U05:the/NN". Besides `%x` there are `%lower`, `%shape`,
`%prefixN` and `%suffixN`. Beyond the ends of a sentence stand `_B-1` and `_B+1`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from wolfpack.datasets.files import word_shape
from wolfpack.files.table import open_text

MACRO = re.compile(r"%(x|lower|shape|prefix\d|suffix\d)\[([+-]?\d+),(\d+)\]")
MOST_ROWS = 100  # between a position and the cells that describe it
VIEWS = "%x, %lower, %shape, %prefixN or %suffixN"
Sentence = Sequence[Sequence[str]]


class Line(NamedTuple):
    """A line of a template: text with gaps, and the cells that fill them."""

    fill: Callable[..., str]
    cells: list[tuple[str, int, int]]  # view, row, column


class Template:
    """A feature template.

    Examples
    --------
    >>> template = Template("U01:%x[-1,0]/%lower[0,0]")
    >>> [*template.features([["The", "DT"], ["End", "NN"]])]
    [('U01:_B-1/the',), ('U01:The/end',)]
    """

    def __init__(self, text: str, name: str = "the template") -> None:
        self.text = text
        self.lines = [*_parse(text, name)]
        if not self.lines:
            raise ValueError(f"{name} has no feature; a line is like U01:%x[0,0].")
        cells = [cell for line in self.lines for cell in line.cells]
        self.views = {(view, column) for view, _, column in cells}
        self.reach = max(abs(row) for _, row, _ in cells)
        self.n_columns = 1 + max(column for *_, column in cells)

    def features(self, sentence: Sentence) -> Iterator[tuple[str, ...]]:
        """Yield the features of each position."""
        columns, n, reach = [*zip(*sentence, strict=True)], len(sentence), self.reach
        before = [f"_B-{k}" for k in range(reach, 0, -1)]
        after = [f"_B+{k}" for k in range(1, reach + 1)]
        seen = {
            (view, column): [
                *before,
                *(look(view, cell) for cell in columns[column]),
                *after,
            ]
            for view, column in self.views
        }
        found = []
        for fill, cells in self.lines:
            parts = [seen[v, c][reach + row :][:n] for v, row, c in cells]
            found.append([*map(fill, *parts)])
        yield from zip(*found, strict=True)


def read_template(name: str, n_columns: int) -> Template:
    """Return the template "window", or that of a file, for `n_columns` columns."""
    if name == "window":
        return Template(window(n_columns))
    path = Path(name)
    if not path.is_file():
        raise ValueError(
            f"--template must be window or a file; there is no file {name}."
        )
    template = Template(open_text(path), name)
    if template.n_columns > n_columns:
        raise ValueError(
            f"{name} asks for column {template.n_columns - 1}, but the data have "
            f"columns 0 to {n_columns - 1} before the label."
        )
    return template


def window(n_columns: int) -> str:
    """Return the built-in template: words, their parts and other columns, 2 around.

    Examples
    --------
    >>> window(2).splitlines()[:2]
    ['word[-2]=%lower[-2,0]', 'word[-1]=%lower[-1,0]']
    """
    rows = range(-2, 3)
    lines = [f"word[{k}]=%lower[{k},0]" for k in rows]
    lines += ["words[-1,0]=%lower[-1,0]/%lower[0,0]"]
    lines += ["words[0,1]=%lower[0,0]/%lower[1,0]", "form=%x[0,0]"]
    lines += [f"{part}=%{part}[0,0]" for part in ("prefix3", "suffix2", "suffix3")]
    lines += [f"shape[{k}]=%shape[{k},0]" for k in (-1, 0, 1)]
    for c in range(1, n_columns):
        lines += [f"column{c}[{k}]=%x[{k},{c}]" for k in rows]
        lines += [f"column{c}[-1,0]=%x[-1,{c}]/%x[0,{c}]"]
        lines += [f"column{c}[0,1]=%x[0,{c}]/%x[1,{c}]"]
        lines += [f"column{c}[-1,0,1]=%x[-1,{c}]/%x[0,{c}]/%x[1,{c}]"]
    return "\n".join(lines) + "\n"


@lru_cache(2**16)
def look(view: str, cell: str) -> str:
    """Return what a template sees of a cell."""
    if view == "x":
        return cell
    if view == "shape":
        return word_shape(cell)
    lower = cell.lower()
    if view == "lower":
        return lower
    size = int(view[-1])
    return lower[:size] if view.startswith("prefix") else lower[-size:]


def _parse(text: str, name: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#") or re.fullmatch(r"B\d*", line):
            continue  # pairs of labels, which CRF++ asks for by B, are always there
        where = f"{name}, line {number}"
        cells = [(v, int(row), int(c)) for v, row, c in MACRO.findall(line)]
        literals = MACRO.sub("", line)
        if not cells or "%" in literals:
            raise ValueError(
                f"{where}: {line!r} is no feature; it needs cells such as %x[0,0], "
                f"each of them {VIEWS} with [row,column]."
            )
        if re.match(r"B\d*:", line):
            raise ValueError(
                f"{where}: {line!r} is a feature of a pair of labels, which chains do "
                "not have; begin it with U to make it one of a single label."
            )
        if max(abs(row) for _, row, _ in cells) > MOST_ROWS:
            raise ValueError(f"{where}: {line!r} looks more than {MOST_ROWS} rows far.")
        form = MACRO.sub("{}", line.replace("{", "{{").replace("}", "}}"))
        yield Line(form.format, cells)
