"""What all estimators share: arguments, callbacks, warnings, learnt numbers."""

import contextlib
import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from wolfpack.checks.inputs import positive
from wolfpack.engines.serial import Serial
from wolfpack.engines.threads import Threads
from wolfpack.estimators._advice import UNFINISHED, advise
from wolfpack.estimators._callbacks import CallbackSupportMixin
from wolfpack.estimators._passes import Passes
from wolfpack.problem import Problem
from wolfpack.result import Event, Result, Status, TraceRow
from wolfpack.run.interrupt import error_of
from wolfpack.solve import solve
from wolfpack.state import State, StateError


class DualEstimator(CallbackSupportMixin, BaseEstimator):
    """An estimator that solves the dual of its problem by `wolfpack.solve`."""

    batch_size: Any
    step: Any
    sampling: Any
    averaging: bool
    accelerate: Any
    tol: float
    max_iter: int
    max_seconds: float | None
    warm_start: bool
    n_jobs: int | None
    engine: Any
    random_state: Any
    callback: Callable[[Event], bool | None] | None
    verbose: int
    _caution = ""  # what else an unfinished fit means
    _more = ""  # what else a warm start may change
    result_: Result
    classes_: np.ndarray  # of those that know classes
    _ridge = 0.0  # of the problem that `fit` solved last

    def _set(self, given: dict[str, Any]) -> None:
        """Keep the arguments of `__init__`, out of its `locals()`, as they are."""
        for name, value in given.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _solve(
        self,
        problem: Problem,
        describe: Callable[[Any], dict[str, Any]],
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        certify: Callable[[Result], Result] = lambda result: result,
    ) -> Result:
        """Solve, telling the callbacks of each pass; keep what was learnt.

        `describe` turns a solution into the attributes of a fitted estimator. `X`, `y`
        and `sample_weight` are those that `fit` was given: callbacks may score them.
        `certify` changes a result into that of the problem that a user has, where
        `problem` is a step towards it.
        """
        max_iter, rng = self._limit("max_iter"), self._generator()
        averaging, engine = self._flag("averaging"), self._choose_engine()
        start = self._start(problem)
        if start is None and self.warm_start:
            self._say_cold()
        self._check_callback()
        done = 0.0 if start is None else self._epochs_in(start, problem)
        context = self._init_callback_context(max_subtasks=math.ceil(max_iter))
        about: dict[str, Any] = {"estimator": self, "X": X, "y": y}
        if sample_weight is not None:  # callbacks hand the metadata to scorers
            about["metadata"] = {"sample_weight": sample_weight}
        context.call_on_fit_task_begin(**about)
        passes = Passes(about, context, problem, describe, done)
        try:
            result = solve(
                problem,
                engine=engine,
                batch_size=self.batch_size,
                step=self._step_for(problem),
                sampling=self.sampling,
                averaging=averaging,
                accelerate=self.accelerate,
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
        result = certify(result)
        self._learn(result, describe)
        self._ridge = problem.ridge
        context.call_on_fit_task_end(**about, reconstruction_attributes={})
        if result.signal is not None:  # so that a search over fits stops too
            what = "fit was interrupted; what it had learnt is kept."
            raise error_of(result.signal)(what)
        if result.status in UNFINISHED:
            # Level 4 is the caller of `fit`: its decorator is a frame of its own.
            advice = advise(result, self.tol, X, y) + self._caution
            warnings.warn(advice, ConvergenceWarning, stacklevel=4)
        return result

    def _learn(self, result: Result, describe: Callable[[Any], dict[str, Any]]) -> None:
        for name, value in describe(result.solution).items():
            setattr(self, name, value)
        self.objective_ = -result.lower_bound
        self.dual_objective_ = -result.objective
        self.gap_, self.relative_gap_ = result.gap, result.relative_gap
        self.n_iter_ = max(1, math.ceil(result.epochs))
        self.result_ = result
        vars(self).pop("file_info_", None)  # what was known of an earlier fit
        if not self.warm_start:
            self.result_ = dataclasses.replace(result, state=None)

    @property
    def status_(self) -> Status:
        """Why fit stopped."""
        return self.result_.status

    @property
    def trace_(self) -> list[TraceRow]:
        """One row a check."""
        return self.result_.trace

    @property
    def partial_fit(self) -> Any:
        """Refuse, and say why; for `hasattr` there is no such method."""
        raise AttributeError(
            f"{type(self).__name__} has no partial_fit: its certificate covers all "
            "examples, and a part of them would not tell how good the weights are for "
            "the rest. Fit all of them; to go on from the last fit, with a new alpha "
            f"or a smaller tol{self._more}, set warm_start=True."
        )

    def _step_for(self, problem: Problem) -> Any:
        """Return the step that the problem is solved with."""
        return self.step

    def _last_state(self) -> State | None:
        """Return where the last `fit` stopped, if `warm_start` asks to go on there."""
        last = getattr(self, "result_", None)
        return last.state if self._flag("warm_start") and last is not None else None

    def _refuse_others(self, classes: np.ndarray, what: str) -> None:
        """Raise where a warm start has other classes than the first fit."""
        if self._last_state() is None or np.array_equal(classes, self.classes_):
            return
        raise ValueError(
            f"warm_start needs the {what} of the first fit, {self.classes_}, "
            f"but y has {classes}; set warm_start=False to start anew."
        )

    def _start(self, problem: Problem) -> State | None:
        """Return the state that `fit` goes on from, which stays as it is."""
        start = self._last_state()
        if start is not None and 0 < problem.ridge < self._ridge:
            return start.drawn_back(problem, problem.ridge / self._ridge)
        return start

    def _say_cold(self) -> None:
        """Warn where `warm_start` has an earlier fit, but no state of it."""
        if hasattr(self, "file_info_"):
            why = "a file of `save_model` holds none"
        elif hasattr(self, "result_"):
            why = "the last fit had warm_start=False, which keeps none"
        else:  # the first fit
            return
        warnings.warn(
            f"warm_start=True has no state to go on from: {why}. This fit starts anew.",
            UserWarning,
            stacklevel=5,
        )

    def _check_callback(self) -> None:
        if self.callback is not None and not callable(self.callback):
            raise ValueError(
                f"callback must be a function of an Event, or None; given was "
                f"{self.callback!r}."
            )

    def _choose_engine(self) -> Any:
        """Return `engine` if it is given, else the one that `n_jobs` asks for."""
        if self.engine is not None:
            return self._check_engine()
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

    def _check_engine(self) -> Any:
        engine = self.engine
        if isinstance(engine, type) or not hasattr(engine, "reproducible"):
            raise ValueError(
                "engine must be an engine such as Serial() or Threads(4), or None; "
                f"given was {engine!r}."
            )
        if self.n_jobs is not None:
            raise ValueError(
                f"engine={engine!r} has its own number of workers, so n_jobs must be "
                f"None beside it, but is {self.n_jobs!r}."
            )
        return engine

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
        """Say whether the same random_state gives the same bits."""
        tags = super().__sklearn_tags__()
        with contextlib.suppress(ValueError):  # `fit` tells what is wrong with engine
            tags.non_deterministic = not self._choose_engine().reproducible
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
