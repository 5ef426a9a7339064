"""`batch_size="auto"` against the best fixed tau: ratios within one run.

    WOLFPACK_DATA=... python benchmarks/auto.py [--workers 1,4,16]
        [--modes merge,server] [--seconds 170] [--out FOLDER]

Seconds to gap 0.01 on the OCR words (alpha 1 and 0.01, and 1/n on the 626 words of
fold 0), on a group fused lasso of 10^4 rows and on 500 chains of 100 to 300 positions,
with the automatic tau and with T times 1, 4, 16 and 64. All of a case take turns, seed
by seed; a ratio is of medians. A run that takes three times as long as the best so far
is given up. With --out the rows go to auto.csv, and the machine's facts to
auto_machine.json beside it. Compiling is in no number. On two cores shared with other
programs, seconds of one run vary by a factor of 2: the ratios need a quiet machine.
"""

import argparse
import csv
import json
import math
import statistics
from pathlib import Path

from _book import say
from _threads_cases import Budget, machine, ocr, speech, warm

import wolfpack
from wolfpack import Threads
from wolfpack.datasets import make_piecewise
from wolfpack.engines.threads import count_cores

SIZES = (1, 4, 16, 64)  # blocks a worker
TOL, SEEDS, LONGEST, GIVE_UP = 0.01, 5, 12.0, 3.0
COLUMNS = (
    "case",
    "mode",
    "workers",
    "batch_size",
    "runs",
    "seconds",
    "passes",
    "ratio",
)


def cases():
    """Yield names, problems, and their parts of the time."""
    yield "ocr, alpha 1", ocr(1.0), 1
    yield "ocr, alpha 0.01", ocr(0.01), 2
    yield "fold 0, alpha 1/n", ocr(1 / 626, [0]), 6
    noisy, _, _ = make_piecewise(10_000, 10)
    yield "fused lasso", wolfpack.group_fused_lasso(noisy, 0.5), 1
    yield "long chains", speech(500), 4


def race(problem, engine, budget: Budget):
    """Return seconds and passes of each tau, a list of runs each."""
    T, n = engine.size, problem.n_blocks
    entrants = ["auto", *(T * size for size in SIZES if T * size <= n)]
    runs = {tau: [] for tau in entrants}
    best = math.inf
    for seed in range(SEEDS):
        for tau in entrants:
            limit = min(LONGEST, GIVE_UP * best, budget.left)
            if limit < 1e-3:
                return runs
            result = wolfpack.solve(
                problem, accelerate=False,
                engine=engine, batch_size=tau, tol=TOL, max_epochs=math.inf,
                max_seconds=limit, rng=seed,
            )  # fmt: skip
            seconds = result.seconds if result.converged else math.inf
            best = min(best, result.wall_seconds if result.converged else math.inf)
            runs[tau].append((seconds, result.epochs))
    return runs


def rows(case: str, engine, runs):
    """Yield the rows of a table; `ratio` is over the best fixed tau."""
    medians = {
        tau: [statistics.median(column) for column in zip(*found, strict=True)]
        for tau, found in runs.items()
        if found
    }
    fixed = [found[0] for tau, found in medians.items() if tau != "auto"]
    best = min(fixed, default=math.nan)
    if math.isinf(best):
        best = math.nan  # no fixed tau reached the gap
    for tau, (seconds, passes) in medians.items():
        yield {
            "case": case, "mode": engine.mode, "workers": engine.size,
            "batch_size": tau, "runs": len(runs[tau]), "seconds": seconds,
            "passes": passes, "ratio": seconds / best,
        }  # fmt: skip


def line(row) -> str:
    """Return a row as text."""
    return (
        f"{row['case']:<18}{row['mode']:<8}{row['workers']:>7}{row['batch_size']:>11}"
        f"{row['runs']:>5}{row['seconds']:>9.3f}{row['passes']:>8.1f}{row['ratio']:>7.2f}"
    )


def numbers(text: str) -> list[int]:
    """Read 1,4,16."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="auto against the best fixed tau")
    parser.add_argument("--workers", type=numbers, default=None)
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["merge"])
    parser.add_argument("--seconds", type=float, default=170.0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    cores = count_cores()
    workers = asked.workers or sorted({1, min(4, cores), min(16, cores)})
    say(f"{cores} cores; " + " ".join(COLUMNS))
    problems, table = list(cases()), []
    parts = sum(part for *_, part in problems) * len(asked.modes) * len(workers)
    for case, problem, part in problems:
        share = asked.seconds * part / parts
        for mode in asked.modes:
            for T in workers:
                engine = Threads(T, mode)
                warm(problem, [engine])
                for row in rows(case, engine, race(problem, engine, Budget(share))):
                    table.append(row)
                    say(line(row))
    auto = [row for row in table if row["batch_size"] == "auto"]
    auto = [row for row in auto if not math.isnan(row["ratio"])]
    worst = max(auto, key=lambda row: row["ratio"])
    say(f"\nat most {worst['ratio']:.2f} times the best: {line(worst)}")
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        facts = json.dumps(machine(), indent=2) + "\n"
        (asked.out / "auto_machine.json").write_text(facts)
        with (asked.out / "auto.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
