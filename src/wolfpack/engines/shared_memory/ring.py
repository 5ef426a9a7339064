"""Algorithm 2 of the paper: a server thread and workers that never wait for it.

Workers read v as it is, solve a subproblem, and push {i, s_(i)} with the version of v
that they read into a bounded ring. The server pops until it has tau disjoint blocks
(`desk`), makes one step with them, and writes v. The comments carry the lines of
Algorithm 1.

`workers_search` is the paper's line search on the workers: each finds gamma_i for its
block alone, and the server adds tau such steps. It is unsafe: blocks that pull v the
same way overshoot together. On OCR (fold 0, alpha = 0.01) it diverged in one of two
runs with 2 workers and in all four with 3 and 4; the server's joint search never did.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.serial import DONE, GROW, NOT_A_NUMBER
from wolfpack.engines.shared_memory.worker import (
    APART,
    AT,
    CALLED,
    ENOUGH,
    HALT,
    SOLVED,
    VERSION,
    call_oracle,
    claim,
    disclaim,
    halt,
    is_finite,
    is_lost,
    is_over,
)
from wolfpack.kernels.atomics import fetch_add, load_acquire, relax, store_release
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import HAS_CURVATURE, curvature
from wolfpack.kernels.specialise import entry, jit
from wolfpack.update.atoms import has_room, prepare, trim
from wolfpack.update.inbox import clear_desk, is_complete, step_together, take
from wolfpack.update.steps import closed_form

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


@entry
def server_worker(
    data, shared, blocks, team, ring, scratch, rng, tally, sums, work, plan, duty
):
    """Solve and push until the server has enough, or somebody stops."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    team, ring, work = borrow(team), borrow(ring), borrow(work)
    scratch, tally, sums = borrow(scratch), borrow(tally), borrow(sums)
    n = plan.n_blocks
    gamma = 1.0
    while not is_over(team):
        if duty.workers_search:
            i = claim(team, plan, duty, tally, sums, rng)  # the server gives it back
            if i < 0:
                return
        else:
            i = int(rng.random() * n)  # c.
        atom = trim(blocks, i, scratch)
        version = load_acquire(team.control, VERSION)
        ended = call_oracle(data, shared, blocks, i, atom, work, plan, duty, rng, tally)
        if ended == DONE and is_lost(duty, rng, tally):
            disclaim(team, i)
            continue
        if ended == DONE and duty.workers_search and HAS_CURVATURE:
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
            duty.workers_search,
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
    version = team.control[VERSION]
    clear_desk(desk, tally)
    while not is_complete(desk):
        slot = wait_for(ring, team)
        if slot < 0:
            return False
        tally[SOLVED] += 1
        i, gamma = ring.blocks[slot], ring.gammas[slot]
        delay = version - ring.versions[slot]
        if not take(desk, tally, i, ring.atoms[slot], gamma, delay, version):
            disclaim(team, i)
        free(ring, slot)
    return True
