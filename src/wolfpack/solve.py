"""The one driver: advance an engine, check, report, stop.

Time is sliced so that a callback, a time limit or Ctrl-C is answered within a moment;
slices and interrupted checks leave no mark on the iterate. Scheduled checks rebuild v
from x in double precision; they happen at the same updates in a run that was stopped
and resumed, so both give the same bits.
"""

import logging
import math
import signal
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np

from wolfpack import sampling as samplers
from wolfpack.engines import serial
from wolfpack.engines.serial import CALLS, CURRENT, GAPS, MOVED, SEEN, UPDATES, Plan
from wolfpack.problem import Problem
from wolfpack.result import Event, OracleError, Result, Status, TraceRow, relative
from wolfpack.state import CHECKED, State
from wolfpack.steps import CONSTANT, LINE, OPEN_LOOP

logger = logging.getLogger("wolfpack")

SLICE_SECONDS = 0.05
BEAT_SECONDS = 0.2
_said_uncompiled: set[str] = set()


class Options(NamedTuple):
    """The validated arguments of a run."""

    batch_size: int
    averaging: bool
    sampling: str
    plan: Plan
    tol: float
    max_epochs: float
    max_seconds: float
    check_every: float | None


def solve(
    problem: Problem,
    *,
    engine: serial.Serial | None = None,
    batch_size: int = 1,
    step: Literal["line", "open-loop", "exact"] | float = "line",
    sampling: Literal["uniform", "permutation", "gap"] = "uniform",
    averaging: bool = False,
    tol: float = 1e-3,
    max_epochs: float = 100,
    max_seconds: float | None = None,
    check_every: float | None = None,
    callback: Callable[[Event], Any] | None = None,
    start: State | None = None,
    rng: np.random.Generator | int | None = None,
) -> Result:
    """Minimise a block-separable problem by block-coordinate Frank-Wolfe.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    engine : Serial, optional
        Who runs it. Default: `Serial()`.
    batch_size : int
        Blocks per update, tau in the paper: 1 is BCFW, n batch Frank-Wolfe.
    step : "line", "open-loop", "exact" or a number
        gamma in the paper: an exact line search (jointly over the batch), the paper's
        2 n tau / (tau^2 k + 2 n) clipped to 1, a line search towards the minimiser of
        each block (where the problem has one), or a constant within (0, 1].
    sampling : "uniform", "permutation" or "gap"
        How blocks are chosen. "gap" costs O(log n) a block, and one more pass of the
        oracle at each check.
    averaging : bool
        Keep the weighted average of the iterates too, and certify with the better of
        both bounds. Costs another v in memory, and one more oracle pass a check.
    tol : float
        Stop when gap <= tol * problem.scale.
    max_epochs : float
        Stop after so many passes, n oracle calls each, those of `start` included.
    max_seconds : float, optional
        Stop after so many seconds of this call.
    check_every : float, optional
        Epochs between two exact certificates, each of which costs one call of the
        oracle per block. Default: each epoch at first, then a tenth of the epochs
        done, and as soon as the running estimate says that the goal is reached.
    callback : function of an Event, optional
        Called after each check, and a few times a second between checks; returning
        True stops the run.
    start : State, optional
        Go on from there: `result.state`, or `State.load(path)`.
    rng : numpy Generator or int, optional
        The source of randomness. The same seed gives the same bits.

    Returns
    -------
    Result

    Raises
    ------
    ProblemError
        A function of the problem is wrong; found before the loop starts.
    OracleError
        A function of the problem failed later; the error carries the state.

    References
    ----------
    Wang, Sadhanala, Dai, Neiswanger, Sra, Xing: Parallel and Distributed
    Block-Coordinate Frank-Wolfe Algorithms. ICML 2016, Algorithm 1.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> result = wolfpack.solve(problem, step="exact", tol=1e-4, max_epochs=1000, rng=0)
    >>> result.status.name
    'CONVERGED'
    """
    options = _validate(
        problem, batch_size, step, sampling, averaging, tol, max_epochs, max_seconds,
        check_every,
    )  # fmt: skip
    if not problem.checked:
        problem.check()
    generator = np.random.default_rng(rng)
    if start is None:
        state = State.begin(problem, options, generator)
    else:
        state = State.resume(problem, start, options, generator)
    run = _Run(problem, engine or serial.Serial(), state, options, callback)
    with _Interrupt() as interrupt:
        return run.to_the_end(interrupt)


