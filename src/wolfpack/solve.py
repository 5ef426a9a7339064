"""`solve`: minimise a problem with an engine, and say how good the answer is."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any, Literal, TypeGuard

import numpy as np
from numba.core.event import install_timer

from wolfpack.checks.inputs import is_number
from wolfpack.checks.problem import check_scale
from wolfpack.engines.base import Engine
from wolfpack.engines.serial import Serial
from wolfpack.kernels.notice import compiling
from wolfpack.problem import Problem
from wolfpack.result import Event, Result
from wolfpack.run import acceleration
from wolfpack.run.interrupt import Held, Interrupt, terminable
from wolfpack.run.loop import Run
from wolfpack.run.options import Options
from wolfpack.state import State
from wolfpack.update import sampling as samplers
from wolfpack.update.plan import Plan
from wolfpack.update.steps import CONSTANT, RULES


def solve(
    problem: Problem,
    *,
    engine: Engine | None = None,
    batch_size: int | Literal["auto"] | None = None,
    step: Literal["line", "open-loop", "exact"] | float = "line",
    sampling: Literal["uniform", "permutation", "gap", "cyclic"] = "uniform",
    averaging: bool = False,
    accelerate: bool | Literal["auto"] = "auto",
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
    engine : Engine, optional
        How to run it: `Serial`, `Threads`, `Sync`, `Delayed`, `Ray`, or one of your own
        (`wolfpack.engines.base`). Default: `Serial()`; `Threads()` uses all cores.
    batch_size : int, "auto" or None
        Blocks per update, tau in the paper: 1 is BCFW, n batch Frank-Wolfe. Where
        `Threads` merge, "auto" and None adapt it to measurements during the run. With
        `Serial`, where a joint step gains nothing, and mostly with `Ray`, both are 1.
        Elsewhere None is one block per worker, and "auto" makes a short pilot run
        first: `suggest_batch_size`.
    step : "line", "open-loop", "exact" or a number
        gamma in the paper: an exact line search (jointly over the batch), the paper's
        2 n tau / (tau^2 k + 2 n) clipped to 1, a line search towards the minimiser of
        each block (where the problem has one), or a constant within (0, 1].
    sampling : "uniform", "permutation", "gap" or "cyclic"
        How blocks are chosen: at random, by a new order each epoch, in proportion to
        their gap when last seen, which costs O(log n) a block, or from the first to
        the last and back. "cyclic" draws nothing and reads memory in order. It suits
        many cheap blocks whose neighbours share rows of v, as in the group fused lasso.
        With `Threads` each worker sweeps its own range. `Ray`, `Threads` in mode
        "server" and `Delayed(workers=...)` take "uniform" only.
    averaging : bool
        Keep the weighted average of the iterates too, and certify with the better of
        both bounds. Costs another v in memory, and one more oracle pass a check.
    accelerate : bool or "auto"
        Make block steps inside an accelerated proximal outer loop (Catalyst), which
        needs far fewer passes. It takes a problem with `ridge`, step="line" or "exact",
        and no averaging. "auto" accelerates where that is so and there are 250 blocks a
        thread or more, or any number with step="exact" and sampling="gap"; not with
        `Delayed`. f(x) may then rise between two checks; the certificate is as
        rigorous. Costs two more v in memory.
    tol : float
        Stop at this `relative_gap`: the duality gap over `problem.scale`.
    max_epochs : float
        Stop after this many passes, n oracle calls each, those of `start` included.
    max_seconds : float, optional
        Stop after this many seconds of this call; the compiler's time does not count.
    check_every : float, optional
        Epochs between two exact certificates, each of which costs one call of the
        oracle per block. Default: each epoch at first, then when the epochs have
        grown by 15 % or 50, and as soon as the running estimate is at the goal.
    callback : function of an Event, optional
        Called after each check, and a few times a second between checks; returning
        True stops the run.
    start : State, optional
        Where to go on from: `result.state`, or `State.load(path)`.
    rng : numpy Generator or int, optional
        The source of randomness. The same seed gives the same bits with `Serial`,
        `Sync` and `Delayed`, and not with `Threads` and `Ray`, whose workers run in no
        fixed order.

    Returns
    -------
    Result

    Raises
    ------
    ProblemError
        A function of the problem is wrong; found before the loop starts.
    OracleError
        A function of the problem failed later; the error carries the state.
    EngineError
        A cluster cannot go on; the error carries the last state that was checked.

    References
    ----------
    Wang, Sadhanala, Dai, Neiswanger, Sra, Xing: Parallel and Distributed
    Block-Coordinate Frank-Wolfe Algorithms. ICML 2016, Algorithm 1.

    Lin, Mairal, Harchaoui: Catalyst Acceleration for First-order Convex Optimization:
    from Theory to Practice. Journal of Machine Learning Research 18, 2018.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> result = wolfpack.solve(problem, step="exact", tol=1e-4, max_epochs=1000, rng=0)
    >>> result.status.name
    'CONVERGED'
    """
    if not isinstance(problem, Problem):
        given = type(problem).__name__
        raise TypeError(f"problem must be a Problem, but is a {given}.")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of an Event, not {callback!r}.")
    if engine is not None and not isinstance(engine, Engine):
        raise TypeError(f"engine must be an engine like Serial(), not {engine!r}.")
    check_scale(problem)
    engine = Serial() if engine is None else engine
    silent = not problem.kernels().compiled  # plain Python compiles in under a second
    with terminable(), contextlib.ExitStack() as notice:
        notice.enter_context(compiling(_describe(problem), silent=silent))
        spent = 0.0 if problem.is_ours else _check(problem)
        if isinstance(batch_size, str) and batch_size == "auto":
            seed = rng if _is_int(rng) else None
            batch_size = engine.auto_batch_size(problem, seed)
        options = _validate(
            problem, batch_size, step, sampling, averaging, accelerate, tol, max_epochs,
            max_seconds, check_every, engine,
        )  # fmt: skip
        generator = _generator(rng)
        with Held():
            if start is None:
                state = State.begin(problem, options, generator)
            else:
                state = State.resume(problem, start, options, generator)
        run = Run(problem, engine, state, options, callback)
        try:  # a signal may come as soon as there are threads
            run.open(spent)
            notice.close()
            with Interrupt() as interrupt:
                return run.to_the_end(interrupt)
        except BaseException:
            run.close()
            raise


