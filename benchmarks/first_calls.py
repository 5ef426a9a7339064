"""Which first calls of a new user pause to compile, and for how long.

    python benchmarks/first_calls.py [--csv FILE]

The cache of compiled loops is empty at the start. The calls follow each other in one
process, as in a notebook, so a call pauses only for what none before it compiled. Times
are those of the processor, because others may use it meanwhile.
"""

import argparse
import csv
import os
import tempfile
import time
import warnings

import numpy as np
from numba.core.event import Listener, install_listener

LEAST = 0.3  # seconds of compiling that a person notices


def make_calls():
    """Return names of calls, and functions that make them."""
    import scipy.sparse as sp

    import wolfpack

    warnings.simplefilter("ignore")
    train, test = wolfpack.load_dates(n_train=100, n_test=20)
    X, y = train.X, train.y
    sparse = [sp.csr_matrix(x) for x in X]
    rng = np.random.default_rng(0)
    text = [sp.random(9, 500, 0.02, "csr", rng=rng) for _ in range(60)]
    ones = [(x != 0).astype(float) for x in text]
    tags = [rng.permutation(22)[:9] for _ in range(60)]
    points, classes = rng.normal(size=(200, 20)), rng.integers(4, size=200)
    counts = sp.random(200, 500, 0.05, "csr", rng=rng)
    signal = wolfpack.make_piecewise(n=300, d=4)[0]

    def chain(**options):
        return wolfpack.ChainSSVM(alpha=0.1, max_iter=20, random_state=0, **options)

    def multiclass(**options):
        return wolfpack.MulticlassSVM(alpha=0.1, max_iter=20, random_state=0, **options)

    def lasso(**options):
        return wolfpack.GroupFusedLasso(max_iter=20, random_state=0, **options)

    model = chain(warm_start=True)
    tagger = chain()
    return [
        ("ChainSSVM.fit, dense", lambda: model.fit(X, y)),
        ("predict", lambda: model.predict(test.X)),
        ("score", lambda: model.score(test.X, test.y)),
        ("decision_function", lambda: model.decision_function(test.X)),
        ("fit again, warm_start", lambda: model.set_params(alpha=0.05).fit(X, y)),
        ("fit, float32", lambda: chain().fit([x.astype(np.float32) for x in X], y)),
        ("fit, sparse", lambda: chain().fit(sparse, y)),
        ("predict, sparse", lambda: model.predict(sparse)),
        ("fit, n_jobs=2", lambda: chain(n_jobs=2).fit(X, y)),
        ("fit, averaging", lambda: chain(averaging=True).fit(X, y)),
        ("fit, 22 labels, values", lambda: tagger.fit(text, tags)),
        ("fit, 22 labels, 0 and 1", lambda: tagger.fit(ones, tags)),
        ("predict, 22 labels", lambda: tagger.predict(ones)),
        ("MulticlassSVM.fit, dense", lambda: multiclass().fit(points, classes)),
        ("fit, float32", lambda: multiclass().fit(np.float32(points), classes)),
        ("fit, sparse", lambda: multiclass().fit(counts, classes)),
        ("fit, n_jobs=2", lambda: multiclass(n_jobs=2).fit(points, classes)),
        ("fit, step='exact'", lambda: multiclass(step="exact").fit(points, classes)),
        ("GroupFusedLasso.fit", lambda: lasso().fit(signal)),
        ("fit, float32", lambda: lasso().fit(np.float32(signal))),
        ("fit, n_jobs=2", lambda: lasso(n_jobs=2).fit(signal)),
    ]


class Outermost(Listener):
    """Counts the time of functions that Python calls, with those that they call."""

    def __init__(self):
        self.depth, self.seconds, self.names = 0, 0.0, []

    def on_start(self, event):
        if self.depth == 0:
            self.began = time.process_time()
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.process_time() - self.began
            self.names.append(event.data["dispatcher"].py_func.__name__)


def pauses(calls):
    """Make the calls; yield the name, seconds, those of the compiler, and functions."""
    for name, call in calls:
        begin = time.process_time()
        with install_listener("numba:compile", Outermost()) as compiler:
            call()
        yield name, time.process_time() - begin, compiler.seconds, compiler.names


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", help="write the table to this file, too")
    path, rows = parser.parse_args().csv, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"WOLFPACK_CACHE": folder, "WOLFPACK_QUIET": "1"}
        for row in pauses(make_calls()):
            rows.append(row)
            name, took, compiling, entries = row
            print(f"{name:26} {took:6.1f} s  {compiling:6.1f} s  {' '.join(entries)}")
    felt = [row for row in rows if row[2] >= LEAST]
    total = sum(row[2] for row in rows)
    print(f"{len(felt)} of {len(rows)} calls paused to compile, {total:.0f} s in all")
    if path:
        with open(path, "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["call", "seconds", "compiling", "compiled"])
            table.writerows(
                [a, f"{b:.2f}", f"{c:.2f}", " ".join(d)] for a, b, c, d in rows
            )


if __name__ == "__main__":
    main()
