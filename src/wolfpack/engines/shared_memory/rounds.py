"""The loop of `Sync`: rounds in which everybody waits for everybody.

Each of T workers solves tau / T subproblems against the same v; all meet; one step is
made along all tau blocks; all meet again. Sums are taken in a fixed order, so the same
seed gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.serial import DONE, GROW, NOT_A_NUMBER, meet_rows
from wolfpack.engines.shared_memory.worker import (
    APART,
    CALLED,
    ENOUGH,
    GAP_SUM,
    GAPS_SEEN,
    HALT,
    MADE,
    SOLVED,
    STAMP,
    WISH,
    call_oracle,
    halt,
    is_finite,
    is_lost,
    is_over,
    settle,
)
from wolfpack.kernels.atomics import PATIENCE, load_acquire, relax, store_release
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import HAS_ROWS
from wolfpack.kernels.specialise import entry, jit
from wolfpack.update.atoms import has_room, prepare, spread, trim
from wolfpack.update.sampling import GAP, draw, observe
from wolfpack.update.steps import CONSTANT, OPEN_LOOP, line_search, open_loop

MANY_SPINS = 4096
# Where everybody has a core, nobody naps: all would wait until it has woken up. They
# yield, for a few milliseconds. Where there are more workers than cores, those who wait
# soon leave theirs to the others.
LONG_WAIT, SHORT_WAIT = 65536, 0


class Round(NamedTuple):
    """What all workers of one update share."""

    chosen: np.ndarray
    atoms: np.ndarray
    gaps: np.ndarray
    linears: np.ndarray  # <c, d> of each worker
    directions: np.ndarray  # of each worker
    rows: np.ndarray  # which each of them touched
    n_rows: np.ndarray
    total: np.ndarray  # the joint direction
    total_rows: np.ndarray
    stamps: np.ndarray
    gamma: np.ndarray
    flags: np.ndarray  # of the barrier
    patience: np.ndarray  # spins before somebody may nap there

    @classmethod
    def create(cls, problem, tau: int, T: int, n_cores: int) -> "Round":
        """Make the memory of T workers that solve `tau` blocks together."""
        shape, kind = problem.shared.shape, problem.shared.dtype
        n_rows = shape[0] if problem.touched is not None else 0
        n_turns = max(1, (T - 1).bit_length())
        return cls(
            chosen=zeros(tau, np.int64),
            atoms=zeros((tau, problem.atom_size), problem.start.dtype),
            gaps=zeros(tau),
            linears=zeros(T),
            directions=zeros((T, *shape), kind),
            rows=zeros((T, n_rows), np.int64),
            n_rows=zeros(2 * T + 1, np.int64),
            total=zeros(shape, kind),
            total_rows=np.arange(shape[0]),
            stamps=zeros(n_rows, np.int64),
            gamma=zeros(1),
            flags=zeros(n_turns * T * APART, np.int64),
            patience=np.array([LONG_WAIT if n_cores >= T else SHORT_WAIT]),
        )


class Errand(NamedTuple):
    """What one worker of `Sync` has for itself; see `serial.meet_rows`."""

    chosen: np.ndarray
    rows: np.ndarray
    own_rows: np.ndarray
    stamps: np.ndarray

    @classmethod
    def create(cls, problem, now: Round, t: int) -> "Errand":
        """Make the memory of worker t."""
        n_rows, sparse = len(problem.shared), problem.touched is not None
        return cls(
            chosen=zeros(len(now.chosen), np.int64),
            rows=now.rows[t] if sparse else np.arange(n_rows),
            own_rows=zeros(problem.max_rows if sparse else 0, np.int64),
            stamps=zeros(n_rows if sparse else 0, np.int64),
        )


@entry
def sync_worker(
    data,
    shared,
    blocks,
    average,
    sampler,
    draws,
    team,
    now,
    mine,
    rng,
    tally,
    sums,
    work,
    plan,
    duty,
    first_update,
):
    """Make updates together until the leader, worker 0, says that it is enough."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, sampler, team, now = (
        borrow(average),
        borrow(sampler),
        borrow(team),
        borrow(now),
    )
    mine, work, tally, sums = borrow(mine), borrow(work), borrow(tally), borrow(sums)
    me, T, tau = duty.me, duty.n_workers, now.chosen.size
    first, last = me * tau // T, (me + 1) * tau // T
    k = first_update
    meeting = 1
    while True:
        if me == 0:
            if not has_room(blocks, tau):
                store_release(team.control, HALT, GROW)
            elif (
                load_acquire(team.control, WISH) != 0
                or (k - first_update) * tau >= duty.budget
            ):
                store_release(team.control, HALT, ENOUGH)
            else:
                draw(plan.sampling, sampler, draws, now.chosen)
        if not meet(now, team, me, T, meeting) or is_over(team):
            return
        tally[STAMP] += 1
        now.linears[me] = 0.0
        n_rows = 0
        for j in range(first, last):
            i = now.chosen[j]
            atom = trim(blocks, i, now.atoms[j])
            mine.chosen[j - first] = i  # the leader draws anew while others still move
            ended = call_oracle(
                data, shared, blocks, i, atom, work, plan, duty, rng, tally
            )
            while ended == DONE and is_late(team, duty, rng, tally):  # all wait
                ended = call_oracle(
                    data, shared, blocks, i, atom, work, plan, duty, rng, tally
                )
            if ended == DONE:  # an atom outside its set may lead outside an array
                gap = prepare(data, shared, blocks, i, atom, work)
                ended = ended if is_finite(gap) else NOT_A_NUMBER
            if ended != DONE:
                halt(team, ended, i)
                return
            now.gaps[j] = gap
            direction = now.directions[me]
            now.linears[me] += spread(data, blocks, i, atom, 1.0, direction, work)
            n_rows = meet_rows(data, i, mine, n_rows, tally[STAMP], work)
        now.n_rows[me] = n_rows
        if not meet(now, team, me, T, meeting + 1):
            return
        gather_rows(now, me, T, tally[STAMP])
        if not meet(now, team, me, T, meeting + 2):
            return
        if me == 0 and not lead(data, shared, now, sampler, tally, sums, plan, k):
            halt(team, NOT_A_NUMBER, now.chosen[0])
            return
        if not meet(now, team, me, T, meeting + 3):
            return
        gamma = now.gamma[0]
        spread_out(now, shared, average, gamma, 0.5 * gamma * k * (k + 1.0), me, T)
        for j in range(first, last):
            settle(blocks, team, mine.chosen[j - first], now.atoms[j], gamma)
        k += 1
        meeting += 4
        if me == 0:
            store_release(team.control, CALLED, (k - first_update) * tau)


