"""Which blocks the next update visits: S in the paper, |S| = tau.

`uniform`: a new subset each time, without replacement within it. `permutation`: a new
order each epoch; it needs up to a third fewer passes. `gap`: blocks in proportion to
their gap when last seen, drawn in O(log n) from a Fenwick tree. `cyclic`: from the
first block to the last and back, so that memory is read in order; nothing is drawn.

Where accelerated steps lead to minimisers of blocks, `gap` stands for AWAKE: rounds of
the blocks whose gap is not 0. A block that was just minimised over has a small gap,
which does not say how soon the steps of others will raise it again.
"""

import math
import sys
from typing import NamedTuple

import numpy as np

from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.specialise import library
from wolfpack.update.order import draw_awake, shuffle, sweep

UNIFORM, PERMUTATION, GAP, CYCLIC, AWAKE = 0, 1, 2, 3, 4
KINDS = {
    "uniform": UNIFORM,
    "permutation": PERMUTATION,
    "gap": GAP,
    "cyclic": CYCLIC,
}
# The least weight of a block, relative to the mean weight, and where all gaps are 0.
FLOOR, TINY = 0.01, 1e-300
# The share of the blocks that `gap` draws in turn, where the run is accelerated: outer
# steps change the gaps of all blocks, and a gap that is never seen again stays too low.
SWEEP = 0.3
# The largest share of the blocks in a batch whose draws count as independent.
ALONE = 0.01


class Sampler(NamedTuple):
    """An order of the blocks, the place in it, and, for `gap`, the tree.

    The cursor begins with a place in `order`, up to n. Beyond n it is a place in a
    sweep, n + 1 at its first block, so that a run which goes on with another sampling
    does not mistake one for the other. The other numbers of the cursor are those of a
    round (`order.draw_awake`).
    """

    order: np.ndarray
    cursor: np.ndarray
    gaps: np.ndarray
    tree: np.ndarray


def create(n_blocks: int, kind: str) -> Sampler:
    """Make a sampler; with kind "gap" all blocks start with the same weight."""
    n_gaps = n_blocks if KINDS[kind] == GAP else 0
    sampler = Sampler(
        np.arange(n_blocks),
        np.array([n_blocks, 0, 0, 0]),
        np.ones(n_gaps),
        np.zeros(n_gaps + 1),
    )
    rebuild(sampler)
    return sampler


def number(name: str, rests: bool) -> int:
    """Return the number of a sampling; `rests`: steps leave blocks at rest."""
    return AWAKE if rests and KINDS[name] == GAP else KINDS[name]


def rebuild(sampler: Sampler, kind: int = GAP) -> None:
    """Build the tree anew from the gaps, or begin a round of all blocks awake."""
    if kind == AWAKE:
        np.maximum(sampler.gaps, 0.0, out=sampler.gaps)  # < 0 by rounding
        sampler.cursor[1] = 0
    elif sampler.gaps.size:
        library(sys.modules[__name__]).refresh(sampler)


@jit
def draw(plan, sampler, rng, chosen):
    """Fill `chosen` with distinct blocks."""
    kind = plan.sampling
    order, cursor = sampler.order, sampler.cursor
    n, tau = order.size, chosen.size
    if kind == GAP:
        _draw_by_gap(sampler, rng, chosen, plan.reach < 1.0)
        return
    if kind == AWAKE:
        draw_awake(order, cursor, sampler.gaps, rng, chosen)
        return
    if kind == CYCLIC:
        cursor[0] = n + 1 + sweep(max(cursor[0] - n - 1, 0), n, chosen)
        return
    if kind == UNIFORM:  # shuffle the first tau places
        cursor[0] = 0
        shuffle(order, rng, tau)
    elif cursor[0] + tau > n:  # a new permutation
        cursor[0] = 0
        shuffle(order, rng, n - 1)
    for j in range(tau):
        chosen[j] = order[cursor[0] + j]
    cursor[0] += tau


@jit
def _draw_by_gap(sampler, rng, chosen, is_accelerated):
    gaps, tree = sampler.gaps, sampler.tree
    n = gaps.size
    for j in range(chosen.size):
        i = -1
        if is_accelerated and rng.random() < SWEEP:
            i = _next_in_order(sampler, rng)
            i = -1 if gaps[i] < 0.0 else i  # drawn already
        if i < 0:
            i = _descend(tree, rng.random() * _total(tree))
        while gaps[i] < 0.0:  # rounding in the tree may lead to a block drawn already
            i = (i + 1) % n
        chosen[j] = i
        _raise(tree, i, -gaps[i])
        gaps[i] = -gaps[i]
    for j in range(chosen.size):
        i = chosen[j]
        gaps[i] = -gaps[i]
        _raise(tree, i, gaps[i])


