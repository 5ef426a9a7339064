"""When to make an outer step, and with which reach: chosen during the run.

The gap of an accelerated run has two parts (`update.outer` has the symbols),

    f(x) - P(v) = sum of the block gaps at v  +  c/2 |u - v|^2

The first is what block steps have left to do, the second what the outer loop has. Both
are known without an oracle call, the first as the running estimate.

An outer step is made when block steps have brought the first part down to 1 - sqrt(s)/2
of what it was at the last one: Catalyst asks for such a geometric decrease, and it
keeps z from running away from blocks that cannot follow. Then s is chosen so that
neither part is large while the other is small: with a smaller s the first part falls
faster, and the second more slowly.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wolfpack.engines.base import Engine
from wolfpack.problem import Problem
from wolfpack.update.outer import LEAST, Outer
from wolfpack.update.plan import Plan
from wolfpack.update.sampling import AWAKE

FALL = 0.5  # in 1 - FALL sqrt(s)
BALANCE = 2.0  # the ratio of the first part to the second that s is steered to
GAIN, MOST_CHANGE = 0.25, 1.5  # of s in one outer step
# Where block steps do not bring the first part down in PATIENCE passes, s is changed
# without an outer step, unless by less than LEAST_CHANGE. Slopes do not tell how the
# two parts compare: with these, group fused lasso took up to 15 times the passes.
PATIENCE, LEAST_CHANGE = 5.0, 0.05
LEAST_INNER = 1e-3  # times the second part: a first part below this counts as this
MOST = 0.9  # value of s, except in plain steps
# Blocks a thread for "auto", where exact steps see slopes only: the estimate from fewer
# is poor, and such a run takes milliseconds.
FEWEST = 250
# The largest correction of the estimate, which is too low where blocks were last seen
# long ago. With exact steps, outside rounds, it sums slopes towards the minimisers of
# blocks, which may be smaller than the gaps by any factor.
MOST_BIAS, MOST_BIAS_EXACT = 2.0, 1e6


def decide(
    problem: Problem,
    engine: Engine,
    step: Any,
    sampling: str,
    averaging: bool,
    wish: Any,
) -> bool:
    """Return whether to accelerate, where `wish` is True, False or "auto"."""
    is_auto = isinstance(wish, str) and wish == "auto"
    if not (is_auto or isinstance(wish, bool | np.bool_)):
        raise ValueError(f"accelerate must be True, False or 'auto', not {wish!r}.")
    if not is_auto and not wish:
        return False
    why_not = _obstacle(problem, engine, step, sampling, averaging)
    if why_not and not is_auto:
        raise ValueError(f"accelerate=True is not possible here: {why_not}")
    by_slopes = step == "exact" and not (sampling == "gap" and problem.finds_gap)
    has_estimate = not by_slopes or problem.n_blocks >= FEWEST * engine.size
    is_usual = engine.acceleration == "always" and has_estimate
    return not why_not and (is_usual or not is_auto)


def _obstacle(
    problem: Problem, engine: Engine, step: Any, sampling: str, averaging: bool
) -> str:
    """Return why a run cannot be accelerated; empty: it can."""
    if not problem.ridge:
        return (
            f"it takes a problem whose g(v) is c/2 |v|^2, and {problem.name} does not "
            "say so (Problem.ridge)."
        )
    if problem.value is None:
        return "it needs a problem with a value function."
    if step not in ("line", "exact"):
        return f"step={step!r} follows a schedule of plain steps; use step='line'."
    if step == "exact" and sampling == "gap" and not problem.finds_gap:
        return (
            f"the minimiser of {problem.name} does not return the gap of a block "
            "(Problem.finds_gap), and an outer step needs the sum of the gaps; use "
            "sampling='permutation' or 'cyclic'."
        )
    if averaging:
        return "the average is of plain iterates; set averaging=False."
    if engine.acceleration == "never":
        return (
            f"the loops of {type(engine).__name__} do not know `plan.reach`; see "
            "wolfpack.engines.base."
        )
    return ""


def proceed(
    outer: Outer,
    shared: np.ndarray,
    inner: float,
    excess: Callable[[], float],
    calls: int,
    passes: float,
    crew: Any = None,
) -> None:
    """Make an outer step if it is time, or change s if none came for long.

    `inner` is the estimate of all block gaps, `excess()` the second part of the gap,
    and `passes` were made since s last changed.
    """
    if is_time(outer, inner):
        make_step(outer, shared, inner, excess(), calls, crew)
    elif passes >= PATIENCE:
        reach = next_reach(outer, inner, excess())
        if abs(reach / outer.reach - 1.0) > LEAST_CHANGE:
            outer.turn(shared, reach, calls)


def is_time(outer: Outer, inner: float) -> bool:
    """Return whether to make an outer step; `inner` is the estimate of all block gaps.

    It may be biased, but always in the same way.
    """
    return inner <= (1.0 - FALL * math.sqrt(outer.reach)) * outer.numbers.inner


def make_step(
    outer: Outer,
    shared: np.ndarray,
    inner: float,
    rest: float,
    calls: int,
    crew: Any = None,
) -> None:
    """Make an outer step, where the gap is `inner` + `rest`.

    The next outer step waits until the first part has fallen below `inner`, and where
    `inner` is 0 it could wait for ever. So `inner` counts as LEAST_INNER times the
    second part at least. (With a tenth of the second part, z and that part run away.)
    """
    reach = next_reach(outer, inner, rest)
    least = LEAST_INNER * rest / float(outer.numbers.bias)
    outer.step(shared, reach, max(inner, least), calls, crew)


def next_reach(outer: Outer, inner: float, rest: float) -> float:
    """Return the next s, where the gap is `inner`, with its bias, plus `rest`."""
    inner *= outer.numbers.bias
    if not (inner > 0.0 and rest > 0.0):
        return outer.reach
    factor = (BALANCE * rest / inner) ** GAIN
    factor = min(max(factor, 1.0 / MOST_CHANGE), MOST_CHANGE)
    return min(max(outer.reach * factor, LEAST), MOST, float(outer.numbers.most))


def goes_by_slopes(plan: Plan) -> bool:
    """Return whether the estimate sums slopes towards minimisers, not block gaps."""
    return bool(plan.exact and plan.sampling != AWAKE)


def learn_bias(outer: Outer, found: float, estimate: float, plan: Plan) -> None:
    """Note how much too low the sum of all block gaps was estimated."""
    if 0.0 < estimate < math.inf and 0.0 < found < math.inf:
        most = MOST_BIAS_EXACT if goes_by_slopes(plan) else MOST_BIAS
        outer.numbers.bias = min(max(found / estimate, 1.0), most)
