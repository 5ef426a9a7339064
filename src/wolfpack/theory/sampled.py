"""B and mu of any problem: exact where they are known, else sampled.

Samples go through the problem's own oracle: the means over blocks and pairs then have a
confidence interval, but a supremum that was searched for is only bounded from below.
From above, mu_ij <= sqrt(B_i B_j), because H is positive semidefinite.
"""

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from wolfpack.theory.constants import Constants

if TYPE_CHECKING:
    from wolfpack.problem import Problem

# The search scales v until <A_i s, Q v> is about REACH times the linear term of block
# i. The oracle sees this term, too, and at such a v it does not change the answer.
REACH = 1e6
ROUNDS = 20  # the most oracle calls of a search; two or three are usual


def measure_constants(
    problem: "Problem",
    *,
    n_samples: int = 1000,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
) -> Constants:
    """Return B and mu of a problem: exact where possible, else sampled.

    Parameters
    ----------
    problem : Problem
        Its own `constants` are taken where it has them: group fused lasso, multiclass
        SVM and chains of length one, of which the last two take n^2 d operations.
        Others go to `sample_constants`.
    n_samples, confidence, rng
        For `sample_constants`.

    Examples
    --------
    >>> import wolfpack
    >>> problem = wolfpack.group_fused_lasso(np.eye(5), alpha=1.0)
    >>> measure_constants(problem).boundedness
    2.0
    """
    exact = None if problem.constants is None else problem.constants(problem)
    if exact is not None:
        return exact
    return sample_constants(
        problem, n_samples=n_samples, confidence=confidence, rng=rng
    )


def sample_constants(
    problem: "Problem",
    *,
    n_samples: int = 1000,
    n_starts: int = 20,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
) -> Constants:
    """Estimate B and mu of a quadratic problem through its oracle.

    Blocks and pairs are drawn at random (all are visited where there are no more than
    `n_samples`). In each the supremum is searched for by alternating oracle calls, from
    random starts, until `n_starts` of them in a row have found nothing larger. What
    such a search finds is a point of the set, so it is never too large, and too small
    if every start ends in a local maximum: B and mu, and a curvature made of them, err
    low.

    So the lower ends of the intervals are certain but for the draw of blocks and pairs.
    The upper end for mu is the mean of sqrt(B_i B_j), which no mu can exceed; it and
    the upper end for B hold if the searches found every B_i. What is drawn is bounded
    by empirical Bernstein bounds (Maurer and Pontil, 2009), which hold for any number
    of samples, also where few pairs interact; as range they take the largest B_i found.

    Parameters
    ----------
    problem : Problem
        With a quadratic f: otherwise H must bound all Hessians, and no sample does.
    n_samples : int
        Blocks, and pairs, to look at; each takes about 5 `n_starts` calls.
    n_starts : int
        Starts without success that end a search.
    confidence : float
        Of each of the two intervals, within (0, 1).
    rng : numpy Generator or int, optional

    Returns
    -------
    Constants
        Their `confidence` is that of the draw. A mean mu below 0 is given as 0, which
        only raises Theorem 3's bound.

    Examples
    --------
    >>> import wolfpack
    >>> problem = wolfpack.group_fused_lasso(np.eye(5), alpha=1.0)
    >>> found = sample_constants(problem, rng=0)
    >>> round(found.boundedness, 6), round(found.incoherence, 6)
    (2.0, 0.5)
    >>> np.round(found.incoherence_interval, 6).tolist()  # no pair exceeds its sqrt
    [0.5, 2.0]
    """
    _refuse(problem, n_samples, n_starts, confidence)
    rng = np.random.default_rng(rng)
    search = _Search(problem, rng, int(n_starts))
    n = problem.n_blocks
    all_blocks, all_pairs = n <= n_samples, n * (n - 1) // 2 <= n_samples
    blocks = np.arange(n) if all_blocks else rng.choice(n, n_samples, replace=False)
    B = np.array([search.boundedness(int(i)) for i in blocks])
    pairs = list(combinations(range(n), 2)) if all_pairs else _draw(rng, n, n_samples)
    mu = np.array([search.incoherence(i, j) for i, j in pairs] or [0.0])
    # mu_ij^2 <= B_i B_j bounds every mu from above, but a search may end below 0.
    width = float(B.max())
    around_B = 0.0 if all_blocks else _half_width(B, width, confidence)
    width -= min(0.0, float(mu.min()))
    around_mu = 0.0 if all_pairs else _half_width(mu, width, confidence)
    mean_B, mean_mu = float(B.mean()), max(0.0, float(mu.mean()))
    most_mu = max(mean_mu, _most_incoherence(B, n, all_blocks, confidence))
    return Constants(
        boundedness=mean_B,
        incoherence=mean_mu,
        boundedness_interval=(max(0.0, mean_B - around_B), mean_B + around_B),
        incoherence_interval=(max(0.0, mean_mu - around_mu), most_mu),
        confidence=confidence,
        per_block=B if all_blocks else None,
        source="sampled",
    )


def _most_incoherence(
    B: np.ndarray, n: int, all_blocks: bool, confidence: float
) -> float:
    """Return the mean of sqrt(B_i B_j) over all pairs, or what bounds it."""
    if n == 1:
        return 0.0
    roots = np.sqrt(B)
    if all_blocks:
        return float((roots.sum() ** 2 - B.sum()) / (n * (n - 1)))
    most = roots.mean() + _half_width(roots, float(roots.max()), confidence)
    return float(most**2 * n / (n - 1))


