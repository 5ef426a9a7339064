"""Data sets: OCR words, dates, text chunks, array CGH, made-up signals and chains.

Dates, signals and chains need no file. The other sets are not shipped: a loader looks
in ``data_home``, in the folder named by the environment variable ``WOLFPACK_DATA``
and in the user cache; the OCR words, the paper's data, can also be downloaded.
A file that is missing or damaged raises `DatasetError`, which says what to do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from numbers import Integral
from string import ascii_lowercase, digits
from typing import Any, NamedTuple

import numpy as np

from wolfpack import _datafiles as files
from wolfpack._datafiles import DatasetError, Folder

__all__ = [
    "DatasetError",
    "Sequences",
    "available",
    "load_acgh",
    "load_conll2000",
    "load_dates",
    "load_ocr",
    "make_chains",
    "make_piecewise",
    "make_speech",
]


class Sequences(NamedTuple):
    """Labelled sequences, in the shape the chain estimators take.

    Attributes
    ----------
    X : list of (T_i, p) arrays or CSR matrices
    y : list of (T_i,) int arrays, positions in `label_names`
    label_names : list of str
    folds : (n,) int array, the fold of each sequence
    image_shape : (rows, columns) of a row of `X` drawn as an image, or None
    name : str

    Examples
    --------
    >>> train, test = load_dates(n_train=3, n_test=1)
    >>> len(train.X), train.X[0].shape, train.image_shape
    (3, (8, 64), (8, 8))
    """

    X: list[Any]
    y: list[np.ndarray]
    label_names: list[str]
    folds: np.ndarray
    image_shape: tuple[int, int] | None
    name: str


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
    n_train: int = 1000, n_test: int = 250, random_state: Any = 0
) -> tuple[Sequences, Sequences]:
    """Compose handwritten dates YYYYMMDD of scikit-learn's digit images.

    Dates are uniform over 1900-01-01 .. 2099-12-31. The first 70 % of each digit's
    images train and the others test, whatever the seed: no image is in both parts.

    Parameters
    ----------
    n_train, n_test : int
        Number of dates.
    random_state : int, Generator, RandomState or None
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

    _check_int("n_train", n_train, 1)
    _check_int("n_test", n_test, 1)
    rng = np.random.default_rng(random_state)
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


