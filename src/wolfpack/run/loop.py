"""The one driver: advance an engine, check, report, stop.

Time is sliced so that a callback, a time limit or Ctrl-C is answered within a moment;
slices and interrupted checks leave no mark on the iterate. Scheduled checks rebuild v
from x in double precision; with a reproducible engine they happen at the same updates
in a run that was stopped and resumed, so both give the same bits. Other engines run in
longer slices, which `pulse` cuts short, and are checked by the clock as well.
"""

import contextlib
import logging
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from wolfpack.engines import serial
from wolfpack.engines.late import simulation
from wolfpack.engines.serial import CURRENT, GAPS, SEEN, Plan
from wolfpack.problem import Problem
from wolfpack.result import EngineError, Event, OracleError, Result, Status, TraceRow
from wolfpack.run.certificate import Certifier, failure
from wolfpack.run.crew import Crew
from wolfpack.run.interrupt import Held, Interrupt
from wolfpack.run.schedule import BEAT_SECONDS, Schedule
from wolfpack.state import CHECKED, State
from wolfpack.update import sampling
from wolfpack.update.steps import LINE

logger = logging.getLogger("wolfpack")

# A block that could still move may be missed in 30 passes once in 10^13 times.
IDLE_PASSES = 30.0
# After Ctrl-C the last certificate is made if it takes no longer than this.
PATIENCE_SECONDS = 3.0

_said_uncompiled: set[str] = set()
_said_opaque: set[str] = set()


class Options(NamedTuple):
    """The validated arguments of `solve`."""

    batch_size: int  # blocks of one update, as the engine makes them
    asked: int | None  # and as the user asked for
    averaging: bool
    sampling: str
    step: Any
    plan: Plan
    tol: float
    max_epochs: float
    max_seconds: float
    check_every: float | None


