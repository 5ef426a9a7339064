"""The theorems as formulas; their symbols and what is proved: see `wolfpack.theory`."""

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
        """Refuse what no problem has."""
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
        return _whole(2.0 * n * (constant / eps - 1.0) / tau**2, 0)

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
        return _whole(6.0 * n * constant / (tau**2 * eps) - 1.0, 1)

    def _bend(self) -> Any:
        return np.multiply(self.curvature, 1.0 + np.asarray(self.oracle_error))

    def _constants(self, *, gap: bool) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return n, tau and C of Theorem 1."""
        n, tau = sizes(self.n_blocks, self.batch_size)
        weight = start_weight(n, tau) if self.clipped else 1.0
        if gap and self.clipped:
            weight = np.maximum(weight, (1.0 - tau / n) * tau / 3.0)
        return n, tau, n * self._bend() + weight * np.asarray(self.first)


def delay_error(
    expected_delay: ArrayLike,
    batch_size: ArrayLike,
    curvature: ArrayLike,
    *,
    diameter_one: ArrayLike,
    diameter_batch: ArrayLike,
    lipschitz: ArrayLike = 1.0,
) -> Any:
    """Return delta = 4 kappa tau L D^1 D^tau / C_f^tau of delayed updates (Theorem 4).

    For delays of any distribution, if updates older than k / 2 are dropped and steps
    are open loop. Each worker must have read one past iterate as a whole; a lock-free
    read may mix several.

    Parameters
    ----------
    expected_delay : array_like
        kappa, in updates.
    batch_size, curvature : array_like
        tau and C_f^tau; a bound on it will do, if `Rates` is given the same one.
    diameter_one, diameter_batch : array_like
        D^1 and D^tau: the largest distance within one block, and within tau blocks, in
        a norm of choice. In that of H, |x|^2 = x' H x, D^tau is at most tau D^1.
    lipschitz : array_like
        L of the gradient in that norm; 1 in that of H. The paper takes L^1, of a move
        within one block, but the proof moves other blocks than the one it looks at: for
        tau > 1 that needs the L of the whole f, or the norm of H.

    Examples
    --------
    >>> float(delay_error(5, 1, 9.0, diameter_one=3.0, diameter_batch=3.0))
    20.0
    """
    kappa = require("expected_delay", expected_delay, 0)
    return kappa * _error_per_move(
        batch_size, curvature, lipschitz, diameter_one, ("batch", diameter_batch)
    )


def bounded_delay_error(
    max_delay: ArrayLike,
    n_blocks: ArrayLike,
    batch_size: ArrayLike,
    curvature: ArrayLike,
    *,
    diameter_one: ArrayLike,
    diameter_delayed: ArrayLike,
    lipschitz: ArrayLike = 1.0,
) -> Any:
    """Return delta of delays that are at most kappa_max (Theorem 4, second part).

    c 4 tau L D^1 E D^(delay tau) / C_f^tau, with c = `load_factor(n, tau kappa_max)`.
    `diameter_delayed` is E D^(delay tau); in a Euclidean norm it is at most
    sqrt(kappa) D^tau. The rest is as in `delay_error`.

    Examples
    --------
    >>> sizes = {"diameter_one": 3.0, "diameter_delayed": 9.0}
    >>> float(bounded_delay_error(10, 1000, 1, 9.0, **sizes))
    54.0
    """
    n, tau = sizes(n_blocks, batch_size)
    load = tau * require("max_delay", max_delay, 0)
    return load_factor(n, load) * _error_per_move(
        tau, curvature, lipschitz, diameter_one, ("delayed", diameter_delayed)
    )


def load_factor(n_blocks: ArrayLike, load: ArrayLike) -> Any:
    """Bound the expected maximum load of m = `load` draws from n blocks (Lemma 5).

    The three cases of Theorem 4, with the constants that the paper leaves open:

    - m < n / log n:  3 log n / log(n / m)
    - up to n log n:  e log n
    - beyond:         m / n + (e - 1) sqrt(m / n log n), which is (1 + o(1)) m / n

    All three follow from E max <= (log n + m (exp(t) - 1) / n) / t with t = log(n / m),
    1 and sqrt(n log n / m).

    Examples
    --------
    >>> load_factor(1000, [10, 1000, 100_000]).round(2)
    array([  4.5 ,  18.78, 145.16])
    """
    n, m = require("n_blocks", n_blocks, 2), require("load", load, 0)
    log_n, mean = np.log(n), m / n
    with np.errstate(divide="ignore"):
        light = 3.0 * log_n / -np.log(np.minimum(mean, 0.99))
    heavy = mean + (np.e - 1.0) * np.sqrt(mean * log_n)
    is_light = (mean * log_n < 1.0) & (mean < 0.99)
    return np.where(is_light, light, np.where(mean <= log_n, np.e * log_n, heavy))[()]


def expected_calls(n_blocks: int, batch_size: ArrayLike) -> Any:
    """Return the oracle calls that an update of tau distinct blocks takes, on average.

    tau + sum over i < tau of i / (n - i): workers draw blocks at random, and those that
    the batch has already are overwritten (Proposition 1, i).

    Examples
    --------
    >>> expected_calls(100, [1, 10, 50]).round(2)
    array([ 1.  , 10.48, 68.82])
    """
    n, tau = sizes(n_blocks, batch_size)
    if n.ndim:
        raise ValueError(f"n_blocks must be one number, but is {n_blocks!r}.")
    sums = np.cumsum(n / (n - np.arange(int(tau.max()))))
    return sums[tau.astype(np.int64) - 1]


def double_calls_risk(n_blocks: ArrayLike, batch_size: ArrayLike) -> Any:
    """Bound the probability that an update takes more than 2 tau oracle calls.

    exp(-n^2 / tau (1 - exp(-2 tau / n) - tau / n)^2), from the proof of Proposition 1,
    ii; 1 where that says nothing, from tau = 0.797 n on. The proposition's exp(-n / 60)
    for 0.02 n < tau < 0.6 n follows from it up to 0.597 n only.

    Examples
    --------
    >>> double_calls_risk(100, [10, 50, 90]).round(4)
    array([0.0014, 0.0305, 1.    ])
    """
    n, tau = sizes(n_blocks, batch_size)
    part = tau / n
    slack = np.maximum(0.0, 1.0 - np.exp(-2.0 * part) - part)
    return np.exp(-n / part * slack**2)


def _whole(count: Any, least: int) -> Any:
    """Return the least integer >= count, forgiving rounding."""
    count = np.ceil(count - 1e-9 * np.abs(count))
    return np.clip(count, least, 2.0**62).astype(np.int64)


def _error_per_move(tau, curvature, lipschitz, diameter_one, other) -> Any:
    tau = require("batch_size", tau, 1)
    C = require("curvature", curvature, 0, open_end=True)
    L = require("lipschitz", lipschitz, 0)
    one = require("diameter_one", diameter_one, 0)
    return 4.0 * tau * L * one * require(f"diameter_{other[0]}", other[1], 0) / C
