"""The server of a cluster, apart from the network: messages in, versions of v out.

Workers send chunks of messages {i, s_(i)}, all computed from one version of v. The
service takes them one by one into its `inbox`, steps whenever the inbox holds tau
disjoint blocks, and can be saved at any time. A saved state leaves out the inbox, so
after a restart its blocks are solved again. Each start has its own `life`, a random
number: chunks computed from a version that an earlier life had after its last save are
dropped. Counts never fall, because oracle calls whose result was lost were made, too.
"""

import os
import secrets
import sys
from typing import Any

import numpy as np

from wolfpack.engines.cluster.messages import NOWHERE, Chunk, portable
from wolfpack.kernels.compile import entry
from wolfpack.kernels.slots import oracle, trim
from wolfpack.run.acceleration import proceed
from wolfpack.update.gap import least_value
from wolfpack.update.inbox import Inbox, finish, is_complete, take
from wolfpack.update.plan import Exit, make_tallies
from wolfpack.update.visit import admits


@entry
def take_chunk(
    data, shared, blocks, average, inbox, chosen, atoms, first, version, progress,
    tally, work, plan,
):  # fmt: skip
    """Take messages from `first` on; return why it ended, and at which message."""
    message = first
    while True:
        if is_complete(inbox):
            ended = finish(
                data, shared, blocks, average, inbox, progress, tally, work, plan
            )
            if ended != Exit.DONE:
                return ended, message
        if message == chosen.size:
            return Exit.DONE, message
        progress.at = i = chosen[message]
        if not admits(data, i, trim(blocks, i, atoms[message])):
            return Exit.INFEASIBLE, message
        k = progress.updates
        take(inbox, tally, i, atoms[message], 1.0, k - version, k)
        progress.calls += 1
        message += 1


@entry
def solve_chunk(data, shared, outline, chosen, atoms, current, work):
    """Solve the chosen blocks against one v: the loop of a worker."""
    for m in range(chosen.size):
        i = chosen[m]
        current[0] = i
        oracle(data, shared, i, trim(outline, i, atoms[m]), work)


@entry
def bound_blocks(data, exact, shared, outline, first, last, atom, current, work):
    """Return the sum of the minima over blocks [first, last), for a check."""
    total = 0.0
    for i in range(first, last):
        current[0] = i
        own = trim(outline, i, atom)
        total += least_value(data, shared, exact, i, own, work)
    return total


