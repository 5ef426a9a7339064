"""The same bits before and after a change: hash what reproducible engines return.

    python benchmarks/bits.py save before.json      # in the tree as it was
    python benchmarks/bits.py save after.json       # in the tree as it is
    python benchmarks/bits.py compare before.json after.json

A case is an engine (`Serial`, `Sync`, `Delayed` both ways), a problem of the tests, a
step rule, a sampling and a batch size. Its line hashes the final point, v, and every
number in the trace but the clock and the drift, whose last digit depends on where
arrays lie in memory; apart from these the gaps and lower bounds, whose
last digit is the certificate's. It goes through the public interface only, so one
script serves trees of different shape; steps are plain, because older trees know no
others. `--group` measures a part of the problems.
"""

import argparse
import hashlib
import inspect
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse

import wolfpack
from wolfpack import Delayed, ProblemError, Serial, Sync, solve
from wolfpack.delays import Workers, poisson

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


def dates(**how):
    train, _ = wolfpack.load_dates(n_train=60)
    return wolfpack.chain_ssvm(train.X, train.y, 0.1, **how)


def text():
    rng = np.random.default_rng(0)
    X, y = [], []
    for length in rng.integers(2, 9, 60):
        words = rng.zipf(1.3, (length, 6)) % 5000
        rows = np.repeat(np.arange(length), 6)
        table = scipy.sparse.csr_matrix(
            (np.ones(words.size), (rows, words.ravel())), (length, 5000)
        )
        table.data[:] = 1.0
        X.append(table)
        y.append((words[:, 0] + rng.integers(0, 2, length)) % 5)
    return wolfpack.chain_ssvm(X, y, 0.02, n_labels=5)


def classes(**how):
    rng = np.random.default_rng(0)
    y, patterns = rng.integers(20, size=300), rng.random((20, 40)) < 0.4
    X = patterns[y] ^ (rng.random((300, 40)) < 0.2)
    return wolfpack.multiclass_svm(X, y, 0.02, **how)


def lasso(**how):
    Y, _, _ = wolfpack.make_piecewise(n=60, d=4)
    return wolfpack.group_fused_lasso(Y, 0.5, **how)


@numba.njit
def gradient(x, i, target):
    return x.sum(axis=0) - target + 0.5 * x[i]


@numba.njit
def value(x, target):
    return 0.5 * np.square(x.sum(axis=0) - target).sum() + 0.25 * np.square(x).sum()


@numba.njit
def steep_gradient(x, i, target):
    return np.exp(x.sum(axis=0) - target) + 0.5 * x[i]


@numba.njit
def steep_value(x, target):
    return np.exp(x.sum(axis=0) - target).sum() + 0.25 * np.square(x).sum()


def simplices(steep):
    # With larger numbers the check of an older commit would refuse the rounding.
    x0 = np.full((30, 4), 0.25) if steep else np.tile(np.eye(4)[0], (30, 1))
    target = np.array([4.0, 9.0, 2.0, 15.0])
    functions = (steep_gradient, steep_value) if steep else (gradient, value)
    return wolfpack.from_blocks(
        x0, functions[0], wolfpack.simplex(), value=functions[1], args=(target,),
        quadratic=not steep, scale=50.0,
    )  # fmt: skip


def python_balls():
    """Plain Python functions: the loops run uncompiled."""
    target = np.linspace(-1.0, 1.0, 6).reshape(3, 2)
    return wolfpack.from_blocks(
        np.zeros((3, 2)),
        lambda x, i: x[i] - target[i],
        wolfpack.l2_ball(),
        value=lambda x: 0.5 * np.square(x - target).sum(),
    )


def spied():
    import spy

    return spy.make()


