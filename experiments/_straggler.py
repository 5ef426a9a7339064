"""Figures 3a and 3b: seconds a pass where workers lose what they solved.

Each worker reports an answer with its own probability. Reported updates count alike,
and an effective pass is n of them.
"""

import math
from collections.abc import Callable

import numpy as np
from _common import Budget, Row
from _problems import ALL, FIRST, words
from _race import HARDER, legend_beneath

import wolfpack
from wolfpack import Sync, Threads
from wolfpack.engines.threads import count_cores
from wolfpack.plotting import BLUE, ORANGE, RED

ASYNC, MERGE, SYNC = "AP-BCFW", "merge", "SP-BCFW"
COLOUR = {ASYNC: BLUE, MERGE: RED, SYNC: ORANGE}
MARK = {ASYNC: "o", MERGE: "s", SYNC: "^"}
NAME = {ASYNC: "AP-BCFW (asynchronous)", MERGE: "merge (ours, asynchronous)",
        SYNC: "SP-BCFW (synchronous)"}  # fmt: skip
# Blocks a worker solves between two meetings of SP-BCFW, so that meeting costs little.
BLOCKS = 10
ALPHA = 0.01


def team_size() -> int:
    """Return T: 14 as in the paper where there is a core for each and the server."""
    return 14 if count_cores() >= 15 else max(2, count_cores() - 1)


def measure(
    cases: dict[float, list[float]],
    fast: bool,
    seconds: float,
    tell: Callable[[str], None],
) -> list[Row]:
    """Time passes with the probabilities of each case, by all engines and seeds."""
    task = words(ALPHA, FIRST if fast else ALL)
    T = team_size()
    for engine in (Threads(2), Threads(2, "server"), Sync(2)):
        wolfpack.solve(
            task.problem, engine=engine, accelerate=False, tol=0, max_seconds=0.05
        )
    rows, budget = [], Budget(seconds)
    spell = 0.3 if fast else 0.25
    for seed in range(1 if fast else 5):
        for x, p in cases.items():
            for name in (ASYNC, MERGE, SYNC):
                if seed > 0 and budget.is_spent():
                    return rows
                tell(f"seed {seed}: {name}, {x:g}")
                pace = seconds_per_pass(task.problem, name, T, p, spell, seed)
                rows.append(
                    {
                        "data": task.name,
                        "algorithm": name,
                        "workers": T,
                        "x": x,
                        "seed": seed,
                        "seconds_per_pass": pace,
                        "fair": T / sum(p),
                        "slowest": 1 / min(p),
                    }
                )
    return rows


def seconds_per_pass(problem, name, T, p, spell, seed) -> float:
    """Run for a while, with no check between the first and the last."""
    settings = {"oracle_repeats": HARDER, "return_probability": tuple(p)}
    engine = {
        ASYNC: lambda: Threads(T, "server", **settings),
        MERGE: lambda: Threads(T, **settings),
        SYNC: lambda: Sync(T, **settings),
    }[name]()
    tau = BLOCKS * T
    result = wolfpack.solve(
        problem,
        accelerate=False,
        engine=engine,
        batch_size=tau,
        tol=0,
        max_epochs=math.inf,
        max_seconds=spell,
        check_every=1e9,
        rng=seed,
    )
    reported = result.n_oracle_calls if name == MERGE else result.n_updates * tau
    assert reported > 0, f"{name} made no update in {spell} s"
    return result.seconds / (reported / problem.n_blocks)


def slowdown(rows: list[Row], name: str) -> dict[float, tuple[float, float, float]]:
    """Return mean, least and most seconds a pass of each x, over those of x = 1."""
    mine = [row for row in rows if row["algorithm"] == name]
    whole = np.mean([row["seconds_per_pass"] for row in mine if row["x"] == 1])
    found = {}
    for x in dict.fromkeys(row["x"] for row in mine):
        paces = np.array([row["seconds_per_pass"] for row in mine if row["x"] == x])
        found[x] = tuple(float(f(paces) / whole) for f in (np.mean, np.min, np.max))
    return found


def reference(rows: list[Row], name: str) -> dict[float, float]:
    """Return what theory says of each x: `fair` or `slowest`."""
    return {row["x"]: row[name] for row in rows}


def draw(rows: list[Row], along, label: str):
    """Draw slow-downs against `along(x)`, everything and the asynchronous ones."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    for ax, names in zip(axes, (NAME, (ASYNC, MERGE)), strict=True):
        for name in names:
            found = slowdown(rows, name)
            mean, low, high = np.array([*found.values()]).T
            ax.errorbar(
                [along(x) for x in found],
                mean,
                yerr=[mean - low, high - mean],
                fmt=f"{MARK[name]}-",
                ms=4,
                capsize=2.5,
                color=COLOUR[name],
                label=NAME[name],
            )
        fair = reference(rows, "fair")
        text = "lost work alone, T / Σ p"
        spots = [along(x) for x in fair]
        ax.plot(spots, fair.values(), ":", color="#555555", label=text)
        ax.set_xlabel(label)
        ax.grid(alpha=0.3)
    slowest = reference(rows, "slowest")
    spots = [along(x) for x in slowest]
    text = "the slowest worker, 1 / min p"
    axes[0].plot(spots, slowest.values(), "--", color="#999999", lw=1, label=text)
    axes[0].set_ylabel("time per effective pass,\nrelative to no straggler")
    axes[0].set_title("all")
    axes[1].set_title("asynchronous only")
    for ax in axes:
        ax.set_ylim(bottom=0)
    figure.suptitle(f"T = {rows[0]['workers']} workers")
    legend_beneath(figure, axes, columns=3)
    return figure
