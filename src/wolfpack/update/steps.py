"""How far an update moves: gamma, always within [0, 1].

With tau blocks moving together the direction is d = sum over S of s_[i] - x_[i], and

    open loop      gamma = min(1, 2 n tau / (tau^2 k + 2 n))      (Algorithm 1, line 2)
    line search    gamma = argmin over [0, 1] of f(x + gamma d)   (jointly over S)
    constant       gamma as given

The paper's open-loop step exceeds 1 while k < 2 n (tau - 1) / tau^2 and would leave the
feasible set; it is clipped.
"""

from wolfpack.kernels.compile import glue, jit
from wolfpack.kernels.slots import HAS_CURVATURE, QUADRATIC, curvature, slope

OPEN_LOOP, LINE, CONSTANT = 0, 1, 2
# Their names in `solve`, where a number is CONSTANT. "exact" is a line search towards
# the minimiser of the block.
RULES = {"line": LINE, "open-loop": OPEN_LOOP, "exact": LINE}


@glue
def scheduled(plan, tau, k):
    """Return gamma of update k where no search is made."""
    if plan.rule == OPEN_LOOP:
        return open_loop(plan.n_blocks, tau, k)
    return plan.step_size


@glue
def alone(data, i, move, gap, plan, k, work):
    """Return gamma of one block, whose move is prepared."""
    if HAS_CURVATURE and plan.rule == LINE:
        bend = plan.reach * curvature(data, i, move, work)
        return closed_form(gap, bend)
    return scheduled(plan, 1, k)


@glue
def jointly(data, shared, direction, rows, linear, plan, tau, k, wants_slope):
    """Return gamma of tau blocks that move together, and f' at 0 if it is wanted."""
    if plan.rule == LINE:
        return line_search(data, shared, direction, rows, linear)
    at_zero = 0.0
    if wants_slope:
        at_zero = slope(data, shared, direction, rows, 0.0) + linear
    return scheduled(plan, tau, k), at_zero


@glue
def search(data, shared, direction, rows, linear, bend, is_known):
    """Return gamma, the rate -f' at which f falls at 0, and the curvature.

    Where the curvature `bend` is known, one slope gives gamma.
    """
    if is_known:
        fall = -slope(data, shared, direction, rows, 0.0) - linear
        return closed_form(fall, bend), fall, bend
    gamma, at_zero = line_search(data, shared, direction, rows, linear)
    # At gamma < 1 the slope is zero, which gives the mean curvature up to there; at
    # gamma = 1 this is an upper bound.
    return gamma, -at_zero, -at_zero / gamma if gamma > 0.0 else 0.0


@glue
def open_loop(n, tau, k):
    """Return the step of update k = 0, 1, ... (Algorithm 1, line 2; clipped).

    Algorithm 1 counts from 1, the proof of Theorem 1 from 0; this is the proof's count.
    """
    return min(1.0, 2.0 * n * tau / (tau * tau * k + 2.0 * n))


@glue
def closed_form(gap, curvature):
    """Return the minimiser over [0, 1] of -gamma gap + gamma^2 curvature / 2."""
    if not gap > 0.0:
        return 0.0
    return 1.0 if gap >= curvature else gap / curvature


@jit
def line_search(data, shared, direction, rows, linear):
    """Return (gamma, slope at 0) along `direction`; `linear` is <c, d>.

    Two slopes give gamma for a quadratic g. Otherwise the root of the slope is found by
    the Illinois variant of the secant rule, which keeps it bracketed, and by halving
    where three such steps did not halve the bracket.
    """
    at_zero = slope(data, shared, direction, rows, 0.0) + linear
    if not at_zero < 0.0:
        return 0.0, at_zero
    at_one = slope(data, shared, direction, rows, 1.0) + linear
    if at_one <= 0.0:
        return 1.0, at_zero
    gamma = at_zero / (at_zero - at_one)
    if QUADRATIC:
        return gamma, at_zero
    low, high, at_low, at_high, side = 0.0, 1.0, at_zero, at_one, 0
    width = 1.0
    for k in range(90):
        here = slope(data, shared, direction, rows, gamma) + linear
        if abs(here) <= -1e-9 * at_zero:
            break
        if here < 0.0:
            low, at_low = gamma, here
            at_high *= 0.5 if side < 0 else 1.0
            side = -1
        else:
            high, at_high = gamma, here
            at_low *= 0.5 if side > 0 else 1.0
            side = 1
        gamma = (low * at_high - high * at_low) / (at_high - at_low)
        if k % 3 == 2:
            if high - low > 0.5 * width:
                gamma = 0.5 * (low + high)
            width = high - low
    return gamma, at_zero