GROUPS = {
    "chains": {"dates": dates, "text": text},
    "others": {
        "classes": classes,
        "vectors": lambda: classes(vectors=True),
        "lasso": lasso,
        "lasso l1": lambda: lasso(q=1.0),
    },
    "own": {
        "spy": spied,
        "simplices": lambda: simplices(False),
        "steep": lambda: simplices(True),
        "python": python_balls,
    },
}
# Plain steps, where a tree can accelerate them.
IS_NEW = "accelerate" in inspect.signature(solve).parameters
PLAIN: dict[str, Any] = {"accelerate": False} if IS_NEW else {}
STEPS = ("line", "open-loop", 0.05, "exact")
SAMPLINGS = ("uniform", "permutation", "gap")


def engines(problem):
    """Pairs of an engine's name and how it is called."""
    compiled = problem.name != "from_blocks" or isinstance(
        problem.oracle, numba.core.dispatcher.Dispatcher
    )
    yield "Serial", Serial(), SAMPLINGS, (1, 3)
    if compiled:
        yield "Sync(2)", Sync(2), SAMPLINGS, (2, 3)
    yield "Delayed(poisson)", Delayed(poisson(3)), ("uniform",), (1, 3)
    workers = Workers(4, oracle_seconds=1e-3, step_seconds=1e-5)
    yield "Delayed(workers)", Delayed(workers=workers), ("uniform",), (1, 3)


def fingerprint(result):
    """Hash what the run did, and what its certificates say, which rounding may move."""
    state, moves, bounds = result.state, hashlib.blake2b(digest_size=8), []
    moves.update(np.ascontiguousarray(state.shared).tobytes())
    moves.update(np.ascontiguousarray(state.average).tobytes())
    if state.offsets is None:
        moves.update(np.ascontiguousarray(state.blocks.points).tobytes())
    for row in result.trace:
        numbers = (
            row.epoch, row.n_updates, row.objective, row.gap_estimate,
            row.simulated_seconds or 0.0,
        )  # fmt: skip
        moves.update(np.array(numbers, float).tobytes())
        bounds += [row.gap, row.lower_bound]
    certificates = hashlib.blake2b(np.array(bounds).tobytes(), digest_size=8)
    return f"{moves.hexdigest()} {certificates.hexdigest()}"


def measure(groups):
    found = {}
    for group in groups:
        for name, make in GROUPS[group].items():
            problem = make()
            for kind, engine, samplings, batches in engines(problem):
                rules = [s for s in STEPS if s != "exact" or problem.minimiser]
                for rule, sampling, tau in itertools.product(rules, samplings, batches):
                    how = {"step": rule, "sampling": sampling, "batch_size": tau}
                    for averaging in (False, True) if tau == 3 else (False,):
                        key = f"{name} | {kind} | {rule} | {sampling} | {tau}"
                        key += " | averaging" if averaging else ""
                        try:
                            result = solve(
                                problem, engine=engine, rng=7, tol=0, max_epochs=12,
                                averaging=averaging, **how, **PLAIN,
                            )  # fmt: skip
                        except ProblemError:
                            raise
                        except ValueError as error:  # a combination that is refused
                            found[key] = str(error)[:60]
                            continue
                        found[key] = fingerprint(result)
            print(name, len(found), flush=True)
    return found


def compare(before, after):
    one, two = (json.loads(Path(path).read_text()) for path in (before, after))
    differ = [key for key in one if one[key] != two.get(key)]
    moved = [
        key for key in differ if one[key].split()[0] != two.get(key, "").split(" ")[0]
    ]
    for key in moved:
        print(f"differs: {key}")
    new = len(two.keys() - one.keys())
    print(
        f"{len(one)} cases, {len(moved)} differ, {len(differ) - len(moved)} more in "
        f"the bounds of their certificates alone, {new} new"
    )
    return bool(moved)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("save", "compare"))
    parser.add_argument("files", nargs="+")
    parser.add_argument("--group", choices=[*GROUPS], action="append")
    args = parser.parse_args()
    if args.what == "compare":
        return compare(*args.files)
    found = measure(args.group or [*GROUPS])
    Path(args.files[0]).write_text(json.dumps(found, indent=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
