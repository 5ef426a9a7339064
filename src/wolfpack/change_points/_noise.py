"""The loop of `noise` that looks for a season."""

import numpy as np

from wolfpack.change_points._evidence import lagged
from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit

ALIKE = 0.1  # the least correlation of rows that are a period apart
EXPLAINED = 0.15  # the least share of the differences that a season explains


@jit
def likeness(steps, lag):
    """Return the mean over columns of the correlation of rows that are `lag` apart."""
    total = 0.0
    for c in range(len(steps)):
        total += lagged(steps[c], 0, lag, lag)
    return total / len(steps)


@jit
def share_of(steps, period, sums):
    """Return the share of the squares that the means of phases explain."""
    (d, m), explained = steps.shape, 0.0
    for c in range(d):
        for k in range(period):
            sums[k] = 0.0
        phase = 0
        for t in range(m):
            sums[phase] += steps[c, t]
            phase = phase + 1 if phase + 1 < period else 0
        for k in range(period):
            explained += sums[k] ** 2 / ((m - k - 1) // period + 1)
    return 1.0 - (1.0 - explained / d) * m / (m - period)


@entry
def best_period(steps, longest):
    """Return the period whose means explain most of the differences, or 0.

    `steps` has a row per column of the signal, of length 1.
    """
    steps = borrow(steps)
    (d, m), best, found = steps.shape, 0.0, 0
    sums = np.empty(longest + 1)
    for lag in range(3, longest + 1):
        if likeness(steps, lag) * m / (m - lag) > ALIKE / d**0.25:
            share = share_of(steps, lag, sums)
            least = 6.0 * np.sqrt(2.0 * lag / d) / m + EXPLAINED / d**0.25
            if share > max(best + 0.05, least):
                best, found = share, lag
    return found
