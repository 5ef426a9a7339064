"""Multilabel SVM: a set of labels an example, labels that interact, Hamming loss.

    min over w   lambda/2 |w|^2 + sum_i q_i max over y of [|t - y| - <w, psi_i(y)>]

for examples x = x_i with sets of labels t = t_i, as zeros and ones, and shares q_i (1/n
without sample weights), where psi_i(y) = phi(x, t) - phi(x, y), and phi(x, y) has y_k x
for each label k and y_j y_k for each pair of labels that interact (an edge). A block is
a distribution over sets, an atom a set, and v = w.

Without edges this is a binary SVM a label, LinearSVC(loss="hinge") one-vs-rest.
"""

from collections import namedtuple
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from wolfpack.checks.inputs import regularisation, shares
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.specialise import specialise
from wolfpack.problem import Problem
from wolfpack.problems import _multilabel_kernels, _viterbi, chain, multiclass
from wolfpack.problems.label_sets import (
    MOST_LABELS,
    Scratch,
    Structure,
    all_pairs,
    make_scratch,
    make_structure,
    spanning_tree,
)
from wolfpack.problems.packed import Positions

# The examples as chains of length one, the right sets, and which sets there are.
_FIELDS = dict.fromkeys([*chain.Chains._fields, "truth", *Structure._fields])
Examples: Any = namedtuple("Examples", _FIELDS)
# `pairs` are the weights of edges; `marginals` and `edges` are s - x_(i).
Work: Any = namedtuple(
    "Work", [*Scratch._fields, "chain", "pairs", "marginals", "edges"]
)

LEAST_SCALE = 1e-3  # where all examples have the same set, and the loss would be 0


class LabelWeights(NamedTuple):
    """What a multilabel model has learnt."""

    labels: np.ndarray  # (n_labels, n_features)
    pairs: np.ndarray  # one an edge
    edges: np.ndarray  # (E, 2), the labels of each edge
    candidates: np.ndarray | None  # (C, n_labels), the sets that may be chosen


def multilabel_svm(
    X: Any,
    Y: Any,
    alpha: float,
    *,
    pairs: Literal["auto", "full", "tree"] | None = "auto",
    candidates: Literal["all", "observed"] = "all",
    sample_weight: Any = None,
    intercept: bool = False,
) -> Problem:
    """Return the dual of a support vector machine that predicts sets of labels.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, p)
        One example a row, kept as float32. Entries that are 0 cost nothing. There is no
        intercept; a column of ones in X is one, regularised like all weights.
    Y : array of shape (n, K)
        1 where the example has the label, else 0.
    alpha : float
        The regularisation, lambda in the paper; C = 1 / (alpha n).
    pairs : "auto", "full", "tree" or None
        Which pairs of labels have a weight: all of them, those of the tree with the
        largest mutual information, or none. "auto": all where they can be searched,
        with up to 16 labels or `candidates="observed"`, else the tree.
    candidates : "all" or "observed"
        Which sets there are: all, or those of the rows of Y. With "all", pairs="full"
        takes up to 16 labels, because it tries 2^K sets.
    sample_weight : array of n, optional
        A weight of 2 counts as the example twice; only ratios matter.
    intercept : bool
        Add a column of ones after those of X; its weights are regularised like all.

    Returns
    -------
    Problem
        `Result.solution` is a `LabelWeights`. The primal objective is minus
        `Result.lower_bound`, the dual one minus `Result.objective`. `tol` is relative
        to the hinge loss of the best constant answer: the sum over labels of 2 min(p,
        1 - p), where p is the share of examples with the label.

    Examples
    --------
    >>> import numpy as np, wolfpack
    >>> X, Y = np.array([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]]), [[1, 0], [0, 1], [1, 1]]
    >>> problem = wolfpack.multilabel_svm(X, Y, alpha=0.01)
    >>> weights = wolfpack.solve(problem, tol=1e-2, rng=0).solution
    >>> weights.labels.shape, weights.edges.tolist()
    ((2, 2), [[0, 1]])
    """
    alpha = regularisation(alpha)
    packed = multiclass.pack(X, intercept)
    truth = check_sets(Y, len(packed.begin) - 1)
    share = shares(sample_weight, len(truth), "row of X")
    edges, sets = _choose(truth, share, pairs, candidates)
    structure = make_structure(truth.shape[1], edges, sets)
    base = multiclass.layout(packed, truth.shape[1])._replace(
        share=share, alpha=alpha, gram=_squares(packed)
    )
    fields = base._asdict() | structure._asdict() | {"truth": truth}
    return make_problem(Examples(**fields), edges, sets)