class Run:
    """One call of `solve`."""

    def __init__(
        self,
        problem: Problem,
        engine: Any,
        state: State,
        options: Options,
        callback: Callable[[Event], Any] | None,
        spent: float = 0.0,  # seconds of this call that are over
    ) -> None:
        self.problem, self.engine, self.state = problem, engine, state
        self.options, self.callback = options, callback
        self.kernels: SimpleNamespace = problem.kernels()
        self.crew = Crew(engine.size)
        self.work = problem.work()
        self.scratch = engine.prepare(problem, options)
        self.certifier = Certifier(problem, self.kernels, self.work, self.crew)
        self.goal = options.tol * problem.scale
        self.schedule = Schedule(problem.n_blocks, options, engine)
        self.trace: list[TraceRow] = []
        self.solution_v: np.ndarray = state.shared
        self.averaged = False
        self.estimate = math.nan
        self.seconds = 0.0
        self.live_calls = 0  # of the slice that is running
        self._rate = 1.0
        self._checked_at = 0.0
        self._stopped = self._abandoned = False
        self._raised: BaseException | None = None
        self._interrupt = Interrupt()
        self.began = self._beat = time.perf_counter()
        with self.crew:
            with Held():
                self._compile()
            if hasattr(self.scratch, "open"):
                self.scratch.open(self)
                self.certifier.oracle_sum = self.scratch.oracle_sum
        self._beat = time.perf_counter()
        self.began = self._beat - spent

    def _compile(self) -> None:
        """Compile, or load, outside all clocks: zero updates, zero blocks."""
        name = self.problem.name
        if not self.kernels.compiled:
            if name not in _said_uncompiled:
                _said_uncompiled.add(name)
                logger.warning(
                    "%s has plain Python functions: running uncompiled.", name
                )
            return
        if self.kernels.opaque and name not in _said_opaque:
            _said_opaque.add(name)
            logger.warning(
                "%s depends on %s, whose content has no fingerprint: its loops are "
                "compiled for this process only, as it is now. Start Python anew after "
                "a change.",
                name,
                " and ".join(self.kernels.opaque[:3]),
            )
        begin = time.perf_counter()
        if not self.kernels.oracle_values.signatures:
            logger.info("%s: loading its loops, or compiling them once (~15 s).", name)
        self.engine.advance(self, 0)
        shared, gaps = self.state.shared, self.state.sampler.gaps
        origin, rows = self.certifier.origin, self.certifier.rows[:0]
        self.certifier.oracle_values(self.state, shared, origin, 0, 0, gaps)
        self.kernels.inner_products(self.problem.data, origin, origin, rows)
        self.kernels.evaluate(self.problem.data, origin)
        logger.info("%s: ready in %.1f s.", name, time.perf_counter() - begin)

    def to_the_end(self, interrupt: Interrupt) -> Result:
        """Run until something says stop; return the result."""
        self._interrupt = interrupt
        with self.crew:
            try:
                return self._to_the_end(interrupt)
            finally:
                if hasattr(self.scratch, "close"):
                    self.scratch.close()
                if not self.engine.reproducible:  # its workers keep gaps, and no tree
                    sampling.rebuild(self.state.sampler)

    def _to_the_end(self, interrupt: Interrupt) -> Result:
        status = self._look_first(interrupt)
        while status is None:
            if self._is_due() and self._check(lambda: interrupt.asked):
                status = self._judge()
                if self._report(checked=True):
                    status = status or Status.STOPPED
            status = status or self._limit(interrupt)
            if status is None:
                self._advance()
                if self._stopped or (
                    self._beat_is_due() and self._report(checked=False)
                ):
                    status = Status.STOPPED
        return self._finish(status)

    def _look_first(self, interrupt: Interrupt) -> Status | None:
        """Tell whether a run that goes on has reached its goal already."""
        if self.state.n_oracle_calls == 0:
            return None
        if not self._check(lambda: interrupt.asked, scheduled=False):
            return None
        stop = self._report(checked=True)
        if self.trace[-1].gap <= self.goal:
            return Status.CONVERGED
        return Status.STOPPED if stop else None

    def _finish(self, status: Status) -> Result:
        """Certify the last iterate, which stays as it is, for a resume."""
        state = self.state
        if not self.trace or self.trace[-1].n_updates != state.n_updates:
            hurry = status is Status.INTERRUPTED and bool(self.trace)
            if hurry and self.certifier.seconds > PATIENCE_SECONDS:
                self._bound_from_before()
            else:
                self._check(lambda: False, scheduled=False)
            if self._judge() is Status.CONVERGED:
                status = Status.CONVERGED
            self._report(checked=True)
        row = self.trace[-1]
        return Result(
            solution=self._solution(),
            objective=row.objective,
            gap=row.gap,
            relative_gap=row.gap / self.problem.scale,
            lower_bound=row.lower_bound,
            gap_estimate=row.gap_estimate,
            status=status,
            epochs=row.epoch,
            n_updates=state.n_updates,
            n_oracle_calls=row.n_oracle_calls,
            seconds=self.seconds,
            wall_seconds=time.perf_counter() - self.began,
            averaged=self.averaged,
            trace=self.trace,
            state=state,
            **self.scratch.report(),
        )

    def _solution(self) -> Any:
        if self.problem.finish is not None:
            return self.problem.finish(self.solution_v)
        if self.problem.offsets is None:
            return self.state.blocks.points.copy()
        return self.solution_v

    # Why to stop.

    def _limit(self, interrupt: Interrupt) -> Status | None:
        if interrupt.asked:
            return Status.INTERRUPTED
        if self._abandoned:
            return Status.ABANDONED
        calls = self.state.n_oracle_calls
        if self.schedule.is_last(calls):
            return Status.EPOCH_LIMIT
        if time.perf_counter() - self.began >= self.options.max_seconds:
            return Status.TIME_LIMIT
        return None

    def _judge(self) -> Status | None:
        row = self.trace[-1]
        if not math.isfinite(row.gap):
            return Status.DIVERGED
        if row.gap <= self.goal:
            return Status.CONVERGED
        if self.options.plan.rule == LINE:
            if row.objective > self.trace[0].objective + self.problem.scale:
                return Status.DIVERGED  # only where workers search for themselves
            if self._is_idle(row):
                return Status.STALLED
        return None

    def _is_idle(self, row: TraceRow) -> bool:
        """Return whether whole passes, and several checks, have gained nothing."""
        # Where updates come late, the first ones are all dropped. A server that died
        # has lost what it had gained since its checkpoint.
        passes = IDLE_PASSES + getattr(self.scratch, "patience", 0.0)
        born, end = getattr(self.scratch, "born", -1.0), row.epoch - passes
        before = [old for old in self.trace[:-2] if born < old.epoch <= end]
        return bool(before) and before[-1].objective <= row.objective

    # Updates.

    def _advance(self) -> None:
        """Make updates until the next decision, or for about one slice of time."""
        state, calls = self.state, self.state.n_oracle_calls
        begin = time.perf_counter()
        try:
            wanted = self.schedule.slice(calls, self._rate, self.seconds)
            ended = self.engine.advance(self, wanted)
        except EngineError:
            raise
        except Exception as error:
            self._restore()
            if self.options.batch_size > 1 and not hasattr(self.scratch, "fetch"):
                self._blame()
            raise failure(self.problem, state, error) from error
        spent = time.perf_counter() - begin
        self.seconds += spent
        self._rate = max((state.n_oracle_calls - calls) / max(spent, 1e-6), 1.0)
        if self._raised is not None:
            raise self._raised
        if ended == serial.GROW:
            grow = self.problem.store.grow
            state.blocks = grow(state.blocks, self.scratch.in_flight)
        elif ended == simulation.NOBODY:
            self._abandoned = True
        elif ended != serial.DONE:
            self._fail(ended)

    def pulse(self) -> bool:
        """Look around while an engine runs; return whether it is to come back now."""
        late = time.perf_counter() - self.began >= self.options.max_seconds
        try:
            if self._beat_is_due() and self._report(checked=False):
                self._stopped = True
        except Exception as error:  # the callback's: no fault of the problem
            self._raised = error
        return late or self._stopped or self._interrupt.asked or bool(self._raised)

    def _restore(self) -> None:
        """Make v fit x again: a function that failed may have left it half moved.

        Where `add` is what fails, v stays as it is: the next check makes it anew.
        """
        exact = self.problem.shared.astype(np.float64)
        state, n = self.state, self.problem.n_blocks
        with contextlib.suppress(Exception):
            self.kernels.rebuild(self.problem.data, state.blocks, 0, n, exact)
            state.shared[...] = exact

    def _blame(self) -> None:
        """Find the block at fault among those that were moved together."""
        counts = self.state.counts
        counts[CURRENT] = self.certifier.blame(self.state, int(counts[CURRENT]))

    def _fail(self, ended: int) -> None:
        if ended == serial.NOT_A_NUMBER:
            self._restore()
            self._blame()
        block = int(self.state.counts[CURRENT])
        what = {
            serial.NOT_A_NUMBER: "the oracle's atom or the step is NaN or infinite",
            serial.INFEASIBLE: "the oracle's atom lies outside the feasible set",
        }[ended]
        raise OracleError(
            f"{self.problem.name}: {what} on block {block} after "
            f"{self.state.n_updates} updates; the iterate is in this error's .state.",
            block,
            self.state,
        )

    # When to check.

    def _is_due(self) -> bool:
        """Decide whether a check is worth it."""
        state, calls = self.state, self.state.n_oracle_calls
        checked = int(state.counts[CHECKED])
        if calls == checked or not self.schedule.is_decision(calls):
            return False
        self._estimate()
        share = self.certifier.seconds / max(self.seconds - self._checked_at, 1e-9)
        hope = self.estimate <= self.goal or self.schedule.foresees(
            self.goal, self.schedule.epoch(calls), self.trace
        )
        if self.schedule.is_due(calls, checked, hope, share):
            return True
        state.sums[:] = 0.0
        return False

    def _estimate(self) -> None:
        sums, gaps = self.state.sums, self.state.sampler.gaps
        if self.options.plan.exact:  # its steps aim elsewhere than at the corners
            return
        if gaps.size and self.state.n_updates:
            self.estimate = float(gaps.sum())
        elif sums[SEEN] > 0:
            self.estimate = self.problem.n_blocks * sums[GAPS] / sums[SEEN]

    # The certificate.

    def _check(self, stop: Callable[[], bool], scheduled: bool = True) -> bool:
        """Certify the iterate; return False if stopped on the way."""
        self._fetch()
        state = self.state
        found = self.certifier.certify(state, stop)
        if found is None:
            return False
        self._estimate()
        self._checked_at = self.seconds
        if scheduled:
            state.shared[...] = found.shared
            state.counts[CHECKED] = state.n_oracle_calls
            state.sums[:] = 0.0
            state.sampler.gaps[:] = found.gaps
            sampling.rebuild(state.sampler)
        self.solution_v, self.averaged = found.best, found.averaged
        self.trace.append(self._row(found.objective, found.gap, found.drift))
        return True

    def _fetch(self) -> None:
        """Bring the iterate here, where an engine keeps it elsewhere."""
        if hasattr(self.scratch, "fetch"):
            self.scratch.fetch(self)

    def _bound_from_before(self) -> None:
        """Certify without a pass: the last lower bound holds for every x."""
        self._fetch()
        exact, linear = self.certifier.rebuild(self.state)
        value = self.certifier.evaluate(exact)
        objective, row = value + linear, self.trace[-1]
        self.solution_v, self.averaged = exact, False
        gap = objective - row.lower_bound if math.isfinite(objective) else row.gap
        self.trace.append(self._row(objective, gap, row.drift))

    def _row(self, objective: float, gap: float, drift: float) -> TraceRow:
        state, calls = self.state, self.state.n_oracle_calls + self.live_calls
        return TraceRow(
            epoch=self.schedule.epoch(calls),
            n_updates=state.n_updates,
            n_oracle_calls=calls,
            objective=float(objective),
            gap=float(gap),
            gap_estimate=float(self.estimate),
            lower_bound=float(objective - gap),
            drift=drift,
            seconds=self.seconds,
            wall_seconds=time.perf_counter() - self.began,
            simulated_seconds=getattr(self.scratch, "clock", None),
        )

    # What people see.

    def _beat_is_due(self) -> bool:
        late = time.perf_counter() - self._beat > BEAT_SECONDS
        return late and self.callback is not None and bool(self.trace)

    def _report(self, checked: bool) -> bool:
        self._beat = time.perf_counter()
        if self.callback is None:
            return False
        row = self.trace[-1]
        if not checked:
            self._estimate()
            row = self._row(row.objective, row.gap, row.drift)
        scale, options = self.problem.scale, self.options
        live = getattr(self.scratch, "live", None)
        event = Event(
            row, checked, options.tol, scale, options.max_epochs, self.state, live
        )
        answer = self.callback(event)
        return isinstance(answer, bool | np.bool_) and bool(answer)
