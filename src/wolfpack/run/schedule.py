"""When to look: passes, counted in oracle calls, and the updates that end them.

Counting calls, not updates, lets a run go on with another batch size. A reproducible
engine stops at whole numbers of intervals, where decisions do not depend on the clock.
Others are stopped by the clock, because a pass may take them less time than a check.
"""

import math
from collections.abc import Sequence

# The callback is called at most once in BEAT_SECONDS; one thread runs for at most
# SLICE_SECONDS before it tests for Ctrl-C.
BEAT_SECONDS, SLICE_SECONDS = 0.2, 0.05
# A check is due when the passes have grown by the factor GROWTH, or by MOST, because it
# rebuilds v: rounding gathers in a float32 v (on OCR up to 3e-5 in 50 passes).
GROWTH, MOST = 1.15, 50.0
# An accelerated run knows by its estimate how far it is, and needs few passes. A check
# in the first ones would take a tenth of the time to a tight gap, and tell nothing. A
# coarse goal is reached in two or three, where the estimate still lags.
OUTER_GROWTH, OUTER_FIRST, COARSE_FIRST = 3.0, 5.0, 2.0
# Its threads run for a pass, or for this long, between two outer steps.
OUTER_SECONDS = 0.001
# An estimate at the goal asks for a check, but not before the passes have grown by the
# factor PAUSE, or by MOST_PAUSE: the estimate is biased low, and such checks may fail.
PAUSE, MOST_PAUSE = 1.03, 5.0
# Where the clock decides, checks take at most CHECK_SHARE of the time of the updates,
# or HOPE_SHARE when the goal seems reached.
CHECK_SHARE, HOPE_SHARE = 0.2, 2.0
# A slice of threads lasts at least LEAST_SECONDS, because they need time to wake up,
# and has at least LEAST_CALLS a thread, because all wait for the slowest at its end.
LEAST_SECONDS, LEAST_CALLS = 0.025, 50


class Schedule:
    """Says how long to run before the next decision, and whether to check then."""

    def __init__(self, n_blocks: int, options, engine) -> None:
        self.n_blocks, self.batch_size = n_blocks, options.batch_size
        self.max_epochs, self.check_every = options.max_epochs, options.check_every
        between = options.check_every or 1.0
        if options.accelerate:  # outer steps are considered once a pass
            between = min(between, 1.0)
        self.calls_between = between * n_blocks
        self.n_workers, self.clocked = engine.size, not engine.reproducible
        self.is_accelerated = options.accelerate
        self.first = COARSE_FIRST if options.is_coarse else OUTER_FIRST
        self.looks_first = not options.accelerate  # whether to check before any update

    def epoch(self, calls: int) -> float:
        """Return the passes that `calls` oracle calls make."""
        return calls / self.n_blocks

    def is_last(self, calls: int) -> bool:
        """Return whether all passes are made."""
        return self._updates(self.max_epochs * self.n_blocks - calls) <= 0

    def slice(self, calls: int, rate: float, seconds: float) -> int:
        """Return how many calls to make next, at `rate` calls a second.

        LEAST_SECONDS is cut to `seconds`, the time of the run so far, so that a short
        run takes at most twice as long.
        """
        size = self.batch_size
        least = LEAST_CALLS * self.n_workers
        if self.is_accelerated:  # outer steps are made between slices
            seconds = min(seconds, max(self.n_blocks / rate, OUTER_SECONDS))
        last = self._updates(self.max_epochs * self.n_blocks - calls)
        wanted = self.updates_to_decision(calls)
        if self.clocked:
            wanted = max(
                min(wanted, rate * BEAT_SECONDS / size),
                rate * min(LEAST_SECONDS, seconds) / size,
                least / size,
            )
        elif self.n_workers == 1:
            wanted = min(wanted, rate * SLICE_SECONDS / size)
        return int(max(1, min(last, wanted))) * size

    def updates_to_decision(self, calls: int) -> float:
        """Return how many more updates lead to the next decision."""
        passed = math.floor(calls / self.calls_between)
        for multiple in (passed, passed + 1, passed + 2):  # rounding aside, the second
            updates = self._updates(multiple * self.calls_between - calls)
            if updates > 0:
                return updates
        return 1

    def is_decision(self, calls: int) -> bool:
        """Return whether the last update ended an interval."""
        before = calls - self.batch_size
        return (
            self.clocked
            or calls == 0
            or before + self.updates_to_decision(before) * self.batch_size <= calls
        )

    def is_due(self, calls: int, checked: int, hope: bool, share: float) -> bool:
        """Return whether to check now, after a check `checked` calls into the run.

        `hope`: the goal seems reached. `share`: the time of the last check, relative to
        that of the updates since.
        """
        now, before = self.epoch(calls), self.epoch(checked)
        if calls == 0:
            return self.looks_first
        if self.check_every:
            is_always = not (self.clocked or self.is_accelerated)
            return is_always or now - before >= self.check_every - 1e-9
        growth, first = GROWTH, 1.0
        if self.is_accelerated:
            growth, first = OUTER_GROWTH, self.first
        due = now >= before + min(max((growth - 1.0) * before, first), MOST)
        hope &= now >= before + min((PAUSE - 1.0) * before, MOST_PAUSE)
        if self.clocked:
            due, hope = due and share <= CHECK_SHARE, hope and share <= HOPE_SHARE
        return due or hope

    def foresees(self, goal: float, epoch: float, trace: Sequence) -> bool:
        """Return whether the gap, extrapolated from two checks, is at the goal now.

        The gap is taken for a power of the passes. False for a reproducible engine: a
        resumed run has no trace, and must check at the same updates as an unbroken one.
        """
        rows = [row for row in trace[-2:] if row.epoch > 0.0]
        if not self.clocked or len(rows) < 2:
            return False
        (early, high), (late, low) = ((row.epoch, row.gap) for row in rows)
        if not (early < late and goal < low < high):
            return False
        power = math.log(high / low) / math.log(late / early)
        return low * (late / epoch) ** power <= goal

    def _updates(self, calls: float) -> float:
        if math.isinf(calls):
            return math.inf
        return max(0, math.ceil(calls / self.batch_size - 1e-9))