def _validate(
    problem, batch_size, step, sampling, averaging, tol, max_epochs, max_seconds, check_every
) -> Options:
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, but is a {type(problem).__name__}.")
    n = problem.n_blocks
    if not (_is_int(batch_size) and 1 <= batch_size <= n):
        raise ValueError(
            f"batch_size must be an integer from 1 to the number of blocks, {n}; "
            f"given was {batch_size!r}."
        )
    rules = {"line": LINE, "exact": LINE, "open-loop": OPEN_LOOP}
    if isinstance(step, str) and step not in rules:
        raise ValueError(f"step must be one of {[*rules]} or a number, not {step!r}.")
    if not isinstance(step, str) and not (_is_real(step) and 0 < step <= 1):
        raise ValueError(f"a constant step must lie in (0, 1]; given was {step!r}.")
    if step == "exact" and problem.minimiser is None:
        raise ValueError(
            f"step='exact' needs a problem with a block minimiser, and {problem.name} "
            "has none; use step='line'."
        )
    if sampling not in samplers.KINDS:
        raise ValueError(f"sampling must be one of {[*samplers.KINDS]}, not {sampling!r}.")
    if averaging and problem.value is None:
        raise ValueError("averaging needs a problem with a value function.")
    for name, number in (("tol", tol), ("max_epochs", max_epochs)):
        if not (_is_real(number) and number >= 0):
            raise ValueError(f"{name} must be a number >= 0; given was {number!r}.")
    for name, number in (("max_seconds", max_seconds), ("check_every", check_every)):
        if number is not None and not (_is_real(number) and number > 0):
            raise ValueError(f"{name} must be a number > 0 or None, not {number!r}.")
    plan = Plan(
        n_blocks=n,
        rule=rules[step] if isinstance(step, str) else CONSTANT,
        step_size=0.0 if isinstance(step, str) else float(step),
        sampling=samplers.KINDS[sampling],
        exact=step == "exact",
    )
    limit = math.inf if max_seconds is None else max_seconds
    return Options(
        int(batch_size), averaging, sampling, plan, tol, max_epochs, limit, check_every
    )


def _is_int(x) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _is_real(x) -> bool:
    real = isinstance(x, int | float | np.integer | np.floating)
    return real and not isinstance(x, bool) and not math.isnan(x)