class Service:
    """A server without a clock, a network or workers: its caller hands it the chunks.

    `made`: the updates and oracle calls that the driver knows of. They exceed those of
    `state` after a restart from an older file.
    """

    def __init__(
        self, problem, state, plan, batch_size: int, made: tuple[int, int] = (0, 0)
    ) -> None:
        self.problem, self.state, self.plan = problem, state, plan
        self.kernels = problem.kernels((sys.modules[__name__],))
        self.inbox = Inbox.create(problem, batch_size)
        self.tally = make_tallies(1)[0]
        self.work = problem.work()
        self.life = secrets.randbits(62)
        self.born = state.n_updates  # versions up to here are those of earlier lives
        self.until = 0.0  # the oracle calls after which the service is closed
        self.ended = Exit.DONE
        self.error: tuple[int, Exception] | None = None  # with the block
        progress = state.progress
        progress.updates = max(progress.updates, made[0])
        progress.calls = max(progress.calls, made[1])
        state.forget_gaps()
        self._decided = np.zeros(3)  # calls, gaps and their number, at a decision
        self._note_decision()

    @property
    def version(self) -> int:
        """The number of updates so far, k."""
        return self.state.n_updates

    @property
    def is_open(self) -> bool:
        """Whether the service takes more chunks."""
        well = self.ended == Exit.DONE and self.error is None
        return well and self.state.n_oracle_calls < self.until

    def take(self, chunk: Chunk) -> None:
        """Take a chunk, and step as often as it completes a minibatch.

        A failure closes the service. It is in `ended`, with its block in
        `state.progress.at`, or in `error`.
        """
        self._refuse(chunk)
        if not self.is_open:
            return
        if self.is_lost(chunk):
            self.tally.lost += len(chunk.blocks)
            return
        left = min(self.until - self.state.n_oracle_calls, len(chunk.blocks))
        chosen, atoms = chunk.blocks[: int(left)], chunk.atoms[: int(left)]
        try:
            self.ended = self._take(chosen, atoms, self._clip(chunk.version))
            self._accelerate()
        except Exception as error:
            is_stepping = self.inbox.count[0] == len(self.inbox.batch.chosen)
            block = self.tally.at if is_stepping else self.state.progress.at
            self.fail(block, portable(error, "On the server"))

    def warm_up(self) -> None:
        """Load or compile the loops, and move nothing."""
        atoms = np.zeros((0, self.problem.atom_size), self.problem.start.dtype)
        self._take(np.zeros(0, np.int64), atoms, self.version)
        self.rebuild()

    def _clip(self, version: int) -> int:
        """Limit a version to those that exist, so that delays are 0 ... k + 1."""
        return max(NOWHERE[1], min(version, self.version))

    def _take(self, chosen: np.ndarray, atoms: np.ndarray, version: int) -> Exit:
        first, state = 0, self.state
        while True:
            ended, first = self.kernels.take_chunk(
                self.problem.data, state.shared, state.blocks, state.average,
                self.inbox, chosen, atoms, first, version, state.progress, self.tally,
                self.work, self.plan,
            )  # fmt: skip
            if ended != Exit.GROW:
                return Exit(ended)
            grow = self.problem.store.grow
            state.blocks = grow(state.blocks, len(self.inbox.batch.chosen))

    def _accelerate(self) -> None:
        """Decide about an outer step once a pass, where the run is accelerated."""
        state, outer = self.state, self.state.outer
        calls, gaps, seen = self._counts() - self._decided
        if outer is None or calls < self.problem.n_blocks or seen == 0:
            return
        n, calls = self.problem.n_blocks, state.n_oracle_calls
        passes = (calls - outer.numbers.calls) / n
        proceed(outer, state.shared, n * gaps / seen, self._excess, calls, passes)
        self._note_decision()

    def _excess(self) -> float:
        outer = self.state.outer
        assert outer is not None
        return 0.5 * self.problem.ridge * outer.apart(self.state.shared)

    def _counts(self) -> np.ndarray:
        progress = self.state.progress
        return np.array([progress.calls, progress.gap_sum, progress.gaps_seen])

    def _note_decision(self) -> None:
        self._decided = self._counts()
        if self.state.outer is not None:
            self.plan = self.plan._replace(reach=self.state.outer.reach)

    def fail(self, block: int, error: Exception) -> None:
        """Close the service because of an error on a block; the first error counts."""
        if self.error is None:
            self.error = int(block), error

    def is_lost(self, chunk: Chunk) -> bool:
        """Return whether a chunk was computed from a v that an earlier life lost."""
        return chunk.life != self.life and chunk.version > self.born

    def rebuild(self) -> float:
        """Compute v anew from x, without rounding drift; return the relative drift."""
        return self.state.rebuild(self.problem, self.kernels, self.work)

    def save(self, path: str | os.PathLike) -> Any:
        """Write the state to a file, which replaces an old one only when complete."""
        return self.state.save(path)

    def _refuse(self, chunk: Chunk) -> None:
        """Refuse a chunk with which compiled code would access memory out of bounds."""
        n, wanted = self.problem.n_blocks, (len(chunk.blocks), self.problem.atom_size)
        fits = chunk.blocks.ndim == 1 and chunk.blocks.dtype == np.int64
        fits &= chunk.atoms.shape == wanted
        fits &= chunk.atoms.dtype == self.problem.start.dtype
        if not fits or (len(chunk.blocks) and not _within(chunk.blocks, n)):
            raise ValueError(
                f"a chunk must hold int64 blocks 0 ... {n - 1} and atoms of shape "
                f"{wanted} and type {self.problem.start.dtype}; it holds blocks of "
                f"type {chunk.blocks.dtype} and atoms of shape {chunk.atoms.shape} and "
                f"type {chunk.atoms.dtype}."
            )


def _within(blocks: np.ndarray, n: int) -> bool:
    return bool(blocks.min() >= 0 and blocks.max() < n)