def make_problem(data: Any, edges: np.ndarray, sets: np.ndarray | None) -> Problem:
    """Return the problem of packed examples."""
    data = Examples(*data)
    K, p, width = data.n_labels, data.first_transition, data.width
    pair_rows = -(-len(edges) // width)
    sparse, generic = chain.is_large(data), chain.kernels_for(data)
    constants = generic.named("LANES", "WIDTH")
    kernels = specialise([_viterbi, _multilabel_kernels], constants)

    def finish(shared):
        weights = np.array(shared[:p, :K].T, order="C")
        pairs = shared[p:].ravel()[: len(edges)].copy()
        return LabelWeights(weights, pairs, edges, sets)

    return Problem(
        data=data,
        shared=zeros((p + pair_rows, width), np.float32),
        start=data.truth.ravel(),
        offsets=np.arange(len(data.truth) + 1) * K,
        **kernels.named("oracle", "score", "add", "contains"),
        **kernels.named("prepare", "rate", "spread"),
        **generic.named("slope", "value"),
        curvature=kernels.curvature,
        touched=kernels.touched if sparse else None,
        max_rows=int(np.diff(data.feature_begin).max()) + pair_rows,
        work=lambda: _make_work(data, pair_rows),
        ridge=data.alpha,
        scale=max(_constant_loss(data.truth, data.share), LEAST_SCALE),
        finish=finish,
        name="multilabel_svm",
    ).made_by(make_problem, tuple(data), edges, sets, ours=True)


def _squares(packed: Positions) -> np.ndarray:
    """Return |x_i|^2 of the examples."""
    bounds = packed.feature_begin
    if not packed.values.size:
        return np.diff(bounds).astype(np.float32)
    found = np.empty(len(bounds) - 1, np.float32)
    for first in range(0, len(found), multiclass.ROWS):
        here = bounds[first : first + multiclass.ROWS + 1]
        squares = np.square(packed.values[here[0] : here[-1]])
        parts = squares, np.zeros(len(squares), np.int32), here - here[0]
        rows = sp.csr_matrix(parts, shape=(len(here) - 1, 1))
        found[first : first + len(here) - 1] = np.asarray(rows.sum(axis=1)).ravel()
    return found


def check_sets(Y: Any, n: int) -> np.ndarray:
    """Return Y as zeros and ones of shape (n, K)."""
    try:
        table = np.asarray(Y)
    except ValueError as error:
        raise ValueError("Y is ragged: its rows differ in length.") from error
    if table.ndim != 2 or len(table) != n or table.shape[1] < 1:
        raise ValueError(
            f"Y must have shape ({n}, K), a row of labels a row of X, but has "
            f"{table.shape}."
        )
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise ValueError(
            "Y must hold 1 where an example has a label, and else 0; "
            "sklearn.preprocessing.MultiLabelBinarizer makes such a table."
        )
    return np.ascontiguousarray(table, np.uint8)


def _choose(
    truth: np.ndarray, share: np.ndarray, pairs: Any, candidates: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the edges, and the sets that may be chosen if these are not all."""
    if not isinstance(candidates, str) or candidates not in ("all", "observed"):
        raise ValueError(
            f'candidates must be "all" or "observed"; given was {candidates!r}.'
        )
    observed = candidates == "observed"
    if isinstance(pairs, str) and pairs == "auto":
        pairs = "full" if observed or truth.shape[1] <= MOST_LABELS else "tree"
    sets = np.unique(truth.astype(np.int64), axis=0) if observed else None
    if pairs is None:
        return np.zeros((0, 2), np.int64), sets
    if isinstance(pairs, str) and pairs == "tree":
        return spanning_tree(truth, share), sets
    if isinstance(pairs, str) and pairs == "full":
        return all_pairs(truth, seen_only=observed), sets
    raise ValueError(
        f'pairs must be "auto", "full", "tree" or None; given was {pairs!r}.'
    )


def _constant_loss(truth: np.ndarray, share: np.ndarray) -> float:
    """Return the hinge loss of weights that give every example the most common set.

    With scores of 1 and -1 a label that is right costs nothing, a wrong one 2.
    """
    chance = share @ truth
    return 2.0 * float(np.minimum(chance, 1.0 - chance).sum())


def _make_work(data: Any, pair_rows: int) -> Any:
    width = data.width
    return Work(
        *make_scratch(data),
        chain=multiclass.make_work(data),
        pairs=np.zeros(len(data.first)),
        marginals=zeros(width, np.float32),
        edges=zeros(pair_rows * width, np.float32),
    )
