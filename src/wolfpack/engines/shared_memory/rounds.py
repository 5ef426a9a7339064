"""The loop of `Sync`: rounds in which every worker waits for every other.

A round has four phases, and each phase T shares, one a worker:

    move     gamma times the direction of the last round; worker 0 draws tau blocks
    solve    tau / T subproblems, all against the same v
    gather   the directions of all workers, in a part of the rows of v
    lead     worker 0 finds gamma

A phase begins when all shares of the one before have ended. Sums are taken in a fixed
order, so the same seed gives the same bits, whichever thread does a share. A worker
that waits does the shares of workers that have not begun: where other programs use the
cores, one of two threads has none for most of the time, and a round of 10 microseconds
would take 10 milliseconds. Where stragglers are played, no worker helps another.
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
from wolfpack.kernels.atomics import (
    PATIENCE,
    compare_exchange,
    load_acquire,
    relax,
    store_release,
)
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, glue, jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import HAS_ROWS, has_room
from wolfpack.update.batch import Batch, note_gaps, weigh
from wolfpack.update.direction import Direction, lay_out, write
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import draw
from wolfpack.update.steps import jointly

# Where each worker has a core, a worker that waits yields for a few milliseconds and
# does not sleep: all wait for the last one, so one late wake-up delays them all. Where
# there are more workers than cores, a worker that waits soon leaves its core to others.
LONG_WAIT, SHORT_WAIT = 65536, 0
HELP_EVERY, MANY_SPINS = PATIENCE // 2, 4096  # between looks for work; for faults
# Phases are numbered from 1 in a slice; these are their numbers modulo 4.
MOVE, SOLVE, GATHER = 1, 2, 3
NONE, FAILED = -1, -2  # in place of the number of a share


class Round(NamedTuple):
    """What the workers of one update share; of what each worker has, there are T."""

    batch: Batch  # its direction is the sum of those of the workers
    chosen: np.ndarray  # a copy: worker 0 draws anew while others still move
    linears: np.ndarray  # <c, d>
    directions: np.ndarray
    rows: np.ndarray  # that a direction touches
    own_rows: np.ndarray
    stamps: np.ndarray
    n_rows: np.ndarray  # of each worker, then of each share of v, then of all
    gamma: np.ndarray
    begun: np.ndarray  # the last phase in which a share was begun, and ended
    ended: np.ndarray
    patience: np.ndarray  # spins before a worker that waits may sleep
    helps: np.ndarray  # whether a worker does the share of another

    @classmethod
    def create(cls, problem, tau: int, T: int, n_cores: int, helps: bool) -> "Round":
        """Make the memory of T workers that solve `tau` blocks together."""
        shape, kind = problem.shared.shape, problem.shared.dtype
        is_sparse = problem.touched is not None
        n_rows = shape[0] if is_sparse else 0
        return cls(
            batch=Batch.create(problem, tau),
            chosen=zeros((T, tau), np.int64),
            linears=zeros(T),
            directions=zeros((T, *shape), kind),
            rows=zeros((T, n_rows), np.int64),
            own_rows=zeros((T, problem.max_rows if is_sparse else 0), np.int64),
            stamps=np.full((T, n_rows), -1),
            n_rows=zeros(2 * T + 1, np.int64),
            gamma=zeros(1),
            begun=zeros(T * APART, np.int64),
            ended=zeros(T * APART, np.int64),
            patience=np.array([LONG_WAIT if n_cores >= T else SHORT_WAIT]),
            helps=np.array([helps]),
        )


@entry
def round_worker(
    data, shared, blocks, average, sampler, draws, team, now, rng, tallies, work, plan,
    task,
):  # fmt: skip
    """Run one slice after the other, until this worker is sent away."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, sampler, team = borrow(average), borrow(sampler), borrow(team)
    now, tallies, work = borrow(now), borrow(tallies), borrow(work)
    while True:
        plan, task = obey(team, plan, task)
        run_rounds(
            data, shared, blocks, average, sampler, draws, team, now, rng, tallies,
            work, plan, task,
        )  # fmt: skip
        if not is_called(team.seats, task.me):
            return


@glue
def run_rounds(
    data, shared, blocks, average, sampler, draws, team, now, rng, tallies, work, plan,
    task,
):  # fmt: skip
    """Do one share after the other, until worker 0 ends the slice."""
    me, T, first_update = task.me, task.n_workers, team.orders[0].updates
    phase = 1
    while True:
        who = take_share(now, team, me, T, phase)
        if who == FAILED:
            return
        kind, made = phase % 4, (phase - 1) // 4
        if who == NONE:
            if kind == MOVE and is_over(team):
                return
            phase += 1
            continue
        k = first_update + made
        if kind == MOVE:
            if made > 0:
                move_share(data, blocks, shared, average, team, now, k - 1, who, T)
            if who == 0:
                begin_round(blocks, sampler, draws, team, now, plan, task, made)
        elif kind == SOLVE:
            ended = solve_share(
                data, shared, blocks, team, now, rng, tallies[me], work, plan, task, k,
                who,
            )  # fmt: skip
            if ended != Exit.DONE:
                halt(team, ended, tallies[me].at)
                return
        elif kind == GATHER:
            gather_rows(now, who, T, k)
        elif who == 0 and not lead(data, shared, now, sampler, tallies[0], plan, k):
            halt(team, Exit.NOT_A_NUMBER, now.batch.chosen[0])
            return
        store_release(now.ended, who * APART, phase)


