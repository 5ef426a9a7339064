"""A labelling as parts: the label of the first position, then every transition.

The part of position t, where the label is `new` and the one before it `old`, is the
number t, old, new, each but the first in BITS bits; at t = 0 `old` is 0. So a labelling
has a part a position, and they ascend. With weights of parts, a point of block i is a
flow: what arrives at a label leaves it again.

Parts score and add what `_chain_kernels` says of labellings, without the right one's
share, which is the same for all labellings of a sequence.
"""

import numpy as np

from wolfpack.kernels.compile import jit
from wolfpack.kernels.simd import fetch, fill, put, store
from wolfpack.problems._chain_step import clear_pairs, note_row
from wolfpack.problems._features import is_unit, shift
from wolfpack.problems._viterbi import COSTS, LANES, columns

# `chain.kernels_for` replaces this by that of the problem.
BITS = 5  # of a label

TOLERANCE = 1e-9  # by which a flow may miss


@jit
def parts_of(data, i, atom, parts):
    """Write the parts of a labelling; return how many."""
    length = data.begin[i + 1] - data.begin[i]
    old = 0
    for t in range(length):
        new = np.int64(fetch(atom, t))
        parts[t] = (t << 2 * BITS) | (old << BITS) | new
        old = new
    return length


@jit
def split(part):
    """Return position, label before and label of a part."""
    mask = (1 << BITS) - 1
    return part >> 2 * BITS, (part >> BITS) & mask, part & mask


@jit
def prepare_parts(data, i, move, work):
    """Keep the marginals of the move where they are not 0; see `_chain_step`."""
    parts, weights = move.parts, move.weights
    width, marginals, pairs = columns(data), work.marginals, work.pairs
    clear_pairs(width, work)
    last, n_changed, n_rows = -1, 0, 0
    for k in range(parts.size):
        t, old, new = split(np.int64(fetch(parts, k)))
        weight, now = np.float32(fetch(weights, k)), t * width
        if t != last:
            for c in range(0, width, LANES):
                store(marginals, now + c, fill(np.float32(0.0), LANES))
            work.changed[n_changed] = t
            n_changed += 1
            last = t
        put(marginals, now + new, fetch(marginals, now + new) + weight)
        if t > 0:
            pair = old * width + new
            put(pairs, pair, fetch(pairs, pair) + weight)
            n_rows = note_row(old, n_rows, work)
    work.counts[0] = n_changed
    work.counts[1] = n_rows


@jit
def score_parts(data, shared, i, parts, weights):
    """Return -q sum_p w_p (loss + <w, phi>) of parts."""
    flat, first = shared.reshape(shared.size), data.begin[i]
    result = 0.0
    for k in range(parts.size):
        t, old, new = split(np.int64(parts[k]))
        result += weights[k] * label_score(data, flat, i, first + t, new)
        if t > 0:
            result += weights[k] * shared[data.first_transition + old, new]
    return -data.share[i] * result


@jit
def label_score(data, flat, i, position, new):
    """Return loss + <w, phi> of a label at a position."""
    right, at = np.int64(data.labels[position]), shift(data, position)
    result = 0.0
    if right != new:
        result = np.float64(data.cost[i] * (data.losses[right, new] if COSTS else 1.0))
    for f in range(data.feature_begin[position], data.feature_begin[position + 1]):
        value = 1.0 if is_unit(data) else np.float64(data.values[f])
        result += value * flat[data.features[f + at] * columns(data) + new]
    return result


@jit
def add_parts(data, i, parts, weights, scale, out):
    """Add -scale (q / lambda) sum_p w_p phi; return -scale q sum_p w_p loss."""
    flat, first = out.reshape(out.size), data.begin[i]
    step, wrong = -scale * data.share[i] / data.alpha, 0.0
    for k in range(parts.size):
        t, old, new = split(np.int64(parts[k]))
        right, weight, at = data.labels[first + t], weights[k], shift(data, first + t)
        if right != new:
            wrong += weight * (data.losses[right, new] if COSTS else 1.0)
        begin, end = data.feature_begin[first + t], data.feature_begin[first + t + 1]
        for f in range(begin, end):
            value = step * weight if is_unit(data) else step * weight * data.values[f]
            flat[data.features[f + at] * columns(data) + new] += value
        if t > 0:
            out[data.first_transition + old, new] += step * weight
    return -scale * data.share[i] * data.cost[i] * wrong


@jit
def contains_parts(data, i, parts, weights):
    """Return whether the weights are a flow of 1 through the sequence."""
    length, n_labels = data.begin[i + 1] - data.begin[i], data.n_labels
    before, now = np.zeros(n_labels), np.zeros(n_labels)
    last, left = 0, 1.0
    for k in range(parts.size):
        t, old, new = split(np.int64(parts[k]))
        if t >= length or old >= n_labels or new >= n_labels or t > last + 1:
            return False
        if t > last:
            if not is_used_up(before, left, last):
                return False
            before[:] = now
            now[:] = 0.0
            last = t
        now[new] += weights[k]
        if t > 0:
            before[old] -= weights[k]
        else:
            left -= weights[k]
            if old != 0:
                return False
    return last == length - 1 and is_used_up(before, left, last)


@jit
def is_used_up(before, left, t):
    """Return whether all that arrived at position t - 1 has left it."""
    if t == 0:
        return abs(left) <= TOLERANCE
    most = 0.0
    for k in range(before.size):
        most = max(most, abs(before[k]))
    return most <= TOLERANCE
