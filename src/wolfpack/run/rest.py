"""What an accelerated run does where outer steps no longer lower its gap.

Its gap may rise at first, and while z runs ahead, so one check tells nothing. The run
is at rest where the gap has not fallen for as many passes as led to it, or for
hundreds. Then z is set to v, and the outer loop begins anew. Where that has not helped
several times, plain steps go on from the same x: their objective falls with every step,
so they either reach the goal or show that rounding hides it.

Where blocks are hard to move, x may run away until f(x) is above its start. Then z is
set to v, too, and s must not rise for a while: v would follow x even further.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from wolfpack.kernels.memory import norm_of
from wolfpack.state import State
from wolfpack.update.outer import Outer

if TYPE_CHECKING:
    from wolfpack.run.loop import Run

# The chance that a block is not drawn in 30 passes is exp(-30), about 1e-13.
IDLE_PASSES = 30.0
LATE_PASSES = 1000.0  # the same where the server of a cluster makes the outer steps
MOST_PASSES = 300.0  # without a fall of the gap, whatever led to it
LOOKS = 3  # checks that must agree that the gap is at rest
FALL = 0.9  # times the least gap: a smaller fall of the gap is none, unless it adds up
NOISE = 4.0  # a gap below NOISE times the precision of v, times scale, is rounding
RESTARTS = 8  # before a run at rest goes on with plain steps
EARLY_PASSES = 5.0  # in which x may run ahead; that tells nothing
RELAX = 1.1  # how much `most` rises at a check that finds f(x) below its start


def note(run: "Run", gap: float) -> None:
    """Note the gap of a check; a fall counts from the largest gap so far."""
    outer = run.state.outer
    assert outer is not None
    numbers = outer.numbers
    numbers.looks += 1
    if gap > numbers.largest:
        numbers.largest = numbers.least = gap
    elif max(gap, noise(run)) < FALL * numbers.least:
        numbers.least, numbers.looks = gap, 0
        numbers.since = run.state.n_oracle_calls


def correct(run: "Run", objective: float) -> bool:
    """Change the outer loop, if a check that found f(x) = `objective` asks for it."""
    outer, calls = run.state.outer, run.state.n_oracle_calls
    assert outer is not None
    shared, numbers = run.state.shared, outer.numbers
    if outer.reach >= 1.0:
        return False
    is_early = calls < EARLY_PASSES * run.problem.n_blocks
    runs_away = not is_early and has_run_away(run, objective)
    numbers.most = outer.reach if runs_away else min(RELAX * numbers.most, 1.0)
    rests = is_at_rest(run)
    if rests and (numbers.restarts >= RESTARTS or numbers.least <= noise(run)):
        outer.turn(shared, 1.0, calls)
        if runs_away:
            draw_back(run)
        return True
    if rests or runs_away:
        outer.step(shared, outer.reach, math.inf, calls, run.crew, beta=0.0)
    if rests:
        numbers.restarts += 1
        numbers.largest, numbers.least, numbers.looks = 0.0, math.inf, 0
        numbers.since = numbers.begun = calls
    return rests or runs_away


def draw_back(run: "Run") -> None:
    """Let x go back towards the start of the problem, to where f is least, and v = u.

    f is quadratic in v, so its values at both ends tell its minimum between them.
    """
    problem, state = run.problem, run.state
    start = State.begin(problem, run.options, state.rng)
    image, linear = run.certifier.rebuild(state)
    assert start.outer is not None
    fall = float(start.outer.numbers.first) - run.certifier.evaluate(image) - linear
    apart = problem.ridge * norm_of(image - start.shared) ** 2
    ratio = min(max(0.5 + fall / apart, 0.0), 1.0) if apart > 0.0 else 1.0
    state.blocks = state.drawn_back(problem, ratio).blocks
    state.shared[...] = run.certifier.rebuild(state)[0]


def has_run_away(run: "Run", objective: float) -> bool:
    """Return whether f(x) = `objective` is above its start in an accelerated run."""
    outer = run.state.outer
    return outer is not None and objective > outer.numbers.first + noise(run)


def is_hard(outer: Outer) -> bool:
    """Return whether `correct` had to do something, not long ago."""
    return bool(outer.numbers.restarts > 0 or outer.numbers.most < 1.0)


def is_at_rest(run: "Run") -> bool:
    """Return whether the gap has not fallen for as many passes as led to it.

    The server of a cluster makes outer steps when messages come, not once a pass.
    """
    outer, n = run.state.outer, run.problem.n_blocks
    assert outer is not None
    numbers, calls = outer.numbers, run.state.n_oracle_calls
    least = LATE_PASSES if run.session.accelerates_itself else IDLE_PASSES
    idle, took = calls - int(numbers.since), int(numbers.since - numbers.begun)
    took = min(took, MOST_PASSES * n)
    return idle >= max(least * n, took) and int(numbers.looks) >= LOOKS


def noise(run: "Run") -> float:
    """Return the gap that the precision of v cannot tell from 0."""
    return NOISE * float(np.finfo(run.state.shared.dtype).eps) * run.problem.scale
