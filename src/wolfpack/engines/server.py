"""Algorithm 2 of the paper: a server thread and workers that never wait for it.

Workers read v as it is, solve a subproblem, and push {i, s_(i)} with the version of v
that they read into a bounded ring. The server pops until it has tau disjoint blocks (a
block that comes twice overwrites, which is counted; one older than half of all versions
is dropped), makes one step with them, and writes v. The comments carry the lines of
Algorithm 1.

`workers_search` is the paper's line search on the workers: each finds gamma_i for its
block alone, and the server adds tau such steps. It is unsafe: blocks that pull v the
same way overshoot together. On OCR (fold 0, alpha = 0.01) it diverged in one of two
runs with 2 workers and in all four with 3 and 4; the server's joint search never did.
"""

from typing import NamedTuple

import numpy as np

from wolfpack._atomics import fetch_add, load_acquire, relax, store_release
from wolfpack._borrow import borrow
from wolfpack._compile import entry, jit
from wolfpack._memory import zeros
from wolfpack._slots import HAS_CURVATURE, curvature, slope
from wolfpack.engines.serial import DONE, GROW, NOT_A_NUMBER, apply, meet_rows
from wolfpack.engines.workers import (
    APART,
    AT,
    CALLED,
    COLLISIONS,
    ENOUGH,
    GAP_SUM,
    GAPS_SEEN,
    HALT,
    MADE,
    SOLVED,
    STAMP,
    VERSION,
    call_oracle,
    claim,
    disclaim,
    halt,
    is_finite,
    is_lost,
    is_over,
    is_too_late,
    note_delay,
)
from wolfpack.steps import CONSTANT, OPEN_LOOP, closed_form, line_search, open_loop
from wolfpack.stores.atoms import has_room, move, prepare, spread

# Words of `Ring.ends`: the next ticket of a worker, and of the server.
HEAD, TAIL = 0, 8


class Ring(NamedTuple):
    """A bounded queue of many producers and one consumer, after D. Vyukov.

    Slot s is free for ticket k where `tickets[s * APART]` is k, and holds its message
    where it is k + 1.
    """

    ends: np.ndarray
    tickets: np.ndarray
    blocks: np.ndarray
    versions: np.ndarray
    gammas: np.ndarray
    atoms: np.ndarray

    @classmethod
    def create(cls, problem, capacity: int) -> "Ring":
        """Make an empty ring."""
        return cls(
            ends=zeros(2 * APART, np.int64),
            tickets=zeros(capacity * APART, np.int64),
            blocks=zeros(capacity, np.int64),
            versions=zeros(capacity, np.int64),
            gammas=zeros(capacity),
            atoms=zeros((capacity, problem.atom_size), problem.start.dtype),
        )


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

    @classmethod
    def create(cls, problem, tau: int) -> "Desk":
        """Make the memory of a server that gathers `tau` blocks."""
        shape, sparse = problem.shared.shape, problem.touched is not None
        return cls(
            chosen=zeros(tau, np.int64),
            atoms=zeros((tau, problem.atom_size), problem.start.dtype),
            gammas=zeros(tau),
            delays=zeros(tau, np.int64),
            direction=zeros(shape, problem.shared.dtype),
            rows=np.arange(shape[0]),
            own_rows=zeros(problem.max_rows if sparse else 0, np.int64),
            stamps=zeros(shape[0] if sparse else 0, np.int64),
            places=zeros((problem.n_blocks, 2), np.int64),
        )


