"""Long hard sequences: what a pass costs when x is labellings, and when it is parts.

    python benchmarks/long_chains.py [--threads 1] [--seconds 90]

Sequences are made up: normal features with a weak signal, labels that follow each
other by a random table. Each case is solved to gaps of 0.01 and 0.001 (not relative
ones) with both stores; CPU seconds with checks, milliseconds per pass around passes 10,
100 and 300, and the state as it is saved beside the data. Writes
results/long_chains.csv.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from _book import Book
from _threads_cases import machine

import wolfpack

# Sequences, positions, labels, features, size of the signal.
CASES = {
    "2000 x 8": (2000, 8, 26, 64, 0.4),
    "2000 x 24": (2000, 24, 26, 64, 0.35),
    "1000 x 48": (1000, 48, 26, 64, 0.35),
    "1000 x 100": (1000, 100, 26, 64, 0.35),
    "300 x 200": (300, 200, 50, 128, 0.35),
}
ALPHA, GOALS, AROUND = 1e-3, (1e-2, 1e-3), (10, 100, 300)
FORMATS = {
    "case": "11s", "store": "6s", "threads": "7d", "goal": "6.3f", "status": "10s",
    "passes": "6.0f", "cpu": "6.1f", "at_10": "6.1f", "at_100": "6.1f",
    "at_300": "6.1f", "state_mb": "8.1f", "data_mb": "7.1f",
}  # fmt: skip


def make(n, length, n_labels, p, signal):
    """Return features and labels."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_labels, p))
    follows = rng.normal(size=(n_labels, n_labels))
    y = rng.integers(n_labels, size=(n, length))
    for t in range(1, length):
        scores = follows[y[:, t - 1]] + rng.gumbel(size=(n, n_labels))
        y[:, t] = scores.argmax(axis=1)
    X = rng.normal(size=(n, length, p)) + signal * centres[y]
    return list((X / np.sqrt(p)).astype(np.float32)), list(y)


def measure(problem, engine, goal, seconds):
    """Solve to a goal; return what the table shows."""
    seen, begin = [], time.process_time()

    def note(event):
        seen.append((event.row.epoch, time.process_time() - begin))

    result = wolfpack.solve(
        problem, engine=engine, tol=goal / problem.scale, accelerate=True, rng=0,
        max_epochs=1e4, max_seconds=seconds, callback=note,
    )  # fmt: skip
    cpu, (epochs, spent) = time.process_time() - begin, np.transpose(seen)
    row = {"status": result.status.name, "passes": result.epochs, "cpu": cpu}
    for around in AROUND:  # the ten passes or so from there on
        first, last = np.searchsorted(epochs, [around, around + 10])
        row[f"at_{around}"] = np.nan
        if last < len(epochs) and first < last:
            made = epochs[last] - epochs[first]
            row[f"at_{around}"] = 1e3 * (spent[last] - spent[first]) / made
    return row | {"goal": goal, "state_mb": result.state.nbytes / 1e6}


def main():
    """Measure all cases, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=90.0)
    asked = parser.parse_args()
    folder = Path(__file__).parent / "results"
    book = Book(folder, "long_chains", FORMATS, machine())
    book.begin("long chains", "Long hard sequences", FORMATS)
    engine = wolfpack.Serial()
    if asked.threads > 1:
        engine = wolfpack.Threads(asked.threads)
    for case in asked.cases.split(","):
        X, y = make(*CASES[case])
        size = sum(x.nbytes for x in X) / 1e6
        for store in ("atoms", "parts"):
            problem = wolfpack.chain_ssvm(X, y, ALPHA, keeps=store)
            wolfpack.solve(problem, engine=engine, max_epochs=1, accelerate=True)
            for goal in GOALS:
                row = measure(problem, engine, goal, asked.seconds)
                about = {"case": case, "store": store, "threads": asked.threads}
                book.add(**about, **row, data_mb=size)


if __name__ == "__main__":
    main()
