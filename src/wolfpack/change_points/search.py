"""The candidates for one signal, and the choice among them; see `choice`."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from wolfpack.change_points.chosen import Choice, nothing
from wolfpack.change_points.elbow import (
    INSIDE,
    NumberPath,
    elbow_path,
    number_path,
    refined,
)
from wolfpack.change_points.evidence import (
    Evidence,
    beside_steps,
    joined_fit,
    price,
    straight_fit,
)
from wolfpack.change_points.exact import Rows, penalised
from wolfpack.change_points.few_rows import LIMIT
from wolfpack.change_points.noise import Noise, estimate_noise
from wolfpack.change_points.pruning import thin
from wolfpack.change_points.stationarity import instability, long_variance

# A point has to gain SHARE (price - d) + MEANS d. The shares are quantiles of what
# candidates gain in signals without a change: 98 of 100 gain less, whatever the noise.
SHARE = {"constant": 0.5, "straight": 0.8}
FEWER = 10  # both are 1 + FEWER / n as large
DRIFTING = 1.9  # more for each column that drifts, because means follow a drift
MEANS = {"constant": 1.1, "straight": 2.2}
IID = 0.8  # the share where noise is known to be independent
PRICES = (0.8, 1.6, 3.2)  # times `price`, of the segmentations that are candidates
# The 10 % points of the tests of Kwiatkowski et al. (1992): of a level, of a slope.
STATIONARY, BESIDE_SLOPE = 0.35, 0.12
SHOWN = 400  # points up to which every number of them is in the path


class Search:
    """Candidates for one signal, and the choice among them."""

    def __init__(self, Y, noise: str, least: int, weights, handicap=0.0) -> None:
        self.noise, self.least, self.weights = noise, least, weights
        self.handicap = handicap
        self.n, self.d = Y.shape
        self.rest: Noise = estimate_noise(Y, noise != "iid")
        self.signal = self.rest.signal
        if weights is not None:
            root = np.sqrt(weights)[:, np.newaxis]
            self.root = root
        else:
            self.root = 1.0
        self.evidence = Evidence(self.signal * self.root, noise)
        self.price = price(self.n, self.d)
        self.rows = Rows(self.signal, weights)
        self.exact = True
        self._gains: dict[tuple[str, bytes], float] = {}

    def choose(self) -> Choice:
        """Return the best significant candidate, else the elbow, else nothing."""
        elbows = {"constant": self._elbow(False)}
        if self.noise == "auto":
            elbows["straight"] = self._elbow(True)
        if self.n >= LIMIT:
            best, found = self._best(elbows)
            if best > 0:
                return self._significant(found, elbows)
        return self._described(elbows)

    def _best(self, elbows) -> tuple[float, tuple[np.ndarray, str]]:
        """Return how far the best candidate is above its threshold, and what it is."""
        tried = [(points, "constant") for points in self._segmentations(self.rest)]
        tried += [(path.points[path.chosen], shape) for shape, path in elbows.items()]
        none = np.zeros(0, np.intp), "constant"
        best, found = max(map(self._scored, tried), default=(0.0, none), key=_first)
        if best > 0 and found[1] == "constant":  # now the noise is known better
            rest = self.rest.beside(found[0])
            again = [(points, "constant") for points in self._segmentations(rest)]
            best, found = max([(best, found), *map(self._scored, again)], key=_first)
        return best, found

    def _scored(self, one: tuple[np.ndarray, str]):
        points, shape = one
        if not len(points) or not self._is_tested(shape):
            return -math.inf, one
        needed = self._threshold(shape) * len(points) + self.handicap
        return self._gain(points, shape) - needed, one

    def _is_tested(self, shape: str) -> bool:
        """Whether a threshold is known: several columns that bend have none."""
        return shape == "constant" or self.d == 1

    def has_steps(self) -> bool:
        """Whether the elbow of constant segments is better than smooth models."""
        path = self._elbow(False)
        points = path.points[path.chosen]
        return len(points) > 0 and self._gain(points, "constant") > 0

    def _threshold(self, shape: str) -> float:
        share = IID if self.noise == "iid" else SHARE[shape]
        share *= 1 + FEWER / self.n
        means = MEANS[shape] * self.d + DRIFTING * self.evidence.n_drifting
        return share * (self.price - self.d) + means

    def _segmentations(self, rest: Noise) -> list[np.ndarray]:
        """Return exact segmentations: whitened, and in deviations of long-run noise."""
        found, rho = {}, rest.rho
        white, long = rest.whitened, rest.signal * (1 - rho)
        tries = [(white, PRICES, 1)] if rho.any() else []
        tries += [(long, PRICES[:1] if tries else PRICES, 0)]
        for Z, factors, shift in tries:
            w = None if self.weights is None else self.weights[shift:]
            rows = Rows(Z, w)
            for factor in factors:
                price = factor * self.price
                points, exact = penalised(Z, price, self.least, w, rows=rows)
                points = points + shift
                self.exact &= exact
                if len(points):
                    found[points.tobytes()] = points
        return list(found.values())

    def _elbow(self, straight: bool, patient: bool = False) -> NumberPath:
        least = self.least + straight
        args = self.signal, self.weights, least, straight, patient
        path = elbow_path(*args, rows=self.rows)
        path.points[path.chosen] = refined(self.signal, path, self.weights, least)
        return path

    def _residuals(self, points: np.ndarray, shape: str) -> tuple[np.ndarray, int]:
        if shape == "straight":
            fitted = straight_fit(self.signal, points, self.weights)
            return (self.signal - fitted) * self.root, 2 * len(points) + 2
        return beside_steps(self.signal, points) * self.root, len(points) + 1

    def _gain(self, points: np.ndarray, shape: str) -> float:
        key = shape, points.tobytes()
        if key not in self._gains:
            self._gains[key] = self.evidence.gain(*self._residuals(points, shape))
        return self._gains[key]

    def _significant(self, found: tuple[np.ndarray, str], elbows) -> Choice:
        """Return the significant points, or an elbow that has more, and is better."""
        points, shape = found
        gain = self._gain(points, shape)
        needed = self._threshold(shape) * len(points) + self.handicap
        more = [(path.points[path.chosen], shape) for shape, path in elbows.items()]
        more = [one for one in more if self._is_tested(one[1])]
        points, shape = min([found, *more], key=lambda one: self._loss(*one))
        significant = self._own_gains(points, shape) > self._threshold(shape)
        if not significant.any():  # together they passed
            points, shape = found
            gains = self._own_gains(points, shape)
            significant = gains >= min(self._threshold(shape), gains.max())
        model = "steps" if shape == "constant" else self._joined_or_not(points)
        reason = (
            f"{_say(model)} explain the signal better than {self._smooth_name()} "
            f"without a change{self._say_season()}: they gain {gain:.4g}, and noise of "
            f"any kind seldom gains {needed:.4g}."
        )
        return Choice(
            points, significant, model, reason, self.rest.period,
            self._with(points, elbows[shape]), exact=self.exact,
        )  # fmt: skip

    def _described(self, elbows: dict[str, NumberPath]) -> Choice:
        """Describe a signal in which no change is significant."""
        period, season = self.rest.period, self._say_season()
        kept = self._keeps_to(elbows)
        if kept:
            reason = f"No change is significant{season}, and the signal keeps {kept}."
            model = "slope" if "slope" in kept else "noise"
            path = elbows["straight" if model == "slope" else "constant"]
            return nothing(model, reason, period, path._replace(chosen=0))
        shape = self._best_described(elbows)
        if not elbows[shape].chosen:  # the elbow may lie beyond what was searched
            elbows = {one: self._elbow(one == "straight", True) for one in elbows}
            shape = self._best_described(elbows)
        path = elbows[shape]
        points = path.points[path.chosen]
        smooth = self._smooth_name()
        if not len(points):
            reason = (
                "No change is significant, and the cost of segments has no elbow: "
                f"{smooth} explains the signal{season}."
            )
            drift = self.evidence.drift
            drift = "noise" if drift == "constant" else drift
            return replace(nothing(drift, reason, period, path), has_elbow=False)
        model = "steps" if shape == "constant" else self._joined_or_not(points)
        reason = (
            f"No change is significant: {smooth} explains the signal as well{season}. "
            f"But it drifts, so {_say(model).lower()} describe it, up to the elbow of "
            "their cost."
        )
        sees_end = bool(path.chosen <= INSIDE * path.numbers[-1])
        insignificant = np.zeros(len(points), bool)
        return Choice(
            points, insignificant, model, reason, period, path, sees_end,
            exact=path.exact,
        )  # fmt: skip

    def _best_described(self, elbows: dict[str, NumberPath]) -> str:
        points = {shape: path.points[path.chosen] for shape, path in elbows.items()}
        return min(points, key=lambda shape: self._loss(points[shape], shape))

    def _keeps_to(self, elbows: dict[str, NumberPath]) -> str:
        """Return what a signal without a drift keeps to; empty where it drifts."""
        if self.noise != "auto" or instability(self.signal) <= STATIONARY:
            return "its level"
        none = np.zeros(0, np.intp)
        slope = straight_fit(self.signal, none, self.weights)
        if instability(self.signal - slope) > BESIDE_SLOPE:
            return ""
        bent = (self._loss(p.points[p.chosen], shape) for shape, p in elbows.items())
        return "to one slope" if self._loss(none, "straight") <= min(bent) else ""

    def _loss(self, points: np.ndarray, shape: str) -> float:
        """Return the Bayesian information criterion, beside smooth models."""
        per_point = self.d + (2 if shape == "straight" else 1)
        return per_point * math.log(self.n) * len(points) - self._gain(points, shape)

    def _own_gains(self, points: np.ndarray, shape: str) -> np.ndarray:
        """Return what each point gains in units of the long-run variance."""
        variance = long_variance(self._residuals(points, shape)[0])
        gains = self.rows.own_gains(points, shape == "straight")
        return (gains / np.where(variance > 0, variance, 1.0)).sum(axis=1)

    def _with(self, points: np.ndarray, path: NumberPath) -> NumberPath:
        """Return the path with the chosen points in it."""
        count = len(points)
        if path.numbers[-1] < count <= SHOWN:
            limit = min(3 * count, self.n - 1)
            more, _ = thin(self.signal, np.arange(1, self.n), limit)
            path = number_path(
                self.signal, 2 * count, weights=self.weights, least=self.least,
                straight=path.straight, candidates=np.union1d(points, more),
            )  # fmt: skip
        cost = self.rows.cost(points, path.straight)
        kept = path.numbers != count
        order = np.argsort([*path.numbers[kept], count])
        numbers = np.array([*path.numbers[kept], count])[order]
        costs = np.array([*path.costs[kept], cost])[order]
        found = [one for one, keep in zip(path.points, kept, strict=True) if keep]
        found = [[*found, points][k] for k in order]
        place = int(np.flatnonzero(numbers == count)[0])
        return path._replace(numbers=numbers, costs=costs, points=found, chosen=place)

    def _joined_or_not(self, points: np.ndarray) -> str:
        if len(points) > 100:
            return "straight segments"
        joined = (
            self.signal - joined_fit(self.signal, points, self.weights)
        ) * self.root
        gain = self.evidence.gain(joined, len(points) + 2)
        better = gain + self.d * math.log(self.n) * len(points)
        alone = self._gain(points, "straight")
        return "straight segments, joined" if better > alone else "straight segments"

    def _smooth_name(self) -> str:
        names = {"slope": "a slope", "curve": "a smooth curve"}
        names |= {"wandering level": "a wandering level", "constant": "noise"}
        names["wave"] = "a wave"
        kind = "independent" if self.noise == "iid" else "dependent"
        name = names[self.evidence.drift]
        return f"{kind} noise" if name == "noise" else f"{name} with {kind} noise"

    def _say_season(self) -> str:
        period = self.rest.period
        return f" (a season of {period} rows was taken off)" if period else ""


def _first(pair: tuple[float, Any]) -> float:
    return pair[0]


def _say(model: str) -> str:
    return {
        "steps": "Constant segments",
        "straight segments": "Straight segments",
        "straight segments, joined": "Joined straight segments",
    }.get(model, "Segments")
