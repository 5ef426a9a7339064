"""What interior-point steps keep per row: a price inside its ball, a pull and a bound.

A pull is minus a difference of the signal, and `tops` bound its norm. Cones that have a
scaling are asked for a step by `scale`, `finish`, `aim`, `finish` and `move`.
"""

from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np

from wolfpack.kernels.specialise import library
from wolfpack.update import cone_diamond, cone_power, cone_round

CLOSE = 1e-13  # by which a bound must exceed what it bounds, relative to it
LEAST = 1e-16  # of the scale: a smaller number is rounding


class Cone(ABC):
    """Prices inside their balls, and the directions that they take."""

    def __init__(self, alpha: float, pulls: np.ndarray) -> None:
        self.alpha, self.pulls = alpha, pulls
        self.prices = np.zeros_like(pulls)
        sizes = self.sizes()
        self.tops = sizes + sizes.mean()
        self.lifts = np.zeros(len(pulls))
        self.diagonal, self.lines = np.zeros_like(pulls), np.zeros_like(pulls)
        self.right = np.zeros_like(pulls)
        self.moves = self.turns = pulls

    @abstractmethod
    def sizes(self) -> np.ndarray:
        """Return the norms of the differences."""

    @abstractmethod
    def lengths(self) -> np.ndarray:
        """Return the norms of the prices."""

    def move(self, step: float, pulls: np.ndarray) -> None:
        """Go along the direction, to new differences."""
        self.prices += step * self.moves
        self.tops += step * self.lifts
        self.pulls = pulls
        np.maximum(self.tops, self.sizes() * (1.0 + CLOSE), out=self.tops)

    def gap(self) -> float:
        """Return sum_t alpha |y_t| + <u_t, y_t>."""
        products = np.einsum("ij,ij->i", self.prices, self.pulls)
        return float((self.alpha * self.sizes() + products).sum())

    def contrast(self) -> np.ndarray:
        """Return each difference over what its price leaves of alpha."""
        left = np.maximum(1.0 - self.lengths() / self.alpha, LEAST)
        return self.tops / (left * (self.tops.max() or 1.0))


class ScaledCone(Cone):
    """Balls with a scaling, by which a first direction tells where to aim.

    Of the arrays that the kernels share, `own` are in all three, `more` in `aim` and
    `finish`, and `written` in `aim` alone.
    """

    kernels: Any
    n_products: int
    own: tuple[np.ndarray, ...]
    more: tuple[np.ndarray, ...] = ()
    written: tuple[np.ndarray, ...]

    def scale(self) -> float:
        """Prepare a first direction; return the sum of the products."""
        return self.kernels.scale(
            self.alpha, self.prices, self.pulls, self.tops, *self.own, self.diagonal,
            self.lines, self.right, self.lifts,
        )  # fmt: skip

    def aim(self, mean: float) -> None:
        """Prepare a second one, which takes each product to `mean`."""
        self.kernels.aim(
            self.alpha, self.prices, self.pulls, self.tops, *self.own, *self.more,
            self.moves, self.turns, self.lifts, mean, *self.written,
        )  # fmt: skip

    def finish(self) -> float:
        """Complete a direction; return the longest step."""
        return self.kernels.finish(
            self.alpha, self.prices, self.pulls, self.tops, *self.own, *self.more,
            self.moves, self.turns, self.lifts,
        )  # fmt: skip


class RoundCone(ScaledCone):
    """Euclidean balls."""

    def __init__(self, alpha: float, pulls: np.ndarray) -> None:
        super().__init__(alpha, pulls)
        self.kernels = library(cast(Any, cone_round))
        count = self.n_products = len(pulls)
        self.own = np.zeros(count), np.zeros_like(pulls), np.zeros(count)
        self.written = (self.right,)

    def sizes(self) -> np.ndarray:
        """Return Euclidean norms of the differences."""
        return np.sqrt(np.einsum("ij,ij->i", self.pulls, self.pulls))

    def lengths(self) -> np.ndarray:
        """Return Euclidean norms of the prices."""
        return np.sqrt(np.einsum("ij,ij->i", self.prices, self.prices))


class DiamondCone(ScaledCone):
    """The l1 balls."""

    def __init__(self, alpha: float, pulls: np.ndarray) -> None:
        super().__init__(alpha, pulls)
        self.kernels = library(cast(Any, cone_diamond))
        count, width = pulls.shape
        self.n_products = count * (2 * width + 1)
        self.parts = np.full_like(pulls, alpha / (width + 1))
        self.grows = np.zeros_like(pulls)
        self.own = self.parts, np.zeros_like(pulls), np.zeros_like(pulls)
        self.more, self.written = (self.grows,), (self.diagonal, self.lines, self.right)

    def sizes(self) -> np.ndarray:
        """Return the largest size of an entry of each difference."""
        return np.abs(self.pulls).max(axis=1)

    def lengths(self) -> np.ndarray:
        """Return the sum of sizes of each price."""
        return np.abs(self.prices).sum(axis=1)

    def move(self, step: float, pulls: np.ndarray) -> None:
        """Go along the direction, with the bounds of the entries too."""
        self.parts += step * self.grows
        super().move(step, pulls)


class PowerCone(Cone):
    """The l_p balls of other norms, by a barrier alone: it takes more steps.

    Its steps are made by `update.interior.CentredInterior`.
    """

    def __init__(self, alpha: float, pulls: np.ndarray, q: float) -> None:
        self.q, self.p = q, q / (q - 1.0)
        super().__init__(alpha, pulls)
        self.kernels: Any = library(cast(Any, cone_power))
        slope = 2.0 / self.p + 2.0
        self.parts = np.full_like(pulls, slope / (1.0 + slope * pulls.shape[1]))
        self.grows, self.goal = np.zeros_like(pulls), 0.0
        # Near here the centre is where all prices are 0.
        size = self.parts[0, 0] ** (1.0 / self.p) * np.linalg.norm(pulls)
        self.mean = 2.0 * alpha * float(size)

    def sizes(self) -> np.ndarray:
        """Return the q-norms of the differences."""
        return np.linalg.norm(self.pulls, ord=self.q, axis=1)

    def lengths(self) -> np.ndarray:
        """Return the p-norms of the prices."""
        return np.linalg.norm(self.prices, ord=self.p, axis=1)

    def prepare(self, goal: float) -> None:
        """Prepare a direction to the centre of `goal`."""
        self.goal = goal
        self.kernels.prepare(
            self.alpha, self.p, self.prices, self.pulls, self.parts, self.mean, goal,
            self.diagonal, self.lines, self.right,
        )  # fmt: skip

    def finish(self) -> float:
        """Complete a direction; return the longest step."""
        return self.kernels.finish(
            self.alpha, self.p, self.prices, self.parts, self.grows, self.moves,
            self.mean, self.goal,
        )  # fmt: skip

    def move(self, step: float, pulls: np.ndarray) -> None:
        """Go along the direction, with the bounds of the entries too."""
        self.parts += step * self.grows
        super().move(step, pulls)
        self.tops = self.sizes()
