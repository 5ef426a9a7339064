"""Seconds to a certified gap: before and after a change, plain and accelerated.

    git worktree add ../before COMMIT
    python benchmarks/time_to_gap.py --before ../before --seeds 3
    python benchmarks/time_to_gap.py --cases ocr-0.01 --workers 1,8,16 --plot gap.png

Each run has a process of its own, after one that compiles. Seconds are those of the
clock on the wall, with all checks; medians over seeds are printed, and written with the
machine's facts to results/time_to_gap.csv. `before` is the other tree with gap sampling
where its engine can, `plain` and `accelerated` are this one. A run that does not get
there within --limit seconds counts with that time, and is marked by the gap it reached.

The cases of `letter` end at the objective that LinearSVC reaches, with its own default
tolerance, and are checked every five passes for that. Accelerated, they make exact
steps on blocks that are vectors, as `MulticlassSVM` does unasked.
"""

import argparse
import csv
import gzip
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
# name: (problem, alpha, gap); alpha 0 stands for 1 / n. "letter" goes to the objective
# that LinearSVC reaches, "hard" solves each subproblem 50 to 150 times.
CASES = {
    "ocr-0.1": ("ocr", 0.1, 1e-3),
    "ocr-0.01": ("ocr", 0.01, 1e-3),
    "ocr-0.001": ("ocr", 0.001, 1e-3),
    "ocr-1/n-coarse": ("ocr", 0.0, 1e-2),
    "ocr-1/n": ("ocr", 0.0, 1e-3),
    "fold0-tight": ("fold0", 0.01, 1e-5),
    "conll-0.001": ("conll", 0.001, 1e-3),
    "conll-0.01": ("conll", 0.01, 1e-3),
    "letter-0.001": ("letter", 1e-3, None),
    "letter-0.0001": ("letter", 1e-4, None),
    "hard": ("hard", 0.01, 1e-2),
    "speech": ("speech", 0.0, 1e-2),
    "many": ("many", 0.01, 1e-2),
    "lasso": ("lasso", 0.5, 1e-3),
}
COLUMNS = ("case", "workers", "tree", "seconds", "passes", "checks", "gap", "status")


# One run, in a process of its own.


def letter():
    """Return X, standardised, and y."""
    folder = Path(os.environ["WOLFPACK_DATA"])
    with gzip.open(folder / "letter" / "letter_20000x16.csv.gz", "rt") as lines:
        rows = [line.strip().split(",") for line in lines]
    import numpy as np

    X = np.array([row[1:] for row in rows], float)
    y = np.unique([row[0] for row in rows], return_inverse=True)[1]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def svc(alpha):
    """Return the seconds that LinearSVC takes, and its objective."""
    import numpy as np
    from sklearn.svm import LinearSVC

    X, y = letter()
    how = {"multi_class": "crammer_singer", "fit_intercept": False}
    model = LinearSVC(C=1.0 / (alpha * len(X)), random_state=0, **how)
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    scores = X @ model.coef_.T
    loss = scores + 1.0
    loss[np.arange(len(y)), y] -= 1.0
    hinge = (loss.max(axis=1) - scores[np.arange(len(y)), y]).mean()
    return seconds, float(0.5 * alpha * np.square(model.coef_).sum() + hinge)


def make(kind, alpha, vectors=False):
    """Return a problem."""
    import wolfpack
    from wolfpack import datasets

    if kind == "letter":
        return wolfpack.multiclass_svm(*letter(), alpha, vectors=vectors)
    if kind == "lasso":
        return wolfpack.group_fused_lasso(
            wolfpack.make_piecewise(n=1000, d=4)[0], alpha
        )
    if kind in ("speech", "many"):
        from _threads_cases import speech

        return speech(4000) if kind == "speech" else many(alpha)
    folds = {"fold0": [0]}.get(kind)
    if kind == "conll":
        data = datasets.load_conll2000()
    else:
        data = datasets.load_ocr(**({"folds": folds} if folds else {}))
    return wolfpack.chain_ssvm(data.X, data.y, alpha or 1.0 / len(data.X))


def many(alpha):
    """Return the SVM of 100,000 short chains with 26 labels and 39 dense features."""
    import numpy as np

    import wolfpack

    rng = np.random.default_rng(0)
    lengths, means = rng.integers(5, 16, 100_000), rng.normal(size=(26, 39))
    y = [rng.integers(0, 26, length) for length in lengths]
    X = [means[labels] + 2.0 * rng.normal(size=(len(labels), 39)) for labels in y]
    return wolfpack.chain_ssvm(X, y, alpha)


