"""The record of a run: its trace, the running estimate, and what the user is told."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfpack.kernels.memory import copy
from wolfpack.result import Event, Result, Status, TraceRow
from wolfpack.run import rest
from wolfpack.run.certificate import Certificate
from wolfpack.run.schedule import BEAT_SECONDS
from wolfpack.state import State
from wolfpack.update.sampling import AWAKE, GAP

if TYPE_CHECKING:
    from wolfpack.run.loop import Run


class Journal:
    """The trace of one run, and the callback that follows it."""

    def __init__(self, run: "Run", callback: Callable[[Event], Any] | None) -> None:
        self.run, self.callback = run, callback
        self.trace: list[TraceRow] = []
        self._best_v: np.ndarray = run.state.shared  # gave the last lower bound
        self._averaged = False
        self._kept: np.ndarray | None = None  # memory for it
        self._lower = -math.inf
        self._estimate = math.nan
        self._gaps = math.nan
        self._told = time.perf_counter()

    # The trace and the estimate.

    def sum_gaps(self) -> float:
        """Return the sum of all block gaps, estimated from those seen last."""
        run, state = self.run, self.run.state
        progress, gaps = state.progress, state.sampler.gaps
        if gaps.size and self._sampler_knows():
            self._gaps = float(gaps.sum())
        elif progress.gaps_seen > 0:
            total = run.problem.n_blocks * progress.gap_sum
            self._gaps = float(total / progress.gaps_seen)
        return self._gaps

    def _sampler_knows(self) -> bool:
        """Return whether the sum of the gaps that were seen last is up to date.

        The first round sees all, and so does a check. Gaps that outer steps change are
        seen too seldom where gap sampling leaves a block alone.
        """
        run, state = self.run, self.run.state
        if run.plan.sampling == AWAKE and run.engine.reproducible:
            return True
        if state.outer is not None and run.plan.sampling == GAP:
            return state.progress.checked == state.n_oracle_calls
        return state.progress.checked >= 0

    def estimate(self, is_working: bool = False) -> float:
        """Return the gap estimated from the block gaps, without oracle calls.

        While the session is working, all threads of the run are busy, so the excess
        that was computed last is used.
        """
        outer = self.run.state.outer
        if outer is not None:
            rest = self.run.last_excess if is_working else self.run.excess()
            self._estimate = float(outer.numbers.bias) * self.sum_gaps() + rest
        elif not self.run.options.plan.exact:  # exact steps see slopes, not gaps
            self._estimate = self.sum_gaps()
        return self._estimate

    def sees_goal(self) -> bool:
        """Return whether the goal seems reached."""
        run, outer = self.run, self.run.state.outer
        rest = run.goal
        if outer is not None:
            rest -= float(outer.numbers.bias) * self.sum_gaps()
        elif not run.options.plan.exact:
            rest -= self.estimate()
        else:  # block gaps towards minimisers are no estimate
            rest = -1.0
        if rest >= 0.0:
            return outer is None or run.excess() <= rest
        epoch = run.schedule.epoch(run.state.n_oracle_calls)
        return run.schedule.foresees(run.goal, epoch, self.trace)

    @property
    def is_current(self) -> bool:
        """Whether v and x are those of the last row: no update, no outer step since."""
        outer, trace = self._outer(), self.trace
        if not trace or trace[-1].n_updates != self.run.state.n_updates:
            return False
        return all(getattr(trace[-1], name) == now for name, now in outer.items())

    def note(self, found: Certificate) -> None:
        """Add a row for a certificate."""
        gap, lower = found.gap, found.objective - found.gap
        if lower < self._lower and self._kept is not None:
            self._best_v = self._kept
            gap = max(found.objective - self._lower, 0.0)  # < 0 by rounding
        else:
            self._best_v, self._averaged = found.best, found.averaged
            self._keep(lower)
        self.trace.append(self._row(found.objective, gap, found.drift))

    def _keep(self, lower: float) -> None:
        """Keep the v of the best lower bound, where outer steps were corrected.

        There the bound may be far worse later. Elsewhere it rises, as good as always.
        """
        outer = self.run.state.outer
        if outer is not None and (self._kept is not None or rest.is_hard(outer)):
            self._lower = lower
            if self._kept is None:
                self._kept = copy(self._best_v)
            self._kept[...] = self._best_v

    def note_bound(self, objective: float, gap: float, exact: np.ndarray) -> None:
        """Add a row for a gap that was found without a pass, at v0 + A x = `exact`.

        In an accelerated run the solution stays the v of the bound.
        """
        if self.run.state.outer is None:
            self._best_v, self._averaged = exact, False
        self.trace.append(self._row(objective, gap, self.trace[-1].drift))

    def bound_by_start(self) -> bool:
        """Let f at the start count where f(x) is above it; return whether it does."""
        run, row = self.run, self.trace[-1]
        if not rest.has_run_away(run, row.objective):
            return False
        start = State.begin(run.problem, run.options, run.state.rng).outer
        first = float(start.numbers.first) if start else math.inf
        if first < row.objective:
            gap = max(first - row.lower_bound, 0.0)  # < 0 by rounding
            found = self._measure(first, gap, row.lower_bound)
            self.trace[-1] = row._replace(**found)
        return first < row.objective

    def _row(self, objective: float, gap: float, drift: float) -> TraceRow:
        run = self.run
        calls = run.state.n_oracle_calls + run.live_calls
        return TraceRow(
            epoch=run.schedule.epoch(calls),
            n_updates=run.state.n_updates,
            n_oracle_calls=calls,
            gap_estimate=float(self._estimate),
            drift=drift,
            seconds=run.seconds,
            wall_seconds=time.perf_counter() - run.began,
            simulated_seconds=run.session.clock,
            **self._measure(objective, gap, objective - gap),
            **self._outer(),
        )

    def _measure(self, objective: float, gap: float, lower: float) -> dict[str, Any]:
        """Return the certificate of a row, and its gap in two other units."""
        problem = self.run.problem
        size = abs(lower if problem.ridge > 0.0 else objective)
        is_known = 0.0 < size < math.inf and math.isfinite(gap)
        return {
            "objective": float(objective),
            "gap": float(gap),
            "lower_bound": float(lower),
            "relative_gap": float(gap) / problem.scale,
            "gap_over_primal": float(gap) / size if is_known else None,
        }

    def _outer(self) -> dict[str, Any]:
        outer = self.run.state.outer
        if outer is None:
            return {}
        return {"reach": outer.reach, "n_outer": int(outer.numbers.steps)}

    # What the user is told.

    def beat(self) -> bool:
        """Call the callback if the last call is long ago; True: it says stop."""
        silent = time.perf_counter() - self._told
        return silent > BEAT_SECONDS and bool(self.trace) and self.tell(checked=False)

    def tell(self, checked: bool) -> bool:
        """Call the callback, after a check or between two; True: it says stop."""
        self._told = time.perf_counter()
        if self.callback is None:
            return False
        run, row = self.run, self.trace[-1]
        if not checked:
            self.estimate(is_working=True)
            row = self._row(row.objective, row.gap, row.drift)
        event = Event(
            row, checked, run.options.tol, run.problem.scale, run.options.max_epochs,
            run.state, run.session.live,
        )  # fmt: skip
        answer = self.callback(event)
        return isinstance(answer, bool | np.bool_) and bool(answer)

    def result(self, status: Status) -> Result:
        """Return what `solve` returns."""
        run, row = self.run, self.trace[-1]
        return Result(
            solution=self._solution(),
            objective=row.objective,
            gap=row.gap,
            relative_gap=row.relative_gap,
            lower_bound=row.lower_bound,
            gap_estimate=row.gap_estimate,
            status=status,
            epochs=row.epoch,
            n_updates=run.state.n_updates,
            n_oracle_calls=row.n_oracle_calls,
            seconds=run.seconds,
            wall_seconds=time.perf_counter() - run.began,
            averaged=self._averaged,
            trace=self.trace,
            state=run.state,
            **self._outer(),
            **run.session.report(),
        )

    def _solution(self) -> Any:
        problem = self.run.problem
        best = self._best_v
        # Our own problems cut v into parts first, which takes less memory.
        if not (problem.is_ours and best.dtype == np.float32):
            best = best.astype(np.float64)
        if problem.finish is not None:
            return problem.finish(best)
        if problem.offsets is None:
            return self.run.state.blocks.points.copy()
        return best
