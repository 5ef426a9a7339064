"""The one driver: advance a session, check, report, stop.

Time is sliced so that a callback, a time limit or a signal is answered within a moment;
slices and interrupted checks leave no mark on the iterate. Scheduled checks rebuild v
from x in double precision; with a reproducible engine they happen at the same updates
in a run that was stopped and resumed, so both give the same bits. Other engines run in
longer slices, which `pulse` cuts short, and are checked by the clock as well. The
driver knows an engine by the contract in `engines.base` only.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from wolfpack.engines.base import Engine
from wolfpack.kernels.specialise import Loops
from wolfpack.problem import Problem
from wolfpack.result import EngineError, Event, Result, Status
from wolfpack.run import acceleration, faults, rest, stopping
from wolfpack.run.certificate import Certifier
from wolfpack.run.crew import Crew
from wolfpack.run.interrupt import Held, Interrupt
from wolfpack.run.journal import Journal
from wolfpack.run.options import Options
from wolfpack.run.pair import PATIENCE_SECONDS, PairCertifier
from wolfpack.run.schedule import Schedule
from wolfpack.run.warm_up import warm_up
from wolfpack.state import State
from wolfpack.update import sampling
from wolfpack.update.plan import Exit, Plan


class Run:
    """One call of `solve`: made, opened, driven to its end, and closed."""

    def __init__(
        self, problem: Problem, engine: Engine, state: State, options: Options,
        callback: Callable[[Event], Any] | None,
    ) -> None:  # fmt: skip
        self.problem, self.engine, self.state = problem, engine, state
        self.options = options
        self.kernels: Loops = problem.kernels(engine.loops(problem))
        self.crew = Crew(engine.size)
        self.work = problem.work()
        self.session = engine.session(problem, options)
        self.goal = options.tol * problem.scale
        tools = problem, self.kernels, self.work, self.crew, self.session.oracle_sum
        if state.outer is None:
            self.certifier = Certifier(*tools, self.session.witness)
        else:
            keeps = self.session.fetches
            self.certifier = PairCertifier(*tools, goal=self.goal, keeps=keeps)
        self.certifier.is_steady = engine.reproducible
        self.schedule = Schedule(problem.n_blocks, options, engine)
        self.schedule.looks_first |= callback is not None
        self.journal = Journal(self, callback)
        self.seconds = 0.0  # spent in `session.advance`
        self.live_calls = 0  # of the slice that is running
        self.is_abandoned = False
        self._rate = 1.0
        self.last_excess = math.nan  # as `excess` found it last
        self._measured: tuple[int, int, float] | None = None  # when that was
        self._checked_at = 0.0
        self._stopped = False
        self._raised: BaseException | None = None
        self._interrupt = Interrupt()
        self.began = time.perf_counter()
        self._is_closed = False

    def open(self, spent: float = 0.0) -> "Run":
        """Make it ready; no clock counts this time. `solve` took `spent` seconds."""
        try:
            with self.crew:
                with Held():
                    warm_up(self)
                self.session.open(self)
        except BaseException:
            self.close()
            raise
        self.began = time.perf_counter() - spent
        return self

    def close(self) -> None:
        """Let the session give back what it has, once."""
        if not self._is_closed:
            self._is_closed = True
            self.session.close()

    def to_the_end(self, interrupt: Interrupt) -> Result:
        """Run until the goal, a limit or a stop is reached; return the result."""
        self._interrupt = interrupt
        with self.crew:
            try:
                result, signal = self._finish(self._run()), interrupt.signal
                return dataclasses.replace(result, signal=signal) if signal else result
            except EngineError as error:
                faults.certify_what_is_left(self, error)
                raise
            finally:
                self.close()
                if not self.engine.reproducible:  # workers change gaps, not the tree
                    sampling.rebuild(self.state.sampler, self.plan.sampling)

    def _run(self) -> Status:
        """Advance and check in turns; return why it stopped."""
        status = self._look_first()
        while status is None:
            # Before the first update an accelerated run checks for callbacks only, and
            # that must not change what follows.
            marks = self.state.outer is None or self.state.n_oracle_calls > 0
            if self._is_due() and self._check(lambda: self.is_interrupted, marks):
                status = stopping.judge(self)
                if status or stopping.limit(self):  # this row is the last
                    self.journal.bound_by_start()
                if self.journal.tell(checked=True):
                    status = status or Status.STOPPED
            status = status or stopping.limit(self)
            if status is None:
                self._accelerate()
                self._forget_gaps()
                self._advance()
                if self._stopped or self.journal.beat():
                    status = Status.STOPPED
        return status

    def _look_first(self) -> Status | None:
        """Check a resumed run at its start: it may have reached its goal already."""
        if self.state.n_oracle_calls == 0:
            return None
        if not self._check(lambda: self.is_interrupted, scheduled=False):
            return None
        stop = self.journal.tell(checked=True)
        if self.journal.trace[-1].relative_gap <= self.options.tol:
            return Status.CONVERGED
        return Status.STOPPED if stop else None

    def _finish(self, status: Status) -> Result:
        """Certify the last iterate without changing it, so that a run can resume."""
        trace, is_known = self.journal.trace, self.journal.is_current
        is_told = is_known and self.certifier.is_exact
        if not is_told:
            hurry = status is Status.INTERRUPTED and bool(trace)
            if is_known:  # v is certified, and f(x) is only known from v
                self._bound_from_before()
                del trace[-2]
            elif hurry and self.certifier.seconds > PATIENCE_SECONDS:
                self._bound_from_before()
            else:
                self._check(lambda: False, scheduled=False)
        if self.journal.bound_by_start() or not is_told:
            if stopping.judge(self) is Status.CONVERGED:
                status = Status.CONVERGED
            self.journal.tell(checked=True)
        return self.journal.result(status)

    # What a session may call.

    @property
    def plan(self) -> Plan:
        """The plan of the next slice."""
        outer = self.state.outer
        plan = self.options.plan
        return plan if outer is None else plan._replace(reach=outer.reach)

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed, or SIGTERM came."""
        return self._interrupt.asked

    @property
    def is_late(self) -> bool:
        """Whether `max_seconds` have passed."""
        return time.perf_counter() - self.began >= self.options.max_seconds

    def excess(self) -> float:
        """Return how much larger the gap is than all block gaps together."""
        state, outer = self.state, self.state.outer
        assert outer is not None
        now = (state.n_updates, int(outer.numbers.steps), outer.reach)
        if self._measured != now:
            self._measured = now
            apart = outer.apart(state.shared, self.crew)
            self.last_excess = 0.5 * self.problem.ridge * apart
        return self.last_excess

    def fail(self, error: BaseException) -> None:
        """Raise `error` after `advance`, without blaming the problem for it."""
        self._raised = error

    def pulse(self) -> bool:
        """Serve the callback while a session works; return whether it must return."""
        try:
            self._stopped = self._stopped or self.journal.beat()
        except Exception as error:  # raised by the callback
            self.fail(error)
        return (
            self.is_late or self._stopped or self.is_interrupted or bool(self._raised)
        )

    # Updates.

    def _advance(self) -> None:
        """Make updates until the next decision, or for about one slice of time."""
        calls, begin = self.state.n_oracle_calls, time.perf_counter()
        try:
            wanted = self.schedule.slice(calls, self._rate, self.seconds)
            ended = self.session.advance(self, wanted)
        except EngineError:
            raise
        except Exception as error:
            raise faults.explain(self, error) from error
        spent = time.perf_counter() - begin
        self.seconds += spent
        made = self.state.n_oracle_calls - calls
        self._rate = max(made / max(spent, 1e-6), 1.0)
        if self._raised is not None:
            raise self._raised
        self.settle(ended)

    def settle(self, ended: Exit) -> None:
        """Do what the exit of a session asks for: make room, stop, or raise."""
        if ended == Exit.GROW:
            grow = self.problem.store.grow
            self.state.blocks = grow(self.state.blocks, self.session.in_flight)
        elif ended == Exit.ABANDONED:
            self.is_abandoned = True
        elif ended != Exit.DONE:
            raise faults.refuse(self, ended)

    def _accelerate(self) -> None:
        """Move the outer loop on, if the run is accelerated and it is time to."""
        state, calls = self.state, self.state.n_oracle_calls
        outer, session = state.outer, self.session
        if outer is None or session.accelerates_itself:
            return
        is_checked = 0 < calls == state.progress.checked
        if is_checked and rest.correct(self, self.journal.trace[-1].objective):
            return
        passes = (calls - outer.numbers.calls) / self.problem.n_blocks
        if passes >= 1.0 and self.schedule.is_decision(calls):
            if acceleration.goes_by_slopes(self.plan):
                passes = 0.0  # s changes at outer steps only
            inner = self.journal.sum_gaps()
            acceleration.proceed(
                outer, state.shared, inner, self.excess, calls, passes, self.crew
            )

    def _forget_gaps(self) -> None:
        """Begin the estimate anew after a decision, which a resumed run repeats."""
        state, calls = self.state, self.state.n_oracle_calls
        if calls == state.progress.checked or self.schedule.is_decision(calls):
            state.forget_gaps()

    # Checks.

    def _is_due(self) -> bool:
        """Decide whether a check is worth it."""
        state, calls = self.state, self.state.n_oracle_calls
        checked = int(state.progress.checked)
        if calls == checked or not self.schedule.is_decision(calls):
            return False
        share = self.certifier.seconds / max(self.seconds - self._checked_at, 1e-9)
        hope = self.journal.sees_goal()
        return self.schedule.is_due(calls, checked, hope, share)

    def _check(self, stop: Callable[[], bool], scheduled: bool = True) -> bool:
        """Certify the iterate; return False if stopped on the way."""
        self.session.fetch(self)
        state = self.state
        estimate = self.journal.sum_gaps()
        self.journal.estimate()
        found = self.certifier.certify(state, stop, is_last=not scheduled)
        if found is None:
            return False
        if state.outer is not None and scheduled:
            inner = float(found.gaps.sum())
            acceleration.learn_bias(state.outer, inner, estimate, self.plan)
            rest.note(self, found.gap)
        self._checked_at = self.seconds
        if scheduled:
            state.shared[...] = found.shared
            state.progress.checked = state.n_oracle_calls
            self._measured = None  # v may have been computed anew
            if state.sampler.gaps.size:
                state.sampler.gaps[:] = found.gaps
            sampling.rebuild(state.sampler, self.plan.sampling)
        self.journal.note(found)
        return True

    def _bound_from_before(self) -> None:
        """Certify without a pass: the last lower bound holds for every x."""
        self.session.fetch(self)
        exact, linear = self.certifier.rebuild(self.state)
        objective = self.certifier.evaluate(exact) + linear
        row = self.journal.trace[-1]
        gap = objective - row.lower_bound if math.isfinite(objective) else row.gap
        self.journal.note_bound(objective, max(gap, 0.0), exact)  # < 0 by rounding
