"""The search for the best set of labels: the compiled half of `problems.label_sets`.

A set y has the score sum_k y_k theta_k + sum_e y_j y_k pair_e, where edge e joins the
labels j = first[e] and k = second[e]. Three kinds of search find the largest:

- FOREST: max-product from the leaves to the roots, in time O(K). Edges are listed
  parents first. Without edges every label is a root, and decides for itself.
- ALL: every set in turn, each one label apart from the last (a Gray code).
- LISTED: the sets that the record lists, each by its labels and its edges.

`data` is a record with the fields of `label_sets.Structure`.
"""

import numpy as np

from wolfpack.kernels.compile import entry, jit

FOREST, ALL, LISTED = 0, 1, 2


@jit
def best_set(data, theta, pairs, labels, work):
    """Write the best set as zeros and ones into `labels`; return its score."""
    if data.kind == LISTED:
        return best_listed(data, theta, pairs, labels)
    if data.kind == ALL:
        return best_of_all(data, theta, pairs, labels, work)
    return best_in_forest(data, theta, pairs, labels, work)


@jit
def best_in_forest(data, theta, pairs, labels, work):
    """Maximise from the leaves to the roots, then choose from the roots down.

    `gains[k]` is what label k gains, with the best choice of all labels below it. To it
    each child adds how much more it gains itself if its parent is chosen.
    """
    gains, first, second = work.gains, data.first, data.second
    total = 0.0
    for k in range(data.n_labels):
        gains[k] = theta[k]
        labels[k] = 2  # a root, until it is found to be a child
    for e in range(first.size - 1, -1, -1):
        child = gains[second[e]]
        without = max(child, 0.0)
        gains[first[e]] += max(child + pairs[e], 0.0) - without
        total += without
        labels[second[e]] = 0
    for k in range(data.n_labels):
        if labels[k] == 2:
            labels[k] = gains[k] > 0.0
            total += max(gains[k], 0.0)
    for e in range(first.size):
        gain = gains[second[e]] + (pairs[e] if labels[first[e]] == 1 else 0.0)
        labels[second[e]] = gain > 0.0
    return total


@jit
def best_of_all(data, theta, pairs, labels, work):
    """Visit all 2^K sets; `gains[k]` is what label k adds to the current one."""
    gains, table, n_labels = work.gains, work.table, data.n_labels
    table[:] = 0.0
    for e in range(data.first.size):
        table[data.first[e], data.second[e]] = pairs[e]
        table[data.second[e], data.first[e]] = pairs[e]
    for k in range(n_labels):
        gains[k] = theta[k]
    current, highest, score = 0, 0.0, 0.0
    best = 0
    for t in range(1, 1 << n_labels):
        k = 0
        while not (t >> k) & 1:
            k += 1
        sign = -1.0 if (current >> k) & 1 else 1.0
        score += sign * gains[k]
        current ^= 1 << k
        for j in range(n_labels):
            gains[j] += sign * table[k, j]
        if score > highest:
            best, highest = current, score
    for k in range(n_labels):
        labels[k] = (best >> k) & 1
    return highest


@jit
def best_listed(data, theta, pairs, labels):
    """Score each set of the list by its labels and its edges."""
    best, highest = 0, -np.inf
    for c in range(data.label_begin.size - 1):
        score = 0.0
        for f in range(data.label_begin[c], data.label_begin[c + 1]):
            score += theta[data.set_labels[f]]
        for f in range(data.edge_begin[c], data.edge_begin[c + 1]):
            score += pairs[data.set_edges[f]]
        if score > highest:
            best, highest = c, score
    for k in range(data.n_labels):
        labels[k] = 0
    for f in range(data.label_begin[best], data.label_begin[best + 1]):
        labels[data.set_labels[f]] = 1
    return highest


@jit
def is_listed(data, labels):
    """Return whether a set is in the list of a record of the kind LISTED."""
    size = 0
    for k in range(data.n_labels):
        size += labels[k]
    for c in range(data.label_begin.size - 1):
        f, end = data.label_begin[c], data.label_begin[c + 1]
        if end - f == size:
            while f < end and labels[data.set_labels[f]] == 1:
                f += 1
            if f == end:
                return True
    return False


@entry
def decode(data, scores, pairs, labels, margins, work):
    """Write the best set of each example, and the margins of its labels.

    `scores` are those of the labels. The margin of a label is how much the best set
    with it exceeds the best set without it. To find it, the label is forced to change
    by a score that outweighs all others. If `margins` has no columns, none are found.
    """
    theta, found = work.theta, work.found
    size = 1.0 + 2.0 * np.abs(pairs).sum()
    for i in range(len(scores)):
        theta[:] = scores[i]
        force = size + 2.0 * np.abs(theta).sum()
        highest, sign = 0.0, 0.0
        for k in range(-1, margins.shape[1]):
            if k >= 0:
                sign = -1.0 if labels[i, k] == 1 else 1.0
                theta[k] += sign * force
            score = best_set(data, theta, pairs, found, work)
            if k < 0:
                highest = score
                labels[i] = found
            else:
                other = score - force if sign > 0.0 else score
                margins[i, k] = sign * (other - highest)
                theta[k] = scores[i, k]
