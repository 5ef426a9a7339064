"""Many short signals: milliseconds per fit, by how the number of points is chosen.

python benchmarks/short_signals.py [--rows 300] [--signals 400]

The bar is 1.2 ms: 100,000 signals of 300 rows in two minutes on one thread. Signals
have 0 to 6 steps in noise; the first fits, which load the loops, are not counted.
"""

import argparse
import time
import warnings

import numpy as np

from wolfpack import GroupFusedLasso
from wolfpack.change_points import StaircaseWarning, find_many

WARM_UP = 20  # fits before time counts
PART = 50  # fits that are timed together; the median part is shown


def make(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a signal of one column."""
    points = np.sort(rng.choice(np.arange(1, n), rng.integers(0, 7), replace=False))
    levels = 3 * rng.standard_normal(len(points) + 1)
    return np.repeat(levels, np.diff([0, *points, n])) + rng.standard_normal(n)


def seconds_of_fits(model: GroupFusedLasso, signals: list[np.ndarray]) -> list[float]:
    """Return the processor's seconds per fit of each part of the signals."""
    for Y in signals[:WARM_UP]:
        model.fit(Y)
    found = []
    for first in range(0, len(signals), PART):
        part = signals[first : first + PART]
        begin = time.process_time()
        for Y in part:
            model.fit(Y)
        found.append((time.process_time() - begin) / len(part))
    return found


def main() -> None:
    """Print a table of loops over `fit`, and of `find_many`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--signals", type=int, default=400)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    signals = [make(rng, args.rows) for _ in range(args.signals)]
    warnings.simplefilter("ignore", StaircaseWarning)
    print(f"{args.rows} rows: milliseconds per fit")
    print(f"{'n_change_points':16s} {'least':>7s} {'median':>7s} {'find_many':>10s}"
          f" {'all cores':>10s}")  # fmt: skip
    for number in (None, 3, "auto"):
        model = GroupFusedLasso(n_change_points=number)
        each = 1000 * np.array(seconds_of_fits(model, signals))
        row = f"{number!s:16s} {each.min():7.2f} {np.median(each):7.2f}"
        for n_jobs in (1, -1):
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                find_many(signals, model, n_jobs=n_jobs)
            row += f" {1000 * (time.perf_counter() - begin) / len(signals):10.2f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
