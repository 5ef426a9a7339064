"""The files behind `wolfpack.datasets`: found, fetched, read and checked."""

from __future__ import annotations

import gzip
import logging
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, TypeVar
from zipfile import BadZipFile

import numpy as np

from wolfpack.files.npz import write_npz
from wolfpack.kernels.cache import user_cache

OCR_URL = "https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
OCR_FILES = ("ocr/letters.npz", "ocr/letter.data.gz")
CONLL_FILES = {"train": "conll2000/train.txt.gz", "test": "conll2000/test.txt.gz"}
ACGH_FILE = "acgh/acgh_bladder_2215x43.csv.gz"

Folder = str | os.PathLike[str] | None
_T = TypeVar("_T")
_UNREADABLE = (OSError, EOFError, ValueError, LookupError, BadZipFile, zlib.error)


class DatasetError(RuntimeError):
    """A data set is missing, unreachable or not what it should be."""


class Text(NamedTuple):
    """The columns of a CoNLL file and the number of tokens of each sentence."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    chunks: tuple[str, ...]
    lengths: np.ndarray


def find(name: str, data_home: Folder = None) -> Path | None:
    """Return the file of that name in the first folder that has it, or None."""
    paths = (folder / name for folder in _places(data_home).values())
    return next((path for path in paths if path.is_file()), None)


def read(name: str, data_home: Folder, parse: Callable[[Path], _T]) -> _T:
    """Find a file and parse it, or say what is wrong and what to do."""
    path = find(name, data_home)
    if path is None:
        raise DatasetError(
            f"{name} was not found in {_searched(data_home)}: put it there, "
            "or set WOLFPACK_DATA to the folder that holds it."
        )
    return _parse(path, parse)


def read_ocr(data_home: Folder) -> tuple[np.ndarray, ...]:
    """Return the pixels, labels, offsets and folds of the OCR words."""
    for name in OCR_FILES:
        path = find(name, data_home)
        if path is not None:
            return _parse(path, parse_ocr)
    return _download_ocr(data_home)


def parse_ocr(path: Path) -> tuple[np.ndarray, ...]:
    """Parse and check either form of the OCR file: letters.npz, letter.data.gz."""
    if path.suffix == ".gz":
        pixels, labels, offsets, folds = _parse_letters(path)
    else:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            pixels = np.unpackbits(file["pixels"], axis=1)
            labels, offsets, folds = (
                file[key].astype(np.int64) for key in ("labels", "offsets", "folds")
            )
    expect(pixels.shape == (52152, 128) and pixels.max() == 1, "52152 x 128 bits")
    expect(labels.shape == (52152,), "52152 labels")
    expect(np.array_equal(np.unique(labels), np.arange(26)), "26 different labels")
    expect(offsets.shape == (6878,) and folds.shape == (6877,), "6877 words")
    expect(offsets[0] == 0 and offsets[-1] == 52152, "words that cover the letters")
    expect(bool((np.diff(offsets) > 0).all()), "words of at least one letter")
    expect(np.array_equal(np.unique(folds), np.arange(10)), "folds 0..9")
    return pixels, labels, offsets, folds


def parse_conll(path: Path) -> Text:
    """Parse lines of word, tag and chunk; a blank line ends a sentence."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = [s.splitlines() for s in file.read().strip().split("\n\n")]
    rows = [line.split() for sentence in sentences for line in sentence]
    expect(all(len(row) == 3 for row in rows), "three columns in every line")
    words, tags, chunks = (tuple(map(intern, c)) for c in zip(*rows, strict=True))
    return Text(words, tags, chunks, np.array([len(s) for s in sentences]))


def parse_acgh(path: Path) -> np.ndarray:
    """Parse and check the 2215 x 43 table."""
    table = np.loadtxt(path, delimiter=",")
    expect(table.shape == (2215, 43), "2215 rows of 43 numbers")
    expect(bool(np.isfinite(table).all()), "finite numbers")
    return table


def expect(holds: bool, what: str) -> None:
    """Raise ValueError, naming what was expected, unless it holds."""
    if not holds:
        raise ValueError(f"{what} expected")


def encode(names: Sequence[str], values: Sequence[str]) -> np.ndarray:
    """Return the position of each value in `names`, -1 where it is not there."""
    number = {name: k for k, name in enumerate(names)}
    return np.array([number.get(value, -1) for value in values], dtype=np.int64)


def window_features(train: Text, text: Text, min_count: int = 2) -> list[Any]:
    """Return one CSR matrix per sentence; columns come from the training part."""
    from scipy.sparse import csr_matrix

    views = _views(train)
    vocabulary = {view: sorted({*values}) for view, values in views.items()}
    known_keys = _keys(vocabulary, views, train.lengths)
    text_keys = _keys(vocabulary, _views(text), text.lengths)
    columns, p = [], 0
    for known, seen in zip(known_keys, text_keys, strict=True):
        kept, count = np.unique(known, return_counts=True)
        kept = kept[count >= min_count]
        place = np.searchsorted(kept, seen)
        hit = kept.take(place, mode="clip") == seen
        columns.append(np.where(hit, place + p, -1).astype(np.int32))
        p += kept.size
    # A template owns a range of columns, so the rows come out sorted.
    table = np.column_stack(columns)
    present = table >= 0
    indices = table[present]
    indptr = np.append(0, np.cumsum(present.sum(axis=1))).astype(np.int32)
    ones = np.ones(indices.size, dtype=np.float32)
    matrices, begin = [], 0
    for length in text.lengths:
        rows = indptr[begin : begin + length + 1]
        part = slice(rows[0], rows[-1])
        arrays = (ones[part], indices[part], rows - rows[0])
        matrices.append(csr_matrix(arrays, shape=(length, p)))
        begin += length
    return matrices


