"""`merge`: workers step on private copies of v, and put them together exactly.

A worker takes B blocks that no other worker holds and moves each in a draft x', against
a private copy of v. Then it merges under a lock, with one exact line search along all
that it changed,

    theta = argmin over [0, 1] of f(x + theta (x' - x)),   v <- v + theta A (x' - x)

against the newest v. Its blocks are blended, x_(i) <- x_(i) + theta (x'_(i) - x_(i)),
so any number of moves of any kind merges exactly. f never rises, whatever other workers
did meanwhile; adding the changes without the search diverges from a few threads on.

Where v is large, moving it under one lock takes too long (10 ns a cache line from core
to core). Then v is locked by stripes and several workers merge at once, so theta does
not know what others add between the search and the writing. It is damped by how much
that was in earlier merges, as in `rows`.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.shared_memory.copies import (
    add_and_copy,
    add_by_stripes,
    flatten,
    pull,
    subtract,
)
from wolfpack.engines.shared_memory.seats import is_called, obey
from wolfpack.engines.shared_memory.worker import (
    LOOK_AGAIN,
    claim,
    damp,
    disclaim,
    halt,
    is_lost,
    is_over,
    lacks_room,
    play_visit,
    report,
    see_gap,
)
from wolfpack.kernels.atomics import acquire, fetch_add, prefetch, release
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, glue, jit
from wolfpack.kernels.memory import CACHE_LINE, zeros
from wolfpack.kernels.slots import (
    HAS_CURVATURE,
    QUADRATIC,
    begin_draft,
    blend,
    curvature,
    is_draft_full,
    shift_draft,
    slope,
    spread,
)
from wolfpack.update.direction import Direction
from wolfpack.update.inbox import note_delay
from wolfpack.update.plan import Exit
from wolfpack.update.steps import LINE, closed_form, scheduled, search


class MergeMemory(NamedTuple):
    """The private memory of one worker."""

    chosen: np.ndarray  # the blocks that it holds
    atom: np.ndarray
    shared: np.ndarray  # the private v
    base: np.ndarray  # the common v as it was at the last merge
    direction: Direction  # the change of v since then
    trial: np.ndarray  # the change by one block, where the problem has no curvature
    cell: np.ndarray  # one number, in the precision of v

    @classmethod
    def create(cls, problem, size: int) -> "MergeMemory":
        """Make the memory of a worker that takes up to `size` blocks at a time."""
        shape, kind = problem.shared.shape, problem.shared.dtype
        alone = (0, *shape[1:]) if problem.curvature is not None else shape
        return cls(
            chosen=zeros(size, np.int64),
            atom=zeros(problem.atom_size, problem.start.dtype),
            shared=zeros(shape, kind),
            base=zeros(shape, kind),
            direction=Direction.create(problem),
            trial=zeros(alone, kind),
            cell=zeros(1, kind),
        )


@entry
def merge_worker(
    data, shared, blocks, draft, team, memory, rng, tally, work, plan, task
):
    """Run one slice after the other, until this worker is sent away."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    draft, team = borrow(draft), borrow(team)
    memory, work = borrow(memory), borrow(work)
    while True:
        plan, task = obey(team, plan, task)
        run_merge(
            data, shared, blocks, draft, team, memory, rng, tally, work, plan, task
        )
        if not is_called(team.seats, task.me):
            return