@jit
def _next_in_order(sampler, rng):
    order, cursor = sampler.order, sampler.cursor
    if cursor[0] >= order.size:
        cursor[0] = 0
        shuffle(order, rng, order.size - 1)
    cursor[0] += 1
    return order[cursor[0] - 1]


@jit
def observe(plan, sampler, i, gap, tau):
    """Remember the gap of block i, one of `tau` drawn; return what its gap counts.

    A floor keeps every block reachable.
    """
    gaps, tree = sampler.gaps, sampler.tree
    mean, before = _total(tree) / gaps.size, gaps[i]
    gap = max(gap, FLOOR * mean, TINY)
    _raise(tree, i, gap - before)
    gaps[i] = gap
    return weigh(plan, before, mean, tau / gaps.size)


@jit
def weigh(plan, gap, mean, share):
    """Return what a block counts in the estimate, which was drawn by its old `gap`.

    It is the inverse of its chance to be among the `share` of blocks that are drawn,
    relative to that of a uniform draw. Outer steps change all gaps: a sum of those seen
    last would lag far behind where most blocks are seldom drawn.
    """
    if plan.reach >= 1.0 or not mean > 0.0:
        return 1.0
    chance = SWEEP + (1.0 - SWEEP) * gap / mean
    if share > ALONE:
        chance = (1.0 - math.exp(-share * chance)) / share
    return 1.0 / chance


@entry
def refresh(sampler):
    """Build the tree anew from the gaps: rounding errors add up in it.

    The floor of `observe` holds here, too: the gap of a block may rise from 0 later.
    """
    gaps, tree = sampler.gaps, sampler.tree
    tree[:] = 0.0
    total = 0.0
    for i in range(gaps.size):
        total += max(gaps[i], 0.0)
    for i in range(gaps.size):
        gaps[i] = max(gaps[i], FLOOR * total / gaps.size, TINY)
        _raise(tree, i, gaps[i])


@jit
def _raise(tree, i, amount):
    j = i + 1
    while j < tree.size:
        tree[j] += amount
        j += j & -j


@jit
def _total(tree):
    total = 0.0
    j = tree.size - 1
    while j > 0:
        total += tree[j]
        j -= j & -j
    return total


@jit
def _descend(tree, target):
    """Return the first block whose cumulative gap exceeds `target`."""
    n = tree.size - 1
    step = 1
    while 2 * step <= n:
        step *= 2
    position = 0
    while step > 0:
        if position + step <= n and tree[position + step] <= target:
            position += step
            target -= tree[position]
        step //= 2
    return min(position, n - 1)


def is_sound(sampler: Sampler, n_blocks: int) -> bool:
    """Whether a sampler read from a file may be trusted with indices."""
    order, cursor, gaps, tree = sampler
    with np.errstate(over="ignore"):
        total = float(gaps.sum()) if gaps.dtype == np.float64 else math.nan
    return (
        (order.dtype, order.shape) == (np.int64, (n_blocks,))
        and np.array_equal(np.sort(order), np.arange(n_blocks))
        and (cursor.dtype, cursor.shape) == (np.int64, (4,))
        and bool(0 <= cursor[0] <= 3 * n_blocks and cursor.min() >= 0)
        and bool(cursor[1:].max() <= n_blocks)
        and math.isfinite(total)
        and gaps.shape in ((0,), (n_blocks,))
        and (tree.dtype, tree.shape) == (np.float64, (gaps.size + 1,))
        and bool((gaps >= 0).all() and np.isfinite(tree).all())
    )


def repair(sampler: Sampler, kind: int) -> Sampler:
    """Return the sampler, with a new tree if its tree does not fit its gaps.

    A tree that differs by rounding only is kept, so that a run goes on bit for bit.
    Rounds have no tree.
    """
    if kind != GAP:
        return sampler
    gaps, ends = sampler.gaps, np.arange(len(sampler.tree))
    sums = np.concatenate([[0.0], np.cumsum(gaps)])
    tree = sums - sums[ends - (ends & -ends)]  # no floor here: it may have risen since
    if np.allclose(sampler.tree, tree, rtol=1e-6, atol=1e-6 * gaps.sum()):
        return sampler
    fresh = sampler._replace(gaps=gaps.copy(), tree=np.zeros_like(sampler.tree))
    rebuild(fresh)
    return fresh
