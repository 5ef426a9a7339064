"""Segments of a signal: rows between two change points have one value.

A set of change points shrinks the group fused lasso to one row a segment, weighted by
its length. Three loops work on it, each linear in what it reads:

    refine   finds rows whose price is above alpha, where new segments begin
    sweep    moves the prices of the change points, one at a time
    unfold   computes the prices of all rows, and both objectives

Segment k has the rows bounds[k] to bounds[k + 1] - 1, and prices[k] is that of the jump
after it. `mass` and `sums` are running sums of w_t and of w_t y_t, from 0 on. Given the
prices on both sides, the value x of a segment is known, and so is the price after each
of its rows: that before the segment, plus the sum of w_s (x - y_s) up to this row.

`is_round`: jumps and prices have the Euclidean norm. Otherwise jumps have the largest
size of an entry (q = inf), and prices the sum of sizes; one column has both. The loops
are made for these norms, because the functions of `sets`, which guard against whatever
a user's gradient may hold, take 15 times as long.
"""

import numpy as np

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry, jit

STACK = 64  # parts that wait: the shorter half is split first, so log2(n) are enough
# Steps go this much further than to the minimiser of a block; below 2 the objective
# falls with each, and chains of segments settle with a third fewer.
RELAXED = 1.3
LOOKS = 64  # a call of `refine` reads at most LOOKS times n rows


@jit
def dot(x, y):
    """Return <x, y>, by four sums that do not wait for each other."""
    a, b, c, d, whole = 0.0, 0.0, 0.0, 0.0, x.size // 4 * 4
    for j in range(0, whole, 4):
        a += x[j] * y[j]
        b += x[j + 1] * y[j + 1]
        c += x[j + 2] * y[j + 2]
        d += x[j + 3] * y[j + 3]
    for j in range(whole, x.size):
        a += x[j] * y[j]
    return a + b + (c + d)


@jit
def length(price, is_round):
    """Return the norm of a price."""
    if is_round:
        return np.sqrt(dot(price, price))
    total = 0.0
    for j in range(price.size):
        total += abs(price[j])
    return total


@jit
def height(jump, is_round):
    """Return the norm of a jump."""
    if is_round:
        return np.sqrt(dot(jump, jump))
    total = 0.0
    for j in range(jump.size):
        total = max(total, abs(jump[j]))
    return total


@jit
def project(price, alpha, is_round):
    """Move a price to the nearest one of size alpha, if it is longer."""
    size = length(price, is_round)
    if size <= alpha:
        return
    if is_round:
        shrink = alpha / size
        for j in range(price.size):
            price[j] *= shrink
        return
    # All sizes shrink by one number, which grows as small entries vanish.
    less, count = (size - alpha) / price.size, price.size
    while True:
        total, left = 0.0, 0
        for j in range(price.size):
            if abs(price[j]) > less:
                total += abs(price[j])
                left += 1
        if left >= count or left == 0:  # more are left only by rounding
            break
        less, count = (total - alpha) / left, left
    for j in range(price.size):
        price[j] = np.copysign(max(abs(price[j]) - less, 0.0), price[j])


@jit
def set_value(sums, mass, first, last, before, after, value):
    """Write the value of the segment [first, last), given the prices beside it."""
    for j in range(value.size):
        total = sums[last, j] - sums[first, j] + after[j] - before[j]
        value[j] = total / (mass[last] - mass[first])


@jit
def set_price(sums, mass, first, t, before, value, price):
    """Write the price of the jump from row t - 1 to row t inside a segment."""
    part = mass[t] - mass[first]
    for j in range(price.size):
        price[j] = before[j] + value[j] * part - (sums[t, j] - sums[first, j])


@jit
def find_worst(sums, mass, first, last, before, value, price, limit, is_round):
    """Return the row inside a segment whose price is largest; -1: none exceeds."""
    worst = -1
    for t in range(first + 1, last):
        set_price(sums, mass, first, t, before, value, price)
        size = length(price, is_round)
        if size > limit:
            limit, worst = size, t
    return worst


