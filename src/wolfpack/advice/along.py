"""How far f falls along a change of a few blocks, in double precision.

With f(x) = g(v) + <c, x> a change is known by A (x' - x) and <c, x' - x>, and

    f(x) - f(x') = - integral over t in [0, 1] of d/dt f(x + t (x' - x))

needs `slope` alone, which every problem has; and it does not lose small differences of
large values.
"""

from typing import Any

import numpy as np

from wolfpack.problem import Problem
from wolfpack.state import State

NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)


class Along:
    """Measures changes of one problem's x."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.kernels = problem, problem.kernels()
        self.work = problem.work()

    def image(self, state: State, blocks: Any) -> tuple[np.ndarray, float]:
        """Return v0 + sum of A_i x_(i) over `blocks`, and their <c_i, x_(i)>."""
        out, data = self.problem.shared.astype(np.float64), self.problem.data
        if isinstance(blocks, range):
            ranges = [(blocks.start, blocks.stop)]
        else:
            ranges = [(i, i + 1) for i in blocks.tolist()]
        rebuild, linear = self.kernels.rebuild, 0.0
        for first, last in ranges:
            linear += rebuild(data, state.blocks, first, last, out, self.work)
        return out, linear

    def change(
        self, before: State, after: State, blocks: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return A (x' - x) and <c, x' - x>, where only `blocks` differ."""
        there, rise = self.image(after, blocks)
        here, level = self.image(before, blocks)
        return there - here, rise - level

    def slope(self, exact: np.ndarray, change: np.ndarray, linear: float) -> float:
        """Return the derivative of f at v, along a change of x."""
        rows = np.flatnonzero(change.reshape(len(change), -1).any(axis=1))
        data, inner = self.problem.data, self.kernels.inner_products
        return float(inner(data, exact, change, rows)[0]) + linear

    def fall(self, exact: np.ndarray, change: np.ndarray, linear: float) -> float:
        """Return f(x) - f(x + change): minus the integral of the slope."""
        if self.problem.quadratic:
            nodes, weights = np.array([0.0, 1.0]), np.array([0.5, 0.5])
        else:
            nodes, weights = 0.5 * (NODES + 1.0), 0.5 * WEIGHTS
        slopes = [self.slope(exact + t * change, change, linear) for t in nodes]
        return float(-(weights @ slopes))

    def search(self, exact: np.ndarray, change: np.ndarray, linear: float) -> float:
        """Return theta in [0, 1] with the least f along `change`."""
        low, high = 0.0, 1.0
        first = self.slope(exact, change, linear)
        last = self.slope(exact + change, change, linear)
        if first >= 0.0 or last <= 0.0:
            return 0.0 if first >= 0.0 else 1.0
        if self.problem.quadratic:
            return first / (first - last)
        for _ in range(20):
            middle = 0.5 * (low + high)
            rises = self.slope(exact + middle * change, change, linear) > 0.0
            low, high = (low, middle) if rises else (middle, high)
        return low
