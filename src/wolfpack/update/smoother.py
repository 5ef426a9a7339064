"""Newton's system of a signal with differences, solved as a Kalman smoother does.

With D the first or second differences, a step solves

    (D W^-1 D' + H) u = right,    x = -W^-1 D' u,

with a block H_t = diag(h_t) + c_t c_t' per difference. So x minimises
1/2 sum w_t |x_t|^2 + 1/2 sum |D x + right|^2 in the norms H_t^-1: it is what a smoother
makes of measurements 0, of variance 1 / w_t, of a state whose differences have the mean
-right and the covariance H_t. The state is x_t, and the slope x_t - x_(t-1) with second
differences. The filter goes forward with the covariance of the state (`Paa`, `Pab`,
`Pbb`); a costate goes back, and u is a part of it.

D W^-1 D' has a condition of n^4 with second differences, and H nearly vanishes where
the signal is straight, so that factors of the matrix itself break down from 10^4 rows
on. The filter never forms it. It takes O(n d^3), a solution O(n d^2).
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit

ROUNDING = 1e-15  # of an entry of a block, below which a pivot is rounding


@jit
def invert(block, out):
    """Write the inverse of a symmetric positive definite block, which is used up.

    A block may be huge along c_t: by the inverse of a Cholesky factor its inverse is
    exact there, up to rounding of the largest entry; by sweeping pivots it is not.
    """
    width = block.shape[0]
    for i in range(width):
        for j in range(i + 1):
            total = block[i, j]
            for k in range(j):
                total -= block[i, k] * block[j, k]
            least = ROUNDING * abs(block[i, i])  # where weights differ by far
            block[i, j] = total / block[j, j] if j < i else np.sqrt(max(total, least))
    for i in range(width):  # the factor's inverse, row after row
        pivot = 1.0 / block[i, i]
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total -= block[i, k] * block[k, j]
            block[i, j] = total * pivot
        block[i, i] = pivot
    for i in range(width):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, width):
                total += block[k, i] * block[k, j]
            out[i, j] = total
            out[j, i] = total


@jit
def multiply(left, right, out):
    """Write the product of two blocks."""
    width = left.shape[0]
    for i in range(width):
        for j in range(width):
            out[i, j] = 0.0
        for k in range(width):
            part = left[i, k]
            for j in range(width):
                out[i, j] += part * right[k, j]


@jit
def begin(variances, is_bent, Paa, Pab, Pbb):
    """Set the covariance after the rows that are free: the first, or the first two."""
    width, last = Paa.shape[0], variances[1] if is_bent else variances[0]
    for i in range(width):
        for j in range(width):
            one = 1.0 if i == j else 0.0
            Paa[i, j] = one * last
            Pab[i, j] = one * last
            Pbb[i, j] = one * (variances[0] + last)


@jit
def set_noise(diagonal, line, noise):
    """Write H_t; return its trace."""
    trace = 0.0
    for i in range(line.size):
        for j in range(line.size):
            noise[i, j] = line[i] * line[j]
        noise[i, i] += diagonal[i]
        trace += noise[i, i]
    return trace


@jit
def follow(variance, noise, P, inverse):
    """Go on by a row with first differences, whose state is x alone."""
    width = P.shape[0]
    for i in range(width):
        for j in range(width):
            noise[i, j] += P[i, j]
        noise[i, i] += variance
    invert(noise, inverse)
    for i in range(width):
        for j in range(width):
            P[i, j] = -variance * variance * inverse[i, j]
        P[i, i] += variance


@jit
def follow_loose(variance, noise, Paa, Pab, Pbb, room, inverse, gain):
    """Go on by a row where H is large: no difference is of terms as large as H."""
    width = Paa.shape[0]
    for i in range(width):
        for j in range(width):
            room[i, j] = Paa[i, j] + Pab[j, i] + (variance if i == j else 0.0)  # Z
    for i in range(width):
        for j in range(i + 1):
            noise[i, j] += room[i, j] + Pab[i, j] + Pbb[i, j]
            Pbb[i, j] = Paa[i, j] + (variance if i == j else 0.0)
    invert(noise, inverse)
    multiply(inverse, room, noise)  # the slope's gain is I - (inverse Z)'
    for i in range(width):
        for j in range(width):
            one = 1.0 if i == j else 0.0
            gain[i, j] = one - noise[j, i]
            Pab[i, j] = variance * (one - noise[i, j])
            Paa[i, j] = variance * (one - variance * inverse[i, j])
    take_product(Pbb, room, noise)


@jit
def follow_stiff(variance, noise, Paa, Pab, Pbb, room, inverse, gain):
    """Go on by a row where H is small: no difference is of terms like `variance`."""
    width = Paa.shape[0]
    for i in range(width):
        for j in range(i + 1):
            Pbb[i, j] += noise[i, j]
            Pbb[j, i] = Pbb[i, j]
            Paa[i, j] += Pab[i, j] + Pab[j, i] + Pbb[i, j]
            Paa[j, i] = Paa[i, j]
            noise[i, j] = Paa[i, j] + (variance if i == j else 0.0)
    invert(noise, inverse)
    for i in range(width):
        for j in range(width):
            Pab[i, j] += Pbb[i, j]
    for i in range(width):
        for j in range(width):
            room[i, j] = Pab[j, i]
    multiply(room, inverse, gain)
    for i in range(width):
        for j in range(width):
            room[i, j] = gain[j, i]
    take_product(Pbb, room, Pab)
    for i in range(width):
        for j in range(width):
            Pab[i, j] = variance * gain[j, i]
    multiply(Paa, inverse, room)
    for i in range(width):
        for j in range(i + 1):
            Paa[i, j] = variance * room[i, j]
            Paa[j, i] = Paa[i, j]


@jit
def take_product(block, left, right):
    """Take left' right, which is symmetric, from a block."""
    width = block.shape[0]
    for i in range(width):
        for j in range(i + 1):
            total = block[i, j]
            for k in range(width):
                total -= left[k, i] * right[k, j]
            block[i, j] = total
            block[j, i] = total