@entry
def server_worker(
    data, shared, blocks, team, ring, atom, rng, tally, sums, work, plan, duty
):
    """Solve and push until the server has enough, or somebody stops."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    team, ring, work = borrow(team), borrow(ring), borrow(work)
    atom, tally, sums = borrow(atom), borrow(tally), borrow(sums)
    n = plan.n_blocks
    gamma = 1.0
    while not is_over(team):
        if duty.workers_search:
            i = claim(team, plan, duty, tally, sums, rng)  # the server gives it back
            if i < 0:
                return
        else:
            i = int(rng.random() * n)  # c.
        version = load_acquire(team.control, VERSION)
        ended = call_oracle(data, shared, blocks, i, atom, work, plan, duty, rng, tally)
        if ended == DONE and is_lost(duty, rng, tally):
            disclaim(team, i)
            continue
        if duty.workers_search and HAS_CURVATURE:
            gap = prepare(data, shared, blocks, i, atom, work)
            gamma = closed_form(gap, curvature(data, blocks, i, atom, work))
            if not is_finite(gap):
                ended = NOT_A_NUMBER
        if ended != DONE:
            halt(team, ended, i)
            return
        if not push(ring, team, i, version, gamma, atom):  # e.
            return


@jit
def push(ring, team, i, version, gamma, atom):
    """Put a message into the ring; return False if it is all over before."""
    ticket = fetch_add(ring.ends, HEAD, 1)
    capacity = ring.blocks.size
    slot = ticket % capacity
    spins = 0
    while load_acquire(ring.tickets, slot * APART) != ticket:
        if is_over(team):
            return False
        relax(spins)
        spins += 1
    ring.blocks[slot] = i
    ring.versions[slot] = version
    ring.gammas[slot] = gamma
    message = ring.atoms[slot]
    for j in range(atom.size):
        message[j] = atom[j]
    store_release(ring.tickets, slot * APART, ticket + 1)
    return True


@jit
def wait_for(ring, team):
    """Return the slot of the next message, or -1 if it is all over before."""
    ticket = ring.ends[TAIL]
    slot = ticket % ring.blocks.size
    spins = 0
    while load_acquire(ring.tickets, slot * APART) != ticket + 1:
        if is_over(team):
            return -1
        relax(spins)
        spins += 1
    return slot


@jit
def free(ring, slot):
    """Give a slot back to the workers."""
    ticket = ring.ends[TAIL]
    ring.ends[TAIL] = ticket + 1
    store_release(ring.tickets, slot * APART, ticket + ring.blocks.size)


@entry
def serve(
    data, shared, blocks, average, team, ring, desk, tally, sums, work, plan, duty
):
    """Pop, step and publish until enough calls are made, or somebody stops."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, team, ring = borrow(average), borrow(team), borrow(ring)
    desk, work, tally, sums = borrow(desk), borrow(work), borrow(tally), borrow(sums)
    control = team.control
    while not is_over(team):
        if not has_room(blocks, desk.chosen.size):
            store_release(control, HALT, GROW)
            return
        if not gather(ring, team, desk, tally):  # 1.
            return
        gamma = step_together(
            data,
            shared,
            blocks,
            average,
            desk,
            tally,
            sums,
            work,
            plan,
            duty,
            control[VERSION],
        )
        if not gamma >= 0.0:
            halt(team, NOT_A_NUMBER, tally[AT])
            return
        store_release(control, VERSION, control[VERSION] + 1)  # 4.
        for j in range(desk.chosen.size):
            disclaim(team, desk.chosen[j])
        store_release(control, CALLED, tally[SOLVED])
        if tally[SOLVED] >= duty.budget:
            store_release(control, HALT, ENOUGH)


@jit
def gather(ring, team, desk, tally):
    """Pop until there are tau disjoint blocks; return False if it is all over."""
    chosen, atoms, places = desk.chosen, desk.atoms, desk.places
    version = team.control[VERSION]
    stamp = tally[STAMP] + 1
    tally[STAMP] = stamp
    count = 0
    while count < chosen.size:
        slot = wait_for(ring, team)
        if slot < 0:
            return False
        tally[SOLVED] += 1
        i = ring.blocks[slot]
        delay = version - ring.versions[slot]
        if is_too_late(tally, delay, version):
            disclaim(team, i)
            free(ring, slot)
            continue
        if places[i, 0] == stamp:
            j = places[i, 1]
            tally[COLLISIONS] += 1
        else:
            j = count
            count += 1
            places[i, 0], places[i, 1] = stamp, j
        chosen[j], desk.gammas[j], desk.delays[j] = i, ring.gammas[slot], delay
        atom, message = atoms[j], ring.atoms[slot]
        for m in range(atom.size):
            atom[m] = message[m]
        free(ring, slot)
    return True


@jit
def step_together(
    data, shared, blocks, average, desk, tally, sums, work, plan, duty, k
):
    """Move x and v by one step along all tau blocks; return gamma."""
    chosen, atoms, gammas, direction = (
        desk.chosen,
        desk.atoms,
        desk.gammas,
        desk.direction,
    )
    tau = chosen.size
    linear = 0.0
    n_rows = 0
    for j in range(tau):
        tally[AT] = chosen[j]
        # This gap is about an older v, the slope below is not; but it shows a bad atom.
        if not is_finite(prepare(data, shared, blocks, chosen[j], atoms[j], work)):
            return np.nan
        scale = gammas[j] if duty.workers_search else 1.0
        linear += spread(data, blocks, chosen[j], atoms[j], scale, direction, work)
        n_rows = meet_rows(data, chosen[j], desk, n_rows, tally[STAMP], work)
        note_delay(tally, desk.delays[j])
    rows = desk.rows[:n_rows]
    if duty.workers_search:  # 2.
        at_zero = slope(data, shared, direction, rows, 0.0) + linear
        gamma = 1.0
    elif plan.rule == OPEN_LOOP or plan.rule == CONSTANT:
        at_zero = slope(data, shared, direction, rows, 0.0) + linear
        gamma = plan.step_size
        if plan.rule == OPEN_LOOP:
            gamma = open_loop(plan.n_blocks, tau, k)
    else:
        gamma, at_zero = line_search(data, shared, direction, rows, linear)
    tally[MADE] += 1 - tau
    if not is_finite(at_zero):
        return np.nan
    sums[GAP_SUM] -= at_zero
    sums[GAPS_SEEN] += tau
    weight = 0.5 * gamma * k * (k + 1.0)
    apply(direction, rows, gamma, weight, shared, average)  # 3.
    for j in range(tau):
        move(blocks, chosen[j], atoms[j], gamma * gammas[j])
    return gamma
