"""The step of an update: lines 2 and 3 of Algorithm 1, for one block or for many.

Blocks that move together share one direction and one gamma. The gamma of a single block
needs no direction, so its change is written into v at once. Every engine that holds v
makes its steps here.
"""

from typing import NamedTuple

import numpy as np

from wolfpack.kernels.compile import glue
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.slots import shift, spread
from wolfpack.update.direction import Direction, write
from wolfpack.update.sampling import AWAKE, GAP, observe
from wolfpack.update.steps import alone, jointly
from wolfpack.update.visit import is_finite


class Batch(NamedTuple):
    """The blocks of one update, and the direction that they make together."""

    chosen: np.ndarray  # S
    atoms: np.ndarray  # s_(i) for i in S
    gaps: np.ndarray  # g_(i) for i in S
    shares: np.ndarray  # how much of s_(i) - x_(i) the direction holds
    direction: Direction

    @classmethod
    def create(cls, problem, size: int, is_alone: bool = False) -> "Batch":
        """Make the memory of `size` blocks; a single block needs no direction."""
        nothing = zeros((0, *problem.shared.shape[1:]), problem.shared.dtype)
        return cls(
            chosen=zeros(size, np.int64),
            atoms=zeros((size, problem.atom_size), problem.start.dtype),
            gaps=zeros(size),
            shares=np.ones(size),
            direction=Direction.create(problem, nothing if is_alone else None),
        )


@glue
def step_alone(data, shared, blocks, average, i, atom, move, gap, plan, k, work):
    """Move one block, whose move is prepared, and v; return gamma."""
    gamma = alone(data, i, move, gap, plan, k, work)
    if gamma >= 0.0:
        spread(data, i, move, plan.reach * gamma, shared, work)
        if average.size > 0:
            spread(data, i, move, weigh(gamma, k), average, work)
        shift(data, blocks, i, atom, gamma)
    return gamma


@glue
def step_together(
    data, shared, blocks, average, batch, count, n_rows, linear, plan, k, wants_slope
):
    """Move `count` blocks and v along their direction; return gamma and f' at 0.

    gamma is NaN, and x and v stay as they are, where a number is not finite.
    """
    rows, tau = batch.direction.rows[:n_rows], batch.chosen.size
    gamma, at_zero = jointly(
        data, shared, batch.direction.values, rows, linear, plan, tau, k, wants_slope
    )
    if not (gamma >= 0.0 and is_finite(at_zero)):
        return np.nan, at_zero
    take_step(data, shared, blocks, average, batch, count, rows, gamma, k)
    return gamma, at_zero


@glue
def take_step(data, shared, blocks, average, batch, count, rows, gamma, k):
    """Write the direction to v, and move its blocks."""
    write(batch.direction.values, rows, gamma, weigh(gamma, k), shared, average)
    for j in range(count):
        step = gamma * batch.shares[j]
        shift(data, blocks, batch.chosen[j], batch.atoms[j], step)


@glue
def weigh(gamma, k):
    """Return the weight of a move in the average of the iterates; see `State`."""
    return 0.5 * gamma * k * (k + 1.0)


@glue
def note_gaps(counts, sampler, batch, plan):
    """Count the gaps of a batch for the estimate, and for gap sampling."""
    tau = batch.chosen.size
    for j in range(tau):
        i, gap, weight = batch.chosen[j], batch.gaps[j], 1.0
        if plan.sampling == GAP:
            weight = observe(plan, sampler, i, gap, tau)
        elif plan.sampling == AWAKE:
            sampler.gaps[i] = max(gap, 0.0)
        counts.gap_sum += weight * gap
        counts.gaps_seen += weight