class _Interrupt:
    """Ctrl-C as a flag, so that it never falls into the middle of an update."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "_Interrupt":
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: object) -> None:
        if self.asked:  # the second time, at once
            raise KeyboardInterrupt
        self.asked = True


class _Run:
    """One call of `solve`: the engine's argument, and the loop around it."""

    def __init__(self, problem, engine, state: State, options: Options, callback) -> None:
        self.problem, self.engine, self.options = problem, engine, options
        self.state, self.callback = state, callback
        self.kernels: SimpleNamespace = problem.kernels()
        self.scratch = engine.prepare(problem, options)
        self.work = problem.work()
        self.trace: list[TraceRow] = []
        self.seconds = 0.0
        self.estimate = math.nan
        self.best: np.ndarray | None = None
        self.averaged = False
        self._rate = self._oracle_rate = 1.0
        self._compile()
        self.began = self._beat = time.perf_counter()

    def _compile(self) -> None:
        """Compile, or load, outside all clocks: zero updates, zero blocks."""
        name = self.problem.name
        if not self.kernels.compiled:
            if name not in _said_uncompiled:
                _said_uncompiled.add(name)
                logger.warning("%s has plain Python functions: running uncompiled.", name)
            return
        if not self.kernels.run.signatures:
            logger.info("%s: loading compiled loops, or compiling once (~15 s).", name)
        begin = time.perf_counter()
        self.engine.advance(self, self.state.n_updates)
        self._oracle_values(self.state.shared, 0, 0)
        logger.info("%s: ready in %.1f s.", name, time.perf_counter() - begin)

    # The loop.

    def to_the_end(self, interrupt: _Interrupt) -> Result:
        """Run until something says stop; make the result."""
        status = None
        while status is None:
            if self._is_due() and self._check(interrupt, scheduled=True):
                status = self._judge()
                if status is None and self._report(checked=True):
                    status = Status.STOPPED
            status = status or self._limit(interrupt)
            if status is None:
                self._advance()
                if self._beat_due() and self._report(checked=False):
                    status = Status.STOPPED
        if not self.trace or self.trace[-1].n_updates != self.state.n_updates:
            if self._check(None, scheduled=False) and self._judge() is Status.CONVERGED:
                status = Status.CONVERGED
        self._report(checked=True)
        return self._result(status)

    def _limit(self, interrupt: _Interrupt) -> Status | None:
        if interrupt.asked:
            return Status.INTERRUPTED
        if self.state.n_updates >= self._updates(self.options.max_epochs):
            return Status.EPOCH_LIMIT
        if time.perf_counter() - self.began >= self.options.max_seconds:
            return Status.TIME_LIMIT
        return None

    def _judge(self) -> Status | None:
        row = self.trace[-1]
        if not math.isfinite(row.gap):
            return Status.DIVERGED
        if row.gap <= self.options.tol * self.problem.scale:
            return Status.CONVERGED
        same = [old for old in self.trace[-4:-1] if old.objective <= row.objective]
        if self.options.plan.rule == LINE and len(same) == 3:
            return Status.STALLED
        return None

    def _advance(self) -> None:
        """Make updates until the next decision, or for about one slice of time."""
        state, k = self.state, self.state.n_updates
        target = min(self._next_decision(), self._updates(self.options.max_epochs))
        until = min(target, k + max(1, int(self._rate * SLICE_SECONDS)))
        begin = time.perf_counter()
        try:
            ended = self.engine.advance(self, until)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            block = int(state.counts[CURRENT])
            raise OracleError(
                f"{self.problem.name}: a function of the problem raised "
                f"{type(error).__name__} on block {block}: {error}",
                block,
                state,
            ) from error
        spent = time.perf_counter() - begin
        self.seconds += spent
        self._rate = max((state.n_updates - k) / max(spent, 1e-6), 1.0)
        if ended == serial.GROW:
            grow = self.problem.store.grow
            state.blocks = grow(state.blocks, self.options.batch_size)
        elif ended != serial.DONE:
            self._fail(ended)

    def _fail(self, ended: int) -> None:
        block = int(self.state.counts[CURRENT])
        what = {
            serial.NOT_A_NUMBER: "the step is NaN or infinite",
            serial.INFEASIBLE: "the oracle's atom lies outside the feasible set",
        }[ended]
        raise OracleError(
            f"{self.problem.name}: {what} on block {block} after "
            f"{self.state.n_updates} updates; the error's .state holds the iterate.",
            block,
            self.state,
        )

    # When to check.

    def _updates(self, epochs: float) -> float:
        """Return the number of updates that make so many passes."""
        if math.isinf(epochs):
            return math.inf
        return math.ceil(epochs * self.problem.n_blocks / self.options.batch_size)

    def _epoch(self, updates: int) -> float:
        return updates * self.options.batch_size / self.problem.n_blocks

    def _next_decision(self) -> float:
        every = self.options.check_every or 1.0
        done = math.floor(self._epoch(self.state.n_updates) / every + 1e-9)
        return max(self._updates((done + 1) * every), self.state.n_updates + 1)

    def _is_due(self) -> bool:
        """Decide, at a whole number of intervals, whether a check is worth it."""
        k, last = self.state.n_updates, int(self.state.counts[CHECKED])
        every = self.options.check_every or 1.0
        whole = self._updates(round(self._epoch(k) / every) * every) == k
        if k == last or not whole:
            return False
        sums = self.state.sums
        if sums[SEEN] > 0:
            self.estimate = self.problem.n_blocks * sums[GAPS] / sums[SEEN]
        reached = self.estimate <= self.options.tol * self.problem.scale
        if self.options.check_every or k == 0 or (reached and not self.options.plan.exact):
            return True
        sums[[GAPS, SEEN]] = 0.0
        return self._epoch(k) >= max(1.1 * self._epoch(last), self._epoch(last) + 1)

    # The certificate.

    def _check(self, interrupt: _Interrupt | None, scheduled: bool) -> bool:
        """Certify the iterate; return False if interrupted on the way."""
        problem, state = self.problem, self.state
        exact = problem.shared.astype(np.float64)
        begin = time.perf_counter()
        linear = self.kernels.rebuild(
            problem.data, state.blocks, problem.n_blocks, exact
        )
        precise = exact.astype(state.shared.dtype)
        size = np.linalg.norm(exact)
        drift = np.linalg.norm(exact - state.shared) / size if size > 0 else 0.0
        bound = self._lower_bound(precise, exact, interrupt)
        if bound is None:
            return False
        value, inner, least = bound
        gap = inner + linear - least
        objective, best, averaged = value + linear, exact, False
        mean = state.averaged()
        if mean is not None:
            other = self._lower_bound(mean.astype(precise.dtype), mean, interrupt)
            if other is None:
                return False
            improved = objective - (other[0] - other[1] + other[2])
            if improved < gap:
                gap, best, averaged = improved, mean, True
        if scheduled:
            state.shared[...] = precise
            state.counts[CHECKED] = state.n_updates
            if state.sampler.gaps.size:
                self._refresh_gaps()
        self.best, self.averaged = best, averaged
        if state.sums[SEEN] > 0:
            self.estimate = problem.n_blocks * state.sums[GAPS] / state.sums[SEEN]
        if scheduled:
            state.sums[:] = 0.0
        self._refuse_negative(gap, objective, inner, least)
        self._check_seconds = time.perf_counter() - begin
        self.trace.append(self._row(objective, gap, drift))
        return True

    def _refuse_negative(self, gap, objective, inner, least) -> None:
        noise = 1e-6 if self.state.shared.dtype == np.float32 else 1e-10
        size = abs(inner) + abs(least) + (abs(objective) if objective == objective else 0)
        if gap < -noise * (size + self.problem.scale):
            raise OracleError(
                f"{self.problem.name}: the gap is {gap:.3g}, which no minimiser gives: "
                "the oracle missed the minimum of <s, grad> on some block.",
                -1,
                self.state,
            )

    def _lower_bound(self, shared, exact, interrupt) -> tuple[float, float, float] | None:
        """Return g(v), <grad g(v), v - v0>, and the oracle's sum; one full pass."""
        problem = self.problem
        least, first = 0.0, 0
        while first < problem.n_blocks:
            if interrupt is not None and interrupt.asked:
                return None
            size = max(1, int(self._oracle_rate * SLICE_SECONDS))
            last = min(first + size, problem.n_blocks)
            begin = time.perf_counter()
            least += self._oracle_values(shared, first, last)
            spent = time.perf_counter() - begin
            self._oracle_rate = max((last - first) / max(spent, 1e-6), 1.0)
            first = last
        rows = np.arange(len(exact))
        origin = problem.shared.astype(np.float64)
        value, inner = self._guard(self.kernels.evaluate, exact, origin, rows)
        return float(value), float(inner), least

    def _oracle_values(self, shared: np.ndarray, first: int, last: int) -> float:
        return self._guard(
            self.kernels.oracle_values, shared, first, last, self.scratch.atoms[0],
            self.state.counts[CURRENT:], self.work,
        )  # fmt: skip

    def _refresh_gaps(self) -> None:
        state = self.state
        self._guard(
            self.kernels.block_gaps, state.shared, state.blocks, 0,
            self.problem.n_blocks, self.scratch.atoms[0], state.counts[CURRENT:],
            self.work, state.sampler.gaps,
        )  # fmt: skip
        samplers.refresh(state.sampler)

    def _guard(self, kernel: Callable, *args: Any) -> Any:
        try:
            return kernel(self.problem.data, *args)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            block = int(self.state.counts[CURRENT])
            raise OracleError(
                f"{self.problem.name}: the oracle raised {type(error).__name__} on "
                f"block {block}: {error}",
                block,
                self.state,
            ) from error

    # What people see.

    def _row(self, objective: float, gap: float, drift: float) -> TraceRow:
        state = self.state
        return TraceRow(
            epoch=self._epoch(state.n_updates),
            n_updates=state.n_updates,
            n_oracle_calls=int(state.counts[CALLS]),
            objective=float(objective),
            gap=float(gap),
            gap_estimate=float(self.estimate),
            lower_bound=float(objective - gap),
            drift=float(drift),
            seconds=self.seconds,
            wall_seconds=time.perf_counter() - self.began,
        )

    def _beat_due(self) -> bool:
        return time.perf_counter() - self._beat > BEAT_SECONDS

    def _report(self, checked: bool) -> bool:
        self._beat = time.perf_counter()
        if self.callback is None:
            return False
        row = self.trace[-1]
        if not checked:
            row = self._row(row.objective, row.gap, row.drift)
        options = self.options
        event = Event(
            row, checked, options.tol, self.problem.scale, options.max_epochs, self.state
        )
        return self.callback(event) is True

    def _result(self, status: Status) -> Result:
        row, problem, state = self.trace[-1], self.problem, self.state
        return Result(
            solution=self._solution(),
            objective=row.objective,
            gap=row.gap,
            relative_gap=relative(row.gap, problem.scale),
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
        )

    def _solution(self) -> Any:
        assert self.best is not None
        if self.problem.finish is not None:
            return self.problem.finish(self.best)
        if self.problem.offsets is None:
            return self.state.blocks.points.copy()
        return self.best


__all__ = ["MOVED", "UPDATES", "Options", "solve"]
