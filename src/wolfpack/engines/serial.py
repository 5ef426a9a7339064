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
from typing import NamedTuple

import numpy as np

from wolfpack.engines.base import Engine, Session
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.slots import (
    HAS_CONTAINS,
    HAS_CURVATURE,
    HAS_MINIMISER,
    HAS_ROWS,
    contains,
    curvature,
    minimiser,
    oracle,
    touched,
)
from wolfpack.kernels.specialise import entry, jit
from wolfpack.update.atoms import has_room, move, prepare, read_point, spread, trim
from wolfpack.update.plan import Exit
from wolfpack.update.sampling import GAP, draw, observe
from wolfpack.update.steps import (
    CONSTANT,
    LINE,
    OPEN_LOOP,
    closed_form,
    line_search,
    open_loop,
)

# Entries of `counts` and `sums`, which outlive a call of `run`.
UPDATES, CALLS, CURRENT = 0, 1, 2
GAPS, SEEN = 0, 1
# Why `run` returned.
DONE, GROW, NOT_A_NUMBER, INFEASIBLE = 0, 1, 2, 3


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
        self.scratch = Scratch.create(problem, options.batch_size)

    def warm_up(self, run) -> None:
        """Make no update, which compiles the loop."""
        self.advance(run, 0)

    def advance(self, run, calls: int) -> Exit:
        """Make updates for `calls` oracle calls; return why it ended."""
        state, options = run.state, run.options
        until = state.n_updates + calls // options.batch_size
        ended = run.kernels.run(
            run.problem.data,
            state.shared,
            state.blocks,
            state.average,
            state.sampler,
            state.rng,
            state.counts,
            state.sums,
            self.scratch,
            run.work,
            options.plan,
            until,
        )
        return Exit(ended)

    def forget_rows(self) -> None:
        """Forget which update met a row last, where the next one is no later."""
        self.scratch.stamps[:] = -1


class Scratch(NamedTuple):
    """Memory that an update fills and leaves clean."""

    chosen: np.ndarray  # S
    atoms: np.ndarray  # s_(i) for i in S
    gaps: np.ndarray  # g_(i) for i in S
    direction: np.ndarray  # sum over S of A_i (s_(i) - x_(i))
    rows: np.ndarray  # where it is not zero
    own_rows: np.ndarray  # those of one block
    stamps: np.ndarray  # which update met a row last

    @classmethod
    def create(cls, problem, batch_size: int) -> "Scratch":
        """Make the scratch memory for updates of `batch_size` blocks."""
        n_rows, width = len(problem.shared), problem.shared.shape[1:]
        alone = batch_size == 1 and problem.curvature is not None
        sparse = problem.touched is not None
        return cls(
            np.zeros(batch_size, np.int64),
            np.zeros((batch_size, problem.atom_size), problem.start.dtype),
            np.zeros(batch_size),
            np.zeros((0 if alone else n_rows, *width), problem.shared.dtype),
            np.arange(0 if alone else n_rows),
            np.zeros(problem.max_rows if sparse else 0, np.int64),
            np.full(n_rows if sparse else 0, -1),
        )


class Plan(NamedTuple):
    """What stays the same over a run: n, the rule of the step, the sampling."""

    n_blocks: int
    rule: int
    step_size: float
    sampling: int
    exact: bool


@entry
def run(
    data,
    shared,
    blocks,
    average,
    sampler,
    rng,
    counts,
    sums,
    scratch,
    work,
    plan,
    until,
):
    """Update until `counts[UPDATES]` is `until`; return why it ended."""
    data, shared, blocks = borrow(data), borrow(shared), borrow(blocks)
    average, sampler, scratch = borrow(average), borrow(sampler), borrow(scratch)
    counts, sums, work = borrow(counts), borrow(sums), borrow(work)
    chosen, atoms, gaps = scratch.chosen, scratch.atoms, scratch.gaps
    direction = scratch.direction
    tau = chosen.size
    alone = tau == 1 and (HAS_CURVATURE or plan.rule != LINE)
    while counts[UPDATES] < until:
        if not has_room(blocks, tau):
            return GROW
        k = counts[UPDATES]
        n_rows = 0
        linear = 0.0
        draw(plan.sampling, sampler, rng, chosen)  # c. choose S
        for j in range(tau):
            i = chosen[j]
            atom = trim(blocks, i, atoms[j])
            counts[CURRENT] = i
            counts[CALLS] += 1
            aim(data, shared, blocks, i, atom, work, plan.exact)  # d. s_(i)
            if HAS_CONTAINS and not contains(data, i, atom):
                return INFEASIBLE
            gaps[j] = prepare(data, shared, blocks, i, atom, work)
            if not abs(gaps[j]) < np.inf:
                return NOT_A_NUMBER
            if not alone:  # e. and 1. gather {i, s_(i)}
                linear += spread(data, blocks, i, atom, 1.0, direction, work)
                n_rows = meet_rows(data, i, scratch, n_rows, k, work)
        if plan.rule == OPEN_LOOP:  # 2. gamma
            gamma = open_loop(plan.n_blocks, tau, k)
        elif plan.rule == CONSTANT:
            gamma = plan.step_size
        elif HAS_CURVATURE and alone:
            bend = curvature(data, blocks, i, atom, work)
            gamma = closed_form(gaps[0], bend)
        else:
            rows = scratch.rows[:n_rows]
            gamma = line_search(data, shared, direction, rows, linear)[0]
        if not gamma >= 0.0:
            return NOT_A_NUMBER
        weight = 0.5 * gamma * k * (k + 1.0)  # of this move in the average, see State
        if alone:  # 3. v, where everybody reads it (line 4)
            spread(data, blocks, i, atom, gamma, shared, work)
            if average.size > 0:
                spread(data, blocks, i, atom, weight, average, work)
        else:
            apply(direction, scratch.rows[:n_rows], gamma, weight, shared, average)
        for j in range(tau):  # 3. x
            move(blocks, chosen[j], atoms[j], gamma)
            sums[GAPS] += gaps[j]
            if plan.sampling == GAP:
                observe(sampler, chosen[j], gaps[j])
        sums[SEEN] += tau
        counts[UPDATES] += 1
    return DONE


@jit
def aim(data, shared, blocks, i, atom, work, exact):
    """Write where block i should move into `atom`: a corner, or its minimiser."""
    if HAS_MINIMISER and exact:
        read_point(blocks, i, atom)
        minimiser(data, shared, i, atom, work)
    else:
        oracle(data, shared, i, atom, work)


@jit
def meet_rows(data, i, scratch, n_rows, stamp, work):
    """Add the rows of v that block i touches, each once; return how many there are."""
    rows, stamps = scratch.rows, scratch.stamps
    if not HAS_ROWS:
        return rows.size
    own = touched(data, i, scratch.own_rows, work)
    for j in range(own):
        row = scratch.own_rows[j]
        if stamps[row] != stamp:
            stamps[row] = stamp
            rows[n_rows] = row
            n_rows += 1
    return n_rows


@jit
def apply(direction, rows, gamma, weight, shared, average):
    """Move v by gamma along `direction`, and clear it: O(rows it touches)."""
    n_rows, width = len(direction), direction.size // len(direction)
    move = direction.reshape((n_rows, width))
    target = shared.reshape((n_rows, width))
    for r in rows:
        for j in range(width):
            target[r, j] += gamma * move[r, j]
    if average.size > 0:
        mean = average.reshape((n_rows, width))
        for r in rows:
            for j in range(width):
                mean[r, j] += weight * move[r, j]
    for r in rows:
        for j in range(width):
            move[r, j] = 0.0
