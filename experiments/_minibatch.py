"""Figures 1a and 1b: how many times fewer updates of tau blocks lead to a threshold.

One thread moves tau blocks at once (`Serial`, `batch_size=tau`), so that nothing but
the minibatch is looked at. The speed-up is in updates: what tau workers would gain if
they spent no time on anything but subproblems.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from _common import Row, listed
from _problems import Task
from _race import SHADES

import wolfpack

F, PRIMAL = "f", "primal"


def measure(
    task: Task,
    batches: Iterable[int],
    levels: Sequence[float],
    seeds: int,
    tell: Callable[[str], None],
    about: Row,
    check_every: Callable[[int], float],
    max_epochs: float = 400.0,
    averaging: bool = False,
    step: str = "line",
) -> list[Row]:
    """Return after how many updates of each batch f, or the primal, is that near."""

    def enough(event) -> bool:
        return all(height(event.row) <= levels[-1] for height in heights.values())

    heights = {F: lambda row: row.objective - task.best}
    if averaging:  # lower_bound is that of the better of the last and the average
        heights[PRIMAL] = lambda row: task.best - row.lower_bound
    rows = []
    for batch in batches:
        tell(f"{', '.join(f'{k} {v}' for k, v in about.items())}, τ = {batch}")
        for seed in range(seeds):
            result = wolfpack.solve(
                task.problem,
                accelerate=False,
                batch_size=batch,
                averaging=averaging,
                step=step,
                tol=0,
                max_epochs=max_epochs,
                check_every=check_every(batch),
                callback=enough,
                rng=seed,
            )
            case = {"data": task.name, **about, "batch": batch, "seed": seed}
            for name, height in heights.items():
                for level in levels:
                    count = updates_to(result.trace, height, level)
                    if count is not None:
                        row = {"measure": name, "level": level, "updates": count}
                        rows.append(case | row)
    return rows


def updates_to(trace, height: Callable, level: float) -> float | None:
    """Return the updates at which `height` fell to `level`; its logarithm is linear."""
    seen = [max(height(row), 1e-15) for row in trace]
    below = next((k for k, h in enumerate(seen) if h <= level), None)
    if not below:
        return None
    high, low = seen[below - 1], seen[below]
    if trace[below].n_updates - trace[below - 1].n_updates == 1:
        return float(trace[below].n_updates)
    share = math.log(high / level) / math.log(high / low)
    first, last = trace[below - 1].n_updates, trace[below].n_updates
    return first + share * (last - first)


def speedups(rows: Iterable[Row]) -> dict[float, dict[int, tuple[float, float]]]:
    """Return mean and standard error of the speed-up, by level and batch.

    The ratio of mean updates; both means add to its error.
    """
    counts: dict[float, dict[int, list[float]]] = {}
    for row in rows:
        by_batch = counts.setdefault(row["level"], {})
        by_batch.setdefault(row["batch"], []).append(row["updates"])
    found = {}
    for level, by_batch in sorted(counts.items(), reverse=True):
        if 1 not in by_batch:
            continue
        one = np.array(by_batch[1])
        found[level] = {
            batch: _ratio(one, np.array(many))
            for batch, many in sorted(by_batch.items())
            if len(many) == len(one)  # a seed that did not arrive would bias the mean
        }
    return found


def _ratio(one: np.ndarray, many: np.ndarray) -> tuple[float, float]:
    if one.size == 1:
        return float(one[0] / many[0]), 0.0
    ratio = one.mean() / many.mean()
    errors = [x.std(ddof=1) / math.sqrt(x.size) / x.mean() for x in (one, many)]
    return float(ratio), float(ratio * math.hypot(*errors))


def in_words(found: dict[float, float]) -> str:
    """Return speed-ups and their thresholds: "46 and 33 (to 0.1 and 0.001)"."""
    numbers = [f"{ratio:.0f}" for ratio in found.values()]
    levels = [f"{level:g}" for level in found]
    return f"{listed(numbers)} (to {listed(levels)})"


def draw(panels: Sequence[tuple[str, list[Row]]], shape: tuple[int, int], name):
    """Draw a panel for each title and its rows; `name(level)` labels a line.

    Legends are up to the caller.
    """
    import matplotlib.pyplot as plt

    size = (4.2 if shape[1] < 3 else 3.2) * shape[1], 3.4 * shape[0]
    figure, axes = plt.subplots(
        *shape, figsize=size, layout="constrained", squeeze=False
    )
    for ax, (title, rows) in zip(axes.ravel(), panels, strict=True):
        taus = sorted({row["batch"] for row in rows})
        ax.plot(taus, taus, color="#999999", lw=1, label="linear")
        top = 1.0
        for colour, (level, line) in zip(SHADES, speedups(rows).items(), strict=False):
            top = max(top, *(ratio for ratio, _ in line.values()))
            mean, error = np.array([*line.values()]).T
            ax.plot([*line], mean, "o-", ms=3, color=colour, label=name(level))
            ax.fill_between(
                [*line], mean - error, mean + error, color=colour, alpha=0.2
            )
        ax.set_title(title)
        ax.set_xlabel("minibatch τ (blocks per update)")
        ax.set_ylim(0, min(taus[-1], 1.5 * top))
        ax.grid(alpha=0.3)
    for ax in axes[:, 0]:
        ax.set_ylabel("speed-up in updates over τ = 1")
    return figure
