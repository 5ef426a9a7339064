"""Look for points that score less than the oracle's: its minimum must be exact.

A lower bound adds up the minima of all blocks. An oracle that misses its minimum by
0.01 puts the bound too high by as much, and no other function would tell. So a short
run of Frank-Wolfe steps on a few blocks collects what the oracle returns at feasible v.
Between two of these v, the better one of two atoms changes; near there an oracle with
slack returns the wrong one. Where `contains` refuses what is far out, small changes of
an atom that it accepts are tried as well.

A function that fails on the way ends the search: the run will meet that, too, and its
error names the block and keeps the iterate.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolfpack.checks import changes
from wolfpack.checks.block import BlockCheck
from wolfpack.problem import Problem, ProblemError

N_BLOCKS = 8
ROUNDS = 6
N_TIES = 4  # places per block where two atoms score the same
N_CHANGES = 4  # times per block that changes of an atom are tried
OFFSETS = (1e-4, 1e-3, 1e-2, 1e-1)  # from there, as parts of the way between two v
SECONDS = 1.0  # for slow oracles, no new call begins after this time
KEPT = 10  # atoms per block
TOLERANCE = 1e-3  # of any `contains`, relative to the size of scores
MOST_BYTES = 2**27  # for all v that are kept; a search in a larger v is left out


class _Elsewhere(Exception):
    """A function failed at a v, or gave an atom, that the checks did not choose."""


class MinimumCheck:
    """The search for better points, on some blocks."""

    def __init__(self, problem: Problem, blocks: list[BlockCheck], v: np.ndarray):
        self.problem, self.until = problem, np.inf
        known, n = {block.i for block in blocks}, problem.n_blocks
        more = np.random.default_rng(0).permutation(n)[:N_BLOCKS].tolist()
        more = [BlockCheck(problem, blocks[0].functions, i) for i in more]
        more = [block for block in more if block.i not in known]
        room = MOST_BYTES // (8 * v.size * (ROUNDS + 1))  # each keeps so many v
        room = min(room, N_BLOCKS)
        self.searches = [_Search(problem, one) for one in [*blocks, *more][:room]]
        self.v = v.astype(np.float64)

    def check(self) -> None:
        """Raise where a point is found that scores less than the oracle's."""
        with contextlib.suppress(_Elsewhere):
            self._search()

    def _search(self) -> None:
        for k in range(ROUNDS):
            for search in self.searches:
                if time.perf_counter() > self.until:
                    return
                atom = search.ask(self.v)
                self.v = self.v + search.step(atom, 2.0 / (k + 2.0))
                if self.until == np.inf:  # the functions are compiled now
                    self.until = time.perf_counter() + SECONDS
        others = [atom for one in self.searches for atom in one.atoms]
        for search in self.searches:
            for v in search.places():
                if time.perf_counter() > self.until:
                    return
                search.ask(v, others)


