"""One thread: BCFW, minibatch and batch Frank-Wolfe from one loop.

Algorithm 1 of the paper with the server and its only worker in the same place, so that
no update is delayed and none collides:

    x <- x + gamma sum over S of (s_[i] - x_[i]),  s_(i) = argmin <s, grad_i f(x)>

tau = |S| = 1 is BCFW, 1 < tau < n the minibatch variant, tau = n batch Frank-Wolfe. The
comments carry the line numbers of Algorithm 1: 1-4 the server's, a-e the worker's.
"""

from dataclasses import dataclass

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.slots import HAS_CURVATURE, has_room
from wolfpack.kernels.specialise import entry
from wolfpack.update.batch import Batch, note_gaps, step_alone, step_together
from wolfpack.update.direction import lay_out
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import draw
from wolfpack.update.steps import LINE
from wolfpack.update.visit import visit


@dataclass(frozen=True)
class Serial:
    """One thread, no delay: the readable reference, and the same bits each time.

    Examples
    --------
    >>> import wolfpack
    >>> wolfpack.Serial()
    Serial()
    """

    reproducible = True
    size = 1

    def unit(self, asked: int | None, n_blocks: int) -> int:
        """Return the blocks of one update."""
        return asked or 1

    def refuse(self, problem, options) -> None:
        """Every problem can be solved this way."""

    def prepare(self, problem, options):
        """Return the scratch memory of one run."""
        return Scratch.create(problem, options.batch_size)

    def advance(self, run, calls: int) -> int:
        """Make updates for so many oracle calls; return why it ended."""
        state, options = run.state, run.options
        until = state.n_updates + calls // options.batch_size
        return run.kernels.run(
            run.problem.data,
            state.shared,
            state.blocks,
            state.average,
            state.sampler,
            state.rng,
            state.counts,
            state.sums,
            run.scratch,
            run.work,
            options.plan,
            until,
        )


@entry
def run(
    data, shared, blocks, average, sampler, rng, progress, batch, work, plan, until
):
    """Update until `progress.updates` is `until`; return why it ended."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, sampler = borrow(average), borrow(sampler)
    batch, work = borrow(batch), borrow(work)
    chosen, tau = batch.chosen, batch.chosen.size
    is_alone = tau == 1 and (HAS_CURVATURE or plan.rule != LINE)
    while progress.updates < until:
        if not has_room(blocks, tau):
            return Exit.GROW
        k = progress.updates
        n_rows = 0
        linear = 0.0
        draw(plan.sampling, sampler, rng, chosen)  # c. choose S
        for j in range(tau):
            progress.at = i = chosen[j]
            progress.calls += 1
            atom, batch.gaps[j], ended = visit(  # d. s_(i)
                data, shared, blocks, i, batch.atoms[j], work, plan.exact, 1
            )
            if ended != Exit.DONE:
                return ended
            if not is_alone:  # e. and 1. gather {i, s_(i)}
                more, n_rows = lay_out(
                    data, blocks, i, atom, 1.0, batch.direction, n_rows, k, work
                )
                linear += more
        if is_alone:  # 2. gamma; 3. x and v, where every worker reads it (line 4)
            gamma = step_alone(
                data, shared, blocks, average, i, atom, batch.gaps[0], plan, k, work
            )
        else:
            gamma, _ = step_together(
                data, shared, blocks, average, batch, tau, n_rows, linear, plan, k, False
            )
        if not gamma >= 0.0:
            return Exit.NOT_A_NUMBER
        note_gaps(progress, sampler, batch, plan)
        progress.updates += 1
    return Exit.DONE
