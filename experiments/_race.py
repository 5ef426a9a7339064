"""Figures 2a to 2d: seconds to a primal suboptimality, by how many workers.

The paper's "primal suboptimality" is f(x) - f* of its problem (1), which for the SVM
is the dual. Seconds are those of the updates; checks and compiling are in no number.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from _common import Budget, Row
from _problems import ALL, FIRST, Task, words

import wolfpack
from wolfpack import Serial, Threads
from wolfpack.engines.threads import count_cores
from wolfpack.plotting import BLUE, GREEN, GREY, ORANGE, RED

BCFW, SERVER, MERGE = "BCFW", "AP-BCFW", "merge"
# How often each subproblem is solved. Ours takes 1 us and the authors' about 100 us: 50
# to 150 times ours is theirs once, 500 to 1500 times theirs 5 to 15 times (Figure 2d).
ONCE, HARD, HARDER, HARDEST = (1, 1), (5, 15), (50, 150), (500, 1500)
COST = {
    ONCE: "solved once (1 µs)",
    HARD: "solved 5-15 times",
    HARDER: "solved 50-150 times",
    HARDEST: "solved 500-1500 times",
}
LEVELS = 10.0 ** (-np.arange(1, 16) / 5)  # five a decade, 0.63 to 0.001
SETTING = ("alpha", "repeats", "algorithm", "workers", "batch")  # of one run
# An entrant is stopped after this many times the seconds of BCFW.
PATIENCE = 4.0
MORE = 5.0  # PATIENCE is multiplied by this in fast mode, where cores may be busy


class Entrant(NamedTuple):
    """One line of a figure; batch 0 is what the engine finds best."""

    algorithm: str
    alpha: float
    repeats: tuple[int, int]
    workers: int
    batch: int
    goal: float

    def engine(self) -> Serial | Threads:
        """Return the engine that runs it."""
        if self.algorithm == BCFW:
            once = self.repeats == ONCE
            return Serial() if once else Threads(1, oracle_repeats=self.repeats)
        mode = "server" if self.algorithm == SERVER else "merge"
        return Threads(self.workers, mode, oracle_repeats=self.repeats)


def teams(fast: bool, helpers: int = 0) -> list[int]:
    """Return numbers of workers: powers of two up to the cores, less the helpers."""
    most = max(2, count_cores() - helpers)
    return [T for T in (1, 2, 4, 8, 12) if most > T and not (fast and T > 1)] + [most]


def measure(
    entrants: Sequence[Entrant],
    fast: bool,
    levels: Iterable[float],
    seconds: float,
    tell: Callable[[str], None],
) -> list[Row]:
    """Run all with one seed, then all with the next while there is time."""
    folds = FIRST if fast else ALL
    tasks = {alpha: words(alpha, folds) for alpha in {e.alpha for e in entrants}}
    for task in tasks.values():
        warm(task)
    rows, limits, budget = [], {}, Budget(seconds)
    for seed in range(1 if fast else 3):
        for entrant in entrants:
            if seed > 0 and budget.is_spent():
                return rows
            tell(f"seed {seed}: {entrant.algorithm}, {entrant.workers} workers")
            case = entrant.alpha, entrant.repeats
            task = tasks[entrant.alpha]
            found = run(task, entrant, seed, levels, limits.get(case, math.inf))
            if entrant.algorithm == BCFW:
                patience = PATIENCE * (MORE if fast else 1.0)
                limits[case] = patience * max(row["seconds"] for row in found)
            rows += found
    return rows


def warm(task: Task) -> None:
    """Compile, or load, and wake the cores, before any clock runs."""
    for engine in (Serial(), Threads(2), Threads(2, "server")):
        wolfpack.solve(
            task.problem, engine=engine, accelerate=False, tol=0, max_seconds=0.05
        )


def run(
    task: Task, entrant: Entrant, seed: int, levels: Iterable[float], limit: float
) -> list[Row]:
    """Return when f - f* fell to each level, down to the entrant's goal."""

    def enough(event) -> bool:
        arrived = event.row.objective - task.best <= entrant.goal
        return arrived or event.row.seconds > limit

    result = wolfpack.solve(
        task.problem,
        accelerate=False,
        engine=entrant.engine(),
        batch_size=entrant.batch or None,
        tol=0,
        max_epochs=math.inf,
        max_seconds=60,
        check_every=0.5,
        callback=enough,
        rng=seed,
    )
    rows = []
    for level in levels:
        when = reached(result.trace, task.best, level)
        if level >= entrant.goal * 0.999 and when is not None:
            rows.append(
                {
                    "data": task.name,
                    "algorithm": entrant.algorithm,
                    "alpha": entrant.alpha,
                    "repeats": entrant.repeats[1],
                    "workers": entrant.workers,
                    "batch": entrant.batch,
                    "seed": seed,
                    "level": float(level),
                    "seconds": when[0],
                    "passes": when[1],
                }
            )
    return rows


