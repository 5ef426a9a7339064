"""Examples that are numbers already: svmlight lines, and arrays in an .npz file."""

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.files.npz import FileError, read_npz
from wolfpack.files.own import Examples, Reader, bad, read_count
from wolfpack.files.table import check_file, open_text
from wolfpack.problems.chain_data import refuse_too_many


class SvmlightReader(Reader):
    """Read lines of a class and pairs `column:value`.

    A feature is called by its number in the file. Where numbers begin at 1, there still
    is a column 0, which is empty.
    """

    kind, chains = "svmlight lines", False
    n_features: int

    def learn(self, path: Path) -> Examples:
        """Read a file to train on; its largest column is the last that counts."""
        found = self._load(path)
        self.n_features = found.X.shape[1]
        n_labels, lines, X = len(np.unique(found.y)), found.lines, found.X
        try:
            refuse_too_many(self.n_features, n_labels)
        except (ValueError, MemoryError) as error:
            row = np.searchsorted(X.indptr, X.indices.argmax(), "right") - 1
            where = path if lines is None else f"{path}, line {lines[row]}"
            raise ValueError(
                f"{where}: its largest column is {self.n_features - 1}, and {error}"
            ) from error
        return found

    def read(self, path: Path) -> Examples:
        """Read a file as that of the training; columns beyond its last are left out."""
        found = self._load(path)
        found.X.resize((found.X.shape[0], self.n_features))
        return found

    @property
    def names(self) -> list[str]:
        """Return what the features are called."""
        return [str(k) for k in range(self.n_features)]

    @property
    def n_names(self) -> int:
        """Return how many features there are, whose names may take gigabytes."""
        return self.n_features

    def to_dict(self) -> dict[str, Any]:
        """Return all that a saved model must know."""
        return {"kind": self.kind, "n_features": self.n_features}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "SvmlightReader":
        """Return the reader of a saved model."""
        reader = cls()
        reader.n_features = read_count(saved, "n_features")
        return reader

    def write(self, examples: Examples, labels: Any) -> str:
        """Return a label a line."""
        return "\n".join(["predicted", *map(str, labels)]) + "\n"

    def _load(self, path: Path) -> Examples:
        text = open_text(path)
        try:
            X, y = _parse(text)
        except (ValueError, OverflowError):
            _refuse_line(path, text)
            raise
        if not X.shape[0]:
            raise ValueError(f"{path} is empty: it needs an example a line.")
        lines = [k for k, line in enumerate(text.split("\n"), 1) if _content(line)]
        places = np.array(lines)
        whole = (y == np.round(y)) & (np.abs(y) < 2**53)
        if not whole.all():
            k = np.flatnonzero(~whole)[0]
            raise ValueError(
                f"{path}, line {places[k]}: the label {y[k]:g} is no class; a class is "
                "a whole number."
            )
        if not np.isfinite(X.data).all():
            entry = np.flatnonzero(~np.isfinite(X.data))[0]
            k = np.searchsorted(X.indptr, entry, "right") - 1
            raise ValueError(
                f"{path}, line {places[k]}: a value is NaN or infinite; write a "
                "number, or leave out the pair."
            )
        return Examples(X, y.astype(np.int64), places, None)


class ArraysReader(Reader):
    """Read `X`, `y` and, of sequences, `offsets` out of an .npz file."""

    kind = "arrays"
    n_features: int

    def __init__(self, chains: bool = False) -> None:
        self.chains = chains

    def learn(self, path: Path) -> Examples:
        """Read a file to train on."""
        X, y, offsets = read_arrays(path)
        self.chains, self.n_features = offsets is not None, X.shape[1]
        return self._split(X, y, offsets)

    def read(self, path: Path) -> Examples:
        """Read a file as that of the training, with or without `y`."""
        X, y, offsets = read_arrays(path)
        if self.chains is not (offsets is not None):
            has, needs = ("no ", "") if self.chains else ("", "no ")
            raise ValueError(
                f"{path} has {has}offsets, but the model was trained on a file with "
                f"{needs}offsets."
            )
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"{path}: X has {X.shape[1]} columns, but the model was trained on "
                f"{self.n_features}."
            )
        return self._split(X, y, offsets)

    @property
    def names(self) -> list[str]:
        """Return what the features are called."""
        return [f"x{k}" for k in range(self.n_features)]

    def to_dict(self) -> dict[str, Any]:
        """Return all that a saved model must know."""
        known = {"chains": self.chains, "n_features": self.n_features}
        return {"kind": self.kind, **known}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "ArraysReader":
        """Return the reader of a saved model."""
        reader = cls(bool(saved.get("chains")))
        reader.n_features = read_count(saved, "n_features")
        return reader

    def write(self, examples: Examples, labels: Any) -> str:
        """Return a label a line, of sequences with their numbers."""
        if not self.chains:
            return "\n".join(["predicted", *map(str, labels)]) + "\n"
        rows = (
            f"{i},{t},{k}"
            for i, labelling in enumerate(labels)
            for t, k in enumerate(labelling)
        )
        return "\n".join(["sequence,position,predicted", *rows]) + "\n"

    def _split(self, X: np.ndarray, y: Any, offsets: Any) -> Examples:
        if offsets is None:
            return Examples(X, y, None, None)
        return Examples(split(X, offsets), split(y, offsets), None, None)


def split(array: Any, offsets: np.ndarray) -> Any:
    """Return the part of each sequence."""
    return None if array is None else [array[a:b] for a, b in pairwise(offsets)]


def read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return X, y and offsets of an .npz file; only X must be there."""
    check_file(path)
    try:
        arrays = read_npz(path, ("X", "offsets", "y"))
    except FileError as error:
        raise ValueError(f"{path} {error}.") from error
    if "X" not in arrays:
        raise ValueError(f"{path} lacks ['X']; it has {sorted(arrays)}.")
    X, offsets, y = arrays["X"], arrays.get("offsets"), arrays.get("y")
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(
            f"{path}: X must be numbers of shape (positions, features), but is "
            f"{X.dtype} of shape {X.shape}."
        )
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(f"{path}: X[{row}, {column}] is {X[row, column]}, no number.")
    if offsets is not None:
        _check_offsets(path, offsets, len(X))
    if y is not None and y.ndim != 1:
        raise ValueError(f"{path}: y must be a row of labels, not of shape {y.shape}.")
    if y is not None and len(y) != len(X):
        raise ValueError(f"{path}: X has {len(X)} positions and y has {len(y)}.")
    return X, y, offsets


def _check_offsets(path: Path, offsets: np.ndarray, n: int) -> None:
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise ValueError(f"{path}: offsets must be a row of at least 2 whole numbers.")
    if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError(f"{path}: offsets must rise from 0 to {n}, X's length.")


def _parse(text: str) -> tuple[Any, Any]:
    from sklearn.datasets import load_svmlight_file

    load: Any = load_svmlight_file
    return load(io.BytesIO(text.encode()), zero_based=True)


def _content(line: str) -> str:
    return line.partition("#")[0].strip()


def _refuse_line(path: Path, text: str) -> None:
    """Raise for the first line that is none of svmlight."""
    for number, line in enumerate(text.split("\n"), 1):
        try:
            _parse(line)
        except OverflowError as error:
            raise ValueError(
                f"{path}, line {number}: {bad(line)} has a number of a column that is "
                "too large; number the columns from 0 or 1, without gaps."
            ) from error
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: {bad(line)} is not a class and pairs such as "
                "3:0.5, with rising columns."
            ) from error
