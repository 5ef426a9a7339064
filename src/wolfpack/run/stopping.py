"""Why a run stops: what its last certificate says, and the limits of the user."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wolfpack.engines.base import Session
from wolfpack.result import Status, TraceRow
from wolfpack.update.steps import LINE

if TYPE_CHECKING:
    from wolfpack.run.loop import Run

# The chance that a block is not drawn in 30 passes is exp(-30), about 1e-13.
IDLE_PASSES = 30.0
LATE_PASSES = 1000.0  # the same for accelerated threads and clusters
NOISE = 4.0  # a gap below NOISE times the precision of v, times scale, is rounding
LOOKS = 3  # checks that must agree that an accelerated run is at rest


def limit(run: "Run") -> Status | None:
    """Return the limit that the run has reached, if any."""
    if run.is_interrupted:
        return Status.INTERRUPTED
    if run.is_abandoned:
        return Status.ABANDONED
    if run.schedule.is_last(run.state.n_oracle_calls):
        return Status.EPOCH_LIMIT
    return Status.TIME_LIMIT if run.is_late else None


def judge(run: "Run") -> Status | None:
    """Return what the last check says; None: go on."""
    trace = run.journal.trace
    row = trace[-1]
    if not math.isfinite(row.gap):
        return Status.DIVERGED
    if row.gap <= run.goal:
        return Status.CONVERGED
    if run.state.outer is not None:
        noise = NOISE * np.finfo(run.state.shared.dtype).eps * run.problem.scale
        # Threads and clusters make outer steps when they meet, not once a pass.
        passes = IDLE_PASSES if run.engine.reproducible else LATE_PASSES
        return Status.STALLED if is_at_rest(trace, noise, passes) else None
    if run.options.plan.rule == LINE:
        if row.objective > trace[0].objective + run.problem.scale:
            return Status.DIVERGED  # possible where each worker searches alone
        if is_idle(trace, run.session):
            return Status.STALLED
    return None


def is_at_rest(
    trace: Sequence[TraceRow], noise: float, passes: float = IDLE_PASSES
) -> bool:
    """Return whether the gap of an accelerated run has long not fallen.

    Its gap may rise for a while. So the least gap must not have fallen by a tenth for
    as many passes as led to it, for at least `passes`, and in several checks. Gaps
    below `noise` differ by chance.
    """
    least = max(1.1 * min(row.gap for row in trace), noise)
    best = next(k for k, row in enumerate(trace) if row.gap <= least)
    took = trace[best].epoch - trace[0].epoch
    idle = trace[-1].epoch - trace[best].epoch
    return idle >= max(passes, took) and len(trace) - 1 - best >= LOOKS


def is_idle(trace: Sequence[TraceRow], session: Session) -> bool:
    """Return whether IDLE_PASSES, and several checks, have gained nothing.

    `session.patience` adds passes where updates come late, as the first of them are all
    dropped. Gains before `session.restarted_at` do not count: a server that died lost
    what it had gained since its checkpoint.
    """
    row, begin = trace[-1], session.restarted_at
    end = row.epoch - IDLE_PASSES - session.patience
    before = [old for old in trace[:-2] if begin < old.epoch <= end]
    return bool(before) and before[-1].objective <= row.objective
