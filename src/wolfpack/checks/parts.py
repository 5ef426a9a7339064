"""Hold the functions of parts against `score` and `add` of the atoms that have them."""

from typing import Any

import numpy as np

from wolfpack.checks.block import BlockCheck
from wolfpack.problem import Problem, ProblemError
from wolfpack.stores import STORES

NEEDED = ("parts_of", "add_parts", "score_parts")


def check_store(problem: Problem) -> None:
    """Refuse a store that lacks what it needs."""
    name, offsets = problem.store_name, problem.offsets
    if name not in STORES:
        names = ", ".join(map(repr, STORES))
        raise ProblemError(f"keeps must be one of {names}; not {name!r}.")
    if (name == "vectors") != (offsets is None):
        needs = "takes no offsets" if name == "vectors" else "needs offsets"
        raise ProblemError(f"keeps={name!r} {needs}.")
    if name != "parts":
        return
    for one in NEEDED:
        if getattr(problem, one) is None:
            raise ProblemError(f"keeps='parts' needs {one}.")
    most = problem.max_parts
    if not (isinstance(most, int | np.integer) and most >= 0):
        raise ProblemError(f"max_parts must be 0 or more, but is {most!r}.")


class PartsCheck:
    """The checks of the parts of one block, whose functions were checked before."""

    def __init__(self, block: BlockCheck) -> None:
        self.block, self.problem = block, block.problem

    def check(self, v: np.ndarray) -> None:
        """Compare what parts score and add with what atoms do, along a move."""
        block, data, i = self.block, self.problem.data, self.block.i
        there, here = (self.list(atom) for atom in (block.atom, block.start))
        parts = np.concatenate([there, here])
        weights = np.repeat([1.0, -1.0], [len(there), len(here)])
        scores = [
            block.number("score", data, v, i, a) for a in (block.atom, block.start)
        ]
        found = block.number("score_parts", data, v, i, parts, weights)
        said = "score_parts of a move is {}, but score gives {}"
        block.agree(found, scores[0] - scores[1], said, np.abs(scores).sum())
        images = [block.image(atom) for atom in (block.atom, block.start)]
        out = np.zeros(self.problem.shared.shape)
        linear = block.number("add_parts", data, i, parts, weights, 0.5, out)
        change, more = (0.5 * (a - b) for a, b in zip(*images, strict=True))
        noise = 1e-4 * max(np.abs(image).max() for image, _ in images) + 1e-12
        rounding = 1e-4 * sum(abs(one) for _, one in images) + 1e-9
        if np.abs(out - change).max() > noise or abs(linear - more) > rounding:
            raise ProblemError(f"add_parts and add disagree on block {i}.")
        self.member(here)

    def list(self, atom: np.ndarray) -> np.ndarray:
        """Return the parts of an atom, which must ascend."""
        room: Any = np.zeros(self.problem.max_parts or len(atom), np.int32)
        args = self.problem.data, self.block.i, atom, room
        count = int(self.block.number("parts_of", *args))
        parts = room[:count].astype(np.int64)
        if not (
            0 < count <= len(room) and parts[0] >= 0 and (np.diff(parts) > 0).all()
        ):
            raise ProblemError(
                f"parts_of gave {parts.tolist()[:8]} on block {self.block.i}; an atom "
                "has one part or more, and they ascend from 0 or above."
            )
        return room[:count]

    def member(self, parts: np.ndarray) -> None:
        """Refuse a start that `contains_parts` refuses."""
        if self.problem.contains_parts is None:
            return
        args = self.problem.data, self.block.i, parts, np.ones(len(parts))
        if not self.block.call("contains_parts", *args):
            raise ProblemError(
                f"contains_parts refuses the start of block {self.block.i}."
            )
