"""Sequences in CoNLL columns: a token a line, its label last, blank lines between."""

import re
from collections.abc import Iterator
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

import numpy as np

from wolfpack.estimators.vectorizer import SequenceVectorizer
from wolfpack.files.own import Examples, Reader, bad, read_count
from wolfpack.files.table import open_text
from wolfpack.files.template import Template, read_template

SPACES = re.compile("[ \t]+")
DOCUMENT = "-DOCSTART-"  # how CoNLL-2003 marks a new document


class Sentences(NamedTuple):
    """What a file of columns holds."""

    rows: list[list[list[str]]]  # the cells of each token of each sentence
    lines: np.ndarray  # of all tokens, in the file
    mark: str  # what separates cells: a tab or a space


class ColumnsReader(Reader):
    """Read CoNLL columns; features come from a template."""

    kind, chains = "CoNLL columns", True
    template: Template
    n_columns: int  # without the label

    def __init__(self, template: str = "window", min_count: int = 2) -> None:
        self.chosen = template
        self.vectorizer = SequenceVectorizer(min_count=min_count, separator="")

    def learn(self, path: Path) -> Examples:
        """Read a file to train on, and learn its features."""
        found = read_sentences(path)
        width = len(found.rows[0][0])
        if width < 2:
            raise ValueError(
                f"{path}, line {found.lines[0]}: one column, {found.rows[0][0][0]!r}; "
                "two or more are needed, the last of them the label."
            )
        self.n_columns = width - 1
        self.template = read_template(self.chosen, self.n_columns)
        X = self.vectorizer.fit_transform(self._features(found))
        return Examples(X, _labels(path, found), found.lines, found)

    def read(self, path: Path) -> Examples:
        """Read a file as that of the training, with or without labels."""
        found = read_sentences(path)
        width = len(found.rows[0][0])
        if width not in (self.n_columns, self.n_columns + 1):
            raise ValueError(
                f"{path}, line {found.lines[0]}: {width} columns, but the model was "
                f"trained on {self.n_columns} and a label."
            )
        y = _labels(path, found) if width > self.n_columns else None
        X = self.vectorizer.transform(self._features(found))
        return Examples(X, y, found.lines, found)

    @property
    def names(self) -> list[str]:
        """Return what the features are called."""
        return [*self.vectorizer.vocabulary_]

    def to_dict(self) -> dict[str, Any]:
        """Return all that a saved model must know."""
        return {
            "kind": self.kind,
            "n_columns": self.n_columns,
            "template": self.template.text,
            "vocabulary": self.names,
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "ColumnsReader":
        """Return the reader of a saved model."""
        n, names = read_count(saved, "n_columns"), saved.get("vocabulary")
        if not isinstance(names, list) or not all(isinstance(k, str) for k in names):
            raise ValueError("its vocabulary is no list of words")
        reader = cls()
        reader.n_columns, reader.template = n, Template(str(saved.get("template")))
        if reader.template.n_columns > n:
            raise ValueError("its template asks for columns that it does not have")
        reader.vectorizer.vocabulary_ = {name: k for k, name in enumerate(names)}
        return reader

    def write(self, examples: Examples, labels: list[Any]) -> str:
        """Return the file with another column, the labels that were found."""
        rows, _, mark = examples.given
        blocks = []
        for sentence, found in zip(rows, labels, strict=True):
            pairs = zip(sentence, found, strict=True)
            blocks.append("\n".join(mark.join([*row, k]) for row, k in pairs))
        return "\n\n".join(blocks) + "\n"

    def _features(self, found: Sentences) -> Iterator[list[dict[str, str]]]:
        # The vectorizer is fastest with strings as values; these are empty ones, and
        # so is its separator.
        for rows in found.rows:
            cells = [row[: self.n_columns] for row in rows]
            names = self.template.features(cells)
            yield [dict.fromkeys(position, "") for position in names]


def read_sentences(path: Path) -> Sentences:
    """Read a file of columns; raise ValueError where it is none.

    Lines of CoNLL-2003 that begin a document are left out, and comments of CoNLL-U:
    lines without a tab that begin with #, where others have tabs.
    """
    # Only spaces and tabs separate cells, and only \n lines, because the words of a
    # text may hold other white space.
    lines = [line.strip(" \r") for line in open_text(path).split("\n")]
    first = next((line for line in lines if line.strip() and line[0] != "#"), "")
    mark = "\t" if "\t" in first else " "
    rows: list[list[list[str]]] = [[]]
    places: list[int] = []
    width = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            rows.append([])
            continue
        if mark == "\t" and line[0] == "#" and mark not in line:
            continue
        parts = line.split(mark) if mark == "\t" else SPACES.split(line)
        cells = [intern(cell) for cell in parts]
        if cells[0] == DOCUMENT:
            continue
        width = width or len(cells)
        if len(cells) != width:
            raise ValueError(
                f"{path}, line {number}: {bad(line)} has {len(cells)} columns, but the "
                f"lines before have {width}; give every line as many, and put a blank "
                "line between sequences."
            )
        rows[-1].append(cells)
        places.append(number)
    found = [sentence for sentence in rows if sentence]
    if not found:
        raise ValueError(f"{path} is empty: it needs a line a token, its label last.")
    return Sentences(found, np.array(places), mark)


def _labels(path: Path, found: Sentences) -> list[list[str]]:
    labels = [[row[-1] for row in sentence] for sentence in found.rows]
    empty = [not label for sentence in labels for label in sentence]
    if any(empty):
        line = found.lines[empty.index(True)]
        raise ValueError(f"{path}, line {line}: the last column, the label, is empty.")
    return labels
