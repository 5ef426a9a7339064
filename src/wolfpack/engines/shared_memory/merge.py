"""`merge`: workers step on private copies of v, and put them together exactly.

A worker takes B blocks that nobody else holds, steps on each against a private copy of
v, and then merges under a lock, with one exact line search along all that it changed,

    theta = argmin over [0, 1] of f(x + theta d),   v <- v + theta A d

against the v of that moment. Its blocks move by theta gamma_i. So f never rises,
whatever the others did meanwhile; adding without the search diverges from a few
threads on.

Where v is large, moving it under one lock takes too long (10 ns a cache line from core
to core). Then v is locked by stripes, several workers merge at once, and theta misses
what the others add in that very moment; it is damped by how much that was before, as
in `direct`.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.serial import DONE, NOT_A_NUMBER
from wolfpack.engines.shared_memory.worker import (
    APART,
    CALLED,
    DAMPING,
    HALT,
    KEPT,
    LOCK,
    LOOK_AGAIN,
    NEVER,
    PROMISED,
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
    lacks_room,
    note_delay,
    report,
    see_gap,
    settle,
)
from wolfpack.kernels.atomics import acquire, fetch_add, prefetch, release
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.memory import CACHE_LINE, zeros
from wolfpack.kernels.simd import fill, load, multiply_add, store
from wolfpack.kernels.slots import HAS_CURVATURE, QUADRATIC, curvature, slope
from wolfpack.kernels.specialise import entry, jit
from wolfpack.update.atoms import prepare, spread, trim
from wolfpack.update.steps import CONSTANT, closed_form, line_search

WIDE = 32  # numbers moved at a time
STRIPE = 1024  # numbers under one lock, where v is large


class Mine(NamedTuple):
    """What one worker of `merge` has for itself."""

    chosen: np.ndarray
    atoms: np.ndarray
    gammas: np.ndarray
    shared: np.ndarray  # its own v
    base: np.ndarray  # v as it was when last pulled
    direction: np.ndarray  # what it wants to change in v
    trial: np.ndarray  # the same for one block, where there is no curvature
    rows: np.ndarray
    cell: np.ndarray  # one number, in the precision of v

    @classmethod
    def create(cls, problem, size: int) -> "Mine":
        """Make the memory of a worker that takes up to `size` blocks at a time."""
        shape, kind = problem.shared.shape, problem.shared.dtype
        alone = (0, *shape[1:]) if problem.curvature is not None else shape
        return cls(
            chosen=zeros(size, np.int64),
            atoms=zeros((size, problem.atom_size), problem.start.dtype),
            gammas=zeros(size),
            shared=zeros(shape, kind),
            base=zeros(shape, kind),
            direction=zeros(shape, kind),
            trial=zeros(alone, kind),
            rows=np.arange(shape[0]),
            cell=zeros(1, kind),
        )


@entry
def merge_worker(data, shared, blocks, team, mine, rng, tally, sums, work, plan, duty):
    """Step and merge until enough calls are made in all, or somebody stops."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    team, mine, work = borrow(team), borrow(mine), borrow(work)
    tally, sums = borrow(tally), borrow(sums)
    chosen, atoms, gammas = mine.chosen, mine.atoms, mine.gammas
    direction, own = mine.direction, mine.shared
    batch = duty.batch
    target = direction if batch == 1 else own
    # The only block of a merge needs no search of its own.
    whole = batch == 1 and QUADRATIC and plan.rule != CONSTANT
    seen = pull(shared, mine, team)
    fresh = 0
    while seen >= 0 and not is_over(team) and not lacks_room(blocks, team, duty):
        linear, promise, bend = 0.0, 0.0, 0.0
        count = 0
        while count < batch:
            i = claim(team, plan, duty, tally, sums, rng)
            if i < 0:
                return
            atom = trim(blocks, i, atoms[count])
            ended = call_oracle(
                data, own, blocks, i, atom, work, plan, duty, rng, tally
            )
            if ended == DONE and is_lost(duty, rng, tally):
                disclaim(team, i)
                if is_over(team):
                    break
                continue
            gap, gamma = np.nan, -1.0
            if ended == DONE:  # an atom outside its set may lead outside an array
                gap = prepare(data, own, blocks, i, atom, work)
            if is_finite(gap):
                gamma = 1.0
                if not whole:
                    gamma, bend = step(data, blocks, mine, i, atom, gap, work, plan)
                elif HAS_CURVATURE:
                    bend = curvature(data, blocks, i, atom, work)
            if not gamma >= 0.0:
                halt(team, ended if ended != DONE else NOT_A_NUMBER, i)
                return
            linear += spread(data, blocks, i, atom, gamma, target, work)
            bend *= gamma * gamma
            if not whole:
                promise += gamma * gap - 0.5 * bend
            chosen[count], gammas[count] = i, gamma
            see_gap(team, plan, sums, i, gap)
            count += 1
            if is_over(team):  # merge what there is
                break
        if count == 0:
            break
        if batch > 1:
            subtract(own, mine.base, direction)
        if QUADRATIC and not (HAS_CURVATURE and batch == 1):
            # The curvature needs no v, and so no lock.
            bend = slope(data, own, direction, mine.rows, 1.0)
            bend -= slope(data, own, direction, mine.rows, 0.0)
        if whole:
            gamma = closed_form(gap, bend)
            promise = gamma * (gap - 0.5 * gamma * bend)
        theta, version = merge(
            data, shared, mine, linear, bend, team, tally, sums, duty
        )
        if not theta >= 0.0:
            if theta == theta:  # somebody else stopped it
                break
            halt(team, NOT_A_NUMBER, chosen[0])
            return
        sums[PROMISED] += promise
        note_delay(tally, version - seen)
        seen = version + 1
        for j in range(count):
            settle(blocks, team, chosen[j], atoms[j], theta * gammas[j])
            disclaim(team, chosen[j])
        fresh = report(team, duty, tally, fresh, count)
    fetch_add(team.control, CALLED, fresh)


