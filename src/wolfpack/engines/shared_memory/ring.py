"""Algorithm 2 of the paper: a server thread and workers that never wait for it.

Workers read v while the server may write it, solve a subproblem, and push {i, s_(i)}
with the version of v that they read into a bounded ring. The server pops until it has
tau disjoint blocks (`inbox`), makes one step with them, and writes v. The comments
carry the lines of Algorithm 1.

`is_searching` is the paper's line search on the workers: each finds gamma_i for its
block alone, and the server adds tau such steps. It is unsafe: blocks that pull v the
same way overshoot together. On OCR (fold 0, alpha = 0.01) it diverged in one of two
runs with 2 workers and in all four with 3 and 4; the server's joint search never did.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.engines.shared_memory.seats import is_called, obey
from wolfpack.engines.shared_memory.team import TeamSession
from wolfpack.engines.shared_memory.worker import (
    APART,
    claim,
    disclaim,
    draw_repeats,
    halt,
    is_lost,
    is_over,
)
from wolfpack.kernels.atomics import fetch_add, load_acquire, relax, store_release
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, glue, jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import HAS_CURVATURE, curvature, has_room, rate
from wolfpack.update.inbox import (
    Inbox,
    clear_inbox,
    is_complete,
    step_with_messages,
    take,
)
from wolfpack.update.plan import Exit
from wolfpack.update.steps import closed_form
from wolfpack.update.visit import begin, find, is_finite

# Words of `Ring.ends`: the next ticket of the workers, and that of the server.
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
    shares: np.ndarray  # gamma_i, where the workers search
    atoms: np.ndarray

    @classmethod
    def create(cls, problem, capacity: int) -> "Ring":
        """Make an empty ring."""
        return cls(
            ends=zeros(2 * APART, np.int64),
            tickets=zeros(capacity * APART, np.int64),
            blocks=zeros(capacity, np.int64),
            versions=zeros(capacity, np.int64),
            shares=zeros(capacity),
            atoms=zeros((capacity, problem.atom_size), problem.start.dtype),
        )

    def clear(self) -> None:
        """Drop all messages."""
        self.ends[:] = 0
        self.tickets[::APART] = np.arange(len(self.blocks))


def queue_size(n_workers: int, tau: int) -> int:
    """Return how many messages may wait for a server that takes tau of them a step."""
    return max(4 * n_workers, 2 * tau)


class RingSession(TeamSession):
    """Workers that push messages, and a server that pops them."""

    def __init__(self, problem, options, engine) -> None:
        super().__init__(problem, options, engine, engine.size, n_helpers=1)
        tau = self.batch = options.batch_size
        self.is_searching = engine.line_search == "workers"
        if self.is_searching:  # workers hold their blocks until the server moves them
            tau = self.batch = min(tau, problem.n_blocks)
        self.ring = Ring.create(problem, queue_size(self.n_workers, tau))
        self.inbox = Inbox.create(problem, tau)
        self.memories = [
            zeros(problem.atom_size, problem.start.dtype) for _ in range(self.n_workers)
        ]

    def begin(self, run, calls: int) -> None:
        """Empty the ring: its messages from the last slice are solved again."""
        super().begin(run, calls)
        self.ring.clear()

    def run_worker(self, run, t: int, task) -> None:
        """Run the loop of worker t; the thread after the last worker is the server."""
        state, data = run.state, run.problem.data
        blocks = self.store.for_worker(state.blocks)
        tally, work = self.tallies[t], self.works[t]
        if t == self.n_workers:
            run.kernels.serve(
                data, state.shared, blocks, state.average, self.team, self.ring,
                self.inbox, tally, work, self.plan, task,
            )  # fmt: skip
        else:
            run.kernels.ring_worker(
                data, state.shared, blocks, self.team, self.ring, self.memories[t],
                self.rngs[t], tally, work, self.plan, task,
            )  # fmt: skip


@entry
def ring_worker(
    data, shared, blocks, team, ring, scratch, rng, tally, work, plan, task
):
    """Run one slice after the other, until this worker is sent away."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    team, ring = borrow(team), borrow(ring)
    work, scratch = borrow(work), borrow(scratch)
    while True:
        plan, task = obey(team, plan, task)
        run_ring(
            data, shared, blocks, team, ring, scratch, rng, tally, work, plan, task
        )
        if not is_called(team.seats, task.me):
            return


