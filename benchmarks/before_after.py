"""Speed before and after a change: two trees take turns in processes of their own.

    git worktree add ../before COMMIT
    python benchmarks/before_after.py ../before --rounds 5 --workers 1,8,16

Prints, and writes to results/before_after.csv, the medians of steps per second and of
the seconds to a relative gap of 0.01, and the ratio of both trees. Only the ratios mean
something where others use the machine. The first round compiles, and does not count.
"""

import argparse
import csv
import inspect
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()


def measure(seconds, workers):
    """Be one process of one tree: yield a case, its steps a second, and its time."""
    import wolfpack
    from wolfpack import Serial, Threads, solve
    from wolfpack.datasets import DatasetError, load_conll2000, load_ocr

    # Steps are compared, not outer loops.
    has_outer = "accelerate" in inspect.signature(solve).parameters
    plain = {"accelerate": False} if has_outer else {}

    def case(problem, engine, tol):
        how = {"engine": engine, "rng": 0, "max_epochs": 1e6, **plain}
        free = solve(problem, tol=0, max_seconds=seconds, check_every=1e9, **how)
        wall = (
            solve(problem, tol=tol, max_seconds=60, **how).wall_seconds if tol else None
        )
        return free.n_oracle_calls / free.seconds, wall

    Y, _, _ = wolfpack.make_piecewise(n=1000, d=4)
    yield "lasso Serial", *case(wolfpack.group_fused_lasso(Y, 0.5), Serial(), None)
    loaders = {"ocr": lambda: load_ocr(folds=range(1, 10)), "conll": load_conll2000}
    for name, load in loaders.items():
        try:
            words = load()
        except DatasetError:
            continue
        problem = wolfpack.chain_ssvm(words.X, words.y, 0.01)
        yield f"{name} Serial", *case(problem, Serial(), 0.01)
        for T in workers:
            yield f"{name} T={T}", *case(problem, Threads(T), 0.01)


def run(tree, asked):
    """Run one process of a tree; return its rows."""
    cache = HERE.parents[1] / ".before_after" / Path(tree).resolve().name
    more = {
        "PYTHONPATH": str(Path(tree).resolve() / "src"),
        "WOLFPACK_CACHE": str(cache),
    }
    words = [str(HERE), str(tree), "--child", "--seconds", str(asked.seconds)]
    done = subprocess.run(
        [sys.executable, *words, "--workers", asked.workers],
        env=os.environ | more, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", help="the other tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--workers", default="")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        workers = [int(one) for one in asked.workers.split(",") if one]
        print(json.dumps([*measure(asked.seconds, workers)]))
        return
    trees, found = {"before": asked.before, "after": HERE.parents[1]}, {}
    for turn in range(asked.rounds + 1):
        for name in sorted(trees, reverse=bool(turn % 2)):
            for case, *numbers in run(trees[name], asked):
                if turn:
                    found.setdefault(case, {}).setdefault(name, []).append(numbers)
    with (HERE.parent / "results" / "before_after.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["case", "what", "before", "after", "ratio", "rounds"])
        for case, by in found.items():
            for at, what in enumerate(("steps per second", "seconds to gap 0.01")):
                if by["before"][0][at] is None:
                    continue
                one, two = (
                    statistics.median(row[at] for row in by[name]) for name in trees
                )
                row = [case, what, f"{one:.6g}", f"{two:.6g}", f"{two / one:.3f}"]
                table.writerow([*row, asked.rounds])
                print(*row, sep="\t")


if __name__ == "__main__":
    main()
