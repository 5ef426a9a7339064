"""The loop of `Sync`: rounds in which every worker waits for every other.

Each of T workers solves tau / T subproblems against the same v, and all meet at a
barrier; one step is made along all tau blocks, and all meet again. Sums are taken in a
fixed order, so the same seed gives the same bits.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.shared_memory.seats import is_called, obey
from wolfpack.engines.shared_memory.worker import (
    APART,
    halt,
    is_lost,
    is_over,
    play_visit,
    settle,
)
from wolfpack.kernels.atomics import PATIENCE, load_acquire, relax, store_release
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, glue, jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import HAS_ROWS, has_room
from wolfpack.update.batch import Batch, note_gaps, weigh
from wolfpack.update.direction import Direction, lay_out, write
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import draw
from wolfpack.update.steps import jointly

MANY_SPINS = 4096
# Where each worker has a core, a worker that waits yields for a few milliseconds and
# does not sleep: all wait at the barrier, so one late wake-up delays them all. Where
# there are more workers than cores, a worker that waits soon leaves its core to others.
LONG_WAIT, SHORT_WAIT = 65536, 0


class Round(NamedTuple):
    """What the workers of one update share."""

    batch: Batch  # its direction is the sum of those of the workers
    linears: np.ndarray  # <c, d> of each worker
    directions: np.ndarray  # of each worker
    rows: np.ndarray  # that each worker touched
    n_rows: np.ndarray  # of each worker, then of each share of v, then of all
    gamma: np.ndarray
    flags: np.ndarray  # of the barrier
    patience: np.ndarray  # spins at the barrier before a worker may sleep

    @classmethod
    def create(cls, problem, tau: int, T: int, n_cores: int) -> "Round":
        """Make the memory of T workers that solve `tau` blocks together."""
        shape, kind = problem.shared.shape, problem.shared.dtype
        n_rows = shape[0] if problem.touched is not None else 0
        n_turns = max(1, (T - 1).bit_length())
        return cls(
            batch=Batch.create(problem, tau),
            linears=zeros(T),
            directions=zeros((T, *shape), kind),
            rows=zeros((T, n_rows), np.int64),
            n_rows=zeros(2 * T + 1, np.int64),
            gamma=zeros(1),
            flags=zeros(n_turns * T * APART, np.int64),
            patience=np.array([LONG_WAIT if n_cores >= T else SHORT_WAIT]),
        )


class RoundMemory(NamedTuple):
    """The private memory of one worker."""

    chosen: np.ndarray
    direction: Direction

    @classmethod
    def create(cls, problem, now: Round, t: int) -> "RoundMemory":
        """Make the memory of worker t."""
        rows = now.rows[t] if problem.touched is not None else None
        return cls(
            chosen=zeros(len(now.batch.chosen), np.int64),
            direction=Direction.create(problem, now.directions[t], rows),
        )


@entry
def round_worker(
    data,
    shared,
    blocks,
    average,
    sampler,
    draws,
    team,
    now,
    memory,
    rng,
    tally,
    work,
    plan,
    task,
):
    """Run one slice after the other, until this worker is sent away."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, sampler, team = borrow(average), borrow(sampler), borrow(team)
    now, memory, work = borrow(now), borrow(memory), borrow(work)
    while True:
        plan, task = obey(team, plan, task)
        run_rounds(
            data, shared, blocks, average, sampler, draws, team, now, memory, rng,
            tally, work, plan, task,
        )  # fmt: skip
        if not is_called(team.seats, task.me):
            return