class _Search:
    """What the oracle returned on one block, and at which v."""

    def __init__(self, problem: Problem, block: BlockCheck) -> None:
        self.problem, self.block = problem, block
        self.atoms = [block.start]
        self.asked: list[tuple[np.ndarray, np.ndarray]] = []  # v, and the atom there
        self.image = block.image(block.start)[0]
        self.size = self.noise = 0.0  # of scores; what float32 leaves of them
        self.n_changes = 0
        self.trust: bool | None = None  # whether `contains` tells inside from outside

    def ask(self, v: np.ndarray, others: list[np.ndarray] | None = None) -> np.ndarray:
        """Call the oracle at v; compare its atom with those that are known.

        With `others`, atoms of all blocks, compare it with changes of itself, too.
        """
        problem, block = self.problem, self.block
        shared = v.astype(problem.shared.dtype)
        exact, atom = shared.astype(np.float64), problem.scratch_atom(block.i)
        least = self._call("oracle", shared, block.i, atom, problem.work())
        if problem.contains is not None and not self._accepts(atom):
            raise _Elsewhere
        mine, rough = self._score(exact, atom), self._score(shared, atom)
        self.noise = max(self.noise, abs(least - mine), abs(rough - mine))
        scores = [self._score(exact, one) for one in self.atoms]
        self.size = max(self.size, abs(mine), *map(abs, scores))
        best = int(np.argmin(scores))
        if self._is_less(scores[best], mine):
            self._refuse(
                mine, self.atoms[best], scores[best], "which it returned elsewhere"
            )
        if others is None:
            self.asked.append((v, atom))
        else:
            self._try_changes(exact, atom, mine, others)
        known = any(np.array_equal(atom, one) for one in self.atoms)
        if not known and len(self.atoms) < KEPT:
            self.atoms.append(atom)
        return atom

    def step(self, atom: np.ndarray, gamma: float) -> np.ndarray:
        """Move x_(i) towards an atom; return what that adds to v."""
        out = np.zeros(self.problem.shared.shape)
        self._call("add", self.block.i, atom, 1.0, out)
        move = gamma * (out - self.image)
        self.image = self.image + move
        return move

    def places(self) -> Iterator[np.ndarray]:
        """Yield each v near which two atoms score the same."""
        n_ties = 0
        for (a, s), (b, t) in zip(self.asked, self.asked[1:], strict=False):
            if n_ties < N_TIES and not np.array_equal(s, t):
                n_ties += 1
                middle = self._tie(a, s, b, t)
                for offset in (*OFFSETS, *(-one for one in OFFSETS)):
                    yield a + min(max(middle + offset, 0.0), 1.0) * (b - a)

    def _tie(self, a: np.ndarray, s: np.ndarray, b: np.ndarray, t: np.ndarray) -> float:
        """Return where between v = a and v = b the atoms s and t score the same."""
        low, high = 0.0, 1.0
        ends = [self._score(v, s) - self._score(v, t) for v in (a, b)]
        for _ in range(20):
            share = ends[0] / (ends[0] - ends[1]) if ends[0] != ends[1] else 0.5
            middle = low + min(max(share, 0.01), 0.99) * (high - low)
            v = a + middle * (b - a)
            found = self._score(v, s) - self._score(v, t)
            if abs(found) <= 1e-9 * self.size:
                return middle
            if found < 0.0:
                low, ends[0] = middle, found
            else:
                high, ends[1] = middle, found
        return 0.5 * (low + high)

    def _try_changes(
        self, exact: np.ndarray, atom: np.ndarray, mine: float, others: list[np.ndarray]
    ) -> None:
        if self.problem.contains is None or self.n_changes == N_CHANGES:
            return
        self.n_changes += 1
        if self.trust is None:
            far = changes.far_out(atom, self.atoms)
            self.trust = bool(far) and not any(map(self._accepts, far))
        if not self.trust:
            return
        # `contains` has a tolerance for vectors, and leaving the set by it scores less.
        margin = TOLERANCE * self.size if atom.dtype.kind == "f" else 0.0
        for one in changes.near(atom, self.atoms, others):
            if self._accepts(one):
                score = np.inf
                with contextlib.suppress(_Elsewhere):  # it is not the oracle's atom
                    score = self._score(exact, one)
                if self._is_less(score, mine - margin):
                    self._refuse(mine, one, score, "which contains() accepts")

    def _accepts(self, atom: np.ndarray) -> bool:
        try:
            args = self.problem.data, self.block.i, atom
            return bool(self.block.functions["contains"](*args))
        except Exception:  # what is far out may be no index
            return False

    def _score(self, v: np.ndarray, atom: np.ndarray) -> float:
        return self._call("score", v, self.block.i, atom)

    def _call(self, name: str, *args: Any) -> float:
        try:
            return self.block.number(name, self.problem.data, *args)
        except ProblemError as error:
            raise _Elsewhere from error

    def _is_less(self, score: float, mine: float) -> bool:
        precise = 1e-6 if self.problem.shared.dtype == np.float64 else 1e-4
        return score < mine - precise * self.size - 10.0 * self.noise - 1e-12

    def _refuse(self, mine: float, atom: np.ndarray, score: float, why: str) -> None:
        shown = np.array2string(atom, threshold=6)
        raise ProblemError(
            f"oracle is no minimiser on block {self.block.i}: its atom scores "
            f"{mine:.9g}, but {shown}, {why}, scores {score:.9g}. Its minimum must be "
            "exact, because every lower bound is made of it."
        )
