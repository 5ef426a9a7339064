"""Catalyst: how many outer steps an accelerated run needs, and what they ask for.

Theorem 3.1 and Proposition 3.2 of Lin, Mairal, Harchaoui, A Universal Catalyst for
First-Order Optimization (NIPS 2015); the long version is in JMLR 18, 2018. Their F is
the primal P, mu is c (`Problem.ridge`), and q = mu / (mu + kappa) is s, the reach.

What is proved. If s is fixed, and outer step k solves its inner problem to the accuracy
`inner_accuracy(k)`, then P falls by 1 - rho an outer step, for any rho < sqrt(s). The
proximal point method without extrapolation falls by 1 - s. So a decrease takes
O(1 / sqrt(s) log(1 / eps)) outer steps instead of O(1 / s log(1 / eps)), where 1 / s is
(mu + kappa) / mu.

What is not. Proposition 3.2, which bounds the inner steps, is about methods that
converge linearly, and block-coordinate Frank-Wolfe does not: by Theorem 2 of Wang et
al. an inner problem, whose curvature is s C_f^tau, takes up to 6 n (n s C_f^tau + h_0)
/ (tau^2 eps) updates. The accuracies that Theorem 3.1 asks for are so small that the
sum of these, `updates_bound`, is larger than what plain steps are proved to take: that
acceleration needs fewer updates is measured (the experiment `acceleration`), not
proved. Nor is anything proved of an s that changes during the run, of outer steps that
an estimate decides about, and of inner steps that are asynchronous.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolfpack.theory.constants import require, sizes
from wolfpack.theory.rates import Rates, whole


@dataclass(frozen=True, eq=False)
class OuterRates:
    """Theorem 3.1 of Catalyst: how fast outer steps lower a strongly convex P.

    Parameters
    ----------
    reach : array_like
        s = c / (c + kappa), in (0, 1).
    first : array_like
        P(w_0) - P*, or a bound on it, such as the gap at the start.
    part : array_like
        rho / sqrt(s), in (0, 1); the paper recommends 0.9.

    Examples
    --------
    >>> rates = OuterRates(reach=0.01, first=1.0)
    >>> round(float(rates.momentum), 3)
    0.818
    >>> int(rates.steps(1e-3)), int(rates.plain_steps(1e-3))
    (192, 689)
    """

    reach: ArrayLike
    first: ArrayLike
    part: ArrayLike = 0.9

    def __post_init__(self) -> None:
        """Refuse numbers that no outer loop has."""
        for name in ("reach", "part"):
            value = getattr(self, name)
            if (require(name, value, 0, open_end=True) >= 1).any():
                raise ValueError(f"{name} must lie in (0, 1), but is {value!r}.")
        require("first", self.first, 0, open_end=True)

    @property
    def momentum(self) -> Any:
        """Beta = (1 - sqrt s) / (1 + sqrt s): how far an outer step extrapolates.

        It is beta_k of the paper's Algorithm 1 with alpha_0 = sqrt(s).
        """
        root = np.sqrt(np.asarray(self.reach, float))
        return (1.0 - root) / (1.0 + root)

    @property
    def fall(self) -> Any:
        """rho: each outer step is proved to lower P - P* by this part, on the whole."""
        return np.asarray(self.part) * np.sqrt(np.asarray(self.reach, float))

    @property
    def constant(self) -> Any:
        """C = 8 / (sqrt(s) - rho)^2 of Theorem 3.1."""
        return 8.0 / (np.sqrt(np.asarray(self.reach, float)) - self.fall) ** 2

    def primal_bound(self, k: ArrayLike) -> Any:
        """Bound P(w_k) - P* after k outer steps: C (1 - rho)^(k + 1) h_0."""
        k = require("k", k, 0)
        return self.constant * (1.0 - self.fall) ** (k + 1.0) * np.asarray(self.first)

    def steps(self, eps: ArrayLike) -> Any:
        """Return the least k at which `primal_bound` is at most eps."""
        most = self.constant * np.asarray(self.first)
        return whole(_log_ratio(eps, most, self.fall) - 1.0, 0)

    def plain_bound(self, k: ArrayLike) -> Any:
        """Bound P(w_k) - P* without extrapolation: (1 - s)^(k - 1) h_0, for k >= 1.

        The proximal point method is gradient descent on the Moreau envelope of P, whose
        condition number is 1 / s; P(w_k) is at most the envelope at w_(k - 1).
        """
        k = require("k", k, 1)
        return (1.0 - np.asarray(self.reach)) ** (k - 1.0) * np.asarray(self.first)

    def plain_steps(self, eps: ArrayLike) -> Any:
        """Return the least k at which `plain_bound` is at most eps."""
        return whole(_log_ratio(eps, self.first, self.reach) + 1.0, 1)

    def inner_accuracy(self, k: ArrayLike) -> Any:
        """Return how well outer step k must solve its problem: 2/9 (1 - rho)^k h_0.

        `solve` asks for the geometric decrease alone, not for the constant: an outer
        step is made when the block gaps have fallen by the part sqrt(s) / 2.
        """
        k = require("k", k, 1)
        return 2.0 / 9.0 * (1.0 - self.fall) ** k * np.asarray(self.first)

    def updates_bound(
        self, n_blocks: int, batch_size: int, curvature: float, eps: float
    ) -> float:
        """Sum up the block updates that Theorems 2 and 3.1 prove to be enough for eps.

        Outer step k has to bring a gap to `inner_accuracy(k)`, which takes up to
        6 n^2 s C_f^tau / (tau^2 eps_k) updates by `Rates.gap_bound`. Where the inner
        problem begins, h_0, is left out: it would only add to the sum. For `curvature`,
        C_f^tau of the plain problem, see `curvature_bound`.

        Examples
        --------
        >>> rates = OuterRates(reach=0.01, first=1.0)
        >>> plain = Rates(100, 1, 0.5, first=0.0).gap_iterations(1e-3)
        >>> rates.updates_bound(100, 1, 0.5, 1e-3) > float(plain)
        True
        """
        sizes(n_blocks, batch_size)
        count = np.arange(1, int(self.steps(eps)) + 1)
        inner = Rates(n_blocks, batch_size, np.multiply(self.reach, curvature), 0.0)
        return float(inner.gap_iterations(self.inner_accuracy(count)).sum())


def _log_ratio(eps: ArrayLike, start: Any, fall: Any) -> Any:
    """Return k where start (1 - fall)^k = eps."""
    eps = require("eps", eps, 0, open_end=True)
    return np.log(eps / np.asarray(start)) / np.log1p(-np.asarray(fall))
