"""Signals against Clarabel: CPU seconds to a gap of 1e-6, relative to the objective.

python benchmarks/signals_clarabel.py [--seed 0] [--cases 12] [--largest 30000]

First the hard signals that block steps are slow on, then fused lassos and trend filters
of random kinds, sizes, norms and alphas. Clarabel gets the primal cone program itself,
without a modelling language, and its time is that of its setup and solution. Ours is
that of making the problem, solving and certifying it, after one run that compiles; the
least of three where Clarabel takes less than half a second.
`excess` is how far Clarabel's X is above our lower bound. Results go to
results/signals_clarabel.csv.
"""

import argparse
import time
from pathlib import Path

import clarabel
import numpy as np
import scipy.sparse as sp
from _book import Book
from _threads_cases import machine

import wolfpack
from wolfpack import ActiveSet, InteriorPoint, group_fused_lasso, group_trend_filter

GOAL = 1e-6
TIMES, SHORT = 3, 0.5  # the least of several runs, where they are short
FORMATS = {
    "section": "s", "case": "<12s", "order": "5d", "n": "7d", "d": "5d", "q": "4.0f",
    "share": "8.1e", "ours_s": "8.3f", "gap": "8.1e", "clarabel_s": "10.3f",
    "excess": "8.1e", "ratio": "6.2f", "pieces": "7d", "status": "<14s",
}  # fmt: skip
HARD = [
    ("smooth", 16_000, 2, 2.0, 0.1, 1),
    ("walk", 64_000, 4, 2.0, 0.1, 1),
    ("walk", 64_000, 4, 2.0, 0.01, 1),
    ("walk", 500, 1000, np.inf, 0.1, 1),
    ("bends", 10_000, 2, 2.0, 0.01, 2),
    ("bends", 100_000, 1, 2.0, 0.01, 2),
]


