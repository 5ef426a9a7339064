"""What all estimators share: arguments, callbacks, warnings, learned numbers."""

import contextlib
import logging
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from wolfpack.checks.inputs import positive
from wolfpack.engines.serial import Serial
from wolfpack.engines.threads import Threads
from wolfpack.problem import Problem
from wolfpack.result import Event, Result, Status
from wolfpack.solve import solve
from wolfpack.state import StateError

logger = logging.getLogger("wolfpack")

UNFINISHED = (Status.EPOCH_LIMIT, Status.TIME_LIMIT, Status.STALLED, Status.DIVERGED)


class DualEstimator(CallbackSupportMixin, BaseEstimator):
    """An estimator that solves the dual of its problem by `wolfpack.solve`."""

    batch_size: Any
    step: Any
    sampling: Any
    averaging: bool
    tol: float
    max_seconds: float | None
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int

    def _solve(
        self, problem: Problem, describe: Callable[[Any], dict[str, Any]]
    ) -> Result:
        """Solve, telling the callbacks of each pass; keep what was learnt.

        `describe` turns a solution into the attributes of a fitted estimator.
        """
        max_iter, rng = self._limit("max_iter"), self._generator()
        averaging, engine = self._flag("averaging"), self._choose_engine()
        start = getattr(self, "_state", None) if self._flag("warm_start") else None
        done = 0.0 if start is None else self._epochs_in(start, problem)
        context = self._init_callback_context(max_subtasks=math.ceil(max_iter))
        context.call_on_fit_task_begin(estimator=self)
        passes = _Passes(self, context, problem, describe, done)
        try:
            result = solve(
                problem,
                engine=engine,
                batch_size=self.batch_size,
                step=self.step,
                sampling=self.sampling,
                averaging=averaging,
                tol=self.tol,
                max_epochs=done + max_iter,
                max_seconds=self.max_seconds,
                callback=passes,
                start=start,
                rng=rng,
            )
        except StateError as error:
            raise ValueError(
                f"warm_start goes on with the same sequences or signal, but {error} "
                "Set warm_start=False to start anew."
            ) from error
        self._learn(result, describe)
        if listener := getattr(self, "_listener", None):
            listener.take(result)
        context.call_on_fit_task_end(estimator=self)
        if result.status is Status.INTERRUPTED:  # a search over many fits must stop
            raise KeyboardInterrupt("fit was interrupted; what it had learnt is kept.")
        if result.status in UNFINISHED:
            # 4: whoever called `fit`, whose decorator is a frame of its own.
            warnings.warn(_advice(result, self.tol), ConvergenceWarning, stacklevel=4)
        return result

    def _learn(self, result: Result, describe: Callable[[Any], dict[str, Any]]) -> None:
        for name, value in describe(result.solution).items():
            setattr(self, name, value)
        self.objective_ = -result.lower_bound
        self.dual_objective_ = -result.objective
        self.gap_ = result.gap
        self.n_iter_ = max(1, math.ceil(result.epochs))
        self.status_ = result.status
        self.trace_ = result.trace
        self._state = result.state if self.warm_start else None

    def _choose_engine(self) -> Any:
        """Return the command line's `_engine`, or the one that `n_jobs` asks for."""
        engine = getattr(self, "_engine", None)
        if engine is not None:
            return engine
        n_workers = self._count_workers()
        if n_workers == 1:
            return Serial()
        for is_given, given, instead in (
            (self.averaging, "averaging=True", "averaging=False"),
            (self.step == "open-loop", "step='open-loop'", "step='line'"),
        ):
            if is_given:
                raise ValueError(
                    f"{given} works with one thread, and n_jobs={self.n_jobs} means "
                    f"{n_workers} here; set n_jobs=1 or {instead}."
                )
        return Threads(n_workers)

    def _count_workers(self) -> int:
        n_jobs = self.n_jobs
        is_count = isinstance(n_jobs, int | np.integer) and n_jobs != 0
        if n_jobs is not None and (not is_count or isinstance(n_jobs, bool)):
            raise ValueError(
                "n_jobs must be the number of threads, -1 for all cores or None; "
                f"given was {n_jobs!r}."
            )
        return int(effective_n_jobs(n_jobs))  # pyright: ignore[reportArgumentType]

    def __sklearn_tags__(self):
        """Say that threads meet by chance."""
        tags = super().__sklearn_tags__()
        with contextlib.suppress(ValueError):  # `fit` tells what is wrong with n_jobs
            tags.non_deterministic = self._count_workers() > 1
        return tags

    def _limit(self, name: str) -> float:
        return positive(name, getattr(self, name))

    def _flag(self, name: str) -> bool:
        value = getattr(self, name)
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, but is {value!r}.")
        return bool(value)

    def _generator(self) -> np.random.Generator:
        try:
            if isinstance(self.random_state, bool):
                raise ValueError
            seeds = check_random_state(self.random_state).randint(2**31 - 1, size=4)
        except (TypeError, ValueError):
            raise ValueError(
                "random_state must be an integer from 0 to 2^32 - 1, a RandomState or "
                f"None; given was {self.random_state!r}."
            ) from None
        return np.random.default_rng(np.random.SeedSequence(seeds.tolist()))

    def _epochs_in(self, start, problem: Problem) -> float:
        if start.fingerprint != problem.fingerprint:
            return 0.0
        return start.n_oracle_calls / problem.n_blocks


class _Passes:
    """A `solve` callback that tells scikit-learn's callbacks of each whole pass."""

    def __init__(self, estimator, context, problem, describe, done: float) -> None:
        self.estimator, self.context, self.problem = estimator, context, problem
        self.describe, self.told = describe, math.floor(done)
        # A batch that does not divide n ends a little after the last whole pass.
        self.last = self.told + context.max_subtasks

    def __call__(self, event: Event) -> bool:
        row, estimator = event.row, self.estimator
        listener = getattr(estimator, "_listener", None)  # the command line's
        if listener is not None:
            listener(event)
        if event.checked and estimator.verbose:
            logger.info(
                "pass %g: gap %.3e (tol %.1e), objective %.8g, %.1f s",
                row.epoch, event.relative_gap, event.tol, -row.lower_bound,
                row.wall_seconds,
            )  # fmt: skip
        stop = False
        while self.told < min(math.floor(row.epoch + 1e-9), self.last):
            self.told += 1
            task = self.context.subcontext(task_name=f"pass {self.told}")
            task.call_on_fit_task_begin(estimator=estimator)
            stop |= task.call_on_fit_task_end(
                estimator=estimator,
                metadata={"gap": row.gap, "epoch": row.epoch},
                reconstruction_attributes=lambda: self._attributes(event),
            )
        return bool(stop)

    def _attributes(self, event: Event) -> dict[str, Any]:
        shared = event.state.shared.astype(np.float64)
        return self.describe(self.problem.finish(shared))


def _advice(result: Result, tol: float) -> str:
    passes = f"{result.epochs:g} pass{'' if result.epochs == 1 else 'es'}"
    reached = f"the gap is {result.relative_gap:.3g} after {passes}"
    if result.status is Status.STALLED:
        return f"{result.status.value} Here {reached}; tol = {tol:g} is out of reach."
    if result.status is Status.DIVERGED:
        return result.status.value
    limit = "max_iter" if result.status is Status.EPOCH_LIMIT else "max_seconds"
    return (
        f"Stopped before convergence: {reached}, above tol = {tol:g}. Raise {limit} "
        "or tol."
    )
