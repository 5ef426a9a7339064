"""Chain structural SVM, the paper's section C, through its dual.

    min over w   lambda/2 |w|^2 + sum_i q_i max over y of [loss_i(y) - <w, psi_i(y)>]

for sequences x_i with labels y_i and shares q_i (1/n without sample weights), where
psi_i(y) = phi(x_i, y_i) - phi(x_i, y), loss_i adds up what wrong positions cost (the
Hamming distance by default, divided by the length if asked for), and phi counts, per
label, the features of the positions that carry it, a bias, the first and the last
position, and the transitions.
A block is a distribution over the labellings of one sequence, an atom a labelling, and
v = w.
"""

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from wolfpack.checks.inputs import regularisation, shares
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.specialise import Loops, library, specialise
from wolfpack.problem import Problem
from wolfpack.problems import (
    _chain_kernels,
    _chain_parts,
    _chain_step,
    _features,
    _viterbi,
)
from wolfpack.problems.chain_data import (
    Chains,
    ChainWeights,
    Work,
    choose_lanes,
    layout,
    make_work,
    pack_weights,
    pad_losses,
    unpack_weights,
)
from wolfpack.problems.max_marginals import to_matrix
from wolfpack.problems.sequences import is_sparse, pack_features, pack_labels
from wolfpack.theory.constants import Constants, multiclass_constants

__all__ = [
    "ChainWeights",
    "Chains",
    "Work",
    "chain_ssvm",
    "hinge_losses",
    "kernels_for",
    "layout",
    "make_problem",
    "make_work",
    "pack_weights",
    "unpack_weights",
]

# Inner products of positions make steps faster; more than this take too much memory.
MAX_GRAM = 2**23
MANY_GRAM = 2**20  # from here on they are kept in fewer bytes where that is exact
# If v has more rows than this, a step lists the rows that it touches (`touched`).
MAX_DENSE_ROWS = 4096
# Sequences that are this long on average, position by position, are kept as parts.
LONG = 40
PARTS = ("parts_of", "add_parts", "score_parts", "contains_parts")


def chain_ssvm(
    X: Sequence[Any],
    y: Sequence[np.ndarray],
    alpha: float,
    *,
    n_labels: int | None = None,
    normalize: bool | Literal["auto"] = True,
    loss: Any = None,
    sample_weight: np.ndarray | None = None,
    keeps: Literal["auto", "atoms", "parts"] = "auto",
) -> Problem:
    """Return the dual of a chain structural SVM.

    Parameters
    ----------
    X : list of (T_i, p) arrays or sparse matrices
        The features of each position of each sequence.
    y : list of (T_i,) integer arrays
        Labels 0 ... n_labels - 1.
    alpha : float
        The regularisation, lambda in the paper; C = 1 / (alpha n).
    n_labels : int, optional
        Default: the largest label + 1.
    normalize : bool or "auto"
        Whether the loss is divided by the length of the sequence. "auto": not where X
        is sparse; see `ChainSSVM`.
    loss : (n_labels, n_labels) array, optional
        What a position costs, by its right label (row) and the given one (column).
        Default: 1 for every wrong label, the Hamming loss.
    sample_weight : array of n, optional
        A weight of 2 counts as the sequence twice; only ratios matter.
    keeps : "auto", "atoms" or "parts"
        How x is kept: as labellings with weights, of which long hard sequences gather
        more with every pass, or as weights of transitions. "auto": parts for sequences
        of LONG positions or more.

    Returns
    -------
    Problem
        `Result.solution` is a `ChainWeights`; the primal objective is minus
        `Result.lower_bound`, the dual one minus `Result.objective`.

    Examples
    --------
    >>> import numpy as np, wolfpack
    >>> X, y = [np.eye(2), np.eye(2)[::-1]], [np.array([0, 1]), np.array([1, 0])]
    >>> problem = wolfpack.chain_ssvm(X, y, alpha=0.1)
    >>> wolfpack.solve(problem, rng=0).status.name
    'CONVERGED'
    """
    alpha = regularisation(alpha)
    packed = pack_features(X)
    labels = pack_labels(y, packed.begin)
    if n_labels is None:
        n_labels = int(labels.max()) + 1
    if labels.min() < 0 or labels.max() >= n_labels:
        raise ValueError(
            f"labels must lie in 0 ... {n_labels - 1}, but reach from {labels.min()} "
            f"to {labels.max()}."
        )
    lengths = np.diff(packed.begin)
    share = shares(sample_weight, len(lengths))
    if normalize == "auto":
        normalize = not is_sparse(X)
    cost = 1.0 / lengths if normalize else np.ones(len(lengths))
    data = layout(packed, n_labels)
    losses = pad_losses(loss, n_labels, data.width)
    worst = lengths
    if losses.size:
        worst = np.add.reduceat(losses.max(axis=1)[labels], packed.begin[:-1])
    data = data._replace(
        labels=labels.astype(np.uint8 if n_labels <= 256 else np.int32),
        share=share,
        cost=cost.astype(np.float32),
        losses=losses,
        alpha=alpha,
    )
    n_rows, scale = data.first_transition + n_labels, float(share @ (cost * worst))
    store = choose_store(keeps, data)
    return make_problem(data, n_rows, packed.n_features, scale, store)