@glue
def run_rounds(
    data, shared, blocks, average, sampler, draws, team, now, memory, rng, tally, work,
    plan, task,
):  # fmt: skip
    """Make updates together until the leader, worker 0, ends the slice."""
    first_update = team.orders[0].updates
    batch, direction = now.batch, memory.direction
    me, T, tau = task.me, task.n_workers, batch.chosen.size
    first, last = me * tau // T, (me + 1) * tau // T
    k = first_update
    meeting = 1
    while True:
        if me == 0:
            if not has_room(blocks, tau):
                store_release(team.halt, 0, Exit.GROW)
            elif (
                load_acquire(team.wish, 0) != 0
                or (k - first_update) * tau >= task.budget
            ):
                store_release(team.halt, 0, Exit.ENOUGH)
            else:
                draw(plan, sampler, draws, batch.chosen)
        if not meet(now, team, me, T, meeting) or is_over(team):
            return
        tally.stamp += 1
        now.linears[me] = 0.0
        n_rows = 0
        for j in range(first, last):
            i = batch.chosen[j]
            memory.chosen[j - first] = (
                i  # a copy: the leader draws anew while others still move
            )
            atom, _, gap, ended = play_visit(
                data, shared, blocks, i, batch.atoms[j], work, plan, task, rng, tally
            )
            while ended == Exit.DONE and is_late(team, task, rng, tally):
                atom, _, gap, ended = play_visit(
                    data,
                    shared,
                    blocks,
                    i,
                    batch.atoms[j],
                    work,
                    plan,
                    task,
                    rng,
                    tally,
                )
            if ended != Exit.DONE:
                halt(team, ended, i)
                return
            batch.gaps[j] = gap
            now.linears[me], n_rows = lay_out(
                data, blocks, i, atom, plan.reach, direction, now.linears[me], n_rows,
                tally.stamp, work,
            )  # fmt: skip
        now.n_rows[me] = n_rows
        if not meet(now, team, me, T, meeting + 1):
            return
        gather_rows(now, me, T, tally.stamp)
        if not meet(now, team, me, T, meeting + 2):
            return
        if me == 0 and not lead(data, shared, now, sampler, tally, plan, k):
            halt(team, Exit.NOT_A_NUMBER, batch.chosen[0])
            return
        if not meet(now, team, me, T, meeting + 3):
            return
        gamma = now.gamma[0]
        write_share(now, shared, average, gamma, k, me, T)
        for j in range(first, last):
            settle(blocks, team, memory.chosen[j - first], batch.atoms[j], gamma)
        k += 1
        meeting += 4
        if me == 0:
            store_release(team.called, 0, (k - first_update) * tau)


@jit
def is_late(team, task, rng, tally):
    """Return whether a worker lost its answer, and has to solve again."""
    return is_lost(task, rng, tally) and load_acquire(team.wish, 0) == 0


@jit
def meet(now, team, me, T, meeting):
    """Wait until all workers are here; return False if one of them has left.

    It is a dissemination barrier of log2(T) rounds: in round r each worker sets the
    flag of the worker 2^r places on, and waits for its own.
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
    """Return whether a worker left without coming to the next meeting."""
    why = load_acquire(team.halt, 0)
    return why != 0 and why != Exit.GROW and why != Exit.ENOUGH


@jit
def gather_rows(now, me, T, stamp):
    """Sum the directions of all workers over this worker's share of the rows."""
    total, stamps = now.batch.direction.values, now.batch.direction.stamps
    total_rows = now.batch.direction.rows
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
            if HAS_ROWS and stamps[r] != stamp:
                stamps[r] = stamp
                total_rows[count] = r
                count += 1
            for c in range(width):
                out[r, c] += change[r, c]
                change[r, c] = 0.0
    now.n_rows[T + me] = count - first if HAS_ROWS else last - first


@jit
def lead(data, shared, now, sampler, tally, plan, k):
    """Find the joint gamma; return False if it is not a number."""
    batch, T = now.batch, now.linears.size
    values, rows = batch.direction.values, batch.direction.rows
    size, tau = len(values), batch.chosen.size
    linear = 0.0
    count = 0
    for t in range(T):
        linear += now.linears[t]
        first = t * size // T
        for m in range(now.n_rows[T + t]):  # close the holes between the shares
            rows[count] = rows[first + m]
            count += 1
    now.gamma[0], _ = jointly(
        data, shared, values, rows[:count], linear, plan, tau, k, False
    )
    now.n_rows[2 * T] = count
    note_gaps(tally, sampler, batch, plan)
    tally.solved += tau
    tally.made += 1
    return now.gamma[0] >= 0.0


@jit
def write_share(now, shared, average, gamma, k, me, T):
    """Move v in this worker's share of the rows; clear the direction there."""
    direction, count = now.batch.direction, now.n_rows[2 * T]
    rows = direction.rows[me * count // T : (me + 1) * count // T]
    write(direction.values, rows, gamma, weigh(gamma, k), shared, average)