def _keys(
    vocabulary: dict[str, list[str]], views: dict[str, list[str]], lengths: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield, template by template, one integer per token that names its feature."""
    # 0 is outside the sentence, 1 is not in the training part.
    code = {view: 2 + encode(vocabulary[view], views[view]) for view in views}
    sentence = np.repeat(np.arange(lengths.size), lengths)
    position = np.arange(sentence.size)

    def window(view: str, *offsets: int) -> np.ndarray:
        key = np.zeros(sentence.size, dtype=np.int64)
        for offset in offsets:
            there = np.clip(position + offset, 0, sentence.size - 1)
            inside = (there == position + offset) & (sentence[there] == sentence)
            key *= len(vocabulary[view]) + 2
            key += np.where(inside, code[view][there], 0)
        return key

    for view in ("word", "tag"):
        for offset in range(-2, 3):
            yield window(view, offset)
        yield window(view, -1, 0)
        yield window(view, 0, 1)
    yield window("tag", -1, 0, 1)
    for view in ("shape", "prefix", "suffix"):
        yield window(view, 0)


def _views(text: Text) -> dict[str, list[str]]:
    lower = [word.lower() for word in text.words]
    return {
        "word": lower,
        "tag": [*text.tags],
        "shape": [word_shape(word) for word in text.words],
        "prefix": [word[:3] for word in lower],
        "suffix": [word[-3:] for word in lower],
    }


def word_shape(word: str) -> str:
    """Shorten runs of letters and digits: ``McDonald-1990`` is ``XxXx-0``."""
    for run, letter in (("[a-z]+", "x"), ("[A-Z]+", "X"), ("[0-9]+", "0")):
        word = re.sub(run, letter, word)
    return word


def _parse_letters(path: Path) -> tuple[np.ndarray, ...]:
    """Parse lines of id, letter, next_id, word_id, position, fold, 128 pixels."""
    with gzip.open(path) as file:
        rows = [line.split(b"\t", 6) for line in file.read().splitlines()]
    rows.sort(key=lambda row: int(row[0]))
    ids, following, folds = (np.array([int(row[k]) for row in rows]) for k in (0, 2, 5))
    last = following == -1
    expect(bool((last[:-1] | (following[:-1] == ids[1:])).all()), "letters in order")
    digits = b"".join(row[6] for row in rows).replace(b"\t", b"")
    pixels = np.frombuffer(digits, dtype=np.uint8).reshape(len(rows), -1) - ord("0")
    labels = np.array([ord(row[1]) - ord("a") for row in rows])
    offsets = np.append(0, np.flatnonzero(last) + 1)
    return pixels, labels, offsets, folds[offsets[:-1]]


def _download_ocr(data_home: Folder) -> tuple[np.ndarray, ...]:
    import pooch

    target = user_cache() / OCR_FILES[0]
    logging.getLogger("wolfpack").info("fetching %s into %s", OCR_URL, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            raw = Path(folder, "letter.data.gz")
            # Not streamed: pooch leaves the connection of a failed stream open.
            pooch.HTTPDownloader(stream=False)(OCR_URL, str(raw), None)
            arrays = parse_ocr(raw)
            pixels, labels, offsets, folds = arrays
            kept = {
                "pixels": np.packbits(pixels, axis=1),
                "labels": labels.astype(np.uint8),
                "offsets": offsets.astype(np.int32),
                "folds": folds.astype(np.uint8),
            }
            write_npz(target, kept, packed=True)
    except _UNREADABLE as error:
        raise DatasetError(
            f"{' or '.join(OCR_FILES)} was not found in {_searched(data_home)}, and "
            f"fetching {OCR_URL} failed ({_reason(error)}): try again with a network "
            "connection, or put the file in a folder and set WOLFPACK_DATA to it."
        ) from None  # the errors of four libraries below it say no more
    return arrays


def _places(data_home: Folder) -> dict[str, Path]:
    places = {"data_home": data_home, "WOLFPACK_DATA": os.environ.get("WOLFPACK_DATA")}
    named = {name: Path(folder) for name, folder in places.items() if folder}
    return named | {"the user cache": user_cache()}


def _searched(data_home: Folder) -> str:
    return ", ".join(f"{name} ({path})" for name, path in _places(data_home).items())


def _parse(path: Path, parse: Callable[[Path], _T]) -> _T:
    try:
        return parse(path)
    except _UNREADABLE as error:
        raise DatasetError(
            f"{path} cannot be used ({_reason(error)}): remove it or put a good copy "
            "in its place."
        ) from None


def _reason(error: Exception) -> str:
    # Sentences of `expect` are short. Other errors say a paragraph, or nothing.
    text = str(error)
    return text if text.endswith("expected") else type(error).__name__