@entry
def factor(variances, is_bent, diagonal, lines, inverses, gains, rooms):
    """Filter the covariance; keep two blocks per row, the second where `is_bent`.

    `variances` has 1 / w_t; `diagonal` and `lines` have h_t and c_t as rows; `rooms` is
    room for five blocks.
    """
    variances, diagonal, lines = borrow(variances), borrow(diagonal), borrow(lines)
    inverses, gains, rooms = borrow(inverses), borrow(gains), borrow(rooms)
    Paa, Pab, Pbb, room, noise = rooms[0], rooms[1], rooms[2], rooms[3], rooms[4]
    begin(variances, is_bent, Paa, Pab, Pbb)
    free = 2 if is_bent else 1
    for t in range(len(lines)):
        trace, variance = set_noise(diagonal[t], lines[t], noise), variances[t + free]
        if is_bent:
            inverse, gain = inverses[t], gains[t]
            if trace > variance:
                follow_loose(variance, noise, Paa, Pab, Pbb, room, inverse, gain)
            else:
                follow_stiff(variance, noise, Paa, Pab, Pbb, room, inverse, gain)
        else:
            follow(variance, noise, Paa, inverses[t])


@jit
def go_forward(variance, is_bent, inverse, gain, right, price, mean, slope, part):
    """Filter the mean by a row; `price` gets what the measurement adds."""
    width = mean.size
    for i in range(width):
        if is_bent:
            slope[i] -= right[i]
            mean[i] += slope[i]
        else:
            mean[i] -= right[i]
    for i in range(width):
        total, more = 0.0, 0.0
        for j in range(width):
            total += inverse[i, j] * mean[j]
            if is_bent:
                more += gain[i, j] * mean[j]
        price[i], part[i] = total, more
    for i in range(width):
        mean[i] = variance * price[i]
        slope[i] -= part[i]


@jit
def go_back(variance, is_bent, inverse, gain, price, value, mean, slope, part, along):
    """Take the costate of x (`mean`) and of the slope back by a row; write u and x."""
    width = mean.size
    for i in range(width):
        along[i] = variance * mean[i]
    for i in range(width):
        total = price[i] - mean[i]  # the gain of x is I - variance inverse
        for j in range(width):
            total += inverse[i, j] * along[j]
            if is_bent:
                total -= gain[j, i] * slope[j]
        part[i] = total
    for i in range(width):
        value[i] = variance * part[i]
        mean[i] += part[i]
        if is_bent:
            price[i] = -(mean[i] + slope[i])
            slope[i] += mean[i]
        else:
            price[i] = -mean[i]


@entry
def substitute(variances, is_bent, inverses, gains, right, prices, values, rooms):
    """Write u and x of the system whose factors are given; `rooms` has four rows."""
    variances, inverses, gains = borrow(variances), borrow(inverses), borrow(gains)
    right, prices, values = borrow(right), borrow(prices), borrow(values)
    rooms = borrow(rooms)
    mean, slope, part, along = rooms[0], rooms[1], rooms[2], rooms[3]
    free = 2 if is_bent else 1
    mean[:] = 0.0
    slope[:] = 0.0
    for t in range(len(right)):
        gain = gains[t] if is_bent else inverses[t]
        go_forward(
            variances[t + free], is_bent, inverses[t], gain, right[t], prices[t], mean,
            slope, part,
        )  # fmt: skip
    mean[:] = 0.0
    slope[:] = 0.0
    for t in range(len(right) - 1, -1, -1):
        gain = gains[t] if is_bent else inverses[t]
        go_back(
            variances[t + free], is_bent, inverses[t], gain, prices[t],
            values[t + free], mean, slope, part, along,
        )  # fmt: skip
    for i in range(mean.size):  # the rows that are free
        if is_bent:
            values[1, i] = -variances[1] * (mean[i] + slope[i])
            values[0, i] = variances[0] * slope[i]
        else:
            values[0, i] = -variances[0] * mean[i]
