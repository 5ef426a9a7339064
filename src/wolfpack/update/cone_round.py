"""Interior steps where prices have a Euclidean ball: |u_t| <= alpha.

Row t has a price u and a pull y, minus the difference of the signal, with a bound y0 on
its size: s = (alpha, u) and z = (y0, y) lie in the cone of (x0, x) with x0 >= |x|. The
scaling W of Nesterov and Todd makes both the same, W z = W^-1 s = l, and is known from

    w = (s / |s| + J z / |z|) / (2 g),    g^2 = (1 + <s / |s|, z / |z|>) / 2,

where |s|^2 = s0^2 - |s1|^2 and J = diag(1, -I). Steps solve W^-2 ds + dz = r; r aims at
<s, z> = `mean` in each row, and with Mehrotra's correction.
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit

DEEP = 1e-300  # the least square of a length: what rounding left on the boundary
ROOT_2 = np.sqrt(2.0)


@jit
def inner(x, y):
    """Return <x, y>."""
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@jit
def square_of(top, x):
    """Return top^2 - |x|^2, without squaring first."""
    size = np.sqrt(inner(x, x))
    return max((top - size) * (top + size), DEEP)


@entry
def scale(
    alpha, prices, pulls, tops, heads, axes, sizes, diagonal, lines, right, lifts,
):  # fmt: skip
    """Write w = (head, axis), its size, the blocks of W^-2 and r; return sum <s, z>."""
    prices, pulls = borrow(prices), borrow(pulls)
    tops, heads = borrow(tops), borrow(heads)
    axes, sizes, diagonal = borrow(axes), borrow(sizes), borrow(diagonal)
    lines, right, lifts = borrow(lines), borrow(right), borrow(lifts)
    total, width = 0.0, prices.shape[1]
    for t in range(len(prices)):
        of_s = np.sqrt(square_of(alpha, prices[t]))
        of_z = np.sqrt(square_of(tops[t], pulls[t]))
        product = alpha * tops[t] + inner(prices[t], pulls[t])
        total += product
        double = np.sqrt(2.0 * (1.0 + product / of_s / of_z))
        heads[t] = (alpha / of_s + tops[t] / of_z) / double
        sizes[t] = np.sqrt(of_s / of_z)
        lifts[t] = -tops[t]
        for j in range(width):
            axes[t, j] = (prices[t, j] / of_s - pulls[t, j] / of_z) / double
            diagonal[t, j] = 1.0 / (sizes[t] * sizes[t])
            lines[t, j] = ROOT_2 / sizes[t] * axes[t, j]
            right[t, j] = -pulls[t, j]
    return total


@jit
def rescale(head, axis, size, top, x, sign, out):
    """Write W x (sign 1) or W^-1 x (sign -1) of (top, x); return its first entry."""
    factor = size if sign > 0 else 1.0 / size
    along = inner(axis, x)
    part = sign * top + along / (1.0 + head)
    for j in range(x.size):
        out[j] = factor * (x[j] + part * axis[j])
    return factor * (head * top + sign * along)


@entry
def aim(
    alpha, prices, pulls, tops, heads, axes, sizes, moves, turns, lifts, mean, right,
):  # fmt: skip
    """Write r after a first direction: its vectors to `right`, its tops to `lifts`."""
    prices, pulls = borrow(prices), borrow(pulls)
    tops, heads = borrow(tops), borrow(heads)
    axes, sizes, right = borrow(axes), borrow(sizes), borrow(right)
    moves, turns, lifts = borrow(moves), borrow(turns), borrow(lifts)
    width = prices.shape[1]
    point, ds, dz = np.empty(width), np.empty(width), np.empty(width)
    for t in range(len(prices)):
        head, axis, size = heads[t], axes[t], sizes[t]
        top = rescale(head, axis, size, tops[t], pulls[t], 1.0, point)
        ds_top = rescale(head, axis, size, 0.0, moves[t], -1.0, ds)
        dz_top = rescale(head, axis, size, lifts[t], turns[t], 1.0, dz)
        # v = mean e - ds o dz, then l \ v - l
        whole = mean - ds_top * dz_top - inner(ds, dz)
        for j in range(width):
            ds[j] = -ds_top * dz[j] - dz_top * ds[j]
        first = (top * whole - inner(point, ds)) / square_of(top, point)
        for j in range(width):
            dz[j] = (ds[j] - first * point[j]) / top - point[j]
        lifts[t] = rescale(head, axis, size, first - top, dz, -1.0, right[t])


@entry
def finish(
    alpha, prices, pulls, tops, heads, axes, sizes, moves, turns, lifts,
):  # fmt: skip
    """Complete `lifts`, which hold r; return the longest step inside the cones."""
    prices, pulls = borrow(prices), borrow(pulls)
    tops, heads = borrow(tops), borrow(heads)
    axes, sizes = borrow(axes), borrow(sizes)
    moves, turns, lifts = borrow(moves), borrow(turns), borrow(lifts)
    longest = np.inf
    for t in range(len(prices)):
        along = inner(axes[t], moves[t])
        lifts[t] += 2.0 * heads[t] * along / (sizes[t] * sizes[t])
        length = reach(alpha, 0.0, prices[t], moves[t])
        longest = min(longest, length, reach(tops[t], lifts[t], pulls[t], turns[t]))
    return longest


@jit
def reach(top, lift, x, move):
    """Return the step after which (top, x) + step (lift, move) leaves the cone."""
    bend = inner(move, move) - lift * lift
    slope = inner(x, move) - top * lift
    rest = square_of(top, x)
    inside = slope * slope + bend * rest
    below = slope + np.sqrt(max(inside, 0.0))
    return rest / below if inside >= 0.0 and below > 0.0 else np.inf
