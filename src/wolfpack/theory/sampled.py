"""B and mu of any problem: exact where they are known, else sampled.

Samples go through the problem's own oracle: the means over blocks and pairs then have a
confidence interval, but a supremum that was searched for is only bounded from below.
"""

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
    n_starts: int = 4,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
) -> Constants:
    """Estimate B and mu of a quadratic problem through its oracle.

    Blocks and pairs are drawn at random (all are visited where there are no more than
    `n_samples`). In each the supremum is searched for by alternating oracle calls, from
    random starts. What such a search finds is a point of the set, so it is never too
    large, and too small if every start ends in a local maximum: B and mu, and a
    curvature made of them, err low.

    The intervals are about the mean over all blocks or pairs of what the search finds.
    They are empirical Bernstein bounds (Maurer and Pontil, 2009), which hold for any
    number of samples, also where few pairs interact; as range they take the largest
    B_i found, which bounds every mu_ij, since mu_ij^2 <= B_i B_j.

    Parameters
    ----------
    problem : Problem
        With a quadratic f: otherwise H must bound all Hessians, and no sample does.
    n_samples : int
        Blocks, and pairs, to look at; each takes about 20 `n_starts` calls.
    n_starts : int
        Starts of each search.
    confidence : float
        Of each of the two intervals, within (0, 1).
    rng : numpy Generator or int, optional

    Returns
    -------
    Constants
        A mean mu below 0 is given as 0, which only raises Theorem 3's bound.

    Examples
    --------
    >>> import wolfpack
    >>> problem = wolfpack.group_fused_lasso(np.eye(5), alpha=1.0)
    >>> found = sample_constants(problem, rng=0)
    >>> round(found.boundedness, 6), round(found.incoherence, 6)
    (2.0, 0.5)
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
    return Constants(
        boundedness=mean_B,
        incoherence=mean_mu,
        boundedness_interval=(max(0.0, mean_B - around_B), mean_B + around_B),
        incoherence_interval=(max(0.0, mean_mu - around_mu), mean_mu + around_mu),
        confidence=1.0 if all_blocks and all_pairs else confidence,
        per_block=B if all_blocks else None,
        source="sampled",
    )


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

    def starts(self, i: int) -> tuple[list[np.ndarray], float]:
        """Return A_i s for a few s, and the size of the block's linear term."""
        draw, shape = self.rng.standard_normal, self.zero.shape
        found = [self.best(i, draw(shape)) for _ in range(self.n_starts)]
        linear = max(size for _, size in found)
        return [w for w, _ in found], max(linear, self.best(i, self.zero)[1])

    def towards(self, i: int, w: np.ndarray, square: float, linear: float):
        """Return A_i s of the s in M_i with the largest <A_i s, Q w>."""
        return self.best(i, w * -(REACH * linear / square or 1.0))[0]

    def boundedness(self, i: int) -> float:
        """Return a lower bound on B_i: a fixed point of s <- argmax <s, H_ii s>."""
        points, linear = self.starts(i)
        most = 0.0
        for w in points:
            value, here = self.inner(w, w), w
            for _ in range(ROUNDS if value > 0.0 else 0):
                there = self.towards(i, here, value, linear)
                after = self.inner(there, there)
                if not after > value * (1.0 + 1e-9):
                    break
                value, here = after, there
            most = max(most, value)
        return most

    def incoherence(self, i: int, j: int) -> float:
        """Return a lower bound on mu_ij: each side answers the other in turn."""
        linear_i, (points, linear_j) = self.starts(i)[1], self.starts(j)
        return max(self.answers(i, j, w, linear_i, linear_j) for w in points)

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
