"""What the workers of all shared-memory engines do: claim a block, solve it, move it.

Counters and flags that threads share stand a cache line apart: in the same line, each
write to one of them would slow down the readers of the others.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.shared_memory.choice import (
    APART,
    CAP,
    look_back,
    next_in_sweep,
    pick,
    take_turn,
)
from wolfpack.kernels.atomics import (
    acquire,
    compare_exchange,
    fetch_add,
    load_acquire,
    relax,
    release,
    store_release,
)
from wolfpack.kernels.compile import jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import has_room, is_full, shift
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import AWAKE, CYCLIC, FLOOR, GAP, weigh
from wolfpack.update.visit import visit

# A worker adds its calls to the common count after this many: a contended atomic
# operation costs as much as a third of a cheap oracle.
AT_A_TIME = 32
LOOK_AGAIN = 8  # every this many steps, a worker measures what the others changed
MEMORY = 0.95  # the share of old measurements that stays
TRIES = 16  # times that a worker finds a block taken before it draws from all


# What a slice asks of all workers; the rest of their plan and task stays the same.
ORDERS = np.dtype(
    [
        ("reach", np.float64),  # as in `Plan`
        ("batch", np.int64),  # as in `Task`
        ("budget", np.int64),
        ("updates", np.int64),  # made before the slice
    ],
    align=True,
)


class Team(NamedTuple):
    """What all workers share, besides v and the blocks.

    The first nine are one number each, for atomic operations.
    """

    halt: np.ndarray  # why every worker is to stop, an `Exit`, or 0
    wish: np.ndarray  # 1: stop soon, for engines whose workers must agree on when
    called: np.ndarray  # oracle calls of this slice so far
    lock: np.ndarray  # of v
    version: np.ndarray  # of v
    pool: np.ndarray  # the lock of the pool of atoms
    cursor: np.ndarray  # tickets of permutation sampling
    block: np.ndarray  # the block at fault
    never: np.ndarray  # a flag that stays 0, for waits that cannot fail
    owners: np.ndarray  # 1 while a worker holds the block
    gaps: np.ndarray  # of each block when last seen, for gap sampling
    order: np.ndarray  # of the blocks, for permutation sampling
    strides: np.ndarray  # prime to the number of blocks
    progress: np.ndarray  # turns taken in each part of the blocks
    locks: np.ndarray  # of rows or stripes of v; empty where one lock is enough
    seats: np.ndarray  # one a thread; see `seats`
    orders: np.ndarray  # one record ORDERS

    @classmethod
    def create(
        cls, n_blocks: int, n_workers: int, strides: np.ndarray, seats: np.ndarray
    ) -> "Team":
        """Make what `n_workers` workers share."""
        words = zeros((9, APART), np.int64)
        return cls(
            *(word[:1] for word in words),
            owners=zeros(n_blocks, np.int8),
            gaps=np.zeros(0),
            order=np.arange(n_blocks),
            strides=strides,
            progress=zeros(n_workers * APART, np.int64),
            locks=zeros(0, np.int64),
            seats=seats,
            orders=zeros(1, ORDERS),
        )


class Task(NamedTuple):
    """What one worker is told for one slice."""

    me: int
    n_workers: int
    batch: int
    budget: int  # oracle calls of all workers
    repeats: tuple[int, int]  # each subproblem is solved this often, drawn uniformly
    return_probability: float
    is_searching: bool  # the paper's line search on the workers
    parts: int  # WHOLE, RANGES or COMBS: which blocks a worker draws from


@jit
def claim(team, plan, task, tally, rng):
    """Take a block that no other worker holds; -1: the slice is over.

    It is drawn as `plan.sampling` says. A worker may hold blocks while it waits for
    more. Where the blocks of its part are taken, it draws from all blocks: there are at
    least as many as all workers hold together.
    """
    if plan.sampling != CYCLIC:
        take_turn(team, task, tally)
    owners = team.owners
    first, stride, count = tally.first, tally.stride, tally.count
    spins = 0
    while True:
        if plan.sampling == CYCLIC:
            i = next_in_sweep(team, task, tally)
        else:
            i = pick(team, plan, tally, rng, first, stride, count)
        if compare_exchange(owners, i, 0, 1):
            look_back(team, plan, tally, i)
            return i
        relax(spins)
        spins += 1
        if spins % TRIES == 0:
            first, stride, count = 0, 1, owners.size
            if is_over(team):
                return -1


@jit
def disclaim(team, i):
    """Give a block back."""
    store_release(team.owners, i, 0)


@jit
def play_visit(data, view, blocks, i, scratch, work, plan, task, rng, tally):
    """Visit block i; solve it several times where a hard oracle is played."""
    tally.at = i
    repeats = draw_repeats(task, rng)
    return visit(data, view, blocks, i, scratch, work, plan, repeats)


@jit
def draw_repeats(task, rng):
    """Return how often a subproblem is solved, to play a hard oracle."""
    least, most = task.repeats
    if most > least:
        return least + int(rng.random() * (most - least + 1))
    return least


@jit
def is_lost(task, rng, tally):
    """Return whether the worker loses its answer, to play a straggler."""
    if task.return_probability < 1.0 and rng.random() >= task.return_probability:
        tally.lost += 1
        return True
    return False


@jit
def halt(team, why, i):
    """Stop every worker, because of block i."""
    store_release(team.block, 0, i)
    store_release(team.halt, 0, why)


@jit
def is_over(team):
    """Return whether a worker, or the driver, stopped the slice."""
    return load_acquire(team.halt, 0) != 0


@jit
def lacks_room(blocks, team, task):
    """Stop every worker if the pool of atoms may be too small for all blocks held."""
    if has_room(blocks, task.n_workers * task.batch):
        return False
    compare_exchange(team.halt, 0, 0, Exit.GROW)
    return True


@jit
def report(team, task, tally, fresh, count):
    """Count `count` calls; return how many are not in the common count yet."""
    tally.solved += count
    fresh += count
    if fresh >= min(AT_A_TIME, 1 + task.budget // (8 * task.n_workers)):
        before = fetch_add(team.called, 0, fresh)
        if before + fresh >= task.budget:
            compare_exchange(team.halt, 0, 0, Exit.ENOUGH)
        fresh = 0
    return fresh


@jit
def settle(data, blocks, team, i, atom, gamma):
    """Move block i, which the caller holds; a list that must grow takes a lock."""
    if is_full(blocks, i):
        acquire(team.pool, 0, team.never, 0)
        shift(data, blocks, i, atom, gamma)
        release(team.pool, 0)
    else:
        shift(data, blocks, i, atom, gamma)


@jit
def damp(tally, full, fall, clash):
    """Update the damping from one step, which promised `full` * `fall`.

    `clash` is the change of the slope by other workers between search and writing.
    """
    tally.falls = MEMORY * tally.falls + full * fall
    tally.clashes = MEMORY * tally.clashes + full * clash
    if tally.falls > 0.0:
        harm = tally.clashes / tally.falls / tally.damping
        tally.damping = 1.0 / (1.0 + max(0.0, harm))


@jit
def see_gap(team, plan, tally, i, gap):
    """Note the gap of block i for the estimate, and for gap sampling."""
    weight = 1.0
    if plan.sampling == GAP and plan.reach < 1.0:  # as `pick` draws
        mean = tally.mean_gap
        before = min(max(tally.before, FLOOR * mean), CAP * mean)
        weight = weigh(plan, before, mean, 0.0)
    tally.gap_sum += weight * gap
    tally.gaps_seen += weight
    if plan.sampling == GAP or plan.sampling == AWAKE:
        team.gaps[i] = max(gap, 0.0)
