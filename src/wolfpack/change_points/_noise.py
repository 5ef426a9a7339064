"""The loops of `noise`: the period of a season, and running medians."""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry

ALIKE = 0.1  # the least correlation of rows that are a period apart
EXPLAINED = 0.15  # the least share of the differences that a season explains


@entry
def best_period(steps, longest):
    """Return the period whose means explain most of the differences, or 0.

    `steps` has columns of length 1. Only periods at which rows are alike are tried.
    """
    steps = borrow(steps)
    (m, d), best, found = steps.shape, 0.0, 0
    for lag in range(3, longest + 1):
        alike, explained = 0.0, 0.0
        for t in range(lag, m):
            for c in range(d):
                alike += steps[t, c] * steps[t - lag, c] / d
        if alike * m / (m - lag) <= ALIKE / d**0.25:
            continue
        for c in range(d):
            for k in range(lag):
                total, count = 0.0, 0
                for t in range(k, m, lag):
                    total += steps[t, c]
                    count += 1
                explained += total * total / count / d
        share = 1.0 - (1.0 - explained) * m / (m - lag)
        least = 6.0 * np.sqrt(2.0 * lag / d) / m + EXPLAINED / d**0.25
        if share > max(best + 0.05, least):
            best, found = share, lag
    return found


@entry
def running_median(Y, width, found):
    """Write the median of `width` rows around each row; beyond the ends Y is mirrored.

    The rows of a window are kept in order: one leaves it, and one comes in.
    """
    Y, found = borrow(Y), borrow(found)
    n, half = len(Y), width // 2
    window = np.empty(width)
    for c in range(Y.shape[1]):
        for t in range(-half, n + half):
            row = -t if t < 0 else 2 * n - 2 - t if t >= n else t
            count = min(t + half, width)
            if count == width:
                before = abs(t - width)
                count, k = width - 1, 0
                while k < count and window[k] != Y[before, c]:
                    k += 1
                for i in range(k, count):
                    window[i] = window[i + 1]
            k = count
            while k > 0 and window[k - 1] > Y[row, c]:
                window[k] = window[k - 1]
                k -= 1
            window[k] = Y[row, c]
            if t >= half:
                found[t - half, c] = window[half]
