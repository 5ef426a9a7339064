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
def loss(rest, n_fitted, top, products):
    """Return the loss per row for the best order of 0, 1, ..., top.

    Lags are eliminated from the products of the lagged columns, one after the other;
    what is left of the product of the row with itself is the error.
    """
    m = rest.size - top
    small, least = 1e-300, np.inf
    for i in range(top + 1):
        for j in range(i + 1):
            total = 0.0
            for t in range(top, rest.size):
                total += rest[t - i] * rest[t - j]
            products[i, j] = products[j, i] = total
        if i:
            small += RIDGE * products[i, i] / top
    floor = 1e-12 * max(products[0, 0], 1e-300)
    for p in range(top + 1):
        if p:
            pivot = max(products[p, p] + small, small)
            for i in range(top + 1):
                share = products[i, p] / pivot
                if i != p:
                    for j in range(top + 1):
                        products[i, j] -= share * products[p, j]
        free = max(m - p - n_fitted, 1)
        found = np.log(max(products[0, 0], floor) / m) + 2.0 * p / free
        least = min(least, found)
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
def losses(Y, n_fitted, top, degrees, cycles, shares, products, work, found):
    """Write the losses of columns beside models without a change, a row per model.

    They are polynomials, from degree 0 on, the best wave, and exponential smoothing,
    whose errors have order 1 at most. Those with too many parameters are left out. With
    a single row, Y are residuals of a model of `n_fitted` parameters.
    """
    Y, found, products = borrow(Y), borrow(found), borrow(products)
    y, left, rest, best, one, two = borrow(work)
    (n, d), single = Y.shape, len(found) == 1
    for c in range(d):
        middle, degree = 0.0, 0
        for t in range(n):
            middle += 0.0 if single else Y[t, c] / n
        for t in range(n):
            y[t] = left[t] = Y[t, c] - middle
            one[t], two[t] = 0.0, 1.0
        for k in range(len(found)):
            model, order = rest, 1
            if k < degrees.size:
                while degree < degrees[k]:
                    degree += 1
                    take_off_power(degree, one, two, left)
                if degree >= max(n // 6, 2):
                    continue
                model, order = left, top
                n_fitted = n_fitted if single else degree + 1
            elif k == degrees.size:
                least = np.inf
                for i in range(cycles.size):
                    squares = take_off_wave(y, cycles[i], one, two, rest)
                    if squares < least:
                        least, rest, best = squares, best, rest
                model, order, n_fitted = best, top, 4
            else:
                share, n_fitted = shares[k - degrees.size - 1], 2
                if share * n <= 4.0:
                    continue
                take_off_level(y, share, rest)
            free = 0.0 if single else 2.0 * (n_fitted - 1) / n
            found[k, c] = loss(model, n_fitted, order, products) + free


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
            middle, tilt, offset = 0.0, 0.0, Y[first, c]  # which costs no digits
            for t in range(first, last):
                middle += weights[t] * (Y[t, c] - offset)
            middle = offset + middle / weight
            if straight and squares > 0.0:
                for t in range(first, last):
                    tilt += weights[t] * (t - centre) * (Y[t, c] - middle)
                tilt /= squares
            for t in range(first, last):
                fit[t, c] = middle + tilt * (t - centre)