def make_problem(
    data: Chains, n_rows: int, n_features: int, scale: float, keeps: str = "atoms"
) -> Problem:
    """Return the problem of packed sequences, with a v of `n_rows` rows."""
    packed, kernels = data, kernels_for(data)
    n_tokens = np.diff(data.begin)
    short = (n_tokens * n_tokens).sum() <= MAX_GRAM
    if short:  # the lower triangle of each matrix, row by row
        pairs = n_tokens * (n_tokens + 1) // 2
        gram_begin = np.concatenate([[0], np.cumsum(pairs)])
        gram = np.zeros(gram_begin[-1], _gram_kind(data, gram_begin[-1]))
        data = data._replace(gram=gram, gram_begin=gram_begin)
        products: Any = library(cast(Any, _features))
        products.gram_matrices(data, gram_begin, data.gram)
    sparse = is_large(data)
    per_block = np.diff(data.feature_begin[data.begin])
    return Problem(
        data=data,
        shared=zeros((n_rows, data.width), np.float32),
        start=data.labels,
        offsets=data.begin,
        atom_room=-(-int(n_tokens.max()) // 8) * 8,  # labels are read eight at a time
        keeps=keeps,
        **kernels.named("oracle", "score", "add", "slope", "value", "contains"),
        **kernels.named("rate", "spread", *(PARTS if keeps == "parts" else ())),
        prepare=kernels.prepare_parts if keeps == "parts" else kernels.prepare,
        curvature=kernels.curvature if short else None,
        touched=kernels.touched if sparse else None,
        max_rows=int(per_block.max()) + data.n_labels,
        work=lambda: make_work(data),
        ridge=data.alpha,
        scale=scale,
        constants=constants,
        finish=lambda shared: unpack_weights(shared, n_features, data.n_labels),
        name="chain_ssvm",
    ).made_by(make_problem, packed, n_rows, n_features, scale, keeps, ours=True)


def choose_store(keeps: str, data: Chains) -> str:
    """Return how x is to be kept."""
    if keeps not in ("auto", "atoms", "parts"):
        raise ValueError(f"keeps must be 'auto', 'atoms' or 'parts', not {keeps!r}.")
    lengths = np.diff(data.begin)
    fits = int(lengths.max()) << 2 * label_bits(data.n_labels) < 2**31
    if keeps == "parts" and not fits:
        raise ValueError(
            f"keeps='parts' numbers the transitions of a sequence, and {lengths.max()} "
            f"positions of {data.n_labels} labels have more than 2^31; use 'atoms'."
        )
    if keeps != "auto":
        return keeps
    is_long = float(np.square(lengths).sum() / lengths.sum()) >= LONG
    return "parts" if is_long and fits else "atoms"


def label_bits(n_labels: int) -> int:
    """Return how many bits a label takes in the number of a part."""
    return max(int(n_labels - 1).bit_length(), 1)


def _gram_kind(data: Chains, size: int) -> type:
    """Return the type of inner products: float32, or a byte where that saves much.

    A byte is exact where all features are 1. Loops are compiled for each type, so few
    inner products are always float32.
    """
    if data.values.size or size < MANY_GRAM:
        return np.float32
    most = int(np.diff(data.feature_begin).max())
    return np.uint8 if most <= 255 else np.float32


def hinge_losses(problem: Problem, shared: np.ndarray) -> np.ndarray:
    """Return the structured hinge loss of each sequence, with the weights `shared`."""
    data, out = problem.data, np.zeros(problem.n_blocks)
    atom = np.zeros(problem.atom_size, problem.start.dtype)
    kernels_for(data).hinges(data, shared, out, atom, problem.work())
    return out


def constants(problem: Problem) -> Constants | None:
    """Return the exact B and mu of chains of length one, which are a multiclass SVM."""
    data = problem.data
    if (np.diff(data.begin) > 1).any():
        return None
    if data.losses.size:
        return None
    how = {"n_classes": data.n_labels, "sample_weight": data.share}
    return multiclass_constants(to_matrix(data), data.labels, data.alpha, **how)


def is_large(data: Chains) -> bool:
    """Return whether v is so large that a step should touch its own rows only."""
    return data.first_transition > MAX_DENSE_ROWS


def kernels_for(data: Chains) -> Loops:
    """Return the functions of a problem, for its number of labels and its features.

    Threads write into a large v directly. An oracle that read the transitions there for
    each position would fetch them from the caches of other cores each time, so it
    copies them first (COPIED).
    """
    few = data.n_labels <= 256
    return specialise(
        [_viterbi, _chain_kernels, _chain_step, _chain_parts],
        {
            "LANES": choose_lanes(data.n_labels),
            "WIDTH": data.width if data.width <= 64 else 0,
            "BITS": label_bits(data.n_labels),
            "COPIED": is_large(data),
            "COSTS": data.losses.size > 0,
            "PER_WORD": 8 if few else 2,
            "LABEL_BITS": np.uint64(2**8 - 1 if few else 2**32 - 1),
        },
    )
