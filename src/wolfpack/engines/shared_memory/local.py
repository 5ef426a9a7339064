"""Workers that hold the rows of v that a step needs, from the oracle to the move.

Where block i reads and writes a few rows of v and no others, a worker locks these rows,
visits the block and makes its step. No other worker changes the rows meanwhile, so each
step is exact, f never rises, and a run of many workers is a run of one worker in some
order. A lock stands for several neighbouring rows. Workers draw from, or sweep, their
own ranges of the blocks, so they want the same lock at the ends of the ranges only. A
worker that holds the rows of a block holds the block, which needs no flag of its own. A
worker alone needs no lock, whatever its blocks read and write.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.shared_memory.choice import APART, RANGES, choose
from wolfpack.engines.shared_memory.seats import is_called, obey
from wolfpack.engines.shared_memory.team import TeamSession
from wolfpack.engines.shared_memory.worker import (
    halt,
    is_lost,
    is_over,
    lacks_room,
    play_visit,
    report,
    see_gap,
    settle,
)
from wolfpack.kernels.atomics import acquire, fetch_add, release
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, glue, jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import HAS_ROWS, last_move, spread, touched
from wolfpack.update.inbox import note_delay
from wolfpack.update.plan import Exit
from wolfpack.update.steps import alone

# Locks of rows, for each worker: few enough to stay in its cache, and enough that two
# workers that choose at random seldom want the same one.
LOCKS = 256


def serves(problem, n_workers: int) -> bool:
    """Return whether workers may hold the rows that a step of this problem needs."""
    if problem.curvature is None:
        return False
    if problem.touched is None:
        return n_workers == 1
    return problem.local


class LocalMemory(NamedTuple):
    """The private memory of one worker."""

    atom: np.ndarray
    rows: np.ndarray  # that its block touches
    held: np.ndarray  # the locks that it holds, in ascending order

    @classmethod
    def create(cls, problem) -> "LocalMemory":
        """Make the memory of a worker."""
        return cls(
            atom=zeros(problem.atom_size, problem.start.dtype),
            rows=zeros(problem.max_rows, np.int64),
            held=zeros(problem.max_rows + 1, np.int64),
        )


class LocalSession(TeamSession):
    """Workers that hold the rows of their block."""

    loop = "local_worker"

    def __init__(self, problem, options, engine) -> None:
        super().__init__(problem, options, engine, min(engine.size, problem.n_blocks))
        self.memories = [LocalMemory.create(problem) for _ in range(self.n_workers)]
        self.parts = RANGES
        if problem.touched is not None:
            self.lock_parts(min(len(problem.shared), LOCKS * self.n_workers))

    def begin(self, run, calls: int) -> None:
        """Open all locks: a worker whose oracle raised has left its own closed."""
        super().begin(run, calls)
        self.team.locks[:] = 0


@entry
def local_worker(data, shared, blocks, team, memory, rng, tally, work, plan, task):
    """Run one slice after the other, until this worker is sent away."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    team, memory, work = borrow(team), borrow(memory), borrow(work)
    while True:
        plan, task = obey(team, plan, task)
        run_local(data, shared, blocks, team, memory, rng, tally, work, plan, task)
        if not is_called(team.seats, task.me):
            return


@glue
def run_local(data, shared, blocks, team, memory, rng, tally, work, plan, task):
    """Step until the calls of the slice are made, or a worker stops it."""
    halvings = 0  # each lock stands for 2^halvings rows
    while HAS_ROWS and team.locks.size // APART << halvings < len(shared):
        halvings += 1
    fresh = 0
    while not is_over(team) and not lacks_room(blocks, team, task):
        i = choose(team, plan, task, tally, rng)
        count = hold(data, blocks, team, memory, i, halvings, work)
        if count < 0:
            break
        atom, move, gap, seen_gap, ended = play_visit(
            data, shared, blocks, i, memory.atom, work, plan, task, rng, tally
        )
        if ended != Exit.DONE:
            halt(team, ended, i)
            return
        if is_lost(task, rng, tally):
            let_go(team, memory, count)
            continue
        gamma = alone(data, i, move, gap, plan, 0, work)
        if not gamma >= 0.0:
            halt(team, Exit.NOT_A_NUMBER, i)
            return
        if gamma > 0.0:
            spread(data, i, move, plan.reach * gamma, shared, work)
            settle(data, blocks, team, i, atom, gamma)
        let_go(team, memory, count)
        see_gap(team, plan, tally, i, seen_gap)
        note_delay(tally, 0)  # no other worker could change what this step read
        fresh = report(team, task, tally, fresh, 1)
    fetch_add(team.called, 0, fresh)


@jit
def hold(data, blocks, team, memory, i, halvings, work):
    """Lock the rows that block i touches; return the number of locks, -1 at the end.

    Every worker takes its locks in ascending order, so no two wait for each other. The
    wait ends with the slice, because a worker whose oracle raised opens no lock.
    """
    if not HAS_ROWS:
        return 0
    rows, held = memory.rows, memory.held
    n_rows = touched(data, i, last_move(blocks, i, memory.atom), rows, work)
    held[0] = rows[0] >> halvings if n_rows > 0 else 0
    count = 1
    for j in range(1, n_rows):
        count = insert(held, count, rows[j] >> halvings)
    for j in range(count):
        if not acquire(team.locks, held[j] * APART, team.halt, 0):
            let_go(team, memory, j)
            return -1
    return count


@jit
def insert(held, count, lock):
    """Put a lock in its place among `count` in ascending order; return their number."""
    at = count
    while at > 0 and held[at - 1] > lock:
        at -= 1
    if at > 0 and held[at - 1] == lock:
        return count
    for k in range(count, at, -1):
        held[k] = held[k - 1]
    held[at] = lock
    return count + 1


@jit
def let_go(team, memory, count):
    """Release the first `count` locks that the worker holds."""
    for j in range(count):
        release(team.locks, memory.held[j] * APART)
