"""Interior steps where prices have an l_p ball, 1 < p < inf.

With v = u / alpha, sum_j |v_j|^p is at most 1, and e_j bounds |v_j|^p. The barrier of a
row is

    B = - sum_j [log(e_j^(2/p) - v_j^2) + 2 log e_j] - log(1 - sum_j e_j).

Steps aim at the point where y + (goal / alpha) dB/dv = 0 and dB/de = 0, from one where
this holds with `mean` instead of the goal. Without e, the block of a row is
diag(h) + c c', as with the other balls.
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit


@jit
def expand(p, v, e):
    """Return first and second derivatives of the barrier of an entry."""
    power = e ** (2.0 / p)
    inner = power - v * v
    slope = 2.0 / p * power / e
    bend = (2.0 / p - 1.0) * slope / e
    by_v, by_e = 2.0 * v / inner, -slope / inner - 2.0 / e
    a = 2.0 / inner + by_v * by_v
    b = -by_v * slope / inner
    c = -bend / inner + (slope / inner) ** 2 + 2.0 / (e * e)
    return by_v, by_e, a, b, c


@entry
def prepare(alpha, p, prices, pulls, parts, mean, goal, diagonal, lines, right):
    """Write the blocks, which belong to `mean`, and right-hand sides of `goal`."""
    prices, pulls, parts = borrow(prices), borrow(pulls), borrow(parts)
    diagonal, lines, right = borrow(diagonal), borrow(lines), borrow(right)
    width = prices.shape[1]
    for t in range(len(prices)):
        rest = 1.0
        for j in range(width):
            rest -= parts[t, j]
        sum_of_q, sum_of_inverse = 0.0, 0.0
        for j in range(width):
            _, by_e, _, _, c = expand(p, prices[t, j] / alpha, parts[t, j])
            sum_of_q -= goal / mean * (by_e + 1.0 / rest) / c
            sum_of_inverse += 1.0 / c
        joint = 1.0 / (rest * rest + sum_of_inverse)
        for j in range(width):
            by_v, by_e, a, b, c = expand(p, prices[t, j] / alpha, parts[t, j])
            q = -goal / mean * (by_e + 1.0 / rest)
            more = goal * by_v + mean * b / c * (q - joint * sum_of_q)
            right[t, j] = -pulls[t, j] - more / alpha
            diagonal[t, j] = mean * (a - b * b / c) / (alpha * alpha)
            lines[t, j] = np.sqrt(mean * joint) * b / c / alpha


@entry
def finish(alpha, p, prices, parts, grows, moves, mean, goal):
    """Complete `grows`; return a step that stays inside, at most 1."""
    prices, parts = borrow(prices), borrow(parts)
    grows, moves = borrow(grows), borrow(moves)
    width, step = prices.shape[1], 1.0
    for t in range(len(prices)):
        rest, sum_of_q, sum_of_inverse = 1.0, 0.0, 0.0
        for j in range(width):
            rest -= parts[t, j]
        for j in range(width):
            _, by_e, _, b, c = expand(p, prices[t, j] / alpha, parts[t, j])
            q = -goal / mean * (by_e + 1.0 / rest) - b * moves[t, j] / alpha
            grows[t, j] = q / c
            sum_of_q += q / c
            sum_of_inverse += 1.0 / c
        whole = sum_of_q / (1.0 + sum_of_inverse / (rest * rest))
        for j in range(width):
            _, _, _, _, c = expand(p, prices[t, j] / alpha, parts[t, j])
            grows[t, j] -= whole / (rest * rest * c)
        while step > 0.0 and not stays(
            alpha, p, prices[t], parts[t], moves[t], grows[t], step
        ):
            step *= 0.8 if step > 1e-12 else 0.0
    return step


@jit
def stays(alpha, p, price, part, move, grow, step):
    """Whether a row stays inside."""
    rest = 1.0
    for j in range(price.size):
        e, v = part[j] + step * grow[j], (price[j] + step * move[j]) / alpha
        rest -= e
        if not (e > 0.0 and e ** (2.0 / p) > v * v):
            return False
    return rest > 0.0
