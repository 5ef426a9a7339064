"""When a function of the problem fails: rebuild v from x, and name the block.

Where an engine fails, its last iterate is certified.
"""

import contextlib
import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from wolfpack.problem import Problem
from wolfpack.result import EngineError, OracleError
from wolfpack.state import State
from wolfpack.update.plan import Exit

if TYPE_CHECKING:
    from wolfpack.run.loop import Run


def failure(problem: Problem, state: State, error: Exception) -> OracleError:
    """Return the error that names the block on which `error` was raised."""
    block = int(state.progress.at)
    return OracleError(
        f"{problem.name}: a function of the problem raised {type(error).__name__} on "
        f"block {block}: {error}; the iterate is in this error's .state.",
        block,
        state,
    )


def explain(run: "Run", error: Exception) -> OracleError:
    """Return what to raise for an `error` of a function during an update."""
    _restore(run)
    if run.options.batch_size > 1 and not run.session.names_the_block:
        _blame(run)
    return failure(run.problem, run.state, error)


def refuse(run: "Run", ended: Exit) -> OracleError:
    """Return what to raise for an atom or a step that no loop can use."""
    if ended == Exit.NOT_A_NUMBER:
        _restore(run)
        _blame(run)
    block = int(run.state.progress.at)
    return OracleError(
        f"{run.problem.name}: {ended.sentence} on block {block} after "
        f"{run.state.n_updates} updates; the iterate is in this error's .state.",
        block,
        run.state,
    )


def refuse_negative(problem: Problem, state: State, gap: float, size: float) -> None:
    """Raise if a gap is below zero by more than rounding; its terms have `size`."""
    noise = 1e-5 if state.shared.dtype == np.float32 else 1e-9
    if gap < -noise * (size + problem.scale):
        cause = "the oracle misses its minimum on some block."
        if state.outer is not None:
            cause = (
                f"ridge={problem.ridge:.9g} does not fit g, which must be ridge/2 "
                f"|v|^2 plus a constant; or {cause}"
            )
        give_up(
            problem,
            state,
            f"the gap is {gap:.3g}, and no minimiser gives a negative one: {cause}",
        )


def refuse_endless(certifier: Any, state: State, gap: float) -> None:
    """Raise if a gap is not finite, where v is."""
    if math.isfinite(gap):
        return
    block = certifier.blame(state, -1)
    wrong = f"are not finite on block {block}, or " if block >= 0 else "are "
    give_up(
        certifier.problem,
        state,
        f"the gap is {gap}, and v is finite: the numbers that the oracle or slope "
        f"returned {wrong}too large to be added; scale the problem down.",
        block,
    )


def give_up(problem: Problem, state: State, sentence: str, block: int = -1) -> NoReturn:
    """Raise for a certificate that cannot be made."""
    raise OracleError(f"{problem.name}: {sentence}", block, state)


def certify_what_is_left(run: "Run", error: EngineError) -> None:
    """Say in the error of an engine how good its state is."""
    with contextlib.suppress(OracleError, EngineError):
        if run._check(lambda: run.is_interrupted, scheduled=False):
            row = run.journal.trace[-1]
            error.args = (
                f"{error} The iterate is in this error's .state; its objective is "
                f"{row.objective:.8g}, and the minimum is at least "
                f"{row.lower_bound:.8g}.",
            )


def what_is_nan(problem: Problem, kernels: Any, scratch: Any, block: int) -> str:
    """Say why `least_value` returned NaN; `scratch` holds the oracle's atom."""
    atom = scratch[: problem.scratch_atom(block).size]
    if problem.contains is None or not np.isfinite(atom).all():
        return "the oracle returned NaN"
    if kernels.contains(problem.data, block, atom):
        return "the oracle returned NaN"
    return "the oracle's atom lies outside the feasible set"


def _restore(run: "Run") -> None:
    """Rebuild v from x: a function that failed may have left it half moved.

    Where `add` itself fails, v stays as it is; the next check rebuilds it.
    """
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        run.state.rebuild(run.problem, run.kernels, run.work)


def _blame(run: "Run") -> None:
    """Find the block at fault among those that were moved together."""
    progress = run.state.progress
    progress.at = run.certifier.blame(run.state, int(progress.at))
