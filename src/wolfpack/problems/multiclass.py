"""Multiclass SVM of Crammer and Singer, the paper's Example 1, through its dual.

    min over w   lambda/2 |w|^2 + sum_i q_i max over k of [1{k != y} - <w_y - w_k, x>]

for examples x = x_i with classes y = y_i and shares q_i (1/n without sample weights). A
block is a distribution over the classes of one example, an atom a class, and v = w.

This is a chain of length one: no transitions, and no features but those of X. So the
record and the kernels are those of `problems.chain`. v has a row a feature and a column
a class: a step reads and writes the rows of the features that are not 0.
"""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp

from wolfpack.checks.inputs import (
    encode,
    join_labels,
    refuse_features,
    regularisation,
    shares,
)
from wolfpack.kernels.specialise import specialise
from wolfpack.problem import Problem
from wolfpack.problems import _multiclass_kernels, _viterbi, chain
from wolfpack.problems.packed import Positions
from wolfpack.problems.sequences import fill

# The most rows of X, and numbers of a dense X, that are packed at a time.
ROWS, NUMBERS = 4096, 2**18


def multiclass_svm(
    X: Any,
    y: Any,
    alpha: float,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    vectors: bool = False,
) -> Problem:
    """Return the dual of a multiclass support vector machine.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, p)
        One example a row, kept as float32. Entries that are 0 cost nothing.
    y : array of n
        The class of each example: numbers, strings, whatever can be sorted.
    alpha : float
        The regularisation, lambda in the paper; C = 1 / (alpha n).
    sample_weight : array of n, optional
        A weight of 2 counts as the example twice; only ratios matter.
    intercept : bool
        Add a column of ones after those of X; its weights are regularised like all.
    vectors : bool
        Whether a block is kept as K numbers, 8 n K bytes in all, and not as a few
        weighted classes. An atom is then K numbers, too, and `step="exact"` moves a
        block to its minimiser. Accelerated, with `sampling="gap"`, that took as many
        passes as "line" to a gap of 1e-2, 1 to 2 times fewer to 1e-3, and 1.4 to more
        than 15 times fewer to 1e-5, on dense and on made-up sparse data.

    Returns
    -------
    Problem
        `Result.solution` is w of shape (K, p), or (K, p + 1) with an intercept: row k
        belongs to `numpy.unique(y)[k]`, and an example to the class with the largest
        <w_k, x>. The primal objective is minus `Result.lower_bound`, the dual one minus
        `Result.objective`; at w = 0 the primal is 1, so `tol` is absolute.

    Notes
    -----
    In `Problem.data`, `labels` are the classes 0 ... K - 1, `share` is q, and X is in
    CSR form: `feature_begin`, `features` (columns, from `index_begin` on) and `values`
    (empty if all are 1).

    Examples
    --------
    >>> import numpy as np, wolfpack
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), ["a", "b", "c"]
    >>> problem = wolfpack.multiclass_svm(X, y, alpha=0.01)
    >>> w = wolfpack.solve(problem, tol=1e-2, rng=0).solution
    >>> np.unique(y)[np.argmax(X @ w.T, axis=1)].tolist()
    ['a', 'b', 'c']
    """
    alpha = regularisation(alpha)
    packed = pack(X, intercept)
    n = len(packed.begin) - 1
    codes, n_labels = _encode(y, n)
    data = layout(packed, n_labels)
    data = data._replace(
        labels=codes.astype(data.labels.dtype),
        share=shares(sample_weight, n, "row of X"),
        cost=np.ones(n, np.float32),
        alpha=alpha,
    )
    return make_problem(data, vectors)


def layout(packed: Positions, n_labels: int) -> chain.Chains:
    """Return examples as sequences of length one, with the features of X alone."""
    data, p = chain.layout(packed, n_labels), packed.n_features
    return data._replace(transitions=p * data.width, first_transition=p)


def make_problem(data: chain.Chains, vectors: bool) -> Problem:
    """Return the problem of packed examples."""
    p, n_labels = data.first_transition, data.n_labels
    problem = chain.make_problem(data, p, p, scale=1.0)
    problem = dataclasses.replace(
        problem,
        work=lambda: make_work(data),
        finish=lambda shared: np.ascontiguousarray(shared[:, :n_labels].T, np.float64),
        name="multiclass_svm",
    )
    if vectors:
        problem = _with_vectors(problem)
    return problem.made_by(make_problem, data, vectors, ours=True)


def make_work(data: Any) -> chain.Work:
    """Return scratch memory without tables of transitions: K^2 numbers a worker."""
    none = {"pairs": np.zeros(0, np.float32), "steps": np.zeros((0, 0), np.float32)}
    return chain.make_work(data)._replace(**none)


def _with_vectors(problem: Problem) -> Problem:
    """Return the same problem, with x_(i) as a vector."""
    constants = chain.kernels_for(problem.data).named("LANES", "WIDTH")
    kernels = specialise([_viterbi, _multiclass_kernels], constants)
    data = problem.data
    start = np.zeros((len(data.labels), data.n_labels))
    start[np.arange(len(start)), data.labels] = 1.0
    return dataclasses.replace(
        problem,
        start=start,
        offsets=None,
        keeps="vectors",
        **kernels.named("oracle", "score", "add", "contains", "prepare", "rate"),
        minimiser=kernels.minimiser if data.gram.size else None,
        finds_gap=True,
    )


def pack(X: Any, intercept: bool) -> Positions:
    """Return the rows of X as float32 without zeros, a copy; the intercept is last."""
    if not sp.issparse(X):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise ValueError("X is ragged: its rows differ in length.") from error
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must have shape (n >= 1, p >= 1), but has {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, but has dtype {X.dtype}.")
    n, n_ends = X.shape[0], int(intercept)
    if sp.issparse(X):
        X = X.tocsr()
    with np.errstate(over="ignore"):  # `refuse_features` says it in a sentence
        size = ROWS if sp.issparse(X) else min(ROWS, 1 + NUMBERS // X.shape[1])
        parts = (_to_sparse(X[first : first + size]) for first in range(0, n, size))
        packed = fill(np.arange(n + 1), [X], parts, n_ends)
    bounds = packed.feature_begin
    refuse_features(
        packed.values, lambda k: f"X[{np.searchsorted(bounds, k, 'right') - 1}]"
    )
    return packed._replace(n_features=packed.n_features + n_ends)


def _to_sparse(X: Any) -> Any:
    matrix = sp.csr_matrix(X, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _encode(y: Any, n: int) -> tuple[np.ndarray, int]:
    """Return y as numbers 0 ... K - 1, and K."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(
            f"y must have shape ({n},), one class a row of X, but has {labels.shape}."
        )
    classes, codes = encode(join_labels([y]))
    if len(classes) < 2:
        raise ValueError(f"y has one class only, {labels[0]!r}; it takes two or more.")
    return codes, len(classes)
