"""One thread: BCFW, minibatch and batch Frank-Wolfe from one loop.

Algorithm 1 of the paper with the server and its only worker in the same place, so that
no update is delayed and none collides:

    x <- x + gamma sum over S of (s_[i] - x_[i]),  s_(i) = argmin <s, grad_i f(x)>

tau = |S| = 1 is BCFW, 1 < tau < n the minibatch variant, tau = n batch Frank-Wolfe. The
comments carry the line numbers of Algorithm 1: 1-4 the server's, a-e the worker's.
"""

import sys
from dataclasses import dataclass
from types import ModuleType

from wolfpack.engines.base import Engine, Session
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry
from wolfpack.kernels.slots import has_room
from wolfpack.update.batch import Batch, note_gaps, step_alone, step_together
from wolfpack.update.direction import lay_out
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import draw
from wolfpack.update.steps import LINE
from wolfpack.update.visit import visit


@dataclass(frozen=True)
class Serial(Engine):
    """One thread, no delay: the readable reference, and the same bits each time.

    Examples
    --------
    >>> import wolfpack
    >>> wolfpack.Serial()
    Serial()
    """

    reproducible = True
    acceleration = "always"

    def loops(self, problem) -> tuple[ModuleType, ...]:
        """Return this module: its loop is below."""
        return (sys.modules[__name__],)

    def session(self, problem, options) -> "SerialSession":
        """Return the memory of one run."""
        return SerialSession(problem, options)


class SerialSession(Session):
    """One thread, which moves `state` itself."""

    def __init__(self, problem, options) -> None:
        self.in_flight = options.batch_size
        searches = options.plan.rule == LINE and problem.curvature is None
        is_alone = options.batch_size == 1 and not searches
        self.batch = Batch.create(problem, options.batch_size, is_alone)
        self.direction = None if is_alone else self.batch.direction

    def warm_up(self, run) -> None:
        """Make no update, which compiles the loop."""
        self.advance(run, 0)

    def advance(self, run, calls: int) -> Exit:
        """Make updates for `calls` oracle calls; return why it ended."""
        state = run.state
        until = state.n_updates + calls // self.in_flight
        ended = run.kernels.run(
            run.problem.data, state.shared, state.blocks, state.average, state.sampler,
            state.rng, state.progress, self.batch, self.direction, run.work, run.plan,
            until,
        )  # fmt: skip
        return Exit(ended)

    def forget_rows(self) -> None:
        """Forget which update touched a row last, before the count of updates falls."""
        self.batch.direction.stamps[:] = -1


@entry
def run(
    data, shared, blocks, average, sampler, rng, progress, batch, direction, work, plan,
    until,
):  # fmt: skip
    """Update until `progress.updates` is `until`; return why it ended.

    `direction` is that of `batch`, or None where one block moves at a time. Numba knows
    the type of None, and then compiles only the branches for single blocks.
    """
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, sampler = borrow(average), borrow(sampler)
    batch, work = borrow(batch), borrow(work)
    chosen, tau = batch.chosen, batch.chosen.size
    while progress.updates < until:
        if not has_room(blocks, tau):
            return Exit.GROW
        k = progress.updates
        n_rows = 0
        linear = 0.0
        draw(plan, sampler, rng, chosen)  # c. choose S
        for j in range(tau):
            progress.at = i = chosen[j]
            progress.calls += 1
            atom, move, gap, batch.gaps[j], ended = visit(  # d. s_(i)
                data, shared, blocks, i, batch.atoms[j], work, plan, 1
            )
            if ended != Exit.DONE:
                return ended
            if direction is not None:  # e. and 1. gather {i, s_(i)}
                linear, n_rows = lay_out(
                    data, i, move, plan.reach, batch.direction, linear, n_rows, k, work
                )
        # 2. gamma; 3. x and v, where every worker reads it (line 4)
        if direction is None:
            gamma = step_alone(
                data, shared, blocks, average, i, atom, move, gap, plan, k, work
            )
        else:
            gamma, _ = step_together(
                data, shared, blocks, average, batch, tau, n_rows, linear, plan, k,
                False,
            )  # fmt: skip
        if not gamma >= 0.0:
            return Exit.NOT_A_NUMBER
        note_gaps(progress, sampler, batch, plan)
        progress.updates += 1
    return Exit.DONE