def make_piecewise(
    n: int = 100,
    d: int = 10,
    n_segments: int = 10,
    noise: float = 0.1,
    random_state: Any = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a noisy piecewise constant signal, for the group fused lasso.

    Parameters
    ----------
    n, d : int
        Number of time points and of channels.
    n_segments : int
        Number of constant pieces, at most `n`; levels are standard normal.
    noise : float
        Standard deviation of the noise.
    random_state : int, Generator, RandomState or None
        Seed; the same one gives the same signal.

    Returns
    -------
    noisy, clean : (n, d) arrays
    change_points : (n_segments - 1,) array of the rows where a new piece begins

    Examples
    --------
    >>> noisy, clean, change_points = make_piecewise(n=6, d=1, n_segments=2, noise=0)
    >>> change_points, bool((noisy == clean).all())
    (array([5]), True)
    """
    _check_int("n", n, 1)
    _check_int("d", d, 1)
    _check_int("n_segments", n_segments, 1, n)
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise must be a finite number >= 0; got {noise!r}.")
    rng = np.random.default_rng(random_state)
    cuts = np.sort(rng.choice(np.arange(1, n), n_segments - 1, replace=False))
    levels = rng.standard_normal((n_segments, d))
    clean = levels[np.searchsorted(cuts, np.arange(n), side="right")]
    return clean + noise * rng.standard_normal((n, d)), clean, cuts


def make_chains(
    n: int = 1000,
    length: tuple[int, int] = (100, 300),
    n_labels: int = 50,
    n_features: int = 200,
    n_active: int = 10,
    noise: float = 0.7,
    rng: Any = 0,
) -> Sequences:
    """Make long labelled sequences with sparse binary features.

    Labels follow a Markov chain: from each there are five usual ways on, which it takes
    nine times of ten. A position has one feature out of each of `n_active` groups, as
    text has one word, one tag and one shape: that of its label, or any at all.

    Parameters
    ----------
    n : int
        Number of sequences.
    length : (int, int)
        Least and largest length, uniform between.
    n_labels, n_features, n_active : int
        Number of labels, of features, and of features that a position has.
    noise : float
        The share of the features that say nothing about the label.
    rng : int, Generator, RandomState or None
        Seed; the same one gives the same sequences.

    Returns
    -------
    Sequences
        With `X` of (T_i, n_features) float32 CSR matrices of ones.

    Examples
    --------
    >>> chains = make_chains(n=3, length=(5, 8))
    >>> [x.shape for x in chains.X], int(chains.X[0].sum())
    ([(8, 200), (7, 200), (7, 200)], 80)
    """
    from scipy.sparse import csr_matrix

    _check_sizes(n, length, n_labels, n_features)
    _check_int("n_active", n_active, 1, n_features)
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must lie in [0, 1]; got {noise!r}.")
    rng = np.random.default_rng(rng)
    lengths = rng.integers(length[0], length[1], size=n, endpoint=True)
    labels = _draw_labels(lengths, n_labels, rng)
    # A group owns a range of columns, so the rows come out sorted.
    edges = np.linspace(0, n_features, n_active + 1).astype(np.int32)
    usual = rng.integers(edges[:-1], edges[1:], (n_labels, n_active), dtype=np.int32)
    columns = usual[labels]
    for group in range(n_active):
        odd = np.flatnonzero(rng.random(labels.size, dtype=np.float32) < noise)
        own = edges[group : group + 2]
        columns[odd, group] = rng.integers(*own, size=odd.size, dtype=np.int32)
    ones = np.ones(columns.size, dtype=np.float32)
    begin = np.append(0, np.cumsum(lengths))
    X = []
    for first, last in itertools.pairwise(begin):
        own = slice(first * n_active, last * n_active)
        rows = np.arange(0, own.stop - own.start + 1, n_active, dtype=np.int32)
        arrays = (ones[own], columns[first:last].ravel(), rows)
        X.append(csr_matrix(arrays, shape=(last - first, n_features)))
    names = [str(label) for label in range(n_labels)]
    y = np.split(labels, begin[1:-1])
    return Sequences(X, y, names, np.zeros(n, dtype=np.int64), None, "chains")


def make_speech(
    n: int = 1000,
    length: tuple[int, int] = (100, 300),
    n_labels: int = 50,
    n_features: int = 39,
    noise: float = 2.0,
    rng: Any = 0,
) -> Sequences:
    """Make long labelled sequences with dense features.

    As phones and their spectra in recorded speech: labels as in `make_chains`, and at
    each position a normal vector around the centre of its label.

    Parameters
    ----------
    n : int
        Number of sequences.
    length : (int, int)
        Least and largest length, uniform between.
    n_labels, n_features : int
        Number of labels, and of features; 39 are usual for spectra.
    noise : float
        The standard deviation around the centres; theirs is 1.
    rng : int, Generator, RandomState or None
        Seed; the same one gives the same sequences.

    Returns
    -------
    Sequences
        With `X` of (T_i, n_features) float32 arrays.

    Examples
    --------
    >>> speech = make_speech(n=3, length=(5, 8))
    >>> [x.shape for x in speech.X]
    [(8, 39), (7, 39), (7, 39)]
    """
    _check_sizes(n, length, n_labels, n_features)
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise must be finite and >= 0; got {noise!r}.")
    rng = np.random.default_rng(rng)
    lengths = rng.integers(length[0], length[1], size=n, endpoint=True)
    labels = _draw_labels(lengths, n_labels, rng)
    features = rng.standard_normal((labels.size, n_features), dtype=np.float32)
    features *= np.float32(noise)
    features += rng.standard_normal((n_labels, n_features), dtype=np.float32)[labels]
    ends = np.cumsum(lengths)[:-1]
    names = [str(label) for label in range(n_labels)]
    X, y = np.split(features, ends), np.split(labels, ends)
    return Sequences(X, y, names, np.zeros(n, dtype=np.int64), None, "speech")


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


def _draw_labels(lengths: np.ndarray, n_labels: int, rng: Any) -> np.ndarray:
    """Walk all chains at once; return their labels, one chain after the other."""
    ways = rng.integers(n_labels, size=(n_labels, 5))
    walks = np.empty((lengths.size, lengths.max()), dtype=np.int64)
    walks[:, 0] = rng.integers(n_labels, size=lengths.size)
    for k in range(1, walks.shape[1]):
        usual = ways[walks[:, k - 1], rng.integers(5, size=lengths.size)]
        any_other = rng.integers(n_labels, size=lengths.size)
        walks[:, k] = np.where(rng.random(lengths.size) < 0.9, usual, any_other)
    return walks[np.arange(walks.shape[1]) < lengths[:, None]]


def _check_sizes(
    n: int, length: tuple[int, int], n_labels: int, n_features: int
) -> None:
    _check_int("n", n, 1)
    _check_int("length[0]", length[0], 1)
    _check_int("length[1]", length[1], length[0])
    _check_int("n_labels", n_labels, 1)
    _check_int("n_features", n_features, 1)


def _check_int(name: str, value: int, least: int, most: int | None = None) -> None:
    if not isinstance(value, Integral) or value < least or (most and value > most):
        bounds = f">= {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {bounds}; got {value!r}.")
