"""The compiled half of `problems.multiclass` where a block is a vector of K numbers.

With q the share of the example and lambda the regularisation, a point a of block i, a
distribution over the classes, has

    A_i a = (q / lambda) (e_y - a) x^T,   <a, grad_i f> = q <e_y - a, W x> - q (1 - a_y)

and along d with sum_k d_k = 0 the second derivative of f is q^2 |x|^2 / lambda |d|^2.
So the minimiser over a block is a projection to the simplex. `slope` and `value` are
those of `_chain_kernels`, and `spread`, `curvature` and `touched` those of
`_chain_step`, for one position.
"""

import numpy as np

from wolfpack.kernels.compile import jit
from wolfpack.kernels.simd import fetch, largest, load, maximum, put
from wolfpack.problems._features import is_unit, shift
from wolfpack.problems._viterbi import LANES, columns, unaries

TOLERANCE = 1e-9  # by which a point may miss the simplex
SLACK = 1e-9  # an entry this near to 0 is left for the projection to decide on


@jit
def oracle(data, shared, i, atom, work):
    """Loss-augmented best class; returns -q max over k of loss(k) - <w_y - w_k, x>."""
    theta = work.theta
    unaries(data, shared, i, work)
    best = 0
    for k in range(atom.size):
        atom[k] = 0.0
        if fetch(theta, k) > fetch(theta, best):
            best = k
    atom[best] = 1.0
    return -data.share[i] * (np.float64(theta[best]) - theta[data.labels[i]])


@jit
def score(data, shared, i, atom):
    """Return q <sum(a) e_y - a, W x> - q (sum(a) - a_y)."""
    flat, label, total = shared.reshape(shared.size), data.labels[i], atom.sum()
    result, at = atom[label] - total, shift(data, i)
    for k in range(atom.size):
        weight = (total if k == label else 0.0) - atom[k]
        if weight != 0.0:
            for f in range(data.feature_begin[i], data.feature_begin[i + 1]):
                value = 1.0 if is_unit(data) else np.float64(data.values[f])
                row = data.features[f + at] * columns(data)
                result += weight * value * flat[row + k]
    return data.share[i] * result


@jit
def add(data, i, atom, scale, out):
    """Add scale (q / lambda) (sum(a) e_y - a) x^T; return -scale q (sum(a) - a_y)."""
    flat, label, total = out.reshape(out.size), data.labels[i], atom.sum()
    step, at = scale * data.share[i] / data.alpha, shift(data, i)
    for k in range(atom.size):
        weight = step * ((total if k == label else 0.0) - atom[k])
        if weight != 0.0:
            for f in range(data.feature_begin[i], data.feature_begin[i + 1]):
                value = 1.0 if is_unit(data) else np.float64(data.values[f])
                row = data.features[f + at] * columns(data)
                flat[row + k] += weight * value
    return scale * data.share[i] * (atom[label] - total)


@jit
def contains(data, i, atom):
    """Return whether `atom` is a distribution."""
    least, total = 0.0, 0.0
    for k in range(atom.size):
        least = min(least, atom[k])
        total += atom[k]
    return least >= -TOLERANCE and abs(total - 1.0) <= TOLERANCE


@jit
def minimiser(data, shared, i, atom, work, reach):
    """Project x_(i) + lambda (W x + loss) / (q |x|^2) to the simplex.

    Returns the block gap, q (max over k of theta_k - <x_(i), theta>).
    """
    bend = reach * data.share[i] / data.alpha * data.gram[i]
    if not bend > 0.0:  # f is linear over the block, so a corner is a minimiser
        current = score(data, shared, i, atom)
        return current - oracle(data, shared, i, atom, work)
    unaries(data, shared, i, work)
    theta, n_labels = work.theta, atom.size
    best = highest(theta, columns(data))
    first = 0
    while first + 1 < n_labels and fetch(theta, first) != best:
        first += 1
    if atom[first] == 1.0:  # the best class has all the weight: the block is at rest
        return 0.0
    # Only differences of theta matter. Measured from the largest they are small, so
    # adding them loses no digits of x_(i). What falls 1 below the entry of the best
    # class becomes 0, and is not divided first.
    places, gap, left = work.pair_rows, 0.0, 0
    lowest = (atom[first] - 1.0 - SLACK) * bend
    for k in range(n_labels):
        below, weight = np.float64(fetch(theta, k) - best), atom[k]
        gap -= weight * below
        is_near = below + weight * bend > lowest
        atom[k] = weight if is_near else 0.0
        put(places, left, k)
        left += 1 if is_near else 0
    for j in range(left):
        k = fetch(places, j)
        atom[k] += np.float64(fetch(theta, k) - best) / bend
    project(atom, places, left, work.is_pair_row)
    return data.share[i] * gap


@jit
def highest(theta, width):
    """Return the largest of the `width` numbers; those of padding labels are low."""
    best = load(theta, 0, LANES)
    for c in range(LANES, width, LANES):
        best = maximum(load(theta, c, LANES), best)
    return largest(best)


@jit
def project(point, places, size, kept):
    """Project a point that is 0 outside `places` to the simplex; `kept` is scratch.

    Entries at least 1 below the largest become 0. The excess of the others over 1 is
    taken off them evenly, and those that fall to 0 are left out, until none does.
    """
    top = -np.inf
    for j in range(size):
        top = max(top, point[fetch(places, j)])
        put(kept, j, fetch(places, j))
    threshold = top - 1.0
    left = keep_above(point, threshold, kept, size)
    count = size + 1
    while 0 < left < count:
        count, total = left, 0.0
        for j in range(count):
            total += point[fetch(kept, j)]
        threshold = (total - 1.0) / count
        left = keep_above(point, threshold, kept, count)
    for j in range(size):
        k = fetch(places, j)
        point[k] = max(point[k] - threshold, 0.0)


@jit
def keep_above(point, threshold, kept, size):
    """Leave out places whose entry is not above the threshold; return how many stay."""
    left = 0
    for j in range(size):
        k = fetch(kept, j)
        put(kept, left, k)
        left += 1 if point[k] > threshold else 0
    return left


@jit
def prepare(data, i, move, work):
    """Keep the move as the marginals of a chain."""
    work.changed[0] = 0
    work.counts[0] = 0
    for k in range(move.size):
        put(work.marginals, k, np.float32(move[k]))
        if move[k] != 0.0:
            work.counts[0] = 1


@jit
def rate(data, shared, i, move, work, is_fresh):
    """Return <d, grad_i f>, from the scores that the oracle has just left, or anew."""
    if not is_fresh:
        unaries(data, shared, i, work)
    rise = 0.0
    for k in range(move.size):
        if move[k] != 0.0:
            rise += move[k] * fetch(work.theta, k)
    return -data.share[i] * rise
