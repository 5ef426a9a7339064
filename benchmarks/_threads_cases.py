"""What `threads.py` is made of: its data, its clocks, and the columns of its table."""

import importlib.metadata
import math
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _book import say

import wolfpack
from wolfpack import Serial, Sync, Threads
from wolfpack.datasets import (
    DatasetError,
    load_acgh,
    load_conll2000,
    load_ocr,
    make_chains,
    make_piecewise,
    make_speech,
)
from wolfpack.engines.threads import count_cores

# The columns of the file, and how each is printed.
COLUMNS = {
    "section": "<9",
    "case": "<17",
    "engine": "<9",
    "workers": ">7d",
    "blocks": ">6",
    "seconds": ">8.3f",
    "wall_seconds": ">12.3f",
    "speedup": ">7.2f",
    "wall_speedup": ">12.2f",
    "passes": ">8.1f",
    "steps_per_second": ">16.0f",
    "ratio": ">6.2f",
    "seconds_per_pass": ">16.4f",
    "ideal": ">6.2f",
    "slowest": ">7.2f",
    "gap": ">9.2e",
    "rise": ">9.1e",
    "kilobytes_per_worker": ">20.0f",
    "status": "<11",
    "verdict": "<7",
}
RACE = (
    "case", "engine", "workers", "blocks", "seconds", "wall_seconds", "speedup",
    "wall_speedup", "passes", "steps_per_second", "gap", "status",
)  # fmt: skip


def machine() -> dict[str, object]:
    """Return the facts about the machine that the numbers come from."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":")[1].strip() for line in lines if "model name" in line]
        model = names[0] if names else model
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    packages = ("numba", "numpy", "scipy", "scikit-learn")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "cores": count_cores(),
        "cpu": model,
        "system": f"{platform.system()} {platform.machine()}",
        "load_at_start": load,
        "python": platform.python_version(),
        **versions,
    }


class Budget:
    """The seconds that a section may take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter() + seconds
        self._said = False

    @property
    def left(self) -> float:
        """The seconds that remain, or 0."""
        return max(0.0, self._end - time.perf_counter())

    def is_spent(self) -> bool:
        """Return whether to stop here, and say so once."""
        spent = self.left < 0.1
        if spent and not self._said:
            say("(the time of this section is spent: the rest is left out)")
            self._said = True
        return spent


def warm(problem, engines: Sequence) -> None:
    """Compile, or load, and wake the cores, before any clock runs."""
    for engine in engines:
        wolfpack.solve(
            problem, accelerate=False, engine=engine, tol=0, max_seconds=0.05
        )


def time_to_gap(problem, engine, batch_size, tol, seconds, n_seeds=1):
    """Solve to the gap with some seeds; return the result of the median time."""
    results = [
        wolfpack.solve(
            problem,
            accelerate=False,
            engine=engine,
            batch_size=batch_size,
            tol=tol,
            max_epochs=math.inf,
            max_seconds=max(seconds, 0.1),
            rng=seed,
        )
        for seed in range(n_seeds)
    ]
    middle = statistics.median_low([result.seconds for result in results])
    return next(result for result in results if result.seconds == middle)


def run_for(problem, engine, batch_size, seconds):
    """Make steps for some seconds, with no check but the first and the last."""
    return wolfpack.solve(
        problem,
        accelerate=False,
        engine=engine,
        batch_size=batch_size,
        tol=0,
        max_epochs=math.inf,
        max_seconds=seconds,
        check_every=1e9,
        rng=0,
    )


APART = {
    "ocr": lambda: ocr(0.01),
    "speech": lambda: speech(1000),
    "wide": lambda: wide(1000),
    "conll": lambda: conll((1e-2,))[1e-2],
}


