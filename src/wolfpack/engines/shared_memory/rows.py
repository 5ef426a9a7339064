"""Workers that write into the common v: Algorithm 3 of the paper, and row by row.

There is no copy of v and no lock on all of it. A step moves one block and adds its
change to v where that is not zero, so its cost does not depend on the size of v.
`lock-free` adds element by element, atomically. `merge`, where blocks touch few rows of
v, adds row by row, and locks each row for the few nanoseconds that this takes. The line
search is exact for v as it is when the oracle has returned, and does not know the steps
that other workers make between the search and the writing. Their effect is measured by
a second look at the slope after the step, and steps are damped by it:

    eta = 1 / (1 + R),   R = (change of the slope by others) / (slope), at eta = 1

A v that is read while others write mixes versions, which the analysis of delays
(Theorem 4) does not cover.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.shared_memory.seats import is_called, obey
from wolfpack.engines.shared_memory.worker import (
    APART,
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
    settle,
)
from wolfpack.kernels.atomics import (
    acquire,
    fetch_add,
    load_acquire,
    prefetch,
    prefetch_to_write,
    release,
)
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, glue, jit
from wolfpack.kernels.memory import CACHE_LINE, zeros
from wolfpack.kernels.simd import fetch, put
from wolfpack.kernels.slots import HAS_CURVATURE, QUADRATIC, curvature, slope
from wolfpack.update.direction import Direction, lay_out
from wolfpack.update.inbox import is_too_late, note_delay
from wolfpack.update.plan import Exit
from wolfpack.update.steps import LINE, scheduled, search

AHEAD = 8  # rows that are prefetched before their turn


class RowsMemory(NamedTuple):
    """The private memory of one worker."""

    atom: np.ndarray
    direction: Direction
    cell: np.ndarray  # one number, in the precision of v

    @classmethod
    def create(cls, problem) -> "RowsMemory":
        """Make the memory of a worker."""
        return cls(
            atom=zeros(problem.atom_size, problem.start.dtype),
            direction=Direction.create(problem),
            cell=zeros(1, problem.shared.dtype),
        )


@entry
def rows_worker(data, shared, blocks, team, memory, rng, tally, work, plan, task):
    """Run one slice after the other, until this worker is sent away."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    team, memory, work = borrow(team), borrow(memory), borrow(work)
    while True:
        plan, task = obey(team, plan, task)
        run_rows(data, shared, blocks, team, memory, rng, tally, work, plan, task)
        if not is_called(team.seats, task.me):
            return


@glue
def run_rows(data, shared, blocks, team, memory, rng, tally, work, plan, task):
    """Step until the calls of the slice are made, or a worker stops it."""
    direction = memory.direction
    fresh = 0
    while not is_over(team) and not lacks_room(blocks, team, task):
        i = claim(team, plan, task, tally, rng)
        if i < 0:
            break
        seen = load_acquire(team.version, 0)
        atom, move, _, gap, ended = play_visit(
            data, shared, blocks, i, memory.atom, work, plan, task, rng, tally
        )
        if ended != Exit.DONE:
            halt(team, ended, i)
            return
        if is_lost(task, rng, tally):
            disclaim(team, i)
            continue
        tally.stamp += 1
        linear, n_rows = lay_out(
            data, i, move, plan.reach, direction, 0.0, 0, tally.stamp, work
        )
        rows = direction.rows[:n_rows]
        version = fetch_add(team.version, 0, 1)
        if is_too_late(tally, version - seen, version):
            clear(direction.values, rows)
            disclaim(team, i)
            fresh = report(team, task, tally, fresh, 1)
            continue
        bend = 0.0
        if plan.rule == LINE and HAS_CURVATURE:
            bend = plan.reach * plan.reach * curvature(data, i, move, work)
        gamma = step_in_rows(
            data, shared, team, memory, rows, linear, bend, version, tally, plan
        )
        clear(direction.values, rows)
        if not gamma >= 0.0:
            halt(team, Exit.NOT_A_NUMBER, i)
            return
        settle(data, blocks, team, i, atom, gamma)
        disclaim(team, i)
        see_gap(team, plan, tally, i, gap)
        note_delay(tally, version - seen)
        fresh = report(team, task, tally, fresh, 1)
    fetch_add(team.called, 0, fresh)


@jit
def step_in_rows(data, shared, team, memory, rows, linear, bend, version, tally, plan):
    """Move v along the direction; return gamma."""
    if plan.rule != LINE:
        return add_to(shared, team, memory, rows, scheduled(plan, 1, version))
    values = memory.direction.values
    full, fall, bend = search(data, shared, values, rows, linear, bend, HAS_CURVATURE)
    gamma = add_to(shared, team, memory, rows, tally.damping * full)
    if gamma > 0.0 and tally.stamp % LOOK_AGAIN == 0 and QUADRATIC:
        after = slope(data, shared, values, rows, 0.0) + linear
        damp(tally, full, fall, after + fall - gamma * bend)
    return gamma


@jit
def add_to(shared, team, memory, rows, gamma):
    """Move v by gamma along the direction; return gamma."""
    if not gamma > 0.0:
        return gamma
    locks, cell = team.locks, memory.cell
    width = shared.size // len(shared)
    flat = shared.reshape(shared.size)
    change = memory.direction.values.reshape(shared.size)
    cell[0] = gamma
    scale = cell[0]
    if locks.size == 0:
        for r in rows:
            for k in range(r * width, (r + 1) * width):
                if fetch(change, k) != 0.0:
                    fetch_add(flat, k, scale * fetch(change, k))
        return gamma
    for j in range(min(AHEAD, len(rows))):
        ask_for(locks, flat, rows[j], width)
    for j in range(len(rows)):
        r = rows[j]
        if j + AHEAD < len(rows):
            ask_for(locks, flat, rows[j + AHEAD], width)
        # The holder of a row always releases it, so waiting for it cannot fail.
        lock = r * APART & locks.size - 1
        acquire(locks, lock, team.never, 0)
        for k in range(r * width, (r + 1) * width):
            put(flat, k, fetch(flat, k) + scale * fetch(change, k))
        release(locks, lock)
    return gamma


@jit
def ask_for(locks, flat, r, width):
    """Prefetch a row of v and its lock."""
    prefetch_to_write(locks, r * APART & locks.size - 1)
    for k in range(r * width, (r + 1) * width, CACHE_LINE // flat.itemsize):
        prefetch(flat, k)


@jit
def clear(values, rows):
    """Set the direction to zero in `rows`, the only rows where it is not."""
    width = values.size // len(values)
    change = values.reshape(values.size)
    zero = change.dtype.type(0.0)
    for r in rows:
        for k in range(r * width, (r + 1) * width):
            put(change, k, zero)
