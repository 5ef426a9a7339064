"""The compiled half of `problems.chain`: the oracle, score, add, slope and value.

With q the share of the sample and lambda the regularisation, the atom y of block i has

    A_i y = (q / lambda) psi_i(y),  psi_i(y) = phi(x_i, y_i) - phi(x_i, y)
    <y, grad_i f> = q (<w, psi_i(y)> - loss_i(y))

The layout of v, and LANES, WIDTH and the other constants, are those of `_viterbi`; the
fused step is in `_chain_step`.
"""

import numpy as np

from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.simd import (
    fetch,
    fill,
    load,
    load_double,
    multiply_add,
    total,
)
from wolfpack.problems._features import is_unit, shift
from wolfpack.problems._viterbi import (
    COSTS,
    LANES,
    columns,
    find_steps,
    unaries,
    viterbi,
)


@jit
def oracle(data, shared, i, atom, work):
    """Loss-augmented Viterbi; returns -q max over y of loss(y) - <w, psi(y)>."""
    first, length = data.begin[i], data.begin[i + 1] - data.begin[i]
    labels, theta, width = data.labels, work.theta, columns(data)
    unaries(data, shared, i, work)
    highest = viterbi(data, shared, length, atom, work)
    steps, transitions = find_steps(data, shared, work)
    truth = np.float32(0.0)
    row = 0
    for t in range(length):
        label = np.int64(fetch(labels, first + t))
        truth += fetch(theta, t * width + label)
        if t > 0:
            truth += fetch(steps, transitions + row * width + label)
        row = label
    return -data.share[i] * (np.float64(highest) - np.float64(truth))


@entry
def hinges(data, shared, out, atom, work):
    """Write the hinge loss of each sequence: max over y of loss(y) - <w, psi(y)>."""
    for i in range(out.size):
        labels = atom[: data.begin[i + 1] - data.begin[i]]
        out[i] = -oracle(data, shared, i, labels, work) / data.share[i]


@jit
def score(data, shared, i, atom):
    """Return q (<w, psi(y)> - loss(y))."""
    first, labels, features = data.begin[i], data.labels, data.features
    feature_begin, values = data.feature_begin, data.values
    flat, unit = shared.reshape(shared.size), is_unit(data)
    result = 0.0
    for t in range(data.begin[i + 1] - first):
        old, new = labels[first + t], atom[t]
        if old != new:
            result -= data.cost[i] * (data.losses[old, new] if COSTS else 1.0)
            at = shift(data, first + t)
            for f in range(feature_begin[first + t], feature_begin[first + t + 1]):
                row = features[f + at] * columns(data)
                value = 1.0 if unit else np.float64(values[f])
                result += value * (flat[row + old] - np.float64(flat[row + new]))
        if t > 0 and (old != new or labels[first + t - 1] != atom[t - 1]):
            row = data.first_transition + labels[first + t - 1]
            result += shared[row, old]
            result -= shared[data.first_transition + atom[t - 1], new]
    return data.share[i] * result


@jit
def add(data, i, atom, scale, out):
    """Add scale (q / lambda) psi(y) to `out`; return -scale q loss(y)."""
    first, labels, features = data.begin[i], data.labels, data.features
    feature_begin, values = data.feature_begin, data.values
    flat, unit = out.reshape(out.size), is_unit(data)
    step = scale * data.share[i] / data.alpha
    wrong = 0.0
    for t in range(data.begin[i + 1] - first):
        old, new = labels[first + t], atom[t]
        if old != new:
            wrong += data.losses[old, new] if COSTS else 1.0
            at = shift(data, first + t)
            for f in range(feature_begin[first + t], feature_begin[first + t + 1]):
                row = features[f + at] * columns(data)
                value = step if unit else step * values[f]
                flat[row + old] += value
                flat[row + new] -= value
        if t > 0 and (old != new or labels[first + t - 1] != atom[t - 1]):
            out[data.first_transition + labels[first + t - 1], old] += step
            out[data.first_transition + atom[t - 1], new] -= step
    return -scale * data.share[i] * data.cost[i] * wrong


@jit
def slope(data, shared, direction, rows, gamma):
    """Return lambda <w + gamma d, d>, in the precision of w."""
    width = columns(data)
    inner = fill(shared.dtype.type(0.0), LANES)
    square = fill(shared.dtype.type(0.0), LANES)
    for r in rows:
        for c in range(r * width, (r + 1) * width, LANES):
            step = load(direction, c, LANES)
            inner = multiply_add(load(shared, c, LANES), step, inner)
            if gamma != 0.0:
                square = multiply_add(step, step, square)
    return data.alpha * (np.float64(total(inner)) + gamma * np.float64(total(square)))


@jit
def value(data, shared):
    """Return lambda / 2 |w|^2."""
    square = fill(0.0, LANES)
    for c in range(0, shared.size, LANES):
        weight = load_double(shared, c, LANES)
        square = multiply_add(weight, weight, square)
    return 0.5 * data.alpha * total(square)


@jit
def contains(data, i, atom):
    """Return whether all labels of the sequence exist."""
    for t in range(data.begin[i + 1] - data.begin[i]):
        if atom[t] < 0 or atom[t] >= data.n_labels:
            return False
    return True
