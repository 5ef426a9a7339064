"""Time to a gap with `accelerate="auto"`, against plain steps: never much worse?

    python benchmarks/never_worse.py [--rounds 5] [--seconds 20]

The problems of the tests, and every data set at hand, to relative gaps from 1e-1 to
1e-4, with `Serial` and gap sampling, and group fused lasso with sweeps and exact steps;
and sequences of random labels, which are hard, few and many, with 1 and 8 threads.
Plain and accelerated runs take turns in one process. Prints the medians of the seconds
on the wall, their ratio, and the passes; the last line is the worst ratio.
"""

import argparse
import gzip
import os
import sys
from pathlib import Path
from statistics import median

import numpy as np

import wolfpack
from wolfpack import datasets

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


def problems():
    """Yield names, problems and options."""
    import bits

    gap, sweep = {"sampling": "gap"}, {"sampling": "cyclic", "step": "exact"}
    yield "dates", bits.dates(), gap
    yield "text", bits.text(), gap
    yield "classes", bits.classes(), gap
    yield "lasso 60", bits.lasso(), sweep
    for n in (200, 2000):
        Y, _, _ = wolfpack.make_piecewise(n=n, d=4, rng=0)
        for alpha in (0.5, 3.0):
            yield f"lasso {n} {alpha}", wolfpack.group_fused_lasso(Y, alpha), sweep
    train, _ = wolfpack.load_dates(n_train=1000)
    for alpha in (1.0, 0.01):
        yield f"dates {alpha}", wolfpack.chain_ssvm(train.X, train.y, alpha), gap
    for name, load in (
        ("fold 0", lambda: datasets.load_ocr(folds=[0])),
        ("ocr", datasets.load_ocr),
        ("conll", datasets.load_conll2000),
    ):
        data = load()
        for alpha in (1.0, 0.1, 0.01, 0.001):
            yield f"{name} {alpha}", wolfpack.chain_ssvm(data.X, data.y, alpha), gap
    folder = Path(os.environ["WOLFPACK_DATA"]) / "letter"
    with gzip.open(folder / "letter_20000x16.csv.gz", "rt") as lines:
        rows = [line.strip().split(",") for line in lines]
    X, y = np.array([row[1:] for row in rows], float), [row[0] for row in rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for alpha in (1e-2, 1e-3, 1e-4):
        yield f"letter {alpha}", wolfpack.multiclass_svm(X, y, alpha), gap

    for n in (20, 60, 240, 1000):
        rng = np.random.default_rng(0)
        X = [rng.normal(size=(8, 20)) for _ in range(n)]
        y = [rng.integers(5, size=8) for _ in range(n)]
        for alpha in (1e-1, 1e-2, 1e-3, 1e-4):
            problem = wolfpack.chain_ssvm(X, y, alpha)
            for n_threads in (1, 8):
                engine = wolfpack.Threads(n_threads) if n_threads > 1 else None
                how = {**gap, "engine": engine or wolfpack.Serial()}
                yield f"random {n} {alpha:g} T={n_threads}", problem, how


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of a run")
    parser.add_argument("--only", default="", help="part of a name")
    asked = parser.parse_args()
    worst = 0.0
    for name, problem, how in problems():
        if asked.only not in name:
            continue
        how = {"max_epochs": 1e9, "max_seconds": asked.seconds, **how}
        for tol in (1e-1, 1e-2, 1e-3, 1e-4):
            found = {False: [], "auto": []}
            for seed in range(asked.rounds):
                for way, rows in found.items():
                    result = wolfpack.solve(
                        problem, tol=tol, accelerate=way, rng=seed, **how
                    )
                    rows.append((result.wall_seconds, result.epochs))
            (plain, before), (fast, after) = (
                (median(row[0] for row in rows), median(row[1] for row in rows))
                for rows in found.values()
            )
            worst = max(worst, fast / plain)
            print(
                f"{name:20s} {tol:7.0e} plain {plain:8.4f} s {before:7.1f} passes, "
                f"auto {fast:8.4f} s {after:7.1f} passes, ratio {fast / plain:.2f}",
                flush=True,
            )
            if plain >= asked.seconds:
                break
    print(f"worst ratio {worst:.2f}")


if __name__ == "__main__":
    main()
