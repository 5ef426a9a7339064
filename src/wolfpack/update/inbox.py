"""The server of Algorithm 1, apart from how messages reach it.

It takes messages {i, s_(i)} one by one until it has tau disjoint blocks, and then makes
one step with them. A second message of a block replaces the first, which is counted as
a collision; a message older than half of all versions is dropped. `ring` feeds it from
shared memory, `simulation` from a simulated network, `backlog` from drawn delays,
`service` from a real network.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.kernels.compile import jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import has_room, slope, trim
from wolfpack.update.batch import Batch, step_together, take_step
from wolfpack.update.direction import lay_out
from wolfpack.update.plan import N_DELAYS, Exit
from wolfpack.update.visit import begin, is_finite


class Inbox(NamedTuple):
    """The messages that the next step of a server is made of."""

    batch: Batch
    delays: np.ndarray
    places: np.ndarray  # per block: the stamp of its last message, and its place
    count: np.ndarray  # of the blocks gathered so far

    @classmethod
    def create(cls, problem, tau: int) -> "Inbox":
        """Make the memory of a server that gathers `tau` blocks."""
        return cls(
            batch=Batch.create(problem, tau),
            delays=zeros(tau, np.int64),
            places=np.full((problem.n_blocks, 2), -1),
            count=zeros(1, np.int64),
        )


@jit
def clear_inbox(inbox, tally):
    """Begin to gather for the next update."""
    inbox.count[0] = 0
    tally.stamp += 1


@jit
def is_complete(inbox):
    """Return whether tau disjoint blocks are gathered."""
    return inbox.count[0] == inbox.batch.chosen.size


@jit
def take(inbox, tally, i, message, share, delay, version):
    """Take the atom of block i, read `delay` versions ago; False: it was too late."""
    if is_too_late(tally, delay, version):
        return False
    batch, places, count = inbox.batch, inbox.places, inbox.count
    if places[i, 0] == tally.stamp:
        j = places[i, 1]
        tally.collisions += 1
    else:
        j = count[0]
        count[0] = j + 1
        places[i, 0], places[i, 1] = tally.stamp, j
    batch.chosen[j], batch.shares[j], inbox.delays[j] = i, share, delay
    atom = batch.atoms[j]
    for m in range(atom.size):
        atom[m] = message[m]
    return True


@jit
def step_with_messages(
    data, shared, blocks, average, inbox, counts, tally, work, plan, k, is_searched
):
    """Make one step with all blocks gathered; return gamma, NaN if it fails.

    `is_searched`: the workers have searched, and `shares` holds gamma_i of each block.
    `counts` gets the gap at the newest v, which the workers did not know.
    """
    batch, count = inbox.batch, inbox.count[0]
    linear = 0.0
    n_rows = 0
    for j in range(count):
        tally.at = i = batch.chosen[j]
        atom = trim(blocks, i, batch.atoms[j])
        move = begin(data, blocks, i, atom, work)
        scale = plan.reach * batch.shares[j] if is_searched else plan.reach
        linear, n_rows = lay_out(
            data, i, move, scale, batch.direction, linear, n_rows, tally.stamp, work
        )
        note_delay(tally, inbox.delays[j])
    tally.made += 1 - count  # `note_delay` counted an update for each block
    if is_searched:
        values, rows = batch.direction.values, batch.direction.rows[:n_rows]
        at_zero = slope(data, shared, values, rows, 0.0) + linear
        gamma = 1.0 if is_finite(at_zero) else np.nan
        if gamma >= 0.0:
            take_step(data, shared, blocks, average, batch, count, rows, gamma, k)
    else:
        gamma, at_zero = step_together(
            data, shared, blocks, average, batch, count, n_rows, linear, plan, k, True
        )
    if gamma >= 0.0:
        # A late atom may lead uphill, but the gap of a block is never below 0.
        fall = -at_zero / plan.reach
        counts.gap_sum += max(fall, 0.0) if plan.reach < 1.0 else fall
        counts.gaps_seen += count
    return gamma


@jit
def finish(data, shared, blocks, average, inbox, progress, tally, work, plan):
    """Make one update of the blocks gathered; return DONE, or why it cannot."""
    if not has_room(blocks, inbox.batch.chosen.size):
        return Exit.GROW
    k = progress.updates
    gamma = step_with_messages(
        data, shared, blocks, average, inbox, progress, tally, work, plan, k, False
    )
    if not gamma >= 0.0:
        progress.at = tally.at
        return Exit.NOT_A_NUMBER
    progress.updates = k + 1
    clear_inbox(inbox, tally)
    return Exit.DONE


@jit
def note_delay(tally, delay):
    """Count an update that was computed `delay` versions ago."""
    delay = max(delay, 0)  # the histogram begins at 0
    tally.made += 1
    tally.delays += delay
    tally.max_delay = max(tally.max_delay, delay)
    tally.histogram[min(delay, N_DELAYS - 1)] += 1


@jit
def is_too_late(tally, delay, version):
    """Return whether a message is older than half of all versions, and count it.

    Such messages are dropped, as Theorem 4 asks.
    """
    if delay > version // 2:
        tally.dropped += 1
        return True
    return False
