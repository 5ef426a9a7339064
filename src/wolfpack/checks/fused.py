"""Hold a fused step (`prepare`, `spread`, `curvature`, `touched`) against `add`.

What `prepare` keeps in `work` must follow from x_(i) and the atom alone. Engines call
it with atoms that came late or from elsewhere: then `work` is fresh, or holds what
another block left, or what the oracle left for another atom of the block. Only the gap
that it returns may rely on the oracle, which was called just before for the same block
wherever this gap is read.
"""

from typing import Any

import numpy as np

from wolfpack.checks.block import BlockCheck
from wolfpack.problem import ProblemError

WEIGHT = 0.25  # of the second atom of x_(i): a step must cope with several
FRESH, OWN, OTHER, FOREIGN = range(4)  # what `work` holds when `prepare` is called
WHEN = {
    FRESH: " where prepare is called with fresh work",
    OWN: "",
    OTHER: " where the oracle has found another atom of the block in the meantime",
    FOREIGN: " where prepare is called with the work that another block has used",
}
ADVICE = (
    ": what it keeps there may depend on x_(i) and the atom, and not on what the "
    "oracle left in work"
)


class FusedCheck:
    """The checks of the step of one block, from an x_(i) of two atoms."""

    def __init__(self, block: BlockCheck, v: np.ndarray) -> None:
        self.block, self.problem, self.i = block, block.problem, block.i
        loops = self.problem.kernels()
        for name in ("prepare", "spread"):
            block.functions.setdefault(name, getattr(loops, name))
        problem, (at_start, linear) = self.problem, block.image(block.start)
        self.blocks = problem.store.create(problem.start, problem.offsets, 1)
        loops.move(self.blocks, self.i, block.atom, WEIGHT)
        image, other = block.image(block.atom)
        self.x = at_start + WEIGHT * (image - at_start)
        self.linear = linear + WEIGHT * (other - linear)
        self.v = (v + (self.x - at_start)).astype(v.dtype)

    def check(self) -> None:
        """Make the step with each content of `work`, and compare."""
        block = self.block
        for content in (OWN, FRESH, OTHER, FOREIGN):
            if content == FOREIGN and self.problem.n_blocks == 1:
                continue
            work, atom = self.problem.work(), self.problem.scratch_atom(self.i)
            args = self.problem.data, self.v, self.i, atom
            least = block.number("oracle", *args, work)
            if content in (FRESH, FOREIGN):
                work = self.problem.work()
            if content == OTHER:
                known = (block.start, block.atom)
                others = [one for one in known if not np.array_equal(one, atom)]
                atom = (others or [atom])[0]
            if content == FOREIGN:
                self._step_elsewhere(work)
            gap = self._prepare(self.i, atom, work)
            if content == OWN:
                scores = [
                    block.number("score", *args[:3], one)
                    for one in (block.start, block.atom)
                ]
                here = scores[0] + WEIGHT * (scores[1] - scores[0])
                said = "prepare returned {}, but the scores give {}"
                block.agree(gap, here - least, said, np.abs(scores).sum() + abs(least))
            self._step(atom, work, content)

    def _prepare(self, i: int, atom: np.ndarray, work: Any) -> float:
        args = self.problem.data, self.v, self.blocks, i, atom, work
        return self.block.number("prepare", *args)

    def _spread(self, i, atom, scale: float, out: np.ndarray, work: Any) -> float:
        args = self.problem.data, self.blocks, i, atom, scale, out, work
        return self.block.number("spread", *args)

    def _step_elsewhere(self, work: Any) -> None:
        """Let another block use `work`."""
        j = (self.i + 1) % self.problem.n_blocks
        atom = self.problem.scratch_atom(j)
        self.block.number("oracle", self.problem.data, self.v, j, atom, work)
        self._prepare(j, atom, work)
        self._spread(j, atom, 1.0, np.zeros_like(self.v), work)

    def _step(self, atom: np.ndarray, work: Any, content: int) -> None:
        """Compare what follows from `work` with A (s - x_(i)) and its slopes."""
        image, linear = self.block.image(atom)
        move, more = image - self.x, linear - self.linear
        rounding = 1e-6 * max(np.abs(image).max(), np.abs(self.x).max())
        noise = 1e-4 * np.abs(move).max() + rounding
        noise_of_more = 1e-3 * abs(more) + 1e-6 * abs(self.linear) + 1e-9
        has_bend = self.problem.curvature is not None and self.problem.quadratic
        if has_bend and content == OWN:
            self._bend(atom, move.astype(self.v.dtype), work, content)
        before = np.full_like(self.v, np.abs(move).max())
        for scale in (0.75, -0.5):
            out = before.copy()
            found = self._spread(self.i, atom, scale, out, work)
            if not (
                np.abs(out - before - scale * move).max() <= noise
                and abs(found - scale * more) <= noise_of_more
            ):
                raise ProblemError(
                    f"spread and add disagree on block {self.i}{self._when(content)}."
                )
            self._hold_rows(out != before, work, content)
        if has_bend and content != OWN:
            self._bend(atom, move.astype(self.v.dtype), work, content)

    def _bend(self, atom: np.ndarray, move: np.ndarray, work: Any, content: int):
        block, data, v = self.block, self.problem.data, self.v
        bend = block.number("curvature", data, self.blocks, self.i, atom, work)
        rows = block.rows()
        ends = [block.number("slope", data, v, move, rows, t) for t in (0.0, 1.0)]
        said = "curvature is {}, but slopes give {}" + self._when(content)
        block.agree(bend, ends[1] - ends[0], said, 1e-3 * np.abs(ends).sum())

    def _hold_rows(self, written: np.ndarray, work: Any, content: int) -> None:
        """Refuse rows that `spread` has `written` and `touched` does not list."""
        problem = self.problem
        if problem.touched is None:
            return
        listed = np.zeros(problem.max_rows, np.int64)
        args = problem.data, self.i, listed, work
        count = int(self.block.number("touched", *args))
        used = np.flatnonzero(written.reshape(len(written), -1).any(axis=1))
        if not np.isin(used, listed[:count]).all():
            raise ProblemError(
                f"touched leaves out rows that spread wrote on block {self.i}"
                f"{self._when(content)}."
            )

    def _when(self, content: int) -> str:
        own = content == OWN or self.problem.prepare is None
        return "" if own else WHEN[content] + ADVICE
