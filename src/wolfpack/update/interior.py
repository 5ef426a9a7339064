"""A primal-dual interior-point method for signals with rare differences.

    min over X    1/2 sum_t w_t |X_t - Y_t|^2 + alpha sum_t |(D X)_t|_q

with D the first or second differences, and its dual over prices |U_t|_p <= alpha. The
prices stay inside their balls, X follows them, and each step halves the gap or more,
however many differences are not 0: 10 to 30 steps reach any gap. A step is Mehrotra's
predictor and corrector: two solutions of one system (`smoother`, or `wide` for wide
signals), with the scaling of the balls (`cone_round`, `cone_diamond`).

X moves by the x of each solution. To compute it from U would lose the digits by which
alpha exceeds Y, and D X with them: in a trend that is most of them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wolfpack.update.cones import LEAST, Cone, DiamondCone, PowerCone, RoundCone
from wolfpack.update.newton import Narrow, Wide, is_wide_signal, transposed

CALLS = 7000.0  # visits that take as long as the calls of a step do
SAFE = 0.99  # of the way to the boundary
MOST = 100  # steps
AHEAD = 0.9  # of the way along the central path
MOST_CENTRING = 12  # steps back to it
CENTRED = 0.5  # a distance from it, in the norm of the barrier
PATIENCE = 8  # steps without a better gap, after which rounding is to blame
FINE = 1e-4  # of the first gap, from where on solutions are refined


class Interior:
    """The iterates for one signal and one alpha.

    Parameters
    ----------
    heights : ndarray (n, d)
        Y.
    variances : ndarray (n,)
        1 / w.
    alpha : float
    q : float
        The norm of differences, 2 or inf; one column has any.
    is_bent : bool
        Whether D are second differences.

    Attributes
    ----------
    gap : float
        The primal minus the dual, of the best iterate.
    prices, values : ndarray
        U and X of this iterate.
    contrast : ndarray
        How large each difference is over what its price leaves of alpha, both relative
        to the largest: above 1 where it is not 0, the more so the smaller the gap.
    """

    def __init__(
        self,
        heights: np.ndarray,
        variances: np.ndarray,
        alpha: float,
        q: float,
        is_bent: bool = False,
    ) -> None:
        centre = heights.mean(axis=0)
        self.unit = float(np.abs(heights - centre).max()) or 1.0
        self.heights = (heights - centre) / self.unit
        self.variances, self.is_bent = np.ascontiguousarray(variances), is_bent
        self.order = 2 if is_bent else 1
        self._now = self.heights.copy()
        count, width = len(heights) - self.order, heights.shape[1]
        self.cone: Any = self._make_cone(alpha / self.unit, 2.0 if width == 1 else q)
        is_wide = is_wide_signal(count, width, is_bent)
        self.system: Any = (Wide if is_wide else Narrow)(self.variances, count, width)
        self.centre, self.gap, self.scale = centre, math.inf, self.unit * self.unit
        self._keep()
        self.first_gap = self.gap

    def _make_cone(self, alpha: float, q: float) -> Cone:
        kind = RoundCone if q == 2.0 else DiamondCone
        return kind(alpha, self._differences(self._now))

    def _differences(self, X: np.ndarray) -> np.ndarray:
        """Return -D X."""
        return -np.diff(X, self.order, axis=0)

    def _keep(self) -> None:
        """Note this iterate if none had a smaller gap."""
        cone = self.cone
        apart = self._now - self.heights
        apart += transposed(cone.prices, self.is_bent) * self.variances[:, np.newaxis]
        gap = cone.gap() + 0.5 * float(
            np.square(apart).sum(axis=1) @ (1 / self.variances)
        )
        gap *= self.scale
        self.is_better = gap < self.gap
        if self.is_better:
            self.gap = gap
            self.prices = self.unit * cone.prices
            self.values = self.unit * self._now + self.centre
            self.contrast = cone.contrast()

    def _direct(self) -> float:
        """Solve for a direction; return the longest step."""
        cone = self.cone
        cone.moves, self._change = self.system.solve(cone.right)
        cone.turns = self._differences(self._change)
        if self.is_bent or self.gap < FINE * self.first_gap:
            rest = cone.right - cone.turns - cone.diagonal * cone.moves
            along = np.einsum("ij,ij->i", cone.lines, cone.moves)
            rest -= along[:, np.newaxis] * cone.lines
            more, change = self.system.solve(rest)
            cone.moves += more
            self._change += change
            cone.turns = self._differences(self._change)
        return cone.finish()

    def step(self) -> None:
        """Make a step."""
        cone = self.cone
        total = cone.scale()
        self.system.factor(cone.diagonal, cone.lines)
        centring = (1.0 - min(self._direct(), 1.0)) ** 3
        cone.aim(centring * total / cone.n_products)
        length = min(1.0, SAFE * self._direct())
        self._now += length * self._change
        cone.move(length, self._differences(self._now))
        self._keep()

    def solve(self, goal: float, pulse: Callable[[], bool] = lambda: False) -> bool:
        """Make steps until the gap is at most `goal`; False: `pulse` ended it early.

        It also ends where rounding leaves no smaller gap.
        """
        tired = 0
        for _ in range(MOST):
            if not self.gap > max(goal, LEAST * self.scale) or tired > PATIENCE:
                break
            with np.errstate(all="ignore"):  # at the end, where rounding rules
                self.step()
            tired = 0 if self.is_better else tired + 1
            if pulse():
                return False
        return True


class CentredInterior(Interior):
    """The same for any other q, by steps along the central path and back to it."""

    def _make_cone(self, alpha: float, q: float) -> Cone:
        return PowerCone(alpha, self._differences(self._now), q)

    def step(self) -> None:
        """Make a step along the path, and some towards it."""
        far = self._go(0.0, AHEAD)
        self.cone.mean *= 1.0 - far
        for _ in range(MOST_CENTRING):
            if self._go(self.cone.mean, 1.0) == 1.0 and self.distance < CENTRED:
                break
        self._keep()

    def _go(self, goal: float, share: float) -> float:
        """Go a share of the way to the centre of `goal`; return the step."""
        cone = self.cone
        cone.prepare(goal)
        self.system.factor(cone.diagonal, cone.lines)
        length = self._direct()
        if goal > 0.0:
            ahead = float(np.einsum("ij,ij->", cone.right, cone.moves))
            self.distance = np.sqrt(max(ahead, 0.0) / cone.mean)
            length = min(
                length, 1.0 / (1.0 + self.distance) if self.distance > 0.3 else 1.0
            )
        length *= share
        self._now += length * self._change
        cone.move(length, self._differences(self._now))
        return length


def make_interior(
    heights: np.ndarray, variances: np.ndarray, alpha: float, q: float, is_bent: bool
) -> Interior:
    """Return the iterates for any norm."""
    is_plain = q in (2.0, np.inf) or heights.shape[1] == 1
    kind = Interior if is_plain else CentredInterior
    return kind(heights, variances, alpha, q, is_bent)


def warm_up(count: int, width: int, q: float, is_bent: bool) -> None:
    """Make a step on a small signal, with the loops that one of this size needs."""
    heights = np.arange(8.0).reshape(4, 2) ** 2
    inner = make_interior(heights, np.ones(4), 1.0, 2.0 if width == 1 else q, is_bent)
    kind = Wide if is_wide_signal(count, width, is_bent) else Narrow
    inner.system = kind(inner.variances, len(inner.cone.pulls), 2)
    inner.step()


def cost_of_step(count: int, width: int, is_round: bool) -> float:
    """Return how many visits of block steps take as long as a step here, roughly."""
    if is_wide_signal(count, width, False):
        visit = 30 + (1 if is_round else 6) * width
        return CALLS + count * count * (width + count / 3) / visit
    return CALLS + count * (15.0 + width**3 / (20.0 + width))