def _refuse(
    problem: "Problem", n_samples: int, n_starts: int, confidence: float
) -> None:
    """Raise where nothing can be sampled."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1), but is {confidence!r}.")
    for name, number in (("n_samples", n_samples), ("n_starts", n_starts)):
        least = 2 if name == "n_samples" else 1
        if not (isinstance(number, int | np.integer) and number >= least):
            raise ValueError(
                f"{name} must be an integer of at least {least}, but is {number!r}."
            )
    if not problem.quadratic:
        raise ValueError(
            f"{problem.name} is not quadratic, so samples cannot bound its Hessians; "
            "say quadratic=True if it is."
        )


def _draw(rng: np.random.Generator, n: int, count: int) -> list[tuple[int, int]]:
    """Return pairs i != j, uniformly and independently."""
    i = rng.integers(n, size=count)
    j = (i + rng.integers(1, n, size=count)) % n
    return list(zip(i.tolist(), j.tolist(), strict=True))


def _half_width(values: np.ndarray, width: float, confidence: float) -> float:
    """Return the two-sided empirical Bernstein bound for values in a range."""
    m, log_term = len(values), np.log(4.0 / (1.0 - confidence))
    noise = np.sqrt(2.0 * values.var(ddof=1) * log_term / m)
    return float(noise + 7.0 * width * log_term / (3.0 * (m - 1)))


class _Search:
    """Looks for the suprema through `oracle`, `score`, `add` and `slope`."""

    def __init__(
        self, problem: "Problem", rng: np.random.Generator, n_starts: int
    ) -> None:
        self.problem, self.rng, self.n_starts = problem, rng, n_starts
        self.zero = np.zeros(problem.shared.shape)
        self.work, self.loops = problem.work(), problem.kernels()

    def best(self, i: int, v: np.ndarray) -> tuple[np.ndarray, float]:
        """Return A_i s of the oracle's answer at v, and its <s, grad_i f(0)>."""
        problem, data, loops = self.problem, self.problem.data, self.loops
        atom = problem.scratch_atom(i)
        loops.oracle(data, v.astype(problem.shared.dtype), i, atom, self.work)
        out = self.zero.copy()
        loops.add(data, i, atom, 1.0, out)
        at_zero = self.zero.astype(problem.shared.dtype)
        return out, abs(float(loops.score(data, at_zero, i, atom)))

    def inner(self, one: np.ndarray, two: np.ndarray) -> float:
        """Return <one, Q two>, where Q is the Hessian of g."""
        slope, data = self.loops.slope, self.problem.data
        rows = np.flatnonzero(two.reshape(len(two), -1).any(axis=1))
        at_one = slope(data, one, two, rows, 0.0)
        return float(at_one) - float(slope(data, self.zero, two, rows, 0.0))

    def start(self, i: int) -> tuple[np.ndarray, float]:
        """Return A_i s of a random s, and the size of the block's linear term there."""
        return self.best(i, self.rng.standard_normal(self.zero.shape))

    def most(self, search: Callable[[], float]) -> float:
        """Return the largest value of searches until `n_starts` found no larger one."""
        most, failed = search(), 0
        while failed < self.n_starts:
            value = search()
            failed = failed + 1 if value <= most + 1e-9 * abs(most) else 0
            most = max(most, value)
        return most

    def towards(self, i: int, w: np.ndarray, square: float, linear: float):
        """Return A_i s of the s in M_i with the largest <A_i s, Q w>."""
        return self.best(i, w * -(REACH * linear / square or 1.0))[0]

    def boundedness(self, i: int) -> float:
        """Return a lower bound on B_i: a fixed point of s <- argmax <s, H_ii s>."""
        linear = self.best(i, self.zero)[1]

        def search() -> float:
            here, size = self.start(i)
            value = self.inner(here, here)
            for _ in range(ROUNDS if value > 0.0 else 0):
                there = self.towards(i, here, value, max(linear, size))
                after = self.inner(there, there)
                if not after > value * (1.0 + 1e-9):
                    break
                value, here = after, there
            return max(0.0, value)

        return self.most(search)

    def incoherence(self, i: int, j: int) -> float:
        """Return a lower bound on mu_ij: each side answers the other in turn."""
        least_i, least_j = self.best(i, self.zero)[1], self.best(j, self.zero)[1]

        def search() -> float:
            w, size = self.start(j)
            linear_i = max(least_i, self.start(i)[1])
            return self.answers(i, j, w, linear_i, max(least_j, size))

        return self.most(search)

    def answers(
        self, i: int, j: int, w: np.ndarray, linear_i: float, linear_j: float
    ) -> float:
        """Return the largest <A_i s_i, Q A_j s_j> met from A_j s_j = w on."""
        value = -np.inf
        for _ in range(ROUNDS):
            square = self.inner(w, w)
            if not square > 0.0:  # A_j s_j = 0 as far as f depends on it
                return max(value, 0.0)
            other = self.towards(i, w, square, linear_i)
            after = self.inner(other, w)
            if value > -np.inf and not after > value + 1e-9 * abs(value):
                break
            value, square = after, self.inner(other, other)
            if not square > 0.0:
                break
            w = self.towards(j, other, square, linear_j)
        return value
