"""The loops of `evidence`: residuals of models, and how well noise predicts them.

Each works on one column at a time. What a model explains is taken off step by step:
every polynomial follows from the two before it, and a wave turns by the same angle from
row to row.
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit

RIDGE = 1e-9  # of the mean square, so that columns of zeros have a prediction too


@jit
def lagged(rest, i, j, top):
    """Return the sum of rest[t - i] rest[t - j] from row `top` on."""
    a, b, c, d, n = 0.0, 0.0, 0.0, 0.0, rest.size
    whole = top + (n - top) // 4 * 4
    for t in range(top, whole, 4):
        a += rest[t - i] * rest[t - j]
        b += rest[t + 1 - i] * rest[t + 1 - j]
        c += rest[t + 2 - i] * rest[t + 2 - j]
        d += rest[t + 3 - i] * rest[t + 3 - j]
    for t in range(whole, n):
        a += rest[t - i] * rest[t - j]
    return a + b + (c + d)


@jit
def loss(rest, n_fitted, top, products, factor):
    """Return the loss per row for the best order of 0, 1, ..., top.

    The errors of all orders come from one Cholesky factor of the products of the lagged
    columns, in which the row itself is the last.
    """
    m = rest.size - top
    for i in range(top + 1):
        for j in range(i + 1):
            products[i, j] = products[j, i] = lagged(rest, i, j, top)
    floor = 1e-12 * max(products[0, 0], 1e-300)
    small, left, least = 0.0, products[0, 0], np.inf
    for i in range(1, top + 1):
        small += RIDGE * products[i, i] / top
    small += 1e-300
    for p in range(top + 1):
        if p:  # take off what lag p explains beside the lags before it
            for j in range(1, p + 1):
                total = products[p, j] + (small if p == j else 0.0)
                for k in range(1, j):
                    total -= factor[p, k] * factor[j, k]
                if p == j:
                    factor[p, p] = np.sqrt(max(total, small))
                else:
                    factor[p, j] = total / factor[j, j]
            total = products[p, 0]
            for k in range(1, p):
                total -= factor[0, k] * factor[p, k]
            factor[0, p] = total / factor[p, p]
            left -= factor[0, p] ** 2
        free = max(m - p - n_fitted, 1)
        least = min(least, np.log(max(left, floor) / m) + 2.0 * p / free)
    return least


@jit
def take_off_wave(y, cycles, cosines, sines, rest):
    """Write what is left of `y`, whose mean is 0, beside a wave; return its squares."""
    n = y.size
    angle = 2.0 * np.pi * cycles / (n - 1)
    turn, tilt, c, s = np.cos(angle), np.sin(angle), 1.0, 0.0
    sc, ss, scc, sss, scs, scy, ssy = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(n):
        cosines[t], sines[t] = c, s
        sc += c
        ss += s
        scc += c * c
        sss += s * s
        scs += c * s
        scy += c * y[t]
        ssy += s * y[t]
        c, s = turn * c - tilt * s, turn * s + tilt * c
    scc, sss, scs = scc - sc * sc / n, sss - ss * ss / n, scs - sc * ss / n
    whole = scc * sss - scs * scs
    if whole > 1e-12 * n * n:
        a, b = (sss * scy - scs * ssy) / whole, (scc * ssy - scs * scy) / whole
    else:  # half a turn per row has no sines
        a, b = scy / scc, 0.0
    middle, squares = (a * sc + b * ss) / n, 0.0
    for t in range(n):
        rest[t] = y[t] - a * cosines[t] - b * sines[t] + middle
        squares += rest[t] * rest[t]
    return squares


@entry
def losses(Y, n_fitted, top, found):
    """Write the loss per row of each column of residuals."""
    Y, found = borrow(Y), borrow(found)
    products, factor = np.empty((top + 1, top + 1)), np.zeros((top + 1, top + 1))
    rest = np.empty(len(Y))
    for c in range(Y.shape[1]):
        for t in range(len(Y)):
            rest[t] = Y[t, c]
        found[c] = loss(rest, n_fitted, top, products, factor)


@entry
def long_variances(Y, lags, found):
    """Write the long-run variance of each column of mean 0, by Bartlett's weights."""
    Y, n = borrow(Y), len(Y)
    rest = np.empty(n)
    for c in range(Y.shape[1]):
        for t in range(n):
            rest[t] = Y[t, c]
        total = squares = lagged(rest, 0, 0, 0)
        for lag in range(1, min(lags, n - 1) + 1):
            share = 1.0 - lag / (lags + 1.0)
            total += 2.0 * share * lagged(rest, 0, lag, lag)
        found[c] = max(total, 0.1 * squares) / n


