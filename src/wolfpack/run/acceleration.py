"""When to make an outer step, and with which reach: found, not asked for.

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
from typing import Any

from wolfpack.engines.base import Engine
from wolfpack.problem import Problem
from wolfpack.update.outer import Outer

FALL = 0.5  # in 1 - FALL sqrt(s)
BALANCE = 1.5  # the first part over the second that s is steered to
GAIN, MOST_CHANGE = 0.25, 1.5  # of s in one outer step
LEAST, MOST = 1e-4, 0.9  # values of s
MOST_BIAS = 2.0  # of the estimate


def decide(
    problem: Problem, engine: Engine, step: Any, averaging: bool, wish: Any
) -> bool:
    """Return whether to accelerate, where `wish` is True, False or "auto"."""
    if not (isinstance(wish, bool) or (isinstance(wish, str) and wish == "auto")):
        raise ValueError(f"accelerate must be True, False or 'auto', not {wish!r}.")
    if wish is False:
        return False
    why_not = _obstacle(problem, engine, step, averaging)
    if wish is True and why_not:
        raise ValueError(f"accelerate=True is not possible here: {why_not}")
    return not why_not and (wish is True or engine.acceleration == "always")


def _obstacle(problem: Problem, engine: Engine, step: Any, averaging: bool) -> str:
    """Return why a run cannot be accelerated; empty: it can."""
    if not problem.ridge:
        return (
            f"it takes a problem whose g(v) is c/2 |v|^2, and {problem.name} does not "
            "say so (Problem.ridge)."
        )
    if problem.value is None:
        return "it needs a problem with a value function."
    if step != "line":
        return (
            f"step={step!r} is made for plain steps, and only step='line' knows how "
            "far v follows."
        )
    if averaging:
        return "the average is of plain iterates; set averaging=False."
    if engine.acceleration == "never":
        return (
            f"the loops of {type(engine).__name__} do not know `plan.reach`; see "
            "wolfpack.engines.base."
        )
    return ""


def is_time(outer: Outer, inner: float) -> bool:
    """Return whether to make an outer step; `inner` is the sum of the block gaps."""
    return inner <= (1.0 - FALL * math.sqrt(outer.reach)) * outer.numbers.inner


def next_reach(outer: Outer, inner: float, rest: float) -> float:
    """Return the next s, where the gap is `inner` + `rest`."""
    if not (inner > 0.0 and rest > 0.0):
        return outer.reach
    factor = (BALANCE * rest / inner) ** GAIN
    factor = min(max(factor, 1.0 / MOST_CHANGE), MOST_CHANGE)
    return min(max(outer.reach * factor, LEAST), MOST)


def learn_bias(outer: Outer, gap: float, estimate: float) -> None:
    """Note how much too low the estimate was, for the next one."""
    if 0.0 < estimate < math.inf:
        outer.numbers.bias = min(max(gap / estimate, 1.0), MOST_BIAS)
