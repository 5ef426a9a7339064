"""The work behind `wolfpack theory`: constants, predictions, advice, plain words."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from wolfpack import theory
from wolfpack.advice import Advice, suggest_batch_size
from wolfpack.files.replace import save_picture
from wolfpack.problem import Problem
from wolfpack.run.interrupt import AllOrNothing
from wolfpack.solve import solve

# A sample searches all of v: to search this many numbers takes about ten seconds.
MOST_NUMBERS = 3e7
HEADER = ("tau", "curvature", "predicted", "measured", "calls", "collisions")
WAYS = {
    "joint": "if all of its blocks move by one gamma",
    "merge": "as {} threads make it, each its share, and merge",
    "direct": "as tau threads make it, each with a block of its own",
}
MOST_SAMPLES, LEAST_SAMPLES = 1000, 8


@dataclasses.dataclass(frozen=True)
class Report:
    """What theory says of a problem, and what was measured."""

    problem: Problem
    constants: theory.Constants
    advice: Advice
    n_samples: int
    tol: float
    first_gap: float

    @classmethod
    def make(
        cls,
        problem: Problem,
        *,
        tol: float,
        workers: int | None,
        samples: int | None,
        confidence: float,
        seed: int,
    ) -> "Report":
        """Measure everything."""
        if not 0 < tol < math.inf:
            raise ValueError(f"tol must be a finite number > 0; given was {tol!r}.")
        count = samples or _choose_samples(problem)
        constants = theory.measure_constants(
            problem, n_samples=count, confidence=confidence, rng=seed
        )
        with AllOrNothing():
            first = solve(problem, accelerate=False, max_epochs=0, tol=0, rng=seed)
        advice = suggest_batch_size(problem, workers, rng=seed)
        return cls(problem, constants, advice, count, tol, first.gap)

    @property
    def batch_sizes(self) -> np.ndarray:
        """1, 2, 4, ... and n."""
        n = self.problem.n_blocks
        return np.unique([*(2 ** np.arange(n.bit_length())).clip(max=n), n])

    @property
    def ratio(self) -> float:
        """The interference mu / B."""
        B, mu = self.constants[:2]
        return mu / B if B > 0 else 0.0

    @property
    def half_linear(self) -> float:
        """The tau at which the predicted speed-up is half of tau."""
        return 1.0 + 1.0 / self.ratio if self.ratio > 0 else math.inf

    def speedup(self) -> np.ndarray:
        """Return the predicted speed-up of each tau."""
        return theory.predicted_speedup(self.batch_sizes, 1.0, self.ratio)

    def measured(self) -> np.ndarray:
        """Return the measured worth of each tau, NaN where it was not looked at."""
        sizes, found = self.advice.batch_sizes, self.advice.coupling
        if sizes[0] > 1:
            sizes, found = np.append(1, sizes), np.append(1.0, found)
        taus = self.batch_sizes
        here = np.interp(np.log(taus), np.log(sizes), found, right=math.nan)
        return here * taus

    def rates(self, batch_size: int) -> theory.Rates:
        """Return Theorems 1 and 2 for one tau."""
        B, mu = self.constants[:2]
        bend = theory.curvature_bound(batch_size, B, mu)
        n = self.problem.n_blocks
        return theory.Rates(n, batch_size, bend, max(self.first_gap, 0.0))

    def iterations(self, batch_size: int) -> float:
        """Return the updates after which Theorem 1 promises tol."""
        return float(
            self.rates(batch_size).primal_iterations(self.tol * self.problem.scale)
        )

    def delay_error(self) -> float | None:
        """Return Theorem 4's delta of single updates, T of them late; None: unknown.

        In the norm of H the diameter of a block is at most 2 sqrt(B_i).
        """
        B, per_block = self.constants.boundedness, self.constants.per_block
        if self.constants.source != "exact" or per_block is None or not B > 0:
            return None
        size = 2.0 * math.sqrt(float(per_block.max()))
        bend = theory.curvature_bound(1, B, 0.0)
        return float(
            theory.delay_error(
                self.advice.n_workers, 1, bend, diameter_one=size, diameter_batch=size
            )
        )

    def to_dict(self, **about: Any) -> dict[str, Any]:
        """Return the whole report as a dict for JSON."""
        taus, constants, advice = self.batch_sizes, self.constants, self.advice
        B, mu = constants[:2]
        n = self.problem.n_blocks
        calls = theory.expected_calls(n, taus)
        found = {
            **about,
            "n_blocks": n,
            **constants._asdict(),
            "interference": self.ratio,
            "n_samples": self.n_samples if constants.source == "sampled" else None,
            "batch_sizes": taus,
            "curvature_bound": theory.curvature_bound(taus, B, mu),
            "predicted_speedup": self.speedup(),
            "half_linear_batch_size": self.half_linear,
            "measured_speedup": self.measured(),
            "expected_calls": calls,
            "expected_collisions": calls - taus,
            "tol": self.tol,
            "first_gap": self.first_gap,
            "iterations": self.iterations(1),
            "iterations_suggested": self.iterations(advice.batch_size),
            "delay_error": self.delay_error(),
            "advice": dataclasses.asdict(advice),
        }
        del found["per_block"]
        return _plain(found)

    def show(self, say: Callable) -> None:
        """Print the whole report."""
        lines = [*self._constants_in_words(), *self._speedup_in_words()]
        say("\n".join(lines), markup=False)
        say(self.table())
        tau, T = self.advice.batch_size, self.advice.n_workers
        lines = [*self._bounds_in_words(tau, T), f"Suggested: {self.advice.reason}"]
        say("\n".join(lines), markup=False)

    def table(self) -> Table:
        """Return predictions by tau."""
        table = Table(box=None, pad_edge=False)
        for name in HEADER:
            table.add_column(name, justify="right")
        taus, B, mu = self.batch_sizes, *self.constants[:2]
        calls = theory.expected_calls(self.problem.n_blocks, taus)
        columns = (theory.curvature_bound(taus, B, mu), self.speedup(), self.measured())
        for tau, call, *numbers in zip(taus, calls, *columns, strict=True):
            bend, speedup, seen = numbers
            table.add_row(
                str(tau), f"{bend:.3g}", f"{speedup:.1f}",
                "" if math.isnan(seen) else f"{seen:.1f}",
                f"{call:.1f}", f"{call - tau:.1f}",
            )  # fmt: skip
        return table

    def draw(self, path: Path) -> None:
        """Draw the speed-up against tau."""
        from wolfpack.plotting import plot_speedup

        ax = plot_speedup(self.batch_sizes, self.speedup(), self.advice)
        save_picture(ax.figure, path)

    def _constants_in_words(self) -> list[str]:
        found, n = self.constants, self.problem.n_blocks
        lines = [
            f"n = {n} blocks, so tau may be 1 to {n}.",
            f"B = {found.boundedness:.4g} is how much a block bends f, mu = "
            f"{found.incoherence:.4g} how much two blocks interfere; mu / B = "
            f"{self.ratio:.3g}.",
        ]
        if found.source == "exact":
            return [*lines, "Both are exact."]
        (b0, b1), (m0, m1) = found.boundedness_interval, found.incoherence_interval
        return [
            *lines,
            f"Both were searched for in {self._looked_at()}. A search may miss the "
            "largest value of a block, so both err low.",
            f"B is at least {b0:.3g} and mu at least {m0:.3g}. Where no block was "
            f"missed, B is at most {b1:.3g}, and mu, a mean of values of at most "
            f"sqrt(B_i B_j), at most {m1:.3g}.",
        ]

    def _looked_at(self) -> str:
        n, count = self.problem.n_blocks, self.n_samples
        if n * (n - 1) // 2 <= count:
            return "all blocks and pairs"
        sure = f"the bounds hold with probability {self.constants.confidence:g} each"
        return f"{count} blocks and pairs, drawn at random ({sure})"

    def _speedup_in_words(self) -> list[str]:
        half, n = self.half_linear, self.problem.n_blocks
        where = f"half of linear at tau = {half:.3g}"
        if half > n:
            where = "more than half of linear for every tau"
        return [
            "",
            f"predicted: the speed-up tau / (1 + (tau - 1) mu / B) is {where}.",
            f"  It compares two bounds. {self._compare()}",
            "measured: how many updates of one block an update of tau is worth, "
            f"{WAYS[self.advice.way].format(self.advice.n_workers)}.",
            "curvature: the bound 4 (tau B + tau (tau - 1) mu) of Theorem 3.",
            "calls, collisions: the oracle calls of an update whose workers draw "
            "blocks blindly, and those in vain (Proposition 1).",
            "",
        ]

    def _compare(self) -> str:
        seen = self.measured()
        last = int(np.flatnonzero(np.isfinite(seen))[-1])
        if seen[last] > self.speedup()[last]:
            return (
                "Here they are pessimistic: B and mu are about the worst points of the "
                "sets, where no run stays."
            )
        return "Here they promise more than was measured."

    def _bounds_in_words(self, tau: int, T: int) -> list[str]:
        n, one = self.problem.n_blocks, self.iterations(1)
        text = (
            f"Theorem 1 promises tol = {self.tol:g} after {one:.3g} updates of one "
            f"block, {one / n:.3g} passes"
        )
        if tau > 1:
            many = self.iterations(tau)
            text += f"; after {many:.3g} updates of {tau}, {many * tau / n:.3g} passes"
        lines = ["", text + ". Runs mostly take far fewer."]
        delta = self.delay_error()
        if delta is None:
            lines.append(
                "What delay costs (Theorem 4) is left out: it needs the diameters of "
                "the blocks, which are not known here."
            )
        elif T > 1:
            lines.append(
                f"Updates of one block that come {T} updates late raise the constant "
                f"of that bound by a factor of at most 1 + delta = {1 + delta:.3g} "
                "(Theorem 4)."
            )
        return lines


def _choose_samples(problem: Problem) -> int:
    count = int(MOST_NUMBERS / problem.shared.size)
    return min(max(count, LEAST_SAMPLES), MOST_SAMPLES)


def _plain(value: Any) -> Any:
    """Return numbers and lists that JSON knows; what is not finite becomes None."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