def run(case, workers, tree, seed, limit):
    """Solve; return the row, with the trace."""
    import wolfpack

    kind, alpha, gap = CASES[case]
    is_exact = kind == "letter" and tree == "accelerated"
    problem, aim = make(kind, alpha, is_exact), None
    how = {"sampling": "gap", "step": "exact" if is_exact else "line"}
    if gap is None:
        svc_seconds, aim = svc(alpha)
        how["check_every"] = 5
    repeats = (50, 150) if kind == "hard" else (1, 1)
    engine = wolfpack.Serial()
    if workers > 1 or kind == "hard":
        engine = wolfpack.Threads(workers, oracle_repeats=repeats)
    if "accelerate" in inspect.signature(wolfpack.solve).parameters:
        how["accelerate"] = tree == "accelerated"

    def enough(event):
        return aim is not None and event.checked and -event.row.lower_bound <= aim

    goal = 0.0 if gap is None else gap / problem.scale
    how |= {"engine": engine, "rng": seed, "callback": enough, "max_epochs": 1e9}
    wolfpack.solve(problem, tol=1.0, max_seconds=0.05, **how)  # compiles
    result = wolfpack.solve(problem, tol=goal, max_seconds=limit, **how)
    row = {
        "case": case,
        "workers": workers,
        "tree": tree,
        "seconds": result.wall_seconds,
        "passes": result.epochs,
        "checks": len(result.trace),
        "gap": result.gap,
        "status": result.status.name,
        "trace": [(one.wall_seconds, one.gap) for one in result.trace],
    }
    return row if aim is None else row | {"peer": svc_seconds}


# The table.


def spawn(path, case, workers, tree, seed, limit):
    """Run a case in a process of its own; return its row."""
    cache = HERE.parents[1] / ".time_to_gap" / Path(path).resolve().name
    more = {
        "PYTHONPATH": os.pathsep.join(
            [str(Path(path).resolve() / "src"), os.environ.get("PYTHONPATH", "")]
        ),
        "WOLFPACK_CACHE": str(cache),
    }
    words = ["--child", case, str(workers), tree, str(seed), str(limit)]
    done = subprocess.run(
        [sys.executable, str(HERE), *words],
        env=os.environ | more, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def median(rows):
    """Return the row with the median time."""
    middle = statistics.median_low([row["seconds"] for row in rows])
    return next(row for row in rows if row["seconds"] == middle)


def plot(rows, path):
    """Draw gap against seconds, a curve a tree and number of workers."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(6, 4))
    styles = {"before": ":", "plain": "--", "accelerated": "-"}
    for row in rows:
        points = [(x, y) for x, y in row["trace"] if x > 0 and y > 0]
        several = "s" if row["workers"] > 1 else ""
        name = f"{row['tree']}, {row['workers']} thread{several}"
        color = {1: "tab:blue"}.get(row["workers"], "tab:orange")
        ax.loglog(
            *zip(*points, strict=True), styles[row["tree"]], color=color, label=name
        )
    ax.set(xlabel="seconds, with checks", ylabel="certified gap")
    ax.legend(loc="upper right")
    ax.figure.savefig(path, dpi=150, bbox_inches="tight")


def main():
    if sys.argv[1:2] == ["--child"]:
        case, workers, tree, seed, limit = sys.argv[2:]
        print(json.dumps(run(case, int(workers), tree, int(seed), float(limit))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="the other tree")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--workers", default="1")
    parser.add_argument("--trees", default="before,plain,accelerated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seeds-before", type=int, help="of the other tree")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--plot", help="draw the curves of the first case here")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results")
    asked = parser.parse_args()
    from _threads_cases import machine

    trees = [one for one in asked.trees.split(",") if one != "before" or asked.before]
    drawn, first = [], asked.cases.split(",")[0]
    with (asked.out / "time_to_gap.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*COLUMNS, "ratio", "peer"])
        for case in asked.cases.split(","):
            for workers in map(int, asked.workers.split(",")):
                base = None
                for tree in trees:
                    path = asked.before if tree == "before" else HERE.parents[1]
                    seeds = range(asked.seeds)
                    if tree == "before":
                        seeds = range(asked.seeds_before or asked.seeds)
                    rows = [
                        spawn(path, case, workers, tree, s, asked.limit) for s in seeds
                    ]
                    row = median(rows)
                    drawn += [row] if case == first else []
                    base = base or row["seconds"]
                    cells = [row[name] for name in COLUMNS]
                    cells = [f"{x:.4g}" if isinstance(x, float) else x for x in cells]
                    peer = f"{row['peer']:.3f}" if "peer" in row else ""
                    cells += [f"{base / row['seconds']:.2f}", peer]
                    table.writerow(cells)
                    file.flush()
                    print(*cells, sep="\t", flush=True)
    facts = json.dumps(machine(), indent=2)
    (asked.out / "time_to_gap_machine.json").write_text(facts + "\n")
    if asked.plot:
        plot(drawn, asked.plot)


if __name__ == "__main__":
    main()
