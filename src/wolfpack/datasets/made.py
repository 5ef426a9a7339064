"""Data made up from a seed: piecewise constant signals, and labelled chains."""

from __future__ import annotations

import itertools
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np


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
    >>> from wolfpack.datasets import load_dates
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


def make_piecewise(
    n: int = 100,
    d: int = 10,
    n_segments: int = 10,
    noise: float = 0.1,
    rng: Any = 0,
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
    rng : int, Generator, RandomState or None
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
    check_int("n", n, 1)
    check_int("d", d, 1)
    check_int("n_segments", n_segments, 1, n)
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise must be a finite number >= 0; got {noise!r}.")
    rng = np.random.default_rng(rng)
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

    Labels follow a Markov chain: each has five usual successors, one of which follows
    it nine times out of ten. A position has one feature out of each of `n_active`
    groups, as text has one word, one tag and one shape: that of its label, or, with
    probability `noise`, any of the group.

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
    check_int("n_active", n_active, 1, n_features)
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


def _draw_labels(lengths: np.ndarray, n_labels: int, rng: Any) -> np.ndarray:
    """Draw all chains side by side; return their labels, one chain after the other."""
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
    check_int("n", n, 1)
    check_int("length[0]", length[0], 1)
    check_int("length[1]", length[1], length[0])
    check_int("n_labels", n_labels, 1)
    check_int("n_features", n_features, 1)


def check_int(name: str, value: int, least: int, most: int | None = None) -> None:
    """Refuse a value that is not a whole number from `least` to `most`."""
    if not isinstance(value, Integral) or value < least or (most and value > most):
        bounds = f">= {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {bounds}; got {value!r}.")
