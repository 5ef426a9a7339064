"""Algorithm 1 on a simulated clock, with real oracles: a discrete-event simulation.

The next event, of a worker that has solved its block or of the server, sets the clock.
Events are handled in the order of their times, so a worker that reads v at some time
reads the v of that time, and no old version is kept.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.memory import zeros
from wolfpack.result import Simulated
from wolfpack.update.inbox import finish, is_complete, take
from wolfpack.update.plan import Exit
from wolfpack.update.visit import find

# What a worker does: it is about to start, solves, waits for room in the queue, has
# failed.
COMING, SOLVING, WAITING, GONE = range(4)
# Entries of `clock`: the time; when the server is free; the seconds that it has worked;
# the seconds that all workers together have waited for room in the queue.
NOW, READY, BUSY, STOOD = range(4)
# Entries of `ends`: messages sent and taken so far; workers that began and ended a wait
# for room in the queue; whether the inbox is complete, so that the server makes a step.
SENT, TAKEN, STOPPED, PASSED, STEPPING = range(5)


class Cluster(NamedTuple):
    """The workers, the messages in flight, and the time."""

    when: np.ndarray  # the next event of each worker, or infinity
    first: np.ndarray  # a tree: at each node, the worker below whose event is next
    since: np.ndarray  # when a worker began to wait for room in the queue
    standing: np.ndarray  # the workers that wait, first come first, a ring
    doing: np.ndarray
    block: np.ndarray
    version: np.ndarray
    atoms: np.ndarray
    speed: np.ndarray
    chance: np.ndarray
    fails: np.ndarray
    arrival: np.ndarray  # of each message in the queue, a ring
    sent_block: np.ndarray
    sent_version: np.ndarray
    sent_atoms: np.ndarray
    clock: np.ndarray
    ends: np.ndarray

    @classmethod
    def create(cls, problem, workers, queue: int) -> "Cluster":
        """Make the workers, none of which has started."""
        T = workers.size
        atoms = (problem.atom_size,)
        when, first = _plant(workers.each("joins"))
        return cls(
            when=when,
            first=first,
            since=zeros(T),
            standing=zeros(T, np.int64),
            doing=zeros(T, np.int64),
            block=zeros(T, np.int64),
            version=np.full(T, -1),
            atoms=zeros((T, *atoms), problem.start.dtype),
            speed=workers.each("speed"),
            chance=workers.each("return_probability"),
            fails=workers.each("fails"),
            arrival=zeros(queue),
            sent_block=zeros(queue, np.int64),
            sent_version=zeros(queue, np.int64),
            sent_atoms=zeros((queue, *atoms), problem.start.dtype),
            clock=zeros(4),
            ends=zeros(5, np.int64),
        )

    def report(self, joins: np.ndarray) -> Simulated:
        """Return the time that has passed, and the shares of it that were used.

        Workers came at the times `joins`. They are idle while they stand before a full
        queue.
        """
        now = max(float(self.clock[NOW]), 1e-300)
        until = np.minimum(now, self.fails)
        waits = self.doing == WAITING
        stood = self.clock[STOOD] + (until - self.since)[waits].sum()
        present = max(float(np.maximum(until - joins, 0.0).sum()), 1e-300)
        return Simulated(
            seconds=float(self.clock[NOW]),
            server_utilisation=float(min(self.clock[BUSY] / now, 1.0)),
            worker_utilisation=float(1.0 - stood / present),
        )


def _plant(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times, filled up to a power of two, and the tree over them."""
    size = 2 ** (len(times) - 1).bit_length()
    when = np.full(size, np.inf)
    when[: len(times)] = times
    first = np.concatenate([np.zeros(size, np.int64), np.arange(size)])
    for node in range(size - 1, 0, -1):
        left, right = first[2 * node], first[2 * node + 1]
        first[node] = left if when[left] <= when[right] else right
    return when, first


class Costs(NamedTuple):
    """The seconds that each operation takes; see `delays.Workers`."""

    least: float
    most: float
    message: float
    read: float
    take: float
    step: float


