"""Theorems 1 to 3: how fast f falls, and what tau blocks at once gain.

Symbols, and what is proved: see `wolfpack.theory`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolfpack.theory.constants import require, sizes


def curvature_bound(
    batch_size: ArrayLike, boundedness: ArrayLike, incoherence: ArrayLike
) -> Any:
    """Bound the expected set curvature: 4 (tau B + tau (tau - 1) mu) (Theorem 3).

    Examples
    --------
    >>> curvature_bound([1, 2, 4], boundedness=2.0, incoherence=0.5)
    array([ 8., 20., 56.])
    """
    tau = require("batch_size", batch_size, 1)
    B = require("boundedness", boundedness, 0)
    mu = require("incoherence", incoherence, 0)
    return 4.0 * (tau * B + tau * (tau - 1.0) * mu)


def predicted_speedup(
    batch_size: ArrayLike,
    boundedness: ArrayLike,
    incoherence: ArrayLike,
    oracle_error: ArrayLike = 0.0,
) -> Any:
    """Predict how many times fewer updates tau blocks at once take than tau = 1.

    The ratio of Theorem 1's bounds where curvature rules them (h_0 is small), with
    Theorem 3 for the curvature: tau / (1 + (tau - 1) mu / B), over 1 + delta. An update
    of tau blocks is tau oracle calls, so this is the gain if tau workers share them. It
    compares two upper bounds: a prediction, not a theorem.

    Examples
    --------
    >>> predicted_speedup([1, 10, 100], boundedness=2.0, incoherence=0.02).round(1)
    array([ 1. ,  9.2, 50.3])
    """
    tau = require("batch_size", batch_size, 1)
    B = require("boundedness", boundedness, 0, open_end=True)
    mu = require("incoherence", incoherence, 0)
    delta = require("oracle_error", oracle_error, 0)
    return tau / (1.0 + (tau - 1.0) * mu / B) / (1.0 + delta)


def open_loop_steps(k: ArrayLike, n_blocks: ArrayLike, batch_size: ArrayLike) -> Any:
    """Return gamma of update k = 0, 1, ...: min(1, 2 n tau / (tau^2 k + 2 n)).

    Examples
    --------
    >>> open_loop_steps([0, 10, 110], n_blocks=50, batch_size=10)
    array([1.        , 0.90909091, 0.09009009])
    """
    n, tau = sizes(n_blocks, batch_size)
    k = require("k", k, 0)
    return np.minimum(1.0, 2.0 * n * tau / (tau**2 * k + 2.0 * n))


def start_weight(n_blocks: ArrayLike, batch_size: ArrayLike) -> Any:
    """Return how much h_0 counts in Theorem 1 when steps are clipped to 1.

    While gamma = 1, Lemma 2 leaves (1 - tau / n)^k of h_0. Theorem 1's rate covers that
    for every k if it starts from M h_0, M = sup over k of (1 + tau^2 k / (2 n))
    (1 - tau / n)^k. M is 1 for tau <= 2 and for tau = n, and at most about
    tau / (2 e) for large tau.

    Examples
    --------
    >>> start_weight(100, [1, 4, 16, 100]).round(2)
    array([1.  , 1.2 , 3.09, 1.  ])
    """
    n, tau = sizes(n_blocks, batch_size)
    with np.errstate(divide="ignore"):
        a = np.maximum(1.0, -(tau**2) / (2.0 * n * np.log1p(-tau / n)))
    return a * np.exp(1.0 / a - 1.0)


@dataclass(frozen=True, eq=False)
class Rates:
    """Theorems 1 and 2: how far from optimal the iterates can be, on average.

    They hold for open-loop steps and for the line search, which is never worse.

    Parameters
    ----------
    n_blocks, batch_size : array_like
        n and tau.
    curvature : array_like
        C_f^tau, or a bound on it: `curvature_bound`.
    first : array_like
        f(x_0) - f*, or a bound on it, such as the gap at the start.
    oracle_error : array_like
        delta, by which the oracle may miss (equation 6): `delay_error`.
    clipped : bool
        Whether steps are clipped to 1, as all engines do. False: as printed.

    Examples
    --------
    >>> rates = Rates(n_blocks=50, batch_size=1, curvature=0.1, first=2.0)
    >>> rates.primal_bound([0, 100])
    array([7. , 3.5])
    >>> int(rates.primal_iterations(3.5)), int(rates.gap_iterations(21.0))
    (100, 99)
    """

    n_blocks: ArrayLike
    batch_size: ArrayLike
    curvature: ArrayLike
    first: ArrayLike
    oracle_error: ArrayLike = 0.0
    clipped: bool = True

    def __post_init__(self) -> None:
        """Refuse numbers that no problem has."""
        sizes(self.n_blocks, self.batch_size)
        for name in ("curvature", "first", "oracle_error"):
            require(name, getattr(self, name), 0)

    def primal_bound(self, k: ArrayLike) -> Any:
        """Bound E f(x_k) - f* after k updates: 2 n C / (tau^2 k + 2 n) (Theorem 1).

        C = n C_f^tau (1 + delta) + M h_0; M is `start_weight`, or 1 as printed.
        """
        n, tau, constant = self._constants(gap=False)
        return 2.0 * n * constant / (tau**2 * require("k", k, 0) + 2.0 * n)

    def primal_iterations(self, eps: ArrayLike) -> Any:
        """Return the least k at which `primal_bound` is at most eps."""
        n, tau, constant = self._constants(gap=False)
        eps = require("eps", eps, 0, open_end=True)
        return whole(2.0 * n * (constant / eps - 1.0) / tau**2, 0)

    def primal_recursion(self, n_updates: int) -> np.ndarray:
        """Bound E f(x_k) - f* for k = 0 ... n_updates by Lemma 2, step by step.

        h_(k+1) <= (1 - gamma tau / n) h_k + gamma^2 (1 + delta) C_f^tau / 2 with steps
        clipped to 1. Proved whatever `clipped` says, and the sharpest bound here.
        """
        n, tau = sizes(self.n_blocks, self.batch_size)
        bend = self._bend() / 2.0
        bounds = [np.broadcast_arrays(np.asarray(self.first, float), n, tau, bend)[0]]
        for k in range(int(require("n_updates", n_updates, 0))):
            gamma = open_loop_steps(k, n, tau)
            bounds.append((1.0 - gamma * tau / n) * bounds[-1] + gamma**2 * bend)
        return np.stack(bounds)

    def gap_bound(self, k: ArrayLike) -> Any:
        """Bound the least expected gap of x_1 ... x_k: 6 n C / (tau^2 (k + 1)).

        Theorem 2; it also bounds their average with weights 1 ... k. In C, h_0 counts
        max(`start_weight`, (1 - tau / n) tau / 3) times, or once as printed.
        """
        n, tau, constant = self._constants(gap=True)
        return 6.0 * n * constant / (tau**2 * (require("k", k, 1) + 1.0))

    def gap_iterations(self, eps: ArrayLike) -> Any:
        """Return the least k at which `gap_bound` is at most eps."""
        n, tau, constant = self._constants(gap=True)
        eps = require("eps", eps, 0, open_end=True)
        return whole(6.0 * n * constant / (tau**2 * eps) - 1.0, 1)

    def _bend(self) -> Any:
        return np.multiply(self.curvature, 1.0 + np.asarray(self.oracle_error))

    def _constants(self, *, gap: bool) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return n, tau and C of Theorem 1."""
        n, tau = sizes(self.n_blocks, self.batch_size)
        weight = start_weight(n, tau) if self.clipped else 1.0
        if gap and self.clipped:
            weight = np.maximum(weight, (1.0 - tau / n) * tau / 3.0)
        return n, tau, n * self._bend() + weight * np.asarray(self.first)


def whole(count: Any, least: int) -> Any:
    """Return the least integer >= count, forgiving rounding."""
    count = np.ceil(count - 1e-9 * np.abs(count))
    return np.clip(count, least, 2.0**62).astype(np.int64)
