"""Certificates of random problems, held against double precision:

    make certificates ARGS="--count 5000 --seed 0"

A draw is a random problem, an engine and options of `solve`. The problem is written out
as dense matrices, too. From these, f at the x that came back and the bound at its v are
computed without a line of wolfpack, and every row of the trace must agree with both. A
draw that does not agree is printed, with how to play it again; then the exit code is 1.
"""

import argparse
import collections
import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import soak_path  # noqa: F401 the modules below need it
import soak_plans as plans
import spy
from helpers import Dense, chain_x, dense_chain, dense_lasso, random_chains
from soak_problems import _atoms, _simplices, _vectors

import wolfpack


class Draw(NamedTuple):
    """A problem, its dense twin, how to read what comes back, and its sets."""

    problem: Any
    dense: Dense
    x: Any  # state -> one vector a block
    v: Any  # solution -> v of the twin; None: only f can be computed
    least: Any = np.min  # the least <s, g> over the set of a block


def _columns(rng, p):
    """Return the sizes of columns, which differ much now and then."""
    spread = 3.0 if rng.random() < 0.2 else 0.0
    return 10.0 ** rng.uniform(-spread / 2, spread / 2, p)


def _alpha(rng):
    return float(10.0 ** rng.uniform(-4, 1))


def chain(rng):
    """Sequences with random labels."""
    K, n, p = int(rng.choice([2, 3])), int(rng.integers(1, 40)), int(rng.integers(1, 6))
    lengths = rng.integers(1, 5, size=3)
    X, y = random_chains(rng, n, K, lengths, p, unit=rng.random() < 0.5)
    sizes, alpha = _columns(rng, p), _alpha(rng)
    X = [(x * sizes).astype(np.float32).astype(float) for x in X]

    def v(w):
        rows = [w.features.T, w.bias, w.first, w.last, w.transitions]
        return np.vstack([np.atleast_2d(row) for row in rows]).ravel()

    problem = wolfpack.chain_ssvm(X, y, alpha, n_labels=K)
    return Draw(problem, dense_chain(X, y, alpha, K), lambda s: chain_x(s, K), v)


def classes(rng):
    """Examples of a few classes, kept as weighted classes or as vectors."""
    n, K, p = (
        int(rng.integers(2, 60)),
        int(rng.choice([2, 3, 5])),
        int(rng.integers(1, 8)),
    )
    alpha, vectors = _alpha(rng), bool(rng.random() < 0.5)
    y = rng.integers(0, K, n)
    y[:2] = 0, K - 1
    X = rng.normal(size=(n, p)) + rng.normal(size=(K, p))[y] * rng.uniform(0, 3)
    X = (X * _columns(rng, p)).astype(np.float32).astype(float)
    y = np.unique(y, return_inverse=True)[1]
    K = int(y.max()) + 1
    A, c = [], []
    for i in range(n):  # v is (p, K), row by row
        psi = np.zeros((p, K, K))
        psi[:, y[i], :] += X[i][:, None]
        psi[:, np.arange(K), np.arange(K)] -= X[i][:, None]
        A.append(psi.reshape(p * K, K) / (alpha * n))
        c.append(-1.0 / n * (np.arange(K) != y[i]))
    size = p * K
    dense = Dense(A, c, np.zeros(size), alpha * np.eye(size), np.zeros(size), 0.0)
    problem = wolfpack.multiclass_svm(X, y, alpha, vectors=vectors)
    read = _vectors if vectors else lambda state: _atoms(state, K)
    return Draw(problem, dense, read, lambda w: w.T.ravel())


def lasso(rng):
    """Signals, with each norm of a jump."""
    n, d = int(rng.integers(3, 40)), int(rng.integers(1, 4))
    Y = rng.normal(size=(n, d)).cumsum(axis=0) * 10.0 ** rng.uniform(-2, 2)
    alpha = float(Y.std() * 10.0 ** rng.uniform(-2, 1)) + 1e-3
    q = float(rng.choice([1.0, 2.0, np.inf]))
    problem = wolfpack.group_fused_lasso(Y, alpha, q=q)
    centre = Y.mean(axis=0)

    def least(g):
        return -alpha * float(np.linalg.norm(g, ord=q))

    return Draw(
        problem, dense_lasso(Y, alpha), _vectors, lambda X: (X - centre).ravel(), least
    )


def by_hand(rng):
    """What a user wrote, with a ridge: blocks coupled through a dense v."""
    n, d, m = int(rng.integers(1, 50)), int(rng.integers(1, 8)), int(rng.integers(2, 5))
    problem = spy.make_ridge(n, d, m, int(rng.integers(2**31)), rng.uniform(0, 1))
    zero = [np.zeros(m)] * n
    A, v0 = [*problem.data.A], problem.shared.astype(float)
    dense = Dense(A, zero, v0, np.eye(d), np.zeros(d), 0.0)
    return Draw(problem, dense, _vectors, np.ravel)


def simplices(rng):
    """Blocks of x itself, without a v: the solution is x."""
    known = _simplices(spy.numba.njit, n=int(rng.integers(1, 40)))
    return Draw(known.problem, known.dense, _vectors, None)


FAMILIES = {f.__name__: f for f in (chain, classes, lasso, by_hand, simplices)}
ENGINES = [name for name in plans.ENGINES if name != "ray"]


