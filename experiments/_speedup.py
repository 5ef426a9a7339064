"""Speed-up over single-threaded BCFW, for the best minibatch of each T (Figure 2)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from _common import Row, runs
from _race import (
    BCFW,
    HARDEST,
    MERGE,
    SERVER,
    SETTING,
    STYLE,
    Entrant,
    legend_beneath,
    new_axes,
    panels,
    teams,
    times,
)  # fmt: skip

Times = dict[tuple, dict[float, list[float]]]


class Speedup(NamedTuple):
    """Of one algorithm, T and level: the median of the seeds, their range, and tau."""

    workers: int
    ratio: float
    low: float
    high: float
    batch: int


def entrants(cases: dict, fast: bool, multiples: Sequence[int]) -> list[Entrant]:
    """Return BCFW, merge, and Algorithm 2 with some batch sizes, for each T."""
    found = []
    for (alpha, repeats), goals in cases.items():
        case, goal = (alpha, repeats), max(goals) if fast else min(goals)
        found.append(Entrant(BCFW, *case, 1, 0, goal))
        found += [Entrant(MERGE, *case, T, 0, goal) for T in teams(fast)]
        found += [
            Entrant(SERVER, *case, T, multiple * T, goal)
            for T in teams(fast, helpers=1)
            for multiple in (multiples if repeats != HARDEST else (1,))
        ]
    return found


def best_batch(
    found: dict[tuple, dict[float, list[float]]],
    algorithm: str,
    workers: int,
    level: float,
) -> tuple[int, list[float]] | None:
    """Return the batch that is first at the level, and its seconds."""
    arrived = [
        (float(np.median(by_level[level])), key[2], by_level[level])
        for key, by_level in found.items()
        if key[:2] == (algorithm, workers) and level in by_level
    ]
    return min(arrived)[1:] if arrived else None


def speedups(rows: Sequence[Row], algorithm: str, level: float) -> list[Speedup]:
    """Return the speed-up of each T that arrived."""
    found = times(rows)
    alone = best_batch(found, BCFW, 1, level)
    if alone is None:
        return []
    single = float(np.median(alone[1]))
    lines = []
    for T in sorted({key[1] for key in found if key[0] == algorithm}):
        best = best_batch(found, algorithm, T, level)
        if best is not None:
            batch, seconds = best
            ratio = single / float(np.median(seconds))
            low, high = single / max(seconds), single / min(seconds)
            lines.append(Speedup(T, ratio, low, high, batch))
    return lines


def levels(rows: Sequence[Row]) -> list[float]:
    """Return the levels that BCFW reached, the most generous first."""
    mine = {row["level"] for row in rows if row["algorithm"] == BCFW}
    return sorted(mine, reverse=True)


def draw_speedups(rows: Sequence[Row]):
    """Draw speed-up against T: a colour an algorithm, a dash a threshold."""
    dashes = dict(zip(levels(rows), ("-", "-.", "--", ":"), strict=False))
    figure, axes, cases = new_axes(rows, height=3.1)
    for ax, (_, some) in cases:
        most = max(row["workers"] for row in some)
        ax.plot([1, most], [1, most], color="#999999", lw=1, label="linear")
        for algorithm in (SERVER, MERGE):
            for level in levels(some):
                label = f"{algorithm}, to {level:.2g}"
                style = {"color": STYLE[algorithm], "ls": dashes[level]}
                lines = speedups(some, algorithm, level)
                _draw_line(ax, lines, style | {"label": label})
        ax.set_xlabel("workers T")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    for ax in axes[:, 0]:
        ax.set_ylabel("speed-up over BCFW, one thread")
    legend_beneath(figure, axes, columns=3)
    return figure


def _draw_line(ax, lines: list[Speedup], style: dict) -> None:
    workers = [line.workers for line in lines]
    ax.plot(workers, [line.ratio for line in lines], "o", ms=3.5, **style)
    ends = [line.low for line in lines], [line.high for line in lines]
    ax.fill_between(workers, *ends, color=style["color"], alpha=0.15, lw=0)


def in_words(rows: Sequence[Row], cost: dict[int, str]) -> str:
    """Return the best speed-up of each case, over all T and thresholds."""
    parts = []
    for (alpha, repeats), some in panels(rows):
        found = [_best(some, algorithm) for algorithm in (SERVER, MERGE)]
        best = " and ".join(filter(None, found)) or "no entrant arrived"
        parts.append(f"λ = {alpha:g}, oracle {cost[repeats]}: {best}")
    return (
        "Best speed-up over BCFW on one thread. "
        + "; ".join(parts)
        + ". "
        + runs(rows, *SETTING)
    )


def _best(rows: Sequence[Row], algorithm: str) -> str:
    found = [
        (line.ratio, line.workers, level)
        for level in levels(rows)
        for line in speedups(rows, algorithm, level)
    ]
    if not found:
        return ""
    ratio, workers, level = max(found)
    return f"{algorithm} {ratio:.1f} (T = {workers}, to {level:.2g})"