def reached(trace, best: float, level: float) -> tuple[float, float] | None:
    """Return the seconds and passes at which f - f* was at `level`.

    Between two checks its logarithm is taken to fall evenly.
    """
    heights = [max(row.objective - best, 1e-12) for row in trace]
    below = next((k for k, height in enumerate(heights) if height <= level), None)
    if not below:  # the level was never reached, or held from the start
        return None
    row = trace[below]
    before, high, low = trace[below - 1], heights[below - 1], heights[below]
    share = math.log(high / level) / math.log(high / low)
    return (
        before.seconds + share * (row.seconds - before.seconds),
        before.epoch + share * (row.epoch - before.epoch),
    )


def times(rows: Iterable[Row]) -> dict[tuple, dict[float, list[float]]]:
    """Return the seconds of all seeds, by (algorithm, workers, batch) and level."""
    found: dict[tuple, dict[float, list[float]]] = {}
    for row in rows:
        key = row["algorithm"], row["workers"], row["batch"]
        found.setdefault(key, {}).setdefault(row["level"], []).append(row["seconds"])
    return found


def panels(rows: Sequence[Row]) -> list[tuple[tuple[float, int], list[Row]]]:
    """Return the rows of each (alpha, repeats), cheap oracles left, small alpha up."""
    cases: dict[tuple[float, int], list[Row]] = {}
    for row in rows:
        cases.setdefault((row["alpha"], row["repeats"]), []).append(row)
    return sorted(cases.items())


def new_axes(rows: Sequence[Row], width: float = 4.2, height: float = 2.9):
    """Return a figure, its axes, and the axes of each panel with its rows."""
    import matplotlib.pyplot as plt

    cases = panels(rows)
    shape = len({alpha for (alpha, _), _ in cases}), len({m for (_, m), _ in cases})
    if shape[0] * shape[1] != len(cases) or shape[1] == 1:
        shape = -(-len(cases) // 2), min(2, len(cases))
    figure, axes = plt.subplots(
        *shape,
        figsize=(width * shape[1], height * shape[0] + 0.6),
        layout="constrained",
        squeeze=False,
    )
    for ax, (case, _) in zip(axes.ravel(), cases, strict=False):
        ax.set_title(title(case))
    for ax in axes.ravel()[len(cases) :]:
        ax.set_axis_off()
    return figure, axes, [*zip(axes.ravel(), cases, strict=False)]


def title(case: tuple[float, int]) -> str:
    """Return the title of a panel."""
    cost = {most: text for (_, most), text in COST.items()}[case[1]]
    return f"λ = {case[0]:g}, each subproblem {cost}"


def draw_curve(ax, by_level: dict[float, list[float]], **style) -> None:
    """Draw suboptimality against seconds: the median of the seeds, and their range."""
    levels = sorted(by_level, reverse=True)
    middle = [float(np.median(by_level[level])) for level in levels]
    ax.plot(middle, levels, **style)
    low, high = ([f(by_level[level]) for level in levels] for f in (min, max))
    ax.fill_betweenx(levels, low, high, color=style["color"], alpha=0.2, linewidth=0)


def finish_curves(figure, axes) -> None:
    """Label axes with seconds along, and put one legend beneath all."""
    for ax in np.ravel(axes):
        ax.set_yscale("log")
        ax.set_xlim(left=0)
        ax.grid(alpha=0.3)
        ax.set_xlabel("time spent on updates (seconds)")
    for ax in np.atleast_2d(axes)[:, 0]:
        ax.set_ylabel("primal suboptimality  f(x) - f*")
    legend_beneath(figure, axes)


def legend_beneath(figure, axes, columns: int = 4) -> None:
    """Put one legend under all axes, where it covers nothing."""
    handles = {}
    for ax in np.ravel(axes):
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=columns,
        handlelength=3,
        frameon=False,
    )


SHADES = (BLUE, GREEN, ORANGE, RED, "#CC79A7", "#56B4E9")
STYLE = {BCFW: GREY, SERVER: BLUE, MERGE: RED}
