"""What people's own files have in common: examples, and a reader for each kind of file.

From the file to train on a reader learns how features are made (their names, for
example), and it reads other files of that kind in the same way. A saved model keeps it
as JSON.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np


class Examples(NamedTuple):
    """Examples to learn from, or to label.

    Attributes
    ----------
    X : matrix, or list of matrices
        One row an example, or a matrix a sequence.
    y : ndarray, list of lists, or None
        The labels, where they are known.
    lines : ndarray or None
        Where examples, or positions of sequences, are in the file.
    given
        What the file held; only its reader knows.
    """

    X: Any
    y: Any
    lines: np.ndarray | None
    given: Any


class Reader(ABC):
    """One kind of file."""

    kind: ClassVar[str]
    chains: bool
    notes: list[str]  # what is not sure about how a file was read

    @abstractmethod
    def learn(self, path: Path) -> Examples:
        """Read a file to train on, and learn its features."""

    @abstractmethod
    def read(self, path: Path) -> Examples:
        """Read a file as that of the training, with or without labels."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Return what the features are called."""

    @property
    def n_names(self) -> int:
        """Return how many features there are."""
        return len(self.names)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all that a saved model must know."""

    @classmethod
    @abstractmethod
    def from_dict(cls, saved: dict[str, Any]) -> "Reader":
        """Return the reader of a saved model; raise ValueError where it is damaged."""

    @abstractmethod
    def write(self, examples: Examples, labels: Any) -> str:
        """Return labels that were found as the text of a file."""


def flat(y: Any, chains: bool) -> np.ndarray:
    """Return all labels in a row."""
    return np.concatenate([np.asarray(one) for one in y]) if chains else np.asarray(y)


def check_labels(path: Path, train: Examples, chains: bool) -> np.ndarray:
    """Return the labels of a file to train on; raise where they are not enough."""
    if train.y is None:
        raise ValueError(f"{path} has no labels, and training needs them.")
    classes = np.unique(flat(train.y, chains))
    if not chains and len(classes) > max(len(train.y) // 2, 20):
        raise ValueError(
            f"{path} has {len(classes)} different labels in {len(train.y)} examples; "
            "classes are needed, and not numbers to predict. Is the label in another "
            "column?"
        )
    if len(classes) < 2:
        raise ValueError(
            f"{path} has one label only, {str(classes[0])!r:.60}; two or more are "
            "needed. Is the label in another column?"
        )
    return classes


def check_test(
    path: Path, test: Examples, classes: np.ndarray, chains: bool
) -> str | None:
    """Raise where a file has no labels to test on; return a note on unknown ones."""
    if test.y is None:
        raise ValueError(f"{path} has no labels, and --test compares with them.")
    labels = flat(test.y, chains)
    unknown = np.flatnonzero(~np.isin(labels, classes))
    if not len(unknown):
        return None
    k = unknown[0]
    where = f"row {k}" if test.lines is None else f"line {test.lines[k]}"
    if len(unknown) == len(labels):
        raise ValueError(
            f"{path}, {where}: the label {str(labels[k])!r:.60} does not occur in "
            "training, and neither do the others. Is the label in the same column?"
        )
    names = ", ".join(str(label) for label in np.unique(labels[unknown])[:8])
    return (
        f"labels of {path} that training never saw, the first of them in {where}, "
        f"count as errors: {bad(names)}."
    )


def bad(text: str) -> str:
    """Return a piece of a file, cut to a length that suits a message."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def read_count(saved: dict[str, Any], name: str) -> int:
    """Return a whole number from 1 that a saved model holds."""
    value = saved.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r:.60}")
    return value
