"""The vocabulary of an update: what is planned, what was counted, why a loop ended.

A loop is told a `Plan`, which stays the same over a slice, and counts in records with
named fields: `PROGRESS` for the run, which a saved state holds, and `TALLY` for a
worker. It returns an `Exit`.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.memory import CACHE_LINE, zeros


class Exit(IntEnum):
    """Why a loop returned; `sentence` says it to a person, where it is an error."""

    DONE = 0
    GROW = 1  # the pool of atoms needs more room, which Python makes
    NOT_A_NUMBER = 2
    INFEASIBLE = 3
    ENOUGH = 4  # all oracle calls of the slice are made
    FAILED = 5  # another thread raised
    DRAW = 6  # more delays are needed, which Python draws
    ABANDONED = 7  # every simulated worker has failed

    @property
    def sentence(self) -> str:
        """What is wrong, without the block and the number of updates."""
        return _SENTENCES[self]


_SENTENCES = {
    Exit.NOT_A_NUMBER: "the oracle's atom or the step is NaN or infinite",
    Exit.INFEASIBLE: "the oracle's atom lies outside the feasible set",
}


class Plan(NamedTuple):
    """What stays the same over a slice: n, the rule of the step, the sampling."""

    n_blocks: int
    rule: int  # of the step, as `steps` numbers them
    step_size: float  # where the rule is a constant
    sampling: int  # as `sampling` numbers it
    exact: bool  # whether steps aim at the minimiser of a block
    reach: float = 1.0  # v moves by `reach` gamma A d; below 1 when accelerated


# How far a run is. `at` is the current block of a loop: an error message names it where
# a function raises. `checked` are the calls before the last scheduled check, or -1.
PROGRESS = np.dtype(
    [
        ("updates", np.int64),
        ("calls", np.int64),
        ("at", np.int64),
        ("checked", np.int64),
        ("gap_sum", np.float64),  # of the block gaps seen since the last check
        ("gaps_seen", np.float64),
    ],
    align=True,
)

N_DELAYS = 256  # the last entry of the histogram counts all longer delays

# What one worker counts. Its size is a whole number of cache lines, so that two workers
# never write to the same one.
_COUNTS = ["at", "solved", "made", "lost", "collisions", "dropped"]
_COUNTS += ["delays", "max_delay", "stamp"]
_COUNTS += ["first", "stride", "count", "left"]  # the blocks that it draws from
_SUMS = ["gap_sum", "gaps_seen", "mean_gap", "promised", "kept"]
_SUMS += ["falls", "clashes", "damping"]
_SUMS += ["before"]  # the gap by which the current block was drawn
_FIELDS = [
    *((name, np.int64) for name in _COUNTS),
    *((name, np.float64) for name in _SUMS),
    ("histogram", np.int64, (N_DELAYS,)),
]
_SIZE = np.dtype(_FIELDS).itemsize
TALLY = np.dtype([*_FIELDS, ("spare", np.int8, (-_SIZE % CACHE_LINE,))])


def make_progress() -> Any:
    """Return a record of a run that has not begun."""
    progress = np.zeros(1, PROGRESS).view(np.recarray)[0]
    progress.checked = -1
    return progress


def make_tallies(count: int) -> Any:
    """Return one record a worker: all zero, but the damping is 1, the full step."""
    tallies = zeros(count, TALLY).view(np.recarray)
    tallies.damping = 1.0
    return tallies
