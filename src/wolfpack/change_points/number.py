"""How many change points: a penalised elbow, without a constant to set.

With Gaussian noise of unknown variance, k points leave the costs C_k and

    L_k = (n d / 2) log C_k        (minus the log-likelihood)

One more point has d new means and a place out of n, so the Bayesian information
criterion asks for a gain of log(n) (d / 2 + 1) in L. That is right where noise is
independent from row to row. Real noise drifts, and then every further point gains that
much. So a chosen point is compared with the points that were not chosen, as in the
slope heuristic (Birgé and Massart 2007): it must gain twice as much as the usual one
among them.
"""

import numpy as np

from wolfpack.change_points.pruning import MAX_CANDIDATES

WINDOW = 10  # what noise gains is the median of 2 * WINDOW gains, or of more


def choose(costs: np.ndarray, n: int, d: int) -> int:
    """Choose the number of change points from the costs of each number.

    It is the k with the least L_k + a log(n) (d / 2 + 1) k. The factor a is 1, or twice
    the median gain of the 2 k points after k where that is more; k and a are found in
    turn. Numbers above n / 4 are not considered, because then the variance is unknown.

    Parameters
    ----------
    costs : array (k_max + 1,)
        Sums of squares with 0, 1, ..., k_max points, from `best_segments`. To see what
        noise gains, `k_max` should be three times the number of points, or more.
    n, d : int
        The shape of the signal.

    Returns
    -------
    int
        From 0 to the smaller of k_max and n // 4.

    References
    ----------
    N. R. Zhang and D. O. Siegmund, "A modified Bayes information criterion", Biometrics
    63, 2007; L. Birgé and P. Massart, "Minimal penalties for Gaussian model selection",
    Probability Theory and Related Fields 138, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> import wolfpack
    >>> from wolfpack.change_points import best_segments, choose
    >>> Y, _, _ = wolfpack.make_piecewise(n=200, d=2, n_segments=4, rng=1)
    >>> costs, points = best_segments(Y, np.arange(1, 200), 20)
    >>> choose(costs, 200, 2)
    3
    """
    costs = np.asarray(costs, dtype=np.float64)[: n // 4 + 1]
    nothing = n * d * np.finfo(np.float64).eps * costs[0]
    perfect = np.flatnonzero(costs <= nothing)
    if perfect.size:  # no noise: the points before this one explain everything
        return int(perfect[0])
    loss = n * d / 2 * np.log(costs / costs[0])
    price = np.log(n) * (d / 2 + 1)
    gains, number = -np.diff(loss) / price, np.arange(len(loss))
    factor = 1.0
    while True:
        k = int(np.argmin(loss + factor * price * number))
        first = max(min(k, len(gains) - WINDOW), 0)
        noise = gains[first : first + 2 * max(k, WINDOW)]
        usual = 2 * np.median(noise) if noise.size else 0.0
        if usual <= factor:
            return k
        factor = usual


def enough_candidates(n: int, number: int | None) -> int:
    """Return how many candidates to have before the best of them are chosen.

    With 8 times as many candidates as points the chosen ones are, up to a few rows, the
    best of all. Where the number is unknown (None), half of the rows are candidates,
    because what noise gains can be seen only from candidates that are noise.

    Examples
    --------
    >>> from wolfpack.change_points.number import enough_candidates
    >>> enough_candidates(10_000, 20), enough_candidates(400, None)
    (160, 200)
    """
    wanted = MAX_CANDIDATES if number is None else max(8 * number, 64)
    return min(wanted, n // 2, MAX_CANDIDATES)
