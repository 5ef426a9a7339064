"""The loaders: from files, or made on the spot; see `wolfpack.datasets`."""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_lowercase, digits
from typing import Any

import numpy as np

from wolfpack.datasets import files
from wolfpack.datasets.files import Folder
from wolfpack.datasets.made import Sequences, check_int


def load_ocr(folds: Iterable[int] | None = None, data_home: Folder = None) -> Sequences:
    """Load 6877 handwritten words (16 x 8 pixels a letter), the paper's data.

    Parameters
    ----------
    folds : iterable of int, optional
        Folds to keep, out of 0..9; all by default. The literature trains on ``[0]``
        (626 words) or on ``range(1, 10)`` (6251 words).
    data_home : path, optional
        Folder that holds ``ocr/letters.npz`` or the public ``ocr/letter.data.gz``,
        looked into first.

    Returns
    -------
    Sequences
        With `X` of (T_i, 128) uint8 arrays of 0/1 pixels.

    Examples
    --------
    >>> words = load_ocr(folds=[0])  # doctest: +SKIP
    >>> "".join(words.label_names[k] for k in words.y[0])  # doctest: +SKIP
    'ommanding'
    """
    wanted = [*range(10)] if folds is None else [*folds]
    if not wanted or not {*wanted} <= {*range(10)}:
        raise ValueError(f"folds must be numbers out of 0..9; got {wanted}.")
    pixels, labels, offsets, fold = files.read_ocr(data_home)
    kept = np.flatnonzero(np.isin(fold, wanted))
    # Copies, so that a few words do not keep all 52152 letters alive.
    words = [slice(offsets[i], offsets[i + 1]) for i in kept]
    X, y = [pixels[s].copy() for s in words], [labels[s].copy() for s in words]
    return Sequences(X, y, [*ascii_lowercase], fold[kept], (16, 8), "ocr")


def load_dates(
    n_train: int = 1000, n_test: int = 250, rng: Any = 0
) -> tuple[Sequences, Sequences]:
    """Compose handwritten dates YYYYMMDD of scikit-learn's digit images.

    Dates are uniform over 1900-01-01 .. 2099-12-31. The first 70 % of each digit's
    images train and the others test, whatever the seed: no image is in both parts.

    Parameters
    ----------
    n_train, n_test : int
        Number of dates.
    rng : int, Generator, RandomState or None
        Seed; the same one gives the same dates.

    Returns
    -------
    train, test : Sequences
        With `X` of (8, 64) float32 arrays in [0, 1] and `y` of eight digits.

    Examples
    --------
    >>> train, test = load_dates(n_train=2, n_test=1)
    >>> "".join(map(str, train.y[0]))
    '20700215'
    """
    from sklearn.datasets import load_digits

    check_int("n_train", n_train, 1)
    check_int("n_test", n_test, 1)
    rng = np.random.default_rng(rng)
    images, target = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    of_digit = [np.flatnonzero(target == digit) for digit in range(10)]
    split = [np.split(members, [round(0.7 * members.size)]) for members in of_digit]
    parts = []
    for fold, n in enumerate((n_train, n_test)):
        y = _draw_dates(n, rng)
        pools = [members[fold] for members in split]
        size = np.array([pool.size for pool in pools])
        first = np.cumsum(size) - size
        X = images[np.concatenate(pools)[first[y] + rng.integers(size[y])]]
        folds = np.full(n, fold)
        parts.append(Sequences([*X], [*y], [*digits], folds, (8, 8), "dates"))
    return parts[0], parts[1]


def load_conll2000(part: str = "train", data_home: Folder = None) -> Sequences:
    """Load the CoNLL-2000 chunking sentences with sparse window features.

    A token is described by the lower-cased words and part-of-speech tags at offsets
    -2..2, their bigrams (-1, 0) and (0, 1), the tag trigram (-1, 0, 1), the word's
    shape, and its first and last three characters, as far as the training part has
    that feature at least twice: p > 100,000.

    Parameters
    ----------
    part : {"train", "test"}
        8936 or 2012 sentences. Both need the training file, for the dictionary.
    data_home : path, optional
        Folder that holds ``conll2000/{train,test}.txt.gz``, looked into first.

    Returns
    -------
    Sequences
        With `X` of (T_i, p) float32 CSR matrices. The 22 chunk tags of the training
        part come first; a tag only seen in the test part follows them.

    Examples
    --------
    >>> len(load_conll2000("test").X)  # doctest: +SKIP
    2012
    """
    if part not in files.CONLL_FILES:
        raise ValueError(f"part must be 'train' or 'test'; got {part!r}.")
    train = files.read(files.CONLL_FILES["train"], data_home, files.parse_conll)
    text = train
    if part == "test":
        text = files.read(files.CONLL_FILES[part], data_home, files.parse_conll)
    names = sorted({*train.chunks})
    names += sorted({*text.chunks} - {*names})
    y = np.split(files.encode(names, text.chunks), np.cumsum(text.lengths)[:-1])
    folds = np.full(len(y), int(part == "test"))
    X = files.window_features(train, text)
    return Sequences(X, y, names, folds, None, "conll2000")


def load_acgh(data_home: Folder = None) -> np.ndarray:
    """Load the array CGH log-ratios of 43 bladder tumours at 2215 probes.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``acgh/acgh_bladder_2215x43.csv.gz``, looked into first.

    Returns
    -------
    (2215, 43) float64 array, one row per probe along the genome

    Examples
    --------
    >>> load_acgh().shape  # doctest: +SKIP
    (2215, 43)
    """
    return files.read(files.ACGH_FILE, data_home, files.parse_acgh)


def available() -> list[dict[str, str]]:
    """List the data sets: their name, task, size and whereabouts.

    Returns
    -------
    list of dict
        With keys `name`, `task`, `size` and `where`: the file that would be read, or
        how to get it. Nothing is downloaded.

    Examples
    --------
    >>> [row["name"] for row in available()]
    ['dates', 'piecewise', 'ocr', 'conll2000', 'acgh']
    """
    missing = "not found: set WOLFPACK_DATA to a folder that holds "
    ocr = next(filter(None, map(files.find, files.OCR_FILES)), None)
    conll, acgh = files.find(files.CONLL_FILES["train"]), files.find(files.ACGH_FILE)
    rows = [
        (
            "dates",
            "chain labelling",
            "any number of 8 digits, 64 pixels, 10 labels",
            "composed of scikit-learn's digits",
        ),
        ("piecewise", "group fused lasso", "any", "generated"),
        (
            "ocr",
            "chain labelling",
            "6877 words, 128 pixels, 26 labels",
            ocr or f"downloaded on first use from {files.OCR_URL}",
        ),
        (
            "conll2000",
            "chain labelling",
            "8936 + 2012 sentences, 22 labels, sparse",
            conll or missing + " and ".join(files.CONLL_FILES.values()),
        ),
        ("acgh", "group fused lasso", "2215 x 43", acgh or missing + files.ACGH_FILE),
    ]
    keys = ("name", "task", "size", "where")
    return [dict(zip(keys, map(str, row), strict=True)) for row in rows]


def _draw_dates(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n dates, uniform over two centuries, as an (n, 8) array of digits."""
    first, end = np.datetime64("1900-01-01"), np.datetime64("2100-01-01")
    days = first + rng.integers((end - first).astype(int), size=n)
    text = "".join(days.astype(str).tolist()).replace("-", "")
    return np.array([*text], dtype=np.int64).reshape(n, 8)
