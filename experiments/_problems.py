"""The paper's two problems, and their minima."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import wolfpack
from wolfpack.datasets import DatasetError

ALL, FIRST, OTHERS = tuple(range(10)), (0,), tuple(range(1, 10))
# -f* from an independent solver: the middle of its two bounds, within 1e-7 of each.
KNOWN = {
    (ALL, 1.0): 0.7782215950,
    (ALL, 0.01): 0.3822171398,
    (FIRST, 1.0): 0.7303991214,
    (FIRST, 0.01): 0.1650297726,
}
STAND_IN = "dates, with λ x 100"


class Task(NamedTuple):
    """A problem, its least f, how well that is known, and what it is called."""

    problem: wolfpack.Problem
    best: float
    error: float
    name: str


@lru_cache(maxsize=8)
def words(alpha: float, folds: Sequence[int] = ALL) -> Task:
    """Return the structural SVM of the OCR words, or of dates if they are missing.

    f is minus the dual of the SVM, which is what the algorithm minimises.
    """
    try:
        data = wolfpack.load_ocr(folds)
    except DatasetError:
        return _dates(alpha, 100 * len(folds))
    problem = wolfpack.chain_ssvm(data.X, data.y, alpha)
    title = f"{problem.n_blocks} OCR words"
    if (folds, alpha) in KNOWN:
        return Task(problem, -KNOWN[folds, alpha], 1e-7, title)
    tol = 1e-5 if alpha >= 0.1 else 1e-4
    return Task(problem, *minimum(problem, tol, sampling="gap"), title)


def _dates(alpha: float, n: int) -> Task:
    """Return the SVM of dates; these are easier, so lambda is larger for them."""
    data, _ = wolfpack.load_dates(n, 1)
    problem = wolfpack.chain_ssvm(data.X, data.y, 100 * alpha)
    return Task(problem, *minimum(problem, 1e-4), f"{n} {STAND_IN}")


@lru_cache(maxsize=8)
def signal(alpha: float = 0.01, noise: float = 0.1) -> Task:
    """Return the group fused lasso of 100 noisy points in R^10 (Figures 1b, 4, 5)."""
    noisy, _, _ = wolfpack.make_piecewise(100, 10, noise=noise)
    problem = wolfpack.group_fused_lasso(noisy, alpha)
    return Task(problem, *minimum(problem, 1e-9, step="exact"), "100 x 10 signal")


def minimum(problem: wolfpack.Problem, tol: float, **how) -> tuple[float, float]:
    """Return f of a long run and its gap: f* is at most that much lower."""
    result = wolfpack.solve(
        problem,
        tol=tol,
        max_epochs=20_000,
        max_seconds=60,
        rng=0,
        accelerate=False,
        **how,
    )
    return result.objective, result.gap
