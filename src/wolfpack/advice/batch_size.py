"""How many blocks to move at once: measured, then said in one sentence.

The model behind `suggest_batch_size` is one formula,

    time(tau)  ~  (a + b / tau) / coupling(tau)

a: seconds of one block's step, shared by T workers. b: seconds of one exchange of v, a
joint update or merge, which tau blocks share. Both are fitted to the engine's own
oracle calls per second on this machine. coupling(tau): what a joint update of tau
blocks is worth, in updates of one block, over tau (`worth`); it stands for the number
of oracle calls that a given gap takes. So the model knows nothing of stragglers, of
delays other than tau itself, and of how the coupling changes after the pilot's last
point.
"""

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from wolfpack.advice.pilot import Pilot, Way
from wolfpack.engines.serial import Serial
from wolfpack.engines.shared_memory import local, merge, rows
from wolfpack.engines.sync import Sync
from wolfpack.engines.threads import Threads, count_cores
from wolfpack.problem import Problem

SIZES = 2 ** np.arange(7)  # blocks a worker
# Where workers write into v directly, the pilot copies v for each block. So it takes no
# more blocks than make this many numbers.
MOST_NUMBERS = 2**27
# Noise cannot tell apart the tau within this part of the best time: the median of them
# is suggested.
WITHIN = 0.03


@dataclass(frozen=True, eq=False)
class Advice:
    """What `suggest_batch_size` suggests, and why; `int(advice)` is tau.

    Attributes
    ----------
    batch_size : int
        tau in the paper, for `solve(batch_size=...)`.
    reason : str
        Why, in a sentence.
    n_workers : int
        T in the paper.
    way : "joint", "merge" or "direct"
        How blocks move together: all by one gamma; a share a worker, then merged; or
        each by its own gamma, written into v directly.
    oracle_seconds : float
        One call of the oracle, on one thread.
    merge_seconds : float
        One joint update, or merge: what tau blocks share. NaN where it plays no part.
    batch_sizes : array of int
        The tau that were tried.
    coupling : array
        What a joint update of each tau is worth, in single ones, over tau: 1 where
        blocks do not interfere, 1 / tau where all are alike.
    relative_time : array
        The predicted time to a given gap with each tau, in parts of the best.

    Examples
    --------
    >>> import wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=100, d=3)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> int(wolfpack.suggest_batch_size(problem, 1, rng=0))
    1
    """

    batch_size: int
    reason: str
    n_workers: int
    way: Way
    oracle_seconds: float
    merge_seconds: float
    batch_sizes: np.ndarray
    coupling: np.ndarray
    relative_time: np.ndarray

    def __int__(self) -> int:
        """Return tau."""
        return self.batch_size

    @property
    def joint_progress(self) -> np.ndarray:
        """How many single updates a joint update of each tau is worth."""
        return self.coupling * self.batch_sizes