@jit
def is_late(team, duty, rng, tally):
    """Return whether a worker has to solve again what it lost."""
    return is_lost(duty, rng, tally) and load_acquire(team.control, WISH) == 0


@jit
def meet(now, team, me, T, meeting):
    """Wait until all are here: a dissemination barrier, log2(T) rounds of flags.

    In round r everybody tells the one 2^r places on. Returns False if one never comes.
    """
    flags, patience = now.flags, now.patience[0]
    distance, turn = 1, 0
    while distance < T:
        other = (me + distance) % T
        store_release(flags, (turn * T + other) * APART, meeting)
        spins = 0
        while load_acquire(flags, (turn * T + me) * APART) < meeting:
            if spins % MANY_SPINS == 0 and failed(team):
                return False
            relax(spins if spins > patience else spins % PATIENCE)
            spins += 1
        distance *= 2
        turn += 1
    return True


@jit
def failed(team):
    """Return whether somebody left without coming to the next meeting."""
    why = load_acquire(team.control, HALT)
    return why != 0 and why != GROW and why != ENOUGH


@jit
def gather_rows(now, me, T, stamp):
    """Sum the directions of all workers over this worker's share of the rows."""
    total = now.total
    size, width = len(total), total.size // len(total)
    first, last = me * size // T, (me + 1) * size // T
    out = total.reshape((size, width))
    count = first
    for t in range(T):
        change = now.directions[t].reshape((size, width))
        n_rows = now.n_rows[t] if HAS_ROWS else last - first
        for m in range(n_rows):
            r = now.rows[t, m] if HAS_ROWS else first + m
            if r < first or r >= last:
                continue
            if HAS_ROWS and now.stamps[r] != stamp:
                now.stamps[r] = stamp
                now.total_rows[count] = r
                count += 1
            for c in range(width):
                out[r, c] += change[r, c]
                change[r, c] = 0.0
    now.n_rows[T + me] = count - first if HAS_ROWS else last - first


@jit
def lead(data, shared, now, sampler, tally, sums, plan, k):
    """Find the joint gamma; return False if it is not a number."""
    total, T = now.total, now.linears.size
    size, tau = len(total), now.chosen.size
    linear = 0.0
    count = 0
    for t in range(T):
        linear += now.linears[t]
        first = t * size // T
        for m in range(now.n_rows[T + t]):  # move the shares together
            now.total_rows[count] = now.total_rows[first + m]
            count += 1
    gamma = plan.step_size
    if plan.rule == OPEN_LOOP:
        gamma = open_loop(plan.n_blocks, tau, k)
    elif plan.rule != CONSTANT:
        gamma = line_search(data, shared, total, now.total_rows[:count], linear)[0]
    now.gamma[0] = gamma
    now.n_rows[2 * T] = count
    for j in range(tau):
        sums[GAP_SUM] += now.gaps[j]
        if plan.sampling == GAP:
            observe(sampler, now.chosen[j], now.gaps[j])
    sums[GAPS_SEEN] += tau
    tally[SOLVED] += tau
    tally[MADE] += 1
    return gamma >= 0.0


@jit
def spread_out(now, shared, average, gamma, weight, me, T):
    """Move v along this worker's share of the rows, and clear them."""
    total = now.total
    size, width = len(total), total.size // len(total)
    change, target = total.reshape((size, width)), shared.reshape((size, width))
    mean = average.reshape((len(average), width))
    count = now.n_rows[2 * T]
    for m in range(me * count // T, (me + 1) * count // T):
        r = now.total_rows[m]
        for c in range(width):
            target[r, c] += gamma * change[r, c]
            if len(average) > 0:
                mean[r, c] += weight * change[r, c]
            change[r, c] = 0.0
