"""Peak memory of training on sparse text (CoNLL-2000 chunking), or on a dense X.

    WOLFPACK_DATA=... python benchmarks/memory.py
    python benchmarks/memory.py --dense chain    # or multiclass, multilabel

The second needs Linux: it sets the peak of this process back before `fit`.
"""

import argparse
import ctypes
import gc
import resource
import warnings
from pathlib import Path

import numpy as np

import wolfpack
from wolfpack.datasets import load_conll2000

N, P, LENGTH = 117_200, 64, 100


def say(what: str) -> None:
    """Print the peak memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{peak:7.0f} MB peak after {what}")


def text() -> None:
    """Load, pack, train, score."""
    say("imports")
    train, test = load_conll2000("train"), load_conll2000("test")
    n_features = train.X[0].shape[1]
    say(f"loading {len(train.X)} + {len(test.X)} sentences, p = {n_features}")
    problem = wolfpack.chain_ssvm(train.X, train.y, alpha=1e-3)
    say(f"packing; v has {problem.shared.nbytes / 1e6:.1f} MB")
    result = wolfpack.solve(problem, sampling="gap", tol=1e-2, max_epochs=200, rng=0)
    say(
        f"{result.epochs:.0f} passes ({result.status.name}, gap {result.gap:.4f}, "
        f"{result.wall_seconds:.1f} s); state {result.state.nbytes / 1e6:.1f} MB"
    )


def fit(kind: str, X: np.ndarray) -> None:
    """Make two passes."""
    y = np.arange(len(X)) % 5
    how = {"alpha": 0.1, "max_iter": 2, "random_state": 0}
    if kind == "chain":
        rows = [*X.reshape(-1, LENGTH, X.shape[1])]
        wolfpack.ChainSSVM(**how).fit(rows, [*y.reshape(-1, LENGTH)])
    elif kind == "multiclass":
        wolfpack.MulticlassSVM(**how).fit(X, y)
    else:
        wolfpack.MultilabelSVM(**how).fit(X, np.eye(5, dtype=int)[y])


def memory(name: str) -> float:
    """Return a number of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def dense(kind: str) -> None:
    """Print what `fit` takes beside a dense X, once its loops are loaded."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    fit(kind, rng.normal(size=(N, P)))  # compiles or loads the loops
    for number in (np.float64, np.float32):
        X = rng.normal(size=(N, P)).astype(number)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = memory("VmRSS")
        fit(kind, X)
        more, given = memory("VmHWM") - before, X.nbytes / 2**20
        print(f"{kind}: {given:.0f} MB of {X.dtype}, {more:.0f} MB more in fit")


def main() -> None:
    """Measure text, or dense examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dense", choices=["chain", "multiclass", "multilabel"])
    kind = parser.parse_args().dense
    if kind is None:
        text()
    else:
        dense(kind)


if __name__ == "__main__":
    main()
