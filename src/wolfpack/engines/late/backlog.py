"""Updates that come late: update k is computed from the v of update k - delay.

Delays are drawn in advance, so all atoms that later updates need from a version of v
are computed while that version is the current one. Only atoms wait; no old version of v
is kept. An update whose delay exceeds k / 2 is dropped (Theorem 4), but counted: k
rises, and no other update takes its place.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import has_room
from wolfpack.update.inbox import clear_inbox, step_with_messages, take
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import draw
from wolfpack.update.visit import find

# Entries of `marks`: the next place in `order`, the number of free slots, the update of
# the first message, and the first update that no messages are drawn for yet.
NEXT, N_FREE, FIRST, LAST = range(4)
LATE = -1  # stands for the version that a dropped message was computed from
CHUNK = 4096  # the least number of messages drawn at a time
MAX_BYTES = 2**31  # of a backlog


class Backlog(NamedTuple):
    """The messages of later updates, tau each, and the atoms computed so far."""

    reads: np.ndarray  # the version that a message is computed from, or LATE
    blocks: np.ndarray
    slots: np.ndarray  # where its atom waits
    order: np.ndarray  # messages that have not read v yet, by the version they read
    free: np.ndarray  # slots of `atoms`
    atoms: np.ndarray
    marks: np.ndarray

    @classmethod
    def create(cls, problem) -> "Backlog":
        """Make a backlog without messages."""
        none = zeros(0, np.int64)
        atoms = zeros((0, problem.atom_size), problem.start.dtype)
        return cls(none, none, none, none, none, atoms, zeros(4, np.int64))

    def begin(self, update: int) -> None:
        """Let `update` be the first one that messages are drawn for."""
        self.marks[[FIRST, LAST]] = update


def draw_more(backlog, delays, choose, tau, start, k, rng) -> Backlog:
    """Draw the messages of all updates that may read version k, and as many again.

    A message that would read a version before `start` reads version `start`.
    `choose(size)` returns the blocks of `size` messages.
    """
    marks = backlog.marks
    first, last = int(marks[FIRST]), int(marks[LAST])
    needed = int(min(2 * k, k + delays.maximum)) + 1
    until = max(needed + (needed - k), last + CHUNK // tau, last + 1)
    updates = np.repeat(np.arange(last, until), tau)
    late = delays.draw(rng, updates.size)
    reads = np.where(2 * late > updates, LATE, np.maximum(updates - late, start))
    kept = slice((k - first) * tau, None)  # messages of past updates are dropped
    reads = np.concatenate([backlog.reads[kept], reads])
    slots = np.concatenate([backlog.slots[kept], np.full(updates.size, -1)])
    ahead = np.flatnonzero(reads >= k)
    ahead = ahead[slots[ahead] < 0]
    room = _most_waiting(reads, k, until, tau) + tau
    size = backlog.atoms.itemsize * backlog.atoms.shape[1] * room + 64 * reads.size
    if size > MAX_BYTES:
        raise MemoryError(
            f"{delays!r} with batch_size {tau} keeps {room} atoms and {reads.size} "
            f"draws in memory after {k} updates ({size / 1e9:.1f} GB); the limit is "
            f"{MAX_BYTES / 1e9:.1f} GB. Use a shorter delay or fewer epochs."
        )
    more = max(0, room - len(backlog.atoms))
    atoms = np.concatenate(
        [backlog.atoms, zeros((more, *backlog.atoms.shape[1:]), backlog.atoms.dtype)]
    )
    n_free, old = int(marks[N_FREE]), len(backlog.atoms)
    free = np.zeros(len(atoms), np.int64)
    free[:n_free] = backlog.free[:n_free]
    free[n_free : n_free + more] = np.arange(old, old + more)
    return Backlog(
        reads=reads,
        blocks=np.concatenate([backlog.blocks[kept], choose(updates.size)]),
        slots=slots,
        order=ahead[np.argsort(reads[ahead], kind="stable")],
        free=free,
        atoms=atoms,
        marks=np.array([0, n_free + more, k, until], np.int64),
    )


def _most_waiting(reads: np.ndarray, k: int, until: int, tau: int) -> int:
    """Return the most atoms that wait at the same time, from update k on."""
    updates = np.repeat(np.arange(k, until), tau)
    waits = reads != LATE
    change = np.zeros(until - k + 1, np.int64)
    np.add.at(change, np.maximum(reads[waits], k) - k, 1)
    np.add.at(change, updates[waits] - k + 1, -1)
    return int(np.cumsum(change).max(initial=0))


@entry
def choose(plan, sampler, rng, tau, chosen):
    """Fill `chosen` with the blocks of updates, tau different ones each."""
    for first in range(0, chosen.size, tau):
        draw(plan, sampler, rng, chosen[first : first + tau])


@entry
def run_late(
    data, shared, blocks, average, backlog, inbox, progress, tally, work, plan, maximum,
    until,
):  # fmt: skip
    """Update until `progress.updates` is `until`; return why it ended.

    `tally.at` is the current block, which an error message names.
    """
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, backlog, inbox = borrow(average), borrow(backlog), borrow(inbox)
    work = borrow(work)
    reads, order, marks = backlog.reads, backlog.order, backlog.marks
    slots, free, atoms = backlog.slots, backlog.free, backlog.atoms
    tau = inbox.batch.chosen.size
    while progress.updates < until:
        k = progress.updates
        if min(2 * k, k + maximum) >= marks[LAST]:
            return Exit.DRAW
        if not has_room(blocks, tau):
            return Exit.GROW
        while marks[NEXT] < order.size and reads[order[marks[NEXT]]] == k:
            message = order[marks[NEXT]]
            marks[NEXT] += 1
            marks[N_FREE] -= 1
            slot = free[marks[N_FREE]]
            slots[message] = slot
            tally.at = i = backlog.blocks[message]
            _, _, ended = find(data, shared, blocks, i, atoms[slot], work, plan, 1)
            if ended != Exit.DONE:
                return ended
        clear_inbox(inbox, tally)
        for message in range((k - marks[FIRST]) * tau, (k - marks[FIRST] + 1) * tau):
            if reads[message] == LATE:
                tally.dropped += 1
                continue
            slot = slots[message]
            late = k - reads[message]
            take(inbox, tally, backlog.blocks[message], atoms[slot], 1.0, late, k)
            free[marks[N_FREE]] = slot
            marks[N_FREE] += 1
        if inbox.count[0] > 0:
            gamma = step_with_messages(
                data, shared, blocks, average, inbox, progress, tally, work, plan, k,
                False,
            )  # fmt: skip
            if not gamma >= 0.0:
                return Exit.NOT_A_NUMBER
        progress.calls += tau
        progress.updates += 1
    return Exit.DONE
