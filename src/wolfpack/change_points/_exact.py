"""The loops of `exact`: segments between the rows `bounds[0]`, ..., `bounds[m]`.

A segment costs its sum of squares around its mean, or around its straight line. Running
sums up to each bound give the cost of any segment in O(d):

    W, X, XX    of the weights w, of w t and of w t^2
    S, T        of w y and of w t y, one column each
    Q           of w y^2, over all columns
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.simd import fetch, largest, load, plus

INFINITE = 1e300
LANES = 16  # numbers that are compared at once


@jit
def piece_cost(sums, i, j, straight):
    """Return the sum of squares of the rows between the bounds i and j."""
    W, X, XX, S, T, Q = sums
    weight = W[j] - W[i]
    rest = Q[j] - Q[i]
    spread_x = 0.0
    if straight:
        spread_x = XX[j] - XX[i] - (X[j] - X[i]) ** 2 / weight
    middle = (X[j] - X[i]) / weight
    for c in range(S.shape[1]):
        total = S[j, c] - S[i, c]
        rest -= total * total / weight
        if straight and spread_x > 1e-9:
            tilt = T[j, c] - T[i, c] - middle * total
            rest -= tilt * tilt / spread_x
    return max(rest, 0.0)


@jit
def follow(back, m, points):
    """Write the bounds where segments begin, ascending; return how many."""
    count, j = 0, m
    while back[j] > 0:
        j = back[j]
        count += 1
    j = m
    for k in range(count - 1, -1, -1):
        j = back[j]
        points[k] = j
    return count


@entry
def prune_pairs(sums, bounds, price, least, straight, limit, points):
    """Minimise cost + price per point by PELT; -1 after `limit` evaluations.

    A start that is dominated at row t stays until t + least, because up to there the
    segment that dominates it would be too short.
    """
    sums, m = borrow(sums), bounds.size - 1
    best, back = np.full(m + 1, INFINITE), np.zeros(m + 1, np.int64)
    best[0] = -price
    alive, ends = np.zeros(m + 1, np.int64), np.full(m + 1, bounds[m] + 1)
    costs, count, work = np.empty(m + 1), 1, 0
    for j in range(1, m + 1):
        least_cost, arg = INFINITE, 0
        work += count
        if work > limit:
            return -1
        for r in range(count):
            i = alive[r]
            costs[r] = -INFINITE
            if bounds[j] - bounds[i] >= least:
                costs[r] = best[i] + piece_cost(sums, i, j, straight)
                if costs[r] < least_cost:
                    least_cost, arg = costs[r], i
        if least_cost < INFINITE:
            best[j], back[j] = least_cost + price, arg
        kept = 0
        for r in range(count):
            i = alive[r]
            if costs[r] > best[j]:
                ends[i] = min(ends[i], bounds[j] + least)
            if bounds[j] + 1 < ends[i]:
                alive[kept] = i
                kept += 1
        if best[j] < INFINITE:
            alive[kept] = j
            kept += 1
        count = kept
    return follow(back, m, points)


@jit
def crossings(sums, best, i, j):
    """Return where an older start i is better than j: an interval of the mean."""
    W, _, _, S, _, Q = sums
    weight, total = W[j] - W[i], S[j, 0] - S[i, 0]
    middle = total / weight
    rest = best[i] - best[j] + Q[j] - Q[i]
    under = middle * middle - rest / weight
    if under <= 0.0:
        return middle, middle
    half = np.sqrt(under)
    return middle - half, middle + half


@jit
def insert(sums, best, j, pieces, count, spare):
    """Add the start j to the minimum over starts, as a function of the mean."""
    lefts, labels = pieces
    new_lefts, new_labels = spare
    kept = 0
    for r in range(count):
        low, high, i = lefts[r], lefts[r + 1], labels[r]
        first, last = crossings(sums, best, i, j)
        first, last = min(max(first, low), high), max(min(last, high), low)
        for part in range(3):
            begin = low if part == 0 else (first if part == 1 else last)
            end = first if part == 0 else (last if part == 1 else high)
            label = i if part == 1 else j
            if end > begin and not (kept and new_labels[kept - 1] == label):
                new_lefts[kept], new_labels[kept] = begin, label
                kept += 1
    if kept == 0:
        new_lefts[0], new_labels[0], kept = lefts[0], j, 1
    new_lefts[kept] = lefts[count]
    for r in range(kept):
        lefts[r], labels[r] = new_lefts[r], new_labels[r]
    lefts[kept] = new_lefts[kept]
    return kept


@entry
def prune_means(sums, bounds, price, least, ends, limit, points):
    """Minimise cost + price per point of one column by functional pruning (FPOP).

    `ends` has the smallest and the largest mean. The list of pieces has the start that
    is best for each mean; -1 after `limit` pieces have been visited.
    """
    sums = W, _, _, S, _, Q = borrow(sums)
    m = bounds.size - 1
    best, back = np.full(m + 1, INFINITE), np.zeros(m + 1, np.int64)
    best[0] = -price
    size = 3 * m + 8
    pieces = np.empty(size), np.empty(size, np.int64)
    spare = np.empty(size), np.empty(size, np.int64)
    lefts, labels = pieces
    count, coming, work = 0, 0, 0
    for j in range(1, m + 1):
        while coming < j and bounds[j] - bounds[coming] >= least:
            if best[coming] < INFINITE:
                if count == 0:
                    lefts[0], lefts[1], labels[0], count = ends[0], ends[1], coming, 1
                else:
                    count = insert(sums, best, coming, pieces, count, spare)
            coming += 1
        work += count
        if work > limit or 3 * count + 8 > size:
            return -1
        for r in range(count):
            i = labels[r]
            weight, total = W[j] - W[i], S[j, 0] - S[i, 0]
            mean = min(max(total / weight, lefts[r]), lefts[r + 1])
            cost = best[i] + Q[j] - Q[i] - 2.0 * mean * total + mean * mean * weight
            if cost + price < best[j]:
                best[j], back[j] = cost + price, i
    return follow(back, m, points)


@jit
def write_gains(sums, j, count, straight, places, gains):
    """Write minus the costs of the segments from the first `count` bounds to bound j.

    Loops over columns are outside, so that those over bounds use vectors.
    """
    W, X, XX, S, T, Q = sums
    middle, inverse = places
    for i in range(count):
        gains[i] = Q[i] - Q[j]
    if straight:
        for i in range(count):
            middle[i] = (X[j] - X[i]) / (W[j] - W[i])
            width = XX[j] - XX[i] - (X[j] - X[i]) * middle[i]
            inverse[i] = 1.0 / width if width > 1e-9 else 0.0
    for c in range(S.shape[1]):
        for i in range(count):
            gains[i] += (S[j, c] - S[i, c]) ** 2 / (W[j] - W[i])
        if straight:
            for i in range(count):
                tilt = T[j, c] - T[i, c] - middle[i] * (S[j, c] - S[i, c])
                gains[i] += tilt * tilt * inverse[i]
    for i in range(count):
        gains[i] = min(gains[i], 0.0)


@jit
def best_start(best, offset, gains, first, count):
    """Return the largest best[offset + i] + gains[i], i >= first, and the first i.

    Vectors find the LANES numbers in which it is; both arrays have room for LANES more.
    """
    most, near = -INFINITE, first
    for i in range(first, count, LANES):
        both = plus(load(best, offset + i, LANES), load(gains, i, LANES))
        top = largest(both)
        if top > most:
            most, near = top, i
    if most > -INFINITE:
        while fetch(best, offset + near) + fetch(gains, near) != most:
            near += 1
    return most, near


@entry
def best_numbers(sums, bounds, most, least, straight, costs, points):
    """Find the least cost with 0, 1, ..., `most` points; row k of points has k."""
    sums, m = borrow(sums), bounds.size - 1
    width = m + 1 + LANES
    best = np.full((most + 1, width), -INFINITE)  # of minus the cost
    back = np.zeros((most + 1, m + 1), np.int32)
    gains = np.full(width, -INFINITE)  # of the segments that end at j
    places, count = (np.empty(m), np.empty(m)), 0
    firsts = np.full(most + 1, m)  # the first bound that k points can come before
    for j in range(1, m + 1):
        while count < j and bounds[j] - bounds[count] >= least:
            count += 1
        write_gains(sums, j, count, straight, places, gains)
        if count > 0:
            best[0, j], firsts[0] = gains[0], min(firsts[0], j)
        for k in range(1, most + (j == m)):  # all of them only before the end
            first = firsts[k - 1]
            if first < count:
                found = best_start(best, (k - 1) * width, gains, first, count)
                best[k, j], back[k, j] = found
                firsts[k] = min(firsts[k], j)
    for k in range(most + 1):
        costs[k], j = -best[k, m], m
        if costs[k] < INFINITE:
            for p in range(k - 1, -1, -1):
                j = back[p + 1, j]
                points[k, p] = j


@entry
def best_few(many, most, least, costs):
    """Find the least sum of squares with 1, ..., `most` points of each short signal."""
    n, d = many.shape[1:]
    sums, best = np.zeros((n + 1, d)), np.empty((n + 1, most + 1))
    squares = np.zeros(n + 1)
    for s in range(many.shape[0]):
        for t in range(n):
            squares[t + 1] = squares[t]
            for c in range(d):
                sums[t + 1, c] = sums[t, c] + many[s, t, c]
                squares[t + 1] += many[s, t, c] ** 2
        best[:] = INFINITE
        for j in range(least, n + 1):
            for i in range(j - least + 1):
                rest = squares[j] - squares[i]
                for c in range(d):
                    rest -= (sums[j, c] - sums[i, c]) ** 2 / (j - i)
                rest = max(rest, 0.0)
                if i == 0:
                    best[j, 0] = rest
                    continue
                for k in range(1, most + 1):
                    best[j, k] = min(best[j, k], best[i, k - 1] + rest)
        for k in range(most):
            costs[s, k] = best[n, k + 1]
