"""Group fused lasso on long signals: steps a second by the order of the blocks.

    python benchmarks/sweeps.py [--n 10000,100000,1000000] [--workers 1,2,4,8,16]
        [--step exact,line] [--rounds 5] [--seconds 1] [--out FILE.csv]

One row for a size n, a step rule and a sampling: steps a second with `Serial`, with
`Threads` of each number of workers, and ratios within the run: of `Serial` to its
uniform sampling, and of the most threads to one worker and to `Serial`. Each figure is
the median over rounds, in which all cases of a size take turns, so that a busy moment
meets all alike. Checks and compiling are in no number. `passes` is the number of passes
of `Serial` to relative gap 1e-3.
"""

import argparse
import csv
import itertools
from pathlib import Path
from statistics import median

import wolfpack
from wolfpack import Serial, Threads, solve

SAMPLINGS = ("uniform", "permutation", "cyclic")
ROWS_PER_SEGMENT = 200
FEW = 100_000  # passes are counted up to this size: more take minutes


def rate(problem, engine, step, sampling, epochs, seed) -> float:
    """Return steps a second of one run, without its certificates."""
    result = solve(
        problem, engine=engine, step=step, sampling=sampling, tol=0, rng=seed,
        max_epochs=epochs, check_every=1e9, accelerate=False,
    )  # fmt: skip
    return result.n_oracle_calls / result.seconds


def passes(problem, step, sampling) -> float:
    """Return the passes of one thread to relative gap 1e-3."""
    how = {"step": step, "sampling": sampling, "tol": 1e-3, "check_every": 1.0}
    how["accelerate"] = False
    return solve(problem, max_epochs=1000, rng=0, **how).epochs


def numbers(text: str) -> list[int]:
    """Read 1,2,4."""
    return [int(float(part)) for part in text.split(",")]


def measure(n: int, args, engines: dict) -> list[dict]:
    """Return the rows of one size."""
    Y, _, _ = wolfpack.make_piecewise(
        n=n, d=args.d, n_segments=max(2, n // ROWS_PER_SEGMENT), noise=0.5
    )
    problem = wolfpack.group_fused_lasso(Y, args.alpha)
    cases = list(itertools.product(args.step.split(","), SAMPLINGS))
    epochs, rates = {}, {}
    for case, name in itertools.product(cases, engines):
        rate(problem, engines[name], *case, 1, 0)  # compile, and touch the memory
        speed = rate(problem, engines[name], *case, 2, 0)
        epochs[case, name] = max(2, round(args.seconds * speed / n))
        rates[case, name] = []
    for seed in range(args.rounds):
        for key, found in rates.items():
            case, name = key
            found.append(rate(problem, engines[name], *case, epochs[key], seed))
    rows = []
    for step, sampling in cases:
        cells = {name: median(rates[(step, sampling), name]) for name in engines}
        base = median(rates[(step, "uniform"), "Serial"])
        row = {"n": n, "step": step, "sampling": sampling}
        row |= {name: 1e-6 * speed for name, speed in cells.items()}
        row["over uniform"] = cells["Serial"] / base
        one, most = list(cells)[1], list(cells)[-1]
        row["over T = 1"] = cells[most] / cells[one]
        row["over Serial"] = cells[most] / cells["Serial"]
        row["passes"] = passes(problem, step, sampling) if n <= FEW else "-"
        rows.append(row)
    return rows


def show(row: dict, head: bool) -> None:
    """Print a row of the table, and its head before the first."""
    if head:
        print("million steps a second")
        print(" ".join(f"{name:>12}" for name in row))
    cells = (f"{x:12.2f}" if isinstance(x, float) else f"{x:>12}" for x in row.values())
    print(" ".join(cells), flush=True)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=numbers, default=[10**4, 10**5, 10**6])
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--step", default="exact,line")
    parser.add_argument("--d", type=int, default=4)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one run, about")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    workers = sorted({1, *args.workers})
    engines = {"Serial": Serial()} | {f"T = {T}": Threads(T) for T in workers}
    table: list[dict] = []
    for n in args.n:
        for row in measure(n, args, engines):
            show(row, not table)
            table.append(row)
    if args.out:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    large = [row for row in table if row["sampling"] == "cyclic" and row["n"] >= 10**6]
    for row in large:
        print(
            f"n = {row['n']}, {row['step']}: sweeps make {row['over uniform']:.1f} "
            f"times the steps of uniform sampling on one thread, and {workers[-1]} "
            f"threads {row['over Serial']:.1f} times those of one."
        )


if __name__ == "__main__":
    main()
