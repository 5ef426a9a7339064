"""Theorem 4 and Proposition 1: what late updates and collisions cost.

Symbols, and what is proved: see `wolfpack.theory`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolfpack.theory.constants import require, sizes


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


def _error_per_move(tau, curvature, lipschitz, diameter_one, other) -> Any:
    tau = require("batch_size", tau, 1)
    C = require("curvature", curvature, 0, open_end=True)
    L = require("lipschitz", lipschitz, 0)
    one = require("diameter_one", diameter_one, 0)
    return 4.0 * tau * L * one * require(f"diameter_{other[0]}", other[1], 0) / C
