"""Algorithm 3 of the paper: workers that write straight into the one v.

No copy of v, no lock on it, one block at a time: a step adds its change to v where that
is not zero. So it costs what it touches, however large v is. `lock-free` adds element
by element, atomically; `merge`, for problems whose blocks touch few rows of v, row by
row, each of which it locks for the few nanoseconds that this takes. With a line search
gamma is exact for v as it is when the oracle has returned; the few steps that other
workers make in that very moment are not in it. How much they disturb is measured by
looking again after the step, and steps are damped by it:

    eta = 1 / (1 + R),   R = (change of the slope by others) / (slope), at eta = 1

A v that is read while others write mixes versions, which the analysis of delays
(Theorem 4) does not cover.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.serial import DONE, NOT_A_NUMBER, meet_rows
from wolfpack.engines.shared_memory.worker import (
    APART,
    CALLED,
    DAMPING,
    LOOK_AGAIN,
    NEVER,
    STAMP,
    VERSION,
    call_oracle,
    claim,
    damp,
    disclaim,
    halt,
    is_finite,
    is_lost,
    is_over,
    is_too_late,
    lacks_room,
    note_delay,
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
from wolfpack.kernels.memory import CACHE_LINE, zeros
from wolfpack.kernels.simd import fetch, put
from wolfpack.kernels.slots import HAS_CURVATURE, QUADRATIC, curvature, slope
from wolfpack.kernels.specialise import entry, jit
from wolfpack.update.atoms import prepare, spread, trim
from wolfpack.update.steps import (
    CONSTANT,
    LINE,
    OPEN_LOOP,
    closed_form,
    line_search,
    open_loop,
)

AHEAD = 8  # rows that are asked for before their turn


class Own(NamedTuple):
    """What one worker of `direct` has for itself; see `serial.Scratch`."""

    atom: np.ndarray
    direction: np.ndarray
    rows: np.ndarray
    own_rows: np.ndarray
    stamps: np.ndarray
    cell: np.ndarray  # one number, in the precision of v

    @classmethod
    def create(cls, problem) -> "Own":
        """Make the memory of a worker."""
        shape, kind = problem.shared.shape, problem.shared.dtype
        sparse = problem.touched is not None
        return cls(
            atom=zeros(problem.atom_size, problem.start.dtype),
            direction=zeros(shape, kind),
            rows=np.arange(shape[0]),
            own_rows=zeros(problem.max_rows if sparse else 0, np.int64),
            stamps=zeros(shape[0] if sparse else 0, np.int64),
            cell=zeros(1, kind),
        )


@entry
def direct_worker(data, shared, blocks, team, mine, rng, tally, sums, work, plan, duty):
    """Step until enough calls are made in all, or somebody stops."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    team, mine, work = borrow(team), borrow(mine), borrow(work)
    tally, sums = borrow(tally), borrow(sums)
    control, direction = team.control, mine.direction
    fresh = 0
    while not is_over(team) and not lacks_room(blocks, team, duty):
        i = claim(team, plan, duty, tally, sums, rng)
        if i < 0:
            break
        atom = trim(blocks, i, mine.atom)
        seen = load_acquire(control, VERSION)
        ended = call_oracle(data, shared, blocks, i, atom, work, plan, duty, rng, tally)
        if ended == DONE and is_lost(duty, rng, tally):
            disclaim(team, i)
            continue
        if ended == DONE:  # an atom outside its set may lead outside an array
            gap = prepare(data, shared, blocks, i, atom, work)
            ended = ended if is_finite(gap) else NOT_A_NUMBER
        if ended != DONE:
            halt(team, ended, i)
            return
        tally[STAMP] += 1
        linear = spread(data, blocks, i, atom, 1.0, direction, work)
        n_rows = meet_rows(data, i, mine, 0, tally[STAMP], work)
        rows = mine.rows[:n_rows]
        version = fetch_add(control, VERSION, 1)
        if is_too_late(tally, version - seen, version):
            clear(direction, rows)
            disclaim(team, i)
            fresh = report(team, duty, tally, fresh, 1)
            continue
        bend = 0.0
        if plan.rule == LINE and HAS_CURVATURE:
            bend = curvature(data, blocks, i, atom, work)
        gamma = walk(
            data, shared, team, mine, rows, linear, bend, version, tally, sums, plan
        )
        clear(direction, rows)
        if not gamma >= 0.0:
            halt(team, NOT_A_NUMBER, i)
            return
        settle(blocks, team, i, atom, gamma)
        disclaim(team, i)
        see_gap(team, plan, sums, i, gap)
        note_delay(tally, version - seen)
        fresh = report(team, duty, tally, fresh, 1)
    fetch_add(control, CALLED, fresh)


@jit
def walk(data, shared, team, mine, rows, linear, bend, version, tally, sums, plan):
    """Move v along the direction; return gamma."""
    direction = mine.direction
    if plan.rule == OPEN_LOOP:
        gamma = open_loop(plan.n_blocks, 1, version)
        return add_to(shared, team, mine, rows, gamma)
    if plan.rule == CONSTANT:
        return add_to(shared, team, mine, rows, plan.step_size)
    if HAS_CURVATURE:
        fall = -slope(data, shared, direction, rows, 0.0) - linear
        full = closed_form(fall, bend)
    else:
        full, at_zero = line_search(data, shared, direction, rows, linear)
        fall = -at_zero
        bend = fall / full if full > 0.0 else 0.0
    eta = sums[DAMPING]
    gamma = add_to(shared, team, mine, rows, eta * full)
    if gamma > 0.0 and tally[STAMP] % LOOK_AGAIN == 0 and QUADRATIC:
        after = slope(data, shared, direction, rows, 0.0) + linear
        clash = after + fall - gamma * bend  # what others changed meanwhile
        damp(sums, full, fall, clash)
    return gamma


@jit
def add_to(shared, team, mine, rows, gamma):
    """Move v by gamma along the direction; return gamma."""
    if not gamma > 0.0:
        return gamma
    locks, cell = team.locks, mine.cell
    width = shared.size // len(shared)
    flat = shared.reshape(shared.size)
    change = mine.direction.reshape(shared.size)
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
        # Nothing can go wrong while a row is locked, so nobody has to give up waiting.
        lock = r * APART & locks.size - 1
        acquire(locks, lock, team.control, NEVER)
        for k in range(r * width, (r + 1) * width):
            put(flat, k, fetch(flat, k) + scale * fetch(change, k))
        release(locks, lock)
    return gamma


@jit
def ask_for(locks, flat, r, width):
    """Ask for a row of v and its lock."""
    prefetch_to_write(locks, r * APART & locks.size - 1)
    for k in range(r * width, (r + 1) * width, CACHE_LINE // flat.itemsize):
        prefetch(flat, k)


@jit
def clear(direction, rows):
    """Zero the direction where it is not."""
    width = direction.size // len(direction)
    change = direction.reshape(direction.size)
    zero = change.dtype.type(0.0)
    for r in rows:
        for k in range(r * width, (r + 1) * width):
            put(change, k, zero)
