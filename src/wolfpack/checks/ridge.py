"""Hold `ridge` against `slope`, `value` and `score`: g(v) = c/2 |v|^2 plus a constant.

An accelerated run takes its lower bounds from c, so a c that is a little wrong puts
them above f*. Everything is compared in double precision, as a certificate computes it.
A function that rounds to float32 inside is known by a direction that float32 cannot
tell from another. Its sums over all of v are compared loosely, and then those over a
few small whole numbers closely, because these have no rounding errors.
"""

from collections.abc import Iterator

import numpy as np

from wolfpack.checks.block import BlockCheck
from wolfpack.checks.inputs import is_number
from wolfpack.problem import Problem, ProblemError

CLOSE = 1e-7  # a constant that is kept as float32 is off by 6e-8
SINGLE = 5e-7  # a few roundings to float32
LOOSE = 1e-4  # a sum of many numbers in float32
UNSEEN = 2.0**-27  # relative to 1; float32 rounds it away
N_SPARSE = 8  # sparse vectors to try, with at most N_ENTRIES entries that are not 0
N_ENTRIES = 4


def check_ridge(problem: Problem, blocks: list[BlockCheck], v: np.ndarray) -> None:
    """Raise if `ridge` is no number, or not that of g."""
    c = problem.ridge
    if not (is_number(c) and 0.0 <= c < np.inf):
        raise ProblemError(f"ridge must be a number >= 0, but is {c!r}.")
    if c > 0.0:
        check = _RidgeCheck(problem, blocks[0])
        check.along_slopes(_size(v))
        if problem.value is not None:
            check.between_values(_size(v))
        for block in blocks:
            check.scores(block, v)


class _RidgeCheck:
    def __init__(self, problem: Problem, block: BlockCheck) -> None:
        self.problem, self.number = problem, block.number
        self.rows = np.arange(len(problem.shared))

    def along_slopes(self, size: float) -> None:
        """Compare slopes at 0 along h with c <h, h>, and on a line beside."""
        for h, d, is_sparse in self._vectors(size):
            slope = self._slope(h, h, 0.0)
            seen = self._slope(h, h * (1.0 + UNSEEN), 0.0) - slope
            noise = _noise(seen / UNSEEN, slope, is_sparse)
            for along, gamma in ((h, 0.0), (d, 0.5)):
                terms = self.problem.ridge * (h + gamma * along) * along
                found = self._slope(h, along, gamma)
                self._fit("slope", found, float(terms.sum()), noise, _sum(terms))

    def between_values(self, size: float) -> None:
        """Compare g(h) - g(0) with c/2 |h|^2, at an h for which it is at least g(0)."""
        c, data = self.problem.ridge, self.problem.data
        start = self.number("value", data, np.zeros(self.problem.shared.shape))
        size = max(size, _power_of_two(np.sqrt(2.0 * abs(start) / c)))
        for h, _, is_sparse in self._vectors(size):
            value, needed = self.number("value", data, h), 0.5 * c * _sum(h * h)
            seen = self.number("value", data, h * (1.0 + UNSEEN)) - value
            noise = _noise(seen / (2.0 * UNSEEN), needed, is_sparse)
            self._fit("value", value - start, needed, noise, needed + abs(start))

    def scores(self, block: BlockCheck, v: np.ndarray) -> None:
        """Compare scores at h with c <h, A s> + <c, s>."""
        h = next(self._vectors(_size(v)))[0]
        for atom in (block.start, block.atom):
            image, linear = block.image(atom)
            terms = self.problem.ridge * h * image
            found = block.number("score", self.problem.data, h, block.i, atom)
            needed, size = float(terms.sum()) + linear, _sum(terms) + abs(linear)
            self._fit("score", found, needed, LOOSE / 10, size + abs(found))

    def _vectors(self, size: float) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
        """Yield pairs of vectors, and whether they are sparse; `size`: of entries."""
        random, shape = np.random.default_rng(0), self.problem.shared.shape
        dense = random.normal(size=(2, *shape))
        yield size * dense[0], size * dense[1], False
        for _ in range(N_SPARSE):
            sparse = np.zeros((2, *shape))
            places = random.integers(sparse[0].size, size=N_ENTRIES)
            sparse.reshape(2, -1)[:, places] = random.integers(1, 4, (2, len(places)))
            yield size * sparse[0], size * sparse[1], True

    def _slope(self, h: np.ndarray, d: np.ndarray, gamma: float) -> float:
        return self.number("slope", self.problem.data, h, d, self.rows, gamma)

    def _fit(
        self, name: str, given: float, needed: float, noise: float, size: float
    ) -> None:
        if not abs(given - needed) <= noise * (size + max(abs(given), abs(needed))):
            c = self.problem.ridge
            raise ProblemError(
                f"ridge is {c:.9g}, so g(v) is {c:.9g}/2 |v|^2, but {name} does not "
                f"fit that: {given:.12g} instead of {needed:.12g}. Set ridge=0 if g is "
                "another function."
            )


def _noise(seen: float, whole: float, is_sparse: bool) -> float:
    """Return what rounding may leave: little where UNSEEN was `seen` as it should."""
    if abs(seen - whole) <= 0.1 * abs(whole):
        return CLOSE
    return SINGLE if is_sparse else LOOSE


def _sum(terms: np.ndarray) -> float:
    return float(np.abs(terms).sum())


def _size(v: np.ndarray) -> float:
    """Return the size of the entries of v, a power of two; 1 where v is 0."""
    return _power_of_two(np.sqrt(np.mean(np.square(v, dtype=np.float64))))


def _power_of_two(size: float) -> float:
    return float(2.0 ** np.ceil(np.log2(size))) if 0.0 < size < np.inf else 1.0