def _describe(problem: Problem) -> str:
    n_labels = getattr(problem.data, "n_labels", None)
    return problem.name + (f" with {n_labels} labels" if n_labels else "")


def _check(problem: Problem) -> float:
    """Try the functions; return the seconds it took, without the compiler's time."""
    compiling, begin = [], time.perf_counter()
    hold = Held() if problem.kernels().compiled else contextlib.nullcontext()
    with hold, install_timer("numba:compile", compiling.append):
        problem.check()
    return max(time.perf_counter() - begin - sum(compiling), 0.0)


def _validate(
    problem, batch_size, step, sampling, averaging, accelerate, tol, max_epochs,
    max_seconds, check_every, engine,
) -> Options:  # fmt: skip
    n = problem.n_blocks
    if batch_size is not None and not (_is_int(batch_size) and 1 <= batch_size <= n):
        raise ValueError(
            f"batch_size must be an integer from 1 to the number of blocks, {n}, "
            f"'auto' or None; given was {batch_size!r}."
        )
    if isinstance(step, str) and step not in RULES:
        raise ValueError(f"step must be one of {[*RULES]} or a number, not {step!r}.")
    if not isinstance(step, str) and not (is_number(step) and 0 < step <= 1):
        raise ValueError(f"a constant step must lie in (0, 1]; given was {step!r}.")
    if step == "exact" and problem.minimiser is None and engine.heeds_step:
        raise ValueError(
            f"step='exact' needs a problem with a block minimiser, and {problem.name} "
            "has none; use step='line'."
        )
    if not (isinstance(sampling, str) and sampling in samplers.KINDS):
        raise ValueError(
            f"sampling must be one of {[*samplers.KINDS]}, not {sampling!r}."
        )
    if not isinstance(averaging, bool | np.bool_):
        raise ValueError(f"averaging must be True or False, not {averaging!r}.")
    if averaging and problem.value is None:
        raise ValueError("averaging needs a problem with a value function.")
    if averaging and problem.finish is None and problem.offsets is None:
        raise ValueError(
            "averaging needs a problem with `finish`: the average is of v."
        )
    for name, number in (("tol", tol), ("max_epochs", max_epochs)):
        if not (is_number(number) and number >= 0):
            raise ValueError(f"{name} must be a number >= 0; given was {number!r}.")
    for name, number in (("max_seconds", max_seconds), ("check_every", check_every)):
        if number is not None and not (is_number(number) and number > 0):
            raise ValueError(f"{name} must be a number > 0 or None, not {number!r}.")
    accelerated = acceleration.decide(
        problem, engine, step, sampling, bool(averaging), accelerate
    )
    plan = Plan(
        n_blocks=n,
        rule=RULES[step] if isinstance(step, str) else CONSTANT,
        step_size=0.0 if isinstance(step, str) else float(step),
        sampling=samplers.number(sampling, step == "exact" and accelerated),
        exact=step == "exact",
    )
    limit = math.inf if max_seconds is None else max_seconds
    asked = None if batch_size is None else int(batch_size)
    options = Options(
        engine.blocks_per_update(asked, n), asked, bool(averaging), sampling, step,
        plan, tol, max_epochs, limit, check_every, accelerated,
    )  # fmt: skip
    engine.refuse(problem, options)
    return options


def _generator(rng: np.random.Generator | int | None) -> np.random.Generator:
    """Return a new generator for the run, seeded by the user's if one is given."""
    if isinstance(rng, np.random.Generator):
        rng = int(rng.integers(2**63))
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(
            "rng must be a whole number >= 0, a numpy Generator or None; given was "
            f"{rng!r}."
        ) from None


def _is_int(x) -> TypeGuard[int]:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)
