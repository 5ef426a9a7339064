"""Hold a move's functions (`prepare`, `rate`, `spread`, ...) against `score` and `add`.

What `prepare` keeps in `work` must follow from the move alone. Engines call it for
atoms that came late or from elsewhere: then `work` is fresh, or holds what another
block left, or what the oracle left for another atom of the block. Only `rate` may use
what the oracle left, and only where it is told that this is fresh.
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
    ": what it keeps there may depend on the move, and not on what the oracle left in "
    "work"
)


class FusedCheck:
    """The checks of the step of one block, from an x_(i) of two atoms."""

    def __init__(self, block: BlockCheck, v: np.ndarray) -> None:
        self.block, self.problem, self.i = block, block.problem, block.i
        self.loops = loops = self.problem.kernels()
        for name in ("rate", "spread"):
            block.functions.setdefault(name, getattr(loops, name))
        problem, (at_start, linear) = self.problem, block.image(block.start)
        self.blocks = problem.store.create(problem, 1)
        loops.shift(problem.data, self.blocks, self.i, block.atom, WEIGHT)
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
            args = self.problem.data, self.v, self.i
            least = block.number("oracle", *args, atom, work)
            if content in (FRESH, FOREIGN):
                work = self.problem.work()
            if content == OTHER:
                known = (block.start, block.atom)
                others = [one for one in known if not np.array_equal(one, atom)]
                atom = (others or [atom])[0]
                least = block.number("score", *args, atom)
            if content == FOREIGN:
                self._step_elsewhere(work)
            move = self._prepare(self.i, atom, work)
            said = "rate returned {}, but the scores give {}" + self._when(content)
            scores = [
                block.number("score", *args, one) for one in (block.start, block.atom)
            ]
            here = scores[0] + WEIGHT * (scores[1] - scores[0])
            size = np.abs(scores).sum() + abs(least)
            for is_fresh in (True, False) if content == OWN else (False,):
                rate = block.number("rate", *args, move, work, is_fresh)
                block.agree(rate, least - here, said, size)
            self._step(atom, move, work, content)

    def _prepare(self, i: int, atom: np.ndarray, work: Any) -> Any:
        data = self.problem.data
        move = self.loops.towards(data, self.blocks, i, atom)
        if self.problem.prepare is not None:
            self.block.call("prepare", data, i, move, work)
        return move

    def _step_elsewhere(self, work: Any) -> None:
        """Let another block use `work`."""
        j, data = (self.i + 1) % self.problem.n_blocks, self.problem.data
        atom = self.problem.scratch_atom(j)
        self.block.number("oracle", data, self.v, j, atom, work)
        move = self._prepare(j, atom, work)
        self.block.number("spread", data, j, move, 1.0, np.zeros_like(self.v), work)

    def _step(self, atom: np.ndarray, move: Any, work: Any, content: int) -> None:
        """Compare what follows from `work` with A (s - x_(i)) and its slopes."""
        image, linear = self.block.image(atom)
        change, more = image - self.x, linear - self.linear
        rounding = 1e-6 * max(np.abs(image).max(), np.abs(self.x).max())
        noise = 1e-4 * np.abs(change).max() + rounding
        noise_of_more = 1e-3 * abs(more) + 1e-6 * abs(self.linear) + 1e-9
        has_bend = self.problem.curvature is not None and self.problem.quadratic
        if has_bend and content == OWN:
            self._bend(move, change.astype(self.v.dtype), work, content)
        before = np.full_like(self.v, np.abs(change).max())
        for scale in (0.75, -0.5):
            out = before.copy()
            args = self.problem.data, self.i, move, scale, out, work
            found = self.block.number("spread", *args)
            if not (
                np.abs(out - before - scale * change).max() <= noise
                and abs(found - scale * more) <= noise_of_more
            ):
                raise ProblemError(
                    f"spread and add disagree on block {self.i}{self._when(content)}."
                )
            self._hold_rows(out != before, move, work, content)
        if has_bend and content != OWN:
            self._bend(move, change.astype(self.v.dtype), work, content)

    def _bend(self, move: Any, change: np.ndarray, work: Any, content: int) -> None:
        block, data, v = self.block, self.problem.data, self.v
        bend = block.number("curvature", data, self.i, move, work)
        rows = block.rows()
        ends = [block.number("slope", data, v, change, rows, t) for t in (0.0, 1.0)]
        said = "curvature is {}, but slopes give {}" + self._when(content)
        block.agree(bend, ends[1] - ends[0], said, 1e-3 * np.abs(ends).sum())

    def _hold_rows(self, written: np.ndarray, move: Any, work: Any, content: int):
        """Refuse rows that `spread` has `written` and `touched` does not list."""
        problem = self.problem
        if problem.touched is None:
            return
        listed = np.zeros(problem.max_rows, np.int64)
        args = problem.data, self.i, move, listed, work
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
