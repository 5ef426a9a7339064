"""Why a run stops: what its last certificate says, and the limits of the user."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wolfpack.engines.base import Session
from wolfpack.result import Status, TraceRow
from wolfpack.run.rest import IDLE_PASSES, is_at_rest, noise
from wolfpack.update.steps import LINE

if TYPE_CHECKING:
    from wolfpack.run.loop import Run


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
    if row.relative_gap <= run.options.tol:
        return Status.CONVERGED
    if run.plan.reach < 1.0:
        gives_up = run.session.accelerates_itself and is_at_rest(run)
        return Status.STALLED if gives_up else None
    is_plain = run.state.outer is None
    if not is_plain and row.gap <= noise(run) and is_at_rest(run):
        return Status.STALLED  # f may fall for ever by what rounding hides in the gap
    if run.options.plan.rule == LINE or not is_plain:
        if is_plain and row.objective > trace[0].objective + run.problem.scale:
            return Status.DIVERGED  # possible where each worker searches alone
        if is_idle(trace, run.session):
            return Status.STALLED
    return None


def is_idle(trace: Sequence[TraceRow], session: Session) -> bool:
    """Return whether IDLE_PASSES of plain steps, and several checks, gained nothing.

    `session.patience` adds passes where updates come late, as the first of them are all
    dropped. Gains before `session.restarted_at` do not count: a server that died lost
    what it had gained since its checkpoint.
    """
    row, begin = trace[-1], session.restarted_at
    end = row.epoch - IDLE_PASSES - session.patience
    plain = (old for old in trace[:-2] if old.reach >= 1.0)
    before = [old for old in plain if begin < old.epoch <= end]
    return bool(before) and before[-1].objective <= row.objective
