"""Copies of v: how the workers of `merge` take one, and add their changes to v.

A change is added by one lock on v, or, where v is large, by stripes with a lock each.
"""

from wolfpack.engines.shared_memory.choice import APART
from wolfpack.kernels.atomics import acquire, release
from wolfpack.kernels.compile import jit
from wolfpack.kernels.simd import fill, load, multiply_add, store

WIDE = 32  # numbers moved at a time
STRIPE = 1024  # numbers under one lock, where v is large


@jit
def flatten(array):
    """Return an array as one row of numbers, without a copy."""
    return array.reshape(array.size)


@jit
def subtract(own, base, direction):
    """Direction <- own - base."""
    left, right, change = flatten(own), flatten(base), flatten(direction)
    last = change.size - change.size % WIDE
    minus = fill(change.dtype.type(-1.0), WIDE)
    for k in range(0, last, WIDE):
        store(change, k, multiply_add(minus, load(right, k, WIDE), load(left, k, WIDE)))
    for k in range(last, change.size):
        change[k] = left[k] - right[k]


@jit
def add_by_stripes(flat, change, scale, own, team, task):
    """Add scale * change to v by stripes; each worker starts at its own stripe."""
    n, locks = -(-flat.size // STRIPE), team.locks
    first = task.me * n // task.n_workers
    for k in range(n):
        at = (first + k) % n
        # The holder of a stripe always releases it, so waiting for it cannot fail.
        lock = at * APART & locks.size - 1
        acquire(locks, lock, team.never, 0)
        end = min((at + 1) * STRIPE, flat.size)
        add_and_copy(flat, change, scale, own, at * STRIPE, end)
        release(locks, lock)


@jit
def add_and_copy(flat, change, scale, own, begin, end):
    """Add scale * change to v in [begin, end), and copy the sum to the private v."""
    last = end - (end - begin) % WIDE
    factor = fill(scale, WIDE)
    for k in range(begin, last, WIDE):
        new = multiply_add(factor, load(change, k, WIDE), load(flat, k, WIDE))
        store(flat, k, new)
        store(own, k, new)
    for k in range(last, end):
        flat[k] += scale * change[k]
        own[k] = flat[k]


@jit
def pull(shared, memory, team):
    """Copy v to the private v; return its version, or -1 if the slice is over."""
    if not acquire(team.lock, 0, team.halt, 0):
        return -1
    version = team.version[0]
    flat, own, base = flatten(shared), flatten(memory.shared), flatten(memory.base)
    change = flatten(memory.direction.values)
    for k in range(own.size):
        own[k] = flat[k]
    release(team.lock, 0)
    for k in range(own.size):
        base[k] = own[k]
        change[k] = 0.0
    return version