@jit
def take_share(now, team, me, T, phase):
    """Return whose share of the phase to do; NONE: all of them have ended.

    A worker begins with its own. It looks for another to help before it first yields.
    """
    begun, patience = now.begun, now.patience[0]
    if compare_exchange(begun, me * APART, phase - 1, phase):
        return me
    spins = 0
    while not has_ended(now, T, phase):
        if spins % MANY_SPINS == 0 and failed(team):
            return FAILED
        if now.helps[0] and spins % HELP_EVERY == HELP_EVERY - 1:
            for other in range(T):
                is_free = load_acquire(begun, other * APART) == phase - 1
                if is_free and compare_exchange(begun, other * APART, phase - 1, phase):
                    return other
        relax(spins if spins > patience else spins % PATIENCE)
        spins += 1
    return NONE


@jit
def has_ended(now, T, phase):
    """Return whether all shares of a phase have ended."""
    t = 0
    while t < T and load_acquire(now.ended, t * APART) >= phase:
        t += 1
    return t == T


@jit
def begin_round(blocks, sampler, draws, team, now, plan, task, made):
    """Draw the blocks of the next round, or end the slice.

    Others may still be moving the blocks of this round, so both rounds need room.
    """
    tau = now.batch.chosen.size
    store_release(team.called, 0, made * tau)
    if not has_room(blocks, 2 * tau):
        compare_exchange(team.halt, 0, 0, Exit.GROW)  # a worker may have failed
    elif load_acquire(team.wish, 0) != 0 or made * tau >= task.budget:
        compare_exchange(team.halt, 0, 0, Exit.ENOUGH)
    else:
        draw(plan, sampler, draws, now.batch.chosen)


@glue
def solve_share(data, shared, blocks, team, now, rng, tally, work, plan, task, k, who):
    """Solve the subproblems of a worker, and lay out their direction."""
    batch, T = now.batch, task.n_workers
    tau = batch.chosen.size
    first, last = who * tau // T, (who + 1) * tau // T
    direction = Direction(
        now.directions[who], now.rows[who], now.own_rows[who], now.stamps[who]
    )
    linear, n_rows, ended, j = 0.0, 0, Exit.DONE, first
    while j < last and ended == Exit.DONE:
        i = batch.chosen[j]
        now.chosen[who, j - first] = i
        _, move, _, batch.gaps[j], ended = play_visit(
            data, shared, blocks, i, batch.atoms[j], work, plan, task, rng, tally
        )
        if ended != Exit.DONE or is_late(team, task, rng, tally):
            continue
        j += 1
        linear, n_rows = lay_out(
            data, i, move, plan.reach, direction, linear, n_rows, k, work
        )
    now.linears[who], now.n_rows[who] = linear, n_rows
    return ended


@jit
def is_late(team, task, rng, tally):
    """Return whether a worker lost its answer, and has to solve again."""
    return is_lost(task, rng, tally) and load_acquire(team.wish, 0) == 0


@jit
def failed(team):
    """Return whether a worker has failed and left, so that its share never ends."""
    why = load_acquire(team.halt, 0)
    return why != 0 and why != Exit.GROW and why != Exit.ENOUGH


@jit
def gather_rows(now, who, T, stamp):
    """Sum the directions of all workers over one worker's share of the rows."""
    total, stamps = now.batch.direction.values, now.batch.direction.stamps
    total_rows = now.batch.direction.rows
    size, width = len(total), total.size // len(total)
    first, last = who * size // T, (who + 1) * size // T
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
    now.n_rows[T + who] = count - first if HAS_ROWS else last - first


@jit
def lead(data, shared, now, sampler, tally, plan, k):
    """Find the joint gamma; return False if it is not a number."""
    batch, T = now.batch, now.linears.size
    values, rows = batch.direction.values, batch.direction.rows
    size, tau = len(values), batch.chosen.size
    linear, count = 0.0, 0
    for t in range(T):
        linear += now.linears[t]
        first = t * size // T
        for m in range(now.n_rows[T + t]):  # close the holes between the shares
            rows[count] = rows[first + m]
            count += 1
    rows = rows[:count]
    now.gamma[0], _ = jointly(data, shared, values, rows, linear, plan, tau, k, False)
    now.n_rows[2 * T] = count
    note_gaps(tally, sampler, batch, plan)
    tally.solved += tau
    tally.made += 1
    return now.gamma[0] >= 0.0


@jit
def move_share(data, blocks, shared, average, team, now, k, who, T):
    """Move v in a worker's share of the rows, and the blocks that it solved."""
    direction, count, gamma = now.batch.direction, now.n_rows[2 * T], now.gamma[0]
    rows = direction.rows[who * count // T : (who + 1) * count // T]
    write(direction.values, rows, gamma, weigh(gamma, k), shared, average)
    tau, first = now.batch.chosen.size, who * now.batch.chosen.size // T
    for j in range(first, (who + 1) * tau // T):
        i, atom = now.chosen[who, j - first], now.batch.atoms[j]
        settle(data, blocks, team, i, atom, gamma)
