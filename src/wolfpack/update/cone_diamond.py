"""Interior steps where prices have an l1 ball: sum_j |u_tj| <= alpha.

Row t has a price u, a pull y, minus the difference of the signal, and a bound k on the
largest size of its entries; e_j bounds |u_j|. These products are 0 at the optimum:

    a_j (e_j - u_j),    b_j (e_j + u_j),    k (alpha - sum_j e_j),

with a_j = (k - y_j) / 2 and b_j = (k + y_j) / 2. A step takes each to `mean`, with
Mehrotra's correction. Without e and k, which belong to a row alone, the block of a row
is diag(h) + c c', as with Euclidean balls.
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit


@jit
def eliminate(alpha, price, pull, top, part, ra, rb, rk, diagonal, line, right):
    """Write the block of a row, and its right-hand side."""
    rest, sum_of_q, sum_of_inverse = alpha, 0.0, 0.0
    for j in range(price.size):
        rest -= part[j]
        A = 0.5 * (top - pull[j]) / (part[j] - price[j])
        B = 0.5 * (top + pull[j]) / (part[j] + price[j])
        sum_of_inverse += 1.0 / (A + B)
        sum_of_q += (ra[j] + rb[j] - rk) / (A + B)
        diagonal[j] = 4.0 * A * B / (A + B)
        line[j] = (A - B) / (A + B)
    slack = top / rest
    joint = slack / (1.0 + slack * sum_of_inverse)
    root = np.sqrt(joint)
    for j in range(price.size):
        more = ra[j] + rb[j] - rk - joint * sum_of_q
        right[j] = rb[j] - ra[j] + line[j] * more
        line[j] *= root


@entry
def scale(
    alpha, prices, pulls, tops, parts, below, above, diagonal, lines, right, lifts,
):  # fmt: skip
    """Write blocks and right-hand sides of a first direction; sum up all products.

    `below` and `above` are what the products of a and b are to become, over e - u and
    e + u, less a and b; `lifts` the same of k.
    """
    prices, pulls = borrow(prices), borrow(pulls)
    tops, parts = borrow(tops), borrow(parts)
    below, above, lifts = borrow(below), borrow(above), borrow(lifts)
    diagonal, lines, right = borrow(diagonal), borrow(lines), borrow(right)
    total = 0.0
    for t in range(len(prices)):
        lifts[t], rest = -tops[t], alpha
        for j in range(prices.shape[1]):
            a, b = 0.5 * (tops[t] - pulls[t, j]), 0.5 * (tops[t] + pulls[t, j])
            below[t, j], above[t, j] = -a, -b
            total += a * (parts[t, j] - prices[t, j]) + b * (parts[t, j] + prices[t, j])
            rest -= parts[t, j]
        total += tops[t] * rest
        eliminate(
            alpha, prices[t], pulls[t], tops[t], parts[t], below[t], above[t], lifts[t],
            diagonal[t], lines[t], right[t],
        )  # fmt: skip
    return total


@entry
def aim(
    alpha, prices, pulls, tops, parts, below, above, grows, moves, turns, lifts, mean,
    diagonal, lines, right,
):  # fmt: skip
    """Write right-hand sides after a first direction, whose products they correct."""
    prices, pulls = borrow(prices), borrow(pulls)
    tops, parts = borrow(tops), borrow(parts)
    below, above, grows = borrow(below), borrow(above), borrow(grows)
    moves, turns, lifts = borrow(moves), borrow(turns), borrow(lifts)
    diagonal, lines, right = borrow(diagonal), borrow(lines), borrow(right)
    for t in range(len(prices)):
        rest, less, top, lift = alpha, 0.0, tops[t], lifts[t]
        for j in range(prices.shape[1]):
            rest -= parts[t, j]
            less -= grows[t, j]
            low, high = parts[t, j] - prices[t, j], parts[t, j] + prices[t, j]
            bend = 0.5 * (lift - turns[t, j]) * (grows[t, j] - moves[t, j])
            below[t, j] = (mean - bend) / low - 0.5 * (top - pulls[t, j])
            bend = 0.5 * (lift + turns[t, j]) * (grows[t, j] + moves[t, j])
            above[t, j] = (mean - bend) / high - 0.5 * (top + pulls[t, j])
        lifts[t] = (mean - lift * less) / rest - top
        eliminate(
            alpha, prices[t], pulls[t], tops[t], parts[t], below[t], above[t], lifts[t],
            diagonal[t], lines[t], right[t],
        )  # fmt: skip


@jit
def nearer(longest, value, change):
    """Return the step after which a value is 0, if that is shorter."""
    return min(longest, -value / change) if change < 0.0 else longest


@entry
def finish(
    alpha, prices, pulls, tops, parts, below, above, grows, moves, turns, lifts,
):  # fmt: skip
    """Complete `lifts` and `grows`; return the longest step that keeps signs."""
    prices, pulls = borrow(prices), borrow(pulls)
    tops, parts = borrow(tops), borrow(parts)
    below, above, grows = borrow(below), borrow(above), borrow(grows)
    moves, turns, lifts = borrow(moves), borrow(turns), borrow(lifts)
    longest = np.inf
    for t in range(len(prices)):
        rest, top, sum_of_q, sum_of_inverse = alpha, tops[t], 0.0, 0.0
        for j in range(prices.shape[1]):
            rest -= parts[t, j]
            A = 0.5 * (top - pulls[t, j]) / (parts[t, j] - prices[t, j])
            B = 0.5 * (top + pulls[t, j]) / (parts[t, j] + prices[t, j])
            q = below[t, j] + above[t, j] - lifts[t] + (A - B) * moves[t, j]
            grows[t, j] = q / (A + B)
            sum_of_q += grows[t, j]
            sum_of_inverse += 1.0 / (A + B)
        slack = top / rest
        whole = sum_of_q / (1.0 + slack * sum_of_inverse)
        lifts[t] += slack * whole
        longest = nearer(nearer(longest, rest, -whole), top, lifts[t])
        for j in range(prices.shape[1]):
            A = 0.5 * (top - pulls[t, j]) / (parts[t, j] - prices[t, j])
            B = 0.5 * (top + pulls[t, j]) / (parts[t, j] + prices[t, j])
            grows[t, j] -= slack * whole / (A + B)
            u, du, e, de = prices[t, j], moves[t, j], parts[t, j], grows[t, j]
            longest = nearer(nearer(longest, e - u, de - du), e + u, de + du)
            y, dy, dk = pulls[t, j], turns[t, j], lifts[t]
            longest = nearer(nearer(longest, top - y, dk - dy), top + y, dk + dy)
    return longest