def draw(seed, number):
    """Return what to solve, with which engine, and how."""
    rng = np.random.default_rng([seed, number])
    family = str(rng.choice([*FAMILIES]))
    name = str(rng.choice(ENGINES))
    case = FAMILIES[family](rng)
    engine, how = plans.choose(name, family if family == "lasso" else "spy", rng)
    if how["step"] == "exact" and case.problem.minimiser is None:
        how["step"] = "line"
    size = how["batch_size"]
    how["batch_size"] = size and min(size, case.problem.n_blocks)
    how["tol"] = float(10.0 ** rng.uniform(-9, -1)) * bool(rng.random() < 0.9)
    how["max_epochs"] = float(rng.choice([1, 3, 10, 30, 100, 300]))
    how["accelerate"] = [True, True, "auto", False][rng.integers(4)]
    how["check_every"] = [None, 1.0][rng.integers(2)]
    how |= {"rng": int(rng.integers(2**31)), "max_seconds": 5.0}
    return family, name, case, engine, how


def solve(case, engine, how):
    """Solve; a wish to accelerate what cannot be is dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return wolfpack.solve(case.problem, engine=engine, **how)
        except ValueError as error:
            if how["accelerate"] is not True or "accelerate=True" not in str(error):
                raise
            return wolfpack.solve(
                case.problem, engine=engine, **how | {"accelerate": False}
            )


def bound(case, v):
    """Return the lower bound at v, and the size of what is added up."""
    dense = case.dense
    slope = dense.H @ v + dense.b
    value = 0.5 * v @ dense.H @ v + dense.b @ v + dense.constant
    scores = [A.T @ slope + c for A, c in zip(dense.A, dense.c, strict=True)]
    least = sum(float(case.least(one)) for one in scores)
    size = abs(value) + abs(slope @ v) + sum(float(np.abs(one).max()) for one in scores)
    return float(value + slope @ (dense.v0 - v) + least), size


def judge(case, result, tol):
    """Return what is wrong with a result; None: nothing."""
    single = case.problem.shared.dtype == np.float32
    rounding, x = 2e-6 if single else 1e-10, case.x(result.state)
    above = case.dense.f(x)
    below, size = result.lower_bound, 0.0
    if case.v is not None:
        below, size = bound(case, case.v(result.solution))
    noise = rounding * (size + abs(above) + case.problem.scale)
    off = result.objective - above
    if result.state.outer is not None and off < -noise:  # x ran away: f at the start
        off = result.objective - case.dense.f(_start(case))
    if abs(off) > noise:
        return f"f(x) is {above}, but the objective is {result.objective}"
    if case.v is not None and abs(below - result.lower_bound) > noise:
        return f"the bound at v is {below}, but reported is {result.lower_bound}"
    if result.lower_bound > above + noise:
        return f"the bound {result.lower_bound} is above f(x) = {above}"
    for row in result.trace:
        if row.lower_bound > above + noise:
            return f"a bound {row.lower_bound} of the trace is above f(x) = {above}"
        if row.objective < below - noise:
            return f"f = {row.objective} of the trace is below the bound {below}"
        if abs(row.objective - row.gap - row.lower_bound) > 1e-9 * (1 + abs(row.gap)):
            return f"the gap {row.gap} is not {row.objective} - {row.lower_bound}"
    reached = result.objective - below
    if result.converged and reached > tol * case.problem.scale + noise:
        return f"CONVERGED at a gap of {reached}"
    return None


def _start(case):
    """Return x at the start, as the dense twin counts its coordinates."""
    begin = wolfpack.solve(case.problem, tol=0, max_epochs=0, accelerate=False)
    return case.x(begin.state)


class Tally:
    """How many draws of each family and engine were right."""

    def __init__(self):
        self.counts = collections.Counter()
        self.accelerated = self.rows = 0

    def add(self, family, engine, result):
        self.counts[family, engine] += 1
        self.accelerated += result.state.outer is not None
        self.rows += len(result.trace)

    def table(self):
        head = f"| {'':10} |" + "".join(f" {name:>9} |" for name in ENGINES)
        head += f" {'all':>6} |"
        rule = "|".join("-" * len(part) for part in head.split("|")[1:-1])
        lines = [head, f"|{rule}|"]
        for family in [*FAMILIES, "all"]:
            of = [f for f in FAMILIES if family in (f, "all")]
            row = [sum(self.counts[f, e] for f in of) for e in ENGINES]
            text = "".join(f" {count:9d} |" for count in row)
            lines.append(f"| {family:10} |{text} {sum(row):6d} |")
        return "\n".join(lines)


def play(seed, number, tally):
    """Play one draw; return what is wrong with it, or None."""
    family, name, case, engine, how = draw(seed, number)
    result = solve(case, engine, how)
    wrong = judge(case, result, how["tol"])
    tally.add(family, name, result)
    return wrong and f"{seed}-{number}: {family}, {engine}, {how}: {wrong}"


def say(text):
    """Print it at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    asked = parser.parse_args()
    begin, tally, wrong, last = time.time(), Tally(), 0, asked.first + asked.count
    for number in range(asked.first, last):
        sentence = play(asked.seed, number, tally)
        if sentence:
            wrong += 1
            say(f"{sentence}; again: --seed {asked.seed} --first {number} --count 1")
        if (number + 1) % 500 == 0:
            say(f"{number + 1} draws, {wrong} wrong, {time.time() - begin:.0f} s")
    say(tally.table())
    say(
        f"{sum(tally.counts.values())} draws with seed {asked.seed}, "
        f"{tally.accelerated} of them accelerated, {tally.rows} certificates: "
        f"{wrong} wrong"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