@jit
def take_off_power(degree, before, now, rest):
    """Take off the next orthogonal polynomial; `before` and `now` are the last two."""
    n, k, inner, squares = rest.size, degree - 1.0, 0.0, 0.0
    less = k * k * (n * n - k * k) / ((4.0 * k * k - 1.0) * (n - 1.0) ** 2)
    for t in range(n):
        following = (2.0 * t / (n - 1.0) - 1.0) * now[t] - less * before[t]
        before[t], now[t] = now[t], following
        inner += following * rest[t]
        squares += following * following
    for t in range(n):
        rest[t] -= inner / squares * now[t]


@jit
def take_off_level(y, share, rest):
    """Write the errors of exponential smoothing by `share` of the newest row.

    The level begins with the mean of the first rows, 1 / share of them.
    """
    count, level = int(np.rint(1.0 / share)), 0.0
    for t in range(count):
        level += y[t] / count
    for t in range(y.size):
        rest[t] = y[t] - level
        level += share * rest[t]


@entry
def smooth_losses(Y, top, degrees, cycles, shares, found):
    """Write the losses of columns beside models without a change, a row per model.

    They are polynomials, from degree 0 on, the best wave, and exponential smoothing,
    whose errors have order 1 at most. Those with too many parameters are left out.
    """
    Y, found = borrow(Y), borrow(found)
    n, d = Y.shape
    products, factor = np.empty((top + 1, top + 1)), np.zeros((top + 1, top + 1))
    y, left, rest, best = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    one, two = np.empty(n), np.empty(n)
    for c in range(d):
        middle, degree = 0.0, 0
        for t in range(n):
            middle += Y[t, c] / n
        for t in range(n):
            y[t] = left[t] = Y[t, c] - middle
            one[t], two[t] = 0.0, 1.0
        for k in range(len(found)):
            model, n_fitted, order = rest, 2, 1
            if k < degrees.size:
                while degree < degrees[k]:
                    degree += 1
                    take_off_power(degree, one, two, left)
                model, n_fitted, order = left, degree + 1, top
            elif k == degrees.size:
                least = np.inf
                for i in range(cycles.size):
                    squares = take_off_wave(y, cycles[i], one, two, rest)
                    if squares < least:
                        least, rest, best = squares, best, rest
                model, n_fitted, order = best, 4, top
            else:
                share = shares[k - degrees.size - 1]
                if share * n <= 4.0:
                    continue
                take_off_level(y, share, rest)
            if degree < max(n // 6, 2) or k >= degrees.size:
                lost = loss(model, n_fitted, order, products, factor)
                found[k, c] = lost + 2.0 * (n_fitted - 1) / n


@entry
def fit_pieces(Y, weights, starts, straight, fit):
    """Write the mean, or the straight line, of each column of each segment."""
    Y, weights, fit = borrow(Y), borrow(weights), borrow(fit)
    n, d = Y.shape
    for k in range(starts.size):
        first, last = starts[k], starts[k + 1] if k + 1 < starts.size else n
        weight, centre, squares = 0.0, 0.0, 0.0
        for t in range(first, last):
            weight += weights[t]
            centre += weights[t] * (t - first)
        centre = first + centre / weight
        for t in range(first, last):
            squares += weights[t] * (t - centre) ** 2
        for c in range(d):
            middle, tilt = 0.0, 0.0
            for t in range(first, last):
                middle += weights[t] * Y[t, c]
            middle /= weight
            if straight and squares > 0.0:
                for t in range(first, last):
                    tilt += weights[t] * (t - centre) * (Y[t, c] - middle)
                tilt /= squares
            for t in range(first, last):
                fit[t, c] = middle + tilt * (t - centre)