@entry
def simulate(
    data, shared, blocks, average, cluster, costs, inbox, rng, progress, tally, work,
    plan, until,
):  # fmt: skip
    """Let time pass until `progress.calls` is `until`; return why it ended.

    `tally.at` is the current block, which an error message names.
    """
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, cluster, inbox = borrow(average), borrow(cluster), borrow(inbox)
    work = borrow(work)
    clock, ends, when = cluster.clock, cluster.ends, cluster.when
    queue = cluster.arrival.size
    while progress.calls < until:
        w = cluster.first[1]
        arrived = ends[TAKEN] < ends[SENT]
        turn = clock[READY]
        if not ends[STEPPING]:
            turn = np.inf
            if arrived:
                turn = max(clock[READY], cluster.arrival[ends[TAKEN] % queue])
        if turn == np.inf and when[w] == np.inf:
            return Exit.ABANDONED
        if turn <= when[w]:  # the next event is the server's
            clock[NOW] = turn
            if ends[STEPPING]:
                ended = finish(
                    data, shared, blocks, average, inbox, progress, tally, work, plan
                )
                if ended != Exit.DONE:
                    return ended
                ends[STEPPING] = 0
                continue
            take_next(cluster, costs, inbox, progress, tally)
            continue
        clock[NOW] = when[w]
        if cluster.fails[w] <= when[w]:
            cluster.doing[w] = GONE
            set_time(cluster, w, np.inf)
            continue
        if cluster.doing[w] == SOLVING:
            if rng.random() >= cluster.chance[w]:
                tally.lost += 1
            elif ends[SENT] - ends[TAKEN] == queue:
                stand(cluster, w)
                continue
            else:
                send(cluster, costs, w)
        tally.at = i = int(rng.random() * plan.n_blocks)
        _, _, ended = find(data, shared, blocks, i, cluster.atoms[w], work, plan, 1)
        start(cluster, costs, rng, progress.updates, w, i)
        if ended != Exit.DONE:
            return ended
    return Exit.DONE


@jit
def set_time(cluster, w, at):
    """Set the time of the next event of worker w: O(log T)."""
    when, first = cluster.when, cluster.first
    when[w] = at
    node = (w + when.size) // 2
    while node > 0:
        left, right = first[2 * node], first[2 * node + 1]
        first[node] = left if when[left] <= when[right] else right
        node //= 2


@jit
def stand(cluster, w):
    """Let worker w wait for room in the full queue."""
    cluster.doing[w] = WAITING
    cluster.since[w] = cluster.clock[NOW]
    cluster.standing[cluster.ends[STOPPED] % cluster.standing.size] = w
    cluster.ends[STOPPED] += 1
    set_time(cluster, w, np.inf)


@jit
def start(cluster, costs, rng, version, w, i):
    """Begin the simulated time in which worker w solves block i."""
    cluster.block[w] = i
    spent = costs.least + (costs.most - costs.least) * rng.random()
    spent /= cluster.speed[w]
    if cluster.version[w] != version:
        cluster.version[w] = version
        spent += costs.read
    cluster.doing[w] = SOLVING
    set_time(cluster, w, min(cluster.clock[NOW] + spent, cluster.fails[w]))


@jit
def send(cluster, costs, w):
    """Put the atom that worker w found into the queue."""
    slot = cluster.ends[SENT] % cluster.arrival.size
    cluster.ends[SENT] += 1
    cluster.arrival[slot] = cluster.clock[NOW] + costs.message
    cluster.sent_block[slot] = cluster.block[w]
    cluster.sent_version[slot] = cluster.version[w]
    message, atom = cluster.sent_atoms[slot], cluster.atoms[w]
    for m in range(atom.size):
        message[m] = atom[m]


@jit
def take_next(cluster, costs, inbox, progress, tally):
    """Let the server take a message; begin its step if the inbox is complete."""
    clock, ends = cluster.clock, cluster.ends
    slot = ends[TAKEN] % cluster.arrival.size
    ends[TAKEN] += 1
    progress.calls += 1
    k = progress.updates
    i, atom = cluster.sent_block[slot], cluster.sent_atoms[slot]
    take(inbox, tally, i, atom, 1.0, k - cluster.sent_version[slot], k)
    spent = costs.take
    if is_complete(inbox):
        ends[STEPPING] = 1
        spent += costs.step
    clock[READY] = clock[NOW] + spent
    clock[BUSY] += spent
    admit(cluster, costs)


@jit
def admit(cluster, costs):
    """Let the worker that waited longest send its message and go on.

    Workers that failed while they waited are skipped.
    """
    clock, ends = cluster.clock, cluster.ends
    while ends[PASSED] < ends[STOPPED]:
        w = cluster.standing[ends[PASSED] % cluster.standing.size]
        ends[PASSED] += 1
        until = min(clock[NOW], cluster.fails[w])
        clock[STOOD] += until - cluster.since[w]
        cluster.doing[w] = GONE
        if cluster.fails[w] > clock[NOW]:
            cluster.doing[w] = COMING
            set_time(cluster, w, clock[NOW])
            send(cluster, costs, w)
            return
