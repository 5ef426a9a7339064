"""How many blocks a worker steps on between two merges: measured, not guessed.

More blocks a merge make more steps a second, and steps that keep less of what they
promised: the others moved v meanwhile. What counts is their product,

    progress = steps per second x (decrease kept / decrease promised)

and a hill climb over a few sizes, one slice of the run a try, finds its top. It goes on
looking, because the coupling changes on the way to the optimum. Where it sees hardly a
difference it takes the smaller size: older reads also cost in ways that are not in it.
"""

import math

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
LOOK_EVERY = 6  # slices between two looks at a neighbour
TRUST = 0.5  # how much of an old measurement stays
WORTH = 1.1  # times the progress of a size, for the next larger one to be chosen


class Tuner:
    """Chooses the batch of every worker from one slice to the next."""

    def __init__(self, first: int, most: int) -> None:
        self.sizes = [size for size in SIZES if size <= max(1, most)]
        self._progress: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._slices = 0
        self.start(first)

    def start(self, first: float, most: float = math.inf) -> None:
        """Begin with the largest size up to `first`, and take none above `most`."""
        self.sizes = [size for size in self.sizes if size <= max(1, most)]
        self.best = max(k for k, size in enumerate(self.sizes) if size <= max(1, first))
        self._now = self.best

    @property
    def is_new(self) -> bool:
        """Whether it has learned nothing yet."""
        return self._slices == 0

    @property
    def batch(self) -> int:
        """The batch of the next slice."""
        return self.sizes[self._now]

    @property
    def most(self) -> int:
        """The largest batch that it may choose."""
        return self.sizes[-1]

    def learn(self, steps_per_second: float, kept: float) -> None:
        """Take the outcome of a slice into account, and choose the next batch."""
        progress = steps_per_second * min(max(kept, 0.0), 1.0)
        old = self._progress.get(self._now, progress)
        self._progress[self._now] = TRUST * old + (1.0 - TRUST) * progress
        self._slices += 1
        self._seen[self._now] = self._slices
        self.best = max(self._near(), key=lambda k: (self._worth(k), -k))
        others = [k for k in self._near() if k != self.best]
        unknown = [k for k in others if k not in self._progress]
        self._now = self.best
        if unknown:
            self._now = unknown[0]
        elif others and self._slices % LOOK_EVERY == 0:
            self._now = min(others, key=self._seen.__getitem__)

    def _worth(self, k: int) -> float:
        return self._progress.get(k, 0.0) * WORTH**-k

    def _near(self) -> list[int]:
        last = len(self.sizes) - 1
        return [k for k in (self.best, self.best + 1, self.best - 1) if 0 <= k <= last]