@glue
def run_ring(data, shared, blocks, team, ring, scratch, rng, tally, work, plan, task):
    """Solve and push until the server stops the slice, or a worker does."""
    share = 1.0
    while not is_over(team):
        if task.is_searching:
            i = claim(team, plan, task, tally, rng)  # the server disclaims it
            if i < 0:
                return
        else:
            i = int(rng.random() * plan.n_blocks)  # c.
        version = load_acquire(team.version, 0)
        tally.at = i
        repeats = draw_repeats(task, rng)
        atom, _, ended = find(data, shared, blocks, i, scratch, work, plan, repeats)
        if ended == Exit.DONE and is_lost(task, rng, tally):
            disclaim(team, i)
            continue
        if ended == Exit.DONE and task.is_searching and HAS_CURVATURE:
            move = begin(data, blocks, i, atom, work)
            gap = -rate(data, shared, i, move, work, True)
            bend = plan.reach * curvature(data, i, move, work)
            share = closed_form(gap, bend)
            if not is_finite(gap):
                ended = Exit.NOT_A_NUMBER
        if ended != Exit.DONE:
            halt(team, ended, i)
            return
        if not push(ring, team, i, version, share, atom):  # e.
            return


@jit
def push(ring, team, i, version, share, atom):
    """Put a message into the ring; return False if the slice is over."""
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
    ring.shares[slot] = share
    message = ring.atoms[slot]
    for j in range(atom.size):
        message[j] = atom[j]
    store_release(ring.tickets, slot * APART, ticket + 1)
    return True


@jit
def wait_for(ring, team):
    """Return the slot of the next message, or -1 if the slice is over."""
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
def serve(data, shared, blocks, average, team, ring, inbox, tally, work, plan, task):
    """Run one slice after the other, until the server is sent away."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, team, ring = borrow(average), borrow(team), borrow(ring)
    inbox, work = borrow(inbox), borrow(work)
    while True:
        plan, task = obey(team, plan, task)
        run_server(
            data, shared, blocks, average, team, ring, inbox, tally, work, plan, task
        )
        if not is_called(team.seats, task.me):
            return


@glue
def run_server(
    data, shared, blocks, average, team, ring, inbox, tally, work, plan, task
):
    """Pop, step and publish until the calls are made, or a worker stops the slice."""
    chosen = inbox.batch.chosen
    while not is_over(team):
        if not has_room(blocks, chosen.size):
            store_release(team.halt, 0, Exit.GROW)
            return
        if not gather(ring, team, inbox, tally):  # 1.
            return
        k = team.version[0]
        gamma = step_with_messages(
            data, shared, blocks, average, inbox, tally, tally, work, plan, k,
            task.is_searching,
        )  # fmt: skip
        if not gamma >= 0.0:
            halt(team, Exit.NOT_A_NUMBER, tally.at)
            return
        store_release(team.version, 0, k + 1)  # 4.
        for j in range(chosen.size):
            disclaim(team, chosen[j])
        store_release(team.called, 0, tally.solved)
        if tally.solved >= task.budget:
            store_release(team.halt, 0, Exit.ENOUGH)


@jit
def gather(ring, team, inbox, tally):
    """Pop until there are tau disjoint blocks; return False if the slice is over."""
    version = team.version[0]
    clear_inbox(inbox, tally)
    while not is_complete(inbox):
        slot = wait_for(ring, team)
        if slot < 0:
            return False
        tally.solved += 1
        i, share = ring.blocks[slot], ring.shares[slot]
        delay = version - ring.versions[slot]
        if not take(inbox, tally, i, ring.atoms[slot], share, delay, version):
            disclaim(team, i)
        free(ring, slot)
    return True
