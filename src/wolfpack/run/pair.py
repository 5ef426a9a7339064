"""The certificate of an accelerated run: P at w = v, and f at x.

Weak duality holds for any w and x, so one oracle pass at v bounds f* from below,
whether or not v fits x. The pass gives all block gaps too, and u follows from v and z,

    gap = sum of the block gaps at v + c/2 |u - v|^2

so most checks look at no stored atom; their gap is as exact as v is, about 1e-6 of f in
single precision. Where the goal seems reached, v is long, or the run ends, u = v0 + A x
and <c, x> are computed from the atoms.
"""

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from wolfpack.kernels.memory import copy, widen
from wolfpack.run.certificate import Certificate, Certifier
from wolfpack.run.faults import refuse_endless, refuse_negative
from wolfpack.state import State
from wolfpack.update.outer import Products

# v is computed anew from x after this many passes, because rounding gathers in it, or
# at once where v is long.
REBUILD_PASSES = 25
NEAR = 1.01  # a gap of at most NEAR times the goal is computed from the atoms
# After Ctrl-C the last certificate is made if it takes no longer than this; otherwise
# the result is that of the one before.
PATIENCE_SECONDS = 3.0


class PairCertifier(Certifier):
    """Certifies the iterates of one accelerated run."""

    def __init__(self, *args, goal: float, keeps: bool) -> None:
        super().__init__(*args)
        self.goal = goal
        self._keeps = keeps  # whether v may change before the result is made from it
        self._kept: Any = None  # memory for the v of a certificate

    def certify(
        self, state: State, stop: Callable[[], bool], is_last: bool = True
    ) -> Certificate | None:
        """Bound f(x) - f* for the x of `state`; None if `stop()` ended the pass."""
        begin, outer, c = time.perf_counter(), state.outer, self.problem.ridge
        assert outer is not None
        calls, n = state.n_oracle_calls, self.problem.n_blocks
        exact = self.precise(state.shared)
        best = self._keep(state.shared) if self._keeps else state.shared
        gaps = np.full(n, math.nan)
        least = self._least(state, state.shared, exact, stop, gaps)
        if least is None:
            return None
        found = outer.measure(state.shared, self.origin, self.crew)
        lower = least - c * (0.5 * found.vv - found.vv0) + self._constant
        gap, drift = float(gaps.sum()) + 0.5 * c * found.apart, 0.0
        value = lower + max(gap, 0.0)  # < 0 by rounding
        is_old = calls - outer.numbers.rebuilt >= REBUILD_PASSES * n
        is_old |= self._is_rough(found, outer.reach, state.shared.dtype)
        self.is_exact = is_last or is_old or not gap > NEAR * self.goal
        if self.is_exact:
            image, linear = self.rebuild(state)
            value = self.evaluate(image) + linear
            gap = value - lower
            size = abs(least) + abs(linear) + c * (found.vv + found.uu)
            refuse_negative(self.problem, state, gap, size)
            if is_old and not is_last:
                best = self._keep(state.shared)
                drift = outer.mix(image, state.shared, self.crew)
                outer.numbers.rebuilt = calls
        if math.isfinite(found.vv):
            refuse_endless(self, state, gap)
        gap = gap if math.isnan(gap) else max(gap, 0.0)  # < 0 by rounding
        self.seconds = time.perf_counter() - begin
        if self.seconds > PATIENCE_SECONDS and best is state.shared:
            best = self._keep(best)
        return Certificate(value, gap, drift, state.shared, best, False, gaps)

    def _is_rough(self, found: Products, reach: float, dtype: np.dtype) -> bool:
        """Return whether u, as it follows from v and z, is too rough to tell f(x).

        An error of v is 1/s times as large in u.
        """
        root = math.sqrt(np.finfo(dtype).eps)
        most = self.problem.scale / (root * self.problem.ridge)
        return not (found.vv + found.uu) / reach <= most

    def precise(self, shared: np.ndarray) -> np.ndarray:
        """Return v for exact scores: as it is where `score` adds in double precision.

        The `score` functions of wolfpack do.
        """
        return shared if self.problem.is_ours else super().precise(shared)

    def _keep(self, shared: np.ndarray) -> np.ndarray:
        """Return a copy of v, in the same memory each time.

        No copy is needed where v stays as it is until the result is made, or until the
        next certificate: then the certificate holds v itself.
        """
        if self._kept is None:
            self._kept = copy(shared)
        self._kept[...] = shared
        return self._kept

    @functools.cached_property
    def _constant(self) -> float:
        """g(v) - c/2 |v|^2, the same for every v."""
        square = float(np.square(self.origin).sum())
        value = self.evaluate(widen(self.problem.shared))
        return value - 0.5 * self.problem.ridge * square