def suggest_batch_size(
    problem: Problem,
    n_workers: int | None = None,
    *,
    engine: Threads | Sync | Serial | None = None,
    seconds: float = 2.0,
    rng: np.random.Generator | int | None = None,
) -> Advice:
    """Suggest tau for a problem, an engine and this machine, by a short pilot run.

    The predicted time to a given gap is (a + b / tau) / coupling(tau): a step of one
    block, its share of an exchange of v, and how much of the progress of single updates
    a joint one keeps. All three are measured, the coupling at the start of the run; see
    the module. Steps are found by line search, as with `step="line"`.

    Parameters
    ----------
    problem : Problem
        What is to be minimised.
    n_workers : int, optional
        T in the paper. Default: that of `engine`; all cores, if there is none.
    engine : Threads, Sync or Serial, optional
        The engine that will run it. Default: `Threads(n_workers)`.
    seconds : float
        About how long the pilot may take. Compiling, once, comes on top.
    rng : numpy Generator or int, optional
        Decides which blocks are tried. Measured times still differ from call to call.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import wolfpack
    >>> train = wolfpack.load_dates(n_train=200)[0]
    >>> problem = wolfpack.chain_ssvm(train.X, train.y, alpha=0.01)
    >>> advice = wolfpack.suggest_batch_size(problem, 2, seconds=0.5, rng=0)
    >>> result = wolfpack.solve(
    ...     problem, engine=wolfpack.Threads(2), batch_size=int(advice), tol=0.1)
    >>> result.converged
    True
    """
    team = _validate(problem, n_workers, engine, seconds)
    pilot = Pilot(problem, np.random.default_rng(rng))
    begin = time.perf_counter()
    points = pilot.walk(0.25 * seconds)
    n = problem.n_blocks
    T, way = min(team.size, n), _way(team, problem)
    most = max(T, MOST_NUMBERS // problem.shared.size) if way == "direct" else n
    taus = T * SIZES
    taus = taus[taus <= min(n, most)]
    coupling = pilot.coupling(points, taus, way, T, 0.4 * seconds)
    found: dict[str, Any] = {
        "n_workers": T,
        "way": way,
        "oracle_seconds": pilot.time_oracle(),
        "batch_sizes": taus,
        "coupling": coupling,
    }
    fixed = _fixed(team, way, T)
    if fixed is not None:
        unknown = np.full(len(taus), math.nan)
        return Advice(*fixed, merge_seconds=math.nan, relative_time=unknown, **found)
    left = max(0.25 * seconds, seconds - (time.perf_counter() - begin))
    a, b = _fit(pilot, team, taus, left)
    times = (a + b / taus) / coupling
    times /= times.min()
    good = taus[times <= 1.0 + WITHIN]
    tau = int(good[len(good) // 2])
    shared = b * T if way == "merge" else b  # T workers merge at the same time
    advice = Advice(tau, "", merge_seconds=shared, relative_time=times, **found)
    return dataclasses.replace(advice, reason=_explain(advice, a))


def _validate(problem: Any, n_workers: Any, engine: Any, seconds: Any) -> Any:
    """Return the engine, once the problem is known to run on it."""
    if not isinstance(problem, Problem):
        given = type(problem).__name__
        raise TypeError(f"problem must be a Problem, but is a {given}.")
    if engine is not None and not isinstance(engine, Threads | Sync | Serial):
        raise TypeError(
            f"engine must be Threads(), Sync(), Serial() or None, not {engine!r}."
        )
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and 0 < seconds < math.inf):
        raise ValueError(f"seconds must be a finite number > 0, but is {seconds!r}.")
    if isinstance(engine, Serial) and n_workers not in (None, 1):
        raise ValueError(f"Serial() has one worker; n_workers is {n_workers!r}.")
    if engine is None:
        engine = Threads(n_workers)
    elif n_workers is not None and not isinstance(engine, Serial):
        engine = dataclasses.replace(engine, n_workers=n_workers)
    if not problem.is_ours:
        problem.check()
    if engine.size > 1 and not problem.kernels().compiled:
        raise ValueError(
            f"{problem.name} has plain Python functions, which threads run one at a "
            "time; compile them with numba.njit, or use Serial()."
        )
    return engine


def _way(engine: Any, problem: Problem) -> Way:
    """Return how the engine moves blocks together."""
    if engine.size == 1:
        return "joint"
    ways: dict[Any, Way] = {merge: "merge", rows: "direct", local: "direct"}
    return ways.get(engine.loops(problem)[0], "joint")


def _fixed(engine: Any, way: Way, n_workers: int) -> tuple[int, str] | None:
    """Return the only sensible tau and why, where there is nothing to choose."""
    if n_workers == 1:
        return 1, (
            "tau = 1: one worker gains nothing by gathering blocks, and steps of one "
            "block make the most of each oracle call."
        )
    if way == "direct" and engine.mode == "lock-free":
        return 1, "tau = 1: lock-free workers move one block at a time."
    if way == "direct":
        return n_workers, (
            f"tau = {n_workers}, one block a worker: blocks touch few rows of v here, "
            "so workers write into v directly, and never gather blocks."
        )
    return None


def _fit(
    pilot: Pilot, engine: Any, taus: np.ndarray, seconds: float
) -> tuple[float, float]:
    """Return a and b of the seconds per oracle call, a + b / tau."""
    some = taus[::2]
    calls = pilot.time_calls(engine, some.tolist(), seconds)
    # Least squares of relative errors; neither a nor b can be negative.
    table = np.stack([1.0 / calls, 1.0 / (some * calls)], axis=1)
    (a, b), _ = nnls(table, np.ones(len(some)))
    return float(a), float(b)


def _explain(advice: Advice, step: float) -> str:
    tau, T, merges = advice.batch_size, advice.n_workers, advice.way == "merge"
    here = int(np.flatnonzero(advice.batch_sizes == tau)[0])
    share = f", {tau // T} a worker" if merges else ""
    worth = f"{advice.joint_progress[here]:.3g} single ones"
    price = advice.merge_seconds / max(step * T, 1e-12)
    what = "merging" if merges else "a joint update"
    text = (
        f"tau = {tau}{share}: an update of {tau} is worth {worth}, and {what} costs as "
        f"much time as {price:.2g} steps of a block"
    )
    more = np.rint(100.0 * (advice.relative_time - 1.0)).astype(int)
    ends = {0: "smallest", len(more) - 1: "largest"}
    others = [
        f"{more[k]} % longer with the {name}, {advice.batch_sizes[k]}"
        for k, name in ends.items()
        if k != here and more[k] > 0
    ]
    if others:
        text += "; a run would take " + ", and ".join(others)
    cores = count_cores()
    if cores < T:
        text += f"; timed on {cores} cores, so ask again where it will run"
    return text + "."
