"""What the workers of all shared-memory engines do: claim a block, solve it, move it.

Counters and flags that threads share stand a cache line apart, or each write to one of
them would slow down the readers of the others.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.serial import DONE, GROW, INFEASIBLE, aim
from wolfpack.kernels.atomics import (
    acquire,
    compare_exchange,
    fetch_add,
    load_acquire,
    relax,
    release,
    store_release,
)
from wolfpack.kernels.slots import HAS_CONTAINS, contains
from wolfpack.kernels.specialise import jit
from wolfpack.update.atoms import has_room, is_full, move
from wolfpack.update.sampling import FLOOR, GAP, PERMUTATION

# Words of `Team.control`, a cache line apart. HALT: why everybody is to stop, or 0.
# NEVER is never set: it stands for "stop" where whoever holds a lock gives it back.
# CALLED: oracle calls of this slice so far. BLOCK: the one at fault. WISH: to stop, for
# engines whose workers must agree on when.
HALT, CALLED, LOCK, VERSION, POOL, CURSOR, BLOCK, WISH = range(0, 64, 8)
NEVER = HALT + 1
N_CONTROL = 64
# What HALT says beyond the codes of `serial`: enough calls are made; a thread raised.
ENOUGH, FAILED = 8, 9
# Entries of a worker's `tally`; behind them the histogram of delays.
AT, SOLVED, MADE, LOST, COLLISIONS, DROPPED, DELAYS, MAX_DELAY, STAMP = range(9)
# Where it draws, and how often before it looks around.
FIRST, STRIDE, COUNT_OF_PART, LEFT = range(9, 13)
HISTOGRAM, N_DELAYS = 16, 256
# Entries of a worker's `sums`: gaps seen and how many, the mean gap of gap sampling,
# what steps promised on a private v and what they kept, and the damping of `direct`.
GAP_SUM, GAPS_SEEN, MEAN_GAP, PROMISED, KEPT, FALLS, CLASHES, DAMPING = range(8)
N_SUMS_OF_WORKER = 8
# Calls join the common count this many at a time: a contended atomic costs as much as
# a third of a cheap oracle.
AT_A_TIME = 32
# Gap sampling draws in proportion to min(gap, CAP times the mean), by rejection: a tree
# would need a lock.
CAP = 4.0
# Parts of the blocks: none; neighbours together, where these touch the same rows of v;
# every T-th block, so that each part is like the whole.
WHOLE, RANGES, COMBS = 0, 1, 2
TURNS = 4  # a worker looks around so often while it visits as many blocks as a part has
APART = 8  # words in a cache line
LOOK_AGAIN = 8  # at what others changed meanwhile, every so many steps
MEMORY = 0.95
FORGET = 0.02  # how fast the mean follows
TRIES = 16  # at blocks that others hold


class Team(NamedTuple):
    """What all workers share, besides v and the blocks."""

    control: np.ndarray
    owners: np.ndarray  # 1 while somebody holds the block
    gaps: np.ndarray  # of each block when last seen, for gap sampling
    order: np.ndarray  # of the blocks, for permutation sampling
    strides: np.ndarray  # prime to the number of blocks
    progress: np.ndarray  # turns taken in each part of the blocks
    locks: np.ndarray  # of rows or stripes of v, where one for all is too few


class Duty(NamedTuple):
    """What one worker is told for one slice."""

    me: int
    n_workers: int
    batch: int
    budget: int  # oracle calls of all workers
    repeats: tuple[int, int]  # each subproblem is solved so many times, at random
    return_probability: float
    workers_search: bool  # the paper's line search on the workers
    parts: int  # WHOLE, RANGES or COMBS: which blocks a worker draws from


@jit
def claim(team, plan, duty, tally, sums, rng):
    """Take a block that nobody holds, drawn as `plan.sampling` says; -1: all is over.

    A worker may hold blocks while it waits for more. Where others hold the rest of its
    part, it looks at all blocks: there are enough for everybody.
    """
    if tally[LEFT] <= 0:
        choose_part(team, duty, tally)
    tally[LEFT] -= 1
    owners, gaps = team.owners, team.gaps
    first, stride, count = tally[FIRST], tally[STRIDE], tally[COUNT_OF_PART]
    spins = 0
    while True:
        if plan.sampling == PERMUTATION:
            i = next_in_order(team)
        else:
            i = first + stride * int(rng.random() * count)
        if plan.sampling == GAP:
            mean, gap = sums[MEAN_GAP], max(gaps[i], 0.0)
            sums[MEAN_GAP] = mean + FORGET * (gap - mean)
            if max(gap, FLOOR * mean) < CAP * mean * rng.random():
                continue
        if compare_exchange(owners, i, 0, 1):
            return i
        relax(spins)
        spins += 1
        if spins % TRIES == 0:
            first, stride, count = 0, 1, owners.size
            if is_over(team):
                return -1


@jit
def choose_part(team, duty, tally):
    """Choose the blocks that the next draws of this worker come from.

    Worker t draws from part t, whose data stay in its cache, unless another part is
    left behind, because its worker is slow: then from that one.
    """
    n, T, progress = team.owners.size, duty.n_workers, team.progress
    part = duty.me
    if duty.parts == WHOLE:
        part, T = 0, 1
    else:
        least = load_acquire(progress, part * APART) - 1
        for t in range(T):
            turns = load_acquire(progress, t * APART)
            if turns < least:
                part, least = t, turns
        fetch_add(progress, part * APART, 1)
    if duty.parts == COMBS:
        tally[FIRST], tally[STRIDE] = part, T
        tally[COUNT_OF_PART] = (n - part + T - 1) // T
    else:
        tally[FIRST], tally[STRIDE] = part * n // T, 1
        tally[COUNT_OF_PART] = (part + 1) * n // T - part * n // T
    tally[LEFT] = 1 + tally[COUNT_OF_PART] // TURNS


@jit
def next_in_order(team):
    """Walk through the order; each round with another stride, prime to its length."""
    order, strides = team.order, team.strides
    n = order.size
    ticket = fetch_add(team.control, CURSOR, 1)
    turn, at = ticket // n, ticket % n
    return order[(at * strides[turn % strides.size] + turn) % n]


@jit
def disclaim(team, i):
    """Give a block back."""
    store_release(team.owners, i, 0)


@jit
def call_oracle(data, view, blocks, i, atom, work, plan, duty, rng, tally):
    """Solve block i, as often as it is hard; return why the atom is no good."""
    tally[AT] = i
    least, most = duty.repeats
    repeats = least
    if most > least:
        repeats += int(rng.random() * (most - least + 1))
    for _ in range(repeats):
        aim(data, view, blocks, i, atom, work, plan.exact)
    if HAS_CONTAINS and not contains(data, i, atom):
        return INFEASIBLE
    return DONE


@jit
def is_lost(duty, rng, tally):
    """Return whether a worker that plays late loses what it found."""
    if duty.return_probability < 1.0 and rng.random() >= duty.return_probability:
        tally[LOST] += 1
        return True
    return False


@jit
def halt(team, why, i):
    """Stop everybody, because of block i."""
    store_release(team.control, BLOCK, i)
    store_release(team.control, HALT, why)


@jit
def is_over(team):
    """Return whether somebody stopped the slice."""
    return load_acquire(team.control, HALT) != 0


@jit
def lacks_room(blocks, team, duty):
    """Stop everybody if the pool of atoms may not take what is on its way."""
    if has_room(blocks, duty.n_workers * duty.batch):
        return False
    compare_exchange(team.control, HALT, 0, GROW)
    return True


@jit
def report(team, duty, tally, fresh, count):
    """Count `count` calls; return how many are not in the common count yet."""
    tally[SOLVED] += count
    fresh += count
    if fresh >= min(AT_A_TIME, 1 + duty.budget // (8 * duty.n_workers)):
        before = fetch_add(team.control, CALLED, fresh)
        if before + fresh >= duty.budget:
            compare_exchange(team.control, HALT, 0, ENOUGH)
        fresh = 0
    return fresh


@jit
def note_delay(tally, delay):
    """Count an update that was computed `delay` versions ago."""
    delay = max(delay, 0)  # the histogram begins there
    tally[MADE] += 1
    tally[DELAYS] += delay
    tally[MAX_DELAY] = max(tally[MAX_DELAY], delay)
    tally[HISTOGRAM + min(delay, N_DELAYS - 1)] += 1


@jit
def is_too_late(tally, delay, version):
    """Drop what is older than half of all versions (Theorem 4's condition)."""
    if delay > version // 2:
        tally[DROPPED] += 1
        return True
    return False


@jit
def settle(blocks, team, i, atom, gamma):
    """Move block i, which the caller holds; the pool grows under a lock of its own."""
    if is_full(blocks, i):
        acquire(team.control, POOL, team.control, NEVER)
        move(blocks, i, atom, gamma)
        release(team.control, POOL)
    else:
        move(blocks, i, atom, gamma)


@jit
def damp(sums, full, fall, clash):
    """Learn how much others disturb a step, which promised `full` x `fall`."""
    sums[FALLS] = MEMORY * sums[FALLS] + full * fall
    sums[CLASHES] = MEMORY * sums[CLASHES] + full * clash
    if sums[FALLS] > 0.0:
        harm = sums[CLASHES] / sums[FALLS] / sums[DAMPING]
        sums[DAMPING] = 1.0 / (1.0 + max(0.0, harm))


@jit
def see_gap(team, plan, sums, i, gap):
    """Note the gap of block i for the estimate, and for gap sampling."""
    sums[GAP_SUM] += gap
    sums[GAPS_SEEN] += 1.0
    if plan.sampling == GAP:
        team.gaps[i] = max(gap, 0.0)


@jit
def is_finite(number):
    """Return whether a number is neither NaN nor infinite."""
    return abs(number) < np.inf
