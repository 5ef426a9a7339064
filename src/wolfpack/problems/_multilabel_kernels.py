"""The compiled half of `problems.multilabel`.

With q the share of the example and lambda the regularisation, the set y of block i has

    A_i y = (q / lambda) (phi(x, t) - phi(x, y)),
    <y, grad_i f> = q (<w, phi(x, t) - phi(x, y)> - |t - y|)

where t is the right set, and phi has y_k x for each label k and y_j y_k for each edge.
An example is scored as a sequence of length one (`_viterbi.unaries`), the layout of v
is that of `_viterbi` with one weight an edge in place of the transitions, and `slope`
and `value` are those of `_chain_kernels`.
"""

import numpy as np

from wolfpack.kernels.compile import jit
from wolfpack.kernels.simd import accumulate, fill, load, multiply_add, times, total
from wolfpack.problems._features import is_unit, shift
from wolfpack.problems._label_sets import LISTED, best_set, is_listed
from wolfpack.problems._viterbi import LANES, columns, unaries


@jit
def oracle(data, shared, i, atom, work):
    """Loss-augmented best set; returns -q max over y of |t - y| - <w, psi(y)>."""
    find_scores(data, shared, i, work)
    theta, pairs, truth, right = work.theta, work.pairs, data.truth, 0.0
    for k in range(data.n_labels):
        right += truth[i, k] * theta[k]
    for e in range(data.first.size):
        right += truth[i, data.first[e]] * truth[i, data.second[e]] * pairs[e]
    return -data.share[i] * (best_set(data, theta, pairs, atom, work) - right)


@jit
def find_scores(data, shared, i, work):
    """Write what each label and each edge adds to the loss-augmented score of a set."""
    unaries(data, shared, i, work.chain)
    theta, pairs = work.theta, work.pairs
    flat = shared.reshape(shared.size)
    for k in range(data.n_labels):
        theta[k] = np.float64(work.chain.theta[k]) + (1.0 - 2.0 * data.truth[i, k])
    for e in range(data.first.size):
        pairs[e] = flat[data.transitions + e]


@jit
def score(data, shared, i, atom):
    """Return q (<w, psi(y)> - |t - y|)."""
    flat, truth = shared.reshape(shared.size), data.truth
    result, at = 0.0, shift(data, i)
    for k in range(data.n_labels):
        if atom[k] != truth[i, k]:
            sign = 1.0 - 2.0 * atom[k]
            result -= 1.0
            for f in range(data.feature_begin[i], data.feature_begin[i + 1]):
                value = 1.0 if is_unit(data) else np.float64(data.values[f])
                row = data.features[f + at] * columns(data)
                result += sign * value * flat[row + k]
    for e in range(data.first.size):
        result += edge_change(data, i, atom, e) * flat[data.transitions + e]
    return data.share[i] * result


@jit
def add(data, i, atom, scale, out):
    """Add scale (q / lambda) psi(y) to `out`; return -scale q |t - y|."""
    flat, truth = out.reshape(out.size), data.truth
    step, at = scale * data.share[i] / data.alpha, shift(data, i)
    wrong = 0
    for k in range(data.n_labels):
        if atom[k] != truth[i, k]:
            wrong += 1
            change = step if atom[k] == 0 else -step
            for f in range(data.feature_begin[i], data.feature_begin[i + 1]):
                value = 1.0 if is_unit(data) else np.float64(data.values[f])
                row = data.features[f + at] * columns(data)
                flat[row + k] += change * value
    for e in range(data.first.size):
        change = edge_change(data, i, atom, e)
        if change != 0.0:
            flat[data.transitions + e] += step * change
    return -scale * data.share[i] * wrong


@jit
def edge_change(data, i, atom, e):
    """Return t_j t_k - y_j y_k of an edge."""
    j, k = data.first[e], data.second[e]
    return np.float64(data.truth[i, j] * data.truth[i, k]) - atom[j] * atom[k]


@jit
def contains(data, i, atom):
    """Return whether the atom is a set of labels that may be chosen."""
    for k in range(data.n_labels):
        if atom[k] > 1:
            return False
    return data.kind != LISTED or is_listed(data, atom)


@jit
def prepare(data, i, move, work):
    """Keep the move, as the chances of labels and of edges."""
    atom, weights, atoms = move.atom, move.weights, move.atoms
    marginals, edges, first, second = (
        work.marginals,
        work.edges,
        data.first,
        data.second,
    )
    for k in range(data.n_labels):
        marginals[k] = atom[k]
    for e in range(first.size):
        edges[e] = atom[first[e]] * atom[second[e]]
    for b in range(weights.size):
        weight, at = np.float32(weights[b]), b * atom.size
        for k in range(data.n_labels):
            marginals[k] -= weight * atoms[at + k]
        for e in range(first.size):
            edges[e] -= weight * (atoms[at + first[e]] * atoms[at + second[e]])


@jit
def rate(data, shared, i, move, work, is_fresh):
    """Return <d, grad_i f>, from the scores that the oracle has just left, or anew."""
    if not is_fresh:
        find_scores(data, shared, i, work)
    marginals, edges, rise = work.marginals, work.edges, 0.0
    for k in range(data.n_labels):
        rise += marginals[k] * work.theta[k]
    for e in range(data.first.size):
        rise += edges[e] * work.pairs[e]
    return -data.share[i] * rise


@jit
def spread(data, i, move, scale, out, work):
    """Add scale A_i d to `out`; return -scale q (loss of d)."""
    width, features, values = columns(data), data.features, data.values
    marginals, edges, at = work.marginals, work.edges, shift(data, i)
    step = np.float32(-scale * data.share[i] / data.alpha)
    for c in range(0, width, LANES):
        row = times(fill(step, LANES), load(marginals, c, LANES))
        for f in range(data.feature_begin[i], data.feature_begin[i + 1]):
            place = features[f + at] * width + c
            if is_unit(data):
                accumulate(out, place, row)
            else:
                accumulate(out, place, times(fill(values[f], LANES), row))
    for c in range(0, edges.size, LANES):
        row = times(fill(step, LANES), load(edges, c, LANES))
        accumulate(out, data.transitions + c, row)
    loss = 0.0
    for k in range(data.n_labels):
        loss += (1.0 - 2.0 * data.truth[i, k]) * marginals[k]
    return -scale * data.share[i] * loss


@jit
def curvature(data, i, move, work):
    """Return lambda |A_i d|^2."""
    marginals, edges = work.marginals, work.edges
    of_labels, of_edges = fill(np.float32(0.0), LANES), fill(np.float32(0.0), LANES)
    for c in range(0, columns(data), LANES):
        row = load(marginals, c, LANES)
        of_labels = multiply_add(row, row, of_labels)
    for c in range(0, edges.size, LANES):
        row = load(edges, c, LANES)
        of_edges = multiply_add(row, row, of_edges)
    square = data.gram[i] * np.float64(total(of_labels)) + np.float64(total(of_edges))
    return data.share[i] ** 2 / data.alpha * square


@jit
def touched(data, i, move, rows, work):
    """List the features of the example, and all rows of edges."""
    width, count, at = columns(data), 0, shift(data, i)
    for f in range(data.feature_begin[i], data.feature_begin[i + 1]):
        rows[count] = data.features[f + at]
        count += 1
    for r in range(work.edges.size // width):
        rows[count] = data.first_transition + r
        count += 1
    return count
