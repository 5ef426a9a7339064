"""Whether v, the outer loop and the average of a start belong to its x.

Steps, and most checks of an accelerated run, rely on v until it is next computed from
x. In a file that is as it was written v stays, to the last bit: what rounding leaves in
it depends on all steps before, and in single precision it may be a percent.
"""

from typing import Any

import numpy as np

from wolfpack.kernels.memory import norm_of, widen
from wolfpack.kernels.notice import say
from wolfpack.problem import Problem

# How far the v of a changed file may be from v0 + A x, relative to its length. Rounding
# rarely leaves more. SMALL times the vectors that it is made of count as well, because
# v may be shorter.
MOST_DRIFT, SMALL = {"float32": 1e-4, "float64": 1e-9}, 0.01
# An outer loop follows v, and v follows x: c |z|^2 is not FAR times as large as c |v|^2
# and the scale of f.
FAR = 1e8


def image(problem: Problem, blocks: Any) -> tuple[np.ndarray, float]:
    """Return v0 + A x, in double precision, and <c, x>."""
    exact, n = widen(problem.shared), problem.n_blocks
    args = problem.data, blocks, 0, n, exact, problem.work()
    linear = problem.kernels().rebuild(*args)
    return exact, float(linear)


def overflow(problem: Problem, exact: np.ndarray) -> str:
    """Say that v0 + A x is too large; empty: it is not."""
    with np.errstate(over="ignore"):
        fits = np.isfinite(exact.astype(problem.shared.dtype)).all()
    return "" if fits else "v = v0 + A x of start holds NaN or infinity."


def settle(problem: Problem, state: Any) -> str:
    """Compute v anew where it does not fit x, and say so; return what is beyond that.

    `state` is of a file that was changed, or that an old version wrote. Empty: nothing
    else is wrong with it.
    """
    exact, _ = image(problem, state.blocks)
    wrong = overflow(problem, exact)
    if wrong:
        return wrong
    with np.errstate(over="ignore", invalid="ignore"):
        return _settle(problem, state, exact)


def _settle(problem: Problem, state: Any, exact: np.ndarray) -> str:
    size, outer = norm_of(exact), state.outer
    others = size + norm_of(problem.shared)
    if outer is not None:
        length = max(norm_of(outer.anchor), norm_of(outer.last))
        most = FAR * (problem.scale + problem.ridge * others * others)
        if not problem.ridge * length * length <= most:
            return (
                f"the outer loop of start has vectors of length {length:.1e}, and v of "
                f"its x is {size:.1e} long: its file was damaged or changed. Go on "
                "from another one."
            )
        exact = outer.anchor + outer.reach * (exact - outer.anchor)
        size, others = norm_of(exact), others + length
    _fit(state, exact, size + SMALL * others)
    mean = state.averaged()
    evaluate = problem.kernels().evaluate
    if mean is not None and not np.isfinite(evaluate(problem.data, mean)):
        return "the average of start is too large for its objective."
    return ""


def _fit(state: Any, exact: np.ndarray, size: float) -> None:
    """Set v to `exact`, unless it differs by no more than rounding leaves."""
    off, shared = norm_of(exact - state.shared), state.shared
    if off <= MOST_DRIFT[shared.dtype.name] * size:
        return
    shared[...] = exact
    share = off / size if size > 0.0 else off
    say(
        f"wolfpack: v of start is not that of its x: they differ by {share:.1e} of "
        "their size. It is computed anew from x."
    )
