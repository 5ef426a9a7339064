"""When to look: passes, counted in oracle calls, and the updates that end them.

Counting calls, not updates, lets a run go on with another batch size.
"""

import math

# A check is due when passes have grown by so much, or by so many: v is rebuilt then,
# and rounding gathers in a float32 v (on OCR up to 3e-5 relative in 50 passes).
GROWTH, MOST = 1.15, 50.0
# An estimate at the goal asks for a check, but not sooner than this after the last one:
# it may promise too much, again and again.
PAUSE, MOST_PAUSE = 1.03, 5.0


class Schedule:
    """Places decisions at every multiple of an interval of passes."""

    def __init__(self, n_blocks: int, batch_size: int, interval: float) -> None:
        self.n_blocks, self.batch_size = n_blocks, batch_size
        self.calls_between = interval * n_blocks

    def epoch(self, calls: int) -> float:
        """Return the passes that so many oracle calls make."""
        return calls / self.n_blocks

    def updates_to(self, epochs: float, calls: int) -> float:
        """Return how many more updates complete so many passes."""
        return self._updates(epochs * self.n_blocks - calls)

    def updates_to_decision(self, calls: int) -> float:
        """Return how many more updates lead to the next decision."""
        passed = math.floor(calls / self.calls_between)
        for multiple in (passed, passed + 1, passed + 2):  # rounding aside, the second
            updates = self._updates(multiple * self.calls_between - calls)
            if updates > 0:
                return updates
        return 1

    def is_decision(self, calls: int) -> bool:
        """Return whether the last update reached or passed a multiple."""
        before = calls - self.batch_size
        return (
            calls == 0
            or before + self.updates_to_decision(before) * self.batch_size <= calls
        )

    def is_due(self, calls: int, checked: int) -> bool:
        """Return whether passes have grown enough since the last check."""
        epoch, before = self.epoch(calls), self.epoch(checked)
        return epoch >= before + min(max((GROWTH - 1.0) * before, 1.0), MOST)

    def is_soon(self, calls: int, checked: int) -> bool:
        """Return whether a check now would follow the last one too closely."""
        epoch, before = self.epoch(calls), self.epoch(checked)
        return epoch < before + min((PAUSE - 1.0) * before, MOST_PAUSE)

    def _updates(self, calls: float) -> float:
        if math.isinf(calls):
            return math.inf
        return max(0, math.ceil(calls / self.batch_size - 1e-9))