@jit
def step(data, blocks, mine, i, atom, gap, work, plan):
    """Return gamma for block i on the private v, and the curvature along it."""
    if HAS_CURVATURE:
        bend = curvature(data, blocks, i, atom, work)
        if plan.rule == CONSTANT:
            return plan.step_size, bend
        return closed_form(gap, bend), bend
    if plan.rule == CONSTANT:
        return plan.step_size, 0.0
    trial = mine.trial
    linear = spread(data, blocks, i, atom, 1.0, trial, work)
    gamma, at_zero = line_search(data, mine.shared, trial, mine.rows, linear)
    trial[...] = 0.0
    # Where gamma < 1 the slope vanishes there; at 1 the curvature is at most this.
    return gamma, -at_zero / gamma if gamma > 0.0 else 0.0


@jit
def flatten(array):
    """View an array as one row of numbers."""
    return array.reshape(array.size)


@jit
def subtract(own, base, direction):
    """Direction <- own - base."""
    left, right, change = flatten(own), flatten(base), flatten(direction)
    whole = change.size - change.size % WIDE
    minus = fill(change.dtype.type(-1.0), WIDE)
    for k in range(0, whole, WIDE):
        store(change, k, multiply_add(minus, load(right, k, WIDE), load(left, k, WIDE)))
    for k in range(whole, change.size):
        change[k] = left[k] - right[k]


@jit
def merge(data, shared, mine, linear, bend, team, tally, sums, duty):
    """Add the private change to v as far as it helps; return theta, and the version.

    theta is -1 where the run was stopped before.
    """
    control, cell, whole = team.control, mine.cell, mine.direction
    flat, own = flatten(shared), flatten(mine.shared)
    base, change = flatten(mine.base), flatten(whole)
    striped = team.locks.size > 0
    if not striped and not acquire(control, LOCK, control, HALT):
        return -1.0, 0
    for k in range(0, flat.size, CACHE_LINE // cell.itemsize):
        prefetch(flat, k)
    if QUADRATIC:
        fall = -slope(data, shared, whole, mine.rows, 0.0) - linear
        theta = closed_form(fall, bend)
    else:
        theta, at_zero = line_search(data, shared, whole, mine.rows, linear)
        fall = -at_zero
        bend = fall / theta if theta > 0.0 else 0.0
    sums[KEPT] += theta * (fall - 0.5 * theta * bend)
    if striped:
        full, theta = theta, theta * sums[DAMPING]
        version = fetch_add(control, VERSION, 1)
        cell[0] = theta
        add_by_stripes(flat, change, cell[0], own, team.locks, control, duty)
        tally[STAMP] += 1
        if tally[STAMP] % LOOK_AGAIN == 0 and QUADRATIC:
            after = slope(data, mine.shared, whole, mine.rows, 0.0) + linear
            damp(sums, full, fall, after + fall - theta * bend)
    else:
        version = control[VERSION]
        control[VERSION] = version + 1
        cell[0] = theta
        add_and_copy(flat, change, cell[0], own, 0, flat.size)
        release(control, LOCK)
    if duty.batch > 1:
        for k in range(own.size):
            base[k] = own[k]
    else:
        for k in range(own.size):
            change[k] = 0.0
    return theta, version


@jit
def add_by_stripes(flat, change, scale, own, locks, control, duty):
    """V <- v + scale change, stripe by stripe; each worker starts at another one."""
    n = -(-flat.size // STRIPE)
    first = duty.me * n // duty.n_workers
    for k in range(n):
        at = (first + k) % n
        # Nothing can go wrong while a stripe is locked: nobody has to give up waiting.
        lock = at * APART & locks.size - 1
        acquire(locks, lock, control, NEVER)
        end = min((at + 1) * STRIPE, flat.size)
        add_and_copy(flat, change, scale, own, at * STRIPE, end)
        release(locks, lock)


@jit
def add_and_copy(flat, change, scale, own, begin, end):
    """V <- v + scale change between two places, and the private v with it."""
    whole = end - (end - begin) % WIDE
    factor = fill(scale, WIDE)
    for k in range(begin, whole, WIDE):
        new = multiply_add(factor, load(change, k, WIDE), load(flat, k, WIDE))
        store(flat, k, new)
        store(own, k, new)
    for k in range(whole, end):
        flat[k] += scale * change[k]
        own[k] = flat[k]


@jit
def pull(shared, mine, team):
    """Copy v into the private one; return its version, or -1 if it is all over."""
    if not acquire(team.control, LOCK, team.control, HALT):
        return -1
    version = team.control[VERSION]
    flat, own, base = flatten(shared), flatten(mine.shared), flatten(mine.base)
    change = flatten(mine.direction)
    for k in range(flat.size):
        own[k] = flat[k]
    release(team.control, LOCK)
    for k in range(flat.size):
        base[k] = own[k]
        change[k] = 0.0
    return version