@glue
def run_merge(data, shared, blocks, draft, team, memory, rng, tally, work, plan, task):
    """Step and merge until the calls of the slice are made, or a worker stops it."""
    chosen, own, direction = memory.chosen, memory.shared, memory.direction
    batch = task.batch
    target = direction.values if batch == 1 else own
    # Where a merge has one block, the search of the merge is that of the block.
    is_single = batch == 1 and QUADRATIC and plan.rule == LINE
    seen = pull(shared, memory, team)
    fresh = 0
    while seen >= 0 and not is_over(team) and not lacks_room(blocks, team, task):
        linear, promise, bend = 0.0, 0.0, 0.0
        count = 0
        while count < batch:
            i = claim(team, plan, task, tally, rng)
            if i < 0:
                return
            atom, move, gap, seen_gap, ended = play_visit(
                data, own, blocks, i, memory.atom, work, plan, task, rng, tally
            )
            if ended != Exit.DONE:
                halt(team, ended, i)
                return
            if is_lost(task, rng, tally):
                disclaim(team, i)
                if is_over(team):
                    break
                continue
            gamma = 1.0
            if not is_single:
                gamma, bend = step(data, memory, i, move, gap, work, plan)
            elif HAS_CURVATURE:
                bend = plan.reach * curvature(data, i, move, work)
            if not gamma >= 0.0:
                halt(team, Exit.NOT_A_NUMBER, i)
                return
            scale = plan.reach * gamma
            linear += spread(data, i, move, scale, target, work)
            keep_draft(data, blocks, draft, team, count, i, atom, gamma)
            bend *= gamma * gamma
            if not is_single:
                promise += gamma * gap - 0.5 * bend
            chosen[count] = i
            see_gap(team, plan, tally, i, seen_gap)
            count += 1
            if is_over(team):  # merge the blocks moved so far
                break
        if count == 0:
            break
        if batch > 1:
            subtract(own, memory.base, direction.values)
        if QUADRATIC and not (HAS_CURVATURE and batch == 1):
            # The curvature of a quadratic g is the same at every v: no lock is needed.
            bend = slope(data, own, direction.values, direction.rows, 1.0)
            bend -= slope(data, own, direction.values, direction.rows, 0.0)
            bend /= plan.reach
        if is_single:
            gamma = closed_form(gap, bend)
            promise = gamma * (gap - 0.5 * gamma * bend)
        theta, version = merge_into(
            data, shared, memory, linear, bend, team, tally, plan, task
        )
        if not theta >= 0.0:
            if theta == theta:  # the slice is over
                break
            halt(team, Exit.NOT_A_NUMBER, chosen[0])
            return
        tally.promised += promise
        note_delay(tally, version - seen)
        seen = version + 1
        for j in range(count):
            blend(blocks, draft, j, chosen[j], theta)
            disclaim(team, chosen[j])
        fresh = report(team, task, tally, fresh, count)
    fetch_add(team.called, 0, fresh)


@jit
def step(data, memory, i, move, gap, work, plan):
    """Return gamma for block i on the private v, and the curvature on the way."""
    if HAS_CURVATURE:
        bend = plan.reach * curvature(data, i, move, work)
        if plan.rule == LINE:
            return closed_form(gap, bend), bend
        return scheduled(plan, 1, 0), bend
    if plan.rule != LINE:
        return scheduled(plan, 1, 0), 0.0
    trial, rows = memory.trial, memory.direction.rows
    linear = spread(data, i, move, plan.reach, trial, work)
    gamma, _, bend = search(data, memory.shared, trial, rows, linear, 0.0, False)
    trial[...] = 0.0
    return gamma, bend / plan.reach


@jit
def keep_draft(data, blocks, draft, team, k, i, atom, gamma):
    """Move block i in the draft only; a list that must grow takes the pool's lock."""
    begin_draft(blocks, draft, k, i)
    if is_draft_full(blocks, draft, k, i):
        acquire(team.pool, 0, team.never, 0)
        shift_draft(data, blocks, draft, k, i, atom, gamma)
        release(team.pool, 0)
    else:
        shift_draft(data, blocks, draft, k, i, atom, gamma)


@jit
def merge_into(data, shared, memory, linear, bend, team, tally, plan, task):
    """Add theta times the private change to v; return theta, and the version of v.

    theta is -1, and v stays as it is, where the slice was over before.
    """
    cell, rows, values = memory.cell, memory.direction.rows, memory.direction.values
    flat, own = flatten(shared), flatten(memory.shared)
    base, change = flatten(memory.base), flatten(values)
    striped = team.locks.size > 0
    if not striped and not acquire(team.lock, 0, team.halt, 0):
        return -1.0, 0
    for k in range(0, flat.size, CACHE_LINE // cell.itemsize):
        prefetch(flat, k)
    bend *= plan.reach  # the change of v is `reach` times A (x' - x)
    theta, fall, bend = search(data, shared, values, rows, linear, bend, QUADRATIC)
    tally.kept += theta * (fall - 0.5 * theta * bend) / plan.reach
    if striped:
        full, theta = theta, theta * tally.damping
        version = fetch_add(team.version, 0, 1)
        cell[0] = theta
        add_by_stripes(flat, change, cell[0], own, team, task)
        tally.stamp += 1
        if tally.stamp % LOOK_AGAIN == 0 and QUADRATIC:
            after = slope(data, memory.shared, values, rows, 0.0) + linear
            damp(tally, full, fall, after + fall - theta * bend)
    else:
        version = team.version[0]
        team.version[0] = version + 1
        cell[0] = theta
        add_and_copy(flat, change, cell[0], own, 0, flat.size)
        release(team.lock, 0)
    if task.batch > 1:
        for k in range(own.size):
            base[k] = own[k]
    else:
        for k in range(own.size):
            change[k] = 0.0
    return theta, version
