"""The server of Algorithm 1, apart from how messages reach it.

It takes messages {i, s_(i)} one by one until it has tau disjoint blocks (a block that
comes twice overwrites, which is counted; one older than half of all versions is
dropped), and then makes one step with them. `server` feeds it from a ring in shared
memory, `simulation` from a simulated network, `service` from a real one.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.serial import (
    CURRENT,
    DONE,
    GROW,
    NOT_A_NUMBER,
    UPDATES,
    apply,
    meet_rows,
)
from wolfpack.engines.shared_memory.worker import (
    AT,
    COLLISIONS,
    GAP_SUM,
    GAPS_SEEN,
    MADE,
    STAMP,
    is_finite,
    is_too_late,
    note_delay,
)
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import slope
from wolfpack.kernels.specialise import jit
from wolfpack.update.atoms import has_room, move, prepare, spread, trim
from wolfpack.update.steps import CONSTANT, OPEN_LOOP, line_search, open_loop


class Desk(NamedTuple):
    """What the server has for itself; see `serial.Scratch`."""

    chosen: np.ndarray
    atoms: np.ndarray
    gammas: np.ndarray
    delays: np.ndarray
    direction: np.ndarray
    rows: np.ndarray
    own_rows: np.ndarray
    stamps: np.ndarray
    places: np.ndarray  # per block: the update it came last for, and where it stands
    count: np.ndarray  # of the blocks that are here

    @classmethod
    def create(cls, problem, tau: int) -> "Desk":
        """Make the memory of a server that gathers `tau` blocks."""
        shape, sparse = problem.shared.shape, problem.touched is not None
        return cls(
            chosen=zeros(tau, np.int64),
            atoms=zeros((tau, problem.atom_size), problem.start.dtype),
            gammas=np.ones(tau),
            delays=zeros(tau, np.int64),
            direction=zeros(shape, problem.shared.dtype),
            rows=np.arange(shape[0]),
            own_rows=zeros(problem.max_rows if sparse else 0, np.int64),
            stamps=np.full(shape[0] if sparse else 0, -1),
            places=np.full((problem.n_blocks, 2), -1),
            count=zeros(1, np.int64),
        )


@jit
def clear_desk(desk, tally):
    """Begin to gather for the next update."""
    desk.count[0] = 0
    tally[STAMP] += 1


@jit
def is_complete(desk):
    """Return whether tau disjoint blocks are here."""
    return desk.count[0] == desk.chosen.size


@jit
def take(desk, tally, i, message, gamma, delay, version):
    """Take the atom of block i, read `delay` versions ago; False: it was too late."""
    if is_too_late(tally, delay, version):
        return False
    places, count = desk.places, desk.count
    if places[i, 0] == tally[STAMP]:
        j = places[i, 1]
        tally[COLLISIONS] += 1
    else:
        j = count[0]
        count[0] = j + 1
        places[i, 0], places[i, 1] = tally[STAMP], j
    desk.chosen[j], desk.gammas[j], desk.delays[j] = i, gamma, delay
    atom = desk.atoms[j]
    for m in range(atom.size):
        atom[m] = message[m]
    return True


@jit
def step_together(
    data, shared, blocks, average, desk, tally, sums, work, plan, workers_search, k
):
    """Move x and v by one step along all blocks that are here; return gamma."""
    chosen, atoms, gammas = desk.chosen, desk.atoms, desk.gammas
    direction, count = desk.direction, desk.count[0]
    linear = 0.0
    n_rows = 0
    for j in range(count):
        tally[AT] = chosen[j]
        # This gap is about an older v, the slope below is not; but it shows a bad atom.
        i = chosen[j]
        atom = trim(blocks, i, atoms[j])
        if not is_finite(prepare(data, shared, blocks, i, atom, work)):
            return np.nan
        scale = gammas[j] if workers_search else 1.0
        linear += spread(data, blocks, i, atom, scale, direction, work)
        n_rows = meet_rows(data, chosen[j], desk, n_rows, tally[STAMP], work)
        note_delay(tally, desk.delays[j])
    rows = desk.rows[:n_rows]
    if workers_search:  # 2.
        at_zero = slope(data, shared, direction, rows, 0.0) + linear
        gamma = 1.0
    elif plan.rule == OPEN_LOOP or plan.rule == CONSTANT:
        at_zero = slope(data, shared, direction, rows, 0.0) + linear
        gamma = plan.step_size
        if plan.rule == OPEN_LOOP:
            gamma = open_loop(plan.n_blocks, chosen.size, k)
    else:
        gamma, at_zero = line_search(data, shared, direction, rows, linear)
    tally[MADE] += 1 - count
    if not (is_finite(at_zero) and gamma >= 0.0):  # x and v stay as they are
        return np.nan
    sums[GAP_SUM] -= at_zero
    sums[GAPS_SEEN] += count
    weight = 0.5 * gamma * k * (k + 1.0)
    apply(direction, rows, gamma, weight, shared, average)  # 3.
    for j in range(count):
        move(blocks, chosen[j], atoms[j], gamma * gammas[j])
    return gamma


@jit
def finish(data, shared, blocks, average, desk, counts, tally, sums, work, plan):
    """Make one update of the blocks that are here; return DONE, or why it cannot."""
    if not has_room(blocks, desk.chosen.size):
        return GROW
    k = counts[UPDATES]
    gamma = step_together(
        data, shared, blocks, average, desk, tally, sums, work, plan, False, k
    )
    if not gamma >= 0.0:
        counts[CURRENT] = tally[AT]
        return NOT_A_NUMBER
    counts[UPDATES] = k + 1
    clear_desk(desk, tally)
    return DONE