def rates_apart(case: str, count: int, seconds: float) -> list[float]:
    """Return the steps per second of several `Serial` processes at once."""
    context = multiprocessing.get_context("spawn")
    rates, together = context.Queue(), context.Barrier(count)
    arguments = (case, seconds, together, rates)
    processes = [context.Process(target=_apart, args=arguments) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        return [rates.get(timeout=300) for _ in processes]
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _apart(case: str, seconds: float, together, rates) -> None:
    problem = APART[case]()
    warm(problem, [Serial()])
    together.wait(timeout=300)
    result = run_for(problem, Serial(), None, seconds)
    rates.put(result.n_oracle_calls / max(result.seconds, 1e-9))


class Optimum(NamedTuple):
    """A problem, its minimum by an independent solver, and a goal."""

    case: str
    problem: wolfpack.Problem
    low: float
    high: float
    tol: float


def ocr(alpha: float, folds: Iterable[int] | None = None) -> wolfpack.Problem:
    """Return the structural SVM of the OCR words."""
    words = load_ocr(folds)
    return wolfpack.chain_ssvm(words.X, words.y, alpha)


def speech(n: int) -> wolfpack.Problem:
    """Return the structural SVM of long chains with 39 dense features: v has 24 kB."""
    data = make_speech(n)
    return wolfpack.chain_ssvm(data.X, data.y, alpha=20_000 / n, n_labels=50)


def wide(n: int) -> wolfpack.Problem:
    """Return the SVM of long chains with 200 sparse features: v has 65 kB."""
    data = make_chains(n)
    return wolfpack.chain_ssvm(data.X, data.y, alpha=3000 / n, n_labels=50)


def conll(alphas: Iterable[float]) -> dict[float, wolfpack.Problem]:
    """Return the structural SVMs of the CoNLL-2000 sentences.

    F1 on the test part, at gap 0.01: 0.934 (1e-2), 0.929 (1e-3), 0.927 (1e-4).
    """
    text = load_conll2000()
    return {alpha: wolfpack.chain_ssvm(text.X, text.y, alpha) for alpha in alphas}


# Primal and dual value: all optima are minus what `solve` minimises.
OCR_FOLD = {
    1.0: (0.7303991688, 0.7303990740),
    0.01: (0.1650298089, 0.1650297363),
    1 / 626: (0.0490815819, 0.0490815254),
}
OCR_ALL = {1.0: (0.7782216391, 0.7782215508), 0.01: (0.3822171830, 0.3822170966)}


def optima(fast: bool) -> list[Optimum]:
    """Return problems with known minima, and how near to them to come."""
    goals = {1.0: 0.01, 0.01: 0.05, 1 / 626: 0.05}
    cases = [
        Optimum(f"fold 0, a={alpha:.2g}", ocr(alpha, [0]), -P, -D, goals[alpha])
        for alpha, (P, D) in OCR_FOLD.items()
    ]
    if not fast:
        cases += [
            Optimum(f"all words, a={alpha:g}", ocr(alpha), -P, -D, 0.01)
            for alpha, (P, D) in OCR_ALL.items()
        ]
    signals = [("lasso 100 x 10", make_piecewise(100, 10)[0], 0.5, 22.827209)]
    try:
        signals.append(("lasso aCGH", load_acgh(), 1.0, 708.980331))
    except DatasetError as error:
        say(f"without aCGH: {error}")
    for case, Y, alpha, best in signals:
        problem = wolfpack.group_fused_lasso(Y, alpha)
        cases.append(Optimum(case, problem, -best - 1e-6, -best + 1e-6, 1e-3))
    return cases


def every_engine(T: int):
    """Yield all ways to use T threads."""
    for mode in ("merge", "server", "lock-free"):
        yield mode, Threads(T, mode)
    yield "Sync", Sync(T)


def judge(case, result) -> tuple[str, float]:
    """Return what is wrong with a run, if anything, and how far f rose on the way."""
    slack = 1e-6 * case.problem.scale
    objectives = [row.objective for row in result.trace]
    rise = max(0.0, *np.diff(objectives)) if len(objectives) > 1 else 0.0
    if result.lower_bound > case.high + slack or result.objective < case.low - slack:
        return "OUTSIDE", rise
    if rise > slack:
        return "RISES", rise
    if not result.converged:
        return "LATE", rise
    return "yes", rise
