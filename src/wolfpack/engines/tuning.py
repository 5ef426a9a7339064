"""How many blocks a worker steps on between two merges: measured, not guessed.

More blocks a merge make more steps a second, and steps that keep less of what they
promised: the others moved v meanwhile. What counts is their product,

    progress = steps per second x (decrease kept / decrease promised)

and a hill climb over powers of two, one slice of the run a try, finds its top. It goes
on looking, because the coupling changes on the way to the optimum.
"""

import math

LARGEST = 64
LOOK_EVERY = 6  # slices between two looks at a neighbour
TRUST = 0.5  # how much of an old measurement stays


class Tuner:
    """Chooses the batch of every worker from one slice to the next."""

    def __init__(self, first: int, most: int) -> None:
        self.most = 2 ** int(math.log2(max(1, min(LARGEST, most))))
        self.batch = self.best = min(2 ** int(math.log2(max(1, first))), self.most)
        self._progress: dict[int, float] = {}
        self._age: dict[int, int] = {}
        self._slices = 0

    def learn(self, steps_per_second: float, kept: float) -> None:
        """Take the outcome of a slice into account, and choose the next batch."""
        progress = steps_per_second * min(max(kept, 0.0), 1.0)
        old = self._progress.get(self.batch, progress)
        self._progress[self.batch] = TRUST * old + (1.0 - TRUST) * progress
        self._slices += 1
        self._age[self.batch] = self._slices
        self.best = max(self._near(self.best), key=lambda b: self._progress.get(b, 0.0))
        unknown = [b for b in self._near(self.best) if b not in self._progress]
        if unknown:
            self.batch = unknown[0]
        elif self._slices % LOOK_EVERY == 0:
            near = [b for b in self._near(self.best) if b != self.best]
            self.batch = min(near, key=self._age.__getitem__) if near else self.best
        else:
            self.batch = self.best

    def _near(self, batch: int) -> list[int]:
        return [b for b in (2 * batch, batch, batch // 2) if 1 <= b <= self.most]
