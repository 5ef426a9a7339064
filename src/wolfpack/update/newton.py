"""Newton's system of a signal: blocks of d x d, or one number per pair of rows."""

from typing import Any, cast

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from wolfpack.kernels.specialise import library
from wolfpack.update import smoother, wide


def transposed(prices: np.ndarray, is_bent: bool) -> np.ndarray:
    """Return D' U."""
    result = prices
    for _ in range(2 if is_bent else 1):
        result = -np.diff(result, axis=0, prepend=0, append=0)
    return result


def is_wide_signal(count: int, width: int, is_bent: bool) -> bool:
    """Return whether a dense matrix of all pairs of rows is cheaper than blocks."""
    return (
        not is_bent and 2 * width * width > count * (width + count / 3) / width + width
    )


class Narrow:
    """Newton's system by blocks of d x d."""

    def __init__(self, variances: np.ndarray, count: int, width: int) -> None:
        self.kernels: Any = library(cast(Any, smoother))
        self.variances = variances
        self.is_bent = len(variances) == count + 2
        self.inverses = np.zeros((count, width, width))
        self.gains = np.zeros((count if self.is_bent else 0, width, width))
        self.blocks, self.rows = np.zeros((5, width, width)), np.zeros((4, width))

    def factor(self, diagonal: np.ndarray, lines: np.ndarray) -> None:
        """Take the blocks."""
        self.kernels.factor(
            self.variances, self.is_bent, diagonal, lines, self.inverses, self.gains,
            self.blocks,
        )  # fmt: skip

    def solve(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return u and x."""
        prices = np.empty_like(right)
        values = np.empty((len(self.variances), right.shape[1]))
        self.kernels.substitute(
            self.variances, self.is_bent, self.inverses, self.gains, right, prices,
            values, self.rows,
        )  # fmt: skip
        return prices, values


class Wide:
    """Newton's system by one number per pair of rows."""

    def __init__(self, variances: np.ndarray, count: int, width: int) -> None:
        self.kernels: Any = library(cast(Any, wide))
        self.variances, self.lines = variances, np.zeros((count, width))
        self.pivots, self.joint = np.zeros((count, width)), np.zeros((count, count))

    def factor(self, diagonal: np.ndarray, lines: np.ndarray) -> None:
        """Take the blocks."""
        self.lines = lines
        self.kernels.couple(self.variances, diagonal, lines, self.pivots, self.joint)
        self.factors = cho_factor(self.joint, lower=True, check_finite=False)

    def _columns(self, right: np.ndarray) -> np.ndarray:
        out = np.empty_like(right)
        self.kernels.solve_columns(self.variances, self.pivots, right, out)
        return out

    def solve(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return u and x."""
        prices = self._columns(right)
        along = np.einsum("ij,ij->i", self.lines, prices)
        shares = cho_solve(self.factors, along, check_finite=False)
        prices -= self._columns(self.lines * shares[:, np.newaxis])
        return prices, -transposed(prices, False) * self.variances[:, np.newaxis]
