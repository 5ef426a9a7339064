"""B and mu of a problem: how large its blocks are, and how much they interfere.

With H the Hessian of f (section 2.2; here f is quadratic, so H is one matrix)

    B_i = sup over x_i in M_i of x_i' H_ii x_i,             B  = mean over blocks
    mu_ij = sup over x_i in M_i, x_j in M_j of x_i' H_ij x_j,  mu = mean over i != j

They are known exactly for the group fused lasso and for multiclass problems; for any
other quadratic problem see `sampled`.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

ROWS = 512  # of the Gram matrix are computed at a time, to save memory


class Constants(NamedTuple):
    """B and mu of a problem, and how they were found.

    Attributes
    ----------
    boundedness, incoherence : float
        B and mu in the paper, for `curvature_bound`.
    boundedness_interval, incoherence_interval : (float, float)
        Where B and mu lie; of no width where they are exact. Of sampled ones the lower
        ends are sure with probability `confidence` each, and certain where all blocks
        and pairs were visited; the upper ends need a search that missed no B_i.
    confidence : float
        That of the draw of blocks and pairs; 1.0 where B and mu are exact.
    per_block : array of n, or None
        B_i, where all are known.
    source : str
        "exact", "sampled", or the paper's example.

    Examples
    --------
    >>> from wolfpack.theory import fused_lasso_constants
    >>> fused_lasso_constants(n_rows=101, n_columns=3, alpha=0.5)[:2]
    (0.5, 0.005)
    """

    boundedness: float
    incoherence: float
    boundedness_interval: tuple[float, float]
    incoherence_interval: tuple[float, float]
    confidence: float = 1.0
    per_block: np.ndarray | None = None
    source: str = "exact"


def known(
    boundedness: float,
    incoherence: float,
    per_block: np.ndarray | None = None,
    source: str = "exact",
) -> Constants:
    """Return constants without an interval: nothing was drawn at random."""
    one, two = float(boundedness), float(incoherence)
    return Constants(one, two, (one, one), (two, two), 1.0, per_block, source)


def require(name: str, value: Any, low: float, *, open_end: bool = False) -> np.ndarray:
    """Return `value` as an array of finite numbers of at least (or above) `low`."""
    array = np.asarray(value, dtype=np.float64)
    if (
        not np.isfinite(array).all()
        or (array < low).any()
        or (open_end and (array == low).any())
    ):
        limit = f"above {low:g}" if open_end else f"at least {low:g}"
        raise ValueError(f"{name} must be finite and {limit}, but is {value!r}.")
    return array


def sizes(n_blocks: ArrayLike, batch_size: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return n and tau as arrays, if such batches exist."""
    n, tau = require("n_blocks", n_blocks, 1), require("batch_size", batch_size, 1)
    if (n % 1).any() or (tau % 1).any() or (tau > n).any():
        raise ValueError(
            "batch_size must be a whole number from 1 to n_blocks, but is "
            f"{batch_size!r} with n_blocks {n_blocks!r}."
        )
    return n, tau


def fused_lasso_constants(
    n_rows: int, n_columns: int, alpha: float, *, q: float = 2.0
) -> Constants:
    """Return the exact constants of a group fused lasso (Example 2).

    H_tt = 2 I and H_t,t+1 = -I, so that B_t = 2 r^2, and mu is r^2 for neighbours and 0
    for all other pairs, where r is the largest Euclidean norm in the ball
    |u|_p <= alpha, 1/p + 1/q = 1: alpha for q >= 2, else alpha d^(1/2 - 1/p). So the
    factor d of Example 2 is slack, unless q = 1.

    Parameters
    ----------
    n_rows, n_columns : int
        n and d: the shape of the signal; there are n - 1 blocks.
    alpha : float
        The price of a jump, lambda in the paper.
    q : float
        The norm of a jump.

    Examples
    --------
    >>> fused_lasso_constants(n_rows=11, n_columns=3, alpha=1.0)[:2]
    (2.0, 0.2)
    >>> fused_lasso_constants(n_rows=11, n_columns=3, alpha=1.0, q=1)[:2]
    (6.0, 0.6)
    """
    n_blocks = int(require("n_rows", n_rows, 2)) - 1
    d, radius = require("n_columns", n_columns, 1), require("alpha", alpha, 0)
    if not q >= 1:
        raise ValueError(f"q must be at least 1, but is {q!r}.")
    # r^2 = alpha^2 d^(1 - 2/p), and 1 - 2/p = 2/q - 1.
    square = float(radius**2 * d ** max(0.0, 2.0 / q - 1.0))
    coupled = 2.0 * (n_blocks - 1)  # ordered pairs of neighbours
    incoherence = square * coupled / max(1, n_blocks * (n_blocks - 1))
    return known(2.0 * square, incoherence, np.full(n_blocks, 2.0 * square))


def multiclass_constants(
    X: Any,
    y: Any,
    alpha: float,
    *,
    n_classes: int | None = None,
    sample_weight: Any = None,
) -> Constants:
    """Return the exact constants of a multiclass SVM (Example 1), for any data.

    With shares q_i (1/n without sample weights), B_i = 2 q_i^2 |x_i|^2 / alpha, and
    mu_ij is q_i q_j / alpha times

    - the larger of 0 and 2 <x_i, x_j>, if both have the same class;
    - 2 |<x_i, x_j>| if that is negative, and <x_i, x_j> if it is positive (0 if there
      are but two classes), if they have different classes.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The examples. Takes n^2 d operations.
    y : array of n
        Their classes.
    alpha : float
        The regularisation, lambda in the paper.
    n_classes : int, optional
        Default: the number of different entries of `y`.
    sample_weight : array of n, optional

    Examples
    --------
    >>> multiclass_constants(np.eye(3), [0, 1, 2], alpha=1.0)[:2]
    (0.2222222222222222, 0.0)
    """
    X = sp.csr_matrix(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, float)
    n = X.shape[0]
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    n_classes = len(classes) if n_classes is None else n_classes
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    if codes.shape != (n,) or weight.shape != (n,):
        raise ValueError(
            f"y and sample_weight must have {n} entries, one a row of X, but have "
            f"shapes {codes.shape} and {weight.shape}."
        )
    scale = weight / weight.sum() / np.sqrt(require("alpha", alpha, 0, open_end=True))
    scaled: Any = sp.diags_array(scale) @ X if sp.issparse(X) else X * scale[:, None]
    squares = np.zeros(n)
    total = 0.0
    for first in range(0, n, ROWS):
        part = slice(first, first + ROWS)
        product = scaled[part] @ scaled.T
        gram = product.toarray() if sp.issparse(product) else product
        places = np.arange(len(gram))
        squares[part] = gram[places, first + places]
        gram[places, first + places] = 0.0
        same = codes[part, None] == codes
        positive = np.where(same, 2.0, 1.0 if n_classes > 2 else 0.0)
        negative = np.where(same, 0.0, -2.0)
        total += float((gram * np.where(gram > 0, positive, negative)).sum())
    per_block = 2.0 * squares if n_classes > 1 else np.zeros(n)
    return known(per_block.mean(), total / max(1, n * (n - 1)), per_block)