def make(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return a signal."""
    if kind == "smooth":
        turns = np.linspace(0.0, 2.0 * np.pi, n)[:, np.newaxis]
        return np.sin(turns * (1 + np.arange(d) % 5) + np.arange(d))
    if kind == "walk":
        return rng.normal(size=(n, d)).cumsum(axis=0)
    cuts = np.sort(rng.choice(np.arange(1, n), 10, replace=False))
    levels = rng.normal(size=(11, d))[np.searchsorted(cuts, np.arange(n), "right")]
    if kind == "bends":
        levels = 100.0 / n * levels.cumsum(axis=0)
    return levels + 0.5 * rng.normal(size=(n, d))


def program(Y, alpha, q, order):
    """Return the primal cone program: X, and a bound on each difference."""
    n, d = Y.shape
    D = sp.eye(n, format="csr")
    for _ in range(order):
        D = D[1:] - D[:-1]
    K, m = sp.kron(D, sp.eye(d)).tocoo(), n - order
    if q == 2.0:
        place = (K.row // d) * (d + 1) + 1 + K.row % d
        values = np.r_[K.data, -np.ones(m)]
        at = np.r_[place, np.arange(m) * (d + 1)], np.r_[K.col, n * d + np.arange(m)]
        A = sp.csc_matrix((values, at), shape=(m * (d + 1), n * d + m))
        bounds, cones = m, [clarabel.SecondOrderConeT(d + 1)] * m
    else:
        bounds = m if q == np.inf else m * d
        E = sp.kron(sp.eye(m), np.ones((d, 1))) if q == np.inf else sp.eye(m * d)
        A = sp.vstack([sp.hstack([K, -E]), sp.hstack([-K, -E])], format="csc")
        cones = [clarabel.NonnegativeConeT(2 * m * d)]
    P = sp.block_diag([sp.eye(n * d), sp.csc_matrix((bounds, bounds))], format="csc")
    c = np.r_[-Y.ravel(), np.full(bounds, alpha)]
    return P, c, A, np.zeros(A.shape[0]), cones


def by_clarabel(Y, alpha, q, order) -> tuple[float, np.ndarray, str]:
    """Return its CPU seconds, X and status."""
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_rel, settings.tol_gap_abs = False, GOAL, 0.0
    parts = program(Y, alpha, q, order)
    begin = time.process_time()
    found = clarabel.DefaultSolver(*parts, settings).solve()
    spent = time.process_time() - begin
    return spent, np.array(found.x)[: Y.size].reshape(Y.shape), str(found.status)


def by_wolfpack(Y, alpha, q, order, tol):
    """Return our CPU seconds and the result."""
    make_problem = group_fused_lasso if order == 1 else group_trend_filter
    engine = ActiveSet() if order == 1 else InteriorPoint()
    begin = time.process_time()
    result = wolfpack.solve(make_problem(Y, alpha, q=q), engine=engine, tol=tol)
    return time.process_time() - begin, result


def race(book: Book, case: str, n, d, q, share, order, rng) -> None:
    """Write a row."""
    Y = make(case, n, d, rng)
    Y = Y - Y.mean(axis=0)
    kind = wolfpack.GroupFusedLasso if order == 1 else wolfpack.GroupTrendFilter
    alpha = share * kind.alpha_max(Y, q)
    seconds, X, status = by_clarabel(Y, alpha, q, order)
    again = TIMES - 1 if seconds < SHORT else 0
    more = [by_clarabel(Y, alpha, q, order)[0] for _ in range(again)]
    seconds = min([seconds, *more])
    differences = np.linalg.norm(np.diff(X, order, axis=0), ord=q, axis=1)
    primal = 0.5 * np.square(X - Y).sum() + alpha * differences.sum()
    make_problem = group_fused_lasso if order == 1 else group_trend_filter
    tol = 0.5 * GOAL * primal / make_problem(Y, alpha, q=q).scale
    by_wolfpack(Y[:100], alpha, q, order, 1e-3)
    ours, result = by_wolfpack(Y, alpha, q, order, tol)
    more = [by_wolfpack(Y, alpha, q, order, tol)[0] for _ in range(again)]
    ours = min([ours, *more])
    best = -result.objective
    bends = np.abs(np.diff(result.solution, order, axis=0)).max(axis=1)
    pieces = 1 + int((bends > 1e-9 * np.abs(Y).max()).sum())
    book.add(
        case=case, order=order, n=n, d=d, q=q, share=share, ours_s=ours,
        gap=result.gap / -result.lower_bound, clarabel_s=seconds,
        excess=primal / best - 1, ratio=ours / seconds, pieces=pieces, status=status,
    )  # fmt: skip


def main() -> None:
    """Run the hard signals, then random ones."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--largest", type=int, default=30_000)
    parser.add_argument("--hard", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    folder = Path(__file__).parent / "results"
    book = Book(folder, "signals_clarabel", FORMATS, machine())
    shown = [name for name in FORMATS if name != "section"]
    for case in HARD if options.hard else []:  # loops of all kinds are compiled here
        small = make(case[0], 60, min(case[2], 70), rng)
        by_wolfpack(small, 1.0, case[3], case[5], 0.1)
    if options.hard:
        book.begin("hard", "block steps are slow on the fused lassos", shown)
        for name, n, d, q, share, order in HARD:
            race(book, name, n, d, q, share, order, rng)
    for order, last in ((1, "steps"), (2, "bends")):
        kinds = "smooth", "walk", last
        book.begin(f"order {order}", "random kinds and sizes", shown)
        for k in range(options.cases):
            d = int(rng.integers(1, 11))
            n = int(np.exp(rng.uniform(np.log(100), np.log(options.largest / d))))
            share = float(10.0 ** rng.uniform(-3.0, -0.3))
            q = (1.0, 2.0, np.inf)[int(rng.integers(3))]
            race(book, kinds[k % 3], n, d, q, share, order, rng)


if __name__ == "__main__":
    main()