@entry
def refine(sums, mass, bounds, prices, alpha, excess, is_round, rows, new):
    """Split segments at their largest price, and again both halves, while one exceeds.

    A price may exceed alpha by the factor 1 + `excess`. Writes the rows and their
    prices, of size alpha, and returns how many. The halves
    are split as if the new price were fixed, which in one dimension it is: then one
    call finds the answer (a taut string).
    """
    sums, mass, new = borrow(sums), borrow(mass), borrow(new)
    width, limit = sums.shape[1], alpha * (1.0 + excess)
    places = np.empty((STACK, 2), np.int64)
    starts, ends = np.empty((STACK, width)), np.empty((STACK, width))
    before, after = np.empty(width), np.empty(width)
    value, price = np.empty(width), np.empty(width)
    count, left = 0, LOOKS * mass.size
    for k in range(bounds.size - 1):
        places[0, 0], places[0, 1] = bounds[k], bounds[k + 1]
        for j in range(width):
            starts[0, j] = prices[k - 1, j] if k > 0 else 0.0
            ends[0, j] = prices[k, j] if k < len(prices) else 0.0
        depth = 1
        while depth > 0 and left > 0:
            depth -= 1
            first, last = places[depth, 0], places[depth, 1]
            for j in range(width):
                before[j], after[j] = starts[depth, j], ends[depth, j]
            left -= last - first
            set_value(sums, mass, first, last, before, after, value)
            t = find_worst(
                sums, mass, first, last, before, value, price, limit, is_round
            )
            if t < 0:
                continue
            set_price(sums, mass, first, t, before, value, price)
            shrink = alpha / length(price, is_round)
            rows[count] = t
            # The longer half waits below the shorter one.
            one = depth if t - first > last - t else depth + 1
            other = 2 * depth + 1 - one
            places[one, 0], places[one, 1] = first, t
            places[other, 0], places[other, 1] = t, last
            for j in range(width):
                new[count, j] = shrink * price[j]
                starts[one, j], ends[one, j] = before[j], new[count, j]
                starts[other, j], ends[other, j] = new[count, j], after[j]
            depth += 2
            count += 1
    return count


@entry
def sweep(
    values, inverse, prices, alpha, is_round, queue, following, marks, count, share,
    most,
):  # fmt: skip
    """Move prices, one at a time, until no gap of a block exceeds `share`.

    `inverse` has 1 over the mass of each segment. A block whose gap is small is left
    out until a neighbour moves. `queue[:count]` are the blocks to visit, from the last
    to the first; those of the next sweep take their place, in the other direction.
    Returns how many wait after about `most` visits.
    """
    values, inverse, prices = borrow(values), borrow(inverse), borrow(prices)
    queue, following, marks = borrow(queue), borrow(following), borrow(marks)
    width, n_blocks = values.shape[1], len(prices)
    jump, price = np.empty(width), np.empty(width)
    visits = 0
    while count > 0 and visits < most:
        visits += count
        waiting = 0
        turn = -1 if queue[count - 1] > queue[0] else 1  # the direction of this sweep
        for at in range(count - 1, -1, -1):
            k = queue[at]
            for j in range(width):
                jump[j] = values[k + 1, j] - values[k, j]
                price[j] = prices[k, j]
            if alpha * height(jump, is_round) - dot(price, jump) <= share:
                continue
            step = RELAXED / (inverse[k] + inverse[k + 1])
            for j in range(width):
                price[j] += step * jump[j]
            project(price, alpha, is_round)
            for j in range(width):
                change = price[j] - prices[k, j]
                prices[k, j] = price[j]
                values[k, j] += inverse[k] * change
                values[k + 1, j] -= inverse[k + 1] * change
            for near in (k - turn, k, k + turn):
                if 0 <= near < n_blocks and not marks[near]:
                    marks[near] = True
                    following[waiting] = near
                    waiting += 1
        count = waiting
        for at in range(count):
            queue[at] = following[at]
            marks[queue[at]] = False
    return count


@entry
def unfold(
    heights, roots, sums, mass, bounds, prices, alpha, is_round, points, smooth, shared
):
    """Write the prices of all rows, and v twice; return the primal and the dual.

    `smooth` is the v whose segments have one value. A price above alpha is shortened,
    so that `points` is feasible, and `shared` is the v that fits `points`.
    """
    heights, roots = borrow(heights), borrow(roots)
    sums, mass, prices = borrow(sums), borrow(mass), borrow(prices)
    points, smooth, shared = borrow(points), borrow(smooth), borrow(shared)
    n_rows, width = heights.shape
    value, price, last = np.empty(width), np.empty(width), np.zeros(width)
    before, after, jump = np.zeros(width), np.zeros(width), np.empty(width)
    jumps, primal, dual = 0.0, np.zeros(width), np.zeros(width)  # sums of columns
    for k in range(bounds.size - 1):
        first, end = bounds[k], bounds[k + 1]
        for j in range(width):
            after[j] = prices[k, j] if end < n_rows else 0.0
        set_value(sums, mass, first, end, before, after, value)
        if k > 0:
            for j in range(width):
                jump[j] -= value[j]
            jumps += height(jump, is_round)
        for t in range(first, end):
            shrink, root = 1.0, roots[t]
            if t + 1 < end:
                set_price(sums, mass, first, t + 1, before, value, price)
                size = length(price, is_round)
                if size > alpha:
                    shrink = alpha / size
            else:
                for j in range(width):
                    price[j] = after[j]
            size = 1.0 / root
            for j in range(width):
                price[j] *= shrink
                y, x = heights[t, j] * size, value[j] * size
                v = y + root * (price[j] - last[j])
                primal[j] += (x - y) ** 2
                dual[j] += y * y - v * v
                smooth[t, j], shared[t, j], last[j] = x, v, price[j]
            if t + 1 < n_rows:
                for j in range(width):
                    points[t, j] = price[j]
        for j in range(width):
            before[j], jump[j] = after[j], value[j]
    return 0.5 * primal.sum() + alpha * jumps, 0.5 * dual.sum()
