"""Which block a worker visits next.

The blocks are divided into parts, one a worker, so that a worker meets the same data
again in its cache. Counters that threads share stand a cache line apart.
"""

from wolfpack.kernels.atomics import fetch_add, load_acquire
from wolfpack.kernels.compile import jit
from wolfpack.update.sampling import AWAKE, CYCLIC, FLOOR, GAP, PERMUTATION, SWEEP

# The part of the blocks that a worker draws from. WHOLE: all blocks. RANGES: blocks in
# a row, which touch the same rows of v. COMBS: every T-th block, so that each part is
# like the whole.
WHOLE, RANGES, COMBS = 0, 1, 2
TURNS = 4  # a worker chooses a part anew after 1 / TURNS of the part's blocks
APART = 8  # words in a cache line
# Gap sampling draws in proportion to min(gap, CAP times the mean), and by rejection,
# because a tree would need a lock.
CAP = 4.0
FORGET = 0.02  # the weight of the last gap in the mean of gap sampling
MOST_DRAWS = 64  # tries to find a block that is awake, before any block is taken


@jit
def choose(team, plan, task, tally, rng):
    """Return a block as `plan.sampling` says; another worker may hold it."""
    if plan.sampling == CYCLIC:
        return next_in_sweep(team, task, tally)
    take_turn(team, task, tally)
    i = pick(team, plan, tally, rng, tally.first, tally.stride, tally.count)
    look_back(team, plan, tally, i)
    return i


@jit
def look_back(team, plan, tally, i):
    """Remember the gap by which block i was drawn: its new one counts by that.

    Read here, it comes while the block is solved; beside the write it is waited for.
    """
    if plan.sampling == GAP and plan.reach < 1.0:
        tally.before = team.gaps[i]


@jit
def pick(team, plan, tally, rng, first, stride, count):
    """Draw one of `count` blocks, or take the next one of the common order."""
    if plan.sampling == AWAKE:
        return pick_awake(team, rng, first, stride, count)
    while True:
        sweeps = plan.sampling == GAP and plan.reach < 1.0 and rng.random() < SWEEP
        if plan.sampling == PERMUTATION or sweeps:
            return next_in_order(team)
        i = first + stride * int(rng.random() * count)
        if plan.sampling != GAP:
            return i
        mean, gap = tally.mean_gap, max(team.gaps[i], 0.0)
        tally.mean_gap = mean + FORGET * (gap - mean)
        if max(gap, FLOOR * mean) >= CAP * mean * rng.random():
            return i


@jit
def pick_awake(team, rng, first, stride, count):
    """Draw a block that is awake, or take the next one of the common order."""
    if rng.random() >= SWEEP:
        for _ in range(MOST_DRAWS):
            i = first + stride * int(rng.random() * count)
            if team.gaps[i] > 0.0:
                return i
    return next_in_order(team)


@jit
def take_turn(team, task, tally):
    """Count a draw of this worker; after some of them it chooses a part anew."""
    if tally.left <= 0:
        choose_part(team, task, tally)
    tally.left -= 1


@jit
def next_in_sweep(team, task, tally):
    """Return the next block of this worker's sweep.

    A part is swept forward in TURNS stretches, and then back. Every turn in a part, by
    any worker, takes its next stretch, so a worker that helps in the part of a slow one
    sweeps the stretch after that of the slow one.
    """
    while tally.left <= 0:  # a part of few blocks has empty stretches
        turn = choose_part(team, task, tally) % (2 * TURNS)
        is_back = turn >= TURNS
        stretch = 2 * TURNS - 1 - turn if is_back else turn
        low = tally.first + stretch * tally.count // TURNS
        high = tally.first + (stretch + 1) * tally.count // TURNS
        tally.first, tally.stride = low, 1
        if is_back:
            tally.first, tally.stride = high - 1, -1
        tally.count = tally.left = high - low
    tally.left -= 1
    return tally.first + tally.stride * (tally.count - 1 - tally.left)


@jit
def choose_part(team, task, tally):
    """Choose the blocks that the next draws of this worker come from.

    Worker t draws from part t, whose data stay in its cache. Where another part has had
    fewer turns, because its worker is slow, worker t draws from that part instead.
    Returns how many turns that part has had.
    """
    n, T, progress = team.owners.size, task.n_workers, team.progress
    part = task.me
    turn = 0
    if task.parts == WHOLE:
        part, T = 0, 1
    else:
        least = load_acquire(progress, part * APART) - 1
        for t in range(T):
            turns = load_acquire(progress, t * APART)
            if turns < least:
                part, least = t, turns
        turn = fetch_add(progress, part * APART, 1)
    if task.parts == COMBS:
        tally.first, tally.stride = part, T
        tally.count = (n - part + T - 1) // T
    else:
        tally.first, tally.stride = part * n // T, 1
        tally.count = (part + 1) * n // T - part * n // T
    tally.left = 1 + tally.count // TURNS
    return turn


@jit
def next_in_order(team):
    """Return the next block of the order; each pass has its own stride, prime to n."""
    order, strides = team.order, team.strides
    n = order.size
    ticket = fetch_add(team.cursor, 0, 1)
    turn, at = ticket // n, ticket % n
    return order[(at * strides[turn % strides.size] + turn) % n]
