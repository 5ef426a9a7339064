"""What the paper says of examples, and its table of methods (Appendix D.4)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfpack.theory.constants import (
    Constants,
    fused_lasso_constants,
    known,
    require,
    sizes,
)


class Comparison(NamedTuple):
    """One row of `comparison_table`.

    Examples
    --------
    >>> comparison_table([1.0, 3.0], radius=1.0, batch_size=1, k=4)[2].method
    'AP-BCD'
    """

    method: str
    rate: str
    value: Any
    source: str


def comparison_table(
    lipschitz: ArrayLike, radius: float, batch_size: ArrayLike, k: ArrayLike
) -> list[Comparison]:
    """Compare with parallel coordinate descent, up to constants (Appendix D.4).

    The table assumes mu = O(B / tau). Its first row also needs blocks of about the same
    diameter, R / sqrt(n): Theorem 1 has n^2 B, and the appendix shows B <= E(L_i) R^2,
    which is n times too much for that row.

    Parameters
    ----------
    lipschitz : array of n
        L_i of the partial gradient of each block.
    radius : float
        R, the largest |x - x*|.
    batch_size, k : array_like
        tau, and updates of tau oracle calls each.

    Returns
    -------
    list of Comparison
        `pandas.DataFrame(rows)` makes a table of it.

    Examples
    --------
    >>> for row in comparison_table([1.0, 3.0], radius=1.0, batch_size=1, k=4):
    ...     print(f"{row.method:8} {row.rate:22} {row.value}")
    AP-BCFW  n E(L_i) R^2 / (tau k) 1.0
    P-BCD    n E(L_i) R^2 / (tau k) 1.0
    AP-BCD   n max L_i R^2 / (tau k) 1.5
    """
    L = np.atleast_1d(require("lipschitz", lipschitz, 0))
    n, tau = sizes(L.size, batch_size)
    unit = n * require("radius", radius, 0) ** 2 / tau / require("k", k, 1)
    mean, largest = "n E(L_i) R^2 / (tau k)", "n max L_i R^2 / (tau k)"
    return [
        Comparison("AP-BCFW", mean, unit * L.mean(), "Theorem 1"),
        Comparison("P-BCD", mean, unit * L.mean(), "Richtarik, Takac: Theorem 19"),
        Comparison("AP-BCD", largest, unit * L.max(), "Liu et al.: Theorem 3"),
    ]


def example_multiclass(n_blocks: int, n_features: int, alpha: float) -> Constants:
    """Return Example 1: multiclass, unit vectors at random, tau distinct classes.

    B = 2 / (n^2 lambda), mu <= sqrt(20 log d / d) B, for all pairs of classes with high
    probability. Pairs of the same class are left out, so this is for tau <= K only;
    `multiclass_constants` has them. The example's C_f^tau is 4 times less than
    Theorem 3's and nevertheless true: here the difference of two atoms is no longer
    than an atom. Its condition should read d >= tau^2 C log d.

    Examples
    --------
    >>> example_multiclass(n_blocks=100, n_features=1000, alpha=0.01).boundedness
    0.02
    """
    n, d = require("n_blocks", n_blocks, 1), require("n_features", n_features, 2)
    B = float(2.0 / (n**2 * require("alpha", alpha, 0, open_end=True)))
    return known(
        B, float(min(1.0, np.sqrt(20.0 * np.log(d) / d))) * B, source="Example 1"
    )


def example_fused_lasso(n_rows: int, n_columns: int, alpha: float) -> Constants:
    """Return Example 2: group fused lasso, B <= 2 lambda^2 d, mu_ij <= lambda^2 d.

    mu is their mean over all pairs, 2 lambda^2 d / (n - 1), as in the example's proof.
    `fused_lasso_constants` are the exact ones, d times less for q = 2. The example's
    C_f^tau <= 4 tau lambda^2 d leaves Theorem 3's factor 4 out and is too small for
    d < 4: with d = 1 already C_f^1 is 8 lambda^2.

    Examples
    --------
    >>> example_fused_lasso(n_rows=101, n_columns=10, alpha=0.5)[:2]
    (5.0, 0.05)
    """
    exact = fused_lasso_constants(n_rows, n_columns, alpha)
    d = float(n_columns)
    return known(d * exact.boundedness, d * exact.incoherence, source="Example 2")


def example_svm(n_blocks: int, radius: float, alpha: float) -> Constants:
    """Return Example 3: any structural SVM, B, mu <= R^2 / (lambda n^2).

    `radius` is R, the largest |psi_i(y)|. With mu = B larger batches gain nothing.

    Examples
    --------
    >>> example_svm(n_blocks=10, radius=2.0, alpha=1.0)[:2]
    (0.04, 0.04)
    """
    n, R = require("n_blocks", n_blocks, 1), require("radius", radius, 0)
    B = float(R**2 / (n**2 * require("alpha", alpha, 0, open_end=True)))
    return known(B, B, source="Example 3")
